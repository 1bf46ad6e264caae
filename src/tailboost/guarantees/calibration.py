"""Calibration: the least restricted rule of a classifier with limits certified by fresh rows.

`tailboost.calibrate`, which also takes models without a selected rule, is in the wing of classifiers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tailboost.core.checks import check_number, n_rows_of
from tailboost.core.exceptions import (
    InfeasibleLimitsError,
    NotCertifiedError,
    UselessRuleWarning,
    warn_user,
)
from tailboost.core.rate_words import bound_words, estimate_words, value_words
from tailboost.core.spelling import as_typed, did_you_mean, how_many, joined, limits_as_typed
from tailboost.guarantees.certifiable import (
    GROWTHS,
    LEAST_CHANCE,
    MOST_ROWS_TRIED,
    Pair,
    Subgroups,
    certifiable_limits,
    least_growth,
    level_of_more_rows,
)
from tailboost.guarantees.certificates import (
    OVERALL_PRICE,
    Certificate,
    Price,
    limit_on_errors,
    price_name,
    today,
)
from tailboost.guarantees.chances import Chances
from tailboost.guarantees.forced import (
    by_group_to_read,
    has_few_rows,
    limits_without,
    room_of,
    standard_error,
    what_forces,
)
from tailboost.guarantees.fresh_rows import (
    ERRORS,
    FreshRows,
    Rule,
    answering,
    fresh_rows,
    groups_of_fit,
    rows_by_subgroup,
    unlisted,
    with_any_answers,
)
from tailboost.guarantees.path import Path
from tailboost.guarantees.procedure import (
    Certified,
    Procedure,
    Reference,
    Refused,
    Reweighted,
    what_is_tested,
)
from tailboost.guarantees.ranks import Ranks
from tailboost.guarantees.ranks_and_test import RanksAndTest
from tailboost.guarantees.ranks_beside_deferral import RanksBesideDeferral
from tailboost.guarantees.rate_bounds import (
    CONSTANT,
    CertifiedBound,
    RateFamily,
    Shortfall,
    better_answer,
    keeps_by_construction,
    limit_bounds,
    percent,
    rule_remarks,
    with_deferral,
    with_kept,
)
from tailboost.guarantees.score_path import ScorePath
from tailboost.guarantees.shares import counted_answer
from tailboost.guarantees.stated import stated_by
from tailboost.guarantees.thresholds import ThresholdSequences
from tailboost.rates import (
    ROUNDING,
    Limit,
    Rate,
    Sample,
    answered_error,
    checked_rates,
    deferred,
    limits_to_keep,
)
from tailboost.rates.bounds import rows_for_no_error
from tailboost.rates.pair_test import some_counts_pass
from tailboost.rates.power import MOST_ROWS
from tailboost.rates.strata import Answered
from tailboost.rows.given import Given
from tailboost.rows.judged import judged, last_step
from tailboost.rows.ledger import (
    Attempt,
    attempts_of,
    may_follow,
    spent_by_next,
)
from tailboost.rows.subgroups import unit_name, whole_percents
from tailboost.selection.one_answer import answer_names
from tailboost.selection.problem import by_group_option, is_overall_error
from tailboost.selection.program import Program, best_guess
from tailboost.selection.selected import deferring_no_more, mostly_one_action

#: The simplest first: a later one runs if no earlier one applies.
PROCEDURES: tuple[type[Procedure], ...] = (
    Ranks,
    RanksAndTest,
    ThresholdSequences,
    RanksBesideDeferral,
    ScorePath,
    Path,
)
# Who gives the answers with which a rule is compared, and the fresh rows with them; None if there are none.
ReferenceAnswers = tuple[str, FreshRows | None]
# The most groups in a sentence.
MOST_GROUPS = 8
# The most shortfalls with rows in the explanation of a refusal.
MOST_EXPLAINED = 3
AT_EQUAL_SCORES = (
    "Other limits need no such threshold. No label of these rows was read and no limit was "
    "tested, so no attempt is spent: they can be used again."
)
ONLY_COUNTED = (
    "These rows were only counted and no limit was tested, so no attempt is spent: they can be "
    "used again."
)
LOOSER_THAN_THE_TABLE = (
    "A failing limit may be certified on new rows if it is stated looser than its bound in the table "
    "above."
)
OTHERS_SELECT = "let other rows select, so that all these rows certify"
ONLY_SELECTED = "No limit was tested on calibration rows, so no attempt is spent"


def how_others_select() -> str:
    """Return the calls with which other rows than those of one batch select."""
    return as_typed(
        "`tune` on them, then `calibrate` its result",
        "`tailboost tune OTHER.csv`, then `calibrate` its rule with --selection OTHER.csv",
    )


@contextmanager
def before_any_attempt(
    then: str = ": they can be used again with other limits",
) -> Iterator[None]:
    """Add to the error for contradicting limits that no attempt is spent, and what ``then`` may follow."""
    try:
        yield
    except InfeasibleLimitsError as error:
        error.args = (f"{error}. {ONLY_SELECTED}{then}",)
        raise


def calibrate_selected(
    model: Any,
    given: Given,
    max_error: Any = None,
    *,
    limits: Any = None,
    confidence: float = 0.95,
    rule: Rule = "predict",
    previous: Any = None,
    reference: Reference | None = None,
) -> Any:
    """Return the least restricted rule of a classifier with certificates; see `tailboost.calibrate`.

    Parameters
    ----------
    model : classifier
        One of tailboost's, with ``tradeoff``. The attempt is recorded in its ``ledger_`` before any rule is
        tested.
    given : Given
        The rows, their labels and further data.
    max_error, limits, confidence, rule, previous
        As in `tailboost.calibrate`.
    reference : Reference, optional
        The answers with which the certified rule is compared; by default the answers of the given rule.

    Raises
    ------
    NotCertifiedError
        If the safest rule misses a target.
    LeakageError
        If rows were used in the fit, the selection or an earlier attempt.
    ValueError
        If an argument is not as described.
    """
    check_options(confidence, rule)
    takes_limits = judged(model).takes_limits
    has_no_targets = max_error is None and limits is None
    if has_no_targets and not takes_limits:
        max_error = stated_by(model).max_error
    stated = stated_limits(max_error, limits, own=judged(model).stated_limits)
    earlier = attempts_of(previous)

    if given.y is None:
        raise ValueError(
            "y is needed: calibrate compares the errors of rules; without labels, certify "
            "bounds rates of answers alone"
        )
    rates = [limit.rate for limit in stated]
    answering_rule = None if takes_limits else rule
    fresh = fresh_rows(model, given, rates, rule=answering_rule, opens=True)
    if max_error is not None:
        stated = [limit_on_errors(max_error, fresh.answered.strata)]
    _refuse_absent(stated, fresh, confidence, earlier)
    _refuse_groups(model, stated)
    with before_any_attempt():
        selection = selected_within(model, stated)

    reference = reference or Reference()
    reference_answers = (reference.name, reference.on(fresh))

    # Recorded before any test: whatever ends this call, its rows are used up.
    call = repr((stated, confidence, rule, given.subgroups, fresh.equal_rows))
    all_attempts = model.records_.spend(
        fresh.used,
        what_is_tested(model, fresh, call),
        earlier,
        fresh.equal_rows,
    )

    calibration = Calibration(
        limits=stated,
        selection=selection,
        fresh=fresh,
        reference=reference_answers,
        confidence=confidence,
        attempts=all_attempts,
        previous=earlier,
        batch=given.batch,
    )
    return calibration.certified()


@dataclass(frozen=True, eq=False)
class Calibration:
    """An attempt to certify limits on fresh rows, recorded in the model's ledger.

    Attributes
    ----------
    limits : list of Limit
        The limits to certify.
    selection : Selection
        The selection within these limits.
    fresh : FreshRows
        The rows, opened by the model, with its answers.
    reference : (str, FreshRows or None)
        Who gives the answers with which the certified rule is compared, and the rows with these answers.
    confidence : float
        Probability of certifying no broken limit, over the draw of the rows of all attempts.
    attempts : tuple of Attempt
        All earlier attempts, then this one.
    previous : tuple of Attempt
        The earlier attempts of the caller's argument ``previous``.
    batch : Given or None
        All rows of the call, if others of them have selected the rule.
    """

    limits: list[Limit]
    selection: Any
    fresh: FreshRows
    reference: ReferenceAnswers
    confidence: float
    attempts: tuple[Attempt, ...]
    previous: tuple[Attempt, ...]
    batch: Given | None = None

    @property
    def level(self) -> float:
        """Allowed probability of certifying a broken limit in this attempt."""
        return self.attempts[-1].spent * (1.0 - self.confidence)

    @property
    def next_level(self) -> float:
        """As `level`, of the next attempt; if none may follow, of this one."""
        if may_follow(self.attempts):
            return spent_by_next(self.attempts) * (1.0 - self.confidence)
        return self.level

    def certified(self) -> Any:
        """Return the classifier with a certified rule.

        Raises
        ------
        NotCertifiedError
            If no rule is certified. An attempt without a test is withdrawn from the ledger.
        """
        fresh = self.fresh
        procedure = first_that_applies(self.selection, fresh, self.level)
        if rates_with_too_few_rows(procedure, fresh):
            shortfalls, reason = self._too_few(procedure)
            raise self._untested(f"{reason} {ONLY_COUNTED}", shortfalls)
        if procedure.out_of_reach:
            raise self._untested(f"{_out_of_reach_words(self)} {ONLY_COUNTED}", ())
        outcome = procedure.run()
        if isinstance(outcome, Certified):
            return certified_classifier(outcome, self)
        strata = fresh.answered.strata
        read_labels = any(limit.rate.needs_labels(strata) for limit in self.limits)
        if not outcome.tested and not read_labels:
            raise self._untested(f"{outcome.why}. {AT_EQUAL_SCORES}", ())
        raise refusal(outcome, self, procedure)

    def _too_few(self, procedure: Procedure) -> tuple[list[Shortfall], str]:
        """Return the limited rates with too few rows for any test, and sentences on them with the cures."""
        if self.batch is None:
            shortfalls = rates_with_too_few_rows(procedure, self.fresh)
            return shortfalls, _too_few_words(shortfalls, self.limits, self.fresh)
        batch = with_any_answers(self.batch, self.fresh)
        shortfalls = rates_with_too_few_rows(procedure, self.fresh, batch)
        first_cures = []
        if not rates_with_too_few_rows(procedure, batch):
            first_cures.append(f"{OTHERS_SELECT} ({how_others_select()})")
        return shortfalls, _too_few_words(shortfalls, self.limits, self.fresh, first_cures)

    def _untested(self, message: str, shortfalls: Sequence[Shortfall]) -> NotCertifiedError:
        """Return the error of an attempt without a test, and withdraw the attempt."""
        self.fresh.model.records_.ledger.withdraw(self.attempts[-1])
        return NotCertifiedError(message, shortfalls, self.previous)

    def run_for(self, selection: Any, fresh: FreshRows) -> Certified | Refused | None:
        """Return the result of another selection's procedure at the whole level; None if this takes long.

        ``fresh`` are the fresh rows as the classifier of the selection reads them.
        """
        procedure = first_that_applies(selection, fresh, self.level)
        if procedure.takes_long:
            return None
        return procedure.run()

    def drawn_chance(self, limits: list[Limit], level: float) -> float | None:
        """Return the chance that as many new rows certify other limits at a level; None if it is unknown."""
        try:
            selection = self.selection.placed_within(limits)
        except ValueError:  # contradicting limits
            return None
        return first_that_applies(selection, self.fresh, level).chance

    def certified_within(self, limits: list[Limit], level: float) -> Certified | bool | None:
        """Return the result with which the rows certify other limits at a level.

        False if they do not, if a limit names a group that the selection does not know, or if the level is 0
        by rounding. None if the answer takes long, for a slow procedure.
        """
        if not level:
            return False
        try:
            selection = self.selection.within(limits)
        except ValueError:
            return False
        procedure = first_that_applies(selection, self.fresh, level)
        if procedure.takes_long:
            return None
        outcome = procedure.run()
        return isinstance(outcome, Certified) and outcome


@dataclass(frozen=True, eq=False)
class NewRowsEstimate:
    """What new rows are estimated to certify, by the rows of a refused attempt.

    Attributes
    ----------
    calibration : Calibration
        The refused attempt, or this attempt with a rule that reads groups.
    procedure : Procedure
        Its procedure.
    part : float
        Smallest part of the level for a test.
    """

    calibration: Calibration
    procedure: Procedure
    part: float

    @cached_property
    def chances(self) -> Any:
        """The chances of several limits, `Chances` or `DrawnChances`; None if they are unknown."""
        procedure = self.procedure
        family = procedure.family_of_tests
        if procedure.chances is not None or family is None or len(procedure.limits) < 2:
            return procedure.chances
        chances = Chances.from_rows(
            procedure.selection, family, procedure.fresh, procedure.limits
        )
        return chances if chances is not None and chances.all_must_pass else None

    @property
    def level(self) -> float:
        """Level of the next attempt."""
        return self.calibration.next_level

    def chance(self, limits: list[Limit], growth: float = 1.0) -> float | None:
        """Return the chance that ``growth`` times as many rows certify limits; None if unknown.

        Without `chances`, and without `Procedure.chance` for as many rows, it is 1 for `LEAST_CHANCE` or
        more and 0 for less: the same procedure runs on these rows, see `level_of_more_rows`.
        """
        if self.chances is not None:
            level = self.level * self.procedure.level / self.calibration.level
            return float(self.chances.chance(limits, growth, level))
        if len(self.calibration.fresh) > MOST_ROWS_TRIED:
            return None
        if growth == 1.0:
            drawn = self.calibration.drawn_chance(limits, self.level)
            if drawn is not None:
                return drawn
        level = self.level
        if self.procedure.may_fail:
            # The strictest of all tests: a very small part alone would allow any level.
            level = level_of_more_rows(self.part * level, growth) / self.part
        result = self.calibration.certified_within(limits, level)
        return None if result is None else float(bool(result))

    def words(self, limits: list[Limit], free: Sequence[CertifiedBound] = ()) -> str:
        """Return the estimated chance of as many new rows, and the overall error on these rows if known.

        Rates of ``free`` subgroups, which these limits leave without a bound, are added.
        """
        chance = self.chance(limits) or 0.0
        words = f"probability {min(chance, 0.99):.2g}"
        if self.chances is None:
            side = "at least" if chance >= LEAST_CHANCE else "less than"
            words = f"probability {side} {LEAST_CHANCE:g}"
        if len(self.calibration.fresh) > MOST_ROWS_TRIED:
            return words
        result = self.calibration.certified_within(limits, self.level)
        if not isinstance(result, Certified):
            return words
        answered = self.calibration.fresh.by(result.selection)
        (price,) = price_of([], ("", None), answered)
        in_percent = any(limit.in_percent for limit in limits)
        words += f", {price.name} {price.cells(in_percent)[-1]}"
        if answered.n_deferred:
            words += f" with {whole_percents(answered.n_deferred / len(answered))} deferred"
        for bound in free:
            sample_of = {each.name: each for each in answered.samples(bound.counted)}
            sample = sample_of[bound.subgroup]
            rate = estimate_words(sample.mean, len(sample.rows), in_percent=bound.in_percent)
            words += f", {bound.title} {rate} without a bound"
        return words


def check_options(confidence: Any, rule: Any) -> None:
    """Raise if one of these arguments of `calibrate` is none of its values."""
    check_number(confidence, "confidence", 0, 1, below=True)
    if rule not in ("predict", "randomised"):
        raise ValueError(f"rule must be 'predict' or 'randomised', got {rule!r}")


# -- targets -------------------------------------------------------------------------------------


def stated_limits(max_error: Any, limits: Any, *, own: Sequence[Limit] = ()) -> list[Limit]:
    """Return the checked limits on rates, by default ``own``, the limits of a classifier.

    There are none with ``max_error``.

    Raises
    ------
    ValueError
        If both or none of them are given, or a given limit asks for more errors.
    """
    if max_error is not None:
        if isinstance(max_error, (list, tuple, Limit)):
            raise TypeError(
                f"max_error is a number or a dict, got {max_error!r}; give limits by their "
                "name, limits=[…]"
            )
        if limits is not None:
            raise ValueError("max_error and limits were both given; state the first as a limit")
        return []
    stated = list(own)
    if limits is not None:
        stated = list(limits_to_keep(checked_rates(limits)))
    if not stated:
        raise ValueError(
            "max_error or limits is needed: there is no target to certify. Give "
            "limits=['miss(1) <= 40%'], for example"
        )
    return stated


def _refuse_groups(model: Any, limits: Sequence[Limit]) -> None:
    """Raise if limits are about groups, and the selection data of a boosting classifier have none."""
    limits_on_groups = [limit for limit in limits if limit.rate.needs_groups]
    if limits_on_groups and not judged(model).takes_limits and not groups_of_fit(model):
        raise ValueError(
            f"{limits_on_groups[0]!r}: this {type(model).__name__} was fitted without groups, "
            "so its selection data have no groups; fit it with groups="
        )


def selected_within(model: Any, limits: list[Limit]) -> Any:
    """Return the selection of a classifier within limits.

    If the fit had the same limits, its selection is returned.
    """
    if not judged(model).takes_limits:
        return Reweighted(model).within(limits)
    if list(model.selection_.problem.limits) == limits:
        return model.selection_
    return judged(model).selection_within(limits)


def first_that_applies(selection: Any, fresh: FreshRows, level: float) -> Procedure:
    """Return the first of the `PROCEDURES` to apply; the last one applies to all limits."""
    procedures = (procedure(selection, fresh, level) for procedure in PROCEDURES)
    return next(procedure for procedure in procedures if procedure.applies)


def _refuse_absent(
    limits: Sequence[Limit], fresh: FreshRows, confidence: float, earlier: tuple[Attempt, ...]
) -> None:
    """Raise if a limited subgroup has no rows; ``earlier`` attempts are part of the error.

    The rows of a precision depend on the rule, so all rows of its group count. A rule that reads the groups
    may keep it in one of them by another answer to every row. No answer raises the share of a subgroup
    without rows.
    """
    shortfalls = []
    words = []
    reads_groups = judged(last_step(fresh.model)).by_group
    for limit in limits:
        if limit.rate.is_ratio and reads_groups and not limit.rate.is_across:
            continue
        bounds = RateFamily.from_expression(limit, fresh).bounds(1.0 - confidence)
        n_rows = [bound.n for bound in bounds]
        # Of each subgroup, whether the rows count or not.
        n_rows_given = rows_by_subgroup(fresh.answered, limit.rate.by)
        if limit.rate.is_ratio:
            n_rows = list(n_rows_given.values())
        present_names = [
            str(bound.subgroup) for bound, n in zip(bounds, n_rows, strict=True) if n
        ]
        for bound, n in zip(bounds, n_rows, strict=True):
            n_counted = 0 if limit.rate.is_across else bound.n  # of all subgroups
            lacks_rows = not (n or n_counted) and bound.certified is False
            if not lacks_rows:
                continue
            shortfall = Shortfall(
                bound.title,
                estimate=None,
                n=0,
                target=float(bound.target or 0.0),
                more_rows=None,
            )
            if n_rows_given.get(bound.subgroup):
                shortfall = replace(shortfall, without_rows=bound.without_rows)
            suggestion = did_you_mean(str(bound.subgroup), present_names).rstrip()
            shortfalls.append(shortfall)
            words.append(f"{shortfall} ({suggestion})" if suggestion else str(shortfall))
    if shortfalls:
        others = limits_without({shortfall.name for shortfall in shortfalls}, limits, fresh)
        cure = "state limits without it"
        if others:
            cure += f" (its rate then has no bound): {limits_as_typed([limit.text for limit in others])}"
        message = (
            f"a target without rows cannot be certified: {'; '.join(words)}. To go on, bring rows "
            f"of it, or {cure}. No attempt is spent"
        )
        raise NotCertifiedError(message, shortfalls, earlier)


def rates_with_too_few_rows(
    procedure: Procedure, fresh: FreshRows, batch: FreshRows | None = None
) -> list[Shortfall]:
    """Return the limited rates of which even an estimate without an error would pass no test.

    Only numbers of rows are read, so the fresh rows can be used again. If one answer may keep the limits by
    construction, only comparisons are listed. Limits on a precision are passed over, because its rows depend
    on the rule, and so are subgroups without rows, which `_refuse_absent` names.

    Parameters
    ----------
    procedure : Procedure
        The procedure with the tests.
    fresh : FreshRows
        The rows that would certify.
    batch : FreshRows, optional
        These rows and those that have selected, whose numbers the words then have too.
    """
    shortfalls = _comparisons_with_too_few_rows(procedure, fresh, batch)
    if procedure.may_keep_by_construction:
        return shortfalls
    for limit in procedure.limits:
        if limit.compares or limit.rate.is_ratio:
            continue
        counted = limit.rate.counted_rows
        if fresh.clusters is not None:
            counted = f"clusters of {counted}"
        samples = fresh.samples(limit.rate)
        n_in_batch = _numbers_of_rows(limit.rate, batch)
        targets = limit.bounds([sample.name for sample in samples]).tolist()
        for sample, target in zip(samples, targets, strict=True):
            needs = _needs_of_few_rows(limit, sample, target, procedure.level_of_test)
            if needs:
                title = str(limit.rate)
                if sample.name is not None:
                    title = f"{limit.rate}: {unit_name(sample.name)}"
                n = len(sample.rows)
                has, others = _of_batch([n], [n_in_batch.get(sample.name, n)])
                reason = f"has {has[0]} {counted}{others}; {needs}"
                shortfalls.append(_shortfall_without_test(limit, title, n, target, reason))
    return shortfalls


def _numbers_of_rows(rate: Rate, rows: FreshRows | None) -> dict[Any, int]:
    """Return the number of counted rows of a rate by subgroup; empty without rows."""
    if rows is None:
        return {}
    return {sample.name: len(sample.rows) for sample in rows.samples(rate)}


def _of_batch(numbers: Sequence[int], in_batch: Sequence[int]) -> tuple[list[str], str]:
    """Return numbers of rows, as parts of the batch if others selected, and a clause on the others."""
    if list(numbers) == list(in_batch):
        return [f"{n:,}" for n in numbers], ""
    parts = [f"{n:,} of {n_all:,}" for n, n_all in zip(numbers, in_batch, strict=True)]
    return parts, " (the others selected)"


def _needs_of_few_rows(limit: Limit, sample: Sample, target: float, level: float) -> str:
    """Return what a test of a subgroup needs, more rows or a looser limit; "" if its rows may pass."""
    n = len(sample.rows)
    width = sample.high - sample.low
    room = target - sample.low if limit.from_above else sample.high - target
    if n == 0 or not 0.0 < room < width:  # also of a subgroup without a limit: its room is NaN
        return ""
    needed = rows_for_no_error(room / width, level)
    if n >= needed:
        return ""
    # The exact upper bound on an error rate from n rows without an error.
    possible_room = (1.0 - level ** (1.0 / n)) * width
    possible = sample.low + possible_room
    more_or_less = "more"
    if not limit.from_above:
        possible = sample.high - possible_room
        more_or_less = "less"
    words = bound_words(possible, n, above=limit.from_above, in_percent=limit.in_percent)
    return f"at least {needed:,} are needed, or a limit of {words} or {more_or_less}"


def _shortfall_without_test(
    limit: Limit, title: str, n: int, target: float, reason: str
) -> Shortfall:
    """Return the shortfall of a limited rate that has too few rows for any test; ``reason`` says so."""
    return Shortfall(
        title,
        estimate=None,
        n=n,
        target=target,
        more_rows=None,
        sense=limit.sense,
        in_percent=limit.in_percent,
        without_rows=reason,
    )


def _comparisons_with_too_few_rows(
    procedure: Procedure, fresh: FreshRows, batch: FreshRows | None
) -> list[Shortfall]:
    """Return the gaps and ratios that the two smallest groups cannot pass, whatever their counts.

    All pairs of groups must pass, so a gap or ratio with such a pair cannot be certified. The list is empty
    if the procedure tests no pairs, or counts clusters. Rates without an exact test of pairs are passed over.
    Parameters are as in `rates_with_too_few_rows`.
    """
    if not procedure.tests_pairs or fresh.clusters is not None:
        return []
    shortfalls = []
    for limit in procedure.limits:
        family = RateFamily.from_expression(limit, fresh)
        has_test = limit.compares and family.exact and family.apart
        if not has_test or limit.rate.is_ratio or len(family.samples) < 2:
            continue

        factor, gap = family.pair_of_shares
        smallest, other = sorted(family.samples, key=lambda sample: len(sample.rows))[:2]
        n = len(smallest.rows)
        n_other = len(other.rows)
        level = procedure.level_of_test
        if not n or some_counts_pass((n, n_other), level, factor=factor, gap=gap):
            continue

        counted = limit.rate.counted_rows
        allowed = 1.0 - factor + gap
        best_case = "no row" if limit.from_above else "every row"
        needs = ""
        if 0.0 < allowed < 1.0:
            needed = rows_for_no_error(allowed, level)
            needs = f"; even if {best_case} counted for the rate, {needed:,} of each would be needed"

        n_in_batch = _numbers_of_rows(limit.rate, batch)
        has, others = _of_batch(
            [n, n_other],
            [n_in_batch.get(smallest.name, n), n_in_batch.get(other.name, n_other)],
        )
        reason = (
            f"has {has[0]} {counted} of {unit_name(smallest.name)} and {has[1]} of "
            f"{unit_name(other.name)}{others}, too few to pass the test at any rates{needs}"
        )
        title = f"{limit.form} of {limit.rate}"
        shortfalls.append(_shortfall_without_test(limit, title, n, float(limit.bound), reason))
    return shortfalls


def _too_few_words(
    shortfalls: Sequence[Shortfall],
    limits: Sequence[Limit],
    fresh: FreshRows,
    first_cures: Sequence[str] = (),
) -> str:
    """Return the limited rates with too few rows for any test, and the cures, in sentences."""
    listed = "; ".join(map(str, shortfalls))
    cures = [*first_cures, "bring more rows", "loosen the limit there"]
    limits_on_groups = [limit for limit in limits if limit.rate.needs_groups]
    if limits_on_groups:
        cures += ["leave the group out of the limits", "merge it with another one"]
        others = limits_without({shortfall.name for shortfall in shortfalls}, limits, fresh)
        if others:
            cures[-2] += (
                f" (its rate then has no bound): {limits_as_typed([limit.text for limit in others])}"
            )
    strata = fresh.answered.strata
    names_with_few_rows = {shortfall.name for shortfall in shortfalls}
    shares = []
    for limit in limits_on_groups:
        if limit.compares or counted_answer(limit.rate, strata) is None:
            continue
        has_few = [
            f"{limit.rate}: {unit_name(sample.name)}" in names_with_few_rows
            for sample in fresh.samples(limit.rate)
        ]
        # A group of few rows then gets one answer, but not each group.
        if any(has_few) and not all(has_few):
            shares.append(limit)
    cures += _group_cure(shares, fresh.model)
    *further_cures, last_cure = cures
    return (
        f"a limit with so few rows cannot be certified: {listed}. To go on, "
        f"{', '.join(further_cures)}, or {last_cure}."
    )


def _out_of_reach_words(calibration: Calibration) -> str:
    """Return the limits with the rates on the selection data, and the cures, in sentences."""
    selection = calibration.selection
    reached = "; ".join(
        f"{limit} (reached: {_reached(selection.estimates, limit)})"
        for limit in calibration.limits
    )
    tightest_first = sorted(
        calibration.limits, key=lambda limit: _least_room(selection.estimates, limit)[0]
    )
    cures = _group_cure(tightest_first, calibration.fresh.model)
    cures += ["loosen a limit", "bring more rows if all limits are reached"]
    *first_cures, last_cure = cures
    return (
        "by the selection data a certificate of these limits together is next to impossible "
        f"for {len(calibration.fresh):,} fresh rows: {reached}. These values are of the rule "
        f"selected within the limits. What may do: {', '.join(first_cures)}, or {last_cure}."
    )


def _reached(estimates: Sequence[Any], limit: Limit) -> str:
    """Return the value of a limited rate on the selection data, in the subgroup with the least room."""
    _, line = _least_room(estimates, limit)
    is_of_group = line.subgroup is not None and not limit.compares
    of_group = f" for {unit_name(line.subgroup)}" if is_of_group else ""
    reached = f"{value_words(line.value, in_percent=limit.in_percent)}{of_group}"
    without_rows = [
        unit_name(line.subgroup)
        for line in estimates
        if line.limit == str(limit) and not np.isnan(line.bound) and np.isnan(line.value)
    ]
    if without_rows:
        reached += f"; no row counts for {joined(without_rows, MOST_GROUPS)}"
    return reached


def _least_room(estimates: Sequence[Any], limit: Limit) -> tuple[float, Any]:
    """Return the least room to a limit on the selection data, and its line among the estimates."""
    lines = [
        line for line in estimates if line.limit == str(limit) and not np.isnan(line.bound)
    ]
    # A subgroup without a row that counts has no rate.
    lines = [line for line in lines if not np.isnan(line.value)] or lines
    rooms = [limit.sign * (line.bound - line.value) for line in lines]
    least = int(np.argmin(rooms))
    return rooms[least], lines[least]


def _group_cure(limits: Sequence[Limit], model: Any) -> list[str]:
    """Return the advice to read the groups of the first limit whose groups a rule may read; else nothing."""
    option = _reading_option(limits, model)
    return [f"let the rule read the group ({option})"] if option else []


def _by_group_of(limits: Sequence[Limit], model: Any) -> str | bool | None:
    """Return the value of ``by_group`` for the first limit whose groups a rule may read; None without one."""
    values = (by_group_to_read(limit, model) for limit in limits)
    return next((value for value in values if value is not None), None)


def _reading_option(limits: Sequence[Limit], model: Any) -> str:
    """Return the argument with which a rule reads the groups of `_by_group_of`; "" without one."""
    by_group = _by_group_of(limits, model)
    if by_group is None:
        return ""
    return by_group_option(by_group, reads_scores=judged(last_step(model)).reads_scores)


# -- certificates ------------------------------------------------------------------------------------------


def certified_classifier(result: Certified, calibration: Calibration) -> Any:
    """Return a classifier with a certified rule and its certificate."""
    fresh = calibration.fresh
    limits = calibration.limits
    attempts = calibration.attempts
    answered = fresh.by(result.selection)

    families = [RateFamily.from_expression(limit, answered) for limit in limits]
    bounds = _bounds_at_limits(families, calibration.level, result.method)
    objective = result.selection.problem.objective
    prices = (
        *objective_price(objective, calibration.reference, answered),
        *price_of(limits, calibration.reference, answered),
        *deferral_prices(limits, calibration.reference, answered),
    )
    if is_overall_error(objective) and judged(fresh.model).by_group:
        prices = tuple(
            replace(price, is_flattered=price.name == OVERALL_PRICE) for price in prices
        )
    given_error = next((price.given for price in prices if price.name == OVERALL_PRICE), None)
    remarks = [
        *rule_remarks(bounds, answered),
        *_without_limit(limits, answered),
    ]

    forced_by = what_forces(
        [family.bounds(calibration.level) for family in families],
        limits,
        result,
        calibration.selection,
        fresh,
        answered,
        run_for=calibration.run_for,
        level=calibration.level,
        given_error=given_error,
    )
    groups_pay = forced_by is not None and forced_by.groups_pay
    _warn_of_useless_rule(answered, limits, objective, groups_pay=groups_pay)
    one_answer = answered.one_answer(limits)
    if one_answer:
        warn_user(" ".join(one_answer), UselessRuleWarning)
    classifier = answering(fresh.model, result.selection, limits)
    classifier.records_ = classifier.records_.using(*(attempt.rows for attempt in attempts))
    classifier.certificate_ = Certificate(
        bounds=tuple(with_deferral(bounds, answered)),
        confidence=calibration.confidence,
        n_rows=len(fresh),
        notes=tuple(_notes(result, answered, calibration)),
        model=copy.copy(classifier),  # without a certificate: neither may hold itself
        attempts=attempts,
        price=prices,
        rule=judged(classifier).rule_digest,
        used=attempts[-1].rows,
        as_stated=fresh.as_stated,
        equal_rows=fresh.equal_rows,
        n_clusters=fresh.n_clusters,
        remarks=tuple(remarks),
        one_answer=tuple(one_answer),
        forced_by=forced_by,
        date=today(),
    )
    return classifier


def _notes(result: Certified, answered: FreshRows, calibration: Calibration) -> list[str]:
    """Return the notes of a certificate: what is certified, how, and what the rows do not tell.

    ``answered`` are the fresh rows with the answers of the certified rule.
    """
    attempts = calibration.attempts
    return [
        f"The limits are certified, and nothing tighter. {result.made}",
        f"This was attempt {len(attempts)}. It spent {attempts[-1].spent:.3g} of the allowed "
        "error probability. All attempts in the model's ledger together keep the confidence.",
        *answered.notes,  # of the certified rule, which may defer other rows than the given one
        *unlisted(calibration.fresh, [limit.rate.by for limit in calibration.limits]),
    ]


def _bounds_at_limits(
    families: Sequence[RateFamily], level: float, method: str
) -> list[CertifiedBound]:
    """Return the limits of a certified rule as its bounds, by the method of their tests.

    Subgroups without a limit are left out. A limit on no row is kept by construction: no test passes without
    rows. Raise RuntimeError if the rule breaks a limit on the rows that certify it.
    """
    bounds = []
    for bound in limit_bounds(families, level):
        if bound.target is None:
            continue
        # Below one half no test passes there: another rule was tested.
        if bound.n and not bound.is_within and level < 0.5:
            raise RuntimeError(
                f"the rule that passed {method} breaks {bound.title} on the rows that certify "
                "it: this is a fault of tailboost; please report it"
            )
        bounds.append(bound.at_target(method if bound.n else CONSTANT))
    return bounds


def objective_price(
    objective: Any, reference: ReferenceAnswers, certified: FreshRows
) -> list[Price]:
    """Return the objective of two rules on the same rows.

    The list is empty if the objective is the overall error, which is a price already, or if it is
    of costs, which a calibration does not have.

    ``reference`` are the name and the answers of the first rule, ``certified`` the rows with the answers of
    the second one.
    """
    if is_overall_error(objective) or objective.rate.needs_costs:
        return []
    reference_name, reference_rows = reference

    def value_on(rows: FreshRows | None) -> float | None:
        if rows is None:
            return None
        value: float = objective.value(
            np.array([sample.mean for sample in rows.samples(objective.rate)])
        )
        return None if np.isnan(value) else value

    value = value_on(certified)
    if value is None:
        return []
    name = f"objective ({objective})"
    return [
        Price(
            name,
            given=value_on(reference_rows),
            certified=value,
            n=len(certified),
            of=reference_name,
            is_objective=True,
        )
    ]


def price_of(
    limits: Sequence[Limit], reference: ReferenceAnswers, certified: FreshRows
) -> Iterator[Price]:
    """Yield the overall error of labelled rows, then each limited rate, of two rules on the same rows.

    ``reference`` are the name and the answers of the first rule, ``certified`` the rows with the answers of
    the second one. Subgroups without a limit or without rows are left out.
    """
    _, reference_rows = reference
    for price in _prices_of_rate(OVERALL_PRICE, ERRORS["mean"], limits, reference, certified):
        noise = None
        # A classifier that takes no limits is compared with its given rule, which is within some.
        if reference_rows is not None and judged(certified.model).takes_limits:
            wrong, wrong_without = (
                rows.samples(ERRORS["mean"])[0].values for rows in (certified, reference_rows)
            )
            noise = standard_error(wrong - wrong_without)
        yield replace(price, noise=noise)
    for limit in limits:
        yield from _prices_of_rate(
            limit.rate.words, limit.rate, limits, reference, certified, limit=limit
        )


def _prices_of_rate(
    words: str,
    rate: Rate,
    limits: Sequence[Limit],
    reference: ReferenceAnswers,
    certified: FreshRows,
    *,
    limit: Limit | None = None,
) -> Iterator[Price]:
    """Yield the price of a rate by subgroup, of those with a ``limit`` if one is given; see `price_of`.

    ``limits`` are all limits, which name groups of several columns. Subgroups without rows are left out. The
    price has no given value if the reference has no answers, or no row of the subgroup.
    """
    reference_name, reference_rows = reference
    samples = certified.samples(rate)
    reference_samples = samples if reference_rows is None else reference_rows.samples(rate)
    is_limited = np.ones(len(samples), bool)
    if limit is not None and not limit.compares:
        is_limited = ~np.isnan(limit.bounds([sample.name for sample in samples]))

    for number in np.flatnonzero(is_limited).tolist():
        sample = samples[number]
        if not len(sample.rows):
            continue
        rates = [each.rate for each in limits]
        name = words if limit is None else price_name(rate, sample.name, rates)
        given = None
        if reference_rows is not None and not np.isnan(reference_samples[number].mean):
            given = float(reference_samples[number].mean)
        yield Price(
            name,
            given=given,
            certified=float(sample.mean),
            n=len(sample.rows),
            of=reference_name,
        )


def deferral_prices(
    limits: Sequence[Limit], reference: ReferenceAnswers, certified: FreshRows
) -> Iterator[Price]:
    """Yield the error of the answered rows and the share deferred, if rows are deferred; see `price_of`.

    The overall error counts deferred rows as right. A limited rate has a price already.
    """
    if not certified.n_deferred:
        return
    limited_rates = [limit.rate for limit in limits]
    for rate in (answered_error(), deferred()):
        if rate not in limited_rates:
            yield from _prices_of_rate(rate.words, rate, limits, reference, certified)


def _without_limit(limits: Sequence[Limit], answered: FreshRows) -> list[str]:
    """Return a sentence for each limited rate on its subgroups with rows that no limit bounds."""
    remarks = []
    for rate in dict.fromkeys(limit.rate for limit in limits if not limit.compares):
        samples = answered.samples(rate)
        names = [sample.name for sample in samples]
        has_rows = [len(sample.rows) > 0 for sample in samples]
        bounds_by_limit = [
            limit.bounds(names) for limit in limits if limit.rate == rate and not limit.compares
        ]
        is_free = np.isnan(bounds_by_limit).all(axis=0) & np.array(has_rows)
        free_names = [unit_name(names[number]) for number in np.flatnonzero(is_free).tolist()]
        if free_names:
            remarks.append(f"No limit bounds the {rate} for {joined(free_names, MOST_GROUPS)}.")
    return remarks


def _warn_of_useless_rule(
    fresh: FreshRows, limits: Sequence[Limit], objective: Any, *, groups_pay: bool
) -> None:
    """Warn of a rule with one answer to all or nearly all rows, or no better than a random guess.

    The advice names thresholds by group only if they pay on these rows (``groups_pay``).

    Errors say nothing of a rule with another objective. A rule that draws gets no warning.
    """
    answered = fresh.answered
    strata = answered.strata
    if answered.draws:
        return
    answers = np.flatnonzero(np.bincount(answered.actions)).tolist()
    if len(answers) == 1:
        answer = answer_names(strata)[answers[0]]
        warn_user(
            "the targets are certified only for a constant classifier: predict answers "
            f"{answer} to every row; give the other classes targets too, allow larger errors, "
            "or bring more calibration rows"
        )
        return

    words = None
    if is_overall_error(objective):
        words = _words_on_guess(fresh, limits, objective, groups_pay=groups_pay)
    if words is None:
        words = _words_on_shares(answered)
    if words is not None:
        warn_user(words, UselessRuleWarning)


def _words_on_guess(
    fresh: FreshRows, limits: Sequence[Limit], objective: Any, *, groups_pay: bool
) -> str | None:
    """Return words on a random guess that errs no more within the limits; None without one.

    The guess keeps the limits on these rows and defers no more of them than the rule.
    """
    counts = fresh.answered.counts
    program = Program.of_rates(fresh.answered.strata, objective, limits)
    error = program.value(counts)
    guess = best_guess(deferring_no_more(program, counts))
    if guess is None or not error >= guess - ROUNDING:
        return None
    labels = answer_names(program.strata)
    constants = program.strata.constants()[: program.strata.n_classes]
    constant_errors = [program.value(each) for each in constants]
    best = int(np.argmin(constant_errors))
    breaks = "" if program.keeps(constants[best]) else ", but breaks a limit"
    no_more = " that defers no more rows" * bool(fresh.n_deferred)
    cures = ["bring more rows"]
    if groups_pay:
        cures += _group_cure(limits, fresh.model)
    return (
        f"the certified rule errs in {error:.3g} of these rows, and a random guess within the "
        f"limits{no_more} in {guess:.3g}. {labels[best]} to every row errs in "
        f"{constant_errors[best]:.3g}{breaks}. To err less, {', '.join(cures)}, or state other limits"
    )


def _words_on_shares(answered: Answered) -> str | None:
    """Return words on a rule with nearly one action, or without one of two labels; None for other rules."""
    strata = answered.strata
    K = strata.n_classes
    names = answer_names(strata)
    shares = np.bincount(answered.actions, answered.share, K + 1)
    class_mass = np.bincount(strata.y[answered.stratum], answered.share, K + 1)[:K]
    cure = "; loosen the limits, or bring more rows"
    equal = mostly_one_action(shares, class_mass)
    if equal is not None:
        return f"the certified rule answers {names[equal]} to {shares[equal]:.1%} of these rows{cure}"
    if K == 2 and shares[:K].min() == 0.0:
        absent = names[int(shares[:K].argmin())]
        return (
            f"the certified rule answers {absent} to none of these rows, and defers "
            f"{shares[K]:.1%} of them{cure}"
        )
    return None


# -- refusals ----------------------------------------------------------------------------------------------


def refusal(
    result: Refused, calibration: Calibration, procedure: Procedure
) -> NotCertifiedError:
    """Return the error with the missed limits of the tested rule.

    If nothing was tested, or no limit was missed, it has the reason of the refusal instead.

    Parameters
    ----------
    result : Refused
        The tested rule.
    calibration : Calibration
        The attempt.
    procedure : Procedure
        The procedure that tested it, with the part of the level for rules of this kind.
    """
    attempts = calibration.attempts
    part_of_level = procedure.level / calibration.level
    shortfalls = []
    failed = ""
    would_help = ""
    limits_to_serve = list(calibration.limits)
    reason = f" The reason: {result.why}."
    if result.tested:
        level = part_of_level * calibration.level
        next_level = part_of_level * calibration.next_level
        families = [
            RateFamily.from_expression(limit, result.answered) for limit in calibration.limits
        ]
        selected = {
            (line.rate, line.subgroup): line.value for line in result.answered.model.rates_
        }
        shortfalls = shortfalls_of(families, result, level, next_level, selected)
        if shortfalls:
            bounds_by_limit = [tested_bounds(family, result, level) for family in families]
            failed = _failed_words(calibration.limits, bounds_by_limit)
            # A group with one answer has no test, and the part 0.
            parts = [part for part in result.parts.values() if part > 0.0]
            new_rows = NewRowsEstimate(calibration, procedure, min(parts, default=1.0))
            chances = new_rows.chances
            reason = _shortfall_words(shortfalls, bounds_by_limit, result, calibration, chances)
            limits_to_serve = [
                limit
                for limit, bounds in zip(calibration.limits, bounds_by_limit, strict=True)
                if any(bound.certified is False for bound in bounds)
            ]
            if any(limit.rate.counts_deferral for limit in limits_to_serve):
                # Rows are deferred because of the limits that are kept.
                limits_to_serve = list(calibration.limits)
            would_help = _what_would_help(bounds_by_limit, new_rows, result, limits_to_serve)

    reason += would_help
    advice = "No attempt may follow."
    if may_follow(attempts):
        advice = (
            "Give rows that no attempt had; that attempt spends "
            f"{calibration.next_level:.2g}. The model's ledger records its attempts, and "
            "save_model stores them. A model that is fitted again needs previous= this error."
        )
    return NotCertifiedError(
        "no rule with several answers has its targets certified with "
        f"{percent(calibration.confidence)} confidence.{failed}{reason}",
        shortfalls=shortfalls,
        attempts=attempts,
        tested=True,
        advice=f"This was attempt {len(attempts)}. Its rows cannot be used again, alone or with "
        f"others. {advice}",
    )  # fmt: skip


def _failed_words(
    limits: Sequence[Limit], bounds_by_limit: Sequence[Sequence[CertifiedBound]]
) -> str:
    """Return a sentence with the missed limits and the subgroups that miss them."""
    missed = []
    for limit, bounds in zip(limits, bounds_by_limit, strict=True):
        failing = [bound for bound in bounds if bound.certified is False]
        groups = [
            unit_name(bound.subgroup)
            for bound in failing
            if bound.subgroup is not None and not limit.compares
        ]
        if groups:
            missed.append(f"{limit.rate} for {joined(groups, MOST_GROUPS)}")
        elif failing:
            missed.append(str(limit))
    return f" Not certified: {'; '.join(missed)}."


def _few_rows_words(
    bounds_by_limit: Sequence[Sequence[CertifiedBound]],
    new_rows: NewRowsEstimate,
    result: Refused,
    named: Sequence[list[Limit]],
) -> str:
    """Return a line on the failed subgroups that have too few rows for the next attempt; "" without any.

    Other failed subgroups may have enough rows, so the chance of the limits without these ones may be small.
    These limits are left out if they are among ``named``.
    """
    calibration = new_rows.calibration
    if not may_follow(calibration.attempts):
        return ""
    few = {}
    free = []
    level = calibration.next_level
    for limit, bounds in zip(calibration.limits, bounds_by_limit, strict=True):
        if limit.compares:
            continue
        samples = {sample.name: sample for sample in result.answered.samples(limit.rate)}
        for bound in bounds:
            if bound.certified is not False or bound.target is None:
                continue
            needs = _needs_of_few_rows(limit, samples[bound.subgroup], bound.target, level)
            if needs and bound.subgroup is not None:
                free.append(bound)
                few[bound.title] = f"{bound.title} has {how_many(bound.n, 'row')}, {needs}"
    if not few:
        return ""
    without = ""
    others = limits_without(few, calibration.limits, calibration.fresh)
    if others and others not in named:
        without = f" Limits without a bound there: {limits_as_typed([limit.text for limit in others])}"
        if new_rows.chance(others) is not None:
            without += f" (estimated {new_rows.words(others, free)})"
        without += "."
    return (
        f"\nToo few rows for any test of the next attempt: {'; '.join(few.values())}.{without}"
    )


def _shortfall_words(
    shortfalls: Sequence[Shortfall],
    bounds_by_limit: Sequence[Sequence[CertifiedBound]],
    result: Refused,
    calibration: Calibration,
    chances: Chances | None,
) -> str:
    """Return the table of the tested bounds, and the needs of missed limits.

    With ``chances``, cures are named for all limits together, and for no single limit: another threshold
    trades one limit for another.
    """
    if chances is not None:
        shortfalls = [replace(shortfall, more_rows=None) for shortfall in shortfalls]
    answered = result.answered
    # If the estimate is true and a number of rows would do, the table has this number.
    sufficient_rows = {
        shortfall.name: shortfall.more_rows
        for shortfall in shortfalls
        if shortfall.is_kept and (shortfall.more_rows or MOST_ROWS) < MOST_ROWS
    }
    bounds = [
        replace(bound, sufficient_rows=sufficient_rows.get(bound.title))
        for bound in chain.from_iterable(bounds_by_limit)
    ]
    bounds = with_deferral(bounds, answered)
    tested_bounds = Certificate(
        bounds=tuple(bounds), confidence=calibration.confidence, n_rows=len(answered), notes=()
    )
    words = f"\n\n{tested_bounds.table()}\n"

    # Sentences explain all others without an estimate, and the first ones with one.
    n_with_estimate = 0
    for shortfall in shortfalls:
        has_estimate = shortfall.estimate is not None
        if shortfall.name in sufficient_rows or (chances is not None and has_estimate):
            continue
        n_with_estimate += has_estimate
        if not has_estimate or n_with_estimate <= MOST_EXPLAINED:
            words += f"\n{shortfall.name}: {shortfall.needs}."
    words += f"\nTested: {result.rule}"
    if calibration.batch is not None:
        n_selecting = n_rows_of(calibration.batch.X) - len(answered)
        words += f", on {len(answered):,} rows; {n_selecting:,} others selected it"
    words += "."
    if any(shortfall.more_rows is not None for shortfall in shortfalls):
        words += " Numbers of rows are about this rule; another rule may need fewer."

    words += "".join(f" {sentence}" for sentence in better_answer(bounds, answered))
    return words + _kept_without_test(bounds_by_limit, calibration, answered)


def _kept_without_test(
    bounds_by_limit: Sequence[Sequence[CertifiedBound]],
    calibration: Calibration,
    answered: FreshRows,
) -> str:
    """Return a line on subgroups with few rows whose missed limit a single answer keeps; "" without any."""
    strata = answered.answered.strata
    names_by_answer: dict[tuple[str, Limit], list[str]] = {}
    judge = judged(last_step(calibration.fresh.model))
    for limit, bounds in zip(calibration.limits, bounds_by_limit, strict=True):
        if not judge.reads(limit.rate.by):  # such a rule has no answer to one subgroup alone
            continue
        for bound in bounds:
            if bound.certified is not False or bound.subgroup is None:
                continue
            level = calibration.next_level
            if bound.n and not has_few_rows(bound.n, bound.target, limit, level):
                continue
            beside = [
                other
                for bounds_of_other in bounds_by_limit
                for other in bounds_of_other
                if other.subgroup == bound.subgroup and other.target is not None
            ]
            for number, answer in enumerate(answer_names(strata)[: strata.n_classes]):
                if all(keeps_by_construction(other, strata, [number]) for other in beside):
                    names = names_by_answer.setdefault((answer, limit), [])
                    names.append(unit_name(bound.subgroup))
    return "".join(
        f"\nA rule with the answer {answer} to every row of {joined(names, MOST_GROUPS)} keeps "
        f"{limit} there without a test."
        for (answer, limit), names in names_by_answer.items()
    )


def _what_would_help(
    bounds_by_limit: Sequence[Sequence[CertifiedBound]],
    new_rows: NewRowsEstimate,
    result: Refused,
    limits_to_serve: Sequence[Limit],
) -> str:
    """Return lines on thresholds by group, looser limits, fewer groups or more rows that would certify.

    Parameters
    ----------
    bounds_by_limit : sequence of sequence of CertifiedBound
        The bounds of the tested rule.
    new_rows : NewRowsEstimate
        Estimates for new rows.
    result : Refused
        The tested rule, with the parts of the level.
    limits_to_serve : sequence of Limit
        The limits whose groups a rule may read instead.
    """
    calibration = new_rows.calibration
    limits = calibration.limits
    level = calibration.next_level
    answers: list[float | None] = []

    def chance(other_limits: list[Limit], growth: float = 1.0) -> float:
        answers.append(new_rows.chance(other_limits, growth))
        return answers[-1] or 0.0

    ways = _by_group_way(limits_to_serve, new_rows)
    growth = least_growth(lambda growth: chance(limits, growth) >= LEAST_CHANCE)
    missed = {
        (number, bound.subgroup): bound
        for number, bounds_of_limit in enumerate(bounds_by_limit)
        for bound in bounds_of_limit
        if bound.certified is False
    }
    few = {
        pair: bound
        for pair, bound in missed.items()
        if has_few_rows(bound.n, bound.target, limits[pair[0]], level)
    }
    other_limits: list[list[Limit]] = []
    without_few: list[list[Limit]] = []
    review_ways = []
    also_loosened = ""
    if growth is None or growth > 1.0:
        failing, passed = _weakest_first(bounds_by_limit, new_rows)
        subgroups = _limited_subgroups(bounds_by_limit, calibration)
        other_limits = certifiable_limits(limits, subgroups, failing, chance, passed)
        also_loosened = _also_loosened_words(other_limits, limits, subgroups, passed)
        review_ways = _review_way(subgroups, calibration)
        if not few and not other_limits:  # then the weakest subgroup is left out
            few = {pair: missed[pair] for pair in failing[:1] if pair[1] is not None}
        if few and (len(few) == len(missed) or not other_limits):
            others = limits_without(
                {bound.title for bound in few.values()}, limits, calibration.fresh
            )
            if others and chance(others) >= LEAST_CHANCE:
                without_few = [others]
            elif others:
                still_failing = [pair for pair in failing if pair not in few]
                without_few = certifiable_limits(
                    others, subgroups, still_failing, chance, passed
                )
    ways += [
        f"as many with {limits_as_typed([limit.text for limit in others])}: "
        f"{new_rows.words(others, free)}"
        for limits_of_way, free in ((other_limits, ()), (without_few, [*few.values()]))
        for others in limits_of_way
    ]
    ways += review_ways
    chances = new_rows.chances
    if growth == 1.0 and chances is not None:
        ways.append(f"as many rows with the same limits: {new_rows.words(limits)}")
    elif growth is not None and growth > 1.0:
        times = f"about {growth:g} times the {len(calibration.fresh):,} certifying rows"
        if chances is not None:
            times += " and as many times the selecting ones"
        ways.append(times)
    named = [*other_limits, *without_few]
    few_rows = _few_rows_words(bounds_by_limit, new_rows, result, named)
    if not ways:
        names = [bound.title for bound in missed.values()]
        return f"{few_rows}\n{_why_no_help(new_rows, names, all_tried=None not in answers)}"
    attempt = "this attempt"
    as_attempt = ""
    if may_follow(calibration.attempts):
        attempt = "the next attempt"
        as_attempt = f", as attempt {len(calibration.attempts) + 1}"
    listed = "".join(f"\n* {way}" for way in ways)
    return (
        f"{few_rows}\nNew rows are estimated to pass with a probability of {LEAST_CHANCE:g} or "
        f"more{as_attempt}:{listed}\nEstimates on these rows, at the error probability of {attempt}."
        f"{also_loosened}{_fewest_reviews(other_limits, calibration)}"
    )


def _fewest_reviews(other_limits: Sequence[list[Limit]], calibration: Calibration) -> str:
    """Return a sentence on the objective of the fewest deferred rows; "" where one answer would do.

    Limits that a single label keeps on the rows need no deferral at all.
    """
    objective = calibration.selection.problem.objective
    strata = calibration.fresh.answered.strata
    for limits in other_limits:
        program = Program.of_rates(strata, objective, limits)
        if (
            is_overall_error(objective)
            and any(limit.rate.counts_deferral for limit in limits)
            and not any(map(program.keeps, strata.constants()[: strata.n_classes]))
        ):
            option = as_typed("objective='deferred'", "--objective deferred")
            return f" Allowed reviews lower the error; {option} asks for the fewest instead."
    return ""


def _by_group_way(limits_to_serve: Sequence[Limit], new_rows: NewRowsEstimate) -> list[str]:
    """Return the advice to read the groups of a limit if as many new rows are estimated to pass then."""
    calibration = new_rows.calibration
    model = calibration.fresh.model
    by_group = _by_group_of(limits_to_serve, model)
    problem = replace(calibration.selection.problem, confidence=None)
    if by_group is None or problem.needs_costs:
        return []
    try:
        reader = judged(model).reading_groups(by_group, problem)
        fresh = calibration.fresh.read_by(reader)
    except ValueError:  # contradicting limits, or a group that the selection does not know
        return []
    read = _estimate_of(reader, fresh, calibration)
    if read.procedure.takes_long or (read.chance(calibration.limits) or 0.0) < LEAST_CHANCE:
        return []
    option = _reading_option(limits_to_serve, model)
    words = read.words(calibration.limits)
    return [f"as many with {option}, which may give a group one answer: {words}"]


def _review_way(subgroups: Sequence[Subgroups], calibration: Calibration) -> list[str]:
    """Return the limits with the tightest one on deferral that new rows would certify; empty without one.

    Empty also if rows are deferred already, if answers have costs or are drawn, or if the classifier selects
    no rule of another kind.
    """
    judge = judged(calibration.fresh.model)
    problem = replace(calibration.selection.problem, confidence=None)
    if not judge.selects_other_kinds or problem.defers or problem.needs_costs:
        return []
    tight, loose = (deferred() <= share for share in (0.01, 0.5))
    try:
        reader = judge.reading_groups(judge.classifier.by_group, problem.also_within(loose))
    except ValueError:  # contradicting limits
        return []
    fresh = calibration.fresh.with_actions(calibration.fresh.answered.actions, defers=True)
    fresh = replace(fresh, model=reader, final=last_step(reader))
    estimate = _estimate_of(reader, fresh, calibration)
    if estimate.procedure.takes_long:
        return []
    tight = replace(tight, in_percent=any(limit.in_percent for limit in calibration.limits))
    ways = certifiable_limits(
        [*calibration.limits, tight],
        [*subgroups, Subgroups([None], [1.0])],
        [(len(subgroups), None)],
        lambda limits: estimate.chance(limits) or 0.0,
    )
    return [
        f"as many with people for some rows, {limits_as_typed([limit.text for limit in limits])}: "
        f"{estimate.words(limits)}"
        for limits in ways
    ]


def _estimate_of(reader: Any, fresh: FreshRows, calibration: Calibration) -> NewRowsEstimate:
    """Return the estimates for new rows of another classifier; ``fresh`` are as it reads them."""
    selection = reader.selection_
    limits = list(selection.problem.limits)
    other = replace(calibration, limits=limits, selection=selection, fresh=fresh)
    procedure = first_that_applies(selection, fresh, calibration.level)
    n_limited = sum(len(fresh.samples(limit.rate)) for limit in limits)
    return NewRowsEstimate(other, procedure, 1.0 / n_limited)


def _weakest_first(
    bounds_by_limit: Sequence[Sequence[CertifiedBound]], new_rows: NewRowsEstimate
) -> tuple[list[Pair], list[Pair]]:
    """Return the limited subgroups that missed a limit, and those that passed, the likeliest to fail first.

    A subgroup is a pair (number of the limit, subgroup). Chances come first, as far as they are known, and
    then the room to the limit on these rows.
    """
    power_of: dict[Pair, float] = {}
    if new_rows.chances is not None:
        power_of = new_rows.chances.powers(new_rows.calibration.limits, 1.0, new_rows.level)
    bound_of = {
        (number, bound.subgroup): bound
        for number, bounds in enumerate(bounds_by_limit)
        for bound in bounds
        if bound.target is not None
    }

    def strength(pair: Pair) -> tuple[float, float, str]:
        return power_of.get(pair, 1.0), room_of(bound_of[pair]), repr(pair)

    pairs = sorted(bound_of, key=strength)
    missed = [pair for pair in pairs if bound_of[pair].certified is False]
    return missed, [pair for pair in pairs if pair not in missed]


def _limited_subgroups(
    bounds_by_limit: Sequence[Sequence[CertifiedBound]], calibration: Calibration
) -> list[Subgroups]:
    """Return the limited subgroups of each limit, with the shares of errors of one answer to all rows."""
    fresh = calibration.fresh
    answered = fresh.answered
    constants = [
        fresh.with_actions(np.full(len(answered.stratum), number))
        for number in range(answered.strata.n_classes)
    ]
    limited = []
    for limit, bounds in zip(calibration.limits, bounds_by_limit, strict=True):
        names = [bound.subgroup for bound in bounds if bound.target is not None]
        vacuous = np.ones(len(names))
        if not limit.compares:
            allowed = limit.against(limit.bounds([*names]))
            for constant in constants:
                share_of = {
                    sample.name: limit.against(sample.mean)
                    for sample in constant.samples(limit.rate)
                }
                shares = np.array([share_of[name] for name in names])
                vacuous = np.where(shares > allowed, np.minimum(shares, vacuous), vacuous)
        limited.append(Subgroups(names, vacuous.tolist()))
    return limited


def _also_loosened_words(
    other_limits: Sequence[Sequence[Limit]],
    limits: Sequence[Limit],
    subgroups: Sequence[Subgroups],
    passed: Sequence[Pair],
) -> str:
    """Return a sentence on loosened limits of subgroups that passed; "" without any."""
    loosened = []
    for others in other_limits:
        for number, name in passed:
            names = subgroups[number].names
            if limits[number].compares:
                is_looser = others[number] != limits[number]
            else:
                new, old = (each[number].bounds([*names]) for each in (others, limits))
                is_looser = new[names.index(name)] != old[names.index(name)]
            if is_looser:
                of_group = "" if name is None else f" for {unit_name(name)}"
                loosened.append(f"{limits[number].rate}{of_group}")
    if not loosened:
        return ""
    return (
        " No such limits were found without loosening certified ones too: "
        f"{joined(loosened, MOST_GROUPS)}."
    )


def _why_no_help(new_rows: NewRowsEstimate, missed: Sequence[str], *, all_tried: bool) -> str:
    """Return sentences on why `_what_would_help` names neither rows nor limits that would do.

    ``missed`` are the names of the missed rates, ``all_tried`` whether no answer takes long.
    """
    calibration = new_rows.calibration
    if all_tried:
        return (
            "No limits were found that new rows are estimated to pass with a probability of "
            f"{LEAST_CHANCE:g}. Tried were {GROWTHS[-1]:g} times as many rows, and looser limits for "
            f"{joined(missed, MOST_GROUPS)} and then for all others, up to half of the way to a limit "
            "that one answer to all rows keeps."
        )
    if len(calibration.fresh) > MOST_ROWS_TRIED:
        return (
            f"With more than {MOST_ROWS_TRIED:,} rows no looser limits are tried here, because "
            f"this takes long. {LOOSER_THAN_THE_TABLE}"
        )
    procedure = first_that_applies(calibration.selection, calibration.fresh, calibration.level)
    if procedure.takes_long:
        return (
            f"No looser limits are tried here: the procedure, {procedure.title}, takes long for each. "
            f"{LOOSER_THAN_THE_TABLE}"
        )
    return (
        f"Not all looser limits are tried here, because some take long. {LOOSER_THAN_THE_TABLE}"
    )


def shortfalls_of(
    families: Sequence[RateFamily],
    result: Refused,
    level: float,
    next_level: float,
    selected: Mapping[tuple[str, Any], float],
) -> list[Shortfall]:
    """Return the missed limits of a rule, each with the missing rows for a certificate of the next attempt.

    Parameters
    ----------
    families : sequence of RateFamily
        The limited rates of the tested rule.
    result : Refused
        The tested rule.
    level, next_level : float
        Of this attempt, and of the next one.
    selected : dict of (str, object) to float
        The rates on the selection data, by rate and subgroup.
    """
    shortfalls = []
    for family in families:
        bounds = tested_bounds(family, result, level)
        next_bounds = tested_bounds(family, result, next_level)
        for number, (bound, next_bound) in enumerate(zip(bounds, next_bounds, strict=True)):
            if bound.certified is False:
                selected_value = selected.get((str(bound.counted), bound.subgroup))
                level_of_rate = next_level * result.parts.get(
                    (family.rate, bound.subgroup), 1.0
                )
                shortfalls.append(
                    Shortfall.from_bound(
                        family, number, next_bound, level_of_rate, selected_value
                    )
                )
    return shortfalls


def tested_bounds(family: RateFamily, result: Refused, level: float) -> list[CertifiedBound]:
    """Return the bounds of a refused rule, each at its part of a level; see `Refused.parts`."""
    of_rate = {name: part for (rate, name), part in result.parts.items() if rate == family.rate}
    bounds_at = {
        part: with_kept(limit_bounds([family], part * level), result.answered)
        for part in {1.0, *of_rate.values()}
    }
    return [
        bounds_at[of_rate.get(bound.subgroup, 1.0)][number]
        for number, bound in enumerate(bounds_at[1.0])
    ]
