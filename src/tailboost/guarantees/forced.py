"""The limit that forces a certified rule: the costliest one, or the one with the least room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.rate_words import value_words
from tailboost.core.spelling import how_many
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows
from tailboost.guarantees.procedure import Certified, Refused
from tailboost.guarantees.rate_bounds import CertifiedBound
from tailboost.rates import Limit, Strata
from tailboost.rates.strata import CELL, CLASS
from tailboost.rows.judged import judged, last_step
from tailboost.rows.subgroups import HUMAN_REVIEW
from tailboost.selection.problem import by_group_option, group_to_read
from tailboost.selection.selected import ONE_SIDED

# Limits of which the rule uses a smaller part are named for their room. Without such a limit the error is at
# most .0034 ± .0024 lower, without others .0087 or more (benchmarks/ablations.py).
MUCH_USED = 0.75
# The text names ways out if the error exceeds the error without a limit, or of the given answers, by this
# factor. With misses by group limited, thresholds by group lowered the true error in all 26 cases from this
# factor on (by .07 of .34), and in 34 of 61 below (`benchmarks/constants.py`).
MUCH_PAID = 1.25
# More rows may help if an estimate is within its limit by more than this part of the allowed share. Four
# times as many lowered the error by .013 to .046 there, and by .002 in two cases below
# (benchmarks/ablations.py).
CLEARLY_BELOW = 0.1
# Thresholds at which the estimate of a group with one answer is compared with its limit: quantiles.
MOST_THRESHOLDS = 20
# The most limits with an estimated cost, each by a selection without the limit. Among the four with the least
# room of 6 to 8 limits by group was the costliest one in 23 of 23 cases.
MOST_FREED = 4


@dataclass(frozen=True)
class Room:
    """A limit from above with much room between the rates and their bound.

    Attributes
    ----------
    limit : str
        Its rate, or the gap of its rate.
    estimate, target : float
        The rate on the fresh rows of the subgroup nearest to its bound, and this bound.
    in_percent : bool
        Whether the limit was stated in percent.
    """

    limit: str
    estimate: float
    target: float
    in_percent: bool = False

    def __str__(self) -> str:
        estimate, target = (
            value_words(value, in_percent=self.in_percent, digits=3)
            for value in (self.estimate, self.target)
        )
        return f"{self.limit} at most {estimate} of {target}"


@dataclass(frozen=True)
class Forced:
    """The costliest limit, or if no limit alone has a cost, the one with the least room.

    Attributes
    ----------
    limit : str
        Its rate and subgroup.
    name : str
        Its subgroup; the rate, for a rate of all rows or a comparison of subgroups.
    n : int
        Counted fresh rows of the rate, as in the table of the certificate.
    room : float
        Distance of the estimate from the limit, in standard errors; infinite if no row counts.
    error : float or None
        Overall error of the rule on the fresh rows, an estimate; None if unknown.
    without : float or None
        Overall error of the same procedure's rule without this limit, an estimate; None if unknown.
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
        Overall error of the answers with which the rule is compared, if known.
    of : str
        Who gives these answers.
    estimate, target : float or None
        The rate on the fresh rows, and the limit. None if no row counts, or in files without them.
    noise : float
        Standard error of the difference of ``error`` and ``without``.
    is_reachable : bool
        Whether the estimate may keep the limit at some threshold, where the subgroup has one answer.
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
    estimate: float | None = None
    target: float | None = None
    noise: float = 0.0
    is_reachable: bool = True

    def __str__(self) -> str:
        about_rows = f", with {how_many(self.n, 'row')}"
        if not self.n:
            about_rows = ", without a row that counts"
        words = f"{self.name} has the least room{about_rows}"
        if self.error is not None and self.without is not None:
            would_be = "without its limit the error on these rows would be"
            without = self._in_words(self.without)
            if self.forces:
                words = f"{self.name} forces the rule{about_rows}; {would_be} about {without}"
            elif self.without < self.error and without != self._in_words(self.error):
                words += f"; {would_be} about {without}, and the difference is within noise"
            else:
                words += f"; {would_be} no lower"
        if self.others:
            words += f". Room is left: {'; '.join(map(str, self.others))}"
        return f"{words}.{self._ways_out}"

    @property
    def forces(self) -> bool:
        """Whether the error is lower without the limit by more than noise, also in the printed digits.

        False if one of the two errors is not known.
        """
        if self.error is None or self.without is None:
            return False
        if self._in_words(self.without) == self._in_words(self.error):
            return False
        return is_above_noise(self.error, self.without, self.noise)

    @property
    def forces_much(self) -> bool:
        """Whether the error is lower without the limit by the factor `MUCH_PAID`."""
        if self.error is None or self.without is None:
            return False
        return self.forces and self.error >= MUCH_PAID * self.without

    @property
    def lacks_rows(self) -> bool:
        """Whether more rows may help: a wide margin for few rows keeps the estimate clearly within the limit.

        Where all rows have one answer, they may help if another threshold may keep the limit. True too if
        the estimate is not known.
        """
        if self.answer is not None:
            return self.is_reachable
        if self.estimate is None or self.target is None:
            return True
        allowed = self.target
        if self.estimate > self.target:  # a limit from below allows the other share
            allowed = 1.0 - self.target
        return abs(self.target - self.estimate) > CLEARLY_BELOW * abs(allowed)

    def _in_words(self, error: float) -> str:
        """Return an error in the unit of the limits."""
        return value_words(error, in_percent=self.in_percent, digits=3)

    @property
    def _ways_out(self) -> str:
        """Advice on how to lower the error, as a sentence; "" if the limits do not raise the error much.

        Two ways are advised if one limit raises the error much and thresholds by group are possible.
        Otherwise the error is compared with that of the given rule.
        """
        if self.forces_much and self.by_group is not None:
            other_way = "more rows there" if self.lacks_rows else "a looser limit"
            return (
                " Two ways may lower the error: thresholds by group, if the rule may read the "
                f"group ({by_group_option(self.by_group)}), or {other_way}."
            )
        if self.error is None or self.given is None:
            return ""
        if self.error <= self.given or self.error < MUCH_PAID * self.given:
            return ""
        cures = []
        if self.by_group is not None:
            option = by_group_option(self.by_group)
            cures.append(f"thresholds by group, if the rule may read the group ({option})")
        if self.lacks_rows:
            cures.append("more rows there" if self.forces else "more rows")
        cures.append("a looser limit" if self.forces else "looser limits")
        ways = ", or ".join(cures)
        if len(cures) > 1:
            ways += ","
        how_often = "more often than"
        if self.given:
            how_often = f"{self.error / self.given:.2g} times as often as"
        return f" The rule errs {how_often} {self.of}: {ways} may lower this."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON; an infinite room is None."""
        room = None if np.isinf(self.room) else self.room
        return asdict(self) | {"room": room}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the limit written by `to_dict`; raises TypeError for other documents."""
        others = tuple(Room(**room) for room in document["others"])
        room = np.inf if document["room"] is None else document["room"]
        return cls(**{**document, "room": room, "others": others})


