"""Rules with draws: the standard error of their gain, their error on many rows, and a confidence."""

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull
from sklearn.metrics import roc_curve

import tailboost as tb
from tailboost import rates
from tailboost.core.exceptions import ConfidenceNotReachedWarning
from tailboost.selection.program import best_in_pool
from tailboost.selection.selected import Comparison

ODDS = [rates.gap(of(1, by="group")) <= 0.02 for of in (rates.miss, rates.false_alarm)]


def scored(n, seed, digits=8):
    random = np.random.default_rng(seed)
    group = (random.random(n) < 0.3).astype(int)
    p = 1 / (1 + np.exp(-1.2 * (random.normal(size=n) - 1.2 * group)))
    seen = p.round(digits)
    return np.column_stack([1 - seen, seen]), (random.random(n) < p).astype(int), group


def tuned(n, seed, digits=8, **params):
    P, y, group = scored(n, seed, digits)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = tb.tune(lambda X: X, P, y, groups=group, by_group=True, random_state=0, **params)
    return clf, caught


@pytest.mark.thinned(1)
@pytest.mark.parametrize("objective", ["error", "worst_class", rates.cost([[0, 1], [3, 0]])])
def test_the_standard_error_is_that_of_the_bootstrap(objective):
    """Rows are drawn anew, and both rules are measured on them."""
    clf, _ = tuned(800, 3, limits=ODDS, objective=objective)
    compared, data = clf.selection_.rule.compared, clf.selection_.engine.data
    pool, program = compared.pool, compared.program
    mixture = Comparison(pool, program, best_in_pool(pool, program, randomized=True))
    drawn = mixture.selection
    each = [data.actions(pool.candidates[i]) for i in drawn.numbers]
    own = data.actions(pool.candidates[int(compared.selection.numbers[0])])
    shares = list(zip(drawn.weights, each, strict=True))

    def value(rules, weights):
        counts = np.zeros_like(compared.selection.counts)
        for share, actions in rules:
            np.add.at(counts, (data.stratum, actions), share * weights)
        return program.value(counts)

    resampled = np.random.default_rng(0).multinomial(800, np.full(800, 1 / 800), size=2000) / 800
    differences = [value([(1.0, own)], weights) - value(shares, weights) for weights in resampled]
    # For the largest of several rates the result is an upper end.
    most = 1.6 if objective == "worst_class" else 1.15
    assert 0.85 < compared.error_of_difference(mixture) / np.std(differences) < most


def three_groups(n):
    """Return scores of three groups with label noise of different size, as in error-parity's example."""
    random = np.random.default_rng(23)
    noise = [0.1 + 0.3 * random.random() / (1 + i) for i in range(3)]
    p, group = random.random(n), random.integers(3, size=n)
    y = (p + np.array(noise)[group] * random.normal(size=n) > 0.75).astype(int)
    return p, y, group


def least_error_of_draws(p, y, group, most):
    """Return the least error of thresholds and draws within odds gaps, by a program over ROC hulls."""
    corners, rows, n_groups = [], [], int(group.max()) + 1
    for k in range(n_groups):
        false_alarms, hits, _ = roc_curve(y[group == k], p[group == k])
        curve = np.column_stack([false_alarms, hits])
        corners.append(curve[ConvexHull(curve).vertices])
        rows += [k] * len(corners[-1])
    points, of = np.concatenate(corners), np.eye(n_groups)[rows]
    share = np.array([[np.mean((group == k) & (y == label)) for label in (0, 1)] for k in range(n_groups)])
    cost = (share[rows] * [1, -1] * points).sum(axis=1)
    rates_of = [of.T * points[:, j] for j in (0, 1)]
    gaps = [one - two for rate in rates_of for one in rate for two in rate]
    found = linprog(cost, A_ub=gaps, b_ub=[most] * len(gaps), A_eq=of.T, b_eq=np.ones(n_groups))
    return found.fun + y.mean()


def test_draws_on_many_rows_come_near_the_least_error():
    """Candidates are made on a sample of the rows, and the score is no probability."""
    p, y, group = three_groups(100_000)
    limits = [rates.gap(of(1, by="group")) <= 0.05 for of in (rates.miss, rates.false_alarm)]
    P = np.column_stack([1 - p, p])
    clf = tb.tune(lambda X: X, P, y, groups=group, by_group=True, randomized=True, limits=limits)
    least = least_error_of_draws(p, y, group, 0.05)
    assert least - 1e-9 <= clf.selection_.rule.selection.value <= least + 5e-4


def test_draws_may_reach_a_confidence():
    clf, caught = tuned(2000, 1, limits=ODDS[:1], confidence=0.9, randomized=True)
    reached = not any(issubclass(w.category, ConfidenceNotReachedWarning) for w in caught)
    assert reached == (clf.limits_probability_ >= 0.9)
