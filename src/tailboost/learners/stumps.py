"""Decision stumps by exhaustive search over columns whose values are numbered once."""

from collections import defaultdict
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils import Tags, check_array

from tailboost.core import Constraints, Floats, Ints, Table, frozen_object, parameters
from tailboost.core.ranges import NON_NEGATIVE
from tailboost.learners.base import FittedModel, OpenSession, SessionClassifier

# Costs within this distance are equal, so the order of the rows does not break ties. Costs lie in [0, 1]
# if variance_weight is 0.
TIE = 1e-11
# Thresholds that are compared together, but for those of the last column, which may be more.
BLOCK = 2**14


class NumericTable:
    """Converter of tables to float64, shared by all stumps of an ensemble."""

    def transform(self, X: Table) -> Floats:
        """Return the table as float64.

        Raises
        ------
        ValueError
            If a value is not a finite number.
        """
        return check_array(X, dtype=np.float64, input_name="X", ensure_min_samples=0)


class Coded(NamedTuple):
    """A column of finite numbers as the numbers of its distinct values.

    The rows of a value that most rows have are left out: their sum follows from the others.
    """

    number: int
    values: Floats  # the distinct ones, ascending
    rows: Any  # numbers of the rows that are not left out
    codes: Ints  # of these rows
    common: int  # number of the value of the others

    @classmethod
    def of(cls, number: int, column: Floats) -> Self:
        """Return a column with its distinct values."""
        values, codes = np.unique(column, return_inverse=True)
        counts = np.bincount(codes)
        common = int(counts.argmax())
        rows: Any = slice(None)
        if 2 * counts[common] > len(codes):
            rows = np.flatnonzero(codes != common)
        return cls(number, values, rows, codes[rows], common)

    @property
    def n_thresholds(self) -> int:
        """The number of thresholds: between each two neighbouring values is one."""
        return len(self.values) - 1

    def threshold(self, number: int) -> float:
        """Return the threshold with this number: the midpoint between neighbouring values."""
        low, high = self.values[number : number + 2].tolist()
        middle = low / 2 + high / 2  # a sum may overflow
        return middle if low <= middle < high else low  # neighbours in float64 have no midpoint

    def below(self, terms: Floats, total: float) -> Floats:
        """Return the sum of the terms, shape (n,), of the rows below each threshold."""
        sums = np.bincount(self.codes, terms[self.rows], len(self.values))
        if not isinstance(self.rows, slice):
            sums[self.common] = total - sums.sum()
        return sums.cumsum()[:-1]


# A constant as a column with one threshold, which all rows are above.
CONSTANT = Coded(-1, np.zeros(2), np.zeros(0, np.intp), np.zeros(0, np.intp), 1)


