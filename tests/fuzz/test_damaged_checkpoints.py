"""Damaged checkpoints: refused by name and left as they are; without the file the fit is the unbroken one."""

from __future__ import annotations

import pytest
from test_checkpoints import check_damage, finished, names

pytestmark = pytest.mark.fuzz
PART = "checkpoints: damage"
__all__ = ["finished"]  # a fixture


@pytest.mark.parametrize(
    ("how", "n"), [("bit", 125), ("cut", 110), ("longer", 25), ("foreign", 25), ("zeros", 25)]
)
def test_damage(how, n, finished, tally, tmp_path):
    files = names(finished[0])
    for seed in range(n):
        check_damage(finished, tmp_path / "copy", files[seed % len(files)], how, seed)
        tally.refused()
