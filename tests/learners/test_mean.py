"""Means of several models as base models, from a cross-fit or from all rounds so far."""

import numpy as np
import pytest
from conftest import errors_of, noisy
from sklearn.datasets import make_classification

import tailboost as tb
from tailboost.boosting.game import Request, StopKind
from tailboost.boosting.learner import CrossFitLearner
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.foreign import open_session
from tailboost.rows.rows import Rows
from tailboost.selection.progress import HelpsTail

K = 3


def fitted(learner, X, y, fold, weight=None):
    """Return the response of a round, and models fitted without each fold."""
    u = np.ones(len(y)) if weight is None else weight
    one = np.ones(len(y))
    session = open_session(learner, X, y, int(y.max()) + 1, one, {})
    rows = Rows(y, one, None, "")
    response = CrossFitLearner(session, rows, rows, fold).fit(Request(u, 0))
    return response, [session.fit(u, 0, fold != j) for j in range(fold.max() + 1)]


def test_a_single_tree_is_fitted_to_all_rows():
    X, y = noisy(3, n=120, K=K)
    response, _ = fitted(HistTreeClassifier(max_depth=3), X, y, np.arange(len(y)) % 3)
    np.testing.assert_array_equal(
        response.model.predict(X), HistTreeClassifier(max_depth=3).fit(X, y).predict(X)
    )


def rounds_and_fits(**options):
    """Return the rounds of a game on 6,000 rows, and the number of fits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 2)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=6_000) > 0).astype(int)
    fits = []

    class Counted(HistBoostClassifier):
        def open_session(self, *args):
            session = super().open_session(*args)
            fit = session.fit
            session.fit = lambda *given: (fits.append(given), fit(*given))[1]
            return session

    clf = tb.AdaLPBoostClassifier(Counted(n_estimators=3, max_depth=2), random_state=0, **options)
    return clf.fit(X, y), len(fits)


def test_a_round_ends_where_it_clearly_brings_nothing():
    clf, n_fits = rounds_and_fits()
    assert (clf.n_iter_, n_fits) == (1, 4)  # three folds of the first round, one of the second
    whole, n_fits = rounds_and_fits(n_iter_no_change=None)
    assert (whole.n_iter_, n_fits) == (3, 9)
    clf, n_fits = rounds_and_fits(cv=5)
    assert n_fits <= 5 * clf.n_iter_ + 5


@pytest.mark.parametrize("alpha", [0.3, 0.6])
def test_a_base_model_without_gain_on_some_rows_is_refused(alpha):
    """A base model is refused if its error is significantly larger than the error of the best one."""
    rng = np.random.default_rng(0)
    X, y = noisy(6, n=600)
    clf = tb.AdaLPBoostClassifier(n_estimators=1, alpha=alpha, random_state=0).fit(X, y)
    pool, rows = clf.selection_.pool, np.arange(600) % 2 == 0
    helps = HelpsTail(clf.selection_.problem, 1e-3)
    losses = pool.part(rows).losses
    best = int(pool.part(rows).mean_losses.argmin())
    truth = y[rows]
    same = np.where(losses.row(best), 1 - truth, truth)
    worse = np.where(rng.random(300) < 0.2, 1 - same, same)
    assert helps(pool, rows, same) is None
    assert helps(pool, rows, worse).kind is StopKind.PLATEAU
    assert helps(pool, rows, truth) is None  # a perfect base model
    few = rows & (np.arange(600) < 20)
    assert helps(pool, few, worse[:10]) is None


@pytest.mark.parametrize("K", [2, 3])
def test_log_odds_of_the_mean_are_the_mean_of_the_log_odds(K):
    """The geometric mean keeps thresholds valid that were selected on single models."""
    X, y = make_classification(600, 8, n_informative=5, n_classes=K, random_state=0)
    mix = tb.RobustMixtureClassifier([("trees", HistBoostClassifier(n_estimators=10))], cv=3, random_state=0)
    (kept,) = mix.fit(X, y).selection_.engine.outputs.models.fitted
    logs = np.mean([np.log(model.predict_proba(X)) for model in kept.models], axis=0)
    P = kept.predict_proba(X)
    np.testing.assert_allclose(np.log(P[:, 1:] / P[:, :1]), logs[:, 1:] - logs[:, :1], atol=1e-5)
    np.testing.assert_allclose(P.sum(axis=1), 1)


@pytest.mark.slow
def test_a_rare_class_is_predicted_no_more_often_than_out_of_fold():
    """The fraction of predicted 1 is as on the selection data; the arithmetic mean gave .05 more."""
    found = []
    for seed in range(6):
        X, y = make_classification(
            6500, 10, n_informative=5, weights=[0.985], flip_y=0.01, class_sep=0.8, random_state=seed
        )
        trees = HistBoostClassifier(n_estimators=100, max_depth=4, learning_rate=0.1)
        mix = tb.RobustMixtureClassifier([("trees", trees)], random_state=seed).fit(X[:2500], y[:2500])
        error = np.mean(mix.predict(X[2500:])[y[2500:] == 0] != 0)
        found.append(error - errors_of(mix)[0])
    assert np.mean(found) < 0.025
