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

from tailboost._checks import check_weights
from tailboost._typing import Floats, Ints, Mask

Integers = NDArray[np.int64]

# Weights are summed as integers that sum to at most 2^TOTAL_BITS: such sums are exact, so that equal stumps
# tie exactly in any order of the rows, and a row of weight 2 is the row twice.
TOTAL_BITS = 60
# Sample weights beyond 2^±50 cannot be counts of rows and are scaled first.
FAR_FROM_COUNTS = 50
# Entries of the sorted columns handled at a time, so that they stay in the cache.
BLOCK = 16_384


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


class SortedColumns:
    """The thresholds of a table of finite numbers, shape (n, d), and the rows in the order of each column.

    In every column the commonest value is left out: the sums over its rows follow from the others, so a
    column that is mostly zeros costs its other entries only. Memory: 4 bytes for each of these and 4 for each
    threshold (8 for tables of 2^31 entries and more).
    """

    def __init__(self, X: Floats) -> None:
        self.X = X
        n, d = X.shape
        place = np.int32 if n * d < 2**31 else np.int64
        orders, ends, lengths, counts = [], [], [], []
        begin = 0
        for j in range(d):
            order = np.argsort(X[:, j], kind="stable").astype(np.int32)
            column = X[order, j]
            edges = np.flatnonzero(column[1:] > column[:-1]) + 1  # the first row of each further value
            bounds = np.concatenate([[0], edges, [n]])
            widest = int(np.argmax(np.diff(bounds)))
            first, last = bounds[widest], bounds[widest + 1]
            orders.append(np.concatenate([order[:first], order[last:]]))
            # A threshold lies before each further value: ``below`` of them up to the commonest value.
            below = edges[:widest]
            above = edges[widest:] - (last - first)
            ends.append((begin + np.concatenate([below, above])).astype(place))
            counts.append((len(below), len(above)))
            lengths.append(len(orders[-1]))
            begin += lengths[-1]
        self.order = np.concatenate(orders)
        #: Where the rows below each threshold end in ``order``; columns one after the other.
        self.ends = np.concatenate(ends)
        self.column_ends = np.cumsum(lengths)
        self.counts = np.array(counts, dtype=np.int64)  # thresholds of each column below, above the commonest
        self.blocks = self._blocks(lengths)

    def _blocks(self, lengths: list[int]) -> list[tuple[slice, slice, slice]]:
        """Cut the columns into runs: slices of the columns, of ``order`` and of the thresholds."""
        d = len(lengths)
        starts = np.concatenate([[0], self.column_ends])
        thresholds = np.concatenate([[0], self.counts.sum(axis=1).cumsum()])
        blocks, j = [], 0
        while j < d:
            k = max(j + 1, int(np.searchsorted(starts, starts[j] + BLOCK, side="right")) - 1)
            if thresholds[k] > thresholds[j]:
                blocks.append((slice(j, k), slice(starts[j], starts[k]), slice(thresholds[j], thresholds[k])))
            j = k
        return blocks

    def below(self, block: tuple[slice, slice, slice], terms: Integers, total: int) -> Integers:
        """Sum the terms over the rows below every threshold of a block of columns."""
        columns, entries, thresholds = block
        running = np.empty(entries.stop - entries.start + 1, dtype=np.int64)
        running[0] = 0
        terms.take(self.order[entries]).cumsum(out=running[1:])
        stops = running[self.column_ends[columns] - entries.start]
        starts = np.concatenate([running[:1], stops[:-1]])
        # Below the commonest value count from the column's start; above it, back from the total.
        origin = np.column_stack([starts, stops - total]).ravel()
        sums = running.take(self.ends[thresholds] - entries.start)
        sums -= np.repeat(origin, self.counts[columns].ravel())
        return sums

    def locate(self, threshold: int) -> tuple[int, float]:
        """Return the column of a threshold and its place, in the middle between neighbouring values."""
        upto = self.counts.sum(axis=1).cumsum()
        j = int(np.searchsorted(upto, threshold, side="right"))
        values = np.unique(self.X[:, j])
        at = threshold - int(upto[j] - self.counts[j].sum())
        low, high = float(values[at]), float(values[at + 1])
        middle = low / 2 + high / 2
        return j, middle if low <= middle < high else low


