"""The field's benchmark: its measure, its exact program and its looked-up score, by brute force."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import log_loss

pd = pytest.importorskip("pandas")

import tailboost as tb
from experiments._experiment import Settings
from experiments._opponents import Bench
from experiments._tables import Data, Split
from experiments.field import _decomposition, _limits, _many, _opponents, _scores, _tables
from experiments.field._exact import Exact
from experiments.field._rules import Case, Goal, reached
from tailboost.learners import HistBoostClassifier

pytestmark = pytest.mark.experiments


def made(n, seed=0, n_groups=2):
    """Rows with a class that depends on one column and on the group."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    x = rng.normal(size=(n, 3)) + group[:, None] * 0.4
    y = (x[:, 0] + 0.5 * group + rng.normal(size=n) > 0.5).astype(np.intp)
    return _tables.Table(pd.DataFrame(x, columns=list("abc")), y, {"group": group})


def test_rates_are_those_of_drawn_answers():
    rng = np.random.default_rng(1)
    y, g = rng.integers(0, 2, 400), rng.integers(0, 3, 400)
    q = rng.random(400)
    found = reached(q, y, g)
    tpr = [q[(y == 1) & (g == k)].mean() for k in range(3)]
    fpr = [q[(y == 0) & (g == k)].mean() for k in range(3)]
    share = [q[g == k].mean() for k in range(3)]
    assert found["error"] == pytest.approx(np.where(y == 1, 1 - q, q).mean())
    assert found["gap"] == pytest.approx(max(np.ptp(tpr), np.ptp(fpr)))
    assert found["ratio"] == pytest.approx(min(share) / max(share))
    assert found["cell"] == pytest.approx(max(*fpr, *(1 - t for t in tpr)))


@pytest.mark.parametrize("goal", [Goal("odds", 0.1), Goal("parity", 0.1), Goal("ratio", 0.8)])
def test_exact_program_against_all_pairs_of_thresholds(goal):
    rng = np.random.default_rng(3)
    n = 60
    g, y = np.arange(n) % 2, rng.integers(0, 2, n)
    p = np.round(np.clip(0.5 * y + 0.2 * g + 0.4 * rng.random(n), 0, 1), 1)
    exact = Exact(p, y, g, goal)
    answer = reached(exact.answer(p, g), y, g)
    assert answer["error"] == pytest.approx(exact.error, abs=1e-9)
    kept = {"odds": answer["gap"] <= goal.level + 1e-9, "parity": answer["spread"] <= goal.level + 1e-9,
            "ratio": answer["ratio"] >= goal.level - 1e-9}  # fmt: skip
    assert kept[goal.kind]
    rules = [None, *np.unique(p), 2.0]
    least = 1.0
    for pair in itertools.product(rules[1:], repeat=2):
        q = (p >= np.array(pair)[g]).astype(float)
        of = reached(q, y, g)
        keeps = {"odds": of["gap"] <= goal.level, "parity": of["spread"] <= goal.level,
                 "ratio": of["ratio"] >= goal.level}  # fmt: skip
        least = min(least, of["error"] if keeps[goal.kind] else 1.0)
    assert exact.error <= least + 1e-9  # a draw between thresholds is at least as good as each rule


def test_a_score_is_out_of_fold_and_kept(tmp_path):
    train, test = made(600), made(300, seed=1)
    fits = []

    def make():
        fits.append(1)
        return HistBoostClassifier(n_estimators=20, max_depth=3)

    first = _scores.score(train, test, make, tmp_path, "made")
    again = _scores.score(train, test, make, tmp_path, "made")
    assert len(fits) == _scores.FOLDS
    np.testing.assert_allclose(first.P, again.P, rtol=1e-5)
    # Out-of-fold probabilities: the same as by hand.
    fold = _scores.hashes(train.X) % np.uint64(_scores.FOLDS)
    own = HistBoostClassifier(n_estimators=20, max_depth=3).fit(train.X[fold != 2], train.y[fold != 2])
    np.testing.assert_allclose(first.P[fold == 2], own.predict_proba(train.X[fold == 2]), atol=1e-6)
    with pytest.raises(KeyError, match="not scored"):
        first.model.predict_proba(test.X + 1.0)


def test_ours_told_is_near_the_exact_program_and_opponents_answer(tmp_path):
    train, test = made(4000), made(2000, seed=1)
    scored = _scores.score(train, test, _limits.learner, tmp_path, "made")
    case, goal = Case(scored, "group", 0), Goal("odds", 0.05)
    ours = _opponents.Ours(case, told=True, randomized=True)
    mix = ours.chosen(goal)
    assert mix.limits_met_
    q = mix.predict_distribution(train.X, groups={"group": case.groups})[:, 1]
    found = reached(q, train.y, case.groups)
    exact = Exact(scored.P[:, 1], train.y, case.groups, goal)
    assert exact.error - 1e-6 <= found["error"] <= exact.error + 0.005
    for name in ("exact program", "tailboost", "tailboost, blind", "one threshold"):
        answer = _opponents.OPPONENTS[name].make(case)(goal)
        assert ((answer >= 0) & (answer <= 1)).all()


