"""Targets as limits: the cheapest point of a trade-off that keeps them on rows it was not chosen on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tailboost._typing import Floats, Mask
from tailboost.combiners.ensemble import MixtureEnsemble
from tailboost.combiners.ledger import LOSS_DECIMALS
from tailboost.combiners.objective import WorstUnit
from tailboost.combiners.pool import Pool
from tailboost.solvers import Curve

# Points between the corners of a curve, where the answers of a mixture may change too.
BETWEEN_CORNERS = 24

Wrong = Callable[[MixtureEnsemble, Mask], Any]
"""In which of some of the judged rows `predict` of an ensemble is wrong."""


class Limited(Protocol):
    """A mixture with a limit, as far as it matters here."""

    @property
    def objective(self) -> Any: ...  # noqa: D102 -- documented with `Mixture`

    @property
    def pool(self) -> Pool: ...  # noqa: D102

    @property
    def limit(self) -> float | None: ...  # noqa: D102

    @property
    def randomized(self) -> bool: ...  # noqa: D102

    def choices(self) -> Curve:
        """Return what λ may be chosen among: the trade-off within the budget."""

    def ensemble(self, mixture: Floats) -> MixtureEnsemble:
        """Return the classifier that has these shares."""

    def part(self, chosen: Mask) -> Any:
        """Return the same members, judged on some of the rows."""


def ceiling(limited: Limited, wrong: Wrong | None = None) -> tuple[float, float]:
    """Find the cheapest mixture of a trade-off that keeps the limit.

    The points of the trade-off are tried. Each is judged by three errors of its units: those of `predict`
    and of the drawn member on the judged rows, and those of `predict` where each half of these rows is
    answered by the point of the same value that the other half would have chosen. Among the points whose
    largest error keeps the limit by all three the one of least mean error is taken, and where none does the
    one that is least beyond it.

    Parameters
    ----------
    limited : Mixture
        Whose objective has a limit.
    wrong : callable, optional
        In which rows `predict` of an ensemble is wrong; by default the drawn member's losses stand for it.

    Returns
    -------
    value : float
        What λ's own measure may be: the cheapest mixture with so much of it is the one.
    excess : float
        How far beyond the limit that one is all the same, because none keeps it; else 0.
    """
    objective, ledger, limit = limited.objective, limited.pool.ledger, limited.limit
    assert isinstance(objective, WorstUnit)
    assert limit is not None
    rows, shared = ledger.rows, limited.randomized
    curve = refined(limited.choices()) if shared else limited.choices()
    values = curve.worst
    half = None if rows.fitted else rows.halves()
    whole = np.ones(len(rows.y), dtype=np.bool_)
    drawn = [ledger.pool().combine(mixture) for mixture in curve.mixture]
    said = drawn
    if wrong is not None:
        said = [np.asarray(wrong(limited.ensemble(mixture), whole), float) for mixture in curve.mixture]
    judged_by = [drawn, said]
    if half is not None:
        elsewhere = np.empty((len(values), len(rows.y)))
        for judged in (~half, half):
            part = limited.part(~judged)
            own, losses = part.choices(), ledger.part(judged).pool()
            for j, value in enumerate(values):
                mixture = at_most(own, value, shared)
                elsewhere[j, judged] = (
                    losses.combine(mixture) if wrong is None else wrong(part.ensemble(mixture), judged)
                )
        judged_by.append(list(elsewhere))
    beyond = np.array([[objective.believed(rows, losses) for losses in each] for each in judged_by])
    by_each = np.maximum(beyond - limit, 0.0).round(LOSS_DECIMALS)
    excess = by_each.max(axis=0)
    mean = np.array([rows.base @ losses for losses in said]).round(LOSS_DECIMALS)
    # Where `predict` keeps the limit nowhere the drawn member may. Of equal points the one with more room.
    best = np.lexsort((values, mean, by_each[0], excess))[0]
    return float(values[best]), float(excess[best])


def at_most(curve: Curve, value: float, shared: bool) -> Floats:
    """Return the cheapest mixture of a curve whose worst error is at most a value; the safest if none is.

    Parameters
    ----------
    curve : Curve
        From the least mean loss to the least worst one.
    value : float
        What the worst error may be.
    shared : bool
        Whether members may share λ, so that points between two of the curve can be had.
    """
    right = min(int(np.count_nonzero(curve.worst > value)), len(curve) - 1)
    if right == 0 or not shared or curve.worst[right] > value:
        return curve.mixture[right]
    low, high = curve.worst[right], curve.worst[right - 1]
    share = (high - value) / (high - low)
    mixed: Floats = (1.0 - share) * curve.mixture[right - 1] + share * curve.mixture[right]
    return mixed


def refined(curve: Curve) -> Curve:
    """Return a curve with points between its corners."""
    means = np.union1d(curve.mean, np.linspace(curve.mean[0], curve.mean[-1], BETWEEN_CORNERS))
    mixture = np.array([np.interp(means, curve.mean, shares) for shares in curve.mixture.T]).T
    return Curve(means, np.interp(means, curve.mean, curve.worst), mixture, curve.gap)
