"""Means of several models as base models, from a cross-fit or from all rounds so far."""

import pickle

import numpy as np
import pytest
from conftest import errors_of, noisy
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification

import tailboost as tb
from tailboost.boosting.game import Request, StopKind
from tailboost.boosting.learner import CrossFitLearner, round_significant
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.foreign import open_session
from tailboost.rates.metrics import cvar
from tailboost.rows.rows import Rows
from tailboost.selection.progress import HelpsTail
from tailboost.solvers import minimize_cvar_mixture

K = 3


def fitted(learner, X, y, fold, weight=None):
    """Return the response of a round, and models fitted without each fold."""
    u = np.ones(len(y)) if weight is None else weight
    one = np.ones(len(y))
    session = open_session(learner, X, y, int(y.max()) + 1, one, {})
    rows = Rows(y, one, None, "")
    response = CrossFitLearner(session, rows, rows, fold).fit(Request(u, 0))
    return response, [session.fit(u, 0, fold != j) for j in range(fold.max() + 1)]


@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
def test_a_member_is_the_mean_of_the_models_that_judged(backend):
    X, y = noisy(2, n=150, K=K)
    fold = np.arange(len(y)) % 4
    learner = HistBoostClassifier(n_estimators=8, backend=backend)
    u = np.random.default_rng(0).integers(1, 5, len(y)) / 2.0
    response, models = fitted(learner, X, y, fold, u)
    P = np.mean([m.predict_proba(X) for m in models], axis=0)
    np.testing.assert_array_equal(response.model.predict(X), P.argmax(axis=1))
    out_of_fold = np.array([models[fold[i]].predict(X[i : i + 1])[0] for i in range(len(y))])
    np.testing.assert_array_equal(response.answers, out_of_fold)
    importances = np.mean([m.feature_importances_ for m in models], axis=0) if backend == "xgboost" else None
    if importances is not None:
        np.testing.assert_allclose(response.model.feature_importances_, importances)


def test_a_class_has_the_mean_of_the_models_with_its_rows():
    X, y = noisy(7, n=100, K=K)
    fold = np.arange(len(y)) % 5
    y = np.where(y == 2, 1, y)
    y[[0, 5]] = 2  # both rows are in fold 0, so its model has no class 2
    X[[0, 5]] = 30.0
    response, models = fitted(HistBoostClassifier(n_estimators=20, min_child_weight=0.0), X, y, fold)
    each = np.array([m.predict_proba(X) for m in models])
    P = np.column_stack([each[:, :, :2].mean(axis=0), each[1:, :, 2].mean(axis=0)])
    np.testing.assert_array_equal(response.model.predict(X), P.argmax(axis=1))
    assert (response.model.predict(X[[0, 5]]) == 2).all()


def test_a_single_tree_is_fitted_to_all_rows():
    X, y = noisy(3, n=120, K=K)
    response, _ = fitted(HistTreeClassifier(max_depth=3), X, y, np.arange(len(y)) % 3)
    np.testing.assert_array_equal(
        response.model.predict(X), HistTreeClassifier(max_depth=3).fit(X, y).predict(X)
    )


def many(n_classes=4):
    return make_classification(
        150, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, class_sep=0.8, random_state=0
    )


BOOST = HistBoostClassifier(n_estimators=6, max_depth=3)


def test_the_models_of_all_rounds_answer_together():
    """Rounds are repeated here with the same weights, folds and mean probabilities."""
    n_classes = 4
    X, y = many()
    clf = tb.AdaLPBoostClassifier(BOOST, n_iter_no_change=None, random_state=0).fit(X, y)
    fold = clf.selection_.pool.rows.fold
    parts = [fold != j for j in range(5)]
    session = open_session(BOOST, X, y, n_classes, np.ones(len(y)), {})  # cuts from all rows
    everybody = np.ones(len(y), dtype=bool)
    mistakes, judged, known = np.zeros(len(y)), np.zeros((len(y), n_classes)), np.zeros((len(y), n_classes))
    for t in range(3):
        w = round_significant(np.exp(mistakes) / np.exp(mistakes).mean())
        models = [session.fit(w, 0, rows) for rows in parts]
        for rows, model in zip(parts, models, strict=True):
            judged[~rows] += model.predict_proba(X[~rows])
        known += session.fit(w, 0, everybody).predict_proba(X)
        wrong = judged.argmax(axis=1) != y
        np.testing.assert_array_equal(wrong, clf.selection_.pool.loss(t))
        np.testing.assert_array_equal(known.argmax(axis=1), clf.estimators_[t].predict(X))
        mistakes += wrong
    assert len(clf.estimators_[2].table_.models) == 3


