"""Optional methods of base learners, in addition to scikit-learn's.

Any scikit-learn classifier is a base learner: boosting clones and fits the classifier in every round. The
protocols below make boosting faster or better. Each is optional and recognised by its methods; no inheritance
is needed.

====================  ===============================================  =====================================
protocol              implemented by                                   purpose
====================  ===============================================  =====================================
`Learner`             the classifier passed as ``estimator``           read the table once for all rounds
`TableLearner`        the same                                         share one open table with others
`Session`             the result of ``open_session``                   fit and predict on the session's rows
`Growing`             a session                                        end a fit as soon as it is good enough
`Partitioned`         a session                                        share work among the folds
`AveragingLearner`    a session                                        keep the folds' models as a base model
`Accumulating`        a session                                        models of all rounds predict together
`PreparedProba`       the result of a session's ``fit``                prepare rows once for many base models
====================  ===============================================  =====================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from tailboost.core.array_types import Floats, Floats32, Ints, Mask, Model, Table


class Session(Protocol):
    """A learner with its rows. Labels are class numbers 0 … K − 1.

    Attributes
    ----------
    concurrent : bool
        Whether several fits may run in threads at the same time.
    """

    concurrent: bool

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return a model fitted on these rows (None: all) with weights of shape (n,)."""

    def predict(self, model: Model, rows: Mask | None = None) -> Ints:
        """Return the predictions of a base model for rows of the session, as class numbers."""


@runtime_checkable
class Growing(Protocol):
    """A session with a growing learner: a fit can end as soon as the model is good enough."""

    def stages(self, weight: Floats, seed: int, rows: Mask | None = None) -> Iterator[Any]:
        """Yield base models of increasing strength; the last is the result of ``fit``.

        ``next()`` may change the previous model. Otherwise set ``keeps_stages = True``: the best stage is
        then not grown again. Other fits may run in between.
        """


@runtime_checkable
class Partitioned(Protocol):
    """A session with shared work among the fits of a cross-fit."""

    def leave_out(self, fold: Ints) -> None:
        """Set the fold of each row before the first fit; −1 for rows in no fold.

        Fits on other rows than the complement of a fold remain possible.
        """


@runtime_checkable
class AveragingLearner(Protocol):
    """A session for learners with a smaller error of the folds' models together than of one model."""

    def mean(self, models: list[Any], weight: Floats, rows: list[Mask]) -> Any | None:
        """Return a model with the mean of the models; None if one model of all rows is better.

        Model j was fitted on ``rows[j]``, a mask of shape (n,). Each row is in some of the masks.
        """


@runtime_checkable
class Accumulating(AveragingLearner, Protocol):
    """A session for models with class probabilities, which several rounds can average.

    The base model of a round is one model of all rows, as a `Ranked` model, which ``mean`` returns.
    """

    @property
    def accumulates(self) -> bool:
        """Whether the rounds should predict together."""

    def probabilities(self, model: Model, rows: Mask) -> Floats32:
        """Return class probabilities of these rows of the session, shape (rows.sum(), K)."""


@runtime_checkable
class Learner(Protocol):
    """A classifier with one read of the table per fit of an ensemble, instead of one per round."""

    def open_session(self, X: Table, y: Ints, n_classes: int, sample_weight: Floats) -> Session:
        """Return a session on n rows with class numbers and sample weights, shape (n,) each."""


@runtime_checkable
class TableLearner(Protocol):
    """A learner for open tables. Its base models are `PreparedProba`."""

    def open_table(
        self, opened: object, y: Ints, n_classes: int, sample_weight: Floats
    ) -> Session:
        """Return a session on an `OpenTable` of n rows with class numbers and sample weights."""


@runtime_checkable
class PreparedProba(Protocol):
    """A base model with class probabilities. Base models with equal ``table_`` share a prepared table."""

    table_: Any  # hashable; ``table_.transform(X)`` returns the prepared table

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for ``table_.transform(X)``, shape (n, K)."""
