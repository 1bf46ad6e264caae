"""What `print` shows of a rule and a certificate: limits first, few words, digits that the rows support."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.core.rate_words import bound_words, estimate_words, stated_words


def draw(n, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    site = rng.choice(["Other", "St. Mary", "ER Süd", "North, Wing B"], n)
    score = 1 / (1 + np.exp(-(1.2 * (2 * y - 1) + rng.normal(size=n))))
    return pd.DataFrame({"score": score}), y, pd.DataFrame({"site": site})


LIMITS = ["recall(1, by=site) >= 60%", "deferred() <= 30%"]


@pytest.fixture(scope="module")
def rule():
    T, y, site = draw(2000, 0)
    return tb.tune(tb.Scores("score", 1), T, y, groups=site, limits=LIMITS)


@pytest.fixture(scope="module")
def certified(rule):
    T, y, site = draw(4000, 1)
    return tb.calibrate(rule, T, y, groups=site)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_certificate_of_five_limits_is_short(certified):
    text = str(certified.certificate_)
    assert len(text.split()) <= 140
    assert text.startswith("Certified with 95 % confidence from 4,000 fresh rows")
    assert "recall of 1 by site ≥ 60 %" in text  # stated in percent
    assert certified.certificate_.assumptions.count("attempt 1") == 1
    assert text.splitlines()[-1].endswith("print(certificate.assumptions)")
    there = tb.Certificate.from_dict(certified.certificate_.to_dict())
    assert str(there) == text


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_rule_is_printed_with_its_limits_and_without_parameters(rule, certified):
    for fitted, verdict in ((rule, "kept ("), (certified, "certified with 95 % confidence")):
        text = str(fitted)
        assert len(text.splitlines()) <= 12
        _, first, second, *_ = text.splitlines()
        assert first.startswith("limit  recall of 1 by site ≥ 60 %")
        assert second.startswith("limit  share deferred ≤ 30 %")
        assert verdict in first
        assert verdict in second
        assert "estimators=" not in text
        assert str(fitted.rule_).splitlines()[0] in text
        assert repr(fitted).startswith("RobustMixtureClassifier(estimators=")
        summary = str(fitted.summary_)
        assert summary.index("share deferred") < summary.index("verall error")
        assert summary.endswith("The rest: print(rule.summary_.details)")


def test_inner_models_are_shortened_in_repr_alone():
    long = LogisticRegression(C=0.123456789, tol=0.000123456, max_iter=12345, fit_intercept=False)
    mix = tb.RobustMixtureClassifier([("a", long), ("b", LogisticRegression())])
    assert "LogisticRegression(...)" in repr(mix)
    assert "LogisticRegression())" in repr(mix)
    assert str(mix) == repr(mix)
    assert mix.get_params()["a"] is long


@pytest.mark.parametrize("in_percent", [False, True])
@pytest.mark.parametrize("n", [17, 400, 3_000, 300_000])
def test_printed_numbers_are_true(n, in_percent):
    """A bound is rounded away from the rate, an estimate stays on its side of the limit."""
    rng = np.random.default_rng(n)
    unit = 100 if in_percent else 1
    for value, limit in rng.random((300, 2)).tolist():

        def read(text):
            return float(re.sub(r" %$", "", text)) / unit

        upper = read(bound_words(value, n, above=True, beside=limit, in_percent=in_percent))
        lower = read(bound_words(value, n, above=False, beside=limit, in_percent=in_percent))
        assert lower <= value + 1e-9
        assert upper >= value - 1e-9
        assert (value <= limit) == (upper <= limit + 1e-9)
        assert (value >= limit) == (lower >= limit - 1e-9)
        near = limit + (value - limit) / 100
        shown = read(estimate_words(near, n, beside=limit, in_percent=in_percent))
        assert (shown > limit) == (near > limit)
        assert abs(shown - near) <= max(abs(near - limit), 1e-6) + 1e-12
        assert read(stated_words(round(limit, 3), in_percent=in_percent)) == pytest.approx(round(limit, 3))


def test_more_rows_have_more_digits():
    assert estimate_words(0.21873, 6_000) == "0.219"
    assert estimate_words(0.21873, 600) == "0.22"
    assert estimate_words(0.21873, 6_000, in_percent=True) == "21.9 %"
    assert estimate_words(0.21873, 60, in_percent=True) == "22 %"
    assert estimate_words(0.42625, 800, beside=0.426, in_percent=True) == "42.62 %"
    assert estimate_words(0.11278, 266, beside=0.5, in_percent=True) == "11 %"
    assert estimate_words(None, 0) == "–"
    assert bound_words(0.124, 50, above=True, beside=0.125) == "0.124"


@pytest.mark.parametrize("text", ["miss(1) <= 7%", "gap(selected(1, by='sex')) <= 2.5%", "miss(1) <= 0.07"])
def test_a_limit_keeps_its_unit_in_text(text):
    limit = tb.rates.parse(text)
    again = tb.rates.parse(limit.text)
    assert again == limit
    assert str(again) == str(limit)
    assert ("%" in limit.text) == text.endswith("%") == ("%" in str(limit))
