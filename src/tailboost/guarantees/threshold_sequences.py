"""A fixed sequence of thresholds for each group, where each limited rate depends on one threshold alone.

The selection data order the thresholds of a group: from the one whose certificate is likeliest towards the
one with the smallest expected objective. On the fresh rows each is tested for all limits of its group at the
whole level of the group, up to the first failure ([1]_). The order depends on the selection data alone, so
all passed thresholds of a group keep its limits, except with a probability of at most the level; the one with
the smallest objective is taken. The groups divide the level. So their rows may depend on each other, as
those of several labels of one row do.

Where one answer to all rows of a group keeps its limits by construction, this answer needs no test: a
precision says nothing of a group in which nobody gets the answer. Such a group has this answer if none
passes, and no part of the level if the selection data promise no certificate.

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

from tailboost.core.array_types import Floats, Ints, Model
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.rank_rules import losses_of, scores_of
from tailboost.rates import Limit, Strata
from tailboost.rates.ranks import each_most_reached
from tailboost.selection.threshold_family import BEYOND, ScoredRows, ThresholdFamily, cuts

# Least predicted power of the first threshold, relative to the greatest. The farthest from the least error is
# the first: in 432 cases of benchmarks/power.py it captures .02 to .09 more than the nearest one with .9.
LIKELY = 0.99
# Predicted power below which a group with an untested answer gets no part of the level.
# In 108 cases of benchmarks/power.py it captures .016 ± .021 more than 0, and .001 ± .030 more than .2.
HOPELESS = 0.05


@dataclass(frozen=True, eq=False)
class LimitedRate:
    """A limited rate of one subgroup as a share of errors, by answer."""

    rows: Ints  # numbers of the rows of the subgroup
    wrong: Floats  # shape (n, 2): 1 if the row counts against the limit
    among: Floats  # shape (n, 2): 1 if the row is in the denominator of the rate
    most: float  # the largest share of errors
    kept: tuple[bool, bool]  # by answer: whether no row with this answer counts against the limit

    def errors(self, scores: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return numbers of errors and of rows in the denominator at each threshold, shape (m,) each."""
        order = np.argsort(scores[self.rows], kind="stable")
        below = np.searchsorted(scores[self.rows][order], thresholds, side="right")

        def summed(table: Floats) -> Floats:
            first, second = np.vstack([np.zeros(2), table[order].cumsum(axis=0)]).T
            return np.asarray(first[below] + second[-1] - second[below])

        return summed(self.wrong), summed(self.among)


def limited_rates(limit: Limit, strata: Strata, stratum: Ints) -> list[LimitedRate]:
    """Return the limited rates of all subgroups; none if a row may count in part, or costs count."""
    rate = limit.rate
    if limit.compares or rate.needs_costs or strata.n_classes != 2 or strata.n_actions != 2:
        return []
    counted, among = rate.by_stratum(strata)
    if not {*np.unique(counted), *np.unique(among)} <= {0.0, 1.0}:
        return []
    wrong = counted if limit.from_above else among - counted
    names, inside = strata.subgroups(rate.by)
    bounds = limit.bounds(names) if limit.from_above else 1.0 - limit.bounds(names)
    found = []
    for unit, most in zip(inside, bounds.tolist(), strict=True):
        if not np.isnan(most):
            rows, (first, second) = np.flatnonzero(unit[stratum]), (wrong[unit] == 0.0).all(axis=0).tolist()
            found.append(LimitedRate(rows, wrong[stratum[rows]], among[stratum[rows]], most, (first, second)))
    return found


@dataclass(frozen=True, eq=False)
class ThresholdPath:
    """The thresholds of one group in the order of their tests, with predicted power."""

    place: int  # number of the group's threshold
    thresholds: Floats  # shape (m,)
    losses: Floats  # shape (m,): summed expected loss on the selection data
    power: float  # predicted for the first threshold
    # ±BEYOND for an answer with limits kept by construction; None if there is none
    constant: float | None

    @classmethod
    def of(
        cls,
        place: int,
        rows: ScoredRows,
        limited: Sequence[LimitedRate],
        asked: Sequence[LimitedRate],
        ratio: float,
        level: float,
    ) -> ThresholdPath:
        """Return the path of a group from the selection data.

        Parameters
        ----------
        place : int
            Number of the group's threshold.
        rows : ScoredRows
            The selection data with expected losses.
        limited : sequence of LimitedRate
            The limited rates of the group on the selection data.
        asked : sequence of LimitedRate
            The same on the fresh rows. Only their number and definitions are read.
        ratio : float
            Fresh rows by selection rows.
        level : float
            Of each test.
        """
        thresholds, _ = cuts(rows.scores[rows.part(place)])
        losses = rows.loss(place, thresholds)
        powers = np.full(len(thresholds), float(len(limited) == len(asked)))
        for each in limited:
            powers *= _power(*each.errors(rows.scores, thresholds), each.most, ratio, level)
        least, likely = int(losses.argmin()), np.flatnonzero(powers >= LIKELY * powers.max())
        first = int(likely[np.abs(likely - least).argmax()])
        order = np.arange(first, least + 1) if first <= least else np.arange(first, least - 1, -1)
        ends = ((losses[-1], BEYOND, 0), (losses[0], -BEYOND, 1))
        safe = [(loss, end) for loss, end, answer in ends if all(each.kept[answer] for each in asked)]
        constant = min(safe)[1] if safe else None
        return cls(place, thresholds[order], losses[order], float(powers[first]), constant)


