"""The selection data, and the rules of a family that were counted on them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tailboost.core.array_types import Array, Floats, Ints
from tailboost.rates import Strata
from tailboost.rates.make import OVERALL_ERROR


def quotient(top: Array, bottom: Array, otherwise: float = 0.0) -> Floats:
    """Return ``top / bottom``; ``otherwise`` for denominators of 0 or less."""
    positive = bottom > 0
    return np.where(positive, top / np.where(positive, bottom, 1.0), otherwise)


class Uncached:
    """A dataclass whose copies, also in files, have its fields alone: cached results are computed anew."""

    def __getstate__(self) -> dict[str, Any]:
        stored: Any = self
        return {each.name: getattr(stored, each.name) for each in fields(stored)}


@dataclass(frozen=True, eq=False)
class SelectionData(Uncached):
    """The rows for the comparison of rules."""

    strata: Strata  # the strata, with the masses of these rows
    stratum: Ints  # shape (n,)
    weights: Floats  # shape (n,), of sum 1
    # Shape (n, A): cost of each action in each row; None without costs.
    costs: Floats | None = None

    def __len__(self) -> int:
        return len(self.stratum)

    def sums(self, cell: Ints, n_cells: int, action: Ints | int) -> Floats:
        """Return the weight of the rows by cell and stratum, then their costs, shape (n_cells, W).

        ``cell`` and ``action`` are those of each row. W is S, the number of strata. If the rows have costs, W
        is 2 S: the second half sums the costs of the actions.
        """
        n_strata = len(self.strata.mass)
        places = cell * n_strata + self.stratum
        parts = [self.weights]
        if self.costs is not None:
            parts.append(self.weights * self.costs[np.arange(len(self)), action])
        sums = [np.bincount(places, part, n_cells * n_strata) for part in parts]
        return np.concatenate([each.reshape(n_cells, n_strata) for each in sums], axis=1)

    def count(self, actions: Ints) -> Floats:
        """Return the confusion counts of actions, shape (n,): sums by stratum and action, shape (W, A)."""
        return self.sums(actions, self.strata.n_actions, actions).T


@dataclass
class Pool(Uncached):
    """Rules of a family with their confusion counts on the selection data; no two have equal counts."""

    # Has `data`, the rule of least expected cost, ``best(costs)``, the ``counts(rule)``, and ``lines`` of a
    # descent, with the rules and counts on each, ``line(rule, line)``.
    family: Any
    rules: list[Any] = field(default_factory=list)
    counts: list[Floats] = field(default_factory=list)  # of each rule, shape (W, A)

    def copy(self) -> Pool:
        """Return a copy of the pool; rules added to the copy do not change this pool."""
        return Pool(self.family, list(self.rules), list(self.counts))

    def add(self, rule: Any) -> int:
        """Return the number of a rule, or of an earlier one with the same counts."""
        counts = self.family.counts(rule)
        for number, earlier in enumerate(self.counts):
            if np.array_equal(earlier, counts):
                return number
        self.rules.append(rule)
        self.counts.append(counts)
        return len(self.rules) - 1

    @property
    def all_counts(self) -> Floats:
        """Confusion counts of all rules, shape (T, W, A)."""
        return np.array(self.counts)


def plain_costs(strata: Strata) -> Floats:
    """Return the action costs of the overall error, shape (S, A); deferral costs more than any error."""
    plain = OVERALL_ERROR.terms(strata).linear[0][: len(strata.mass)].copy()
    if strata.defers:
        plain[:, -1] = 2.0 * np.abs(plain).max()
    return plain
