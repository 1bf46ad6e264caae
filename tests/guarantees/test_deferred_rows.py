"""A deferred row counts as deferred in metrics, rates and certificates; bare answers need `deferred=`."""

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost import metrics, rates

R = np.random.default_rng(0)
Y = R.integers(0, 2, 400)
ANSWERS = np.where(R.random(400) < 0.2, 1 - Y, Y)
DEFERRED = R.random(400) < 0.165
GROUPS = R.choice(["f", "m"], 400)
WORDS = "A deferred row is no error and no miss, and stays among the rows of a class or group"


@pytest.mark.parametrize(
    "rate",
    [
        rates.deferred(),
        rates.answered_error(by="class"),
        rates.cost([[0, 1, 0.2], [5, 0, 0.2]]),
        "deferred() <= .5",
    ],
)
def test_rates_of_deferral_need_to_know_the_deferred_rows(rate):
    with pytest.raises(ValueError, match="deferred"):
        tb.certify(ANSWERS, None, Y, rates=[rate])
    assert tb.certify(ANSWERS, None, Y, rates=[rate], deferred=DEFERRED).n_rows == 400


@pytest.mark.slow
def test_a_certificate_counts_the_deferred_rows_of_the_certified_rule():
    """The given rule may defer other rows than the one that `calibrate` certifies."""
    r = np.random.default_rng(2)
    score = r.random((6000, 1))
    y = (r.random(6000) < score[:, 0]).astype(int)
    limits = [rates.deferred() <= 0.4, rates.miss(1) <= 0.2, rates.false_alarm(1) <= 0.2]
    given = tb.tune(tb.Scores(0, 1), score[:2000], y[:2000], limits=limits)
    certified = tb.calibrate(given, score[2000:], y[2000:])
    deferred = certified.predict(score[2000:]) == "human review"
    counts = [int(given.defers(score[2000:]).sum()), int(deferred.sum())]
    assert counts[0] != counts[1]
    (line,) = [line for line in certified.certificate_.bounds if "defer" in str(line.rate)]
    assert line.estimate == pytest.approx(counts[1] / 4000)


@pytest.mark.parametrize("mask", [["no"] * 400, np.ones(3, dtype=bool), np.full(400, 0.5), np.full(400, 2)])
def test_a_mask_is_a_mask(mask):
    for call in (
        lambda: tb.certify(ANSWERS, None, Y, deferred=mask),
        lambda: metrics.class_errors(Y, ANSWERS, deferred=mask),
        lambda: rates.measure(rates.deferred(), Y, ANSWERS, deferred=mask),
    ):
        with pytest.raises(ValueError, match="deferred"):
            call()


def test_probabilities_are_no_labels():
    with pytest.raises(ValueError, match="probabilities"):
        tb.certify(R.random(400), None, Y)
    assert tb.certify(ANSWERS.astype(float), None, Y).n_rows == 400
    halves = np.where(Y == 0, 0.5, 1.5)
    assert tb.certify(halves, None, halves).bounds[0].estimate == 0


@pytest.fixture(scope="module")
def sites():
    """Scores that tell less at one site, where most unsure rows are."""
    r = np.random.default_rng(4)
    n = 8000
    site = np.where(r.random(n) < 0.3, "South", "North")
    score = np.where(site == "South", r.uniform(0.35, 0.65, n), r.random(n) > 0.4)
    score = np.clip(score + r.normal(0, 0.1, n), 0.01, 0.99)
    ill = np.where(r.random(n) < score, "ill", "well")
    return pd.DataFrame({"s": score}), ill, pd.DataFrame({"site": site})


@pytest.fixture(scope="module")
def deferring(sites):
    X, y, groups = sites
    limits = ["miss(ill, by=site) <= 30%", "deferred() <= 30%"]
    return tb.calibrate(tb.Scores("s", "ill"), X, y, groups=groups, limits=limits)
