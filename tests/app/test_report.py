"""Comparisons: the numbers against brute force, what is kept, what is said, what is drawn."""

import base64
import copy
import hashlib
import json
import os
import re
import signal
import warnings
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import coo_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.tree import DecisionTreeClassifier

pd = pytest.importorskip("pandas")

from tailboost import RobustMixtureClassifier
from tailboost.app import registry
from tailboost.app.report import Chapter, Results, compare, render, render_overview
from tailboost.app.report.charts import MOST_SHOWN, method_styles
from tailboost.app.report.comparison import joint_groups
from tailboost.app.report.findings import comparison_table, findings, guarantees
from tailboost.app.report.reading import Reading
from tailboost.app.report.results import interval, resampled_interval, summarise
from tailboost.app.report.verdict import verdict
from tailboost.guarantees.robustness import empirical_bernstein_bound


@dataclass
class Summary:
    alpha: float
    achieved: float = np.inf

    def __str__(self):
        return f"promise at {self.alpha}"


class Mixture(ClassifierMixin, BaseEstimator):
    """Answers the sign of the first feature with share α + (1 − α)/2, the other class with the rest."""

    fits = reweights = 0
    seen_groups: Any = None

    def __init__(self, alpha=0.5):
        self.alpha = alpha

    def fit(self, X, y, groups=None):
        type(self).fits += 1
        type(self).seen_groups = groups
        self.classes_ = np.unique(y)
        self.summary_ = Summary(self.alpha)
        return self

    def reweight(self, *, alpha):
        type(self).reweights += 1
        other = copy.copy(self)
        other.alpha, other.summary_ = alpha, Summary(alpha)
        return other

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]

    def predict_proba(self, X):
        right = (X[:, 0] > 0).astype(float)
        share = np.column_stack([1 - right, right])
        return self.alpha * share + (1 - self.alpha) / 2


class Swallows(Mixture):
    """Gets Ctrl-C in its second fit and ends early without a word, as boosting does."""

    def fit(self, X, y, groups=None):
        super().fit(X, y)
        if self.fits == 2:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            except KeyboardInterrupt:
                pass
        return self


class Fails(Mixture):
    def fit(self, X, y, groups=None):
        raise RuntimeError("cannot do <this>")


@dataclass
class Method:
    name: str
    factory: Any
    ours: bool = True
    uses_alpha: bool = False
    uses_groups: bool = False
    by_group: bool = False
    randomized: bool = False
    summary: str = "a <summary>"
    title: str = ""

    def __post_init__(self):
        self.title = self.title or self.name.title()

    shares = registry.Method.shares

    def make(self, *, alpha=0.5, random_state=None, n_jobs=None):
        classifier = self.factory()
        known = classifier.get_params()
        given = {"alpha": alpha, "random_state": random_state}
        return classifier.set_params(**{k: v for k, v in given.items() if k in known})


@pytest.fixture(autouse=True)
def _fresh_counts():
    for cls in (Mixture, Swallows):
        cls.fits = cls.reweights = 0
        cls.seen_groups = None


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=200) > 0.4, "yes", "no")
    groups = pd.DataFrame({"sex": rng.choice(["f", "m"], 200), "band": rng.choice(["a", "b", "c"], 200)})
    return X, y, groups


OURS = Method("ours", Mixture, uses_alpha=True, randomized=True)
PLAIN = Method("plain", lambda: DecisionTreeClassifier(max_depth=2), ours=False)
COIN = Method(
    "coinflip", lambda: DummyClassifier(strategy="uniform"), ours=False, randomized=True, title="Coin flip"
)


def brute_cvar(losses, alpha):
    """The definition, with every row cut into pieces so small that the boundary is on a cut."""
    pieces = np.sort(np.repeat(losses, 1000))[::-1]
    return pieces[: round(alpha * len(pieces))].mean()


