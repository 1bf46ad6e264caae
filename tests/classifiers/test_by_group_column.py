"""Rules that read one of several columns of groups, with limits by the others."""

import itertools

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.special import expit
from scipy.stats import binom
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates
from tailboost.exceptions import NotCertifiedError

MISS_BY_AGE, MISS_BY_SEX = rates.miss(1, by="age"), rates.miss(1, by="sex")
LIMITS = [MISS_BY_AGE <= 0.25, MISS_BY_SEX <= 0.22]
SCORE = tb.Scores("score", 1)


def people(n, seed=0):
    """Return scores, labels, groups and P(y = 1) of rows; the score knows neither age nor sex."""
    rng = np.random.default_rng(seed)
    signal, age = rng.normal(size=n), rng.integers(0, 2, n)
    sex = rng.integers(0, 2, n)
    chance = expit(2.0 * signal + 1.2 * age - 0.6 * sex - 0.5)
    y = (rng.random(n) < chance).astype(int)
    groups = pd.DataFrame({"age": np.array(["old", "young"])[age], "sex": np.array(["f", "m"])[sex]})
    return pd.DataFrame({"score": expit(2.0 * signal)}), y, groups, chance


def test_thresholds_by_one_column_are_the_best_ones_within_limits_by_both():
    X, y, groups, _ = people(600)
    score, old = X["score"].to_numpy(), (groups["age"] == "old").to_numpy()
    limited = [
        ((groups[name] == value).to_numpy() & (y == 1), bound)
        for name, bound in (("age", 0.25), ("sex", 0.22))
        for value in groups[name].unique()
    ]
    best = np.inf
    cuts = np.quantile(score, np.linspace(0.02, 0.98, 60))
    for low, high in itertools.product(cuts, cuts):
        answers = (score >= np.where(old, low, high)).astype(int)
        kept = all(np.mean(answers[of_group] == 0) <= bound for of_group, bound in limited)
        if kept:
            best = min(best, float(np.mean(answers != y)))
    rule = tb.tune(SCORE, X, y, groups=groups, limits=LIMITS, objective="error", by_group="age")
    answers = rule.predict(X, groups=groups)
    for rate in (MISS_BY_AGE, MISS_BY_SEX):
        bound = 0.25 if rate is MISS_BY_AGE else 0.22
        assert max(rates.measure(rate, y, answers, groups=groups).values()) <= bound + 1e-9
    assert np.mean(answers != y) <= best + 0.005
    blind = tb.tune(SCORE, X, y, groups=groups, limits=LIMITS, objective="error")
    assert np.mean(answers != y) < np.mean(blind.predict(X) != y)


def test_the_groups_may_be_a_column_or_the_table(tmp_path):
    X, y, groups, _ = people(400)
    rule = tb.tune(SCORE, X, y, groups=groups, limits=LIMITS, by_group="age")
    tb.save_model(rule, tmp_path / "rule.model")
    answers, loaded = rule.predict(X, groups=groups), tb.load_model(tmp_path / "rule.model")
    for given in (groups["age"], groups["age"].to_numpy(), groups[["age"]], {"age": groups["age"]}):
        assert (rule.predict(X, groups=given) == answers).all()
        assert (loaded.predict(X, groups=given) == answers).all()
    assert rule.rule_.groups == ["old", "young"]
    assert '"age"' in rule.rule_.to_sql(group="age")


def test_answers_depend_on_no_other_column():
    X, y, groups, _ = people(400)
    rule = tb.tune(SCORE, X, y, groups=groups, limits=LIMITS, by_group="age")
    swapped = groups.assign(sex=groups["sex"].map({"f": "m", "m": "f"}))
    assert (rule.predict(X, groups=groups) == rule.predict(X, groups=swapped)).all()


@pytest.mark.parametrize(("by_group", "message"), [(True, "by_group"), ("ages", "by_group")])
def test_another_column_is_refused_before_any_work(by_group, message):
    X, y, groups, _ = people(60)
    refused(lambda: tb.tune(SCORE, X, y, groups=groups, limits=LIMITS, by_group=by_group), message)


def test_columns_with_numbers_are_read_by_all_or_none():
    X, y, groups, _ = people(2000)
    numbered = groups.to_numpy(copy=True)
    assert tb.calibrate(SCORE, X, y, groups=numbered, limits=["miss(1) <= 40%"]).rule_.groups is None
    refused(lambda: tb.tune(SCORE, X, y, groups=numbered, by_group=True), "names in a dict")
    assert tb.tune(SCORE, X, y, groups={**groups}, by_group="age").rule_.groups == ["old", "young"]


