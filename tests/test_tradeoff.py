"""Budgets on the mean error, and the trade-off curve, through what users call."""

import json
import pickle

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistBoostClassifier
from tailboost.metrics import class_errors, cvar, expected_class_errors, expected_group_errors

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
BOOST = HistBoostClassifier(n_estimators=5)
SMALL = {"random_state": 0, "n_estimators": 8}


def table(n, seed):
    X, y = make_classification(
        n, 8, n_informative=4, n_classes=3, weights=[0.6, 0.3], class_sep=0.7, flip_y=0.1, random_state=5
    )
    order = np.random.default_rng(seed).permutation(n)
    return X[order], np.array(["a", "b", "c"])[y[order]]


ALL_X, ALL_Y = table(2400, 0)
X, Y, FRESH, LABELS = ALL_X[:900], ALL_Y[:900], ALL_X[900:], ALL_Y[900:]
G = np.array(["north", "south", "west"])[np.random.default_rng(3).integers(0, 3, len(X))]


@pytest.fixture(scope="module")
def free():
    return tb.WorstClassBoostClassifier(BOOST, **SMALL).fit(X, Y)


def losses_kept(clf):
    """Zero-one losses of the members on the rows λ is chosen on, and the class of these rows."""
    ledger = clf.combiner_.pool.ledger
    return ledger.pool().toarray().astype(float), ledger.rows.y


def shrunk(errors, clf, y):
    """Errors of shape (K, …) drawn towards their mean by pseudo-rows, as λ is chosen."""
    rows = clf.combiner_.pool.ledger.rows.sizes(y, len(errors))[
        :, None
    ]  # rows with the same lot count as one
    s = clf.objective_.shrinkage
    return (rows * errors + s * errors.mean(axis=0)) / (rows + s)


def tied(clf):
    """Which members are no more than one standard error above the least mean error, row by row."""
    wrong, y = losses_kept(clf)
    n = float(clf.combiner_.pool.ledger.rows.sizes(np.zeros(len(y), int), 1)[0])
    best = wrong[wrong.mean(axis=1).argmin()]
    return np.array([(w - best).mean() <= (w - best).std() / np.sqrt(n) + 1e-12 for w in wrong])


def within(clf, budget):
    """What the mean error may be within a budget: what the dearest of the tied members has is free."""
    means = losses_kept(clf)[0].mean(axis=1)
    return max(means.min() + budget, means[tied(clf)].max())


def least_worst(clf, limit):
    """The least largest class error, drawn towards the mean where that is asked, within a mean error."""
    wrong, y = losses_kept(clf)
    errors = shrunk(np.array([wrong[:, y == k].mean(axis=1) for k in np.unique(y)]), clf, y)
    T = wrong.shape[0]
    found = linprog(
        np.r_[np.zeros(T), 1.0],
        np.vstack([np.c_[errors, -np.ones(len(errors))], np.r_[wrong.mean(axis=1), 0.0]]),
        np.r_[np.zeros(len(errors)), limit],
        np.r_[np.ones(T), 0.0][None],
        [1.0],
        [(0, None)] * (T + 1),
        method="highs",
    )
    return found.fun


def test_the_curve_is_that_of_linear_programs_on_the_losses_kept(free):
    curve = free.tradeoff()
    wrong, y = losses_kept(free)
    assert curve.least_mean == pytest.approx(wrong.mean(axis=1).min())
    assert curve.mean[0] == pytest.approx(within(free, 0.0))
    for limit in np.linspace(curve.mean[0], curve.mean[-1], 20):
        assert np.interp(limit, curve.mean, curve.steered) == pytest.approx(
            least_worst(free, limit), abs=1e-8
        )
    np.testing.assert_allclose(curve.mixture @ wrong.mean(axis=1), curve.mean)
    plain = [max((lam @ wrong)[y == k].mean() for k in range(3)) for lam in curve.mixture]
    np.testing.assert_allclose(curve.worst, plain)  # what is reported is as measured
    assert curve.worst[-1] == pytest.approx(
        free.guarantee_.achieved
    )  # without a budget: the end of the curve
    assert (curve.mean_budget >= 0).all()
    assert curve.gap < 1e-9


