"""Class probabilities of the models, averages of them, and probabilities p(s | x) of the strata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import gammaln, log_softmax, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from tailboost.core.array_types import Floats, Ints, Mask, Model, Table
from tailboost.core.checks import (
    as_pandas,
    as_table,
    check_probabilities,
    has_named_columns,
    in_class_order,
    n_rows_of,
    take,
)
from tailboost.core.long_work import one_blas_thread
from tailboost.core.warn import warn_user
from tailboost.learners import HistBoostClassifier
from tailboost.learners.scores import GivenProbabilities, Scores, only_scores
from tailboost.learners.table import TableReader
from tailboost.rates import Strata
from tailboost.rows.fingerprints import (
    RowHashes,
    hash_rounded_rows,
    hash_rows,
    stratified_places,
)
from tailboost.rows.rows import N_TINY_HASHES, Rows
from tailboost.selection.data import Candidate, Singles, decide, expected_costs, spread

# Least probability. A class of probability 0 must still be predicted if its class weight is large enough.
LEAST_PROBABILITY = 1e-6
# Rows of probabilities may differ from 1 by this much, because printed numbers are rounded.
SUM_TOLERANCE = 1e-2
# Pseudo-rows that shrink the weights towards equal ones and the offsets towards 0. With 10 instead of 1 the
# preference-weighted error is .0037 ± .0031 lower for 300 rows of selection data (33 tables). With all rows
# there is no difference.
PSEUDO_ROWS = 10.0
# About the most rows on which the average is fitted: only M + K numbers are learned.
MOST_ROWS = 2**17
# Relative increase of the penalised log loss up to which a model gets no weight. It then takes no time in
# predictions. On 12 tables log loss and error rose by at most .0001, and 10⁵ rows took at most 1.2 s less
# (`benchmarks/prediction.py`).
IDLE = 2e-4
# Learned numbers are rounded to multiples of this number, so the order of the rows does not change them.
GRAIN = 2.0**-12
# Relative difference of weights that counts as rounding.
SAME_WEIGHT = 1e-12
# The least number of rows of a class in the test of the column order, which assumes normal sums.
LEAST_ROWS = 20
# Probability of a false alarm of this test, over all orders of the columns.
FALSE_ALARMS = 1e-6


@dataclass(frozen=True)
class Average:
    """The logarithms of ``softmax(Σ_i w_i log p_i + b)``.

    Learned weights lower the preference-weighted error by .0043 ± .0029 compared with equal weights
    (25 tables, 3 splits).
    """

    # Shape (M,): w ≥ 0. A sum above 1 sharpens the probabilities of the models, a sum below 1 flattens them.
    weights: Floats
    offset: Floats  # shape (K,): b

    @classmethod
    @one_blas_thread
    def learned(cls, logs: Sequence[Floats], rows: Rows) -> Average:
        """Return the average with the least log loss on rows; the problem is convex.

        A model gets no weight if the loss hardly rises without it. The model with the smallest effect on the
        scores is tried first.
        """
        M, (n, K) = len(logs), logs[0].shape
        # Offsets of a row have no effect; centring keeps rounding errors small.
        A = [log - log.mean(axis=1, keepdims=True) for log in logs]
        truth = (np.arange(n), rows.y)
        weight = rows.weight[:, None]
        start = np.r_[np.full(M, 1.0 / M), np.zeros(K)]

        def loss(t: Floats) -> tuple[float, Floats]:
            z = log_softmax(sum(w * a for w, a in zip(t, A, strict=False)) + t[M:], axis=1)
            value = float(PSEUDO_ROWS / 2 * ((t - start) ** 2).sum() - rows.weight @ z[truth])
            residual = np.exp(z)
            residual[truth] -= 1.0
            residual *= weight
            gradient = np.r_[[np.vdot(a, residual) for a in A], residual.sum(axis=0)]
            return value, gradient + PSEUDO_ROWS * (t - start)

        options = {"ftol": 1e-13, "gtol": 1e-6 * float(rows.weight.sum())}
        spread = np.sqrt([np.vdot(a, weight * a) for a in A])

        def best(used: Ints) -> tuple[Floats, float]:
            bounds = [(0.0, None if i in used else 0.0) for i in range(M)] + [(None, None)] * K
            result = minimize(
                loss, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options
            )
            return result.x, float(result.fun)

        t, least = best(np.arange(M))
        while len(used := np.flatnonzero(t[:M] > 0.0)) > 1:
            others = np.delete(used, (t[used] * spread[used]).argmin())
            without, value = best(others)
            if value > (1.0 + IDLE) * least:
                break
            t = without
        t = np.rint(t / GRAIN) * GRAIN
        return cls(t[:M], t[M:])

    @property
    def asked(self) -> Ints:
        """Numbers of the models with positive weight; all models if no weight is positive."""
        used = self.weights > 0.0
        return np.flatnonzero(used | ~used.any())

    def of(self, logs: Iterable[Floats]) -> Floats:
        """Return the average of the log-probabilities of the models in `asked`, shape (n, K)."""
        total = sum(w * log for w, log in zip(self.weights[self.asked], logs, strict=True))
        average: Floats = log_softmax(total + self.offset, axis=1)
        return average


@dataclass(eq=False)
class LogProbabilities:
    """Log-probabilities of some rows by model, shape (n, K) each, computed when they are read."""

    n_rows: int  # n
    of_model: Callable[[int], Floats]  # returns the log-probabilities of model i
    groups: Ints | None = (
        None  # shape (n,): number of the group of each row, for group-aware rules
    )
    n_models: int = 0
    X: Table = None  # features of the rows, from which groups are estimated
    average: Average | None = None  # weights of the models; None for equal weights
    # Returns the score of each row, if the models are one `Scores` column and read this table.
    scores: Callable[[], Floats] | None = None
    _computed: dict[Any, Any] = field(init=False, default_factory=dict)

    @classmethod
    def of(
        cls,
        tables: Sequence[Floats],
        groups: Ints | None = None,
        average: Average | None = None,
    ) -> LogProbabilities:
        """Return the table of computed log-probabilities."""
        return cls(len(tables[0]), tables.__getitem__, groups, len(tables), average=average)

    def knowing(self, groups: Ints | None) -> LogProbabilities:
        """Return the table with the groups of the rows."""
        return replace(self, groups=groups)

    def __getitem__(self, model: int) -> Floats:
        logs: Floats = self.derived(model, lambda: self.of_model(model))
        return logs

    @cached_property
    def pooled(self) -> Floats:
        """The average of all models' log-probabilities, shape (n, K)."""
        if self.average is not None:
            return self.average.of(self[i] for i in self.average.asked.tolist())
        mean: Floats = np.mean([self[i] for i in range(self.n_models)], axis=0)
        return mean

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``, which is called once for each key."""
        if key not in self._computed:
            self._computed[key] = make()
        return self._computed[key]


def check_named(probabilities: Table) -> None:
    """Raise unless probabilities are given by name."""
    if not has_named_columns(probabilities):
        raise TypeError(
            f"probabilities must be a dict of arrays by name, got {type(probabilities).__name__}"
        )
    if not probabilities:
        raise ValueError("probabilities must hold those of at least one model, got {}")
    other = [name for name in probabilities if not isinstance(name, str)]
    if other:
        raise TypeError(f"probabilities: names must be text, got {other[0]!r}")


def stacked(
    probabilities: Mapping[str, Any],
    names: Sequence[str],
    classes: NDArray[Any],
    n_rows: int | None = None,
) -> Floats:
    """Return given probabilities by model as an array of shape (n, M, K); NaN for models that are left out.

    The columns of a data frame are found by label.

    Raises
    ------
    ValueError
        If a name is unknown, an array holds no probabilities of the classes, or numbers of rows differ.
    """
    check_named(probabilities)
    stray = set(probabilities) - set(names)
    if stray:
        raise ValueError(
            f"probabilities: no model is called {sorted(map(str, stray))}; there are {names}"
        )
    first = next(iter(probabilities))
    of = "y"
    if n_rows is None:
        n_rows = len(np.asarray(probabilities[first]))
        of = f"probabilities[{first!r}]"
    P = np.full((n_rows, len(names), len(classes)), np.nan)
    for i, name in enumerate(names):
        if name in probabilities:
            called = f"probabilities[{name!r}]"
            given = in_class_order(probabilities[name], called, classes)
            P[:, i] = checked(given, called, n_rows, len(classes), of)
    return P


def checked(probabilities: Table, name: str, n_rows: int, n_classes: int, of: str) -> Floats:
    """Return the probabilities of one model, shape (n, K).

    Raises
    ------
    ValueError
        If the array holds no probabilities of n rows and K classes.
    """
    shape = np.shape(probabilities)
    if len(shape) == 1:
        n_columns = 2
    elif shape:
        n_columns = shape[-1]
    else:
        n_columns = 0
    if n_columns != n_classes:
        raise ValueError(
            f"{name} has {n_columns} column{'s' * (n_columns != 1)}, but there are {n_classes} classes: one "
            "column for each, in the order of `classes`"
        )
    return check_probabilities(probabilities, n_rows, name, of, tolerance=SUM_TOLERANCE)


def logs_of(probabilities: Floats, least: float = LEAST_PROBABILITY) -> Floats:
    """Return the log-probabilities of checked ones, shape (n, K); no probability is below ``least``."""
    P = probabilities.clip(min=0.0)
    logs: Floats = np.log(np.maximum(P / P.sum(axis=1, keepdims=True), least))
    return logs


@dataclass(eq=False)
class Models:
    """The models behind the candidates, and the weights of their average."""

    names: list[str]
    n_classes: int  # K
    fitted: list[Any]  # the models
    columns: list[Ints]  # class number of each column of a model's probabilities
    average: Average | None = None  # learned on the selection data; None for equal weights

    @classmethod
    def given(
        cls, names: Sequence[str], classes: NDArray[Any], average: Average | None = None
    ) -> Models:
        """Return models whose probabilities are given as an array of shape (n, M, K), see `stacked`."""
        K = len(classes)
        names = list(names)
        fitted = [
            FrozenEstimator(GivenProbabilities(name, i, classes))
            for i, name in enumerate(names)
        ]
        return cls(names, K, fitted, [np.arange(K)] * len(names), average)

    @property
    def are_given(self) -> bool:
        """Whether only the probabilities of the models are known."""
        return isinstance(getattr(self.fitted[0], "estimator", None), GivenProbabilities)

    @property
    def pooled_models(self) -> list[int]:
        """Numbers of the models in the average."""
        if self.average is None:
            return list(range(len(self.names)))
        return self.average.asked.tolist()

    @property
    def score(self) -> Scores | None:
        """The only model, if it is a single column of scores."""
        if len(self.fitted) == 1:
            score = getattr(self.fitted[0], "estimator", None)
        else:
            score = None
        if isinstance(score, Scores) and len(score.column_list) == 1:
            return score
        return None

    def words(self, model: int | None = None) -> str:
        """Return the name of one model, or of the average of all models."""
        average = self.average
        names = self.names
        if model is not None or len(names) == 1:
            return names[model or 0]
        if average is None:
            return f"mean({', '.join(names)})"
        return " + ".join(
            f"{average.weights[i]:.2g} {names[i]}" for i in average.asked.tolist()
        )

    def pool(self, table: LogProbabilities) -> Floats:
        """Return P(y | x) of the rows of a table by all models, shape (n, K)."""
        return softmax(table.pooled, axis=1)

    def transform(self, X: Table) -> LogProbabilities:
        """Return the log-probabilities of the rows of a table; models predict when they are read."""
        read = cache(
            lambda reader: reader.transform(X)
        )  # models of one opened table share a reader

        def logs(i: int) -> Floats:
            return self.logs(i, self.fitted[i], self.columns[i], X, read)

        score = self.score
        if score is None:
            scores = None
        else:
            scores = cache(lambda: score.values(X)[:, 0])
        return LogProbabilities(
            n_rows_of(X), logs, None, len(self.names), X, self.average, scores
        )

    def row_hashes(self, X: Table, given: Collection[str] | None = None) -> RowHashes:
        """Return the hashes of rows: of the checked table, and of the scores that single models read.

        Probabilities count as scores if they are given, those of the models ``given`` by name.
        """
        table = self.transform(X)
        read = {}
        for i, name in enumerate(self.names):
            if only_scores([self.fitted[i]]) and (given is None or name in given):
                read[name] = hash_rounded_rows(table[i])
        return RowHashes(hash_rounded_rows(as_table(X)), read)

    def logs(
        self,
        i: int,
        model: Model,
        columns: Ints,
        X: Table,
        read: Callable[[Any], Any] | None = None,
    ) -> Floats:
        """Return the log-probabilities of a model, with the name of model i in errors.

        ``columns`` are the class numbers of its probabilities. A model with ``predict_proba_table`` predicts
        from the prepared rows, ``read(model.table_)``.
        """
        n_rows = n_rows_of(X)
        whole = np.zeros((n_rows, self.n_classes))
        if hasattr(model, "predict_proba_table") and not isinstance(model, FrozenEstimator):
            # A model of an opened table checks columns, not the feature names of scikit-learn.
            whole[:, columns] = model.predict_proba_table(
                model.table_.transform(X) if read is None else read(model.table_)
            )
        else:
            whole[:, columns] = model.predict_proba(X)
        return logs_of(
            checked(whole, f"predict_proba of {self.names[i]!r}", n_rows, self.n_classes, "X")
        )


@dataclass(frozen=True)
class ModelOutputs:
    """Out-of-fold log-probabilities of models: all that the selection depends on."""

    models: Models
    logs: tuple[Floats, ...]  # log-probabilities of each model, shape (n, K)
    rows: Rows  # the selection data
    unlabeled: ModelOutputs | None = None  # of further rows without labels

    @classmethod
    def of(cls, models: Models, logs: Sequence[Floats], rows: Rows) -> ModelOutputs:
        """Return the outputs with hashes of the rows by features and probabilities.

        Rows with equal hashes are one row; without hashes of the features all rows are different. Equal
        weights of any scale become 1.
        """
        if np.ptp(rows.weight) <= SAME_WEIGHT * rows.weight.max():
            rows = replace(rows, weight=np.ones(len(rows.y)))
        if rows.row_hashes is None:
            number = np.arange(len(rows.y))
        else:
            keys = np.column_stack(
                [hash_rows(np.hstack(logs)), rows.row_hashes.astype(np.uint64)]
            )
            number = np.unique(keys, axis=0, return_inverse=True)[1]
        return cls(
            models,
            tuple(logs),
            replace(rows, row_hashes=(number.ravel() % N_TINY_HASHES).astype(np.uint16)),
        )

    def with_unlabeled(self, X: Table, rows: Rows) -> ModelOutputs:
        """Return the outputs with those of the models on rows without labels, with features X."""
        table = self.models.transform(X)
        logs = tuple(table[i] for i in range(len(self.models.names)))
        return replace(self, unlabeled=ModelOutputs(self.models, logs, rows))

    def check_order(self, classes: NDArray[Any]) -> None:
        """Warn if the probabilities of a model fit the labels better in another order of the columns."""
        y = self.rows.y
        for name, logs in zip(self.models.names, self.logs, strict=True):
            order = better_order(logs, y)
            if order is None:
                continue
            predicted = logs.argmax(axis=1)
            warn_user(
                f"probabilities[{name!r}]: the label has the largest probability in "
                f"{np.mean(predicted == y):.0%} of {self.rows.words} with columns in the order "
                f"{classes.tolist()}, and in {np.mean(predicted == order[y]):.0%} with "
                f"{classes[np.argsort(order)].tolist()}: is `classes=` right?"
            )

    @property
    def table(self) -> LogProbabilities:
        """The log-probabilities by model."""
        return LogProbabilities.of(self.logs, self.rows.groups, self.models.average)


def averaging(judged: ModelOutputs) -> ModelOutputs:
    """Return the outputs with the average of the models, fitted on the selection data."""
    rows = judged.rows
    logs = judged.logs
    if len(rows.y) > MOST_ROWS and rows.row_hashes is not None:
        chosen = rows.row_hashes < N_TINY_HASHES * (MOST_ROWS / len(rows.y))
        rows = rows.part(chosen)
        logs = tuple(log[chosen] for log in logs)
    return replace(judged, models=replace(judged.models, average=Average.learned(logs, rows)))


def better_order(logs: Floats, y: Ints) -> Ints | None:
    """Return the column that fits each class, if another order fits the labels significantly better.

    The best order maximises the sum of the probabilities of the true class, less the means of the columns. A
    useless model has a best order too. So the gain must be larger than for shuffled labels:
    z² ≥ 2 log(K!/10⁻⁶), with the exact mean and variance of the gain over all shuffles (Hoeffding 1951) and a
    normal tail for each of the K! orders.
    """
    K = logs.shape[1]
    P = np.exp(logs)
    counts = np.bincount(y, minlength=K)
    sums = np.zeros((K, K))
    np.add.at(sums, y, P - P.mean(axis=0))
    large = np.flatnonzero(counts >= LEAST_ROWS)
    order = np.arange(K)
    order[large] = large[linear_sum_assignment(sums[np.ix_(large, large)], maximize=True)[1]]
    moved = np.flatnonzero(order != np.arange(K))
    if not len(moved):
        return None
    rows = np.isin(y, moved)
    gain = P[rows][:, order[moved]] - P[rows][:, moved]  # gain of each row for each class
    share = counts[moved] / rows.sum()
    gain -= gain.mean(axis=0)
    gain -= (gain @ share)[:, None]
    total = gain[np.arange(len(gain)), np.searchsorted(moved, y[rows])].sum()
    variance = (gain**2 @ counts[moved]).sum() / (len(gain) - 1)
    surprise = 2 * (gammaln(K + 1) - np.log(FALSE_ALARMS))
    if total > 0 and total**2 >= surprise * variance > 0:
        return order
    return None


# Folds of the group models.
FOLDS = 3
# The calibration raises smaller probabilities to this one.
LEAST = 1e-4
# Maximum number of rows for the fit of a calibration.
CALIBRATION_ROWS = 20_000
# Maximum number of strata with a calibration. Without calibration, rules under limits become constants with
# six groups. With up to four groups calibration shows no effect.
CALIBRATED_STRATA = 60
# A column whose groups have a larger mean probability out of fold is known from the features. A calibration
# would fit the tiny probabilities of its other groups, which differ after the refit. With factors instead the
# largest error of a cell on new rows was .145 ± .126 lower (9 problems of 5 tables), and of 26 limits 13 held
# instead of 9. With a known and an unknown column, the calibration of the unknown one alone gave .138 ± .062
# less than that of both (8 tables, 2 splits, with and without draws), and of 160 limits 113 held instead of
# 108.
KNOWN = 0.99
# Steps of iterative scaling that fit the factors of the strata.
SCALINGS = 30
# The most strata for which the calibration takes Newton steps.
NEWTON_STRATA = 20
# Offset of a stratum without rows in a calibration, a logarithm.
NEVER = -60.0


@dataclass(eq=False)
class GroupModel:
    """p(g | x, y) for the groups of one column."""

    n_classes: int  # K
    n_values: int  # number of groups in the column
    model: Model  # classifier fitted on features and class; None if the prior is used instead
    present: Ints  # groups in the training rows
    prior: Floats  # shape (K, n_values): frequencies of the groups in each class

    @classmethod
    def fit(
        cls, X: Table, y: Ints, group: Ints, weight: Floats, n_classes: int, n_values: int
    ) -> GroupModel:
        """Return the model fitted on rows of classes ``y`` and groups ``group``, with positive weights."""
        present, index = np.unique(group, return_inverse=True)
        model = None
        constant = (
            isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and not np.ptp(X, axis=0).any()
        )
        if (
            len(present) > 1 and not constant
        ):  # small, because the model is fitted several times
            model = HistBoostClassifier(
                n_estimators=60, max_depth=5, learning_rate=0.15, min_child_weight=5.0
            )
            model.fit(with_class(X, y, n_classes), index, sample_weight=weight)
        mass = np.bincount(y * n_values + group, weight, n_classes * n_values).reshape(
            n_classes, n_values
        )
        prior = (
            mass + mass.sum(axis=0) / mass.sum()
        )  # a pseudo-row of all classes keeps groups possible
        return cls(
            n_classes, n_values, model, present, prior / prior.sum(axis=1, keepdims=True)
        )

    def predict(self, X: Table) -> Floats:
        """Return p(g | x, y) for every class, shape (K, n_values, n)."""
        n = n_rows_of(X)
        probabilities = np.zeros((self.n_classes, self.n_values, n))
        for k in range(self.n_classes):
            if self.model is None:
                probabilities[k] = self.prior[k][:, None]
            else:
                table = with_class(X, np.full(n, k, dtype=np.intp), self.n_classes)
                probabilities[k, self.present] = np.asarray(self.model.predict_proba(table)).T
        return probabilities


def with_class(X: Table, y: Ints, n_classes: int) -> Any:
    """Return a table with indicator columns of the class appended."""
    indicators = (y[:, None] == np.arange(1 if n_classes == 2 else n_classes)).astype(
        np.float64
    )
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        table = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1)
        return table.assign(**{f"y{k}": column for k, column in enumerate(indicators.T)})
    if scipy.sparse.issparse(X):
        return scipy.sparse.hstack([X, indicators], format="csr")
    table = np.asarray(X)
    return np.column_stack([table.reshape(len(table), -1), indicators])


@dataclass(eq=False)
class Calibration:
    """Multinomial regression of the stratum on the logarithms of the stratum probabilities."""

    slopes: Floats  # shape (S, S): one row for each stratum
    offsets: Floats  # shape (S,)

    @classmethod
    @one_blas_thread
    def fit(cls, probabilities: Singles, stratum: Ints, weights: Floats) -> Calibration:
        """Return the calibration of probabilities of shape (S, n) on rows with known strata.

        Slopes are shrunk towards 0, so that probabilities of strata with few rows count less. Shrinking
        towards the identity lowers the log loss, but the selected rules err more if there are many strata.
        """
        n_strata = len(probabilities)
        rows = spread(stratum, CALIBRATION_ROWS)
        # Sorted, because the sums are rounded: the result must not depend on the order of the rows.
        rows = rows[np.lexsort([*probabilities[:, rows], stratum[rows]])]
        logs = np.log(np.maximum(probabilities[:, rows].T.astype(np.float64), LEAST))
        slopes = np.zeros((n_strata, n_strata))
        offsets = np.full(n_strata, NEVER)
        present = np.unique(stratum[rows])
        if len(present) == 1:
            offsets[present] = 0.0
            return cls(slopes, offsets)
        weight = _sample_weights(stratum, weights, rows, n_strata) * len(stratum)
        if n_strata <= NEWTON_STRATA:
            solver = "newton-cholesky"
        else:
            solver = "lbfgs"
        model = LogisticRegression(solver=solver, max_iter=100, tol=1e-3)
        model.fit(logs, stratum[rows], sample_weight=weight)
        if len(present) == 2:
            slopes[present[1]], offsets[present] = (
                model.coef_[0],
                [0.0, float(model.intercept_[0])],
            )
        else:
            slopes[present], offsets[present] = model.coef_, model.intercept_
        return cls(slopes, offsets)

    def apply(self, probabilities: Floats) -> Floats:
        """Return calibrated probabilities, shape (S, n); each row is computed independently of the others."""
        logs = np.log(np.maximum(probabilities, LEAST))
        scores = np.repeat(self.offsets[:, None], probabilities.shape[1], axis=1)
        for s, t in zip(*np.nonzero(self.slopes), strict=True):
            scores[s] += self.slopes[s, t] * logs[t]
        return _softmax(scores)


def _sample_weights(stratum: Ints, weights: Floats, rows: Ints, n_strata: int) -> Floats:
    """Return the weights of a sample of the rows, by which each stratum keeps its mass."""
    mass = np.bincount(stratum, weights, n_strata)
    sampled = np.bincount(stratum[rows], weights[rows], n_strata)
    return weights[rows] * (mass / np.maximum(sampled, 1e-300))[stratum[rows]]


def _softmax(scores: Floats) -> Floats:
    exponentials: Floats = np.exp(scores - scores.max(axis=0))
    return exponentials / _summed(exponentials)


def _summed(values: Floats) -> Floats:
    """Return the sum over the first axis in its order; NumPy's order depends on the number of columns."""
    total: Floats = values[0].copy()
    for row in values[1:]:
        total += row
    return total