def is_above_noise(error: float, without: float, noise: float) -> bool:
    """Return whether a rule's error is above that of another rule by more than noise (95 %, one-sided).

    ``noise`` is the standard error of the difference, on the same rows.
    """
    return error - without > ONE_SIDED * noise


def group_words(name: str, by: Any, limits: Sequence[Limit]) -> str:
    """Return the name of a group, with its column if limits are about the groups of several columns."""
    kinds = {limit.rate.by for limit in limits} - {None, CLASS, CELL}
    if by in kinds and len(kinds) > 1:
        columns = " and ".join(map(str, by)) if isinstance(by, tuple) else by
        return f"{columns} {name}"
    return name


def quantity_words(bound: CertifiedBound, limit: Limit) -> str:
    """Return the name of a limited quantity without a subgroup; a gap or ratio is named as such."""
    if limit.compares:
        return f"{bound.subgroup} of {bound.quantity}"
    return bound.quantity


def answer_names(strata: Strata) -> list[str]:
    """Return the printed name of each answer by its number: the labels, then the name of deferral."""
    return [*map(repr, strata.classes), HUMAN_REVIEW]


def room_of(bound: CertifiedBound) -> float:
    """Return the distance of an estimate from its limit, in standard errors; infinite without rows."""
    if bound.estimate is None or bound.target is None or not bound.n:
        return np.inf
    room = bound.target - bound.estimate
    if bound.sense == "≥":
        room = -room
    # Rates of 0 and 1 would have a standard error of 0, so rates keep a distance from both.
    smallest = 1.0 / (bound.n + 2)
    rate = float(np.clip(bound.estimate, smallest, 1.0 - smallest))
    return room / float(np.sqrt(rate * (1.0 - rate) / bound.n))


