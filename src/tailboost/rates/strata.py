"""Strata: combinations of class and groups, their subgroups, and the answered rows in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from tailboost.core.array_types import Column, Floats, Groups, Ints, Labels, Mask, Table
from tailboost.core.checks import (
    category_orders,
    check_costs,
    check_deferred,
    check_indexes,
    check_length,
    check_same_kind,
    column_name,
    distinct_and_places,
    in_category_order,
    in_class_order,
    label_column,
    plain,
    positions,
    relative_weights,
)
from tailboost.core.spelling import did_you_mean
from tailboost.rows.subgroups import HUMAN_REVIEW, coded_columns

# Values of `by` other than names of columns of `groups`.
EVERYTHING = None
CLASS = "class"
GROUP = "group"
CELL = "cell"


@dataclass(frozen=True, eq=False)
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
        Combinations of groups that exist, also without rows, as values by column. None if all combinations of
        the values exist.
    """

    classes: tuple[Any, ...]
    columns: tuple[Any, ...]
    values: tuple[tuple[Any, ...], ...]
    combinations: Ints
    mass: Floats
    size: Floats
    defers: bool = False
    mean_costs: Floats | None = None
    cost_range: tuple[float, float] = (0.0, 1.0)
    known: tuple[tuple[Any, ...], ...] | None = ()

    def __post_init__(self) -> None:
        if self.defers and HUMAN_REVIEW in self.classes:
            raise ValueError(
                f"a class is called {HUMAN_REVIEW!r}, as the answer to deferred rows: give the "
                "class another name, or leave out deferral"
            )

    @classmethod
    def of(
        cls,
        y: Ints,
        groups: Ints | None,
        weight: Floats,
        classes: Any,
        columns: tuple[Any, ...] = (),
        values: Any = (),
        *,
        defers: bool = False,
        costs: Floats | None = None,
    ) -> tuple[Strata, Ints]:
        """Return the strata of rows, and the stratum number of each row.

        Parameters
        ----------
        y : ndarray of int, shape (n,)
            Class numbers.
        groups : ndarray of int, shape (n, c), or None
            Number of each row's value in each column.
        weight : ndarray of shape (n,)
            Positive weights.
        classes, columns, values
            As in the class.
        defers : bool
            Whether rows may be deferred.
        costs : ndarray of shape (n, A), optional
            Cost of each action for each row.

        Returns
        -------
        strata : Strata
        stratum : ndarray of int, shape (n,)
        """
        labels = tuple(map(plain, classes))
        if groups is None:
            combinations = np.zeros((1, 0), dtype=np.intp)
            combination = np.zeros(len(y), dtype=np.intp)
        else:
            combinations, combination = _distinct(groups)
        stratum = y * len(combinations) + combination.ravel()
        n_strata = len(labels) * len(combinations)
        share = weight / weight.sum()
        mass, size = _mass_and_size(stratum, share, n_strata)
        mean_costs = None
        cost_range = (0.0, 1.0)
        if costs is not None:
            cost_sums = _sums_by_stratum(share[:, None] * costs, stratum, n_strata)
            mean_costs = cost_sums / np.where(mass > 0, mass, 1.0)[:, None]  # 0 without rows
            cost_range = (float(costs.min()), float(costs.max()))
        strata = cls(
            classes=labels,
            columns=plain(tuple(columns)),
            values=plain(tuple(map(tuple, values))),
            combinations=combinations.astype(np.intp),
            mass=mass,
            size=size,
            defers=defers,
            mean_costs=mean_costs,
            cost_range=cost_range,
        )
        return strata, stratum

    @property
    def mean_costs_by_class(self) -> Floats:
        """The mean cost of each answer (column) in each class with rows, shape (K, A); 0 without rows."""
        assert self.mean_costs is not None
        of_class = np.arange(self.n_classes)[:, None] == self.y
        sums = of_class @ (self.mass[:, None] * self.mean_costs)
        return sums / np.maximum(of_class @ self.mass, 1e-300)[:, None]

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def n_combinations(self) -> int:
        """G."""
        return len(self.combinations)

    @property
    def n_actions(self) -> int:
        """A: the labels, and deferral if allowed."""
        return self.n_classes + self.defers

    @property
    def y(self) -> Ints:
        """Class number of each stratum, shape (S,)."""
        return np.repeat(np.arange(self.n_classes), self.n_combinations)

    @property
    def combination(self) -> Ints:
        """Number of the combination of groups of each stratum, shape (S,)."""
        return np.tile(np.arange(self.n_combinations), self.n_classes)

    def place(self, column: int | None) -> Ints:
        """Return the number of the value of a column of groups in each stratum, shape (S,); 0 for None."""
        if column is None:
            return np.zeros_like(self.combination)
        return self.combinations[self.combination, column]

    @property
    def names(self) -> list[tuple[Any, ...]]:
        """Name of each stratum: its label, or None of rows without labels, then its groups."""
        combinations = []
        for numbers in self.combinations:
            groups = [values[i] for values, i in zip(self.values, numbers, strict=True)]
            combinations.append(tuple(groups))
        labels = (*self.classes, None)
        pairs = zip(self.y, self.combination, strict=True)
        return [(labels[k], *combinations[g]) for k, g in pairs]

    def constants(self) -> list[Floats]:
        """Return the confusion counts if all rows have one action, for each action, shape (W, A) each.

        If rows have costs, W is 2 S: the weights of the strata, then their costs.
        """
        counts_by_action = []
        for action in np.eye(self.n_actions):
            counts = self.mass[:, None] * action
            if self.mean_costs is not None:
                counts = np.concatenate([counts, counts * self.mean_costs])
            counts_by_action.append(counts)
        return counts_by_action

    def label(self, label: Any) -> int:
        """Return the number of the class with a label.

        Text and numbers are different labels, also "1" and 1, and so are True and 1. Raise ValueError if no
        class has this label.
        """
        for number, name in enumerate(self.classes):
            if name != label or isinstance(name, str) != isinstance(label, str):
                continue
            if isinstance(label, bool) and not isinstance(name, bool):
                break
            return number
        near = did_you_mean(str(label), map(str, self.classes))
        cure = ""
        if (
            isinstance(label, str)
            and not near
            and not any(isinstance(c, str) for c in self.classes)
        ):
            cure = "; a rate names a label, not the column of the labels"
        raise ValueError(
            f"no class is called {label!r}: {near}there are {_first_names(self.classes)}{cure}"
        )

    def subgroups(self, by: Any) -> tuple[list[Any], Mask]:
        """Return the names of the m subgroups of ``by``, and a mask of the strata in each, shape (m, S).

        Raise ValueError if there are no such groups.
        """
        of_class = self.y == np.arange(self.n_classes)[:, None]
        if by is EVERYTHING:
            return [None], np.ones((1, len(self.y)), dtype=bool)
        if by == CLASS:
            return list(self.classes), of_class
        if not self.columns:
            raise ValueError(f"by={by!r} needs groups; pass groups=")
        if isinstance(by, tuple):
            return self._crossed(by)
        if by not in (GROUP, CELL):
            return self._groups_of([self._column(by)])
        groups, of_group = self._groups_of(range(len(self.columns)))
        if by == GROUP:
            return groups, of_group
        cells = [(label, group) for group, label in product(groups, self.classes)]
        return cells, (of_group[:, None] & of_class).reshape(len(cells), -1)

    def _groups_of(self, columns: Sequence[int]) -> tuple[list[Any], Mask]:
        """Return the names of the m groups of columns, given by number, and the strata of each, shape (m, S).

        Of several columns a name has the column and the value: two columns may have the same values.
        """
        names: list[Any] = []
        masks = []
        for j in columns:
            values = self.values[j]
            if len(columns) > 1:
                names += [(self.columns[j], value) for value in values]
            else:
                names += values
            masks.append(self.place(j) == np.arange(len(values))[:, None])
        return names, np.concatenate(masks)

    def _crossed(self, by: tuple[Any, ...]) -> tuple[list[Any], Mask]:
        """Return the combinations of several columns (one may be the class), and their strata, shape (m, S).

        These are the combinations with rows or known to exist. A name is a tuple of a value, or of a class,
        for each name in ``by``; masks select strata.
        """
        numbers_by_column = []
        values_by_column = []
        for name in by:
            if name == CLASS:
                numbers_by_column.append(self.y)
                values_by_column.append(self.classes)
            else:
                j = self._column(name)
                numbers_by_column.append(self.place(j))
                values_by_column.append(self.values[j])
        keys = np.column_stack(numbers_by_column)  # of the strata, shape (S, columns)
        has_rows = self.mass > 0
        if CLASS in by:
            has_rows &= self.y < self.n_classes  # rows without labels have no class
        known = self._known_keys(by, values_by_column)
        names = []
        masks = []
        for key in np.unique([*keys[has_rows].tolist(), *known], axis=0):
            name = tuple(values[i] for values, i in zip(values_by_column, key, strict=True))
            names.append(name)
            masks.append((keys == key).all(axis=1))
        return names, np.array(masks)

    def _known_keys(
        self, by: tuple[Any, ...], values_by_column: list[tuple[Any, ...]]
    ) -> list[tuple[int, ...]]:
        """Return the keys of the existing combinations, with every class if the class is in ``by``.

        A key is as in `_crossed`. ``values_by_column`` are the classes or groups of each name in ``by``.
        """
        if self.known is None:
            return list(product(*(range(len(values)) for values in values_by_column)))
        keys: list[tuple[int, ...]] = []
        for combination in self.known:
            numbers_by_column: list[Sequence[int]] = []
            for name in by:
                if name == CLASS:
                    numbers_by_column.append(range(self.n_classes))
                else:
                    j = self._column(name)
                    numbers_by_column.append([self.values[j].index(combination[j])])
            keys += product(*numbers_by_column)
        return keys

    def _column(self, name: Any) -> int:
        """Return the number of a column of groups; raise ValueError with advice if there is none."""
        if name in self.columns:
            return self.columns.index(name)
        if self.columns == (None,):
            raise ValueError(
                f"by={name!r}: groups have no name; write by='group', or name the column: "
                "groups as a dict or data frame, subgroups as pairs of column and group"
            )
        near = did_you_mean(str(name), map(str, self.columns))
        raise ValueError(
            f"by={name!r}: no column of groups has this name; {near}there are "
            f"{_first_names(self.columns)}. Add it to groups=, also in the call that selects the rule"
        )

    def number(self, y: Ints, combination: Ints) -> Ints:
        """Return the stratum of each row from its class and its combination of groups, shape (n,)."""
        return y * self.n_combinations + combination

    def find(self, groups: Ints) -> Ints:
        """Return the number of each row's combination of groups, shape (n,); −1 for unknown ones.

        ``groups`` has the numbers of each row's values, shape (n, c).
        """
        number_of = {tuple(row): g for g, row in enumerate(self.combinations.tolist())}
        distinct, index = _distinct(groups)
        combinations = [number_of.get(tuple(row), -1) for row in distinct.tolist()]
        return np.array(combinations, dtype=np.intp)[index.ravel()]


