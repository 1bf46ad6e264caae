"""How a results document is read: its measures, its figures and its numbers in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "NO_DIFFERENCE",
    "Column",
    "Document",
    "at",
    "beats_coin",
    "coin_loss",
    "count",
    "finished",
    "is_coin",
    "joined",
    "mean",
    "measures",
    "seconds",
    "spoken",
]

Document = Mapping[str, Any]
Path = tuple[str, ...]

# Numbers are printed to three decimals: a smaller difference is none.
NO_DIFFERENCE = 5e-4


@dataclass(frozen=True)
class Column:
    """One column of the comparison: a measure, lower being better."""

    title: str
    path: Path
    is_time: bool = False


def measures(document: Document) -> list[Column]:
    """Error, worst class, worst group of each group column, CVaR at each α."""
    return [
        Column("error", ("error",)),
        Column("worst class", ("worst_class_error",)),
        *(Column(f"worst by {name}", ("worst_group_errors", name)) for name in document["data"]["groups"]),
        *(Column(f"CVaR {a:g}", ("cvar", f"{a:g}")) for a in document["settings"]["alphas"]),
    ]


def step_of(document: Document, path: Path) -> float:
    """Return by how much a measure moves with one row held out, in the smallest of the units it is about."""
    data, (kind, *unit) = document["data"], path
    rows = {
        "error": lambda: data["n_rows"],
        "worst_class_error": lambda: min(data["class_counts"]),
        "worst_group_errors": lambda: min(data["groups"][unit[0]].values()),
        "cvar": lambda: float(unit[0]) * data["n_rows"],
    }[kind]()
    return float(1 / max(1.0, rows * document["settings"]["test_size"]))


def finished(document: Document) -> list[Mapping[str, Any]]:
    """Methods that finished a fit, in the order of the document."""
    return [m for m in document["methods"] if m["figures"]]


def at(record: Mapping[str, Any], path: Path) -> Any:
    """Return what a record or its figures hold under a path of keys; None where it ends early."""
    value: Any = record
    for key in path:
        value = None if value is None else value.get(key)
    return value


def mean(method: Mapping[str, Any], path: Path) -> float:
    """Return the mean over the repeats of one measure of a method."""
    return float(at(method["figures"], path)["mean"])


def is_coin(method: Mapping[str, Any]) -> bool:
    """Whether a method is the coin flip."""
    return bool(method["name"] == "coinflip")


def coin_loss(document: Document) -> float:
    """Return the coin flip's expected loss, 1 − 1/K, on whatever rows."""
    return 1 - 1 / len(document["data"]["classes"])


def beats_coin(document: Document, method: Mapping[str, Any], path: Path) -> bool:
    """Whether the whole interval is below the coin flip's loss; a single split has no interval."""
    figure = at(method["figures"], path) if method["figures"] else None
    return bool(
        figure and figure["high"] is not None and figure["high"] < coin_loss(document) - NO_DIFFERENCE
    )


def spoken(column: Column) -> str:
    """Name a measure as it is called in a sentence."""
    kind, *rest = column.path
    return {
        "error": "mean error",
        "worst_class_error": "worst-class error",
        "worst_group_errors": f"worst-group error by {' '.join(rest)}",
        "cvar": f"CVaR at α = {' '.join(rest)}",
    }[kind]


def seconds(value: float) -> str:
    """Write seconds with two digits, and whole ones from ten on."""
    return f"{value:,.0f} s" if value >= 9.95 else f"{value:.2g} s"


def count(n: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def joined(names: Sequence[str]) -> str:
    """List names with commas and a last "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
