"""The trade-off of two rates: a Pareto front on the selection data, and the classifier of each point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailboost.core import (
    Column,
    Document,
    Floats,
    Groups,
    Stated,
    Table,
    frozen_object,
    html_table,
    positions,
    text_table,
)
from tailboost.core.ranges import COUNT, check_number
from tailboost.rates import (
    AT_MOST,
    EACH,
    GAP,
    LARGEST,
    RATIO,
    SIGNS,
    Counts,
    InfeasibleLimitsError,
    Statistic,
    Strata,
    as_objective,
    as_statistics,
    error,
)
from tailboost.rows import SELECTED_ON, Rows
from tailboost.selection.search import NAMED, OVERALL_ERROR, Charges, Problem, first_pool
from tailboost.solvers.tradeoff import undominated

if TYPE_CHECKING:
    from tailboost.classifiers.selected_models import TunedClassifier

# The statistic of the rates that a limit of each form limits.
FORMS = {AT_MOST: LARGEST, GAP: GAP, RATIO: RATIO}
# Points of a printed table.
POINTS_SHOWN = 12


class Point(NamedTuple):
    """A point of a curve: both rates on the selection data, and the classifier with these rates."""

    limited: float
    objective: float
    classifier: TunedClassifier


@frozen_object
class Curve:
    """The trade-off of two rates, made by ``tradeoff()``: no point is beaten by another one in both rates.

    The points are rules that were searched for some limits, with their exact rates on the selection data;
    between them there may be others. `predicted` gives both rates on other rows.

    Attributes
    ----------
    points : tuple of Point
        From the tightest limit to the loosest: the limited and the minimised rate, and their classifier.
    limited : Statistic
        The limited rate.
    objective : Statistic
        The minimised rate.
    measured_on : str
        Description of the selection data, and the limits on other rates that each point keeps.
    bound : float or None
        Bound of the classifier's own limit on the limited rate; None without one, or with a bound for each
        subgroup.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import tailboost as tb
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = tb.tune(GaussianNB().fit(X[::3], y[::3]), X[1::3], y[1::3])
    >>> curve = clf.tradeoff()
    >>> least, _, cheapest = curve[0]
    >>> overall, worst = curve.predicted(X[2::3], y[2::3])
    """

    points: tuple[Point, ...]
    limited: Statistic
    objective: Statistic
    measured_on: str
    bound: float | None
    # The classifier of the least objective within the limits on other rates.
    _least: TunedClassifier = field(repr=False)

    @classmethod
    def of(cls, classifier: TunedClassifier, a: Stated, b: Stated, n_points: int) -> Curve:
        """Return the curve of two rates on the selection data of a classifier; arguments as of `tradeoff`.

        Raise InfeasibleLimitsError if the limits on other rates contradict each other.
        """
        check_number(n_points, "n_points", COUNT)

        # 1. Candidates with the strata of both rates, and the rule of the least objective.
        selection = classifier.selection_
        limited, problem = traded(selection.problem, a, b)
        objective = problem.objective
        others = problem.limits
        if objective.worst and "groups" in objective.rate.needs:
            problem = replace(problem, infer_groups=selection.engine.column_read is None)
        # A limit that each rule keeps: it only names the limited rate.
        loosest = limited.within(limited.loosest)
        engine = selection.engine.on(problem.within((*others, loosest)))
        strata = engine.family.data.strata
        pool = first_pool(engine.family, Charges(strata, objective, others))
        least = engine.select(problem, pool)
        of_least = classifier._answering_by(least)
        of_least.set_params(objective=objective, error_budget=problem.error_budget)

        # 2. Each selection within a level adds the rules of its search to the pool.
        largest = limited.value(limited.rate.terms(strata).values(least.counts))
        if limited.compares:
            tightest = limited.value(np.ones(1))  # of equal rates: a gap of 0, a ratio of 1
        else:
            lowest = engine.select(replace(problem, objective=limited))  # in a pool of its own
            tightest = lowest.charges.value(lowest.counts)
        for level in np.linspace(largest, tightest, n_points).round(12).tolist():
            with suppress(InfeasibleLimitsError):
                engine.select(problem.within((*others, limited.within(level))), pool)

        # 3. The undominated rules of the pool, from the tightest limit to the least objective.
        rates, values = rates_of([limited, objective], strata, pool.counts).round(12)
        keeps = [*map(least.charges.keeps, pool.counts)]
        kept = np.flatnonzero(~np.isnan(rates + values) & keeps)
        points = []
        order = undominated(values[kept], SIGNS[limited.sense] * rates[kept])
        for i in kept[order].tolist():
            rate = float(rates[i])
            limits = (*others, limited.within(rate))
            rule = engine.selected(pool, i, problem.within(limits), limits)
            points.append(Point(rate, float(values[i]), of_least._answering_by(rule)))

        # 4. The place of the classifier's own limit; bounds by subgroup have none.
        bounds = {(each.form, each.rate): each.bound for each in selection.problem.limits}
        bound = bounds.get((loosest.form, loosest.rate))
        if isinstance(bound, tuple):
            bound = None
        words = ", within ".join(map(str, (engine.words, *others)))
        return cls(tuple(points), limited, objective, words, bound, of_least)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, number: int) -> Point:
        return self.points[number]

    @property
    def values(self) -> Floats:
        """The limited and the minimised rate of each of B points on the selection data, shape (2, B)."""
        return np.array([point[:2] for point in self]).reshape(-1, 2).T

    def at(self, level: float | str) -> TunedClassifier:
        """Return the classifier of the point with the least objective within a limit on the other rate.

        If no point keeps the limit, a rule is selected within it.

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
        The returned classifier knows the rows that `predicted` had, and `tailboost.certify` refuses
        them, unless they come in another form: a table of features and a dict of probabilities have no column
        in common by which rows could be recognised.
        """
        limit = self.limited.within(level)
        least = self._least.selection_
        limits = (*least.problem.limits, limit)
        for point in reversed(self):  # the least objective first
            if limit.keeps(point.limited, limit.bound):
                rule = point.classifier.selection_
                return point.classifier._answering_by(rule.stated_within(limits))
        selection = least.within(limits)
        selection.warn()
        return self._least._answering_by(selection)

    def predicted(
        self, X: Table, y: Column, *, groups: Groups = None, sample_weight: Column = None
    ) -> Floats:
        """Return both rates of `predict` at every point, on other rows.

        From then on all rules of this fit know these rows, by which one of them may be chosen: they are no
        fresh rows for `tailboost.certify`.

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
        ndarray of shape (2, B)
            The limited and the minimised rate of each point. Deferred rows count as deferred.

        Raises
        ------
        ValueError
            If an argument is not as described, or a rate needs groups, or costs of rows, which are not read.
        """
        given = Rows.read(X, y, groups, sample_weight)
        classes = self._least.classes_
        data = Counts.stratified(
            positions(given.classes, classes, "y")[given.y],
            given.groups.T,
            given.weight,
            classes,
            given.names,
            defers=self._least.selection_.defers,
        )
        # The models score the rows once; then the rule of each point answers them.
        decided = self._least.__tailboost__()
        scored = decided.score(given.X, given.columns)
        record = decided.seen(scored, given, SELECTED_ON)
        answered = [replace(scored, selected=each.classifier.selection_) for each in self]
        counts = [data.counts(each.numbers(classes)) for each in answered]
        rates = rates_of([self.limited, self.objective], data.strata, counts)
        self._least.ledger_.judge(record)
        return rates

    def to_dict(self) -> Document:
        """Return the curve as plain types, for JSON."""
        limited, value = self.values.tolist()
        return {
            "limited": str(self.limited),
            "objective": str(self.objective),
            "measured_on": self.measured_on,
            "curve": {"limited": limited, "objective": value},
        }

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        """Return headings, cells and a sentence on the rows; many points are thinned evenly."""
        heads = [str(self.limited), str(self.objective)]
        shown = np.linspace(0, len(self) - 1, min(len(self), POINTS_SHOWN)).round().astype(int)
        rows = [[*map("{:.4f}".format, point)] for point in self.values.T[shown]]
        words = f"{len(shown)} of {len(self)} points, on {self.measured_on}; fresh rows differ."
        return heads, rows, words

    def __str__(self) -> str:
        heads, rows, words = self._cells()
        return f"{text_table(heads, rows, left=())}\n{words}"

    def _repr_html_(self) -> str:
        return html_table(*self._cells())


def traded(problem: Problem, a: Stated, b: Stated) -> tuple[Statistic, Problem]:
    """Return a limited rate, and the problem of another one within the limits on further rates.

    Parameters
    ----------
    problem : Problem
        The problem of a classifier.
    a, b : rate, largest, gap or ratio, optional
        The limited and the minimised rate, see `TunedClassifier.tradeoff`.
    """
    # 1. Both rates, as they are stated or by default.
    limited, minimised = as_statistics([a, b])
    if isinstance(minimised, Statistic) and minimised.compares:  # a gap or ratio is limited
        limited, minimised = minimised, limited
    if minimised is None:
        minimised = problem.objective if limited is None else OVERALL_ERROR
    if limited is None:
        of_limits = (
            Statistic(EACH if limit.rate.by is None else FORMS[limit.form], limit.rate)
            for limit in problem.limits
            if limit.form in FORMS
        )
        limited = next((each for each in of_limits if each != minimised), OVERALL_ERROR)
    if limited == minimised:
        minimised = NAMED["worst_class"]
    objective = as_objective(minimised)
    is_compared = isinstance(limited, Statistic) and limited.compares
    if not is_compared and limited != as_objective(limited):  # its complement
        raise ValueError(
            f"a curve limits its rate from above, and {limited!r} should be large: give '1 - {limited!r}', "
            "at 5% in place of 95%"
        )

    # 2. The limits on other rates: the traded rates vary, and have none, also by a budget.
    varied = {limited.rate, replace(limited.rate, complement=False)}
    if objective.worst:
        varied.add(objective.rate)
    others = tuple(limit for limit in problem.limits if limit.rate not in varied)
    problem = replace(problem, objective=objective, limits=others)
    if error() in (limited.rate, *problem.rates):
        problem = replace(problem, error_budget=None)
    return limited, problem


def rates_of(
    statistics: Sequence[Statistic], strata: Strata, counts: Sequence[Floats]
) -> Floats:
    """Return each of some statistics of B rules with these confusion counts, shape (…, B)."""
    confusions = np.array(counts)
    return np.array(
        [[*map(each.value, each.rate.terms(strata).values(confusions))] for each in statistics]
    )
