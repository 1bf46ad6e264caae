"""Ranges of numbers, as scikit-learn checks them."""

import sys
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval

#: Whole numbers from 1 on.
COUNT = Interval(Integral, 1, None, closed="left")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
#: Between 0 and 1, without both.
SHARE = Interval(Real, 0, 1, closed="neither")
#: From 0 to 1, without 0.
TO_ONE = Interval(Real, 0, 1, closed="right")
#: From 0 to 1, without 1.
BELOW_ONE = Interval(Real, 0, 1, closed="left")
#: From 0 to 1, with both.
UNIT = Interval(Real, 0, 1, closed="both")


def check_number(value: Any, name: str, within: Interval) -> float:
    """Return a number of a range; raise ValueError for a value outside of it."""
    if isinstance(value, bool) or not within.is_satisfied_by(value):
        raise ValueError(
            f"{name} must be {str(within).replace('float', 'number')}, got {value!r}"
        )
    return float(value)


def check_alpha(value: Any) -> float:
    """Return a tail mass α in (0, 1], whose 1/α does not overflow."""
    return check_number(value, "alpha", Interval(Real, sys.float_info.min, 1, closed="both"))
