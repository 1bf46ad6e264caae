"""Rows without labels: counts, estimates, intervals, copies, fingerprints and refusals."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tailboost as tb
from tailboost import RobustMixtureClassifier, rates
from tailboost.core.exceptions import BoundNotMetWarning, LeakageError
from tailboost.rates import Strata
from tailboost.rows.fingerprints import copies_of
from tailboost.selection import data as selection_data
from tailboost.selection.data import SelectionData, by_probabilities
from tailboost.storage.models import load_model, save_model

SELECTED = rates.gap(rates.selected(1, by="group"))


def drawn(n, seed, n_classes=2):
    """Return rows, labels and groups of one population."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    group = (X[:, 2] + random.normal(size=n) > 0).astype(int)
    level = np.column_stack([np.zeros(n), X[:, 0] + 0.8 * group, X[:, 1] - group])[:, :n_classes]
    return X, (level + random.gumbel(size=level.shape)).argmax(axis=1), np.where(group, "b", "a")


MODEL = LogisticRegression().fit(*drawn(2000, 99)[:2])
X, Y, G = drawn(300, 1)
U, _, UG = drawn(4000, 2)
FRESH, FY, FG = drawn(20_000, 3)


def tuned(X=X, y=Y, groups=G, U=U, UG=UG, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = {} if U is None else {"X_unlabeled": U, "groups_unlabeled": {"group": UG}}
        return tb.tune(
            MODEL, X, y, groups={"group": groups}, **({"limits": [SELECTED <= 0.05]} | params), **more
        )


def line_of(classifier, rate, subgroup):
    return next(x for x in classifier.rates_ if x.rate == str(rate) and x.subgroup == subgroup)


class TestCounts:
    @pytest.mark.parametrize("n_unlabeled", [0, 40])
    def test_counts_are_means_of_probabilities_with_corrections(self, n_unlabeled):
        """The formula of the docstring in a plain loop, for an arbitrary rule."""
        random, K, G, n = np.random.default_rng(0), 3, 2, 60
        y, g, gu = (
            random.integers(K, size=n),
            random.integers(G, size=n),
            random.integers(G, size=n_unlabeled),
        )
        strata, stratum = Strata.of(y, g[:, None], np.ones(n), [0, 1, 2], ("g",), [[0, 1]])
        P = random.dirichlet(np.ones(K * G), size=n + n_unlabeled).T.astype(np.float32)
        labelled = SelectionData(strata, stratum, np.full(n, 1 / n), P[:, :n])
        kind = np.concatenate([stratum, K * G + gu])
        N = n + n_unlabeled
        data = by_probabilities(labelled, kind, np.full(N, 1 / N), P)
        actions, group = random.integers(K, size=N), np.concatenate([g, gu])
        counts = data.count(actions).reshape(K, G, K)
        w = [1 / (1 + (g == j).sum() / selection_data.BLEND_ROWS) for j in range(G)]
        # q: conditional on the group, with factors that fit the class frequencies of each group.
        q = np.array([P[np.arange(K) * G + group[i], i] for i in range(N)], float)
        for j in range(G):
            factors = np.ones(K)
            for _ in range(500):
                each = q[:n][g == j] * factors
                mean = (each / each.sum(axis=1, keepdims=True)).mean(axis=0)
                factors *= np.bincount(y[g == j], minlength=K) / (g == j).sum() / mean
            q[group == j] *= factors
        q /= q.sum(axis=1, keepdims=True)
        expected = np.zeros((K, G, K))
        for i in range(N):
            expected[:, group[i], actions[i]] += q[i] / N
        for i in range(n):
            share = (group == g[i]).mean() / (g == g[i]).mean()
            expected[:, g[i], actions[i]] += (1 - w[g[i]]) * share / n * ((np.arange(K) == y[i]) - q[i])
        np.testing.assert_allclose(counts, expected, atol=1e-6)
        # All classes together: plain counts of all rows.
        plain = [[((group == j) & (actions == a)).mean() for a in range(K)] for j in range(G)]
        np.testing.assert_allclose(counts.sum(axis=0), plain, atol=1e-9)

    def test_the_difference_estimator_is_unbiased_for_a_distorted_score(self, monkeypatch):
        """Without a blend (n₀ = 0) the mean of the counts over draws is that of the population."""
        monkeypatch.setattr(selection_data, "BLEND_ROWS", 0.0)
        random, errors = np.random.default_rng(0), []
        for _ in range(400):
            x = random.random(450)
            y = (random.random(450) < x).astype(int)
            P = np.vstack([1 - x**6, x**6]).astype(np.float32)  # log-odds far from linear in the truth
            strata, stratum = Strata.of(y[:150], None, np.ones(150), [0, 1])
            labelled = SelectionData(strata, stratum, np.full(150, 1 / 150), P[:, :150])
            kind = np.concatenate([stratum, np.full(300, 2)])
            data = by_probabilities(labelled, kind, np.full(450, 1 / 450), P)
            errors.append(data.count((x > 0.7).astype(int)) - [[0.455, 0.045], [0.245, 0.255]])
        mean, spread = np.mean(errors, axis=0), np.std(errors, axis=0) / 20
        assert (np.abs(mean) < 4 * spread + 1e-3).all()

    @pytest.mark.parametrize("by_group", [False, True])
    def test_thinned_rows_keep_the_mass_of_each_kind(self, by_group):
        data = tuned(by_group=by_group).selection_.engine.data
        small = data.thinned(1000)
        assert len(small) == 1000
        np.testing.assert_allclose(
            np.bincount(small.kind, small.by_row(small.weights)),
            np.bincount(data.kind, data.by_row(data.weights)),
        )


class TestEstimates:
    @pytest.mark.parametrize("by_group", [False, True])
    def test_rates_without_labels_count_all_rows_and_others_the_labelled_ones(self, by_group):
        clf = tuned(by_group=by_group)
        known = {"groups": {"group": np.concatenate([G, UG])}} if by_group else {}
        answers = clf.predict(np.vstack([X, U]), **known)
        for group in ("a", "b"):
            inside = np.concatenate([G, UG]) == group
            line = line_of(clf, rates.selected(1, by="group"), group)
            assert line.rows == pytest.approx(inside.sum())
            if by_group:  # a group-blind rule is counted with out-of-fold groups on the labelled rows
                assert line.value == pytest.approx(answers[inside].mean())
                found = binomtest(int(answers[inside].sum()), int(inside.sum())).proportion_ci(method="exact")
                assert (line.low, line.high) == pytest.approx((found.low, found.high), abs=1e-6)
        line = line_of(clf, rates.error(), None)
        assert line.rows == pytest.approx(len(Y))
        if by_group:
            wrong = int((answers[: len(Y)] != Y).sum())
            assert line.value == pytest.approx(wrong / len(Y))
            assert np.isnan([line.low, line.high]).all()  # the labelled rows selected two thresholds

    @pytest.mark.slow
    def test_intervals_of_rates_without_labels_cover(self):
        inside = []
        for seed in range(40):
            X, y, g = drawn(150, 1000 + seed)
            V, _, vg = drawn(1500, 2000 + seed)
            clf = tuned(X, y, g, V, vg, by_group=True)
            answers = clf.predict(FRESH, groups={"group": FG})
            for group in ("a", "b"):
                line = line_of(clf, rates.selected(1, by="group"), group)
                inside.append(line.low <= answers[group == FG].mean() <= line.high)
        # 80 intervals of 95 %: 70 or fewer inside have a probability of .001.
        assert sum(inside) > 70

    @pytest.mark.slow
    def test_the_limit_on_selection_holds_more_closely(self):
        """The gap on fresh rows, over 12 draws of 150 labelled rows, with and without 3,000 further rows."""
        beyond = {True: [], False: []}
        for seed in range(12):
            X, y, g = drawn(150, 500 + seed)
            V, _, vg = drawn(3000, 700 + seed)
            for more in (True, False):
                clf = tuned(X, y, g, *((V, vg) if more else (None, None)), by_group=True)
                answers = clf.predict(FRESH, groups={"group": FG})
                beyond[more].append(abs(answers[FG == "a"].mean() - answers[FG == "b"].mean()) - 0.05)
        assert np.mean(beyond[True]) < np.mean(beyond[False]) - 0.01

    def test_a_limit_broken_on_labelled_rows_says_so(self):
        """All labelled rows of one group are missed, whatever the probabilities say."""
        X, y, g = drawn(60, 8)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf = tb.tune(
                MODEL, X, y, groups={"group": g}, limits=[rates.precision(1) >= 0.8], by_group=True,
                X_unlabeled=U, groups_unlabeled={"group": UG},
            )  # fmt: skip
        line = line_of(clf, rates.precision(1), None)
        said = [str(w.message) for w in caught if w.category is BoundNotMetWarning]
        assert clf.limits_met_ == (line.value >= 0.8)
        assert bool(said) == (line.value < 0.8)

    @pytest.mark.parametrize(
        "params",
        [
            {"limits": [rates.deferred(by="group") <= 0.1]},
            {"limits": [SELECTED <= 0.05], "confidence": 0.9},
            {"limits": [SELECTED <= 0.05], "randomized": True},
            {"limits": [], "objective": "worst_cell", "error_budget": 0.05},
            {"limits": [rates.selected(1) <= 0.3], "objective": rates.miss(1)},
        ],
    )
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.thinned(3)
    def test_results_curves_and_files_work(self, params, n_classes, tmp_path):
        X, y, g = drawn(200, 4, n_classes)
        model = LogisticRegression().fit(*drawn(500, 5, n_classes)[:2])
        V, _, vg = drawn(600, 6, n_classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = tb.tune(
                model, X, y, groups={"group": g}, X_unlabeled=V, groups_unlabeled={"group": vg}, **params
            )
            assert str(clf.rates_)
            assert str(clf.summary_)
            assert len(clf.tradeoff(n_points=3).points) >= 1
            save_model(clf, tmp_path / "model.model")
            loaded = load_model(tmp_path / "model.model")
            assert str(loaded.rates_) == str(clf.rates_)
            np.testing.assert_array_equal(loaded.predict(V), clf.predict(V))
            again = loaded.reweight(limits=[rates.selected(1) <= 0.5])
        assert line_of(again, rates.selected(1), None).rows == pytest.approx(len(X) + len(V))

    def test_fit_with_cross_fitting_counts_them_too(self):
        clf = RobustMixtureClassifier([("logistic", LogisticRegression())], limits=[SELECTED <= 0.05])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(X, Y, groups={"group": G}, X_unlabeled=U, groups_unlabeled={"group": UG})
        assert line_of(clf, rates.error(), None).rows == pytest.approx(len(Y))
        assert line_of(clf, rates.selected(1, by="group"), "b").rows == pytest.approx(
            (G == "b").sum() + (UG == "b").sum()
        )

    def test_calibration_reads_the_labelled_rows(self):
        clf = tuned(by_group=True)
        family = clf.selection_.family(by_group=True)
        scores, data = clf.selection_.thresholds(family).on_selection
        assert len(scores) == len(data) == len(Y)
        assert not data.strata.has_unlabeled


class TestDistortedScores:
    """With many labelled rows a wrong score leads to no broken limit, whatever the probabilities say."""

    @pytest.mark.parametrize(
        "distorted",
        [
            lambda p: p**4,
            lambda p: np.full(len(p), 0.3),
            lambda p: 1 - p,
            lambda p: 0.5 + 0.4 * np.sin(9 * p),
        ],
    )
    @pytest.mark.parametrize("limit", [rates.miss(1) <= 0.3, rates.precision(1) >= 0.6, SELECTED <= 0.05])
    @pytest.mark.thinned(5)
    def test_the_limit_holds_on_fresh_rows(self, distorted, limit):
        X, y, g = drawn(8000, 60)
        V, _, vg = drawn(8000, 61)

        def score(X):
            p = distorted(MODEL.predict_proba(X)[:, 1])
            return np.column_stack([1 - p, p])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = tb.tune(
                score, X, y, groups={"group": g}, by_group=True, limits=[limit],
                X_unlabeled=V, groups_unlabeled={"group": vg},
            )  # fmt: skip
        answers = clf.predict(FRESH, groups={"group": FG})
        found = rates.measure(limit.rate, FY, answers, groups={"group": FG}, labels=[0, 1])
        value = limit.value(np.array(list(found.values())))
        excess = value - limit.bound if limit.from_above else limit.bound - value
        assert np.isnan(excess) or excess < 0.03  # 3 standard errors of 8,000 and 20,000 rows
        plain = tb.tune(score, X, y, groups={"group": g}, by_group=True, limits=[limit])
        errors = [(c.predict(FRESH, groups={"group": FG}) != FY).mean() for c in (clf, plain)]
        assert errors[0] < errors[1] + 0.02


class TestCopies:
    def test_a_row_with_and_without_label_counts_once(self):
        """Labelled rows among those without labels change nothing."""
        both = np.vstack([U, X]), np.concatenate([UG, G])
        one, other = tuned(), tuned(U=both[0], UG=both[1])
        assert str(one.rates_) == str(other.rates_)
        np.testing.assert_array_equal(one.predict(FRESH), other.predict(FRESH))

    def test_equal_scores_are_different_rows_unless_the_table_is_the_same(self):
        score = pd.DataFrame({"p": MODEL.predict_proba(X)[:, 1].round(2)})
        more = pd.DataFrame({"p": MODEL.predict_proba(U)[:, 1].round(2)})
        about = {"limits": [rates.selected(1) <= 0.4], "objective": rates.miss(1)}
        clf = tb.tune(tb.Scores("p", 1), score, Y, X_unlabeled=more, **about)
        assert line_of(clf, rates.selected(1), None).rows == pytest.approx(len(score) + len(more))
        joined = pd.DataFrame({"p": MODEL.predict_proba(np.vstack([U, X]))[:, 1].round(4)})
        clf = tb.tune(tb.Scores("p", 1), joined[-300:], Y, X_unlabeled=joined, **about)
        assert line_of(clf, rates.selected(1), None).rows == pytest.approx(len(joined))

    def test_each_known_row_removes_one_row(self):
        new = np.array([5, 5, 5, 7, *range(100, 200)], dtype=np.uint64) << np.uint64(32)
        known = np.array([5, 5, 9, *range(100, 150)], dtype=np.uint64) << np.uint64(32)
        assert copies_of(known, new).tolist() == [True, True, False, False] + [True] * 50 + [False] * 50

    def test_used_rows_are_known_behind_the_steps_of_a_pipeline(self):
        score = pd.DataFrame({"p": MODEL.predict_proba(X)[:, 1]})
        clf = tb.tune(tb.Scores("p", 1), score, Y, limits=[rates.selected(1) <= 0.6])
        percent = make_pipeline(FunctionTransformer(lambda table: table / 100.0), clf)
        new = pd.DataFrame({"p": MODEL.predict_proba(FRESH)[:, 1]})
        for table, known in ((100.0 * score, True), (100.0 * new, False)):
            about = {"X_unlabeled": table, "rates": ["selected(1) <= .6"]}
            if known:
                with pytest.raises(LeakageError, match=r"^X_unlabeled: .* selection data of the rule"):
                    tb.certify(percent, None, None, **about)
            else:
                assert len(tb.certify(percent, None, None, **about).bounds) == 1

    def test_rows_without_labels_are_no_fresh_rows(self):
        with pytest.raises(LeakageError, match="decision rule was selected on 100% of these rows"):
            tb.certify(tuned(), U, drawn(4000, 2)[1], groups={"group": UG})
        score = pd.DataFrame({"p": MODEL.predict_proba(X)[:, 1]})
        more = pd.DataFrame({"p": MODEL.predict_proba(U)[:, 1]})
        clf = tb.tune(tb.Scores("p", 1), score, Y, X_unlabeled=more, limits=[rates.selected(1) <= 0.4])
        with pytest.raises(LeakageError, match="selection data of the rule"):
            tb.certify(clf, more, drawn(4000, 2)[1])

    def test_training_rows_of_a_frozen_model_are_noticed(self):
        inner = tb.AdaBoostClassifier(n_estimators=3).fit(U, drawn(4000, 2)[1])
        with pytest.warns(tb.exceptions.ResubstitutionWarning, match=r"4,000 rows of X_unlabeled equal"):
            tb.tune(inner, X, Y, X_unlabeled=U, limits=[rates.selected(1) <= 0.4])


class TestRefusals:
    def fit(self, clf=None, **given):
        clf = clf or RobustMixtureClassifier([("logistic", LogisticRegression())], limits=[SELECTED <= 0.05])
        groups = {} if clf.limits == () else {"groups": {"group": G}}
        return clf.fit(X, Y, **(groups | given))

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"groups_unlabeled": {"group": UG}}, "groups_unlabeled was given without X_unlabeled"),
            ({"X_unlabeled": U}, "groups and X_unlabeled were given without groups_unlabeled"),
            ({"X_unlabeled": U[:, :2], "groups_unlabeled": {"group": UG}}, "X_unlabeled: X has 2 features"),
            (
                {"X_unlabeled": U, "groups_unlabeled": {"group": UG[:9]}},
                "groups_unlabeled column 'group' has 9",
            ),
            ({"X_unlabeled": U, "groups_unlabeled": {"sex": UG}}, "groups_unlabeled has the columns"),
            (
                {"X_unlabeled": U, "groups_unlabeled": {"group": np.where(UG == "a", "c", "b")}},
                "not seen in fit",
            ),
            ({"X_unlabeled": U[:0], "groups_unlabeled": {"group": UG[:0]}}, "X_unlabeled is empty"),
            (
                {"X_unlabeled": U, "groups_unlabeled": {"group": UG}, "clusters": np.arange(300) // 2},
                "clusters and X_unlabeled",
            ),
            (
                {"X_unlabeled": X, "groups_unlabeled": {"group": G}},
                "all rows are among the rows with labels",
            ),
            (
                {
                    "X_unlabeled": pd.DataFrame(U, index=range(4000)),
                    "groups_unlabeled": pd.DataFrame({"group": UG}, index=range(1, 4001)),
                },
                "groups_unlabeled and X_unlabeled have different pandas indexes",
            ),
        ],
    )
    def test_bad_arguments_are_named(self, given, said):
        with pytest.raises(ValueError, match=said):
            self.fit(**given)

    def test_losses_and_costs_of_rows_need_labels(self):
        with pytest.raises(ValueError, match="objective='cvar'"):
            self.fit(RobustMixtureClassifier(objective="cvar", alpha=0.1), X_unlabeled=U)
        with pytest.raises(ValueError, match="X_unlabeled: costs"):
            self.fit(RobustMixtureClassifier(objective=rates.cost()), X_unlabeled=U, costs=np.ones((300, 2)))
        with pytest.raises(ValueError, match="groups_unlabeled was given without groups"):
            self.fit(RobustMixtureClassifier(objective="error"), X_unlabeled=U, groups_unlabeled=UG)

    def test_combinations_need_a_labelled_row(self):
        groups = {"sex": G, "half": np.where(G == "a", "x", "y")}
        more = {"sex": UG, "half": np.where(UG == "a", "x", "y")}
        more["half"][0] = "x" if UG[0] == "b" else "y"
        clf = RobustMixtureClassifier(
            [("logistic", LogisticRegression())], limits=[rates.selected(1, by=("sex", "half")) <= 0.9]
        )
        with pytest.raises(ValueError, match="groups_unlabeled: 1 rows have groups, such as"):
            clf.fit(X, Y, groups=groups, X_unlabeled=U, groups_unlabeled=more)

    def test_other_groups_are_refused(self):
        with pytest.raises(ValueError, match="groups of the rows without labels"):
            tuned(groups=G).reweight(groups={"group": np.roll(G, 1)})


