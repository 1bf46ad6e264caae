"""The trade-off of a mixture between the mean loss and its worst tail: an exact convex piecewise linear curve.

worst(b) = min_{λ ∈ Δ_T} CVaR_α(Σ_t λ_t ℓ^t)   s.t. Σ_t λ_t m_t ≤ b

A line of slope −κ supports the curve where CVaR_α(Σ_t λ_t (ℓ^t + κ m_t)) is least, because a number added to all
losses of a hypothesis adds to the CVaR. So every supporting line is one mixture program with shifted losses,
and its dual value proves that nothing lies below the line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailboost._typing import Floats
from tailboost.solvers.bits import Losses, as_losses
from tailboost.solvers.mixture import minimize_cvar_mixture
from tailboost.solvers.tails import cvar

# A point this close to the chord between its neighbours is on it.
ON_CHORD = 1e-10


@dataclass(frozen=True)
class Curve:
    """Breakpoints of the trade-off, from the least mean loss to the least worst one.

    Attributes
    ----------
    mean : ndarray of shape (B,)
        Mean loss of each point, strictly ascending.
    worst : ndarray of shape (B,)
        CVaR of each point, strictly descending.
    mixture : ndarray of shape (B, T)
        λ of each point.
    gap : float
        The curve is nowhere lower than the straight lines between its points by more than this; with a
        ``limit``, where that lies.
    """

    mean: Floats
    worst: Floats
    mixture: Floats
    gap: float

    def __len__(self) -> int:
        return len(self.mean)

    def mixture_at(self, limit: float) -> Floats:
        """Return λ of least worst loss among those with a mean loss of at most ``limit``, shape (T,).

        Raises
        ------
        ValueError
            If even the least mean loss is above the limit.
        """
        if limit >= self.mean[-1]:
            return self.mixture[-1].copy()
        if limit < self.mean[0] - ON_CHORD:
            raise ValueError(f"no mixture has a mean loss of {limit:.6g}: the least is {self.mean[0]:.6g}")
        right = max(1, int(np.searchsorted(self.mean, limit, side="left")))
        left = right - 1
        share = np.clip((limit - self.mean[left]) / (self.mean[right] - self.mean[left]), 0.0, 1.0)
        # Both the mean and, between breakpoints, the worst loss are linear in λ.
        mixture: Floats = (1.0 - share) * self.mixture[left] + share * self.mixture[right]
        return mixture


@dataclass(frozen=True)
class _Point:
    mean: float
    worst: float
    mixture: Floats


class _Frontier:
    """The program behind the curve: measures mixtures and finds supporting lines."""

    def __init__(self, losses: Losses, means: Floats, alpha: float, base: npt.ArrayLike | None) -> None:
        self.losses, self.means, self.alpha, self.base = as_losses(losses), means, alpha, base
        self._dense: Floats | None = None

    def point(self, mixture: Floats) -> _Point:
        worst = cvar(self.losses.combine(mixture), self.alpha, self.base)
        return _Point(float(self.means @ mixture), worst, mixture)

    def touching(self, slope: float, near: Floats | None = None) -> tuple[_Point, float]:
        """Return a point where a line of slope ``−slope`` touches the curve, and the line's proven height."""
        if slope == 0.0:
            solution = minimize_cvar_mixture(self.losses, self.alpha, self.base)
        else:
            if self._dense is None:
                self._dense = self.losses.columns(np.arange(self.losses.shape[1])).T
            # Divided by the sum of both weights, so that steep lines keep the scale of losses.
            shifted = (self._dense + slope * self.means[:, None]) / (1.0 + slope)
            solution = minimize_cvar_mixture(shifted, self.alpha, self.base, start=near)
        return self.point(solution.mixture), solution.dual_value * (1.0 + slope)


def worst_mean_curve(
    losses: Losses,
    means: npt.ArrayLike,
    alpha: float | None = None,
    base: npt.ArrayLike | None = None,
    *,
    limit: float | None = None,
    tolerance: float = 1e-9,
    max_points: int = 1000,
) -> Curve:
    """Trace the least CVaR of a mixture against the largest mean loss that is allowed.

    Parameters
    ----------
    losses : array-like of shape (T, n) or BitLosses
        Loss of every hypothesis on every unit, as in `minimize_cvar_mixture`.
    means : array-like of shape (T,)
        Mean loss of every hypothesis: what is limited. It need not be the mean over the units.
    alpha : float, optional
        Tail mass in (0, 1]; by default the largest loss of a unit counts, as for error rates of classes.
    base : array-like of shape (n,), optional
        Base measure of the units; uniform by default.
    limit : float, optional
        Only the part of the curve around this mean loss is wanted; the rest may be coarse.
    tolerance : float, default=1e-9
        Parts of the curve that are proven this close to a straight line are not refined.
    max_points : int, default=1000
        Where this many points do not suffice, ``gap`` of the curve says how far it may be off.

    Returns
    -------
    Curve

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If a program cannot be solved.
    """
    losses, means = as_losses(losses), np.asarray(means, dtype=np.float64)
    if means.shape != losses.shape[:1] or not np.isfinite(means).all():
        raise ValueError(f"means must be {losses.shape[0]} finite numbers, one for each row of losses")
    frontier = _Frontier(losses, means, 1.0 / losses.shape[1] if alpha is None else alpha, base)
    # The ends: the best member alone, which a point of equal mean may still beat, and the least worst loss.
    best = np.zeros(len(means))
    best[np.argmin(means)] = 1.0
    first, (last, _) = frontier.point(best), frontier.touching(0.0)
    # Between two neighbours the curve is at most ``slack`` below their chord; 0 where that is settled.
    chain, slack, gap = [first, last], [np.inf], 0.0
    while len(chain) < max_points and max(slack) > tolerance:
        i = int(np.argmax(slack))
        left, right = chain[i : i + 2]
        slack[i] = 0.0
        outside = limit is not None and not left.mean <= limit <= right.mean
        if outside or right.mean - left.mean <= ON_CHORD or left.worst <= right.worst:
            continue  # not asked for, or one point dominates the other
        slope = (left.worst - right.worst) / (right.mean - left.mean)
        new, height = frontier.touching(slope, 0.5 * (left.mixture + right.mixture))
        chord = left.worst + slope * left.mean
        if chord - (new.worst + slope * new.mean) <= ON_CHORD * (1.0 + slope):
            gap = max(gap, chord - height)
        else:
            chain.insert(i + 1, new)
            slack[i : i + 1] = [chord - height] * 2  # above the line that touched it
    return _corners(chain, max(gap, *slack))


def _corners(chain: list[_Point], gap: float) -> Curve:
    """Keep the points that no other dominates and that bend the curve."""
    kept: list[_Point] = []
    for point in sorted(chain, key=lambda p: (p.mean, p.worst)):
        if kept and point.worst >= kept[-1].worst - ON_CHORD:
            continue
        if kept and point.mean <= kept[-1].mean + ON_CHORD:
            kept.pop()
        while len(kept) > 1 and not _bends(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    return Curve(
        np.array([p.mean for p in kept]),
        np.array([p.worst for p in kept]),
        np.array([p.mixture for p in kept]),
        gap,
    )


def _bends(a: _Point, b: _Point, c: _Point) -> bool:
    on_chord = a.worst + (c.worst - a.worst) * (b.mean - a.mean) / (c.mean - a.mean)
    return b.worst < on_chord - ON_CHORD
