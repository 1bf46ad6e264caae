"""Sparse matrices in canonical form, without a change to the caller's matrix."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp


def summed(X: Any) -> Any:
    """Return a sparse matrix in canonical form as csr or csc; other tables unchanged.

    An entry stored more than once means the sum. SciPy and scikit-learn sort and sum such entries in place,
    and conversions to csr share the arrays of the original. Other matrices are therefore copied, so that the
    caller's matrix never changes.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return X
    matrix = X if X.format in ("csr", "csc") else X.tocsr()
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix
