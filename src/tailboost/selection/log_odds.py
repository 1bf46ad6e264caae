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
    group_column : int or None
        Number of the column of groups in the data, of which each group has thresholds of its own.
    """

    data: SelectionData
    scores: Floats
    values: Floats
    before: Floats
    group_column: int | None

    @classmethod
    def from_data(cls, data: SelectionData, group_column: int | None) -> LogOdds:
        """Return the log-odds of the rows of selection data with two labels, by their probabilities.

        Of more than `VALUES` different scores, evenly spaced ones are the values.
        """
        probabilities = np.asarray(data.probabilities, dtype=np.float64)
        of_first_label = probabilities[data.strata.y == 0].sum(axis=0)
        of_second_label = probabilities[data.strata.y == 1].sum(axis=0)
        with np.errstate(divide="ignore"):
            scores = np.log(of_second_label) - np.log(of_first_label)
        scores = np.clip(scores, -CERTAIN, CERTAIN)
        values = np.unique(scores)
        before = np.append(-np.inf, values[:-1])
        if len(values) > VALUES:
            evenly = np.linspace(0, len(values) - 1, VALUES).round().astype(np.intp)
            sample = np.unique(evenly)
            values = values[sample]
            before = before[sample]
        return cls(data, scores, values, before, group_column)

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
        return self.data.strata.place(self.group_column)

    def places_of(self, strata: Strata) -> Ints:
        """Return the numbers of the thresholds of other strata, shape (S,).

        Strata are matched by the values of the group column. A value that the selection data lack has the
        number −1.
        """
        if self.group_column is None:
            return strata.place(None)
        selected = self.data.strata
        values = selected.values[self.group_column]
        number = {value: i for i, value in enumerate(values)}
        column = strata.columns.index(selected.columns[self.group_column])
        numbers = np.array([number.get(value, -1) for value in strata.values[column]], np.intp)
        return numbers[strata.place(column)]

    @property
    def weights(self) -> Floats:
        """Weights by stratum and value, shape (S, V): half by the labels, half by expected ones.

        They sum to the number of rows.
        """
        data = self.data
        value = np.searchsorted(self.values, self.scores, side="right") - 1
        weight = data.weights * self.n_rows
        chance = 1.0 / (1.0 + np.exp(-self.scores))  # of the second label
        first_stratum = data.strata.combination[data.stratum]
        second_stratum = data.strata.n_combinations + first_stratum
        weights = np.zeros((len(data.strata.y), len(self.values)))
        np.add.at(weights, (data.stratum, value), (1.0 - MIXED) * weight)
        np.add.at(weights, (first_stratum, value), MIXED * weight * (1.0 - chance))
        np.add.at(weights, (second_stratum, value), MIXED * weight * chance)
        return weights

    def candidate(self, low: Ints, high: Ints) -> Candidate:
        """Return the rule with thresholds at the values of some numbers, shape (m,) each.

        A row gets the second label from the value ``low`` upwards. If rows may be deferred, it is deferred
        from ``low``, and gets the second label from ``high``. There are m groups with thresholds.
        """
        strata = self.data.strata
        lower = self._thresholds(low)[self.places]
        upper = self._thresholds(high)[self.places]
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
        return Candidate.from_costs(costs)

    def _thresholds(self, numbers: Ints) -> Floats:
        """Return thresholds in the middle between a value and the score before; beyond all at the ends."""
        inside = np.minimum(numbers, len(self.values) - 1)
        thresholds = (self.values[inside] + self.before[inside]) / 2.0
        thresholds[numbers == len(self.values)] = CERTAIN
        thresholds[numbers == 0] = -CERTAIN
        return thresholds
