"""Lines of rules: one action is charged more or less along a direction, and all that follows at once."""

from __future__ import annotations

import numpy as np

from tailboost._typing import Floats, Ints
from tailboost.thresholds._tally import Table

# Directions by which a charge moves less than this move nothing.
STILL = 1e-12
# Rows by which the places of a line are found, how many of them lie near to where it starts, and over all.
SAMPLE, NEAR, EVEN = 4_000, 24, 16


class Line:
    """The rules ``charge of the action + δ moved`` for all δ, on some rows.

    A row takes the action where that costs less than its best other answer. As δ grows it leaves or takes it
    once, so that tallies of all rules of the line are sums over sorted rows.

    Parameters
    ----------
    table : Table
        The judged rows.
    charged : ndarray of shape (A, n) or (1, n)
        What the actions are charged, see `charges`; of two actions the difference alone.
    action : int
        Whose charge moves: its row in ``charged``.
    moved : ndarray of shape (n,)
        The direction.
    rows : ndarray of int, optional
        Numbers of the rows that ``charged`` and ``moved`` are of; all by default.
    """

    def __init__(
        self, table: Table, charged: Floats, action: int, moved: Floats, rows: Ints | None = None
    ) -> None:
        n = charged.shape[1]
        own, self.table, self.rows = charged[action], table, slice(None) if rows is None else rows
        if len(charged) == 1:
            self.action, self.other, against = 1, np.zeros(n, dtype=np.intp), np.zeros(n)
        else:
            others = charged.copy()
            others[action] = np.inf
            self.action, self.other = action, others.argmin(axis=0)
            against = others[self.other, np.arange(n)]
        moves = np.abs(moved) > STILL
        self.at = np.where(moves, (against - own) / np.where(moves, moved, 1.0), np.inf)
        # What a row does where δ is least.
        self.takes = np.where(moves, moved > 0, own < against)

    def tallies(self, even: int = EVEN) -> tuple[Floats, Floats]:
        """Return some places δ, and the tallies there of these rows, shape (T, W, A).

        About ``even`` of them are spread evenly over the rows, the others lie near to 0.
        """
        table, A = self.table, self.table.strata.n_actions
        places = self._places(even)
        cell = table.stratum[self.rows] * A
        to, other = cell + self.action, cell + self.other
        place = np.where(np.isfinite(self.at), np.searchsorted(places, self.at), len(places))
        share = table.share[self.rows]
        found = [table.possible(self._summed(share, share, place, to, other, len(places)))]
        if table.costs is not None:
            costs = table.costs[self.rows]
            met = share * costs[:, self.action], share * costs[np.arange(len(share)), self.other]
            found.append(self._summed(*met, place, to, other, len(places)))
        return places, np.concatenate(found, axis=1)

    def _summed(
        self, with_it: Floats, without: Floats, place: Ints, to: Ints, other: Ints, n_places: int
    ) -> Floats:
        """Return sums over rows of what they count with the action and without it, by place."""
        n_strata, A = len(self.table.strata.mass), self.table.strata.n_actions
        size = n_strata * A
        first = np.bincount(np.where(self.takes, to, other), np.where(self.takes, with_it, without), size)
        sign = np.where(self.takes, -1.0, 1.0)
        changes = np.bincount(place * size + to, sign * with_it, (n_places + 1) * size)
        changes -= np.bincount(place * size + other, sign * without, (n_places + 1) * size)
        # A row that changes before the first place has changed at all of them.
        summed: Floats = first + changes.reshape(n_places + 1, size)[:n_places].cumsum(axis=0)
        return summed.reshape(n_places, n_strata, A)

    def _places(self, even: int) -> Floats:
        """Return places between rows that change: near to 0, and spread evenly over all."""
        known = self.at[np.linspace(0, len(self.at) - 1, min(len(self.at), SAMPLE)).astype(np.intp)]
        known = np.sort(known[np.isfinite(known)])
        if not len(known):
            return np.zeros(1)
        here, last = np.searchsorted(known, 0.0), len(known) - 1
        steps = np.geomspace(0.5, len(known), NEAR // 2).round().astype(np.intp)
        ranks = np.concatenate([here + steps - 1, here - steps, np.linspace(0, last, even).astype(np.intp)])
        ends = np.unique(known[np.clip(ranks, 0, last)])
        beyond = 0.1 * np.abs(ends[[0, -1]]) + 1e-6
        return np.concatenate([[ends[0] - beyond[0]], (ends[1:] + ends[:-1]) / 2.0, [ends[-1] + beyond[1]]])

    def least(self, charge: Floats) -> float:
        """Return the δ at which a charge of tallies, of shape (W, A), is least: exactly."""
        table = self.table
        stratum, share, n_strata = table.stratum[self.rows], table.share[self.rows], len(table.strata.mass)
        more = charge[stratum, self.action] - charge[stratum, self.other]
        if table.costs is not None:
            costs, known = table.costs[self.rows], charge[n_strata:]
            more = more + known[stratum, self.action] * costs[:, self.action]
            more = more - known[stratum, self.other] * costs[np.arange(len(share)), self.other]
        order = np.argsort(self.at, kind="stable")
        at = self.at[order]
        n = int(np.isfinite(at).sum())
        if not n:
            return 0.0
        at, gain = at[:n], (np.where(self.takes, -1.0, 1.0) * share * more)[order[:n]]
        # Rows that change at one place change together.
        last = np.flatnonzero(np.append(np.diff(at) > 0, True))
        total = np.append(0.0, np.cumsum(gain)[last])
        best = int(total.argmin())
        ends = at[last]
        if best == 0:
            return float(ends[0] - 0.1 * abs(ends[0]) - 1e-6)
        if best == len(ends):
            return float(ends[-1] + 0.1 * abs(ends[-1]) + 1e-6)
        return float((ends[best - 1] + ends[best]) / 2.0)
