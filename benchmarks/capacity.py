"""Error, log loss and seconds of the default models by rows, beside other learners.

    python benchmarks/capacity.py rows [--sizes N ...] [--only TITLE ...] [--out FILE]
    python benchmarks/capacity.py tables --data DIR [--only TITLE ...] [--out FILE]

``rows``: made tables of 20 columns. ``tables``: one split of real tables of `experiments/_tables.py` in
DIR. The constants were chosen on the tables of CHOSEN_ON and on two made ones, "made, seed 0" and "faint".
``--learners`` takes some of the learners. FILE keeps the results of other runs. Seconds are processor seconds
of one thread. `sparse_tables.py` has wide tables.

    default    `RobustMixtureClassifier` for the overall error
    fixed      the same with 100 boosted trees of depth 6 at a rate of .1 on every table
    stopped    the same with as many such trees as held-out rows need, also on up to 5,000 rows
    xgboost    XGBoost as it comes
    xgboost300 XGBoost with 300 trees at a rate of .1
    hist       `HistGradientBoostingClassifier`
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import TableLinear

Rows = tuple[Any, Any, Any, Any]  # X, y, X_test, y_test
SIZES = (10_000, 100_000, 1_000_000)
TEST_ROWS = 50_000
# The constants of the default models were chosen on these tables and on "made, seed 0", not on the others.
CHOSEN_ON = ("adult", "higgs", "german credit", "letter", "wine, white", "yeast")
OTHERS = (
    "credit default", "bank", "spambase", "page blocks", "COMPAS", "image segmentation", "digits",
    "breast cancer", "wine, red", "glass", "ecoli",
)  # fmt: skip
MOST_ROWS = {"letter": 3_000}


def mixture(n_trees: int | str) -> tb.RobustMixtureClassifier:
    """Return the default mixture with one kind of boosted trees on every table."""
    boosted = HistBoostClassifier(n_estimators=n_trees, max_depth=6, learning_rate=0.1)
    forest = TableForest(n_trees="auto", leaf_rows=2.0, max_features=0.5, best_cuts=0.5, prior=0.05)
    models = [("boosted", boosted), ("forest", forest), ("linear", TableLinear())]
    return tb.RobustMixtureClassifier(models, objective="error", random_state=0, n_jobs=1)


def xgboost(**params: Any) -> Any:
    """Return XGBoost's classifier with one thread."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, **params)


LEARNERS: dict[str, Callable[[], Any]] = {
    "default": lambda: tb.RobustMixtureClassifier(objective="error", random_state=0, n_jobs=1),
    "fixed": lambda: mixture(100),
    "stopped": lambda: mixture("auto"),
    "xgboost": xgboost,
    "xgboost300": lambda: xgboost(n_estimators=300, learning_rate=0.1),
    "hist": lambda: HistGradientBoostingClassifier(random_state=0),
}


# -- tables -----------------------------------------------------------------------------------------------


def made(n: int, seed: int, noise: float = 0.1) -> Rows:
    """Return a made table of 20 columns, 10 of them informative."""
    X, y = make_classification(
        n + TEST_ROWS, 20, n_informative=10, n_redundant=5, flip_y=noise, n_clusters_per_class=4,
        random_state=seed,
    )  # fmt: skip
    X = X.astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


def faint(n: int, seed: int) -> Rows:
    """Return a table whose labels are hard to predict: weak effects of columns and of their products."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + TEST_ROWS, 20)).astype(np.float32)
    smooth = 0.5 * np.tanh(X[:, :8] @ rng.normal(size=8) / 2)
    score = smooth + 0.4 * X[:, 8] * X[:, 9] + 0.3 * np.abs(X[:, 10])
    y = (score + rng.logistic(size=len(X)) > 0.2).astype(np.intp)
    return X[:n], y[:n], X[n:], y[n:]


MADE: dict[str, Callable[[int], Rows]] = {
    "made, seed 0": lambda n: made(n, 0),
    "made, seed 1": lambda n: made(n, 1),
    "made, 30 % noise": lambda n: made(n, 2, 0.6),
    "faint": lambda n: faint(n, 3),
}


def of_size(sizes: list[int], only: list[str]) -> Iterator[tuple[str, Rows]]:
    """Yield the made tables of each size."""
    for n in sizes:
        for title, make in MADE.items():
            if not only or title in only:
                yield f"{title}, {n:,} rows", make(n)


def real(folder: Path, only: list[str]) -> Iterator[tuple[str, Rows]]:
    """Yield one split of each real table."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from experiments._tables import LOADERS, split, without_rare_classes

    for title in (*CHOSEN_ON, *OTHERS):
        if not only or title in only:
            rows = split(
                without_rare_classes(LOADERS[title](folder)), 0, 0.3, MOST_ROWS.get(title, 15_000), 20_000
            )
            yield title, (np.asarray(rows.train.X), rows.train.y, np.asarray(rows.test.X), rows.test.y)


# -- measurement ------------------------------------------------------------------------------------------


def measured(make: Callable[[], Any], rows: Rows) -> tuple[dict[str, Any], Any]:
    """Return the figures of one learner on one split, and which test rows it gets wrong."""
    X, y, X_test, y_test = rows
    began = time.process_time()
    model = make().fit(X, y)
    fitted = time.process_time()
    P = model.predict_proba(X_test)
    predicted = time.process_time()
    answers = model.predict(X_test)
    own = np.maximum(P[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)], 1e-6)
    found = {
        "error": float((answers != y_test).mean()), "log loss": float(-np.log(own).mean()),
        "seconds": fitted - began, "seconds of predict_proba": predicted - fitted,
    }  # fmt: skip
    if isinstance(model, tb.RobustMixtureClassifier):
        # The printed error of the rule, on the rows that also stopped the trees.
        found["error stated"] = float(model.rates_.to_dicts()[0]["value"])
    return found, answers != y_test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["rows", "tables"])
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="titles of tables")
    parser.add_argument("--learners", nargs="*", default=[], choices=list(LEARNERS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record: dict[str, Any] = {}
    if args.out and args.out.exists():
        record = json.loads(args.out.read_text())
    tables = {
        "rows": lambda: of_size(args.sizes, args.only),
        "tables": lambda: real(args.data, args.only),
    }[args.part]()
    for title, rows in tables:
        names = args.learners or [name for name in LEARNERS if name != "stopped"]
        of = record.setdefault(args.part, {}).setdefault(title, {})
        of["shape"] = list(rows[0].shape)
        for name in names:
            of[name] = {k: round(v, 4) for k, v in measured(LEARNERS[name], rows)[0].items()}
            print(f"{title:28} {name:10}", *(f"{k} {v:.4f}" for k, v in of[name].items()), flush=True)
        if args.out:
            args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
