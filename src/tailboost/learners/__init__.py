"""Base learners that answer the weight player.

`tailboost.learners.protocols` describes what your own learner may offer beyond scikit-learn's interface.
"""

from __future__ import annotations

from tailboost.learners.hist import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.stumps import StumpClassifier

__all__ = ["HistBoostClassifier", "HistTreeClassifier", "StumpClassifier"]
