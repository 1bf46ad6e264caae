"""The mixture: draw a hypothesis with probability λ, the exact minimiser of an objective."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from tailboost._typing import Floats, Ints, Mask
from tailboost.combiners.ensemble import MixtureEnsemble, settle_ties, wrong_answers
from tailboost.combiners.ledger import LOSS_DECIMALS
from tailboost.combiners.objective import Objective, WorstUnit
from tailboost.combiners.pool import Pool
from tailboost.data import Rows
from tailboost.game import Game, Response
from tailboost.solvers import (
    BitLosses,
    Curve,
    MixtureSolution,
    WithinSolution,
    least_worst_within,
    worst_mean_curve,
)
from tailboost.solvers.tradeoff import undominated
from tailboost.targets import DECIMALS

Wrong = Callable[[MixtureEnsemble, Mask], Any]
"""In which of some of the judged rows `predict` of an ensemble is wrong."""

# The curve of a CVaR has nearly as many corners as there are rows: where a straight line is this close to it,
# or with so many points, it is not refined.
CURVE_TOLERANCE, CURVE_POINTS = 1e-5, 200
# Points between the corners of a curve, where the answers of a mixture may change too.
BETWEEN_CORNERS = 24
# Standard errors beyond which a difference is hardly chance.
CLEARLY = 2.0


@dataclass
class Mixture:
    """Combine by the λ that makes an objective smallest, or evenly."""

    objective: Objective  # what λ minimises and what the mixture is judged by
    n_classes: int  # K
    even: bool = False  # whether λ is 1/T on the boosted hypotheses instead of a solution
    # Whether the hypotheses vote. If the judged rows were not fitted on, the first rounds alone vote: as many
    # as have the smallest objective of the majority's losses (or one within ``limit``), then the smallest
    # mean loss, then the fewest. Else all rounds vote.
    voting: bool = False
    # with_erm, with_constants: whether plain ERM (and other members beside the game) and the K constants join
    # the pool.
    with_erm: bool = False
    with_constants: bool = False
    # Whether the next likely classes by the models of the first round join too, where these know them.
    runners_up: bool = False
    # Mass of the rows with the highest cumulative loss that the CVaR leaves out.
    outlier_fraction: float = 0.0
    keep_answers: bool = False  # whether the members' answers on the judged rows are kept beside their losses
    # What the mean loss of the mixture may be above the least mean loss of a member; no limit by default.
    # What is no more above it than a member that is not told from the best is always within, see
    # `Ledger.tie`.
    mean_budget: float | None = None
    # Whether members may share λ; else one member gets all of it, for an objective over units: the one of
    # least `WorstUnit.expected_worst`.
    randomized: bool = True
    # What the objective, over units, may be: of the mixtures that keep it, by estimates, the one of least
    # mean loss is taken, and where none does the one that is least beyond it (see `Mixture.cheapest`).
    limit: float | None = None
    # What λ's own measure may be so that the limit is kept; found when the mixture is settled.
    ceiling: float | None = None
    # How far beyond its limit the mixture is by the estimate it was chosen by, where none keeps it.
    excess: float = 0.0
    pool: Pool = field(init=False)
    # Of a vote: the votes for each class on the judged rows with the number of rounds that are counted, and
    # after each round the objective and the mean loss of the majority.
    votes: tuple[Floats, int] = field(init=False, default=(np.zeros((0, 0)), 0))
    results: list[tuple[float, float]] = field(init=False, default_factory=list)

    def open(self, rows: Rows, extras: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game that is judged on ``rows``; ``extras`` fits plain ERM and what else joins."""
        self.pool = Pool.open(
            rows,
            self.n_classes,
            extras=extras() if self.with_erm else (),
            constants=self.with_constants,
            outlier_fraction=self.outlier_fraction,
            runners_up=self.runners_up,
            keep_answers=self.keep_answers,
        )

    def take(self, response: Response, state: Any, watched: bool) -> tuple[float, float]:
        """Add the newest hypothesis; return the objective now and the gap of its solve."""
        self.pool.take(response)
        if self.voting:
            self._count(self.pool.n_rounds, self.pool.ledger.by_mean_loss())
            return (min(self.results) if self._selects_voters else self.results[-1])[0], 0.0
        if self.even or not watched:
            return np.nan, 0.0
        mixture, value, gap = self._chosen()
        # λ of shrunk errors is reported by the errors themselves.
        return value if self.objective.unit is None else self.value(mixture), gap

    def gains_nothing(self, rows: Mask, answers: Ints, tol: float) -> bool:
        """Whether a candidate member, known by its answers on some judged rows, clearly does not help.

        There it lowers the objective by no more than ``tol``, and errs more than the member of least mean
        loss by `CLEARLY` standard errors of the difference.
        """
        part = _with_pool(self, self.pool.part(rows))
        ledger, means = part.pool.ledger, part.pool.ledger.mean_losses()
        wrong, best = ledger.rows.wrong(answers), ledger.pool().row(int(means.argmin()))
        weight = ledger.rows.weight / ledger.rows.weight.sum()
        excess, differ = float(weight @ wrong - means.min()), float(weight @ (wrong != best))
        (size,) = ledger.rows.sizes(np.zeros(len(wrong), dtype=np.intp), 1)
        if excess <= CLEARLY * np.sqrt(max(differ - excess**2, 0.0) / size):
            return False
        before = part._chosen()[1]
        part.pool.take(Response(None, wrong, answers))
        return before - part._chosen()[1] <= tol

    @property
    def chooses_shares(self) -> bool:
        """Whether λ is chosen, not even."""
        return not self.even

    def _count(self, n_rounds: int, order: Ints) -> None:
        """Note the losses of the majority after so many rounds; ties go to the first voter in the order."""
        said, rows, (counts, counted) = self.pool.said, self.pool.ledger.rows, self.votes
        assert said is not None
        each = np.arange(len(rows.y))
        if counted >= n_rounds or len(counts) < len(each):  # an interrupt removed rounds: count anew
            counts, counted = np.zeros((len(each), self.n_classes)), 0
        for k in said[counted:n_rounds]:
            counts[each, k] += 1.0
        self.votes = counts, n_rounds
        P = settle_ties(counts / n_rounds, order[order < n_rounds], lambda m, some: said[m][some])
        wrong = rows.wrong(P.argmax(axis=1))
        beyond = self.objective.of_losses(self.pool.ledger, wrong.astype(np.float64))
        mean = float(np.average(wrong, weights=rows.weight))
        self.results.append((round(beyond, DECIMALS), round(mean, DECIMALS)))

    @property
    def _selects_voters(self) -> bool:
        """Whether the number of voters is selected; errors on rows fitted on say little about it."""
        return self.voting and not self.pool.ledger.rows.fitted

    def _voters(self, n_rounds: int) -> int:
        """Return how many of the first rounds share λ evenly."""
        if not self._selects_voters:
            return n_rounds
        enough = -np.inf if self.limit is None else self.limit
        kept = [(max(beyond, enough), mean) for beyond, mean in self.results[:n_rounds]]
        return kept.index(min(kept)) + 1

    def first(self, n_rounds: int) -> None:
        """Drop all but the first rounds."""
        self.pool.first(n_rounds)
        del self.results[n_rounds:]

    def settle(self, game: Game[Any]) -> MixtureEnsemble:
        """Return the mixture of the rounds so far."""
        self.keep_limit()
        return self.stage(self.pool.n_rounds)

    def keep_limit(self, wrong: Wrong | None = None) -> None:
        """Find the ceiling by which the limit is kept; ``wrong`` says in which rows `predict` errs.

        By default that is known from the answers kept with the pool.
        """
        self.ceiling, self.excess = None, 0.0
        if self.limit is not None and not self.even:
            self.ceiling, self.excess = self.cheapest(self.limit, wrong or self.wrong)

    def cheapest(self, limit: float, wrong: Wrong | None = None) -> tuple[float, float]:
        """Find the cheapest mixture of the trade-off that keeps a limit on rows it was not chosen on.

        The points of the trade-off are tried. Each is judged by three errors of its units: those of `predict`
        and of the drawn member on the judged rows, and those of `predict` where each half of these rows is
        answered by the point of the same value that the other half would have chosen. Among the points whose
        largest error keeps the limit by all three the one of least mean error is taken, and where none does
        the one that is least beyond it. Without ``wrong``, which says where `predict` errs, the losses of
        what is drawn count.

        Returns what λ's own measure may be: the cheapest mixture with so much of it is the one; and how far
        beyond the limit that one is all the same, because none keeps it.
        """
        objective, ledger = cast("WorstUnit", self.objective), self.pool.ledger
        rows, shared = ledger.rows, self.randomized
        curve = self.choices().refined(BETWEEN_CORNERS) if shared else self.choices()
        values = curve.worst
        half = None if rows.fitted else rows.halves()
        whole = np.ones(len(rows.y), dtype=np.bool_)
        drawn = [ledger.pool().combine(mixture) for mixture in curve.mixture]
        said = drawn
        if wrong is not None:
            said = [np.asarray(wrong(self.ensemble(mixture), whole), float) for mixture in curve.mixture]
        judged_by = [drawn, said]
        if half is not None:
            elsewhere = np.empty((len(values), len(rows.y)))
            for judged in (~half, half):
                part = cast("Mixture", self.part(~judged))
                own, losses = part.choices(), ledger.part(judged).pool()
                for j, value in enumerate(values):
                    mixture = at_most(own, value, shared)
                    elsewhere[j, judged] = (
                        losses.combine(mixture) if wrong is None else wrong(part.ensemble(mixture), judged)
                    )
            judged_by.append(list(elsewhere))
        beyond = np.array([[objective.believed(rows, losses) for losses in each] for each in judged_by])
        by_each = np.maximum(beyond - limit, 0.0).round(LOSS_DECIMALS)
        excess = by_each.max(axis=0)
        mean = np.array([rows.base @ losses for losses in said]).round(LOSS_DECIMALS)
        # Where `predict` keeps it nowhere the drawn member may. Of equal points the one with more room.
        best = np.lexsort((values, mean, by_each[0], excess))[0]
        return float(values[best]), float(excess[best])

    @property
    def wrong(self) -> Wrong | None:
        """In which of the judged rows `predict` of an ensemble errs; None where that is not known.

        It is known by the members' answers, where these are kept, and of two classes by their losses.
        """
        y, losses, kept = self.pool.ledger.rows.y, self.pool.ledger.pool(), self.pool.answers
        if kept is not None:
            return partial(wrong_answers, kept.__getitem__, y)
        if self.n_classes > 2 or not isinstance(losses, BitLosses):
            return None
        return partial(wrong_answers, lambda member: np.where(losses.row(member), 1 - y, y), y)

    def solve(self, n_rounds: int | None = None) -> MixtureSolution | WithinSolution:
        """Return the best shares over the first ``n_rounds`` hypotheses (all by default) and the extras."""
        if self.mean_budget is not None:
            return self.within(self.mean_budget, n_rounds)
        return self.objective.solve(self.pool.ledger, n_rounds)

    def _chosen(self, n_rounds: int | None = None) -> tuple[Floats, float, float]:
        """Return λ, what it makes small, and the gap of the solve: to find one member nothing is solved."""
        if not self.randomized:
            return *self._alone(self.mean_budget, n_rounds), 0.0
        solution = self.solve(n_rounds)
        return solution.mixture, solution.value, solution.gap

    def _alone(self, budget: float | None, n_rounds: int | None) -> tuple[Floats, float]:
        """Return the λ of the best single member within a budget, and what it is chosen by."""
        ledger, objective = self.pool.ledger, cast("WorstUnit", self.objective)
        means, worst = ledger.mean_losses(n_rounds), objective.expected_worst(ledger, n_rounds)
        most = self._most(1.0 if budget is None else budget, n_rounds)
        inside = np.flatnonzero(means <= round(most, LOSS_DECIMALS))
        best = inside[np.lexsort((means[inside], worst[inside]))[0]]
        alone = np.zeros(len(means))
        alone[best] = 1.0
        return alone, float(worst[best])

    def gap(self, ensemble: MixtureEnsemble) -> float:
        """Return by how much other shares may lower what an ensemble of all rounds makes small.

        Of one member alone that is what members that share would gain, on the rows of the choice.
        """
        if self.randomized or self.even or self.ceiling is not None:
            return max(0.0, ensemble.gap)
        losses = cast("WorstUnit", self.objective).steering_losses(self.pool.ledger)
        return max(0.0, float((ensemble.weights @ losses).max()) - self.solve().dual_value)

    def within(self, budget: float, n_rounds: int | None = None) -> WithinSolution:
        """Return the λ of least objective within any budget, and what more of it would be worth."""
        ledger = self.pool.ledger
        means = ledger.mean_losses(n_rounds)
        losses, alpha, base = self.objective.tail(ledger, n_rounds)
        solution = least_worst_within(losses, means, self._most(budget, n_rounds), alpha, base)
        if self.randomized:
            return solution
        alone, value = self._alone(budget, n_rounds)
        return replace(solution, mixture=alone, value=value, mean=float(means @ alone))

    @property
    def price(self) -> float | None:
        """What more of the budget would be worth; None without one, or where one member gets all."""
        if self.mean_budget is None or not self.randomized:
            return None
        return self.within(self.mean_budget).price

    def _most(self, budget: float, n_rounds: int | None = None) -> float:
        """Return what the mean loss may be within a budget: never less than that of a tied member."""
        ledger = self.pool.ledger
        return float(ledger.mean_losses(n_rounds).min()) + max(budget, ledger.tie(n_rounds))

    def curve(self, n_rounds: int | None = None) -> Curve:
        """Return the least objective against the mean loss that is allowed, whatever the budget.

        Of one member alone it is a staircase, whose points are the members that are best for some budget. It
        begins where a budget of 0 does.
        """
        ledger = self.pool.ledger
        means = ledger.mean_losses(n_rounds)
        if not self.randomized:
            alone = cast("WorstUnit", self.objective).expected_worst(ledger, n_rounds)
            members = undominated(alone, means)
            curve = Curve(means[members], alone[members], np.eye(len(means))[members], 0.0)
        else:
            losses, alpha, base = self.objective.tail(ledger, n_rounds)
            trace = worst_mean_curve
            if alpha is not None or base is not None:  # of many rows, with as many corners
                trace = partial(trace, tolerance=CURVE_TOLERANCE, max_points=CURVE_POINTS)
            curve = trace(losses, means, alpha, base)
        return curve.between(self._most(0.0, n_rounds), np.inf, self.randomized)

    def choices(self, n_rounds: int | None = None) -> Curve:
        """Return the trade-off within the budget."""
        curve = self.curve(n_rounds)
        if self.mean_budget is None:
            return curve
        return curve.between(0.0, self._most(self.mean_budget, n_rounds), self.randomized)

    def stage(self, n_rounds: int) -> MixtureEnsemble:
        """Return the mixture after the first ``n_rounds`` rounds; later hypotheses have no share in it."""
        members, order = self.pool.members, self.pool.ledger.by_mean_loss()
        extras = np.arange(self.pool.n_rounds, len(members))
        of_stage = np.r_[:n_rounds, extras]
        mixture = np.zeros(len(members))
        if self.even:
            voters = self._voters(n_rounds)
            mixture[:voters] = 1.0 / voters
            return MixtureEnsemble(members, mixture, self.n_classes, order[order < voters])
        order = order[np.isin(order, of_stage)]
        if self.ceiling is None:
            mixture[of_stage], _, gap = self._chosen(n_rounds)
        else:
            curve = self.choices(n_rounds)
            mixture[of_stage], gap = at_most(curve, self.ceiling, self.randomized), curve.gap
        return MixtureEnsemble(members, mixture, self.n_classes, order, gap)

    def ensemble(self, mixture: Floats) -> MixtureEnsemble:
        """Return the classifier that has these shares of all members."""
        return MixtureEnsemble(self.pool.members, mixture, self.n_classes, self.pool.ledger.by_mean_loss())

    @property
    def chosen_by(self) -> str:
        """What λ minimises, in words, where that is not the objective itself; else empty."""
        if self.even:
            return ""
        if self.randomized:
            return self.objective.chosen_by
        words, smooth = self.objective.chosen_alone_by, self.pool.ledger.near is not None
        return f"{words}, where a row near a threshold counts in part" if words and smooth else words

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the pool."""
        return self.objective.evaluate(self.pool.ledger, mixture)

    def values(self, mixtures: Floats) -> Floats:
        """Return the objective of each of several mixtures, (B, T + E)."""
        return np.array([self.value(mixture) for mixture in mixtures])

    def part(self, chosen: Mask) -> Mixture | None:
        """Return the combiner with the same members, judged on some of the rows; None where none chooses."""
        if self.even and not self.voting:
            return None
        new = _with_pool(self, self.pool.part(chosen))
        order = new.pool.ledger.by_mean_loss()
        for n_rounds in range(1, self.voting * self.pool.n_rounds + 1):
            new._count(n_rounds, order)
        return new

    def judged_on(self, X: Any, rows: Rows, keep_answers: bool = False) -> Mixture:
        """Return the combiner with the same members, judged on other rows; of a vote their even mixture."""
        return _with_pool(replace(self, voting=False), self.pool.judged_on(X, rows, keep_answers))

    def aiming_at(
        self,
        objective: Objective,
        groups: Ints | None = None,
        mean_budget: float | None = None,
        limit: float | None = None,
    ) -> Mixture:
        """Return the combiner with the same members and another objective, never even.

        ``groups`` are other groups of the judged rows, for an objective over groups.
        """
        pool = self.pool.snapshot() if groups is None else self.pool.regrouped(groups)
        objective.check(pool.ledger.rows)
        # A single member cannot improve a CVaR: `randomized=False` is for objectives over units only.
        shared = self.randomized or objective.unit is None
        new = replace(
            self, objective=objective, even=False, voting=False, mean_budget=mean_budget,
            randomized=shared, limit=limit, ceiling=None, excess=0.0,
        )  # fmt: skip
        return _with_pool(new, pool)

    def snapshot(self) -> Mixture:
        """Return a copy that further rounds leave as it is."""
        new = _with_pool(self, self.pool.snapshot())
        new.votes, new.results = (self.votes[0].copy(), self.votes[1]), list(self.results)
        return new


def at_most(curve: Curve, value: float, shared: bool) -> Floats:
    """Return the cheapest mixture of a curve whose worst error is at most a value; the safest if none is.

    Points between two of the curve can be had where λ may be shared.
    """
    right = min(int(np.count_nonzero(curve.worst > value)), len(curve) - 1)
    if right == 0 or not shared or curve.worst[right] > value:
        return curve.mixture[right]
    low, high = curve.worst[right], curve.worst[right - 1]
    share = (high - value) / (high - low)
    mixed: Floats = (1.0 - share) * curve.mixture[right - 1] + share * curve.mixture[right]
    return mixed


def _with_pool(mixture: Mixture, pool: Pool) -> Mixture:
    new = replace(mixture)
    new.pool = pool
    return new
