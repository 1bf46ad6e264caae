"""One batch for `calibrate`: some of its rows select a rule of a model, the others certify it."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.frozen import FrozenEstimator

from tailboost.classifiers.selected_models import TunedClassifier
from tailboost.core import (
    Floats,
    InfeasibleLimitsError,
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
from tailboost.learners.table import check_classes
from tailboost.rates import Limit
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
        The models before a fit, with the parameters of the selection; its limits are to be certified.
    rows : Rows
        The rows.
    training_rows
        As in `calibrate`.
    """

    classifier: TunedClassifier
    rows: Rows
    training_rows: Table

    def divided(self, selection_share: float | None) -> Parts:
        """Return a rule selected on a part of the rows, at least this fraction; the others certify.

        By default the fraction is larger for tests than for ranks, see `calibrate`, and all rows certify if
        ranks of one score serve the limits.

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
        if len(rows.classes) < 2:
            raise LabelsError(f"y holds one class only, {rows.classes.tolist()}")
        check_classes(rows.classes)
        # Each label, and each group that a rate or the rule reads, needs rows in both parts.
        names = rows.names
        columns = self.classifier._problem(rows).columns(
            names.titles, names.column_read(self.classifier.by_group)
        )
        needed = [rows.y, *rows.groups[:, columns].T]

        # 1. Without a given share all rows certify, if ranks of one score serve the limits.
        groups = dict.fromkeys(names.titles, ("",))  # no number of them matters
        kept_by = Division.planned(
            self.classifier.limits, (*rows.classes.tolist(),), groups
        ).kept_by
        if selection_share is None and kept_by == "ranks" and len(self.classifier.models) == 1:
            parts = self.all_certifying()
            if parts is not None:
                return parts

        # 2. Otherwise some select. Hashes draw them, on which the order of the columns has no effect.
        hashes = rows.hashes(hashes_of_table(None, rows.X))
        if rows.clusters is None:
            refuse_copies(hashes, rows.y)
        selects = drawn_part(
            selecting_numbers(hashes, rows.clusters),
            selection_share or SELECTING[kept_by],
            needed=needed,
        )
        selecting = rows.part(selects).occurring()
        certifying = rows.part(~selects)
        refuse_unknown(certifying, selecting.classes.tolist())
        try:
            classifier = self.selected(selecting, self.classifier.limits)
        except InfeasibleLimitsError:  # on few rows: tests of rules may pass on the others
            classifier = self.selected(selecting, self.loosest)
        return Parts(
            classifier,
            certifying,
            f"One batch of {len(rows):,} rows: {len(selecting):,} of them, drawn at random, "
            "selected the rules. The others certify. All of them are used up.",
        )

    @property
    def loosest(self) -> list[Limit]:
        """The limits with bounds that every rule keeps: they only name the groups."""
        return [replace(limit, bound=limit.loosest) for limit in self.classifier.limits]

    def all_certifying(self) -> Parts | None:
        """Return the parts if ranks of one score serve all limits, see `tailboost.guarantees.ranks`.

        Then thresholds on the score are all that the rows select, and before they are placed every rule keeps
        the limits.
        """
        classifier = self.selected(self.rows, self.loosest)
        table = CountTable.of(classifier.selection_)
        if not table or Division.of(table.tests, defers=table.defers).kept_by != "ranks":
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
        selecting row; later the batch is known as a whole. Raise LabelsError if few rows have a label that
        the models do not know.
        """
        classifier = replace(self.classifier, limits=limits)
        with warnings.catch_warnings():
            # The certifying rows raise LeakageError.
            warnings.simplefilter("ignore", ResubstitutionWarning)
            try:
                selection = classifier._learn(selecting, training_rows=self.training_rows)
            except InfeasibleLimitsError:
                raise
            except ValueError as failure:
                if self.may_have_unknown_labels:
                    raise LabelsError(str(failure)) from None
                raise
        known = np.unique(np.concatenate(selection.models.columns))
        refuse_unknown(self.rows, selecting.classes[known].tolist())
        return classifier._by(
            selection.stated_within(self.classifier.limits),
            records=replace(classifier.records_, used=()),
        )

    @property
    def may_have_unknown_labels(self) -> bool:
        """Whether few rows may have a label that the models do not know, which then raise a ValueError.

        Scores and functions do not state which of more than two labels they know.
        """
        sizes = np.bincount(self.rows.y)
        has_few = sizes.min() < MANY_UNKNOWN or self.rows.clusters is not None
        state_labels = all(
            isinstance(model, FrozenEstimator) for _, model in self.classifier.models
        )
        return len(sizes) > 2 and has_few and not state_labels


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
            of_value = numbers[column == value]
            least = of_value.min()
            if least < of_value.max():
                enough = max(enough, np.nextafter(least, 1.0))
    selects = numbers < max(share, min(enough, LARGEST_SHARE))
    if len(np.unique(selects)) < 2:
        raise ValueError(
            f"X: {len(np.unique(numbers)):,} rows or clusters are too few: one part selects "
            f"the rule (selection_share={share:g}), the other certifies it"
        )
    return selects
