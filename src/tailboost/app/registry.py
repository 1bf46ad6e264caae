"""Methods by name, for the command line, the comparison and the conformance suite.

The name of a classifier is its class name in lower case, without "Classifier". A second entry of one class
has a variant after a hyphen. Baselines are named after their models.
"""

from __future__ import annotations

from tailboost import classifiers
from tailboost.app.baselines import (
    balanced_forest,
    random_guess,
    tuned_average,
    tuned_forest,
    tuned_xgboost,
    weighted_xgboost,
)
from tailboost.core.method import Method as Method
from tailboost.core.spelling import did_you_mean
from tailboost.learners.named import LEARNERS

METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method.of(classifiers.AdaLPBoostClassifier, "AdaLPBoost",
            "Hedge over samples, exact CVaR mixture; one fit serves every α", randomized=True),
        Method.of(classifiers.LPBoostClassifier, "LPBoost",
            "totally corrective player for one α, exact CVaR mixture", randomized=True),
        Method.of(classifiers.RegularizedLPBoostClassifier, "Regularised LPBoost",
            "LPBoost with an entropy term and a rate of convergence", randomized=True),
        Method.of(classifiers.AverageBoostClassifier, "AdaBoost + average",
            "Hedge over samples, even mixture", randomized=True),
        Method.of(classifiers.OCOBoostClassifier, "OCO boosting",
            "Hedge over samples against a weak learner, majority vote"),
        Method.of(classifiers.DROBoostClassifier, "DRO boosting",
            "additive, for the worst case over a ball around the data"),
        Method.of(classifiers.AdaBoostClassifier, "AdaBoost",
            "additive, the exponential loss (SAMME); the reference of the next three"),
        Method.of(classifiers.VadaBoostClassifier, "VadaBoost",
            "additive, with a penalty on the variance of the exponential loss"),
        Method.of(classifiers.EBBoostClassifier, "EBBoost",
            "the same penalty, each round the best of all stumps; two classes only"),
        Method.of(classifiers.SoftMarginBoostClassifier, "Soft-margin boosting",
            "AdaBoost's hypotheses, weights of a soft margin"),
        Method.of(classifiers.GroupDROBoostClassifier, "Group DRO boosting",
            "Hedge over groups (or classes), minimax mixture", randomized=True),
        Method.of(classifiers.GroupDROBoostClassifier, "Group DRO boosting, classes",
            "the same with the classes as the groups", "classes", by_classes=True, randomized=True),
        Method.of(classifiers.WorstClassBoostClassifier, "Worst-class boosting",
            "targets for the class errors, learners grown to them", by_classes=True, randomized=True),
        Method.of(classifiers.WorstClassBoostClassifier, "Worst-group boosting",
            "the same with a target for the error of every group", "groups", randomized=True),
        Method.of(classifiers.RobustMixtureClassifier, "Robust mixture",
            "boosted trees and forests, rule for the worst class", by_classes=True, randomized=True),
        Method("erm", "ERM", "the default learner alone (empirical risk minimisation)", LEARNERS["erm"]),
        Method("forest", "Random forest", "scikit-learn's random forest, 100 trees", LEARNERS["forest"]),
        Method("forest-balanced", "Balanced forest", "a random forest with balanced class weights",
            balanced_forest),
        Method("forest-tuned", "Tuned forest",
            "a random forest, class weights on its probabilities tuned out of fold for the worst class",
            tuned_forest),
        Method("xgboost", "XGBoost", "XGBoost's classifier with its defaults", LEARNERS["xgboost"]),
        Method("xgboost-balanced", "Balanced XGBoost", "XGBoost with balanced class weights",
            weighted_xgboost, by_classes=True),
        Method("xgboost-tuned", "Tuned XGBoost",
            "XGBoost, class weights on its probabilities tuned out of fold for the worst class",
            tuned_xgboost),
        Method("xgboost-cells", "Cell-weighted XGBoost",
            "XGBoost with balanced weights of class × group cells", weighted_xgboost, takes_groups=True),
        Method("average-tuned", "Tuned XGBoost + forest",
            "the average of their probabilities, class weights tuned out of fold for the worst class",
            tuned_average),
        Method("random-guess", "Random guess", "each class with probability 1/K: CVaR 1 − 1/K at each α",
            random_guess, randomized=True),
    )
}  # fmt: skip


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
