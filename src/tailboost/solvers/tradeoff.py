"""The trade-off of a mixture between its mean loss and its worst tail: a convex piecewise linear curve.

worst(b) = min_{λ ∈ Δ_T} CVaR_α(Σ_t λ_t ℓ^t)   s.t. Σ_t λ_t m_t ≤ b

A line of slope −κ supports the curve where CVaR_α(Σ_t λ_t (ℓ^t + κ m_t)) is least, because a number added to
all losses of a hypothesis adds to the CVaR. So every supporting line is one mixture program with shifted
losses, and its dual value proves that nothing lies below the line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Floats, Ints
from tailboost.core.blas import one_blas_thread
from tailboost.core.numeric import base_measure, check_alpha
from tailboost.solvers.bits import BitLosses, Losses, LossMatrix, ShiftedLosses, as_losses
from tailboost.solvers.linear_program import WorstAndMean
from tailboost.solvers.mixture import minimize_cvar_mixture
from tailboost.solvers.tail_game import SolverError
from tailboost.solvers.tails import cvar

# A point this close to the chord between its neighbours is on it.
ON_CHORD = 1e-10
# Proven distance from the optimum up to which an answer is given.
GAP = 1e-7


@dataclass(frozen=True)
class MixtureCurve:
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


def undominated(worst: Floats, means: Floats) -> Ints:
    """Return those than which no cheaper one is as good, the cheapest first.

    Parameters
    ----------
    worst, means : ndarray of shape (n,)
        What is to be small, and the mean loss it is paid with.
    """
    order = np.lexsort((worst, means))
    before = np.minimum.accumulate(np.append(np.inf, worst[order]))[:-1]
    return order[worst[order] < before]


@dataclass(frozen=True)
class WithinSolution:
    """The mixture of least worst loss among those within a limit on the mean loss, and its certificate.

    Attributes
    ----------
    mixture : ndarray of shape (T,)
        λ.
    value : float
        CVaR of its losses.
    dual_value : float
        ``min_t (⟨w, ℓ^t⟩ + price · m_t) − price · limit``: no mixture within the limit can be better.
    gap : float
        ``value - dual_value``.
    unit_weights : ndarray of shape (n,)
        w.
    price : float
        What one unit of the limit is worth: a limit larger by d lowers the value by at most ``price · d``.
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
    """A line below the curve: ``height − slope · mean``, with the weights on units that prove it."""

    slope: float
    height: float
    unit_weights: Floats


class _Frontier:
    """The program behind the curve: measures mixtures and finds supporting lines."""

    def __init__(
        self, losses: Losses, means: npt.ArrayLike, alpha: float | None, base: npt.ArrayLike | None
    ) -> None:
        self.losses, self.means = as_losses(losses), np.asarray(means, dtype=np.float64)
        n_members, n_units = self.losses.shape
        if self.means.shape != (n_members,) or not np.isfinite(self.means).all():
            raise ValueError(f"means must be {n_members} finite numbers, one for each row of losses")
        p = base_measure(base, n_units)
        least = float(p[p > 0].min())
        self.alpha = least if alpha is None else check_alpha(alpha)
        self.base = None if base is None else p
        # The largest loss of a unit is a small program, which starts from its last solution.
        self.program: WorstAndMean | None = None
        if self.alpha <= least and not isinstance(self.losses, ShiftedLosses):
            self.used = np.flatnonzero(p)
            self.program = WorstAndMean(self.losses.columns(self.used).T, self.means)

    def point(self, mixture: Floats) -> _CurvePoint:
        worst = cvar(self.losses.combine(mixture), self.alpha, self.base)
        return _CurvePoint(float(self.means @ mixture), worst, mixture)

    def line(self, slope: float, unit_weights: Floats) -> _Line:
        expected = self.losses.expectations(unit_weights) + slope * self.means
        return _Line(slope, float(expected.min()), unit_weights)

    def best(self) -> _CurvePoint:
        """Return the best point among those of the least mean loss or, of a tail, its best member."""
        if self.program is not None:
            mixture = self.program.canonical(float(self.means.min()))
            if mixture is not None:
                return self.point(mixture)
        best = np.zeros(len(self.means))
        best[np.argmin(self.means)] = 1.0
        return self.point(best)

    def touching(self, slope: float, near: Floats | None = None) -> tuple[_CurvePoint, _Line]:
        """Return a point where a line of slope ``−slope`` touches the curve, and the line."""
        if self.program is not None:
            found = self.program.solve(slope)
            if found is None:
                raise SolverError(f"the linear program of the trade-off has no solution at slope {slope:.6g}")
            weights = np.zeros(self.losses.shape[1])
            weights[self.used] = found[1]
            return self.point(found[0]), self.line(slope, weights)
        scale = 1.0 / (1.0 + slope)  # so that steep lines keep the scale of losses
        solution = minimize_cvar_mixture(
            _shifted(self.losses, slope * scale * self.means, scale), self.alpha, self.base, start=near
        )
        return self.point(solution.mixture), self.line(slope, solution.unit_weights)


def _shifted(losses: LossMatrix, shift: Floats, scale: float) -> Losses:
    if isinstance(losses, BitLosses):
        return ShiftedLosses(losses, shift, scale)
    return losses.columns(np.arange(losses.shape[1])).T * scale + shift[:, None]


