"""The mixture of a game's candidates for an objective within limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.boosting.ensemble import MixtureEnsemble, settle_ties
from tailboost.boosting.game import DECIMALS
from tailboost.boosting.pool import JudgedPool
from tailboost.boosting.subgroups import is_kept
from tailboost.core.array_types import Floats, Ints, Labels, Mask
from tailboost.rates import Strata, error
from tailboost.rates.make import OVERALL_ERROR
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.data import Pool, SelectionData, Uncached
from tailboost.selection.intervals import CountedRate, fold_spread
from tailboost.selection.problem import Problem
from tailboost.selection.program import (
    SLIGHT,
    SOLVED,
    Best,
    Program,
    allowed_error,
    best_guess,
    best_in_pool,
    within_budget,
)
from tailboost.solvers import (
    MixtureCurve,
    MixtureSolution,
    WithinSolution,
    least_worst_within,
    minimize_cvar_mixture,
    worst_mean_curve,
)

# The curve of a CVaR has nearly as many corners as rows. Refinement ends if the curve is this close to
# straight lines, or has this many points.
CURVE_TOLERANCE = 1e-5
CURVE_POINTS = 200


@dataclass(frozen=True, eq=False)
class Counts(Uncached):
    """The strata of selection data, which count the answers of candidates.

    Attributes
    ----------
    rows : Rows
        The selection data.
    labels : ndarray of shape (K,)
        The labels.
    names : GroupNames or None
        Names of the groups; None for rows without groups.
    cells : ndarray of int, shape (m,), or None
        ``class + K · group`` of each number, if the groups of the rows are numbers of cells.
    """

    rows: Rows
    labels: Labels
    names: GroupNames | None = None
    cells: Ints | None = None

    @cached_property
    def inside(self) -> Mask:
        """Mask of the counted rows, shape (n,).

        Rows outside all subgroups (group −1) are left out: no model tested on such a row knows its class, or
        no training row is in its cell.
        """
        if self.rows.groups is None:
            return np.ones(len(self.rows.y), dtype=np.bool_)
        groups = self.rows.groups.reshape(len(self.rows.y), -1)
        return np.asarray((groups >= 0).all(axis=1))

    @cached_property
    def data(self) -> SelectionData:
        """The strata of the counted rows: the classes, and their groups if these have names."""
        rows = self.rows.part(self.inside)
        codes = None
        columns: tuple[Any, ...] = ()
        values: tuple[Any, ...] = ()
        if self.names is not None and rows.groups is not None:
            groups = rows.groups
            if self.cells is not None:
                groups = self.cells[groups] // len(self.labels)
            codes = self.names.by_column(groups)
            columns = self.names.titles
            values = self.names.values
        strata, stratum = Strata.of(rows.y, codes, rows.weight, self.labels, columns, values)
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
        return SelectionData(strata, stratum, rows.base)

    @property
    def strata(self) -> Strata:
        """The strata of class and groups in which the selection data are counted."""
        return self.data.strata

    def confusion_counts(self, answers: Ints) -> Floats:
        """Return the confusion counts of answers to all rows, shape (S, K)."""
        return self.data.count(answers[self.inside].astype(np.intp))


@dataclass(frozen=True, eq=False)
class Steering:
    """The limited errors of the subgroups of a problem; without limits, its objective.

    Attributes
    ----------
    counts : Counts
        The strata of the selection data.
    linear : ndarray of shape (m, S, K)
        Errors of the m subgroups with rows and a limit, as linear functions of confusion counts.
    allowed : ndarray of shape (m,)
        The limits of these subgroups if the limits differ, otherwise 0.
    common : float
        The limit of all subgroups; 0 if limits differ.
    """

    counts: Counts
    linear: Floats
    allowed: Floats
    common: float

    @classmethod
    def from_problem(cls, problem: Problem, counts: Counts) -> Steering:
        """Return the limited errors of a problem; without limits the minimised ones."""
        strata = counts.strata
        terms = problem.steering.terms(strata)
        limit = problem.limit_by_subgroup
        allowed = np.zeros(len(terms.names))
        common = 0.0
        if limit is not None:
            allowed = limit.bounds(terms.names)
            if np.nanmin(allowed) == np.nanmax(allowed):
                common = float(np.nanmin(allowed))
                allowed = allowed - common
        limited = terms.defined & ~np.isnan(allowed)
        linear = terms.linear[limited][:, : len(strata.mass)]
        return cls(counts, linear, allowed[limited], common)

    def excesses(self, counts: Floats) -> Floats:
        """Return the error of each subgroup less its limit, by confusion counts (…, S, K): shape (…, m).

        Subgroups without rows or without a limit are left out. One limit for all is not subtracted.
        """
        errors = np.tensordot(counts, self.linear, axes=([-2, -1], [1, 2]))
        return errors - self.allowed


def least_largest(errors: Floats) -> MixtureSolution:
    """Return the mixture with the least largest error; errors of candidates on subgroups, shape (T, m)."""
    return minimize_cvar_mixture(errors, 1.0 / errors.shape[1], canonical=False)


def least_tail(problem: Problem, pool: JudgedPool) -> MixtureSolution | WithinSolution:
    """Return the mixture of least objective over rows, such as the CVaR, within the error budget."""
    if problem.error_budget is None:
        return problem.objective.solve(pool.losses, pool.base)
    means = pool.mean_losses
    max_mean_loss = allowed_error(float(means.min()), problem.error_budget)
    alpha = problem.objective.alpha
    return least_worst_within(pool.losses, means, max_mean_loss, alpha, pool.base)


@dataclass(frozen=True, eq=False)
class Majority:
    """Votes of the first rounds on the selection data, and the results after each round.

    Attributes
    ----------
    votes : ndarray of shape (n, K)
        Votes of these rounds for each class.
    results : tuple
        Largest error or excess of a subgroup, and overall error, of the majority after each round.
    """

    votes: Floats
    results: tuple[tuple[float, float], ...] = ()

    def voting(self, pool: JudgedPool, steering: Steering) -> Majority:
        """Return the majority with the vote of the newest model of a pool, and its result.

        Ties go to the voter with the smallest mean loss.
        """
        newest = pool.n_rounds - 1
        votes = self.votes.copy()
        votes[np.arange(len(votes)), pool.answer(newest)] += 1.0
        order = pool.by_mean_loss[pool.by_mean_loss < pool.n_rounds]
        shares = settle_ties(votes / pool.n_rounds, order, lambda m, rows: pool.answer(m)[rows])
        counts = steering.counts.confusion_counts(shares.argmax(axis=1))
        excess = float(steering.excesses(counts).max())
        error = float(OVERALL_ERROR.terms(steering.counts.strata).values(counts)[0])
        result = round(excess, DECIMALS), round(error, DECIMALS)
        return Majority(votes, (*self.results, result))


@dataclass(frozen=True, eq=False)
class Mixture(Uncached):
    """The mixture of a pool's candidates for a problem: mixture weights λ, even weights or a majority.

    λ is selected by `best_in_pool` on the confusion counts of the candidates. An objective over rows, such as
    the CVaR, also reads their losses by row.

    Attributes
    ----------
    problem : Problem
        Objective, limits and error budget; the budget is an increase above the most accurate candidate.
    pool : JudgedPool
        The candidates.
    counts : Counts
        The strata of the selection data.
    even : bool
        Whether all models of the game have the same weight.
    majority : Majority or None
        For a vote with a selected number T* of voters, on selection data out of fold: the first T* rounds
        vote. T* has the least objective of the majority, or the least overall error within the limits. All
        rounds vote if None, and on fitted rows.
    with_erm : bool
        Whether the first of the models without boosting is plain ERM.
    """

    problem: Problem
    pool: JudgedPool
    counts: Counts
    even: bool = False
    majority: Majority | None = None
    with_erm: bool = False

    def aiming_at(self, problem: Problem) -> Mixture:
        """Return the mixture of the same candidates for another problem.

        Raises
        ------
        ValueError
            If a rate is about deferred rows.
        """
        if problem.defers:
            raise ValueError(
                "deferred(): no hypothesis defers rows; tune models with such a limit instead"
            )
        return Mixture(problem, self.pool, self.counts)

    @property
    def n_classes(self) -> int:
        """K."""
        return self.pool.n_classes

    @property
    def alpha(self) -> float | None:
        """Tail mass of the objective; None for rates."""
        return self.problem.objective.alpha

    # -- the rule ------------------------------------------------------------------------------------

    def rule(self) -> MixtureEnsemble:
        """Return the selected rule."""
        return self.stage(self.pool.n_rounds)

    def stage(self, n_rounds: int) -> MixtureEnsemble:
        """Return the rule after the first ``n_rounds`` rounds; later models have weight 0."""
        weights = np.zeros(len(self.pool.judged))
        if self.even:
            voters = self._voters(n_rounds)
            weights[:voters] = 1.0 / voters
            return self.pool.rule(weights, among=np.arange(voters))
        eligible = self.pool.places(n_rounds)
        if not self.problem.over_rows:
            weights, gap = self._select(n_rounds)
            return self.pool.rule(weights, gap, eligible)
        solution = least_tail(self.problem, self.pool.first(n_rounds))
        weights[eligible] = solution.mixture
        return self.pool.rule(weights, solution.gap, eligible)

    def _voters(self, n_rounds: int) -> int:
        """Return how many of the first ``n_rounds`` rounds vote: all, or as many as ``majority`` says."""
        if self.majority is None or self.pool.rows.fitted:
            return n_rounds
        small_enough = -np.inf  # excesses below do not count, only the overall error
        if self.problem.limits and not self.problem.objective.worst:
            small_enough = self.steered.common
        results = [
            (max(excess, small_enough), overall_error)
            for excess, overall_error in self.majority.results[:n_rounds]
        ]
        return results.index(min(results)) + 1

    def _select(self, n_rounds: int) -> tuple[Floats, float]:
        """Return the mixture weights of all candidates, shape (T,), and the gap of the selected mixture.

        Limits apply to `predict`. If several candidates have weight, `predict` returns the label with the
        largest weight. If `predict` violates a limit kept by the randomised rule, it is compared with single
        candidates.
        """
        # Mixtures within tighter limits do not pay as further choices. In 240 fits (15 tables, limits of .1
        # to .4) they changed 16 rules: there the largest error of a class on other rows fell by .002 ± .029,
        # the overall error by .007 ± .008. Single candidates do: in 109 of the fits the largest error was
        # .022 ± .011 lower with them, the overall error .018 ± .005 higher.
        problem = self.problem
        pool = self.candidates(n_rounds)
        program = within_budget(pool, self.program, problem.error_budget)
        best = best_in_pool(pool, program, randomized=problem.randomized)
        weights = self.weights(best, n_rounds)
        if not problem.randomized or not problem.limits:
            return weights, best.gap
        predicted = self.predicted(self.pool.rule(weights))
        if (self.program.violations(predicted) <= SLIGHT).all():
            return weights, best.gap
        single_candidates = np.eye(len(self.pool.judged))[pool.candidates]
        rules = [weights, *single_candidates]
        numbers = list(range(len(rules)))
        choices = Pool(self.counts.data, numbers, [predicted, *pool.counts])
        selected = best_in_pool(choices, program).numbers[0]
        return rules[selected], best.gap

    def curve(self) -> MixtureCurve:
        """Return the least CVaR for each limit on the mean loss."""
        pool = self.pool
        return worst_mean_curve(
            pool.losses, pool.mean_losses, self.alpha, pool.base,
            tolerance=CURVE_TOLERANCE, max_points=CURVE_POINTS,
        )  # fmt: skip

    # -- confusion counts ----------------------------------------------------------------------------

    @cached_property
    def program(self) -> Program:
        """The objective and the limits, without the budget."""
        return Program.of_rates(self.counts.strata, self.problem.counted, self.problem.limits)

    @cached_property
    def steered(self) -> Steering:
        """The limited errors of the subgroups; without limits, the objective."""
        return Steering.from_problem(self.problem, self.counts)

    @cached_property
    def all_counts(self) -> list[Floats]:
        """Confusion counts of all candidates."""
        return [
            self.counts.confusion_counts(self.pool.answer(m))
            for m in range(len(self.pool.judged))
        ]

    def candidates(self, n_rounds: int | None = None) -> Pool:
        """Return the models of the first rounds (default: all) and the models without boosting, by number."""
        numbers = self.pool.places(n_rounds).tolist()
        return Pool(self.counts.data, numbers, [self.all_counts[m] for m in numbers])

    def weights(self, best: Best, n_rounds: int | None = None) -> Floats:
        """Return the mixture weight of each candidate, by a selection of `candidates`."""
        mixture = np.zeros(len(self.pool.judged))
        mixture[self.pool.places(n_rounds)[best.numbers]] = best.weights
        return mixture

    def predicted(self, ensemble: MixtureEnsemble) -> Floats:
        """Return the confusion counts of the labels with the largest weight, shape (S, K)."""
        return self.counts.confusion_counts(self.pool.shares(ensemble).argmax(axis=1))

    def mixed(self, mixture: Floats) -> Floats:
        """Return the expected confusion counts of the randomised rule, shape (S, K)."""
        return np.tensordot(mixture, self.candidates().all_counts, axes=1)

    def errors(self, counts: Floats) -> Floats:
        """Return the steered rate of each subgroup by confusion counts; NaN without rows."""
        return self.problem.steering.terms(self.counts.strata).values(counts)

    @property
    def unreachable(self) -> str:
        """The smallest possible violation of the limits as text; empty if all limits can be satisfied."""
        limit = self.problem.limit_by_subgroup
        if self.even or limit is None:
            return ""
        excesses = self.steered.excesses(self.candidates().all_counts)
        bound = self.steered.common
        if self.problem.randomized:
            reached = least_largest(excesses).value
            rule = "mixture"
        else:
            reached = float(excesses.max(axis=1).min())
            rule = "single member"
        if is_kept(reached - bound, limit.strict):
            return ""
        measure = "largest error"
        if not bound:
            measure = "largest excess"
        allowed = f"{bound:.3g}"
        if limit.strict:
            allowed = f"less than {allowed}"
        return (
            f"no {rule} keeps all limits there: the least {measure} is {reached:.3g}, not "
            f"{allowed}"
        )

    @cached_property
    def refit_spread(self) -> float:
        """Standard deviation of an error of a subgroup between a candidate and its refit on all rows.

        The estimate is the standard deviation between the models of the folds, averaged over the candidates.
        NaN if the models were tested on one held-out part and refits answer.
        """
        rows = self.pool.rows
        if not rows.refit:
            return 0.0
        if rows.fold is None:
            return float("nan")

        data = self.counts.data
        inside = self.counts.inside
        fold = rows.fold[inside].astype(np.intp)
        n_folds = int(fold.max(initial=0)) + 1
        n_strata = len(data.strata.mass)
        K = self.n_classes
        first_cell = (fold * n_strata + data.stratum) * K

        counts = []
        for number in range(self.pool.n_rounds):
            cell = first_cell + self.pool.answer(number)[inside]
            flat = np.bincount(cell, data.weights, n_folds * n_strata * K).astype(float)
            counts.append(flat.reshape(n_folds, n_strata, K))
        return fold_spread(self.problem.steering, data.strata, counts)

    # -- results -------------------------------------------------------------------------------------

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the pool; for a CVaR without outliers."""
        if self.problem.over_rows:
            return self._tail(mixture, self.pool.base)
        return self.program.value(self.mixed(mixture))

    def on_all(self, mixture: Floats) -> float:
        """Return the objective on all rows, with outliers."""
        if self.problem.over_rows:
            return self._tail(mixture, self.pool.rows.base)
        return self.value(mixture)

    def _tail(self, mixture: Floats, base: Floats) -> float:
        return float(self.problem.objective.evaluate(self.pool.losses.combine(mixture), base))

    @property
    def dropped(self) -> float:
        """Fraction of the weight left out of the objective as outliers."""
        if self.problem.over_rows:
            return self.pool.dropped
        return 0.0

    @property
    def price(self) -> float | None:
        """Gain in the CVaR per unit of the error budget; None without a budget, and for rates."""
        if not self.problem.over_rows or self.problem.error_budget is None:
            return None
        # With an error budget `least_tail` returns a `WithinSolution`, which has a price.
        return least_tail(self.problem, self.pool).price  # type: ignore[union-attr]

    def _max_mean_loss(self) -> float | None:
        """Return the largest mean loss within the error budget; None without a budget."""
        if self.problem.error_budget is None:
            return None
        return allowed_error(float(self.pool.mean_losses.min()), self.problem.error_budget)

    def largest_error(self, mixture: Floats) -> float | None:
        """Return the largest error of a subgroup; None if the counted objective is a largest rate itself."""
        if self.problem.counted.worst:
            return None
        errors = error(by=self.problem.subgroup_kind).terms(self.counts.strata)
        return float(np.nanmax(errors.values(self.mixed(mixture))))

    @property
    def _budgeted(self) -> Program:
        """The objective and the limits, with the budget."""
        return within_budget(self.candidates(), self.program, self.problem.error_budget)

    def kept_by(self, mixture: Floats) -> bool:
        """Return whether a mixture keeps the limits and the error budget."""
        if not self.problem.over_rows:
            return self._budgeted.keeps(self.mixed(mixture))
        max_mean_loss = self._max_mean_loss()
        return (
            max_mean_loss is None
            or float(self.pool.mean_losses @ mixture) <= max_mean_loss + SOLVED
        )

    @property
    def random_guess(self) -> float | None:
        """The objective of the even mixture of all constants; None if it breaks the limits or the budget."""
        if self.problem.over_rows:
            max_mean_loss = self._max_mean_loss()
            guess = 1.0 - 1.0 / self.n_classes
            if max_mean_loss is None or guess <= max_mean_loss:
                return guess
            return None
        return self._budgeted.random_guess

    @property
    def constants(self) -> float | None:
        """The objective of the best mixture of constants within limits and budget; None without one."""
        if self.problem.over_rows:
            return self.problem.objective.constants(self.pool.mass, self._max_mean_loss())
        return best_guess(self._budgeted)

    def highest(self, mixture: Floats) -> float:
        """Return the upper end of a 95 % interval for the objective on new rows."""
        rows = self.pool.rows
        if self.problem.over_rows:
            losses = self.pool.losses.combine(mixture)
            return float(self.problem.objective.highest(rows, losses))
        rate = self.problem.objective.rate
        counts = self.mixed(mixture)
        counted = CountedRate.from_counts(rate, self.counts.strata, counts, self.refit_spread)
        _, upper_ends = counted.ends()
        return float(np.nan_to_num(upper_ends, nan=1.0).max())
