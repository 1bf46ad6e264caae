"""Budgets, limits and trade-off curves of boosted mixtures, against generic solvers and brute force."""

import json

import numpy as np
import pytest
from conftest import errors_of
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import rates
from tailboost.classifiers import VarianceBoostClassifier
from tailboost.learners import HistBoostClassifier
from tailboost.rates.metrics import class_errors, cvar, group_errors
from tailboost.selection.curve import Curve
from tailboost.selection.rate_table import RateTable

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


# Largest loss in the largest error for a gain of 1 in the overall error, of which `select` takes account.
TIE = 1e-3


def losses_kept(clf):
    """Zero-one losses of the members on the selection data, and the class of these rows."""
    pool = clf.selection_.pool
    return pool.losses.toarray().astype(float), pool.rows.y


def least_worst(clf, limit):
    """Least largest class error of a mixture within an overall error, by a generic solver."""
    wrong, y = losses_kept(clf)
    errors = np.array([wrong[:, y == k].mean(axis=1) for k in np.unique(y)])
    T = wrong.shape[0]
    return linprog(
        np.r_[np.zeros(T), 1.0],
        np.vstack([np.c_[errors, -np.ones(len(errors))], np.r_[wrong.mean(axis=1), 0.0]]),
        np.r_[np.zeros(len(errors)), limit],
        np.r_[np.ones(T), 0.0][None],
        [1.0],
        [(0, None)] * (T + 1),
        method="highs",
    ).fun


def expected_rates(clf):
    """Overall error and largest class error of the randomised rule, from the losses kept."""
    wrong, y = losses_kept(clf)
    losses = clf.estimator_weights_ @ wrong
    return losses.mean(), max(losses[y == k].mean() for k in np.unique(y))


