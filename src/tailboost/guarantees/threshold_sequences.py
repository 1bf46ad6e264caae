"""A fixed sequence of thresholds for each group, if each limited rate of a group depends on its threshold alone.

The selection data order the thresholds of a group: from the one whose certificate is likeliest towards the one
with the smallest expected objective. On the fresh rows each is tested for all limits of its group at the whole
level of the group, up to the first failure ([1]_). The tested thresholds depend on the selection data alone, so
that all passed ones hold together, except with a probability of at most the level. The groups divide the level:
if rows of different groups are independent, each of m has 1 − (1 − level)^(1/m).

A group whose limits a constant answer keeps by construction needs no test of this answer: a precision of 1 says
nothing of a group in which nobody gets 1. Such groups take it if their limits are not certified, and have no
part of the level if the selection data promise no certificate.

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.rank_rules import ScoredRows, losses_of
from tailboost.rates import Limit, Strata
from tailboost.rates.ranks import each_most_reached
from tailboost.selection.threshold_family import BEYOND, ThresholdFamily, cuts

# Least predicted power of the first threshold, relative to the greatest, and below which a group with a constant
# answer has no part of the level.
LEAST_POWER, HOPELESS = 0.9, 0.05


@dataclass(frozen=True, eq=False)
class Counted:
    """One limited rate of one subgroup: which rows count, by answer."""

    limit: Limit
    name: Any  # of the subgroup
    rows: Ints  # numbers of its rows
    wrong: Floats  # shape (n, 2): whether the row counts against the limit, by answer
    among: Floats  # shape (n, 2): whether the rate has the row in its denominator, by answer
    never: tuple[bool, bool]  # by answer: whether it is no error in any row, by construction

    @property
    def bound(self) -> float:
        """The largest share of errors: of the rate, or of its complement for a lower bound."""
        bound = float(self.limit.bounds([self.name])[0])
        return bound if self.limit.from_above else 1.0 - bound

    def errors(self, scores: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return numbers of errors, and of rows that they are among, at each threshold (m,)."""
        order = np.argsort(scores[self.rows], kind="stable")
        below = np.searchsorted(scores[self.rows][order], thresholds, side="right")

        def summed(table: Floats) -> Floats:
            first, second = np.vstack([np.zeros(2), table[order].cumsum(axis=0)]).T
            return np.asarray(first[below] + second[-1] - second[below])

        return summed(self.wrong), summed(self.among)


def counts_of(limit: Limit, strata: Strata, stratum: Ints) -> list[Counted]:
    """Return the limited rates of a limit by subgroup; none if a row may count in part, or costs count."""
    rate = limit.rate
    if limit.compares or rate.needs_costs or strata.n_classes != 2 or strata.n_actions != 2:
        return []
    counted, among = rate.by_stratum(strata)
    if not {*np.unique(counted), *np.unique(among)} <= {0.0, 1.0}:
        return []
    wrong = counted if limit.from_above else among - counted
    names, inside = strata.subgroups(rate.by)
    found = []
    for name, unit, bound in zip(names, inside, limit.bounds(names).tolist(), strict=True):
        rows, (first, second) = np.flatnonzero(unit[stratum]), (wrong[unit] == 0.0).all(axis=0).tolist()
        if not np.isnan(bound):
            of_rows = wrong[stratum[rows]], among[stratum[rows]]
            found.append(Counted(limit, name, rows, *of_rows, (first, second)))
    return found


@dataclass(frozen=True, eq=False)
class Path:
    """The thresholds of one group in the order of their tests, with what the selection data promise."""

    place: int  # number of the group's threshold
    thresholds: Floats  # shape (m,)
    losses: Floats  # shape (m,): summed expected loss on the selection data
    power: float  # predicted for the first threshold
    constant: (
        float | None
    )  # ±BEYOND for an answer that keeps the limits by construction; None if there is none

    @classmethod
    def of(
        cls,
        place: int,
        rows: ScoredRows,
        limited: Sequence[Counted],
        asked: Sequence[Counted],
        ratio: float,
        level: float,
    ) -> Path:
        """Return the path of a group from the selection data.

        Parameters
        ----------
        place : int
            Number of the group's threshold.
        rows : ScoredRows
            The selection data with expected losses.
        limited : sequence of Counted
            The limited rates of the group on the selection data.
        asked : sequence of Counted
            The same on the fresh rows. Only their definitions are read.
        ratio : float
            Fresh rows by selection rows.
        level : float
            Of each test.
        """
        thresholds, _ = cuts(rows.scores[rows.part(place)])
        losses = rows.loss(place, thresholds)
        powers = np.full(len(thresholds), float(len(limited) == len(asked)))
        for each in limited:
            powers *= _power(*each.errors(rows.scores, thresholds), each.bound, ratio, level)
        least, likely = int(losses.argmin()), np.flatnonzero(powers >= LEAST_POWER * powers.max())
        first = int(likely[np.abs(likely - least).argmin()])
        order = np.arange(first, least + 1) if first <= least else np.arange(first, least - 1, -1)
        ends = [(losses[k], end) for k, end, answer in ((0, -BEYOND, 1), (-1, BEYOND, 0))
                if all(each.never[answer] for each in asked)]  # fmt: skip
        constant = min(ends)[1] if ends else None
        return cls(place, thresholds[order], losses[order], float(powers[first]), constant)


