"""CostDisplay: it draws the numbers of the fit, several estimators share a picture, bad input is named."""

import numpy as np
import pytest
from conftest import noisy

import tailboost as tb
from tailboost.learners import HistTreeClassifier, StumpClassifier
from tailboost.plotting import CostDisplay

pytest.importorskip("matplotlib").use("Agg")


@pytest.mark.parametrize("K", [2, 3])
def test_costs_are_those_of_the_fit(K):
    X, y = noisy(0, K=K)
    s = np.random.default_rng(0).integers(1, 4, len(y))
    labels = np.array(["a", "b", "c"])[y]
    clf = tb.VadaBoostClassifier(HistTreeClassifier(max_depth=1), variance_weight=0.3, n_estimators=12)
    clf.fit(X, labels, sample_weight=s)
    display = CostDisplay.from_estimator(clf, X, labels, sample_weight=s)
    assert display.variance_weight == 0.3
    np.testing.assert_allclose(display.log_cost[1:], clf.log_costs_, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.log_cost)
    assert display.log_cost[0] == display.log_mean[0] == 0
    assert display.log_variance[0] < -60 or np.isneginf(display.log_variance[0])
    total = np.exp(display.log_mean) + 0.3 * np.exp(display.log_variance)
    np.testing.assert_allclose(np.log(total), display.log_cost, atol=1e-12)


def test_more_weight_than_one():
    X, y = noisy(0)
    clf = tb.EBBoostClassifier(variance_weight=5.0, n_estimators=12).fit(X, y)
    display = CostDisplay.from_estimator(clf, X, y)
    np.testing.assert_allclose(display.log_cost[1:], clf.log_costs_, rtol=0, atol=1e-9)
    total = np.exp(display.log_mean) + 5 * np.exp(display.log_variance)
    np.testing.assert_allclose(np.log(total), display.log_cost, atol=1e-12)


def test_several_estimators_in_one_picture():
    X, y = noisy(0)
    ax = None
    for clf in (
        tb.AdaBoostClassifier(StumpClassifier(), n_estimators=9),
        tb.EBBoostClassifier(n_estimators=9),
        tb.VadaBoostClassifier(StumpClassifier(), n_estimators=9),
    ):
        display = CostDisplay.from_estimator(clf.fit(X, y), X, y, ax=ax, parts=ax is None)
        ax = display.ax_
    costs = [line for line in ax.lines if line.get_gid() == "cost"]
    assert len({line.get_color() for line in costs}) == 3
    assert len(ax.lines) == 5
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[:2] == ["AdaBoostClassifier, λ = 0.5", "EBBoostClassifier, λ = 0.5"]


def test_rounding_is_not_drawn():
    """Before the first round all margins are 0: what is left of the variance is rounding, of any size."""
    X, y = noisy(0)
    clf = tb.VadaBoostClassifier(StumpClassifier(), n_estimators=5).fit(X, y)
    display = CostDisplay.from_estimator(clf, X, y)
    drawn = display.variance_line_.get_ydata()
    assert np.isnan(drawn[0])
    np.testing.assert_array_equal(drawn[1:], display.log_variance[1:])
    low, high = display.ax_.get_ylim()
    assert high - low < 20
    plot = CostDisplay([0, -1], [0, -2], [-141.0, -1], variance_weight=1.0).plot()
    assert np.isnan(plot.variance_line_.get_ydata()[0])


def test_options_of_the_line_win():
    display = CostDisplay([0, -1], [0, -2], [-np.inf, -1], variance_weight=1.0).plot(
        lw=3, color="red", parts=False
    )
    assert (display.line_.get_linewidth(), display.line_.get_color()) == (3, "red")
    assert display.mean_line_ is None


def test_refusals():
    X, y = noisy(0)
    clf = tb.EBBoostClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match="variance_weight must be"):
        CostDisplay.from_estimator(clf, X, y, variance_weight=-1)
    with pytest.raises(ValueError, match=r"y holds labels not seen in fit: \[7\]"):
        CostDisplay.from_estimator(clf, X, np.where(y == 1, 7, 0))
    with pytest.raises(ValueError, match=r"y has .* rows, X has"):
        CostDisplay.from_estimator(clf, X, y[:-1])
    with pytest.raises(ValueError, match="one shape"):
        CostDisplay([0, 1], [0], [0], variance_weight=0.5)
