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
def test_blocks_of_python_print_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == README.count("```python") == 2
    shared: dict = {}
    for block, stated in blocks:
        exec(compile(block, "README.md", "exec"), shared)
        printed = capsys.readouterr().out
        number = r"\d[\d,]*(?:\.\d+)?"  # rounding may differ between machines
        assert re.sub(rf"{number}|\s+", " ", printed) == re.sub(rf"{number}|\s+", " ", stated)
        found, said = (
            [float(n.replace(",", "")) for n in re.findall(number, text)] for text in (printed, stated)
        )
        assert found == pytest.approx(said, rel=0.05)


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
