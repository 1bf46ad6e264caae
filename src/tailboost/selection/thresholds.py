"""Rules of a selection that differ in thresholds alone: their scores, and the rule at stated thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.selection.answers import OpenedRows
from tailboost.selection.data import SelectionData, ThresholdFamily, cuts
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.probabilities import stratum_probabilities
from tailboost.selection.score_rule import Scale
from tailboost.selection.threshold_rule import ThresholdRule


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
        probabilities = self.engine.probabilities
        return np.concatenate(
            [
                self.family.scores(stratum_probabilities(probabilities, table))
                for table in rows.tables
            ]
        )

    def places(self, rows: OpenedRows) -> Ints:
        """Return the number of each row's threshold, shape (n,)."""
        if not self.family.by_group:
            return np.zeros(sum(table.n_rows for table in rows.tables), dtype=np.intp)
        return np.concatenate(
            [table.groups for table in rows.tables if table.groups is not None]
        )

    def scores_between_selected(self, rows: OpenedRows) -> Floats:
        """Return scores of rows, which are beyond thresholds between selection rows as their values are.

        A rule on one score has other thresholds there than the family, decimals. A row between the two is
        then on the side of the rule.
        """
        if not self._divides_values:
            return self.scores(rows)
        selected_scores, data = self.on_selection
        selected_places = self.engine.known_scores.place[: len(data)]
        places = self.places(rows)
        values = rows.scores(self.engine.outputs.models)
        scores = np.zeros(len(values))
        for place, scale in enumerate(self._scales(())):
            here = places == place
            between, _ = cuts(selected_scores[selected_places == place])
            scores[here] = scale.sides(values[here], between)
        return scores

    def rule_at(
        self, thresholds: Floats, member: Any, fresh: Sequence[OpenedRows]
    ) -> ThresholdRule:
        """Return the rule on one score of thresholds, shape (m,), as which a candidate answers.

        Fresh rows are those whose answers must not change by the choice of a decimal.
        """
        score = self.engine.score
        assert score is not None
        names = self.engine.answer_names
        if not self._divides_values:
            return ThresholdRule.of(member.as_part(plain=False), score, *names)
        lower, upper = (1, 0) if score.positive_ == 0 else (0, 1)
        ranges = []
        for scale, threshold in zip(self._scales(fresh), thresholds.tolist(), strict=True):
            (end,) = scale.thresholds(np.array([threshold])).tolist()
            ranges.append([(-np.inf, lower), (end, upper)])
        return ThresholdRule.of_numbers(score, *names, ranges)

    @property
    def _divides_values(self) -> bool:
        """Whether each threshold is one on a `Scores` column.

        Otherwise there are other models, or one threshold on odds in which the groups differ.
        """
        same_odds = self.family.by_group or not self.engine.probabilities.group_aware
        return self.engine.score is not None and same_odds

    def _scales(self, fresh: Sequence[OpenedRows]) -> list[Scale]:
        """Return the values and scores of selection rows and fresh rows, for each threshold.

        A threshold on the values between the same rows divides them alike, so certificates hold for it.
        """
        known = self.engine.known_scores
        models = self.engine.outputs.models
        assert models.score is not None
        values = np.concatenate([known.values, *(rows.scores(models) for rows in fresh)])
        places = np.concatenate([known.place, *map(self.places, fresh)])
        scores = np.concatenate(
            [self.family.scores(known.probabilities), *map(self.scores, fresh)]
        )
        falls = models.score.positive_ == 0
        return [
            Scale.of(values[places == k], scores[places == k], falls=falls)
            for k in range(self.family.n_thresholds)
        ]
