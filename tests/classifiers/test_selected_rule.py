"""Useless rules within limits are named, with the forcing limits."""

import re
import warnings

import numpy as np
import pytest

from tailboost import RobustMixtureClassifier, rates
from tailboost.exceptions import UselessRuleWarning


def scores(seed=0, n=2000, share=0.3):
    """Return scores correlated with the label, and the labels."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return np.clip(share + 0.12 * (2 * y - 1) + 0.15 * rng.normal(size=n), 0.01, 0.99), y


def said(p, y, **params):
    """Return the classifier, and its warnings of useless rules."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mix = RobustMixtureClassifier.from_probabilities({"m": p}, y, **params)
    return mix, [str(each.message) for each in caught if each.category is UselessRuleWarning]


def groups_of_other_rates(seed=0, n=3000):
    """Return p(1 | x, group), the labels, and two groups with 10 and 50 % of label 1."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    base = np.array([0.1, 0.5])[group]
    y = (rng.random(n) < base).astype(int)
    x = rng.normal(size=n) + 1.6 * y
    return 1 / (1 + np.exp(1.28 - 1.6 * x - np.log(base / (1 - base)))), y, np.array(["f", "m"])[group]


def test_a_useless_rule_within_a_ratio_names_thresholds_by_group_and_they_are_useful():
    p, y, sex = groups_of_other_rates()
    limits = [rates.ratio(rates.selected(1, by="sex")) >= 0.8]
    _, [words] = said(p, y, limits=limits, groups={"sex": sex})
    assert words.endswith("if the rule may read the group (by_group='sex')")
    aware, none = said(p, y, limits=limits, groups={"sex": sex}, by_group="sex")
    assert not none
    errors = np.mean(aware.predict({"m": p}, groups={"sex": sex}) != y)
    assert errors < 0.9 * np.mean(y == 1)


def test_one_answer_for_nearly_all_rows_is_useless():
    p, y = scores()
    mix, [words] = said(p, y, limits=[rates.false_alarm(1) <= 0.001])
    answers = mix.predict({"m": p})
    assert mix.limits_met_  # the warning is not about the limits
    assert np.mean(answers == 0) > 0.95
    printed = float(re.search(r"it answers 0 for ([\d.]+)% of the rows", words)[1]) / 100
    assert printed == pytest.approx(np.mean(answers == 0), abs=6e-4)
    assert "false alarm rate of 1: at most 0.001" in words


def test_a_rule_that_is_no_better_than_a_guess_is_useless():
    """Noise within a limit on the misses: a random guess at the same rate errs as often."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 1000)
    mix, [words] = said(rng.uniform(0.4, 0.6, 1000), y, limits=[rates.miss(1) <= 0.02])
    assert "no better than that of a random guess" in words or "of the rows" in words
    assert mix.limits_met_


@pytest.mark.parametrize(
    "params",
    [
        {}, {"limits": [rates.miss(1) <= 0.3]}, {"error_budget": 0.0}, {"max_error": {1: 0.3, None: 1.0}},
        {"objective": "worst_class", "limits": [rates.error() <= 1.0]},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_is_said_of_useful_rules(params):
    assert not said(*scores(), **params)[1]


def test_few_answers_of_a_rare_class_are_no_fault():
    """A class of 2 % of the rows is answered rarely by any good rule."""
    rng = np.random.default_rng(2)
    y = (rng.random(5000) < 0.02).astype(int)
    p = 1 / (1 + np.exp(-(4.0 * y - 4.0 + 0.7 * rng.normal(size=5000))))
    mix, none = said(p, y, limits=[rates.miss(1) <= 0.3])
    assert np.mean(mix.predict({"m": p}) == 0) > 0.95
    assert not none
