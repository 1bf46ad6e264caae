"""Fits that change their estimator in one assignment, at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

E = TypeVar("E")

# Attributes of scikit-learn about an estimator and not about a fit; each is the start of a name.
OF_SKLEARN = ("_metadata_request", "_sklearn_output_config", "_skl_", "_callback_fit_ctx", "_parent_callback")


def unfitted(estimator: E) -> E:
    """Return a copy with the same parameter objects and without the results of a fit.

    Results are the private attributes and those whose names end with an underscore, as in scikit-learn.
    """

    def is_result(name: str) -> bool:
        if name.startswith(OF_SKLEARN):
            return False
        return name.startswith("_") or name.endswith("_")

    copied: Any = object.__new__(type(estimator))
    copied.__dict__.update({name: value for name, value in vars(estimator).items() if not is_result(name)})
    result: E = copied
    return result


@contextmanager
def fitting_apart(estimator: E) -> Iterator[E]:
    """Yield an unfitted copy; at the end of the block the estimator takes its state, in one assignment.

    If the block raises, the estimator is not changed: parameters, answers and stored files are those of the
    fit before.

    Examples
    --------
    >>> from tailboost.core.refit import fitting_apart
    >>> class Model:
    ...     pass
    >>> model = Model()
    >>> model.C, model.classes_ = 1.0, ["ill", "well"]
    >>> with fitting_apart(model) as fitted:
    ...     fitted.coef_ = 2.0
    >>> vars(model)
    {'C': 1.0, 'coef_': 2.0}
    """
    apart = unfitted(estimator)
    yield apart
    estimator.__dict__ = apart.__dict__
