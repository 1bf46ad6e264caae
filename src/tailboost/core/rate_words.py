"""Rates in words: with as many digits as the rows support, in percent if the limits were in percent."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

# Numbers of rows from which on the standard error of a rate is below .01 and .001, whatever the rate.
ROWS_OF_DIGITS = (2_500, 250_000)
MOST_DIGITS = 6
# Differences of floating-point arithmetic: of a rate, and in units of its last printed digit.
ROUNDING = 1e-12
UNITS_OF_ROUNDING = 1e-9


def _least_digits(n_rows: float) -> int:
    return 2 + sum(n_rows >= least for least in ROWS_OF_DIGITS)


def fixed_words(value: float, digits: int, in_percent: bool) -> str:
    """Return a rate with so many decimals; in percent with two less."""
    if in_percent:
        return f"{100.0 * value:z.{digits - 2}f} %"
    return f"{value:z.{digits}f}"


def stated_words(value: float, *, in_percent: bool) -> str:
    """Return the number of a limit as stated."""
    if in_percent:
        return f"{100.0 * value:.10g} %"
    return f"{value:g}"


def value_words(value: float, *, in_percent: bool, digits: int = 4) -> str:
    """Return a value with so many significant digits."""
    if in_percent:
        return f"{100.0 * value:.{digits}g} %"
    return f"{value:.{digits}g}"


def interval_words(lead: float, noise: float, *, in_percent: bool, level: float = 0.05) -> str:
    """Return by how much a rate is lower than another one, such as "0.3 to 1.1 points".

    The ends are rounded outwards to two digits of the larger one, and at least tenths of a point. An interval
    that contains 0 is printed as "at most" its upper end.
    """
    scale = 100.0 if in_percent else 1.0
    half = NormalDist().inv_cdf(1.0 - level / 2.0) * noise
    ends = scale * (lead - half), scale * (lead + half)
    largest = max(abs(ends[0]), abs(ends[1]), 1e-12)
    decimals = max(1 if in_percent else 3, 1 - int(np.floor(np.log10(largest))))
    low = rounded_away(ends[0], decimals, above=False)
    high = rounded_away(ends[1], decimals, above=True)
    start = "at most" if low <= 0.0 <= high else f"{low:.{decimals}f} to"
    unit = " points" if in_percent else ""
    return f"{start} {high:.{decimals}f}{unit}".replace("-", "−")


def limit_words(sense: str, value: float, *, in_percent: bool) -> str:
    """Return a limit, such as "≤ 35 %"."""
    return f"{sense} {stated_words(value, in_percent=in_percent)}"


def estimate_words(
    value: float | None,
    n_rows: float,
    *,
    beside: float | None = None,
    in_percent: bool = False,
) -> str:
    """Return an estimate from rows as text; a dash for None or NaN.

    A rate has as many digits as its rows support, and more where fewer would print it at or beyond a limit
    that it keeps, or the reverse: .3004 beside a limit of .3 is not printed as .3. A value above 1, such as a
    cost, has four digits.

    Parameters
    ----------
    value : float or None
        The estimate.
    n_rows : float
        Number of rows behind it, which decides its digits.
    beside : float, optional
        A limit printed beside it.
    in_percent : bool, default=False
        Whether rates are printed in percent.
    """
    if value is None or np.isnan(value):
        return "–"
    if abs(value) > 1.0:
        return f"{value:.4g}"
    digits = _least_digits(n_rows)
    if beside is not None and abs(value - beside) > 10.0**-MOST_DIGITS:
        distance = abs(value - beside) * (1 - 1e-9)  # a rounding to the limit itself is too far
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

    It has as many digits as its rows support, and more where fewer would print a bound within the limit
    ``beside`` as one beyond it.

    Parameters
    ----------
    value : float
        The bound.
    n_rows : float
        Number of its rows.
    above : bool
        Whether the bound is an upper one.
    beside : float, optional
        A limit.
    in_percent : bool, default=False
        Whether the bound is printed in percent.
    """
    digits = _least_digits(n_rows)
    rounded = rounded_away(value, digits, above)
    if beside is not None and not _is_beyond(value, beside, above, tolerance=0.0):
        while digits < MOST_DIGITS and _is_beyond(rounded, beside, above, ROUNDING):
            digits += 1
            rounded = rounded_away(value, digits, above)
    return fixed_words(rounded, digits, in_percent)


def rounded_away(value: float, digits: int, above: bool) -> float:
    """Return an upper bound rounded up to so many decimals, or a lower one rounded down."""
    scale = 10.0**digits
    if not above:
        scale = -scale
    return float(np.ceil(value * scale - UNITS_OF_ROUNDING)) / scale + 0.0  # no −0


def _is_beyond(bound: float, limit: float, above: bool, tolerance: float) -> bool:
    """Return whether an upper bound is above a limit, or a lower one below it."""
    if above:
        return bound > limit + tolerance
    return bound < limit - tolerance
