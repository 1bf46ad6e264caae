"""Experiments by command: they run, resume, and refuse impossible settings.

Tests without the marker ``experiments`` are in the fast suite: a smoke test.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

for module in ("typer", "rich", "pandas", "jinja2", "matplotlib"):
    pytest.importorskip(module)

from typer.testing import CliRunner

from experiments import EXPERIMENTS, Settings, _check, credit_default, domain_shift
from experiments._experiment import Cells, Experiment, Report, plus_minus
from tailboost import AdaBoostClassifier, DROBoostClassifier, GroupDROBoostClassifier
from tailboost.app import cli

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def run(*arguments):
    return CliRunner().invoke(cli.app, ["reproduce", *(str(a) for a in arguments)])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["credit"], "unknown experiment 'credit'; did you mean 'credit-default'"),
        (["domain-shift"], "--data: domain-shift needs a folder of data sets"),
        (["domain-shift", "--data", "/nowhere"], "--data: '/nowhere' is not a folder"),
    ],
)
def test_refused(arguments, says):
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.output


def test_only_files_that_were_written_are_named(tmp_path, monkeypatch):
    made = Experiment("made", "made up", lambda settings, name: Report("| a |", {"a": 1}), needs_data=False)
    monkeypatch.setitem(EXPERIMENTS, "made", made)
    result = run("made", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert f"Results: {tmp_path / 'made.json'}, {tmp_path / 'made.md'}\n" in result.output


def test_listed():
    output = CliRunner().invoke(cli.app, ["list"]).output
    assert all(name in output for name in EXPERIMENTS)


@pytest.mark.parametrize("cut", ['{"key": {"split": 2}, "val', '{"key": {"split": 2}'])
def test_finished_cells_are_kept(tmp_path, cut):
    told = []
    settings = Settings(tmp_path, say=told.append)
    cells = Cells(settings, "cells")
    assert cells.get({"split": 1}, lambda: {"error": 0.5}) == {"error": 0.5}
    with (tmp_path / "cells.jsonl").open("a") as file:
        file.write(cut)  # interrupted while writing
    again = Cells(settings, "cells")
    assert again.get({"split": 1}, pytest.fail) == {"error": 0.5}
    assert again.get({"split": 2}, lambda: {"error": 0.1}) == {"error": 0.1}
    assert len(told) == 2
    # All requested cells, computed now or before.
    first, second = settings.spent[-2:]
    assert settings.spent == [first, first, second]
    assert first is not None
    third = Cells(settings, "cells")
    assert [third.get({"split": k}, pytest.fail) for k in (1, 2)] == [{"error": 0.5}, {"error": 0.1}]


def test_the_record_says_what_its_cells_took(tmp_path):
    def play(settings, name):
        Cells(settings, name).get({"split": 0}, dict)
        return Report("| a |", {"a": 1})

    made = Experiment("made", "made up", play, needs_data=False)
    made.run(Settings(tmp_path))
    assert json.loads((tmp_path / "made.json").read_text())["processor seconds"] >= 0
    line = json.loads((tmp_path / "made.jsonl").read_text())
    (tmp_path / "made.jsonl").write_text(json.dumps(line | {"seconds": 12.5}) + "\n")
    made.run(Settings(tmp_path))
    assert json.loads((tmp_path / "made.json").read_text())["processor seconds"] == 12.5
    del line["seconds"]  # a cell of an older version
    (tmp_path / "made.jsonl").write_text(json.dumps(line) + "\n")
    made.run(Settings(tmp_path))
    assert "processor seconds" not in json.loads((tmp_path / "made.json").read_text())


def test_interval():
    assert plus_minus([1.0, 2.0, 3.0], 2) == "2.00 ± 2.48"
    assert plus_minus([1.0]) == "1.000"  # a single repeat says nothing about the spread


@pytest.mark.slow
def test_credit_default(tmp_path, monkeypatch):
    monkeypatch.setattr(credit_default, "N_ROUNDS", 2)
    makers = credit_default.methods(1)
    del makers["random forest"]
    pytest.importorskip("xgboost")
    monkeypatch.setattr(credit_default, "methods", lambda n_jobs: makers)
    result = run("credit-default", "--repeats", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "credit-default.json").read_text())
    assert set(kept["methods"]) == set(makers)
    zero, plain = (kept["methods"][name]["test"] for name in ("DRO, δ = 0", "AdaBoost"))
    assert zero["exponential"]["mean"] == pytest.approx(plain["exponential"]["mean"])
    assert (zero["exponential"]["low"], zero["exponential"]["n"]) == (None, 1)
    assert "| DRO, δ = 0.2 |" in (tmp_path / "credit-default.md").read_text()
    assert (tmp_path / "credit-default.png").stat().st_size > 10_000


def test_best_scale_is_the_least_over_scales():
    m = np.random.default_rng(0).normal(0.5, 1, 500)
    least = min(np.exp(-c * m).mean() for c in np.linspace(0, 5, 2001))
    for factor in (0.01, 1, 30):
        assert credit_default.best_scale(np.exp(-factor * m)) == pytest.approx(least, rel=1e-5)


@pytest.mark.experiments
@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data sets")
def test_domain_shift(tmp_path, monkeypatch):
    chosen = {name: domain_shift.SHIFTS[name] for name in ("wine, white to red", "COMPAS by race")}
    monkeypatch.setattr(domain_shift, "SHIFTS", chosen)
    small = {"n_estimators": 2, "n_jobs": 1}
    makers = {
        "AdaBoost": partial(AdaBoostClassifier, **small),
        "DRO": partial(DROBoostClassifier, **small),
        "group DRO": partial(GroupDROBoostClassifier, **small),
    }
    monkeypatch.setattr(domain_shift, "methods", lambda n_jobs: makers)
    monkeypatch.setattr(domain_shift, "MOST_TRAINING_ROWS", 300)
    result = run("domain-shift", "--repeats", 1, "--out", tmp_path, "--data", DATA)
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "domain-shift.json").read_text())
    assert set(kept["results"]) == set(domain_shift.SHIFTS)
    for found in kept["results"].values():
        for name, figures in found["methods"].items():
            assert 0 < figures["error"]["worst domain"]["mean"] < 1
            assert ("exponential" in figures) == (name != "group DRO")


@pytest.mark.experiments
def test_data_sets_that_are_not_there_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(domain_shift, "methods", lambda n_jobs: {"AdaBoost": AdaBoostClassifier})
    monkeypatch.setattr(domain_shift, "MOST_TRAINING_ROWS", 200)
    (tmp_path / "data").mkdir()
    result = run("domain-shift", "--repeats", 1, "--out", tmp_path, "--data", tmp_path / "data")
    assert result.exit_code == 0, result.output
    assert list(json.loads((tmp_path / "domain-shift.json").read_text())["results"]) == ["credit by age"]
    assert "adult by education: left out" in result.output


# -- the record against a new run --------------------------------------------------------------------------


def made(value, **more):
    """Make an experiment whose result is the value of each requested row."""

    def play(settings, name):
        rows = {row: value for row in settings.only or ("first", "second")}
        return Report("| a |", {"rows": rows, "seconds": {"mean": np.random.default_rng().random()}})

    return Experiment("made", "made up", play, repeats=2, needs_data=False, has_rows=True, **more)


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A record of an experiment of two rows."""
    monkeypatch.setattr(_check, "RECORDS", tmp_path / "records")
    monkeypatch.setitem(EXPERIMENTS, "made", made(0.25))
    assert run("made", "--repeats", 7, "--out", tmp_path / "records").exit_code == 0
    return tmp_path / "records" / "made.json"


