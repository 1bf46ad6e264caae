"""Shared by the scripts of the papers: options, finished cells, data sets and tables."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

HERE = Path(__file__).parent


def options(doc: str, parts: Sequence[str], *, seeds: int, more: Sequence[str] = ()) -> argparse.Namespace:
    """Return the options of a script: the parts to run, seeds, and folders."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)}; default: all")
    parser.add_argument("--seeds", type=int, default=seeds, help="repeats (default: %(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets; else fetched")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="folder of the record")
    parser.add_argument("--small", action="store_true", help="a short run, to try the script")
    for name in more:
        parser.add_argument(f"--{name}", type=int, metavar="N", help="a smaller number than the paper's")
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in parts]
    if unknown:
        parser.error(f"{unknown[0]!r} is no part; the parts are {', '.join(parts)}")
    given.parts = given.parts or list(parts)
    return given


class Cells:
    """Finished cells in a file of JSON lines: an interrupted run goes on after the last of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, dict[str, Any]] = {}
        whole = ""
        if path.exists():
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]  # an interrupt may cut the last line
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(whole, encoding="utf-8")
        for line in whole.splitlines():
            cell = json.loads(line)
            self.found[json.dumps(cell["key"])] = cell

    def get(self, *key: Any, compute: Callable[[], Any]) -> Any:
        """Return the value of a cell, computed unless the file has it."""
        name = json.dumps(key)
        if name not in self.found:
            began = time.process_time()
            value = compute()
            seconds = round(time.process_time() - began, 1)
            cell = {"key": key, "value": value, "seconds": seconds}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cell) + "\n")
            print(*key, f"{seconds} s", flush=True)
            self.found[name] = cell
        return self.found[name]["value"]

    @property
    def seconds(self) -> float:
        """Processor seconds of all cells."""
        return round(sum(cell["seconds"] for cell in self.found.values()), 1)


def record(path: Path, part: str, found: dict[str, Any]) -> None:
    """Write a part of a record; the other parts of the file stay."""
    parts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    parts[part] = found
    text = json.dumps(parts, indent=1, ensure_ascii=False)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(path)


def interval(values: Iterable[float], digits: int = 1) -> str:
    """Return the mean of repeats with the half width of its 95 % Student interval."""
    of = np.asarray(list(values), dtype=float)
    mean = f"{of.mean():.{digits}f}"
    if len(of) == 1:
        return mean
    half = stats.t.ppf(0.975, len(of) - 1) * of.std(ddof=1) / np.sqrt(len(of))
    return f"{mean} ± {half:.{digits}f}"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def frame(folder: Path | None, name: str, source: str, openml: str | None = None) -> Any:
    """Return the data frame ``NAME.csv`` or ``NAME.csv.gz`` of a folder, or a set of OpenML.

    A question mark is a missing value. Without a file and a copy on OpenML the error names ``source``, where
    the file is to be had.
    """
    import pandas as pd
    from sklearn.datasets import fetch_openml

    for ending in ("csv", "csv.gz"):
        if folder is not None and (folder / f"{name}.{ending}").is_file():
            return pd.read_csv(folder / f"{name}.{ending}", na_values="?")
    if folder is None and openml is not None:
        title, _, version = openml.partition(":")
        return fetch_openml(title, version=int(version), as_frame=True, parser="auto").frame
    raise FileNotFoundError(f"--data DIR needs {name}.csv or {name}.csv.gz in the folder; source: {source}")
