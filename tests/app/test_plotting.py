"""Displays draw the computed numbers and follow scikit-learn's conventions."""

import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.datasets import load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import zero_one_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import metrics, plotting
from tailboost.core.limit_lines import LimitLine
from tailboost.plotting import (
    CVaRCurveDisplay,
    GroupsDisplay,
    LimitsDisplay,
    MonitorDisplay,
    TradeOffDisplay,
)

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


def drawn(line):
    """Return the points of a line; NaN between two of them marks a jump."""
    points = np.column_stack([line.get_xdata(), line.get_ydata()])
    return points[~np.isnan(points[:, 0])]


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
    fixed = CVaRCurveDisplay.from_estimator(pipe, X[1::2], y[1::2], alphas=ALPHAS, sample_weight=weight)
    assert (fixed.values != display.values).any()
    with pytest.raises(ValueError, match="alpha_path"):
        CVaRCurveDisplay.from_estimator(LogisticRegression().fit(X, y), X, y, reweight=True)


def test_curve_from_predictions_is_the_same(case):
    a = CVaRCurveDisplay.from_estimator(case.clf, case.X, case.y)
    answers = case.clf.predict(case.X)[:, None] == case.clf.classes_
    b = CVaRCurveDisplay.from_predictions(case.y, answers.astype(float), name="again")
    np.testing.assert_array_equal(a.values, b.values)
    assert labels_of(b.ax_)[0] == "again"


def test_every_classifier_is_drawn_by_its_answers():
    """The mean over all rows, α = 1, is the error of `predict`, or of a randomised rule in expectation."""
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
            continue
        assert display.values == pytest.approx([min(1.0, error / 0.05), error])
        assert labels_of(display.ax_)[0].endswith(", predict")
        if clf is not alone:  # the older curve: the expected loss of a draw from P(y | x)
            of_probabilities = 1 - clf.predict_proba(X[test])[np.arange(200), y[test]].mean()
            assert abs(display.values[1] - of_probabilities) > 0.01


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
        ({"values": ALPHAS[1:]}, "values"),
        ({"lower": ALPHAS}, "lower"),
        ({"lower": ALPHAS, "upper": ALPHAS[1:]}, "upper"),
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
    np.testing.assert_array_equal(drawn(display.selection_line_), np.array(curve.values).T)
    np.testing.assert_allclose(drawn(display.line_), np.array(curve.predicted(X, y, sample_weight=weight)).T)
    for line, other in [(display.point_, clf), (display.other_points_["logistic"], case.clf)]:
        answers = other.predict(X)
        assert line.get_xdata()[0] == pytest.approx(zero_one_loss(y, answers, sample_weight=weight))
        errors = metrics.class_errors(y, answers, sample_weight=weight)
        assert line.get_ydata()[0] == pytest.approx(max(errors.values()))
    assert display.line_.get_color() == "black"
    assert display.ax_.get_xlabel() == "error"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["ours", "on the selection data", "selected rule", "plain model", "logistic"]
    plain = clf.classes_[clf.predict_proba(X).argmax(axis=1)]
    assert display.others["plain model"][0] == pytest.approx(zero_one_loss(y, plain, sample_weight=weight))
    assert TradeOffDisplay.from_estimator(clf, X, y).name == "GroupDROBoostClassifier"


def test_curves_of_several_limits_share_axes():
    ax = plt.figure().gca()
    displays = [TradeOffDisplay([0.1, 0.2], [0.5, x], name=f"{x} deferred").plot(ax=ax) for x in (0.3, 0.2)]
    assert labels_of(ax) == ["0.3 deferred", "0.2 deferred"]
    assert len({display.line_.get_color() for display in displays}) == 2


def test_a_trade_off_needs_arrays_of_one_shape():
    with pytest.raises(ValueError, match="shape"):
        TradeOffDisplay([0.1, 0.2], [0.3])