def test_needs_labels():
    strata, _ = Strata.of(Y, (G == "b").astype(int)[:, None], np.ones(300), [0, 1], ("group",), [["a", "b"]])
    strata = replace(strata, defers=True)
    free = [rates.selected(1), rates.deferred(by="group"), SELECTED.rate, (SELECTED <= 0.1).rate]
    bound = [rates.error(), rates.miss(1), rates.selected(1, by="class"), rates.precision(1)]
    assert [rate.needs_labels(strata) for rate in free] == [False] * 4
    assert [rate.needs_labels(strata) for rate in bound] == [True] * 4


class TestCertify:
    """Rates that need no label are bounded on all rows, others on the labelled ones."""

    n, m = 400, 2000
    X, y, g = drawn(n, 50)
    V, _, vg = drawn(m, 51)

    def certified(self, clf, rates_, **given):
        more = {"X_unlabeled": self.V, "groups_unlabeled": {"group": self.vg}} | given
        return tb.certify(clf, self.X, self.y, groups={"group": self.g}, rates=rates_, **more)

    @pytest.mark.parametrize("by_group", [False, True])
    def test_the_bounds_are_exact_on_the_rows_that_count(self, by_group):
        clf = tuned(by_group=by_group)
        limit = rates.selected(1, by="group") <= 0.9
        cert = self.certified(clf, [limit, rates.miss(1) <= 0.5])
        known = {"groups": {"group": np.concatenate([self.g, self.vg])}} if by_group else {}
        answers = clf.predict(np.vstack([self.X, self.V]), **known)
        group = np.concatenate([self.g, self.vg])
        missed = answers[: self.n][self.y == 1] == 0
        # .05 is divided among two groups and one miss rate.
        for bound in cert.bounds:
            seen = missed if bound.subgroup is None else answers[group == bound.subgroup] == 1
            assert (bound.n, bound.estimate) == (len(seen), pytest.approx(seen.mean()))
            upper = beta.ppf(1 - 0.05 / 3, seen.sum() + 1, len(seen) - seen.sum())
            assert bound.upper == pytest.approx(upper, abs=1e-6)
        assert "2,000 of the rows have no labels" in " ".join(cert.notes)

    def test_copies_and_used_rows(self):
        clf = tuned()
        both = {"X_unlabeled": np.vstack([self.V, self.X])}
        both["groups_unlabeled"] = {"group": np.concatenate([self.vg, self.g])}
        limits = [rates.selected(1) <= 0.9]
        one, other = self.certified(clf, limits), self.certified(clf, limits, **both)
        assert one.bounds[0].upper == other.bounds[0].upper
        with pytest.raises(LeakageError, match="selected on 100% of these rows"):
            self.certified(clf, limits, X_unlabeled=U, groups_unlabeled={"group": UG})

    def test_groups_have_their_name_in_any_form(self):
        """A series of groups lost its name beside rows without labels, and another name was not seen."""
        forms = (
            lambda values, name: {name: values},
            lambda values, name: pd.DataFrame({name: values}),
            lambda values, name: pd.Series(values, name=name),
        )
        clf = tb.tune(MODEL, X, Y, limits=[rates.miss(1) <= 0.6])

        def certified(own, other, name="site"):
            return tb.certify(
                clf,
                self.X,
                self.y,
                groups=own(self.g, "site"),
                X_unlabeled=self.V,
                groups_unlabeled=other(self.vg, name),
                limits=[rates.selected(1, by="site") <= 0.9],
            )

        expected = certified(forms[0], forms[0]).to_dict()
        for own in forms:
            for other in forms:
                assert certified(own, other).to_dict() == expected
                with pytest.raises(ValueError, match=r"columns \['ward'\], groups has \['site'\]"):
                    certified(own, other, "ward")

    def test_deferred_rows_and_draws(self):
        clf = tuned(limits=[rates.deferred() <= 0.1])
        (bound,) = self.certified(clf, [rates.deferred() <= 0.2]).bounds
        assert bound.n == self.n + self.m
        assert bound.estimate == pytest.approx(clf.defers(np.vstack([self.X, self.V])).mean())
        drawing = tuned(limits=[rates.gap(rates.miss(1, by="group")) <= 0.01], randomized=True)
        (bound,) = self.certified(drawing, [rates.selected(1) <= 0.9]).bounds
        shares = drawing.predict_distribution(np.vstack([self.X, self.V]))[:, 1]
        assert bound.estimate == pytest.approx(shares.mean())

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"X_unlabeled": None}, "groups_unlabeled was given without X_unlabeled"),
            ({"groups_unlabeled": None}, "groups and groups_unlabeled: give both or neither"),
            ({"groups_unlabeled": {"sex": vg}}, "groups_unlabeled has the columns"),
            (
                {"groups_unlabeled": pd.Series(vg, name="sex")},
                r"columns \['sex'\], groups has \['group'\]",
            ),
            ({"groups_unlabeled": {"group": vg[:9]}}, "groups_unlabeled column 'group' has 9"),
            (
                {"X_unlabeled": V[:0], "groups_unlabeled": {"group": vg[:0]}},
                "groups_unlabeled column 'group' must have shape",
            ),
            ({"clusters": np.arange(400)}, "clusters and X_unlabeled"),
            ({"rates_": ()}, "X_unlabeled: errors need labels"),
        ],
    )
    def test_bad_arguments_are_named(self, given, said):
        with pytest.raises(ValueError, match=said):
            self.certified(tuned(), **({"rates_": [rates.selected(1) <= 0.9]} | given))

    def test_an_array_of_answers_has_none_for_them(self):
        with pytest.raises(ValueError, match="array of answers"):
            tb.certify(self.y, None, self.y, rates=[rates.selected(1)], X_unlabeled=self.V)
