"""DRO boosting: the objective falls, steps are minimisers, radius 0 is AdaBoost, edges are harmless."""

import pickle
import warnings

import numpy as np
import pytest
from conftest import SINGLE_SPLIT
from scipy.optimize import minimize_scalar
from scipy.stats import chi2
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import AdaBoostClassifier as SklearnAdaBoost
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import tailboost as tb
from tailboost.boosting.game import Units
from tailboost.boosting.players.additive_player import Additive, Exponential
from tailboost.boosting.players.dro import MARGIN_LOSSES, WorstCase
from tailboost.solvers import entropic_weights, worst_case_weights
from tailboost.solvers.worst_case import BALLS

LOSSES = ("exponential", "logistic", "smoothed_hinge")

# The formulas of the papers, written directly.
PLAIN = {
    "exponential": lambda m: np.exp(-m),
    "logistic": lambda m: np.log1p(np.exp(-m)),
    "smoothed_hinge": lambda m: np.where(m >= 1, 0, np.where(m <= 0, 0.5 - m, (1 - m) ** 2 / 2)),
}

#: Balls whose worst case can be smoothed, and balls with `radius="auto"`.
SMOOTHED = [name for name, ball in BALLS.items() if ball.smooth is not None]
NEAR_KL = [name for name, ball in BALLS.items() if ball.near_kl]


def named(balls):
    """Return names as in messages."""
    return ", ".join(map(repr, balls))


def worst_by_duality(losses, p, radius, uncertainty):
    """Largest expected loss by its dual, a problem in one number, or by filling up the worst rows."""
    top, spread = losses.max(), np.ptp(losses)
    if radius == 0 or spread == 0:
        return p @ losses
    d = (losses - top) / spread
    if uncertainty == "cvar":
        order = np.argsort(-d)
        cap = np.exp(radius) * p[order]
        w = np.minimum(cap, np.maximum(1 - np.cumsum(cap) + cap, 0))
        return top + spread * (w @ d[order])
    if uncertainty == "kl":

        def dual(log_theta):
            theta = np.exp(log_theta)
            return (radius + np.log(p @ np.exp(theta * d))) / theta
    elif uncertainty == "chi2":

        def dual(eta):
            return eta + np.sqrt((1 + 2 * radius) * (p @ np.maximum(d - eta, 0) ** 2))
    else:
        raise NotImplementedError(f"write the dual of {uncertainty!r} here")

    grid = np.linspace(-25, 25, 150) if uncertainty == "kl" else -np.geomspace(1e-9, 1e5, 150)
    values = [dual(x) for x in grid]
    k = int(np.argmin(values))
    low, high = sorted((grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]))
    best = minimize_scalar(dual, bounds=(low, high), method="bounded", options={"xatol": 1e-13})
    return min(top, top + spread * min(best.fun, min(values)))


def worst(*args, learning_rate=1.0, **params):
    """Return the player of a worst case."""
    return Additive(WorstCase(*args, **params), learning_rate=learning_rate)


def objective(margins, p, rule):
    cost = rule.cost
    return worst_by_duality(PLAIN[cost.loss](margins), p, cost.radius, cost.uncertainty)


def random_game(seed, n=40, n_classes=2, p_wrong=0.35):
    """A base measure and a stream of hypotheses' errors."""
    rng = np.random.default_rng(seed)
    p = rng.random(n) + 0.05 if seed % 2 else np.ones(n)
    difficulty = np.clip(p_wrong + rng.normal(size=n) * 0.15, 0.02, 0.9)
    return p, lambda: rng.random(n) < difficulty


def rounds(rule, seed, n_rounds, **options):
    """Play random hypotheses; yield (state before, errors, state after) for each step."""
    p, draw = random_game(seed, n_classes=rule.cost.n_classes, **options)
    state = rule.start(Units.samples(p))
    for _ in range(n_rounds):
        wrong = draw()
        after = rule.update(state, wrong)
        if after.verdict:  # a real learner would stop here: draw another hypothesis instead
            continue
        yield state, wrong, after
        state = after


