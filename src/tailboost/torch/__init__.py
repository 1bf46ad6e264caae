"""Nets as learners (extra ``torch``): imported only when asked for, by ``tailboost.torch``."""

from __future__ import annotations

try:
    import safetensors.torch  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"tailboost.torch needs PyTorch and safetensors ({error}): pip install 'tailboost[torch]'"
    ) from error

from tailboost._torch_rows import read_dataset
from tailboost.torch import losses, nets
from tailboost.torch._learner import TorchClassifier

__all__ = ["TorchClassifier", "losses", "nets", "read_dataset"]
