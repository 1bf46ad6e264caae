"""Boosting for the tail, the worst class, the variance and the worst case: four papers, a file each.

`tailboost.published` has the algorithms in the papers' symbols. A new algorithm is a `Player`, which
`GameClassifier` plays, or an `Additive` one for `AdditiveClassifier`.
"""

from tailboost.boosting.additive import Additive, AdditiveClassifier
from tailboost.boosting.cvar import (
    LP,
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    Hedge,
    LPBoostClassifier,
)
from tailboost.boosting.dro import DROBoostClassifier
from tailboost.boosting.game import Bound, Game, Player, Units
from tailboost.boosting.mixtures import GameClassifier
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
    "LP",
    "AdaBoostClassifier",
    "AdaLPBoostClassifier",
    "Additive",
    "AdditiveClassifier",
    "AverageBoostClassifier",
    "Bound",
    "DROBoostClassifier",
    "EBBoostClassifier",
    "Game",
    "GameClassifier",
    "GroupDROBoostClassifier",
    "Hedge",
    "LPBoostClassifier",
    "OCOBoostClassifier",
    "Player",
    "SoftMarginBoostClassifier",
    "Units",
    "VadaBoostClassifier",
    "WorstClassBoostClassifier",
]
