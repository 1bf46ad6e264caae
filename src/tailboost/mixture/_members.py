"""Draws from the models' probabilities, and the losses and margins of members on rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from tailboost._typing import Floats, Ints, Mask
from tailboost._units import memberships
from tailboost.combiners.ledger import chances_by_margin
from tailboost.data import Rows
from tailboost.mixture._rule import RulePart, log_weights
from tailboost.mixture._tables import Judged, LogTable, Models, Source
from tailboost.solvers import BitLosses
from tailboost.solvers.bits import DenseLosses

GROUPS_NEEDED = (
    "groups are needed: this classifier was made with by_group=True, so that what it answers to "
    "a row depends on the row's group. Give groups=…"
)
# Groups that are named where a member is described.
SHOWN = 4
# Powers of the probabilities that are drawn from.
POWERS = (0.5, 1.0, 2.0, 4.0)
# Weights of a member that its name shows.
MOST_WEIGHTS = 10


@dataclass(frozen=True)
class Tempered:
    """A draw from the probabilities, sharpened or flattened: ``P(k) ∝ p_k(x)^β``.

    Parameters
    ----------
    table_ : Models
        The models, shared by all members.
    source : tuple of int
        Which of them; the logarithms of several are averaged.
    power : float > 0
        β; 1 draws from the probabilities themselves.
    """

    table_: Models
    source: Source
    power: float
    draws: ClassVar[bool] = True

    def predict_table(self, table: LogTable) -> Floats:
        """Return the shares of the classes, shape (n, K)."""
        return np.asarray(softmax(self.power * table[self.source], axis=1))

    def as_part(self) -> RulePart:
        """Return what it does as numbers."""
        return RulePart(1.0, *log_weights(self.table_, self.source), power=self.power)

    def predict(self, X: Any) -> Ints:
        """Return the class numbers with the largest shares, shape (n,)."""
        return self.table_.transform(X)[self.source].argmax(axis=1)

    def words(self, classes: Any) -> str:
        """Say what it is, for people."""
        of = source_name(self.table_, self.source)
        return f"{of} drawn" + ("" if self.power == 1.0 else f" ^{self.power:g}")


def margins_of(scores: Floats, y: Ints) -> Floats:
    """Return by how much each row's own class scores above all others, shape (n,)."""
    rows, others = np.arange(len(y)), scores.copy()
    others[rows, y] = -np.inf
    margins: Floats = scores[rows, y] - others.max(axis=1)
    return margins


def source_name(models: Models, source: Source) -> str:
    """Say whose probabilities are read, for people."""
    names = [models.names[i] for i in source]
    average = next((each for each in models.averages if each.source == source), None)
    if average is None:
        return names[0] if len(names) == 1 else f"mean({', '.join(names)})"
    weight = dict(zip(source, average.weights, strict=True))
    return " + ".join(f"{weight[i]:.2g} {models.names[i]}" for i in average.asked.tolist())


def ratio_of(weights: Floats) -> str:
    """Say how weights are to each other, for people."""
    least = weights[weights > 0].min()
    shown = [f"{weight / least:.3g}" for weight in weights[:MOST_WEIGHTS]]
    return " : ".join(shown + ["…"] * (len(weights) > MOST_WEIGHTS))


def loss_of(answers: Any, y: Ints) -> Any:
    """Zero-one losses of answers (n,), or expected ones of shares (n, K)."""
    return answers != y if answers.ndim == 1 else 1.0 - answers[np.arange(len(y)), y]


@dataclass(frozen=True)
class Margins:
    """By how much each member answers each judged row right, computed whenever it is asked for.

    Parameters
    ----------
    members : list of Member
        None of which draws.
    judged : Judged
        The log-probabilities of the rows.
    chosen : ndarray of int, shape (n,)
        Numbers of the rows that count.
    """

    members: list[Any]
    judged: Judged
    chosen: Ints

    @classmethod
    def of(cls, members: Iterable[Any], judged: Judged) -> Margins:
        """Return those of all judged rows."""
        return cls(list(members), judged, np.arange(len(judged.rows.y)))

    def part(self, chosen: Mask) -> Margins:
        """Return the margins of some of the rows."""
        return replace(self, chosen=self.chosen[chosen])

    def __iter__(self) -> Iterator[Floats]:
        table, y = self.judged.table.part(self.chosen), self.judged.rows.y[self.chosen]
        return (member.margins(table, y) for member in self.members)

    def of_units(self, errors: Floats, rows: Rows, index: Ints, sizes: Floats) -> Floats:
        """Estimate the members' chances to err on each unit; see `chances_by_margin`."""
        return chances_by_margin(self, errors, rows, index, sizes)


@dataclass(frozen=True)
class Beside:
    """By how much the chance of an error was estimated to be above what is counted, elsewhere.

    Parameters
    ----------
    more : ndarray of shape (T, m)
        For each member and unit.
    halves : tuple of two such arrays
        The same of each half of the rows.
    half : ndarray of bool, shape (n,)
        Which half each judged row is in.
    """

    more: Floats
    halves: tuple[Floats, ...]
    half: Mask

    def part(self, chosen: Mask) -> Beside:
        """Return what is known of one half of the rows."""
        half = self.half[chosen]
        return Beside(self.halves[int(half[0])], (), half)

    def of_units(self, errors: Floats, rows: Rows, index: Ints, sizes: Floats) -> Floats:
        """Return the chance of an error of each member on each unit that has rows, shape (T, m')."""
        chances: Floats = errors + self.more[:, np.unique(memberships(index)[1])]
        return chances


def losses_of(members: Iterable[Any], table: LogTable, y: Ints) -> BitLosses | DenseLosses:
    """Losses of members on rows: as bits, or dense where a member's answer is drawn."""
    rows = [loss_of(member.predict_table(table), y) for member in members]
    if all(row.dtype == np.bool_ for row in rows):
        return BitLosses.from_rows(np.array(rows))
    return DenseLosses(np.array(rows, dtype=np.float64))
