"""The CVaR of a vector of losses: the maximum and the maximiser, with a fractional boundary unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tailboost.core.array_types import Floats
from tailboost.core.checks import base_measure, check_alpha, loss_vector


class SolverError(RuntimeError):
    """Raised if no method closes the duality gap; the message gives the gap and the problem's size."""


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
    largest_first = np.argsort(losses)[::-1]
    mass = np.cumsum(p[largest_first])
    # At alpha = 1 rounding may leave the total mass just below alpha. Then all units are in the tail.
    last_in_tail = np.searchsorted(mass, min(alpha, mass[-1]))
    return float(losses[largest_first[last_in_tail]])
