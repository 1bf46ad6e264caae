"""Neural nets as base learners (extra ``torch``); importing tailboost alone does not import PyTorch."""

from tailboost.learners.torch import TorchClassifier, read_dataset

__all__ = ["TorchClassifier", "read_dataset"]
