"""The limit that raises the error of a certified rule most, or else the one with the least room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any, Self

import numpy as np
from scipy.stats import norm

from tailboost.core.array_types import Floats
from tailboost.core.rate_words import gain_words, interval_words, lead_words, value_words
from tailboost.core.spelling import how_many, joined, limits_as_typed
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows
from tailboost.guarantees.path import Path
from tailboost.guarantees.procedure import Certified, Refused
from tailboost.guarantees.ranks_and_test import RanksAndTest
from tailboost.guarantees.rate_bounds import CertifiedBound, keeps_by_construction
from tailboost.rates import Limit
from tailboost.rates.bounds import are_few_for
from tailboost.rows.judged import judged, last_step
from tailboost.rows.subgroups import unit_name
from tailboost.selection.one_answer import answer_names, group_words, groups_of_one_answer
from tailboost.selection.problem import by_group_option, group_to_read, is_overall_error

# A limit may raise the error if the confidence bound on its rate exceeds this part of it. Of others, the
# error is at most .0034 ± .0024 lower without them, otherwise .0087 or more (benchmarks/ablations.py).
MUCH_USED = 0.75
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
        Its subgroup; the rate, for a rate of all rows or a comparison of subgroups. The names of several
        subgroups that raise the error together.
    n : int
        Counted fresh rows of the rate, as in the table of the certificate; of several subgroups the sum.
    room : float
        Distance of the estimate from the limit, in standard errors; infinite if no row counts.
    error : float or None
        Overall error of the rule on the fresh rows, an estimate; None if unknown.
    without : float or None
        Overall error on the fresh rows of the same procedure's rule without this limit; None if unknown. For
        a sequence of tighter limits: of one rule, selected within the certified rule's other limits.
        Thresholds by group at ranks are chosen on the same rows, and err more on new rows.
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
    n_freed : int
        Number of limits with an estimated ``without``, from which this limit was taken.
    other_limits : tuple of str
        All limits as texts, without those of the subgroups, which have few rows for them, see
        `tailboost.rates.bounds.are_few_for`; empty for other limits.
    apart : float or None
        Overall error on the fresh rows of the same procedure's rule with thresholds by group, an estimate;
        None if unknown. For a sequence of tighter limits: of one rule, selected within the certified rule's
        limits.
    apart_noise : float
        Standard error of the difference of ``error`` and ``apart``.
    smallest : str
        Of a comparison, the subgroup with the fewest rows, ``n``; empty for other limits.
    n_together : int
        Number of subgroups that raise the error together; 1 for one limit.
    second : Forced or None
        If several stated limits raise the error, each alone: the one with the fewest rows of the others.
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
    n_freed: int = 1
    other_limits: tuple[str, ...] = ()
    apart: float | None = None
    apart_noise: float = 0.0
    smallest: str = ""
    n_together: int = 1
    second: Forced | None = None

    def __str__(self) -> str:
        return self._in_sentences(with_cures=True)

    @property
    def without_cures(self) -> str:
        """The sentences for readers who make no rules: without arguments and options of calls."""
        return self._in_sentences(with_cures=False)

    def _in_sentences(self, *, with_cures: bool) -> str:
        """Return the limit and its cost, and ways to lower errors, in sentences."""
        together = self.n_together > 1
        limits = "limits" if together else "limit"
        words = f"The {limits} on {self.name} ({self._rows_in_words})"
        if self.forces:
            raises = "together raise" if together else "raises"
            most = " most," if self.n_freed > 1 and not together else ""
            words += f" {raises} the error{most} by {self._price} (95 %)"
        else:
            words += " has the least room"
            if self._price is not None:
                words += f", and adds {self._price} to the error (95 %)"
        return " ".join([f"{words}.", *self._ways_out(with_cures=with_cures)])

    @property
    def _rows_in_words(self) -> str:
        """The counted rows, of a comparison with the subgroup that has them."""
        if not self.n:
            return "no row counts"
        of_subgroup = f" of {self.smallest}" if self.smallest else ""
        return f"{how_many(self.n, 'row')}{of_subgroup}"

    @property
    def forces(self) -> bool:
        """Whether the error is lower without the limit by more than noise (95 %), also as printed.

        The limit is the costliest of ``n_freed``, which share the 5 % (union bound). False if one of the two
        errors is not known.
        """
        return self._saved is not None

    @property
    def groups_pay(self) -> bool:
        """Whether the error is lower with thresholds by group by more than noise (95 %)."""
        return self._saved_apart is not None

    @property
    def _price(self) -> str | None:
        """By how much the limit raises the error, an interval; None if one of the two errors is not known."""
        if self.error is None or self.without is None:
            return None
        return interval_words(
            self.error - self.without,
            self.noise,
            in_percent=self.in_percent,
            level=0.05 / self.n_freed,
        )

    @property
    def _saved(self) -> str | None:
        """By how much the error is lower without the limit; None if it is not known to be lower."""
        return self._lead(lead_words, self.without, self.noise, 0.05 / self.n_freed)

    @property
    def _saved_apart(self) -> str | None:
        """By how much the error is lower with thresholds by group; None if it is not known to be lower.

        The number is about these rows, which place the thresholds. New rows place others: of 84 intervals
        (95 %) around it, 49 had the gain of a certificate from new rows (`benchmarks/reading.py`).
        """
        return self._lead(gain_words, self.apart, self.apart_noise, 0.05)

    def _lead(
        self, words: Callable[..., str | None], error: float | None, noise: float, level: float
    ) -> str | None:
        """Return by how much another error is lower, in words; None if not beyond noise, or as printed.

        ``words`` are those of an interval or of a number, see `tailboost.core.rate_words`.
        """
        if self.error is None or error is None:
            return None
        if self._in_words(error) == self._in_words(self.error):
            return None
        return words(self.error - error, noise, in_percent=self.in_percent, level=level)

    def _in_words(self, error: float) -> str:
        """Return an error in the unit of the limits."""
        return value_words(error, in_percent=self.in_percent, digits=3)

    def _ways_out(self, *, with_cures: bool) -> list[str]:
        """Return sentences on lower errors: each is an estimate from these rows, and lower beyond noise."""
        ways = []
        if self.second is not None and self.second.forces:
            ways.append(
                f"Without the limit on {self.second.name} ({self.second._rows_in_words}) alone, it would be "
                f"lower by {self.second._saved}."
            )
        if self.forces and self.other_limits and with_cures:
            left_out = self.name if self.n_together == 1 else "them"
            ways.append(
                f"To leave {left_out} out, on new rows: {limits_as_typed(self.other_limits)}."
            )
        if self.by_group is not None and self._saved_apart is not None:
            option = by_group_option(self.by_group, reads_scores=self.reads_scores)
            cure = f" ({option})" if with_cures else ""
            ways.append(
                f"Thresholds by group{cure} would err less, by {self._saved_apart} on these rows, and "
                "need new ones."
            )
        return ways

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON; an infinite room is None."""
        room = None if np.isinf(self.room) else self.room
        second = None if self.second is None else self.second.to_dict()
        return asdict(self) | {"room": room, "second": second}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the limit written by `to_dict`; raises TypeError for other documents."""
        room = np.inf if document["room"] is None else document["room"]
        other_limits = tuple(document.get("other_limits", ()))
        second = document.get("second")
        if second is not None:
            second = cls.from_dict(second)
        known = {
            key: value for key, value in document.items() if key != "given"
        }  # of earlier versions
        return cls(**{**known, "room": room, "other_limits": other_limits, "second": second})


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
        left = limit.all_but(dropped, names)
        if not left:
            return []
        others += left
        remaining_titles -= {title_of[name] for name in dropped}
    return [] if remaining_titles else others


@dataclass(frozen=True)
class LimitedBound:
    """A limit on one rate, which may raise the error.

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

    def has_few_rows(self, limits: Sequence[Limit], level: float) -> bool:
        """Return `has_few_rows` of the subgroup; False for a limit on deferral."""
        limit = limits[self.number]
        return not limit.rate.needs_deferral and has_few_rows(
            self.bound.n, self.bound.target, limit, level
        )

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
    """Return the limits on rates that may raise the error, the one with the least room first.

    A limit without a counted row may raise the error only if its subgroup has one answer alone.

    Parameters
    ----------
    bounds : sequence of sequence of CertifiedBound
        The bounds of each limit.
    limits : sequence of Limit
        The limits.
    answered : FreshRows
        The fresh rows with the answers of the rule.
    """
    strata = answered.answered.strata
    counts = answered.answered.counts
    names = answer_names(strata)
    limited = []
    for number, (limit, bounds_of_limit) in enumerate(zip(limits, bounds, strict=True)):
        one_answer = {}
        if not limit.compares:
            one_answer = groups_of_one_answer(strata, counts, limit.rate.by)
        for bound in bounds_of_limit:
            if bound.target is None:
                continue
            answer = None
            if bound.subgroup in one_answer:
                answer = names[one_answer[bound.subgroup]]
            room = room_of(bound)
            if answer is not None or np.isfinite(room):
                limited.append(LimitedBound(number, bound, room=room, answer=answer))
    return sorted(limited, key=lambda limited_bound: limited_bound.room)


