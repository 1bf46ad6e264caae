"""Cross-fitting schemes: rows of the fits, losses, base models."""

import numpy as np
import pytest
from conftest import make, noisy
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.boosting.game import Request
from tailboost.boosting.learner import CrossFitLearner, Whole
from tailboost.classifiers import cvar
from tailboost.learners.foreign import open_session
from tailboost.rows.rows import Rows, folds, held_out

X, Y = noisy(0, n=100)
WEIGHT = np.random.default_rng(0).integers(1, 4, 100).astype(float)
TRAIN = Rows(Y, WEIGHT, None, "training rows")
U = np.round(np.random.default_rng(1).uniform(0.25, 2, 100) * 4) / 4  # exact in 16 bits
DEEP = DecisionTreeClassifier(random_state=0)


class Diary:
    """Session that records every fit."""

    concurrent = True

    def __init__(self):
        self.session = open_session(DEEP, X, Y, 2, WEIGHT, {})
        self.fits = []

    def fit(self, weight, seed, rows=None):
        self.fits.append((weight.copy(), seed, None if rows is None else rows.copy()))
        return self.session.fit(weight, seed, rows)

    def predict(self, model, rows=None):
        return self.session.predict(model, rows)


def tree_on(rows, weight=WEIGHT * U, seed=5):
    return open_session(DEEP, X, Y, 2, WEIGHT, {}).fit(weight, seed, rows)


def test_resubstitution():
    diary = Diary()
    response = Whole(diary, TRAIN, TRAIN).fit(Request(U, 5))
    ((weight, seed, rows),) = diary.fits
    np.testing.assert_array_equal(weight, WEIGHT * U)
    assert (seed, rows) == (5, None)
    np.testing.assert_array_equal(response.losses, response.model.predict(X) != Y)
    np.testing.assert_array_equal(response.answers, response.model.predict(X))
    assert not response.losses.any()  # a full tree has no training errors


def test_external_rows_judge_and_training_losses_drive():
    X_val, y_val = noisy(1, n=30)
    judged = Rows(y_val, np.ones(30), None, "validation rows")
    diary = Diary()
    response = Whole(diary, TRAIN, judged, X_judged=X_val).fit(Request(U, 5))
    assert len(diary.fits) == 1
    np.testing.assert_array_equal(response.answers, response.model.predict(X_val))
    np.testing.assert_array_equal(response.losses, response.model.predict(X) != Y)


@pytest.mark.parametrize("refit", [True, False])
def test_held_out_rows_are_not_seen_by_the_model_that_is_judged(refit):
    held = np.arange(100) % 4 == 0
    judged = Rows(Y[held], WEIGHT[held], None, "held-out rows")
    diary = Diary()
    scheme = Whole(diary, TRAIN, judged, held, refit)
    np.testing.assert_array_equal(scheme.player_rows, ~held)
    response = scheme.fit(Request(U, 5))
    np.testing.assert_array_equal(diary.fits[0][2], ~held)
    assert len(diary.fits) == 1 + refit
    partial = tree_on(~held)
    np.testing.assert_array_equal(response.answers, partial.predict(X[held]))
    np.testing.assert_array_equal(response.losses, (partial.predict(X) != Y)[~held])
    whole = tree_on(None) if refit else partial
    np.testing.assert_array_equal(response.model.predict(X), whole.predict(X))


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_fitting_shows_out_of_fold_losses_and_keeps_the_model_on_all_rows(n_jobs):
    fold = np.random.default_rng(2).permutation(100) % 5
    diary = Diary()
    response = CrossFitLearner(diary, TRAIN, TRAIN, fold, n_jobs).fit(Request(U, 5))
    assert len(diary.fits) == 6
    expected = np.empty(100, dtype=int)
    for j in range(5):
        expected[fold == j] = tree_on(fold != j).predict(X[fold == j])
    np.testing.assert_array_equal(response.answers, expected)
    np.testing.assert_array_equal(response.losses, expected != Y)
    np.testing.assert_array_equal(response.model.predict(X), tree_on(None).predict(X))
    assert response.losses.mean() > 0.1


def test_a_fold_left_without_weight_is_fitted_by_sample_weight():
    fold = np.arange(100) % 2
    u = np.where(fold == 0, 2.0, 0.0)
    diary = Diary()
    CrossFitLearner(diary, TRAIN, TRAIN, fold).fit(Request(u, 5))
    weights = {tuple(rows) if rows is not None else None: weight for weight, _, rows in diary.fits}
    np.testing.assert_array_equal(weights[tuple(fold == 1)], WEIGHT)  # no remaining rows
    np.testing.assert_array_equal(weights[tuple(fold == 0)], WEIGHT * u)


