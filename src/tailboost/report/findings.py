"""A results document as a table and in plain words, all computed from its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tailboost.report.results import holm, interval, resampled_p_value

__all__ = [
    "FAMILY_ERROR",
    "Cell",
    "Column",
    "Duel",
    "Finding",
    "Row",
    "comparison_table",
    "duels",
    "findings",
    "guarantees",
]

# The chance that a document says "ahead" or "behind" anywhere where neither is true.
FAMILY_ERROR = 0.05

Document = Mapping[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """One column of the comparison: a measure, lower being better."""

    title: str
    path: Path
    is_time: bool = False


@dataclass(frozen=True)
class Cell:
    """One measure of one method; ``half`` is half the width of its 95 % interval."""

    mean: float
    half: float | None
    best: bool

    @property
    def text(self) -> str:
        """The mean, and ± half the interval where there is one."""
        return f"{self.mean:.3f}" if self.half is None else f"{self.mean:.3f} ± {self.half:.3f}"


@dataclass(frozen=True)
class Row:
    """One method with a cell per column; None where nothing was measured."""

    method: Mapping[str, Any]
    cells: list[Cell | None]


@dataclass(frozen=True)
class Duel:
    """One measure of one of our methods against one plain method, on the splits both have seen.

    ``difference`` is ours minus plain with its 95 % t interval. ``p`` is the p-value of the paired test that
    allows for splits that share rows, adjusted for all duels of the document; None for a single split.
    ``verdict`` is "ahead" or "behind" where ``p`` is at most `FAMILY_ERROR`, else "level".
    """

    ours: Mapping[str, Any]
    plain: Mapping[str, Any]
    difference: Mapping[str, Any]
    p: float | None
    verdict: str


@dataclass(frozen=True)
class Finding:
    """One sentence; ``kind`` is "what", "ahead", "behind", "level", "coin", "time" or "trouble"."""

    kind: str
    text: str


def comparison_table(document: Document) -> tuple[list[Column], list[Row]]:
    """Lay out the figures of every method that finished a fit.

    Parameters
    ----------
    document : dict
        ``Results.document``.

    Returns
    -------
    columns : list of Column
        Error, worst class, worst group of each group column, CVaR at each α, seconds of a fit.
    rows : list of Row
        In the order of the document. In each column but the last, the lowest mean, and what equals it to
        three decimals, is marked ``best``.
    """
    columns = [*_measures(document), Column("fit, s", ("fit_seconds",), is_time=True)]
    methods = [m for m in document["methods"] if m["figures"]]
    lowest = (
        {
            column: min(
                round(figure["mean"], 3) for m in methods if (figure := _at(m["figures"], column.path))
            )
            for column in columns
        }
        if methods
        else {}
    )
    rows = []
    for method in methods:
        cells: list[Cell | None] = []
        for column in columns:
            figure = _at(method["figures"], column.path)
            if figure is None:
                cells.append(None)
                continue
            half = None if figure["high"] is None else figure["high"] - figure["mean"]
            best = not column.is_time and round(figure["mean"], 3) == lowest[column]
            cells.append(Cell(figure["mean"], half, best))
        rows.append(Row(method, cells))
    return columns, rows


def duels(document: Document) -> list[tuple[Column, list[Duel]]]:
    """Set each of our methods against each plain method on each measure.

    Nobody is picked as the best on the same splits, and p-values are adjusted by Holm's method over all duels
    of the document, so that `FAMILY_ERROR` is the chance that any "ahead" or "behind" in it is false.

    Parameters
    ----------
    document : dict
        ``Results.document``.

    Returns
    -------
    list of (Column, list of Duel)
        For each measure and plain method one duel per method of ours; nothing where either side has no
        figures.
    """
    ours = [m for m in document["methods"] if m["ours"] and m["figures"]]
    plain = [m for m in document["methods"] if not m["ours"] and m["figures"] and not _is_coin(m)]
    share = document["settings"]["test_size"]
    contests = []
    for measure in _measures(document):
        for opponent in plain:
            theirs = {r["repeat"]: _at(r, measure.path) for r in opponent["repeats"]}
            row = []
            for method in ours:
                shared = [r for r in method["repeats"] if r["repeat"] in theirs]
                if shared:
                    differences = [_at(r, measure.path) - theirs[r["repeat"]] for r in shared]
                    p = resampled_p_value(differences, share / (1 - share))
                    row.append(Duel(method, opponent, interval(differences), p, "level"))
            if row:
                contests.append((measure, row))
    adjusted = iter(holm([duel.p for _, row in contests for duel in row]))
    return [(measure, [_judged(duel, next(adjusted)) for duel in row]) for measure, row in contests]


def _judged(duel: Duel, p: float | None) -> Duel:
    verdict = "level"
    if p is not None and p <= FAMILY_ERROR:
        verdict = "ahead" if duel.difference["mean"] < 0 else "behind"
    return replace(duel, p=p, verdict=verdict)


def findings(document: Document) -> list[Finding]:
    """Return sentences: what was compared, where our methods lead or trail, and how the coin flip does.

    "Ahead" is ahead of every plain method, "behind" is behind one of them, see `duels`.

    Parameters
    ----------
    document : dict
        ``Results.document``.

    Returns
    -------
    list of Finding
    """
    return [
        *_what(document),
        *_trouble(document),
        *_verdicts(document),
        *_coin(document),
        *_time(document),
    ]


def guarantees(document: Document) -> list[tuple[str, float | None, str]]:
    """List title, α (None where the method has none) and text of the guarantees of the first repeat."""
    found = []
    for method in document["methods"]:
        for record in method["repeats"][:1]:
            by_alpha = record.get("at_alpha", {None: record})
            found += [
                (method["title"], None if a is None else float(a), point["guarantee"]["text"])
                for a, point in by_alpha.items()
                if "guarantee" in point
            ]
    return found


def _measures(document: Document) -> list[Column]:
    return [
        Column("error", ("error",)),
        Column("worst class", ("worst_class_error",)),
        *(Column(f"worst by {name}", ("worst_group_errors", name)) for name in document["data"]["groups"]),
        *(Column(f"CVaR {a:g}", ("cvar", f"{a:g}")) for a in document["settings"]["alphas"]),
    ]


def _at(record: Mapping[str, Any], path: Path) -> Any:
    value: Any = record
    for key in path:
        value = None if value is None else value.get(key)
    return value


def _spoken(column: Column) -> str:
    kind, *rest = column.path
    return {
        "error": "mean error",
        "worst_class_error": "worst-class error",
        "worst_group_errors": f"worst-group error by {' '.join(rest)}",
        "cvar": f"CVaR at α = {' '.join(rest)}",
    }[kind]


def _what(document: Document) -> Iterator[Finding]:
    data, settings = document["data"], document["settings"]
    shares = [count / data["n_rows"] for count in data["class_counts"]]
    rarest = min(range(len(shares)), key=shares.__getitem__)
    learned = [m for m in document["methods"] if not _is_coin(m)]
    yield Finding(
        "what",
        f"{_count(len(learned), 'method')} and the coin flip on {data['name']}: {data['n_rows']:,} rows, "
        f"{_count(data['n_features'], 'feature')}, {len(shares)} classes, the rarest "
        f"({data['classes'][rarest]}) with {shares[rarest]:.1%} of the rows; "
        f"{_count(settings['repeats'], 'random split')}, {settings['test_size']:.0%} of the rows held out.",
    )


def _trouble(document: Document) -> Iterator[Finding]:
    if document["status"] != "complete":
        done = sum(len(m["repeats"]) for m in document["methods"])
        total = document["settings"]["repeats"] * len(document["methods"])
        yield Finding(
            "trouble",
            f"The comparison was stopped early: {done} of {total} fits are in it, "
            "and some methods may have seen fewer splits than others.",
        )
    for absent in document["left_out"]:
        yield Finding("trouble", f"{absent['title']} is not in the comparison: {absent['reason']}")
    for method in document["methods"]:
        for failure in method["failures"][:1]:
            yield Finding(
                "trouble",
                f"{method['title']} failed on {_count(len(method['failures']), 'split')}: {failure['error']}",
            )
        for message in method["warnings"]:
            yield Finding("trouble", f"{method['title']}: {message}")


def _verdicts(document: Document) -> Iterator[Finding]:
    contests: dict[Column, dict[str, list[Duel]]] = {}
    for measure, row in duels(document):
        for duel in row:
            contests.setdefault(measure, {}).setdefault(duel.ours["title"], []).append(duel)
    if not contests:
        return
    sides: dict[str, list[str]] = {"ahead": [], "behind": [], "level": []}
    for measure, by_method in contests.items():
        ahead = [t for t, fought in by_method.items() if all(d.verdict == "ahead" for d in fought)]
        better = [m["title"] for m in _beating_the_coin(document, measure.path)]
        if ahead:
            names = [t + " (though no better than a coin flip)" * (t not in better) for t in ahead]
            sides["ahead"].append(f"{_spoken(measure)}: {_listed(names)}")
        elif all(any(d.verdict == "behind" for d in fought) for fought in by_method.values()):
            sides["behind"].append(_spoken(measure))
        else:
            sides["level"].append(_spoken(measure))
    nothing = "nothing measured here"
    yield Finding("ahead", f"Ahead of every plain method on {'; '.join(sides['ahead']) or nothing}.")
    for kind, words, otherwise in (
        (
            "behind",
            "Every method of ours is behind a plain method on",
            f"There is {nothing} on which every method of ours is behind a plain method.",
        ),
        (
            "level",
            "No clear difference between the best of both sides on",
            "Nothing measured here is too close to call.",
        ),
    ):
        yield Finding(kind, f"{words} {_listed(sides[kind])}." if sides[kind] else otherwise)
    behind: dict[tuple[str, str], list[str]] = {}
    for measure, by_method in contests.items():
        for title, fought in by_method.items():
            for duel in fought:
                if duel.verdict == "behind":
                    behind.setdefault((title, duel.plain["title"]), []).append(_spoken(measure))
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (title, plain), measures in behind.items():
        alike.setdefault((plain, tuple(measures)), []).append(title)
    for (plain, measures_alike), titles in alike.items():
        verb = "is" if len(titles) == 1 else "are"
        yield Finding("behind", f"{_listed(titles)} {verb} behind {plain} on {_listed(measures_alike)}.")
    tested = sum(d.p is not None for by in contests.values() for fought in by.values() for d in fought)
    if tested:
        yield Finding(
            "what",
            f"{_count(tested, 'comparison')} of ours with plain methods at a family error of "
            f"{FAMILY_ERROR:.0%}: that is the chance that any “ahead” or “behind” here is false (Holm's "
            "method; paired tests corrected for splits that share rows).",
        )


def _coin(document: Document) -> Iterator[Finding]:
    learned = [m for m in document["methods"] if m["figures"] and not _is_coin(m)]
    if not learned:
        return
    coin = _coin_loss(document)
    for column in _measures(document):
        better = [m["title"] for m in _beating_the_coin(document, column.path)]
        if not better:
            yield Finding(
                "coin", f"{_spoken(column)}: no method is clearly better than a coin flip ({coin:.3f})."
            )
        elif column.path[0] == "cvar":
            names = "every method" if len(better) == len(learned) else _listed(better)
            yield Finding(
                "coin", f"{_spoken(column)}: clearly better than a coin flip ({coin:.3f}): {names}."
            )
    best = min(learned, key=lambda m: _mean(m, ("error",)))
    error = _mean(best, ("error",))
    yield Finding(
        "coin",
        "One answer per row with error e has a CVaR below the coin flip's only for α > e · K/(K − 1): with "
        f"the lowest error here ({best['title']}, {error:.3f}) for α > {error / coin:.2f}.",
    )


def _time(document: Document) -> Iterator[Finding]:
    learned = [m for m in document["methods"] if m["figures"] and not _is_coin(m)]
    if not learned:
        return
    seconds = {m["title"]: _mean(m, ("fit_seconds",)) for m in learned}
    fast, slow = min(seconds, key=seconds.__getitem__), max(seconds, key=seconds.__getitem__)
    text = f"One fit took {seconds[fast]:.2g} s with {fast}"
    if fast != slow:
        text += f" and {seconds[slow]:.2g} s with {slow}"
    weighed = [m for m in learned if m["figures"]["reweight_seconds"]]
    if weighed:
        longest = max(weighed, key=lambda m: _mean(m, ("reweight_seconds",)))
        text += (
            f"; re-weighting a trained model to {len(document['settings']['curve_alphas'])} values of α took "
            f"at most {_mean(longest, ('reweight_seconds',)):.2g} s ({longest['title']})"
        )
    yield Finding("time", text + ".")


def _coin_loss(document: Document) -> float:
    return 1 - 1 / len(document["data"]["classes"])


def _beating_the_coin(document: Document, path: Path) -> list[Mapping[str, Any]]:
    """Methods whose whole interval is below the coin flip's loss; a single split has no interval."""
    coin = _coin_loss(document)
    better = []
    for method in document["methods"]:
        figure = _at(method["figures"], path) if method["figures"] else None
        if figure and figure["high"] is not None and figure["high"] < coin - 5e-4:
            better.append(method)
    return better


def _mean(method: Mapping[str, Any], path: Path) -> float:
    return float(_at(method["figures"], path)["mean"])


def _is_coin(method: Mapping[str, Any]) -> bool:
    return bool(method["name"] == "coinflip")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
