r"""Log loss, errors and seconds of the default and the strong models beside AutoGluon, on real tables.

    python benchmarks/beside_autogluon.py --data DIR --python PATH [--only TITLE ...] [--splits N] \
        [--out FILE] [--ours-again]

PATH is the Python of an environment with ``autogluon.tabular[lightgbm,xgboost,catboost,fastai]`` and PyTorch.
Rows and probabilities are exchanged as files. FILE keeps the results of other runs. Each system has one
thread; seconds and time limits are processor seconds.

    default       `RobustMixtureClassifier()`
    strong        `RobustMixtureClassifier("strong")`
    AutoGluon     ``medium_quality`` for the log loss, with the seconds of the default, at least ten
    longer        the same with the seconds of "strong", at least sixty
    for accuracy  the same for AutoGluon's default metric, with the seconds of the default, at least ten
    XGBoost       `XGBClassifier` as it comes, with its own treatment of categories

The log loss, the error and the error of the worst class are those of the most probable label. "Rule" is the
decision rule for the worst class: ours as fitted; for AutoGluon `tailboost.tune` on the probabilities of its
validation rows, which also weigh its models. "known" tables had a part in the selection of our models or of
their constants. The splits are random and stratified, with 30 % test rows. Classes of fewer than 15 rows are
left out, as AutoGluon drops those of fewer than ten training rows. ``--ours-again`` repeats all but AutoGluon
on the splits in FILE; AutoGluon keeps the time limits from before. "Copies" is the share of the first split's
test rows whose features equal those of a training row.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
from capacity import CHOSEN_ON
from sklearn.model_selection import train_test_split

import tailboost as tb

#: Tables by size. The first ten have at most 2,000 rows.
TITLES = (
    "iris", "wine (178 rows)", "glass", "ecoli", "breast cancer", "breast cancer, Wisconsin", "german credit",
    "yeast", "wine, red", "digits",
    "splice", "abalone, sex", "page blocks", "COMPAS", "bank", "adult", "credit default",
)  # fmt: skip
SMALL = 2_000
# Most rows of a table, for the time.
MOST_ROWS, MOST = {"bank": 10_000}, 20_000
FEWEST = 15
OURS: dict[str, Any] = {"default": None, "strong": "strong"}
#: AutoGluon: metric, whose seconds, and the fewest seconds.
THEIRS = {
    "AutoGluon": ("log_loss", "default", 10.0),
    "longer": ("log_loss", "strong", 60.0),
    "for accuracy": ("accuracy", "default", 10.0),
}
FIGURES = ("log loss", "error", "worst class", "error, rule", "worst class, rule", "seconds")
PAIRS = (
    ("default", "AutoGluon"), ("default", "longer"), ("default", "for accuracy"), ("default", "XGBoost"),
    ("strong", "AutoGluon"), ("strong", "longer"), ("strong", "for accuracy"), ("strong", "XGBoost"),
)  # fmt: skip


# -- figures ----------------------------------------------------------------------------------------------


def errors(y: Any, answers: Any) -> tuple[float, float]:
    """Return the overall error and the largest error of a class."""
    wrong = np.asarray(answers) != y
    return float(wrong.mean()), max(float(wrong[y == k].mean()) for k in np.unique(y))


def figures_of(y: Any, P: Any, answers: Any = None) -> dict[str, float]:
    """Return the figures of probabilities, and of the answers of a rule if there is one."""
    own = np.maximum(P[np.arange(len(y)), y], 1e-6)
    found = {"log loss": float(-np.log(own).mean())}
    found["error"], found["worst class"] = errors(y, P.argmax(axis=1))
    if answers is not None:
        found["error, rule"], found["worst class, rule"] = errors(y, answers)
    return found


def rule_on_scores(P: Any, y: Any, P_new: Any) -> Any:
    """Return the answers to new rows of the rule for the worst class that is selected on given scores."""
    labels = list(range(P.shape[1]))
    return tb.tune(tb.Scores(labels, labels), P, y, random_state=0).predict(P_new)


def means(splits: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the mean over splits of each figure, by figure and system."""
    return {
        figure: {
            name: round(float(np.mean([split[name][figure] for split in splits])), 4)
            for name in splits[0]
            if figure in splits[0][name]
        }
        for figure in FIGURES
    }


