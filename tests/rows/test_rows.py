"""Parts of rows, and their effective sizes."""

import numpy as np
import pytest

from tailboost.rows import Rows
from tailboost.rows.groups import GroupNames

RNG = np.random.default_rng(0)
N, COLUMNS = 40, 3
OF_ROWS = {
    "y": RNG.integers(2, size=N), "weight": RNG.random(N), "groups": RNG.integers(2, size=(N, 1)),
    "row_hashes": RNG.integers(9, size=N).astype(np.uint64), "X": RNG.random((N, COLUMNS)),
    "clusters": RNG.integers(9, size=N), "costs": RNG.random((N, 2)),
}  # fmt: skip
NAMES = GroupNames((np.array(["f", "m"]),), ("sex",))
ROWS = Rows(**OF_ROWS, words="", classes=np.array(["no", "yes"]), names=NAMES)
MASK = RNG.random(N) < 0.7


@pytest.mark.parametrize("field", OF_ROWS)
def test_a_part_has_all_that_belongs_to_its_rows(field):
    part = ROWS.part(MASK)
    np.testing.assert_array_equal(getattr(part, field), OF_ROWS[field][MASK])
    again = part.part(part.y == 1)
    np.testing.assert_array_equal(getattr(again, field), OF_ROWS[field][MASK & (OF_ROWS["y"] == 1)])
    np.testing.assert_array_equal(again.used, np.flatnonzero(MASK & (OF_ROWS["y"] == 1)))


@pytest.mark.parametrize("mask", [MASK, ~MASK, np.full(N, True)])
def test_equal_rows_of_a_stratum_are_one_row_of_its_size(mask):
    part = ROWS.part(mask)
    for stratum, size in enumerate(part.sizes(part.y, 2)):
        weight_of = {}
        for i in np.flatnonzero(mask & (OF_ROWS["y"] == stratum)):
            of_row = int(OF_ROWS["row_hashes"][i])
            weight_of[of_row] = weight_of.get(of_row, 0.0) + OF_ROWS["weight"][i]
        weights = np.array([*weight_of.values()])
        assert size == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), abs=1e-6)
