"""Common parts of experiments: settings, stored cells, intervals, the writer."""

from __future__ import annotations

import datetime
import io
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.report.results import interval
from tailboost.core.files import write_output
from tailboost.core.versions import versions
from tailboost.exceptions import FitInterruptedWarning

T = TypeVar("T")

# Significant digits of the numbers in a summary.
DIGITS = 6
# Colours of a picture: few make a small file, and pictures are kept in git.
COLOURS, DPI = 64, 90


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Parameters
    ----------
    out : Path
        Folder for the results, created if absent; finished cells are not computed again.
    data : Path or None
        Folder with data sets outside the package.
    repeats : int ≥ 1
        Number of random splits or seeds.
    n_jobs : int
        Threads of a learner; cells are computed one after the other.
    scale : {"small", "paper"}
        For experiments with nets: "small" takes minutes on a CPU, "paper" is as published.
    say : callable
        Called with one line for each finished cell.
    only : tuple of str
        Methods or data sets to compute, for experiments that have parts; empty means all.
    seed : int or None
        The only repeat to compute, likewise.
    max_time : float or None
        Time limit in seconds, likewise; the same call continues from there.

    Attributes
    ----------
    spent : list of float or None
        Processor seconds of every requested cell, computed now or before; None if unknown.
    """

    out: Path
    data: Path | None = None
    repeats: int = 1
    n_jobs: int = 1
    scale: str = "small"
    say: Callable[[str], None] = print
    only: tuple[str, ...] = ()
    seed: int | None = None
    max_time: float | None = None
    _began: float = field(default_factory=time.monotonic, init=False)
    spent: list[float | None] = field(default_factory=list, init=False)

    @property
    def time_left(self) -> float | None:
        """Seconds left for computing, > 0 for the parameter ``max_time`` of a fit; None without a limit."""
        if self.max_time is None:
            return None
        return max(self.max_time - (time.monotonic() - self._began), 1e-9)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.max_time is not None and time.monotonic() - self._began >= self.max_time

    @property
    def folder(self) -> Path:
        """The folder of data sets.

        Raises
        ------
        ValueError
            If none was given.
        """
        if self.data is None:
            raise ValueError("--data: this experiment needs a folder of data sets")
        return self.data


class OutOfTime(Exception):
    """The fit of a cell ended at the time limit; its progress is on disk."""


@dataclass(frozen=True)
class Report:
    """The result of an experiment.

    Parameters
    ----------
    text : str
        The tables, Markdown with headings of the second level.
    summary : dict
        The same numbers for programs, JSON's types only.
    picture : callable or None
        ``picture(plt) -> Figure`` draws the result with ``matplotlib.pyplot``.
    """

    text: str
    summary: dict[str, Any]
    picture: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Parameters
    ----------
    name, summary : str
        Key and one line.
    play : callable
        ``play(settings, name) -> Report``; the name distinguishes experiments with a common function.
    repeats : int
        Default number of random splits or seeds.
    needs_data : bool
        Whether a folder of data sets is necessary.
    has_jobs : bool
        Whether cells are jobs for several calls and machines: ``Settings.only``, ``seed``, ``max_time``.
    has_rows : bool
        Whether ``Settings.only`` names data sets, one for each row of the table, and ``max_time`` ends a run
        between cells.
    """

    name: str
    summary: str
    play: Callable[[Settings, str], Report]
    repeats: int = 1
    needs_data: bool = True
    has_jobs: bool = False
    has_rows: bool = False

    def run(self, settings: Settings) -> str:
        """Compute missing cells, write NAME.md, NAME.json and perhaps NAME.png, and return the tables.

        The text above the tables of an existing NAME.md stays. Without matplotlib there is no
        picture.
        """
        settings.out.mkdir(parents=True, exist_ok=True)
        report = self.play(settings, self.name)
        file = settings.out / self.name
        self._write_reading(file.with_suffix(".md"), report.text)
        self._write_summary(file.with_suffix(".json"), settings, report.summary)
        if report.picture is not None:
            save_picture(report.picture, file.with_suffix(".png"))
        return report.text

    def _write_reading(self, file: Path, text: str) -> None:
        mark = f"<!-- Below: written by `tailboost reproduce {self.name}`. What stands above is kept. -->"
        above, found, _ = file.read_text(encoding="utf-8").partition(mark) if file.exists() else ("", "", "")
        above = above if found else f"# {self.summary}\n\n"
        write_output(file, f"{above}{mark}\n\n{text}\n")

    def _write_summary(self, file: Path, settings: Settings, summary: dict[str, Any]) -> None:
        options = " --data DIR" * self.needs_data + f" --repeats {settings.repeats}"
        options += " --scale paper" * (settings.scale == "paper")
        about: dict[str, Any] = {
            "experiment": self.name,
            "command": f"tailboost reproduce {self.name}{options}",
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "versions": versions("torch"),
        }
        if settings.spent and None not in settings.spent:
            about["processor seconds"] = round(sum(s for s in settings.spent if s is not None), 1)
        # A line per entry: the file stays small, and a difference between two runs can be read.
        lines = [
            f"{json.dumps(key)}: {json.dumps(_short(value), ensure_ascii=False, allow_nan=False)}"
            for key, value in (about | summary).items()
        ]
        write_output(file, "{\n" + ",\n".join(lines) + "\n}\n")


def _short(x: Any) -> Any:
    """Round nested numbers to the digits of a summary; infinite numbers and NaN become None."""
    if isinstance(x, dict):
        return {str(key): _short(value) for key, value in x.items()}
    if isinstance(x, list | tuple | np.ndarray):
        return [_short(value) for value in x]
    if isinstance(x, float | np.floating):
        return float(f"{x:.{DIGITS}g}") if np.isfinite(x) else None
    return x.item() if isinstance(x, np.generic) else x