def test_no_line_crosses_a_jump():
    """A straight line joined .855 and 1.0, although no rule lies between."""
    display = TradeOffDisplay([0.8, 0.81, 0.82, 1.0], [0.1, 0.101, 0.102, 0.14], limit=0.81).plot()
    x = display.line_.get_xdata()
    np.testing.assert_array_equal(x, [0.8, 0.81, 0.82, np.nan, 1.0])
    assert display.limit_line_.get_xdata()[0] == 0.81
    assert labels_of(display.ax_) == ["limit 0.81"]


@pytest.fixture(scope="module")
def stated():
    """A rule within a limit by group, and fresh rows."""
    X, y = make_classification(3000, n_informative=4, flip_y=0.2, weights=[0.7], random_state=3)
    groups = {"side": np.where(X[:, 1] > 0, "right", "left")}
    model = LogisticRegression().fit(X[:800], y[:800])
    limits = [tb.rates.miss(1, by="side") <= 0.35]

    def of(part):
        return {name: column[part] for name, column in groups.items()}

    selection, fresh, new = (slice(*ends) for ends in ((800, 1400), (1400, 2200), (2200, 3000)))
    rule = tb.tune(model, X[selection], y[selection], groups=of(selection), limits=limits)
    return SimpleNamespace(
        model=model, rule=rule, certified=tb.calibrate(rule, X[fresh], y[fresh], groups=of(fresh)),
        X=X[new], y=y[new], groups=of(new), limits=limits,
    )  # fmt: skip


def test_a_curve_marks_the_selected_rule_and_its_limit(stated):
    display = stated.rule.tradeoff().plot()
    rates = {line.subgroup: line.value for line in stated.rule.rates_ if line.subgroup in ("left", "right")}
    error = next(line.value for line in stated.rule.rates_ if line.rate == "error")
    assert drawn(display.point_).tolist() == [[max(rates.values()), error]]
    assert display.limit_line_.get_xdata()[0] == 0.35
    assert labels_of(display.ax_) == [display.name, "limit 0.35", "selected rule"]


# --- limits ------------------------------------------------------------------------------------------------


def test_limits_of_rows_end_at_the_rates(stated):
    """Each bar is the share of missed rows of its group, with the Clopper–Pearson interval."""
    display = LimitsDisplay.from_estimator(stated.rule, stated.X, stated.y, groups=stated.groups)
    missed = stated.rule.predict(stated.X) == 0
    for line, bar, group in zip(display.shown_, display.bars_.patches, ("left", "right"), strict=True):
        of_group = (stated.groups["side"] == group) & (stated.y == 1)
        n, k = of_group.sum(), (missed & of_group).sum()
        assert bar.get_width() == line.value == pytest.approx(k / n)
        ends = beta.ppf([0.025, 0.975], [k, k + 1], [n - k + 1, n - k])
        assert (line.low, line.high) == pytest.approx(tuple(ends))
        assert line.good == (k / n <= 0.35)
        assert line.name.endswith(f": {group}")
    given = LimitsDisplay.from_predictions(
        stated.y, stated.rule.predict(stated.X), limits=stated.limits, groups=stated.groups
    )
    assert given.lines == display.lines


def test_certified_limits_end_at_the_certified_bounds(stated):
    certificate = stated.certified.certificate_
    display = stated.certified.plot_limits()
    assert [line.high for line in display.lines] == [bound.upper for bound in certificate.bounds]
    assert [line.verdict for line in display.lines] == ["certified"] * 2
    words = [text.get_text() for text in display.ax_.texts]
    assert words[0].startswith("✓ certified: ")
    assert certificate.plot().lines == display.lines
    strict = tb.certify(
        stated.rule, stated.X, stated.y, groups=stated.groups, rates=["miss(1, by=side) <= .01"]
    ).plot()
    assert {line.good for line in strict.lines} == {False}
    assert stated.rule.plot_limits().lines == stated.rule.rates_.plot().lines
    with pytest.raises(ValueError, match="limit"):
        tb.tune(stated.model, stated.X, stated.y).plot_limits()


