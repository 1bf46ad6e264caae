"""Words for messages and tables: near names, numbers with nouns, lists, rates with their digits."""

import difflib
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

# Numbers of rows from which on the standard error of a rate is at most .01 and .001, whatever the rate.
_ROWS_OF_DIGITS = (2_500, 250_000)
_MOST_DIGITS = 6
# Larger than the rounding error of confusion counts and printed digits.
ROUNDING = 1e-9
# The most names in a message, and in `listed`; `joined` names one more if it is the last.
NAMES_SHOWN = 20
_LISTED = 5


def text(value: Any) -> str:
    """Return the name of a category; 12 and 12.0 are both "12", since gaps turn integers into floats."""
    is_number = isinstance(value, float | np.floating | Decimal) and math.isfinite(value)
    if is_number and value == int(value):
        value = int(value)
    return str(value)


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return "did you mean …? " with known names close to an unknown one, or an empty text.

    Capitals and blanks around a name are ignored.
    """
    by_lower_case = {str(each).strip().casefold(): each for each in known}
    near = difflib.get_close_matches(str(name).strip().casefold(), by_lower_case)
    if not near:
        return ""
    return f"did you mean {' or '.join(repr(by_lower_case[each]) for each in near)}? "


def how_many(n: int, one: str, several: str = "") -> str:
    """Return a number with its noun: "1 row", "2,000 rows"."""
    if n == 1:
        return f"1 {one}"
    return f"{n:,} {several or one + 's'}"


def listed(names: Sequence[object]) -> str:
    """Return the first five names in quotes, as `joined`; of each name the first 40 characters."""
    return joined([repr(text(name)[:40]) for name in names], _LISTED)


def shown(names: Sequence[object]) -> str:
    """Return the first twenty names as in a list, and the number of the others."""
    return f"[{joined([*map(repr, names)], NAMES_SHOWN)}]"


def joined(names: Sequence[str], n_shown: int, between: str = ", ") -> str:
    """Return the first names as text, and the number of the others; a single other one is named."""
    if len(names) <= n_shown + 1:
        return between.join(names)
    return f"{between.join(names[:n_shown])} and {len(names) - n_shown:,} more"


# -- rates ------------------------------------------------------------------------------------------------


def stated_words(value: float, *, in_percent: bool) -> str:
    """Return the number of a limit as it was stated; one that was computed has six significant digits."""
    number = 100.0 * value if in_percent else value
    stated = f"{number:.12g}"
    if not math.isclose(float(stated), number, rel_tol=1e-14):
        stated = f"{number:.6g}"
    return f"{stated} %" if in_percent else stated


def percent(confidence: float) -> str:
    """Return a confidence in percent, as it was given: after rounding it may promise more."""
    return f"{(100 * Decimal(repr(float(confidence)))).normalize():f} %"


def points_words(lead: float, noise: float | None) -> str:
    """Return by how much a rate is lower than another one with 95 %, such as "0.3 to 1.1 points".

    The ends are rounded outwards to tenths of a point. An interval that contains 0 is printed as "at
    most" its upper end. Without a noise it is one number.
    """
    numbers = f"{100.0 * lead:z.1f}"
    if noise is not None:
        low = rounded_away(100.0 * (lead - 1.96 * noise), 1, above=False)
        high = rounded_away(100.0 * (lead + 1.96 * noise), 1, above=True)
        start = "at most" if low <= 0.0 <= high else f"{low:.1f} to"
        numbers = f"{start} {high:.1f}"
    return f"{numbers} points".replace("-", "−")


def rate_words(
    value: float | None,
    n_rows: float,
    *,
    above: bool | None = None,
    beside: float | None = None,
    in_percent: bool,
) -> str:
    """Return an estimate, or a bound, from rows as text; a dash for None or NaN.

    A rate has as many digits as its rows support, and up to six where fewer would print it at or beyond a
    limit that it keeps, or the reverse: .3004 beside a limit of .3 is not printed as .3. An estimate above 1
    or below −1 that is not in percent, such as a cost, has four significant digits. A bound is rounded away
    from the estimate and therefore true.

    Parameters
    ----------
    value : float or None
        The estimate or bound.
    n_rows : float
        Number of rows behind it, which decides its digits.
    above : bool, optional
        Whether a bound is an upper one; None for an estimate.
    beside : float, optional
        A limit printed beside it.
    in_percent : bool
        Whether rates are printed in percent.
    """
    if value is None or math.isnan(value):
        return "–"
    if above is None and abs(value) > 1.0 and not in_percent:
        return f"{value:.4g}"

    fewest = 2 + sum(n_rows >= least for least in _ROWS_OF_DIGITS)
    for digits in range(fewest, _MOST_DIGITS + 1):
        rounded = rounded_away(value, digits, above)
        if beside is None or _side(rounded - beside, above) == _side(value - beside, above):
            break
    if in_percent:
        return f"{100.0 * rounded:z.{digits - 2}f} %"
    return f"{rounded:z.{digits}f}"


def _side(lead: float, above: bool | None) -> tuple[bool, bool]:
    """Return whether a number is above a limit, and whether below it, by its lead over the limit.

    An upper bound tells only whether the limit is exceeded, and a lower one only whether it is not reached.
    """
    exceeds = above is not False and lead > ROUNDING
    falls_below = above is not True and lead < -ROUNDING
    return exceeds, falls_below


def rounded_away(value: float, digits: int, above: bool | None) -> float:
    """Return an upper bound rounded up to so many decimals, or a lower one down; None rounds an estimate."""
    if above is None or math.isinf(value):
        return round(value, digits)
    scale = 10.0**digits
    if above:
        return math.ceil(value * scale - ROUNDING) / scale
    return math.floor(value * scale + ROUNDING) / scale