def test_points_of_given_budgets(free):
    curve = free.tradeoff([0.02, 0.0, 0.01])
    assert len(curve) == 3
    for budget, mean, worst in zip((0.0, 0.01, 0.02), curve.mean, curve.steered, strict=True):
        assert mean <= within(free, budget) + 1e-9
        assert worst == pytest.approx(least_worst(free, within(free, budget)), abs=1e-8)


@pytest.mark.parametrize("budget", [0.0, 0.01, 0.03, 1.0])
def test_a_point_by_every_road_is_the_same(free, budget):
    """at, reweight, and a fit that knows the budget from the start (with the same rounds)."""
    a, b = free.tradeoff().at(budget), free.reweight(mean_budget=budget)
    np.testing.assert_array_equal(a.estimator_weights_, b.estimator_weights_)
    wrong, y = losses_kept(a)
    expected = a.estimator_weights_ @ wrong
    assert expected.mean() <= within(free, budget) + 1e-9
    errors = np.array([expected[y == k].mean() for k in range(3)])
    steered = shrunk(errors[:, None], free, y).max()
    assert steered == pytest.approx(least_worst(free, within(free, budget)), abs=1e-8)
    assert a.guarantee_.achieved == pytest.approx(errors.max())
    assert a.guarantee_.budget.mean == pytest.approx(expected.mean())
    assert a.mean_budget == budget
    assert free.mean_budget is None
    assert free.guarantee_.budget is None


def test_the_budget_of_a_fit(free):
    clf = tb.WorstClassBoostClassifier(BOOST, mean_budget=0.02, **SMALL).fit(X, Y)
    budget = clf.guarantee_.budget
    assert budget.mean <= budget.least_mean + 0.02 + 1e-9
    assert free.guarantee_.achieved < clf.guarantee_.achieved  # it costs something here
    assert clf.guarantee_.achieved == pytest.approx(clf.expected_unit_errors_.max())
    assert "+ mean_budget (0.02); it is" in clf.guarantee_.details
    assert clf.reweight().guarantee_.achieved == clf.guarantee_.achieved  # its own budget by default
    assert clf.reweight(mean_budget=1).guarantee_.achieved < clf.guarantee_.achieved
    assert clone(clf).mean_budget == 0.02


def test_the_price_says_what_more_of_the_budget_buys(free):
    before = free.reweight(mean_budget=0.01).guarantee_
    after = free.reweight(mean_budget=0.015).guarantee_
    fell = before.achieved - after.achieved
    steered = [free.tradeoff([b]).steered[0] for b in (0.01, 0.015)]
    assert 0 < steered[0] - steered[1] <= before.budget.price * 0.005 + 1e-9
    assert fell > 0


def test_predicted_is_what_predict_of_each_point_does(free):
    curve = free.tradeoff([0.0, 0.01, 0.05])
    mean, worst = curve.predicted(FRESH, LABELS)
    r_mean, r_worst = curve.predicted(FRESH, LABELS, randomized=True)
    for i, budget in enumerate((0.0, 0.01, 0.05)):
        clf = curve.at(budget)
        answers = clf.predict(FRESH)
        assert mean[i] == pytest.approx((answers != LABELS).mean())
        assert worst[i] == pytest.approx(max(class_errors(LABELS, answers).values()))
        P = clf.predict_shares(FRESH)
        assert r_worst[i] == pytest.approx(max(expected_class_errors(LABELS, P).values()))
        true = np.searchsorted(clf.classes_, LABELS)
        assert r_mean[i] == pytest.approx(1 - P[np.arange(len(true)), true].mean())


