"""The limit with the largest cost for a certified rule, compared with a calibration without this limit."""

from __future__ import annotations

import ast
import copy
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tailboost as tb
from tailboost.core.spelling import speaking_to_the_shell
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.forced import without_subgroup
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.rates import checked_limits
from tailboost.selection import data
from tailboost.selection.engine import ProbabilityEngine


def scores(n, seed, share=0.05):
    """Return scores of a large group and of a small group with noisier scores."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < share, "few", "many")
    label = rng.integers(0, 2, n)
    noise = np.where(group == "few", 1.6, 1.0) * rng.normal(size=n)
    return (2.0 * label - 1.0 + noise)[:, None], label, group


def calibrated(limits, n=3000, **params):
    X, y, groups = scores(n, 0)
    model = tb.Scores(0, 1, kind="logit")
    rule = tb.tune(model, X[: n // 2], y[: n // 2], groups=groups[: n // 2], limits=limits, **params)
    fresh = X[n // 2 :], y[n // 2 :], groups[n // 2 :]
    return rule, fresh


def test_the_small_group_forces_the_rule_and_costs_what_a_calibration_without_it_saves():
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= .4"])
    free = copy.deepcopy(rule)
    certificate = tb.calibrate(rule, X, y, groups=groups).certificate_
    forced = certificate.forced_by
    small = next(b for b in certificate.bounds if b.subgroup == "few")
    assert (forced.name, forced.n) == ("few", small.n)
    assert forced.room == pytest.approx(
        (0.4 - small.estimate) / np.sqrt(small.estimate * (1 - small.estimate) / small.n)
    )
    other = tb.calibrate(free, X, y, groups=groups, limits=["miss(1, by=group) <= {many: .4}"])
    assert forced.without == pytest.approx(np.mean(other.predict(X) != y), abs=0.01)
    assert forced.error == pytest.approx(certificate.price[0].certified)
    assert forced.without == forced.error
    printed = re.search(
        r"The limit on few \(47 rows\) has the least room, and adds at most (\S+) to the error \(95 %\)",
        str(certificate),
    )
    assert float(printed[1]) > 0.0  # no row differs: the interval is around 0


def test_a_limit_forces_the_rule_only_if_its_price_is_above_noise():
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= .25"])
    free = copy.deepcopy(rule)
    certified = tb.calibrate(rule, X, y, groups=groups)
    forced = certified.certificate_.forced_by
    other = tb.calibrate(free, X, y, groups=groups, limits=["miss(1, by=group) <= {many: .25}"])
    differences = (certified.predict(X) != y).astype(float) - (other.predict(X) != y)
    assert forced.noise == pytest.approx(differences.std() / np.sqrt(len(X)), rel=0.05)
    assert forced.forces
    paid = forced.error - forced.without
    of_one = replace(forced, n_freed=1, noise=paid / 2.3)
    assert of_one.forces
    assert not replace(of_one, n_freed=4).forces  # the least of four errors needs 2.50 standard errors
    assert replace(of_one, n_freed=4, noise=paid / 2.9).forces
    low, high = (paid * (1 + sign * norm.isf(0.025) / 4) for sign in (-1, 1))
    printed = str(replace(of_one, noise=paid / 4))
    assert (
        f" raises the error by {np.floor(1000 * low) / 1000} to {np.ceil(1000 * high) / 1000} (95 %)."
        in printed
    )
    in_noise = replace(forced, noise=paid / 1.9)
    words = f"The limit on few ({forced.n} rows) has the least room, "
    words += "and adds at most "
    assert str(in_noise).startswith(words)
    assert not in_noise.forces
    assert str(replace(forced, without=forced.error)).startswith(words)


def test_printed_prices_of_a_limit_contain_the_true_price():
    """True errors are those on 40,000 further rows; the price is that of a calibration without the limit.

    A limit beyond noise is said to raise the error, so these estimates alone are too large by a half.
    """
    model = tb.Scores(0, 1, kind="number")

    def rows(n, seed):
        rng = np.random.default_rng([seed, 3])
        sex = np.where(rng.random(n) < 0.3, "f", "m")
        x = rng.normal(size=n) + 0.8 * (sex == "m")
        y = (rng.random(n) < 1 / (1 + np.exp(0.6 - 1.3 * x))).astype(int)
        return (x + 0.3 * rng.normal(size=n))[:, None], y, {"sex": sex}

    X_new, y_new, new = rows(40_000, 99)
    contained, leads = [], []
    for seed in range(60):
        X, y, groups = rows(1000, seed)
        given = {"groups": groups, "by_group": "sex", "limits": ["gap(selected(1, by=sex)) <= .1"]}
        certified = tb.calibrate(model, X, y, **given)
        forced = certified.certificate_.forced_by
        printed = re.search(r"(?:raises the error by (\S+) to|adds at most) (\S+) .*\(95 %\)", str(forced))
        selected = tb.tune(model, X, y, groups=groups, by_group="sex")
        errors = [np.mean(rule.predict(X_new, groups=new) != y_new) for rule in (certified, selected)]
        low, high = (float(end or -1.0) for end in printed.groups())
        contained.append(low <= errors[0] - errors[1] <= high)
        if forced.forces:
            leads.append([forced.error - forced.without, errors[0] - errors[1]])
    assert np.mean(contained) >= 0.9
    assert len(leads) >= 10
    printed_price, true_price = np.mean(leads, axis=0)
    assert printed_price > 1.3 * true_price


@pytest.mark.parametrize("further", [[], ["deferred <= 20%"]])
def test_the_price_of_a_limit_on_thresholds_selects_no_further_rule(further, monkeypatch):
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= .25", *further], by_group=True)
    selected = []
    select = ProbabilityEngine.select
    monkeypatch.setattr(
        ProbabilityEngine,
        "select",
        lambda engine, problem: selected.append(problem) or select(engine, problem),
    )
    certificate = tb.calibrate(rule, X, y, groups=groups).certificate_
    assert certificate.forced_by.without is not None
    assert not selected


@pytest.mark.parametrize("further", [[], ["false_alarm(1) <= 90%"]])  # beside room, or none
def test_the_price_of_limits_sorts_the_same_scores_once(further, monkeypatch):
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= .25", *further])
    scores_sorted = []
    possible_thresholds = data.possible_thresholds
    monkeypatch.setattr(
        data,
        "possible_thresholds",
        lambda scores: scores_sorted.append(scores.tobytes()) or possible_thresholds(scores),
    )
    certificate = tb.calibrate(rule, X, y, groups=groups).certificate_
    assert certificate.forced_by.without is not None
    assert ("much room" in str(certificate.notes)) == bool(further)
    assert len(scores_sorted) == len(set(scores_sorted)) > 0


def test_a_limit_forces_the_rule_if_the_error_is_lower_without_it():
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= .25"])
    free = copy.deepcopy(rule)
    certificate = tb.calibrate(rule, X, y, groups=groups).certificate_
    other = tb.calibrate(free, X, y, groups=groups, limits=["miss(1, by=group) <= {many: .25}"])
    assert np.mean(other.predict(X) != y) < certificate.price[0].certified - 0.01
    limited = certificate.forced_by
    assert f"The limit on few ({limited.n} rows) raises the error" in str(certificate)
    assert limited.without == pytest.approx(np.mean(other.predict(X) != y), abs=0.005)


@pytest.mark.parametrize(("bases", "certified"), [((0.3, 0.7), True), ((0.1, 0.5), False)])
def test_thresholds_by_group_are_a_way_out_of_a_ratio_with_one_threshold(bases, certified):
    """The advice is feasible. One answer keeps the ratio, so no rule with more errors is certified."""
    rng = np.random.default_rng(1)
    n = 4000
    code = rng.integers(0, 2, n)
    y = (rng.random(n) < np.array(bases)[code]).astype(int)
    sex = np.array(["f", "m"])[code]
    X = (rng.normal(size=n) + 1.6 * y + np.log(bases[1] / bases[0]) * code)[:, None]
    given = {"groups": {"sex": sex}, "limits": ["ratio(selected(1, by=sex)) >= .8"]}
    model = tb.Scores(0, 1, kind="number")
    if certified:
        certificate = tb.calibrate(model, X, y, **given).certificate_
        assert "Thresholds by group (by_group='sex')" in str(certificate.forced_by)
        blind_error = certificate.price[0].certified
        assert blind_error < min(y.mean(), 1 - y.mean())
    else:
        with pytest.raises(tb.NotCertifiedError, match=r"as many with by_group='sex', which may give"):
            tb.calibrate(model, X, y, **given)
        blind_error = y.mean()
    aware = tb.calibrate(model, X, y, **given, by_group="sex").certificate_
    assert aware.price[0].certified < blind_error


def test_ways_out_of_a_costly_limit_of_one_group_are_named_and_lower_the_error():
    """The advice can be followed: the named parameter gives a certified rule with fewer errors."""
    rng = np.random.default_rng(0)
    n = 6000
    site = np.where(rng.random(n) < 0.03, "few", "many")
    y = rng.integers(0, 2, n)
    X = (2.0 * (2 * y - 1) - 3.0 * (site == "few") + rng.normal(size=n))[:, None]
    given = {"groups": {"site": site}, "limits": ["miss(1, by=site) <= 25%"]}
    blind = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, **given).certificate_
    aware = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, **given, by_group="site").certificate_
    assert aware.certified
    assert aware.price[0].certified < 0.5 * blind.price[0].certified
    forced = blind.forced_by
    assert forced.apart == pytest.approx(aware.price[0].certified, abs=0.005)
    words = r"Thresholds by group \(by_group='site'\) would err less, by (\S+) points on these rows, and need"
    saved = 100 * (blind.price[0].certified - aware.price[0].certified)
    assert float(re.search(words, str(blind))[1]) == pytest.approx(saved, abs=0.5)
    with speaking_to_the_shell():
        assert "--by-group site" in str(blind)
    assert "by_group" not in forced.without_cures
    assert "Thresholds by group would err less" in forced.without_cures
    assert "Thresholds by group" not in str(aware)
    within_noise = replace(forced, apart_noise=(forced.error - forced.apart) / 1.9)
    assert "Thresholds by group" not in str(within_noise)
    assert "Thresholds by group" in str(replace(forced, apart_noise=(forced.error - forced.apart) / 2.2))


@pytest.mark.parametrize("shift", [3.0, 0.0])
def test_a_selection_names_thresholds_by_group_before_rows_certify(shift):
    """Where a threshold for all sites is dear, the fit says by how much; where sites are alike, nothing."""
    rng = np.random.default_rng(0)
    n = 6000
    site = np.where(rng.random(n) < 0.1, "few", "many")
    y = rng.integers(0, 2, n)
    X = (1.5 * (2 * y - 1) - shift * (site == "few") + rng.normal(size=n))[:, None]
    given = {"groups": {"site": site}, "limits": ["miss(1, by=site) <= 25%"]}
    score = tb.Scores(0, 1, kind="logit")
    blind = tb.tune(score, X[:3000], y[:3000], **{**given, "groups": {"site": site[:3000]}})
    sentence = blind.summary_.saved_by_reading
    assert sentence in str(blind.summary_)
    assert sentence in str(blind)
    if not shift:
        assert not sentence
        return
    words = r"Thresholds by group \(by_group='site'\) would err less, by (\S+) points on these rows and often"
    aware = tb.tune(score, X[:3000], y[:3000], **{**given, "groups": {"site": site[:3000]}}, by_group="site")
    wrong = [blind.predict(X) != y, aware.predict(X, groups={"site": site}) != y]
    here, on_new_rows = (
        100 * (wrong[0][rows] * 1.0 - wrong[1][rows]).mean() for rows in (slice(3000), slice(3000, n))
    )
    assert float(re.search(words, sentence)[1]) == pytest.approx(here, rel=0.05)
    assert 0 < on_new_rows < here
    assert not aware.summary_.saved_by_reading
    assert not tb.tune(score, X[:3000], y[:3000], limits=["miss(1) <= 25%"]).summary_.saved_by_reading
    with speaking_to_the_shell():
        assert "--by-group site" in blind.reweight(limits=given["limits"]).summary_.saved_by_reading


def test_thresholds_by_group_are_not_named_where_they_gain_nothing():
    """The large site costs the error, and few rows of the easy site gain by a threshold of their own."""
    rng = np.random.default_rng(0)
    n = 6000
    site = np.where(rng.random(n) < 0.01, "easy", "large")
    y = (rng.random(n) < 0.4).astype(int)
    X = ((2.0 * y - 1.0) * np.where(site == "easy", 1.3, 1.0) + rng.normal(size=n))[:, None]
    given = {"groups": {"site": site}, "limits": ["miss(1, by=site) <= {large: 5%, easy: 50%}"]}
    certificate = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, **given).certificate_
    forced = certificate.forced_by
    aware = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, **given, by_group="site").certificate_
    assert forced.error > 1.25 * certificate.price[0].given
    assert forced.apart == pytest.approx(aware.price[0].certified, abs=0.01)
    assert forced.error - forced.apart < 1.64 * forced.apart_noise
    assert "Thresholds by group" not in str(forced)


def test_a_warning_of_a_useless_rule_names_thresholds_by_group_only_if_they_pay():
    rng = np.random.default_rng(3)
    n = 4000
    sex = np.where(rng.random(n) < 0.3, "f", "m")
    y = (rng.random(n) < np.where(sex == "f", 0.2, 0.1)).astype(int)
    X = (rng.normal(size=n) + 0.5 * y + 0.8 * (sex == "f"))[:, None]
    given = {"groups": {"sex": sex}, "limits": ["gap(selected(1, by=sex)) <= 5%"]}
    model = tb.Scores(0, 1, kind="number")
    with pytest.warns(tb.UselessRuleWarning, match="To err less, bring more rows, or state other limits"):
        forced = tb.calibrate(model, X, y, **given).certificate_.forced_by
    assert forced.by_group == "sex"
    with pytest.warns(tb.UselessRuleWarning):
        aware = tb.calibrate(model, X, y, **given, by_group="sex").certificate_
    assert aware.price[0].certified > forced.error - 0.005


def guessing(separation):
    """Return a certified rule that may defer, its fresh rows and the warnings of useless rules."""
    rng = np.random.default_rng(1)
    y = (rng.random(8_000) < 0.11).astype(int)
    X = (separation * y + rng.normal(size=8_000))[:, None]
    given = {"limits": ["miss(1) <= 15%", "deferred <= 20%"]}
    rule = tb.tune(tb.Scores(0, 1, kind="logit"), X[:4_000], y[:4_000], **given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        certified = tb.calibrate(rule, X[4_000:], y[4_000:])
    return (
        certified,
        X[4_000:],
        y[4_000:],
        [str(w.message) for w in caught if "a random guess" in str(w.message)],
    )


@pytest.mark.filterwarnings("ignore")
def test_a_rule_that_defers_and_errs_no_less_than_a_random_guess_is_named_useless():
    certified, X, y, (words,) = guessing(0.0)
    is_deferred = certified.defers(X)
    wrong = (certified.predict(X, deferred="review").astype(str) != y.astype(str)) & ~is_deferred
    ill, deferred = y.mean(), is_deferred.mean()
    assert deferred > 0.02
    # The answer 0 to 15 % of the rows at random, deferral of as many as the rule, otherwise 1.
    guess = 0.15 * ill + (1 - 0.15 - deferred) * (1 - ill)
    assert wrong.mean() >= guess
    assert (
        f"errs in {wrong.mean():.3g} of these rows, and a random guess within the limits that defers no "
        f"more rows in {guess:.3g}. 0 to every row errs in {ill:.3g}, but breaks a limit."
    ) in words


@pytest.mark.filterwarnings("ignore")
def test_a_rule_better_than_a_random_guess_is_not():
    *_, words = guessing(1.5)
    assert not words


def test_thresholds_by_group_are_made_only_if_the_rule_errs_more_than_the_given_answers(monkeypatch):
    made = []
    read_by = FreshRows.read_by
    monkeypatch.setattr(FreshRows, "read_by", lambda *rows: made.append(rows) or read_by(*rows))
    for limit, is_made in (("miss(1, by=group) <= 90%", False), ("miss(1, by=group) <= 25%", True)):
        rule, (X, y, groups) = calibrated([limit])
        certificate = tb.calibrate(rule, X, y, groups=groups).certificate_
        forced = certificate.forced_by
        assert (forced.error > certificate.price[0].given) == is_made
        assert bool(made) == is_made
        assert (forced.apart is not None) == is_made


@pytest.mark.parametrize("infer_groups", [False, True])
def test_thresholds_by_group_are_named_beside_deferral(infer_groups):
    """Their error is that of a certificate of these rows, also for a rule of a fixed sequence."""
    rng = np.random.default_rng(3)
    n = 10_000
    site = rng.choice(["north", "south", "ferry"], n, p=[0.5, 0.4, 0.1])
    shift = pd.Series(site).map({"north": 0.0, "south": 0.7, "ferry": -1.2}).to_numpy()
    y = (rng.random(n) < 0.3).astype(int)
    score = 1.4 * (2 * y - 1) - shift + rng.normal(size=n)
    X = pd.DataFrame({"score": score, "north": site == "north", "south": site == "south"})
    fresh = slice(2000, n)
    models = make_pipeline(ColumnTransformer([("one", "passthrough", ["score"])]), LogisticRegression())
    models.fit(X[:2000], y[:2000])
    rows = (X[fresh], y[fresh])
    given = {"groups": {"site": site[fresh]}, "limits": ["miss(1, by=site) <= 15%", "deferred() <= 20%"]}
    blind = tb.calibrate(models, *rows, **given, infer_groups=infer_groups)
    forced = blind.certificate_.forced_by
    aware = tb.calibrate(models, *rows, **given, by_group="site").certificate_
    assert forced.apart == pytest.approx(aware.price[0].certified, abs=0.005)
    assert "Thresholds by group (by_group='site') would err less, by" in str(forced)


def test_a_limit_without_which_one_answer_errs_least_is_priced_by_this_answer():
    """A tenth of the rows are 1, so 0 to every row errs least without the limit on misses."""
    rng = np.random.default_rng(0)
    n = 6000
    site = rng.choice(["north", "south"], n, p=[0.7, 0.3])
    y = (rng.random(n) < 0.1).astype(int)
    score = (0.8 * y + rng.normal(size=n))[:, None]
    limits = ["false_alarm(1, by=site) <= 40%", "miss(1) <= 60%"]
    rule = tb.calibrate(
        tb.Scores(0, 1, kind="number"), score, y, groups={"site": site}, limits=limits, by_group="site"
    )
    forced = rule.certificate_.forced_by
    assert forced.limit.startswith("miss rate of 1")
    assert forced.without == pytest.approx(y.mean(), abs=0.01)
    assert "The limit on miss rate of 1" in str(forced)
    assert forced.forces


def sites(n, seed, few=0.01, miss=3.0):
    """Return scores of four sites; the ill patients of the site "few" have low scores."""
    rng = np.random.default_rng(seed)
    rest = (1 - few) / 3
    site = rng.choice(["few", "north", "south", "ward 3"], n, p=[few, rest, rest, rest])
    y = (rng.random(n) < 0.35).astype(int)
    X = (2.0 * (2 * y - 1) - miss * ((site == "few") & (y == 1)) + rng.normal(size=n))[:, None]
    return {"X_cal": X, "y_cal": y, "groups": {"site": site}}


def printed_limits(text):
    """Return the limits in a printed argument."""
    (argument,) = re.findall(r"limits=(\[[^\]]+\])", text)
    return ast.literal_eval(argument)


@pytest.mark.parametrize("further", [[], ["false_alarm(1) <= 70%"]])
def test_the_limits_without_a_ruinous_group_are_printed_and_run_on_new_rows(further):
    limits = ["miss(1, by='site') <= 40%", *further]
    model = tb.Scores(0, 1, kind="logit")
    rule = tb.calibrate(model, **sites(4000, 0), limits=limits)
    forced = rule.certificate_.forced_by
    assert forced.name == "few"
    assert forced.n < 20
    pasted = printed_limits(str(rule.certificate_))
    assert pasted == ["miss(1, by='site') <= {'north': 40%, 'south': 40%, 'ward 3': 40%}", *further]
    assert printed_limits(str(rule)) == pasted
    new = sites(4000, 1)
    without = tb.calibrate(model, **new, limits=pasted)
    assert without.certificate_.certified
    with_few = tb.calibrate(model, **new, limits=limits)
    errors = [np.mean(each.predict(new["X_cal"]) != new["y_cal"]) for each in (without, with_few)]
    assert errors[0] < errors[1] - 0.1
    assert errors[0] == pytest.approx(forced.without, abs=0.02)
    assert "To leave" not in str(without.certificate_)


def wards(n, seed, n_tiny):
    """Return scores of three large wards and of tiny ones, which have low scores."""
    rng = np.random.default_rng(seed)
    tiny = [f"tiny {k}" for k in range(n_tiny)]
    p = [(1 - 0.01 * n_tiny) / 3] * 3 + [0.01] * n_tiny
    ward = rng.choice(["a", "b", "c", *tiny], n, p=p)
    y = rng.integers(0, 2, n)
    X = (2.0 * y - 1.0 - np.char.startswith(ward, "tiny") + rng.normal(size=n))[:, None]
    return {"X_cal": X, "y_cal": y, "groups": {"ward": ward}}


@pytest.mark.parametrize(("n_tiny", "seed"), [(2, 1), (2, 2), (3, 1)])
def test_groups_that_ruin_a_rule_together_are_left_out_together(n_tiny, seed):
    """Without the limit of one tiny ward, the next one forces the rule; without all, the error is as told."""
    model = tb.Scores(0, 1, kind="logit")
    certificate = tb.calibrate(
        model, **wards(4000, seed, n_tiny), limits=["miss(1, by=ward) <= 40%"]
    ).certificate_
    forced = certificate.forced_by
    assert forced.n_together == n_tiny
    rows = {bound.subgroup: bound.n for bound in certificate.bounds if "tiny" in bound.subgroup}
    assert (forced.n, set(forced.name.split(", "))) == (sum(rows.values()), set(rows))
    words = f"The limits on {forced.name} ({forced.n} rows) together raise the error by "
    assert words in str(certificate)
    assert "To leave them out, on new rows: limits=" in str(certificate)
    pasted = printed_limits(str(certificate))
    assert pasted == ["miss(1, by='ward') <= {'a': 40%, 'b': 40%, 'c': 40%}"]
    new = wards(4000, seed + 100, n_tiny)
    errors = [
        np.mean(tb.calibrate(model, **new, limits=limits).predict(new["X_cal"]) != new["y_cal"])
        for limits in (pasted, ["miss(1, by=ward) <= {a: 40%, b: 40%, c: 40%, 'tiny 0': 40%}"])
    ]
    assert errors[0] == pytest.approx(forced.without, abs=0.02)
    assert errors[0] < errors[1] - 0.02


def test_of_two_limits_that_force_a_rule_the_one_of_few_rows_is_named_too():
    """A gap with a group of 2 % of the rows, beside a limit on misses: calibrations without one of them."""
    rng = np.random.default_rng(0)
    n = 8000
    sex = rng.choice(["f", "m", "x"], n, p=[0.49, 0.49, 0.02])
    y = (rng.random(n) < 0.2).astype(int)
    X = (1.2 * y + rng.normal(size=n))[:, None]
    model = tb.Scores(0, 1, kind="number")
    misses, gap = "miss(1) <= 35%", "gap(selected(1, by=sex)) <= 10%"

    def calibrated_within(*limits):
        return tb.calibrate(
            model, X, y, groups={"sex": sex}, limits=limits, selection_share=0.3, infer_groups=False
        )

    certificate = calibrated_within(misses, gap).certificate_
    forced = certificate.forced_by
    assert (forced.name, forced.smallest) == ("miss rate of 1", "")
    second = forced.second
    (of_gap,) = [bound for bound in certificate.bounds if bound.subgroup == "gap"]
    assert (second.limit, second.smallest, second.n) == (of_gap.title, "x", of_gap.n)
    without_gap = calibrated_within(misses).certificate_.price[0].certified
    assert second.without == pytest.approx(without_gap, abs=0.01)
    assert second.without < forced.error - 0.1
    words = rf"Without the limit on gap of selection rate of 1 by sex \({of_gap.n} rows of x\) alone, it"
    (text,) = re.findall(f"{words} would be lower by (.*) points", str(certificate))
    low, high = map(float, text.split(" to "))
    assert low < 100 * (forced.error - without_gap) < high
    document = json.loads(json.dumps(certificate.to_dict()))
    assert Certificate.from_dict(document).forced_by == forced
    alone = calibrated_within("miss(1) <= 35%", "false_alarm(1) <= 90%").certificate_.forced_by
    assert alone.second is None


def test_a_group_is_left_out_only_if_its_few_rows_cost_more_than_noise():
    model = tb.Scores(0, 1, kind="logit")
    given = {"limits": ["miss(1, by=site) <= 40%"]}
    forced = tb.calibrate(model, **sites(4000, 0), **given).certificate_.forced_by
    assert "To leave few out, on new rows: limits=" in str(forced)
    within_noise = replace(forced, noise=(forced.error - forced.without) / 1.6)
    assert "To leave" not in str(within_noise)
    many = tb.calibrate(model, **sites(4000, 0, few=0.2), **given).certificate_.forced_by
    assert (many.name, many.forces) == ("few", True)
    assert many.n > 200
    assert many.other_limits == ()
    # With that many rows an exact test passes above half of the limit, and with the few rows it does not.
    for n, is_few in ((forced.n, True), (many.n, False)):
        above_half = [errors for errors in range(n + 1) if errors / n > 0.2]
        passes = any(binom.cdf(errors, n, 0.4) <= 0.05 for errors in above_half)
        assert passes != is_few


@pytest.mark.parametrize(
    ("few", "words"),
    [
        (0.006, "leave the group out of the limits (its rate then has no bound): limits="),
        (0.003, "state limits without it (its rate then has no bound): limits="),
    ],
)
def test_a_refusal_for_too_few_rows_prints_the_limits_without_the_group_for_the_same_rows(few, words):
    batch = sites(4000, 1, few)
    given = {"limits": ["miss(1, by='site') <= 40%", "false_alarm(1) <= 90%"], "selection_share": 0.3}
    with pytest.raises(tb.NotCertifiedError, match=re.escape(words)) as caught:
        tb.calibrate(tb.Scores(0, 1, kind="logit"), **batch, **given)
    given["limits"] = printed_limits(str(caught.value))
    assert tb.calibrate(tb.Scores(0, 1, kind="logit"), **batch, **given).certificate_.certified


def test_limits_that_contradict_each_other_are_printed_without_the_group_at_fault():
    batch = sites(3000, 0)
    given = {"limits": ["miss(1, by='site') <= 10%", "false_alarm(1) <= 10%"]}
    model = tb.Scores(0, 1, kind="logit")
    with pytest.raises(
        tb.InfeasibleLimitsError, match=r"To leave it out \(its rate then has no bound\): limits="
    ) as caught:
        tb.tune(model, batch["X_cal"], batch["y_cal"], groups=batch["groups"], **given)
    given["limits"] = printed_limits(str(caught.value))
    assert given["limits"][0] == "miss(1, by='site') <= {'north': 10%, 'south': 10%, 'ward 3': 10%}"
    rule = tb.tune(model, batch["X_cal"], batch["y_cal"], groups=batch["groups"], **given)
    assert rule.limits_met_


def test_a_refusal_prints_limits_without_the_groups_that_missed_theirs():
    limits = ["error(by='site') <= 20%"]
    model = tb.Scores(0, 1, kind="logit")
    with pytest.raises(
        tb.NotCertifiedError, match=r"New rows are estimated to pass with a probability of 0\.9 or more"
    ) as caught:
        tb.calibrate(model, **sites(4000, 0, few=0.02, miss=2.0), limits=limits)
    assert [shortfall.name for shortfall in caught.value.shortfalls] == ["error by site: few"]
    pasted = ["error(by='site') <= {'north': 20%, 'south': 20%, 'ward 3': 20%}"]
    assert f"limits={pasted}" in str(caught.value)
    assert tb.calibrate(model, **sites(4000, 1, few=0.02, miss=2.0), limits=pasted).certificate_.certified


@pytest.mark.parametrize("seed", range(2))
def test_a_limit_with_much_room_forces_nothing(seed):
    """Without a limit of 90 %, another procedure may give a smaller error on these rows by chance."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], 3000, p=[0.5, 0.3, 0.2])
    label = (rng.random(3000) < 0.3).astype(int)
    X = (rng.normal(size=3000) + 1.5 * label)[:, None]
    limits = ["miss(1, by=group) <= 90%", "false_alarm(1) <= 90%"]
    rule = tb.calibrate(tb.Scores(0, 1, kind="number"), X, label, groups=group, limits=limits, by_group=True)
    assert max(bound.estimate for bound in rule.certificate_.bounds) < 0.75 * 0.9
    assert not rule.certificate_.forced_by.forces
    assert "raises the error" not in str(rule.certificate_)


