"""The limit that forces a certified rule: the costliest one, or the one with the least room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any, Self

import numpy as np
from scipy.stats import norm

from tailboost.core.array_types import Floats, Ints
from tailboost.core.rate_words import value_words
from tailboost.core.spelling import how_many, limits_as_typed
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows
from tailboost.guarantees.path import Path
from tailboost.guarantees.procedure import Certified, Refused
from tailboost.guarantees.rate_bounds import CertifiedBound
from tailboost.rates import Limit, Strata
from tailboost.rates.bounds import are_few_for
from tailboost.rates.strata import CELL, CLASS
from tailboost.rows.judged import judged, last_step
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name
from tailboost.selection.problem import by_group_option, group_to_read

# A limit may force the rule if the confidence bound on its rate exceeds this part of it. Of limits with less,
# the error is at most .0034 ± .0024 lower without them, otherwise .0087 or more (benchmarks/ablations.py).
MUCH_USED = 0.75
# If no limit alone forces the rule, the text compares its error with that of the given answers from this
# factor on. With misses by group limited, thresholds by group lowered the true error in all 26 cases from it
# on (by .07 of .34), and in 34 of 61 below (`benchmarks/constants.py`).
MUCH_PAID = 1.25
# The most limits with an estimated cost, each by a selection without the limit. Among the four with the least
# room of 6 to 8 limits by group was the costliest one in 23 of 23 cases.
MOST_FREED = 4


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
        Overall error of the same procedure's rule without this limit, an estimate; None if unknown. For a
        sequence of tighter limits: of one rule, selected within the certified rule's other limits.
    noise : float
        Standard error of the difference of ``error`` and ``without``.
    in_percent : bool
        Whether a limit was stated in percent.
    by_group : str, bool or None
        Value of the parameter ``by_group`` with which the rule reads the limited groups: a column, or True.
        None if the rule reads them or cannot, or if the limit is on no group.
    reads_scores : bool
        Whether the rule reads given scores; otherwise ``fit`` trained its models.
    answer : str or None
        The answer of all rows of the subgroup, if the rule gives them one and other rows another.
    given : float or None
        Overall error of the answers with which the rule is compared, if known.
    n_freed : int
        Number of limits with an estimated ``without``, from which this limit was taken.
    other_limits : tuple of str
        All limits as texts, without this one of a subgroup with few rows for it, see
        `tailboost.rates.bounds.are_few_for`; empty for other limits.
    apart : float or None
        Overall error on the fresh rows of the same procedure's rule with thresholds by group, an estimate;
        None if unknown. For a sequence of tighter limits: of one rule, selected within the certified rule's
        limits.
    apart_noise : float
        Standard error of the difference of ``error`` and ``apart``.
    """

    limit: str
    name: str
    n: int
    room: float
    error: float | None = None
    without: float | None = None
    noise: float = 0.0
    in_percent: bool = False
    by_group: str | bool | None = None
    reads_scores: bool = True
    answer: str | None = None
    given: float | None = None
    n_freed: int = 1
    other_limits: tuple[str, ...] = ()
    apart: float | None = None
    apart_noise: float = 0.0

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
        return " ".join([f"{words}.", *self._ways_out])

    @property
    def forces(self) -> bool:
        """Whether the error is lower without the limit by more than noise (95 %, one-sided), also as printed.

        The limit is the costliest of ``n_freed``, which share the 5 % (union bound). False if one of the two
        errors is not known.
        """
        return self._is_lower(self.without, 0.05 / self.n_freed, self.noise)

    @property
    def groups_pay(self) -> bool:
        """Whether the error is lower with thresholds by group by more than noise (95 %, one-sided)."""
        return self._is_lower(self.apart, 0.05, self.apart_noise)

    def _is_lower(self, error: float | None, level: float, noise: float) -> bool:
        """Return whether another error is lower than that of the rule beyond noise, also as printed."""
        if self.error is None or error is None:
            return False
        if self._in_words(error) == self._in_words(self.error):
            return False
        return bool(self.error - error > norm.isf(level) * noise)

    def _in_words(self, error: float) -> str:
        """Return an error in the unit of the limits."""
        return value_words(error, in_percent=self.in_percent, digits=3)

    @property
    def _ways_out(self) -> list[str]:
        """Sentences on lower errors: each is an estimate on these rows, and lower beyond noise."""
        ways = []
        if self.forces and self.other_limits:
            ways.append(f"To leave it out, on new rows: {limits_as_typed(self.other_limits)}.")
        error = self.error or 0.0
        if self.given is not None and not self.forces and error > MUCH_PAID * self.given:
            ways.append(
                "All limits together raise the error on these rows from "
                f"{self._in_words(self.given)} to {self._in_words(error)}."
            )
        if self.by_group is not None and self.apart is not None and self.groups_pay:
            option = by_group_option(self.by_group, reads_scores=self.reads_scores)
            ways.append(
                f"With thresholds by group, if the rule may read the group ({option}), it would be "
                f"about {self._in_words(self.apart)}."
            )
        return ways

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON; an infinite room is None."""
        room = None if np.isinf(self.room) else self.room
        return asdict(self) | {"room": room}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the limit written by `to_dict`; raises TypeError for other documents."""
        room = np.inf if document["room"] is None else document["room"]
        other_limits = tuple(document.get("other_limits", ()))
        return cls(**{**document, "room": room, "other_limits": other_limits})


