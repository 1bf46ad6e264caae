"""Calibration: the least restricted rule of a classifier with targets certified by fresh rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.checks import check_number
from tailboost.core.fingerprints import Fingerprint
from tailboost.core.warn import warn_user
from tailboost.guarantees.attempts import call_key, known_attempts, same_rows
from tailboost.guarantees.certificates import (
    Certificate,
    error_names,
    read_rates,
    targets_every,
    targets_of,
    unlisted,
)
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows, Rule, fresh_rows
from tailboost.guarantees.leakage import EqualRows, LeakageError
from tailboost.guarantees.rate_bounds import CertifiedBound, Kind, RateFamily, limit_bounds
from tailboost.rates import BELOW, InfeasibleLimitsError, Limit, checked_limits
from tailboost.rates.bounds import level_of, rows_needed
from tailboost.selection.problem import SPREAD

__all__ = ["NotCertifiedError", "Shortfall", "calibrate", "candidates"]

# Number of tested rules, at equal fractions of the targets, and the smallest limit on an error.
POINTS, LEAST = 25, 1e-6
METHOD = "fixed sequence"
# Limits are tightened by these multiples of half their intervals, the tightest first.
TIGHTER = (8.0, 6.0, 4.0, 3.0, 2.0, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25)


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
    attempts : tuple of Fingerprint
        Fingerprints of the rows of this and all earlier attempts, for ``calibrate(previous=…)``.
    advice : str
        The next step in Python; the end of the message.
    """

    def __init__(
        self,
        message: str,
        shortfalls: Sequence[Shortfall] = (),
        attempts: tuple[Fingerprint, ...] = (),
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
) -> Any:
    """Return the least restricted rule of a classifier with certificates for all targets, from fresh rows.

    The tested rules run from the safest to the one with the smallest overall error within the targets. The
    sequence depends on the selection data alone. Each rule is tested for all targets at the whole level, and
    the last rule before the first failure is returned (fixed sequence testing, [1]_). If a further attempt
    follows, attempt k of any number spends 6/(π²k²) of 1 − confidence, and then all certificates of
    all attempts hold together. Each attempt needs new rows.

    Parameters
    ----------
    model : classifier
        One of tailboost's, with ``tradeoff``. Its ``calibration_attempts_`` record this attempt, and
        `tailboost.save_model` stores them; nothing else changes.
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
        The result of the previous attempt, for any targets.
    subgroups : list or dict of lists, optional
        All subgroups, as in `tailboost.certify`; by default the groups of the model's fit (``groups_``). A
        number as ``max_error`` is a target of each, also without rows.
    equal_rows, clusters : optional
        As in `tailboost.certify`; ``shortfalls`` then count clusters.

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
    if not hasattr(model, "tradeoff"):
        raise ValueError(
            f"model must be a classifier of tailboost with tradeoff(), got {type(model).__name__}"
        )
    before = attempts_of(previous)
    checked: list[Limit] = []
    if max_error is None:
        given = (getattr(model, "limits", None) or ()) if limits is None else limits
        checked = list(checked_limits(read_rates(given)))
        if not checked:
            raise ValueError("max_error or limits is needed: there is no target to certify")
        if not hasattr(model, "limits"):
            raise ValueError(f"limits: a {type(model).__name__} takes no limits on rates; give max_error")
    elif limits is not None:
        raise ValueError("max_error and limits were both given; state the first as a limit")
    fresh = fresh_rows(
        model,
        X_cal,
        y_cal,
        groups,
        [limit.rate for limit in checked],
        () if checked else (rule,),
        equal_rows=equal_rows,
        subgroups=subgroups,
        clusters=clusters,
    )
    targets = targets_of(max_error, error_names(fresh))
    if max_error is not None and not targets:
        raise ValueError(f"max_error={max_error!r} sets no target below 1")
    kind = next((kind for kind, _ in targets), None)
    allowed, every = {name: target for (_, name), target in targets.items()}, targets_every(max_error)

    def families_of(answered: FreshRows) -> list[RateFamily]:
        if kind is None:
            return [RateFamily.of(limit, answered) for limit in checked]
        return [RateFamily.of_errors(kind, answered, rule, allowed, of_every=every)]

    absent = [
        Shortfall(bound.title if checked else bound.name, None, 0, float(bound.target or 0.0), None)
        for family in families_of(fresh)
        for bound in (() if family.rate.is_ratio else family.bounds(1.0 - confidence))
        if not bound.n and bound.certified is False
    ]
    if absent:  # known before any answer was tested; the rows of a precision depend on the rule
        words = "; ".join(map(str, absent))
        raise NotCertifiedError(f"a target without rows cannot be certified: {words}", absent, before)
    fingerprints = fresh.fingerprints
    assert fingerprints is not None
    call = repr(
        (sorted(targets.items(), key=repr), checked, confidence, rule, len(before), subgroups, equal_rows)
    )
    key = _refuse_repetition(model, fresh, before, call)
    rules = _from_the_safest(model, checked) if kind is None else candidates(model, kind, allowed)
    model.calibration_attempts_ = {**known_attempts(model), key: fingerprints}
    attempts = (*before, fingerprints)
    level = level_of(len(attempts), confidence)
    passed: tuple[Any, FreshRows, list[CertifiedBound]] | None = None
    for classifier in rules:
        answered = fresh.by(classifier)
        families = families_of(answered)
        bounds = limit_bounds(families, level)
        if any(bound.certified is False for bound in bounds):
            break
        passed = classifier, answered, bounds
    if passed is None:
        raise not_certified(families, confidence, attempts)
    classifier, answered, bounds = passed
    classifier.chosen_rows_ = (*classifier.chosen_rows_, fingerprints)
    certified = [bound.at_target(METHOD) for bound in bounds if bound.target is not None]
    plural = "limits" if checked else "targets"
    notes = [
        f"The {plural} are certified, and nothing tighter. The rule is the least restricted one of a "
        f"sequence fixed before these rows were used. All {plural} were tested for each rule.",
        f"This was attempt {len(attempts)}. It spent {level_of(len(attempts), 0.0):.3g} of the allowed "
        "error probability. All attempts together keep the confidence if each is given the result of the "
        "previous one.",
        *fresh.notes,
        *unlisted(fresh, [limit.rate.by for limit in checked] if checked else [kind]),
    ]
    if checked:
        notes.append(f"The rule was selected within {'; '.join(map(str, classifier.limits))}.")
        classifier.limits = checked
    else:
        notes += _notes(answered, rule)
    # The certificate holds a copy of the classifier, because the classifier holds the certificate.
    errors, rates = ([], tuple(certified)) if checked else (certified, ())
    about = confidence, len(fresh), tuple(notes), copy.copy(classifier), fingerprints, attempts, rates
    classifier.certificate_ = Certificate(errors, *about)
    return classifier


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


def _from_the_safest(model: Any, limits: Sequence[Limit]) -> list[Any]:
    """Return rules within tighter limits, from the one most likely to satisfy the limits to the loosest.

    The order depends on the selection data alone. The tightest limits need not give the safest rule: a
    precision close to 1 rests on few rows.
    """
    rules = list(tightened_rules(model, limits))
    margins = [_margin(rule.rates_, rules[-1].rates_) for rule in rules]
    return rules[int(np.argmax(margins)) :]


def _margin(lines: Any, limits: Any) -> float:
    """Return the smallest distance of rates from their limits, in half widths of their intervals.

    A limited rate without an interval (few rows) gives −∞: the rule is not safe.
    """
    bounds = {(limit.rate, limit.subgroup, limit.sense): limit.bound for limit in limits if limit.limit}
    margins = [np.inf]
    for line in lines:
        bound = bounds.get((line.rate, line.subgroup, line.sense), np.nan)
        width = max(line.high - line.value, line.value - line.low)
        distance = (bound - line.value) * (1 if line.sense == "≤" else -1)
        if not np.isnan(bound):
            margins.append(distance / width if width > 0 else -np.inf)
    return float(min(margins))


def tightened_rules(model: Any, limits: Sequence[Limit]) -> Iterator[Any]:
    """Yield rules within limits, from much tighter ones to the given ones; infeasible ones are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # missed limits are no reason to skip a rule
        plain = model.reweight(limits=list(limits), confidence=0)  # the sequence itself tightens the limits
        half: dict[str, dict[Any, float]] = {}
        for line in plain.rates_:
            width = float(np.nan_to_num(max(line.high - line.value, line.value - line.low)))
            if 0 <= line.bound <= 1 and line.rows > 0:
                # A rate far from its limit here can be close if other limits are tighter.
                width = max(width, SPREAD * float(np.sqrt(line.bound * (1 - line.bound) / line.rows)))
            half.setdefault(line.limit, {})[line.subgroup] = width
        for factor in TIGHTER:
            widths = [{unit: factor * w for unit, w in half[str(limit)].items()} for limit in limits]
            tighter = [limit.tightened(by) for limit, by in zip(limits, widths, strict=True)]
            try:
                yield model.reweight(limits=tighter, confidence=0)
            except InfeasibleLimitsError:
                continue
        yield plain


