"""A sequence of thresholds for each group: counts, validity, and groups with one answer."""

import re
import warnings
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom, norm

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.certifiable import (
    GROWTHS,
    Subgroups,
    certifiable_limits,
    least_growth,
    level_of_more_rows,
)
from tailboost.guarantees.limited_rates import power_of_shares
from tailboost.guarantees.thresholds import ThresholdPath, ThresholdTests, limited_rates
from tailboost.rates import checked_limits
from tailboost.rates.strata import Strata
from tailboost.selection.data import BEYOND, ScoredRows, sums_of_answers

PRECISION = [rates.precision(1, by="g") >= 0.7]


def draw(n, rng, share=(0.7, 0.3), shift=2.0):
    """Return scores, groups and labels: larger scores have label 1 more often."""
    g = rng.choice(len(share), n, p=share)
    y = (rng.random(n) < 0.4).astype(int)
    return np.round(rng.normal(size=n) + shift * y, 2), g, y


def tabled(g, y, groups=2):
    return Strata.of(y, g[:, None], np.ones(len(y)), (0, 1), ("g",), (tuple(range(groups)),))


def procedure(limits, selection, fresh, groups=2):
    about = []
    for s, g, y in (selection, fresh):
        strata, stratum = tabled(g, y, groups)
        found = [each for limit in limits for each in limited_rates(limit, strata, stratum)]
        about.append((found, ScoredRows(s, g, np.stack([y == 1, y == 0], axis=1).astype(float))))
    return ThresholdTests(groups, *about[1], *about[0])


@pytest.mark.parametrize(
    ("limit", "count"),
    [
        (rates.precision(1, by="g") >= 0.7, lambda a, y: ((a == 1) & (y == 0), a == 1)),
        (rates.miss(1, by="g") <= 0.2, lambda a, y: ((a == 0) & (y == 1), y == 1)),
        (rates.npv(1, by="g") >= 0.7, lambda a, y: ((a == 0) & (y == 1), a == 0)),
    ],
)
def test_errors_are_those_of_the_answers(limit, count):
    s, g, y = draw(300, np.random.default_rng(0))
    strata, stratum = tabled(g, y)
    thresholds = np.r_[-BEYOND, np.quantile(s, [0.1, 0.5, 0.9]) + 0.001, BEYOND]
    for group, each in enumerate(limited_rates(limit, strata, stratum)):
        errors, n = each.errors(s, thresholds)
        for t, found, of in zip(thresholds, errors, n, strict=True):
            wrong, among = count((s > t).astype(int), y)
            assert (found, of) == ((wrong & (g == group)).sum(), (among & (g == group)).sum())


def test_a_score_at_the_threshold_gets_the_first_answer():
    scores, values = np.array([3.0, 1.0, 2.0, 2.0]), np.array([[1, 10], [2, 20], [4, 40], [8, 80]])
    thresholds = np.array([2.0, -BEYOND, 1.5, BEYOND, 1.0])
    expected = [10 + 2 + 4 + 8, 150, 10 + 2 + 40 + 80, 15, 10 + 2 + 40 + 80]
    assert sums_of_answers(scores, values, thresholds).tolist() == expected
    assert [sums_of_answers(scores, values, thresholds[[i]]).tolist() for i in range(5)] == [
        [one] for one in expected
    ]
    assert sums_of_answers(scores[:0], values[:0], thresholds).tolist() == [0.0] * 5
    rows = ScoredRows(scores, np.array([0, 1, 0, 0]), values)
    assert rows.loss(0, thresholds).tolist() == [22, 130, 130, 13, 130]


def test_limits_that_ranks_or_comparisons_serve_are_left_out():
    _, g, y = draw(50, np.random.default_rng(0))
    assert not limited_rates(rates.gap(rates.miss(1, by="g")) <= 0.1, *tabled(g, y))
    assert not limited_rates(rates.f_score(1, beta=2.0, by="g") >= 0.5, *tabled(g, y))  # rows count in part


