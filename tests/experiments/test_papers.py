"""The tables and figures of the papers in ``results/README.md``: all of them, and as the records say."""

import functools
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import tailboost
from experiments import EXPERIMENTS, papers

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.skipif(not papers.RESULTS.is_dir(), reason="the results do not come with the package"),
]

# Tables and figures, typed here separately: the list must cover them.
WANTED = {
    papers.ZHAI: {
        *(f"Figure 1, {data}" for data in ("COMPAS", "CelebA")),
        *(f"Figures 1, 2 and 4, {data}" for data in ("CIFAR-10", "CIFAR-100")),
        "Figure 3",
    },
    papers.JEBARA: {"Figure 1", "Figure 2", "Table 1", "Table 2"},
    papers.SAITO: {
        "Figure 1", "Figures 2 to 5", "Figure 6", "Figures 7 and 8", "Figures 9 to 11", "Table I", "Table II",
        *(f"Table III: {data}" for data in ("CIFAR-10", "CIFAR-100", "Tiny ImageNet")),
        *(f"Table IV: {data}" for data in ("imbalanced CIFAR-10", "EMNIST", "TissueMNIST")),
        "Tables V to VII, XI", "Table VIII", "Tables IX and X",
    },
    papers.BLANCHET: {"Table 1", "Figure 1"},
}  # fmt: skip


def number_of(name):
    """Without content, except for separate panels of one table or figure."""
    apart = name.startswith(("Table III:", "Table IV:"))
    return name if apart else name.partition(":")[0]


def test_every_table_and_figure_stands_there_once():
    for paper, wanted in WANTED.items():
        names = [number_of(item.name) for item in papers.ITEMS if item.paper == paper]
        assert len(names) == len(set(names))
        assert set(names) == wanted
    assert {item.paper for item in papers.ITEMS} == set(WANTED)
    text = (papers.RESULTS / "README.md").read_text(encoding="utf-8")
    for item in papers.ITEMS:
        assert text.count(f"\n| {item.name} | {item.status} |") == sum(
            (other.name, other.status) == (item.name, item.status) for other in papers.ITEMS
        )


def test_the_page_is_what_the_records_give():
    text = (papers.RESULTS / "README.md").read_text(encoding="utf-8")
    between = text.partition(papers.BEGIN)[2].partition(papers.END)[0].strip()
    assert between == papers.table(), "python -m experiments.papers writes it anew"


def test_the_page_of_the_papers_has_the_printed_numbers_beside_ours():
    text = papers.PAGE.read_text(encoding="utf-8")
    between = text.partition(papers.BEGIN)[2].partition(papers.END)[0].strip()
    assert between == papers.printed_table(), "python -m experiments.papers writes it anew"
    compared = [item for item in papers.ITEMS if item.compared]
    assert len(compared) == between.count("results/")
    assert all(item.learner in between for item in compared)
    assert all(item.learner for item in compared)


@pytest.mark.parametrize("item", papers.ITEMS, ids=lambda item: f"{item.paper}, {item.name}")
def test_an_item_is_true(item):
    assert item.status in papers.STATUSES
    assert item.why
    for name in item.records:
        assert papers.load(name)["experiment"] == name
    # A claim, and a run that shows whether it holds.
    run = item.status in (papers.REACHED, papers.SMALLER)
    assert bool(item.records) == run
    if run and item.name != "Table IV: EMNIST":
        assert item.why.startswith("claim: ")
    if item.status == papers.NOT_RUN:
        assert item.command.endswith("--scale paper")
    if item.status == papers.NO_RUN:
        assert item.compared is None
        assert not item.command
    if item.command:
        found = re.fullmatch(r"tailboost reproduce (\S+)( --data DIR)?( --scale paper)?", item.command)
        if found:
            assert EXPERIMENTS[found[1]].needs_data == bool(found[2])
        else:
            module, record = re.fullmatch(r"python -m (\S+) (\S+) \S+", item.command).groups()
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
            assert (ROOT / record).is_file()
    for path in re.findall(r"`(experiments/\S+\.py)`", item.why):
        assert (ROOT / path).is_file()


def test_what_was_not_run_has_no_record():
    """After a run the row changes: a command at paper scale with a record at paper scale."""
    for item in papers.ITEMS:
        if item.status == papers.NOT_RUN:
            name = item.command.split()[2]
            assert not (papers.RESULTS / f"{name}.json").exists()


