"""Randomised decisions: seconds for a million draws, and what `predict` gives up by not drawing.

    python benchmarks/decisions.py [--data DIR] [--out FILE]

The draws are timed on ids of three kinds; times are of the clock, the best of three runs. The price of not
drawing is measured on held-out rows (30 %, ten splits): largest class error and mean error of the rule
that draws (1 - share of the true label) and of `predict`, RobustMixtureClassifier(randomized=True). Tables:
a sample of the bundled credit clients and, with --data, yeast.csv.gz and glass.csv.gz of that folder.
"""

import argparse
import json
import platform
import secrets
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.app.table_encoder import TableEncoder

N, SPLITS, CLIENTS = 10**6, 10, 6000


def speed():
    """Yield the seconds of a million draws, by kind of id."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    clf = tb.AverageBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=3).fit(X, y)
    policy = tb.RandomizedDecision(clf, secrets.token_bytes(32), "benchmark")
    kinds = {
        "list of int": list(range(N)),
        "array of int": np.arange(N),
        "list of str": [f"person-{i:09d}" for i in range(N)],
    }
    for kind, ids in kinds.items():
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            policy.draw(ids)
            seconds.append(time.perf_counter() - began)
        yield {"ids": kind, "n": N, "seconds": round(min(seconds), 2)}


def tables(folder):
    """Yield name, table and labels."""
    credit = tb.datasets.load_credit_default()
    X, _, y, _ = train_test_split(
        credit.data, credit.target, train_size=CLIENTS, stratify=credit.target, random_state=0
    )
    yield "credit default (6,000 clients)", X, y.to_numpy()
    for name, target, drop in (("yeast", "class", "name"), ("glass", "type", "id")):
        if folder is not None:
            table = tb.datasets.load_table(folder / f"{name}.csv.gz", target)
            yield name, table.data.drop(columns=drop), table.target


def prices(folder):
    """Yield the errors of both rules on each table: means over the splits."""
    for name, X, y in tables(folder):
        rows = []
        for split in range(SPLITS):
            A, B, a, b = train_test_split(X, y, test_size=0.3, stratify=y, random_state=split)
            encoder = TableEncoder().fit(A)
            clf = tb.RobustMixtureClassifier(randomized=True, random_state=split)
            clf.fit(encoder.transform(A), a)
            B = encoder.transform(B)
            wrong = 1 - clf.predict_distribution(B)[np.arange(len(b)), np.searchsorted(clf.classes_, b)]
            for loss in (wrong, clf.predict(B) != b):
                by_class = [loss[b == k].mean() for k in clf.classes_]
                rows.append((max(by_class), loss.mean()))
        mean = np.mean(np.reshape(rows, (SPLITS, 4)), axis=0).round(3).tolist()
        yield {"table": name, "drawn": mean[:2], "predict": mean[2:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    args = parser.parse_args()
    results = []
    for figures in (speed(), prices(args.data)):
        for figure in figures:
            print(json.dumps(figure), flush=True)
            results.append(figure)
    if args.out:
        versions = {"python": platform.python_version(), "tailboost": tb.__version__, "numpy": np.__version__}
        args.out.write_text(json.dumps({"versions": versions, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