@dataclass(eq=False)
class StratumProbabilities:
    """p(s | x) = p(y | x) p(g | x, y): class models, and group models for a group-blind rule."""

    n_classes: int  # K
    combinations: (
        Ints  # shape (G, c): the combinations of groups, as numbers of values by column
    )
    group_aware: bool  # whether rules read the group
    # Whether groups are estimated from the features of a row, or from the probabilities of all models.
    by_features: bool = True
    group_models: list[GroupModel] = field(default_factory=list)  # one for each column
    # Of the strata of the class and of the columns that the features leave unknown.
    calibration: Calibration | None = None
    # Shape (G,): the number of each combination if only the unknown columns are told apart.
    unknown: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    # Shape (S, 1), of groups that are read or known: factors of each class in each group, fitted by log loss.
    factors: Floats | None = None

    @property
    def infers(self) -> bool:
        """Whether groups are estimated."""
        return len(self.combinations) > 1 and not self.group_aware

    @property
    def estimates_groups(self) -> bool:
        """Whether groups are estimated for each row; their frequencies in each class serve otherwise."""
        return self.infers and any(each.model is not None for each in self.group_models)

    def fit_groups(
        self, X: Table, y: Ints, groups: Ints, weight: Floats, strata: Strata
    ) -> Singles:
        """Fit the group models, and return p(combination | x, y) out of fold, shape (K, G, n).

        ``groups`` are the values by column, shape (n, c). The folds are stratified by ``strata``, and rows of
        equal content share a fold.
        """
        n = len(y)
        stratum = strata.number(y, strata.find(groups))
        if hasattr(X, "shape"):
            X = X
        else:
            X = np.asarray(X)
        fold = stratified_places(hash_rows(X), stratum, weight) % FOLDS
        by_column = []
        self.group_models = []
        for column, values in zip(groups.T, strata.values, strict=True):
            sizes = self.n_classes, len(values)
            out = np.empty((*sizes, n))
            whole = GroupModel.fit(X, y, column, weight, *sizes)
            for j in np.unique(fold):
                rest = np.flatnonzero(fold != j)
                held = np.flatnonzero(fold == j)
                part = whole
                if len(rest):
                    part = GroupModel.fit(
                        take(X, rest), y[rest], column[rest], weight[rest], *sizes
                    )
                out[:, :, held] = part.predict(take(X, held))
            predicted = np.maximum(out[y, column, np.arange(n)], LEAST)
            if weight @ np.log(predicted / whole.prior[y, column]) <= 0.0:
                # Out of fold, the features predict the group no better than its frequencies do.
                whole = replace(whole, model=None)
                out = np.repeat(whole.prior[:, :, None], n, axis=2)
            by_column.append(out)
            self.group_models.append(whole)
        return self._joined(by_column)

    def _joined(self, by_column: Sequence[Floats]) -> Singles:
        """Return p(combination | x, y), shape (K, G, n), as if columns were independent given x and y."""
        K, _, n = by_column[0].shape
        joined = np.ones((K, len(self.combinations), n))
        for j, probabilities in enumerate(by_column):
            joined *= probabilities[:, self.combinations[:, j]]
        if len(by_column) > 1:
            for k in range(K):
                joined[k] /= np.maximum(_summed(joined[k]), 1e-300)
        return joined.astype(np.float32)

    def groups_of(self, X: Table) -> Singles:
        """Return p(combination | x, y) of new rows, shape (K, G, n)."""
        if not n_rows_of(X):
            return np.empty((self.n_classes, len(self.combinations), 0), dtype=np.float32)
        return self._joined([model.predict(X) for model in self.group_models])

    def predict(
        self, logs: Floats, groups: Singles | None = None, combination: Ints | None = None
    ) -> Singles:
        """Return p(s | x) of some rows, shape (S, n).

        ``logs`` are logarithms of p(y | x), up to a constant in each row, shape (n, K). ``groups`` is
        p(combination | x, y), shape (K, G, n), if groups are estimated. A group-aware rule needs the number
        of the combination of groups of each row.
        """
        # The same numbers as below, in .06 seconds instead of 1.0 for 10⁶ rows of two classes and ten groups.
        if self.group_aware and combination is not None:
            by_class = _softmax(np.ascontiguousarray(logs.T))
            G = len(self.combinations)
            if (
                self.factors is not None
            ):  # sums of 1 make the gains of deferral comparable between rows
                by_class = by_class * self.factors.reshape(-1, G)[:, combination]
                by_class /= np.maximum(_summed(by_class), 1e-300)
            result = np.zeros((len(by_class), G, len(combination)), dtype=np.float32)
            result[:, combination, np.arange(len(combination))] = by_class
            return result.reshape(len(by_class) * G, -1)
        joint = self._calibrated(self.joint(logs, groups, combination))
        if self.factors is not None:
            joint = joint * self.factors
            joint /= np.maximum(_summed(joint), 1e-300)
        return np.ascontiguousarray(joint, dtype=np.float32)

    def joint(self, logs: Floats, groups: Singles | None, combination: Ints | None) -> Floats:
        """Return p(s | x) before calibration, shape (S, n)."""
        by_class = _softmax(np.ascontiguousarray(logs.T))
        G = len(self.combinations)
        if G == 1:
            return by_class
        if self.group_aware:
            assert combination is not None
            groups = (combination == np.arange(G)[:, None])[None]
        assert groups is not None
        return (by_class[:, None, :] * groups).reshape(len(by_class) * G, -1)

    def _pooled(self, joint: Floats) -> Floats:
        """Return the probabilities of class and unknown columns, the sums over all known columns."""
        n = joint.shape[1]
        n_unknown = int(self.unknown.max()) + 1
        by_class = joint.reshape(self.n_classes, len(self.unknown), n)
        pooled = np.zeros((self.n_classes, n_unknown, n))
        for g, u in enumerate(self.unknown):
            pooled[:, u] += by_class[:, g]
        return pooled.reshape(self.n_classes * n_unknown, n)

    def _calibrated(self, joint: Floats) -> Floats:
        """Return p(s | x) after the calibration; the known columns keep their conditional probabilities."""
        if self.calibration is None:
            return joint
        pooled = self._pooled(joint)
        ratio = self.calibration.apply(pooled) / np.maximum(pooled, 1e-300)
        by_class = ratio.reshape(self.n_classes, int(self.unknown.max()) + 1, joint.shape[1])
        calibrated: Floats = joint * by_class[:, self.unknown].reshape(joint.shape)
        return calibrated

    def _known(self, groups: Singles, stratum: Ints, weights: Floats) -> Mask:
        """Return which columns are known from the features, shape (c,); a column of one group is not."""
        y, combination = np.divmod(stratum, len(self.combinations))
        of_class = groups[y, :, np.arange(len(y))]
        true = self.combinations[combination]
        same = self.combinations[None] == true[:, None]  # shape (n, G, c)
        known: Mask = np.einsum("ng,ngc,n->c", of_class, same, weights) > KNOWN
        return known & (np.ptp(self.combinations, axis=0) > 0)

    def calibrate(
        self,
        logs: Floats,
        groups: Singles | None,
        combination: Ints | None,
        stratum: Ints,
        weights: Floats,
    ) -> None:
        """Fit the calibration of the unknown columns, and the factors by group, on rows with known strata."""
        G = len(self.combinations)
        known = np.ones(self.combinations.shape[1], dtype=bool)
        if groups is not None:
            known = self._known(groups, stratum, weights)
        self.unknown = np.unique(self.combinations[:, ~known], axis=0, return_inverse=True)[
            1
        ].reshape(-1)
        n_unknown = int(self.unknown.max()) + 1
        # Where nothing predicts the groups, a calibration would guess them from the class probabilities, and
        # a rule on one score would have bands.
        told = self.group_aware or self.estimates_groups
        if n_unknown > 1 and told and self.n_classes * n_unknown <= CALIBRATED_STRATA:
            pooled = self._pooled(self.joint(logs, groups, combination)).astype(np.float32)
            number = stratum // G * n_unknown + self.unknown[stratum % G]
            self.calibration = Calibration.fit(pooled, number, weights)
        if self.group_aware or (self.infers and known.any()):
            rows = spread(stratum, CALIBRATION_ROWS)
            joint = self._calibrated(
                self.joint(
                    logs[rows],
                    None if groups is None else groups[:, :, rows],
                    None if combination is None else combination[rows],
                )
            )
            mass = np.bincount(stratum, weights, len(joint))
            weight = _sample_weights(stratum, weights, rows, len(joint))
            self.factors = np.ones((len(joint), 1))
            for _ in range(SCALINGS):
                expected = (joint * self.factors / _summed(joint * self.factors)) @ weight
                self.factors[:, 0] *= mass / np.where(expected > 0, expected, 1.0)


