"""A results document, read once: its methods, measures, figures and comparisons, and numbers in words."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tailboost.app.report.results import Results, resampled_interval

Document = Mapping[str, Any]
Method = Mapping[str, Any]
Path = tuple[str, ...]

# Numbers are printed to three decimals: a smaller difference is none.
NO_DIFFERENCE = 5e-4
# The chance that a document says "ahead" or "behind" anywhere where neither is true.
FAMILY_ERROR = 0.05
ERROR, WORST, GROUP = ("error",), ("worst_class_error",), ("worst_group_error",)


@dataclass(frozen=True)
class Column:
    """One column of the comparison: a measure, lower being better."""

    title: str
    path: Path
    is_time: bool = False


@dataclass(frozen=True)
class Duel:
    """One measure of one of our methods against one plain method, on the splits both have seen.

    ``difference`` is ours minus plain, with the interval that decides: the intervals of a family of duels
    hold together with 95 % confidence, see `resampled_interval`; no interval for a single split.
    ``beats_coin`` says whether ours is clearly better than a coin flip.
    """

    ours: Method
    plain: Method
    difference: Mapping[str, Any]
    beats_coin: bool = True

    @property
    def verdict(self) -> str:
        """Tell "ahead" or "behind" where the interval leaves out 0, else "not shown"; "once" without one.

        A difference that cannot be seen in three decimals is not shown either.
        """
        mean, low, high = (self.difference[key] for key in ("mean", "low", "high"))
        if low is None:
            return "once"
        if low <= 0.0 <= high or abs(mean) < NO_DIFFERENCE:
            return "not shown"
        return "ahead" if mean < 0 else "behind"


@dataclass(frozen=True)
class Match:
    """The trade-off of one of our fits against a plain method, where both are equal in one of two errors.

    ``equal`` is "mean" where the mean errors are equal and the worst ones are compared, "worst" the other way
    round. ``ours_at`` and ``plain_at`` are the pairs of mean and worst error; between two budgets that were
    measured, ours is a draw between the two models. Where the curve ends before both are equal, ours is its
    end. ``unit`` is the class that is the worst of both on every split, if there is one.
    """

    duel: Duel
    worst: Path
    equal: str
    ours_at: tuple[float, float]
    plain_at: tuple[float, float]
    unit: str | None

    @property
    def which(self) -> int:
        """The place of the compared error in the pairs; the other one is the equal one."""
        return 1 if self.equal == "mean" else 0

    @property
    def short_of(self) -> float:
        """By how much ours is above the plain method in the error that was to be equal."""
        return self.ours_at[1 - self.which] - self.plain_at[1 - self.which]


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

    @property
    def tails(self) -> list[Column]:
        """CVaR at each α."""
        return [Column(f"CVaR {a:g}", ("cvar", f"{a:g}")) for a in self.settings["alphas"]]

    @cached_property
    def measures(self) -> list[Column]:
        """Error, worst class, worst group of each group column, CVaR at each α.

        An α at which no method is clearly better than a coin flip compares nothing, and is left out.
        """
        repeated = any(len(m["repeats"]) > 1 for m in self.learned)
        return [
            Column("error", ERROR),
            Column("worst class", WORST),
            *(Column(f"worst by {name}", ("worst_group_errors", name)) for name in self.data["groups"]),
            *(c for c in self.tails if not repeated or any(self.beats_coin(m, c.path) for m in self.learned)),
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
        figures. Nobody is picked as the best on the same splits. The intervals of all duels hold together, so
        that the chance that any "ahead" or "behind" among them is false is about `FAMILY_ERROR` at most: the
        correction for splits that share rows is approximate.
        """
        pairs = [
            (measure, plain, ours) for measure in self.measures for plain in self.side(False)
            for ours in self.side(True) if _shared(ours, plain)
        ]  # fmt: skip
        contests: dict[tuple[Column, str], list[Duel]] = {}
        for measure, plain, ours in pairs:
            differences = [at(a, measure.path) - at(b, measure.path) for a, b in _shared(ours, plain)]
            found = self._difference(differences, measure.path, len(pairs))
            duel = Duel(ours, plain, found, self.beats_coin(ours, measure.path))
            contests.setdefault((measure, plain["name"]), []).append(duel)
        return [(measure, row) for (measure, _), row in contests.items()]

    def _difference(self, differences: Sequence[float], path: Path, tests: int) -> dict[str, Any]:
        share = self.settings["test_size"]
        return resampled_interval(differences, share / (1 - share), self._step(path), max(tests, 1))

    def curve(self, method: Method, worst: Path) -> list[Any]:
        """Return the points of a method's trade-off as measured on the rows held out; one where it has none.

        A method that was fitted for the worst group has none with the worst class, nor the other way round.
        """
        for_groups = bool(self.data["groups"]) and method["uses_groups"]
        if (worst == GROUP) == for_groups and method["figures"].get("tradeoff"):
            return list(method["figures"]["tradeoff"])
        return [method["figures"]]

    @cached_property
    def matches(self) -> list[Match]:
        """Ours at equal mean error, or equal worst class or group, against the best plain methods.

        Those are the ones that no other plain method beats in both errors, the lowest worst error first. One
        method of ours speaks for the worst class: of those with a trade-off, the one with the lowest worst
        class; where the rows have groups and one was fitted for them, one for the worst group. The intervals
        of all matches hold together: they are a family of their own.
        """
        pairs: list[tuple[Path, Method, Method]] = []
        for worst in (WORST, GROUP) if self.data["groups"] else (WORST,):
            with_curve = [m for m in self.side(True) if len(self.curve(m, worst)) > 1]
            if able := with_curve or (self.side(True) if worst == WORST else []):
                ours = min(able, key=lambda m: mean(m, worst))
                pairs += [(worst, ours, m) for m in self._unbeaten(worst) if _shared(ours, m)]
        return [self._match(ours, plain, worst, len(pairs)) for worst, ours, plain in pairs]

    def _unbeaten(self, worst: Path) -> list[Method]:
        """Return the plain methods that no other one beats in both errors, the lowest worst first."""
        ranked = sorted(self.side(False), key=lambda m: (mean(m, worst), mean(m, ERROR)))
        kept: list[Method] = []
        for method in ranked:
            if not kept or mean(method, ERROR) < mean(kept[-1], ERROR):
                kept.append(method)
        return kept

    def _match(self, ours: Method, plain: Method, worst: Path, tests: int) -> Match:
        points = [[at(point, path)["mean"] for path in (ERROR, worst)] for point in self.curve(ours, worst)]
        means, worsts = zip(*points, strict=True)
        theirs = mean(plain, ERROR), mean(plain, worst)
        # Beyond the end of the curve the mean errors cannot be equal; the worst ones may be.
        reached = theirs[0] <= max(means) or theirs[1] < min(worsts)
        equal = "mean" if min(means) <= theirs[0] and reached else "worst"
        along = 0 if equal == "mean" else 1
        j, k, t = _crossing((means, worsts)[along], theirs[along])
        path = (ERROR, worst)[1 - along]
        differences, units = [], []
        for mine, its in _shared(ours, plain):
            here = [mine] if len(points) == 1 else mine["tradeoff"]
            differences.append((1 - t) * at(here[j], path) + t * at(here[k], path) - at(its, path))
            units += [_worst_class(record) for record in (here[j if t < 0.5 else k], its)]
        a, b = ((1 - t) * p + t * q for p, q in zip(points[j], points[k], strict=True))
        unit = units[0] if worst == WORST and len(set(units)) == 1 else None
        duel = Duel(ours, plain, self._difference(differences, path, tests))
        return Match(duel, worst, equal, (a, b), theirs, unit)

    def _step(self, path: Path) -> float:
        """Return by how much a measure moves with one row held out, in the smallest of its units."""
        kind, *unit = path
        rows = {
            "error": lambda: self.data["n_rows"],
            "worst_class_error": lambda: min(self.data["class_counts"]),
            "worst_group_error": lambda: min(n for of in self.data["groups"].values() for n in of.values()),
            "worst_group_errors": lambda: min(self.data["groups"][unit[0]].values()),
            "cvar": lambda: float(unit[0]) * self.data["n_rows"],
        }[kind]()
        return float(1 / max(1.0, rows * self.settings["test_size"]))

    @cached_property
    def leaders(self) -> list[str]:
        """Names of those that a verdict is about, and of the most accurate plain method."""
        by_class = [match.duel for match in self.matches if match.worst == WORST]
        named = [method for duel in (*by_class[:2], *by_class[-1:]) for method in (duel.ours, duel.plain)]
        return list(dict.fromkeys(str(method["name"]) for method in named))

    def shown_first(self, most: int) -> list[Method]:
        """Return at most so many methods to draw first.

        The leaders, ours with the lowest CVaR at the main α, then the best on the worst class. Of methods
        with the same numbers one is taken; the coin flip is none of them.
        """
        distinct = [group[0] for group in self.distinct if not is_coin(group[0])]
        named = list(self.leaders)
        if ours := self.side(True):
            tail = ("cvar", f"{self.settings['main_alpha']:g}")
            named.append(min(ours, key=lambda m: mean(m, tail))["name"])
        first = [g[0] for g in self.distinct if any(m["name"] in named for m in g)]
        ranked = sorted(distinct, key=lambda m: (mean(m, WORST), mean(m, ERROR)))
        chosen = [*first, *(m for m in ranked if m not in first)][:most]
        return [m for m in distinct if m in chosen]


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


def _shared(ours: Method, plain: Method) -> list[tuple[Any, Any]]:
    """Return the records of the splits that both have seen."""
    theirs = {record["repeat"]: record for record in plain["repeats"]}
    return [(mine, theirs[mine["repeat"]]) for mine in ours["repeats"] if mine["repeat"] in theirs]


def _crossing(values: Sequence[float], wanted: float) -> tuple[int, int, float]:
    """Return the first two neighbours a value lies between and how far; at an end, the nearest one twice."""
    for j, (a, b) in enumerate(itertools.pairwise(values)):
        if min(a, b) <= wanted <= max(a, b) and a != b:
            return j, j + 1, (wanted - a) / (b - a)
    j = min(range(len(values)), key=lambda j: abs(values[j] - wanted))
    return j, j, 0.0


def _worst_class(record: Mapping[str, Any]) -> str | None:
    """Name the class with the largest error; None in documents that did not keep it along a trade-off."""
    errors = record.get("class_errors")
    return max(errors, key=errors.__getitem__) if errors else None


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


def count(n: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def joined(names: Sequence[str]) -> str:
    """List names with commas and a last "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
