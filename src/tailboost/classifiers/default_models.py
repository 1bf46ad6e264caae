"""The default models of `RobustMixtureClassifier`, by the size of the table."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tailboost.classifiers.fitting import FIVE_FOLDS_UP_TO
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.table import TableNumbers
from tailboost.rows.fingerprints import hash_rows, hashes_of_pairs
from tailboost.rows.rows import Rows

# On tables with more columns trees take a thousand times as long as logistic regression.
MOST_COLUMNS = 300


def default_estimators(n_rows: int = 1_000, n_columns: int = 20) -> list[tuple[str, Any]]:
    """Return the estimators of ``estimators=None``: boosted trees, a forest and logistic regression.

    Parameters
    ----------
    n_rows : int
        Number of distinct rows. From 5,000 on, held-out rows give the number of boosted trees.
    n_columns : int
        Number of columns. Tables of more than 300 get logistic regression alone.
    """
    linear = (
        "linear",
        make_pipeline(TableNumbers(linear=True), LogisticRegression(max_iter=1_000)),
    )
    if n_columns > MOST_COLUMNS:
        return [linear]
    boosted = HistBoostClassifier(n_estimators=50, max_depth=6, learning_rate=0.2)
    if n_rows > FIVE_FOLDS_UP_TO:
        boosted.set_params(n_estimators="auto", learning_rate=0.1)
    return [("boosted", boosted), ("forest", TableForest()), linear]


def estimators_of(training: Rows) -> list[tuple[str, Any]]:
    """Return the default estimators for training rows; pixels and channels of images are columns."""
    labelled = hashes_of_pairs(hash_rows(training.X), training.y.astype(np.uint64))
    return default_estimators(len(np.unique(labelled)), prod(training.X.shape[1:]))
