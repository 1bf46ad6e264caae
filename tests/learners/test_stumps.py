"""Stump search against brute force, with ties, repeated rows and permuted rows."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from tailboost.learners import StumpClassifier, stumps

LAMBDAS = (0.0, 0.3, 0.7, 1.0, 4.0)


def every_stump(X):
    """Yield (feature, threshold, above, predictions) of all stumps, then of the constants."""
    n, d = X.shape
    for j in range(d):
        values = np.unique(X[:, j])
        for low, high in pairwise(values):
            above = X[:, j] > (low + high) / 2
            yield j, (low + high) / 2, 1, above.astype(int)
            yield j, (low + high) / 2, 0, (~above).astype(int)
    yield -1, 0.0, 1, np.ones(n, dtype=int)
    yield -1, 0.0, 0, np.zeros(n, dtype=int)


def halves(answers, y, w, p, lam):
    """Return P, Q and the cost after the best step, by definition."""
    right = answers == y
    A, B = w[right].sum(), w[~right].sum()
    C, D = (w[right] ** 2 / p[right]).sum(), (w[~right] ** 2 / p[~right]).sum()
    P, Q = ((1 - lam) * A**2 + lam * C, (1 - lam) * B**2 + lam * D)
    return P, Q, 2 * np.sqrt(P * Q) + 2 * (1 - lam) * A * B


def table(seed):
    """Return a small table with ties, labels, integer sample weights and a density."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    X = rng.integers(0, rng.integers(1, 9), (n, d)).astype(float)
    if seed % 2:
        X = rng.normal(size=(n, d)).round(1)
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    s, u = rng.integers(1, 4, n).astype(float), rng.integers(1, 64, n) / 8
    return X, y, s, u


@pytest.mark.parametrize("lam", LAMBDAS)
def test_best_of_all_stumps(lam):
    for seed in range(30):
        X, y, s, u = table(seed)
        if seed % 3 == 0:
            s = np.ones(len(y))
        if seed % 5 == 0:
            u = np.ones(len(y))  # the first round
        p = s / s.sum()
        w = p * u / (p @ u)
        stump = StumpClassifier(variance_weight=lam).open_session(X, y, 2, s).fit(s * u, 0)
        P, Q, cost = halves(stump.predict(X), y, w, p, lam)
        assert stump.cost_ == pytest.approx(cost, abs=1e-9)
        assert P >= Q - 1e-9
        stumps = [(halves(answers, y, w, p, lam), key) for *key, answers in every_stump(X)]
        best = min(cost for (_, _, cost), _ in stumps)
        assert cost <= best + 1e-9
        # Ties: the first column and the lowest threshold.
        first = next(key for (P, Q, c), key in stumps if P >= Q - 1e-9 and c <= best + 1e-9)
        assert [stump.feature_, stump.threshold_] == first[:2]
        assert stump.above_ == first[2] or abs(P - Q) < 1e-9


def test_weight_2_equals_the_row_twice_in_any_order():
    for seed in range(200):
        X, y, s, u = table(seed)
        rng = np.random.default_rng(seed)
        # a density of 16 significant bits, as in boosting
        u = np.rint(np.exp(rng.normal(size=len(y)) * 3) * 2**12) / 2**12 + 2**-12
        lam = LAMBDAS[seed % 5]
        one = StumpClassifier(variance_weight=lam).open_session(X, y, 2, s).fit(s * u, 0)
        rows = rng.permutation(np.repeat(np.arange(len(y)), s.astype(int)))
        session = StumpClassifier(variance_weight=lam).open_session(X[rows], y[rows], 2, np.ones(len(rows)))
        two = session.fit(u[rows], 0)
        for name in ("feature_", "threshold_", "above_"):
            assert getattr(one, name) == getattr(two, name)
        assert one.cost_ == pytest.approx(two.cost_, abs=1e-9)


@pytest.mark.parametrize("lam", LAMBDAS)
def test_stumps_do_not_depend_on_blocks(lam, monkeypatch):
    # The sum of each column is its own, so one column at a time gives the same costs to the last bit.
    for seed in range(30):
        X, y, s, u = table(seed)
        X = np.hstack([np.zeros((len(X), 1)), X, X[:, :1], np.ones((len(X), 1)), 2 * X])
        found = []
        for block in (1, 40, 2**14):
            monkeypatch.setattr(stumps, "BLOCK", block)
            stump = StumpClassifier(variance_weight=lam).open_session(X, y, 2, s).fit(s * u, 0)
            found.append((stump.feature_, stump.threshold_, stump.above_, stump.cost_))
        assert found[0] == found[1] == found[2]


def test_perfect_stump_costs_nothing():
    X = np.array([[0.0], [1.0], [2.0], [5.0]])
    for lam in LAMBDAS:
        stump = StumpClassifier(variance_weight=lam).fit(X, [0, 0, 1, 1], sample_weight=[0.1, 0.7, 1.3, 0.9])
        assert (stump.feature_, stump.threshold_, stump.above_, stump.cost_) == (0, 1.5, 1, 0.0)


def test_constant_columns_leave_a_constant():
    stump = StumpClassifier().fit(np.ones((5, 3)), [0, 1, 1, 1, 0])
    assert stump.feature_ == -1
    assert stump.predict(np.zeros((2, 3))).tolist() == [1, 1]


def test_neighbouring_numbers_are_separated():
    low = 1.0
    high = np.nextafter(low, 2.0)
    stump = StumpClassifier().fit([[low], [high]], [0, 1])
    assert stump.predict([[low], [high]]).tolist() == [0, 1]
    largest = np.finfo(float).max
    stump = StumpClassifier().fit([[-largest], [largest]], ["b", "a"])
    assert stump.predict([[-largest], [largest]]).tolist() == ["b", "a"]


def test_huge_and_tiny_weights():
    X, y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 1, 1])
    for factor in (1e-280, 1.0, 1e280):
        stump, same = StumpClassifier(variance_weight=0.5), StumpClassifier(variance_weight=0.5)
        stump.fit(X, y, sample_weight=factor * np.array([1, 2, 1, 1, 3, 1.0]))
        assert stump.threshold_ == same.fit(X, y, [1, 2, 1, 1, 3, 1]).threshold_


def test_data_frames():
    frame = pd.DataFrame({"a": [0, 1, 2, 3], "b": [1.0, 1.0, 2.0, 2.0]})
    stump = StumpClassifier().fit(frame, ["x", "x", "y", "y"])
    assert stump.predict(frame).tolist() == ["x", "x", "y", "y"]


@pytest.mark.parametrize(("X", "y", "params", "match"), [
    ([[0.0], [1.0], [2.0]], [0, 1, 2], {}, "classification"), ([[0.0], [1.0]], [1, 1], {}, "class"),
    ([[0.0], [np.nan]], [0, 1], {}, "NaN"),
    ([[0.0], [1.0]], [0, 1], {"variance_weight": -0.5}, "variance_weight"),
])  # fmt: skip
def test_invalid_arguments(X, y, params, match):
    with pytest.raises(ValueError, match=match):
        StumpClassifier(**params).fit(X, y)
