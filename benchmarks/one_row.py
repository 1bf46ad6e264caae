"""Processor time of the answer to one row: by a stored classifier, by its model, and by the rule alone.

    python benchmarks/one_row.py [--n-jobs N]

Milliseconds by call, the median of 15 runs of 100 calls. The model is XGBoost with 100 trees on 10 columns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from xgboost import XGBClassifier

import tailboost as tb


def milliseconds(call: Callable[[], object], n_calls: int = 100) -> float:
    """Return the processor time of a call, the median of 15 runs."""
    call()
    seconds = []
    for _ in range(15):
        start = time.process_time()
        for _ in range(n_calls):
            call()
        seconds.append((time.process_time() - start) / n_calls)
    return 1e3 * float(np.median(seconds))


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-jobs", type=int, default=1)
    n_jobs = parser.parse_args().n_jobs
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(4000, 10))).add_prefix("c")
    y = (X.c0 + X.c1 * X.c2 + rng.normal(size=4000) > 0).to_numpy(int)
    model = XGBClassifier(n_estimators=100, n_jobs=n_jobs).fit(X[:2000], y[:2000])
    rule = tb.tune(model, X[2000:], y[2000:], limits=["miss(1) <= .35"], objective="error")
    row = X.iloc[[0]]
    with tempfile.TemporaryDirectory() as folder:
        tb.save_model(rule, Path(folder, "m.model"))
        Path(folder, "rule.json").write_text(rule.rule_.to_json(), encoding="utf-8")
        stored = tb.load_model(Path(folder, "m.model"))
        thresholds = tb.load_rule(Path(folder, "rule.json"))
    score = float(model.predict_proba(row)[0, 1])
    ways: dict[str, Callable[[], object]] = {
        "load_model(...).predict": lambda: stored.predict(row),
        "predict_proba of the model": lambda: model.predict_proba(row),
        "load_rule(...).predict": lambda: thresholds.predict(score),
    }
    for name, call in ways.items():
        print(f"{name:30} {milliseconds(call):.3g} ms")


if __name__ == "__main__":
    main()