def what_forces(
    bounds: Sequence[Sequence[CertifiedBound]],
    limits: Sequence[Limit],
    result: Certified,
    selection: Any,
    fresh: FreshRows,
    answered: FreshRows,
    run_for: Callable[[Any, FreshRows], Certified | Refused | None],
    level: float,
    given_error: float | None,
) -> Forced | None:
    """Return the limit that raises the error of a certified rule most; None if no limit has rows.

    The same procedure makes rules without one of the limits each. A sequence of tighter limits takes long, so
    one selection within the others, as tight as those of the certified rule, replaces it. The least error
    without a limit decides. The least room decides if no error is lower by more than noise, or if the
    objective is not the overall error. If the rule may read the limited groups, and defers or errs more than
    the given answers, a rule with thresholds by group is made, too.

    Parameters
    ----------
    bounds : sequence of sequence of CertifiedBound
        The bounds of each limit.
    limits : sequence of Limit
        The limits.
    result : Certified
        The certified rule.
    selection : Selection
        The selection before the procedure.
    fresh : FreshRows
        The fresh rows.
    answered : FreshRows
        The fresh rows with the answers of the rule.
    run_for : callable
        Returns the result of the same procedure for another selection on its rows; None for long ones.
    level : float
        Allowed probability of a broken limit.
    given_error : float or None
        Overall error of the answers with which the rule is compared, if known.
    """
    limited = limited_bounds(bounds, limits, answered)
    if not limited:
        return None
    wrong = None
    if is_overall_error(result.selection.problem.objective):
        wrong = _wrong_rows(answered)
    if wrong is None:
        return _as_forced(limited[0], limits, answered, level)

    all_bounds = [bound for bounds_of_limit in bounds for bound in bounds_of_limit]
    rule = _PricedRule(
        limits,
        all_bounds,
        result,
        selection,
        fresh,
        answered,
        run_for,
        level,
        wrong,
        given_error,
    )
    forced = rule.forced_by(limited)
    errs_no_more = given_error is not None and rule.error <= given_error
    if forced.by_group is None or (errs_no_more and not answered.answered.strata.defers):
        return forced
    wrong_by_group = rule.wrong_by_group(forced.by_group)
    if wrong_by_group is None:
        return forced
    return replace(
        forced,
        apart=float(wrong_by_group.mean()),
        apart_noise=standard_error(wrong - wrong_by_group),
    )


