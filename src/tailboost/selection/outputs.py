"""Outputs of the models: class probabilities on rows, and their average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.utils import gen_batches

from tailboost.core import (
    NARROW,
    ROUNDED,
    Array,
    Floats,
    Hashes,
    Ints,
    Mask,
    Model,
    Table,
    check_probabilities,
    columns_of,
    frozen_object,
    how_many,
    n_rows_of,
    one_blas_thread,
    shortest_decimals,
)
from tailboost.learners.scores import Scores
from tailboost.rates import Counts
from tailboost.rows import Rows, hash_rows, hashes_of_pairs, logs_of

# Pseudo-rows that shrink the weights towards equal ones and the offsets towards 0. With 10 instead of 1 the
# preference-weighted error is .0037 ± .0031 lower for 300 rows of selection data (33 tables). With all rows
# there is no difference.
PSEUDO_ROWS = 10.0
# Relative increase of the penalised log loss up to which a model gets no weight. It then takes no time in
# predictions. On 12 tables log loss and error rose by at most .0001, and 10⁵ rows took at most 1.2 s less
# (`benchmarks/prediction.py`).
IDLE = 2e-4
# Learned numbers are rounded to multiples of this number, so the order of the rows does not change them.
GRAIN = 2.0**-12
# Relative difference of weights that counts as rounding.
SAME_WEIGHT = 1e-12
# Rows of a block, for arrays that take little memory.
BLOCK = 1 << 17
# Decimals of the log-odds of an average of models.
LOG_ODDS_DECIMALS = 9
#: The log-odds of the second label by the average of several models, as a score.
LOG_ODDS = Scores("log-odds", kind="logit")


@dataclass(eq=False)
class Outputs:
    """Log-probabilities of some rows by model, shape (n, K) each, computed when they are read."""

    logs: Callable[[int], Floats]  # returns the log-probabilities of model i, computed once
    models: Models
    groups: Any  # shape (n,): number of the group of each row, 0 for group-blind rules
    X: Table  # features of the rows, from which groups are estimated
    # The single score as it was read, shape (n,); None if it is computed from log-probabilities.
    given_score: Floats | None

    @cached_property
    def pooled(self) -> Floats:
        """The average of the log-probabilities of all used models, shape (n, K)."""
        models = self.models
        total = sum(models.weights[i] * self.logs(i) for i in models.used.tolist())
        # By column: maxima and sums of the classes of a row are then several times as fast.
        pooled = np.asfortranarray(total)
        pooled += models.offset
        for rows in gen_batches(max(len(pooled), 1), BLOCK):
            pooled[rows] = log_softmax(pooled[rows], axis=1)
        return pooled

    @property
    def probabilities(self) -> Floats:
        """P(y | x), shape (n, K): those of a single model of two labels, of others the average."""
        if self.models.score_column is None or self.models.columns_read:
            return softmax(self.pooled, axis=1)
        return np.column_stack([1.0 - self.score, self.score])

    @cached_property
    def score(self) -> Floats:
        """The score of which rules are functions, shape (n,): the single one, or the log-odds."""
        if self.given_score is not None:
            return self.given_score
        column = self.models.score_column
        if column is None:
            return np.round(self.pooled[:, 1] - self.pooled[:, 0], LOG_ODDS_DECIMALS)
        return column.scores_at(np.exp(self.logs(0)[:, column.positive_]))


@frozen_object
class Models:
    """The models, and the logarithms of their average, ``softmax(Σ_i w_i log p_i + b)``.

    Rules read columns of scores, or models; of two labels they may be functions of a single score::

        models                                    columns_read    score_column
        a column of scores for a label            it              it
        a column for each label, or several       these           None
        a model of two labels                     none            its P(second label)
        a model of more labels, several models    none            None
        given probabilities alone                 none            None

    Weights learned on the selection data lower the preference-weighted error by .0043 ± .0029 compared with
    equal ones (25 tables, 3 splits).

    Parameters
    ----------
    names : list of str
        Names of the M models.
    fitted : list of models
        The models; none if only their probabilities are known.
    columns : list of ndarray
        Class number of each column of a model's probabilities.
    rows : Rows
        The selection data; models of a rule file know their classes alone.
    weights, offset : ndarray of shape (M,), (K,)
        w ≥ 0 and b. A sum of weights above 1 sharpens the probabilities of models, a sum below 1 flattens
        them.
    logs : sequence of ndarray
        Log-probabilities of each model on the selection data, shape (n, K), out of fold where it is fitted
        on them: with the rows all that the selection depends on.
    scores : ndarray of shape (n,) or None
        The values of `score_column` in these rows, if the counted models answer.
    read_stacked : bool
        Whether X is an array of their probabilities, see `tailboost.rows.stacked`.
    """

    names: list[str]
    fitted: list[Model]
    columns: list[Ints]
    rows: Rows
    weights: Floats
    offset: Floats
    logs: Sequence[Floats] = ()
    scores: Floats | None = None
    read_stacked: bool = False

    # -- what kind of models they are --------------------------------------------------------------------

    @property
    def columns_read(self) -> list[Scores]:
        """The columns of scores, if all models are such columns; otherwise none."""
        columns = [
            model.estimator
            for model in self.fitted
            if isinstance(getattr(model, "estimator", None), Scores)
        ]
        return columns if len(columns) == len(self.fitted) else []

    @property
    def score_labels(self) -> list[Any]:
        """The labels of these columns, or those of given probabilities; otherwise none."""
        if self.columns_read:
            return self.columns_read[0].label_list
        if self.fitted:
            return []
        return self.rows.classes.tolist()

    @property
    def score_column(self) -> Scores | None:
        """The single score of which rules of two labels are functions; None for an average of models.

        It is a column of scores, or the probability of the second label by a single model.
        """
        if len(self.fitted) != 1 or len(self.offset) != 2:
            return None
        if self.columns_read:
            (scores,) = self.columns_read
            if len(scores.column_list) > 1:
                return None
            return scores
        return Scores(f"{self.names[0]}_{self.rows.classes[1]}")

    @property
    def used(self) -> Ints:
        """Numbers of the models with positive weight; all models if no weight is positive."""
        positive = np.flatnonzero(self.weights > 0.0)
        if len(positive):
            return positive
        return np.arange(len(self.weights))

    # -- outputs -----------------------------------------------------------------------------------------

    def outputs(self, X: Table, groups: Any = None) -> Outputs:
        """Return the outputs for the rows of a table: a single score now, others when they are read.

        ``groups`` are the numbers of their groups, as a rule reads them.
        """
        column = self.score_column
        scores = None
        logs = cache(lambda i: logs_of(self.probabilities(X, i)))
        if self.columns_read and column:
            scores = column.values(X)[:, 0]
        elif column:  # the score is p, and not exp(log(p)), which a threshold may tell from p
            P = self.probabilities(X, 0)
            scores = P[:, 1]
            logs = cache(lambda i: logs_of(P))
        return Outputs(logs, self, groups, X, scores)

    def selection_outputs(self, data: Counts, column: int | None) -> Outputs:
        """Return the log-probabilities of the selection data, with the numbers of groups of a column."""
        groups = data.strata.place(column)[data.stratum]
        return Outputs(self.logs.__getitem__, self, groups, self.rows.X, self.scores)

    def with_selection_data(
        self, rows: Rows, logs: Sequence[Floats], scores: Floats | None = None
    ) -> Models:
        """Return the models on selection data, with units by features and probabilities.

        Rows with equal ones are one row, and so are those of a cluster; rows with equal scores are different
        rows. Equal weights of any scale become 1.
        """
        units = None
        weight = rows.weight
        if not self.score_labels:
            units = rows.clusters
            if units is None:
                units = hashes_of_pairs(hash_rows(np.hstack(logs)), hash_rows(rows.X))
        if np.ptp(weight) <= SAME_WEIGHT * weight.max():
            weight = np.broadcast_to(1.0, len(weight))
        kept = replace(rows, units=units, weight=weight)
        return replace(self, logs=tuple(logs), rows=kept, scores=scores)

    def without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the models read; given probabilities are no scores."""
        lacking = np.zeros(n_rows_of(X), bool)
        for model in self.fitted:
            if isinstance(getattr(model, "estimator", None), Scores) and not self.read_stacked:
                lacking |= model.estimator.without_score(X)
        return lacking

    def row_hashes(self, X: Table, *, as_stated: bool = False) -> Hashes:
        """Return the hashes of rows: of the scores that the models read, or of the checked table.

        The order in which models, columns of scores and their labels are stated has no effect, unless the
        hashes are of rows ``as_stated``. Then rows with the same scores in other columns are different rows.
        """
        if self.columns_read:
            X = np.hstack([scores.values(X) for scores in self.columns_read])
        if not as_stated and (self.columns_read or self.read_stacked):
            X = np.sort(X.reshape(len(X), -1))
        return hash_rows(X, rounded=True)

    def probabilities(self, X: Table, i: int, fit: tuple[Model, Ints] | None = None) -> Floats:
        """Return the probabilities of model i for the rows of a table, shape (n, K).

        ``fit`` is another fit of the model with the class numbers of its columns; other classes have
        probability 0. Errors name the model.
        """
        if self.read_stacked:
            if np.isnan(X[:, i]).any():
                raise ValueError(
                    f"probabilities: those of {[self.names[i]]} are missing, and the rule uses them"
                )
            return X[:, i]
        model, columns = fit or (self.fitted[i], self.columns[i])
        predicted = model.predict_proba(X)
        if getattr(predicted, "dtype", None) in NARROW:  # as files hold these scores
            predicted = shortest_decimals(predicted)
        name = f"predict_proba of {self.names[i]!r}"
        if np.shape(predicted)[1:] != columns.shape:
            raise ValueError(f"{name} must have {len(columns)} columns, one for each class")
        check_answers(predicted, X, name)
        # By column: sums over the classes of a row are then several times as fast.
        P = np.zeros((n_rows_of(predicted), len(self.offset)), order="F")
        P[:, columns] = predicted
        return check_probabilities(P, name, ROUNDED)


