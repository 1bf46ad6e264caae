"""The log loss of the learned average with other models in it, on the 39 tables of `field-strong`.

    python benchmarks/averages.py --data DIR --cache CACHE --out benchmarks/averages.json [--only TITLE ...]

One split of each table, at most 2,000 training rows. Each model is cross-fitted once, as in
`RobustMixtureClassifier`. CACHE keeps its log-probabilities, so another average of the same models takes no
fits. "Others" are the 28 tables on which no estimator was selected. "Random cuts" is a prototype of boosted
trees that know a few random thresholds of each column: they change from tree to tree.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _record import opened, rounded, write
from sklearn.base import clone
from sklearn.utils import check_random_state

from tailboost.classifiers.fitting import FIVE_FOLDS_UP_TO
from tailboost.learners import HistBoostClassifier
from tailboost.learners.foreign import set_seeds
from tailboost.learners.forest import TableForest
from tailboost.learners.hist import cut_table
from tailboost.learners.linear import TableLinear
from tailboost.learners.protocols import AveragingLearner, Partitioned
from tailboost.learners.table import OpenTable
from tailboost.rows.rows import Rows, Split, TrainingSet
from tailboost.selection.outputs import Average, logs_of

SEED = 0
# Random cuts: bins of a column, sets of random thresholds, trees, rate. Chosen on the tables CHOSEN_ON of
# `capacity.py` and on digits.
BINS, SETS, TREES, RATE = 4, 10, 50, 0.2
FURTHEST = 1e37  # numbers beyond are the bounds of columns with missing values
MODELS: dict[str, Any] = {
    "100 trees": HistBoostClassifier(n_estimators=100, max_depth=6, learning_rate=0.1, n_jobs=1),
    "50 trees": HistBoostClassifier(n_estimators=50, max_depth=6, learning_rate=0.2, n_jobs=1),
    "random cuts": None,
    "forest": TableForest(n_trees="auto", leaf_rows=2.0, max_features=0.5, best_cuts=0.5, prior=0.05),
    "linear": TableLinear(),
    "kernel, 200": TableLinear(C=10.0, landmarks=200),
    "kernel, 500": TableLinear(C=10.0, landmarks=500),
    "extra": TableForest(n_trees=200, leaf_rows=1.0, max_features=0.8, best_cuts=0.0, prior=0.01),
}
BASE = ("forest", "linear")
AVERAGES = {
    "before": ("100 trees", *BASE),
    "half the trees": ("50 trees", *BASE),
    "default": ("50 trees", *BASE, "kernel, 200"),
    "with random cuts": ("50 trees", *BASE, "random cuts"),
    "default and random cuts": ("50 trees", *BASE, "kernel, 200", "random cuts"),
    "random cuts for the trees": ("random cuts", *BASE),
    "strong before": ("100 trees", *BASE, "extra", "kernel, 500"),
    "strong": ("50 trees", *BASE, "extra", "kernel, 500"),
    "strong and random cuts": ("50 trees", *BASE, "extra", "kernel, 500", "random cuts"),
    "strong, random cuts for extra": ("50 trees", *BASE, "kernel, 500", "random cuts"),
    "strong, random cuts for kernel": ("50 trees", *BASE, "extra", "random cuts"),
}
#: Averages that are compared.
PAIRS = (
    ("half the trees", "before"), ("default", "before"), ("default", "half the trees"),
    ("with random cuts", "half the trees"), ("default and random cuts", "default"),
    ("random cuts for the trees", "half the trees"), ("strong", "strong before"), ("strong", "default"),
    ("strong and random cuts", "strong"), ("strong, random cuts for extra", "strong"),
    ("strong, random cuts for kernel", "strong"),
)  # fmt: skip


class RandomCuts:
    """Boosted trees with random thresholds on one open table."""

    def __init__(self, table: OpenTable) -> None:
        import xgboost

        self.table, self.new, self.binned = table.table, xgboost.Booster, list[Any]()
        kinds, rng = table.reader.feature_types, np.random.default_rng(SEED)
        fine = [column[~np.isnan(column)] for column in cut_table(table, 256, kinds).T]
        for _ in range(SETS):
            kept = [c if kinds[j] == "c" else self._some(c, rng) for j, c in enumerate(fine)]
            reference = np.full((max(map(len, kept)), len(kept)), np.nan, dtype=np.float32)
            for j, thresholds in enumerate(kept):
                reference[: len(thresholds), j] = thresholds
            self.binned.append(reference)
        most = max(2, *map(len, self.binned))
        self.params = {"tree_method": "hist", "max_bin": most, "max_depth": 6, "eta": RATE, "nthread": 1}
        options = {"feature_types": kinds, "max_bin": most, "nthread": 1, "enable_categorical": True}
        self.binned = [
            xgboost.QuantileDMatrix(self.table, ref=xgboost.QuantileDMatrix(r, **options), **options)
            for r in self.binned
        ]

    @staticmethod
    def _some(thresholds: Any, rng: Any) -> Any:
        if len(thresholds) <= BINS - 1:
            return thresholds
        last = thresholds[-1:] if thresholds[-1] > FURTHEST else thresholds[:0]
        inner = thresholds[1 : len(thresholds) - len(last)]
        return np.r_[thresholds[0], np.sort(rng.choice(inner, min(BINS - 1, len(inner)), False)), last]

    def fit(self, y: Any, K: int, weight: Any) -> Any:
        """Return a booster of rows of positive weight."""
        share = float(np.float32(np.average(y == 1, weights=weight)))
        share = min(max(share, 1e-6), 1.0 - 1e-6)
        own = (
            {"objective": "multi:softprob", "num_class": K, "base_score": 0.5}
            if K > 2
            else {"objective": "binary:logistic", "base_score": share}
        )
        start = 0.5 if K > 2 else float(np.log(share / (1.0 - share)))
        scores, truth = np.full((len(y), K) if K > 2 else len(y), start), np.eye(K)[y] if K > 2 else y
        of_row = weight[:, None] if K > 2 else weight
        booster = self.new(self.params | own, [self.binned[0]])
        for t in range(TREES):
            P = _probabilities(scores)
            P = P if K > 2 else P[:, 1]
            slope, curve = (P - truth) * of_row, np.maximum((2.0 if K > 2 else 1.0) * P * (1 - P), 1e-16)
            grad, hess = slope.astype(np.float32), (curve * of_row).astype(np.float32)
            booster.boost(self.binned[t % SETS], t, grad=grad, hess=hess)
            newest = booster.inplace_predict(
                self.table, iteration_range=(t, t + 1), predict_type="margin", missing=np.nan
            )
            scores = scores + newest.reshape(scores.shape) - start
        return booster


def _probabilities(scores: Any) -> Any:
    scores = np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


class Table:
    """One split of a table with the folds of a cross-fit."""

    def __init__(self, rows: Any) -> None:
        n, K = len(rows.train.y), len(np.unique(rows.train.y))
        self.y, self.y_test, self.K = rows.train.y, rows.test.y, K
        self.problem = TrainingSet(rows.train.X, self.y, np.ones(n), None, K, np.arange(n), n, None)
        self.seed = int(check_random_state(SEED).randint(2**31 - 1))
        self.split = Split.from_training_set(self.problem, "auto", self.seed, five_up_to=FIVE_FOLDS_UP_TO)
        self.table = OpenTable(rows.train.X)
        self.test = self.table.reader.transform(rows.test.X)

    def fitted(self, name: str) -> dict[str, Any]:
        """Return the out-of-fold and test log-probabilities of a model, and processor seconds."""
        began, weight, parts = time.process_time(), self.problem.weight, self.split.parts
        predicts: list[Any]
        if name == "random cuts":
            cuts = RandomCuts(self.table)
            boosters = [cuts.fit(self.y, self.K, (~part).astype(float)) for part in parts]
            predicts = [
                lambda rows, b=booster: _probabilities(
                    b.inplace_predict(rows, predict_type="margin", missing=np.nan)
                )
                for booster in boosters
            ]
            means = True
        else:
            learner = clone(MODELS[name])
            set_seeds(learner, self.seed)
            session = learner.open_table(self.table, self.y, self.K, weight)
            if isinstance(session, Partitioned):
                session.leave_out(self.split.fold)
            models = [session.fit(weight, self.seed, ~part) for part in parts]
            means = isinstance(session, AveragingLearner)
            models += [] if means else [session.fit(weight, self.seed)]
            predicts = [lambda rows, m=model: self._whole(m, rows) for model in models]
        seconds = time.process_time() - began
        held = np.zeros((len(self.y), self.K))
        for part, predict in zip(parts, predicts, strict=False):
            held[part] = predict(self.table.table[part])
        final = np.mean([logs_of(p(self.test)) for p in (predicts if means else predicts[-1:])], axis=0)
        return {"out_of_fold": logs_of(held), "final": final, "seconds": seconds}

    def _whole(self, model: Any, rows: Any) -> Any:
        whole = np.zeros((len(rows), self.K))
        whole[:, model.classes_] = model.predict_proba_table(rows)
        return whole

    def loss(self, models: list[dict[str, Any]]) -> float:
        """Return the log loss on test rows of the learned average."""
        rows = Rows(self.y, np.ones(len(self.y)), None, "rows")
        average = Average.learned([m["out_of_fold"].astype(np.float64) for m in models], rows)
        logs = average.of(models[i]["final"].astype(np.float64) for i in average.used_models)
        return float(-logs[np.arange(len(self.y_test)), self.y_test].mean())


def measured(title: str, table: Table, cache: Path | None) -> dict[str, Any]:
    """Return the log loss of each average, and the seconds of each model."""
    found = {}
    for name in MODELS:
        file = cache and cache / f"{title}~{name}.npz"
        if file and file.exists():
            with np.load(file) as kept:
                found[name] = dict(kept)
            continue
        found[name] = table.fitted(name)
        if file:
            small = {k: np.asarray(v, dtype=np.float32) for k, v in found[name].items()}
            np.savez_compressed(file, **small)
    return {
        "log loss": {name: table.loss([found[m] for m in models]) for name, models in AVERAGES.items()},
        "seconds": {name: float(of["seconds"]) for name, of in found.items()},
    }


def summary(tables: dict[str, Any], titles: list[str]) -> dict[str, Any]:
    """Return mean differences of the log loss over tables, half of a 95 % interval, and seconds."""
    found: dict[str, Any] = {}
    for one, other in PAIRS:
        v = np.array([tables[t]["log loss"][one] - tables[t]["log loss"][other] for t in titles])
        half = 1.96 * v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else np.nan
        found[f"{one}, less {other}"] = {
            "mean": float(v.mean()), "half": float(half), "lower on": int((v < 0.0).sum()),
        }  # fmt: skip
    seconds = {name: sum(tables[t]["seconds"][name] for t in titles) for name in MODELS}
    of_averages = {name: sum(seconds[m] for m in models) for name, models in AVERAGES.items()}
    return {"tables": len(titles), "seconds": of_averages, "log loss": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="titles of tables")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from experiments._experiment import Settings
    from experiments.field._strong import SELECTED_ON, TABLES, bench_of

    if args.cache:
        args.cache.mkdir(parents=True, exist_ok=True)
    settings = Settings(out=Path(), data=args.data, only=tuple(args.only), say=print)
    record = opened(args.out, "averages")
    record["command"] = "python benchmarks/averages.py --data DIR --cache CACHE --out averages.json"
    tables = record["tables"] = {}
    for title in args.only or TABLES:
        tables[title] = measured(title, Table(bench_of(settings, title, SEED).rows), args.cache)
        print(title, *(f"{k} {v:.4f}" for k, v in tables[title]["log loss"].items()), flush=True)
    sides = {"all": list(tables), "others": [title for title in tables if title not in SELECTED_ON]}
    record["summary"] = {side: summary(tables, titles) for side, titles in sides.items() if titles}
    record["tables"], record["summary"] = (rounded(record[part]) for part in ("tables", "summary"))
    write(record, args.out)
    print(*(f"{k} {v}" for k, v in record["summary"].items()), sep="\n")


if __name__ == "__main__":
    main()
