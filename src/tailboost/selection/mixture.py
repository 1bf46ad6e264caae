"""The base models of a game, and their mixture for an objective within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from tailboost.boosting.ensemble import TIE_DECIMALS, MixtureEnsemble, settle_ties
from tailboost.boosting.game import DECIMALS, Game, Response, is_kept
from tailboost.boosting.players.hedge import without_outliers
from tailboost.core.array_types import Floats, Ints, Labels, Mask, Model, Table
from tailboost.learners.foreign import constant, predict_models
from tailboost.learners.table import Ranked, ranked
from tailboost.rates import Limit, Strata, error
from tailboost.rows.group_names import GroupNames
from tailboost.rows.rows import Rows
from tailboost.selection.data import Pool as Candidates
from tailboost.selection.data import SelectionData
from tailboost.selection.problem import Problem
from tailboost.selection.program import (
    SLIGHT,
    SOLVED,
    Best,
    Program,
    allowed_error,
    best_in_pool,
    mixed,
    solve,
    within_budget,
)
from tailboost.selection.rate_table import CountedRate, fold_spread
from tailboost.solvers import (
    BitLosses,
    MixtureCurve,
    MixtureSolution,
    WithinSolution,
    least_worst_within,
    worst_mean_curve,
)
from tailboost.solvers.bits import DenseLosses

# Maximum number of runners-up. For models with probabilities, the pool contains predictions of the second
# most likely class, the third, and so on. A mixture can then predict the second most likely class.
RUNNERS_UP = 7
# Errors are rounded to this number of decimals. Mixtures then do not depend on the order of the rows.
ERROR_DECIMALS = 12
# If `predict` violates the limits, mixtures within these multiples of the limits are tried.
SHARES = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
# The curve of a CVaR has nearly as many corners as rows. Refinement ends if the curve is this close to
# straight lines, or has this many points.
CURVE_TOLERANCE = 1e-5
CURVE_POINTS = 200
# A difference of more standard errors is taken for significant.
CLEARLY = 2.0

# Computed anew after loading.
NOT_KEPT = ("table_and_rows", "_extra_counts", "_steered", "program", "refit_spread")


def least_largest(errors: Floats) -> tuple[float, float]:
    """Return the least largest error of a mixture, and the duality gap.

    Parameters
    ----------
    errors : ndarray of shape (T, m)
        Error of each candidate on each subgroup.
    """
    n_candidates, m = errors.shape
    solution = linprog(
        np.r_[np.zeros(n_candidates), 1.0],
        np.column_stack([errors.T, -np.ones(m)]), np.zeros(m),
        np.r_[np.ones(n_candidates), 0.0][None], [1.0],
        [(0.0, None)] * n_candidates + [(None, None)],
    )  # fmt: skip
    mixture = np.maximum(solution.x[:-1], 0.0)
    weights = np.maximum(-solution.ineqlin.marginals, 0.0)
    value = float((mixture / mixture.sum() @ errors).max())
    return value, max(0.0, value - float((errors @ (weights / weights.sum())).min()))


@dataclass(frozen=True, eq=False)
class Grouping:
    """Names of the classes and groups of the selection data, by which rates find their subgroups."""

    labels: Labels  # the K labels
    names: GroupNames | None = None  # of the groups; None for rows without groups
    # Shape (m,): ``class + K · group`` of each number, if the groups of the rows are numbers of cells.
    cells: Ints | None = None

    def table(self, rows: Rows) -> tuple[SelectionData, Mask]:
        """Return the selection data, and a mask of the rows in them.

        A row outside all subgroups (group −1) is left out: no model tested on this row knows its class, or no
        training row is in its cell.
        """
        inside: Mask = np.ones(len(rows.y), dtype=np.bool_)
        of_groups: tuple[Any, ...] = None, (), ()
        if rows.groups is not None:
            inside = np.asarray((rows.groups.reshape(len(rows.y), -1) >= 0).all(axis=1))
        rows = rows.part(inside)
        if self.names is not None and rows.groups is not None:
            if self.cells is None:
                groups = rows.groups
            else:
                groups = self.cells[rows.groups] // len(self.labels)
            of_groups = self.names.by_column(groups), self.names.titles, self.names.values
        numbers, columns, values = of_groups
        strata, stratum = Strata.of(rows.y, numbers, rows.weight, self.labels, columns, values)
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
        return SelectionData(strata, stratum, rows.base), inside


@dataclass
class ModelPool:
    """Boosted base models in order, then the unboosted, with their answers to the selection data.

    The unboosted are base models without boosting: plain ERM first, then constants and runners-up.
    """

    rows: Rows  # the selection data
    n_classes: int  # K
    unboosted: list[Any] = field(default_factory=list)
    boosted: list[Any] = field(default_factory=list)
    # Answers of the boosted models and of the unboosted: class numbers in few bytes, or packed bits for two
    # classes. Those of a model that draws its answers are a label distribution, shape (n, K).
    boosted_answers: list[NDArray[Any]] = field(default_factory=list)
    extra_answers: list[NDArray[Any]] = field(default_factory=list)
    # Mass of the rows with the highest cumulative loss; the CVaR leaves them out.
    outlier_fraction: float = 0.0
    # Whether the second, third … likeliest class by the first round's models join the unboosted.
    runners_up: bool = False
    # Class probabilities of the selection data by round, summed over the rounds so far. The last two rounds
    # are kept, because an interrupt may drop the last one.
    probabilities: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    _losses: BitLosses | DenseLosses | None = field(
        default=None, repr=False
    )  # of the boosted models

    # Only further rounds of the same fit need the probabilities, which are larger than most models.
    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"probabilities": {}, "_losses": None}

    @property
    def base_models(self) -> list[Any]:
        """All base models: the boosted ones first."""
        return [*self.boosted, *self.unboosted]

    @property
    def n_rounds(self) -> int:
        """Number of boosted models."""
        return len(self.boosted)

    def add_extra(self, model: Model, answers: Ints) -> None:
        """Add a base model without boosting, by its answers."""
        self.unboosted = [*self.unboosted, model]
        self.extra_answers = [*self.extra_answers, _packed(answers, self.n_classes)]

    def add_boosted(self, model: Model, answers: NDArray[Any]) -> None:
        """Add a base model of the game, or a candidate, by its answers."""
        self.boosted_answers.append(_packed(answers, self.n_classes))
        self.boosted.append(model)

    def take(self, response: Response) -> None:
        """Add the newest base model and, after the first, the next likely classes."""
        t = self.n_rounds
        P = response.probabilities
        if P is not None:
            self.probabilities = {s: p for s, p in self.probabilities.items() if s == t} | {
                t + 1: P
            }
            for rank in range(
                1, min(RUNNERS_UP + 1, P.shape[1]) if t == 0 and self.runners_up else 1
            ):
                self.add_extra(Ranked(response.base_model.table_, rank), ranked(P, rank))
        self.add_boosted(response.base_model, response.answers)

    def keep(self, n_rounds: int) -> None:
        """Keep the first base models alone: an interrupt may have left `take` unfinished."""
        del self.boosted[n_rounds:], self.boosted_answers[n_rounds:]
        if self._losses is not None and self._losses.shape[0] > n_rounds:
            self._losses = self._losses.select(candidates=np.arange(n_rounds))

    def answer(self, member: int) -> NDArray[Any]:
        """Return the answers of a base model: class numbers, shape (n,), or a label distribution, (n, K)."""
        t = self.n_rounds
        if member < t:
            answers = self.boosted_answers[member]
        else:
            answers = self.extra_answers[member - t]
        if self.n_classes > 2 or answers.ndim > 1:
            return answers
        return np.unpackbits(answers, count=len(self.rows.y))

    def constant_answer(self, member: int) -> int | None:
        """Return the class that a base model answers to all selection data, or None."""
        answers = self.answer(member)
        if answers.ndim == 1 and np.ptp(answers) == 0:
            return int(answers[0])
        return None

    def shares(self, ensemble: MixtureEnsemble) -> Floats:
        """Return the label distribution of an ensemble on the selection data, shape (n, K)."""
        used = np.flatnonzero(ensemble.weights > 0).tolist()
        return ensemble.mix(
            map(self.answer, used), len(self.rows.y), lambda m, rows: self.answer(m)[rows]
        )

    # -- losses --------------------------------------------------------------------------------------

    def loss(self, member: int) -> NDArray[Any]:
        """Return the zero-one losses of a base model, or the expected ones of label distributions."""
        answers = self.answer(member)
        y = self.rows.y
        if answers.ndim == 1:
            return self.rows.wrong(answers)
        return 1.0 - answers[np.arange(len(y)), y]

    def losses(self, n_rounds: int | None = None) -> BitLosses | DenseLosses:
        """Return the losses of the first ``n_rounds`` boosted models (default: all), then of the others."""
        t = self.n_rounds
        if self._losses is None and any(answers.ndim > 1 for answers in self.boosted_answers):
            self._losses = DenseLosses(
                np.array([self.loss(m) for m in range(t)], dtype=np.float64)
            )
        losses = BitLosses(len(self.rows.y)) if self._losses is None else self._losses
        for m in range(losses.shape[0], t):
            losses = losses.append(self.loss(m))
        self._losses = losses
        if n_rounds is not None and n_rounds < t:
            losses = losses.select(candidates=np.arange(n_rounds))
        for m in range(t, t + len(self.unboosted)):
            losses = losses.append(self.loss(m))
        return losses

    def base(self, n_rounds: int | None = None) -> Floats:
        """Return the base measure of the rows: the normalised weights, without the outliers."""
        if self.outlier_fraction == 0.0:
            return self.rows.base
        cumulative = np.zeros(len(self.rows.y))
        for m in range(self.n_rounds if n_rounds is None else n_rounds):
            cumulative += self.loss(m)
        return without_outliers(self.rows.base, cumulative, self.outlier_fraction)

    @property
    def mass(self) -> Floats:
        """Base measure of each class, shape (K,)."""
        mass: Floats = np.bincount(self.rows.y, self.base(), self.n_classes).astype(np.float64)
        return mass

    @property
    def dropped(self) -> float:
        """Fraction of the weight left out as outliers; 0 if all rows have the same cumulative loss."""
        if np.array_equal(self.base(), self.rows.base):
            return 0.0
        return self.outlier_fraction

    def mean_losses(self, n_rounds: int | None = None) -> Floats:
        """Return the mean loss of each base model, with outliers included, shape (T + E,)."""
        return self.losses(n_rounds).means(self.rows.base).round(ERROR_DECIMALS)

    def by_mean_loss(self) -> Ints:
        """Return the base models by ascending mean loss; the earlier one first if equal."""
        return np.argsort(np.round(self.mean_losses(), TIE_DECIMALS), kind="stable")

    # -- sums of probabilities -----------------------------------------------------------------------

    def together(self, response: Response) -> Response:
        """Return the response of a round by the sum of the probabilities of all rounds so far.

        Without probabilities the response is unchanged.

        Raises
        ------
        ValueError
            If the probabilities of the rounds before were not kept.
        """
        P = response.probabilities
        if P is None:
            return response
        table = response.base_model.table_
        if self.boosted:
            P = self.summed(P)
            table = self.boosted[-1].table_.with_models_of(table)
        answers = P.argmax(axis=1)
        wrong = self.rows.wrong(answers)
        return replace(
            response, base_model=Ranked(table), losses=wrong, answers=answers, probabilities=P
        )

    def summed(
        self, P: NDArray[np.float32], rows: Mask | slice = slice(None)
    ) -> NDArray[np.float32]:
        """Return class probabilities of some rows, added to the probabilities of earlier rounds."""
        if self.n_rounds not in self.probabilities:
            raise ValueError(
                "rounds can be added to a fit only in the process that made it, or from its checkpoint_dir: "
                "a copy or file of a model does not hold the class probabilities of its training rows"
            )
        return self.probabilities[self.n_rounds][rows] + P

    # -- other rows ----------------------------------------------------------------------------------

    def on_rows(self, X: Table, rows: Rows) -> ModelPool:
        """Return a pool of the same base models on other rows."""
        return self._answering(predict_models(self.base_models, X), rows)

    def part(self, chosen: Mask) -> ModelPool:
        """Return a pool of the same base models on some of the rows."""
        answers = (self.answer(m)[chosen] for m in range(len(self.base_models)))
        return self._answering(answers, self.rows.part(chosen))

    def _answering(self, answers: Iterable[Ints], rows: Rows) -> ModelPool:
        packed = [_packed(each, self.n_classes) for each in answers]
        t = self.n_rounds
        new = replace(self, rows=rows, boosted=list(self.boosted), _losses=None)
        new.boosted_answers = packed[:t]
        new.extra_answers = packed[t:]
        return new

    def regrouped(self, groups: Ints) -> ModelPool:
        """Return a pool of the same base models with other groups of the rows."""
        return replace(self.snapshot(), rows=replace(self.rows, groups=groups))

    def snapshot(self) -> ModelPool:
        """Return a copy. Further rounds do not change this copy."""
        return replace(
            self, boosted=list(self.boosted), boosted_answers=list(self.boosted_answers)
        )


def _packed(answers: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Return class numbers in few bytes, packed bits for two classes; label distributions are unchanged."""
    if answers.ndim > 1:
        return answers
    if n_classes == 2:
        return np.packbits(answers != 0)
    return answers.astype(np.min_scalar_type(n_classes - 1))


