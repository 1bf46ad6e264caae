"""What forces a certified rule: the limit with the least room, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np

from tailboost.core.rate_words import value_words
from tailboost.core.spelling import as_typed
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows
from tailboost.guarantees.procedure import Certified, Refused
from tailboost.guarantees.rate_bounds import CertifiedBound
from tailboost.rates import Limit
from tailboost.rates.strata import CELL, CLASS, GROUP
from tailboost.rows.judged import judged, last_step

# A limit that the rule uses up by a smaller part is named for its room.
MUCH_USED = 0.75
# A limit of a group that raises the error by this factor has ways out named.
MUCH_PAID = 1.25


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
    """The limit with the least room, in standard errors of its rate.

    It forces the rule if the error is lower without it.

    Attributes
    ----------
    limit : str
        Its rate and subgroup.
    name : str
        Its subgroup; the rate, if it is of all rows or compares subgroups.
    n : int
        Fresh rows of the subgroup.
    room : float
        Distance of the estimate from the limit, in standard errors.
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

    def __str__(self) -> str:
        words = f"{self.name} has the least room, with {self.n:,} rows"
        if self.error is not None and self.without is not None:
            error, freed = (
                value_words(value, in_percent=self.in_percent, digits=3)
                for value in (self.error, self.without)
            )
            without = "without its limit the error on these rows would be"
            if self.without < self.error and freed != error:
                words = f"{self.name} forces the rule, with {self.n:,} rows; {without} about {freed}"
            else:
                words += f"; {without} no lower"
        if self.others:
            words += f". Room is left: {'; '.join(map(str, self.others))}"
        return f"{words}.{self._ways_out}"

    @property
    def _ways_out(self) -> str:
        """What may lower the error, if the limit of a group that the rule does not read raises it much."""
        if self.by_group is None or self.error is None or self.without is None:
            return ""
        if self.error < MUCH_PAID * self.without or self.error <= self.without:
            return ""
        column = "COLUMN" if self.by_group is True else self.by_group
        option = as_typed(
            f"by_group={self.by_group!r}",
            f"--by-group {column}; of fit: --set by_group={column}",
        )
        return (
            " Two ways may lower the error: thresholds by group, if the rule may read the group "
            f"({option}), or more rows of {self.name}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote; raises TypeError for other documents."""
        others = tuple(Room(**room) for room in document["others"])
        return cls(**{**document, "others": others})


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


def what_forces(
    bounds: Sequence[Sequence[CertifiedBound]],
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    again: Callable[[Any], Certified | Refused | None],
) -> Forced | None:
    """Return what forces a certified rule; None if no limit has rows.

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
    """
    limited = [
        (room_of(bound), place, bound)
        for place, of_limit in enumerate(bounds)
        for bound in of_limit
        if bound.target is not None
    ]
    least, place, forcing = min(limited, key=lambda each: each[0])
    if not np.isfinite(least):
        return None
    names = [sample.name for sample in fresh.samples(limits[place].rate)]
    others = [
        *limits[:place],
        *without(limits[place], forcing.subgroup, names),
        *limits[place + 1 :],
    ]
    answered = fresh.by(result.selection)
    (sample,) = answered.samples(ERRORS["mean"])
    error = freed = None
    # Without a limit on deferral every row would be deferred.
    if len(sample.rows) and not limits[place].rate.needs_deferral:
        error = float(sample.mean)
        selection = result.selection.within(others)
        if others:
            looser = again(selection)
            selection = looser.selection if isinstance(looser, Certified) else None
        if selection is not None:
            (sample,) = fresh.by(selection).samples(ERRORS["mean"])
            freed = float(sample.mean)
    others_bounds = [*bounds[:place], *bounds[place + 1 :]]
    rooms = list(chain.from_iterable(map(_rooms, others_bounds)))
    name = forcing.name
    if forcing.subgroup is None or limits[place].compares:
        name = _rate_and_subgroup(forcing)
    return Forced(
        forcing.title,
        name,
        forcing.n,
        float(least),
        error,
        freed,
        tuple(rooms),
        any(limit.in_percent for limit in limits),
        None if limits[place].compares else _unread(limits[place], fresh.model),
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
