"""Parameters of learners that name labels: they mean the labels of y, as in a fit of the learner alone."""

import numpy as np
import pytest
from conftest import noisy, refused
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import published
from tailboost.learners.foreign import open_session

X, NUMBERS = noisy(0, n=200, K=2)
LABELS = [(1, 2), (-1, 1), (2, 10), ("bad", "good"), (False, True)]


def tree(weights=None):
    return DecisionTreeClassifier(max_depth=2, class_weight=weights, random_state=0)


def pipeline(weights):
    return make_pipeline(StandardScaler(), tree(weights))


def search(weights):
    step = {"decisiontreeclassifier__class_weight": [weights]}
    return GridSearchCV(pipeline(None), step, cv=2)


def threshold(weights):
    model = LogisticRegression(class_weight=weights)
    return FixedThresholdClassifier(model, threshold=0.8, pos_label=max(weights, key=weights.get))


def boosted(weights):
    return AdaBoostClassifier(tree(weights), n_estimators=2, random_state=0)


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("heavy", [0, 1])
@pytest.mark.parametrize("make", [tree, pipeline, boosted])
def test_a_round_answers_as_the_learner_alone(make, labels, heavy):
    y, weights = np.array(labels)[NUMBERS], {labels[1 - heavy]: 1, labels[heavy]: 8}
    alone = make(weights).fit(X, y).predict(X)
    for name in ("adaboost", "average_boost"):
        clf = getattr(published, name)(make(weights), T=1, random_state=0).fit(X, y)
        np.testing.assert_array_equal(clf.predict(X), alone)


@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("make", [tree, pipeline, search])
def test_a_member_answers_as_the_learner_alone(make, labels):
    y, weights = np.array(labels)[NUMBERS], {labels[0]: 8, labels[1]: 1}
    clf = tb.RobustMixtureClassifier([("m", make(weights))], objective="error", random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), make(weights).fit(X, y).predict_proba(X), atol=1e-6)


def answers(learner, numbers, classes):
    """Return the class numbers that a learner answers after a fit of its session."""
    weight = np.ones(len(numbers))
    session = open_session(learner, X, numbers, np.array(classes), weight)
    return session.predict(session.fit(weight, 0))


@pytest.mark.filterwarnings("ignore:.*has no sample_weight:UserWarning")
@pytest.mark.parametrize("make", [
    search, threshold, lambda weights: BaggingClassifier(tree(weights), n_estimators=3),
    lambda weights: VotingClassifier([("tree", tree(weights)), ("other", DecisionTreeClassifier())]),
    lambda weights: published.vadaboost(tree(weights), 0.5, T=2),
], ids=["search", "threshold", "bagging", "voting", "boosting"])  # fmt: skip
@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_labels_are_numbers_with_other_names(make, labels):
    of_labels = answers(make({labels[0]: 8, labels[1]: 1}), NUMBERS, labels)
    np.testing.assert_array_equal(of_labels, answers(make({0: 8, 1: 1}), NUMBERS, [0, 1]))
    assert (of_labels != answers(make({labels[0]: 1, labels[1]: 8}), NUMBERS, labels)).any()


def test_one_class_against_the_others_and_the_order_of_priors_stay():
    classes, numbers = np.array(["a", "b", "c"]), noisy(1, n=200, K=3)[1]
    weights = LogisticRegression(class_weight={0: 1, 1: 5})
    with pytest.warns(UserWarning, match="sample_weight"):
        found = [answers(OneVsRestClassifier(weights), numbers, of) for of in (classes, range(3))]
    np.testing.assert_array_equal(*found)
    priors = GaussianNB(priors=[0.1, 0.2, 0.7])
    alone = priors.fit(X, classes[numbers]).predict(X)
    np.testing.assert_array_equal(classes[answers(priors, numbers, classes)], alone)


def test_rows_without_a_class():
    y = np.array(["a", "b", "c"])[noisy(1, n=200, K=3)[1]]
    classes, numbers = np.unique(y, return_inverse=True)
    weight = (y != "a").astype(float)
    for weights in ({"a": 3, "b": 9, "c": 1}, {"b": 9}):
        session = open_session(tree(weights), X, numbers, classes, np.ones(len(y)))
        alone = tree({k: v for k, v in weights.items() if k != "a"}).fit(X[y != "a"], y[y != "a"])
        np.testing.assert_array_equal(classes[session.predict(session.fit(weight, 0))], alone.predict(X))


@pytest.mark.parametrize("make", [tree, pipeline, search])
def test_an_unknown_label_is_named(make):
    y = np.array(["bad", "good"])[NUMBERS]
    mixture = tb.RobustMixtureClassifier([("m", make({"godo": 3}))])
    for clf in (published.adalpboost(make({"godo": 3}), 0.1, T=2), mixture):
        refused(lambda: clf.fit(X, y), "godo")


@pytest.mark.filterwarnings("ignore:Pipeline.fit has no sample_weight")
@pytest.mark.parametrize("scoring", ["recall", make_scorer(recall_score, pos_label=1)])
def test_a_score_of_one_label_is_refused_where_numbers_are_not_the_labels(scoring):
    searched = GridSearchCV(tree(None), {"max_depth": [1, 2]}, scoring=scoring, cv=2)
    mixture = tb.RobustMixtureClassifier([("m", searched)], cv=2)
    for clf in (published.adalpboost(make_pipeline(searched), 0.1, T=2), mixture):
        refused(lambda: clf.fit(X, 1 + NUMBERS), "scoring")
        clf.fit(X, NUMBERS)
    mixture.set_params(m__scoring="balanced_accuracy").fit(X, 1 + NUMBERS)
