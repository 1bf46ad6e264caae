"""Linear rates of a decision rule: what each counts, in numbers and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Bits, Floats, Ints, Mask
from tailboost.rates.strata import Strata

if TYPE_CHECKING:
    from tailboost.rates._limit import Limit

Matrix = tuple[tuple[float, ...], ...]


def wrong(answers: NDArray[Any], y: NDArray[Any]) -> Bits:
    """Return the zero-one losses of answers: True where an answer is not the label."""
    bits: Bits = answers != y
    return bits


@dataclass(frozen=True)
class _Kind:
    """What a rate counts: in which rows and answers, and among which.

    ``table(K, A, label)`` gives for each class and action what counts and among what, shape (K, A) each;
    where the second depends on the action the rate is a ratio of two that both depend on the rule.
    """

    words: str
    table: Callable[[int, int, int], tuple[Floats, Floats]]
    labelled: bool = False
    ratio: bool = False


def _answered(K: int, A: int) -> Floats:
    return np.broadcast_to((np.arange(A) < K).astype(np.float64), (K, A))


def _errors(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return _answered(K, A) * wrong(np.arange(A)[None, :], np.arange(K)[:, None]), np.ones((K, A))


def _errors_answered(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return _errors(K, A, label)[0], _answered(K, A)


def _is(n: int, label: int) -> Floats:
    return (np.arange(n) == label).astype(np.float64)


def _misses(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    of_class = np.repeat(_is(K, label)[:, None], A, axis=1)
    return of_class * (_answered(K, A) - _is(A, label)), of_class


def _false_alarms(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    others = np.repeat(1.0 - _is(K, label)[:, None], A, axis=1)
    return others * _is(A, label), others


def _selections(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return np.repeat(_is(A, label)[None, :], K, axis=0), np.ones((K, A))


def _passed_on(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return 1.0 - _answered(K, A), np.ones((K, A))


def _right_among(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    chosen = _selections(K, A, label)[0]
    return chosen * _is(K, label)[:, None], chosen


def _one_each(K: int, A: int, label: int) -> tuple[Floats, Floats]:
    return np.ones((K, A)), np.ones((K, A))


KINDS = {
    "error": _Kind("error", _errors),
    "miss": _Kind("share of {label} answered otherwise", _misses, labelled=True),
    "false_alarm": _Kind("share of the others answered {label}", _false_alarms, labelled=True),
    "selected": _Kind("share answered {label}", _selections, labelled=True),
    "cost": _Kind("mean cost", _one_each),
    "deferred": _Kind("share passed on", _passed_on),
    "precision": _Kind("share of {label} among those answered so", _right_among, labelled=True, ratio=True),
    "answered_error": _Kind("error among the answered", _errors_answered, ratio=True),
}


@dataclass(frozen=True)
class Rate:
    """A family of rates: the same count on each unit. Made by `error`, `miss` and others.

    It is compared with a number to state a limit: ``selected("yes") <= 0.3``, or with a dict by unit.

    Parameters
    ----------
    kind : str
        What is counted: the name of the function that makes it.
    label : str, int, float or bool, optional
        The label it is about.
    by : None, "class", "group", "cell", name of a column of groups, or tuple of names
        The units: all rows, each class, each group, each class within each group, or the groups of columns
        ("class" among several names stands for the label).
    matrix : tuple of tuples of float, optional
        Costs: row = truth, column = answer, and one more column for passing on if wanted.
    labels : tuple, optional
        The labels of the rows and columns of the matrix; in the order of ``classes_`` where there are none.
    """

    kind: str
    label: Any = None
    by: Any = None
    matrix: Matrix | None = None
    labels: tuple[Any, ...] | None = None

    # -- limits --------------------------------------------------------------------------------------

    def __le__(self, bound: Any) -> Limit:
        return self._limit("at most", bound)

    def __ge__(self, bound: Any) -> Limit:
        return self._limit("at least", bound)

    def _limit(self, form: str, bound: Any) -> Limit:
        from tailboost.rates._limit import Limit

        return Limit.of(form, self, bound)

    # -- arithmetic ----------------------------------------------------------------------------------

    @property
    def is_ratio(self) -> bool:
        """Whether the rows among which it counts depend on the rule, as for a precision."""
        return KINDS[self.kind].ratio

    @property
    def needs_deferral(self) -> bool:
        """Whether it speaks of rows that are passed on to a person."""
        return self.kind == "deferred"

    @property
    def needs_costs(self) -> bool:
        """Whether it is a mean of costs that are known row by row."""
        return self.kind == "cost" and self.matrix is None

    @property
    def needs_groups(self) -> bool:
        """Whether its units are groups."""
        names = self.by if isinstance(self.by, tuple) else (self.by,)
        return any(name not in (None, "class") for name in names)

    def tables(self, strata: Strata) -> tuple[Floats, Floats]:
        """Return for each class and action what counts, and among what, shape (K, A) each."""
        kind, K, A = KINDS[self.kind], strata.n_classes, strata.n_actions
        number = strata.label(self.label) if kind.labelled else -1
        counted, among = kind.table(K, A, number)
        if self.matrix is not None:
            counted = self._costs(strata)
        return counted, among

    def _costs(self, strata: Strata) -> Floats:
        assert self.matrix is not None
        costs, K = np.array(self.matrix, dtype=np.float64), strata.n_classes
        if costs.shape not in ((K, K), (K, K + 1)):
            raise ValueError(
                f"cost: the matrix has the shape {costs.shape}, but there are {K} classes: one row for each "
                "true label, one column for each answer, and at most one more for passing on"
            )
        if costs.shape[1] > strata.n_actions:
            costs = costs[:, :K]
        if self.labels is not None:
            order = np.array([strata.label(label) for label in self.labels])
            if len(set(order.tolist())) != K:
                raise ValueError(
                    f"cost: the matrix is of the labels {list(self.labels)}, the classes are "
                    f"{list(strata.classes)}"
                )
            place = np.argsort(order)
            costs = costs[place][:, [*place, *range(K, costs.shape[1])]]
        if costs.shape[1] < strata.n_actions:
            costs = np.column_stack([costs, np.zeros(K)])
        return costs

    def scale(self, strata: Strata) -> float:
        """Return the size of what is counted: 1, or the largest cost."""
        if self.kind != "cost":
            return 1.0
        sizes = strata.mean_costs if self.needs_costs else self.tables(strata)[0]
        return max(float(np.abs(sizes).max()), 1e-300) if sizes is not None else 1.0

    def terms(self, strata: Strata) -> Terms:
        """Return numerators and denominators over tallies, for each unit.

        Raises
        ------
        ValueError
            If the label, the groups or the costs that it speaks of are not there.
        """
        names, inside = strata.units(self.by)
        counted, among = (table[strata.y] for table in self.tables(strata))
        top, bottom = (inside[:, :, None] * table[None] for table in (counted, among))
        nothing = np.zeros_like(top)
        if strata.mean_costs is None:
            if self.needs_costs:
                raise ValueError(f"{self!r} is a mean of costs of the rows: give costs=, one of each answer")
        elif self.needs_costs:
            top, bottom = (np.concatenate(pair, axis=1) for pair in ((nothing, top), (bottom, nothing)))
        else:
            top, bottom = (np.concatenate([each, nothing], axis=1) for each in (top, bottom))
        fixed = inside @ strata.mass if self.is_ratio else bottom[:, : len(strata.mass), 0] @ strata.mass
        return Terms(names, top, bottom, fixed, self.is_ratio)

    def samples(
        self, strata: Strata, stratum: Ints, actions: Ints, costs: Floats | None = None
    ) -> list[Sample]:
        """Return the rows that each rate is a mean over, with what each contributes.

        Parameters
        ----------
        strata : Strata
            What the numbers mean.
        stratum, actions : ndarray of int, shape (n,)
            The stratum and the answer of each row.
        costs : ndarray of shape (n, A), optional
            What each action costs in each row.

        Returns
        -------
        list of Sample
            One for each unit: a rate is the weighted mean of the values, which lie between ``low`` and
            ``high``; that is all a certificate of a bounded mean has to know.
        """
        names, inside = strata.units(self.by)
        counted, among = self.tables(strata)
        y = strata.y[stratum]
        values, there = counted[y, actions], among[y, actions] > 0
        low, high = float(counted.min()), float(counted.max())
        if self.needs_costs:
            assert costs is not None
            values = costs[np.arange(len(actions)), actions]
            low, high = float(costs.min()), float(costs.max())
        rows = [np.flatnonzero(there & unit[stratum]) for unit in inside]
        return [Sample(name, row, values[row], low, high) for name, row in zip(names, rows, strict=True)]

    # -- words ---------------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """What is counted, without the units."""
        return KINDS[self.kind].words.format(label=repr(self.label))

    @property
    def units_words(self) -> str:
        """The units, for people: " by sex and race"; empty for all rows."""
        names = self.by if isinstance(self.by, tuple) else (self.by,)
        return "" if self.by is None else f" by {' and '.join(map(str, names))}"

    def __str__(self) -> str:
        return self.words + self.units_words

    def __repr__(self) -> str:
        said = [] if self.label is None else [repr(self.label)]
        if self.matrix is not None:
            said.append(repr([list(row) for row in self.matrix]))
        if self.labels is not None:
            said.append(f"labels={list(self.labels)!r}")
        if self.by is not None:
            said.append(f"by={self.by!r}")
        return f"{self.kind}({', '.join(said)})"


@dataclass(frozen=True, eq=False)
class Terms:
    """Rates over tallies: ⟨top, N⟩ / ⟨bottom, N⟩ for each unit.

    Parameters
    ----------
    names : list
        The units.
    top, bottom : ndarray of shape (m, W, A)
        W is S, or 2 S where tallies also hold costs.
    mass : ndarray of shape (m,)
        Share of the weight among which each rate counts; of a ratio that of the unit.
    is_ratio : bool
        Whether ``bottom`` depends on the answers.
    """

    names: list[Any]
    top: Floats
    bottom: Floats
    mass: Floats
    is_ratio: bool

    def values(self, tally: Floats) -> Floats:
        """Return the rates of a tally of shape (W, A), NaN where nothing is counted, shape (m,)."""
        top, bottom = (np.tensordot(each, tally, axes=2) for each in (self.top, self.bottom))
        there = bottom > 0
        return np.where(there, top / np.where(there, bottom, 1.0), np.nan)

    @property
    def defined(self) -> Mask:
        """Which units have rows to count among."""
        there: Mask = self.mass > 0
        return there

    @property
    def linear(self) -> Floats:
        """Matrices C with rate = ⟨C, N⟩, shape (m, W, A); 0 for a unit without rows."""
        return self.top / self._scale

    def beyond(self, level: Floats) -> Floats:
        """Return matrices C with ⟨C, N⟩ ≤ 0 exactly where the rates of units are at most ``level`` each.

        Of linear rates too, so that both kinds are treated alike; they are scaled by the mass of the unit.
        """
        return (self.top - level[:, None, None] * self.bottom) / self._scale

    @property
    def _scale(self) -> Floats:
        return np.where(self.mass > 0, self.mass, 1.0)[:, None, None]


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that a rate of one unit is the mean over.

    Parameters
    ----------
    name : object
        The unit.
    rows : ndarray of int
        Their numbers.
    values : ndarray
        What each contributes.
    low, high : float
        Between which values lie, whatever is answered.
    """

    name: Any
    rows: Ints
    values: Floats
    low: float
    high: float
