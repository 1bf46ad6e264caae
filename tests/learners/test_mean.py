"""Members that answer by the mean of the models of a cross-fit."""

import pickle

import numpy as np
import pytest
from conftest import noisy
from sklearn.base import clone

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.session import open_session
from tailboost.validation import CrossFitted, Rows

K = 3


def fitted(learner, X, y, fold, weight=None):
    """A round of a cross-fit: the answer, and the learner fitted to the rows of each part by itself."""
    u = np.ones(len(y)) if weight is None else weight
    one = np.ones(len(y))
    session = open_session(learner, X, y, K, one, {})
    rows = Rows(y, one, None, "")
    response = CrossFitted(session, rows, rows, fold, None)(u, 0)
    return response, [session.fit(u, 0, fold != j) for j in range(fold.max() + 1)]


@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
def test_a_member_is_the_mean_of_the_models_that_judged(backend):
    X, y = noisy(2, n=150, K=K)
    fold = np.arange(len(y)) % 4
    learner = HistBoostClassifier(n_estimators=8, backend=backend)
    u = np.random.default_rng(0).integers(1, 5, len(y)) / 2.0
    response, models = fitted(learner, X, y, fold, u)
    P = np.mean([m.predict_proba(X) for m in models], axis=0)
    np.testing.assert_array_equal(response.member.predict(X), P.argmax(axis=1))
    out_of_fold = np.array([models[fold[i]].predict(X[i : i + 1])[0] for i in range(len(y))])
    np.testing.assert_array_equal(response.answers, out_of_fold)
    importances = np.mean([m.feature_importances_ for m in models], axis=0) if backend == "xgboost" else None
    if importances is not None:
        np.testing.assert_allclose(response.member.feature_importances_, importances)


def test_a_class_is_told_by_the_models_that_saw_it():
    X, y = noisy(7, n=100, K=K)
    fold = np.arange(len(y)) % 5
    y = np.where(y == 2, 1, y)
    y[[0, 5]] = 2  # both rows lie in part 0, whose model knows no class 2
    X[[0, 5]] = 30.0
    response, models = fitted(HistBoostClassifier(n_estimators=20, min_child_weight=0.0), X, y, fold)
    each = np.array([m.predict_proba(X) for m in models])
    P = np.column_stack([each[:, :, :2].mean(axis=0), each[1:, :, 2].mean(axis=0)])
    np.testing.assert_array_equal(response.member.predict(X), P.argmax(axis=1))
    assert (response.member.predict(X[[0, 5]]) == 2).all()


def test_a_single_tree_is_fitted_to_all_rows():
    X, y = noisy(3, n=120, K=K)
    response, _ = fitted(HistTreeClassifier(max_depth=3), X, y, np.arange(len(y)) % 3)
    np.testing.assert_array_equal(
        response.member.predict(X), HistTreeClassifier(max_depth=3).fit(X, y).predict(X)
    )


def test_of_means_in_a_classifier(tmp_path):
    X, y = noisy(4, n=200, K=K)
    clf = tb.AdaLPBoostClassifier(n_estimators=3, alpha=0.9, n_iter_no_change=None, random_state=0)
    clf.fit(X, y)
    assert [len(m.models) for m in clf.estimators_[:3]] == [5, 5, 5]
    assert clf.feature_importances_.sum() == pytest.approx(1.0)
    path = tmp_path / "model.model"
    tb.save_model(clf, path)
    for again in (pickle.loads(pickle.dumps(clf)), tb.load_model(path)):
        np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(
        clf.predict_proba(X[:1]), clf.predict_proba(X)[:1]
    )  # a row alone as in its table
    twin = clone(clf).fit(X[::-1], y[::-1])
    assert np.mean(twin.predict(X) == clf.predict(X)) > 0.99


def test_a_killed_round_is_resumed_to_the_bit(tmp_path):
    X, y = noisy(5, n=150, K=K)
    whole = tb.AdaLPBoostClassifier(n_estimators=2, n_iter_no_change=None, random_state=0).fit(X, y)
    first = clone(whole).set_params(n_estimators=1, checkpoint_dir=tmp_path).fit(X, y)
    assert first.n_iter_ == 1
    second = clone(whole).set_params(checkpoint_dir=tmp_path).fit(X, y)
    np.testing.assert_array_equal(second.predict_proba(X), whole.predict_proba(X))


def rounds_and_fits(**options):
    """Rounds of a game on 6,000 rows, and the fits for them."""
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


def test_a_round_ends_with_a_first_fold_that_brings_nothing():
    clf, n_fits = rounds_and_fits()
    assert (clf.n_iter_, n_fits) == (1, 4)  # three folds of the first round, one of the second
    assert "on the rows of its first fold round 2" in clf.trace_.stop_reason
    whole, n_fits = rounds_and_fits(n_iter_no_change=None, n_estimators=2)
    assert (whole.n_iter_, n_fits) == (2, 6)
    clf, n_fits = rounds_and_fits(tol=0.0, n_iter_no_change=2)
    assert n_fits == 3 * clf.n_iter_
    clf, n_fits = rounds_and_fits(validation="cv")
    assert n_fits == 5 * clf.n_iter_


@pytest.mark.parametrize("alpha", [0.3, 0.6])
def test_what_brings_nothing_on_some_rows(alpha):
    """Beside the best member: one that errs as often there is not told by chance, one that errs more is."""
    rng = np.random.default_rng(0)
    X, y = noisy(6, n=600)
    clf = tb.AdaLPBoostClassifier(n_estimators=1, alpha=alpha, random_state=0).fit(X, y)
    mixture, rows = clf.combiner_, np.arange(600) % 2 == 0
    losses = mixture.pool.ledger.part(rows).pool()
    best = int(mixture.pool.ledger.part(rows).mean_losses().argmin())
    truth = y[rows]
    same = np.where(losses.row(best), 1 - truth, truth)
    worse = np.where(rng.random(300) < 0.2, 1 - same, same)
    assert not mixture.gains_nothing(rows, same, 1e-3)
    assert mixture.gains_nothing(rows, worse, 1e-3)
    assert not mixture.gains_nothing(rows, truth, 1e-3)  # a perfect one
    few = rows & (np.arange(600) < 20)
    assert not mixture.gains_nothing(few, worse[:10], 1e-3)
