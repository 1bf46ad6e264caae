"""Worst-case weights for fixed losses: max ⟨w, ℓ⟩ over a ball around the base measure (Blanchet et al. 2019).

    KL     Σ w_i log(w_i/p_i) ≤ r          w_i ∝ p_i exp(θ ℓ_i)
    χ²     ½ Σ (w_i − p_i)²/p_i ≤ r        w_i ∝ p_i (ℓ_i − θ)_+
    CVaR   w_i ≤ p_i/α, α = e^(−r)         the tail of mass α

Radius 0 gives p for all three balls. At a large radius all mass is on the units with the largest loss, in
proportion to p. With smoothing σ > 0, ⟨w, ℓ⟩ − σ KL(w ‖ p) is maximised over the KL or CVaR ball. The value
is then differentiable in ℓ everywhere; without smoothing, the value has kinks (the idea of their Remark 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Floats
from tailboost.core.blas import one_blas_thread
from tailboost.core.numeric import base_measure, check_number, loss_vector
from tailboost.solvers.regularized import Entropic
from tailboost.solvers.tail_game import GAP, SolverError
from tailboost.solvers.tails import tail

Uncertainty = Literal["kl", "cvar", "chi2"]

#: Units per block, so that a block fits the processor's cache.
BLOCK = 32768
#: For θ below this, the tilted measure is computed as a difference from p.
SMALL = 0.1
#: Size of the sample that gives the first guess for all units.
SAMPLE = 65536


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
    n_iter : int
        Passes of the search for ``parameter``.
    method : str
        "newton", "closed-form", "limit" (all mass on the largest losses) or "smoothed".
    """

    unit_weights: Floats
    value: float
    dual_value: float
    gap: float
    parameter: float
    n_iter: int
    method: str


