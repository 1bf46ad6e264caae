"""The default mixture's errors at several budgets, its probabilities and its time, on thirteen tables.

    python benchmarks/scores.py --data DIR [--seeds 0 1 2] [--out FILE]     a record of this tree
    python benchmarks/scores.py --pair BEFORE AFTER                         two records, split by split

Splits are stratified, 60 % of at most 8,000 rows to fit on, the others and up to 6,000 rows more to judge on.
To compare with another edition, run this file with PYTHONPATH at its ``src``: one without ``predict_shares``
has its ``predict_proba`` judged as it is. Probabilities are clipped to 1e-6 for the log loss; the calibration
error is that of the answered label's probability in 15 bins, the Brier score summed over the classes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[1]))  # the experiments' loaders of tables
import tailboost as tb
from experiments._tables import LOADERS, without_rare_classes

TABLES = (
    "wine, 7 classes", "letter", "page blocks", "digits", "credit default", "adult", "german credit",
    "image segmentation", "bank", "higgs", "yeast", "spambase", "COMPAS",
)  # fmt: skip
BUDGETS = {"none": None, "0": 0.0, ".005": 0.005, ".02": 0.02}
MOST, MORE, BINS, LEAST = 8_000, 6_000, 15, 1e-6


def halves(data: Any, seed: int) -> tuple[Any, Any]:
    """Return rows to fit on and rows to judge on."""
    n = len(data.y)
    kept = np.arange(n)
    if n > MOST:
        kept, _ = train_test_split(kept, train_size=MOST, stratify=data.y, random_state=seed)
    train, test = train_test_split(kept, train_size=0.6, stratify=data.y[kept], random_state=seed)
    rest = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n), kept))[:MORE]
    return data.rows(np.sort(train)), data.rows(np.sort(np.concatenate([test, rest])))


def of_probabilities(P: Any, y: Any) -> dict[str, float]:
    """Return log loss, Brier score, and calibration error of the likeliest label."""
    P = np.clip(P, LEAST, None)
    P = P / P.sum(axis=1, keepdims=True)
    sure, right = P.max(axis=1), P.argmax(axis=1) == y
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [
        abs(right[bins == b].mean() - sure[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)
    ]
    return {
        "log_loss": float(-np.log(P[np.arange(len(y)), y]).mean()),
        "brier": float(((P - np.eye(P.shape[1])[y]) ** 2).sum(axis=1).mean()),
        "ece": float(sum(gaps)),
    }


def measured(title: str, folder: Path, seed: int, name: str) -> dict[str, Any]:
    """Return errors by budget, scores of the probabilities, and seconds."""
    train, test = halves(without_rare_classes(LOADERS[title](folder)), seed)
    clf = getattr(tb, name)(random_state=seed, n_jobs=1)
    began = time.process_time()
    clf.fit(train.X, train.y)
    found: dict[str, Any] = {"cpu": time.process_time() - began, "rows": len(train.y)}
    for word, budget in BUDGETS.items() if name == "RobustMixtureClassifier" else [("none", None)]:
        wrong = (clf if budget is None else clf.reweight(mean_budget=budget)).predict(test.X) != test.y
        errors = [wrong[test.y == k].mean() for k in np.unique(test.y)]
        found[word] = {"mean": float(wrong.mean()), "worst": float(max(errors))}
    return found | of_probabilities(clf.predict_proba(test.X), test.y)


def pair(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Print the differences by table, and their mean with its standard error over the tables."""

    def numbers(run: dict[str, Any]) -> list[float]:
        errors = [run[word][kind] for word in BUDGETS if word in run for kind in ("mean", "worst")]
        return [*errors, *(run[score] for score in ("log_loss", "brier", "ece") if score in run)]

    rows, times = {}, []
    for key in before.keys() & after.keys():
        title = key.split("|")[0]
        one, two = numbers(before[key]), numbers(after[key])
        rows.setdefault(title, []).append(np.subtract(two[: len(one)], one[: len(two)]))
        times.append(after[key]["cpu"] / before[key]["cpu"])
    print("after less before: mean, worst at each budget of", list(BUDGETS), "log loss, Brier, calibration")
    means = {title: np.mean(rows[title], axis=0) for title in TABLES if title in rows}
    for title, values in means.items():
        print(f"{title:20s}{len(rows[title])}", *(f"{v:+.4f}" for v in values))
    every = np.array(list(means.values()))
    print(f"{'mean':21s}", *(f"{v:+.4f}" for v in every.mean(axis=0)))
    print(f"{'standard error':21s}", *(f"{v:+.4f}" for v in every.std(axis=0, ddof=1) / len(every) ** 0.5))
    print(f"processor time: {np.mean(times):.2f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--who", default="RobustMixtureClassifier")
    parser.add_argument("--pair", type=Path, nargs=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.pair:
        pair(*(json.loads(file.read_text()) for file in args.pair))
        return
    found = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    for seed in args.seeds:
        for title in args.tables:
            if (key := f"{title}|{seed}") not in found:
                found[key] = measured(title, args.data, seed, args.who)
                print(key, json.dumps(found[key]), flush=True)
                if args.out:
                    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
