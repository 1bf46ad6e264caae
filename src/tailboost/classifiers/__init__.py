"""Classifiers with a rule that is selected within limits; those of boosting are in `tailboost.boosting`."""

from tailboost.classifiers.robust_mixture import RobustMixtureClassifier, tune

__all__ = ["RobustMixtureClassifier", "tune"]


def __dir__() -> list[str]:
    return __all__
