"""Limits on the answer 0 or 1 in groups beside deferral: a threshold for the errors, then the width."""

import copy
import warnings
from functools import cache
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import tailboost as tb
from tailboost.guarantees import calibration
from tailboost.guarantees.width_of_deferral import WidthOfDeferral

LEVEL = 0.05  # of the only attempt
OF_ERRORS = 0.8 * LEVEL
# Limits on misses, and the same of false alarms: the labels and the score in reverse.
OF_MISSES = ["miss(1, by=g) <= 20%", "deferred() <= 25%"]
OF_ALARMS = ["false_alarm(1, by=g) <= 20%", "deferred() <= 25%"]


def drawn(seed, n, decimals=9, shares=(0.6, 0.4)):
    rng = np.random.default_rng(seed)
    g = rng.choice(len(shares), n, p=shares)
    score = rng.beta(1.5, 2.0, n).round(decimals)
    y = (rng.random(n) < score ** np.where(g == 0, 1.0, 0.8)).astype(int)
    return pd.DataFrame({"s": score}), y, pd.DataFrame({"g": g})


@cache
def selected(limits, decimals=9):
    X, y, groups = drawn(1, 400, decimals)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tb.tune(tb.Scores("s", 1), X, y, groups=groups, limits=list(limits))


def calibrated(limits, X, y, groups, decimals=9):
    rule = copy.deepcopy(selected(tuple(limits), decimals))
    return tb.calibrate(rule, X, y, groups=groups, attempts=1)


def answers_of(rule, X):
    return np.where(rule.defers(X), 2, rule.predict(X, deferred=-1))


def passes(errors, n, most, level):
    return n > 0 and binom.cdf(errors, n, most) <= level


class Stopped(Exception):
    """Raised in place of the tests."""


def procedure_for(limits, X, y, groups):
    found = []

    def run(procedure):
        found.append(procedure)
        raise Stopped

    with mock.patch.object(WidthOfDeferral, "run", run), pytest.raises(Stopped):
        calibrated(limits, X, y, groups)
    return found[0]


@pytest.mark.parametrize("limits", [OF_MISSES, OF_ALARMS])
def test_the_thresholds_before_the_tests_depend_on_no_label_of_the_fresh_rows(limits):
    X, y, groups = drawn(2, 900)
    other = np.random.default_rng(0).permutation(y)
    orders = [procedure_for(limits, X, labels, groups).sequence for labels in (y, other)]
    np.testing.assert_equal(*orders)
    assert len(orders[0][0]) > 10


@pytest.mark.parametrize("decimals", [9, 1])
@pytest.mark.parametrize(("limits", "answer"), [(OF_MISSES, 0), (OF_ALARMS, 1)])
def test_the_certified_rule_passes_the_exact_tests_at_their_parts_of_the_level(limits, answer, decimals):
    """Also with scores of eleven values; the deferred rows are those between two thresholds."""
    for seed in range(3):
        X, y, groups = drawn(seed + 10, 900, decimals)
        rule = calibrated(limits, X, y, groups, decimals)
        assert "limits the share deferred" in " ".join(rule.certificate_.notes)
        answers = answers_of(rule, X)
        for g in (0, 1):
            counted = (groups["g"] == g).to_numpy() & (y == 1 - answer)
            errors = (answers[counted] == answer).sum()
            assert errors == 0 or passes(errors, counted.sum(), 0.2, OF_ERRORS)
        # At least two thresholds divide the level of deferral: one without the limited answer.
        deferred = (answers == 2).sum()
        assert deferred == 0 or passes(deferred, len(y), 0.25, (LEVEL - OF_ERRORS) / 2)
        by_score = pd.Series(answers).groupby(X["s"].to_numpy()).agg(["min", "max"])
        assert (by_score["min"] == by_score["max"]).all()
        order = {0: 0, 2: 1, 1: 2}
        assert by_score["min"].map(order).is_monotonic_increasing


def test_no_threshold_behind_a_failed_test_is_certified(monkeypatch):
    """All tests pass but one: looser thresholds are out, whatever their loss."""
    X, y, groups = drawn(3, 900)
    thresholds = procedure_for(OF_MISSES, X, y, groups).sequence[0]
    beside = WidthOfDeferral.beside
    for failing in (1, 3, len(thresholds) - 1):
        tested = []

        def keeps(procedure, threshold, failing=failing, tested=tested):
            tested.append(threshold)
            return threshold != thresholds[failing]

        monkeypatch.setattr(WidthOfDeferral, "keeps_errors", keeps)
        widths = []

        def recorded(procedure, threshold, widths=widths, beside=beside):
            widths.append(threshold)
            return beside(procedure, threshold)

        monkeypatch.setattr(WidthOfDeferral, "beside", recorded)
        procedure = procedure_for(OF_MISSES, X, y, groups)
        procedure.run()
        assert tested == thresholds[1 : failing + 1].tolist()
        assert widths == thresholds[:failing].tolist()
        monkeypatch.undo()


