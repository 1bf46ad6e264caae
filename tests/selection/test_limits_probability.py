"""The probability of limits on new rows, compared with closed forms and with draws of new true rates."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

import tailboost as tb
from tailboost import rates
from tailboost.rates import Answered
from tailboost.selection.intervals import REFIT, limits_probability

# Standard errors of the simulated probability.
CLOSE = 3 * np.sqrt(0.25 / 2000)


def answered(errors, sizes):
    """Return rows of groups of which so many are answered 1, the labels being 0."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    answers = np.concatenate([(np.arange(n) < k).astype(int) for k, n in zip(errors, sizes, strict=True)])
    return Answered.from_arrays(np.zeros(len(group), int), answers, groups={"g": group}, labels=[0, 1])


def probability(limits, errors, sizes, *, refit=False):
    rows = answered(errors, sizes)
    return limits_probability(limits, rows.strata, rows.counts, REFIT * refit)


def deviation(k, n):
    """Return the standard error of a share with a pseudo-row of each kind, of 1.25 binomial variances."""
    p = (k + 1) / (n + 2)
    return np.sqrt(1.25 * p * (1 - p) / n)


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("bound", [0.18, 0.2, 0.22, 0.26])
def test_one_rate_is_normal(bound, refit):
    limit = [rates.selected(1, by="g") <= bound]
    found = probability(limit, [80], [400], refit=refit)
    spread = np.hypot(deviation(80, 400), 0.015 * refit)
    assert found == pytest.approx(norm.cdf((bound - 0.2) / spread), abs=CLOSE)
    overall = probability([rates.error() <= bound], [80], [400], refit=refit)  # no noise of a refit
    assert overall == pytest.approx(norm.cdf((bound - 0.2) / deviation(80, 400)), abs=CLOSE)


def test_a_gap_is_the_difference_of_two_rates_and_a_refit_moves_both():
    for refit in (False, True):
        found = probability([rates.gap(rates.selected(1, by="g")) <= 0.05], [80, 60], [400, 250], refit=refit)
        spread = np.hypot(deviation(80, 400), deviation(60, 250))
        expected = norm.cdf((0.05 + 0.04) / spread) - norm.cdf((-0.05 + 0.04) / spread)
        assert found == pytest.approx(expected, abs=CLOSE)


def test_a_ratio_of_two_rates():
    found = probability([rates.ratio(rates.selected(1, by="g")) >= 0.8], [80, 60], [400, 250])
    a, b = deviation(80, 400), deviation(60, 250)
    less = norm.cdf((0.8 * 0.24 - 0.2) / np.hypot(a, 0.8 * b)) + norm.cdf(
        (0.8 * 0.2 - 0.24) / np.hypot(0.8 * a, b)
    )
    assert found == pytest.approx(1 - less, abs=CLOSE)


def test_limits_on_the_same_rows_hold_together():
    """Twice the same limit is one limit; of two groups the probabilities are multiplied."""
    share = rates.selected(1, by="g")
    once = probability([share <= {0: 0.21}], [80, 60], [400, 250])
    twice = probability([share <= {0: 0.21}, rates.error(by="g") <= {0: 0.21}], [80, 60], [400, 250])
    assert twice == once
    both = probability([share <= {0: 0.21, 1: 0.25}], [80, 60], [400, 250])
    other = probability([share <= {1: 0.25}], [80, 60], [400, 250])
    assert both == pytest.approx(once * other, abs=CLOSE)


def test_overall_and_group_rates_are_correlated():
    limits = [rates.error() <= 0.22, rates.error(by="g") <= {0: 0.22}]
    found = probability(limits, [80, 60], [400, 250])
    a, b = deviation(80, 400) ** 2, deviation(60, 250) ** 2
    w = np.array([400, 250]) / 650
    covariance = [[w[0] ** 2 * a + w[1] ** 2 * b, w[0] * a], [w[0] * a, a]]
    error = 140 / 650
    expected = multivariate_normal([0, 0], covariance).cdf([0.22 - error, 0.22 - 0.2])
    assert found == pytest.approx(
        expected, abs=2 * CLOSE
    )  # the probability includes other sizes of groups on new rows


def test_a_rule_that_decides_its_rates_is_certain():
    """All rows of all groups get the same answer: the gap is 0 on any rows."""
    found = probability([rates.gap(rates.selected(1, by="g")) <= 0.0], [400, 250], [400, 250])
    assert found == 1.0
    rows = answered([80], [400])
    assert limits_probability([], rows.strata, rows.counts) is None
    costs = Answered.from_arrays([0, 1, 0, 1], [0, 1, 1, 1], costs=np.eye(4)[:, :2])
    assert limits_probability([rates.cost() <= 1.0], costs.strata, costs.counts) is None


def test_stated_probabilities_are_kept_by_equally_likely_truths():
    """Truths are uniform, rows binomial. Of rules with a probability of p, about p or more keep the limit."""
    rng = np.random.default_rng(0)
    said, held = [], []
    for _ in range(600):
        truth = rng.uniform(0.1, 0.4, size=2)
        counts = rng.binomial([200, 120], truth)
        found = probability([rates.gap(rates.selected(1, by="g")) <= 0.1], counts, [200, 120])
        said.append(found)
        held.append(abs(truth[0] - truth[1]) <= 0.1)
    said, held = np.array(said), np.array(held)
    for low, high in ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)):
        inside = (said >= low) & (said < high)
        noise = 3 * np.sqrt(0.25 / inside.sum())
        assert said[inside].mean() - noise <= held[inside].mean() <= said[inside].mean() + noise + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1033, 1048])
def test_within_limits_with_little_room_no_probability_is_stated(seed):
    """On these rows the miss rate is counted far below the true one: the probability would be too high."""
    rng = np.random.default_rng(seed)
    rng.integers(0, 1, 500)
    positive = rng.random(500) < 0.3
    scores = expit(rng.normal(size=500) + 1.5 * positive - 1.0)
    limits = [rates.miss("yes") <= 0.1, rates.deferred() <= 0.2, rates.false_alarm("yes") <= 0.35]
    clf = tb.tune(
        tb.Scores(0, "yes"),
        scores[:, None],
        np.where(positive, "yes", "no"),
        limits=limits,
        confidence=0.9,
    )
    assert clf.limits_met_
    assert clf.limits_probability_ is None
    assert all(np.isnan(line.low) for line in clf.rates_)
    assert "the limits leave little room" in str(clf.rates_)
    z = norm.ppf((np.arange(10_000) + 0.5) / 10_000)  # the truth is a grid of quantiles
    assert (clf.rule_.predict(expit(z + 0.5)) == "no").mean() > 0.1