class TestCompare:
    alphas = (0.1, 0.3, 0.77)

    @pytest.fixture
    def document(self, data):
        X, y, groups = data
        return compare(
            X, y, groups, methods=[OURS, PLAIN, COIN], alphas=self.alphas, repeats=3, random_state=7
        ).document

    @pytest.fixture
    def splits(self, data):
        X, y, groups = data
        splitter = StratifiedShuffleSplit(n_splits=3, test_size=0.3, random_state=7)
        return [
            (X[i], y[i], X[j], y[j], groups.iloc[j].reset_index(drop=True)) for i, j in splitter.split(X, y)
        ]

    def test_mixture(self, document, splits):
        entry = document["methods"][0]
        assert [r["repeat"] for r in entry["repeats"]] == [0, 1, 2]
        for record, (_, _, X, y, groups) in zip(entry["repeats"], splits, strict=True):
            answer = np.where(X[:, 0] > 0, "yes", "no")
            wrong = answer != y
            assert record["error"] == pytest.approx(wrong.mean())
            by_class = {c: wrong[y == c].mean() for c in ("no", "yes")}
            assert record["class_errors"] == pytest.approx(by_class)
            assert record["worst_class_error"] == pytest.approx(max(by_class.values()))
            for name in groups:
                by_group = {g: wrong[groups[name] == g].mean() for g in groups[name].unique()}
                assert record["group_errors"][name] == pytest.approx(by_group)
                assert record["worst_group_errors"][name] == pytest.approx(max(by_group.values()))
            assert record["worst_group_error"] == max(record["worst_group_errors"].values())
            for alpha in self.alphas:
                expected = np.where(wrong, (1 + alpha) / 2, (1 - alpha) / 2)
                assert record["cvar"][f"{alpha:g}"] == pytest.approx(brute_cvar(expected, alpha))
                point = record["at_alpha"][f"{alpha:g}"]
                assert point["error"] == record["error"]
                assert point["expected"]["error"] == pytest.approx(expected.mean())
                means = [expected[y == c].mean() for c in ("no", "yes")]
                assert point["expected"]["worst_class_error"] == pytest.approx(max(means))
                assert point["guarantee"] == {"text": f"promise at {alpha}", "alpha": alpha, "achieved": None}
            # The other figures are those at the middle α.
            assert record["expected"] == record["at_alpha"]["0.3"]["expected"]

    def test_deterministic_rule_has_cvar_error_over_alpha(self, document, splits):
        entry = document["methods"][1]
        for record, (X, y, X_test, y_test, _), split in zip(
            entry["repeats"], splits, document["splits"], strict=True
        ):
            tree = DecisionTreeClassifier(max_depth=2, random_state=split["fit_seed"]).fit(X, y)
            error = np.mean(tree.predict(X_test) != y_test)
            assert record["error"] == pytest.approx(error)
            assert "expected" not in record
            assert "at_alpha" not in record
            curve = [min(1, error / a) for a in document["settings"]["curve_alphas"]]
            assert record["cvar_curve"] == pytest.approx(curve)

    def test_coin_flip(self, document):
        for record in document["methods"][-1]["repeats"]:
            assert record["error"] == 0.5
            assert set(record["class_errors"].values()) == {0.5}
            assert set(record["cvar_curve"]) == {0.5}

    def test_curve_passes_through_the_table(self, document):
        grid = document["settings"]["curve_alphas"]
        assert grid == sorted(grid)
        for method in document["methods"]:
            for record in method["repeats"]:
                for alpha in self.alphas:
                    assert record["cvar_curve"][grid.index(alpha)] == record["cvar"][f"{alpha:g}"]

    def test_intervals(self, document):
        entry = document["methods"][1]
        errors = [r["error"] for r in entry["repeats"]]
        figure = entry["figures"]["error"]
        truth = stats.ttest_1samp(errors, 0).confidence_interval(0.95)
        assert figure["n"] == 3
        assert figure["mean"] == pytest.approx(np.mean(errors))
        assert (figure["low"], figure["high"]) == pytest.approx((truth.low, truth.high))
        assert set(entry["figures"]["cvar"]) == {"0.1", "0.3", "0.77"}
        assert len(entry["figures"]["cvar_curve"]) == len(document["settings"]["curve_alphas"])

    def test_one_fit_serves_every_alpha(self, document):
        assert Mixture.fits == 3
        assert Mixture.reweights == 3 * len(document["settings"]["curve_alphas"])

    def test_same_seed_same_numbers(self, data, document):
        again = compare(
            *data, methods=[OURS, PLAIN, COIN], alphas=self.alphas, repeats=3, random_state=7
        ).document
        for one, two in zip(document["methods"], again["methods"], strict=True):
            for left, right in zip(one["repeats"], two["repeats"], strict=True):
                drop = ("fit_seconds", "reweight_seconds", "predict_seconds")
                assert {k: v for k, v in left.items() if k not in drop} == {
                    k: v for k, v in right.items() if k not in drop
                }

    def test_drawn_seed_is_kept(self, data):
        X, y, _ = data
        first = compare(X, y, methods=[PLAIN], repeats=1).document
        seed = first["settings"]["random_state"]
        again = compare(X, y, methods=[PLAIN], repeats=1, random_state=seed).document
        assert first["methods"][0]["repeats"][0]["error"] == again["methods"][0]["repeats"][0]["error"]

    def test_budgets_count_from_the_most_accurate_candidate(self):
        """A budget is no level of the overall error: a mixture whose error is above .1 has all of them."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 2))
        y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
        mix = registry.Method(
            "mix", "Mix", "", lambda: RobustMixtureClassifier([("tree", DecisionTreeClassifier(max_depth=2))])
        )
        [record] = compare(X, y, methods=[mix], repeats=1, random_state=0).document["methods"][0]["repeats"]
        budgets = [point["error_budget"] for point in record["tradeoff"]]
        assert budgets == sorted(budgets)
        assert budgets[0] == 0.0
        assert min(point["error"] for point in record["tradeoff"]) > 0.1

    def test_rows_of_a_person_stay_on_one_side(self, data):
        sides = []

        class Seen(DummyClassifier):
            def fit(self, X, y, sample_weight=None):
                sides.append((set(X[:, 0]), set(y)))
                return super().fit(X, y)

            def predict(self, X):
                sides.append((set(X[:, 0]), None))
                return super().predict(X)

        person = np.repeat(np.arange(60), 5)
        y = np.where((person % 20 == 0)[:, None], "rare", "often")[:, 0]
        given = {"methods": [Method("seen", Seen)], "repeats": 3, "test_size": 1 / 3, "random_state": 0}
        document = compare(np.column_stack([person, person]), y, clusters=person, **given).document
        assert not document["methods"][0]["failures"]
        assert {(s["n_train"], s["n_test"]) for s in document["splits"]} == {(200, 100)}
        train, test = None, None
        for persons, labels in sides:
            train, test = (persons, test) if labels else (train, persons)
            if labels:
                assert labels == {"rare", "often"}  # the three persons of the rare class are on both sides
            else:
                assert not train & test
        with pytest.raises(ValueError, match="clusters must have shape"):
            compare(np.column_stack([person, person]), y, clusters=person[1:], **given)

    def test_coin_flip_is_always_in(self, data):
        X, y, _ = data
        document = compare(X, y, methods=[PLAIN], repeats=1, random_state=0).document
        assert [m["name"] for m in document["methods"]] == ["plain", "coinflip"]

    def test_groups_reach_only_those_that_use_them(self, data):
        grouped = Method("grouped", Mixture, uses_groups=True)
        compare(*data, methods=[OURS], repeats=1, random_state=0)
        assert Mixture.seen_groups is None
        compare(*data, methods=[grouped], repeats=1, random_state=0)
        assert set(Mixture.seen_groups) == {f"sex={s}, band={b}" for s in "fm" for b in "abc"}

    def test_without_groups_nothing_is_fitted_twice(self, data):
        grouped = Method("grouped", Mixture, uses_groups=True)
        by_classes = Method("by classes", Mixture)
        X, y, groups = data
        document = compare(X, y, methods=[grouped, by_classes, PLAIN], repeats=1, random_state=0).document
        assert [m["name"] for m in document["methods"]] == ["by classes", "plain", "coinflip"]
        assert document["left_out"] == [{"title": "Grouped", "reason": "without groups it is by classes"}]
        assert Mixture.fits == 1
        both = compare(X, y, groups, methods=[grouped, by_classes], repeats=1, random_state=0).document
        assert [m["name"] for m in both["methods"]] == ["grouped", "by classes", "coinflip"]
        alone = compare(X, y, methods=[grouped], repeats=1, random_state=0).document
        assert [m["name"] for m in alone["methods"]] == ["grouped", "coinflip"]

    def test_categories_of_held_out_rows_alone_are_no_warning(self, data):
        X, y, _ = data
        table = pd.DataFrame({"a": X[:, 0], "id": [f"row {i}" for i in range(len(X))]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compare(table, y, methods=[PLAIN], repeats=1, random_state=0)

    def test_sparse(self, data):
        X, y, _ = data
        dense = compare(X, y, methods=[PLAIN], repeats=1, random_state=0).document
        sparse = compare(coo_array(X), y, methods=[PLAIN], repeats=1, random_state=0).document
        assert sparse["methods"][0]["repeats"][0]["error"] == dense["methods"][0]["repeats"][0]["error"]

    def test_mixed_table(self, data):
        X, y, groups = data
        table = pd.DataFrame({"a": X[:, 0], "text": groups["sex"], "gaps": X[:, 1]})
        table.loc[::3, "gaps"] = None
        document = compare(table, y, methods=[OURS, PLAIN], repeats=1, random_state=0).document
        assert not any(m["failures"] for m in document["methods"])

    def test_one_failing_method_does_not_cost_the_others(self, data):
        X, y, _ = data
        document = compare(X, y, methods=[Method("broken", Fails), PLAIN], repeats=2, random_state=0).document
        broken, plain, _ = document["methods"]
        assert document["status"] == "complete"
        assert broken["failures"] == [
            {"repeat": i, "error": "RuntimeError: cannot do <this>"} for i in range(2)
        ]
        assert broken["figures"] is None
        assert len(plain["repeats"]) == 2
        assert any("Broken failed on 2 splits" in f.text for f in findings(Reading(document)))

    def test_what_is_not_installed_is_left_out_with_a_word(self, data, monkeypatch):
        def absent():
            raise ImportError("needs Something: pip install it")

        methods = {m.name: m for m in (PLAIN, Method("absent", absent), COIN)}
        monkeypatch.setattr("tailboost.app.report.comparison.METHODS", methods)
        monkeypatch.setattr("tailboost.app.report.comparison.get_method", methods.__getitem__)
        X, y, _ = data
        document = compare(X, y, repeats=1, random_state=0).document
        assert [m["name"] for m in document["methods"]] == ["plain", "coinflip"]
        assert any(
            "Absent is not in the comparison: needs Something" in f.text for f in findings(Reading(document))
        )
        with pytest.raises(ValueError, match=r"at least one method.*pip install it"):
            compare(X, y, methods=["absent"], repeats=1)

    def test_results_are_there_after_every_fit(self, data):
        X, y, _ = data
        seen = []

        def watch(results, done, total, what):
            seen.append((sum(len(m["repeats"]) for m in results.document["methods"]), done, total))

        compare(X, y, methods=[OURS, PLAIN], repeats=2, random_state=0, on_progress=watch)
        assert seen == [(i, i, 6) for i in range(7)]

    def test_interrupt_keeps_what_is_done(self, data):
        X, y, _ = data
        before = signal.getsignal(signal.SIGINT)
        swallows = Method("swallows", Swallows)
        document = compare(X, y, methods=[PLAIN, swallows], repeats=4, random_state=0).document
        assert document["status"] == "interrupted"
        # The fit cut short is not among the results, and nothing ran after it.
        assert [len(m["repeats"]) for m in document["methods"]] == [2, 1, 1]
        assert signal.getsignal(signal.SIGINT) is before
        assert any("stopped early: 4 of 12 fits" in f.text for f in findings(Reading(document)))

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"methods": ["adalpbost"]}, "adalpbost"),
            ({"methods": []}, "at least one method"),
            ({"alphas": [0.1, 1.5]}, r"alphas must lie in \(0, 1\], got 1.5"),
            ({"alphas": [0.0]}, "alphas must lie in"),
            ({"alphas": [float("nan")]}, "alphas must lie in"),
            ({"alphas": []}, "alphas must hold"),
            ({"curve_alphas": [-1]}, "curve_alphas must lie"),
            ({"repeats": 0}, "repeats must be"),
            ({"repeats": 2.0}, "repeats must be"),
            ({"test_size": 1.0}, "test_size"),
            ({"test_size": 0.001}, "test_size = 0.001.*0 rows"),
            ({"random_state": -1}, "random_state must be None or a non-negative integer, got -1"),
            ({"X": np.zeros(200)}, "X must have two dimensions"),
            ({"y": np.zeros(3)}, r"y must have one label per row of X, got shape \(3,\) for 200 rows"),
            ({"y": np.r_[np.nan, np.zeros(199)]}, "missing labels"),
            ({"y": np.array([None] + ["a", "b"] * 99 + ["a"], dtype=object)}, "missing labels"),
            ({"y": pd.Series([pd.NA, *["a", "b"] * 99, "a"], dtype="string")}, "missing labels"),
            ({"y": np.zeros(200)}, "single class"),
            ({"y": np.r_[np.zeros(199), 1]}, "class 1.0 has one row"),
            ({"groups": pd.DataFrame({"sex": ["f"] * 3})}, "'sex' has 3 rows, X has 200"),
        ],
    )
    def test_bad_input_before_any_fit(self, data, change, says):
        X, y, groups = data
        given = {"X": X, "y": y, "groups": groups, "methods": [OURS], "random_state": 0} | change
        with pytest.raises(ValueError, match=says):
            compare(**given)
        assert Mixture.fits == 0


class TestJointGroups:
    def test_rare_combinations_are_pooled(self):
        table = pd.DataFrame({"a": ["x"] * 99 + ["y"], "b": ["u"] * 50 + ["v"] * 50})
        values, counts = np.unique(joint_groups(table, min_share=0.02), return_counts=True)
        assert dict(zip(values, counts, strict=True)) == {"a=x, b=u": 50, "a=x, b=v": 49, "other": 1}

    def test_one_column_is_taken_as_it_is(self):
        assert joint_groups({"a": ["x"] * 200 + ["y"]}).tolist() == ["a=x"] * 200 + ["a=y"]


class TestIntervals:
    def test_one_value_has_none(self):
        assert interval([0.25]) == {"mean": 0.25, "low": None, "high": None, "n": 1}

    def test_nested_and_absent(self):
        records = [
            {"a": 1.0, "b": {"x": None}, "c": [0.0, 2.0]},
            {"a": 3.0, "b": {"x": None}, "c": [0.0, 4.0]},
        ]
        summary = summarise(records)
        assert summary["a"]["mean"] == 2
        assert summary["b"] == {"x": None}
        assert [f["mean"] for f in summary["c"]] == [0, 3]
        assert summarise([{"a": 1.0}, {"b": 2.0}])["b"] == interval([2.0])


@pytest.fixture
def results(data):
    X, y, groups = data
    groups = groups.rename(columns={"band": "<script>alert(1)</script>"}).replace({"a": "<b>a</b>"})
    methods = [OURS, Method("second", Mixture, title="Second & <i>best</i>"), PLAIN, Method("broken", Fails)]
    return compare(
        X, y, groups, methods=methods, repeats=3, random_state=0, data_name="<script>x.csv", command="t <c>"
    )


FIGURE = {"mean": float, "low": (float, type(None)), "high": (float, type(None)), "n": int}


class TestDocument:
    def test_schema(self, results):
        """Keys and types that others may rely on; a change needs a new schema version."""
        document = json.loads(json.dumps(results.document, allow_nan=False))
        assert document["schema"] == "tailboost.results"
        assert document["schema_version"] == 1
        assert document["status"] in ("running", "complete", "interrupted")
        assert {"created", "command", "versions", "data", "settings", "splits", "methods"} < set(document)
        assert {"tailboost", "python", "numpy", "scikit-learn"} <= set(document["versions"])
        data, settings = document["data"], document["settings"]
        known = {"name", "n_rows", "n_features", "classes", "class_counts", "groups", "group_features"}
        assert set(data) == known
        assert sum(data["class_counts"]) == data["n_rows"]
        assert all(sum(counts.values()) == data["n_rows"] for counts in data["groups"].values())
        assert settings["main_alpha"] in settings["alphas"]
        assert settings["interval"]["level"] == 0.95
        assert "Student t" in settings["interval"]["note"]
        for split in document["splits"]:
            assert split["n_train"] + split["n_test"] == data["n_rows"]
        for method in document["methods"]:
            for record in method["repeats"]:
                assert isinstance(record["error"], float)
                assert set(record["class_errors"]) == set(data["classes"])
                assert set(record["group_errors"]) == set(data["groups"])
                assert set(record["cvar"]) == {f"{a:g}" for a in settings["alphas"]}
                assert record["fit_seconds"] >= 0
                assert record["predict_seconds"] >= 0
            figures = method["figures"] or {}
            for name in ("error", "worst_class_error", "worst_group_error", "fit_seconds", "predict_seconds"):
                if figures:
                    assert {k: isinstance(figures[name][k], t) for k, t in FIGURE.items()} == dict.fromkeys(
                        FIGURE, True
                    )

    def test_save_and_load(self, results, tmp_path):
        results.save(tmp_path / "r.json")
        assert Results.load(tmp_path / "r.json").document == json.loads(json.dumps(results.document))
        assert [p.name for p in tmp_path.iterdir()] == ["r.json"]

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("not json", "is not JSON"),
            ("[]", "holds no results"),
            ('{"schema": "other"}', "holds no results"),
            ('{"schema": "tailboost.results", "schema_version": 99}', "schema version 99"),
            ('{"schema": "tailboost.results"}', "schema version None"),
        ],
    )
    def test_load_refuses(self, tmp_path, content, says):
        (tmp_path / "r.json").write_text(content)
        with pytest.raises(ValueError, match=says):
            Results.load(tmp_path / "r.json")


def made_up(ours, plain, repeats=3):
    """A document in which only the errors matter: one list per method, one error per repeat."""

    def entry(name, errors, is_ours):
        records = [
            {
                "repeat": i,
                "error": e,
                "class_errors": {"a": e, "b": e},
                "worst_class_error": e,
                "worst_group_errors": {},
                "cvar": {"0.5": min(1.0, 2 * e)},
                "cvar_curve": [min(1.0, 2 * e), e],
                "group_errors": {},
                "fit_seconds": 1.0,
                "reweight_seconds": None,
                "predict_seconds": 0.1,
            }
            for i, e in enumerate(errors)
        ]
        return {
            "name": name, "title": name.title(), "summary": "", "ours": is_ours, "uses_alpha": False,
            "uses_groups": False, "randomized": is_ours, "repeats": records,
            "figures": summarise([{k: v for k, v in r.items() if k != "repeat"} for r in records]),
            "failures": [], "warnings": [],
        }  # fmt: skip

    return {
        "status": "complete",
        "versions": {"tailboost": "0"},
        "created": "",
        "command": None,
        "data": {
            "name": "d",
            "n_rows": 10_000,
            "n_features": 2,
            "classes": ["a", "b"],
            "class_counts": [4000, 6000],
            "groups": {},
        },
        "settings": {
            "alphas": [0.5],
            "main_alpha": 0.5,
            "curve_alphas": [0.5, 1.0],
            "repeats": repeats,
            "test_size": 0.3,
            "random_state": 0,
            "interval": {"note": ""},
        },
        "left_out": [],
        "splits": [],
        "methods": [
            entry("ours", ours, True),
            entry("plain", plain, False),
            entry("coinflip", [0.5] * repeats, False),
        ],
    }


class TestFindings:
    def kinds(self, document):
        return {d.verdict for _, row in Reading(document).duels for d in row}

    @pytest.mark.parametrize(
        ("ours", "plain", "verdict"),
        [
            ([0.1, 0.2, 0.3], [0.2, 0.3, 0.41], "ahead"),
            ([0.2, 0.3, 0.41], [0.1, 0.2, 0.3], "behind"),
            ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], "not shown"),
            ([0.1, 0.3, 0.2], [0.2, 0.2, 0.2], "not shown"),
            ([0.1], [0.4], "once"),  # one split shows nothing
        ],
    )
    def test_verdict_is_the_paired_interval(self, ours, plain, verdict):
        document = made_up(ours, plain, repeats=len(ours))
        assert self.kinds(document) == {verdict}
        if len(ours) > 1 and ours != plain:
            _, [duel] = Reading(document).duels[0]
            d = np.subtract(ours, plain)  # splits of 7 : 3; errors are multiples of 1/3000
            tests = len(Reading(document).measures)
            variance = (d.var(ddof=1) + 1 / 3000**2 / 12) * (1 / 3 + 3 / 7)
            half = stats.t.ppf(1 - 0.025 / tests, 2) * np.sqrt(variance)
            truth = (d.mean() - half, d.mean() + half)
            assert (duel.difference["low"], duel.difference["high"]) == pytest.approx(truth)

    def test_interval_is_that_of_the_corrected_resampled_t_test(self):
        d = np.array([0.1, 0.3, -0.05, 0.2])
        half = stats.t.ppf(0.975, 3) * np.sqrt((1 / 4 + 0.5) * d.var(ddof=1))
        found = resampled_interval(d, 0.5)
        assert (found["low"], found["high"]) == pytest.approx((d.mean() - half, d.mean() + half))
        # Without rows in common it is the ordinary paired test, and one of five is at a level of 99 %.
        for tests, level in ((1, 0.95), (5, 0.99)):
            truth = stats.ttest_1samp(d, 0).confidence_interval(level)
            found = resampled_interval(d, 0.0, tests=tests)
            assert (found["low"], found["high"]) == pytest.approx((truth.low, truth.high))
        assert resampled_interval([0.1], 0.5) == {"mean": 0.1, "low": None, "high": None, "n": 1}
        assert resampled_interval([0.1, 0.1], 0.5)["low"] == pytest.approx(0.1)

    def leaves_out_0(self, found):
        return not found["low"] <= 0 <= found["high"]

    def test_equal_differences_of_few_rows_are_not_certain(self):
        """Two methods that differ by chance alone: the share of "clear" differences is at most the level.

        On two splits of few rows both differences are often the same multiple of 1/n to the last bit.
        """
        rng = np.random.default_rng(0)
        n, level, counted = 60, 0.05, 4000
        clear = exact = 0
        for _ in range(counted):
            d = (rng.binomial(n, 0.2, 2) - rng.binomial(n, 0.2, 2)) / n
            clear += self.leaves_out_0(resampled_interval(d, 0.0, 1 / n))
            exact += self.leaves_out_0(resampled_interval(d, 0.0, tests=10))
        assert clear <= counted * level + 3 * np.sqrt(counted * level)
        assert exact > 5 * counted * level / 10  # without the step far too many
        document = made_up([0.1, 0.2], [0.3, 0.4], repeats=2)
        document["data"] |= {"n_rows": 100, "class_counts": [40, 60]}
        assert self.kinds(document) == {"not shown"}

    def test_every_opponent_counts(self):
        document = made_up([0.1, 0.2, 0.3], [0.2, 0.3, 0.41])
        other = copy.deepcopy(document["methods"][1]) | {"name": "other", "title": "Other"}
        for record, error in zip(other["repeats"], (0.1, 0.21, 0.3), strict=True):
            record |= {"error": error}
        document["methods"].append(other)
        row = {
            d.plain["title"]: d.verdict
            for m, row in Reading(document).duels
            if m.title == "error"
            for d in row
        }
        assert row == {"Plain": "ahead", "Other": "not shown"}
        assert "mean error" not in self.said(document, "ahead")  # not ahead of every plain method
        assert "mean error" in self.said(document, "not shown")

    def test_only_shared_splits_are_paired(self):
        document = made_up([0.1, 0.2], [0.4, 0.5, 0.6])
        _, [duel] = Reading(document).duels[0]
        assert duel.difference["n"] == 2
        assert duel.difference["mean"] == pytest.approx(-0.3)

    def said(self, document, kind):
        return " ".join(f.text for f in findings(Reading(document)) if f.kind == kind)

    def test_words_follow_the_numbers(self):
        losing = made_up([0.2, 0.3, 0.41], [0.1, 0.2, 0.3])
        assert "Every method of ours is behind a plain method on mean error" in self.said(losing, "behind")
        assert "2 comparisons of ours with plain methods at a family error of 5%" in self.said(losing, "what")
        assert not self.said(losing, "ahead")
        winning = made_up([0.1, 0.2, 0.3], [0.2, 0.3, 0.41])
        assert "mean error" in self.said(winning, "ahead")
        assert not self.said(winning, "behind")

    def test_a_single_split_is_called_nothing(self):
        document = made_up([0.1], [0.4], repeats=1)
        kinds = {f.kind for f in findings(Reading(document))}
        assert kinds.isdisjoint({"ahead", "behind", "not shown"})
        text = " ".join(f.text for f in findings(Reading(document)))
        for claim in ("clear difference", "clearly better", "too close", "Ahead of"):
            assert claim not in text
        assert "One split has no interval" in self.said(document, "once")

    def test_warnings_that_differ_in_numbers_are_one(self):
        document = made_up([0.1] * 3, [0.2] * 3)
        ours, plain, _ = document["methods"]
        ours["warnings"] = ["round 3 reached .52 of 1.0", "round 17 reached .61 of 1.0"]
        plain["warnings"] = ["round 5 reached .5 of 1e-3", "something else"]
        said = [f.text for f in findings(Reading(document)) if f.kind == "warning"]
        assert said == [
            "Ours and Plain: round 3 reached .52 of 1.0 (3 messages that differ in numbers only)",
            "Plain: something else",
        ]

    def test_no_difference_to_three_decimals_is_none(self):
        document = made_up([0.2001, 0.3001, 0.4001], [0.2003, 0.3003, 0.4003])
        assert self.kinds(document) == {"not shown"}

    def test_no_better_than_a_coin_flip_is_said(self):
        document = made_up([0.50, 0.51, 0.52], [0.60, 0.62, 0.61])
        assert "mean error: Ours (though no better than a coin flip)" in self.said(document, "ahead")
        assert "CVaR at α = 0.5: no method is clearly better than a coin flip (0.500)" in self.said(
            document, "coin"
        )

    def test_the_same_numbers_share_a_row(self):
        document = made_up([0.2, 0.3], [0.2, 0.3], repeats=2)
        assert [[m["name"] for m in group] for group in Reading(document).distinct] == [
            ["plain", "ours"],
            ["coinflip"],
        ]
        _, rows = comparison_table(Reading(document))
        assert [(row.method["title"], row.same) for row in rows] == [("Plain", ("Ours",)), ("Coinflip", ())]
        for record in document["methods"][0]["repeats"]:
            record["cvar_curve"] = [0.7, 0.3]
        _, rows = comparison_table(Reading(document))
        assert [(row.method["title"], row.errs_as) for row in rows][:2] == [
            ("Ours", "Plain"),
            ("Plain", None),
        ]

    def test_what_a_coin_flip_does_as_well_is_not_marked(self):
        document = made_up([0.50, 0.51, 0.52], [0.60, 0.62, 0.61])
        _, rows = comparison_table(Reading(document))
        assert not any(cell.best for row in rows for cell in row.cells)
        fought = [d for measure, row in Reading(document).duels if measure.title == "error" for d in row]
        assert [(d.verdict, d.beats_coin) for d in fought] == [("ahead", False)]

    def test_tails_in_which_nothing_beats_a_coin_are_not_shown(self):
        document = made_up([0.2, 0.3, 0.25], [0.3, 0.4, 0.41])
        titles = [column.title for column in Reading(document).measures]
        assert titles == ["error", "worst class"]  # a CVaR at .5 of .5 and more
        for record in document["methods"][0]["repeats"]:
            record["cvar"] = {"0.5": 0.3 + 0.001 * record["repeat"]}
        records = document["methods"][0]["repeats"]
        document["methods"][0]["figures"]["cvar"] = summarise([record["cvar"] for record in records])
        assert "CVaR 0.5" in [column.title for column in Reading(document).measures]

    def test_best_cells(self):
        document = made_up([0.2] * 3, [0.2004] * 3)
        document["methods"][0]["repeats"][0]["cvar_curve"] = [0.4, 0.25]
        columns, rows = comparison_table(Reading(document))
        assert [c.title for c in columns] == ["error", "worst class", "CVaR 0.5", "fit, s"]
        assert [[c.best for c in row.cells] for row in rows] == [
            [True, True, True, False],  # equal to three decimals is equal
            [True, True, False, False],
            [False] * 4,
        ]
        assert rows[0].cells[0].text == "0.200 ± 0.000"

    def test_guarantees(self, results):
        found = guarantees(Reading(results))
        assert ("Ours", 0.1, "", "promise at 0.1") in found
        assert ("Second & <i>best</i>", None, "", "promise at 0.3") in found


class TestVerdict:
    """The sentence for people says what the figures say, and no more."""

    def document(self, repeats=3, classes=("a", "b")):
        """Plain errs on a, ours on neither; the stronger plain method lies between."""
        document = made_up([0.30] * repeats, [0.20] * repeats, repeats=repeats)
        document["data"]["classes"] = list(classes)
        ours, plain, coin = document["methods"]
        third = copy.deepcopy(plain) | {"name": "strong", "title": "Strong"}
        document["methods"] = [ours, plain, third, coin]
        for method, errors, mean in (
            (ours, (0.29, 0.31), 0.30), (plain, (0.63, 0.09), 0.20), (third, (0.45, 0.2), 0.26),
        ):  # fmt: skip
            for i, record in enumerate(method["repeats"]):
                moved = [e + 0.001 * i for e in errors]
                record["class_errors"] = dict(zip(classes, [*moved, *moved], strict=False))
                record["worst_class_error"] = max(moved)
                record["error"] = mean + 0.001 * i
            records = [{k: v for k, v in r.items() if k != "repeat"} for r in method["repeats"]]
            method["figures"] = summarise(records)
        return document

    def curve(self, document):
        """Give ours a trade-off: mean errors .20, .25, .30 with worst classes .60, .40, .31."""
        ours = document["methods"][0]
        for record in ours["repeats"]:
            moved = 0.001 * record["repeat"]
            record["tradeoff"] = [
                {
                    "error_budget": budget,
                    "error": error + moved,
                    "worst_class_error": worst + moved,
                    "class_errors": {"a": worst, "b": 0.1},
                }
                for budget, error, worst in ((0.0, 0.20, 0.60), (0.05, 0.25, 0.40), (1.0, 0.30, 0.31))
            ]
        ours["figures"]["tradeoff"] = summarise([record["tradeoff"] for record in ours["repeats"]])
        return document

    def test_at_equal_errors_by_hand(self):
        """Strong errs .26: a fifth of the way from .25 to .30, where the worst class is .4 − .09/5 = .382."""
        reading = Reading(self.curve(self.document()))
        strong, plain = reading.matches
        assert [m.duel.plain["title"] for m in (strong, plain)] == ["Strong", "Plain"]
        assert (strong.equal, strong.unit, strong.short_of) == ("mean", "a", pytest.approx(0.0))
        assert strong.ours_at == pytest.approx((0.261, 0.383))
        assert strong.plain_at == pytest.approx((0.261, 0.451))
        assert strong.duel.difference["mean"] == pytest.approx(-0.068)
        assert strong.duel.verdict == "ahead"
        assert plain.ours_at == pytest.approx((0.201, 0.601))
        said = verdict(reading)
        assert said.sentence == (
            "With 26 of 100 wrong overall each, Ours gets 38 of 100 wrong in the worst class (“a”), "
            "Strong 45."
        )
        assert said.price == (
            "With 20 of 100 wrong overall each, Ours gets 60 of 100 wrong in the worst class (“a”), Plain 63."
        )
        assert [tile.value for tile in said.tiles] == ["38", "60", "31"]
        assert "Strong 45. Both have 26 of 100 wrong overall. Difference −6.8" in said.tiles[0].detail
        assert "Means over 3 random splits" in said.basis[0]

    def test_where_the_curve_ends_worst_classes_are_equal(self):
        """Strong errs more than the end of the curve: at its worst class .45 ours is at .2375 of all rows."""
        document = self.curve(self.document())
        strong = document["methods"][2]
        for record in strong["repeats"]:
            record["error"] = 0.35
        strong["figures"]["error"] = interval([0.35] * 3)
        match = Reading(document).matches[0]
        assert (match.equal, match.short_of) == ("worst", pytest.approx(0.0))
        assert match.ours_at == pytest.approx((0.2385, 0.451))
        assert verdict(Reading(document)).sentence.startswith("With 45 of 100 wrong in the worst class")

    def test_a_plain_method_that_goes_further_is_told(self):
        document = self.curve(self.document())
        strong = document["methods"][2]
        for record in strong["repeats"]:
            record |= {"error": 0.35, "worst_class_error": 0.25, "class_errors": {"a": 0.25, "b": 0.25}}
        strong["figures"] |= {"error": interval([0.35] * 3), "worst_class_error": interval([0.25] * 3)}
        reading = Reading(document)
        assert reading.matches[0].duel.verdict == "behind"
        assert verdict(reading).sentence == (
            "Ours gets 31 of 100 wrong in the worst class (“a”), Strong 25; "
            "Ours then has 30 of 100 wrong overall and Strong 35."
        )

    def test_plain_methods_beaten_in_both_errors_are_no_opponents(self):
        document = self.curve(self.document())
        weak = copy.deepcopy(document["methods"][1]) | {"name": "weak", "title": "Weak"}
        for record in weak["repeats"]:
            record |= {"error": 0.27, "worst_class_error": 0.64}
        weak["figures"] |= {"error": interval([0.27] * 3), "worst_class_error": interval([0.64] * 3)}
        document["methods"].insert(1, weak)
        assert [m.duel.plain["title"] for m in Reading(document).matches] == ["Strong", "Plain"]

    def test_without_a_curve_points_are_compared(self):
        """Both worse in one error than the other: nothing is equal, and both numbers are told."""
        said = verdict(Reading(self.document()))
        assert said.sentence == (
            "Ours gets 30 of 100 wrong overall, Strong 26; "
            "Ours then has 31 of 100 wrong in the worst class and Strong 45."
        )

    def test_one_split_promises_nothing(self):
        said = verdict(Reading(self.document(repeats=1)))
        assert "One random split" in said.basis[0]
        assert "hold together" not in " ".join(said.basis)
        assert "one split" in said.tiles[0].detail

    def test_a_difference_that_is_not_shown_is_said(self):
        said = verdict(Reading(made_up([0.1, 0.3, 0.2], [0.2, 0.2, 0.23])))
        assert "Not shown" in said.sentence

    def test_small_errors_keep_a_decimal(self):
        said = verdict(Reading(made_up([0.016] * 3, [0.027] * 3)))
        assert "Ours gets 1.6 of 100 wrong overall, Plain 2.7" in said.sentence

    def test_needs_both_sides(self):
        document = made_up([0.1], [0.2], repeats=1)
        del document["methods"][1]
        assert verdict(Reading(document)) is None

    def test_those_of_the_verdict_are_drawn_first(self):
        document = self.document()
        ours = document["methods"][0]
        more = []
        for i in range(12):
            other = copy.deepcopy(ours) | {"name": f"m{i}", "title": f"M{i}"}
            for record in other["repeats"]:
                record["error"] = 0.4 + 0.01 * i
            other["figures"]["worst_class_error"] = interval([0.32, 0.33])
            more.append(other)
        document["methods"] = [*more, *document["methods"]]
        names = {m["name"] for m in Reading(document).shown_first(MOST_SHOWN)}
        assert len(names) == MOST_SHOWN
        assert {"ours", "plain", "strong"} <= names


@pytest.mark.slow
def test_nobody_is_ahead_on_noise():
    """Labels thrown by a coin: the true error of every method is one half, whatever fourteen of them find."""

    def trees(title, ours, depths):
        return [
            Method(f"{title}{d}", lambda d=d: DecisionTreeClassifier(max_depth=d, random_state=d), ours=ours)
            for d in depths
        ]

    methods = [*trees("ours", True, range(1, 15)), *trees("plain", False, (2, 5, 9))]
    false, single = 0, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, 4)), rng.integers(0, 2, 120)
        document = compare(X, y, methods=methods, repeats=5, random_state=seed, n_jobs=1).document
        fought = [d for measure, row in Reading(document).duels if measure.title == "error" for d in row]
        assert len(fought) == 14 * 3
        false += any(d.verdict != "not shown" for d in fought)
        for d in fought:
            pairs = zip(d.ours["repeats"], d.plain["repeats"], strict=True)
            alone = interval([a["error"] - b["error"] for a, b in pairs])
            if not alone["low"] <= 0 <= alone["high"]:
                single += 1
                break
    assert false == 0
    assert single >= 4  # tables on which an interval of one pair alone leaves out 0


class Page(HTMLParser):
    """Collects tags, attributes and text; scripts and styles apart."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.scripts, self._in = [], [], [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, k, v) for k, v in attrs]
        self._in = tag

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, data):
        (self.scripts if self._in in ("script", "style") else self.text).append(data)


