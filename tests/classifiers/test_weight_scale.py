"""Sample weights count rows: weight 2 is the row twice, and relative weights mean those scaled to mean 1.

Truth: a fit with the weights divided by their mean, and a table in which rows are repeated.
"""

import numpy as np
import pytest
from conftest import OURS, make, noisy, refused
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import RobustMixtureClassifier, rates
from tailboost.classifiers.fitting import class_factors
from tailboost.core.checks import LARGEST_MEAN_WEIGHT, row_weights
from tailboost.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore")

X, Y = noisy(3, n=150)
GROUPS = np.array(["f", "m"])[(X[:, 0] > 0).astype(int)]
VARYING = np.random.default_rng(0).integers(1, 9, len(Y)) / 3.0
VARYING /= VARYING.mean()
MODEL = LogisticRegression().fit(*noisy(4, n=100))
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
BINS_ENOUGH = tb.learners.HistBoostClassifier(max_bins=256)
SCALES = {"1/n": 1 / len(Y), "1e-300": 1e-300, "1e305": 1e305}
LIMITS = [rates.miss(1) <= 0.3, rates.gap(rates.selected(1, by="group")) <= 0.4]


def statements(clf):
    """Everything that a selection states, as numbers."""
    lines = [[x.value, x.low, x.high, x.rows] for x in clf.rates_]
    return np.concatenate([clf.predict_proba(X).ravel(), np.ravel(lines)])


def same(a, b):
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    np.testing.assert_allclose(statements(a), statements(b), rtol=0, atol=1e-9)
    assert a.limits_met_ == b.limits_met_


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("weight", [np.ones(len(Y)), VARYING], ids=["constant", "varying"])
@pytest.mark.parametrize("estimators", [None, "trees"])
@pytest.mark.slow
def test_a_robust_mixture_does_not_depend_on_the_scale(estimators, weight, scale):
    given = None if estimators is None else [("tree", TREE), ("line", LogisticRegression())]
    clf = RobustMixtureClassifier(given, limits=LIMITS, cv=2, random_state=0)
    one = clone(clf).fit(X, Y, sample_weight=weight, groups=GROUPS)
    same(clf.fit(X, Y, sample_weight=weight * SCALES[scale], groups=GROUPS), one)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.slow
def test_given_probabilities_tune_reweight_and_measure(scale):
    weight, c = VARYING, SCALES[scale]
    P = {"m": MODEL.predict_proba(X)}

    def given(weight):
        return RobustMixtureClassifier.from_probabilities(
            P, Y, groups=GROUPS, limits=LIMITS, sample_weight=weight
        )

    one, other = given(weight), given(weight * c)
    np.testing.assert_array_equal(one.predict(P), other.predict(P))
    intervals = [np.array([(x.low, x.high) for x in clf.rates_]) for clf in (one, other)]
    np.testing.assert_allclose(*intervals, rtol=0, atol=1e-9)
    tuned = tb.tune(MODEL, X, Y, limits=LIMITS, groups=GROUPS, sample_weight=weight)
    same(tb.tune(MODEL, X, Y, limits=LIMITS, groups=GROUPS, sample_weight=weight * c), tuned)
    more, about = noisy(5, n=150), {"groups": GROUPS}
    same(tuned.reweight(*more, sample_weight=weight * c, **about),
         tuned.reweight(*more, sample_weight=weight, **about))  # fmt: skip
    measured = [
        rates.measure(LIMITS[0].rate, Y, tuned.predict(X), sample_weight=w) for w in (weight, weight * c)
    ]
    assert measured[0] == pytest.approx(measured[1], rel=1e-12)


@pytest.mark.parametrize("name", OURS)
def test_boosting_does_not_depend_on_the_scale(name):
    clf = make(name, None if name == "ebboost" else "tree", n_estimators=3, alpha=0.4, random_state=0)
    for weight, scales in ((np.ones(len(Y)), ["1/n"]), (VARYING, ["1e-300", "1e305"])):
        one = clone(clf).fit(X, Y, sample_weight=weight)
        for scale in scales:
            other = clone(clf).fit(X, Y, sample_weight=weight * SCALES[scale])
            np.testing.assert_array_equal(one.predict(X), other.predict(X))
            np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=1e-7)
            np.testing.assert_allclose(one.estimator_weights_, other.estimator_weights_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [*sorted(set(OURS) - {"softmarginboost"}), "robustmixture"])
