"""Strata, the combinations of a class and groups, and rows counted by stratum and answer.

All rows of a stratum count alike, so rates, searches and tests read counts by stratum, and not the rows.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import coo_array, diags_array

from tailboost.core import (
    Column,
    Floats,
    Groups,
    Ints,
    Labels,
    Mask,
    Names,
    Table,
    check_costs,
    check_indexes,
    check_length,
    check_probabilities,
    check_weights,
    coded,
    columns_of,
    frozen_object,
    label_column,
    least_type,
    plain,
    positions,
    take,
)
from tailboost.rows import (
    HUMAN_REVIEW,
    NO_GROUPS,
    GroupNames,
    crossed,
    group_columns,
)

# Least value of a divisor that may be 0, or added to it: too small to change another divisor.
TINY = 1e-300


@frozen_object
class Strata:
    """Combinations (class, groups) of rows, numbered ``class × G + combination``.

    Parameters
    ----------
    classes : tuple of length K
        The labels.
    columns : tuple of length c
        Names of the columns of groups; empty without groups, (None,) for one column without a name.
    values : tuple of c tuples
        The groups of each column.
    combinations : ndarray of int, shape (G, c)
        The combinations of groups, as numbers of values; shape (1, 0) without groups.
    mass : ndarray of shape (S,)
        Fraction of the weight in each stratum, S = K × G; the sum is 1.
    size : ndarray of shape (S,)
        Effective number of rows of each stratum: (Σw)²/Σw².
    defers : bool
        Whether deferral is an action, the last one.
    mean_costs : ndarray of shape (S, A), optional
        Mean cost of each action by stratum, if rows have costs.
    cost_range : tuple of float
        Smallest and largest cost of a row.
    known : tuple of tuples, optional
        Combinations of groups that exist, also without rows, as values by column.
    """

    classes: Names
    columns: Names
    values: tuple[Names, ...]
    combinations: Ints
    mass: Floats
    size: Floats
    defers: bool
    mean_costs: Floats | None = None
    cost_range: tuple[float, float] = (0.0, 1.0)
    known: tuple[Names, ...] = ()

    @cached_property
    def n_classes(self) -> int:
        """The number K of classes."""
        return len(self.classes)

    @cached_property
    def n_actions(self) -> int:
        """The number A of actions: the labels, and deferral if it is allowed."""
        return self.n_classes + self.defers

    @cached_property
    def y(self) -> Ints:
        """The number of the class of each stratum, shape (S,)."""
        K = self.n_classes
        return np.repeat(np.arange(K, dtype=least_type(K)), len(self.combinations))

    def costs_of_actions(self, costs: Floats) -> Floats:
        """Return costs by action. Without deferral its cost is left out; a missing one is 0."""
        return np.pad(costs, ((0, 0), (0, 1)))[:, : self.n_actions]

    def place(self, column: int | None) -> Ints:
        """Return the number of the value of a column of groups in each stratum, shape (S,); 0 for None."""
        if column is None:
            return np.zeros_like(self.y)
        return np.tile(self.combinations[:, column], self.n_classes)


@frozen_object
class Counts:
    """Rows to be counted by stratum and action, with their answers if these are known."""

    strata: Strata
    stratum: Ints  # shape (n,)
    weights: Floats  # shape (n,), of sum 1
    costs: Any = None  # shape (n, A): cost of each action for each row; None without costs
    actions: Any = None  # shape (n,): number of the answer to each row

    @classmethod
    def stratified(
        cls,
        y: Ints,
        groups: Ints | list[Ints],
        weight: Floats,
        classes: Labels,
        names: GroupNames = NO_GROUPS,
        *,
        defers: bool = False,
        costs: Floats | None = None,
        units: Column = None,
    ) -> Self:
        """Return rows without answers.

        Parameters
        ----------
        y : ndarray of int, shape (n,)
            Class numbers.
        groups : sequence of c arrays of int, shape (n,)
            Number of each row's value by column.
        weight : ndarray of shape (n,)
            Weights; rows of weight 0 count nowhere.
        classes : ndarray of shape (K,)
            The labels.
        names : GroupNames
            The names of the c columns, and their values.
        defers : bool
            Whether deferral is an action.
        costs : ndarray of shape (n, K) or (n, A), optional
            Cost of each action for each row; deferral costs nothing by default.
        units : ndarray of shape (n,), optional
            Number of each row's unit, whose rows count as one row in sizes; None if each row is one.
        """
        labels = plain(tuple(classes))
        if defers and HUMAN_REVIEW in labels:
            raise ValueError(
                f"a class is called {HUMAN_REVIEW!r}, as the answer to deferred rows: give the "
                "class another name, or leave out deferral"
            )

        # The combinations of groups that occur, and the stratum of each row.
        combination = crossed(groups, len(y))
        n_combinations = combination.max(initial=0) + 1
        combinations = np.zeros((n_combinations, len(groups)), np.int32)
        combinations[combination] = np.transpose(groups)
        n_strata = len(classes) * n_combinations
        stratum = (y * n_combinations + combination).astype(least_type(n_strata))

        # Weight and effective size of each stratum, and mean costs.
        share = weight / weight.sum()
        if not np.ptp(share):
            share = np.broadcast_to(share[0], len(share))  # takes no memory
        mass: Any = np.bincount(stratum, share, n_strata)
        squares = products_of(share, stratum, n_strata, units).diagonal()
        titles, values = plain((names.titles, tuple(map(tuple, names.values))))
        # Rounded, they are equal in every order of the rows.
        size = (mass**2 / np.maximum(squares, TINY)).round(6)
        strata = Strata(labels, titles, values, combinations, mass, size, defers)
        if costs is not None:
            costs = strata.costs_of_actions(costs)
            counted = costs[weight > 0]
            sums = [np.bincount(stratum, share * cost, n_strata) for cost in costs.T]
            strata = replace(
                strata,
                mean_costs=np.column_stack(sums) / np.maximum(mass, TINY)[:, None],
                cost_range=(float(counted.min()), float(counted.max())),
            )
        return cls(strata, stratum, share, costs)

    @classmethod
    def answered(
        cls,
        y_true: Column,
        answers: Column,
        groups: Groups = None,
        deferred: Column = None,
        costs: Table = None,
        sample_weight: Column = None,
        labels: Column = None,
    ) -> Self:
        """Return rows with answers, checked.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        answers : array-like of shape (n,) or (n, K)
            Answers. Or the probability of each answer of a randomised rule: each answer then is a row with
            this part of the weight. The answer "human review" is a deferred row, unless a label has this
            name.
        groups : array-like of shape (n,) or table, optional
            Groups of the rows.
        deferred : array-like of bool, shape (n,), optional
            Which rows are deferred; None if only the answer "human review" defers.
        costs : table of shape (n, K), optional
            Cost of each answer in each row.
        sample_weight : array-like of shape (n,), optional
            Weights; a row of weight 0 counts nowhere.
        labels : array-like of shape (K,), optional
            All labels; by default those of the rows and answers.
        """
        check_indexes(
            y_true=y_true,
            answers=answers,
            groups=groups,
            deferred=deferred,
            costs=costs,
            sample_weight=sample_weight,
        )
        truth = label_column(y_true, "y_true")
        n = len(truth)
        answers, is_deferred, defers = with_deferrals(answers, deferred, truth, labels)
        are_drawn = np.ndim(answers) == 2
        if are_drawn and defers:
            raise ValueError(
                "deferred: probabilities of labels defer no row; give the answer of each row"
            )

        # The numbers of the labels, of the answers (probabilities have none) and of the groups.
        predicted = truth[:0]
        if not are_drawn:
            predicted = label_column(answers, "answers")
        if labels is None:
            labels, _ = coded([*truth.tolist(), *predicted.tolist()], "y_true with the answers")
        classes = class_labels(labels)
        actions = positions(predicted, classes, "answers")
        names, numbers = GroupNames.of(group_columns(groups, "groups"), "groups", n, "y_true")
        weights = check_weights(sample_weight, n)
        rows = cls.stratified(
            positions(truth, classes, "y_true"),
            numbers.T,
            weights / weights.max(),  # no sum of these overflows
            classes,
            names,
            defers=defers,
            costs=check_costs(costs, n, classes),
        )
        if are_drawn:
            return rows.drawn(check_probabilities(answers, "answers", classes=classes))
        return replace(rows, actions=np.where(is_deferred, len(classes), actions))

    def drawn(self, shares: Floats) -> Self:
        """Return each answer of a randomised rule to a row as a row, with its share (n, K) of the weight."""
        row, action = np.indices(shares.shape).reshape(2, -1)
        weights = self.weights[row] * shares.ravel()
        return type(self)(
            self.strata, self.stratum[row], weights, take(self.costs, row), action
        )

    def sums(self, cell: Ints, n_cells: int, action: Ints | int) -> Floats:
        """Return the weight of the rows by cell and stratum, then their costs, shape (n_cells, W).

        ``cell`` and ``action`` are those of each row. W is S, the number of strata. If the rows have costs, W
        is 2 S: the second half sums the costs of the actions.
        """
        n_strata = len(self.strata.mass)
        entry = cell * np.intp(n_strata) + self.stratum
        parts = [self.weights]
        if self.costs is not None:
            parts.append(self.weights * self.costs[np.arange(len(cell)), action])
        return np.hstack(
            [
                np.bincount(entry, part, n_cells * n_strata).reshape(n_cells, n_strata)
                for part in parts
            ]
        )

    def counts(self, actions: Ints) -> Floats:
        """Return the confusion counts of actions, shape (n,): sums by stratum and action, shape (W, A)."""
        return self.sums(actions, self.strata.n_actions, actions).T

    def products(self, actions: Ints, clusters: Column = None) -> Any:
        """Return the `products_of` the clusters in the counts of actions, shape (S × A, S × A)."""
        n_actions = np.intp(self.strata.n_actions)
        cell = self.stratum * n_actions + actions
        return products_of(self.weights, cell, len(self.strata.mass) * n_actions, clusters)

    def wrong(self, actions: Ints) -> Mask:
        """Return which rows get a wrong answer by actions, shape (n,); deferral is none."""
        return (actions != self.strata.y[self.stratum]) & (actions < self.strata.n_classes)


def class_labels(labels: Column) -> Labels:
    """Return the stated labels of the classes as an array; raise ValueError for a label stated twice."""
    classes = label_column(labels, "labels")
    if len(np.unique(classes)) < len(classes):
        raise ValueError(f"labels must differ, got {classes.tolist()}")
    return classes


def products_of(weights: Floats, cell: Ints, n_cells: Any, units: Column) -> Any:
    """Return the sums over units of the products of their weights in two cells, a sparse (c, c) array.

    Its diagonal has Σ w² of the units by cell. ``cell`` has the number of each row's cell, shape (n,). The
    ``units`` are clusters, or each row if None.
    """
    if units is None:
        return diags_array(np.bincount(cell, weights**2, n_cells))
    numbers = np.unique_inverse(units).inverse_indices
    of_units = coo_array((weights, (numbers, cell)), (len(cell), n_cells))
    return of_units.T @ of_units


def with_deferrals(
    answers: Column, deferred: Column, truth: Labels, labels: Column = None
) -> tuple[Column, Mask, bool]:
    """Return answers with the true label for deferral, the mask of deferred rows, and whether any may be.

    Rows are deferred by the mask ``deferred``, or by the answer "human review", unless one of the ``labels``,
    by default those of the rows, is called so. No rate reads the answers of deferred rows. Answers of shape
    (n, 1) get the shape (n,).
    """
    n = len(truth)
    check_length(answers, "answers", n, "y")
    is_deferred = np.zeros(n, bool)
    if deferred is not None:
        mask = np.asarray(deferred)
        # pandas' NA is in no array of numbers, and equals nothing.
        if mask.shape != (n,) or not {0, 1}.issuperset(mask.tolist()):
            raise ValueError(
                f"deferred must be a mask of shape ({n},), True or False for each row"
            )
        is_deferred = mask.astype(bool)
    if np.shape(answers)[1:] == (1,) and not columns_of(answers):  # of CatBoost
        answers = np.ravel(answers)
    if np.ndim(answers) == 1:
        marks = {HUMAN_REVIEW}.difference(truth if labels is None else labels)
        entries = np.asarray(answers, object)
        is_deferred |= [entry in marks for entry in entries]
        if is_deferred.any():
            answers = np.where(is_deferred, truth, entries)
    return answers, is_deferred, deferred is not None or bool(is_deferred.any())
