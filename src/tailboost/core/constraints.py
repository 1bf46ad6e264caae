"""Values that scikit-learn's check of parameters accepts, with messages of their own."""

from __future__ import annotations

from numbers import Real

from sklearn.utils._param_validation import Interval, StrOptions


class OneOf(StrOptions):
    """Allowed texts of a parameter. Messages list them in this order, and not in the order of a set."""

    def __init__(self, *texts: str) -> None:
        super().__init__(set(texts))
        self.options = texts


class Share(Interval):
    """A number in (0, 1]. Messages say how 30 % is written."""

    def __init__(self) -> None:
        super().__init__(Real, 0, 1, closed="right")

    def __str__(self) -> str:
        return f"{super().__str__()} (30 % is 0.3)"
