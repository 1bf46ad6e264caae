"""What is said of each class, group or cell on rows that the choice was not made on."""

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
from tailboost.confidence import clopper_pearson_interval
from tailboost.data import Rows
from tailboost.learners import HistTreeClassifier
from tailboost.statements.two_fold import TwoFoldEstimate, fold_correlation

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TREE = HistTreeClassifier(max_depth=3)
NAMES = ("unit_estimates_", "unit_intervals_", "expected_unit_estimates_", "expected_unit_intervals_")


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


# -- the estimate ------------------------------------------------------------------------------------------


def test_each_half_is_judged_by_the_choice_on_the_other(fitted):
    combiner = fitted.combiner_
    ledger, answers = combiner.pool.ledger, np.array(combiner.pool.answers)
    half, truth = ledger.rows.halves(), ledger.rows.y
    wrong, drawn = np.full(len(truth), np.nan), np.full(len(truth), np.nan)
    for chosen_on in (half, ~half):
        weights = combiner.part(chosen_on).stage(combiner.pool.n_rounds).weights
        shares = np.stack([weights @ (answers == k) for k in range(3)], axis=1)
        first, second = -np.sort(-shares, axis=1)[:, :2].T
        there = ~chosen_on
        drawn[there] = 1 - shares[there, truth[there]]
        clear = there & (first - second > 1e-6)  # ties are settled by the member with the least mean loss
        wrong[clear] = shares[clear].argmax(axis=1) != truth[clear]
    for u in range(len(fitted.units_)):
        inside = ledger.rows.groups == u
        assert fitted.expected_unit_estimates_[u] == pytest.approx(drawn[inside].mean(), abs=1e-9)
        least, most = (
            np.nan_to_num(wrong, nan=0.0)[inside].mean(),
            np.nan_to_num(wrong, nan=1.0)[inside].mean(),
        )
        assert least - 1e-9 <= fitted.unit_estimates_[u] <= most + 1e-9
    assert fitted.guarantee_.estimate == pytest.approx(combiner.objective.of_losses(ledger, drawn), abs=1e-9)


def test_a_half_chooses_by_its_own_rows_alone(fitted):
    combiner = fitted.combiner_
    rows = combiner.pool.ledger.rows
    half, n = rows.halves(), combiner.pool.n_rounds
    everything = combiner.part(np.ones(len(rows.y), dtype=bool)).stage(n)
    np.testing.assert_array_equal(everything.weights, combiner.stage(n).weights)
    own = combiner.part(half)
    assert own.pool.ledger.rows.y.tolist() == rows.y[half].tolist()
    chosen = own.stage(n).weights
    # No better choice was to be had there (by what the choice goes by: errors drawn towards their mean).
    if not own.voting:
        steering = own.objective.steering_losses(own.pool.ledger)
        if own.mean_budget is None:
            assert (chosen @ steering).max() <= steering.max(axis=1).min() + 1e-9
    else:
        assert own.results[np.count_nonzero(chosen) - 1] == min(own.results)


def test_intervals_hold_the_estimate_and_are_what_the_table_shows(fitted):
    for who, name in (("", "predict"), ("expected_", "randomised")):
        estimate, ends = getattr(fitted, f"{who}unit_estimates_"), getattr(fitted, f"{who}unit_intervals_")
        assert ends.shape == (len(fitted.units_), 2)
        assert ((ends[:, 0] <= estimate) & (estimate <= ends[:, 1])).all()
        for line, value, (low, high) in zip(
            fitted.guarantee_.units.of_rule(name), estimate, ends, strict=True
        ):
            assert (line.estimate, line.low, line.high) == (value, low, high)
            assert re.search(rf"{value:.3f} +{low:.2f} to {high:.2f}", fitted.guarantee_.details)
    assert "not a certificate" in str(fitted.guarantee_.units)
    assert "not a certificate" in fitted.guarantee_.units._repr_html_()


def test_estimates_survive_storing(fitted):
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
        estimate, ends = clf.expected_unit_estimates_, clf.expected_unit_intervals_
        assert estimate.shape == (4,)
        # Both columns tell the same rows apart: their errors, weighed by rows, are the same mean.
        n = np.array([(column == value).sum() for column in table.values() for value in np.unique(column)])
        assert estimate[:2] @ n[:2] == pytest.approx(estimate[2:] @ n[2:], abs=1e-6)
        assert ((ends[:, 0] <= estimate) & (estimate <= ends[:, 1])).all()


def test_a_class_without_a_row_is_not_estimated(data):
    X, y, _ = data
    known = np.flatnonzero(y != "c")[:120]
    clf = tree_game().fit(X, y, X_val=X[known] + 0.01, y_val=y[known])  # rows of the fit give no estimate
    assert np.isnan(clf.unit_estimates_).tolist() == [False, False, True]
    assert np.isnan(clf.unit_intervals_[2]).all()
    assert not np.isnan(clf.expected_unit_estimates_[:2]).any()


