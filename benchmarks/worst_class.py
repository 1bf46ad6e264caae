"""Fit time of worst-class boosting on many rows, side by side with peers in one process.

    python benchmarks/worst_class.py [--quick] [--out FILE]

Prints seconds and ratios and writes JSON with sizes, seeds and versions. Every method has one thread and its
own defaults. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import imblearn
import numpy as np
import sklearn
import xgboost
from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from rounds import table

import tailboost as tb

OURS = "worst-class boosting"


def imbalanced(n: int, d: int, K: int, ratio: float) -> tuple[Any, Any]:
    """Rows of `rounds.table`, thinned so that class sizes fall geometrically, by ``ratio`` in all."""
    X, y = table(4 * n, d, K)
    share = ratio ** -(np.arange(K) / (K - 1))
    count = np.floor(n * share / share.sum()).astype(int)
    rows = np.concatenate([np.flatnonzero(y == k)[:c] for k, c in enumerate(count)])
    rows = np.random.default_rng(1).permutation(rows)
    return X[rows], y[rows]


def fit_times(n: int, d: int, K: int, ratio: float) -> dict[str, Any]:
    """Fit every method once on the same rows."""
    X, y = imbalanced(n, d, K, ratio)
    Z, z = X[: len(X) // 5], y[: len(X) // 5]
    X, y = X[len(Z) :], y[len(Z) :]
    common = {"random_state": 0, "n_jobs": 1}
    counts = np.bincount(y)
    found: dict[str, Any] = {
        "what": f"{len(y):,} x {d}, K = {K}, classes of {counts.min():,} to {counts.max():,} rows"
    }
    for name, clf in {
        OURS: tb.WorstClassBoostClassifier(**common),
        "EasyEnsemble": EasyEnsembleClassifier(**common),
        "balanced random forest": BalancedRandomForestClassifier(**common),
        "XGBoost": xgboost.XGBClassifier(**common),
    }.items():
        began = time.perf_counter()
        clf.fit(X, y)
        taken = time.perf_counter() - began
        worst = tb.metrics.worst_class_error(z, clf.predict(Z))
        found[name] = {"seconds": round(taken, 2), "worst_class_error": round(worst, 4)}
        if name != OURS:
            found[name]["times_ours"] = round(found[OURS]["seconds"] / taken, 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    n = 12_500 if args.quick else 125_000  # a fifth is for the errors
    results = [fit_times(n, 20, 10, ratio) for ratio in (1.0, 20.0)]
    for result in results:
        print(result["what"])
        for name, values in result.items():
            if name != "what":
                print(f"    {name:28s}", *(f"{k} {v:g}" for k, v in values.items()))
    versions = {m.__name__: m.__version__ for m in (np, sklearn, imblearn, xgboost, tb)}
    report = {"results": results, "versions": versions, "python": platform.python_version(), "seed": 0}
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