def test_predicted_on_the_rows_of_the_choice(free):
    curve = free.tradeoff()
    mean, worst = curve.predicted(randomized=True)
    np.testing.assert_allclose(mean, curve.mean, atol=1e-9)
    np.testing.assert_allclose(worst, curve.worst, atol=1e-9)
    assert curve.predicted().worst[-1] == pytest.approx(free.unit_errors_.max())


def test_weights_are_rows_said_twice(free):
    curve = free.tradeoff()
    weight = np.random.default_rng(0).integers(1, 3, len(FRESH))
    a = curve.predicted(FRESH, LABELS, sample_weight=weight)
    b = curve.predicted(np.repeat(FRESH, weight, axis=0), np.repeat(LABELS, weight))
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_groups():
    clf = tb.GroupDROBoostClassifier(TREE, mean_budget=0.01, **SMALL).fit(X, Y, groups=G)
    curve = clf.tradeoff()
    assert clf.guarantee_.budget.mean <= curve.least_mean + 0.01 + 1e-9
    fresh_groups = np.resize(G, len(FRESH))
    _, worst = curve.predicted(FRESH, LABELS, groups=fresh_groups, randomized=True)
    last = curve.at(1.0)
    errors = expected_group_errors(LABELS, last.predict_shares(FRESH), fresh_groups)
    assert worst[-1] == pytest.approx(max(errors.values()), abs=1e-6)
    with pytest.raises(ValueError, match="needs groups"):
        curve.predicted(FRESH, LABELS)
    with pytest.raises(ValueError, match="were not kept: give X and y"):
        curve.predicted()


def test_targets_of_cells_are_traded_by_what_is_beyond_them():
    clf = tb.WorstClassBoostClassifier(
        TREE, max_error={"a": 0.3, None: 0.5}, class_loss="error", units="cell", validation="train", **SMALL
    )
    with pytest.warns(tb.BoundNotMetWarning):
        clf.fit(X, Y, groups=G)
    curve = clf.tradeoff()
    assert "beyond what it is allowed" in curve.objective
    assert (np.abs(curve.worst) <= 1).all()
    assert curve.fitted
    assert "members were fitted on these rows" in str(curve)
    strict = np.array([name[0] == "a" for name in clf.units_.tolist()])
    cheap = curve.at(0.0)
    assert curve.worst[0] == pytest.approx((cheap.expected_unit_errors_ - np.where(strict, 0.3, 0.5)).max())


@pytest.mark.parametrize("alpha", [0.2, 0.6])
def test_the_curve_of_a_tail(alpha):
    clf = tb.AdaLPBoostClassifier(TREE, alpha=alpha, **SMALL).fit(X, Y)
    curve = clf.tradeoff()
    wrong, _ = losses_kept(clf)
    for lam, worst in zip(curve.mixture, curve.worst, strict=True):
        assert worst == pytest.approx(cvar(lam @ wrong, alpha))
    assert curve.worst[-1] == pytest.approx(clf.guarantee_.achieved, abs=1e-8)
    some = clf.reweight(mean_budget=0.01)
    assert (some.estimator_weights_ @ wrong).mean() <= curve.least_mean + 0.01 + 1e-9
    assert some.guarantee_.achieved == pytest.approx(
        np.interp(some.guarantee_.budget.mean, curve.mean, curve.worst), abs=2e-5
    )
    worst_class = clf.reweight(objective="worst_class", mean_budget=0.02)
    assert worst_class.tradeoff([0.02]).steered[0] == pytest.approx(
        least_worst(worst_class, curve.least_mean + 0.02), abs=1e-8
    )
    assert worst_class.tradeoff().at(0.02).objective_ == worst_class.objective_


