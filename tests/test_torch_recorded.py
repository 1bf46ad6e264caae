"""Recorded steps give the nets of plain steps: on a GPU as CUDA graphs, elsewhere by a stand-in."""

import warnings

import numpy as np
import pytest
from conftest import noisy

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tailboost.torch.augment import crop_and_flip
from torch import nn

from tailboost.learners.session import open_session
from tailboost.torch import TorchClassifier, nets
from tailboost.torch._recorded import WARM_UP, RecordedStep

gpu = pytest.mark.gpu
with_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
CPU = torch.device("cpu")

X, Y = noisy(3, n=200, d=4, K=3)
X = X.astype(np.float32)
ONES = np.ones(len(Y))


def learner(module=nets.mlp_100_100, **params):
    given = {
        "steps": 60,
        "batch_size": 16,
        "learning_rate": 0.05,
        "random_state": 0,
        "milestones": (0.5, 0.8),
    }
    return TorchClassifier(module, **(given | params))


def begin(**params):
    session = open_session(learner(device="cpu", **params), X, Y, 3, ONES, {}, seed=5)
    return session.begin(ONES, 1, None)


class StandIn:
    """Records as a CUDA graph does: without a step, with the numbers and the places of that moment."""

    def __init__(self, training):
        self.training, self.recordings, self.replays = training, 0, 0

    def rate(self, value=None):
        group = self.training.optimizer.param_groups[0]
        before = group["lr"]
        group["lr"] = before if value is None else value
        return before

    def __call__(self, step):
        self.recordings += 1
        recorded, loss = self.rate(), torch.zeros(())

        def replay():
            self.replays += 1
            now = self.rate(recorded)
            loss.copy_(step())
            self.rate(now)
            return loss

        return replay


def on_stand_in(training):
    record = StandIn(training)
    # Only a GPU makes a training record; the step is what it would hand over there.
    training.recorded = RecordedStep(training._step, record, CPU)
    return record


def weights(training):
    return {name: value.clone() for name, value in training.net.state_dict().items()}


def assert_same(first, second):
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=0, atol=0)


@pytest.mark.parametrize("parts", [(60,), (1, 2, 30, 27)])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_net_of_recorded_steps_is_that_of_plain_ones(parts, optimizer):
    plain, recorded = begin(optimizer=optimizer), begin(optimizer=optimizer)
    record = on_stand_in(recorded)
    plain.advance(60)
    for steps in parts:
        recorded.advance(steps)
    assert_same(weights(plain), weights(recorded))
    # Once at first, and once more at either milestone: the step size is part of a recording.
    assert (record.recordings, record.replays) == (3, 60 - WARM_UP)


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is_and_said_once():
    plain, recorded = begin(), begin()

    def record(step):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    recorded.recorded = RecordedStep(recorded._step, record, CPU)  # as above
    plain.advance(60)
    with pytest.warns(RuntimeWarning, match="cannot be recorded .operation not permitted") as said:
        recorded.advance(60)
    assert len(said) == 1
    assert_same(weights(plain), weights(recorded))


def test_what_fails_for_other_reasons_is_not_taken_for_a_recording_that_failed():
    recorded = begin()

    def record(step):
        raise KeyError("x")

    recorded.recorded = RecordedStep(recorded._step, record, CPU)  # as above
    with pytest.raises(KeyError):
        recorded.advance(60)


def test_without_a_gpu_nothing_changes():
    plain, recorded = learner(device="cpu"), learner(device="cpu", cuda_graph=True)
    assert plain.fit(X, Y).member_.digest == recorded.fit(X, Y).member_.digest


@gpu
@with_gpu
@pytest.mark.parametrize("growth", [None, 7])
@pytest.mark.parametrize("drop", [False, True])
def test_cuda_graphs_of_sgd_give_the_same_net_bit_for_bit(growth, drop):
    def module(shape, K):
        net = nets.mlp_100_100(shape, K)
        return nn.Sequential(nn.Dropout(0.1), net) if drop else net

    fits = [learner(module, device="cuda", growth=growth, cuda_graph=graph) for graph in (False, True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a fallback would be equal too
        plain, recorded = (clf.fit(X, Y).member_.digest for clf in fits)
    assert plain == recorded


@gpu
@with_gpu
def test_cuda_graphs_of_adam_give_nearly_the_same_net():
    plain, recorded = (
        learner(device="cuda", optimizer="adam", learning_rate=0.01, cuda_graph=graph).fit(X, Y)
        for graph in (False, True)
    )
    for name, value in plain.member_.state().items():
        torch.testing.assert_close(recorded.member_.state()[name], value, rtol=0, atol=1e-3)


@gpu
@with_gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_cuda_graphs_of_images_with_augmentation_learn(precision):
    rng = np.random.default_rng(0)
    pictures, labels = rng.integers(0, 200, (400, 8, 8, 3), dtype=np.uint8), rng.integers(0, 2, 400)
    pictures[labels == 1] //= 3
    clf = learner(
        nets.small_cnn, device="cuda", steps=300, augment=crop_and_flip, precision=precision, cuda_graph=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clf.fit(pictures, labels).score(pictures, labels) > 0.95


class Waiting(nn.Module):
    """A net that looks at a number on the device in every step."""

    def __init__(self, shape, K):
        super().__init__()
        self.linear = nn.Linear(shape[0], K)

    def forward(self, x):
        return self.linear(x) * (1.0 if float(x.detach().sum()) > -1e9 else 2.0)


@gpu
@with_gpu
def test_a_net_that_waits_for_the_gpu_is_trained_all_the_same():
    plain = learner(Waiting, device="cuda").fit(X, Y)
    with pytest.warns(RuntimeWarning, match="cannot be recorded"):
        recorded = learner(Waiting, device="cuda", cuda_graph=True).fit(X, Y)
    assert plain.member_.digest == recorded.member_.digest
