"""Displays of the papers' figures without an experiment: drawn values equal computed values."""

import doctest

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

import tailboost as tb
from experiments import _margins, _step_cost
from experiments._margins import MarginDisplay
from experiments._radar import SHOWN, radar
from experiments._step_cost import StepCostDisplay
from experiments.papers import RESULTS, load

pytestmark = pytest.mark.experiments


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("module", [_margins, _step_cost])
def test_examples_run(module):
    assert doctest.testmod(module).failed == 0


# --- margins -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3])
def test_margins_are_shares_of_the_steps(K):
    X, y = make_classification(150, 6, n_informative=4, n_classes=K, flip_y=0.2, random_state=0)
    weight = np.arange(150) % 3 + 0.5
    clf = tb.VadaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6).fit(X, y)
    right = np.array([member.predict(X) == y for member in clf.estimators_])
    a = clf.estimator_weights_ / clf.estimator_weights_.sum()
    truth = a @ np.where(right, 1.0, -1.0 / (K - 1))
    display = MarginDisplay.from_estimator(clf, X, y, sample_weight=weight)
    for at in np.linspace(-1, 1, 41) + 1e-3:
        here = np.searchsorted(display.margins, at, side="right")
        share = display.shares[here - 1] if here else 0.0
        assert share == pytest.approx(weight[truth <= at].sum() / weight.sum(), abs=1e-9)
    if K == 2:  # up to 0 lie the errors
        error = weight[clf.predict(X) != y].sum() / weight.sum()
        assert display.shares[np.searchsorted(display.margins, 0.0) - 1] == pytest.approx(error)
    np.testing.assert_array_equal(display.line_.get_ydata()[1:], display.shares)
    both = MarginDisplay.from_estimator(
        tb.AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=6).fit(X, y),
        X,
        y,
        ax=display.ax_,
    )
    assert both.line_.get_color() != display.line_.get_color()
    assert [text.get_text() for text in both.ax_.get_legend().get_texts()] == [
        "VadaBoostClassifier",
        "AdaBoostClassifier",
    ]


def test_margin_refusals():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match="LogisticRegression has no margins"):
        MarginDisplay.from_estimator(LogisticRegression().fit(X, y), X, y)
    clf = tb.AdaBoostClassifier(n_estimators=2)
    with pytest.raises(NotFittedError):
        MarginDisplay.from_estimator(clf, X, y)
    with pytest.raises(ValueError, match=r"y has .* rows, X has"):
        MarginDisplay.from_estimator(clf.fit(X, y), X, y[:-1])
    for bad in ([], [np.nan], [[1.0]]):
        with pytest.raises(ValueError, match="margins must be"):
            MarginDisplay(bad)


# --- the cost along a step ---------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("t", [1, 4])
def test_cost_lies_below_its_bound(K, t):
    X, y = make_classification(200, 6, n_informative=4, n_classes=K, flip_y=0.2, random_state=0)
    weight = np.arange(200) % 3 + 1.0
    clf = tb.VadaBoostClassifier(DecisionTreeClassifier(max_depth=2, random_state=0), n_estimators=6)
    clf.fit(X, np.array(["a", "b", "c"])[y], sample_weight=weight)
    display = StepCostDisplay.from_estimator(
        clf, X, np.array(["a", "b", "c"])[y], boosting_round=t, sample_weight=weight
    )
    assert display.step == clf.estimator_weights_[t - 1]
    assert display.cost[0] == pytest.approx(display.bound[0])
    assert (display.cost <= display.bound + 1e-12).all()
    # The dot marks the smallest bound; the decrease of the cost equals the fit's.
    assert display.steps[display.bound.argmin()] == pytest.approx(display.step, abs=3 * display.step / 200)
    at = np.interp(display.step, display.steps, display.cost)
    before = clf.log_costs_[t - 2] if t > 1 else 0.0
    assert np.log(at / display.cost[0]) == pytest.approx(clf.log_costs_[t - 1] - before, abs=1e-3)
    np.testing.assert_array_equal(display.cost_line_.get_ydata(), display.cost)
    np.testing.assert_array_equal(display.bound_line_.get_ydata(), display.bound)


def test_step_cost_refusals():
    X, y = load_iris(return_X_y=True)
    clf = tb.VadaBoostClassifier(DecisionTreeClassifier(), n_estimators=2).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="boosting_round must be"):
        StepCostDisplay.from_estimator(clf, X[:100], y[:100], boosting_round=9)
    with pytest.raises(ValueError, match="round 1 makes no error"):
        StepCostDisplay.from_estimator(clf, X[:100], y[:100])
    with pytest.raises(ValueError, match="labels not seen in fit"):
        StepCostDisplay.from_estimator(clf, X, y)
    strong = tb.EBBoostClassifier(variance_weight=2.0, n_estimators=2).fit(X[50:], y[50:])
    with pytest.raises(ValueError, match="variance_weight must be"):
        StepCostDisplay.from_estimator(strong, X[50:], y[50:])
    with pytest.raises(ValueError, match="one shape"):
        StepCostDisplay([0, 1], [1, 2], [1], step=0.5)


def test_a_step_cost_needs_a_fitted_additive_classifier():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match="DecisionTreeClassifier has no scores by round"):
        StepCostDisplay.from_estimator(DecisionTreeClassifier().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        StepCostDisplay.from_estimator(tb.VadaBoostClassifier(), X, y)


# --- a radar of class errors -------------------------------------------------------------------------------


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the results do not come with the package")
@pytest.mark.parametrize("name", ["cifar10", "mnist-imbalanced"])
def test_a_radar_draws_the_class_errors_of_a_record(name):
    record = load(name)
    figure = radar(record, plt)
    assert len(figure.axes) == len(record["results"])
    for ax, by_method in zip(figure.axes, record["results"].values(), strict=True):
        shown = [by_method[method]["class errors"] for method in SHOWN if method in by_method]
        assert len(ax.lines) == len(shown) >= 3
        for line, errors in zip(ax.lines, shown, strict=True):
            np.testing.assert_allclose(line.get_ydata(), 100 * np.append(errors, errors[0]))
            assert len(np.unique(line.get_xdata())) == len(errors)
        assert (ax.get_rmin(), ax.get_rmax()) == (0, 100)


@pytest.mark.parametrize("record", [{}, {"results": {"a": {"cross_entropy": {"test": {}}}}}])
def test_a_radar_of_nothing_is_refused(record):
    with pytest.raises(ValueError, match="the record has no class errors of cross_entropy, naive"):
        radar(record, plt)
