"""A classifier with its display name, for the command line and the comparison."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tailboost.core.array_types import Floats, Model, Seed, Table
from tailboost.core.judged import answered, label_shares


@dataclass(frozen=True)
class Method:
    """A method of the registry.

    Attributes
    ----------
    name, title, summary : str
        Key, display name and one line of description.
    factory : callable
        Estimator class, or a function that returns an unfitted estimator.
    ours : bool
        Whether the classifier is one of tailboost's; the others are baselines.
    randomized : bool
        Whether ``predict_distribution`` is the label distribution of a randomised rule.
    by_classes : bool
        Whether the groups are the classes even if the rows have groups.
    takes_groups : bool
        Whether ``fit`` takes groups, for a factory that is a function.
    """

    name: str
    title: str
    summary: str
    factory: Callable[..., Any]
    ours: bool = False
    randomized: bool = False
    by_classes: bool = False
    takes_groups: bool = False

    @classmethod
    def of(cls, factory: type, title: str, summary: str, variant: str = "", **flags: bool) -> Method:
        """Return the entry of one of tailboost's classifiers; its name is the class name in lower case."""
        name = "-".join(filter(None, (factory.__name__.removesuffix("Classifier").lower(), variant)))
        return cls(name, title, summary, factory, ours=True, **flags)

    @property
    def uses_alpha(self) -> bool:
        """Whether the parameter ``alpha`` has an effect by default."""
        return "alpha" in self.parameters and "objective" not in self.parameters

    @property
    def uses_groups(self) -> bool:
        """Whether ``fit`` gets the groups of the rows."""
        return (self.takes_groups or self._fit_takes_groups) and not self.by_classes

    @property
    def may_use_groups(self) -> bool:
        """Whether ``fit`` takes groups under another ``objective`` than the default."""
        return "objective" in self.parameters and self._fit_takes_groups

    @property
    def _fit_takes_groups(self) -> bool:
        fit = getattr(self.factory, "fit", None)
        return fit is not None and "groups" in inspect.signature(fit).parameters

    @property
    def parameters(self) -> set[str]:
        """Names of the parameters of the factory."""
        return set(inspect.signature(self.factory).parameters)

    def make(
        self,
        *,
        alpha: float | None = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
        **params: object,
    ) -> Any:
        """Return an unfitted estimator; arguments without a use are left out."""
        if self.uses_alpha and alpha is not None:
            params["alpha"] = alpha
        if {"random_state", "n_jobs"} <= self.parameters:
            params |= {"random_state": random_state, "n_jobs": n_jobs}
        return self.factory(**params)

    def distribution(self, model: Model, X: Table, classes: object) -> Floats:
        """Return the label distribution of a fitted model for each row, shape (n, K).

        Without a randomised rule the whole probability is on the answer of ``predict``.
        """
        if self.randomized:
            return label_shares(model, X)
        return answered(model.predict(X), classes)