def test_weight_2_is_the_row_twice(name):
    """To 1e-9 with trees of XGBoost that have a bin for each value: powers of two are exact in float32.

    Weights of a linear program (soft margins) differ in the last digit, and with them a tie of splits.
    """
    rng = np.random.default_rng(1)
    times, owner = rng.choice([1, 2, 4], len(Y)), np.arange(len(Y))
    if name == "robustmixture":
        boosted = tb.learners.HistBoostClassifier(n_estimators=5)
        clf = RobustMixtureClassifier([("boosted", boosted), ("tree", TREE)])
        halves = [(np.flatnonzero(owner % 2 == 0), np.flatnonzero(owner % 2))]
        twice = owner.repeat(times) % 2
        again = [(np.flatnonzero(twice == 0), np.flatnonzero(twice))]
    else:
        learner = BINS_ENOUGH if name in ("adalpboost", "averageboost") else None
        clf = make(name, learner, n_estimators=4, alpha=0.4, random_state=0)
        halves = again = "train"
    if "cv" not in clf.get_params(deep=False):
        halves = again = None
    one, other = clone(clf), clone(clf)
    if halves is not None:
        one.set_params(cv=halves)
        other.set_params(cv=again)
    one.fit(X, Y, sample_weight=times)
    other.fit(X.repeat(times, axis=0), Y.repeat(times))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=1e-9)
    if name == "robustmixture":  # also in intervals
        same(one, clone(other).fit(X.repeat(times, axis=0), Y.repeat(times), clusters=owner.repeat(times)))


def test_weight_3_differs_by_the_float32_of_xgboost_alone():
    """The product of weight and gradient is rounded to 24 bits; scikit-learn's trees sum in float64."""
    pytest.importorskip("xgboost")
    three = noisy(6, n=150, K=3)
    times = np.random.default_rng(2).choice([1, 3], 150)
    for learner, most in ((BINS_ENOUGH, 2.0**-20), (TREE, 1e-12)):
        clf = tb.AverageBoostClassifier(learner, n_estimators=4, random_state=0)
        one = clone(clf).fit(*three, sample_weight=times)
        other = clone(clf).fit(three[0].repeat(times, axis=0), three[1].repeat(times))
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=most)


def test_weights_that_count_rows_are_left_as_they_are():
    for counts in ([1, 2, 3], [1.0, 1.0], [5e8, 1e9], [0, 1, 4]):
        np.testing.assert_array_equal(row_weights(counts, len(counts)), counts)
    for relative in ([0.5, 1.0], [1e-300, 3e-300], [1e308, 1e308], np.array([3, 0, 1]) * LARGEST_MEAN_WEIGHT):
        scaled = row_weights(relative, len(relative))
        assert scaled[scaled > 0].mean() == pytest.approx(1.0, rel=1e-9)
        np.testing.assert_allclose(scaled / scaled.max(), np.array(relative) / max(relative), rtol=1e-9)
    around = [row_weights(np.array([1.0, 2.0]) / 1.5 * m, 2) for m in (1 - 1e-6, 1.0, 1 + 1e-6)]
    np.testing.assert_allclose(around[0], around[2], rtol=3e-6)  # no jump at mean 1
    refused(lambda: row_weights([np.inf, 1.0], 2), "sample_weight")


def test_balanced_classes_have_equal_weights_together():
    rows = Rows.read(y=["a", "b", "b"], sample_weight=[1.0, 2.0, 5.0])
    factors = class_factors("balanced", rows, {"a": 0, "b": 1})
    assert np.bincount(rows.y, rows.weight * factors[rows.y]) == pytest.approx([4.0, 4.0])
