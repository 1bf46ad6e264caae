"""Summaries of additive classifiers: values against independent computations, bounds against the truth."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import ADDITIVE, make, noisy
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import tailboost as tb
from tailboost.boosting.additive import AdditivePool, ErrorOfSteps
from tailboost.boosting.game import RoundCandidate, Units
from tailboost.boosting.players.additive_player import Additive, Exponential
from tailboost.rows.rows import Rows
from tailboost.solvers import worst_case_weights
from tailboost.solvers.worst_case import BALLS

LABELS = np.array(["a", "<b>", "c"])
TREE = DecisionTreeClassifier(max_depth=2)


def table(seed, n=160, K=2):
    X, y = noisy(seed, n, K=K)
    return X, LABELS[y]


def fitted(name, seed=0, K=2, **params):
    X, y = table(seed, K=K)
    return make(name, TREE, **{"n_estimators": 12, "random_state": seed} | params).fit(X, y), X, y


class Flipped(ClassifierMixin, BaseEstimator):
    """Answers the lighter class, so that no step decreases the cost."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        weights = [np.sum(sample_weight[y == k]) for k in self.classes_]
        self.answer_ = self.classes_[np.argmin(weights)]
        return self

    def predict(self, X):
        return np.full(len(X), self.answer_)


class GoodThenOpposite(DecisionTreeClassifier):
    """A tree on equal weights; on other weights its opposite, so that no step decreases the cost."""

    def fit(self, X, y, sample_weight=None):
        self.opposite_ = np.ptp(sample_weight) > 0
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        k = np.searchsorted(self.classes_, super().predict(X))
        return self.classes_[1 - k if self.opposite_ else k]


class TestErrors:
    @pytest.mark.thinned(19)
    @pytest.mark.parametrize("rows", ["train", "held out", "X_val", "X_val, best prefix"])
    @pytest.mark.parametrize("name", ADDITIVE)
    def test_are_those_of_predict(self, name, rows):
        X, y = table(3)
        weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
        patience = 3 if rows in ("held out", "X_val, best prefix") else None
        clf = make(name, TREE, n_estimators=25, n_iter_no_change=patience, random_state=0)
        if rows.startswith("X_val"):
            train, judged = np.arange(100), np.arange(100, 160)
            given = {"X_val": X[judged], "y_val": y[judged], "sample_weight_val": weight[judged]}
            clf.fit(X[train], y[train], sample_weight=weight[train], **given)
        else:
            clf.fit(X, y, sample_weight=weight)
            judged = np.arange(len(y)) if rows == "train" else clf.selection_.rows.used
        found = clf.summary_
        wrong = clf.predict(X[judged]) != y[judged]
        w = weight[judged]
        assert found.error == pytest.approx(np.average(wrong, weights=w), abs=1e-12)
        always = found.constant != y[judged]
        assert found.constant_error == pytest.approx(np.average(always, weights=w), abs=1e-12)
        for label, line in zip(clf.classes_, found.errors.lines, strict=True):
            of_class = y[judged] == label
            assert line.subgroup == label
            assert 0 < line.rows <= of_class.sum()  # an effective number of rows
            assert line.value == pytest.approx(np.average(wrong[of_class], weights=w[of_class]), abs=1e-12)
        assert found.fitted == (rows == "train")
        assert bool(found.decided) == (
            patience is not None or (name == "softmarginboost" and rows != "train")
        )
        assert ("errors on new rows are usually larger" in str(found.errors)) == found.fitted
        assert ("selected on these rows" in str(found.errors)) == bool(found.decided)
        assert "by weight" in found.measured_on

    @pytest.mark.parametrize("K", [2, 3])
    def test_ties_are_settled_as_predict_settles_them(self, K):
        X, y = table(1, K=K)
        stump = DecisionTreeClassifier(max_depth=1, max_features=1, random_state=0)
        clf = tb.VadaBoostClassifier(stump, n_estimators=2, random_state=0).fit(X, y)
        assert clf.summary_.error == np.mean(clf.predict(X) != y)

    def test_rows_of_X_val_that_were_fitted_on_are_told(self):
        X, y = table(0)
        clf = tb.AdaBoostClassifier(TREE, n_estimators=5).fit(X, y, X_val=X[:80], y_val=y[:80])
        assert clf.summary_.fitted
        assert "Models were trained on these rows" in clf.summary_.comparison
        apart = tb.AdaBoostClassifier(TREE, n_estimators=5).fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:])
        assert not apart.summary_.fitted
        assert "not used in the fit" in apart.summary_.comparison

    @pytest.mark.parametrize("name", [n for n in ADDITIVE if n != "ebboost"])
    def test_a_class_without_a_judged_row_has_no_error(self, name):
        X, y = table(5, K=3)
        judged = np.flatnonzero(y != "c")[:20]
        clf = make(name, TREE, n_estimators=5).fit(X, y, X_val=X[judged] + 100, y_val=y[judged])
        errors = {line.subgroup: line.value for line in clf.summary_.errors}
        assert np.isnan(errors["c"])
        json.dumps(clf.summary_.to_dict(), allow_nan=False)


