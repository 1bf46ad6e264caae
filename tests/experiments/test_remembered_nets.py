"""A game of nets that is played again reads its trained nets from a folder."""

import warnings

import numpy as np
import pytest

import tailboost as tb

pytest.importorskip("torch", reason="needs the extra torch")

from experiments._nets import Remembered
from tailboost.torch import TorchClassifier, nets

GAMES = {
    "rows": (tb.AdaLPBoostClassifier, {"cv": "train", "include_constants": False}),
    "growing": (tb.WorstClassBoostClassifier, {"class_loss": "indicator", "gamma": 0.1, "max_error": 0.6}),
}


def table(n=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    return X, rng.integers(0, 3, n)


def net(**params):
    return TorchClassifier(nets.mlp_100_100, steps=8, batch_size=16, device="cpu", random_state=0, **params)


@pytest.mark.parametrize("game", GAMES)
def test_a_killed_game_continues(game, tmp_path):
    cls, params = GAMES[game]
    params = {"n_iter_no_change": None, "random_state": 0, **params}
    learner = net(growth=4) if game == "growing" else net()
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = cls(learner, n_estimators=3, **params).fit(X, y)
        remembered = Remembered(learner, tmp_path)
        cls(remembered, n_estimators=2, **params).fit(X, y)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        again = cls(remembered, n_estimators=3, **params).fit(X, y)
    assert before
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    np.testing.assert_array_equal(again.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(again.estimator_weights_, whole.estimator_weights_)
