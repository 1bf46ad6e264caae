"""A results document, read once: its methods, measures, figures and comparisons, and numbers in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tailboost.report.results import Results, holm, interval, resampled_p_value

__all__ = [
    "FAMILY_ERROR",
    "NO_DIFFERENCE",
    "Column",
    "Document",
    "Duel",
    "Leaders",
    "Method",
    "Reading",
    "at",
    "count",
    "is_coin",
    "joined",
    "mean",
    "seconds",
    "spoken",
]

Document = Mapping[str, Any]
Method = Mapping[str, Any]
Path = tuple[str, ...]

# Numbers are printed to three decimals: a smaller difference is none.
NO_DIFFERENCE = 5e-4
# The chance that a document says "ahead" or "behind" anywhere where neither is true.
FAMILY_ERROR = 0.05
ERROR, WORST = ("error",), ("worst_class_error",)


@dataclass(frozen=True)
class Column:
    """One column of the comparison: a measure, lower being better."""

    title: str
    path: Path
    is_time: bool = False


@dataclass(frozen=True)
class Duel:
    """One measure of one of our methods against one plain method, on the splits both have seen.

    ``difference`` is ours minus plain with its 95 % t interval. ``p`` is the p-value of the paired test that
    allows for splits that share rows, adjusted for all duels of the document; None for a single split.
    ``verdict`` is "ahead" or "behind" where ``p`` is at most `FAMILY_ERROR` and the difference can be seen in
    three decimals, else "level". ``beats_coin`` says whether ours is clearly better than a coin flip.
    """

    ours: Method
    plain: Method
    difference: Mapping[str, Any]
    p: float | None
    verdict: str
    beats_coin: bool


@dataclass(frozen=True)
class Leaders:
    """Those that a verdict is about.

    ``ours`` has the lowest worst-class error of ours, ``rival`` the lowest mean error of the plain methods,
    ``strongest`` the lowest worst-class error of these.
    """

    ours: Method
    rival: Method
    strongest: Method

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [m["name"] for m in (self.ours, self.rival, self.strongest)]


class Reading:
    """What a results document holds; each property is worked out when it is first asked for.

    Parameters
    ----------
    results : Results or dict
        What `compare` returned, or its document as read from JSON.
    """

    def __init__(self, results: Results | Document) -> None:
        self.document: Document = results.document if isinstance(results, Results) else results
        self.data, self.settings = self.document["data"], self.document["settings"]

    @cached_property
    def finished(self) -> list[Method]:
        """Methods that finished a fit, in the order of the document."""
        return [m for m in self.document["methods"] if m["figures"]]

    @cached_property
    def learned(self) -> list[Method]:
        """Those of them that are not the coin flip."""
        return [m for m in self.finished if not is_coin(m)]

    def side(self, ours: bool) -> list[Method]:
        """Return our methods, or the plain ones."""
        return [m for m in self.learned if m["ours"] is ours]

    @cached_property
    def measures(self) -> list[Column]:
        """Error, worst class, worst group of each group column, CVaR at each α."""
        return [
            Column("error", ERROR),
            Column("worst class", WORST),
            *(Column(f"worst by {name}", ("worst_group_errors", name)) for name in self.data["groups"]),
            *(Column(f"CVaR {a:g}", ("cvar", f"{a:g}")) for a in self.settings["alphas"]),
        ]

    @cached_property
    def coin(self) -> float:
        """The coin flip's expected loss, 1 − 1/K, on whatever rows."""
        return 1 - 1 / len(self.data["classes"])

    def beats_coin(self, method: Method, path: Path) -> bool:
        """Whether the whole interval is below the coin flip's loss; a single split has no interval."""
        figure = at(method["figures"], path)
        return bool(figure and figure["high"] is not None and figure["high"] < self.coin - NO_DIFFERENCE)

    @cached_property
    def distinct(self) -> list[list[Method]]:
        """Methods that finished, those with the same numbers on every split together, plain ones first."""
        groups: dict[Any, list[Method]] = {}
        for method in self.finished:
            groups.setdefault((is_coin(method), _numbers(method, ("cvar", "cvar_curve"))), []).append(method)
        return [sorted(group, key=lambda m: m["ours"]) for group in groups.values()]

    def errs_as(self, method: Method) -> str | None:
        """Name the plain method whose ``predict`` errs as one of ours does, where other numbers differ."""
        if not method["ours"]:
            return None
        own = _numbers(method)
        return next((str(plain["title"]) for plain in self.side(False) if _numbers(plain) == own), None)

    @cached_property
    def duels(self) -> list[tuple[Column, list[Duel]]]:
        """Each of our methods against each plain method on each measure.

        For each measure and plain method one duel per method of ours; nothing where either side has no
        figures. Nobody is picked as the best on the same splits, and p-values are adjusted by Holm's method
        over all duels of the document, so that the chance that any "ahead" or "behind" in it is false is
        about `FAMILY_ERROR` at most: the correction for splits that share rows is approximate.
        """
        share = self.settings["test_size"]
        contests = []
        for measure in self.measures:
            for opponent in self.side(False):
                theirs = {r["repeat"]: at(r, measure.path) for r in opponent["repeats"]}
                row = []
                for method in self.side(True):
                    shared = [r for r in method["repeats"] if r["repeat"] in theirs]
                    if shared:
                        differences = [at(r, measure.path) - theirs[r["repeat"]] for r in shared]
                        p = resampled_p_value(differences, share / (1 - share), self._step(measure.path))
                        clear = self.beats_coin(method, measure.path)
                        row.append(Duel(method, opponent, interval(differences), p, "level", clear))
                if row:
                    contests.append((measure, row))
        adjusted = iter(holm([duel.p for _, row in contests for duel in row]))
        return [(measure, [_judged(duel, next(adjusted)) for duel in row]) for measure, row in contests]

    def _step(self, path: Path) -> float:
        """Return by how much a measure moves with one row held out, in the smallest of its units."""
        kind, *unit = path
        rows = {
            "error": lambda: self.data["n_rows"],
            "worst_class_error": lambda: min(self.data["class_counts"]),
            "worst_group_errors": lambda: min(self.data["groups"][unit[0]].values()),
            "cvar": lambda: float(unit[0]) * self.data["n_rows"],
        }[kind]()
        return float(1 / max(1.0, rows * self.settings["test_size"]))

    @cached_property
    def leaders(self) -> Leaders | None:
        """Whom a verdict is about; None where either side finished no fit."""
        ours, plain = self.side(True), self.side(False)
        if not (ours and plain):
            return None
        return Leaders(
            min(ours, key=_by_worst_class),
            min(plain, key=lambda m: (mean(m, ERROR), mean(m, WORST))),
            min(plain, key=_by_worst_class),
        )

    def shown_first(self, most: int) -> list[Method]:
        """Return at most so many methods to draw first.

        The leaders, ours with the lowest CVaR at the main α, then the best on the worst class. Of methods
        with the same numbers one is taken; the coin flip is none of them.
        """
        distinct = [group[0] for group in self.distinct if not is_coin(group[0])]
        named = [] if self.leaders is None else self.leaders.names
        if ours := self.side(True):
            tail = ("cvar", f"{self.settings['main_alpha']:g}")
            named.append(min(ours, key=lambda m: mean(m, tail))["name"])
        first = [g[0] for g in self.distinct if any(m["name"] in named for m in g)]
        ranked = sorted(distinct, key=_by_worst_class)
        chosen = [*first, *(m for m in ranked if m not in first)][:most]
        return [m for m in distinct if m in chosen]


