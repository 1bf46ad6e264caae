"""Warnings and errors of the classifiers."""


class FitInterruptedWarning(UserWarning):
    """A fit ended early, by Ctrl-C or a time limit, and keeps the finished rounds."""


class BoundNotMetWarning(UserWarning):
    """A limit or condition is missed or not measured; the message names the subgroup or round."""


class SmallSubgroupsWarning(UserWarning):
    """Subgroups have too few rows; the message gives their names and numbers of rows."""


class LimitBelowNoiseWarning(UserWarning):
    """A limit is tighter than the noise of so few rows; the message names the subgroup and its rows."""


class UselessRuleWarning(UserWarning):
    """A rule satisfies its limits and is useless; the message names the limit and the nearest useful rule."""


class ConfidenceNotReachedWarning(UserWarning):
    """No rule has the probability ``confidence`` for its limits; the message gives the best probability."""


class LeakageError(ValueError):
    """Rows given as fresh were used to train or select the classifier."""


class ResubstitutionWarning(UserWarning):
    """Selection data contain training rows, on which losses are too small."""
