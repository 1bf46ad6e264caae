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

    def places(self, rows: OpenedRows) -> Ints:
        """Return the number of each row's threshold, shape (n,)."""
        return rows.places(by_group=self.family.by_group)

    def scores_between_selected(self, rows: OpenedRows) -> Floats:
        """Return scores of rows, which are beyond thresholds between selection rows as their values are.

        A rule on one score has other thresholds there than the family, decimals for each group that it reads.
        A row between the two is then on the side of the rule. Rules on other models have the thresholds of
        the family.
        """
        if self.engine.score is None:
            return self.scores(rows)
        known = self.engine.known_scores
        known_scores = self.family.scores(known.probabilities)
        selected_scores, data = self.on_selection
        values = rows.scores(self.engine.outputs.models)
        groups = rows.places(by_group=self.engine.probabilities.group_aware)
        scores = np.zeros(len(values))
        falls = self.engine.score.positive_ == 0
        for group in np.unique(groups).tolist():
            of_group = known.place == group
            scale = Scale.of(known.values[of_group], known_scores[of_group], falls=falls)
            # Groups may have one threshold in common, between scores of all of them.
            compared = selected_scores
            if self.family.by_group:
                compared = selected_scores[of_group[: len(data)]]
            between, _ = possible_thresholds(compared)
            here = groups == group
            scores[here] = scale.sides(values[here], between)
        return scores
