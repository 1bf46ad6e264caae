"""The printed table of rates: its intervals against many draws of rows."""

import numpy as np
import pytest

from tailboost import rates
from tailboost.rates import Answered
from tailboost.thresholds import RateTable


@pytest.mark.parametrize("sizes", [(400, 300), (60, 100, 150, 700, 600, 500)])
@pytest.mark.parametrize("true", [0.3, None], ids=["alike", "apart"])
def test_the_interval_of_a_gap_or_ratio_holds_the_true_one_of_all_groups(sizes, true):
    """Also where a group of few rows, neither largest nor least on these rows, is the least in truth."""
    rng = np.random.default_rng(len(sizes))
    share = np.full(len(sizes), true) if true else np.linspace(0.22, 0.35, len(sizes))
    group = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, 2, len(group))
    selected = rates.selected(1, by="group")
    limits = [rates.ratio(selected) >= 0.8, rates.gap(selected) <= 0.1]
    truth = {"ratio": share.min() / share.max(), "gap": np.ptp(share)}
    missed = {"ratio": 0, "gap": 0}
    for _ in range(200):
        answers = (rng.random(len(group)) < share[group]).astype(int)
        answered = Answered.of(y, answers, groups={"group": group})
        table = RateTable.measured(limits, answered, "rows")
        for line in table:
            if line.unit in truth:
                missed[line.unit] += not line.low <= truth[line.unit] <= line.high
                assert line.low <= line.value <= line.high
    assert max(missed.values()) <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)
