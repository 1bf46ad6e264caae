"""Rank rules: limits certified from ranks hold in populations with known rates, in every form of the rule."""

import copy
import json
import sqlite3
import warnings
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.fresh_rows import fresh_rows
from tailboost.guarantees.ranks import (
    Ranks,
    Share,
    at_ranks,
    one_sided,
    ranks_of_comparison,
)
from tailboost.guarantees.shares import ranks_of
from tailboost.rows.given import Given
from tailboost.rows.ledger import may_follow, spent_by_next
from tailboost.selection.data import ScoredRows

LEVELS = 40  # of the score; each level has a known rate of the label in each group


def population(seed, groups=2):
    """Return a function for drawing rows, and a function for the true rates of answers."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(LEVELS, 3.0), groups)
    centre = np.linspace(-3, 3, LEVELS)
    positive = 1 / (1 + np.exp(-(centre + rng.normal(0, 0.5, groups)[:, None])))

    def draw(n, rng):
        g = rng.integers(groups, size=n)
        level = np.array([rng.choice(LEVELS, p=shares[k]) for k in g])
        y = (rng.random(n) < positive[g, level]).astype(int)
        # Within a level the score is continuous, so ties do not occur, and says nothing about the label.
        return pd.DataFrame({"s": (level + rng.random(n)) / LEVELS}), y, np.array(list("abcde"))[g]

    def truth(answers):
        """Return rates by group from the probability of the answer 1 by group and level."""
        selected = (shares * answers).sum(axis=1)
        of_label = shares * positive
        miss = 1 - (of_label * answers).sum(axis=1) / of_label.sum(axis=1)
        return {"selected": selected, "miss": miss}

    return draw, truth


def answers_of(rule, group, groups):
    """Return the share of each level with the answer 1, by group, from a fine grid of scores."""
    grid = (np.arange(LEVELS * 25) + 0.5) / (LEVELS * 25)
    shares = []
    for g in groups:
        given = {"groups": np.repeat(g, len(grid))} if group else {}
        shares.append(rule.predict(pd.DataFrame({"s": grid}), **given).reshape(LEVELS, 25).mean(axis=1))
    return np.array(shares)


LIMITS = {
    "miss": ([rates.miss(1, by="group") <= 0.25], lambda r: r["miss"].max() <= 0.25),
    "gap": ([rates.gap(rates.selected(1, by="group")) <= 0.1], lambda r: np.ptp(r["selected"]) <= 0.1),
    "ratio": (
        [rates.ratio(rates.selected(1, by="group")) >= 0.7],
        lambda r: r["selected"].min() >= 0.7 * r["selected"].max(),
    ),
    "gap of misses": ([rates.gap(rates.miss(1, by="group")) <= 0.15], lambda r: np.ptp(r["miss"]) <= 0.15),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("by_group", [True, False])
def test_false_certificates_are_at_most_the_level(name, by_group):
    limits, keeps = LIMITS[name]
    if not by_group and limits[0].compares:
        pytest.skip("a comparison needs a threshold for each group")
    draws, false = 200, 0
    for seed in range(draws):
        draw, truth = population(seed % 10)
        rng = np.random.default_rng(seed + 1000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            T, y, g = draw(300, rng)
            clf = tb.tune(tb.Scores("s", 1), T, y, groups=g, limits=limits, by_group=by_group)
            T, y, g = draw(500, rng)
            try:
                certified = tb.calibrate(clf, T, y, groups=g, confidence=1 - 0.05 / 0.9)
            except tb.NotCertifiedError:
                continue
        false += not keeps(truth(answers_of(certified, by_group, ["a", "b"])))
    assert false <= draws * 0.05 + 2 * np.sqrt(draws * 0.05 * 0.95)


# A limit from above, and the same limit from below on the complement.
SAME_LIMITS = [
    ("miss(1, by=group) <= 25%", "recall(1, by=group) >= 75%"),
    ("false_alarm(1) <= 30%", "specificity(1) >= 70%"),
    ("selected(1) <= 40%", "selected(0) >= 60%"),
    ("selected(0, by=group) <= 60%", "selected(1, by=group) >= 40%"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limits", SAME_LIMITS)
@pytest.mark.parametrize("by_group", [True, False])
def test_a_limit_from_below_is_that_of_the_complement_from_above(limits, by_group):
    draw, _ = population(3)
    rules = []
    for text in limits:
        rng = np.random.default_rng(0)
        T, y, g = draw(400, rng)
        tuned = tb.tune(tb.Scores("s", 1), T, y, groups=g, limits=[text], by_group=by_group)
        T, y, g = draw(600, rng)
        rules.append(tb.calibrate(tuned, T, y, groups=g, confidence=1 - 0.05 / 0.9))
    assert [rule.certificate_.bounds[-1].method for rule in rules] == ["ranks"] * 2
    first, second = (rule.predict(T, **({"groups": g} if by_group else {})) for rule in rules)
    np.testing.assert_array_equal(first, second)
    assert 0 < first.mean() < 1


@pytest.fixture(scope="module", params=list(LIMITS))
def certified(request):
    limits, _ = LIMITS[request.param]
    draw, _ = population(3)
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        T, y, g = draw(1000, rng)
        clf = tb.tune(tb.Scores("s", 1), T, y, groups=g, limits=limits, by_group=True)
        T, y, g = draw(4000, rng)
        return tb.calibrate(clf, T, y, groups=g), clf, draw(500, rng)


def test_ranks_certify_and_say_so(certified):
    rule, clf, _ = certified
    assert rule.certificate_.certified
    assert {bound.method for bound in rule.certificate_.bounds} == {"ranks"}
    text = rule.certificate_.assumptions
    assert "overall error " in text
    assert clf.rule_ != rule.rule_


def test_the_certified_rule_answers_alike_in_every_form(certified, tmp_path):
    rule, _, (T, _, g) = certified
    answers = rule.predict(T, groups=g)
    assert [rule.predict(T.iloc[[i]], groups=g[[i]])[0] for i in range(60)] == answers[:60].tolist()
    tb.save_model(rule, tmp_path / "m.model")
    np.testing.assert_array_equal(tb.load_model(tmp_path / "m.model").predict(T, groups=g), answers)
    again = tb.ThresholdRule.from_dict(json.loads(json.dumps(rule.rule_.to_dict())))
    np.testing.assert_array_equal(again.predict(T["s"], g), answers)
    database = sqlite3.connect(":memory:")
    T.assign(g=g, number=range(len(T))).to_sql("t", database)
    found = database.execute(f"SELECT {again.to_sql(group='g')} FROM t ORDER BY number").fetchall()
    assert [action for (action,) in found] == answers.tolist()


def test_calibrate_changes_nothing_in_the_given_classifier_but_its_ledger(certified):
    rule, clf, _ = certified
    assert len(clf.ledger_.attempts) == len(rule.ledger_.attempts) == 1
    assert clf.certificate_ is None
    assert [str(limit) for limit in clf.limits] == [str(limit) for limit in rule.limits]


@pytest.mark.slow
def test_equal_scores_keep_limits_on_one_side_and_leave_comparisons_to_tests():
    """A score of four values has a threshold at few ranks only."""
    rng = np.random.default_rng(0)
    T, y = pd.DataFrame({"s": rng.integers(4, size=3000) / 4}), np.zeros(3000, int)
    y[rng.random(3000) < 0.1 + 0.8 * T["s"].to_numpy()] = 1
    g = np.where(rng.random(3000) < 0.5, "a", "b")
    for limit, method in (
        (rates.miss(1, by="group") <= 0.3, "ranks"),
        (rates.gap(rates.selected(1, by="group")) <= 0.1, "fixed sequence"),
    ):
        clf = tb.tune(tb.Scores("s", 1), T[:1000], y[:1000], groups=g[:1000], limits=[limit], by_group=True)
        rule = tb.calibrate(clf, T[1000:], y[1000:], groups=g[1000:])
        assert {bound.method for bound in rule.certificate_.bounds} == {method}


def test_a_group_with_too_few_rows_gets_the_answer_that_keeps_its_limit():
    draw, _ = population(1)
    rng = np.random.default_rng(5)
    T, y, g = draw(1500, rng)
    clf = tb.tune(tb.Scores("s", 1), T, y, groups=g, limits=[rates.miss(1, by="group") <= 0.1], by_group=True)
    T, y, g = draw(1200, rng)
    keep = (g == "a") | (np.arange(1200) < 30)
    rule = tb.calibrate(clf, T[keep], y[keep], groups=g[keep])
    T, y, g = draw(300, rng)
    answers = rule.predict(T, groups=g)
    assert (answers[g == "b"] == 1).all()
    assert 0 < (answers[g == "a"] == 1).mean() < 1


def test_attempts_spend_what_is_left():
    class Made:
        def __init__(self, spent):
            self.spent = spent

    assert spent_by_next([]) == pytest.approx(0.9)
    assert spent_by_next([Made(0.9)]) == pytest.approx(0.09)
    with pytest.raises(ValueError, match="probability"):
        spent_by_next([Made(1.0)])
    many = [Made(0.9 * 0.1**k) for k in range(9)]
    assert not may_follow(many)
    with pytest.raises(ValueError, match="probability"):
        spent_by_next(many)


# -- equal scores ------------------------------------------------------------------------------------------

GRADES = 8


def graded(seed, n, equal=0.3):
    """Return a table of grades from 0 to 1, labels and groups."""
    rng = np.random.default_rng(seed)
    g = rng.integers(2, size=n)
    y = (rng.random(n) < equal).astype(int)
    latent = 1 / (1 + np.exp(-(rng.normal(size=n) + 1.7 * y - 1 + 0.4 * g)))
    return pd.DataFrame({"s": np.floor(latent * GRADES) / GRADES}), y, np.array(["a", "b"])[g]


def graded_rule(seed, n, limits, **params):
    """Return a tuned and calibrated rule on grades."""
    (T, y, g), (fresh, labels, groups) = graded(seed, 1500), graded(seed + 10_000, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf = tb.tune(tb.Scores("s", 1), T, y, groups=g, limits=limits, by_group=True, **params)
        return tb.calibrate(
            clf, fresh, labels, groups=groups, equal_rows="natural", confidence=1 - 0.05 / 0.9
        )


@cache
def frequencies():
    """Return the frequency of each grade in groups a and b, shape (2, GRADES + 1)."""
    T, _, g = graded(99, 2_000_000)
    grade = np.round(T["s"].to_numpy() * GRADES).astype(int)
    counts = np.array([np.bincount(grade[g == name], minlength=GRADES + 1) for name in "ab"])
    return counts / counts.sum(axis=1, keepdims=True)


def selected_by_group(rule):
    """Return the true share of 1 in each group."""
    T = pd.DataFrame({"s": np.tile(np.arange(GRADES + 1) / GRADES, 2)})
    shares = rule.predict_distribution(T, groups=np.repeat(["a", "b"], GRADES + 1))[:, 1]
    return (frequencies() * shares.reshape(2, -1)).sum(axis=1)


@pytest.mark.slow
def test_a_comparison_has_no_ranks_that_are_no_better_than_one_answer():
    limits = [rates.ratio(rates.selected(1, by="group")) >= 0.8]
    try:
        rule = graded_rule(1, 4000, limits)
    except tb.NotCertifiedError:
        return
    T, y, g = graded(99, 20_000)
    assert (rule.predict(T, groups=g) != y).mean() < y.mean()


def few_values(n, seed):
    """Return a table of a score with eleven values, labels and groups, of which one scores lower."""
    rng = np.random.default_rng(seed)
    g = np.where(rng.random(n) < 0.4, "v", "u")
    x = rng.normal(size=n) - 0.4 * (g == "v")
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * x))).astype(int)
    return pd.DataFrame({"s": np.round(1 / (1 + np.exp(-x)), 1)}), y, g


def test_thresholds_are_tested_where_equal_scores_take_more_room_than_a_test():
    T, y, g = few_values(4000, 2)
    limits = [rates.ratio(rates.selected(1, by="group")) >= 0.8]
    given = {"groups": g, "limits": limits, "by_group": True}
    certificate = tb.calibrate(tb.Scores("s", 1), T, y, **given).certificate_
    assert "ranks" not in {bound.method for bound in certificate.bounds}
    with mock.patch.object(Ranks, "are_wide", False):
        by_ranks = tb.calibrate(tb.Scores("s", 1), T, y, **given).certificate_
    assert {bound.method for bound in by_ranks.bounds} == {"ranks"}
    assert certificate.price[0].certified < by_ranks.price[0].certified - 0.05


# -- close scores and refusals -----------------------------------------------------------------------------


def close_rows(n, rng, spread=0.008):
    """Return distinct scores within a narrow range, as close as the scores of millions of rows."""
    u = rng.random(n)
    return pd.DataFrame({"s": spread * (u - 0.5)}), (rng.random(n) < u).astype(int), rng.choice(["u", "v"], n)


def test_distinct_scores_are_never_refused_as_equal():
    limits = ["ratio(selected(1, by=group)) >= .8"]
    T, y, g = close_rows(1000, np.random.default_rng(0))
    clf = tb.tune(tb.Scores("s", 1, kind="logit"), T, y, groups=g, by_group=True, limits=limits)
    for seed in range(1, 5):
        T, y, g = close_rows(4000, np.random.default_rng(seed))
        rule = tb.calibrate(copy.deepcopy(clf), T, y, groups=g)
        assert rule.certificate_.bounds[0].method == "ranks"


def few_scores(limit):
    """Return a classifier selected on continuous scores, and fresh rows with four scores."""
    rng = np.random.default_rng(1)
    u = rng.random(2000)
    y, g = (rng.random(2000) < u).astype(int), rng.choice(["u", "v"], 2000)
    clf = tb.tune(tb.Scores("s", 1), pd.DataFrame({"s": u}), y, groups=g, by_group=True, limits=[limit])
    u = (rng.integers(4, size=2000) + 0.5) / 4
    return clf, (pd.DataFrame({"s": u}), (rng.random(2000) < u).astype(int)), rng.choice(["u", "v"], 2000)


def test_a_refusal_that_read_no_label_spends_nothing():
    clf, rows, g = few_scores("gap(selected(1, by=group)) <= .1")
    with pytest.raises(tb.NotCertifiedError, match="threshold") as refused:
        tb.calibrate(clf, *rows, groups=g, confidence=1 - 0.05 / 0.9)
    assert "Each target" not in str(refused.value)
    assert clf.ledger_.attempts == refused.value.attempts == ()
    rule = tb.calibrate(clf, *rows, groups=g, confidence=1 - 0.05 / 0.9, limits=["miss(1, by=group) <= .4"])
    assert [attempt.spent for attempt in rule.ledger_.attempts] == [0.9]


def test_a_refusal_that_read_labels_spends_an_attempt():
    clf, rows, g = few_scores("gap(miss(1, by=group)) <= .1")
    with pytest.raises(tb.NotCertifiedError, match="attempt"):
        tb.calibrate(clf, *rows, groups=g)
    assert len(clf.ledger_.attempts) == 1
    with pytest.raises(tb.LeakageError, match="earlier"):
        tb.calibrate(clf, *rows, groups=g, limits=["miss(1, by=group) <= .4"])


def test_a_single_limit_is_refused_in_words_about_a_single_limit():
    p = np.random.default_rng(0).random(2_000)
    table, half, rest = pd.DataFrame({"p": p}), slice(100), slice(100, None)
    clf = tb.tune(tb.Scores("p", 1), table[half], (p > 0.5)[half].astype(int), limits=["selected(1) <= .8"])
    y = (p < 0.2).astype(int)  # now the score misleads, so the answer 0 to all rows errs least
    with pytest.raises(tb.NotCertifiedError, match="answer") as refused:
        tb.calibrate(clf, table[rest], y[rest])
    assert "Each target" not in str(refused.value)


# -- clusters with rows in several groups ------------------------------------------------------------------


def persons(n, rng):
    """Return two rows of each of n persons: in group a with the score u, in group b with 1 − u."""
    u = rng.random(n)
    s, g = np.r_[u, 1 - u], np.repeat(["a", "b"], n)
    y = (rng.random(2 * n) < np.where(g == "a", s**0.5, s**2)).astype(int)
    return pd.DataFrame({"s": s}), y, g, np.tile(np.arange(n), 2)


@pytest.mark.slow
def test_a_gap_of_groups_that_share_persons_is_rarely_certified_falsely():
    """Ranks would take the groups as independent; the best thresholds have a larger gap than the limit."""
    draws, false = 40, 0
    T, y, g, _ = persons(1500, np.random.default_rng(1))
    limits = ["gap(selected(1, by=group)) <= .15"]
    clf = tb.tune(tb.Scores("s", 1), T, y, groups=g, by_group=True, limits=limits)
    for seed in range(draws):
        T, y, g, person = persons(500, np.random.default_rng(1000 + seed))
        try:
            rule = tb.calibrate(
                copy.deepcopy(clf), T, y, groups=g, clusters=person, confidence=1 - 0.05 / 0.9
            )
        except tb.NotCertifiedError:
            continue
        grid = (np.arange(20_000) + 0.5) / 20_000
        a, b = (rule.predict(pd.DataFrame({"s": grid}), groups=np.repeat(k, 20_000)).mean() for k in "ab")
        false += abs(a - b) > 0.15 + 1e-4
    assert false <= draws * 0.05 + 2 * np.sqrt(draws * 0.05 * 0.95)


def test_groups_that_share_clusters_have_no_ranks_of_a_gap():
    rng = np.random.default_rng(1)
    T, y, g, _ = persons(500, rng)
    clf = tb.tune(
        tb.Scores("s", 1), T, y, groups=g, by_group=True, limits=["gap(selected(1, by=group)) <= .2"]
    )
    T, y, g, person = persons(1500, rng)
    ways = {"across": person, "inside": np.arange(len(y)) // 2}
    found = {
        name: tb.calibrate(copy.deepcopy(clf), T, y, groups=g, clusters=of).certificate_
        for name, of in ways.items()
    }
    assert {name: each.bounds[0].method for name, each in found.items()} == {
        "across": "fixed sequence", "inside": "ranks",
    }  # fmt: skip


# -- exact probabilities and brute force -------------------------------------------------------------------


@pytest.mark.parametrize("n_groups", [1, 2, 3, 5])
def test_limits_at_their_bounds_break_with_at_most_the_level(n_groups):
    """A rate at its bound passes if at most k of n rows have the limited answer: a binomial count."""
    rng = np.random.default_rng(n_groups)
    shares = [
        Share(rates.error() <= 0.5, group, np.arange(rng.integers(300, 900)), answer, rng.uniform(0.1, 0.4))
        for group in range(n_groups)
        for answer in (0, 1)
    ]
    sizes = [len(share.rows) for share in shares]
    ranks = ranks_of(shares, sizes, n_groups, 0.05)
    largest = [share.largest for share in shares]
    assert 1 - np.prod(1 - binom.cdf(ranks, sizes, largest)) <= 0.05
    assert (binom.cdf(np.add(ranks, 1), sizes, largest) > 0.05 / len(shares)).all()  # none is too strict


@pytest.mark.parametrize("n_values", [20, 60, 4000])
def test_a_share_of_rows_of_several_thresholds_breaks_with_at_most_the_level(n_values):
    """Misses of two ages together: few of the ill are old, and in many draws none. The answer 0 is cheap."""
    level, largest, draws, n = 0.2, 0.3, 400, 20_000
    rng = np.random.default_rng(n_values)
    age = (rng.random(n) < 0.02).astype(int)
    edges = np.linspace(-3.0, 3.0, n_values)
    scores = np.searchsorted(edges, rng.normal(size=n) + 0.5 * age) + 0.0
    false = 0
    for _ in range(draws):
        fresh = rng.integers(n, size=60)
        rows = ScoredRows(scores[fresh], age[fresh], np.tile([0.0, 1.0], (60, 1)))
        shares = [Share(None, None, np.arange(60), 0, largest)]
        nobody = ScoredRows(scores[:0], age[:0], np.empty((0, 2)))
        thresholds = one_sided(shares, ranks_of(shares, [60], 2, level), rows, 2, nobody)
        false += (scores <= thresholds[age]).mean() > largest
    assert binom.sf(false - 1, draws, level) >= 0.001
    assert false >= 0.02 * draws  # the thresholds are at the limit


@pytest.mark.parametrize("seed", range(4))
def test_thresholds_within_ranks_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    label, place = rng.integers(2, size=60), rng.integers(2, size=60)
    scores = np.round(rng.normal(size=60) + 2 * label, 1 + seed)
    losses = rng.random((60, 2))
    rows = ScoredRows(scores, place, losses)
    shares, counted = [], []
    for group in (0, 1):
        for answer in (0, 1):
            inside = np.flatnonzero((place == group) & (label == 1 - answer))
            shares.append(Share(None, None, inside, answer, 0.5))
            counted.append(inside)
    ranks = [int(0.4 * len(inside)) for inside in counted]
    nobody = ScoredRows(scores[:0], place[:0], losses[:0])
    thresholds = one_sided(shares, ranks, rows, 2, nobody)
    for group in (0, 1):
        inside = np.flatnonzero(place == group)
        values = np.unique(scores[inside])
        loss = {}
        for t in [values[0] - 1, *(values[1:] + values[:-1]) / 2, values[-1] + 1]:
            answers = (scores > t).astype(int)
            beyond = [(answers[share.rows] == share.answer).sum() for share in shares]
            if beyond[2 * group] <= ranks[2 * group] and beyond[2 * group + 1] <= ranks[2 * group + 1]:
                loss[t] = losses[inside, answers[inside]].sum()
        best = min(loss, key=loss.get)
        assert ((scores > thresholds[group]) == (scores > best))[inside].all()


def test_at_ranks_so_many_rows_get_the_counted_answer():
    rng = np.random.default_rng(0)
    scores, place = rng.normal(size=80), np.repeat([0, 1], 40)
    rows = ScoredRows(scores, place, np.zeros((80, 2)))
    for answer in (0, 1):
        shares = [Share(None, None, np.flatnonzero(place == g), answer, np.nan) for g in (0, 1)]
        thresholds = at_ranks(shares, np.array([[7, 7], [19, 21]]), rows, 2)
        answers = (scores > thresholds[place]).astype(int)
        assert [(answers[place == g] == answer).sum() for g in (0, 1)] == [7, 20]
    tied = replace(rows, scores=np.where(place == 0, 1.0, scores))
    assert at_ranks(shares, np.array([[7, 7], [20, 20]]), tied, 2) is None


@pytest.mark.parametrize("answer", [0, 1])
def test_at_each_rank_of_different_scores_exactly_so_many_rows_get_the_counted_answer(answer):
    """Every rank of both groups, of which the second has more rows; the first group's rows come last."""
    rng = np.random.default_rng(answer)
    place = np.repeat([1, 0], [13, 9])
    rows = ScoredRows(rng.permutation(22).astype(float), place, np.zeros((22, 2)))
    shares = [Share(None, None, np.flatnonzero(place == g), answer, np.nan) for g in (0, 1)]
    for first in range(10):
        for second in range(14):
            thresholds = at_ranks(shares, np.array([[first] * 2, [second] * 2]), rows, 2)
            given = (rows.scores > thresholds[place]) == answer
            assert [given[place == g].sum() for g in (0, 1)] == [first, second]