@one_blas_thread
def worst_mean_curve(
    losses: Losses,
    means: npt.ArrayLike,
    alpha: float | None = None,
    base: npt.ArrayLike | None = None,
    *,
    tolerance: float = 1e-9,
    max_points: int = 1000,
) -> MixtureCurve:
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
    tolerance : float, default=1e-9
        Parts of the curve that are proven this close to a straight line are not refined.
    max_points : int, default=1000
        Where this many points do not suffice, ``gap`` of the curve says how far it may be off.

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
    means: npt.ArrayLike,
    limit: float,
    alpha: float | None = None,
    base: npt.ArrayLike | None = None,
) -> WithinSolution:
    """Find the mixture of least CVaR among those with a mean loss of at most ``limit``.

    Parameters
    ----------
    losses, means, alpha, base
        As in `worst_mean_curve`.
    limit : float
        Largest mean loss allowed.

    Returns
    -------
    WithinSolution
        For the largest loss of a unit, among optimal λ the one with the least mean loss, then a vertex that
        prefers earlier hypotheses.

    Raises
    ------
    ValueError
        If an argument is outside its range, or every hypothesis has a mean loss above the limit.
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
    least = float(frontier.means.min())
    if not limit >= least - ON_CHORD:
        raise ValueError(f"no mixture has a mean loss of {limit:.6g}: the least is {least:.6g}")
    limit = max(limit, least)
    found = _unit_solution(frontier, limit) or _tail_solution(frontier, limit)
    if found.gap > GAP * (1.0 + abs(found.value)):
        raise SolverError(
            f"the mixture within a mean loss of {limit:.6g} is left with a gap of {found.gap:.3g}"
        )
    return found


def _unit_solution(frontier: _Frontier, limit: float) -> WithinSolution | None:
    """Solve for the largest loss of a unit as one linear program; None for tails and where it fails."""
    program = frontier.program
    solution = None if program is None else program.solve(0.0, limit)
    if program is None or solution is None:
        return None
    mixture, w, price = solution
    weights = np.zeros(frontier.losses.shape[1])
    weights[frontier.used] = w
    canonical = program.canonical(limit)
    line, point = frontier.line(price, weights), frontier.point(mixture)
    if canonical is not None and frontier.point(canonical).worst <= point.worst + ON_CHORD:
        point = frontier.point(canonical)
    return _certified(point, line, limit)


def _tail_solution(frontier: _Frontier, limit: float) -> WithinSolution:
    """Bracket the limit by points of the curve until the line between them is proven."""
    left, (right, line) = frontier.best(), frontier.touching(0.0)
    point = right
    while right.mean > limit and left.mean < right.mean - ON_CHORD and right.worst < left.worst:
        slope = (left.worst - right.worst) / (right.mean - left.mean)
        share = float(np.clip((limit - left.mean) / (right.mean - left.mean), 0.0, 1.0))
        between = (1.0 - share) * left.mixture + share * right.mixture
        new, line = frontier.touching(slope, between)
        point = frontier.point(between)
        # Where the line touches no lower than the chord, the chord is the curve.
        chord = left.worst + slope * left.mean
        on_chord = chord - (new.worst + slope * new.mean) <= ON_CHORD * (1.0 + slope)
        if on_chord or point.worst - (line.height - slope * limit) <= 0.1 * GAP:
            break
        left, right = (new, right) if new.mean <= limit else (left, new)
    return _certified(point, line, limit)


def _certified(point: _CurvePoint, line: _Line, limit: float) -> WithinSolution:
    dual = line.height - line.slope * limit
    return WithinSolution(
        point.mixture, point.worst, dual, point.worst - dual, line.unit_weights, line.slope, point.mean
    )


def _chain(frontier: _Frontier, tolerance: float, max_points: int) -> tuple[list[_CurvePoint], float]:
    """Return points on the curve in order, and how far it may be below the chords between them."""
    first, (last, _) = frontier.best(), frontier.touching(0.0)
    # Between two neighbours the curve is at most ``slack`` below their chord; 0 where that is settled.
    chain, slack, gap = [first, last], [np.inf], 0.0
    while len(chain) < max_points and max(slack) > tolerance:
        # A small program starts from its last solution, so the next slope had better be near.
        settled = frontier.program is None
        i = int(np.argmax(slack)) if settled else next(j for j, s in enumerate(slack) if s > tolerance)
        left, right = chain[i : i + 2]
        slack[i] = 0.0
        if right.mean - left.mean <= ON_CHORD or left.worst <= right.worst:
            continue  # one point dominates the other
        slope = (left.worst - right.worst) / (right.mean - left.mean)
        new, line = frontier.touching(slope, 0.5 * (left.mixture + right.mixture))
        chord = left.worst + slope * left.mean
        if chord - (new.worst + slope * new.mean) <= ON_CHORD * (1.0 + slope):
            gap = max(gap, chord - line.height)
        else:
            chain.insert(i + 1, new)
            slack[i : i + 1] = [chord - line.height] * 2  # above the line that touched it
    return chain, max(gap, *slack)


def _corners(chain: list[_CurvePoint], gap: float) -> MixtureCurve:
    """Keep the points that no other dominates and that bend the curve."""
    kept: list[_CurvePoint] = []
    for point in sorted(chain, key=lambda p: (p.mean, p.worst)):
        if kept and point.worst >= kept[-1].worst - ON_CHORD:
            continue
        if kept and point.mean <= kept[-1].mean + ON_CHORD:
            kept.pop()
        while len(kept) > 1:
            a, b = kept[-2:]
            on_chord = a.worst + (point.worst - a.worst) * (b.mean - a.mean) / (point.mean - a.mean)
            if b.worst < on_chord - ON_CHORD:
                break
            kept.pop()
        kept.append(point)
    return MixtureCurve(
        np.array([p.mean for p in kept]),
        np.array([p.worst for p in kept]),
        np.array([p.mixture for p in kept]),
        gap,
    )
