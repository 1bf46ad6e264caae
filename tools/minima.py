"""Print constraints-min.txt: the oldest version of each requirement in pyproject.toml.

    python tools/minima.py > constraints-min.txt

``make test-min`` runs the tests with these versions.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: The extras that the tests need. Not PyTorch: the wheels of its oldest version contain CUDA (gigabytes).
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
        match = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9.]+)", requirement)
        if match is None:
            raise ValueError(f"pyproject.toml: {requirement!r} declares no oldest version (name>=version)")
        lines.add(f"{match[1]}=={match[2]}")
    return sorted(lines)


def text() -> str:
    """Return the text of constraints-min.txt."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    head = (
        "# The oldest versions that pyproject.toml declares; made by tools/minima.py for `make test-min`.\n"
    )
    return head + "".join(f"{line}\n" for line in minima(project))


if __name__ == "__main__":
    print(text(), end="")
