"""Summaries in edge cases: one group, weights of any scale, outliers, comparisons and symbols."""

import json
import math
import re
import warnings

import numpy as np
import pytest
from conftest import errors_of, noisy
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import rates
from tailboost.boosting.pool import JudgedPool
from tailboost.learners import HistTreeClassifier
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.mixture import Counts, Mixture
from tailboost.selection.problem import Problem

TREE = HistTreeClassifier(max_depth=2)


def bounds_of(guarantee):
    return (*guarantee.promised, *guarantee.observed)


@pytest.mark.parametrize(
    "make",
    [
        lambda **p: tb.WorstClassBoostClassifier(TREE, n_estimators=3, **p),
        lambda **p: tb.WorstClassBoostClassifier(TREE, n_estimators=3, class_loss="error", **p),
        lambda **p: tb.GroupDROBoostClassifier(TREE, n_estimators=3, **p),
        lambda **p: tb.GroupDROBoostClassifier(TREE, n_estimators=3, eta="theory", **p),
        lambda **p: tb.GroupDROBoostClassifier(TREE, n_estimators=3, eta=0.5, **p),
    ],
)
@pytest.mark.parametrize("group", [0, "all"])
def test_one_group_is_its_own_bound(make, group):
    """After every such fit the summary is printable, serialisable and true."""
    X, y = noisy(0, n=90)
    guarantee = make(random_state=0).fit(X, y, groups=np.full(len(y), group)).summary_
    assert str(guarantee)
    assert json.dumps(guarantee.to_dict())
    for bound in guarantee.observed:
        if bound.bound is not None and bound.achieved is not None:
            assert bound.achieved <= bound.bound + 1e-12


def test_one_group_adds_no_regret():
    X, y = noisy(0, n=90)
    clf = tb.GroupDROBoostClassifier(TREE, n_estimators=3, eta="theory", random_state=0)
    clf.fit(X, y, groups=np.zeros(len(y)))
    (observed,) = clf.summary_.observed
    assert observed.bound == pytest.approx(clf.trace_.weighted_loss.mean())
    assert observed.achieved == pytest.approx(observed.bound)
    (promised,) = clf.summary_.promised
    assert promised.bound == pytest.approx(clf.trace_.weighted_loss.max())  # g: log n = 0


