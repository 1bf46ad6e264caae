"""AdaBoost, VadaBoost, EBBoost, soft margins as classifiers: peers, identities, odd cases, refusals."""

import numpy as np
import pandas as pd
import pytest
from conftest import ADDITIVE, SINGLE_SPLIT, noisy
from conftest import make as make_classifier
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import AdaBoostClassifier as PeerAdaBoost
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import tailboost as tb
from tailboost.boosting.game import StopKind
from tailboost.core.checks import row_weights
from tailboost.learners import HistTreeClassifier, StumpClassifier

TREE = HistTreeClassifier(max_depth=2)
STUMP = StumpClassifier()
#: The additive classifiers of the registry with suitable learners, and special settings.
CASES = {name: (name, {"estimator": TREE}) for name in ADDITIVE} | {
    "adaboost, stumps": ("adaboost", {"estimator": STUMP}),
    "vadaboost, no weight": ("vadaboost", {"estimator": STUMP, "variance_weight": 0.0}),
    "vadaboost, all weight": ("vadaboost", {"estimator": TREE, "variance_weight": 1.0}),
    "softmarginboost, quadratic": ("softmarginboost", {"estimator": TREE, "loss": "quadratic"}),
}
STEPS_ARE_CHOSEN_ANEW = ("softmarginboost", "softmarginboost, quadratic")


def make(case, rounds=8, **params):
    name, own = CASES[case]
    return make_classifier(name, n_estimators=rounds, **(own | params))


def takes(case, K):
    """Whether a case has an answer for K classes."""
    return K == 2 or get_tags(make(case)).classifier_tags.multi_class


both = pytest.mark.parametrize(("name", "K"), [(case, K) for case in CASES for K in (2, 4) if takes(case, K)])


@pytest.mark.thinned(3)
@pytest.mark.parametrize("load", [load_breast_cancer, load_iris, load_digits])
@pytest.mark.parametrize("weighted", [False, True])
def test_adaboost_is_scikit_learns(load, weighted):
    X, y = (rows[::3] if load is load_digits else rows for rows in load(return_X_y=True))
    K = len(np.unique(y))
    s = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else None
    # Few features per round, so no two splits of the trees tie up to rounding.
    tree = DecisionTreeClassifier(max_depth=2 if K > 2 else 1, random_state=0)
    ours = tb.AdaBoostClassifier(Fixed(tree), n_estimators=30).fit(X, y, sample_weight=s)
    peer = PeerAdaBoost(Fixed(tree), n_estimators=30).fit(X, y, sample_weight=s)
    np.testing.assert_allclose(
        ours.estimator_weights_ * K / (K - 1), peer.estimator_weights_, rtol=0, atol=1e-12
    )
    for stage, of_peer in zip(ours.staged_predict(X), peer.staged_predict(X), strict=True):
        assert (stage == of_peer).all()


class Fixed(ClassifierMixin, BaseEstimator):
    """Tree with the rounded weights of our learners and a fixed seed."""

    def __init__(self, tree=None):
        self.tree = tree

    def get_params(self, deep=True):
        return {"tree": self.tree}

    def fit(self, X, y, sample_weight=None):
        u = np.asarray(sample_weight, dtype=float)
        self.fitted_ = clone(self.tree).fit(X, y, np.round(u / u.mean(), 3))
        self.classes_, self.n_features_in_ = self.fitted_.classes_, X.shape[1]
        self.n_classes_ = len(self.classes_)
        return self

    def predict(self, X):
        return self.fitted_.predict(X)

    def predict_proba(self, X):
        return self.fitted_.predict_proba(X)


@both
def test_decisions_are_the_weighted_answers(name, K):
    X, y = noisy(1, K=K)
    clf = make(name).fit(X, y)
    f = np.zeros((len(y), K))
    for a, member in zip(clf.estimator_weights_, clf.estimators_, strict=True):
        f += a * np.where(member.predict(X)[:, None] == np.arange(K), 1.0, -1.0 / (K - 1))
    np.testing.assert_allclose(clf.decision_function(X), f[:, 1] if K == 2 else f, atol=1e-10)
    stages = list(clf.staged_decision_function(X))
    assert len(stages) == len(clf.estimators_)
    np.testing.assert_array_equal(stages[-1], clf.decision_function(X))
    np.testing.assert_array_equal(list(clf.staged_predict(X))[-1], clf.predict(X))
    np.testing.assert_array_equal(list(clf.staged_predict_proba(X))[-1], clf.predict_proba(X))
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    assert (clf.classes_[clf.predict_proba(X).argmax(axis=1)] == clf.predict(X)).all()


