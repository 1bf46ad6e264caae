"""Ranks for a lone gap or ratio of shares of one answer, between groups with a threshold each.

Theorem. The true share at a rank of n independent scores has a Beta distribution, whatever the population.
The selecting rows alone choose the ranks, and `tailboost.rates.bounds.probability_within` bounds the
probability that all shares are close. Fresh rows only place the thresholds.

Equal scores leave no threshold at some ranks. So an interval of ranks is chosen for each group, as wide as
half the longest run of equal scores among its selecting rows near there, and all these ranks must be close.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from tailboost.core.array_types import Ints
from tailboost.guarantees.case import Case, Certified, Refused
from tailboost.guarantees.ranks import AT_RANKS, ends_between, losses_of_place
from tailboost.guarantees.tests import FIRST, Tests
from tailboost.rates.bounds import probability_within

# Tried smallest rates of a gap or ratio, and parts of its bound by which the rates differ.
RATES = np.linspace(0.004, 0.996, 125)
ROOM = (0.0, 0.2, 0.4, 0.6, 0.8)
# Least room beside the ranks, in standard deviations.
LEAST_ROOM = 1.2


def applies(case: Case) -> tuple[list[Ints], Ints] | None:
    """Return the fresh rows of each group and its ranks, least and most (m, 2); None without any."""
    if case.odds is None or case.defers or len(case.limits) > 1:
        return None
    test, fresh_test = case.tests[0], case.fresh_tests[0]
    places = test.places(case.cells.place)
    is_alone = (places.sum(axis=1) == 1).all() and (places.sum(axis=0) == 1).all()
    is_share = test.limit.compares and (test.answers >= 0).all()
    has_names = set(test.names) == set(fresh_test.names)
    if not (is_alone and is_share and has_names) or case.fresh.clusters is not None:
        return None
    strata = [fresh_test.strata[fresh_test.names.index(name)] for name in test.names]
    rows = [case.voters_of(each) for each in strata]
    ranks = _ranks(case, test, np.array([len(each) for each in rows]))
    return None if ranks is None else (rows, ranks)


def run(case: Case, plan: tuple[list[Ints], Ints]) -> Certified | Refused:
    """Return the rule with thresholds at the ranks that the selecting rows chose."""
    test = case.tests[0]
    thresholds = np.empty(case.n_places)
    places = test.places(case.cells.place).argmax(axis=1)
    for place, rows, (least, most) in zip(places, *plan, strict=True):
        ends, counted = ends_between(case.scores[rows])
        if test.answers[0] != FIRST:
            counted = len(rows) - counted
        inside = (least <= counted) & (counted <= most)
        if not inside.any():
            why = "equal scores leave no threshold at the certified ranks"
            return Refused(case.fresh, case.level, why)
        distance = np.abs(counted - (least + most) / 2.0)
        thresholds[place] = ends[np.where(inside, distance, np.inf).argmin()]
    return Certified(
        case.at(thresholds, thresholds, np.arange(len(case.fresh))), "ranks", AT_RANKS
    )


def _ranks(case: Case, test: Tests, sizes: Ints) -> Ints | None:
    """Return the ranks of least expected loss whose shares are close; None without any."""
    curves, runs = [], []
    for strata, place in zip(
        test.strata, test.places(case.cells.place).argmax(axis=1), strict=True
    ):
        scores = case.odds.scores[strata[case.odds.data.stratum]]
        ends, counted = ends_between(scores)
        if test.answers[0] != FIRST:
            ends, counted = ends[::-1], len(scores) - counted[::-1]
        losses = losses_of_place(case, place)[np.searchsorted(case.odds.values, ends)]
        curves.append((counted / max(len(scores), 1), losses))
        runs.append(np.diff(counted))
    if not (sizes.all() and all(map(len, runs))):
        return None
    factor, gap = test.limit.pair
    options = set()
    for rate, room in product(RATES, ROOM):
        highest = min(1.0, rate + room * ((1.0 - factor) * rate + gap) / max(factor, 1e-9))
        loss = 0.0
        ranks = []
        for (rates, losses), n in zip(curves, sizes.tolist(), strict=True):
            tried = np.r_[rate, rates[(rates > rate) & (rates < highest)], highest]
            of_tried = np.interp(tried, rates, losses)
            loss += of_tried.min()
            ranks.append(min(round(tried[of_tried.argmin()] * (n + 1)), n))
        options.add((loss, tuple(ranks)))
    # One answer to all rows keeps a comparison by construction, so only better rules are tried.
    constant = min(sum(losses[end] for _, losses in curves) for end in (0, -1))
    is_pair = ~np.eye(len(sizes), dtype=bool)
    for loss, tuple_of_ranks in sorted(options):
        if loss >= constant:
            break
        ranks_tried = np.array(tuple_of_ranks)
        shares = ranks_tried / sizes
        widths = np.zeros(len(sizes), dtype=np.intp)
        for j, ((rates, _), run_lengths) in enumerate(zip(curves, runs, strict=True)):
            n_selected = run_lengths.sum()
            near = 3.0 * np.sqrt(0.25 / n_selected + 0.25 / sizes[j])
            is_near = (rates[1:] >= shares[j] - near) & (rates[:-1] <= shares[j] + near)
            longest = run_lengths[is_near].max(initial=0)
            widths[j] = np.ceil(longest / n_selected * sizes[j] / 2.0) * (longest > 1)
        least, most = (
            np.maximum(ranks_tried - widths, 0),
            np.minimum(ranks_tried + widths, sizes),
        )
        low, high = (least + 0.5) / (sizes + 1.0), (most + 0.5) / (sizes + 1.0)
        deviations = test.limit.deviations(high * (1.0 - high) / (sizes + 2.0))
        if (test.limit.rooms(high, low) < LEAST_ROOM * deviations)[is_pair].any():
            continue  # hopeless
        numbers = least.tolist(), most.tolist(), sizes.tolist()
        if probability_within(*numbers, factor=factor, gap=gap) >= 1.0 - case.level:
            return np.stack([least, most], axis=1)
    return None
