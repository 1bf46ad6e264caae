"""Calibration of a mixture selected by rates."""

import copy

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates


def test_max_error_of_a_rule_within_limits_is_certified():
    X, y = make_classification(300, random_state=0)
    mix = tb.RobustMixtureClassifier(
        [("bayes", GaussianNB())], limits=[rates.selected(1) <= 0.6], random_state=0
    )
    point = tb.calibrate(mix.fit(X[:150], y[:150]), X[150:], y[150:], max_error=0.4)
    assert [(bound.name, bound.upper) for bound in point.certificate_.bounds] == [
        ("0", 0.4),
        ("1", 0.4),
    ]


@pytest.mark.parametrize(
    "stated",
    [
        {"max_error": 0.45},
        {"limits": ["miss(1) <= 45%"]},
        {"limits": ["precision(1) >= .5"], "objective": "error"},
    ],
)
@pytest.mark.parametrize("of_class", [tb.AdaBoostClassifier, tb.WorstClassBoostClassifier])
def test_a_classifier_that_selects_no_such_rule_is_tuned_as_a_model(of_class, stated):
    """As in a list of models."""
    clf, listed = (of_class("tree", n_estimators=2, random_state=0).fit(*rows_of(1)) for _ in range(2))
    rule = tb.calibrate(clf, *rows_of(2), **stated)
    assert rule.certificate_.certified
    if of_class is tb.WorstClassBoostClassifier and "max_error" in stated:
        assert isinstance(rule, of_class)  # it selects among its candidates
    else:
        assert rule.rule_ == tb.calibrate([listed], *rows_of(2), **stated).rule_
    with pytest.raises(tb.LeakageError):
        tb.calibrate(clf, *rows_of(2), confidence=0.9, **stated, previous=rule)


@pytest.mark.parametrize("kind", [tb.AdaBoostClassifier, tb.CVaRBoostClassifier])
def test_deferrals_of_a_rule_without_any_are_refused(kind):
    clf = kind("tree", n_estimators=2, random_state=0).fit(*rows_of(1))
    with pytest.raises(ValueError, match="BoostClassifier"):
        tb.certify(clf, *rows_of(2), rates=["deferred()"])


def rows_of(seed):
    X = np.random.default_rng(seed).normal(size=(600, 2))
    return X, (X[:, 0] > 0).astype(int)


def test_within_limits_the_overall_error_is_minimised():
    """The rule was selected for the worst class, because no limit was stated."""
    X, y = make_classification(3000, n_features=5, weights=[0.8], class_sep=0.6, flip_y=0.1, random_state=1)
    model = LogisticRegression().fit(X[:500], y[:500])
    clf = tb.tune(model, X[500:1500], y[500:1500])
    for stated in ({"limits": ["miss(1) <= .8"]}, {"max_error": {1: 0.8}}):
        rule = tb.calibrate(copy.deepcopy(clf), X[1500:], y[1500:], **stated)
        assert rule.objective_.rate == rates.error()
        errors = [(each.predict(X[1500:]) != y[1500:]).mean() for each in (clf, rule)]
        assert errors[1] < errors[0]