@both
@pytest.mark.parametrize("cv", ["train", 0.3])
@pytest.mark.thinned(5)
def test_weight_is_repetition(name, K, cv):
    for seed in range(3):
        X, y = noisy(seed, n=100, K=K, grid=seed == 2)
        s = np.random.default_rng(seed).integers(0, 4, len(y))
        s[:K] = 1
        rows = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(y)), s))
        params = {"cv": cv, "random_state": 0}
        one = make(name, **params).fit(X, y, sample_weight=s)
        two = make(name, **params).fit(X[rows], y[rows])
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), rtol=0, atol=1e-5)


@both
def test_best_prefix_is_kept(name, K):
    X, y = noisy(4, n=400, K=K)
    X, X_val, y, y_val = train_test_split(X, y, random_state=0)
    clf = make(name, rounds=60, n_iter_no_change=5).fit(X, y, X_val=X_val, y_val=y_val)
    errors = clf.trace_.value
    assert len(errors) == clf.n_iter_ < 60
    assert errors[:-5].min() <= errors[-5:].min()  # the last five did not help
    if name not in STEPS_ARE_CHOSEN_ANEW:
        assert len(clf.estimators_) == errors.argmin() + 1
        assert np.mean(clf.predict(X_val) != y_val) == pytest.approx(errors.min(), abs=1e-12)


@pytest.mark.thinned(4)
@both
def test_early_stopping_holds_out_a_fifth(name, K):
    """Without the parameter no row is left out."""
    X, y = noisy(6, n=200, K=K)
    for patience, cv in ((3, 0.2), (None, "train")):
        params = {"rounds": 20, "n_iter_no_change": patience, "random_state": 0}
        auto = make(name, **params).fit(X, y)
        same = make(name, cv=cv, **params).fit(X, y)
        np.testing.assert_array_equal(auto.decision_function(X), same.decision_function(X))
        np.testing.assert_array_equal(auto.trace_.value, same.trace_.value)


def test_grid_search():
    X, y = noisy(0, n=60)
    for clf, grid in (
        (make("vadaboost"), {"variance_weight": [0.0, 0.5, 1.0]}),
        (make("ebboost"), {"variance_weight": [0.1, 0.9]}),
        (make("softmarginboost"), {"C": [0.05, 0.5]}),
        (make("softmarginboost, quadratic"), {"C": [0.05, 0.5]}),
    ):
        assert GridSearchCV(clf, grid, cv=2).fit(X, y).best_params_.keys() == grid.keys()


def test_soft_margins_reweigh_adaboost():
    X, y = noisy(0, n=300)
    ada = make("adaboost, stumps", rounds=20).fit(X, y)
    wrong = np.array([member.predict(X) != y for member in ada.estimators_])
    for loss in ("linear", "quadratic"):
        clf = tb.SoftMarginBoostClassifier(STUMP, n_estimators=20, loss=loss, C=0.01).fit(X, y)
        found = tb.solvers.soft_margin_weights(wrong, 0.01, loss=loss)
        np.testing.assert_array_equal(clf.estimator_weights_, found.mixture[found.mixture > 0])
        assert clf.gap_ == found.gap <= 1e-8


# -- degenerate cases --------------------------------------------------------------------------------------


@both
def test_perfect_first_hypothesis_is_all_there_is(name, K):
    y = np.arange(40) % K
    X = y[:, None].astype(float)
    learner = {} if name == "ebboost" else {"estimator": HistTreeClassifier(max_depth=4)}
    clf = make(name, **learner).fit(X, y)
    assert (clf.n_iter_, len(clf.estimators_)) == (1, 1)
    assert np.isfinite(clf.estimator_weights_).all()
    assert (clf.predict(X) == y).all()
    assert "no error" in clf.trace_.stop_reason
    line = f"The fit ended after 1 round: {clf.trace_.stop_reason}."
    for text in (str(clf.summary_), clf.summary_.details):
        assert line in text.splitlines()


class Scripted(ClassifierMixin, BaseEstimator):
    """Errs on the rows of the first column's name in the first two rounds, then on none."""

    rounds = 0

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.column_ = Scripted.rounds % 3
        Scripted.rounds += 1
        return self

    def predict(self, X):
        truth, first, second = np.asarray(X).astype(int).T
        wrong = np.zeros(len(truth), dtype=bool) if self.column_ == 2 else (first, second)[self.column_] > 0
        return np.where(wrong, (truth + 1) % len(self.classes_), truth)


