"""Log-odds of two labels on the selection data, and rules with thresholds on these log-odds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.rates import Strata
from tailboost.selection.data import Candidate, SelectionData, ThresholdFamily

# Weight of expected labels beside counted ones, in rates of the selection data.
MIXED = 0.5
# Largest number of possible thresholds.
VALUES = 400
# Bound on log-odds: rows are clipped to ±CERTAIN, and thresholds there give all rows one answer.
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
        Ascending log-odds for possible thresholds, and the next smaller log-odds of a row for each.
    group_column : int or None
        Number of the column of groups in the data: each of its groups has separate thresholds. None for the
        same thresholds in all groups.
    """

    data: SelectionData
    scores: Floats
    values: Floats
    before: Floats
    group_column: int | None

    @classmethod
    def from_data(cls, data: SelectionData, group_column: int | None) -> LogOdds:
        """Return the log-odds of selection data with two labels, from the stratum probabilities.

        If the rows have more than `VALUES` different log-odds, evenly spaced ones are the ``values``.
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
    def family(self) -> ThresholdFamily:
        """The rules with one threshold on the log-odds, for all rows and without deferral."""
        y = self.data.strata.y
        return ThresholdFamily(np.ones(len(y)), y, np.zeros_like(y), by_group=False)

    @property
    def chances(self) -> Floats:
        """Probability of the second label at each value, the same row for all m groups, shape (m, V)."""
        chances = 1.0 / (1.0 + np.exp(-self.values))
        return np.repeat(chances[None], int(self.places.max()) + 1, axis=0)

    @property
    def places(self) -> Ints:
        """Number of each stratum's group with thresholds, shape (S,)."""
        return self.data.strata.place(self.group_column)

    def places_of(self, strata: Strata) -> Ints:
        """Return the number of the group with thresholds for other strata, shape (S,).

        Strata are matched by the values of the group column. A value without selection rows has the number
        −1.
        """
        if self.group_column is None:
            return strata.place(None)
        selected = self.data.strata
        values = selected.values[self.group_column]
        number = {value: i for i, value in enumerate(values)}
        column = strata.columns.index(selected.columns[self.group_column])
        numbers = np.array([number.get(value, -1) for value in strata.values[column]], np.intp)
        return numbers[strata.place(column)]

    @cached_property
    def weights(self) -> Floats:
        """Weights by stratum and value, shape (S, V): half by labels, half by expected labels (`MIXED`).

        The sum is the number of rows.
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
        """Return the rule with thresholds at ``values[low]`` and ``values[high]``, for m groups.

        ``low`` and ``high`` have shape (m,). Without deferral, rows from the value of ``low`` upwards get the
        second label. With deferral, rows from ``low`` are deferred, and rows from ``high`` get the second
        label. The number V is above all rows.
        """
        return self.at(self.thresholds(low), self.thresholds(high))

    def at(self, low: Floats, high: Floats) -> Candidate:
        """Return the rule with thresholds on the log-odds, shape (m,) each, as `candidate`."""
        strata = self.data.strata
        lower = low.clip(-CERTAIN, CERTAIN)[self.places]
        upper = high.clip(-CERTAIN, CERTAIN)[self.places]
        second = strata.y == 1
        costs = np.zeros((len(second), strata.n_actions))
        if strata.defers:
            costs[:, 2] = 1.0
            costs[:, 0] = np.where(second, 1.0 + np.exp(-lower), 0.0)
            costs[:, 1] = np.where(second, 0.0, 1.0 + np.exp(upper))
        else:
            costs[:, 0] = np.where(second, np.exp(-lower / 2.0), 0.0)
            costs[:, 1] = np.where(second, 0.0, np.exp(lower / 2.0))
        # An answer of no row, or of all rows, has the same cost for both labels.
        costs[lower <= -CERTAIN, 0] = 2.0
        costs[lower >= CERTAIN, 0] = 0.0
        costs[upper >= CERTAIN, 1] = 2.0
        costs[upper <= -CERTAIN, 1] = 0.0
        return Candidate.from_costs(costs)

    def thresholds(self, numbers: Ints) -> Floats:
        """Return thresholds in the middle between a value and the score before; ±`CERTAIN` at both ends."""
        inside = np.minimum(numbers, len(self.values) - 1)
        thresholds = (self.values[inside] + self.before[inside]) / 2.0
        thresholds[numbers == len(self.values)] = CERTAIN
        thresholds[numbers == 0] = -CERTAIN
        return thresholds
