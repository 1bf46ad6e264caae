"""Certified rules break a limit in at most 5 % of the draws, at the boundary of each procedure.

Where the score is uninformative, every rule that answers is beyond the limit by a millionth. Elsewhere the
objective tempts to break the limit. The number of false certificates among the draws has a binomial
distribution with a probability of at most .05.
"""

import warnings
from unittest import mock

import pytest
from harness import Population, false_certificates
from scipy.stats import binomtest

from tailboost import Price

FOUR = [0.4, 0.3, 0.2, 0.1]
TINY = [0.8, 0.1, 0.05, 0.05]
MISSES = ["miss(1, by=group) <= 0.3"]
DEFERRAL = ["miss(1, by=group) <= 0.3", "deferred() <= 0.5"]
ALARMS = {"objective": "false_alarm(1)"}
AWARE = {"by_group": True}
NO_PRICE = (Price("", 0.0, 0.0, None),)
# Shares, prevalences, separations and values of the population; limits; rows; further arguments.
SETTINGS = {
    "ranks, one threshold": ([1.0], [0.4], [1.0], 500, ["miss(1) <= 0.3"], 500, ALARMS),
    "ranks by group": (FOUR, [0.3] * 4, [1.0] * 4, 500, MISSES, 1000, ALARMS | AWARE),
    "ranks by group, 16 values": (FOUR, [0.3] * 4, [1.0] * 4, 16, ["false_alarm(1, by=group) <= 0.3"], 1000,
        {"objective": "miss(1)"} | AWARE),
    "ranks by group, tiny groups": (TINY, [0.3] * 4, [1.0] * 4, 500, MISSES, 500, ALARMS | AWARE),
    "one threshold, four groups": (FOUR, [0.3] * 4, [1.0] * 4, 500, MISSES, 1000, ALARMS),
    "clusters of two rows": (FOUR, [0.3] * 4, [1.0] * 4, 500, MISSES, 1000,
        ALARMS | AWARE | {"rows_of_cluster": 2}),
    "precision": ([1.0], [0.4], [0.0], 500, ["precision(1) >= 0.400001"], 800, {"objective": "miss(1)"}),
    "precision, 3 values": ([1.0], [0.4], [0.0], 3, ["precision(1) >= 0.400001"], 800,
        {"objective": "miss(1)"}),
    "precision by group": (FOUR, [0.4] * 4, [0.0] * 4, 16, ["precision(1, by=group) >= 0.400001"], 1000,
        {"objective": "miss(1)"} | AWARE),
    "error by group": (FOUR, [0.5] * 4, [0.0] * 4, 16, ["error(by=group) <= 0.499999"], 800,
        {"objective": "miss(1)"}),
    "answered error": ([1.0], [0.3], [0.0], 16, ["answered_error() <= 0.299999"], 800,
        {"objective": "deferred()"}),
    "misses by group and alarms": ([0.6, 0.4], [0.5] * 2, [0.0] * 2, 500,
        ["miss(1, by=group) <= 0.4", "false_alarm(1) <= 0.599999"], 1000, {"objective": "miss(1)"} | AWARE),
    "misses by group beside deferral": (FOUR, [0.5] * 4, [0.0] * 4, 500, DEFERRAL, 1000, AWARE),
    "misses beside deferral, 16 values": (FOUR, [0.5] * 4, [0.0] * 4, 16, DEFERRAL, 1000, {}),
    "ratio": ([0.5] * 2, [0.2, 0.5], [1.0] * 2, 500, ["ratio(selected(1, by=group)) >= 0.8"], 500, AWARE),
    "gap, 16 values": ([0.5] * 2, [0.2, 0.5], [1.0] * 2, 16, ["gap(selected(1, by=group)) <= 0.05"], 800,
        AWARE),
    "two gaps": ([0.5] * 2, [0.3, 0.5], [1.5, 0.7], 200, ["gap(miss(1, by=group)) <= 0.1",
        "gap(false_alarm(1, by=group)) <= 0.1"], 800, AWARE),
}  # fmt: skip


def counted(name: str, draws: range) -> int:
    """Return the number of false certificates in draws of a setting; prices are left out."""
    shares, prevalence, separation, values, limits, n, arguments = SETTINGS[name]
    population = Population.made(shares, prevalence, separation, values)
    no_prices = mock.patch("tailboost.classifiers.calibrating.prices", return_value=NO_PRICE)
    with warnings.catch_warnings(), no_prices:
        warnings.simplefilter("ignore")
        certified, false = false_certificates(population, limits, n=n, draws=draws, **arguments)
    print(f"{name}: {certified} certified, {false} false of {len(draws)}")
    return false


def is_rare(false: int, draws: int) -> bool:
    """Return whether the false certificates are no more than 5 % up to chance."""
    return bool(binomtest(false, draws, 0.05, alternative="greater").pvalue > 0.001)


@pytest.mark.parametrize("name", SETTINGS)
def test_false_certificates_are_rare(name):
    """Forty draws, of which the last 30 are left out if the first ten have none."""
    false = counted(name, range(10))
    assert false == 0 or is_rare(false + counted(name, range(10, 40)), 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_false_certificates_are_rare_in_many_draws(name):
    assert is_rare(counted(name, range(2000)), 2000)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_limits_that_need_deferral_are_certified():
    """Without deferral no rule keeps both limits; the price of a limit left out has no rule, too."""
    population = Population.made([0.5, 0.5], [0.4, 0.3], [1.8, 1.8])
    limits = ["miss(1, by=group) <= 0.2", "false_alarm(1, by=group) <= 0.15", "deferred() <= 0.5"]
    certified, _ = false_certificates(population, limits, n=3000, draws=range(3), **AWARE)
    assert certified == 3
