"""The exact test of two rates: its size by enumeration, and its agreement with one-sided binomial bounds."""

from bisect import bisect_left
from functools import partial

import numpy as np
import pytest
from scipy.stats import beta, binom

from tailboost.rates.bounds import FAR, pair_p_value


def pair_passes(errors, rows, level, **tested):
    """Return whether the exact test of a pair of counts passes at a level."""
    return pair_p_value(errors, rows, level=level, **tested) <= level


@pytest.mark.parametrize("rows", [(10, 15), (22, 14)])
@pytest.mark.parametrize(("factor", "gap"), [(1.0, 0.02), (1.0, 0.1), (0.8, 0.0)])
def test_the_size_is_at_most_the_level_at_every_point_of_the_hypothesis(rows, factor, gap):
    (n1, n2), levels = rows, (0.01, 0.05, 0.1)
    errors = np.ndindex(n1 + 1, n2 + 1)
    p = np.reshape([pair_p_value(each, rows, factor=factor, gap=gap) for each in errors], (n1 + 1, n2 + 1))
    for second in np.linspace(0.0, factor - gap, 60):
        for beyond in (0.0, 0.01, 0.1, 0.3):
            first = (gap + second) / factor + beyond
            if first <= 1.0:
                of_first = binom.pmf(np.arange(n1 + 1), n1, first)
                weights = np.outer(of_first, binom.pmf(np.arange(n2 + 1), n2, second))
                for level in levels:
                    assert weights[p <= level].sum() <= level


def test_more_errors_of_the_first_group_give_no_smaller_p_value_in_the_region_of_interest():
    p = np.array([[pair_p_value((i, j), (18, 20), gap=0.05) for j in range(21)] for i in range(19)])
    small = p <= 0.05
    assert (small[:-1] >= small[1:]).all()
    assert (small[:, 1:] >= small[:, :-1]).all()


def test_power_exceeds_that_of_two_bounds():
    """With equal rates of .1 on 800 rows each, two bounds of half the level certify a gap of .06 rarely."""
    rng = np.random.default_rng(0)
    counts = rng.binomial(800, 0.1, size=(80, 2))
    exact = np.mean([pair_p_value((int(a), int(b)), (800, 800), gap=0.05) <= 0.05 for a, b in counts])
    upper = beta.ppf(0.975, counts[:, 0] + 1, 800 - counts[:, 0])
    lower = beta.ppf(0.025, counts[:, 1], 801 - counts[:, 1])
    assert exact > np.mean(upper - lower <= 0.05) + 0.2


def test_no_rows_certify_nothing_and_an_impossible_hypothesis_is_rejected():
    assert pair_p_value((0, 0), (0, 5)) == 1.0
    assert pair_p_value((3, 3), (5, 5), gap=1.0) == 0.0
    least = binom.pmf(0, 100, 0.999) * binom.sf(89, 100, 0.499)  # far outside of the interval
    assert pair_p_value((0, 90), (100, 100), gap=0.5) >= max(least, 1e-300)


def test_a_p_value_far_from_any_level_is_the_normal_one():
    assert FAR < pair_p_value((30, 10), (100, 100), gap=0.02) <= 1.0


def test_many_rows_pass_at_any_level():
    """Of 100,000 rows a difference of .05 is far from 0 at each level; no fixed γ stands in the way."""
    counts, rows = (1000, 1000), (100_000, 100_000)
    assert pair_p_value(counts, rows, gap=0.05) > 1e-4
    for level in (0.05, 1e-3, 1e-4, 2e-5):
        assert pair_passes(counts, rows, level, gap=0.05)
        assert not pair_passes((6000, 1000), rows, level, gap=0.05)


@pytest.mark.parametrize(("factor", "gap", "level"), [(1.0, 0.1, 0.2), (1.0, 0.1, 0.45), (0.8, 0.0, 0.45)])
@pytest.mark.parametrize("rows", [(60, 3), (1, 40), (12, 9)])
def test_a_test_at_a_large_level_keeps_it(rows, level, factor, gap):
    """With a confidence of .8 or .55, the normal approximation passed too often: of 60 and 3 rows in .51."""
    n1, n2 = rows
    found = [pair_passes(x, rows, level, factor=factor, gap=gap) for x in np.ndindex(n1 + 1, n2 + 1)]
    passes = np.reshape(found, (n1 + 1, n2 + 1))
    for second in np.linspace(0.0, factor - gap, 30):
        first = min((gap + second) / factor, 1.0)
        each = binom.pmf(np.arange(n1 + 1), n1, first)
        others = binom.pmf(np.arange(n2 + 1), n2, second)
        assert each @ passes @ others <= level


def statistic(x1, x2, n1, n2, a, c):
    """Return Farrington and Manning's z of counts, at a point of the boundary near them."""
    p2 = min(max((x1 + x2 - n1 * c / a) / (n1 / a + n2), 0.0), a - c, 1.0)
    p1 = (c + p2) / a
    variance = a**2 * p1 * (1 - p1) / n1 + p2 * (1 - p2) / n2
    return (a * x1 / n1 - x2 / n2 - c) / np.sqrt(max(variance, 1e-12))


