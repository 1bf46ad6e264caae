"""Group use of a rule, in Python, on the command line and in the report."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "score": rng.normal(size=400),
            "sex": rng.choice(["f", "m"], 400),
            "age": rng.integers(20, 70, 400),
            "one": 1.0,
        }
    )
    return X, (X["score"] + rng.normal(size=400) > 0).to_numpy().astype(int)


def numbers(values: object) -> np.ndarray:
    return np.unique(np.asarray(values), return_inverse=True)[1]


def test_answers_that_are_told_the_group_depend_on_it(table):
    X, y = table
    mix = tb.RobustMixtureClassifier(
        [("boosted", tb.learners.HistBoostClassifier())],
        objective="worst_group",
        by_group=True,
        random_state=0,
    ).fit(X[["score"]], y, groups=X[["sex"]])
    (use,) = mix.summary_.groups
    assert use.by_group


@pytest.mark.parametrize(("objective", "stated"), [("worst_group", False), ("worst_class", True)])
def test_a_named_objective_says_whether_its_answers_weigh_the_group(table, objective, stated):
    X, y = table
    hint = (X["sex"] == "f") + np.random.default_rng(1).normal(size=len(X))
    mix = tb.RobustMixtureClassifier(
        [("bayes", GaussianNB())], objective=objective, infer_groups=stated, random_state=0
    ).fit(X[["score", "age"]].assign(hint=hint), y, groups=X[["sex"]])
    (use,) = mix.summary_.groups
    member = mix.selection_.member
    assert use.inferred == (objective == "worst_group") == member.weighs_groups
    assert ("uses an estimate p(group | x, y)" in mix.summary_.details) == use.inferred
    try:
        mix.rule_.to_sql()
        has_sql = True
    except ValueError:
        has_sql = False
    assert ("so it has no SQL" in str(mix.summary_)) == use.inferred != has_sql


@pytest.mark.parametrize(
    "limits",
    [
        [rates.ratio(rates.selected(1, by="group")) >= 0.8, rates.miss(1) <= 0.4],
        [rates.gap(rates.selected(1, by="group")) <= 0.05],
        [rates.miss(1, by="group") <= 0.2],
    ],
    ids=["ratio", "gap", "miss"],
)
def test_a_group_blind_rule_on_one_score_has_one_threshold(limits):
    """A score that tells much of the group: a band would keep limits at the cost of the best rows."""
    rng = np.random.default_rng(3)
    g = rng.integers(2, size=6000)
    y = (rng.random(6000) < np.array([0.3, 0.7])[g]).astype(int)
    p = 1 / (1 + np.exp(-(rng.normal(size=6000) + 1.5 * y + 1.5 * g - 1.5)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rule = tb.tune(tb.Scores("p", 1), pd.DataFrame({"p": p}), y, groups=g, limits=limits)
    answers = rule.predict(pd.DataFrame({"p": np.sort(p)}))
    assert (np.diff(answers) >= 0).all()
