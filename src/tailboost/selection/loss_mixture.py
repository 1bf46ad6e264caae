"""The mixture: draw a hypothesis with probability λ, the exact minimiser of an objective."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tailboost import rates
from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.game import Game, Response
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.loss_objective import LossObjective
from tailboost.selection.loss_pool import LossPool
from tailboost.selection.subgroup_mixture import Grouping, SubgroupMixture
from tailboost.solvers import (
    MixtureCurve,
    MixtureSolution,
    WithinSolution,
    least_worst_within,
    worst_mean_curve,
)

# The curve of a CVaR has nearly as many corners as there are rows: where a straight line is this close to it,
# or with so many points, it is not refined.
CURVE_TOLERANCE, CURVE_POINTS = 1e-5, 200
# Standard errors beyond which a difference is hardly chance.
CLEARLY = 2.0


@dataclass
class Mixture:
    """Combine by the λ that makes an objective smallest, or evenly."""

    objective: LossObjective  # what λ minimises and what the mixture is judged by
    n_classes: int  # K
    even: bool = False  # whether λ is 1/T on the boosted hypotheses instead of a solution
    with_constants: bool = False  # whether the K constants join the pool
    # Whether the next likely classes by the models of the first round join too, where these know them.
    runners_up: bool = False
    # Mass of the rows with the highest cumulative loss that the CVaR leaves out.
    outlier_fraction: float = 0.0
    # Largest increase of the mean loss above the least mean loss of a member; None for no limit.
    error_budget: float | None = None
    pool: LossPool = field(init=False)

    def open(self, rows: Rows, extras: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game that is judged on ``rows``; ``extras`` fits plain ERM and what else joins."""
        self.pool = LossPool.open(
            rows,
            self.n_classes,
            constants=self.with_constants,
            outlier_fraction=self.outlier_fraction,
            runners_up=self.runners_up,
        )

    def take(self, response: Response, state: Any, watched: bool) -> tuple[float, float]:
        """Add the newest hypothesis; return the objective now and the gap of its solve."""
        self.pool.take(response)
        if self.even or not watched:
            return np.nan, 0.0
        solution = self.solve()
        return solution.value, solution.gap

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
        before = part.solve().value
        part.pool.take(Response(None, wrong, answers))
        return before - part.solve().value <= tol

    @property
    def chooses_shares(self) -> bool:
        """Whether λ is chosen, not even."""
        return not self.even

    def first(self, n_rounds: int) -> None:
        """Drop all but the first rounds."""
        self.pool.first(n_rounds)

    def settle(self, game: Game[Any]) -> MixtureEnsemble:
        """Return the mixture of the rounds so far."""
        return self.stage(self.pool.n_rounds)

    def solve(self, n_rounds: int | None = None) -> MixtureSolution | WithinSolution:
        """Return the best shares over the first ``n_rounds`` hypotheses (all by default) and the extras."""
        if self.error_budget is not None:
            return self.within(self.error_budget, n_rounds)
        return self.objective.solve(self.pool.ledger, n_rounds)

    def within(self, budget: float, n_rounds: int | None = None) -> WithinSolution:
        """Return the λ of least objective within any budget, and what more of it would be worth."""
        ledger = self.pool.ledger
        means = ledger.mean_losses(n_rounds)
        losses, alpha, base = self.objective.tail(ledger, n_rounds)
        return least_worst_within(losses, means, float(means.min()) + budget, alpha, base)

    @property
    def price(self) -> float | None:
        """Gain in the objective per unit of budget; None without a budget."""
        if self.error_budget is None:
            return None
        return self.within(self.error_budget).price

    def curve(self) -> MixtureCurve:
        """Return the least objective against the mean loss that is allowed, whatever the budget."""
        losses, alpha, base = self.objective.tail(self.pool.ledger)
        # Of many rows, with as many corners.
        return worst_mean_curve(
            losses, self.pool.ledger.mean_losses(), alpha, base,
            tolerance=CURVE_TOLERANCE, max_points=CURVE_POINTS,
        )  # fmt: skip

    def stage(self, n_rounds: int) -> MixtureEnsemble:
        """Return the mixture after the first ``n_rounds`` rounds; later hypotheses have no share in it."""
        members, order = self.pool.members, self.pool.ledger.by_mean_loss()
        extras = np.arange(self.pool.n_rounds, len(members))
        of_stage = np.r_[:n_rounds, extras]
        mixture = np.zeros(len(members))
        if self.even:
            mixture[:n_rounds] = 1.0 / n_rounds
            return MixtureEnsemble(members, mixture, self.n_classes, order[order < n_rounds])
        solution = self.solve(n_rounds)
        mixture[of_stage] = solution.mixture
        return MixtureEnsemble(
            members, mixture, self.n_classes, order[np.isin(order, of_stage)], solution.gap
        )

    def ensemble(self, mixture: Floats) -> MixtureEnsemble:
        """Return the classifier that has these shares of all members."""
        return MixtureEnsemble(self.pool.members, mixture, self.n_classes, self.pool.ledger.by_mean_loss())

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the pool."""
        return self.objective.evaluate(self.pool.ledger, mixture)

    def values(self, mixtures: Floats) -> Floats:
        """Return the objective of each of several mixtures, (B, T + E)."""
        return np.array([self.value(mixture) for mixture in mixtures])

    @classmethod
    def on(
        cls, pool: LossPool, objective: LossObjective, n_classes: int, error_budget: float | None = None
    ) -> Mixture:
        """Return the combiner of the members of a pool, never even."""
        fraction = pool.ledger.outlier_fraction
        new = cls(objective, n_classes, outlier_fraction=fraction, error_budget=error_budget)
        new.pool = pool
        return new

    def aiming_at(self, objective: LossObjective, error_budget: float | None = None) -> Mixture:
        """Return the combiner with the same members and another objective, never even."""
        pool = self.pool.snapshot()
        return Mixture.on(pool, objective, self.n_classes, error_budget)

    def counting(self, grouping: Grouping) -> SubgroupMixture:
        """Return the members as candidates for the largest error of a class."""
        worst_class = rates.Objective.of(rates.largest(rates.error(by="class")))
        return SubgroupMixture.on(self.pool, worst_class, grouping)

    # -- what is reached -----------------------------------------------------------------------------

    voting: ClassVar[bool] = False
    with_erm: ClassVar[bool] = False
    randomized: ClassVar[bool] = True
    limits: ClassVar[tuple[()]] = ()

    @property
    def alpha(self) -> float | None:
        """Tail mass of the objective."""
        return self.objective.alpha

    @property
    def dropped(self) -> float:
        """Part of the weight that is left out as outliers."""
        return self.pool.ledger.dropped

    def largest_error(self, mixture: Floats) -> None:
        """Return None: the objective is about rows."""

    def on_all(self, mixture: Floats) -> float:
        """Return the objective with all rows counted, the outliers too."""
        return self.objective.evaluate(self.pool.ledger.whole, mixture)

    @property
    def coin(self) -> float:
        """The objective of the even mixture of all constants."""
        return self.objective.coin(self.pool.ledger, self.n_classes)

    @property
    def constants(self) -> float:
        """The objective of the best mixture of constants."""
        return self.objective.constants(self.pool.ledger, self.n_classes)

    def highest(self, mixture: Floats) -> float:
        """Return the upper end of a 95 % interval for the objective on new rows."""
        return self.objective.highest(self.pool.ledger.rows, self.pool.ledger.pool().combine(mixture))

    def snapshot(self) -> Mixture:
        """Return a copy that further rounds leave as it is."""
        return _with_pool(self, self.pool.snapshot())


def _with_pool(mixture: Mixture, pool: LossPool) -> Mixture:
    new = replace(mixture)
    new.pool = pool
    return new