def test_one_limit_on_all_rows_is_compared_with_the_rule_of_least_error():
    rule, (X, y, _) = calibrated(["miss(1) <= .05"])
    certified = tb.calibrate(rule, X, y)
    forced = certified.certificate_.forced_by
    least = min(np.mean((X[:, 0] > cut).astype(int) != y) for cut in np.linspace(-3, 3, 601))
    assert forced.without == pytest.approx(least, abs=0.01)
    assert forced.error > forced.without + 0.05


def test_it_is_stored_in_files_and_json(tmp_path):
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= .4"])
    certified = tb.calibrate(rule, X, y, groups=groups)
    tb.save_model(certified, tmp_path / "m.model")
    loaded = tb.load_model(tmp_path / "m.model").certificate_
    assert loaded.forced_by == certified.certificate_.forced_by
    document = json.loads(json.dumps(certified.certificate_.to_dict()))
    assert Certificate.from_dict(document).forced_by == certified.certificate_.forced_by


def test_a_refusal_names_the_target_that_needs_the_most_rows():
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= .12"], n=900)
    with pytest.raises(tb.exceptions.NotCertifiedError) as caught:
        tb.calibrate(rule, X, y, groups=groups)
    error = caught.value
    assert error.forced_by in error.shortfalls
    assert tb.exceptions.NotCertifiedError("no").forced_by is None


