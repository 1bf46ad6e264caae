"""The pages for a bank and a hospital: what they show is run, one block after the other."""

import re
import shlex
from pathlib import Path

import pytest

for needed in ("typer", "rich", "jinja2", "pandas"):
    pytest.importorskip(needed)

from typer.testing import CliRunner

from tailboost import rates
from tailboost.app import cli

DOCS = Path(__file__).parents[1] / "docs"
NAMES = ["bank", "hospital"]


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_limits_of_the_table_are_read(name):
    _, *rows = re.findall(r"^\|[^|]+\| `([^`]+)` \|$", page(name), flags=re.MULTILINE)
    assert len(rows) == 6
    for text in rows:
        assert isinstance(rates.parse(text), rates.Limit)


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_short(name):
    assert len(re.sub(r"```.*?```", "", page(name), flags=re.DOTALL).split()) <= 700


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*NAMES, "limits"])
def test_blocks_run_one_after_the_other(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shared = {}
    for kind, block in re.findall(r"```(python|shell)\n(.*?)```", page(name), flags=re.DOTALL):
        if kind == "python":
            exec(compile(block, f"{name}.md", "exec"), shared)
            continue
        for line in block.strip().splitlines():
            command, *arguments = shlex.split(line)
            assert command == "tailboost"
            result = CliRunner().invoke(cli.app, arguments)
            assert result.exit_code == 0, f"{line}\n{result.output}"
