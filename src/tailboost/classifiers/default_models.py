"""The default models of `RobustMixtureClassifier`, by the kind of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from tailboost.classifiers.fitting import FIVE_FOLDS_UP_TO
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import TableBayes, TableLinear
from tailboost.learners.one_hot import OneHotBoost, first_columns
from tailboost.learners.screened import ScreenedBoost
from tailboost.rows.rows import CROSS_FIT_UP_TO, TrainingSet

Named = list[tuple[str, Any]]
# Boosted trees by the largest number of distinct rows, see `benchmarks/capacity.py`. On fewer than 5,000 rows
# stopping early brought no gain. There 50 trees at a rate of .2 instead of 100 at .1 changed the log loss of
# the average by −.0002 ± .0002 on 28 tables, in half the time (`benchmarks/averages.py`).
BOOSTED: tuple[tuple[float, dict[str, Any]], ...] = (
    (FIVE_FOLDS_UP_TO, {"n_estimators": 50, "max_depth": 6, "learning_rate": 0.2}),
    (CROSS_FIT_UP_TO, {"n_estimators": "auto", "max_depth": 6, "learning_rate": 0.1}),
    (
        inf,
        {"n_estimators": "auto", "max_depth": 8, "learning_rate": 0.1, "min_child_weight": 5.0},
    ),
)
# The rate where trees grow by the held-out rows of several folds, with more than two classes. A fold has
# fewer trees there, see `learners/hist.py`.
RATE_OF_CLASSES = 0.15
# Landmarks of the kernel machine on tables of at most FIVE_FOLDS_UP_TO distinct rows. With it the log loss of
# the average was lower by .0019 ± .0015 on 28 tables without a part in its selection, and a fit took .19 more
# of the time (`benchmarks/averages.py`).
LANDMARKS = 200
STRONG_LANDMARKS = 500
# On tables with more columns boosted trees and forests take a thousand times as long as logistic regression,
# see `benchmarks/sparse_tables.py`.
FEW_COLUMNS = 300
# On dense tables with more columns and at most this many distinct rows trees are shallow, with few bins.
# With more than FIVE_FOLDS_UP_TO rows there is no forest: on four such tables it lowered the log loss of the
# held-out rows by at most .0007.
WIDE_UP_TO = 10_000
SHALLOW: dict[str, Any] = {
    "n_estimators": "auto",
    "max_depth": 3,
    "learning_rate": 0.2,
    "max_bins": 32,
}
FEW_SPARSE_COLUMNS = 100
# Wide sparse tables get boosted trees if most columns have one number, as one-hot columns have, and all
# columns together have at most this many bins, at most COLUMN_BINS a column. The time of the trees grows
# with the bins. On counts of words the trees brought no gain.
MOST_BINS = 10_000
COLUMN_BINS = 256
# One-hot tables of at least so many distinct rows get trees on categories, if the columns of categories are
# filled at least to this part. The penalties keep rare categories from being sets of their own.
ROWS_OF_SETS = 2_000
LEAST_FILLED = 0.25
ONE_HOT: dict[str, Any] = {
    "n_estimators": "auto",
    "max_depth": 3,
    "learning_rate": 0.3,
    "min_child_weight": 10.0,
    "l2_regularization": 10.0,
}


@dataclass(frozen=True)
class TableKind:
    """The table as far as the choice of models depends on it.

    Attributes
    ----------
    n_rows : int
        Number of distinct rows.
    n_columns : int
        Number of columns.
    sparse : bool
        Whether the table is a sparse matrix.
    numbers : tuple of int
        Numbers of distinct numbers other than 0 of the columns of a sparse matrix.
    n_classes : int
        Number of classes.
    filled : float
        Of a one-hot table the part of the entries that is filled after its columns are joined to categories,
        see `learners/one_hot.py`.
    """

    n_rows: int = 1_000
    n_columns: int = 20
    sparse: bool = False
    numbers: tuple[int, ...] = ()
    n_classes: int = 2
    filled: float = 0.0

    @property
    def is_text(self) -> bool:
        """Whether the table is sparse and wide, as counts of words are."""
        return self.sparse and self.n_columns > FEW_SPARSE_COLUMNS

    @property
    def is_one_hot(self) -> bool:
        """Whether most columns of a wide sparse table say only whether they are filled."""
        bins = np.minimum(self.numbers, COLUMN_BINS)
        return self.is_text and float(np.median(bins)) <= 1.0 and int(bins.sum()) <= MOST_BINS

    @property
    def is_wide(self) -> bool:
        """Whether the table has more columns than deep trees can try, and few rows."""
        return not self.sparse and self.n_columns > FEW_COLUMNS and self.n_rows <= WIDE_UP_TO

    @classmethod
    def of(cls, problem: TrainingSet) -> Self:
        """Return the kind of a training table: its size, its sparsity and its number of classes."""
        n_rows = problem.n_distinct()
        n_columns = prod(problem.X.shape[1:])  # pixels and channels of images
        kind = cls(n_rows, n_columns, n_classes=problem.n_classes)
        if sp.issparse(problem.X):
            kind = replace(kind, sparse=True, numbers=distinct_numbers(problem.X))
            if kind.is_one_hot:
                kind = replace(kind, filled=filled_part(problem.X))
        return kind


def distinct_numbers(X: Any) -> tuple[int, ...]:
    """Return the number of distinct numbers other than 0 of each column of a sparse matrix.

    Missing values are one number.
    """
    table = sp.coo_matrix(X)
    is_entry = table.data != 0  # zeros may be stored, too
    numbers = np.where(np.isnan(table.data), np.inf, table.data)[is_entry]
    columns = table.col[is_entry]
    order = np.lexsort((numbers, columns))  # by column, and by number in a column
    columns = columns[order]
    numbers = numbers[order]
    is_new = np.ones(len(order), dtype=bool)  # differs from the entry before
    is_new[1:] = (columns[1:] != columns[:-1]) | (numbers[1:] != numbers[:-1])
    return tuple(np.bincount(columns[is_new], minlength=table.shape[1]).tolist())


def filled_part(X: Any) -> float:
    """Return which part of a one-hot table is filled after its columns are joined to categories."""
    table = sp.csc_matrix(X, copy=True)
    table.eliminate_zeros()  # in place
    n_joined = len(first_columns(table))
    return float(table.nnz / (table.shape[0] * n_joined))


def default_estimators(kind: TableKind | None = None) -> Named:
    """Return the estimators of ``estimators=None``.

    Parameters
    ----------
    kind : TableKind, optional
        The table; by default one of few rows and columns.

    Returns
    -------
    list of (str, estimator)
    """
    if kind is None:
        kind = TableKind()
    params = next(params for max_rows, params in BOOSTED if kind.n_rows <= max_rows)
    if kind.n_classes > 2 and FIVE_FOLDS_UP_TO < kind.n_rows <= CROSS_FIT_UP_TO:
        params = {**params, "learning_rate": RATE_OF_CLASSES}
    boosted = ("boosted", HistBoostClassifier(**params))

    if kind.is_text:
        linear = ("linear", TableLinear(C=10.0, scaling=0.5))
        bayes = ("bayes", TableBayes())
        # Beside trees a second scale of the columns has no use: see `benchmarks/sparse_tables.py`.
        if not kind.is_one_hot:
            return [linear, ("plain", TableLinear(scaling=0.0)), bayes]
        if kind.filled >= LEAST_FILLED and kind.n_rows >= ROWS_OF_SETS:
            boosted = ("boosted", OneHotBoost(**ONE_HOT))
        return [boosted, linear, bayes]

    forest = TableForest(
        n_trees="auto", leaf_rows=2.0, max_features=0.5, best_cuts=0.5, prior=0.05
    )
    if kind.is_wide:
        wide = [
            ("linear", TableLinear(C=0.001)),
            ("kernel", kernel_machine(STRONG_LANDMARKS)),
        ]
        if kind.n_rows > FIVE_FOLDS_UP_TO:
            return [("boosted", HistBoostClassifier(**SHALLOW)), *wide]
        forest.set_params(max_features="sqrt")
        return [("boosted", ScreenedBoost()), ("forest", forest), *wide]

    models = [boosted, ("forest", forest), ("linear", TableLinear())]
    if kind.n_rows <= FIVE_FOLDS_UP_TO:
        return [*models, ("kernel", kernel_machine(LANDMARKS))]
    return models


def kernel_machine(landmarks: int) -> TableLinear:
    """Return a linear model of the similarities to so many rows of the table, its landmarks."""
    return TableLinear(C=10.0, landmarks=landmarks)


def strong_estimators(kind: TableKind | None = None) -> Named:
    """Return the estimators of ``estimators="strong"``: one more, and a larger kernel machine.

    Tables of many columns get the default ones alone. On 28 tables without a part in their selection
    the log loss was lower by .0020 ± .0018, and a fit took 1.7 times as long (`results/field-strong.md`).

    Parameters
    ----------
    kind : TableKind, optional
        The table; by default one of few rows and columns.

    Returns
    -------
    list of (str, estimator)
    """
    if kind is not None and (kind.is_text or kind.is_wide):
        return default_estimators(kind)
    extra_trees = TableForest(
        n_trees=200, leaf_rows=1.0, max_features=0.8, best_cuts=0.0, prior=0.01
    )
    default = {name: model for name, model in default_estimators(kind) if name != "kernel"}
    return [
        *default.items(),
        ("extra", extra_trees),
        ("kernel", kernel_machine(STRONG_LANDMARKS)),
    ]


#: The estimators for each value of the parameter ``estimators`` without models.
DEFAULTS: dict[str | None, Callable[[TableKind], Named]] = {
    None: default_estimators,
    "strong": strong_estimators,
}
