"""Members, which answer by thresholds on a belief, and tallies of what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats, Ints, Mask
from tailboost.rates import Strata

# Actions up to which a row's cheapest is found one after the other.
FEW_ACTIONS = 255

Singles = NDArray[np.float32]
"""Probabilities p(s | x), shape (S, n): a row of numbers for each stratum."""


@dataclass(frozen=True, eq=False)
class Member:
    """The decision rule ``argmin_a Σ_s p(s | x) Q[s, a]``."""

    source: int  # whose belief p(s | x) is asked
    # Shape (S, A): Q: what an action is charged in a stratum. Each row is centred, which changes no answer.
    prices: Floats

    @classmethod
    def of(cls, source: int, prices: Floats) -> Member:
        """Return the member of some prices, scaled and centred such that most of them are 0."""
        usual = np.sort(prices, axis=1)[:, prices.shape[1] // 2]
        centred = prices - usual[:, None]
        return cls(source, centred / max(float(np.abs(centred).max()), 1e-300))

    @property
    def is_constant(self) -> bool:
        """Whether it gives every row the same answer, so that no belief need be asked."""
        return bool((self.prices == self.prices[0]).all())

    def answers(self, belief: Singles) -> Ints:
        """Return the action of each row, shape (n,); equal charges fall to the first."""
        return decide(charges(belief, self.prices))

    def margins(self, belief: Singles, y: Ints, n_classes: int) -> Floats:
        """Return by how much the logarithm of the right class's score is above the others', shape (n,).

        Where errors alone are priced, what a class scores is what errors cost where it is not answered. Of
        constants ±∞: nothing is near to another answer.
        """
        prices = self.prices[:, :n_classes]
        if self.is_constant:
            return np.where(y == prices[0].argmin(), np.inf, -np.inf)
        saved = prices.max(axis=1, keepdims=True) - prices
        scores = np.zeros((n_classes, belief.shape[1]))
        for s, a in zip(*np.nonzero(saved), strict=True):
            scores[a] += saved[s, a] * belief[s]
        scores = np.log(np.maximum(scores, np.finfo(float).tiny))
        rows, own = np.arange(len(y)), scores[y, np.arange(len(y))].copy()
        scores[y, rows] = -np.inf
        found: Floats = own - scores.max(axis=0)
        return found


def contrasts(prices: Floats) -> Floats:
    """Return what has to be charged to decide: for two actions the difference alone, shape (S, 1)."""
    return prices[:, 1:] - prices[:, :1] if prices.shape[1] == 2 else prices


def charges(belief: Singles, prices: Floats) -> Floats:
    """Return Σ_s p(s | x) Q[s, a] for each action, shape (A, n); for two actions their difference, (1, n).

    Rows are summed stratum by stratum, so that a row's charge does not depend on the rows beside it.
    """
    wanted = contrasts(prices)
    found = np.zeros((wanted.shape[1], belief.shape[1]))
    for s, a in zip(*np.nonzero(wanted), strict=True):
        found[a] += wanted[s, a] * belief[s]
    return found


def decide(charged: Floats) -> Ints:
    """Return the cheapest action of each row from its charges, shape (n,); of equal ones the first."""
    if len(charged) == 1:
        return (charged[0] < 0).astype(np.intp)
    if len(charged) > FEW_ACTIONS:
        return charged.argmin(axis=0).astype(np.intp)
    # Four times as fast as argmin over the first axis.
    cheapest, least = np.zeros(charged.shape[1], dtype=np.uint8), charged[0].copy()
    for action, own in enumerate(charged[1:], 1):
        np.maximum(cheapest, (own < least).view(np.uint8) * np.uint8(action), out=cheapest)
        np.minimum(own, least, out=least)
    return cheapest.astype(np.intp)


def spread(stratum: Ints, most: int) -> Ints:
    """Return the numbers of at most so many rows, spread evenly over their strata.

    Half of them are as many of each stratum, or all it has: rates of few rows bear no fewer.
    """
    n, sizes = len(stratum), np.bincount(stratum)
    if n <= most:
        return np.arange(n)
    kept = np.minimum(sizes, max(most // (2 * len(sizes)), 1))
    others = np.cumsum(sizes - kept)
    kept += np.diff(others * max(most - int(kept.sum()), 0) // max(int(others[-1]), 1), prepend=0)
    order, last = np.argsort(stratum, kind="stable"), np.cumsum(sizes)
    of = [
        np.linspace(end - size, end - 1, own).round().astype(np.intp)
        for end, size, own in zip(last, sizes, kept, strict=True)
    ]
    return np.sort(order[np.concatenate(of)])


def plain_state(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, without what was computed from them."""
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


