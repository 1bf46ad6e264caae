"""What forces a certified rule: the limit that costs the most, or the one with the least room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Mask
from tailboost.core.rate_words import value_words
from tailboost.core.spelling import as_typed
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows
from tailboost.guarantees.procedure import Certified, Refused
from tailboost.guarantees.rate_bounds import CertifiedBound
from tailboost.rates import Limit, Strata
from tailboost.rates.strata import CELL, CLASS, GROUP
from tailboost.rows.judged import judged, last_step
from tailboost.rows.subgroups import HUMAN_REVIEW

# A limit that the rule uses up by a smaller part is named for its room.
MUCH_USED = 0.75
# An error above that without a limit, or above that of the given answers, by this factor has ways out named.
# With misses by group limited, thresholds by group lowered the true error in all 26 cases from this factor on
# (by .07 of .34), and in 34 of 61 below (`benchmarks/constants.py`).
MUCH_PAID = 1.25
# The most limits of which the cost is estimated, each by a selection without it.
MOST_FREED = 4


@dataclass(frozen=True)
class Room:
    """A limit that is not used up.

    Attributes
    ----------
    limit : str
        Its rate.
    estimate, target : float
        The rate on the fresh rows, of the subgroup that uses most of its limit, and the limit.
    in_percent : bool
        Whether the limit was stated in percent.
    """

    limit: str
    estimate: float
    target: float
    in_percent: bool = False

    def __str__(self) -> str:
        used, stated = (
            value_words(value, in_percent=self.in_percent, digits=3)
            for value in (self.estimate, self.target)
        )
        return f"{self.limit} at most {used} of {stated}"


@dataclass(frozen=True)
class Forced:
    """The limit that costs the most, or if none costs anything alone, the one with the least room.

    Attributes
    ----------
    limit : str
        Its rate and subgroup.
    name : str
        Its subgroup; the rate, if it is of all rows or compares subgroups.
    n : int
        Fresh rows that count in the rate; all of the subgroup, if the rule gives them one answer.
    room : float
        Distance of the estimate from the limit, in standard errors; infinite if no row counts.
    error, without : float or None
        Overall error of the rule on the fresh rows, and that of the rule that the same procedure makes
        without this limit: estimates, no certificates. None if they are not known.
    others : tuple of Room
        Limits on other rates with much room.
    in_percent : bool
        Whether the limit was stated in percent.
    by_group : str, bool or None
        Value of the parameter ``by_group`` with which the rule reads the limited groups: a column, or True.
        None if the rule reads them or cannot, or if the limit is on no group.
    answer : str or None
        The answer of all rows of the subgroup, if the rule gives them one and other rows another.
    given : float or None
        Overall error of the given answers, if it is known.
    of : str
        Whose answers are given.
    """

    limit: str
    name: str
    n: int
    room: float
    error: float | None = None
    without: float | None = None
    others: tuple[Room, ...] = ()
    in_percent: bool = False
    by_group: str | bool | None = None
    answer: str | None = None
    given: float | None = None
    of: str = ""

    def __str__(self) -> str:
        rows = f", with {self.n:,} rows"
        if self.answer is not None:
            rows = f": all its {self.n:,} rows have the answer {self.answer}"
        words = f"{self.name} has the least room{rows}"
        if self.error is not None and self.without is not None:
            without = "without its limit the error on these rows would be"
            if self.forces:
                words = f"{self.name} forces the rule{rows}; {without} about {self._in_words(self.without)}"
            else:
                words += f"; {without} no lower"
        if self.others:
            words += f". Room is left: {'; '.join(map(str, self.others))}"
        return f"{words}.{self._ways_out}"

    @property
    def forces(self) -> bool:
        """Whether the error is lower without the limit, in the printed digits."""
        if self.error is None or self.without is None:
            return False
        lower = self.without < self.error
        return lower and self._in_words(self.without) != self._in_words(self.error)

    @property
    def forces_much(self) -> bool:
        """Whether the error is much lower without the limit."""
        if self.error is None or self.without is None:
            return False
        return self.forces and self.error >= MUCH_PAID * self.without

    def _in_words(self, error: float) -> str:
        """Return an error in the unit of the limits."""
        return value_words(error, in_percent=self.in_percent, digits=3)

    @property
    def _ways_out(self) -> str:
        """What may lower the error, if the limits raise it much."""
        if self.forces_much and self.by_group is not None:
            column = "COLUMN" if self.by_group is True else self.by_group
            option = as_typed(
                f"by_group={self.by_group!r}",
                f"--by-group {column}; of fit: --set by_group={column}",
            )
            return (
                " Two ways may lower the error: thresholds by group, if the rule may read the group "
                f"({option}), or more rows of {self.name}."
            )
        if self.error is None or self.given is None or self.error <= self.given:
            return ""
        if self.error < MUCH_PAID * self.given:
            return ""
        ways = "more rows, or looser limits, may lower this"
        if self.forces:
            ways = "more rows there, or a looser limit, may lower this"
        times = "more often than"
        if self.given:
            times = f"{self.error / self.given:.2g} times as often as"
        return f" The rule errs {times} {self.of}: {ways}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote; raises TypeError for other documents."""
        others = tuple(Room(**room) for room in document["others"])
        return cls(**{**document, "others": others})