# --- the rule ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_in_logarithms(loss):
    m = np.array([-30.0, -2.5, -1e-3, 0.0, 0.3, 0.999, 1.0, 2.0, 20.0])
    L = MARGIN_LOSSES[loss]
    np.testing.assert_allclose(np.exp(L.log_value(m)), PLAIN[loss](m), rtol=1e-7)
    h = 1e-6
    slope = (PLAIN[loss](m - h) - PLAIN[loss](m + h)) / (2 * h)
    np.testing.assert_allclose(np.exp(L.log_slope(m)), slope, rtol=1e-5, atol=1e-6)
    with np.errstate(all="raise", divide="ignore", under="ignore"):
        for huge in (-1e6, 1e6):
            assert not np.isnan(L.log_value(np.array([huge]))).any()
            assert not np.isnan(L.log_slope(np.array([huge]))).any()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("uncertainty", BALLS)
def test_objective_falls_and_the_step_is_its_minimiser(uncertainty, loss, n_classes):
    for seed, radius in enumerate((0.0, 0.003, 0.05, 0.2)):
        rule = worst(n_classes, radius, uncertainty, loss)
        for state, wrong, after in rounds(rule, seed, 6):
            p, z = state.base, np.where(wrong, -1 / (n_classes - 1), 1.0)
            a = after.steps[-1]
            here = objective(state.margins, p, rule)
            there = objective(after.margins, p, rule)
            np.testing.assert_allclose(np.exp(rule.log_cost(after)), there, rtol=1e-7)
            assert rule.log_cost(after) < rule.log_cost(state)
            assert there < here
            grid = a * np.concatenate([np.linspace(0, 0.99, 8), 1 + np.geomspace(1e-3, 3, 8)])
            least = min(objective(state.margins + t * z, p, rule) for t in grid)
            assert there <= least + 1e-9 * here


@pytest.mark.parametrize("uncertainty", [name for name in BALLS if name != "cvar"])  # CVaR has kinks
def test_weights_are_the_gradient_of_the_objective(uncertainty):
    rule = worst(2, 0.05, uncertainty)
    state, _, _ = list(rounds(rule, 1, 9))[-1]
    u, h = rule.weights(state), 1e-6
    slopes = []
    for e in np.eye(len(u)):
        up = objective(state.margins + h * e, state.base, rule)
        slopes.append((objective(state.margins - h * e, state.base, rule) - up) / (2 * h))
    np.testing.assert_allclose(u, np.array(slopes) / np.sum(slopes), atol=2e-3)


def smoothed_objective(margins, p, rule):
    """F by the dual of the penalised tilt: one number for KL, bisection on the caps for CVaR."""
    rule = rule.cost
    losses, sigma = PLAIN[rule.loss](margins), rule.smoothing
    if rule.uncertainty == "kl":  # min over μ ≥ 0 of (σ + μ) log Σ p e^(ℓ/(σ + μ)) + μ δ

        def dual(log_mu):
            t = sigma + np.exp(log_mu)
            return (
                t * np.log(p @ np.exp((losses - losses.max()) / t)) + losses.max() + (t - sigma) * rule.radius
            )

        grid = np.linspace(-30, 10, 400)
        k = int(np.argmin([dual(x) for x in grid]))
        return dual(minimize_scalar(dual, bounds=(grid[max(k - 1, 0)], grid[min(k + 1, 399)])).x)
    cap, low, high = p * np.exp(rule.radius), -1e3, 1e3
    for _ in range(200):
        shift = (low + high) / 2
        w = np.minimum(cap, p * np.exp((losses - losses.max()) / sigma + shift))
        low, high = (low, shift) if w.sum() > 1 else (shift, high)
    used = w > 0
    return w @ losses - sigma * (w[used] @ np.log(w[used] / p[used]))


