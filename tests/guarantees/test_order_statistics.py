"""Ranks as certificates: against binomial tails, simulated order statistics and known populations."""

import numpy as np
import pytest
from scipy.stats import beta, binom

import tailboost as tb
from tailboost.guarantees.exact_tests import most_errors
from tailboost.guarantees.gaps import QUADRATURE_ERROR, probability_within


def test_a_bound_of_one_is_kept_by_all_rows_and_a_bound_of_zero_by_none():
    assert most_errors(10, 1.0, 0.05) == 10
    assert most_errors(10, 0.0, 0.05) == -1


def test_the_counts_of_many_sizes_are_the_largest_in_the_binomial_tail():
    rng = np.random.default_rng(0)
    sizes = np.concatenate([np.arange(12), rng.integers(0, 300, 12)])
    for _ in range(60):
        bound = float(rng.choice([rng.random(), 10 ** rng.uniform(-4, 0), 1 - 10 ** rng.uniform(-4, 0)]))
        level = float(10 ** rng.uniform(-9, -0.01))
        expected = [int((binom.cdf(np.arange(n), n, bound) <= level).sum()) - 1 for n in sizes]
        assert most_errors(sizes, bound, level).tolist() == expected
        assert most_errors(1.0 * sizes, bound, level).tolist() == expected


