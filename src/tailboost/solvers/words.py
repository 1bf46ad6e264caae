"""Distinct words among units. The word of a unit holds its losses under all candidates, one bit each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Bytes, Floats, Ints

#: Bits of a sort key, which holds a word and the number of its unit.
KEY = 64
#: Longest word, in bits, for which a table of all possible words is filled if there are at least as many
#: units.
TABLE = 16
#: Units per block, so that a block fits the processor's cache.
BLOCK = 32768


def distinct_words(planes: Sequence[Bytes], n_bits: int) -> tuple[Ints, Ints]:
    """Return the first unit with each distinct word, in lexicographic order, and the word of each unit.

    Bits 8k to 8k + 7 of each unit's word are in ``planes[k]``, an array of n bytes. Unused bits are 0.
    """
    n, n_words = planes[0].size, 1
    index_bits = (n - 1).bit_length()
    first, position = np.zeros(1, dtype=np.intp), np.zeros(n, dtype=np.intp)
    k = 0
    # Each pass adds as many bytes as fit into a key together with the rank so far and the unit's number.
    while k < len(planes) and n_words < n:
        bits = (n_words - 1).bit_length()
        key = position.astype(np.uint64) if bits else np.zeros(n, dtype=np.uint64)
        before = bits
        while k < len(planes) and (bits == before or bits + 8 + index_bits <= KEY):
            width = min(8, n_bits - 8 * k)
            key <<= np.uint64(width)
            key |= planes[k]
            bits, k = bits + width, k + 1
        if bits <= TABLE and 1 << bits <= n:
            first, position = _by_table(key, bits)
        elif bits + index_bits <= KEY:
            first, position = _by_sorting(key, index_bits)
        else:
            _, first, position = np.unique(key, return_index=True, return_inverse=True)
        n_words = first.size
    return first, position


def _by_table(key: npt.NDArray[np.uint64], bits: int) -> tuple[Ints, Ints]:
    """Find distinct keys with a table of all possible keys, which stores the first unit of each."""
    index = key.view(np.int64)
    table = np.full(1 << bits, -1, dtype=np.intp)
    for start in reversed(range(0, key.size, BLOCK)):
        block = index[start : start + BLOCK]
        # NumPy keeps the last of several assignments to one place: in reverse order, the first unit.
        table[block[::-1]] = np.arange(start + block.size - 1, start - 1, -1)
    seen = table >= 0
    rank = np.cumsum(seen) - 1
    return table[seen], rank[index]


def _by_sorting(key: npt.NDArray[np.uint64], index_bits: int) -> tuple[Ints, Ints]:
    """Find distinct keys by sorting numbers that hold the key in the high bits and the unit below."""
    shift = np.uint64(index_bits)
    ordered = (key << shift) | np.arange(key.size, dtype=np.uint64)
    ordered.sort()
    unit = (ordered & ((np.uint64(1) << shift) - np.uint64(1))).astype(np.intp)
    ordered >>= shift
    new = np.ones(key.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    position = np.empty(key.size, dtype=np.intp)
    position[unit] = np.cumsum(new) - 1
    return unit[new], position


def sums(position: Ints, weight: Floats | float, size: int) -> Floats:
    """Sum the weights of the units at each of ``size`` positions, shape (size,).

    Adding 10⁷ equal numbers one by one changes their sum by a relative 10⁻¹⁰. Units of equal weight are
    therefore counted, and other weights are summed in blocks. A number stands for equal weights.
    """
    if isinstance(weight, float) or weight.min() == weight.max():
        return np.bincount(position, minlength=size) * np.ravel(weight)[0]
    total, step = np.zeros(size), max(BLOCK, 4 * size)
    for start in range(0, position.size, step):
        total += np.bincount(position[start : start + step], weight[start : start + step], size)
    return total
