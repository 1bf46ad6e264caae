"""Ranks of a lone gap or ratio of shares of one answer, between groups with a threshold each.

*Needs.* The limit is the only one. Each compared subgroup has a threshold of its own, and a fixed number of
rows. No rule defers, and rows have no clusters.

1. The selecting rows choose a rank for each group: those of least loss with which all shares are close, with
   a probability of at least 1 − level.
2. The fresh rows only place each threshold at its rank.

Equal scores leave no threshold at some ranks. So an interval of ranks is chosen for each group, as wide as
half the longest run of equal scores among its selecting rows near there, and all these ranks must be close.

*Theorem.* The rule breaks the limit with a probability of at most the level.

*Proof.* For the n fresh scores of a group let U₍ⱼ₎ be the probability that a new score is at least the j-th
largest of them, U₍₀₎ = 0 and U₍ₙ₊₁₎ = 1. Given labels and groups, U₍ⱼ₎ ~ Beta(j, n + 1 − j) in any continuous
population ([1]_, [2]_), and groups are independent. A threshold with k scores above it has a share between
U₍ₖ₎ and U₍ₖ₊₁₎. So one with ranks from ``least`` to ``most`` has a share between U of ``least`` and of
``most`` + 1, whichever of these ranks it is; of the first label the same holds from below. The selecting rows
alone choose the ranks, so the shares of all groups are close with at least `probability_within`. Independent
uniform numbers break ties: a threshold between different scores has the same share with them as without. ∎

References
----------
.. [1] S. S. Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", Annals of Mathematical
   Statistics 12, 1941.
.. [2] X. Tong, Y. Feng and J. J. Li, "Neyman–Pearson classification algorithms and NP receiver operating
   characteristics", Science Advances 4, 2018.
"""

from collections.abc import Sequence
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, binom, norm

from tailboost.core import Floats, Ints, frozen_object
from tailboost.guarantees.exact_tests import LimitedShare
from tailboost.guarantees.one_score import Certified, CountTable, OneScore, Refused
from tailboost.guarantees.ranks import at_thresholds, n_below, thresholds_between
from tailboost.guarantees.sequence import refused
from tailboost.rates import Limit
from tailboost.selection.thresholds import FIRST

