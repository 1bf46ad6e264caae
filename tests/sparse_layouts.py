"""One sparse table in all of SciPy's layouts, for tests."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

#: Attributes of a sparse matrix with arrays.
PARTS = ("data", "indices", "indptr", "row", "col", "offsets", "rows")


def layouts(Z):
    """Return the table as sparse matrices by name; its values must be multiples of 1/4 (exact sums)."""
    (n, d), whole = Z.shape, sp.csr_matrix(Z)
    ends, places = np.arange(0, d * n + 1, d), np.tile(np.arange(d), n)
    bounds = zip(whole.indptr[:-1], whole.indptr[1:], strict=True)
    backward = np.concatenate([np.arange(a, b)[::-1] for a, b in bounds])
    zeros = sp.csr_matrix((Z.ravel().copy(), places, ends), shape=Z.shape)
    halves = np.stack([Z - 1, np.ones_like(Z)], 2).ravel()
    repeats = sp.csr_matrix((halves, np.repeat(places, 2), 2 * ends), shape=Z.shape)
    unordered = whole.data[backward], whole.indices[backward], whole.indptr.copy()
    unsorted = sp.csr_matrix(unordered, shape=Z.shape)
    columns = sp.csr_matrix(Z.T)
    turned = sp.csr_matrix(repeats.toarray().T)  # rows of the columns, to repeat entries in csc too
    data, indices = np.repeat(turned.data / 2, 2), np.repeat(turned.indices, 2)
    twice = sp.csr_matrix((data, indices, 2 * turned.indptr), shape=Z.T.shape)
    coo = repeats.tocoo()
    return {
        "csr": whole, "csr, zeros stored": zeros, "csr, entries repeated": repeats,
        "csr, not sorted": unsorted, "csr_array, zeros stored": sp.csr_array(zeros), "csc": columns.T.tocsc(),
        "csc, entries repeated": sp.csc_matrix((twice.data, twice.indices, twice.indptr), shape=Z.shape),
        "coo, entries repeated": sp.coo_matrix((coo.data, (coo.row, coo.col)), shape=Z.shape),
        "bsr": sp.bsr_matrix(Z), "lil": sp.lil_matrix(Z), "dok": sp.dok_matrix(Z),
        "dok_array": sp.dok_array(Z), "dia": sp.dia_matrix(Z), "dia_array": sp.dia_array(Z),
        "coo_array": sp.coo_array(Z),
    }  # fmt: skip


def locked(matrix):
    """Make the arrays of a matrix read-only, like memory-mapped arrays, and return the matrix."""
    for part in PARTS:
        if hasattr(matrix, part) and getattr(matrix, part).dtype != object:
            getattr(matrix, part).flags.writeable = False
    return matrix


def content(matrix):
    """Return the arrays of a matrix as bytes."""
    return {part: getattr(matrix, part).tobytes() for part in PARTS if hasattr(matrix, part)}
