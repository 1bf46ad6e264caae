"""The methods by name: one entry feeds the command line, the comparison and the conformance suite.

A name is that of the class in lower case, without "Classifier"; where a class is listed twice, the variant
that does not follow from its name says so after a hyphen. Baselines are called after what they are made of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost._near import did_you_mean
from tailboost._steps import label_shares
from tailboost._typing import Floats
from tailboost.baselines import (
    CoinFlip,
    balanced_forest,
    tuned_average,
    tuned_forest,
    tuned_xgboost,
    weighted_xgboost,
)
from tailboost.classifiers import (
    AdaBoostClassifier,
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    DROBoostClassifier,
    EBBoostClassifier,
    LPBoostClassifier,
    OCOBoostClassifier,
    RegularizedLPBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
)
from tailboost.learners.named import LEARNERS
from tailboost.mixture import RobustMixtureClassifier
from tailboost.presets import GroupDROBoostClassifier, WorstClassBoostClassifier


@dataclass(frozen=True)
class Method:
    """A method that can be compared."""

    # name, title, summary: key, display name, one line.
    name: str
    title: str
    summary: str
    factory: Callable[..., Any]  # the estimator class, or what makes the estimator
    ours: bool = False  # whether it is a classifier of tailboost; the others are baselines
    randomized: bool = False  # whether ``predict_shares`` is the label distribution of a randomised rule
    # Whether classes are the groups, also where the rows have groups that ``fit`` would take.
    by_classes: bool = False
    # Whether ``fit`` takes groups, of a factory that is no class and so cannot be asked.
    takes_groups: bool = False
    by_group: bool = False  # whether it has to be told the groups of the rows it answers

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


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            "adalpboost", "AdaLPBoost", "Hedge over samples, exact CVaR mixture; one fit serves every α",
            AdaLPBoostClassifier, ours=True, randomized=True,
        ),
        Method(
            "lpboost", "LPBoost", "totally corrective player for one α, exact CVaR mixture",
            LPBoostClassifier, ours=True, randomized=True,
        ),
        Method(
            "regularizedlpboost", "Regularised LPBoost",
            "LPBoost with an entropy term and a rate of convergence",
            RegularizedLPBoostClassifier, ours=True, randomized=True,
        ),
        Method(
            "averageboost", "AdaBoost + average", "Hedge over samples, even mixture",
            AverageBoostClassifier, ours=True, randomized=True,
        ),
        Method(
            "groupdroboost", "Group DRO boosting", "Hedge over groups (or classes), minimax mixture",
            GroupDROBoostClassifier, ours=True, randomized=True,
        ),
        Method(
            "groupdroboost-classes", "Group DRO boosting, classes", "the same with the classes as the groups",
            GroupDROBoostClassifier, ours=True, by_classes=True, randomized=True,
        ),
        Method(
            "worstclassboost", "Worst-class boosting", "targets for the class errors, learners grown to them",
            WorstClassBoostClassifier, ours=True, by_classes=True, randomized=True,
        ),
        Method(
            "worstclassboost-groups", "Worst-group boosting",
            "the same with a target for the error of every group",
            WorstClassBoostClassifier, ours=True, randomized=True,
        ),
        Method(
            "ocoboost", "OCO boosting", "Hedge over samples against a weak learner, majority vote",
            OCOBoostClassifier, ours=True,
        ),
        Method(
            "droboost", "DRO boosting", "additive, for the worst case over a ball around the data",
            DROBoostClassifier, ours=True,
        ),
        Method(
            "adaboost", "AdaBoost", "additive, the exponential loss (SAMME); the reference of the next three",
            AdaBoostClassifier, ours=True,
        ),
        Method(
            "vadaboost", "VadaBoost", "additive, with a penalty on the variance of the exponential loss",
            VadaBoostClassifier, ours=True,
        ),
        Method(
            "ebboost", "EBBoost", "the same penalty, each round the best of all stumps; two classes only",
            EBBoostClassifier, ours=True,
        ),
        Method(
            "softmarginboost", "Soft-margin boosting", "AdaBoost's hypotheses, weights of a soft margin",
            SoftMarginBoostClassifier, ours=True,
        ),
        Method(
            "robustmixture", "Robust mixture", "boosted trees and forests mixed for the worst class",
            RobustMixtureClassifier, ours=True, by_classes=True, randomized=True,
        ),
        Method("erm", "ERM", "the default learner alone", LEARNERS["erm"]),
        Method("forest", "Random forest", "scikit-learn's, 100 trees", LEARNERS["forest"]),
        Method(
            "forest-balanced", "Balanced forest", "a random forest, every class weighing the same",
            balanced_forest,
        ),
        Method(
            "forest-tuned", "Tuned forest",
            "a random forest, class weights on its probabilities tuned out of fold for the worst class",
            tuned_forest,
        ),
        Method("xgboost", "XGBoost", "XGBoost's own classifier with its defaults", LEARNERS["xgboost"]),
        Method(
            "xgboost-balanced", "Balanced XGBoost", "XGBoost, every class weighing the same",
            weighted_xgboost, by_classes=True,
        ),
        Method(
            "xgboost-tuned", "Tuned XGBoost",
            "XGBoost, class weights on its probabilities tuned out of fold for the worst class",
            tuned_xgboost, by_classes=True,
        ),
        Method(
            "xgboost-cells", "Cell-weighted XGBoost", "XGBoost, every class × group cell weighing the same",
            weighted_xgboost, takes_groups=True,
        ),
        Method(
            "xgboost-groups", "XGBoost tuned per group",
            "XGBoost, class weights tuned for each group, which it is told at prediction",
            tuned_xgboost, takes_groups=True, by_group=True,
        ),
        Method(
            "average-tuned", "Tuned XGBoost + forest",
            "the average of their probabilities, class weights tuned out of fold for the worst class",
            tuned_average,
        ),
        Method("coinflip", "Coin flip", "all classes evenly: CVaR 1 − 1/K at every α", CoinFlip,
               randomized=True),
    )
}  # fmt: skip


def get_method(name: str) -> Method:
    """Return a method by name.

    Parameters
    ----------
    name : str
        One of ``METHODS``, see `tailboost list`.

    Returns
    -------
    Method

    Raises
    ------
    ValueError
        If there is none; the message names near ones.
    """
    if name in METHODS:
        return METHODS[name]
    hint = did_you_mean(name, METHODS)
    raise ValueError(f"unknown method {name!r}; {hint}methods are {', '.join(METHODS)}")