@pytest.mark.parametrize("seed", range(3))
def test_among_equal_scores_the_rank_nearest_to_the_middle_of_its_range_is_taken(seed):
    """All thresholds one by one; without one within the range there is no rule."""
    rng = np.random.default_rng(seed)
    scores, within, outside = rng.integers(6, size=40).astype(float), 0, 0
    rows = ScoredRows(scores, np.zeros(40, dtype=int), np.zeros((40, 2)))
    possible = [(scores > t).sum() for t in np.arange(-0.5, 6.5)]
    for answer, least in [(answer, least) for answer in (0, 1) for least in range(38)]:
        share = Share(None, None, np.arange(40), answer, np.nan)
        thresholds = at_ranks([share], np.array([[least, least + 2]]), rows, 1)
        counts = possible if answer == 1 else [40 - count for count in possible]
        nearest = min(abs(count - (least + 1)) for count in counts)
        if nearest > 1:
            outside += 1
            assert thresholds is None
        else:
            within += 1
            counted = ((scores > thresholds[0]) == answer).sum()
            assert abs(counted - (least + 1)) == nearest
    assert min(within, outside) >= 5


@pytest.mark.parametrize("seed", [0, 4, 6, 10])
def test_ranges_of_ranks_for_equal_scores_keep_a_gap_with_the_confidence(seed):
    """With a known number of rows above, a threshold has a rate between order statistics of uniform rows."""
    rng = np.random.default_rng(seed)
    place = rng.integers(2, size=400)
    scores = rng.integers(0, 10, 400) / 10 - 0.45
    chance = 1 / (1 + np.exp(-3 * scores - 0.4 * place))
    rows = ScoredRows(scores, place, np.column_stack([chance, 1 - chance]))
    limit = rates.gap(rates.selected(1, by="group")) <= 0.1 + 0.01 * (seed % 8)
    shares = [Share(limit, g, np.flatnonzero(place == g), 1, np.nan) for g in (0, 1)]
    sizes = [400, 300]
    ranges = ranks_of_comparison(limit, sizes, rows, shares, 0.05)
    if ranges is None:
        return  # no certificate
    assert (ranges[:, 0] < ranges[:, 1]).all()
    ends = []
    for n, (least, most) in zip(sizes, ranges.tolist(), strict=True):
        ordered = np.pad(np.sort(rng.random((4000, n)), axis=1), ((0, 0), (1, 1)), constant_values=(0, 1))
        ends.append((ordered[:, least], ordered[:, most + 1]))
    (low_a, high_a), (low_b, high_b) = ends
    kept = np.maximum(high_a - low_b, high_b - low_a) <= limit.bound
    assert kept.mean() >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 4000)


