"""Upper bounds on the mean loss of the worst rows, and of all populations near that of the rows."""

import math

import numpy as np

from tailboost.core import Column, Floats
from tailboost.rates import Rate
from tailboost.rates.bounds import POWERS, betting_upper
from tailboost.solvers import cvar, worst_case_weights

# Thresholds θ of a tail. In four populations at two α and two numbers of rows the mean bound is .559 with 4
# of them, .560 with 8, and .566 with 16; with 8 single bounds are up to .028 below those with 4.
THRESHOLDS = np.arange(8) / 8
# `shift_upper` tries these divided by √(2 kl) as temperatures t. For a small divergence kl the best t is
# σ/√(2 kl), and losses in [0, 1] have a standard deviation σ of at most a half. The steps are powers of √½.
DEVIATIONS = POWERS[:8] / 2


def tail_upper(losses: Floats, alpha: float, delta: float = 0.05) -> float:
    """Return an upper bound on the mean loss of the worst fraction α of a population (CVaR).

    **Theorem.** With probability at least 1 − δ over independent losses ℓ in [0, 1] the result is at least
    max {E(wℓ) : 0 ≤ w ≤ 1/α, E w = 1}. So it is at least E(ℓ | G) for every group G of probability α or more,
    named or not.

    *Proof.* For each number θ < 1 and each such w, E(wℓ) ≤ θ + E(w(ℓ − θ)₊) ≤ θ + E(ℓ − θ)₊/α; the least over
    all θ is attained ([1]_). The numbers (ℓ − θ)₊/(1 − θ) are in [0, 1], so `betting_upper` at δ/k is below
    their mean with probability at most δ/k. With probability at least 1 − δ this happens at none of k fixed
    θ; then each of the k bounds holds, and so does their least. The group G has the weights w = 1_G/P(G). ∎

    Parameters
    ----------
    losses : ndarray of shape (n,), in [0, 1]
        Of independent rows.
    alpha : float in (0, 1]
        The fraction.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.

    References
    ----------
    .. [1] R. T. Rockafellar and S. Uryasev, "Optimization of Conditional Value-at-Risk", Journal of Risk 2,
       2000.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.guarantees.tail import tail_upper
    >>> round(tail_upper(np.tile([0.0, 0.0, 0.1, 0.5], 500), alpha=0.5), 3)
    0.333
    """
    theta = THRESHOLDS[:, None]
    uppers = _uppers(np.maximum(losses - theta, 0.0) / (1.0 - theta), delta)
    return float((theta + (1.0 - theta) * uppers / alpha).min(initial=1.0))


def shift_upper(losses: Floats, kl: float, delta: float = 0.05) -> float:
    """Return an upper bound on the mean loss in all populations Q with KL(Q ‖ P) ≤ ``kl``.

    P is the population of the losses. A group G of P has KL(P(· | G) ‖ P) = −log P(G).

    **Theorem.** With probability at least 1 − δ over independent losses ℓ in [0, 1] the result is at least
    max {E_Q ℓ : KL(Q ‖ P) ≤ kl}.

    *Proof.* For each number t > 0 and each such Q, E_Q ℓ ≤ t log E_P e^{ℓ/t} + t KL(Q ‖ P) (the inequality
    of Donsker and Varadhan for ℓ/t); the least over all t is attained or approached ([1]_). The right side
    rises with the mean under P of (e^{ℓ/t} − 1)/(e^{1/t} − 1). These numbers are in [0, 1], so
    `betting_upper` at δ/k is below their mean with probability at most δ/k. With probability at least 1 − δ
    this happens at none of k fixed t; then each of the k bounds holds, and so does their least. ∎

    Parameters
    ----------
    losses : ndarray of shape (n,), in [0, 1]
        Of independent rows.
    kl : float > 0
        The largest divergence.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.

    References
    ----------
    .. [1] Z. Hu and L. J. Hong, "Kullback–Leibler Divergence Constrained Distributionally Robust
       Optimization", Optimization Online, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.guarantees.tail import shift_upper
    >>> round(shift_upper(np.tile([0.0, 0.0, 0.1, 0.5], 500), kl=0.05), 3)
    0.237
    """
    t = DEVIATIONS[:, None] / math.sqrt(2.0 * kl)
    # Divided by e^{1/t}, which may overflow; differences of exponentials are e^a − e^b = e^a (1 − e^{b − a}).
    width = -np.expm1(-1.0 / t)
    uppers = _uppers(np.exp((losses - 1.0) / t) * -np.expm1(-losses / t) / width, delta)
    # With a mean m of these numbers, log E_P e^{ℓ/t} = 1/t + log(1 + width (m − 1)).
    return float((1.0 + t * np.log1p(width * (uppers - 1.0)) + t * kl).min(initial=1.0))


def _uppers(numbers: Floats, delta: float) -> Floats:
    """Return upper bounds on the means of k rows of numbers, (k, n), which hold together, shape (k, 1)."""
    bounds = [betting_upper(each.clip(0.0, 1.0), delta / len(numbers)) for each in numbers]
    return np.array(bounds)[:, None]


UPPER = {"tail": tail_upper, "shift": shift_upper}


def worst_mean(rate: Rate, losses: Column, base: Column = None) -> float:
    """Return the tail or shift of a population of losses with a base measure, by default of equal weights."""
    if rate.kind == "tail":
        return cvar(losses, rate.level, base)
    return worst_case_weights(losses, radius=rate.level, base=base).value
