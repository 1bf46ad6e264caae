"""Game between candidates and units in reduced and scaled form, and the CVaR of a vector of losses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import base_measure, check_alpha, loss_vector
from tailboost.solvers.bits import (
    DenseLosses,
    Losses,
    PackedLosses,
    as_losses,
    measure_of_units,
)

#: Largest relative duality gap of a returned solution.
DUALITY_GAP = 1e-8
#: Smallest sample for an estimate of the number of units with equal losses.
UNITS_SAMPLED = 4096
#: The sample contains at least one in this many units.
ONE_UNIT_IN = 16
#: Ratio of distinct losses to sampled units below which units with equal losses are merged.
MERGING_RATIO = 0.9


class SolverError(RuntimeError):
    """Raised if no method closes the duality gap; the message gives the gap and the problem's size."""


@dataclass(frozen=True)
class Optimum:
    """Solution of the reduced problem."""

    # Mixture λ (T,) and unit weights w (n,).
    lam: Floats
    w: Floats
    combined: Floats  # losses of the units under λ, shape (n,)
    # Primal and dual objective.
    value: float
    bound: float
    threshold: float  # boundary η of the tail of ``combined``
    method: str
    tied: Mask  # units with loss η in every optimum; a guess while the gap is open
    candidates: Mask  # candidates with possible weight in an optimal mixture
    closest: bool = False  # w is the optimum closest to p
    canonical: bool = False  # w is closest to p and λ is canonical

    @property
    def gap(self) -> float:
        """Value minus bound."""
        return self.value - self.bound

    @property
    def closed(self) -> bool:
        """Whether the gap is small enough to try no further method. Losses are in [0, 1]."""
        return self.gap <= 0.2 * DUALITY_GAP