@one_blas_thread()
def averaging(models: Models) -> Models:
    """Return the models with the average of least log loss on the selection data; the problem is convex.

    ``models`` have equal weights and no offsets, and `PSEUDO_ROWS` pull the average towards these. Each round
    leaves out one more model, that of the smallest effect on the scores; the last round in which the loss
    hardly rises counts.
    """
    weight = models.rows.weight
    start = np.append(models.weights, models.offset)
    M = len(models.weights)
    K = len(models.offset)
    # Offsets of a row have no effect; centring keeps rounding errors small. By class: sums over the classes
    # of a row are then ten times as fast.
    centred = np.array([logs.T - logs.mean(axis=1) for logs in models.logs])
    truth = (np.arange(K)[:, None] == models.rows.y) * weight
    spread = np.sqrt(np.einsum("mkn,mkn,n->m", centred, centred, weight))
    tried = np.full(M, True)
    least = np.inf
    while tried.any():
        solution = minimize(
            penalised_loss,
            start,
            (start, centred, truth),
            method="L-BFGS-B",
            jac=True,
            bounds=[(0.0, None if used else 0.0) for used in tried] + [(None, None)] * K,
            options={"ftol": 1e-13, "gtol": 1e-6 * weight.sum()},
        )
        if solution.fun > (1.0 + IDLE) * least:
            break
        least = min(least, solution.fun)
        t = solution.x
        tried = t[:M] > 0.0
        # Next without the model of the smallest effect.
        effects = np.where(tried, t[:M] * spread, np.inf)
        tried[effects.argmin()] = False
    t = np.rint(t / GRAIN) * GRAIN
    return replace(models, weights=t[:M], offset=t[M:])


