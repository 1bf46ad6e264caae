"""Mixtures of base models whose weights λ minimise a CVaR or the largest loss of a row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailboost.boosting.game import Response
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.problem import WORST_CLASS, CVaR, WorstRow
from tailboost.selection.selecting import SOLVED
from tailboost.selection.subgroup_mixture import Grouping, PoolCombiner, SubgroupMixture
from tailboost.solvers import (
    MixtureCurve,
    MixtureSolution,
    WithinSolution,
    least_worst_within,
    worst_mean_curve,
)

# The curve of a CVaR has nearly as many corners as rows. Refinement ends if the curve is this close to
# straight lines, or has this many points.
CURVE_TOLERANCE, CURVE_POINTS = 1e-5, 200
# A difference of more standard errors is taken for significant.
CLEARLY = 2.0


@dataclass
class Mixture(PoolCombiner):
    """Combine base models by the weights λ of least objective, or with equal weights."""

    objective: CVaR | WorstRow

    def take(self, response: Response, state: object, needs_objective: bool) -> tuple[float, float]:
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
        part = replace(self)
        part.pool = pool = self.pool.part(rows)
        means, wrong = pool.mean_losses(), pool.rows.wrong(answers)
        best, weight = pool.loss(int(means.argmin())), pool.rows.base
        excess, differ = float(weight @ wrong - means.min()), float(weight @ (wrong != best))
        (size,) = pool.rows.sizes(np.zeros(len(wrong), dtype=np.intp), 1)
        if excess <= CLEARLY * np.sqrt(max(differ - excess**2, 0.0) / size):
            return False
        before = part.solve().value
        pool.take(Response(None, wrong, answers))
        return before - part.solve().value <= tol

    def selection(self, n_rounds: int | None = None) -> tuple[Floats, float]:
        """Return the mixture weights of all base models, and the gap of the solution."""
        solution, mixture = self.solve(n_rounds), np.zeros(len(self.pool.base_models))
        mixture[self.stage_members(n_rounds)] = solution.mixture
        return mixture, solution.gap

    def solve(self, n_rounds: int | None = None) -> MixtureSolution | WithinSolution:
        """Return the best weights of the first ``n_rounds`` base models (default: all) and the others."""
        if self.error_budget is None:
            return self.objective.solve(self.pool.losses(n_rounds), self.pool.base(n_rounds))
        pool, means = self.pool, self.pool.mean_losses(n_rounds)
        most = float(means.min()) + self.error_budget
        return least_worst_within(pool.losses(n_rounds), means, most, self.alpha, pool.base(n_rounds))

    def curve(self) -> MixtureCurve:
        """Return the least objective for each limit on the mean loss."""
        return worst_mean_curve(
            self.pool.losses(), self.pool.mean_losses(), self.alpha, self.pool.base(),
            tolerance=CURVE_TOLERANCE, max_points=CURVE_POINTS,
        )  # fmt: skip

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the pool."""
        return float(self.values(mixture[None])[0])

    def values(self, mixtures: Floats) -> Floats:
        """Return the objective of each of several mixtures, (B, T + E)."""
        losses, base = self.pool.losses(), self.pool.base()
        return np.array([self.objective.evaluate(losses.combine(mixture), base) for mixture in mixtures])

    def aiming_at(self, objective: CVaR | WorstRow, error_budget: float | None = None) -> Mixture:
        """Return the combiner with the same base models and another objective."""
        return Mixture.on(self.pool.snapshot(), objective, error_budget=error_budget)

    def counting(self, grouping: Grouping) -> SubgroupMixture:
        """Return the base models as candidates for the largest error of a class."""
        return SubgroupMixture.on(self.pool, WORST_CLASS, grouping=grouping)

    # -- results -------------------------------------------------------------------------------------

    @property
    def dropped(self) -> float:
        """Fraction of the weight left out as outliers."""
        return self.pool.dropped

    @property
    def price(self) -> float | None:
        """Gain in the objective per unit of budget; None without a budget."""
        solution = None if self.error_budget is None else self.solve()
        return solution.price if isinstance(solution, WithinSolution) else None

    def on_all(self, mixture: Floats) -> float:
        """Return the objective on all rows, with outliers."""
        return self.objective.evaluate(self.pool.losses().combine(mixture), self.pool.rows.base)

    @property
    def _most(self) -> float | None:
        """The largest mean loss within the error budget; None without a budget."""
        if self.error_budget is None:
            return None
        return float(self.pool.mean_losses().min()) + self.error_budget

    def kept_by(self, mixture: Floats) -> bool:
        """Return whether a mixture keeps the error budget."""
        return self._most is None or float(self.pool.mean_losses() @ mixture) <= self._most + SOLVED

    @property
    def random_guess(self) -> float | None:
        """The objective of the even mixture of all constants, ``1 − 1/K``; None if it breaks the budget."""
        guess = 1.0 - 1.0 / self.n_classes
        return guess if self._most is None or guess <= self._most else None

    @property
    def constants(self) -> float | None:
        """The objective of the best mixture of constants within the error budget; None without one."""
        return self.objective.constants(self.pool.mass, self._most)

    def highest(self, mixture: Floats) -> float:
        """Return the upper end of a 95 % interval for the objective on new rows."""
        return self.objective.highest(self.pool.rows, self.pool.losses().combine(mixture))