@pytest.mark.parametrize("n_labels", [2, 3, 4])
@pytest.mark.parametrize("limit", ["selected(1) <= 60%", "error(by=class) <= 90%", "selected(1) >= 10%"])
def test_ranks_are_of_two_labels_and_otherwise_three_tenths_of_the_rows_select(limit, n_labels):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(n_labels), 1500)
    y = (P.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    names = list(range(n_labels))
    scores = tb.Scores(1, 1) if n_labels == 2 else tb.Scores(names, names)
    certificate = tb.calibrate(scores, P, y, limits=[limit]).certificate_
    n_selecting = 1500 - certificate.n_rows
    assert (certificate.bounds[0].method == "ranks") == (n_selecting == 0) == (n_labels == 2)
    assert n_labels == 2 or 1e-4 < binom.cdf(n_selecting, 1500, 0.3) < 1 - 1e-4


def simulated(least, most, sizes, draws, rng):
    """Return rates L and V of thresholds at ranks, from their definition by spacings."""
    low, high = np.zeros((len(sizes), draws)), np.ones((len(sizes), draws))
    for g, (a, b, n) in enumerate(zip(least, most, sizes, strict=True)):
        if a:
            low[g] = rng.beta(a, n + 1 - a, draws)
        if b < n:
            high[g] = low[g] + (1 - low[g]) * rng.beta(b + 1 - a, n - b, draws)
    return low, high


@pytest.mark.parametrize("seed", range(6))
def test_the_probability_is_a_lower_bound_close_to_the_simulated_one(seed):
    rng = np.random.default_rng(seed)
    G = int(rng.integers(2, 6))
    sizes = rng.integers(50, 3000, G)
    least = np.clip(
        np.round(rng.uniform(0.1, 0.8) * (sizes + 1) + rng.normal(0, 0.005 * sizes)), 0, sizes
    ).astype(int)
    most = np.minimum(least + rng.integers(0, 2), sizes)
    gap, ratio, draws = 0.05 + 0.1 * rng.random(), 0.8, 40_000
    low, high = simulated(least, most, sizes, draws, rng)
    others = ~np.eye(G, dtype=bool)
    close = (high[:, None] - low[None] <= gap) | ~others[:, :, None]
    near = (low[None] >= ratio * high[:, None]) | ~others[:, :, None]
    for found, truth in (
        (probability_within(least, most, sizes, gap=gap), close.all(axis=(0, 1)).mean()),
        (probability_within(least, most, sizes, factor=ratio), near.all(axis=(0, 1)).mean()),
    ):
        noise = 4 * np.sqrt(0.25 / draws)
        assert found <= truth + noise
        assert found >= truth - 0.05 - noise  # conservative for groups of few rows only


@pytest.mark.parametrize(("least", "most", "n"), [(30, 50, 100), (1, 5, 20), (0, 3, 20), (300, 500, 1000)])
def test_ranks_of_a_lone_group_are_apart_by_the_spacings_between_them(least, most, n):
    """The n scores part the population into n + 1 exchangeable spacings: j of them are Beta(j, n + 1 − j)."""
    for gap in np.arange(0.05, 1.0, 0.05):
        exact = beta.cdf(gap, most + 1 - least, n - most + least)
        assert probability_within([least], [most], [n], gap=gap) <= exact
        assert probability_within([least], [most], [n], gap=gap) >= exact - 2 * QUADRATURE_ERROR


@pytest.mark.parametrize("seed", range(4))
def test_wide_ranks_are_close_with_no_smaller_probability_than_stated(seed):
    """Ranks of groups with ties, where the two ends of one window alone can be too far apart."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(80, 400, 2)
    widths = np.round(sizes * rng.uniform(0.1, 0.2, 2)).astype(int)
    least, draws = np.round(sizes * 0.3).astype(int), 40_000
    low, high = simulated(least, least + widths, sizes, draws, rng)
    gap, ratio = (widths / sizes).max() + 0.03, 0.6
    for limit, close in (
        ({"gap": gap}, high.max(axis=0) - low.min(axis=0) <= gap),
        ({"factor": ratio}, ratio * high.max(axis=0) <= low.min(axis=0)),
    ):
        found = probability_within(least, least + widths, sizes, **limit)
        assert found <= close.mean() + 4 * close.std() / np.sqrt(draws)
        assert found >= close.mean() - 0.1


@pytest.mark.parametrize("limit", ["gap(selected(1, by=g)) <= 6%", "ratio(selected(1, by=g)) >= .8"])
def test_ranks_of_a_certified_gap_or_ratio_break_it_with_about_the_probability_of_the_level(limit):
    """The rates at the ranks are simulated. Of group 1 more rows are ill, so the limit binds."""
    rng = np.random.default_rng(0)
    g = rng.integers(2, size=4000)
    y = (rng.random(4000) < 0.3 + 0.3 * g).astype(int)
    X = 1 / (1 + np.exp(-rng.normal(2 * y - 1)))[:, None]
    rule = tb.tune(tb.Scores(0, 1), X[:2000], y[:2000], groups={"g": g[:2000]}, by_group="g", limits=[limit])
    fresh = X[2000:], y[2000:], {"g": g[2000:]}
    selected = tb.calibrate(rule, *fresh[:2], groups=fresh[2]).predict(fresh[0], groups=fresh[2])
    n, k = np.bincount(g[2000:]), np.bincount(g[2000:], selected).astype(int)
    low, high = simulated(k, k, n, 100_000, rng)
    far = high - low[::-1] > 0.06 if "gap" in limit else low < 0.8 * high[::-1]
    assert 0.035 < far.any(axis=0).mean() <= 0.045  # the level of a first attempt


@pytest.mark.parametrize("sizes", [(300, 10**7), (100_000, 500_000), (10**6, 400, 3000)])
def test_the_quadrature_is_as_exact_for_groups_of_very_unequal_size(sizes):
    """By the formula of the docstring at 40,000 quantiles: that of a large group is steeper."""
    n, p = np.array(sizes)[:, None], (np.arange(40_000) + 0.5) / 40_000
    k, gap, exact = np.rint(0.3 * n), 1.5 * np.sqrt(0.21 * (1 / n).sum()), 0.0
    for i in range(len(n)):
        u = beta.ppf(p, k[i], n[i] + 1 - k[i])
        others = beta.cdf(u + gap, k + 1, n - k) - beta.cdf(u, k, n + 1 - k)
        others[i] = beta.cdf(gap / (1 - u), 1, n[i] - k[i])
        exact += others.prod(axis=0).mean()
    found = probability_within(k.ravel(), k.ravel(), sizes, gap=gap)
    assert exact - 2 * QUADRATURE_ERROR < found < exact


def test_no_selected_row_keeps_a_gap_but_no_ratio():
    assert probability_within([0, 0], [0, 0], [200, 300], gap=0.05) > 0.99
    assert probability_within([0, 0], [0, 0], [200, 300], factor=0.5) == 0.0
