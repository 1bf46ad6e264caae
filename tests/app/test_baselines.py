"""Baselines: tuned class weights against brute force and scikit-learn; balanced weights."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from tailboost import metrics
from tailboost.app.baselines import (
    CellWeightedClassifier,
    TunedThresholdClassifier,
    adjusted_answers,
    cell_weights,
    tune_class_weights,
)


def probabilities(seed, n=120, K=2, decimals=None):
    """Return informative class probabilities and labels; rounding creates ties."""
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n, p=np.arange(1, K + 1) / np.arange(1, K + 1).sum())
    y[:K] = np.arange(K)
    scores = 1.5 * np.eye(K)[y] + rng.gumbel(size=(n, K))
    P = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return (P if decimals is None else P.round(decimals)), y


def errors(y, answers):
    return max(metrics.class_errors(y, answers).values()), float(np.mean(answers != y))


def by_brute_force(P, y, most=np.inf):
    """Return the lowest (worst, overall) error over all thresholds on the odds of class 1."""
    logit = np.log(np.maximum(P[:, 1], 1e-6)) - np.log(np.maximum(P[:, 0], 1e-6))
    cuts = np.unique(logit)
    between = [cuts[0] - 1, *(cuts[1:] + cuts[:-1]) / 2, cuts[-1] + 1]
    found = [errors(y, (logit > cut).astype(int)) for cut in between]
    return min(pair for pair in found if pair[1] <= most + 1e-12)


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("seed", range(10))
def test_two_classes_are_exact(seed, decimals):
    P, y = probabilities(seed, decimals=decimals)
    log_weights, worst, mean = tune_class_weights(P, y)
    assert (worst, mean) == pytest.approx(by_brute_force(P, y), abs=1e-12)
    assert (worst, mean) == pytest.approx(errors(y, adjusted_answers(P, log_weights)), abs=1e-12)
    assert log_weights.mean() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("budget", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("seed", range(5))
def test_two_classes_are_exact_within_a_budget(seed, budget):
    P, y = probabilities(seed)
    most = float(np.mean(P.argmax(axis=1) != y)) + budget
    _, worst, mean = tune_class_weights(P, y, error_budget=budget)
    assert mean <= most + 1e-12
    assert worst == pytest.approx(by_brute_force(P, y, most)[0], abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_three_classes_are_near_the_best_of_a_fine_grid(seed):
    P, y = probabilities(seed, n=200, K=3)
    _, worst, mean = tune_class_weights(P, y)
    grid = np.linspace(-3, 3, 61)
    best = min(errors(y, adjusted_answers(P, [0, a, b])) for a, b in itertools.product(grid, grid))
    assert worst <= best[0] + 0.01
    assert worst <= errors(y, P.argmax(axis=1))[0]
    assert mean <= best[1] + 0.05


@pytest.mark.parametrize("budget", [0.0, 0.03])
def test_many_classes_keep_to_a_budget(budget):
    P, y = probabilities(1, n=300, K=4)
    plain_worst, plain_mean = errors(y, P.argmax(axis=1))
    log_weights, worst, mean = tune_class_weights(P, y, error_budget=budget)
    assert (worst, mean) == pytest.approx(errors(y, adjusted_answers(P, log_weights)), abs=1e-12)
    assert mean <= plain_mean + budget + 1e-12
    assert worst <= plain_worst


def test_a_class_without_rows_does_not_count():
    P, y = probabilities(0, K=3)
    kept = y != 1
    _, worst, _ = tune_class_weights(P[kept], y[kept])
    assert worst <= errors(y[kept], P[kept].argmax(axis=1))[0]


def test_no_worse_than_scikit_learn_on_the_same_rows():
    X, y = make_classification(400, 6, weights=[0.85], flip_y=0.1, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    model = LogisticRegression()
    ours = TunedThresholdClassifier(model, random_state=3).fit(X, y)
    scorer = make_scorer(metrics.worst_class_error, greater_is_better=False)
    peer = TunedThresholdClassifierCV(model, scoring=scorer, cv=folds, thresholds=200).fit(X, y)
    P = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    worst, mean = errors(y, (P[:, 1] >= peer.best_threshold_).astype(int))
    assert ours.worst_class_error_ <= worst
    assert abs(ours.mean_error_ - mean) < 0.1
    np.testing.assert_allclose(ours.predict_proba(X), model.fit(X, y).predict_proba(X))


class TestWeights:
    def test_cells_weigh_the_same(self):
        rng = np.random.default_rng(0)
        y, groups = rng.choice(3, 200, p=[0.1, 0.3, 0.6]), rng.choice(["a", "b"], 200, p=[0.2, 0.8])
        weights = cell_weights(y, groups)
        sums = [weights[(y == k) & (groups == g)].sum() for k in range(3) for g in "ab"]
        np.testing.assert_allclose(sums, 200 / 6)

    def test_without_groups_it_is_class_weight_balanced(self):
        X, y = make_classification(200, 5, weights=[0.8], flip_y=0.1, random_state=2)
        ours = CellWeightedClassifier(LogisticRegression()).fit(X, y)
        peer = LogisticRegression(class_weight="balanced").fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-6)

    def test_groups_of_another_length(self):
        with pytest.raises(ValueError, match="groups has 2 rows, y has 3"):
            cell_weights([0, 1, 1], ["a", "b"])


@pytest.mark.parametrize(
    ("params", "message"), [({"error_budget": -0.1}, "error_budget"), ({"cv": 1}, "n_splits")]
)
def test_bad_parameters(params, message):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        TunedThresholdClassifier(LogisticRegression(), **params).fit(X, y)


def test_many_classes_with_text_labels():
    X, y = load_wine(return_X_y=True)
    names = np.array(["red", "white", "rosé"])[y]
    forest = RandomForestClassifier(20, random_state=0)
    clf = TunedThresholdClassifier(forest, random_state=0).fit(X, names)
    plain = cross_val_predict(forest, X, names, cv=StratifiedKFold(5, shuffle=True, random_state=0))
    assert clf.worst_class_error_ <= max(metrics.class_errors(names, plain).values())
    assert set(clf.predict(X)) == {"red", "white", "rosé"}


def explained(estimator):
    """Return the expected failure: ``predict`` of tuned thresholds is not the argmax of ``predict_proba``."""
    tuned = isinstance(estimator, TunedThresholdClassifier)
    return {"check_classifiers_train": "predict is not the argmax of predict_proba"} if tuned else {}


@pytest.mark.thinned(35)
@parametrize_with_checks(
    [CellWeightedClassifier(LogisticRegression()), TunedThresholdClassifier(LogisticRegression(), cv=2)],
    expected_failed_checks=explained,
)
def test_conformance(estimator, check):
    check(estimator)
