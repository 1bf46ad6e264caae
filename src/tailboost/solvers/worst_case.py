"""Worst-case weights for fixed losses: max ⟨w, ℓ⟩ over a ball around the base measure (Blanchet et al. 2019).

    KL     Σ w_i log(w_i/p_i) ≤ r          w_i ∝ p_i exp(θ ℓ_i)
    χ²     ½ Σ (w_i − p_i)²/p_i ≤ r        w_i ∝ p_i (ℓ_i − θ)_+
    CVaR   w_i ≤ p_i/α, α = e^(−r)         the tail of mass α

Radius 0 gives p for all three balls. At a large radius all mass is on the units with the largest loss, in
proportion to p. With smoothing σ > 0, ⟨w, ℓ⟩ − σ KL(w ‖ p) is maximised over the KL or CVaR ball. The value
is then differentiable in ℓ everywhere; without smoothing, the value has kinks (the idea of their Remark 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import rel_entr

from tailboost.core.array_types import Floats
from tailboost.core.checks import base_measure, check_number, loss_vector
from tailboost.core.long_work import one_blas_thread
from tailboost.core.spelling import listed
from tailboost.solvers.regularized import Entropic, divergence
from tailboost.solvers.tail_game import DUALITY_GAP, SolverError, tail

Uncertainty = Literal["kl", "cvar", "chi2"]

#: For θ below this, the tilted measure is computed as a difference from p.
SMALL = 0.1
#: Relative step in θ that is rounding.
LAST_STEP = 1e-14
#: Accuracy of root finding, relative and absolute.
ACCURACY = {"rtol": 4 * float(np.finfo(float).eps), "xtol": 1e-300}


@dataclass(frozen=True)
class WorstCaseSolution:
    """Worst-case weights and their certificate.

    Attributes
    ----------
    unit_weights : ndarray of shape (n,)
        The maximiser w, on the simplex and in the ball.
    value : float
        Worst-case loss ⟨w, ℓ⟩; with smoothing σ, minus σ KL(w ‖ p).
    dual_value : float
        Upper bound from the dual for all weights in the ball.
    gap : float
        ``dual_value - value``.
    parameter : float
        θ of the table above: inverse temperature (KL; ∞ at the limit) or threshold (χ², CVaR).
    method : str
        "root" (of the radius in ``parameter``), "closed-form", "limit" (all mass on the largest losses) or
        "smoothed".
    """

    unit_weights: Floats
    value: float
    dual_value: float
    gap: float
    parameter: float
    method: str


@one_blas_thread
def worst_case_weights(
    losses: ArrayLike,
    uncertainty: Uncertainty = "kl",
    *,
    radius: float,
    base: ArrayLike | None = None,
    smoothing: float = 0.0,
) -> WorstCaseSolution:
    """Return the weights in a ball around the base measure with the largest expected loss.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Finite losses.
    uncertainty : {"kl", "cvar", "chi2"}
        The ball, as in the table above.
    radius : float
        Non-negative: KL(w ‖ p) ≤ r, ½ Σ (w_i − p_i)²/p_i ≤ r, or CVaR at α = e^(−r).
    base : array-like of shape (n,), optional
        Base measure; uniform by default.
    smoothing : float, default=0.0
        σ ≥ 0, on the scale of the losses: σ KL(w ‖ p) is subtracted from the loss, which lowers the value by
        at most σ·radius. Not for "chi2".

    Returns
    -------
    WorstCaseSolution
        ``unit_weights`` are w, ``value`` is their expected loss, and ``dual_value`` a bound for all weights.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If the gap stays above ``1e-8 (1 + |value|)``.
    """
    if uncertainty not in BALLS:
        raise ValueError(f"uncertainty must be one of {sorted(BALLS)}, got {uncertainty!r}")
    radius = check_number(radius, "radius", 0, closed=True)
    smoothing = check_number(smoothing, "smoothing", 0, closed=True)
    if smoothing:
        check_smooths(uncertainty, smoothing)
    values = loss_vector(losses)
    p = base_measure(base, np.shape(losses)[0])
    has_mass = p > 0
    if has_mass.all():
        return _worst_case(values, p, uncertainty, radius, smoothing)
    solution = _worst_case(
        values[has_mass],
        base_measure(p[has_mass], has_mass.sum()),
        uncertainty,
        radius,
        smoothing,
    )
    w = np.zeros(len(p))
    w[has_mass] = solution.unit_weights
    return replace(solution, unit_weights=w)


def _worst_case(
    values: Floats, p: Floats, uncertainty: Uncertainty, radius: float, smoothing: float
) -> WorstCaseSolution:
    """Return the weights of `worst_case_weights` for checked losses and a positive base measure.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Loss of each row.
    p : ndarray of shape (n,)
        Positive base measure, of sum 1.
    uncertainty : str
        Name of the ball, a key of `BALLS`.
    radius : float
        Its radius.
    smoothing : float
        Temperature σ of the smoothing; 0 for none.
    """
    ball = BALLS[uncertainty]
    top = float(values.max())
    scale = top - float(values.min())
    if radius == 0 or scale == 0:
        value = float(p @ values)
        parameter = ball.parameter(0.0, top, 0.0)
        return WorstCaseSolution(p, value, value, 0.0, parameter, "closed-form")
    if smoothing and ball.smooth is not None:
        smoothed = ball.smooth(values, p, radius, smoothing)
        if smoothed is not None:
            return smoothed
    d = (values - top) / scale  # distance below the largest loss, in [−1, 0]
    mass_of_largest = float(p[d == 0].sum())
    if radius >= ball.critical(mass_of_largest, 1.0):  # the ball holds all of their weights
        w = np.where(d == 0, p / mass_of_largest, 0.0)
        parameter = top
        if ball.tilts:
            parameter = np.inf
        return WorstCaseSolution(w, top, top, 0.0, parameter, "limit")
    best = ball.solve(d, p, radius)
    gain = float(best.w @ d)
    # The KL ball is active here, so smoothing subtracts σ·radius from the value and from the bound.
    value = top + scale * gain - smoothing * radius
    gap = scale * (best.bound - gain)
    _check_gap(gap, value, scale + abs(top))
    parameter = ball.parameter(best.parameter, top, scale)
    return WorstCaseSolution(best.w, value, value + gap, gap, parameter, best.method)


def _check_gap(gap: float, value: float, size: float) -> None:
    """Raise SolverError for a gap above the tolerance at a value and above rounding of losses (``size``)."""
    if not abs(gap) <= max(DUALITY_GAP * (1 + abs(value)), 1e-13 * size):
        raise SolverError(
            f"worst_case_weights: the gap {gap:.3g} is too large for the value {value:.6g}"
        )


class _Best(NamedTuple):
    """Best weights for distances d with their parameter, and the dual bound."""

    w: Floats
    bound: float
    parameter: float
    method: str


class _Tilt(NamedTuple):
    """The base measure p tilted by e^{θ d}."""

    w: Floats  # w_i ∝ p_i e^{θ d_i}, shape (n,)
    distance: float  # KL(w ‖ p)
    log_total: float  # log Σ p e^{θ d}


def _tilted(d: Floats, p: Floats, theta: float) -> _Tilt:
    """Return p tilted by e^{θ d}, also for a tiny θ to the last digits."""
    if theta > SMALL:
        w = p * np.exp(theta * d)
        total = float(w.sum())
        w /= total
        log_total = float(np.log(total))
        return _Tilt(w, theta * float(w @ d) - log_total, log_total)
    excess = np.expm1(theta * d)  # near θ = 0, sums are computed as differences from p
    mean = float(p @ excess)
    w = p * (1.0 + excess) / (1.0 + mean)
    distance = divergence((excess - mean) / (1.0 + mean), p)
    return _Tilt(w, distance, float(np.log1p(mean)))


def _kl(d: Floats, p: Floats, radius: float) -> _Best:
    """Return the best weights in the KL ball of a radius r: w_i ∝ p_i e^{θ d_i} with KL(w ‖ p) = r.

    ``d`` are the distances below the largest loss, in [−1, 0], and ``p`` is the base measure.
    """
    low = 0.0
    high = np.inf
    variance = p @ (d - p @ d) ** 2
    theta = float(np.sqrt(2 * radius / variance))  # KL is about θ² variance / 2
    # Newton's method for √KL, which is nearly linear in small θ, inside a bracket.
    for _ in range(200):
        tilt = _tilted(d, p, theta)
        w = tilt.w
        root = max(tilt.distance, 0.0) ** 0.5  # rounding may give a negative distance
        if root < radius**0.5:
            low = theta
        else:
            high = theta
        slope = theta * float(w @ d**2 - (w @ d) ** 2) / max(2 * root, 1e-300)
        next_theta = np.inf
        if slope > 0:
            next_theta = theta - (root - radius**0.5) / slope
        if not low < next_theta < high:
            next_theta = 2 * theta
            if high < np.inf:  # bisection
                next_theta = 0.5 * (low + high)
        if abs(next_theta - theta) <= LAST_STEP * theta:
            break
        theta = next_theta
    # Dual: min_θ (r + log Σ p e^{θd})/θ.
    return _Best(w, (radius + tilt.log_total) / theta, theta, "root")


def _chi2(d: Floats, p: Floats, radius: float) -> _Best:
    """Return the best weights in a χ² ball: w_i ∝ p_i (d_i − θ)_+ with E(d − θ)²_+ = (1 + 2r) (E(d − θ)_+)².

    Parameters are as in `_kl`; E is the mean under p. The ratio of both sides grows from θ = −1 to 0. If θ ≤
    −1, all weights are positive.
    """
    ratio = 1.0 + 2.0 * radius

    def excess(theta: float) -> float:
        above = np.maximum(d - theta, 0.0)
        return float(p @ above**2 - ratio * (p @ above) ** 2)

    active = np.ones(len(d), dtype=bool)
    if excess(-1.0) < 0:
        active = d > float(brentq(excess, -1.0, d[d < 0].max(), **ACCURACY))
    # With the positive weights known, the equation is quadratic in θ.
    active_base = p[active]
    mass = float(active_base.sum())
    mean = float(active_base @ d[active]) / mass
    variance = float(active_base @ (d[active] - mean) ** 2) / mass
    theta = mean - float(np.sqrt(variance / (ratio * mass - 1.0)))
    above = np.maximum(d - theta, 0.0)
    w = p * above
    # Dual: min_θ θ + √((1 + 2r) E(d − θ)²_+).
    return _Best(w / w.sum(), theta + float(np.sqrt(ratio * (w @ above))), theta, "root")


def _tail(d: Floats, p: Floats, radius: float) -> _Best:
    """Return the weights of the worst tail of mass α = e^(−r)."""
    alpha = float(np.exp(-radius))
    w, eta = tail(d, alpha, p)
    bound = eta + float(p @ np.maximum(d - eta, 0.0)) / alpha
    return _Best(w, bound, eta, "closed-form")


def _smoothed_kl(
    values: Floats, p: Floats, radius: float, smoothing: float
) -> WorstCaseSolution | None:
    """Return p tilted at temperature σ (``smoothing``); None if this tilt is outside of the KL ball.

    Then the ball decides the temperature. Parameters are as in `_worst_case`.
    """
    top = float(values.max())
    scale = top - float(values.min())
    tilt = _tilted((values - top) / scale, p, scale / smoothing)
    if tilt.distance > radius:
        return None
    value = top + smoothing * tilt.log_total
    return WorstCaseSolution(tilt.w, value, value, 0.0, 1 / smoothing, "smoothed")


def _smoothed_tail(
    values: Floats, p: Floats, radius: float, smoothing: float
) -> WorstCaseSolution:
    """Return p tilted at temperature σ (``smoothing``), within the caps p/α = p e^radius of the CVaR ball.

    If the tilt exceeds some caps, w_i = min(p_i/α, κ p_i e^(ℓ_i/σ)). Parameters are as in `_worst_case`.
    """
    top = float(values.max())
    losses = values - top
    scale = -float(losses.min())
    tilt = _tilted(losses / scale, p, scale / smoothing)
    if -tilt.log_total <= radius:  # the largest w/p is e^(−log_total), that of the largest loss
        value = top + smoothing * tilt.log_total
        return WorstCaseSolution(tilt.w, value, value, 0.0, 1 / smoothing, "smoothed")
    solution = Entropic(p, float(np.exp(-radius)), 1 / smoothing)(losses)
    value = float(solution.w @ losses) - solution.penalty
    # Dual: min_η η + Σ max_{0 ≤ w ≤ p/α} w (ℓ − η) − σ w log(w/p); at η + σ(1 + log 1/α) the caps begin.
    _, caps_from = solution.free
    eta = caps_from - smoothing * (1 + radius)
    log_ratio = radius + np.minimum((losses - caps_from) / smoothing, 0.0)
    dual = eta + float((p * np.exp(log_ratio)) @ (losses - eta - smoothing * log_ratio))
    _check_gap(dual - value, top + value, scale + abs(top) + smoothing)
    return WorstCaseSolution(
        solution.w, top + value, top + dual, dual - value, top + caps_from, "smoothed"
    )


@dataclass(frozen=True)
class Ball:
    """A ball around the base measure.

    Attributes
    ----------
    solve : callable
        ``solve(d, p, radius)``: the best weights, for distances d ≤ 0 below the largest loss.
    reach : callable
        ``reach(mass, share)``: the least radius at which units of a smaller mass get a share.
    tilts : bool
        Whether θ is an inverse temperature, otherwise a threshold.
    smooth : callable or None
        ``smooth(values, p, radius, smoothing)``: the solution with smoothing, or None if the ball decides
        alone. A ball without it cannot be smoothed.
    near_kl : bool
        Whether the distance is that of the KL ball near the base measure, up to higher orders. Only then
        ``radius="auto"`` is a radius of this ball.
    """

    solve: Callable[[Floats, Floats, float], _Best]
    reach: Callable[[float, float], float]
    tilts: bool = False
    smooth: Callable[[Floats, Floats, float, float], WorstCaseSolution | None] | None = None
    near_kl: bool = False

    def parameter(self, theta: float, top: float, scale: float) -> float:
        """Return θ on the scale of the losses; a temperature is 0 if all losses are equal."""
        if not self.tilts:
            return top + scale * theta
        if not scale:
            return 0.0
        return theta / scale

    def critical(self, mass: float, share: float) -> float:
        """Return the least radius at which weights can raise units of a base mass to a share.

        It is 0 if the mass is as large, and infinite for a mass of 0.
        """
        if mass >= share:
            return 0.0
        if mass > 0.0:
            return float(self.reach(mass, share))
        return np.inf


#: The balls by name: the only list.
BALLS: dict[str, Ball] = {
    "kl": Ball(
        _kl,
        lambda mass, share: rel_entr(share, mass) + rel_entr(1.0 - share, 1.0 - mass),
        tilts=True,
        smooth=_smoothed_kl,
        near_kl=True,
    ),
    "cvar": Ball(_tail, lambda mass, share: np.log(share / mass), smooth=_smoothed_tail),
    "chi2": Ball(
        _chi2,
        lambda mass, share: 0.5 * (share - mass) ** 2 / (mass * (1.0 - mass)),
        near_kl=True,
    ),
}


def check_smooths(uncertainty: Uncertainty, smoothing: float) -> None:
    """Raise if the worst case over a ball cannot be smoothed."""
    if BALLS[uncertainty].smooth is None:
        smooth = listed([name for name, ball in BALLS.items() if ball.smooth is not None])
        raise ValueError(
            f"smoothing={smoothing:g} is for uncertainty {smooth}; got {uncertainty!r}"
        )


def check_has_radius(uncertainty: Uncertainty) -> None:
    """Raise if ``radius="auto"``, a quantile of the likelihood ratio, is no radius of a ball."""
    if not BALLS[uncertainty].near_kl:
        with_auto = listed([name for name, ball in BALLS.items() if ball.near_kl])
        raise ValueError(
            f"radius='auto' is for uncertainty {with_auto}; for {uncertainty!r} give a number, "
            "such as radius=0.1"
        )