PEERS = {
    "adaboost": tb.AdaBoostClassifier,
    "vadaboost": tb.VadaBoostClassifier,
    "dro": tb.DROBoostClassifier,
    "slow": lambda *args, **kwargs: tb.AdaBoostClassifier(*args, **kwargs, learning_rate=0.3),
}


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("name", PEERS)
def test_perfect_hypothesis_joins_those_before_it(name, K):
    n = 60
    y = np.arange(n) % K
    X = np.column_stack([y, np.arange(n) < 6, np.arange(n) >= 50])
    Scripted.rounds = 0
    options = {"radius": 0.001} if name == "dro" else {}
    clf = PEERS[name](Scripted(), n_estimators=10, **options).fit(X, y)
    assert clf.n_iter_ == len(clf.estimators_) == 3
    assert "no error" in clf.trace_.stop_reason
    first, second, last = clf.estimator_weights_
    assert last == max(first, second)
    assert (np.diff(clf.log_costs_) < 0).all()
    assert (clf.predict(X) == y).all()
    # The earlier hypotheses count: if all three agree the score is larger.
    assert clf.margins(X[20:21], y[20:21]) > clf.margins(X[:1], y[:1])
    # Weight 2 is the row twice, and the scale of the weights means nothing.
    s = 1.0 + (np.arange(n) % 4 == 0)
    twice = np.repeat(np.arange(n), s.astype(int))
    found = []
    for rows, weight in ((slice(None), s), (twice, None), (slice(None), s / 1e6)):
        Scripted.rounds = 0
        found.append(
            PEERS[name](Scripted(), n_estimators=10, **options).fit(X[rows], y[rows], sample_weight=weight)
        )
    for clf in found[1:]:
        np.testing.assert_allclose(clf.estimator_weights_, found[0].estimator_weights_, rtol=1e-12)


def test_perfect_hypotheses_leave_better_ensembles():
    """Breast cancer, trees of depth 5: the ensemble is better than the perfect tree alone."""
    X, y = load_breast_cancer(return_X_y=True)
    ours, peer, alone = [], [], []
    for seed in range(6):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, stratify=y, test_size=0.4, random_state=seed
        )
        tree = DecisionTreeClassifier(max_depth=5)
        clf = tb.AdaBoostClassifier(tree, random_state=0).fit(X_train, y_train)
        ours.append(clf.score(X_test, y_test))
        alone.append(clf.estimators_[-1].score(X_test, y_test))
        peer.append(PeerAdaBoost(tree, random_state=0).fit(X_train, y_train).score(X_test, y_test))
    assert np.mean(ours) > np.mean(alone) + 0.01
    assert np.mean(ours) >= np.mean(peer) - 0.005


def test_a_perfect_hypothesis_ends_a_watched_fit():
    """If rounds are selected on held-out rows, the best prefix is used, with or without a perfect end."""
    X, y = load_breast_cancer(return_X_y=True)
    clf = tb.AdaBoostClassifier(
        DecisionTreeClassifier(max_depth=5), n_iter_no_change=20, cv=0.3, random_state=0
    ).fit(X, y)
    assert "no error" in clf.trace_.stop_reason
    assert len(clf.estimators_) == clf.trace_.value.argmin() + 1


@pytest.mark.parametrize("make_it", [tb.AdaBoostClassifier, tb.VadaBoostClassifier])
@pytest.mark.parametrize("K", [2, 3])
def test_learning_rate_is_the_share_of_the_step(make_it, K):
    X, y = noisy(0, K=K)
    full = make_it(TREE, n_estimators=12).fit(X, y)
    slow = make_it(TREE, n_estimators=12, learning_rate=0.25).fit(X, y)
    assert slow.estimator_weights_[0] == 0.25 * full.estimator_weights_[0]
    assert (np.diff(np.append(0.0, slow.log_costs_)) < 0).all()
    assert slow.log_costs_[-1] > full.log_costs_[-1]
    same = make_it(TREE, n_estimators=12, learning_rate=1.0).fit(X, y)
    np.testing.assert_array_equal(same.estimator_weights_, full.estimator_weights_)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_learning_rate_is_the_peers(rate):
    X, y = noisy(1)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    ours = tb.AdaBoostClassifier(tree, n_estimators=15, learning_rate=rate).fit(X, y)
    peer = PeerAdaBoost(tree, n_estimators=15, learning_rate=rate).fit(X, y)
    # Two classes: half of scikit-learn's step, which changes the weights of errors only.
    np.testing.assert_allclose(2 * ours.estimator_weights_, peer.estimator_weights_, rtol=1e-3)
    assert (ours.predict(X) == peer.predict(X)).mean() > 0.99


