"""Limits on every group: a group or combination without rows has the bounds 0 and 1."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.exact_tests import most_errors
from tailboost.rates.bounds import betting_upper, clopper_pearson_interval, clopper_pearson_upper

CROSSED = rates.error(by=("g", "s"))


def tuned(n=3000, by=None):
    r = np.random.default_rng(0)
    X = r.normal(size=(n, 4))
    groups = pd.DataFrame({"g": r.choice(list("abc"), n, p=[0.5, 0.4, 0.1]), "s": r.choice(["m", "f"], n)})
    y = (X[:, 0] + r.normal(size=n) > 0.3).astype(int)
    model = LogisticRegression().fit(X[:400], y[:400])
    limits = [(CROSSED if by is None else rates.error(by=by)) <= 0.6]
    groups = groups if by is None else groups[[by]]
    mix = tb.tune(model, X[400:1200], y[400:1200], groups=groups[400:1200], limits=limits)
    return mix, X[1200:], y[1200:], groups[1200:]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_combinations_of_the_fit_are_subgroups(tmp_path):
    mix, X, y, groups = tuned()
    assert set(mix.evidence_.combinations) == {(g, s) for g in "abc" for s in "fm"}
    assert mix.reweight(X, y, limits=[]).evidence_.combinations == ()
    tb.save_model(mix, tmp_path / "m.model")
    keep = ~((groups.g == "c") & (groups.s == "m")).to_numpy()
    for model in (mix, tb.load_model(tmp_path / "m.model")):
        for of in (groups, groups[["s", "g"]]):
            cert = tb.certify(model, X[keep], y[keep], groups=of[keep])
            assert cert.certified is False
            assert [b.subgroup for b in cert.bounds if not b.n and b.target] == [("c", "m")]
        assert tb.certify(model, X, y, groups=groups).certified is True
        with pytest.raises(tb.NotCertifiedError, match="has 0 rows") as error:
            tb.calibrate(model, X[keep], y[keep], groups=groups[keep])
        assert error.value.attempts == ()  # no answers were tested
    assert tb.calibrate(mix, X, y, groups=groups).certificate_.certified is True


def test_a_rule_file_knows_the_combinations_of_its_selection(tmp_path):
    p, draws = np.random.default_rng(0).random((2, 900))
    table, y = pd.DataFrame({"p": p}), (draws < p).astype(int)
    groups = pd.DataFrame({"g": np.resize(["a", "b"], 900), "s": np.resize(["f", "f", "m"], 900)})
    rule = tb.tune(tb.Scores("p", 1), table[:450], y[:450], groups=groups[:450], limits=["error() <= 60%"])
    tb.save_rule(rule, tmp_path / "rule.json")
    rows = groups[450:].query("g != 'b' or s != 'm'").index
    for known in (rule, tb.load_rule(tmp_path / "rule.json")):
        asked = {"groups": groups.loc[rows], "limits": ["error(by=(g, s)) <= 90%"]}
        bounds = tb.certify(known, table.loc[rows], y[rows], **asked).bounds
        assert [bound.subgroup for bound in bounds if not bound.n] == [("b", "m")]


def identity(X):
    """Probabilities that the table holds."""
    return np.asarray(X, dtype=float)


@pytest.mark.filterwarnings("ignore::tailboost.SmallSubgroupsWarning", "ignore::tailboost.UselessRuleWarning")
@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.parametrize("answer", [0, 1])
@pytest.mark.parametrize("n_positive", [6, 60])
def test_a_group_without_positives_in_the_selection_gets_a_rank_of_the_fresh_rows(n_positive, answer):
    """The group's fresh rows alone say where its threshold is; too few of them leave one answer."""
    r = np.random.default_rng(3)

    def draw(n_of):
        y = np.concatenate([np.repeat([0, 1], n_of[g]) for g in ("a", "b")])
        g = np.repeat(["a", "b"], [sum(n_of["a"]), sum(n_of["b"])])
        p = 1 / (1 + np.exp(-r.normal(1.6 * (2 * y - 1), 1.5)))
        if answer == 0:
            y, p = 1 - y, 1 - p
        return np.column_stack([1 - p, p]), y, g

    X, y, g = draw({"a": (100, 100), "b": (30, 0)})
    of = {1: rates.miss, 0: rates.false_alarm}[answer]
    limits = [of(1, by="group") <= 0.25]
    rule = tb.tune(identity, X, y, groups=g, limits=limits, by_group=True)
    X, y, g = draw({"a": (100, 100), "b": (60, n_positive)})
    found = tb.calibrate(rule, X, y, groups=g)
    assert found.certificate_.certified
    wrong, counted = found.predict(X, groups=g) != y, (g == "b") & (y == answer)
    allowed = int(binom.ppf(0.025, n_positive, 0.25))
    while allowed >= 0 and binom.cdf(allowed, n_positive, 0.25) > 0.025:
        allowed -= 1
    assert wrong[counted].sum() <= max(0, allowed)
    assert (found.predict(X[g == "b"], groups=g[g == "b"]) == answer).all() == (allowed < 0)