def test_a_record_that_comes_out_again(record, tmp_path):
    before = record.read_bytes()
    result = run("made", "--check", "--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "made: 2 of 2 values equal the record" in result.output
    assert _check.compare("made", {"a": 1e-15, "b": 1.0}, {"a": -2e-15, "b": 1.1}).n_values == 2
    (one,) = _check.compare("made", {"a": 1e-15, "b": 1.0}, {"a": -2e-15, "b": 1.1}).differences
    assert one.where == ("b",)
    assert record.read_bytes() == before
    assert "--repeats 7" in json.loads((tmp_path / "new" / "made.json").read_text())["command"]


def test_a_check_prints_what_differs(record, tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "made", made(0.5))
    kept = json.loads(record.read_text()) | {"edition": "the first", "versions": {"numpy": "1.0"}}
    kept["rows"]["third"] = 1.0
    record.write_text(json.dumps(kept))
    result = run("made", "--check", "--out", tmp_path / "new")
    assert result.exit_code == 1
    for words in (
        "made: 0 of 2 values equal the record",
        "the record says: the first",
        "numpy 1.0 recorded",
        "rows / first: 0.25 recorded, 0.5 now",
        "only in the record: 1 values, the first rows / third",
    ):
        assert words in result.output


def test_a_check_of_one_row(record, tmp_path):
    result = run("made", "--check", "--only", "second", "--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "made: 1 of 1 values equal the record" in result.output
    assert "only in the record: 1 values, the first rows / first" in result.output


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--repeats", 3], "--check takes --repeats and --scale from the record"),
        (["--scale", "paper"], "--check takes --repeats and --scale from the record"),
        (["--out", "records"], "holds the record"),
    ],
)
def test_what_a_check_refuses(record, tmp_path, monkeypatch, more, says):
    monkeypatch.chdir(tmp_path)
    result = run("made", "--check", *more)
    assert result.exit_code == 2
    assert says in result.output


def test_a_check_without_a_record(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "unmade", made(0.25))
    result = run("unmade", "--check", "--out", tmp_path)
    assert result.exit_code == 2
    assert "there is no record of unmade" in result.output


def test_one_row_of_the_tables_of_variance_boosting(tmp_path):
    """One data set, with the stop rule to the letter."""
    if not DATA.is_dir():
        pytest.skip("the data are not at hand")
    wrong = run("variance-stumps", "--data", DATA, "--only", "wise", "--out", tmp_path)
    assert wrong.exit_code != 0
    assert "no data set 'wise'" in wrong.output


def test_records_of_an_earlier_edition_say_so():
    """What results/README.md says of a record stands in the record, where --check prints it."""
    page = (_check.RECORDS / "README.md").read_text(encoding="utf-8")
    for file in sorted(_check.RECORDS.glob("*.json")):
        edition = json.loads(file.read_text(encoding="utf-8")).get("edition")
        if edition is not None:
            assert f"`{file.stem}`" in page.partition("| experiment |")[0]
    for name in ("trials", "tables", "domain-shift", "worst-class-tables", "optimism"):
        assert json.loads((_check.RECORDS / f"{name}.json").read_text(encoding="utf-8"))["edition"]