def _power(errors: Floats, n: Floats, most: float, ratio: float, level: float) -> Floats:
    """Return the predicted probability that fresh rows certify each of several shares of errors."""
    fresh = (ratio * n).astype(np.intp)
    passes, rate = each_most_reached(fresh, most, level), (errors + 0.5) / (n + 1.0)
    spread = np.sqrt(np.maximum(fresh * rate * (1.0 - rate) * (1.0 + ratio), 1e-12))
    return np.where(passes < 0, 0.0, ndtr((passes + 0.5 - fresh * rate) / spread))


@dataclass(frozen=True, eq=False)
class ThresholdSequences:
    """A sequence of thresholds for each group, or one for all rows."""

    model: Model
    family: ThresholdFamily
    limited: list[LimitedRate]  # on the fresh rows
    rows: ScoredRows
    on_selection: list[LimitedRate]
    selection: ScoredRows
    fresh: FreshRows

    method = "fixed sequence"
    tested = "the likeliest thresholds"

    def made(self, classifier: Model) -> str:
        """Return how the certified classifier was made."""
        return "Each threshold was tested in a sequence fixed before these rows were used."

    @classmethod
    def of(cls, model: Model, limits: Sequence[Limit], fresh: FreshRows) -> ThresholdSequences | None:
        """Return the procedure; None if a limit compares groups, has no rows, or has several thresholds.

        The parameters are those of `RankRules.of`. The vote of a cluster depends on the answers, so
        clusters have no such sequences.
        """
        strata, stratum = fresh.answered.strata, fresh.answered.stratum
        losses = losses_of(model.objective_, strata)
        by_group = any(limit.rate.by not in (None, "class") for limit in limits)
        family = model.threshold_family(by_group=by_group)
        limited = [limited_rates(limit, strata, stratum) for limit in limits]
        if losses is None or family is None or fresh.clusters is not None or not all(limited):
            return None
        rows = ScoredRows(*scores_of(model, family, fresh), losses[stratum])
        together = [each for found in limited for each in found]
        # Without fresh rows nothing tells the threshold of a subgroup, or whether an answer keeps its limits.
        if any(len(np.unique(rows.place[each.rows])) != 1 for each in together):
            return None
        scores, data = model.scores_on_selection(family)
        by_stratum = losses_of(model.objective_, data.strata)
        assert by_stratum is not None
        expected = data.probabilities.T.astype(np.float64) @ by_stratum * (data.weights * len(data))[:, None]
        selection = ScoredRows(scores, data.strata.combination[data.stratum] * by_group, expected)
        known = [each for limit in limits for each in limited_rates(limit, data.strata, data.stratum)]
        return cls(model, family, together, rows, known, selection, fresh)

    def run(self, level: float) -> tuple[bool, Any, FreshRows]:
        """Return True, the certified classifier or None, and the fresh rows with the answers tested first.

        Parameters
        ----------
        level : float in (0, 1)
            Allowed probability that a limit is broken.
        """
        certified, first = self.thresholds(level)
        if certified is None:
            return True, None, self.fresh.by(self.model.at_thresholds(self.family, first))
        return True, self.model.at_thresholds(self.family, certified), self.fresh

    def thresholds(self, level: float) -> tuple[Floats | None, Floats]:
        """Return the certified thresholds and those tested first, shape (m,) each.

        The certified ones are None if no threshold passes, or if a group has neither a passing one nor an
        untested answer.
        """
        m = self.family.n_thresholds
        ratio = np.count_nonzero(self.rows.place < m) / len(self.selection.scores)
        asked, known = _by_place(self.limited, self.rows, m), _by_place(self.on_selection, self.selection, m)
        paths = [ThresholdPath.of(k, self.selection, known[k], asked[k], ratio, level / m) for k in range(m)]
        tested = [path for path in paths if path.constant is None or path.power >= HOPELESS]
        parts = max(1, sum(bool(asked[path.place]) for path in tested))
        certified = np.array([BEYOND if path.constant is None else path.constant for path in paths])
        first, complete, any_passed = certified.copy(), True, False
        for path in tested:
            first[path.place] = path.thresholds[0]
            n_passed = self._passed(path, asked[path.place], level / parts)
            if n_passed:
                losses = path.losses + self.rows.loss(path.place, path.thresholds)
                certified[path.place] = path.thresholds[int(losses[:n_passed].argmin())]
            complete &= n_passed > 0 or path.constant is not None
            any_passed |= n_passed > 0 and bool(asked[path.place])
        return certified if complete and any_passed else None, first

    def _passed(self, path: ThresholdPath, limited: Sequence[LimitedRate], level: float) -> int:
        """Return the number of thresholds before the first failure."""
        passed = np.ones(len(path.thresholds), dtype=bool)
        for each in limited:
            errors, n = each.errors(self.rows.scores, path.thresholds)
            passed &= errors <= each_most_reached(n.astype(np.intp), each.most, level)
        return len(passed) if passed.all() else int(passed.argmin())


def _by_place(limited: Sequence[LimitedRate], rows: ScoredRows, m: int) -> list[list[LimitedRate]]:
    """Return the limited rates by the threshold of their rows."""
    places = [np.unique(rows.place[each.rows]).tolist() for each in limited]
    return [[each for each, of in zip(limited, places, strict=True) if k in of] for k in range(m)]
