"""What all experiments share: settings, finished cells that survive an interrupt, intervals, tables."""

from __future__ import annotations

import datetime
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from tailboost.classifiers import FitInterruptedWarning

_PACKAGES = ("tailboost", "numpy", "scipy", "scikit-learn", "xgboost", "xgboost-cpu", "torch")


@dataclass(frozen=True)
class Settings:
    """How an experiment is to be run.

    Parameters
    ----------
    out : Path
        Folder for the results, made if it is not there; finished cells found in it are not computed again.
    data : Path or None
        Folder with the data sets the package does not bring along.
    repeats : int ≥ 1
        Number of random splits.
    n_jobs : int
        Cores: threads of a learner, or cells computed at the same time.
    scale : {"small", "paper"}
        For experiments with nets: cut to what a CPU does in minutes, or as published.
    say : callable
        Told of each finished cell, in one line.
    """

    out: Path
    data: Path | None = None
    repeats: int = 1
    n_jobs: int = 1
    scale: str = "small"
    say: Callable[[str], None] = print


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Attributes
    ----------
    name, summary : str
        Key and one line.
    repeats : int
        Random splits unless another number is asked for.
    needs_data : bool
        Whether it needs a folder of data sets.
    run : callable
        ``run(settings) -> str``: writes NAME.json, NAME.md and NAME.png to the folder, and returns the text.
    """

    name: str
    summary: str
    repeats: int
    needs_data: bool
    run: Callable[[Settings], str]


class Cells:
    """Finished cells of an experiment, one JSON line each: an interrupted run goes on where it stopped.

    Parameters
    ----------
    file : Path
        Where they are kept.
    say : callable
        Told of each newly finished cell.
    total : int, default=0
        How many cells will be asked for; with it, ``say`` is also told about how long the rest will take.
    """

    def __init__(self, file: Path, say: Callable[[str], None], total: int = 0) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file, self.say, self.total = file, say, total
        self.asked, self.seconds = 0, list[float]()
        self._done: dict[str, dict[str, Any]] = {}
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):  # the last one may have been cut off
                    cell = json.loads(line)
                    self._done[json.dumps(cell["key"], sort_keys=True)] = cell["values"]

    def __contains__(self, key: dict[str, Any]) -> bool:
        return json.dumps(key, sort_keys=True) in self._done

    def get(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the values of a cell, computed now or found."""
        name = json.dumps(key, sort_keys=True)
        self.asked += 1
        if name not in self._done:
            began = time.perf_counter()
            values = self._whole(compute)
            with self.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"key": key, "values": values}) + "\n")
            self._done[name] = values
            self.seconds.append(time.perf_counter() - began)
            self.say(f"{', '.join(str(v) for v in key.values())}: {self.seconds[-1]:.1f} s{self._rest()}")
        return self._done[name]

    @staticmethod
    def _whole(compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Compute a cell; Ctrl-C ends it, though a fit would settle for the rounds it has."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", FitInterruptedWarning)
            try:
                return compute()
            except FitInterruptedWarning as interrupted:
                raise KeyboardInterrupt from interrupted

    def _rest(self) -> str:
        if not self.total:
            return ""
        left = max(self.total - self.asked, 0) * float(np.mean(self.seconds)) / 60
        return f" ({self.asked} of {self.total}, about {left:.1f} min left)"


def mean_and_half_width(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return the mean and half the width of its Student t interval over repeats; nan for a single one."""
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        return float(x.mean()), float("nan")
    half = stats.t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean()), float(half)


def interval(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± half width of the 95 % interval, as text; large numbers with fewer digits."""
    mean, half = mean_and_half_width(values)
    if abs(mean) >= 1e4:
        return f"{mean:.1e}"
    return f"{round(mean, digits) + 0.0:.{digits}f}" + (f" ± {half:.{digits}f}" if np.isfinite(half) else "")


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def write(settings: Settings, name: str, document: dict[str, Any], text: str) -> None:
    """Write NAME.json, with what it was run with, and NAME.md."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    about = {
        "experiment": name,
        "command": f"tailboost reproduce {name}{' --data DIR' * (settings.data is not None)} "
        f"--repeats {settings.repeats}{' --scale paper' * (settings.scale == 'paper')}",
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": versions,
    }
    settings.out.mkdir(parents=True, exist_ok=True)
    (settings.out / f"{name}.json").write_text(
        json.dumps(about | document, indent=1) + "\n", encoding="utf-8"
    )
    (settings.out / f"{name}.md").write_text(text + "\n", encoding="utf-8")
