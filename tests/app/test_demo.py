"""The demo: its use, its sentences, its page, and a small run of the command."""

import json
import re
from functools import partial

import numpy as np
import pytest
from made_up_comparisons import made_up, tradeoffs

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")
pytest.importorskip("typer.testing")

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from test_report_html import Page
from typer.testing import CliRunner

from tailboost import rates
from tailboost.app import cli
from tailboost.app.cli.compare import PLAIN
from tailboost.app.report import ComparisonTable, render_demo
from tailboost.app.report.demo import Demo, UseCase
from tailboost.rates.bounds import clopper_pearson_interval


def rows(n=2000):
    """A rare class that a model at its default threshold misses."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.25, "late", "paid")
    X = pd.DataFrame(rng.normal(size=(n, 3)) + 0.8 * (y == "late")[:, None], columns=list("abc"))
    return X, y, pd.Series(np.where(rng.random(n) < 0.4, "old", "young"), name="band")


@pytest.fixture(scope="module")
def use():
    limits = [rates.miss("late", by="band") <= 0.4, rates.miss("paid") <= 0.6]
    X, y, band = rows()
    return UseCase(GaussianNB(), X, y, limits, "late", "late payers", 0, band)


def demo(use, credit=None, wine=None):
    tables = (document or tradeoffs() for document in (credit, wine))
    return Demo(use, *(ComparisonTable(table) for table in tables), "tailboost <demo>")


def test_the_numbers_of_the_use_are_those_of_the_test_rows(use):
    X_test, y_test, band = (use.test[name] for name in ("X", "y", "groups"))
    assert use.not_certified == ""
    assert sum(use.rows.values()) == 2000
    assert len(y_test) == use.rows["test"]
    late = y_test == "late"
    drawn = use.display
    assert drawn.groups == ["old", "young"]
    assert drawn.bound.tolist() == [0.4, 0.4]
    assert drawn.labels == ("plain model", "certified rule")
    for classifier, figures in ((use.model, drawn.before), (use.rule, drawn.after)):
        wrong = classifier.predict(X_test) != y_test
        for name, (rate, low, high) in zip(drawn.groups, figures, strict=True):
            counted = late & (band == name).to_numpy()
            assert rate == pytest.approx(wrong[counted].mean())
            ends = clopper_pearson_interval(wrong[counted].mean(), counted.sum())
            assert (low, high) == pytest.approx(tuple(map(float, ends)))


@pytest.mark.slow
def test_limits_out_of_reach_are_reported_as_not_certified():
    X, y, band = rows(600)
    limits = [rates.miss("late") <= 0.3, rates.miss("paid") <= 0.3]
    case = UseCase(GaussianNB(), X, y, limits, "late", "late payers", 0, band)
    assert "certifie" in case.not_certified
    page = demo(case)
    assert "certified rule" not in case.sentence
    assert f"Not certified: {case.not_certified}"[:60] in Page(render_demo(page)).text


def test_the_headline_counts_the_misses_in_20_words(use):
    late = use.test["y"] == "late"
    missed = [100 * np.mean(one.predict(use.test["X"][late]) == "paid") for one in (use.model, use.rule)]
    assert use.sentence.startswith(
        f"Of 100 late payers, the plain model misses {missed[0]:.0f}, the certified rule {missed[1]:.0f};"
    )
    assert len(re.findall(r"\S*\w\S*", use.sentence)) <= 20
    assert use.sentence in Page(render_demo(demo(use))).text.replace("\xa0", " ")


def test_the_chart_of_differences_names_the_others(use):
    same = [(0.3, 0.4, [{"error_budget": 0.0, "error": 0.3, "worst_class_error": 0.4}] * 2)] * 4
    close = made_up(
        ("ours", same, True), ("close", [(0.3, 0.39 + 0.01 * i, None) for i in range(4)], False), repeats=4
    )
    (lines,) = demo(use, close, close).differences.values()  # both tables have one name
    first = lines[0]
    assert (first.verdict, first.good, first.bound) == ("not significant", None, 0.0)
    assert first.low < first.value < first.high
    assert first.name == "instead of Close"
    assert re.fullmatch(r"[+−]\d+\.\d points, 95 % interval −?\d+\.\d to −?\d+\.\d", first.numbers)
    page = render_demo(demo(use, close, close))
    assert page.count(first.numbers) == 4  # wide and narrow, of both tables: never cut
    better = demo(use, tradeoffs(repeats=8, strong=(0.25, 0.95))).differences
    assert better["Ours: worst-class error, d"][0].verdict == "better"
    for repeats, words in ((1, "no interval from 1 split"), (2, "no interval from 2 splits")):
        few = tradeoffs(repeats=repeats)
        (lines,) = demo(use, few, few).differences.values()
        assert all(words in line.numbers and line.low is None and line.good is None for line in lines)
        page = render_demo(demo(use, few, few))
        assert f"From {repeats} random split" in page
        assert "thin lines" not in page
    page = render_demo(demo(use, tradeoffs(repeats=8)))
    assert "Means with 95&nbsp;% t intervals over 8 random splits" in page
    assert page.count("thin lines are 95 % t intervals over the splits") == 2
    assert "too few for an interval" not in page


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        methods = {"credit": (PLAIN, "erm"), "wine": (PLAIN, "erm")}
        patch.setattr("tailboost.app.cli.compare.DEMO_METHODS", methods)
        patch.setattr("tailboost.core.long_work.PATIENCE", 0)
        patch.setattr("tailboost.core.long_work.PAUSE", 0)
        few = partial(HistGradientBoostingClassifier, max_iter=10)
        patch.setattr("tailboost.app.cli.compare.HistGradientBoostingClassifier", few)
        out = tmp_path_factory.mktemp("demo")
        result = CliRunner().invoke(cli.app, ["demo", "--rows", "300", "--repeats", "1", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return result, out


class TestCommand:
    @pytest.mark.slow
    def test_files(self, run):
        result, out = run
        for name, classes in (("credit", 2), ("wine", 5)):
            document = json.loads((out / name / "results.json").read_text())
            assert document["status"] == "complete"
            assert document["data"]["n_rows"] == 300
            assert len(document["data"]["classes"]) == classes
        assert str(out / "index.html") in result.stdout

    def test_progress_has_the_time_left(self, run):
        for name in ("credit default", "wine grades"):
            lines = [line for line in run[0].stderr.splitlines() if line.startswith(f"fits on {name}")]
            assert re.fullmatch(rf"fits on {name}: 1 of 2, about \d+ s left; .+", lines[0])

    def test_the_page_opens_with_the_use_and_runs_nothing(self, run):
        result, out = run
        page = Page((out / "index.html").read_text())
        [headline] = [line for line in result.stdout.splitlines() if line.startswith("Of 100 defaulters")]
        order = [headline, "at most 50 %", "under 30: ", "Certificate", "✓ certified",
                 "Selected rule", "paid >= ", "Against baselines",
                 "Many classes: wine grades"]  # fmt: skip
        places = [page.text.index(words) for words in order]
        assert places == sorted(places)
        assert not {"script", "link"} & set(page.tags)
        assert page.policy.startswith("default-src 'none'; script-src 'none'; ")
        assert len(page.values("id")) == len(set(page.values("id")))
        for link in page.values("href"):
            assert (out / link).is_file()


@pytest.mark.slow
def test_as_shipped(tmp_path):
    result = CliRunner().invoke(cli.app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in ("wine", "credit"):
        document = json.loads((tmp_path / name / "results.json").read_text())
        assert not any(m["failures"] for m in document["methods"])
    assert "certified rule" in result.stdout
