"""Procedures of calibrate for thresholds: ranks of fresh scores, and fixed sequences of thresholds.

*Rank rules* have thresholds at ranks of fresh scores: their true rates are certified without a test. Proofs
and sources are in `tailboost.rates.bounds`. There are two procedures.

* *Limits on one side* (misses, false alarms, selection rates; of all rows, by class, group or cell). Each
  limited share has a largest number of rows that may be beyond the threshold. All thresholds within these
  numbers keep the limits together, and the one with the smallest objective on the same rows is taken. No
  row is set aside.
* *A gap or ratio* of such shares between groups with a threshold each. The selection data choose the ranks:
  of the vectors of ranks with a certificate, the one with the smallest expected objective. The ranks are
  then fixed, and the fresh rows only say where they are. Labels of fresh rows are not read for selection
  rates.

*Sequences of thresholds*, one for each group, serve limits where each rate depends on one threshold alone.
The selection data order the thresholds of a group: from the one whose certificate is likeliest towards the
one with the smallest expected objective. On the fresh rows each is tested for all limits of its group at the
whole level of the group, up to the first failure ([1]_). The order depends on the selection data alone, so
all passed thresholds of a group keep its limits, except with a probability of at most the level; the one with
the smallest objective is taken. The groups divide the level. So their rows may depend on each other, as
those of several labels of one row do.

If one answer to all rows of a group keeps its limits by construction, this answer needs no test: a
precision says nothing of a group in which nobody gets the answer. Such a group has this answer if none
passes, and no part of the level if the selection data promise no certificate.

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from tailboost.core.array_types import Floats, Ints, Model
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.rates import GAP, Limit, Objective, Rate, Strata
from tailboost.rates.bounds import each_most_reached, most_reached, probability_within
from tailboost.rows.fingerprints import random_numbers
from tailboost.selection.data import (
    BEYOND,
    RESOLUTION,
    ScoredRows,
    SelectionData,
    ThresholdFamily,
    cuts,
)

# Tried fractions of the rows, as the smallest rate of a gap or ratio, and parts of the bound by
# which the rates of the groups may differ on the selection data.
RATES = 125
ROOM = (0.0, 0.2, 0.4, 0.6, 0.8)
# Fraction of the ranks with a threshold between different scores nearby; at the others there is no
# certificate.
REACHED = 0.995
# Steps of balancing the subgroups of a rule with one threshold, and the part of the distance of each. With
# misses by group ≤ .25 and a model of the features, certified rules err .016 less on new rows than without
# (7 tables, 2 splits: less in 9, more in 4 of 14).
STEPS = 8
DAMPING = 0.7
# Standard deviations below which ranks are hopeless; those of two groups with 95 % need about 1.6. In ten
# cases of benchmarks/power.py the same rules take half the seconds.
HOPELESS_ROOM = 1.2
# Least predicted power of the first threshold, relative to the greatest. The farthest from the least error is
# the first: in 432 cases of benchmarks/power.py it captures .02 to .09 more than the nearest one with .9.
LIKELY = 0.99
# Predicted power below which a group with an untested answer gets no part of the level.
# In 108 cases of benchmarks/power.py it captures .016 ± .021 more than 0, and .001 ± .030 more than .2.
HOPELESS_POWER = 0.05
SEED = 20261123  # of the numbers of the selection data
# Probability that continuous scores leave no threshold at the ranks of a group, because they are too close.
TOO_CLOSE = 1e-4
DEFERRED = "rows may be deferred"


class DoesNotApply(Exception):
    """Why a procedure does not apply. It has read nothing of the fresh rows but their numbers."""


@dataclass(frozen=True, eq=False)
class Tested:
    """What a procedure found on fresh rows.

    Attributes
    ----------
    passed : classifier or None
        The certified classifier.
    answered : FreshRows
        The fresh rows, with the answers that a refusal names.
    why : str
        Why there is no certified classifier, if these answers miss no limit.
    equal_scores : bool
        Whether equal scores leave no threshold at the ranks. No limit was tested then.
    """

    passed: Any
    answered: FreshRows
    why: str = ""
    equal_scores: bool = False


@dataclass(frozen=True, eq=False)
class Share:
    """The share of some rows with one of two answers, and the largest allowed one."""

    limit: Limit
    name: Any  # of the subgroup
    rows: Ints  # numbers of the rows
    answer: int  # the counted answer: 0 or 1
    most: float  # the largest share allowed; NaN in a comparison

    def places(self, rows: ScoredRows) -> Ints:
        """Return the numbers of the rows' thresholds."""
        return np.unique(rows.place[self.rows])


