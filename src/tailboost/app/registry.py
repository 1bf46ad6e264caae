"""Methods by name, for the command line, the comparison and the conformance suite.

The name of a classifier is its class name in lower case, without "Classifier". A second entry of one class
has a variant after a hyphen. Baselines are named after their models.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.dummy import DummyClassifier

from tailboost import classifiers
from tailboost.app.baselines import average, tuned, weighted, weighted_xgboost
from tailboost.core.array_types import Floats, Model, Seed, Table
from tailboost.core.spelling import did_you_mean
from tailboost.learners.named import LEARNERS
from tailboost.rows.judged import answered, label_shares


@dataclass(frozen=True)
class Method:
    """A method of the registry.

    Attributes
    ----------
    name, title, summary : str
        Key, display name and one line of description.
    factory : callable
        Estimator class, or a function without arguments for an unfitted estimator.
    ours : bool
        Whether the classifier is one of tailboost's; the others are baselines.
    randomized : bool
        Whether ``predict_distribution`` is the label distribution of a randomised rule.
    by_classes : bool
        Whether the groups are the classes even if the rows have groups.
    takes_groups : bool
        Whether ``fit`` takes groups, if the factory is a function.
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
    def of(
        cls, factory: type, title: str, summary: str, variant: str = "", **flags: bool
    ) -> Method:
        """Return the entry of one of tailboost's classifiers; its name is the class name in lower case."""
        name = factory.__name__.removesuffix("Classifier").lower()
        if variant:
            name += f"-{variant}"
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
        """Whether the factory is a class with the parameter ``groups`` of ``fit``."""
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
        if {"random_state", "n_jobs"} <= self.parameters:  # a function may have neither
            params |= {"random_state": random_state, "n_jobs": n_jobs}
        return self.factory(**params)

    def distribution(self, model: Model, X: Table, classes: object) -> Floats:
        """Return the label distribution of a fitted model for each row, shape (n, K).

        Without a randomised rule the whole probability is on the answer of ``predict``.
        """
        if self.randomized:
            return label_shares(model, X)
        return answered(model.predict(X), classes)


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method.of(
            classifiers.AdaLPBoostClassifier,
            "AdaLPBoost",
            "Hedge over samples, exact CVaR mixture; one fit serves every α",
            randomized=True,
        ),
        Method.of(
            classifiers.LPBoostClassifier,
            "LPBoost",
            "totally corrective player for one α, exact CVaR mixture",
            randomized=True,
        ),
        Method.of(
            classifiers.RegularizedLPBoostClassifier,
            "Regularised LPBoost",
            "LPBoost with an entropy term and a rate of convergence",
            randomized=True,
        ),
        Method.of(
            classifiers.AverageBoostClassifier,
            "AdaBoost + average",
            "Hedge over samples, even mixture",
            randomized=True,
        ),
        Method.of(
            classifiers.OCOBoostClassifier,
            "OCO boosting",
            "Hedge over samples against a weak learner, majority vote",
        ),
        Method.of(
            classifiers.DROBoostClassifier,
            "DRO boosting",
            "additive, for the worst case over a ball around the data",
        ),
        Method.of(
            classifiers.AdaBoostClassifier,
            "AdaBoost",
            "additive, the exponential loss (SAMME); the reference of the next three",
        ),
        Method.of(
            classifiers.VadaBoostClassifier,
            "VadaBoost",
            "additive, with a penalty on the variance of the exponential loss",
        ),
        Method.of(
            classifiers.EBBoostClassifier,
            "EBBoost",
            "the same penalty, each round the best of all stumps; two classes only",
        ),
        Method.of(
            classifiers.SoftMarginBoostClassifier,
            "Soft-margin boosting",
            "AdaBoost's hypotheses, weights of a soft margin",
        ),
        Method.of(
            classifiers.GroupDROBoostClassifier,
            "Group DRO boosting",
            "Hedge over groups (or classes), minimax mixture",
            randomized=True,
        ),
        Method.of(
            classifiers.GroupDROBoostClassifier,
            "Group DRO boosting, classes",
            "the same with the classes as the groups",
            "classes",
            by_classes=True,
            randomized=True,
        ),
        Method.of(
            classifiers.WorstClassBoostClassifier,
            "Worst-class boosting",
            "targets for the class errors, learners grown to them",
            by_classes=True,
            randomized=True,
        ),
        Method.of(
            classifiers.WorstClassBoostClassifier,
            "Worst-group boosting",
            "the same with a target for the error of every group",
            "groups",
            randomized=True,
        ),
        Method.of(
            classifiers.RobustMixtureClassifier,
            "Robust mixture",
            "boosted trees and forests, rule for the worst class",
            by_classes=True,
            randomized=True,
        ),
        Method(
            "erm",
            "ERM",
            "the default learner alone (empirical risk minimisation)",
            LEARNERS["erm"],
        ),
        Method(
            "forest",
            "Random forest",
            "scikit-learn's random forest, 100 trees",
            LEARNERS["forest"],
        ),
        Method(
            "forest-balanced",
            "Balanced forest",
            "a random forest with balanced class weights",
            partial(weighted, LEARNERS["forest"]),
        ),
        Method(
            "forest-tuned",
            "Tuned forest",
            "a random forest, class weights on its probabilities tuned out of fold for the worst class",
            partial(tuned, LEARNERS["forest"]),
        ),
        Method(
            "xgboost", "XGBoost", "XGBoost's classifier with its defaults", LEARNERS["xgboost"]
        ),
        Method(
            "xgboost-balanced",
            "Balanced XGBoost",
            "XGBoost with balanced class weights",
            weighted_xgboost,
            by_classes=True,
        ),
        Method(
            "xgboost-tuned",
            "Tuned XGBoost",
            "XGBoost, class weights on its probabilities tuned out of fold for the worst class",
            partial(tuned, LEARNERS["xgboost"]),
        ),
        Method(
            "xgboost-cells",
            "Cell-weighted XGBoost",
            "XGBoost with balanced weights of class × group cells",
            weighted_xgboost,
            takes_groups=True,
        ),
        Method(
            "average-tuned",
            "Tuned XGBoost + forest",
            "the average of their probabilities, class weights tuned out of fold for the worst class",
            partial(tuned, average),
        ),
        Method(
            "random-guess",
            "Random guess",
            "each class with probability 1/K: CVaR 1 − 1/K at each α",
            partial(DummyClassifier, strategy="uniform", random_state=0),
            randomized=True,
        ),
    )
}


def get_method(name: str) -> Method:
    """Return a method by name.

    Parameters
    ----------
    name : str
        A key of ``METHODS``; `tailboost list` prints them.

    Raises
    ------
    ValueError
        If the name is unknown; the message suggests similar names.
    """
    if name in METHODS:
        return METHODS[name]
    hint = did_you_mean(name, METHODS)
    raise ValueError(f"unknown method {name!r}; {hint}methods are {', '.join(METHODS)}")
