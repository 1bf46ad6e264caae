"""Options and records of benchmarks with several parts: a file keeps the results of other runs."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "scikit-learn", "xgboost", "xgboost-cpu")


def options(doc: str, parts: list[str]) -> argparse.ArgumentParser:
    """Return a parser of the part, the folder of real tables, titles of tables and the file."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("part", choices=parts)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="titles of tables")
    parser.add_argument("--out", type=Path)
    return parser


def opened(out: Path | None, script: str) -> dict[str, Any]:
    """Return the record of a file, if there is one, with command and versions of this run."""
    record: dict[str, Any] = json.loads(out.read_text()) if out and out.exists() else {}
    record["command"] = f"python benchmarks/{script}.py PART --out {script}.json"
    record["versions"] = {}
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            record["versions"][library] = version(library)
    return record


def write(record: dict[str, Any], out: Path | None) -> None:
    """Write a record."""
    if out:
        out.write_text(json.dumps(record, indent=1) + "\n")


def rounded(value: Any) -> Any:
    """Return a record with four digits after the point."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return round(value, 4) if isinstance(value, float) else value