def without_subgroup(limit: Limit, dropped: Any, names: Sequence[Any]) -> list[Limit]:
    """Return a limit without one of its subgroups, as a list of one limit; empty if no limit is left.

    ``names`` are all subgroups of the rate on the fresh rows. Some may be unknown to the selection, so the
    result does not name them, unless the limit does. A gap or ratio is dropped as a whole.
    """
    if limit.compares:
        return []
    bounds = limit.bounds(list(names))
    is_left = np.array([name != dropped for name in names]) & ~np.isnan(bounds)
    if not is_left.any():
        return []
    bound_of: dict[Any, Any] = {None: limit.bound}  # None stands for the other subgroups
    if isinstance(limit.bound, tuple):
        bound_of = dict(limit.bound)
    bound_of.pop(dropped, None)
    if None in bound_of:
        bound_of[dropped] = np.nan
    return [replace(limit, bound=tuple(bound_of.items()))]


@dataclass(frozen=True)
class LimitedBound:
    """A limit on one rate, which may force the rule.

    Attributes
    ----------
    number : int
        Number of the limit.
    bound : CertifiedBound
        Its bound.
    room : float
        Distance of the estimate from the limit, in standard errors; infinite if no row counts.
    answer : str or None
        The answer of all rows of the subgroup, if the rule gives them one and other rows another.
    """

    number: int
    bound: CertifiedBound
    room: float
    answer: str | None

    @property
    def may_bind(self) -> bool:
        """Whether the rule uses much of the limit: its confidence bound more than the part `MUCH_USED`.

        A group with one answer has no room at all, whatever its estimate.
        """
        target = self.bound.target
        if self.answer is not None or target is None or not 0.0 < target < 1.0:
            return True
        if self.bound.sense == "≥":  # a limit from below allows the other share
            return 1.0 - self.bound.lower > MUCH_USED * (1.0 - target)
        return self.bound.upper > MUCH_USED * target


def limited_bounds(
    bounds: Sequence[Sequence[CertifiedBound]], limits: Sequence[Limit], answered: FreshRows
) -> list[LimitedBound]:
    """Return the limits on rates that may force a rule, the one with the least room first.

    A limit without a counted row may force the rule only if its subgroup has one answer alone.

    Parameters
    ----------
    bounds : sequence of sequence of CertifiedBound
        The bounds of each limit.
    limits : sequence of Limit
        The limits.
    answered : FreshRows
        The fresh rows with the answers of the rule.
    """
    limited = []
    for number, (limit, bounds_of_limit) in enumerate(zip(limits, bounds, strict=True)):
        one_answer = {} if limit.compares else groups_of_one_answer(answered, limit.rate.by)
        for bound in bounds_of_limit:
            if bound.target is None:
                continue
            answer = one_answer.get(bound.subgroup)
            room = room_of(bound)
            if answer is not None or np.isfinite(room):
                limited.append(LimitedBound(number, bound, room=room, answer=answer))
    return sorted(limited, key=lambda limited_bound: limited_bound.room)


def groups_of_one_answer(answered: FreshRows, by: Any) -> dict[Any, str]:
    """Return the answer of each group in which all rows have one answer.

    There are none if the rule gives one answer to all rows, or draws answers. ``by`` is that of a rate.
    """
    rows = answered.answered
    if by in (None, CLASS, CELL) or rows.draws or len(np.unique(rows.actions)) == 1:
        return {}
    one_answer = {}
    names, strata_of_groups = rows.strata.subgroups(by)
    for name, is_in_group in zip(names, strata_of_groups, strict=True):
        actions = rows.actions[is_in_group[rows.stratum]]
        if len(np.unique(actions)) == 1:
            one_answer[name] = answer_names(rows.strata)[actions[0]]
    return one_answer


