"""Limits with room, together with limits kept by ranks."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import tailboost as tb
from tailboost.guarantees.one_sided import BesideRoom, windows
from tailboost.guarantees.shares import Share
from tailboost.rates import false_alarm, miss
from tailboost.selection.data import BEYOND, ScoredRows

# Shares of the groups of a population: the last group has no separate limit, and few rows or none.
SHARE = np.array([0.5, 0.3, 0.19, 0.01])
SHIFT = np.array([2.0, 1.5, 2.2, 0.5])  # of the scores of the ill
PART_OF_WOMEN = np.array([0.5, 0.2, 0.8, 0.9])
MISSED, MISSED_BY_SEX, ALARMS = 0.35, 0.35, 0.5


@pytest.mark.parametrize("answer", [0, 1])
def test_thresholds_of_a_window_are_all_those_within_the_rank(answer):
    """Of thresholds beside the scores, with ties, a separate one for each place, and every possible rank."""
    scores = np.array([3.0, 1.0, 1.0, 2.0, 5.0, 5.0, 4.0])
    place = np.array([0, 0, 0, 0, 1, 1, 1])
    rows = ScoredRows(scores, place, np.zeros((len(scores), 2)))
    beside = np.arange(0.5, 6.0)
    for number in (0, 1):
        own = np.flatnonzero(place == number)
        share = Share(miss(1) <= MISSED, None, own, answer, MISSED)
        for rank in range(-1, len(own) + 1):
            lowest, highest = windows([share], rows, 2, [rank])
            is_answer_1 = scores[own] > beside[:, None]
            n_answers = (is_answer_1 == answer).sum(axis=1)
            inside = (lowest[number] < beside) & (beside < highest[number])
            assert inside.tolist() == (n_answers <= rank).tolist()
            assert (lowest[1 - number], highest[1 - number]) == (-np.inf, np.inf)


def population(n_values):
    """Return scores of so many values, classes, groups and sexes: 40,000 rows, drawn with replacement."""
    rng = np.random.default_rng(0)
    n = 40_000
    group = rng.choice(4, n, p=SHARE)
    ill = (rng.random(n) < 0.4).astype(int)
    sex = (rng.random(n) < PART_OF_WOMEN[group]).astype(int)
    score = rng.normal(size=n) + ill * (SHIFT[group] - 0.4 * sex)
    values = np.linspace(-3.0, 5.0, n_values)
    return values[np.searchsorted(values[:-1], score)], ill, group, sex


def broken_limits(rows, thresholds):
    """Return the broken limits of thresholds by group in a population: by group, by sex, or false alarms."""
    scores, ill, group, sex = rows
    is_ill = ill == 1
    answer = scores > thresholds[group]
    broken = set()
    if max(1 - answer[is_ill & (group == g)].mean() for g in range(3)) > MISSED:
        broken.add("group")
    if max(1 - answer[is_ill & (sex == s)].mean() for s in (0, 1)) > MISSED_BY_SEX:
        broken.add("sex")
    if max(answer[~is_ill & (group == g)].mean() for g in range(3)) > ALARMS:
        broken.add("alarms")
    return broken


def beside_room(rows, seed, n, level, cheap_answer):
    """Misses by group at ranks, misses by sex and all false alarms along a line; one answer is cheap."""
    rng = np.random.default_rng(seed)
    fresh = rng.integers(len(rows[0]), size=n)
    selects = rng.integers(len(rows[0]), size=n)
    scores, ill, group, sex = (column[fresh] for column in rows)
    values = np.unique(rows[0])
    line = values[np.searchsorted(values, 1.0 + rng.normal(scale=0.4, size=4))]
    limits = [miss(1, by="g") <= MISSED, miss(1, by="sex") <= MISSED_BY_SEX, false_alarm(1, by="g") <= ALARMS]
    ranked = [Share(limits[0], g, np.flatnonzero((group == g) & (ill == 1)), 0, MISSED) for g in range(3)]
    joint = [Share(limits[1], s, np.flatnonzero((sex == s) & (ill == 1)), 0, MISSED_BY_SEX) for s in (0, 1)]
    roomy = [Share(limits[2], g, np.flatnonzero((group == g) & (ill == 0)), 1, ALARMS) for g in range(3)]
    losses = np.zeros((n, 2))
    losses[:, 1 - cheap_answer] = 1.0
    selected = ScoredRows(rows[0][selects], rows[2][selects], losses)
    family = SimpleNamespace(n_thresholds=4)
    return BesideRoom(
        family, ranked, roomy, joint, line, ScoredRows(scores, group, losses), selected, level, 0.1
    )


@pytest.mark.parametrize(
    ("n_values", "n", "draws"),
    [(12, 1000, 200), (30, 500, 200), (40_000, 800, 200)],
)
@pytest.mark.parametrize("cheap_answer", [0, 1])
def test_certificates_are_false_at_most_at_the_level(n_values, n, draws, cheap_answer):
    """The loss pulls all thresholds towards the limits. The last group has few fresh rows, or none."""
    level = 0.1
    rows = population(n_values)
    false = certified = 0
    for seed in range(draws):
        thresholds = beside_room(rows, seed, n, level, cheap_answer).thresholds()
        if thresholds is None:
            continue
        certified += 1
        false += bool(broken_limits(rows, thresholds))
    assert certified > draws / 10
    assert binom.sf(false - 1, draws, level) >= 0.001


def made(seed, n, shift=1.0):
    """Scores, labels and two columns of groups of n rows; the score of each site is shifted."""
    rng = np.random.default_rng(seed)
    site, sex = rng.integers(3, size=n), rng.integers(2, size=n)
    y = (rng.random(n) < 0.3).astype(int)
    number = rng.normal(size=n) + 1.5 * y + shift * site
    scores = pd.DataFrame({"p": 1 / (1 + np.exp(-(1.5 * number - 2)))})
    return scores, y, {"site": np.array(list("abc"))[site], "sex": np.array(list("fm"))[sex]}


def certified(seed, n, *further, grades=None):
    """The rule of misses by site with further limits, on scores of few values if ``grades`` is a number."""
    X, y, groups = made(seed, n)
    if grades:
        X = (X * grades).round() / grades
    limits = ["miss(1, by=site) <= 25%", *further]
    return tb.calibrate(tb.Scores("p", 1), X, y, groups=groups, limits=limits, by_group="site")


@pytest.mark.parametrize("grades", [None, 20])
def test_a_further_limit_with_room_costs_nothing(grades):
    """Misses by sex ≤ 70 %, or false alarms by site ≤ 97 %, give nearly the rule of misses by site."""
    X, y, groups = made(99, 20_000)
    if grades:
        X = (X * grades).round() / grades
    errors = []
    for limits in ([], ["miss(1, by=sex) <= 70%"], ["false_alarm(1, by=site) <= 97%"]):
        rules = [certified(seed, 2_500, *limits, grades=grades) for seed in range(2)]
        answers = [rule.predict(X, groups={"site": groups["site"]}) for rule in rules]
        errors.append(np.mean([(answer != y).mean() for answer in answers]))
        for rule in rules:
            notes = " ".join(rule.certificate_.notes)
            assert ("predicted much room" in notes) == bool(limits)
            assert {bound.method for bound in rule.certificate_.bounds} == {"ranks"}
    assert max(errors) <= errors[0] + 0.004


@pytest.mark.parametrize("further", ["miss(1, by=sex) <= 20%", "false_alarm(1) <= 97%"])
def test_other_procedures_have_limits_without_room_and_joint_ones_on_the_other_answer(further):
    rule = certified(0, 3_000, further)
    assert "much room" not in " ".join(rule.certificate_.notes)


def test_the_line_bounds_the_threshold_of_a_group_without_fresh_rows():
    """A limit on all rows does not follow from the limits of the groups with fresh rows."""
    scores = np.linspace(-2.0, 2.0, 400)
    limits = [miss(1, by="g") <= 0.9, miss(1) <= 0.5]
    everyone = np.arange(400)
    losses = np.tile([0.0, 1.0], (400, 1))  # the answer 0 is cheap
    fresh = ScoredRows(scores, np.zeros(400, dtype=np.intp), losses)
    elsewhere = ScoredRows(scores, np.ones(400, dtype=np.intp), losses)
    family = SimpleNamespace(n_thresholds=2)
    shares = [Share(limit, None, everyone, 0, bound) for limit, bound in zip(limits, (0.9, 0.5), strict=True)]
    room = BesideRoom(family, shares[:1], [], shares[1:], np.zeros(2), fresh, elsewhere, 0.05, 0.1)
    thresholds = room.thresholds()
    assert (thresholds < 0.0).all()
    assert (thresholds > -1.0).all()
    alone = BesideRoom(family, shares[:1], [], [], np.zeros(2), fresh, elsewhere, 0.05, 0.1).thresholds()
    assert alone[1] == BEYOND
