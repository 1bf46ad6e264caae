"""Worst-class boosting: the paper's loop, its theorem and counter-examples, the valid bound."""

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import errors_of, noisy
from scipy.optimize import linprog, minimize_scalar
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import BoundNotMetWarning, OCOBoostClassifier, WorstClassBoostClassifier
from tailboost.boosting.game import Demand, TargetStakes
from tailboost.boosting.players.hedge import theory_rounds
from tailboost.boosting.subgroups import MAX_ERRORS, edge_from_share
from tailboost.classifiers.worst_class import GameTerms
from tailboost.learners import HistBoostClassifier, HistTreeClassifier

TREE = HistTreeClassifier(max_depth=3)
BOOST = HistBoostClassifier(n_estimators=8, max_depth=3)
GROWING = HistBoostClassifier(n_estimators=20, max_depth=3)
quiet = pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")


def rare(seed, n=300, K=5, d=4):
    """Classes of unequal size, none of them empty."""
    X, y = noisy(seed, n=n, d=d, K=K)
    keep = np.random.default_rng(seed).random(n) < 1.0 / (1 + y)
    keep[: 3 * K] = True
    y[: 3 * K] = np.tile(np.arange(K), 3)
    return X[keep], y[keep]


def fit(X, y, estimator=TREE, weight=None, groups=None, **params):
    settings = {"random_state": 0, "n_iter_no_change": None, **params}
    return WorstClassBoostClassifier(estimator, **settings).fit(X, y, sample_weight=weight, groups=groups)


class Scripted(ClassifierMixin, BaseEstimator):
    """Learner with given answers for each fit (the last one repeats); finds rows by their first column."""

    script, fits = (), 0

    def fit(self, X, y, sample_weight=None):
        cls = type(self)
        self.classes_ = np.unique(y)
        self.answers_ = cls.script[min(cls.fits, len(cls.script) - 1)]
        cls.fits += 1
        return self

    def predict(self, X):
        return self.answers_[X[:, 0].astype(int)]


def play_script(answers, y, **params):
    """Fit with scripted voters; for a mixture the first answers are plain ERM's."""
    Scripted.script, Scripted.fits = [np.asarray(a) for a in answers], 0
    X = np.arange(len(y), dtype=float)[:, None]
    settings = {"cv": "train", "n_estimators": 3, "eta": 1.0, "include_constants": False, **params}
    return fit(X, np.asarray(y), Scripted(), **settings)


# -- the published game --------------------------------------------------------------------------------


def transcription(X, y, theta, gamma, T):
    """Algorithm 1 of the paper, with ln K: class weights, members, and the votes for the rows of X."""
    K = y.max() + 1
    n_k = np.bincount(y)
    eta = math.sqrt(8 * math.log(K) / T)
    w, history, votes, stop = np.full(K, 1 / K), [], np.zeros((len(y), K)), T
    for t in range(T):
        h = HistTreeClassifier(max_depth=3).fit(X, y, sample_weight=len(y) * w[y] / n_k[y])
        answers = h.predict(X)
        loss = np.array([np.mean(answers[y == k] != k) >= 1 - theta for k in range(K)]).astype(float)
        if w @ loss > 0.5 - gamma and t > 0:
            stop = t
            break
        history.append(w)
        votes[np.arange(len(y)), answers] += 1
        w = w * np.exp(-eta * (1 - loss))
        w = w / w.sum()
    return np.array(history), votes, stop


@quiet
@pytest.mark.parametrize("seed", range(6))
def test_the_game_is_the_papers_loop(seed):
    X, y = rare(seed)
    theta = 0.5
    clf = fit(X, y, max_error=1 - theta, cv="train", class_loss="indicator")
    gamma = 4 / 5 - 0.5 - 0.0005
    assert clf.gamma_ == pytest.approx(gamma)
    T = math.ceil(2 * math.log(5) / gamma**2)
    assert T == 36
    assert clf.eta_ == pytest.approx(math.sqrt(8 * math.log(5) / T))
    weights, votes, stop = transcription(X, y, theta, gamma, T)
    assert clf.n_iter_ == stop
    np.testing.assert_allclose(clf.trace_.weights, weights, rtol=1e-9)
    np.testing.assert_allclose(clf.trace_.weights[0], 0.2)
    np.testing.assert_array_equal(clf.selection_.majority.votes, votes)
    # The vote of the selected prefix, without ties.
    kept = int((clf.estimator_weights_ > 0).sum())
    share = np.zeros((len(y), 5))
    for member in clf.estimators_[:kept]:
        share[np.arange(len(y)), member.predict(X)] += 1 / kept
    np.testing.assert_allclose(clf.predict_distribution(X), share, atol=1e-12)
    top = np.sort(share, axis=1)
    clear = top[:, -1] > top[:, -2] + 1e-9
    np.testing.assert_array_equal(clf.predict(X)[clear], share.argmax(axis=1)[clear])


