"""Parts of rows, their effective sizes and hashes, and the numbers of their groups."""

import numpy as np
import pytest
from conftest import refused

from tailboost.rates import Counts
from tailboost.rows import Rows
from tailboost.rows.groups import GroupNames, crossed

RNG = np.random.default_rng(0)
N, COLUMNS = 40, 3
OF_ROWS = {
    "y": RNG.integers(2, size=N), "weight": RNG.random(N), "groups": RNG.integers(2, size=(N, 1)),
    "units": RNG.integers(9, size=N), "X": RNG.random((N, COLUMNS)),
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
def test_rows_of_a_unit_are_one_row_of_the_size_of_a_stratum(mask):
    part = ROWS.part(mask)
    rows = Counts.stratified(part.y, [], part.weight, part.classes, units=part.units)
    for stratum, size in enumerate(rows.strata.size):
        weight_of = {}
        for i in np.flatnonzero(mask & (OF_ROWS["y"] == stratum)):
            of_row = OF_ROWS["units"][i]
            weight_of[of_row] = weight_of.get(of_row, 0.0) + OF_ROWS["weight"][i]
        weights = np.array([*weight_of.values()])
        assert size == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), abs=1e-6)


def test_hashes_tell_columns_of_groups_apart_and_not_their_order():
    """Both columns have the same groups, (a, b) and (b, a)."""

    def hashes(numbers, *titles):
        names = GroupNames((np.array(["a", "b"]),) * 2, titles)
        rows = Rows(np.zeros(2, int), np.ones(2), np.array(numbers), "", classes=np.array([0]), names=names)
        return rows.hashes(np.zeros(2, np.uint64)).tolist()

    rows = hashes([[0, 1], [1, 0]], "sex", "site")
    assert rows == hashes([[1, 0], [0, 1]], "site", "sex")
    assert rows != hashes([[0, 1], [1, 0]], "site", "sex")


def test_numbers_with_ten_given_rows_on_average_may_be_groups():
    ten, fewer = (Rows.read(y=np.zeros(n, int), groups=np.arange(n) % 21) for n in (210, 209))
    ten.refuse_many_numbers([0])
    refused(lambda: fewer.refuse_many_numbers([0]), "different numbers")


def test_groups_have_the_numbers_of_a_fit_in_any_order_of_columns_and_values():
    of_fit = GroupNames((np.array(["a", "b", "c"]), np.array(["f", "m"])), ("site", "sex"))
    given = GroupNames((np.array(["m", "f"]), np.array(["c", "a"])), ("sex", "site"))
    numbers = np.array([[0, 1], [1, 0], [1, 1]])  # m of a, f of c, and f of a
    assert given.numbers_in(of_fit, numbers, "groups").tolist() == [[0, 1], [2, 0], [0, 0]]
    # Combinations are numbered in their order.
    columns = np.random.default_rng(0).integers(3, size=(40, 3))
    _, expected = np.unique(columns, axis=0, return_inverse=True)
    assert crossed(columns.T, 40).tolist() == expected.ravel().tolist()
