"""Values that scikit-learn's check of parameters accepts, with messages of their own."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import StrOptions

#: Accepted values of each parameter of a class.
Constraints = dict[str, list[Any]]


class OneOf(StrOptions):
    """Allowed texts of a parameter. Messages list them in this order, and not in the order of a set."""

    def __init__(self, *texts: str) -> None:
        super().__init__(set(texts))
        self.options = texts
