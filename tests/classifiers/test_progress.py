"""Progress of fits, and Ctrl-C."""

import signal
import time

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import tailboost as tb

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(400, 3)), RNG.integers(2, size=400)


def test_verbose_tells_of_fits(capfd):
    models = [("first", GaussianNB()), ("second", GaussianNB(var_smoothing=0.1))]
    clf = tb.RobustMixtureClassifier(models, cv=3, verbose=10, random_state=0).fit(X, Y)
    assert "Done" in capfd.readouterr().err
    quiet = tb.RobustMixtureClassifier(models, cv=3, random_state=0).fit(X, Y)
    quiet.predict(X)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(quiet.predict_proba(X), clf.predict_proba(X))


class Interrupting(GaussianNB):
    """Ctrl-C comes while this model is trained; ``catches`` it and returns a half-trained model."""

    def __init__(self, catches=False):
        super().__init__()
        self.catches = catches

    def fit(self, X, y, sample_weight=None):
        try:
            signal.raise_signal(signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            if not self.catches:
                raise
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("catches", [False, True])
def test_ctrl_c_keeps_finished_models(catches):
    models = [("first", GaussianNB()), ("second", GaussianNB(var_smoothing=0.1))]
    late = [("third", Interrupting(catches)), ("fourth", GaussianNB())]
    mix = tb.RobustMixtureClassifier([*models, *late], random_state=0)
    with pytest.warns(tb.FitInterruptedWarning, match="interrupted"):
        mix.fit(X, Y)
    whole = tb.RobustMixtureClassifier(models, random_state=0).fit(X, Y)
    assert list(mix.named_estimators_) == ["first", "second"]
    np.testing.assert_array_equal(mix.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("catches", [False, True])
def test_ctrl_c_without_a_finished_model_ends_the_fit(catches):
    mix = tb.RobustMixtureClassifier([("first", Interrupting(catches)), ("second", GaussianNB())])
    with pytest.raises(KeyboardInterrupt):
        mix.fit(X, Y)
    assert not hasattr(mix, "evidence_")
