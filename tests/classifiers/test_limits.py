"""Limits kept to less than a row, and messages about useless rules."""

import warnings

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import tailboost as tb


def rare(n, seed, share=0.2, slope=1.5):
    """Two classes, the second rarer, of which the features say something."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 4)) + slope * y[:, None] * np.array([1.0, 0.3, 0.0, 0.0]), y


X, Y = rare(1500, 0)
FRESH, LABELS = rare(20_000, 1)


@pytest.mark.parametrize("limit", ["miss(1) <= 20.01%", "selected(1) <= 30.01%"])
def test_a_limit_is_kept_to_less_than_a_row(limit):
    """One of 2,500 rows is .0004; the objective drives the rule to the limit."""
    rng = np.random.default_rng(0)
    s = rng.random(5000)
    y = (rng.random(5000) < s).astype(int)
    objective = tb.rates.selected(1) if "miss" in limit else tb.rates.miss(1)
    answers = tb.tune(tb.Scores(0, 1), s[:, None], y, limits=[limit], objective=objective).predict(s[:, None])
    count, n, most = (answers == 1).sum(), 5000, 0.3001
    if "miss" in limit:
        count, n, most = (answers[y == 1] == 0).sum(), (y == 1).sum(), 0.2001
    assert (most - 0.001) * n < count <= most * n


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
def test_a_rule_that_selects_nobody_in_any_group_has_undefined_precisions():
    rng = np.random.default_rng(0)
    p, y, g = rng.random(60) / 2, (rng.random(60) < 0.2).astype(int), np.repeat(["a", "b"], 30)
    given = {"groups": {"g": g}, "limits": ["precision(1, by=g) >= .9"], "by_group": True}
    with pytest.warns(tb.UselessRuleWarning):
        clf = tb.tune(lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]), p[:, None], y, **given)
    assert (clf.predict(p[:, None], groups={"g": g}) == 0).all()


def test_an_objective_about_one_label_alone_is_called_useless():
    model = GaussianNB().fit(X, Y)
    new, labels = FRESH[:2000], LABELS[:2000]
    with pytest.warns(tb.UselessRuleWarning):
        tb.tune(model, new, labels, objective=tb.rates.miss(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.UselessRuleWarning)
        tb.tune(model, new, labels, objective=tb.rates.miss(1), limits=["false_alarm(1) <= 30%"])
        tb.tune(model, new, labels, objective="error")


class Asked(GaussianNB):
    def predict_proba(self, X):
        raise AssertionError("a model was asked")


TUNED = tb.tune(GaussianNB().fit(X, Y), FRESH[:500], LABELS[:500])
CALLS = {
    "tune": lambda limits: tb.tune(Asked().fit(X, Y), FRESH, LABELS, limits=limits),
    "calibrate": lambda limits: tb.calibrate(Asked().fit(X, Y), FRESH, LABELS, limits=limits),
    "certify": lambda limits: tb.certify(Asked().fit(X, Y), FRESH, LABELS, limits=limits),
    "fit": lambda limits: tb.RobustMixtureClassifier([("n", Asked())], limits=limits).fit(X, Y),
    "from_probabilities": lambda limits: tb.RobustMixtureClassifier.from_probabilities(
        {"p": np.full(len(Y), 0.5)}, Y, limits=limits
    ),
    "reweight": lambda limits: TUNED.reweight(limits=limits),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_list_of_limits_is_named_with_a_cure_before_any_model_is_asked(call):
    """A set has no order, and an iterator would be empty at the second fit."""
    texts = ["miss(1) <= 40%"]
    for limits in (0.4, True, {"miss(1)": 0.4}, {*texts}, iter(texts), tb.rates.miss(1), [0.4]):
        with pytest.raises(TypeError, match=r"limits=\['miss\(1\) <= 10%'\]") as refused:
            CALLS[call](limits)
        culprit = limits[0] if isinstance(limits, list) else limits
        assert str(refused.value).startswith(repr(culprit))
    assert tb.tune(GaussianNB().fit(X, Y), FRESH, LABELS, limits=["miss(1) <= 10%"]).limits_met_


def test_what_is_no_objective_is_named_before_any_model_is_asked():
    for objective in (0.4, ["error"], {}):
        with pytest.raises(TypeError, match="is no objective"):
            tb.tune(Asked().fit(X, Y), FRESH, LABELS, objective=objective)
