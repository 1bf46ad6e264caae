"""An error budget is absolute: the least error plus the budget, by brute force and a generic solver.

The least errors here are about .3, so .3 + .05 is far from .3 × 1.05.
"""

from functools import partial

import numpy as np
import pytest

import tailboost as tb

SHARES = np.array([0.05, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.55, 0.6, 0.7])
BUDGETS = [0.0, 0.02, 0.04, 0.06]


def exact(noise=0.0):
    """Return scores and labels; of the 20 rows at each score exactly this share has the label 1."""
    s = np.repeat(SHARES, 20)
    y = np.concatenate([np.arange(20) < round(20 * p) for p in SHARES]).astype(int)
    return (s + noise * np.random.default_rng(0).normal(size=len(s)))[:, None], y


def errors_of(answers, y, weight):
    """Return the overall error and the largest error of a class."""
    wrong = (answers != y).astype(float)
    worst = max(np.average(wrong[y == k], weights=weight[y == k]) for k in np.unique(y))
    return np.average(wrong, weights=weight), worst


def of_thresholds(X, y, weight):
    """Return both errors of each threshold, shape (2, m)."""
    thresholds = np.r_[0.0, np.unique(X[:, 0])]
    return np.array([errors_of((X[:, 0] > t).astype(int), y, weight) for t in thresholds]).T


WEIGHTS = {"even": np.ones(220), "weights": np.tile([1.0, 3.0], 110)}


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("way", ["tune", "reweight", "reweight rows", "given probabilities"])
def test_one_rule_has_the_least_worst_error_within_the_least_error_plus_the_budget(way, weight):
    X, y = exact()
    overall, worst = of_thresholds(X, y, weight)
    P = np.column_stack([1 - X, X])
    differ = 0
    for budget in BUDGETS:
        given = {"error_budget": budget}
        if way == "tune":
            rule = tb.tune(tb.Scores(0, 1), X, y, sample_weight=weight, **given)
        elif way == "reweight":
            rule = tb.tune(tb.Scores(0, 1), X, y, sample_weight=weight).reweight(**given)
        elif way == "reweight rows":
            first = tb.tune(tb.Scores(0, 1), X[::3], y[::3])
            rule = first.reweight(X, y, sample_weight=weight, **given)
        else:
            rule = tb.RobustMixtureClassifier.from_probabilities({"p": P}, y, sample_weight=weight, **given)
        answers = rule.predict({"p": P} if way == "given probabilities" else X)
        error, found = errors_of(answers, y, weight)
        assert error <= overall.min() + budget + 1e-9
        assert found == pytest.approx(worst[overall <= overall.min() + budget + 1e-9].min())
        differ += found < worst[overall <= overall.min() * (1 + budget) + 1e-9].min() - 0.05
    assert differ >= 3  # budgets at which another reading has another rule


@pytest.mark.parametrize(("limits", "budget", "seed"), [
    (["precision(1) >= 40%", "miss(1) <= 37%"], 0.06, 4),
    (["miss(1) <= 37%"], 0.06, 4),
    (["miss(1) <= 30%", "error() <= 45%"], 0.05, 3),  # sequences of thresholds alone would go beyond
])  # fmt: skip
def test_certified_rules_are_within_the_budget_on_the_selection_data(limits, budget, seed):
    """Also where thresholds at ranks or in sequences would answer without a budget."""
    X, y = exact(noise=1e-3)
    rng = np.random.default_rng(seed)
    s = rng.choice(SHARES, 4000)
    new, labels = (s + 1e-3 * rng.normal(size=4000))[:, None], (rng.random(4000) < s).astype(int)
    likeliest, _ = errors_of((X[:, 0] > 0.5).astype(int), y, np.ones(220))
    tuned = tb.tune(tb.Scores(0, 1), X, y, error_budget=budget)
    rule = tb.calibrate(tuned, new, labels, limits=limits)
    error, _ = errors_of(rule.predict(X), y, np.ones(220))
    assert likeliest * (1 + budget) < error <= likeliest + budget


def test_a_curve_of_two_rates_has_both_ends_whichever_is_limited():
    """On one score the least worst error of a class, limited, is at most that of the other way."""
    rng = np.random.default_rng(0)
    p = rng.random(600)
    y = (rng.random(600) < p**2).astype(int)
    worst, tuned = 'largest(error(by="class"))', partial(tb.tune, tb.Scores(0, 1), p[:, None], y)
    limited = tuned().tradeoff(worst, "error").values
    objective = tuned().tradeoff("error", worst).values
    assert limited[0].min() <= objective[1].min() + 1e-9
    assert len(limited[0]) > 3
    budgeted = tuned(error_budget=0.0).tradeoff("error", worst).values  # a traded error has no budget
    np.testing.assert_array_equal(budgeted, objective)
