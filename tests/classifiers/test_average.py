"""Averages of the models' log-probabilities with learned weights."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from tailboost import RobustMixtureClassifier
from tailboost.rows.rows import Rows
from tailboost.selection.outputs import GRAIN, IDLE, PSEUDO_ROWS, Models, averaging


def noisy_probabilities(rng, y, K, strength):
    scores = rng.normal(size=(len(y), K))
    scores[np.arange(len(y)), y] += strength
    return log_softmax(scores, axis=1)


def peer(logs, y, weight, idle=()):
    """The least penalised log loss by a general solver; idle models have no weight."""
    M, K = len(logs), logs[0].shape[1]

    def loss(t):
        z = log_softmax(sum(w * log for w, log in zip(t[:M], logs, strict=True)) + t[M:], axis=1)
        square = ((t[:M] - 1 / M) ** 2).sum() + (t[M:] ** 2).sum()
        return -weight @ z[np.arange(len(y)), y] + PSEUDO_ROWS / 2 * square

    start = np.r_[np.full(M, 1 / M), np.zeros(K)]
    bounds = [(0, 0 if i in idle else None) for i in range(M)] + [(None, None)] * K
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-7}
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x, found.fun, loss


def learned(logs, rows):
    M, K = len(logs), logs[0].shape[1]
    names, unused = [f"m{i}" for i in range(M)], [None] * M
    return averaging(Models(names, unused, [], rows, np.ones(M) / M, np.zeros(K), logs))


@pytest.mark.parametrize(("strengths", "K"), [((1.0, 2.0), 2), ((0.5, 1.5, 2.0), 4), ((2.0, -1.5), 3)])
def test_weights_have_the_least_log_loss(strengths, K):
    rng = np.random.default_rng(K)
    y = rng.integers(0, K, 300)
    logs = [noisy_probabilities(rng, y, K, s) for s in strengths]
    weight = rng.integers(1, 4, 300) / 2.0
    average = learned(logs, Rows(y, weight, None, ""))
    _, least, loss = peer(logs, y, weight)
    assert loss(np.r_[average.weights, average.offset]) == pytest.approx(least, rel=1e-6)
    assert (average.weights >= 0.0).all()
    if min(strengths) < 0:  # a model that predicts the contrary has no weight and is not evaluated
        assert average.weights[1] == 0.0
        assert average.used.tolist() == [0]


@pytest.mark.parametrize(("seed", "dropped"), [(7, True), (8, False)])
def test_a_model_that_hardly_lowers_the_loss_gets_no_weight(seed, dropped):
    rng = np.random.default_rng(seed)
    y, weight = rng.integers(0, 3, 5000), np.ones(5000)
    base, faint = (noisy_probabilities(rng, y, 3, s) for s in (1.5, 0.03))
    first, second = (log_softmax(base + 0.1 * rng.normal(size=base.shape), axis=1) for _ in range(2))
    for logs, place in (([faint, base], 0), ([first, faint, second], 1)):
        free, least, _ = peer(logs, y, weight)
        assert (free[: len(logs)] > 10 * GRAIN).all()  # at the least loss each model has a weight
        fixed, without, _ = peer(logs, y, weight, [place])
        assert (without <= (1 + IDLE) * least) == dropped
        average = learned(logs, Rows(y, weight, None, ""))
        assert (average.weights[place] == 0.0) == dropped
        expected = fixed if dropped else free
        np.testing.assert_allclose(np.r_[average.weights, average.offset], expected, atol=GRAIN)


def test_few_rows_leave_the_even_average():
    rng = np.random.default_rng(0)
    logs = [noisy_probabilities(rng, np.array([0, 1]), 2, s) for s in (1.0, 3.0)]
    average = learned(logs, Rows(np.array([0, 1]), np.full(2, 1e-3), None, ""))
    np.testing.assert_allclose(average.weights, 0.5, atol=0.01)
    np.testing.assert_allclose(average.offset, 0.0, atol=0.01)


def test_neither_order_nor_repetition_of_rows_changes_an_average():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 200)
    logs = [noisy_probabilities(rng, y, 3, s) for s in (1.0, 1.5)]
    times = rng.integers(1, 3, 200)
    shuffled = rng.permutation(np.repeat(np.arange(200), times))
    once = learned(logs, Rows(y, times.astype(float), None, ""))
    again = learned([log[shuffled] for log in logs], Rows(y[shuffled], np.ones(len(shuffled)), None, ""))
    np.testing.assert_array_equal(once.weights, again.weights)
    np.testing.assert_array_equal(once.offset, again.offset)
    assert (once.weights / GRAIN % 1 == 0).all()


def test_models_that_agree_by_chance_alone_are_surer_together():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 4000)
    logs = [noisy_probabilities(rng, y, 2, np.sqrt(2)) for _ in range(2)]
    # Scores with independent noise: both log odds add up to the true log odds.
    truth = [np.column_stack([np.zeros(4000), np.sqrt(2) * (log[:, 1] - log[:, 0])]) for log in logs]
    average = learned([log_softmax(t, axis=1) for t in truth], Rows(y, np.ones(4000), None, ""))
    np.testing.assert_allclose(average.weights, 1.0, atol=0.1)


def test_a_mixture_answers_new_rows_by_the_average_it_learned():
    rng = np.random.default_rng(3)
    y, fresh = rng.integers(0, 3, 600), rng.integers(0, 3, 50)
    noise = {"a": 1.5, "b": 1.0}
    P, Q = ({m: np.exp(noisy_probabilities(rng, t, 3, s)) for m, s in noise.items()} for t in (y, fresh))
    mix = RobustMixtureClassifier.from_probabilities(P, y, objective="error")
    weights, _, _ = peer([np.log(P["a"]), np.log(P["b"])], y, np.ones(600))
    scores = weights[0] * np.log(Q["a"]) + weights[1] * np.log(Q["b"]) + weights[2:]
    np.testing.assert_array_equal(mix.predict(Q), scores.argmax(axis=1))