@pytest.mark.slow
def test_points_are_optima_of_linear_programs(free):
    curve = free.tradeoff()
    wrong, _ = losses_kept(free)
    overall, worst = curve.values
    assert overall[0] == pytest.approx(wrong.mean(axis=1).min(), abs=1e-8)
    for point in curve:
        least = least_worst(free, point.limited)
        assert least - 1e-8 <= point.value <= least + TIE
        assert expected_rates(point.classifier) == pytest.approx((point.limited, point.value), abs=1e-8)
    assert worst[-1] == pytest.approx(free.summary_.achieved, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("randomized", [True, False])
def test_no_point_is_dominated(free, randomized):
    clf = free if randomized else tb.WorstClassBoostClassifier(BOOST, randomized=False, **SMALL).fit(X, Y)
    for pair in ((), (rates.miss("c"), rates.error()), (rates.gap(rates.error(by="class")), rates.error())):
        overall, worst = clf.tradeoff(*pair).values
        assert (np.diff(overall) > 0).all()
        assert (np.diff(worst) < 0).all()


@pytest.mark.parametrize("level", [0.0, 0.02, 0.05])
def test_the_classifier_within_a_limit_is_that_of_the_budget(free, level):
    curve = free.tradeoff()
    limit = curve[0].limited + level
    at, budgeted = curve.at(limit), free.reweight(error_budget=level)
    assert expected_rates(budgeted)[0] <= limit + 1e-9
    assert least_worst(free, limit) - 1e-8 <= expected_rates(budgeted)[1] <= least_worst(free, limit) + TIE
    assert expected_rates(at)[0] <= limit + 1e-9
    assert expected_rates(at)[1] >= expected_rates(budgeted)[1] - TIE  # a point of the curve, or between


def test_the_budget_of_a_fit():
    clf = tb.WorstClassBoostClassifier(BOOST, error_budget=0.02, **SMALL).fit(X, Y)
    wrong, _ = losses_kept(clf)
    budget = clf.summary_.budget
    assert budget.least_mean == pytest.approx(wrong.mean(axis=1).min())
    assert budget.mean <= budget.least_mean + 0.02 + 1e-9
    assert clone(clf).error_budget == 0.02
    assert clf.reweight(error_budget=1).summary_.achieved < clf.summary_.achieved


def test_a_budget_of_0_is_no_more_error_than_the_most_accurate_member(free):
    wrong, _ = losses_kept(free)
    assert expected_rates(free.reweight(error_budget=0.0))[0] <= wrong.mean(axis=1).min() + 1e-9


def test_predicted_is_what_predict_of_each_point_does(free):
    curve = free.tradeoff()
    overall, worst = curve.predicted(FRESH, LABELS)
    for place, point in enumerate(curve):
        answers = point.classifier.predict(FRESH)
        assert overall[place] == pytest.approx((answers != LABELS).mean())
        assert worst[place] == pytest.approx(max(class_errors(LABELS, answers).values()))


def test_rows_seen_on_a_curve_are_refused_by_certify(free):
    curve = free.tradeoff()
    tb.certify(curve.at(curve[-1].limited), FRESH, LABELS)
    curve.predicted(FRESH, LABELS)
    with pytest.raises(tb.LeakageError):
        tb.certify(curve.at(curve[-1].limited), FRESH, LABELS)


def test_weights_are_rows_said_twice(free):
    curve = free.tradeoff()
    weight = np.random.default_rng(0).integers(1, 3, len(FRESH))
    a = curve.predicted(FRESH, LABELS, sample_weight=weight)
    b = curve.predicted(np.repeat(FRESH, weight, axis=0), np.repeat(LABELS, weight))
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_groups():
    clf = tb.GroupDROBoostClassifier(TREE, error_budget=0.01, **SMALL).fit(X, Y, groups=G)
    curve = clf.tradeoff()
    assert clf.summary_.budget.mean <= curve[0].limited + 0.01 + 1e-9
    fresh_groups = np.resize(G, len(FRESH))
    _, worst = curve.predicted(FRESH, LABELS, groups=fresh_groups)
    errors = group_errors(LABELS, curve[-1].classifier.predict(FRESH), fresh_groups)
    assert worst[-1] == pytest.approx(max(errors.values()), abs=1e-9)
    with pytest.raises(ValueError, match="groups"):
        curve.predicted(FRESH, LABELS)


@pytest.mark.parametrize("alpha", [0.2, 0.6])
def test_the_curve_of_a_tail(alpha):
    """A generic linear program: CVaR ≤ q + Σ p max(loss − q, 0)/α."""
    clf = tb.AdaLPBoostClassifier(TREE, alpha=alpha, n_estimators=5, random_state=0).fit(X[:300], Y[:300])
    curve = clf.tradeoff()
    wrong, _ = losses_kept(clf)
    T, n = wrong.shape
    for point in (curve[0], curve[len(curve) // 2], curve[-1]):
        cost = np.r_[np.zeros(T), 1.0, np.full(n, 1 / (n * alpha))]
        A = np.vstack(
            [np.hstack([wrong.T, -np.ones((n, 1)), -np.eye(n)]), np.r_[wrong.mean(axis=1), np.zeros(n + 1)]]
        )
        least = linprog(
            cost, A, np.r_[np.zeros(n), point.limited], np.r_[np.ones(T), np.zeros(n + 1)][None], [1.0],
            [(0, None)] * T + [(None, None)] + [(0, None)] * n, method="highs",
        )  # fmt: skip
        assert point.value == pytest.approx(least.fun, abs=1e-6)
        losses = point.classifier.estimator_weights_ @ wrong
        assert cvar(losses, alpha) == pytest.approx(point.value, abs=1e-8)
        assert losses.mean() <= point.limited + 1e-9
    overall, tail = curve.predicted(FRESH, LABELS)
    np.testing.assert_allclose(tail, np.minimum(1.0, overall / alpha))


@pytest.mark.parametrize(
    "clf",
    [
        tb.AverageBoostClassifier(TREE, n_estimators=3, random_state=0),
        tb.GroupDROBoostClassifier(TREE, combine="average", n_estimators=3, random_state=0),
        tb.WorstClassBoostClassifier(TREE, combine="vote", n_estimators=3, random_state=0),
        tb.OCOBoostClassifier(TREE, gamma=0.1, n_estimators=3, random_state=0),
        tb.LPBoostClassifier(TREE, n_estimators=3, random_state=0),
        tb.AdaBoostClassifier(TREE, n_estimators=3, random_state=0),
        tb.VadaBoostClassifier(TREE, n_estimators=3, random_state=0),
        tb.EBBoostClassifier(n_estimators=3, random_state=0),
        tb.DROBoostClassifier(TREE, n_estimators=3, random_state=0),
    ],
    ids=lambda clf: type(clf).__name__,
)
@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
def test_every_boosting_classifier_has_the_same_attributes_and_one_curve(clf):
    clf = clone(clf).fit(X, Y == "a")
    assert isinstance(clf.rates_, RateTable)
    assert clf.limits_met_ is None
    assert list(clf.subgroup_errors_) == [False, True]
    assert clf.summary_.details
    if isinstance(clf, (VarianceBoostClassifier, tb.DROBoostClassifier)):  # there is one rule
        assert not hasattr(clf, "tradeoff")
        return
    for pair in ((), (rates.miss(True), rates.error()), (None, rates.miss(True))):
        curve = clf.tradeoff(*pair)
        assert type(curve) is Curve
        assert (np.diff(curve.values.limited) > 0).all()
        assert curve.predicted(FRESH, LABELS == "a").limited.shape == (len(curve),)
        point = curve.at(curve[-1].limited)
        assert type(point) is type(clf)
        with pytest.raises(tb.LeakageError):
            tb.certify(point, FRESH, LABELS == "a")


def test_rates_are_those_of_the_siblings_that_did_not_see_the_rows(free):
    """Confusion counts from the answers kept, by hand."""
    pool = free.selection_.pool
    said = pool.shares(free.ensemble_).argmax(axis=1)
    wrong = said != pool.rows.y
    errors = [wrong[pool.rows.y == k].mean() for k in range(3)]
    np.testing.assert_allclose(list(free.subgroup_errors_.values()), errors)
    np.testing.assert_allclose([line.value for line in free.rates_], errors)
    assert list(free.subgroup_errors_) == ["a", "b", "c"]


def test_rows_given_to_reweight_are_the_rows_of_the_budget(free):
    some = free.reweight(FRESH, LABELS, objective="worst_class", error_budget=0.01)
    wrong = np.array([some.classes_[k] != LABELS for k in some.ensemble_.answers(FRESH)])
    assert some.summary_.budget.least_mean == pytest.approx(wrong.mean(axis=1).min())
    assert (some.estimator_weights_ @ wrong).mean() <= wrong.mean(axis=1).min() + 0.01 + 1e-9


def test_it_prints_and_is_plain_data(free):
    curve = free.tradeoff()
    assert json.loads(json.dumps(curve.to_dict()))["curve"]["limited"] == curve.values.limited.tolist()
    assert curve._repr_html_().count("<tr>") == min(len(curve), 12) + 1  # what notebooks call


def test_a_saved_model_keeps_its_budget(tmp_path, free):
    clf = free.reweight(error_budget=0.01)
    tb.save_model(clf, tmp_path / "m.model")
    again = tb.load_model(tmp_path / "m.model")
    np.testing.assert_allclose(again.tradeoff().values, clf.tradeoff().values)
    assert again.error_budget == 0.01
    assert again.reweight().summary_.budget == clf.summary_.budget


def test_the_stages_of_a_fit_keep_the_budget():
    clf = tb.WorstClassBoostClassifier(TREE, error_budget=0.01, **SMALL).fit(X, Y)
    *_, last = clf.staged_predict(FRESH)
    np.testing.assert_array_equal(last, clf.predict(FRESH))


def test_limits_out_of_reach_say_what_can_be_reached():
    target = {"max_error": 0.01, "class_loss": "error", **SMALL}
    with pytest.warns(tb.BoundNotMetWarning, match="mixture") as caught:
        clf = tb.WorstClassBoostClassifier(TREE, **target).fit(X, Y)
    least = float(str(caught[0].message).split("the least largest error is ")[1].split(",")[0])
    assert least == pytest.approx(least_worst(clf, 1.0), abs=5e-4)
    assert clf.limits_met_ is False


def test_max_error_is_a_limit():
    """The cheapest mixture within it, by a generic solver."""
    clf = tb.WorstClassBoostClassifier(BOOST, max_error=0.5, class_loss="error", **SMALL).fit(X, Y)
    wrong, y = losses_kept(clf)
    errors = np.array([wrong[:, y == k].mean(axis=1) for k in range(3)])
    T = len(wrong)
    cheapest = linprog(wrong.mean(axis=1), errors, np.full(3, 0.5), np.ones((1, T)), [1.0], [(0, None)] * T)
    overall, worst = expected_rates(clf)
    assert worst <= 0.5 + 1e-8
    assert overall == pytest.approx(cheapest.fun, abs=1e-8)
    assert (clf.expected_subgroup_errors_ <= clf.max_error_ + 1e-9).all()


def test_a_vote_and_an_even_mixture_cannot_keep_a_budget():
    with pytest.raises(ValueError, match="error_budget needs combine='mixture'"):
        tb.WorstClassBoostClassifier(error_budget=0.1, combine="vote").fit(X, Y)
    with pytest.raises(ValueError, match="error_budget needs combine='mixture'"):
        tb.GroupDROBoostClassifier(error_budget=0.1, combine="average").fit(X, Y)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, np.nan, "much", True])
def test_budgets_are_numbers_from_0_to_1(free, wrong):
    with pytest.raises(ValueError, match="error_budget"):
        free.reweight(error_budget=wrong)


def test_the_curve_of_a_held_out_set_and_of_another_model():
    clf = tb.WorstClassBoostClassifier(RandomForestClassifier(15, random_state=0), **SMALL)
    clf.fit(X[:600], Y[:600], X_val=X[600:], y_val=Y[600:])
    assert "300 rows of X_val" in clf.tradeoff().measured_on


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 0.02])
def test_a_single_member_by_brute_force(budget):
    """No other member within the budget has a smaller largest error, and `predict` answers as it does."""
    clf = tb.WorstClassBoostClassifier(BOOST, randomized=False, error_budget=budget, **SMALL).fit(X, Y)
    wrong, y = losses_kept(clf)
    assert np.count_nonzero(clf.estimator_weights_) == 1
    chosen = int(clf.estimator_weights_.argmax())
    assert errors_of(clf) == pytest.approx([wrong[chosen, y == k].mean() for k in range(3)], abs=1e-9)
    assert errors_of(clf) == pytest.approx(clf.expected_subgroup_errors_, abs=1e-9)
    assert np.array_equal(clf.predict(FRESH), clf.predict_with(FRESH, np.full(len(FRESH), chosen)))
    means = wrong.mean(axis=1)
    worst = np.array([[w[y == k].mean() for k in range(3)] for w in wrong]).max(axis=1)
    inside = means <= means.min() + (1.0 if budget is None else budget) + 1e-9
    assert inside[chosen]
    assert worst[chosen] + TIE * means[chosen] == pytest.approx((worst + TIE * means)[inside].min())
    tail = clf.reweight(objective="cvar", alpha=0.3)
    shared = tb.WorstClassBoostClassifier(BOOST, error_budget=budget, **SMALL).fit(X, Y)
    expected = shared.reweight(objective="cvar", alpha=0.3).estimator_weights_
    assert np.array_equal(tail.estimator_weights_, expected)  # for a tail members share
    assert shared.gap_ < 1e-6
    reached = worst[inside].min() - least_worst(clf, means.min() + (1.0 if budget is None else budget))
    assert clf.gap_ == pytest.approx(reached, abs=2 * TIE)


