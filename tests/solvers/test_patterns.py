"""Units with the same losses count as one: tables against brute force, the program against that of units."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import check_mixture, highs_value

from tailboost.solvers import (
    BitLosses,
    count_patterns,
    minimize_cvar_mixture,
    tail_game,
    words,
)

seeds = st.integers(0, 2**32 - 1)


def counted(losses, weight, groups):
    """Brute force: {(word, group): summed weight}."""
    table = {}
    for word, mass, group in zip(losses.T, weight, groups, strict=True):
        key = (tuple(word.tolist()), int(group))
        table[key] = table.get(key, 0.0) + mass
    return table


def as_dict(table):
    groups = np.zeros(len(table), dtype=int) if table.groups is None else table.groups
    found = counted(table.losses.toarray(), table.weight, groups)
    assert len(found) == len(table)  # every pattern once
    return found


@given(st.integers(1, 70), st.integers(1, 300), seeds)
@settings(deadline=None, max_examples=60)
def test_against_brute_force(n_members, n_units, seed):
    rng = np.random.default_rng(seed)
    losses = rng.random((n_members, n_units)) < rng.beta(0.5, 2, n_units)
    weight = rng.choice([0.0, 1.0, 1.0, 0.3], n_units) * rng.choice([1.0, rng.random()])
    groups = rng.integers(-2, rng.integers(0, 300), n_units)
    for given_groups in (None, groups):
        table = count_patterns(losses, weight, given_groups)
        truth = counted(losses, weight, np.zeros(n_units) if given_groups is None else groups)
        found = as_dict(table)
        assert found.keys() == truth.keys()
        np.testing.assert_allclose(list(found.values()), [truth[key] for key in found], rtol=1e-13)
        np.testing.assert_array_equal(table.losses.toarray()[:, table.units], losses)
        if given_groups is not None:
            np.testing.assert_array_equal(table.groups[table.units], groups)


@pytest.mark.parametrize("n_members", [1, 8, 9, 16, 17, 24, 33, 64, 65, 130])
@pytest.mark.parametrize("key", [64, 24, 16])
def test_the_first_unit_of_every_word_in_the_order_of_words(n_members, key, monkeypatch):
    monkeypatch.setattr(words, "KEY", key)  # with fewer bits at a time, as if there were very many units
    rng = np.random.default_rng(n_members)
    kinds = rng.random((n_members, 40)) < 0.3
    losses = kinds[:, rng.integers(0, 40, 3000)]
    planes = BitLosses.from_rows(losses).planes()
    first, position = words.distinct_words(planes, n_members)
    bytes_of = np.stack(planes, axis=1)
    truth, where, inverse = np.unique(bytes_of, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(bytes_of[first], truth)
    np.testing.assert_array_equal(first, where)
    np.testing.assert_array_equal(position, inverse.ravel())


def test_all_units_alike_and_all_distinct():
    alike = count_patterns(np.ones((20, 1000), dtype=bool))
    assert len(alike) == 1
    assert alike.weight.tolist() == [1000.0]
    distinct = count_patterns((np.arange(1024) >> np.arange(10)[:, None] & 1).astype(bool))
    assert len(distinct) == 1024


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_tables_of_parts_add_up_to_that_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    n_units, n_members = int(rng.integers(3, 400)), int(rng.choice([1, 5, 12, 20, 65]))
    losses = rng.random((n_members, n_units)) < rng.beta(0.5, 2, n_units)
    weight, groups = rng.integers(0, 4, n_units).astype(float), rng.integers(0, 5, n_units)
    part = rng.integers(0, 3, n_units)
    chosen = [part == k for k in range(3) if (part == k).any()]
    for with_groups in (False, True):
        g = groups if with_groups else None
        whole = count_patterns(losses, weight, g)
        tables = [
            pickle.loads(pickle.dumps(count_patterns(losses[:, c], weight[c], g[c] if with_groups else None)))
            for c in chosen
        ]
        merged = count_patterns(
            BitLosses.concatenate([table.losses for table in tables]),
            np.concatenate([table.weight for table in tables]),
            np.concatenate([table.groups for table in tables]) if with_groups else None,
        )
        assert as_dict(merged) == as_dict(whole)  # weights are whole numbers, so their sums are exact
        np.testing.assert_array_equal(merged.losses.toarray(), whole.losses.toarray())
        if whole.weight.sum() > 0:
            one = minimize_cvar_mixture(whole.losses, 0.2, whole.weight)
            other = minimize_cvar_mixture(merged.losses, 0.2, merged.weight)
            np.testing.assert_allclose(other.mixture, one.mixture, atol=1e-9)
            assert other.value == pytest.approx(one.value, abs=1e-12)


@pytest.mark.parametrize("n_members", [1, 7, 12, 65])
@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.7, 1.0])
def test_the_table_has_the_solution_of_the_units(n_members, alpha):
    rng = np.random.default_rng(n_members)
    losses = rng.random((n_members, 600)) < rng.beta(0.5, 2, 600)
    weight = rng.choice([0.0, 0.2, 1.0, 3.0], 600) + rng.integers(0, 2, 600) * rng.random(600)
    table = count_patterns(losses, weight)
    solution = minimize_cvar_mixture(table.losses, alpha, table.weight)
    units = minimize_cvar_mixture(losses, alpha, weight)
    assert solution.value == pytest.approx(highs_value(losses, alpha, weight), abs=1e-9)
    assert solution.value == pytest.approx(units.value, abs=1e-12)
    np.testing.assert_allclose(solution.mixture, units.mixture, atol=1e-9)
    used = table.weight[table.units] > 0
    w = np.zeros(600)
    w[used] = (solution.unit_weights[table.units] * weight)[used] / table.weight[table.units][used]
    np.testing.assert_allclose(w, units.unit_weights, atol=1e-9)
    check_mixture(units, losses, alpha, weight)


@pytest.mark.parametrize("n_members", [1, 12, 20, 65])
@pytest.mark.parametrize("kind", ["uniform", "weights", "zeros", "ties", "alike"])
def test_words_give_the_solution_of_rows(n_members, kind, monkeypatch):
    rng = np.random.default_rng(n_members)
    kinds = rng.random((n_members, 700)) < rng.beta(0.5, 2, 700)
    losses = kinds[:, rng.integers(0, 700, 9000)]
    if kind == "ties" and n_members > 1:
        losses[-1] = ~losses[0]
    if kind == "alike":
        losses[:] = losses[:, :1]
    base = None if kind == "uniform" else rng.choice([0.5, 1.0, 2.0], 9000) + rng.random(9000)
    if kind == "zeros":
        base[rng.random(9000) < 0.4] = 0.0
    solutions = {}
    for name, pays in (("rows", 0.0), ("words", 2.0)):
        monkeypatch.setattr(tail_game, "PAYS", pays)
        monkeypatch.setattr(tail_game, "SAMPLE", 1024)  # so that rows are rows here
        solutions[name] = minimize_cvar_mixture(losses, 0.13, base)
    rows, words_ = solutions["rows"], solutions["words"]
    check_mixture(words_, losses, 0.13, base)
    assert words_.value == pytest.approx(rows.value, abs=1e-12)
    np.testing.assert_allclose(words_.mixture, rows.mixture, atol=1e-9)
    p = np.full(9000, 1 / 9000) if base is None else base / base.sum()
    np.testing.assert_allclose(words_.unit_weights / p.max(), rows.unit_weights / p.max(), atol=1e-7)
    # Rows of one word share its weight in proportion to p.
    position = count_patterns(losses).units
    share = np.bincount(position, words_.unit_weights) / np.bincount(position, p).clip(1e-300)
    np.testing.assert_allclose(words_.unit_weights, p * share[position], rtol=1e-9, atol=1e-18)


def test_many_equal_weights_do_not_drift():
    position = np.zeros(10_000_000, dtype=np.intp)
    weight = np.full(position.size, 0.1)
    weight[0] = 0.7  # so that they are not all alike
    total = 0.1 * (position.size - 1) + 0.7
    assert words.sums(position, weight, 1)[0] == pytest.approx(total, rel=2e-12)
    assert abs(np.bincount(position, weight)[0] / total - 1) > 1e-11  # what adding one by one does


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 3)), [1, 2]), r"weight must have shape \(3,\)"),
        ((np.zeros((2, 3)), [1, -2, 1]), "weight must not be negative, got -2"),
        ((np.zeros((2, 3)), [1, np.nan, 1]), "weight must be finite"),
        ((np.zeros((2, 3)), None, [0, 1]), r"groups must be integers of shape \(3,\)"),
        ((np.zeros((2, 3)), None, [0.5, 1, 2]), "groups must be integers"),
        ((np.full((2, 3), 2),), "zeros and ones"),
        ((BitLosses(3),), "T must be at least 1"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        count_patterns(*arguments)
