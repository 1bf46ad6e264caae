"""The nets: as many parameters as their layers say, one output per class, and images of any size."""

import pytest

torch = pytest.importorskip("torch")

from tailboost.torch import nets


def size(net):
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("net", "shape", "classes", "parameters"),
    [
        (nets.mlp_100_100, (8,), 2, 8 * 100 + 100 + 100 * 100 + 100 + 2 * 100 + 2),
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
    ],
)
def test_one_output_per_class_and_every_weight_learns(net, shape):
    torch.manual_seed(0)
    made = net(shape, 7)
    z = made(torch.randn(5, *shape))
    assert z.shape == (5, 7)
    z.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in made.parameters())


@pytest.mark.parametrize("shape", [(28, 28), (3, 4, 32)])
def test_refused(shape):
    with pytest.raises(ValueError, match="takes images of shape"):
        nets.small_cnn(shape, 10)
