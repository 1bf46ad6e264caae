"""Log-odds of two labels on the selection data, and the rules with thresholds on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.rates import Strata
from tailboost.selection.data import Candidate, SelectionData

# Weight of expected labels beside counted ones, in rates of the selection data.
MIXED = 0.5
# Largest number of different values of the score.
VALUES = 400
# Log-odds beyond those of any row.
CERTAIN = 30.0


@dataclass(frozen=True, eq=False)
class LogOdds:
    """Log-odds of the second label on the selection data.

    Attributes
    ----------
    data : SelectionData
        The selection data.
    scores : ndarray of shape (n,)
        Log-odds of the rows.
    values, before : ndarray of shape (V,)
        Values of the score: the first score of each, and the largest score below it.
    told : int or None
        Number of the column of groups in the data, of which each group has thresholds of its own.
    """

    data: SelectionData
    scores: Floats
    values: Floats
    before: Floats
    told: int | None

    @classmethod
    def of(cls, data: SelectionData, told: int | None) -> LogOdds:
        """Return the scores of the rows of selection data with two labels."""
        probabilities = np.asarray(data.probabilities, dtype=np.float64)
        first, second = (probabilities[data.strata.y == label].sum(axis=0) for label in (0, 1))
        with np.errstate(divide="ignore"):
            scores = np.clip(np.log(second) - np.log(first), -CERTAIN, CERTAIN)
        values = np.unique(scores)
        before = np.append(-np.inf, values[:-1])
        if len(values) > VALUES:
            kept = np.unique(np.linspace(0, len(values) - 1, VALUES).round().astype(np.intp))
            values = values[kept]
            before = before[kept]
        return cls(data, scores, values, before, told)

    @property
    def n_rows(self) -> float:
        """Number of rows; of weighted rows the effective number."""
        return float(self.data.strata.size.sum())

    @property
    def chances(self) -> Floats:
        """Probability of the second label by thresholds and value, shape (m, V)."""
        chances = 1.0 / (1.0 + np.exp(-self.values))
        return np.repeat(chances[None], int(self.places.max()) + 1, axis=0)

    @property
    def places(self) -> Ints:
        """Number of the thresholds of each stratum, shape (S,)."""
        return self.data.strata.place(self.told)

    def places_of(self, strata: Strata) -> Ints:
        """Return the numbers of the thresholds of other strata by their groups, −1 for unknown ones."""
        if self.told is None:
            return strata.place(None)
        own = self.data.strata
        known = {value: place for place, value in enumerate(own.values[self.told])}
        column = strata.columns.index(own.columns[self.told])
        places = [known.get(value, -1) for value in strata.values[column]]
        return np.array(places, dtype=np.intp)[strata.place(column)]

    @property
    def weights(self) -> Floats:
        """Weights by stratum and value, shape (S, V): half by the labels, half by expected ones."""
        data = self.data
        value = np.searchsorted(self.values, self.scores, side="right") - 1
        weight = data.weights * self.n_rows
        chance = 1.0 / (1.0 + np.exp(-self.scores))
        combination = data.strata.combination[data.stratum]
        weights = np.zeros((len(data.strata.y), len(self.values)))
        np.add.at(weights, (data.stratum, value), (1.0 - MIXED) * weight)
        np.add.at(weights, (combination, value), MIXED * weight * (1.0 - chance))
        second = data.strata.n_combinations + combination
        np.add.at(weights, (second, value), MIXED * weight * chance)
        return weights

    def candidate(self, low: Ints, high: Ints) -> Candidate:
        """Return the rule with the numbers of values as thresholds, shape (m,) each."""
        strata = self.data.strata
        lower = self._ends(low)[self.places]
        upper = self._ends(high)[self.places]
        second: Mask = strata.y == 1
        costs = np.zeros((len(second), strata.n_actions))
        if strata.defers:
            costs[:, 2] = 1.0
            costs[:, 0] = np.where(second, 1.0 + np.exp(-lower), 0.0)
            costs[:, 1] = np.where(second, 0.0, 1.0 + np.exp(upper))
        else:
            costs[:, 0] = np.where(second, np.exp(-lower / 2.0), 0.0)
            costs[:, 1] = np.where(second, 0.0, np.exp(lower / 2.0))
        # An answer that is never or always given has the same cost whatever the label.
        costs[lower <= -CERTAIN, 0] = 2.0
        costs[lower >= CERTAIN, 0] = 0.0
        costs[upper >= CERTAIN, 1] = 2.0
        costs[upper <= -CERTAIN, 1] = 0.0
        return Candidate.of(costs)

    def _ends(self, numbers: Ints) -> Floats:
        """Return thresholds in the middle between a value and the score before."""
        inside = np.minimum(numbers, len(self.values) - 1)
        middle = (self.values[inside] + self.before[inside]) / 2.0
        ends = np.where(numbers == len(self.values), CERTAIN, middle)
        return np.where(numbers == 0, -CERTAIN, ends)
