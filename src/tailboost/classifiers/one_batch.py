"""One batch for `calibrate`: some of its rows select a rule of a model, the others certify it."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from tailboost.classifiers.estimators import named_models
from tailboost.classifiers.selected_models import TunedClassifier
from tailboost.core import (
    Floats,
    InfeasibleLimitsError,
    Labels,
    Mask,
    Model,
    ResubstitutionWarning,
    Stated,
    Table,
    frozen_object,
    listed,
)
from tailboost.guarantees.exact_tests import LimitTests
from tailboost.guarantees.one_score import CountTable
from tailboost.rates import Counts, Limit
from tailboost.rows import Rows, kept_together, reads_groups, selecting_numbers, share_of_copies
from tailboost.selection.door import Decided, hashes_of_table
from tailboost.selection.search import OVERALL_ERROR, Problem
from tailboost.selection.selection import Selection
from tailboost.selection.thresholds import Places

# Fractions of the selecting rows: where tests certify, and where ranks do. Beside ranks the selecting rows
# serve only the objective and the balance of groups.
FOR_TESTS = 0.3
FOR_RANKS = 0.2
# The most rows that select where a smaller share lacks a label or group.
LARGEST_SHARE = 0.5


@frozen_object
class Parts:
    """A rule selected on some rows, and the rows that certify.

    Attributes
    ----------
    classifier : TunedClassifier
        The models with a rule.
    selection : Selection
        The rule selected within the limits.
    certifying : Rows
        The rows that certify.
    answers : Decided
        What scores them, with the rows that may not be among them.
    note : str
        How the rows were divided.
    """

    classifier: TunedClassifier
    selection: Selection
    certifying: Rows
    answers: Decided
    note: str = ""

    @classmethod
    def of_batch(
        cls, classifier: TunedClassifier, limits: Sequence[Limit], certifying: Rows, note: str
    ) -> Self:
        """Return the parts of one batch, with a rule for these limits.

        Its rows are different rows, also if a row of each part has the same content. So the rows that have
        selected are left out while the others certify; those that the models know stay.
        """
        selection = classifier.selection_.stated_within(limits)
        answers = classifier.__tailboost__()
        own, *of_models = answers.known
        own = replace(own, records=replace(own.records, used=()))
        answers = replace(answers, known=(own, *of_models))
        return cls(classifier, selection, certifying, answers, note)


def selected_on_part(
    model: Model,
    given: Rows,
    limits: Sequence[Limit],
    selection_share: float | None,
    *,
    objective: Stated,
    by_group: bool | str,
    training_rows: Table,
) -> Parts:
    """Return a model with a rule selected on a part of the rows; the others certify.

    All rows certify if thresholds on one score are all that is selected, see `tailboost.guarantees.ranks`.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or a part would be empty.
    """
    models = named_models(model)
    if given.X is None or given.classes is None:
        raise ValueError("X and y are needed: the rows and their labels")
    # Each label, and each group in a limit or read by the rule, needs rows in both parts.
    titles = given.names.titles
    used = Problem(OVERALL_ERROR, tuple(limits)).columns(titles)
    used += [j for j, title in enumerate(titles) if reads_groups(by_group, title)]
    given.refuse_many_numbers(used)
    needed = [given.y, *given.groups[:, used].T]

    def tuned(rows: Rows, within: Sequence[Limit]) -> TunedClassifier:
        classifier = TunedClassifier(
            models, objective=objective, limits=within, by_group=by_group
        )
        with warnings.catch_warnings():
            # The certifying rows raise LeakageError.
            warnings.simplefilter("ignore", ResubstitutionWarning)
            classifier._learn(rows, training_rows=training_rows)
        return classifier

    share = selection_share or default_share(limits, given.classes)
    # Limits that every rule keeps: they only name the groups.
    loosest = [replace(limit, bound=float(limit.from_above)) for limit in limits]
    is_by_ranks = selection_share is None and share == FOR_RANKS
    if is_by_ranks and len(given.classes) == 2 and len(models) == 1:
        note = "All rows of the batch certify: they only place thresholds on the score."
        parts = Parts.of_batch(tuned(given, loosest), limits, given, note)
        table = CountTable.selecting(parts.selection)
        if table is not None and all(test.has_ranks for test in table.tests):
            # The selecting rows are the certifying ones, so no model scores them again.
            scored = parts.answers.score
            outputs = parts.selection.engine.outputs
            answers = replace(
                parts.answers, score=lambda *rows: replace(scored(*rows), outputs=outputs)
            )
            return replace(parts, answers=answers)
    # The order of the columns has no effect.
    hashes = given.hashes(hashes_of_table(None, given.X))
    units = given.clusters
    if units is None:
        share_of_copies(hashes, given.y)
        units = kept_together(hashes)
    selects = drawn_part(selecting_numbers(hashes, units), share, needed=needed)
    selecting = given.part(selects).occurring()
    _refuse_absent(given, selecting, limits, by_group)
    try:
        classifier = tuned(selecting, limits)
    except InfeasibleLimitsError:  # on few rows: tests of rules may pass on the others
        classifier = tuned(selecting, loosest)
    note = (
        f"One batch of {len(given):,} rows: {len(selecting):,} of them, drawn at random, "
        "selected the rules. The others certify. All of them are used up."
    )
    return Parts.of_batch(classifier, limits, given.part(~selects), note)


def _refuse_absent(
    given: Rows, selecting: Rows, limits: Sequence[Limit], by_group: bool | str
) -> None:
    """Raise ValueError if a group of the batch, read by the rule or named in a limit, selects no rule."""
    named = {
        name for limit in limits if isinstance(limit.bound, tuple) for name, _ in limit.bound
    }
    for title, groups in given.columns.items():
        absent = {*groups.tolist()} - {*selecting.columns[title].tolist()}
        if not reads_groups(by_group, title):
            absent &= named
        if absent:
            raise ValueError(
                f"groups: none of the {len(selecting):,} rows that select the rule is of "
                f"{listed(sorted(absent, key=str))}, which has few rows. Bring more rows of it, "
                "join it to another group, or leave its rows out"
            )


def default_share(limits: Sequence[Limit], classes: Labels) -> float:
    """Return the fraction of the selecting rows: more for tests than for ranks, see `calibrate`.

    Ranks serve limits on the share of a fixed number of rows with one answer.
    """
    on_deferral = [limit.rate.counts_deferral for limit in limits]
    if all(on_deferral):
        return FOR_TESTS
    numbers = np.arange(len(classes))  # a row of each class
    weight = np.ones(len(numbers))
    strata = Counts.stratified(numbers, [], weight, classes, defers=any(on_deferral)).strata
    one_place = Places(strata.place(None))
    for limit in limits:
        if limit.compares:
            return FOR_TESTS
        # The answer is the same for each subgroup and bound.
        overall = replace(limit, rate=replace(limit.rate, by=None), bound=0.5)
        tests = LimitTests.of(overall, strata, one_place)
        if tests is None or not tests.has_ranks:
            return FOR_TESTS
    return FOR_RANKS / 2 if strata.defers else FOR_RANKS


def drawn_part(numbers: Floats, share: float, *, needed: Sequence[Labels] = ()) -> Mask:
    """Return a mask of the selecting rows, shape (n,): those with a number below the share.

    If the rows are independent draws of a population, so are both parts, given their sizes: the numbers are
    independent of the rows, if the hash function is ideal (`random_numbers`). A draw evenly from each class
    or group would make the counts of both parts proportional. Then a rule with a good rate on one part,
    because a group is rare there, would have a good rate on the other part too.

    Further rows are drawn, in the order of their numbers, until each group of ``needed`` columns has a row,
    up to `LARGEST_SHARE`. The drawn rows alone decide whether one more is drawn, if the groups of the batch
    are given. So the other rows are still independent draws of these groups: the number of drawn rows is a
    stopping time. The same holds if the selection of the drawn rows asks for a larger ``share``.

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
