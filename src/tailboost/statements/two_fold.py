"""What to expect on rows that a choice was not made on: each half judged by the choice on the other half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, cast

import numpy as np

from tailboost._typing import Floats, Ints, Mask
from tailboost._units import memberships
from tailboost.combiners.mixture import Mixture, Wrong
from tailboost.combiners.objective import Objective, WorstUnit
from tailboost.confidence import clopper_pearson_interval
from tailboost.data import Rows

# Standard errors of a two-sided interval of 95 %.
TWO_SIDED = 1.96


@dataclass(frozen=True)
class TwoFoldEstimate:
    """Losses by two-fold cross-validation of the mixture weights; members stay fixed.

    The members stay as they are: what was fitted to these rows in making them is not seen here.
    """

    rows: Rows  # the judged rows
    half: Mask  # shape (n,): which of the halves each is in
    drawn: Floats  # shape (n,): expected loss of the rule that draws a member
    # Shape (n,): whether `predict` is wrong (of rows that stand for several, how often); None where that is
    # not known.
    wrong: Floats | None

    @classmethod
    def of(cls, combiner: Mixture, wrong: Wrong | None = None) -> Self | None:
        """Choose on each half; None where nothing is chosen, or members were fitted on these rows.

        ``wrong(ensemble, judged)`` says in which of the judged rows, given by a mask, `predict` of an
        ensemble is wrong; by default by the answers that are kept with the pool.
        """
        ledger = combiner.pool.ledger
        half = ledger.rows.halves()
        if half is None or ledger.rows.fitted:
            return None
        wrong = wrong or combiner.wrong
        drawn, found = np.empty(len(half)), np.empty(len(half))
        for judged in (~half, half):
            part = combiner.part(~judged)
            if part is None:
                return None
            ensemble = part.stage(part.pool.n_rounds)
            drawn[judged] = ledger.part(judged).pool().combine(ensemble.weights)
            if wrong is not None:
                found[judged] = wrong(ensemble, judged)
        return cls(ledger.rows, half, drawn, None if wrong is None else found)

    def of_units(self, index: Ints, n_units: int) -> dict[str, Floats]:
        """Return the error of each unit with its interval, shape (m, 3), by rule; NaN without rows.

        Each row is in the unit or units that ``index`` names. An interval is about the error of the final
        members. It reaches from the lowest to the highest end of the 95 % Clopper–Pearson intervals about
        three errors: on each half, under the choice made on the other, and on both. So it is wider where the
        choice changes with the rows. Where losses are out of fold the members are siblings of those that were
        measured: each interval is that of ``1/(1/n + ρ(1 + 1/F))`` rows, where n is Kish's effective number,
        F that of the folds and ρ the intraclass correlation of the losses of a unit within a fold, one for
        all units (see `fold_correlation`).
        """
        rows, half, found = self.rows, self.half, dict[str, Floats]()
        for rule, losses in (("randomised", self.drawn), ("predict", self.wrong)):
            if losses is None:
                continue
            both = rows.means(index, n_units, losses)
            each = [rows.part(h).means(index[h], n_units, losses[h]) for h in (half, ~half)]
            # A half without rows of a unit says nothing of its own.
            errors = [np.where(np.isnan(e), np.nan_to_num(both), e).clip(0.0, 1.0) for e in (both, *each)]
            low, high = clopper_pearson_interval(errors, effective_sizes(rows, index, n_units, losses))
            ends = np.column_stack([both, low.min(axis=0), high.max(axis=0)])
            found[rule] = np.where(np.isnan(both)[:, None], np.nan, ends)
        return found


def highest(objective: Objective, rows: Rows, drawn: Floats, half: Mask | None = None) -> float:
    """Return the upper end of a 95 % interval about an objective, by losses that it was not chosen on.

    Of units it is the highest end of the intervals of `TwoFoldEstimate.of_units`: that it is below a number
    is shown only where each of them is. Of a CVaR it is that of ``q + E max(ℓ − q, 0)/α``, which is no less
    than the CVaR for any q, by the normal approximation with one more row of loss 1. The largest loss of a
    row that was not seen may be 1. ``half`` marks the halves that were judged by the choice on each other,
    where there was a choice.
    """
    if objective.unit is not None:
        objective = cast("WorstUnit", objective)
        index = objective.index(rows)
        m = int(index.max()) + 1
        whole = np.ones(len(drawn), dtype=np.bool_)
        half = whole if half is None else half
        found = TwoFoldEstimate(rows, half, drawn, None).of_units(index, m)["randomised"]
        return objective.largest_beyond(found[:, 2], ~np.isnan(found[:, 0]))
    if objective.alpha is None:
        return 1.0
    one = np.zeros(len(drawn), dtype=np.intp)
    (n,) = effective_sizes(rows, one, 1, drawn)
    order = np.argsort(drawn)[::-1]
    tail = min(int(np.searchsorted(np.cumsum(rows.base[order]), objective.alpha)), len(order) - 1)
    q = float(drawn[order[tail]])
    above = np.maximum(drawn - q, 0.0)
    mean = (n * float(rows.base @ above) + 1.0 - q) / (n + 1.0)
    variance = (n * float(rows.base @ (above - mean) ** 2) + (1.0 - q - mean) ** 2) / (n + 1.0)
    return min(1.0, q + (mean + TWO_SIDED * np.sqrt(variance / n)) / objective.alpha)


def effective_sizes(rows: Rows, index: Ints, n_units: int, losses: Floats | Mask) -> Floats:
    """Return how many independent rows the mean loss of each unit is worth, shape (m,)."""
    sizes = rows.sizes(index, n_units)
    if rows.fold is None:
        return sizes
    rho = fold_correlation(rows, index, n_units, losses)
    n: Floats = sizes / (1.0 + sizes * rho * (1.0 + 1.0 / (1.0 + rows.fold.max())))
    return n


def fold_correlation(rows: Rows, index: Ints, n_units: int, losses: Floats | Mask) -> float:
    """Return ρ: how alike the losses of a unit's rows are that one model was judged on, over all units.

    Models of different folds err differently on a unit, beyond chance, where little decides which side of a
    threshold it falls: the variance of an error e measured on the n rows of a fold is ``e(1 − e)(1/n + ρ(1 −
    1/n))``. ρ in [0, 1] is estimated by moments from the sum of Pearson's statistics of the units; 0 where
    they vary no more than by chance. Losses are in [0, 1], units of shape (n,) or (n, c), −1 for none.
    """
    assert rows.fold is not None
    row, unit = memberships(index)
    n_folds = int(rows.fold.max()) + 1
    cell, n_cells = unit * n_folds + rows.fold[row], n_units * n_folds
    weight = rows.weight[row]
    mass = np.bincount(cell, weights=weight, minlength=n_cells).reshape(n_units, n_folds)
    sums = np.bincount(cell, weights=weight * losses[row], minlength=n_cells).reshape(n_units, n_folds)
    total = mass.sum(axis=1, keepdims=True)
    n = mass / np.where(total > 0, total, 1.0) * rows.sizes(index, n_units)[:, None]  # as if of weight 1
    e = sums.sum(axis=1, keepdims=True) / np.where(total > 0, total, 1.0)
    known = (n.sum(axis=1) > 1) & (e[:, 0] > 0) & (e[:, 0] < 1)
    n, e, in_fold = n[known], e[known], (sums / np.where(mass > 0, mass, 1.0))[known]
    all_rows, freedom = n.sum(axis=1), (n > 0).sum(axis=1) - 1.0
    pearson = (n * (in_fold - e) ** 2 / (e * (1.0 - e))).sum(axis=1) * (all_rows - 1.0) / all_rows
    slope = float((all_rows - (n**2).sum(axis=1) / all_rows - freedom).sum())
    return float(np.clip((pearson - freedom).sum() / slope, 0.0, 1.0)) if slope > 0 else 0.0
