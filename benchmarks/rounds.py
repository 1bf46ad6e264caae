"""What a boosting round and a prediction cost, side by side with peers in one process.

    python benchmarks/rounds.py [--quick] [--out FILE]

Prints ratios and writes JSON with sizes, seeds and versions. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import xgboost
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.table import OpenTable


def table(n: int, d: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    """Gaussian features; labels from interactions, 20 % of them redrawn."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    y = np.searchsorted(np.quantile(score, np.arange(1, K) / K), score)
    return X, np.where(rng.random(n) < 0.2, rng.integers(0, K, n), y)


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the median seconds of a call."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))


def peak_gib() -> float:
    """Peak resident memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def rounds(n: int, d: int, K: int, T: int) -> dict[str, Any]:
    """Cost of a round of AdaLPBoost with depth-5 trees against scikit-learn's AdaBoost."""
    X, y = table(n, d, K)
    began = time.perf_counter()
    clf = tb.AdaLPBoostClassifier(
        HistTreeClassifier(max_depth=5),
        n_estimators=T,
        cv="train",
        n_iter_no_change=None,
        random_state=0,
    ).fit(X, y)
    whole = time.perf_counter() - began
    in_round = float(np.median(clf.trace_.seconds))
    tree = tree_seconds(X, y, K, T)
    peer = AdaBoostClassifier(DecisionTreeClassifier(max_depth=5), n_estimators=3, random_state=0)
    peer_round = seconds(lambda: peer.fit(X, y), 1) / 3
    return {
        "what": f"AdaLPBoost round, {n:,} x {d}, K = {K}, depth 5, T = {T}",
        "fit_seconds_per_round": whole / T,
        "median_round_seconds": in_round,
        "tree_alone_seconds": tree,
        "share_of_round_not_tree": 1 - tree / in_round,
        "adaboost_seconds_per_round": peer_round,
        "times_faster_whole_fit": peer_round / (whole / T),
        "times_faster_in_round": peer_round / in_round,
        "gap": clf.gap_,
    }


def tree_seconds(X: Any, y: Any, K: int, T: int) -> float:
    """Median seconds XGBoost itself needs for one such tree on the binned table."""
    session = HistTreeClassifier(max_depth=5).open_table(OpenTable.of(X), y, K)
    taken, update = [], xgboost.Booster.update

    def timed(self: Any, *args: Any, **kwargs: Any) -> None:
        began = time.perf_counter()
        update(self, *args, **kwargs)
        taken.append(time.perf_counter() - began)

    xgboost.Booster.update = timed
    try:
        rng = np.random.default_rng(0)
        for t in range(min(T, 30)):
            session.fit(rng.exponential(size=len(y)), t)
    finally:
        xgboost.Booster.update = update
    return float(np.median(taken))


def prediction(n: int, d: int, members: int, K: int = 2) -> dict[str, Any]:
    """Time and memory of predict_distribution: HistBoost members against XGBoost with as many trees."""
    X, y = table(min(n, 20_000), d, K)
    learner = HistBoostClassifier(n_estimators=50)
    clf = tb.AverageBoostClassifier(learner, n_estimators=members, random_state=0)
    clf.fit(X, y)  # every member takes part
    peer = xgboost.XGBClassifier(n_estimators=50 * members, max_depth=5).fit(X, y)
    Z, _ = table(n, d, K, seed=1)
    before = peak_gib()
    ours = seconds(lambda: clf.predict_distribution(Z), 3)
    after = peak_gib()
    theirs = seconds(lambda: peer.predict_proba(Z), 3)
    return {
        "what": f"predict_distribution, {n:,} x {d}, {members} members of 50 trees, depth 5",
        "seconds": ours,
        "xgboost_seconds": theirs,
        "times_xgboost": ours / theirs,
        "peak_gib_above_data": after - before,
        "xgboost_peak_gib_above": peak_gib() - after,
        "table_gib_float64": Z.nbytes / 2**30,
    }


def large(n: int, d: int, T: int) -> dict[str, Any]:
    """The same fit on many rows, in a process of its own so that its peak memory is its own."""
    code = (
        "import sys, time, json; sys.path.insert(0, sys.argv[1]); import rounds as r, tailboost as tb\n"
        f"X, y = r.table({n}, {d}, 2); base = r.peak_gib(); began = time.perf_counter()\n"
        f"clf = tb.AdaLPBoostClassifier(r.HistTreeClassifier(max_depth=5), n_estimators={T}, "
        "cv='train', n_iter_no_change=None, random_state=0).fit(X, y)\n"
        f"print(json.dumps(dict(what='AdaLPBoost fit, {n:,} x {d}, T = {T}', "
        "seconds=time.perf_counter() - began, peak_gib=r.peak_gib(), before_fit_gib=base, gap=clf.gap_)))"
    )
    here = str(Path(__file__).parent)
    out = subprocess.run([sys.executable, "-c", code, here], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(out.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    f = 10 if args.quick else 1
    results = [
        rounds(50_000 // f, 50, 2, 100),
        rounds(50_000 // f, 50, 10, 100 // f),
        large(1_000_000 // f, 50, 100),
        prediction(1_000_000 // f, 50, 30),
    ]
    for result in results:
        print(result.pop("what"))
        for name, value in result.items():
            print(f"    {name:28s} {value:.4g}")
    versions = {m.__name__: m.__version__ for m in (np, sklearn, xgboost, tb)}
    report = {"results": results, "versions": versions, "python": platform.python_version(), "seed": 0}
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
