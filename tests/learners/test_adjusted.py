"""Logit adjustment: the best answer to weighted classes, from fits that are shared."""

from typing import ClassVar

import numpy as np
import pytest
from conftest import noisy
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import tailboost as tb
from tailboost.learners import HistBoostClassifier, LogitAdjustedClassifier
from tailboost.learners.session import open_session, predict_members
from tailboost.metrics import class_errors

K = 3


class Counted(ClassifierMixin, BaseEstimator):
    """A tree that counts its fits and remembers the weights."""

    fits: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Counted.fits.append(np.bincount(y, weights=sample_weight, minlength=K))
        self.tree_ = DecisionTreeClassifier(max_depth=2).fit(X, y, sample_weight)
        self.classes_ = self.tree_.classes_
        return self

    def predict_proba(self, X):
        return self.tree_.predict_proba(X)


def opened(X, y, estimators=None, weight=None):
    return open_session(
        LogitAdjustedClassifier(estimators), X, y, K, np.ones(len(y)) if weight is None else weight, {}
    )


@parametrize_with_checks([LogitAdjustedClassifier(random_state=0)])
def test_scikit_learn_checks(estimator, check):
    pytest.importorskip("xgboost")
    check(estimator)


def test_best_answer_to_every_weighting_where_the_probabilities_are_right():
    """Two Gaussians, for which logistic regression is the truth: beside the Bayes rule of each weighting."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [3000, 300])
    X = rng.normal(size=(len(y), 2)) + 1.2 * y[:, None]
    session = open_session(LogitAdjustedClassifier([LogisticRegression(C=1e6)]), X, y, 2, np.ones(len(y)), {})
    Z, z = np.random.default_rng(1).normal(size=(20_000, 2)), np.repeat([0, 1], 10_000)
    Z += 1.2 * z[:, None]
    log_density = np.column_stack([multivariate_normal([m, m]).logpdf(Z) for m in (0.0, 1.2)])
    for w in ([0.5, 0.5], [0.9, 0.1], [0.2, 0.8]):
        model = session.fit(np.array(w)[y] / np.bincount(y)[y], 0)
        bayes = (log_density + np.log(w)).argmax(axis=1)
        risk, least = (
            np.dot(w, list(class_errors(z, answers).values())) for answers in (model.predict(Z), bayes)
        )
        assert risk <= least + 0.003


def test_one_fit_for_all_weightings_of_the_classes():
    X, y = noisy(0, n=90, K=K)
    own = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    Counted.fits.clear()
    session = opened(X, y, [Counted()], own)
    rows = np.arange(len(y)) % 3 > 0
    for w in ([1, 1, 1], [1, 5, 2], [0.1, 3, 0], [0, 0, 1]):
        for part in (None, rows):
            model = session.fit(own * np.array(w, float)[y], 7, part)
            answers = session.predict(model, part)
            assert np.array_equal(answers, model.predict(X if part is None else X[part]))
            assert np.isin(answers, np.flatnonzero(w)).all()  # what weighs nothing is not answered
    assert len(Counted.fits) == 2
    assert all(np.allclose(mass, mass.mean(), rtol=2e-3) for mass in Counted.fits)  # classes weigh the same
    session.fit(own * (1.0 + (X[:, 0] > 0)), 7)  # weights that differ within a class need a fit of their own
    assert len(Counted.fits) == 3


def test_answers_are_shifted_logarithms():
    X, y = noisy(2, n=80, K=K)
    trees = [DecisionTreeClassifier(max_depth=d, min_samples_leaf=10, random_state=0) for d in (2, 3)]
    session = opened(X, y, trees)
    w = np.array([0.2, 0.5, 0.3])
    model = session.fit(w[y] / np.bincount(y)[y], 0)
    P = [np.maximum(m.predict_proba(X), 1e-3) for m in model.table_.models]
    expected = (np.log(P).mean(axis=0) + np.log(w)).argmax(axis=1)
    assert np.array_equal(model.predict(X), expected)
    other = session.fit((1 - w)[y], 0)
    for member, answers in zip((model, other), predict_members([model, other], X), strict=True):
        assert np.array_equal(answers, member.predict(X))


def in_parts(X, y, part, estimators):
    """The answer of a cross-fit that stays, and those that judged the parts."""
    session = opened(X, y, estimators)
    session.leave_out(part)
    one, parts = np.ones(len(y)), [part != j for j in range(part.max() + 1)]
    judges = [session.fit(one, 0, rows) for rows in parts]
    return session.mean(judges, one, parts) if len(parts) > 1 else session.fit(one, 0), judges


def test_what_stays_of_a_cross_fit_is_the_mean_of_the_models_that_judged():
    X, y = noisy(6, n=120, K=K)
    Counted.fits.clear()
    trees = [Counted(), DecisionTreeClassifier(max_depth=3, random_state=0)]
    stays, judges = in_parts(X, y, np.arange(len(y)) % 4, trees)
    assert len(Counted.fits) == 4  # none for all rows
    each = [judge.table_.transform(X) for judge in judges]
    np.testing.assert_allclose(stays.table_.transform(X), np.mean(each, axis=0), rtol=1e-12)


def test_a_class_is_told_by_the_models_that_saw_it():
    X, y = noisy(7, n=100, K=K)
    part = np.arange(len(y)) % 5
    y = np.where(y == 2, 1, y)
    y[[0, 5]] = 2  # both rows lie in part 0, whose judge knows no class 2
    stays, judges = in_parts(X, y, part, [DecisionTreeClassifier(max_depth=3, random_state=0)])
    each = np.array([judge.table_.transform(X) for judge in judges])
    found = stays.table_.transform(X)
    np.testing.assert_allclose(found[:, :2], each[:, :, :2].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found[:, 2], each[1:, :, 2].mean(axis=0), rtol=1e-12)


def test_a_part_that_is_all_but_one_class_tells_nothing():
    """Of two classes one is in part 0 alone: its judge knows only the other, and the mean leaves it out."""
    rng = np.random.default_rng(0)
    X, part = rng.normal(size=(40, 2)), np.arange(40) % 4
    y = ((part == 0) & (X[:, 0] > 0)).astype(int)
    X[y == 1] += 3.0
    session = open_session(
        LogitAdjustedClassifier([DecisionTreeClassifier(max_depth=2)]), X, y, 2, np.ones(40), {}
    )
    session.leave_out(part)
    parts = [part != j for j in range(4)]
    judges = [session.fit(np.ones(40), 0, rows) for rows in parts]
    stays = session.mean(judges, np.ones(40), parts)
    assert len(stays.table_.models) == 3
    assert (stays.predict(X) == y).all()


def test_a_held_out_part_is_learnt_at_the_end():
    X, y = noisy(8, n=90, K=K)
    Counted.fits.clear()
    stays, judges = in_parts(X, y, np.where(np.arange(len(y)) % 5 == 0, 0, -1), [Counted()])
    assert len(Counted.fits) == 2
    alone = opened(X, y, [Counted()]).fit(np.ones(len(y)), 0)
    np.testing.assert_array_equal(stays.table_.transform(X), alone.table_.transform(X))
    assert not np.array_equal(stays.table_.transform(X), judges[0].table_.transform(X))


def test_class_the_rows_lack():
    X, y = noisy(3, n=60, K=K)
    session = opened(X, y)
    rows = y != 1
    model = session.fit(np.ones(len(y)), 0, rows)
    assert not (session.predict(model) == 1).any()
    assert np.array_equal(session.predict(session.fit((y == 2) * 1.0, 0)), np.full(len(y), 2))


@pytest.mark.parametrize(
    ("estimators", "says"),
    [
        ([], "at least one classifier"),
        ([Perceptron()], "Perceptron needs predict_proba and sample_weight"),
        (Perceptron(), "'estimators' parameter"),
        ("forest", "'estimators' parameter"),
        (FrozenEstimator(LogisticRegression()), "is frozen, but .* pass the classifier itself"),
        ([FrozenEstimator(LogisticRegression())], "is frozen, but .* pass the classifier itself"),
    ],
)
def test_refused(estimators, says):
    X, y = noisy(0, K=K)
    with pytest.raises(ValueError, match=says):
        LogitAdjustedClassifier(estimators).fit(X, y)
    with pytest.raises(ValueError, match=says):
        tb.WorstClassBoostClassifier(LogitAdjustedClassifier(estimators)).fit(X, y)


def test_a_single_classifier_will_do():
    X, y = noisy(0, K=K)
    one, listed = (
        LogitAdjustedClassifier(e).fit(X, y) for e in (LogisticRegression(), [LogisticRegression()])
    )
    np.testing.assert_array_equal(one.predict_proba(X), listed.predict_proba(X))
    tb.WorstClassBoostClassifier(LogitAdjustedClassifier(LogisticRegression()), validation="train").fit(X, y)


@pytest.mark.parametrize("with_forest", [True, False])
def test_group_dro_over_classes_answers_as_the_learner_fitted_to_the_weights_of_each_round(
    with_forest, monkeypatch
):
    X, y = noisy(5, n=150, K=K)
    if not with_forest:  # as 5,000 rows take long
        monkeypatch.setattr("tailboost.classifiers.group.FOREST_UP_TO", 100)
    given = {"validation": "train", "n_iter_no_change": None, "random_state": 0}
    clf = tb.GroupDROBoostClassifier(n_estimators=4, **given).fit(X, y)
    learner = LogitAdjustedClassifier(None if with_forest else HistBoostClassifier())
    for w, member in zip(clf.trace_.weights, clf.estimators_, strict=False):
        alone = learner.fit(X, y, sample_weight=(len(y) * w / np.bincount(y))[y])
        np.testing.assert_array_equal(member.predict(X), alone.predict(X))
    plain = learner.fit(X, y)  # plain ERM follows the rounds, the constants are last
    np.testing.assert_array_equal(clf.estimators_[4].predict(X), plain.predict(X))
    assert len(clf.estimators_) == 4 + 1 + 7 + K


def test_group_dro_over_groups_grows_a_learner_that_is_given_in_every_round():
    X, y = noisy(5, n=150, K=K)
    clf = tb.GroupDROBoostClassifier(
        HistBoostClassifier(), n_estimators=2, validation="train", random_state=0
    )
    clf.fit(X, y, groups=np.arange(len(y)) % 2)
    fitted = clf.estimators_[: clf.n_iter_ + 1]  # plain ERM follows the rounds
    assert all(isinstance(member, HistBoostClassifier) for member in fitted)
    assert len(clf.estimators_) == len(fitted) + K