# -- Candidates that answer by probabilities -----------------------------------------------------------------

# The most class weights that the name of a rule shows.
MOST_WEIGHTS = 10
# Class weights that differ by a smaller fraction are printed as equal.
EQUAL_WEIGHTS = 1e-9
# The most columns from which groups are estimated. Tables with more columns, such as images, use the models'
# probabilities.
MOST_FEATURES = 1000
# Powers β of the probabilities; labels are drawn from the result.
POWERS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class RulePart:
    """One selected candidate: action costs on an average of log-probabilities, or a draw from this average.

    With ``z_k = Σ_i weights[i] · log max(p_i,k, least_probability) + offsets[k]`` the expected cost of the
    action a is ``Σ_k exp(z_k) · action_costs[g][k][a]``. Here g is the group of the row for a group-aware
    rule, otherwise 0. The cheapest action is taken, the first of equal ones. Actions are the classes in their
    order and, if rows may be deferred, deferral. A draw has no action costs: it draws labels in proportion to
    ``exp(power · z_k)``.

    Attributes
    ----------
    weight : float
        Mixture weight λ, in (0, 1].
    weights : dict
        Weight of the log-probabilities of each model; empty for a constant.
    offsets : list of float
        One for each class.
    action_costs : list of lists, shape (groups or 1, K, actions), or None
        Cost of an action in a class; None for a draw.
    power : float or None
        Power of the probabilities, for a draw.
    inferred : bool
        Whether groups are estimated from the features. Then ``action_costs`` are by group, weighted by the
        probability of each group.
    """

    weight: float
    weights: dict[str, float]
    offsets: list[float]
    action_costs: list[list[list[float]]] | None = None
    power: float | None = None
    inferred: bool = False

    @property
    def defers(self) -> bool:
        """Whether the candidate may defer rows."""
        return self.action_costs is not None and len(self.action_costs[0][0]) > len(
            self.offsets
        )

    def logs(self, logs: Mapping[str, Floats], n: int) -> Floats:
        """Return z, shape (n, K), from the logarithms of the models' probabilities."""
        z = np.zeros((n, len(self.offsets))) + self.offsets
        for name, weight in self.weights.items():
            z = z + weight * logs[name]
        return z

    @property
    def plain(self) -> RulePart:
        """The same rule without learned weight and offsets, for one model of two classes.

        The learned weight w and the offsets b do not change the order of the rows, so the action costs can
        contain them. With the savings s of a right label, the second label is predicted if
        ``p_1^w e^{b_1} s_1 > p_0^w e^{b_0} s_0``.
        """
        costs = self.action_costs
        if len(self.weights) != 1 or costs is None or self.inferred or len(costs[0][0]) != 2:
            return self
        ((name, weight),) = self.weights.items()
        Q = np.array(costs)
        saved = np.stack([Q[:, 0, 1] - Q[:, 0, 0], Q[:, 1, 0] - Q[:, 1, 1]], axis=1) * np.exp(
            self.offsets
        )
        if weight <= 0 or (saved <= 0).any():
            return self
        saved = (saved / saved.max(axis=1, keepdims=True)) ** (1.0 / weight)
        action_costs = [[[0.0, first], [second, 0.0]] for first, second in saved.tolist()]
        return replace(self, weights={name: 1.0}, offsets=[0.0, 0.0], action_costs=action_costs)