def test_a_refusal_shows_all_limits_in_the_unit_in_which_they_were_stated():
    rule, (X, y, groups) = calibrated(["miss(1, by=group) <= 12%", "error <= 60%"], n=3000)
    with pytest.raises(tb.exceptions.NotCertifiedError) as caught:
        tb.calibrate(rule, X, y, groups=groups)
    heads, *lines = str(caught.value).split("\n\n")[1].splitlines()
    assert heads.split() == ["limit", "rows", "estimate", "bound", "result"]
    assert lines[0] == "miss rate of 1 by group ≤ 12 %"
    (kept,) = [line for line in lines if line.startswith("error ≤ 60 %")]
    assert kept.endswith(" certified")
    missed = [short.name.removeprefix("miss rate of 1 by group: ") for short in caught.value.shortfalls]
    assert missed
    for line in lines:
        if line.split()[0] in missed:
            assert "not certified" in line
            assert line.count("%") == 2
    assert all("12 %" in str(short) for short in caught.value.shortfalls)


def test_a_limit_loses_one_subgroup():
    (limit,) = checked_limits(["miss(1, by=group) <= {a: .2, b: .3}"])
    (other,) = checked_limits(["miss(1, by=group) <= {b: .3}"])
    assert without_subgroup(limit, "a", ["a", "b", "c"]) == [other]
    (same,) = checked_limits(["miss(1, by=group) <= .2"])
    (freed,) = without_subgroup(same, "a", ["a", "b"])
    np.testing.assert_array_equal(freed.bounds(["a", "b"]), [np.nan, 0.2])
    assert without_subgroup(same, "a", ["a"]) == []
    (gap,) = checked_limits(["gap(miss(1, by=group)) <= .1"])
    assert without_subgroup(gap, "gap", ["a", "b"]) == []