@dataclass(frozen=True, eq=False)
class Tally:
    """What a member does: the weight of each stratum that gets each action, and what it costs there."""

    halves: Floats  # shape (2, W, A): as counted in each half of the rows; W is S, or 2 S with costs of rows
    # Shape (W, A): as the member's own belief expects of all rows, scaled to the true masses of the strata.
    expected: Floats
    of_folds: Tally | None = None  # where counts are corrected, see `Table.corrected`, those that are not

    @cached_property
    def counted(self) -> Floats:
        """As counted in all rows, shape (W, A)."""
        both: Floats = self.halves[0] + self.halves[1]
        return both

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    def blended(self, doubt: Floats) -> Floats:
        """Return ``(1 − k) counted + k expected`` with a share k for each stratum, shape (W, A)."""
        k = np.tile(doubt, len(self.expected) // len(doubt))[:, None]
        mixed: Floats = (1.0 - k) * self.counted + k * self.expected
        return mixed


@dataclass(frozen=True, eq=False)
class Reading:
    """How tallies are read: what share of them is the expected one, in each stratum.

    An objective over few rows generalises better where counts are doubted; a limit is about what is counted.
    """

    # objective, limits: shape (S,): share of the expected tally, for the objective and for the limits.
    objective: Floats
    limits: Floats
    pseudo_rows: float = 0.0  # rows of each stratum that are read as expected; 0 where counts are believed

    @classmethod
    def believed(cls, n_strata: int) -> Reading:
        """Return the reading of expected tallies alone."""
        return cls(np.ones(n_strata), np.ones(n_strata))

    def of(self, tally: Tally) -> Floats:
        """Return the tally as read for the objective and for limits, shape (2, W, A)."""
        return np.stack([tally.blended(self.objective), tally.blended(self.limits)])


@dataclass(frozen=True, eq=False)
class Table:
    """The rows on which members are judged."""

    strata: Strata  # the strata, with the masses of these rows
    stratum: Ints  # shape (n,): that of each row
    share: Floats  # shape (n,): weights, which sum to 1
    beliefs: tuple[Singles, ...]  # shape (S, n): p(s | x) of each source
    costs: Floats | None = None  # shape (n, A): what each action costs in each row
    half: Mask | None = None  # shape (n,): which half each row is in
    # How many of the rows are judged, the first ones; by default all. The others correct: see `corrected`.
    judged: int | None = None

    @property
    def n_judged(self) -> int:
        """How many rows are judged."""
        return len(self.stratum) if self.judged is None else self.judged

    @cached_property
    def _cell(self) -> Ints:
        """Place of each row's stratum and half in a flat tally."""
        n_strata, A = len(self.strata.mass), self.strata.n_actions
        half = 0 if self.half is None else self.half.astype(np.intp)
        cell: Ints = (half * n_strata + self.stratum) * A
        return cell

    @cached_property
    def _even(self) -> bool:
        return bool(np.ptp(self.share) == 0)

    @cached_property
    def apart(self) -> list[tuple[Ints, Ints]]:
        """The rows and the strata of each combination of groups, where rows are told it; else nothing."""
        G, belief = self.strata.n_combinations, self.beliefs[0]
        own = self.strata.combination[self.stratum]
        inside = belief.reshape(-1, G, belief.shape[1])[:, own, np.arange(len(own))].sum(axis=0)
        if G > 1 and (belief.sum(axis=0) > inside).any():
            return []
        return [(np.flatnonzero(own == g), np.flatnonzero(self.strata.combination == g)) for g in range(G)]

    @cached_property
    def _believed(self) -> list[Floats]:
        """The mass that each source believes each stratum to have, shape (S,) each."""
        return [np.asarray(belief @ self.share, dtype=np.float64) for belief in self.beliefs]

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    def answers(self, member: Member) -> Ints:
        """Return the actions of a member, shape (n,)."""
        return member.answers(self.beliefs[member.source])

    def labels(self, member: Member) -> Ints:
        """Return the class numbers that a member would answer if no row were passed on, shape (n,)."""
        charged = charges(self.beliefs[member.source], member.prices)
        return decide(charged if len(charged) == 1 else charged[: self.strata.n_classes])

    def corrected(self, rows: Ints, own: Sequence[Singles], learnt: Sequence[Singles]) -> Table:
        """Return the table with what models that answer do otherwise than those of folds.

        Models of folds split rows that one model answers alike, as where features take few values; a choice
        on tallies out of fold alone would use that. To these tallies is added what members do by the models
        that answer, and from them taken what they do by models of folds, both on rows that these models
        learnt from, so that having seen them counts for nothing.

        Parameters
        ----------
        rows : ndarray of int, shape (m,)
            Numbers of the rows that this is measured on.
        own, learnt : sequence of ndarray of shape (S, m)
            What each source believes of them by the models that answer, and by models of folds.
        """
        stratum, share = self.stratum[rows], self.share[rows]
        half = None if self.half is None else self.half[rows]
        cell, n_cells = stratum, len(self.strata.mass)
        every = self.stratum
        if half is not None and self.half is not None:  # each half is corrected by rows of its own
            cell, every = cell + n_cells * half, every + n_cells * self.half
        whole = np.bincount(every, self.share, 2 * n_cells)
        weight = share * (whole / np.maximum(np.bincount(cell, share, 2 * n_cells), 1e-300))[cell]
        return Table(
            self.strata,
            np.concatenate([self.stratum, stratum, stratum]),
            np.concatenate([self.share, weight, -weight]),
            tuple(np.hstack(of) for of in zip(self.beliefs, own, learnt, strict=True)),
            None if self.costs is None else np.concatenate([self.costs, self.costs[rows], self.costs[rows]]),
            None if half is None or self.half is None else np.concatenate([self.half, half, half]),
            len(self.stratum),
        )

    def spread(self, most: int) -> Ints:
        """Return the numbers of at most so many judged rows, spread evenly over the strata, and of others."""
        others = np.arange(self.n_judged, len(self.stratum))
        return np.append(spread(self.stratum[: self.n_judged], most), others)

    def part(self, rows: Ints) -> Table:
        """Return some of the rows, without halves: those that are judged stand for all of their stratum."""
        stratum, share, judged = self.stratum[rows], self.share[rows], rows < self.n_judged
        there = np.bincount(stratum[judged], share[judged], len(self.strata.mass))
        stands_for = np.divide(self.strata.mass, there, out=np.zeros(len(there)), where=there > 0)
        share = np.where(judged, share * stands_for[stratum], share)
        return Table(
            replace(self.strata, mass=np.where(there > 0, self.strata.mass, 0.0)),
            stratum,
            share,
            tuple(np.ascontiguousarray(belief[:, rows]) for belief in self.beliefs),
            None if self.costs is None else self.costs[rows],
            judged=int(np.count_nonzero(judged)),
        )

    def counted(self, actions: Ints) -> Floats:
        """Return the tally of actions as counted in each half, shape (2, W, A)."""
        n_strata, A = len(self.strata.mass), self.strata.n_actions
        size, place = 2 * n_strata * A, self._cell + actions
        if self._even:
            counts = np.bincount(place, minlength=size) * self.share[0]
        else:
            counts = np.bincount(place, self.share, size)
        halves: Floats = counts.reshape(2, n_strata, A)
        halves = self.possible(halves)
        if self.costs is None:
            return halves
        met = np.bincount(place, self.share * self.costs[np.arange(len(actions)), actions], size)
        return np.concatenate([halves, met.reshape(2, n_strata, A)], axis=1)

    def possible(self, counts: Floats) -> Floats:
        """Return counts without negative ones: where little is counted a correction may be more than that."""
        if self.n_judged == len(self.stratum):
            return counts
        kept = np.maximum(counts, 0.0)
        found: Floats = kept * (counts.sum(axis=-1) / np.maximum(kept.sum(axis=-1), 1e-300))[..., None]
        return found

    def expected(self, source: int, actions: Ints) -> Floats:
        """Return the tally of actions as a belief expects it, shape (W, A)."""
        belief, believed, A = self.beliefs[source], self._believed[source], self.strata.n_actions
        found = np.empty((len(believed), A))
        for a in range(1, A):
            found[:, a] = np.maximum(belief @ np.where(actions == a, self.share, 0.0).astype(np.float32), 0.0)
        found[:, 0] = np.maximum(believed - found[:, 1:].sum(axis=1), 0.0)
        found *= self.correction(source)[:, None]
        if self.strata.mean_costs is not None:
            found = np.concatenate([found, found * self.strata.mean_costs])
        return found

    def correction(self, source: int) -> Floats:
        """Return by how much strata have more mass than a source believes, shape (S,)."""
        believed = self._believed[source]
        there = believed > 0
        return np.where(there, self.strata.mass / np.where(there, believed, 1.0), 0.0)

    def tally(self, member: Member, actions: Ints | None = None) -> Tally:
        """Return what a member does."""
        actions = self.answers(member) if actions is None else actions
        expected, of_folds = self.expected(member.source, actions), None
        if (n := self.n_judged) < len(self.stratum):
            alone = replace(self, stratum=self.stratum[:n], share=self.share[:n], half=None, judged=None)
            alone = alone if self.costs is None else replace(alone, costs=self.costs[:n])
            of_folds = Tally(alone.counted(actions[:n]), expected)
        return Tally(self.counted(actions), expected, of_folds)

    def reading(self, pseudo_rows: float) -> Reading:
        """Return the reading in which a stratum of n rows is read as ``n + s``, s of them as expected.

        Limits are about what is counted.
        """
        size = self.strata.size
        share = pseudo_rows / np.maximum(size + pseudo_rows, 1e-300)
        return Reading(share, np.zeros(len(size)), pseudo_rows)
