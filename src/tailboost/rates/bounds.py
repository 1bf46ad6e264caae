"""Confidence bounds that hold for every number of rows: error rates, means, tails, shifts.

All bounds are for independent rows with losses in [0, 1] and do not depend on the order of rows. Upper bounds
are at most 1, and 1 without rows.

A true rate at a threshold that is a rank of fresh scores is a Beta variable. Let S₁, …, Sₙ be independent
scores of one population, and U₍ⱼ₎ the probability that a new score is at least the j-th largest of them. If
the population is continuous, U₍ⱼ₎ ~ Beta(j, n + 1 − j), whatever the population is ([1]_). A threshold
between the k-th and the (k + 1)-th largest score therefore has a rate between U₍ₖ₎ and U₍ₖ₊₁₎. No test is
needed, and the rule may be selected among such thresholds if all of them keep the limit.

Equal scores. Let ties be broken by independent uniform numbers. A rule that answers by the score alone then
has a rate of at most U₍ₖ₊₁₎ if at most k scores reach its threshold, and of at least U₍ₖ₎ if at least k do.
Limits on one side thus hold for every population. A comparison of groups needs exactly k scores above the
threshold, with k fixed before the scores are seen; ties at this place count as a failure.

References
----------
.. [1] S. S. Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", Annals of Mathematical
   Statistics 12, 1941.
.. [2] X. Tong, Y. Feng and J. J. Li, "Neyman–Pearson classification algorithms and NP receiver operating
   characteristics", Science Advances 4, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import bdtr, betainc, betaincinv
from scipy.stats import beta, ksone, t

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import base_measure, check_number
from tailboost.solvers import cvar, worst_case_weights

# Number of distinct losses of a betting bound; more are rounded up to multiples of its inverse, which keeps
# the bound valid.
MOST_LOSSES = 2**14
# Up to this number of rows the exact distribution of the Kolmogorov–Smirnov statistic is used; beyond, it
# takes seconds and gives the same value.
MOST_EXACT = 1_000
# Number of stakes below the best one for the largest variance at a mean of ½: they suit means up to 1 −
# 1/257.
MORE_STAKES = 8
# Stakes of the bets against a bound: from the whole wealth to a thousandth, with even weights.
STAKES = 2.0 ** (-0.5 * np.arange(21))
# Cap of wealths and of stored logarithms: JSON has no infinity.
LARGEST_WEALTH = 1e300


def _check_delta(delta: float) -> float:
    return check_number(delta, "delta", 0, 1, below=True)


def _losses(losses: ArrayLike) -> Floats:
    """Return losses as an array of shape (n,); raise ValueError unless all are in [0, 1]."""
    values = np.asarray(losses, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"losses must be numbers in [0, 1], shape (n,), got shape {values.shape}"
        )
    return values


# -- error rates -------------------------------------------------------------------------------------------


def clustered_size(losses: ArrayLike, clusters: ArrayLike) -> float:
    """Return the effective number of independent rows for the mean of rows in clusters.

    With this number, the variance of independent rows equals the variance between clusters [1]_, times a
    factor for few clusters (t quantiles). The result is at most the number of rows. If all losses are equal,
    rows of a cluster count as copies of one row.

    Parameters
    ----------
    losses : array-like of shape (n,)
        In [0, 1].
    clusters : array-like of int, shape (n,)
        Cluster of each row.

    Returns
    -------
    float
        From 0 to n.

    References
    ----------
    .. [1] E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of
       positive counts estimated from survey data", Survey Methodology 24, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rates.bounds import clustered_size
    >>> wrong, person = np.arange(400) % 10 == 0, np.arange(400)
    >>> clustered_size(wrong, person), round(clustered_size(np.repeat(wrong, 3), np.repeat(person, 3)))
    (400.0, 397)
    """
    values = _losses(losses)
    n = len(values)
    _, cluster = np.unique(np.asarray(clusters), return_inverse=True)
    sizes = np.bincount(cluster)
    n_clusters = len(sizes)
    if n_clusters < 2 or n_clusters == n:
        return float(n_clusters)
    mean = values.mean()
    sums_by_cluster = np.bincount(cluster, values - mean)
    squares = float((sums_by_cluster**2).sum())
    variance_of_mean = n_clusters / (n_clusters - 1.0) * squares / n**2
    if variance_of_mean * n**2 < 1e-9:  # zero but for rounding
        return n**2 / float((sizes**2).sum())
    variance_of_row = float(mean * (1.0 - mean))
    few_clusters = float(t.ppf(0.975, n - 1) / t.ppf(0.975, n_clusters - 1)) ** 2
    return min(float(n), few_clusters * variance_of_row / variance_of_mean)


def clopper_pearson_upper(errors: int, n: int, delta: float = 0.05) -> float:
    """Return the exact upper bound on an error rate, under which so few errors have probability δ.

    Parameters
    ----------
    errors, n : int
        Errors among n rows, 0 ≤ errors ≤ n.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.

    Returns
    -------
    float
        1 if all rows are errors, or without rows.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    References
    ----------
    .. [1] C. J. Clopper and E. S. Pearson, "The Use of Confidence or Fiducial Limits", Biometrika 26, 1934.

    Examples
    --------
    >>> from tailboost.rates.bounds import clopper_pearson_upper
    >>> round(clopper_pearson_upper(15, 100), 3)
    0.222
    """
    _check_delta(delta)
    if not 0 <= errors <= n:
        raise ValueError(f"errors must be in [0, n={n}], got {errors}")
    if errors == n:
        return 1.0
    return float(beta.ppf(1.0 - delta, errors + 1, n - errors))


def are_few_for(n: int, bound: float, level: float = 0.05) -> bool:
    """Return whether n rows certify a bound on an error rate only for rates of at most half of it.

    So few rows of a group restrict a rule more than the errors there.

    Examples
    --------
    >>> from tailboost.rates.bounds import are_few_for
    >>> [n for n in (10, 20, 30, 60, 120, 240) if are_few_for(n, 0.4)]
    [10, 20]
    >>> [n for n in (10, 20, 30, 60, 120, 240) if are_few_for(n, 0.1)]
    [10, 20, 30, 60, 120]
    """
    if not (n and 0.0 < bound < 1.0):
        return False
    fewest_above_half = int(bound * n / 2) + 1
    return clopper_pearson_upper(fewest_above_half, n, level) > bound


def rows_for_no_error(allowed: float, level: float) -> int:
    """Return the fewest rows with which an exact test of an error rate passes if no row is an error.

    At an error rate of ``allowed``, so many rows are without an error with at most the probability ``level``.
    """
    return math.ceil(math.log(level) / math.log1p(-allowed))


def clopper_pearson_interval(
    error: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the two-sided interval for an error rate; each side fails with probability (1 − confidence)/2.

    Parameters
    ----------
    error : float in [0, 1], or array-like
        Observed error rate.
    n : float ≥ 0, or array-like
        Number of rows; for weighted rows Kish's effective number ``(Σw)²/Σw²`` [1]_. The interval is exact
        for whole numbers of rows and errors.
    confidence : float in (0, 1), default=0.95
        Of each interval by itself.

    Returns
    -------
    low : ndarray
        Lower ends, in the common shape; 0 without rows.
    high : ndarray
        Upper ends; 1 without rows.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    References
    ----------
    .. [1] E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of
       positive counts estimated from survey data", Survey Methodology 24, 1998.

    Examples
    --------
    >>> from tailboost.rates.bounds import clopper_pearson_interval
    >>> low, high = clopper_pearson_interval(0.15, 100)
    >>> round(float(low), 3), round(float(high), 3)
    (0.086, 0.235)
    """
    check_number(confidence, "confidence", 0, 1, below=True)
    rates, rows = np.broadcast_arrays(
        np.asarray(error, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    if not ((rates >= 0) & (rates <= 1)).all() or not (rows >= 0).all():
        raise ValueError(f"error must be in [0, 1] and n at least 0, got {error!r} and {n!r}")
    level = (1.0 - confidence) / 2.0
    n_wrong = rates * rows
    n_right = (1.0 - rates) * rows
    # A Beta variable needs positive parameters: 1 stands for 0, and the trivial bound replaces the result.
    low = beta.ppf(level, np.where(n_wrong > 0, n_wrong, 1.0), n_right + 1.0)
    high = beta.ppf(1.0 - level, n_wrong + 1.0, np.where(n_right > 0, n_right, 1.0))
    return np.where(n_wrong > 0, low, 0.0), np.where(n_right > 0, high, 1.0)


# -- means of losses in [0, 1] -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _BettingGame:
    """Bets on a mean loss below a number m, with a mixture of stakes.

    A stake of √(2 L (1 − m)/(n m)), L = log 1/δ, suits a loss with the largest possible variance m(1 − m);
    larger stakes suit smaller variances. All stakes are powers of √½. So the numbers m fall into pieces, each
    with one set of stakes and one prior. Within a piece the wealth rises with m.
    """

    values: Floats  # distinct losses; many are rounded up to a grid
    counts: Floats  # number of rows with each of them
    log_level: float  # L

    @classmethod
    def from_losses(cls, losses: ArrayLike, delta: float) -> Self:
        """Return the game for losses of independent rows, checked."""
        values, counts = np.unique(_losses(losses), return_counts=True)
        if len(values) > MOST_LOSSES:
            rounded_up = np.ceil(values * MOST_LOSSES) / MOST_LOSSES
            values, number = np.unique(rounded_up, return_inverse=True)
            counts = np.bincount(number, weights=counts)
        return cls(values, counts.astype(np.float64), -math.log(_check_delta(delta)))

    @property
    def n(self) -> float:
        """Number of rows."""
        return float(self.counts.sum())

    @property
    def last(self) -> int:
        """Number of the last piece, which ends at m = 1."""
        halvings = math.ceil(math.log2(max(1.0, self.n / (2.0 * self.log_level))))
        return halvings + MORE_STAKES

    def edge(self, piece: int) -> float:
        """Return the right end of a piece."""
        if piece < self.last:
            return 1.0 / (1.0 + 2.0**-piece * self.n / (2.0 * self.log_level))
        return 1.0

    def log_wealth(self, mean: float, piece: int) -> float:
        """Return log Σ_c π_c Π_i (1 − c + c (1 − ℓ_i)/(1 − mean)) for the stakes c of a piece, π_c ∝ 1/c."""
        stakes = np.exp2(-0.5 * np.arange(piece + 1, dtype=np.float64))
        prior = base_measure(1.0 / stakes, len(stakes))
        with np.errstate(divide="ignore"):  # a stake of 1 may lose everything
            factors = np.log1p(stakes[:, None] * ((mean - self.values) / (1.0 - mean)))
        return float(np.logaddexp.reduce(factors @ self.counts + np.log(prior)))


def betting_upper(losses: ArrayLike, delta: float = 0.05) -> float:
    """Return an upper bound on the mean of losses in [0, 1], by betting against every larger mean.

    A player who bets a share c of his wealth on the next loss being below m multiplies his wealth by
    1 − c + c (1 − ℓ)/(1 − m). If the mean is m or more, his wealth exceeds 1/δ with probability at most δ,
    for any c and for a mixture of such bets ([1]_, [2]_). The bound is the largest mean without rejection
    by the mixture. A small variance gives a small bound. The order of rows has no effect; bets that learn
    from earlier rows (as in [1]_) are tighter by up to a third, and change with every shuffle.

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        Of independent rows. More than 16,384 distinct ones are rounded up to multiples of 1/16384.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.

    Raises
    ------
    ValueError
        If a loss or δ is outside its range.

    References
    ----------
    .. [1] I. Waudby-Smith and A. Ramdas, "Estimating Means of Bounded Random Variables by Betting",
       JRSS B 86, 2024.
    .. [2] F. Orabona and K.-S. Jun, "Tight Concentrations and Confidence Sequences from the Regret of
       Universal Portfolio", IEEE Transactions on Information Theory 70, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rates.bounds import betting_upper
    >>> round(betting_upper(np.tile([0.0, 0.1, 0.2, 0.3], 50)), 3)
    0.175
    """
    game = _BettingGame.from_losses(losses, delta)
    all_rows_lose_all = float(game.values @ game.counts) >= game.n
    if game.n == 0 or all_rows_lose_all:
        return 1.0

    def excess(m: float, piece: int) -> float:
        """Return the logarithm of wealth · δ, which is at least 0 if m is rejected."""
        return game.log_wealth(m, piece) - game.log_level

    # Pieces from the top. Wealth rises with m: if the left end is rejected, the whole piece is.
    for piece in range(game.last, -1, -1):
        left = 0.0
        if piece > 0:
            left = game.edge(piece - 1)
        right = game.edge(piece)
        below_one = min(right, np.nextafter(1.0, 0.0))  # the wealth at 1 is infinite
        if excess(left, piece) >= 0.0:
            continue
        if excess(below_one, piece) < 0.0:
            return right
        root = float(brentq(excess, left, below_one, args=(piece,), xtol=1e-12))
        return min(right, root + 1e-12)  # not below the exact root
    raise AssertionError("no bet gains at a mean of 0")


def betting_p_value(losses: ArrayLike, target: float, delta: float = 0.05) -> float:
    """Return a p-value for a mean of at least ``target``: the inverse wealth of `betting_upper`'s bets.

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        Of independent rows.
    target : float in (0, 1]
        The mean to reject.
    delta : float in (0, 1), default=0.05
        The level of the bets; the p-value is valid for any level.

    Returns
    -------
    float
        In (0, 1].
    """
    game = _BettingGame.from_losses(losses, delta)
    if game.n == 0 or target >= 1.0:
        return 1.0
    piece_of_target = next(piece for piece in range(game.last + 1) if target < game.edge(piece))
    return min(1.0, math.exp(-game.log_wealth(target, piece_of_target)))


# -- tails and shifts --------------------------------------------------------------------------------------


def tail_band(losses: ArrayLike, delta: float = 0.05) -> tuple[Floats, Floats]:
    """Return a distribution with tails at least as bad as the tails of the losses, with confidence 1 − δ.

    With probability 1 − δ, the empirical distribution function nowhere exceeds the true one by more than ε.
    ε comes from the one-sided Kolmogorov–Smirnov statistic: its exact distribution up to 1,000 rows, beyond
    the Dvoretzky–Kiefer–Wolfowitz inequality √(log(1/δ)/(2n)), which holds for every n too. So a mass of ε
    moves from the smallest losses to 1. The CVaR at every α [1]_ and the worst case under every shift grow
    with the losses, so their values for this distribution are upper bounds, valid together.

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        Of independent rows.
    delta : float in (0, 1), default=0.05
        Probability of any false bound.

    Returns
    -------
    values : ndarray of shape (n + 1,)
        Losses, ascending; the last is 1.
    mass : ndarray of shape (n + 1,)
        Their probabilities.

    References
    ----------
    .. [1] P. Thomas and E. Learned-Miller, "Concentration Inequalities for Conditional Value at Risk",
       ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rates.bounds import tail_band
    >>> from tailboost.solvers import cvar
    >>> values, mass = tail_band(np.tile([0.0, 0.1, 0.2, 0.3], 50))
    >>> round(cvar(values, 0.5, mass), 3)
    0.387
    """
    _check_delta(delta)
    values = np.sort(_losses(losses))
    n = len(values)
    if n == 0:
        return np.ones(1), np.ones(1)
    epsilon = min(1.0, _epsilon(n, delta))
    # Lower bound on the distribution function, before each loss and after the last.
    distribution = np.clip(np.arange(n + 1) / n - epsilon, 0.0, 1.0)
    return np.append(values, 1.0), np.append(np.diff(distribution), epsilon)


@lru_cache
def _epsilon(n: int, delta: float) -> float:
    """Return the ε of `tail_band` for n rows."""
    if n <= MOST_EXACT:
        return float(ksone.isf(delta, n))
    return math.sqrt(-math.log(min(delta, 0.5)) / (2 * n))  # Massart's constant needs δ ≤ ½


def cvar_of_mean(mean: float, alpha: float) -> float:
    """Return the largest CVaR of a loss in [0, 1] with a mean: min(1, mean/α), as of a zero-one loss.

    Parameters
    ----------
    mean : float in [0, 1]
        The mean loss, or its upper bound.
    alpha : float in (0, 1]
        Tail mass.
    """
    return min(1.0, mean / alpha)


def shift_of_mean(mean: float, radius: float) -> float:
    """Return the largest mean of a loss in [0, 1] after a shift of the population.

    Parameters
    ----------
    mean : float in [0, 1]
        The mean loss before the shift, or its upper bound.
    radius : float ≥ 0
        Largest relative entropy KL(shifted ‖ this) of the shift.
    """
    if mean <= 0.0 or mean >= 1.0:
        return float(mean)
    # Of all losses with this mean, a zero-one loss can rise most.
    worst = worst_case_weights([0.0, 1.0], radius=radius, base=[1.0 - mean, mean])
    return min(1.0, worst.dual_value)


def band_cvar(band: tuple[Floats, Floats], alpha: float) -> float:
    """Return the CVaR at α of the distribution of `tail_band`."""
    values, mass = band
    return min(1.0, cvar(values, alpha, mass))


def band_shift(band: tuple[Floats, Floats], radius: float) -> float:
    """Return the largest mean of the distribution of `tail_band` after a shift of this relative entropy."""
    values, mass = band
    return min(1.0, worst_case_weights(values, radius=radius, base=mass).dual_value)


# -- later rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """Wealth of bets on a mean above a bound.

    If the bound is true, the wealth ever reaches 1/δ with probability at most δ.

    Batches may be added one by one, with a look after each. The j-th batch brings 1/(j (j + 1)) of the first
    wealth into play; these fractions sum to one. Bets lost before a change therefore do not hide the
    change: a late rise of the mean is found about as soon as a mean above the bound from the start. A mixture
    of bets with different starts is a fair game, because each of them is a fair game.

    Examples
    --------
    >>> from tailboost.rates.bounds import Evidence
    >>> evidence = Evidence.against(0.1).add([0, 1, 0, 0, 1] * 4)
    >>> round(evidence.value, 1), evidence.n
    (35.3, 20)
    """

    bound: float  # in [0, 1]: the tested bound
    log_wealths: Floats  # shape (21,): log wealth in play by stake; −∞ before the first batch
    n: int = 0  # rows so far
    total: float = 0.0  # sum of their losses
    batches: int = 0  # batches so far

    @classmethod
    def against(cls, bound: float) -> Self:
        """Begin with a wealth of 1."""
        return cls(bound, np.full(len(STAKES), -np.inf))

    def add(self, losses: ArrayLike) -> Self:
        """Return the evidence after a batch of further rows with losses in [0, 1]; unchanged without rows."""
        values, counts = np.unique(_losses(losses), return_counts=True)
        if not len(values):
            return self
        j = self.batches + 1
        # The batch brings a further part of the first wealth into play.
        log_wealths = np.logaddexp(self.log_wealths, -math.log(j * (j + 1)))
        if self.bound > 0.0:
            with np.errstate(divide="ignore"):  # a stake of 1 may lose everything
                log_factors = np.log1p(STAKES[:, None] * (values / self.bound - 1.0))
                log_wealths = log_wealths + log_factors @ counts
        elif values[-1] > 0.0:  # impossible under a bound of 0
            log_wealths = np.full(len(STAKES), np.inf)
        n = self.n + int(counts.sum())
        total = self.total + float(values @ counts)
        return type(self)(self.bound, log_wealths, n, total, j)

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence as plain types, for JSON; `from_dict` is the inverse."""
        logs = np.minimum(self.log_wealths, LARGEST_WEALTH).tolist()
        json_logs = [None if log == -np.inf else log for log in logs]  # before the first batch
        return {**vars(self), "log_wealths": json_logs}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return evidence written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is damaged.
        """
        json_logs = state["log_wealths"]
        logs = np.array(
            [-np.inf if log is None else log for log in json_logs], dtype=np.float64
        )
        if logs.shape != STAKES.shape or np.isnan(logs).any():
            raise ValueError("the state has no list of wealths by stake")
        n = int(state["n"])
        batches = int(state["batches"])
        return cls(float(state["bound"]), logs, n, float(state["total"]), batches)

    @property
    def value(self) -> float:
        """The wealth. A value of 20 contradicts the bound at the 5 % level, at any time."""
        with np.errstate(over="ignore"):
            in_play = float(np.exp(np.logaddexp.reduce(self.log_wealths) - np.log(len(STAKES))))
        # After k batches the part 1/1·2 + … + 1/k(k + 1) = 1 − 1/(k + 1) was brought into play.
        not_in_play = 1.0 / (self.batches + 1)
        return in_play + not_in_play


# -- ranks ---------------------------------------------------------------------------------------------------

# Nodes of the quadrature. In 300 random cases of two to five groups, 600 nodes differed by at most 1.5e-5.
NODES = 120
# Subtracted from a probability by quadrature: more than its error.
QUADRATURE_ERROR = 1e-4


def most_reached(n: int, bound: float, level: float) -> int:
    """Return the largest number of scores that may reach a threshold with a rate certified to be small.

    Parameters
    ----------
    n : int
        Number of scores.
    bound : float in [0, 1]
        The largest rate allowed.
    level : float in (0, 1)
        Probability of a false certificate.

    Returns
    -------
    int
        The largest k with P(Bin(n, bound) ≤ k) ≤ level: a threshold that at most k scores reach then has a
        rate of at most ``bound``, except with a probability of at most ``level``. −1 if no threshold among
        the scores has this property; n for a bound of 1.

    Examples
    --------
    >>> from tailboost.rates.bounds import most_reached
    >>> most_reached(59, 0.05, 0.05), most_reached(58, 0.05, 0.05), most_reached(500, 0.25, 0.05)
    (0, -1, 108)
    """
    return int(each_most_reached(np.array([n]), bound, level)[0])


def each_most_reached(n: Ints, bound: float, level: float) -> Ints:
    """Return `most_reached` for each of several numbers of scores ``n``, shape (k,)."""
    if bound >= 1.0:
        return n
    sizes, size_number = np.unique(n, return_inverse=True)  # many rules have the same number

    def is_certified(counts: Ints) -> Mask:
        return bdtr(counts.astype(np.float64), sizes, bound) <= level

    return last_inside(is_certified, np.full_like(sizes, -1), sizes - 1)[size_number]


def last_inside(holds: Callable[[Ints], Mask], low: Ints, high: Ints) -> Ints:
    """Return the largest counts from ``low`` to ``high`` up to which a property holds, by bisection.

    All bisections go in parallel; ``holds`` tells for an array of counts whether each has the property. The
    counts ``low`` have it, also −1.
    """
    while (low < high).any():
        middle = (low + high + 1) // 2
        inside = holds(np.maximum(middle, 0))
        low = np.where(inside, middle, low)
        high = np.where(inside, high, middle - 1)
    return low


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
    >>> from tailboost.rates.bounds import probability_within
    >>> round(probability_within([300, 300], [300, 300], [1000, 1000], gap=0.05), 3)
    0.983
    """
    low, high, n = np.array([least, most, sizes], dtype=np.float64)
    n_groups = len(n)

    def largest(u: Floats) -> Floats:
        """Return h(u), the largest rate that is allowed beside a smallest rate u."""
        return np.minimum((u + gap) / max(factor, 1e-300), 1.0)  # a ratio of 0 allows all rates

    def at_most(i: int, x: Floats) -> Floats:
        """Return F_V(x) = P(V ≤ x) in group i."""
        return _beta_cdf(high[i] + 1.0, n[i] - high[i], x)

    if (low == 0).any():  # the smallest L is 0
        allowed = largest(np.zeros(1))
        inside = [float(at_most(i, allowed)[0]) for i in range(n_groups)]
        return max(0.0, float(np.prod(inside)) - QUADRATURE_ERROR)
    # Gauss–Legendre nodes in [−1, 1], with weights of sum 2.
    nodes, weights = leggauss(NODES)
    total = 0.0
    for i in range(n_groups):  # the group of the smallest L
        u = betaincinv(low[i], n[i] + 1.0 - low[i], (nodes + 1.0) / 2.0)  # quantiles of L
        # V − u over 1 − u is a Beta variable too, from the n − least scores below u.
        room = np.clip((largest(u) - u) / np.maximum(1.0 - u, 1e-300), 0.0, 1.0)
        product = _beta_cdf(high[i] + 1.0 - low[i], n[i] - high[i], room)
        for j in range(n_groups):
            if j != i:
                below = betainc(low[j], n[j] + 1.0 - low[j], u)  # F_L(u)
                product = product * np.maximum(at_most(j, largest(u)) - below, 0.0)
        total += float(weights @ product) / 2.0
    return max(0.0, total - QUADRATURE_ERROR)


def _beta_cdf(a: float, b: float, x: Floats) -> Floats:
    """Return P(Beta(a, b) ≤ x); for b = 0 the variable is 1."""
    if b > 0:
        return betainc(a, b, x)
    return (x >= 1.0).astype(np.float64)
