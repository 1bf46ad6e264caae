"""Certificates for given losses: joint coverage of groups, agreement with `certify`, bad input."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import rel_entr
from scipy.stats import beta, ksone

import tailboost as tb
from tailboost.guarantees.rate_bounds import OF_NUMBERS
from tailboost.rates.bounds import (
    band_cvar,
    band_shift,
    betting_upper,
    clopper_pearson_upper,
    cvar_of_mean,
    shift_of_mean,
    tail_band,
)
from tailboost.solvers import cvar, worst_case_weights


def test_groups_hold_jointly():
    """At 90 % at most 10 % of samples may fail; at most 33 of 200 are allowed (p < .001)."""
    failed = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        groups = rng.integers(0, 3, 400)
        losses = rng.beta(1 + groups, 4)
        certificate = tb.certify_losses(losses, groups=groups, confidence=0.9)
        true = [(1 + g) / (5 + g) for g in range(3)]
        failed += any(certificate.bound("group", g).upper < true[g] for g in range(3))
    assert failed <= 33


def test_zero_one_losses_have_the_bound_of_certify():
    rng = np.random.default_rng(0)
    y, answers = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    certificate = tb.certify_losses(answers != y, max_loss=0.6)
    rate = tb.certify(answers, None, y, rates=[tb.rates.error() <= 0.6], equal_rows="natural").bounds[0]
    assert certificate.bound("mean").upper == pytest.approx(rate.upper, abs=1e-12)
    assert certificate.certified
    assert "0.6" in str(certificate)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"losses": [0.5, 2]}, "numbers"),
        ({"losses": [0, 1], "groups": ["a"]}, "groups"),
        ({"losses": [0, 1], "confidence": 2}, "confidence"),
        ({"losses": [0, 1], "max_loss": -1}, "max_loss"),
        ({"losses": [0, 1], "alphas": [0.0]}, "alphas"),
        ({"losses": [0, 1], "shifts": [-1]}, "shifts"),
        ({"losses": [0, 1], "clusters": [0]}, "clusters"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tb.certify_losses(**arguments)


def test_tails_follow_from_the_mean_and_a_band():
    losses = np.repeat([0.0, 0.2, 1.0], [150, 40, 10])
    certificate = tb.certify_losses(losses, alphas=[0.5], shifts=[0.1])
    mean = certificate.bound("mean")
    assert mean.upper == pytest.approx(OF_NUMBERS.upper(losses, 0.05 / 2))
    band = tail_band(losses, 0.05 / 2)
    tail = certificate.bound("cvar", 0.5)
    assert tail.estimate == pytest.approx(cvar(losses, 0.5))
    assert tail.upper == min(cvar_of_mean(mean.upper, 0.5), band_cvar(band, 0.5))
    shifted = certificate.bound("shift", 0.1)
    assert shifted.estimate == pytest.approx(worst_case_weights(losses, "kl", radius=0.1).value)
    assert shifted.upper == min(shift_of_mean(mean.upper, 0.1), band_shift(band, 0.1))
    exact = tb.certify_losses(losses == 1, alphas=[0.5])
    assert exact.bound("mean").upper == clopper_pearson_upper(10, 200, 0.05)
    assert exact.bound("cvar", 0.5).upper == min(1, exact.bound("mean").upper / 0.5)


def test_bounds_are_named_after_the_given_losses_and_not_after_predict():
    certificate = tb.certify_losses(np.repeat([0.0, 1.0], [30, 60]), alphas=[0.3])
    assert "predict" not in str(certificate)
    rules = {bound["rule"] for bound in certificate.to_dict()["bounds"]}
    assert rules == {"given losses"}
    assert tb.Certificate.from_dict(certificate.to_dict()).bounds == certificate.bounds


# -- tails and shifts by other ways --------------------------------------------------------------------------


def worst_share(share, radius):
    """Return the largest q with KL((q, 1 − q) ‖ (share, 1 − share)) ≤ radius, by a root of the divergence."""

    def excess(q):
        return rel_entr(q, share) + rel_entr(1 - q, 1 - share) - radius

    return 1.0 if excess(1.0) <= 0 else brentq(excess, share, 1.0)


def worst_mean(values, mass, radius):
    """Return the largest mean in the KL ball, by its dual: min over θ of (radius + log E exp(θ v)) / θ."""
    values, mass = values[mass > 0], mass[mass > 0]

    def dual(log_theta):
        theta = np.exp(log_theta)
        return (radius + np.log(mass @ np.exp(theta * values))) / theta

    return minimize_scalar(dual, bounds=(-6, 6), method="bounded", options={"xatol": 1e-10}).fun


def band_by_hand(losses, delta):
    """Return losses with a mass of ε moved from the smallest ones to 1; ε of one-sided Kolmogorov–Smirnov."""
    n = len(losses)
    epsilon = ksone.isf(delta, n)
    values = np.append(np.sort(losses), 1.0)
    mass = np.append(np.full(n, 1 / n), epsilon)
    for i in range(n):
        moved = min(mass[i], mass.sum() - 1.0)
        mass[i] -= moved
    return values, mass


@pytest.mark.parametrize("radius", [0.01, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("mean", [0.02, 0.3, 0.8])
def test_a_mean_rises_by_a_shift_to_the_root_of_the_divergence(mean, radius):
    assert shift_of_mean(mean, radius) == pytest.approx(worst_share(mean, radius), abs=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.9, 1.0])
def test_the_cvar_of_a_zero_one_loss_is_its_mean_over_the_tail(alpha):
    """Of 1,000 rows 120 err: the worst α of the rows has all of them, or errs throughout."""
    worst = np.sort(np.repeat([0.0, 1.0], [880, 120]))[::-1][: round(1000 * alpha)]
    assert cvar_of_mean(0.12, alpha) == pytest.approx(worst.mean())


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.2])
def test_a_band_moves_the_mass_of_the_exact_statistic_to_a_loss_of_one(delta):
    losses = np.random.default_rng(0).beta(1, 3, 80)
    values, mass = tail_band(losses, delta)
    expected_values, expected_mass = band_by_hand(losses, delta)
    np.testing.assert_allclose(values, expected_values)
    np.testing.assert_allclose(mass, expected_mass, atol=1e-12)


@pytest.mark.parametrize("radius", [0.02, 0.1, 0.6])
def test_a_band_rises_by_a_shift_to_the_minimum_of_the_dual(radius):
    losses = np.random.default_rng(1).beta(1, 3, 80)
    expected = worst_mean(*band_by_hand(losses, 0.05), radius)
    assert band_shift(tail_band(losses, 0.05), radius) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("alpha", [0.05, 0.25, 0.7])
def test_the_cvar_of_a_band_is_the_mean_of_its_worst_mass(alpha):
    losses = np.random.default_rng(2).beta(1, 3, 80)
    values, mass = band_by_hand(losses, 0.05)
    # The worst mass α on a fine grid of quantiles.
    quantiles = 1.0 - alpha * (np.arange(200_000) + 0.5) / 200_000
    tail = values[np.minimum(np.searchsorted(np.cumsum(mass), quantiles), len(values) - 1)]
    assert band_cvar(tail_band(losses, 0.05), alpha) == pytest.approx(tail.mean(), abs=1e-5)


def test_bounds_on_tails_and_shifts_of_zero_one_losses_follow_from_the_exact_bound():
    """20 of 200 rows err; mean, CVaR and shift of a zero-one loss have one exact bound of the whole level."""
    certificate = tb.certify_losses(np.repeat([0, 1], [180, 20]), alphas=[0.4, 0.05], shifts=[0.05, 0.4])
    upper = beta.ppf(0.95, 21, 180)
    assert certificate.bound("mean").upper == pytest.approx(upper)
    assert certificate.bound("cvar", 0.4).upper == pytest.approx(upper / 0.4)
    assert certificate.bound("cvar", 0.05).upper == 1.0
    for radius in (0.05, 0.4):
        assert certificate.bound("shift", radius).upper == pytest.approx(worst_share(upper, radius))


def test_bounds_on_tails_and_shifts_of_equal_losses_follow_from_the_band():
    """Rows that all lose .5 have a tight band: it takes half the level, and decides tails and shifts."""
    losses = np.full(400, 0.5)
    certificate = tb.certify_losses(losses, alphas=[0.1, 0.5], shifts=[0.02, 0.2])
    epsilon = ksone.isf(0.025, 400)
    for alpha in (0.1, 0.5):
        by_hand = (epsilon + 0.5 * (alpha - epsilon)) / alpha
        assert certificate.bound("cvar", alpha).upper == pytest.approx(by_hand, abs=1e-9)
    for radius in (0.02, 0.2):
        by_hand = 0.5 + 0.5 * worst_share(epsilon, radius)
        assert certificate.bound("shift", radius).upper == pytest.approx(by_hand, abs=1e-7)


@pytest.mark.parametrize("type_of_losses", [bool, int, float])
def test_the_type_of_losses_selects_the_bound_and_their_values_do_not(type_of_losses):
    """One loss of .5 among floats changes no method; losses of 0 and 1 of type float are told the type."""
    wrong = np.repeat([0, 1], [180, 20])
    asked = {"groups": np.arange(200) % 2, "alphas": [0.4]}
    found = tb.certify_losses(wrong.astype(type_of_losses), **asked)
    is_float = type_of_losses is float
    assert ("losses of type bool have tighter bounds" in found.assumptions) == is_float
    methods = {bound.method for bound in found.bounds if bound.kind in ("mean", "group")}
    assert methods == {OF_NUMBERS.name if is_float else "Clopper–Pearson"}
    parts = 4 if is_float else 3  # of the level; a band for the tail is needed for other losses than 0 and 1
    upper = OF_NUMBERS.upper(wrong, 0.05 / 4) if is_float else beta.ppf(1 - 0.05 / parts, 21, 180)
    assert found.bound("mean").upper == pytest.approx(upper)
    if is_float:
        one_half = tb.certify_losses(np.where(np.arange(200) == 199, 0.5, wrong), **asked)
        assert [b.method for b in one_half.bounds] == [b.method for b in found.bounds]
        assert "type bool" not in one_half.assumptions


def test_means_of_several_groups_share_the_level_evenly():
    """Two groups and all rows: three exact bounds at a third of the level each."""
    wrong = np.repeat([0, 1, 0, 1], [90, 10, 40, 20])
    groups = np.repeat(["a", "b"], [100, 60])
    certificate = tb.certify_losses(wrong, groups=groups, confidence=0.9)
    for kind, name, k, n in (("mean", None, 30, 160), ("group", "a", 10, 100), ("group", "b", 20, 60)):
        bound = certificate.bound(kind, name)
        assert bound.upper == pytest.approx(beta.ppf(1 - 0.1 / 3, k + 1, n - k))


@pytest.mark.parametrize("mean", [0.05, 0.4])
def test_a_shift_of_the_divergence_of_two_shares_leads_from_one_to_the_other(mean):
    for share in np.linspace(mean + 0.01, 0.99, 9):
        radius = rel_entr(share, mean) + rel_entr(1 - share, 1 - mean)
        assert shift_of_mean(mean, radius) == pytest.approx(share, abs=1e-8)


@pytest.mark.parametrize("theta", [0.3, 2.0, 9.0])
def test_a_shift_of_the_divergence_of_a_tilted_band_has_its_mean(theta):
    """Weights in proportion to mass · exp(θ · loss) have the largest mean of their divergence."""
    losses = np.random.default_rng(3).beta(1, 3, 60)
    values, mass = band_by_hand(losses, 0.05)
    tilted = mass * np.exp(theta * values)
    tilted /= tilted.sum()
    radius = rel_entr(tilted, mass).sum()
    assert band_shift(tail_band(losses, 0.05), radius) == pytest.approx(tilted @ values, abs=1e-7)


@pytest.mark.parametrize("n_largest", [1, 10, 45])
def test_the_cvar_of_a_band_is_the_loss_of_one_and_the_largest_losses(n_largest):
    losses = np.random.default_rng(4).beta(1, 3, 80)
    epsilon = ksone.isf(0.05, 80)
    alpha = epsilon + n_largest / 80
    by_hand = (epsilon + np.sort(losses)[-n_largest:].sum() / 80) / alpha
    assert band_cvar(tail_band(losses, 0.05), alpha) == pytest.approx(by_hand, abs=1e-9)


@pytest.mark.parametrize("delta", [0.005, 0.05, 0.3])
def test_of_many_rows_a_band_moves_the_mass_of_massarts_inequality(delta):
    """√(log(1/δ) / (2n)), which is a little more than the quantile of the exact statistic."""
    _, mass = tail_band(np.linspace(0, 0.5, 1500), delta)
    assert mass[-1] == pytest.approx(np.sqrt(np.log(1 / delta) / 3000))
    assert ksone.isf(delta, 1500) <= mass[-1] <= 1.05 * ksone.isf(delta, 1500)


def test_of_many_equal_losses_the_cvar_has_the_mass_of_massarts_inequality():
    certificate = tb.certify_losses(np.full(2000, 0.5), alphas=[0.2])
    epsilon = np.sqrt(np.log(1 / 0.025) / 4000)
    assert certificate.bound("cvar", 0.2).upper == pytest.approx((epsilon + 0.5 * (0.2 - epsilon)) / 0.2)


@pytest.mark.parametrize(("loss", "n", "delta"), [(0.0, 20, 0.05), (0.3, 100, 0.05), (0.1, 400, 0.01)])
def test_the_bets_on_equal_losses_reach_the_inverse_of_the_level_at_the_bound(loss, n, delta):
    """All stakes of a piece, 2^(−i/2) with weights in proportion to 2^(i/2), on a fine grid of means."""
    log_level = np.log(1 / delta)
    edges = [0.0]
    while len(edges) < 60:
        edges.append(1 / (1 + 2.0 ** -(len(edges) - 1) * n / (2 * log_level)))
    last = int(np.ceil(np.log2(max(1.0, n / (2 * log_level))))) + 8
    edges = [*edges[: last + 1], 1.0]
    largest = 0.0
    for piece, (low, high) in enumerate(pairwise(edges)):
        means = np.linspace(low, high, 4001)[:-1]
        stakes = 2.0 ** (-0.5 * np.arange(piece + 1))
        prior = (1 / stakes) / (1 / stakes).sum()
        with np.errstate(over="ignore"):
            wealth = prior @ (1 - stakes[:, None] + stakes[:, None] * (1 - loss) / (1 - means)) ** n
        largest = max(largest, means[wealth < 1 / delta].max(initial=0.0))
    assert betting_upper(np.full(n, loss), delta) == pytest.approx(largest, abs=2e-4)
