"""What selected rules answer to the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.data import Singles
from tailboost.selection.outputs import LogProbabilities, Models
from tailboost.selection.probabilities import StratumProbabilities, stratum_probabilities
from tailboost.selection.score_rule import KnownScores, scores_in


@dataclass(frozen=True, eq=False)
class OpenedRows:
    """Rows of a table with the models' probabilities, which are computed once for several rules."""

    tables: list[LogProbabilities]  # in batches

    def values(
        self, models: Models, probabilities: StratumProbabilities
    ) -> Iterator[NDArray[Any]]:
        """Yield the values by which all candidates answer the rows, shape (n, …) each.

        These are the log-probabilities of the models, those of the strata, and a single score.
        """
        for i in models.pooled_models:
            yield np.concatenate([table[i] for table in self.tables])
        yield self.strata(probabilities).T
        if models.score is not None:
            yield self.scores(models)

    def strata(self, probabilities: StratumProbabilities) -> Singles:
        """Return p(s | x) of the rows, shape (S, n)."""
        parts = [stratum_probabilities(probabilities, table) for table in self.tables]
        return np.concatenate(parts, axis=1)

    def order(self, probabilities: StratumProbabilities) -> Ints:
        """Return the numbers of the rows by the probability of the last stratum, sorted once."""

        def make() -> Ints:
            return np.argsort(self.strata(probabilities)[-1], kind="stable")

        order: Ints = self.tables[0].derived(("order", id(probabilities)), make)
        return order

    def places(self, *, by_group: bool) -> Ints:
        """Return the number of the group of each row; 0 for all rows unless rules read groups."""
        if not by_group:
            return np.zeros(sum(table.n_rows for table in self.tables), dtype=np.intp)
        return np.concatenate(
            [table.groups for table in self.tables if table.groups is not None]
        )

    def known_scores(self, models: Models, probabilities: StratumProbabilities) -> KnownScores:
        """Return the different values of the rows in a single column of scores, sorted once."""

        def make() -> KnownScores:
            places = self.places(by_group=probabilities.group_aware)
            return KnownScores(self.scores(models), places, self.strata(probabilities)).distinct

        known: KnownScores = self.tables[0].derived(("known scores", id(probabilities)), make)
        return known

    def scores(self, models: Models) -> Floats:
        """Return the values of the rows in the only column of scores, shape (n,)."""
        return np.concatenate([scores_in(table, models.score) for table in self.tables])


def shares(ensemble: MixtureEnsemble, table: LogProbabilities) -> Floats:
    """Return the label distribution, ties settled; only models with positive weight are read."""
    used = np.flatnonzero(ensemble.weights > 0)
    answers = {m: ensemble.base_models[m].predict_table(table) for m in used.tolist()}
    return ensemble.mix(answers.values(), table.n_rows, lambda m, rows: answers[m][rows])


def can_defer(ensemble: MixtureEnsemble) -> bool:
    """Whether a rule may defer rows."""
    return any(getattr(member, "defers", False) for member in ensemble.base_models)


def deferred(ensemble: MixtureEnsemble, table: LogProbabilities) -> Mask:
    """Return the rows that are deferred with probability ½ or more; none by a rule that never defers."""
    if not can_defer(ensemble):
        return np.zeros(table.n_rows, dtype=bool)
    probability = np.zeros(table.n_rows)
    for weight, member in zip(ensemble.weights, ensemble.base_models, strict=True):
        probability += weight * member.defers_table(table)
    return probability >= 0.5