def tables_by_answer(rate: Rate, strata: Strata) -> list[tuple[Any, Floats, Floats]]:
    """Return the name of each subgroup, and its numerator and denominator by stratum and answer, (S, 2) each.

    They are `Rate.samples` of a row in each stratum with either answer. So thresholds are certified for what
    certificates count. The list is empty if there are not two answers, or if costs count.
    """
    if rate.needs_costs or strata.n_classes != 2 or strata.n_actions != 2:
        return []
    each = np.arange(len(strata.y))
    by_answer = [rate.samples(strata, each, np.full(len(each), answer)) for answer in (0, 1)]
    tables = []
    for samples in zip(*by_answer, strict=True):
        counted, among = np.zeros((2, len(each), 2))
        for answer, sample in enumerate(samples):
            counted[sample.rows, answer] = sample.values
            among[sample.rows, answer] = 1.0 if sample.among is None else sample.among
        tables.append((samples[0].name, counted, among))
    return tables


def counted_answer(rate: Rate, strata: Strata) -> int | None:
    """Return the answer of which the rate is a share, 0 or 1; None if it is no such share."""
    found = set()
    for _, counted, among in tables_by_answer(rate, strata):
        if not ((among == 0.0) | (among == 1.0)).all() or (among[:, 0] != among[:, 1]).any():
            return None
        found |= set(map(tuple, counted[among[:, 0] == 1.0].tolist()))
    if found == {(1.0, 0.0)}:
        return 0
    if found == {(0.0, 1.0)}:
        return 1
    return None


def shares_of(
    limit: Limit, answer: int | None, rows_of: Sequence[tuple[Any, Ints]]
) -> list[Share] | None:
    """Return the limited shares by subgroup; None if the rate is no share of one answer.

    ``answer`` is from `counted_answer`. ``rows_of`` has the name and the counted rows of each subgroup.
    """
    if answer is None:
        return None
    if limit.compares:
        return [Share(limit, name, rows, answer, np.nan) for name, rows in rows_of]
    bounds = limit.bounds([name for name, _ in rows_of])
    which, most = (answer, bounds) if limit.from_above else (1 - answer, 1.0 - bounds)
    pairs = zip(rows_of, most.tolist(), strict=True)
    return [
        Share(limit, name, rows, which, bound)
        for (name, rows), bound in pairs
        if not np.isnan(bound)
    ]


def shares_on(limit: Limit, data: SelectionData) -> list[Share]:
    """Return the shares of a limit with their rows among the selection data."""
    samples = limit.rate.samples(data.strata, data.stratum, np.zeros(len(data), dtype=np.intp))
    answer = counted_answer(limit.rate, data.strata)
    return shares_of(limit, answer, [(sample.name, sample.rows) for sample in samples]) or []


def losses_of(objective: Objective, strata: Strata) -> Floats | None:
    """Return the loss of both answers by stratum, shape (S, 2); None if the objective is no sum of losses.

    Rows without labels have no loss if the objective needs labels.
    """
    rate = objective.rate
    if objective.worst or rate.is_ratio or rate.needs_costs or rate.by is not None:
        return None
    _, counted, _ = rate.by_subgroup(strata)
    losses: Floats = counted[0]
    return losses


def scores_of(
    model: Model, family: ThresholdFamily, fresh: FreshRows, *, between_selected: bool = False
) -> tuple[Floats, Ints]:
    """Return the score of each fresh row, and the number of its threshold, shape (n,) each.

    The keyword tells whether thresholds are between scores of the selection data.
    """
    found = [
        model.scores_of(family, part, between_selected=between_selected)
        for part in fresh.opened
    ]
    scores, places = zip(*found, strict=True)
    return np.concatenate(scores), np.concatenate(places)


def scored_selection(
    model: Model, family: ThresholdFamily, *, expected: bool
) -> tuple[ScoredRows, SelectionData]:
    """Return the selection data with their scores and weighted losses: expected ones, or by the labels."""
    scores, data = model.scores_on_selection(family)
    by_stratum = losses_of(model.objective_, data.strata)
    assert by_stratum is not None
    if expected:
        losses = data.probabilities.T.astype(np.float64) @ by_stratum
    else:
        losses = by_stratum[data.stratum]
    place = data.strata.combination[data.stratum] * family.by_group
    return ScoredRows(scores, place, losses * (data.weights * len(data))[:, None]), data


# -- limits on one side ------------------------------------------------------------------------------------


