"""Rules on the probabilities of models that a Dask cluster fitted: errors and processor seconds.

    python benchmarks/cluster.py [--rows 1000000] [--workers 2] [--parts 4] [--out FILE]

The rows are made where they lie: 20 columns, three classes of which one is rare, four groups. Four fifths fit
one model by ``xgboost.dask`` and ``--parts`` more, each from an equal share of these rows in one task; the
last fifth judges. Errors are those on 200,000 other rows, seconds those of the client and the workers.
"""

from __future__ import annotations

import argparse
import json
import time

import dask
import dask.array as da
import numpy as np
import xgboost
from dask.distributed import Client, LocalCluster
from xgboost import dask as dxgb

import tailboost as tb
import tailboost.dask as td

COLUMNS, BLOCK, K = 20, 50_000, 3
MODEL = {"n_estimators": 50, "max_depth": 5, "max_bin": 256, "tree_method": "hist"}
CHOICES = {
    "cvar .7": {"objective": "cvar", "alpha": 0.7},
    "worst class": {},
    "worst group": {"objective": "worst_group"},
}


def block(n, number):
    """Make the columns, labels and groups of one block, from its number alone."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
    g = rng.choice(4, n, p=[0.6, 0.25, 0.1, 0.05])
    X[:, 10] = g + rng.normal(scale=0.7, size=n)  # the group is half visible
    cos, sin = np.cos(g / 2), np.sin(g / 2)
    score = np.column_stack(
        [
            X[:, 0] * cos + X[:, 1] * sin + 1 + 0.8 * np.sin(2 * X[:, 4]),
            X[:, 1] * cos - X[:, 0] * sin + 0.6 + X[:, 2] * X[:, 3],
            X[:, 2] + X[:, 5] / 2 - 1.2 + 0.6 * (g == 3),
        ]
    )
    noise = rng.gumbel(size=score.shape) * (0.4 + 0.8 * (X[:, 6] > 0.5))[:, None]
    return np.column_stack([X, (1.2 * score + noise).argmax(axis=1), g]).astype(np.float32)


def data(n, first=0):
    """Return (X, y, groups) of n rows as Dask arrays."""

    def make(block_info=None):
        own = block_info[None]
        return block(own["chunk-shape"][0], first + own["chunk-location"][0])

    chunks = (da.core.normalize_chunks(BLOCK, (n,))[0], (COLUMNS + 2,))
    table = da.map_blocks(make, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    return table[:, :COLUMNS], *(table[:, COLUMNS + j].astype(np.int64) for j in range(2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--out")
    args = parser.parse_args()
    test, labels, sites = dask.compute(*data(200_000, first=10**6), scheduler="sync")
    options = {"n_workers": args.workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    results = []
    with LocalCluster(**options) as cluster, Client(cluster) as client:

        def spent():
            return time.process_time() + sum(client.run(time.process_time).values())

        def entry(name, answers, seconds):
            errors = {
                "error": float(np.mean(answers != labels)),
                "worst_class": float(tb.metrics.worst_class_error(labels, answers)),
                "worst_group": float(tb.metrics.worst_group_error(labels, answers, sites)),
            }
            results.append({"rows": args.rows, "what": name, "processor": seconds, **errors})
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in results[-1].items()}, flush=True)

        X, y, groups = data(args.rows)
        fit = 4 * args.rows // 5
        start = spent()
        model = dxgb.DaskXGBClassifier(**MODEL)
        model.client = client
        booster = model.fit(X[:fit], y[:fit]).get_booster()
        P = {"all": model.predict_proba(X[fit:]).persist()}
        seen = {"all": np.asarray(booster.inplace_predict(test))}
        entry("xgboost.dask", seen["all"].argmax(axis=1), spent() - start)
        size = fit // max(args.parts, 1)
        learn = dask.delayed(lambda Z, t: xgboost.XGBClassifier(n_jobs=1, **MODEL).fit(Z, t))
        parts = [learn(X[j * size : (j + 1) * size], y[j * size : (j + 1) * size]) for j in range(args.parts)]
        for j, part in enumerate(client.gather(client.compute(parts))):
            shape = {"chunks": (X[fit:].chunks[0], (K,)), "dtype": np.float32}
            own = X[fit:].map_blocks(part.predict_proba, meta=np.empty((0, K), np.float32), **shape)
            P[f"part {j}"], seen[f"part {j}"] = own.persist(), part.predict_proba(test)
        for name, choice in CHOICES.items():
            told = {"groups": groups[fit:]} if choice.get("objective") == "worst_group" else {}
            mix = td.RobustMixtureClassifier.from_probabilities(P, y[fit:], **told, **choice)
            entry(f"{name}, {len(P)} models", mix.to_local().predict(seen), spent() - start)
    if args.out:
        with open(args.out, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
