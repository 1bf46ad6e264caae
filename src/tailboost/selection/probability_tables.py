"""Logarithms of the models' class probabilities, each made when a member first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.frozen import FrozenEstimator

from tailboost.boosting.training_set import LOTS, Rows
from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import check_probabilities, in_class_order
from tailboost.core.fingerprints import hash_rows
from tailboost.core.warn import warn_user
from tailboost.selection.row_order import better_order

# Least probability: a class that a model gives 0 must still be answered if its weight is large enough.
LEAST_PROBABILITY = 1e-6
# Rows of probabilities may be off 1 by this much, as where they were printed with two digits.
SUM_TOLERANCE = 1e-2


class Averaging(Protocol):
    """How the log-probabilities of several models are averaged."""

    @property
    def weights(self) -> Floats:
        """Their weights."""

    @property
    def offset(self) -> Floats:
        """What is added for each class."""

    @property
    def asked(self) -> Ints:
        """Numbers of the models that it reads."""

    def of(self, logs: Iterable[Floats]) -> Floats:
        """Return the average of the log-probabilities of these, shape (n, K)."""


class LogTable:
    """The log-probabilities of some rows by source, shape (n, K) each.

    Parameters
    ----------
    n_rows : int
        n.
    of_model : callable
        ``of_model(i)`` returns the log-probabilities of model i.
    groups : ndarray of shape (n,), optional
        Number of the group of each row, for members that answer by it.
    n_models : int
        How many models there are.
    X : table of n rows, optional
        Features of the rows, for members that infer groups from them.
    average : Averaging, optional
        Of all models; without one the mean is even.
    """

    def __init__(
        self,
        n_rows: int,
        of_model: Callable[[int], Floats],
        groups: Ints | None = None,
        n_models: int = 0,
        X: Any = None,
        average: Averaging | None = None,
    ) -> None:
        self.n_rows, self._of_model, self.groups = n_rows, of_model, groups
        self.n_models, self.X, self.average = n_models, X, average
        self._known: dict[Any, Any] = {}

    @classmethod
    def of(
        cls, tables: Sequence[Floats], groups: Ints | None = None, average: Averaging | None = None
    ) -> LogTable:
        """Return the table of log-probabilities that are all there."""
        return cls(len(tables[0]), lambda i: tables[i], groups, len(tables), average=average)

    def knowing(self, groups: Ints | None) -> LogTable:
        """Return the table with the groups of the rows."""
        return LogTable(self.n_rows, self._of_model, groups, self.n_models, self.X, self.average)

    def beside(self, X: Any) -> LogTable:
        """Return the table with the features of the rows."""
        return LogTable(self.n_rows, self._of_model, self.groups, self.n_models, X, self.average)

    def __getitem__(self, model: int) -> Floats:
        found: Floats = self.derived(model, lambda: self._of_model(model))
        return found

    @property
    def pooled(self) -> Floats:
        """The average of all models' log-probabilities, shape (n, K)."""

        def make() -> Floats:
            if self.average is not None:
                return self.average.of(self[i] for i in self.average.asked.tolist())
            mean: Floats = np.mean([self[i] for i in range(self.n_models)], axis=0)
            return mean

        found: Floats = self.derived("pooled", make)
        return found

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what ``make`` computes from this table, computed once for a key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def check_named(probabilities: Any) -> None:
    """Raise unless there are probabilities by name."""
    if not isinstance(probabilities, Mapping):
        raise TypeError(f"probabilities must be a dict of arrays by name, got {type(probabilities).__name__}")
    if not probabilities:
        raise ValueError("probabilities must hold those of at least one model, got {}")
    if other := [name for name in probabilities if not isinstance(name, str)]:
        raise TypeError(f"probabilities: names must be text, got {other[0]!r}")


def logs_by_name(
    probabilities: Mapping[str, Any],
    classes: NDArray[Any],
    n_rows: int | None = None,
    least: float = LEAST_PROBABILITY,
) -> dict[str, Floats]:
    """Return the log-probabilities that were given for new rows by model, checked, shape (n, K) each.

    Columns of a data frame are found by the labels that name them.

    Raises
    ------
    ValueError
        If they are no probabilities of the classes, or of different numbers of rows.
    """
    first, of = next(iter(probabilities)), "y"
    if n_rows is None:
        n_rows, of = len(np.asarray(probabilities[first])), f"probabilities[{first!r}]"
    logs = {}
    for name, given in probabilities.items():
        called = f"probabilities[{name!r}]"
        logs[name] = logs_of(in_class_order(given, called, classes), called, n_rows, len(classes), of, least)
    return logs


def logs_of(
    probabilities: Any, name: str, n_rows: int, n_classes: int, of: str, least: float = LEAST_PROBABILITY
) -> Floats:
    """Return the log-probabilities of one model, checked, shape (n, K); no probability is below ``least``.

    Raises
    ------
    ValueError
        If they are no probabilities of n rows and K classes.
    """
    shape = np.shape(probabilities)
    if (n_columns := 2 if len(shape) == 1 else shape[-1] if shape else 0) != n_classes:
        raise ValueError(
            f"{name} has {n_columns} column{'s' * (n_columns != 1)}, but there are {n_classes} classes: one "
            "column for each, in the order of `classes`"
        )
    P = check_probabilities(probabilities, n_rows, name, of, tolerance=SUM_TOLERANCE).clip(min=0.0)
    logs: Floats = np.log(np.maximum(P / P.sum(axis=1, keepdims=True), least))
    return logs


