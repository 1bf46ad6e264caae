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
from tailboost.guarantees.case import Case, Outcome
from tailboost.guarantees.ranks import at_ranks, ends_between, losses_of_place
from tailboost.guarantees.tests import FIRST, Tests
from tailboost.rates.bounds import probability_within

# Tried smallest rates of a gap or ratio, and parts of its bound by which the rates differ.
RATES = np.linspace(0.004, 0.996, 125)
ROOM = (0.0, 0.2, 0.4, 0.6, 0.8)
# Rates of each group tried between the smallest and the largest one.
TRIED = 21
# Least room beside the ranks, in standard deviations.
LEAST_ROOM = 1.2


def applies(case: Case) -> tuple[list[Ints], Ints] | None:
    """Return the fresh rows of each place and its ranks, least and most (m, 2); None without any."""
    if case.odds is None or case.defers or len(case.limits) > 1:
        return None
    test, fresh_test = case.tests[0], case.fresh_tests[0]
    places = test.places(case.cells.place)
    fresh_places = fresh_test.places(case.fresh_place)
    is_alone = [
        (each.sum(axis=axis) == 1).all() for each in (places, fresh_places) for axis in (0, 1)
    ]
    is_share = test.limit.compares and (test.answers >= 0).all()
    if not (is_share and all(is_alone)) or case.fresh.clusters is not None:
        return None
    rows = [case.voters_of(fresh_test.strata[j]) for j in fresh_places.argmax(axis=0)]
    ranks = _ranks(case, test, np.array([len(each) for each in rows]))
    return None if ranks is None else (rows, ranks)


def run(case: Case, plan: tuple[list[Ints], Ints]) -> Outcome:
    """Return the rule with thresholds at the ranks that the selecting rows chose."""
    thresholds = []
    for rows, (least, most) in zip(*plan, strict=True):
        ends, counted = ends_between(case.scores[rows])
        if case.tests[0].answers[0] != FIRST:
            counted = len(rows) - counted
        distance = np.abs(counted - (least + most) / 2.0)
        nearest = distance.argmin()
        if not least <= counted[nearest] <= most:
            why = "equal scores leave no threshold at the certified ranks"
            return Outcome(case.fresh, case.level, why)
        thresholds.append(ends[nearest])
    return at_ranks(case, np.array(thresholds))


def _ranks(case: Case, test: Tests, sizes: Ints) -> Ints | None:
    """Return the ranks of least expected loss whose shares are close; None without any."""
    curves = []
    for place, j in enumerate(test.places(case.cells.place).argmax(axis=0)):
        scores = case.odds.scores[test.strata[j][case.odds.data.stratum]]
        ends, counted = ends_between(scores)
        if test.answers[0] != FIRST:
            ends, counted = ends[::-1], len(scores) - counted[::-1]
        losses = losses_of_place(case, place)[np.searchsorted(case.odds.edges, ends)]
        curves.append((counted / max(len(scores), 1), losses, len(scores)))
    if not min(*sizes, *(n for *_, n in curves)):
        return None
    factor, gap = test.limit.pair
    options = set()
    for rate, room in product(RATES, ROOM):
        highest = min(1.0, rate + room * ((1.0 - factor) * rate + gap) / max(factor, 1e-9))
        tried = np.linspace(rate, highest, TRIED)
        losses = np.array([np.interp(tried, *curve[:2]) for curve in curves])
        ranks = np.rint(tried[losses.argmin(axis=1)] * (sizes + 1)).clip(max=sizes)
        options.add((float(losses.min(axis=1).sum()), tuple(ranks.astype(int).tolist())))
    # One answer to all rows keeps a comparison by construction, so only better rules are tried.
    constant = min(sum(losses[end] for _, losses, _ in curves) for end in (0, -1))
    for _, option in sorted(each for each in options if each[0] < constant):
        ranks = np.array(option)
        widths = np.zeros(len(sizes), dtype=np.intp)
        for j, (rates, _, n) in enumerate(curves):
            near = 3.0 * np.sqrt(0.25 / n + 0.25 / sizes[j])
            share = ranks[j] / sizes[j]
            is_near = (rates[1:] >= share - near) & (rates[:-1] <= share + near)
            run_of_equal = np.diff(rates)[is_near].max(initial=0.0)
            widths[j] = np.ceil(run_of_equal * sizes[j] / 2.0) * (run_of_equal * n > 1.5)
        least, most = np.maximum(ranks - widths, 0), np.minimum(ranks + widths, sizes)
        low, high = (least + 0.5) / (sizes + 1.0), (most + 0.5) / (sizes + 1.0)
        noise = test.limit.deviations(high * (1.0 - high) / (sizes + 2.0))
        noise[np.diag_indices(len(sizes))] = 0.0
        if (test.limit.rooms(high, low) < LEAST_ROOM * noise).any():
            continue  # hopeless
        numbers = least.tolist(), most.tolist(), sizes.tolist()
        if probability_within(*numbers, factor=factor, gap=gap) >= 1.0 - case.level:
            return np.stack([least, most], axis=1)
    return None