def test_notebooks_show_limits_before_the_diagram(stated):
    for shown, verdict in ((stated.rule, "kept on these rows"), (stated.certified, "certified")):
        page = shown._repr_html_()
        assert page.index(f">{verdict}<") < page.index("sk-container-id")
        assert f">{verdict}<" in shown._repr_mimebundle_()["text/html"]
    html = stated.certified.certificate_._repr_html_()
    assert html.index("all limits hold together") < html.index("miss rate")
    unfitted = tb.RobustMixtureClassifier([("m", LogisticRegression())])
    assert "<table" not in unfitted._repr_html_().split("sk-top-container")[0]


def test_notebooks_show_thresholds_of_a_rule():
    """A rule alone, its classifier and the rule of a file show the same table."""
    pd = pytest.importorskip("pandas")
    from tailboost.storage.rule_classifier import RuleClassifier

    band = [(None, "<ok>"), (0.25, "human review"), (0.75, "toxic")]
    rule = tb.ThresholdRule("p", ["<ok>", "toxic"], ["de", "en"], [band, band[:1]], "probability")
    table = [
        '<th scope="col">group</th><th scope="col">p</th><th scope="col">answer</th>',
        ">de</th><td>at least 0.75</td><td>toxic</td>",
        ">de</th><td>at least 0.25 and below 0.75</td><td>human review</td>",
        ">de</th><td>below 0.25</td><td>&lt;ok&gt;</td>",
        ">en</th><td>every row</td><td>&lt;ok&gt;</td>",
    ]
    html = rule._repr_html_()
    assert html.count("<tr>") == len(table)
    assert all(row in html for row in table)
    stored = RuleClassifier(rule, tb.Scores("p", "toxic"), [tb.rates.parse("miss(toxic) <= .2")])
    page = stored._repr_html_()
    assert (
        page.index("Limits of the selection")
        < page.index("miss rate of &#x27;toxic&#x27;")
        < page.index(html)
    )
    rng = np.random.default_rng(0)
    p = rng.random(400)
    clf = tb.tune(tb.Scores("p", 1), pd.DataFrame({"p": p}), (p > rng.random(400)).astype(int))
    assert clf.rule_._repr_html_() in clf._repr_html_()
    mixture = tb.tune(LogisticRegression().fit(p[:, None], p > 0.5), p[:, None], p > rng.random(400))
    assert "LogisticRegression_True" in mixture._repr_html_()


def test_long_names_stay_inside_the_figure():
    line = LimitLine("certified", True, "a rate with a long name " * 9, "≤ 1", "0.1", 0.1, None, 0.2, 0.3)
    display = LimitsDisplay([line], name="n").plot()
    display.figure_.canvas.draw()
    for text in display.ax_.texts:
        assert text.get_window_extent().x1 <= display.figure_.bbox.x1


def test_of_many_limits_the_broken_ones_are_drawn():
    lines = [LimitLine("kept", True, str(i), "≤ 1", "0.1", 0.1, None, None, 0.3) for i in range(40)]
    lines[-1] = LimitLine("broken", False, "last", "≤ 1", "0.9", 0.9, None, None, 0.3)
    display = LimitsDisplay(lines).plot()
    assert display.shown_[0].name == "last"
    _, (_, caps, _) = display.ax_.containers
    assert np.isnan([cap.get_xdata() for cap in caps]).all()  # without an interval no whisker


# --- groups, monitor ----------------------------------------------------------------------------------------


def test_groups_before_and_after(stated):
    display = GroupsDisplay.from_estimators(
        stated.model, stated.rule, stated.X, stated.y, rate="miss(1, by=side) <= .35", groups=stated.groups
    )
    for bars, one in ((display.before_, stated.model), (display.after_, stated.rule)):
        errors = metrics.group_errors(
            stated.y[stated.y == 1],
            one.predict(stated.X)[stated.y == 1],
            stated.groups["side"][stated.y == 1],
        )
        widths = [patch.get_width() for patch in bars]
        assert widths == pytest.approx(list(errors.values()))
    assert display.groups == ["left", "right"]
    assert [segment[0][0] for segment in display.limits_.get_segments()] == [0.35, 0.35]
    with pytest.raises(TypeError, match="rate"):
        GroupsDisplay.from_estimators(stated.model, stated.rule, stated.X, stated.y, rate=3)
    with pytest.raises(ValueError, match="after"):
        GroupsDisplay(["a"], [[1, 1, 1]], [[1, 1]])


