"""Blocks of code on the pages run, in the order of the page."""

import doctest
import json
import re
import shlex
import sys
import types
from pathlib import Path

import pytest

for module in ("typer", "rich", "jinja2", "pandas"):
    pytest.importorskip(module)

from typer.testing import CliRunner

from tailboost import rates
from tailboost.app import cli

DOCS = Path(__file__).parents[1] / "docs"
DOORS = ["bank", "hospital", "guardrail"]
OTHERS = [
    "coming-from",
    "mixture",
    "unlabeled",
    "weak-regions",
    "drift",
    "guide/additive",
    "guide/tails",
    "multi-label",
    "published",
    "power",
    "questions",
]
RECIPES = ["reasons", "regulation", "mlflow"]
HOUR = ["start", "limits", "deferral", "tradeoff"]
HOUR += ["certify", "calibrate", "monitor", "guide/tails", "serving"]


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def shell(line):
    """Run a command of tailboost; return what it prints."""
    command, *arguments = shlex.split(line.partition(" > ")[0])
    if command == "cat":
        return ""
    assert command == "tailboost"
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.stdout


@pytest.mark.parametrize("name", ["bank", "hospital"])
def test_limits_of_the_table_parse(name):
    _, *rows = re.findall(r"^\|[^|]+\| `([^`]+)` \|$", page(name), flags=re.MULTILINE)
    assert len(rows) == 6
    for text in rows:
        assert isinstance(rates.parse(text), rates.Limit)


def test_links_stay_among_the_pages():
    """Sphinx knows the pages of docs/ alone."""
    built = {"_build", "records", "measurements"}  # by `make docs`
    pages = [path for path in DOCS.rglob("*.md") if built.isdisjoint(path.parts)]
    links = {
        (path.relative_to(DOCS).as_posix(), link)
        for path in pages
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", path.read_text(encoding="utf-8"))
    }
    assert len(links) > 50
    outside = {
        (page, link)
        for page, link in links
        if not (DOCS / page).parent.joinpath(link).resolve().is_relative_to(DOCS)
    }
    assert not outside


@pytest.mark.parametrize("name", ["certify", "calibrate", "monitor", "every-month", "serving"])
def test_doctests_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(DOCS / f"{name}.md")
    result = doctest.testfile(path, module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*DOORS, *HOUR[:4], *OTHERS, *RECIPES])
def test_blocks_run_in_order_and_print_what_stands_below_them(name, tmp_path, monkeypatch, capsys):
    for page_of, module in (("mlflow", "mlflow"), ("published", "torch"), ("drift", "evidently")):
        if name == page_of:
            pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    module = types.ModuleType("page")  # model files name the classes of a page by their module
    monkeypatch.setitem(sys.modules, "page", module)
    shared = vars(module)
    by_shell = ""
    blocks = r"```(python|shell)\n(.*?)```(?:\n\n```text\n(.*?)```)?"
    for kind, block, printed in re.findall(blocks, page(name), flags=re.DOTALL):
        if block.startswith(">>>"):
            runner, test = (
                doctest.DocTestRunner(),
                doctest.DocTestParser().get_doctest(block, shared, name, None, 0),
            )
            runner.run(test, clear_globs=False)
            assert not runner.summarize().failed
            shared.update(test.globs)
        elif kind == "python":
            capsys.readouterr()
            exec(compile(block, f"{name}.md", "exec"), shared)
            assert capsys.readouterr().out == printed or not printed
        else:
            by_shell += "".join(map(shell, block.strip().splitlines()))
    if name in DOORS:  # text after a sentence is of the commands and of their files, too
        written = [*tmp_path.glob("*.html"), *tmp_path.glob("*.csv")]
        by_shell += "".join(path.read_text(encoding="utf-8") for path in written)
        texts = re.findall(r"```text\n(.*?)```", page(name), flags=re.DOTALL)
        assert [line for text in texts for line in text.splitlines() if line not in by_shell] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
@pytest.mark.slow
def test_cells_of_a_notebook_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert "display_data" in kinds  # stored with its pictures
    assert "error" not in kinds
    assert path.stat().st_size < 200_000
    shared = {"shell": shell}
    for cell in cells:
        lines = "".join(cell["source"]).replace("\\\n", "")
        source = re.sub(r"^!(.+)$", lambda line: f"shell({line[1]!r})", lines, flags=re.MULTILINE)
        exec(compile(source, path.name, "exec"), shared)


@pytest.mark.parametrize("name", ["06_bank", "07_hospital", "08_guardrail"])
def test_first_paths_end_with_a_certificate_and_its_price(name):
    path = DOCS / "notebooks" / f"{name}.ipynb"
    *_, last = json.loads(path.read_text("utf-8"))["cells"]
    printed = "".join(text for output in last["outputs"] for text in output.get("text", ()))
    assert "Certified with 95 % confidence from" in printed
    assert "not certified" not in printed
    assert re.search(
        r"^Overall error [.\d]+.* \(without limits, the (model|score|average)[^:]*: [.\d]+.*\)",
        printed,
        flags=re.MULTILINE,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["lightgbm", "autogluon.tabular", "tabpfn"])
def test_models_of_other_libraries(library, tmp_path, monkeypatch, capsys):
    """TabPFN needs weights from the network, so only its presence runs the block."""
    pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page("other-models"), flags=re.DOTALL)
    (block,) = [text for text in blocks if f"import {library}" in text or f"from {library} " in text]
    exec(compile(block, "other-models.md", "exec"), {})
    assert "miss rate of 0" in capsys.readouterr().out
