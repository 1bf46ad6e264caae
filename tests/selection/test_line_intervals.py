"""The intervals of a table of rates, against exact ones and against many draws of rows."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from tailboost import rates
from tailboost.rates import Counts
from tailboost.selection.table import REFIT, RateTable

COST = rates.cost([[0.0, 1.0], [20.0, 0.0]])


def exact(errors, n):
    interval = binomtest(int(errors), int(n)).proportion_ci(0.95, method="exact")
    return interval.low, interval.high


def counted_on(stated, answered, refit=False):
    counts = answered.counts(answered.actions)
    return RateTable.counted(stated, answered.strata, counts, "rows", spread=lambda _: REFIT * refit)


@pytest.fixture(scope="module")
def counted():
    rng, n = np.random.default_rng(0), 500
    group, y = np.where(rng.random(n) < 0.3, "b", "a"), rng.integers(0, 2, n)
    return y, np.where(rng.random(n) < 0.25, 1 - y, y), {"group": group}


@pytest.mark.parametrize("refit", [False, True])
def test_arms_are_exact_and_those_of_subgroups_longer_by_a_refit(counted, refit):
    y, answers, groups = counted
    stated = {
        "error": (rates.error(), answers != y, np.ones(len(y), bool)),
        "error of a": (rates.error(by="group"), answers != y, groups["group"] == "a"),
        "miss": (rates.miss(1), answers != 1, y == 1),
        "precision": (rates.precision(1), y == 1, answers == 1),
        "selected of b": (rates.selected(1, by="group"), answers == 1, groups["group"] == "b"),
    }
    for name, (rate, event, among) in stated.items():
        limits = [rate <= 1.0] if name != "error" else []
        table = counted_on([rates.error(), *limits], Counts.answered(y, answers, groups=groups), refit)
        unit = name.split()[-1] if " of " in name else None
        (line,) = [
            x for x in table if x.rate == str(rate) and x.subgroup == unit and bool(x.limit) == bool(limits)
        ]
        k, n = event[among].sum(), among.sum()
        assert (line.value, line.rows) == pytest.approx((k / n, n))
        more = 1.96 * 0.015 * (refit and name != "error")
        less, beyond = (np.hypot(abs(end - k / n), more) for end in exact(k, n))
        assert (line.low, line.high) == pytest.approx((k / n - less, k / n + beyond), abs=1e-6), name


def test_weights_count_by_their_effective_number(counted):
    y, answers, groups = counted
    weight = np.where(groups["group"] == "a", 1.0, 3.0) * np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    answered = Counts.answered(y, answers, groups=groups, sample_weight=weight)
    (line,) = counted_on([rates.error()], answered)
    n = weight.sum() ** 2 / (weight**2).sum()
    assert line.rows == pytest.approx(n)
    error = np.average(answers != y, weights=weight)
    # Clopper-Pearson by its definition, with counts that are no whole numbers.
    assert line.low == pytest.approx(beta.ppf(0.025, error * n, n - error * n + 1), abs=1e-6)
    assert line.high == pytest.approx(beta.ppf(0.975, error * n + 1, n - error * n), abs=1e-6)


def test_the_interval_of_weighted_rows_holds_the_true_rate():
    """The largest weights are 200 times the smallest, so 300 rows tell as much as 112 of equal weight."""
    rng, missed = np.random.default_rng(2), 0
    for _ in range(200):
        y = rng.integers(0, 2, 300)
        answers = np.where(rng.random(300) < 0.2, 1 - y, y)
        weight = np.exp(rng.uniform(0.0, np.log(200.0), 300))
        answered = Counts.answered(y, answers, sample_weight=weight)
        (line,) = counted_on([rates.error()], answered)
        missed += not line.low <= 0.2 <= line.high
    assert missed <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)


def test_where_no_honest_interval_is_known_there_is_none_and_the_reason():
    rng = np.random.default_rng(0)
    group = np.repeat(["many", "more", "few"], [200, 300, 9])
    y = rng.integers(0, 2, len(group))
    answers = np.where(rng.random(len(y)) < 0.2, 1 - y, y)
    answered = Counts.answered(y, answers, groups={"group": group})
    selected = rates.selected(1, by="group")
    table = counted_on([selected, rates.gap(selected) <= 0.5], answered)
    none = {line.subgroup for line in table if np.isnan(line.low)}
    assert none == {"few", "gap"}
    costs = rng.random((len(y), 2))
    of_rows = Counts.answered(y, answers, costs=costs)
    table = counted_on([rates.cost()], of_rows)
    assert np.isnan(next(iter(table)).low)
    assert "interval" not in str(table)


def drawn(rng, n, share=(0.5, 0.5), error=(0.1, 0.3)):
    y = rng.choice(2, n, p=share)
    return y, np.where(rng.random(n) < np.array(error)[y], 1 - y, y)


def test_the_interval_of_a_mean_cost_holds_the_true_one():
    rng, missed, widths = np.random.default_rng(1), 0, []
    truth = 0.5 * 0.1 * 1.0 + 0.5 * 0.3 * 20.0
    for _ in range(400):
        y, answers = drawn(rng, 200)
        (line,) = counted_on([COST], Counts.answered(y, answers))
        missed += not line.low <= truth <= line.high
        widths.append(line.high - line.low)
    assert missed <= 400 * 0.05 + 2 * np.sqrt(400 * 0.05 * 0.95)
    # A bounded mean alone would be as uncertain as a share of 20, which is about as wide here.
    assert np.mean(widths) < 20 * 2 * 1.96 * np.sqrt(truth / 20 * (1 - truth / 20) / 200) * 1.2


@pytest.mark.parametrize("n", [12, 40, 300])
def test_the_interval_of_a_mean_cost_is_that_of_as_many_binomial_rows(n):
    """A share of as many rows of cost 0 or 20 has the same variance, with one more row of the largest one."""
    y, answers = np.arange(n) % 2, np.where(np.arange(n) % 6 == 0, 1, np.arange(n) % 2)
    answers[1] = 0  # one miss
    (line,) = counted_on([COST], Counts.answered(y, answers))
    costs = np.array([[0.0, 1.0], [20.0, 0.0]])[y, answers]
    p, largest = costs.mean() / 20, costs.mean() * (20 - costs.mean())
    variance = (((costs - costs.mean()) ** 2).sum() + largest) / (n + 1)
    rows = n * largest / variance
    assert line.low == pytest.approx(20 * beta.ppf(0.025, p * rows, (1 - p) * rows + 1), rel=1e-6)
    assert line.high == pytest.approx(20 * beta.ppf(0.975, p * rows + 1, (1 - p) * rows), rel=1e-6)


@pytest.mark.parametrize("sizes", [(400, 300), (60, 100, 150, 700, 600, 500)])
@pytest.mark.parametrize("true", [0.3, None], ids=["alike", "apart"])
@pytest.mark.slow
def test_the_interval_of_a_gap_or_ratio_holds_the_true_one_of_all_groups(sizes, true):
    """Also where a group of few rows, neither largest nor least on these rows, is the least in truth."""
    rng = np.random.default_rng(len(sizes))
    share = np.full(len(sizes), true) if true else np.linspace(0.22, 0.35, len(sizes))
    group = np.repeat(np.arange(len(sizes)), sizes)
    y, selected = rng.integers(0, 2, len(group)), rates.selected(1, by="group")
    limits = [rates.ratio(selected) >= 0.8, rates.gap(selected) <= 0.1]
    truth = {"ratio": share.min() / share.max(), "gap": np.ptp(share)}
    missed = Counter()
    for _ in range(200):
        answers = (rng.random(len(group)) < share[group]).astype(int)
        answered = Counts.answered(y, answers, groups={"group": group})
        table = counted_on(limits, answered)
        for line in table:
            if line.subgroup in truth:
                missed[line.subgroup] += not line.low <= truth[line.subgroup] <= line.high
                assert line.low <= line.value <= line.high
    assert max(missed.values(), default=0) <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)