def answer_names(strata: Strata) -> list[str]:
    """Return the names of the answers by number."""
    return [*map(repr, strata.classes), HUMAN_REVIEW]


def room_of(bound: CertifiedBound) -> float:
    """Return the distance of an estimate from its limit, in standard errors; infinite without rows."""
    if bound.estimate is None or bound.target is None or not bound.n:
        return np.inf
    sign = -1.0 if bound.sense == "≥" else 1.0
    rate = float(np.clip(bound.estimate, 1.0 / (bound.n + 2), 1.0 - 1.0 / (bound.n + 2)))
    return (
        sign * (bound.target - bound.estimate) / float(np.sqrt(rate * (1.0 - rate) / bound.n))
    )


def without(limit: Limit, dropped: Any, names: Sequence[Any]) -> list[Limit]:
    """Return a limit without one of its subgroups; nothing if no other subgroup is limited."""
    if limit.compares:
        return []
    pairs = zip(names, limit.bounds(list(names)).tolist(), strict=True)
    kept = tuple(
        (name, bound) for name, bound in pairs if name != dropped and not np.isnan(bound)
    )
    if not kept:
        return []
    return [replace(limit, bound=kept)]


@dataclass(frozen=True)
class LimitedBound:
    """A limit on one rate, which may force the rule.

    Attributes
    ----------
    place : int
        Number of the limit.
    bound : CertifiedBound
        Its bound.
    room : float
        Distance of the estimate from the limit, in standard errors; infinite if no row counts.
    rows : ndarray of bool, shape (n,)
        The rows of its subgroup, also those that do not count in the rate.
    answer : str or None
        The answer of all these rows, if they have one and other rows another.
    """

    place: int
    bound: CertifiedBound
    room: float
    rows: Mask
    answer: str | None


def limited_bounds(
    bounds: Sequence[Sequence[CertifiedBound]], limits: Sequence[Limit], answered: FreshRows
) -> list[LimitedBound]:
    """Return the limits on rates that may force a rule, the one with the least room first."""
    strata = answered.answered.strata
    stratum = answered.answered.stratum
    actions = answered.answered.actions
    one_answer = answered.answered.draws or len(np.unique(actions)) == 1
    limited = []
    for place, of_limit in enumerate(bounds):
        names, inside = strata.subgroups(limits[place].rate.by)
        masks = dict(zip(names, inside, strict=True))
        for bound in of_limit:
            if bound.target is None:
                continue
            rows = np.ones(len(stratum), dtype=np.bool_)
            if bound.subgroup in masks and not limits[place].compares:
                rows = masks[bound.subgroup][stratum]
            answers = [] if one_answer else np.unique(actions[rows]).tolist()
            answer = None
            if limits[place].rate.by not in (None, CLASS, CELL) and len(answers) == 1:
                answer = answer_names(strata)[answers[0]]
            room = room_of(bound)
            if answer is not None or np.isfinite(room):
                limited.append(LimitedBound(place, bound, room, rows, answer))
    return sorted(limited, key=lambda one: one.room)


def most_costly_first(
    limited: Sequence[LimitedBound], answered: FreshRows, free: FreshRows
) -> list[LimitedBound]:
    """Return limits by the errors in their rows above those of the rule without any limit.

    The one with the least room stays the first: with one threshold it alone may force the rule.
    """
    excess = np.zeros(len(answered))
    for rows, sign in ((answered, 1.0), (free, -1.0)):
        (sample,) = ERRORS["mean"].samples_of(rows.answered)
        excess[sample.rows] += sign * sample.values
    return [
        limited[0],
        *sorted(limited[1:], key=lambda one: -float(excess[one.rows].sum())),
    ]


