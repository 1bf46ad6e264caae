"""Rates under the names that users know: recall, sensitivity, specificity, and shares of true and false."""

import numpy as np
import pytest
from conftest import refused
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, recall_score
from sklearn.utils.class_weight import compute_class_weight

import tailboost as tb
from tailboost import rates

rng = np.random.default_rng(0)
Y = (rng.random(400) < 0.3).astype(int)
ANSWERS = np.where(rng.random(400) < 0.7, Y, 1 - Y)
(TN, FP), (FN, TP) = confusion_matrix(Y, ANSWERS)


@pytest.mark.parametrize(("rate", "value"), [
    (rates.recall(1), recall_score(Y, ANSWERS)), (rates.sensitivity(1), TP / (TP + FN)),
    (rates.tpr(1), TP / (TP + FN)), (rates.fnr(1), FN / (TP + FN)), (rates.specificity(1), TN / (TN + FP)),
    (rates.tnr(1), TN / (TN + FP)), (rates.fpr(1), FP / (TN + FP)),
])  # fmt: skip
def test_values_are_those_of_the_confusion_matrix(rate, value):
    assert rates.measure(rate, Y, ANSWERS)[None] == pytest.approx(value, abs=1e-12)
    assert rates.parse(repr(rate)) == rate


def scored(n, seed):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(n, 2))
    return X, (X[:, 0] + draws.normal(size=n) > 0.8).astype(int)


