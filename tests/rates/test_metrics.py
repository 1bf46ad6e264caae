"""Metrics against brute force, a generic LP, scikit-learn and fairlearn."""

import math

import numpy as np
import pandas as pd
import pytest
import sklearn
from conftest import refused
from fairlearn.metrics import MetricFrame
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix, zero_one_loss
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score, cross_validate

import tailboost as tb
from tailboost import metrics, rates


def cvar_by_lp(losses, alpha, p):
    """Definition (1) by a generic LP solver."""
    p = np.asarray(p) / np.sum(p)
    bounds = np.column_stack([np.zeros(len(p)), p / alpha])
    return -linprog(-np.asarray(losses), A_eq=np.ones((1, len(p))), b_eq=[1], bounds=bounds).fun


def random_case(seed, n=40, K=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    y[:K] = np.arange(K)
    proba = rng.dirichlet(np.ones(K), size=n).round(1)  # rounding makes ties
    proba[:, -1] = 1 - proba[:, :-1].sum(axis=1)
    proba = np.abs(proba) / np.abs(proba).sum(axis=1, keepdims=True)
    weight = rng.integers(0, 4, size=n).astype(float)
    weight[0] = 1
    return y, proba, weight, rng


# --- CVaR --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_cvar_against_a_generic_lp(seed):
    y, proba, weight, rng = random_case(seed)
    losses, expected = rng.normal(size=len(y)).round(1), 1 - proba[np.arange(len(y)), y]
    for alpha in [1e-6, 0.013, 0.1, 1 / 3, 0.5, 0.999, 1]:
        of_losses, of_errors = (cvar_by_lp(each, alpha, weight) for each in (losses, expected))
        assert metrics.cvar(losses, alpha, weight) == pytest.approx(of_losses, abs=1e-9)
        found = metrics.cvar_zero_one_loss(y, proba, alpha, sample_weight=weight)
        assert found == pytest.approx(of_errors, abs=1e-9)


def test_alpha_one_is_the_mean_tiny_alpha_the_maximum_and_the_boundary_row_counts_in_part():
    assert metrics.cvar([3.0, 1.0, 0.0], 0.5) == pytest.approx((3 + 0.5 * 1) / 1.5)  # α·n = 1.5
    y, proba, weight, _ = random_case(0)
    losses = metrics.expected_zero_one_losses(y, proba)
    assert metrics.cvar(losses, 1, weight) == pytest.approx(np.average(losses, weights=weight))
    assert metrics.cvar(losses, 1e-12, weight) == pytest.approx(losses[weight > 0].max())


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.25, 0.4, 1.0])
def test_deterministic_rule_has_min_one_error_over_alpha(alpha):
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    answer = y.copy()
    answer[:2] = 1 - answer[:2]
    assert metrics.cvar_zero_one_loss(y, np.eye(2)[answer], alpha) == pytest.approx(min(1, 0.2 / alpha))


@pytest.mark.parametrize("K", [2, 3, 10])
def test_a_coin_flip_has_the_same_cvar_everywhere(K):
    y = np.arange(5 * K) % K
    np.testing.assert_allclose(metrics.cvar_curve(y, np.full((5 * K, K), 1 / K), [0.01, 0.5, 1]), 1 - 1 / K)


@pytest.mark.parametrize("seed", range(5))
def test_weight_two_is_the_row_twice_and_zero_no_row(seed):
    y, proba, weight, rng = random_case(seed)
    groups = rng.choice(["a", "b", "c"], size=len(y))
    groups[weight == 0] = "only weightless rows"
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    pred, alphas = proba.argmax(axis=1), [0.03, 0.3, 0.9]
    np.testing.assert_allclose(
        metrics.cvar_curve(y, proba, alphas, sample_weight=weight),
        metrics.cvar_curve(y[rows], proba[rows], alphas, labels=[0, 1, 2]),
        atol=1e-12,
    )
    for answers, more in ((pred, {}), (proba, {"labels": np.unique(y)})):
        for errors, of in ((metrics.class_errors, []), (metrics.group_errors, [groups])):
            repeated = errors(y[rows], answers[rows], *(each[rows] for each in of), **more)
            present = {k: v for k, v in repeated.items() if not math.isnan(v)}
            assert errors(y, answers, *of, sample_weight=weight) == pytest.approx(present)


