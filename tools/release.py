"""Check that a tag, the version of the code, the changelog, CITATION.cff and the addresses agree.

    python tools/release.py v0.1.0

The version is written in ``src/tailboost/__init__.py``; CITATION.cff repeats it for citations, with the
date of the changelog. The addresses of ``pyproject.toml`` are placeholders until the project has a site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "https://example.org"


def version() -> str:
    """Return the version of the code."""
    text = (ROOT / "src" / "tailboost" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert match is not None
    return match[1]


def problems(tag: str) -> list[str]:
    """Return the reasons against the release of a tag."""
    number, reasons = version(), []
    if tag != f"v{number}":
        reasons.append(f"the tag is {tag!r}, the code is version {number}")
    changes, citation, project = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("CHANGELOG.md", "CITATION.cff", "pyproject.toml")
    )
    section = re.search(rf"^## \[?{re.escape(number)}\]? - (\d{{4}}-\d\d-\d\d)$", changes, re.M)
    if section is None:
        reasons.append(f"CHANGELOG.md has no section {number} with a date")
    elif f"date-released: {section[1]}\n" not in citation:
        reasons.append(f"CITATION.cff has another date than {section[1]}")
    if f"version: {number}\n" not in citation:
        reasons.append(f"CITATION.cff has another version than {number}")
    if PLACEHOLDER in project + citation:
        reasons.append(f"the addresses of the project are placeholders: {PLACEHOLDER}")
    return reasons


def main(arguments: Sequence[str]) -> int:
    """Print the reasons against the release; return their number as the exit code."""
    reasons = problems(*arguments)
    for problem in reasons:
        print(problem, file=sys.stderr)
    return len(reasons)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