def difference(tables: Sequence[Mapping[str, Mapping[str, float]]], ours: str, theirs: str) -> dict[str, Any]:
    """Return for each figure mean and median over tables of ours less theirs, and half a 95 % interval."""
    from experiments._experiment import mean_and_half_width

    found: dict[str, Any] = {}
    for figure in FIGURES:
        if all(theirs in table[figure] for table in tables):
            each = np.array([table[figure][ours] - table[figure][theirs] for table in tables])
            mean, half = mean_and_half_width(each)
            counts = {"lower on": int((each < 0).sum()), "higher on": int((each > 0).sum())}
            of_means = {"mean": round(mean, 4), "half": round(half, 4)}
            found[figure] = of_means | {"median": round(float(np.median(each)), 4)} | counts
    return found


# -- fits -------------------------------------------------------------------------------------------------


def known() -> set[str]:
    """Return the tables with a part in the selection of our models or of their constants."""
    from experiments.field._classes import MISSED
    from experiments.field._strong import SELECTED_ON

    return {*SELECTED_ON, *CHOSEN_ON, *MISSED}


def load(title: str, folder: Path) -> Any:
    """Return a table as a frame: text as categories, without rare classes, cut to a number of rows."""
    import pandas as pd

    from experiments._tables import LOADERS, Data, without_rare_classes
    from experiments.field._classes import SETS

    data = {**LOADERS, **SETS}[title](folder)
    X = pd.DataFrame(data.X)
    X.columns = [f"x{j}" for j in range(X.shape[1])]
    text = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    data = Data(X.assign(**{name: X[name].astype("category") for name in text}), data.y)
    data = without_rare_classes(data, FEWEST)
    most = MOST_ROWS.get(title, MOST)
    if len(data.y) > most:
        data = data.rows(train_test_split(np.arange(len(data.y)), train_size=most, stratify=data.y,
                                          random_state=0)[0])  # fmt: skip
    return data


def sides(data: Any, seed: int) -> tuple[Any, Any]:
    """Return the training and the test rows of a split."""
    rows = train_test_split(np.arange(len(data.y)), test_size=0.3, stratify=data.y, random_state=seed)
    return data.rows(rows[0]), data.rows(rows[1])


def copies(train: Any, test: Any) -> float:
    """Return the share of the test rows whose features equal those of a training row."""
    seen = {tuple(map(str, row)) for row in train.X.to_numpy(object)}
    return float(np.mean([tuple(map(str, row)) in seen for row in test.X.to_numpy(object)]))


def timed(model: Any, X: Any, y: Any, X_new: Any) -> tuple[Any, dict[str, float]]:
    """Fit a model and return its probabilities of new rows, with seconds."""
    began, seen = time.process_time(), time.perf_counter()
    model.fit(X, y)
    done, shown = time.process_time(), time.perf_counter()
    P = model.predict_proba(X_new)
    return P, {
        "seconds": done - began, "wall seconds": shown - seen,
        "seconds of predict_proba": time.process_time() - done,
    }  # fmt: skip


