"""The price of a certificate, and the missing rows of a target without a certificate, as data."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.classifiers.calibrating import contents_of, contents_of_groups, drawn_part
from tailboost.guarantees.calibration import shortfalls_of
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.procedure import Refused
from tailboost.guarantees.rate_bounds import RateFamily, Shortfall
from tailboost.rates import Answered
from tailboost.rows.fingerprints import selecting_numbers


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


@pytest.mark.parametrize("objective", [rates.cost([[0, 12], [1, 0]]), rates.largest(rates.error(by="class"))])
def test_another_objective_has_its_own_price_and_no_advice_on_errors(objective):
    """A rule of least cost errs often on purpose: neither its errors nor ways to lower them are a fault."""
    T, y, _ = draw(1500, 0, shift=0.5)
    rows = draw(2000, 1, shift=0.5)
    clf = tb.tune(SCORES, T, y, limits=["miss(1) <= 90%"], objective=objective)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.exceptions.UselessRuleWarning)
        certified = tb.calibrate(clf, rows[0], rows[1])
    certificate = certified.certificate_
    price = certificate.price[0]
    answers = certified.predict(rows[0])
    if objective.worst:
        value = max((answers != rows[1])[rows[1] == label].mean() for label in (0, 1))
    else:
        value = np.where(answers == rows[1], 0, np.where(rows[1] == 0, 12, 1)).mean()
    assert price.is_objective
    assert price.certified == pytest.approx(value)
    printed = str(certificate)
    assert f"Objective ({price.name.removeprefix('objective (')} {value:.3f}" in printed.replace("%", "")
    assert certificate.forced_by.error is None
    again = tb.Certificate.from_dict(json.loads(json.dumps(certificate.to_dict())))
    assert again.price == certificate.price


def test_an_objective_with_costs_by_row_has_no_price():
    """A calibration gets no costs, so the cost of its rows is unknown."""
    T, y, _ = draw(1500, 0)
    rows = draw(2000, 1)
    costs = pd.DataFrame({0: 3.0 * y, 1: 1.0 - y})
    clf = tb.tune(SCORES, T, y, limits=["miss(1) <= 60%"], objective=rates.cost(), costs=costs)
    price = tb.calibrate(clf, rows[0], rows[1]).certificate_.price
    assert [entry.name for entry in price] == ["overall error", "miss rate of 1"]


@pytest.mark.slow
def test_the_price_is_counted_on_the_calibration_rows(calibrated):
    _, certified, (T, y, g) = calibrated
    names = ["overall error", "miss rate of 1 of a", "miss rate of 1 of b", "precision of 1"]
    price = certified.certificate_.price
    assert [each.name for each in price] == names
    own = (T["s"].to_numpy() > 0).astype(int)  # of logits, without limits
    for answers, of in ((own, "given"), (certified.predict(T), "certified")):
        missed = [((answers == 0) & (y == 1) & (g == k)).sum() / ((y == 1) & (g == k)).sum() for k in "ab"]
        expected = [(answers != y).mean(), *missed, y[answers == 1].mean()]
        np.testing.assert_allclose([getattr(each, of) for each in price], expected)
    assert [each.n for each in price][:3] == [6000, *[((y == 1) & (g == k)).sum() for k in "ab"]]


def test_the_price_is_in_every_form(ranked):
    certificate = ranked.certificate_
    document = json.loads(json.dumps(certificate.to_dict()))
    assert document["price"][0].keys() == {
        "name",
        "given",
        "certified",
        "n",
        "of",
        "is_objective",
        "is_flattered",
        "noise",
    }
    assert tb.Certificate.from_dict(document).price == certificate.price
    first = certificate.price[0]
    words = f"Overall error {first.certified:.3f} (without limits, the score at 0: {first.given:.3f}; price "
    for text in (str(certificate), certificate._repr_html_(), str(tb.Certificate.from_dict(document))):
        assert words in text


def test_targets_on_errors_have_a_price_too():
    T, y, _ = draw(4000, 3)
    certified = tb.calibrate(SCORES, T, y, max_error=0.35)
    assert [each.name for each in certified.certificate_.price] == [
        "overall error",
        "error of 0",
        "error of 1",
    ]


# -- the reference of the certified rule -------------------------------------------------------------------


def rows_of_a_forest(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + rng.logistic(size=n) > 1, "yes", "no")
    return X, y, np.where(rng.random(n) < 0.5, "a", "b")


@pytest.fixture(scope="module")
def fitted():
    """Two fitted models, and fresh rows of both."""
    X, y, _ = rows_of_a_forest(800, 6)
    models = RandomForestClassifier(20, random_state=0).fit(X, y), LogisticRegression().fit(X, y)
    return models, rows_of_a_forest(3000, 7)


class Threshold(ClassifierMixin, BaseEstimator):
    """A fitted model with a threshold of .3 in `predict`, not the most probable label."""

    def __init__(self, model):
        self.model = model
        self.classes_ = model.classes_

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)

    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.3).astype(int)]


@pytest.mark.parametrize("kind", ["forest", "threshold", "function", "two", "probability", "logit", "number"])
def test_the_reference_has_the_answers_of_the_given_model(fitted, kind):
    """No selected rule is the reference. Errors and misses of `predict` are counted by hand."""
    (forest, linear), (X, y, g) = fitted
    p = forest.predict_proba(X)[:, 1]
    table = X
    if kind == "forest":
        model, own, name = forest, forest.predict(X), "the model's own answers"
    elif kind == "threshold":
        model = Threshold(forest)
        own, name = model.predict(X), "the model's own answers"
    elif kind == "function":
        model, own = forest.predict_proba, forest.predict(X)
        name = "the model's most probable label"
    elif kind == "two":
        model, own, name = [forest, linear], None, "the average of the models"
    else:
        z = np.log((p + 0.01) / (1.01 - p))
        table = pd.DataFrame({"s": z if kind == "logit" else p})
        model = tb.Scores("s", "yes", kind=kind)
        own = np.where(p > 0.5, "yes", "no")
        name = {"probability": "the score at 0.5", "logit": "the score at 0"}.get(kind, "")
    rule = tb.calibrate(model, table, y, groups=g, limits=["miss('yes', by=group) <= .4"])
    price = rule.certificate_.price
    assert {each.of for each in price} == {name}
    table_of_prices = repr(rule.certificate_.prices).split("\n")
    assert table_of_prices[0].split() == ["rate", "rows", *name.split(), "certified", "rule"]
    assert len(table_of_prices) == 1 + len(price)
    known = price[0].given is not None
    assert price[0].increase == (price[0].certified - price[0].given if known else None)
    text = str(rule.certificate_)
    if kind == "number":  # an order of rows has no answers without a threshold
        assert {each.given for each in price} == {None}
        assert "–" not in rule.certificate_.assumptions.split("*")[0]
        return
    if own is None:
        own = rule.classes_[rule.predict_proba(X).argmax(axis=1)]
    contents = contents_of(table, y)
    here = ~drawn_part(selecting_numbers(contents, contents_of_groups(g, len(y))), 0.1)
    missed = [np.mean(own[here & (y == "yes") & (g == k)] == "no") for k in "ab"]
    expected = [np.mean((own != y)[here]), *missed]
    np.testing.assert_allclose([each.given for each in price], expected)
    answers = rule.predict(table)
    assert price[0].certified == pytest.approx(np.mean((answers != y)[here]))
    assert re.search(
        rf"^Overall error [.\d]+ \(without limits, {re.escape(name)}: {price[0].given:.3f}", text, flags=re.M
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_models", [1, 2])
def test_the_reference_of_trained_models_has_no_limits(n_models):
    """The reference of a tuned classifier has none either: a price is no distance to a limited rule."""
    X, y, g = rows_of_a_forest(1000, 8)
    models = [("forest", RandomForestClassifier(20)), ("linear", LogisticRegression())][:n_models]
    limits = ["miss('yes', by=group) <= .2"]
    clf = tb.RobustMixtureClassifier(models, limits=limits, random_state=0).fit(X, y, groups=g)
    X, y, g = rows_of_a_forest(2000, 9)
    (price, *_) = tb.calibrate(clf, X, y, groups=g).certificate_.price
    own = clf.predict_proba(X).argmax(axis=1)
    if n_models == 1:
        own = clf.selection_.engine.outputs.models.fitted[0].predict_proba(X).argmax(axis=1)
    assert price.of == ["the model's most probable label", "the average of the models"][n_models - 1]
    assert price.given == pytest.approx(np.mean(clf.classes_[own] != y))
    assert price.given < np.mean(clf.predict(X) != y)


@pytest.mark.filterwarnings("ignore")
def test_the_reference_of_a_tuned_model_is_its_predict(fitted):
    (forest, _), (X, y, g) = fitted
    half = len(X) // 2
    rule = tb.tune(forest, X[:half], y[:half], groups=g[:half], limits=["miss('yes', by=group) <= .4"])
    (price, *_) = tb.calibrate(rule, X[half:], y[half:], groups=g[half:]).certificate_.price
    assert price.given == pytest.approx(np.mean(forest.predict(X[half:]) != y[half:]))


def test_a_model_defers_nobody_by_itself(fitted):
    (forest, _), (X, y, g) = fitted
    rule = tb.calibrate(forest, X, y, groups=g, limits=["miss('yes') <= .4", "deferred() <= .5"])
    price = {each.name: each for each in rule.certificate_.price}
    assert price["share deferred"].given == 0
    assert price["share deferred"].certified > 0


# -- missing rows ------------------------------------------------------------------------------------------


def short_of(limit, hits, selected=None):
    """Return the shortfalls of a limit on the share of the answer 1.

    ``hits`` has the number of answers 1 and of rows, for one or two groups.
    """
    answers = np.concatenate([np.repeat([1, 0], [k, n - k]) for k, n in hits])
    groups = np.repeat(list("ab")[: len(hits)], [n for _, n in hits])
    fresh = FreshRows(
        Answered.from_arrays(np.zeros(len(answers), int), answers, groups=groups, labels=[0, 1])
    )
    subgroup = limit.form if limit.compares else None
    known = {} if selected is None else {(str(limit.rate), subgroup): selected}
    level = 1.0 - 0.95
    refused = Refused(fresh, "the rule", "")
    return shortfalls_of([RateFamily.from_expression(limit, fresh)], refused, level, level, known)


def passing(n, rate, bound):
    """Return the probability that an exact test at level .05 certifies a bound from above."""
    counts = np.arange(n + 1)
    return binom.pmf(counts[binom.cdf(counts, n, bound) <= 0.05], n, rate).sum()


def test_calibration_rows_are_missing_if_the_limit_may_hold():
    (short,) = short_of(rates.selected(1) <= 0.3, [(25, 100)])
    assert (short.missing, short.n, short.estimate) == ("calibration rows", 100, 0.25)
    assert 0.8 <= passing(short.more_rows, 0.25, 0.3) <= 0.83
    assert short.possible == pytest.approx(beta.ppf(0.05, 25, 76))
    (short,) = short_of(rates.selected(1) <= 0.3, [(33, 100)])  # above the limit, perhaps by chance
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
    assert Shortfall(**json.loads(json.dumps(none.to_dict()))) == none


def test_a_gap_that_may_hold_needs_calibration_rows():
    limit = rates.gap(rates.selected(1, by="group")) <= 0.1
    (short,) = short_of(limit, [(50, 100), (46, 100)])
    assert short.missing == "calibration rows"
    assert short.more_rows > 100
    (short,) = short_of(limit, [(55, 100), (44, 100)])
    assert (short.missing, short.more_rows) == ("calibration rows", None)


@pytest.mark.slow
def test_the_error_has_what_is_missing_for_limits_on_rates():
    T, y, g = draw(1500, 0)
    clf = tb.tune(SCORES, T, y, groups=g, limits=LIMITS)
    few = draw(100, 4)
    with pytest.raises(tb.NotCertifiedError) as raised:
        tb.calibrate(clf, few[0], few[1], groups=few[2])
    assert raised.value.shortfalls
    assert all(short.missing == "calibration rows" for short in raised.value.shortfalls)
    # `more_rows` are enough if the estimate is true. The message has this number; few rows give none.
    forecast = [short.more_rows for short in raised.value.shortfalls if short.more_rows is not None]
    assert forecast
    for more_rows in forecast:
        assert f"about {more_rows:,} " in str(raised.value)
    clf = tb.tune(SCORES, T, y, groups=g, limits=LIMITS)
    other = draw(4000, 5, shift=-1.5)  # another population
    with pytest.raises(tb.NotCertifiedError) as raised:
        tb.calibrate(clf, other[0], other[1], groups=other[2])
    assert {short.missing for short in raised.value.shortfalls} == {"selection rows"}


def test_groups_of_equal_names_in_two_columns_have_prices_of_their_own():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X = (2.0 * y - 1.0 + rng.normal(size=4000))[:, None]
    groups = {name: rng.choice(["known", "unknown"], 4000) for name in ("sex", "age")}
    limits = ["miss(1, by=sex) <= .3", "miss(1, by=age) <= .3"]
    certificate = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, groups=groups, limits=limits).certificate_
    names = [price.name for price in certificate.price]
    assert len(set(names)) == len(names) == 5
