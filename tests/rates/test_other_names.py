"""Rates under the names that users know: recall, sensitivity, specificity, and shares of true and false."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, recall_score

import tailboost as tb
from tailboost import rates

rng = np.random.default_rng(0)
Y = (rng.random(400) < 0.3).astype(int)
ANSWERS = np.where(rng.random(400) < 0.7, Y, 1 - Y)
(TN, FP), (FN, TP) = confusion_matrix(Y, ANSWERS)


@pytest.mark.parametrize(
    ("rate", "value"),
    [
        (rates.recall(1), recall_score(Y, ANSWERS)),
        (rates.sensitivity(1), TP / (TP + FN)),
        (rates.tpr(1), TP / (TP + FN)),
        (rates.fnr(1), FN / (TP + FN)),
        (rates.specificity(1), TN / (TN + FP)),
        (rates.tnr(1), TN / (TN + FP)),
        (rates.fpr(1), FP / (TN + FP)),
    ],
)
def test_values_are_those_of_the_confusion_matrix(rate, value):
    assert rates.measure(rate, Y, ANSWERS)[None] == pytest.approx(value, abs=1e-12)
    assert rates.parse(repr(rate)) == rate


def scored(n, seed):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(n, 2))
    return X, (X[:, 0] + draws.normal(size=n) > 0.8).astype(int)


MODEL = LogisticRegression().fit(*scored(1000, 1))


@pytest.mark.parametrize(
    ("limit", "other"),
    [
        ("recall(1) >= 80%", "miss(1) <= 20%"),
        ("specificity(1) >= .95", "false_alarm(1) <= .05"),
        ("fpr(1) <= .05", "false_alarm(1) <= .05"),
        ("gap(tpr(1, by=site)) <= .05", "gap(miss(1, by=site)) <= .05"),
    ],
)
def test_a_limit_selects_and_certifies_the_rule_of_its_other_name(limit, other):
    X, y = scored(2000, 2)
    sites = {"site": np.where(X[:, 1] > 0, "north", "south")}
    groups = sites if "site" in limit else None
    one, two = (tb.tune(MODEL, X, y, limits=[text], groups=groups) for text in (limit, other))
    new, labels = scored(2000, 3)
    assert np.array_equal(one.predict(new), two.predict(new))
    assert limit.partition("(")[0] in {"gap"} or str(rates.parse(limit).rate) in str(one.rates_)
    groups = {"site": np.where(new[:, 1] > 0, "north", "south")} if groups else None
    looser = {".05": ".2", "80%": "70%", ".95": ".9", "20%": "30%"}
    texts = limit, other
    for old, value in looser.items():
        texts = [text.replace(f" {old}", f" {value}") for text in texts]
    bounds = [
        tb.calibrate(clf, new, labels, limits=[text], groups=groups).certificate_.rates[0]
        for clf, text in zip((one, two), texts, strict=True)
    ]
    assert all(bound.certified for bound in bounds)
    assert bounds[0].method == bounds[1].method


def test_recall_is_maximised_as_objective():
    X, y = scored(2000, 2)
    limits = [rates.false_alarm(1) <= 0.1]
    found, missed = (
        tb.tune(MODEL, X, y, objective=objective, limits=limits)
        for objective in (rates.recall(1), rates.miss(1))
    )
    assert np.array_equal(found.predict(X), missed.predict(X))


@pytest.mark.parametrize(
    ("text", "label"),
    [("miss(>50K, by=sex) <= 30%", "'>50K'"), ("miss(by=sex, label=a & b) <= 30%", "'a & b'")],
)
def test_a_label_that_needs_quotes_is_quoted_in_the_message(text, label):
    with pytest.raises(ValueError, match=f"quote a label .*: {label}"):
        rates.parse(text)
    assert rates.parse(text.replace(label.strip("'"), label)).rate.label == label.strip("'")
