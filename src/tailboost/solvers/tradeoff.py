"""The trade-off of a mixture between its mean loss and its worst tail: a convex piecewise linear curve.

worst(b) = min_{λ ∈ Δ_T} CVaR_α(Σ_t λ_t ℓ^t)   s.t. Σ_t λ_t m_t ≤ b

A number added to all losses of a candidate adds to its CVaR. So the supporting line of slope −κ touches
the curve at the mixture with the smallest CVaR_α(Σ_t λ_t (ℓ^t + κ m_t)): one mixture program with shifted
losses. Its dual value proves that no point of the curve lies below the line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import check_alpha
from tailboost.core.long_work import one_blas_thread
from tailboost.solvers.bits import Losses, as_losses, measure_of_units
from tailboost.solvers.mixture import minimize_cvar_mixture
from tailboost.solvers.tail_game import SolverError, cvar

#: A point at most this far below the chord between its neighbours lies on the chord.
ON_CHORD = 1e-10
#: Largest relative gap of a returned solution.
CURVE_GAP = 1e-7


@dataclass(frozen=True)
class MixtureCurve:
    """Breakpoints of the trade-off, from the smallest mean loss to the smallest CVaR.

    Attributes
    ----------
    mean : ndarray of shape (B,)
        Mean loss of each point, strictly ascending.
    worst : ndarray of shape (B,)
        CVaR of each point, strictly descending.
    mixture : ndarray of shape (B, T)
        λ of each point.
    gap : float
        Largest possible distance of the exact curve below the straight lines between the points.
    """

    mean: Floats
    worst: Floats
    mixture: Floats
    gap: float

    def __len__(self) -> int:
        return len(self.mean)


def undominated(worst: Floats, means: Floats) -> Ints:
    """Return the numbers of the undominated points, by ascending mean.

    A point is dominated if a point of smaller or equal mean has a ``worst`` that is smaller or equal.
    """
    by_mean = np.lexsort((worst, means))  # of equal means the least worst is first
    least_before = np.minimum.accumulate(np.append(np.inf, worst[by_mean]))[:-1]
    return by_mean[worst[by_mean] < least_before]


@dataclass(frozen=True)
class WithinSolution:
    """Mixture with the smallest CVaR under a limit on the mean loss, and its certificate.

    Attributes
    ----------
    mixture : ndarray of shape (T,)
        λ.
    value : float
        CVaR of its losses.
    dual_value : float
        ``min_t (⟨w, ℓ^t⟩ + price · m_t) − price · limit``, a lower bound for every mixture within the limit.
    gap : float
        ``value - dual_value``.
    unit_weights : ndarray of shape (n,)
        w.
    price : float
        Shadow price of the limit: raising the limit by d lowers the value by at most ``price · d``.
    mean : float
        Mean loss of λ.
    """

    mixture: Floats
    value: float
    dual_value: float
    gap: float
    unit_weights: Floats
    price: float
    mean: float


@dataclass(frozen=True)
class _CurvePoint:
    mean: float
    worst: float
    mixture: Floats


@dataclass(frozen=True)
class _Line:
    """A line below the curve, ``height − slope · mean``, with the unit weights proving the bound."""

    slope: float
    height: float
    unit_weights: Floats


class _Frontier:
    """The losses behind the curve: evaluates mixtures and finds supporting lines."""

    def __init__(
        self,
        losses: Losses,
        means: ArrayLike,
        alpha: float | None,
        base: ArrayLike | None,
    ) -> None:
        self.losses = as_losses(losses)
        self.means = np.asarray(means, dtype=np.float64)
        n_candidates = self.losses.shape[0]
        if self.means.shape != (n_candidates,) or not np.isfinite(self.means).all():
            raise ValueError(
                f"means must be {n_candidates} finite numbers, one for each row of losses"
            )
        p = measure_of_units(self.losses, base)
        if alpha is None:
            self.alpha = float(p[p > 0].min())  # the CVaR is the largest loss
        else:
            self.alpha = check_alpha(alpha)
        self.base = None
        if base is not None:
            self.base = p

    def point(self, mixture: Floats) -> _CurvePoint:
        """Return the mean loss and the CVaR of a mixture."""
        worst = cvar(self.losses.combine(mixture), self.alpha, self.base)
        return _CurvePoint(float(self.means @ mixture), worst, mixture)

    def start(self) -> _CurvePoint:
        """Return the best mixture of the candidates with the smallest mean loss."""
        cheapest = np.flatnonzero(self.means <= self.means.min())
        mixture = np.zeros(len(self.means))
        losses = self.losses.select(candidates=cheapest)
        mixture[cheapest] = minimize_cvar_mixture(losses, self.alpha, self.base).mixture
        return self.point(mixture)

    def touching(self, slope: float, start: Floats | None = None) -> tuple[_CurvePoint, _Line]:
        """Return the line of slope ``−slope`` that supports the curve, and a point that it touches.

        The solver starts from the mixture ``start``, if given.
        """
        scale = 1.0 / (1.0 + slope)  # steep lines keep the scale of losses
        shifted = self.losses.shifted(scale, slope * scale * self.means)
        solution = minimize_cvar_mixture(shifted, self.alpha, self.base, start=start)
        w = solution.unit_weights
        height = float((self.losses.expectations(w) + slope * self.means).min())
        return self.point(solution.mixture), _Line(slope, height, w)


@one_blas_thread
def worst_mean_curve(
    losses: Losses,
    means: ArrayLike,
    alpha: float | None = None,
    base: ArrayLike | None = None,
    *,
    tolerance: float = 1e-9,
    max_points: int = 1000,
) -> MixtureCurve:
    """Trace the smallest CVaR of a mixture as a function of the limit on its mean loss.

    Parameters
    ----------
    losses : array-like of shape (T, n) or BitLosses
        Loss of each candidate on each unit, as in `minimize_cvar_mixture`.
    means : array-like of shape (T,)
        Mean loss of each candidate, which the limit is about. The means may come from other units.
    alpha : float, optional
        Tail mass in (0, 1]. By default the largest loss of a unit counts, as for error rates of classes.
    base : array-like of shape (n,), optional
        Base measure of the units; uniform by default.
    tolerance : float, default=1e-9
        Parts of the curve proven this close to a straight line are not refined.
    max_points : int, default=1000
        Largest number of points. If more would be needed, the ``gap`` of the curve gives the remaining error.

    Returns
    -------
    MixtureCurve

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If a program cannot be solved.

    Examples
    --------
    >>> from tailboost.solvers import worst_mean_curve
    >>> curve = worst_mean_curve([[0.0, 0.5], [0.4, 0.2]], means=[0.1, 0.3])
    >>> curve.mean.round(6).tolist(), curve.worst.round(6).tolist()
    ([0.1, 0.242857], [0.5, 0.285714])
    """
    frontier = _Frontier(losses, means, alpha, base)
    chain, gap = _chain(frontier, tolerance, max_points)
    return _corners(chain, gap)


@one_blas_thread
def least_worst_within(
    losses: Losses,
    means: ArrayLike,
    limit: float,
    alpha: float | None = None,
    base: ArrayLike | None = None,
) -> WithinSolution:
    """Find the mixture with the smallest CVaR among those with a mean loss of at most ``limit``.

    Parameters
    ----------
    losses, means, alpha, base
        As in `worst_mean_curve`.
    limit : float
        Largest mean loss allowed.

    Returns
    -------
    WithinSolution
        ``mixture`` is λ, ``value`` the CVaR of its losses, and ``price`` the shadow price of the limit.

    Raises
    ------
    ValueError
        If an argument is outside its range, or every candidate has a mean loss above the limit.
    SolverError
        If a program cannot be solved.

    Examples
    --------
    >>> from tailboost.solvers import least_worst_within
    >>> solution = least_worst_within([[0.0, 0.5], [0.4, 0.2]], means=[0.1, 0.3], limit=0.2)
    >>> solution.mixture.round(6).tolist(), round(solution.value, 6), round(solution.price, 6)
    ([0.5, 0.5], 0.35, 1.5)
    """
    frontier = _Frontier(losses, means, alpha, base)
    smallest = float(frontier.means.min())
    if not limit >= smallest - ON_CHORD:
        raise ValueError(
            f"no mixture has a mean loss of {limit:.6g}: the smallest is {smallest:.6g}"
        )
    limit = max(limit, smallest)
    point, line = _at_limit(frontier, limit)
    dual = line.height - line.slope * limit
    gap = point.worst - dual
    if gap > CURVE_GAP * (1.0 + abs(point.worst)):
        raise SolverError(
            f"least_worst_within: the gap {gap:.3g} is too large for a mean loss of at most "
            f"{limit:.6g}"
        )
    return WithinSolution(
        point.mixture, point.worst, dual, gap, line.unit_weights, line.slope, point.mean
    )


def _at_limit(frontier: _Frontier, limit: float) -> tuple[_CurvePoint, _Line]:
    """Return the point of the curve at a limit of the mean, and a line that supports the curve there.

    Two points bracket the limit until their chord is proven to be the curve.
    """
    left = frontier.start()
    right, line = frontier.touching(0.0)
    point = right
    while right.mean > limit and left.mean < right.mean - ON_CHORD and right.worst < left.worst:
        slope = (left.worst - right.worst) / (right.mean - left.mean)
        fraction = float(np.clip((limit - left.mean) / (right.mean - left.mean), 0.0, 1.0))
        mixture = (1.0 - fraction) * left.mixture + fraction * right.mixture
        point = frontier.point(mixture)  # on the chord, at the limit
        touched, line = frontier.touching(slope, mixture)
        gap = point.worst - (line.height - slope * limit)
        if _below_chord(touched, left, slope) <= ON_CHORD * (1.0 + slope):
            break  # the chord is the curve
        if gap <= 0.1 * CURVE_GAP:
            break
        if touched.mean <= limit:
            left = touched
        else:
            right = touched
    return point, line


def _below_chord(point: _CurvePoint, left: _CurvePoint, slope: float) -> float:
    """Return the distance of a point below the chord of slope ``−slope`` through another one."""
    chord_height = left.worst + slope * left.mean
    return chord_height - (point.worst + slope * point.mean)


def _chain(
    frontier: _Frontier, tolerance: float, max_points: int
) -> tuple[list[_CurvePoint], float]:
    """Return points of the curve in order, and the largest distance of the curve below their chords.

    Parameters
    ----------
    frontier : _Frontier
        Finds the points of the curve that touch a line.
    tolerance : float
        Largest distance of the curve below its chords at which refinement ends.
    max_points : int
        The most points.
    """
    least_cvar, _ = frontier.touching(0.0)
    chain = [frontier.start(), least_cvar]
    # Between two neighbours the curve lies at most ``slack`` below their chord; 0 marks a finished part.
    slack = [np.inf]
    gap = 0.0
    while len(chain) < max_points and max(slack) > tolerance:
        i = int(np.argmax(slack))
        left, right = chain[i : i + 2]
        slack[i] = 0.0
        if right.mean - left.mean <= ON_CHORD or left.worst <= right.worst:
            continue  # one point dominates the other
        slope = (left.worst - right.worst) / (right.mean - left.mean)
        touched, line = frontier.touching(slope, 0.5 * (left.mixture + right.mixture))
        slack_of_chord = left.worst + slope * left.mean - line.height
        if _below_chord(touched, left, slope) <= ON_CHORD * (1.0 + slope):
            gap = max(gap, slack_of_chord)  # the chord is the curve
        else:
            chain.insert(i + 1, touched)
            slack[i : i + 1] = [slack_of_chord, slack_of_chord]
    return chain, max(gap, *slack)


def _corners(chain: list[_CurvePoint], gap: float) -> MixtureCurve:
    """Return the curve through the undominated points at which its slope changes."""
    corners: list[_CurvePoint] = []
    for point in sorted(chain, key=lambda p: (p.mean, p.worst)):
        if corners and point.worst >= corners[-1].worst - ON_CHORD:
            continue  # dominated
        if corners and point.mean <= corners[-1].mean + ON_CHORD:
            corners.pop()  # dominated by this point
        while len(corners) > 1:
            left, middle = corners[-2:]
            rise = (point.worst - left.worst) * (middle.mean - left.mean)
            chord_at_middle = left.worst + rise / (point.mean - left.mean)
            if middle.worst < chord_at_middle - ON_CHORD:
                break
            corners.pop()
        corners.append(point)
    return MixtureCurve(
        np.array([p.mean for p in corners]),
        np.array([p.worst for p in corners]),
        np.array([p.mixture for p in corners]),
        gap,
    )