def what_forces(
    bounds: Sequence[Sequence[CertifiedBound]],
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    again: Callable[[Any], Certified | Refused | None],
    given: tuple[str, float | None] = ("", None),
) -> Forced | None:
    """Return what forces a certified rule; None if no limit has rows.

    Of the limits that are tried, it is the one without which the error is the lowest. A group in which the
    rule gives one answer counts too: its limit may be kept without a row that counts.

    Parameters
    ----------
    bounds : sequence of sequence of CertifiedBound
        The bounds of each limit.
    limits : sequence of Limit
        The limits.
    result : Certified
        The certified rule.
    fresh : FreshRows
        The fresh rows.
    again : callable
        Returns the result of the same procedure for a selection within other limits; None if it takes long.
    given : (str, float or None)
        Whose answers are compared with the rule, and their overall error.
    """
    answered = fresh.by(result.selection)
    limited = limited_bounds(bounds, limits, answered)
    if not limited:
        return None
    error = _overall_error(answered)
    # Without a limit on deferral every row would be deferred.
    freeable = [
        one
        for one in limited
        if error is not None and not limits[one.place].rate.needs_deferral
    ]
    if len(freeable) > MOST_FREED:
        free = fresh.by(result.selection.within([]))
        freeable = most_costly_first(freeable, answered, free)[:MOST_FREED]
    freed = list(_freed(freeable, limits, result, fresh, again))
    forcing, without_forcing = limited[0], None
    if freed:
        forcing, without_forcing = min(freed, key=lambda pair: pair[1])
        if error is not None and without_forcing >= error:
            forcing, without_forcing = freed[0]
    return _forced(forcing, bounds, limits, fresh, error, without_forcing, given)


def _freed(
    limited: Sequence[LimitedBound],
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    again: Callable[[Any], Certified | Refused | None],
) -> Iterator[tuple[LimitedBound, float]]:
    """Yield limits with the overall error of the rule that is certified without each, where there is one."""
    for one in limited:
        limit = limits[one.place]
        names = [sample.name for sample in fresh.samples(limit.rate)]
        others = [
            *limits[: one.place],
            *without(limit, one.bound.subgroup, names),
            *limits[one.place + 1 :],
        ]
        selection = result.selection.within(others)
        if others:
            looser = again(selection)
            if looser is None:
                return
            if isinstance(looser, Refused):
                continue
            selection = looser.selection
        error = _overall_error(fresh.by(selection))
        if error is not None:
            yield one, error


def _overall_error(answered: FreshRows) -> float | None:
    """Return the overall error of the labelled rows; None without them."""
    (sample,) = answered.samples(ERRORS["mean"])
    if not len(sample.rows):
        return None
    return float(sample.mean)


def _forced(
    forcing: LimitedBound,
    bounds: Sequence[Sequence[CertifiedBound]],
    limits: Sequence[Limit],
    fresh: FreshRows,
    error: float | None,
    without_forcing: float | None,
    given: tuple[str, float | None],
) -> Forced:
    """Return what is said of the limit that forces a rule."""
    place = forcing.place
    bound = forcing.bound
    name = bound.name
    if bound.subgroup is None or limits[place].compares:
        name = _rate_and_subgroup(bound)
    n = bound.n
    if forcing.answer is not None:
        n = int(np.count_nonzero(forcing.rows))
    of, given_error = given
    others_bounds = [*bounds[:place], *bounds[place + 1 :]]
    return Forced(
        limit=bound.title,
        name=name,
        n=n,
        room=forcing.room,
        error=error,
        without=without_forcing,
        others=tuple(chain.from_iterable(map(_rooms, others_bounds))),
        in_percent=any(limit.in_percent for limit in limits),
        by_group=None if limits[place].compares else _unread(limits[place], fresh.model),
        answer=forcing.answer,
        given=given_error,
        of=of,
    )


def _unread(limit: Limit, model: Any) -> str | bool | None:
    """Return ``by_group`` with which a classifier would read limited groups; None if it does or cannot."""
    judge = judged(last_step(model))
    column = limit.rate.by
    if column == GROUP and len(judge.group_titles) == 1:
        column = judge.group_titles[0] or True
    if column in (None, CLASS, CELL, GROUP) or isinstance(column, tuple):
        return None
    if getattr(judge.classifier, "by_group", None) is not False:
        return None
    return column if column is True else str(column)


def _rate_and_subgroup(bound: CertifiedBound) -> str:
    """Return the name of a bounded rate, without the subgroup of all rows."""
    if bound.subgroup is None:
        return bound.quantity
    if bound.subgroups:
        return f"{bound.subgroup} of {bound.quantity}"
    return bound.title


def _rooms(bounds: Sequence[CertifiedBound]) -> list[Room]:
    """Return the room of a limit from above, by the subgroup that uses most of it; nothing if it is used."""
    rooms = [
        Room(bound.quantity, bound.estimate, bound.target, bound.in_percent)
        for bound in bounds
        if bound.estimate is not None and bound.target is not None and bound.sense == "≤"
    ]
    if not rooms:
        return []
    least = max(rooms, key=lambda room: room.estimate - room.target)
    return [least] * (least.estimate < MUCH_USED * least.target)