def log_weights(
    models: Models, model: int | None = None
) -> tuple[dict[str, float], list[float]]:
    """Return weights and offsets of log-probabilities: those of one model, or of the average."""
    average = models.average
    names = models.names
    if model is not None:
        return {names[model]: 1.0}, [0.0] * models.n_classes
    if average is None:
        return dict.fromkeys(names, 1.0 / len(names)), [0.0] * models.n_classes
    return {
        names[i]: float(average.weights[i]) for i in average.asked.tolist()
    }, average.offset.tolist()


@dataclass(frozen=True, eq=False)
class ProbabilityRule:
    """A candidate as a member of an ensemble: it answers by the models' probabilities."""

    table_: Models
    source: tuple[int, ...]  # numbers of the models that it reads
    probabilities: StratumProbabilities
    candidate: Candidate

    @property
    def rule(self) -> Any:
        """The thresholds that answer; None if costs of actions on probabilities do."""
        return None

    def predict_table(self, table: LogProbabilities) -> Ints:
        """Return class numbers, shape (n,); deferred rows get the label that would be answered."""
        costs = self._costs(table)
        return decide(costs if len(costs) == 1 else costs[: self.probabilities.n_classes])

    def defers_table(self, table: LogProbabilities) -> Mask:
        """Return which rows are deferred, shape (n,)."""
        if not self.defers:
            return np.zeros(table.n_rows, dtype=bool)
        deferred: Mask = decide(self._costs(table)) == self.probabilities.n_classes
        return deferred

    def as_part(self, *, plain: bool = True) -> RulePart:
        """Return the rule as numbers and lists.

        With ``plain`` the rule reads the model's own probabilities if possible, without learned weights.
        """
        K = self.probabilities.n_classes
        p = self.probabilities
        by_group = self.candidate.action_costs.reshape(K, len(p.combinations), -1).transpose(
            1, 0, 2
        )
        if self.candidate.is_constant:
            return RulePart(1.0, {}, [0.0] * K, by_group.tolist(), inferred=p.infers)
        if p.factors is not None:
            by_group = by_group * p.factors.reshape(K, -1, 1).transpose(1, 0, 2)
        part = RulePart(1.0, *log_weights(self.table_), by_group.tolist(), inferred=p.infers)
        if plain:
            return part.plain
        return part

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        return self.probabilities.estimates_groups and not self.candidate.is_constant

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.candidate.action_costs.shape[1] > self.probabilities.n_classes

    def _costs(self, table: LogProbabilities) -> Floats:
        if self.candidate.is_constant:
            ones = np.ones((1, 1), dtype=np.float32)
            return np.repeat(
                expected_costs(ones, self.candidate.action_costs[:1]), table.n_rows, axis=1
            )
        return expected_costs(
            stratum_probabilities(self.probabilities, table), self.candidate.action_costs
        )

    def words(self, classes: Any) -> str:
        """Return a name for people: the models, and the class weights."""
        K = len(classes)
        costs = self.candidate.action_costs
        if self.candidate.is_constant:
            return f"constant {classes[int(costs[0, :K].argmin())]}"
        weights = costs[:, :K].max(axis=1) - costs[:, :K].min(axis=1)
        if np.ptp(weights) <= EQUAL_WEIGHTS * weights.max():
            return self.table_.words()
        least = weights[weights > 0].min()
        shown = [f"{weight / least:.3g}" for weight in weights[:MOST_WEIGHTS]]
        ratio = " : ".join(shown + ["…"] * (len(weights) > MOST_WEIGHTS))
        return f"{self.table_.words()}, {'class' if len(costs) == K else 'subgroup'} weights {ratio}"