MODEL = LogisticRegression().fit(*scored(1000, 1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.parametrize(("limit", "other", "looser", "looser_other"), [
    ("recall(1) >= 80%", "miss(1) <= 20%", "70%", "30%"),
    ("specificity(1) >= .95", "false_alarm(1) <= .05", ".9", ".2"),
    ("fpr(1) <= .05", "false_alarm(1) <= .05", ".2", ".2"),
    ("gap(tpr(1, by=site)) <= .05", "gap(miss(1, by=site)) <= .05", ".2", ".2"),
])  # fmt: skip
def test_a_limit_selects_and_certifies_the_rule_of_its_other_name(limit, other, looser, looser_other):
    X, y = scored(2000, 2)
    sites = {"site": np.where(X[:, 1] > 0, "north", "south")}
    groups = sites if "site" in limit else None
    one, two = (tb.tune(MODEL, X, y, limits=[text], groups=groups) for text in (limit, other))
    new, labels = scored(2000, 3)
    assert np.array_equal(one.predict(new), two.predict(new))
    assert limit.partition("(")[0] in {"gap"} or str(rates.parse(limit).rate) in str(one.rates_)
    groups = {"site": np.where(new[:, 1] > 0, "north", "south")} if groups else None
    bounds = []
    for clf, text, bound in ((one, limit, looser), (two, other, looser_other)):
        limits = [f"{text.rpartition(' ')[0]} {bound}"]
        certificate = tb.calibrate(clf, new, labels, limits=limits, groups=groups).certificate_
        bounds.append(certificate.bounds[0])
    assert all(bound.certified for bound in bounds)
    assert bounds[0].method == bounds[1].method


def test_arithmetic_of_rates_is_refused():
    for text in ("1 - miss(1) >= .7", "1-fpr(1)", "2 * error() <= .1", "coverage >= 80%"):
        refused(lambda: rates.parse(text), r"understood|is called")


def test_recall_is_maximised_as_objective():
    X, y = scored(2000, 2)
    limits = [rates.false_alarm(1) <= 0.1]
    aims = (rates.recall(1), rates.miss(1))
    found, missed = (tb.tune(MODEL, X, y, objective=each, limits=limits) for each in aims)
    assert np.array_equal(found.predict(X), missed.predict(X))
    with pytest.raises(ValueError, match="turn its sign"):  # this asks for more misses
        tb.tune(MODEL, X, y, limits=["1 - recall(1) >= .6"])


@pytest.mark.parametrize("name", ["miss", "recall", "selected", "precision", "f_score"])
def test_a_class_called_none_is_a_label_in_quotes_alone(name):
    for stated in (f"{name}(None) <= 30%", f"1 - {name}(None) <= 30%"):
        refused(lambda: rates.parse(stated), "needs a label")
    assert rates.parse(f"{name}('None')").label == "None"


@pytest.mark.parametrize(("text", "label"), [
    ("miss(>50K, by=sex) <= 30%", "'>50K'"), ("miss(by=sex, label=a & b) <= 30%", "'a & b'"),
])  # fmt: skip
def test_a_label_that_needs_quotes_is_quoted_in_the_message(text, label):
    refused(lambda: rates.parse(text), "quote")
    assert rates.parse(text.replace(label.strip("'"), label)).rate.label == label.strip("'")


def three_classes(n, seed):
    draws = np.random.default_rng(seed)
    y, X = draws.choice(3, n, p=[0.7, 0.2, 0.1]), draws.normal(size=(n, 4))
    X[np.arange(n), y] += 1.2
    return X, y


def test_balanced_accuracy_is_a_mean_cost_to_limit_and_to_minimise():
    model = LogisticRegression().fit(*three_classes(1000, 4))
    X, y = three_classes(2000, 5)
    weight = compute_class_weight("balanced", classes=model.classes_, y=y)
    error = rates.cost(weight[:, None] * (1 - np.eye(3)))
    plain = tb.tune(model, X, y, objective="error")
    limited = tb.tune(model, X, y, limits=[error <= 0.36])
    best, values = tb.tune(model, X, y, objective=error), []
    for rule in (plain, limited, best):
        answers = rule.predict(X)
        values.append(1 - balanced_accuracy_score(y, answers))
        assert rates.measure(error, y, answers)[None] == pytest.approx(values[-1], abs=1e-12)
    assert values[0] > 0.36 >= values[1] > values[2]
    assert np.mean(plain.predict(X) != y) <= np.mean(limited.predict(X) != y)


def test_two_gaps_limit_the_l2_norm_of_odds_gaps():
    draws = np.random.default_rng(6)
    X, y = scored(3000, 7)
    sex = np.where(X[:, 0] + draws.normal(size=3000) > 0, "f", "m")
    gaps = [rates.gap(rate(1, by="sex")) <= 0.1 / np.sqrt(2) for rate in (rates.miss, rates.false_alarm)]

    def norm(rule):
        answers = rule.predict(X, groups={"sex": sex})
        rows = [confusion_matrix(y[sex == s], answers[sex == s], normalize="true") for s in "fm"]
        return np.hypot(*np.diag(rows[0] - rows[1]))

    given, stated = {"groups": {"sex": sex}, "by_group": True}, ([rates.error(by="sex") <= 0.9], gaps)
    free, limited = (tb.tune(MODEL, X, y, limits=limits, **given) for limits in stated)
    assert norm(free) > 0.1 >= norm(limited)


@pytest.mark.parametrize(("name", "other"), [("miss", "fnr"), ("recall", "tpr"), ("recall", "sensitivity"),
                                         ("false_alarm", "fpr"), ("specificity", "tnr")])  # fmt: skip
def test_a_rate_counts_the_same_rows_under_each_name(name, other):
    words = "rows with label 'ill'" if name in ("miss", "recall") else "rows with other labels than 'ill'"
    assert getattr(rates, name)("ill").words_of_rows == getattr(rates, other)("ill").words_of_rows == words
    assert rates.error().words_of_rows == rates.selected("ill").words_of_rows == "rows"


@pytest.mark.parametrize(("among", "words"), [
    ([(1, None)], "rows with label 1"), ([(1, None), ("b", None)], "rows with label 1 or 'b'"),
    ([(1, None), (None, None)], "rows"),
])  # fmt: skip
def test_a_plan_names_the_rows_of_a_custom_rate(among, words):
    limit = rates.custom("costly", [(1, 0)], among=among) <= 0.3
    assert f" {words}\n" in str(tb.rows_needed([limit], [0.1]))
