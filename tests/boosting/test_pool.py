"""Pools of candidates against loops over the rows."""

import pickle

import numpy as np
import pytest

from tailboost.boosting.game import RoundCandidate
from tailboost.boosting.pool import JudgedPool
from tailboost.rows.rows import Rows


def drawn(seed, K, n=30, n_rounds=5, fraction=0.0):
    """Return a pool of rounds and constants, and the answers of all candidates."""
    rng = np.random.default_rng(seed)
    y, weight = rng.integers(0, K, n), rng.integers(1, 4, n).astype(float)
    answers = np.where(rng.random((n_rounds, n)) < 0.4, rng.integers(0, K, (n_rounds, n)), y)
    pool = JudgedPool(Rows(y, weight, None, "rows"), K, outlier_fraction=fraction).with_constants()
    for t, each in enumerate(answers):
        pool = pool.adding(RoundCandidate(f"model {t}", each != y, each))
    return pool, [*answers, *(np.full(n, k) for k in range(K))]


@pytest.mark.parametrize("K", [2, 3])
def test_losses_and_their_order(K):
    for seed in range(5):
        pool, answers = drawn(seed, K)
        y, weight = pool.rows.y, pool.rows.weight
        means = []
        for m, each in enumerate(answers):
            np.testing.assert_array_equal(pool.answer(m), each)
            np.testing.assert_array_equal(pool.losses.row(m), each != y)
            means.append(sum(w for w, a, k in zip(weight, each, y, strict=True) if a != k) / weight.sum())
        np.testing.assert_allclose(pool.mean_losses, means, atol=1e-12)
        assert sorted(pool.by_mean_loss.tolist()) == list(range(len(answers)))
        assert (np.diff(np.array(means)[pool.by_mean_loss]) >= -1e-9).all()
        assert [pool.constant_answer(5 + k) for k in range(K)] == list(range(K))


@pytest.mark.parametrize("K", [2, 3])
def test_a_further_candidate_makes_another_pool(K):
    pool, _ = drawn(0, K)
    before = [pool.answer(m).copy() for m in range(len(pool.judged))]
    more = pool.adding(RoundCandidate("new", pool.rows.wrong(0), np.zeros(30, np.intp)))
    assert (pool.n_rounds, more.n_rounds) == (5, 6)
    for m, each in enumerate(before):
        np.testing.assert_array_equal(pool.answer(m), each)
        np.testing.assert_array_equal(more.answer(m if m < 5 else m + 1), each)
    first = more.first(5)
    assert first.base_models == pool.base_models
    np.testing.assert_array_equal(first.losses.toarray(), pool.losses.toarray())
    np.testing.assert_array_equal(more.places(5), [0, 1, 2, 3, 4, *range(6, 6 + K)])


@pytest.mark.parametrize("K", [2, 3])
def test_some_of_the_rows(K):
    pool, answers = drawn(1, K)
    rows = np.arange(30) % 3 > 0
    part = pool.part(rows)
    for m, each in enumerate(answers):
        np.testing.assert_array_equal(part.answer(m), each[rows])
        np.testing.assert_array_equal(part.loss(m), (each != pool.rows.y)[rows])
    again = pickle.loads(pickle.dumps(part))
    np.testing.assert_array_equal(again.losses.toarray(), part.losses.toarray())


def test_a_rule_draws_its_candidates():
    pool, answers = drawn(2, 3)
    weights = np.random.default_rng(0).dirichlet(np.ones(len(answers)))
    shares = pool.shares(pool.rule(weights))
    expected = np.zeros((30, 3))
    for weight, each in zip(weights, answers, strict=True):
        for i, k in enumerate(each):
            expected[i, k] += weight
    np.testing.assert_allclose(shares, expected)


def test_outliers_are_the_rows_lost_most_often():
    pool, answers = drawn(3, 2, fraction=0.1)
    lost = np.sum([each != pool.rows.y for each in answers[:5]], axis=0)
    p = pool.rows.base
    assert pool.base.sum() == pytest.approx(1.0)
    dropped = p - 0.9 * pool.base
    assert dropped.sum() == pytest.approx(0.1)
    least = lost[dropped > 1e-12].min()  # only the rows above this level lose all of their weight
    np.testing.assert_allclose(dropped[lost > least], p[lost > least])
    assert pool.dropped == 0.1