@dataclass(frozen=True)
class PowerDraw:
    """Candidate with labels drawn from sharpened or flattened probabilities, ``P(k) ∝ p_k(x)^β``."""

    table_: Models  # the models, shared by all candidates
    model: int | None  # number of the model; None for the average
    power: float  # β > 0
    draws: ClassVar[bool] = True
    weighs_groups: ClassVar[bool] = False
    rule: ClassVar[Any] = None  # as of `ProbabilityRule`

    def predict_table(self, table: LogProbabilities) -> Floats:
        """Return the label distribution, shape (n, K)."""
        if self.model is None:
            logs = table.pooled
        else:
            logs = table[self.model]
        return np.asarray(softmax(self.power * logs, axis=1))

    @property
    def source(self) -> tuple[int, ...]:
        """Numbers of the models behind the probabilities."""
        if self.model is None:
            return tuple(self.table_.pooled_models)
        return (self.model,)

    def as_part(self) -> RulePart:
        """Return the candidate as plain numbers."""
        return RulePart(1.0, *log_weights(self.table_, self.model), power=self.power)

    def words(self, classes: object) -> str:
        """Return a name for people."""
        return f"{self.table_.words(self.model)} drawn" + (
            "" if self.power == 1.0 else f" ^{self.power:g}"
        )


def stratum_probabilities(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return p(s | x) of the rows of a table, computed once."""

    def make() -> Any:
        groups = None
        if probabilities.infers:
            groups = probabilities.groups_of(group_features(probabilities, table))
        if probabilities.group_aware:
            combination = table.groups
        else:
            combination = None
        return probabilities.predict(table.pooled, groups, combination)

    return table.derived(("strata", id(probabilities)), make)


def group_features(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return the input of the group models: features, or log-probabilities of all models."""
    if probabilities.by_features:
        return table.X
    return np.hstack([table[i] for i in range(table.n_models)])


def has_group_features(X: Table) -> bool:
    """Whether groups can be estimated from a table: few columns of numbers or categories."""
    if not hasattr(X, "shape") or len(X.shape) != 2 or X.shape[1] > MOST_FEATURES:
        return False
    try:
        TableReader().fit(X := as_pandas(X)).transform(X)
    except (TypeError, ValueError):
        return False
    return True
