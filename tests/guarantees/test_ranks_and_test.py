"""Limits by group on one class, by ranks, together with limits on all rows of the other class, by a test."""

import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

import tailboost as tb
from tailboost.exceptions import NotCertifiedError
from tailboost.guarantees.calibration import PROCEDURES
from tailboost.guarantees.ranks_and_test import RanksAndTest, thresholds_at_ranks, with_least_loss
from tailboost.guarantees.shares import Share
from tailboost.rates import false_alarm, miss
from tailboost.selection.data import ScoredRows

SHARE = np.array([0.6, 0.3, 0.1])
ILL = np.array([0.4, 0.5, 0.3])
SHIFT = np.array([2.0, 1.5, 2.2])  # of the scores of the ill


def drawn(seed, n, grades=None):
    """Scores, labels and groups of n rows; scores of few values if ``grades`` is a step."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=SHARE)
    ill = (rng.random(n) < ILL[group]).astype(int)
    score = rng.normal(size=n) + ill * SHIFT[group]
    if grades:
        score = np.round(score / grades) * grades
    return pd.DataFrame({"s": score}), ill, pd.DataFrame({"g": group})


def calibrated(rows, missed, alarms, **options):
    """The certified rule of both limits."""
    table, ill, groups = rows
    return tb.calibrate(
        tb.Scores("s", 1, kind="number"),
        table,
        ill,
        groups=groups,
        limits=[f"miss(1, by=g) <= {missed}", f"false_alarm(1) <= {alarms}"],
        by_group="g",
        **options,
    )


def true_rates(rule, grades=None):
    """The true share of misses in each group, and of false alarms, of thresholds by group."""
    ends = [band[-1] for band in rule.rule_.bands]  # of the answer 1, unless one answer is given to all
    cut = np.array([-9.0 if end is None else end for end, _ in ends])
    if grades:
        cut = np.ceil(cut / grades - 1e-9) * grades - grades / 2
    well = SHARE * (1 - ILL)
    return norm.cdf(cut - SHIFT), norm.sf(cut) @ well / well.sum()


def test_a_threshold_at_a_rank_leaves_so_many_rows_beyond_it():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 12, 60) / 2.0
    place = np.repeat([0, 1], 30)
    rows = ScoredRows(scores, place, np.zeros((60, 2)))
    limit = miss(1) <= 0.5
    for answer in (0, 1):
        shares = [Share(limit, g, np.flatnonzero(place == g), answer, 0.5) for g in (0, 1)]
        for rank in range(29):
            ends = thresholds_at_ranks(shares, [rank, rank], rows, np.zeros(2))
            for share, end in zip(shares, ends, strict=True):
                own = scores[share.rows]
                beyond = [(own <= cut).sum() if answer == 0 else (own > cut).sum() for cut in (end,)]
                assert beyond[0] <= rank
                further = end + 1e-6 if answer == 0 else end - 1e-6
                assert ((own <= further) if answer == 0 else (own > further)).sum() > rank


def test_a_threshold_keeps_the_limits_of_a_group_and_of_its_parts():
    """Misses by group, and by group and sex: the stricter of both decides."""
    table, ill, groups = drawn(5, 3000)
    groups["sex"] = np.random.default_rng(5).choice(["f", "m"], 3000)
    table.loc[(groups["sex"] == "f") & (ill == 1), "s"] -= 1.0
    bounds = {"g": 0.3, ("g", "sex"): 0.6}
    limits = [*(miss(1, by=by) <= bound for by, bound in bounds.items()), false_alarm(1) <= 0.6]
    rule = tb.calibrate(
        tb.Scores("s", 1, kind="number"), table, ill, groups=groups, limits=limits, by_group="g"
    )
    for bound in rule.certificate_.bounds[:-1]:
        spare = binom.cdf(bound.estimate * bound.n, bound.n, bounds[bound.counted.by])
        assert spare <= 0.9 * 0.05 / 3


def test_the_least_loss_is_taken_within_the_safest_threshold():
    scores = np.linspace(-3, 3, 61)
    losses = np.column_stack([scores > 0.5, scores <= 0.5]).astype(float)  # least at .5
    rows = ScoredRows(scores, np.zeros(61, dtype=int), losses)
    for answer, safest, end in ((0, 2.0, 0.55), (0, -1.0, -1.0), (1, -2.0, 0.55), (1, 1.0, 1.0)):
        (best,) = with_least_loss(np.array([safest]), answer, rows)
        assert best == pytest.approx(end, abs=0.051)


def test_a_limit_with_room_costs_nothing():
    """False alarms ≤ 60 %, where about 20 % are made: the rule is that of the misses alone, or nearly."""
    rows, further = drawn(1, 3000), drawn(2, 30_000)
    table, ill, groups = rows
    alone = tb.calibrate(
        tb.Scores("s", 1, kind="number"),
        table,
        ill,
        groups=groups,
        limits=["miss(1, by=g) <= 0.1"],
        by_group="g",
    )
    both = calibrated(rows, 0.1, 0.6)
    errors = [(rule.predict(further[0], groups=further[2]) != further[1]).mean() for rule in (alone, both)]
    assert errors[1] <= errors[0] + 0.01


def test_the_other_class_is_not_read_before_its_test(monkeypatch):
    """With other scores of the well fresh rows, the rules that are tested are the same."""
    tested = []
    by = RanksAndTest.keeps_joint_limits

    def keeps(procedure, answered):
        tested.append(str(answered.model.rule_))
        return by(procedure, answered)

    monkeypatch.setattr(RanksAndTest, "keeps_joint_limits", keeps)
    table, ill, groups = drawn(3, 2000)
    selecting, fresh = np.arange(600), np.arange(600, 2000)
    well = fresh[ill[fresh] == 0]
    rule = tb.tune(
        tb.Scores("s", 1, kind="number"),
        table.iloc[selecting],
        ill[selecting],
        groups=groups.iloc[selecting],
        limits=["miss(1, by=g) <= 0.2", "false_alarm(1) <= 0.5"],
        by_group="g",
    )
    sequences = []
    for shift in (0.0, 0.013, -0.4):
        tested.clear()
        other = table.copy()
        other.loc[well, "s"] += shift
        tb.calibrate(copy.deepcopy(rule), other.iloc[fresh], ill[fresh], groups=groups.iloc[fresh])
        sequences.append(list(tested))
    assert len(sequences[0]) > 1
    assert sequences[0] == sequences[1] == sequences[2]


def test_the_first_procedure_that_applies_is_this_one_only_beside_a_joint_limit():
    assert RanksAndTest in PROCEDURES
    rows = drawn(4, 2000)
    for limits in (["miss(1, by=g) <= 0.2"], ["miss(1, by=g) <= 0.2", "selected(1) <= 0.9"]):
        tb.calibrate(
            tb.Scores("s", 1, kind="number"),
            rows[0],
            rows[1],
            groups=rows[2],
            limits=limits,
            by_group="g",
        )


@pytest.mark.parametrize(
    ("sizes", "n"), [((400, 300, 250), 900), ((80, 90, 120), 200), ((1000, 40, 60), 2000)]
)
def test_ranks_and_the_test_divide_the_level(sizes, n):
    """Each limit at its bound is broken with the binomial probability of its count: at most .05 together."""
    run = RanksAndTest(None, None, 0.05)
    limits = miss(1, by="g") <= 0.3, false_alarm(1) <= 0.25
    ranked = [Share(limits[0], g, np.arange(size), 0, 0.3) for g, size in enumerate(sizes)]
    joint = Share(limits[1], None, np.arange(n), 1, 0.25)
    run.__dict__ |= {"family": SimpleNamespace(n_thresholds=3), "ranked": ranked, "joint": [joint]}

    def keeps(n_counted):
        answers = (np.arange(n) < n_counted).astype(int)
        return run.keeps_joint_limits(SimpleNamespace(answered=SimpleNamespace(actions=answers)))

    most = max(k for k in range(n) if keeps(k))
    ranks = np.array(run.ranks)
    false = binom.cdf(ranks, sizes, 0.3).sum() + binom.cdf(most, n, 0.25)
    assert false <= 0.05
    # One row more in each is too much.
    assert binom.cdf(ranks + 1, sizes, 0.3).sum() + binom.cdf(most + 1, n, 0.25) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "grades", "missed", "alarms"),
    [(500, None, 0.25, 0.3), (500, 0.5, 0.25, 0.35), (1500, None, 0.2, 0.24), (1500, 0.5, 0.2, 0.35)],
)
def test_certificates_at_the_boundary_are_false_no_more_often_than_stated(n, grades, missed, alarms):
    """At 80 % confidence, with bounds near the true rates of the certified rules."""
    draws, false, certified = 200, 0, 0
    for seed in range(draws):
        try:
            rule = calibrated(drawn([seed, n], n, grades), missed, alarms, confidence=0.8)
        except (NotCertifiedError, ValueError):  # few selecting rows: infeasible, or a group without rows
            continue
        certified += 1
        misses, alarmed = true_rates(rule, grades)
        false += bool((misses > missed).any() or alarmed > alarms)
    assert certified >= draws / 10
    assert binom.sf(false - 1, draws, 0.2) >= 0.001
