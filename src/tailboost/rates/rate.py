"""Linear rates of a decision rule and limits on them: their arithmetic over tallies, and their words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.spelling import meant
from tailboost.rates.kinds import KINDS
from tailboost.rates.strata import Strata, plain

Matrix = tuple[tuple[float, ...], ...]

AT_MOST, AT_LEAST, GAP, RATIO = "at most", "at least", "gap", "ratio"
# More than the rounding error of a tally.
ROUNDING = 1e-9
# Sides on which a rate is bounded.
ABOVE, BELOW = "above", "below"


class Expression:
    """What can be said with rates: a rate, the largest of a family, a gap or ratio, a limit.

    All answer the same questions, so that nobody has to ask which of them one is.
    """

    rate: Any  # the family of rates that it is about
    limit: Any = None  # the limit that it is, if it is one
    worst: bool = False  # whether it is the largest of the family
    compares: Any = False  # whether it is about a gap or ratio between units, not about each of them
    sides: Any = ()  # on which sides rates are bounded to certify it; none of what has no certificate

    def of_rate(self, rate: Rate, unit: Callable[[Any], Any]) -> Expression:
        """Return the same of another rate, whose units are called ``unit(name)``."""
        this: Any = self
        return replace(this, rate=rate)

    def __lt__(self, bound: Any) -> Any:
        raise TypeError(f"a limit includes its bound: write {self!r} <= {bound!r}")

    def __gt__(self, bound: Any) -> Any:
        raise TypeError(f"a limit includes its bound: write {self!r} >= {bound!r}")


def as_expression(given: Any) -> Expression | None:
    """Return what is said with rates; None of anything else."""
    return given if isinstance(given, Expression) else None


@dataclass(frozen=True)
class Rate(Expression):
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
        return Limit.of(AT_MOST, self, bound)

    def __ge__(self, bound: Any) -> Limit:
        return Limit.of(AT_LEAST, self, bound)

    # -- as an expression ----------------------------------------------------------------------------

    sides = ABOVE, BELOW

    @property
    def rate(self) -> Rate:
        """The rate that it is."""
        return self

    def of_rate(self, rate: Rate, unit: Callable[[Any], Any]) -> Rate:
        """Return the other rate."""
        return rate

    # -- arithmetic ----------------------------------------------------------------------------------

    @property
    def is_ratio(self) -> bool:
        """Whether the rows among which it counts depend on the rule, as for a precision."""
        return KINDS[self.kind].ratio

    @property
    def needs_deferral(self) -> bool:
        """Whether rows may be passed on because of it: it counts them, or says what a person's look costs."""
        return self.kind == "deferred" or (self.matrix is not None and len(self.matrix[0]) > len(self.matrix))

    @property
    def counts_deferral(self) -> bool:
        """Whether it depends on which rows are deferred, whatever the answers to the others are."""
        return self.needs_deferral or self.kind == "answered_error"

    @property
    def can_be_lowered(self) -> bool:
        """Whether it can be an objective."""
        return KINDS[self.kind].lowered

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

    def range(self, strata: Strata) -> tuple[float, float]:
        """Return between which values what is counted lies, whatever is answered."""
        if self.needs_costs:
            return strata.cost_range
        counted = self.tables(strata)[0]
        return float(counted.min()), float(counted.max())

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
        self, strata: Strata, stratum: Ints, actions: Any, costs: Floats | None = None
    ) -> list[Sample]:
        """Return the rows that each rate is a mean over, with what each contributes.

        Parameters
        ----------
        strata : Strata
            What the numbers mean.
        stratum : ndarray of int, shape (n,)
            The stratum of each row.
        actions : ndarray of int, shape (n,), or of float, shape (n, A)
            The answer to each row, or the share of each action where a rule draws.
        costs : ndarray of shape (n, A), optional
            What each action costs in each row.

        Returns
        -------
        list of Sample
            One for each unit: a rate is the weighted mean of the values, which lie between ``low`` and
            ``high``; that is all a certificate of a bounded mean has to know.
        """
        names, inside = strata.units(self.by)
        counted, among = (table[strata.y[stratum]] for table in self.tables(strata))
        low, high = self.range(strata)
        if self.needs_costs:
            assert costs is not None
            counted = costs
        if actions.ndim == 1:
            each = np.arange(len(actions)), actions
            values, share = counted[each], among[each]
        else:
            values, share = ((table * actions).sum(axis=1) for table in (counted, among))
        part = self.is_ratio and actions.ndim == 2
        found = []
        for name, unit in zip(names, inside, strict=True):
            rows = np.flatnonzero((share > 0) & unit[stratum])
            found.append(Sample(name, rows, values[rows], low, high, share[rows] if part else None))
        return found

    # -- words ---------------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """What is counted, without the units."""
        return KINDS[self.kind].words.format(label=repr(self.label))

    def __str__(self) -> str:
        names = self.by if isinstance(self.by, tuple) else (self.by,)
        return self.words if self.by is None else f"{self.words} by {' and '.join(map(str, names))}"

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
    among : ndarray, optional
        Of a ratio of a rule that draws: with which share each row is among those it is about.
    """

    name: Any
    rows: Ints
    values: Floats
    low: float
    high: float
    among: Floats | None = None

    @property
    def mean(self) -> float:
        """The rate of these rows, which count one each; NaN without rows."""
        if not len(self.rows):
            return float("nan")
        return float(self.values.sum() / (len(self.rows) if self.among is None else self.among.sum()))

    @property
    def mirrored(self) -> Sample:
        """The same of what is not counted: each value is ``low + high`` less itself."""
        whole = 1.0 if self.among is None else self.among
        return replace(self, values=(self.low + self.high) * whole - self.values)

    def taken(self, places: Any) -> Sample:
        """Return some of the rows, by their places in ``rows`` or a mask of these."""
        among = None if self.among is None else self.among[places]
        return replace(self, rows=self.rows[places], values=self.values[places], among=among)

    def ordered(self, rank: Floats) -> Sample:
        """Return the same rows in the order of a rank of all rows, shape (n,)."""
        return self.taken(np.argsort(rank[self.rows], kind="stable"))

    def with_rows_of(self, samples: Sequence[Sample]) -> Sample:
        """Return the rows of several units of this one's rate together."""
        parts = [(each.rows, each.values, each.among) for each in samples]
        rows, values, among = zip(*parts, strict=True)
        whole = None if self.among is None else np.concatenate(among)
        return replace(self, name=None, rows=np.concatenate(rows), values=np.concatenate(values), among=whole)

    def without_rows(self, name: Any) -> Sample:
        """Return what a unit without rows has."""
        return Sample(name, self.rows[:0], self.values[:0], self.low, self.high)