def test_another_column_of_groups_than_the_rule_reads_is_refused():
    X, y, groups, _ = people(400)
    rule = tb.tune(SCORE, X, y, groups=groups, limits=LIMITS, by_group="age")
    for given in (groups[["sex"]], groups["sex"], groups["sex"].to_numpy(), None):
        refused(lambda: rule.predict(X, groups=given), "groups")
    refused(lambda: rule.predict(X.assign(ages=1)), "reads")


def people_in_numbers(ages):
    """Return scores, labels and groups by numbers: those of 2 have somewhat higher scores."""
    r = np.random.default_rng(0)
    y = (r.random(len(ages)) < 0.5).astype(int)
    logits = r.normal(size=len(ages)) + 2 * y - 1 + 0.3 * (ages == 2)
    return pd.DataFrame({"score": expit(logits).round(4)}), y, pd.DataFrame({"age": ages})


def test_a_rare_number_as_a_group_is_refused_by_name():
    X, y, groups = people_in_numbers(np.r_[np.repeat(np.arange(20, 50), 50), 77])
    with pytest.raises(ValueError, match="77 has 1 rows"):
        tb.calibrate(tb.Scores("score", 1), X, y, groups=groups, limits=["miss(1, by=age) <= 60%"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
@pytest.mark.parametrize("decimals", [1, 6])
def test_certified_limits_by_both_columns_are_broken_at_most_as_often_as_stated(decimals):
    """The true miss rates of each rule are known: rows are drawn from 10,000 with replacement."""
    X, y, groups, _ = people(10_000, seed=1)
    X = X.round(decimals)
    broken = answered = 0
    for seed in range(120):
        rows = np.random.default_rng(seed).integers(0, len(y), 700)
        try:
            given = {"limits": LIMITS, "by_group": "age", "confidence": 1 - 0.1 / 0.9}
            rule = tb.calibrate(SCORE, X.iloc[rows], y[rows], groups=groups.iloc[rows], **given)
        except NotCertifiedError:
            continue
        answered += 1
        answers = rule.predict(X, groups=groups)
        found = [max(rates.measure(each.rate, y, answers, groups=groups).values()) for each in LIMITS]
        broken += any(rate > each.bound for rate, each in zip(found, LIMITS, strict=True))
    assert answered >= 60
    assert binom.sf(broken - 1, 120, 0.1) > 0.001


@pytest.mark.parametrize("by_group", [False, True])
def test_bands_of_pandas_cut_are_groups_in_every_form(by_group, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    table = pd.DataFrame({"score": expit(2 * y - 1 + rng.normal(size=1200))})
    table["band"] = pd.cut(rng.integers(18, 100, 1200), [17, 45, 100])
    options = {"groups": table[["band"]], "limits": ["miss(1, by=band) <= 40%"], "by_group": by_group}
    rule = tb.calibrate(SCORE, table[["score"]], y, **options)
    assert [bound.subgroup for bound in rule.certificate_.bounds] == ["(17, 45]", "(45, 100]"]
    tb.save_rule(rule, tmp_path / "rule.json")
    loaded = tb.load_rule(tmp_path / "rule.json")
    groups = {"groups": table[["band"]]} if by_group else {}
    answers = rule.predict(table[["score"]], **groups)
    for each in (rule, loaded):
        assert (each.predict(table) == answers).all()
        assert (each.predict(table, default="human review") == answers).all()
        assert each.predict(table[:1]) == answers[0]
    if by_group:
        assert "= '(17, 45]' AND" in loaded.rule_.to_sql()


def of_ages(n):
    X, y, groups, _ = people(n)
    return X, y, groups.assign(age=np.arange(n) % 59)


def reweighted(X, y, groups):
    clf = tb.tune(SCORE, X, y, groups=groups.assign(age=groups["age"] > 29), by_group="age")
    return clf.reweight(groups=groups)


READING_AGES = {
    "tune": lambda X, y, groups: tb.tune(SCORE, X, y, groups=groups, by_group="age"),
    "calibrate": lambda X, y, groups: tb.calibrate(
    SCORE, X, y, groups=groups, by_group="age", limits=["error <= 90%"]),
    "fit": lambda X, y, groups: tb.RobustMixtureClassifier(
    [("bayes", GaussianNB())], by_group="age", random_state=0 ).fit(X, y, groups=groups),
    "from_probabilities": lambda X, y, groups: tb.RobustMixtureClassifier.from_probabilities(
    {"model": X["score"]}, y, groups=groups, by_group="age"), "reweight": reweighted,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.parametrize("call", READING_AGES.values(), ids=READING_AGES)
def test_a_rule_reads_numbers_as_groups_if_each_has_ten_given_rows_on_average(call):
    refused(lambda: call(*of_ages(589)), r"'age' has 59 different numbers.*bands")
    assert len(call(*of_ages(1200)).selection_.groups_read[0]) == 59
