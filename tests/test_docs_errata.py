"""Counter-examples of the errata page run with the stated result."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "papers" / "errata.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, flags=re.M | re.S)


@pytest.mark.parametrize(("title", "body"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_counter_examples_run(title, body):
    blocks = re.findall(r"^```python\n(.*?)^```", body, flags=re.M | re.S)
    assert blocks, "an erratum without a counter-example"
    for block in blocks:
        assert "assert" in block
        if "worst_class" in block:  # the paper's script has nets
            pytest.importorskip("torch")
        exec(compile(block, title, "exec"), {})