def ranks_of(
    shares: Sequence[Share], sizes: Sequence[int], n_thresholds: int, level: float
) -> list[int]:
    """Return how many rows of each share may be beyond its threshold; −1 if none of them may.

    For one threshold, let the shares of one answer be kept up to the values t₁*, …, t_J*. The threshold
    breaks a limit only if it is beyond the smallest of them, that of share j. It is within the rank of
    share j, which is beyond t_j* with a probability of at most the level. So the shares of an answer need
    no correction. Both answers divide the level, and so do several thresholds.

    Parameters
    ----------
    shares : sequence of Share
        All limited shares.
    sizes : sequence of int
        Their numbers of fresh rows.
    n_thresholds : int
        Number of thresholds m.
    level : float
        Allowed probability that a limit is broken.
    """
    each = level_of_each(shares, n_thresholds, level)
    return [most_reached(n, share.most, each) for share, n in zip(shares, sizes, strict=True)]


def level_of_each(shares: Sequence[Share], n_thresholds: int, level: float) -> float:
    """Return the level of each rank, see `ranks_of`."""
    return level / (n_thresholds * max(1, len({share.answer for share in shares})))


def windows(
    shares: Sequence[Share], rows: ScoredRows, n_thresholds: int, ranks: Sequence[int]
) -> tuple[Floats, Floats]:
    """Return the values between which each threshold keeps all limits, shape (m,) each."""
    lowest = np.full(n_thresholds, -np.inf)
    highest = np.full(n_thresholds, np.inf)
    for share, k in zip(shares, ranks, strict=True):
        scores = np.sort(rows.scores[share.rows])
        places = share.places(rows)
        if k >= len(scores):
            continue
        if share.answer == 0:
            highest[places] = np.minimum(highest[places], scores[k] if k >= 0 else -np.inf)
        else:
            lowest[places] = np.maximum(
                lowest[places], scores[len(scores) - 1 - k] if k >= 0 else np.inf
            )
    return lowest, highest


def one_sided(
    shares: Sequence[Share],
    ranks: Sequence[int],
    rows: ScoredRows,
    n_thresholds: int,
    others: ScoredRows,
) -> Floats | None:
    """Return the thresholds of least loss within all ranks, shape (m,); None if there are none.

    Parameters
    ----------
    shares, ranks : sequence
        The limited shares, and how many of their rows may be beyond the threshold.
    rows : ScoredRows
        The fresh rows.
    n_thresholds : int
        m.
    others : ScoredRows
        Further rows for the loss alone, such as the selection data.
    """
    lowest, highest = windows(shares, rows, n_thresholds, ranks)
    thresholds = np.empty(n_thresholds)
    for place in range(n_thresholds):
        possible, _ = cuts(rows.scores[rows.part(place)])
        keeps = (possible > lowest[place]) & (possible < highest[place])
        # The constant answers at both ends keep a limit on the other answer by construction, without a test.
        keeps[0], keeps[-1] = lowest[place] == -np.inf, highest[place] == np.inf
        if not keeps.any():
            return None
        loss = rows.loss(place, possible) + others.loss(place, possible)
        thresholds[place] = possible[keeps][int(loss[keeps].argmin())]
    return thresholds


def balanced(
    family: ThresholdFamily,
    data: SelectionData,
    shares: Sequence[Share],
    parts: Sequence[float],
    losses: Floats,
) -> ThresholdFamily:
    """Return the family of one threshold whose limits are reached at about the same threshold.

    Subgroups with few fresh rows need a wider margin. Each step multiplies the gains of a limited subgroup
    such that its predicted threshold becomes the common one; the family with the smallest predicted loss is
    returned. Only the selection data are read.

    Parameters
    ----------
    family : ThresholdFamily
        A family of one threshold.
    data : SelectionData
        The selection data.
    shares : sequence of Share
        The limited shares, with their rows among the selection data.
    parts : sequence of float
        The predicted fraction of the rows of each share beyond the threshold.
    losses : ndarray of shape (n, 2)
        Loss of both answers to each row.
    """
    best = family
    least = np.inf
    ranks = [int(part * len(share.rows)) for share, part in zip(shares, parts, strict=True)]
    for _ in range(STEPS):
        rows = ScoredRows(
            family.scores(data.probabilities), np.zeros(len(data), dtype=np.intp), losses
        )
        (low,), (high,) = windows(shares, rows, 1, ranks)
        possible, _ = cuts(rows.scores)
        keeps = (possible > low) & (possible < high)
        if keeps.any() and (loss := float(rows.loss(0, possible[keeps]).min())) < least:
            best = family
            least = loss
        gains = family.gains.copy()
        for share, k in zip(shares, ranks, strict=True):
            (lowest,), (highest,) = windows([share], rows, 1, [k])
            if share.answer == 0:
                apart = high - highest
            else:
                apart = lowest - low
            if np.isfinite(apart):
                gains[np.unique(data.stratum[share.rows])] *= np.exp(DAMPING * apart)
        family = replace(family, gains=gains)
    return best


# -- a gap or ratio ----------------------------------------------------------------------------------------


