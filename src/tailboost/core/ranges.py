"""Parameters of estimators, and their ranges as scikit-learn checks them."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TypeVar, dataclass_transform

from sklearn.utils._param_validation import Interval

#: Whole numbers from 1 on.
COUNT = Interval(Integral, 1, None, closed="left")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
#: Between 0 and 1, without both.
SHARE = Interval(Real, 0, 1, closed="neither")
#: From 0 to 1, without 0; and without 1.
TO_ONE = Interval(Real, 0, 1, closed="right")
BELOW_ONE = Interval(Real, 0, 1, closed="left")
C = TypeVar("C")


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def parameters(estimator: type[C]) -> type[C]:
    """Decorate a class of estimators whose fields are its parameters, stated once.

    scikit-learn reads parameters from a constructor that only stores them, which is that of a dataclass.
    """
    return dataclass(eq=False, repr=False)(estimator)
