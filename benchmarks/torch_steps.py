"""Training steps per second of the learner against a bare PyTorch loop on the same net and data.

    python benchmarks/torch_steps.py [--device cuda] [--precision bfloat16] [--compile] [--out FILE]

Prints, for each net, the rates (the best of the repeats, taken in turn) and their ratio to the bare loop's,
on a CPU by the seconds of the process: give it one thread.
With --compile also that of the learner whose net is compiled, compilation apart.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import _architectures as nets
from tailboost.learners.torch import TorchClassifier

LR, MOMENTUM, BATCH = 0.01, 0.9, 128


def clock(device):
    """Return the seconds of this process on a CPU, whatever else runs there, else those that pass."""
    return time.process_time() if device == "cpu" else time.perf_counter()


def bare(net, X, y, steps, device, mixed):
    """The least a training needs: rows drawn, forward, backward, step."""
    net, X, y = net.to(device), X.to(device), y.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    net.train()
    for _ in range(steps):
        rows = torch.randint(len(X), (BATCH,), device=device)
        x = X[rows]
        if x.dtype == torch.uint8:
            x = x.float() / 255
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=mixed):
            logits = net(x)
        loss = functional.cross_entropy(logits.float(), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def rates(name, factory, X, steps, arguments):
    rng = np.random.default_rng(0)
    y, weight = rng.integers(0, 10, len(X)), rng.exponential(size=len(X))
    sessions = {}
    for compiled in (False, True)[: 1 + arguments.compile]:
        learner = TorchClassifier(
            factory, learning_rate=LR, momentum=MOMENTUM, batch_size=BATCH, steps=steps, random_state=0,
            device=arguments.device, precision=arguments.precision, compile=compiled,
        )  # fmt: skip
        session = learner.open_session(X, y, 10, np.ones(len(X)))
        sessions["compiled" if compiled else "learner"] = session
    channels_first = torch.from_numpy(np.moveaxis(X, -1, 1).copy() if X.ndim == 4 else X)
    labels, mixed = torch.from_numpy(y), arguments.precision == "bfloat16"
    best = dict.fromkeys([*sessions, "bare"], 0.0)
    for _ in range(arguments.repeats):
        for what in best:
            if what == "bare":
                net = factory(sessions["learner"].feed.input_shape, 10)
                began = clock(arguments.device)
                bare(net, channels_first, labels, steps, arguments.device, mixed)
            else:
                training = sessions[what].begin(weight, 0, None)
                training.advance(5)  # compiles
                began = clock(arguments.device)
                training.advance(steps)  # waits for the device: it looks at the last loss
            best[what] = max(best[what], steps / (clock(arguments.device) - began))
    ratios = {what: rate / best["bare"] for what, rate in best.items() if what != "bare"}
    words = "   ".join(
        f"{what} {rate:8.1f}/s ({ratios[what]:.3f})" for what, rate in best.items() if what != "bare"
    )
    print(f"{name:<20} {words}   bare {best['bare']:8.1f}/s", flush=True)
    return {"net": name, "steps": steps, **best, "ratios": ratios}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--compile", action="store_true")
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
    found = [rates(*case, arguments) for case in cases]
    if arguments.out:
        versions = {"python": platform.python_version(), "torch": torch.__version__}
        made = {"device": arguments.device, "precision": arguments.precision}
        made["threads"] = torch.get_num_threads()
        with open(arguments.out, "w") as out:
            json.dump({"versions": versions, **made, "seed": 0, "nets": found}, out, indent=1)
