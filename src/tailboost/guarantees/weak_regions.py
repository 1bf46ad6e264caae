"""Regions of the feature space in which a model errs more often than on the other rows."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import binom
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Column, Floats, Seed, Table
from tailboost.core.checks import as_pandas, check_indexes, check_length, finite, n_rows_of
from tailboost.core.html import html_table, text_table
from tailboost.core.long_work import fitting_apart
from tailboost.rates.bounds import betting_p_value

#: Name of the rows outside of all regions.
OTHER = "other"
# A subtree stays if each of its leaves lowers the sum of squares by this multiple of the variance.
# On 100 tables with a planted "x > 1", the Jaccard index of the best region and the planted one rose from .47
# without pruning (40 tables) to .87, and found regions with an excess of .1 in 4,000 rows from .40 to .55.
PRUNING = 10.0


@dataclass(frozen=True)
class WeakRegion:
    """One region with its errors on the test half of the rows.

    Attributes
    ----------
    name : str
        The conditions on the features, joined by "and".
    n_rows : int
        Number of test rows in the region.
    error : float in [0, 1]
        Mean error of these rows.
    expected : float in [0, 1]
        Their mean expected error.
    p_value : float in [0, 1]
        One-sided test of ``error > expected``, times the number of tested regions: of a binomial count for
        losses 0 and 1, by betting for other losses.
    """

    name: str
    n_rows: int
    error: float
    expected: float
    p_value: float


class WeakRegions(TransformerMixin, BaseEstimator):
    """Find regions with more errors than expected, and use them as groups.

    A shallow regression tree is grown and pruned on the excess error of one half of the rows. Each leaf with
    a positive excess is tested on the other half. Leaves that pass the test are the weak regions. `transform`
    returns the name of the region of each row, for ``groups=`` of `certify`, `tune` and the classifiers.

    The errors in `regions_` are estimates: the regions were selected on these rows. Call `certify` with
    ``groups=regions.transform(X)`` on other rows for bounds that hold jointly.

    Parameters
    ----------
    max_depth : int, default=3
        Largest number of conditions of a region.
    min_rows : int, default=100
        Least number of rows of a region in each half.
    level : float in (0, 1), default=0.05
        Largest probability of a false region, if the errors equal their expected values everywhere. It holds
        for any number of rows and any distribution of the losses of independent rows, for given `expected`.
        The overall error of the same rows varies less than a region's error.
    random_state : int, RandomState instance or None, default=None
        Seed of the split into halves.

    Attributes
    ----------
    regions_ : list of WeakRegion
        The regions, by decreasing excess error. The list may be empty.
    n_tested_ : int
        Number of leaves that were tested.

    See Also
    --------
    certify : Bounds for each region on fresh rows.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost import WeakRegions
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> errors = rng.random(4000) < np.where(X[:, 1] > 1, 0.5, 0.1)
    >>> regions = WeakRegions(max_depth=1, random_state=0).fit(X, errors)
    >>> [region.name for region in regions.regions_]
    ['x1 > 1.033']
    >>> sorted(set(regions.transform(X)))
    ['other', 'x1 > 1.033']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_depth": [Interval(Integral, 1, None, closed="left")],
        "min_rows": [Interval(Integral, 2, None, closed="left")],
        "level": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, *, max_depth: int = 3, min_rows: int = 100, level: float = 0.05, random_state: Seed = None
    ) -> None:
        self.max_depth = max_depth
        self.min_rows = min_rows
        self.level = level
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Table, errors: object, expected: object = None) -> Self:
        """Find the regions.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            The features. Text columns are compared by value. Missing values are allowed.
        errors : array of shape (n,)
            The loss of each row in [0, 1], for example ``model.predict(X) != y``. The model must not have
            been fitted on these rows.
        expected : array of shape (n,), optional
            The expected loss of each row in [0, 1], for example one minus the largest probability of the
            model. By default the overall error.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a length differs from that of `X`, if losses lie outside of [0, 1], or if there are fewer than
            two times `min_rows` rows.
        """
        with fitting_apart(self) as fitted:
            fitted._learn(X, errors, expected)
        return self

    def _learn(self, X: Table, errors: object, expected: object) -> None:
        check_indexes(X=X, errors=errors, expected=expected)
        n = n_rows_of(X)
        losses = _losses(errors, "errors", n)
        if n < 2 * self.min_rows:
            raise ValueError(
                f"X has {n} rows; min_rows={self.min_rows} in each half needs {2 * self.min_rows}"
            )
        expectation = np.full(n, losses.mean()) if expected is None else _losses(expected, "expected", n)
        excess = losses - expectation
        table = self._encode(X, fit=True)
        is_test = np.zeros(n, bool)
        is_test[check_random_state(self.random_state).permutation(n)[: n // 2]] = True
        grown = excess[~is_test]
        self.tree_ = DecisionTreeRegressor(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_rows,
            ccp_alpha=PRUNING * float(np.var(grown)) / len(grown),
            random_state=0,
        ).fit(table[~is_test], grown)
        mean_excess = self.tree_.tree_.value[:, 0, 0]
        leaf = self.tree_.apply(table)
        rows_of = {int(k): is_test & (leaf == k) for k in np.unique(leaf)}
        tested = [k for k, rows in rows_of.items() if mean_excess[k] > 0 and rows.sum() >= self.min_rows]
        self.n_tested_ = len(tested)
        conditions, regions = self._conditions(), {}
        for k in tested:
            rows = rows_of[k]
            p_value = _p_value(losses[rows], expectation[rows], self.level / self.n_tested_)
            p_value = min(1.0, self.n_tested_ * p_value)
            if p_value <= self.level:
                error, expected_error = float(losses[rows].mean()), float(expectation[rows].mean())
                regions[k] = WeakRegion(conditions[k], int(rows.sum()), error, expected_error, p_value)
        self._leaves = sorted(regions, key=lambda k: regions[k].expected - regions[k].error)
        self.regions_ = [regions[k] for k in self._leaves]

    def transform(self, X: Table) -> Any:
        """Return the name of the region of each row, "other" outside of all regions.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of str, shape (n,)
        """
        check_is_fitted(self, "regions_")
        leaf = self.tree_.apply(self._encode(X, fit=False))
        names = np.full(len(leaf), OTHER, dtype=object)
        for k, region in zip(self._leaves, self.regions_, strict=True):
            names[leaf == k] = region.name
        return names

    def _encode(self, X: Table, fit: bool) -> Floats:
        """Return a table of numbers; text columns become one column of zeros and ones for each value."""
        if not hasattr(X, "columns"):
            table = _numbers(X)
            if fit:
                self.names_, self.n_numbers_ = [f"x{j}" for j in range(table.shape[1])], table.shape[1]
            return table
        frame = as_pandas(X)
        if fit:
            numbers = frame.select_dtypes(["number", "bool"]).columns
            texts = frame.columns.difference(numbers, sort=False)
            one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            self.encoder_ = make_column_transformer(("passthrough", numbers), (one_hot, texts)).fit(frame)
            fitted = self.encoder_.transformers_[1][1]
            pairs = zip(texts, fitted.categories_ if len(texts) else (), strict=True)
            values = [f"{column} = {value}" for column, of_column in pairs for value in of_column]
            self.names_, self.n_numbers_ = [*map(str, numbers), *values], len(numbers)
        return np.asarray(self.encoder_.transform(frame), float)

    def _conditions(self) -> dict[int, str]:
        """Return the conditions of each node of the tree; two bounds of one number become one interval."""
        tree = self.tree_.tree_
        conditions: dict[int, str] = {}
        stack: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
        while stack:
            node, bounds = stack.pop()
            conditions[node] = " and ".join(self._condition(j, *b) for j, b in bounds.items()) or "all rows"
            if tree.children_left[node] < 0:
                continue
            j, cut = int(tree.feature[node]), float(tree.threshold[node])
            low, high = bounds.get(j, (-np.inf, np.inf))
            stack.append((int(tree.children_left[node]), bounds | {j: (low, min(high, cut))}))
            stack.append((int(tree.children_right[node]), bounds | {j: (max(low, cut), high)}))
        return conditions

    def _condition(self, j: int, low: float, high: float) -> str:
        name = self.names_[j]
        if j >= self.n_numbers_:
            return name if low > -np.inf else name.replace(" = ", " ≠ ", 1)
        if low == -np.inf:
            return f"{name} <= {high:.4g}"
        return f"{name} > {low:.4g}" if high == np.inf else f"{low:.4g} < {name} <= {high:.4g}"

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["region", "rows", "error", "expected", "p"]
        return heads, [
            [r.name, str(r.n_rows), f"{r.error:.3f}", f"{r.expected:.3f}", f"{r.p_value:.2g}"]
            for r in self.regions_
        ]

    def summary(self) -> str:
        """Return the regions as a table of text."""
        check_is_fitted(self, "regions_")
        if not self.regions_:
            return f"No weak region: none of {self.n_tested_} tested leaves has a significant excess error."
        return text_table(*self._rows())

    def _repr_html_(self) -> str:
        return html_table(*self._rows(), caption="Weak regions") if hasattr(self, "regions_") else repr(self)


def _numbers(X: Table) -> Floats:
    """Return an array of features as numbers; name a column of texts."""
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"X must be a table of n rows and d columns, got shape {array.shape}")
    try:
        return array.astype(float)
    except (TypeError, ValueError):
        for j, column in enumerate(array.T):
            for value in column.tolist():
                try:
                    float(value)
                except (TypeError, ValueError):
                    raise ValueError(
                        f"X: column {j} holds {value!r}, which is no number; give a data frame, whose text "
                        "columns are compared by value"
                    ) from None
        raise


def _losses(values: Column, name: str, n: int) -> Floats:
    losses = finite(values, name)
    check_length(losses, name, n)
    if losses.ndim != 1 or ((losses < 0) | (losses > 1)).any():
        raise ValueError(f"{name} must be one number in [0, 1] for each row")
    return losses


def _p_value(losses: Floats, expected: Floats, level: float) -> float:
    """Return a p-value of the losses of independent rows for means of at most ``expected``, at a level.

    A t test is too small for losses that are skewed to the left: a few rows may hold none of the small ones.
    """
    n, mean = len(losses), float(expected.mean())
    if np.isin(losses, (0.0, 1.0)).all():
        # Hoeffding 1956: of all sums of independent 0 and 1 with the same mean, the binomial one has the
        # largest tail from one above the mean on.
        count = float(losses.sum())
        return float(binom.sf(count - 1.0, n, mean)) if count - 1.0 >= n * mean else 1.0
    # The excess lies in [−a, b]. Bets are on the distance from b, in units of a + b.
    a, b = float(expected.max()), 1.0 - float(expected.min())
    if a == 0.0:
        return 0.0 if losses.any() else 1.0
    return betting_p_value((b - (losses - expected)) / (a + b), b / (a + b), level)
