"""What classifiers of a selection share, for models and for boosting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Ints
from tailboost.rates import AT_LEAST, Objective, error
from tailboost.selection.curve import Curve, CurvePoint
from tailboost.selection.problem import Problem


def drawn_members(ensemble: Any, members: Any, n: int) -> Ints:
    """Return the checked index of a candidate for each of n rows."""
    chosen = np.asarray(members)
    most = len(ensemble)
    if chosen.shape != (n,) or chosen.dtype.kind not in "iu":
        raise ValueError(
            f"members must be {n:,} integers, one per row; got {chosen.dtype}, {chosen.shape}"
        )
    if len(wrong := chosen[(chosen < 0) | (chosen >= most)]):
        raise ValueError(f"members holds {wrong[0]}; there are members 0 … {most - 1}")
    if len(wrong := np.intersect1d(chosen, ensemble.random_candidates)):
        raise ValueError(
            f"members holds {wrong[0]}, a candidate that draws its label from probabilities; a "
            "classifier with a rate as its objective has no such candidates"
        )
    return chosen


def bound_of(problem: Problem, limited: Any) -> float | None:
    """Return the bound of a problem's own limit on the limited rate of a curve; None without one."""
    traded = limited.within(limited.most).form, limited.rate
    for limit in problem.limits:
        if not isinstance(limit.bound, (int, float)):
            continue
        if (limit.form, limit.rate) == traded:
            return float(limit.bound)
        if (limit.form, replace(limit.rate, complement=True)) == (AT_LEAST, limited.rate):
            return round(1.0 - float(limit.bound), 12)
    return None


def fractions_of(deferred: Any) -> list[float]:
    """Return checked fractions of rows that may be deferred, one for each curve."""
    fractions = [float(fraction) for fraction in np.ravel(deferred)]
    inside = all(0.0 <= fraction < 1.0 for fraction in fractions)
    if not fractions or not inside or len(set(fractions)) < len(fractions):
        raise ValueError(
            f"deferred must be different fractions of the rows, from 0 to below 1, got {deferred!r}"
        )
    return fractions


def corners_of(clf: Any, rule: Any, answering: Callable[[Any], Any]) -> Curve:
    """Return the trade-off of the overall error with a CVaR.

    Parameters
    ----------
    clf : classifier
        The fitted classifier.
    rule : SelectedTail
        Its rule.
    answering : callable
        Returns the classifier that answers by another rule.
    """
    corners, gap = rule.curve()

    def at(level: float, point: Any) -> Any:
        return answering(rule.within(max(0.0, level - rule.least)))

    points = tuple(CurvePoint(mean, tail, answering(corner)) for mean, tail, corner in corners)
    return Curve(points, Objective.of(error()), rule.objective, rule.words, at, clf, gap)