def test_runners_up_are_the_next_likely_classes_of_the_first_round():
    X, y = many()
    clf = tb.AdaLPBoostClassifier(BOOST, n_estimators=2, n_iter_no_change=None, random_state=0).fit(X, y)
    assert len(clf.estimators_) == 2 + 4 + 3  # two rounds, four constants
    first = clf.estimators_[0].table_.models[0]
    order = np.argsort(-first.predict_proba(X), axis=1, kind="stable")
    for rank in (1, 2, 3):
        np.testing.assert_array_equal(clf.estimators_[5 + rank].predict(X), order[:, rank])
    once = sum(clf.selection_.pool.loss(m).astype(int) for m in (0, 6, 7, 8))
    np.testing.assert_array_equal(once, 3)  # one rank per class
    plain = clone(clf).set_params(include_constants=False).fit(X, y)
    assert len(plain.estimators_) == 2
    pair = tb.AdaLPBoostClassifier(BOOST, n_estimators=1, random_state=0).fit(X, y > 0)
    assert len(pair.estimators_) == 1 + 2


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.4, 0.7])
def test_mixtures_of_ranks_are_the_best_randomised_answers_where_probabilities_are_right(alpha):
    """Compared with the linear program over all randomised rules on a finite distribution."""
    cells, K = 12, 4
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(K) * 0.4, size=cells)
    mass = rng.dirichlet(np.ones(cells))
    weight = (mass[:, None] * P).ravel()  # of a cell and a label
    # Variables: label distribution q of each cell, quantile η, excesses s ≥ 1 − q − η.
    n = cells * K
    cost = np.r_[np.zeros(n), 1.0, weight / alpha]
    excess = np.hstack([-np.eye(n), -np.ones((n, 1)), -np.eye(n)])
    sums = np.hstack([np.kron(np.eye(cells), np.ones(K)), np.zeros((cells, n + 1))])
    bounds = [(0, 1)] * n + [(None, None)] + [(0, None)] * n
    best = linprog(cost, excess, -np.ones(n), sums, np.ones(cells), bounds).fun
    order = np.argsort(-P, axis=1)
    wrong = np.array([(order[:, [rank]] != np.arange(K)).ravel() for rank in range(K)])
    assert minimize_cvar_mixture(wrong, alpha, weight).value == pytest.approx(best, abs=1e-9)


def test_a_small_tail_of_many_classes_is_better_than_round_1_and_than_a_coin():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))  # rows are sorted by writer
    X, y = X[order], y[order]
    clf = tb.AdaLPBoostClassifier(alpha=0.05, n_estimators=1, random_state=0).fit(X[:800], y[:800])
    wrong = np.array([k != y[800:] for k in clf.ensemble_.answers(X[800:])], dtype=float)
    ours, first = (cvar(loss, 0.05) for loss in (clf.estimator_weights_ @ wrong, wrong[0]))
    assert ours < min(first, 0.9) - 0.05


def test_of_means_in_a_classifier(tmp_path):
    X, y = noisy(4, n=200, K=K)
    clf = tb.AdaLPBoostClassifier(BOOST, alpha=0.9, n_iter_no_change=None, random_state=0).fit(X, y)
    assert [len(m.table_.models) for m in clf.estimators_[:3]] == [1, 2, 3]
    assert clf.feature_importances_.sum() == pytest.approx(1.0)
    path = tmp_path / "model.model"
    tb.save_model(clf, path)
    for again in (pickle.loads(pickle.dumps(clf)), tb.load_model(path)):
        np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(
        clf.predict_proba(X[:1]), clf.predict_proba(X)[:1]
    )  # a single row has the same result as in a table
    twin = clone(clf).fit(X[::-1], y[::-1])
    assert np.mean(twin.predict(X) == clf.predict(X)) > 0.99


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
