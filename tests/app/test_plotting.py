"""Displays draw the computed numbers and follow scikit-learn's conventions."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import zero_one_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import metrics, plotting
from tailboost.app.plotting import CVaRCurveDisplay, TradeOffDisplay

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

ALPHAS = np.array([0.02, 0.1, 0.4, 1.0])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def case():
    X, y = make_classification(300, n_classes=3, n_informative=5, flip_y=0.3, random_state=0)
    names = np.array(["x", "y", "z"])[y]
    return SimpleNamespace(
        X=X,
        y=names,
        groups=np.where(X[:, 0] > 0, "right", "left"),
        weight=np.linspace(0, 2, 300),
        clf=LogisticRegression().fit(X, names),
    )


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- CVaR curve --------------------------------------------------------------------------------------------


def test_curve_shows_the_metric(case):
    display = CVaRCurveDisplay.from_estimator(
        case.clf, case.X, case.y, alphas=ALPHAS, sample_weight=case.weight
    )
    error = np.average(case.clf.predict(case.X) != case.y, weights=case.weight)
    expected = np.minimum(1.0, error / ALPHAS)  # of a deterministic rule; predict_proba has another curve
    np.testing.assert_allclose(display.line_.get_xdata(), ALPHAS)
    np.testing.assert_allclose(display.line_.get_ydata(), expected)
    np.testing.assert_allclose(display.guess_line_.get_ydata(), 2 / 3)
    assert display.ax_.figure is display.figure_
    assert labels_of(display.ax_) == ["LogisticRegression, predict", "random guess (0.667)"]


def test_one_fit_gives_the_curve_of_all_alphas():
    """Figure 1 of Zhai et al. 2021: at each α the classifier re-weighted for this α."""
    X, y = load_wine(return_X_y=True)
    clf = tb.AdaLPBoostClassifier("tree", n_estimators=6, random_state=0)
    pipe = make_pipeline(StandardScaler(), clf).fit(X[::2], y[::2])
    weight = np.arange(1.0, len(y[1::2]) + 1)
    display = CVaRCurveDisplay.from_estimator(
        pipe, X[1::2], y[1::2], alphas=ALPHAS, sample_weight=weight, reweight=True
    )
    rows = pipe[0].transform(X[1::2])
    expected = [
        metrics.cvar_zero_one_loss(
            y[1::2], pipe[1].reweight(alpha=a).predict_distribution(rows), a, sample_weight=weight
        )
        for a in ALPHAS
    ]
    np.testing.assert_allclose(display.line_.get_ydata(), expected, atol=1e-12)
    assert labels_of(display.ax_)[0] == "Pipeline, randomised rule"
    fixed = CVaRCurveDisplay.from_estimator(pipe, X[1::2], y[1::2], alphas=ALPHAS, sample_weight=weight)
    assert (fixed.values != display.values).any()
    with pytest.raises(ValueError, match="alpha_path, got LogisticRegression"):
        CVaRCurveDisplay.from_estimator(LogisticRegression().fit(X, y), X, y, reweight=True)


def test_curve_from_predictions_is_the_same(case):
    a = CVaRCurveDisplay.from_estimator(case.clf, case.X, case.y)
    answers = case.clf.predict(case.X)[:, None] == case.clf.classes_
    b = CVaRCurveDisplay.from_predictions(case.y, answers.astype(float), name="again")
    np.testing.assert_array_equal(a.values, b.values)
    assert labels_of(b.ax_)[0] == "again"


def test_every_classifier_is_drawn_by_its_answers():
    """The mean over all rows, α = 1, is the error of `predict`, or that expected of a randomised rule."""
    X, y = make_classification(400, n_informative=4, flip_y=0.4, random_state=1)
    train, test = slice(0, 200), slice(200, None)
    others = [LogisticRegression(), make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3))]
    ours = tb.AdaLPBoostClassifier("tree", alpha=0.5, n_estimators=8, random_state=0)
    alone = tb.AdaBoostClassifier("tree", n_estimators=3, random_state=0)
    for clf in (*others, ours, alone):
        clf.fit(X[train], y[train])
        display = CVaRCurveDisplay.from_estimator(clf, X[test], y[test], alphas=[0.05, 1.0])
        error = zero_one_loss(y[test], clf.predict(X[test]))
        if clf is ours:
            shares = clf.predict_distribution(X[test])
            losses = 1 - shares[np.arange(200), y[test]]
            assert display.values == pytest.approx([np.sort(losses)[-10:].mean(), losses.mean()])
            assert labels_of(display.ax_)[0] == "AdaLPBoostClassifier, randomised rule"
            continue
        assert display.values == pytest.approx([min(1.0, error / 0.05), error])
        assert labels_of(display.ax_)[0].endswith(", predict")
        if clf is not alone:  # the older curve: the expected loss of a draw from P(y | x)
            of_probabilities = 1 - clf.predict_proba(X[test])[np.arange(200), y[test]].mean()
            assert abs(display.values[1] - of_probabilities) > 0.01
    assert display.ax_.get_ylabel() == "CVaR of the 0/1 loss of answers"


def test_a_test_set_may_lack_a_class(case):
    few = case.y != "z"
    display = CVaRCurveDisplay.from_estimator(case.clf, case.X[few], case.y[few], alphas=ALPHAS)
    assert display.n_classes == 3


def test_shared_axes_have_one_guess_line_and_distinct_curves(case):
    first = CVaRCurveDisplay.from_estimator(case.clf, case.X, case.y, name="a")
    second = CVaRCurveDisplay.from_estimator(case.clf, case.X, case.y, name="b", ax=first.ax_)
    assert second.guess_line_ is first.guess_line_
    assert labels_of(first.ax_) == ["a, predict", "random guess (0.667)", "b, predict"]
    assert first.line_.get_color() != second.line_.get_color()
    third = CVaRCurveDisplay(ALPHAS, ALPHAS, n_classes=2).plot(ax=first.ax_)
    assert third.guess_line_ is not first.guess_line_


def test_band_and_keywords():
    display = CVaRCurveDisplay(
        ALPHAS, np.full(4, 0.4), n_classes=2, lower=np.full(4, 0.3), upper=np.full(4, 0.5)
    )
    assert display.plot(color="k", lw=5, name="mine") is display
    assert display.band_ is not None
    assert display.line_.get_linewidth() == 5
    assert display.line_.get_color() == "k"
    assert display.ax_.get_xscale() == "log"


def test_many_curves_differ():
    ax = plt.figure().gca()
    looks = {
        (d.line_.get_color(), d.line_.get_linestyle())
        for d in (CVaRCurveDisplay(ALPHAS, ALPHAS, n_classes=2).plot(ax=ax) for _ in range(12))
    }
    assert len(looks) == 12


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"n_classes": 1}, "n_classes"),
        ({"values": ALPHAS[1:]}, "values has shape"),
        ({"lower": ALPHAS}, "lower and upper"),
        ({"lower": ALPHAS, "upper": ALPHAS[1:]}, "upper has shape"),
    ],
)
def test_curve_checks_its_arguments(parts, message):
    with pytest.raises(ValueError, match=message):
        CVaRCurveDisplay(**({"alphas": ALPHAS, "values": ALPHAS, "n_classes": 2} | parts))


# --- trade-off ---------------------------------------------------------------------------------------------


def test_the_trade_off_and_other_classifiers(case):
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    clf = tb.GroupDROBoostClassifier(tree, n_estimators=4, error_budget=0.02, random_state=0)
    clf.fit(case.X[:200], case.y[:200])
    X, y, weight = case.X[200:], case.y[200:], case.weight[200:]
    display = TradeOffDisplay.from_estimator(
        clf, X, y, others={"logistic": case.clf}, sample_weight=weight, name="ours", color="black"
    )
    curve = clf.tradeoff()
    np.testing.assert_array_equal(display.selection_line_.get_xdata(), curve.values.limited)
    np.testing.assert_array_equal(display.selection_line_.get_ydata(), curve.values.value)
    limited, value = curve.predicted(X, y, sample_weight=weight)
    np.testing.assert_allclose(display.line_.get_xdata(), limited)
    np.testing.assert_allclose(display.line_.get_ydata(), value)
    for line, other in [(display.point_, clf), (display.other_points_["logistic"], case.clf)]:
        answers = other.predict(X)
        assert line.get_xdata()[0] == pytest.approx(zero_one_loss(y, answers, sample_weight=weight))
        errors = metrics.class_errors(y, answers, sample_weight=weight)
        assert line.get_ydata()[0] == pytest.approx(max(errors.values()))
    assert display.line_.get_color() == "black"
    assert display.ax_.get_xlabel() == "error"
    assert display.ax_.get_ylabel() == "largest error by class"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["ours", "on the selection data", "ours as fitted", "logistic"]
    alone = TradeOffDisplay.from_estimator(clf, X, y, show_selection=False)
    assert alone.selection_line_ is None
    assert alone.name == "GroupDROBoostClassifier"


def test_curves_of_several_limits_share_axes():
    ax = plt.figure().gca()
    displays = [TradeOffDisplay([0.1, 0.2], [0.5, x], name=f"{x} deferred").plot(ax=ax) for x in (0.3, 0.2)]
    assert labels_of(ax) == ["0.3 deferred", "0.2 deferred"]
    assert len({display.line_.get_color() for display in displays}) == 2


def test_a_trade_off_needs_arrays_of_one_shape():
    with pytest.raises(ValueError, match="must have one shape"):
        TradeOffDisplay([0.1, 0.2], [0.3])


# --- all of them -------------------------------------------------------------------------------------------

DISPLAYS = {
    "CVaRCurveDisplay": lambda: CVaRCurveDisplay(ALPHAS, ALPHAS, n_classes=2, name="a"),
    "TradeOffDisplay": lambda: TradeOffDisplay(
        [0.1, 0.2], [0.5, 0.3], selection=([0.1], [0.4]), point=(0.1, 0.4), others={"b": (0.2, 0.6)}
    ),
}


def test_every_display_is_tested():
    assert sorted(DISPLAYS) == sorted(plotting.__all__)


@pytest.mark.parametrize("name", DISPLAYS)
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_colours_stand_out_from_the_background(name, style):
    """Lines and bars keep a contrast of 3 : 1 (WCAG 2.1, graphical objects) in light and dark styles."""
    with plt.style.context(style):
        display = DISPLAYS[name]().plot()
        display.figure_.canvas.draw()
        ground = luminance(display.ax_.get_facecolor())
        drawn = [line.get_color() for line in display.ax_.lines]
        drawn += [bar.get_facecolor() for bar in display.ax_.patches]
        for colour in drawn:
            bright, dark = sorted([luminance(colour), ground], reverse=True)
            assert (bright + 0.05) / (dark + 0.05) > 2.95


def luminance(colour):
    """Relative luminance of sRGB."""
    c = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("name", DISPLAYS)
def test_without_matplotlib(monkeypatch, name):
    display = DISPLAYS[name]()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=rf"{name}\.plot needs matplotlib.*tailboost\[app\]"):
        display.plot()


@pytest.mark.parametrize("name", DISPLAYS)
def test_drawn_on_given_axes(name):
    _, ax = plt.subplots(figsize=(3, 2))
    display = DISPLAYS[name]()
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_matplotlib_is_imported_late():
    code = "import sys, tailboost.app.plotting; assert 'matplotlib' not in sys.modules, 'too early'"
    subprocess.run([sys.executable, "-c", code], check=True)
