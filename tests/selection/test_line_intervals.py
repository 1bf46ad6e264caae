"""The intervals of a table of rates, against exact ones and against many draws of rows."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import beta, binomtest

from tailboost import RobustMixtureClassifier, rates
from tailboost.rates import Counts
from tailboost.selection.table import REFIT, RateTable

COST = rates.cost([[0.0, 1.0], [20.0, 0.0]])


def exact(errors, n):
    interval = binomtest(int(errors), int(n)).proportion_ci(0.95, method="exact")
    return interval.low, interval.high


def counted_on(stated, answered, refit=False, clusters=None):
    counts, products = answered.counts(answered.actions), answered.products(answered.actions, clusters)
    about = {"spread": lambda _: REFIT * refit, "products": products}
    return RateTable.counted(stated, answered.strata, counts, "rows", **about)


@pytest.fixture(scope="module")
def counted():
    rng, n = np.random.default_rng(0), 500
    group, y = np.where(rng.random(n) < 0.3, "b", "a"), rng.integers(0, 2, n)
    return y, np.where(rng.random(n) < 0.25, 1 - y, y), {"group": group}


@pytest.mark.parametrize("refit", [False, True])
def test_arms_are_exact_and_those_of_subgroups_longer_by_a_refit(counted, refit):
    y, answers, groups = counted
    stated = {
        ("error", None): (rates.error(), answers != y, np.ones(len(y), bool)),
        ("error", "a"): (rates.error(by="group"), answers != y, groups["group"] == "a"),
        ("miss", None): (rates.miss(1), answers != 1, y == 1),
        ("precision", None): (rates.precision(1), y == 1, answers == 1),
        ("selected", "b"): (rates.selected(1, by="group"), answers == 1, groups["group"] == "b"),
    }
    for (name, unit), (rate, event, among) in stated.items():
        is_overall = rate == rates.error()
        limits = [] if is_overall else [rate <= 1.0]
        table = counted_on([rates.error(), *limits], Counts.answered(y, answers, groups=groups), refit)
        of_rate = [x for x in table if x.rate == str(rate) and x.subgroup == unit]
        (line,) = [x for x in of_rate if bool(x.limit) == bool(limits)]
        k, n = event[among].sum(), among.sum()
        assert (line.value, line.rows) == pytest.approx((k / n, n))
        more = 1.96 * 0.015 * (refit and not is_overall)
        less, beyond = (np.hypot(abs(end - k / n), more) for end in exact(k, n))
        assert (line.low, line.high) == pytest.approx((k / n - less, k / n + beyond), abs=1e-6), name


@pytest.mark.parametrize("has_clusters", [False, True])
def test_weights_that_go_with_errors_count_by_a_standard_error(counted, has_clusters):
    """The squares of sums over rows or clusters by a loop, in Clopper-Pearson by its definition."""
    y, answers, groups = counted
    wrong, of_a, rng = answers != y, groups["group"] == "a", np.random.default_rng(1)
    weight = np.where(wrong | (y == 0), 3.0, 1.0) * rng.uniform(0.2, 2.0, len(y))
    cluster = np.where(rng.random(len(y)) < 0.2 * has_clusters, 0, np.arange(len(y)))
    answered = Counts.answered(y, answers, groups=groups, sample_weight=weight)
    table = counted_on([rates.error(), COST, rates.miss(1, by="group")], answered, clusters=cluster)
    of_lines = [(wrong, y >= 0, 1), (np.array(COST.matrix)[y, answers] / 20, y >= 0, 20)]
    of_lines += [(wrong, of_a & (y == 1), 1), (wrong, ~of_a & (y == 1), 1)]
    for line, (value, among, high) in zip(table, of_lines, strict=True):
        p, sums = np.average(value[among], weights=weight[among]), Counter()
        for i in np.flatnonzero(among):
            sums[cluster[i]] += weight[i] * (value[i] - p)
        variance = sum(each**2 for each in sums.values()) / weight[among].sum() ** 2
        # As that of a binomial share; one more row has the largest variance.
        n = (line.rows + 1) / (line.rows * variance / (p * (1 - p)) + 1 / line.rows)
        assert line.low == pytest.approx(high * beta.ppf(0.025, p * n, n - p * n + 1), rel=1e-6)
        assert line.high == pytest.approx(high * beta.ppf(0.975, p * n + 1, n - p * n), rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_selected_rules_of_weighted_rows_state_such_intervals(n_classes):
    rng = np.random.default_rng(3)
    y, limit = rng.integers(0, n_classes, 400), rates.miss(1) <= 0.3
    P = softmax(rng.normal(2.0 * np.eye(n_classes)[y]), axis=1)
    weight = np.where(P.max(axis=1) < 0.7, 10.0, 1.0)
    clf = RobustMixtureClassifier.from_probabilities({"m": P}, y, sample_weight=weight, limits=[limit])
    answered = Counts.answered(y, clf.predict({"m": P}), sample_weight=weight)
    for stated, line in zip(clf.rates_, counted_on([rates.error(), limit], answered), strict=True):
        assert (stated.low, stated.high) == pytest.approx((line.low, line.high))


@pytest.mark.parametrize("has_clusters", [False, True])
def test_intervals_of_weights_and_of_clusters_that_err_more_hold_the_true_rates(has_clusters):
    """One of 50 counts 20 times, by its weight or by its rows, and errs in half of the cases."""
    rng, missed = np.random.default_rng(2), Counter()
    error = (0.98 * 0.05 + 0.4 * 0.5) / (0.98 + 0.4)
    truth = {rates.error(): error, rates.miss(1): error, COST: error * (1.0 + 20.0) / 2.0}
    for _ in range(200):
        is_hard = rng.random(2000) < 0.02
        times = np.where(is_hard, 20, 1)
        unit = np.arange(2000).repeat(times if has_clusters else 1)
        y = rng.integers(0, 2, len(unit))
        answers = np.where(rng.random(len(unit)) < np.where(is_hard, 0.5, 0.05)[unit], 1 - y, y)
        answered = Counts.answered(y, answers, sample_weight=None if has_clusters else times)
        table = counted_on([*truth], answered, clusters=unit)
        for line, true in zip(table, truth.values(), strict=True):
            missed[line.rate] += not line.low <= true <= line.high
    assert max(missed.values()) <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)


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
