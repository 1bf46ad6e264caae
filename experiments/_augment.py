"""Augmentation: batches of images to such batches, for ``TorchClassifier(augment=…)``."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["crop_and_flip", "resized_crop_and_flip"]


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


def resized_crop_and_flip(x: Tensor, *, least: float = 0.08, ratio: float = 4 / 3) -> Tensor:
    """Replace each image by a random part of it, scaled to the full size; mirror half of them at random.

    The area of the part is uniform between ``least`` and 1. The logarithm of its width over its height is
    uniform between ``±log ratio``. A side longer than the image is cut to the image. The defaults are
    those of torchvision's ``RandomResizedCrop``, which draws again instead of cutting. The scaling is
    bilinear.

    Parameters
    ----------
    x : Tensor of shape (n, channels, height, width)
    least : float in (0, 1]
        Least fraction of the area.
    ratio : float ≥ 1
        Largest ratio of the sides.

    Returns
    -------
    Tensor of the same shape
    """
    n = len(x)
    area, shape, across, down, mirror = torch.rand(5, n, device=x.device)
    side = (least + (1 - least) * area).sqrt()
    stretch = torch.exp((2 * shape - 1) * math.log(ratio) / 2)
    width, height = (side * stretch).clamp(max=1.0), (side / stretch).clamp(max=1.0)
    sign = torch.where(mirror < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(width)
    # Centres in [−1, 1], the coordinates of `affine_grid`.
    rows = [sign * width, zero, (2 * across - 1) * (1 - width), zero, height, (2 * down - 1) * (1 - height)]
    theta = torch.stack(rows, 1).view(n, 2, 3)
    grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, padding_mode="border", align_corners=False)