def test_numbers_are_read_off_the_records():
    """By hand for one of each kind."""
    compas = papers.load("compas")
    at = compas["settings"]["alphas"].index(0.5)
    ours = compas["games"]["λ from training"]["curves"]["AdaLPBoost"][at]["mean"]
    by_name = {(item.paper, item.name): item for item in papers.ITEMS}
    said = by_name[papers.ZHAI, "Figure 1, COMPAS"].compared(compas)
    assert f"0.500 / {ours:.3f} ({ours - 0.5:+.3f} ± " in said
    three = {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 3}
    one = {"mean": 0.7, "low": None, "high": None, "n": 1}
    thetas = {0.1: three, 0.3: one, 0.5: one, 0.7: one, 0.9: three}
    played = {f"worst-class boosting, θ = {theta}": {"test": {"worst": of}} for theta, of in thetas.items()}
    said = by_name[papers.SAITO, "Tables IX and X: θ"].compared(
        {"results": {"CIFAR-10, 16×16 pixels": played}}
    )
    assert "95.7 / 50.0 (± 10.0) at 0.1, 61.7 / 70.0 (one seed) at 0.3" in said
    image = papers.load("cifar10")
    games = image["results"]["CIFAR-10"]
    spent = sum(of["seconds"]["mean"] for method, of in games.items() if method != "worst-class boosting")
    assert papers.seconds(image) == pytest.approx(spent)
    assert (
        papers.seconds({"seconds": {"mean": 2.0, "n": 3}, "of one": {"seconds": {"mean": 1.0, "n": 1}}})
        == 7.0
    )
    assert papers.seconds({"rows": [1, 2]}) is None
    stumps = papers.load("variance-stumps")
    rows = [row for row in stumps["rows"] if row["method"] == "VadaBoost" and not row["stands_in"]]
    rows = [row for row in rows if row["data"] not in ("ringnorm", "splice")]
    said = by_name[papers.JEBARA, "Table 1: stumps"].compared(stumps)
    assert f"VadaBoost {np.mean([row['published'] for row in rows]):.2f} / " in said
    assert said.startswith(f"mean of {len(rows)} of 18 sets, ")
    for row in stumps["rows"]:
        left_out = f" {row['data']}," in said.partition(":")[0]
        assert left_out == (row["data"] not in {of["data"] for of in rows})


def test_of_other_data_and_small_nets_no_difference_is_printed():
    for item in papers.ITEMS:
        if item.compared is None:
            continue
        said = item.compared(papers.load(item.records[0]))
        other = item.paper == papers.SAITO and item.name not in ("Table I: squares", "Table II: discs")
        assert said.startswith("not comparable, ") == other
        assert bool(re.search(r"\([+-]\d", said)) == (not other)


def test_what_stands_for_theory_exists():
    pytest.importorskip("torch")
    text = (papers.RESULTS / "README.md").read_text(encoding="utf-8").partition("### Theory and ideas")[2]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for ours in (row.split("|")[3] for row in rows):
        # Classes and dotted names are the package's; the others are parameters.
        for name in re.findall(
            r"`([A-Za-z_]+(?:\.[a-z_]+)+|[A-Z][A-Za-z]+Classifier|RandomizedDecision)`", ours
        ):
            functools.reduce(getattr, name.split("."), tailboost)
        for name, module in re.findall(r"`(\w+)` in `experiments/(\w+)\.py`", ours):
            assert hasattr(importlib.import_module(f"experiments.{module}"), name), name
        for path in re.findall(r"\]\((\S+?)\)", ours) + re.findall(r"`(experiments/\S+\.py)`", ours):
            assert (ROOT / "results" / path).is_file() or (ROOT / path).is_file(), path


def test_the_list_is_written_between_its_marks(tmp_path):
    for file in papers.RESULTS.iterdir():
        if file.suffix in (".json", ".md"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    page = tmp_path / "README.md"
    page.write_text(f"above\n\n{papers.BEGIN}\n\nSTALE\n\n{papers.END}\nbelow\n", encoding="utf-8")
    papers.write(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("above\n")
    assert text.endswith(f"{papers.END}\nbelow\n")
    assert "STALE" not in text
    assert papers.table() in text
