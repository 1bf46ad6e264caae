"""The parameters of the boosting classifiers: what each may be, and the constructors they make."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, field
from functools import wraps
from inspect import Parameter, Signature
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from tailboost.core.spelling import did_you_mean

T = TypeVar("T", bound=type)

_COUNT = Interval(Integral, 1, None, closed="left")
_SHARE = Interval(Real, 0, 1, closed="neither")
_POSITIVE = Interval(Real, 0, None, closed="neither")
# What a parameter may be; a class says where it takes other values.
CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit", "predict"]), str, None],
    "n_estimators": [_COUNT],
    "alpha": [Interval(Real, 0, 1, closed="right")],
    "player": [StrOptions({"hedge", "lp", "entropic"})],
    "combine": [StrOptions({"mixture", "average"})],
    "eta": [_POSITIVE, StrOptions({"theory"})],
    "beta": [_POSITIVE, StrOptions({"theory"})],
    "delta": [_SHARE],
    "gamma": [Interval(Real, 0, 0.5, closed="right"), StrOptions({"auto"})],
    "q": [Interval(Real, 0, 1, closed="right")],
    "class_loss": [StrOptions({"auto", "indicator", "error"})],
    "units": [StrOptions({"auto", "class", "group", "cell"})],
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
    "validation": [_SHARE, StrOptions({"auto", "cv", "train"})],
    "include_constants": ["boolean"],
    "outlier_fraction": [Interval(Real, 0, 1, closed="left")],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "n_iter_no_change": [_COUNT, None],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [_POSITIVE, None],
    "checkpoint_dir": [str, HasMethods(["__fspath__"]), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

# Names that other classifiers of tailboost, or other projects, have for what is called otherwise here.
_ELSEWHERE = {
    "objective": ("units",),
    "units": ("objective",),
    "theta": ("max_error",),
    "mean_error": ("error_budget",),
    "budget": ("error_budget",),
    "base_estimator": ("estimator", "estimators"),
    "estimator": ("estimators",),
    "estimators": ("estimator",),
    "seed": ("random_state",),
}


def naming_near(init: Callable[..., None], signature: Signature | None = None) -> Callable[..., None]:
    """Have a constructor name the parameters that are near an unknown one (a decorator)."""
    signature = inspect.signature(init) if signature is None else signature
    known = list(signature.parameters)[1:]

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

    # What help() and scikit-learn's get_params read: a constructor that is made knows no names of its own.
    vars(checked)["__signature__"] = signature
    return checked


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_constructor(cls: T) -> T:
    """Give a class the constructor that its parameters describe (a decorator).

    Parameters are the annotated attributes with a default: the class's own, then those that it inherits;
    ``estimator`` comes first and may be given by position. An inherited one to which the class gives a value
    without an annotation has this value and is no parameter; those named in ``_without`` it lacks. What each
    may be says `CONSTRAINTS`, or a class where it takes other values.
    """
    made: Any = cls
    own = {}
    for name, kind in vars(cls).get("__annotations__", {}).items():
        if name in vars(cls) and not str(kind).startswith("ClassVar"):
            default = vars(cls)[name]
            own[name] = default.default if isinstance(default, Field) else default
            delattr(cls, name)
    inherited = getattr(cls, "_parameters", {})
    gone = {*own, *vars(cls), *vars(cls).get("_without", ())}
    defaults = {**own, **{name: inherited[name] for name in inherited if name not in gone}}
    defaults = dict(sorted(defaults.items(), key=lambda item: item[0] != "estimator"))
    allowed = CONSTRAINTS | getattr(super(cls, cls), "_parameter_constraints", {})
    allowed |= vars(cls).get("_parameter_constraints", {})
    made._parameters = defaults
    made._parameter_constraints = {name: allowed[name] for name in defaults}
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for name, default in defaults.items():
        place = Parameter.POSITIONAL_OR_KEYWORD if name == "estimator" else Parameter.KEYWORD_ONLY
        parameters.append(Parameter(name, place, default=default))
    signature = Signature(parameters)

    def __init__(self: Any, *args: Any, **params: Any) -> None:
        given = signature.bind(self, *args, **params)
        given.apply_defaults()
        for name in defaults:
            setattr(self, name, given.arguments[name])

    made.__init__ = naming_near(__init__, signature)
    return cls


@with_constructor
class Parameters:
    """What every boosting classifier is told."""

    estimator: Any = field(default=None, kw_only=False)
    n_estimators: Any = 50  # int ≥ 1; "auto" where a theorem or a rule gives the number
    class_weight: Any = None
    max_time: float | None = None
    checkpoint_dir: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
