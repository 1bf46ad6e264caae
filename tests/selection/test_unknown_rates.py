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


@pytest.mark.filterwarnings("ignore:few rows")
def test_known_subgroups_beyond_a_gap_are_named_beside_an_unknown_one():
    y, g = np.repeat([1, 0, 1, 0], [10, 20, 7, 24]), np.repeat(["u", "v", "w"], [30, 21, 10])
    at = [(0.1, 0.9, 10), (0.05, 0.6, 20), (0.103, 0.903, 7), (0.05, 0.6, 14), (0.1, 0.5, 10)]
    p = np.concatenate([np.linspace(*each) for each in at])[:, None]
    limits = ["gap(miss(1, by=g)) <= .001", "miss(1) <= .6", "selected(1) <= .2"]
    with pytest.warns(UserWarning, match=r"by the best rule found: .*gap"):
        tb.tune(tb.Scores(0, 1), p, y, groups={"g": g}, limits=limits)