def test_a_threshold_behind_a_failure_is_not_certified():
    """Of 40 rows with a limit of .3 at most 6 errors pass at .05 (binomial): the second threshold has 7."""
    errors = np.array([6.0, 7.0, 0.0, 0.0])
    assert (binom.cdf(errors, 40, 0.3) <= 0.05).tolist() == [True, False, True, True]
    rate = SimpleNamespace(errors=lambda *_: (errors, np.full(4, 40.0)), largest_share=0.3)
    path = ThresholdPath(0, np.arange(4.0), np.array([4.0, 3.0, 2.0, 1.0]), None, power=1.0)
    tests = procedure(PRECISION, *[draw(100, np.random.default_rng(seed)) for seed in (0, 1)])
    assert tests.n_passed(path, [rate], 0.05) == 1
    assert tests.n_passed(path, [rate, rate], 0.2) == 4
    errors[0] = 7.0
    assert tests.n_passed(path, [rate], 0.05) == 0


def sequence_of(errors, n=40):
    """Return a limit of .3 with these errors among n rows at the thresholds 0, 1, …, and their path."""
    errors = np.asarray(errors, dtype=float)
    rate = SimpleNamespace(errors=lambda *_: (errors, np.full(len(errors), float(n))), largest_share=0.3)
    losses = np.arange(len(errors), 0.0, -1.0)
    return rate, ThresholdPath(0, np.arange(float(len(errors))), losses, None, power=1.0)


def test_of_every_pattern_of_verdicts_the_thresholds_before_the_first_failure_pass():
    """Of 40 rows 6 errors pass, 7 do not. All patterns of five thresholds, of one limit and of two."""
    tests = procedure(PRECISION, *[draw(100, np.random.default_rng(seed)) for seed in (0, 1)])
    patterns = list(product([True, False], repeat=5))
    for pattern in patterns:
        text = "".join("+" if verdict else "-" for verdict in pattern)
        rate, path = sequence_of(np.where(pattern, 6, 7))
        assert tests.n_passed(path, [rate], 0.05) == len(text.split("-")[0])
        for other in patterns[:: 1 + sum(pattern)]:
            second, _ = sequence_of(np.where(other, 0, 12))
            both = "".join("+" if one and two else "-" for one, two in zip(pattern, other, strict=True))
            assert tests.n_passed(path, [rate, second], 0.05) == len(both.split("-")[0])


@pytest.mark.parametrize("seed", range(4))
def test_of_the_thresholds_before_the_first_failure_the_one_of_least_loss_is_certified(seed):
    """One group; errors, tests and losses are counted row by row for each threshold of the path."""
    rng = np.random.default_rng(seed)
    rows = [draw(n, rng, share=(1.0,)) for n in (600, 500)]
    tests = procedure([rates.precision(1, by="g") >= 0.8], *rows, groups=1)
    (path,) = tests.paths([tests.fresh_rates], 0.05)
    s, _, y = rows[1]
    losses = []
    for t in path.thresholds:
        wrong, selected = ((s > t) & (y == 0)).sum(), (s > t).sum()
        if not (selected and binom.cdf(wrong, selected, 0.2) <= 0.05):
            break
        losses.append(sum(((s > t) != y).sum() for s, _, y in rows))
    assert np.argmin(losses) > 0
    certified, first = tests.thresholds(0.05)
    assert certified.tolist() == [path.thresholds[np.argmin(losses)]]
    assert first.tolist() == [path.thresholds[0]]


def test_a_threshold_without_rows_does_not_pass_and_ends_the_sequence():
    tests = procedure(PRECISION, *[draw(100, np.random.default_rng(seed)) for seed in (0, 1)])
    rate, path = sequence_of([0, 0, 0])
    rate.errors = lambda *_: (np.zeros(3), np.array([40.0, 0.0, 40.0]))
    assert tests.n_passed(path, [rate], 0.05) == 1
    rate.errors = lambda *_: (np.zeros(3), np.zeros(3))
    assert tests.n_passed(path, [rate], 0.05) == 0


def without_error(sizes):
    """Return scores, groups and labels of two groups with so many rows, all with label 1."""
    n = sum(sizes)
    return np.zeros(n), np.repeat([0, 1], sizes), np.ones(n, dtype=int)


def test_groups_divide_the_level_of_their_sequences():
    """No row errs with the answer 1: .7^10 = .0282 is above half of .05, and .7^11 = .0198 below."""
    for n, passes in {10: False, 11: True}.items():
        tests = procedure(PRECISION, without_error((150, 150)), without_error((n, n)))
        certified, _ = tests.thresholds(0.05)
        assert (certified is not None) == passes