@dataclass(frozen=True)
class TailGame:
    """Game between T candidates and n units, with the smaller equivalent game for the solvers.

    The reduction drops units without mass. Units with equal losses are merged, and their base measures are
    added. Their weights in the full problem are in proportion to p. Candidates with equal losses are merged
    into the first one. Real losses are scaled to [0, 1].
    """

    # Full problem
    full: PackedLosses
    full_p: Floats
    # Reduced problem; p sums to 1.
    losses: PackedLosses
    p: Floats
    alpha: float  # tail mass
    # A loss of the full problem is ``offset + scale * loss``.
    scale: float
    offset: float
    # For each unit with mass its merged unit; None if none were merged.
    pattern: Ints | None
    with_mass: Ints | None  # numbers of the units with mass; None: all have mass
    # The distinct candidates, and for each candidate of the full problem the position of its equal there.
    candidates: Ints
    equal_to: Ints

    @classmethod
    def build(cls, losses: Losses, alpha: float, base: ArrayLike | None) -> Self:
        """Validate the arguments and return the reduced problem; raise ValueError for invalid arguments.

        Parameters
        ----------
        losses : array-like of shape (T, n) or BitLosses
            Loss of each candidate on each unit.
        alpha : float in (0, 1]
            Tail mass.
        base : array-like of shape (n,) or None
            Weights of the units; None for equal ones.
        """
        full = as_losses(losses)
        alpha = check_alpha(alpha)
        n_units = full.shape[1]
        full_p = measure_of_units(full, base)
        p = full_p
        reduced = full
        with_mass = None
        pattern = None
        if not full_p.all():
            with_mass = np.flatnonzero(full_p)
            reduced = full.select(units=with_mass)
            p = full_p[with_mass]
        merged = _merge(reduced)
        if merged is not None:
            first_units, pattern = merged
            reduced = reduced.select(units=first_units)
            # Sums of 10⁷ equal numbers lose digits, so units of equal mass are counted.
            if base is None:
                p = np.bincount(pattern) / n_units
            else:
                p = np.bincount(pattern, p, first_units.size).astype(np.float64)
        candidates, equal_to = _distinct(reduced)
        if candidates.size < equal_to.size:
            reduced = reduced.select(candidates=candidates)
        scale = 1.0
        offset = 0.0
        if isinstance(reduced, DenseLosses):
            offset, scale = _offset_and_range(reduced.array)
            reduced = DenseLosses((reduced.array - offset) / scale)
        return cls(
            full,
            full_p,
            reduced,
            p,
            alpha,
            scale,
            offset,
            pattern,
            with_mass,
            candidates,
            equal_to,
        )

    @cached_property
    def cap(self) -> Floats:
        """Largest weight of each unit of the reduced problem: p_i/α."""
        return self.p / self.alpha

    def optimum(
        self,
        lam: Floats,
        w: Floats | None,
        method: str,
        combined: Floats | None = None,
    ) -> Optimum:
        """Return the optimum with a mixture and weights.

        Complementary slackness marks the tied units and the candidates of other optima.

        Parameters
        ----------
        lam : ndarray of shape (T,)
            The mixture λ.
        w : ndarray of shape (n,) or None
            The weights of the units; None for those of the worst tail.
        method : str
            Name of the method in the result.
        combined : ndarray of shape (n,), optional
            The losses of the mixture, if they are known.
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
            value,
            bound,
            threshold,
            method,
            tied=(w > 1e-7 * self.p) & (w < (1 - 1e-7) * self.cap),
            candidates=expected <= bound + 1e-9,
        )

    def expand(self, w: Floats) -> Floats:
        """Return the weights of all units, shape (n_units,), from weights of the reduced problem.

        Merged units share their weight in proportion to p. Units without mass have weight 0.
        """
        with_mass: Any = slice(None)
        if self.with_mass is not None:
            with_mass = self.with_mass
        if self.pattern is not None:
            w = (w / self.p)[self.pattern] * self.full_p[with_mass]
        full_w = np.zeros(self.full.shape[1])
        full_w[with_mass] = w
        return full_w

    def expand_mixture(self, lam: Floats) -> Floats:
        """Return the mixture of all candidates from one of distinct ones: the first of equals gets all."""
        full_lam = np.zeros(self.equal_to.size)
        full_lam[self.candidates] = lam
        return full_lam

    def reduce_mixture(self, lam: Floats) -> Floats:
        """Return the mixture of distinct candidates from a mixture of all: equal ones are added."""
        return np.bincount(self.equal_to, lam, self.candidates.size).astype(np.float64)

    def tolerance(self, value: float) -> float:
        """Return the largest allowed duality gap at a value, in units of the loss.

        It is at least the rounding of the losses.
        """
        return max(DUALITY_GAP * (1.0 + abs(value)), 1e-13 * (self.scale + abs(self.offset)))

    def error(self, what: str, gap: float, tolerance: float) -> SolverError:
        """Return the error for an open gap."""
        n_candidates, n_units = self.full.shape
        return SolverError(
            f"{what}: no method closed the duality gap: it is {gap:.3g}, above the tolerance "
            f"{tolerance:.3g} (n = {n_units}, T = {n_candidates}, alpha = {self.alpha:g})"
        )


def _offset_and_range(losses: Floats) -> tuple[float, float]:
    """Return the least loss and the range of the losses; 1 is the range of equal losses."""
    least = float(losses.min())
    half_range = float(losses.max() / 2 - least / 2)  # the halves do not overflow
    if half_range > 0:
        return least, 2 * half_range
    return least, 1.0


def _distinct(losses: PackedLosses) -> tuple[Ints, Ints]:
    """Return the number of the first candidate of each set of equal ones, and each candidate's set.

    The second array has shape (T,).
    """
    first_of_set: list[int] = []
    sets_by_key: dict[Any, list[int]] = {}
    equal_to = np.empty(losses.shape[0], dtype=np.intp)
    for t, key in enumerate(losses.keys()):
        # Different candidates rarely have the same key.
        sets_of_key = sets_by_key.setdefault(key, [])
        for number in sets_of_key:
            if np.array_equal(losses.row(first_of_set[number]), losses.row(t)):
                equal_to[t] = number
                break
        else:  # equal to no earlier candidate
            equal_to[t] = len(first_of_set)
            sets_of_key.append(len(first_of_set))
            first_of_set.append(t)
    return np.array(first_of_set, dtype=np.intp), equal_to


def _merge(losses: PackedLosses) -> tuple[Ints, Ints] | None:
    """Return the number of one unit for each pattern of losses, and the pattern of each unit, shape (n,).

    None if few units of a sample have equal losses: merging many units would not pay.
    """
    n_units = losses.shape[1]
    if n_units > UNITS_SAMPLED:
        sample = np.arange(0, n_units, min(n_units // UNITS_SAMPLED, ONE_UNIT_IN))
        distinct, _ = losses.select(units=sample).patterns()
        if distinct.size >= MERGING_RATIO * sample.size:
            return None
    return losses.patterns()


def feasible(w: Floats, cap: Floats) -> Floats:
    """Return weights w with 0 ≤ w ≤ cap and Σ w = 1, after a repair of rounding errors; shape (n,)."""
    w = np.clip(w, 0.0, cap)
    missing = 1.0 - float(w.sum())
    if missing <= 0:
        return w / w.sum()
    # The units share the missing weight in proportion to their room below the cap.
    room = cap - w
    total_room = max(float(room.sum()), missing)
    return np.minimum(w + missing * room / total_room, cap)


# -- CVaR of losses: the maximum and the maximiser, with a fractional boundary unit --------------------------

#: Number of bins of the histogram that brackets the boundary of a tail.
BINS_OF_TAIL = 16384
#: Units per block, so a block fits the processor's cache.
UNITS_AT_ONCE = 32768


def cvar(losses: ArrayLike, alpha: float, base: ArrayLike | None = None) -> float:
    """Conditional value at risk: mean loss over the worst ``alpha`` of the mass.

    CVaR_α(ℓ) = max{Σ w_i ℓ_i : w ∈ Δ, w_i ≤ p_i/α} = min_η η + Σ p_i (ℓ_i − η)_+ / α
    (Rockafellar and Uryasev 2000). The value is exact also if α cuts through a unit.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Finite losses.
    alpha : float
        Tail mass in (0, 1]: 1 gives the mean; small values approach the maximum.
    base : array-like of shape (n,), optional
        Non-negative weights of the units, normalised here; uniform by default.

    Returns
    -------
    float
        In the unit of measurement of the losses.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    return float(cvar_weights(losses, alpha, base) @ loss_vector(losses))