def ranks_of_comparison(
    limit: Limit,
    sizes: Sequence[int],
    selection: ScoredRows,
    shares: Sequence[Share],
    level: float,
    *,
    ordered: bool = False,
) -> Ints | None:
    """Return the least and the largest number of rows of each share with the counted answer, shape (m, 2).

    None if no numbers certify the limit. The numbers depend on the selection data alone.

    Parameters
    ----------
    limit : Limit
        A gap or ratio.
    sizes : sequence of int
        Numbers of fresh rows of its shares.
    selection : ScoredRows
        The selection data with expected losses.
    shares : sequence of Share
        The shares with their rows among the selection data.
    level : float
        Allowed probability of breaking the limit.
    ordered : bool, default=False
        Whether draws order the rows with equal scores, so that all ranks have a threshold.
    """
    by_share = [_losses_by_rate(selection, share) for share in shares]
    options = []
    for rate in np.linspace(0.5 / RATES, 1.0 - 0.5 / RATES, RATES):
        if limit.form == GAP:
            widest = limit.bound
        else:
            widest = rate * (1.0 / max(limit.bound, 1e-9) - 1.0)
        for room in ROOM:
            window = rate, min(1.0, rate + room * widest)
            each = [_best_rate(rates, losses, *window) for rates, losses in by_share]
            ranks = [round(q * (n + 1)) for (q, _), n in zip(each, sizes, strict=True)]
            options.append((sum(loss for _, loss in each), tuple(map(min, ranks, sizes))))
    # One answer to all rows keeps a comparison by construction, so a rule that is no better says nothing.
    constant = min(sum(losses[end] for _, losses in by_share) for end in (0, -1))
    around = np.zeros(len(shares), dtype=np.intp)
    if not ordered:
        around += [
            _distance(selection, share, n) for share, n in zip(shares, sizes, strict=True)
        ]
    factor, gap = limit.pair
    for reached in dict.fromkeys(ranks for loss, ranks in sorted(options) if loss < constant):
        least = np.maximum(reached - around, 0)
        most = np.minimum(reached + around, sizes)
        if _hopeless(limit, least, most, np.array(sizes)):
            continue
        if (
            probability_within(least.tolist(), most.tolist(), sizes, factor=factor, gap=gap)
            >= 1.0 - level
        ):
            return np.stack([least, most], axis=1)
    return None


def _hopeless(limit: Limit, least: Ints, most: Ints, sizes: Ints) -> bool:
    """Whether a normal approximation rules out that the rates of two groups are close.

    This spares exact probabilities. No certificate depends on it.
    """
    low = (least + 0.5) / (sizes + 1.0)
    high = (most + 0.5) / (sizes + 1.0)
    room = limit.rooms(high, low)
    deviations = limit.deviations(high * (1.0 - high) / (sizes + 2.0))
    others = ~np.eye(len(sizes), dtype=bool)
    return bool((room < HOPELESS_ROOM * deviations)[others].any())


def _distance(rows: ScoredRows, share: Share, n: int) -> int:
    """Return the distance to the next threshold between different scores, in ranks of n fresh rows.

    On the selection data `REACHED` of all ranks have a threshold within this distance. Among many more fresh
    rows also continuous scores may be closer than `RESOLUTION`.
    """
    scores = np.sort(rows.scores[share.rows])
    m = len(scores)
    _, above = cuts(scores)
    ranks = np.arange(m + 1)
    ends = above[::-1]
    after = np.searchsorted(ends, ranks)
    distances = np.minimum(
        np.abs(ends[after] - ranks), np.abs(ranks - ends[np.maximum(after - 1, 0)])
    )
    of_ties = int(np.ceil(np.quantile(distances, REACHED) * max(1.0, n / m)))
    # A number of rows with different scores is spread over a width.
    several = max(1, int(np.sqrt(m)))
    widths = scores[several:] - scores[:-several]
    widths = widths[widths > RESOLUTION]
    if not len(widths):
        return of_ties
    # Expected number of fresh rows within the resolution, and probability that the next row is so close.
    close = np.quantile(n / m * several * RESOLUTION / widths, REACHED)
    each = -np.expm1(-close)
    if each >= 1.0:
        return n
    return min(
        n, of_ties + max(0, int(np.ceil((np.log(TOO_CLOSE) / np.log(each) - 1.0) / 2.0)))
    )


def _losses_by_rate(rows: ScoredRows, share: Share) -> tuple[Floats, Floats]:
    """Return possible rates of a share, ascending, and the summed loss of its threshold's rows at each."""
    (place,) = share.places(rows)
    thresholds, _ = cuts(rows.scores[rows.part(place)])
    scores = np.sort(rows.scores[share.rows])
    below = np.searchsorted(scores, thresholds, side="right") / len(scores)
    if share.answer == 1:
        rates = 1.0 - below
    else:
        rates = below
    order = np.argsort(rates, kind="stable")
    return rates[order], rows.loss(place, thresholds)[order]