@pytest.mark.parametrize("uncertainty", SMOOTHED)
@pytest.mark.parametrize("smoothing", [0.01, 0.5])
def test_smoothed_weights_are_the_gradient_of_the_smoothed_objective(uncertainty, smoothing):
    rule = worst(2, 0.3, uncertainty, smoothing=smoothing)
    before, _, state = list(rounds(rule, 1, 9))[-1]
    assert rule.log_cost(state) < rule.log_cost(before)
    F = smoothed_objective(state.margins, state.base, rule)
    assert np.exp(rule.log_cost(state)) == pytest.approx(F, rel=1e-6)
    u, h = rule.weights(state), 1e-5
    slopes = []
    for e in np.eye(len(u)):
        up = smoothed_objective(state.margins + h * e, state.base, rule)
        slopes.append((smoothed_objective(state.margins - h * e, state.base, rule) - up) / (2 * h))
    np.testing.assert_allclose(u, np.array(slopes) / np.sum(slopes), atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("uncertainty", SMOOTHED)
def test_smoothing_costs_at_most_sigma_times_the_radius(uncertainty, loss):
    for smoothing in (1e-6, 0.1, 10.0, 1e300):
        sharp = worst(2, 0.3, uncertainty, loss)
        smooth = worst(2, 0.3, uncertainty, loss, smoothing)
        for state, _, _ in rounds(sharp, 3, 6):
            F, G = (np.exp(rule.log_cost(rule.at(state.base, state.margins))) for rule in (sharp, smooth))
            assert F - 0.3 * smoothing - 1e-9 <= G <= F + 1e-9


def test_smoothing_zero_changes_nothing_and_little_of_it_little(noisy):
    X, y = noisy
    fits = [
        tb.DROBoostClassifier(STUMP, n_estimators=8, radius=0.05, smoothing=s, random_state=0).fit(X, y)
        for s in (0.0, 1e-12)
    ]
    np.testing.assert_allclose(fits[0].log_costs_, fits[1].log_costs_, atol=1e-8)


@pytest.mark.parametrize("uncertainty", SMOOTHED)
def test_with_smoothing_no_radius_is_too_large(noisy, uncertainty):
    X, y = noisy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = tb.DROBoostClassifier(
            STUMP, n_estimators=8, radius=2.0, uncertainty=uncertainty, smoothing=0.2, random_state=0
        ).fit(X, y)
    assert clf.n_iter_ == 8
    (bound,) = clf.summary_.observed
    assert bound.formula == "(F + σδ)/L(0)"
    wrong = (clf.predict(X) != y).astype(float)
    truth = worst_case_weights(wrong, uncertainty, radius=2.0).value
    assert bound.achieved == pytest.approx(truth, abs=1e-9)
    assert truth <= bound.bound


@pytest.mark.parametrize("n_classes", [2, 4])
def test_radius_zero_is_adaboost(n_classes):
    ours, reference = worst(n_classes, 0.0), Additive(Exponential(n_classes))
    for seed in range(5):
        p, draw = random_game(seed)
        a, b = ours.start(Units.samples(p)), reference.start(Units.samples(p))
        for _ in range(60):
            np.testing.assert_allclose(ours.weights(a), reference.weights(b), rtol=0, atol=1e-10)
            wrong = draw()
            a, b = ours.update(a, wrong), reference.update(b, wrong)
            assert bool(a.verdict) == bool(b.verdict)
            if a.verdict:
                break
            assert a.steps[-1] == pytest.approx(b.steps[-1], rel=1e-10, abs=1e-10)


def test_adaboost_is_the_penalised_form_with_unit_temperature():
    # max_w ⟨w, −m⟩ − KL(w ‖ p), solved as the entropic program of one loss with β = 1 and no cap.
    rule = Additive(Exponential(2))
    for state, _, _ in rounds(rule, 3, 30):
        penalised = entropic_weights(-state.margins[None], 1e-6, 1.0, base=state.base)
        np.testing.assert_allclose(state.weighed.rows, penalised.unit_weights, atol=1e-9)


@pytest.mark.parametrize("uncertainty", BALLS)
def test_the_ends_of_the_radius(uncertainty):
    (*_, (state, _, _)) = rounds(worst(2, 0.0, uncertainty), 1, 8)
    losses = np.exp(-state.margins)
    ends = [WorstCase(2, radius, uncertainty).weigh(state.margins, state.base) for radius in (0.0, 50.0)]
    assert np.exp(ends[0].log_cost) == pytest.approx(state.base @ losses)
    assert np.exp(ends[1].log_cost) == pytest.approx(losses.max())


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("uncertainty", BALLS)
def test_the_radius_that_stops_the_first_step(uncertainty, n_classes):
    for n_wrong in (1, 3, 7):
        wrong = np.arange(20) < n_wrong
        limit = BALLS[uncertainty].critical(n_wrong / 20, 1 - 1 / n_classes)
        for radius, steps in ((limit * 0.99, True), (limit * 1.01, False)):
            rule = worst(n_classes, radius, uncertainty)
            state = rule.update(rule.start(Units.samples(np.ones(20))), wrong)
            assert (state.steps[0] > 0) == steps
    assert BALLS["kl"].critical(0.18, 0.5) == pytest.approx(-0.5 * np.log(4 * 0.18 * 0.82))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("uncertainty", BALLS)
@pytest.mark.thinned(3)
def test_ten_thousand_rounds_stay_finite(uncertainty, loss):
    rule = worst(2, 0.05, uncertainty, loss, learning_rate=0.5)
    p, draw = random_game(1, n=15, p_wrong=0.2)
    state = rule.start(Units.samples(p))
    cost = rule.log_cost(state)
    for _ in range(300 if loss == "exponential" else 100):
        if rule.finished(state):
            break
        after = rule.update(state, draw())
        if after.verdict:
            continue
        state = after
        assert rule.log_cost(state) < cost + 1e-12
        cost = rule.log_cost(state)
    for scale in (1e3, 1e5):  # margins as after tens of thousands of rounds
        far = rule.at(state.base, state.margins * scale)
        if rule.finished(far):
            continue
        u = rule.weights(far)
        assert np.isfinite(u).all()
        assert u.sum() == pytest.approx(1)
        after = rule.update(far, draw())
        assert np.isfinite(after.margins).all()
        assert np.isfinite(rule.log_cost(after))


def test_one_row_with_nearly_all_the_weight():
    p = np.ones(30)
    p[4] = 1e12
    for uncertainty in BALLS:
        rule = worst(2, 0.05, uncertainty)
        state = rule.start(Units.samples(p))
        rng = np.random.default_rng(0)
        for _ in range(20):
            wrong = rng.random(30) < 0.3
            state = rule.update(state, wrong)
            assert np.isfinite(state.margins).all()
            if state.verdict:
                break


def test_a_hypothesis_right_on_the_whole_tail_is_not_perfect():
    # CVaR looks at the worst rows only; errors elsewhere still limit the step.
    rule = worst(2, np.log(4), "cvar")
    state = rule.start(Units.samples(np.ones(20)))
    state = rule.at(state.base, np.linspace(-1, 1, 20))
    wrong = np.arange(20) >= 17
    after = rule.update(state, wrong)
    assert not after.verdict
    assert 0 < after.steps[-1] < 5
    assert rule.log_cost(after) < rule.log_cost(state)


def test_the_hinge_ends_at_zero_loss():
    rule = worst(2, 0.01, "kl", "smoothed_hinge")
    state = rule.start(Units.samples(np.ones(4)))
    for j in range(200):
        after = rule.update(state, np.arange(4) == j % 4)
        if not after.verdict:
            state = after
        if rule.finished(state):
            break
    assert rule.log_cost(state) == -np.inf


# --- the classifier ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy():
    return make_classification(400, 8, n_informative=4, flip_y=0.15, random_state=0)


STUMP = DecisionTreeClassifier(max_depth=2)


@pytest.mark.thinned(27)
@parametrize_with_checks(
    [
        tb.DROBoostClassifier(n_estimators=3, uncertainty="cvar", radius=0.01, loss="logistic", n_jobs=1),
    ],
    expected_failed_checks=lambda estimator: (
        {"check_class_weight_classifiers": "a tree with pure leaves keeps them at any class weight"}
        | SINGLE_SPLIT
    ),
)
def test_scikit_learn_conventions(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="radius=")
        check(estimator)


@pytest.mark.parametrize(("load", "depth"), [(load_breast_cancer, 1), (load_wine, 1), (load_iris, 1)])
def test_radius_zero_is_scikit_learns_adaboost(load, depth):
    X, y = load(return_X_y=True)
    tree = DecisionTreeClassifier(max_depth=depth)
    ours = tb.DROBoostClassifier(tree, n_estimators=25, radius=0.0, random_state=0).fit(X, y)
    theirs = SklearnAdaBoost(tree, n_estimators=25, random_state=0).fit(X, y)
    K = len(ours.classes_)
    np.testing.assert_allclose(
        ours.estimator_weights_, theirs.estimator_weights_[: len(ours.estimators_)] * (K - 1) / K, rtol=1e-9
    )
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("uncertainty", BALLS)
def test_worst_case_weights_belong_to_the_returned_classifier(noisy, uncertainty):
    X, y = noisy
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, len(y)).astype(float)
    clf = tb.DROBoostClassifier(n_estimators=10, radius=0.05, uncertainty=uncertainty, n_jobs=1)
    clf.fit(X, y, sample_weight=weight)
    w = clf.worst_case_weights_
    assert w.shape == y.shape
    assert w.sum() == pytest.approx(1)
    assert (w[weight == 0] == 0).all()
    losses = np.exp(-clf.margins(X, y))
    value = worst_case_weights(losses, uncertainty, radius=0.05, base=weight).value
    assert w @ losses == pytest.approx(value, rel=1e-7)
    assert np.log(value) == pytest.approx(clf.log_costs_[-1], rel=1e-7)