def test_the_monitor_shows_the_rate_of_each_month_and_the_alarm(stated):
    monitor = tb.Monitor(stated.certified)
    months = [slice(k, k + 200) for k in range(0, 800, 200)]
    for k, month in enumerate(months):
        y = stated.y[month] if k < 2 else 1 - stated.y[month]  # all labels swapped from the third month on
        side = {"side": stated.groups["side"][month]}
        monitor = monitor.add(stated.X[month], y, groups=side, name=f"month {k}")
    display = monitor.plot()
    for j, line in zip(display.shown_, display.lines_, strict=True):
        rates = [batch.errors[j][1] for batch in monitor.batches]
        np.testing.assert_array_equal(line.get_ydata(), rates)
        of_first = (stated.groups["side"][months[0]] == ("left", "right")[j]) & (stated.y[months[0]] == 1)
        assert rates[0] == (stated.certified.predict(stated.X[months[0]])[of_first] == 0).mean()
    assert display.alarms == [2, 2]
    assert "✗ alarm" in " ".join(text.get_text() for text in display.axes_[0].texts)
    for panel, bound in zip(display.axes_, monitor.certificate.tested, strict=True):
        assert f"bound {bound.limit}" in [text.get_text() for text in panel.texts]
    with pytest.raises(ValueError, match="none"):
        tb.Monitor(stated.certified).plot()


def test_a_long_name_of_a_bound_is_cut_within_the_figure_and_the_bound_is_not():
    name = "selection rate of 'low' by race: ratio of the smallest to the largest rate"
    display = MonitorDisplay(["a", "b"], [name], [[0.9], [0.1]], [0.8], [np.nan], [1])
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(5, 2.5), dpi=72, layout="constrained")
    display.plot(figure.subplots())
    figure.draw_without_rendering()
    (panel,) = display.axes_
    cut, bound = (text for text in panel.texts if text.get_text().startswith(("✗", "bound")))
    assert "…" in cut.get_text()
    assert bound.get_text() == "bound ≥ 0.8"
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in (cut, bound))


@pytest.mark.parametrize(
    ("further", "is_cut", "smallest", "largest"), [([], False, 0.75, 0.999), ([90 * "x"], True, 0.75, 0.75)]
)
def test_titles_of_limits_are_smaller_on_a_phone_and_cut_only_if_this_does_not_do(
    further, is_cut, smallest, largest
):
    """The text of a page is 12 points, its figure on a phone 360 wide. All lines have one size."""
    matplotlib = pytest.importorskip("matplotlib")
    titles = ["Tuned XGBoost + forest", "Tuned forest, class weights", "Tuned forest", *further]
    lines = [
        LimitLine("not significant", None, f"instead of {title}", "", "−1 points", -0.01, -0.051, 0.031)
        for title in titles
    ]
    with matplotlib.rc_context({"font.size": 12}):
        figure = matplotlib.figure.Figure(figsize=(5, 4), dpi=72, layout="constrained")
        display = LimitsDisplay(lines).plot(figure.subplots())
        figure.draw_without_rendering()
    texts = display.ax_.texts
    assert any("…" in text.get_text() for text in texts) == is_cut
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in texts)
    (size,) = {text.get_size() for text in texts}
    assert smallest <= round(size / 12, 6) <= largest
    numbers = [tick.get_window_extent() for tick in display.ax_.get_xticklabels() if tick.get_text()]
    assert all(left.x1 < right.x0 for left, right in pairwise(numbers))