class TestHTML:
    @pytest.fixture
    def page(self, results):
        pytest.importorskip("jinja2")
        from tailboost.app.report import render

        source = render(json.loads(json.dumps(results.document)))
        page = Page()
        page.feed(source)
        page.source = source
        return page

    def test_nothing_is_fetched(self, page):
        assert "link" not in page.tags
        fetched = [a for a in page.attributes if a[1] in ("src", "href", "srcset", "action", "data")]
        assert all(key == "href" and value.startswith("#") for _, key, value in fetched)
        ids = {v for _, k, v in page.attributes if k == "id"}
        assert {value[1:] for _, _, value in fetched} <= ids
        policy = next(v for _, k, v in page.attributes if k == "content" and "default-src" in v)
        assert policy.startswith("default-src 'none'")
        assert "http" not in policy
        # Of scripts exactly the one in the page, by its hash.
        [script] = re.findall(r"<script>(.*?)</script>", page.source, flags=re.DOTALL)
        allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert page.tags.count("script") == 1
        assert f"; script-src 'sha256-{allowed}'; " in policy
        assert not [a for a in page.attributes if a[1].startswith("on")]
        styles = next(s for s in page.scripts if ":root" in s)
        assert "url(" not in styles
        assert "@import" not in styles

    def test_it_is_small(self, page):
        assert len(page.source.encode()) < 300_000
        assert "plotly" not in page.source.lower()

    def test_ids_are_not_repeated(self, page):
        ids = [v for _, k, v in page.attributes if k == "id"]
        assert len(ids) == len(set(ids))

    def test_the_verdict_comes_first(self, page, results):
        said = verdict(Reading(results))
        text = " ".join("".join(page.text).split())
        for words in (said.sentence, said.price, *said.basis):
            assert " ".join(words.split()) in text
        assert text.index(said.sentence) < text.index("All methods")
        for tile in said.tiles:
            assert f"{tile.value}{tile.label}" in text

    def test_every_method_and_figure_is_there(self, page, results):
        text = " ".join("".join(page.text).split())
        for method in results.document["methods"]:
            assert method["title"] in text
        for finding in findings(Reading(results)):
            assert " ".join(finding.text.split()) in text
        assert "RuntimeError: cannot do <this>" in text
        figure = results.document["methods"][0]["figures"]["error"]
        assert f"{figure['mean']:.3f}" in text
        assert "coin flip" in text

    def test_user_text_is_escaped(self, page):
        outside = page.source
        for script in page.scripts:
            outside = outside.replace(script, "")
        assert "<script>alert" not in outside
        assert "<script>x.csv" not in outside
        assert "<i>best" not in outside
        assert "&lt;i&gt;best" in outside
        assert page.tags.count("script") == 1

    def test_points_stand_at_the_figures(self, results):
        """Marks of the first picture, read back through its ticks, are the errors of the document."""
        from tailboost.app.report.charts import tradeoff_chart

        reading = Reading(results)
        styles = method_styles(reading)
        wide = tradeoff_chart(reading, styles, "worst_class_error", "worst class").split("<svg")[1]
        numbers = [
            (float(x), float(y), float(v), end)
            for x, y, end, v in re.findall(
                r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(middle|end)" class="tick">([\d.]+)</text>',
                wide,
            )
        ]
        across = [(v, x) for x, _, v, end in numbers if end == "middle"]
        up = [(v, y - 4) for _, y, v, end in numbers if end == "end"]
        places = {
            title.split(":")[0]: (float(x), float(y))
            for title, x, y in re.findall(
                r"<title>([^<]*)</title>.*?translate\(([\d.]+),([\d.]+)\)", wide, flags=re.DOTALL
            )
        }
        [plain] = [m for m in results.document["methods"] if m["name"] == "plain"]
        x, y = places["Plain"]
        error = np.polyval(np.polyfit([p for _, p in across], [v for v, _ in across], 1), x)
        worst = np.polyval(np.polyfit([p for _, p in up], [v for v, _ in up], 1), y)
        assert error == pytest.approx(plain["figures"]["error"]["mean"], abs=2e-3)
        assert worst == pytest.approx(plain["figures"]["worst_class_error"]["mean"], abs=2e-3)

    def test_a_tradeoff_is_drawn_where_there_is_one(self, results):
        from tailboost.app.report import render

        document = copy.deepcopy(results.document)
        assert 'class="curve"' not in render(document)
        for k, record in enumerate(document["methods"][0]["repeats"]):
            record["tradeoff"] = [
                {"error_budget": b, "error": 0.2 + b + 0.01 * k, "worst_class_error": 0.5 - b}
                for b in (0.0, 0.1, 0.2)
            ]
        points = [record["tradeoff"] for record in document["methods"][0]["repeats"]]
        document["methods"][0]["figures"]["tradeoff"] = summarise(points)
        source = render(document)
        assert source.count('class="curve"') == 2  # wide and narrow
        assert "budgets of mean error" in source

    def test_every_method_looks_different(self):
        document = made_up([0.1, 0.2], [0.2, 0.3], repeats=2)
        ours, plain, coin = document["methods"]
        many = []
        for i in range(30):
            other = copy.deepcopy(ours) | {"name": f"m{i}", "title": f"M{i}"}
            other["repeats"][0]["error"] += 0.001 * i
            many.append(other)
        styles = method_styles(Reading({**document, "methods": [*many, plain, coin]}))
        assert len({(s["sign"], s["light"]) for s in styles}) == len(styles) == 32
        shown = [s for s in styles if s["shown"]]
        assert len(shown) == MOST_SHOWN
        for scheme in ("light", "dark"):
            assert len({(s[scheme], s["sign"]) for s in shown}) == MOST_SHOWN
        assert {s["light"] for s in styles if not s["shown"]}.isdisjoint({s["light"] for s in shown})

    def test_both_schemes_print_and_narrow(self, page):
        styles = next(s for s in page.scripts if ":root" in s)
        for query in ("prefers-color-scheme: dark", "@media print", "max-width"):
            assert query in styles

    def test_charts_have_words(self, page):
        labels = re.findall(
            r'<svg class="chart (?:wide|narrow)"[^>]* role="img" aria-label="([^"]+)"', page.source
        )
        # Trade-offs by class and group, CVaR, classes, two groupings: each wide and narrow.
        assert len(labels) == 2 * (2 + 1 + 1 + 2)
        assert all(label.strip().endswith(".") for label in labels)

    def test_nothing_finished(self, data):
        pytest.importorskip("jinja2")
        from tailboost.app.report import render

        X, y, _ = data
        results = compare(X, y, methods=[Method("broken", Fails)], repeats=1, random_state=0)
        results.document["methods"].pop()  # as after Ctrl-C in the very first fit
        assert "cannot do &lt;this&gt;" in render(results)

    def test_only_the_coin_flip_finished(self, data):
        pytest.importorskip("jinja2")
        from tailboost.app.report import render

        X, y, _ = data
        source = render(compare(X, y, methods=[Method("broken", Fails)], repeats=1, random_state=0))
        assert "There is no verdict" in source
        assert "cannot do &lt;this&gt;" in source

    def test_one_split_and_many_classes(self):
        pytest.importorskip("jinja2")
        from tailboost.app.report import render

        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(400, 3)), rng.integers(0, 14, 400)
        results = compare(X, y, methods=[PLAIN], repeats=1, random_state=0)
        source = render(results)
        assert "the 10 classes that are hardest" in " ".join(source.split())
        assert "±" not in re.sub(r"<pre>.*?</pre>", "", source, flags=re.DOTALL)
        assert "null" not in "".join(re.findall(r">[^<]*<", source))