def _by_worst_class(method: Method) -> tuple[float, float]:
    return mean(method, WORST), mean(method, ERROR)


def _numbers(method: Method, more: tuple[str, ...] = ()) -> Any:
    """Errors of every split as they are printed, to compare methods by."""
    kept = ("repeat", "error", "class_errors", "group_errors", *more)
    return _rounded([{key: record.get(key) for key in kept} for record in method["repeats"]])


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((key, _rounded(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return tuple(map(_rounded, value))
    return round(value, 3) if isinstance(value, float) else value


def _judged(duel: Duel, p: float | None) -> Duel:
    verdict = "level"
    difference = duel.difference["mean"]
    if p is not None and p <= FAMILY_ERROR and abs(difference) >= NO_DIFFERENCE:
        verdict = "ahead" if difference < 0 else "behind"
    return replace(duel, p=p, verdict=verdict)


def at(record: Mapping[str, Any], path: Path) -> Any:
    """Return what a record or its figures hold under a path of keys; None where it ends early."""
    value: Any = record
    for key in path:
        value = None if value is None else value.get(key)
    return value


def mean(method: Method, path: Path) -> float:
    """Return the mean over the repeats of one measure of a method."""
    return float(at(method["figures"], path)["mean"])


def is_coin(method: Method) -> bool:
    """Whether a method is the coin flip."""
    return bool(method["name"] == "coinflip")


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
