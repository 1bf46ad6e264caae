"""The trade-off of two rates: a Pareto front on the selection data, and the classifier of each point."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tailboost.core.array_types import Column, Floats, Groups, Model, Stated, Table
from tailboost.core.checks import check_indexes, unpack
from tailboost.core.html import html_table, text_table
from tailboost.rates import AT_LEAST, Limit, Objective, Spread, error, measure
from tailboost.rates import deferred as deferred_rate
from tailboost.rows.judged import group_arguments, judged, predicted_labels
from tailboost.selection.problem import Problem
from tailboost.selection.rate_table import RateTable
from tailboost.solvers.tradeoff import undominated

# Points of a printed table.
POINTS_SHOWN = 12
# More than the rounding error of confusion counts.
COUNT_SLACK = 1e-9


class Points(NamedTuple):
    """Two rates along a trade-off, on some rows.

    Attributes
    ----------
    limited : ndarray of shape (B,)
        The limited rate at each point of the curve.
    value : ndarray of shape (B,)
        The minimised rate at each point.
    """

    limited: Floats
    value: Floats


@dataclass(frozen=True)
class CurvePoint:
    """One point of a trade-off, on the selection data.

    Parameters
    ----------
    limited : float
        The limited rate.
    value : float
        The minimised rate.
    classifier : classifier
        The classifier with these rates.
    """

    limited: float
    value: float
    classifier: Model = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, eq=False)
class Curve:
    """The trade-off of two rates, made by ``tradeoff()``: no point is worse than another one in both rates.

    The curve is exact on the selection data. `predicted` gives both rates on other rows.

    Attributes
    ----------
    points : tuple of CurvePoint
        From the tightest limit to the loosest, each with its classifier.
    limited : Objective or Spread
        The limited rate.
    objective : Objective
        The minimised rate.
    measured_on : str
        Description of the selection data.
    gap : float
        Largest distance by which a mixture of the candidates lies below the lines between the points;
        infinite if it is not known.
    limits : tuple of Limit
        Limits on other rates, which each point satisfies.
    bound : float or None
        Bound of the classifier's own limit on the limited rate; None without one.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import tailboost as tb
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = tb.tune(GaussianNB().fit(X[::3], y[::3]), X[1::3], y[1::3])
    >>> curve = clf.tradeoff()
    >>> cheapest = curve.at(curve[0].limited)
    >>> overall, worst = curve.predicted(X[2::3], y[2::3])
    """

    points: tuple[CurvePoint, ...]
    limited: Stated
    objective: Stated
    measured_on: str
    # ``at(limit, point)`` returns the classifier within a limit: that of a point, or a new one if no point is
    # within the limit; or raises.
    _at: Callable[[Limit, Any], Any] = field(repr=False)
    _source: Model = field(repr=False)  # the classifier of which ``tradeoff`` was called
    gap: float = float("inf")
    limits: tuple[Limit, ...] = ()
    bound: float | None = None
    # Whether the points were selected on counts of other groups than the classifier.
    _recounted: bool = field(default=False, repr=False)
    # All curves of one call: a point may be picked from any of them, on rows where another was measured.
    _curves: list[Curve] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._curves.append(self)

    def __iter__(self) -> Iterator[CurvePoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, place: int) -> CurvePoint:
        return self.points[place]

    @property
    def values(self) -> Points:
        """Both rates of each point on the selection data, arrays of shape (B,)."""
        limited = np.array([point.limited for point in self])
        value = np.array([point.value for point in self])
        return Points(limited, value)

    @property
    def on_rows(self) -> str:
        """The rows on which the points are measured, and the limits on other rates that each point keeps."""
        words = f"on {self.measured_on}"
        if self.limits:
            words += f", within {'; '.join(map(str, self.limits))}"
        return words

    @property
    def deferred(self) -> Floats | None:
        """Share of deferred rows of each point on the selection data, shape (B,).

        None without deferral, and if it is one of the two rates.
        """
        share = deferred_rate()
        is_traded = str(share) in (str(self.limited), str(self.objective))
        if is_traded or not any(judged(point.classifier).can_defer for point in self):
            return None
        return np.array(
            [judged(point.classifier).measured(share).lines[0].value for point in self]
        )

    def at(self, level: float | str) -> Any:
        """Return the classifier with the least objective if the other rate is limited to ``level``.

        Parameters
        ----------
        level : float or str
            Bound of the limited rate, also in percent, such as "30%".

        Returns
        -------
        classifier
            With the same models; no model is trained.

        Raises
        ------
        InfeasibleLimitsError
            If no rule satisfies the limit.

        Notes
        -----
        Rows given to `predicted` before are selection data of the returned classifier, and
        `tailboost.certify` refuses them. So they are if given in another form; a table of features and a dict
        of probabilities have no column in common by which rows could be recognised.
        """
        limit = self.limited.within(level)
        in_percent = limit.in_percent or any(other.in_percent for other in self.limits)
        limit = replace(limit, in_percent=in_percent)
        classifier = None
        point = self._within_level(limit.bound)
        if point is not None:
            classifier = point.classifier
        # A copy: the classifier of a point records later rows, the returned one does not.
        classifier = copy.copy(self._at(limit, classifier))
        if self.points:  # their records have all rows on which curves were measured
            classifier.records_ = classifier.records_.using(*self[0].classifier.records_.used)
        return classifier

    def _within_level(self, level: float) -> CurvePoint | None:
        """Return the point with the least objective within a limit; None if there is none."""
        limit = self.limited.within(level)
        points_within = [point for point in self.points if limit.keeps(point.limited, level)]
        return min(points_within, key=attrgetter("value"), default=None)

    def level(self, place: int) -> float:
        """Return the shortest number for which `at` returns the classifier of a point.

        Parameters
        ----------
        place : int
            Index of the point.

        Returns
        -------
        float
            A limit of the limited rate.

        Examples
        --------
        >>> import numpy as np
        >>> import tailboost as tb
        >>> p, rng = np.linspace(0, 1, 2000), np.random.default_rng(0)
        >>> clf = tb.RobustMixtureClassifier.from_probabilities({"ours": p}, rng.random(2000) < p)
        >>> curve = clf.tradeoff()
        >>> curve.at(curve.level(0)).limits == [tb.rates.error() <= curve.level(0)]
        True
        """
        exact = self[place].limited
        mixtures_between_points = self.gap < float("inf")
        if mixtures_between_points:  # another number gives another rule
            return exact
        towards_looser: Callable[[float], Any] = np.floor
        if self.limited.within(self.limited.most).from_above:
            towards_looser = np.ceil
        for digits in range(2, 16):
            level = round(towards_looser(exact * 10**digits) / 10**digits, digits)
            if self._within_level(level) is self[place]:
                return float(level)
        return exact

    def rates(self, place: int) -> RateTable:
        """Return the rates of a point by subgroup, with intervals, on the selection data.

        Parameters
        ----------
        place : int
            Index of the point.

        Returns
        -------
        RateTable
            The overall error, both rates of the curve, the other limits, and the deferred rows if the
            classifier can defer.
        """
        classifier = self[place].classifier
        stated = [self.limited.within(self.level(place)), *self.limits]
        further_rates = [self.objective.rate, error()]
        if judged(classifier).can_defer:
            further_rates.append(deferred_rate())
        limited = [limit.rate for limit in stated]
        stated += [rate for rate in dict.fromkeys(further_rates) if rate not in limited]
        return judged(classifier).measured(*stated)

    def predicted(
        self, X: Table, y: Column, *, groups: Groups = None, sample_weight: Column = None
    ) -> Points:
        """Return both rates of `predict` at every point, on other rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows not used in the fit, or a dict of the models' probabilities of the rows.
        y : array-like of shape (n,)
            Labels.
        groups : array-like of shape (n,), dict or data frame, optional
            Groups, if rates are about groups.
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        Points
            A named pair of arrays, ``limited`` and ``value``. Deferred rows count as deferred.
        """
        check_indexes(X=X, y=y, groups=groups, sample_weight=sample_weight)
        X, y = unpack(X, y)
        judged_source = judged(self._source)
        record = judged_source.reading(X, y)
        for curve in self._curves:
            for point in curve:
                point.classifier.records_ = point.classifier.records_.using(record)

        classifiers = [point.classifier for point in self.points]
        rates = [
            self._measured(y, answers, deferred, groups=groups, sample_weight=sample_weight)
            for answers, deferred in judged_source.answers_of(classifiers, X, groups)
        ]
        limited, value = np.array(rates).reshape(-1, 2).T
        return Points(limited, value)

    def measured(
        self,
        others: Mapping[str, Any],
        X: Table,
        y: Column,
        *,
        groups: Groups = None,
        sample_weight: Column = None,
    ) -> dict[str, tuple[float, float]]:
        """Return the same two rates of `predict` of other classifiers.

        Parameters
        ----------
        others : mapping of name to fitted classifier
            Classifiers of the labels of ``y``.
        X, y, groups, sample_weight
            As in `predicted`.

        Returns
        -------
        dict of name to (limited, value)
        """
        check_indexes(X=X, y=y, groups=groups, sample_weight=sample_weight)
        measured = {}
        for name, classifier in others.items():
            arguments = group_arguments(classifier, groups)
            deferred = None
            if judged(classifier).can_defer:
                deferred = classifier.defers(X, **arguments)
            answers = predicted_labels(classifier, X, **arguments)
            measured[name] = self._measured(
                y, answers, deferred, groups=groups, sample_weight=sample_weight
            )
        return measured

    def _measured(
        self, y: Column, answers: Column, deferred: Any, **rows: Any
    ) -> tuple[float, float]:
        """Return both rates of answers, of which some may be deferred; ``rows`` are groups and weights."""
        rows |= {"deferred": deferred, "labels": self.points[0].classifier.classes_}
        limited = _measured(self.limited, y, answers, **rows)
        return limited, _measured(self.objective, y, answers, **rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain types, for JSON."""
        limited, value = self.values
        curve = {"limited": limited.tolist(), "objective": value.tolist()}
        deferred = self.deferred
        if deferred is not None:
            curve["share_deferred"] = deferred.tolist()
        return {
            "limited": str(self.limited),
            "objective": str(self.objective),
            "measured_on": self.measured_on,
            "curve": curve,
        }

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and cells of the table of points; many points are thinned evenly.

        The point that serves the limit of the classifier itself is never left out, and has a mark.
        """
        n_shown = min(len(self), POINTS_SHOWN)
        shown = np.linspace(0, len(self) - 1, n_shown).round().astype(int).tolist()
        heads = [str(self.limited), str(self.objective)]
        columns = [*self.values]
        deferred = self.deferred
        if deferred is not None:
            heads.append(str(deferred_rate()))
            columns.append(deferred)
        marks = dict[int, str]()
        if self.bound is not None and (own := self._within_level(self.bound)) is not None:
            marks[self.points.index(own)] = f"within your limit {self.bound:.4g}"
            heads.append("")
        rows = []
        for place in sorted({*shown, *marks}):
            cells = [f"{column[place]:.4f}" for column in columns]
            if marks:
                cells.append(marks.get(place, ""))
            rows.append(cells)
        return heads, rows

    def _words(self, n_shown: int) -> str:
        """Return the sentences below the table: the rows of the rates, the certificate, and hidden points."""
        words = f"{self.on_rows}; fresh rows differ, see predicted(X, y)."
        words = words[:1].upper() + words[1:]
        if judged(self._source).certificate is not None:
            words += " The certificate is about the selected rule alone."
        if n_shown < len(self):
            words += f" {n_shown} of {len(self)} points are shown."
        return words

    def __str__(self) -> str:
        heads, rows = self._cells()
        return f"{text_table(heads, rows, left=())}\n{self._words(len(rows))}"

    def _repr_html_(self) -> str:
        heads, rows = self._cells()
        return html_table(heads, rows, self._words(len(rows)))


def _measured(objective: Any, y: Column, answers: Column, **rows: Any) -> float:
    """Return an objective, a gap or a ratio of answers, in the form of `tailboost.rates.measure`."""
    if not isinstance(objective, (Objective, Spread)):
        return float(objective.of_answers(y, answers, **rows))
    values = measure(objective.rate, y, answers, **rows).values()
    return objective.value(np.array([*values], dtype=np.float64))


def ends_of_curve(
    limited: Stated, rate: Callable[[Problem], float], problem: Problem
) -> tuple[float, float]:
    """Return the limited rate of the rule of least objective, and of the rule with the tightest limit.

    ``rate(problem)`` is the limited rate of the rule that is selected for a problem.
    """
    loosest = rate(problem)
    if limited.compares:
        return loosest, limited.least
    return loosest, rate(replace(problem, objective=limited))


def limits_between(
    limited: Stated, rate: Callable[[Problem], float], problem: Problem, n_points: int
) -> list[Limit]:
    """Return limits on a rate from the loosest end of a curve to the tightest, each with a little room.

    Parameters are as in `ends_of_curve`; ``n_points`` is the number of limits.
    """
    limits = []
    loosest, tightest = ends_of_curve(limited, rate, problem)
    sign = limited.within(limited.most).sign
    for level in np.linspace(loosest, tightest, n_points):
        eased = sign * min(sign * level + COUNT_SLACK, sign * limited.most)
        limits.append(limited.within(float(eased)))
    return limits


def undominated_rules(limited: Stated, reached: Floats, value: Floats) -> list[int]:
    """Return the numbers of the undominated rules, from the tightest limit to the loosest.

    Parameters
    ----------
    limited : Objective or Spread
        The limited rate; a ratio is limited from below.
    reached, value : ndarray of shape (T,)
        The limited rate and the objective of each rule.
    """
    reached = limited.within(limited.most).sign * reached
    defined = np.flatnonzero(~np.isnan(reached) & ~np.isnan(value))
    order = undominated(value[defined].round(12), reached[defined].round(12))
    return defined[order].tolist()


def bound_of(problem: Problem, limited: Stated) -> float | None:
    """Return the bound of a problem's limit on the limited rate of a curve; None without such a limit.

    A least recall is a largest miss rate: the bound is then 1 minus the bound of the limit.
    """
    form = limited.within(limited.most).form
    for limit in problem.limits:
        # Bounds by subgroup are no point of a curve.
        if not isinstance(limit.bound, (int, float)):
            continue
        if limit.form == form and limit.rate == limited.rate:
            return float(limit.bound)
        if limit.form == AT_LEAST and replace(limit.rate, complement=True) == limited.rate:
            return round(1.0 - float(limit.bound), 12)  # 1 − .9 is .1
    return None


def fractions_of(deferred: Any) -> list[float]:
    """Return the checked fractions of rows that may be deferred, from 0 to below 1: one for each curve."""
    fractions = [
        float((deferred_rate() <= fraction).bound)
        for fraction in np.ravel(np.asarray(deferred, dtype=object)).tolist()
    ]
    inside = all(fraction < 1.0 for fraction in fractions)
    repeated = len(set(fractions)) < len(fractions)
    if not fractions or not inside or repeated:
        raise ValueError(
            "deferred must be different fractions of the rows, from 0 to below 1, got "
            f"{deferred!r}"
        )
    return fractions