def save_picture(draw: Callable[[Any], Any], file: Path) -> None:
    """Draw and save a picture, small; nothing happens without matplotlib."""
    try:
        import matplotlib.pyplot as plt
        from PIL import Image  # comes with matplotlib
    except ImportError:
        return
    figure, drawn = draw(plt), io.BytesIO()
    figure.savefig(drawn, dpi=DPI)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(file, optimize=True)


class Cells:
    """Finished cells of an experiment, one JSON line each: an interrupted run continues after them.

    Parameters
    ----------
    settings : Settings
        Holds the folder of the cells and the function called for each newly finished one.
    name : str
        Name of the experiment; the file is ``NAME.jsonl``. Files of other machines,
        ``NAME.ANYTHING.jsonl``, are read, too.
    total : int, default=0
        Number of cells of the experiment, for an estimate of the remaining time.
    """

    def __init__(self, settings: Settings, name: str, total: int = 0) -> None:
        self.file, self.settings, self.total = settings.out / f"{name}.jsonl", settings, total
        self.asked, self.seconds = 0, list[float]()
        self._done: dict[str, dict[str, Any]] = {}
        self._spent: dict[str, float | None] = {}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        others = sorted(self.file.parent.glob(f"{name}.*.jsonl"))
        for file in [*others, *([self.file] if self.file.exists() else [])]:
            text = file.read_text(encoding="utf-8")
            for line in text.splitlines():
                with suppress(json.JSONDecodeError):  # an interrupt may have cut off a line
                    cell = json.loads(line)
                    name_of = json.dumps(cell["key"], sort_keys=True)
                    self._done[name_of], self._spent[name_of] = cell["values"], cell.get("seconds")
            if file == self.file and text and not text.endswith("\n"):
                file.write_text(f"{text}\n", encoding="utf-8")  # the next cell starts a new line

    def __contains__(self, key: dict[str, Any]) -> bool:
        return json.dumps(key, sort_keys=True) in self._done

    def get(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the values of a cell, computed now or found."""
        name = json.dumps(key, sort_keys=True)
        self.asked += 1
        if name not in self._done:
            began, worked = time.perf_counter(), time.process_time()
            values = self._whole(compute)
            self._spent[name] = round(time.process_time() - worked, 2)
            line = json.dumps({"key": key, "values": values, "seconds": self._spent[name]})
            with self.file.open("a", encoding="utf-8") as out:
                out.write(line + "\n")
            # In the form a later run reads: keys as text, lists for tuples.
            self._done[name] = json.loads(line)["values"]
            self.seconds.append(time.perf_counter() - began)
            self.settings.say(
                f"{', '.join(str(v) for v in key.values())}: {self.seconds[-1]:.1f} s{self._rest()}"
            )
        self.settings.spent.append(self._spent[name])
        return self._done[name]

    def _whole(self, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Compute a cell. Ctrl-C or the time limit ends the cell, not only the fit."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", FitInterruptedWarning)
            try:
                return compute()
            except FitInterruptedWarning as interrupted:
                raise (OutOfTime if self.settings.late else KeyboardInterrupt) from interrupted

    def _rest(self) -> str:
        if not self.total:
            return ""
        left = max(self.total - self.asked, 0) * float(np.mean(self.seconds)) / 60
        return f" ({self.asked} of {self.total}, about {left:.1f} min left)"


def of_each(
    data: Mapping[str, T],
    settings: Settings,
    name: str,
    compute: Callable[[T, int], dict[str, Any]],
    keys: tuple[str, str] = ("data", "repeat"),
) -> dict[str, list[dict[str, Any]]]:
    """Return a cell ``compute(rows, repeat)`` of every data set and repeat, by data set.

    All sets are computed with one repeat, then with the next; ``keys`` are the names of both in the cells.
    After ``Settings.max_time`` no cell is computed, and sets have the repeats that are finished.
    """
    cells = Cells(settings, name, total=len(data) * settings.repeats)
    found: dict[str, list[dict[str, Any]]] = {title: [] for title in data}
    for repeat in range(settings.repeats):
        for title, rows in data.items():
            key = dict(zip(keys, (title, repeat), strict=True))
            if key in cells or not settings.late:
                found[title].append(cells.get(key, partial(compute, rows, repeat)))
    return found


# -- figures ---------------------------------------------------------------------------------------------


def mean_and_half_width(values: ArrayLike) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval over repeats; nan for a single one."""
    found = interval(np.asarray(values, dtype=np.float64).tolist())
    mean, high = found["mean"], found["high"]
    assert mean is not None
    return mean, float("nan") if high is None else high - mean


def plus_minus(values: ArrayLike, digits: int = 3) -> str:
    """Mean ± half width of the 95 % interval, as text; large numbers with fewer digits."""
    mean, half = mean_and_half_width(values)
    if abs(mean) >= 1e4:
        return f"{mean:.1e}"
    return f"{round(mean, digits) + 0.0:.{digits}f}" + (f" ± {half:.{digits}f}" if np.isfinite(half) else "")


def with_standard_error(values: ArrayLike, digits: int) -> str:
    """Return mean ± standard error as text with a sign, or a single value."""
    x = np.asarray(values, dtype=np.float64)
    error = f" ± {x.std(ddof=1) / np.sqrt(len(x)):.{digits}f}" if len(x) > 1 else ""
    return f"{x.mean():+.{digits}f}{error}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def vote_shares(answers: Any, weights: Any, n_classes: int) -> Any:
    """Return the weighted share of each class in answers of shape (T, n), as shape (n, n_classes)."""
    return np.stack([weights @ (answers == k) for k in range(n_classes)], axis=1)
