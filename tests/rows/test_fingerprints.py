"""Fingerprints of rows: rows that are equal by chance."""

import numpy as np
import pytest
from scipy.stats import poisson

from tailboost.rows.fingerprints import Fingerprint, hash_rows, poisson_tail, too_many


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


# Tables of few integers: an age with grades, counts, many rows of zeros, correlated columns.
FEW_VALUES = {
    "age": lambda r, n: [r.integers(20, 80, n), r.integers(0, 2, n), r.integers(0, 20, n)],
    "counts": lambda r, n: [np.minimum(r.poisson(k / 3, n), k) for k in (30, 12, 8, 5, 3, 2)],
    "zeros": lambda r, n: list(r.integers(0, 40, (4, n)) * (r.random(n) < 0.7)),
    "correlated": lambda r, n: [(a := r.integers(0, 60, n)), a // 2, r.integers(0, 40, n)],
}
SIZES = [(400, 400), (4000, 6000), (1000, 100), (100, 600), (10_000, 300), (300, 10_000)]


def drawn(kind, r, n):
    return hash_rows(np.column_stack(FEW_VALUES[kind](r, n)).astype(float))


@pytest.mark.parametrize("kind", FEW_VALUES)
def test_independent_tables_of_few_values_have_no_copies_and_copied_rows_are_found(kind):
    """Every second row of a table is copied; the others, and those of another table, are drawn anew."""
    r = np.random.default_rng(0)
    n_many = n_refused = n_found = 0
    for m, n in SIZES:
        for _ in range(20):
            known_rows, fresh = drawn(kind, r, m), drawn(kind, r, n)
            known = Fingerprint.from_hashes(known_rows)
            n_many += too_many(*known.count(fresh))
            n_refused += known.share_copied(fresh) > 0.0
            if m == n or (m, n) == (4000, 6000):
                half = np.r_[r.choice(known_rows, n // 2, replace=False), fresh[n // 2 :]]
                n_found += known.share_copied(half) > 0.0
    assert n_many >= 20  # chance makes many equal rows
    assert n_refused <= 1
    assert n_found >= 39


def test_the_rarest_rows_of_the_larger_table_decide_nothing():
    """1,000 rows of ages beside 20 fresh ones: chance makes a third of them equal."""
    r = np.random.default_rng(1)
    for _ in range(100):
        known = Fingerprint.from_hashes(drawn("age", r, 1000))
        assert known.share_copied(drawn("age", r, 20)) == 0.0


@pytest.mark.parametrize("copied", ["known", "fresh"])
@pytest.mark.parametrize("times", [2, 5])
def test_copies_within_one_table_explain_nothing(copied, times):
    """Oversampling makes equal rows in one table, and chance none in the other."""
    r = np.random.default_rng(2)
    rows, others = (r.integers(2**63, size=800, dtype=np.uint64) * np.uint64(2) for _ in range(2))
    tables = {"known": rows, "fresh": np.r_[rows[:200], others[:600]]}
    tables[copied] = np.repeat(tables[copied], times)
    known = Fingerprint.from_hashes(tables["known"])
    assert known.share_copied(tables["fresh"]) == pytest.approx(0.25)
    assert known.share_copied(np.repeat(others, times)) == 0.0


def test_a_sample_of_many_rows_decides_as_all_of_them():
    r = np.random.default_rng(3)
    known_rows, fresh = drawn("counts", r, 60_000), drawn("counts", r, 20_000)
    known = Fingerprint.from_hashes(known_rows, most=2_000)
    assert known.limit < Fingerprint.COMPLETE
    assert known.n_distinct == pytest.approx(len(np.unique(known_rows)), rel=0.1)
    assert too_many(*known.count(fresh))
    assert known.share_copied(fresh) == 0.0
    assert known.share_copied(np.r_[known_rows[:15_000], fresh[:5_000]]) > 0.5


def test_chance_explains_at_most_one_row_in_five():
    """Rows of a small table itself, and fresh rows of few values, are alike: both need a statement."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2**63, 256, dtype=np.uint64)
    known, fresh = (rng.choice(table, 2000) for _ in range(2))
    training = Fingerprint.from_hashes(known)
    for rows in (known, rng.permutation(known)[:1000], fresh):
        of_rows = Fingerprint.from_hashes(rows)
        assert not training.has_copies(*training.count(rows), of_rows)
        assert training.refuses(*training.count(rows), of_rows)
    rare = rng.integers(0, 2**63, 40_000, dtype=np.uint64)
    known, fresh = (rng.choice(rare, 4000) for _ in range(2))
    training = Fingerprint.from_hashes(known)
    equal, compared = training.count(fresh)
    assert 0.05 < equal / compared < 0.2
    assert not training.refuses(equal, compared, Fingerprint.from_hashes(fresh))