def rows_with_ties(at, *, falls=False):
    """Return 2,000 rows of two groups, 5 % of each with equal scores at a part of the way, and their shares.

    The most accurate answer is 1 for the upper 40 % of the scores. If the scores fall, it is 0.
    """
    part = np.repeat((np.arange(1000) + 0.5) / 1000, 2)
    part[np.abs(part - at) < 0.025] = at
    place = np.tile([0, 1], 1000)
    wrong = np.column_stack([part, 1.2 - part])
    rows = ScoredRows(-part if falls else part, place, wrong[:, ::-1] if falls else wrong)
    limit = rates.gap(rates.selected(1, by="group")) <= 0.1
    return rows, limit, [Share(limit, g, np.flatnonzero(place == g), int(not falls), np.nan) for g in (0, 1)]


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("at", [0.025, 0.975, 0.6])
def test_equal_scores_widen_the_ranks_among_them_only(at, falls):
    """With the order of the labels the scores fall and the other answer counts: the ranks are the same.

    Among the 5 % of 4,000 rows with equal scores, a rank is up to 100 from the next threshold. Elsewhere one
    rank on each side allows for continuous scores too close for a threshold.
    """
    rows, limit, shares = rows_with_ties(at, falls=falls)
    ranges = ranks_of_comparison(limit, [4000, 4000], rows, shares, 0.05)
    middles = ranges.mean(axis=1) / 4000
    assert np.abs(middles - 0.4).max() < 0.03
    widths = np.diff(ranges)[:, 0]
    assert (widths >= 160).all() if at == 0.6 else (widths == 2).all()