def test_bounds_without_rows_are_those_that_hold_for_every_rate():
    assert clopper_pearson_upper(0, 0) == betting_upper([]) == 1.0
    assert [float(end) for end in clopper_pearson_interval(0.0, 0.0)] == [0.0, 1.0]
    assert {int(most_errors(0, bound, 0.05)) for bound in (0.01, 0.5, 0.99)} == {-1}
    X, y = np.random.default_rng(0).random((230, 1)), np.arange(230) % 2
    rule = tb.tune(tb.Scores(0, 1), X[:200], y[:200], groups=["a", "b"] * 100)
    given = {"groups": ["a"] * 30, "rates": [rates.error(by=(None, "class"))]}  # a column without a name
    bounds = tb.certify(rule, X[200:], np.zeros(30, int), **given).bounds
    assert [(each.subgroup, each.n) for each in bounds] == [((None, 0), 30), ((None, 1), 0)]


def test_fewer_rows_without_an_error_have_no_smaller_bound():
    for upper in (betting_upper, lambda each, level: clopper_pearson_upper(0, len(each), level)):
        uppers = [upper(np.zeros(n), 0.05) for n in (1, 2, 5, 20, 100)]
        assert 1.0 >= uppers[0] > uppers[-1]
        assert (np.diff(uppers) <= 0).all()


@pytest.mark.parametrize("delta", [0.001, 0.05, 0.5, 0.9])
def test_without_rows_no_level_gives_a_bound(delta):
    assert clopper_pearson_upper(0, 0, delta) == 1.0
    assert clopper_pearson_upper(0, 1, delta) == pytest.approx(1 - delta)  # P(no error of one) = 1 − rate
    assert {rates.bounds.pair_p_value((0, 0), rows, gap=delta) for rows in ((0, 7), (7, 0))} == {1.0}


@pytest.mark.parametrize(("limit", "kept"), [
    ("miss(0)", [None]), ("error(by=class)", [0]), ("error(by=cell)", [(0, "a"), (0, "b")]),
    ("error(by=['class', 'g'])", [(0, "a"), (0, "b")]), ("false_alarm(1, by=group)", ["a", "b"]),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_rule_that_answers_one_label_keeps_its_limits_in_each_subgroup_of_this_label(limit, kept):
    X, y, g = np.random.default_rng(0).random((440, 1)), np.arange(440) % 2, np.arange(440) // 2 % 2
    g = np.array(["a", "b"])[g]
    rule = tb.tune(tb.Scores(0, 1), X[40:], y[40:], groups={"g": g[40:]}, limits=["miss(0) <= 0%"])
    bounds = tb.certify(rule, X[:40], y[:40], groups={"g": g[:40]}, limits=[f"{limit} <= 5%"]).bounds
    assert {bound.method for bound in bounds} == {"one answer"}
    assert [bound.subgroup for bound in bounds if bound.certified] == kept
    assert all(bound.upper == (not bound.certified) for bound in bounds)  # what the rule fixes needs no level


@pytest.mark.filterwarnings("ignore")
def test_a_stated_limit_makes_no_bound_looser():
    """In group b no score reaches the threshold, so the rates of its answers are 0 or 1 by construction."""
    r, g = np.random.default_rng(0), np.tile(["a", "b"], 2000)
    y = np.where(g == "a", r.integers(0, 2, 4000), r.random(4000) < 0.02).astype(int)
    X = np.where(g == "a", 1 / (1 + np.exp(-r.normal(3 * y - 1.5))), 0.01 * r.random(4000))[:, None]
    first, second, third = ((X[k], y[k]) for k in (slice(2000), slice(2000, 3000), slice(3000, 4000)))
    given = {"groups": {"g": g[:2000]}, "limits": ["false_alarm(1, by=g) <= 20%"], "by_group": True}
    rule = tb.calibrate(tb.Scores(0, 1), *first, **given)
    of_group, found = {"groups": {"g": g[2000:3000]}}, {}
    bounds = {"false_alarm(1, by=g)": "<= 10%", "recall(1, by=g)": ">= 0%", "specificity(1, by=g)": ">= 90%",
              "error(by=cell)": "<= 99%", "error()": "<= 100%"}  # fmt: skip
    for rate, bound in bounds.items():
        free = tb.certify(rule, *second, **of_group, rates=[rate]).bounds
        found[rate] = tb.certify(rule, *second, **of_group, limits=[f"{rate} {bound}"])
        for limited, other in zip(found[rate].bounds, free, strict=True):
            assert limited.upper <= other.upper if limited.sense == "≤" else limited.lower >= other.lower
    a, b = found["false_alarm(1, by=g)"].bounds
    assert (b.method, b.upper, a.method) == ("one answer", 0.0, "Clopper–Pearson")
    assert a.upper == clopper_pearson_upper(round(a.estimate * a.n), a.n, 0.05)  # the whole level
    assert found["specificity(1, by=g)"].bounds[1].lower == 1.0
    monitor = tb.Monitor(rule, found["false_alarm(1, by=g)"]).add(*third, groups={"g": g[3000:]})
    assert (monitor.bets[1].wealths[0].bound, monitor.alarms) == (0.0, [])
