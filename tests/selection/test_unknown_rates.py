"""Limits on subgroups of which the rows tell nothing."""

import numpy as np
import pytest

import tailboost as tb


@pytest.mark.parametrize(
    "limit", ["miss(1, by=g) <= 60%", "gap(miss(1, by=g)) <= 15%", "ratio(recall(1, by=g)) >= .7"]
)
def test_a_subgroup_without_a_rate_is_named_and_not_certified(limit):
    rng = np.random.default_rng(0)
    g, p = rng.choice(["u", "v", "w"], 4000, p=[0.6, 0.35, 0.05]), rng.random(4000)
    y = ((rng.random(4000) < p) & (g != "w")).astype(int)
    with pytest.warns(UserWarning, match="of w"):
        rule = tb.tune(tb.Scores(0, 1), p[::2, None], y[::2], groups={"g": g[::2]}, limits=[limit])
    assert "no rows" in str(rule.rates_)
    with pytest.raises(ValueError, match="w has 0 rows"):
        tb.calibrate(rule, p[1::2, None], y[1::2], groups={"g": g[1::2]})