@pytest.mark.parametrize("dropped", ["a", "A"])
def test_a_limit_without_a_subgroup_names_no_other_one(dropped):
    """The selection may not know all groups of the fresh rows, such as "A"."""
    (limit,) = checked_limits(["miss(1, by=group) <= .2"])
    (freed,) = without_subgroup(limit, dropped, ["a", "A", "b"])
    of_selection = freed.bounds(["a", "b"])
    np.testing.assert_array_equal(np.isnan(of_selection), [dropped == "a", False])


def test_a_group_that_the_selection_does_not_know_is_certified_and_named():
    (rule, (X, y, groups)) = calibrated(["miss(1, by=group) <= 40%"])
    renamed = np.where((groups == "many") & (np.arange(len(y)) % 2 == 0), "Many", groups)
    certified = tb.calibrate(rule, X, y, groups=renamed)
    assert {bound.subgroup for bound in certified.certificate_.bounds} == {"few", "many", "Many"}
    assert "'Many'" in str(certified.certificate_)


def lands(n, noise, seed=1):
    """Return scores of countries with different noise, about as many rows from each."""
    rng = np.random.default_rng(seed)
    land = rng.choice(list(noise), n)
    y = rng.integers(0, 2, n)
    spread = np.array([noise[each] for each in land])
    return (2.0 * y - 1.0 + spread * rng.normal(size=n))[:, None], y, land


