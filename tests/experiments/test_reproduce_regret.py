"""The regret over preferences: by hand, by numerical integration, and for a twin."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from experiments._regret import Case, Points, corrected_half_width, cost, regret, twin_share
from tailboost.app.report.results import resampled_interval

pytestmark = pytest.mark.experiments


def test_two_points_by_hand():
    # Out of fold: .2 + .4 w and .3 + .1 w cross at w = 1/3. On test rows .1 + .6 w and .4 constantly:
    # ∫ = [.1 w + .3 w²] from 0 to 1/3 + .4 · 2/3 = 1/15 + 4/15.
    points = Points.of([[0.2, 0.6], [0.3, 0.4]], [[0.1, 0.7], [0.4, 0.4]])
    assert cost(points) == pytest.approx(1 / 3)
    alone = Points.of([[0.5, 0.5]], [[0.2, 0.6]])
    assert cost(alone) == pytest.approx(0.4)


def test_copies_of_a_point_count_once_and_their_order_does_not():
    twice = Points.of([[0.2, 0.6], [0.2, 0.6]], [[0.1, 0.3], [0.3, 0.5]])
    assert cost(twice) == pytest.approx((0.2 + 0.4) / 2)
    turned = Points.of(twice.out_of_fold[::-1], twice.test[::-1])
    assert cost(turned) == cost(twice)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_integral(seed):
    """Independent: SciPy's quadrature of a choice made anew at every w."""
    rng = np.random.default_rng(seed)
    mean = rng.random((12, 2)) * 0.5
    points = Points.of(*(np.c_[m, m + rng.random(12) * 0.5] for m in mean.T))

    def loss(w, of):
        return (1 - w) * of[:, 0] + w * of[:, 1]

    def on_test(w):
        return loss(w, points.test)[loss(w, points.out_of_fold).argmin()]

    grid = np.linspace(0, 1, 401)
    truth = sum(quad(on_test, a, b)[0] for a, b in pairwise(grid))
    assert cost(points) == pytest.approx(truth, abs=1e-4)


def case(table, less, scale=0.5):
    theirs = Points.of([[0.5, 0.5]], [[0.5, 0.5]])
    return Case(table, [(Points.of([[0, 0]], [[0.5 + d, 0.5 + d]]), theirs) for d in less], scale, 3 / 7)


@pytest.mark.parametrize("scale", [0.0, -0.01])
def test_where_no_single_model_beats_the_coin_there_is_no_unit(scale):
    """Divided by a scale below 0 a loss would count as a gain."""
    found = regret({"a": case("a", [0.1]), "b": case("b", [0.3], scale)})
    alone = regret({"a": case("a", [0.1])})
    assert (found.mean, found.low, found.high) == (alone.mean, alone.low, alone.high)
    assert np.isnan(found.cases["b"]).all()
    assert found.unscaled == pytest.approx((0.2, 0.1, 0.3))
    assert np.isnan(regret({"b": case("b", [0.3], scale)}).mean)


def test_cases_are_averaged_and_tables_drawn():
    found = regret({"a": case("a", [0.1, 0.3]), "a, cells": case("a", [0.1]), "b": case("b", [-0.1, -0.1])})
    assert found.mean == pytest.approx((0.4 + 0.2 - 0.2) / 3)
    # Of two tables drawn: a alone (.3), both (.4/3), b alone (−.2), with probabilities ¼, ½, ¼.
    assert (found.low, found.high) == pytest.approx((-0.2, 0.3))
    assert found.unscaled == pytest.approx((0.4 / 6, -0.1, 0.15))
    assert found.cases["b"] == pytest.approx((-0.2, 0.0))
    assert np.isnan(found.cases["a, cells"][1])


def test_the_interval_of_a_case_is_that_of_the_corrected_test():
    """The mean is on the edge of its interval about 0 by the report's test too."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=7)
    x += corrected_half_width(x, 0.4) - x.mean()
    assert resampled_interval(x.tolist(), 0.4)["low"] == pytest.approx(0.0, abs=1e-12)


def test_a_twin():
    """Compared with draws row by row; equal answers have equal regret, and with enough rows all do."""
    sizes, errors = [[40, 10, 14]] * 2, [0.1, 0.5, 0.3]
    rng, good = np.random.default_rng(1), 0
    for _ in range(3000):
        both = np.zeros((2, 2))
        for split in sizes:
            units = []
            for n, e in zip(split, errors, strict=True):
                a, b = rng.random((2, n)) < e
                b = np.where(rng.random(n) < 0.7, a, b)
                units.append([a.mean(), b.mean()])
            units = np.array(units).T
            both += np.c_[units @ split / sum(split), units.max(axis=1)] / len(sizes)
        good += (both[0] <= both[1] + 0.005).all()
    assert twin_share(sizes, errors, 0.7, 0.005, draws=20_000) == pytest.approx(good / 3000, abs=0.03)
    assert twin_share(sizes, errors, 1.0, 0.0) == 1.0
    assert twin_share([[10**7, 10**7]], [0.2, 0.3], 0.0, 0.005) == 1.0
