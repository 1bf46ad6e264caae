"""Blocks of code on the pages run, in the order of the page."""

import doctest
import re
import runpy
import shlex
import sys
import types
from pathlib import Path

import pytest

for module in ("typer", "jinja2", "pandas"):
    pytest.importorskip(module)

from typer.testing import CliRunner

from tailboost.app import cli

DOCS = Path(__file__).parents[1] / "docs"
PATHS = {path.relative_to(DOCS).as_posix().removesuffix(".md"): path for path in DOCS.glob("*.md")}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PATHS.items()}
BLOCK = re.compile(r"^```(python|shell)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
RUN = sorted(name for name, text in TEXTS.items() if BLOCK.search(text))
NEEDED = {"published": "torch", "large": "dask.dataframe"}


def shell(line):
    """Run a command of tailboost."""
    command, *arguments = shlex.split(line.partition(" > ")[0], comments=True)
    if command == "tailboost":
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUN)
def test_blocks_run_in_order(name, tmp_path, monkeypatch):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    module = types.ModuleType("page")  # model files name the classes of a page by their module
    monkeypatch.setitem(sys.modules, "page", module)
    shared = vars(module)
    for kind, block in BLOCK.findall(TEXTS[name]):
        if kind == "shell":
            for line in block.replace("\\\n", "").strip().splitlines():
                shell(line)
        else:
            examples = doctest.DocTestParser().get_examples(block)
            code = "".join(example.source for example in examples) or block
            exec(compile(code, f"{name}.md", "exec"), shared)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted(DOCS.parent.glob("examples/plot_*.py")), ids=lambda path: path.stem)
def test_the_gallery_runs(path, monkeypatch):
    for module in ("torch", "fairlearn"):
        if f" {module}" in path.read_text(encoding="utf-8"):
            pytest.importorskip(module)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(path))
