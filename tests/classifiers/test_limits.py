"""max_error as limits, and messages about useless rules."""

import warnings

import numpy as np
import pytest
from conftest import errors_of
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
LIMITED = {1: 0.35, None: 1.0}  # miss at most 35 % of class 1; no limit for class 0


def rare(n, seed, share=0.2, slope=1.5):
    """Two classes, the second rarer, of which the features say something."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 4)) + slope * y[:, None] * np.array([1.0, 0.3, 0.0, 0.0]), y


X, Y = rare(1500, 0)
FRESH, LABELS = rare(20_000, 1)


@pytest.mark.parametrize("limit", ["miss(1) <= 20.01%", "selected(1) <= 30.01%"])
def test_a_limit_is_kept_to_less_than_a_row(limit):
    """One of 2,500 rows is .0004; the objective drives the rule to the limit."""
    rng = np.random.default_rng(0)
    s = rng.random(5000)
    y = (rng.random(5000) < s).astype(int)
    objective = tb.rates.selected(1) if "miss" in limit else tb.rates.miss(1)
    answers = tb.tune(tb.Scores(0, 1), s[:, None], y, limits=[limit], objective=objective).predict(s[:, None])
    count, n, most = (answers == 1).sum(), 5000, 0.3001
    if "miss" in limit:
        count, n, most = (answers[y == 1] == 0).sum(), (y == 1).sum(), 0.2001
    assert (most - 0.001) * n < count <= most * n


def models():
    return [("logistic", LogisticRegression()), ("bayes", GaussianNB()), ("tree", TREE)]


def by_fit(kind):
    """Fit with targets, or aim at them afterwards."""
    small = {"n_estimators": 8, "random_state": 0}
    if kind == "mixture":
        return tb.RobustMixtureClassifier(models(), max_error=LIMITED, random_state=0).fit(X, Y)
    if kind == "shared mixture":
        mix = tb.RobustMixtureClassifier(models(), random_state=0).fit(X, Y)
        return mix.reweight(max_error=LIMITED)
    if kind in ("worst class", "one member"):
        return tb.WorstClassBoostClassifier(
            max_error=LIMITED, randomized=kind == "worst class", random_state=0
        ).fit(X, Y)
    if kind == "worst class, later":
        return tb.WorstClassBoostClassifier(random_state=0).fit(X, Y).reweight(max_error=LIMITED)
    if kind == "group, later":
        return tb.GroupDROBoostClassifier(random_state=0).fit(X, Y).reweight(max_error=LIMITED)
    clf = tb.AdaLPBoostClassifier(TREE, alpha=0.3, **small).fit(X, Y)
    return clf.reweight(objective="worst_class", max_error={1: 0.6, None: 1.0})


@pytest.mark.parametrize(
    "kind",
    [
        "mixture", "shared mixture", "worst class", "one member", "worst class, later", "group, later",
        "tail, later",
    ],
)  # fmt: skip
@pytest.mark.thinned(2)
def test_a_target_stops_where_it_is_kept(kind):
    """The threshold of a known model gives the least cost of the limit."""
    clf = by_fit(kind)
    assert clf.limits_met_
    wrong = clf.predict(FRESH) != LABELS
    missed, limit = wrong[LABELS == 1].mean(), 0.6 if kind == "tail, later" else 0.35
    assert missed <= limit + 0.06  # on fresh rows, chosen on 300 of class 1
    score = LogisticRegression().fit(FRESH, LABELS).decision_function(FRESH)
    cut = np.quantile(score[LABELS == 1], max(missed, 0.2))
    cheapest = ((score > cut) != LABELS).mean()
    assert wrong.mean() <= cheapest + 0.05
    if kind != "tail, later":  # which has eight members and no thresholds between them
        assert missed >= limit - 0.2  # no more is paid than was asked for


def test_predict_of_a_mixture_keeps_the_limits_where_a_mixture_can():
    """Among mixtures for tighter limits, the cheapest whose `predict` satisfies the limits is selected."""
    mended = 0
    for seed in range(4):
        x, y = rare(500, seed)
        free = tb.AdaLPBoostClassifier(TREE, alpha=0.3, n_estimators=6, random_state=0).fit(x, y)
        pool = free.selection_.pool
        for target in (0.4, 0.5, 0.6):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tb.BoundNotMetWarning)
                clf = free.reweight(objective="worst_class", max_error={1: target, None: 1.0})
            wrong = pool.shares(clf.ensemble_).argmax(axis=1) != pool.rows.y
            missed = wrong[pool.rows.y == 1].mean()
            assert clf.subgroup_errors_[1] == pytest.approx(missed)
            assert clf.limits_met_ is bool(missed <= target + 1e-9)
            assert clf.limits_met_  # constants join the pool: some rule keeps each limit
            losses = pool.losses.toarray()[:, pool.rows.y == 1].mean(axis=1)
            mended += clf.estimator_weights_ @ losses < target - 1e-6  # tighter than the limit itself
    assert mended


@pytest.mark.parametrize("kind", ["mixture", "boosting"])
def test_where_none_keeps_the_targets_the_least_excess_is_taken_and_said(kind):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    noise = rng.normal(size=(600, 3))
    clf = (
        tb.RobustMixtureClassifier(models(), max_error=0.2, random_state=0)
        if kind == "mixture"
        else tb.WorstClassBoostClassifier(TREE, max_error=0.2, n_estimators=4, random_state=0)
    )
    words = r"limit violated" if kind == "mixture" else r"class . \(0\.\d+, allowed 0.2\).*no mixture keeps"
    with pytest.warns(tb.BoundNotMetWarning, match=words):
        clf.fit(noise, y)
    assert clf.limits_met_ is False
    # The best rule equals a random guess, .3 above the limit; a constant is .8 above.
    assert np.max(errors_of(clf)) < 0.65


def test_a_vote_stops_at_its_targets_too():
    """Three voters satisfy .5 at an overall error of .25; the first alone has largest error and mean .4.

    X_val selects the number of voters; with training rows, all rounds vote.
    """
    from test_worst_class import Scripted

    def play_script(answers, y, **params):
        Scripted.script, Scripted.fits = list(answers), 0
        rows = np.arange(len(y), dtype=float)[:, None]
        clf = tb.WorstClassBoostClassifier(
            Scripted(), n_estimators=3, eta=1.0, n_iter_no_change=None, random_state=0, **params
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return clf.fit(rows, y, X_val=rows + 0.25, y_val=y)

    y = np.array([0] * 10 + [1] * 10)
    voters = np.tile(y, (3, 1))
    for t, missed in enumerate([(0, 1, 2, 3, 10, 11, 12, 13), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)]):
        voters[t, list(missed)] = 1 - y[list(missed)]
    aimed = play_script(voters, y, max_error=0.5, combine="vote", class_loss="error")
    free = play_script(voters, y, max_error="auto", combine="vote", class_loss="error")
    np.testing.assert_allclose(errors_of(aimed), [0.5, 0.0])
    np.testing.assert_allclose(errors_of(free), [0.4, 0.4])
    assert aimed.limits_met_


def test_aiming_again_on_other_rows():
    clf = tb.WorstClassBoostClassifier(TREE, n_estimators=5, random_state=0).fit(X, Y)
    before = clf.estimator_weights_.copy()
    aimed = clf.reweight(FRESH[:5000], LABELS[:5000], objective="worst_class", max_error=LIMITED)
    missed = (aimed.predict(FRESH[5000:]) != LABELS[5000:])[LABELS[5000:] == 1].mean()
    assert missed <= 0.4
    np.testing.assert_array_equal(clf.estimator_weights_, before)
    assert clf.max_error == "auto"


def test_targets_that_cannot_be():
    clf = tb.AdaLPBoostClassifier(TREE, alpha=0.5, n_estimators=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="meaning"):
        clf.reweight(max_error=0.3)
    with pytest.raises(ValueError, match="called"):
        clf.reweight(objective="worst_class", max_error={7: 0.3, None: 0.5})
    with pytest.raises(ValueError, match="max_error"):
        clf.reweight(objective="worst_class", max_error=1.5)


# -- useless rules ------------------------------------------------------------------------------


def claims(found):
    return found.beats_random_guess, ": better than" in found.comparison


@pytest.mark.slow
def test_noise_is_not_called_better_than_a_coin():
    called = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        noise, y = rng.normal(size=(100, 4)), rng.integers(0, 2, 100)
        found = tb.RobustMixtureClassifier(models(), random_state=0).fit(noise, y).summary_
        called += found.beats_random_guess
        if found.achieved < found.constants_value - 1e-7:
            assert claims(found) == (found.beats_random_guess, found.beats_random_guess)
    assert called <= 3  # each has a probability of 2 %, so 4 of 25 have less than .002


def test_what_is_better_than_a_coin_is_shown_to_be():
    for clf in (
        tb.RobustMixtureClassifier(models(), random_state=0),
        tb.WorstClassBoostClassifier(random_state=0),
        tb.AdaLPBoostClassifier(TREE, alpha=0.9, n_estimators=4, random_state=0),
    ):
        found = clf.fit(X, Y).summary_
        assert claims(found) == (True, True)
        assert found.achieved < found.upper < found.constants_value


def test_rows_that_were_fitted_on_show_nothing():
    clf = tb.WorstClassBoostClassifier(TREE, n_estimators=3, cv="train", random_state=0).fit(X, Y)
    assert claims(clf.summary_) == (False, False)
    assert clf.summary_.upper is None


def test_additive_classifiers_speak_of_the_coin():
    noise, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    tb.AdaBoostClassifier(n_estimators=20).fit(noise, y)
    held_out = tb.AdaBoostClassifier(n_estimators=5).fit(X, Y, X_val=FRESH[:800], y_val=LABELS[:800])
    assert held_out.summary_.beats_random_guess
    assert held_out.summary_.error < held_out.summary_.upper < 0.5


def test_a_rule_that_selects_nobody_in_any_group_has_undefined_precisions():
    rng = np.random.default_rng(0)
    p, y, g = rng.random(60) / 2, (rng.random(60) < 0.2).astype(int), np.repeat(["a", "b"], 30)
    with pytest.warns(tb.UselessRuleWarning):
        clf = tb.tune(
            lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]), p[:, None], y, groups={"g": g},
            limits=["precision(1, by=g) >= .9"], by_group=True, random_state=0,
        )  # fmt: skip
    assert (clf.predict(p[:, None], groups={"g": g}) == 0).all()


def test_an_objective_about_one_label_alone_is_called_useless():
    model = GaussianNB().fit(X, Y)
    new, labels = FRESH[:2000], LABELS[:2000]
    with pytest.warns(tb.UselessRuleWarning):
        tb.tune(model, new, labels, objective=tb.rates.miss(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.UselessRuleWarning)
        tb.tune(model, new, labels, objective=tb.rates.miss(1), limits=["false_alarm(1) <= 30%"])
        tb.tune(model, new, labels, objective="error")


def test_a_rate_compared_by_equality_is_no_limit():
    with pytest.raises(TypeError, match="compare"):
        tb.calibrate(GaussianNB().fit(X, Y), FRESH, LABELS, limits=[tb.rates.miss(1) == 0.4])
