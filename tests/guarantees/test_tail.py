"""The tail and the shift: their theorems on small populations, their bounds, and their certificates."""

from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.optimize import minimize
from scipy.stats import binom
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.tail import shift_upper, tail_upper, worst_mean
from tailboost.rates.bounds import betting_upper, clopper_pearson_upper

pytestmark = pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")


def worst_tail(values, base, alpha):
    """Return the mean of the worst fraction of a distribution, by sorting."""
    order = np.argsort(-values)
    taken = np.diff(np.minimum(np.r_[0.0, base[order].cumsum()], alpha))
    return float(taken @ values[order]) / alpha


def worst_shift(values, base, kl):
    """Return the largest mean within a divergence, along the exponential family of the base."""
    low, high = 0.0, 1e4
    for _ in range(200):
        s = (low + high) / 2
        q = base * np.exp(s * (values - values.max()))
        q /= q.sum()
        divergence = (q * np.log(np.maximum(q, 1e-300) / base)).sum()
        low, high = (s, high) if divergence < kl else (low, s)
    return float(q @ values)


def test_every_group_of_the_fraction_is_below_the_tail_and_one_reaches_it():
    losses = np.random.default_rng(0).random(9)
    for size in (1, 3, 6, 9):
        means = [losses[list(g)].mean() for k in range(size, 10) for g in combinations(range(9), k)]
        assert max(means) == pytest.approx(worst_mean(rates.tail(size / 9), losses))


@pytest.mark.parametrize("kl", [0.01, 0.1, 0.5, 2.0])
def test_every_population_within_the_divergence_is_below_the_shift_and_one_reaches_it(kl):
    rng = np.random.default_rng(1)
    losses, p = rng.random(6), rng.dirichlet(np.ones(6))
    value = worst_mean(rates.shift(kl), losses, p)

    def distance(q):  # of q from p: a part of p has a finite one, and p an infinite one from its part
        return float((q * np.log(np.maximum(q, 1e-300) / p)).sum())

    for q in rng.dirichlet(np.full(6, 0.5), 300):
        mixed = [t * q + (1 - t) * p for t in np.linspace(0, 1, 20)]
        assert max(q @ losses for q in mixed if distance(q) <= kl) <= value + 1e-9
    kept = {"type": "eq", "fun": lambda q: q.sum() - 1}, {"type": "ineq", "fun": lambda q: kl - distance(q)}
    options = {"bounds": [(1e-12, 1)] * 6, "options": {"ftol": 1e-12}}
    best = minimize(lambda q: -(q @ losses), p, constraints=kept, **options)
    assert value == pytest.approx(-best.fun, abs=1e-5)
    # A group of p is a population with divergence −log P(group) and with losses of the group alone.
    for size in range(1, 6):
        for group in map(list, combinations(range(6), size)):
            if -math.log(p[group].sum()) <= kl:
                assert p[group] @ losses[group] / p[group].sum() <= value + 1e-9


