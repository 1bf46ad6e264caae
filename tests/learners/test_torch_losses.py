"""Losses against the papers' formulas in NumPy, and limiting cases."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import log_softmax, softmax

torch = pytest.importorskip("torch")

from tailboost.learners.torch import TorchClassifier, nets
from tailboost.learners.torch.losses import LOSSES, cvar_doro, focal, influence_balanced, make_loss

COUNTS = np.array([500.0, 60.0, 7.0, 120.0])
rng = np.random.default_rng(0)
Z = rng.normal(scale=2, size=(40, 4))
Y = rng.integers(0, 4, 40)
H = rng.normal(size=(40, 6))
P = softmax(Z, axis=1)
CE = -log_softmax(Z, axis=1)[np.arange(40), Y]


def tensors(dtype=torch.float64):
    return torch.tensor(Z, dtype=dtype), torch.tensor(Y), torch.tensor(COUNTS, dtype=dtype)


def effective(beta=0.9999):
    weight = (1 - beta) / (1 - beta**COUNTS)
    return weight / weight.sum() * 4


def ib(features=None):
    grads = np.abs(P - np.eye(4)[Y]).sum(axis=1)
    return 1 / (grads * (1 if features is None else np.abs(features).sum(axis=1)) + 1e-3)


def cross_entropy_of(z):
    return -np.mean([np.log(np.exp(row[k]) / np.exp(row).sum()) for row, k in zip(z, Y, strict=True)])


INVERSE = 1 / COUNTS / (1 / COUNTS).sum() * 4
TRUTH = {
    "cross_entropy": CE.mean(),
    "weighted_cross_entropy": np.mean(COUNTS.sum() / (4 * COUNTS[Y]) * CE),
    "focal": np.mean((1 - P[np.arange(40), Y]) ** 2 * CE),
    "class_balanced": np.mean(effective()[Y] * CE),
    "influence_balanced": np.mean(INVERSE[Y] * ib() * CE),
    "influence_balanced_cb": np.mean(effective()[Y] * ib() * CE),
    "influence_balanced_focal": np.mean(INVERSE[Y] * ib() * (1 - P[np.arange(40), Y]) * CE),
    "logit_adjustment": cross_entropy_of(Z + np.log(COUNTS / COUNTS.sum())),
    "cdt": cross_entropy_of(Z / (COUNTS.max() / COUNTS) ** 0.3),
    "vs": cross_entropy_of(Z / (COUNTS.max() / COUNTS) ** 0.15 + 1.25 * np.log(COUNTS / COUNTS.sum())),
    "naive": max(CE[k == Y].mean() for k in range(4)),
    # 40 rows: 4 are left out, and the worst half of the 36 others has weight.
    "cvar_doro": np.sort(CE)[::-1][4:22].mean(),
}


def test_every_loss_has_its_truth():
    assert TRUTH.keys() == LOSSES.keys()


@pytest.mark.parametrize("name", LOSSES)
def test_published_formula(name):
    assert LOSSES[name](*tensors()).item() == pytest.approx(TRUTH[name], rel=1e-12)
    z, y, _ = tensors(torch.float32)
    assert make_loss(LOSSES[name], COUNTS)(z, y).item() == pytest.approx(TRUTH[name], rel=2e-5)


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.parametrize("device", ["cpu", "meta", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("name", LOSSES)
def test_constants_go_where_the_logits_are(name, device):
    """The device "meta" has no values: it refuses tensors of other devices and reads of values."""
    z, y = torch.tensor(Z, device=device, requires_grad=True), torch.tensor(Y, device=device)
    for loss in (
        make_loss(LOSSES[name], COUNTS)(z, y),
        LOSSES[name](z, y, torch.tensor(COUNTS, dtype=torch.int64)),
    ):
        loss.backward()
        assert loss.device == z.grad.device == z.device
        assert (loss.shape, loss.dtype) == ((), torch.float64)
        if device != "meta":
            assert loss.item() == pytest.approx(TRUTH[name], rel=1e-6)


def test_influence_with_features():
    value = influence_balanced(*tensors(), features=torch.tensor(H)).item()
    assert value == pytest.approx(1000 * np.mean(INVERSE[Y] * ib(H) * CE), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name):
    z, y, counts = tensors()
    assert torch.autograd.gradcheck(lambda z: LOSSES[name](z, y, counts), z.requires_grad_())


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("focal", {"gamma": 0}),
        ("class_balanced", {"beta": 0}),
        ("logit_adjustment", {"tau": 0}),
        ("cdt", {"gamma": 0}),
        ("vs", {"tau": 0, "gamma": 0}),
        ("cvar_doro", {"alpha": 1, "outlier_fraction": 0}),
    ],
)
def test_constants_that_leave_cross_entropy(name, constants):
    assert LOSSES[name](*tensors(), **constants).item() == pytest.approx(CE.mean(), rel=1e-12)


@pytest.mark.parametrize(
    "name", ["weighted_cross_entropy", "class_balanced", "logit_adjustment", "cdt", "vs"]
)
def test_equal_classes_leave_cross_entropy(name):
    z, y, _ = tensors()
    assert LOSSES[name](z, y, torch.full((4,), 30.0)).item() == pytest.approx(CE.mean(), rel=1e-6)


def test_special_cases_of_vector_scaling():
    same = [
        ("logit_adjustment", {"tau": 0.7}, {"tau": 0.7, "gamma": 0}),
        ("cdt", {"gamma": 0.4}, {"tau": 0, "gamma": 0.4}),
    ]
    for name, constants, of_vs in same:
        assert LOSSES[name](*tensors(), **constants) == LOSSES["vs"](*tensors(), **of_vs)


def test_effective_numbers_run_from_equal_to_inverse_counts():
    z, y, counts = tensors()
    near_one = LOSSES["class_balanced"](z, y, counts, beta=1 - 1e-12).item()
    assert near_one == pytest.approx(np.mean(INVERSE[Y] * CE), rel=1e-6)


def test_naive_looks_at_the_classes_of_the_batch():
    z, y, _ = tensors()
    some = y != Y[CE.argmax()]
    left = Y[some.numpy()]
    truth = max(CE[some.numpy()][left == k].mean() for k in np.unique(left))
    assert LOSSES["naive"](z[some], y[some]).item() == pytest.approx(truth)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_confident_logits_stay_finite(name, size):
    z = torch.zeros(3, 4)
    z[:, 0] = size
    z.requires_grad_()
    loss = make_loss(LOSSES[name], COUNTS)(z, torch.zeros(3, dtype=torch.int64))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_a_class_without_rows(name):
    z, y, _ = tensors(torch.float32)
    z.requires_grad_()
    loss = make_loss(LOSSES[name], [500, 60, 0, 120])(z[y != 2], y[y != 2])
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("alpha", [0.07, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.33])
def test_doro_is_the_cvar_of_what_is_left(alpha, share):
    """Return the maximum over w ≤ q/α of Σ w CE by a generic solver; q is uniform on the remaining rows."""
    z, y, counts = tensors()
    found = cvar_doro(z, y, counts, alpha=alpha, outlier_fraction=share).item()
    m = len(CE)
    kept = np.clip((np.arange(1, m + 1) / m - share) * m, 0, 1) / m / (1 - share)
    solved = linprog(
        -np.sort(CE)[::-1], A_eq=np.ones((1, m)), b_eq=[1], bounds=np.column_stack([0 * kept, kept / alpha])
    )
    assert found == pytest.approx(-solved.fun, rel=1e-9)


def test_doro_gives_no_gradient_to_rows_left_out():
    z, y, _ = tensors()
    z.requires_grad_()
    cvar_doro(z, y, alpha=0.25, outlier_fraction=0.1).backward()
    moved = (z.grad.abs().sum(dim=1) > 0).numpy()
    assert set(np.flatnonzero(moved)) == set(np.argsort(-CE)[4:13])


def test_doro_learns_what_cvar_does_not_where_labels_are_wrong():
    """With a fifth of wrong labels, the worst tenth of a batch has wrong labels, so CVaR fits only these."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4)).astype(np.float32)
    truth = (X[:, 0] + X[:, 1] > 0).astype(int)
    y = np.where(rng.random(1000) < 0.2, 1 - truth, truth)
    errors = {}
    for share in (0.0, 0.25):
        loss = partial(cvar_doro, alpha=0.1, outlier_fraction=share)
        net = TorchClassifier(nets.mlp_100_100, steps=150, loss=loss, device="cpu", random_state=0)
        errors[share] = np.mean(net.fit(X, y).predict(X) != truth)
    assert errors[0.25] < 0.1 < 0.4 < errors[0.0]


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 1.5}, {"outlier_fraction": 1.0}])
def test_doro_refuses(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        cvar_doro(*tensors(), **wrong)


def test_fractional_focal_power_has_a_slope_for_a_perfect_row():
    z = torch.tensor([[100.0, 0.0]], requires_grad=True)
    focal(z, torch.tensor([0]), gamma=0.5).backward()
    assert torch.isfinite(z.grad).all()


def test_a_callable_is_taken_as_it_is():
    assert make_loss(cross := (lambda z, y: z.sum()), COUNTS) is cross


@pytest.mark.parametrize(
    ("loss", "counts", "error", "says"),
    [
        ("focl", COUNTS, ValueError, "unknown"),
        (3, COUNTS, TypeError, "callable"),
        ("focal", [1.0, -2.0], ValueError, "class_counts"),
        ("focal", [0.0, 0.0], ValueError, "class_counts"),
        ("focal", [[1.0]], ValueError, "class_counts"),
        ("focal", [np.nan, 1.0], ValueError, "class_counts"),
    ],
)
def test_refused(loss, counts, error, says):
    with pytest.raises(error, match=says):
        make_loss(loss, counts)
