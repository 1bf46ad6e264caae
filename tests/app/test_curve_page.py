"""The page of a trade-off: its numbers, its names as data, and its working in a browser."""

import json
import re
import shutil
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")

HOSTILE = "</script><img src=x onerror=alert(1)>"
GROUPS = ["Female", HOSTILE, "--><!-- & \"quotes\" 'x' \u2028"]


class Elements(HTMLParser):
    """The elements of a page, with the texts of its scripts."""

    def __init__(self, content):
        super().__init__()
        self.found, self.scripts = [], []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data


def document(content):
    return json.loads(Elements(content).scripts[0])


def tuned(score, y, positive="yes", **params):
    return tb.tune(tb.Scores("score", positive), pd.DataFrame({"score": score}), y, **params)


@pytest.fixture(scope="module")
def case():
    rng, n = np.random.default_rng(0), 3000
    groups = np.array(GROUPS)[rng.integers(3, size=n)]
    score = rng.random(n)
    y = np.where(rng.random(n) < 0.8 * score + 0.1 * (groups == GROUPS[0]), "yes", "no")
    limit = tb.rates.miss("yes", by="group") <= 0.3
    clf = tuned(score, y, groups=groups, limits=[limit], by_group=True)
    return SimpleNamespace(
        table=pd.DataFrame({"score": score}), y=y, groups=groups, clf=clf, curve=clf.tradeoff()
    )


def test_rates_are_those_of_the_answers(case):
    """Counted by hand: the score is no fitted model, so the selection counts the answers of `predict`."""
    about = document(tb.plotting.curve_page(case.curve))
    assert len(about["points"]) == len(case.curve) > 5
    for place in (0, 4, len(case.curve) - 1):
        point = about["points"][place]
        answers = case.curve[place].classifier.predict(case.table, groups=case.groups)
        wrong = answers != case.y
        assert point["error"] == pytest.approx(wrong.mean())
        shown = {
            (line["rate"], line["subgroup"]): numbers
            for line, numbers in zip(about["lines"], point["rates"], strict=True)
        }
        for name in GROUPS:
            inside = (case.groups == name) & (case.y == "yes")
            value, low, high, rows, bound, sense = shown["miss rate of 'yes' by group", name]
            assert value == pytest.approx(wrong[inside].mean(), abs=1e-5)
            assert low < value < high or value == low == 0.0
            assert rows == pytest.approx(inside.sum())
            assert (bound, sense) == (case.curve.level(place), "≤")
        assert shown["error", "all rows"][0] == pytest.approx(wrong.mean(), abs=1e-5)


def test_the_price_of_a_point_is_its_error_above_the_least(case):
    points = document(tb.plotting.curve_page(case.curve))["points"]
    least = min(point["error"] for point in points)
    assert [point["price"] for point in points] == [point["error"] - least for point in points]
    assert max(point["price"] for point in points) > min(point["price"] for point in points) == 0.0


def test_the_table_has_the_overall_error_only_if_no_axis_has_it(case):
    heading = '<th scope="col">overall error</th>'
    assert heading not in tb.plotting.curve_page(case.curve)
    misses = case.clf.tradeoff(tb.rates.miss("yes"), tb.rates.miss("no"), n_points=3)
    assert heading in tb.plotting.curve_page(misses)


def test_the_level_of_a_point_is_the_shortest_that_gives_it(case):
    for place, point in enumerate(case.curve):
        level = case.curve.level(place)
        answers = case.curve.at(level).predict(case.table, groups=case.groups)
        assert (answers == point.classifier.predict(case.table, groups=case.groups)).all()
        digits = len(repr(level).partition(".")[2])
        if digits > 2:  # the shorter number above belongs to a point with a smaller error
            shorter = np.ceil(point.limited * 10 ** (digits - 1)) / 10 ** (digits - 1)
            assert min(p.value for p in case.curve if p.limited <= shorter) < point.value


def test_a_ratio_is_limited_from_below(case):
    curve = case.clf.tradeoff(tb.rates.ratio(tb.rates.selected("yes", by="group")), n_points=6)
    for place, point in enumerate(curve):
        level = curve.level(place)
        assert level <= point.limited + 1e-9
        assert curve.at(level).predict(case.table, groups=case.groups).tolist() == (
            point.classifier.predict(case.table, groups=case.groups).tolist()
        )


def test_names_stay_data(case):
    content = tb.plotting.curve_page(case.curve)
    page = Elements(content)
    assert {tag for tag, _ in page.found}.isdisjoint({"img", "iframe", "link", "object"})
    assert [attrs.get("type") for tag, attrs in page.found if tag == "script"] == ["application/json", None]
    assert not [name for _, attrs in page.found for name in attrs if name.startswith("on")]
    assert {line["subgroup"] for line in document(content)["lines"]} == {*GROUPS, "all rows"}
    assert HOSTILE not in content


def test_hostile_labels_stay_data_too():
    rng = np.random.default_rng(0)
    score = rng.random(500)
    y = np.where(rng.random(500) < score, HOSTILE, "no")
    clf = tuned(score, y, HOSTILE, limits=[tb.rates.miss(HOSTILE) <= 0.3])
    content = tb.plotting.curve_page(clf.tradeoff())
    assert "<img" not in content
    assert len(Elements(content).scripts) == 2


