"""Augmentation: batches of images to such batches, for ``TorchClassifier(augment=…)``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["crop_and_flip"]


def crop_and_flip(x: Tensor, padding: int = 4, *, generator: torch.Generator | None = None) -> Tensor:
    """Shift images by up to ``padding`` pixels, with zeros outside, and mirror half of them at random.

    Each image has an independent draw.

    Parameters
    ----------
    x : Tensor of shape (n, channels, height, width)
    padding : int ≥ 0
        Pixels; 4 is usual for CIFAR's 32.
    generator : torch.Generator, optional
        Source of random numbers; None is PyTorch's global generator of the batch's device.

    Returns
    -------
    Tensor of the same shape
    """
    n, channels, height, width = x.shape
    device = x.device if generator is None else generator.device
    drawn = torch.randint(0, 2 * padding + 1, (2, n), device=device, generator=generator)
    top, left = drawn.to(x.device)
    mirrored = torch.rand(n, device=device, generator=generator).to(x.device) < 0.5
    rows = top[:, None] + torch.arange(height, device=x.device)
    columns = left[:, None] + torch.arange(width, device=x.device)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(n, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[:, None, None]
    padded = functional.pad(x, (padding,) * 4)
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