@dataclass(frozen=True, eq=False)
class _PricedRule:
    """A certified rule whose limits are priced: the same procedure makes rules without them.

    Attributes
    ----------
    limits, result, selection, fresh, answered, run_for, level, given_error
        As in `what_forces`.
    bounds : sequence of CertifiedBound
        The bounds of all limits.
    wrong : ndarray of shape (n,)
        1 for each labelled row with a wrong answer of the rule, otherwise 0.
    """

    limits: Sequence[Limit]
    bounds: Sequence[CertifiedBound]
    result: Certified
    selection: Any
    fresh: FreshRows
    answered: FreshRows
    run_for: Callable[[Any, FreshRows], Certified | Refused | None]
    level: float
    wrong: Floats
    given_error: float | None

    @property
    def error(self) -> float:
        """Overall error of the rule on the fresh rows."""
        return float(self.wrong.mean())

    def forced_by(self, limited: Sequence[LimitedBound]) -> Forced:
        """Return the limit that raises the error most, or several of subgroups with few rows together.

        Several subgroups are named if the error without all of them is lower beyond noise than without the
        costliest one: then the others would raise the error in its place.
        """
        # Without a limit on deferral every row would be deferred. The rules of a fixed sequence keep a
        # distance from each limit, as the safest rule of a test beside ranks does: one with little use may
        # raise the error.
        candidates = [
            limited_bound
            for limited_bound in limited
            if (
                limited_bound.may_bind or self.result.method in (Path.title, RanksAndTest.title)
            )
            and not self.limits[limited_bound.number].rate.needs_deferral
        ]
        candidates.sort(key=lambda limited_bound: limited_bound.answer is None)
        wrong_rows = [self.wrong]
        freed = []
        for alone in candidates[:MOST_FREED]:
            wrong_without = self.wrong_without([alone])
            if wrong_without is not None:
                wrong_rows.append(wrong_without)
                freed.append((alone.number, self._priced([alone], wrong_without)))

        few = [alone for alone in limited if alone.has_few_rows(self.limits, self.level)]
        if len(few) > 1:
            wrong_without = self.wrong_without(few)
            least_wrong = min(wrong_rows, key=np.mean)
            if wrong_without is not None and _is_less_wrong(wrong_without, least_wrong):
                together = replace(self._priced(few, wrong_without), n_freed=len(freed) + 1)
                if together.forces:
                    return together
        if freed:
            return _costliest(freed)
        least_room = _as_forced(limited[0], self.limits, self.answered, self.level)
        return replace(least_room, error=self.error)

    def _priced(self, dropped: Sequence[LimitedBound], wrong_without: Floats) -> Forced:
        """Return limits of subgroups with the error of the rule without them."""
        return replace(
            _as_forced_together(dropped, self.limits, self.answered, self.level),
            error=self.error,
            without=float(wrong_without.mean()),
            noise=standard_error(self.wrong - wrong_without),
        )

    def wrong_by_group(self, by_group: str | bool) -> Floats | None:
        """Return 1 for each wrong labelled row of a rule with thresholds by group, and 0 for right rows.

        The rule is within the same limits, from the same selecting rows and by the same procedure.
        ``by_group`` is the value of this parameter. None if there is no such rule.
        """
        selection, rows = self._reading(by_group, self.selection.problem)
        result = None if selection is None else self.run_for(selection, rows)
        if result is None and self._is_within_tighter:
            # A sequence takes long, so one selection within the limits of this rule estimates its rule.
            selection, rows = self._reading(by_group, self.result.selection.problem)
        elif isinstance(result, Certified):
            selection = result.selection
        else:
            return None
        return None if selection is None else _wrong_rows(rows.by(selection))

    def _reading(self, by_group: str | bool, problem: Any) -> tuple[Any, FreshRows]:
        """Return the selection of a problem with thresholds by group, None without one, and rows for it."""
        if problem.needs_costs:
            return None, self.fresh
        try:
            reader = judged(self.fresh.model).reading_groups(
                by_group, replace(problem, confidence=None)
            )
            return reader.selection_, self.fresh.read_by(reader)
        except ValueError:  # contradicting limits, or a group that the selection does not know
            return None, self.fresh

    def wrong_without(self, dropped: Sequence[LimitedBound]) -> Floats | None:
        """Return 1 for each wrong labelled row of a rule without some of the limits, and 0 for right rows.

        ``dropped`` are limits of one subgroup each. None if no rule is certified within the other limits, or
        without labelled rows.
        """
        other_limits = self._without(dropped, self.limits)
        if not other_limits:
            return _wrong_rows(self.fresh.by(self.selection.within(other_limits)))
        if self._is_within_tighter:
            # Another sequence takes long. This rule's tighter limits, without the dropped ones, select one.
            tighter = self._without(dropped, self.result.selection.problem.limits)
            return _wrong_rows(self.fresh.by(self.selection.within(tighter)))
        # From the selection before: its thresholds have known scores and losses.
        looser = self.run_for(self.selection.placed_within(other_limits), self.fresh)
        if isinstance(looser, Certified):
            return _wrong_rows(self.fresh.by(looser.selection))
        return self._wrong_with_one_answer(dropped)

    def _wrong_with_one_answer(self, dropped: Sequence[LimitedBound]) -> Floats | None:
        """Return `wrong_without` of one answer that errs less and keeps the other limits; None without one.

        A procedure certifies no such rule, but it has the least error if the limit alone makes others err.
        """
        strata = self.fresh.answered.strata
        left_out = {limited.bound.title for limited in dropped}
        others = [
            bound
            for bound in self.bounds
            if bound.target is not None and bound.title not in left_out
        ]
        wrong_rows = []
        for number in range(strata.n_classes):
            if all(keeps_by_construction(bound, strata, [number]) for bound in others):
                constant = np.full(len(self.fresh), number)
                wrong_rows.append(_wrong_rows(self.fresh.with_actions(constant)))
        # A worse answer says nothing: the procedure may have a better rule that takes long to find.
        better = [
            wrong for wrong in wrong_rows if wrong is not None and wrong.mean() < self.error
        ]
        return min(better, key=np.mean, default=None)

    def _without(self, dropped: Sequence[LimitedBound], limits: Sequence[Limit]) -> list[Limit]:
        """Return the stated limits, or a tighter one for each of them, without those of some subgroups."""
        others: list[Limit] = []
        for number, limit in enumerate(limits):
            names, _, _ = limit.rate.by_subgroup(self.fresh.answered.strata)
            left = [limit]
            for limited_bound in dropped:
                if limited_bound.number == number and left:
                    left = without_subgroup(left[0], limited_bound.bound.subgroup, names)
            others += left
        return others

    @property
    def _is_within_tighter(self) -> bool:
        """Whether the rule of a fixed sequence was selected within tighter limits than the stated ones.

        Tighter limits pay for the tests, so a selection within those that stay estimates another sequence. A
        rule of `ScorePath` has the stated limits, which pay for none.
        """
        selected_within = list(self.result.selection.problem.limits)
        return self.result.method == Path.title and selected_within != list(self.limits)


