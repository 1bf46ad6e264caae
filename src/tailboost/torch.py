"""Neural nets as base learners (extra ``torch``); importing tailboost alone does not import PyTorch."""

from tailboost.core import read_dataset
from tailboost.learners.torch import TorchClassifier

__all__ = ["TorchClassifier", "read_dataset"]