def test_groups_that_must_pass_have_the_whole_level_each():
    """No row errs with the answer 1: .7^8 = .0576 is above .05, and .7^9 = .0404 below."""
    for n, passes in {8: False, 9: True}.items():
        limits = [rates.error(by="g") <= 0.3]
        certified, _ = procedure(limits, without_error((150, 150)), without_error((n, n))).thresholds(0.05)
        assert (certified is not None) == passes


@pytest.mark.parametrize("passing", [0, 1, 2])
def test_groups_that_must_pass_certify_no_broken_limit_at_the_boundary(passing):
    """In all but the passing groups every threshold errs in half of the rows, just above the limit."""
    rng, draws, false = np.random.default_rng(passing), 250, 0
    for _ in range(draws):
        rows = []
        for n in (150, 450):
            g, y = rng.integers(3, size=n), rng.integers(2, size=n)
            s = np.where(g < passing, 10.0 * y, rng.integers(0, 20, n))
            rows.append((s, g, y))
        tests = procedure([rates.error(by="g") <= 0.4999], *rows, groups=3)
        false += tests.thresholds(0.05)[0] is not None
    assert binom.sf(false - 1, draws, 0.05) >= 0.001


def test_if_all_groups_that_must_pass_do_each_goes_on_at_its_own_level(monkeypatch):
    """Numbers of thresholds that pass at the whole level and at half of it, in both groups."""
    rows = draw(600, np.random.default_rng(0), share=(0.5, 0.5))
    tests = procedure([rates.error(by="g") <= 0.45], rows, rows)
    paths, levels = tests.paths_and_levels(0.05)
    assert levels.tolist() == [0.025, 0.025]
    for numbers in product(range(3), repeat=4):
        passed = dict(zip(product((0.025, 0.05), range(2)), numbers, strict=True))

        def n_passed(tests, path, rates, level, passed=passed):
            return passed[level, path.place]

        monkeypatch.setattr(ThresholdTests, "n_passed", n_passed)
        certified, _ = tests.thresholds(0.05)
        assert (certified is None) == (min(numbers[2:]) == 0)
        if certified is not None:
            for path, n, threshold in zip(paths, numbers, certified, strict=False):
                assert threshold in path.thresholds[: max(1, n)]


def test_a_group_with_too_few_rows_leaves_its_level_to_the_others():
    """.7^10 = .0282 is above half of .05. Of 2 rows none can pass, so 10 rows without an error do."""
    few, many = (100, 2), (100, 100)
    for n, passes in {8: False, 9: True, 10: True}.items():  # .7^8 = .0576, .7^9 = .0404
        certified, _ = procedure(PRECISION, without_error(few), without_error((n, 2))).thresholds(0.05)
        assert (certified is not None) == passes
        if passes:
            assert certified[0] < BEYOND
            assert certified[1] == BEYOND
    certified, _ = procedure(PRECISION, without_error(many), without_error((10, 10))).thresholds(0.05)
    assert certified is None


def test_a_group_that_must_pass_has_no_smaller_part_than_the_others():
    """No answer keeps both limits, so a part for the likelier group alone would certify nothing."""
    both = [*PRECISION, rates.miss(1, by="g") <= 0.3]
    rows = draw(600, np.random.default_rng(0), share=(0.9, 0.1))
    tests = procedure(both, rows, rows)
    first, second = tests.paths([tests.fresh_rates[::2], tests.fresh_rates[1::2]], 0.025)
    assert first.power > 2 * second.power
    assert first.weight == second.weight == 1.0


@pytest.mark.parametrize("share", [(0.5, 0.5), (0.9, 0.06, 0.04), (0.96, 0.02, 0.01, 0.01)])
def test_the_levels_of_the_groups_add_up_to_the_level(share):
    """Each level is the one of its group's predicted power among the predicted powers of all groups."""
    groups = len(share)
    rng = np.random.default_rng(groups)
    tests = procedure(PRECISION, *[draw(n, rng, share) for n in (300, 700)], groups=groups)
    paths = tests.paths([[rate] for rate in tests.fresh_rates], 0.05 / groups)
    levels = []
    n_passed = ThresholdTests.n_passed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ThresholdTests, "n_passed", lambda *given: [levels.append(given[-1]), n_passed(*given)][1]
        )
        tests.thresholds(0.05)
    powers = np.array([path.power for path in paths])
    assert levels == pytest.approx(0.05 * powers / powers.sum())
    assert sum(levels) == pytest.approx(0.05)


