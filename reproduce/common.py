"""What the experiments share: data, splits, a resumable record of finished cells, tables."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse, stats
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split

import tailboost as tb
from tailboost.io import TableEncoder

HERE = Path(__file__).resolve().parent
PACKAGES = ("tailboost", "numpy", "scipy", "scikit-learn", "highspy", "xgboost-cpu", "xgboost")


# -- data ------------------------------------------------------------------------------------------------


@dataclass
class Data:
    """A data set: a data frame or sparse matrix, class numbers, and group columns by name."""

    X: Any
    y: np.ndarray
    groups: dict[str, np.ndarray]

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y))


def _csv(folder: Path, name: str, target: str, drop: Sequence[str] = ()) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(folder / f"{name}.csv.gz", na_values="?")
    return table.drop(columns=[target, *drop]), table[target]


def _credit(folder: Path) -> Data:
    bunch = tb.datasets.load_credit_default()
    return Data(bunch.data, bunch.target.to_numpy(), _groups(bunch.groups))


def _compas(folder: Path) -> Data:
    bunch = tb.datasets.load_compas(folder / "compas-scores-two-years.csv.gz")
    return Data(bunch.data, bunch.target.to_numpy(), _groups(bunch.groups))


def _adult(folder: Path) -> Data:
    X, y = _csv(folder, "adult", "income", ["split"])
    return Data(X, (y == ">50K").to_numpy().astype(int), _groups(X[["sex", "race"]]))


def _bank(folder: Path) -> Data:
    X, y = _csv(folder, "bank_full", "y")
    bands = pd.cut(X["age"], [0, 29, 39, 49, 59, 200], labels=["<30", "30-39", "40-49", "50-59", "60+"])
    return Data(X, (y == "yes").to_numpy().astype(int), {"age band": bands.astype(str).to_numpy()})


def _w8a(folder: Path) -> Data:
    X, y = load_svmlight_file(str(folder / "w8a.libsvm.gz"), n_features=300)
    return Data(X.toarray(), (y > 0).astype(int), {})  # absent means 0 here, not missing


def _wine(binary: bool) -> Callable[[Path], Data]:
    def load(folder: Path) -> Data:
        X, y = _csv(folder, "winequality_white", "quality")
        return _plain(X, y <= 5 if binary else y)

    return load


def _table(name: str, target: str, drop: Sequence[str] = ()) -> Callable[[Path], Data]:
    return lambda folder: _plain(*_csv(folder, name, target, drop))


def _plain(X: pd.DataFrame, y: pd.Series) -> Data:
    return Data(X, np.unique(y.to_numpy(), return_inverse=True)[1], {})


def _groups(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    return {name: frame[name].astype(str).to_numpy() for name in frame}


LOADERS: dict[str, Callable[[Path], Data]] = {
    "credit default": _credit,
    "adult": _adult,
    "bank": _bank,
    "COMPAS": _compas,
    "higgs": _table("higgs_11k", "label"),
    "spambase": _table("spambase", "spam"),
    "wine, binary": _wine(binary=True),
    "wine, 7 classes": _wine(binary=False),
    "yeast": _table("yeast", "class", ["name"]),
    "letter": _table("letter", "lettr"),
    "page blocks": _table("page_blocks", "class"),
    "w8a": _w8a,
}


# Small sets with rare classes, for the worst class alone.
RARE_CLASSES: dict[str, Callable[[Path], Data]] = {
    "wine, white": LOADERS["wine, 7 classes"],
    "wine, red": _table("winequality_red", "quality"),
    "ecoli": _table("ecoli", "class", ["name"]),
    "glass": _table("glass", "type", ["id"]),
    "image segmentation": _table("image_segmentation", "class"),
}


@dataclass
class Split:
    """Training and test rows of a data set, text columns encoded by what the training rows show."""

    X_train: Any
    y_train: np.ndarray
    groups_train: dict[str, np.ndarray]
    X_test: Any
    y_test: np.ndarray
    groups_test: dict[str, np.ndarray]


def split(data: Data, seed: int, test_size: float, max_train: int | None, max_test: int | None) -> Split:
    """Stratified random split; the training and test rows are cut to at most the given numbers."""
    n = len(data.y)
    n_test = round(test_size * n)
    n_train = min(n - n_test, max_train or n)
    train, test = train_test_split(
        np.arange(n),
        train_size=n_train,
        test_size=min(n_test, max_test or n),
        stratify=data.y,
        random_state=seed,
    )
    if hasattr(data.X, "iloc"):
        encoder = TableEncoder().fit(data.X.iloc[train])
        X_train, X_test = encoder.transform(data.X.iloc[train]), encoder.transform(data.X.iloc[test])
        if sparse.issparse(X_train):
            X_train, X_test = X_train.toarray(), X_test.toarray()
    else:
        X_train, X_test = data.X[train], data.X[test]
    return Split(
        X_train,
        data.y[train],
        {name: values[train] for name, values in data.groups.items()},
        X_test,
        data.y[test],
        {name: values[test] for name, values in data.groups.items()},
    )


# -- running ---------------------------------------------------------------------------------------------


def parser(description: str, name: str, repeats: int) -> argparse.ArgumentParser:
    """Return the arguments that every experiment has."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data", metavar="DIR")
    p.add_argument("--repeats", type=int, default=repeats, help="random splits or seeds")
    p.add_argument("--out", type=Path, default=HERE / "results" / f"{name}.json", metavar="FILE")
    p.add_argument("--jobs", type=int, default=1, help="threads of a learner")
    p.add_argument("--recorded", action="store_true", help="no computing: tables of the cells there are")
    return p


class Record:
    """Finished cells, one JSON line each, so that an interrupted run goes on where it stopped."""

    def __init__(self, path: Path, only_recorded: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.only_recorded = path, only_recorded
        self.cells: list[dict[str, Any]] = []
        if path.exists():
            self.cells = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def run(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the cell of this key, computed now or earlier; none if it is not there and shall not be."""
        for cell in self.cells:
            if all(cell.get(k) == v for k, v in key.items()):
                return [cell]
        if self.only_recorded:
            return []
        began = time.perf_counter()
        cell = key | compute()
        self.cells.append(cell)
        with self.path.open("a") as file:
            file.write(json.dumps(cell) + "\n")
        print(*key.values(), f"{time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        return [cell]


def about() -> dict[str, Any]:
    """Where, when and with what an experiment was run."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "command": " ".join([Path(sys.executable).name, *_relative(sys.argv)]),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": versions,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
    }


def _relative(arguments: Iterable[str]) -> list[str]:
    root = str(HERE.parent)
    return [os.path.relpath(a, root) if a.startswith(root) else a for a in arguments]


def write(path: Path, document: dict[str, Any]) -> None:
    """Write an experiment's results."""
    path.write_text(json.dumps(about() | document, indent=1) + "\n")
    print(f"\nresults: {path}", file=sys.stderr)


# -- figures ---------------------------------------------------------------------------------------------


def rounded(x: Any, digits: int = 5) -> Any:
    """Return nested lists of rounded floats."""
    return np.round(np.asarray(x, dtype=float), digits).tolist()


def mean_and_half_width(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Mean and half the Student-t interval over repeats; 0 width for a single repeat."""
    x = np.asarray(values, dtype=float)
    if len(x) < 2:
        return float(x.mean()), 0.0
    half = stats.t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean()), float(half)


def interval(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± half width of the 95 % interval, as text."""
    mean, half = mean_and_half_width(values)
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
