"""Rules of a selection that differ in thresholds alone: their scores, and the rule at stated thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.selection.answers import OpenedRows
from tailboost.selection.data import SelectionData, ThresholdFamily, possible_thresholds
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.score_rule import Scale


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A family of rules by thresholds, on the selection data and on further rows."""

    engine: ProbabilityEngine
    family: ThresholdFamily

    @property
    def on_selection(self) -> tuple[Floats, SelectionData]:
        """The score of each row of the selection data, shape (n,), and these data."""
        data = self.engine.labelled.in_memory
        return self.family.scores(data.probabilities), data

    def scores(self, rows: OpenedRows) -> Floats:
        """Return the score of each row, shape (n,)."""
        return self.family.scores(rows.strata(self.engine.probabilities))

    def order(self, rows: OpenedRows) -> Ints:
        """Return the numbers of the rows in nearly the order of their scores."""
        return rows.order(self.engine.probabilities)

    def places(self, rows: OpenedRows) -> Ints:
        """Return the number of each row's threshold, shape (n,)."""
        return rows.places(by_group=self.family.by_group)

    def scores_between_selected(self, rows: OpenedRows) -> Floats:
        """Return the score of each row, shape (n,), on the side of each threshold where the rule has the row.

        A rule on one score answers by decimals between the values of selection rows, for each group that it
        reads, and not by the thresholds of the family. A row between the two gets a score on the side of the
        rule. Rules on other models have the thresholds of the family.
        """
        if self.engine.score is None:
            return self.scores(rows)
        known = self.engine.known_scores
        known_scores = self.family.scores(known.probabilities)
        selection_scores, data = self.on_selection
        values = rows.scores(self.engine.outputs.models)
        groups = rows.places(by_group=self.engine.probabilities.group_aware)
        scores = np.zeros(len(values))
        falls = self.engine.score.positive_ == 0
        for group in np.unique(groups).tolist():
            known_rows = known.place == group
            scale = Scale.from_rows(
                known.values[known_rows], known_scores[known_rows], falls=falls
            )
            # Groups may have one threshold in common, between scores of all of them.
            compared_scores = selection_scores
            if self.family.by_group:
                # The labelled selection rows are the first known ones.
                compared_scores = selection_scores[known_rows[: len(data)]]
            thresholds, _ = possible_thresholds(compared_scores)
            group_rows = groups == group
            scores[group_rows] = scale.sides(values[group_rows], thresholds)
        return scores
