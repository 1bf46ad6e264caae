"""No model of a fit that Ctrl-C has shortened joins an ensemble."""

import os
import signal
import subprocess
import sys
import textwrap
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
    with pytest.warns(tb.FitInterruptedWarning, match="interrupted after 2 rounds"):
        stopped = classifier("adalpboost", swallowing(hit), **params).fit(X, Y)
    assert stopped.n_iter_ == 2
    for one, two in zip(stopped.estimators_, whole.estimators_, strict=False):
        np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_ctrl_c_before_the_first_round(swallowing):
    params = {"theta": 0.3, "class_loss": "error", "combine": "mixture"}  # plain ERM joins the mixture
    with pytest.raises(KeyboardInterrupt):
        classifier("worstclassboost", swallowing(1), **params).fit(X, Y)


@pytest.mark.slow
def test_ctrl_c_in_a_perceptron():
    """Ctrl-C during a fit of scikit-learn's perceptron, in another process."""
    code = """
        import os, signal, warnings
        import numpy as np, tailboost as tb
        from sklearn.neural_network import MLPClassifier, _stochastic_optimizers

        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 5)); y = (X[:, 0] * X[:, 1] > 0).astype(int)
        net = MLPClassifier((10,), max_iter=30, tol=0, n_iter_no_change=1000, random_state=0)
        make = lambda: tb.AdaLPBoostClassifier(
            net, alpha=0.5, n_estimators=4, n_iter_no_change=None, cv="train",
            include_constants=False, random_state=0)
        warnings.simplefilter("ignore")
        whole = [m.predict_proba(X) for m in make().fit(X, y).estimators_]
        step, steps = _stochastic_optimizers.AdamOptimizer.update_params, 0

        def update_params(self, *args):
            global steps
            steps += 1
            if steps == 40:  # in the second round: an epoch is one step
                os.kill(os.getpid(), signal.SIGINT)
            step(self, *args)

        _stochastic_optimizers.AdamOptimizer.update_params = update_params
        stopped = make().fit(X, y)
        print(stopped.n_iter_, stopped.trace_.stop_reason)
        print(np.array_equal(stopped.estimators_[0].predict_proba(X), whole[0]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.stdout == "1 interrupted after 1 rounds\nTrue\n", done.stderr
