"""The price of a certificate, and what a target without a certificate lacks, as data."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

import tailboost as tb
from tailboost import rates
from tailboost.app.model_card import ModelCard
from tailboost.guarantees.calibration import missed
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.rate_bounds import RateFamily, Shortfall
from tailboost.rates import Answered


def draw(n, seed, shift=1.5):
    rng = np.random.default_rng(seed)
    y, g = (rng.random(n) < 0.35).astype(int), np.where(rng.random(n) < 0.5, "a", "b")
    return pd.DataFrame({"s": shift * y + 0.3 * (g == "b") + rng.normal(size=n)}), y, g


SCORES = tb.Scores("s", 1, kind="logit")
LIMITS = ["miss(1, by=group) <= .3", "precision(1) >= .5"]


@pytest.fixture(scope="module")
def calibrated():
    T, y, g = draw(1500, 0)
    clf = tb.tune(SCORES, T, y, groups=g, limits=LIMITS)
    rows = draw(6000, 1)
    return clf, tb.calibrate(clf, rows[0], rows[1], groups=rows[2]), rows


@pytest.fixture(scope="module")
def ranked():
    """A rule with one limit, which ranks certify at once."""
    T, y, g = draw(1500, 0)
    rows = draw(2000, 1)
    clf = tb.tune(SCORES, T, y, groups=g, limits=LIMITS[:1])
    return tb.calibrate(clf, rows[0], rows[1], groups=rows[2])


@pytest.mark.slow
def test_the_price_is_counted_on_the_calibration_rows(calibrated):
    given, certified, (T, y, g) = calibrated
    names = ["overall error", "miss rate of 1 of a", "miss rate of 1 of b", "precision of 1"]
    price = certified.certificate_.price
    assert [each.name for each in price] == names
    for rule, of in ((given, "given"), (certified, "certified")):
        answers = rule.predict(T)
        missed = [((answers == 0) & (y == 1) & (g == k)).sum() / ((y == 1) & (g == k)).sum() for k in "ab"]
        expected = [(answers != y).mean(), *missed, y[answers == 1].mean()]
        np.testing.assert_allclose([getattr(each, of) for each in price], expected)
    assert [each.n for each in price][:3] == [6000, *[((y == 1) & (g == k)).sum() for k in "ab"]]


def test_the_price_is_in_every_form(ranked):
    certified, certificate = ranked, ranked.certificate_
    document = json.loads(json.dumps(certificate.to_dict()))
    assert document["price"][0].keys() == {"name", "given", "certified", "n"}
    assert tb.Certificate.from_dict(document).price == certificate.price
    first = certificate.price[0]
    words = f"Overall error {first.certified:.3f} ({first.given:.3f} before calibration), estimated on these"
    assert "miss rate of 1 of a" in certificate.assumptions
    for text in (str(certificate), certificate._repr_html_(), str(tb.Certificate.from_dict(document))):
        assert words in text
    T, y, g = draw(500, 2)
    card = ModelCard.of(certified, T, y, groups=g).to_markdown()
    assert "## Price of the limits" in card
    assert f"| overall error | 2,000 | {first.given:.4f} | {first.certified:.4f} |" in card


def test_targets_on_errors_have_a_price_too():
    T, y, _ = draw(4000, 3)
    certified = tb.calibrate(SCORES, T, y, max_error=0.35)
    assert [each.name for each in certified.certificate_.price] == [
        "overall error",
        "error of 0",
        "error of 1",
    ]


# -- what is missing ---------------------------------------------------------------------------------------


def short_of(limit, hits, selected=None):
    """Return what a limit on the share of the answer 1 lacks, for hits among rows of one or two groups."""
    answers = np.concatenate([np.repeat([1, 0], [k, n - k]) for k, n in hits])
    groups = np.repeat(list("ab")[: len(hits)], [n for _, n in hits])
    fresh = FreshRows(Answered.of(np.zeros(len(answers), int), answers, groups=groups, labels=[0, 1]))
    subgroup = limit.form if limit.compares else None
    known = {} if selected is None else {(str(limit.rate), subgroup): selected}
    level = 1.0 - 0.95
    return missed([RateFamily.of(limit, fresh)], level, level, known)


def passing(n, rate, bound):
    """Return the probability that an exact test at level .05 certifies a bound from above."""
    counts = np.arange(n + 1)
    return binom.pmf(counts[binom.cdf(counts, n, bound) <= 0.05], n, rate).sum()


def test_calibration_rows_are_missing_if_the_limit_may_hold():
    (short,) = short_of(rates.selected(1) <= 0.3, [(25, 100)])
    assert (short.missing, short.n, short.estimate) == ("calibration rows", 100, 0.25)
    assert 0.8 <= passing(short.more_rows, 0.25, 0.3) <= 0.83
    assert "certify it with a probability of 0.8" in str(short)
    assert short.possible == pytest.approx(beta.ppf(0.05, 25, 76))
    (short,) = short_of(rates.selected(1) <= 0.3, [(33, 100)])  # beyond the limit, by chance perhaps
    assert short.missing == "calibration rows"
    assert 0.8 <= passing(short.more_rows, short.possible, 0.3) <= 0.83
    (short,) = short_of(rates.selected(1) >= 0.3, [(33, 100)])
    assert (short.missing, short.sense) == ("calibration rows", "≥")
    assert 0.8 <= passing(short.more_rows, 1 - 0.33, 0.7) <= 0.83


@pytest.mark.parametrize(
    ("limit", "hits", "selected"),
    [
        (rates.selected(1) <= 0.3, [(60, 100)], 0.25),
        (rates.selected(1) >= 0.7, [(30, 100)], 0.75),
        (rates.gap(rates.selected(1, by="group")) <= 0.1, [(80, 100), (20, 100)], 0.05),
        (rates.ratio(rates.selected(1, by="group")) >= 0.8, [(80, 100), (20, 100)], 0.9),
    ],
)
def test_selection_rows_are_missing_if_the_selection_was_wrong(limit, hits, selected):
    (short,) = short_of(limit, hits, selected)
    assert (short.missing, short.more_rows) == ("selection rows", None)
    (none,) = short_of(limit, hits)
    assert none.missing == "nothing that rows can give"
    assert "more rows would not help" in str(none)
    assert Shortfall(**json.loads(json.dumps(none.to_dict()))) == none


def test_a_gap_that_may_hold_needs_calibration_rows():
    limit = rates.gap(rates.selected(1, by="group")) <= 0.1
    (short,) = short_of(limit, [(50, 100), (46, 100)])
    assert short.missing == "calibration rows"
    assert short.more_rows > 100
    (short,) = short_of(limit, [(55, 100), (44, 100)])
    assert (short.missing, short.more_rows) == ("calibration rows", None)
    assert "more fresh rows may certify it" in str(short)


@pytest.mark.slow
def test_the_error_has_what_is_missing_for_limits_on_rates():
    T, y, g = draw(1500, 0)
    clf = tb.tune(SCORES, T, y, groups=g, limits=LIMITS)
    few = draw(60, 4)
    with pytest.raises(tb.NotCertifiedError) as raised:
        tb.calibrate(clf, few[0], few[1], groups=few[2])
    assert raised.value.shortfalls
    assert all(short.missing == "calibration rows" for short in raised.value.shortfalls)
    assert all(str(short) in str(raised.value) for short in raised.value.shortfalls)
    clf = tb.tune(SCORES, T, y, groups=g, limits=LIMITS)
    other = draw(4000, 5, shift=-1.5)  # another population
    with pytest.raises(tb.NotCertifiedError) as raised:
        tb.calibrate(clf, other[0], other[1], groups=other[2])
    assert {short.missing for short in raised.value.shortfalls} == {"selection rows"}
