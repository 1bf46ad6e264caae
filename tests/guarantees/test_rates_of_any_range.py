"""Costs have other ranges than [0, 1]: bounds, tests and bets on them are those of shares in another unit.

The costs [[low, high], [high, low]] of an answer are ``low + (high − low) × error``, so each statement about
their mean is one about the error, whose truth is known.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, binomtest

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.bounds import CertifiedBound, RateFamily
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.monitor import Bets
from tailboost.rates import ABOVE, BELOW, Answered, Sample
from tailboost.rates.bounds import betting_upper, clopper_pearson_upper


def limit_bounds(families, level):
    return [bound for family in families for bound in family.tested(level)]


RANGES = [(-1.0, 1.0), (2.0, 5.0), (-10.0, -4.0), (-0.25, 0.25), (0.0, 1.0)]
# Wrong and right answers cost so much.
EITHER = [(-1.0, 1.0), (0.0, 2.0), (2.0, 5.0), (0.0, 0.5)]


def by_error(low, high, by=None):
    return rates.cost([[low, high], [high, low]], by=by)


def sample(shares, low=0.0, high=1.0):
    """Return a sample whose values are shares in [0, 1], moved and stretched to a range."""
    return Sample(None, np.arange(len(shares)), low + (high - low) * shares, low, high)


def family(samples, *, exact, limit=None, sides=(ABOVE, BELOW)):
    return RateFamily(by_error(samples[0].low, samples[0].high), limit, sides, samples, exact, apart=True)


def shares_of(kind, n, rng):
    return (rng.random(n) < 0.1).astype(float) if kind == "counts" else rng.beta(1, 6, n)


@pytest.mark.parametrize("n", [1, 2, 7, 40, 400])
@pytest.mark.parametrize("kind", ["counts", "parts"])
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_bounds_contain_the_mean_and_are_those_of_shares(low, high, kind, n):
    shares = shares_of(kind, n, np.random.default_rng(n))
    of_shares, of_costs = (
        family([each], exact=kind == "counts") for each in (sample(shares), sample(shares, low, high))
    )
    for level in (0.2, 0.01):
        lower, upper = of_costs.bounds_of(of_costs.samples[0], level)
        assert low <= lower <= low + (high - low) * shares.mean() <= upper <= high
        unit = of_shares.bounds_of(of_shares.samples[0], level)
        np.testing.assert_allclose([lower, upper], low + (high - low) * np.array(unit), rtol=0, atol=1e-9)
    if kind == "counts":  # Clopper–Pearson from its definition, at the level of each side
        k = int(shares.sum())
        ends = [beta.ppf(0.01, k, n - k + 1) if k else 0.0, beta.ppf(0.99, k + 1, n - k) if k < n else 1.0]
        np.testing.assert_allclose(unit, ends, atol=1e-9)


UPPER = {
    "counts": lambda shares, level: clopper_pearson_upper(round(shares.sum()), len(shares), level),
    "parts": betting_upper,
}
EACH_BOUND = pytest.mark.parametrize("kind", UPPER)


@EACH_BOUND
def test_each_bound_on_a_mean_falls_with_rows_whatever_their_order(kind):
    """A bound may be 1 for a few rows, as that of Hoeffding is."""
    of_rows = UPPER[kind]
    rng = np.random.default_rng(0)
    shares = shares_of(kind, 64, rng)
    upper = of_rows(shares, 0.05)
    assert shares.mean() < upper <= 1.0
    for others in (rng.permutation(shares), np.sort(shares), np.sort(shares)[::-1]):
        assert of_rows(others, 0.05) == pytest.approx(upper, abs=1e-6), "users may sort their rows"
    assert of_rows(np.tile(shares, 4), 0.05) <= upper <= of_rows(shares, 0.01)
    assert of_rows(np.tile(shares, 100), 0.05) < 1.0
    assert of_rows(np.zeros(1), 0.05) <= 1.0


@EACH_BOUND
@pytest.mark.parametrize("level", [0.02, 0.3])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_each_bound_on_a_mean_is_below_it_with_at_most_its_level(kind, n, level):
    """Exactly: over all sequences of n numbers with two possible values, for means just above each bound."""
    for low, high in [(0.0, 1.0)] if kind == "counts" else [(0.0, 1.0), (0.0, 0.4), (0.3, 1.0), (0.2, 0.5)]:
        sequences = np.array(list(product([low, high], repeat=n)))
        uppers = np.array([UPPER[kind](numbers, level) for numbers in sequences])
        n_high = (sequences == high).sum(axis=1)
        for mean in np.append(np.unique(uppers) + 1e-9, np.linspace(0.05, 0.95, 19)):
            p = (mean - low) / (high - low)
            if 0.0 <= p <= 1.0:
                probabilities = p**n_high * (1.0 - p) ** (n - n_high)
                assert probabilities[uppers < mean].sum() <= level + 1e-9


def ends(shares, level):
    """Return the bounds of Clopper and Pearson on a share, each at the level, from their definition."""
    k, n = int(shares.sum()), len(shares)
    return beta.ppf(level, k, n - k + 1), beta.ppf(1 - level, k + 1, n - k)


@pytest.mark.parametrize("form", ["gap", "ratio"])
@pytest.mark.parametrize("tie", ["rows in both groups", "values in part"])
def test_a_comparison_without_a_test_of_pairs_halves_the_level(form, tie):
    """Each pair needs a lower and an upper bound, at half of the level each."""
    exact = tie == "rows in both groups"
    counts = [np.repeat([0.0, 1.0], k) for k in ((90, 30), (50, 50))]
    shares = counts if exact else [0.25 + each / 2 for each in counts]
    rate = by_error(0.0, 1.0, by="g")
    limit = rates.gap(rate) <= 0.9 if form == "gap" else rates.ratio(rate) >= 0.01
    tested = RateFamily(
        rate, limit, (ABOVE, BELOW), [sample(each) for each in shares], exact, apart=not exact
    )
    *of_groups, bound = limit_bounds([tested], 0.04)
    (low, _), (_, high) = (
        ends(each, 0.02) if exact else (1.0 - betting_upper(1.0 - each, 0.02), betting_upper(each, 0.02))
        for each in shares
    )
    assert (of_groups[0].lower, of_groups[1].upper) == pytest.approx((low, high))
    assert (bound.upper if form == "gap" else bound.lower) == pytest.approx(
        high - low if form == "gap" else low / high
    )


# -- certificates, rechecks and monitors, through the public functions ---------------------------------------


def answered(n, error, seed):
    """Return labels, answers and groups of n rows per group with the stated probability of an error."""
    rng = np.random.default_rng(seed)
    n_groups = len(error)
    y = rng.integers(2, size=n * n_groups)
    wrong = rng.random(n * n_groups) < np.repeat(error, n)
    return y, np.where(wrong, 1 - y, y), {"g": np.repeat(list("abc")[:n_groups], n)}


def rarely(failures, draws, allowed=0.05):
    """Fail if a probability of at most ``allowed`` is rejected at .001."""
    assert binomtest(failures, draws, allowed, alternative="greater").pvalue >= 0.001, (failures, draws)


@pytest.mark.parametrize(("low", "high"), EITHER)
@pytest.mark.parametrize("sense", ["<=", ">="])
def test_a_cost_at_its_limit_is_rarely_certified(sense, low, high):
    """The truth is at the limit, so that every certificate is false."""
    error, draws = 0.1, 200
    limit = f"{by_error(low, high)!r} {sense} {low + (high - low) * error!r}"
    false = []
    for seed in range(draws):
        y, a, _ = answered(80, [error], seed)
        (bound,) = tb.certify(a, None, y, limits=[limit]).bounds
        wrong, n = int((a != y).sum()), len(y)
        if sense == "<=":
            end = beta.ppf(0.95, wrong + 1, n - wrong)
            assert bound.upper == pytest.approx(low + (high - low) * end)
        else:
            end = beta.ppf(0.05, wrong, n - wrong + 1) if wrong else 0.0
            assert bound.lower == pytest.approx(low + (high - low) * end)
        false.append(bound.certified)
    rarely(sum(false), draws)
    assert any(false)  # the bound is no trivial one


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (2.0, 5.0)])
def test_two_sided_bounds_on_costs_miss_the_truth_rarely(low, high):
    error, draws = 0.1, 200
    true, missed = low + (high - low) * error, 0
    for seed in range(draws):
        y, a, _ = answered(60, [error], seed)
        (bound,) = tb.certify(a, None, y, rates=[by_error(low, high)]).bounds
        missed += not bound.lower <= true <= bound.upper
        assert low <= bound.lower <= bound.estimate <= bound.upper <= high
    rarely(missed, draws)
    assert missed > 0


def said(form, low, high, errors):
    """Return a limit on the gap of costs, or on their ratio, that just allows two errors."""
    rate = by_error(low, high, by="g")
    if form == "gap":
        return rates.gap(rate) <= (high - low) * (errors[1] - errors[0])
    first, second = (low + (high - low) * error for error in errors)
    return rates.ratio(rate) >= first / second


def passes(limit, n, error, seed):
    """Return whether the exact tests of pairs certify a limit."""
    y, a, groups = answered(n, error, seed)
    fresh = Fresh(Answered.from_arrays(y, a, groups=groups, labels=[0, 1]))
    *_, bound = limit_bounds([RateFamily.from_expression(limit, fresh)], 0.05)
    return bound.certified


@pytest.mark.parametrize(
    ("form", "low", "high"),
    [
        *(("gap", low, high) for low, high in [(-1.0, 1.0), (0.0, 2.0), (0.0, 0.5)]),
        *(("ratio", low, high) for low, high in [(0.0, 2.0), (1.0, 3.0), (0.5, 1.5), (1.0, 2.0)]),
    ],
)
def test_a_comparison_of_costs_at_its_limit_is_rarely_certified(form, low, high):
    """The true errors .1 and .3 are exactly at the limit. A gap is certified as that of the errors is."""
    limit, error, draws = said(form, low, high, (0.1, 0.3)), (0.1, 0.3), 100
    false = [passes(limit, 120, error, seed) for seed in range(draws)]
    rarely(sum(false), draws)
    assert any(false)
    if form == "gap":
        as_error = rates.gap(rates.error(by="g")) <= 0.2
        assert false == [passes(as_error, 120, error, seed) for seed in range(draws)]
    assert passes(limit, 600, (0.1, 0.12), 0)


@pytest.mark.parametrize(("low", "high"), EITHER)
@pytest.mark.parametrize("form", ["mean", "gap"])
def test_bets_on_costs_are_those_on_shares(form, low, high):
    """The evidence of a claim does not change with the unit of the costs."""
    rng = np.random.default_rng(1)
    shares = [rng.beta(1, 3, 50), rng.beta(2, 2, 70)][: 1 + (form == "gap")]
    evidence = []
    for a, b in [(0.0, 1.0), (low, high)]:
        width = b - a
        sides = (
            {"upper": 0.1 * width} if form == "gap" else {"lower": a + 0.4 * width, "upper": a + 0.6 * width}
        )
        bound = CertifiedBound(sense="", **sides)
        if form == "gap":
            bound = CertifiedBound(subgroup="gap", subgroups=("a", "b"), **sides)
        found = Bets(sums=np.zeros((len(shares), 3))).add(bound, [sample(each, a, b) for each in shares])
        evidence.append(found.value)
    assert evidence[0] == pytest.approx(evidence[1])
    assert evidence[0] > 1.5  # both claims are broken


@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize("claimed", [0.2, 0.5, 0.9])
def test_bets_on_a_ratio_of_sums_count_rows_of_the_denominator_alone(claimed, side):
    """Rows without weight in the denominator are no bet: the evidence is that of the other rows."""
    rng = np.random.default_rng(2)
    among = (rng.random(120) < 0.6).astype(float)
    top = among * (rng.random(120) < 0.5)
    bound = CertifiedBound(sense="≤" if side == "upper" else "≥", **{side: claimed})
    of_sums = Bets().add(bound, [Sample(None, np.arange(120), top, 0.0, 1.0, among)])
    of_mean = Bets().add(bound, [sample(top[among > 0])])
    assert of_sums.value == pytest.approx(of_mean.value)
    assert of_sums.sums[0, 1:] == pytest.approx([among.sum(), top.sum()])
    assert (of_sums.value > 20) == ((side, claimed) in {("upper", 0.2), ("lower", 0.9)})
