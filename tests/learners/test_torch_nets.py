"""The nets: as many parameters as published, one output per class, and images of any size."""

import pytest

torch = pytest.importorskip("torch")

from experiments import _architectures as nets


def size(net):
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


# Published to the digits given there: 11.7M, .46M, .37M, 36.5M; the first is torchvision's exact number.
@pytest.mark.parametrize(
    ("net", "shape", "classes", "parameters"),
    [
        (nets.mlp_100_100, (8,), 2, 8 * 100 + 100 + 100 * 100 + 100 + 2 * 100 + 2),
        (nets.mlp_1024_512, (2,), 5, 2 * 1024 + 1024 + 1024 * 512 + 512 + 5 * 512 + 5),
        (nets.resnet18, (3, 224, 224), 1000, 11_689_512),
        (nets.resnet32, (3, 32, 32), 10, pytest.approx(0.46e6, rel=0.01)),
        (nets.wrn_28_1, (3, 32, 32), 10, pytest.approx(0.37e6, rel=0.01)),
        (nets.wrn_28_10, (3, 32, 32), 10, pytest.approx(36.5e6, rel=0.002)),
        (nets.small_cnn, (1, 28, 28), 10, 8 * 26 + 16 * (8 * 9 + 1) + 64 * (16 * 49 + 1) + 10 * 65),
    ],
)
def test_number_of_parameters(net, shape, classes, parameters):
    with torch.device("meta"):
        assert size(net(shape, classes)) == parameters


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (nets.mlp, (4,)),
        (nets.mlp, (1, 8, 8)),
        (nets.small_cnn, (3, 32, 32)),
        (nets.small_cnn, (1, 9, 30)),
        (nets.resnet18, (1, 28, 28)),
        (nets.resnet32, (3, 32, 32)),
        (nets.resnet32, (1, 28, 28)),
        (nets.wrn_28_1, (3, 30, 32)),
    ],
)
def test_one_output_per_class_and_every_weight_learns(net, shape):
    torch.manual_seed(0)
    made = net(shape, 7)
    z = made(torch.randn(5, *shape))
    assert z.shape == (5, 7)
    z.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in made.parameters())


def test_shortcuts_of_resnet32_have_no_weights():
    made = nets.resnet32((3, 32, 32), 10)
    assert not any("downsample" in name for name, _ in made.named_parameters())
    depth = sum(isinstance(m, (torch.nn.Conv2d, torch.nn.Linear)) for m in made.modules())
    assert depth == 32


def test_resnet18_has_torchvisions_names():
    with torch.device("meta"):
        names = nets.resnet18((3, 64, 64), 10).state_dict().keys()
    assert {"conv1.weight", "layer2.0.downsample.0.weight", "layer4.1.bn2.running_var", "fc.bias"} <= names
    torchvision = pytest.importorskip("torchvision")
    assert names == torchvision.models.resnet18().state_dict().keys()


@pytest.mark.parametrize("net", [nets.small_cnn, nets.resnet18, nets.resnet32, nets.wrn_28])
@pytest.mark.parametrize("shape", [(28, 28), (3, 4, 32)])
def test_refused(net, shape):
    with pytest.raises(ValueError, match="images"):
        net(shape, 10)
