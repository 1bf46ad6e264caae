"""Mixtures: the probabilities of labels and of answers by loops over base models and rows."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from tailboost.boosting.ensemble import MixtureEnsemble

T, K, N = 5, 3, 200


def drawn(seed):
    """Return weights of which one is 0, trees on different labels, and rows."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(N, 3)), rng.dirichlet(np.ones(T)) * (np.arange(T) != 2)
    trees = [
        DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, rng.integers(K, size=N)) for _ in range(T)
    ]
    return weights / weights.sum(), trees, X


@pytest.mark.parametrize("seed", range(3))
def test_a_label_has_the_weight_of_the_models_that_answer_it(seed):
    weights, trees, X = drawn(seed)
    ensemble = MixtureEnsemble(trees, weights, K, np.arange(T))
    answers = [tree.predict(X) for tree in trees]
    expected = np.zeros((N, K))
    for row in range(N):
        for weight, by_model in zip(weights, answers, strict=True):
            expected[row, by_model[row]] += weight
    for scores in (ensemble.scores(X), ensemble.scores_of(answers)):
        np.testing.assert_allclose(scores, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_the_weighted_means_of_those_of_the_models(seed):
    weights, trees, X = drawn(seed)
    expected = sum(w * tree.predict_proba(X) for w, tree in zip(weights, trees, strict=True))
    np.testing.assert_allclose(MixtureEnsemble(trees, weights, K, np.arange(T)).probabilities(X), expected)