def test_held_out_rows_have_no_part_in_the_ball(noisy):
    X, y = noisy
    clf = tb.DROBoostClassifier(
        n_estimators=30, radius=0.01, cv=0.25, n_iter_no_change=5, n_jobs=1, random_state=0
    ).fit(X, y)
    assert (clf.worst_case_weights_ > 0).sum() == 300
    assert len(clf.estimators_) == clf.trace_.value.argmin() + 1
    assert clf.n_iter_ <= 30


def test_radius_from_the_data(noisy):
    X, y = noisy
    clf = tb.DROBoostClassifier(STUMP, n_estimators=2).fit(X, y)
    assert clf.effective_dim_ == 4
    assert clf.radius_ == pytest.approx(chi2.ppf(0.95, 4) / 800)
    weighted = tb.DROBoostClassifier(STUMP, n_estimators=2).fit(X, y, sample_weight=np.full(400, 2.0))
    assert weighted.radius_ == clf.radius_  # the scale of the weights says nothing about the rows
    w = np.where(np.arange(400) < 100, 3.0, 1.0)
    uneven = tb.DROBoostClassifier(STUMP, n_estimators=2).fit(X, y, sample_weight=w)
    assert uneven.radius_ == pytest.approx(chi2.ppf(0.95, uneven.effective_dim_) / 800)
    twice = np.repeat(np.arange(400), w.astype(int))  # a row given three times is one row
    assert tb.DROBoostClassifier(STUMP, n_estimators=2).fit(X[twice], y[twice]).radius_ == uneven.radius_
    given = tb.DROBoostClassifier(STUMP, n_estimators=2, effective_dim=30, confidence=0.9).fit(X, y)
    assert given.radius_ == pytest.approx(chi2.ppf(0.9, 30) / 800)
    tree = tb.DROBoostClassifier(n_estimators=2, n_jobs=1).fit(X, y)
    assert tree.effective_dim_ == clf_leaves(tree.estimators_[0])
    fixed = tb.DROBoostClassifier(STUMP, n_estimators=2, radius=0.01).fit(X, y)
    assert (fixed.radius_, fixed.effective_dim_) == (0.01, None)