@pytest.mark.parametrize(("share", "n_values"), [((0.9, 0.06, 0.02, 0.02), 3), ((0.5, 0.3, 0.2), 40)])
def test_false_certificates_are_rare_with_groups_of_different_power(share, n_values):
    """In group 0 each threshold keeps the limit in half of the draws; in the others none does, by a hair."""
    rng = np.random.default_rng(n_values)
    draws = 300
    false = 0
    for draw_number in range(draws):
        rows = []
        right = np.where(np.arange(len(share)) == 0, 0.7 + 0.2 * (draw_number % 2), 0.7)
        for n in (150, 850):
            g = rng.choice(len(share), n, p=share)
            y = (rng.random(n) < right[g]).astype(int)
            rows.append((rng.integers(0, n_values, n) / 8.0, g, y))
        tests = procedure([rates.precision(1, by="g") >= 0.7001], *rows, groups=len(share))
        certified, _ = tests.thresholds(0.05)
        false += certified is not None and bool((certified[right < 0.8] < BEYOND).any())
    assert binom.sf(false - 1, draws, 0.05) >= 0.001


@pytest.mark.parametrize("n_values", [4, 40])
def test_beside_a_group_that_passes_no_broken_limit_is_certified(n_values):
    """Group 0 always passes; in group 1 every threshold has a precision of .7, just below the limit."""
    rng, draws, false = np.random.default_rng(n_values), 300, 0
    for _ in range(draws):
        rows = []
        for n in (200, 600):
            g = rng.integers(2, size=n)
            y = ((rng.random(n) < 0.7) | (g == 0)).astype(int)
            rows.append((rng.integers(0, n_values, n) / 8.0, g, y))
        certified, _ = procedure([rates.precision(1, by="g") >= 0.7001], *rows).thresholds(0.05)
        false += certified is not None and bool(certified[1] < BEYOND)
    assert binom.sf(false - 1, draws, 0.05) >= 0.001
    assert false > 0


@pytest.mark.parametrize(
    ("groups", "sizes", "values"),
    [
        (4, (300, 1200), 45),
        (6, (600, 2400), 8),
        pytest.param(2, (200, 300), 5, marks=pytest.mark.slow),
    ],
)
def test_false_certificates_are_rare_at_the_boundary(groups, sizes, values):
    """A score independent of the label: every threshold has a precision of .7, just below the limit."""
    rng, draws, false = np.random.default_rng(0), 120, 0
    for _ in range(draws):
        rows = []
        for n in sizes:
            g, y = rng.integers(groups, size=n), (rng.random(n) < 0.7).astype(int)
            rows.append((rng.integers(0, values, n) / 8.0, g, y))
        tests = procedure([rates.precision(1, by="g") >= 0.7001], *rows, groups=groups)
        certified, _ = tests.thresholds(0.05)
        false += certified is not None and bool((certified < BEYOND).any())
    assert false / draws <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / draws)


def test_a_group_with_few_rows_has_one_answer_and_its_certificate_says_so():
    rng = np.random.default_rng(3)
    s, g, y = draw(2_000, rng, share=(0.99, 0.01))
    X, groups = np.column_stack([1 - 1 / (1 + np.exp(-s)), 1 / (1 + np.exp(-s))]), np.where(g, "few", "many")
    given = {"limits": ["precision(1, by=group) >= .8"], "groups": groups, "by_group": True}
    with pytest.warns(
        tb.exceptions.UselessRuleWarning,
        match="few: no row gets 1",
    ):
        rule = tb.calibrate(lambda X: X, X, y, **given)
    answers = rule.predict(X, groups=groups)
    assert (answers[groups == "few"] == 0).all()
    assert answers[groups == "many"].mean() > 0.1
    few = next(bound for bound in rule.certificate_.bounds if bound.subgroup == "few")
    assert (few.method, few.n, few.certified) == ("one answer", 0, True)
    n_rows = (groups == "few").sum()
    few_fresh = re.search(r"few: no row gets 1 \((\d+) rows\)\.", str(rule.certificate_))
    assert 0 < int(few_fresh[1]) < n_rows
    sentence = few_fresh[0]
    certificate = rule.certificate_
    assert str(certificate).splitlines()[1] == sentence
    assert sentence in str(rule).splitlines()[1]
    card = tb.ModelCard.of(rule, X + 1e-3, y, groups=groups)
    for page in (str(certificate), str(rule.summary_), str(rule), card.to_markdown(), card.to_html()):
        assert page.count("no row gets 1") == 1
    assert card.summary.index(sentence) < card.summary.index("Further rows")
    assert type(certificate).from_dict(certificate.to_dict()).one_answer == (sentence,)


