"""Rows, read once with their labels and groups as numbers, and which of them have a vote."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tailboost.core import (
    Column,
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Table,
    check_costs,
    check_indexes,
    check_length,
    coded,
    distinct_and_positions,
    frozen_object,
    least_type,
    n_rows_of,
    positions,
    row_weights,
    take,
    unpack,
)
from tailboost.rows.fingerprints import hash_rows, hashes_of_names, hashes_of_pairs
from tailboost.rows.groups import NO_GROUPS, Columns, GroupNames, column_words, group_columns

#: The answer that defers a row, and the name of the column of its costs.
HUMAN_REVIEW = "human review"
# A column of groups has at most 20 different numbers, or one for each ten rows of a longer table.
MOST_NUMBERS = 20
FEWEST_OF_A_NUMBER = 10


@frozen_object
class Rows:
    """Rows, with labels and groups as numbers.

    `read` numbers the labels and groups that occur in the rows, in their order. `numbered` returns the rows
    with the numbers of a fit, and with costs in the order of its classes.

    Attributes
    ----------
    y : ndarray of shape (n,)
        Class numbers; None for rows without labels.
    weight : ndarray of shape (n,)
        Sample weights. Rows of weight 0 are left out when rows are read.
    groups : ndarray of shape (n, c)
        Number of the group of each row in each of c columns; c is 0 without groups.
    words : str
        Description for messages.
    units : ndarray of shape (n,), optional
        Cluster, or hash of the content, equal for equal rows; None if all rows are different, as rows of
        scores are. One in 370,000 tables of 10⁷ different rows has two rows with one hash.
    n_given : int, optional
        Number of rows passed by the user; None if unknown.
    used : ndarray of int, shape (n,), optional
        Numbers of the rows among the rows passed by the user; None for all.
    fitted : bool
        Whether base models were fitted on these rows, so losses are not out of fold.
    refit : bool
        Whether models are fitted again after their losses were measured on these rows.
    X : table of n rows, optional
        Features. Classifiers keep rows without them.
    clusters : ndarray of int, shape (n,), optional
        Number of each row's cluster, such as a person: rows of a cluster stay in one fold.
    costs : ndarray of shape (n, K), optional
        Cost of each answer, as given until the rows are `numbered`.
    classes : ndarray of shape (K,)
        The labels.
    names : GroupNames
        The names of the groups.
    """

    y: Any
    weight: Floats
    groups: Ints
    words: str
    units: Column = None
    n_given: int | None = None
    used: Ints | None = None
    fitted: bool = False
    refit: bool = False
    X: Table = None
    clusters: Column = None
    costs: Any = None
    classes: Any = None
    names: GroupNames = NO_GROUPS

    @classmethod
    def read(
        cls,
        X: Table = None,
        y: Column = None,
        groups: Groups = None,
        sample_weight: Column = None,
        costs: Table = None,
        clusters: Column = None,
        *,
        suffix: str = "",
    ) -> Self:
        """Return given rows: the parameters of `tailboost.certify` and of ``fit``, checked.

        Names of columns of groups become columns. The names of arguments end with the ``suffix``.

        Raises
        ------
        ValueError
            If an argument has another number of rows, missing entries or invalid weights, or if pandas
            objects about these rows have different indexes.
        """
        X, y = unpack(X, y)
        if hasattr(type(X), "predict"):
            raise TypeError(
                f"X{suffix} is a model, {type(X).__name__}: the table comes after it, then y"
            )

        # All arguments have the same rows in the same order.
        arguments = {"X": X, "y": y, "groups": groups, "costs": costs, "clusters": clusters}
        given = {name + suffix: each for name, each in arguments.items() if each is not None}
        check_indexes(**given, **{f"sample_weight{suffix}": sample_weight})
        if not given:
            raise ValueError(f"X{suffix} and y{suffix} are needed")
        first, table = next(iter(given.items()))
        n = n_rows_of(table)
        columns = group_columns(groups, f"groups{suffix}", X)

        # Labels, groups and clusters become numbers.
        classes = None
        if y is not None:
            classes, y = coded(y, f"y{suffix}", target=True)
            y = y.astype(least_type(len(classes)))
        for name, values in given.items():
            if values is not groups:  # which may be a name, and is checked by column
                check_length(values, name, n, first)
        names, numbers = GroupNames.of(columns, f"groups{suffix}", n, first)
        if clusters is not None:
            _, clusters = coded(clusters, f"clusters{suffix}", target=True)
        weight = row_weights(sample_weight, n, f"sample_weight{suffix}")
        rows = cls(
            y,
            weight,
            numbers,
            f"the {n:,} given rows",
            n_given=n,
            X=X,
            clusters=clusters,
            costs=costs,
            classes=classes,
            names=names,
        )
        return rows if weight.all() else rows.part(weight > 0).occurring()

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def labels(self) -> Any:
        """The label of each row, shape (n,); None without labels."""
        return None if self.classes is None else self.classes[self.y]

    @property
    def columns(self) -> Columns:
        """The group of each row by column; empty without groups."""
        return {
            title: self.names.values[j][self.groups[:, j]]
            for j, title in enumerate(self.names.titles)
        }

    def has_column(self, score_labels: Sequence[Any]) -> Mask | None:
        """Return whether each row has one of the labels of columns of scores; None without such labels."""
        if not len(score_labels):
            return None
        return np.array([label in score_labels for label in self.classes.tolist()])[self.y]

    def hashes(self, contents: Hashes) -> Hashes:
        """Return the hashes of the rows with their labels, groups and costs, shape (n,).

        ``contents`` are hashes of their values. The order of the columns of groups has no effect.
        """
        hashes = hashes_of_pairs(contents, hashes_of_names(self.classes)[self.y])
        for j, title in enumerate(self.names.titles):
            of_title = hashes_of_names([str(title)])
            of_groups = hashes_of_pairs(hashes_of_names(self.names.values[j]), of_title)
            hashes += of_groups[self.groups[:, j]]
        if self.costs is not None:
            hashes = hashes_of_pairs(hashes, hash_rows(self.costs))
        return hashes

    @property
    def given_numbers(self) -> Ints:
        """Numbers of the rows among the rows passed by the user, shape (n,)."""
        return np.arange(len(self)) if self.used is None else self.used

    def part(self, mask: Mask) -> Self:
        """Return the rows of a mask, with their numbers among all passed rows in ``used``."""
        if mask.all():
            return self
        by_row = ("y", "weight", "groups", "units", "X", "clusters", "costs")
        parts = {field: take(getattr(self, field), mask) for field in by_row}
        return replace(self, used=self.given_numbers[mask], **parts)

    def occurring(self) -> Self:
        """Return the rows with only those labels and groups that occur, which are numbered anew."""
        classes = self.classes
        y = self.y
        if classes is not None:
            occurs, y = distinct_and_positions(y)
            classes = classes[occurs]
        values = []
        groups = np.empty_like(self.groups)
        for j, names in enumerate(self.names.values):
            occurs, groups[:, j] = distinct_and_positions(self.groups[:, j])
            values.append(names[occurs])
        return replace(
            self,
            classes=classes,
            y=y,
            names=replace(self.names, values=tuple(values)),
            groups=groups,
        )

    def refuse_many_numbers(self, columns: Iterable[int]) -> None:
        """Raise ValueError if one of some columns of groups has many numbers, each of few given rows."""
        most = max(MOST_NUMBERS, (self.n_given or len(self)) / FEWEST_OF_A_NUMBER)
        for j in columns:
            values = self.names.values[j]
            if values.dtype.kind in "iuf" and len(values) > most:
                raise ValueError(
                    f"{column_words('groups', self.names.titles[j])} has {len(values):,} different numbers, "
                    "and each would be a group of few rows; make bands first, as by pandas.cut"
                )

    def numbered(
        self, classes: Labels, names: GroupNames, words: str, suffix: str = ""
    ) -> Self:
        """Return the rows with the numbers of the labels and groups of a fit.

        Costs are checked. Raise ValueError for labels and groups that are not among those of the fit.
        """
        return replace(
            self,
            y=positions(self.classes, classes, f"y{suffix}")[self.y],
            classes=classes,
            groups=self.names.numbers_in(names, self.groups, f"groups{suffix}"),
            names=names,
            costs=check_costs(self.costs, len(self), classes, f"costs{suffix}"),
            words=words,
        )


@frozen_object
class Votes:
    """Which rows count: each row, or one random row of each cluster.

    Attributes
    ----------
    clusters : ndarray of shape (n,) or None
        Cluster of each row; None if each row has a vote.
    draws : ndarray of shape (n,)
        A random number of each row (`voting_numbers`); that with the smallest one has the vote of its
        cluster. Under an ideal hash function votes are independent draws within the clusters.
    same_everywhere : bool
        Whether only one row of a cluster may ever have its vote. Otherwise it is drawn anew in each subgroup.
        If rules may defer, rows with votes are then independent for limits on errors and deferral together.
    """

    clusters: Ints | None
    draws: Floats
    same_everywhere: bool

    @cached_property
    def n_clusters(self) -> int | None:
        """Number of clusters; None if each row has a vote."""
        return None if self.clusters is None else len(np.unique(self.clusters))

    def among(self, rows: Ints) -> Ints:
        """Return the rows with a vote among some rows, in their order."""
        if self.clusters is None:
            return rows
        candidates = np.arange(len(self.draws)) if self.same_everywhere else rows
        by_draw = candidates[np.argsort(self.draws[candidates], kind="stable")]
        _, first = np.unique(self.clusters[by_draw], return_index=True)
        return rows[np.isin(rows, by_draw[first])]