# -- weights of any scale ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("weight", [1e-300, 1e-30, 1e-3, 7.0])
@pytest.mark.parametrize(
    "clf",
    [
        tb.OCOBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0),
        tb.AverageBoostClassifier(TREE, n_estimators=3, eta="theory", random_state=0),
        tb.AdaLPBoostClassifier(TREE, n_estimators=3, eta="theory", random_state=0),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_weights_of_any_scale_promise_nothing_false(clf, weight):
    X, y = noisy(0, n=90)
    guarantee = clf.fit(X, y, sample_weight=np.full(len(y), weight)).summary_
    assert str(guarantee)
    for bound in bounds_of(guarantee):
        assert bound.bound is not None or bound.note
        if bound.bound is not None and bound.achieved is not None:
            assert bound.achieved <= bound.bound + 1e-9
    promise = guarantee.promised[0]
    if promise.bound is not None:
        g, T = clf.trace_.weighted_loss.max(), clf.n_iter_
        assert promise.bound == pytest.approx(g + math.sqrt(math.log(90) / (2 * T)), abs=1e-12)
    assert clf.game_.player.eta == pytest.approx(math.sqrt(8 * math.log(90) / 3), rel=1e-15)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("total", [300.0, 3.0, 1.0, 0.5])
def test_oco_plays_the_rounds_of_its_theorem_whatever_the_weights_sum_to(total):
    """Regression: log Σw for log n gave one round at Σw = 1 with a false bound, or a division by 0."""
    X, y = noisy(0, n=300)
    learner = Adversary(0.19)
    clf = tb.OCOBoostClassifier(learner, gamma=0.3, random_state=0).fit(
        X, y, sample_weight=np.full(300, total / 300)
    )
    assert clf.n_iter_ == math.ceil(2 * math.log(300) / 0.3**2)
    share = clf.predict_distribution(X)[np.arange(300), y]
    assert share.min() > 0.5
    promise, of_voters = clf.summary_.promised
    assert 1 - share.min() <= promise.bound + 1e-12
    assert 1 - share.min() <= of_voters.bound < 0.5


def cvar_by_program(losses, alpha, p):
    solved = linprog(
        -losses, A_eq=np.ones((1, len(p))), b_eq=[1], bounds=list(zip(0 * p, p / alpha, strict=True))
    )
    return -solved.fun


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(12))
def test_the_programs_mixture_has_a_bound_of_its_own(seed):
    rng = np.random.default_rng(seed)
    X, y = noisy(seed, n=80, K=2 + seed % 2)
    weight, alpha = rng.integers(1, 4, 80), float(rng.choice([0.1, 0.3, 0.8]))
    clf = tb.AdaLPBoostClassifier(
        TREE, n_estimators=6, alpha=alpha, eta=("theory", 1.0, 0.3)[seed % 3],
        cv=("train", 5)[seed % 2],
        include_constants=bool(seed % 5), n_iter_no_change=(None, 1)[seed // 6], random_state=0,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    for found, level in ((clf.summary_, alpha), (clf.reweight(alpha=0.5).summary_, 0.5)):
        (even, own) = (b for b in found.observed if b.name.startswith("CVaR"))
        assert "λ" in own.name
        assert own.achieved == pytest.approx(found.achieved)
        assert own.achieved <= even.achieved + 1e-9
        assert own.achieved <= own.bound == even.bound
        for promise in (b for b in found.promised if "λ" in b.name):
            assert promise.bound is None or own.achieved <= promise.bound
            assert (promise.bound is None) == (clf.n_iter_ < 6)
        if clf.cv == "train":
            mixture = clf if level == alpha else clf.reweight(alpha=level)
            truth = 1 - mixture.predict_distribution(X)[np.arange(80), y]
            assert own.achieved == pytest.approx(
                cvar_by_program(truth, level, weight / weight.sum()), abs=1e-7
            )


def test_the_programs_mixture_has_no_bound_on_other_rows():
    X, y = noisy(0, n=90)
    X_val, y_val = noisy(1, n=90)
    held = tb.AdaLPBoostClassifier(TREE, n_estimators=3, eta="theory", n_iter_no_change=None, random_state=0)
    for clf in (clone(held).fit(X, y, X_val=X_val, y_val=y_val), held.fit(X, y).reweight(X_val, y_val)):
        found = [b for b in bounds_of(clf.summary_) if "λ" in b.name]
        assert len(found) == 2
        assert all(b.bound is None and "other losses" in b.note for b in found)
    fair = held.fit(X, y).reweight(X_val, y_val, objective="worst_class")
    assert not [b for b in bounds_of(fair.summary_) if "λ" in b.name]


class Adversary(ClassifierMixin, BaseEstimator):
    """Errs on the rows with the smallest first feature, up to a weighted loss of ``g``."""

    def __init__(self, g=0.3):
        self.g = g

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        order, w = np.argsort(X[:, 0]), sample_weight / sample_weight.sum()
        wrong, spent = [], 0.0
        for i in order:
            if spent + w[i] <= self.g:
                wrong.append(i)
                spent += w[i]
        self.answer_ = dict(zip(X[:, 0].tolist(), y.tolist(), strict=True))
        for i in wrong:
            self.answer_[X[i, 0]] = 1 - self.answer_[X[i, 0]]
        return self

    def predict(self, X):
        return np.array([self.answer_[x] for x in X[:, 0].tolist()])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_promise_is_false_for_light_or_uneven_weights():
    """200 weightings; with log Σw for log 1/min p every tenth bound at mean weight .02–.05 was false."""
    false = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n, T = int(rng.integers(10, 60)), int(rng.choice([1, 2, 5, 20]))
        X, y = rng.normal(size=(n, 2)), np.arange(n) % 2
        for mean in (0.05, 0.02):
            w = np.ones(n) if seed % 3 == 0 else 10 ** rng.uniform(-2, 0, n)
            clf = tb.AverageBoostClassifier(
                Adversary(rng.choice([0.05, 0.2, 0.4])), n_estimators=T, eta="theory", random_state=0
            ).fit(X, y, sample_weight=w * mean / w.mean())
            largest = (1 - clf.predict_distribution(X)[np.arange(n), y]).max()
            (promise,) = clf.summary_.promised
            false += largest > promise.bound + 1e-9
    assert false == 0


# -- outliers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        tb.AdaLPBoostClassifier,
        tb.LPBoostClassifier,
        lambda *a, **p: tb.RegularizedLPBoostClassifier(*a, beta=1.0, **p),
    ],
)
def test_outliers_left_out_are_named_and_counted(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] > 0).astype(int)
    noise = rng.random(400) < 0.3
    y[noise] = rng.integers(0, 2, noise.sum())
    clf = make(
        DecisionTreeClassifier(max_depth=2), alpha=0.5, outlier_fraction=0.25, cv="train",
        include_constants=False, random_state=0,
    ).fit(X, y)  # fmt: skip
    found = clf.summary_
    loss = np.sort(1 - clf.predict_distribution(X)[np.arange(400), y])
    assert found.achieved_on_all == pytest.approx(loss[200:].mean(), abs=1e-9)
    assert found.achieved < found.achieved_on_all - 0.1
    assert found.dropped == 0.25
    assert "dropped = 0.25" in found.details
    for bound in found.promised:
        assert bound.bound is None
        assert "outliers" in bound.note
    # Errors of classes count all rows.
    classes = clf.reweight(objective="worst_class").summary_
    assert classes.dropped == 0
    assert classes.achieved_on_all == classes.achieved