def clf_leaves(member):
    return member.get_n_leaves()


def test_leaves_of_the_binned_tree(noisy):
    pytest.importorskip("xgboost")
    X, y = noisy
    shallow = tb.learners.HistTreeClassifier(max_depth=1, n_jobs=1).fit(X, y)
    assert shallow.get_n_leaves() == 2
    deep = tb.learners.HistTreeClassifier(max_depth=5, n_jobs=1).fit(X, y)
    assert 6 < deep.get_n_leaves() <= 32
    assert pickle.loads(pickle.dumps(deep)).get_n_leaves() == deep.get_n_leaves()


def test_a_radius_too_large_is_said_with_both_numbers(noisy):
    X, y = noisy
    first = STUMP.__class__(max_depth=2, random_state=0).fit(X, y)
    e = (first.predict(X) != y).mean()
    with pytest.warns(UserWarning, match="radius") as caught:
        clf = tb.DROBoostClassifier(STUMP, n_estimators=5, radius=2.0, random_state=0).fit(X, y)
    assert f"{-0.5 * np.log(4 * e * (1 - e)):.4g}" in str(caught[0].message)
    assert len(set(clf.predict(X))) == 1
    assert clf.predict(X)[0] == np.bincount(y).argmax()
    assert clf.n_iter_ == 1