@quiet
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.thinned(3)
def test_regret_is_at_most_half_gamma_T_where_the_condition_held(seed):
    X, y = rare(seed, K=5)
    clf = fit(
        X,
        y,
        HistBoostClassifier(n_estimators=20, max_depth=3),
        max_error=0.6,
        cv="train",
        class_loss="indicator",
    )
    gamma, T = clf.gamma_, theory_rounds(5, clf.gamma_)
    assert clf.n_iter_ == T == 36  # the learner is strong enough for the condition to hold in every round
    losses = clf.game_.state.cumulative
    assert np.all(clf.trace_.weighted_loss <= 0.5 - gamma + 1e-9)
    assert losses.max() - clf.trace_.weighted_loss.sum() <= gamma * T / 2
    # So every class is fine for more than half of the voters.
    errors = np.array([[np.mean(m.predict(X)[y == k] != k) for k in range(5)] for m in clf.estimators_])
    np.testing.assert_allclose(np.mean(errors >= 0.6, axis=0), losses / T)
    assert np.mean(errors >= 0.6, axis=0).max() <= 0.5 - gamma / 2
    for promise in clf.summary_.promised:
        assert promise.bound <= 0.5
        assert losses.max() / T <= promise.bound


def test_gamma_from_a_share_of_the_classes():
    assert edge_from_share(0.8, 5) == pytest.approx(0.2995)
    assert edge_from_share(0.6, 5) == pytest.approx(
        0.0995
    )  # 0.6 · 5 is 3.0000000000000004 or 2.9999999999999996
    assert edge_from_share(0.7, 10) == pytest.approx(0.1995)
    assert edge_from_share(0.8, 2) < 0
    assert edge_from_share(1.0, 2) == pytest.approx(0.4995)


# -- the false step, and the mixture ---------------------------------------------------------------------


def test_three_voters_wrong_on_forty_per_cent_vote_wrongly_on_sixty():
    y = np.array([0] * 5 + [1] * 5)
    voters = np.tile(y, (3, 1))
    for t, missed in enumerate([(0, 1), (1, 2), (0, 2)]):
        voters[t, list(missed)] = 1
    vote = play_script(voters, y, max_error=0.41, combine="vote", class_loss="error")
    np.testing.assert_allclose(vote.selection_.majority.results, [(0.4, 0.2), (0.4, 0.2), (0.6, 0.3)])
    # As published, all of them vote; training errors select none.
    np.testing.assert_allclose(vote.estimator_weights_, 1 / 3)
    assert vote.limits_met_ is False
    np.testing.assert_allclose(errors_of(vote), [0.6, 0.0])


