"""Error, log loss and seconds of the default models on wide tables, beside logistic regression.

    python benchmarks/sparse_tables.py [--only TITLE ...] [--learners NAME ...] [--rows N] [--out FILE]

FILE keeps the results of other runs. Seconds are processor seconds of one thread. ``--rows`` limits the
training rows. The default models come from trials with these generators and other seeds, and with these
docstrings. The generators of HELD_OUT had no part in them. Differences of errors are paired by test row.

    default    `RobustMixtureClassifier` for the overall error
    plain      `RobustMixtureClassifier` of the models for ordinary tables: boosted trees, forest and logistic
               regression
    linear     `RobustMixtureClassifier` of the models for TF-IDF
    four       the same with the boosted trees of one-hot tables
    logistic   `LogisticRegression`
    logistic10 the same with ``C=10``

Generators: "numbers" have 60 filled normal numbers a row, in columns of Zipf frequencies; the scores of the
five classes are linear in three tenths of the columns, plus half as large products of pairs of the 40 most
frequent columns. "topics": words by Zipf, 6 % of them from the ranking of the class and 3 % from that of
another topic. "docstrings": the first 25 words of docstrings of installed packages, whose label is the
package. "one-hot": 30 columns of 20 categories, whose scores are sums of effects and three products of them;
or no products ("linear"); or also twelve rules on two columns ("rules"). "factors": 20 factors behind all
columns, a sum of 50 columns and a product of two factors. "few": four of the columns, by thresholds.
"spectra": smooth curves, whose peaks differ in height and place. "genes": blocks of correlated lognormal
columns, some of which differ.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import platform
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from capacity import Rows, measured, mixture
from sklearn.datasets import make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.classifiers.default_models import ONE_HOT, TableKind, default_estimators
from tailboost.learners.one_hot import OneHotBoost

LEARNERS: dict[str, Callable[[], Any]] = {
    "default": lambda: tb.RobustMixtureClassifier(objective="error", random_state=0, n_jobs=1),
    "plain": lambda: mixture(100),
    "linear": lambda: tb.RobustMixtureClassifier(TEXT, objective="error", random_state=0, n_jobs=1),
    "four": lambda: tb.RobustMixtureClassifier(
        [("boosted", OneHotBoost(**ONE_HOT)), *TEXT], objective="error", random_state=0, n_jobs=1
    ),
    "logistic": lambda: LogisticRegression(max_iter=1_000),
    "logistic10": lambda: LogisticRegression(C=10.0, max_iter=1_000),
}
TEXT = default_estimators(TableKind(10_000, 10_000, True, (5,) * 10_000))
PACKAGES = (
    "numpy", "scipy", "sklearn", "pandas", "matplotlib", "torch", "dask", "networkx", "sphinx",
)  # fmt: skip


# -- tables -----------------------------------------------------------------------------------------------


def parted(X: Any, y: Any, n: int) -> Rows:
    """Return the first n rows, and the others for the test."""
    return X[:n], y[:n], X[n:], y[n:]


def numbers(d: int, seed: int = 10, n: int = 8_000, n_test: int = 8_000) -> Rows:
    """Return rows of 60 normal numbers in d columns; five classes."""
    rng, total = np.random.default_rng(seed), n + n_test
    share = 1 / (np.arange(d) + 20.0)
    columns = np.searchsorted((share / share.sum()).cumsum(), rng.random(total * 60)).clip(max=d - 1)
    place = np.repeat(np.arange(total), 60), columns
    X = sp.csr_matrix((rng.normal(size=total * 60).astype(np.float32), place), shape=(total, d))
    linear = X @ (rng.normal(size=(d, 5)) * (rng.random((d, 1)) < 0.3))
    common, pairs = X[:, :40].toarray(), rng.integers(0, 40, (60, 2))
    products = (common[:, pairs[:, 0]] * common[:, pairs[:, 1]]) @ rng.normal(size=(60, 5))
    score = 2.5 * (linear / linear.std() + 0.5 * products / products.std())
    return parted(X, (score + rng.gumbel(size=score.shape)).argmax(axis=1), n)


def topics(seed: int = 10, n: int = 8_000, n_test: int = 4_000, d: int = 30_000) -> Rows:
    """Return TF-IDF of made documents on 20 topics."""
    rng, total = np.random.default_rng(seed), n + n_test
    share = 1 / (np.arange(d) + 2.7)
    share = (share / share.sum()).cumsum()
    own = [rng.permutation(d) for _ in range(20)]
    y, other, documents = rng.integers(0, 20, total), rng.integers(0, 20, total), list[str]()
    for k, j, length in zip(y, other, rng.poisson(120 * rng.gamma(1.0, 1.0, total)) + 5, strict=True):
        words, u = np.searchsorted(share, rng.random(length)).clip(max=d - 1), rng.random(length)
        words = np.select([u < 0.06, u < 0.09], [own[k][words], own[j][words]], words)
        documents.append(" ".join(f"w{i}" for i in words))
    reader = TfidfVectorizer(dtype=np.float32)
    return reader.fit_transform(documents[:n]), y[:n], reader.transform(documents[n:]), y[n:]


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
    return parted(X, np.unique(np.array(y)[order], return_inverse=True)[1], 2 * len(y) // 3)


def one_hot(kind: str, seed: int = 10, n: int = 8_000, n_test: int = 8_000) -> Rows:
    """Return 30 one-hot encoded columns of 20 categories."""
    rng, total = np.random.default_rng(seed), n + n_test
    codes = np.minimum(rng.geometric(0.15, (total, 30)) - 1, 19)
    effects = rng.normal(size=(30, 20))[np.arange(30), codes]
    score = 0.4 * effects[:, :8] @ rng.normal(size=8)
    if kind == "products":
        score += 1.2 * (effects[:, [0, 2, 8]] * effects[:, [1, 3, 9]]).sum(axis=1)
    if kind == "rules":
        for _ in range(12):
            (a, b), sets = rng.choice(30, 2, replace=False), rng.random((2, 20)) < 0.5
            score += rng.choice([-1.0, 1.0]) * (sets[0][codes[:, a]] & sets[1][codes[:, b]])
    place = np.repeat(np.arange(total), 30), (codes + 20 * np.arange(30)).ravel()
    X = sp.csr_matrix((np.ones(total * 30, dtype=np.float32), place), shape=(total, 600))
    score -= np.median(score)
    return parted(X, (1.5 * score + rng.logistic(size=total) > 0).astype(np.intp), n)


def factors(d: int, seed: int = 10, n: int = 500, n_test: int = 4_000) -> Rows:
    """Return columns with 20 common factors."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n + n_test, 20))
    X = 0.5 * Z @ rng.normal(size=(20, d)) + 2 * rng.normal(size=(n + n_test, d))
    some = X[:, :50] @ rng.normal(size=50)
    score = 1.5 * (some / some.std() + 0.7 * Z[:, 0] * Z[:, 1] + 0.7 * Z[:, 2])
    return parted(X.astype(np.float32), (score + rng.logistic(size=len(X)) > 0).astype(np.intp), n)


