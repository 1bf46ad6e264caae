"""Draws from the models' probabilities, and the losses of members on rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from tailboost import rates
from tailboost.core.array_types import Floats, Ints
from tailboost.selection.probability_tables import LogTable, Models
from tailboost.selection.rule import RulePart, log_weights
from tailboost.solvers import BitLosses
from tailboost.solvers.bits import DenseLosses

# Groups that are named where a member is described.
SHOWN = 4
# Powers of the probabilities that are drawn from.
POWERS = (0.5, 1.0, 2.0, 4.0)
# Weights of a member that its name shows.
MOST_WEIGHTS = 10


@dataclass(frozen=True)
class Tempered:
    """A draw from the probabilities, sharpened or flattened: ``P(k) ∝ p_k(x)^β``."""

    table_: Models  # the models, shared by all members
    model: int | None  # which of them; None for the average of all
    power: float  # > 0: β; 1 draws from the probabilities themselves
    draws: ClassVar[bool] = True
    weighs_groups: ClassVar[bool] = False

    def predict_table(self, table: LogTable) -> Floats:
        """Return the shares of the classes, shape (n, K)."""
        return np.asarray(softmax(self.power * self._logs(table), axis=1))

    def _logs(self, table: LogTable) -> Floats:
        return table.pooled if self.model is None else table[self.model]

    @property
    def source(self) -> tuple[int, ...]:
        """Numbers of the models that it asks."""
        return tuple(self.table_.pooled_models) if self.model is None else (self.model,)

    def as_part(self) -> RulePart:
        """Return what it does as numbers."""
        return RulePart(1.0, *log_weights(self.table_, self.model), power=self.power)

    def predict(self, X: Any) -> Ints:
        """Return the class numbers with the largest shares, shape (n,)."""
        return self._logs(self.table_.transform(X)).argmax(axis=1)

    def words(self, classes: Any) -> str:
        """Say what it is, for people."""
        of = source_name(self.table_, self.model)
        return f"{of} drawn" + ("" if self.power == 1.0 else f" ^{self.power:g}")


def source_name(models: Models, model: int | None = None) -> str:
    """Say whose probabilities are read, for people: those of one model, or the average of all."""
    average, names = models.average, models.names
    if model is not None or len(names) == 1:
        return names[model or 0]
    if average is None:
        return f"mean({', '.join(names)})"
    return " + ".join(f"{average.weights[i]:.2g} {names[i]}" for i in average.asked.tolist())


def ratio_of(weights: Floats) -> str:
    """Say how weights are to each other, for people."""
    least = weights[weights > 0].min()
    shown = [f"{weight / least:.3g}" for weight in weights[:MOST_WEIGHTS]]
    return " : ".join(shown + ["…"] * (len(weights) > MOST_WEIGHTS))


def loss_of(answers: Any, y: Ints) -> Any:
    """Zero-one losses of answers (n,), or expected ones of shares (n, K)."""
    return rates.wrong(answers, y) if answers.ndim == 1 else 1.0 - answers[np.arange(len(y)), y]


def losses_of(members: Iterable[Any], table: LogTable, y: Ints) -> BitLosses | DenseLosses:
    """Losses of members on rows: as bits, or dense where a member's answer is drawn."""
    rows = [loss_of(member.predict_table(table), y) for member in members]
    if all(row.dtype == np.bool_ for row in rows):
        return BitLosses.from_rows(np.array(rows))
    return DenseLosses(np.array(rows, dtype=np.float64))
