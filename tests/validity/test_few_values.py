"""Scores with two to seven values: certificates are false in at most 5 % of the draws, for each support.

The rows with the largest score in the first group have the label at the rate of the limit, minus a millionth,
and all other rows of the group less often. So each rule that answers the label is beyond the limit, and each
certificate of a rule is false. One population is one draw of luck for a split that depends on the content of
each row alone, so each setting has several supports.
"""

from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from test_false_certificates import NO_PRICE, is_rare

import tailboost as tb
from tailboost.classifiers.one_batch import drawn_part
from tailboost.rows.fingerprints import hash_rows, selecting_numbers
from tailboost.rows.rows import Rows

# Values of the score, and the names of both labels.
SUPPORTS = {
    "two": ([0.1, 0.7], [0, 1]), "two grades": ([1.0, 2.0], ["no", "yes"]),
    "three": ([0.25, 0.5, 0.75], ["bad", "good"]), "five grades": ([1.0, 2.0, 3.0, 4.0, 5.0], [0, 1]),
    "seven": ([0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0], ["b", "a"]),
}  # fmt: skip
# Rate of the label among the largest scores, number of groups, rows of a cluster, and number of clusters.
SETTINGS = {"all rows": (0.7, 1, 1, 1000), "by group": (0.6, 3, 1, 1200), "clusters of two": (0.7, 1, 2, 600)}


def drawn(setting, support, seed):
    """Return a draw: the table, labels, groups and clusters."""
    rate, n_groups, size, n = SETTINGS[setting]
    values, labels = map(np.array, SUPPORTS[support])
    rng = np.random.default_rng([seed, n, len(support)])
    top = rng.random(n) < 0.4
    place = np.where(top, len(values) - 1, rng.integers(len(values) - 1, size=n))
    groups = rng.integers(n_groups, size=n)
    of_top = np.where(groups == 0, rate, 0.95)
    y = rng.random(n) < np.where(top, of_top, 0.05 + 0.2 * place / len(values))
    rows = np.repeat(np.arange(n), size)
    clusters = rows if size > 1 else None
    table = pd.DataFrame({"s": values[place]}).iloc[rows].reset_index(drop=True)
    return table, labels[y.astype(int)][rows], groups[rows], clusters


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_exact_test_on_the_certifying_part_has_its_level(setting, support):
    """The rows of the largest score in one group, counted by hand, one of each cluster."""
    rate, _, size, _ = SETTINGS[setting]
    values, labels = SUPPORTS[support]
    false = 0
    for seed in range(200):
        X, y, groups, clusters = drawn(setting, support, seed)
        rows = Rows.read(X, y, {"g": groups}, clusters=clusters)
        numbers = selecting_numbers(rows.hashes(hash_rows(X)), rows.clusters)
        tested = ~drawn_part(numbers, 0.3, needed=[rows.y]) & (X["s"] == values[-1]) & (groups == 0)
        wrong, n = np.sum(tested & (y == labels[0])) // size, np.sum(tested) // size
        false += binom.cdf(wrong, n, 1 - rate) <= 0.05
    assert is_rare(false, 200)


def certificates(setting, support, draws):
    """Return the number of certificates among some draws: all of them are false."""
    rate, n_groups, _, _ = SETTINGS[setting]
    label, found = SUPPORTS[support][1][1], 0
    scores = tb.Scores("s", label, kind="number")
    by = ", by=g" if n_groups > 1 else ""
    asked = {"limits": [f"precision({label}{by}) >= {rate + 1e-6:.6f}"], "objective": f"miss({label})"}
    for seed in draws:
        X, y, groups, clusters = drawn(setting, support, seed)
        given = {"groups": {"g": groups}} if by else {}
        with mock.patch("tailboost.classifiers.calibrating.prices", return_value=NO_PRICE):
            try:
                tb.calibrate(scores, X, y, clusters=clusters, **given, **asked)
            except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
                continue
        found += 1
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("setting", SETTINGS)
def test_false_certificates_are_rare_for_few_values(setting):
    """Forty draws in all, of which the last thirty are left out if the first ten have none."""
    false = sum(certificates(setting, support, range(2)) for support in SUPPORTS)
    more = range(2, 8)
    assert not false or is_rare(false + sum(certificates(setting, each, more) for each in SUPPORTS), 40)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_false_certificates_are_rare_for_few_values_in_many_draws(setting, support):
    false = certificates(setting, support, range(1000))
    print(f"{setting}, {support}: {false} false of 1000")
    assert is_rare(false, 1000)
