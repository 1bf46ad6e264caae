"""Values that scikit-learn's check of parameters accepts, with messages of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils._param_validation import InvalidParameterError, StrOptions

from tailboost.core.array_types import Model
from tailboost.core.spelling import did_you_mean

#: Accepted values of each parameter of a class.
Constraints = dict[str, list[Any]]


class OneOf(StrOptions):
    """Allowed texts of a parameter. Messages list them in this order, and not in the order of a set."""

    def __init__(self, *texts: str) -> None:
        super().__init__(set(texts))
        self.options = texts


class OneOfOrRate(OneOf):
    """Allowed texts of a parameter, or the text of a rate with its arguments."""

    def is_satisfied_by(self, val: object) -> bool:
        """Whether a value is one of the texts, or has the brackets of a rate's arguments."""
        return super().is_satisfied_by(val) or (isinstance(val, str) and "(" in val)

    def __str__(self) -> str:
        return f"{super().__str__()}, the text of a rate such as 'miss(1)'"


@contextmanager
def naming_nearest(estimator: Model) -> Iterator[None]:
    """Add the nearest allowed texts to the error for a wrong text as a parameter."""
    try:
        yield
    except InvalidParameterError as error:
        name = re.findall(r"'(\w+)' parameter", str(error))[0]
        value = estimator.get_params(deep=False)[name]
        texts: list[str] = []
        for constraint in estimator._parameter_constraints[name]:
            if isinstance(constraint, OneOf):
                texts += constraint.options
        if isinstance(value, str):
            error.args = (f"{error} {did_you_mean(value, texts)}".strip(),)
        raise
