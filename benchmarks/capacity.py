"""Error, log loss and seconds of the default models by rows and on wide tables, beside other learners.

    python benchmarks/capacity.py rows [--sizes N ...] [--only TITLE ...] [--out FILE]
    python benchmarks/capacity.py tables --data DIR [--only TITLE ...] [--out FILE]
    python benchmarks/capacity.py wide [--only TITLE ...] [--out FILE]

``rows``: made tables of 20 columns. ``tables``: one split of real tables of `experiments/_tables.py` in
DIR. The constants were chosen on the tables of CHOSEN_ON and on two made ones, "made, seed 0" and "faint".
``wide``: tables with many columns, beside logistic regression. "docstrings" are the first 25 words of
docstrings of installed packages, to be told apart; the other texts are made. ``--learners`` takes some of the
learners. FILE keeps the results of other runs. Seconds are processor seconds of one thread.

    default    `RobustMixtureClassifier` for the overall error
    fixed      the same with 100 boosted trees of depth 6 at a rate of .1 on every table
    stopped    the same with as many such trees as held-out rows need, also on up to 5,000 rows
    xgboost    XGBoost as it comes
    xgboost300 XGBoost with 300 trees at a rate of .1
    hist       `HistGradientBoostingClassifier`
    logistic   `LogisticRegression`
    logistic10 the same with C=10
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression

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
    "logistic": lambda: LogisticRegression(max_iter=1_000),
    "logistic10": lambda: LogisticRegression(C=10.0, max_iter=1_000),
}
LINEAR = ("default", "logistic", "logistic10")  # of ``wide``


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


def text(n: int, d: int, n_classes: int, length: int, seed: int) -> Rows:
    """Return made texts: word frequencies depend on the class and on one of 20 topics."""
    rng = np.random.default_rng(seed)
    base = -np.log(rng.permutation(d) + 10.0)
    own, other = (
        size * rng.normal(size=(k, d)) * (rng.random((k, d)) < 0.3)
        for k, size in ((n_classes, 0.5), (20, 0.8))
    )
    y, topic = rng.integers(0, n_classes, n), rng.integers(0, 20, n)
    lengths = rng.poisson(length * rng.gamma(2, 0.5, n)) + 2
    rows, columns = list[Any](), list[Any]()
    for cell in np.unique(y * 20 + topic):
        members = np.flatnonzero(y * 20 + topic == cell)
        share = np.exp(base + own[cell // 20] + other[cell % 20]).cumsum()
        words = np.searchsorted(share / share[-1], rng.random(lengths[members].sum()))
        rows.append(np.repeat(members, lengths[members]))
        columns.append(words.clip(max=d - 1))
    place = np.concatenate(rows), np.concatenate(columns)
    counts = sp.csr_matrix((np.ones(len(place[0]), dtype=np.float32), place), shape=(n, d))
    return parted(sp.csr_matrix(TfidfTransformer(sublinear_tf=True).fit_transform(counts)), y)


def sparse_numbers() -> Rows:
    """Return 12,000 rows of 1,000 columns, of which about 60 are filled with normal numbers; five classes."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(12_000), 60), rng.integers(0, 1_000, 720_000)
    X = sp.csr_matrix((rng.normal(size=720_000).astype(np.float32), place), shape=(12_000, 1_000))
    score = X @ (rng.normal(size=(1_000, 5)) * (rng.random((1_000, 1)) < 0.3))
    return parted(X, (2.5 * score / score.std() + rng.gumbel(size=score.shape)).argmax(axis=1))


def first_words(code: str) -> set[str]:
    """Return the first 25 words of each docstring in a module."""
    nodes = [n for n in ast.walk(ast.parse(code)) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    return {" ".join((ast.get_docstring(node) or "").split()[:25]) for node in nodes}


def docstrings() -> Rows:
    """Return the TF-IDF of docstrings of installed packages, at most 1,200 of a package."""
    texts, y = list[str](), list[int]()
    for k, package in enumerate(PACKAGES):
        spec = importlib.util.find_spec(package)
        found = set[str]()
        for file in Path(spec.submodule_search_locations[0]).rglob("*.py") if spec else ():
            with suppress(SyntaxError):  # some packages have files for other versions of Python
                found |= first_words(file.read_text(encoding="utf-8"))
        long = sorted(words for words in found if words.count(" ") >= 12)
        kept = np.random.default_rng(0).permutation(len(long))[:1_200]
        texts += [long[i] for i in kept]
        y += [k] * len(kept)
    order = np.random.default_rng(1).permutation(len(y))
    X = TfidfVectorizer(min_df=2, sublinear_tf=True, dtype=np.float32).fit_transform(
        [texts[i] for i in order]
    )
    return parted(X, np.unique(np.array(y)[order], return_inverse=True)[1])


def parted(X: Any, y: Any) -> Rows:
    """Return two thirds of the rows, and the others for the test."""
    m = 2 * len(y) // 3
    return X[:m], y[:m], X[m:], y[m:]


PACKAGES = (
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "matplotlib",
    "torch",
    "dask",
    "onnx",
    "networkx",
    "sphinx",
)
WIDE: dict[str, Callable[[], Rows]] = {
    "numbers, 1,000 sparse columns": sparse_numbers,
    "docstrings": docstrings,
    "text, 1,000 columns": lambda: text(12_000, 1_000, 5, 70, 0),
    "text, 20,000 columns": lambda: text(12_000, 20_000, 5, 80, 1),
    "text, 30,000 columns, 20 classes": lambda: text(15_000, 30_000, 20, 100, 2),
    "text, 100,000 columns": lambda: text(12_000, 100_000, 2, 100, 3),
}


def wide(only: list[str]) -> Iterator[tuple[str, Rows]]:
    """Yield the wide tables."""
    for title, make in WIDE.items():
        if not only or title in only:
            yield title, make()


# -- measurement ------------------------------------------------------------------------------------------


def measured(make: Callable[[], Any], rows: Rows) -> dict[str, Any]:
    """Return the figures of one learner on one split."""
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
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["rows", "tables", "wide"])
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
        "wide": lambda: wide(args.only),
    }[args.part]()
    for title, rows in tables:
        trees = [name for name in LEARNERS if name != "stopped" and not name.startswith("logistic")]
        names = args.learners or (LINEAR if args.part == "wide" else trees)
        of = record.setdefault(args.part, {}).setdefault(title, {})
        of["shape"] = list(rows[0].shape)
        for name in names:
            of[name] = {k: round(v, 4) for k, v in measured(LEARNERS[name], rows).items()}
            print(f"{title:28} {name:10}", *(f"{k} {v:.4f}" for k, v in of[name].items()), flush=True)
        if args.out:
            args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
