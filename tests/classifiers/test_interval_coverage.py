"""Coverage of printed intervals: the truth is the rate of the returned classifier on many new rows."""

from collections import Counter

import numpy as np
import pytest

from tailboost import rates
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.rates import Counts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]

SELECTED = rates.selected(1, by="g")
# Rows, groups, limits. A limit holds the rule at its boundary, where selection is most optimistic.
SETTINGS = {
    "miss": (200, 1, [rates.miss(1) <= 0.3]),
    "gap": (600, 2, [rates.gap(SELECTED) <= 0.05]),
    "gap of four groups": (600, 4, [rates.gap(SELECTED) <= 0.05]),
    "ratio and miss": (600, 2, [rates.ratio(SELECTED) >= 0.8, rates.miss(1) <= 0.4]),
}


def drawn(rng, n, n_groups):
    g = rng.integers(0, n_groups, n)
    x = rng.normal(size=n) + 0.4 * g
    p = 1 / (1 + np.exp(1 - 1.2 * x))
    score = 1 / (1 + np.exp(1 - 1.2 * x + 0.3 * rng.normal(size=n)))
    return g, np.column_stack([1 - score, score]), (rng.random(n) < p).astype(int)


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_hold_the_rates_of_the_returned_rule_on_new_rows(name):
    n, n_groups, limits = SETTINGS[name]
    fresh, missed, n_draws = drawn(np.random.default_rng(99), 50_000, n_groups), Counter(), 200
    for seed in range(n_draws):
        g, P, y = drawn(np.random.default_rng(seed), n, n_groups)
        groups = {} if n_groups == 1 else {"groups": {"g": g}, "by_group": True}
        mix = RobustMixtureClassifier.from_probabilities(
            {"m": P}, y, classes=[0, 1], limits=limits, random_state=0, **groups
        )
        given = {} if n_groups == 1 else {"groups": {"g": fresh[0]}}
        rows = Counts.answered(
            fresh[2], mix.predict({"m": fresh[1]}, **given), groups={"g": fresh[0]}, labels=[0, 1]
        )
        for rate, limit in [(mix.objective_.rate, None), *((limit.rate, limit) for limit in limits)]:
            terms = rate.terms(rows.strata)
            values = terms.values(rows.of(rows.actions))
            truth = dict(zip(terms.names, values, strict=True))
            if limit is not None and limit.compares:
                truth[limit.form] = limit.value(values)
            for line in mix.rates_:
                if line.rate == str(rate) and bool(line.limit) == (limit is not None):
                    outside = not line.low <= truth[line.subgroup] <= line.high
                    missed[line.rate, line.subgroup] += outside and not np.isnan(line.low)
    most = 0.05 * n_draws + 3 * np.sqrt(0.05 * 0.95 * n_draws)
    assert max(missed.values()) <= most, missed
