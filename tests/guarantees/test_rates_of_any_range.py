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
from tailboost.guarantees.bets import Bets
from tailboost.guarantees.certificates import CertifiedBound
from tailboost.rates import Sample
from tailboost.rates.bounds import betting_upper, clopper_pearson_upper

# Wrong and right answers cost so much.
EITHER = [(-1.0, 1.0), (0.0, 2.0), (2.0, 5.0), (0.0, 0.5)]


def by_error(low, high, by=None):
    return rates.cost([[low, high], [high, low]], by=by)


def sample(shares, low=0.0, high=1.0):
    """Return a sample whose values are shares in [0, 1], moved and stretched to a range."""
    return Sample(None, np.arange(len(shares)), low + (high - low) * shares, low, high, np.ones(len(shares)))


def shares_of(kind, n, rng):
    return (rng.random(n) < 0.1).astype(float) if kind == "counts" else rng.beta(1, 6, n)


UPPER = {
    "counts": lambda shares, level: clopper_pearson_upper(round(shares.sum()), len(shares), level),
    "parts": betting_upper,
}
EACH_BOUND = pytest.mark.parametrize("kind", UPPER)


@EACH_BOUND
def test_each_bound_on_a_mean_falls_with_rows_whatever_their_order(kind):
    """A bound may be 1 for a few rows, as that of Hoeffding is."""
    of_rows, rng = UPPER[kind], np.random.default_rng(0)
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
@pytest.mark.parametrize("n", [1, 2, 5])
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


def answered(n, error, seed):
    """Return labels, answers and groups of n rows per group with the stated probability of an error."""
    rng, n_groups = np.random.default_rng(seed), len(error)
    y = rng.integers(2, size=n * n_groups)
    wrong = rng.random(n * n_groups) < np.repeat(error, n)
    return y, np.where(wrong, 1 - y, y), {"g": np.repeat(list("abc")[:n_groups], n)}


def rarely(failures, draws, allowed=0.05):
    """Fail if a probability of at most ``allowed`` is rejected at .001."""
    assert binomtest(failures, draws, allowed, alternative="greater").pvalue >= 0.001, (failures, draws)


@pytest.mark.parametrize(
    ("low", "high", "sense"), [(*each, ("<=", ">=")[i in (1, 2)]) for i, each in enumerate(EITHER)]
)
def test_a_cost_at_its_limit_is_rarely_certified(low, high, sense):
    """The truth is at the limit, so that every certificate is false."""
    error, draws = 0.1, 100
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


@pytest.mark.parametrize(("low", "high"), EITHER)
@pytest.mark.parametrize("form", ["mean", "gap"])
def test_bets_on_costs_are_those_on_shares(form, low, high):
    """The evidence of a claim does not change with the unit of the costs."""
    rng = np.random.default_rng(1)
    shares = [rng.beta(1, 3, 50), rng.beta(2, 2, 70)][: 1 + (form == "gap")]
    evidence = []
    for a, b in [(0.0, 1.0), (low, high)]:
        width = b - a
        sides = {"lower": a + 0.4 * width, "upper": a + 0.6 * width}
        bound = CertifiedBound(sense="", **sides)
        if form == "gap":
            bound = CertifiedBound(subgroup="gap", subgroups=("a", "b"), upper=0.1 * width)
        found = Bets(bound).add([sample(each, a, b) for each in shares])
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
    of_sums = Bets(bound).add([Sample(None, np.arange(120), top, 0.0, 1.0, among)])
    of_mean = Bets(bound).add([sample(top[among > 0])])
    assert of_sums.value == pytest.approx(of_mean.value)
    assert of_sums.sums[0, 1:] == pytest.approx([among.sum(), top.sum()])
    assert (of_sums.value > 20) == ((side, claimed) in {("upper", 0.2), ("lower", 0.9)})
