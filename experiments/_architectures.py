"""The papers' nets, factories ``(input_shape, n_classes) -> nn.Module`` as in `tailboost.torch.nets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from tailboost.learners.torch.nets import Shape, check_image, mlp, mlp_100_100, small_cnn

__all__ = [
    "centred",
    "mlp",
    "mlp_100_100",
    "mlp_1024_512",
    "resnet18",
    "resnet20",
    "resnet32",
    "small_cnn",
    "wrn_28",
    "wrn_28_1",
    "wrn_28_10",
]


def mlp_1024_512(input_shape: Shape, n_classes: int) -> nn.Module:
    """Return the perceptron d-1024-512-K of Saito et al. 2024 (artificial data)."""
    return mlp(input_shape, n_classes, (1024, 512))


class _Centred(nn.Module):
    """A net for inputs in [−1, 1], given inputs in [0, 1]."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(2 * x - 1)
        return scores


def centred(make: Callable[[Shape, int], nn.Module], input_shape: Shape, n_classes: int) -> nn.Module:
    """Return a net whose inputs are scaled from [0, 1] to [−1, 1]."""
    return _Centred(make(input_shape, n_classes))


class _BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut, with a projection or zero padding for a new shape."""

    def __init__(self, inputs: int, outputs: int, stride: int, project: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.added = stride, outputs - inputs
        self.downsample: nn.Module | None = None
        if project and (stride > 1 or self.added):
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        if self.downsample is not None:
            shortcut = self.downsample(x)
        else:
            shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + shortcut)


class _ResNet(nn.Module):
    """Stages of basic blocks, halved in size and doubled in width from each to the next."""

    def __init__(
        self, colours: int, n_classes: int, blocks: Sequence[int], width: int, imagenet: bool
    ) -> None:
        super().__init__()
        if imagenet:
            self.conv1 = nn.Conv2d(colours, width, 7, stride=2, padding=3, bias=False)
            self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = nn.Conv2d(colours, width, 3, padding=1, bias=False)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for stage, count in enumerate(blocks):
            outputs = width << stage
            strides = [1 if stage == 0 else 2] + [1] * (count - 1)
            made = []
            for stride in strides:
                made.append(_BasicBlock(inputs, outputs, stride, project=imagenet))
                inputs = outputs
            setattr(self, f"layer{stage + 1}", nn.Sequential(*made))
        self.stages = len(blocks)
        self.fc = nn.Linear(inputs, n_classes)
        _start(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(functional.relu(self.bn1(self.conv1(x))))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean(dim=(2, 3)))


def resnet18(input_shape: Shape, n_classes: int) -> nn.Module:
    """Return ResNet-18 [1]_, 11.7 million weights at 1,000 classes.

    Its parameters have the names and shapes of torchvision's ``resnet18``: a ``state_dict`` of one loads into
    the other.

    Parameters
    ----------
    input_shape : (channels, height, width)
        The first layers divide height and width by 4.
    n_classes : int ≥ 2
        Outputs.

    References
    ----------
    .. [1] K. He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, Table 1.
    """
    check_image("resnet18", input_shape)
    return _ResNet(input_shape[0], n_classes, (2, 2, 2, 2), width=64, imagenet=True)


def resnet32(input_shape: Shape, n_classes: int) -> nn.Module:
    """Return ResNet-32 for CIFAR [1]_, 0.46 million weights: 16-32-64 channels, shortcuts without weights.

    Parameters
    ----------
    input_shape : (channels, height, width)
        32×32 pixels in the paper.
    n_classes : int ≥ 2
        Outputs.

    References
    ----------
    .. [1] K. He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, §4.2.
    """
    check_image("resnet32", input_shape)
    return _ResNet(input_shape[0], n_classes, (5, 5, 5), width=16, imagenet=False)


def resnet20(input_shape: Shape, n_classes: int) -> nn.Module:
    """Return ResNet-20 for CIFAR, as `resnet32` with three blocks a stage: 0.27 million weights."""
    check_image("resnet20", input_shape)
    return _ResNet(input_shape[0], n_classes, (3, 3, 3), width=16, imagenet=False)


class _WideBlock(nn.Module):
    """Normalisation and ReLU before each of two 3×3 convolutions; a shortcut, 1×1 if the width changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(x))
        shortcut = x if self.shortcut is None else self.shortcut(y)
        return shortcut + self.conv2(functional.relu(self.bn2(self.conv1(y))))


def wrn_28(input_shape: Shape, n_classes: int, widen: int = 10) -> nn.Module:
    """Return WRN-28-k [1]_ without dropout: 36.5 million weights for k = 10, 0.37 for k = 1.

    Parameters
    ----------
    input_shape : (channels, height, width)
        32×32 pixels in the paper.
    n_classes : int ≥ 2
        Outputs.
    widen : int ≥ 1
        k.

    References
    ----------
    .. [1] S. Zagoruyko, N. Komodakis, "Wide Residual Networks", BMVC 2016, Table 1.
    """
    check_image("wrn_28", input_shape)
    layers: list[nn.Module] = [nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False)]
    inputs = 16
    for stage in range(3):
        outputs = 16 * widen << stage
        for block in range(4):  # 28 = 6 · 4 + 4
            layers.append(_WideBlock(inputs, outputs, stride=2 if stage and not block else 1))
            inputs = outputs
    layers += [nn.BatchNorm2d(inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    net = nn.Sequential(*layers, nn.Linear(inputs, n_classes))
    _start(net)
    return net


wrn_28_1 = partial(wrn_28, widen=1)
wrn_28_10 = partial(wrn_28, widen=10)


def _start(net: nn.Module) -> None:
    """Draw the convolutions' weights as He et al. 2015 do, for the size of a layer's output."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
