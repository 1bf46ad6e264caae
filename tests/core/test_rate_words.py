"""Rates in words are true: intervals are rounded outwards."""

import re
from statistics import NormalDist

import numpy as np
import pytest

from tailboost.core.rate_words import interval_words, lead_words


@pytest.mark.parametrize("in_percent", [True, False])
def test_printed_intervals_contain_the_exact_ones(in_percent):
    rng = np.random.default_rng(0)
    z = NormalDist().inv_cdf(0.975)
    printed_forms = set()
    for _ in range(2000):
        lead, noise = rng.normal() * 10.0 ** rng.uniform(-4, -1), 10.0 ** rng.uniform(-5, -2)
        low, high = ((1 + 99 * in_percent) * (lead + sign * z * noise) for sign in (-1, 1))
        words = interval_words(lead, noise, in_percent=in_percent)
        numbers = [float(number.replace("−", "-")) for number in re.findall(r"−?[\d.]+", words)]
        assert words.endswith(" points") == in_percent
        assert numbers[-1] >= high - 1e-9
        is_above_alone = words.startswith("at most ")
        printed_forms.add(is_above_alone)
        if is_above_alone:  # nothing is printed of an interval around 0 but its upper end
            assert low < 0.1 * high or high <= 0
        else:
            assert numbers[0] <= low + 1e-9
            assert numbers[0] * numbers[1] > 0
        assert (lead_words(lead, noise, in_percent=in_percent) is not None) == (
            numbers[0] > 0 and not is_above_alone
        )
    assert printed_forms == {True, False}


def test_an_interval_of_prices_is_not_rounded_inwards():
    """By hand: 13 ± 1.96 · .56 points is 11.9 to 14.1."""
    assert interval_words(0.13, 0.0056, in_percent=True) == "11.9 to 14.1 points"
    assert interval_words(0.0001, 0.0003, in_percent=True) == "at most 0.069 points"