# -- comparisons ------------------------------------------------------------------------------------------


def best_constants(y, subgroups, allowed=0.0):
    """Smallest largest error of a subgroup over mixtures of the constants, by a separate linear program."""
    K, names = y.max() + 1, np.unique(subgroups)
    errors = np.array([[np.mean(y[subgroups == u] != k) for k in range(K)] for u in names]) - np.reshape(
        allowed, (-1, 1)
    )
    solved = linprog(
        np.r_[np.zeros(K), 1.0],
        A_ub=np.c_[errors, -np.ones(len(names))],
        b_ub=np.zeros(len(names)),
        A_eq=np.r_[np.ones(K), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * K + [(None, None)],
    )
    return solved.fun


def test_best_mixture_of_constants_over_groups():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, K = 300, 2 + seed % 3
        group, X = rng.integers(0, 3, n), rng.normal(size=(n, 3))
        y = np.minimum(rng.geometric(0.3 + 0.2 * group / 2, n) - 1, K - 1)
        clf = tb.GroupDROBoostClassifier(TREE, n_estimators=3, random_state=0).fit(X, y, groups=group)
        found = clf.summary_
        assert found.constants_value == pytest.approx(best_constants(y, group), abs=1e-7)
        # The constants are candidates; 1e-3 of the largest error trades against 1 of the overall error.
        assert found.achieved <= found.constants_value + 1e-3
        if found.achieved >= found.constants_value - 1e-7:
            assert "no better than" in found.comparison


def test_best_mixture_of_constants_over_classes_and_cells():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, K = 60, int(rng.integers(2, 6))
        y, group = np.r_[np.arange(K), rng.integers(0, K, n - K)], rng.integers(0, 2, n)
        rows = Rows(y, np.ones(n), group, "rows")
        counts = Counts(rows, np.arange(K), GroupNames((np.arange(2),)))
        for by, subgroups in (("class", y), ("group", group), ("cell", y + K * group)):
            largest = rates.Objective.from_expression(rates.largest(rates.error(by=by)))
            found = Mixture(Problem(largest, randomized=True), JudgedPool(rows, K), counts).constants
            assert found == pytest.approx(best_constants(y, subgroups), abs=1e-7)


def test_a_constant_alone_is_called_one():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(400, 2)), np.arange(400) % 2
    y = (rng.random(400) < 0.2).astype(int)
    labels = np.array(["no", "yes"])[y]
    clf = tb.GroupDROBoostClassifier(DummyClassifier(), n_estimators=2, random_state=0)
    found = clf.fit(X, labels, groups=group).summary_
    assert found.ignores_features
    assert "no better than the best answers that ignore the features" in found.comparison


def test_one_member_alone_is_named():
    X, y = noisy(1, n=150, K=2)
    clf = tb.AverageBoostClassifier(DecisionTreeClassifier(), n_estimators=1, random_state=0).fit(X, y)
    assert clf.summary_.single == "plain ERM"
    assert "single = plain ERM" in clf.summary_.details


