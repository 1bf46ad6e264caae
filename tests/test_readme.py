"""The README's Python runs as it stands; every file it links to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("*/README.md"),
    *ROOT.glob("results/*.md"),
]


@pytest.mark.slow
def test_the_blocks_of_python_run_one_after_the_other(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)  # one of them writes checkpoints
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 2
    shared = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), shared)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not re.match(r"\w+:", target):
            assert (page.parent / target).exists(), target
