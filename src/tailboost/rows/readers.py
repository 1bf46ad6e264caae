"""The records of models within models, and the hashes of rows as a model reads them."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from tailboost.core.array_types import Hashes, Model, Table
from tailboost.core.checks import as_table, sorted_names
from tailboost.rows.fingerprints import hash_rounded_rows
from tailboost.rows.judged import judged
from tailboost.rows.ledger import Records
from tailboost.rows.seen import Seen


def frozen_estimators(estimator: Model) -> list[Any]:
    """Return the frozen models within an estimator: a fit of the estimator does not know their training rows.

    Models within frozen models of other libraries are included, such as the model of a calibrated classifier.
    None stands for a model with rows in another form than the estimator's, as behind a step of a pipeline.
    """
    if isinstance(estimator, FrozenEstimator):
        model = estimator.estimator
        if isinstance(model, FrozenEstimator):
            return frozen_estimators(model)
        if judged(model) is model:  # the records include models within this model
            return [model]
        return [model, *frozen_estimators(model)]
    if isinstance(estimator, (list, tuple)):
        return list(chain.from_iterable(map(frozen_estimators, estimator)))
    if not isinstance(estimator, BaseEstimator):
        return []
    params = estimator.get_params(deep=False)
    frozen = frozen_estimators(list(params.values()))
    if isinstance(params.get("cv"), str) and params["cv"] == "prefit":
        frozen.append(None)
    if isinstance(estimator, Pipeline):  # its steps read transformed rows
        return [None for _ in frozen]
    return frozen


def row_hashes(model: Model, X: Table) -> Hashes:
    """Return the hashes of rows as a caller gives them to a model, shape (n,).

    The order of the columns of a data frame has no effect: they are in the order of the model or, if the
    model has no order, of their names.
    """
    if judged(model) is model:  # not a pipeline or a search
        return model._row_hashes(X)
    table = as_table(X)
    names = getattr(model, "feature_names_in_", None)
    # Without a number of features the model reads columns by name.
    if names is None and not hasattr(model, "n_features_in_"):
        names = sorted_names(list(getattr(table, "columns", ())))
    return hash_rounded_rows(as_table(table, names))


def records_of_fit(estimator: Model, trained: Seen | None) -> Records:
    """Return the records of a fit before its selection: of its training rows, and of frozen models within.

    Parameters
    ----------
    estimator : estimator or list of estimators
        The fitted ones.
    trained : Seen or None
        The training rows.
    """
    records = Records(trained, complete=True)
    for model in frozen_estimators(estimator):
        if judged(model) is model:
            records = records.including(model.records_)
        else:  # rows in another form, or of another library, are not known
            records = replace(records, complete=False)
    return records
