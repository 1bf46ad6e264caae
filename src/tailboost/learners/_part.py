"""A part of the rows of a fit that lies in this process, while the other parts lie in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats, Ints
from tailboost.learners._adjusted import LEAST_PROBABILITY
from tailboost.learners._hist import (
    AT_ONCE,
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


def in_blocks(
    function: Callable[[slice], NDArray[Any]], shape: int | tuple[int, ...], dtype: Any
) -> NDArray[Any]:
    """Fill an array by blocks of rows: what a row takes for a moment only is not taken for all at once."""
    filled = np.empty(shape, dtype=dtype)
    for start in range(0, len(filled), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        filled[rows] = function(rows)
    return filled


def code_type(n: int) -> np.dtype[Any]:
    """Return the smallest signed type that numbers n things."""
    return np.min_scalar_type(-max(n, 1))


class _Blocks(DataIter):
    """Tables that are read one after the other, so that only one is in memory."""

    def __init__(
        self, blocks: Sequence[Callable[[], Table]], kinds: list[str], prefix: str | None = None
    ) -> None:
        self.blocks, self.kinds = blocks, kinds
        self.left: Iterator[Callable[[], Table]] = iter(())
        super().__init__(cache_prefix=prefix)

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
    folder : Path, optional
        Where the bins lie while they are not looked at, in files as long as a block each; in memory by
        default. Fits are the same.
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
        folder: Path | None = None,
    ) -> None:
        self.learner, self.n_classes = learner, n_classes
        kinds = feature_kinds(learner, reader, n_classes)
        options, ref = binning_options(reference, kinds, threads)
        if folder is None:
            self.data = xgboost.QuantileDMatrix(_Blocks(blocks, kinds), ref=ref, **options)
        else:
            kept = _Blocks(blocks, kinds, str(folder / "bins"))
            self.data = xgboost.ExtMemQuantileDMatrix(kept, ref=ref, **options)
        self.data.set_info(label=learner._targets(y, n_classes))
        self.y, self.per_class = y, learner._tree_per_class(n_classes)
        self.params = {"max_bin": options["max_bin"], "nthread": threads}

    def fit(
        self,
        weight: NDArray[Any],
        own: Floats | None,
        params: dict[str, Any],
        check: Callable[[], None] = lambda: None,
    ) -> Any:
        """Return the booster of a fit to weighted rows.

        Parameters
        ----------
        weight, own : ndarray of shape (n,)
            Weights of this fit (float32 does), and with a tree per class (`per_class`) the rows' own weights.
        params : dict
            From `training_params`.
        check : callable
            Called before each iteration; it may raise to end the fit.
        """
        booster = xgboost.Booster(params | self.params, [self.data])
        if not self.per_class:
            self.data.set_weight(weight.astype(np.float32, copy=False))
        for i in range(self.learner._n_iterations()):
            check()
            if own is not None and self.per_class:
                boost_per_class(booster, self.data, i, self.y, weight, own)
            else:
                booster.update(self.data, i)
        return booster.reset()  # what it keeps of every row of a fit takes more than the rows' bins do

    def load(self, content: bytes) -> Any:
        """Return a booster from its stored form."""
        return _load(content)

    def answers(self, booster: Any) -> Ints:
        """Return the class numbers that a booster answers to all rows, shape (n,)."""
        margin = booster.predict(self.data, output_margin=True)
        return in_blocks(
            lambda rows: self.learner._index(margin[rows]), len(margin), code_type(self.n_classes)
        )

    def log_probabilities(self, booster: Any) -> NDArray[np.float32]:
        """Return the logarithms of the class probabilities of all rows, shape (n, K)."""
        margin = booster.predict(self.data, output_margin=True)

        def logs(rows: slice) -> Floats:
            return np.log(np.maximum(self.learner._probabilities(margin[rows]), LEAST_PROBABILITY))

        return in_blocks(logs, (len(margin), self.n_classes), np.float32)


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
