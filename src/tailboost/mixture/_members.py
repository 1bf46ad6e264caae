"""Members of the pool: what one source of probabilities answers, under shifts, as shares, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from tailboost._typing import Floats, Ints, Mask
from tailboost._units import memberships, unit_name
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
# Weights of a member that its name shows.
MOST_WEIGHTS = 10


@dataclass(frozen=True)
class Shifted:
    """The best answer to weighted classes: ``argmax_k log p_k(x) + s_k``.

    Parameters
    ----------
    table_ : Models
        The models, shared by all members.
    source : tuple of int
        Which of them; the logarithms of several are averaged.
    shift : ndarray of shape (K,)
        s, the logarithms of the classes' weights.
    """

    table_: Models
    source: Source
    shift: Floats

    def predict_table(self, table: LogTable) -> Ints:
        """Return class numbers, shape (n,)."""
        return (table[self.source] + self.shift).argmax(axis=1)

    def margins(self, table: LogTable, y: Ints) -> Floats:
        """Return by how much the score of the right class is above all others, shape (n,)."""
        return margins_of(table[self.source] + self.shift, y)

    def as_part(self) -> RulePart:
        """Return what it does as numbers."""
        weights, offsets = log_weights(self.table_, self.source)
        return RulePart(1.0, weights, offsets, [(-np.diag(np.exp(self.shift))).tolist()])

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))


@dataclass(frozen=True)
class ShiftedByUnit:
    """The best answer to weighted units: ``argmax_k p_k(x) Σ_u w_u p(u | k, x)``.

    Parameters
    ----------
    table_, source
        As in `Shifted`.
    units : UnitModel
        p(u | k, x), from the probabilities alone.
    weight : ndarray of shape (m,)
        w.
    """

    table_: Models
    source: Source
    units: Any
    weight: Floats

    def predict_table(self, table: LogTable) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.units.answers(table, self.source, self.weight)

    def margins(self, table: LogTable, y: Ints) -> Floats:
        """Return by how much the logarithm of the right class's score is above the others', shape (n,)."""
        scores = self.units.scores(table, self.source, self.weight)
        return margins_of(np.log(np.maximum(scores, np.finfo(float).tiny)), y)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))


@dataclass(frozen=True)
class Tempered:
    """A draw from the probabilities, sharpened or flattened: ``P(k) ∝ p_k(x)^β``.

    Parameters
    ----------
    table_, source
        As in `Shifted`.
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


@dataclass(frozen=True)
class Constant:
    """The same class for every row.

    Parameters
    ----------
    table_ : Models
        The models, none of which is asked.
    answer : int
        The class number.
    """

    table_: Models
    answer: int
    source: Source = field(default=())

    def predict_table(self, table: LogTable) -> Ints:
        """Return class numbers, shape (n,)."""
        return np.full(table.n_rows, self.answer, dtype=np.intp)

    def as_part(self) -> RulePart:
        """Return what it does as numbers."""
        K = self.table_.n_classes
        charged = [[float(k != self.answer) for k in range(K)]] * K
        return RulePart(1.0, {}, [0.0] * K, [charged])

    def margins(self, table: LogTable, y: Ints) -> Floats:
        """Return ±∞: nothing is near to another answer, shape (n,)."""
        return np.where(y == self.answer, np.inf, -np.inf)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))


@dataclass(frozen=True)
class ByGroup:
    """In each group what a member chosen for it answers: the group must be known.

    Parameters
    ----------
    table_ : Models
        The models.
    members : tuple of Member
        One for each group, in the order of the groups' numbers.
    names : tuple
        What the groups are called.
    """

    table_: Models
    members: tuple[Any, ...]
    names: tuple[Any, ...]

    @property
    def source(self) -> Source:
        """The models that any of them asks."""
        return tuple(sorted({i for member in self.members for i in member.source}))

    def predict_table(self, table: LogTable) -> Ints:
        """Return class numbers, shape (n,)."""
        if table.groups is None:
            raise ValueError(GROUPS_NEEDED)
        answers = np.empty(table.n_rows, dtype=np.intp)
        for member, rows in self._parts(table.groups):
            answers[rows] = member.predict_table(table.part(rows))
        return answers

    def margins(self, table: LogTable, y: Ints) -> Floats:
        """Return those of each group's own member, shape (n,)."""
        margins = np.empty(table.n_rows)
        assert table.groups is not None
        for member, rows in self._parts(table.groups):
            margins[rows] = member.margins(table.part(rows), y[rows])
        return margins

    def _parts(self, groups: Ints) -> Iterator[tuple[Any, Ints]]:
        for g in np.unique(groups):
            yield self.members[g], np.flatnonzero(groups == g)

    def predict(self, X: Any) -> Ints:
        """Refuse: X has no groups."""
        return self.predict_table(self.table_.transform(X))


def margins_of(scores: Floats, y: Ints) -> Floats:
    """Return by how much each row's own class scores above all others, shape (n,)."""
    rows, others = np.arange(len(y)), scores.copy()
    others[rows, y] = -np.inf
    margins: Floats = scores[rows, y] - others.max(axis=1)
    return margins


Member = Shifted | ShiftedByUnit | Tempered | Constant | ByGroup


def name_of(member: Member, classes: Any) -> str:
    """Say what a member is, for people."""
    if isinstance(member, ByGroup):
        of_each = [
            f"{unit_name(n)}: {name_of(m, classes)}"
            for n, m in zip(member.names, member.members, strict=True)
        ]
        return "; ".join(of_each[:SHOWN]) + ("; …" if len(of_each) > SHOWN else "")
    if not isinstance(member, (Shifted, ShiftedByUnit, Tempered, Constant)):
        return str(member.words(classes))
    of = _name_of_source(member)
    if isinstance(member, Constant):
        return f"constant {classes[member.answer]}"
    if isinstance(member, Tempered):
        return f"{of} drawn" + ("" if member.power == 1.0 else f" ^{member.power:g}")
    if isinstance(member, ShiftedByUnit):
        return f"{of}, unit weights {_ratio(member.weight)}"
    return of if not member.shift.any() else f"{of}, class weights {_ratio(np.exp(member.shift))}"


def _name_of_source(member: Any) -> str:
    models, source = member.table_, member.source
    names = [models.names[i] for i in source]
    average = next((each for each in models.averages if each.source == source), None)
    if average is None:
        return names[0] if len(names) == 1 else f"mean({', '.join(names)})"
    weight = dict(zip(source, average.weights, strict=True))
    return " + ".join(f"{weight[i]:.2g} {models.names[i]}" for i in average.asked.tolist())


def _ratio(weights: Floats) -> str:
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


def losses_of(members: Iterable[Member], table: LogTable, y: Ints) -> BitLosses | DenseLosses:
    """Losses of members on rows: as bits, or dense where a member's answer is drawn."""
    rows = [loss_of(member.predict_table(table), y) for member in members]
    if all(row.dtype == np.bool_ for row in rows):
        return BitLosses.from_rows(np.array(rows))
    return DenseLosses(np.array(rows, dtype=np.float64))
