"""CVaR of a vector of losses, exactly: the maximum and the maximiser, with a fractional boundary unit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Floats
from tailboost.core.checks import base_measure, check_alpha, loss_vector

#: Number of bins of the histogram that brackets the boundary of a tail.
BINS = 16384
#: Units per block, so that a block fits the processor's cache.
BLOCK = 32768


def cvar(losses: npt.ArrayLike, alpha: float, base: npt.ArrayLike | None = None) -> float:
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


def cvar_weights(losses: npt.ArrayLike, alpha: float, base: npt.ArrayLike | None = None) -> Floats:
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
    return tail(values, check_alpha(alpha), base_measure(base, values.size))[0]


def tail(losses: Floats, alpha: float, p: Floats) -> tuple[Floats, float]:
    """Return the maximiser w and its boundary η, the smallest loss of the tail, for normalised p."""
    boundary = tail_boundary(losses, alpha, p)
    w = np.where(losses > boundary, p, 0.0)
    w /= alpha
    rest = max(1.0 - float(w.sum()), 0.0)
    tied = np.flatnonzero(losses == boundary)
    # The remaining weight contains the rounding of a long sum, which must not lift a unit above its cap.
    w[tied] = p[tied] * min(rest / float(p[tied].sum()), 1.0 / alpha)
    return w, boundary


def tail_boundary(losses: Floats, alpha: float, p: Floats) -> float:
    """Return the smallest loss of the worst ``alpha`` of the mass."""
    mass_above = 0.0
    if p.min() == p.max():
        last = losses.size - int(np.ceil(alpha * losses.size * (1 - 1e-14)))
        return float(np.partition(losses, last)[last])
    if losses.size > BINS:
        # A histogram brackets the boundary; only the losses in the bracket are sorted.
        low, high = _bracket(losses, alpha, p)
        above = float(p @ (losses > high))
        within = np.flatnonzero((losses >= low) & (losses <= high))
        if above < alpha <= above + float(p[within].sum()):
            losses, p, mass_above = losses[within], p[within], above
    order = np.argsort(losses)[::-1]
    mass = mass_above + np.cumsum(p[order])
    # At alpha = 1 rounding may leave the total mass just below alpha. Then all units are in the tail.
    return float(losses[order[np.searchsorted(mass, min(alpha, mass[-1]))]])


def _bracket(losses: Floats, alpha: float, p: Floats) -> tuple[float, float]:
    """Return losses around the boundary of the tail; the full range if no histogram is possible."""
    low, high = float(losses.min()), float(losses.max())
    with np.errstate(over="ignore", divide="ignore"):
        scale = np.float64(BINS - 2) / (high - low)
    if not 0 < scale < np.inf:
        return low, high
    mass = np.zeros(BINS)
    for start in range(0, losses.size, BLOCK):
        position = (losses[start : start + BLOCK] - low) * scale
        mass += np.bincount(position.astype(np.intp), p[start : start + BLOCK], BINS)
    last = BINS - 1 - int(np.searchsorted(np.cumsum(mass[::-1]), alpha))
    # One bin on either side covers the rounding of the bins' borders.
    return low + (last - 1) / scale, low + (last + 2) / scale
