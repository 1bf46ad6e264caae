"""Values that scikit-learn's check of parameters accepts, with messages of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    StrOptions,
)

from tailboost.core.array_types import Model
from tailboost.core.checks import NO_SHARES
from tailboost.core.spelling import did_you_mean

# Effect of a value of a parameter, for messages.
MEANINGS = {
    "player": "the Player of a game is what the method player(clf, units) of a RowPlayer returns",
    "gamma": "the weighted error of a base model may be at most ½ − gamma",
    "variance_weight": "the cost is the squared mean of the loss + this weight times its variance",
}


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
    """Add what may be meant to the error for a wrong parameter: the nearest texts, or a percentage."""
    try:
        yield
    except InvalidParameterError as error:
        name = re.findall(r"'(\w+)' parameter", str(error))[0]
        value = estimator.get_params(deep=False)[name]
        cure = ""
        takes_share = False
        texts: list[str] = []
        for constraint in estimator._parameter_constraints[name]:
            if isinstance(constraint, OneOf):
                texts += constraint.options
            is_share = isinstance(constraint, Interval) and constraint.right == 1
            is_share = is_share and name not in NO_SHARES
            takes_share |= is_share
            if is_share and isinstance(value, (int, float)) and 2 <= value <= 100:
                cure = f"write {value / 100:g} for {value:g} %"
        cure = MEANINGS.get(name, cure)
        if isinstance(value, str):
            cure = did_you_mean(value, texts)
            percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)
            if takes_share and percent:
                cure = f"write {float(percent[1]) / 100:g}"
        error.args = (f"{error} {cure[:1].upper()}{cure[1:]}".strip(),)
        raise
