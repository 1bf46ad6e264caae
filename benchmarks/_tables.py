"""Tables of the benchmarks: of scikit-learn, bundled with tailboost, and files of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import tailboost as tb

# Targets of the files NAME.csv.gz, and for some a column of groups, which no model reads.
TARGETS = {
    "adult": ("income", "sex"), "bank_full": ("y", "marital"), "breast_cancer_wisconsin": ("class", None),
    "ecoli": ("class", None), "german_credit": ("class", "personal_status_sex"), "glass": ("type", None),
    "higgs_11k": ("label", None), "image_segmentation": ("class", None), "letter": ("lettr", None),
    "mushroom": ("label", None), "page_blocks": ("class", None), "spambase": ("spam", None),
    "splice_uci": ("class", None), "taiwan_credit": ("default", "EDUCATION"), "yeast": ("class", None),
}  # fmt: skip
NO_FEATURES = ["split", "id", "name"]
BUNDLED = ("breast cancer", "credit", "digits", "wine", "wine quality")


class Table(NamedTuple):
    """Numbers of rows and columns, class numbers, and names of groups if there are any."""

    X: Any
    y: Any
    groups: Any = None


def load(name: str, folder: Path | None = None) -> Table:
    """Return a table; words of a file are numbered."""
    if name in ("breast cancer", "digits", "wine"):
        X, y = {"breast cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}[name](
            return_X_y=True
        )
        return Table(X.astype(np.float32), y)
    if name == "credit":
        credit = tb.datasets.load_credit_default()
        features = credit.data.drop(columns=["SEX", "AGE"])
        groups = credit.groups["age_band"].astype(str)
        return Table(features.to_numpy(np.float32), credit.target.to_numpy(), groups.to_numpy())
    if name == "wine quality":
        wine = tb.datasets.load_wine_quality()
        groups = wine.groups["colour"].astype(str)
        return Table(wine.data.to_numpy(np.float32), wine.target.to_numpy(), groups.to_numpy())
    if folder is None:
        raise FileNotFoundError(f"{name} is a file of the folder --data DIR")
    if name == "mnist":
        with np.load(folder / "mnist.npz") as arrays:
            images = max((a for a in arrays.values() if a.ndim == 3), key=len)
            labels = max((a for a in arrays.values() if a.ndim == 1), key=len)
        quarters = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
        return Table(quarters.reshape(len(images), -1).astype(np.float32), labels.astype(int))
    target, group = TARGETS[name]
    frame = pd.read_csv(folder / f"{name}.csv.gz").drop(columns=NO_FEATURES, errors="ignore")
    y = pd.factorize(frame.pop(target), sort=True)[0]
    groups = None if group is None else frame.pop(group).astype(str).to_numpy()
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = pd.factorize(frame[column], sort=True)[0]
    return Table(frame.to_numpy(np.float32), y, groups)