def enumerated_p_value(errors, rows, a, c, gamma):
    """Return the largest probability of the monotone region over the nuisance parameter, plus γ."""
    (x1, x2), (n1, n2) = errors, rows
    z = np.array([[statistic(i, j, n1, n2, a, c) for j in range(n2 + 1)] for i in range(n1 + 1)])
    inside = z <= z[x1, x2] + 1e-12
    region = np.array(
        [[inside[i:, : j + 1].any() for j in range(n2 + 1)] for i in range(n1 + 1)]
    )  # fewer errors of the first group or more of the second stay inside
    low = beta.ppf(gamma / 2, x2, n2 - x2 + 1) if x2 else 0.0
    high = beta.ppf(1 - gamma / 2, x2 + 1, n2 - x2) if x2 < n2 else 1.0
    if low > a - c:
        return gamma
    second = np.linspace(low, min(high, a - c), 200)[:, None]
    first = np.minimum((c + second) / a, 1.0)
    one, other = np.arange(n1 + 1), np.arange(n2 + 1)
    probabilities = binom.pmf(one, n1, first)[:, :, None] * binom.pmf(other, n2, second)[:, None, :]
    return (probabilities * region).sum(axis=(1, 2)).max() + gamma


COMPARED = [((10, 12), 1.0, 0.1), ((16, 8), 1.0, 0.3), ((12, 14), 0.6, 0.0)]


@pytest.mark.parametrize(("rows", "factor", "gap"), COMPARED)
def test_a_p_value_is_that_of_enumeration(rows, factor, gap):
    compared = 0
    for x1 in range(0, rows[0] + 1, 2):
        for x2 in range(0, rows[1] + 1, 2):
            found = pair_p_value((x1, x2), rows, factor=factor, gap=gap)
            if found <= FAR:
                exact = enumerated_p_value((x1, x2), rows, factor, gap, 1e-3)
                compared += 1
                assert found == pytest.approx(min(exact, 1.0), rel=0.0075, abs=1e-6)
    assert compared >= 5


@pytest.mark.parametrize(("errors", "rows"), [((2, 9), (3, 9)), ((10, 19), (12, 19)), ((2, 20), (3, 21))])
def test_observed_counts_are_in_the_region_where_the_statistic_falls_with_the_errors(errors, rows):
    """Fewer errors of the first group have a larger statistic there, so a bisection may end below them."""
    (x1, x2), (n1, n2) = errors, rows
    before = [statistic(i, x2, n1, n2, 1.0, 0.1) for i in range(x1)]
    assert max(before) > statistic(x1, x2, n1, n2, 1.0, 0.1) + 1e-6
    exact = enumerated_p_value(errors, rows, 1.0, 0.1, 1e-3)
    assert pair_p_value(errors, rows, gap=0.1) == pytest.approx(exact, rel=0.0075)


@pytest.mark.parametrize("level", [0.01, 0.1])
@pytest.mark.parametrize(("rows", "factor", "gap"), COMPARED)
def test_a_pair_passes_if_the_enumerated_p_value_is_at_most_the_level(rows, factor, gap, level):
    outcomes = []
    for x1 in range(0, rows[0] + 1, 2):
        for x2 in range(0, rows[1] + 1, 2):
            exact = enumerated_p_value((x1, x2), rows, factor, gap, min(1e-3, level / 20))
            if abs(exact - level) > 0.01 * level:  # the factor for values between those of the grid
                outcomes.append(exact <= level)
                assert pair_passes((x1, x2), rows, level, factor=factor, gap=gap) == outcomes[-1]
    assert any(outcomes)
    assert not all(outcomes)


@pytest.mark.parametrize("level", [0.01, 0.05])
def test_the_size_of_a_passed_pair_is_near_its_level_and_not_above_it(level):
    """Of 24 and 24 rows, over the boundary of the hypothesis: at least a half, and at most the level."""
    n, gap = 24, 0.1
    found = [pair_passes(x, (n, n), level, gap=gap) for x in np.ndindex(n + 1, n + 1)]
    passes = np.reshape(found, (n + 1, n + 1))
    sizes = [
        binom.pmf(np.arange(n + 1), n, second + gap) @ passes @ binom.pmf(np.arange(n + 1), n, second)
        for second in np.linspace(0.0, 1 - gap, 30)
    ]
    assert level / 2 < max(sizes) <= level


@pytest.mark.parametrize(("n1", "n2", "gap", "factor", "level"), [
    (3000, 10, 0.1, 1, 0.01), (30_000, 10, 0.0, 1, 0.05), (3000, 20, 0.05, 1, 0.05), (10_000, 9, 0, 0.8, 0.05)
])  # fmt: skip
def test_the_size_is_at_most_the_level_where_it_rises_and_falls_many_times(n1, n2, gap, factor, level):
    def fails(x1, x2):
        return not pair_passes((x1, x2), (n1, n2), level, gap=gap, factor=factor)

    most = [bisect_left(range(n1), 1, key=partial(fails, x2=x2)) - 1 for x2 in range(n2 + 1)]
    p2 = np.linspace(0, factor - gap, 20_001)[:, None]
    first = binom.cdf(most, n1, np.minimum((gap + p2) / factor, 1.0))
    assert 0.8 * level < (first * binom.pmf(range(n2 + 1), n2, p2)).sum(axis=1).max() <= level


@pytest.mark.parametrize(("errors", "rows", "factor", "gap"), [
    ((1, 3), (12, 14), 1.0, 0.2), ((5, 4), (16, 10), 1.0, 0.3), ((5, 7), (14, 12), 0.7, 0.0),
])  # fmt: skip
def test_a_pair_passes_from_the_level_of_its_enumerated_p_value(errors, rows, factor, gap):
    """γ is a twentieth of a small level, so the level solves an equation: here by halving the interval."""
    low, high = 1e-4, 0.5
    for _ in range(14):
        level = np.sqrt(low * high)
        passes = enumerated_p_value(errors, rows, factor, gap, min(1e-3, level / 20)) <= level
        low, high = (low, level) if passes else (level, high)
    assert 2e-3 < level < 0.3
    assert pair_passes(errors, rows, 1.01 * level, factor=factor, gap=gap)
    assert not pair_passes(errors, rows, 0.99 * level, factor=factor, gap=gap)