def test_a_page_sets_methods_against_each_other_once(results, monkeypatch):
    from tailboost.app.report import reading

    calls = []
    made = reading.Duel
    monkeypatch.setattr(reading, "Duel", lambda *given: calls.append(given[:2]) or made(*given))
    render(results)
    found = reading.Reading(results)
    assert len(calls) == len(found.matches) + sum(len(row) for _, row in found.duels)


def test_a_method_looks_the_same_on_every_page():
    one, two = (made_up([0.1, 0.2], [0.2, 0.3], repeats=2) for _ in range(2))
    for document, names in ((one, ("robustmixture", "forest")), (two, ("worstclassboost", "forest"))):
        for method, name in zip(document["methods"], names, strict=False):
            method["name"] = name
    more = copy.deepcopy(two["methods"][0]) | {"name": "robustmixture", "title": "Mixture"}
    more["repeats"][0]["error"] = 0.05
    two["methods"].insert(0, more)
    looks = [
        {name: (s["light"], s["sign"]) for s in method_styles(Reading(d)) for name in s["names"]}
        for d in (one, two)
    ]
    for name in ("robustmixture", "forest"):
        assert looks[0][name] == looks[1][name]


def test_an_overview_has_both_verdicts_and_runs_nothing(results):
    pytest.importorskip("jinja2")
    other = copy.deepcopy(results.document)
    other["data"]["name"] = "<b>other</b>"
    chapters = [Chapter(results, "one/report.html", "From <here>."), Chapter(other, "two/report.html")]
    source = render_overview("Two tables", chapters)
    page = Page()
    page.feed(source)
    text = " ".join("".join(page.text).split())
    said = verdict(Reading(results))
    for words in (said.sentence, said.basis[0]):
        assert text.count(" ".join(words.split())) == 2
    assert "From <here>." in text
    assert "<b>other</b>" in text
    assert not {"script", "link", "b>other<"} & set(page.tags)
    assert [v for _, k, v in page.attributes if k == "href"] == ["one/report.html", "two/report.html"]
    assert not [a for a in page.attributes if a[1] == "src" or a[1].startswith("on")]
    policy = next(v for _, k, v in page.attributes if k == "content" and "default-src" in v)
    assert policy.startswith("default-src 'none'; script-src 'none'; ")
    ids = [v for _, k, v in page.attributes if k == "id"]
    assert len(ids) == len(set(ids))
    assert len(source.encode()) < 150_000
    # Each table has its own methods, so a colour means something within its chapter alone.
    styles = "".join(page.scripts)
    assert "#c1 .m0{color" in styles
    assert "#c2 .m0{color" in styles


