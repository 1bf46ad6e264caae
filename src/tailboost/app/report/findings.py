"""A results document as a table and in plain words, all computed from its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tailboost.app.report.reading import (
    FAMILY_ERROR,
    NO_DIFFERENCE,
    Column,
    Duel,
    Method,
    Reading,
    at,
    count,
    is_coin,
    joined,
    spoken,
)


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
    """One method with a cell per column; None where nothing was measured.

    ``same`` are the titles of methods with the same numbers on every split, which have no row of their own;
    ``errs_as`` is the title of a plain method whose errors of ``predict`` are the same, if there is one.
    """

    method: Method
    cells: list[Cell | None]
    same: tuple[str, ...] = ()
    errs_as: str | None = None


@dataclass(frozen=True)
class Finding:
    """One sentence.

    ``kind`` is "what", "trouble", "warning", "ahead", "behind", "not shown", "once" (one split),
    or "coin".
    """

    kind: str
    text: str


def comparison_table(reading: Reading) -> tuple[list[Column], list[Row]]:
    """Lay out the figures of every method that finished a fit.

    Columns are error, worst class, worst group of each group column, CVaR at each α, seconds of a fit. Rows
    are in the order of the document; methods with the same numbers on every split share one row, that of the
    plain method if one is among them. In each column but the last, the lowest mean, and what equals it to
    three decimals, is marked ``best`` where it is lower than the coin flip's.
    """
    columns = [*reading.measures, Column("fit, s", ("fit_seconds",), is_time=True)]
    bounds = {}
    for column in columns:
        known = (f for m in reading.learned if (f := at(m["figures"], column.path)))
        bounds[column] = min((round(f["mean"], 3) for f in known), default=0.0)
    rows = []
    for group in reading.distinct:
        method = group[0]
        cells: list[Cell | None] = []
        for column in columns:
            figure = at(method["figures"], column.path)
            if figure is None:
                cells.append(None)
                continue
            half = None if figure["high"] is None else figure["high"] - figure["mean"]
            low = round(figure["mean"], 3) == bounds[column] < reading.coin - NO_DIFFERENCE
            cells.append(Cell(figure["mean"], half, low and not column.is_time and not is_coin(method)))
        rows.append(Row(method, cells, tuple(m["title"] for m in group[1:]), reading.errs_as(method)))
    return columns, rows


def findings(reading: Reading) -> list[Finding]:
    """Return sentences: what was compared, where our methods lead or trail, and how the coin flip does.

    "Ahead" is ahead of every plain method, "behind" is behind one of them, see `Reading.duels`.
    """
    return [*_what(reading), *_trouble(reading), *_warnings(reading), *_verdicts(reading), *_coin(reading)]


def guarantees(reading: Reading) -> list[tuple[str, float | None, str, str]]:
    """List title, α (None where there is none), verdict and text of the guarantees of the first repeat."""
    found = []
    for method in reading.document["methods"]:
        for record in method["repeats"][:1]:
            by_alpha = record.get("at_alpha", {None: record})
            found += [
                (method["title"], None if a is None else float(a), said.get("verdict", ""), said["text"])
                for a, point in by_alpha.items()
                if (said := point.get("guarantee"))
            ]
    return found


def _what(reading: Reading) -> Iterator[Finding]:
    data, settings = reading.data, reading.settings
    shares = [count / data["n_rows"] for count in data["class_counts"]]
    rarest = min(range(len(shares)), key=shares.__getitem__)
    learned = [m for m in reading.document["methods"] if not is_coin(m)]
    yield Finding(
        "what",
        f"{count(len(learned), 'method')} and the coin flip on {data['name']}: {data['n_rows']:,} rows, "
        f"{count(data['n_features'], 'feature')}, {len(shares)} classes, the rarest "
        f"({data['classes'][rarest]}) with {shares[rarest]:.1%} of the rows; "
        f"{count(settings['repeats'], 'random split')}, {settings['test_size']:.0%} of the rows held out.",
    )


def _trouble(reading: Reading) -> Iterator[Finding]:
    if reading.document["status"] != "complete":
        done = sum(len(m["repeats"]) for m in reading.document["methods"])
        total = reading.settings["repeats"] * len(reading.document["methods"])
        yield Finding(
            "trouble",
            f"The comparison was stopped early: {done} of {total} fits are in it, "
            "and some methods may have seen fewer splits than others.",
        )
    for absent in reading.document["left_out"]:
        yield Finding("trouble", f"{absent['title']} is not in the comparison: {absent['reason']}")
    for method in reading.document["methods"]:
        for failure in method["failures"][:1]:
            yield Finding(
                "trouble",
                f"{method['title']} failed on {count(len(method['failures']), 'split')}: {failure['error']}",
            )


def _warnings(reading: Reading) -> Iterator[Finding]:
    """Warnings of all methods, those that differ in numbers only together."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for method in reading.document["methods"]:
        for message in method["warnings"]:
            kinds.setdefault(re.sub(r"[\d.,]*\d(e[+-]?\d+)?", "0", message), []).append(
                (method["title"], message)
            )
    for said in kinds.values():
        titles = list(dict.fromkeys(title for title, _ in said))
        texts = list(dict.fromkeys(message for _, message in said))
        more = f" ({len(texts)} messages that differ in numbers only)" if len(texts) > 1 else ""
        yield Finding("warning", f"{joined(titles)}: {texts[0]}{more}")