def group_words(name: str, by: Any, limits: Sequence[Limit]) -> str:
    """Return the name of a group, with its column if limits are about the groups of several columns."""
    kinds = {limit.rate.by for limit in limits} - {None, CLASS, CELL}
    if by in kinds and len(kinds) > 1:
        columns = " and ".join(map(str, by)) if isinstance(by, tuple) else by
        return f"{columns} {name}"
    return name


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


def has_few_rows(n: int, target: float | None, limit: Limit, level: float) -> bool:
    """Return whether so few rows of a subgroup, and not its rate, make its limit dear, see `are_few_for`."""
    if limit.compares or target is None:
        return False
    return are_few_for(n, float(limit.against(target)), level)


def limits_without(
    titles: Collection[str], limits: Sequence[Limit], fresh: FreshRows
) -> list[Limit]:
    """Return the limits without some limited subgroups; each other subgroup has its name there.

    The list is empty if a title is none of a subgroup, or of the only one of its limit, and for a classifier
    that takes no limits on rates.

    Parameters
    ----------
    titles : collection of str
        The titles of the bounds on these subgroups.
    limits : sequence of Limit
        The limits.
    fresh : FreshRows
        The fresh rows.
    """
    if not judged(last_step(fresh.model)).takes_limits:
        return []
    remaining_titles = set(titles)
    others: list[Limit] = []
    for limit in limits:
        names = [sample.name for sample in fresh.samples(limit.rate)]
        title_of = {
            name: f"{limit.rate}: {unit_name(name)}" for name in names if name is not None
        }
        dropped = [name for name, title in title_of.items() if title in titles]
        left = limit.all_but(dropped, names) if dropped else [limit]
        if not left:
            return []
        others += left
        remaining_titles -= {title_of[name] for name in dropped}
    return [] if remaining_titles else others


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

        One further row may count, because a rule keeps a distance of up to one row from its limit. A group
        with one answer has no room at all, whatever its estimate.
        """
        target = self.bound.target
        if self.answer is not None or target is None or not 0.0 < target < 1.0:
            return True
        of_one_row = 1.0 / max(1, self.bound.n)
        if self.bound.sense == "≥":  # a limit from below allows the other share
            return 1.0 - self.bound.lower + of_one_row > MUCH_USED * (1.0 - target)
        return self.bound.upper + of_one_row > MUCH_USED * target


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
    if by in (None, CLASS, CELL) or rows.draws or _are_equal(rows.actions):
        return {}
    one_answer = {}
    names, strata_of_groups = rows.strata.subgroups(by)
    for name, is_in_group in zip(names, strata_of_groups, strict=True):
        actions = rows.actions[is_in_group[rows.stratum]]
        if _are_equal(actions):
            one_answer[name] = answer_names(rows.strata)[actions[0]]
    return one_answer


def _are_equal(actions: Ints) -> bool:
    """Whether all rows have the same action; False without rows."""
    return len(actions) > 0 and bool((actions == actions[0]).all())


def what_forces(
    bounds: Sequence[Sequence[CertifiedBound]],
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    run_for: Callable[[Any, FreshRows], Certified | Refused | None],
    level: float,
    given_error: float | None = None,
) -> Forced | None:
    """Return the limit that forces a certified rule; None if no limit has rows.

    The same procedure makes rules without one of the limits each. A sequence of tighter limits takes long, so
    one selection within the others, as tight as those of the certified rule, replaces it. The least error
    without a limit decides. The least room decides if no error is lower by more than noise, or if the
    objective is not the overall error. If the rule errs more than the given answers, and may read the limited
    groups, a rule with thresholds by group is made, too.

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
        Returns the result of the same procedure for another selection on its rows; None for long ones.
    level : float
        Allowed probability of a broken limit.
    given_error : float or None
        Overall error of the answers with which the rule is compared, if known.
    """
    answered = fresh.by(result.selection)
    limited = limited_bounds(bounds, limits, answered)
    if not limited:
        return None
    wrong = None
    if is_overall_error(result.selection.problem.objective):
        wrong = _wrong_rows(answered)
    if wrong is None:
        return _as_forced(limited[0], limits, fresh, level)

    # Without a limit on deferral every row would be deferred. The rules of a fixed sequence keep a distance
    # from each limit, so one with little use may force them.
    candidates = [
        limited_bound
        for limited_bound in limited
        if (limited_bound.may_bind or result.method == Path.title)
        and not limits[limited_bound.number].rate.needs_deferral
    ]
    candidates.sort(key=lambda limited_bound: limited_bound.answer is None)
    error = float(wrong.mean())
    least_room = replace(
        _as_forced(limited[0], limits, fresh, level), error=error, given=given_error
    )
    freed = []  # each limit with the error of the rule without it
    for limited_bound in candidates[:MOST_FREED]:
        wrong_without = _wrong_without(limited_bound, limits, result, fresh, run_for)
        if wrong_without is not None:
            forced = replace(
                _as_forced(limited_bound, limits, fresh, level),
                error=error,
                without=float(wrong_without.mean()),
                noise=_standard_error(wrong - wrong_without),
                given=given_error,
            )
            freed.append(forced)
    freed = [replace(forced, n_freed=len(freed)) for forced in freed]
    costly = [forced for forced in freed if forced.forces]
    if costly:
        forced = min(costly, key=attrgetter("without"))
    else:
        forced = min(freed, key=attrgetter("room"), default=least_room)
    if forced.by_group is None or (given_error is not None and error <= given_error):
        return forced
    wrong_by_group = _wrong_by_group(forced.by_group, limits, result, fresh, run_for)
    if wrong_by_group is None:
        return forced
    return replace(
        forced,
        apart=float(wrong_by_group.mean()),
        apart_noise=_standard_error(wrong - wrong_by_group),
    )


def _standard_error(differences: Floats) -> float:
    """Return the standard error of the mean of differences by row."""
    return float(differences.std() / np.sqrt(len(differences)))


def _wrong_by_group(
    by_group: str | bool,
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    run_for: Callable[[Any, FreshRows], Certified | Refused | None],
) -> Floats | None:
    """Return 1 for each wrong labelled row of a rule with thresholds by group, and 0 for right rows.

    The rule is within the same limits, from the same selecting rows and by the same procedure. ``by_group``
    is the value of this parameter; other arguments are as in `what_forces`. None if there is no such rule.
    """
    problem = replace(result.selection.problem, confidence=None)
    if problem.needs_costs:
        return None
    try:
        reader = judged(fresh.model).reading_groups(by_group, problem)
        rows = fresh.read_by(reader)
    except ValueError:  # contradicting limits, or a group that the selection does not know
        return None
    if _is_within_tighter(result, limits):
        return _wrong_rows(rows.by(reader.selection_))
    by_groups = run_for(reader.selection_, rows)
    if not isinstance(by_groups, Certified):
        return None
    return _wrong_rows(rows.by(by_groups.selection))


def _wrong_without(
    dropped: LimitedBound,
    limits: Sequence[Limit],
    result: Certified,
    fresh: FreshRows,
    run_for: Callable[[Any, FreshRows], Certified | Refused | None],
) -> Floats | None:
    """Return 1 for each wrong labelled row of a rule without one of the limits, and 0 for right rows.

    ``dropped`` is the limit of one subgroup; other arguments are as in `what_forces`. None if no rule is
    certified within the other limits, or without labelled rows.
    """
    number = dropped.number
    names, _, _ = limits[number].rate.by_subgroup(fresh.answered.strata)
    other_limits = [
        *limits[:number],
        *without_subgroup(limits[number], dropped.bound.subgroup, names),
        *limits[number + 1 :],
    ]
    if not other_limits:
        return _wrong_rows(fresh.by(result.selection.within(other_limits)))
    if _is_within_tighter(result, limits):
        # Another sequence takes long. This rule's tighter limits, without the dropped one, select one rule.
        tighter = [*result.selection.problem.limits]
        tighter[number : number + 1] = without_subgroup(
            tighter[number], dropped.bound.subgroup, names
        )
        return _wrong_rows(fresh.by(result.selection.within(tighter)))
    looser = run_for(result.selection.placed_within(other_limits), fresh)
    if not isinstance(looser, Certified):
        return None
    return _wrong_rows(fresh.by(looser.selection))


def _is_within_tighter(result: Certified, limits: Sequence[Limit]) -> bool:
    """Whether a rule of a fixed sequence was selected within tighter limits than the stated ones.

    Tighter limits pay for the tests, so a selection within those that stay estimates another sequence. A rule
    of `ScorePath` has the stated limits, which pay for none.
    """
    return result.method == Path.title and list(result.selection.problem.limits) != list(limits)


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
    limited: LimitedBound, limits: Sequence[Limit], fresh: FreshRows, level: float
) -> Forced:
    """Return a limit as a `Forced` without errors."""
    limit = limits[limited.number]
    bound = limited.bound
    name = group_words(bound.name, limit.rate.by, limits)
    if limit.compares:
        name = f"{bound.subgroup} of {bound.quantity}"
    elif bound.subgroup is None:
        name = bound.quantity

    # Thresholds for the groups of one column do not serve limits by the groups of another one.
    grouped = {stated.rate.by for stated in limits if stated.rate.needs_groups}
    by_group = None
    if len(grouped) == 1:
        by_group = by_group_to_read(limit, fresh.model)
    others: list[Limit] = []
    if has_few_rows(bound.n, bound.target, limit, level):
        others = limits_without({bound.title}, limits, fresh)
    return Forced(
        limit=bound.title,
        name=name,
        n=bound.n,
        room=limited.room,
        in_percent=any(stated.in_percent for stated in limits),
        by_group=by_group,
        reads_scores=fresh.only_scores,
        answer=limited.answer,
        other_limits=tuple(other.text for other in others),
    )


def by_group_to_read(limit: Limit, model: Any) -> str | bool | None:
    """Return the value of ``by_group`` with which a classifier reads the groups of a limit.

    None if the classifier reads the groups already or cannot, or if the limit is on no single column.
    """
    judge = judged(last_step(model))
    can_read_and_does_not = getattr(judge.classifier, "by_group", None) is False
    if not can_read_and_does_not:
        return None
    return group_to_read(limit, judge.group_titles)
