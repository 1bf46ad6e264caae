"""One batch for `calibrate`: its rows select a rule of a model and certify it, in two parts or as a whole."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.frozen import FrozenEstimator

from tailboost.classifiers.selected_models import TunedClassifier
from tailboost.core import (
    Floats,
    Labels,
    Mask,
    Name,
    ResubstitutionWarning,
    Table,
    frozen_object,
    listed,
)
from tailboost.guarantees.division import Division
from tailboost.guarantees.one_score import CountTable
from tailboost.learners.base import check_classes
from tailboost.rows import Rows, refuse_copies, selecting_numbers
from tailboost.selection.door import hashes_of_table

# Fractions of the selecting rows, by what keeps the limits. Beside ranks these rows serve only the objective
# and the balance of groups.
SELECTING = {"tests": 0.3, "ranks": 0.2, "ranks and tests": 0.1}
# The most rows that select where a smaller share lacks a label or group.
LARGEST_SHARE = 0.5
# From so many rows or clusters with unknown labels on the call is a mistake, see `refuse_unknown`.
MANY_UNKNOWN = 50


class LabelsError(ValueError):
    """The labels of a batch are not those of a rule: some are unknown, or all rows have one."""


@frozen_object
class Parts:
    """A rule and the rows that certify: this rule, or another one of the same models.

    Attributes
    ----------
    classifier : TunedClassifier
        The models with a rule that other rows have selected.
    certifying : Rows
        The rows that certify.
    note : str
        How the rows of a batch were divided.
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
    unfitted : TunedClassifier
        The models, and the parameters of the selection: its limits are to be certified.
    rows : Rows
        The rows.
    training_rows
        As in `calibrate`.
    """

    unfitted: TunedClassifier
    rows: Rows
    training_rows: Table

    def parts(self, selection_share: float | None) -> Parts:
        """Return all rows if ranks of one score serve the limits, and no share is given; otherwise two parts.

        By default the share is larger for tests than for ranks, see `calibrate`.

        Raises
        ------
        LabelsError
            If all rows have one label, or few have a label that the models or the rule do not know.
        AbsentError
            If no row that selects is of a group that a limit names.
        ValueError, TypeError
            If an argument is not as described, or a part would be empty.
        """
        rows = self.rows
        names = rows.names
        classes = rows.classes
        if len(classes) < 2:
            raise LabelsError(f"y holds one class only, {classes.tolist()}")
        check_classes(classes)
        problem = self.unfitted._problem(rows)
        one_group = dict.fromkeys(names.titles, ("",))  # no number of groups matters
        kept_by = Division.planned(problem.limits, (*classes.tolist(),), one_group).kept_by
        if selection_share is None and kept_by == "ranks" and len(self.unfitted.models) == 1:
            # Thresholds on the score are all that the rows select, see `tailboost.guarantees.ranks`.
            classifier = self.selected(rows)
            table = CountTable.of(classifier.selection_)
            if table and Division.of(table.tests, defers=table.defers).kept_by == "ranks":
                note = "All rows of the batch certify: they only place thresholds on the score."
                return Parts(classifier, rows, note, all_chose=True)
        # Otherwise a part of the rows selects, and the others certify: each label, and each group that a rate
        # or the rule reads, needs rows in both parts.
        columns = problem.columns(names.titles, names.column_read(self.unfitted.by_group))
        needed = [rows.y, *rows.groups[:, columns].T]
        # Hashes draw the rows that select; the order of the columns has no effect on them.
        hashes = rows.hashes(hashes_of_table(None, rows.X))
        if rows.clusters is None:
            refuse_copies(hashes, rows.y)
        share = selection_share or SELECTING[kept_by]
        selects = drawn_part(selecting_numbers(hashes, rows.clusters), share, needed)
        selecting = rows.part(selects).occurring()
        certifying = rows.part(~selects)
        refuse_unknown(certifying, selecting.classes.tolist())
        return Parts(
            self.selected(selecting),
            certifying,
            f"One batch of {len(rows):,} rows: {len(selecting):,} of them, drawn at random, "
            "selected the rules. The others certify. All of them are used up.",
        )

    def selected(self, selecting: Rows) -> TunedClassifier:
        """Return the classifier of the rule that rows select without limits; it states those to certify.

        Within limits the procedures of `calibrate` select: on few rows limits may contradict each other, and
        a rule still pass their tests on the others.

        The classifier does not know the rows. Those that certify are different rows, also if one has the
        content of a selecting row; later the batch is known as a whole. Raise LabelsError if few rows have a
        label that the models do not know.
        """
        limits = self.unfitted.limits
        classifier = replace(self.unfitted, limits=[limit.loosened for limit in limits])
        with warnings.catch_warnings():
            # The certifying rows raise LeakageError.
            warnings.simplefilter("ignore", ResubstitutionWarning)
            try:
                selection = classifier._learn(selecting, training_rows=self.training_rows)
            except ValueError as failure:
                # Few rows may have a label that the models do not know: scores and functions do not state
                # which of more than two labels they know.
                sizes = np.bincount(self.rows.y)
                has_few = sizes.min() < MANY_UNKNOWN or self.rows.clusters is not None
                state_labels = all(
                    isinstance(model, FrozenEstimator) for _, model in self.unfitted.models
                )
                if len(sizes) > 2 and has_few and not state_labels:
                    raise LabelsError(str(failure)) from None
                raise
        known = np.unique(np.concatenate(selection.models.columns))
        refuse_unknown(self.rows, selecting.classes[known].tolist())
        records = replace(classifier.records_, used=())
        return classifier._answering_by(selection.stated_within(limits), records=records)


def refuse_unknown(rows: Rows, known: Sequence[Name]) -> None:
    """Raise LabelsError if few rows, or clusters, have a label that is not known to models, or to a rule.

    Each is an error of the rule. Who brings tables until none has this label leaves these errors out, so this
    is an attempt, and certifies nothing. `MANY_UNKNOWN` such rows are a mistake in the call, or a part of
    them selects: an error for them is free. *Proof.* If at most 19 are expected, so many occur with a
    probability of at most 10⁻⁸. If more are expected, a table without any occurs with at most this
    probability. ∎
    """
    units = rows.given_numbers if rows.clusters is None else rows.clusters
    for label in sorted({*rows.classes.tolist()} - {*known}, key=str):
        n = len(np.unique(units[rows.labels == label]))
        if 0 < n < MANY_UNKNOWN:
            raise LabelsError(
                f"y: {label!r} in {n} of {len(rows):,} rows is no label that the rule knows, as "
                f"{listed(known)}. Such rows are its errors: select it on rows with all labels, or "
                "join labels in all tables"
            )


def drawn_part(numbers: Floats, share: float, needed: Sequence[Labels]) -> Mask:
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
    needed : sequence of ndarray of shape (n,)
        Columns of labels or groups. Groups with one row or cluster are passed over.

    Raises
    ------
    ValueError
        If a part would be empty.
    """
    enough = share
    for column in needed:
        for value in np.unique(column):
            of_value = numbers[column == value]
            least = of_value.min()
            if least < of_value.max():  # more than one row or cluster
                enough = max(enough, np.nextafter(least, 1.0))
    selects = numbers < max(share, min(enough, LARGEST_SHARE))
    if len(np.unique(selects)) < 2:
        raise ValueError(
            f"X: {len(np.unique(numbers)):,} rows or clusters are too few: one part selects "
            f"the rule (selection_share={share:g}), the other certifies it"
        )
    return selects