def test_the_number_of_voters_is_selected_on_rows_held_out():
    y = np.array([0] * 5 + [1] * 5)
    voters = np.tile(np.r_[y, y], (3, 1))
    for t, missed in enumerate([(0, 1), (1, 2), (0, 2)]):
        voters[t, [10 + row for row in missed]] = 1  # on the rows held out alone
    X = np.arange(20.0)[:, None]
    settings = {"max_error": 0.41, "combine": "vote", "class_loss": "error", "n_estimators": 3}
    Scripted.script, Scripted.fits = list(voters), 0
    vote = WorstClassBoostClassifier(Scripted(), random_state=0, n_iter_no_change=None, **settings)
    vote.fit(X[:10], y, X_val=X[10:], y_val=y)
    np.testing.assert_allclose(vote.estimator_weights_, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(errors_of(vote), [0.4, 0.0])


def test_the_value_of_the_mixture_is_its_bound():
    y = np.array([0] * 5 + [1] * 5)
    voters = np.tile(y, (3, 1))
    for t, missed in enumerate([(0, 1), (1, 2), (0, 2)]):
        voters[t, list(missed)] = 1
    clf = play_script([voters[0], *voters], y, max_error=0.41, combine="mixture", class_loss="error")
    assert clf.limits_met_ is True
    np.testing.assert_allclose(clf.expected_subgroup_errors_, [0.4, 0.0])
    assert clf.summary_.achieved == pytest.approx(0.2)  # the overall error is minimised within the limits


def minimax(errors):
    """Solve min over mixtures of the largest column by a generic solver; errors have shape (T, m)."""
    T, m = errors.shape
    A = np.hstack([errors.T, -np.ones((m, 1))])
    simplex = np.append(np.ones(T), 0.0)[None, :]
    return linprog(
        np.append(np.zeros(T), 1.0), A, np.zeros(m), simplex, [1.0], [(0, None)] * T + [(None, None)]
    ).fun


# Largest loss in the largest error for a gain of 1 in the overall error, of which `select` takes account.
TIE = 1e-3


@pytest.mark.slow
@quiet
def test_random_games_the_vote_breaks_the_bound_and_the_mixture_is_its_value():
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(40):
        K, T = int(rng.integers(2, 4)), 5
        y = np.repeat(np.arange(K), 7)
        voters = np.where(
            rng.random((T + 1, len(y))) < 0.42, (y + rng.integers(1, K, (T + 1, len(y)))) % K, y
        )
        errors = np.array([[np.mean(v[y == k] != k) for k in range(K)] for v in voters])
        game = {"max_error": "auto", "n_estimators": T, "class_loss": "error"}
        clf = play_script(voters, y, combine="mixture", **game)
        value = minimax(np.vstack([errors[1:], errors[:1]]))
        assert value - 1e-9 <= clf.expected_subgroup_errors_.max() <= value + TIE
        assert clf.summary_.achieved == pytest.approx(clf.expected_subgroup_errors_.max(), abs=1e-9)
        vote = play_script(voters[1:], y, combine="vote", **game)
        every = [result[0] for result in vote.selection_.majority.results]
        weak = errors[1:].max(axis=0).max() < 0.6
        broken += every[-1] > errors[1:].mean(axis=0).max() and weak
        assert errors_of(vote).max() == pytest.approx(every[-1])
    assert broken > 0


def test_unequal_targets_shift_the_mixture():
    """Of two voters one misses class 0, the other class 1: targets .3 and .7 share the blame so."""
    y = np.array([0] * 10 + [1] * 10)
    first, second = np.ones(20, int), np.zeros(20, int)
    clf = play_script(
        [first, first, second],
        y,
        max_error={0: 0.3, 1: 0.7},
        n_estimators=2,
        combine="mixture",
        class_loss="error",
    )
    np.testing.assert_allclose(clf.expected_subgroup_errors_, [0.3, 0.7])
    assert (clf.expected_subgroup_errors_ <= clf.max_error_ + 1e-9).all()
    assert clf.limits_met_ is False
    np.testing.assert_allclose(clf.max_error_, [0.3, 0.7])
    assert clf.summary_.objective == "error"
    with pytest.warns(BoundNotMetWarning, match="allowed"):
        clf = play_script(
            [first, first, second], y, max_error={0: 0.2, None: 0.4}, n_estimators=2, combine="mixture",
            class_loss="error",
        )  # fmt: skip
    assert clf.limits_met_ is False


@pytest.mark.thinned(5)
@pytest.mark.parametrize("combine", ["vote", "mixture"])
@pytest.mark.parametrize("max_error", [0.5, {1: 0.5, None: 0.6}], ids=["one", "by class"])
@pytest.mark.parametrize("reweighted", [False, True])
def test_an_error_of_exactly_one_minus_theta_is_not_met(combine, max_error, reweighted):
    """Equation (6): the loss of a class is I(R ≥ 1 − θ). No tree can tell half of the rows of class 1."""
    X = np.repeat([0.0, 1.0, 0.0, 2.0], [4, 2, 2, 4])[:, None]
    y = np.repeat([0, 1, 2], 4)
    settings = {"cv": "train", "combine": combine, "min_subgroup_rows": 1, "include_constants": False}
    with pytest.warns(BoundNotMetWarning, match="allowed"):
        clf = fit(
            X, y, DecisionTreeClassifier(max_depth=2), max_error=max_error, class_loss="indicator", **settings
        )
    if reweighted:
        with pytest.warns(BoundNotMetWarning, match="allowed"):
            clf = clf.reweight(max_error=max_error)
    errors = np.array([np.mean(clf.predict(X)[y == k] != k) for k in range(3)])
    assert errors.tolist() == [0.0, 0.5, 0.0]
    losses = errors >= clf.max_error_
    assert losses.tolist() == [False, True, False]
    assert clf.limits_met_ is False
    assert (clf.expected_subgroup_errors_ >= clf.max_error_).any()
    for table in (clf.rates_, clf.summary_.errors.of_rule("predict")):
        limited = [line for line in table if line.sense]
        assert [line.met for line in limited] == [not loss for loss in losses]
        assert {line.sense for line in limited} == {"<"}
        assert not table.met
    assert re.search(r"^1 +\d+ +0\.50 +< 0\.5 +NO$", str(clf.summary_), re.MULTILINE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # in the game of errors the limit includes its bound
        other = fit(X, y, DecisionTreeClassifier(max_depth=2), max_error=0.5, class_loss="error", **settings)
    assert other.limits_met_ is True
    assert {line.sense for line in other.rates_ if line.limit} == {"≤"}


@quiet
@pytest.mark.parametrize("class_loss", ["indicator", "error"])
@pytest.mark.parametrize("combine", ["vote", "mixture"])
@pytest.mark.parametrize("max_error", [0.4, {0: 0.1, None: 0.6}, "auto"])
def test_attributes_are_about_what_they_say(class_loss, combine, max_error):
    """On training rows, with unchanged hypotheses."""
    X, y = rare(2)
    names = np.array(list("abcde"))[y]
    max_error = {"a": 0.1, None: 0.6} if isinstance(max_error, dict) else max_error
    clf = fit(
        X,
        names,
        max_error=max_error,
        cv="train",
        class_loss=class_loss,
        combine=combine,
        n_estimators=6,
    )
    predicted = tb.metrics.class_errors(names, clf.predict(X))
    expected = tb.metrics.class_errors(names, clf.predict_distribution(X), labels=clf.classes_)
    np.testing.assert_allclose(errors_of(clf), list(predicted.values()), atol=1e-9)
    np.testing.assert_allclose(clf.expected_subgroup_errors_, list(expected.values()), atol=1e-9)
    promised = errors_of(clf)
    met = None if max_error == "auto" else bool(np.all(promised <= clf.max_error_ + 1e-9))
    assert clf.limits_met_ is met
    assert clf.trace_.weights.shape == (clf.n_iter_, 5)
    np.testing.assert_allclose(clf.trace_.weights.sum(axis=1), 1.0)
    assert list(clf.subgroup_errors_) == clf.classes_.tolist()
    if max_error == "auto":
        assert clf.max_error_[0] in MAX_ERRORS
        if class_loss == "error":
            harder = [error for error in MAX_ERRORS if error < clf.max_error_[0]]
            assert all(promised.max() > error for error in harder)
    *_, last = clf.staged_predict(X)
    np.testing.assert_array_equal(last, clf.predict(X))
    if combine == "mixture" and max_error == "auto":
        errors = np.array(
            [
                list(tb.metrics.class_errors(names, clf.classes_[m.predict(X)]).values())
                for m in clf.estimators_
            ]
        )
        least = minimax(errors)
        assert least - 1e-8 <= clf.expected_subgroup_errors_.max() <= least + TIE


# -- growth ----------------------------------------------------------------------------------------------


@quiet
def test_the_learner_is_grown_only_as_far_as_asked():
    X, y = rare(4, n=600)
    sizes = {}
    for allowed in (0.7, 0.5, 0.3):
        clf = fit(
            X,
            y,
            HistBoostClassifier(n_estimators=40, max_depth=3),
            max_error=allowed,
            class_loss="indicator",
            cv="train",
            n_estimators=5,
        )
        sizes[allowed] = [m.booster_.num_boosted_rounds() for m in clf.estimators_]
        for m, w in zip(clf.estimators_, clf.trace_.weights, strict=True):
            errors = np.array([np.mean(m.predict(X)[y == k] != k) for k in range(5)])
            assert w @ (errors >= allowed) <= 0.5 - clf.gamma_ + 1e-9
    assert np.mean(sizes[0.7]) < np.mean(sizes[0.3]) < 40


@quiet
def test_error_game_grows_to_the_theorems_goal():
    X, y = noisy(3, n=600)
    clf = fit(
        X,
        y,
        HistBoostClassifier(n_estimators=60, max_depth=3),
        max_error=0.4,
        cv="train",
        n_estimators=12,
    )
    goal = 0.4 - math.sqrt(math.log(2) / 24)
    assert clf.gamma_ is None
    assert clf.n_iter_ == 12
    assert np.all(clf.trace_.weighted_loss <= goal + 1e-9)
    sizes = [m.booster_.num_boosted_rounds() for m in clf.estimators_[:12]]
    assert max(sizes) < 60
    assert clf.game_.state.cumulative.max() / 12 <= 0.4  # the even mixture, by the theorem
    assert clf.limits_met_


@pytest.mark.parametrize("allowed", [[0.4] * 5, [0.3, 0.6], [0.01] * 4])
@pytest.mark.parametrize("T", [20, 300])
def test_the_demand_is_the_scaled_target_less_the_regret_of_hedge_at_its_best_rate(allowed, T):
    """The least of ``log K / (η T) + η / 8`` over η is the regret per round of losses in [0, 1]."""
    stakes = TargetStakes(None, np.array(allowed), np.ones(len(allowed), bool))
    demand = GameTerms(edge=0.0, indicator=False, votes=False, rounds=T).demand(stakes, limited=True)
    regret = minimize_scalar(
        lambda log_eta: math.log(len(allowed)) / (math.exp(log_eta) * T) + math.exp(log_eta) / 8
    ).fun
    # A loss is (error + largest target − target) / scale: within the targets it is at most this number.
    most = max(allowed) / (1 + max(allowed) - min(allowed))
    assert demand.weighted_loss == pytest.approx(max(0.0, most - regret))


@quiet
def test_a_fixed_learner_that_fails_ends_the_game_and_says_so():
    X, y = rare(5)
    clf = fit(X, y, DecisionTreeClassifier(max_depth=1), max_error=0.1, cv="train", class_loss="indicator")
    assert clf.n_iter_ == 1
    assert clf.limits_met_ is False


@pytest.mark.parametrize(("loss", "cure"), [(0.6, "give a larger learner"), (0.45, "or a smaller gamma")])
def test_a_missed_condition_of_any_round_has_a_cure_that_can_do(loss, cure):
    stop = Demand(0.4, required=True).refusal(2, loss)
    assert stop.text.endswith(cure)


@quiet
def test_forests_grow_under_cross_fitting():
    X, y = rare(6, n=500)
    clf = fit(X, y, RandomForestClassifier(30), max_error=0.7, class_loss="indicator", n_estimators=3)
    assert {len(m.estimators_) for m in clf.estimators_} != {30}


# -- parameters -----------------------------------------------------------------------------------------


def test_two_classes_play_the_error_game():
    X, y = noisy(7, n=300)
    clf = fit(X, y, BOOST, n_estimators=4)
    assert clf.gamma_ is None
    assert len(clf.estimators_) == 4 + 1 + 2  # plain ERM and the constants join the mixture
    assert clf.eta_ == pytest.approx(math.sqrt(8 * math.log(2) / 4))
    with pytest.raises(ValueError, match=r"= -0.0005 ≤ 0 for K = 2 subgroups.*class_loss='error'"):
        fit(X, y, class_loss="indicator")


@quiet
def test_a_hundred_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(100), 6)
    X = rng.normal(size=(100, 3))[y] + 0.05 * rng.normal(size=(600, 3))
    clf = fit(
        X,
        y,
        HistBoostClassifier(n_estimators=10, max_depth=6),
        max_error=0.7,
        class_loss="indicator",
        n_estimators=3,
        cv="train",
    )
    assert clf.trace_.weights.shape[1] == 100
    assert clf.gamma_ == pytest.approx(0.2995)
    T = math.ceil(2 * math.log(100) / 0.2995**2)
    planned = fit(X, y, max_error=0.7, class_loss="indicator", max_time=1e-9)
    assert planned.eta_ == pytest.approx(math.sqrt(8 * math.log(100) / T))


def test_a_class_with_one_row_trains_but_is_not_measured():
    X, y = noisy(8, n=120, K=3)
    y = np.where(y == 2, 1, y)
    y[5] = 2
    for params in ({}, {"class_loss": "error"}, {"cv": 0.3}):
        with pytest.warns(BoundNotMetWarning, match="measure"):
            clf = fit(X, y, BOOST, max_error=0.9, n_estimators=3, **params)
        assert np.isnan(errors_of(clf)[2])
        assert not np.isnan(errors_of(clf)[:2]).any()
        assert clf.limits_met_ is bool(np.nanmax(errors_of(clf)) <= 0.9)
        assert clf.trace_.weights[0, 2] == pytest.approx(1 / 3)
        assert np.isfinite(clf.predict_distribution(X)).all()


def test_a_class_absent_from_the_validation_set():
    X, y = noisy(9, n=200, K=3)
    X_val, y_val = noisy(10, n=90, K=3)
    seen = y_val != 1
    clf = WorstClassBoostClassifier(BOOST, max_error=0.8, n_estimators=3, random_state=0)
    with pytest.warns(BoundNotMetWarning, match="class"):
        clf.fit(X, y, X_val=X_val[seen], y_val=y_val[seen])
    assert np.isnan(errors_of(clf)).tolist() == [False, True, False]
    sizes = np.bincount(y_val[seen], minlength=3)[[0, 2]]
    overall = sizes @ np.delete(clf.expected_subgroup_errors_, 1) / sizes.sum()
    assert clf.summary_.achieved == pytest.approx(overall)


# -- groups and cells --------------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("combine", ["vote", "mixture"])
def test_groups_and_cells(combine):
    X, y = noisy(11, n=400, K=3)
    y = np.array(["low", "mid", "high"])[y]
    g = np.where(X[:, 0] + 0.3 * np.random.default_rng(0).normal(size=400) > 0, "f", "m")
    settings = {"combine": combine, "cv": "train", "n_estimators": 4, "max_error": 0.5}
    clf = fit(X, y, groups=g, **settings)
    assert list(clf.subgroup_errors_) == ["f", "m"]
    np.testing.assert_allclose(errors_of(clf), list(tb.metrics.group_errors(y, clf.predict(X), g).values()))
    cells = fit(X, y, groups=g, subgroups="cell", **settings)
    assert len(cells.subgroup_errors_) == 6
    predicted = cells.predict(X)
    for (c, group), error in zip(cells.subgroup_errors_, errors_of(cells), strict=True):
        rows = (y == c) & (g == group)
        assert error == pytest.approx(np.mean(predicted[rows] != c))
    max_error = {("low", "f"): 0.1, "high": 0.3, None: 0.8}
    cells = fit(X, y, groups=g, subgroups="cell", **(settings | {"max_error": max_error}))
    wanted = [0.1 if u == ("low", "f") else 0.3 if u[0] == "high" else 0.8 for u in cells.subgroup_errors_]
    np.testing.assert_allclose(cells.max_error_, wanted)
    by_group = fit(X, y, groups=g, **(settings | {"max_error": {"f": 0.1, "m": 0.9}}))
    np.testing.assert_allclose(by_group.max_error_, [0.1, 0.9])


@quiet
def test_a_validation_set_with_groups():
    X, y = noisy(12, n=300)
    X_val, y_val = noisy(13, n=100)
    g, g_val = np.arange(300) % 3, np.arange(100) % 3
    clf = WorstClassBoostClassifier(TREE, max_error=0.5, n_estimators=3, subgroups="cell", random_state=0)
    clf.fit(X, y, groups=g, X_val=X_val, y_val=y_val, groups_val=g_val)
    assert list(clf.subgroup_errors_) == [(c, k) for k in range(3) for c in range(2)]
    assert clf.reweight(X_val, y_val, objective="worst_group", groups=g_val).objective_.rate.by == "group"


def test_after_reweighting_errors_are_about_the_rows_given():
    X, y = noisy(14, n=200)
    clf = fit(X, y, max_error=0.8, n_estimators=3)
    kept = clf.reweight(objective="worst_class")
    assert errors_of(kept).shape == (2,)
    other = clf.reweight(*noisy(15, n=50), objective="worst_class")
    _, y_new = noisy(15, n=50)
    wrong = other.selection_.pool.shares(other.ensemble_).argmax(axis=1) != y_new
    np.testing.assert_allclose(errors_of(other), [wrong[y_new == k].mean() for k in range(2)])
    assert errors_of(clf).tolist() != errors_of(other).tolist()


# -- continuing, identities, bad input -----------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("cv", ["train", 5, 0.3])
@pytest.mark.parametrize(
    "params", [{"max_error": 0.5}, {}, {"max_error": {0: 0.2, None: 0.6}, "combine": "mixture"}]
)
@pytest.mark.parametrize("learner", [TREE, BOOST])
@pytest.mark.thinned(4)
def test_weight_is_repetition_in_the_indicator_game(cv, params, learner):
    for seed in range(3):
        X, y = rare(20 + seed, n=200, K=4)
        weight = np.random.default_rng(seed).integers(0, 4, len(y))
        weight[:12] += 1  # three rows of each class
        twice = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(y)), weight))
        settings = {"n_estimators": 4, "cv": cv, "class_loss": "indicator", **params}
        one = fit(X, y, learner, weight=weight, **settings)
        two = fit(X[twice], y[twice], learner, **settings)
        assert one.n_iter_ == two.n_iter_
        np.testing.assert_allclose(one.trace_.weights, two.trace_.weights, atol=1e-9)
        np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-6)
        np.testing.assert_allclose(errors_of(one), errors_of(two), atol=1e-9)