def _best_rate(rates: Floats, losses: Floats, low: float, high: float) -> tuple[float, float]:
    """Return the rate in a window with the least loss, and this loss; losses are interpolated."""
    inside = (rates > low) & (rates < high)
    places = np.r_[low, rates[inside], high]
    values = np.r_[
        np.interp([low], rates, losses), losses[inside], np.interp([high], rates, losses)
    ]
    best = int(values.argmin())
    return float(places[best]), float(values[best])


def at_ranks(
    shares: Sequence[Share], reached: Ints, rows: ScoredRows, n_thresholds: int
) -> Floats | None:
    """Return thresholds at which the stated numbers of rows get the counted answer, shape (m,).

    None if equal scores leave no such threshold: the limit then has no certificate.
    """
    thresholds = np.empty(n_thresholds)
    for share, (least, most) in zip(shares, reached.tolist(), strict=True):
        (place,) = share.places(rows)
        possible, above = cuts(rows.scores[share.rows])
        if share.answer == 1:
            counted = above
        else:
            counted = len(share.rows) - above
        apart = np.abs(counted - (least + most) / 2)
        if apart.min() > (most - least) / 2:
            return None
        thresholds[place] = possible[int(apart.argmin())]
    return thresholds


# -- rank rules -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RankRules:
    """The rules of one classifier with different thresholds, with the fresh rows and the limits on shares."""

    model: Model
    family: ThresholdFamily
    shares: list[Share]
    rows: ScoredRows
    selection: ScoredRows
    data: SelectionData
    fresh: FreshRows

    method = title = "ranks"
    tested = "the given rule"

    def made(self, classifier: Model) -> str:
        """Return how the certified classifier was made."""
        return "The thresholds of the rule are at ranks of the scores of these rows, which need no test."

    @classmethod
    def of(cls, model: Model, limits: Sequence[Limit], fresh: FreshRows) -> RankRules:
        """Return the procedure.

        Parameters
        ----------
        model : classifier
            With ``threshold_family``, ``scores_of``, ``scores_on_selection`` and ``at_thresholds``.
        limits : sequence of Limit
            All limits.
        fresh : FreshRows
            The fresh rows, opened by the model. Their answers are not read.

        Raises
        ------
        DoesNotApply
            If a limit is not about shares of one answer, several limits compare groups, or compared groups
            are not independent.
        """
        strata = fresh.answered.strata
        stratum = fresh.answered.stratum
        losses = losses_of(model.objective_, strata)
        shares = list[Share]()
        compares = any(limit.compares for limit in limits)
        if strata.defers:
            raise DoesNotApply(DEFERRED)
        if losses is None:
            raise DoesNotApply(
                f"the objective {model.objective_} is no sum of losses of two answers"
            )
        if compares and len(limits) > 1:
            raise DoesNotApply("a gap or ratio is one of several limits")
        for limit in limits:
            samples = fresh.samples(limit.rate)
            answer = counted_answer(limit.rate, strata)
            found = shares_of(limit, answer, [(sample.name, sample.rows) for sample in samples])
            if found is None:
                raise DoesNotApply(
                    f"{limit.rate!r} is no share of rows with one of two answers"
                )
            if compares and not fresh.are_apart(samples):
                if fresh.clusters is None:
                    of = "rows"
                else:
                    of = "clusters"
                raise DoesNotApply(f"some {of} are in several groups that {limit!r} compares")
            shares += found
        if not shares:
            raise DoesNotApply("no group has a limit")
        for by_group in (True, False):
            family = model.threshold_family(by_group=by_group)
            if family is None:
                continue
            scores, place = scores_of(model, family, fresh)
            rows = ScoredRows(scores, place, losses[stratum])
            places = [share.places(rows) for share in shares]
            one_each = all(len(place) == 1 for place in places)
            if compares and len({int(place[0]) for place in places if len(place)}) != len(
                shares
            ):
                continue
            if one_each if by_group else not compares:
                # Expected losses have less noise than labels.
                selection, data = scored_selection(model, family, expected=compares)
                return cls(model, family, shares, rows, selection, data, fresh)
        raise DoesNotApply(
            "the rule has no threshold for each compared group"
            if compares
            else "the rule is no threshold on one score"
        )

    @property
    def sizes(self) -> list[int]:
        """Number of fresh rows of each share."""
        return [len(share.rows) for share in self.shares]

    def run(self, level: float) -> Tested:
        """Return the classifier, if these rows certify one.

        Parameters
        ----------
        level : float in (0, 1)
            Allowed probability that a limit is broken.

        Raises
        ------
        DoesNotApply
            If the selection data promise no ranks for these numbers of rows.
        """
        if self.shares[0].limit.compares:
            return self._compared(level)
        ranks = ranks_of(self.shares, self.sizes, self.family.n_thresholds, level)
        family = self.family
        rows = self.rows
        selection = self.selection
        if not family.by_group:
            family = self._balanced(ranks)
            rows = replace(rows, scores=scores_of(self.model, family, self.fresh)[0])
            selection = replace(selection, scores=family.scores(self.data.probabilities))
        breaks = self._breaks(rows, selection)
        if breaks is not None:
            rows = breaks.rows
            selection = breaks.selection
        thresholds = one_sided(self.shares, ranks, rows, family.n_thresholds, selection)
        if thresholds is None:
            return Tested(None, self.fresh, "no threshold keeps all limits on these rows")
        return self._at(family, thresholds, breaks)

    def _compared(self, level: float) -> Tested:
        """Run for a gap or ratio."""
        limit = self.shares[0].limit
        m = self.family.n_thresholds
        named = {share.name: share for share in shares_on(limit, self.data) if len(share.rows)}
        if any(share.name not in named for share in self.shares) or m != len(self.shares):
            raise DoesNotApply("a compared group has no rows, or none in the selection data")
        chosen = [named[share.name] for share in self.shares]
        rows = self.rows
        selection = self.selection
        breaks = self._breaks(rows, selection)
        if breaks is not None:
            rows = breaks.rows
            selection = breaks.selection
        ordered = breaks is not None
        reached = ranks_of_comparison(
            limit, self.sizes, selection, chosen, level, ordered=ordered
        )
        if reached is None:
            raise DoesNotApply(
                f"no ranks of so many rows certify {limit!r} for a rule better than one answer"
            )
        thresholds = at_ranks(self.shares, reached, rows, m)
        if thresholds is None:
            why = f"equal scores leave no threshold at the ranks that certify {limit!r}"
            return Tested(None, self.fresh, why, equal_scores=True)
        return self._at(self.family, thresholds, breaks)

    def _breaks(self, rows: ScoredRows, selection: ScoredRows) -> TieBreaks | None:
        """Return the order of rows with equal scores; None if the rule must not be randomised."""
        if not self.model.may_draw:
            return None
        # Votes of clusters read the draws themselves.
        return TieBreaks.of(
            rows, selection, random_numbers((self.fresh.draws * 2.0**53).astype(np.uint64))
        )

    def _at(
        self, family: ThresholdFamily, thresholds: Floats, breaks: TieBreaks | None
    ) -> Tested:
        """Return the classifier with thresholds, unless it would give all rows one answer by construction."""
        if (thresholds <= -BEYOND).all() or (thresholds >= BEYOND).all():
            why = (
                "the rule with the least loss within the limits gives every row the same answer"
            )
            return Tested(None, self.fresh, why)
        at = (thresholds,) if breaks is None else breaks.mixture(thresholds)
        return Tested(
            self.model.at_thresholds(family, *at, fresh=self.fresh.opened), self.fresh
        )

    def _balanced(self, ranks: Sequence[int]) -> ThresholdFamily:
        """Return the balanced family for the numbers of fresh rows."""
        found = {
            (limit, share.name): share
            for limit in dict.fromkeys(share.limit for share in self.shares)
            for share in shares_on(limit, self.data)
            if len(share.rows)
        }
        pairs = [
            (found[share.limit, share.name], k / n)
            for share, k, n in zip(self.shares, ranks, self.sizes, strict=True)
            if k >= 0 and (share.limit, share.name) in found
        ]
        chosen = [share for share, _ in pairs]
        parts = [part for _, part in pairs]
        return balanced(self.family, self.data, chosen, parts, self.selection.losses)