def test_the_rule_has_nearly_the_error_of_the_best_thresholds_that_are_tested_in_the_same_way():
    """All pairs of 200 thresholds on many rows, within limits: the price of 3,000 rows is small."""
    X, y, groups = drawn(4, 3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rule = tb.calibrate(tb.Scores("s", 1), X, y, groups=groups, limits=OF_MISSES)
    new, labels, new_groups = drawn(5, 100_000)
    score, g = new["s"].to_numpy(), new_groups["g"].to_numpy()
    errors = []
    for low in np.linspace(0, 1, 201):
        missed = [((score < low) & (labels == 1))[g == k].sum() / (labels[g == k] == 1).sum() for k in (0, 1)]
        if max(missed) > 0.2:
            break
        high = np.quantile(score, min((score < low).mean() + 0.25, 1.0))
        errors.append((((score < low) & (labels == 1)) | ((score >= high) & (labels == 0))).mean())
    answers = answers_of(rule, new)
    assert ((answers != labels) & (answers != 2)).mean() < min(errors) + 0.05


BOUNDARY = {
    "many values": (9, (0.5, 0.5), OF_MISSES),
    "few values": (1, (0.5, 0.5), OF_MISSES),
    "a tiny group": (9, (0.93, 0.07), OF_MISSES),
    "false alarms, few values": (1, (0.5, 0.5), OF_ALARMS),
}


def uninformative(seed, n, decimals, shares):
    """The score says nothing of the label: a threshold beyond a fifth of the rows breaks the limit."""
    X, _, groups = drawn(seed, n, decimals, shares)
    return X, np.random.default_rng([seed, 1]).integers(0, 2, n), groups


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDARY)
def test_certificates_at_the_boundary_are_false_no_more_often_than_stated(name):
    """All thresholds up to the boundary and beyond it are tested; losses drive both limits to their ends."""
    decimals, shares, limits = BOUNDARY[name]
    true_scores = drawn(99, 400_000, decimals, shares)[0]["s"].to_numpy()
    false = certified = 0
    n_draws = 300
    for seed in range(n_draws):
        X, y, groups = uninformative(seed, 700, decimals, shares)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                rule = tb.calibrate(tb.Scores("s", 1), X, y, groups=groups, limits=limits, attempts=1)
            except tb.NotCertifiedError:
                continue
        certified += 1
        answers = answers_of(rule, pd.DataFrame({"s": true_scores}))
        limited = 0 if limits is OF_MISSES else 1
        false += (answers == limited).mean() > 0.2 or (answers == 2).mean() > 0.25
    assert certified > n_draws / 2
    assert binom.sf(false - 1, n_draws, LEVEL) > 0.001


def test_other_limits_have_other_procedures():
    """Limits on both answers, a precision, an answer in all rows, thresholds by group, and clusters."""
    X, y, groups = drawn(6, 900)
    served = []

    def recorded(*given):
        served.append(WidthOfDeferral(*given).applies)
        raise Stopped

    stated = [
        (["miss(1, by=g) <= 40%", "false_alarm(1, by=g) <= 40%", "deferred() <= 40%"], {}),
        (["precision(1, by=g) >= 60%", "deferred() <= 25%"], {}),
        (["miss(1) <= 20%", "deferred() <= 25%"], {}),
        (OF_MISSES, {"by_group": "g"}),
        (OF_MISSES, {}),
    ]
    with mock.patch.object(calibration, "first_that_applies", recorded):
        for limits, params in stated:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                rule = tb.tune(
                    tb.Scores("s", 1), X[:400], y[:400], groups=groups[:400], limits=limits, **params
                )
            with pytest.raises(Stopped):
                tb.calibrate(copy.deepcopy(rule), X[400:], y[400:], groups=groups[400:], attempts=1)
        with pytest.raises(Stopped):
            tb.calibrate(
                copy.deepcopy(rule), X[400:], y[400:], groups=groups[400:], clusters=np.arange(500) // 2
            )
    assert served == [False, False, False, False, True, False]