def _mass_and_size(stratum: Ints, share: Floats, n_strata: int) -> tuple[Floats, Floats]:
    """Return the weight and the effective number of rows of each stratum, (Σw)²/Σw², shape (S,) each.

    ``share`` is the weight of each row, with sum 1.
    """
    mass = np.bincount(stratum, share, n_strata).astype(np.float64)
    squares = np.bincount(stratum, share**2, n_strata)
    return mass, mass**2 / np.where(squares > 0, squares, 1.0)  # 0 without rows


def _sums_by_stratum(values: Floats, stratum: Ints, n_strata: int) -> Floats:
    """Return the sums of a table (n, A) over the rows of each stratum, shape (S, A)."""
    sums = [np.bincount(stratum, column, n_strata) for column in values.T]
    return np.column_stack(sums).astype(np.float64)


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """Return the distinct rows of a table (n, c) in order, and each row's number among them, shape (n,).

    For speed, a row is coded as one number if all codes are valid integers.
    """
    low = rows.min(axis=0, initial=0)
    sizes = (rows - low).max(axis=0, initial=0) + 1
    if np.prod(sizes.astype(np.float64)) > 2.0**62:
        return np.unique(rows, axis=0, return_inverse=True)
    codes = np.ravel_multi_index(tuple((rows - low).T), tuple(sizes))
    distinct_codes, index = distinct_and_places(codes)
    distinct = np.column_stack(np.unravel_index(distinct_codes, tuple(sizes))) + low
    return distinct, index