def test_a_certified_comparison_gives_each_group_the_number_of_answers_of_its_rank():
    """Stated ranks replace the ranks: in each group as many fresh rows get the answer 1 as stated."""
    draw, _ = population(4)
    rng = np.random.default_rng(0)
    T, y, g = draw(600, rng)
    limits = ["gap(selected(1, by=group)) <= .3"]
    clf = tb.tune(tb.Scores("s", 1), T, y, groups=g, limits=limits, by_group=True)
    T, y, g = draw(700, rng)
    for stated in ([100, 130], [101, 131], [150, 149]):
        ranges = np.repeat(np.array(stated)[:, None], 2, axis=1)
        with mock.patch.object(Ranks, "rank_ranges", ranges):
            rule = tb.calibrate(copy.deepcopy(clf), T, y, groups=g)
        answers = rule.predict(T, groups=g)
        assert [(answers[g == name] == 1).sum() for name in "ab"] == stated


@pytest.mark.parametrize("by_group", [False, True])
def test_a_threshold_at_a_rank_passes_the_exact_test_of_its_rows(by_group):
    """At the edge: the limit on misses is tight, so the threshold is the last one within its rank."""
    most, certified, edges = 0.2, 0, 0
    # Attempts and groups divide the level. False alarms have room, and so a tenth of the level.
    level = 0.9 * 0.05 / 2 / (2 if by_group else 1)
    for seed in range(3):
        rng = np.random.default_rng(seed)

        def drawn(n, rng=rng):
            y = (rng.random(n) < 0.4).astype(int)
            score = 1 / (1 + np.exp(-(rng.normal(size=n) + 1.2 * y - 0.6)))
            return score[:, None], y, {"g": rng.choice(["a", "b"], n)}

        X, y, groups = drawn(400)
        told = {"groups": groups, "by_group": True} if by_group else {}
        by = "g" if by_group else None
        limits = [rates.miss(1, by=by) <= most, rates.false_alarm(1, by=by) <= 0.9]
        tuned = tb.tune(tb.Scores(0, 1), X, y, limits=limits, objective="error", **told)
        X, y, groups = drawn(800)
        told = {"groups": groups} if by_group else {}
        rule = tb.calibrate(tuned, X, y, confidence=1 - 0.025 / 0.9, **told)
        assert {bound.method for bound in rule.certificate_.bounds} == {"ranks"}
        missed = (rule.predict(X, **told) == 0) & (y == 1)
        for group in ("a", "b") if by_group else (None,):
            inside = np.ones(len(y), bool) if group is None else groups["g"] == group
            k, n = (missed & inside).sum(), ((y == 1) & inside).sum()
            certified += 1
            assert binom.cdf(k, n, most) <= level
            edges += binom.cdf(k + 1, n, most) > level
    assert certified >= 3
    assert edges >= certified // 3


