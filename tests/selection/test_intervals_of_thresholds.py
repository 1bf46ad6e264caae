"""Intervals of rates on new rows, for rules that were selected on the rows that estimate them."""

from __future__ import annotations

import numpy as np
import pytest

import tailboost as tb
from tailboost import rates

N_DRAWS, N_ROWS = 40, 600


def drawn(n, seed):
    """Return a score, labels and groups of a known population."""
    rng = np.random.default_rng(seed)
    group, y = rng.integers(0, 2, n), (rng.random(n) < 0.3).astype(int)
    score = 1 / (1 + np.exp(-rng.normal(y, 1.0) - 0.15 * group))
    return score[:, None], y, group


@pytest.mark.parametrize(("by_group", "draws"), [(False, N_DRAWS), (True, 1)])
def test_an_interval_of_the_error_has_the_true_error_or_is_absent(by_group, draws):
    """In 40 draws, an interval of 95 % misses more than seven times with a probability of .0007."""
    X_new, y_new, group_new = drawn(50_000, 1)
    limit, missed = rates.miss(1, by="g") <= {0: 0.3}, 0
    for seed in range(draws):
        X, y, group = drawn(N_ROWS, 100 + seed)
        given = {"limits": [limit], "by_group": by_group, "infer_groups": False}
        rule = tb.tune(tb.Scores(0, 1), X, y, groups={"g": group}, **given)
        line = next(line for line in rule.rates_ if line.rate == "error")
        given = {"groups": {"g": group_new}} if by_group else {}
        error = np.mean(rule.predict(X_new, **given) != y_new)
        missed += error < line.low or error > line.high  # NaN without an interval
    assert missed <= 7
    assert np.isnan(line.low) == by_group
