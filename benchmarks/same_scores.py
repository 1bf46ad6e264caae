"""`max_error` beside a threshold that is tuned for the same limit on the same scores.

    python benchmarks/same_scores.py --data DIR [--splits 3] [--out FILE]
    python benchmarks/same_scores.py --quick    made data, one split

DIR holds the tables of `TABLES` as gzipped CSV files. A boosted forest is fitted on 40 % of the rows. 30 %
select the rule, and 30 % are fresh. Each limit bounds the share of class 1 that is missed. Four rules use the
same scores: `tune` with ``max_error={1: bound, None: 1.0}``, `tune` with ``limits=[rates.miss(1) <= bound]``,
the threshold with the smallest error among those that keep the bound on the selection rows, and argmax.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import tailboost as tb
from tailboost import rates

# File, column of the label, and the labels that count as class 1.
TABLES: dict[str, tuple[str, str, Any]] = {
    "credit": ("taiwan_credit", "default", [1]),
    "adult": ("adult", "income", [">50K"]),
    "bank": ("bank_full", "y", ["yes"]),
    "spam": ("spambase", "spam", [1]),
    "german credit": ("german_credit", "class", [2]),
    "abalone": ("abalone", "rings", range(10, 30)),
    "white wine": ("winequality_white", "quality", range(7, 10)),
    "page blocks": ("page_blocks", "class", [2, 3, 4, 5]),
}
BOUNDS = (0.15, 0.3)
MOST_ROWS = 12_000


def table(folder: Path, name: str) -> tuple[Any, Any]:
    """Return the features and whether each row is of class 1."""
    file, label, positive = TABLES[name]
    frame = pd.read_csv(folder / f"{file}.csv.gz")
    frame = frame.drop(columns=[c for c in ("split",) if c in frame])
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0)
    y = frame.pop(label).isin(list(positive)).astype(int)
    return pd.get_dummies(frame, dtype=float).to_numpy(), y.to_numpy()


def made() -> tuple[Any, Any]:
    """Return made data with a class of 20 %."""
    X, y = make_classification(3000, 8, weights=[0.8], flip_y=0.05, random_state=0)
    return X, y


def tuned(score: Any, y: Any, bound: float) -> float:
    """Return the threshold of smallest error among those that miss at most ``bound`` of class 1."""
    values = np.unique(score)
    thresholds = np.append((values[1:] + values[:-1]) / 2, [-1.0, 2.0])
    best, error = -1.0, np.inf
    for threshold in thresholds:
        answers = score >= threshold
        if (answers[y == 1] == 0).mean() <= bound and (wrong := float((answers != y).mean())) < error:
            best, error = float(threshold), wrong
    return best


def measure(X: Any, y: Any, seed: int) -> list[dict[str, Any]]:
    """Return the fresh error and the fresh share missed of each rule on one split."""
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    X, X_val, y, y_val = train_test_split(X, y, test_size=3 / 7, stratify=y, random_state=seed)
    model = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
    score, score_new = model.predict_proba(X_val)[:, 1], model.predict_proba(X_new)[:, 1]
    found = []
    for bound in BOUNDS:
        answers = {"argmax": model.predict(X_new), "tuned threshold": score_new >= tuned(score, y_val, bound)}
        stated: dict[str, dict[str, Any]] = {
            "max_error": {"max_error": {1: bound, None: 1.0}},
            "limits": {"limits": [rates.miss(1) <= bound]},
        }
        for name, options in stated.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers[name] = tb.tune(model, X_val, y_val, random_state=0, **options).predict(X_new)
        for name, given in answers.items():
            missed = float((given[y_new == 1] == 0).mean())
            error = float((given != y_new).mean())
            found.append({"rule": name, "bound": bound, "seed": seed, "missed": missed, "error": error})
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    names = ["made"] if args.quick or args.data is None else list(TABLES)
    runs: list[dict[str, Any]] = []
    print(
        f"{'table':14}{'bound':>6}  "
        + "".join(f"{n + ': missed, error':>30}" for n in ("max_error", "limits", "tuned"))
    )
    for name in names:
        X, y = made() if name == "made" else table(args.data, name)
        own = [
            run | {"table": name} for s in range(1 if args.quick else args.splits) for run in measure(X, y, s)
        ]
        runs += own
        for bound in BOUNDS:
            cells = []
            for rule in ("max_error", "limits", "tuned threshold"):
                of = [run for run in own if run["rule"] == rule and run["bound"] == bound]
                cells.append(
                    f"{np.mean([r['missed'] for r in of]):.3f}, {np.mean([r['error'] for r in of]):.3f}"
                )
            print(f"{name:14}{bound:>6}  " + "".join(f"{cell:>30}" for cell in cells), flush=True)
    by_key = {(r["table"], r["bound"], r["seed"], r["rule"]): r for r in runs}
    ours = [r for r in runs if r["rule"] == "max_error"]
    kept = [r["missed"] <= r["bound"] + 0.04 for r in ours]
    near = [
        r["error"] <= by_key[r["table"], r["bound"], r["seed"], "tuned threshold"]["error"] + 0.015
        for r in ours
    ]
    print(
        f"max_error: missed ≤ bound + .04 in {sum(kept)} of {len(kept)}, error ≤ tuned + .015 in {sum(near)}"
    )
    if args.out:
        args.out.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
