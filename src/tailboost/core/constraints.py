"""Values that scikit-learn's check of parameters accepts, with messages of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real

from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    StrOptions,
)

from tailboost.core.array_types import Model
from tailboost.core.spelling import did_you_mean


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


@contextmanager
def naming_nearest(estimator: Model) -> Iterator[None]:
    """Add the nearest allowed texts to the error for a misspelt text of a parameter of an estimator."""
    try:
        yield
    except InvalidParameterError as error:
        name = re.findall(r"'(\w+)' parameter", str(error))[0]
        value = estimator.get_params(deep=False)[name]
        texts: list[str] = []
        for constraint in estimator._parameter_constraints[name]:
            if isinstance(constraint, OneOf):
                texts += constraint.options
        hint = did_you_mean(value, texts) if isinstance(value, str) else ""
        error.args = (f"{error} {hint[:1].upper()}{hint[1:]}".strip(),)
        raise
