"""Boosting classifiers for the worst class, group or cell under the names of papers."""

from tailboost.classifiers.group_dro import GroupDROBoostClassifier
from tailboost.classifiers.worst_class import WorstClassBoostClassifier
from tailboost.core.method import Method

__all__ = ["GroupDROBoostClassifier", "WorstClassBoostClassifier"]

#: Entries of `tailboost.app.registry`.
METHODS = (
    Method.of(
        GroupDROBoostClassifier,
        "Group DRO boosting",
        "Hedge over groups (or classes), minimax mixture",
        randomized=True,
    ),
    Method.of(
        GroupDROBoostClassifier,
        "Group DRO boosting, classes",
        "the same with the classes as the groups",
        "classes",
        by_classes=True,
        randomized=True,
    ),
    Method.of(
        WorstClassBoostClassifier,
        "Worst-class boosting",
        "targets for the class errors, learners grown to them",
        by_classes=True,
        randomized=True,
    ),
    Method.of(
        WorstClassBoostClassifier,
        "Worst-group boosting",
        "the same with a target for the error of every group",
        "groups",
        randomized=True,
    ),
)
