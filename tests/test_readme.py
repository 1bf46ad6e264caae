"""The README's code runs; every linked file exists."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("papers/*.md")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_block_of_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_block_of_the_shell_runs_from_an_empty_folder(tmp_path, monkeypatch):
    testing = pytest.importorskip("typer.testing")
    pytest.importorskip("matplotlib")
    from tailboost.app import cli

    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^    tailboost (.*)$", README, flags=re.MULTILINE):
        result = testing.CliRunner().invoke(cli.app, shlex.split(line, comments=True))
        assert result.exit_code == 0, f"{line}\n{result.output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not re.match(r"\w+:", target):
            assert (page.parent / target).exists(), target
