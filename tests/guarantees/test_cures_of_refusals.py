"""A refusal names what would do, or says plainly why it names nothing."""

import ast
import contextlib
import re
import warnings
from collections import namedtuple
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost.guarantees import calibration, certifiable


def rows(n, seed, n_missing=6):
    """Rows with a score, of two wards; a few have no ward."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    ward = rng.choice(["A", "B"], n)
    ward[rng.choice(n, n_missing, replace=False)] = "?"
    ward = np.where(ward == "?", "missing", ward)
    table = pd.DataFrame({"p": p, "ward": ward})
    return table, (rng.random(n) < p).astype(int)


def refusal(limits, n=800, *, by_group=False, n_missing=6, seed=1):
    """Return the text of a refused calibration of one batch."""
    table, y = rows(n, seed, n_missing)
    score = tb.Scores("p", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(tb.NotCertifiedError) as error:
            tb.calibrate(score, table[["p"]], y, groups=table[["ward"]], by_group=by_group, limits=limits)
    return str(error.value)


def test_a_single_answer_keeps_the_precision_of_a_tiny_group():
    """By hand: of rows without the answer 1 the precision of 1 counts none; a miss rate counts all."""
    limits = ["f_score(1) >= 60%", "precision(1, by=ward) >= 60%"]
    said = refusal(limits, 2000, seed=3, by_group=True)
    (line,) = [line for line in said.split("\n") if "without a test" in line]
    assert line.startswith("A rule with the answer 0 to every row of missing keeps precision of 1 by ward")
    said = refusal(["miss(1, by=ward) <= 10%", "error() <= 30%"], 2000, by_group=True)
    assert "A rule with the answer 0" not in said


@pytest.mark.parametrize("limits", [["precision(1, by=ward) >= 60%"], ["precision(1, by=ward) >= 75%"]])
def test_no_answer_to_a_group_is_named_for_a_rule_that_does_not_read_groups(limits):
    said = refusal(limits, 2000)
    assert "missing" in said
    assert "to every row of" not in said


def test_no_rate_of_a_group_without_counted_rows_is_reached():
    """A group without an answer 1 has no precision: the refusal named "nan %" as the reached value."""
    line = namedtuple("line", "limit subgroup value bound")
    limit = tb.rates.precision(1, by="ward") >= 0.9
    estimates = [
        line(str(limit), "A", 0.95, 0.9),
        line(str(limit), "B", 0.91, 0.9),
        line(str(limit), "missing", np.nan, 0.9),
        line("another limit", "A", 0.1, 0.9),
    ]
    assert calibration._reached(estimates, limit) == "0.91 for B; no row counts for missing"


@pytest.mark.parametrize("seed", [1, 2])
def test_tiny_parts_of_the_level_give_no_advice(seed):
    """A hopeless group has a tiny part of the level. The advice divided by it, and by rounding by 0."""
    said = refusal(["precision(1, by=ward) >= 93%"], 900, by_group="ward", seed=seed)
    levels = [int(level) for level in re.findall(r"precision\(1, by='ward'\) >= (\d+)%", said)]
    assert all(level > 50 for level in levels)


def test_many_rows_are_said_to_be_the_reason(monkeypatch):
    monkeypatch.setattr(calibration, "MOST_ROWS_TRIED", 100)
    said = refusal(["f_score(1) >= 75%"], n_missing=0)
    assert "With more than 100 rows no looser limits are tried here, because this takes long. A" in said
    assert (
        "A failing limit may be certified on new rows if it is stated looser than its bound in the table"
        in said
    )


def test_a_slow_procedure_is_said_to_be_the_reason():
    said = refusal(["f_score(1) >= 75%"])
    assert "No looser limits are tried here: the procedure, fixed sequence, takes long for each. A" in said
    assert (
        "A failing limit may be certified on new rows if it is stated looser than its bound in the table"
        in said
    )


@pytest.mark.parametrize("would_certify", [False, None])
def test_limits_that_were_not_tried_are_not_said_to_fail(monkeypatch, would_certify):
    """An answer that takes long counted as a failure: limits were said to fail that nobody had tried."""
    monkeypatch.setattr(calibration.Calibration, "certified_within", lambda *_: would_certify)
    monkeypatch.setattr(calibration.Calibration, "drawn_chance", lambda *_: None)
    said = refusal(["precision(1, by=ward) >= 88%"], by_group="ward", n_missing=0)
    too_little = "Tried were 50 times as many rows, and looser limits for precision of 1 by ward"
    assert (too_little in said) is (would_certify is False)
    assert "* about" not in said
    assert ("Not all looser limits are tried here" in said) is (would_certify is None)


def subgroups(names, vacuous=1.0):
    return certifiable.Subgroups(names, [vacuous] * len(names))


@pytest.mark.parametrize("bound", [0.3, (("a", 0.3), ("b", 0.3), ("c", 0.02))])
def test_a_looser_limit_changes_failing_groups_alone_and_stays_away_from_a_vacuous_one(bound):
    """By hand: at most half of the way to 100 %: from 30 % to 65 %, from 2 % to 51 %."""
    limit = replace(tb.rates.parse("miss(1, by=g) <= 30%"), bound=bound)
    names = ["a", "b", "c"]
    last = 0.3 if bound == 0.3 else 0.02
    half = certifiable.loosened_limit(limit, subgroups(names), {"b": 0.5, "a": 0.0})
    assert dict(half.bound) == {"a": 0.3, "b": 0.48, "c": last}
    loosest = certifiable.loosened_limit(limit, subgroups(names), dict.fromkeys(names, 1.0))
    expected = 0.65 if bound == 0.3 else (("a", 0.65), ("b", 0.65), ("c", 0.51))
    assert loosest.bound == expected
    precision = tb.rates.parse("precision(1, by=g) >= 70%")
    of_one = certifiable.loosened_limit(precision, subgroups(names), {"c": 1.0})
    assert of_one.text == "precision(1, by='g') >= {'a': 70%, 'b': 70%, 'c': 35%}"


@pytest.mark.parametrize(
    ("stated", "vacuous", "loosest"),
    [(0.35, 0.85, 0.25), (0.35, 1.0, 0.18), (0.05, 1.0, 0.03), (0.16, 0.85, 0.16)],
)
def test_a_looser_limit_keeps_away_from_the_one_that_a_single_answer_keeps(stated, vacuous, loosest):
    """By hand: at most half of the way from the errors at a precision of 35 % to those of one answer."""
    limit = tb.rates.parse(f"precision(1) >= {stated}")
    looser = certifiable.loosened_limit(limit, subgroups([None], vacuous), {None: 1.0})
    assert looser.bound == pytest.approx(loosest)


def test_as_few_groups_as_possible_are_loosened_each_no_more_than_needed():
    """The chance is a product over groups, of which two fail: by brute force over all parts of the way."""
    limits = [tb.rates.parse("miss(1, by=g) <= 30%"), tb.rates.parse("precision(1, by=g) >= 70%")]
    names = [subgroups(["a", "b", "c"])] * 2

    def chance(tried):
        misses = dict(zip("abc", tried[0].bounds(["a", "b", "c"]), strict=True))
        return min(1.0, 0.2 + 4 * (misses["c"] - 0.3)) * min(1.0, 0.6 + 4 * (misses["b"] - 0.3)) * 0.99

    failing = [(0, "c"), (0, "b"), (0, "a"), (1, "c")]
    (cure,) = certifiable.certifiable_limits(limits, names, failing, chance)
    assert chance(cure) >= 0.95
    bounds = dict(cure[0].bound)
    assert bounds["a"] == 0.3
    assert cure[1] == limits[1]
    for group in "bc":
        tighter = tuple((name, bound - 0.03 * (name == group)) for name, bound in bounds.items())
        assert chance([replace(cure[0], bound=tighter), limits[1]]) < 0.95
    assert certifiable.certifiable_limits(limits, names, failing, lambda tried: 0.94) == []
    # One failed: one that passed is loosened with it, as long as no limits without it would do.
    (cure,) = certifiable.certifiable_limits(limits, names, failing[:1], chance, failing[1:])
    assert dict(cure[0].bound)["b"] > 0.3
    (cure,) = certifiable.certifiable_limits(
        limits,
        names,
        failing[:1],
        lambda tried: max(0.95 * (tried[0] != limits[0]), chance(tried)),
        failing[1:],
    )
    assert dict(cure[0].bound) == {"a": 0.3, "b": 0.3, "c": 0.31}


def test_each_label_or_group_without_selecting_rows_is_named():
    table, y = rows(2000, 0, 0)
    table.loc[0, "ward"] = "X"
    table.loc[1, "ward"] = "Y"
    with pytest.raises(ValueError, match=r"groups: ") as error:
        tb.calibrate(
            tb.Scores("p", 1), table[["p"]], y, groups=table[["ward"]], limits=["miss(1, by=ward) <= 90%"]
        )
    assert "'X' has 1 row" in str(error.value)
    assert "'Y' has 1 row" in str(error.value)


def test_groups_of_another_limit_are_no_cure_of_few_rows():
    """Reading sex cannot bring rows of a rare age."""
    rng = np.random.default_rng(0)
    n = 900
    y, score = (rng.random(n) < 0.4).astype(int), rng.random(n)
    groups = {"sex": rng.choice(["f", "m"], n), "age": np.where(np.arange(n) % 90 == 0, "old", "young")}
    limits = ["miss(1, by=sex) <= 35%", "miss(1, by=age) <= 35%"]
    model = tb.Scores("p", 1)
    with pytest.raises(tb.NotCertifiedError) as refusal:
        tb.calibrate(model, pd.DataFrame({"p": (score + y) / 2}), y, groups=groups, limits=limits)
    assert "old" in str(refusal.value)
    assert "by_group='sex'" not in str(refusal.value)


def toxic(n, seed):
    """Scores of four languages; 15 % of the rows are toxic, and the smallest language has poor scores."""
    rng = np.random.default_rng(seed)
    language = rng.choice(["en", "de", "fr", "ja"], n, p=[0.6, 0.2, 0.15, 0.05])
    y = (rng.random(n) < 0.15).astype(int)
    slope = pd.Series(language).map({"en": 1.8, "de": 1.5, "fr": 1.4, "ja": 1.0}).to_numpy()
    z = (2 * y - 1) * slope * 0.9 - 1 + 1.3 * rng.normal(size=n)
    return pd.DataFrame({"p": np.round(1 / (1 + np.exp(-z)), 4), "language": language}), y


def refusal_of_toxic(seed, limits):
    table, y = toxic(6000, seed)
    with pytest.raises(tb.NotCertifiedError) as error:
        tb.calibrate(tb.Scores("p", 1), table[["p"]], y, groups=table[["language"]], limits=limits)
    return str(error.value)


@pytest.mark.parametrize("seed", [2, 4, 5])
def test_looser_limits_are_broken_by_one_answer_and_loosen_what_failed(seed):
    """To answer 1 to all rows keeps any miss rate, and a precision up to the share of 1 in the rows."""
    limits = ["miss(1, by=language) <= 20%", "precision(1) >= 35%"]
    said = refusal_of_toxic(seed, limits)
    (failed,) = re.findall(r"Not certified: miss rate of 1 by language for ([\w, ]+)\.", said)
    found = re.findall(r"limits=(\[.*?\])", said)
    for text in found:
        misses, precision = map(tb.rates.parse, ast.literal_eval(text))
        assert precision.bound > toxic(6000, seed)[1].mean() + 0.05
        names = ["de", "en", "fr", "ja"]
        loosened = {name for name, bound in zip(names, misses.bounds(names), strict=True) if bound > 0.2}
        assert loosened <= set(re.findall(r"\w+", failed)) or "loosening certified ones" in said


def test_groups_are_to_be_read_only_if_a_limit_by_group_failed():
    said = refusal_of_toxic(2, ["miss(1, by=language) <= 90%", "error() <= 8%"])
    assert "Not certified: error: at most 8 %." in said
    assert "by_group" not in said


def wards(seed):
    """Scores of 1,200 patients; the ward C has 40 of them, of which 16 are ill."""
    rng = np.random.default_rng(seed)
    ward = np.repeat(["A", "B", "C"], [700, 460, 40])
    y = (rng.random(1200) < 0.35).astype(int)
    y[-40:] = np.arange(40) < 16
    score = 1 / (1 + np.exp(-(rng.normal(size=1200) + 2.6 * y - 0.8)))
    order = rng.permutation(1200)
    return pd.DataFrame({"p": score[order], "ward": ward[order]}), y[order]


def few_rows_refused(bound, clusters=None):
    table, y = wards(1)
    limits = [f"miss(1, by=ward) <= {bound}", "precision(1) >= 30%"]
    with pytest.raises(tb.NotCertifiedError, match="so few rows") as error:
        tb.calibrate(
            tb.Scores("p", 1), table[["p"]], y, groups=table[["ward"]], limits=limits, clusters=clusters
        )
    return error.value


def test_a_refusal_of_few_rows_names_those_of_the_batch_and_a_cure_that_works():
    refused = few_rows_refused("19%")
    (short,) = refused.shortfalls
    assert short.n < 16
    assert f"C (target 19 %) has {short.n} of 16 rows with label 1 (the others selected)" in str(refused)
    assert "let other rows select, so that all these rows certify (`tune` on them" in str(refused)
    # 16 rows without a miss are enough: .81^16 = .034 is below the level .045 of a first attempt.
    others, y_of_others = wards(2)
    limits = ["miss(1, by=ward) <= 19%", "precision(1) >= 30%"]
    rule = tb.tune(tb.Scores("p", 1), others[["p"]], y_of_others, groups=others[["ward"]], limits=limits)
    table, y = wards(1)
    certificate = tb.calibrate(rule, table[["p"]], y, groups=table[["ward"]]).certificate_
    assert [bound.n for bound in certificate.bounds if bound.subgroup == "C"] == [16]


def test_other_selecting_rows_are_no_cure_if_all_rows_are_too_few():
    """Of 16 rows without a miss .9^16 = .19 is far above any level of 5 %."""
    refused = few_rows_refused("10%")
    assert "of 16 rows with label 1 (the others selected)" in str(refused)
    assert "let other rows select" not in str(refused)


def test_clusters_are_counted_in_the_batch_too():
    """Two rows of one ward, next to each other in the table, are of one patient."""
    table, y = wards(1)
    patient = np.empty(1200, dtype=int)
    for ward in "ABC":
        for label in (0, 1):
            rows_there = np.flatnonzero((table["ward"] == ward) & (y == label))
            patient[rows_there] = 10_000 * "ABC".index(ward) + 5_000 * label + np.arange(len(rows_there)) // 2
    refused = few_rows_refused("19%", clusters=patient)
    (short,) = refused.shortfalls
    assert f"has {short.n} of 8 clusters of rows with label 1 (the others selected)" in str(refused)
    assert "let other rows select" not in str(refused)  # .81^8 = .19


def test_a_rule_selected_on_other_rows_has_all_rows_of_the_file():
    others, y_of_others = wards(2)
    table, y = wards(1)
    groups = others[["ward"]]
    rule = tb.tune(tb.Scores("p", 1), others[["p"]], y_of_others, groups=groups, limits=["miss(1) <= 30%"])
    limits = ["miss(1, by=ward) <= 10%", "precision(1) >= 30%"]
    with pytest.raises(tb.NotCertifiedError, match=r"C \(target 10 %\) has 16 rows with label 1; at"):
        tb.calibrate(rule, table[["p"]], y, groups=table[["ward"]], limits=limits)


def test_a_tested_refusal_of_one_batch_says_how_many_rows_select():
    table, y = wards(1)
    limits = ["error(by=ward) <= 12%"]
    with pytest.raises(tb.NotCertifiedError, match=r"on 840 rows; 360 others selected it\."):
        tb.calibrate(tb.Scores("p", 1), table[["p"]], y, groups=table[["ward"]], limits=limits)


def test_limits_by_group_of_a_rule_without_groups_have_a_cure_that_works():
    """The groups of the fresh rows do not help: the rows that selected have none."""
    table, y = wards(1)
    limits = ["miss(1, by=ward) <= 90%"]
    others, y_of_others = wards(2)
    scores, groups = others[["p"]], others[["ward"]]
    rule = tb.tune(tb.Scores("p", 1), scores, y_of_others, limits=["miss(1) <= 30%"])
    with pytest.raises(ValueError, match="fit or tune again with groups="):
        tb.calibrate(rule, table[["p"]], y, groups=table[["ward"]], limits=limits)
    assert not rule.ledger_.attempts
    again = tb.tune(tb.Scores("p", 1), scores, y_of_others, groups=groups, limits=["miss(1) <= 30%"])
    assert tb.calibrate(again, table[["p"]], y, groups=table[["ward"]], limits=limits).certificate_.certified


def test_a_group_with_too_few_rows_for_any_test_is_told_from_one_that_errs():
    """Without an error (1 − .28)^n ≤ .0045, the level of a second attempt, needs n = 17 rows."""
    rng = np.random.default_rng(3)
    n = 5000
    site = rng.choice(["A", "B", "C"], n, p=[0.6, 0.2, 0.2])
    site[:40] = "D"
    y = (rng.random(n) < 0.3).astype(int)
    score = rng.normal(size=n) + y * np.where(site == "B", 1.9, 2.6)
    order = rng.permutation(n)
    table = pd.DataFrame({"p": 1 / (1 + np.exp(2 - 1.6 * score)), "site": site}).iloc[order]
    limits = ["precision(1, by=site) >= 72%", "recall(1) >= 60%"]
    with pytest.raises(tb.NotCertifiedError) as refused:
        tb.calibrate(tb.Scores("p", 1), table[["p"]], y[order], groups=table[["site"]], limits=limits)
    said = str(refused.value)
    (short,) = refused.value.shortfalls
    assert 0 < short.n < 17
    assert 0.72**17 <= 0.1 * 0.9 * 0.05 < 0.72**16
    assert f"any test of the next attempt: precision of 1 by site: D has {short.n} rows, at least 17" in said
    freed = r"precision of 1 by site: D ([\d.]+) % without a bound"
    chance = rf" \(estimated probability 0\.\d+, overall error [\d.]+ %, {freed}\)\."
    without = ast.literal_eval(re.search(rf"Limits without a bound there: limits=(\[.*?\]){chance}", said)[1])
    assert without == ["precision(1, by='site') >= {'A': 72%, 'B': 72%, 'C': 72%}", "recall(1) >= 60%"]


def test_limits_without_the_weakest_group_are_named_if_looser_ones_there_would_not_pass():
    """Some 20 ill of the site c: no sensible limit passes there. The named limits certify ten new batches."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        site = rng.choice(["a", "b", "c"], 4000, p=[0.8, 0.15, 0.05])
        y = (rng.random(4000) < np.where(site == "c", 0.15, 0.3)).astype(int)
        score = 1.6 * (2 * y - 1) + 1.2 * (site == "b") - 1.0 * (site == "c") + 1.2 * rng.normal(size=4000)
        return score[:, None], y, {"site": site}

    model = tb.Scores(0, 1, kind="number")
    limits = [
        "miss(1, by=site) <= 35%",
        "false_alarm(1, by=site) <= 35%",
        "ratio(selected(0, by=site)) >= .55",
    ]
    X, y, groups = draw(4)
    with pytest.raises(tb.NotCertifiedError) as refused:
        tb.calibrate(model, X, y, groups=groups, limits=limits)
    (named,) = re.findall(r"as many with limits=(\[.*?\]): probability at least 0.9", str(refused.value))
    named = ast.literal_eval(named)
    assert named[0] == "miss(1, by='site') <= {'a': 35%, 'b': 35%}"
    assert re.search(r"miss rate of 1 by site: c \d+ % without a bound", str(refused.value))
    for seed in range(140, 150):
        X, y, groups = draw(seed)
        rule = tb.calibrate(model, X, y, groups=groups, limits=named, previous=refused.value)
        assert rule.certificate_.certified