# -- scores of which none are equal ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TieBreaks:
    """Fresh rows and selection data in one order, by score and number.

    Their scores are places in this order, so a threshold lies between any two. The loss of a row is the mean
    of the rows with its score, because a number says nothing of a row.

    Pairs of score and number are continuous whatever the population, so ranks leave no ties. A threshold
    between two rows with equal scores divides the rows with this score: a new row there gets the second
    answer if its own number is larger. That is a randomised rule, and its true rate is the rate above the
    threshold.
    """

    rows: ScoredRows
    selection: ScoredRows
    scores: Floats  # shape (n,): of the fresh rows, before
    ties: Ints  # shape (n,): number of their score; equal for equal scores of one threshold
    numbers: Floats  # shape (n,): their random numbers

    @classmethod
    def of(cls, rows: ScoredRows, selection: ScoredRows, numbers: Floats) -> TieBreaks:
        """Return the order of fresh rows with random numbers, and of selection data."""
        n = len(rows.scores)
        scores = np.r_[rows.scores, selection.scores]
        place = np.r_[rows.place, selection.place]
        order = np.lexsort((scores, place))
        starts = np.r_[
            True, (np.diff(scores[order]) > RESOLUTION) | (np.diff(place[order]) > 0)
        ]
        ties = np.empty(len(order), dtype=np.intp)
        ties[order] = starts.cumsum()
        every = np.r_[numbers, np.random.default_rng(SEED).random(len(selection.scores))]
        at = np.empty(len(order))
        at[np.lexsort((every, ties))] = np.linspace(1.0 - BEYOND, BEYOND - 1.0, len(order))
        return cls(
            ScoredRows(at[:n], rows.place, _means(rows.losses, ties[:n])),
            ScoredRows(at[n:], selection.place, _means(selection.losses, ties[n:])),
            rows.scores,
            ties[:n],
            numbers,
        )

    def mixture(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return thresholds on scores, shape (k, m), and the probability of each draw, shape (k,).

        All thresholds are drawn together. A draw above ``parts`` gives the rows at the threshold the second
        answer.
        """
        low, high, parts = np.array([self._around(k, t) for k, t in enumerate(thresholds)]).T
        edges = np.unique(np.r_[0.0, parts, 1.0])
        middles = (edges[1:] + edges[:-1]) / 2
        return np.where(middles[:, None] >= parts, low, high), np.diff(edges)

    def _around(self, place: int, threshold: float) -> tuple[float, float, float]:
        """Return the scores around the rows at a threshold, and the part of these rows below it."""
        if abs(threshold) >= BEYOND:
            return threshold, threshold, 0.0
        rows = np.flatnonzero(self.rows.part(place))
        rows = rows[np.argsort(self.rows.scores[rows])]
        above = int(np.searchsorted(self.rows.scores[rows], threshold))
        pair = rows[above - 1 : above + 1]
        first, second = self.ties[pair]
        if first < second:
            middle = float(self.scores[pair].mean())
            return middle, middle, 0.0
        tied = self.scores[rows[self.ties[rows] == first]]
        ends = float(tied.min() - RESOLUTION / 2), float(tied.max() + RESOLUTION / 2)
        return *ends, float(self.numbers[pair].mean())


def _means(losses: Floats, ties: Ints) -> Floats:
    """Return the mean losses of the rows with equal scores, shape (n, 2)."""
    _, of = np.unique(ties, return_inverse=True)
    sums = np.stack([np.bincount(of, column) for column in losses.T], axis=1)
    means: Floats = (sums / np.bincount(of)[:, None])[of]
    return means


# -- sequences of thresholds -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LimitedRate:
    """A limited rate of one subgroup as a share of errors, by answer."""

    rows: Ints  # numbers of the rows of its groups
    wrong: Floats  # shape (n, 2): 1 if the row counts against the limit
    among: Floats  # shape (n, 2): 1 if the row is in the denominator of the rate
    most: float  # the largest share of errors
    kept: tuple[
        bool, bool
    ]  # by answer: whether no row with this answer counts against the limit

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
    if limit.compares:
        tables = []
    else:
        tables = tables_by_answer(limit.rate, strata)
    if tables:
        bounds = limit.bounds([name for name, _, _ in tables]).tolist()
    else:
        bounds = []
    found = []
    for (_, counted, among), bound in zip(tables, bounds, strict=True):
        if not {*np.unique(counted), *np.unique(among)} <= {0.0, 1.0}:
            return []
        if np.isnan(bound):
            continue
        wrong, most = (counted, bound) if limit.from_above else (among - counted, 1.0 - bound)
        # All rows of these groups tell the threshold, also those of a class that does not count.
        groups = np.unique(strata.combination[(among > 0).any(axis=1)])
        rows = np.flatnonzero(np.isin(strata.combination, groups)[stratum])
        first, second = (wrong == 0.0).all(axis=0).tolist()
        found.append(
            LimitedRate(rows, wrong[stratum[rows]], among[stratum[rows]], most, (first, second))
        )
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
            powers *= power_of_counts(
                *each.errors(rows.scores, thresholds), each.most, ratio, level
            )
        least = int(losses.argmin())
        likely = np.flatnonzero(powers >= LIKELY * powers.max())
        first = int(likely[np.abs(likely - least).argmax()])
        if first <= least:
            order = np.arange(first, least + 1)
        else:
            order = np.arange(first, least - 1, -1)
        ends = ((losses[-1], BEYOND, 0), (losses[0], -BEYOND, 1))
        safe = [
            (loss, end)
            for loss, end, answer in ends
            if all(each.kept[answer] for each in asked)
        ]
        if safe:
            constant = min(safe)[1]
        else:
            constant = None
        return cls(place, thresholds[order], losses[order], float(powers[first]), constant)


def power_of_counts(
    errors: Floats, n: Floats, most: float, ratio: float, level: float
) -> Floats:
    """Return the predicted probability of a certificate from fresh rows, for each of the shares."""
    fresh = (ratio * n).astype(np.intp)
    passes = each_most_reached(fresh, most, level)
    rate = (errors + 0.5) / (n + 1.0)
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
    title = "sequences of thresholds"
    tested = "the likeliest thresholds"

    def made(self, classifier: Model) -> str:
        """Return how the certified classifier was made."""
        return "Each threshold was tested in a sequence fixed before these rows were used."

    @classmethod
    def of(cls, model: Model, limits: Sequence[Limit], fresh: FreshRows) -> ThresholdSequences:
        """Return the procedure; the parameters are those of `RankRules.of`.

        Raises
        ------
        DoesNotApply
            If a limit compares groups, has no rows, or has several thresholds; with clusters, whose votes
            depend on the answers.
        """
        strata = fresh.answered.strata
        stratum = fresh.answered.stratum
        losses = losses_of(model.objective_, strata)
        by_group = any(limit.rate.by not in (None, "class") for limit in limits)
        family = model.threshold_family(by_group=by_group)
        if strata.defers:
            raise DoesNotApply(DEFERRED)
        if losses is None or family is None:
            raise DoesNotApply(
                f"the rule is no threshold{' for each group' if by_group else ''}"
            )
        if fresh.clusters is not None:
            raise DoesNotApply("the votes of clusters depend on the answers")
        limited = [limited_rates(limit, strata, stratum) for limit in limits]
        for limit, found in zip(limits, limited, strict=True):
            if not found:
                raise DoesNotApply(f"{limit!r} compares groups, or counts rows in part")
        rows = ScoredRows(
            *scores_of(model, family, fresh, between_selected=True), losses[stratum]
        )
        together = [each for found in limited for each in found]
        # Without fresh rows nothing tells the threshold of a subgroup, or whether an answer keeps its limits.
        if any(len(np.unique(rows.place[each.rows])) != 1 for each in together):
            raise DoesNotApply("a limit has no rows, or rows with several thresholds")
        selection, data = scored_selection(model, family, expected=True)
        known = [
            each for limit in limits for each in limited_rates(limit, data.strata, data.stratum)
        ]
        return cls(model, family, together, rows, known, selection, fresh)

    def run(self, level: float) -> Tested:
        """Return the certified classifier, or the fresh rows with the answers tested first.

        Parameters
        ----------
        level : float in (0, 1)
            Allowed probability that a limit is broken.
        """
        certified, first = self.thresholds(level)
        if certified is not None:
            return Tested(self.model.at_thresholds(self.family, certified), self.fresh)
        # The test of a group has a part of the level, so its limit could pass alone.
        why = "no threshold of a group passed, because the groups divide the error probability"
        if self.family.n_thresholds == 1:
            why = "no threshold of the score passed"
        return Tested(None, self.fresh.by(self.model.at_thresholds(self.family, first)), why)

    def thresholds(self, level: float) -> tuple[Floats | None, Floats]:
        """Return the certified thresholds and those tested first, shape (m,) each.

        The certified ones are None if no threshold passes, or if a group has neither a passing one nor an
        untested answer.
        """
        m = self.family.n_thresholds
        ratio = np.count_nonzero(self.rows.place < m) / len(self.selection.scores)
        asked = _by_place(self.limited, self.rows, m)
        known = _by_place(self.on_selection, self.selection, m)
        paths = [
            ThresholdPath.of(k, self.selection, known[k], asked[k], ratio, level / m)
            for k in range(m)
        ]
        tested = [
            path for path in paths if path.constant is None or path.power >= HOPELESS_POWER
        ]
        parts = max(1, sum(bool(asked[path.place]) for path in tested))
        certified = np.array(
            [BEYOND if path.constant is None else path.constant for path in paths]
        )
        first = certified.copy()
        complete = True
        any_passed = False
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
        if passed.all():
            return len(passed)
        return int(passed.argmin())


def _by_place(
    limited: Sequence[LimitedRate], rows: ScoredRows, m: int
) -> list[list[LimitedRate]]:
    """Return the limited rates by the threshold of their rows."""
    places = [np.unique(rows.place[each.rows]).tolist() for each in limited]
    return [
        [each for each, of in zip(limited, places, strict=True) if k in of] for k in range(m)
    ]
