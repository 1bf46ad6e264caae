"""Boosting for the tail, the worst class, the variance and the worst case: four papers, a file each.

`tailboost.published` has the algorithms in the papers' symbols. A new algorithm is a `Player`.
"""

from tailboost.boosting.cvar import (
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    LPBoostClassifier,
)
from tailboost.boosting.dro import DROBoostClassifier
from tailboost.boosting.game import Bound, Player, Units
from tailboost.boosting.variance import (
    AdaBoostClassifier,
    EBBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
)
from tailboost.boosting.worst_class import (
    GroupDROBoostClassifier,
    OCOBoostClassifier,
    WorstClassBoostClassifier,
)

__all__ = [
    "AdaBoostClassifier",
    "AdaLPBoostClassifier",
    "AverageBoostClassifier",
    "Bound",
    "DROBoostClassifier",
    "EBBoostClassifier",
    "GroupDROBoostClassifier",
    "LPBoostClassifier",
    "OCOBoostClassifier",
    "Player",
    "SoftMarginBoostClassifier",
    "Units",
    "VadaBoostClassifier",
    "WorstClassBoostClassifier",
]
