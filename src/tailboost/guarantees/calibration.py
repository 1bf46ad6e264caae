"""Calibration: the least restricted rule of a classifier with targets certified by fresh rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.checks import check_number
from tailboost.core.subgroups import unit_name
from tailboost.core.warn import warn_user
from tailboost.guarantees.certificates import (
    Certificate,
    error_names,
    read_rates,
    targets_every,
    targets_of,
    unlisted,
)
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows, Rule, fresh_rows
from tailboost.guarantees.leakage import EqualRows
from tailboost.guarantees.ledger import Attempt, call_key, spent_by_next
from tailboost.guarantees.path import from_the_likeliest
from tailboost.guarantees.rank_rules import RankRules
from tailboost.guarantees.rate_bounds import Kind, RateFamily, limit_bounds
from tailboost.rates import BELOW, Limit, checked_limits
from tailboost.rates.bounds import rows_needed

__all__ = ["NotCertifiedError", "Shortfall", "calibrate", "candidates"]

# Number of tested rules, at equal fractions of the targets, and the smallest limit on an error.
POINTS, LEAST = 25, 1e-6
# The most rates that a note lists.
SHOWN = 8


@dataclass(frozen=True)
class Shortfall:
    """A target without a certificate for the safest rule.

    Attributes
    ----------
    name : str
        The class, group or cell.
    error : float or None
        Its error on the rows; None without rows.
    n : int
        Number of its rows.
    target : float
        The largest error allowed.
    more_rows : int or None
        Approximate number of fresh rows of the subgroup that the next attempt needs (`rows_needed`). If
        ``error`` is below the target, the number assumes that ``error`` is the true error. If only ``low`` is
        below the target, the number assumes that ``low`` is the true error. Otherwise None.
    low : float
        Lower 95 % confidence bound on the true error.
    """

    name: str
    error: float | None
    n: int
    target: float
    more_rows: int | None
    low: float = 0.0

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.name} (target {self.target:g}) has no rows"
        words = f"{self.name} has an error of {self.error:.4f} on {self.n:,} rows (target {self.target:g})"
        if self.more_rows is None:
            return f"{words}. The true error is at least {self.low:.4f} (95 %), so more rows would not help"
        rows = f"bout {self.more_rows:,} fresh rows of this subgroup would"
        if self.error >= self.target:
            return f"{words}. The true error may be as low as {self.low:.4f} (95 %). A{rows} then suffice"
        return f"{words}. If this is the true error, a{rows} suffice"


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


def calibrate(
    model: Any,
    X_cal: Any,
    y_cal: Any,
    max_error: Any = None,
    *,
    limits: Any = None,
    confidence: float = 0.95,
    groups: Any = None,
    rule: Rule = "predict",
    previous: Any = None,
    subgroups: Any = None,
    equal_rows: EqualRows = "copies",
    clusters: Any = None,
    attempts: int | None = None,
) -> Any:
    """Return the least restricted rule of a classifier with certificates for all targets, from fresh rows.

    * *Ranks.* If each limit is about the share of some rows with one of two answers (misses, false alarms,
      selection rates), thresholds are placed at ranks of the fresh scores. Their true rates are then known
      up to a Beta distribution, and need no test. The same holds for one gap or ratio of such shares
      between groups, if the rule reads the group.
    * *Fixed sequence.* Otherwise rules are tested from the safest to the one with the smallest overall error
      within the targets. The sequence depends on the selection data alone. Each rule is tested for all
      targets at the whole level, and the last rule before the first failure is returned ([1]_).

    An attempt spends .9 of the error probability that earlier ones left, so all certificates of all
    attempts hold together. Each attempt needs new rows. The model's ledger counts the attempts, also of its
    copies.

    Parameters
    ----------
    model : classifier
        One of tailboost's, with ``tradeoff``. The attempt is recorded in its ``ledger_`` before any rule is
        tested; nothing else changes. A shallow copy shares the ledger. A deep copy, a pickle and a file carry
        the attempts so far.
    X_cal, y_cal : array-like of shape (n, d), (n,)
        Fresh rows and their labels: independent draws, unused in the fit.
    max_error : float or dict, optional
        The largest errors allowed, as in `tailboost.certify`: for every group, or without groups for every
        class; or by name.
    limits : list of Limit or str, optional
        Limits on rates instead, for a `RobustMixtureClassifier`; by default those of its fit. The tested
        rules are selected within tighter limits: by multiples of half their 95 % intervals on the selection
        data. The sequence starts at the safest rule on these data.
    confidence : float in (0, 1), default=0.95
        Probability that all targets hold.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Groups of the rows, for targets of groups or cells and for a group-aware model.
    rule : {"predict", "randomised"}, default="predict"
        The rule with the targets: ``predict``, by exact binomial tests, or the randomised rule with the label
        distribution ``predict_distribution``, by betting.
    previous : NotCertifiedError, Certificate or calibrated classifier, optional
        The result of an attempt that the model's ledger does not know: of another fit or of a deep copy. It
        counts, with all earlier ones.
    subgroups : list or dict of lists, optional
        All subgroups, as in `tailboost.certify`; by default the groups of the model's fit (``groups_``). A
        number as ``max_error`` is a target of each, also without rows.
    equal_rows, clusters : optional
        As in `tailboost.certify`; ``shortfalls`` then count clusters.
    attempts : int, optional
        The number of attempts that are made at most. They divide the error probability evenly: with 1 this
        attempt has all of it, and further ones are refused. By default any number may follow.

    Returns
    -------
    classifier
        With the same candidates. Its ``certificate_`` holds the targets. Other errors, also on the
        calibration rows, are estimates: `tailboost.certify` bounds them on further rows.

    Raises
    ------
    NotCertifiedError
        If the safest rule misses a target, for example of a group without rows.
        ``shortfalls`` names the targets and gives approximate numbers of sufficient rows.
    LeakageError
        If rows were used in the fit, the selection or an earlier attempt.
    ValueError
        If an argument is not as described.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
       Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> import tailboost as tb
    >>> X, y = make_classification(3000, weights=[0.8], class_sep=0.8, random_state=0)
    >>> clf = tb.WorstClassBoostClassifier(n_estimators=5, random_state=0).fit(X[:1000], y[:1000])
    >>> calibrated = tb.calibrate(clf, X[1000:], y[1000:], max_error={1: 0.3})
    >>> [(b.name, b.upper) for b in calibrated.certificate_.bounds]
    [('class 1', 0.3)]
    """
    check_number(confidence, "confidence", 0, 1, below=True)
    if rule not in ("predict", "randomised"):
        raise ValueError(f"rule must be 'predict' or 'randomised', got {rule!r}")
    if attempts is not None and (isinstance(attempts, bool) or int(attempts) != attempts or attempts < 1):
        raise ValueError(f"attempts must be a whole number from 1, got {attempts!r}")
    if not hasattr(model, "tradeoff"):
        raise ValueError(
            f"model must be a classifier of tailboost with tradeoff(), got {type(model).__name__}; "
            "tailboost.tune makes one of any fitted model"
        )
    checked, earlier = _stated_limits(model, max_error, limits), attempts_of(previous)
    rates = [limit.rate for limit in checked]
    about = {"equal_rows": equal_rows, "subgroups": subgroups, "clusters": clusters}
    opened = model.opened(X_cal, groups)  # the models answer once for all rules
    fresh = fresh_rows(model, X_cal, y_cal, groups, rates, () if checked else (rule,), opened=opened, **about)
    targets = Targets.of(fresh, checked, max_error, rule)
    targets.refuse_absent(fresh, confidence, earlier)
    call = repr((sorted(targets.allowed.items(), key=repr), checked, confidence, rule, subgroups, equal_rows))
    procedures = targets.procedures(model, fresh, opened)
    attempt = Attempt(call_key(model, fresh, call), fresh.used)
    # Recorded before the test: whatever ends this call, its rows are used up.
    made = model.ledger_.record(attempt, earlier, equal_rows=fresh.equal_rows, attempts=attempts)
    level = made[-1].spent * (1.0 - confidence)
    for procedure in procedures:
        applies, passed, tested = procedure.run(level)
        if applies:
            break
    if passed is None:
        raise not_certified(targets.families(tested), procedure.tested, confidence, made, attempts)
    return _certified(passed, procedure, targets, fresh, confidence, made)


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

    def procedures(self, model: Any, fresh: FreshRows, opened: Any) -> list[Any]:
        """Return the procedures by power; a later one runs if an earlier one does not apply."""
        if self.kind is not None:
            return [FixedSequence(candidates(model, self.kind, self.allowed), fresh, self)]
        base = model
        if self.limits != list(checked_limits(model.limits or ())):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the sequence itself tightens the limits
                base = model.reweight(limits=self.limits, confidence=0)
        ranked = RankRules.of(base, self.limits, fresh, opened)
        sequence = FixedSequence(from_the_likeliest(model, self.limits, len(fresh)), fresh, self)
        return [sequence] if ranked is None else [ranked, sequence]


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

    def made(self, classifier: Any) -> str:
        """Return how the certified classifier was made."""
        stated = "; ".join(map(str, classifier.limits)) if self.targets.limits else ""
        return (
            "The rule is the least restricted one of a sequence fixed before these rows were used. All of "
            f"them were tested for each rule.{f' It was selected within {stated}.' if stated else ''}"
        )

    def run(self, level: float) -> tuple[bool, Any, FreshRows]:
        """Return True, the certified classifier or None, and the rows with the answers tested last."""
        passed = None
        for classifier in self.rules:
            answered = self.fresh.by(classifier)
            bounds = limit_bounds(self.targets.families(answered), level)
            if any(bound.certified is False for bound in bounds):
                break
            passed = classifier
        return True, passed, answered


def _stated_limits(model: Any, max_error: Any, limits: Any) -> list[Limit]:
    """Return the checked limits on rates; none with ``max_error``."""
    if max_error is not None:
        if limits is not None:
            raise ValueError("max_error and limits were both given; state the first as a limit")
        return []
    checked = list(
        checked_limits(read_rates((getattr(model, "limits", None) or ()) if limits is None else limits))
    )
    if not checked:
        raise ValueError("max_error or limits is needed: there is no target to certify")
    if not hasattr(model, "limits"):
        raise ValueError(f"limits: a {type(model).__name__} takes no limits on rates; give max_error")
    return checked


def _certified(
    classifier: Any,
    procedure: Any,
    targets: Targets,
    fresh: FreshRows,
    confidence: float,
    attempts: tuple[Attempt, ...],
) -> Any:
    """Return the classifier with its certificate."""
    answered, fingerprints = fresh.by(classifier), fresh.fingerprints
    assert fingerprints is not None
    bounds = limit_bounds(targets.families(answered), attempts[-1].spent * (1.0 - confidence))
    certified = [bound.at_target(procedure.method) for bound in bounds if bound.target is not None]
    classifier.chosen_rows_ = (*classifier.chosen_rows_, fingerprints)
    classifier.used_rows_ = (*classifier.used_rows_, *(each.rows for each in attempts))
    plural = "limits" if targets.limits else "targets"
    notes = [
        f"The {plural} are certified, and nothing tighter. {procedure.made(classifier)}",
        f"This was attempt {len(attempts)}. It spent {attempts[-1].spent:.3g} of the allowed error "
        "probability. All attempts in the model's ledger together keep the confidence.",
        *_price(fresh, answered, targets),
        *fresh.notes,
        *unlisted(fresh, [limit.rate.by for limit in targets.limits] or [targets.kind]),
    ]
    if targets.limits:
        classifier.limits = targets.limits
    _warn_of_constant(answered)
    # The certificate holds a copy of the classifier, because the classifier holds the certificate.
    errors, rates = ([], tuple(certified)) if targets.limits else (certified, ())
    about = confidence, len(fresh), tuple(notes), copy.copy(classifier), fingerprints, attempts, rates
    classifier.certificate_ = Certificate(errors, *about)
    return classifier


def _price(before: FreshRows, after: FreshRows, targets: Targets) -> Iterator[str]:
    """Yield the overall error and the limited rates of the selected and of the certified rule."""
    rule = targets.rule
    (error_before,), (error_after,) = (each.samples(ERRORS["mean"], rule) for each in (before, after))
    yield (
        f"Price, as estimates on these rows: overall error {error_before.mean:.4f} of the given rule, "
        f"{error_after.mean:.4f} of the certified one."
    )
    changes = []
    for old, new in zip(targets.families(before), targets.families(after), strict=True):
        for one, other in zip(old.samples, new.samples, strict=True):
            if targets.limits and len(other.rows):
                of = "" if other.name is None else f" of {unit_name(other.name)}"
                changes.append(f"{new.rate.words}{of} {one.mean:.4f} to {other.mean:.4f}")
    if changes:
        more = f"; and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        yield f"Limited rates, from the given to the certified rule: {'; '.join(changes[:SHOWN])}{more}."


def _warn_of_constant(fresh: FreshRows) -> None:
    """Warn if every row gets one answer."""
    answers = np.unique(fresh.answered.actions) if fresh.answered.actions.ndim == 1 else np.zeros(2)
    if len(answers) == 1:
        classes = fresh.answered.strata.classes
        answer = repr(classes[int(answers[0])]) if answers[0] < len(classes) else "human review"
        warn_user(
            f"the targets are certified only for a constant classifier: predict answers {answer} to every "
            "row; give the other classes targets too, allow larger errors, or bring more calibration rows"
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # missed limits are no reason to skip a rule
        try:
            return [model.reweight(objective=f"worst_{kind}", max_error=part) for part in parts]
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
) -> NotCertifiedError:
    """Return the error with the targets that the tested rule misses."""
    level, last = attempts[-1].spent * (1.0 - confidence), declared is not None and len(attempts) >= declared
    next_level = level if last else spent_by_next(attempts, declared) * (1.0 - confidence)
    shortfalls, words = [], []
    for family in families:
        bounds = limit_bounds([family], level)
        later = limit_bounds([family], next_level)
        for j, bound in enumerate(bounds):
            if bound.certified is not False:
                continue
            if bound.rate is None:  # an error: number of rows for its target
                estimate, target = float(bound.estimate or 0.0), float(bound.target or 0.0)
                low, _ = family.ends(family.samples[j], 0.05, (BELOW,))
                likely = low if estimate >= target else estimate
                needed = rows_needed(likely, target, 1.0 - next_level) if likely < target else None
                shortfalls.append(Shortfall(bound.name, estimate, bound.n, target, needed, low))
                words.append(str(shortfalls[-1]))
                continue
            printed = "–" if bound.estimate is None else f"{bound.estimate:.4g}"
            shows = bound.upper if bound.sense == "≤" else bound.lower
            words.append(
                f"{bound.title} {bound.sense} {bound.target:g}: estimate {printed} on {bound.n:,} rows, "
                f"which certifies only {bound.sense} {shows:.4g} ({later[j].verdict})"
            )
    return NotCertifiedError(
        f"no rule with several answers has its targets certified with {100 * confidence:g} % confidence. "
        + (
            f"For {rule}: {'; '.join(words)}."
            if words
            else "Each target could be certified by itself, but on these rows no rule keeps all of them."
        ),
        shortfalls,
        attempts,
        f"This was attempt {len(attempts)}. Its rows cannot be used again, alone or with others. "
        + (
            "All declared attempts were made."
            if last
            else f"Give rows that no attempt had; that attempt spends {next_level:.2g}. The model's ledger "
            "records its attempts, and save_model stores them. A model that is fitted again needs previous= "
            "this error."
        ),
    )
