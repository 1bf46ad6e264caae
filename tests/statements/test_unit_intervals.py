"""Intervals for the errors of classes, groups and cells on new rows."""

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates
from tailboost.confidence import clopper_pearson_interval
from tailboost.learners import HistTreeClassifier
from tailboost.rates import Answered
from tailboost.thresholds import RateTable

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TREE = HistTreeClassifier(max_depth=3)
# Two rows of several hundred may draw the same of 65,536 lots and count as one.
LOTS = 5e-3
NAMES = ("unit_intervals_", "expected_unit_intervals_")


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(400, 8, n_informative=4, n_classes=3, weights=[0.7, 0.2, 0.1], random_state=0)
    return X, np.array(["a", "b", "c"])[y], np.where(X[:, 0] > 0, "u", "v")


def worst_class(**settings):
    return tb.WorstClassBoostClassifier(GaussianNB(), n_estimators=5, random_state=0, **settings)


def tree_game(**settings):
    """Play with a learner that is fitted fast."""
    return tb.WorstClassBoostClassifier(TREE, n_estimators=3, random_state=0, **settings)


FITS = {
    "mixture": ({}, False),
    "budget": ({"mean_budget": 0.01}, False),
    "vote": ({"max_error": 0.3}, False),
    "cells": ({"units": "cell"}, True),
}


@pytest.fixture(scope="module", params=FITS)
def fitted(request, data):
    X, y, groups = data
    settings, grouped = FITS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return worst_class(**settings).fit(X, y, groups=groups if grouped else None)


# -- the interval ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_interval_is_scipys_exact_one(confidence):
    for n in (1, 2, 7, 60):
        wrong = np.arange(n + 1)
        low, high = clopper_pearson_interval(wrong / n, n, confidence)
        for k in wrong:
            exact = binomtest(int(k), n).proportion_ci(confidence, method="exact")
            assert (low[k], high[k]) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_without_rows_nothing_is_known():
    low, high = clopper_pearson_interval([0.0, 0.3, 1.0], 0)
    assert (low.tolist(), high.tolist()) == ([0] * 3, [1] * 3)


@pytest.mark.parametrize(("error", "n", "confidence"), [(1.1, 5, 0.9), (0.5, -1, 0.9), (0.5, 5, 1.0)])
def test_bad_arguments_of_the_interval(error, n, confidence):
    with pytest.raises(ValueError, match=r"error|n |confidence"):
        clopper_pearson_interval(error, n, confidence)


# -- intervals of the returned rule ------------------------------------------------------------------------


def widened(error, n, more):
    """Return the exact interval of k errors among n rows, each arm with 1.96 more standard deviations."""
    exact = binomtest(round(error * n), n).proportion_ci(0.95, method="exact")
    low, high = (
        error - np.hypot(error - exact.low, 1.96 * more),
        error + np.hypot(exact.high - error, 1.96 * more),
    )
    return max(low, 0.0), min(high, 1.0)


def test_intervals_are_about_the_errors_of_the_returned_rule(fitted):
    rows = fitted.combiner_.pool.ledger.rows
    counts = np.bincount(rows.groups, minlength=len(fitted.units_))
    for errors, ends in (
        (fitted.unit_errors_, fitted.unit_intervals_),
        (fitted.expected_unit_errors_, fitted.expected_unit_intervals_),
    ):
        assert ends.shape == (len(counts), 2)
        known = ~np.isnan(ends[:, 0])
        assert (known == (counts >= 10)).all()
        assert ((ends[:, 0] <= errors) & (errors <= ends[:, 1]))[known].all()
    for error, n, (low, high) in zip(fitted.unit_errors_, counts, fitted.unit_intervals_, strict=True):
        if n >= 10:  # no row is said twice, and none has another weight
            assert (low, high) == pytest.approx(widened(error, int(n), 0.015), abs=LOTS)


def test_intervals_are_what_the_table_shows(fitted):
    for who, name in (("", "predict"), ("expected_", "randomised")):
        errors, ends = getattr(fitted, f"{who}unit_errors_"), getattr(fitted, f"{who}unit_intervals_")
        lines = fitted.guarantee_.units.of_rule(name)
        for line, value, (low, high) in zip(lines, errors, ends, strict=True):
            np.testing.assert_array_equal((line.value, line.low, line.high), (value, low, high))
            if not np.isnan(low):
                assert re.search(rf"{value:.3f} +{low:.2f} to {high:.2f}", fitted.guarantee_.details)
    said = str(fitted.guarantee_.units)
    assert "selected on these rows" in said
    assert "refit" in said
    assert "refit" in fitted.guarantee_.units._repr_html_()


def test_rows_that_the_answering_members_were_judged_on_need_no_longer_arms(data):
    X, y, _ = data
    clf = tree_game().fit(X, y, X_val=X + 0.1 * np.random.default_rng(0).normal(size=X.shape), y_val=y)
    counts = [np.count_nonzero(y == name) for name in "abc"]
    for error, n, ends in zip(clf.unit_errors_, counts, clf.unit_intervals_, strict=True):
        assert tuple(ends) == pytest.approx(widened(error, n, 0.0), abs=LOTS)
    assert "refit" not in str(clf.guarantee_.units)


def test_intervals_survive_storing(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    for name in NAMES:
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))


def test_the_order_of_rows_does_not_count(data):
    X, y, _ = data
    order = np.random.default_rng(0).permutation(len(y))
    for settings in ({}, {"max_error": 0.3}):
        one, other = (tree_game(**settings).fit(X[rows], y[rows]) for rows in (order, np.arange(len(y))))
        for name in NAMES:
            np.testing.assert_allclose(getattr(other, name), getattr(one, name), atol=1e-6)


