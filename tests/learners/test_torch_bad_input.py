"""Invalid nets, rows and files are refused by name, before any training."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import noisy, refused

pytest.importorskip("torch")

import torch
from modules import mlp_100_100, small_cnn
from torch import nn

import tailboost as tb
from tailboost.learners.torch import TorchClassifier, Training

X, Y = noisy(3, n=60, d=4, K=3)
PICTURES = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def _nothing_is_trained(monkeypatch):
    def advance(self, *steps):
        raise AssertionError("a step was trained before the refusal")

    monkeypatch.setattr(Training, "advance", advance)


def by_itself(net):
    return net


def in_a_game(net):
    return tb.AdaLPBoostClassifier(net, n_estimators=2)


class Silent(nn.Module):
    def forward(self, x):
        return torch.zeros(len(x), 3)


PARAMETERS = {
    "nothing to train": ({"module": Silent()}, "empty parameter list"),
    "no module": ({"module": lambda shape, K: None}, "returned NoneType; an nn.Module is needed"),
    "not a module": ({"module": 3}, "'module' parameter of TorchClassifier must be a callable"),
    "loss": ({"loss": "hinge"}, "'loss' parameter"),
    "optimizer": ({"optimizer": "newton"}, "'optimizer' parameter of TorchClassifier.*'adam'.*'newton'"),
    "learning_rate": ({"learning_rate": 0.0}, "'learning_rate' parameter"),
    "momentum": ({"momentum": 1.0}, "'momentum' parameter"),
    "weight_decay": ({"weight_decay": -1.0}, "'weight_decay' parameter"),
    "batch_size": ({"batch_size": 0}, "'batch_size' parameter"), "steps": ({"steps": 0}, "'steps' parameter"),
    "growth": ({"growth": 0}, "'growth' parameter"),
    "warmup_steps": ({"warmup_steps": -1}, "'warmup_steps' parameter"),
    "milestones": ({"milestones": (0.5, 400)}, r"fractions of steps in \[0, 1\) are needed, got \[400\]"),
}  # fmt: skip


@pytest.mark.parametrize("wrap", [by_itself, in_a_game])
@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters(case, wrap):
    params, match = PARAMETERS[case]
    clf = wrap(TorchClassifier(**({"module": mlp_100_100} | params)))
    refused(lambda: clf.fit(X, Y), match, (ValueError, TypeError))


def put(at, value, dtype=np.float32):
    pictures = PICTURES.astype(dtype) / 255
    pictures[at] = value
    return pictures


ROWS = {
    "NaN pixel": (put((3, 2, 1, 0), np.nan), Y, "contains NaN"),
    "infinite pixel": (put((3, 2, 1, 0), np.inf), Y, "contains infinity"),
    "too large for float32": (put((3, 2, 1, 0), 1e300, np.float64), Y, "too large for float32"),
    "no pictures": (PICTURES[:0], Y[:0], "0 sample"),
    "a table for a net of images": (X, Y, "small_cnn takes images"),
    "labels missing": (PICTURES, None, "1d array"), "too few labels": (PICTURES, Y[:-1], "59"),
    "one class": (PICTURES, np.zeros(60), "one class only"),
    "continuous labels": (PICTURES, np.random.default_rng(0).random(60), "continuous"),
}  # fmt: skip


@pytest.mark.parametrize("wrap", [by_itself, in_a_game])
@pytest.mark.parametrize("case", ROWS)
def test_rows(case, wrap):
    pictures, labels, match = ROWS[case]
    refused(lambda: wrap(TorchClassifier(small_cnn)).fit(pictures, labels), match)


def test_images_where_the_learner_takes_none():
    refused(lambda: tb.AdaLPBoostClassifier(n_estimators=2).fit(PICTURES, Y), "dim 4")


@pytest.mark.parametrize("wrap", [by_itself, in_a_game])
def test_other_rows_at_prediction(wrap, monkeypatch):
    monkeypatch.undo()
    clf = wrap(TorchClassifier(small_cnn, steps=1)).fit(PICTURES, Y)
    for other in (PICTURES[:, :7], PICTURES[..., :1], PICTURES[..., 0], X):
        refused(lambda: clf.predict(other), r"fitted|features|shape")
    refused(lambda: clf.predict(put((0, 0, 0, 0), np.nan)), "contains")
    flat = wrap(TorchClassifier(mlp_100_100, steps=1)).fit(X, Y)
    refused(lambda: flat.predict(PICTURES), r"fitted|features|shape|dim")


def test_labels_out_of_range():
    clf = in_a_game(TorchClassifier(small_cnn))
    refused(lambda: clf.fit(PICTURES, Y, X_val=PICTURES[:5], y_val=[0, 1, 2, 7, 0]), "y_val")


Items = type("Items", (list, torch.utils.data.Dataset), {})


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])


DATASETS = {
    "empty": (Items(), "no rows"), "uneven": (Items([(PICTURES[0], 0), (PICTURES[0][:4], 1)]), "same shape"),
    "endless": (Stream(), "has no length"), "without labels": (Items(PICTURES), "1d array"),
}  # fmt: skip


@pytest.mark.parametrize("case", DATASETS)
def test_datasets(case):
    dataset, match = DATASETS[case]
    refused(lambda: in_a_game(TorchClassifier(small_cnn)).fit(dataset), match)


@pytest.mark.slow
def test_without_pytorch():
    code = """
import sys

class Absent:
    def find_spec(self, name, *rest):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Absent())
import tailboost
assert not any(m.startswith(("torch.", "tailboost.learners.torch")) for m in sys.modules)
try:
    import tailboost.torch
except ImportError as error:
    print(error)
tailboost.AdaBoostClassifier(n_estimators=2).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pip install 'tailboost[torch]'" in said.stdout
