"""Simulated coverage of bounds on populations with known truth."""

import numpy as np
import pytest
from scipy.stats import binom

from tailboost.rates.bounds import betting_upper, clopper_pearson_upper

SIZES = (5, 30, 300, 3000)
DELTA = 0.05

#: Populations of losses as (values, probabilities): their mean is exact.
POPULATIONS = {
    "rare errors": ([0.0, 1.0], [0.97, 0.03]), "many errors": ([0.0, 1.0], [0.6, 0.4]),
    "shares": ([0.0, 0.3, 0.7, 1.0], [0.7, 0.15, 0.1, 0.05]),
    "small spread": ([0.2, 0.25, 0.3], [0.3, 0.4, 0.3]), "near one": ([0.9, 1.0], [0.5, 0.5]),
    "rare and large": ([0.01, 1.0], [0.995, 0.005]),
}  # fmt: skip


def allowed_failures(repeats, delta=DELTA):
    """Largest plausible number of failures of a bound at this level (1 in 10,000)."""
    return int(binom.isf(1e-4, repeats, delta))


def draws(name, n, repeats, seed=0):
    values, p = POPULATIONS[name]
    return np.random.default_rng([seed, n]).choice(values, size=(repeats, n), p=p)


def failures_of_means(name, n, repeats):
    """Number of bounds below the mean: exact for zero-one losses, betting for all."""
    values, p = map(np.array, POPULATIONS[name])
    mean, X = float(values @ p), draws(name, n, repeats)
    found = {"betting": sum(betting_upper(x, DELTA) < mean for x in X)}
    if set(values) == {0.0, 1.0}:
        found["exact"] = sum(clopper_pearson_upper(int(x.sum()), n, DELTA) < mean for x in X)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("n", SIZES)
def test_means(name, n):
    found = failures_of_means(name, n, 2000)
    print(f"\n{name}, n = {n}: " + ", ".join(f"{k} {v / 2000:.4f}" for k, v in found.items()))
    assert max(found.values()) <= allowed_failures(2000)