def sites(n, seed):
    """Scores of three sites; the smallest one has the poorest."""
    rng = np.random.default_rng(seed)
    site = rng.choice(["north", "south", "west"], n, p=[0.55, 0.3, 0.15])
    y = (rng.random(n) < 0.3).astype(int)
    slope = pd.Series(site).map({"north": 1.2, "south": 1.0, "west": 0.75}).to_numpy()
    z = (2 * y - 1) * slope + rng.normal(size=n) - 0.5
    return pd.DataFrame({"p": 1 / (1 + np.exp(-1.6 * z)), "site": site}), y


def at_sites(seed, limits, **given):
    table, y = sites(3000, seed)
    return tb.calibrate(tb.Scores("p", 1), table[["p"]], y, groups=table[["site"]], limits=limits, **given)


def n_cured(said, refused, way, **given):
    """Return the limits of a way, and how many of six calibrations of new rows certify them."""
    cure = ast.literal_eval(re.search(rf"\* as many with {way}limits=(\[.*?\]): probability", said)[1])
    certified = 0
    for seed in range(50, 56):
        with contextlib.suppress(tb.NotCertifiedError):
            at_sites(seed, cure, previous=refused, **given)
            certified += 1
    return cure, certified


def test_a_looser_limit_on_deferral_is_a_cure_and_changes_no_limit_that_passed():
    errors = ["miss(1, by='site') <= 10%", "false_alarm(1, by='site') <= 20%"]
    with pytest.raises(
        tb.NotCertifiedError, match=r"Not certified: share deferred: at most 20 %\."
    ) as refused:
        at_sites(1, [*errors, "deferred() <= 20%"])
    cure, certified = n_cured(str(refused.value), refused.value, "")
    assert cure[:2] == errors
    assert float(re.fullmatch(r"deferred\(\) <= (\d+)%", cure[2])[1]) > 20
    assert certified >= 4


def test_a_limit_on_deferral_is_a_cure_of_limits_on_errors():
    errors = ["miss(1, by='site') <= 8%", "false_alarm(1, by='site') <= 30%"]
    given = {"by_group": "site"}
    with pytest.raises(tb.NotCertifiedError, match="Not certified: miss rate of 1 by site") as refused:
        at_sites(1, errors, **given)
    cure, certified = n_cured(str(refused.value), refused.value, "people for some rows, ", **given)
    assert cure[:2] == errors
    assert re.fullmatch(r"deferred\(\) <= \d+%", cure[2])
    assert certified >= 4