def what_forces(
    bounds: Sequence[Sequence[CertifiedBound]],
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    run_for: Callable[[Any], Certified | Refused | None],
    reference: tuple[str, float | None] = ("", None),
) -> Forced | None:
    """Return the limit that forces a certified rule; None if no limit has rows.

    Rules are made without one of the limits each. The least error without a limit decides. The least room
    decides if no error is lower by more than noise, or if the objective is not the overall error.

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
    run_for : callable
        Returns the result of the same procedure for a selection within other limits; None for long ones.
    reference : (str, float or None)
        Who gives the answers with which the rule is compared, and their overall error.
    """
    answered = fresh.by(result.selection)
    limited = limited_bounds(bounds, limits, answered)
    if not limited:
        return None
    error = None
    freed: list[FreedLimit] = []
    wrong = None
    if is_overall_error(result.selection.problem.objective):
        wrong = _wrong_rows(answered)
    if wrong is not None:
        error = float(wrong.mean())
        # Without a limit on deferral every row would be deferred.
        candidates = [
            limited_bound
            for limited_bound in limited
            if limited_bound.may_bind and not limits[limited_bound.number].rate.needs_deferral
        ]
        candidates.sort(key=lambda limited_bound: limited_bound.answer is None)
        freed += _freed_limits(candidates[:MOST_FREED], wrong, limits, result, fresh, run_for)
    costly = [limit for limit in freed if limit.is_costly]
    forcing = None
    if costly:
        forcing = min(costly, key=lambda limit: limit.without)
    elif freed:
        forcing = min(freed, key=lambda limit: limit.limited.room)
    named = limited[0] if forcing is None else forcing.limited
    return _as_forced(named, forcing, bounds, limits, fresh, error, reference)


@dataclass(frozen=True)
class FreedLimit:
    """A limit on one rate, and what a rule without this limit would cost.

    Attributes
    ----------
    limited : LimitedBound
        The limit.
    error, without : float
        Overall errors on the fresh rows: of the certified rule, and of the same procedure's rule without the
        limit.
    noise : float
        Standard error of their difference.
    """

    limited: LimitedBound
    error: float
    without: float
    noise: float

    @property
    def is_costly(self) -> bool:
        """Whether the error is lower without the limit by more than noise."""
        return is_above_noise(self.error, self.without, self.noise)


def _freed_limits(
    limited: Sequence[LimitedBound],
    wrong: Floats,
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    run_for: Callable[[Any], Certified | Refused | None],
) -> Iterator[FreedLimit]:
    """Yield each limit with the cost of a rule without it.

    Limits without such a rule are left out. ``wrong`` tells which labelled rows the certified rule answers
    wrongly. The other arguments are as in `what_forces`.
    """
    for dropped in limited:
        number = dropped.number
        names, _, _ = limits[number].rate.by_subgroup(fresh.answered.strata)
        other_limits = [
            *limits[:number],
            *without_subgroup(limits[number], dropped.bound.subgroup, names),
            *limits[number + 1 :],
        ]
        if other_limits:
            looser = run_for(result.selection.placed_within(other_limits))
            if looser is None:
                return
            if isinstance(looser, Refused):
                continue
            selection = looser.selection
        else:
            selection = result.selection.within(other_limits)
        wrong_without = _wrong_rows(fresh.by(selection))
        if wrong_without is not None:
            differences = wrong - wrong_without
            noise = float(differences.std()) / np.sqrt(len(differences))
            yield FreedLimit(dropped, float(wrong.mean()), float(wrong_without.mean()), noise)


def is_overall_error(objective: Any) -> bool:
    """Whether an objective within limits is the overall error."""
    return objective.rate == ERRORS["mean"] and not objective.worst


def _wrong_rows(answered: FreshRows) -> Floats | None:
    """Return whether the answer is wrong in each labelled row, as 0 or 1; None without labelled rows."""
    (sample,) = answered.samples(ERRORS["mean"])
    if not len(sample.rows):
        return None
    return sample.values