def test_a_group_with_one_answer_forces_the_rule_and_the_costliest_limit_is_named():
    X, y, land = lands(6000, {"de": 0.6, "fr": 1.8, "it": 0.6})
    given = {"groups": {"land": land}, "by_group": "land"}
    with pytest.warns(tb.exceptions.UselessRuleWarning):
        certificate = tb.calibrate(
            tb.Scores(0, 1, kind="logit"), X, y, limits=["precision(1, by=land) >= .9"], **given
        ).certificate_
    forced = certificate.forced_by
    others = tb.calibrate(
        tb.Scores(0, 1, kind="logit"), X, y, limits=["precision(1, by=land) >= {de: .9, it: .9}"], **given
    ).certificate_
    assert (forced.name, forced.answer, forced.room) == ("fr", "0", np.inf)
    state = json.dumps(tb.Monitor.of(certificate).to_dict(), allow_nan=False)
    assert tb.Monitor.from_dict(json.loads(state)).certificate.forced_by == forced
    assert forced.without == pytest.approx(others.price[0].certified, abs=0.01)
    assert forced.without < forced.error - 0.03
    words = str(certificate)
    bound = next(bound for bound in certificate.bounds if bound.name == "fr")
    assert forced.n == bound.n == 0
    assert "The limit on fr (no row counts) raises the error most, by " in words
    assert "More rows" not in words