def _first_names(names: tuple[Any, ...]) -> str:
    """Return at most 20 names as the text of a list."""
    text = str(list(names[:20]))
    if len(names) > 20:
        text += " …"
    return text


def names_in(by: Any) -> tuple[Any, ...]:
    """Return the names in a value of ``by`` as a tuple: those of a tuple, otherwise the value alone."""
    if isinstance(by, tuple):
        return by
    return (by,)


def groups_in(subgroup: Any, by: Any, titles: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the pairs (column, group) in the name of a subgroup.

    ``titles`` are the columns of groups. Of a single column, the name of a group has no column.
    """
    names = names_in(by)
    if by == CELL:
        names = (GROUP,)
        subgroup = subgroup[1]
    if len(names) == 1:
        subgroup = (subgroup,)
    pairs = []
    for name, group in zip(names, subgroup, strict=True):
        if name == CLASS or name is None:
            continue
        if name != GROUP:
            pairs.append((name, group))
        elif isinstance(group, tuple):
            pairs.append(group)
        else:
            pairs.append((titles[0] if len(titles) == 1 else None, group))
    return pairs


# -- answered rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of one subgroup with their values; the rate of the subgroup is the mean of the values.

    Parameters
    ----------
    name : object
        Name of the subgroup.
    rows : ndarray of int
        Row numbers.
    values : ndarray
        Value of each of these rows.
    low, high : float
        Bounds of the values for all possible answers.
    among : ndarray, optional
        Weight of each of these rows in the denominator, for a ratio of a randomised rule or an F score.
    """

    name: Any
    rows: Ints
    values: Floats
    low: float
    high: float
    among: Floats | None = None

    @property
    def mean(self) -> float:
        """Rate of these rows with equal weights; NaN without rows."""
        if not len(self.rows):
            return float("nan")
        if self.among is None:
            return float(self.values.sum() / len(self.rows))
        return float(self.values.sum() / self.among.sum())

    @property
    def mirrored(self) -> Sample:
        """The sample of the complement: each value is ``low + high`` minus the value."""
        total: Any = self.low + self.high
        if self.among is not None:
            total = total * self.among
        return replace(self, values=total - self.values)

    def taken(self, positions: Any) -> Sample:
        """Return some of the rows, by positions in ``rows`` or a mask."""
        sample = replace(self, rows=self.rows[positions], values=self.values[positions])
        if self.among is not None:
            sample = replace(sample, among=self.among[positions])
        return sample

    def ordered(self, rank: Floats) -> Sample:
        """Return the same rows in the order of a rank of all rows, shape (n,)."""
        return self.taken(np.argsort(rank[self.rows], kind="stable"))

    def without_rows(self, name: Any) -> Sample:
        """Return the sample of a subgroup without rows."""
        return Sample(name, self.rows[:0], self.values[:0], self.low, self.high)


@dataclass(frozen=True, eq=False)
class Answered:
    """Rows with their answers, as numbers of strata and actions."""

    strata: Strata
    stratum: Ints  # shape (n,): stratum of each row
    actions: Any  # shape (n,): answer to each row; shape (n, A): probability of each action, if randomised
    share: Floats  # shape (n,): weights, with sum 1
    # Shape (n, A): cost of each action for each row; None without costs.
    costs: Floats | None = None

    @classmethod
    def from_arrays(
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

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels.
        answers : array-like of shape (n,) or (n, K)
            Answers, or the probability of each answer of a randomised rule.
        groups : array-like of shape (n,) or table, optional
            Groups of the rows.
        deferred : array-like of bool, shape (n,), optional
            Which rows are deferred; None if no row may be.
        costs : table of shape (n, K), optional
            Cost of each answer in each row.
        sample_weight : array-like of shape (n,), optional
            Weights; rows of weight 0 are left out.
        labels : array-like of shape (K,), optional
            All labels; by default those of the rows and answers.
        known : dict, optional
            Existing groups by column, also without rows.
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
        classes, actions = _numbered_answers(truth, answers, labels)
        weight = relative_weights(sample_weight, n)
        used = weight > 0
        y = positions(truth, classes, "y_true")
        numbered = NumberedGroups()
        if groups is not None:
            numbered = NumberedGroups.of(groups, used, known or {})
        used_costs = check_costs(costs, n, classes, np.flatnonzero(used))
        if deferred is not None:
            actions = _with_deferred(actions, deferred, len(classes))
            if used_costs is not None:
                costs_of_deferral = np.zeros(len(used_costs))
                used_costs = np.column_stack([used_costs, costs_of_deferral])
        share = weight[used] / weight[used].sum()
        strata, stratum = Strata.of(
            y[used],
            numbered.numbers,
            share,
            classes,
            numbered.columns,
            numbered.values,
            defers=deferred is not None,
            costs=used_costs,
        )
        return cls(strata, stratum, actions[used], share, used_costs)

    @property
    def draws(self) -> bool:
        """Whether actions are probabilities."""
        return bool(self.actions.ndim == 2)

    @property
    def counts(self) -> Floats:
        """Confusion counts: the weight of each stratum with each action, then its costs, shape (W, A)."""
        probabilities = self.actions
        if not self.draws:
            probabilities = self.actions[:, None] == np.arange(self.strata.n_actions)
        weights = self.share[:, None] * probabilities  # shape (n, A)
        n_strata = len(self.strata.mass)
        counts = _sums_by_stratum(weights, self.stratum, n_strata)
        if self.costs is None:
            return counts
        costs = _sums_by_stratum(weights * self.costs, self.stratum, n_strata)
        return np.concatenate([counts, costs])


def answers_and_deferred(
    truth: Any, answers: Any, labels: Any, deferred: Column
) -> tuple[Any, Any]:
    """Return answers without "human review", and the mask of deferred rows; None if no row is deferred.

    Answers of a rule have "human review" in the rows that it defers, whose answer no rate reads: they get the
    true label. A label of this name is no deferral.

    Parameters
    ----------
    truth : array-like of shape (n,)
        True labels.
    answers : array-like of shape (n,) or (n, K)
        Answers, or the probability of each answer of a randomised rule.
    labels : array-like of shape (K,) or None
        All labels, if they are stated.
    deferred : array-like of bool, shape (n,), or None
        Further deferred rows.
    """
    column = np.asarray(answers, dtype=object)
    label = np.asarray(truth, dtype=object)
    known = label if labels is None else np.asarray(labels, dtype=object)
    if column.shape != label.shape or HUMAN_REVIEW in known.tolist():
        return answers, deferred
    is_review = np.asarray(column == HUMAN_REVIEW)
    if not is_review.any():
        return answers, deferred
    if deferred is not None:
        is_review |= check_deferred(deferred, len(is_review))
    return np.where(is_review, label, column), is_review


def _with_deferred(answers: Any, deferred: Column, n_classes: int) -> Ints:
    """Return the numbers of the answers, shape (n,), with K for deferred rows.

    Raise ValueError for probabilities of answers: these have a column for deferral.
    """
    is_deferred = check_deferred(deferred, len(answers))
    if answers.ndim == 2:
        raise ValueError(
            "deferred: a randomised rule has probabilities of deferral, not deferred rows"
        )
    return np.where(is_deferred, n_classes, answers)


def _numbered_answers(truth: Labels, answers: Any, labels: Any) -> tuple[Labels, Any]:
    """Return the classes, and the number of each answer, shape (n,), or its probabilities, shape (n, K).

    Without ``labels``, the classes are the labels in ``truth`` and ``answers``, sorted.
    """
    is_randomised = getattr(answers, "ndim", 1) == 2
    predicted = truth
    if not is_randomised:
        predicted = label_column(answers, "answers")
    check_length(answers, "answers", len(truth), "y_true")
    if labels is None:
        classes = np.unique(np.concatenate([truth, predicted]))
    else:
        classes = label_column(labels, "labels")
    if is_randomised:
        return classes, np.asarray(in_class_order(answers, "answers", classes))
    return classes, positions(predicted, classes, "answers")


def is_named_column(by: Any) -> bool:
    """Return whether ``by`` of a rate is the name of one column of groups, or "group" for all of them."""
    return isinstance(by, str) and by not in (CLASS, CELL)


class NumberedGroups(NamedTuple):
    """The groups of rows in c columns, by number; without columns, if there are no groups."""

    columns: tuple[Any, ...] = ()  # their names
    values: tuple[Any, ...] = ()  # the groups of each column
    numbers: Ints | None = None  # shape (n, c): the place of the row's group among them

    @classmethod
    def of(cls, groups: Groups, used: Mask, known: Mapping[Any, Sequence[Any]]) -> Self:
        """Return the groups of the used rows; ``known`` has existing groups by column, also without rows."""
        columns = coded_columns(groups, "groups", len(used), "y_true", used=used)
        orders = category_orders(groups)
        names = tuple(columns)
        if names == (None,):
            names = (column_name(groups),)
        values = []
        numbers = []
        for name, (given, place) in columns.items():
            groups_of_column = _groups_of(given, known.get(name), orders.get(name))
            values.append(groups_of_column)
            numbers.append(positions(given, groups_of_column, "groups")[place])
        return cls(names, tuple(values), np.column_stack(numbers))


def _groups_of(column: Any, known: Sequence[Any] | None, order: list[Any] | None) -> Any:
    """Return the groups of a column: of its rows and the known ones, each once.

    They are in the ``order`` of the column's categories, if there is one, and otherwise sorted. Known groups
    in another order stay so, before the others.
    """
    values = in_category_order(np.unique(column), order)
    if not known:
        return values
    listed = label_column(known, "groups of the fit")
    check_same_kind(column, "groups", listed, "groups of the fit")
    if order is None and (np.sort(listed) == listed).all():
        return np.unique(np.concatenate([values, listed]))
    return np.concatenate([listed, values[~np.isin(values, listed)]])
