"""Parameters of estimators, and ranges of numbers as scikit-learn checks them."""

import sys
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

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
#: Tail masses: 1/α does not overflow.
ALPHA = Interval(Real, sys.float_info.min, 1, closed="both")
C = TypeVar("C")


def check_number(value: Any, name: str, within: Interval) -> float:
    """Return a number of a range; raise ValueError if ``value`` is none."""
    if isinstance(value, bool) or not within.is_satisfied_by(value):
        raise ValueError(
            f"{name} must be {str(within).replace('float', 'number')}, got {value!r}"
        )
    return float(value)


def check_alpha(value: Any) -> float:
    """Return a tail mass in (0, 1]."""
    return check_number(value, "alpha", ALPHA)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def parameters(estimator: type[C]) -> type[C]:
    """Decorate a class of estimators whose fields are its parameters, stated once.

    scikit-learn reads parameters from a constructor that only stores them, which is that of a dataclass.
    """
    return dataclass(eq=False, repr=False)(estimator)