def test_of_many_limits_those_of_groups_with_one_answer_are_tried_first(monkeypatch):
    monkeypatch.setattr("tailboost.guarantees.forced.MOST_FREED", 2)
    noise = {"a": 0.6, "b": 0.6, "c": 0.6, "d": 1.8, "e": 0.6}
    X, y, land = lands(8000, noise)
    with pytest.warns(tb.exceptions.UselessRuleWarning):
        certificate = tb.calibrate(
            tb.Scores(0, 1, kind="logit"),
            X,
            y,
            groups={"land": land},
            limits=["precision(1, by=land) >= .9"],
            by_group="land",
        ).certificate_
    assert certificate.forced_by.name == "d"


def test_thresholds_by_group_are_named_for_a_blind_rule_that_no_single_limit_forces():
    """Two small groups with the same noise: without the limit of one, the other forces the rule."""
    rng = np.random.default_rng(2)
    n = 12_000
    site = rng.choice(["many", "few", "rare"], n, p=[0.94, 0.03, 0.03])
    y = rng.integers(0, 2, n)
    X = (2.0 * (2 * y - 1) - 3.0 * (site != "many") + rng.normal(size=n))[:, None]
    given = {"groups": {"site": site}, "limits": ["miss(1, by=site) <= 25%"]}
    certificate = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, **given).certificate_
    forced = certificate.forced_by
    assert forced.error < 1.25 * forced.without
    assert not forced.forces
    words = str(forced)
    own = f"without limits, the score at 0: {100 * certificate.price[0].given:.1f} %; price "
    assert own in str(certificate)
    aware = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, **given, by_group="site").certificate_
    assert forced.apart == pytest.approx(aware.price[0].certified, abs=0.005)
    assert "Thresholds by group (by_group='site') would err less, by" in words
    assert "To leave" not in words
    assert "Thresholds by group" not in str(replace(forced, by_group=None))


