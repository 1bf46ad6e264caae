"""Nets as learners (extra ``torch``): imported only when asked for, by ``tailboost.torch``."""

from __future__ import annotations

try:
    import safetensors.torch  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"tailboost.torch needs PyTorch and safetensors ({error}): pip install 'tailboost[torch]'"
    ) from error

from tailboost.core.torch_data import read_dataset
from tailboost.learners.torch import losses, nets
from tailboost.learners.torch.net_learner import TorchClassifier

__all__ = ["TorchClassifier", "losses", "nets", "read_dataset"]