def _costliest(freed: Sequence[tuple[int, Forced]]) -> Forced:
    """Return the limit that raises the error most, or if none does, the one with the least room.

    ``freed`` has the number of the stated limit of each, at least one. With the costliest one comes the limit
    with the fewest rows of another number that raises the error too.
    """
    alone = [(number, replace(forced, n_freed=len(freed))) for number, forced in freed]
    costly = [(number, forced) for number, forced in alone if forced.forces]
    if not costly:
        return min((forced for _, forced in alone), key=attrgetter("room"))
    number, costliest = min(costly, key=lambda numbered: numbered[1].without or 0.0)
    of_other_limits = [forced for other, forced in costly if other != number]
    return replace(costliest, second=min(of_other_limits, key=attrgetter("n"), default=None))


def _is_less_wrong(wrong: Floats, other: Floats) -> bool:
    """Whether one rule errs less on the rows than another one by more than noise (95 %, one-sided)."""
    gains = other - wrong
    return bool(gains.mean() > norm.isf(0.05) * standard_error(gains))


def standard_error(differences: Floats) -> float:
    """Return the standard error of the mean of differences of errors by row.

    Two further rows differ, by 1 and −1 (the interval of Bonett and Price): with few rows that differ, those
    alone would promise too much.
    """
    in_order = np.sort(differences)  # the order of rows has no effect, also by rounding
    squares = np.square(in_order - in_order.mean()).sum() + 2.0
    return float(np.sqrt(squares) / len(in_order))


