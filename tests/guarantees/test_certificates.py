"""Certificates against exact numbers and brute force, messages, and calibrated targets."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from conftest import refused
from scipy.stats import beta, binom, binomtest

import tailboost as tb
from tailboost.guarantees import rate_bounds
from tailboost.guarantees.bets import Wealth
from tailboost.guarantees.exact_tests import all_pairs_pass
from tailboost.guarantees.fresh import Fresh
from tailboost.rates.bounds import (
    betting_p_value,
    betting_upper,
    clopper_pearson_interval,
    clopper_pearson_upper,
)
from tailboost.rows import Rows


@pytest.mark.parametrize(("n", "method"), [(0, "ranks"), (5, "one answer")])
def test_a_limit_without_rows_or_with_one_answer_is_kept_by_construction(n, method):
    bound = tb.CertifiedBound(target=0.3, estimate=0.0, n=n, method=method)
    assert bound.at_target("ranks").reason == "no answer of the rule there can break it"


@pytest.mark.parametrize(("errors", "n"), [(0, 5), (3, 30), (29, 30), (30, 30), (120, 1000)])
def test_clopper_pearson_is_scipys(errors, n):
    upper = binomtest(errors, n, alternative="less").proportion_ci(0.98).high
    assert clopper_pearson_upper(errors, n, 0.02) == pytest.approx(upper, abs=1e-12)
    if errors < n:
        assert binom.cdf(errors, n, upper) == pytest.approx(0.02)


def test_no_rows_and_lost_bets_say_nothing():
    assert betting_p_value([], 0.2) == 1
    assert betting_p_value(np.full(400, 0.9), 0.001) == 1  # nearly all wealth is lost


def brute_wealth(losses, m, n, delta):
    """Direct computation of the mixture of bets, row by row; m determines the smallest stake."""
    L, factors = np.log(1 / delta), np.sqrt(2.0) ** np.arange(21)
    stakes = np.minimum(np.sqrt(1.5 * L * (1 - m) / (n * m)) * factors, 1.0)
    weights, log_wealth = (1 / factors) / (1 / factors).sum(), np.zeros(len(stakes))
    for loss in losses:
        log_wealth += np.log(1 - stakes + stakes * (1 - loss) / (1 - m))
    return weights @ np.exp(np.minimum(log_wealth, 600))


@pytest.mark.parametrize("n", [4, 25, 200])
@pytest.mark.parametrize("delta", [0.2, 0.01])
def test_betting_excludes_every_larger_mean_and_no_smaller_one(n, delta):
    losses = np.random.default_rng(n).beta(0.4, 1.5, n)
    upper = betting_upper(losses, delta)
    assert 1 / brute_wealth(losses, upper, n, delta) == pytest.approx(delta, rel=1e-5)
    for m in np.linspace(upper + 1e-6, 0.98, 50):
        assert brute_wealth(losses, m, n, delta) >= 1 / delta
        assert betting_p_value(losses, m, delta) == pytest.approx(1 / brute_wealth(losses, m, n, delta))
    assert betting_p_value(losses, losses.mean(), delta) > delta


def test_betting_knows_small_variances():
    losses = np.tile([0.2, 0.25, 0.3, 0.25], 100)
    assert betting_upper(losses) < 0.27 < losses.mean() + np.sqrt(np.log(20) / 800)  # Hoeffding's
    zeros = np.zeros(40)
    assert betting_upper(zeros) == pytest.approx(clopper_pearson_upper(0, 40), abs=1e-9)
    assert betting_upper(np.ones(40)) == 1.0
    fine = np.random.default_rng(0).random(40_000)
    assert fine.mean() < betting_upper(fine) < fine.mean() + np.sqrt(np.log(20) / 80_000) + 0.002


def test_wealth_of_bets_is_a_fair_game():
    """Over all outcomes of three rows the mean wealth is 1 under a true bound."""
    p, outcomes = 0.3, np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    mass = (p**outcomes * (1 - p) ** (1 - outcomes)).prod(axis=1)
    wealth = [Wealth(p).add(o).value for o in outcomes]
    assert mass @ wealth == pytest.approx(1.0)
    assert mass @ [1 / max(betting_p_value(o, p), 1e-300) for o in outcomes] >= 1.0  # they are capped at 1
    for first in (1, 2):  # batches bring more into play, and the game stays fair
        parts = [Wealth(p).add(o[:first]).add(o[first:]) for o in outcomes]
        assert mass @ [part.value for part in parts] == pytest.approx(1.0)
        assert {part.batches for part in parts} == {2}
    assert Wealth(p).add([]).value == 1.0
    assert Wealth(0.0).add([0, 0]).value == pytest.approx(1.0, abs=0.1)
    assert Wealth(0.0).add([0, 1]).value == np.inf


def test_a_later_change_is_found_as_an_early_one():
    """Early losses of the bets do not hide a later rise of the mean."""
    good, bad = np.repeat([1.0, 0.0], [30, 170]), np.repeat([1.0, 0.0], [60, 140])
    evidence = Wealth(0.2)
    for _ in range(6):
        evidence = evidence.add(good)
    later = evidence.add(bad).add(bad)
    assert later.value > 60
    direct = sum(  # direct computation of the game, start by start
        np.prod([1 + c * (loss / 0.2 - 1) for loss in np.r_[good.repeat(6 - j), bad, bad]])
        / (j + 1)
        / (j + 2)
        for j in range(6)
        for c in 2.0 ** (-0.5 * np.arange(21))
    )
    ends = sum(
        np.prod(1 + c * (np.tile(bad, k) / 0.2 - 1)) / (9 - k) / (10 - k)
        for k in (2, 1)
        for c in 2.0 ** (-0.5 * np.arange(21))
    )
    assert later.value == pytest.approx((direct + ends) / 21 + 1 / 9)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_interval_of_a_count_is_that_of_scipys_exact_test(confidence):
    for k, n in ((0, 1), (0, 12), (3, 10), (17, 40), (200, 200), (250, 1000)):
        low, high = clopper_pearson_interval(k / n, n, confidence)
        exact = binomtest(k, n).proportion_ci(confidence, method="exact")
        assert (float(low), float(high)) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_each_end_of_an_interval_fails_with_at_most_half_of_the_rest():
    """Over all counts of 40 rows, for a fine grid of rates; near some of them it fails almost as often."""
    k, n = np.arange(41), 40
    low, high = clopper_pearson_interval(k / n, np.full(41, n), 0.9)
    failures = []
    for p in np.linspace(0.005, 0.995, 199):
        chances = binom.pmf(k, n, p)
        failures.append((chances[low > p].sum(), chances[high < p].sum()))
    assert np.max(failures) <= 0.05
    assert (np.max(failures, axis=0) > 0.04).all()


def test_answers_that_do_not_fit():
    three = {"probabilities": np.full((3, 2), 0.5), "answers": [0, 1], "^model": np.zeros((3, 2, 2))}
    for words, answers in three.items():
        refused(lambda: tb.certify(answers, None, [0, 1, 2]), words)


@pytest.mark.parametrize(("asked", "part"), [
    ({"limits": ["miss(1) <= 50%", "false_alarm(1) <= 50%"]}, 0.05 / 2),
    ({"limits": ["miss(1) <= 50%", "false_alarm(1) <= 50%", "error <= 50%"]}, 0.05 / 3),
    ({"rates": ["miss(1)", "false_alarm(1)"]}, 0.05 / 4),
])  # fmt: skip
def test_bounds_divide_the_level_evenly(asked, part):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    answers = np.where(rng.random(400) < 0.2, 1 - y, y)
    certificate = tb.certify(answers, None, y, **asked)
    for bound, label in zip(certificate.bounds, (1, 0), strict=False):
        wrong, n = int(((answers != y) & (y == label)).sum()), int((y == label).sum())
        assert bound.upper == pytest.approx(beta.ppf(1 - part, wrong + 1, n - wrong), abs=1e-9)


@pytest.mark.parametrize("groups", [None, np.array(["a", "b"])[np.arange(400) % 2]])
def test_kinds_of_errors_divide_the_level_evenly(groups):
    rng = np.random.default_rng(0)
    y, wrong = rng.integers(0, 2, 400), rng.random(400) < 0.2
    certificate = tb.certify(np.where(wrong, 1 - y, y), None, y, groups=groups)
    level = 0.05 / (2 if groups is None else 4)
    for bound, rows, part in zip(certificate.bounds, (y >= 0, y == 0, y == 1), (1, 2, 2), strict=False):
        exact = beta.ppf(1 - level / part, wrong[rows].sum() + 1, (~wrong[rows]).sum())
        assert bound.upper == pytest.approx(exact, abs=1e-9)
        assert bound.limit_line.numbers.endswith(f", bound ≤ {np.ceil(100 * exact) / 100:.2f}")


@pytest.mark.parametrize("confidence", [0.95, 0.8])
@pytest.mark.parametrize(("missed", "n"), [(0, 1), (0, 13), (1, 20), (7, 100), (18, 200)])
def test_rows_needed_are_near_those_of_the_exact_test(missed, n, confidence):
    y = np.repeat([1, 0], [n, 100])
    answers = y * (np.arange(n + 100) >= missed)
    (bound,) = tb.certify(answers, None, y, limits=["miss(1) <= 10%"], confidence=confidence).bounds
    planned = {"confidence": 1.0 - (1.0 - confidence) / 0.9}  # an attempt has .9 of the level
    ((of_all,),) = [each.values() for each in tb.rows_needed("miss(1) <= 10%", missed / n, **planned).rows]
    ((rare,),) = [each.values() for each in tb.rows_needed("error() <= .001", 0.0009, shares=1.0).rows]
    assert 500_000 < rare < 700_000  # (1.65 √.001 + .84 √.0009)² / .0001² = 600,000
    assert of_all <= bound.rows_needed <= 1.8 * of_all
    assert tb.rows_needed("miss(1) <= 10%", missed / n, shares=1e-4, **planned).rows == [{None: of_all}]
    by_sex = tb.rows_needed(tb.rates.miss(1, by="sex") <= {"f": 0.1}, {"f": missed / n, "m": 0.5}, **planned)
    assert by_sex.rows == [{"f": of_all}]  # m has no limit
    refused(lambda: tb.rows_needed("miss(1) <= 10%", missed / n, shares=0), "shares")


@pytest.mark.parametrize("limit", ["gap(error(by=g)) <= 5%", "error(by=g) <= 5%"])
def test_rates_too_near_their_limit_have_no_practical_number_of_rows(limit):
    for rate, words in ((0.05 - 1e-7, "no practical number"), (0.06, "leave no room")):
        refused(lambda: tb.rows_needed(limit, {"a": 0.0, "b": rate}), words)


def test_shares_by_limit_are_one_for_each_and_give_a_total_unless_one_is_missing():
    totals = [tb.rows_needed("miss(1) <= 25%", 0.2, shares=s).total for s in (None, [None], [1.0], 1)]
    assert totals == [None, None, totals[2], totals[2]]
    for shares, rates, name in (([0.1, 0.2], 0.2, "shares"), ([0.1], [0.2, 0.1], "rates")):
        refused(lambda: tb.rows_needed("miss(1) <= 25%", rates, shares=shares), f"^{name}: give one")


@pytest.mark.parametrize(("limit", "rate"), [
    ("gap(error(by=g)) <= 10%", 0.2), ("ratio(miss(1, by=g)) >= .8", 0.5), ("gap(error(by=g)) <= 5%", 0.01),
    ("ratio(selected(1, by=g)) >= .8", 0.95),
])  # fmt: skip
def test_rows_needed_of_pairs_have_the_power_of_the_test(limit, rate):
    needed = tb.rows_needed(limit, {"a": rate, "b": rate})
    n, rng = needed.rows[0]["a"], np.random.default_rng(0)

    def power(n, draws=200):
        (limit,), wrong = needed.limits, rng.binomial(n, rate, (draws, 2)).tolist()
        return np.mean([all_pairs_pass([(x, n) for x in of], limit, 0.045) for of in wrong])

    assert power(n) > 0.7  # .8 asked
    assert power(int(0.6 * n)) < 0.7


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("second", "n"), [("recall(1) >= .9", 1), ("miss(0) <= .05", 2), ("specificity(1) >= .95", 2)]
)
def test_planned_rows_without_an_error_are_the_fewest_with_which_ranks_certify(second, n):
    """Each of n answers has an even part of the level: .95 to the power of the rows is at most this part."""
    limits, rates = ["miss(1) <= .05", second], [0, float(">" in second)]
    fewest, of_two = (int(np.ceil(np.log(0.045 / n / m) / np.log(0.95))) for m in (1, 2))
    assert tb.rows_needed(limits, rates).rows[0] == {None: fewest}
    by_group = [limit.replace(")", ", by=g)") for limit in limits]
    of_groups = tb.rows_needed(by_group, [dict.fromkeys("ab", rate) for rate in rates]).rows[0]
    assert of_groups == {"a": of_two, "b": of_two}
    for size in (fewest, fewest - 1):
        y = np.arange(2 * size) % 2
        scores = np.linspace(0.1, 0.4, len(y)) + 0.5 * y
        with nullcontext() if size == fewest else pytest.raises(tb.NotCertifiedError, match="no attempt"):
            tb.calibrate(tb.Scores(0, 1), scores[:, None], y, limits=limits)


@pytest.mark.parametrize(("limits", "parts"), [
    (["error(by=class)", "deferred()"], [(0.25, 0.7), (0.5, 0.3)]), (["error(by=class)"], [(0.5, 1.0)]),
    (["miss(1, by=g)", "miss(1)", "deferred()"], [(0.5 / 3, 0.7), (0.5 / 3, 0.7), (0.5, 0.3)]),
    (["miss(1, by=g)", "miss(0, by=g)", "deferred(by=g)"], [(0.125, 0.7), (0.125, 0.7), (0.25, 0.3)]),
])  # fmt: skip
def test_a_plan_has_the_part_of_the_level_and_of_the_rows_of_each_test_and_stop(limits, parts):
    """Without an error .95, to the power of these rows, is at most this part, and with one row less above."""
    names = [[0, 1] if "class" in limit else list("ab") if "=g" in limit else [None] for limit in limits]
    stated, rates = [f"{limit} <= 5%" for limit in limits], [dict.fromkeys(each, 0.0) for each in names]
    for rows, (part, share) in zip(tb.rows_needed(stated, rates).rows, parts, strict=True):
        (n,) = {*rows.values()}
        assert np.floor(share * n + 1e-9) == np.ceil(np.log(0.045 * part) / np.log(0.95))
        assert np.floor(share * (n - 1) + 1e-9) < np.floor(share * n + 1e-9)


@pytest.mark.parametrize(("estimate", "target"), [(0.1 + 0.2, 0.3), (0.3, 0.1 + 0.2), (0.7, 1 - 0.3 + 1e-16)])
@pytest.mark.parametrize("sense", ["≤", "≥"])
def test_a_distance_of_rounding_from_a_limit_is_none(estimate, target, sense):
    bound = tb.CertifiedBound(sense=sense, target=target, estimate=estimate, lower=0.0, upper=1.0, n=20)
    assert bound.room == 0
    assert bound.rows_needed is None
    assert bound.reason == "the estimate is at the limit"


@pytest.mark.parametrize(("limit", "n_sides"), [("cost([[0, 1], [3, 0]]) <= .9", 1), ("gap", 2)])
def test_a_limit_on_a_mean_is_tested_at_its_level_by_side(limit, n_sides, monkeypatch):
    """A side of a gap of costs has half of the level, a limit on costs all of it."""
    rng = np.random.default_rng(0)
    y, answers, g = rng.integers(2, size=(3, 300))
    stated = tb.rates.parse("gap(cost([[0, 1], [3, 0]], by=g)) <= .9" if limit == "gap" else limit)
    fresh = Fresh.of_answers(answers, Rows.read(y=y, groups={"g": g}), [stated.rate])
    bounds, own = [], rate_bounds.bounds_of
    monkeypatch.setattr(rate_bounds, "bounds_of", lambda *given: bounds.extend(own(*given)) or bounds)
    assert rate_bounds.all_pass([stated], fresh, 0.05) == (limit == "gap")
    sample, *_ = fresh.samples(stated.rate)
    upper = betting_upper(sample.values / 3.0, 0.05 / n_sides)
    assert bounds[0].upper == pytest.approx(3.0 * upper)


@pytest.mark.parametrize("limit", ["precision(1, by='g') >= .9", "answered_error(by='g') <= .1"])
def test_a_plan_of_thresholds_by_group_divides_the_level_among_the_groups(limit):
    rate = 0.95 if "precision" in limit else 0.05
    plan = partial(tb.rows_needed, limit, {"a": rate, "b": rate}, shares=0.2)
    assert plan().rows == plan(by_group=False, confidence=0.975).rows != plan(by_group=False).rows


def test_each_of_two_limits_has_the_root_of_the_power():
    both = tb.rows_needed(["miss(1) <= 10%", "false_alarm(1) <= 10%"], [0.07, 0.07], power=0.81)
    alone = tb.rows_needed("miss(1) <= 10%", 0.07, power=0.9, confidence=1 - 0.05 / 2)
    assert both.rows == [*alone.rows] * 2
