"""The CVaR of a vector of losses, with a fractional boundary unit; and loss matrices of candidates on units.

Loss matrices have shape (T, n). They are bytes if the losses are zero or one, else floats.
"""

from collections.abc import Iterator

import numpy as np

from tailboost.core import Array, Column, Floats, Ints, Table, check_weights, finite
from tailboost.core.ranges import check_alpha

# Units that are converted to floats together, so a block fits the processor's cache.
UNITS_AT_ONCE = 4096
# Largest relative duality gap of a returned solution.
DUALITY_GAP = 1e-8


class SolverError(RuntimeError):
    """Raised if no method closes the duality gap; the message gives the gap."""


def check_gap(gap: float, value: float, rounding: float) -> None:
    """Raise SolverError for a gap above the tolerance, which is at least the rounding of the losses.

    A negative gap would show infeasible weights.
    """
    if not abs(gap) <= max(DUALITY_GAP * (1.0 + abs(value)), rounding):
        raise SolverError(f"the duality gap stays {gap:.3g} for the value {value:.6g}")


def cvar(losses: Column, alpha: float, base: Column = None) -> float:
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


def cvar_weights(losses: Column, alpha: float, base: Column = None) -> Floats:
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
    return tail(values, check_alpha(alpha), measure(base, values.size))[0]


def tail(losses: Floats, alpha: float, p: Floats) -> tuple[Floats, float]:
    """Return the maximiser w, shape (n,), and the boundary η, the smallest loss of the tail.

    ``losses`` and the base measure ``p``, of sum 1, have shape (n,).
    """
    if p.min() == p.max():
        # The factor keeps rounding from adding a unit to the tail.
        n_below = losses.size - int(np.ceil(alpha * losses.size * (1 - 1e-14)))
        boundary = float(np.partition(losses, n_below)[n_below])
    else:
        largest_first = np.argsort(losses)[::-1]
        mass = np.cumsum(p[largest_first])
        # At alpha = 1 rounding may leave the total mass just below alpha. Then all units are in the tail.
        last_in_tail = np.searchsorted(mass, min(alpha, mass[-1]))
        boundary = float(losses[largest_first[last_in_tail]])
    w = np.where(losses > boundary, p / alpha, 0.0)
    remaining = max(1.0 - w.sum(), 0.0)
    tied = np.flatnonzero(losses == boundary)
    # The remaining weight contains the rounding of a long sum, which must not lift a unit above its cap.
    w[tied] = p[tied] * min(remaining / p[tied].sum(), 1.0 / alpha)
    return w, boundary


# -- loss matrices


def as_losses(losses: Table) -> Array:
    """Return a checked loss matrix: booleans, and bytes of zeros and ones, are bytes, other numbers floats.

    Raise ValueError if ``losses`` is not a non-empty finite (T, n) matrix.
    """
    array = np.asarray(losses)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"losses must have shape (T, n) with T, n ≥ 1, got {array.shape}")
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    if array.dtype == np.uint8 and array.max() <= 1:
        return array
    return finite(array, "losses")


def measure(base: Column, n: int) -> Floats:
    """Return the base measure p of n units, shape (n,): ``base`` divided by its sum, or 1/n for None."""
    weights = check_weights(base, n, "base")
    weights = weights / weights.max()  # no sum of these overflows
    return weights / weights.sum()


def blocks(n: int) -> Iterator[slice]:
    """Yield the units in blocks that fit the processor's cache."""
    for start in range(0, n, UNITS_AT_ONCE):
        yield slice(start, start + UNITS_AT_ONCE)


def combine(losses: Array, lam: Floats) -> Floats:
    """Return the loss of each unit under a mixture: Σ_t λ_t ℓ^t, shape (n,)."""
    used = np.flatnonzero(lam)
    if used.size < 0.5 * lam.size:  # a copy of few candidates pays
        losses = losses[used]
        lam = lam[used]
    if losses.dtype != np.uint8:
        return lam @ losses
    combined = np.empty(losses.shape[1])
    for block in blocks(combined.size):
        combined[block] = lam @ losses[:, block].astype(np.float64)
    return combined


def expectations(losses: Array, w: Floats) -> Floats:
    """Return the expected loss of each candidate under unit weights w: ⟨w, ℓ^t⟩, shape (T,)."""
    if losses.dtype != np.uint8:
        return losses @ w
    units = np.flatnonzero(w)
    if units.size < 0.5 * w.size:  # a copy of few units pays
        losses = losses[:, units]
        w = w[units]
    expected = np.zeros(len(losses))
    for block in blocks(w.size):
        expected += losses[:, block].astype(np.float64) @ w[block]
    return expected


def covariance(losses: Array, d: Floats) -> Floats:
    """Return Σ_i d_i (ℓ_i − m)(ℓ_i − m)', shape (T, T): a weighted sum over the units.

    ℓ_i are the losses of all candidates on unit i, and m is their mean under the weights d ≥ 0. Zero-one
    losses of equal weight are counted in float32, which is exact and twice as fast.
    """
    units = np.flatnonzero(d)
    weights = d[units]
    sums = np.zeros((len(losses), len(losses)))
    if not units.size:
        return sums
    total = weights.sum()
    counts = losses.dtype == np.uint8 and weights.min() == weights.max()
    mean = expectations(losses, d) / total
    for block in blocks(units.size):
        columns = losses[:, units[block]]
        if counts:
            columns = columns.astype(np.float32)
        else:
            columns = (columns - mean[:, None]) * np.sqrt(weights[block])
        sums += columns @ columns.T
    if counts:
        sums = weights[0] * sums - total * np.outer(mean, mean)
    return sums


def patterns(losses: Array) -> tuple[Ints, Ints]:
    """Return the first unit of each combination of zero-one losses, and each unit's combination.

    Units are compared by a hash of 64 bits. Solutions are certified on the losses of all units, so two
    combinations with one hash would be noticed.
    """
    hashes = np.zeros(losses.shape[1], np.uint64)
    rng = np.random.default_rng(0)
    for plane in np.packbits(losses, axis=0):  # eight candidates in a byte
        hashes += plane * rng.integers(2**64, dtype=np.uint64)
    return np.unique(hashes, return_index=True, return_inverse=True)[1:]


def loss_vector(losses: Column) -> Floats:
    """Return a vector of finite losses, float64."""
    checked = finite(losses, "losses")
    if checked.ndim != 1 or not checked.size:
        raise ValueError(
            f"losses must have shape (n,) with n ≥ 1, got {checked.shape}; give one column"
        )
    return checked
