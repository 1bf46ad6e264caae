"""Warnings and errors of the library."""

from typing import Any

__all__ = [
    "BoundNotMetWarning",
    "DeferredRowsWarning",
    "FitInterruptedWarning",
    "InfeasibleLimitsError",
    "LeakageError",
    "ModelVersionWarning",
    "NotCertifiedError",
    "ResubstitutionWarning",
    "SmallSubgroupsWarning",
    "TableChangedWarning",
    "UncertifiedGroupsWarning",
    "UselessRuleWarning",
]


class FitInterruptedWarning(UserWarning):
    """A fit ended early, by Ctrl-C or a time limit, and keeps the finished rounds."""


class BoundNotMetWarning(UserWarning):
    """A limit or condition is missed or not measured; the message names the subgroup or round."""


class SmallSubgroupsWarning(UserWarning):
    """Subgroups have too few rows; the message gives their names and numbers of rows."""


class UselessRuleWarning(UserWarning):
    """A rule satisfies its limits and is useless; the message names the limit and the nearest useful rule."""


class DeferredRowsWarning(UserWarning):
    """Rows that the rule defers have labels in an answer; the message gives their number."""


class UncertifiedGroupsWarning(UserWarning):
    """Answered rows are in groups that no limit of the certificate names; the message gives their number."""


class LeakageError(ValueError):
    """Rows given as fresh were used to train or select the classifier."""


class ResubstitutionWarning(UserWarning):
    """Selection data contain training rows, on which losses are too small."""


class InfeasibleLimitsError(ValueError):
    """Raised if no mixture of decision rules satisfies all limits on the selection data.

    Attributes
    ----------
    unselected : classifier or None
        After `fit`, `tune` and `from_probabilities` the classifier with its fitted models and without a rule.
        Its ``reweight(limits=...)`` returns a classifier within other limits; nothing is trained.
    limits : tuple of Limit
        The limits that contradict each other.
    """

    unselected: object = None
    limits: tuple[Any, ...] = ()


class NotCertifiedError(ValueError):
    """No rule within the limits is certified.

    Parameters
    ----------
    message : str
        The message.
    certificate : Certificate, optional
        The bounds of the likeliest rule, which misses a limit; None for another reason.
        The message says whether an attempt is spent; if not, the rows can be used again.
    attempts : tuple of Attempt
        This and all earlier attempts with their rows, for ``calibrate(previous=…)``.
    """

    def __init__(
        self, message: str, certificate: Any = None, attempts: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message)
        self.certificate = certificate
        self.attempts = attempts


class TableChangedWarning(UserWarning):
    """A table differs from the training table; the message has the columns and counts."""


class ModelVersionWarning(UserWarning):
    """Warning: a model was saved with other library versions."""
