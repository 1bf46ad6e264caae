"""Gap and ratio: one table of what they are, against direct computations."""

from itertools import permutations

import numpy as np
import pytest

import tailboost as tb
from tailboost import rates
from tailboost.rates.limit import COMPARISONS, GAP, RATIO, SIGNS

DIRECT = {
    GAP: lambda values: max(values) - min(values),
    RATIO: lambda values: min(values) / max(values) if max(values) > 0 else 1.0,
}


def limit_of(form, bound):
    """Return the limit on a comparison of the errors of groups."""
    spread = getattr(rates, form)(rates.error(by="group"))
    return spread <= bound if form == GAP else spread >= bound


@pytest.mark.parametrize("form", COMPARISONS)
def test_a_limit_is_kept_if_all_pairs_keep_it(form):
    rng = np.random.default_rng(0)
    for bound in rng.random(40):
        limit = limit_of(form, float(bound))
        values = rng.choice([0.0, 0.2, 0.5, 1.0], 3) * rng.random(3)
        a, c = limit.factor_and_gap
        pairs_keep = all(a * values[i] - values[j] <= c for i, j in permutations(range(3), 2))
        names = ["x", "y", "z"]
        assert limit.value(values) == DIRECT[form](values)
        assert limit.keeps(limit.value(values), limit.bound) == pairs_keep
        beyond = SIGNS[limit.sense] * (values - limit.levels(names))
        assert (limit.violation(beyond) == 0) == pairs_keep
        deviations = [[np.hypot(a * one, other) for other in values] for one in values]
        np.testing.assert_allclose(limit.deviations(values**2), deviations)


@pytest.mark.parametrize("form", COMPARISONS)
@pytest.mark.parametrize("m", [1, 2, 4])
def test_bounds_hold_for_all_rates_within_their_bounds_and_are_reached(form, m):
    rng = np.random.default_rng(m)
    lower = rng.random(m) * rng.integers(2, size=m)
    upper = lower + (1 - lower) * rng.random(m)
    low, high = limit_of(form, 0.5).interval(lower, upper)
    inside = lower + (upper - lower) * rng.random((20_000, m)) ** rng.choice([0.05, 1, 20], (20_000, m))
    values = [DIRECT[form](row) for row in inside]
    assert low <= min(values) <= max(values) <= high
    assert max(values) - min(values) >= 0.8 * (high - low)


def test_a_ratio_of_costs_with_a_gain_is_refused_in_every_step_and_its_gap_is_served():
    """By its formula, the ratio of the costs −.5 and 1 is −.5, and that of −1 and −.5 is 1."""
    assert [DIRECT[RATIO](values) for values in ((-0.5, 1.0), (-1.0, -0.5))] == [-0.5, 1.0]
    rng = np.random.default_rng(0)
    score, g = rng.random(400), {"g": rng.choice(["a", "b"], 400)}
    X, y = score[:, None], (rng.random(400) < score).astype(int)
    by_row = np.column_stack([y, -y]).astype(float)
    paid, cost = rates.cost([[0, 1], [5, -1]], by="g"), rates.cost(by="g")
    assert (rates.gap(paid).loosest, (paid <= 1).loosest) == (6.0, 5.0)  # the range, and the largest
    assert (rates.tail(0.1, rates.cost([[0, 1], [5, 0]])) <= 1).loosest == 5.0
    assert (rates.cost([[1, 2], [5, 1]]) >= 1).loosest == 0.0  # of deferral
    steps = {
        "tune": lambda limits: tb.tune(tb.Scores(0, 1), X, y, groups=g, limits=limits),
        "calibrate": lambda limits: tb.calibrate(tb.Scores(0, 1), X, y, groups=g, limits=limits),
        "certify": lambda limits: tb.certify((score > 0.5).astype(int), None, y, groups=g, rates=limits),
        "fit": lambda limits: tb.RobustMixtureClassifier(limits=limits, cv=2).fit(X, y, groups=g),
    }
    for step in steps.values():
        with pytest.raises(ValueError, match="negative"):
            step([rates.ratio(paid) >= 0.8])
    with pytest.raises(ValueError, match="limit"):
        tb.tune(tb.Scores(0, 1), X, y, groups=g, costs=by_row, limits=[rates.ratio(cost) >= 0.8])
    for limits in ([rates.gap(paid) <= 3.0], [rates.ratio(rates.cost([[0, 1], [5, 0]], by="g")) >= 0.1]):
        assert steps["tune"](limits).rates_ is not None
