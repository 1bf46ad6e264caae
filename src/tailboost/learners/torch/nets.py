"""Small nets: factories ``(input_shape, n_classes) -> nn.Module``.

``input_shape`` is the shape of a module input: ``(d,)`` for tables, ``(channels, height, width)`` for images.
Weights are drawn from PyTorch's global generator.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["mlp", "mlp_100_100", "small_cnn"]

Shape = Sequence[int]


def mlp(input_shape: Shape, n_classes: int, hidden: Sequence[int] = (100, 100)) -> nn.Module:
    """Return a multilayer perceptron with ReLU; images are flattened.

    Parameters
    ----------
    input_shape : sequence of int
        Shape of a row.
    n_classes : int ≥ 2
        Number of outputs.
    hidden : sequence of int
        Width of each hidden layer.
    """
    layers: list[nn.Module] = [nn.Flatten()]
    width = int(torch.Size(input_shape).numel())
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, n_classes))


def mlp_100_100(input_shape: Shape, n_classes: int) -> nn.Module:
    """Return the multilayer perceptron d-100-100-K of Zhai et al. 2021 (COMPAS)."""
    return mlp(input_shape, n_classes, (100, 100))


def small_cnn(input_shape: Shape, n_classes: int, channels: int = 8) -> nn.Module:
    """Return a convolutional net for small images: two strided convolutions and 64 hidden units.

    Parameters
    ----------
    input_shape : (channels, height, width)
        Shape of an image, at least 8×8 pixels.
    n_classes : int ≥ 2
        Number of outputs.
    channels : int
        Channels of the first convolution; the second has twice as many.
    """
    check_image("small_cnn", input_shape)
    colours, height, width = input_shape
    pixels = -(-height // 4) * -(-width // 4)  # two strides of 2, each rounding up
    return nn.Sequential(
        nn.Conv2d(colours, channels, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * channels * pixels, 64),
        nn.ReLU(),
        nn.Linear(64, n_classes),
    )


def check_image(net: str, input_shape: Shape) -> None:
    """Raise ValueError unless rows are images of at least 8×8 pixels."""
    if len(input_shape) != 3 or min(input_shape[1:]) < 8:
        raise ValueError(
            f"{net} takes images of shape (channels, height, width) from 8×8 pixels on, "
            f"got {tuple(input_shape)}"
        )
