"""Calibration of a mixture selected by rates."""

from sklearn.datasets import make_classification
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
        ("class 0", 0.4),
        ("class 1", 0.4),
    ]
