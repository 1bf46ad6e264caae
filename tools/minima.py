"""Write constraints-min.txt: the oldest versions that pyproject.toml declares, one line for each requirement.

    python tools/minima.py > constraints-min.txt

``make test-min`` runs the tests with these versions, so what pyproject.toml declares is what was tried.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: The extras that the tests are run with. PyTorch is left out: its package index has wheels of the oldest
#: version with CUDA only, several gigabytes that a test of the minima need not fetch.
EXTRAS = ("xgboost", "app", "dask", "test")


def minima(project: Mapping[str, Any]) -> list[str]:
    """Return the lines of the file for the table ``project`` of pyproject.toml, sorted.

    Raises
    ------
    ValueError
        If a requirement declares no oldest version.
    """
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(requirement for extra in EXTRAS for requirement in extras[extra])]
    lines = set()
    for requirement in needed:
        if requirement.startswith(f"{project['name']}["):  # another extra
            continue
        found = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9.]+)", requirement)
        if found is None:
            raise ValueError(f"pyproject.toml: {requirement!r} declares no oldest version (name>=version)")
        lines.add(f"{found[1]}=={found[2]}")
    return sorted(lines)


def text() -> str:
    """Return what constraints-min.txt must hold."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    head = (
        "# The oldest versions that pyproject.toml declares; made by tools/minima.py for `make test-min`.\n"
    )
    return head + "".join(f"{line}\n" for line in minima(project))


if __name__ == "__main__":
    print(text(), end="")