def test_of_two_columns_of_groups_the_limit_is_named_without_which_the_error_is_the_lowest():
    """Separate calibrations leave out one limit each. Both columns have a group "other"."""
    rng = np.random.default_rng(0)
    n = 6_000
    groups = {
        "site": rng.choice(["main", "other"], n),
        "ward": rng.choice(["a", "b", "other"], n, p=[0.6, 0.3, 0.1]),
    }
    shift = np.where(groups["ward"] == "other", -1.0, 0.0) + np.where(groups["site"] == "other", 0.4, 0.0)
    y = rng.integers(0, 2, n)
    X = (2.0 * y - 1.0 + shift + rng.normal(size=n))[:, None]
    half = slice(n // 2, None)
    fresh = {name: column[half] for name, column in groups.items()}
    allowed = {("site", "main"): 0.2, ("site", "other"): 0.2} | {
        ("ward", ward): 0.2 for ward in ("a", "b", "other")
    }

    def limits(dropped=None):
        kept = {key: bound for key, bound in allowed.items() if key != dropped}
        columns = [{name: kept[by, name] for by, name in kept if by == column} for column in groups]
        return [tb.rates.miss(1, by=column) <= bounds for column, bounds in zip(groups, columns, strict=True)]

    first = {name: column[: n // 2] for name, column in groups.items()}
    given = {"groups": first, "limits": limits(), "infer_groups": False}
    rule = tb.tune(tb.Scores(0, 1, kind="logit"), X[: n // 2], y[: n // 2], **given)
    errors = {}
    for dropped in (None, *allowed):
        certified = tb.calibrate(copy.deepcopy(rule), X[half], y[half], groups=fresh, limits=limits(dropped))
        errors[dropped] = np.mean(certified.predict(X[half]) != y[half])
        if dropped is None:
            forced = certified.certificate_.forced_by
    column, name = min(allowed, key=errors.__getitem__)
    assert (column, name) == ("ward", "other")
    assert forced.name == f"{column} {name}"
    assert forced.limit == "miss rate of 1 by ward: other"
    assert forced.without == pytest.approx(errors[column, name])
    assert str(forced).startswith(f"The limit on ward other ({forced.n} rows) raises the error by ")


def test_thresholds_by_one_column_are_no_way_out_of_limits_by_two_columns():
    X, y, groups = scores(3000, 0)
    further = np.random.default_rng(1).choice(["x", "y"], 3000)
    limits = ["miss(1, by=site) <= .15", "miss(1, by=shift) <= .15"]
    model = tb.Scores(0, 1, kind="logit")
    alone = tb.calibrate(model, X, y, groups={"site": groups}, limits=limits[:1]).certificate_
    both = tb.calibrate(model, X, y, groups={"site": groups, "shift": further}, limits=limits).certificate_
    assert alone.forced_by.by_group == "site"
    assert both.forced_by.by_group is None


@pytest.mark.filterwarnings("ignore:deferral is not better")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_rule_that_defers_has_an_estimated_price_of_the_limit_of_a_small_group(seed):
    """A rule that defers has estimated prices. A calibration without the small site errs less."""
    rng = np.random.default_rng(seed)
    n = 8000
    site = rng.choice(["North", "South", "Practice"], n, p=[0.48, 0.48, 0.04])
    y = np.where(rng.random(n) < 0.35, "ill", "well")
    X = (2.0 * (y == "ill") - 2.2 * ((site == "Practice") & (y == "ill")) + rng.normal(size=n))[:, None]
    first = slice(0, n // 3)
    rest = slice(n // 3, None)

    def certified(recalls):
        given = {
            "groups": site[first],
            "limits": [f"recall(ill, by=group) >= {recalls}", "deferred() <= 20%"],
        }
        rule = tb.tune(tb.Scores(0, "ill", kind="number"), X[first], y[first], **given)
        return tb.calibrate(rule, X[rest], y[rest], groups=site[rest]).certificate_

    certificate = certified("80%")
    forced = certificate.forced_by
    assert certificate.rates[0].method == "ranks of errors and a test of deferral"
    assert (forced.name, forced.forces) == ("Practice", True)
    others = certified("{North: 80%, South: 80%}")
    assert forced.without == pytest.approx(others.price[0].certified, abs=0.02)
    assert forced.without < forced.error - 0.2
    assert f"The limit on Practice ({forced.n} rows) raises the error" in str(certificate)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (["miss(1) <= 2%"], "a random guess within the limits in"),
        (["miss(1) <= 2%", "deferred <= 20%"], r"answers 0 to none of these rows, and defers"),
    ],
)
def test_a_certified_rule_that_finds_no_other_label_warns(limits, words):
    """Weak scores: within 2 % of missed rows, nearly all rows get the answer 1, or none the answer 0.

    Beside deferral, a tenth of the rows of label 1 have the lowest score, of better scores.
    """
    rng = np.random.default_rng(3)
    y = (rng.random(4_000) < 0.3).astype(int)
    scores = 1 / (1 + np.exp(-rng.normal(0.3 * y, 1.0)))[:, None]
    if len(limits) > 1:
        scores = 1 / (1 + np.exp(-rng.normal(2.0 * y, 1.0)))[:, None]
        scores[(y == 1) & (rng.random(4_000) < 0.1)] = 0.01
    with pytest.warns(tb.UselessRuleWarning, match=words):
        rule = tb.calibrate(tb.Scores(0, 1), scores, y, limits=limits)
    answers = rule.predict(scores, deferred="human review")
    assert np.mean(answers.astype(str) == "0") < 0.05


@pytest.mark.filterwarnings("ignore:deferral is not better")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_price_of_a_limit_beside_deferral_is_that_of_a_calibration_that_follows_it(seed):
    """Thresholds that defer are selected within the stated limits."""
    rng = np.random.default_rng(seed)
    n = 9000
    site = rng.choice(["North", "South", "East"], n, p=[0.5, 0.4, 0.1])
    y = np.where(rng.random(n) < 0.3, "ill", "well")
    noise = np.where(site == "East", 1.5, 1.0)
    X = (2.0 * (y == "ill") - 0.4 * (site == "East") + noise * rng.normal(size=n))[:, None]
    first, rest = slice(0, n // 2), slice(n // 2, None)

    def certified(misses, **params):
        limits = [f"miss(ill, by=site) <= {misses}", "deferred() <= 10%"]
        rule = tb.tune(
            tb.Scores(0, "ill", kind="number"),
            X[first],
            y[first],
            groups={"site": site[first]},
            limits=limits,
            infer_groups=False,
            **params,
        )
        return tb.calibrate(rule, X[rest], y[rest], groups={"site": site[rest]}).certificate_

    certificate = certified("15%")
    forced = certificate.forced_by
    assert certificate.rates[0].method == "ranks of errors and a test of deferral"
    assert forced.forces
    assert forced.groups_pay
    others = {name: "15%" for name in ("North", "South", "East") if name != forced.name}
    followed = certified("{" + ", ".join(f"{name}: {bound}" for name, bound in others.items()) + "}")
    assert forced.without == pytest.approx(followed.price[0].certified, abs=0.003)
    by_group = certified("15%", by_group="site")
    assert forced.apart == pytest.approx(by_group.price[0].certified, abs=0.003)
