"""Tables that are refused without an attempt are brought again: false certificates over all tables."""

import copy
import re
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multinomial

import tailboost as tb
from tailboost.classifiers import calibrating

pytestmark = pytest.mark.filterwarnings("ignore")
LEVEL = 0.045  # of a first attempt
N = 8

# Rows of each unit as (score, label, group), the probabilities of the units, and the limits. The rule at .5
# of the score breaks the last limit by a millionth, and the other two rules break a limit by more.
WRONG, RIGHT, ILL, OTHER = (0.9, 0, "b"), (0.2, 0, "b"), (0.9, 1, "b"), (0.9, 2, "b")
ROWS, SHARES = [[ILL], [WRONG], [RIGHT]], [0.2, 0.7, 0.1]
OF_A, WRONG_OF_A = ([[(p, 0, "a")], [WRONG], [RIGHT]] for p in (0.2, 0.9))
ERROR = f"error() <= {(MOST := 0.7 - 1e-6)}"
SETTINGS = {
    "error beside misses": (ROWS, SHARES, ["miss(1) <= .5", ERROR]),
    "error beside errors of a group": (OF_A, SHARES, ["error(by=g) <= {a: .5}", ERROR]),
    "errors of two columns": (OF_A, SHARES, [f"error(by=group) <= {{('g', 'a'): .5, ('h', 'd'): {MOST}}}"]),
    "cells": (OF_A, SHARES, [f"error(by=cell) <= {{(0, ('g', 'a')): .5, (0, ('h', 'd')): {MOST}}}"]),
    "precision beside misses": (ROWS, [0.2, 0.3, 0.5], ["miss(1) <= .5", f"precision(1) >= {0.4 + 1e-6}"]),
    "clusters": ([[ILL, RIGHT], [WRONG], [RIGHT]], SHARES, ["miss(1) <= .5", f"false_alarm(1) <= {MOST}"]),
    "representation of a group": (WRONG_OF_A, SHARES, [f"representation(1, by=g) >= {{a: {2 / 9 + 1e-6}}}"]),
    "batch without a label": ([[ILL], [RIGHT]], [0.04, 0.96], [SELECTED := f"selected(1) >= {0.04 + 1e-6}"]),
    "batch without a limited label": ([[ILL], [RIGHT]], [0.04, 0.96], [SELECTED, "miss(1) <= .999"]),
    "batch of one group": (
        [[(0.9, 1, "a")], [RIGHT]],
        [0.04, 0.96],
        [SELECTED, "miss(1, by=g) <= {a: .999}"],
    ),
    "another label": ([[OTHER], [ILL], [RIGHT]], THIRDS := [0.4, 0.3, 0.3], [f"error() <= {0.4 - 1e-6}"]),
    "clusters with another label": ([[OTHER] * 2, [ILL], [RIGHT]], THIRDS, [f"error() <= {0.4 - 1e-6}"]),
    "batch with another label": ([[OTHER], [ILL], [RIGHT]], THIRDS, [f"false_alarm(1) <= {4 / 7 - 1e-6}"]),
    "labels apart": (ROWS, [0.5, 0.4, 0.1], ["miss(1) <= .7", f"false_alarm(1) <= {0.8 - 1e-6}"]),
}


def tables(units, n=N):
    """Yield the rows of each table of n units, with the numbers of the units."""
    for drawn in combinations_with_replacement(range(len(units)), n):
        rows = [(*row, cluster) for cluster, unit in enumerate(drawn) for row in units[unit]]
        yield np.bincount(drawn, minlength=len(units)), pd.DataFrame(rows, columns=["p", "y", "g", "cluster"])


def groups_of(limits, g):
    """Return the groups that limits read: column g, with a second one, all of group d, if they read both."""
    if "by=" not in str(limits):
        return {}
    second = {} if "by=g)" in str(limits) else {"h": "d"}
    return {"groups": pd.DataFrame({"g": g, **second})}


def rule_of(limits):
    """Return the rule at .5 of the score, selected on other rows within loose limits."""
    rng = np.random.default_rng(0)
    score = rng.choice([0.9, 0.2], 3000, p=[0.3, 0.7])
    y = (rng.random(3000) < np.where(score > 0.5, 0.6, 0.02)).astype(int)
    rows = groups_of(limits, rng.choice(["a", "b"], 3000))
    loose = [re.sub(r"= .*", "= .01" if ">=" in limit else "= .99", limit) for limit in limits]
    return tb.tune(tb.Scores("p", 1), pd.DataFrame({"p": score}), y, limits=loose, **rows)


@pytest.mark.parametrize("name", SETTINGS)
def test_false_certificates_over_all_tables(name, monkeypatch):
    """The first table that is an attempt gives a false certificate with at most the level's probability."""
    monkeypatch.setattr(calibrating, "prices", lambda *given: [tb.Price("", 0.0, 0.0, None)])
    units, shares, limits = SETTINGS[name]
    model = tb.Scores("p", 1) if "batch" in name else rule_of(limits)
    false = free = 0.0
    for numbers, rows in tables(units):
        probability, given = multinomial.pmf(numbers, N, shares), groups_of(limits, rows["g"])
        if "clusters" in name:
            given["clusters"] = rows["cluster"]
        try:
            tb.calibrate(copy.deepcopy(model), rows[["p"]], rows["y"], limits=limits, **given)
        except ValueError as refused:
            free += probability * (not getattr(refused, "attempts", ()))
        else:
            false += probability
    assert 0 < false <= LEVEL * (1.0 - free)
    assert (free > 0) == (name in ("labels apart", "batch with another label"))


def test_few_rows_in_all_are_refused_without_an_attempt():
    limits = ["miss(1) <= .5", "error() <= .6"]
    _, rows = next(tables(ROWS, n=3))
    with pytest.raises(tb.NotCertifiedError, match="no attempt") as refused:
        tb.calibrate(rule_of(limits), rows[["p"]], rows["y"], limits=limits)
    assert refused.value.attempts == ()


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_too_few_rows_are_counted_for_the_next_attempt(share):
    limits = [f"miss(1) <= {share}", "error() <= .6"]
    rows = pd.DataFrame([*ROWS[0] * 3, *ROWS[2] * 27], columns=["p", "y", "g"])
    with pytest.raises(tb.NotCertifiedError) as refused:
        tb.calibrate(rule_of(limits), rows[["p"]], rows["y"], limits=limits)
    needed = next(n for n in range(99) if (1 - share) ** n <= 0.05 * 0.1 * 0.9)
    assert f"has 3 rows, and needs at least {needed}." in str(refused.value)
    assert len(refused.value.attempts) == 1


def test_one_answer_may_keep_a_limit_on_a_group_of_few_rows_if_the_rule_reads_the_group():
    """At six right rows of a group whose miss rate is the limit, a test of counts errs with .6⁶ > .045."""
    rng, g = np.random.default_rng(0), np.where(np.arange(1200) % 100 == 7, "b", "a")
    s = rng.random(1200)
    y = (rng.random(1200) < s).astype(int)
    first, second = ({"X": s[i::2, None], "y": y[i::2], "groups": {"g": g[i::2]}} for i in (1, 0))
    second["groups"]["g"][:6] = "b"
    limits = {"limits": ["miss(1, by=g) <= .4"]}
    aware, blind = (tb.tune(tb.Scores(0, 1), **first, **limits, by_group=each) for each in (True, False))
    assert tb.calibrate(aware, **second).certificate_.certified
    with pytest.raises(tb.NotCertifiedError, match="needs at least 7"):
        tb.calibrate(blind, **second)
