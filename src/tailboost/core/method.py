"""A classifier with its name for people, the command line and the comparison."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.pipelines import label_shares


@dataclass(frozen=True)
class Method:
    """A method that can be compared."""

    # name, title, summary: key, display name, one line.
    name: str
    title: str
    summary: str
    factory: Callable[..., Any]  # the estimator class, or what makes the estimator
    ours: bool = False  # whether it is a classifier of tailboost; the others are baselines
    randomized: bool = (
        False  # whether ``predict_distribution`` is the label distribution of a randomised rule
    )
    # Whether classes are the groups, also where the rows have groups that ``fit`` would take.
    by_classes: bool = False
    # Whether ``fit`` takes groups, of a factory that is no class and so cannot be asked.
    takes_groups: bool = False
    by_group: bool = False  # whether it has to be told the groups of the rows it answers

    @classmethod
    def of(cls, factory: type, title: str, summary: str, variant: str = "", **flags: bool) -> Method:
        """Return the entry of a classifier of ours, which is called after its class."""
        name = "-".join(filter(None, (factory.__name__.removesuffix("Classifier").lower(), variant)))
        return cls(name, title, summary, factory, ours=True, **flags)

    @property
    def uses_alpha(self) -> bool:
        """Whether there is a parameter ``alpha`` that has a meaning by default."""
        return "alpha" in self._parameters and "objective" not in self._parameters

    @property
    def uses_groups(self) -> bool:
        """Whether ``fit`` is handed the groups of the rows."""
        return (self.takes_groups or self._fit_takes_groups) and not self.by_classes

    @property
    def may_use_groups(self) -> bool:
        """Whether ``fit`` takes groups for another ``objective`` than that by default."""
        return "objective" in self._parameters and self._fit_takes_groups

    @property
    def seeded(self) -> bool:
        """Whether there are the parameters ``random_state`` and ``n_jobs``."""
        return {"random_state", "n_jobs"} <= self._parameters

    @property
    def _fit_takes_groups(self) -> bool:
        fit = getattr(self.factory, "fit", None)
        return fit is not None and "groups" in inspect.signature(fit).parameters

    @property
    def _parameters(self) -> set[str]:
        return set(inspect.signature(self.factory).parameters)

    def make(
        self,
        *,
        alpha: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        **params: Any,
    ) -> Any:
        """Return an unfitted estimator; ``alpha`` is passed where it has a meaning."""
        if self.uses_alpha and alpha is not None:
            params["alpha"] = alpha
        if self.seeded:
            params |= {"random_state": random_state, "n_jobs": n_jobs}
        return self.factory(**params)

    def shares(self, model: Any, X: Any, classes: Any) -> Floats:
        """Return the share of a fitted model's answers that goes to each of the sorted classes, shape (n, K).

        All goes to one if nothing is randomised.
        """
        if self.randomized:
            return label_shares(model, X)
        return (np.asarray(model.predict(X))[:, None] == classes).astype(np.float64)
