"""Classifiers with a rule that is selected within limits; those of boosting are in `tailboost.boosting`."""

from tailboost.classifiers.calibrating import calibrate
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.classifiers.selected_models import TunedClassifier, tune

__all__ = ["RobustMixtureClassifier", "TunedClassifier", "calibrate", "tune"]
