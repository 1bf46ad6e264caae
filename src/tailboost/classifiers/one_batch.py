"""One batch for `calibrate`: some of its rows select a rule of a model, the others certify it."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tailboost.classifiers.selected_models import TunedClassifier
from tailboost.core import (
    Floats,
    InfeasibleLimitsError,
    Labels,
    Mask,
    ResubstitutionWarning,
    Table,
    frozen_object,
    listed,
)
from tailboost.guarantees.one_score import CountTable, Division
from tailboost.learners.table import check_classes
from tailboost.rates import AbsentError, Limit
from tailboost.rows import Rows, refuse_copies, selecting_numbers
from tailboost.selection.door import hashes_of_table
from tailboost.selection.search import OVERALL_ERROR, Problem

# Fractions of the selecting rows: where tests certify, where ranks do, and where they do beside human review.
# Beside ranks the selecting rows serve only the objective and the balance of groups.
FOR_TESTS = 0.3
FOR_RANKS = 0.2
BESIDE_REVIEW = 0.1
# The most rows that select where a smaller share lacks a label or group.
LARGEST_SHARE = 0.5


@frozen_object
class Parts:
    """A rule selected on some rows, and the rows that certify.

    Attributes
    ----------
    classifier : TunedClassifier
        The models with a rule; of a batch it states the limits, and may be selected within looser ones.
    certifying : Rows
        The rows that certify.
    note : str
        How the rows were divided.
    all_chose : bool
        Whether all certifying rows select thresholds, too: then they do not bound the rates of a rule.
    """

    classifier: TunedClassifier
    certifying: Rows
    note: str = ""
    all_chose: bool = False


@frozen_object
class Batch:
    """Rows that select a rule of fitted models and certify it: the same rows do both, or two parts.

    Attributes
    ----------
    classifier : TunedClassifier
        The models with their parameters, before a fit.
    rows : Rows
        The rows.
    limits : tuple of Limit
        The limits that are to be certified.
    training_rows
        As in `calibrate`.
    """

    classifier: TunedClassifier
    rows: Rows
    limits: tuple[Limit, ...]
    training_rows: Table

    def divided(self, selection_share: float | None) -> Parts:
        """Return a rule selected on a part of the rows, at least this fraction; the others certify.

        By default the fraction is larger for tests than for ranks, see `calibrate`, and all rows certify if
        ranks of one score serve the limits.

        Raises
        ------
        AbsentError
            If all rows have one label, or none is of a group that a limit names.
        ValueError, TypeError
            If an argument is not as described, or a part would be empty.
        """
        rows = self.rows
        if rows.X is None or rows.classes is None:
            raise ValueError("X and y are needed: the rows and their labels")
        if len(rows.classes) < 2:
            raise AbsentError(f"y holds one class only, {rows.classes.tolist()}")
        check_classes(rows.classes)
        # The columns of groups that a limit or the rule reads.
        read = rows.names.column_read(self.classifier.by_group)
        columns = Problem(OVERALL_ERROR, self.limits).columns(rows.names.titles, read)
        rows.refuse_many_numbers(columns)

        # 1. The share of the selecting rows, unless all rows certify.
        groups = {title: [""] for title in rows.names.titles}  # no number of them matters
        division = Division.planned(self.limits, (*rows.classes.tolist(),), groups)
        if selection_share is not None:
            share = selection_share
        elif not division.shares:
            share = FOR_TESTS
        elif division.tests:
            share = BESIDE_REVIEW
        else:
            parts = self.all_certifying()
            if parts is not None:
                return parts
            share = FOR_RANKS

        # 2. They are drawn by hashes, on which the order of the columns has no effect. Each label, and each
        # group in a limit or read by the rule, needs rows in both parts.
        hashes = rows.hashes(hashes_of_table(None, rows.X))
        if rows.clusters is None:
            refuse_copies(hashes, rows.y)
        selects = drawn_part(
            selecting_numbers(hashes, rows.clusters),
            share,
            needed=[rows.y, *rows.groups[:, columns].T],
        )
        self.refuse_absent(selects, read)
        selecting = rows.part(selects).occurring()
        try:
            classifier = self.selected(selecting, self.limits)
        except InfeasibleLimitsError:  # on few rows: tests of rules may pass on the others
            classifier = self.selected(selecting, self.loosest)
        return Parts(
            classifier,
            rows.part(~selects),
            f"One batch of {len(rows):,} rows: {len(selecting):,} of them, drawn at random, "
            "selected the rules. The others certify. All of them are used up.",
        )

    @property
    def loosest(self) -> list[Limit]:
        """Limits that every rule keeps: they only name the groups."""
        return [replace(limit, bound=limit.loosest) for limit in self.limits]

    def all_certifying(self) -> Parts | None:
        """Return the parts if ranks of one score serve all limits, see `tailboost.guarantees.ranks`.

        Then thresholds on the score are all that the rows select; of several models they select an average.
        """
        if len(self.classifier.models) > 1:
            return None
        classifier = self.selected(self.rows, self.loosest)
        table = CountTable.of(classifier.selection_)
        if table is None or Division.of(table.tests, defers=table.defers).tests:
            return None
        return Parts(
            classifier,
            self.rows,
            "All rows of the batch certify: they only place thresholds on the score.",
            all_chose=True,
        )

    def selected(self, selecting: Rows, limits: Sequence[Limit]) -> TunedClassifier:
        """Return the classifier of a rule that rows select within limits; it states those to certify.

        It does not know these rows. The certifying rows are different rows, also if one has the content of a
        selecting row; later the batch is known as a whole.
        """
        classifier = replace(self.classifier, limits=limits)
        with warnings.catch_warnings():
            # The certifying rows raise LeakageError.
            warnings.simplefilter("ignore", ResubstitutionWarning)
            selection = classifier._learn(selecting, training_rows=self.training_rows)
        return classifier._by(
            selection.stated_within(self.limits),
            records=replace(classifier.records_, used=()),
        )

    def refuse_absent(self, selects: Mask, column_read: int | None) -> None:
        """Raise ValueError if a label, or a group in a limit or of the column read, selects no rule."""
        rows = self.rows
        absent = {*np.delete(rows.classes, rows.y[selects]).tolist()}
        for j, values in enumerate(rows.names.values):
            groups = np.delete(values, rows.groups[selects, j]).tolist()
            for limit in self.limits:
                if j in Problem(OVERALL_ERROR, (limit,)).columns(rows.names.titles):
                    absent |= limit.bound_of.keys() & groups
            if j == column_read:
                absent.update(groups)
        if absent:
            raise ValueError(
                f"y, groups: none of the {selects.sum():,} rows that select the rule is of "
                f"{listed(sorted(absent, key=str))}, which has few rows. Bring more rows of it, "
                "join it to another label or group, or leave its rows out"
            )


def drawn_part(numbers: Floats, share: float, *, needed: Sequence[Labels] = ()) -> Mask:
    """Return a mask of the selecting rows, shape (n,): those with a number below the share.

    If the rows are independent draws of a population, so are both parts, given their sizes: the numbers are
    independent of the rows, if the hash function is ideal (`random_numbers`). A draw evenly from each class
    or group would make the counts of both parts proportional. Then a rule with a good rate on one part,
    because a group is rare there, would have a good rate on the other part too.

    Further rows are drawn, in the order of their numbers, until no other row has a label or group, in
    ``needed`` columns, that no drawn row has, up to `LARGEST_SHARE`. So given the drawn rows, the others are
    independent draws of the rows with their labels and groups, which certificates are about. If others are
    left after all, a refusal is free: it says nothing else of the rows that certify.

    Parameters
    ----------
    numbers : ndarray of shape (n,)
        The number of each row, the same for the rows of a cluster.
    share : float in (0, 1)
        The least expected fraction of rows or clusters.
    needed : sequence of ndarray of shape (n,), optional
        Columns of labels or groups. Groups with one row or cluster are passed over.

    Raises
    ------
    ValueError
        If a part would be empty.
    """
    enough = share
    for column in needed:
        for value in np.unique(column):
            own = numbers[column == value]
            first = own.min()
            if first < own.max():
                enough = max(enough, float(np.nextafter(first, 1.0)))
    selects = numbers < max(share, min(enough, LARGEST_SHARE))
    if selects.all() or not selects.any():
        raise ValueError(
            f"X: {len(np.unique(numbers)):,} rows or clusters are too few: one part selects "
            f"the rule (selection_share={share:g}), the other certifies it"
        )
    return selects
