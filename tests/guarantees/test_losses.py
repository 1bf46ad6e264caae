"""Certificates for given losses: joint coverage of groups, agreement with `certify`, bad input."""

import numpy as np
import pytest

import tailboost as tb
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
        ({"losses": [0.5, 2]}, "losses must be a vector of numbers in"),
        ({"losses": [0, 1], "groups": ["a"]}, "groups"),
        ({"losses": [0, 1], "confidence": 2}, "confidence"),
        ({"losses": [0, 1], "max_loss": -1}, "max_loss"),
        ({"losses": [0, 1], "alphas": [0.0]}, "each of alphas must be in"),
        ({"losses": [0, 1], "shifts": [-1]}, "each of shifts must be in"),
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
    assert mean.upper == betting_upper(losses, 0.05 / 2)
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
    assert "mean of the given losses" in str(certificate)
    assert "predict" not in str(certificate)
    rules = {bound["rule"] for bound in certificate.to_dict()["bounds"]}
    assert rules == {"given losses"}
    assert tb.Certificate.from_dict(certificate.to_dict()).bounds == certificate.bounds
