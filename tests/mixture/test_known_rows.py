"""A mixture of models knows the rows it was made on: certificates refuse them."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tailboost as tb

X, y = make_classification(2000, n_informative=5, random_state=0)
PAIRS = [("bayes", GaussianNB()), ("line", LogisticRegression())]


def test_rows_that_were_fitted_on_certify_nothing():
    mix = tb.RobustMixtureClassifier(PAIRS, random_state=0).fit(X[:600], y[:600])
    assert mix.seen_share(X[:600]) == 1.0
    with pytest.raises(tb.SeenRowsError, match="100% of these rows"):
        tb.certify(mix, X[:600], y[:600])
    assert tb.certify(mix, X[600:], y[600:]).bound("mean").upper < 0.5


def test_rows_that_were_chosen_on_certify_nothing():
    mix = tb.RobustMixtureClassifier(PAIRS, random_state=0)
    mix.fit(X[:600], y[:600], X_val=X[600:900], y_val=y[600:900])
    other = mix.reweight(X[900:1200], y[900:1200])
    for rows, known in ((slice(600, 900), mix), (slice(600, 900), other), (slice(900, 1200), other)):
        with pytest.raises(tb.SeenRowsError):
            tb.certify(known, X[rows], y[rows])
    tb.certify(mix, X[900:1200], y[900:1200])


def test_a_point_of_the_trade_off_is_calibrated():
    mix = tb.RobustMixtureClassifier(PAIRS, random_state=0).fit(X[:600], y[:600])
    point = tb.calibrate(mix, X[600:1300], y[600:1300], max_error=0.4)
    errors = tb.metrics.class_errors(y[1300:], point.predict(X[1300:]))
    assert point.certificate_.certified
    assert np.max(list(errors.values())) < 0.4  # 95 % of the time, and the seed is fixed
    with pytest.raises(tb.SeenRowsError):
        tb.certify(point, X[600:1300], y[600:1300])
