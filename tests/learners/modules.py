"""Small nets: factories ``(input_shape, n_classes) -> nn.Module``; images have channels first."""

import math

from torch import nn


def mlp_100_100(input_shape, n_classes):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(input_shape), 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(),
        nn.Linear(100, n_classes),
    )  # fmt: skip


def small_cnn(input_shape, n_classes, channels=8):
    if len(input_shape) != 3:
        raise ValueError(f"small_cnn takes images, got rows of shape {tuple(input_shape)}")
    colours, height, width = input_shape
    pixels = math.ceil(height / 4) * math.ceil(width / 4)
    return nn.Sequential(
        nn.Conv2d(colours, channels, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(2 * channels * pixels, 64), nn.ReLU(), nn.Linear(64, n_classes),
    )  # fmt: skip


def bits(net):
    """Return the weights of a fitted net."""
    return b"".join(weights.tobytes() for weights in net.weights.values())
