"""Mixtures of base models whose weights λ minimise a CVaR or the largest loss of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailboost import rates
from tailboost.boosting.game import Response
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.confidence import SPREAD
from tailboost.selection.selecting import SOLVED
from tailboost.selection.subgroup_mixture import Grouping, ModelPool, PoolCombiner, SubgroupMixture
from tailboost.solvers import (
    MixtureCurve,
    MixtureSolution,
    WithinSolution,
    cvar,
    least_worst_within,
    minimize_cvar_mixture,
    worst_mean_curve,
)

# The curve of a CVaR has nearly as many corners as rows. Refinement ends if the curve is this close to
# straight lines, or has this many points.
CURVE_TOLERANCE, CURVE_POINTS = 1e-5, 200
# A difference of more standard errors is taken for significant.
CLEARLY = 2.0
# Objectives with a name are the largest rate of these families.
NAMED = {f"worst_{by}": rates.error(by=by) for by in ("class", "group", "cell")}


@dataclass(frozen=True)
class CVaR:
    """Mean loss of the fraction ``alpha`` of the rows with the largest losses.

    Parameters
    ----------
    alpha : float
        Tail mass in (0, 1].
    """

    alpha: float

    def evaluate(self, losses: Floats, base: Floats) -> float:
        """Return the CVaR of losses of rows with a base measure."""
        return cvar(losses, self.alpha, base)

    def solve(self, pool: ModelPool, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the linear program (6) of Zhai et al. 2021."""
        return minimize_cvar_mixture(pool.losses(n_rounds), self.alpha, pool.base(n_rounds))

    def constants(self, pool: ModelPool, most: float | None = None) -> float | None:
        """Return the least CVaR of a mixture of constants, with a mean loss of at most ``most``; or None."""
        mass = np.bincount(pool.rows.y, weights=pool.base(), minlength=pool.n_classes)
        losses = 1.0 - np.eye(pool.n_classes)
        if most is None:
            return minimize_cvar_mixture(losses, self.alpha, mass).value
        if (means := losses @ mass).min() > most:
            return None
        return least_worst_within(losses, means, most, self.alpha, mass).value

    def highest(self, rows: Rows, losses: Floats) -> float:
        """Return the upper end of a 95 % interval for the CVaR on new rows.

        The interval is that of ``q + E max(ℓ − q, 0)/α``, which is at least the CVaR for any q. It uses the
        normal approximation with one more row of loss 1.
        """
        (n,) = rows.sizes(np.zeros(len(losses), dtype=np.intp), 1)
        order = np.argsort(losses)[::-1]
        tail = min(int(np.searchsorted(np.cumsum(rows.base[order]), self.alpha)), len(order) - 1)
        q = float(losses[order[tail]])
        above = np.maximum(losses - q, 0.0)
        mean = (n * float(rows.base @ above) + 1.0 - q) / (n + 1.0)
        variance = (n * float(rows.base @ (above - mean) ** 2) + (1.0 - q - mean) ** 2) / (n + 1.0)
        return min(1.0, q + (mean + SPREAD * np.sqrt(variance / n)) / self.alpha)

    def of_answers(self, y: Any, answers: Any, *, sample_weight: Any = None, **more: Any) -> float:
        """Return the CVaR of the zero-one loss of answers: the error rate / α, at most 1."""
        wrong = rates.wrong(np.asarray(answers), np.asarray(y))
        return min(1.0, float(np.average(wrong, weights=sample_weight)) / self.alpha)

    def __str__(self) -> str:
        return f"CVaR at α = {self.alpha:g}"


@dataclass(frozen=True)
class WorstRow:
    """The largest loss of any row: the CVaR for α → 0."""

    alpha = None

    def evaluate(self, losses: Floats, base: Floats) -> float:
        """Return the largest of the losses of rows with positive base measure."""
        return float(losses[base > 0].max())

    def solve(self, pool: ModelPool, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the minimax problem: at α = min p the cap ``p/α`` leaves the whole simplex."""
        p = pool.base(n_rounds)
        return minimize_cvar_mixture(pool.losses(n_rounds), float(p[p > 0].min()), p)

    def constants(self, pool: ModelPool, most: float | None = None) -> float | None:
        """Return the value of the best constants, mixed, with a mean loss of at most ``most``; or None."""
        mass = np.bincount(pool.rows.y, weights=pool.base(), minlength=pool.n_classes)
        mass = mass[mass > 0]
        losses = 1.0 - np.eye(len(mass))
        if most is None:
            return 1 - 1 / len(mass)
        if (means := losses @ mass).min() > most:
            return None
        return least_worst_within(losses, means, most, float(mass.min()), mass).value

    def highest(self, rows: Rows, losses: Floats) -> float:
        """Return 1: the largest loss of a new row may be 1."""
        return 1.0

    def of_answers(self, y: Any, answers: Any, **more: Any) -> float:
        """Return 1 if an answer is wrong, else 0."""
        return float(rates.wrong(np.asarray(answers), np.asarray(y)).any())

    def __str__(self) -> str:
        return "largest expected loss of any row"


def over_rows(objective: Any) -> bool:
    """Whether an objective needs the loss of each row; a rate needs confusion counts alone."""
    return isinstance(objective, (CVaR, WorstRow))


def objective_named(name: Any, alpha: float | None) -> Any:
    """Return the objective given to `reweight`, by name or as a rate."""
    if over_rows(name):
        return name
    if name == "cvar" and alpha is not None:
        return CVaR(alpha)
    if not isinstance(name, str):
        return rates.Objective.of(name)
    if name not in NAMED:
        raise ValueError(f"objective={name!r}; allowed are 'cvar', {', '.join(map(repr, NAMED))}, or a rate")
    return rates.Objective.of(rates.largest(NAMED[name]))


@dataclass
class Mixture(PoolCombiner):
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
    pool: ModelPool = field(init=False)

    @classmethod
    def on(cls, pool: ModelPool, objective: CVaR | WorstRow, error_budget: float | None = None) -> Mixture:
        """Return the combiner of the base models of a pool, with optimised weights."""
        new = cls(objective, pool.n_classes, error_budget=error_budget)
        new.pool = pool
        return new

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
            return self.objective.solve(self.pool, n_rounds)
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
        return Mixture.on(self.pool.snapshot(), objective, error_budget)

    def counting(self, grouping: Grouping) -> SubgroupMixture:
        """Return the base models as candidates for the largest error of a class."""
        worst_class = rates.Objective.of(rates.largest(rates.error(by="class")))
        return SubgroupMixture.on(self.pool, worst_class, grouping)

    def snapshot(self) -> Mixture:
        """Return a copy. Further rounds do not change this copy."""
        new = replace(self)
        new.pool = self.pool.snapshot()
        return new

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

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of what a rule must keep."""
        return () if self.error_budget is None else ("the error budget",)

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
        return self.objective.constants(self.pool, self._most)

    def highest(self, mixture: Floats) -> float:
        """Return the upper end of a 95 % interval for the objective on new rows."""
        return self.objective.highest(self.pool.rows, self.pool.losses().combine(mixture))


def combiner_of(
    pool: ModelPool,
    objective: Any,
    grouping: Grouping,
    limits: Sequence[rates.Limit] = (),
    error_budget: float | None = None,
    randomized: bool = True,
) -> Mixture | SubgroupMixture:
    """Return the combiner of a pool: by the losses of rows for a CVaR, else by confusion counts."""
    if over_rows(objective):
        return Mixture.on(pool, objective, error_budget)
    return SubgroupMixture.on(pool, objective, grouping, limits, error_budget, randomized)
