"""Loss matrices of candidates on units, packed as bits if the losses are zero or one.

A unit is a row or a subgroup. All classes have the kernels that the solvers need: `combine`, `expectations`,
`columns`, `covariance`, `select`, `keys` and `patterns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.core.array_types import Array, Bytes, Floats, Ints
from tailboost.core.checks import base_measure, finite

#: BITS[b, j] is bit j of the byte b. One byte holds the losses of eight candidates on one unit.
BITS: Floats = np.unpackbits(
    np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"
).astype(float)

#: Units per block when bits are unpacked. A block of 100 candidates takes a few MB.
UNITS_UNPACKED = 4096
#: Units per block when bits are looked up, so a block fits the processor's cache.
CACHED = 32768
#: Units from which the key of a candidate is computed.
KEY_UNITS = 65536


class _Losses:
    """Kernels that bits and floats share."""

    shape: Any
    row: Any
    expectations: Any
    raw_columns: Any

    def means(self, base: ArrayLike | None = None) -> Floats:
        """Return the mean loss of each candidate under the base measure (default: uniform), shape (T,)."""
        return self.expectations(base_measure(base, self.shape[1]))

    def keys(self) -> list[int]:
        """Return a number for each candidate. Equal losses have equal numbers; different losses rarely do."""
        n_candidates, n_units = self.shape
        step = n_units // KEY_UNITS + 1  # of many units some are hashed
        keys = []
        for t in range(n_candidates):
            values = self.row(t)[::step] + 0.0  # the sum makes −0.0 a 0.0
            keys.append(hash(values.tobytes()))
        return keys

    def covariance(self, d: Floats) -> Floats:
        """Return Σ_i d_i (ℓ_i − m)(ℓ_i − m)', shape (T, T): a weighted sum over the units.

        ℓ_i are the losses of all candidates on unit i, and m is their mean under the weights d ≥ 0.
        """
        units = np.flatnonzero(d != 0)
        sums = np.zeros((self.shape[0], self.shape[0]))
        if not units.size:
            return sums
        mean = self.expectations(d) / float(d[units].sum())
        for start in range(0, units.size, UNITS_UNPACKED):
            block = units[start : start + UNITS_UNPACKED]
            centred = (self.raw_columns(block) - mean) * np.sqrt(d[block])[
                :, None
            ]  # (units, T)
            sums += centred.T @ centred
        return sums


def _patterns(columns: Sequence[Array]) -> tuple[Ints, Ints]:
    """Return the first unit of each combination of values, and the number of each unit's combination.

    Each column has a value of every unit. Units are compared by a hash of their values.
    """
    hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    rng = np.random.default_rng(0)
    for column in columns:
        if column.dtype == np.uint8:  # eight losses as bits
            words = column.astype(np.uint64)
        else:
            words = (column + 0.0).view(np.uint64)  # the sum makes −0.0 a 0.0
        hashes += (words ^ (words >> np.uint64(29))) * rng.integers(2**64, dtype=np.uint64)
        hashes ^= hashes >> np.uint64(32)
    _, first_unit, pattern = np.unique(hashes, return_index=True, return_inverse=True)
    is_exact = all(np.array_equal(column[first_unit][pattern], column) for column in columns)
    if not is_exact:  # two combinations have the same hash
        _, first_unit, pattern = np.unique(
            columns, axis=1, return_index=True, return_inverse=True
        )
    return first_unit, pattern.ravel()


class BitLosses(_Losses):
    """Zero-one losses of T candidates on n units, one bit each.

    Eight candidates share one byte per unit (a *plane* of n bytes), so the matrix takes ``8 * ceil(T / 8) *
    n`` bits and a new candidate costs n bytes of work. Objects are immutable. `append` returns a new object
    that shares the full planes of the old one.

    Parameters
    ----------
    n : int
        Number of units. The new object holds no candidate.
    """

    # Losses of `shifted` objects are ``scale`` times the bits plus the shift of each candidate, shape (T,);
    # None shifts nothing.
    _scale: float = 1.0
    _shift: Floats | None = None

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        self._n = int(n)
        self._rows = 0
        self._planes: tuple[Bytes, ...] = ()

    @classmethod
    def from_rows(cls, rows: ArrayLike) -> Self:
        """Pack a (T, n) array of booleans or zeros and ones."""
        array = np.asarray(rows)
        if array.ndim != 2:
            raise ValueError(f"rows must have shape (T, n), got {array.shape}")
        out = cls(array.shape[1])
        for row in array:
            out = out.append(row)
        return out

    def append(self, row: ArrayLike) -> Self:
        """Return the losses with one more candidate; this object is unchanged.

        Parameters
        ----------
        row : array-like of shape (n,)
            Booleans or zeros and ones.
        """
        bits = np.asarray(row)
        if bits.shape != (self._n,):
            raise ValueError(f"row must have shape ({self._n},), got {bits.shape}")
        if bits.dtype != np.bool_:
            if not np.all((bits == 0) | (bits == 1)):
                raise ValueError("row must hold zeros and ones only")
            bits = bits.astype(np.bool_)
        position = self._rows % 8  # in the bytes of the last plane
        shifted_bits = bits.view(np.uint8) << np.uint8(position)
        if position == 0:  # all planes are full
            planes = (*self._planes, shifted_bits)
        else:
            planes = (*self._planes[:-1], self._planes[-1] | shifted_bits)
        return self._with(planes, self._rows + 1)

    def _with(self, planes: tuple[Bytes, ...], rows: int) -> Self:
        """Return the losses of this number of candidates, from the bits in these planes."""
        n = self._n
        if planes:
            n = planes[0].size
        out = type(self)(n)
        out._planes = planes
        out._rows = rows
        return out

    def shifted(self, scale: float, shift: Floats | None) -> Self:
        """Return losses ``scale · ℓ^t + shift_t`` with the same bits."""
        out = self._with(self._planes, self._rows)
        out._scale = scale
        out._shift = shift
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restored, (self._n, self._rows, self._planes)

    @classmethod
    def restored(cls, n: int, rows: int, planes: Sequence[Bytes]) -> Self:
        """Return the losses of ``rows`` candidates on n units from copies of their `planes`."""
        return cls(n)._with(tuple(np.array(plane) for plane in planes), rows)

    def __repr__(self) -> str:
        return f"BitLosses(T={self._rows}, n={self._n})"

    def __len__(self) -> int:
        return self._rows

    @property
    def shape(self) -> tuple[int, int]:
        """(T, n): candidates, units."""
        return self._rows, self._n

    def planes(self) -> tuple[Bytes, ...]:
        """Return ceil(T/8) arrays of n bytes: bit j of plane k is the loss of candidate 8k + j."""
        return self._planes

    def row(self, t: int) -> Array:
        """Return the losses of candidate t, shape (n,)."""
        t = range(self._rows)[t]
        bit = (self._planes[t // 8] & np.uint8(1 << t % 8)) != 0
        if self._shift is None:
            return bit
        return self._scale * bit + self._shift[t]

    def toarray(self) -> Array:
        """Return all losses, shape (T, n)."""
        rows = [self.row(t) for t in range(self._rows)]
        return np.array(rows, dtype=np.bool_).reshape(self.shape)

    def combine(self, lam: ArrayLike) -> Floats:
        """Return the loss of each unit under the mixture: Σ_t λ_t ℓ^t, shape (n,)."""
        padded = np.zeros(8 * len(self._planes))
        padded[: self._rows] = lam
        # A table of 256 sums for each plane: of λ over all subsets of its eight candidates.
        tables = self._scale * padded.reshape(-1, 8) @ BITS.T
        planes_and_tables = [
            (plane, table)
            for plane, table in zip(self._planes, tables, strict=True)
            if table.any()
        ]
        combined = np.zeros(self._n)
        if self._shift is not None:
            combined += float(padded[: self._rows] @ self._shift)
        buffer = np.empty(min(CACHED, self._n))
        for start in range(0, self._n, CACHED):
            block = slice(start, start + CACHED)
            sums = combined[block]  # a view
            for plane, table in planes_and_tables:
                # The byte of a unit is the number of its subset.
                sums += np.take(table, plane[block], out=buffer[: sums.size], mode="clip")
        return combined

    def expectations(self, w: ArrayLike) -> Floats:
        """Return the expected loss of each candidate under unit weights w: ⟨w, ℓ^t⟩, shape (T,)."""
        weights = np.asarray(w, dtype=float)
        planes = self._planes
        total = weights.sum()
        units = np.flatnonzero(weights != 0)
        if units.size < 0.5 * weights.size:  # a copy of few units pays
            weights = weights[units]
            planes = tuple(plane[units] for plane in planes)
        # The histogram of a plane's bytes gives the weight of each set of eight losses.
        histograms = np.zeros((len(planes), 256))
        for start in range(0, weights.size, CACHED):
            block = slice(start, start + CACHED)
            for plane, histogram in zip(planes, histograms, strict=True):
                histogram += np.bincount(plane[block], weights[block], 256)
        expected = self._scale * (histograms @ BITS).ravel()[: self._rows]
        if self._shift is None:
            return expected
        return expected + self._shift * total

    def covariance(self, d: Floats) -> Floats:
        """Return the covariance as `DenseLosses.covariance`; the shifts do not change it."""
        bits = self.shifted(1.0, None)
        units = np.flatnonzero(d != 0)
        weights = d[units]
        if not units.size or weights.min() < weights.max():
            return self._scale**2 * _Losses.covariance(bits, d)
        # With equal weights, the numbers of units on which two candidates err are enough.
        sums = np.zeros((self._rows, self._rows))
        for start in range(0, units.size, UNITS_UNPACKED):
            columns = bits.raw_columns(units[start : start + UNITS_UNPACKED]).astype(np.float32)
            sums += columns.T @ columns
        n_errors = sums.diagonal()
        covariance = sums - np.outer(n_errors, n_errors) / units.size
        return self._scale**2 * covariance * (float(weights.sum()) / units.size)

    def raw_columns(self, units: ArrayLike) -> Array:
        """Return the bits of some units as bytes, shape (len(units), T)."""
        index = np.asarray(units)
        packed = np.stack([plane[index] for plane in self._planes], axis=1)
        return np.unpackbits(packed, axis=1, bitorder="little")[:, : self._rows]

    def columns(self, units: ArrayLike) -> Floats:
        """Return the losses of some units as floats, shape (len(units), T)."""
        bits = self.raw_columns(units).astype(float)
        if self._shift is None:
            return bits
        return self._scale * bits + self._shift

    def select(
        self, candidates: ArrayLike | None = None, units: ArrayLike | None = None
    ) -> Self:
        """Select candidates and units by integer indices or boolean masks."""
        selected = self.shifted(1.0, None)  # the bits
        shift = self._shift
        if units is not None:
            unit_numbers = np.arange(self._n)[np.asarray(units)]  # also of a mask
            planes = tuple(plane[unit_numbers] for plane in self._planes)
            selected = type(self)(unit_numbers.size)._with(planes, self._rows)
        if candidates is not None:
            bits = selected
            selected = type(self)(bits._n)
            candidate_numbers = np.arange(self._rows)[np.asarray(candidates)]
            for t in candidate_numbers.tolist():
                selected = selected.append(bits.row(t))
            if shift is not None:
                shift = shift[candidate_numbers]
        return selected.shifted(self._scale, shift)

    def patterns(self) -> tuple[Ints, Ints]:
        """Return the first unit of each distinct pattern of losses, and the pattern of each unit."""
        return _patterns(self._planes)


class DenseLosses(_Losses):
    """Real losses of T candidates on n units, with the kernels of `BitLosses`."""

    def __init__(self, array: Floats) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, int]:
        """(T, n): candidates, units."""
        return self.array.shape[0], self.array.shape[1]

    def row(self, t: int) -> Floats:
        """Return the losses of candidate t, shape (n,)."""
        return self.array[t]

    def append(self, row: ArrayLike) -> DenseLosses:
        """Return the losses with one more candidate; this object is unchanged."""
        return DenseLosses(np.vstack([self.array, np.asarray(row, dtype=float)]))

    def shifted(self, scale: float, shift: Floats) -> DenseLosses:
        """Return losses ``scale · ℓ^t + shift_t``."""
        return DenseLosses(scale * self.array + shift[:, None])

    def combine(self, lam: ArrayLike) -> Floats:
        """Return Σ_t λ_t ℓ^t, shape (n,)."""
        weights = np.asarray(lam, dtype=float)
        used = np.flatnonzero(weights)
        if used.size < 0.5 * weights.size:  # a copy of few candidates pays
            return weights[used] @ self.array[used]
        return weights @ self.array

    def expectations(self, w: ArrayLike) -> Floats:
        """Return ⟨w, ℓ^t⟩, shape (T,)."""
        return self.array @ np.asarray(w, dtype=float)

    def raw_columns(self, units: ArrayLike) -> Floats:
        """Return the losses of some units, shape (len(units), T)."""
        return np.ascontiguousarray(self.array[:, np.asarray(units)].T)

    columns = raw_columns

    def select(
        self, candidates: ArrayLike | None = None, units: ArrayLike | None = None
    ) -> DenseLosses:
        """Select candidates and units by integer indices or boolean masks."""
        array = self.array
        if candidates is not None:
            array = array[np.asarray(candidates)]
        if units is not None:
            array = np.ascontiguousarray(array[:, np.asarray(units)])
        return DenseLosses(array)

    def patterns(self) -> tuple[Ints, Ints]:
        """Return the first unit of each distinct pattern of losses, and the pattern of each unit."""
        return _patterns(list(self.array))


Losses = ArrayLike | BitLosses | DenseLosses
PackedLosses = BitLosses | DenseLosses


def as_losses(losses: Losses) -> PackedLosses:
    """Return a checked loss matrix: booleans and uint8 zeros and ones become bits, other numbers floats.

    Raise ValueError if ``losses`` is not a non-empty finite (T, n) matrix.
    """
    if isinstance(losses, DenseLosses):
        return losses
    if isinstance(losses, BitLosses):
        if not losses.shape[0]:
            raise ValueError("losses holds no candidate: T must be at least 1")
        return losses
    array = np.asarray(losses)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"losses must have shape (T, n) with T, n ≥ 1, got {array.shape}")
    if array.dtype == np.bool_ or (array.dtype == np.uint8 and array.max() <= 1):
        return BitLosses.from_rows(array)
    return DenseLosses(finite(array, "losses"))


def measure_of_units(losses: PackedLosses, base: ArrayLike | None) -> Floats:
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
    mixture = np.zeros(size)
    mixture[: weights.size] = weights / weights.sum()
    return mixture
