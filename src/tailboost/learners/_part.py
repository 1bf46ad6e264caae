"""A part of the rows of a fit that lies in this process, while the other parts lie in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tailboost._typing import Floats, Ints
from tailboost.learners._hist import (
    HistBoostClassifier,
    HistTreeClassifier,
    _load,
    binning_options,
    boost_per_class,
)
from tailboost.learners._table import Table, TableReader

try:
    import xgboost
    from xgboost import DataIter
except ImportError:  # an optional extra
    xgboost, DataIter = None, object

BinnedLearner = HistBoostClassifier | HistTreeClassifier


class _Blocks(DataIter):
    """Tables that are read one after the other, so that only one is in memory."""

    def __init__(self, blocks: Sequence[Callable[[], Table]], kinds: list[str]) -> None:
        self.blocks, self.kinds = blocks, kinds
        self.left: Iterator[Callable[[], Table]] = iter(())
        super().__init__()

    def reset(self) -> None:
        self.left = iter(self.blocks)

    def next(self, input_data: Callable[..., Any]) -> bool:
        block = next(self.left, None)
        if block is None:
            return False
        input_data(data=block(), feature_types=self.kinds)
        return True


class BinnedPart:
    """Rows binned once. Where XGBoost's communicator is open, fits are to the rows of all parts together.

    Parameters
    ----------
    learner : HistBoostClassifier or HistTreeClassifier
        What is fitted.
    blocks : sequence of callables
        Return the tables of the rows, one at a time (see `TableReader.transform`).
    y : ndarray of shape (n,)
        Class numbers.
    n_classes : int
        K.
    reference : float32 array
        The cuts, see `cut_table`.
    reader : TableReader
        That made the tables.
    threads : int
        For fits.
    """

    def __init__(
        self,
        learner: BinnedLearner,
        blocks: Sequence[Callable[[], Table]],
        y: Ints,
        n_classes: int,
        reference: Table,
        reader: TableReader,
        threads: int,
    ) -> None:
        self.learner = learner
        kinds = feature_kinds(learner, reader, n_classes)
        options, ref = binning_options(reference, kinds, threads)
        self.data = xgboost.QuantileDMatrix(_Blocks(blocks, kinds), ref=ref, **options)
        self.data.set_info(label=learner._targets(y, n_classes))
        self.y, self.per_class = y, learner._tree_per_class(n_classes)
        self.params = {"max_bin": options["max_bin"], "nthread": threads}

    def fit(
        self, weight: Floats, own: Floats, params: dict[str, Any], check: Callable[[], None] = lambda: None
    ) -> Any:
        """Return the booster of a fit to weighted rows.

        Parameters
        ----------
        weight, own : ndarray of shape (n,)
            Weights of this fit, and the rows' own weights.
        params : dict
            From `training_params`.
        check : callable
            Called before each iteration; it may raise to end the fit.
        """
        booster = xgboost.Booster(params | self.params, [self.data])
        if not self.per_class:
            self.data.set_weight(weight.astype(np.float32))
        for i in range(self.learner._n_iterations()):
            check()
            if self.per_class:
                boost_per_class(booster, self.data, i, self.y, weight, own)
            else:
                booster.update(self.data, i)
        return booster

    def load(self, content: bytes) -> Any:
        """Return a booster from its stored form."""
        return _load(content)

    def answers(self, booster: Any) -> Ints:
        """Return the class numbers that a booster answers to all rows, shape (n,)."""
        return self.learner._index(booster.predict(self.data, output_margin=True))

    def probabilities(self, booster: Any) -> Floats:
        """Return the class probabilities of all rows, shape (n, K)."""
        return self.learner._probabilities(booster.predict(self.data, output_margin=True))


def feature_kinds(learner: BinnedLearner, reader: TableReader, n_classes: int) -> list[str]:
    """Return XGBoost's types of the columns: it cannot split sets of categories with vector leaves."""
    kinds = reader.feature_types
    return ["q"] * len(kinds) if learner._vector_leaves(n_classes) else kinds


def member_of(learner: BinnedLearner, content: bytes, reader: TableReader, n_classes: int) -> Any:
    """Return the learner as fitted elsewhere, from the stored form of its booster."""
    from sklearn.base import clone

    model = clone(learner)
    model.classes_ = np.arange(n_classes)
    model.n_features_in_ = len(reader.categories_)
    model.table_, model.backend_, model.model_ = reader, "xgboost", content
    return model
