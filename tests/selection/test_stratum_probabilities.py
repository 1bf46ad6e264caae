"""Probabilities of groups: out of fold and on new rows alike."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from tailboost.rates import Strata
from tailboost.selection.probabilities import GroupModel, StratumProbabilities


def people(n, seed=0, rare=0.02):
    """Two classes and groups; the features know the group well and one class is rare."""
    rng = np.random.default_rng(seed)
    g, y = (rng.random(n) < 0.3).astype(int), (rng.random(n) < rare).astype(int)
    X = np.column_stack([rng.normal(size=n) + 4 * g, rng.normal(size=n) + y, rng.normal(size=n)])
    return X, y, g


def fitted(X, y, g, K=2, values=("f", "m")):
    w = np.ones(len(y))
    strata, stratum = Strata.of(y, g[:, None], w, range(K), ("sex",), (values,))
    belief = StratumProbabilities(K, strata.combinations)
    return belief, strata, stratum, belief.fit_groups(X, y, g[:, None], w, strata)


def test_groups_are_known_from_features():
    X, y, g = people(1500)
    belief, _, _, out = fitted(X, y, g)
    assert out[y, g, np.arange(len(y))].mean() > 0.9
    fresh, _, _ = people(4000, seed=1)
    np.testing.assert_allclose(belief.groups_of(fresh).sum(axis=1), 1.0, rtol=1e-6)
    alone = GroupModel.fit(X[:12], y[:12], np.zeros(12, int), np.ones(12), 2, 2).predict(X[:5])
    assert (alone[:, 0] == 1).all()


def test_every_kind_of_table_serves():
    X, y, g = people(400)
    found = [
        fitted(table, y, g)[0].groups_of(table)
        for table in (X, pd.DataFrame(X, columns=["a", "b", "c"]), scipy.sparse.csr_matrix(X))
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.02)
    np.testing.assert_allclose(found[0], found[2], atol=0.02)


def test_several_columns_multiply_to_one_distribution():
    X, y, g = people(600)
    other = (X[:, 2] > 0).astype(int)
    groups, w = np.column_stack([g, other]), np.ones(600)
    strata, _ = Strata.of(y, groups, w, range(2), ("sex", "race"), (("f", "m"), ("a", "b")))
    belief = StratumProbabilities(2, strata.combinations)
    out = belief.fit_groups(X, y, groups, w, strata)
    assert out.shape == (2, 4, 600)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, rtol=1e-6)
    assert out[y, strata.find(groups), np.arange(600)].mean() > 0.7


def test_probabilities_of_a_group_that_is_read_sum_to_one():
    _, y, g = people(600)
    w = np.full(600, 1 / 600)
    strata, stratum = Strata.of(y, g[:, None], w, range(2), ("sex",), (("f", "m"),))
    belief = StratumProbabilities(2, strata.combinations, told=0, shares=np.ones((2, 2)))
    logs, combination = (
        np.log(np.column_stack([np.full(600, 0.8), np.full(600, 0.2)])),
        strata.find(g[:, None]),
    )
    belief.fit_factors(logs, combination, stratum, w)
    found = belief.predict(logs, None, combination)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, rtol=1e-5)
    assert (found.reshape(2, 2, -1)[:, 1 - combination, np.arange(600)] == 0).all()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_a_group_that_is_read_gets_the_class_probabilities_in_its_own_strata(order):
    """Row by row: combinations come in any order, and a row has probabilities for its group alone."""
    n, rng = 12, np.random.default_rng(0)
    read = np.arange(n) % 3
    chances = rng.dirichlet(np.ones(2), n)
    belief = StratumProbabilities(2, np.array(order)[:, None], told=0, shares=np.ones((2, 3)))
    found = belief.predict(np.log(chances), None, read).reshape(2, 3, n)
    by_hand = np.zeros((2, 3, n))
    for row in range(n):
        by_hand[:, order.index(read[row]), row] = chances[row]
    np.testing.assert_allclose(found, by_hand, atol=1e-6)


@pytest.mark.parametrize("sexes", [1, 2])
def test_rows_have_no_probability_outside_the_group_that_they_state(sexes):
    """Three sites are read; their strata sum to the class probabilities, all others to 0."""
    n, rng = 30, np.random.default_rng(sexes)
    combinations = np.array([[site, sex] for site in (1, 2, 0) for sex in range(sexes)])
    shares = np.tile([0.25, 0.75] if sexes == 2 else [1.0], (2, 3))
    belief = StratumProbabilities(2, combinations, told=0, shares=shares)
    chances, read = rng.dirichlet(np.ones(2), n), rng.integers(3, size=n)
    found = belief.predict(np.log(chances), None, read).reshape(2, len(combinations), n)
    of_site = np.stack([found[:, combinations[:, 0] == site].sum(axis=1) for site in range(3)])
    for row in range(n):
        for site in range(3):
            expected = chances[row] if site == read[row] else np.zeros(2)
            np.testing.assert_allclose(of_site[site, :, row], expected, atol=1e-6)


@pytest.mark.parametrize("sexes", [1, 2])
def test_the_order_of_the_combinations_moves_their_probabilities_alone(sexes):
    rng = np.random.default_rng(2)
    combinations = np.array([[site, sex] for site in range(3) for sex in range(sexes)])
    G = len(combinations)
    shares, chances, read = rng.random((2, G)), rng.dirichlet(np.ones(2), 20), rng.integers(3, size=20)

    def found(order):
        belief = StratumProbabilities(2, combinations[order], told=0, shares=shares[:, order])
        return belief.predict(np.log(chances), None, read).reshape(2, G, 20)

    for order in ([*range(1, G), 0], [*range(G)][::-1], [1, 0, *range(2, G)]):
        np.testing.assert_allclose(found(order), found([*range(G)])[:, order], atol=1e-6)


def test_beside_a_group_that_is_read_another_column_has_its_frequencies_in_each_class():
    """Combinations of site and sex: the site is read, the sex has its share in the class and the site."""
    combinations = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    shares = np.array([[0.2, 0.8, 0.5, 0.5], [0.9, 0.1, 0.3, 0.7]])
    belief = StratumProbabilities(2, combinations, told=0, shares=shares)
    chances, read = np.array([[0.6, 0.4], [0.1, 0.9], [0.5, 0.5]]), np.array([0, 1, 0])
    found = belief.predict(np.log(chances), None, read).reshape(2, 4, 3)
    by_hand = np.zeros((2, 4, 3))
    for row, site in enumerate(read):
        for k in (0, 1):
            for sex in (0, 1):
                by_hand[k, 2 * site + sex, row] = chances[row, k] * shares[k, 2 * site + sex]
    np.testing.assert_allclose(found, by_hand, atol=1e-6)


def test_an_estimated_group_has_the_probabilities_of_its_own_values():
    """Two columns, whose combinations come in a mixed order: the product of those of their values."""
    combinations = np.array([[1, 0], [0, 2], [1, 2], [0, 0], [0, 1], [1, 1]])
    of_column = [0.3, 0.7], [0.5, 0.2, 0.3]
    belief = StratumProbabilities(2, combinations)
    by_column = [np.tile(np.array(column)[None, :, None], (2, 1, 4)) for column in of_column]
    joined = belief._joined(by_column)
    by_hand = [of_column[0][i] * of_column[1][j] for i, j in combinations]
    np.testing.assert_allclose(joined, np.tile(np.array(by_hand)[None, :, None], (2, 1, 4)), rtol=1e-6)


def test_groups_without_a_model_have_their_frequencies_in_each_class():
    _, y, g = people(300, rare=0.3)
    belief, _, _, out = fitted(np.zeros((300, 1)), y, g)
    assert not belief.estimates_groups
    assert out.shape == (2, 2, 300)
    assert out.dtype == np.float32
    of_class = np.array([[(g[y == k] == j).mean() for j in (0, 1)] for k in (0, 1)])
    np.testing.assert_allclose(belief.frequencies, of_class, atol=0.01)
    np.testing.assert_array_equal(out, np.repeat(out[:, :, :1], 300, axis=2))
    np.testing.assert_array_equal(out[:, :, 0], belief.frequencies.astype(np.float32))
    np.testing.assert_array_equal(belief.groups_of(np.ones((7, 1))), out[:, :, :7])
