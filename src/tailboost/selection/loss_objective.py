"""Objectives over rows: the CVaR and the largest loss, with their exact solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tailboost import rates
from tailboost.boosting.candidate_losses import CandidateLosses
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Floats
from tailboost.selection.confidence import SPREAD
from tailboost.solvers import MixtureSolution, cvar, minimize_cvar_mixture
from tailboost.solvers.bits import PackedLosses

# Objectives with a name are the largest rate of these families.
NAMED = {f"worst_{by}": rates.error(by=by) for by in ("class", "group", "cell")}


class Tail(NamedTuple):
    """Losses and tail mass of an objective, as arguments of the solvers."""

    losses: Floats | PackedLosses  # (T + E, m) losses of the pool on rows or units
    alpha: float | None  # tail mass; None for the largest loss
    base: Floats | None  # base measure; None for a uniform one


class _OverRows:
    """Base of the objectives over rows."""

    def random_guess(self, ledger: CandidateLosses, n_classes: int) -> float:
        """Return ``1 − 1/K``, the expected loss of a random guess."""
        return 1.0 - 1.0 / n_classes


@dataclass(frozen=True)
class CVaR(_OverRows):
    """Mean loss of the fraction ``alpha`` of the rows with the largest losses.

    Parameters
    ----------
    alpha : float
        Tail mass in (0, 1].
    """

    alpha: float

    def evaluate(self, ledger: CandidateLosses, mixture: Floats) -> float:
        """Return the CVaR of a mixture."""
        return self.of_losses(ledger, ledger.pool().combine(mixture))

    def of_losses(self, ledger: CandidateLosses, losses: Floats) -> float:
        """Return the CVaR of losses of the rows."""
        return cvar(losses, self.alpha, ledger.base())

    def solve(self, ledger: CandidateLosses, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the linear program (3) of Zhai et al. 2021."""
        return minimize_cvar_mixture(ledger.pool(n_rounds), self.alpha, ledger.base(n_rounds))

    def tail(self, ledger: CandidateLosses, n_rounds: int | None = None) -> Tail:
        """Return the losses of the rows."""
        return Tail(ledger.pool(n_rounds), self.alpha, ledger.base(n_rounds))

    def constants(self, ledger: CandidateLosses, n_classes: int) -> float:
        """Return the least CVaR of a mixture of constants."""
        mass = np.bincount(ledger.rows.y, weights=ledger.base(), minlength=n_classes)
        return minimize_cvar_mixture(1.0 - np.eye(n_classes), self.alpha, mass).value

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
class WorstRow(_OverRows):
    """The largest loss of any row: the CVaR for α → 0."""

    alpha = None

    def evaluate(self, ledger: CandidateLosses, mixture: Floats) -> float:
        """Return the largest loss of a row of positive weight."""
        return self.of_losses(ledger, ledger.pool().combine(mixture))

    def of_losses(self, ledger: CandidateLosses, losses: Floats) -> float:
        """Return the largest of the losses of rows with positive weight."""
        return float(losses[ledger.base() > 0].max())

    def solve(self, ledger: CandidateLosses, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the minimax problem: at α = min p the cap ``p/α`` leaves the whole simplex."""
        p = ledger.base(n_rounds)
        return minimize_cvar_mixture(ledger.pool(n_rounds), float(p[p > 0].min()), p)

    def tail(self, ledger: CandidateLosses, n_rounds: int | None = None) -> Tail:
        """Return the losses of the rows, for the largest one."""
        return Tail(ledger.pool(n_rounds), None, ledger.base(n_rounds))

    def constants(self, ledger: CandidateLosses, n_classes: int) -> float:
        """Return the value of the random guess over the classes that have rows."""
        return 1 - 1 / len(np.unique(ledger.rows.y[ledger.base() > 0]))

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
    """Return the objective that `reweight` was given, by name or as a rate."""
    if over_rows(name):
        return name
    if name == "cvar" and alpha is not None:
        return CVaR(alpha)
    if not isinstance(name, str):
        return rates.Objective.of(name)
    if name not in NAMED:
        raise ValueError(f"objective={name!r}; allowed are 'cvar', {', '.join(map(repr, NAMED))}, or a rate")
    return rates.Objective.of(rates.largest(NAMED[name]))
