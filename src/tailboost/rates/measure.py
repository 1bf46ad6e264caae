"""Measured rates of given answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Floats, Groups, Ints, Table
from tailboost.core.checks import (
    category_orders,
    check_costs,
    check_indexes,
    check_length,
    check_mask,
    check_same_kind,
    column_name,
    columns_by_name,
    in_category_order,
    in_class_order,
    label_column,
    positions,
    relative_weights,
)
from tailboost.rates.rate import Rate, Sample
from tailboost.rates.strata import Strata


@dataclass(frozen=True, eq=False)
class Answered:
    """Rows with their answers, as numbers of strata and actions."""

    strata: Strata
    stratum: Ints  # shape (n,): stratum of each row
    actions: Any  # shape (n,): answer to each row; shape (n, A): probability of each action, if randomised
    share: Floats  # shape (n,): weights, with sum 1
    costs: Floats | None = None  # shape (n, A): cost of each action for each row

    @classmethod
    def of(
        cls,
        y_true: Any,
        answers: Any,
        *,
        groups: Groups = None,
        deferred: Any = None,
        costs: Table = None,
        sample_weight: Column = None,
        labels: Any = None,
        known: Mapping[Any, Sequence[Any]] | None = None,
    ) -> Answered:
        """Return the rows of positive weight, checked.

        The parameters are the same as in `measure`. Answers may also be probabilities of the labels, shape
        (n, K). ``known`` contains existing groups by column, also without rows.
        """
        about = {"groups": groups, "deferred": deferred, "costs": costs, "sample_weight": sample_weight}
        check_indexes(y_true=y_true, answers=answers, **about)
        truth = label_column(y_true, "y_true")
        n, draws = len(truth), getattr(answers, "ndim", 1) == 2
        predicted = truth if draws else label_column(answers, "answers")
        check_length(answers, "answers", n, "y_true")
        both = np.concatenate([truth, predicted])
        classes = np.unique(both) if labels is None else label_column(labels, "labels")
        weight = relative_weights(sample_weight, n)
        used = weight > 0
        y = positions(truth, classes, "y_true")
        if draws:
            actions = np.asarray(in_class_order(answers, "answers", classes))
        else:
            actions = positions(predicted, classes, "answers")
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
            orders = category_orders(groups)
            values = tuple(
                _values(column[used], (known or {}).get(name), orders.get(name))
                for name, column in table.items()
            )
            pairs = zip(table.values(), values, strict=True)
            numbers = np.column_stack([positions(column[used], names, "groups") for column, names in pairs])
        if deferred is not None:
            deferred = check_mask(deferred, "deferred", n)
            if draws:
                raise ValueError(
                    "deferred: a randomised rule has probabilities of deferral, not deferred rows"
                )
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
        """Whether actions are probabilities."""
        return bool(self.actions.ndim == 2)

    @property
    def counts(self) -> Floats:
        """Confusion counts: the weight of each stratum with each action, then its costs, shape (W, A)."""
        if self.draws:
            parts = [self.share[:, None] * self.actions]
        else:
            parts = [np.zeros((len(self.share), self.strata.n_actions))]
            parts[0][np.arange(len(self.share)), self.actions] = self.share
        parts += [] if self.costs is None else [parts[0] * self.costs]
        S = len(self.strata.mass)
        columns = [
            np.column_stack([np.bincount(self.stratum, column, S) for column in part.T]) for part in parts
        ]
        return np.concatenate(columns).astype(np.float64)

    def without_labels(self, n_rows: int) -> Answered:
        """Return the same rows, the last of which have no labels: they count in rates that need none."""
        strata, stratum, G = self.strata, self.stratum.copy(), self.strata.n_combinations
        stratum[-n_rows:] = strata.n_classes * G + stratum[-n_rows:] % G
        n_strata = (strata.n_classes + 1) * G
        mass = np.bincount(stratum, self.share, n_strata).astype(np.float64)
        squares = np.bincount(stratum, self.share**2, n_strata)
        size = mass**2 / np.where(squares > 0, squares, 1.0)
        strata = replace(strata, mass=mass, size=size, has_unlabeled=True)
        return replace(self, strata=strata, stratum=stratum)

    def samples(self, rate: Rate) -> list[Sample]:
        """Return the rows of each rate, with the value of each row. The rate is their mean."""
        return rate.samples(self.strata, self.stratum, self.actions, self.costs)


def _values(column: Any, known: Sequence[Any] | None, order: list[Any] | None) -> Any:
    """Return the known groups and the groups of the rows, sorted or in the order of categories."""
    values = in_category_order(np.unique(column), order)
    if not known:
        return values
    listed = label_column(known, "groups of the fit")
    check_same_kind(column, "groups", listed, "groups of the fit")
    if order is None and (np.sort(listed) == listed).all():
        return np.unique(np.concatenate([column, listed]))
    return np.concatenate([listed, values[~np.isin(values, listed)]])


def measure(
    rate: Rate,
    y_true: Any,
    answers: Any,
    *,
    groups: Groups = None,
    deferred: Any = None,
    costs: Table = None,
    sample_weight: Column = None,
    labels: Any = None,
) -> dict[Any, float]:
    """Measure a rate of given answers.

    Parameters
    ----------
    rate : Rate
        The rate.
    y_true, answers : array-like of shape (n,)
        True labels and answers.
    groups : array-like of shape (n,), dict or data frame, optional
        Groups of the rows.
    deferred : array-like of bool, shape (n,), optional
        True for deferred rows.
    costs : array-like of shape (n, K) or data frame, optional
        Cost of each answer for each row, for ``cost()`` without a matrix. The columns of an array are in the
        order of the labels. The columns of a data frame are named by the labels.
    sample_weight : array-like of shape (n,), optional
        Weights; weight 2 counts as the row twice, weight 0 as no row.
    labels : array-like of shape (K,), optional
        All labels; by default the labels in ``y_true`` and ``answers``, sorted.

    Returns
    -------
    dict
        The rate of each subgroup by name (None for all rows), NaN if its denominator is 0.

    Raises
    ------
    ValueError
        If lengths differ, or if labels, groups or costs of the rate are missing.

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.measure(rates.miss("b", by="group"), ["a", "b", "b"], ["a", "a", "b"], groups=[1, 1, 2])
    {1: 1.0, 2: 0.0}
    """
    rows = Answered.of(
        y_true,
        answers,
        groups=groups,
        deferred=deferred,
        costs=costs,
        sample_weight=sample_weight,
        labels=labels,
    )
    terms = rate.terms(rows.strata)
    return dict(zip(terms.names, terms.values(rows.counts).tolist(), strict=True))