BAD = {
    "max_error 0": ({"max_error": 0.0}, "'max_error' parameter"),
    "max_error above 1": ({"max_error": 1.1}, "'max_error' parameter"),
    "max_error text": ({"max_error": "best"}, "'max_error' parameter"),
    "a target of 0": ({"max_error": {0: 0.0, None: 0.5}}, r"max_error: the target of 0 must be in \(0, 1\]"),
    "max_error in percent": ({"max_error": 30}, r"Write 0\.3 for 30 %"),
    "a target in percent": ({"max_error": {0: 30, None: 0.5}}, "of 0 must be in .*; write 0.3 for 30 %"),
    "a target of text": ({"max_error": {0: "a", None: 0.5}}, "max_error: the target of 0"),
    "a rest of text": ({"max_error": {None: "a"}}, "max_error: the target of None"),
    "a class without target": ({"max_error": {0: 0.5, 1: 0.5}}, "no target for class 2.*key None"),
    "no such class": (
        {"max_error": {9: 0.5, None: 0.5}},
        r"no class is called 9; there are \[0, 1, 2, 3, 4\]",
    ),
    "a rest without use": (
        {"max_error": {**dict.fromkeys(range(5), 0.5), None: "a"}},
        "max_error: the target of None",
    ),
    "no targets": ({"max_error": {}}, "no target for class 0"),
    "gamma 0": ({"gamma": 0}, "'gamma' parameter"),
    "gamma large": ({"gamma": 0.6}, "'gamma' parameter"),
    "q 0": ({"q": 0}, "'q' parameter"),
    "q large": ({"q": 1.1}, "'q' parameter"),
    "class_loss": ({"class_loss": "hinge"}, "'class_loss' parameter"),
    "combine": ({"combine": "mean"}, "'combine' parameter"),
    "subgroups": ({"subgroups": "row"}, "'subgroups' parameter"),
    "n_estimators": ({"n_estimators": "many"}, "'n_estimators' parameter"),
    "degenerate q": ({"q": 0.5, "class_loss": "indicator"}, "gamma='auto' with q=0.5"),
    "group without groups": ({"subgroups": "group"}, "subgroups='group' needs groups"),
    "cell without groups": ({"subgroups": "cell"}, "subgroups='cell' needs groups"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, recorder):
    X, y = rare(16)
    params, match = BAD[case]
    with pytest.raises(ValueError, match=match):
        fit(X, y, recorder, **params)
    assert type(recorder).fits == 0


def test_groups_where_classes_are_the_units(recorder):
    X, y = rare(16)
    with pytest.raises(ValueError, match="subgroups"):
        fit(X, y, recorder, groups=y, subgroups="class")
    with pytest.raises(ValueError, match="called"):
        fit(X, y, recorder, groups=np.where(y, "a", "b"), max_error={"x": 0.5, None: 0.8})
    assert type(recorder).fits == 0


# -- OCO ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3])
def test_oco_is_right_on_every_training_row_once_all_rounds_met_the_condition(K):
    X, y = noisy(17, n=40, K=K)
    clf = OCOBoostClassifier(HistTreeClassifier(max_depth=5), gamma=0.2, random_state=0).fit(X, y)
    T = math.ceil(2 * math.log(40) / 0.2**2)
    assert clf.n_iter_ == T
    assert clf.game_.player.eta == pytest.approx(math.sqrt(8 * math.log(40) / T))
    assert np.all(clf.trace_.weighted_loss <= 0.3)
    wrong = np.mean([m.predict(X) != y for m in clf.estimators_], axis=0)
    assert wrong.max() <= 0.5 - 0.2 / 2
    assert clf.score(X, y) == 1.0
    for promise in clf.summary_.promised:
        assert wrong.max() <= promise.bound <= 0.5


def test_oco_states_the_number_of_fits_of_its_default():
    """T = ⌈2 ln n/γ²⌉ with γ = .1 by default: the docstring gives it for two tables."""
    X, y = np.arange(3.0)[:, None], np.array([0, 0, 1])
    clf = OCOBoostClassifier(DecisionTreeClassifier(max_depth=1)).fit(X, y)
    assert clf.n_iter_ == math.ceil(2 * math.log(3) / 0.1**2)
    cost = OCOBoostClassifier.__doc__.partition("**Cost.**")[2].partition("Further attributes")[0]
    for n in (178, 569):
        assert f"{math.ceil(2 * math.log(n) / 0.1**2):,} " in cost.partition(f"for {n} rows")[0]


def test_oco_ignores_the_scale_of_weights_and_says_when_it_stops():
    X, y = noisy(18, n=100)
    weight = np.full(100, 3.0)
    with pytest.warns(BoundNotMetWarning, match="condition"):
        clf = OCOBoostClassifier(DecisionTreeClassifier(max_depth=2), gamma=0.3).fit(
            X, y, sample_weight=weight
        )
    T = math.ceil(2 * math.log(100) / 0.09)
    assert clf.game_.player.eta == pytest.approx(math.sqrt(8 * math.log(100) / T))
    assert clf.n_iter_ < T
    np.testing.assert_allclose(clf.estimator_weights_, 1 / clf.n_iter_)


# -- the pictures -------------------------------------------------------------------------------------------


# -- without any setting -------------------------------------------------------------------------------


@quiet
def test_a_stated_edge_asks_for_the_game():
    X, y = rare(21)
    with_edge = WorstClassBoostClassifier(max_error=0.6, gamma=0.2, random_state=0, max_time=1e-9).fit(X, y)
    assert with_edge.gamma_ == 0.2
    assert isinstance(with_edge.estimators_[0], HistBoostClassifier)


@quiet
@pytest.mark.parametrize("combine", ["vote", "mixture"])
def test_interrupted_and_fitted_again(interrupted, combine):
    X, y = rare(22)
    settings = {"eta": 0.5, "cv": "train", "combine": combine, "class_loss": "error"}
    whole = fit(X, y, DecisionTreeClassifier(max_depth=2), n_estimators=4, **settings)
    with pytest.warns(tb.FitInterruptedWarning, match="interrupted"):
        clf = fit(
            X,
            y,
            interrupted(3 if combine == "vote" else 4),
            n_estimators=4,
            **settings,
        )
    assert clf.n_iter_ == 2
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.predict_distribution(X), whole.predict_distribution(X))
    np.testing.assert_array_equal(errors_of(clf), errors_of(whole))