def test_a_group_whose_limits_no_answer_keeps_needs_a_threshold():
    rng = np.random.default_rng(4)
    both = [*PRECISION, rates.miss(1, by="g") <= 0.5]
    tiny = draw(600, rng, share=(0.98, 0.02)), draw(600, rng, share=(0.98, 0.02))
    assert procedure(both, *tiny).thresholds(0.05)[0] is None
    enough = draw(1_500, rng, share=(0.5, 0.5)), draw(1_500, rng, share=(0.5, 0.5))
    assert procedure(both, *enough).thresholds(0.05)[0] is not None


def test_a_group_without_fresh_rows_gets_the_answer_that_keeps_its_limit():
    """Class 1 is the likelier class of the group: the answer 1 to every row would break the limit."""
    rng = np.random.default_rng(5)
    n = 4_000
    groups = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    y = (rng.random(n) < np.where(groups == "c", 0.6, 0.4)).astype(int)
    s = rng.normal(size=n) + np.where(groups == "c", 0.0, 2.0) * y
    X = np.column_stack([1 - 1 / (1 + np.exp(-s)), 1 / (1 + np.exp(-s))])
    chosen, fresh = np.arange(n) < 1_500, (np.arange(n) >= 1_500) & (groups != "c")
    limits = ["precision(1, by=group) >= .8"]
    rule = tb.tune(lambda X: X, X[chosen], y[chosen], groups=groups[chosen], limits=limits, by_group=True)
    assert (rule.predict(X[groups == "c"], groups=groups[groups == "c"]) == 1).any()
    rule = tb.calibrate(rule, X[fresh], y[fresh], groups=groups[fresh])
    assert not rule.predict(X[groups == "c"], groups=groups[groups == "c"]).any()
    words = str(rule.certificate_)
    (line,) = [line for line in words.splitlines() if line.startswith("  c ")]
    assert "kept by construction" in line


def test_the_noise_of_the_number_of_fresh_rows_lowers_the_power_of_the_smallest_number():
    """24 rows without an error promise 48 fresh ones; one row less than 46 passes no test at this level."""
    n = np.array([23.0, 60.0])
    power = power_of_shares(np.zeros(2), n, 0.1, 2.0, 0.008)
    assert power[1] == pytest.approx(1.0)
    assert 0.3 < power[0] < 0.7


def test_sequences_start_where_a_certificate_is_likely_with_few_selection_rows():
    """In each of ten groups about 30 rows select. The luckiest thresholds on them are unlikely to pass."""
    certified = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n = 3_300
        land = rng.integers(0, 10, n)
        y = rng.integers(0, 2, n)
        X = (2.0 * y - 1.0 + 0.9 * rng.normal(size=n))[:, None]
        given = {"limits": ["precision(1, by=land) >= .9"], "by_group": "land"}
        k = n // 11
        scores = tb.Scores(0, 1, kind="logit")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rule = tb.tune(scores, X[:k], y[:k], groups={"land": land[:k]}, **given)
            try:
                rule = tb.calibrate(rule, X[k:], y[k:], groups={"land": land[k:]})
            except tb.exceptions.NotCertifiedError:
                continue
        certified += sum(bound.n > 0 for bound in rule.certificate_.bounds)
    assert certified >= 10


