"""A page names no group if each one has both answers."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import tailboost as tb

GIVEN = {"limits": ["error(by=lang) <= 30%"], "by_group": "lang"}


def comments(n, seed):
    """Scores of two large languages, and of a rare one with low scores for all rows."""
    rng = np.random.default_rng(seed)
    lang = rng.choice(["de", "en", "fr"], n, p=[0.4, 0.55, 0.05])
    y = (rng.random(n) < np.where(lang == "fr", 0.05, 0.4)).astype(int)
    score = 1 / (1 + np.exp(-(2 * y - 1 + rng.normal(size=n))))
    score[lang == "fr"] = 0.2 * rng.random((lang == "fr").sum())
    labels = np.where(y == 1, "toxic", "fine")
    return pd.DataFrame({"p": score}), labels, pd.DataFrame({"lang": lang})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_group_is_named_if_each_has_both_answers():
    X, y, groups = comments(3_000, 0)
    kept = groups["lang"] != "fr"
    rule = tb.tune(tb.Scores("p", "toxic"), X[kept], y[kept], groups=groups[kept], **GIVEN)
    answers = rule.predict(X[kept], groups=groups[kept])
    assert {*zip(groups["lang"][kept], answers, strict=True)} == {*product(("de", "en"), ("fine", "toxic"))}
    assert "gets" not in str(rule)