class TestBounds:
    @pytest.mark.parametrize("rows", ["train", "X_val"])
    @pytest.mark.parametrize("name", ADDITIVE)
    @pytest.mark.thinned(2)
    def test_hold_on_the_rows_fitted_on(self, name, rows):
        checked = 0
        for seed in range(8):
            X, y = table(seed)
            params = {"radius": 0.03, "loss": ["linear", "quadratic"][seed % 2]}
            params = params if name == "softmarginboost" else params | {"loss": "exponential"}
            clf = make(name, TREE, n_estimators=1 + 4 * seed, random_state=seed, **params)
            given = {"X_val": X[120:], "y_val": y[120:]} if rows == "X_val" else {}
            train = slice(120) if rows == "X_val" else slice(None)
            clf.fit(X[train], y[train], **given)
            error = float(np.mean(clf.predict(X[train]) != y[train]))
            for bound in (*clf.summary_.promised, *clf.summary_.observed):
                if bound.bound is None:
                    continue
                checked += not bound.empty
                assert error < bound.bound if bound.strict else error <= bound.bound + 1e-12
                if name != "droboost":
                    assert bound.achieved == (None if rows == "X_val" else pytest.approx(error, abs=1e-12))
        assert checked >= 4

    @pytest.mark.thinned(15)
    @pytest.mark.parametrize("loss", ["exponential", "logistic", "smoothed_hinge"])
    @pytest.mark.parametrize("uncertainty", BALLS)
    @pytest.mark.parametrize("learner", [TREE, DecisionTreeRegressor(max_depth=2)])
    def test_of_dro_holds_for_the_worst_case_of_the_error(self, loss, uncertainty, learner):
        X, y = table(2)
        radius = 0.05
        clf = tb.DROBoostClassifier(
            learner, radius=radius, uncertainty=uncertainty, loss=loss, n_estimators=8, random_state=0
        ).fit(X, y)
        (bound,) = clf.summary_.observed
        wrong = (clf.predict(X) != y).astype(float)
        truth = worst_case_weights(wrong, uncertainty, radius=radius).value
        assert bound.achieved == pytest.approx(truth, abs=1e-9)
        assert truth <= bound.bound

    @pytest.mark.parametrize("name", [n for n in ADDITIVE if n != "ebboost"])
    def test_are_not_given_for_more_classes(self, name):
        found = fitted(name, K=3)[0].summary_
        assert all(b.bound is None and b.note for b in (*found.promised, *found.observed))

    def test_why_not_for_more_classes(self):
        # Ten hypotheses, three classes: four vote for the true class, six for one other, none for the third.
        votes = np.array([4, 6, 0])
        f = (votes * 1.5 - votes.sum() / 2) / 10
        assert votes.argmax() != 0
        assert np.exp(-f[0]) < 1

    def test_of_adaboost_are_the_products_of_the_textbook(self):
        clf = fitted("adaboost", 1)[0]
        errors = clf.trace_.weighted_loss
        (published,), (observed,) = clf.summary_.promised, clf.summary_.observed
        assert observed.bound == pytest.approx(np.prod(2 * np.sqrt(errors * (1 - errors))), rel=1e-9)
        assert published.bound == pytest.approx(
            np.exp(-2 * len(errors) * (0.5 - errors.max()) ** 2), rel=1e-9
        )
        assert observed.bound <= published.bound
        slow = fitted("adaboost", 1, learning_rate=0.3)[0].summary_
        assert slow.promised[0].bound is None

    def test_a_last_hypothesis_without_a_step_is_not_counted(self):
        X, y = table(0)
        clf = tb.AdaBoostClassifier(GoodThenOpposite(max_depth=2), n_estimators=5).fit(X, y)
        first, second = clf.trace_.weighted_loss
        assert second > 0.5
        found = clf.summary_
        assert found.promised[0].bound == pytest.approx(np.exp(-2 * (0.5 - first) ** 2), rel=1e-12)
        assert found.observed[0].bound == pytest.approx(2 * np.sqrt(first * (1 - first)), rel=1e-9)

    @pytest.mark.parametrize("name", ["vadaboost", "ebboost"])
    def test_of_the_penalised_cost(self, name):
        clf, X, y = fitted(name, 4, variance_weight=0.7)
        loss = np.exp(-clf.margins(X, y))
        cost = loss.mean() ** 2 + 0.7 * loss.var()
        assert clf.summary_.achieved == pytest.approx(cost, rel=1e-9)
        assert clf.summary_.observed[0].bound == pytest.approx(np.sqrt(cost), rel=1e-9)

    def test_of_soft_margins_are_the_programs(self):
        clf, X, y = fitted("softmarginboost", 4, loss="quadratic")
        slack = np.maximum(0, 1 - clf.margins(X, y))
        a = clf.estimator_weights_
        assert clf.summary_.achieved == pytest.approx(a @ a + clf.C_ * slack.sum(), rel=1e-5)
        assert clf.summary_.observed[0].bound == pytest.approx(slack.mean(), rel=1e-4)
        clf, X, y = fitted("softmarginboost", 4, loss="linear")
        alpha = 1 / (clf.C_ * len(y))
        worst = -tb.metrics.cvar(-clf.margins(X, y), alpha)
        assert clf.summary_.achieved == pytest.approx(worst, abs=1e-8)
        assert clf.summary_.gap <= 1e-8

    @pytest.mark.parametrize("name", ADDITIVE)
    def test_of_the_prefix_that_is_kept(self, name):
        X, y = table(7, 240)
        clf = make(name, TREE, n_estimators=40, n_iter_no_change=5, random_state=0).fit(X, y)
        best = int(clf.trace_.value.argmin())
        if name != "softmarginboost":
            assert clf.summary_.achieved == pytest.approx(np.exp(clf.log_costs_[best]), rel=1e-12)


