"""Base learners for boosting. Optional methods for custom learners: `tailboost.learners.protocols`."""

from tailboost.learners.hist import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.stumps import StumpClassifier

__all__ = ["HistBoostClassifier", "HistTreeClassifier", "StumpClassifier"]