# -- attempts ----------------------------------------------------------------------------------------------


def attempts_of(previous: Any) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of the rows of an attempt and of all earlier ones.

    Raises
    ------
    ValueError
        If ``previous`` is no result of an attempt.
    """
    if previous is None:
        return ()
    attempts: tuple[Fingerprint, ...] = getattr(getattr(previous, "certificate_", previous), "attempts", ())
    if not attempts and not isinstance(previous, NotCertifiedError):
        raise ValueError(
            "previous must be the result of the previous attempt: the NotCertifiedError, the classifier or "
            f"its certificate_; got {type(previous).__name__}"
        )
    return attempts


def _refuse_repetition(model: Any, fresh: FreshRows, before: tuple[Fingerprint, ...], call: str) -> str:
    """Return the key of a call; raise if an earlier attempt had these rows.

    The same call again gives the same result and is no further attempt. Attempts missing in ``previous``
    give a warning.
    """
    key, recorded = call_key(model, fresh, call), known_attempts(model)
    others = {each: fingerprints for each, fingerprints in recorded.items() if each != key}
    again = any(same_rows(each, key) for each in others)
    if again or fresh.met([*before, *others.values()]):
        n = max(len(others), len(before))
        raise LeakageError(
            "X_cal: an earlier attempt had these rows, or some of them. Repeated tests on the same rows do "
            "not keep the confidence. Give rows that no attempt had, with previous= (in Python), the result "
            f"of the previous attempt ({n} attempt{'' if n == 1 else 's'} known to this model)"
        )
    if len(others) > len(before):
        warn_user(
            f"this model was calibrated {len(others)} times before, and previous= contains {len(before)} of "
            "these attempts. Each certificate holds by itself, but the best of several attempts does not "
            "keep the confidence; give previous=, the result of the previous attempt"
        )
    return key


def not_certified(
    families: Sequence[RateFamily], confidence: float, attempts: tuple[Fingerprint, ...]
) -> NotCertifiedError:
    """Return the error with the targets that the safest rule misses."""
    next_level = level_of(len(attempts) + 1, confidence)
    shortfalls, words = [], []
    for family in families:
        bounds = limit_bounds([family], level_of(len(attempts), confidence))
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
        f"no rule of the sequence has its targets certified with {100 * confidence:g} % confidence. For the "
        f"safest rule: {'; '.join(words)}.",
        shortfalls,
        attempts,
        f"This was attempt {len(attempts)}. Its rows cannot be used again, alone or with others. Give rows "
        f"that no attempt had, with previous= this error; that attempt spends {next_level:.2g}. The model "
        "records its attempts, and save_model stores them.",
    )


def _notes(fresh: FreshRows, rule: Rule) -> Iterator[str]:
    (mean,) = fresh.samples(ERRORS["mean"], rule)
    yield f"Overall error on these rows (an estimate): {mean.mean:.4f}."
    answers = np.unique(fresh.answered.actions)
    if len(answers) == 1:
        constant = f"predict answers {fresh.answered.strata.classes[answers[0]]!r} to every row"
        advice = "give the other classes targets too, or allow larger errors"
        warn_user(f"the targets are certified only for a constant classifier: {constant}; {advice}")
        yield f"{constant}: {advice}."
