"""The methods by name: one entry feeds the command line, the comparison and the conformance suite.

A name is that of the class in lower case, without "Classifier"; where a class is listed twice, the variant
that does not follow from its name says so after a hyphen. Baselines are called after what they are made of.
Our own entries are in `tailboost.classifiers` and `tailboost.classifiers.presets`.
"""

from __future__ import annotations

from tailboost import classifiers
from tailboost.app.baselines import (
    CoinFlip,
    balanced_forest,
    tuned_average,
    tuned_forest,
    tuned_xgboost,
    weighted_xgboost,
)
from tailboost.classifiers import presets
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.core.method import Method as Method
from tailboost.core.spelling import did_you_mean
from tailboost.learners.named import LEARNERS

METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        *classifiers.METHODS,
        *presets.METHODS,
        Method.of(
            RobustMixtureClassifier, "Robust mixture", "boosted trees and forests mixed for the worst class",
            by_classes=True, randomized=True,
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
