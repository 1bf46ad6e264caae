"""Constructors that say what an unknown parameter may have meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from tailboost._near import did_you_mean

# Names that other classifiers of tailboost, or other projects, have for what is called otherwise here.
_ELSEWHERE = {
    "objective": ("units",),
    "units": ("objective",),
    "theta": ("max_error",),
    "mean_error": ("mean_budget",),
    "budget": ("mean_budget",),
    "base_estimator": ("estimator", "estimators"),
    "estimator": ("estimators",),
    "estimators": ("estimator",),
    "seed": ("random_state",),
}


def naming_near(init: Callable[..., None]) -> Callable[..., None]:
    """Have a constructor name the parameters that are near an unknown one (a decorator)."""
    known = list(inspect.signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: Any, *args: Any, **params: Any) -> None:
        for name in params:
            if name not in known:
                same = [other for other in _ELSEWHERE.get(name, ()) if other in known]
                near = f"here it is {same[0]}=; " if same else did_you_mean(name, known)
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}; {near}"
                    f"parameters are {', '.join(known)}"
                )
        init(self, *args, **params)

    return checked
