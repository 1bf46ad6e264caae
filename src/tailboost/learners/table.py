"""Open tables, of numbers and categories, as tables of numbers; and classifiers that read them: forests."""

from dataclasses import dataclass
from numbers import Number
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags

from tailboost.core import (
    Column,
    Constraints,
    Floats,
    Floats32,
    Ints,
    Mask,
    Partitions,
    Table,
    as_pandas,
    frozen_object,
    listed,
    parameters,
    text,
)
from tailboost.learners.base import FittedModel, OpenSession, ProbabilityClassifier
from tailboost.learners.threads import count_threads

# For linear models: columns with more categories are left out, and numbers are clipped at this many standard
# deviations from the mean.
MOST_CATEGORIES = 64
CLIPPED_AT = 5.0
# Beginnings of pandas' names for kinds of values that are neither numbers nor names of categories.
NEITHER_NUMBERS_NOR_NAMES = ("complex", "date", "period", "time")
# Share of a column of text from which on numbers are no names of categories.
MOST_NUMBERS = 0.9
# Most rows and leaves of a tree of forests, which bound the time and the memory of a forest.
ROWS_OF_TREE = 20_000
LEAVES = 5_000
# Share of the columns that a split compares.
MAX_FEATURES = 0.5
# Weight of the class frequencies in each prediction, so that no small forest is certain.
PRIOR = 0.05


class TableReader:
    """Converter of data frames, arrays and sparse matrices to float32 tables.

    Attributes
    ----------
    categories_ : list
        For each column the number of each category by its text, or None for numbers.
    sparse_ : bool
        Whether the table is sparse; absent entries are missing values, as in XGBoost.
    """

    def fit(self, X: Table) -> Self:
        """Store categories and numbers by column."""
        self.sparse_ = sp.issparse(X)
        columns = X if hasattr(X, "iloc") else getattr(X, "distinct", {})  # of Partitions
        categories = [_categories(column, name) for name, column in columns.items()]
        self.categories_ = categories or [None] * X.shape[1]
        return self

    def transform(self, X: Table) -> Table:
        """Return the table as float32; unknown categories and missing values are NaN.

        Raises
        ------
        ValueError
            If a number does not fit float32, or X is an array although `fit` found categories.
        """
        if isinstance(X, Partitions):
            return X.then(self.transform)
        with np.errstate(over="ignore"):  # refused below
            if sp.issparse(X):
                table = sp.csr_matrix(as_pandas(X), dtype=np.float32, copy=True)
                table.eliminate_zeros()  # in place
            elif hasattr(X, "iloc"):
                table = self._numbers(X)
            elif any(known is not None for known in self.categories_):
                raise ValueError(
                    "X is an array, but the data frame in fit had categories: pass a data frame"
                )
            else:
                table = np.asarray(X, np.float32)
        names = list(getattr(X, "columns", range(table.shape[1])))
        numbers = table
        if sp.issparse(table):
            names = ["of a sparse matrix"]
            numbers = table.data[:, None]
        infinite = np.isinf(numbers).any(axis=0)
        if infinite.any():
            raise ValueError(
                "X contains infinity or a value too large for float32: column "
                f"{[names[j] for j in np.flatnonzero(infinite)]}"
            )
        if self.sparse_:
            return sp.csr_matrix(table)
        return table.toarray() if sp.issparse(table) else table

    def _numbers(self, X: Any) -> Floats32:
        """Return a data frame as float32, with the number of each category."""
        table = np.empty(X.shape, np.float32)
        for j, categories in enumerate(self.categories_):
            column = X.iloc[:, j]
            if categories is not None:
                codes, values = column.factorize()
                numbers = [categories.get(text(value), np.nan) for value in values]
                numbers.append(np.nan)  # missing values have the code −1, the last
                table[:, j] = np.array(numbers, np.float32)[codes]
            else:
                table[:, j] = column.to_numpy(np.float32, na_value=np.nan)
        return table


def _categories(column: Any, name: Any) -> dict[str, float] | None:
    """Return the number of each category of a column of text or categories; None for numbers.

    Raises
    ------
    ValueError
        If the column holds dates, complex numbers, or values that cannot be ordered.
    """
    if hasattr(column.dtype, "categories"):
        categories = column.dtype.categories
    elif column.dtype.kind in "biuf":
        return None
    else:
        from pandas.api.types import infer_dtype  # arrays are tables without pandas, too

        present = column.dropna()
        kind = infer_dtype(present)
        if kind.startswith(NEITHER_NUMBERS_NOR_NAMES):
            raise ValueError(
                f"column {name!r} contains {kind}: convert it to numbers, or leave it out: "
                f"X.drop(columns=[{name!r}])"
            )
        try:
            categories = sorted(present.unique())
        except TypeError:
            raise ValueError(
                f"column {name!r} mixes numbers and text, or holds neither: convert it by "
                f"X[{name!r}].astype(str), or by pandas.to_numeric(…, errors='coerce')"
            ) from None
        if categories and all(isinstance(value, Number | np.bool_) for value in categories):
            return None  # numbers of dtype object, as in a transposed table or of a database
        _refuse_numbers_as_text(present, name)
    return {text(value): i for i, value in enumerate(categories)}