def test_the_loss_curve_of_a_place_sums_the_losses_of_its_rows():
    rng = np.random.default_rng(0)
    scores, place = np.round(rng.normal(size=50), 1), rng.integers(2, size=50)
    rows = ScoredRows(scores, place, rng.random((50, 2)))
    thresholds, losses = rows.loss_curve(1)
    different = np.unique(scores[place == 1])
    assert thresholds[1:-1] == pytest.approx((different[1:] + different[:-1]) / 2)
    for threshold, loss in zip(thresholds, losses, strict=True):
        answers = (scores > threshold).astype(int)
        of_answers = rows.losses[np.arange(50), answers]
        assert loss == pytest.approx(of_answers[place == 1].sum())


def two_columns(seed, n, shift):
    """Return scores, labels, and groups of two columns; the score of each age is shifted by so much."""
    rng = np.random.default_rng(seed)
    sex, age = rng.integers(2, size=n), rng.integers(3, size=n)
    y = (rng.random(n) < 0.3).astype(int)
    number = rng.normal(size=n) + 1.5 * y + shift * age
    scores = pd.DataFrame({"p": 1 / (1 + np.exp(-(1.5 * number - 2)))})
    return scores, y, {"sex": np.array(["f", "m"])[sex], "age": np.array(["18", "40", "60"])[age]}


