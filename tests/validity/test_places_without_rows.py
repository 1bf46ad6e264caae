"""A subgroup may have rows at a place where no given row is of it: the rule and a limit read two columns."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost import rates
from tailboost.classifiers import calibrating
from tailboost.guarantees.exact_tests import LimitTests, Places
from tailboost.rates import Counts
from tailboost.rows.groups import GroupNames

pytestmark = pytest.mark.filterwarnings("ignore")
DRAWS, MOST = 80, 11  # P(Bin(80, .05) > 11) < .001


@pytest.fixture(autouse=True)
def unpriced(monkeypatch):
    monkeypatch.setattr(calibrating, "MOST_PRICED", 0)


def probabilities(X):
    p = np.asarray(X, dtype=float)[:, 0]
    return np.column_stack([1 - p, p])


def in_doubt_at_b(rng, n, share, share_at_b):
    """Return rows of which a ``share`` is of x; scores at the place a are sure, at b in doubt."""
    h = np.where(rng.random(n) < share, "x", "u")
    g = np.where(rng.random(n) < np.where(h == "x", share_at_b, 0.15), "b", "a")
    y = (rng.random(n) < 0.5).astype(int)
    sure = np.where(y == 1, 0.9, 0.01) + 0.09 * rng.random(n)
    p = np.where(g == "a", sure, 0.45 + 0.1 * rng.random(n))
    return p[:, None], y, pd.DataFrame({"g": g, "h": h})


def missed_at_b(rng, n, share):
    """Return rows of which a ``share`` is of x, missed at b; u1 is at a, u2 at b."""
    is_x, at_b = rng.random(n) < share, rng.random(n) < 0.5
    h = np.where(is_x, "x", np.where(at_b, "u2", "u1"))
    y = (rng.random(n) < 0.5).astype(int)
    p = 1 / (1 + np.exp(1.1 - 2.2 * y - rng.normal(size=n)))
    p = np.where(is_x & at_b, 0.02 + 0.01 * rng.random(n), p)
    return p[:, None], y, pd.DataFrame({"g": np.where(at_b, "b", "a"), "h": h})


def certified_by(rows, models, limits, **options):
    X, y, groups = rows
    try:
        return tb.calibrate(models, X, y, groups=groups, limits=limits, **options)
    except (tb.NotCertifiedError, tb.InfeasibleLimitsError, ValueError):
        return None


def test_deferral_of_a_subgroup_with_few_rows():
    limits = ["miss(1, by=g) <= .2", "false_alarm(1, by=g) <= .2", "deferred(by=h) <= .4"]
    X, _, groups = in_doubt_at_b(np.random.default_rng(99), 100_000, 0.3, 0.5)
    x = (groups.h == "x").to_numpy()
    for seed in range(100):  # selecting rows with x at both places
        S, z, of_s = in_doubt_at_b(np.random.default_rng([seed, 5]), 2000, 0.001, 0.5)
        if set(of_s.g[of_s.h == "x"]) == {"a", "b"}:
            break
    false = 0
    for seed in range(DRAWS):
        tuned = tb.tune(probabilities, S, z, groups=of_s, limits=limits, by_group="g")
        fresh = in_doubt_at_b(np.random.default_rng([seed, 8]), 1500, 0.001, 0.5)
        rule = certified_by(fresh, tuned, None)
        false += rule is not None and rule.defers(X, groups=groups)[x].mean() > 0.4
    assert false <= MOST


def test_misses_of_a_subgroup_with_few_rows():
    X, y, groups = missed_at_b(np.random.default_rng(99), 100_000, 0.3)
    x, false = ((groups.h == "x") & (y == 1)).to_numpy(), 0
    for seed in range(DRAWS):
        fresh = missed_at_b(np.random.default_rng([seed, 9]), 800, 0.0025)
        rule = certified_by(fresh, probabilities, ["miss(1, by=h) <= .2"], by_group="g")
        if rule is not None and any(each.subgroup == "x" for each in rule.certificate_.bounds):
            false += (rule.predict(X[x], groups=groups[x]) == 0).mean() > 0.2
    assert false <= MOST


@pytest.mark.parametrize(("limit", "kept"), [
    (rates.deferred(by="h") <= 0.4, [False, False]),  # u and x
    (rates.deferred(by="g") <= 0.4, [True, False]),  # a and b
    (rates.deferred(by=("h", "g")) <= 0.4, [True, False, True]),  # (u, a), (u, b), (x, a)
    (rates.false_alarm(1, by="h") <= 0.4, [False, False]),
    (rates.false_alarm(1, by="g") <= 0.4, [True, False]),
    (rates.deferred() <= 0.4, [False]),
])  # fmt: skip
def test_only_a_subgroup_that_names_its_place_has_the_answers_of_one(limit, kept):
    """At a all rows get the first label, at b any answer; the row of x is at a."""
    names = GroupNames((["a", "b"], ["u", "x"]), ("g", "h"))
    groups = np.array([[0, 1, 0], [0, 0, 1]])
    rows = Counts.stratified(np.array([0, 1, 0]), groups, np.ones(3), [0, 1], names, defers=True)
    tests = LimitTests.of(limit, rows.strata, Places(rows.strata.place(0), 2, ("g",)))
    answers = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])  # by place
    assert tests.kept(answers[None])[0].tolist() == kept
