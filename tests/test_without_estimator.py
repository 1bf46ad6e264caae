"""The classifiers of papers without an estimator: they answer as the mixture does, and say so."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
pytestmark = pytest.mark.filterwarnings("ignore::tailboost.SmallUnitsWarning")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Two models that are fitted fast, in place of those by default."""
    models = [("trees", HistBoostClassifier(n_estimators=5)), ("bayes", GaussianNB())]
    monkeypatch.setattr("tailboost.mixture._robust.default_estimators", lambda: models)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(200, 6, n_informative=4, n_classes=3, weights=[0.6, 0.3], random_state=0)
    return X, np.array(["a", "b", "c"])[y], np.where(X[:, 0] > 0, "u", "v")


#: A classifier of a paper, whether it is given groups, and the mixture that wishes the same.
SAME = {
    "classes": (tb.WorstClassBoostClassifier(), False, {}),
    "groups": (tb.WorstClassBoostClassifier(), True, {"objective": "worst_group"}),
    "cells, drawn": (
        tb.WorstClassBoostClassifier(units="cell", randomized=True), True,
        {"objective": "worst_cell", "randomized": True},
    ),
    "target": (
        tb.WorstClassBoostClassifier(max_error={"a": 0.4, None: 0.7}, validation=0.3), False,
        {"max_error": {"a": 0.4, None: 0.7}, "cv": 0.3},
    ),
    "group DRO": (tb.GroupDROBoostClassifier(mean_budget=0.01), True, {
        "objective": "worst_group", "mean_budget": 0.01,
    }),
    "group DRO, classes": (
        tb.GroupDROBoostClassifier(include_constants=False, class_weight="balanced", validation="cv"), False,
        {"include_constants": False, "class_weight": "balanced", "cv": 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("wish", SAME)
def test_the_same_wish_has_the_same_answer(data, wish):
    X, y, groups = data
    classifier, grouped, params = SAME[wish]
    given = {"groups": groups} if grouped else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.BoundNotMetWarning)
        one = clone(classifier).set_params(random_state=3).fit(X, y, **given)
        two = tb.RobustMixtureClassifier(random_state=3, **params).fit(X, y, **given)
        again = one.reweight(mean_budget=0.05), two.reweight(mean_budget=0.05)
    for method in ("predict", "predict_proba", "predict_shares"):
        np.testing.assert_array_equal(getattr(one, method)(X), getattr(two, method)(X))
    np.testing.assert_array_equal(one.unit_errors_, two.unit_errors_)
    np.testing.assert_array_equal(one.unit_intervals_, two.unit_intervals_)
    assert one.units_.tolist() == two.units_
    assert one.bound_met_ == two.bound_met_
    assert str(one.guarantee_) == str(two.guarantee_)
    np.testing.assert_array_equal(again[0].estimator_weights_, again[1].estimator_weights_)
    np.testing.assert_array_equal(one.tradeoff().worst, two.tradeoff().worst)


def test_what_stands_with_it(data, tmp_path):
    X, y, groups = data
    clf = tb.WorstClassBoostClassifier(units="cell", max_error=0.9, random_state=0).fit(X, y, groups=groups)
    drawn = [np.mean(clf.predict(X)[(y == k) & (groups == g)] == k) for k, g in clf.units_]
    assert len(drawn) == len(clf.units_) == len(clf.max_error_) == len(clf.unit_pools_) == 6
    np.testing.assert_array_equal(clf.expected_unit_errors_, clf.unit_errors_)  # one member answers
    assert clf.bound_met_ == clf.bound_met_randomized_ == (clf.unit_errors_.max() <= 0.9)
    assert clf.seen_share(X) == 1.0
    assert clf.predict_with(X, np.full(len(X), clf.estimator_weights_.argmax())).tolist() == (
        clf.predict(X).tolist()
    )
    tb.save_model(clf, tmp_path / "m.model")
    for other in (tb.load_model(tmp_path / "m.model"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(other.predict(X), clf.predict(X))
        np.testing.assert_array_equal(other.unit_errors_, clf.unit_errors_)
        assert other.get_params()["max_error"] == 0.9


@pytest.mark.parametrize("name", ["game_", "trace_", "n_iter_", "unit_weights_"])
def test_no_game_was_played(data, name):
    X, y, _ = data
    clf = tb.WorstClassBoostClassifier(random_state=0).fit(X, y)
    with pytest.raises(AttributeError, match=f"{name}: no game was played, .* give an estimator"):
        getattr(clf, name)
    with pytest.raises(AttributeError, match="no game was played"):
        next(clf.staged_predict(X))


@pytest.mark.parametrize(
    "classifier",
    [
        tb.WorstClassBoostClassifier(TREE, n_estimators=2),
        tb.WorstClassBoostClassifier(class_loss="indicator", n_estimators=1),
        tb.WorstClassBoostClassifier(gamma=0.1, n_estimators=1),
        tb.WorstClassBoostClassifier(combine="vote", n_estimators=1),
        tb.WorstClassBoostClassifier(validation="train", n_estimators=1),
        tb.GroupDROBoostClassifier(TREE, n_estimators=2),
        tb.GroupDROBoostClassifier(combine="average", n_estimators=1),
    ],
)
@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
def test_what_asks_for_a_game(data, classifier):
    X, y, _ = data
    clf = clone(classifier).set_params(random_state=0).fit(X, y)
    assert not hasattr(clf, "mixture_")
    assert len(clf.trace_) == clf.n_iter_ >= 1


def test_one_fit_after_another_of_the_other_kind(data):
    X, y, _ = data
    clf = tb.WorstClassBoostClassifier(n_estimators=2, random_state=0).fit(X, y)
    alone = clf.predict_shares(X)
    clf.set_params(estimator=TREE).fit(X, y)
    assert clf.n_iter_ == 2
    fresh = tb.WorstClassBoostClassifier(TREE, n_estimators=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(clf.predict_shares(X), fresh.predict_shares(X))
    np.testing.assert_array_equal(clf.set_params(estimator=None).fit(X, y).predict_shares(X), alone)
    assert not hasattr(clf, "trace_")


def test_what_a_learner_alone_would_take_is_refused(data):
    X, y, groups = data
    with pytest.raises(TypeError, match="use groups="):
        tb.WorstClassBoostClassifier().fit(X, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="metadata_routing"):
        tb.WorstClassBoostClassifier().fit(X, y, eval_set=[])