def test_no_estimate_where_nothing_was_chosen_or_it_is_not_known(data):
    X, y, groups = data
    assert tree_game(validation="train").fit(X, y).unit_estimates_ is None
    even = tb.GroupDROBoostClassifier(TREE, n_estimators=2, combine="average", random_state=0)
    assert even.fit(X, y).expected_unit_estimates_ is None
    clf = tree_game().fit(X, y)
    assert clf.reweight(X[:100] + 0.01, y[:100]).unit_estimates_ is None  # answers there are not kept
    assert clf.reweight(objective="worst_group", groups=groups).unit_estimates_ is None  # other units
    assert clf.reweight(alpha=0.5).unit_estimates_.shape == (3,)
    mixture = tb.GroupDROBoostClassifier(TREE, n_estimators=2, random_state=0).fit(X, y, groups=groups)
    assert mixture.unit_estimates_ is None  # `predict` alone is not known
    assert mixture.expected_unit_estimates_.shape == (2,)


def test_a_mixture_of_any_models(data):
    X, y, groups = data
    models = [("linear", LogisticRegression()), ("bayes", GaussianNB())]
    mix = tb.RobustMixtureClassifier(models, objective="worst_group", random_state=0)
    mix.fit(X, y, groups=groups)
    lines = mix.guarantee_.units.lines  # one member answers: what is drawn is what predict answers
    assert [line.unit for line in lines] == ["u", "v"]
    np.testing.assert_array_equal([line.value for line in lines], mix.unit_errors_)
    assert max(line.value for line in lines) == pytest.approx(mix.guarantee_.achieved, abs=1e-9)
    assert (mix.unit_intervals_[:, 0] <= mix.unit_estimates_).all()
    assert (mix.unit_intervals_[:, 1] >= mix.unit_estimates_).all()
    assert mix.reweight(alpha=0.3).unit_estimates_ is None
    P = {name: model.fit(X, y).predict_proba(X) for name, model in models}
    assert tb.RobustMixtureClassifier.from_probabilities(P, y).unit_estimates_.shape == (3,)


# -- how far models of different folds differ --------------------------------------------------------------


def rows_of(n, fold):
    return Rows(np.zeros(n, dtype=int), np.ones(n), None, "rows", fold=fold.astype(np.uint8))


@pytest.mark.parametrize("rho", [0.0, 0.05, 0.2])
def test_the_correlation_within_folds_is_found(rho):
    """Beta-binomial errors: that of a unit under a model is drawn, then those of its rows."""
    rng, n, m = np.random.default_rng(1), 2_000, 20
    fold, unit = np.arange(n) % 5, rng.integers(m, size=n)
    rows, found = rows_of(n, fold), []
    for _ in range(40):
        p = np.full((m, 5), 0.3)
        if rho:
            p = rng.beta(0.3 * (1 / rho - 1), 0.7 * (1 / rho - 1), size=(m, 5))
        found.append(fold_correlation(rows, unit, m, rng.random(n) < p[unit, fold]))
    # At 0 half of the estimates are cut off there.
    assert np.mean(found) == pytest.approx(rho, abs=0.15 * rho + 0.004)


def test_the_scale_of_weights_and_a_row_said_twice_do_not_count():
    rng = np.random.default_rng(0)
    n, m = 300, 4
    unit, fold, wrong = rng.integers(m, size=n), np.arange(n) % 5, rng.random(n) < 0.4
    half, lots = rng.random(n) < 0.5, rng.permutation(n).astype(np.uint16)

    def found(twice, weight):
        rows = Rows(
            np.zeros(len(twice), int), weight, None, "rows", lots[twice], fold=fold[twice].astype(np.uint8)
        )
        seen = wrong[twice]
        estimate = TwoFoldEstimate(rows, half[twice], seen.astype(float), seen)
        return estimate.of_units(unit[twice], m)["predict"]

    once, again = np.arange(n), np.r_[np.arange(n), np.arange(50)]
    heavier = np.where(once < 50, 2.0, 1.0)
    np.testing.assert_allclose(found(once, np.full(n, 1e-3)), found(once, np.ones(n)))
    np.testing.assert_allclose(found(again, np.ones(len(again))), found(once, heavier))


def test_intervals_cover_the_error_of_another_model_like_those_measured():
    """Each of three Clopper–Pearson intervals covers 95 %, so does their hull; by ρ a new model's too."""
    rng, n, m, n_draws = np.random.default_rng(2), 600, 6, 150
    fold, unit = np.arange(n) % 5, np.repeat(np.arange(m), n // m)
    half = rng.permutation(n) % 2 == 0
    covered = {0.0: 0, 0.1: 0}
    for rho in covered:
        for _ in range(n_draws):
            p = np.full((m, 6), 0.2)  # by the models of five folds and the one that stays
            if rho:
                p = rng.beta(0.2 * (1 / rho - 1), 0.8 * (1 / rho - 1), size=(m, 6))
            wrong = rng.random(n) < p[unit, fold]
            found = TwoFoldEstimate(rows_of(n, fold), half, wrong.astype(float), wrong)
            ends = found.of_units(unit, m)["predict"][:, 1:]
            covered[rho] += ((ends[:, 0] <= p[:, 5]) & (p[:, 5] <= ends[:, 1])).sum()
    assert covered[0.0] / (m * n_draws) >= 0.95
    # The distribution of a model's error is no binomial's: by a normal one it would be 95 % as well.
    assert covered[0.1] / (m * n_draws) >= 0.93
