"""The trade-off of a mixture between its mean loss and its worst tail: a convex piecewise linear curve.

worst(b) = min_{λ ∈ Δ_T} CVaR_α(Σ_t λ_t ℓ^t)   s.t. Σ_t λ_t m_t ≤ b

A number added to all losses of a candidate adds to its CVaR. So the supporting line of slope −κ touches
the curve at the mixture with the smallest CVaR_α(Σ_t λ_t (ℓ^t + κ m_t)): one mixture program with shifted
losses. Its dual value proves that no point of the curve lies below the line.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tailboost.core import Column, Floats, Ints, Table, finite, frozen_value, one_blas_thread
from tailboost.solvers.mixture import Optimum, TailGame, solve, solve_among
from tailboost.solvers.tail import as_losses, measure

# A point at most this far below the chord between its neighbours lies on the chord.
ON_CHORD = 1e-10


@frozen_value
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


class _Point(NamedTuple):
    """A mixture with its mean loss and its CVaR."""

    mean: float
    worst: float
    mixture: Floats  # of the distinct candidates


@frozen_value
class _Frontier:
    """The curve of a game for mean losses of its candidates: evaluates mixtures, finds supporting lines."""

    game: TailGame
    means: Floats

    def point(self, optimum: Optimum) -> _Point:
        """Return the point of a mixture."""
        worst = self.game.offset + self.game.scale * optimum.value
        return _Point(float(self.means @ optimum.lam), worst, optimum.lam)

    def touching(self, slope: float, start: Floats | None = None) -> tuple[_Point, float]:
        """Return a point of the curve, and the height at mean 0 of its line of slope ``−slope``."""
        game = replace(self.game, shift=slope / self.game.scale * self.means)
        optimum = solve(game, start)
        height = game.offset + game.scale * game.expected(optimum.w).min()
        return self.point(optimum), height

    def start(self) -> _Point:
        """Return the best mixture of the candidates with the smallest mean loss."""
        cheapest = np.flatnonzero(self.means <= self.means.min())
        lam = solve_among(self.game, cheapest, self.game.shift)
        return self.point(self.game.optimum(lam))


@one_blas_thread()
def worst_mean_curve(
    losses: Table,
    means: Column,
    alpha: float | None = None,
    base: Column = None,
    *,
    tolerance: float = 1e-9,
    max_points: int = 1000,
) -> MixtureCurve:
    """Trace the smallest CVaR of a mixture as a function of the limit on its mean loss.

    Parameters
    ----------
    losses : array-like of shape (T, n)
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
    matrix = as_losses(losses)
    of_each = finite(means, "means")
    if of_each.shape != matrix.shape[:1]:
        raise ValueError(f"means must be {len(matrix)} numbers, one for each row of losses")
    if alpha is None:  # the CVaR is the largest loss
        p = measure(base, matrix.shape[1])
        alpha = p[p > 0].min()
    # Of candidates with equal losses the game keeps the first: the one of least mean.
    order = np.argsort(of_each, kind="stable")
    game = TailGame.build(matrix[order], alpha, base)
    distinct = order[game.candidates]
    chain, gap = _chain(_Frontier(game, of_each[distinct]), tolerance, max_points)
    points = _corners(chain)
    mixture = np.zeros((len(points), of_each.size))
    mixture[:, distinct] = [point.mixture for point in points]
    mean, worst = np.array([point[:2] for point in points]).T
    return MixtureCurve(mean, worst, mixture, gap)


def _chain(
    frontier: _Frontier, tolerance: float, max_points: float
) -> tuple[list[_Point], float]:
    """Return points of the curve in order, and the largest distance of the curve below their chords.

    Parameters
    ----------
    frontier : _Frontier
        Finds the points of the curve that touch a line.
    tolerance : float
        Largest distance of the curve below its chords at which refinement ends.
    max_points : float
        The most points.
    """
    least_cvar, _ = frontier.touching(0.0)
    chain = [frontier.start(), least_cvar]
    # Between two neighbours the curve lies at most ``slack`` below their chord; 0 marks a finished part.
    slack = [np.inf]
    gap = 0.0
    while len(chain) < max_points and max(slack) > tolerance:
        i = np.argmax(slack)
        left, right = chain[i : i + 2]
        slack[i] = 0.0
        width = right.mean - left.mean
        drop = left.worst - right.worst
        if width <= ON_CHORD or drop <= 0.0:
            continue  # one point dominates the other
        slope = drop / width
        touched, height = frontier.touching(slope, 0.5 * (left.mixture + right.mixture))
        on_chord = left.worst + slope * left.mean
        below = on_chord - (touched.worst + slope * touched.mean)
        slack_of_chord = on_chord - height
        if below <= ON_CHORD * (1.0 + slope):
            gap = max(gap, slack_of_chord)  # the chord is the curve
            continue
        chain.insert(i + 1, touched)
        slack[i : i + 1] = [slack_of_chord, slack_of_chord]
    return chain, max(gap, *slack)


def _corners(chain: list[_Point]) -> list[_Point]:
    """Return the undominated points of the curve at which its slope changes."""
    means, worst = np.array([point[:2] for point in chain]).round(10).T
    corners: list[_Point] = []
    for i in undominated(worst, means):
        point = chain[i]
        while len(corners) > 1:
            left, middle = corners[-2:]
            rise = (point.worst - left.worst) * (middle.mean - left.mean)
            if middle.worst < left.worst + rise / (point.mean - left.mean) - ON_CHORD:
                break
            corners.pop()
        corners.append(point)
    return corners
