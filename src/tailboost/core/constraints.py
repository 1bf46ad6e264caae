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


@contextmanager
def naming_nearest(estimator: Model) -> Iterator[None]:
    """Add what may be meant to the error for a wrong parameter: the nearest texts, or a percentage."""
    try:
        yield
    except InvalidParameterError as error:
        name = re.findall(r"'(\w+)' parameter", str(error))[0]
        value = estimator.get_params(deep=False)[name]
        texts: list[str] = []
        is_percentage = False
        for constraint in estimator._parameter_constraints[name]:
            if isinstance(constraint, OneOf):
                texts += constraint.options
            if isinstance(constraint, Interval) and constraint.right == 1:
                is_percentage = isinstance(value, Real) and 1 < value <= 100
        hint = did_you_mean(value, texts) if isinstance(value, str) else ""
        if is_percentage:
            hint = f"write {value / 100:g} for {value:g} %"
        error.args = (f"{error} {hint[:1].upper()}{hint[1:]}".strip(),)
        raise
