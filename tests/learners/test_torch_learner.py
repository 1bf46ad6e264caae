"""Neural nets as classifiers and as base learners, on tables and images."""

import copy
import math
import pickle
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import OURS, make, noisy, refused
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

pytest.importorskip("torch")

import torch
from modules import bits, mlp_100_100, small_cnn
from torch import nn
from torch.nn import functional

import tailboost as tb
from tailboost.learners.foreign import open_session
from tailboost.learners.torch import RowPreparation, TorchClassifier, Training
from tailboost.rows.fingerprints import hash_rows

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]

X, Y = noisy(3, n=200, d=4, K=3)
X = X.astype(np.float32)
ONES = np.ones(len(Y))


def learner(module=mlp_100_100, **params):
    given = {"steps": 20, "batch_size": 16, "learning_rate": 0.05, "random_state": 0, "device": "cpu"}
    return TorchClassifier(module, **(given | params))


def session(table=X, labels=Y, weight=ONES, **params):
    return open_session(learner(**params), table, labels, np.arange(labels.max() + 1), weight, seed=5)


def images(n=120, size=8, seed=0):
    """Return squares that are brighter at the top, at the left, or nowhere."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 200, (n, size, size, 3), dtype=np.uint8)
    labels = rng.integers(0, 3, n)
    labels[:3] = range(3)
    pictures[labels == 1, : size // 2] += 55
    pictures[labels == 2, :, : size // 2] += 55
    return pictures, labels


class Dropout(nn.Sequential):
    """Net with dropout and batch normalisation."""

    def __init__(self, input_shape, n_classes):
        super().__init__(
            nn.Linear(input_shape[0], 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(16, n_classes),
        )  # fmt: skip


def jitter(x):
    return x + 0.01 * torch.randn_like(x)


class Perceptron:
    """Factory with the same name in all workers of a test run."""

    def __call__(self, input_shape, n_classes):
        return mlp_100_100(input_shape, n_classes)

    def __repr__(self):
        return "Perceptron()"


CHECKED = [
    learner(Perceptron(), steps=100, batch_size=32),
    tb.AdaLPBoostClassifier(learner(Perceptron(), steps=60, batch_size=32), n_estimators=2, cv="train"),
]
SUMS = "float32 sums of one row and of a batch differ by about 1e-7"


@parametrize_with_checks(CHECKED, expected_failed_checks=lambda _: {"check_methods_subset_invariance": SUMS})
@pytest.mark.slow
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", partial(torch.optim.RMSprop, lr=0.001)])
def test_the_same_seed_gives_the_same_net_and_leaves_pytorchs_generator_alone(optimizer):
    before = torch.get_rng_state()
    params = {"module": Dropout, "augment": jitter, "warmup_steps": 7, "learning_rate": 0.01}
    params["optimizer"] = optimizer
    one = learner(**params).fit(X, Y)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    two = learner(**params).fit(X, Y)
    other = learner(**(params | {"random_state": 1})).fit(X, Y)
    assert bits(one.net_) == bits(two.net_) != bits(other.net_)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize("device", DEVICES)
def test_it_is_plain_training(device):
    """A plain loop over the same rows with the same initial weights gives the same net."""
    ours = learner(steps=10, milestones=(0.5, 0.8), weight_decay=0.01, warmup_steps=4, device=device)
    weight = np.random.default_rng(0).exponential(size=len(Y))
    fitted = ours.fit(X, Y, sample_weight=weight)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    order = np.array(sorted(range(len(Y)), key=lambda i: (X[i].tobytes(), Y[i])))
    share = np.cumsum(weight[order]) / weight[order].sum()

    def batches(steps):
        drawn = np.random.default_rng(seed).random((steps, 16))
        return order[np.searchsorted(share, drawn, side="right")]

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = mlp_100_100((4,), 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    rates = [0.05] * 4 + [0.05] * 5 + [0.005] * 3 + [0.0005] * 2
    for rows, lr in zip([*batches(4), *batches(10)], rates, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        functional.cross_entropy(net(torch.from_numpy(X[rows])), torch.from_numpy(Y[rows])).backward()
        optimizer.step()
    with torch.no_grad():
        ours, theirs = fitted.net_.net().cpu()(torch.from_numpy(X)), net(torch.from_numpy(X))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6 if device == "cpu" else 1e-4)


def test_rows_are_drawn_by_weight_with_replacement():
    weight, s = np.arange(len(Y), dtype=float) ** 2, session(weight=ONES, batch_size=100)
    drawn = Training(s, 3, weight).draw(2000)
    assert drawn.shape == (2000, 100)
    counts = np.bincount(drawn.ravel(), minlength=len(Y))
    expected = drawn.size * weight / weight.sum()
    assert counts[0] == 0
    chi2 = ((counts[1:] - expected[1:]) ** 2 / expected[1:]).sum()
    assert abs(chi2 - 198) < 5 * math.sqrt(2 * 198)


def test_a_weight_of_two_is_the_row_twice_and_order_does_not_matter():
    weight = np.random.default_rng(1).integers(0, 4, len(Y))
    rows = np.random.default_rng(2).permutation(np.repeat(np.arange(len(Y)), weight))
    one = learner(warmup_steps=5).fit(X, Y, sample_weight=weight)
    two = learner(warmup_steps=5).fit(X[rows], Y[rows])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-9)
    scaled = learner(warmup_steps=5).fit(X, Y, sample_weight=weight * 1e-7)
    np.testing.assert_allclose(one.predict_proba(X), scaled.predict_proba(X), atol=1e-9)
    rounded = X.round()  # −0 is 0
    one, two = learner().fit(rounded, Y), learner().fit(rounded + 0, Y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_a_module_is_where_training_starts_and_stays_as_it_was():
    net = mlp_100_100((4,), 3)
    before = copy.deepcopy(net.state_dict())
    a, b = (learner(net, random_state=seed).fit(X, Y) for seed in (0, 0))
    assert bits(a.net_) == bits(b.net_)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    far = learner(net, learning_rate=1e-9).fit(X, Y).net_.net().state_dict()
    for k, v in far.items():
        torch.testing.assert_close(v, before[k], atol=1e-5, rtol=0)


def test_divergence_is_said():
    with pytest.warns(ConvergenceWarning, match="loss is (nan|inf) after 20 steps: the training diverged"):
        learner(learning_rate=1e20).fit(X, Y)


def test_rounds_start_from_one_warm_model_and_share_nothing():
    s = session(warmup_steps=30, optimizer="adam", learning_rate=0.001)
    first, start = s.fit(ONES, 1), s.start
    before = copy.deepcopy((start.net.state_dict(), start.optimizer.state_dict()["state"]))
    assert any(v.abs().max() > 0 for v in before[1][0].values() if v.ndim)
    s.fit(ONES, 2)
    for k, v in start.net.state_dict().items():
        assert torch.equal(v, before[0][k])
    for i, slots in start.optimizer.state_dict()["state"].items():
        assert all(torch.equal(v, before[1][i][k]) for k, v in slots.items())
    assert bits(s.fit(ONES, 1)) == bits(first)  # independent of other fits in between
    assert bits(session(warmup_steps=30, optimizer="adam", learning_rate=0.001).fit(ONES, 1)) == bits(first)


def test_momentum_is_carried_into_the_rounds():
    s = session(warmup_steps=30, steps=1, learning_rate=1e-3)
    s.fit(ONES, 1)
    start_of = Training(s, 1, ONES, s.start)
    states = start_of.optimizer.state_dict()["state"].values()
    assert all(v["momentum_buffer"].abs().max() > 0 for v in states)
    shared = {v["momentum_buffer"].data_ptr() for v in start_of.optimizer.state_dict()["state"].values()}
    start = s.start
    kept = start.optimizer.state_dict()["state"].values()
    assert not shared & {v["momentum_buffer"].data_ptr() for v in kept}


@pytest.mark.parametrize("growth", [1, 3, 8, 50])
def test_growth_ends_at_the_fit(growth):
    s = session(module=Dropout, warmup_steps=5, growth=growth, augment=jitter)
    whole, stages = s.fit(ONES, 4), list(s.stages(ONES, 4))
    assert len(stages) == math.ceil(20 / growth)
    assert bits(stages[-1]) == bits(whole)
    assert len({bits(m) for m in stages}) == len(stages)


def test_without_a_warm_up_every_round_has_new_weights():
    s = session(learning_rate=1e-12)
    a, b = (s.fit(ONES, seed).weights["1.weight"] for seed in (1, 2))
    assert not np.array_equal(a, b)


def test_the_session_predicts_what_the_member_does():
    s = session()
    member = s.fit(ONES, 1)
    np.testing.assert_array_equal(s.predict(member), member.predict(X))
    np.testing.assert_array_equal(member.predict_proba(X).argmax(axis=1), member.predict(X))


def test_trainings_that_draw_from_pytorchs_generators_get_the_same_nets_in_threads():
    fits = [learner(Dropout, augment=jitter, steps=60, random_state=k) for k in range(4)]
    alone = [bits(clone(clf).fit(X, Y).net_) for clf in fits]
    workers = [threading.Thread(target=clf.fit, args=(X, Y)) for clf in fits]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [bits(clf.net_) for clf in fits] == alone


GAMES = {name: make(name, n_estimators=3) for name in OURS if name != "ebboost"}


@pytest.mark.filterwarnings("ignore:.*(target|bound|condition)")
@pytest.mark.filterwarnings("ignore:no hypothesis is better")  # nets of a few steps
@pytest.mark.parametrize("name", GAMES)
@pytest.mark.slow
def test_every_game_takes_nets_and_images(name):
    pictures, labels = images()
    net = learner(partial(small_cnn, channels=4), warmup_steps=10, growth=10)
    clf = clone(GAMES[name]).set_params(estimator=net, random_state=0)
    one = clf.fit(pictures, labels).predict_proba(pictures)
    assert one.shape == (120, 3)
    np.testing.assert_allclose(one.sum(axis=1), 1)
    np.testing.assert_array_equal(clone(clf).fit(pictures, labels).predict_proba(pictures), one)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(pictures), one)
    tensors = torch.from_numpy(pictures).movedim(-1, 1), torch.from_numpy(labels)
    dataset = torch.utils.data.TensorDataset(*tensors)
    np.testing.assert_array_equal(clone(clf).fit(dataset).predict_proba(dataset), one)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_a_net_learns_images(device):
    """The step is small: at .05 some seeds end with a third of the rows correct."""
    pictures, labels = images(400)
    test, truth = images(200, seed=1)
    params = {"steps": 300, "learning_rate": 0.02, "device": device}
    net = learner(partial(small_cnn, channels=8), batch_size=32, **params)
    clf = tb.AdaLPBoostClassifier(net, n_estimators=2, cv=3, random_state=0).fit(pictures, labels)
    assert clf.score(test, truth) > 0.9


@pytest.mark.slow
def test_an_explicit_validation_set_of_images():
    pictures, labels = images()
    val, val_labels = images(seed=1)
    tensors = torch.from_numpy(val).movedim(-1, 1), torch.from_numpy(val_labels)
    dataset = torch.utils.data.TensorDataset(*tensors)
    clf = tb.AdaLPBoostClassifier(learner(partial(small_cnn, channels=2)), n_estimators=2, random_state=0)
    one = clone(clf).fit(pictures, labels, X_val=val, y_val=val_labels)
    two = clone(clf).fit(pictures, labels, X_val=dataset)
    np.testing.assert_array_equal(one.predict_proba(val), two.predict_proba(val))


def test_a_data_frame_and_a_pipeline():
    frame = pd.DataFrame(X, columns=list("abcd"))
    clf = tb.AdaLPBoostClassifier(learner(), n_estimators=2, cv="train", random_state=0).fit(frame, Y)
    of_array = clone(clf).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(clf.predict_proba(frame), of_array)
    piped = clone(clf).set_params(estimator=make_pipeline(StandardScaler(), learner())).fit(X, Y)
    assert piped.predict(X).shape == Y.shape


def test_one_row_at_a_time_and_in_batches():
    clf = learner().fit(X, Y)
    whole = clf.predict_proba(X)
    clf.model_ = replace(clf.net_, batch_size=7)
    np.testing.assert_allclose(clf.predict_proba(X), whole, atol=1e-6)
    np.testing.assert_allclose([clf.predict_proba(x[None])[0] for x in X[:20]], whole[:20], atol=1e-6)


def test_pixels_are_seen_divided_and_channels_first():
    pictures, labels = images(30)
    seen = []

    class Spy(nn.Module):
        def __init__(self, input_shape, n_classes):
            super().__init__()
            assert input_shape == (3, 8, 8)
            self.out = nn.Linear(192, n_classes)

        def forward(self, x):
            seen.append(x)
            return self.out(x.flatten(1))

    clf = learner(Spy, steps=1).fit(pictures, labels)
    seen.clear()
    one = clf.predict_proba(pictures)
    expected = torch.from_numpy(pictures.transpose(0, 3, 1, 2) / np.float32(255))
    torch.testing.assert_close(seen[0].contiguous(), expected)
    np.testing.assert_allclose(clf.predict_proba(pictures / 255.0), one, atol=1e-6)
    refused(lambda: clf.predict(pictures.astype(float)), "contains")
    grey = RowPreparation((8, 8), True, "cpu")
    assert grey.batch(grey.transform(pictures[..., 0])).shape[1:] == (1, 8, 8)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_equal_pictures_have_equal_hashes(dtype):
    pictures = images(50)[0].astype(dtype)[:, :7, :5]
    rows = np.random.default_rng(0).integers(0, 50, 200)
    hashes = hash_rows(pictures)
    assert len(set(hashes.tolist())) == 50
    np.testing.assert_array_equal(hash_rows(pictures[rows]), hashes[rows])
    changed = pictures.copy()
    changed[7, 3, 2, 1] += 1
    assert np.flatnonzero(hash_rows(changed) != hashes).tolist() == [7]
