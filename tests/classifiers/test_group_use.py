"""A rule that may not read the group has one threshold on a score."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost import rates


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("limits", [
    [rates.ratio(rates.selected(1, by="group")) >= 0.8, rates.miss(1) <= 0.4],
    [rates.gap(rates.selected(1, by="group")) <= 0.05], [rates.miss(1, by="group") <= 0.2],
], ids=["ratio", "gap", "miss"])  # fmt: skip
def test_a_group_blind_rule_on_one_score_has_one_threshold(limits):
    """A score that tells much of the group: a band would keep limits at the cost of the best rows."""
    rng = np.random.default_rng(3)
    g = rng.integers(2, size=6000)
    y = (rng.random(6000) < np.array([0.3, 0.7])[g]).astype(int)
    p = 1 / (1 + np.exp(-(rng.normal(size=6000) + 1.5 * y + 1.5 * g - 1.5)))
    rule = tb.tune(tb.Scores("p", 1), pd.DataFrame({"p": p}), y, groups=g, limits=limits)
    answers = rule.predict(pd.DataFrame({"p": np.sort(p)}))
    assert (np.diff(answers) >= 0).all()
