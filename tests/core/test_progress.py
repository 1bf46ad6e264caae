"""Progress: one line says what is done, of how much, and about the time left."""

import signal
import time

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost.core import long_work
from tailboost.core.long_work import duration, steps, telling

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(400, 3)), RNG.integers(2, size=400)


def test_a_line_has_what_is_done_of_how_much_and_the_time_left(monkeypatch):
    now, said = [100.0], []
    monkeypatch.setattr(long_work.time, "monotonic", lambda: now[0])
    with telling(said.append), steps("rounds", 10) as done:
        for seconds in (3.0, 3.0, 1.0, 1.0):  # the first line comes too soon, and two after another
            now[0] += seconds
            done()
        now[0] += 592.0
        done(5, "nearly there")
    assert said == [
        "rounds: 2 of 10, about 24 s left",
        "rounds: 9 of 10, about 67 s left; nearly there",
    ]


def test_verbose_tells_of_fits(capsys, monkeypatch):
    models = [("first", GaussianNB()), ("second", GaussianNB(var_smoothing=0.1))]
    monkeypatch.setattr(long_work, "PAUSE", 0.0)
    clf = tb.RobustMixtureClassifier(models, cv=3, verbose=1, random_state=0).fit(X, Y)
    assert capsys.readouterr().out.count("fits: ") == 8
    quiet = tb.RobustMixtureClassifier(models, cv=3, random_state=0).fit(X, Y)
    quiet.predict(X)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(quiet.predict_proba(X), clf.predict_proba(X))


def test_short_work_and_nobody_who_asks_stay_silent(capsys):
    said = []
    with telling(said.append), steps("rounds", 2) as done:
        done()
        done()
    with steps("rounds", 1) as done:
        done()
    assert not said
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "0 s"), (99, "99 s"), (100, "2 min"), (7200, "2.0 h")])
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.slow
def test_calibrate_and_certify_tell(capsys, monkeypatch):
    monkeypatch.setattr(long_work, "PAUSE", 0.0)
    p = RNG.random(2000)
    labels = (RNG.random(2000) < p).astype(int)
    rule = tb.RobustMixtureClassifier.from_probabilities(
        {"ours": p[:800]},
        labels[:800],
        limits=["f_score(1) >= .5"],  # ranks and thresholds serve no F
    )
    rows = {"ours": p[800:1500]}, labels[800:1500]
    certified = tb.calibrate(rule, *rows, verbose=1)
    said = capsys.readouterr().out
    assert "rows: 700 of 700" in said
    tb.certify(certified, {"ours": p[1500:]}, labels[1500:], verbose=1)
    assert "rows: 500 of 500" in capsys.readouterr().out
    tb.certify(certified, {"ours": p[1500:]}, labels[1500:])
    assert capsys.readouterr().out == ""


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
    assert not hasattr(mix, "ensemble_")