class TestWords:
    def test_the_constant_alone(self):
        X, y = table(0)
        clf = tb.AdaBoostClassifier(Flipped(), n_estimators=5).fit(X, y)
        found = clf.summary_
        assert found.only == found.constant
        assert (found.achieved, found.promised, found.observed) == (None, (), ())
        assert found.error == found.constant_error == np.mean(y != found.constant)
        assert f"answers {found.constant!r} to all" in found.comparison
        assert "no model was kept" in found.details

    def test_no_better_than_the_constant(self):
        X = np.random.default_rng(0).normal(size=(200, 3))
        y = (np.random.default_rng(1).random(200) < 0.15).astype(int)
        clf = tb.AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=3)
        clf.fit(X[:100], y[:100], X_val=X[100:], y_val=y[100:])
        assert clf.summary_.error >= clf.summary_.constant_error
        assert f"always answering 0 has {clf.summary_.constant_error:.4g}" in clf.summary_.comparison

    @pytest.mark.parametrize("name", ADDITIVE)
    def test_every_face(self, name):
        clf, _, _ = fitted(name)
        found = clf.summary_
        text = str(found)
        assert text.startswith("error of each class, measured on the 160 training rows:")
        assert found.summary in text
        html = found._repr_html_()
        assert "<table>" in html
        assert "&lt;b&gt;" in html
        assert "<b>" not in html
        record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert record["summary"] == found.summary
        assert record["error"] == found.error


class TestKept:
    @pytest.mark.parametrize("name", ADDITIVE)
    def test_with_the_model(self, name, tmp_path):
        clf, _, _ = fitted(name, n_iter_no_change=4)
        said = clf.summary_.details
        assert pickle.loads(pickle.dumps(clf)).summary_.details == said
        tb.save_model(clf, tmp_path / "m.model")
        assert tb.load_model(tmp_path / "m.model").summary_.details == said

    @pytest.mark.parametrize("best_prefix", [False, True])
    def test_the_rounds_in_use(self, best_prefix):
        y = np.array([0, 0, 1, 1])
        player = Additive(Exponential(2))
        progress = ErrorOfSteps(Rows(y, np.ones(4), None, "four rows"), player, best_prefix)
        state = player.start(Units.samples(np.ones(4)))
        pool = AdditivePool(2)
        memory = progress.start(pool)
        kept = []
        for answers in ([0, 1, 1, 1], [0, 0, 1, 0], [1, 0, 1, 1]):
            candidate = RoundCandidate(None, answers != y, np.array(answers))
            state = player.update(state, candidate.losses)
            pool = pool.adding(candidate)
            memory = progress.after(memory, pool, state).memory
            kept.append(memory.n_kept)
        assert kept == ([1, 1, 3] if best_prefix else [1, 2, 3])


def test_the_command_line_says_it(tmp_path):
    testing = pytest.importorskip("typer.testing")
    from tailboost.app.cli import app

    X, y = table(0)
    pd.DataFrame(X, columns=list("pqrs")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    call = testing.CliRunner()
    model = str(tmp_path / "m.model")
    settings = ("--set", "n_estimators=3", "--method", "adaboost", "--target", "y", "--model", model)
    result = call.invoke(app, ["fit", str(tmp_path / "t.csv"), *settings])
    assert result.exit_code == 0, result.output
    clf = tb.load_model(model)[-1]
    assert clf.summary_.comparison in " ".join(result.output.split("\n"))
    shown = call.invoke(app, ["inspect", model])
    assert shown.exit_code == 0, shown.output
    assert clf.summary_.comparison in " ".join(shown.output.split("\n"))


def test_a_comparison_records_it():
    X, y = table(0)
    found = tb.compare(X, y, methods=["adaboost"], alphas=[0.5], repeats=1)
    record = next(m for m in found.document["methods"] if m["name"] == "adaboost")["repeats"][0]
    assert "predict has an error of" in record["fit_summary"]