def _as_forced(
    limited: LimitedBound,
    freed: FreedLimit | None,
    bounds: Sequence[Sequence[CertifiedBound]],
    limits: Sequence[Limit],
    fresh: FreshRows,
    error: float | None,
    reference: tuple[str, float | None],
) -> Forced:
    """Return a limit as a `Forced`, with the room of the other limits.

    ``freed`` is the cost of the limit, if known, and ``error`` the overall error of the rule. The other
    arguments are as in `what_forces`.
    """
    number = limited.number
    limit = limits[number]
    bound = limited.bound
    name = group_words(bound.name, limit.rate.by, limits)
    if limit.compares or bound.subgroup is None:
        name = quantity_words(bound, limit)

    # Thresholds for the groups of one column do not serve limits by the groups of another one.
    grouped = {stated.rate.by for stated in limits if stated.rate.needs_groups}
    by_group = None
    if len(grouped) == 1:
        by_group = by_group_to_read(limit, fresh.model)

    reference_name, reference_error = reference
    rooms_of_others = [
        _room_left(bounds_of_other, limits[other])
        for other, bounds_of_other in enumerate(bounds)
        if other != number
    ]
    return Forced(
        limit=bound.title,
        name=name,
        n=bound.n,
        room=limited.room,
        error=error,
        without=None if freed is None else freed.without,
        noise=0.0 if freed is None else freed.noise,
        others=tuple(chain.from_iterable(rooms_of_others)),
        in_percent=any(stated.in_percent for stated in limits),
        by_group=by_group,
        answer=limited.answer,
        given=reference_error,
        of=reference_name,
        estimate=bound.estimate,
        target=bound.target,
        is_reachable=limited.answer is None or is_reachable(limit, bound.subgroup, fresh),
    )


def is_reachable(limit: Limit, subgroup: Any, fresh: FreshRows) -> bool:
    """Return whether the rate of a group keeps its limit at some threshold of the only model.

    True too if it is not known: with several models, more than two labels, or deferral.
    """
    answered = fresh.answered
    tables = fresh.opened
    has_one_score = all(getattr(table, "n_models", 0) == 1 for table in tables)
    if not has_one_score or answered.strata.n_classes != 2 or answered.strata.defers:
        return True
    log_odds = np.concatenate([table[0][:, 1] - table[0][:, 0] for table in tables])
    names, strata_of_groups = answered.strata.subgroups(limit.rate.by)
    is_in_group = strata_of_groups[list(names).index(subgroup)][answered.stratum]
    (bound,) = limit.bounds([subgroup])
    inner_quantiles = np.linspace(0.0, 1.0, MOST_THRESHOLDS + 2)[1:-1]
    for threshold in np.unique(np.quantile(log_odds[is_in_group], inner_quantiles)):
        answered_there = fresh.with_actions((log_odds >= threshold).astype(np.intp))
        rate_of_group = {
            sample.name: sample.mean for sample in answered_there.samples(limit.rate)
        }
        if limit.keeps(float(rate_of_group.get(subgroup, np.nan)), bound):
            return True
    return False


def by_group_to_read(limit: Limit, model: Any) -> str | bool | None:
    """Return the value of ``by_group`` with which a classifier reads the groups of a limit.

    None if the classifier reads the groups already or cannot, or if the limit is on no single column.
    """
    judge = judged(last_step(model))
    can_read_and_does_not = getattr(judge.classifier, "by_group", None) is False
    if not can_read_and_does_not:
        return None
    return group_to_read(limit, judge.group_titles)


def _room_left(bounds: Sequence[CertifiedBound], limit: Limit) -> list[Room]:
    """Return the room of a limit from above, at the subgroup nearest to its bound.

    The list is empty if this subgroup uses at least the part `MUCH_USED` of its bound.
    """
    rooms = [
        Room(quantity_words(bound, limit), bound.estimate, bound.target, bound.in_percent)
        for bound in bounds
        if bound.estimate is not None and bound.target is not None and bound.sense == "≤"
    ]
    if not rooms:
        return []
    least_room = max(rooms, key=lambda room: room.estimate - room.target)
    if least_room.estimate < MUCH_USED * least_room.target:
        return [least_room]
    return []