def test_new_rows_pass_with_the_limit_that_a_refusal_names():
    """The advice has a probability of about .8; 5 of 8 is below it with a probability of .02."""
    n_passed = 0
    for seed in (0, 1, 2, 3, 4, 5, 7, 8):
        rng = np.random.default_rng(seed)
        s, _, y = draw(1200, rng)
        score = tb.Scores(0, label=1, kind="logit")
        with pytest.raises(tb.NotCertifiedError) as caught:
            tb.calibrate(score, s[:, None], y, limits=["precision(1) >= 97%"])
        (named,) = re.findall(r"as many with limits=\[.precision\(1\) >= ([\d.]+)%.\]", str(caught.value))
        assert 60 < float(named) < 99
        s, _, y = draw(1200, rng)
        limits = [f"precision(1) >= {named}%"]
        try:
            tb.calibrate(score, s[:, None], y, limits=limits, previous=caught.value)
        except tb.NotCertifiedError:
            continue
        n_passed += 1
    assert n_passed >= 5


def test_a_precision_that_no_threshold_is_likely_to_certify_spends_no_attempt():
    """The truth: no threshold passes the exact test on the fresh rows with a probability above .06."""
    n_selecting, n_fresh, least = 400, 800, 0.995
    thresholds = np.linspace(-3.0, 6.0, 181)
    hits, alarms = 0.4 * norm.sf(thresholds - 2.0), 0.6 * norm.sf(thresholds)
    selected = (n_fresh * (hits + alarms)).astype(int)
    most = np.array([int(binom.ppf(0.05, n, 1 - least)) - 1 for n in selected])
    passing = binom.cdf(most, selected, alarms / (hits + alarms))
    assert passing.max() < 0.06

    rng = np.random.default_rng(0)
    s, _, y = draw(n_selecting + n_fresh, rng)
    rule = tb.tune(
        tb.Scores(0, 1, kind="logit"), s[:n_selecting, None], y[:n_selecting], limits=["precision(1) >= 80%"]
    )
    fresh = s[n_selecting:, None], y[n_selecting:]
    with pytest.raises(tb.NotCertifiedError, match="next to impossible for 800 fresh rows") as refused:
        tb.calibrate(rule, *fresh, limits=["precision(1) >= 99.5%"])
    assert refused.value.attempts == rule.ledger_.attempts == ()
    certified = tb.calibrate(rule, *fresh, limits=["precision(1) >= 80%"])
    assert len(certified.certificate_.attempts) == 1


def test_a_limit_is_within_reach_whatever_the_scores_say_of_the_probabilities():
    """The scores expect more wrong than right answers; few of them are counted."""
    rng = np.random.default_rng(0)
    rows = [draw(n, rng, share=(1.0,)) for n in (120, 1200)]
    tests = procedure([rates.precision(1) >= 0.9], *rows, groups=1)
    (rate,) = tests.selection_rates
    wrong = np.tile([0.0, 0.6], (len(rate.rows), 1))  # the answer 0 is no error
    among = np.tile([0.0, 1.0], (len(rate.rows), 1))
    misled = replace(tests, selection_rates=[replace(rate, expected=(wrong, among))])
    (path,) = misled.paths([misled.fresh_rates], 0.05)
    assert path.power < 0.023
    assert misled.greatest_power(0.05) == tests.greatest_power(0.05) > 0.3


def test_one_hopeless_group_puts_limits_out_of_reach_only_if_it_must_pass():
    """Of group 1 no fresh rows are expected to pass; no answer keeps an error, and one keeps a precision."""
    selecting, fresh = without_error((200, 2)), without_error((200, 2))
    must = procedure([rates.error(by="g") <= 0.3], selecting, fresh)
    may = procedure(PRECISION, selecting, fresh)
    assert must.greatest_power(0.05) < 0.023
    assert may.greatest_power(0.05) > 0.9
    absent = procedure([rates.error(by="g") <= 0.3], without_error((200, 0)), fresh)
    absent = replace(absent, selection_rates=absent.selection_rates[:1])
    assert absent.greatest_power(0.05) == 1.0


