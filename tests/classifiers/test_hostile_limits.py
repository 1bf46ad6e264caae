"""Messages for limits that contradict each other, or name missing rows and subgroups."""

import re
import warnings

import numpy as np
import pytest

from tailboost import RobustMixtureClassifier, rates
from tailboost.rates import InfeasibleLimitsError

N = 400
RNG = np.random.default_rng(0)
Y = np.where(RNG.random(N) < 0.5, "yes", "no")
SCORE = np.clip(0.5 + 0.25 * np.where(Y == "yes", 1, -1) + 0.2 * RNG.normal(size=N), 0.01, 0.99)
P = {"score": np.column_stack([1 - SCORE, SCORE])}
SEX = RNG.choice(["f", "m"], N)
SELECTED = rates.selected("yes", by="sex")
MISSED = rates.miss("yes", by="sex")


def chosen(*limits, groups=SEX, y=Y, weight=None):
    """Return the mixture and the text of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mix = RobustMixtureClassifier.from_probabilities(
            P, y, groups={"sex": groups}, limits=list(limits), sample_weight=weight
        )
    return mix, " ".join(str(w.message) for w in caught)


@pytest.mark.parametrize(
    "limits",
    [
        (SELECTED >= 0.6, SELECTED <= 0.3),
        (SELECTED <= {"f": 0.2}, SELECTED >= {"f": 0.5}),
        (rates.precision("yes") >= 1.0, rates.miss("yes") <= 0.05),
        (rates.selected("yes") <= 0.1, rates.selected("no") <= 0.1),
        (rates.error(by="cell") <= 0.0,),
    ],
)
def test_contradictions_are_named_with_what_can_be_had(limits):
    with pytest.raises(InfeasibleLimitsError, match="meets these together") as caught:
        chosen(*limits)
    assert all(str(limit) in str(caught.value) for limit in limits)
    assert str(caught.value).count("reached: ") == len(limits)
    groups = re.findall(r"by sex: .*?\(reached: \S+ for ([fm])\)", str(caught.value))
    assert len(groups) == sum(limit.rate.by == "sex" for limit in limits)


@pytest.mark.parametrize("limit", [rates.gap(SELECTED) <= 0.1, rates.ratio(SELECTED) >= 0.8])
def test_one_group_is_compared_with_nothing_and_that_is_said(limit):
    alone, said = chosen(limit, groups=np.repeat("f", N))
    assert alone.limits_met_ is None
    assert "only one subgroup has rows, so there is nothing to compare" in said
    weightless, said = chosen(limit, weight=np.where(SEX == "f", 1.0, 0.0))
    assert weightless.limits_met_ is None
    assert "m has no rows" in said


def test_a_unit_without_rows_is_named_where_it_is_limited():
    never = np.where(SEX == "m", "no", Y)
    _, said = chosen(MISSED <= {"m": 0.1}, y=never)
    assert "m has no rows with label 'yes', so that nothing is known of it" in said
    _, said = chosen(SELECTED <= {"m": 0.3}, weight=np.where(SEX == "f", 1.0, 0.0))
    assert "m has no rows, so that nothing is known of it" in said


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (SELECTED <= {"x": 0.2}, "no subgroup is called 'x'"),
        (rates.selected("maybe", by="sex") <= 0.3, "no class is called 'maybe'"),
        (rates.selected("yes", by="race") <= 0.3, "no column of groups has this name"),
    ],
)
def test_labels_and_units_that_are_not_there_are_named(limit, words):
    with pytest.raises(ValueError, match=words):
        chosen(limit)


def test_a_gap_of_nothing_is_kept_by_a_draw_or_said_to_be_missed():
    mix, said = chosen(rates.gap(SELECTED) <= 0.0)
    assert "gap at most 0" in said
    assert mix.limits_met_ or "limit violated" in said


def test_a_ratio_above_one_is_no_percentage():
    with pytest.raises(ValueError, match=r"got 1\.5$"):
        rates.ratio(SELECTED) >= 1.5  # noqa: B015
    with pytest.raises(ValueError, match=r"write 0\.8 for 80 %"):
        rates.ratio(SELECTED) >= 80  # noqa: B015