def test_huge_and_tiny_weights():
    y, pred = [0, 0, 1, 1], [0, 1, 1, 1]
    for scale in [1e-300, 1e300, 1e308]:
        weight = np.full(4, scale)
        assert metrics.class_errors(y, pred, sample_weight=weight) == {0: 0.5, 1: 0.0}
        assert metrics.cvar([1, 0, 0, 0], 0.5, weight) == pytest.approx(0.5)


def test_curve_is_one_value_per_alpha_and_never_rises():
    y, proba, _, _ = random_case(3)
    alphas = np.linspace(0.01, 1, 50)
    curve = metrics.cvar_curve(y, proba, alphas)
    assert (np.diff(curve) <= 1e-12).all()
    np.testing.assert_allclose(curve, [metrics.cvar_zero_one_loss(y, proba, a) for a in alphas], atol=0)
    assert metrics.cvar_curve(y, proba, []).shape == (0,)


def test_binary_shares_may_be_one_column():
    y, p = np.array(["no", "yes", "yes"]), np.array([0.2, 0.7, 0.4])
    np.testing.assert_allclose(metrics.expected_zero_one_losses(y, p), [0.2, 0.3, 0.6])
    np.testing.assert_allclose(metrics.expected_zero_one_losses(y, np.c_[1 - p, p]), [0.2, 0.3, 0.6])
    np.testing.assert_allclose(metrics.expected_zero_one_losses(y, p, labels=["yes", "no"]), [0.8, 0.7, 0.4])


def test_columns_follow_labels():
    proba = [[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]]
    losses = metrics.expected_zero_one_losses(["b", "c"], proba, labels=["c", "a", "b"])
    np.testing.assert_allclose(losses, [0.3, 0.5])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_shares_in_short_floats(dtype):
    y, proba, _, _ = random_case(1)
    short = metrics.expected_zero_one_losses(y, proba.astype(dtype))
    np.testing.assert_allclose(short, 1 - proba[np.arange(len(y)), y], atol=np.finfo(dtype).eps * 4)


# --- classes and groups ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_class_errors_against_the_confusion_matrix(seed):
    y, proba, weight, _ = random_case(seed)
    weight += 0.5
    pred = proba.argmax(axis=1)
    table = confusion_matrix(y, pred, sample_weight=weight, normalize="true")
    errors = metrics.class_errors(y, pred, sample_weight=weight)
    assert errors == pytest.approx(dict(enumerate(1 - np.diag(table))))
    assert metrics.worst_class_error(y, pred, sample_weight=weight) == max(errors.values())


@pytest.mark.parametrize("seed", range(5))
def test_group_errors_against_fairlearn(seed):
    y, proba, weight, rng = random_case(seed)
    weight += 0.5
    groups, pred = rng.choice(["f", "m", "x"], size=len(y)), proba.argmax(axis=1)
    frame = MetricFrame(
        metrics=lambda t, p, sample_weight: 1 - accuracy_score(t, p, sample_weight=sample_weight),
        y_true=y, y_pred=pred, sensitive_features=groups, sample_params={"sample_weight": weight},
    )  # fmt: skip
    errors = metrics.group_errors(y, pred, groups, sample_weight=weight)
    assert errors == pytest.approx(frame.by_group.to_dict())
    assert max(errors.values()) == pytest.approx(frame.group_max())


def test_expected_errors_of_a_deterministic_rule_are_its_errors():
    y, proba, weight, rng = random_case(7)
    groups, pred = rng.choice(["f", "m"], size=len(y)), proba.argmax(axis=1)
    hard = np.eye(3)[pred]
    for errors, of in ((metrics.class_errors, []), (metrics.group_errors, [groups])):
        of_answers = pytest.approx(errors(y, pred, *of, sample_weight=weight))
        assert errors(y, hard, *of, sample_weight=weight) == of_answers
    mean = metrics.cvar_zero_one_loss(y, hard, 1, sample_weight=weight)
    assert mean == pytest.approx(zero_one_loss(y, pred, sample_weight=weight))


def test_keys_are_plain_and_in_order():
    errors = metrics.class_errors(np.array([2, 0, 1]), np.array([2, 0, 0]))
    assert list(errors) == [0, 1, 2]
    assert {type(key) for key in errors} == {int}
    assert {type(value) for value in errors.values()} == {float}
    assert list(metrics.class_errors(["b", "a"], ["b", "a"], labels=["b", "c", "a"])) == ["b", "c", "a"]


