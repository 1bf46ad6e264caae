"""The comparison in one sentence for a reader who knows none of the methods, and in three numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tailboost.report.reading import (
    NO_DIFFERENCE,
    WORST,
    Duel,
    Leaders,
    Method,
    Reading,
    at,
    count,
    mean,
)

__all__ = ["Tile", "Verdict", "verdict"]


@dataclass(frozen=True)
class Tile:
    """One number with what it counts, and what it is held against."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    """What a manager needs: our method on the worst class, its price, and what the numbers rest on."""

    leaders: Leaders
    sentence: str
    price: str
    basis: tuple[str, ...]
    tiles: tuple[Tile, ...]


def verdict(reading: Reading) -> Verdict | None:
    """Put the comparison in words about a hundred rows; None where either side finished no fit.

    Parameters
    ----------
    reading : Reading

    Returns
    -------
    Verdict or None
    """
    if (leaders := reading.leaders) is None:
        return None
    fought = {
        duel.plain["name"]: duel
        for measure, row in reading.duels
        if measure.path == WORST
        for duel in row
        if duel.ours is leaders.ours
    }
    return Verdict(
        leaders,
        _sentence(reading, leaders, fought.get(leaders.rival["name"])),
        _price(reading, leaders) + _not_alone(leaders, fought.get(leaders.strongest["name"])),
        tuple(_basis(reading, leaders, fought)),
        tuple(_tiles(reading, leaders)),
    )


def _per_hundred(*shares: float) -> list[str]:
    """Write shares as numbers of a hundred: whole ones, or one decimal where all are small."""
    digits = 0 if max(map(abs, shares)) >= 0.0995 else 1
    return [f"{100 * share:.{digits}f}" for share in shares]


def _sentence(reading: Reading, leaders: Leaders, duel: Duel | None) -> str:
    """Say what the rival gets wrong on its worst class, and ours there."""
    ours, rival = leaders.ours, leaders.rival
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
    if len(ours["repeats"]) > 1 and not reading.beats_coin(ours, WORST):
        return f"{said} On its worst class that is not clearly better than a coin flip."
    if duel is not None and duel.p is not None and duel.verdict == "level":
        return f"{said} On these splits the difference is not clear."
    return said


def _price(reading: Reading, leaders: Leaders) -> str:
    """Say what ours costs: errors in the other of two classes, or on all rows."""
    ours, rival, classes = leaders.ours, leaders.rival, reading.data["classes"]
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


def _not_alone(leaders: Leaders, duel: Duel | None) -> str:
    """Name a plain method that does as well on the worst class as ours, or better."""
    ours, strongest = leaders.ours, leaders.strongest
    if duel is None or strongest is leaders.rival or duel.verdict == "ahead":
        return ""
    (wrong,) = _per_hundred(mean(strongest, WORST))
    if duel.verdict == "behind":
        return f" {strongest['title']} does better on the worst class ({wrong} of 100)."
    if duel.p is None:
        word = "fewer" if mean(strongest, WORST) < mean(ours, WORST) else "more"
        return f" {strongest['title']} gets {wrong} of 100 wrong in its worst class, {word} than that."
    return f" On the worst class there is no clear difference from {strongest['title']} ({wrong} of 100)."


def _basis(reading: Reading, leaders: Leaders, fought: Mapping[str, Duel]) -> list[str]:
    ours, rival, strongest = leaders.ours, leaders.rival, leaders.strongest
    held_out = f"{reading.settings['test_size']:.0%} of the rows held out"
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


def _tiles(reading: Reading, leaders: Leaders) -> list[Tile]:
    ours, rival, strongest = leaders.ours, leaders.rival, leaders.strongest
    tiles = [
        _tile("wrong of 100 in the worst class", ours, rival, WORST),
        _tile("wrong of 100 rows", ours, rival, ("error",)),
    ]
    if reading.data["groups"]:
        columns = " or ".join(reading.data["groups"])
        return [
            *tiles,
            _tile(f"wrong of 100 in the worst group by {columns}", ours, rival, ("worst_group_error",)),
        ]
    if strongest is not rival:
        return [*tiles, _tile("wrong of 100 in the worst class: best plain method", strongest, None, WORST)]
    (coin,) = _per_hundred(reading.coin)
    return [*tiles, Tile("wrong of 100 by a coin flip", coin, f"{len(reading.data['classes'])} classes")]


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