@quiet
@pytest.mark.parametrize(
    "params",
    [
        {"max_error": {0: 0.5, None: 0.7}},
        {"class_loss": "error", "estimator": None, "n_estimators": 3},
        {"max_error": 0.7, "combine": "mixture", "subgroups": "cell"},
    ],
)
def test_models_can_be_stored(tmp_path, params):
    from tailboost.storage.models import load_model, save_model

    X, y = rare(23)
    groups = X[:, 0] > 0 if "subgroups" in params else None
    clf = fit(X, y, groups=groups, **({"estimator": BOOST, "n_estimators": 3} | params))
    save_model(clf, tmp_path / "model.model")
    again = load_model(tmp_path / "model.model")
    np.testing.assert_array_equal(again.predict_distribution(X), clf.predict_distribution(X))
    assert again.get_params()["max_error"] == clf.max_error
    np.testing.assert_array_equal(errors_of(again), errors_of(clf))


def test_data_frames_pass_without_a_word():
    X, y = noisy(5, n=120)
    frame = pd.DataFrame(X).add_prefix("column ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = WorstClassBoostClassifier(n_estimators=3, random_state=0).fit(frame, y)
        assert fitted.predict(frame[::-1]).tolist() == fitted.predict(frame)[::-1].tolist()


class FirstFeature(ClassifierMixin, BaseEstimator):
    """A learner that answers with the first feature of each row."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return X[:, 0].astype(int)


def test_an_error_just_above_its_limit_is_printed_above_it():
    """Of 8,000 rows of class 1 the learner misses 801: three digits would print the limit itself."""
    y = np.repeat([0, 1], 8000)
    X = np.c_[y, np.arange(16_000)].astype(float)
    X[-801:, 0] = 0.0
    clf = tb.WorstClassBoostClassifier(FirstFeature(), n_estimators=1, cv="train", max_error=0.1)
    with pytest.warns(BoundNotMetWarning, match="allowed"):
        clf.fit(X, y)
