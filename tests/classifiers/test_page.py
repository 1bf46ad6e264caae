"""docs/published.md: all blocks run in order, and every function has a block."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("matplotlib").use("Agg")

from tailboost import published

TEXT = (Path(__file__).parents[2] / "docs" / "published.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_blocks_run_one_after_the_other():
    shared = {}
    for block in BLOCKS:
        if "tailboost.torch" in block and not find_spec("safetensors"):
            continue  # an environment without the extra of nets
        exec(compile(block, "published.md", "exec"), shared)


def test_every_function_has_a_block():
    for name in published.__all__:
        assert any(re.search(rf"\bpublished\.{name}\b", block) for block in BLOCKS), name
