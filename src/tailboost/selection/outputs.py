"""Outputs of the models: class probabilities on rows, and their average."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import gammaln, log_softmax, softmax
from sklearn.frozen import FrozenEstimator

from tailboost.core.array_types import Array, Floats, Hashes, Ints, Model, Table
from tailboost.core.checks import (
    as_table,
    check_length,
    n_rows_of,
    take,
)
from tailboost.core.exceptions import warn_user
from tailboost.core.long_work import one_blas_thread
from tailboost.learners.scores import GivenProbabilities, Scores, only_scores
from tailboost.rows.fingerprints import (
    hash_rounded_rows,
    hash_rows,
    hashes_of_pairs,
)
from tailboost.rows.rows import Rows
from tailboost.selection.rule import checked, logs_of

# Pseudo-rows that shrink the weights towards equal ones and the offsets towards 0. With 10 instead of 1 the
# preference-weighted error is .0037 ± .0031 lower for 300 rows of selection data (33 tables). With all rows
# there is no difference.
PSEUDO_ROWS = 10.0
# About the most rows on which the average is fitted: only M + K numbers are learned.
ROWS_OF_AVERAGE = 2**17
# Relative increase of the penalised log loss up to which a model gets no weight. It then takes no time in
# predictions. On 12 tables log loss and error rose by at most .0001, and 10⁵ rows took at most 1.2 s less
# (`benchmarks/prediction.py`).
IDLE = 2e-4
# Learned numbers are rounded to multiples of this number, so the order of the rows does not change them.
GRAIN = 2.0**-12
# Relative difference of weights that counts as rounding.
SAME_WEIGHT = 1e-12
# The least number of rows of a class in the test of the column order, which assumes normal sums.
ROWS_OF_ORDER_TEST = 20
# Probability of a false alarm of this test, over all orders of the columns.
FALSE_ALARMS = 1e-6


@dataclass(frozen=True, eq=False)
class _LogLoss:
    """Log loss of an average of models on rows, by t = (w_1, …, w_M, b_1, …, b_K).

    `PSEUDO_ROWS` pull t towards equal weights without offsets.
    """

    # Of each model, shape (n, K), with mean 0 in each row. They lie by column: sums over the classes of a row
    # are then ten times as fast.
    logs: Sequence[Floats]
    rows: Rows

    @property
    def start(self) -> Floats:
        """Equal weights without offsets."""
        n_models = len(self.logs)
        return np.r_[np.full(n_models, 1.0 / n_models), np.zeros(self.logs[0].shape[1])]

    def __call__(self, t: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient."""
        logs = self.logs
        rows = self.rows
        truth = (np.arange(len(rows.y)), rows.y)
        z = sum(w * log for w, log in zip(t, logs, strict=False)) + t[len(logs) :]
        z -= z.max(axis=1, keepdims=True)
        residual = np.exp(z)
        total = residual.sum(axis=1)
        residual /= total[:, None]
        pull = t - self.start
        value = PSEUDO_ROWS / 2 * (pull**2).sum() - rows.weight @ (z[truth] - np.log(total))
        residual[truth] -= 1.0
        residual *= rows.weight[:, None]
        gradient = np.r_[[np.vdot(log.T, residual.T) for log in logs], residual.sum(axis=0)]
        return float(value), gradient + PSEUDO_ROWS * pull

    def minimised(self, used: Ints) -> tuple[Floats, float]:
        """Return the best t = (w, b), shape (M + K,), and its loss; only ``used`` models may have weight."""
        n_models = len(self.logs)
        largest = np.zeros(n_models)
        largest[used] = np.inf
        start = self.start
        bounds = [(0.0, weight) for weight in largest] + [(None, None)] * (
            len(start) - n_models
        )
        options = {"ftol": 1e-13, "gtol": 1e-6 * float(self.rows.weight.sum())}
        result = minimize(
            self, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options
        )
        return result.x, float(result.fun)


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

        ``logs`` are the log-probabilities of each model, shape (n, K). A model gets no weight if the loss
        hardly rises without this model. The model with the smallest effect on the scores is tried first.
        """
        # Offsets of a row have no effect; centring keeps rounding errors small.
        centred = [np.asfortranarray(log - log.mean(axis=1, keepdims=True)) for log in logs]
        loss = _LogLoss(centred, rows)
        n_models = len(logs)
        parameters, least_loss = loss.minimised(np.arange(n_models))
        weight = rows.weight[:, None]
        spread = np.sqrt([np.vdot(log.T, (weight * log).T) for log in centred])
        used = np.flatnonzero(parameters[:n_models] > 0.0)
        while len(used) > 1:
            smallest_effect = (parameters[used] * spread[used]).argmin()
            t_without, loss_without = loss.minimised(np.delete(used, smallest_effect))
            if loss_without > (1.0 + IDLE) * least_loss:
                break
            parameters = t_without
            used = np.flatnonzero(parameters[:n_models] > 0.0)
        parameters = np.rint(parameters / GRAIN) * GRAIN
        return cls(parameters[:n_models], parameters[n_models:])

    @property
    def used_models(self) -> Ints:
        """Numbers of the models with positive weight; all models if no weight is positive."""
        used = self.weights > 0.0
        return np.flatnonzero(used | ~used.any())

    def of(self, logs: Iterable[Floats]) -> Floats:
        """Return the average of the log-probabilities of the models in `used_models`, shape (n, K)."""
        total = sum(
            w * log for w, log in zip(self.weights[self.used_models], logs, strict=True)
        )
        # By column: maxima and sums of the classes of a row are then several times as fast.
        return log_softmax(np.asfortranarray(total + self.offset), axis=1)


@dataclass(eq=False)
class LogProbabilities:
    """Log-probabilities of some rows by model, shape (n, K) each, computed when they are read."""

    n_rows: int  # n
    of_model: Callable[[int], Floats]  # returns the log-probabilities of model i
    # Shape (n,): number of the group of each row, for group-aware rules; None for group-blind ones.
    groups: Ints | None = None
    n_models: int = 0
    X: Table = None  # features of the rows, from which groups are estimated
    average: Average | None = None  # weights of the models; None for equal weights
    # Returns the score of each row, if the models are one `Scores` column and read this table; else None.
    scores: Callable[[], Floats] | None = None
    _computed: dict[Any, Any] = field(init=False, default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        tables: Sequence[Floats],
        groups: Ints | None = None,
        average: Average | None = None,
    ) -> LogProbabilities:
        """Return the table of log-probabilities that are known, by model, shape (n, K) each."""
        return cls(len(tables[0]), tables.__getitem__, groups, len(tables), average=average)

    @classmethod
    def joined(cls, batches: Sequence[LogProbabilities], X: Table) -> LogProbabilities:
        """Return the rows of all batches of a table ``X`` as one table."""
        first = batches[0]
        if len(batches) == 1:
            return first
        groups = None
        if first.groups is not None:
            groups = np.concatenate(
                [batch.groups for batch in batches if batch.groups is not None]
            )
        scores = None
        if first.scores is not None:
            readers = [batch.scores for batch in batches if batch.scores is not None]
            scores = cache(lambda: np.concatenate([read() for read in readers]))
        return replace(
            first,
            n_rows=sum(batch.n_rows for batch in batches),
            of_model=lambda model: np.concatenate([batch.of_model(model) for batch in batches]),
            groups=groups,
            X=X,
            scores=scores,
        )

    def places(self, *, by_group: bool) -> Ints:
        """Return the number of the group of each row; 0 for all rows unless rules read groups."""
        if not by_group or self.groups is None:
            return np.zeros(self.n_rows, dtype=np.intp)
        return self.groups

    def knowing(self, groups: Ints | None) -> LogProbabilities:
        """Return the table with the groups of the rows."""
        return replace(self, groups=groups)

    def part(self, rows: Ints) -> LogProbabilities:
        """Return the table of the rows with these numbers."""
        table = replace(
            self,
            n_rows=len(rows),
            of_model=lambda model: self[model][rows],
            X=take(self.X, rows),
        )
        if self.groups is not None:
            table = replace(table, groups=self.groups[rows])
        all_scores = self.scores
        if all_scores is not None:
            table = replace(table, scores=lambda: all_scores()[rows])
        return table

    def __getitem__(self, model: int) -> Floats:
        return self.derived(model, lambda: self.of_model(model))

    @cached_property
    def pooled(self) -> Floats:
        """The average of all models' log-probabilities, shape (n, K)."""
        if self.average is not None:
            return self.average.of(self[i] for i in self.average.used_models.tolist())
        return np.mean([self[i] for i in range(self.n_models)], axis=0)

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``, which is called once for each key."""
        if key not in self._computed:
            self._computed[key] = make()
        return self._computed[key]


@dataclass(frozen=True)
class ModelScore:
    """P(label | x) by the only model of two classes, as a score like those of `Scores`."""

    made_by: str
    label: Any  # the second label
    kind: ClassVar[str] = "probability"
    missing: ClassVar[float | None] = None
    positive_: ClassVar[int] = 1

    @property
    def column_list(self) -> list[str]:
        """The name of the score, like that of a column of probabilities in SQL."""
        return [f"{self.made_by}_{self.label}"]

    def scores_at(self, probabilities: Floats) -> Floats:
        """Return the probabilities themselves."""
        return probabilities


@dataclass(eq=False)
class Models:
    """The models behind the candidates, and the weights of their average."""

    names: list[str]
    n_classes: int  # K
    fitted: list[Any]  # the models
    columns: list[Ints]  # class number of each column of a model's probabilities
    average: Average | None = None  # learned on the selection data; None for equal weights

    @classmethod
    def from_given(
        cls, names: Sequence[str], classes: Array, average: Average | None = None
    ) -> Models:
        """Return models of which only the probabilities are known, an array of shape (n, M, K).

        This array takes the place of X, see `stacked`.

        Parameters
        ----------
        names : sequence of str
            Names of the M models.
        classes : ndarray of shape (K,)
            The labels.
        average : Average, optional
            Weights of the models; equal ones by default.
        """
        models = [
            FrozenEstimator(GivenProbabilities(name, i, classes))
            for i, name in enumerate(names)
        ]
        columns = [np.arange(len(classes))] * len(models)
        return cls(
            names=list(names),
            n_classes=len(classes),
            fitted=models,
            columns=columns,
            average=average,
        )

    @property
    def are_given(self) -> bool:
        """Whether only the probabilities of the models are known."""
        return isinstance(getattr(self.fitted[0], "estimator", None), GivenProbabilities)

    @property
    def pooled_models(self) -> list[int]:
        """Numbers of the models in the average."""
        if self.average is None:
            return list(range(len(self.names)))
        return self.average.used_models.tolist()

    @property
    def score_column(self) -> Scores | None:
        """The only model, if it is a single column of scores; otherwise None."""
        score = getattr(self.fitted[0], "estimator", None)
        if len(self.fitted) == 1 and isinstance(score, Scores) and len(score.column_list) == 1:
            return score
        return None

    @property
    def score(self) -> Scores | ModelScore | None:
        """The single score of which rules are functions; None if there is none."""
        if len(self.fitted) > 1 or self.n_classes != 2 or self.are_given:
            return None
        if only_scores(self.fitted):
            return self.score_column
        (label,) = self.fitted[0].classes_[self.columns[0] == 1].tolist()
        return ModelScore(self.names[0], label)

    def words(self, model: int | None = None) -> str:
        """Return the name of one model, or of the average of all models."""
        average = self.average
        names = self.names
        if model is not None or len(names) == 1:
            return names[model or 0]
        if average is None:
            return f"mean({', '.join(names)})"
        return " + ".join(f"{average.weights[i]:.2g} {names[i]}" for i in average.used_models)

    def pool(self, table: LogProbabilities) -> Floats:
        """Return P(y | x) of the rows of a table by all models, shape (n, K)."""
        return softmax(table.pooled, axis=1)

    def transform(self, X: Table) -> LogProbabilities:
        """Return the log-probabilities of the rows of a table; models predict when they are read."""
        # Models of one table share a reader.
        read_once = cache(lambda reader: reader.transform(X))

        @cache
        def probabilities(i: int) -> Floats:
            return self.probabilities(i, self.fitted[i], self.columns[i], X, read_once)

        column = self.score_column
        score = self.score
        scores = None
        if column is not None:
            scores = cache(lambda: column.values(X)[:, 0])
        elif score is not None:  # not exp(log(p)), which a threshold may tell from p
            scores = cache(lambda: probabilities(0)[:, score.positive_])
        return LogProbabilities(
            n_rows_of(X),
            lambda i: logs_of(probabilities(i)),
            groups=None,
            n_models=len(self.names),
            X=X,
            average=self.average,
            scores=scores,
        )

    def row_hashes(self, X: Table) -> Hashes:
        """Return the hashes of rows: of the scores that the models read, or of the checked table."""
        if only_scores(self.fitted) and not self.are_given:
            X = np.hstack([model.estimator.values(X) for model in self.fitted])
        return hash_rounded_rows(as_table(X))

    def probabilities(
        self,
        i: int,
        model: Model,
        columns: Ints,
        X: Table,
        read: Callable[[Any], Any] | None = None,
    ) -> Floats:
        """Return the probabilities of model i, ``model``, for the rows of a table, shape (n, K).

        ``columns`` are the class numbers of the model's probabilities; other classes have probability 0. A
        model with ``predict_proba_table`` predicts from the prepared rows, ``read(model.table_)``. Errors
        name the model.
        """
        n_rows = n_rows_of(X)
        # By column: sums over the classes of a row are then several times as fast.
        P = np.zeros((n_rows, self.n_classes), order="F")
        if hasattr(model, "predict_proba_table") and not isinstance(model, FrozenEstimator):
            # A model of an opened table checks columns, not the feature names of scikit-learn.
            if read is None:
                prepared = model.table_.transform(X)
            else:
                prepared = read(model.table_)
            P[:, columns] = model.predict_proba_table(prepared)
        else:
            predicted = model.predict_proba(X)
            check_length(predicted, f"predict_proba of {self.names[i]!r}", n_rows)
            P[:, columns] = predicted
        return checked(P, f"predict_proba of {self.names[i]!r}", n_rows, self.n_classes, "X")


@dataclass(frozen=True)
class ModelOutputs:
    """Out-of-fold log-probabilities of models: all that the selection depends on."""

    models: Models
    logs: tuple[Floats, ...]  # log-probabilities of each model, shape (n, K)
    rows: Rows  # the selection data

    @classmethod
    def with_hashes(cls, models: Models, logs: Sequence[Floats], rows: Rows) -> ModelOutputs:
        """Return the outputs with hashes of the rows by features and probabilities.

        Rows with equal hashes are one row; without hashes of the features all rows are different. Equal
        weights of any scale become 1.
        """
        if np.ptp(rows.weight) <= SAME_WEIGHT * rows.weight.max():
            rows = replace(rows, weight=np.ones(len(rows.y)))
        if rows.row_hashes is not None:
            hashes = hashes_of_pairs(hash_rows(np.hstack(logs)), rows.row_hashes)
            rows = replace(rows, row_hashes=hashes)
        return cls(models, tuple(logs), rows)

    def check_order(self, classes: Array) -> None:
        """Warn if the probabilities of a model fit the labels better in another order of the columns."""
        y = self.rows.y
        for name, logs in zip(self.models.names, self.logs, strict=True):
            order = better_order(logs, y)
            if order is None:
                continue
            predicted = logs.argmax(axis=1)
            right = np.mean(predicted == y)
            right_in_other_order = np.mean(predicted == order[y])
            warn_user(
                f"probabilities[{name!r}]: the label has the largest probability in "
                f"{right:.0%} of {self.rows.words} with columns in the order "
                f"{classes.tolist()}, and in {right_in_other_order:.0%} with "
                f"{classes[np.argsort(order)].tolist()}: is `classes=` right?"
            )

    @property
    def table(self) -> LogProbabilities:
        """The log-probabilities by model."""
        return LogProbabilities.from_arrays(self.logs, self.rows.groups, self.models.average)


def averaging(outputs: ModelOutputs) -> ModelOutputs:
    """Return the outputs with the average of the models, fitted on the selection data.

    More than `ROWS_OF_AVERAGE` rows are sampled by their hashes.
    """
    rows = outputs.rows
    logs = outputs.logs
    if len(rows.y) > ROWS_OF_AVERAGE and rows.row_hashes is not None:
        sampled = rows.row_hashes < 2**64 * (ROWS_OF_AVERAGE / len(rows.y))
        rows = rows.part(sampled)
        logs = tuple(log[sampled] for log in logs)
    return replace(outputs, models=replace(outputs.models, average=Average.learned(logs, rows)))


def better_order(logs: Floats, y: Ints) -> Ints | None:
    """Return the best column of each class, shape (K,), if another order of columns is significantly better.

    Otherwise return None. ``logs`` has shape (n, K), and ``y`` the class numbers, shape (n,).

    The best order maximises the sum of the probabilities of the true class, less the means of the columns. A
    useless model has a best order too. So the gain must be larger than for shuffled labels:
    z² ≥ 2 log(K!/10⁻⁶), with the exact mean and variance of the gain over all shuffles (Hoeffding 1951) and a
    normal tail for each of the K! orders.
    """
    K = logs.shape[1]
    P = np.exp(logs)
    counts = np.bincount(y, minlength=K)
    sums = np.zeros((K, K))  # by class and column
    np.add.at(sums, y, P - P.mean(axis=0))
    large = np.flatnonzero(counts >= ROWS_OF_ORDER_TEST)  # other classes keep their columns
    _, best_columns = linear_sum_assignment(sums[np.ix_(large, large)], maximize=True)
    order = np.arange(K)
    order[large] = large[best_columns]
    moved = np.flatnonzero(order != np.arange(K))
    if not len(moved):
        return None
    rows = np.isin(y, moved)
    # Shape (rows, moved classes): gain of each row if the row had each class.
    gain = P[rows][:, order[moved]] - P[rows][:, moved]
    share = counts[moved] / rows.sum()
    gain -= gain.mean(axis=0)
    gain -= (gain @ share)[:, None]
    total = gain[np.arange(len(gain)), np.searchsorted(moved, y[rows])].sum()
    variance = (gain**2 @ counts[moved]).sum() / (len(gain) - 1)
    least_square = 2 * (gammaln(K + 1) - np.log(FALSE_ALARMS))
    if total > 0 and total**2 >= least_square * variance > 0:
        return order
    return None