def test_a_single_member_cannot_vote():
    with pytest.raises(ValueError, match="randomized=False needs combine='mixture'"):
        tb.WorstClassBoostClassifier(randomized=False, combine="vote").fit(X, Y)


@pytest.mark.parametrize("by", [None, "site"])
def test_the_first_limit_is_traded_also_one_on_recall(by):
    rng = np.random.default_rng(0)
    p = rng.random(600)
    y = (rng.random(600) < p).astype(int)
    groups = {"site": rng.choice(["n", "s"], 600)}
    limits = [rates.recall(1, by=by) >= 0.7, rates.deferred() <= 0.2]
    rule = tb.tune(tb.Scores(0, 1), p[:, None], y, groups=groups, limits=limits)
    curve = rule.tradeoff()
    assert (curve.bound, curve.limits) == (0.3, (limits[1],))
    point = curve.at(0.1)
    found = (point.predict(p[:, None]) == 1) | point.defers(p[:, None])
    units = [y == 1] if by is None else [(y == 1) & (groups["site"] == site) for site in "ns"]
    assert min(found[unit].mean() for unit in units) >= 0.9
    passed = tb.tune(tb.Scores(0, 1), p[:, None], y, limits=[rates.precision(1) >= 0.7, limits[1]]).tradeoff()
    assert passed.limited.rate == rates.deferred()


@pytest.mark.parametrize(("limit", "bound"), [("miss(1) <= 12.3%", 0.123), ("recall(1) >= 90%", 0.1)])
def test_the_printed_curve_shows_the_point_within_the_limit_of_the_rule(limit, bound):
    """Of many points some are shown; the one that a user asked for is never left out."""
    p = np.linspace(0, 1, 3000)
    y = (np.random.default_rng(0).random(3000) < p).astype(int)
    curve = tb.RobustMixtureClassifier.from_probabilities({"ours": p}, y, limits=[limit]).tradeoff()
    *_, (limited, value) = sorted((point.limited, point.value) for point in curve if point.limited <= bound)
    table, _, _words = str(curve).rpartition("\n")
    (marked,) = [line for line in table.splitlines() if "your limit" in line]
    assert marked.split() == [f"{limited:.4f}", f"{value:.4f}", *f"within your limit {bound}".split()]
    n_shown = len(table.splitlines()) - 1
    assert n_shown < len(curve)
    assert "your limit" not in str(curve.at(0.3).reweight(limits=[], objective="error").tradeoff())
