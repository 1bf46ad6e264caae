"""Intervals for the errors of classes, groups and cells on new rows."""

import pickle
import warnings

import numpy as np
import pytest
from conftest import errors_of
from scipy.stats import binomtest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates
from tailboost.boosting.game import RoundCandidate
from tailboost.boosting.pool import JudgedPool
from tailboost.learners import HistTreeClassifier
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.hypotheses import rule_of
from tailboost.selection.mixture import Counts, Mixture
from tailboost.selection.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TREE = HistTreeClassifier(max_depth=3)
# Two of several hundred rows may have one of 65,536 hashes in common and count once.
LOTS = 5e-3


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(400, 8, n_informative=4, n_classes=3, weights=[0.7, 0.2, 0.1], random_state=0)
    return X, np.array(["a", "b", "c"])[y], np.where(X[:, 0] > 0, "u", "v")


def expected_intervals(clf):
    """Return the intervals of the randomised rule, shape (m, 2)."""
    return np.array([(line.low, line.high) for line in clf.summary_.errors.of_rule("randomised")])


def both_intervals(clf):
    """Return the intervals of `predict` and of the randomised rule."""
    return clf.subgroup_intervals_, expected_intervals(clf)


def worst_class(**settings):
    return tb.WorstClassBoostClassifier(GaussianNB(), n_estimators=5, random_state=0, **settings)


def tree_game(**settings):
    """Fit with a fast learner."""
    return tb.WorstClassBoostClassifier(TREE, n_estimators=3, random_state=0, **settings)


