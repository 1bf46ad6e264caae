"""The losses of every member of the pool on the rows that decide the combination."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from tailboost import rates
from tailboost._typing import Bits, Floats, Ints, Mask
from tailboost._units import memberships
from tailboost.data import Rows
from tailboost.rules.outliers import keep
from tailboost.solvers import BitLosses
from tailboost.solvers.bits import DenseLosses

# Mean losses closer than this are equal.
TIE_DECIMALS = 9
# Errors of units are rounded to this, so that λ does not depend on the order of the rows.
LOSS_DECIMALS = 12


@dataclass(frozen=True)
class Ledger:
    """Zero-one losses of every member of the pool on the rows that decide the combination.

    The pool is the boosted hypotheses in order, then the extras.
    """

    rows: Rows  # the judged rows
    # Shape (T, n): losses of the boosted hypotheses; dense where the answers of some are drawn.
    boosted: BitLosses | DenseLosses
    # Shape (E, n): losses of the extras, which are not boosted: plain ERM in group games, the constants.
    extras: BitLosses
    # Mass of the rows with the highest cumulative loss that is left out of the CVaR.
    outlier_fraction: float = 0.0
    # Shape (T, n): losses of the boosted hypotheses where a row near a threshold counts in part, of rows that
    # stand for several.
    near: DenseLosses | None = None
    # both, of_halves: shape (T, n): how often they err together with the one of least mean loss, of such
    # rows; and in each half with the one that has it there.
    both: DenseLosses | None = None
    of_halves: DenseLosses | None = None
    # Cache of the units that have rows, and of the boosted hypotheses' and the extras' errors on them: every
    # round asks for them.
    _known: dict[str, tuple[Ints, list[Floats], list[Floats]]] = field(default_factory=dict)
    # And of the numbers of rows in them.
    _sizes: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def new(cls, rows: Rows, extras: Iterable[Bits], outlier_fraction: float = 0.0) -> Ledger:
        """Open a ledger with the losses of the extras and no boosted hypothesis yet."""
        bits = BitLosses(len(rows.y))
        for wrong in extras:
            bits = bits.append(wrong)
        return cls(rows, BitLosses(len(rows.y)), bits, outlier_fraction)

    def append(self, wrong: Bits) -> Ledger:
        """Return the ledger with one more boosted hypothesis."""
        # A copy, because ledgers of other fits may grow from this one by other hypotheses.
        return replace(self, boosted=self.boosted.append(wrong), _known=dict(self._known))

    def with_extras(self, wrongs: Iterable[Bits]) -> Ledger:
        """Return the ledger with more members that are not boosted."""
        extras = self.extras
        for wrong in wrongs:
            extras = extras.append(wrong)
        return replace(self, extras=extras, _known={})

    def first(self, n_rounds: int) -> Ledger:
        """Return the ledger of the first ``n_rounds`` boosted hypotheses."""
        known = {name: (used, t[:n_rounds], extras) for name, (used, t, extras) in self._known.items()}
        return replace(self, boosted=self.boosted.select(members=np.arange(n_rounds)), _known=known)

    def part(self, chosen: Mask) -> Ledger:
        """Return the ledger of some of the judged rows."""
        boosted, extras = self.boosted.select(units=chosen), self.extras.select(units=chosen)
        near, both = (None if x is None else x.select(units=chosen) for x in (self.near, self.of_halves))
        return Ledger(self.rows.part(chosen), boosted, extras, self.outlier_fraction, near, both, both)

    def regrouped(self, groups: Ints) -> Ledger:
        """Return the ledger with other groups of the same rows."""
        return replace(self, rows=replace(self.rows, groups=groups), _known={}, _sizes={})

    def pool(self, n_rounds: int | None = None) -> BitLosses | DenseLosses:
        """Losses of the first ``n_rounds`` boosted hypotheses (all by default), then of the extras."""
        t = self.boosted.shape[0]
        pool = self.boosted if n_rounds in (None, t) else self.boosted.select(members=np.arange(n_rounds))
        for e in range(self.extras.shape[0]):
            pool = pool.append(self.extras.row(e))
        return pool

    def base(self, n_rounds: int | None = None) -> Floats:
        """Return the base measure of the rows: the normalised weights, without the outliers."""
        if self.outlier_fraction == 0.0:
            return self.rows.base
        t = self.boosted.shape[0] if n_rounds is None else n_rounds
        cumulative = np.zeros(len(self.rows.y))
        for s in range(t):
            cumulative += self.boosted.row(s)
        return keep(self.rows.base, cumulative, self.outlier_fraction)

    @property
    def whole(self) -> Ledger:
        """The same losses with nothing left out."""
        return replace(self, outlier_fraction=0.0)

    @property
    def dropped(self) -> float:
        """Share of the weight left out as outliers; 0 while all rows have the same cumulative loss."""
        return 0.0 if np.array_equal(self.base(), self.rows.base) else self.outlier_fraction

    def constant_answer(self, member: int) -> int | None:
        """Return the class that a member of the pool answers to all judged rows; None if there are several.

        Where the judged rows are of one class, losses do not tell.
        """
        t, y = self.boosted.shape[0], self.rows.y
        wrong = self.boosted.row(member) if member < t else self.extras.row(member - t)
        right = y[wrong == 0]
        if len(right) == 0 or np.ptp(y) == 0 or not np.array_equal(wrong, rates.wrong(right[0], y)):
            return None
        return int(right[0])

    def unit_errors(self, name: str, index: Ints, n_rounds: int | None = None) -> tuple[Floats, Ints]:
        """Error of every member of the pool on every unit that has rows.

        Parameters
        ----------
        name : str
            Name of the units; the same name always comes with the same ``index``.
        index : ndarray of shape (n,) or (n, c)
            Unit of each judged row, or its c units; −1 for none.
        n_rounds : int, optional
            Boosted hypotheses of the pool; all by default.

        Returns
        -------
        errors : ndarray of shape (T + E, m')
        used : ndarray of shape (m',)
            Numbers of the units that have rows.
        """
        t = self.boosted.shape[0]
        used, boosted, extras = self._known.get(name, (None, [], []))
        if used is None or len(boosted) < t:
            row, unit = memberships(index)
            used, unit = np.unique(unit, return_inverse=True)
            weight = self.rows.weight[row]
            share = weight / np.bincount(unit, weights=weight)[unit]

            def errors(wrong: Bits | Floats) -> Floats:
                sums = np.bincount(unit, weights=share * wrong[row], minlength=len(used))
                return sums.astype(np.float64).round(LOSS_DECIMALS)

            boosted = [*boosted, *(errors(self.boosted.row(s)) for s in range(len(boosted), t))]
            extras = extras or [errors(self.extras.row(e)) for e in range(self.extras.shape[0])]
            self._known[name] = used, boosted, extras  # new lists: other ledgers and threads hold the old
        return np.array([*boosted[:n_rounds], *extras]), used

    def unit_sizes(self, name: str, index: Ints) -> Floats:
        """Return how many rows each unit that has any rests on (see `Rows.sizes`), shape (m',)."""
        if name not in self._sizes:
            sizes = self.rows.sizes(index, int(index.max()) + 1)
            self._sizes[name] = sizes[sizes > 0]
        return self._sizes[name]

    def unit_chances(self, name: str, index: Ints, n_rounds: int | None = None) -> Floats:
        """Return `unit_errors`; where that is known, rows near a threshold count in part."""
        if self.near is None:
            return self.unit_errors(name, index, n_rounds)[0]
        if f"near {name}" not in self._known:
            known = replace(self, boosted=self.near, _known={})
            known.unit_errors(name, index)
            self._known[f"near {name}"] = known._known[name]
        return self.unit_errors(f"near {name}", index, n_rounds)[0]

    def mean_losses(self, n_rounds: int | None = None) -> Floats:
        """Mean loss of every member of the pool on the judged rows, nothing left out, shape (T + E,)."""
        return self.pool(n_rounds).means(self.rows.base).round(LOSS_DECIMALS)

    def tie(self, n_rounds: int | None = None) -> float:
        """Return the largest mean loss, above the least, of a member within a standard error of the best.

        That is the largest difference of a member that is within one standard error of it, row by row: what
        is gained by so little is noise, and not worth the error of a unit. Of losses between 0 and 1 the
        standard error is at most that which is used.
        """
        pool, p = self.pool(n_rounds), self.rows.base
        means = self.mean_losses(n_rounds)
        if self.both is not None:
            together = self.both.expectations(p)
        elif self.rows.multiplicity is not None and isinstance(self.boosted, DenseLosses):
            return 0.0  # sums over several rows do not say in which of them members differ
        else:
            together = pool.expectations(p * pool.row(int(means.argmin())))
        best = float(together.max())  # the mean loss of the one that each is held against
        beyond, differ = (means - best).round(LOSS_DECIMALS), means + best - 2.0 * together
        (size,) = self.rows.sizes(np.zeros(len(p), dtype=np.intp), 1)
        error = np.sqrt(np.maximum(differ - beyond**2, 0.0) / size)
        return float((means - means.min())[beyond <= error].max())

    def by_mean_loss(self) -> Ints:
        """Members of the pool, the one with the least mean loss first; the earlier one if they are equal."""
        return np.argsort(np.round(self.mean_losses(), TIE_DECIMALS), kind="stable")
