"""``tailboost reproduce NAME --check``: the record of an experiment compared with a new run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "results"
# Entries about a run, not about its result.
ABOUT = {"experiment", "command", "finished", "versions", "processor seconds", "edition"}
# Most differences to print, the largest first.
MOST = 20
# Smaller differences of numbers are rounding errors of sums: records have six significant digits.
ROUNDING = 1e-9

Leaf = tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """A value of the record and of the new run.

    Attributes
    ----------
    where : tuple of str
        Keys that lead to the value.
    recorded, found : object
        Both values.
    """

    where: Leaf
    recorded: Any
    found: Any

    @property
    def size(self) -> float:
        """Relative difference of two numbers, infinite for other values."""
        if not (_is_number(self.recorded) and _is_number(self.found)):
            return float("inf")
        return abs(self.recorded - self.found) / max(abs(self.recorded), abs(self.found))

    def __str__(self) -> str:
        return f"{' / '.join(self.where)}: {self.recorded!r} recorded, {self.found!r} now"


@dataclass(frozen=True)
class Comparison:
    """Record and new run, value by value.

    Attributes
    ----------
    name : str
        The experiment.
    n_values : int
        Number of values that both have; times are not compared.
    differences : list of Difference
        Different values, the largest relative difference first.
    only_recorded, only_found : list of tuple of str
        Values that only one of both has.
    versions : list of str
        Packages whose versions differ.
    edition : str
        What the record says of the edition that made it; "" if it says nothing.
    """

    name: str
    n_values: int
    differences: list[Difference]
    only_recorded: list[Leaf]
    only_found: list[Leaf]
    versions: list[str]
    edition: str

    @property
    def same(self) -> bool:
        """Whether all values are equal."""
        return not (self.differences or self.only_recorded or self.only_found)

    @property
    def agrees(self) -> bool:
        """Whether all values that both have are equal."""
        return not self.differences

    def __str__(self) -> str:
        equal = self.n_values - len(self.differences)
        words = f"values equal the record up to {ROUNDING:g} (times not compared)"
        lines = [f"{self.name}: {equal:,} of {self.n_values:,} {words}"]
        if self.edition:
            lines.append(f"the record says: {self.edition}")
        if self.versions:
            lines.append(f"other versions: {', '.join(self.versions)}")
        lines += [str(difference) for difference in self.differences[:MOST]]
        if (rest := len(self.differences) - MOST) > 0:
            lines.append(f"and {rest:,} smaller differences")
        for words, where in (("the record", self.only_recorded), ("the new run", self.only_found)):
            if where:
                lines.append(f"only in {words}: {len(where):,} values, the first {' / '.join(where[0])}")
        return "\n".join(lines)


def recorded(name: str, records: Path) -> dict[str, Any]:
    """Return the record of an experiment in a folder.

    Raises
    ------
    ValueError
        If there is none.
    """
    file = records / f"{name}.json"
    if not file.is_file():
        raise ValueError(f"--check: there is no record of {name}, {file}")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def options_of(record: Mapping[str, Any]) -> tuple[int, str]:
    """Return the repeats and the scale in the command of a record."""
    command = record["command"]
    found = re.search(r"--repeats (\d+)", command)
    return int(found[1]) if found else 1, "paper" if "--scale paper" in command else "small"


def compare(name: str, record: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    """Compare a record with a new run of the same experiment."""
    old, now = dict(_leaves(record)), dict(_leaves(new))
    both = [where for where in old if where in now]
    differences = [
        Difference(where, old[where], now[where]) for where in both if _differ(old[where], now[where])
    ]
    versions, others = record.get("versions", {}), new.get("versions", {})
    return Comparison(
        name=name,
        n_values=len(both),
        differences=sorted(differences, key=lambda difference: -difference.size),
        only_recorded=[where for where in old if where not in now],
        only_found=[where for where in now if where not in old],
        versions=[
            f"{package} {versions.get(package)} recorded, {others.get(package)} now"
            for package in sorted({*versions, *others})
            if versions.get(package) != others.get(package)
        ],
        edition=record.get("edition", ""),
    )


def _leaves(value: Any, where: Leaf = ()) -> Iterator[tuple[Leaf, Any]]:
    """Yield the values in nested lists and tables, without times and entries about the run."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not (key in ABOUT and not where) and "seconds" not in key:
                yield from _leaves(inner, (*where, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*where, str(number)))
    else:
        yield where, value


def _differ(recorded: Any, found: Any) -> bool:
    if _is_number(recorded) and _is_number(found):
        return bool(abs(recorded - found) > ROUNDING)
    return bool(recorded != found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