@pytest.mark.parametrize(("bound", "n", "seed"), [(90, 500, 12), (80, 200, 15), (90, 500, 0)])
def test_a_refusal_has_a_shortfall_of_each_group_that_failed_at_its_part_of_the_level(bound, n, seed):
    """A passing group would be certified beside the answer 0 to the other, so both failed."""
    s, g, y = draw(n, np.random.default_rng(seed))
    limits = [f"precision(1, by=g) >= {bound}%"]
    with pytest.raises(tb.NotCertifiedError, match="each bound has the part of its group") as caught:
        tb.calibrate(
            tb.Scores(0, 1, kind="logit"), s[:, None], y, groups={"g": g}, by_group="g", limits=limits
        )
    shortfalls = caught.value.shortfalls
    assert len(shortfalls) == 2
    # The levels of the groups add up to .045, so one of the tests has less than half of it.
    p_values = [
        binom.cdf(round((1 - each.estimate) * each.n), each.n, 1 - bound / 100) for each in shortfalls
    ]
    assert max(p_values) > 0.0225


def test_so_many_more_rows_pass_as_a_refusal_names():
    """At the named number of rows, up to 20 times as many, at least seven in ten are certified."""
    followed = passed = 0
    for seed in range(8, 23):
        rng = np.random.default_rng(seed)

        def batch(n, rng=rng):
            s, g, y = draw(n, rng, shift=2.0)
            return s[:, None], y, {"groups": {"g": g}, "by_group": "g", "limits": ["error(by=cell) <= 24%"]}

        X, y, given = batch(800)
        score = tb.Scores(0, label=1, kind="logit")
        try:
            tb.calibrate(score, X, y, **given)
        except tb.NotCertifiedError as error:
            refusal = error
        else:
            continue
        named = re.findall(r"about ([\d.]+) times the", str(refusal))
        if not named or float(named[0]) > 20:
            continue
        X, y, given = batch(int(800 * float(named[0])))
        followed += 1
        try:
            passed += tb.calibrate(score, X, y, previous=refusal, **given).certificate_.certified
        except tb.NotCertifiedError:
            continue
    assert followed >= 4
    assert passed >= 0.7 * followed


def test_if_these_rows_pass_at_the_level_new_rows_pass_with_the_probability():
    """Statistics of normal tests: any true mean is as likely as another, or the estimate is true."""
    rng = np.random.default_rng(0)
    critical = norm.isf(0.01)
    of_these_rows = norm.isf(level_of_more_rows(0.01, 1.0))
    means = of_these_rows + rng.normal(size=100_000)
    assert (means + rng.normal(size=100_000) >= critical).mean() == pytest.approx(0.9, abs=0.01)
    for growth in GROWTHS:
        mean = np.sqrt(growth) * norm.isf(level_of_more_rows(0.01, growth))
        assert (mean + rng.normal(size=10_000) >= critical).mean() > 0.9


def test_the_fewest_rows_that_would_do_are_named():
    assert least_growth(lambda growth: growth >= 4.5) == 5.0
    assert least_growth(lambda growth: True) == 1.0
    assert least_growth(lambda growth: False) is None


def test_each_missed_limit_has_its_tightest_certified_level_beside_the_others():
    limits = checked_limits(["precision(1) >= 90%", "deferred <= 20%"])
    names = [Subgroups([None], [1.0])] * 2

    def chance(tried):
        return float(tried[0].bound <= 0.8 and tried[1].bound <= 0.3)

    ((precision, deferral),) = certifiable_limits(limits, names, [(0, None)], chance)
    assert (precision.bound, deferral) == (0.8, limits[1])
    assert certifiable_limits(limits, names, [(1, None)], chance) == []


def test_a_refusal_of_one_threshold_names_the_call_that_certifies():
    """The score of c is too high by .9 in log-odds: one threshold for all groups keeps no precision there."""
    rng = np.random.default_rng(0)
    g = rng.choice(list("abc"), 3000, p=[0.5, 0.3, 0.2])
    log_odds = rng.normal(size=3000) * 1.2 + np.select([g == "a", g == "b"], [0.8, 0.4], 0.0)
    y = (rng.random(3000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    score = 1 / (1 + np.exp(-log_odds - np.select([g == "a", g == "b"], [0.0, 0.3], 0.9)))
    asked = {"groups": {"g": g}, "limits": ["precision(1, by=g) >= .75"], "objective": "error"}
    with pytest.raises(tb.NotCertifiedError, match=r"as many with by_group='g'"):
        tb.calibrate(tb.Scores(0, 1), score[:, None], y, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rule = tb.calibrate(tb.Scores(0, 1), score[:, None], y, by_group="g", **asked)
    assert rule.certificate_.certified