def test_drawings_have_percent_where_the_limits_have():
    answers, labels = ["yes", "no", "no", "yes"], ["yes", "yes", "no", "no"]
    for bound, in_percent in (("60%", True), (".6", False)):
        limits = LimitsDisplay.from_predictions(labels, answers, limits=[f"miss(yes) <= {bound}"])
        limits.figure_.draw_without_rendering()
        ticks = [text.get_text() for text in limits.ax_.get_xticklabels()]
        assert {tick.endswith(" %") for tick in ticks} == {in_percent}
        monitor = MonitorDisplay(["a"], ["x"], [[0.1]], [np.nan], [0.6], [None], in_percent=in_percent)
        monitor.plot().figure_.draw_without_rendering()
        (panel,) = monitor.axes_
        assert {tick.get_text().endswith(" %") for tick in panel.get_yticklabels()} == {in_percent}
        assert ("bound ≤ 60 %" in [text.get_text() for text in panel.texts]) == in_percent
        groups = GroupsDisplay(["a"], [[0.5, 0.4, 0.6]], [[0.2, 0.1, 0.3]], in_percent=in_percent).plot()
        assert groups.ax_.texts[0].get_text() == ("a: 50.0 % → 20.0 %" if in_percent else "a: 0.500 → 0.200")
        groups.figure_.draw_without_rendering()
        ticks = [text.get_text() for text in groups.ax_.get_xticklabels()]
        assert {tick.endswith(" %") for tick in ticks} == {in_percent}


def test_without_numbers_each_bar_is_as_thick_and_below_its_name():
    lines = [LimitLine("kept", True, name, "≤ 1", "0.1", 0.1, None, None, 0.3) for name in "ab"]
    heights = {}
    for numbers in (True, False):
        display = LimitsDisplay(lines, numbers=numbers).plot()
        display.figure_.draw_without_rendering()
        texts = [text.get_text() for text in display.ax_.texts]
        assert (texts == ["✓ kept: a", "✓ kept: b"]) == (not numbers)
        names = [text for text in display.ax_.texts if "kept" in text.get_text()]
        for bar, name in zip(display.bars_, names, strict=True):
            extent = bar.get_window_extent()
            heights.setdefault(numbers, []).append(extent.height)
            assert extent.y1 < name.get_window_extent().y0
        _, second = names
        assert second.get_window_extent().y1 < display.bars_[0].get_window_extent().y0
    np.testing.assert_allclose(heights[False], heights[True], rtol=0.1)


def test_the_names_of_a_monitor_fit_a_phone_before_they_are_cut():
    matplotlib = pytest.importorskip("matplotlib")
    names = ["miss rate of 'yes' by age_band: 50 and over", "error: all rows"]
    with matplotlib.rc_context({"font.size": 12}):
        figure = matplotlib.figure.Figure(figsize=(5, 5), dpi=72, layout="constrained")
        none = [np.nan, np.nan]
        display = MonitorDisplay(["a", "b"], names, [[0.1, 0.2]] * 2, none, [0.6, 0.3], [None, None])
        display.plot(figure.subplots())
        figure.draw_without_rendering()
    texts = [text for panel in display.axes_ for text in panel.texts]
    assert [f"✓ no alarm: {name}" in [text.get_text() for text in texts] for name in names] == [True, True]
    assert len({text.get_size() for text in texts}) == 1
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in texts)


