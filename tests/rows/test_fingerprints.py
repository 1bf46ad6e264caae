"""Fingerprints of rows: rows that are equal by chance."""

import numpy as np
import pytest
from scipy.stats import poisson

from tailboost.rows.fingerprints import Fingerprint, poisson_tail


def test_different_rows_with_the_same_short_hash_are_chance():
    """50,000 kept hashes of 32 bits: 417 compared rows have one of another row in 3 % of the calls."""
    known = Fingerprint.from_hashes(
        np.random.default_rng(0).integers(2**63, size=360_000, dtype=np.uint64) * np.uint64(2)
    )
    n_warned = n_equal = 0
    for seed in range(300):
        rows = np.random.default_rng([1, seed]).integers(2**63, size=3_000, dtype=np.uint64) * np.uint64(2)
        equal, compared = known.count(rows)
        n_equal += equal
        n_warned += known.exceeds_repeats(equal, compared)
    assert n_equal > 0
    assert n_warned == 0
    assert known.exceeds_repeats(8, 417)


@pytest.mark.parametrize(("least", "mean"), [(0, 0.1), (1, 0.06), (4, 0.06), (100, 60.0), (900, 700.0)])
def test_the_tail_of_a_poisson_variable_is_that_of_scipy(least, mean):
    assert poisson_tail(least, mean) == pytest.approx(poisson.sf(least - 1, mean), abs=1e-10)