def _power(errors: Floats, n: Floats, bound: float, ratio: float, level: float) -> Floats:
    """Return the predicted probability that fresh rows certify each of several shares of errors."""
    fresh = (ratio * n).astype(np.intp)
    passes, rate = each_most_reached(fresh, bound, level), (errors + 0.5) / (n + 1.0)
    spread = np.sqrt(np.maximum(fresh * rate * (1.0 - rate) * (1.0 + ratio), 1e-12))
    return np.where(passes < 0, 0.0, ndtr((passes + 0.5 - fresh * rate) / spread))


@dataclass(frozen=True, eq=False)
class ThresholdSequences:
    """A sequence of thresholds for each group, or one for all rows."""

    model: Any
    family: ThresholdFamily
    limited: list[Counted]  # on the fresh rows
    rows: ScoredRows
    on_selection: list[Counted]
    selection: ScoredRows
    fresh: FreshRows

    method = "fixed sequence"
    tested = "the likeliest thresholds"

    def made(self, classifier: Any) -> str:
        """Return how the certified classifier was made."""
        return (
            "The thresholds are the last ones of sequences fixed before these rows were used; a group without "
            "a certified one has the answer that keeps its limits by construction."
        )

    @classmethod
    def of(
        cls, model: Any, limits: Sequence[Limit], fresh: FreshRows, opened: Any
    ) -> ThresholdSequences | None:
        """Return the procedure; None if a limit compares groups or is about rows of several thresholds.

        The parameters are those of `RankRules.of`.
        """
        strata, stratum = fresh.answered.strata, fresh.answered.stratum
        limited = [counts_of(limit, strata, stratum) for limit in limits]
        losses = losses_of(model.objective_, strata)
        of_groups = any(limit.rate.by not in (None, "class") for limit in limits)
        family = model.threshold_family(by_group=of_groups)
        if losses is None or family is None or fresh.clusters is not None or not all(limited):
            return None
        scores, place = model.scores_of(family, opened)
        each = [counted for found in limited for counted in found]
        if any(len(np.unique(place[counted.rows])) > 1 for counted in each):
            return None
        on_selection, data = model.scores_on_selection(family)
        by_stratum = losses_of(model.objective_, data.strata)
        assert by_stratum is not None
        expected = data.probabilities.T.astype(np.float64) @ by_stratum * (data.weights * len(data))[:, None]
        selection = ScoredRows(on_selection, data.strata.combination[data.stratum] * of_groups, expected)
        known = [found for limit in limits for found in counts_of(limit, data.strata, data.stratum)]
        rows = ScoredRows(scores, place, losses[stratum])
        return cls(model, family, each, rows, known, selection, fresh)

    def run(self, level: float) -> tuple[bool, Any, FreshRows]:
        """Return True, the certified classifier or None, and the fresh rows with the answers tested first."""
        m, ratio = self.family.n_thresholds, len(self.rows.scores) / len(self.selection.scores)
        of_place = self._by_place(self.limited, self.rows)
        paths = [
            Path.of(place, self.selection, limited, of_place[place], ratio, level / m)
            for place, limited in enumerate(self._by_place(self.on_selection, self.selection))
        ]
        tested = [path for path in paths if path.constant is None or path.power >= HOPELESS]
        parts = max(1, len(tested))
        each = 1.0 - (1.0 - level) ** (1.0 / parts)
        thresholds = np.array([BEYOND if path.constant is None else path.constant for path in paths])
        first, failed = thresholds.copy(), False
        for path in tested:
            first[path.place] = path.thresholds[0]
            passed = np.ones(len(path.thresholds), dtype=bool)
            for counted in of_place[path.place]:
                errors, n = counted.errors(self.rows.scores, path.thresholds)
                passed &= errors <= each_most_reached(n.astype(np.intp), counted.bound, each)
            n_passed = len(passed) if passed.all() else int(passed.argmin())
            if n_passed:
                losses = path.losses + self.rows.loss(path.place, path.thresholds)
                thresholds[path.place] = path.thresholds[int(losses[:n_passed].argmin())]
            failed |= not n_passed and path.constant is None
        if failed or (thresholds <= -BEYOND).all() or (thresholds >= BEYOND).all():
            return True, None, self.fresh.by(self.model.at_thresholds(self.family, first))
        return True, self.model.at_thresholds(self.family, thresholds), self.fresh

    def _by_place(self, limited: Sequence[Counted], rows: ScoredRows) -> list[list[Counted]]:
        """Return the limited rates by number of the threshold that their rows have."""
        found: list[list[Counted]] = [[] for _ in range(self.family.n_thresholds)]
        for counted in limited:
            for place in np.unique(rows.place[counted.rows]).tolist():
                found[place].append(counted)
        return found