@pytest.mark.parametrize("n", [5, 37, 100, 1000])
@pytest.mark.parametrize("fraction", [0.01, 0.2, 1 / 3, 0.5, 0.9])
def test_held_out_share(n, fraction):
    held = held_out(np.arange(n), fraction)
    assert held.sum() == pytest.approx(n * fraction, abs=1)
    for a in range(0, n, max(1, n // 7)):  # each interval of places has its fraction, and so has each stratum
        stretch = held[a : a + max(1, n // 7)]
        assert stretch.sum() == pytest.approx(len(stretch) * fraction, abs=1)


def test_folds_share_every_stretch_evenly():
    fold = folds(np.arange(103), 5)
    assert np.ptp(np.bincount(fold)) <= 1
    assert np.ptp(np.bincount(fold[20:31], minlength=5)) <= 1


@pytest.mark.parametrize(
    ("name", "given", "n_folds"),
    [("adalpboost", "auto", 3), ("adalpboost", 5, 5), ("groupdroboost", "auto", 5)],
)
def test_adalpboost_takes_three_folds_of_many_distinct_rows(name, given, n_folds, monkeypatch):
    monkeypatch.setattr(cvar.HedgeOverRows, "five_folds_up_to", 100)  # 1,000 rows would be slow
    X, y = noisy(0, n=120)
    every, few = np.arange(120), np.arange(100)
    for rows, n in ((every, n_folds), (np.tile(every, 3), n_folds), (np.tile(few, 3), 5)):
        clf = make(name, GaussianNB(), n_estimators=1, cv=given, random_state=0).fit(X[rows], y[rows])
        assert len(np.unique(clf.selection_.pool.rows.fold)) == n


@pytest.mark.parametrize(("rare", "chosen"), [(20, "cv"), (200, 0.2)])
def test_boosting_and_mixtures_of_models_judge_on_the_same_rows(rare, chosen, monkeypatch):
    """ "auto" cross-fits if a held-out fifth would contain too few rows of a class."""
    monkeypatch.setattr("tailboost.rows.rows.CROSS_FIT_UP_TO", 300)  # 50,000 rows would be slow
    rng = np.random.default_rng(0)
    y = (np.arange(600) < rare).astype(int)
    X = rng.normal(size=(600, 2)) + y[:, None]
    boosted = tb.AdaLPBoostClassifier(GaussianNB(), n_estimators=1, random_state=3).fit(X, y)
    mixed = tb.RobustMixtureClassifier([("bayes", GaussianNB())], random_state=3).fit(X, y)
    assert mixed.validation_ == chosen
    by_boosting, by_mixture = boosted.selection_.pool.rows, mixed.selection_.engine.outputs.rows
    shares = [np.bincount(rows.y, rows.weight) / np.sum(rows.weight) for rows in (by_boosting, by_mixture)]
    np.testing.assert_allclose(*shares, rtol=1e-12)
    assert by_boosting.words.replace("losses", "probabilities") == by_mixture.words
    assert len(by_boosting.y) == {"cv": 600, 0.2: 120}[chosen]


@pytest.mark.parametrize("name", ["adalpboost", "groupdroboost"])
def test_splits_that_are_given(name):
    """A splitter and its splits as a list are one; a single split holds out one part."""
    X, y = noisy(3, n=90)
    splitter = KFold(3, shuffle=True, random_state=0)
    fits = [
        make(name, DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0, cv=cv).fit(X, y)
        for cv in (splitter, list(splitter.split(X)))
    ]
    np.testing.assert_array_equal(*(clf.predict_proba(X) for clf in fits))
    rows = fits[0].selection_.pool.rows
    assert "3 folds" in rows.words
    np.testing.assert_array_equal(rows.fold[list(splitter.split(X))[1][1]], 1)
    single = make(name, DecisionTreeClassifier(max_depth=2), n_estimators=3, cv=ShuffleSplit(1)).fit(X, y)
    assert len(single.selection_.pool.rows.y) == 9
    with pytest.raises(ValueError, match="does"):
        make(name, cv=[(np.arange(30), np.arange(30, 60)), (np.arange(30), np.arange(60, 90))]).fit(X, y)


def test_additive_classifiers_take_one_split():
    X, y = noisy(3, n=90)
    clf = make("adaboost", n_estimators=5, n_iter_no_change=3, cv=ShuffleSplit(1, random_state=0)).fit(X, y)
    assert len(clf.selection_.rows.y) == 9
    with pytest.raises(ValueError, match="AdaBoostClassifier"):
        clf.set_params(cv=KFold(3)).fit(X, y)
