"""CVaR of a vector of losses, exactly: maximum and maximiser of (1), with a fractional boundary unit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Floats
from tailboost.core.numeric import base_measure, check_alpha, loss_vector

#: Bins of the histogram that brackets the boundary of a tail.
BINS = 16384
#: Units per block: what belongs to a block stays in the cache.
BLOCK = 32768


def cvar(losses: npt.ArrayLike, alpha: float, base: npt.ArrayLike | None = None) -> float:
    """Conditional value at risk: mean loss over the worst ``alpha`` of the mass.

    CVaR_α(ℓ) = max{Σ w_i ℓ_i : w ∈ Δ, w_i ≤ p_i/α} = min_η η + Σ p_i (ℓ_i − η)_+ / α
    (Rockafellar and Uryasev 2000), exact also where α cuts through a unit.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Any finite losses.
    alpha : float
        Tail mass in (0, 1]: 1 is the mean, towards 0 the maximum.
    base : array-like of shape (n,), optional
        Non-negative weights of the units, normalised here; uniform by default.

    Returns
    -------
    float
        In the units of the losses.

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
        w ∈ Δ with w_i ≤ p_i/α maximising ⟨w, ℓ⟩; units tied at the boundary share what is left for them in
        proportion to p.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """
    values = loss_vector(losses)
    return tail(values, check_alpha(alpha), base_measure(base, values.size))[0]


def tail(losses: Floats, alpha: float, p: Floats) -> tuple[Floats, float]:
    """Maximiser of (1) and its boundary η, the smallest loss of the tail, for a normalised base measure."""
    boundary = tail_boundary(losses, alpha, p)
    w = np.where(losses > boundary, p, 0.0)
    w /= alpha
    rest = max(1.0 - float(w.sum()), 0.0)
    tied = np.flatnonzero(losses == boundary)
    # What is left holds the rounding of a sum over all units, which must not lift a light unit over its cap.
    w[tied] = p[tied] * min(rest / float(p[tied].sum()), 1.0 / alpha)
    return w, boundary


def tail_boundary(losses: Floats, alpha: float, p: Floats) -> float:
    """Find the smallest loss of the worst ``alpha`` of the mass."""
    beyond = 0.0
    if p.min() == p.max():
        last = losses.size - int(np.ceil(alpha * losses.size * (1 - 1e-14)))
        return float(np.partition(losses, last)[last])
    if losses.size > BINS:
        # A histogram shows between which losses the boundary lies; only what is there is sorted.
        inside = _inside(losses, alpha, p)
        above = float(p @ (losses > inside[1]))
        within = np.flatnonzero((losses >= inside[0]) & (losses <= inside[1]))
        if above < alpha <= above + float(p[within].sum()):
            losses, p, beyond = losses[within], p[within], above
    order = np.argsort(losses)[::-1]
    mass = beyond + np.cumsum(p[order])
    # At alpha = 1 rounding may leave the total mass just below alpha: then every unit is in the tail.
    return float(losses[order[np.searchsorted(mass, min(alpha, mass[-1]))]])


def _inside(losses: Floats, alpha: float, p: Floats) -> tuple[float, float]:
    """Losses between which the boundary of the tail lies; all where their range is no number to divide by."""
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
    # A bin's worth on either side covers the rounding of where the bins begin.
    return low + (last - 1) / scale, low + (last + 2) / scale
