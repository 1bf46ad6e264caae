"""Training steps per second of the learner against a bare PyTorch loop on the same net and data.

    python benchmarks/torch_steps.py [--steps 300] [--repeats 5] [--out FILE]

Prints, for each net, both rates (the best of the repeats, taken in turn) and their ratio; on a GPU where
there is one, both in mixed precision.
"""

from __future__ import annotations

import argparse
import json
import platform
import time

import numpy as np
import torch
from torch.nn import functional

from tailboost.torch import TorchClassifier, nets

LR, MOMENTUM, BATCH = 0.01, 0.9, 128


def bare(net, X, y, steps):
    """The least a training needs: rows drawn, forward, backward, step."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net, X, y = net.to(device), X.to(device), y.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    net.train()
    for _ in range(steps):
        rows = torch.randint(len(X), (BATCH,), device=device)
        x = X[rows]
        if x.dtype == torch.uint8:
            x = x.float() / 255
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            logits = net(x)
        loss = functional.cross_entropy(logits.float(), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def rates(name, factory, X, steps, repeats):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, len(X))
    learner = TorchClassifier(
        factory, learning_rate=LR, momentum=MOMENTUM, batch_size=BATCH, steps=steps, random_state=0
    )
    session = learner.open_session(X, y, 10, np.ones(len(X)))
    weight = rng.exponential(size=len(X))
    channels_first = torch.from_numpy(np.moveaxis(X, -1, 1).copy() if X.ndim == 4 else X)
    labels = torch.from_numpy(y)
    best = {"learner": 0.0, "bare": 0.0}
    for _ in range(repeats):
        for what in best:
            net = factory(session.feed.input_shape, 10)
            began = time.perf_counter()
            if what == "bare":
                bare(net, channels_first, labels, steps)
            else:
                session.fit(weight, 0)
            best[what] = max(best[what], steps / (time.perf_counter() - began))
    ratio = best["learner"] / best["bare"]
    print(
        f"{name:<20} learner {best['learner']:8.1f}/s   bare {best['bare']:8.1f}/s   {ratio:.3f}", flush=True
    )
    return {"net": name, "steps": steps, **best, "ratio": ratio}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", help="JSON file for the figures")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    table = rng.normal(size=(5049, 8)).astype(np.float32)
    grey = rng.integers(0, 256, (10_000, 28, 28, 1), dtype=np.uint8)
    colour = rng.integers(0, 256, (10_000, 32, 32, 3), dtype=np.uint8)
    cases = [
        ("MLP 8-100-100-10", nets.mlp_100_100, table, 10 * arguments.steps),
        ("MLP 8-1024-512-10", nets.mlp_1024_512, table, arguments.steps),
        ("small CNN, 28×28", nets.small_cnn, grey, arguments.steps),
        ("ResNet-32, 32×32×3", nets.resnet32, colour, max(3, arguments.steps // 60)),
        ("WRN-28-1, 32×32×3", nets.wrn_28_1, colour, max(3, arguments.steps // 60)),
    ]
    found = [rates(*case, arguments.repeats) for case in cases]
    if arguments.out:
        versions = {"python": platform.python_version(), "torch": torch.__version__}
        made = {"device": "cuda" if torch.cuda.is_available() else "cpu", "threads": torch.get_num_threads()}
        with open(arguments.out, "w") as out:
            json.dump({"versions": versions, **made, "seed": 0, "nets": found}, out, indent=1)