def _refuse_numbers_as_text(column: Any, name: Any) -> None:
    """Raise ValueError if more than nine tenths of the values of a column of text are numbers."""
    from pandas import to_numeric

    counts = column.value_counts()
    words = counts.index.astype(str).str.replace(",", ".")  # 1,5 is a number too
    is_number = to_numeric(words, errors="coerce").notna()
    if counts[is_number].sum() > MOST_NUMBERS * len(column):
        number = str(counts.index[is_number][0])
        values = f"X[{name!r}]"
        if "," in number:
            values += ".str.replace(',', '.')"
        raise ValueError(
            f"column {name!r} has numbers as text, such as {number!r}: make them numbers by "
            f"pd.to_numeric({values}, errors='coerce'), or codes by X[{name!r}].astype('category')"
        )


class TableClassifier(ProbabilityClassifier):
    """Base class of classifiers for open tables."""

    def open_session(
        self,
        X: Table,
        y: Ints,
        n_classes: int,
        sample_weight: Floats | None = None,
        reader: TableReader | None = None,
    ) -> Any:
        """Return a session on these rows; with a ``reader`` they are a table that it has read already.

        Labels are class numbers 0 … K − 1. ``fit(weight, seed, rows)`` of the session may leave out rows.
        """
        self._validate_params()
        if reader is None:
            reader = TableReader().fit(X)
            X = reader.transform(X)
        return self._session(self, X, y, n_classes, reader)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


def without_missing(table: Table) -> Any:
    """Return a table as scikit-learn's trees read it: missing entries of a sparse matrix are 0."""
    if sp.issparse(table) and np.isnan(table.data).any():
        table = table.copy()
        table.data = np.nan_to_num(table.data)
    return table


@frozen_object
class FittedForest(FittedModel):
    """Trees of scikit-learn.

    Attributes
    ----------
    forest_ : estimator
        Its classes are the class numbers with rows in the fit.
    shares_ : ndarray of shape (K,)
        Frequencies of the classes in the fit.
    prior : float
        Weight of these frequencies in each prediction.
    """

    forest_: Any
    shares_: Floats
    prior: float

    def get_n_leaves(self) -> int:
        """Return the number of leaves of a single tree."""
        return int(self.forest_.get_n_leaves())

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        P = np.zeros((table.shape[0], len(self.shares_)))
        P[:, self.forest_.classes_] = self.forest_.predict_proba(without_missing(table))
        return P + self.prior * (self.shares_ - P)


@dataclass
class ForestSession(OpenSession):
    """All fits of scikit-learn's trees on one open table."""

    reader: TableReader

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> FittedForest:
        """Return the trees of the rows of a mask (None: all) for weights of shape (n,)."""
        used = weight > 0.0
        if rows is not None:
            used &= rows
        y = self.y[used]
        weight = weight[used]
        table = without_missing(self.X[used])
        forest = self.learner._of_sklearn(table.shape, seed).fit(table, y, weight)
        shares = np.bincount(y, weight, self.n_classes) / weight.sum()
        return FittedForest(self.reader, forest, shares, self.learner._prior)


@parameters
class TableForest(TableClassifier):
    """Extremely randomised trees for tables with categories and missing values.

    Parameters
    ----------
    n_estimators : int, default=30
        Number of trees.
    n_jobs : int, optional
        Maximum number of threads.
    random_state : int, optional
        Seed of the trees.
    """

    n_estimators: int = 30
    n_jobs: int | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {}
    _session = ForestSession
    _prior = PRIOR

    def _of_sklearn(self, shape: tuple[int, int], seed: int) -> ExtraTreesClassifier:
        """Return the forest for a table of this shape."""
        n = shape[0]
        return ExtraTreesClassifier(
            self.n_estimators,
            max_features=MAX_FEATURES,
            min_samples_leaf=max(2, min(n, ROWS_OF_TREE) // LEAVES),
            bootstrap=n > ROWS_OF_TREE,
            max_samples=ROWS_OF_TREE if n > ROWS_OF_TREE else None,
            n_jobs=count_threads(self.n_jobs, shape),
            random_state=seed,
        )


class TableNumbers(TransformerMixin, BaseEstimator):
    """A table of any kind in numbers for a linear model of scikit-learn.

    They are standardised and clipped, with the mean for missing ones, and an indicator for each category.
    Absent entries of a sparse matrix are 0.
    """

    def fit(self, X: Table, y: Column = None) -> Self:
        """Learn the categories, the means and the standard deviations."""
        self.reader_ = TableReader().fit(X)
        table = self.reader_.transform(X)
        self.scaler_ = StandardScaler(with_mean=not sp.issparse(table)).fit(table)
        return self

    def transform(self, X: Table) -> Any:
        """Return the numbers of a table, shape (n, columns and indicators)."""
        table = without_missing(self.reader_.transform(X))
        scaled = self.scaler_.transform(table)
        if sp.issparse(table):
            scaled.data = scaled.data.clip(-CLIPPED_AT, CLIPPED_AT)
            return scaled
        scaled = np.nan_to_num(scaled).clip(-CLIPPED_AT, CLIPPED_AT)
        kinds = self.reader_.categories_
        blocks = [scaled[:, [c is None for c in kinds]]]
        for j, categories in enumerate(kinds):
            if categories is not None and len(categories) <= MOST_CATEGORIES:
                blocks.append(table[:, [j]] == np.arange(len(categories)))
        numbers = np.hstack(blocks)
        if not numbers.shape[1]:
            raise ValueError(
                f"X has no numbers, and more than {MOST_CATEGORIES} different texts in each "
                f"of its columns {listed(list(X.columns))}"
            )
        return numbers

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.sparse = inputs.allow_nan = inputs.categorical = inputs.string = True
        return tags
