"""Rates in words: with as many digits as the rows support, in percent if the limits were in percent."""

from __future__ import annotations

import numpy as np

__all__ = [
    "bound_words",
    "estimate_words",
    "fixed_words",
    "limit_words",
    "stated_words",
    "value_words",
]

# Numbers of rows from which on the standard error of a rate is below .01 and .001, whatever the rate.
ROWS_OF_DIGITS = (2_500, 250_000)
MOST_DIGITS = 6


def _least_digits(n_rows: float) -> int:
    return 2 + sum(n_rows >= least for least in ROWS_OF_DIGITS)


def fixed_words(value: float, digits: int, in_percent: bool) -> str:
    """Return a rate with so many decimals; in percent with two less."""
    if in_percent:
        return f"{100.0 * value:z.{digits - 2}f} %"
    return f"{value:z.{digits}f}"


def stated_words(value: float, *, in_percent: bool = False) -> str:
    """Return the number of a limit as stated."""
    if in_percent:
        return f"{100.0 * value:.10g} %"
    return f"{value:g}"


def value_words(value: float, *, in_percent: bool = False, digits: int = 4) -> str:
    """Return a value with so many significant digits."""
    if in_percent:
        return f"{100.0 * value:.{digits}g} %"
    return f"{value:.{digits}g}"


def limit_words(sense: str, value: float, *, in_percent: bool = False) -> str:
    """Return a limit, such as "≤ 35 %"."""
    return f"{sense} {stated_words(value, in_percent=in_percent)}"


def estimate_words(
    value: float | None,
    n_rows: float,
    *,
    beside: float | None = None,
    in_percent: bool = False,
) -> str:
    """Return an estimate from rows; a dash for None.

    Its rounding is smaller than its distance to the limit ``beside``.
    """
    if value is None or np.isnan(value):
        return "–"
    if abs(value) > 1.0:
        return f"{value:.4g}"
    digits = _least_digits(n_rows)
    if beside is not None and abs(value - beside) > 10.0**-MOST_DIGITS:
        distance = abs(value - beside) * (1 - 1e-9)
        while digits < MOST_DIGITS and abs(round(value, digits) - value) >= distance:
            digits += 1
    return fixed_words(value, digits, in_percent)


def bound_words(
    value: float,
    n_rows: float,
    *,
    above: bool,
    beside: float | None = None,
    in_percent: bool = False,
) -> str:
    """Return a bound, rounded away from the estimate and therefore true.

    Parameters
    ----------
    value : float
        The bound.
    n_rows : float
        Number of its rows.
    above : bool
        Whether the bound is an upper one.
    beside : float, optional
        A limit: a bound within the limit is also printed within.
    in_percent : bool, default=False
        Whether the bound is printed in percent.
    """
    sign = 1.0 if above else -1.0  # a lower bound is mirrored
    largest = float("inf")
    if beside is not None and sign * (value - beside) <= 0.0:
        largest = sign * beside + 1e-12
    for digits in range(_least_digits(n_rows), MOST_DIGITS + 1):
        rounded = sign * float(np.ceil(sign * value * 10.0**digits - 1e-9)) / 10.0**digits
        if sign * rounded <= largest:
            break
    return fixed_words(rounded, digits, in_percent)
