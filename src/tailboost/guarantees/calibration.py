"""Targets that hold: the cheapest point of a mixture's trade-off that fresh rows certify."""

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
    rates_asked,
    targets_every,
    targets_of,
    unlisted,
)
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows, Rule, judged_rows
from tailboost.guarantees.leakage import EqualRows, LeakageError
from tailboost.guarantees.rate_bounds import CertifiedBound, Kind, RateFamily, limit_bounds
from tailboost.rates import BELOW, InfeasibleLimitsError, Limit, checked_limits
from tailboost.rates.bounds import level_of, rows_needed
from tailboost.selection.confidence import SPREAD

__all__ = ["NotCertifiedError", "Shortfall", "calibrate", "candidates"]

#: Points that are tried, at equal shares of the targets, and the least bound.
POINTS, LEAST = 25, 1e-6
METHOD = "fixed sequence"
#: By how many times half their intervals limits are tightened, from the tightest.
TIGHTER = (8.0, 6.0, 4.0, 3.0, 2.0, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class Shortfall:
    """Why a target is not certified at the safest point.

    Attributes
    ----------
    name : str
        The class, group or cell.
    error : float or None
        Its error among the rows; None without rows.
    n : int
        Its rows.
    target : float
        The error allowed.
    more_rows : int or None
        About how many fresh rows of it a next attempt would need if the error were as seen, or, where that is
        not below the target, as low as ``low`` (`rows_needed`); None where ``low`` is not below it either.
    low : float
        What the true error is at least, with a confidence of 95 %.
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
        seen = f"{self.name} errs on {self.error:.4f} of its {self.n:,} rows (target {self.target:g})"
        if self.more_rows is None:
            return (
                f"{seen}: the true error is at least {self.low:.4f} (95 %), so that more rows would not help"
            )
        if self.error >= self.target:
            return (
                f"{seen}: not below the target, but the true error may be as low as {self.low:.4f} (95 %), "
                f"with which about {self.more_rows:,} fresh rows of it would do"
            )
        return f"{seen}: about {self.more_rows:,} fresh rows of it would do if the error were as seen"


class NotCertifiedError(ValueError):
    """No point of the trade-off has all its targets certified.

    Parameters
    ----------
    message : str
        What is said.
    shortfalls : sequence of Shortfall
        What is missing at the safest point, for each target that is not certified there.
    attempts : tuple of Fingerprint
        Fingerprints of the rows of this and of all earlier attempts, for ``calibrate(previous=…)``.
    advice : str
        The next step in Python; the message ends with it.
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
    units: Any = None,
    equal_rows: EqualRows = "copies",
    clusters: Any = None,
) -> Any:
    """Return the cheapest point of a mixture's trade-off at which all targets are certified.

    The points run from the safest, with the least worst error beyond the targets, to the one with the least
    mean error, by the rows the model has kept losses of: an order that is fixed before the calibration rows
    are looked at. At each point all targets are tested on these; the last point before the first failure is
    returned (learn then test [1]_, by a fixed sequence). With the stated confidence, over the draw of the
    calibration rows, all targets hold there on new rows.

    **One may try again**, with rows that no attempt had and ``previous``: the k-th attempt spends 6/(π²k²)
    of 1 − confidence, so that all of them together keep it.

    Parameters
    ----------
    model : fitted mixture classifier
        One of tailboost's, which has ``tradeoff()``. It answers as before. Its ``calibration_attempts_``
        record this attempt, also in memory and in its model file (`tailboost.save_model`).
    X_cal, y_cal : array-like of shape (n, d), (n,)
        Rows and their labels, independent draws which had no part in the fit.
    max_error : float or dict, optional
        The errors allowed, as in `tailboost.certify`: to every group, or without groups to every class; or
        by name.
    limits : list of Limit or str, optional
        Limits on any rates instead, of a `RobustMixtureClassifier`; by default its own where it was fitted
        within limits. The points are then its choices within limits that are tighter by multiples of half
        their 95 % intervals on the selection data, from the safest by these data to these limits themselves.
    confidence : float in (0, 1), default=0.95
        Probability that all targets hold.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Groups of the rows, for targets of groups or cells; a model whose answers depend on them is told them.
    rule : {"predict", "randomised"}, default="predict"
        Whose errors the targets are about: those of ``predict``, by exact binomial tests, or of the
        randomised rule whose label distribution is ``predict_distribution``, by betting.
    previous : NotCertifiedError, Certificate or calibrated classifier, optional
        What the attempt before this one ended in, for any targets.
    units : list or dict of lists, optional
        The groups that there are, as in `tailboost.certify`: a number as ``max_error`` is about each of them,
        by default of the model's fit (``groups_``), also where it has no row.
    equal_rows, clusters : optional
        As in `tailboost.certify`; ``shortfalls`` then count clusters.

    Returns
    -------
    classifier
        With the same members; its ``certificate_`` holds the targets. Other errors of it, also on the
        calibration rows, are only estimates: `tailboost.certify` bounds them on further rows.

    Raises
    ------
    NotCertifiedError
        If the safest point has a target that is not certified, as that of a group or class without rows:
        ``shortfalls`` says which, and about how many fresh rows of the class or group would do.
    LeakageError
        If rows were fitted on, shares chosen on them, or an attempt before had them.
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
    >>> point = tb.calibrate(clf, X[1000:], y[1000:], max_error={1: 0.3})
    >>> [(b.name, b.upper) for b in point.certificate_.bounds]
    [('class 1', 0.3)]
    """
    check_number(confidence, "confidence", 0, 1, below=True)
    if rule not in ("predict", "randomised"):
        raise ValueError(f"rule must be 'predict' or 'randomised', got {rule!r}")
    if not hasattr(model, "tradeoff"):
        raise ValueError(
            f"model must be one of tailboost's mixtures, with tradeoff(); got {type(model).__name__}"
        )
    before = attempts_of(previous)
    stated: list[Limit] = []
    if max_error is None:
        given = (getattr(model, "limits", None) or ()) if limits is None else limits
        stated = list(checked_limits(rates_asked(given)))
        if not stated:
            raise ValueError("max_error or limits: say what is to be certified")
        if not hasattr(model, "limits"):
            raise ValueError(f"limits: a {type(model).__name__} chooses no rates; give max_error")
    elif limits is not None:
        raise ValueError("max_error and limits were both given; state the first as a limit")
    judged = judged_rows(
        model,
        X_cal,
        y_cal,
        groups,
        [limit.rate for limit in stated],
        () if stated else (rule,),
        equal_rows=equal_rows,
        units=units,
        clusters=clusters,
    )
    named: dict[tuple[Kind, Any], float] = {}
    absent: list[Shortfall] = []
    if stated:  # of a precision the rows depend on the point
        fixed = [RateFamily.of(limit, judged) for limit in stated if not limit.rate.is_ratio]
        absent = [
            Shortfall(bound.title, None, 0, float(bound.target or 0.0), None)
            for family in fixed
            for bound in family.bounds(1.0 - confidence)
            if not bound.n and bound.certified is False
        ]
    if max_error is not None:
        named = targets_of(max_error, error_names(judged))
        if not named:
            raise ValueError(f"max_error={max_error!r} sets no target below 1")
        ((kind, *_),) = {(kind,) for kind, _ in named}
        targets = {name: target for (_, name), target in named.items()}
        absent = [
            Shortfall(CertifiedBound(kind, sample.name).name, None, 0, targets[sample.name], None)
            for sample in judged.samples(ERRORS[kind], rule)
            if sample.name in targets and not len(sample.rows)
        ]
    if absent:  # no point can pass, and nothing was looked at
        words = "; ".join(map(str, absent))
        raise NotCertifiedError(f"a target without rows cannot be certified: {words}", absent, before)
    sketch = judged.sketch
    assert sketch is not None
    given = sorted(named.items(), key=repr), stated, confidence, rule, len(before), units, equal_rows
    asked = repr(given)
    key = _refuse_looking_again(model, judged, before, asked)
    points = candidates(model, named) if named else _from_the_safest(model, stated)
    model.calibration_attempts_ = {**known_attempts(model), key: sketch}
    attempts = (*before, sketch)
    level = level_of(len(attempts), confidence)
    passed: tuple[Any, FreshRows, list[CertifiedBound]] | None = None
    for point in points:
        answered = judged.by(point)
        if stated:
            families = [RateFamily.of(limit, answered) for limit in stated]
        else:
            families = [
                RateFamily.of_errors(kind, answered, rule, targets, of_every=targets_every(max_error))
            ]
        bounds = limit_bounds(families, level)
        if any(bound.certified is False for bound in bounds):
            break
        passed = point, answered, bounds
    if passed is None:
        raise not_certified(families, confidence, attempts)
    point, answered, bounds = passed
    point.chosen_rows_ = (*point.chosen_rows_, sketch)
    kept = [bound.at_target(METHOD) for bound in bounds if bound.target is not None]
    what, spent = "limits" if stated else "targets", level_of(len(attempts), 0.0)
    notes = [
        f"The {what} are certified, nothing tighter: the point was chosen on these rows, as the cheapest of "
        f"a sequence that was fixed before they were looked at, with all {what} tested at every point.",
        f"Attempt {len(attempts)}: it spent {spent:.3g} of what the confidence leaves; all "
        "attempts together, each given what the one before ended in, keep it.",
        *judged.notes,
        *unlisted(judged, [limit.rate.by for limit in stated] if stated else [kind]),
    ]
    if stated:
        notes.append(f"The point was chosen within {'; '.join(map(str, point.limits))}.")
        point.limits = stated
    else:
        notes += _notes(answered, rule)
    # The certificate holds a copy: the point holds the certificate.
    point.certificate_ = Certificate(
        [] if stated else kept,
        confidence,
        len(judged),
        tuple(notes),
        copy.copy(point),
        sketch,
        attempts,
        rates=tuple(kept) if stated else (),
    )
    return point


