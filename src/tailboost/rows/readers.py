"""Readers: the classifiers of tailboost within a model, each with its form of the rows and its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from tailboost.core.array_types import Ints, Model, Table
from tailboost.core.checks import as_table, sorted_names
from tailboost.rows.fingerprints import (
    EqualRows,
    Fingerprint,
    RowHashes,
    UsedRows,
    checked_equal_rows,
    hash_rounded_rows,
    refuse_used,
)
from tailboost.rows.judged import ClassifierView, final_step, judged
from tailboost.rows.ledger import SELECTED_ON, Ledger, Records, refuse_known

INSIDE = "a frozen model was made on"


def frozen_estimators(estimator: Model) -> list[Any]:
    """Return the frozen models within an estimator: a fit of the estimator does not know their training rows.

    Models within frozen models of other libraries are included, such as the model of a calibrated classifier.
    None stands for a model with rows in another form than the estimator's, as behind a step of a pipeline.
    """
    if isinstance(estimator, FrozenEstimator):
        model = estimator.estimator
        if isinstance(model, FrozenEstimator):
            return frozen_estimators(model)
        if judged(model).has_records:  # the records include models within this model
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


def readers(model: Model, X: Table = None) -> Iterator[tuple[Any, Any]]:
    """Yield a classifier of tailboost and the ones frozen within, each with the rows in its form."""
    final, table = final_step(model, X)
    reader = judged(final)
    if reader.has_records:
        yield reader, table
        yield from readers_within(final, table)


def readers_within(estimator: Model, X: Table) -> Iterator[tuple[Any, Any]]:
    """Yield the frozen classifiers of tailboost within an estimator, as `readers`."""
    for model in frozen_estimators(estimator):
        yield from readers(model, X)


def row_hashes(model: Model, X: Table) -> RowHashes:
    """Return the hashes of rows as a caller gives them to a model.

    The order of the columns of a data frame has no effect: they are in the order of the model or, if the
    model has no order, of their names.
    """
    reader = judged(model)
    is_end = reader.classifier is model  # not a pipeline or a search
    if reader.has_records and is_end:
        return reader.row_hashes(X)
    table = as_table(X)
    names = getattr(model, "feature_names_in_", None)
    # Without a number of features the model reads columns by name.
    if names is None and not hasattr(model, "n_features_in_"):
        names = sorted_names(list(getattr(table, "columns", ())))
    return RowHashes(hash_rounded_rows(as_table(table, names)))


def reason_of_equal_rows(reader: ClassifierView, equal_rows: EqualRows | None) -> EqualRows:
    """Return the reason for equal rows of a classifier: "natural" if its rows are scores alone.

    ``equal_rows=None`` stands for the reason in the classifier's certificate.
    """
    reason = checked_equal_rows(equal_rows or reader.equal_rows)
    if reader.reads_scores:
        return "natural"
    return reason


# -- records of a fit, and of fresh rows ---------------------------------------------------------------------


def records_of_fit(
    estimator: Model, trained: Fingerprint, *, complete: bool | None = None
) -> Records:
    """Return the records of a fit, before its selection.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator. The new ledger contains the ledgers of frozen classifiers of tailboost within.
    trained : Fingerprint
        The fingerprint of the training rows.
    complete : bool, optional
        Whether these are all training rows. By default, they are unless a frozen model within the estimator
        has unknown training rows.
    """
    if complete is None:
        complete = not holds_unknown(estimator)
    inner_ledgers = list[Ledger]()
    for model in frozen_estimators(estimator):
        reader = judged(model)
        if reader.has_records:
            ledger = reader.records.ledger
            inner_ledgers += [ledger, *ledger.inner]
    ledger_of_fit = Ledger(inner=tuple(inner_ledgers))
    return Records(replace(trained, complete=complete), ledger=ledger_of_fit)


def holds_unknown(estimator: Model) -> bool:
    """Return whether an estimator holds a frozen one with unknown training rows."""
    for model in frozen_estimators(estimator):
        if model is None:  # rows in another form cannot be compared
            return True
        reader = judged(model)
        if not (reader.has_records and reader.records.complete):
            return True
    return False


def no_counts() -> Ints:
    """Return the counts of no records, shape (0, 2)."""
    return np.empty((0, 2), dtype=np.intp)


def counts_within(estimator: Model, X: Table) -> Ints:
    """Return the counts of rows known to the frozen models within an estimator, see `Records.counts`."""
    counts = [no_counts()]
    for reader, read_rows in readers_within(estimator, X):
        counts.append(reader.records.counts(reader.row_hashes(read_rows).whole))
    return np.concatenate(counts)


@dataclass(frozen=True, eq=False)
class Overlap:
    """The comparison of rows with the records of a model, and of the frozen classifiers within.

    Attributes
    ----------
    counts : ndarray of shape (m, 2)
        `Records.counts` of all readers; shape (0, 2) if no reader has records of its training rows.
    tables : tuple of UsedRows or None, one for each reader
        The rows with their labels, in the order of `readers`; None for a reader without tables to compare.
    """

    counts: Ints
    tables: tuple[UsedRows | None, ...]

    @classmethod
    def from_table(
        cls,
        model: Model,
        rows: RowHashes,
        X: Table,
        labels: Any = (),
        *,
        is_whole: bool = False,
    ) -> Self:
        """Return the comparison of rows with the records of a model; the first rows have these labels.

        Parameters
        ----------
        model : classifier
            The classifier at the end of the model.
        rows : RowHashes
            The hashes of the rows as given to the whole model.
        X : array-like of shape (n, d)
            The rows as given to the classifier.
        labels : array-like of shape (k,)
            The labels of the first k rows.
        is_whole : bool, default=False
            Whether the classifier is the whole model, which gets the rows as given.
        """
        counts = [no_counts()]
        tables = list[UsedRows | None]()
        for reader, read_rows in readers(model, X):
            hashes = rows
            if not is_whole or reader.classifier is not model:
                hashes = reader.row_hashes(read_rows)
            counts.append(reader.records.counts(hashes.whole))
            table = None
            if reader.records.tables:
                table = UsedRows.from_table(hashes, labels)
            tables.append(table)
        return cls(np.concatenate(counts), tuple(tables))

    @classmethod
    def together(cls, parts: Sequence[Overlap]) -> Self:
        """Return the comparison of the rows of several parts of a table."""
        tables = list[UsedRows | None]()
        tables_by_reader = zip(*(part.tables for part in parts), strict=True)
        for parts_of_table in tables_by_reader:
            if parts_of_table[0] is None:  # this reader has no table to compare
                tables.append(None)
            else:
                tables.append(UsedRows.together(parts_of_table))
        return cls(np.sum([part.counts for part in parts], axis=0), tuple(tables))

    def n_selected(self, model: Model, n_rows: int) -> int:
        """Return about how many of ``n_rows`` compared rows selected or calibrated the rule, beyond chance.

        ``model`` is the model of the comparison. Equal rows that chance explains do not count.
        """
        numbers = [0]
        for (reader, _), table in zip(readers(model), self.tables, strict=True):
            if table is not None:
                numbers.append(sum(map(table.shared_with, reader.records.tables)))
        counts = iter(self.counts.tolist())
        for reader, _ in readers(model):
            for known_rows, use in reader.records.by_use():
                n_equal, n_compared = next(counts)
                if use == SELECTED_ON and known_rows.exceeds_repeats(n_equal, n_compared):
                    numbers.append(round(n_rows * n_equal / n_compared))
        return min(n_rows, max(numbers))

    def refuse(
        self,
        model: Model,
        equal_rows: EqualRows | None,
        name: str = "X",
        *,
        in_use: bool = False,
    ) -> None:
        """Raise if the model, or a frozen one within, was trained, selected or calibrated on the rows.

        Parameters
        ----------
        model : classifier
            The model of the comparison.
        equal_rows : {"copies", "natural"} or None
            As in `tailboost.certify`, also the default None. Rows of scores alone are always different rows.
        name : str, default="X"
            Name of the rows in messages.
        in_use : bool, default=False
            Whether these are later rows of a rule in use. Later rows repeat earlier ones by nature in some
            tables. So chance decides about those that selected or calibrated, for any ``equal_rows``.

        Raises
        ------
        LeakageError
            Gives the reason.
        """
        equal_rows = reason_of_equal_rows(judged(model), equal_rows)
        for (reader, _), table in zip(readers(model), self.tables, strict=True):
            if table is not None:
                reason = "natural" if in_use else reason_of_equal_rows(reader, equal_rows)
                refuse_used(table, reader.records.tables, reason, name)
        # In the order of readers, and of the uses of rows by each of them.
        counts = iter(self.counts.tolist())
        for place, (reader, _) in enumerate(readers(model)):
            for known_rows, use in reader.records.by_use():
                n_equal, n_compared = next(counts)
                if place > 0:  # the first reader is the model itself
                    use = INSIDE
                reason = "natural" if in_use and use == SELECTED_ON else equal_rows
                refuse_known(known_rows, use, n_equal, n_compared, reason, name)