def test_an_opponent_is_asked_what_it_takes():
    only_odds = _opponents.Opponent(
        _opponents.exact, told=True, kinds=("odds",), most_groups=2, levels=(0.02,)
    )
    table = made(50)
    case = Case(_scores.Scored(table, table, None, None, None, 0.0), "group", 0)
    assert only_odds.takes(case, Goal("odds", 0.02))
    assert not only_odds.takes(case, Goal("odds", 0.05))
    assert not only_odds.takes(case, Goal("parity", 0.02))
    three = made(90, n_groups=3)
    assert not only_odds.takes(
        Case(_scores.Scored(three, three, None, None, None, 0.0), "group", 0), Goal("odds", 0.02)
    )


def test_costs_by_row_come_near_to_those_of_who_knows_the_amounts(tmp_path, monkeypatch):
    table, rng = made(5000), np.random.default_rng(2)
    amounts = rng.choice([1.0, 2.0, 4.0, 30.0], len(table.y))
    X = table.X.assign(LIMIT_BAL=amounts, SEX=table.groups["group"])
    own = _tables.Table(X, table.y, {"sex": table.groups["group"]})
    monkeypatch.setitem(_many.TABLES, "credit", lambda folder: own)
    found = _many._points(Settings(out=tmp_path, data=tmp_path), "credit, amounts", 0)
    known = found["the score's least cost"]["cost"]
    train, test = _scores.drawn(own, 0, _many.TRAIN_ROWS, _many.TEST_ROWS, 0.4)
    p = _scores.score(train, test, _many.learner, tmp_path / "scores", "credit many", ("SEX",)).Q[:, 1]
    each = _many.MISSED * test.X["LIMIT_BAL"] / train.X["LIMIT_BAL"].mean()
    answers = p > 1 / (1 + _many.MISSED)
    by_mean = np.where(test.y == 1, (1 - answers) * each, answers).mean()
    assert found["least cost"]["cost"] <= known + 0.3 * (by_mean - known)
    limited = found["least cost, equalised odds 0.02, selected 0.35"]
    assert limited["cost"] >= found["least cost"]["cost"] - 0.01
    assert limited["share selected"] <= 0.38


@pytest.fixture
def bench():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 4))
    y = np.searchsorted([-0.7, 0.7], X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=400))
    parts = [Data(X[rows], y[rows]) for rows in (slice(200), slice(200, None))]
    return Bench(Split(*parts), None, None, 0)


def test_decomposition_has_the_models_of_the_classifier(bench):
    found = _decomposition.models_of(bench, 0)
    train, test = bench.rows.train, bench.rows.test
    for estimators, models in ((None, found["default"]), ("strong", found["strong"])):
        clf = tb.RobustMixtureClassifier(estimators, random_state=0, n_jobs=1).fit(train.X, train.y)
        losses = _decomposition.log_losses(models, train.y, test.y)
        assert losses["as it is"] == pytest.approx(log_loss(test.y, clf.predict_proba(test.X)), rel=1e-6)
        least = min(losses["average learned on test rows"], losses["convex average learned on test rows"])
        assert least < min(losses["as it is"], losses["equal weights"])


def test_best_convex_average_against_a_generic_solver():
    rng = np.random.default_rng(2)
    P, y = rng.dirichlet(np.ones(3), size=(3, 200)), rng.integers(0, 3, 200)
    own = P[:, np.arange(200), y]
    found = _decomposition.convex(np.log(P), y)
    constraint = {"type": "eq", "fun": lambda w: w.sum() - 1}
    best = minimize(
        lambda w: -np.log(w @ own).mean(), np.full(3, 1 / 3), bounds=[(0, 1)] * 3, constraints=constraint
    )
    assert found.sum() == pytest.approx(1)
    assert -np.log(found @ own).mean() == pytest.approx(best.fun, abs=1e-5)


def test_unused_budget_is_measured_on_the_curve():
    curve = SimpleNamespace(values=(np.array([0.10, 0.11, 0.14]), np.array([0.5, 0.4, 0.1])))
    mix = SimpleNamespace(tradeoff=lambda: curve)
    # With .02 more, the rule at .11 leaves .01; a draw of the last two has .4 − .3 / 3.
    assert _decomposition.unused(mix, 0.02) == pytest.approx([0.01, 0.1])
    assert _decomposition.unused(mix, 0.05) == [0.0, 0.0]