@one_blas_thread
def worst_case_weights(
    losses: npt.ArrayLike,
    uncertainty: Uncertainty = "kl",
    *,
    radius: float,
    base: npt.ArrayLike | None = None,
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

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If the gap stays above ``1e-8 (1 + |value|)``.
    """
    if uncertainty not in _BALLS:
        raise ValueError(f"uncertainty must be one of {sorted(_BALLS)}, got {uncertainty!r}")
    radius = check_number(radius, "radius", 0, closed=True)
    smoothing = check_number(smoothing, "smoothing", 0, closed=True)
    if smoothing and uncertainty == "chi2":
        raise ValueError("smoothing is for uncertainty 'kl' and 'cvar', got 'chi2'")
    scaled = _ScaledLosses.build(losses, base)
    values, top, scale = scaled.values, scaled.top, scaled.scale
    if radius == 0 or scale == 0:
        w = base_measure(base, values.size)
        value = float(w @ values)
        return WorstCaseSolution(w, value, value, 0.0, 0.0 if uncertainty == "kl" else top, 0, "closed-form")
    if smoothing and (smoothed := _smoothed(scaled, uncertainty, radius, smoothing)):
        return smoothed
    if radius >= _LIMITS[uncertainty](scaled.largest):
        w = np.where(values == top, scaled.p / scaled.largest, 0.0)
        return WorstCaseSolution(w, top, top, 0.0, np.inf if uncertainty == "kl" else top, 0, "limit")
    w, gain, bound, parameter, n_iter, method = _BALLS[uncertainty](scaled, radius)
    # The KL ball is active here, so smoothing subtracts σ·radius from the value and from the bound.
    value, gap = top + scale * gain - smoothing * radius, scale * (bound - gain)
    if not gap <= max(GAP * (1 + abs(value)), 1e-13 * (scale + abs(top))):
        raise SolverError(
            f"worst_case_weights: the gap {gap:.3g} is too large (n = {values.size}, "
            f"uncertainty = {uncertainty!r}, radius = {radius:g})"
        )
    parameter = parameter / scale if uncertainty == "kl" else top + scale * parameter
    return WorstCaseSolution(w, value, value + gap, gap, parameter, n_iter, method)


@dataclass(frozen=True)
class _ScaledLosses:
    """Losses as distances below the largest, divided by their range: d ∈ [−1, 0], in blocks.

    ``p`` is the base measure, or 1/n if uniform; ``largest`` is the mass of the largest losses.
    """

    values: Floats
    p: Floats | float
    top: float
    scale: float
    largest: float

    @classmethod
    def build(cls, losses: npt.ArrayLike, base: npt.ArrayLike | None) -> Self:
        values = loss_vector(losses)
        p = 1.0 / values.size if base is None else base_measure(base, values.size)
        with_mass = values if base is None else values[np.asarray(p) > 0]
        top = float(with_mass.max())
        at_top = values == top
        largest = float(np.count_nonzero(at_top) * p if isinstance(p, float) else p @ at_top)
        return cls(values, p, top, top - float(with_mass.min()), largest)

    @property
    def factor(self) -> float:
        """Factor of sums over `blocks`, which give units of a uniform p the weight 1."""
        return self.p if isinstance(self.p, float) else 1.0

    def blocks(self) -> Iterator[tuple[slice, Floats, Floats | float]]:
        for start in range(0, self.values.size, BLOCK):
            block = slice(start, start + BLOCK)
            d = self.values[block] - self.top
            d /= self.scale
            if isinstance(self.p, float):
                yield block, d, 1.0
                continue
            # Units without mass may have a larger loss.
            np.minimum(d, 0.0, out=d)
            yield block, d, self.p[block]

    def moments(self, weigh: Callable[[Floats], Floats]) -> Floats:
        """Return the sums of p f, p f d, p f d² and p f d³ over units, for f = weigh(d)."""
        total = np.zeros(4)
        for _, d, p in self.blocks():
            f = weigh(d)
            if not isinstance(p, float):
                f *= p
            total[0] += f.sum()
            for power in (1, 2, 3):
                total[power] += f @ d
                if power < 3:
                    f *= d
        return total * self.factor

    def weights(self, weigh: Callable[[Floats], Floats]) -> tuple[Floats, float, float]:
        """Return normalised p f, its mean of d, and the sum of p f."""
        w = np.empty(self.values.size)
        total = mean = 0.0
        for block, d, p in self.blocks():
            f = weigh(d)
            if not isinstance(p, float):
                f *= p
            w[block] = f
            total += float(f.sum())
            mean += float(f @ d)
        w /= total
        return w, mean / total, total * self.factor

    def sample(self) -> _ScaledLosses | None:
        """Return every k-th unit, or None if the units are few."""
        every = slice(None, None, self.values.size // SAMPLE)
        if self.values.size < 4 * SAMPLE:
            return None
        return type(self).build(self.values[every], None if isinstance(self.p, float) else self.p[every])


#: Radius from which all mass is on the largest losses, as a function of their base mass m.
_LIMITS: dict[str, Callable[[float], float]] = {
    "kl": lambda m: -float(np.log(m)),
    "cvar": lambda m: -float(np.log(m)),
    "chi2": lambda m: 0.5 * (1.0 / m - 1.0),
}


def _kl(scaled: _ScaledLosses, radius: float) -> tuple[Floats, float, float, float, int, str]:
    theta, log_total, n_iter = _temperature(scaled, radius)
    w, gain, total = scaled.weights(partial(_tilt, np.exp, theta))
    # Dual: min_θ (r + log Σ p e^{θd})/θ.
    log_total = float(np.log(total)) if theta > SMALL else log_total
    return w, gain, (radius + log_total) / theta, theta, n_iter, "newton"


def _tilt(function: np.ufunc, theta: float, d: Floats) -> Floats:
    exponent = theta * d
    return np.asarray(function(exponent, out=exponent))


def _temperature(scaled: _ScaledLosses, radius: float) -> tuple[float, float, int]:
    """Return θ with KL(w(θ) ‖ p) = r for w_i ∝ p_i e^{θ d_i}, log Σ p e^{θ d}, and the number of passes."""
    limit = -float(np.log(scaled.largest))
    small = radius < 0.5 * limit
    low, high, theta = 0.0, np.inf, 0.0
    sample = scaled.sample()
    if sample is not None and sample.scale > 0 and radius < -np.log(sample.largest):
        theta = _temperature(sample, radius)[0] * scaled.scale / sample.scale
    if theta == 0.0:
        _, first, second, _ = scaled.moments(np.ones_like)
        theta = float(np.sqrt(2 * radius / (second - first**2)))
    for n_iter in range(1, 201):  # noqa: B007
        if theta > SMALL:
            total, *powers = scaled.moments(partial(_tilt, np.exp, theta))
            log_total = float(np.log(total))
        else:
            # Near θ = 0, sums are computed as differences from p.
            excess = scaled.moments(partial(_tilt, np.expm1, theta))
            log_total, total = float(np.log1p(excess[0])), 1 + excess[0]
            powers = list(scaled.moments(np.ones_like)[1:] + excess[1:])
        mean, square, cube = (power / total for power in powers)
        variance = square - mean**2
        divergence = theta * mean - log_total
        error = abs(divergence - radius)
        if error <= 1e-12 * radius:
            break
        low, high = (theta, high) if divergence < radius else (low, theta)
        # Derivatives of the divergence in θ.
        slope, bend = theta * variance, variance + theta * (cube - 3 * mean * square + 2 * mean**3)
        # The divergence is nearly quadratic in small θ and approaches its limit exponentially. So Halley's
        # method is applied to √(2 KL) or to log(limit − KL), which are nearly linear.
        with np.errstate(divide="ignore", invalid="ignore"):
            if small:
                root = np.sqrt(2 * max(divergence, 0.0))
                miss, first = root - np.sqrt(2 * radius), slope / root
                second = (bend - first**2) / root
            else:
                rest = limit - divergence
                miss, first = np.log(limit - radius) - np.log(rest), slope / rest
                second = bend / rest + first**2
            new = theta - miss / (first - 0.5 * miss * second / first)
        if not (low < new < high):
            new = 2 * theta + 1 if high == np.inf else 0.5 * (low + high)
        if new == theta or high - low <= 1e-15 * theta:
            break
        theta = float(new)
        if error <= 1e-4 * radius and theta > SMALL:
            break  # the last step cubes the error
    return theta, log_total, n_iter


def _chi2(scaled: _ScaledLosses, radius: float) -> tuple[Floats, float, float, float, int, str]:
    mean = scaled.moments(np.ones_like)[1]
    variance = scaled.moments(lambda d: (d - mean) ** 2)[0]
    theta, n_iter, method = float(mean - np.sqrt(variance / (2 * radius))), 1, "closed-form"
    bound = float(mean + np.sqrt(2 * radius * variance))
    if theta > -1:
        theta, second, n_iter = _threshold(scaled, radius)
        # Dual: min_θ θ + √((1 + 2r) E(d − θ)²_+).
        bound, method = theta + float(np.sqrt((1 + 2 * radius) * second)), "newton"
    w, gain, _ = scaled.weights(lambda d: np.maximum(d - theta, 0.0))
    return w, gain, bound, theta, n_iter, method


def _threshold(scaled: _ScaledLosses, radius: float) -> tuple[float, float, int]:
    """Return θ with E(d − θ)²_+ = (1 + 2r) (E(d − θ)_+)², the left side, and the number of passes.

    Then w_i ∝ p_i (d_i − θ)_+ has the radius r. The ratio of both sides grows from θ = −1 to 0.
    """
    ratio, low, high, theta = 1.0 + 2.0 * radius, -1.0, 0.0, -0.5
    sample = scaled.sample()
    if sample is not None and sample.scale > 0 and radius < _LIMITS["chi2"](sample.largest):
        guess = (sample.top + sample.scale * _threshold(sample, radius)[0] - scaled.top) / scaled.scale
        theta = min(max(guess, -0.999), -1e-9)
    for n_iter in range(1, 201):  # noqa: B007
        active = first = second = 0.0
        for _, d, p in scaled.blocks():
            u = np.maximum(d - theta, 0.0)
            if isinstance(p, float):
                active += np.count_nonzero(u)
                first += float(u.sum())
                second += float(u @ u)
            else:
                active += float(p @ (u > 0))
                first += float(p @ u)
                second += float((p * u) @ u)
        active, first, second = (scaled.factor * moment for moment in (active, first, second))
        excess = second - ratio * first**2
        if abs(excess) <= 1e-14 * second or high - low <= 1e-15:
            break
        low, high = (theta, high) if excess < 0 else (low, theta)
        slope = -2 * first + 2 * ratio * first * active
        new = theta - excess / slope if slope > 0 else np.nan
        if not (low < new < high):
            new = 0.5 * (low + high)
        if new == theta:
            break
        theta = float(new)
    return theta, second, n_iter


def _tail(scaled: _ScaledLosses, radius: float) -> tuple[Floats, float, float, float, int, str]:
    alpha = float(np.exp(-radius))
    p = np.full(scaled.values.size, scaled.p) if isinstance(scaled.p, float) else scaled.p
    w, boundary = tail(scaled.values, alpha, p)
    eta = (boundary - scaled.top) / scaled.scale
    excess = gain = 0.0
    for block, d, q in scaled.blocks():
        gain += float(w[block] @ d)
        excess += float(np.sum(q * np.maximum(d - eta, 0.0)))
    return w, gain, eta + scaled.factor * excess / alpha, eta, 1, "closed-form"


_BALLS: dict[str, Callable[[_ScaledLosses, float], tuple[Floats, float, float, float, int, str]]] = {
    "kl": _kl,
    "cvar": _tail,
    "chi2": _chi2,
}


def _smoothed(
    scaled: _ScaledLosses, uncertainty: str, radius: float, smoothing: float
) -> WorstCaseSolution | None:
    """Return the maximiser with smoothing; None if the ball decides alone.

    Without a ball, the maximiser is p tilted at temperature σ. If this tilt is outside of the KL ball, the
    ball decides the temperature. If the tilt exceeds some caps, w_i = min(p_i/α, κ p_i e^(ℓ_i/σ)).
    """
    theta = scaled.scale / smoothing
    w, gain, total = scaled.weights(partial(_tilt, np.exp, theta))
    log_total = float(np.log(total))
    if theta <= SMALL:  # a difference from 1
        log_total = float(np.log1p(scaled.moments(partial(_tilt, np.expm1, theta))[0]))
    # The largest w/p is e^(−log_total), that of the largest loss.
    if (theta * gain - log_total if uncertainty == "kl" else -log_total) <= radius:
        value = scaled.top + smoothing * log_total
        return WorstCaseSolution(w, value, value, 0.0, 1 / smoothing, 1, "smoothed")
    return None if uncertainty == "kl" else _smoothed_tail(scaled, radius, smoothing)


def _smoothed_tail(scaled: _ScaledLosses, radius: float, smoothing: float) -> WorstCaseSolution:
    p = np.full(scaled.values.size, scaled.p) if isinstance(scaled.p, float) else scaled.p
    used = p > 0
    base, losses = p[used], scaled.values[used] - scaled.top
    best = Entropic(base, float(np.exp(-radius)), 1 / smoothing)
    solution = best(losses)
    value = float(solution.w @ losses) - solution.penalty
    # Dual: min_η η + Σ max_{0 ≤ w ≤ p/α} w (ℓ − η) − σ w log(w/p); at η + σ(1 + log 1/α) the caps begin.
    caps_from = best.guess
    eta = caps_from - smoothing * (1 + radius)
    log_ratio = radius + np.minimum((losses - caps_from) / smoothing, 0.0)
    dual = eta + float((base * np.exp(log_ratio)) @ (losses - eta - smoothing * log_ratio))
    gap, rounding = dual - value, 1e-15 * smoothing + 1e-13 * (scaled.scale + abs(scaled.top))
    if not gap <= max(GAP * (1 + abs(scaled.top + value)), rounding):
        raise SolverError(f"worst_case_weights: the gap {gap:.3g} is too large (smoothing = {smoothing:g})")
    w = np.zeros(scaled.values.size)
    w[used] = solution.w
    return WorstCaseSolution(
        w, scaled.top + value, scaled.top + dual, gap, scaled.top + caps_from, 1, "smoothed"
    )