class Fades(ClassifierMixin, BaseEstimator):
    """Errs on a fifth of the even rows for even weights, and on two fifths of all rows for others."""

    def fit(self, X, y, sample_weight=None):
        self.classes_, self.n_ = np.unique(y), len(y)
        self.even_ = np.ptp(sample_weight) < 1e-6 * np.max(sample_weight)
        return self

    def predict(self, X):
        row = X[:, 0].astype(int)
        wrong = (row < self.n_ / 5) & (row % 2 == 0) if self.even_ else row < 2 * self.n_ / 5
        return (row // 2 + wrong) % 2


def test_an_even_mixture_may_be_worse_than_its_first_member():
    row = np.arange(200)
    clf = tb.GroupDROBoostClassifier(
        Fades(),
        n_estimators=4,
        combine="average",
        cv="train",
        include_constants=False,
        random_state=0,
    ).fit(row[:, None], row // 2 % 2, groups=row % 2)
    found = clf.summary_
    assert (found.reference_value, found.achieved) == pytest.approx((0.2, (0.2 + 3 * 0.4) / 4))
    assert "reference_value = 0.2" in found.details
    assert "reference = the balanced model of round 1" in found.details


def test_what_is_allowed_is_on_both_sides():
    X, y = noisy(5, n=400, d=3, K=3)
    clf = tb.WorstClassBoostClassifier(
        TREE, max_error={0: 0.1, None: 0.8}, class_loss="error", random_state=0, n_estimators=5
    ).fit(X, y)
    found = clf.summary_
    allowed = np.array([0.1, 0.8, 0.8])
    share = np.bincount(y) / len(y)
    assert found.achieved == pytest.approx(
        share @ clf.expected_subgroup_errors_, abs=1e-9
    )  # the overall error
    assert clf.limits_met_ is bool((errors_of(clf) <= allowed + 1e-9).all())
    assert found.largest_error == pytest.approx(clf.expected_subgroup_errors_.max(), abs=1e-9)
    # Within the limits a constant k has a weight of at least 1 − max_error: .9 + .2 + .2 is too much.
    assert found.constants_value is found.random_guess_value is None
    is_kept = bool((clf.expected_subgroup_errors_ <= allowed + 1e-9).all())
    assert is_kept is ("no answers that ignore the features keep the limits" in str(found))
    loose = clf.reweight(max_error={0: 0.7, None: 0.8}).summary_
    weights = np.array([0.3, 0.2, 0.2]) + 0.3 * (share == share.max())
    assert loose.constants_value == pytest.approx(1 - share @ weights, abs=1e-7)
    assert loose.random_guess_value == pytest.approx(2 / 3)
    assert "keep the limits" in loose.comparison
    (measured,) = [b for b in found.observed if "predict" in b.name]
    assert measured.achieved == pytest.approx((errors_of(clf) - clf.max_error_).max())
    assert measured.bound == 0
    assert f"the largest error is {errors_of(clf).max():.4g}" in measured.note
    even = tb.WorstClassBoostClassifier(
        TREE, max_error=0.5, class_loss="error", random_state=0, n_estimators=3
    )
    (measured,) = [b for b in even.fit(X, y).summary_.observed if "predict" in b.name]
    assert measured.achieved == pytest.approx(errors_of(even).max())


@pytest.mark.parametrize(("class_loss", "met"), [("indicator", False), ("error", True)])
def test_an_error_equal_to_the_target(class_loss, met):
    """The indicator loss is 1 at R = max_error: a missed target there, and a met one in the error game."""
    y = np.repeat([0, 1, 2], 10)
    X = 10.0 * y[:, None].astype(float)
    X[::10] = -50.0  # one row of each class has equal features: class 0 gets all three
    X_val = X.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = tb.WorstClassBoostClassifier(
            DecisionTreeClassifier(random_state=0), max_error=0.1, gamma=0.1, class_loss=class_loss,
            combine="vote", n_estimators=1, random_state=0,
        ).fit(X, y, X_val=X_val, y_val=y)  # fmt: skip
    assert errors_of(clf).max() == pytest.approx(0.1)
    assert clf.limits_met_ is met
    (target,) = [b for b in clf.summary_.observed if b.formula == "max_error"]
    assert target.strict is (class_loss == "indicator")
    assert f"{'≤' if met else '<'} max_error = 0.1 (achieved 0.1)" in clf.summary_.details


# -- symbols -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "clf",
    [
        tb.AdaLPBoostClassifier(TREE, n_estimators=2, eta="theory", n_iter_no_change=None),
        tb.AdaLPBoostClassifier(TREE, n_estimators=2, outlier_fraction=0.1),
        tb.LPBoostClassifier(TREE, n_estimators=2),
        tb.RegularizedLPBoostClassifier(TREE, n_estimators=2),
        tb.RegularizedLPBoostClassifier(TREE, n_estimators=8, beta=2.0, alpha=1.0, n_iter_no_change=None),
        tb.RegularizedLPBoostClassifier(TREE, n_estimators=2, beta=0.1),
        tb.AverageBoostClassifier(TREE, n_estimators=2, eta="theory"),
        tb.GroupDROBoostClassifier(TREE, n_estimators=2, eta="theory"),
        tb.WorstClassBoostClassifier(TREE, n_estimators=2, max_error={0: 0.1, None: 0.5}, class_loss="error"),
        tb.WorstClassBoostClassifier(TREE, n_estimators=2, max_error=0.5),
        tb.OCOBoostClassifier(TREE, n_estimators=2),
    ],
    ids=str,
)
def test_every_symbol_printed_is_explained(clf):
    X, y = noisy(3, n=120, K=3)
    found = clf.set_params(random_state=0).fit(X, y).summary_
    text = [found.summary, found.objective, *found.symbols.values()]
    text += [part for b in bounds_of(found) for part in (b.name, b.formula, b.note)]
    for words in text:
        for symbol in re.findall(r"[α-ω]|(?<![A-Za-z_\d.'])[A-Za-z](?![A-Za-z_'.-])", words):
            assert symbol in found.symbols or symbol in "a", (symbol, words)
        assert "log" not in words.split("(")[0].split() or "log" in found.symbols


@pytest.mark.parametrize("limits", [[], ["error() <= .5"]])
def test_a_budget_is_named_as_a_budget(limits):
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    fitted = tb.RobustMixtureClassifier.from_probabilities({"p": np.c_[1 - p, p]}, y, limits=limits)
    summary = fitted.reweight(objective="worst_class", error_budget=0.01).summary_
    names = [*["the limits"] * bool(limits), "the error budget"]
    assert summary.conditions == tuple(names)
    assert f"answers that ignore the features keep {' and '.join(names)}; the rule does." in str(summary)


def test_values_that_are_not_shown_to_be_better_are_named():
    """The sentence has the objective of both; here it is recomputed from the drawn answers of the rows."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200], y[:200]
    stump = DecisionTreeClassifier(max_depth=1, random_state=0)
    clf = tb.published.adalpboost(stump, alpha=0.1, T=100, eta=1.0, random_state=0).fit(X, y)
    losses = 1.0 - clf.predict_distribution(X)[np.arange(200), np.searchsorted(clf.classes_, y)]
    worst_tenth = np.sort(losses)[-20:].mean()
    assert worst_tenth < 0.5
    assert clf.summary_.comparison == (
        f"On the 200 training rows: CVaR at α = 0.1 of the randomised rule is {worst_tenth:.3f}, below that "
        "of the best answers that ignore the features (0.500). Not shown to be better on new rows: no "
        "interval for them is known."
    )


def test_the_randomised_rule_that_breaks_limits_is_named():
    """`predict` keeps the limits of the printed table; drawn answers break one."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 6))
    y = (X[:, :5] + rng.normal(size=(600, 5))).argmax(axis=1)
    clf = tb.published.worst_class_boost("tree", 0.5, gamma=0.05, n_estimators=25, random_state=0).fit(X, y)
    wrong = 1.0 - clf.predict_distribution(X)[np.arange(600), y]
    assert max(np.mean(clf.predict(X)[y == k] != k) for k in range(5)) < 0.5
    assert max(np.mean(wrong[y == k]) for k in range(5)) > 0.5
    assert "the randomised rule breaks the limits" in clf.summary_.comparison
