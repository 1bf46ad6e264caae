"""Calibration: the least restricted rule of a classifier with targets certified by fresh rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol, Self

import numpy as np

from tailboost.core.array_types import Model
from tailboost.core.checks import check_number
from tailboost.core.exceptions import UselessRuleWarning
from tailboost.core.long_work import steps
from tailboost.core.subgroups import HUMAN_REVIEW, unit_name
from tailboost.core.warn import warn_user
from tailboost.guarantees.certificates import (
    Certificate,
    Price,
    check_unlabeled,
    error_names,
    read_rates,
    targets_every,
    targets_of,
    unlisted,
)
from tailboost.guarantees.fresh_rows import ERRORS, FreshInput, FreshRows, Rule, fresh_rows
from tailboost.guarantees.ledger import Attempt, call_key, may_follow, spent_by_next
from tailboost.guarantees.path import from_the_likeliest
from tailboost.guarantees.rank_rules import RankRules
from tailboost.guarantees.rate_bounds import CertifiedBound, Kind, RateFamily, limit_bounds
from tailboost.guarantees.threshold_sequences import ThresholdSequences
from tailboost.rates import ABOVE, BELOW, Limit, checked_limits
from tailboost.rates.power import MOST_ROWS

__all__ = ["NotCertifiedError", "Shortfall", "calibrate_selected", "candidates"]

# Number of tested rules, at equal fractions of the targets, and the smallest limit on an error.
POINTS, LEAST = 25, 1e-6
CONSTANT = "one answer"  # method of a target that needs no test


#: What a target lacks: rows of `calibrate`, rows of the selection, or something that is no row.
Missing = Literal["calibration rows", "selection rows", "nothing that rows can give"]


@dataclass(frozen=True)
class Shortfall:
    """A target or limit without a certificate, and what it lacks.

    Attributes
    ----------
    name : str
        The class, group or cell of a target on errors; the rate and its subgroup of a limit.
    estimate : float or None
        The error or rate of the tested rule on the rows; None without rows.
    n : int
        Number of its rows; for a gap or ratio those of the smallest subgroup.
    target : float
        The target or limit.
    more_rows : int or None
        Approximate number of fresh rows of the subgroup that the next attempt needs (`rows_needed`), if
        ``estimate`` is the true value or, should it miss the target, if ``possible`` is. Otherwise None.
    possible : float
        The true value closest to meeting the target, by a one-sided 95 % confidence bound.
    sense : {"≤", "≥"}
        The side of the target.
    missing : {"calibration rows", "selection rows", "nothing that rows can give"}
        "calibration rows" if the true value may meet the target. Otherwise "selection rows" if the rule meets
        the target on the selection data, so that another selection may give another rule.
    """

    name: str
    estimate: float | None
    n: int
    target: float
    more_rows: int | None
    possible: float = 0.0
    sense: str = "≤"
    missing: Missing = "calibration rows"

    def __str__(self) -> str:
        if self.estimate is None:
            return f"{self.name} (target {self.target:g}) has no rows"
        words = f"{self.name}: {self.estimate:.4f} on {self.n:,} rows (target {self.sense} {self.target:g})"
        least, low = ("at least", "low") if self.sense == "≤" else ("at most", "high")
        if self.missing == "selection rows":
            return (
                f"{words}. The true value is {least} {self.possible:.4f} (95 %), but it met the target on "
                "the selection data. More selection rows may give another rule"
            )
        if self.missing == "nothing that rows can give":
            return f"{words}. The true value is {least} {self.possible:.4f} (95 %): more rows would not help"
        rows = "more fresh rows"
        if self.more_rows is not None and self.more_rows >= MOST_ROWS:
            return (
                f"{words}. No practical number of rows certifies this rule. A limit that it breaks leads on, "
                "such as one on the misses of a label that it hardly gives"
            )
        if self.more_rows is not None:
            rows = f"about {self.more_rows:,} fresh rows of this subgroup"
        if self.keeps(self.estimate):
            return f"{words}. If this is the true value, {rows} suffice"
        return f"{words}. The true value may be as {low} as {self.possible:.4f} (95 %); then {rows} suffice"

    def keeps(self, value: float) -> bool:
        """Return whether a value meets the target with room for a certificate."""
        return value > self.target if self.sense == "≥" else value < self.target

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self)

    @classmethod
    def of(
        cls, family: RateFamily, place: int, bound: CertifiedBound, level: float, selected: float | None
    ) -> Self:
        """Return what a bound lacks.

        Parameters
        ----------
        family : RateFamily
            The family of the bound.
        place : int
            Number of the bound in its family.
        bound : CertifiedBound
            The bound, as the next attempt would test it.
        level : float
            Level of the next attempt.
        selected : float or None
            The same error or rate on the selection data, if known.
        """
        name = bound.name if bound.rate is None else bound.title
        target, estimate = float(bound.target or 0.0), bound.estimate
        short = cls(name, estimate, bound.n, target, None, sense=bound.sense)
        if estimate is None:
            return short
        compares = place == len(family.samples)
        if compares:
            widest = family.bounds(0.05 / (2 * len(family.samples)))[-1]
            low, high = widest.lower, widest.upper
        else:
            low, high = family.ends(family.samples[place], 0.05, (BELOW if bound.sense == "≤" else ABOVE,))
        possible = low if bound.sense == "≤" else high
        likely = estimate if short.keeps(estimate) else possible
        if short.keeps(likely):
            known = likely == estimate or not compares
            more = family.sufficient_rows(replace(bound, estimate=likely), level) if known else None
            return replace(short, more_rows=more, possible=possible)
        met = selected is not None and short.keeps(selected)
        return replace(
            short, possible=possible, missing="selection rows" if met else "nothing that rows can give"
        )


class NotCertifiedError(ValueError):
    """No rule of the sequence has all its targets certified.

    Parameters
    ----------
    message : str
        The message.
    shortfalls : sequence of Shortfall
        The targets without a certificate for the safest rule.
    attempts : tuple of Attempt
        This and all earlier attempts with their rows, for ``calibrate(previous=…)``.
    advice : str
        The next step in Python; the end of the message.
    """

    def __init__(
        self,
        message: str,
        shortfalls: Sequence[Shortfall] = (),
        attempts: tuple[Attempt, ...] = (),
        advice: str = "",
    ) -> None:
        super().__init__(f"{message} {advice}" if advice else message)
        self.reason = message
        self.shortfalls = tuple(shortfalls)
        self.attempts = attempts
        self.advice = advice


def calibrate_selected(
    model: Any,
    given: FreshInput,
    max_error: Any = None,
    *,
    limits: Any = None,
    confidence: float = 0.95,
    rule: Rule = "predict",
    previous: Any = None,
    attempts: int | None = None,
) -> Any:
    """Return the least restricted rule of a classifier with certificates; see `tailboost.calibrate`.

    Parameters
    ----------
    model : classifier
        One of tailboost's, with ``tradeoff``. The attempt is recorded in its ``ledger_`` before any rule is
        tested.
    given : FreshInput
        The rows, with all that belongs to them.
    max_error, limits, confidence, rule, previous, attempts
        As in `tailboost.calibrate`.

    Raises
    ------
    NotCertifiedError
        If the safest rule misses a target.
    LeakageError
        If rows were used in the fit, the selection or an earlier attempt.
    ValueError
        If an argument is not as described.
    """
    check_number(confidence, "confidence", 0, 1, below=True)
    if rule not in ("predict", "randomised"):
        raise ValueError(f"rule must be 'predict' or 'randomised', got {rule!r}")
    if attempts is not None and (isinstance(attempts, bool) or int(attempts) != attempts or attempts < 1):
        raise ValueError(f"attempts must be a whole number from 1, got {attempts!r}")
    own = getattr(model, "limits", None)
    checked = stated_limits(max_error, own if limits is None and max_error is None else limits)
    if checked and not hasattr(model, "limits"):
        raise ValueError(f"limits: a {type(model).__name__} takes no limits on rates; give max_error")
    earlier = attempts_of(previous)
    rates = [limit.rate for limit in checked]
    given = given.with_and_without_labels()
    if given.X_unlabeled is not None:
        check_unlabeled(model, checked, given.clusters)
    fresh = fresh_rows(model, given, rates, () if checked else (rule,), opens=True)
    targets = Targets.of(fresh, checked, max_error, rule)
    targets.refuse_absent(fresh, confidence, earlier)
    stated = checked, confidence, rule, given.subgroups, given.equal_rows
    call = repr((sorted(targets.allowed.items(), key=repr), *stated))
    procedures = targets.procedures(model, fresh)
    attempt = Attempt(call_key(model, fresh, call), fresh.used)
    # Recorded before the test: whatever ends this call, its rows are used up.
    made = model.ledger_.record(attempt, earlier, equal_rows=fresh.equal_rows, attempts=attempts)
    level = made[-1].spent * (1.0 - confidence)
    for procedure in procedures:
        applies, passed, answered = procedure.run(level)
        if applies:
            break
    if passed is None:
        selected = {(line.rate, line.subgroup): line.value for line in answered.judge.rates_}
        families = targets.families(answered)
        raise not_certified(families, procedure.tested, confidence, made, attempts, selected)
    return _certified(passed, procedure, targets, fresh, confidence, made)


class Procedure(Protocol):
    """A way to certify all targets on fresh rows.

    Attributes
    ----------
    method : str
        Name of the procedure in certificates.
    tested : str
        What a refusal is about: the rule whose rates it names.
    """

    method: str
    tested: str

    def made(self, classifier: Model) -> str:
        """Return how the certified classifier was made, for the certificate."""

    def run(self, level: float) -> tuple[bool, Model | None, FreshRows]:
        """Return whether the procedure applies, the certified classifier if there is one, and the rows.

        The rows have the answers that a refusal names. If the procedure does not apply, it has read nothing
        of the fresh rows but their numbers, so the next one may have the whole level.
        """


@dataclass(frozen=True, eq=False)
class Targets:
    """What has to be certified: limits on rates, or largest errors of classes, groups or cells."""

    limits: list[Limit]
    kind: Kind | None  # of the errors; None for limits
    allowed: dict[Any, float]  # the largest errors, by name
    of_every: bool  # whether they apply to every subgroup
    rule: Rule

    @classmethod
    def of(cls, fresh: FreshRows, limits: list[Limit], max_error: Any, rule: Rule) -> Targets:
        """Return the targets of fresh rows; raise ValueError if there are none."""
        targets = targets_of(max_error, error_names(fresh))
        if max_error is not None and not targets:
            raise ValueError(f"max_error={max_error!r} sets no target below 1")
        kind = next((kind for kind, _ in targets), None)
        allowed = {name: target for (_, name), target in targets.items()}
        return cls(limits, kind, allowed, targets_every(max_error), rule)

    def families(self, answered: FreshRows) -> list[RateFamily]:
        """Return the limited rates of answered rows."""
        if self.kind is None:
            return [RateFamily.of(limit, answered) for limit in self.limits]
        return [RateFamily.of_errors(self.kind, answered, self.rule, self.allowed, of_every=self.of_every)]

    def refuse_absent(self, fresh: FreshRows, confidence: float, earlier: tuple[Attempt, ...]) -> None:
        """Raise if a target has no rows; the rows of a precision depend on the rule."""
        absent = [
            Shortfall(bound.title if self.limits else bound.name, None, 0, float(bound.target or 0.0), None)
            for family in self.families(fresh)
            for bound in (() if family.rate.is_ratio else family.bounds(1.0 - confidence))
            if not bound.n and bound.certified is False
        ]
        if absent:
            words = "; ".join(map(str, absent))
            raise NotCertifiedError(f"a target without rows cannot be certified: {words}", absent, earlier)

    def procedures(self, model: Model, fresh: FreshRows) -> list[Procedure]:
        """Return the procedures by power; a later one runs if an earlier one does not apply."""
        if self.kind is not None:
            return [FixedSequence(candidates(model, self.kind, self.allowed), fresh, self)]
        base = model
        if self.limits != list(checked_limits(model.limits or ())):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the sequence itself tightens the limits
                base = model.reweight(limits=self.limits, confidence=0)
        n_fresh = [fresh.n_rows_of(limit.rate) for limit in self.limits]
        sequence = FixedSequence(from_the_likeliest(model, self.limits, n_fresh), fresh, self)
        of_thresholds = (each.of(base, self.limits, fresh) for each in (RankRules, ThresholdSequences))
        return [*(each for each in of_thresholds if each is not None), sequence]


@dataclass(frozen=True, eq=False)
class FixedSequence:
    """Rules in an order that was fixed before the fresh rows were read; each is tested at the whole level.

    The last rule before the first failure is certified: if it breaks a limit, then the first rule of the
    sequence that breaks one was rejected, which has at most the probability of the level ([1]_).

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
       Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
    """

    rules: Iterable[Any]
    fresh: FreshRows
    targets: Targets

    method = "fixed sequence"
    tested = "the safest rule"

    def made(self, classifier: Model) -> str:
        """Return how the certified classifier was made."""
        stated = "; ".join(map(str, classifier.limits)) if self.targets.limits else ""
        return (
            "The rule is the least restricted one of a sequence fixed before these rows were used. All of "
            f"them were tested for each rule.{f' It was selected within {stated}.' if stated else ''}"
        )

    def run(self, level: float) -> tuple[bool, Model | None, FreshRows]:
        """Return True, the certified classifier or None, and the rows with the answers tested last."""
        passed, rules = None, list(self.rules)
        with steps("tested rules", len(rules)) as done:
            for classifier in rules:
                answered = self.fresh.by(classifier)
                bounds = limit_bounds(self.targets.families(answered), level)
                if any(bound.certified is False for bound in bounds):
                    break
                passed = classifier
                done()
        return True, passed, answered


def stated_limits(max_error: Any, limits: Any) -> list[Limit]:
    """Return the checked limits on rates; none with ``max_error``.

    Raises
    ------
    ValueError
        If both or none of them are given.
    """
    if max_error is not None:
        if limits is not None:
            raise ValueError("max_error and limits were both given; state the first as a limit")
        return []
    checked = list(checked_limits(read_rates(() if limits is None else limits)))
    if not checked:
        raise ValueError("max_error or limits is needed: there is no target to certify")
    return checked


def _certified(
    classifier: Model,
    procedure: Procedure,
    targets: Targets,
    fresh: FreshRows,
    confidence: float,
    attempts: tuple[Attempt, ...],
) -> Any:
    """Return the classifier with its certificate."""
    answered, fingerprints = fresh.by(classifier), fresh.fingerprints
    assert fingerprints is not None
    bounds = limit_bounds(targets.families(answered), attempts[-1].spent * (1.0 - confidence))
    # Without a row that counts, a target is kept by construction: no test passes without rows.
    certified = [
        bound.at_target(procedure.method if bound.n else CONSTANT)
        for bound in bounds
        if bound.target is not None
    ]
    classifier.chosen_rows_ = (*classifier.chosen_rows_, fingerprints)
    classifier.used_rows_ = (*classifier.used_rows_, *(each.rows for each in attempts))
    plural = "limits" if targets.limits else "targets"
    notes = [
        f"The {plural} are certified, and nothing tighter. {procedure.made(classifier)}",
        f"This was attempt {len(attempts)}. It spent {attempts[-1].spent:.3g} of the allowed error "
        "probability. All attempts in the model's ledger together keep the confidence.",
        *answered.notes,  # of the certified rule, which may defer other rows than the given one
        *unlisted(fresh, [limit.rate.by for limit in targets.limits] or [targets.kind]),
    ]
    if untested := [bound.title for bound in certified if not bound.n]:
        words = f"{', '.join(untested)}: no threshold is certified, so every row there has one answer"
        notes.append(f"{words}. It keeps the limit by construction.")
        warn_user(f"{words}, which keeps the limit by construction", UselessRuleWarning)
    if targets.limits:
        classifier.limits = targets.limits
    _warn_of_useless(answered, targets)
    if told := _with_one_answer(answered, targets):
        words = f"{', '.join(told)}: the certified rule gives every row there one answer"
        notes.append(f"{words}.")
        if not untested:
            warn_user(words, UselessRuleWarning)
    # The certificate holds a copy of the classifier, because the classifier holds the certificate.
    classifier.certificate_ = Certificate(
        [] if targets.limits else certified,
        confidence,
        len(fresh),
        tuple(notes),
        model=copy.copy(classifier),
        rows=fingerprints,
        attempts=attempts,
        rates=tuple(certified) if targets.limits else (),
        price=tuple(_price(fresh, answered, targets)),
    )
    return classifier


def _price(before: FreshRows, after: FreshRows, targets: Targets) -> Iterator[Price]:
    """Yield the overall error of labelled rows, then limited rates, of the given and the certified rule."""
    (error_before,), (error_after,) = (each.samples(ERRORS["mean"], targets.rule) for each in (before, after))
    if len(error_after.rows):
        yield Price("overall error", error_before.mean, error_after.mean, len(error_after.rows))
    for old, new in zip(targets.families(before), targets.families(after), strict=True):
        assert new.limit is not None
        names = [sample.name for sample in new.samples]
        limited = np.ones(len(names), bool) if new.limit.compares else ~np.isnan(new.limit.bounds(names))
        for one, other, counts in zip(old.samples, new.samples, limited.tolist(), strict=True):
            if counts and len(other.rows):
                of = "" if other.name is None else f" of {unit_name(other.name)}"
                given = None if np.isnan(one.mean) else float(one.mean)
                yield Price(f"{new.rate.words}{of}", given, float(other.mean), len(other.rows))


def _with_one_answer(fresh: FreshRows, targets: Targets) -> list[str]:
    """Return the names of limited groups whose rows have one answer, if not all rows have."""
    answered, found = fresh.answered, dict[str, None]()
    if answered.actions.ndim > 1 or len(np.unique(answered.actions)) == 1:
        return []
    for by in dict.fromkeys(limit.rate.by for limit in targets.limits):
        names, inside = answered.strata.subgroups(by)
        for name, unit in zip(names, inside, strict=True) if by not in (None, "class", "cell") else ():
            there = answered.actions[unit[answered.stratum]]
            if len(there) and (there == there[0]).all():
                found[unit_name(name)] = None
    return list(found)


def _warn_of_useless(fresh: FreshRows, targets: Targets) -> None:
    """Warn if every row gets one answer, or if such a rule also keeps the targets and errs no more."""
    answered = fresh.answered
    strata, randomised = answered.strata, answered.actions.ndim > 1
    answers = np.zeros(2) if randomised else np.unique(answered.actions)
    if len(answers) == 1:
        answer = repr(strata.classes[int(answers[0])]) if answers[0] < strata.n_classes else HUMAN_REVIEW
        warn_user(
            f"the targets are certified only for a constant classifier: predict answers {answer} to every "
            "row; give the other classes targets too, allow larger errors, or bring more calibration rows"
        )
    if len(answers) == 1 or randomised or strata.n_classes in answers:  # deferral has no such comparison
        return
    error = fresh.samples(ERRORS["mean"])[0].mean
    for number, label in enumerate(strata.classes):
        constant = replace(fresh, answered=replace(answered, actions=np.full_like(answered.actions, number)))
        errs = constant.samples(ERRORS["mean"])[0].mean
        if errs <= error and all(family.kept_on_rows for family in targets.families(constant)):
            warn_user(
                f"the certified rule errs in {error:.3g} of these rows. To answer {label!r} to every row "
                f"errs in {errs:.3g} and also keeps the targets on these rows. Bring more rows, or "
                "state limits that such an answer breaks",
                UselessRuleWarning,
            )


# -- sequences ---------------------------------------------------------------------------------------------


def candidates(model: Any, kind: Kind, allowed: Mapping[Any, float]) -> Iterable[Any]:
    """Return classifiers with the same candidates, from the safest to the least restricted.

    Each has the smallest overall error within a fraction of the targets. If the selection data do not know
    the subgroups of the targets, the classifiers are the points of the model's curve.
    """
    parts = [
        {name: max(part * b, LEAST) for name, b in allowed.items()} | {None: 1.0}
        for part in np.linspace(0.0, 1.0, POINTS)
    ]
    found = []
    with warnings.catch_warnings(), steps("selected rules", len(parts)) as done:
        warnings.simplefilter("ignore", UserWarning)  # missed limits are no reason to skip a rule
        try:
            for part in parts:
                found.append(model.reweight(objective=f"worst_{kind}", max_error=part))
                done()
            return found
        except ValueError:
            return [point.classifier for point in reversed(model.tradeoff().points)]


# -- attempts ----------------------------------------------------------------------------------------------


def attempts_of(previous: Any) -> tuple[Attempt, ...]:
    """Return an attempt and all earlier ones.

    Raises
    ------
    ValueError
        If ``previous`` is no result of an attempt.
    """
    if previous is None:
        return ()
    attempts: tuple[Attempt, ...] = getattr(getattr(previous, "certificate_", previous), "attempts", ())
    if not attempts and not isinstance(previous, NotCertifiedError):
        raise ValueError(
            "previous must be the result of the previous attempt: the NotCertifiedError, the classifier or "
            f"its certificate_; got {type(previous).__name__}"
        )
    return attempts


def not_certified(
    families: Sequence[RateFamily],
    rule: str,
    confidence: float,
    attempts: tuple[Attempt, ...],
    declared: int | None,
    selected: Mapping[tuple[str, Any], float] | None = None,
) -> NotCertifiedError:
    """Return the error with the targets that the tested rule misses.

    ``selected`` has its errors and rates on the selection data, by rate and subgroup.
    """
    level, last = attempts[-1].spent * (1.0 - confidence), not may_follow(attempts, declared)
    next_level = level if last else spent_by_next(attempts, declared) * (1.0 - confidence)
    known = {} if selected is None else selected
    shortfalls = [
        Shortfall.of(family, j, later, next_level, known.get((str(later.counted), later.subgroup)))
        for family in families
        for j, (bound, later) in enumerate(
            zip(limit_bounds([family], level), limit_bounds([family], next_level), strict=True)
        )
        if bound.certified is False
    ]
    return NotCertifiedError(
        f"no rule with several answers has its targets certified with {100 * confidence:g} % confidence. "
        + (
            f"For {rule}: {'; '.join(map(str, shortfalls))}."
            if shortfalls
            else "Each target could be certified by itself, but on these rows no rule with several answers "
            "keeps all of them."
        ),
        shortfalls,
        attempts,
        f"This was attempt {len(attempts)}. Its rows cannot be used again, alone or with others. "
        + (
            "No attempt may follow."
            if last
            else f"Give rows that no attempt had; that attempt spends {next_level:.2g}. The model's ledger "
            "records its attempts, and save_model stores them. A model that is fitted again needs previous= "
            "this error."
        ),
    )