def test_a_class_without_rows_has_no_error():
    errors = metrics.class_errors(["a", "a"], ["a", "b"], labels=["a", "b"])
    assert errors["a"] == 0.5
    assert math.isnan(errors["b"])
    assert metrics.worst_class_error(["a", "a"], ["a", "b"], labels=["a", "b"]) == 0.5
    proba = [[0.8, 0.2], [0.6, 0.4]]
    assert metrics.class_errors(["a", "a"], proba, labels=["a", "b"])["a"] == pytest.approx(0.3)


@pytest.mark.parametrize("wrap", [
    list, np.array, pd.Series, lambda v: np.array(v, object), lambda v: pd.Series(v, dtype="category")
])  # fmt: skip
@pytest.mark.parametrize("values", [["a", "b", "a"], [1, 2, 1], [1.5, 2.0, 1.5], [True, False, True]])
def test_containers_and_label_types(wrap, values):
    answers = wrap([values[0]] * 3)
    errors = metrics.class_errors(wrap(values), answers)
    assert metrics.class_errors(wrap(values), np.asarray(answers)[:, None]) == errors  # as of CatBoost
    assert errors == {values[0]: 0.0, values[1]: 1.0}
    assert metrics.group_errors([0, 1, 0], [0, 0, 0], wrap(values)) == {values[0]: 0.0, values[1]: 1.0}


# --- scorer ------------------------------------------------------------------------------------------------


def test_scorer_is_minus_cvar_with_the_columns_named():
    X, y = make_classification(200, n_classes=3, n_informative=4, random_state=0)
    names = np.array(["x", "y", "z"])[y]
    clf, two = LogisticRegression().fit(X, names), names != "z"
    scorer = metrics.make_cvar_scorer(0.2)
    expected = min(1.0, np.mean(clf.predict(X[two]) != names[two]) / 0.2)  # not the CVaR of predict_proba
    assert scorer(clf, X[two], names[two]) == pytest.approx(-expected)
    assert clone(scorer).alpha == 0.2
    assert repr(scorer) == "ErrorScorer(alpha=0.2)"


@pytest.mark.parametrize("K", [2, 3])
def test_scorer_in_searches_with_a_fold_that_lacks_a_class(K):
    X, y = make_classification(200, n_classes=K, n_informative=4, random_state=0)
    fold = np.where((y == 0) & (np.arange(200) % 4 == 0), 0, -1)  # the only test fold holds class 0 alone
    scorer = metrics.make_cvar_scorer(0.3)
    model, splits = LogisticRegression(), PredefinedSplit(fold)
    (score,) = cross_val_score(model, X, y, scoring=scorer, cv=splits, error_score="raise")
    assert -1 <= score <= 0
    both = {"tail": scorer, "mean": "accuracy"}
    search = GridSearchCV(model, {"C": [1e-4, 1.0]}, scoring=both, refit="tail").fit(X, y)
    manual = cross_val_score(search.best_estimator_, X, y, scoring=scorer).mean()
    assert search.best_score_ == pytest.approx(manual)


