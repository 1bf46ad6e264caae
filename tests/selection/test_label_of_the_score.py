"""The label of a score: a rule reads a column of P(label) for either label, and answers as `predict`."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from forms import WITH_NULL, WRITTEN, in_sqlite
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import tailboost as tb

RNG = np.random.default_rng(0)
N = 1500
X = RNG.normal(size=(N, 3)).round(2)
ILL = RNG.random(N) < 1 / (1 + np.exp(-2 * X[:, 0]))
TOLD = {"groups": RNG.choice(["a", "b"], N), "by_group": True}

MODELS = [
    LogisticRegression(), GaussianNB(), RandomForestClassifier(7, random_state=0), KNeighborsClassifier(5),
    HistGradientBoostingClassifier(max_iter=10),
]  # fmt: skip


@pytest.mark.parametrize("labels", [("ill", "well"), ("well", "zebra"), (True, False)], ids=str)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_each_column_of_predict_proba_gives_the_answers_of_predict(model, labels):
    """The high scores may be those of the first or second label; few scores are at thresholds too."""
    y = np.where(ILL, *labels)
    model = model.fit(X[:500], y[:500])
    clf = tb.tune(model, X[500:1000], y[500:1000], limits=[tb.rates.miss(labels[0]) <= 0.2])
    rule, answers = clf.rule_, clf.predict(X).tolist()
    assert len(set(answers)) == 2
    for label, p in zip(clf.classes_.tolist(), model.predict_proba(X).T, strict=True):
        assert answers == in_sqlite(rule.to_sql("p", label=label), p=p)
        for form in WRITTEN.values():
            assert form(rule, p, label=label) == answers


def test_rules_by_group_that_defer_are_turned_too():
    y = np.where(ILL, "ill", "well")
    model = LogisticRegression().fit(X[:500], y[:500])
    limits = ["miss(ill, by=group) <= .1", "false_alarm(ill) <= .1", "deferred() <= 40%"]
    some = {"groups": TOLD["groups"][500:], "by_group": True}
    clf = tb.tune(model, X[500:], y[500:], limits=limits, **some)
    g = TOLD["groups"]
    answers = clf.predict(X, groups=g, deferred="human review").tolist()
    assert len(set(answers)) == 3
    for name, form in WRITTEN.items():
        assert form(clf.rule_, model.predict_proba(X)[:, 0], g, "ill") == answers
        for p in (np.nan, 2.0, -1.0):
            if name in WITH_NULL:
                assert form(clf.rule_, [p], ["a"], "ill") == [None]
            else:
                refused(partial(form, clf.rule_, [p], ["a"], "ill"), "none of the probabilities")


def by_threshold(t, **given):
    bands = [[(None, "well"), (t, "ill")]]
    given = {"kind": "probability", "label": "ill"} | given
    return tb.ThresholdRule("s", ["ill", "well"], None, bands, **given)


TENTHS = [round(k / 100, 2) for k in range(1, 100)]
DRAWN = [*RNG.random(200).tolist(), *(1 - RNG.random(50) ** 9).tolist(), *(RNG.random(50) ** 9).tolist()]


@pytest.mark.parametrize("t", [*TENTHS, *DRAWN[::6], 0.5, 1.0])
def test_turned_ranges_agree_at_and_beside_each_threshold(t):
    """Scores that tell the sides of the threshold apart: 1 − p, or the decimal of a share."""
    rule = by_threshold(t)
    # At most 1/2 the next float below t may have the 1 − p of t: the step is at least that of floats near 1.
    below = t - max(np.spacing(t), 2.0**-52)
    p = np.array([t, np.nextafter(t, 2.0), below, t / 2, 0.0, 1.0]).clip(0.0, 1.0)
    other, expected = 1.0 - p, rule.predict(p).tolist()
    if t in TENTHS:  # of a hundred rows in a leaf
        other, expected = [*other, (100 - round(100 * t)) / 100], [*expected, "ill"]
    for form in WRITTEN.values():
        assert form(rule, other, label="well") == expected


@pytest.mark.parametrize("kind", ["percent", "logit"])
def test_percent_and_logits_are_turned(kind):
    t = {"percent": 30.0, "logit": -0.7}[kind]
    rule = by_threshold(t, kind=kind, missing=t)
    s = np.array([t, np.nextafter(t, 100.0), t - 1e-9, t + 9, t - 9])
    q, expected = {"percent": 100.0 - s, "logit": -s}[kind], rule.predict(s).tolist()
    for form in WRITTEN.values():
        assert form(rule, [*q, np.nan], label="well") == [*expected, "ill"]


def test_a_column_that_a_user_names_needs_its_label():
    y = np.where(ILL, "ill", "well")
    rule = tb.tune(LogisticRegression().fit(X[:500], y[:500]), X[500:], y[500:]).rule_
    assert '"LogisticRegression_well"' in rule.to_sql()  # the name says it
    for ask in (lambda: rule.to_sql("p_ill"), rule.to_python):
        refused(ask, "state the label")
    refused(lambda: rule.to_sql("p", label="healthy"), "one of")
    table = pd.DataFrame({"grade": X[:, 0]})
    grades = tb.tune(tb.Scores("grade", "ill", kind="number"), table, y).rule_
    assert grades.to_sql() == grades.to_sql("grade")  # its user stated it
    refused(lambda: grades.to_sql("other"), "state the label")
    refused(lambda: grades.to_sql(["p", "q"], label="ill"), "reads one")
    assert '"other"' in grades.to_sql("other", label="ill")
    refused(lambda: grades.to_sql("other", label="well"), "'ill'")


@pytest.mark.parametrize("labels", [("well", "ill"), (2, 1), (True, False), (0.0, 1.0)], ids=str)
@pytest.mark.parametrize("model", ["erm", GaussianNB()], ids=str)
def test_the_score_of_a_trained_model_is_named_by_its_label(model, labels):
    y = np.where(ILL, *labels)
    clf = tb.RobustMixtureClassifier([("m", model)], random_state=0).fit(X, y)
    columns = {f"m_{label}": p for label, p in zip(clf.classes_, clf.predict_proba(X).T, strict=True)}
    assert in_sqlite(clf.rule_.to_sql(), **columns) == clf.predict(X).tolist()
    assert f"m_{max(labels)} is P({max(labels)}) of m" in str(clf.rule_)


def test_columns_of_three_labels_have_any_stated_order():
    P = RNG.dirichlet([1, 1, 1], 300)
    y = np.array(["a", "b", "c"])[(RNG.random(300)[:, None] > P.cumsum(axis=1)).sum(axis=1)]
    rule = tb.RobustMixtureClassifier.from_probabilities({"m": P}, y, limits=["miss(c) <= .3"]).rule_
    columns = dict(zip("abc", P.T, strict=True))
    sql = rule.to_sql(["c", "a", "b"], label=["c", "a", "b"])
    assert in_sqlite(sql, **columns) == rule.predict({"m": P}).tolist()
    for names in (None, ["a", "b"], ["a", "b", "b"], "abc", ["a", "b", "c", "d"], ["a", "b", "c", "a"]):
        refused(lambda stated=names: rule.to_sql(["a", "b", "c"], label=stated), "label")
        if names:
            refused(lambda given=names: rule.to_sql(given, label=["a", "b", "c"]), "columns")
    refused(lambda: rule.to_sql(label=["zebra"]), "label")
    assert rule.to_sql(label=["c", "a", "b"]) == rule.to_sql()
    refused(lambda: rule.to_sql(group="g"), "group=")
    refused(lambda: by_threshold(0.3).to_python(label=["ill", "well"]), "one of")


def test_a_document_names_the_label_and_forged_ones_are_refused():
    document = by_threshold(0.3).to_dict()
    assert document["label"] == "ill"
    for label in ("well", "healthy"):
        refused(lambda: tb.ThresholdRule.from_dict({**document, "label": label}), "label")
    refused(lambda: tb.ThresholdRule.from_dict({**document, "format": 4}), "upgrade")
    refused(lambda: tb.ThresholdRule.from_dict({**document, "format": 2}), "select again")
