"""Mixtures of base models whose weights λ minimise a CVaR or the largest loss of a row."""

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
from tailboost.selection.loss_objective import CVaR, WorstRow
from tailboost.selection.loss_pool import LossPool
from tailboost.selection.subgroup_mixture import Grouping, SubgroupMixture
from tailboost.solvers import (
    MixtureCurve,
    MixtureSolution,
    WithinSolution,
    least_worst_within,
    worst_mean_curve,
)

# The curve of a CVaR has nearly as many corners as rows. It is refined until it is this close to straight
# lines, or has this many points.
CURVE_TOLERANCE, CURVE_POINTS = 1e-5, 200
# A difference of more standard errors is taken for significant.
CLEARLY = 2.0


@dataclass
class Mixture:
    """Combine base models by the weights λ of least objective, or with equal weights."""

    objective: CVaR | WorstRow
    n_classes: int  # K
    even: bool = False  # whether λ is 1/T on the boosted models
    with_constants: bool = False  # whether the K constants join the pool
    # Whether the next likely classes of the first round join too, if its models have probabilities.
    runners_up: bool = False
    # Mass of the rows with the highest cumulative loss; the CVaR leaves them out.
    outlier_fraction: float = 0.0
    # Largest increase of the mean loss above the least mean loss of a base model; None for no limit.
    error_budget: float | None = None
    pool: LossPool = field(init=False)

    def open(self, rows: Rows, unboosted: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game with selection data ``rows``; ``unboosted`` fits plain ERM and others."""
        self.pool = LossPool.open(
            rows,
            self.n_classes,
            constants=self.with_constants,
            outlier_fraction=self.outlier_fraction,
            runners_up=self.runners_up,
        )

    def take(self, response: Response, state: Any, needs_objective: bool) -> tuple[float, float]:
        """Add the newest base model; return the objective and the gap of its solve."""
        self.pool.take(response)
        if self.even or not needs_objective:
            return np.nan, 0.0
        solution = self.solve()
        return solution.value, solution.gap

    def gains_nothing(self, rows: Mask, answers: Ints, tol: float) -> bool:
        """Whether a base model, given by its answers on some rows, clearly does not help.

        On these rows it lowers the objective by no more than ``tol``, and its mean loss exceeds the least one
        by `CLEARLY` standard errors of the difference.
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

    def first(self, n_rounds: int) -> None:
        """Drop all but the first rounds."""
        self.pool.first(n_rounds)

    def settle(self, game: Game[Any]) -> MixtureEnsemble:
        """Return the mixture of the rounds so far."""
        return self.stage(self.pool.n_rounds)

    def solve(self, n_rounds: int | None = None) -> MixtureSolution | WithinSolution:
        """Return the best weights of the first ``n_rounds`` base models (all by default) and the others."""
        if self.error_budget is not None:
            return self.within(self.error_budget, n_rounds)
        return self.objective.solve(self.pool.ledger, n_rounds)

    def within(self, budget: float, n_rounds: int | None = None) -> WithinSolution:
        """Return the λ of least objective within a budget, and the shadow price of the budget."""
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
        """Return the least objective for each limit on the mean loss."""
        losses, alpha, base = self.objective.tail(self.pool.ledger)
        return worst_mean_curve(
            losses, self.pool.ledger.mean_losses(), alpha, base,
            tolerance=CURVE_TOLERANCE, max_points=CURVE_POINTS,
        )  # fmt: skip

    def stage(self, n_rounds: int) -> MixtureEnsemble:
        """Return the mixture after the first ``n_rounds`` rounds; later base models have weight 0."""
        members, order = self.pool.members, self.pool.ledger.by_mean_loss()
        unboosted = np.arange(self.pool.n_rounds, len(members))
        of_stage = np.r_[:n_rounds, unboosted]
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
        """Return the classifier with these weights."""
        return MixtureEnsemble(self.pool.members, mixture, self.n_classes, self.pool.ledger.by_mean_loss())

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the pool."""
        return self.objective.evaluate(self.pool.ledger, mixture)

    def values(self, mixtures: Floats) -> Floats:
        """Return the objective of each of several mixtures, (B, T + E)."""
        return np.array([self.value(mixture) for mixture in mixtures])

    @classmethod
    def on(
        cls, pool: LossPool, objective: CVaR | WorstRow, n_classes: int, error_budget: float | None = None
    ) -> Mixture:
        """Return the combiner of the base models of a pool, with optimised weights."""
        fraction = pool.ledger.outlier_fraction
        new = cls(objective, n_classes, outlier_fraction=fraction, error_budget=error_budget)
        new.pool = pool
        return new

    def aiming_at(self, objective: CVaR | WorstRow, error_budget: float | None = None) -> Mixture:
        """Return the combiner with the same base models and another objective."""
        pool = self.pool.snapshot()
        return Mixture.on(pool, objective, self.n_classes, error_budget)

    def counting(self, grouping: Grouping) -> SubgroupMixture:
        """Return the base models as candidates for the largest error of a class."""
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
        """Fraction of the weight left out as outliers."""
        return self.pool.ledger.dropped

    def largest_error(self, mixture: Floats) -> None:
        """Return None: the objective is about rows."""

    def on_all(self, mixture: Floats) -> float:
        """Return the objective on all rows, with outliers."""
        return self.objective.evaluate(self.pool.ledger.whole, mixture)

    @property
    def random_guess(self) -> float:
        """The objective of the even mixture of all constants."""
        return self.objective.random_guess(self.pool.ledger, self.n_classes)

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