FITS = {
    "mixture": ({}, False),
    "budget": ({"error_budget": 0.01}, False),
    "vote": ({"max_error": 0.9}, False),
    "cells": ({"subgroups": "cell"}, True),
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
    rows = fitted.selection_.pool.rows
    counts = np.bincount(rows.groups, minlength=len(fitted.subgroup_errors_))
    for errors, ends in (
        (errors_of(fitted), fitted.subgroup_intervals_),
        (fitted.expected_subgroup_errors_, expected_intervals(fitted)),
    ):
        assert ends.shape == (len(counts), 2)
        known = ~np.isnan(ends[:, 0])
        assert (known == (counts >= 10)).all()
        assert ((ends[:, 0] <= errors) & (errors <= ends[:, 1]))[known].all()
    for error, n, (low, high) in zip(errors_of(fitted), counts, fitted.subgroup_intervals_, strict=True):
        if n >= 10:  # distinct rows of equal weight
            more = fitted.selection_.refit_spread
            assert more >= 0.015
            assert (low, high) == pytest.approx(widened(error, int(n), more), abs=LOTS)


def test_intervals_are_what_the_table_shows(fitted):
    for name, ends in zip(("predict", "randomised"), both_intervals(fitted), strict=True):
        errors = errors_of(fitted) if name == "predict" else fitted.expected_subgroup_errors_
        lines = fitted.summary_.errors.of_rule(name)
        for line, value, (low, high) in zip(lines, errors, ends, strict=True):
            np.testing.assert_array_equal((line.value, line.low, line.high), (value, low, high))
            if not np.isnan(low):
                assert line.interval_text in fitted.summary_.details
                printed = [float(end) for end in line.interval_text.split(" to ")]
                assert printed[0] <= low < high <= printed[1]  # rounded outwards
                assert printed == pytest.approx([low, high], abs=0.01)
    said = str(fitted.summary_.errors)
    assert "refit" in said
    assert "refit" in fitted.summary_.errors._repr_html_()


def test_rows_that_the_answering_members_were_judged_on_need_no_longer_arms(data):
    X, y, _ = data
    clf = tree_game().fit(X, y, X_val=X + 0.1 * np.random.default_rng(0).normal(size=X.shape), y_val=y)
    counts = [np.count_nonzero(y == name) for name in "abc"]
    for error, n, ends in zip(errors_of(clf), counts, clf.subgroup_intervals_, strict=True):
        assert tuple(ends) == pytest.approx(widened(error, n, 0.0), abs=LOTS)
    assert "refit" not in str(clf.summary_.errors)


def test_intervals_survive_storing(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    for stored, ends in zip(both_intervals(again), both_intervals(fitted), strict=True):
        np.testing.assert_array_equal(stored, ends)


def test_the_order_of_rows_does_not_count(data):
    X, y, _ = data
    order = np.random.default_rng(0).permutation(len(y))
    for settings in ({}, {"max_error": 0.3}):
        one, other = (tree_game(**settings).fit(X[rows], y[rows]) for rows in (order, np.arange(len(y))))
        for shuffled, ends in zip(both_intervals(one), both_intervals(other), strict=True):
            np.testing.assert_allclose(ends, shuffled, atol=1e-6)


def test_groups_that_overlap(data):
    X, y, groups = data
    table = {"side": groups, "half": X[:, 1] > 0}
    for clf in (tree_game(), tb.GroupDROBoostClassifier(TREE, n_estimators=3, random_state=0)):
        clf.fit(X, y, groups=table)
        randomised = clf.summary_.errors.of_rule("randomised")
        errors, ends = np.array([line.value for line in randomised]), expected_intervals(clf)
        assert errors.shape == (4,)
        # Both columns partition the same rows: the weighted means agree.
        columns = [table[name] for name in sorted(table)]  # the order of subgroups_
        n = np.array([(column == value).sum() for column in columns for value in np.unique(column)])
        assert errors[:2] @ n[:2] == pytest.approx(errors[2:] @ n[2:], abs=1e-6)
        assert ((ends[:, 0] <= errors) & (errors <= ends[:, 1])).all()


def test_a_class_without_rows_or_with_few_has_no_interval(data):
    X, y, _ = data
    rows = np.r_[np.flatnonzero(y == "a")[:60], np.flatnonzero(y == "b")[:8]]
    clf = tree_game().fit(X, y, X_val=X[rows] + 0.01, y_val=y[rows])
    assert np.isnan(clf.subgroup_intervals_).all(axis=1).tolist() == [False, True, True]
    assert np.isnan(errors_of(clf)).tolist() == [False, False, True]


def test_no_interval_for_rows_that_members_were_fitted_on(data):
    X, y, groups = data
    clf = tree_game(cv="train").fit(X, y)
    assert np.isnan(clf.subgroup_intervals_).all()
    assert clf.summary_.upper is None
    words = "No intervals: models were trained on these rows, so errors on new rows are usually larger."
    assert str(clf.summary_).count(words) == 1
    clf = tree_game().fit(X, y)
    assert clf.reweight(X[:100] + 0.01, y[:100]).subgroup_intervals_.shape == (3, 2)
    assert clf.reweight(objective="worst_group", groups=groups).subgroup_intervals_.shape == (2, 2)
    assert clf.reweight(alpha=0.5).subgroup_intervals_.shape == (3, 2)


def test_a_mixture_of_any_models(data):
    X, y, groups = data
    models = [("linear", LogisticRegression()), ("bayes", GaussianNB())]
    mix = tb.RobustMixtureClassifier(models, objective="worst_group", random_state=0)
    mix.fit(X, y, groups=groups)
    lines = mix.summary_.errors.lines  # one member answers: the randomised rule is `predict`
    assert [line.subgroup for line in lines] == ["u", "v"]
    np.testing.assert_array_equal([line.value for line in lines], errors_of(mix))
    assert max(line.value for line in lines) == pytest.approx(mix.summary_.achieved, abs=1e-9)
    assert mix.summary_.upper == pytest.approx(mix.subgroup_intervals_[:, 1].max(), abs=1e-6)
    for error, name, ends in zip(errors_of(mix), "uv", mix.subgroup_intervals_, strict=True):
        assert tuple(ends) == pytest.approx(widened(error, int((groups == name).sum()), 0.015), abs=LOTS)
    P = {name: model.fit(X, y).predict_proba(X) for name, model in models}
    given = tb.RobustMixtureClassifier.from_probabilities(P, y)
    for error, name, ends in zip(errors_of(given), "abc", given.subgroup_intervals_, strict=True):
        assert tuple(ends) == pytest.approx(widened(error, int((y == name).sum()), 0.0), abs=LOTS)


def table_of(rows, wrong, m):
    """Errors by group of one candidate with some errors."""
    pool = JudgedPool(rows, 2).adding(RoundCandidate(None, wrong, np.where(wrong, 1 - rows.y, rows.y)))
    counts = Counts(rows, np.arange(2), GroupNames((np.arange(m),)))
    of_group = rates.Objective.from_expression(rates.largest(rates.error(by="group")))
    mixture = Mixture(Problem(of_group, randomized=True), pool, counts)
    return rule_of(mixture, pool.rule(np.ones(1))).errors


def test_the_scale_of_weights_and_a_row_said_twice_do_not_count():
    rng = np.random.default_rng(0)
    n, m = 300, 4
    unit, wrong, lots = rng.integers(m, size=n), rng.random(n) < 0.4, rng.permutation(n).astype(np.uint16)

    def found(twice, weight):
        rows = Rows(np.zeros(len(twice), int), weight, unit[twice], "rows", lots[twice])
        return table_of(rows, wrong[twice], m).intervals()

    once, again = np.arange(n), np.r_[np.arange(n), np.arange(50)]
    heavier = np.where(once < 50, 2.0, 1.0)
    np.testing.assert_allclose(found(once, np.full(n, 1e-3)), found(once, np.ones(n)))
    np.testing.assert_allclose(found(again, np.ones(len(again))), found(once, heavier))


@pytest.mark.slow
def test_intervals_cover_the_error_of_a_refit():
    """Errors of fold models and of the refit differ by a standard deviation of .015."""
    rng, n, m, n_draws = np.random.default_rng(2), 600, 6, 300
    unit, covered = np.repeat(np.arange(m), n // m), {True: 0, False: 0}
    for refit in covered:
        fold = (np.arange(n) % 5).astype(np.uint8) if refit else None
        rows = Rows(np.zeros(n, int), np.ones(n), unit, "rows", refit=refit, fold=fold)
        for _ in range(n_draws):
            answers = np.full(m, 0.2)
            counted = answers + 0.015 * refit * rng.normal(size=m)
            low, high = table_of(rows, rng.random(n) < counted[unit], m).intervals().T
            covered[refit] += ((low <= answers) & (answers <= high)).sum()
    for refit, count in covered.items():
        assert count / (m * n_draws) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / (m * n_draws)), refit
    # One held-out part gives no variance of refits.
    held_out = Rows(np.zeros(n, int), np.ones(n), unit, "rows", refit=True)
    table = table_of(held_out, rng.random(n) < 0.2, m)
    assert np.isnan(table.intervals()).all()
    assert any("does not show how they differ" in note for note in table.notes)