# Tried smallest shares of a gap or ratio, and parts of the allowed spread by which the shares differ.
SMALLEST = np.linspace(0.004, 0.996, 125)
SPREADS = (0.0, 0.2, 0.4, 0.6, 0.8)
# Shares of each group tried between the smallest and the largest one.
TRIED = 21


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the rule at the ranks that the selecting rows choose; None for other limits, or without ranks.

    Which ranks there are depends on the selecting rows and on numbers of fresh rows alone.
    """
    limit, *others = [test.limit for test in case.selecting.tests]
    has_clusters = case.fresh.votes.clusters is not None  # their rows are no independent scores
    if others or not limit.compares or case.selecting.defers or has_clusters:
        return None
    selecting = shares_of_places(case.selecting)
    certifying = shares_of_places(case.certifying)
    if not (selecting and certifying):
        return None
    # 1. The ranks.
    curves = [PricedShares.of(case, share) for share in selecting]
    scores = [case.scores[share.strata[case.fresh.answered.stratum]] for share in certifying]
    ranks = cheapest_ranks(curves, np.array(list(map(len, scores))), limit, level)
    if ranks is None:
        return None
    # 2. Their thresholds.
    chosen = []
    for share, of_place, least, most in zip(certifying, scores, *ranks, strict=True):
        thresholds, counted = counted_at(of_place, share.answer)
        nearest = np.abs(counted - (least + most) / 2.0).argmin()
        if not least <= counted[nearest] <= most:  # equal scores leave no threshold there
            return refused(case, level)
        chosen.append(thresholds[nearest])
    return at_thresholds(case, np.array(chosen))


def shares_of_places(table: CountTable) -> list[LimitedShare]:
    """Return the compared share of each place; empty if some place has none of its own."""
    (test,) = table.tests
    shares = sorted(test.shares, key=lambda share: share.places)
    if [share.places for share in shares] != [(place,) for place in range(table.n_places)]:
        return []
    return shares


def counted_at(scores: Floats, answer: int) -> tuple[Floats, Ints]:
    """Return the thresholds between different scores, and the number of scores with an answer at each."""
    thresholds = thresholds_between(scores)
    counted = n_below(scores, thresholds)
    if answer != FIRST:
        counted = len(scores) - counted
    return thresholds, counted


@frozen_object
class PricedShares:
    """Shares and losses of a place at thresholds between its selecting rows that count, by ascending share.

    Attributes
    ----------
    shares, losses : ndarray of shape (T,)
        The share of the answer, and the loss, at each threshold.
    n : int
        The number of selecting rows that count.
    """

    shares: Floats
    losses: Floats
    n: int

    @classmethod
    def of(cls, case: OneScore, share: LimitedShare) -> Self:
        """Return the curve of the place of a share."""
        family = case.family
        scores = family.rising(family.score[share.strata[family.data.stratum]])
        thresholds, counted = counted_at(scores, share.answer)
        losses = case.loss_at(share.places[0], thresholds)
        order = counted.argsort()
        return cls(counted[order] / max(len(scores), 1), losses[order], len(scores))

    def width(self, rank: int, size: int) -> int:
        """Return half the longest run of equal scores near a rank among ``size`` rows; 0 if all differ."""
        near = 3.0 * np.sqrt(0.25 / self.n + 0.25 / size)
        share = rank / size
        is_near = (self.shares[1:] >= share - near) & (self.shares[:-1] <= share + near)
        longest = np.diff(self.shares)[is_near].max(initial=0.0)  # as a share of the rows
        if longest * self.n <= 1.5:  # a step of a single row is 1/n
            return 0
        return int(np.ceil(longest * size / 2.0))


def cheapest_ranks(
    curves: Sequence[PricedShares], sizes: Ints, limit: Limit, level: float
) -> tuple[Ints, Ints] | None:
    """Return the least and the most rank of each place, of least expected loss, whose shares are close.

    None without any. ``sizes`` are the numbers of fresh rows that count.
    """
    if not min(*sizes, *(curve.n for curve in curves)):
        return None
    factor, gap = limit.factor_and_gap
    # One answer to all rows keeps a comparison by construction, so only better rules are tried.
    constant = np.sum([curve.losses[[0, -1]] for curve in curves], axis=0).min()
    for loss, ranks in sorted(priced_ranks(curves, sizes, factor, gap)):
        if loss >= constant:
            return None
        widths = np.array(list(map(PricedShares.width, curves, ranks, sizes.tolist())))
        least = np.maximum(ranks - widths, 0)
        most = np.minimum(ranks + widths, sizes)
        low = (least + 0.5) / (sizes + 1.0)
        high = (most + 0.5) / (sizes + 1.0)
        # Where rates near their means are not close, the probability need not be computed.
        may_be_close = (limit.rooms(high, low) >= 0.0).all()
        if may_be_close and 1.0 - level <= probability_within(
            least, most, sizes, factor=factor, gap=gap
        ):
            return least, most
    return None


def priced_ranks(
    curves: Sequence[PricedShares], sizes: Ints, factor: float, gap: float
) -> set[tuple[float, tuple[int, ...]]]:
    """Return the loss and the ranks at which each place has its least loss, for shares in some ranges."""
    priced = set()
    for smallest, spread in product(SMALLEST, SPREADS):
        # The largest share that is allowed beside the smallest one is (smallest + gap) / factor.
        widest = ((1.0 - factor) * smallest + gap) / max(factor, 1e-9)
        tried = np.linspace(smallest, min(1.0, smallest + spread * widest), TRIED)
        losses = np.array([np.interp(tried, each.shares, each.losses) for each in curves])
        ranks = np.rint(tried[losses.argmin(axis=1)] * (sizes + 1)).clip(max=sizes)
        priced.add((float(losses.min(axis=1).sum()), tuple(ranks.astype(int).tolist())))
    return priced


# -- the probability that rates at ranks are close --------------------------------------------------------

# Step of the quadrature in deviations of the largest group. In 300 random cases of two to five groups of
# 100 to 1,000,000 rows, 8,000 other nodes differed by at most 3e-5.
STEP = 1.0 / 3.0
# Subtracted from a probability by quadrature: more than its error.
QUADRATURE_ERROR = 1e-4


def probability_within(
    least: ArrayLike,
    most: ArrayLike,
    sizes: ArrayLike,
    *,
    factor: float = 1.0,
    gap: float = 0.0,
) -> float:
    """Return a lower bound on the probability that the rates at ranks of several groups are close.

    In each group between ``least`` and ``most`` of n scores are above the threshold, so its rate is between
    the rates L ~ Beta(least, n + 1 − least) and V ~ Beta(most + 1, n − most). Conditional on the smallest
    L, of group i and value u, let h be the largest rate that is allowed beside u. Another group has L > u and
    V ≤ h with a probability of at least F_V(h) − F_L(u). Group i itself has V ≤ h with a probability that
    follows from the n − least lower scores. The result is the sum over i of the integrals of the products of
    these probabilities.

    Parameters
    ----------
    least, most : array-like of int
        Of each group, 0 ≤ least ≤ most ≤ n. The threshold may be selected among those in between.
    sizes : array-like of int
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
    >>> from tailboost.guarantees.gaps import probability_within
    >>> round(probability_within([300, 300], [300, 300], [1000, 1000], gap=0.05), 3)
    0.983
    """
    low, high, n = np.array([least, most, sizes], np.float64)[..., None]
    factor = max(factor, 1e-300)  # a ratio of 0 allows all rates
    if (low == 0).any():  # the smallest L is 0
        inside = beta_cdf(high, n, min(gap / factor, 1.0))
        return max(0.0, float(inside.prod()) - QUADRATURE_ERROR)
    # The deviations of rates are about as 1/√n: the probabilities of the largest group are the steepest.
    deviates = np.arange(-7.5, 7.5, STEP * np.sqrt(n.min() / n.max()))
    weights = norm.pdf(deviates)
    total = 0.0
    for i in range(len(n)):  # the group of the smallest L
        u = beta.ppf(norm.cdf(deviates), low[i], n[i] + 1.0 - low[i])  # quantiles of L
        h = np.minimum((u + gap) / factor, 1.0)
        # F_V(h) − F_L(u) of each other group.
        within = np.maximum(beta_cdf(high, n, h) - beta_cdf(low - 1.0, n, u), 0.0)
        # Given L = u, (V − u)/(1 − u) is a Beta variable too, by the n − least lower scores.
        room = np.clip((h - u) / np.maximum(1.0 - u, 1e-300), 0.0, 1.0)
        within[i] = beta_cdf(high[i] - low[i], n[i] - low[i], room)
        total += float(within.prod(axis=0) @ weights / weights.sum())
    return max(0.0, total - QUADRATURE_ERROR)


def beta_cdf(k: Floats, n: Floats, x: ArrayLike) -> Floats:
    """Return P(Beta(k + 1, n − k) ≤ x), which is P(Bin(n, x) > k); for k = n the variable is 1."""
    return np.where(np.less(x, 1.0), binom.sf(k, n, x), 1.0)
