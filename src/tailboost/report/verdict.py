"""The comparison in one sentence for a reader who knows none of the methods, and in three numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailboost.report._reading import (
    NO_DIFFERENCE,
    Document,
    at,
    beats_coin,
    coin_loss,
    count,
    finished,
    is_coin,
    mean,
)
from tailboost.report.findings import Duel, alike, duels

__all__ = ["Tile", "Verdict", "shown_first", "verdict"]

WORST = ("worst_class_error",)
Method = Mapping[str, Any]


@dataclass(frozen=True)
class Tile:
    """One number with what it counts, and what it is held against."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    """What a manager needs: our method on the worst class, its price, and what the numbers rest on.

    ``ours`` has the lowest worst-class error of ours, ``rival`` the lowest mean error of the plain methods,
    ``strongest`` the lowest worst-class error of these.
    """

    ours: Method
    rival: Method
    strongest: Method
    sentence: str
    price: str
    basis: tuple[str, ...]
    tiles: tuple[Tile, ...]


def verdict(document: Document) -> Verdict | None:
    """Put the comparison in words about a hundred rows; None where either side finished no fit.

    Parameters
    ----------
    document : dict
        ``Results.document``.

    Returns
    -------
    Verdict or None
    """
    sides = [
        [m for m in finished(document) if m["ours"] is ours and not is_coin(m)] for ours in (True, False)
    ]
    if not all(sides):
        return None
    ours = min(sides[0], key=lambda m: (mean(m, WORST), mean(m, ("error",))))
    rival = min(sides[1], key=lambda m: (mean(m, ("error",)), mean(m, WORST)))
    strongest = min(sides[1], key=lambda m: (mean(m, WORST), mean(m, ("error",))))
    fought = {
        duel.plain["name"]: duel
        for measure, row in duels(document)
        if measure.path == WORST
        for duel in row
        if duel.ours is ours
    }
    return Verdict(
        ours,
        rival,
        strongest,
        _sentence(document, ours, rival, fought.get(rival["name"])),
        _price(document, ours, rival) + _not_alone(ours, rival, strongest, fought.get(strongest["name"])),
        tuple(_basis(document, ours, rival, strongest, fought)),
        tuple(_tiles(document, ours, rival, strongest)),
    )


def shown_first(document: Document, most: int) -> list[Method]:
    """Return at most so many methods to draw first.

    Those of the verdict, ours with the lowest CVaR at the main α, then the best on the worst class. Of
    methods with the same numbers one is taken; the coin flip is none of them.
    """
    distinct = [group[0] for group in alike(document) if not is_coin(group[0])]
    ranked = sorted(distinct, key=lambda m: (mean(m, WORST), mean(m, ("error",))))
    said = verdict(document)
    named = [] if said is None else [m["name"] for m in (said.ours, said.rival, said.strongest)]
    if ours := [m for m in finished(document) if m["ours"]]:
        tail = ("cvar", f"{document['settings']['main_alpha']:g}")
        named.append(min(ours, key=lambda m: mean(m, tail))["name"])
    first = [g[0] for g in alike(document) if any(m["name"] in named for m in g)]
    chosen = [*first, *(m for m in ranked if m not in first)][:most]
    return [m for m in distinct if m in chosen]


def _per_hundred(*shares: float) -> list[str]:
    """Write shares as numbers of a hundred: whole ones, or one decimal where all are small."""
    digits = 0 if max(map(abs, shares)) >= 0.0995 else 1
    return [f"{100 * share:.{digits}f}" for share in shares]


def _sentence(document: Document, ours: Method, rival: Method, duel: Duel | None) -> str:
    """Say what the rival gets wrong on its worst class, and ours there."""
    errors = {c: f["mean"] for c, f in rival["figures"]["class_errors"].items()}
    worst = max(errors, key=errors.__getitem__)
    here = at(ours["figures"], ("class_errors", worst))
    if here is None or mean(ours, WORST) >= mean(rival, WORST) - NO_DIFFERENCE:
        one, two = _per_hundred(mean(ours, WORST), mean(rival, WORST))
        return (
            f"No gain on the worst class: of 100 rows {ours['title']} gets {one} wrong there and "
            f"{rival['title']}, the most accurate plain method, {two}."
        )
    theirs, this = _per_hundred(errors[worst], here["mean"])
    said = f"Of 100 rows of class “{worst}”, {rival['title']} gets {theirs} wrong, {ours['title']} {this}."
    if len(ours["repeats"]) > 1 and not beats_coin(document, ours, WORST):
        return f"{said} On its worst class that is not clearly better than a coin flip."
    if duel is not None and duel.p is not None and duel.verdict == "level":
        return f"{said} On these splits the difference is not clear."
    return said


def _price(document: Document, ours: Method, rival: Method) -> str:
    """Say what ours costs: errors in the other of two classes, or on all rows."""
    classes = document["data"]["classes"]
    theirs = rival["figures"]["class_errors"]
    path: tuple[str, ...] = ("error",)
    where = "of 100 rows of all classes"
    if len(classes) == 2 and len(theirs) == 2:
        other = min(theirs, key=lambda c: theirs[c]["mean"])
        where, path = f"of 100 rows of class “{other}”", ("class_errors", other)
    before, after = at(rival["figures"], path)["mean"], at(ours["figures"], path)["mean"]
    two, one = _per_hundred(before, after)
    digits = 1 if "." in one else 0
    more = round(float(one) - float(two), digits)
    if more == 0:
        return f"It costs nothing that can be seen: {where} both get {one} wrong."
    amount = f"{abs(more):.{digits}f} {'more' if more > 0 else 'fewer'}"
    start = "The price" if more > 0 else "No price"
    return f"{start}: {where} it gets {amount} wrong ({one}, {rival['title']} {two})."


def _not_alone(ours: Method, rival: Method, strongest: Method, duel: Duel | None) -> str:
    """Name a plain method that does as well on the worst class as ours, or better."""
    if duel is None or strongest is rival or duel.verdict == "ahead":
        return ""
    (wrong,) = _per_hundred(mean(strongest, WORST))
    if duel.verdict == "behind":
        return f" {strongest['title']} does better on the worst class ({wrong} of 100)."
    if duel.p is None:
        word = "fewer" if mean(strongest, WORST) < mean(ours, WORST) else "more"
        return f" {strongest['title']} gets {wrong} of 100 wrong in its worst class, {word} than that."
    return f" On the worst class there is no clear difference from {strongest['title']} ({wrong} of 100)."


def _basis(
    document: Document, ours: Method, rival: Method, strongest: Method, fought: Mapping[str, Duel]
) -> list[str]:
    settings = document["settings"]
    held_out = f"{settings['test_size']:.0%} of the rows held out"
    lines = []
    if len(ours["repeats"]) < 2:
        lines.append(
            f"One random split, {held_out}: a single split has no interval, so repeat the comparison before "
            "relying on it."
        )
    else:
        splits = count(len(ours["repeats"]), "random split")
        lines.append(
            f"Means over {splits}, {held_out}, each time. A method's worst class is looked for in every "
            "split, so its error is at least that of the class named above."
        )
    for opponent in [rival] if strongest is rival else [rival, strongest]:
        if (duel := fought.get(opponent["name"])) is not None:
            lines.append(_difference(duel, opponent is strongest))
    where = "these splits" if len(ours["repeats"]) > 1 else "this split"
    lines.append(f"The methods named were chosen by their numbers on {where}, so expect a little less.")
    return lines


def _difference(duel: Duel, strongest: bool) -> str:
    d = duel.difference
    who = duel.plain["title"] + (", the plain method that does best there" if strongest else "")
    numbers = _per_hundred(*(abs(x) for x in (d["mean"], d["low"], d["high"]) if x is not None))
    less = "fewer" if d["mean"] < 0 else "more"
    told = f"On the worst class {duel.ours['title']} errs on {numbers[0]} {less} of 100 than {who}"
    if d["low"] is None:
        return f"{told}, on this split."
    digits = 1 if "." in numbers[0] else 0
    low, high = (f"{-100 * x:.{digits}f}".replace("-", "−") for x in (d["high"], d["low"]))
    if d["mean"] >= 0:
        low, high = (f"{100 * x:.{digits}f}".replace("-", "−") for x in (d["low"], d["high"]))
    unclear = "no clear difference, allowing for rows that splits share and for all pairs that are tested"
    clear = unclear if duel.verdict == "level" else "a clear difference"
    return f"{told} (95 % interval over the splits {low} to {high}; {clear})."


def _tiles(document: Document, ours: Method, rival: Method, strongest: Method) -> list[Tile]:
    tiles = [
        _tile("wrong of 100 in the worst class", ours, rival, WORST),
        _tile("wrong of 100 rows", ours, rival, ("error",)),
    ]
    if document["data"]["groups"]:
        columns = " or ".join(document["data"]["groups"])
        return [
            *tiles,
            _tile(f"wrong of 100 in the worst group by {columns}", ours, rival, ("worst_group_error",)),
        ]
    if strongest is not rival:
        return [*tiles, _tile("wrong of 100 in the worst class: best plain method", strongest, None, WORST)]
    (coin,) = _per_hundred(coin_loss(document))
    return [*tiles, Tile("wrong of 100 by a coin flip", coin, f"{len(document['data']['classes'])} classes")]


def _tile(label: str, ours: Method, rival: Method | None, path: tuple[str, ...]) -> Tile:
    figure = at(ours["figures"], path)
    shares = [figure["mean"], *([] if rival is None else [mean(rival, path)])]
    value, *others = _per_hundred(*shares)
    detail = ours["title"]
    if figure["high"] is not None:
        digits = 1 if "." in value else 0
        half = f"{100 * (figure['high'] - figure['mean']):.{max(digits, 1)}f}"
        detail += f" (± {half})"
    if rival is not None:
        detail += f"; {rival['title']} {others[0]}"
    return Tile(label, value, detail)
