"""Artificial data of the papers, drawn from known densities.

Each generator takes a positive number of rows and a seed, and returns features of shape (n, d) and classes,
integers from 0, of shape (n,).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

Sample = tuple[NDArray[np.float64], NDArray[np.int64]]

_SQUARES = np.array([(0.0, 1.4), (1.4, 1.4), (2.8, 1.4), (1.4, 2.8), (1.4, 0.0)])
_DISCS = np.array([(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0)])
_GAUSSIAN_DIM = 20
_GAUSSIAN_SHIFT = 2.0 / np.sqrt(_GAUSSIAN_DIM)


def make_squares(n_samples: int = 100, *, random_state: Any = None) -> Sample:
    """Draw five overlapping squares [1]_: 2 features, 5 classes of ``n_samples`` rows each, ordered by class.

    Each class is uniform in a square of side 2 standing on a corner, centred at (0, 1.4), (1.4, 1.4), (2.8,
    1.4), (1.4, 2.8), (1.4, 0); the square of class 1 overlaps the other four. [1]_ draws 100 of each class to
    train, 100,000 to test. Its text has no coordinates: centres and side are read off its figures, and so is
    the scale from 0 to 1 by the range of the training rows, which is not applied here.

    References
    ----------
    .. [1] Y. Saito et al., "Bounding the Worst-class Error: A Boosting Approach", 2024, section on artificial
       data.
    """
    _check_count("n_samples", n_samples)
    rng = check_random_state(random_state)
    y = np.repeat(np.arange(len(_SQUARES)), n_samples)
    u = rng.uniform(-1.0, 1.0, size=(len(y), 2))
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)  # 45°
    return _SQUARES[y] + u @ turn.T, y


def make_discs(n_min: int = 100, *, ratio: int = 10, random_state: Any = None) -> Sample:
    """Draw four overlapping discs [1]_: 2 features, 3 large classes and a small one, ordered by class.

    Each class is uniform in a disc of radius 1. Classes 0, 1, 2 are centred at (0, 0), (0, 1), (1, 1) and
    have ``ratio * n_min`` rows, class 3 at (1, 0) has ``n_min`` ([1]_: ratio 10; 10, 50 or 100
    to train, 10,000 to test). Centres and radius are read off the figures of [1]_.

    References
    ----------
    .. [1] Y. Saito et al., "Bounding the Worst-class Error: A Boosting Approach", 2024, section on artificial
       data.
    """
    _check_count("n_min", n_min)
    _check_count("ratio", ratio)
    rng = check_random_state(random_state)
    y = np.repeat(np.arange(len(_DISCS)), [ratio * n_min] * 3 + [n_min])
    angle = rng.uniform(0.0, 2.0 * np.pi, len(y))
    radius = np.sqrt(rng.uniform(0.0, 1.0, len(y)))
    return _DISCS[y] + (radius * np.array([np.cos(angle), np.sin(angle)])).T, y


def make_twonorm(n_samples: int = 300, *, random_state: Any = None) -> Sample:
    """Draw Breiman's twonorm (20 features, 2 classes) [1]_.

    Class 0 is N(a·1, I), class 1 is N(−a·1, I), a = 2/√20, equally likely. The best possible error is
    Φ(−2) = 2.28 %, by the sign of the sum of the features.

    References
    ----------
    .. [1] L. Breiman, "Bias, variance, and arcing classifiers", Technical Report 460, UC Berkeley, 1996.
    """
    _check_count("n_samples", n_samples)
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    z = rng.standard_normal((n_samples, _GAUSSIAN_DIM))
    return z + _GAUSSIAN_SHIFT * np.array([1.0, -1.0])[y, None], y


def make_ringnorm(n_samples: int = 300, *, random_state: Any = None) -> Sample:
    """Draw Breiman's ringnorm (20 features, 2 classes) [1]_.

    Class 0 is N(0, 4·I), class 1 is N(a·1, I), a = 2/√20, equally likely. The best possible error is about
    1.2 % ([1]_ prints 1.3 %). Some libraries use a = 1/√20, with about 1.5 %.

    References
    ----------
    .. [1] L. Breiman, "Bias, variance, and arcing classifiers", Technical Report 460, UC Berkeley, 1996.
    """
    _check_count("n_samples", n_samples)
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    z = rng.standard_normal((n_samples, _GAUSSIAN_DIM))
    scale, shift = np.array([2.0, 1.0]), np.array([0.0, _GAUSSIAN_SHIFT])
    return scale[y, None] * z + shift[y, None], y


def make_waveform(n_samples: int = 300, *, binary: bool = False, random_state: Any = None) -> Sample:
    """Draw Breiman's waveforms (21 features, 3 classes) [1]_.

    With the triangular waves ``h₁(j) = max(6 − |j − 11|, 0)``, h₂(j) = h₁(j − 4), h₃(j) = h₁(j + 4),
    j = 1…21, a row of class 0, 1, 2 is u·h₁ + (1 − u)·h₂, u·h₁ + (1 − u)·h₃, u·h₂ + (1 − u)·h₃ with u uniform
    in [0, 1], plus standard normal noise. Classes are equally likely; the best possible error is about 14 %.
    With ``binary``: 1 for class 0, 0 for the other two together. Papers seldom define their binary waveform.

    References
    ----------
    .. [1] L. Breiman et al., "Classification and Regression Trees", 1984, section 2.6.2.
    """
    _check_count("n_samples", n_samples)
    rng = check_random_state(random_state)
    j = np.arange(1, 22)
    h1, h2, h3 = (np.maximum(6.0 - np.abs(j - centre), 0.0) for centre in (11, 15, 7))
    y = rng.randint(3, size=n_samples)
    u = rng.uniform(size=(n_samples, 1))
    wave = u * np.array([h1, h1, h2])[y] + (1.0 - u) * np.array([h2, h3, h3])[y]
    return wave + rng.standard_normal((n_samples, len(j))), (y == 0).astype(np.int64) if binary else y


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