def test_scorer_receives_the_weights_of_the_test_rows():
    X, y = make_classification(200, flip_y=0.4, random_state=0)
    weight = np.where(np.arange(200) % 2, 3.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = LogisticRegression().set_fit_request(sample_weight=False)
        scorer = metrics.make_cvar_scorer(0.9).set_score_request(sample_weight=True)
        given = {"scoring": scorer, "cv": 3, "params": {"sample_weight": weight}}
        result = cross_validate(clf, X, y, return_estimator=True, return_indices=True, **given)
    folds = zip(result["test_score"], result["estimator"], result["indices"]["test"], strict=True)
    for score, model, test in folds:
        assert score == scorer(model, X[test], y[test], sample_weight=weight[test])
        assert score != scorer(model, X[test], y[test])


@pytest.mark.parametrize("expected", [False, True])
def test_worst_class_scorer(expected):
    X, y = make_classification(300, n_classes=3, n_informative=4, weights=[0.7, 0.2], random_state=0)
    names, weight = np.array(["x", "y", "z"])[y], np.arange(300) % 3 + 0.5
    clf = LogisticRegression().fit(X, names)
    losses = clf.predict(X) != names  # no randomised rule, so expected or not
    by_class = [np.average(losses[y == k], weights=weight[y == k]) for k in range(3)]
    scorer = metrics.make_worst_class_scorer(expected=expected)
    assert scorer(clf, X, names, sample_weight=weight) == pytest.approx(-max(by_class))
    assert -scorer(clf, X, names) > 1.5 * np.mean(losses)  # not the mean error
    one = y == 0  # a fold may lack classes
    assert scorer(clf, X[one], names[one]) == pytest.approx(-np.mean(losses[one]))
    assert clone(scorer).expected is expected
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(
            LogisticRegression().set_fit_request(sample_weight=False),
            X, names, scoring=scorer.set_score_request(sample_weight=True), cv=3,
            params={"sample_weight": weight}, return_estimator=True, return_indices=True,
        )  # fmt: skip
    model, test = routed["estimator"][0], routed["indices"]["test"][0]
    assert routed["test_score"][0] == scorer(model, X[test], names[test], sample_weight=weight[test])


# --- bad input ---------------------------------------------------------------------------------------------

Y, P = [0, 1, 1], [[0.5, 0.5], [0.2, 0.8], [1, 0]]


@pytest.mark.parametrize("alpha", [0, -0.1, 1.1, np.nan, np.inf, "a", None, True])
def test_bad_alpha(alpha):
    for call in [
        lambda: metrics.cvar([1.0], alpha), lambda: metrics.cvar_zero_one_loss(Y, P, alpha),
        lambda: metrics.cvar_curve(Y, P, [0.5, alpha]), lambda: metrics.make_cvar_scorer(alpha),
    ]:  # fmt: skip
        refused(call, "alpha.*number")


cvar, tail = metrics.cvar, metrics.cvar_zero_one_loss
by_class, by_group = metrics.class_errors, metrics.group_errors
BAD = [
    (lambda: cvar([], 0.5), "losses"), (lambda: cvar([[1.0]], 0.5), "losses"),
    (lambda: cvar([1.0, np.nan], 0.5), "losses.*NaN"), (lambda: cvar(["a"], 0.5), "losses"),
    (lambda: cvar([1.0, 2.0], 0.5, [1]), "sample_weight"),
    (lambda: cvar([1.0, 2.0], 0.5, [1, -1]), "sample_weight"),
    (lambda: cvar([1.0, 2.0], 0.5, [0, 0]), "sample_weight.*zero"),
    (lambda: cvar([1.0, 2.0], 0.5, [1, np.nan]), "sample_weight"), (lambda: tail([], [], 0.5), "y_true"),
    (lambda: tail(Y[:2], P, 0.5), "y_proba"), (lambda: tail([0, 0, 0], P, 0.5), "y_proba"),
    (lambda: tail(Y, P, 0.5, labels=[0, 1, 2]), "y_proba"),
    (lambda: tail(Y, P, 0.5, labels=[0, 2]), r"y_true.*not among \[0, 2\]: \[1\]"),
    (lambda: tail(Y, P, 0.5, labels=[0, 0]), "labels"),
    (lambda: tail(Y, P, 0.5, labels=["0", "1"]), "y_true"), (lambda: tail(Y, np.ones((3, 2)), 0.5), "sum"),
    (lambda: tail(Y, [0.5, 1.2, 0.3], 0.5), "probabilities.*row 1 is 1.2"),
    (lambda: tail(Y, [[0.5, 0.5], [1.1, -0.1], [1, 0]], 0.5), "row 1"),
    (lambda: tail(Y, [[0.5, 0.5], [np.nan, 1], [1, 0]], 0.5), "y_proba.*NaN"),
    (lambda: tail(Y, np.ones((3, 2, 1)), 0.5), "y_proba.*shape"),
    (lambda: tail(Y, ["a", "b", "c"], 0.5), "y_proba"), (lambda: tail([[0], [1], [1]], P, 0.5), "y_true"),
    (lambda: tail([0, np.nan, 1], P, 0.5), "y_true"), (lambda: tail(["a", None, "b"], P, 0.5), "y_true"),
    (lambda: tail(Y, P, 0.5, sample_weight=[1, 1]), "sample_weight"),
    (lambda: by_class(Y, [0, 1]), "answers"),
    (lambda: by_class(Y, [[2.0, -1], [-1, 2], [0, 1]]), "answers.*row 0"),
    (lambda: by_class(Y, [[np.nan, 1], [0, 1], [0, 1]]), "answers.*NaN"),
    (lambda: by_class(Y, np.eye(3)), "answers has 3 columns"),
    (lambda: by_class(Y, ["0", "1", "1"]), "answers"),
    (lambda: by_class(Y, [0, 1, 5], labels=[0, 1]), r"answers holds labels.*: \[5\]"),
    (lambda: by_class(Y, Y, labels=[0]), r"answers holds labels.*: \[1\]"),
    (lambda: by_class(Y, Y, sample_weight=[0, 0, 0]), "sample_weight.*zero"),
    (lambda: by_group(Y, Y, ["a", "b"]), "y_true"), (lambda: by_group(Y, Y, ["a", None, "b"]), "contains"),
    (lambda: by_group(Y, Y, pd.Series(["a", None, "b"])), "contains"),
    (lambda: by_group(Y, Y, np.ones((3, 2, 2))), "groups"), (lambda: by_group(Y, P, ["a"]), "y_true"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message):
    refused(call, message)


@pytest.mark.parametrize("labels", [("ill", "well"), (0, 1), (False, True), (0.5, 1.5)])
def test_the_answer_human_review_is_a_deferred_row(labels):
    """As with a mask and any label in these rows, and as by counting."""
    rng = np.random.default_rng(0)
    truth, guess = np.array(labels)[rng.integers(0, 2, (2, 200))]
    group, is_deferred = rng.choice(["a", "b"], 200), rng.random(200) < 0.3
    actions = np.where(is_deferred, "human review", guess.astype(object))
    ill, wrong = truth == labels[0], (guess != truth) & ~is_deferred
    miss_rate = pytest.approx((ill & wrong).sum() / ill.sum())
    in_a = pytest.approx(wrong[group == "a"].mean())
    for answers in (actions, actions.tolist(), guess):
        for mask in (None, is_deferred):
            if answers is guess and mask is None:
                continue
            given = {"deferred": mask}
            assert rates.measure(rates.miss(labels[0]), truth, answers, **given)[None] == miss_rate
            share = rates.measure(rates.deferred(), truth, answers, **given)[None]
            assert share == pytest.approx(is_deferred.mean())
            assert metrics.class_errors(truth, answers, **given)[labels[0]] == miss_rate
            certificate = tb.certify(answers, None, truth, rates=[f"miss({labels[0]})"], **given)
            assert certificate.bounds[0].estimate == miss_rate
            assert metrics.group_errors(truth, answers, group, **given)["a"] == in_a


def test_a_label_human_review_is_no_deferral():
    truth = ["human review", "ok", "ok", "ok"]
    answers = ["human review", "human review", "ok", "ok"]
    assert metrics.class_errors(truth, answers) == {"human review": 0, "ok": pytest.approx(1 / 3)}
    assert rates.measure(rates.error(), truth, answers)[None] == pytest.approx(1 / 4)
    assert rates.measure(rates.error(), truth[1:], answers[1:])[None] == 0
    errors = rates.measure(rates.error(), truth[1:], answers[1:], labels=["human review", "ok"])
    assert errors[None] == pytest.approx(1 / 3)
    missed = rates.custom("missed", [("human review", "ok")], among=[("human review", None)])
    assert rates.measure(missed, truth, ["ok", *answers[1:]]) == {None: 1.0}


def test_a_mark_in_the_place_of_a_mask_is_told_how_to_make_one():
    with pytest.raises(ValueError, match="mask"):
        rates.measure(rates.miss("a"), ["a", "b"], ["a", "human review"], deferred="human review")


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan])
def test_the_answer_to_a_deferred_row_may_be_missing_and_its_mask_may_not(missing):
    errors, answers = metrics.class_errors, ["a", missing, "b", "a"]
    assert errors(list("aabb"), answers, deferred=[False, True, False, False]) == {"a": 0, "b": 0.5}
    refused(lambda: errors(list("aabb"), answers, deferred=[True, False, False, False]), "missing")
    refused(lambda: errors(["a", "b"], ["a", "b"], deferred=[True, missing]), "mask")
