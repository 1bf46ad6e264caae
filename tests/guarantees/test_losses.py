"""Certificates for given losses: joint coverage of groups, agreement with `certify`, bad input."""

import numpy as np
import pytest

import tailboost as tb


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
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tb.certify_losses(**arguments)