def test_learning_rate_of_stumps():
    X, y = noisy(0)
    slow = tb.EBBoostClassifier(n_estimators=12, learning_rate=0.25).fit(X, y)
    full = tb.EBBoostClassifier(n_estimators=12).fit(X, y)
    assert slow.estimator_weights_[0] == 0.25 * full.estimator_weights_[0]
    assert (np.diff(slow.log_costs_) < 0).all()


@both
def test_chance_leaves_the_best_constant(name, K):
    if name == "ebboost":
        pytest.skip("its stumps are its own")
    X, y = noisy(0, K=K)
    learner = DummyClassifier(strategy="constant", constant=int(np.bincount(y).argmin()))
    clf = make(name, estimator=learner).fit(X, y)
    assert len(clf.estimators_) == 1
    assert (clf.predict(X) == np.bincount(y).argmax()).all()
    assert clf.trace_.stop.kind is StopKind.RULE


@both
def test_constant_columns_and_repeated_rows(name, K):
    y = np.repeat(np.arange(K), np.arange(K) + 3)
    clf = make(name).fit(np.ones((len(y), 2)), y)
    assert (clf.predict(np.ones((2, 2))) == K - 1).all()
    X, y = noisy(0, n=20, K=K)
    clf = make(name).fit(np.repeat(X, 9, axis=0), np.repeat(y, 9))
    assert np.isfinite(clf.decision_function(X)).all()


@pytest.mark.thinned(25)
@both
@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_huge_weights(name, K, factor):
    X, y = noisy(0, K=K)
    s = np.ones(len(y))
    s[::7] = factor
    if name == "softmarginboost":  # its price counts weight, that of `fit`
        clf = make(name, C=10 / row_weights(s, len(s)).sum()).fit(X, y, sample_weight=s)
    else:
        clf = make(name).fit(X, y, sample_weight=s)
    assert np.isfinite(clf.decision_function(X)).all()
    if factor > 1 and name != "softmarginboost":
        assert np.mean(clf.predict(X[::7]) == y[::7]) >= 0.8


@both
@pytest.mark.parametrize("rounds", [100, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.thinned(7)
def test_many_rounds(name, K, rounds):
    X, y = noisy(0, n=60, K=K)
    clf = make(name, rounds=rounds).fit(X, y)
    assert np.isfinite(clf.log_costs_).all()
    assert np.isfinite(clf.decision_function(X)).all()


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clf", "match"),
    [
        (tb.VadaBoostClassifier(variance_weight=-0.1), "'variance_weight' parameter.*-0.1"),
        (tb.VadaBoostClassifier(variance_weight=1.5), "'variance_weight' parameter.*1.5"),
        (tb.EBBoostClassifier(variance_weight=-0.5), "'variance_weight' parameter.*-0.5"),
        (tb.EBBoostClassifier(learning_rate=0.0), "'learning_rate' parameter"),
        (tb.AdaBoostClassifier(learning_rate=1.5), "'learning_rate' parameter"),
        (tb.EBBoostClassifier(variance_weight=np.nan), "'variance_weight' parameter"),
        (tb.SoftMarginBoostClassifier(loss="l1"), "'loss' parameter.*'l1'"),
        (tb.SoftMarginBoostClassifier(C=0.0), "'C' parameter"),
        (
            tb.SoftMarginBoostClassifier(C=1e-3, loss="linear"),
            "linear",
        ),
        (tb.VadaBoostClassifier(cv=5), "parameter"),
    ],
)
def test_parameters(clf, match):
    with pytest.raises(ValueError, match=match):
        clf.fit(*noisy(0))


def test_ebboost_has_two_classes_and_numbers_only():
    X, y = noisy(0, K=3)
    with pytest.raises(ValueError, match="classification"):
        tb.EBBoostClassifier().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        tb.EBBoostClassifier().fit(np.where(X > 1, np.nan, X), y % 2)
    with pytest.raises(ValueError, match="class"):
        tb.EBBoostClassifier().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="convert"):
        tb.EBBoostClassifier().fit(pd.DataFrame({"a": ["x", "y"]}), [0, 1])


def explained(estimator):
    """Return the check that boosting cannot pass, with the reason."""
    reason = "fits every training row whatever its weight; the check wants the rare class given up"
    return {"check_class_weight_classifiers": reason} | (
        SINGLE_SPLIT if "cv" in estimator.get_params() else {}
    )


@pytest.mark.thinned(53)
@parametrize_with_checks(
    [  # the others are run with every method of the registry
        tb.SoftMarginBoostClassifier(TREE, n_estimators=3, loss="quadratic"),
        tb.AdaBoostClassifier(STUMP, n_estimators=3),
        STUMP,
        StumpClassifier(variance_weight=0.5),
    ],
    expected_failed_checks=explained,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
