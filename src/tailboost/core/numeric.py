"""Checks of numbers and arrays of numbers with NumPy alone, for the solvers.

`tailboost.core.checks` has the checks of labels, tables and probabilities, and exports these as well.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailboost.core.array_types import Floats, Mask

#: Smallest α for which 1/α does not overflow.
SMALLEST_ALPHA = float(np.finfo(np.float64).tiny)


def check_number(
    value: Any, name: str, low: float, high: float = np.inf, *, closed: bool = False, below: bool = False
) -> float:
    """Return a finite number in (low, high]; in [low, …) with ``closed``, in (…, high) with ``below``.

    Raise ValueError if ``value`` is not such a number.
    """
    if isinstance(value, (bool, np.bool_, str, bytes)):  # float() would accept text
        raise ValueError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number, got {value!r}") from error
    above = low <= number if closed else low < number
    if not (above and (number < high if below else number <= high) and np.isfinite(number)):
        start = f"{'[' if closed else '('}{'−∞' if low == -np.inf else f'{low:g}'}"
        end = "∞)" if high == np.inf else f"{high:g}{')' if below else ']'}"
        raise ValueError(f"{name} must be in {start}, {end}, got {value!r}")
    return number


def check_alpha(value: Any, name: str = "alpha") -> float:
    """Return a tail mass in (0, 1] with a finite inverse.

    Raise ValueError if ``value`` is outside (0, 1], or so small that 1/α overflows.
    """
    alpha = check_number(value, name, 0, 1)
    if alpha < SMALLEST_ALPHA:
        raise ValueError(
            f"{name} must be at least {SMALLEST_ALPHA:.3g}, below which 1/α overflows; got {value!r}"
        )
    return alpha


def finite(values: ArrayLike, name: str) -> Floats:
    """Return finite numbers as a contiguous array of float64.

    Raise ValueError if an entry is not a finite number.
    """
    array = np.asarray(values)
    # NumPy would accept the text "1" and drop the imaginary part of 1j.
    others = [v for v in array.flat if isinstance(v, (str, bytes, complex))] if array.dtype == object else []
    if others or array.dtype.kind not in "biufO":
        raise ValueError(
            f"{name} must be numbers, got {others[0]!r}"
            if others
            else f"{name} must be numbers, got dtype {array.dtype}"
        )
    try:
        out = np.ascontiguousarray(array, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got dtype {array.dtype}") from error
    # The sum detects NaN and infinities without a temporary array; it may overflow for finite numbers.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(out.sum())
    if suspicious and not np.isfinite(out).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity at {_first(~np.isfinite(out))}")
    return out


def _first(mask: Mask) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def check_vector(array: NDArray[Any], name: str) -> None:
    """Raise unless the array is a non-empty vector.

    Raise ValueError if the shape is not (n,) with n ≥ 1.
    """
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must have shape (n,) with n ≥ 1, got {array.shape}")


def loss_vector(losses: ArrayLike) -> Floats:
    """Return a vector of finite losses, float64.

    Raise ValueError if ``losses`` is not a non-empty finite vector.
    """
    array = np.asarray(losses)
    check_vector(array, "losses")
    return finite(array, "losses")


def check_weights(weights: ArrayLike | None, n: int, name: str = "sample_weight") -> Floats:
    """Return the weights of n rows as float64: non-negative, not all zero, with a finite sum.

    ``weights`` is an array of n numbers, one number for all rows, or None for 1. Messages call them ``name``.

    Raise ValueError if the weights are invalid.
    """
    if weights is None:
        return np.ones(n)
    checked = _weights(weights, n, name)
    with np.errstate(over="ignore"):
        total = checked.sum()
    if not np.isfinite(total):
        raise ValueError(f"{name}: the sum of the weights must be finite")
    return checked


def relative_weights(weights: ArrayLike | None, n: int, name: str = "sample_weight") -> Floats:
    """Return the weights of n rows divided by the largest; like `check_weights`, but for any sum."""
    if weights is None:
        return np.ones(n)
    checked = _weights(weights, n, name)
    return checked / checked.max()


def base_measure(base: ArrayLike | None, n: int) -> Floats:
    """Return the base measure p: ``base`` divided by its sum, or 1/n for None.

    Raise ValueError if ``base`` has the wrong shape, is negative or not finite, or has no mass.
    """
    if base is None:
        return np.full(n, 1.0 / n)
    p = relative_weights(base, n, "base")
    return p / p.sum()


def _weights(weights: ArrayLike, n: int, name: str) -> Floats:
    array = np.full(n, weights) if isinstance(weights, Real) else np.asarray(weights)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one weight for each, got {array.shape}")
    checked = finite(array, name)
    if checked.min() < 0:
        raise ValueError(f"{name} must not be negative, got {checked.min()} at {_first(checked < 0)}")
    if checked.max() == 0:
        raise ValueError(f"{name}: all weights are zero; at least one must be non-zero")
    return checked
