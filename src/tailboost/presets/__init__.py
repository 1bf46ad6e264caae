"""Classifiers for the worst class, group or cell under the names of papers.

With an ``estimator`` each plays its paper's game. Without one nothing is boosted: each is a
`RobustMixtureClassifier` for its units.
"""

from tailboost.presets.group import GroupDROBoostClassifier
from tailboost.presets.worst_class import WorstClassBoostClassifier

__all__ = ["GroupDROBoostClassifier", "WorstClassBoostClassifier"]