@dataclass
class Mixture:
    """Combine the base models of a pool into one classifier, by mixture weights λ.

    λ is selected by `best_in_pool` on the confusion counts of the base models. An objective over rows, such
    as the CVaR, also reads their losses by row. Otherwise λ is even, or a majority votes.
    """

    problem: Problem  # the budget is an increase above the most accurate base model
    n_classes: int  # K
    _: KW_ONLY
    grouping: Grouping
    even: bool = False  # whether all boosted models have the same weight
    # Whether the boosted models vote with the same weight. If the selection data are out of fold, the first
    # T* rounds vote: T* has the least objective of the majority, or the least overall error within the
    # limits. Otherwise all rounds vote.
    voting: bool = False
    with_erm: bool = False  # whether plain ERM joins the pool
    with_constants: bool = False  # whether the K constants join the pool
    # Whether the next likely classes of the first round join too, if its models have probabilities.
    runners_up: bool = False
    # Mass of the rows with the highest cumulative loss; the CVaR leaves them out.
    outlier_fraction: float = 0.0
    pool: ModelPool = field(init=False)
    # For a majority vote: the votes for each class on the selection data, and the number of counted rounds;
    # then the objective and the overall error of the majority after each round.
    votes: tuple[Floats, int] = field(init=False, default=(np.zeros((0, 0)), 0))
    results: list[tuple[float, float]] = field(init=False, default_factory=list)
    _counts: list[Floats] = field(init=False, default_factory=list)  # of the boosted models

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in NOT_KEPT}

    @classmethod
    def on(cls, pool: ModelPool, problem: Problem, **options: Any) -> Self:
        """Return the mixture of the base models of a pool."""
        new = cls(problem, pool.n_classes, **options)
        new.pool = pool
        return new

    def aiming_at(self, problem: Problem) -> Self:
        """Return the mixture of the same base models for another problem."""
        return self.on(self.pool.snapshot(), problem, grouping=self.grouping)

    def snapshot(self) -> Self:
        """Return a copy. Further rounds do not change this copy."""
        new = replace(self)
        new.pool, new._counts = self.pool.snapshot(), list(self._counts)
        new.votes, new.results = (self.votes[0].copy(), self.votes[1]), list(self.results)
        return new

    @property
    def alpha(self) -> float | None:
        """Tail mass of the objective; None for rates."""
        alpha: float | None = self.problem.objective.alpha
        return alpha

    # -- the game ------------------------------------------------------------------------------------

    def open(self, rows: Rows, fit_plain: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game with selection data ``rows``; ``fit_plain`` fits plain ERM."""
        K = self.n_classes
        fraction = self.outlier_fraction
        self.pool = ModelPool(rows, K, outlier_fraction=fraction, runners_up=self.runners_up)
        for response in fit_plain() if self.with_erm else ():
            self.pool.add_extra(response.base_model, response.answers)
        for k in range(K if self.with_constants else 0):
            self.pool.add_extra(constant(k, K), np.full(len(rows.y), k))

    def take(
        self, response: Response, state: object, needs_objective: bool
    ) -> tuple[float, float]:
        """Add the newest base model; return the objective of the combination and the gap of its solution.

        If not ``needs_objective``, the objective may be NaN when its computation needs a solver.
        """
        if self.problem.over_rows:
            counts = None
        else:
            counts = self.counted(response.answers)
        self.pool.take(response)
        if counts is not None:
            self._counts.append(counts)
        if self.voting:
            self._count(self.pool.n_rounds, self.pool.by_mean_loss())
            return (min(self.results) if self._selects_voters else self.results[-1])[0], 0.0
        if self.even or not needs_objective:
            return np.nan, 0.0
        if self.problem.over_rows:
            solution = self.solve()
            return solution.value, solution.gap
        beyond = self.beyond(np.array([*self._counts, *self._extra_counts])).round(
            ERROR_DECIMALS
        )
        if self.problem.randomized:
            return least_largest(beyond)
        return (float(beyond.max(axis=1).min()), 0.0)

    def keep(self, n_rounds: int) -> None:
        """Keep the first rounds alone: an interrupt may leave `take` unfinished."""
        self.pool.keep(n_rounds)
        del self.results[n_rounds:], self._counts[n_rounds:]

    def settle(self, game: Game[Any]) -> MixtureEnsemble:
        """Return the mixture of the rounds so far."""
        return self.stage(self.pool.n_rounds)

    def stage(self, n_rounds: int) -> MixtureEnsemble:
        """Return the mixture after the first ``n_rounds`` rounds; later base models have weight 0."""
        if not self.even:
            return self.ensemble(*self.selection(n_rounds), self.stage_members(n_rounds))
        voters = self._voters(n_rounds)
        mixture = np.zeros(len(self.pool.base_models))
        mixture[:voters] = 1.0 / voters
        return self.ensemble(mixture, among=np.arange(voters))

    def stage_members(self, n_rounds: int | None) -> Ints:
        """Return the numbers of the first boosted models (all by default) and the unboosted."""
        t = self.pool.n_rounds
        last = len(self.pool.base_models)
        return np.r_[: t if n_rounds is None else n_rounds, t:last]

    def ensemble(
        self, mixture: Floats, gap: float = 0.0, among: Ints | None = None
    ) -> MixtureEnsemble:
        """Return the classifier with these weights; base models ``among``, all by default, settle ties."""
        order = self.pool.by_mean_loss()
        if among is None:
            order = order
        else:
            order = order[np.isin(order, among)]
        return MixtureEnsemble(self.pool.base_models, mixture, self.n_classes, order, gap)

    def gains_nothing(self, rows: Mask, answers: Ints, tol: float) -> bool:
        """Whether a base model, given by its answers on some rows, clearly does not help a CVaR.

        On these rows it lowers the objective by no more than ``tol``, and its mean loss exceeds the least one
        by `CLEARLY` standard errors of the difference.
        """
        part = replace(self)
        part.pool = pool = self.pool.part(rows)
        means = pool.mean_losses()
        wrong = pool.rows.wrong(answers)
        best = pool.loss(int(means.argmin()))
        weight = pool.rows.base
        excess = float(weight @ wrong - means.min())
        differ = float(weight @ (wrong != best))
        (size,) = pool.rows.sizes(np.zeros(len(wrong), dtype=np.intp), 1)
        if excess <= CLEARLY * np.sqrt(max(differ - excess**2, 0.0) / size):
            return False
        before = part.solve().value
        pool.take(Response(None, wrong, answers))
        return before - part.solve().value <= tol

    # -- losses by row, for a CVaR -------------------------------------------------------------------

    def solve(self, n_rounds: int | None = None) -> MixtureSolution | WithinSolution:
        """Return the best weights of the first ``n_rounds`` base models (default: all) and the others."""
        most = self._most(n_rounds)
        losses = self.pool.losses(n_rounds)
        base = self.pool.base(n_rounds)
        if most is None:
            solution: MixtureSolution = self.problem.objective.solve(losses, base)
            return solution
        return least_worst_within(
            losses, self.pool.mean_losses(n_rounds), most, self.alpha, base
        )

    def _most(self, n_rounds: int | None = None) -> float | None:
        """Return the largest mean loss within the error budget; None without a budget."""
        if self.problem.error_budget is None:
            return None
        return allowed_error(
            float(self.pool.mean_losses(n_rounds).min()), self.problem.error_budget
        )

    def curve(self) -> MixtureCurve:
        """Return the least CVaR for each limit on the mean loss."""
        return worst_mean_curve(
            self.pool.losses(), self.pool.mean_losses(), self.alpha, self.pool.base(),
            tolerance=CURVE_TOLERANCE, max_points=CURVE_POINTS,
        )  # fmt: skip

    # -- confusion counts ----------------------------------------------------------------------------

    @cached_property
    def table_and_rows(self) -> tuple[SelectionData, Mask]:
        """The selection data, and a mask of their rows among all rows."""
        return self.grouping.table(self.pool.rows)

    @property
    def table(self) -> SelectionData:
        """The selection data."""
        return self.table_and_rows[0]

    @cached_property
    def program(self) -> Program:
        """The objective and the limits, without the budget."""
        return Program.of_rates(self.table.strata, self.problem.counted, self.problem.limits)

    def counted(self, answers: Ints) -> Floats:
        """Return the confusion counts of answers to the selection data, shape (S, K)."""
        table, inside = self.table_and_rows
        return table.count(answers[inside].astype(np.intp))

    def beyond(self, counts: Floats) -> Floats:
        """Return the error of each subgroup less its limit, by confusion counts (…, S, K): shape (…, m).

        Subgroups without rows or without a limit are left out. One limit for all is not subtracted.
        """
        linear, allowed = self._steered
        errors: Floats = np.tensordot(counts, linear, axes=([-2, -1], [1, 2])) - allowed
        return errors

    @cached_property
    def _steered(self) -> tuple[Floats, Floats]:
        """Errors of the subgroups as functions of confusion counts, shape (m, S, K), and their limits."""
        assert self.steering.kind == "error"
        terms = self.steering.terms(self.table.strata)
        allowed = np.zeros(len(terms.names))
        limit = self.limit
        if limit is not None:
            allowed = limit.bounds(terms.names)
            known = allowed[~np.isnan(allowed)]
            if np.ptp(known) == 0:
                allowed = np.where(np.isnan(allowed), np.nan, 0.0)
            else:
                allowed = allowed
        used = terms.defined & ~np.isnan(allowed)
        return terms.linear[used][:, : len(self.table.strata.mass)], allowed[used]

    @property
    def limit(self) -> Limit | None:
        """The limit on the errors of the subgroups, if there is one."""
        return next((limit for limit in self.problem.limits if limit.rate.by is not None), None)

    @property
    def steering(self) -> Any:
        """The limited errors of the subgroups; without limits, the objective."""
        limit = self.limit
        if limit is None:
            return self.problem.counted.rate
        return limit.rate

    @cached_property
    def _extra_counts(self) -> list[Floats]:
        return [
            self.counted(self.pool.answer(m))
            for m in range(self.pool.n_rounds, len(self.pool.base_models))
        ]

    def candidates(self, n_rounds: int | None = None) -> Candidates:
        """Return the first hypotheses (default: all) and the unboosted as candidates, by number."""
        t = self.pool.n_rounds
        numbers = self.stage_members(n_rounds).tolist()
        self._counts += [self.counted(self.pool.answer(m)) for m in range(len(self._counts), t)]
        counts = [*self._counts, *self._extra_counts]
        return Candidates(self.table, numbers, [counts[m] for m in numbers])

    def selection(self, n_rounds: int | None = None) -> tuple[Floats, float]:
        """Return the mixture weights of all members, and the gap of the selected rule.

        Limits apply to `predict`. If several members have weight, `predict` returns the label with the
        largest weight. It can violate a limit that the randomised rule satisfies. Then `predict` of this
        mixture is compared with `predict` of mixtures within tighter limits, and with single members.
        """
        if self.problem.over_rows:
            solution = self.solve(n_rounds)
            mixture = np.zeros(len(self.pool.base_models))
            mixture[self.stage_members(n_rounds)] = solution.mixture
            return mixture, solution.gap
        pool = self.candidates(n_rounds)
        program = within_budget(pool, self.program, self.problem.error_budget)
        best = best_in_pool(pool, program, randomized=self.problem.randomized)
        weights = self.weights(best, n_rounds)
        if not self.problem.randomized or not self.problem.limits:
            return weights, best.gap
        if (self.program.violations(self.predicted(self.ensemble(weights))) <= SLIGHT).all():
            return weights, best.gap
        mixtures = [weights]
        for share in SHARES:
            tighter = [self._at(limit, share) for limit in self.problem.limits]
            own = program.within((*tighter, *program.limits[len(tighter) :]))
            mixtures.append(self.weights(best_in_pool(pool, own, randomized=True), n_rounds))
        counts = [*(self.predicted(self.ensemble(each)) for each in mixtures), *pool.counts]
        mixtures += list(np.eye(len(self.pool.base_models))[pool.candidates])
        rules = Candidates(self.table, list(range(len(mixtures))), counts)
        return mixtures[int(best_in_pool(rules, program).numbers[0])], best.gap

    def predicted(self, ensemble: MixtureEnsemble) -> Floats:
        """Return the confusion counts of the labels with the largest weight, shape (S, K)."""
        return self.counted(self.pool.shares(ensemble).argmax(axis=1))

    def _at(self, limit: Limit, share: float) -> Limit:
        """Return a limit with bounds tighter by a share of them."""
        if limit.compares:
            names = [limit.form]
        else:
            names = limit.rate.terms(self.table.strata).names
        if limit.compares:
            bounds = np.array([limit.bound])
        else:
            bounds = limit.bounds(names)
        return limit.tightened(dict(zip(names, ((1.0 - share) * bounds).tolist(), strict=True)))

    def _count(self, n_rounds: int, order: Ints) -> None:
        """Record the majority of so many rounds; ties go to the first voter in the order."""
        rows, (votes, counted) = self.pool.rows, self.votes
        each = np.arange(len(rows.y))
        if counted >= n_rounds or len(votes) < len(
            each
        ):  # an interrupt removed rounds: count anew
            votes = np.zeros((len(each), self.n_classes))
            counted = 0
        for m in range(counted, n_rounds):
            votes[each, self.pool.answer(m)] += 1.0
        self.votes = votes, n_rounds
        P = settle_ties(
            votes / n_rounds, order[order < n_rounds], lambda m, some: self.pool.answer(m)[some]
        )
        counts = self.counted(P.argmax(axis=1))
        overall = float(error().terms(self.table.strata).values(counts)[0])
        self.results.append(
            (round(float(self.beyond(counts).max()), DECIMALS), round(overall, DECIMALS))
        )

    @property
    def _selects_voters(self) -> bool:
        """Whether the number of voters is selected. This needs errors on rows outside of the fit."""
        return self.voting and not self.pool.rows.fitted

    def _voters(self, n_rounds: int) -> int:
        """Return how many of the first rounds have the same weight."""
        if not self._selects_voters:
            return n_rounds
        enough = -np.inf
        if (
            self.problem.limits and not self.problem.objective.worst
        ):  # the cheapest within the limits
            enough = self.worst_limit
        kept = [(max(beyond, enough), mean) for beyond, mean in self.results[:n_rounds]]
        return kept.index(min(kept)) + 1

    @property
    def worst_limit(self) -> float:
        """The limit of all subgroups, or 0 if their limits differ: then `beyond` returns excesses."""
        assert self.limit is not None
        bounds = self.limit.bounds(self.steering.terms(self.table.strata).names)
        least = np.nanmin(bounds)
        most = np.nanmax(bounds)
        if least == most:
            return float(least)
        return 0.0

    @property
    def unreachable(self) -> str:
        """The smallest possible violation of the limits as text; empty if all limits can be satisfied."""
        if self.even or self.limit is None:
            return ""
        beyond = self.beyond(self.candidates().all_counts)
        if self.problem.randomized:
            least = least_largest(beyond)[0]
        else:
            least = float(beyond.max(axis=1).min())
        if is_kept(least - self.worst_limit, self.limit.strict):
            return ""
        if self.problem.randomized:
            rule = "mixture"
        else:
            rule = "single member"
        if self.worst_limit:
            measure = "largest error"
        else:
            measure = "largest excess"
        limit = f"{'less than ' * self.limit.strict}{self.worst_limit:.3g}"
        return (
            f"no {rule} keeps all limits there: the least {measure} is {least:.3g}, not {limit}"
        )

    def weights(self, best: Best, n_rounds: int | None = None) -> Floats:
        """Return the mixture weight of each member of the pool, by a selection of `candidates`."""
        mixture = np.zeros(len(self.pool.base_models))
        mixture[self.stage_members(n_rounds)[best.numbers]] = best.weights
        return mixture

    def mixed(self, mixture: Floats) -> Floats:
        """Return the expected confusion counts of the randomised rule, shape (S, K)."""
        counts: Floats = np.tensordot(mixture, self.candidates().all_counts, axes=1)
        return counts

    def errors(self, counts: Floats) -> Floats:
        """Return the steered rate of each subgroup by confusion counts; NaN without rows."""
        return self.steering.terms(self.table.strata).values(counts)

    @cached_property
    def refit_spread(self) -> float:
        """Standard deviation of an error of a subgroup between a hypothesis and its refit on all rows.

        The estimate is the standard deviation between the models of the folds, averaged over the hypotheses.
        NaN if the models were tested on one held-out part and refits answer.
        """
        rows, (table, inside) = self.pool.rows, self.table_and_rows
        if not rows.refit:
            return 0.0
        if rows.fold is None:
            return float("nan")
        fold = rows.fold[inside].astype(np.intp)
        shape = int(fold.max(initial=0)) + 1, len(table.strata.mass), self.n_classes
        cell = (fold * shape[1] + table.stratum) * shape[2]
        each = (cell + self.pool.answer(m)[inside] for m in range(self.pool.n_rounds))
        size = int(np.prod(shape))
        counts = [
            np.bincount(place, table.weights, size).astype(float).reshape(shape)
            for place in each
        ]
        return fold_spread(self.steering, table.strata, counts)

    # -- results -------------------------------------------------------------------------------------

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the pool."""
        if self.problem.over_rows:
            return self.values(mixture[None])[0]
        return self.program.value(self.mixed(mixture))

    def values(self, mixtures: Floats) -> list[float]:
        """Return the CVaR of each of several mixtures, (B, T + E)."""
        losses = self.pool.losses()
        base = self.pool.base()
        return [
            self.problem.objective.evaluate(losses.combine(mixture), base)
            for mixture in mixtures
        ]

    def on_all(self, mixture: Floats) -> float:
        """Return the objective on all rows, with outliers."""
        if not self.problem.over_rows:
            return self.value(mixture)
        losses = self.pool.losses().combine(mixture)
        return float(self.problem.objective.evaluate(losses, self.pool.rows.base))

    @property
    def dropped(self) -> float:
        """Fraction of the weight that the objective leaves out as outliers."""
        if self.problem.over_rows:
            return self.pool.dropped
        return 0.0

    @property
    def price(self) -> float | None:
        """Gain in the CVaR per unit of the error budget; None without a budget, and for rates."""
        if self.problem.over_rows and self.problem.error_budget is not None:
            solution = self.solve()
        else:
            solution = None
        if isinstance(solution, WithinSolution):
            return solution.price
        return None

    def largest_error(self, mixture: Floats) -> float | None:
        """Return the largest error of a subgroup if the objective is another rate, else None."""
        if self.problem.counted.worst:
            return None
        errors = error(by=self.problem.subgroup_kind).terms(self.table.strata)
        return float(np.nanmax(errors.values(self.mixed(mixture))))

    @property
    def _budgeted(self) -> Program:
        """The objective and the limits, with the budget."""
        return within_budget(self.candidates(), self.program, self.problem.error_budget)

    def kept_by(self, mixture: Floats) -> bool:
        """Return whether a mixture keeps the limits and the error budget."""
        if not self.problem.over_rows:
            return self._keeps(self.mixed(mixture))
        most = self._most()
        return most is None or float(self.pool.mean_losses() @ mixture) <= most + SOLVED

    def _keeps(self, counts: Floats) -> bool:
        # A strict limit may be missed by less than a solver's precision.
        if any(limit.strict for limit in self.problem.limits):
            allowed = SLIGHT
        else:
            allowed = SOLVED
        return bool((self._budgeted.violations(counts) <= allowed).all())

    @property
    def random_guess(self) -> float | None:
        """The objective of the even mixture of all constants; None if it breaks the limits or the budget."""
        if self.problem.over_rows:
            most = self._most()
            guess = 1.0 - 1.0 / self.n_classes
            if most is None or guess <= most:
                return guess
            return None
        counts: Floats = np.mean(self._constants.counts, axis=0)
        if self._keeps(counts):
            return self.program.value(counts)
        return None

    @property
    def constants(self) -> float | None:
        """The objective of the best mixture of constants within limits and budget; None without one."""
        if self.problem.over_rows:
            value: float | None = self.problem.objective.constants(self.pool.mass, self._most())
            return value
        solution = solve(self._constants, self._budgeted)
        counts = mixed(solution.weights, self._constants.counts)
        if solution.feasible:
            return self.program.value(counts)
        return None

    @property
    def _constants(self) -> Candidates:
        mass = self.table.strata.mass
        K = self.n_classes
        return Candidates(
            self.table, list(range(K)), [mass[:, None] * (np.arange(K) == k) for k in range(K)]
        )

    def highest(self, mixture: Floats) -> float:
        """Return the upper end of a 95 % interval for the objective on new rows."""
        rows = self.pool.rows
        if self.problem.over_rows:
            return float(
                self.problem.objective.highest(rows, self.pool.losses().combine(mixture))
            )
        rate = self.problem.objective.rate
        counts = self.mixed(mixture)
        counted = CountedRate.of(rate, self.table.strata, counts, rows.refit, self.refit_spread)
        return float(np.nan_to_num(counted.ends()[1], nan=1.0).max())
