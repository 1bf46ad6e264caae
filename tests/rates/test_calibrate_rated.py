"""Calibration of a mixture that was chosen by rates."""

import pytest
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates


def test_calibrate_of_a_rated_choice_is_refused_before_the_rows_are_spent():
    X, y = make_classification(300, random_state=0)
    mix = tb.RobustMixtureClassifier(
        [("bayes", GaussianNB())], limits=[rates.selected(1) <= 0.6], random_state=0
    )
    mix.fit(X[:150], y[:150])
    for _ in range(2):  # not as an attempt that had these rows
        with pytest.raises(ValueError, match="max_error walks along one curve"):
            tb.calibrate(mix, X[150:], y[150:], max_error=0.4)
