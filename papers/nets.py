"""The papers' nets, and the training of a single net."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from losses import Loss
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import relu

ROWS_AT_ONCE = 4_000


def mlp(input_shape: Sequence[int], n_classes: int, hidden: Sequence[int]) -> nn.Sequential:
    """Return a perceptron with ReLU: 100-100 of Zhai et al. on COMPAS, 1024-512 of Saito et al."""
    widths = [int(torch.Size(input_shape).numel()), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], n_classes))


class _WideBlock(nn.Module):
    """Normalisation and ReLU before each of two convolutions; a shortcut, 1×1 if the width changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(x))
        shortcut = x if isinstance(self.shortcut, nn.Identity) else self.shortcut(y)
        return shortcut + self.conv2(relu(self.bn2(self.conv1(y))))


def wrn_28_1(input_shape: Sequence[int], n_classes: int, widen: int = 1) -> nn.Sequential:
    """Return WRN-28-k of Zagoruyko and Komodakis 2016 without dropout, 0.37 million weights for k = 1."""
    layers: list[nn.Module] = [nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False)]
    inputs = 16
    for stage in range(3):
        outputs = 16 * widen << stage
        for block in range(4):  # 28 = 6 · 4 + 4
            layers.append(_WideBlock(inputs, outputs, stride=2 if stage and not block else 1))
            inputs = outputs
    layers += [nn.BatchNorm2d(inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    net = nn.Sequential(*layers, nn.Linear(inputs, n_classes))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net.to(memory_format=torch.channels_last)  # a quarter faster on processors


class Trained:
    """A net with labels for rows of an array."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net.eval()

    def predict(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the class numbers of rows."""
        parts = torch.from_numpy(np.asarray(X, dtype=np.float32)).split(ROWS_AT_ONCE)
        with torch.no_grad():
            return torch.cat([self.net(part).argmax(1) for part in parts]).numpy()


def train(
    net: nn.Sequential, X: NDArray[Any], y: NDArray[np.int64], loss: Loss, *, steps: int, batch: int,
    optimizer: Callable[..., torch.optim.Optimizer], seed: int, balanced: bool = False,
) -> Trained:  # fmt: skip
    """Train a net on batches of rows drawn at random, with ``balanced`` equally often from each class."""
    rows = torch.from_numpy(np.asarray(X, dtype=np.float32))
    labels = torch.from_numpy(y)
    weight = torch.ones(len(y))
    if balanced:
        weight = 1 / torch.bincount(labels)[labels]
    draws = torch.Generator().manual_seed(seed)
    steps_of = optimizer(net.parameters())
    net.train()
    for _ in range(steps):
        drawn = torch.multinomial(weight, batch, replacement=True, generator=draws)
        h = net[:-1](rows[drawn])
        steps_of.zero_grad()
        loss(net[-1](h), labels[drawn], h).backward()
        steps_of.step()
    return Trained(net)
