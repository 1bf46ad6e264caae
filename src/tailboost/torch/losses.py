"""Losses for nets on unbalanced classes: functions of logits, labels and class counts."""

from tailboost.learners.torch.losses import *  # noqa: F403  # the public path of this module
from tailboost.learners.torch.losses import __all__ as __all__