@pytest.mark.parametrize(
    "clf",
    [
        tb.AverageBoostClassifier(TREE, **SMALL),
        tb.GroupDROBoostClassifier(TREE, combine="average", **SMALL),
        tb.WorstClassBoostClassifier(TREE, combine="vote", **SMALL),
        tb.OCOBoostClassifier(TREE, gamma=0.1, n_estimators=5, random_state=0),
        tb.LPBoostClassifier(TREE, **SMALL),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_every_mixture_has_a_curve(clf):
    clf.fit(X, Y == "a")
    curve = clf.tradeoff()
    assert (np.diff(curve.steered) < 0).all()
    assert curve.predicted(FRESH, LABELS == "a").mean.shape == curve.mean.shape
    point = curve.at(0.01)
    assert point.guarantee_.budget.mean <= curve.least_mean + 0.01 + 1e-9
    assert point.get_params().get("mean_budget") is None  # `fit` of these would refuse one


def test_rows_given_to_reweight_are_the_rows_of_the_budget(free):
    some = free.reweight(FRESH, LABELS, objective="worst_class", mean_budget=0.01)
    wrong = np.array([some.classes_[k] != LABELS for k in some.ensemble_.answers(FRESH)])
    assert some.guarantee_.budget.least_mean == pytest.approx(wrong.mean(axis=1).min())
    assert (some.estimator_weights_ @ wrong).mean() <= wrong.mean(axis=1).min() + 0.01 + 1e-9


def test_it_prints_and_is_plain_data(free):
    curve = free.tradeoff()
    printed = str(curve)
    assert printed.splitlines()[0].split() == ["mean_budget", "mean", "error", "worst", "members"]
    assert "out-of-fold losses of the 900 training rows" in printed
    assert "fresh rows differ" in printed
    assert json.loads(json.dumps(curve.to_dict()))["worst"] == curve.worst.tolist()
    assert curve._repr_html_().count("<tr>") == min(len(curve), 12) + 1  # what notebooks call
    again = pickle.loads(pickle.dumps(curve))
    np.testing.assert_array_equal(again.at(0.01).predict(FRESH), curve.at(0.01).predict(FRESH))


def test_a_saved_model_keeps_its_budget(tmp_path, free):
    clf = free.reweight(mean_budget=0.01)
    tb.save_model(clf, tmp_path / "m.model")
    again = tb.load_model(tmp_path / "m.model")
    np.testing.assert_allclose(again.tradeoff().worst, clf.tradeoff().worst)
    assert again.mean_budget == 0.01
    assert again.reweight().guarantee_.budget == clf.guarantee_.budget


def test_the_stages_of_a_fit_keep_the_budget():
    clf = tb.WorstClassBoostClassifier(TREE, mean_budget=0.01, **SMALL).fit(X, Y)
    *_, last = clf.staged_predict(FRESH)
    np.testing.assert_array_equal(last, clf.predict(FRESH))


def test_targets_out_of_reach_say_what_can_be_reached():
    target = {"max_error": 0.5, "class_loss": "error", **SMALL}
    with pytest.warns(tb.BoundNotMetWarning, match=r"meets them there with mean_budget=(0\.\d+),") as told:
        tight = tb.WorstClassBoostClassifier(TREE, mean_budget=0.0, **target).fit(X, Y)
    words = str(told[0].message)
    needed = float(words.split("mean_budget=")[1].split(",")[0])
    assert tight.reweight(mean_budget=needed + 1e-3).bound_met_randomized_
    assert not tight.reweight(mean_budget=needed - 1e-3).bound_met_randomized_
    with pytest.warns(tb.BoundNotMetWarning, match="no mean_budget meets all targets there"):
        tb.WorstClassBoostClassifier(TREE, mean_budget=0.0, **target | {"max_error": 0.01}).fit(X, Y)


def test_a_vote_and_an_even_mixture_cannot_keep_a_budget():
    with pytest.raises(ValueError, match="mean_budget needs combine='mixture'"):
        tb.WorstClassBoostClassifier(mean_budget=0.1, combine="vote").fit(X, Y)
    with pytest.raises(ValueError, match="mean_budget needs combine='mixture'"):
        tb.GroupDROBoostClassifier(mean_budget=0.1, combine="average").fit(X, Y)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, np.nan, "much", True])
