"""The papers' further losses against transcriptions of their formulas in NumPy."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

torch = pytest.importorskip("torch")

from experiments._losses import LOSSES, influence_balanced
from tailboost.torch.losses import make_loss

pytestmark = pytest.mark.experiments

COUNTS = np.array([500.0, 60.0, 7.0, 120.0])
rng = np.random.default_rng(0)
Z = rng.normal(scale=2, size=(40, 4))
Y = rng.integers(0, 4, 40)
H = rng.normal(size=(40, 6))
P = softmax(Z, axis=1)
CE = -log_softmax(Z, axis=1)[np.arange(40), Y]
INVERSE = 1 / COUNTS / (1 / COUNTS).sum() * 4
EFFECTIVE = (1 - 0.9999) / (1 - 0.9999**COUNTS)


def tensors(dtype=torch.float64):
    return torch.tensor(Z, dtype=dtype), torch.tensor(Y), torch.tensor(COUNTS, dtype=dtype)


def ib(features=None):
    grads = np.abs(P - np.eye(4)[Y]).sum(axis=1)
    return 1 / (grads * (1 if features is None else np.abs(features).sum(axis=1)) + 1e-3)


TEMPERED = log_softmax(Z / (COUNTS.max() / COUNTS) ** 0.3, axis=1)
TRUTH = {
    "naive": max(CE[k == Y].mean() for k in range(4)),
    "influence_balanced": np.mean(INVERSE[Y] * ib() * CE),
    "influence_balanced_cb": np.mean((EFFECTIVE / EFFECTIVE.sum() * 4)[Y] * ib() * CE),
    "influence_balanced_focal": np.mean(INVERSE[Y] * ib() * (1 - P[np.arange(40), Y]) * CE),
    "cdt": -np.mean(TEMPERED[np.arange(40), Y]),
}


def test_every_loss_has_its_truth():
    assert TRUTH.keys() == LOSSES.keys()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_published_formula(name, device):
    """The device "meta" computes shapes alone: it refuses what lies elsewhere, and what depends on values."""
    z, y = torch.tensor(Z, device=device, requires_grad=True), torch.tensor(Y, device=device)
    loss = make_loss(LOSSES[name], COUNTS)(z, y)
    loss.backward()
    assert loss.device == z.grad.device == z.device
    if device != "meta":
        assert loss.item() == pytest.approx(TRUTH[name], rel=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name):
    z, y, counts = tensors()
    given = () if name == "naive" else (counts,)
    assert torch.autograd.gradcheck(lambda z: LOSSES[name](z, y, *given), z.requires_grad_())


def test_influence_with_features():
    value = influence_balanced(*tensors(), features=torch.tensor(H)).item()
    assert value == pytest.approx(1000 * np.mean(INVERSE[Y] * ib(H) * CE), rel=1e-12)


def test_naive_looks_at_the_classes_of_the_batch():
    z, y, _ = tensors()
    some = y != Y[CE.argmax()]
    left = Y[some.numpy()]
    truth = max(CE[some.numpy()][left == k].mean() for k in np.unique(left))
    assert LOSSES["naive"](z[some], y[some]).item() == pytest.approx(truth)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_confident_logits_and_a_class_without_rows_stay_finite(name, size):
    z = torch.zeros(3, 4)
    z[:, 0] = size
    z.requires_grad_()
    loss = make_loss(LOSSES[name], [500, 60, 0, 120])(z, torch.zeros(3, dtype=torch.int64))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()
