"""Targets that hold: the cheapest point of a mixture's trade-off that fresh rows certify."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost._checks import check_number
from tailboost._rows import Sketch
from tailboost._typing import Floats
from tailboost._units import told
from tailboost.certificates import (
    ASSUMED,
    Certificate,
    CertifiedBound,
    Kind,
    Rule,
    Unit,
    rule_losses,
    scored_rows,
    targets_of,
    units_of,
)
from tailboost.classifiers._warn import warn_user
from tailboost.combiners import Objective, WorstUnit
from tailboost.confidence import betting_p_value, binomial_p_value, rows_needed

__all__ = ["NotCertifiedError", "Shortfall", "calibrate", "candidates"]

#: Points of the trade-off that are tried, at equal steps of the mean budget.
POINTS = 25
METHOD = "fixed sequence"


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
        About how many further rows of it would do if the error stayed as it is (`rows_needed`); None where
        no number would, because it is not below the target.
    """

    name: str
    error: float | None
    n: int
    target: float
    more_rows: int | None

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.name} (target {self.target:g}) has no rows"
        seen = f"{self.name} errs on {self.error:.4f} of its {self.n:,} rows (target {self.target:g})"
        if self.more_rows is None:
            return f"{seen}: more rows would not help, the classifier is not good enough"
        return f"{seen}: about {self.more_rows:,} more rows of it would do if the error stays as it is"


class NotCertifiedError(ValueError):
    """No point of the trade-off has all its targets certified.

    Parameters
    ----------
    message : str
        What is said.
    shortfalls : sequence of Shortfall
        What is missing at the safest point, for each target that is not certified there.
    """

    def __init__(self, message: str, shortfalls: Sequence[Shortfall] = ()) -> None:
        super().__init__(message)
        self.shortfalls = tuple(shortfalls)


