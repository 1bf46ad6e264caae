"""Objectives of a mixture: each has its losses, value, exact solver, constants and wording."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from tailboost._largest import expected_largest
from tailboost._typing import Floats, Ints, Mask
from tailboost._units import memberships
from tailboost.combiners.ledger import LOSS_DECIMALS, Ledger
from tailboost.data import Rows
from tailboost.game import shrunk
from tailboost.solvers import MixtureSolution, cvar, minimize_cvar_mixture
from tailboost.solvers.bits import LossMatrix
from tailboost.targets import SHRINKAGE

# A unit with fewer different rows does not decide by itself whether a limit is kept.
FEW_ROWS = 10


class Tail(NamedTuple):
    """The losses whose worst tail an objective is, as the solvers take them."""

    losses: Floats | LossMatrix  # (T + E, m) losses of the pool on rows or units
    alpha: float | None  # tail mass; None for the largest loss
    base: Floats | None  # base measure; None for a uniform one


class Objective(Protocol):
    """What λ minimises, as a function of λ, on the rows of a ledger."""

    @property
    def alpha(self) -> float | None:
        """Tail mass; None where the objective has none."""

    @property
    def unit(self) -> str | None:
        """What the units are called whose errors it is about; None where it is about rows."""

    @property
    def by_class(self) -> bool:
        """Whether the units are the classes of the rows."""

    @property
    def chosen_by(self) -> str:
        """What λ minimises, in words, where that is not the objective itself; else empty."""

    @property
    def chosen_alone_by(self) -> str:
        """What one member alone is chosen by, in words, where that is not the objective; else empty."""

    @property
    def unlimited(self) -> Objective | None:
        """The same without what each unit is allowed; None where nothing is."""

    def check(self, rows: Rows) -> None:
        """Raise ValueError if the rows lack what the objective needs, such as groups."""

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the objective of a mixture λ of the pool, shape (T + E,)."""

    def of_losses(self, ledger: Ledger, losses: Floats) -> float:
        """Return the objective of expected losses of the rows, shape (n,)."""

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Return the optimal mixture of the first ``n_rounds`` boosted hypotheses and the extras."""

    def tail(self, ledger: Ledger, n_rounds: int | None = None) -> Tail:
        """Return the losses that `solve` mixes, to be traded against the mean loss."""

    def coin(self, ledger: Ledger, n_classes: int) -> float:
        """Return the value of the even mixture of all constants."""

    def constants(self, ledger: Ledger, n_classes: int) -> float:
        """Return the least value of a mixture of constants, which ignores the features."""

    def __str__(self) -> str:
        """Return the objective in words."""


class _OverRows:
    """What is the same of objectives about rows: λ minimises them as they are."""

    unit = None
    by_class = False
    chosen_by = chosen_alone_by = ""
    unlimited = None

    def check(self, rows: Rows) -> None:
        """Accept any rows."""

    def coin(self, ledger: Ledger, n_classes: int) -> float:
        """Return ``1 − 1/K``, the coin's loss of every row."""
        return 1.0 - 1.0 / n_classes


@dataclass(frozen=True)
class CVaR(_OverRows):
    """The mean loss of the worst share ``alpha`` of the rows.

    Parameters
    ----------
    alpha : float
        Tail mass in (0, 1].
    """

    alpha: float

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the CVaR of the mixture's loss."""
        return self.of_losses(ledger, ledger.pool().combine(mixture))

    def of_losses(self, ledger: Ledger, losses: Floats) -> float:
        """Return the CVaR of losses of the rows."""
        return cvar(losses, self.alpha, ledger.base())

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the linear program (3) of Zhai et al. 2021."""
        return minimize_cvar_mixture(ledger.pool(n_rounds), self.alpha, ledger.base(n_rounds))

    def tail(self, ledger: Ledger, n_rounds: int | None = None) -> Tail:
        """Return the losses of the rows."""
        return Tail(ledger.pool(n_rounds), self.alpha, ledger.base(n_rounds))

    def constants(self, ledger: Ledger, n_classes: int) -> float:
        """Return the value of the best loaded coin: a constant's loss is the same all over a class."""
        mass = np.bincount(ledger.rows.y, weights=ledger.base(), minlength=n_classes)
        return minimize_cvar_mixture(1.0 - np.eye(n_classes), self.alpha, mass).value

    def __str__(self) -> str:
        return f"CVaR at α = {self.alpha:g}"


