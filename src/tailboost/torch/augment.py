"""Augmentation: batches of images to such batches, for ``TorchClassifier(augment=…)``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["crop_and_flip"]


def crop_and_flip(x: Tensor, padding: int = 4) -> Tensor:
    """Shift every image by up to ``padding`` pixels, zeros beyond its edge, and mirror every other one.

    Each image draws for itself, from PyTorch's generator of the batch's device.

    Parameters
    ----------
    x : Tensor of shape (n, channels, height, width)
    padding : int ≥ 0
        Pixels; 4 is usual for CIFAR's 32.

    Returns
    -------
    Tensor of the same shape
    """
    n, channels, height, width = x.shape
    top, left = torch.randint(0, 2 * padding + 1, (2, n), device=x.device)
    mirrored = torch.rand(n, device=x.device) < 0.5
    rows = top[:, None] + torch.arange(height, device=x.device)
    columns = left[:, None] + torch.arange(width, device=x.device)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(n, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[:, None, None]
    padded = functional.pad(x, (padding,) * 4)
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
