"""Displays draw the numbers of certificates, curves and monitors."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer as Same

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import tailboost as tb
from tailboost import metrics
from tailboost.plotting import LimitsDisplay, TradeOffDisplay

X, Y = make_classification(3000, weights=[0.7], class_sep=0.8, random_state=0)
LIMITS = ["miss(1) <= 45%", "error <= 40%"]


@pytest.fixture(scope="module")
def rule():
    model = LogisticRegression().fit(X[:1000], Y[:1000])
    return tb.calibrate(model, X[1000:2000], Y[1000:2000], limits=LIMITS, training_rows=X[:1000])


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def texts(display):
    return [text.get_text() for text in display.ax_.texts]


def test_limits_of_a_certificate(rule):
    display = LimitsDisplay.from_certificate(rule.certificate_)
    assert len(texts(display)) == len(rule.certificate_.bounds)
    assert all(text.startswith("✓") for text in texts(display))
    points = [line.get_xdata()[1] for line in display.ax_.lines if line.get_marker() == "o"]
    assert points == [bound.estimate for bound in rule.certificate_.bounds]


def test_limits_on_rows(rule):
    answers = rule.predict(X[2000:])
    one = LimitsDisplay.from_estimator(rule, X[2000:], Y[2000:], limits=LIMITS)
    two = LimitsDisplay.from_predictions(Y[2000:], answers, limits=LIMITS, ax=one.ax_)
    assert two.ax_ is one.ax_
    expected = [np.mean(answers[Y[2000:] == 1] != 1), np.mean(answers != Y[2000:])]
    assert [line.value for line in one.lines] == pytest.approx(expected)
    assert [line.value for line in two.lines] == pytest.approx(expected)
    P = rule.predict_proba(X)[:, [1]]
    on_scores = tb.calibrate(tb.Scores(0, 1), P[1000:], Y[1000:], limits=LIMITS)
    whole = LimitsDisplay.from_estimator(on_scores, P[2000:], Y[2000:]).lines
    assert LimitsDisplay.from_estimator(on_scores, P[2000:, 0], Y[2000:]).lines == whole
    refused(lambda: LimitsDisplay([]), "limit")


@pytest.mark.parametrize("holder", [FrozenEstimator, lambda r: make_pipeline(Same(), r), lambda r: r])
@pytest.mark.parametrize("of_scores", [False, True])
def test_deferred_rows_of_a_rule_inside_another_model(holder, of_scores):
    """Limits and scorers count them as `defers` says."""
    model, limits = LogisticRegression().fit(X[:1000], Y[:1000]), ["deferred <= 40%", "miss(1) <= 40%"]
    table = X
    rule = tb.tune(model, X[1000:2000], Y[1000:2000], limits=limits)
    if of_scores:  # certified on scores: `predict` answers "human review"
        table = model.predict_proba(X)[:, [1]]
        rule = tb.calibrate(tb.Scores(0, 1), table[1000:2000], Y[1000:2000], limits=limits)
    held, rows, y = holder(rule), table[2000:], Y[2000:]
    wrong = (rule.predict(rows, deferred=-1) != y) & ~rule.defers(rows)
    by_class = [np.mean(wrong[y == k]) for k in (0, 1)]
    lines = LimitsDisplay.from_estimator(held, rows, y).lines
    assert [line.value for line in lines] == pytest.approx([np.mean(rule.defers(rows)), by_class[1]])
    for scorer in (metrics.make_worst_class_scorer(), metrics.make_worst_class_scorer(expected=True)):
        assert scorer(held, rows, y) == pytest.approx(-max(by_class))
    assert metrics.make_cvar_scorer(0.5)(held, rows, y) == pytest.approx(-np.mean(wrong) / 0.5)


def test_rows_in_another_order_are_refused(rule):
    y, table = pd.Series(Y[2000:]).sample(frac=1, random_state=0), pd.DataFrame(X[2000:])
    for call in (
        lambda: LimitsDisplay.from_estimator(rule, table, y, limits=LIMITS),
        lambda: LimitsDisplay.from_estimator(rule, table, Y[2000:], limits=LIMITS, groups=y),
        lambda: LimitsDisplay.from_predictions(y, pd.Series(Y[2000:]), limits=LIMITS),
    ):
        refused(call, "different pandas indexes")


def test_a_trade_off(rule):
    clf = tb.tune(LogisticRegression().fit(X[:1000], Y[:1000]), X[1000:2000], Y[1000:2000], limits=LIMITS)
    curve = clf.tradeoff()
    display = TradeOffDisplay.from_curve(curve, name="selecting rows")
    np.testing.assert_array_equal(display.line_.get_xydata(), np.transpose(curve.values))
    for held in (clf, FrozenEstimator(clf), make_pipeline(Same(np.negative), Same(np.negative), clf)):
        new = TradeOffDisplay.from_estimator(held, X[2000:], Y[2000:], ax=display.ax_)
        assert new.ax_ is display.ax_
        np.testing.assert_array_equal(new.line_.get_xydata().T, curve.predicted(X[2000:], Y[2000:]))
    refused(lambda: TradeOffDisplay([1, 2], [1], xlabel="a", ylabel="b").plot(), "shape")


@pytest.mark.parametrize("name", ["$_$", "$20k-$50k"])
def test_names_with_dollars_are_no_mathematics(name):
    scores = LogisticRegression().fit(X, Y).predict_proba(X)[:, [1]]
    y = np.where(Y == 1, name, "no")
    clf = tb.calibrate(tb.Scores(0, name), scores, y, limits=[tb.rates.miss(name) <= 0.9])
    limits = LimitsDisplay.from_certificate(clf.certificate_)
    curve = TradeOffDisplay.from_curve(clf.tradeoff())
    for text in (*limits.ax_.texts, curve.ax_.xaxis.label):
        text.figure.canvas.draw()
        assert name in text.get_text().replace("\\$", "$")
        assert not matplotlib.cbook.is_math_text(text.get_text())


def test_matplotlib_and_pytorch_are_imported_only_when_asked_for():
    asserted = "assert not {'matplotlib', 'torch'} & {*sys.modules}"
    code = f"import sys, tailboost.plotting, tailboost.app.cli; {asserted}"
    subprocess.run([sys.executable, "-c", code], check=True)