def test_an_overview_of_nothing_that_finished():
    pytest.importorskip("jinja2")
    X, y = load_iris(return_X_y=True)
    broken = compare(X, y, methods=[Method("broken", Fails)], repeats=1, random_state=0)
    source = render_overview("One table", [Chapter(broken, "report.html")])
    assert "There is no verdict" in source
    assert "Read first" in source
    assert 'href="report.html"' in source


def test_binary_methods_are_left_out_where_there_are_more_classes():
    X, y = load_iris(return_X_y=True)
    results = compare(X, y, methods=["ebboost", "erm"], alphas=[0.5], repeats=1, random_state=0)
    assert [m["name"] for m in results.document["methods"]] == ["erm", "coinflip"]
    assert "takes two classes" in results.document["left_out"][0]["reason"]


def test_missing_values_are_filled_for_methods_that_take_none():
    X, y = load_iris(return_X_y=True)
    X[::7, 0] = np.nan
    results = compare(X, y == 1, methods=["ebboost"], alphas=[0.5], repeats=1, random_state=0)
    assert results.document["status"] == "complete"
    assert not results.document["methods"][0]["failures"]


def test_the_mean_error_of_each_fit_is_bounded():
    """The bound is the one of the rows held out, and the report says it of every split."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    results = compare(X, y, methods=["forest", "coinflip"], alphas=(0.5,), repeats=2, random_state=0)
    (forest,) = [m for m in results.document["methods"] if m["name"] == "forest"]
    page = render(results)
    for record in forest["repeats"]:
        n, error = results.document["splits"][0]["n_test"], record["error"]
        wrong = np.arange(n) < round(error * n)
        bound = empirical_bernstein_bound(wrong)
        assert record["error_bound"] == pytest.approx(bound)
        assert f"{bound:.3f}" in page
    assert "empirical Bernstein bound" in page


def test_a_mixture_of_models_is_compared_by_its_own_objective():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    results = compare(
        X, X.argmax(axis=1), methods=["robustmixture"], alphas=(0.3,), repeats=1, random_state=0
    )
    (mixture,) = [m for m in results.document["methods"] if m["name"] == "robustmixture"]
    assert not mixture["failures"]
    assert "at_alpha" not in mixture["repeats"][0]
    assert mixture["repeats"][0]["tradeoff"]
