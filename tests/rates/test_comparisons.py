"""Gap and ratio: one table of what they are, against direct computations."""

from itertools import permutations

import numpy as np
import pytest

from tailboost import rates
from tailboost.rates.comparisons import COMPARISONS, GAP, RATIO

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
        a, c = limit.pair
        pairs_keep = all(a * values[i] - values[j] <= c for i, j in permutations(range(3), 2))
        names = ["x", "y", "z"]
        assert limit.value(values) == DIRECT[form](values)
        assert limit.keeps(limit.value(values), limit.bound) == pairs_keep
        assert (limit.distance(names, values) <= 0) == (limit.excess(names, values) == 0) == pairs_keep
        assert limit.distance(names, values) == limit.sign * (limit.value(values) - limit.bound)


@pytest.mark.parametrize("form", COMPARISONS)
@pytest.mark.parametrize("m", [1, 2, 4])
def test_bounds_hold_for_all_rates_within_their_bounds_and_are_reached(form, m):
    rng = np.random.default_rng(m)
    lower = rng.random(m) * rng.integers(2, size=m)
    upper = lower + (1 - lower) * rng.random(m)
    low, high = COMPARISONS[form].bounds(lower, upper)
    inside = lower + (upper - lower) * rng.random((20_000, m)) ** rng.choice([0.05, 1, 20], (20_000, m))
    values = [DIRECT[form](row) for row in inside]
    assert low <= min(values) <= max(values) <= high
    assert max(values) - min(values) >= 0.8 * (high - low)


def test_a_ratio_of_rates_that_may_be_negative_is_refused():
    COMPARISONS[GAP].refuse_negative(-1.0)
    COMPARISONS[RATIO].refuse_negative(0.0)
    with pytest.raises(ValueError, match="limit the gap"):
        COMPARISONS[RATIO].refuse_negative(-1.0)
