"""Objectives of a mixture: each has its losses, value, exact solver, constants and wording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailboost._typing import Floats, Ints
from tailboost.combiners.ledger import Ledger
from tailboost.data import Rows
from tailboost.solvers import MixtureSolution, cvar, minimize_cvar_mixture


class Objective(Protocol):
    """What λ minimises, as a function of λ, on the rows of a ledger."""

    @property
    def alpha(self) -> float | None:
        """Tail mass; None where the objective has none."""

    def check(self, rows: Rows) -> None:
        """Raise ValueError if the rows lack what the objective needs, such as groups."""

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the objective of a mixture λ of the pool, shape (T + E,)."""

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Return the optimal mixture of the first ``n_rounds`` boosted hypotheses and the extras."""

    def constants(self, ledger: Ledger, n_classes: int) -> float | None:
        """Return the least value of a mixture of constants, which ignores the features; None if unknown."""

    def __str__(self) -> str:
        """Return the objective in words."""


@dataclass(frozen=True)
class CVaR:
    """The mean loss of the worst share ``alpha`` of the rows.

    Parameters
    ----------
    alpha : float
        Tail mass in (0, 1].
    """

    alpha: float

    def check(self, rows: Rows) -> None:
        """Accept any rows."""

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the CVaR of the mixture's loss."""
        return cvar(ledger.pool().combine(mixture), self.alpha, ledger.base())

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the linear program (3) of Zhai et al. 2021."""
        return minimize_cvar_mixture(ledger.pool(n_rounds), self.alpha, ledger.base(n_rounds))

    def constants(self, ledger: Ledger, n_classes: int) -> float | None:
        """Return the value of the best loaded coin: a constant's loss is the same all over a class."""
        mass = np.bincount(ledger.rows.y, weights=ledger.base(), minlength=n_classes)
        return minimize_cvar_mixture(1.0 - np.eye(n_classes), self.alpha, mass).value

    def __str__(self) -> str:
        return f"CVaR at α = {self.alpha:g}"


@dataclass(frozen=True)
class WorstRow:
    """The largest loss of any row: the CVaR for α → 0."""

    alpha = None

    def check(self, rows: Rows) -> None:
        """Accept any rows."""

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the largest loss of a row that has weight."""
        return float(ledger.pool().combine(mixture)[ledger.base() > 0].max())

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the minimax problem: at α = min p the cap ``p/α`` leaves the whole simplex."""
        p = ledger.base(n_rounds)
        return minimize_cvar_mixture(ledger.pool(n_rounds), float(p[p > 0].min()), p)

    def constants(self, ledger: Ledger, n_classes: int) -> float | None:
        """Return the value of the even coin over the classes that have rows."""
        return _even_coin(ledger)

    def __str__(self) -> str:
        return "largest expected loss of any row"


@dataclass(frozen=True)
class WorstUnit:
    """The largest error of any class, group or cell, each with its penalty.

    Parameters
    ----------
    unit : {"class", "group", "cell"}
        What the units are called.
    penalty : tuple of m floats, optional
        What is added to the error of each unit before the largest is taken, where units are allowed different
        errors: the largest allowed error less the unit's own.
    by_class : bool
        Whether the units are the classes of the rows; else they are the rows' groups.
    """

    unit: str
    penalty: tuple[float, ...] | None = None
    by_class: bool = False

    alpha = None

    @property
    def penalised(self) -> bool:
        """Whether some unit has a penalty."""
        return self.penalty is not None and any(self.penalty)

    def check(self, rows: Rows) -> None:
        """Raise ValueError where the rows have no groups."""
        self._index(rows)

    def _index(self, rows: Rows) -> Ints:
        if self.by_class:
            return rows.y
        if rows.groups is None:
            raise ValueError("objective='worst_group' needs groups, and these losses were kept without any")
        return rows.groups

    def losses(self, ledger: Ledger, n_rounds: int | None = None) -> Floats:
        """Error of every member of the pool on every unit that has rows, penalties added, (T + E, m')."""
        name = "classes" if self.by_class else "groups"
        errors, used = ledger.unit_errors(name, self._index(ledger.rows), n_rounds)
        return errors if self.penalty is None else errors + np.array(self.penalty)[used]

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the largest error of a unit: errors are linear in λ."""
        return float((mixture @ self.losses(ledger)).max())

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the minimax problem over units."""
        losses = self.losses(ledger, n_rounds)
        return minimize_cvar_mixture(losses, 1.0 / losses.shape[1])  # cap 1: the whole simplex

    def constants(self, ledger: Ledger, n_classes: int) -> float | None:
        """Return the value of the even coin over classes; None over groups."""
        return _even_coin(ledger) if self.by_class else None

    def __str__(self) -> str:
        plus = " + its penalty" if self.penalised else ""
        return f"largest expected loss of any {self.unit}{plus}"


def _even_coin(ledger: Ledger) -> float:
    return 1 - 1 / len(np.unique(ledger.rows.y[ledger.base() > 0]))


def objective_named(name: Any, alpha: float | None) -> Objective:
    """Return the objective by its name in `reweight`: "cvar", "worst_class" or "worst_group"."""
    if name == "cvar" and alpha is not None:
        return CVaR(alpha)
    if name == "worst_class":
        return WorstUnit("class", by_class=True)
    if name == "worst_group":
        return WorstUnit("group")
    raise ValueError(f"objective={name!r}; allowed are 'cvar', 'worst_class', 'worst_group'")
