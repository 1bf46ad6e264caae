"""The path of a fixed sequence: bounds that stay alone, and predictions beside simulated tests."""

import warnings
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.path import FACTORS, TighterRules, predicted_power


@pytest.fixture(scope="module")
def scored():
    """A large group, and one of 30 rows whose precision cannot be tightened far."""
    rng = np.random.default_rng(3)
    g = np.repeat(["large", "small"], [1000, 30])
    p = rng.beta(1.2, 1.2, len(g))
    y = (rng.random(len(g)) < p).astype(int)
    limits = [rates.precision(1, by="g") >= 0.6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tb.tune(
            lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]), p[:, None], y, groups={"g": g}, limits=limits,
            by_group=True, random_state=0,
        )  # fmt: skip
    return model, limits


def values(rule):
    return {line.subgroup: line.value for line in rule.estimates if line.limit}


def bounds(rule):
    return {line.subgroup: line.bound for line in rule.estimates if line.limit}


def test_a_bound_whose_certificate_gets_less_likely_stays_and_the_others_go_on(scored):
    """A rule that selects nobody of a group satisfies every precision there, and has no certificate."""
    model, limits = scored
    path = TighterRules.of(model.selection_, [2000] * len(limits)).steps()
    rules, powers = [step.selection for step in path], [step.powers for step in path]
    assert bounds(rules[-1]) == {"large": 0.6, "small": 0.6}
    for stricter, looser in pairwise(rules):
        assert all(bounds(stricter)[g] >= bounds(looser)[g] - 1e-12 for g in ("large", "small"))
    for rule, power in zip(rules, powers, strict=True):
        assert not any(np.isnan(value) for value in values(rule).values())
        assert all(values(rule)[g] >= bounds(rule)[g] - 1e-6 for g in ("large", "small"))
        assert power[0, "large"] > 0.0
    tightest = bounds(rules[0])
    stayed = [rule for rule in rules if bounds(rule)["small"] == tightest["small"]]
    assert len({round(bounds(rule)["large"], 9) for rule in stayed}) > 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = model.reweight(
            limits=[rates.precision(1, by="g") >= {"large": tightest["large"], "small": 1.0}]
        )
    assert powers[0][0, "small"] > 0.0 or np.isnan(values(both.selection_)["small"])


@pytest.mark.slow
def test_the_order_ends_with_the_given_limits_and_depends_on_the_number_of_fresh_rows(scored):
    model, limits = scored
    few, many = (
        TighterRules.of(model.selection_, [n] * len(limits)).from_the_likeliest() for n in (100, 100_000)
    )
    assert bounds(few[-1].selection) == bounds(many[-1].selection) == {"large": 0.6, "small": 0.6}
    assert max(len(few), len(many)) <= len(FACTORS) + 1


@pytest.mark.parametrize(("errors", "rows", "ratio"), [(40, 400, 2.3), (8, 60, 4.0), (300, 2000, 1.0)])
def test_a_predicted_power_is_that_of_simulated_tests(errors, rows, ratio):
    """The true rate is drawn from its posterior distribution, then the fresh rows."""
    bound = 0.17
    limit = rates.error() <= bound
    line = SimpleNamespace(value=errors / rows, low=0.0, high=1.0, rows=rows)
    rng, n = np.random.default_rng(0), int(ratio * rows)
    rate = beta(errors + 0.5, rows - errors + 0.5).rvs(20_000, random_state=rng)
    passed = binom.cdf(rng.binomial(n, rate), n, bound) <= 0.05
    assert predicted_power(line, bound, limit, ratio) == pytest.approx(passed.mean(), abs=0.05)


def test_a_rate_without_rows_has_no_power():
    limit = rates.precision(1) >= 0.9
    line = SimpleNamespace(value=np.nan, low=np.nan, high=np.nan, rows=0)
    assert predicted_power(line, 0.9, limit, 2.0) == 0.0


@pytest.mark.parametrize("texts", [
    ["miss(1, by=g) <= .3", "miss(1, by=g) <= .45"],
    ["miss(1, by=g) <= .45", "miss(1, by=g) <= .3"],
    ["gap(miss(1, by=g)) <= .1", "gap(miss(1, by=g)) <= .25"],
    ["ratio(selected(1, by=g)) >= .5", "ratio(selected(1, by=g)) >= .7"],
])  # fmt: skip
def test_of_two_limits_on_one_rate_the_stricter_makes_the_path(texts):
    rng = np.random.default_rng(5)
    g = rng.choice(["a", "b"], 3000)
    p = rng.beta(1.2, 1.2, len(g))
    y = (rng.random(len(g)) < p).astype(int)
    stricter = next(text for text in texts if text[-2:] in (".3", ".1", ".7"))
    scores = tb.Scores("p", 1)
    paths = []
    for limits in (texts, [stricter]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tb.tune(
                scores,
                pd.DataFrame({"p": p}),
                y,
                groups={"g": g},
                limits=limits,
                objective="error",
                by_group=True,
            )
        paths.append(TighterRules.of(model.selection_, [2000] * len(limits)).from_the_likeliest())
    both, alone = paths
    answers = [[step.selection.estimates for step in path] for path in (both, alone)]
    assert len(both) == len(alone)
    for ours, theirs in zip(*answers, strict=True):
        value = {line.subgroup: line.value for line in theirs if line.limit}
        assert all(line.value == value[line.subgroup] for line in ours if line.limit)