def test_degenerate_learners(noisy):
    X, y = noisy
    constant = tb.DROBoostClassifier(DummyClassifier(), n_estimators=5, radius=0.0).fit(
        X, np.r_[y[1:], 1 - y[0]]
    )
    assert len(set(constant.predict(X))) == 1
    iris = load_iris()
    X, y = iris.data[:100], iris.target[:100]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        perfect = tb.DROBoostClassifier(STUMP, n_estimators=5).fit(X, y)
    assert (perfect.predict(X) == y).all()
    assert len(perfect.estimators_) == 1
    np.testing.assert_allclose(perfect.worst_case_weights_, 0.01)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("uncertainty", BALLS)
@pytest.mark.thinned(2)
def test_weight_two_is_the_row_twice(uncertainty, n_classes):
    for seed in range(4):
        X, y = make_classification(
            120, 6, n_informative=4, n_classes=n_classes, flip_y=0.2, random_state=seed
        )
        k = np.random.default_rng(seed).integers(0, 3, len(y))
        # A radius from the data counts rows; a row given twice is two of them.
        clf = tb.DROBoostClassifier(
            n_estimators=8, radius=0.05, uncertainty=uncertainty, n_jobs=1, random_state=0
        )
        weighted = pickle.loads(pickle.dumps(clf)).fit(X, y, sample_weight=k.astype(float))
        repeated = pickle.loads(pickle.dumps(clf)).fit(np.repeat(X, k, axis=0), np.repeat(y, k))
        np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-9)
        total = np.bincount(np.repeat(np.arange(len(y)), k), repeated.worst_case_weights_, len(y))
        np.testing.assert_allclose(weighted.worst_case_weights_, total, atol=1e-9)


def test_learning_rate_shortens_the_first_step(noisy):
    X, y = noisy
    whole = tb.DROBoostClassifier(STUMP, n_estimators=6, radius=0.02, random_state=0).fit(X, y)
    part = tb.DROBoostClassifier(STUMP, n_estimators=6, radius=0.02, learning_rate=0.1, random_state=0).fit(
        X, y
    )
    assert part.estimator_weights_[0] == pytest.approx(0.1 * whole.estimator_weights_[0])
    assert (np.diff(part.log_costs_) < 0).all()


def test_margins_are_those_of_the_rule():
    X, y = load_wine(return_X_y=True)
    clf = tb.DROBoostClassifier(STUMP, n_estimators=7, radius=0.01, random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.margins(X, y), clf.game_.state.margins, atol=1e-12)
    f = clf.decision_function(X)
    np.testing.assert_allclose(f.sum(axis=1), 0, atol=1e-12)
    binary = tb.DROBoostClassifier(STUMP, n_estimators=7, radius=0.01, random_state=0).fit(X, y > 0)
    np.testing.assert_allclose(
        binary.margins(X, y > 0), np.where(y > 0, 1, -1) * binary.decision_function(X), atol=1e-12
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (dict(radius=-0.1), "DROBoostClassifier"),
        (dict(radius=np.inf), "parameter"),
        (dict(radius=np.nan), "parameter"),
        (dict(radius="data"), "parameter"),
        (dict(confidence=1.0), "confidence"),
        (dict(effective_dim=0), "'effective_dim' parameter"),
        (dict(uncertainty="l2"), "uncertainty"),
        (dict(loss="hinge"), "parameter"),
        (dict(learning_rate=0.0), "'learning_rate' parameter"),
        (dict(learning_rate=1.5), "'learning_rate' parameter"),
        (dict(smoothing=-0.1), "smoothing"),
        (dict(smoothing=np.nan), "smoothing"),
        (
            dict(smoothing=0.1, uncertainty="chi2"),
            "uncertainty",
        ),
        (dict(uncertainty="cvar"), "uncertainty"),
    ],
)
def test_bad_input_is_named(noisy, params, message):
    X, y = noisy
    with pytest.raises(ValueError, match=message):
        tb.DROBoostClassifier(STUMP, **params).fit(X, y)
