"""Shared by the scripts of the papers: options, finished cells, data sets and tables."""

from __future__ import annotations

import argparse
import json
import subprocess
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
    repeats = "repeats; 0: the table of the cells there are (default: %(default)s)"
    parser.add_argument("--seeds", type=int, default=seeds, help=repeats)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets; else fetched")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="folder of the cells")
    parser.add_argument("--small", action="store_true", help="a short run, to try the script")
    for name in more:
        parser.add_argument(f"--{name}", type=int, metavar="N", help="a smaller number than the paper's")
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in parts]
    if unknown:
        parser.error(f"{unknown[0]!r} is no part; the parts are {', '.join(parts)}")
    given.parts = given.parts or list(parts)
    given.out /= "small" if given.small else ""
    return given


def commit() -> str:
    """Return the last commit of the code, with a plus where files differ from it."""

    def git(*words: str) -> str:
        call = ["git", "-C", HERE, *words, "--", "../src", "*.py"]
        return subprocess.run(call, capture_output=True, text=True, check=False).stdout.strip()

    return git("log", "-1", "--format=%h", "--abbrev=8") + "+" * bool(git("status", "--porcelain"))


class Cells:
    """Finished cells of a part, one a line: a run computes those that are missing.

    A line has the cell's name and repeat, the settings of its run, its value, processor seconds, and the
    commit of the code. It holds as long as the code computes the same value, which slow tests look at. Who
    changes a value deletes the lines. Lines of other settings stay in the file and are not read.
    """

    def __init__(self, folder: Path, part: str, *settings: Any) -> None:
        self.path = folder / "cells" / f"{part}.jsonl"
        self.settings = list(settings)
        self.commit = commit()
        self.lines: dict[tuple[str, int], dict[str, Any]] = {}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # an interrupt has cut the last line
            self.path.write_text(whole, encoding="utf-8")
        for line in map(json.loads, whole.splitlines()):
            if line["settings"] == self.settings:
                self.lines[line["name"], line["repeat"]] = line

    def compute(self, name: str, repeat: int, value: Callable[[], Any]) -> None:
        """Compute the value of a cell, unless the file has it."""
        if (name, repeat) in self.lines:
            return
        began = time.process_time()
        line = {"name": name, "repeat": repeat, "settings": self.settings, "value": value()}
        line |= {"seconds": round(time.process_time() - began, 1), "commit": self.commit}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(name, repeat, f"{line['seconds']} s", flush=True)
        self.lines[name, repeat] = line

    def values(self) -> dict[str, list[Any]]:
        """Return the values of all finished cells by name, in the order of the repeats."""
        found: dict[str, list[Any]] = {}
        for (name, _), line in sorted(self.lines.items(), key=lambda item: item[0][1]):
            found.setdefault(name, []).append(line["value"])
        return found

    def __str__(self) -> str:
        """Say how many cells there are, their seconds and commits."""
        seconds = [line["seconds"] for line in self.lines.values() if line["seconds"] is not None]
        commits = ", ".join(dict.fromkeys(line["commit"] for line in self.lines.values()))
        known = f"{len(seconds)} of them took {sum(seconds):,.0f} processor seconds"
        return f"{len(self.lines)} cells of commits {commits}; {known}"


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
