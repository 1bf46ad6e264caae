"""Pages of comparisons: content, escaping, security policy, and charts at the figures."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from made_up_comparisons import BASELINE, BROKEN, made_up, marked_up_results, small_data, tradeoffs

from tailboost.app.report import ComparisonTable, compare, render
from tailboost.app.report.charts import MARKERS, looks_of, tradeoff_chart
from tailboost.app.report.svg import COLOURS


class Page(HTMLParser):
    """Tags, attributes and text of a page; scripts and styles apart."""

    def __init__(self, source):
        super().__init__()
        self.source = source
        self.tags, self.attributes, self.parts, self.scripts, self._inside = [], [], [], [], None
        self.feed(source)
        self.text = " ".join("".join(self.parts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, k, v) for k, v in attrs]
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        (self.scripts if self._inside in ("script", "style") else self.parts).append(data)

    def values(self, key):
        return [v for _, k, v in self.attributes if k == key]

    @property
    def policy(self):
        return next(v for v in self.values("content") if "default-src" in v)


@pytest.fixture(scope="module")
def page():
    return Page(render(json.loads(json.dumps(marked_up_results().document))))


@pytest.mark.slow
def test_nothing_is_fetched(page):
    assert "link" not in page.tags
    assert not [a for a in page.attributes if a[1] in ("src", "href", "srcset", "action", "data")]
    assert page.policy.startswith("default-src 'none'")
    assert "http" not in page.policy
    assert "; script-src 'none'; " in page.policy
    assert "script" not in page.tags
    assert not [a for a in page.attributes if a[1].startswith("on")]
    styles = next(s for s in page.scripts if ":root" in s)
    assert "url(" not in styles
    assert "@import" not in styles


def test_the_page_is_small_and_its_ids_are_unique(page):
    assert len(page.source.encode()) < 200_000
    assert len(page.values("id")) == len(set(page.values("id")))


def test_the_sentence_comes_before_the_table(page):
    sentence = ComparisonTable(marked_up_results()).sentence
    assert page.text.index(sentence) < page.text.index("All methods")


def test_every_method_and_figure_is_there(page):
    document = marked_up_results().document
    table = ComparisonTable(document)
    for words in (*(m["title"] for m in document["methods"]), *table.columns, *table.problems):
        assert " ".join(words.split()) in page.text
    for row in table.rows:
        for cell in filter(None, row.cells):
            assert cell.text in page.text


def test_user_text_is_escaped(page):
    outside = page.source
    for script in page.scripts:
        outside = outside.replace(script, "")
    for markup in ("<script>alert", "<script>x.csv", "<i>best"):
        assert markup not in outside
    assert "&lt;i&gt;best" in outside


def test_points_are_at_the_figures():
    """Marks of the chart, read back with its axes, are the errors of the document."""
    table = ComparisonTable(marked_up_results())
    looks = looks_of(table)
    wide = tradeoff_chart(table, looks).split("<svg")[1]
    ticks = re.findall(  # each grid line with its number
        r'd="M ([\d.]+) ([\d.]+)\s+L [^"]*" [^>]*var\(--grid\)[^>]*>'
        r'.*?<text style="[^"]*text-anchor: (middle|end)[^"]*"[^>]*>([\d.]+)</text>',
        wide,
        flags=re.DOTALL,
    )
    across = [(float(v), float(x)) for x, _, end, v in ticks if end == "middle"]
    up = [(float(v), float(y)) for _, y, end, v in ticks if end == "end"]
    assert min(len(across), len(up)) >= 3
    [baseline] = [look for look in looks if look.method["name"] == "baseline"]
    colour = COLOURS[baseline.colour].replace("(", r"\(").replace(")", r"\)")
    place = re.search(rf'<use [^>]*x="([\d.]+)" y="([\d.]+)" style="fill: {colour}', wide)
    for at, ticks, key in zip(place.groups(), (across, up), ("error", "worst_class_error"), strict=True):
        value = np.polyval(np.polyfit([p for _, p in ticks], [v for v, _ in ticks], 1), float(at))
        assert value == pytest.approx(baseline.method["figures"][key]["mean"], abs=2e-3)


def test_a_tradeoff_is_drawn_as_a_curve():
    table = ComparisonTable(tradeoffs())
    ax = pytest.importorskip("matplotlib.figure").Figure().subplots()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tailboost.app.report.charts.svg", lambda draw, *_: draw(ax))
        tradeoff_chart(table, looks_of(table))
    points = [[0.20, 0.60], [0.25, 0.40], [0.30, 0.31]]  # each split adds .001
    curves = [line for line in ax.lines if len(line.get_xdata()) == len(points)]
    assert [line.get_xydata().tolist() for line in curves] == [pytest.approx(np.array(points) + 0.001)]


@pytest.mark.parametrize("repeats", [2, 3])
def test_two_splits_have_no_interval(repeats):
    source = render(tradeoffs(repeats=repeats))
    for words in ("hold simultaneously", "half the 95&nbsp;% interval", "thin lines are 95&nbsp;%"):
        assert (words in source) == (repeats == 3)
    assert f"Means over {repeats} splits." in source


def test_every_named_method_looks_different():
    methods = [(f"m{i}", [(0.1 + 0.001 * i, 0.2, None), (0.2, 0.3, None)], True) for i in range(30)]
    looks = looks_of(ComparisonTable(made_up(*methods, repeats=2)))
    assert len(looks) == 30
    named = [look for look in looks if look.title]
    assert len({look.marker for look in named}) == len(named) == len(MARKERS)
    others = {look.colour for look in looks if not look.title}
    assert others.isdisjoint({look.colour for look in named})


def test_dark_mode_print_and_narrow_screens(page):
    styles = next(s for s in page.scripts if ":root" in s)
    for query in ("prefers-color-scheme: dark", "@media print", "max-width"):
        assert query in styles


def test_charts_have_descriptions(page):
    pattern = r'<svg class="chart (?:wide|narrow)"[^>]* role="img" aria-label="([^"]+)"'
    labels = re.findall(pattern, page.source)
    # Trade-offs by class and group, classes, two group columns: each wide and narrow.
    assert len(labels) == 2 * (2 + 1 + 2)
    assert all(label.strip().endswith(".") for label in labels)


def test_nothing_finished():
    X, y, _ = small_data()
    results = compare(X, y, methods=[BROKEN], repeats=1, random_state=0)
    source = render(results)
    assert "No fit was finished." in source
    assert "cannot do &lt;this&gt;" in source


def test_one_split_and_many_classes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 14, 200)
    source = render(compare(X, y, methods=[BASELINE], repeats=1, random_state=0))
    assert "the 10 classes that are hardest" in " ".join(source.split())
    assert "±" not in source
    assert "null" not in "".join(re.findall(r">[^<]*<", source))


@pytest.mark.slow
def test_names_with_dollar_signs_are_no_mathematics():
    methods = [(f"costs ${i}$ and $", [(0.1 + 0.1 * i, 0.2, None)] * 3, not i) for i in range(2)]
    source = render(made_up(*methods))
    assert source.count("Costs $0$ And $</text>") >= 3
