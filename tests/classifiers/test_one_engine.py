"""One engine: models and boosting are selected, reweighted and traced by the same methods."""

import copy

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import rates
from tailboost.classifiers.base import MixtureClassifier

TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


def noisy(n=240, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return np.eye(3)[y] + rng.normal(size=(n, 3)), y


X, Y = noisy()


@pytest.fixture(scope="module")
def boosted():
    return tb.WorstClassBoostClassifier(TREE, n_estimators=5, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def tuned():
    return tb.tune(GaussianNB().fit(X[:120], Y[:120]), X[120:], Y[120:])


def test_methods_of_boosting_are_defined_once(boosted):
    for name in ("reweight", "tradeoff", "rates_", "summary_", "objective_"):
        assert getattr(type(boosted), name) is getattr(MixtureClassifier, name)


@pytest.mark.parametrize("kind", ["boosted", "tuned"])
def test_a_selection_by_the_same_problem_is_the_same_rule(kind, request):
    classifier = request.getfixturevalue(kind)
    again = classifier.reweight()
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
    assert again.objective_ == classifier.objective_


def test_hypotheses_within_limits_against_a_generic_solver(boosted):
    """The randomised rule has the least overall error within a limit on a miss rate."""
    pool = boosted.selection_.pool
    wrong = pool.losses.toarray()
    errors, misses = wrong.mean(axis=1), wrong[:, pool.rows.y == 1].mean(axis=1)
    limit = float(np.quantile(misses, 0.3))
    T = len(errors)
    best = linprog(errors, misses[None], [limit], np.ones((1, T)), [1.0], [(0, None)] * T).fun
    mixed = boosted.reweight(objective="error", limits=[rates.miss(1) <= limit])
    weights = mixed.estimator_weights_
    predicted = pool.shares(mixed.ensemble_).argmax(axis=1)
    line = next(line for line in mixed.rates_ if line.limit)
    assert line.value == pytest.approx((predicted != pool.rows.y)[pool.rows.y == 1].mean(), abs=1e-12)
    assert mixed.limits_met_ is (line.value <= limit + 1e-12)
    assert mixed.limits_met_  # `predict` keeps the limit, so λ may be tighter than the best mixture
    assert weights @ misses <= limit + 1e-6
    assert weights @ errors >= best - 1e-6


def test_limits_that_no_hypothesis_keeps_are_named(boosted):
    limits = [rates.selected(1) >= 0.9, rates.selected(0) >= 0.9]
    with pytest.warns(tb.BoundNotMetWarning, match="violated"):
        mixed = boosted.reweight(objective="error", limits=limits)
    assert mixed.limits_met_ is False


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limits": ["miss(1) <= .3"], "objective": tb.CVaR(0.5)}, "meaning"),
        ({"limits": ["deferred() <= .1"]}, "hypothesis"),
        ({"confidence": 0.9}, "confidence"),
        ({"X": X, "y": Y, "costs": np.ones((240, 3))}, "boosting"),
    ],
)
def test_what_boosting_does_not_have_is_refused(boosted, given, words):
    with pytest.raises(ValueError, match=words):
        boosted.reweight(**given)


def test_a_curve_by_deferral_needs_models(boosted, tuned):
    with pytest.raises(ValueError, match="hypothesis"):
        boosted.tradeoff(deferred=[0.0, 0.1])
    assert list(tuned.tradeoff(deferred=[0.0, 0.1], n_points=3)) == [0.0, 0.1]


@pytest.mark.parametrize("kind", ["boosted", "tuned"])
def test_the_overall_error_as_objective_reports_the_classes(kind, request):
    """The subgroups are the classes if no rate of the problem has subgroups."""
    found = request.getfixturevalue(kind).reweight(objective="error")
    assert list(found.subgroup_errors_) == [0, 1, 2]
    assert f"Worst class: {max(found.subgroup_errors_, key=found.subgroup_errors_.get)}" in str(
        found.summary_
    )
    assert found.objective_ == rates.Objective.from_expression(rates.error())


def test_a_curve_of_a_cvar_knows_its_gap(boosted):
    """The curve has all corners of a piecewise linear function, up to this gap."""
    curve = boosted.reweight(objective=tb.CVaR(0.4)).tradeoff()
    assert 0.0 <= curve.gap <= 1e-3
    assert (np.diff(curve.values.limited) > 0).all()


def test_the_mixture_of_a_cvar_also_counts(boosted):
    """One mixture has losses by row and confusion counts; both against loops over the rows."""
    tail = boosted.reweight(objective=tb.CVaR(0.4))
    mixture, weights = tail.selection_, tail.estimator_weights_
    pool = mixture.pool
    counts, losses = np.zeros((3, 3)), np.zeros(len(pool.rows.y))
    for member, weight in enumerate(weights):
        for row, (label, answer) in enumerate(zip(pool.rows.y, pool.answer(member), strict=True)):
            counts[label, answer] += weight / len(losses)
            losses[row] += weight * (label != answer)
    np.testing.assert_allclose(mixture.mixed(weights), counts, atol=1e-12)
    worst = np.sort(losses)[::-1][: round(0.4 * len(losses))]
    assert mixture.value(weights) == pytest.approx(worst.mean(), abs=1e-2)  # 0.4 n need not be a whole number
    np.testing.assert_allclose(tail.expected_subgroup_errors_, 1 - counts.diagonal() / counts.sum(axis=1))


def test_a_curve_of_rates_keeps_the_error_budget_of_a_cvar(boosted):
    tail = boosted.reweight(objective=tb.CVaR(0.4), error_budget=0.02)
    errors = tail.selection_.pool.mean_losses
    curve = tail.tradeoff(rates.miss(1), rates.miss(2), n_points=4)
    for point in curve.points:
        assert point.classifier.estimator_weights_ @ errors <= errors.min() + 0.02 + 1e-6


def test_a_parameter_set_after_the_fit_changes_no_curve(tuned):
    fitted = copy.copy(tuned)
    before = fitted.tradeoff(n_points=3)
    fitted.set_params(objective="error", limits=["miss(1) <= .2"])
    after = fitted.tradeoff(n_points=3)
    assert str(after) == str(before)
