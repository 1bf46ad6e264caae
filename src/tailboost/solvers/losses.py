"""Loss matrices of candidates on units, shape (T, n): bytes if the losses are zero or one, else floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tailboost.core.array_types import Array, Floats, Ints
from tailboost.core.checks import base_measure, finite

# Units that are converted to floats together, so a block fits the processor's cache.
UNITS_AT_ONCE = 4096


def as_losses(losses: ArrayLike) -> Array:
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


def measure_of_units(losses: Array, base: ArrayLike | None) -> Floats:
    """Return the base measure of the units, the columns of a loss matrix; None for equal masses.

    Raise ValueError if ``base`` is none, or weighs the rows, so that the matrix is transposed.
    """
    n_candidates, n_units = losses.shape
    if n_candidates != n_units and base is not None and np.shape(base) == (n_candidates,):
        raise ValueError(
            f"losses: base has {n_candidates} weights of units, and losses {n_candidates} rows and "
            f"{n_units} columns. A column is a unit, a row a candidate: give losses.T"
        )
    return base_measure(base, n_units)


def starting_mixture(start: ArrayLike | None, size: int) -> Floats:
    """Return a mixture of ``size`` candidates: uniform, or ``start`` with zeros for further candidates.

    Raise ValueError if ``start`` is too long, negative, not finite, or has no mass.
    """
    if start is None:
        return np.full(size, 1.0 / size)
    weights = finite(start, "start")
    fits = weights.ndim == 1 and weights.size <= size
    if not fits or (weights < 0).any() or not weights.sum() > 0:
        raise ValueError(
            f"start must be at most {size} non-negative weights with a positive sum, got "
            f"{start!r}"
        )
    return np.append(weights / weights.sum(), np.zeros(size - weights.size))


def combine(losses: Array, lam: Floats) -> Floats:
    """Return the loss of each unit under a mixture: Σ_t λ_t ℓ^t, shape (n,)."""
    used = np.flatnonzero(lam)
    if used.size < 0.5 * lam.size:  # a copy of few candidates pays
        losses = losses[used]
        lam = lam[used]
    if losses.dtype != np.uint8:
        return lam @ losses
    combined = np.empty(losses.shape[1])
    for start in range(0, combined.size, UNITS_AT_ONCE):
        block = slice(start, start + UNITS_AT_ONCE)
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
    for start in range(0, w.size, UNITS_AT_ONCE):
        block = slice(start, start + UNITS_AT_ONCE)
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
    total = float(weights.sum())
    counts = losses.dtype == np.uint8 and weights.min() == weights.max()
    mean = expectations(losses, d) / total
    for start in range(0, units.size, UNITS_AT_ONCE):
        block = slice(start, start + UNITS_AT_ONCE)
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
    hashes = np.zeros(losses.shape[1], dtype=np.uint64)
    rng = np.random.default_rng(0)
    for plane in np.packbits(losses, axis=0):  # eight candidates in a byte
        hashes += plane * rng.integers(2**64, dtype=np.uint64)
    _, first_unit, pattern = np.unique(hashes, return_index=True, return_inverse=True)
    return first_unit, pattern
