"""The view of a fitted classifier for certificates, the monitor, reports and model files."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from tailboost.core.array_types import (
    Array,
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import as_table, n_rows_of
from tailboost.core.exceptions import (
    DeferredRowsWarning,
    UncertifiedGroupsWarning,
)
from tailboost.rows.fingerprints import hash_rows


class JudgedModel:
    """What certificates, monitors and reports read of a model; the values here are for other libraries."""

    #: The certificate of the rule.
    certificate_: Any = None
    #: The rows that the classifier has read.
    records_: Any = None
    #: The decision rule (`ThresholdRule` or `Rule`).
    rule_: Any = None
    #: Whether answers need the groups of the rows: that of a column, or of all.
    by_group: Any = False
    #: The groups of the fit by column, None for a column without a name; combinations of several columns.
    _groups_by_column: Any = {}  # noqa: RUF012  (without groups; nobody writes into it)
    group_combinations_: Any = ()
    #: The limits on rates of the fit.
    _stated_limits: Any = ()
    #: Whether the rule may defer rows; the method ``defers`` of the classifier returns a mask of them.
    _can_defer: Any = False
    #: Whether the rule reads scores alone: then equal rows count as different rows.
    _reads_scores: Any = False
    #: Digest of the decision function: of the rule and its models. Copies, pickles and files keep it.
    #: `reweight`, other thresholds and other models change it.
    _rule_digest: Any = None

    def _groups_of(self, X: Table, groups: Groups) -> Groups:
        """Return the given groups; a rule of a file takes its group column from the table ``X``."""
        return groups

    def _numbered_answers(
        self, X: Table, groups: Groups, classes: Labels, *, defers: bool
    ) -> Ints | None:
        """Return the answers of ``predict`` as numbers of labels, shape (n,); None if only labels are known.

        Parameters
        ----------
        X, groups
            The rows, which may be opened, and their groups.
        classes : ndarray of shape (K,)
            The labels to number.
        defers : bool
            Whether deferred rows have the number K; otherwise they have the label that would be answered.
        """
        return None

    def _without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the rule reads, shape (n,)."""
        return np.zeros(n_rows_of(X), dtype=np.bool_)


def judged(model: Model) -> Any:
    """Return the classifier at the end of a search or a pipeline; `JudgedModel` for another library."""
    final, _ = final_step(model, None)
    return final if hasattr(type(final), "_rule_digest") else JudgedModel()


def group_arguments(model: Model, groups: Groups) -> dict[str, Any]:
    """Return the keyword arguments of ``predict``: the groups, if the classifier needs them."""
    if judged(model).by_group:
        return {"groups": groups}
    return {}


# -- the classifier behind a pipeline or search ----------------------------------------------------------


def final_step(model: Model, X: Table) -> tuple[Any, Any]:
    """Return the classifier at the end of a search or pipeline, and the rows after the steps before.

    ``X`` may be None, without rows.
    """
    while isinstance(model, FrozenEstimator) or hasattr(model, "best_estimator_"):
        is_frozen = isinstance(model, FrozenEstimator)
        model = model.estimator if is_frozen else model.best_estimator_
    if not isinstance(model, Pipeline):
        return model, X
    if X is not None and len(model) > 1:
        X = model[:-1].transform(X)
    return final_step(model[-1], X)


def predicted_labels(model: Model, X: Table, **given: object) -> Array:
    """Return ``predict`` of a model without warnings of deferred rows or uncertified groups.

    Callers warn themselves, or ask the model for the deferred rows.

    The keyword arguments ``given``, for example ``groups``, are passed to the model.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeferredRowsWarning)
        warnings.simplefilter("ignore", UncertifiedGroupsWarning)
        return np.asarray(model.predict(X, **given))


def answer_shares(model: Model, X: Table) -> Floats:
    """Return the probability of each answer to each row, shape (n, K).

    This is ``predict_distribution`` of a randomised rule of tailboost, also behind a pipeline or a search.
    Other classifiers answer the label of ``predict`` with probability 1: their ``predict_proba`` estimates
    P(y | x), and is no probability of an answer.
    """
    final, rows = final_step(model, X)
    if hasattr(final, "predict_distribution"):
        return np.asarray(final.predict_distribution(rows), dtype=np.float64)
    labels = np.asarray(model.predict(X))
    return np.asarray(labels[:, None] == np.asarray(model.classes_), dtype=np.float64)


# -- rows as models read them ------------------------------------------------------------------------------


def row_hashes(model: Model, X: Table) -> Hashes:
    """Return the hashes of rows as a caller gives them to a model, shape (n,).

    The order of the columns of a data frame has no effect: they are in the order of the model or, if the
    model has no order, of their names.
    """
    if judged(model) is model:  # not a pipeline or a search
        return model._row_hashes(X)
    table = as_table(X)
    if len(table.shape) == 1:  # texts
        table = np.asarray(table, dtype=object)[:, None]
    names = getattr(model, "feature_names_in_", None)
    # Without a number of features the model reads columns by name.
    if names is None and not hasattr(model, "n_features_in_"):
        names = sorted(getattr(table, "columns", ()), key=str)
    return hash_rows(as_table(table, names), rounded=True)
