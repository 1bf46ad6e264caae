"""Log-odds of two labels: weights by value, thresholds by group and groups of other rows, row by row."""

import numpy as np
import pytest

from tailboost.rates import Strata
from tailboost.selection.data import SelectionData
from tailboost.selection.log_odds import LogOdds

CHANCES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
GROUPS = ("a", "b", "c")


def selection_data(n=60, *, defers=False, seed=0):
    """Return the selection data of rows, with their chances of the second label, labels and groups."""
    rng = np.random.default_rng(seed)
    chance, g = rng.choice(CHANCES, n), rng.integers(3, size=n)
    y = (rng.random(n) < chance).astype(int)
    weight = rng.integers(1, 4, n) / 2.0
    strata, stratum = Strata.of(y, g[:, None], weight, (0, 1), ("g",), (GROUPS,), defers=defers)
    probabilities = np.zeros((2, 3, n))
    probabilities[0, g, np.arange(n)] = 1 - chance
    probabilities[1, g, np.arange(n)] = chance
    data = SelectionData(strata, stratum, weight / weight.sum(), probabilities.reshape(6, n))
    return data, chance, y, g, weight


def test_values_are_the_log_odds_of_the_chances():
    data, chance, *_ = selection_data()
    odds = LogOdds.from_data(data, 0)
    np.testing.assert_allclose(odds.scores, np.log(chance / (1 - chance)), atol=1e-12)
    np.testing.assert_allclose(odds.values, np.log(CHANCES / (1 - CHANCES)), atol=1e-12)
    np.testing.assert_allclose(odds.chances, np.tile(CHANCES, (3, 1)), atol=1e-12)


def test_weights_count_each_row_half_by_its_label_and_half_by_its_chances():
    data, chance, y, g, weight = selection_data()
    odds = LogOdds.from_data(data, 0)
    by_hand = np.zeros((2, 3, 5))
    for row in range(60):
        value = list(CHANCES).index(chance[row])
        share = weight[row] / weight.sum() * odds.n_rows
        by_hand[y[row], g[row], value] += share / 2
        by_hand[0, g[row], value] += share / 2 * (1 - chance[row])
        by_hand[1, g[row], value] += share / 2 * chance[row]
    np.testing.assert_allclose(odds.weights, by_hand.reshape(6, 5), atol=1e-9)


@pytest.mark.parametrize("column", [0, None])
def test_each_group_answers_by_its_own_threshold(column):
    """All thresholds of the first and the last group, from the lowest value to beyond the highest."""
    data, chance, _, g, _ = selection_data()
    odds = LogOdds.from_data(data, column)
    number = np.searchsorted(CHANCES, chance)
    for first in range(6):
        for last in range(6):
            low = np.array([first, 2, last] if column == 0 else [first])
            place = g if column == 0 else np.zeros_like(g)
            expected = (number >= low[place]).astype(int)
            actions = data.actions(odds.candidate(low, low))
            np.testing.assert_array_equal(actions, expected)


def test_rows_between_the_two_thresholds_of_their_group_are_deferred():
    data, chance, _, g, _ = selection_data(defers=True)
    odds = LogOdds.from_data(data, 0)
    number = np.searchsorted(CHANCES, chance)
    low, high = np.array([0, 1, 3]), np.array([2, 4, 3])
    expected = np.where(number >= high[g], 1, np.where(number >= low[g], 2, 0))
    np.testing.assert_array_equal(data.actions(odds.candidate(low, high)), expected)


def test_groups_of_other_rows_are_found_by_their_values():
    """The other rows lack the group a, have a new one, and name them in another order."""
    data, *_ = selection_data()
    odds = LogOdds.from_data(data, 0)
    number_of = {"a": 0, "b": 1, "c": 2, "x": -1}
    values = ("x", "c", "b")
    groups = np.array([[0], [1], [2], [1]])
    strata, _ = Strata.of(np.array([0, 1, 1, 0]), groups, np.ones(4), (0, 1), ("g",), (values,))
    expected = [number_of[name] for _, name in strata.names]
    assert odds.places_of(strata).tolist() == expected
    assert odds.places_of(data.strata).tolist() == [number_of[name] for _, name in data.strata.names]
    assert odds.places.tolist() == [number_of[name] for _, name in data.strata.names]


def test_groups_are_found_in_their_column_among_several():
    n, rng = 40, np.random.default_rng(1)
    other, g, y = rng.integers(2, size=n), rng.integers(3, size=n), rng.integers(2, size=n)
    groups = np.column_stack([other, g])
    given = (0, 1), ("sex", "g"), (("f", "m"), GROUPS)
    strata, stratum = Strata.of(y, groups, np.ones(n), *given)
    probabilities = np.full((len(strata.y), n), 1 / len(strata.y))
    odds = LogOdds.from_data(SelectionData(strata, stratum, np.full(n, 1 / n), probabilities), 1)
    assert odds.places.tolist() == [GROUPS.index(name) for _, _, name in strata.names]
    swapped = groups[:, ::-1]
    fresh, _ = Strata.of(y, swapped, np.ones(n), (0, 1), ("g", "sex"), (GROUPS, ("f", "m")))
    assert odds.places_of(fresh).tolist() == [GROUPS.index(name) for _, name, _ in fresh.names]