@pytest.mark.parametrize(("shift", "least_gain"), [(0.0, -0.02), (1.0, 0.1)])
def test_thresholds_by_group_beside_limits_that_join_groups_have_to_pay(shift, least_gain):
    """Without a shift one threshold is about as good; with a shift thresholds by age err less."""
    limits = ["miss(1, by=sex) <= 20%", "miss(1, by=age) <= 20%"]
    further, labels, groups = two_columns(99, 20_000, shift)
    gains = []
    for seed in range(3):
        X, y, g = two_columns(seed, 2_500, shift)
        rules = [
            tb.calibrate(tb.Scores("p", 1), X, y, groups=g, limits=limits, by_group=by_group)
            for by_group in (False, "age")
        ]
        assert all(rule.certificate_.bounds[0].method == "ranks" for rule in rules)
        one = (rules[0].predict(further) != labels).mean()
        by_age = (rules[1].predict(further, groups={"age": groups["age"]}) != labels).mean()
        gains.append(one - by_age)
    assert np.mean(gains) >= least_gain


def test_a_group_that_is_absent_from_the_fresh_rows_by_chance_does_not_choose_the_thresholds():
    """The levels of two procedures between which such rows chose could add up."""
    X, y, g = two_columns(0, 2_000, 1.0)
    rule = tb.tune(tb.Scores("p", 1), X, y, groups=g, limits=["miss(1, by=sex) <= 30%"], by_group="age")
    X, y, g = two_columns(1, 3_000, 1.0)
    families = []
    for is_absent in (np.zeros(3_000, bool), (g["age"] != "18") & (y == 1)):
        kept = np.flatnonzero(~is_absent)
        given = Given(X=X.iloc[kept], y=y[kept], groups={name: column[kept] for name, column in g.items()})
        fresh = fresh_rows(rule, given, [limit.rate for limit in rule.selection_.problem.limits], opens=True)
        procedure = Ranks(rule.selection_, fresh, 0.05)
        families.append((procedure.family.n_thresholds, procedure.has_two_rules))
    assert families == [(1, True), (1, True)]


def test_one_threshold_of_a_rule_that_reads_the_group_orders_rows_by_their_score():
    X, y, g = two_columns(0, 2_500, 1.0)
    limits = ["miss(1, by=sex) <= 40%", "miss(1, by=age) <= 40%"]
    rule = tb.tune(tb.Scores("p", 1), X, y, groups=g, limits=limits, by_group="age")
    family = rule.selection_.one_threshold
    scores, _ = rule.selection_.thresholds(family).on_selection
    assert family.n_thresholds == 1
    log_odds = np.log(X["p"]) - np.log1p(-X["p"])
    line = np.polynomial.Polynomial.fit(log_odds, scores, 1)
    np.testing.assert_allclose(scores, line(log_odds), atol=1e-4)
