"""The trade-off of two rates: a Pareto front on the selection data, and the classifier of each point."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from tailboost.core import (
    Column,
    Document,
    Floats,
    Groups,
    Stated,
    Table,
    check_indexes,
    frozen_object,
    html_table,
    text_table,
)
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
    as_objective,
    as_statistics,
    error,
)
from tailboost.rows import SELECTED_ON, Rows
from tailboost.selection.search import NAMED, OVERALL_ERROR, Problem, Program, first_rules
from tailboost.selection.selection import Engine
from tailboost.solvers.tradeoff import undominated

if TYPE_CHECKING:
    from tailboost.classifiers.selected_models import TunedClassifier

# A point: the limited and the minimised rate on the selection data, and the classifier with these rates.
Point = tuple[float, float, "TunedClassifier"]
# The statistic of the rates that a limit of each form limits.
FORMS = {AT_MOST: LARGEST, GAP: GAP, RATIO: RATIO}
# Points of a printed table.
POINTS_SHOWN = 12


@frozen_object
class Curve:
    """The trade-off of two rates, made by ``tradeoff()``: no point is worse than another one in both rates.

    The curve is exact on the selection data. `predicted` gives both rates on other rows.

    Attributes
    ----------
    points : tuple of (float, float, classifier)
        From the tightest limit to the loosest: the limited and the minimised rate, and their classifier.
    limited : Statistic
        The limited rate.
    objective : Statistic
        The minimised rate.
    measured_on : str
        Description of the selection data, and the limits on other rates that each point keeps.
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
    >>> least, _, cheapest = curve[0]
    >>> overall, worst = curve.predicted(X[2::3], y[2::3])
    """

    points: tuple[Point, ...]
    limited: Statistic
    objective: Statistic
    measured_on: str
    bound: float | None
    # Has the candidates, and states the limits on other rates.
    _unlimited: TunedClassifier = field(repr=False)

    @classmethod
    def of(cls, classifier: TunedClassifier, a: Stated, b: Stated, n_points: int) -> Curve:
        """Return the curve of two rates on the selection data of a classifier; arguments as of `tradeoff`."""
        selection = classifier.selection_
        limited, problem = traded(selection.problem, a, b)
        others = problem.limits
        free = limited.within(limited.loosest)
        unlimited = copy(classifier)
        unlimited.set_params(objective=problem.objective, limits=[*others, free])
        if error() in (limited.rate, *problem.rates):
            unlimited.error_budget = None  # it would limit a rate that is traded
        both = unlimited._problem(selection.models.rows.names)
        engine = selection.engine.on(both)
        unlimited.limits = list(others)
        bounds = (
            limit.bound
            for limit in selection.problem.limits
            if (limit.form, limit.rate) == (free.form, free.rate)
            and not isinstance(limit.bound, tuple)  # bounds by subgroup are no point of a curve
        )
        return cls(
            tuple(points_along(engine, both.within(others), limited, n_points, unlimited)),
            limited,
            problem.objective,
            ", within ".join([engine.words, *map(str, others)]),
            next(bounds, None),
            unlimited,
        )

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, number: int) -> Point:
        return self.points[number]

    @property
    def values(self) -> Floats:
        """The limited and the minimised rate of each point on the selection data, shape (2, B)."""
        return np.array([point[:2] for point in self]).reshape(-1, 2).T

    def at(self, level: float | str) -> TunedClassifier:
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
        limits = [*self._unlimited.limits, limit]
        for rate, _, classifier in reversed(self):  # the least objective first
            if limit.keeps(rate, limit.bound):
                return classifier._by(classifier.selection_.stated_within(limits))
        return self._unlimited.reweight(limits=limits)

    def predicted(
        self, X: Table, y: Column, *, groups: Groups = None, sample_weight: Column = None
    ) -> Floats:
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
        ndarray of shape (2, B)
            The limited and the minimised rate of each point. Deferred rows count as deferred.
        """
        check_indexes(X=X, y=y, groups=groups, sample_weight=sample_weight)
        # The rows are read and scored once; then the rule of each point answers them.
        given = Rows.read(X, y)
        decided = self._unlimited.__tailboost__()
        rows = decided.score(given.X, groups)
        record = decided.seen(rows, given, SELECTED_ON)
        # They are no fresh rows of these classifiers.
        for each in (self._unlimited, *(point[2] for point in self)):
            each.evidence_ = replace(each.evidence_, records=each.records_.using(record))
        assert rows.outputs is not None
        outputs = rows.outputs()
        classes = self._unlimited.classes_
        K = len(classes)
        rates = []
        for _, _, classifier in self:
            # Numbers of labels, K more for a deferred row.
            numbers = classifier.selection_.label_numbers(outputs)
            answered = Counts.answered(
                given.labels,
                classes[numbers % K],
                groups,
                numbers >= K if classifier.selection_.defers else None,
                None,
                sample_weight,
                classes,
            )
            counts = answered.counts(answered.actions)
            for statistic in (self.limited, self.objective):
                of_subgroups = statistic.rate.terms(answered.strata).values(counts)
                rates.append(statistic.value(of_subgroups))
        return np.array(rates).reshape(-1, 2).T

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
        of_points = self.values.T[shown].tolist()
        rows = [[f"{rate:.4f}", f"{value:.4f}"] for rate, value in of_points]
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
        The limited and the minimised rate; in any order if one is a gap or a ratio. By default the rate of
        the first limit that is none from below, or else the overall error, and the objective or, if ``a`` is
        given, the overall error. A rate is not traded against itself, but against the largest error of a
        class.
    """
    limited, minimised = as_statistics([a, b])
    if isinstance(minimised, Statistic) and minimised.compares:  # a gap or ratio is limited
        limited, minimised = minimised, limited
    if limited is None:
        minimised = minimised or problem.objective
        of_limits = (
            Statistic(EACH if limit.rate.by is None else FORMS[limit.form], limit.rate)
            for limit in problem.limits
            if limit.form in FORMS
        )
        limited = next((stated for stated in of_limits if stated != minimised), OVERALL_ERROR)
    minimised = minimised or OVERALL_ERROR
    if limited == minimised:
        minimised = NAMED["worst_class"]
    objective = as_objective(minimised)
    is_compared = isinstance(limited, Statistic) and limited.compares
    if not is_compared and limited != as_objective(limited):  # its complement
        raise ValueError(
            f"a curve limits its rate from above, and {limited!r} should be large: give "
            f"'1 - {limited!r}', at 5% in place of 95%"
        )
    # Limits on the traded rates are left out: the trade-off varies these rates.
    varied = {limited.rate, replace(limited.rate, complement=False)}
    if objective.worst:
        varied.add(objective.rate)
    others = tuple(limit for limit in problem.limits if limit.rate not in varied)
    return limited, replace(problem, objective=objective, limits=others)


def points_along(
    engine: Engine,
    problem: Problem,
    limited: Statistic,
    n_points: int,
    classifier: TunedClassifier,
) -> Iterator[Point]:
    """Yield the undominated rules from the tightest limit on a rate to the least objective of a problem.

    Rules are searched for ``n_points`` limits on the rate, and all others within the limits of the problem
    are compared too. Each point has both rates, and a classifier within the rate.

    Parameters
    ----------
    engine : Engine
        The candidates on the selection data, with the strata of all rates.
    problem : Problem
        The objective within limits on other rates.
    limited : Statistic
        The limited rate; a ratio is limited from below.
    n_points : int
        As above.
    classifier : TunedClassifier
        Has the models.

    Raises
    ------
    InfeasibleLimitsError
        If the limits contradict each other.
    """
    objective = problem.objective
    strata = engine.family.data.strata
    # Each selection adds the rules of its search to the pool, of which all are compared below.
    pool = first_rules(engine.family, Program(strata, objective, problem.limits))
    least = engine.select(problem, pool)
    loosest = limited.value(limited.rate.terms(strata).values(least.counts))
    if limited.compares:
        tightest = limited.value(np.ones(1))  # of equal rates: a gap of 0, a ratio of 1
    else:
        lowest = engine.select(replace(problem, objective=limited), pool)
        tightest = lowest.program.value(lowest.counts)
    for level in np.linspace(loosest, tightest, n_points).round(12).tolist():
        with suppress(InfeasibleLimitsError):
            engine.select(problem.within((*problem.limits, limited.within(level))), pool)

    counts = np.array(pool.counts)
    traded_rates = []
    for statistic in (limited, objective):
        of_subgroups = statistic.rate.terms(strata).values(counts)
        traded_rates.append([*map(statistic.value, of_subgroups)])
    rates, values = np.round(traded_rates, 12)
    is_within = [*map(least.program.keeps, counts)]
    kept = np.flatnonzero(~np.isnan(rates + values) & is_within)
    for i in kept[undominated(values[kept], SIGNS[limited.sense] * rates[kept])].tolist():
        rate = float(rates[i])
        limits = (*problem.limits, limited.within(rate))
        rule = engine.selected(problem.within(limits), limits, pool, i)
        yield rate, float(values[i]), classifier._by(rule)
