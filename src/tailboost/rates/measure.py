"""Rates of answers that are there: what a user measures on rows of his own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import (
    check_costs,
    check_length,
    check_mask,
    check_same_kind,
    check_weights,
    column_name,
    columns_by_name,
    in_class_order,
    label_column,
    positions,
)
from tailboost.rates.rate import Rate, Sample
from tailboost.rates.strata import Strata


@dataclass(frozen=True, eq=False)
class Answered:
    """Rows with what was answered to them, as numbers of strata and actions."""

    strata: Strata  # what the numbers mean
    stratum: Ints  # shape (n,): the stratum of each row
    actions: Any  # shape (n,): the answer to each row, or the share of each action where a rule draws
    share: Floats  # shape (n,): weights; they sum to 1
    costs: Floats | None = None  # shape (n, A): what each action costs in each row

    @classmethod
    def of(
        cls,
        y_true: Any,
        answers: Any,
        *,
        groups: Any = None,
        deferred: Any = None,
        costs: Any = None,
        sample_weight: Any = None,
        labels: Any = None,
        known: Mapping[Any, Sequence[Any]] | None = None,
    ) -> Answered:
        """Return rows of positive weight, checked; parameters as in `measure`.

        Answers may be shares of the labels, shape (n, K). Groups that there are, also without rows, are
        ``known`` by column.
        """
        truth = label_column(y_true, "y_true")
        n, draws = len(truth), getattr(answers, "ndim", 1) == 2
        said = truth if draws else label_column(answers, "answers")
        check_length(answers, "answers", n, "y_true")
        both = np.concatenate([truth, said])
        classes = np.unique(both) if labels is None else label_column(labels, "labels")
        weight = check_weights(sample_weight, n)
        used = weight > 0
        y = positions(truth, classes, "y_true")
        if draws:
            actions = np.asarray(in_class_order(answers, "answers", classes))
        else:
            actions = positions(said, classes, "answers")
        numbers: Ints | None = None
        columns: tuple[Any, ...] = ()
        values: tuple[Any, ...] = ()
        if groups is not None:
            table = {
                name: label_column(column, "groups")
                for name, column in columns_by_name(groups, "groups").items()
            }
            for column in table.values():
                check_length(column, "groups", n, "y_true")
            columns = tuple(table) if list(table) != [None] else (column_name(groups),)
            values = tuple(_values(of[used], (known or {}).get(name)) for name, of in table.items())
            numbers = np.column_stack(
                [
                    positions(column[used], of, "groups")
                    for column, of in zip(table.values(), values, strict=True)
                ]
            )
        if deferred is not None:
            deferred = check_mask(deferred, "deferred", n)
            if draws:
                raise ValueError("deferred: a rule that draws has shares of passing on, not rows")
            actions = np.where(deferred, len(classes), actions)
        each = check_costs(costs, n, classes, np.flatnonzero(used))
        if each is not None and deferred is not None:
            each = np.column_stack([each, np.zeros(len(each))])
        share = weight[used] / weight[used].sum()
        strata, stratum = Strata.of(
            y[used], numbers, share, classes, columns, values, defers=deferred is not None, costs=each
        )
        return cls(strata, stratum, actions[used], share, each)

    @property
    def draws(self) -> bool:
        """Whether actions are shares."""
        return bool(self.actions.ndim == 2)

    @property
    def tally(self) -> Floats:
        """The weight of each stratum that gets each action, and what it costs there, shape (W, A)."""
        if self.draws:
            return self._drawn()
        n_strata, A = len(self.strata.mass), self.strata.n_actions
        cell = self.stratum * A + self.actions
        tally: Floats = np.bincount(cell, self.share, n_strata * A).astype(np.float64).reshape(n_strata, A)
        if self.costs is None:
            return tally
        met = self.share * self.costs[np.arange(len(self.actions)), self.actions]
        return np.concatenate([tally, np.bincount(cell, met, n_strata * A).reshape(n_strata, A)])

    def _drawn(self) -> Floats:
        n_strata = len(self.strata.mass)
        parts = [self.share[:, None] * self.actions]
        parts += [] if self.costs is None else [parts[0] * self.costs]
        columns = [
            np.column_stack([np.bincount(self.stratum, column, n_strata) for column in part.T])
            for part in parts
        ]
        return np.concatenate(columns)

    def samples(self, rate: Rate) -> list[Sample]:
        """Return the rows that each rate is a mean over, with what each contributes."""
        return rate.samples(self.strata, self.stratum, self.actions, self.costs)


def _values(column: Any, known: Sequence[Any] | None) -> Any:
    """Return the groups that there are: those of rows, and those that are known."""
    if not known:
        return np.unique(column)
    listed = label_column(known, "groups of the fit")
    check_same_kind(column, "groups", listed, "groups of the fit")
    return np.unique(np.concatenate([column, listed]))


def measure(
    rate: Rate,
    y_true: Any,
    answers: Any,
    *,
    groups: Any = None,
    deferred: Any = None,
    costs: Any = None,
    sample_weight: Any = None,
    labels: Any = None,
) -> dict[Any, float]:
    """Measure a rate of some answers, by counting.

    Parameters
    ----------
    rate : Rate
        What to measure.
    y_true, answers : array-like of shape (n,)
        The labels, and what was answered.
    groups : array-like of shape (n,), dict or data frame, optional
        Groups of the rows.
    deferred : array-like of bool, shape (n,), optional
        Rows that were passed on instead of answered.
    costs : array-like of shape (n, K) or data frame, optional
        Cost of each answer in each row, for ``cost()`` without a matrix. The columns of an array are in the
        order of the labels. Those of a data frame have their names.
    sample_weight : array-like of shape (n,), optional
        Weights; 2 counts as the row twice, 0 not at all.
    labels : array-like of shape (K,), optional
        All labels; by default those in ``y_true`` and ``answers``, sorted.

    Returns
    -------
    dict
        The rate of each unit by its name (None for all rows), NaN where there are no rows to count among.

    Raises
    ------
    ValueError
        If something has another length, or the rate speaks of what is not there.

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.measure(rates.miss("b", by="group"), ["a", "b", "b"], ["a", "a", "b"], groups=[1, 1, 2])
    {1: 1.0, 2: 0.0}
    """
    found = Answered.of(
        y_true,
        answers,
        groups=groups,
        deferred=deferred,
        costs=costs,
        sample_weight=sample_weight,
        labels=labels,
    )
    terms = rate.terms(found.strata)
    return dict(zip(terms.names, terms.values(found.tally).tolist(), strict=True))
