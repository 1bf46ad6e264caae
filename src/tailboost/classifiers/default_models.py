"""The default models of `RobustMixtureClassifier`, by the kind of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from typing import Any, Self

from scipy.sparse import issparse

from tailboost.boosting.cross_fitting import CROSS_FIT_UP_TO
from tailboost.boosting.training_set import TrainingSet
from tailboost.classifiers.fitting import FIVE_FOLDS_UP_TO
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import TableBayes, TableLinear
from tailboost.learners.stopped import StoppedBoost

Named = list[tuple[str, Any]]
# Boosted trees by the largest number of distinct rows, see `benchmarks/capacity.py`. On fewer than 5,000 rows
# stopping early brought no gain.
BOOSTED: tuple[tuple[float, dict[str, Any]], ...] = (
    (FIVE_FOLDS_UP_TO, {"n_estimators": 100, "max_depth": 6, "learning_rate": 0.1}),
    (CROSS_FIT_UP_TO, {"n_estimators": "auto", "max_depth": 6, "learning_rate": 0.1}),
    (inf, {"n_estimators": "auto", "max_depth": 8, "learning_rate": 0.1, "min_child_weight": 5.0}),
)
# Sparse tables with more columns get linear models and naive Bayes: trees take a hundred times as long there.
FEW_COLUMNS = 300


@dataclass(frozen=True)
class TableKind:
    """What the choice of models depends on.

    Attributes
    ----------
    n_rows : int
        Number of distinct rows.
    n_columns : int
        Number of columns.
    sparse : bool
        Whether the table is a sparse matrix.
    """

    n_rows: int = 1_000
    n_columns: int = 20
    sparse: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the table is sparse and wide, as counts of words are."""
        return self.sparse and self.n_columns > FEW_COLUMNS

    @classmethod
    def of(cls, problem: TrainingSet) -> Self:
        """Return the kind of a training table."""
        return cls(problem.n_distinct(), prod(problem.X.shape[1:]), bool(issparse(problem.X)))


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
    kind = TableKind() if kind is None else kind
    if kind.is_text:
        return [
            ("linear", TableLinear(C=10.0, scaling=0.5)),
            ("plain", TableLinear(scaling=0.0)),
            ("bayes", TableBayes()),
        ]
    size = next(size for most, size in BOOSTED if kind.n_rows <= most)
    return [
        ("boosted", HistBoostClassifier(**size)),
        ("forest", TableForest(n_trees="auto", leaf_rows=2.0, max_features=0.5, best_cuts=0.5, prior=0.05)),
        ("linear", TableLinear()),
    ]


def strong_estimators(kind: TableKind | None = None) -> Named:
    """Return the estimators of ``estimators="strong"``: the default ones and three more.

    Sparse tables of many columns get the default ones alone. On 28 tables without a part in their selection
    the three reduced the log loss by .0044 ± .0029 and the overall error by .0037 ± .0023; a fit took 3.6
    times as long (`results/field-strong.md`).

    Parameters
    ----------
    kind : TableKind, optional
        The table; by default one of few rows and columns.

    Returns
    -------
    list of (str, estimator)
    """
    if kind is not None and kind.is_text:
        return default_estimators(kind)
    extra = TableForest(n_trees=200, leaf_rows=1.0, max_features=0.8, best_cuts=0.0, prior=0.01)
    return [
        *default_estimators(kind),
        ("extra", extra),
        ("kernel", TableLinear(C=10.0, landmarks=500)),
        ("stopped", StoppedBoost()),
    ]


#: The estimators for each value of the parameter ``estimators`` without models.
DEFAULTS: dict[str | None, Callable[[TableKind], Named]] = {
    None: default_estimators,
    "strong": strong_estimators,
}
