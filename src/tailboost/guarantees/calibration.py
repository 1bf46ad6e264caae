"""Calibration: the least restricted rule of a classifier whose limits are certified by fresh rows.

`tailboost.calibrate`, which also takes models without a selected rule, is in the wing of classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tailboost.core.exceptions import (
    InfeasibleLimitsError,
    NotCertifiedError,
    UselessRuleWarning,
    warn_user,
)
from tailboost.guarantees import chain, ranks, sequence
from tailboost.guarantees.case import Case, Outcome
from tailboost.guarantees.certificates import CONSTANT, Price, certificate_of, tested_bounds
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import Limit, checked_limits, error
from tailboost.rates.bounds import rows_for_no_error
from tailboost.rows.judged import judged
from tailboost.rows.rows import Given
from tailboost.rows.seen import Attempt, attempts_of
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name

#: Modules with functions `applies` and `run`, the simplest first; the last one applies to all limits.
PROCEDURES: Sequence[Any] = (ranks, chain, sequence)
ONE_ANSWER = (
    "the rule with the least loss within the limits gives every row the same answer; check that the scores "
    "belong to these rows and labels, or state a limit that this answer breaks"
)
MISSED = "the likeliest rule misses a limit"
ONLY_COUNTED = "No label was read and no limit was tested, so no attempt is spent."
MOST_PRICED = 4  # limits with a price of their own
NEARLY_ALL = 0.99  # of the rows with one answer: then a rule is hardly useful


def stated_limits(limits: Any, own: Sequence[Limit] = ()) -> list[Limit]:
    """Return the checked limits, by default ``own``; raise ValueError without any."""
    stated = list(own)
    if limits is not None:
        stated = list(checked_limits(limits, to_keep=True))
    if not stated:
        raise ValueError("limits is needed, for example limits=['miss(1) <= 40%']")
    return stated


def calibrate_selected(
    model: Any,
    given: Given,
    *,
    limits: Any = None,
    confidence: float = 0.95,
    previous: Any = None,
    reference: Callable[[Fresh], Fresh | None] = lambda fresh: fresh,
    notes: Sequence[str] = (),
) -> Any:
    """Return the least restricted rule of a classifier with a certificate; see `tailboost.calibrate`.

    Parameters
    ----------
    model : classifier
        One of tailboost's, with ``tradeoff``. The attempt is recorded in its ``ledger_`` before any test.
    given : Given
        The rows and their labels.
    limits, confidence, previous
        As in `tailboost.calibrate`.
    reference : callable
        Returns fresh rows with the answers without limits, for the price; by default those of the given rule.
    notes : sequence of str
        Further assumptions.

    Raises
    ------
    NotCertifiedError
        If no rule is certified.
    LeakageError
        If rows were used in the fit, the selection or an earlier attempt.
    ValueError
        If an argument is not as described.
    """
    stated = stated_limits(limits, judged(model)._stated_limits)
    earlier = attempts_of(previous)
    fresh = Fresh.of(model, given, [limit.rate for limit in stated])
    _refuse_few_rows(stated, fresh, 1.0 - confidence, earlier)
    selection = model.selection_
    if list(selection.problem.limits) != stated:
        selection = judged(model)._selection_within(stated)

    # Recorded before any test: whatever ends this call, its rows are used up.
    call = repr((stated, confidence, fresh.equal_rows, judged(model)._rule_digest))
    tested = [np.sort(fresh.draws).tobytes(), call.encode()]
    attempts = model.records_.spend(fresh.used, tested, earlier, fresh.equal_rows)
    level = attempts[-1].spent * (1.0 - confidence)
    outcome = outcome_of(selection, fresh, level)
    answered = outcome.answered
    every = tested_bounds(stated, answered, outcome.level)
    bounds = [bound for bound in every if bound.target is not None]
    if outcome.selection is None:
        certificate = replace(
            certificate_of(answered, bounds, confidence), attempts=attempts, notes=()
        )
        reason, table = outcome.words, ""
        if not certificate.certified:
            reason = MISSED
            table = f", or loosen a limit to its bound before new rows are seen\n{certificate}"
        raise NotCertifiedError(
            f"no rule is certified: {reason}. These rows are used up: bring new ones, with this error as "
            f"previous={table}",
            certificate,
            attempts,
        )
    _warn_of_useless_rule(answered)
    at_limits = []
    for bound in bounds:
        # At a level of one half or more a test may pass there.
        if bound.n and bound.room is not None and bound.room < 0 and level < 0.5:
            raise RuntimeError(
                f"the certified rule breaks {bound.title} on the rows that certify it: this is a fault of "
                "tailboost; please report it"
            )
        is_tested = bound.n and bound.method != CONSTANT
        at_limits.append(bound.at_target(outcome.method if is_tested else CONSTANT))
    others = {"": reference(fresh)}
    for limit in stated if 2 <= len(stated) <= MOST_PRICED else ():
        rest = [other for other in stated if other is not limit]
        with suppress(InfeasibleLimitsError):  # errors without deferral, for example: no price
            without = outcome_of(selection.within(rest), fresh, level)
            others[str(limit)] = without.answered if without.selection else None
    of_attempt = (
        f"The limits are certified, and nothing tighter. {outcome.words}",
        f"This was attempt {len(attempts)}, with {attempts[-1].spent:.3g} of the error probability. All "
        "attempts in the model's ledger together keep the confidence.",
    )
    certificate = certificate_of(answered, at_limits, confidence)
    classifier = judged(model)._answering(outcome.selection, stated)
    classifier.records_ = classifier.records_.using(*(attempt.rows for attempt in attempts))
    classifier.certificate_ = replace(
        certificate,
        attempts=attempts,
        price=tuple(prices(answered, others)),
        notes=(*of_attempt, *notes, *certificate.notes),
        model=classifier,
        rule=judged(classifier)._rule_digest,
    )
    return classifier


def _refuse_few_rows(
    limits: Sequence[Limit], fresh: Fresh, level: float, earlier: tuple[Attempt, ...]
) -> None:
    """Raise if a limited subgroup has no rows, or too few for any test, before an attempt is spent.

    Only numbers of rows are read. One answer may keep a limit by construction where the rule reads groups or
    defers, so few rows are no reason to refuse there.
    """
    may_keep = judged(fresh.model).by_group or fresh.answered.strata.defers
    faults = []
    for limit in limits:
        rate = limit.rate
        # The rows of a ratio depend on the answers.
        samples = fresh.samples(error(by=rate.by) if rate.is_ratio else rate)
        names = [sample.name for sample in samples]
        bounds = [limit.bound] * len(names) if limit.compares else limit.bounds(names).tolist()
        is_tested = rate.is_share and not (limit.compares or rate.is_ratio or may_keep)
        for sample, bound in zip(samples, bounds, strict=True):
            allowed = limit.against(bound)
            needed = int(
                not (np.isnan(bound) or (rate.kind == "representation" and limit.from_above))
            )
            if is_tested and 0.0 < allowed < 1.0:
                needed = rows_for_no_error(allowed, level)
            n = len(sample.rows)
            if n < needed:
                of_group = "" if sample.name is None else f" of {unit_name(sample.name)}"
                words = f"{n:,} rows, and needs at least {needed:,}" if n else "no rows"
                faults.append(f"{limit}{of_group} has {words}")
    if faults:
        raise NotCertifiedError(
            f"limits: too few rows to certify: {'; '.join(faults)}. Bring more rows, or leave the limit out. "
            f"{ONLY_COUNTED}",
            attempts=earlier,
        )


def outcome_of(selection: Any, fresh: Fresh, level: float) -> Outcome:
    """Return the outcome of the first procedure that applies to a selection."""
    case = Case(selection, fresh, level)
    for procedure in PROCEDURES:
        plan = procedure.applies(case)
        if plan is not None:
            break
    outcome: Outcome = procedure.run(case, plan)
    if outcome.selection and len(np.unique(outcome.answered.answered.actions)) == 1:
        return Outcome(outcome.answered, level, ONE_ANSWER)
    return outcome


def prices(own: Fresh, others: Mapping[str, Fresh | None]) -> Iterator[Price]:
    """Yield by how much other answers to the same rows, by the limit that they leave out, err less."""
    (of_own,) = own.samples(error())
    for name, rows in others.items():
        if rows is not None:
            (without,) = rows.samples(error())
            differences = of_own.values - without.values
            squares = np.square(differences - differences.mean()).sum()
            noise = np.sqrt(squares + 2.0) / len(differences)  # with two added rows of ±1
            yield Price(name, float(of_own.mean), float(without.mean), float(noise))


def _warn_of_useless_rule(answered: Fresh) -> None:
    """Warn of a rule with nearly one answer to all rows."""
    strata = answered.answered.strata
    shares = np.bincount(answered.answered.actions, minlength=strata.n_actions) / len(answered)
    if shares.max() >= NEARLY_ALL:
        name = [*map(repr, strata.classes), HUMAN_REVIEW][int(shares.argmax())]
        warn_user(
            f"the certified rule answers {name} to {shares.max():.1%} of these rows; loosen the limits, or "
            "bring more rows",
            UselessRuleWarning,
        )