@pytest.mark.parametrize("kl", [1e-20, 1e-6, 0.02, 0.7, 8.0])
def test_bounds_are_the_least_of_eight_at_an_eighth_of_the_level(kl):
    losses, alpha = np.random.default_rng(2).beta(0.4, 2, 70), min(1.0, 1 / (1 + kl))
    of_tail = [
        theta + (1 - theta) * betting_upper(np.maximum(losses - theta, 0) / (1 - theta), 0.01) / alpha
        for theta in (0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
    ]
    assert tail_upper(losses, alpha, 0.08) == pytest.approx(min(1, *of_tail), abs=1e-9)
    if kl < 1e-10:  # nearly no shift: the best bound is that of the mean
        assert shift_upper(losses, kl, 0.08) == pytest.approx(betting_upper(losses, 0.01), abs=1e-6)
        return
    of_shift = []
    for j in range(8):
        t = 0.5 * 2 ** (-j / 2) / math.sqrt(2 * kl)
        mean = betting_upper((np.exp(losses / t) - 1) / (np.exp(1 / t) - 1), 0.01)
        of_shift.append(t * math.log(1 + (math.exp(1 / t) - 1) * mean) + t * kl)
    assert shift_upper(losses, kl, 0.08) == pytest.approx(min(1, *of_shift), abs=1e-6)


def test_bounds_are_above_the_rows_and_rise_with_losses_fraction_and_confidence():
    rng = np.random.default_rng(3)
    for _ in range(20):
        losses = rng.choice([rng.random(30), rng.integers(3, size=30) / 2])
        alpha, kl = rng.uniform(0.02, 1), rng.uniform(0.01, 1)
        tail, shift = tail_upper(losses, alpha), shift_upper(losses, kl)
        assert worst_tail(losses, np.full(30, 1 / 30), alpha) <= tail <= 1
        assert worst_shift(losses, np.full(30, 1 / 30), kl) - 1e-6 <= shift <= 1
        assert tail <= tail_upper(losses, alpha / 2) + 1e-9
        assert shift <= shift_upper(losses, 2 * kl) + 1e-9
        assert tail <= tail_upper(losses, alpha, 0.01) + 1e-9
        assert tail <= tail_upper(np.minimum(losses + 0.1, 1), alpha) + 1e-9
        assert shift <= shift_upper(np.minimum(losses + 0.1, 1), kl) + 1e-9


#: Values, their probabilities, rows, α and the divergence.
POPULATIONS = {
    "few values": ([0.0, 0.2, 0.6, 1.0], [0.7, 0.15, 0.1, 0.05], 300, 0.1, 0.05),
    "all equal": ([0.3], [1.0], 200, 0.1, 0.05), "two values": ([0.0, 1.0], [0.96, 0.04], 400, 0.3, 0.1),
    "two inner values": ([0.1, 0.9], [0.9, 0.1], 150, 0.1, 0.5),
    "heavy tail": (np.linspace(0, 1, 41) ** 3, 0.5 ** (np.arange(41) / 4), 400, 0.02, 1.0),
    "60 rows": (np.linspace(0, 1, 21), np.linspace(1, 0.05, 21), 60, 0.2, 0.02),
    "the mean": ([0.0, 0.5, 1.0], [0.5, 0.45, 0.05], 250, 1.0, 0.005),
    "rare and large": ([0.0, 0.05, 1.0], [0.5, 0.49, 0.01], 300, 0.05, 0.2),
}  # fmt: skip


def false_bounds(name, draws):
    """Return how many of the draws have a tail, and how many a shift, below the truth."""
    values, base, n, alpha, kl = POPULATIONS[name]
    values, base = np.asarray(values), np.asarray(base) / np.sum(base)
    truths = worst_tail(values, base, alpha), worst_shift(values, base, kl)
    rng, below = np.random.default_rng([len(name), draws]), np.zeros(2, dtype=int)
    for _ in range(draws):
        losses = rng.choice(values, n, p=base)
        bounds = tail_upper(losses, alpha), shift_upper(losses, kl)
        below += np.less(bounds, np.subtract(truths, 1e-9))
    return below.tolist()


@pytest.mark.parametrize("name", ["few values", "all equal", "60 rows"])
def test_few_draws_are_below_the_truth(name):
    assert max(false_bounds(name, 60)) <= binom.isf(1e-3, 60, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
def test_two_thousand_draws_are_below_the_truth_at_most_as_often_as_stated(name):
    assert max(false_bounds(name, 2000)) <= binom.isf(1e-3, 2000, 0.05)


def drawn_rows(rng, n_clusters=None):
    """Return arrays of answers, labels and clusters whose votes err with a probability of .1."""
    n = 300 if n_clusters is None else n_clusters
    wrong, y = rng.random(n) < 0.1, rng.integers(2, size=n)
    repeats = rng.integers(1, 6, n)
    cluster = np.repeat(np.arange(n), repeats)
    return np.repeat(y ^ wrong, repeats), np.repeat(y, repeats), cluster


@pytest.mark.slow
def test_certificates_of_clusters_and_of_labels_are_rarely_wrong():
    rng = np.random.default_rng(8)
    truths = 0.1 / 0.3, worst_shift(np.array([0.0, 1.0]), np.array([0.9, 0.1]), 0.05)
    below = 0
    for _ in range(2000):
        answers, y, cluster = drawn_rows(rng)
        found = tb.certify(answers, None, y, clusters=cluster, rates=[rates.tail(0.3), rates.shift(0.05)])
        below += any(b.upper < truth for b, truth in zip(found.bounds, truths, strict=True))
    assert below <= binom.isf(1e-3, 2000, 0.05)


@pytest.fixture(scope="module")
def mixture():
    """Return a fitted mixture of three labels, and fresh rows."""
    rng = np.random.default_rng(5)
    y = rng.choice(["a", "b", "c"], 900, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(900, 3)) + 1.2 * (y[:, None] == ["a", "b", "c"])
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    clf = tb.AdaLPBoostClassifier(tree, alpha=0.2, n_estimators=5, random_state=0, cv="train")
    return clf.fit(X[:300], y[:300]), X[300:], y[300:]


def test_a_randomised_classifier_has_expected_losses_and_others_the_error_of_their_answer(mixture):
    clf, X, y = mixture
    stated = [rates.tail(0.1), "shift(kl=.05)"]
    losses = 1.0 - clf.predict_distribution(X)[np.arange(len(y)), np.searchsorted(clf.classes_, y)]
    even = np.full(len(y), 1 / len(y))
    for model in (clf, make_pipeline("passthrough", clf)):
        tail, shift = tb.certify(model, X, y, rates=stated).bounds
        assert tail.estimate == pytest.approx(worst_tail(losses, even, 0.1))
        assert shift.estimate == pytest.approx(worst_shift(losses, even, 0.05), abs=1e-6)
        # Two bounds share the level evenly.
        assert tail.upper == pytest.approx(tail_upper(losses, 0.1, 0.025))
        assert shift.upper == pytest.approx(shift_upper(losses, 0.05, 0.025))
        assert (tail.sense, tail.lower, tail.n) == ("≤", 0.0, len(y))
    scaled = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2)).fit(X[:100], y[:100])
    wrong = int((scaled.predict(X[100:]) != y[100:]).sum())
    (tail,) = tb.certify(scaled, X[100:], y[100:], rates=["tail(40%)"], training_rows=X[:100]).bounds
    assert tail.estimate == pytest.approx(min(1, wrong / 500 / 0.4))
    assert tail.upper == pytest.approx(min(1, clopper_pearson_upper(wrong, 500, 0.05) / 0.4))