def _wrong_rows(answered: FreshRows) -> Floats | None:
    """Return whether the answer is wrong in each labelled row, as 0 or 1; None without labelled rows."""
    (sample,) = answered.samples(ERRORS["mean"])
    if not len(sample.rows):
        return None
    return sample.values


def _as_forced(
    limited: LimitedBound, limits: Sequence[Limit], answered: FreshRows, level: float
) -> Forced:
    """Return a limit as a `Forced` without errors."""
    limit = limits[limited.number]
    bound = limited.bound
    name = group_words(bound.name, limit.rate.by, [each.rate for each in limits])
    smallest = ""
    if limit.compares:
        name = f"{bound.subgroup} of {bound.quantity}"
        sizes = {
            sample.name: len(sample.rows)
            for sample in answered.samples(limit.rate)
            if len(sample.rows)
        }
        smallest = unit_name(min(sizes, key=sizes.__getitem__)) if sizes else ""
        if smallest.isdecimal():  # a number alone does not tell what it counts
            smallest = f"{limit.rate.by} {smallest}"
    elif bound.subgroup is None:
        name = bound.quantity

    # Thresholds for the groups of one column do not serve limits by the groups of another one.
    grouped = {stated.rate.by for stated in limits if stated.rate.needs_groups}
    by_group = None
    if len(grouped) == 1:
        by_group = by_group_to_read(limit, answered.model)
    others: list[Limit] = []
    if has_few_rows(bound.n, bound.target, limit, level):
        others = limits_without({bound.title}, limits, answered)
    return Forced(
        limit=bound.title,
        name=name,
        n=bound.n,
        room=limited.room,
        in_percent=any(stated.in_percent for stated in limits),
        by_group=by_group,
        reads_scores=answered.only_scores,
        answer=limited.answer,
        other_limits=tuple(other.text for other in others),
        smallest=smallest,
    )


def _as_forced_together(
    dropped: Sequence[LimitedBound], limits: Sequence[Limit], answered: FreshRows, level: float
) -> Forced:
    """Return the limits of one or several subgroups as a `Forced` without errors."""
    alone = [_as_forced(limited, limits, answered, level) for limited in dropped]
    if len(alone) == 1:
        return alone[0]
    others = limits_without({limited.bound.title for limited in dropped}, limits, answered)
    return replace(
        alone[0],
        limit=" and ".join(forced.limit for forced in alone),
        name=joined([forced.name for forced in alone], MOST_FREED),
        n=sum(forced.n for forced in alone),
        other_limits=tuple(other.text for other in others),
        n_together=len(alone),
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