def penalised_loss(
    t: Floats, start: Floats, logs: Floats, truth: Floats
) -> tuple[float, Floats]:
    """Return the penalised log loss of an average of models, and its gradient.

    Parameters
    ----------
    t, start : ndarray of shape (M + K,)
        Weights of the models and offsets of the classes, and those towards which `PSEUDO_ROWS` pull them.
    logs : ndarray of shape (M, K, n)
        Log-probabilities by model and class, up to a constant of each row and model.
    truth : ndarray of shape (K, n)
        The weight of each row at its class, otherwise 0.
    """
    M = len(logs)
    gradient = PSEUDO_ROWS * (t - start)
    value = gradient @ (t - start) / 2
    for block in gen_batches(logs.shape[2], BLOCK):
        part = logs[..., block]
        true = truth[:, block]
        weight = true.sum(axis=0)
        z = np.tensordot(t[:M], part, 1) + t[M:, None]
        z -= z.max(axis=0)
        odds = np.exp(z)
        total = odds.sum(axis=0)
        residual = odds * (weight / total) - true
        gradient += np.append(np.tensordot(part, residual), residual.sum(axis=1))
        value += weight @ np.log(total) - np.vdot(true, z)
    return float(value), gradient


def check_answers(answers: Array, X: Table, name: str) -> None:
    """Raise unless a model has given one answer for each row of a table."""
    n = n_rows_of(answers)
    if n != n_rows_of(X):
        cure = ""
        titles = columns_of(X)
        if 0 < n == len(titles):  # as a vectoriser iterates over a data frame
            cure = f": a model of texts reads the column itself, X[{titles[0]!r}]"
        raise ValueError(
            f"{name} has {how_many(n, 'row')}, the table has {n_rows_of(X):,}{cure}"
        )
