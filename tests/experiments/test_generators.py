"""Generators of artificial data against theory."""

import numpy as np
import pytest
from scipy.stats import norm

from experiments import _generators as generators

pytestmark = pytest.mark.experiments

N = 200_000


def test_twonorm_against_theory():
    X, y = generators.make_twonorm(N, random_state=0)
    assert X.shape == (N, 20)
    shift = 2 / np.sqrt(20)
    for k, sign in enumerate([1, -1]):
        np.testing.assert_allclose(X[y == k].mean(axis=0), sign * shift, atol=0.02)
        np.testing.assert_allclose(np.cov(X[y == k].T), np.eye(20), atol=0.02)
    wrong = (X.sum(axis=1) < 0) != y
    assert wrong.mean() == pytest.approx(norm.cdf(-2), abs=4 * np.sqrt(0.0228 / N))


def test_ringnorm_against_theory():
    X, y = generators.make_ringnorm(N, random_state=0)
    shift = 2 / np.sqrt(20)
    np.testing.assert_allclose(X[y == 0].mean(axis=0), 0, atol=0.04)
    np.testing.assert_allclose(np.cov(X[y == 0].T), 4 * np.eye(20), atol=0.08)
    np.testing.assert_allclose(X[y == 1].mean(axis=0), shift, atol=0.02)
    np.testing.assert_allclose(np.cov(X[y == 1].T), np.eye(20), atol=0.02)
    # Bayes rule from the two normal densities; Breiman prints 1.3 %
    log_odds = norm.logpdf(X, shift, 1).sum(axis=1) - norm.logpdf(X, 0, 2).sum(axis=1)
    assert ((log_odds > 0) != y).mean() == pytest.approx(0.0123, abs=0.001)


def test_waveform_against_theory():
    X, y = generators.make_waveform(N // 4, random_state=0)
    assert X.shape == (N // 4, 21)
    j = np.arange(1, 22)
    h1 = np.maximum(6 - np.abs(j - 11), 0)
    h2, h3 = np.roll(h1, 4), np.roll(h1, -4)
    log_density = np.empty((len(X), 3))
    for k, (a, b) in enumerate([(h1, h2), (h1, h3), (h2, h3)]):
        np.testing.assert_allclose(X[y == k].mean(axis=0), (a + b) / 2, atol=0.06)
        # ∫₀¹ N(x; u·a + (1−u)·b, I) du: a normal in u, cut to [0, 1]
        d, r = a - b, X - b
        m, s = r @ d / (d @ d), np.sqrt(d @ d)
        inside = norm.cdf((1 - m) * s) - norm.cdf(-m * s)
        log_density[:, k] = -(r**2).sum(axis=1) / 2 + (m * s) ** 2 / 2 + np.log(inside / s + 1e-300)
    assert (log_density.argmax(axis=1) != y).mean() == pytest.approx(0.14, abs=0.01)
    Xb, yb = generators.make_waveform(N // 4, binary=True, random_state=0)
    np.testing.assert_array_equal(Xb, X)
    np.testing.assert_array_equal(yb, y == 0)


def test_squares_against_theory():
    X, y = generators.make_squares(20_000, random_state=0)
    assert np.bincount(y).tolist() == [20_000] * 5
    centres = np.array([(0, 1.4), (1.4, 1.4), (2.8, 1.4), (1.4, 2.8), (1.4, 0)])
    corner = np.abs(X - centres[y]).sum(axis=1)  # a square on its corner is a ball of the 1-norm
    assert corner.max() <= np.sqrt(2)
    assert (corner <= 1).mean() == pytest.approx(0.5, abs=0.01)  # share = area ratio 2 : 4
    # variance of a uniform square is the same in every direction: side²/12
    np.testing.assert_allclose(np.cov((X - centres[y]).T), np.eye(2) / 3, atol=0.01)


def test_discs_against_theory():
    X, y = generators.make_discs(3_000, random_state=0)
    assert np.bincount(y).tolist() == [30_000] * 3 + [3_000]
    radius = np.linalg.norm(X - np.array([(0, 0), (0, 1), (1, 1), (1, 0)])[y], axis=1)
    assert radius.max() <= 1
    assert (radius**2).mean() == pytest.approx(0.5, abs=0.01)  # uniform area: r² is uniform
    assert np.bincount(generators.make_discs(10, ratio=3)[1]).tolist() == [30, 30, 30, 10]


GENERATORS = [
    generators.make_squares,
    generators.make_discs,
    generators.make_twonorm,
    generators.make_ringnorm,
    generators.make_waveform,
]


@pytest.mark.parametrize("make", GENERATORS)
def test_generators_are_reproducible(make):
    (X1, y1), (X2, y2), (X3, _) = make(7, random_state=1), make(7, random_state=1), make(7, random_state=2)
    np.testing.assert_array_equal(X1, X2)
    np.testing.assert_array_equal(y1, y2)
    assert not np.array_equal(X1, X3)
    assert X1.dtype == np.float64
    assert y1.dtype == np.int64


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("count", [0, -1, 2.5, "3", True, None])
def test_generators_refuse_bad_counts(make, count):
    with pytest.raises(ValueError, match=r"n_\w+ must be an integer of at least 1"):
        make(count)
