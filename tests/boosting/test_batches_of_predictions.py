"""Batches of rows of a prediction."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tailboost.core import checks
from tailboost.core.checks import batched

TABLE = np.random.default_rng(0).normal(size=(7, 2))


@pytest.mark.parametrize("form", [np.array, pd.DataFrame, sp.csr_matrix, sp.csc_matrix])
def test_a_table_of_one_batch_is_not_copied_and_several_batches_are_its_rows(monkeypatch, form):
    table = form(TABLE)
    ((rows, whole),) = batched(table)
    assert whole is table
    assert rows.tolist() == list(range(7))
    monkeypatch.setattr(checks, "ROWS_OF_BATCH", 3)
    parts = list(batched(table))
    assert [rows.tolist() for rows, _ in parts] == [[0, 1, 2], [3, 4, 5], [6]]
    for rows, part in parts:
        dense = part.toarray() if sp.issparse(part) else np.asarray(part)
        np.testing.assert_array_equal(dense, TABLE[rows])