@dataclass(frozen=True)
class RateRow:
    """One inequality of a program: ``⟨matrix, N⟩ + free z ≤ bound``.

    Parameters
    ----------
    matrix : ndarray of shape (W, A)
        Over tallies.
    free : float
        Coefficient of the limit's free variable; 0 where it has none.
    bound : float
        The right side.
    """

    matrix: Floats
    free: float
    bound: float


@dataclass(frozen=True)
class Limit(Expression):
    """A limit on a family of rates.

    Parameters
    ----------
    form : {"at most", "at least", "gap", "ratio"}
        Whether each rate is limited from above or below, the largest less the smallest from above, or the
        smallest over the largest from below.
    rate : Rate
        The family.
    bound : float or tuple of (unit, float) pairs
        The number; of units by name, where None stands for the rest and units not named are free.
    margins : tuple of m tuples of m floats, optional
        Of a gap or ratio: by how much each pair of units has to keep the limit, see `with_margins`.
    """

    form: str
    rate: Rate
    bound: Any
    margins: Matrix | None = None

    @classmethod
    def of(cls, form: str, rate: Rate, bound: Any) -> Limit:
        """Return the limit, checked as far as it can be without rows.

        Raises
        ------
        TypeError, ValueError
            If the bound is no number, or is one that nothing or everything keeps.
        """
        if isinstance(bound, Mapping) and form in (AT_MOST, AT_LEAST):
            if not bound:
                raise ValueError(f"{rate!r}: a dict of bounds must name a unit, got {{}}")
            pairs = tuple((plain(name), _number(rate, value)) for name, value in bound.items())
            return cls(form, rate, pairs)
        value = _number(rate, bound)
        if form in (GAP, RATIO):
            if rate.is_ratio:
                raise ValueError(
                    f"{form}({rate!r}): the rows that {rate.words!r} counts among depend on the answers, so "
                    "that its differences are no linear program; limit it in each unit instead"
                )
            if rate.by is None:
                raise ValueError(f"{form}({rate!r}) compares units: say which, as by='group'")
            most = np.inf if form == GAP else 1.0
            if not 0.0 <= value <= most:
                raise ValueError(f"{form}({rate!r}): the bound must be from 0 to {most:g}, got {value:g}")
        return cls(form, rate, value)

    def bounds(self, names: list[Any]) -> Floats:
        """Return the bound of each unit, NaN for one that is free, shape (m,).

        Raises
        ------
        ValueError
            If a unit is named that there is not.
        """
        if not isinstance(self.bound, tuple):
            return np.full(len(names), float(self.bound))
        known = {plain(name): i for i, name in enumerate(names)}
        given = dict(self.bound)
        found = np.full(len(names), given.pop(None, np.nan)) if names != [None] else np.full(1, np.nan)
        for name, value in given.items():
            if name not in known:
                near = meant(name, known)
                raise ValueError(f"{self!r}: no unit is called {name!r}: {near}there are {names[:20]}")
            found[known[name]] = value
        return found

    @property
    def rest(self) -> float:
        """The bound of the units that it does not name, NaN if they are free."""
        return float(dict(self.bound).get(None, np.nan) if isinstance(self.bound, tuple) else self.bound)

    def rows(self, strata: Strata) -> list[RateRow]:
        """Return the inequalities of the limit, scaled to rates of about 1.

        Rates without rows to count among have none.
        """
        terms, scale = self.rate.terms(strata), self.rate.scale(strata)
        there = terms.defined
        if self.compares:
            each = terms.linear[there] / scale
            if len(each) < 2:
                return []
            if self.margins is not None:
                return self._pairs(each, np.array(self.margins)[np.ix_(there, there)] / scale, scale)
            level, least = (self.bound / scale, 1.0) if self.form == GAP else (0.0, self.bound)
            return [RateRow(C, -1.0, level) for C in each] + [RateRow(-C, least, 0.0) for C in each]
        bounds = self.bounds(terms.names)
        there &= ~np.isnan(bounds)
        sign = 1.0 if self.form == AT_MOST else -1.0
        if terms.is_ratio:
            return [RateRow(sign * C, 0.0, 0.0) for C in terms.beyond(np.nan_to_num(bounds))[there]]
        pairs = zip(terms.linear[there] / scale, bounds[there] / scale, strict=True)
        return [RateRow(sign * C, 0.0, sign * b) for C, b in pairs]

    def _pairs(self, each: Floats, margins: Floats, scale: float) -> list[RateRow]:
        """Return an inequality for each ordered pair of rates, tighter by its margin."""
        times, level = (1.0, self.bound / scale) if self.form == GAP else (self.bound, 0.0)
        pairs = zip(*np.nonzero(~np.eye(len(each), dtype=bool)), strict=True)
        return [RateRow(times * each[i] - each[j], 0.0, level - float(margins[i, j])) for i, j in pairs]

    def with_margins(self, margins: Floats) -> Limit:
        """Return the gap or ratio that each pair of units keeps by a margin.

        Parameters
        ----------
        margins : ndarray of shape (m, m)
            The margin of each ordered pair (i, j) of units: of a gap in ``rᵢ − rⱼ ≤ bound``, of a ratio in
            ``bound rᵢ − rⱼ ≤ 0``.
        """
        return replace(self, margins=tuple(map(tuple, margins.tolist())))

    @property
    def compares(self) -> bool:
        """Whether it is about a gap or ratio between units, not about each of them."""
        return self.form in (GAP, RATIO)

    @property
    def of_every(self) -> bool:
        """Whether it is about every unit, not about named ones alone."""
        return not isinstance(self.bound, tuple) or any(name is None for name, _ in self.bound)

    @property
    def limit(self) -> Limit:
        """The limit that it is."""
        return self

    @property
    def sides(self) -> tuple[str, ...]:
        """On which sides rates are bounded to certify that it is kept."""
        return (ABOVE, BELOW) if self.compares else (ABOVE,) if self.from_above else (BELOW,)

    def of_rate(self, rate: Rate, unit: Callable[[Any], Any]) -> Limit:
        """Return the same limit on another rate, whose units are called ``unit(name)``."""
        if not isinstance(self.bound, tuple):
            return replace(self, rate=rate)
        pairs = tuple((None if name is None else unit(name), value) for name, value in self.bound)
        return replace(self, rate=rate, bound=pairs)

    @property
    def from_above(self) -> bool:
        """Whether what it is about may not be larger than the bound."""
        return self.form in (AT_MOST, GAP)

    def keeps(self, value: float, bound: float) -> bool | None:
        """Return whether a number keeps a bound of this limit; None where one of them is NaN."""
        if np.isnan(value) or np.isnan(bound):
            return None
        return bool((value - bound if self.from_above else bound - value) <= ROUNDING)

    def tightened(self, widths: Mapping[Any, float]) -> Limit:
        """Return the limit with bounds that are tighter by a number for each unit, or for what it compares.

        Parameters
        ----------
        widths : dict
            By how much, by unit; of a gap or ratio by its form.
        """
        sign = -1.0 if self.from_above else 1.0
        if self.compares:
            moved = self.bound + sign * np.nan_to_num(widths[self.form])
            return replace(self, bound=float(max(0.0, moved) if self.form == GAP else min(1.0, moved)))
        bounds = self.bounds(list(widths)) + sign * np.nan_to_num(list(widths.values()))
        pairs = zip(widths, bounds.tolist(), strict=True)
        return replace(self, bound=tuple(pair for pair in pairs if not np.isnan(pair[1])))

    def excess(self, names: list[Any], values: Floats) -> Floats:
        """Return by how much rates break the limit, 0 where they keep it; undefined rates break nothing.

        Parameters
        ----------
        names : list
            The units.
        values : ndarray of shape (..., m)
            The rates of the units, of one rule or of many.

        Returns
        -------
        ndarray of shape (...)
        """
        if self.margins is not None:
            times, bound = (1.0, self.bound) if self.form == GAP else (self.bound, 0.0)
            apart = times * values[..., :, None] - values[..., None, :] + np.array(self.margins) - bound
            others = ~np.eye(values.shape[-1], dtype=bool)
            pairs = np.where(np.isnan(apart), 0.0, apart)[..., others]
            return np.maximum(pairs.max(axis=-1, initial=0.0), 0.0)
        if self.compares:
            known = ~np.isnan(values)
            least = np.where(known, values, np.inf).min(axis=-1)
            largest = np.where(known, values, -np.inf).max(axis=-1)
            with np.errstate(invalid="ignore"):  # of rules of which no rate is known
                over = largest - least - self.bound if self.form == GAP else self.bound * largest - least
            return np.where(known.any(axis=-1), np.maximum(over, 0.0), 0.0)
        over = values - self.bounds(names)
        found: Floats = np.nan_to_num(over if self.form == AT_MOST else -over).max(axis=-1, initial=0.0)
        return found

    def distance(self, names: list[Any], values: Floats) -> Floats:
        """Return by how much rates break the limit, in its own number; negative where they have room.

        Parameters
        ----------
        names : list
            The units.
        values : ndarray of shape (..., m)
            The rates of the units; NaN is left out.

        Returns
        -------
        ndarray of shape (...)
            −∞ where no rate is known.
        """
        known = ~np.isnan(values)
        if self.compares:
            least = np.where(known, values, np.inf).min(axis=-1)
            largest = np.where(known, values, -np.inf).max(axis=-1)
            with np.errstate(invalid="ignore", divide="ignore"):
                over = (
                    largest - least - self.bound
                    if self.form == GAP
                    else self.bound - np.where(largest > 0, least / np.where(largest > 0, largest, 1.0), 1.0)
                )
            return np.where(known.any(axis=-1), over, -np.inf)
        over = values - self.bounds(names)
        found: Floats = np.where(np.isnan(over), -np.inf, over if self.form == AT_MOST else -over).max(
            axis=-1
        )
        return found

    def said_of(self, values: Floats) -> float:
        """Return the number the limit is about: the gap, the ratio, the largest or the least of the rates."""
        known = values[~np.isnan(values)]
        if not len(known):
            return float("nan")
        if self.form == GAP:
            return float(np.ptp(known))
        if self.form == RATIO:
            return float(known.min() / known.max()) if known.max() > 0 else 1.0
        return float(known.max() if self.form == AT_MOST else known.min())

    def terms(self, strata: Strata) -> Terms:
        """Return the terms of its rates."""
        return self.rate.terms(strata)

    def __bool__(self) -> bool:
        raise TypeError(f"a limit is neither true nor false; write two limits instead of a chain: {self!r}")

    def __str__(self) -> str:
        if isinstance(self.bound, tuple):
            rest = "" if len(self.bound) == 1 else " for the others"
            each = [f"{value:g}{rest if name is None else f' for {name}'}" for name, value in self.bound]
            return f"{self.rate}: {self.form} {', '.join(each)}"
        sense = {GAP: "gap at most", RATIO: "ratio at least"}.get(self.form, self.form)
        return f"{self.rate}: {sense} {self.bound:g}"

    def __repr__(self) -> str:
        sign = "<=" if self.from_above else ">="
        left = f"{self.form}({self.rate!r})" if self.compares else repr(self.rate)
        right = dict(self.bound) if isinstance(self.bound, tuple) else self.bound
        return f"{left} {sign} {right!r}"


def _number(rate: Rate, bound: Any) -> float:
    if isinstance(bound, bool) or not isinstance(bound, (Real, np.floating, np.integer)):
        raise TypeError(f"{rate!r}: a bound must be a number or a dict of numbers by unit, got {bound!r}")
    value = float(bound)
    if not np.isfinite(value):
        raise ValueError(f"{rate!r}: a bound must be finite, got {bound!r}")
    if rate.kind != "cost" and not 0.0 <= value <= 1.0:
        percent = f"; write {value / 100:g} for {value:g} %" if 2.0 <= value <= 100.0 else ""
        raise ValueError(f"{rate!r}: a share lies between 0 and 1, got {value:.15g}{percent}")
    return value
