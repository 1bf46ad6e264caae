"""Learners: what answers the weight player.

What a learner of one's own may offer beyond scikit-learn's interface is described in
`tailboost.learners.protocols`.
"""

from __future__ import annotations

from tailboost.learners._adjusted import LogitAdjustedClassifier
from tailboost.learners._hist import HistBoostClassifier, HistTreeClassifier
from tailboost.learners._stumps import StumpClassifier

__all__ = ["HistBoostClassifier", "HistTreeClassifier", "LogitAdjustedClassifier", "StumpClassifier"]