def cvar_weights(losses: ArrayLike, alpha: float, base: ArrayLike | None = None) -> Floats:
    """Weights on the units that attain the CVaR: the worst ``alpha`` of the mass.

    Parameters
    ----------
    losses, alpha, base
        As in `cvar`.

    Returns
    -------
    ndarray of shape (n,)
        w ∈ Δ with w_i ≤ p_i/α maximising ⟨w, ℓ⟩. Units tied at the boundary share the remaining weight in
        proportion to p.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    values = loss_vector(losses)
    w, _ = tail(values, check_alpha(alpha), base_measure(base, values.size))
    return w


def tail(losses: Floats, alpha: float, p: Floats) -> tuple[Floats, float]:
    """Return the maximiser w, shape (n,), and the boundary η, the smallest loss of the tail.

    ``losses`` and the base measure ``p``, of sum 1, have shape (n,).
    """
    boundary = tail_boundary(losses, alpha, p)
    w = np.where(losses > boundary, p, 0.0)
    w /= alpha
    remaining = max(1.0 - float(w.sum()), 0.0)
    tied = np.flatnonzero(losses == boundary)
    # The remaining weight contains the rounding of a long sum, which must not lift a unit above its cap.
    w[tied] = p[tied] * min(remaining / float(p[tied].sum()), 1.0 / alpha)
    return w, boundary


def tail_boundary(losses: Floats, alpha: float, p: Floats) -> float:
    """Return the smallest loss of the worst ``alpha`` of the mass; ``losses`` and ``p`` as in `tail`."""
    if p.min() == p.max():
        # The factor keeps rounding from adding a unit to the tail.
        n_in_tail = int(np.ceil(alpha * losses.size * (1 - 1e-14)))
        n_below = losses.size - n_in_tail
        return float(np.partition(losses, n_below)[n_below])
    mass_above = 0.0  # of the losses above the bracket, which need no sorting
    if losses.size > BINS_OF_TAIL:
        # A histogram brackets the boundary; only the losses in the bracket are sorted.
        low, high = _bracket(losses, alpha, p)
        above_bracket = float(p @ (losses > high))
        within = np.flatnonzero((losses >= low) & (losses <= high))
        if above_bracket < alpha <= above_bracket + float(p[within].sum()):
            losses = losses[within]
            p = p[within]
            mass_above = above_bracket
    largest_first = np.argsort(losses)[::-1]
    mass = mass_above + np.cumsum(p[largest_first])
    # At alpha = 1 rounding may leave the total mass just below alpha. Then all units are in the tail.
    last_in_tail = np.searchsorted(mass, min(alpha, mass[-1]))
    return float(losses[largest_first[last_in_tail]])


def _bracket(losses: Floats, alpha: float, p: Floats) -> tuple[float, float]:
    """Return a loss below and a loss above the boundary of the tail, from a histogram of the mass.

    The full range is returned for equal losses, and for a range near the limits of floating-point numbers.
    """
    low = float(losses.min())
    high = float(losses.max())
    with np.errstate(over="ignore", divide="ignore"):  # equal or enormous losses
        bins_per_loss = np.float64(BINS_OF_TAIL - 2) / (high - low)
    if not 0 < bins_per_loss < np.inf:
        return low, high
    mass = np.zeros(BINS_OF_TAIL)
    for start in range(0, losses.size, UNITS_AT_ONCE):
        block = slice(start, start + UNITS_AT_ONCE)
        position = (losses[block] - low) * bins_per_loss
        mass += np.bincount(position.astype(np.intp), p[block], BINS_OF_TAIL)
    mass_from_top = np.cumsum(mass[::-1])
    n_above = int(np.searchsorted(mass_from_top, alpha))
    boundary_bin = BINS_OF_TAIL - 1 - n_above
    # One bin on either side covers the rounding of the bins' borders.
    return low + (boundary_bin - 1) / bins_per_loss, low + (boundary_bin + 2) / bins_per_loss
