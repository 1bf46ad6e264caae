"""The stump search: a round against one pass over the presorted table, and its memory.

    python benchmarks/stumps.py [--data DIR] [--out FILE]

The pass gathers the two weight vectors of EBBoost in the order of every column and sums them up, over all n·d
entries: what any search over presorted columns does before it looks at a cost. It is timed in doubles and in
64-bit integers, which NumPy sums several times faster and which the search uses because they are exact.
Tables: 5,000 × 784, noise without ties (where every entry is a threshold) and, with --data, 5,000 digits of
MNIST. Times are processor seconds of one core, the best of several runs.
"""

import argparse
import json
import platform
import time
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np

import tailboost
from tailboost.learners import StumpClassifier

N, D = 5000, 784


def best_of(call, times=7):
    """Return the least processor seconds of a call."""
    seconds = []
    for _ in range(times):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return min(seconds)


def one_pass(order, weights):
    """Sum two weight vectors up in the order of every column."""
    for column in order:
        for w in weights:
            w.take(column).cumsum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    args = parser.parse_args()
    folder, results = args.data, []
    rng = np.random.default_rng(0)
    tables = {"noise": (rng.normal(size=(N, D)), rng.integers(0, 2, N))}
    if folder is not None:
        with np.load(folder / "mnist.npz") as images:
            rows = np.flatnonzero(np.isin(images["y_train"], (3, 8)))[:N]
            X, y = images["x_train"][rows], (images["y_train"][rows] == 8).astype(int)
        tables["MNIST 3/8"] = X.reshape(len(rows), -1).astype(float), y
    for name, (X, y) in tables.items():
        order = np.argsort(X, axis=0, kind="stable").T.astype(np.int32)
        u = rng.exponential(size=N)
        whole = rng.integers(0, 2**40, (2, N))
        passes = [best_of(partial(one_pass, order, weights)) for weights in (whole.astype(float), whole)]
        doubles, integers = (1e3 * seconds for seconds in passes)
        print(f"{name}, {N} × {D}: one pass {doubles:.1f} ms in doubles, {integers:.1f} ms in integers")
        for lam in (0.0, 0.5):
            session = StumpClassifier(variance_weight=lam).open_session(X, y, 2, np.ones(N))
            tracemalloc.start()
            began = time.process_time()
            session.fit(u, 0)
            first = time.process_time() - began
            kept = sum(column.order.nbytes + column.ends.nbytes for column in session.sorted[1])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            seconds = 1e3 * best_of(partial(session.fit, u, 0))
            results.append(
                {"table": name, "rows": N, "columns": D, "lambda": lam, "round_ms": seconds}
                | {"pass_ms_doubles": doubles, "pass_ms_integers": integers, "first_round_s": first}
                | {"table_mib": X.nbytes / 2**20, "sorted_mib": kept / 2**20, "peak_mib": peak / 2**20}
            )
            print(
                f"  λ = {lam:g}: round {seconds:.1f} ms = {seconds / doubles:.2f} or "
                f"{seconds / integers:.2f} passes; first, with sorting, {first:.2f} s; table "
                f"{X.nbytes / 2**20:.1f} MiB, sorted columns {kept / 2**20:.1f}, peak {peak / 2**20:.1f} more"
            )
    if args.out:
        versions = {"python": platform.python_version()}
        versions |= {m.__name__: m.__version__ for m in (np, tailboost)}
        report = {"results": results, "versions": versions, "seed": 0}
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