class StumpSession:
    """The best stump for any weights, on columns sorted once."""

    concurrent = True

    def __init__(self, template: StumpClassifier, X: Any, y: Ints, sample_weight: Floats) -> None:
        self.template, self.reader = template, NumericTable()
        self.X = self.reader.transform(X)
        self.y, self.sample_weight = y, sample_weight
        self.sorted: tuple[Mask | None, SortedColumns | None] = (None, None)

    def _columns(self, rows: Mask | None) -> SortedColumns:
        kept, columns = self.sorted
        same = rows is None if kept is None else rows is not None and np.array_equal(kept, rows)
        if columns is None or not same:
            columns = SortedColumns(self.X if rows is None else self.X[rows])
            self.sorted = (rows, columns)
        return columns

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> StumpClassifier:
        """Return the best stump on the rows (all without ``rows``)."""
        chosen = slice(None) if rows is None else rows
        found = best_stump(
            self._columns(rows),
            self.y[chosen],
            weight[chosen],
            self.sample_weight[chosen],
            self.template.variance_weight,
        )
        return self.template._fitted(found, np.arange(2), self.X.shape[1], self.reader)

    def predict(self, model: StumpClassifier, rows: Mask | None = None) -> Ints:
        """Predict the opened rows."""
        return model.predict_table(self.X if rows is None else self.X[rows])


def eb_cost(s: Floats, t: Floats, variance_weight: float, V: float) -> Floats:
    """Cost after the best step, ``2√(PQ) + 2(1−λ)AB``, for A + B = 1, C + D = V, s = A − B, t = (C − D)/V.

    Written so that B = D = 0 gives exactly 0.
    """
    a, b = 1 + s, 1 - s  # 2A, 2B
    ab = a * b
    if variance_weight == 0:
        return ab
    a *= a
    a *= (1 - variance_weight) / 4
    a += (variance_weight * V / 2) * (1 + t)  # P
    b *= b
    b *= (1 - variance_weight) / 4
    b += (variance_weight * V / 2) * (1 - t)  # Q
    if variance_weight > 1:  # a difference then; C of rows of tiny weight is rounded to 0 before A is
        np.maximum(a, 0.0, out=a)
        np.maximum(b, 0.0, out=b)
    a *= b
    np.sqrt(a, out=a)
    a *= 2
    ab *= (1 - variance_weight) / 2
    a += ab
    return a


def best_stump(
    columns: SortedColumns, y: Ints, weight: Floats, sample_weight: Floats, variance_weight: float
) -> tuple[int, float, int, float]:
    """Search all stumps, the constants among them, for the least cost.

    The weights w and w²/p are those of the fit, ``weight = sample_weight · w/p``. Equal costs go to the first
    column and the lowest threshold; a constant wins only if it is strictly better.

    Returned are the feature, −1 for a constant; the threshold; the class number answered above it (below it,
    the other one); and the cost, 2√(PQ) + 2(1−λ)AB for Σw = 1.
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

    best = (np.inf, 0, 0.0, 0.0)
    for block in columns.blocks:
        # The stump that answers class 1 above: right on the 1s above and the 0s below.
        halves = [(net - 2 * columns.below(block, signed, net)) / mass for signed, net, mass in parts]
        s, t = halves[0], halves[-1]
        cost = eb_cost(s, t, variance_weight, V)
        at = int(cost.argmin())
        if cost[at] < best[0]:
            best = (float(cost[at]), block[2].start + at, float(s[at]), float(t[at]))
    halves = [np.array([net / mass]) for _, net, mass in parts]
    s, t = halves[0], halves[-1]
    constant_cost = float(eb_cost(s, t, variance_weight, V)[0])
    if constant_cost < best[0]:
        return -1, 0.0, _above(s[0], t[0], variance_weight, V), constant_cost
    cost_of_best, threshold, s_best, t_best = best
    return *columns.locate(threshold), _above(s_best, t_best, variance_weight, V), cost_of_best


def _above(s: float, t: float, variance_weight: float, V: float) -> int:
    """Answer class 1 above the threshold if P ≥ Q."""
    return int((1 - variance_weight) * s + variance_weight * V * t >= 0)


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

    def _fitted(
        self, found: tuple[int, float, int, float], classes: NDArray[Any], d: int, reader: NumericTable
    ) -> StumpClassifier:
        stump = StumpClassifier(variance_weight=self.variance_weight)
        stump.feature_, stump.threshold_, stump.above_, stump.cost_ = found
        stump.classes_, stump.n_features_in_, stump.table_ = classes, d, reader
        return stump

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
