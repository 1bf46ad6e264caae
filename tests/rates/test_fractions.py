"""F scores, Jaccard indices and negative predictive values: limits, objectives and certificates."""

import numpy as np
import pytest
from conftest import refused
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, fbeta_score, jaccard_score

import tailboost as tb
from tailboost import rates

rng = np.random.default_rng(0)
Y, GUESSES = (rng.random((2, 300)) < [[0.3], [0.4]]).astype(int)
ANSWERS = np.where(rng.random(300) < 0.6, Y, GUESSES)


@pytest.mark.parametrize(("rate", "value"), [
    (rates.f_score(1), f1_score(Y, ANSWERS)), (rates.f_score(1, beta=2), fbeta_score(Y, ANSWERS, beta=2)),
    (rates.f_score(0, beta=0.5), fbeta_score(Y, ANSWERS, beta=0.5, pos_label=0)),
    (rates.jaccard(1), jaccard_score(Y, ANSWERS)), (rates.npv(1), np.mean(Y[ANSWERS == 0] == 0)),
])  # fmt: skip
def test_values_are_those_of_scikit_learn(rate, value):
    assert rates.measure(rate, Y, ANSWERS)[None] == pytest.approx(value, abs=1e-12)


def scored(n, seed):
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(n, 2))
    return X, (X[:, 0] + draws.normal(size=n) > 1.2).astype(int)


def counts(y, p):
    """Count the hits and the answers of 1 with each score as the threshold, from the largest score on."""
    return np.cumsum(y[np.argsort(-p)]), np.arange(1, len(y) + 1)


def f_scores(y, p, beta):
    """Return the F score with each score as the threshold; no two scores are equal."""
    hits, answers = counts(y, p)
    return (1 + beta**2) * hits / (beta**2 * y.sum() + answers)


def errors(y, p):
    """Return the error with each score as the threshold."""
    hits, answers = counts(y, p)
    return (y.sum() + answers - 2 * hits) / len(y)


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_the_largest_f_score_is_that_of_the_best_threshold(beta):
    X, y = scored(3000, 0)
    model = LogisticRegression().fit(*scored(1000, 1))
    clf = tb.tune(model, X, y, objective=rates.f_score(1, beta=beta))
    p = model.predict_proba(X)[:, 1]
    best = max(f_scores(y, p, beta))
    assert fbeta_score(y, clf.predict(X), beta=beta) >= best - 0.003


def test_a_limit_on_the_f_score_is_kept_at_the_least_cost():
    X, y = scored(3000, 0)
    model = LogisticRegression().fit(*scored(1000, 1))
    free = tb.tune(model, X, y, objective="error")
    level = f1_score(y, free.predict(X)) + 0.02
    clf = tb.tune(model, X, y, objective="error", limits=[rates.f_score(1) >= level])
    assert f1_score(y, clf.predict(X)) >= level - 1e-9
    assert clf.limits_met_
    p = model.predict_proba(X)[:, 1]
    least = errors(y, p)[f_scores(y, p, 1.0) >= level].min()
    assert np.mean(clf.predict(X) != y) <= least + 0.002


@pytest.mark.parametrize("rate", [rates.f_score(1, beta=2), rates.jaccard(1), rates.npv(1)])
def test_certified_bounds_hold_for_most_samples(rate):
    """Lower bounds at 90 % fail in at most 10 % of samples; at most 7 of 20 are allowed (p < .001)."""
    X, y = scored(20_000, 9)
    answers = (X[:, 0] > 0.8).astype(int)
    true, above = rates.measure(rate, y, answers)[None], 0
    for seed in range(20):
        rows = np.random.default_rng(seed).integers(0, len(y), 150)
        given = {"rates": [rate >= 0.1], "confidence": 0.9}
        above += tb.certify(answers[rows], None, y[rows], **given).bounds[0].lower > true
    assert above <= 7


def test_texts_and_plain_data():
    for rate in (rates.f_score("a", beta=2, by="sex"), rates.jaccard(1), rates.npv("a") >= 0.5):
        assert rates.parse(repr(rate)) == rate
    for name in ("mcc(1)", "kappa()", "macro_f1()"):
        refused(lambda: rates.parse(name), "called")
    refused(lambda: rates.f_score(1, beta=0), "beta")
    model, largest = LogisticRegression().fit(*scored(99, 1)), rates.largest(rates.f_score(1, by="class"))
    refused(lambda: tb.tune(model, *scored(99, 2), objective=largest), "values")
