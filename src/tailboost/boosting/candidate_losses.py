"""Zero-one losses of base models on the selection data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tailboost import rates
from tailboost.boosting.players.hedge import without_outliers
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Bits, Floats, Ints, Mask
from tailboost.solvers import BitLosses
from tailboost.solvers.bits import DenseLosses

# Decimals to which mean losses and probabilities are compared for ties.
TIE_DECIMALS = 9
# Decimals of mean losses, so that λ does not depend on the order of the rows.
LOSS_DECIMALS = 12


@dataclass(frozen=True)
class CandidateLosses:
    """Zero-one losses of all base models of a pool on the selection data.

    A pool consists of the boosted models in order and the unboosted ones, fitted outside of the game.
    """

    rows: Rows  # the selection data
    boosted: BitLosses | DenseLosses  # shape (T, n); dense if the answers of some models are random
    unboosted: BitLosses  # shape (E, n): for example plain ERM in group games, and constants
    # Mass of the rows with the highest cumulative loss that the CVaR leaves out.
    outlier_fraction: float = 0.0

    @classmethod
    def new(cls, rows: Rows, unboosted: Iterable[Bits], outlier_fraction: float = 0.0) -> CandidateLosses:
        """Return the losses of the unboosted models without any boosted model."""
        bits = BitLosses(len(rows.y))
        for wrong in unboosted:
            bits = bits.append(wrong)
        return cls(rows, BitLosses(len(rows.y)), bits, outlier_fraction)

    def append(self, wrong: Bits) -> CandidateLosses:
        """Return the losses with one more boosted model."""
        return replace(self, boosted=self.boosted.append(wrong))

    def with_unboosted(self, wrongs: Iterable[Bits]) -> CandidateLosses:
        """Return the losses with more unboosted models."""
        unboosted = self.unboosted
        for wrong in wrongs:
            unboosted = unboosted.append(wrong)
        return replace(self, unboosted=unboosted)

    def first(self, n_rounds: int) -> CandidateLosses:
        """Return the losses of the first ``n_rounds`` boosted models and the unboosted models."""
        return replace(self, boosted=self.boosted.select(candidates=np.arange(n_rounds)))

    def part(self, chosen: Mask) -> CandidateLosses:
        """Return the losses on some of the selection data."""
        boosted, unboosted = self.boosted.select(units=chosen), self.unboosted.select(units=chosen)
        return CandidateLosses(self.rows.part(chosen), boosted, unboosted, self.outlier_fraction)

    def regrouped(self, groups: Ints) -> CandidateLosses:
        """Return the losses with other groups of the same rows."""
        return replace(self, rows=replace(self.rows, groups=groups))

    def pool(self, n_rounds: int | None = None) -> BitLosses | DenseLosses:
        """Return the losses of the first ``n_rounds`` boosted models (default: all), then of the others."""
        t = self.boosted.shape[0]
        pool = self.boosted if n_rounds in (None, t) else self.boosted.select(candidates=np.arange(n_rounds))
        for e in range(self.unboosted.shape[0]):
            pool = pool.append(self.unboosted.row(e))
        return pool

    def base(self, n_rounds: int | None = None) -> Floats:
        """Return the base measure of the rows: the normalised weights, without the outliers."""
        if self.outlier_fraction == 0.0:
            return self.rows.base
        t = self.boosted.shape[0] if n_rounds is None else n_rounds
        cumulative = np.zeros(len(self.rows.y))
        for s in range(t):
            cumulative += self.boosted.row(s)
        return without_outliers(self.rows.base, cumulative, self.outlier_fraction)

    @property
    def whole(self) -> CandidateLosses:
        """The same losses without outliers left out."""
        return replace(self, outlier_fraction=0.0)

    @property
    def dropped(self) -> float:
        """Fraction of the weight left out as outliers; 0 if all rows have the same cumulative loss."""
        return 0.0 if np.array_equal(self.base(), self.rows.base) else self.outlier_fraction

    def constant_answer(self, member: int) -> int | None:
        """Return the class that a base model answers to all selection data, or None.

        The losses do not determine the answers if all selection data have one class.
        """
        t, y = self.boosted.shape[0], self.rows.y
        wrong = self.boosted.row(member) if member < t else self.unboosted.row(member - t)
        right = y[wrong == 0]
        if len(right) == 0 or np.ptp(y) == 0 or not np.array_equal(wrong, rates.wrong(right[0], y)):
            return None
        return int(right[0])

    def mean_losses(self, n_rounds: int | None = None) -> Floats:
        """Return the mean loss of each base model of the pool, with outliers included, shape (T + E,)."""
        return self.pool(n_rounds).means(self.rows.base).round(LOSS_DECIMALS)

    def by_mean_loss(self) -> Ints:
        """Return the base models by ascending mean loss; the earlier one first if equal."""
        return np.argsort(np.round(self.mean_losses(), TIE_DECIMALS), kind="stable")
