"""Real tables the experiments share: one loader for each, and random splits of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from tailboost.app.datasets import load_credit_default, load_table
from tailboost.app.table_encoder import TableEncoder

Ints = NDArray[np.intp]

# Minimum rows of a class: a stratified test set of 30 % has more than two of them.
FEWEST = 8


@dataclass(frozen=True)
class Data:
    """Rows: a data frame or an array, class numbers, and columns of groups by name."""

    X: Any
    y: Ints
    groups: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        """Classes with rows."""
        return len(np.unique(self.y))

    def rows(self, index: NDArray[Any]) -> Data:
        """Return some of the rows."""
        X = self.X.iloc[index] if hasattr(self.X, "iloc") else self.X[index]
        return Data(X, self.y[index], {name: values[index] for name, values in self.groups.items()})


@dataclass(frozen=True)
class Split:
    """Training rows, test rows and, if any, selection rows."""

    train: Data
    test: Data
    validate: Data | None = None


def split(data: Data, seed: int, test_size: float, max_train: int, max_test: int | None = None) -> Split:
    """Draw a stratified random split, each side cut to at most a given number of rows.

    Text columns are encoded by the training rows.
    """
    n = len(data.y)
    n_test = round(test_size * n)
    train, test = train_test_split(
        np.arange(n),
        train_size=min(n - n_test, max_train),
        test_size=min(n_test, max_test or n),
        stratify=data.y,
        random_state=seed,
    )
    parts = [data.rows(train), data.rows(test)]
    if hasattr(data.X, "iloc"):
        encoder = TableEncoder().fit(parts[0].X)
        parts = [Data(_dense(encoder.transform(part.X)), part.y, part.groups) for part in parts]
    return Split(*parts)


def _dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


# -- files -----------------------------------------------------------------------------------------------


def file_of(folder: Path, name: str) -> Path:
    """Return ``NAME.csv`` of a folder, or ``NAME.csv.gz``.

    Raises
    ------
    FileNotFoundError
        If there is neither.
    """
    for file in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if file.is_file():
            return file
    raise FileNotFoundError(f"--data: {str(folder)!r} has no {name}.csv or {name}.csv.gz")


def frame(folder: Path, name: str) -> Any:
    """Read a CSV file of the folder; a question mark is a missing value."""
    import pandas as pd

    return pd.read_csv(file_of(folder, name), na_values="?")


def libsvm(folder: Path, name: str, n_features: int) -> Data:
    """Read ``NAME.libsvm.gz``; absent entries mean 0, not missing."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(folder / f"{name}.libsvm.gz"), n_features=n_features)
    return Data(X.toarray(), (y > 0).astype(np.intp))


def _of_bunch(bunch: Any, positive: Any, columns: Iterable[str]) -> Data:
    groups = {name: bunch.groups[name].astype(str).to_numpy() for name in columns}
    return Data(bunch.data, np.asarray(bunch.target == positive, dtype=np.intp), groups)


def adult(folder: Path) -> Data:
    """Load Adult, with the columns sex and race as groups."""
    columns = ("sex", "race")
    bunch = load_table(file_of(folder, "adult"), "income", group=columns, drop="split")
    return _of_bunch(bunch, ">50K", columns)


def compas(folder: Path) -> Data:
    """Load COMPAS as in Boosted CVaR Classification, with its columns of groups.

    The file is ProPublica's compas-scores-two-years.csv with all of its rows; the target is ``is_recid``, as
    in the paper, not the more usual ``two_year_recid``.
    """
    import pandas as pd

    table = frame(folder, "compas-scores-two-years")
    counts = ["juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    flags = {"c_charge_degree": "M", "sex": "Male"}
    X = (
        table[counts]
        .astype(np.float64)
        .assign(
            **{"age/10": table["age"] / 10.0},
            **{name: (table[name] == one).astype(np.float64) for name, one in flags.items()},
            race=(table["race"] != "Caucasian").astype(np.float64),
        )
    )
    groups = {name: table[name].astype(str).to_numpy() for name in ("race", "sex", "age_cat")}
    return Data(pd.DataFrame(X), table["is_recid"].to_numpy(dtype=np.intp), groups)


def credit_default(folder: Path | None = None) -> Data:
    """Load the credit default clients, which come with the package."""
    bunch = load_credit_default()
    return _of_bunch(bunch, 1, bunch.groups)


def bank(folder: Path) -> Data:
    """Load bank marketing, with age bands as groups."""
    import pandas as pd

    data = table("bank_full", "y")(folder)
    bands = pd.cut(data.X["age"], [0, 29, 39, 49, 59, 200], labels=["<30", "30-39", "40-49", "50-59", "60+"])
    return Data(data.X, data.y, {"age band": bands.astype(str).to_numpy()})


def w8a(folder: Path) -> Data:
    """Load w8a, dense."""
    return libsvm(folder, "w8a", 300)


def table(
    name: str, target: str, drop: Iterable[str] = (), label: Callable[[Any], Any] = lambda column: column
) -> Callable[[Path], Data]:
    """Make the loader of a CSV file; classes are numbered in the order of the labels of the target column."""

    def load(folder: Path) -> Data:
        read = frame(folder, name)
        y = np.unique(label(read[target]).to_numpy(), return_inverse=True)[1]
        return Data(read.drop(columns=[target, *drop]), y.astype(np.intp))

    return load


LOADERS: dict[str, Callable[[Path], Data]] = {
    "credit default": credit_default,
    "adult": adult,
    "bank": bank,
    "COMPAS": compas,
    "higgs": table("higgs_11k", "label"),
    "spambase": table("spambase", "spam"),
    "wine, binary": table("winequality_white", "quality", label=lambda quality: quality <= 5),
    "wine, 7 classes": table("winequality_white", "quality"),
    "yeast": table("yeast", "class", ["name"]),
    "letter": table("letter", "lettr"),
    "page blocks": table("page_blocks", "class"),
    "w8a": w8a,
    "wine, white": table("winequality_white", "quality"),
    "wine, red": table("winequality_red", "quality"),
    "ecoli": table("ecoli", "class", ["name"]),
    "glass": table("glass", "type", ["id"]),
    "image segmentation": table("image_segmentation", "class"),
    "german credit": table("german_credit", "class"),
    # These three come with scikit-learn.
    "wine (178 rows)": lambda folder: Data(*load_wine(return_X_y=True)),
    "breast cancer": lambda folder: Data(*load_breast_cancer(return_X_y=True)),
    "digits": lambda folder: Data(*load_digits(return_X_y=True)),
}


def load_all(folder: Path, titles: Iterable[str]) -> dict[str, Data]:
    """Load tables by title: all before any work, so a missing file is reported first."""
    return {title: LOADERS[title](folder) for title in titles}


def without_rare_classes(data: Data, fewest: int = FEWEST) -> Data:
    """Leave out classes of fewer than ``fewest`` rows."""
    kept = data.rows(np.flatnonzero((np.bincount(data.y) >= fewest)[data.y]))
    return Data(kept.X, np.unique(kept.y, return_inverse=True)[1].astype(np.intp))


def load_common_classes(folder: Path, titles: Iterable[str]) -> dict[str, Data]:
    """Load tables by title, without rare classes."""
    return {title: without_rare_classes(data) for title, data in load_all(folder, titles).items()}
