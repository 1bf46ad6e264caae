"""The size of a stratum is Kish's effective number of its rows, (Σw)²/Σw², by a loop over the rows."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost.rates import Counts
from tailboost.rows.groups import GroupNames

SITES = GroupNames((("a", "b", "c"),), ("site",))


def kish(weight):
    return sum(weight) ** 2 / sum(w * w for w in weight)


@pytest.mark.parametrize("seed", [0, 1])
def test_sizes_of_weighted_rows(seed):
    rng = np.random.default_rng(seed)
    y, groups, weight = rng.integers(0, 2, 200), rng.integers(0, 3, 200), rng.lognormal(0, 1, 200)
    rows = Counts.stratified(y, [groups], weight, ["no", "yes"], SITES)
    strata, stratum = rows.strata, rows.stratum
    for s in range(6):
        assert strata.size[s] == pytest.approx(kish(weight[stratum == s].tolist()))
        assert strata.mass[s] == pytest.approx(weight[stratum == s].sum() / weight.sum())


def test_a_row_of_nearly_all_weight_counts_as_one():
    y = np.repeat([0, 1], 50)
    weights = np.ones(100), np.where(np.arange(100) == 0, 1e9, 1.0)
    equal, uneven = (Counts.stratified(y, [], weight, [0, 1]).strata for weight in weights)
    assert equal.size == pytest.approx([50, 50])
    assert uneven.size == pytest.approx([1, 50], abs=1e-6)


def test_the_selection_data_of_weighted_rows_have_these_sizes():
    rng = np.random.default_rng(3)
    p, weight = rng.random(400), rng.exponential(size=400)
    y, table = np.where(rng.random(400) < p, "yes", "no"), pd.DataFrame({"p": p})
    clf = tb.tune(tb.Scores("p", "yes"), table, y, sample_weight=weight, limits=["miss(yes) <= .4"])
    sizes = clf.selection_.strata.size
    assert sizes == pytest.approx([kish(weight[y == label].tolist()) for label in ("no", "yes")])
