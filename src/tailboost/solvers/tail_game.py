"""Shared by the solvers of a mixture: the reduced and scaled problem, and the error if it is not solved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.numeric import base_measure, check_alpha
from tailboost.solvers.bits import DenseLosses, Losses, LossMatrix, as_losses
from tailboost.solvers.tails import tail
from tailboost.solvers.words import sums

#: Largest relative duality gap of a returned solution.
GAP = 1e-8
#: Least size of the sample that shows whether many units have equal losses.
SAMPLE = 4096
#: At least one unit in this number is in the sample.
SPARSE = 16
#: Patterns per unit of the sample below which units with equal losses are merged.
PAYS = 0.9


class SolverError(RuntimeError):
    """No method closed the duality gap; the message gives the remaining gap and the problem."""


@dataclass
class Optimum:
    """A solution of the reduced problem."""

    # lam, w: the mixture and the weights
    lam: Floats
    w: Floats
    # combined, expected: losses of all units under λ, expected losses of all members under w
    combined: Floats
    expected: Floats
    # value, bound: their objectives, of the primal and of the dual
    value: float
    bound: float
    threshold: float  # boundary η of the tail of ``combined``
    n_iter: int
    method: str
    tied: Mask  # units whose loss is at the boundary η in every optimum (a guess where the gap is open)
    members: Mask  # hypotheses that an optimal mixture may use
    closest: bool = False  # whether w is the optimum closest to p
    canonical: bool = False  # whether λ is the canonical one too
    tried: bool = False  # whether solving for λ and w as unique vertices has failed

    @property
    def gap(self) -> float:
        """Value less bound."""
        return self.value - self.bound

    @property
    def closed(self) -> bool:
        """Whether the gap is small enough to try no further method (losses are in [0, 1])."""
        return self.gap <= 0.2 * GAP


@dataclass(frozen=True)
class TailGame:
    """A game between T hypotheses and n units, and the smaller equivalent one that is solved.

    Units without mass are dropped, units with equal losses merged (their base measures add up: they get
    weight in proportion to p), members with equal losses too (the first stands for all) and real losses moved
    to [0, 1].
    """

    # full, full_p: the full problem; p is a number, 1/n, where it is uniform
    full: LossMatrix
    full_p: Floats | float
    # losses, p: the reduced problem; p is normalised
    losses: LossMatrix
    p: Floats
    alpha: float  # tail mass
    # scale, offset: a loss of the full problem is ``offset + scale * loss``
    scale: float
    offset: float
    pattern: Ints | None
    kept: Ints | None
    members: Ints  # the members of the full problem that the reduced one has
    alike: Ints

    @classmethod
    def build(cls, losses: Losses, alpha: float, base: npt.ArrayLike | None) -> Self:
        """Validate the arguments, by ValueError, and reduce the problem."""
        full = as_losses(losses)
        alpha = check_alpha(alpha)
        n_units = full.shape[1]
        full_p = 1.0 / n_units if base is None else base_measure(base, n_units)
        reduced, p = full, full_p
        kept: Ints | None = None
        pattern: Ints | None = None
        if not isinstance(full_p, float) and not full_p.all():
            kept = np.flatnonzero(full_p != 0)
            reduced, p = full.select(units=kept), full_p[kept]
        merged = _merge(reduced)
        if merged is not None:
            first, pattern = merged
            reduced, p = reduced.select(units=first), sums(pattern, p, first.size)
        elif isinstance(p, float):
            p = np.full(n_units, p)
        members, alike = _distinct(reduced)
        if members.size < alike.size:
            reduced = reduced.select(members=members)
        scale, offset = 1.0, 0.0
        if isinstance(reduced, DenseLosses):
            array = reduced.array
            offset = float(array.min())
            scale = float(array.max() / 2 - offset / 2) * 2 or 1.0
            reduced = DenseLosses((array - offset) / scale)
        return cls(full, full_p, reduced, p, alpha, scale, offset, pattern, kept, members, alike)

    @cached_property
    def cap(self) -> Floats:
        """Largest weight of every unit of the reduced problem: p_i/α."""
        return self.p / self.alpha

    def optimum(
        self, lam: Floats, w: Floats | None, n_iter: int, method: str, combined: Floats | None = None
    ) -> Optimum:
        """Collect a mixture and weights, and what follows about all other optima by complementary slackness.

        Without weights they are those of the worst tail, without losses ``combined`` they are computed.
        """
        if combined is None:
            combined = self.losses.combine(lam)
        worst, threshold = tail(combined, self.alpha, self.p)
        value = float(worst @ combined)
        if w is None:
            w = worst
        expected = self.losses.expectations(w)
        bound = float(expected.min())
        return Optimum(
            lam,
            w,
            combined,
            expected,
            value,
            bound,
            threshold,
            n_iter,
            method,
            tied=(w > 1e-7 * self.p) & (w < (1 - 1e-7) * self.cap),
            members=expected <= bound + 1e-9,
        )

    def mix(self, optimum: Optimum, lam: Floats) -> None:
        """Put another mixture in the place of that of an optimum."""
        optimum.lam, optimum.combined = lam, self.losses.combine(lam)
        worst, optimum.threshold = tail(optimum.combined, self.alpha, self.p)
        optimum.value = float(worst @ optimum.combined)

    def expand(self, w: Floats) -> Floats:
        """Weights of the full problem from weights of the reduced one."""
        if self.pattern is not None:
            # In proportion to p: gathered where p is the same for all, so that little is written.
            p = self.full_p
            if isinstance(p, float):
                w = (w / self.p * p)[self.pattern]
            else:
                w = (w / self.p)[self.pattern]
                w *= p if self.kept is None else p[self.kept]
        if self.kept is not None:
            out = np.zeros(self.full.shape[1])
            out[self.kept] = w
            w = out
        return w

    def expand_mixture(self, lam: Floats) -> Floats:
        """Mixture of all members from one of those of the reduced problem."""
        out = np.zeros(self.alike.size)
        out[self.members] = lam
        return out

    def reduce_mixture(self, lam: Floats) -> Floats:
        """Mixture of the members of the reduced problem from one of all."""
        return np.bincount(self.alike, lam, self.members.size).astype(np.float64)

    def tolerance(self, value: float) -> float:
        """Largest gap allowed at this value of the full problem, never below the rounding of its losses."""
        return max(GAP * (1.0 + abs(value)), 1e-13 * (self.scale + abs(self.offset)))

    def error(self, what: str, gap: float, tolerance: float) -> SolverError:
        """Build the error for a gap that stayed open."""
        n_members, n_units = self.full.shape
        return SolverError(
            f"{what}: no method closed the duality gap, {gap:.3g} is left where {tolerance:.3g} is allowed "
            f"(n = {n_units}, T = {n_members}, alpha = {self.alpha:g})"
        )


def _distinct(losses: LossMatrix) -> tuple[Ints, Ints]:
    """Members with distinct losses, the first of each kind, and for every member which of them it equals."""
    first: list[int] = []
    kinds: dict[Any, list[int]] = {}
    alike = np.empty(losses.shape[0], dtype=np.intp)
    for t, key in enumerate(losses.keys()):
        same = kinds.setdefault(key, [])
        for kind in same:
            if np.array_equal(losses.row(first[kind]), losses.row(t)):
                alike[t] = kind
                break
        else:
            alike[t] = len(first)
            same.append(len(first))
            first.append(t)
    return np.array(first, dtype=np.intp), alike


def _merge(losses: LossMatrix) -> tuple[Ints, Ints] | None:
    """One unit of each pattern of losses, and the position of every unit's pattern among them.

    None where there are many units and hardly any equals another in a sample.
    """
    n_units = losses.shape[1]
    if n_units > SAMPLE:
        sample = np.arange(0, n_units, min(n_units // SAMPLE, SPARSE))
        if losses.select(units=sample).patterns()[0].size >= PAYS * sample.size:
            return None
    return losses.patterns()


def feasible(w: Floats, cap: Floats) -> Floats:
    """Repair the rounding of weights w: 0 ≤ w ≤ cap and Σ w = 1."""
    w = np.clip(w, 0.0, cap)
    missing = 1.0 - float(w.sum())
    if missing <= 0:
        return w / w.sum()
    room = cap - w
    return np.minimum(w + missing * room / max(float(room.sum()), missing), cap)