def test_budgets_are_numbers_from_0_to_1(free, wrong):
    with pytest.raises(ValueError, match="mean_budget must be"):
        free.reweight(mean_budget=wrong)
    with pytest.raises(ValueError, match="mean_budget must be"):
        free.tradeoff().at(wrong)
    with pytest.raises(ValueError, match="each of budgets must be"):
        free.tradeoff([0.1, wrong])


@pytest.mark.parametrize("wrong", [0.1, [], [[0.1]]])
def test_budgets_come_as_a_list(free, wrong):
    with pytest.raises(ValueError, match="must be a non-empty list"):
        free.tradeoff(wrong)


def test_predicted_checks_its_rows(free):
    curve = free.tradeoff()
    with pytest.raises(ValueError, match="needs both X and y"):
        curve.predicted(FRESH)
    with pytest.raises(ValueError, match="belong to rows"):
        curve.predicted(sample_weight=[1.0])
    with pytest.raises(ValueError, match="labels, X has"):
        curve.predicted(FRESH, LABELS[:-1])


def test_one_row(free):
    mean, worst = free.tradeoff().predicted(FRESH[:1], LABELS[:1])
    np.testing.assert_array_equal(mean, worst)


def test_the_curve_of_a_held_out_set_and_of_another_model():
    clf = tb.WorstClassBoostClassifier(RandomForestClassifier(15, random_state=0), **SMALL)
    clf.fit(X[:600], Y[:600], X_val=X[600:], y_val=Y[600:])
    curve = clf.tradeoff()
    assert "300 rows of X_val" in curve.judged_on
    assert not curve.fitted


@pytest.mark.parametrize("budget", [None, 0.02])
def test_one_member_alone_promises_what_predict_does(budget):
    """By brute force: `predict` is the promised point, and no other member within the budget is better."""
    clf = tb.WorstClassBoostClassifier(BOOST, randomized=False, mean_budget=budget, **SMALL).fit(X, Y)
    wrong, y = losses_kept(clf)
    assert np.count_nonzero(clf.estimator_weights_) == 1
    chosen = int(clf.estimator_weights_.argmax())
    assert clf.unit_errors_ == pytest.approx([wrong[chosen, y == k].mean() for k in range(3)], abs=1e-9)
    assert clf.unit_errors_ == pytest.approx(clf.expected_unit_errors_, abs=1e-9)
    assert np.array_equal(clf.predict(FRESH), clf.predict_with(FRESH, np.full(len(FRESH), chosen)))
    expected, means = clf.objective_.expected_worst(clf.combiner_.pool.ledger), wrong.mean(axis=1)
    inside = means <= means.min() + (1.0 if budget is None else budget) + 1e-9
    assert inside[chosen]
    assert expected[chosen] == pytest.approx(expected[inside].min())
    curve = clf.tradeoff()
    assert not curve.shared
    points = curve.predicted()
    np.testing.assert_allclose([points.mean, points.worst], [curve.mean, curve.worst], atol=1e-9)
    tail = clf.reweight(objective="cvar", alpha=0.3)
    shared = tb.WorstClassBoostClassifier(BOOST, mean_budget=budget, **SMALL).fit(X, Y)
    expected = shared.reweight(objective="cvar", alpha=0.3).estimator_weights_
    assert np.array_equal(tail.estimator_weights_, expected)  # for a tail members share
    assert shared.gap_ < 1e-6 <= clf.gap_ + 1e-6


def test_one_member_alone_says_what_it_can_reach():
    with pytest.warns(tb.BoundNotMetWarning, match="predict meets them there with mean_budget="):
        tb.WorstClassBoostClassifier(
            BOOST, max_error=0.6, class_loss="error", randomized=False, mean_budget=0.0, **SMALL
        ).fit(X, Y)
    with pytest.raises(ValueError, match="randomized=False needs combine='mixture'"):
        tb.WorstClassBoostClassifier(randomized=False, combine="vote").fit(X, Y)