@pytest.mark.parametrize("n_bounds", [1, 3, 4])
@pytest.mark.parametrize("width", [5.0, 11.0])
@pytest.mark.parametrize("batch", ["2026", "a long name of a batch"])
def test_panels_of_a_monitor_stand_in_two_columns_on_a_wide_page_and_no_names_touch(n_bounds, width, batch):
    matplotlib = pytest.importorskip("matplotlib")
    batches = [f"{k:02} {batch}" for k in range(12)]
    names = [f"miss rate of 'ill' by site: {site}" for site in "abcd"[:n_bounds]]
    rates = np.linspace(0.1, 0.7, 12 * n_bounds).reshape(12, n_bounds)
    bounds = np.full(n_bounds, np.nan), np.full(n_bounds, 0.3)
    with matplotlib.rc_context({"font.size": 12}):
        display = MonitorDisplay(batches, names, rates, *bounds, [None] * n_bounds)
        size = (width, display.height_at(width))
        figure = matplotlib.figure.Figure(figsize=size, dpi=72, layout="constrained")
        display.plot(figure.subplots())
        figure.draw_without_rendering()
    n_columns = 2 if width > 9 and n_bounds > 1 else 1
    assert len({round(panel.get_position().x0, 6) for panel in display.axes_}) == n_columns
    assert len({panel.get_ylim() for panel in display.axes_}) == 1
    assert len(figure.axes) == n_bounds + 1  # with the given axes: no empty panel
    for panel in display.axes_[-n_columns:]:
        labels = [label for label in panel.get_xticklabels() if label.get_text()]
        assert labels
        extents = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
        assert all(left.x1 < right.x0 for left, right in pairwise(extents))
    for panel, name in zip(display.axes_, names, strict=True):
        (title,) = (text for text in panel.texts if text.get_text() == f"✓ no alarm: {name}")
        column = figure.bbox.width / n_columns
        assert title.get_window_extent().width <= column


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "verdict", ["Alarm: 12,000 rows of 2 batches contradict 1 of 1 bounds.", "Alarm " * 40]
)
def test_a_panel_of_one_bound_fills_its_figure(verdict):
    """A title with automatic line breaks made the layout collapse."""
    display = MonitorDisplay(["a", "b"], ["x"], [[0.1], [0.5]], [np.nan], [0.3], [1], name=verdict).plot()
    display.figure_.canvas.draw()
    panel = display.axes_[0].get_position()
    assert panel.width > 0.7
    title = display.axes_[0].texts[-1].get_window_extent()
    assert title.x1 <= display.figure_.bbox.x1
    assert title.y1 <= display.figure_.bbox.y1


def test_of_many_bounds_those_with_the_most_evidence_are_drawn():
    m = 9
    display = MonitorDisplay(
        ["a"],
        [f"b{j}" for j in range(m)],
        [[0.1] * m],
        [np.nan] * m,
        [0.3] * m,
        [None] * m,
        evidence=range(m),
    ).plot()
    assert display.shown_ == [8, 7, 6, 5, 4, 3]


# --- all of them -------------------------------------------------------------------------------------------

VERDICTS = [("certified", True), ("not certified", False), ("no rows", None)]
DISPLAYS = {
    "CVaRCurveDisplay": lambda: CVaRCurveDisplay(ALPHAS, ALPHAS, n_classes=2, name="a"),
    "TradeOffDisplay": lambda: TradeOffDisplay(
        [0.1, 0.2], [0.5, 0.3], selection=([0.1], [0.4]), point=(0.1, 0.4), others={"b": (0.2, 0.6)}
    ),
    "LimitsDisplay": lambda: LimitsDisplay(
        [LimitLine(verdict, good, "rate", "≤ 0.3", "0.2", 0.2, 0.1, 0.3, 0.3) for verdict, good in VERDICTS]
    ),
    "GroupsDisplay": lambda: GroupsDisplay(["a"], [[0.5, 0.4, 0.6]], [[0.2, 0.1, 0.3]], bound=0.3),
    "MonitorDisplay": lambda: MonitorDisplay(["a", "b"], ["x"], [[0.1], [0.5]], [np.nan], [0.3], [1]),
}


def test_every_display_is_tested():
    assert sorted(DISPLAYS) == sorted(name for name in plotting.__all__ if name.endswith("Display"))


@pytest.mark.thinned(9)
@pytest.mark.parametrize("name", DISPLAYS)
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_colours_stand_out_from_the_background(name, style):
    """Lines and bars keep a contrast of 3 : 1 (WCAG 2.1, graphical objects) in light and dark styles."""
    with plt.style.context(style):
        display = DISPLAYS[name]().plot()
        display.figure_.canvas.draw()
        ground = luminance(display.ax_.get_facecolor())
        axes = display.figure_.axes
        colours = [line.get_color() for ax in axes for line in ax.lines]
        colours += [bar.get_facecolor() for ax in axes for bar in ax.patches]
        assert colours
        for colour in colours:
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


@pytest.mark.slow
def test_matplotlib_is_imported_late():
    code = "import sys, tailboost.app.plotting; assert 'matplotlib' not in sys.modules, 'too early'"
    subprocess.run([sys.executable, "-c", code], check=True)