def few(d: int, seed: int = 10, n: int = 500, n_test: int = 4_000) -> Rows:
    """Return normal columns of which four matter, by thresholds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n_test, d)).astype(np.float32)
    both = (X[:, 0] > 0) & (X[:, 1] > 0)
    score = 1.5 * both + 1.5 * (X[:, 2] > 0.5) - 1.5 * (X[:, 3] > 0) + 0.5 * rng.logistic(size=len(X))
    return parted(X, (score > 0.3).astype(np.intp), n)


def spectra(d: int, seed: int = 10, n: int = 400, n_test: int = 4_000) -> Rows:
    """Return smooth curves of three classes."""
    rng, total = np.random.default_rng(seed), n + n_test
    y, place = rng.integers(0, 3, total), np.linspace(0, 1, d)
    X = 0.3 * rng.normal(size=(total, d)).cumsum(axis=1) / np.sqrt(d) + 0.1 * rng.normal(size=(total, d))
    for centre, height, shift in zip(
        rng.random(12), rng.normal(size=(12, 3)), rng.normal(size=(12, 3)), strict=True
    ):
        middle = centre + 0.01 * shift[y] + 0.01 * rng.normal(size=total)
        size = 1 + 0.2 * height[y] + 0.6 * rng.normal(size=total)
        X += size[:, None] * np.exp(-(((place - middle[:, None]) / 0.02) ** 2))
    return parted(X.astype(np.float32), y, n)


def genes(d: int, seed: int = 10, n: int = 300, n_test: int = 4_000) -> Rows:
    """Return correlated lognormal columns in blocks of 20."""
    rng, total = np.random.default_rng(seed), n + n_test
    y = rng.integers(0, 2, total)
    blocks = rng.normal(size=(total, d // 20)) + 0.9 * y[:, None] * rng.normal(size=d // 20) * (
        rng.random(d // 20) < 0.3
    )
    each = 0.7 * np.repeat(blocks, 20, axis=1) + rng.normal(size=(total, d))
    return parted(np.exp(each * rng.uniform(0.3, 1.5, d)).astype(np.float32), y, n)


def many_classes(seed: int = 10, n: int = 5_000, n_test: int = 10_000) -> Rows:
    """Return 20 columns and 100 classes."""
    X, y = make_classification(
        n + n_test, 20, n_informative=12, n_redundant=4, n_classes=100, n_clusters_per_class=1, class_sep=2.0,
        random_state=seed,
    )  # fmt: skip
    return parted(X.astype(np.float32), y, n)


TABLES: dict[str, tuple[Callable[[], Rows], tuple[str, ...]]] = {
    "numbers, 1,000 sparse columns": (lambda: numbers(1_000), ()),
    "numbers, 20,000 sparse columns": (lambda: numbers(20_000), ()),
    "numbers, 100,000 sparse columns": (lambda: numbers(100_000), ()),
    "TF-IDF of 20 topics": (topics, ()),
    "TF-IDF of docstrings": (docstrings, ("logistic10",)),
    "one-hot, products": (lambda: one_hot("products"), ("linear", "four")),
    "one-hot, rules": (lambda: one_hot("rules"), ("linear", "four")),
    "one-hot, linear": (lambda: one_hot("linear"), ("linear", "four")),
    "factors, 5,000 dense columns": (lambda: factors(5_000), ()),
    "few of 1,000 dense columns": (lambda: few(1_000), ()),
    "spectra, 600 dense columns": (lambda: spectra(600), ("plain",)),
    "genes, 800 dense columns": (lambda: genes(800), ("plain",)),
    "100 classes, 20 dense columns": (many_classes, ()),
}
HELD_OUT = ("genes, 800 dense columns",)


# -- measurement ------------------------------------------------------------------------------------------


def difference(ours: Any, theirs: Any) -> list[float]:
    """Return the difference of two errors on the same rows, and half its 95 % interval."""
    each = ours.astype(np.float64) - theirs
    return [round(float(each.mean()), 4), round(float(1.96 * each.std() / np.sqrt(len(each))), 4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(TABLES), choices=list(TABLES), metavar="TITLE")
    parser.add_argument("--learners", nargs="*", default=[], choices=list(LEARNERS))
    parser.add_argument("--rows", type=int, help="most training rows")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record: dict[str, Any] = {
        "command": "python benchmarks/sparse_tables.py --out sparse_tables.json",
        "versions": {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "tailboost")},
        "python": platform.python_version(),
        "tables": {},
    }
    if args.out and args.out.exists():
        record["tables"] = json.loads(args.out.read_text())["tables"]
    for title in args.only:
        make, more = TABLES[title]
        X, y, *test = make()
        rows = X[: args.rows], y[: args.rows], *test
        of = record["tables"].setdefault(title, {})
        of |= {"shape": list(rows[0].shape), "classes": len(np.unique(y)), "held out": title in HELD_OUT}
        wrong: dict[str, Any] = {}
        for name in args.learners or ("logistic", "default", *more):
            figures, wrong[name] = measured(LEARNERS[name], rows)
            of[name] = {k: round(v, 4) for k, v in figures.items()}
            print(f"{title:32} {name:10}", *(f"{k} {v:.4f}" for k, v in of[name].items()), flush=True)
        if "default" in wrong:
            for name in wrong.keys() - {"default"}:
                of[name]["default minus this"] = difference(wrong["default"], wrong[name])
        if args.out:
            args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
