"""The same statement in another library and here, on the same rows, as the page "coming from" has them."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV

import tailboost as tb

FLOOR = 0.9


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(33_000, weights=[0.7], class_sep=0.7, flip_y=0.1, random_state=0)
    model = LogisticRegression().fit(X[:1_000], y[:1_000])
    return model, X[1_000:3_000], y[1_000:3_000], X[3_000:], y[3_000:]


def errors(answers, y):
    return float(np.mean(answers != y)), float(recall_score(y, answers))


def test_a_recall_floor_beside_the_tuned_threshold(rows):
    model, X, y, X_new, y_new = rows

    def floor(truth, answers):
        recall = recall_score(truth, answers)
        return accuracy_score(truth, answers) if recall >= FLOOR else recall - 1

    theirs = TunedThresholdClassifierCV(model, scoring=make_scorer(floor), cv="prefit", refit=False).fit(X, y)
    ours = tb.tune(model, X, y, limits="recall(1) >= 90%", objective="error")
    assert recall_score(y, ours.predict(X)) >= FLOOR
    # Theirs is the best of a grid of thresholds on these rows.
    assert accuracy_score(y, ours.predict(X)) >= accuracy_score(y, theirs.predict(X))
    error, recall = errors(ours.predict(X_new), y_new)
    assert error <= errors(theirs.predict(X_new), y_new)[0] + 0.01
    assert recall >= FLOOR - 0.05


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked", "ignore:.*without limits")
def test_a_certified_recall_beside_mapie(rows):
    control = pytest.importorskip("mapie.risk_control")
    model, X, y, X_new, y_new = rows
    theirs = control.BinaryClassificationController(
        model.predict_proba, "recall", target_level=FLOOR, confidence_level=0.95
    ).calibrate(X, y)
    ours = tb.calibrate(model, X, y, limits="recall(1) >= 90%", confidence=0.95)
    assert ours.certificate_.certified
    (error, recall), (other, cautious) = (errors(each.predict(X_new), y_new) for each in (ours, theirs))
    assert FLOOR <= recall <= cautious
    assert error <= other