@dataclass(frozen=True)
class WorstRow(_OverRows):
    """The largest loss of any row: the CVaR for α → 0."""

    alpha = None

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the largest loss of a row that has weight."""
        return self.of_losses(ledger, ledger.pool().combine(mixture))

    def of_losses(self, ledger: Ledger, losses: Floats) -> float:
        """Return the largest of the losses of rows that have weight."""
        return float(losses[ledger.base() > 0].max())

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the minimax problem: at α = min p the cap ``p/α`` leaves the whole simplex."""
        p = ledger.base(n_rounds)
        return minimize_cvar_mixture(ledger.pool(n_rounds), float(p[p > 0].min()), p)

    def tail(self, ledger: Ledger, n_rounds: int | None = None) -> Tail:
        """Return the losses of the rows, of which the largest counts."""
        return Tail(ledger.pool(n_rounds), None, ledger.base(n_rounds))

    def constants(self, ledger: Ledger, n_classes: int) -> float:
        """Return the value of the even coin over the classes that have rows."""
        return 1 - 1 / len(np.unique(ledger.rows.y[ledger.base() > 0]))

    def __str__(self) -> str:
        return "largest expected loss of any row"


@dataclass(frozen=True)
class WorstUnit:
    """The largest error of any class, group or cell, or the farthest beyond what it is allowed.

    Parameters
    ----------
    unit : {"class", "group", "cell"}
        What the units are called.
    allowed : tuple of m floats, optional
        The error allowed to each unit, where that differs: it is taken from the error before the largest is
        taken, so that the value is at most 0 where all keep to it.
    by_class : bool
        Whether the units are the classes of the rows; else they are the rows' groups.
    shrinkage : float
        Pseudo-rows s ≥ 0 by which λ doubts an error measured on few rows: λ minimises the largest of
        ``(n e + s ē)/(n + s)``, where n is the number of rows behind the unit's error e, less what it is
        allowed, and ē the mean of these over the units. The values reported are those of the errors as
        measured.
    pools : tuple of ints, optional
        Number of the unit that each of the rows' groups belongs to, where small groups share one; by default
        every group is a unit. ``allowed`` is by unit.
    """

    unit: str
    allowed: tuple[float, ...] | None = None
    by_class: bool = False
    shrinkage: float = 0.0
    pools: tuple[int, ...] | None = None

    alpha = None

    def check(self, rows: Rows) -> None:
        """Raise ValueError where the rows have no groups."""
        self.index(rows)

    def index(self, rows: Rows) -> Ints:
        """Return the unit of each row, or its units; −1 for none."""
        if self.by_class:
            return rows.y
        if rows.groups is None:
            raise ValueError("objective='worst_group' needs groups, and these losses were kept without any")
        if self.pools is None:
            return rows.groups
        return np.where(rows.groups >= 0, np.array(self.pools)[rows.groups], -1)

    @property
    def _name(self) -> str:
        """Under which a ledger keeps the errors of the units."""
        return "classes" if self.by_class else "groups" if self.pools is None else f"pools {self.pools}"

    def held_to(self, allowed: Floats) -> tuple[WorstUnit, float]:
        """Return the objective where each of the rows' groups is allowed an error, and what it then may be.

        That is the error allowed to all of them or, where they differ, 0: nothing beyond its own.
        """
        if self.pools is not None:  # of units that are one the strictest counts
            of, least = np.array(self.pools), np.full(max(self.pools) + 1, np.inf)
            np.minimum.at(least, of, allowed)
            allowed = least
        if np.ptp(allowed) == 0:
            return replace(self, allowed=None), float(allowed[0])
        return replace(self, allowed=tuple(allowed.tolist())), 0.0

    def losses(self, ledger: Ledger, n_rounds: int | None = None) -> Floats:
        """Error of every member on every unit that has rows, less what it is allowed, (T + E, m')."""
        errors, used = ledger.unit_errors(self._name, self.index(ledger.rows), n_rounds)
        return errors - self._allowed(used)

    def steering_losses(self, ledger: Ledger, n_rounds: int | None = None) -> Floats:
        """Return what λ is chosen by: `losses`, shrunk towards their mean over the units."""
        return self._shrunk(self.losses(ledger, n_rounds), ledger)

    def _shrunk(self, losses: Floats, ledger: Ledger) -> Floats:
        if self.shrinkage == 0.0:
            return losses
        sizes = ledger.unit_sizes(self._name, self.index(ledger.rows))
        return shrunk(losses, self.shrinkage / (sizes + self.shrinkage)).round(LOSS_DECIMALS)

    def expected_worst(self, ledger: Ledger, n_rounds: int | None = None) -> Floats:
        """Return what one member alone is chosen by: its largest loss expected on other such rows, (T + E,).

        The error of a unit on n rows is taken as normal about its shrunk value e, with the variance
        ``e(1 − e)/(n + s)``, of each unit by itself. The largest of many uncertain errors is larger than the
        error that is largest here: of two members with the same one, that whose other units have room is the
        better one. Rows near a threshold may count in part, see `Ledger`. Without
        shrinkage errors are believed: the largest loss as measured.
        """
        if self.shrinkage == 0.0:
            return np.asarray(self.losses(ledger, n_rounds).max(axis=1))
        index = self.index(ledger.rows)
        allowed = self._allowed(ledger.unit_errors(self._name, index, n_rounds)[1])
        centre = self._shrunk(ledger.unit_chances(self._name, index, n_rounds) - allowed, ledger)
        error = np.clip(centre + allowed, 0.0, 1.0)
        rows = ledger.unit_sizes(self._name, index) + self.shrinkage
        return expected_largest(centre, np.sqrt(error * (1.0 - error) / rows)).round(LOSS_DECIMALS)

    def evaluate(self, ledger: Ledger, mixture: Floats) -> float:
        """Return the largest error of a unit, less what it is allowed: errors are linear in λ."""
        return float((mixture @ self.losses(ledger)).max())

    def of_losses(self, ledger: Ledger, losses: Floats) -> float:
        """Return the largest mean loss of a unit, less what it is allowed."""
        return float(self._beyond(ledger.rows, losses)[0].max())

    def believed(self, rows: Rows, losses: Floats | Mask) -> float:
        """Return the largest mean loss of a unit, less what it is allowed, by which a limit is kept or not.

        A unit of fewer than `FEW_ROWS` different rows counts by its shrunk value, so that what is paid for it
        is not paid for the chance of a few rows. Those that may always err have no part in that.
        """
        beyond, used = self._beyond(rows, losses)
        index = self.index(rows)
        sizes = rows.sizes(index, int(index.max()) + 1)[used]
        limited = self._allowed(used) < 1.0
        if limited.any():
            doubt = np.where(sizes < FEW_ROWS, self.shrinkage / (sizes + max(self.shrinkage, 1e-9)), 0.0)
            beyond[limited] = shrunk(beyond[limited], doubt[limited])
        return float(beyond.max())

    def largest_beyond(self, errors: Floats, known: Mask) -> float:
        """Return the largest of the errors of units, less what they are allowed, of those that are known."""
        used = np.flatnonzero(known)
        return float((errors[used] - self._allowed(used)).max())

    def _beyond(self, rows: Rows, losses: Floats | Mask) -> tuple[Floats, Ints]:
        """Return the mean loss of each unit that has rows, less what it is allowed, and their numbers."""
        index = self.index(rows)
        errors = rows.means(index, int(index.max()) + 1, losses)
        used = np.flatnonzero(~np.isnan(errors))
        return errors[used] - self._allowed(used), used

    def solve(self, ledger: Ledger, n_rounds: int | None = None) -> MixtureSolution:
        """Solve the minimax problem over units, whose errors are shrunk where that is asked."""
        losses = self.steering_losses(ledger, n_rounds)
        return minimize_cvar_mixture(losses, 1.0 / losses.shape[1])  # cap 1: the whole simplex

    def tail(self, ledger: Ledger, n_rounds: int | None = None) -> Tail:
        """Return the errors of the units, less what they are allowed, shrunk, of which the largest counts."""
        return Tail(self.steering_losses(ledger, n_rounds), None, None)

    def coin(self, ledger: Ledger, n_classes: int) -> float:
        """Return the coin's loss of every row, ``1 − 1/K``, less the least that a unit is allowed."""
        index = self.index(ledger.rows)
        return 1.0 - 1.0 / n_classes - float(self._allowed(np.unique(index[index >= 0])).min())

    def constants(self, ledger: Ledger, n_classes: int) -> float:
        """Return the value of the best loaded coin: a constant errs on all other classes of a unit."""
        rows = ledger.rows
        row, unit = memberships(self.index(rows))
        used, unit = np.unique(unit, return_inverse=True)
        weight = np.bincount(
            unit * n_classes + rows.y[row],
            weights=rows.weight[row],
            minlength=len(used) * n_classes,
        ).reshape(len(used), n_classes)
        allowed = self._allowed(used)
        if np.all(np.count_nonzero(weight, axis=1) == 1):  # classes or cells: no program is needed
            least = np.full(n_classes, np.inf)
            np.minimum.at(least, weight.argmax(axis=1), allowed)
            # The least v with Σ_k max(0, 1 − allowed_k − v) ≤ 1: class k needs the share 1 − allowed_k − v.
            needs = np.sort(1.0 - least[np.isfinite(least)])[::-1]
            return float(((np.cumsum(needs) - 1.0) / np.arange(1, len(needs) + 1)).max())
        errors = 1.0 - (weight / weight.sum(axis=1, keepdims=True)).T
        return minimize_cvar_mixture(errors - allowed, 1.0 / len(used)).value

    def _allowed(self, used: Ints) -> Floats:
        return np.zeros(len(used)) if self.allowed is None else np.array(self.allowed)[used]

    @property
    def unlimited(self) -> WorstUnit | None:
        """The same without what each unit is allowed; None where nothing is."""
        return None if self.allowed is None else replace(self, allowed=None)

    @property
    def chosen_by(self) -> str:
        """What λ minimises, in words, where losses are shrunk; else empty."""
        if self.shrinkage == 0.0:
            return ""
        return (
            "the largest such loss after each was drawn towards their mean over the units by "
            f"{self.shrinkage:g} pseudo-rows, so that few rows do not decide"
        )

    @property
    def chosen_alone_by(self) -> str:
        """What one member alone is chosen by, in words, where losses are shrunk; else empty."""
        if self.shrinkage == 0.0:
            return ""
        return (
            "the largest such loss to expect on other rows; those of few rows are drawn towards the mean, as "
            f"if {self.shrinkage:g} rows more had been of that kind"
        )

    def __str__(self) -> str:
        beyond = "" if self.allowed is None else " beyond what it is allowed (max_error)"
        return f"largest expected loss of any {self.unit}{beyond}"


def objective_named(name: Any, alpha: float | None) -> Objective:
    """Return the objective by its name in `reweight`: "cvar", "worst_class" or "worst_group"; or as it is."""
    if hasattr(name, "solve"):
        found: Objective = name
        return found
    if name == "cvar" and alpha is not None:
        return CVaR(alpha)
    if name == "worst_class":
        return WorstUnit("class", by_class=True, shrinkage=SHRINKAGE)
    if name == "worst_group":
        return WorstUnit("group", shrinkage=SHRINKAGE)
    raise ValueError(f"objective={name!r}; allowed are 'cvar', 'worst_class', 'worst_group'")
