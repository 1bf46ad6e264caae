"""Sparse matrices as their entries mean them, without a change to the caller's own."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp


def summed(X: Any) -> Any:
    """Return a sparse matrix with every entry once and in order, as csr or csc; other tables as they are.

    Entries that a matrix stores more than once mean their sum. SciPy and scikit-learn sort and sum in place
    where an order is needed, and conversions of csr share the arrays of the original: a matrix that is not in
    order is therefore copied, so that it stays as its owner, or another thread, has it.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return X
    own = X if X.format in ("csr", "csc") else X.tocsr()
    if own.has_canonical_format:
        return own
    own = own.copy()
    own.sum_duplicates()
    return own