def _verdicts(reading: Reading) -> Iterator[Finding]:
    contests: dict[Column, dict[str, list[Duel]]] = {}
    for measure, row in reading.duels:
        for duel in row:
            contests.setdefault(measure, {}).setdefault(duel.ours["title"], []).append(duel)
    fought = [duel for _, row in reading.duels for duel in row]
    if fought and all(duel.verdict == "once" for duel in fought):
        yield Finding("once", "One split has no interval, so nothing here is called ahead or behind.")
    elif fought:
        yield from _sides(contests)
        yield Finding(
            "what",
            f"{count(len(fought), 'comparison')} of ours with plain methods at a family error of "
            f"{FAMILY_ERROR:.0%}: about the most that the chance of any false “ahead” or “behind” here can "
            "be (Bonferroni; intervals corrected, approximately, for splits that share rows).",
        )


def _sides(contests: Mapping[Column, Mapping[str, list[Duel]]]) -> Iterator[Finding]:
    sides: dict[str, list[str]] = {"ahead": [], "behind": [], "not shown": []}
    for measure, by_method in contests.items():
        ahead = [fought[0] for fought in by_method.values() if all(d.verdict == "ahead" for d in fought)]
        if ahead:
            names = [
                d.ours["title"] + " (though no better than a coin flip)" * (not d.beats_coin) for d in ahead
            ]
            sides["ahead"].append(f"{spoken(measure)}: {joined(names)}")
        elif all(any(d.verdict == "behind" for d in fought) for fought in by_method.values()):
            sides["behind"].append(spoken(measure))
        else:
            sides["not shown"].append(spoken(measure))
    for kind, words, between in (
        ("ahead", "Ahead of every plain method on", "; "),
        ("behind", "Every method of ours is behind a plain method on", ", "),
        ("not shown", "No difference of the best of both sides is shown on", ", "),
    ):
        if sides[kind]:
            yield Finding(kind, f"{words} {between.join(sides[kind])}.")


def _coin(reading: Reading) -> Iterator[Finding]:
    learned = reading.learned
    if not learned:
        return
    coin = reading.coin
    # An interval is needed to call anything clear.
    left_out = [column for column in reading.tails if column not in reading.measures]
    repeated = any(len(m["repeats"]) > 1 for m in learned)
    for column in [*reading.measures, *left_out] if repeated else []:
        better = [m["title"] for m in learned if reading.beats_coin(m, column.path)]
        if not better:
            yield Finding(
                "coin", f"{spoken(column)}: no method is clearly better than a coin flip ({coin:.3f})."
            )
        elif column.path[0] == "cvar":
            names = "every method" if len(better) == len(learned) else joined(better)
            yield Finding("coin", f"{spoken(column)}: clearly better than a coin flip ({coin:.3f}): {names}.")
