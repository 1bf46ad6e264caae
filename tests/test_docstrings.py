"""Examples in docstrings run."""

import doctest
import importlib
from pathlib import Path

import pytest

import tailboost as tb

PACKAGE = Path(tb.__file__).parent

#: Every module with an example, by its dotted name.
MODULES = sorted(
    ".".join(("tailboost", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    if name.startswith("tailboost.learners.torch"):
        pytest.importorskip("torch")
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
