"""Numbers of calibration rows: against simulated tests, simulated thresholds and binomial tails."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom

import tailboost as tb
from tailboost import rates
from tailboost.rates.pair_test import NUISANCE, pair_p_value

LEVEL = 0.05 * 0.9  # of a first attempt


def passing(n, rate, bound, level):
    """Return the probability that an exact binomial test certifies a bound, by brute force."""
    counts = np.arange(n + 1)
    certified = binom.cdf(counts, n, bound) <= level
    return binom.pmf(counts[certified], n, rate).sum()


@pytest.mark.parametrize(("rate", "bound"), [(0.1, 0.2), (0.0, 0.05), (0.22, 0.25)])
def test_a_limit_from_above_needs_the_rows_of_the_binomial_test(rate, bound):
    needed = tb.rows_needed(rates.error() <= bound, rate)
    assert needed.level == pytest.approx(LEVEL)
    assert passing(needed.total, rate, bound, LEVEL) >= 0.8 > passing(needed.total - 1, rate, bound, LEVEL)


def test_a_precision_counts_its_own_rows_and_their_share_counts_all():
    alone = tb.rows_needed("precision(1) >= .95", 0.97, confidence=1 - 0.05 / 0.9)
    n = alone.limits[0].rows[None]
    assert passing(n, 0.03, 0.05, 0.05) >= 0.8 > passing(n - 1, 0.03, 0.05, 0.05)
    assert tb.rows_needed("precision(1) >= .95", 0.97, confidence=1 - 0.05 / 0.9, shares=0.1).total == 10 * n


def test_the_printed_rows_say_which_rows_are_counted():
    str(tb.rows_needed("miss(1, by='sex') <= .25", {"f": 0.2, "m": 0.2}))
    with_shares = str(tb.rows_needed("precision(1) >= .95", 0.97, shares=0.1))
    assert "not counted" not in with_shares


def test_more_rows_never_lose_the_power():
    """The power of a test of whole counts rises and falls with the number of rows."""
    needed = tb.rows_needed("error() <= .05", 0.02).total
    assert all(passing(n, 0.02, 0.05, LEVEL) >= 0.8 for n in range(needed, needed + 300))


def test_thresholds_at_ranks_reach_the_expected_misses():
    """Scores of class 1 are uniform, so the rate of misses at a threshold is the threshold."""
    needed = tb.rows_needed("miss(1, by='g') <= .25", {"a": 0.2, "b": 0.15}, shares={"a": 0.1, "b": 0.3})
    (only,) = needed.limits
    assert only.procedure == "ranks"
    assert only.rows["b"] == 3 * only.rows["a"]
    rng, each, reached = np.random.default_rng(0), 1 - (1 - LEVEL) ** 0.5, np.ones(4000, dtype=bool)
    for n, rate in zip(only.rows.values(), (0.2, 0.15), strict=True):
        most = int(np.flatnonzero(binom.cdf(np.arange(n), n, 0.25) <= each).max())
        highest = np.sort(rng.random((4000, n)), axis=1)[:, most]  # at most so many scores are below
        reached &= highest > rate
    assert reached.mean() == pytest.approx(0.8, abs=0.03)


def test_ranks_of_a_gap_are_certified_from_this_number_on():
    """The true rates at ranks are Beta variables; their gap is simulated."""
    needed = tb.rows_needed(
        "gap(selected(1, by='g')) <= .1", {"a": 0.3, "b": 0.35}, confidence=1 - 0.05 / 0.9
    )
    rng = np.random.default_rng(1)

    def kept(n):
        k = [round(q * (n + 1)) for q in (0.3, 0.35)]
        u = [rng.beta(each, n + 1 - each, 200_000) for each in k]
        return (np.abs(u[0] - u[1]) <= 0.1).mean()

    n = needed.limits[0].rows["a"]
    assert needed.limits[0].procedure == "ranks"
    assert 0.949 <= kept(n) <= 0.965  # ranks are whole numbers
    assert kept(n // 2) < 0.93


@pytest.mark.parametrize("limit", ["gap(miss(1, by='g')) <= .15", "ratio(miss(1, by='g')) >= .6"])
@pytest.mark.slow
def test_a_test_of_pairs_passes_as_often_as_stated(limit):
    """A rule that does not read the group has no ranks for a gap, so pairs are tested."""
    expected = {"a": 0.3, "b": 0.32}
    needed = tb.rows_needed(limit, expected, by_group=False, shares={"a": 0.3, "b": 0.15})
    (only,) = needed.limits
    sizes = list(only.rows.values())
    factor, gap = (1.0, 0.15) if "gap" in limit else (0.6, 0.0)
    rng = np.random.default_rng(2)
    passed = 0
    for counts in zip(
        *(rng.binomial(n, r, 400) for n, r in zip(sizes, (0.3, 0.32), strict=True)), strict=True
    ):
        passed += all(
            pair_p_value((counts[i], counts[j]), (sizes[i], sizes[j]), factor=factor, gap=gap, gamma=NUISANCE)
            <= LEVEL
            for i, j in permutations(range(2))
        )
    assert 0.75 <= passed / 400 <= 0.88


def test_several_limits_together_need_more_rows_than_each():
    limits = [rates.miss(1) <= 0.2, rates.false_alarm(1) <= 0.2]
    needed = tb.rows_needed(limits, [0.15, 0.15], shares=[0.5, 0.5])
    assert needed.total > max(each.total for each in needed.limits)
    assert tb.rows_needed(limits, [0.15, 0.15]).total is None
    # Both answers are limited, so their ranks divide the level.
    n = needed.limits[0].rows[None]
    assert passing(n, 0.15, 0.2, LEVEL / 2) >= 0.8 > passing(n - 1, 0.15, 0.2, LEVEL / 2)


def test_both_answers_in_three_groups_divide_the_level_by_six():
    limits = ["miss(1, by=g) <= .25", "false_alarm(1, by=g) <= .3"]
    expected = [dict.fromkeys("abc", 0.2), dict.fromkeys("abc", 0.22)]
    for alone, rate, bound in zip(
        tb.rows_needed(limits, expected).limits, (0.2, 0.22), (0.25, 0.3), strict=True
    ):
        n = alone.rows["a"]
        assert alone.procedure == "ranks"
        assert passing(n, rate, bound, LEVEL / 6) ** 3 >= 0.8 > passing(n - 1, rate, bound, LEVEL / 6) ** 3


@pytest.mark.parametrize("bound", ["precision(1, by=g) >= .7", "error(by=g) <= .3"])
def test_thresholds_of_groups_divide_the_level_and_one_rule_does_not(bound):
    expected = {"a": 0.75, "b": 0.8} if "precision" in bound else {"a": 0.25, "b": 0.2}
    errors = [0.25, 0.2]
    # No answer to all rows of a group keeps its error, so both first thresholds must pass, at the level.
    divided = LEVEL / 2 if "precision" in bound else LEVEL
    for by_group, level in ((True, divided), (False, LEVEL)):
        needed = tb.rows_needed(bound, expected, by_group=by_group)
        n = needed.limits[0].rows["a"]
        both = [np.prod([passing(k, e, 0.3, level) for e in errors]) for k in (n, n - 1)]
        assert both[0] >= 0.8 > both[1]


def test_misses_and_a_precision_of_groups_are_tested_at_the_whole_level():
    """No answer keeps both in a group, so the first thresholds of all groups are one rule (Berger 1982)."""
    limits = ["miss(1, by=g) <= .3", "precision(1, by=g) >= .7"]
    needed = tb.rows_needed(limits, [dict.fromkeys("ab", 0.2), dict.fromkeys("ab", 0.8)])
    for alone in needed.limits:
        n = alone.rows["a"]
        assert passing(n, 0.2, 0.3, LEVEL) ** 2 >= 0.8 > passing(n - 1, 0.2, 0.3, LEVEL) ** 2
    by_ranks = tb.rows_needed(["miss(1) <= .3", "false_alarm(1) <= .3"], [0.2, 0.2])
    assert {alone.procedure for alone in by_ranks.limits} == {"ranks"}


def test_three_classes_and_deferral_are_tested():
    """With one threshold the level is the same, with a group each it is not."""
    assert tb.rows_needed("miss(1, by='g') <= .2", {"a": 0.1}, n_classes=3).limits[0].procedure != "ranks"
    assert tb.rows_needed("answered_error() <= .1", 0.05).limits[0].procedure != "ranks"


@pytest.mark.parametrize(
    ("limits", "expected", "options", "message"),
    [
        ("error() <= .2", 0.2, {}, "number"),
        ("precision(1) >= .9", 0.8, {}, "number"),
        ("gap(miss(1, by='g')) <= .1", {"a": 0.1, "b": 0.3}, {}, "number"),
        ("miss(1, by='g') <= .2", 0.1, {}, "subgroups"),
        ("miss(1, by='g') <= .2", {"a": 0.1}, {"shares": {"b": 0.1}}, "missing"),
        ("error() <= .2", 0.1, {"shares": 0.0}, "above"),
        ("error() <= .2", 0.1, {"power": 1.0}, "power"),
        ("f_score(1) >= .5", 0.6, {}, "mean"),
        (["error() <= .2", "miss(1) <= .2"], [0.1], {}, "entries"),
        (["error() <= .2", "miss(1) <= .2"], 0.1, {}, "entry"),
        ([], [], {}, "limit"),
    ],
)
def test_bad_requests_name_the_fault(limits, expected, options, message):
    with pytest.raises(ValueError, match=message):
        tb.rows_needed(limits, expected, **options)


def test_names_for_a_limit_without_subgroups_are_refused():
    with pytest.raises(ValueError, match="subgroups"):
        tb.rows_needed("miss(1) <= .1", {"miss(1)": 0.05})


def test_a_ratio_of_rates_of_0_needs_more_rows_than_there_are():
    limit = rates.ratio(rates.selected(1, by="g")) >= 0.6
    with pytest.raises(ValueError, match="thousand"):
        tb.rows_needed([limit], {"a": 0.0, "b": 0.0})