def test_costs_are_expected_and_scaled_to_their_range(mixture):
    clf, X, y = mixture
    matrix = np.array([[0.0, 2.0, 5.0], [1.0, 0.0, 3.0], [8.0, 4.0, -1.0]])
    costs = matrix[np.searchsorted(clf.classes_, y)]
    expected = (clf.predict_distribution(X) * costs).sum(axis=1)
    upper = -1.0 + 9.0 * tail_upper((expected + 1.0) / 9.0, 0.1)
    by_row = {"costs": pd.DataFrame(costs[:, ::-1], columns=["c", "b", "a"]), "cost_range": (-1, 8)}
    for rate, given in ((rates.cost(), by_row), (rates.cost(matrix), {})):
        (bound,) = tb.certify(clf, X, y, rates=[rates.tail(0.1, rate)], **given).bounds
        assert bound.upper == pytest.approx(upper)
        assert bound.estimate == pytest.approx(worst_tail(expected, np.full(600, 1 / 600), 0.1))
    refused(lambda: tb.certify(clf, X, y, rates=["tail(10%, cost())"], costs=costs), "cost_range")
    assert str(rates.parse("tail(10%, cost()) <= 5")).endswith("at most 5")  # the costs are not in percent
    with pytest.raises(ValueError, match="no rate reads them"):
        tb.certify(clf, X, y, rates=["tail(10%)"], costs=costs, cost_range=(-1, 8))


def test_a_cluster_has_one_vote_and_a_deferred_row_no_error():
    rng = np.random.default_rng(6)
    answers, y, cluster = drawn_rows(rng, 80)
    (bound,) = tb.certify(answers, None, y, clusters=cluster, rates=["tail(50%)"]).bounds
    wrong = int(pd.Series(answers != y).groupby(cluster).first().sum())
    assert bound.n == 80
    assert bound.upper == pytest.approx(min(1, clopper_pearson_upper(wrong, 80, 0.05) / 0.5))
    deferred = rng.random(len(y)) < 0.3
    (bound,) = tb.certify(answers, None, y, deferred=deferred, rates=["tail(50%)"]).bounds
    assert bound.n == len(y)
    assert bound.estimate == pytest.approx(min(1, 2 * ((answers != y) & ~deferred).mean()))
    assert bound.deferred == pytest.approx(deferred.mean())


def test_a_limit_is_certified_printed_stored_and_drawn(mixture):
    clf, X, y = mixture
    limits = ["tail(50%) <= 95%", rates.shift(kl=0.05) <= 0.1]
    found = tb.certify(clf, X, y, limits=limits, rates=["error()"])
    error, tail, shift = found.bounds
    assert (tail.certified, shift.certified, error.certified, found.certified) == (True, False, None, False)
    assert "of the worst 50 % of rows" in str(found)
    assert "KL divergence of 0.05" in str(found)
    assert "every group" in found.assumptions
    read = Certificate.from_dict(json.loads(json.dumps(found.to_dict())))
    assert read.bounds == found.bounds
    card = tb.ModelCard.of(clf, X, y, rates=limits)
    assert "of the worst 50 % of rows" in card.sections["Certificate"]
    assert "worst 50 %" in card.picture


@pytest.mark.parametrize("text", ["tail(10%) <= .6", "shift(.05, cost()) <= 12", "tail(0.025)"])
def test_text_is_read_back(text):
    stated = rates.parse(text)
    assert rates.parse(repr(stated)) == stated


def test_what_is_no_bound_of_certify_is_refused_with_a_cure(mixture):
    clf, X, y = mixture
    tail = rates.tail(0.1)
    found = tb.certify(clf, X, y, rates=[tail])

    def never(rows):
        raise AssertionError("refused before any work")

    for call in (
        lambda: tb.tune(never, X, y, limits=[tail <= 0.6]), lambda: tb.tune(never, X, y, objective=tail),
        lambda: tb.calibrate(never, X, y, limits=["tail(10%) <= .6"]), lambda: tb.Monitor(clf, found),
        lambda: tb.RobustMixtureClassifier(limits=["shift(.1) <= .6"]).fit(X, y),
        lambda: rates.measure(tail, y, y), lambda: rates.gap(tail), lambda: rates.largest(tail),
    ):  # fmt: skip
        refused(call, r"certify alone.*error\(\)")
    for text in ("tail(10%, by=sex)", "tail(10%, miss(a))", "shift(.1, error(by=class))"):
        refused(lambda: rates.parse(text), "large groups")
    refused(lambda: tail >= 0.1, "upper bound alone")
    for call in (lambda: rates.tail(0.0), lambda: rates.tail(1.5), lambda: rates.shift(kl=0)):
        refused(call, "must be a number")
