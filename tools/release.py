"""Check that a tag, the version of the code, the changelog and CITATION.cff agree.

    python tools/release.py v0.1.0

The version is written in ``src/tailboost/__init__.py``; CITATION.cff repeats it for citations.
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
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert match is not None
    return match[1]


def problems(tag: str) -> list[str]:
    """Return the reasons against the release of a tag."""
    number, reasons = version(), []
    if tag != f"v{number}":
        reasons.append(f"the tag is {tag!r}, the code is version {number}")
    if not re.search(
        rf"^## \[?{re.escape(number)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    ):
        reasons.append(f"CHANGELOG.md has no section {number}")
    if f"version: {number}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        reasons.append(f"CITATION.cff has another version than {number}")
    return reasons


def main(arguments: Sequence[str]) -> int:
    """Print the reasons against the release; return their number as the exit code."""
    reasons = problems(*arguments)
    for problem in reasons:
        print(problem, file=sys.stderr)
    return len(reasons)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
