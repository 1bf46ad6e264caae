"""Every task on images at the scale of the papers, on a GPU: nets, batches and optimisers as printed.

Files are synthetic, with the published shapes and few rows; only rounds, epochs and steps are reduced. With
TAILBOOST_TRY_ON_CPU=1 they are tried without a GPU: three methods of each, batches of eight, ten classes.
"""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
for module in ("safetensors", "typer", "rich", "matplotlib", "PIL.Image"):
    pytest.importorskip(module)

from test_image_datasets import write_celeba
from test_reproduce_nets import run

from experiments import images

pytestmark = pytest.mark.experiments

# Experiment: its data set, the file, classes, shape, and whether the file has validation rows.
FILES = {
    "cifar10": ("CIFAR-10", "cifar10", 10, (32, 32, 3), False),
    "cifar10-ten": ("CIFAR-10, ten rounds", "cifar10", 10, (32, 32, 3), False),
    "cifar10-16": ("CIFAR-10, 16×16 pixels", "cifar10", 10, (32, 32, 3), False),
    "cifar10-imbalanced": ("CIFAR-10, imbalanced", "cifar10", 10, (32, 32, 3), False),
    "cifar100": ("CIFAR-100", "cifar100", 100, (32, 32, 3), False),
    "emnist": ("EMNIST", "emnist", 62, (28, 28), False),
    "tiny-imagenet": ("Tiny ImageNet", "tiny-imagenet", 200, (64, 64, 3), False),
    "tissuemnist": ("TissueMNIST", "tissuemnist", 8, (28, 28), True),
    "celeba": ("CelebA", "celeba", 2, None, True),
}


ON_CPU = not torch.cuda.is_available() and os.environ.get("TAILBOOST_TRY_ON_CPU") == "1"
CUT = {"steps": 4, "warmup_epochs": 1}
CUT_ON_CPU = {"steps": 2, "warmup_epochs": 0.1, "batch_size": 8}


def write_files(folder, name):
    """Write synthetic files: noise with the class as brightness; a tenth of the rows has every class."""
    _, file, K, shape, validation = FILES[name]
    if shape is None:
        return write_celeba(folder / "celeba", n=120)
    rows, arrays, rng = max(12, 400 // K), {}, np.random.default_rng(0)
    K = min(K, 10) if ON_CPU else K
    for part, each in [("train", rows), ("test", 4), *([("val", 4)] if validation else [])]:
        y = np.arange(K).repeat(each)
        X = rng.integers(0, 60, (len(y), *shape))
        arrays[f"x_{part}"] = (X + (190 * y / K).reshape(-1, *[1] * len(shape))).astype(np.uint8)
        arrays[f"y_{part}"] = y
    return np.savez(folder / f"{file}.npz", **arrays)


def test_every_task_of_the_images_is_tried():
    assert {title for title, *_ in FILES.values()} == set(images.TASKS) - {
        "MNIST, imbalanced", "Fashion-MNIST, imbalanced", "PneumoniaMNIST",  # as TissueMNIST, and smaller
    }  # fmt: skip


@pytest.mark.gpu
@pytest.mark.skipif(not (torch.cuda.is_available() or ON_CPU), reason="there is no GPU")
@pytest.mark.parametrize("name", FILES)
def test_a_task_at_paper_scale(tmp_path, monkeypatch, name):
    title = FILES[name][0]
    task = images.TASKS[title]
    batch = {"batch_size": 8} if ON_CPU else {}
    short = replace(
        task.paper,
        game=task.paper.game | (CUT_ON_CPU if ON_CPU else CUT),
        single=task.paper.single | {"epochs": 2} | batch,
        rounds=2, voters=2, voter_epochs=2, growth_epochs=1, thetas=(0.1, 0.9),
    )  # fmt: skip
    monkeypatch.setitem(images.TASKS, title, replace(task, paper=short))
    write_files(tmp_path, name)
    out = tmp_path / "out"
    options = ("--data", tmp_path, "--repeats", 1, "--scale", "paper", "--out", out)
    few = ["AdaLPBoost", "CE", *(["worst-class boosting, θ = 0.1"] if task.n_classes > 2 else [])]
    cut = [part for method in few for part in ("--only", method)] if ON_CPU else ["--max-time", 120]
    result = run(name, *options, *cut)
    assert result.exit_code == 0, result.output
    kept = json.loads((out / f"{name}.json").read_text())
    assert "AdaLPBoost" in kept["results"][title]
    assert kept["protocols"][title]["game_net"] == task.paper.game_net
    seconds = {method: round(of["seconds"]["mean"]) for method, of in kept["results"][title].items()}
    print(f"{name}: {short.rounds} rounds, processor seconds {seconds}; left: {len(kept['not computed'])}")
