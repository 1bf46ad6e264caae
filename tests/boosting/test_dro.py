"""DRO boosting: radius 0 is AdaBoost, the radius by the data, and the ends of a fit."""

import numpy as np
import pytest
from conftest import noisy, refused
from scipy.optimize import minimize
from scipy.stats import chi2
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import AdaBoostClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import published
from tailboost.boosting.dro import WorstCaseKL
from tailboost.boosting.variance import Exponential

STUMP = DecisionTreeClassifier(max_depth=1)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_radius_zero_is_adaboost(n_classes):
    """Corollary 2 of Blanchet et al. 2019."""
    ours, reference = WorstCaseKL(0.0, n_classes=n_classes), Exponential(n_classes=n_classes)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.ones(40))
        a, b = ours.start(p), reference.start(p)
        for _ in range(30):
            np.testing.assert_allclose(ours.weights(a), reference.weights(b), rtol=0, atol=1e-10)
            wrong = rng.random(40) < 0.35
            a, b = ours.update(a, wrong), reference.update(b, wrong)
            assert a.steps[-1] == pytest.approx(b.steps[-1], rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_iris])
def test_radius_zero_is_scikit_learns_adaboost(load):
    X, y = load(return_X_y=True)
    ours = tb.DROBoostClassifier(STUMP, n_estimators=25, radius=0.0, random_state=0).fit(X, y)
    theirs = AdaBoostClassifier(STUMP, n_estimators=25, random_state=0).fit(X, y)
    K = len(ours.classes_)
    steps = theirs.estimator_weights_[: len(ours.estimators_)] * (K - 1) / K
    np.testing.assert_allclose(ours.estimator_weights_, steps, rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.filterwarnings("ignore:no hypothesis:UserWarning")
def test_the_radius_is_about_distinct_rows():
    X, y = noisy(0, n=400)
    tree = DecisionTreeClassifier(max_depth=2)
    for learner in (tree, make_pipeline(StandardScaler(), tree)):
        clf = tb.DROBoostClassifier(learner, n_estimators=2).fit(X, y)
        assert clf.radius_ == pytest.approx(chi2.ppf(0.95, 4) / 800)
    twice = np.repeat(np.arange(400), 2)
    stated = tb.DROBoostClassifier(STUMP, n_estimators=2, effective_dim=30, confidence=0.9)
    assert stated.fit(X[twice], y[twice]).radius_ == pytest.approx(chi2.ppf(0.9, 30) / 800)
    words = make_pipeline(OneHotEncoder(), STUMP)
    text = tb.DROBoostClassifier(words, n_estimators=1, effective_dim=1)
    assert text.fit([["a"], ["b"], ["a"]], [0, 1, 0]).radius_ == pytest.approx(chi2.ppf(0.95, 1) / 4)
    stump = tb.DROBoostClassifier(STUMP, n_estimators=1, effective_dim=1)
    gaps = stump.fit([[0.0], [np.nan], [1.0], [0.0]], [0, 0, 1, 0])  # no value is not 0
    assert gaps.radius_ == pytest.approx(chi2.ppf(0.95, 1) / 6)
    X[:, 0] = np.nan
    assert stated.fit(X[twice], y[twice]).radius_ == pytest.approx(chi2.ppf(0.9, 30) / 800)


@pytest.mark.filterwarnings("ignore:no hypothesis:UserWarning")
def test_a_first_hypothesis_without_a_step_leaves_the_best_constant():
    X, y = noisy(0, n=200)
    for learner, radius in ((STUMP, 5.0), (DummyClassifier(), 0.0)):
        clf = tb.DROBoostClassifier(learner, n_estimators=5, radius=radius).fit(X, y)
        assert (clf.predict(X) == np.bincount(y).argmax()).all()


def test_a_hypothesis_without_errors_ends_the_fit():
    X, y = np.arange(40.0)[:, None], (np.arange(40) >= 20).astype(int)
    clf = tb.DROBoostClassifier(STUMP, n_estimators=5, radius=0.01).fit(X, y)
    assert clf.n_iter_ == 1
    assert clf.score(X, y) == 1


@pytest.mark.parametrize("seed", range(3))
def test_profile_likelihood_is_the_least_divergence(seed):
    """R_n(f) of (8) by a generic solver, for AdaBoost's steps, which are not optimal on these rows."""
    X, y = noisy(seed, n=60)
    clf = tb.AdaBoostClassifier("stump", n_estimators=2).fit(X, y)
    sign = 2.0 * y - 1
    margins = np.array([f * sign for f in clf.staged_decision_function(X)])
    conditions = np.exp(-margins[-1]) * np.diff(margins, axis=0, prepend=0.0)
    n = len(y)
    found = minimize(
        lambda q: np.sum(q * np.log(np.maximum(q * n, 1e-300))), np.full(n, 1 / n),
        jac=lambda q: np.log(np.maximum(q * n, 1e-300)) + 1, method="SLSQP", bounds=[(1e-12, 1)] * n,
        constraints=[{"type": "eq", "fun": lambda q: q.sum() - 1},
        {"type": "eq", "fun": lambda q: conditions @ q}], options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert published.profile_likelihood(clf, X, y) == pytest.approx(found.fun, abs=1e-8)


def test_profile_likelihood_of_steps_that_no_rows_make_optimal_is_infinite():
    X, y = np.arange(40.0)[:, None], (np.arange(40) >= 20).astype(int)
    clf = tb.AdaBoostClassifier("stump", n_estimators=1).fit(X, y)
    assert published.profile_likelihood(clf, X, y) == np.inf


def test_unknown_or_too_few_labels_are_named():
    X, y = noisy(0, n=60)
    clf = tb.AdaBoostClassifier("stump", n_estimators=2).fit(X, y)
    for measure in (lambda y: published.profile_likelihood(clf, X, y), lambda y: clf.margins(X, y)):
        refused(lambda: measure(np.where(y == 1, 7, y)), r"y holds labels .*\[7\]")
        refused(lambda: measure(y[:1]), "y has 1 row,")


def test_radius_and_bernstein_bound_by_their_formulas():
    assert published.dro_radius(3000, 0.95, 30) == pytest.approx(chi2.ppf(0.95, 30) / 6000)
    losses, log = np.random.default_rng(0).random(200), np.log(2 / 0.1)
    bound = losses.mean() + np.sqrt(2 * losses.var(ddof=1) * log / 200) + 7 * log / (3 * 199)
    assert published.empirical_bernstein_bound(losses, 0.1) == pytest.approx(bound)
    log = 5 - np.log(0.1)
    bound = losses.mean() + np.sqrt(18 * losses.var(ddof=1) * log / 200) + 15 * log / 199
    assert published.empirical_bernstein_bound(losses, 0.1, log_covering=5) == pytest.approx(bound)
    refused(lambda: published.empirical_bernstein_bound([0.5, 2.0]), "losses")
    refused(lambda: published.empirical_bernstein_bound([0.5, 1.0], "a"), "delta")
    refused(lambda: published.dro_radius(0), "radius")
