"""Limits hold on all rows, at the error of the best thresholds."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import tailboost as tb


def two_thresholds(p, y, g, most_missed, most_deferred):
    """Return the least error of two thresholds for all groups, by trying each of many."""
    order = np.argsort(p)
    score, label = p[order], y[order]
    ill = [np.sort(p[(g == name) & (y == 1)]) for name in np.unique(g)]
    least = 1.0
    for low in np.quantile(p, np.linspace(0, 1, 1001)):
        if max(np.searchsorted(of, low) / len(of) for of in ill) > most_missed:
            break
        first = int(np.searchsorted(score, low))
        after = min(len(p) - 1, first + int(most_deferred * len(p)))
        last = int(np.searchsorted(score, score[after]))
        least = min(least, (label[:first].sum() + (1 - label[last:]).sum()) / len(p))
    return float(least)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
@pytest.mark.parametrize("by_group", [False, True])
def test_limits_of_groups_beside_deferral(by_group):
    """Interpolation between candidates alone found a rule without deferral here, with .08 more errors."""
    n, rng = 12_000, np.random.default_rng(3)
    g = rng.choice(["a", "b", "c"], n, p=[0.6, 0.37, 0.03])
    x = rng.normal(size=n) - 0.4 * (g == "b")
    y = (rng.random(n) < expit(1.5 * x - 1)).astype(int)
    p = expit(1.5 * x - 1).round(3)
    given = {"limits": ["miss(1, by=g) <= 30%", "deferred <= 10%"], "by_group": by_group}
    rule = tb.tune(tb.Scores("p", 1), pd.DataFrame({"p": p}), y, groups={"g": g}, **given)
    given = {"groups": {"g": g}} if by_group else {}
    table = pd.DataFrame({"p": p})
    deferred, answers = rule.defers(table, **given), rule.predict(table, **given)
    assert deferred.mean() <= 0.1
    for name in "abc":
        assert np.mean((answers != 1)[(g == name) & (y == 1)] & ~deferred[(g == name) & (y == 1)]) <= 0.3
    assert np.mean((answers != y) & ~deferred) <= two_thresholds(p, y, g, 0.3, 0.1) + 0.003
