"""Allowed values of the parameters of the boosting classifiers, and errors for unknown parameters."""

from __future__ import annotations

import inspect
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from tailboost.core.spelling import did_you_mean

_COUNT = Interval(Integral, 1, None, closed="left")
_SHARE = Interval(Real, 0, 1, closed="neither")
_POSITIVE = Interval(Real, 0, None, closed="neither")
# Numbers of folds. A byte stores the fold of a row.
FOLDS = Interval(Integral, 2, 255, closed="both")
# Allowed values of each parameter. A class overrides the entries in which it differs.
CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit", "predict"]), str, None],
    "n_estimators": [_COUNT],
    "alpha": [Interval(Real, 0, 1, closed="right")],
    "combine": [StrOptions({"mixture", "average"})],
    "eta": [_POSITIVE, StrOptions({"theory"})],
    "beta": [_POSITIVE, StrOptions({"theory"})],
    "delta": [_SHARE],
    "gamma": [Interval(Real, 0, 0.5, closed="right"), StrOptions({"auto"})],
    "q": [Interval(Real, 0, 1, closed="right")],
    "class_loss": [StrOptions({"auto", "indicator", "error"})],
    "subgroups": [StrOptions({"auto", "class", "group", "cell"})],
    "max_error": [Interval(Real, 0, 1, closed="right"), dict, StrOptions({"auto"})],
    "until_met": ["boolean"],
    "randomized": ["boolean"],
    "error_budget": [Interval(Real, 0, 1, closed="both"), None],
    "min_subgroup_rows": [_COUNT],
    "shrinkage": [Interval(Real, 0, None, closed="left")],
    "radius": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "confidence": [_SHARE],
    "effective_dim": [_COUNT, StrOptions({"auto"})],
    "uncertainty": [StrOptions({"kl", "chi2", "cvar"})],
    "smoothing": [Interval(Real, 0, None, closed="left")],
    "variance_weight": [Interval(Real, 0, None, closed="left")],
    "stumps": ["boolean"],
    "refit": [StrOptions({"linear", "quadratic"}), None],
    "C": [_POSITIVE, None],
    "learning_rate": [Interval(Real, 0, 1, closed="right")],
    "cv": [
        _SHARE,
        FOLDS,
        StrOptions({"auto", "train"}),
        HasMethods(["split", "get_n_splits"]),
        list,
        tuple,
        Iterator,
    ],
    "include_constants": ["boolean"],
    "outlier_fraction": [Interval(Real, 0, 1, closed="left")],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "exact_weights": ["boolean"],
    "n_iter_no_change": [_COUNT, None],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [_POSITIVE, None],
    "checkpoint_dir": [str, HasMethods(["__fspath__"]), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

# Numbers of rounds of a classifier with a theorem about them.
ROUNDS_OR_AUTO = [_COUNT, StrOptions({"auto"})]

C = TypeVar("C", bound=type)

# Names in other classifiers of tailboost or in other projects, with the parameters of the same meaning.
_SAME_MEANING = {
    "objective": ("subgroups",),
    "subgroups": ("objective",),
    "units": ("subgroups",),
    "validation": ("cv",),
    "theta": ("max_error",),
    "mean_error": ("error_budget",),
    "budget": ("error_budget",),
    "base_estimator": ("estimator", "estimators"),
    "estimator": ("estimators",),
    "estimators": ("estimator",),
    "seed": ("random_state",),
}


def with_suggestions(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor whose error for an unknown parameter names similar parameters (a decorator)."""
    known = list(inspect.signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: Any, *args: object, **params: object) -> None:
        for name in params:
            if name not in known:
                same = [other for other in _SAME_MEANING.get(name, ()) if other in known]
                hint = f"here it is {same[0]}=; " if same else did_you_mean(name, known)
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}; {hint}"
                    f"parameters are {', '.join(known)}"
                )
        init(self, *args, **params)

    return checked


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def with_parameters(cls: C) -> C:
    """Give a classifier the constructor of its annotated parameters (a decorator).

    Parameters are keyword-only; inherited ones come last. A preset declares those with another default, and
    fixes others with ``field(init=False, repr=False)``. Likewise ``_parameter_constraints`` has the entries
    in which the class differs.
    """
    made: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    signature = inspect.signature(made.__init__)
    inherited = Counter(name for base in made.__mro__ for name in vars(base).get("__dataclass_fields__", ()))
    order = sorted(signature.parameters.values(), key=lambda p: (p.kind, inherited[p.name]))
    made.__init__.__signature__ = signature.replace(parameters=order)
    made.__init__ = with_suggestions(made.__init__)
    for parameter in fields(made):  # the default of an argument is none of the class
        if parameter.init and parameter.name in vars(made):
            delattr(made, parameter.name)
    stated = [vars(base).get("_parameter_constraints", {}) for base in made.__mro__]
    made._parameter_constraints = dict(ChainMap(*stated))
    return cls
