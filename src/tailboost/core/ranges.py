"""Ranges of parameters, as scikit-learn checks them."""

from __future__ import annotations

from numbers import Integral, Real

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
