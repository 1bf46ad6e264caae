"""Voters as in the published scripts of worst-class boosting."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments._scripts import ScriptClassifier
from tailboost import published
from tailboost.learners.torch import nets
from tailboost.learners.torch.losses import naive


def rows():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [120, 60, 20])
    return (rng.normal(size=(200, 2)) + 2 * np.eye(3)[y][:, :2]).astype(np.float32), y


def test_rounds_share_the_first_net_and_carry_the_state_of_the_optimiser():
    X, y = rows()
    learner = ScriptClassifier(
        nets.mlp, optimizer="adam", learning_rate=0.01, steps=4, growth=2, random_state=0
    )
    session = learner.open_session(X, y, 3, np.ones(len(y)))
    weight = 1 / np.bincount(y)[y]
    first = session.begin(weight, 1, None)
    start = {name: value.clone() for name, value in first.net.state_dict().items()}
    for _ in session.stages(weight, 1):
        pass
    second = session.begin(weight, 2, None)
    assert all(torch.equal(start[name], value) for name, value in second.net.state_dict().items())
    assert {int(state["step"]) for state in second.optimizer.state.values()} == {4}


def test_a_class_is_drawn_in_proportion_to_its_rows_and_weight():
    X, y = rows()
    session = ScriptClassifier(nets.mlp, random_state=0).open_session(X, y, 3, np.ones(len(y)))
    drawn = y[session.begin((np.array([1, 1, 2]) / np.bincount(y))[y], 0, None).draw(500).numpy().ravel()]
    share = np.bincount(drawn) / len(drawn)
    np.testing.assert_allclose(share, np.array([120, 60, 40]) / 220, atol=0.01)


def test_a_game_is_played_with_these_voters():
    X, y = rows()
    learner = ScriptClassifier(
        nets.mlp, optimizer="adam", learning_rate=0.01, steps=1000, growth=20, random_state=0
    )
    clf = published.worst_class_boost(learner, 0.5, gamma=0.1, n_estimators=3, random_state=0).fit(X, y)
    assert clf.n_iter_ == 3, clf.trace_.stop_reason


def test_the_worst_class_by_accuracy_and_by_loss_may_differ():
    # Class 0: one row of two is wrong by little. Class 1: all right, one with a large loss.
    logits = torch.tensor([[0.0, 0.1], [3.0, 0.0], [0.0, 0.01], [0.0, 0.01]])
    y = torch.tensor([0, 0, 1, 1])
    by_row = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    assert naive(logits, y) == by_row[2:].mean()
    assert naive(logits, y, by_accuracy=True) == by_row[:2].mean()
