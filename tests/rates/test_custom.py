"""Rates of a user's own: pairs of true label and answer."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost import rates

RNG = np.random.default_rng(0)
Y = RNG.choice(["ill", "unsure", "well"], 400, p=[0.3, 0.3, 0.4])
ANSWERS = np.where(RNG.random(400) < 0.7, Y, RNG.choice(["ill", "unsure", "well"], 400))
SITE = RNG.choice(["a", "b"], 400)
DEFERRED = RNG.random(400) < 0.1
SENT_HOME = rates.custom("sent home", [("ill", "well")], among=[("ill", None)], by="site")


def test_it_is_measured_as_it_is_said():
    for site, value in rates.measure(SENT_HOME, Y, ANSWERS, groups={"site": SITE}).items():
        ill = (Y == "ill") & (site == SITE)
        assert value == pytest.approx((ANSWERS[ill] == "well").mean())


@pytest.mark.parametrize(("pairs", "same"), [
    (([("ill", "unsure"), ("ill", "well")], [("ill", None)]), rates.miss("ill")),
    (([("ill", "ill")], [(None, "ill")]), rates.precision("ill")),
    (([("unsure", "ill"), ("well", "ill")], [("unsure", None), ("well", None)]), rates.fpr("ill")),
    (([(None, "human review")],), rates.deferred()), (([(None, "well")],), rates.selected("well")),
])  # fmt: skip
def test_a_known_rate_in_pairs_is_the_known_rate(pairs, same):
    mine = rates.custom("mine", *pairs)
    given = {"deferred": DEFERRED, "groups": {"site": SITE}}
    assert rates.measure(mine, Y, ANSWERS, **given) == pytest.approx(rates.measure(same, Y, ANSWERS, **given))
    assert (mine.is_ratio, mine.needs) == (same.is_ratio, same.needs)


def test_text_values_and_files_keep_the_pairs(tmp_path):
    limit = SENT_HOME <= 0.1
    assert rates.parse(repr(limit)) == limit
    assert pickle.loads(pickle.dumps(limit)) == limit
    text = "custom('sent home', counted=[[ill, well]], among=[[ill, None]], by=site) <= 10%"
    assert rates.parse(text) == limit
    X = RNG.random((600, 1))
    y = (RNG.random(600) < X[:, 0]).astype(int)
    low = rates.custom("costly", [(1, 0)], among=[(1.0, None)])  # the same label
    with warnings.catch_warnings(action="ignore"):
        rule = tb.calibrate(tb.Scores("s", 1), pd.DataFrame({"s": X[:, 0]}), y, limits=[low <= 0.4])
    tb.save_rule(rule, tmp_path / "rule.json")
    loaded = tb.load_rule(tmp_path / "rule.json")
    assert loaded.certificate_.bounds[0].rate == low
    assert loaded.limits == rule.limits
    assert (loaded.predict(X) == rule.predict(X)).all()


def test_a_rate_of_fixed_rows_is_minimised():
    X = RNG.random((500, 1))
    y = (RNG.random(500) < X[:, 0]).astype(int)
    alarms = rates.custom("alarms", [(0, 1)], among=[(0, None)])
    given, aims = {"limits": [rates.miss(1) <= 0.2]}, (alarms, rates.false_alarm(1))
    mine, known = (tb.tune(tb.Scores(0, 1), X, y, objective=each, **given) for each in aims)
    assert (mine.predict(X) == known.predict(X)).all()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: rates.custom("", [(1, 0)]), "name"),
    (lambda: rates.custom("mine", [(1, 0)], among=[(0, None)]), "among"),
    (lambda: rates.custom("mine", [(1, None)], among=[(1, 0), (1, 1)]), "among"),
    (lambda: rates.custom("mine", []), "pair"), (lambda: rates.custom("mine", "10"), "pairs"),
    (lambda: rates.custom("mine", [1, 0]), "pairs"), (lambda: rates.custom("mine", [([1], 0)]), "number"),
    (lambda: rates.custom("mine", ["ab"]), "pairs"), (lambda: rates.custom("mine", [{1, 0}]), "pairs"),
    (lambda: rates.measure(rates.custom("mine", [("?", "well")]), Y, ANSWERS), "called"),
    (lambda: rates.measure(rates.custom("mine", [("human review", "well")]), Y, ANSWERS), "called"),
    (lambda: rates.representation("ill", by=None), "example"),
    (lambda: rates.gap(rates.representation("ill", by="site")) <= 0.1, "depends"),
])  # fmt: skip
def test_what_is_no_rate_is_refused(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_a_function_in_the_place_of_pairs_is_refused_with_an_example():
    with pytest.raises(TypeError, match="functions"):
        rates.custom("f", lambda y, answer: y != answer)
