"""Neural nets as base learners (extra ``torch``); importing tailboost alone does not import PyTorch."""

from __future__ import annotations

try:
    import safetensors.torch  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"tailboost.torch needs PyTorch and safetensors ({error}): pip install "
        "'tailboost[torch]'"
    ) from error

from tailboost.core.checks import read_dataset
from tailboost.learners.torch import losses, nets
from tailboost.learners.torch.net_learner import TorchClassifier

__all__ = ["TorchClassifier", "losses", "nets", "read_dataset"]
