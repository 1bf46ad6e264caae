"""Bring the records of experiments and measurements into the documentation, and lead their names to them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

TOP = Path(__file__).parents[1]
# Where a record of the checkout is in the documentation.
FOLDERS = {"results": "records", "benchmarks": "measurements"}
INDEX = "index.md"
# The name of a record, as pages write it: code, or the target of a link.
NAMED = re.compile(r"(?<!\[)`((?:results|benchmarks)/[\w-]+\.md)`")
LINKED = re.compile(r"\]\((?:\.\./)*((?:results|benchmarks)/[\w-]+\.md)(#[\w-]+)?\)")
# Links of a record to files that are not in the documentation, such as programs and numbers.
ELSEWHERE = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\.(?:py|json|jsonl)\)")
PAGES = re.compile(r"\]\(\.\./docs/([^)]+)\)")
ALL = "\n\n```{toctree}\n:hidden:\n:glob:\n*\n```\n"


def write(docs: Path) -> None:
    """Write the records as pages, each folder with its README as the index."""
    for source, target in FOLDERS.items():
        folder = docs / target
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        paths = list((TOP / source).glob("*.md"))
        for path in paths:
            text = path.read_text(encoding="utf-8").replace("](README.md", f"]({INDEX}")
            text = PAGES.sub(r"](/\1)", ELSEWHERE.sub(r"\1", text))
            if path.name == "README.md" and len(paths) > 1:
                text += ALL
            name = INDEX if path.name == "README.md" else path.name
            (folder / name).write_text(text, encoding="utf-8")
        for path in (TOP / source).glob("*.png"):
            shutil.copy(path, folder)


def linked(text: str) -> str:
    """Return a page with links to the records that it names."""

    def page_of(record: re.Match[str]) -> str:
        folder, name = record[1].split("/")
        page = INDEX if name == "README.md" else name
        return f"(/{FOLDERS[folder]}/{page}"

    text = NAMED.sub(lambda record: f"[`{record[1]}`]{page_of(record)})", text)
    return LINKED.sub(lambda record: f"]{page_of(record)}{record[2] or ''})", text)
