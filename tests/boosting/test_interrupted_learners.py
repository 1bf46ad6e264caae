"""No model of a fit that Ctrl-C has shortened joins an ensemble."""

import os
import signal
import time

import numpy as np
import pytest
from conftest import make, noisy
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

X, Y = noisy(17, n=90, K=3)


def classifier(name, estimator, **params):
    given = {"cv": "train", "alpha": 0.4, "random_state": 0, "n_iter_no_change": None} | params
    return make(name, estimator, n_estimators=4, **given)


class Swallowing(DecisionTreeClassifier):
    """Tree with an early return after Ctrl-C during its fit, like scikit-learn's perceptron."""

    fits, hit = 0, None

    def fit(self, X, y, sample_weight=None):
        cls = type(self)
        cls.fits += 1
        try:
            if cls.fits == cls.hit:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)  # until the signal arrives
        except KeyboardInterrupt:
            return super().fit(X, y, sample_weight=np.arange(len(y)) == 0)
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.fixture
def swallowing(monkeypatch):
    def start(hit=None):
        monkeypatch.setattr(Swallowing, "fits", 0)
        monkeypatch.setattr(Swallowing, "hit", hit)
        return Swallowing(max_depth=2)

    return start


@pytest.mark.parametrize(("cv", "hit"), [("train", 3), (5, 15), (5, 18), (0.3, 5)])
def test_no_half_trained_model_joins_the_ensemble(cv, hit, swallowing):
    params = {"cv": cv, "include_constants": False}
    whole = classifier("adalpboost", swallowing(), **params).fit(X, Y)
    with pytest.warns(tb.FitInterruptedWarning, match="interrupted"):
        stopped = classifier("adalpboost", swallowing(hit), **params).fit(X, Y)
    assert stopped.n_iter_ == 2
    for one, two in zip(stopped.estimators_, whole.estimators_, strict=False):
        np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_ctrl_c_before_the_first_round(swallowing):
    params = {"theta": 0.3, "class_loss": "error", "combine": "mixture"}  # plain ERM joins the mixture
    with pytest.raises(KeyboardInterrupt):
        classifier("worstclassboost", swallowing(1), **params).fit(X, Y)
