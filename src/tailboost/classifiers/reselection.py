"""What classifiers of a selection share, for models and for boosting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Ints, Stated
from tailboost.rates import AT_LEAST, Limit, Objective, error
from tailboost.rates import deferred as deferred_rate
from tailboost.selection.curve import Curve, CurvePoint
from tailboost.selection.problem import Problem


def drawn_members(ensemble: Any, members: Any, n: int) -> Ints:
    """Return the number of the candidate that answers each of n rows, checked.

    Raises
    ------
    ValueError
        If ``members`` are not n numbers of candidates, or a candidate draws its label.
    """
    candidates = np.asarray(members)
    n_candidates = len(ensemble)
    if candidates.shape != (n,) or candidates.dtype.kind not in "iu":
        raise ValueError(
            f"members must be {n:,} integers, one per row; got {candidates.dtype}, "
            f"{candidates.shape}"
        )
    outside = candidates[(candidates < 0) | (candidates >= n_candidates)]
    if len(outside):
        raise ValueError(
            f"members holds {outside[0]}; there are members 0 … {n_candidates - 1}"
        )
    drawing = np.intersect1d(candidates, ensemble.random_candidates)
    if len(drawing):
        raise ValueError(
            f"members holds {drawing[0]}, a candidate that draws its label from probabilities; "
            "a classifier with a rate as its objective has no such candidates"
        )
    return candidates


def bound_of(problem: Problem, limited: Stated) -> float | None:
    """Return the bound of a problem's limit on the limited rate of a curve; None without such a limit.

    A least recall is a largest miss rate: the bound is then 1 minus the bound of the limit.
    """
    form = limited.within(limited.most).form
    for limit in problem.limits:
        # Bounds by subgroup are no point of a curve.
        if not isinstance(limit.bound, (int, float)):
            continue
        if limit.form == form and limit.rate == limited.rate:
            return float(limit.bound)
        if limit.form == AT_LEAST and replace(limit.rate, complement=True) == limited.rate:
            return round(1.0 - float(limit.bound), 12)  # 1 − .9 is .1
    return None


def fractions_of(deferred: Any) -> list[float]:
    """Return the checked fractions of rows that may be deferred, from 0 to below 1: one for each curve."""
    fractions = [
        float((deferred_rate() <= fraction).bound)
        for fraction in np.ravel(np.asarray(deferred, dtype=object)).tolist()
    ]
    inside = all(fraction < 1.0 for fraction in fractions)
    repeated = len(set(fractions)) < len(fractions)
    if not fractions or not inside or repeated:
        raise ValueError(
            f"deferred must be different fractions of the rows, from 0 to below 1, got {deferred!r}"
        )
    return fractions


def cvar_curve(clf: Any, rule: Any, answering: Callable[[Any], Any]) -> Curve:
    """Return the trade-off of the overall error with a CVaR.

    Parameters
    ----------
    clf : classifier
        The fitted classifier.
    rule : SelectedTail
        Its rule.
    answering : callable
        ``answering(rule)`` returns the classifier with another rule of the curve.
    """
    corners, gap = rule.curve()

    def at(limit: Limit, point: Any) -> Any:
        error_budget = max(0.0, limit.bound - rule.least)
        return answering(rule.within(error_budget))

    points = tuple(CurvePoint(mean, tail, answering(corner)) for mean, tail, corner in corners)
    overall_error = Objective.from_expression(error())
    return Curve(
        points,
        limited=overall_error,
        objective=rule.objective,
        measured_on=rule.words,
        _at=at,
        _source=clf,
        gap=gap,
    )
