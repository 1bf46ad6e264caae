"""Boosting classes without an estimator boost small trees; the shrinkage of the game is a parameter."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
pytestmark = [
    pytest.mark.filterwarnings("ignore::tailboost.SmallSubgroupsWarning"),
    pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning"),
]


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(200, 6, n_informative=4, n_classes=3, weights=[0.6, 0.3], random_state=0)
    return X, np.array(["a", "b", "c"])[y], np.where(X[:, 0] > 0, "u", "v")


#: Classifiers without an estimator, and whether `fit` gets groups.
BOOSTED = {
    "classes": (tb.WorstClassBoostClassifier(n_estimators=3), False),
    "groups": (tb.WorstClassBoostClassifier(n_estimators=3), True),
    "cells, one member": (
        tb.WorstClassBoostClassifier(n_estimators=3, subgroups="cell", randomized=False),
        True,
    ),
    "target": (
        tb.WorstClassBoostClassifier(n_estimators=3, max_error={"a": 0.4, None: 0.7}, cv=0.3),
        False,
    ),
    "published": (tb.WorstClassBoostClassifier(n_estimators=3, gamma=0.1), False),
    "group DRO": (tb.GroupDROBoostClassifier(n_estimators=3, error_budget=0.01), True),
    "group DRO, classes": (tb.GroupDROBoostClassifier(n_estimators=3, combine="average"), False),
}


@pytest.mark.parametrize("wish", BOOSTED)
@pytest.mark.thinned(2)
def test_small_trees_are_boosted(data, wish, tmp_path):
    """The default learner is 20 trees of depth 3, as the docstrings say, and a game is played."""
    X, y, groups = data
    classifier, grouped = BOOSTED[wish]
    given = {"groups": groups} if grouped else {}
    clf = clone(classifier).set_params(random_state=3).fit(X, y, **given)
    learner = HistBoostClassifier(n_estimators=20, max_depth=3)
    same = clone(classifier).set_params(estimator=learner, random_state=3).fit(X, y, **given)
    assert len(clf.trace_) == clf.n_iter_ >= 1
    for method in ("predict", "predict_proba", "predict_distribution"):
        np.testing.assert_array_equal(getattr(clf, method)(X), getattr(same, method)(X))
    tb.save_model(clf, tmp_path / "m.model")
    for other in (tb.load_model(tmp_path / "m.model"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(other.predict_distribution(X), clf.predict_distribution(X))
        assert other.get_params() == clf.get_params()


def test_what_a_learner_alone_would_take_is_refused(data):
    X, y, groups = data
    with pytest.raises(TypeError, match="use groups="):
        tb.WorstClassBoostClassifier().fit(X, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="metadata_routing"):
        tb.WorstClassBoostClassifier().fit(X, y, eval_set=[])


# -- shrinkage -----------------------------------------------------------------------------------------


def hedge_over_groups(errors, eta, n_pseudo=0.0, sizes=None):
    """Weights of Hedge by rounds, w ∝ exp(η Σ e): group DRO as published for pseudo-rows of 0."""
    w, weights = np.full(errors.shape[1], 1 / errors.shape[1]), []
    for e in errors:
        weights.append(w)
        if n_pseudo:
            e = (sizes * e + n_pseudo * e.mean()) / (sizes + n_pseudo)
        w = w * np.exp(eta * e)
        w = w / w.sum()
    return np.array(weights)


@pytest.mark.parametrize("shrinkage", [0, 5.0, 40.0])
@pytest.mark.parametrize("kind", ["group DRO", "worst group"])
def test_the_weights_are_those_of_hedge_on_shrunk_errors(data, kind, shrinkage):
    """Independent truth: a transcription on the training errors of the members; 0 is group DRO."""
    X, y, _ = data
    groups = np.where(np.arange(len(y)) < 20, "few", np.where(X[:, 0] > 0, "u", "v"))
    given = {"n_estimators": 6, "n_iter_no_change": None, "cv": "train", "random_state": 0}
    given |= {"shrinkage": shrinkage, "eta": 1.0}
    if kind == "group DRO":
        clf = tb.GroupDROBoostClassifier(TREE, combine="average", **given)
    else:
        clf = tb.WorstClassBoostClassifier(TREE, **given)
    clf.fit(X, y, groups=groups)
    of = [groups == name for name in np.unique(groups)]
    members = clf.estimators_[: clf.n_iter_]
    wrong = [clf.classes_[np.asarray(member.predict(X), dtype=int)] != y for member in members]
    errors = np.array([[w[mask].mean() for mask in of] for w in wrong])
    assert np.ptp(errors, axis=1).max() > 0.02  # otherwise shrinkage changes nothing
    sizes = np.array([mask.sum() for mask in of])
    want = hedge_over_groups(errors, 1.0, shrinkage, sizes)
    np.testing.assert_allclose(clf.trace_.weights, want, atol=1e-9)


def test_without_shrinkage_the_mixture_minimises_the_measured_errors(data):
    X, y, _ = data
    clf = tb.WorstClassBoostClassifier(TREE, n_estimators=5, shrinkage=0, random_state=0).fit(X, y)
    rows, losses = clf.selection_.pool.rows, clf.selection_.pool.losses
    wrong = np.array([losses.row(m) for m in range(losses.shape[0])], dtype=float)
    errors = np.array([wrong[:, rows.y == k].mean(axis=1) for k in range(3)])
    from scipy.optimize import linprog

    m = errors.shape[1]
    best = linprog(
        np.r_[np.zeros(m), 1.0], A_ub=np.c_[errors, -np.ones(3)], b_ub=np.zeros(3),
        A_eq=[np.r_[np.ones(m), 0.0]], b_eq=[1.0],
    )  # fmt: skip
    assert (errors @ clf.estimator_weights_).max() == pytest.approx(
        best.fun, abs=1e-3
    )  # the price of the overall error in `select`


def test_shrinkage_is_no_negative_number(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="shrinkage"):
        tb.GroupDROBoostClassifier(shrinkage=-1).fit(X, y)
