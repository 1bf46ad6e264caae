"""What a learner may offer beyond scikit-learn's interface.

Any classifier of scikit-learn is a learner: it is cloned and fitted for every round. The protocols below
let a learner do better than that. Each is optional and recognised by its methods; nothing is inherited.

================  ================================================  ======================================
protocol          who has it                                        what it is for
================  ================================================  ======================================
`Learner`         the classifier that a user passes as `estimator`  open the data once for all rounds
`TableLearner`    the same                                          share one opened table with others
`Session`         what `open_session` returns                       fit and predict on the opened rows
`Growing`         a session                                         stop a fit when it is good enough
`Partitioned`     a session                                         share work among the fits of a cross-fit
`AveragingLearner`       a session                                         keep the models of a cross-fit as
a member
`Accumulating`    a session                                         let models of all rounds answer together
`BaseModel`          what a session's `fit` returns                    predict class numbers
`Prepared`        a member                                          prepare rows once for many members
`PreparedProba`   a prepared member                                 the same for probabilities
================  ================================================  ======================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints, Mask


class Session(Protocol):
    """A learner with its data opened. Labels are class numbers 0 … K − 1.

    Attributes
    ----------
    concurrent : bool
        Whether several fits may run at the same time in threads.
    """

    concurrent: bool

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return a `BaseModel` fitted on the rows (all without ``rows``) with these weights, shape (n,)."""

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Return the class numbers that a member of this session predicts for the opened rows."""


@runtime_checkable
class Growing(Protocol):
    """A session whose learner grows in stages, so that a fit can end as soon as it is good enough."""

    def stages(self, weight: Floats, seed: int, rows: Mask | None = None) -> Iterator[Any]:
        """Yield members of growing strength; the last one is that of ``fit``.

        The next ``next()`` may change the yielded member; the last one is final. A session whose attribute
        ``lasting_stages`` is True says that it changes none: the best one is then kept, not grown again.
        Sessions must allow other fits, finished or not, in between.
        """


@runtime_checkable
class Partitioned(Protocol):
    """A session that can share work among fits that leave out one part of the rows each."""

    def leave_out(self, part: Ints) -> None:
        """Tell, before the first fit, which rows are judged together, by models that did not see them.

        ``part`` is the number of each row's part, −1 for rows that are never left out. A fit whose ``rows``
        are not the complement of a part, or all, remains possible.
        """


@runtime_checkable
class AveragingLearner(Protocol):
    """A session whose models of the parts of a cross-fit err less together than one fitted to all rows."""

    def mean(self, models: list[Any], weight: Floats, rows: list[Mask]) -> Any | None:
        """Return a `BaseModel` that answers by the mean of models; None where a fit to all rows is better.

        Model j is what ``fit`` returned for ``rows[j]``, masks of shape (n,): together all rows, none of them
        in all.
        """


@runtime_checkable
class Accumulating(AveragingLearner, Protocol):
    """A session whose models know class probabilities, so that those of several rounds answer together.

    Then one model of all rows answers for a round, and ``mean`` returns a `Ranked` member, of one model too.
    """

    @property
    def accumulates(self) -> bool:
        """Whether rounds should answer together."""

    def probabilities(self, model: Any, rows: Mask) -> NDArray[np.float32]:
        """Return class probabilities of some of the opened rows, shape (rows.sum(), K)."""


@runtime_checkable
class Learner(Protocol):
    """A classifier that opens the data once per fit of an ensemble, not once per round."""

    def open_session(self, X: Any, y: Ints, n_classes: int, sample_weight: Floats) -> Session:
        """Open a table with n rows, with their class numbers and sample weights, shape (n,) each."""


@runtime_checkable
class TableLearner(Protocol):
    """A learner of numbers and categories that may lie opened already; its members are `PreparedProba`."""

    def open_table(self, opened: Any, y: Ints, n_classes: int, sample_weight: Floats) -> Session:
        """Open an `OpenTable` of n rows, with their class numbers and sample weights, shape (n,) each."""


class BaseModel(Protocol):
    """A fitted hypothesis. Predictions must not change it, so that threads can share it."""

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""


@runtime_checkable
class Prepared(Protocol):
    """A member that answers from a prepared table; members with the same ``table_`` share the preparation."""

    table_: Any  # hashable; ``table_.transform(X)`` returns the prepared table

    def predict_table(self, table: Any) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""


@runtime_checkable
class PreparedProba(Protocol):
    """A member that answers class probabilities from a prepared table."""

    table_: Any

    def predict_proba_table(self, table: Any) -> Floats:
        """Return class probabilities for ``table_.transform(X)``, shape (n, K)."""
