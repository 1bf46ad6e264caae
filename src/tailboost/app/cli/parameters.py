"""Parameters of a method from options: each is read and checked before any file."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from sklearn.utils import get_tags

from tailboost import rates
from tailboost.app.cli.rates import read_objective
from tailboost.app.cli.shared import BadInput, bad_input
from tailboost.app.registry import METHODS, Method
from tailboost.classifiers.robust_selection import problem_of
from tailboost.core.array_types import Model
from tailboost.core.spelling import did_you_mean
from tailboost.selection.problem import stated

# Parameters with a text like --objective and --limit.
_READERS: dict[str, Callable[[Any], Any]] = {
    "objective": lambda value: read_objective(value) if isinstance(value, str) else value,
    "limits": lambda value: list(rates.checked_limits(value)),
}


def configured(
    method: Method,
    settings: Sequence[str],
    parameters: Mapping[str, Any],
    *,
    seed: int = 0,
    jobs: int = 1,
) -> Any:
    """Return the method's classifier with the parameters of the options, after its check of them.

    Parameters
    ----------
    method : Method
        The method.
    settings : sequence of str
        Values of --set, as NAME=VALUE.
    parameters : mapping of str to object
        Values of options by the name of the parameter; None for an option that was not given.
    seed, jobs : int
        Its ``random_state`` and ``n_jobs``.

    Raises
    ------
    BadInput
        If a parameter is unknown or has a wrong value; the message begins with the option.
    """
    classifier = method.make(random_state=seed, n_jobs=jobs)
    known_parameters = classifier.get_params(deep=False)
    option_of: dict[str, str] = {}  # by the name of the parameter
    for option, name, value in _stated(method, known_parameters, settings, parameters):
        option_of[name] = option
        _set(classifier, option, name, value)
    if "limits" in known_parameters:
        # Parameters that are right alone may exclude each other.
        options = [option for name, option in option_of.items() if name in _PROBLEM_PARAMETERS]
        with bad_input(f"{', '.join(options)}: " if options else ""):
            problem_of(classifier)
    return classifier


def _stated(
    method: Method,
    known_parameters: Collection[str],
    settings: Sequence[str],
    parameters: Mapping[str, Any],
) -> Iterator[tuple[str, str, Any]]:
    """Yield option, name and value of each parameter, after a check that the method has the parameter.

    The arguments are as in `configured`, and the names of the parameters of the method.
    """
    for name, value in parameters.items():
        if value is None:
            continue
        option = "--limit" if name == "limits" else f"--{name.replace('_', '-')}"
        if name not in known_parameters:
            methods = ", ".join(m.name for m in METHODS.values() if name in m.parameters)
            raise BadInput(
                f"{option}: {method.name} has no {name}; take {methods or 'another method'}"
            )
        if any(setting.partition("=")[0] == name for setting in settings):
            raise BadInput(f"{option} and --set {name}=… are the same; give one of them")
        yield option, name, value
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise BadInput(f"--set needs NAME=VALUE, got {setting!r}")
        if name not in known_parameters:
            hint = did_you_mean(name, known_parameters)
            it = "It" if hint else "it"  # the hint is a sentence
            names = ", ".join(sorted(known_parameters))
            raise BadInput(
                f"--set: {method.name} has no parameter {name!r}; {hint}{it} has {names}"
            )
        yield f"--set {name}={text}", name, literal(text)


_PROBLEM_PARAMETERS = {*inspect.signature(stated).parameters}


def _set(classifier: Model, option: str, name: str, value: Any) -> None:
    """Set a parameter by an option, after a check of its value."""
    with bad_input(f"{option}: "):
        if name in _READERS:
            value = _READERS[name](value)
        classifier.set_params(**{name: value})
        if hasattr(classifier, "_parameter_constraints"):  # XGBoost checks only in fit
            classifier._validate_params()
        get_tags(classifier)  # fails for an unknown name of a learner


def literal(text: str) -> Any:
    """Return the value of a Python or JSON literal, such as True or true; other text is unchanged."""
    for read in (ast.literal_eval, json.loads):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text