class AutoGluon:
    """A process with AutoGluon, in an environment of its own."""

    def __init__(self, python: str) -> None:
        worker = Path(__file__).with_name("_autogluon_worker.py")
        self.process = subprocess.Popen(
            [python, worker], stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.versions = self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("--python: AutoGluon's process ended; run _autogluon_worker.py to see why")
        return dict(json.loads(line))

    def fit(self, train: Any, test: Any, metric: str, limit: float) -> tuple[Any, dict[str, Any]]:
        """Return arrays with its probabilities, and seconds and models."""
        with tempfile.TemporaryDirectory() as folder:
            job = {name: f"{folder}/{name}.csv" for name in ("train", "test")} | {
                "out": f"{folder}/answers.npz", "metric": metric, "limit": limit,
                "text": [name for name in train.X if train.X[name].dtype == "category"],
            }  # fmt: skip
            train.X.assign(label=train.y).to_csv(job["train"], index=False)
            test.X.to_csv(job["test"], index=False)
            assert self.process.stdin is not None
            print(json.dumps(job), file=self.process.stdin, flush=True)
            figures = self.answer()
            with np.load(job["out"]) as arrays:
                return dict(arrays), figures


def split_of(data: Any, seed: int, autogluon: AutoGluon | None) -> dict[str, Any]:
    """Return the figures of all systems on one split."""
    from xgboost import XGBClassifier

    train, test = sides(data, seed)
    found: dict[str, Any] = {}
    for name, estimators in OURS.items():
        model = tb.RobustMixtureClassifier(estimators, random_state=seed, n_jobs=1)
        P, took = timed(model, train.X, train.y, test.X)
        found[name] = figures_of(test.y, P, model.predict(test.X)) | took
    P, took = timed(XGBClassifier(n_jobs=1, enable_categorical=True), train.X, train.y, test.X)
    found["XGBoost"] = figures_of(test.y, P) | took
    for name, (metric, whose, fewest) in THEIRS.items() if autogluon else ():
        limit = max(fewest, found[whose]["seconds"])
        arrays, took = autogluon.fit(train, test, metric, limit)
        answers = rule_on_scores(arrays["held_out"], arrays["y"], arrays["test"])
        found[name] = figures_of(test.y, arrays["test"], answers) | took | {"limit": limit}
        found[name]["held-out rows"] = len(arrays["y"])
    return found


def rounded(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}


def summary(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the differences over all tables and over parts of them."""
    parts: dict[str, Callable[[str], bool]] = {
        "all": lambda title: True,
        "at most 2,000 rows": lambda title: tables[title]["rows"] <= SMALL,
        "more rows": lambda title: tables[title]["rows"] > SMALL,
        "none of ours selected on": lambda title: not tables[title]["known"],
    }
    found: dict[str, Any] = {}
    for part, holds in parts.items():
        means_of = [table["mean"] for title, table in tables.items() if holds(title)]
        pairs = [pair for pair in PAIRS if all(pair[1] in table["log loss"] for table in means_of)]
        if len(means_of) > 2:
            found[part] = {"tables": len(means_of)} | {
                f"{ours} less {theirs}": difference(means_of, ours, theirs) for ours, theirs in pairs
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--python", help="of an environment with AutoGluon; without it ours and XGBoost run")
    parser.add_argument("--only", nargs="*", default=list(TITLES), choices=TITLES, metavar="TITLE")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ours-again", action="store_true", help="on the splits in the file")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    warnings.simplefilter("ignore")
    names = ("numpy", "scikit-learn", "tailboost")
    record: dict[str, Any] = {
        "command": "python benchmarks/beside_autogluon.py --data DIR --python PATH --out FILE",
        "versions": {name: version(name) for name in names}, "python": platform.python_version(),
        "differences": {}, "tables": {},
    }  # fmt: skip
    if args.out and args.out.exists():
        before = json.loads(args.out.read_text())
        record["tables"] = before["tables"]
        record["versions"] = before["versions"] | record["versions"]
    autogluon = AutoGluon(args.python) if args.python else None
    record["versions"] |= autogluon.versions if autogluon else {}
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    timed(tb.RobustMixtureClassifier("strong", n_jobs=1), X, y, X)  # loads the libraries
    for title in args.only:
        data = load(title, args.data)
        table = record["tables"].setdefault(title, {"splits": []}) | {
            "rows": len(data.y), "columns": data.X.shape[1], "classes": data.n_classes,
            "text columns": int((data.X.dtypes == "category").sum()), "known": title in known(),
            "copies": round(copies(*sides(data, 0)), 4),
        }  # fmt: skip
        before = table["splits"]
        for seed in range(0 if args.ours_again else len(before), args.splits):
            split = split_of(data, seed, None if args.ours_again else autogluon)
            new = {name: rounded(figures) for name, figures in split.items()}
            before[seed:] = [{**(before[seed] if seed < len(before) else {}), **new}, *before[seed + 1 :]]
            for name, figures in new.items():
                shown = (f"{k} {figures[k]:.4f}" for k in FIGURES if k in figures)
                print(f"{title:26} {seed} {name:13}", *shown, flush=True)
        table["mean"] = means(table["splits"])
        record["tables"][title] = table
        record["differences"] = summary(record["tables"])
        if args.out:
            args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
