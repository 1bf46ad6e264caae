"""A deferred row counts as deferred in metrics, rates and certificates; bare answers need `deferred=`."""

import numpy as np
import pandas as pd
import pytest
from conftest import refused

import tailboost as tb
from tailboost import metrics, rates

R = np.random.default_rng(0)
Y = R.integers(0, 2, 400)
ANSWERS = np.where(R.random(400) < 0.2, 1 - Y, Y)
DEFERRED = R.random(400) < 0.165
ASKED = ["deferred()", "answered_error(by=class)", "cost([[0, 1, .2], [5, 0, .2]])", "deferred() <= .5"]


@pytest.mark.parametrize("rate", ASKED)
def test_rates_of_deferral_need_to_know_the_deferred_rows(rate):
    refused(lambda: tb.certify(ANSWERS, None, Y, rates=[rate]), "deferred")
    assert tb.certify(ANSWERS, None, Y, rates=[rate], deferred=DEFERRED).n_rows == 400


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.DeferredRowsWarning")
def test_a_certificate_of_a_classifier_counts_its_deferred_rows_as_deferred():
    """Rates by hand: a deferred row is no error and no miss."""
    r = np.random.default_rng(3)
    score = r.random((3000, 1))
    y = (r.random(3000) < score[:, 0]).astype(int)
    limits = ["deferred() <= .4", "miss(1) <= .2", "false_alarm(1) <= .2"]
    given = tb.tune(tb.Scores(0, 1), score[:1000], y[:1000], limits=limits)
    X, y = score[1000:], y[1000:]
    deferred = given.defers(X)
    wrong = (given.predict(X) != y) & ~deferred
    asked = [rates.deferred(), rates.answered_error(), rates.error(), rates.miss(1)]
    bounds = tb.certify(given, X, y, rates=asked).bounds
    expected = [deferred.mean(), wrong[~deferred].mean(), wrong.mean(), wrong[y == 1].mean()]
    assert [bound.estimate for bound in bounds] == pytest.approx(expected)
    assert [bound.n for bound in bounds] == [2000, (~deferred).sum(), 2000, (y == 1).sum()]


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
        refused(call, "deferred")


def test_probabilities_are_no_labels():
    for number in (float, object, "Float64"):
        refused(lambda: tb.certify(pd.Series(R.random(400)).astype(number), None, Y), "probabilities")
    assert tb.certify(ANSWERS.astype(float), None, Y).n_rows == 400
    halves = np.where(Y == 0, 0.5, 1.5)
    assert tb.certify(halves, None, halves).bounds[0].estimate == 0
