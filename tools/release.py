"""Check that a tag can be released: it is the version of the code, and the changelog speaks of it.

    python tools/release.py v0.1.0

The version stands in ``src/tailboost/__init__.py`` alone; CITATION.cff repeats it for citations.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version() -> str:
    """Return the version of the code."""
    text = (ROOT / "src" / "tailboost" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def problems(tag: str) -> list[str]:
    """Return what speaks against releasing a tag."""
    number, found = version(), []
    if tag != f"v{number}":
        found.append(f"the tag is {tag!r}, the code is version {number}")
    if not re.search(
        rf"^## \[?{re.escape(number)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    ):
        found.append(f"CHANGELOG.md has no section {number}")
    if f"version: {number}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        found.append(f"CITATION.cff is not of version {number}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Print what speaks against it; return the exit code."""
    found = problems(*arguments)
    for problem in found:
        print(problem, file=sys.stderr)
    return len(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