@frozen_object
class FittedStump(FittedModel):
    """A stump, with the attributes of `StumpClassifier`."""

    feature_: int
    threshold_: float
    above_: int
    cost_: float

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for a table of float64, shape (n,)."""
        if self.feature_ < 0:
            return np.full(len(table), self.above_, np.intp)
        above = table[:, self.feature_] > self.threshold_
        return np.where(above, self.above_, 1 - self.above_)

    def predict_proba_table(self, table: Floats) -> Floats:
        """Return 1 for the answered class, shape (n, 2)."""
        return np.eye(2)[self.predict_table(table)]


def eb_cost(s: Floats, t: Floats, variance_weight: float, V: float) -> Floats:
    """Return the cost after the best step, ``2√(PQ) + 2(1−λ)AB``, with the symbols of `StumpClassifier`.

    Here A + B = 1, C + D = V, s = A − B and t = (C − D)/V, so 1 + s = 2A, 1 − s = 2B, 1 + t = 2C/V and
    1 − t = 2D/V. B = D = 0 gives exactly 0.
    """
    a = 1 + s
    b = 1 - s
    c = 1 + t
    d = 1 - t
    for x in (a, b, c, d):
        x[x < TIE] = 0.0  # the root would enlarge rounding errors
    if variance_weight == 0:
        return a * b
    means = (1 - variance_weight) / 4
    variances = variance_weight * V / 2
    P = a * a * means + variances * c
    Q = b * b * means + variances * d
    return 2 * np.sqrt(np.maximum(P, 0.0) * np.maximum(Q, 0.0)) + 2 * means * (a * b)


@dataclass
class StumpSession(OpenSession):
    """All stumps of one learner on one table, whose values are numbered once."""

    sample_weight: Floats

    def __post_init__(self) -> None:
        if self.n_classes != 2:
            raise ValueError(
                "Only binary classification is supported: stumps predict two classes, y has "
                f"{self.n_classes}. Boosting that has estimator= takes more with estimator='tree'"
            )
        self.reader = NumericTable()
        self.X = self.reader.transform(self.X)
        self.sign = 2.0 * self.y - 1.0
        self.p = self.sample_weight / self.sample_weight.sum()
        # Columns whose thresholds are compared together; one of equal values has none.
        blocks = defaultdict(list)
        n_before = 0
        for j, values in enumerate(self.X.T):
            column = Coded.of(j, values)
            if column.n_thresholds:
                blocks[n_before // BLOCK].append(column)
                n_before += column.n_thresholds
        self.blocks = [*blocks.values(), [CONSTANT]]

    def fit(self, weight: Floats, seed: int) -> FittedStump:
        """Return the stump of least cost among all stumps and constants; ``seed`` has no effect.

        Equal costs go to the first column and the lowest threshold. A constant is returned only if its cost
        is smaller. The cost is ``2√(PQ) + 2(1−λ)AB`` for weights with sum 1.
        """
        variance_weight = self.learner.variance_weight
        w = weight / weight.sum()
        squares = w * (w / self.p)
        V = squares.sum()
        summands = [w]
        if variance_weight:
            summands.append(squares)
        # The signed terms of each sum, the signed sum, and the sum.
        sums = [(self.sign * terms, self.sign @ terms, terms.sum()) for terms in summands]
        best = FittedStump(self.reader, -1, 0.0, 0, np.inf)
        for block in self.blocks:
            # A stump that predicts class 1 above is right on class 1 above and on class 0 below.
            differences = []
            for terms, signed, total in sums:
                below = np.concatenate([column.below(terms, signed) for column in block])
                differences.append((signed - 2 * below) / total)
            s = differences[0]
            t = differences[-1]  # the same without λ
            costs = eb_cost(s, t, variance_weight, V)
            excess = (1 - variance_weight) * s + variance_weight * V * t  # a multiple of P − Q
            start = 0
            for column in block:
                own = costs[start : start + column.n_thresholds]
                if own.min() < best.cost_ - TIE:
                    number = (own <= own.min() + TIE).argmax()
                    best = FittedStump(
                        self.reader,
                        column.number,
                        column.threshold(number),
                        int(excess[start + number] >= -TIE),  # above
                        float(own[number]),
                    )
                start += column.n_thresholds
        return best


@parameters
class StumpClassifier(SessionClassifier):
    """Best decision stump by exhaustive search, for two classes.

    The search includes all columns, thresholds and polarities, and the constants. Columns are sorted once per
    fit of an ensemble.

    Parameters
    ----------
    variance_weight : float, default=0.0
        λ ≥ 0. 0 minimises the weighted error. A larger λ minimises the cost of empirical Bernstein boosting
        after the best step, ``2√(PQ) + 2(1−λ)AB`` [1]_. Here w are the weights (Σw = 1) and p the normalised
        sample weights. A = Σ w and C = Σ w²/p over the correct rows, B and D over the others,
        P = (1−λ)A² + λC, Q = (1−λ)B² + λD. In a plain ``fit`` w = p.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels.
    feature_ : int
        Column that is compared with the threshold; −1 if a constant is best.
    threshold_ : float
        Midpoint between two neighbouring values of the column.
    above_ : int
        Class number predicted above the threshold; the other class is predicted up to it.
    cost_ : float
        Cost of this stump, see ``variance_weight``.
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

    _: KW_ONLY
    variance_weight: float = 0.0

    _parameter_constraints: ClassVar[Constraints] = {"variance_weight": [NON_NEGATIVE]}

    _session = StumpSession

    feature_ = property(attrgetter("model_.feature_"))
    threshold_ = property(attrgetter("model_.threshold_"))
    above_ = property(attrgetter("model_.above_"))
    cost_ = property(attrgetter("model_.cost_"))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags
