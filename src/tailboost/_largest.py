"""The expectation of the largest of several uncertain numbers."""

from __future__ import annotations

import numpy as np
from scipy.integrate import trapezoid
from scipy.special import ndtr

from tailboost._typing import Floats

# Of the integral: points, how many deviations it reaches, the least of them.
POINTS, TAILS, LEAST_DEVIATION = 65, 5.0, 1e-4


def expected_largest(mean: Floats, deviation: Floats) -> Floats:
    """Return the expectation of the largest of independent normal variables, for each of T rows, shape (T,).

    From ``E max = a + ∫_a (1 − Π_u Φ((x − μ_u)/σ_u)) dx`` with an a below which the largest hardly ever is;
    means μ and deviations σ ≥ 0 have shape (T, m).
    """
    deviation = np.maximum(deviation, LEAST_DEVIATION)
    low = (mean - TAILS * deviation).max(axis=1)
    high = (mean + TAILS * deviation).max(axis=1)
    x = np.linspace(low, high, POINTS)
    below = np.ones_like(x)
    for centre, spread in zip(mean.T, deviation.T, strict=True):
        below *= ndtr((x - centre) / spread)
    return np.asarray(low + trapezoid(1.0 - below, x, axis=0))