def _from_the_safest(model: Any, limits: Sequence[Limit]) -> list[Any]:
    """Return choices within tighter limits, from the one that is likeliest to keep the limits to the loosest.

    The order rests on the selection data alone. The tightest choice need not be the safest: a precision
    close to 1 rests on few rows.
    """
    points = list(_tightened(model, limits))
    margins = [_margin(point.rates_, points[-1].rates_) for point in points]
    return points[int(np.argmax(margins)) :]


def _margin(lines: Any, limits: Any) -> float:
    """Return the least distance of rates from their limits, in half widths of their intervals.

    A limited rate without an interval, as of few rows, makes the point the least safe: −∞.
    """
    bounds = {(limit.rate, limit.unit, limit.sense): limit.bound for limit in limits if limit.limit}
    found = [np.inf]
    for line in lines:
        bound = bounds.get((line.rate, line.unit, line.sense), np.nan)
        if np.isnan(bound):
            continue
        width = max(line.high - line.value, line.value - line.low)
        beyond = bound - line.value if line.sense == "≤" else line.value - bound
        found.append(beyond / width if width > 0 else -np.inf)
    return float(min(found))


def _tightened(model: Any, limits: Sequence[Limit]) -> Iterator[Any]:
    """Yield choices within limits, from much tighter ones to these; left out are those that nothing keeps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what a point lacks is tested
        plain = model.reweight(limits=list(limits), confidence=0)  # the sequence tightens the limits itself
        half: dict[str, dict[Any, float]] = {}
        for line in plain.rates_:
            width = float(np.nan_to_num(max(line.high - line.value, line.value - line.low)))
            if 0 <= line.bound <= 1 and line.rows > 0:
                # A share that is far from its limit here may be near it where other limits are tighter.
                width = max(width, SPREAD * float(np.sqrt(line.bound * (1 - line.bound) / line.rows)))
            half.setdefault(line.limit, {})[line.unit] = width
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
    """Return the fingerprints of the rows of an attempt and of those before it.

    Raises
    ------
    ValueError
        If it is no attempt.
    """
    if previous is None:
        return ()
    attempts: tuple[Fingerprint, ...] = getattr(getattr(previous, "certificate_", previous), "attempts", ())
    if not attempts and not isinstance(previous, NotCertifiedError):
        raise ValueError(
            "previous must be the NotCertifiedError, the classifier or its certificate_ that the attempt "
            f"before ended in, got {type(previous).__name__}"
        )
    return attempts


def _refuse_looking_again(model: Any, judged: FreshRows, before: tuple[Fingerprint, ...], asked: str) -> str:
    """Return the name of a call; raise if an attempt before had these rows.

    The same call again, which gives the same answer, is no further attempt. An attempt that ``previous`` does
    not account for is warned of.
    """
    key, known = call_key(model, judged, asked), known_attempts(model)
    others = {each: spent for each, spent in known.items() if each != key}
    again = any(same_rows(each, key) for each in others)
    if again or judged.met([*before, *others.values()]):
        raise LeakageError(
            "X_cal: an attempt before this one had these rows, or some of them, and testing again until it "
            "passes keeps no confidence. Give rows that no attempt had, in Python with previous=, the "
            f"outcome of the attempt before ({_times(max(len(others), len(before)))} known to this model)"
        )
    if len(others) > len(before):
        warn_user(
            f"this model was calibrated {len(others)} times before, of which previous= accounts for "
            f"{len(before)}: each certificate holds by itself, but the best of several attempts does not "
            "keep the confidence; give previous=, what the attempt before ended in"
        )
    return key


def _times(n: int) -> str:
    return f"{n} attempt{'' if n == 1 else 's'}"


def candidates(model: Any, targets: Mapping[tuple[Kind, Any], float]) -> Iterable[Any]:
    """Return classifiers of the same members, from the safest to the cheapest.

    Each has the least overall error within a share of the targets. If the selection data do not know the
    subgroups of the targets, the points are those of the model's own trade-off.
    """
    ((kind, *_),) = {(kind,) for kind, _ in targets}
    bounds = {name: target for (_, name), target in targets.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a point that misses its limits is tested all the same
        try:
            return [
                model.reweight(
                    objective=f"worst_{kind}",
                    max_error={name: max(share * b, LEAST) for name, b in bounds.items()} | {None: 1.0},
                )
                for share in np.linspace(0.0, 1.0, POINTS)
            ]
        except ValueError:
            return [point.classifier for point in reversed(model.tradeoff().points)]


def not_certified(
    families: Sequence[RateFamily], confidence: float, attempts: tuple[Fingerprint, ...]
) -> NotCertifiedError:
    """Say what is missing at the safest point."""
    next_level = level_of(len(attempts) + 1, confidence)
    shortfalls, said = [], []
    for family in families:
        bounds = limit_bounds([family], level_of(len(attempts), confidence))
        for j, bound in enumerate(bounds):
            if bound.certified is not False:
                continue
            if bound.rate is None:  # an error: how many rows of the unit would show it to be allowed
                assert bound.target is not None
                assert bound.estimate is not None
                low, _ = family.ends(family.samples[j], 0.05, (BELOW,))
                likely = low if bound.estimate >= bound.target else bound.estimate
                needed = (
                    rows_needed(likely, bound.target, 1.0 - next_level) if likely < bound.target else None
                )
                lacks = Shortfall(bound.name, bound.estimate, bound.n, bound.target, needed, low)
                shortfalls.append(lacks)
                said.append(str(lacks))
                continue
            seen = "–" if bound.estimate is None else f"{bound.estimate:.4g}"
            shows = bound.upper if bound.sense == "≤" else bound.lower
            said.append(
                f"{bound.title} {bound.sense} {bound.target:g}: {seen} among {bound.n:,} rows, which shows "
                f"no more than {bound.sense} {shows:.4g}"
            )
    return NotCertifiedError(
        f"no point of the trade-off has its targets certified with {100 * confidence:g} % confidence. At "
        f"the safest point {'; '.join(said)}.",
        shortfalls,
        attempts,
        "These rows are spent: to test again on them, alone or with others, would keep no confidence; give "
        f"rows that no attempt had, with previous= this error, and that attempt spends {next_level:.2g}. "
        f"This was attempt {len(attempts)}. "
        "The model records its attempts, and save_model keeps them.",
    )


def _notes(judged: FreshRows, rule: Rule) -> Iterator[str]:
    (mean,) = judged.samples(ERRORS["mean"], rule)
    yield f"Its mean error on these rows, an estimate: {mean.mean:.4f}."
    answers = np.unique(judged.answered.actions)
    if len(answers) == 1:
        words = f"predict answers {judged.answered.strata.classes[answers[0]]!r} to every row"
        words = f"{words}: give the other classes targets too, or allow larger errors."
        warn_user(f"the targets are certified, but only for a classifier whose {words}")
        yield words