def calibrate(
    model: Any,
    X_cal: Any,
    y_cal: Any,
    max_error: Any,
    *,
    confidence: float = 0.95,
    groups: Any = None,
    rule: Rule = "predict",
) -> Any:
    """Return the cheapest point of a mixture's trade-off at which all targets are certified.

    The points run from the safest, with the least worst error beyond the targets, to the one with the least
    mean error; both are measured on the rows the model has kept losses of, so the order of the points is
    fixed before the calibration rows are looked at. At each point every target is tested on the calibration
    rows, with all of 1 − confidence, since all of them must pass; the walk ends before the first point at
    which one fails, and the last point that passed is returned (learn then test [1]_, by a fixed sequence).
    With the stated confidence, over the draw of the calibration rows, all targets hold at that point on new
    rows.

    Parameters
    ----------
    model : fitted mixture classifier
        One of tailboost's, which has ``tradeoff()``. It is unchanged.
    X_cal, y_cal : array-like of shape (n, d), (n,)
        Rows and their labels, independent draws which had no part in the fit.
    max_error : float or dict
        The errors allowed, as in `tailboost.certify`: to every group, or without groups to every class; or
        by name.
    confidence : float in (0, 1), default=0.95
        Probability that all targets hold.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Groups of the rows, for targets of groups or cells; a model whose answers depend on them is told them.
    rule : {"predict", "randomised"}, default="predict"
        Whose errors the targets are about: those of ``predict``, by exact binomial tests, or of the
        randomised rule whose label distribution is ``predict_proba``, by betting.

    Returns
    -------
    classifier
        With the same members; its ``certificate_`` holds the targets. Other errors of it, also on the
        calibration rows, are only estimates: `tailboost.certify` bounds them on further rows.

    Raises
    ------
    NotCertifiedError
        If the safest point has a target that is not certified: ``shortfalls`` says which, and how many more
        rows of the class or group would do.
    SeenRowsError
        If rows were fitted on, or shares chosen on them.
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
    scored = scored_rows(model, X_cal, y_cal, groups)
    assert scored.hashes is not None
    units = units_of(scored, groups)
    targets = targets_of(max_error, units)
    if not targets:
        raise ValueError(f"max_error={max_error!r} sets no target below 1")
    delta = 1.0 - confidence
    targeted = [u for u in units if (u.kind, u.name) in targets]
    allowed = np.array([targets[u.kind, u.name] for u in targeted])
    passed: tuple[Any, Floats] | None = None
    for point in candidates(model, targets):
        losses = rule_losses(point, X_cal, scored.y, scored.classes, rule, groups)
        if not passes(losses, targeted, allowed, rule, delta):
            break
        passed = point, losses
    if passed is None:
        raise _not_certified(losses, targeted, allowed, confidence)
    point, losses = passed
    sketch = Sketch.of(scored.hashes)
    point.chosen_rows_ = (*point.chosen_rows_, sketch)
    bounds = list(_targets(losses, targeted, allowed, rule))
    notes = _notes(point, X_cal, groups, float(losses.mean()))
    # The certificate holds a copy: the point holds the certificate.
    point.certificate_ = Certificate(bounds, confidence, len(scored.y), notes, copy.copy(point), sketch)
    return point


def candidates(model: Any, targets: Mapping[tuple[Kind, Any], float]) -> Iterable[Any]:
    """Yield the classifiers along a mixture's trade-off, from the safest to the cheapest.

    The trade-off is between the mean error and the largest error beyond its target; of a
    `RobustMixtureClassifier`, and where the model has kept no losses of the units that have targets, it is
    between the mean error and what the model was fitted for.

    Parameters
    ----------
    model : fitted mixture classifier
        With ``tradeoff()``.
    targets : dict
        Error allowed by (kind, name), as from `tailboost.certificates.targets_of`.
    """
    objective = _aim(model, targets)
    curve = (model if objective is None else model.reweight(objective=objective)).tradeoff(budgets=[1.0])
    dearest = float(curve.mean_budget[-1])
    for budget in np.unique(np.linspace(0.0, dearest, POINTS))[::-1]:
        yield curve.at(float(budget))


def _aim(model: Any, targets: Mapping[tuple[Kind, Any], float]) -> Objective | None:
    """Return the largest excess over the targets as an objective; None where the model cannot have it."""
    if not hasattr(model, "game_"):  # a mixture of given models: its thresholds belong to its own aim
        return None
    ((kind, *_),) = {(kind,) for kind, _ in targets}
    own = model.objective_
    names: list[Any] = []
    if kind == "class":
        names = model.classes_.tolist()
    elif isinstance(own, WorstUnit) and own.unit == kind == "group" and not own.by_class:
        names = list(model.groups_)
    if not {name for _, name in targets} <= set(names):
        return None
    allowed = [targets.get((kind, name), 1.0) for name in names]
    return WorstUnit(kind, tuple(allowed), by_class=kind == "class")


def passes(losses: Floats, units: Sequence[Unit], allowed: Floats, rule: Rule, delta: float) -> bool:
    """Whether the errors of all units are tested to be at most what is allowed, each at level δ."""
    inside = [losses[unit.rows] for unit in units]
    if rule == "predict":
        errors, n = [int(x.sum()) for x in inside], [len(x) for x in inside]
        return bool((binomial_p_value(errors, n, allowed) <= delta).all())
    return all(betting_p_value(x, a, delta) <= delta for x, a in zip(inside, allowed, strict=True))


def _not_certified(
    losses: Floats, units: Sequence[Unit], allowed: Floats, confidence: float
) -> NotCertifiedError:
    """Say what is missing at the safest point."""
    shortfalls = []
    for unit, target in zip(units, allowed.tolist(), strict=True):
        inside = losses[unit.rows]
        words = CertifiedBound(unit.kind, unit.name, "predict", None, 1.0, 0, "").name
        n = len(inside)
        error = float(inside.mean()) if n else None
        if error is not None and error >= target:
            shortfalls.append(Shortfall(words, error, n, target, None))
            continue
        needed = rows_needed(0.0 if error is None else error, target, confidence)
        if needed > n:
            shortfalls.append(Shortfall(words, error, n, target, needed - n))
    message = "; ".join(map(str, shortfalls)) or "a target is missed by a few rows"
    return NotCertifiedError(
        f"no point of the trade-off has its targets certified with {100 * confidence:g} % confidence. At "
        f"the safest point {message}",
        shortfalls,
    )


def _targets(losses: Floats, units: Sequence[Unit], allowed: Floats, rule: Rule) -> Iterator[CertifiedBound]:
    for unit, target in zip(units, allowed.tolist(), strict=True):
        inside = losses[unit.rows]
        seen = float(inside.mean())
        yield CertifiedBound(unit.kind, unit.name, rule, seen, target, len(inside), METHOD, target)


def _notes(point: Any, X: Any, groups: Any, mean: float) -> tuple[str, ...]:
    notes = [
        "The targets are certified, nothing lower: the point was chosen on these rows, as the cheapest of a "
        "sequence that was fixed before they were looked at, with every target tested at every point.",
        ASSUMED,
        f"Its mean error on these rows, an estimate: {mean:.4f}.",
    ]
    answers = np.unique(point.predict(X, **told(point, groups)))
    if len(answers) == 1:
        words = f"predict answers {answers.tolist()[0]!r} to every row"
        notes.append(f"{words}: give the other classes targets too, or allow larger errors.")
        warn_user(f"the targets are certified, but only for a classifier whose {notes[-1]}")
    return tuple(notes)