def test_nothing_is_loaded(case):
    content = tb.plotting.curve_page(case.curve)
    assert "default-src 'none'" in content
    assert not re.search(r'(?:src|href)="|url\(|@import', content)


def test_the_call_of_a_point_gives_its_rule(case):
    place = len(case.curve) // 2
    point = document(tb.plotting.curve_page(case.curve))["points"][place]
    same = eval(point["call"], {"curve": case.curve})
    expected = case.curve[place].classifier.predict(case.table, groups=case.groups)
    assert (same.predict(case.table, groups=case.groups) == expected).all()


def test_other_rows_and_the_selected_rule(case, tmp_path):
    measured = case.curve.predicted(case.table[:500], case.y[:500], groups=case.groups[:500])
    case.curve.explore(tmp_path / "curve.html", measured=measured)
    about = document((tmp_path / "curve.html").read_text(encoding="utf-8"))
    np.testing.assert_allclose(about["measured"], np.column_stack(measured), atol=1e-6)
    start = about["points"][about["start"]]
    own = (case.clf.predict(case.table, groups=case.groups) != case.y).mean()
    assert start["error"] == pytest.approx(own, abs=0.01)


@pytest.mark.parametrize("name", ["cvar", "randomised", "deferring"])
def test_every_kind_of_curve_has_a_page(case, name):
    X, y = load_wine(return_X_y=True)
    stump = DecisionTreeClassifier(max_depth=1)
    if name == "cvar":
        clf = tb.CVaRBoostClassifier(stump, n_estimators=5, random_state=0).fit(X, y)
    else:
        limits = [tb.rates.deferred() <= 0.1] if name == "deferring" else [tb.rates.miss("yes") <= 0.2]
        limits.append(tb.rates.false_alarm("yes") <= 0.6)
        clf = tuned(case.table["score"], case.y, limits=limits, randomized=name == "randomised")
    curve = clf.tradeoff()
    content = tb.plotting.curve_page(curve)
    about = document(content)
    assert len(about["points"]) == len(curve)
    assert about["mixtures_between"] == (name == "cvar")
    assert ("label distribution" in content) == (name in ("cvar", "randomised"))
    shown = [line["rate"] for line in about["lines"]]
    assert "error" in shown
    assert ("deferred" in " ".join(shown)) == (name == "deferring")
    if name == "randomised":
        assert "Each point also satisfies: false alarm" in content


def test_a_model_of_many_classes_without_limits():
    X, y = load_wine(return_X_y=True)
    clf = tb.tune(LogisticRegression(max_iter=5000).fit(X[::3], y[::3]), X[1::3], y[1::3])
    about = document(tb.plotting.curve_page(clf.tradeoff()))
    assert [line["subgroup"] for line in about["lines"]] == ["all rows", "0", "1", "2"]


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_in_a_browser(case, tmp_path, width, colours):
    playwright = pytest.importorskip("playwright.sync_api")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser is installed")
    out, said = tmp_path / "curve.html", []
    case.curve.explore(out)
    with playwright.sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shape = {"width": width, "height": 800}
        page = program.new_context(viewport=shape, color_scheme=colours, has_touch=True).new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url != out.as_uri() else None)
        page.goto(out.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.focus("#slider")
        page.keyboard.press("Home")
        assert f"{case.curve[0].limited:.4f}" in page.inner_text("#verdict")
        page.keyboard.press("ArrowRight")
        assert f"{case.curve[1].limited:.4f}" in page.inner_text("#verdict")
        page.tap("#after")
        assert f"{case.curve[2].value:.4f}" in page.inner_text("#verdict")
        assert f"curve.at({case.curve.level(2)!r})" in page.inner_text("#call")
        assert HOSTILE in page.inner_text("#rates")
        assert page.locator("img").count() == 0
        box = page.locator("#chart svg").bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] - 20, box["y"] + box["height"] - 50)
        assert f"Point {len(case.curve)} of" in page.inner_text("#place")
        page.emulate_media(media="print")
        assert not page.is_visible("#slider")
        assert page.is_visible("#rates")
        program.close()
    assert not said


@pytest.mark.parametrize("limits", [[], ["miss(yes, by=site) <= .5"]])
def test_a_curve_of_groups_that_the_selection_did_not_count(case, limits, tmp_path):
    groups = pd.DataFrame({"site": np.arange(len(case.y)) % 2, "place": case.groups})
    clf = tuned(case.table.score, case.y, groups=groups, limits=limits, objective="error")
    curve = clf.tradeoff(tb.rates.parse("gap(selected(yes, by=place))"), tb.rates.error(), n_points=4)
    limited, minimised = curve.of_source()
    assert np.isnan(limited)
    assert minimised == pytest.approx(np.mean(clf.predict(case.table) != case.y))
    curve.explore(tmp_path / "curve.html")
    assert document((tmp_path / "curve.html").read_text())["points"]
