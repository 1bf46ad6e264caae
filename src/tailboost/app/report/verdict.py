"""The comparison in one sentence for a reader who knows none of the methods, and in a few numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tailboost.app.report.reading import NO_DIFFERENCE, WORST, Match, Method, Reading, count, mean


@dataclass(frozen=True)
class Tile:
    """One number with what it counts, and what it is held against."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    """What a manager needs: ours beside the strongest plain methods, and what the numbers rest on."""

    ours: Method
    sentence: str
    price: str
    basis: tuple[str, ...]
    tiles: tuple[Tile, ...]


def verdict(reading: Reading) -> Verdict | None:
    """Put the comparison in words about a hundred rows; None where either side finished no fit.

    Two classifiers are compared where they are equal in one error, the mean or the worst: any two can be made
    to look good or bad by the other one.
    """
    by_class = [match for match in reading.matches if match.worst == WORST]
    if not by_class:
        return None
    first, *others = by_class
    ours = first.duel.ours
    price = _sentence(others[0]) if others else ""
    return Verdict(ours, _sentence(first), price, tuple(_basis(reading)), tuple(_tiles(reading)))


def _per_hundred(*shares: float) -> list[str]:
    """Write shares as numbers of a hundred, with one decimal where all are small or would look equal."""
    whole = [f"{100 * share:.0f}" for share in shares]
    alike = len(set(whole)) == 1 < len({round(share, 3) for share in shares})
    digits = 1 if alike or max(shares) < 0.0995 else 0
    return [f"{100 * share:.{digits}f}" for share in shares]


def as_difference(match: Match) -> str:
    """Say how many more or fewer of a hundred ours gets wrong, with the interval that decides."""
    difference = match.duel.difference
    value, *ends = (
        f"{100 * difference[key]:+.1f}".replace("-", "−")
        for key in ("mean", "low", "high")
        if difference[key] is not None
    )
    if not ends:
        return f"{value}, one split"
    return f"{value} ({ends[0]} to {ends[1]}{', not shown' if match.duel.verdict == 'not shown' else ''})"


def _place(match: Match, which: int) -> str:
    """Name the rows of an error: all (0) or those of the worst class or group (1)."""
    if which == 0:
        return "overall"
    worst = "in the worst class" if match.worst == WORST else "in the worst group"
    return worst if match.unit is None else f"{worst} (“{match.unit}”)"


def _level(match: Match) -> str:
    """Say in which error both are equal, or how far they are from it."""
    equal = 1 - match.which
    ours, plain = _per_hundred(match.ours_at[equal], match.plain_at[equal])
    if abs(match.short_of) < NO_DIFFERENCE:
        return f"{plain} of 100 wrong {_place(match, equal)}"
    title = match.duel.plain["title"]
    return f"{ours} of 100 wrong {_place(match, equal)} and {title} {plain}"


def _sentence(match: Match) -> str:
    ours, plain = _per_hundred(match.ours_at[match.which], match.plain_at[match.which])
    mine, title = match.duel.ours["title"], match.duel.plain["title"]
    place = _place(match, match.which)
    if abs(match.short_of) < NO_DIFFERENCE:
        said = f"With {_level(match)} each, {mine} gets {ours} of 100 wrong {place}, {title} {plain}."
    else:
        said = f"{mine} gets {ours} of 100 wrong {place}, {title} {plain}; {mine} then has {_level(match)}."
    return said + " Not shown: the splits differ by more than that." * (match.duel.verdict == "not shown")


def _basis(reading: Reading) -> Iterator[str]:
    ours = reading.matches[0].duel.ours
    held_out = f"{reading.settings['test_size']:.0%} of the rows held out"
    if len(ours["repeats"]) < 2:
        yield (
            f"One random split, {held_out}: a single split has no interval, so repeat the comparison before "
            "relying on it."
        )
    else:
        pairs = count(len(reading.matches), "difference")
        yield (
            f"Means over {count(len(ours['repeats']), 'random split')}, {held_out}, each time. The intervals "
            f"of {pairs} at equal errors hold together with 95 % confidence, allowing (approximately) for "
            "rows that splits share; where one holds 0, the difference is not shown."
        )
    if len(reading.curve(ours, WORST)) > 1:
        yield (
            f"{ours['title']} is fitted once in every split; limits on its mean error then lead along its "
            "trade-off, and between two of them that were measured answers are drawn."
        )
    yield (
        f"{ours['title']} was taken for its worst class on these splits, so expect a little less elsewhere. "
        f"{reading.matches[0].duel.plain['title']} has the lowest worst class of the plain methods; those "
        "that another one beats in both errors are not named."
    )


def _tiles(reading: Reading) -> list[Tile]:
    classes = [match for match in reading.matches if match.worst == WORST]
    groups = [match for match in reading.matches if match.worst != WORST]
    ours, plain = classes[0].duel.ours, classes[0].duel.plain
    value, theirs = _per_hundred(mean(ours, WORST), mean(plain, WORST))
    detail = f"{ours['title']}; of the plain methods {plain['title']}, {theirs}"
    lowest = Tile("wrong of 100 in the worst class at the least", value, detail)
    return [*map(_tile, (*classes[:2], *groups[:1])), lowest]


def _tile(match: Match) -> Tile:
    ours, plain = _per_hundred(match.ours_at[match.which], match.plain_at[match.which])
    mine, title = match.duel.ours["title"], match.duel.plain["title"]
    both = "Both have" if abs(match.short_of) < NO_DIFFERENCE else f"{mine} has"
    detail = f"{mine}; {title} {plain}. {both} {_level(match)}. Difference {as_difference(match)}"
    return Tile(f"wrong of 100 {_place(match, match.which)}", ours, detail)
