"""Logistic regression on open tables, linear in the columns or in kernels, and naive Bayes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.naive_bayes import MultinomialNB
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats, Hashes, Ints, Mask, Table
from tailboost.core.long_work import one_blas_thread
from tailboost.learners.foreign import constant
from tailboost.learners.forest import places_in_strata, stratum_quotas, with_stratum_weights
from tailboost.learners.table import OpenTable, TableClassifier, as_dense

# Numbers are clipped at this many standard deviations from the mean.
CLIPPED_AT = 5.0
# Columns with more categories are ignored: each category is a coefficient for every class.
CATEGORIES_OF_COLUMN = 64
# Maximum number of table entries in a fit. Larger tables are sampled by class.
MOST_ENTRIES = 2**22
MOST_STEPS = 1_000
# Gaussian kernels are exp(−KERNEL_WIDTH · d), d the mean squared difference of two rows over the columns.
KERNEL_WIDTH = 0.5
# Smaller eigenvalues of the landmarks' kernels count as this value: their directions are rounding errors.
LEAST_EIGENVALUE = 1e-12
# Rows that are predicted at once. With 107 columns 10⁵ rows at once took 1.5 times as long.
BLOCK_ROWS = 4096
# Count that naive Bayes adds to each column in each class, so no probability is 0.
SMOOTHING = 0.1


class Refitted(TableClassifier):
    """A learner that is fitted anew on the rows of each fold."""

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> RefittedSession:
        """Return a session on an open table, see `protocols.TableLearner`."""
        return RefittedSession(self, opened, np.asarray(y), n_classes)


class TableLinear(Refitted):
    """Multinomial logistic regression for tables with categories and missing values.

    Numbers are centred and scaled. A missing number counts as the mean. Each category has a coefficient.
    Absent entries of a sparse matrix count as 0.

    Parameters
    ----------
    C : float > 0
        Inverse strength of the L2 penalty, as in scikit-learn.
    landmarks : int ≥ 0, default=0
        Number of training rows whose Gaussian kernels replace the columns (Nyström's method): an approximate
        kernel machine. At most half of the rows are landmarks. With 0 the model is linear in the columns.
    scaling : float in [0, 1], default=1.0
        Numbers are divided by this power of their standard deviation. Below 1 they are then multiplied by one
        factor, so the numbers of a row have a mean squared length of 1. In text rare words have small
        standard deviations. The penalty for them is the smaller, the larger the power is.
    """

    def __init__(self, C: float = 1.0, landmarks: int = 0, scaling: float = 1.0) -> None:
        self.C = C
        self.landmarks = landmarks
        self.scaling = scaling

    @one_blas_thread
    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Fit the model to rows of at least two classes.

        Parameters
        ----------
        opened : OpenTable
            The training table, with its reader and the hashes of its rows.
        y : ndarray of int, shape (n,)
            Class numbers.
        weight : ndarray of shape (n,)
            Weights; rows of weight 0 are left out.
        """
        table = opened.table
        self.table_ = opened.reader
        columns_of_numbers = []
        self.levels_ = list[tuple[int, int]]()  # columns of categories, with their number
        for j, categories in enumerate(self.table_.categories_):
            if categories is None:
                columns_of_numbers.append(j)
            elif 0 < len(categories) <= CATEGORIES_OF_COLUMN:
                self.levels_.append((j, len(categories)))
        self.columns_ = np.array(columns_of_numbers, dtype=np.intp)
        # Entries of a row as the linear model reads it: an indicator for each category.
        n_entries = len(self.columns_) + sum(n_categories for _, n_categories in self.levels_)
        if sp.issparse(table):
            n_entries = table.nnz // table.shape[0]
        max_rows = MOST_ENTRIES // max(n_entries, self.landmarks, 1)
        index, weight = _sampled(opened.hashes, y, weight, max_rows)
        y = y[index]
        rows = table[index]
        self.mean_, deviation = _moments(rows[:, self.columns_], weight)
        self.scale_ = _positive(deviation)
        if self.scaling < 1.0:
            # The root of the rows' mean squared length after the division.
            length = np.sqrt((deviation ** (2.0 - 2.0 * self.scaling)).sum())
            self.scale_ = _positive(deviation**self.scaling * length)
        scaled_rows = self._numbers(rows)
        if self.landmarks:
            whitening = self._choose_landmarks(scaled_rows, opened.hashes[index])
            kernels = rbf_kernel(scaled_rows, self.landmarks_, gamma=self._gamma)
            coef, self.intercept_ = _coefficients(kernels @ whitening, y, weight, self.C)
            self.coef_ = coef @ whitening  # of the kernels
        else:
            self.coef_, self.intercept_ = _coefficients(scaled_rows, y, weight, self.C)
        self.classes_ = np.arange(len(self.coef_))
        return self

    def _numbers(self, table: Table) -> Any:
        """Return the columns of the linear model: scaled numbers, and an indicator of each category."""
        if sp.issparse(table):
            scaled = sp.csr_matrix(table[:, self.columns_].multiply(1.0 / self.scale_))
            scaled.data = np.nan_to_num(scaled.data).clip(-CLIPPED_AT, CLIPPED_AT)
            return scaled
        # A missing number becomes the mean, 0.
        scaled = np.nan_to_num((table[:, self.columns_] - self.mean_) / self.scale_)
        blocks = [scaled.clip(-CLIPPED_AT, CLIPPED_AT)]
        for j, n_categories in self.levels_:
            blocks.append(table[:, [j]] == np.arange(n_categories))  # shape (n, n_categories)
        if self.levels_:
            return np.hstack(blocks)
        return blocks[0]

    def _choose_landmarks(self, rows: Any, hashes: Hashes) -> Floats:
        """Choose rows by their hashes, so order and repetitions do not matter; return the whitening.

        This is the symmetric matrix W = G^(−½), for the kernels G of the landmarks. For rows with kernels k
        to the landmarks, the inner products of kW approximate the kernels between the rows.
        """
        _, distinct_rows = np.unique(hashes, return_index=True)
        n_landmarks = max(1, min(self.landmarks, len(distinct_rows) // 2))
        self.landmarks_ = as_dense(rows[distinct_rows[:n_landmarks]])
        kernels = rbf_kernel(self.landmarks_, gamma=self._gamma)
        eigenvalues, eigenvectors = np.linalg.eigh(kernels)
        roots = np.sqrt(np.maximum(eigenvalues, LEAST_EIGENVALUE))
        return (eigenvectors / roots) @ eigenvectors.T

    @property
    def _gamma(self) -> float:
        return KERNEL_WIDTH / int(self.landmarks_.shape[1])

    @property
    def feature_importances_(self) -> Floats:
        """Mean absolute coefficient of each column, centred over the classes, shape (d,); sums to 1."""
        check_is_fitted(self)
        if self.landmarks:
            raise AttributeError("a kernel model has no importances of columns")
        sizes = np.abs(self.coef_ - self.coef_.mean(axis=0)).mean(axis=0)
        importances = np.zeros(len(self.table_.categories_))
        n_numbers = len(self.columns_)
        importances[self.columns_] = sizes[:n_numbers]
        start = n_numbers  # of the indicators of a column
        for j, n_categories in self.levels_:
            importances[j] = sizes[start : start + n_categories].mean()
            start += n_categories
        total = importances.sum()
        if total > 0.0:
            return importances / total
        return importances

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        if sp.issparse(table) and not self.landmarks:
            scores = self._numbers(table) @ self.coef_.T + self.intercept_
        else:
            n_rows = max(table.shape[0], 1)  # a table without rows is one block
            blocks = [table[i : i + BLOCK_ROWS] for i in range(0, n_rows, BLOCK_ROWS)]
            scores = np.concatenate([self._scores(self._numbers(block)) for block in blocks])
        return softmax(scores, axis=1)

    def _scores(self, numbers: Any) -> Floats:
        """Return the scores of rows by class, shape (n, K)."""
        # Pair by pair and term by term: the order of sums in a matrix product depends on the number of rows.
        if self.landmarks:
            squares = cdist(as_dense(numbers), self.landmarks_, "sqeuclidean")
            numbers = np.exp(-self._gamma * squares)
        scores_by_class = np.repeat(self.intercept_[:, None], len(numbers), axis=1)  # (K, n)
        for column, coefficients in zip(numbers.T, self.coef_.T, strict=True):
            scores_by_class += np.multiply.outer(coefficients, column)
        return np.ascontiguousarray(scores_by_class.T)


class TableBayes(Refitted):
    """Multinomial naive Bayes for counts and other numbers that are not negative.

    Missing and negative numbers count as 0.
    """

    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Fit the model to rows of at least two classes.

        Parameters
        ----------
        opened : OpenTable
            The training table, with its reader.
        y : ndarray of int, shape (n,)
            Class numbers.
        weight : ndarray of shape (n,)
            Weights; rows of weight 0 are left out.
        """
        self.table_ = opened.reader
        used_rows = np.flatnonzero(weight)
        counts = _counts(opened.table[used_rows])
        model = MultinomialNB(alpha=SMOOTHING).fit(counts, y[used_rows], weight[used_rows])
        self.coef_ = model.feature_log_prob_
        self.intercept_ = model.class_log_prior_
        self.classes_ = np.arange(len(self.coef_))
        return self

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        return softmax(_counts(table) @ self.coef_.T + self.intercept_, axis=1)


def _counts(table: Table) -> Any:
    """Return the numbers of a table, with 0 for missing and negative ones."""
    if not sp.issparse(table):
        return np.nan_to_num(table.astype(np.float64)).clip(0.0)
    counts = table.astype(np.float64)
    counts.data = np.nan_to_num(counts.data).clip(0.0)
    return counts


@dataclass(frozen=True, eq=False)
class RefittedSession:
    """All fits of one learner on one table."""

    template: Refitted  # the learner
    opened: OpenTable
    y: Ints  # shape (n,): class numbers
    n_classes: int

    concurrent = True

    def fit(self, weight: Floats, seed: int = 0, rows: Mask | None = None) -> Any:
        """Return a model fitted on the rows of a mask (None: all) with weights of shape (n,).

        Its ``classes_`` are the class numbers of the rows of positive weight. Rows of one class give a
        constant model. ``seed`` has no effect.
        """
        if rows is not None:
            weight = np.where(rows, weight, 0.0)
        present = np.unique(self.y[weight > 0.0])
        if len(present) == 1:
            return constant(int(present[0]), self.n_classes)
        model = clone(self.template)
        model.learn(self.opened, np.searchsorted(present, self.y), weight)
        model.classes_ = present
        return model


def _sampled(hashes: Hashes, y: Ints, weight: Floats, max_rows: int) -> tuple[Ints, Floats]:
    """Return the numbers of the rows of positive weight, and their weights; a sample of at most ``max_rows``.

    ``hashes``, ``y`` and ``weight`` have shape (n,). The sample has a quota of rows for each class, and its
    weights keep the sum of the weights of each class.
    """
    index = np.flatnonzero(weight > 0.0)
    weight = weight[index]
    y = y[index]
    place, class_sizes = places_in_strata(y, hashes[index])
    quotas = stratum_quotas(class_sizes, max_rows)
    if (quotas == class_sizes).all():
        return index, weight
    class_weight = np.bincount(y, weights=weight).astype(np.float64)
    is_sampled = place < quotas[y]  # the rows with the smallest hashes
    sample_weight = with_stratum_weights(weight[is_sampled], y[is_sampled], class_weight)
    return index[is_sampled], sample_weight


def _coefficients(Z: Any, y: Ints, weight: Floats, C: float) -> tuple[Floats, Floats]:
    """Return the coefficients of logistic regression and the intercepts, shapes (K, p) and (K,).

    They minimise ``Σ_i w_i log loss_i + |coef|²/(2C)``.

    Parameters
    ----------
    Z : array or sparse matrix of shape (n, p)
        Columns of the linear model.
    y : ndarray of int, shape (n,)
        Class numbers.
    weight : ndarray of shape (n,)
        Positive weights w.
    C : float
        Inverse strength of the penalty.
    """
    is_binary = y.max() == 1
    if is_binary:
        # scikit-learn has one row of coefficients for two classes. Two opposite halves have half the penalty.
        C = 2.0 * C
    model = LogisticRegression(C=C, max_iter=MOST_STEPS).fit(Z, y, weight)
    coef = model.coef_
    intercept = model.intercept_
    if is_binary:
        return np.vstack([-coef, coef]) / 2.0, np.r_[-intercept, intercept] / 2.0
    return coef, intercept


def _moments(table: Table, weight: Floats) -> tuple[Floats, Floats]:
    """Return weighted mean and standard deviation of each column without its missing values, shape (d,) each.

    In a sparse table absent entries are 0, and numbers are not centred: the mean is 0.
    """
    if sp.issparse(table):
        values = table.copy()
        values.data = np.nan_to_num(values.data.astype(np.float64))
        squares = values.multiply(values)
        mean_square = np.asarray(squares.T @ (weight / weight.sum())).ravel()
        return np.zeros(table.shape[1]), np.sqrt(mean_square)
    present = ~np.isnan(table)
    # The weight of the present values by column, which may be 0.
    total_weight = np.maximum(weight @ present, np.finfo(np.float64).tiny)
    values = np.where(present, table, 0.0).astype(np.float64)
    mean = weight @ values / total_weight
    variance = weight @ (present * (values - mean)) ** 2 / total_weight
    return mean, np.sqrt(variance)


def _positive(scale: Floats) -> Floats:
    """Return scales with 1 in place of 0, for constant columns."""
    return np.where(scale > 0.0, scale, 1.0)
