"""Classifiers for the worst class, group or cell under the names of papers.

With an ``estimator`` each plays its paper's game. Without one nothing is boosted: each is a
`RobustMixtureClassifier` for its units.
"""

from tailboost._method import Method
from tailboost.presets.group import GroupDROBoostClassifier
from tailboost.presets.worst_class import WorstClassBoostClassifier

__all__ = ["GroupDROBoostClassifier", "WorstClassBoostClassifier"]

#: Entries of `tailboost.registry`.
METHODS = (
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
)  # fmt: skip
