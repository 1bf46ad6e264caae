"""Limits on new rows with a stated probability, compared with new rows."""

import numpy as np
import pytest

import tailboost as tb
from tailboost import rates
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier
from tailboost.rates import Counts

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MISS = [rates.miss(1) <= 0.3]
GAP = [rates.gap(rates.selected(1, by="g")) <= 0.06]


def drawn(seed, n):
    """Return groups, true probabilities and labels; group 1 is selected more often."""
    rng = np.random.default_rng(seed)
    g = rng.integers(0, 2, n)
    p = 1 / (1 + np.exp(1 - 1.2 * (rng.normal(size=n) + 0.5 * g)))
    return g, np.column_stack([1 - p, p]), (rng.random(n) < p).astype(int)


FRESH = drawn(99, 15_000)


def selected(seed, n, limits, **params):
    g, P, y = drawn(seed, n)
    groups = {"groups": {"g": g}, "by_group": True} if limits is GAP else {}
    return RobustMixtureClassifier.from_probabilities(
        {"m": P}, y, limits=limits, classes=[0, 1], random_state=0, **groups, **params
    )


def excess(mix, limits):
    """Return by how much the limits are broken on many new rows."""
    g, P, y = FRESH
    answers = mix.predict({"m": P}, **({"groups": {"g": g}} if limits is GAP else {}))
    rows = Counts.answered(y, answers, groups={"g": g}, labels=[0, 1])
    of = [limit.sign * (limit.value(_values(limit, rows)) - limit.bound) for limit in limits]
    return float(max(of)), float(np.mean(answers != y))


def _values(limit, rows):
    return limit.rate.terms(rows.strata).values(rows.of(rows.actions))


@pytest.mark.parametrize("limits", [MISS, GAP], ids=["miss", "gap"])
def test_limits_hold_on_new_rows_more_often_with_confidence(limits):
    broken, priced = [], []
    for seed in range(6):
        plain = selected(seed, 800, limits)
        surer = plain.reweight(confidence=0.9)
        found = [excess(mix, limits) for mix in (plain, surer)]
        broken.append([one[0] for one in found])
        priced.append(found[1][1] - found[0][1])
        assert surer.limits_met_
    plain, surer = np.array(broken).T
    assert np.mean(surer <= 0) >= 0.9 - 2 * np.sqrt(0.9 * 0.1 / 6)
    assert surer.mean() < plain.mean()  # farther from the limit
    assert np.mean(priced) < 0.03


def test_a_fit_and_a_reweighting_with_confidence_select_the_same_rule():
    plain = selected(0, 1_500, GAP)
    again, fit = plain.reweight(confidence=0.9), selected(0, 1_500, GAP, confidence=0.9)
    assert again.get_params()["confidence"] == 0.9
    g, P, _ = FRESH
    np.testing.assert_array_equal(*(mix.predict({"m": P}, groups={"g": g}) for mix in (again, fit)))
    selected(0, 1_500, MISS, confidence=0.9)
    free = fit.reweight(confidence=0.0)
    np.testing.assert_array_equal(*(mix.predict({"m": P}, groups={"g": g}) for mix in (free, plain)))
    for wrong in (1.0, -0.1, "high"):
        with pytest.raises(ValueError, match="confidence"):
            plain.reweight(confidence=wrong)


def test_what_is_not_reached_is_said():
    """Both errors of useless scores add up to 1, so no rule keeps them below .52 with a margin."""
    rng = np.random.default_rng(0)
    p, y = rng.random(400), rng.integers(0, 2, 400)
    with pytest.warns(tb.ConfidenceNotReachedWarning):
        RobustMixtureClassifier.from_probabilities(
            {"m": np.column_stack([1 - p, p])},
            y,
            limits=[rates.miss(1) <= 0.54, rates.false_alarm(1) <= 0.54],
            confidence=0.9,
        )


def test_a_limit_that_holds_anyway_is_not_tightened():
    plain = selected(0, 600, [rates.miss(1) <= 0.95])
    surer = plain.reweight(confidence=0.95)
    np.testing.assert_array_equal(*(mix.predict({"m": FRESH[1]}) for mix in (plain, surer)))


def test_confidence_without_limits_is_refused():
    """Confidence is a probability of limits. To ignore it without limits would mislead."""
    _, P, y = drawn(1, 300)
    with pytest.raises(ValueError, match="confidence"):
        RobustMixtureClassifier.from_probabilities({"m": P}, y, objective="error", confidence=0.9)
    with pytest.raises(ValueError, match="confidence"):
        RobustMixtureClassifier(confidence=0.9).fit(P, y)
    free = selected(1, 300, MISS, confidence=0.9).reweight(limits=[])
    assert free.confidence is None  # left out with the limits
