"""Whether columns of probabilities stand in another order than their labels."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from tailboost.core.array_types import Floats, Ints

# Classes with fewer rows show nothing: the sums below are not near to normal there.
LEAST_ROWS = 20
# How often a model that knows nothing may be suspected, over all orders of its columns.
FALSE_ALARMS = 1e-6


def better_order(logs: Floats, y: Ints) -> Ints | None:
    """Return the column that fits each class, where another order fits the labels better than chance allows.

    The order is the one in which rows have, summed over all, the largest probabilities of their own class
    beyond the mean of the column. A model without merit finds one too, so it counts only where its gain over
    the order given is larger than shuffled labels give it: z² ≥ 2 log(K!/10⁻⁶), by the exact mean and
    variance of the gain over all shuffles (Hoeffding 1951) and the tail of a normal law for each of the K!
    orders.

    Parameters
    ----------
    logs : ndarray of shape (n, K)
        Log-probabilities.
    y : ndarray of shape (n,)
        Class numbers.

    Returns
    -------
    ndarray of shape (K,) or None
    """
    K, P = logs.shape[1], np.exp(logs)
    counts = np.bincount(y, minlength=K)
    sums = np.zeros((K, K))
    np.add.at(sums, y, P - P.mean(axis=0))
    large = np.flatnonzero(counts >= LEAST_ROWS)
    order = np.arange(K)
    order[large] = large[linear_sum_assignment(sums[np.ix_(large, large)], maximize=True)[1]]
    moved = np.flatnonzero(order != np.arange(K))
    if not len(moved):
        return None
    rows = np.isin(y, moved)
    gain = P[rows][:, order[moved]] - P[rows][:, moved]  # of each row, were it of each class
    share = counts[moved] / rows.sum()
    gain -= gain.mean(axis=0)
    gain -= (gain @ share)[:, None]
    total = gain[np.arange(len(gain)), np.searchsorted(moved, y[rows])].sum()
    variance = (gain**2 @ counts[moved]).sum() / (len(gain) - 1)
    surprise = 2 * (gammaln(K + 1) - np.log(FALSE_ALARMS))
    return order if total > 0 and total**2 >= surprise * variance > 0 else None