@dataclass(eq=False)
class Models:
    """The models behind the members: a prepared table of their log-probabilities."""

    names: list[str]  # what they are called
    n_classes: int  # K
    fitted: list[Any]  # the models; none where only probabilities were given
    columns: list[Ints]  # class number of each column of a model's probabilities
    average: Averaging | None = None  # learned on the selection data; even weights without one

    @property
    def pooled_models(self) -> list[int]:
        """Numbers of the models that the average asks."""
        return list(range(len(self.names))) if self.average is None else self.average.asked.tolist()

    def pool(self, table: LogTable) -> Floats:
        """Return P(y | x) of the rows of a table by all models, shape (n, K)."""
        return softmax(table.pooled, axis=1)

    def transform(self, X: Any) -> LogTable:
        """Return the log-probabilities of the rows of a table; a model is asked when they are needed."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        read = cache(lambda reader: reader.transform(X))  # models of one opened table share its reader
        return LogTable(
            n,
            lambda i: self.logs(i, self.fitted[i], self.columns[i], X, n, read),
            None,
            len(self.names),
            X,
            self.average,
        )

    def logs(
        self,
        i: int,
        model: Any,
        columns: Ints,
        X: Any,
        n_rows: int,
        read: Callable[[Any], Any] | None = None,
    ) -> Floats:
        """Return the log-probabilities of a model under the name of model i.

        Parameters
        ----------
        i : int
            Whose name it has.
        model : classifier
            One with `PreparedProba` answers from a table that is read by ``read``.
        columns : ndarray
            Class number of each column of its probabilities.
        X : table of n rows
            The rows.
        n_rows : int
            n.
        read : callable, optional
            ``read(model.table_)`` returns the rows as the model's table prepares them.
        """
        whole = np.zeros((n_rows, self.n_classes))
        if hasattr(model, "predict_proba_table") and not isinstance(model, FrozenEstimator):
            # Fitted on an opened table, it knows the columns, not the names that scikit-learn asks for.
            whole[:, columns] = model.predict_proba_table(
                model.table_.transform(X) if read is None else read(model.table_)
            )
        else:
            whole[:, columns] = model.predict_proba(X)
        return logs_of(whole, f"predict_proba of {self.names[i]!r}", n_rows, self.n_classes, "X")

    def given(
        self,
        probabilities: Mapping[str, Any],
        needed: Sequence[int],
        classes: NDArray[Any],
        n_rows: int | None = None,
    ) -> LogTable:
        """Return the log-probabilities that were given for new rows, as many as there are labels if known.

        Columns of a data frame that are named by the labels of the classes may be in any order.

        Raises
        ------
        ValueError
            If one that is needed is missing, a name is unknown, or they are not probabilities.
        """
        check_named(probabilities)
        if stray := set(probabilities) - set(self.names):
            raise ValueError(
                f"probabilities: no model is called {sorted(map(str, stray))}; there are {self.names}"
            )
        if missing := [self.names[i] for i in needed if self.names[i] not in probabilities]:
            raise ValueError(
                f"probabilities: those of {missing} are missing, and members with a share use them"
            )
        logs = logs_by_name(probabilities, classes, n_rows)
        n_rows = len(next(iter(logs.values())))
        return LogTable(n_rows, lambda i: logs[self.names[i]], None, len(self.names), average=self.average)


@dataclass(frozen=True)
class Judged:
    """Log-probabilities of models on rows that they were not fitted on: all that the choice rests on."""

    models: Models  # the models
    logs: tuple[Floats, ...]  # (n, K), their log-probabilities
    rows: Rows  # the rows, with their groups where there are any

    @classmethod
    def of(cls, models: Models, logs: Sequence[Floats], rows: Rows) -> Judged:
        """Return them with what each row draws: by its probabilities, whoever made them.

        Rows of one content, known by what they draw there, are one row; where that is not known, as of rows
        given as probabilities alone, all are different.
        """
        if rows.lots is None:
            number = np.arange(len(rows.y))
        else:
            keys = np.column_stack([hash_rows(np.hstack(logs)), rows.lots.astype(np.uint64)])
            number = np.unique(keys, axis=0, return_inverse=True)[1]
        return cls(models, tuple(logs), replace(rows, lots=(number.ravel() % LOTS).astype(np.uint16)))

    def check_order(self, classes: NDArray[Any]) -> None:
        """Warn of models whose probabilities fit the labels better in another order of the columns."""
        y = self.rows.y
        for name, logs in zip(self.models.names, self.logs, strict=True):
            if (order := better_order(logs, y)) is None:
                continue
            said = logs.argmax(axis=1)
            warn_user(
                f"probabilities[{name!r}]: the label has the largest probability in {np.mean(said == y):.0%} "
                f"of {self.rows.words} with columns in the order {classes.tolist()}, and in "
                f"{np.mean(said == order[y]):.0%} with {classes[np.argsort(order)].tolist()}: "
                "is `classes=` right?"
            )

    @property
    def table(self) -> LogTable:
        """The log-probabilities by source."""
        return LogTable.of(self.logs, self.rows.groups, self.models.average)

    def kept(self) -> Judged:
        """Return these, by which members can be made and asked again.

        Raises
        ------
        ValueError
            Where the rows lie elsewhere, and sums of the members' losses are all there is.
        """
        if not self.logs:
            raise ValueError(
                f"of {self.rows.words} sums of errors were kept, not the probabilities: for another "
                "objective, for groups and for what predict answers, give X and y"
            )
        return self
