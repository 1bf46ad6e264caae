"""Boosting on a Dask cluster: growth with the rows, what travels, and the cost beside plain XGBoost.

    python benchmarks/cluster.py [--rows 100000 1000000] [--workers 2] [--repeat 1] [--ours] [--memory 900MB]
        [--out FILE]

Rows × 30 columns are made where they lie, in blocks of at most 100,000. A fifth is held out, so every round
fits two models. Seconds under "processor" are those of the workers' processes, which other programs on the
machine change less than wall-clock seconds; "plain" is ``xgboost.dask`` with as many trees on the same rows.
Dask kills workers that exceed the memory they are given.
"""

from __future__ import annotations

import argparse
import json
import time

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster
from xgboost import dask as dxgb

import tailboost.dask as td
from tailboost.learners import HistBoostClassifier

COLUMNS, TREES, ROUNDS = 30, 10, 2
BLOCK = 100_000


def block(shape, number):
    """Make the columns and the label of one block, from its number alone."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=shape).astype(np.float32)
    score = X[:, :5].sum(axis=1) + np.sin(3 * X[:, 5]) * 2 + rng.logistic(size=len(X), scale=0.5)
    X[:, -1] = score > 0
    return X


def data(n):
    """Return (X, y) of n rows."""
    size = min(BLOCK, -(-n // 4))
    table = da.map_blocks(
        lambda block_info=None: block(block_info[None]["chunk-shape"], block_info[None]["chunk-location"][0]),
        chunks=(da.core.normalize_chunks(size, (n,))[0], (COLUMNS + 1,)),
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
    )
    return table[:, :-1], table[:, -1].astype(np.int64)


def processor(client):
    """Return the processor seconds of the workers so far, together."""
    return sum(client.run(time.process_time).values())


def largest():
    """Return the largest memory of this process so far, in MB (Linux)."""
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024


def peak(client):
    """Return the largest memory of a worker so far, in MB."""
    return max(client.run(largest).values())


def ours(client, X, y, n):
    """Fit and measure."""
    clf = td.AdaLPBoostClassifier(
        HistBoostClassifier(n_estimators=TREES), n_estimators=ROUNDS, alpha=0.3, validation=0.2,
        n_iter_no_change=None, random_state=0,
    )  # fmt: skip
    own, cpu, wall = time.process_time(), processor(client), time.perf_counter()
    clf.fit(X, y, client=client)
    wall, cpu, own = time.perf_counter() - wall, processor(client) - cpu, time.process_time() - own
    rounds = clf.progress_
    return {
        "wall": wall,
        "processor": cpu,
        "client_processor": own,
        "round_seconds": float(np.mean([p.seconds for p in rounds])),
        "share_not_xgboost": float(1 - sum(p.learning for p in rounds) / sum(p.seconds for p in rounds)),
        "table_lines_per_round": [p.combinations for p in rounds],
        "bytes_per_round": [p.combinations * 32 + p.model_bytes for p in rounds],
        "lambda": clf.estimator_weights_.tolist(),
    }


def plain(client, X, y, n):
    """Train as many trees by XGBoost alone."""
    own, cpu, wall = time.process_time(), processor(client), time.perf_counter()
    matrix = dxgb.DaskQuantileDMatrix(client, X, y, max_bin=256)
    params = {"tree_method": "hist", "max_depth": 5, "objective": "binary:logistic", "eta": 0.3}
    dxgb.train(client, params, matrix, num_boost_round=TREES * ROUNDS * 2)
    wall, cpu, own = time.perf_counter() - wall, processor(client) - cpu, time.process_time() - own
    return {"wall": wall, "processor": cpu, "client_processor": own}


def measure(n, n_workers, memory, which):
    """Measure in a cluster of its own, so that the largest memory is that of this fit."""
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    options |= {"memory_limit": memory}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        client.run(lambda: __import__("tailboost.dask"))  # not what is measured
        X, y = data(n)
        before = peak(client)
        return which(client, X, y, n) | {"idle_worker_mb": before, "peak_worker_mb": peak(client)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--ours", action="store_true", help="leave plain XGBoost out")
    parser.add_argument("--memory", default="auto", help="limit of each worker, such as 900MB")
    parser.add_argument("--out")
    args = parser.parse_args()
    results = []
    for n in args.rows:
        for repeat in range(args.repeat):
            for which in (ours,) if args.ours else (ours, plain):
                found = {
                    "rows": n,
                    "workers": args.workers,
                    "memory": args.memory,
                    "what": which.__name__,
                    "repeat": repeat,
                }
                found |= measure(n, args.workers, args.memory, which)
                print(
                    {k: v if not isinstance(v, float) else round(v, 3) for k, v in found.items()}, flush=True
                )
                results.append(found)
    if args.out:
        with open(args.out, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