def test_groups_that_overlap(data):
    X, y, groups = data
    table = {"side": groups, "half": X[:, 1] > 0}
    for clf in (tree_game(), tb.GroupDROBoostClassifier(TREE, n_estimators=3, random_state=0)):
        clf.fit(X, y, groups=table)
        lines = clf.guarantee_.units.of_rule("predict").lines
        errors, ends = np.array([line.value for line in lines]), clf.unit_intervals_
        assert errors.shape == (4,)
        # Both columns tell the same rows apart: their errors, weighed by rows, are the same mean.
        wrong = [line.value * (table[line.unit[0]] == line.unit[1]).sum() for line in lines]
        assert sum(wrong[:2]) == pytest.approx(sum(wrong[2:]), abs=1e-6)
        assert ((ends[:, 0] <= errors) & (errors <= ends[:, 1])).all()


def test_a_class_without_rows_or_with_few_has_no_interval(data):
    X, y, _ = data
    rows = np.r_[np.flatnonzero(y == "a")[:60], np.flatnonzero(y == "b")[:8]]
    clf = tree_game().fit(X, y, X_val=X[rows] + 0.01, y_val=y[rows])
    assert np.isnan(clf.unit_intervals_).all(axis=1).tolist() == [False, True, True]
    assert np.isnan(clf.unit_errors_).tolist() == [False, False, True]
    assert "No interval for error by class of b: fewer than 10 rows" in str(clf.guarantee_.units)


def test_no_interval_for_rows_that_members_were_fitted_on(data):
    X, y, groups = data
    clf = tree_game(validation="train").fit(X, y)
    assert clf.unit_intervals_ is None
    assert clf.guarantee_.upper is None
    assert "No intervals: members were fitted on these rows" in str(clf.guarantee_.units)
    clf = tree_game().fit(X, y)
    assert clf.reweight(X[:100] + 0.01, y[:100]).unit_intervals_.shape == (3, 2)
    assert clf.reweight(objective="worst_group", groups=groups).unit_intervals_.shape == (2, 2)
    assert clf.reweight(alpha=0.5).unit_intervals_.shape == (3, 2)


def test_a_mixture_of_any_models(data):
    X, y, groups = data
    models = [("linear", LogisticRegression()), ("bayes", GaussianNB())]
    mix = tb.RobustMixtureClassifier(models, objective="worst_group", random_state=0)
    mix.fit(X, y, groups=groups)
    lines = mix.guarantee_.units.lines  # one member answers: the randomised rule is `predict`
    assert [line.unit for line in lines] == ["u", "v"]
    np.testing.assert_array_equal([line.value for line in lines], mix.unit_errors_)
    assert max(line.value for line in lines) == pytest.approx(mix.guarantee_.achieved, abs=1e-9)
    assert mix.guarantee_.upper == pytest.approx(mix.unit_intervals_[:, 1].max(), abs=1e-6)
    for error, name, ends in zip(mix.unit_errors_, "uv", mix.unit_intervals_, strict=True):
        assert tuple(ends) == pytest.approx(widened(error, int((groups == name).sum()), 0.015), abs=LOTS)
    P = {name: model.fit(X, y).predict_proba(X) for name, model in models}
    given = tb.RobustMixtureClassifier.from_probabilities(P, y)
    for error, name, ends in zip(given.unit_errors_, "abc", given.unit_intervals_, strict=True):
        assert tuple(ends) == pytest.approx(widened(error, int((y == name).sum()), 0.0), abs=LOTS)


def test_the_scale_of_weights_and_a_row_said_twice_do_not_count():
    X, y = make_classification(300, 5, random_state=0)
    P, other = LogisticRegression().fit(X, y).predict_proba(X), np.random.default_rng(0).random((300, 2))
    P = 0.7 * P + 0.3 * other / other.sum(axis=1, keepdims=True)

    def found(rows, weight):
        mix = tb.RobustMixtureClassifier.from_probabilities(
            {"m": P[rows]}, y[rows], sample_weight=weight, objective="error"
        )
        return mix.rates_.intervals()

    once = np.arange(300)
    np.testing.assert_allclose(found(once, np.full(300, 1e-3)), found(once, np.ones(300)))
    error, heavier = found(once, np.where(once < 50, 2.0, 1.0)), found(once, np.ones(300))
    assert np.ptp(error) > np.ptp(heavier)  # (Σ w)² / Σ w² rows


def test_intervals_cover_the_error_of_a_refit():
    """Errors by the models of folds differ from those of their refit by a standard deviation of .015."""
    rng, n, m, n_draws = np.random.default_rng(2), 600, 6, 300
    unit, y, covered = np.repeat(np.arange(m), n // m), np.arange(n) % 2, {True: 0, False: 0}
    rate, truth = rates.error(by="group"), 0.2
    for refit in covered:
        for _ in range(n_draws):
            counted = truth + 0.015 * refit * rng.normal(size=m)
            answers = np.where(rng.random(n) < counted[unit], 1 - y, y)
            rows = Answered.of(y, answers, groups={"group": unit})
            table = RateTable.counted([(rate, None)], rows.strata, rows.tally, "rows", refit=refit)
            low, high = table.intervals().T
            covered[refit] += ((low <= truth) & (truth <= high)).sum()
    for refit, count in covered.items():
        assert count / (m * n_draws) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / (m * n_draws)), refit
