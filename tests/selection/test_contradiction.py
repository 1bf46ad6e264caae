"""Limits that no rule meets together: which group forces it, with its rows and a bound that can be kept."""

import ast
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost.classifiers import calibrating
from tailboost.exceptions import InfeasibleLimitsError

LIMITS = ["miss(1, by=g) <= 20%", "false_alarm(1) <= 25%"]


def rows(separation, n=1_500):
    """Return scores, labels and groups; the score of a group separates the labels by so much."""
    rng = np.random.default_rng(0)
    group = rng.choice(3, n, p=[0.6, 0.34, 0.06])
    y = (rng.random(n) < 0.3).astype(int)
    x = rng.normal(size=n) + np.array(separation)[group] * y
    table = pd.DataFrame({"p": 1 / (1 + np.exp(-(2 * x - 2.8)))})
    return table, y, {"g": np.array(list("abc"))[group]}


def refused(function, data, limits, **options):
    """Return the error of a call, and its message."""
    X, y, groups = data
    with pytest.raises(InfeasibleLimitsError) as caught:
        function(tb.Scores("p", 1), X, y, groups=groups, limits=limits, **options)
    return caught.value, str(caught.value)


def test_one_group_is_named_with_its_rows_and_a_bound_that_can_be_kept():
    data = rows([2.0, 2.0, 0.2])
    X, y, groups = data
    _, message = refused(tb.tune, data, LIMITS)
    said = re.search(
        r"The limit 'miss rate of 1 by g: at most 20 %' in c \((\d+) rows\) is the obstacle", message
    )
    assert int(said[1]) == ((groups["g"] == "c") & (y == 1)).sum()
    bound = float(
        re.search(r"with (\S+) % there, all others can be met on these rows, not certified", message)[1]
    )
    assert 20 < bound < 100
    wider = [tb.rates.miss(1, by="g") <= {"a": 0.2, "b": 0.2, "c": bound / 100}, LIMITS[1]]
    rule = tb.tune(tb.Scores("p", 1), X, y, groups=groups, limits=wider)
    assert rule.limits_met_


def test_a_group_whose_precision_is_at_fault_is_left_out_by_the_printed_limits():
    data = rows([2.0, 2.0, 0.4], n=6_000)
    X, y, groups = data
    limits = ["miss(1, by=g) <= 30%", "precision(1, by=g) >= 60%"]
    _, message = refused(tb.tune, data, limits, by_group=True)
    words = r"in c \(346 rows\) is the obstacle: without it there, all others can be met on these rows, "
    words += r"not certified\. "
    words += r"To leave it out \(its rate then has no bound\): limits=(\[.*?\])\."
    assert (groups["g"] == "c").sum() == 346  # not few
    kept = ast.literal_eval(re.search(words, message)[1])
    rule = tb.tune(tb.Scores("p", 1), X, y, groups=groups, limits=kept, by_group=True)
    assert rule.limits_met_


def test_several_groups_are_named_together():
    error, message = refused(tb.tune, rows([2.0, 0.1, 0.1]), ["error(by=g) <= 20%"])
    assert error.lacks_rows
    assert re.search(
        r"error by g in b \(\d+ rows\); error by g in c \(\d+ rows\) are the obstacle: without them", message
    )


@pytest.mark.parametrize("limits", [["miss(1) <= 3%", "false_alarm(1) <= 5%"], ["error(by=g) <= 1%"]])
def test_a_limit_that_fails_in_all_groups_is_no_fault_of_a_group(limits):
    error, message = refused(tb.tune, rows([2.0, 2.0, 2.0]), limits)
    assert not error.lacks_rows
    assert "obstacle" not in message


def test_more_rows_of_one_batch_select_where_few_contradict_the_limits(monkeypatch):
    """The first rows select again with further ones, up to half of the batch."""
    numbers = []
    own = calibrating.tune

    def recorded(model, X, y, **given):
        numbers.append(set(X.index))
        return own(model, X, y, **given)

    monkeypatch.setattr(calibrating, "tune", recorded)
    error, message = refused(tb.calibrate, rows([2.0, 2.0, -1.0]), LIMITS)
    n = len(rows([2.0, 2.0, -1.0])[1])
    assert [len(each) for each in numbers] == [round(share * n) for share in (0.1, 0.2, 0.4, 0.5)]
    assert all(few < more for few, more in pairwise(numbers))
    assert error.lacks_rows
    assert "No limit was tested on calibration" in message
    assert (
        f"No row is used up: of the 1,500 rows of this batch the same {n // 2} select in a next call"
        in message
    )


@pytest.mark.parametrize("deferral", [[], ["deferred <= 10%"]])
def test_human_review_is_advised_only_where_no_limit_allows_it(deferral):
    rng = np.random.default_rng(0)
    score = rng.random(2_000)
    y = (rng.random(2_000) < score).astype(int)
    limits = ["miss(1) <= 1%", "false_alarm(1) <= 1%", *deferral]
    with pytest.raises(tb.InfeasibleLimitsError) as refused:
        tb.tune(tb.Scores(0, 1), score[:, None], y, limits=limits)
    assert ("human review of some rows" in str(refused.value)) == (not deferral)
    assert "Wider limits" in str(refused.value)
    assert str(refused.value).splitlines()[0].endswith("may do")


def test_a_rule_that_reads_the_group_is_advised_where_it_keeps_the_limits():
    """The scores of two groups differ in level: one threshold for both misses or alarms too much."""
    rng = np.random.default_rng(0)
    y, g = rng.integers(0, 2, 2_000), rng.choice(["a", "b"], 2_000)
    X = (0.5 * y + 0.4 * (g == "b") + 0.1 * rng.random(2_000))[:, None] / 1.1
    limits = ["miss(1, by=g) <= 10%", "false_alarm(1, by=g) <= 10%", "miss(1) <= 2%"]
    given = {"groups": {"g": g}, "limits": limits}
    X = X + np.where((g == "b") & (y == 0), 0.3, 0.0)[:, None]
    with pytest.raises(tb.InfeasibleLimitsError, match=r"a rule that reads the group \(by_group='g'\)"):
        tb.tune(tb.Scores(0, 1, kind="number"), X, y, **given)
    tb.tune(tb.Scores(0, 1, kind="number"), X, y, **given, by_group="g")
