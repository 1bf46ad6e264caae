"""Decision stumps by exhaustive search over presorted columns."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import check_weights

Integers = NDArray[np.int64]

# Weights are summed as integers that sum to at most 2^TOTAL_BITS: such sums are exact, so that equal stumps
# tie exactly in any order of the rows, and a row of weight 2 is the row twice.
TOTAL_BITS = 60
# Sample weights beyond 2^±50 cannot be counts of rows and are scaled first.
FAR_FROM_COUNTS = 50
# Thresholds of neighbouring columns that are compared at a time, about.
BATCH = 16_384


class NumericTable:
    """Turns a table into float64, once for all stumps of an ensemble."""

    def transform(self, X: Any) -> Floats:
        """Return the table as float64.

        Raises
        ------
        ValueError
            If it holds something that is no finite number.
        """
        table: Floats = check_array(X, dtype=np.float64, input_name="X", ensure_min_samples=0)
        return table


def fixed_point(x: Floats, counts: Floats) -> Integers:
    """Return ``counts · x`` in integers, scaled by a power of 2; twice as much for counts twice as large."""
    scale = 2.0 ** (TOTAL_BITS - np.frexp(counts @ x)[1])
    terms: Integers = np.rint(counts * np.rint(x * scale)).astype(np.int64)
    return terms


class SortedColumn:
    """The thresholds of a column of finite numbers, shape (n,), and its rows in order.

    The commonest value is left out: the sums over its rows follow from the others, so a column that is mostly
    zeros costs its other entries only. Memory: 4 bytes for each of these and 4 for each threshold.
    """

    def __init__(self, column: Floats) -> None:
        order = np.argsort(column, kind="stable").astype(np.int32)
        values = column[order]
        edges = np.flatnonzero(values[1:] > values[:-1]) + 1  # the first row of each further value
        bounds = np.concatenate([[0], edges, [len(values)]])
        #: How many thresholds lie below the commonest value.
        self.n_below = int(np.argmax(np.diff(bounds)))
        first, last = bounds[self.n_below], bounds[self.n_below + 1]
        self.order = np.concatenate([order[:first], order[last:]])
        #: Where the rows below each threshold end in ``order``.
        self.ends = np.where(edges > first, edges - (last - first), edges).astype(np.int32)

    def below(self, terms: Integers, total: int) -> Integers:
        """Sum the terms over the rows below every threshold; over all rows they sum to the total."""
        running = np.zeros(len(self.order) + 1, dtype=np.int64)
        terms.take(self.order).cumsum(out=running[1:])
        sums = running.take(self.ends)
        sums[self.n_below :] += total - running[-1]
        return sums


def middle_of(column: Floats, threshold: int) -> float:
    """Return the place of the threshold with this number, in the middle between neighbouring values."""
    low, high = np.unique(column)[threshold : threshold + 2].tolist()
    middle: float = low / 2 + high / 2
    return middle if low <= middle < high else low


class StumpSession:
    """The best stump for any weights, on columns sorted once."""

    concurrent = True

    def __init__(self, template: StumpClassifier, X: Any, y: Ints, sample_weight: Floats) -> None:
        self.template, self.reader = template, NumericTable()
        self.X = self.reader.transform(X)
        self.y, self.sample_weight = y, sample_weight
        self.sorted: tuple[Mask | None, list[SortedColumn]] = (None, [])

    def _columns(self, rows: Mask | None) -> list[SortedColumn]:
        """Return the sorted columns of some rows, from the fit before if these were the same."""
        kept, columns = self.sorted
        same = rows is None if kept is None else rows is not None and np.array_equal(kept, rows)
        if not columns or not same:
            columns = [SortedColumn(column) for column in (self.X if rows is None else self.X[rows]).T]
            self.sorted = (rows, columns)
        return columns

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> StumpClassifier:
        """Return the best stump on the rows (all without ``rows``)."""
        chosen = slice(None) if rows is None else rows
        stump = StumpClassifier(variance_weight=self.template.variance_weight)
        feature, threshold, stump.above_, stump.cost_ = best_stump(
            self._columns(rows),
            self.y[chosen],
            weight[chosen],
            self.sample_weight[chosen],
            stump.variance_weight,
        )
        stump.feature_ = feature
        stump.threshold_ = 0.0 if feature < 0 else middle_of(self.X[chosen, feature], threshold)
        stump.classes_, stump.n_features_in_, stump.table_ = np.arange(2), self.X.shape[1], self.reader
        return stump

    def predict(self, model: StumpClassifier, rows: Mask | None = None) -> Ints:
        """Predict the opened rows."""
        return model.predict_table(self.X if rows is None else self.X[rows])


def eb_cost(s: Floats, t: Floats, variance_weight: float, V: float) -> Floats:
    """Cost after the best step, ``2√(PQ) + 2(1−λ)AB``, for A + B = 1, C + D = V, s = A − B, t = (C − D)/V.

    Written so that B = D = 0 gives exactly 0.
    """
    a, b = 1 + s, 1 - s  # 2A, 2B
    if variance_weight == 0:
        return a * b
    means, variances = (1 - variance_weight) / 4, variance_weight * V / 2
    P, Q = a * a * means + variances * (1 + t), b * b * means + variances * (1 - t)
    if variance_weight > 1:  # a difference then; C of rows of tiny weight is rounded to 0 before A is
        P, Q = np.maximum(P, 0.0), np.maximum(Q, 0.0)
    cost: Floats = 2 * np.sqrt(P * Q) + 2 * means * (a * b)
    return cost


def best_stump(
    columns: list[SortedColumn], y: Ints, weight: Floats, sample_weight: Floats, variance_weight: float
) -> tuple[int, int, int, float]:
    """Search all stumps, the constants among them, for the least cost.

    The weights w and w²/p are those of the fit, ``weight = sample_weight · w/p``. Equal costs go to the first
    column and the lowest threshold; a constant wins only if it is strictly better.

    Returned are the feature, −1 for a constant; the number of its threshold; the class number answered above
    it (below it, the other one); and the cost, 2√(PQ) + 2(1−λ)AB for Σw = 1.
    """
    u = np.divide(weight, sample_weight, out=np.zeros_like(weight), where=sample_weight > 0)
    counts = sample_weight
    if abs(size := int(np.frexp(counts.max())[1])) > FAR_FROM_COUNTS:
        counts = np.ldexp(counts, -size)
    sign = 2 * y.astype(np.int64) - 1
    terms = [fixed_point(u, counts)]
    V = 0.0
    if variance_weight:
        terms.append(fixed_point(u * u, counts))
        V = float(counts.sum() * (counts @ (u * u)) / (counts @ u) ** 2)  # Σ w²/p for Σw = 1
    parts = [(sign * t, int((sign * t).sum()), int(t.sum())) for t in terms]

    sizes = np.array([len(column.ends) for column in columns])
    first = np.cumsum(sizes) - sizes  # thresholds are numbered through all columns
    batches = np.split(np.arange(len(columns)), np.flatnonzero(np.diff(first // BATCH)) + 1)
    number, above, least = -1, 0, np.inf
    for batch in (*batches, np.arange(0)):  # the last has the constant, with no row below its threshold
        below = [
            np.concatenate([columns[j].below(signed, net) for j in batch] or [np.zeros(1, dtype=np.int64)])
            for signed, net, _ in parts
        ]
        # The stump that answers class 1 above: right on the 1s above and the 0s below.
        halves = [(net - 2 * sums) / mass for sums, (_, net, mass) in zip(below, parts, strict=True)]
        s, t = halves[0], halves[-1]
        cost = eb_cost(s, t, variance_weight, V)
        if len(cost) and cost.min() < least:
            at = int(cost.argmin())
            number, least = int(first[batch[0]]) + at if len(batch) else -1, float(cost[at])
            above = int((1 - variance_weight) * s[at] + variance_weight * V * t[at] >= 0)  # P ≥ Q
    if number < 0:
        return -1, 0, above, least
    j = int(np.searchsorted(first, number, side="right")) - 1
    return j, number - int(first[j]), above, least


class StumpClassifier(ClassifierMixin, BaseEstimator):
    """The best decision stump of all: every column, every threshold, both polarities, and the constants.

    Columns are sorted once per fit of an ensemble; a round takes one pass over them. Two classes only.

    Parameters
    ----------
    variance_weight : float, default=0.0
        λ ≥ 0. 0 minimises the weighted error. A larger one minimises the cost of empirical
        Bernstein boosting after the best step, ``2√(PQ) + 2(1−λ)AB`` [1]_: with w the weights (Σw = 1), p
        the normalised sample weights of the rows as opened, A = Σ w over the rows that are right, C = Σ w²/p
        over them, B and D over the others, P = (1−λ)A² + λC, Q = (1−λ)B² + λD. In a plain ``fit`` w = p, and
        the two agree.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels.
    feature_ : int
        The column that is compared with the threshold; −1 where a constant is best.
    threshold_ : float
        The middle between two neighbouring values of the column.
    above_ : int
        Class number answered above the threshold; the other one up to it.
    cost_ : float
        The cost of this stump, as defined for ``variance_weight``.
    n_features_in_ : int
        Columns of X in ``fit``.

    See Also
    --------
    tailboost.EBBoostClassifier : Boosting with such stumps.

    References
    ----------
    .. [1] Shivaswamy and Jebara, "Empirical Bernstein Boosting", AISTATS 2010.

    Examples
    --------
    >>> from tailboost.learners import StumpClassifier
    >>> stump = StumpClassifier().fit([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"])
    >>> stump.threshold_, stump.predict([[2.5]]).tolist()
    (2.0, ['b'])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "variance_weight": [Interval(Real, 0, None, closed="left")]
    }

    def __init__(self, *, variance_weight: float = 0.0) -> None:
        self.variance_weight = variance_weight

    def open_session(self, X: Any, y: Ints, n_classes: int, sample_weight: Floats) -> StumpSession:
        """Open the data for any number of fits; labels are class numbers 0 and 1."""
        self._validate_params()
        if n_classes != 2:
            raise ValueError(
                f"Only binary classification is supported: stumps answer two classes, y holds {n_classes}"
            )
        return StumpSession(self, X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to weighted rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Finite numbers.
        y : array-like of shape (n,)
            Labels of two classes.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; 2 is the row twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y or sample_weight is not as described, or y holds another number of classes than two.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weight = check_weights(sample_weight, len(y))
        used = weight > 0
        self.classes_, index = np.unique(y[used], return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError(f"y holds one class only ({self.classes_.tolist()[0]!r}); two are needed")
        session = self.open_session(X[used], index, len(self.classes_), weight[used])
        found = session.fit(weight[used], seed=0)
        for name in ("feature_", "threshold_", "above_", "cost_", "table_"):
            setattr(self, name, getattr(found, name))
        return self

    @property
    def feature_importances_(self) -> Floats:
        """1 for the column of the threshold, shape (d,); all 0 for a constant."""
        check_is_fitted(self)
        return (np.arange(self.n_features_in_) == self.feature_).astype(np.float64)

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for a table of float64, shape (n,)."""
        if self.feature_ < 0:
            return np.full(len(table), self.above_, dtype=np.intp)
        above = table[:, self.feature_] > self.threshold_
        return above.astype(np.intp) if self.above_ else (~above).astype(np.intp)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, shape (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.classes_[self.predict_table(X)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags
