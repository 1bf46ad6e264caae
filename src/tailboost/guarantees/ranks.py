"""Ranks: thresholds at order statistics of fresh scores, which need no test.

Each limit is on the share of a fixed number of rows, all with one threshold, that get one answer. A larger
threshold can only add rows with the first answer (a smaller one with the second).

Theorem. Let t* be the first threshold of a place that breaks a limit of this answer. The test of this limit
at t* passes with a probability of at most its level, and where it fails, all further thresholds fail. So all
thresholds that pass keep the limits, whichever is taken after any look at the same rows. Places and answers
divide the level (union bound), limits of one place and answer do not.

The objective alone needs selecting rows, and these may be the fresh rows: then all rows certify.

A lone gap or ratio of shares of one answer, between groups with a threshold each, has ranks too.

Theorem. Let S₁, …, Sₙ be independent scores of one population, and U₍ⱼ₎ the probability that a new score is
at least the j-th largest of them. If the population is continuous, U₍ⱼ₎ ~ Beta(j, n + 1 − j), whatever the
population is ([1]_, [2]_). A threshold between the k-th and the (k + 1)-th largest score therefore has a
share between U₍ₖ₎ and U₍ₖ₊₁₎. The selecting rows alone choose the ranks, and `probability_within` bounds the
probability that all shares are close. Fresh rows only place the thresholds. Let ties be broken by independent
uniform numbers: exactly k scores then are above the threshold, and a tie at this place counts as a failure.

Equal scores leave no threshold at some ranks. So an interval of ranks is chosen for each group, as wide as
half the longest run of equal scores among its selecting rows near there, and all these ranks must be close.

References
----------
.. [1] S. S. Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", Annals of Mathematical
   Statistics 12, 1941.
.. [2] X. Tong, Y. Feng and J. J. Li, "Neyman–Pearson classification algorithms and NP receiver operating
   characteristics", Science Advances 4, 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.stats import beta, binom

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.fresh import FIRST, Case, Outcome, Tests, most_reached
from tailboost.guarantees.sequence import path_of

# Tried smallest rates of a gap or ratio, and parts of its bound by which the rates differ.
RATES = np.linspace(0.004, 0.996, 125)
ROOM = (0.0, 0.2, 0.4, 0.6, 0.8)
# Rates of each group tried between the smallest and the largest one.
TRIED = 21
# Least room beside the ranks, in standard deviations.
LEAST_ROOM = 1.2
AT_RANKS = "Thresholds are at ranks of the scores of these rows, which need no test."


def ends_between(scores: Floats) -> tuple[Floats, Ints]:
    """Return the thresholds between different scores, from −∞ to ∞, with the number of scores below each."""
    values, counts = np.unique(scores, return_counts=True)
    return np.r_[-np.inf, values[1:], np.inf], np.r_[0, counts.cumsum()]


def windows(
    case: Case,
    tests: Sequence[Tests],
    cell: Ints,
    n_cells: int,
    level: float,
    n_others: int = 0,
) -> tuple[Ints, Ints, float]:
    """Return the least and the largest cut of each place that keep all limits, and the level of each.

    ``cell`` has the number of each fresh row's cell of the score, below ``n_cells``. The level is divided
    between the places and answers, and ``n_others`` more limits.
    """
    shares = []
    stratum = case.fresh.answered.stratum
    for test in tests:
        for j, place in enumerate(test.places.argmax(axis=1).tolist()):
            rows = case.fresh.voters(np.flatnonzero(test.strata[j][stratum]))
            if len(rows):
                shares.append((place, int(test.answers[j]), test.allowed[j], cell[rows]))
    level_of_each = level / max(1, len({share[:2] for share in shares}) + n_others)
    low = np.zeros(case.n_places, dtype=np.intp)
    high = np.full(case.n_places, n_cells)
    for place, answer, allowed, cells in shares:
        most = int(most_reached(len(cells), float(allowed), level_of_each))
        by_cell = np.bincount(cells, minlength=n_cells)
        if answer == FIRST:
            high[place] = min(high[place], (by_cell.cumsum() <= most).sum())
        else:
            low[place] = max(low[place], n_cells - (by_cell[::-1].cumsum() <= most).sum())
    return low, high, level_of_each


def applies(case: Case) -> Any:
    """Return True for limits on one answer to rows of one threshold; of a lone comparison the chosen ranks.

    These are the fresh rows of each place, and its least and most rank (m, 2). None stands for other limits.
    """
    if case.odds is None or case.defers:
        return None
    if all(test.is_ranked for test in case.tests):
        return True
    if len(case.limits) > 1 or case.fresh is None or case.fresh.clusters is not None:
        return None
    test, fresh_test = case.tests[0], case.fresh_tests[0]
    is_alone = [
        (each.places.sum(axis=axis) == 1).all()
        for each, axis in product((test, fresh_test), (0, 1))
    ]
    if not (test.limit.compares and (test.answers >= 0).all() and all(is_alone)):
        return None
    stratum = case.fresh.answered.stratum
    rows = [
        np.flatnonzero(fresh_test.strata[j][stratum]) for j in fresh_test.places.argmax(axis=0)
    ]
    ranks = _ranks(case, test, np.array([len(each) for each in rows]))
    return None if ranks is None else (rows, ranks)


def run(case: Case, plan: Any) -> Outcome:
    """Return the rule of least loss within all ranks, or at the ranks of a plan.

    Thresholds are written as decimals that part the selecting and the fresh rows alike.
    """
    thresholds = _within_ranks(case) if plan is True else _at_chosen(case, *plan)
    if thresholds is None:
        likeliest, _ = path_of(case, list(range(case.n_places)), case.level)
        return Outcome(
            case.answered_by(likeliest[0]),
            case.level,
            "equal scores, or too few, leave no threshold within the ranks",
        )
    ends = case.odds.ends(thresholds[:, None], case.scores, case.places)
    rule = case.selection.at(ends)
    return Outcome(case.fresh.by(rule), case.level, AT_RANKS, rule, "ranks")


def _within_ranks(case: Case) -> Floats | None:
    """Return the thresholds of least loss within all ranks, shape (m,); None without any."""
    values, cell = np.unique(case.scores, return_inverse=True)
    ends, n_cells = np.r_[-np.inf, values[1:], np.inf], len(values)
    low, high, _ = windows(case, case.fresh_tests, cell, n_cells, case.level)
    if (low > high).any():
        return None
    stratum = case.fresh.answered.stratum
    places = case.fresh_place[stratum]
    beside = (case.fresh_losses[:, 0] - case.fresh_losses[:, 1])[stratum]
    at_values = np.searchsorted(case.odds.edges, ends)
    thresholds = np.empty(case.n_places)
    for place in range(case.n_places):
        here = places == place
        loss = np.append(0.0, np.bincount(cell[here], beside[here], n_cells).cumsum())
        loss = loss + losses_of_place(case, place)[at_values]
        inside = slice(low[place], high[place] + 1)
        thresholds[place] = ends[inside][loss[inside].argmin()]
    return thresholds


def losses_of_place(case: Case, place: int) -> Floats:
    """Return the loss of the selecting rows of a place at each cut, less that of cut 0, shape (V + 1,)."""
    here = case.cells.place == place
    beside = (case.losses[here, 0] - case.losses[here, 1]) @ case.cells.rows[here]
    return np.append(0.0, beside.cumsum())


def _at_chosen(case: Case, rows_of_places: list[Ints], ranks: Ints) -> Floats | None:
    """Return thresholds at the ranks that the selecting rows chose; None if equal scores leave none there."""
    thresholds = []
    for rows, (least, most) in zip(rows_of_places, ranks, strict=True):
        ends, counted = ends_between(case.scores[rows])
        if case.tests[0].answers[0] != FIRST:
            counted = len(rows) - counted
        distance = np.abs(counted - (least + most) / 2.0)
        nearest = distance.argmin()
        if not least <= counted[nearest] <= most:
            return None
        thresholds.append(ends[nearest])
    return np.array(thresholds)


def _ranks(case: Case, test: Tests, sizes: Ints) -> Ints | None:
    """Return the ranks of least expected loss whose shares are close; None without any."""
    curves = []
    for place, j in enumerate(test.places.argmax(axis=0)):
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
    constant = np.sum([losses[[0, -1]] for _, losses, _ in curves], axis=0).min()
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


# -- the probability that rates at ranks are close ---

# Nodes of the quadrature. In 300 random cases of two to five groups, 600 nodes differed by at most 1.5e-5.
NODES = 120
# Subtracted from a probability by quadrature: more than its error.
QUADRATURE_ERROR = 1e-4


def probability_within(
    least: Sequence[int],
    most: Sequence[int],
    sizes: Sequence[int],
    *,
    factor: float = 1.0,
    gap: float = 0.0,
) -> float:
    """Return a lower bound on the probability that the rates at ranks of several groups are close.

    In each group between ``least`` and ``most`` of n scores are above the threshold, so its rate is between
    the rates L ~ Beta(least, n + 1 − least) and V ~ Beta(most + 1, n − most). Conditional on the smallest
    L, of group i and value u, another group has L > u and V ≤ h(u) with a probability of at least F_V(h) −
    F_L(u). Group i itself has V ≤ h(u) with a probability that follows from the n − least scores below u.
    The result is the sum over i of the integrals of the products of these probabilities.

    Parameters
    ----------
    least, most : sequence of int
        Of each group, 0 ≤ least ≤ most ≤ n. The threshold may be selected among those in between.
    sizes : sequence of int
        n of each group.
    factor, gap : float
        Rates are close if ``factor`` times each of them less each other one is at most ``gap``: 1 and the
        largest difference, or the smallest ratio and 0.

    Returns
    -------
    float
        From 0 to 1, less the error of the quadrature.

    Examples
    --------
    >>> from tailboost.guarantees.ranks import probability_within
    >>> round(probability_within([300, 300], [300, 300], [1000, 1000], gap=0.05), 3)
    0.983
    """
    low, high, n = np.array([least, most, sizes], dtype=np.float64)[..., None]

    def largest(u: Floats) -> Floats:
        """Return h(u), the largest rate that is allowed beside a smallest rate u."""
        return np.minimum((u + gap) / max(factor, 1e-300), 1.0)  # a ratio of 0 allows all rates

    def at_most(k: Floats, n: Floats, x: Floats) -> Floats:
        """Return P(Beta(k + 1, n − k) ≤ x), which is P(Bin(n, x) > k); for k = n the variable is 1."""
        return np.where(x < 1.0, binom.sf(k, n, x), 1.0)

    if (low == 0).any():  # the smallest L is 0
        inside = at_most(high, n, largest(np.zeros(1)))
        return max(0.0, float(inside.prod()) - QUADRATURE_ERROR)
    # Gauss–Legendre nodes in [−1, 1], with weights of sum 2.
    nodes, weights = leggauss(NODES)
    total = 0.0
    for i in range(len(n)):  # the group of the smallest L
        u = beta.ppf((nodes + 1.0) / 2.0, low[i], n[i] + 1.0 - low[i])  # quantiles of L
        h = largest(u)
        # V − u over 1 − u is a Beta variable too, from the n − least scores below u.
        room = np.clip((h - u) / np.maximum(1.0 - u, 1e-300), 0.0, 1.0)
        above = np.maximum(
            at_most(high, n, h) - at_most(low - 1.0, n, u), 0.0
        )  # F_V(h) − F_L(u)
        above[i] = at_most(high[i] - low[i], n[i] - low[i], room)
        total += float(above.prod(axis=0) @ weights) / 2.0
    return max(0.0, total - QUADRATURE_ERROR)
