"""Comparisons: measured numbers against brute force, and splits, methods and errors."""

import os
import signal
import warnings

import numpy as np
import pytest
from made_up_comparisons import (
    BASELINE,
    BROKEN,
    GROUPED,
    OURS,
    SignMixture,
    marked_up_results,
    pd,
    small_data,
)
from scipy.sparse import coo_array
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.tree import DecisionTreeClassifier

from tailboost import RobustMixtureClassifier
from tailboost.app.registry import Method
from tailboost.app.report import compare
from tailboost.app.report.comparison import joint_groups

ALPHAS = (0.1, 0.3, 0.77)
SECONDS = ("fit_seconds", "reweight_seconds", "predict_seconds")


class CatchesInterrupts(SignMixture):
    """Gets SIGINT in its second fit and returns early, as some boosting libraries do."""

    def fit(self, X, y, groups=None):
        super().fit(X, y)
        if self.fits == 2:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            except KeyboardInterrupt:
                pass
        return self


@pytest.fixture(autouse=True)
def _fresh_counts():
    for cls in (SignMixture, CatchesInterrupts):
        cls.fits = cls.reweights = 0
        cls.seen_groups = None


def cvar_by_definition(losses, alpha):
    """CVaR with each row cut into pieces, so that the tail ends at a cut."""
    pieces = np.sort(np.repeat(losses, 1000))[::-1]
    return pieces[: round(alpha * len(pieces))].mean()


class TestNumbers:
    @pytest.fixture
    def document(self):
        X, y, groups = small_data()
        given = {"alphas": ALPHAS, "repeats": 3, "random_state": 7}
        return compare(X, y, groups, methods=[OURS, BASELINE], **given).document

    @pytest.fixture
    def splits(self):
        X, y, groups = small_data()
        splitter = StratifiedShuffleSplit(n_splits=3, test_size=0.3, random_state=7)
        return [
            (X[i], y[i], X[j], y[j], groups.iloc[j].reset_index(drop=True)) for i, j in splitter.split(X, y)
        ]

    def test_randomised_rule(self, document, splits):
        records = document["methods"][0]["repeats"]
        assert [r["repeat"] for r in records] == [0, 1, 2]
        for record, (_, _, X, y, groups) in zip(records, splits, strict=True):
            wrong = np.where(X[:, 0] > 0, "yes", "no") != y
            assert record["error"] == pytest.approx(wrong.mean())
            by_class = {c: wrong[y == c].mean() for c in ("no", "yes")}
            assert record["class_errors"] == pytest.approx(by_class)
            assert record["worst_class_error"] == pytest.approx(max(by_class.values()))
            for name in groups:
                by_group = {g: wrong[groups[name] == g].mean() for g in groups[name].unique()}
                assert record["group_errors"][name] == pytest.approx(by_group)
                assert record["worst_group_errors"][name] == pytest.approx(max(by_group.values()))
            assert record["worst_group_error"] == max(record["worst_group_errors"].values())
            for alpha in ALPHAS:
                expected = np.where(wrong, (1 + alpha) / 2, (1 - alpha) / 2)
                assert record["cvar"][f"{alpha:g}"] == pytest.approx(cvar_by_definition(expected, alpha))
            assert record["fit_summary"] == "summary at 0.3"

    def test_deterministic_rule_has_cvar_error_over_alpha(self, document, splits):
        records = document["methods"][1]["repeats"]
        for record, (X, y, X_test, y_test, _), split in zip(records, splits, document["splits"], strict=True):
            tree = DecisionTreeClassifier(max_depth=2, random_state=split["fit_seed"]).fit(X, y)
            answers = tree.predict(X_test)
            error = np.mean(answers != y_test)
            assert record["error"] == pytest.approx(error)
            assert record["cvar"] == pytest.approx({f"{a:g}": min(1, error / a) for a in ALPHAS})

    def test_one_fit_serves_every_alpha(self, document):
        assert SignMixture.fits == 3
        assert SignMixture.reweights == 3 * len(ALPHAS)

    def test_same_seed_same_numbers(self, document):
        given = {"alphas": ALPHAS, "repeats": 3, "random_state": 7}
        again = compare(*small_data(), methods=[OURS, BASELINE], **given).document
        for one, two in zip(document["methods"], again["methods"], strict=True):
            for left, right in zip(one["repeats"], two["repeats"], strict=True):
                assert {k: v for k, v in left.items() if k not in SECONDS} == {
                    k: v for k, v in right.items() if k not in SECONDS
                }

    def test_drawn_seed_is_stored(self):
        X, y, _ = small_data()
        first = compare(X, y, methods=[BASELINE], repeats=1).document
        seed = first["settings"]["random_state"]
        again = compare(X, y, methods=[BASELINE], repeats=1, random_state=seed).document
        assert first["methods"][0]["repeats"][0]["error"] == again["methods"][0]["repeats"][0]["error"]


def test_budgets_are_relative_to_the_most_accurate_candidate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    mix = Method(
        "m", "M", "", lambda: RobustMixtureClassifier([("tree", DecisionTreeClassifier(max_depth=2))])
    )
    [record] = compare(X, y, methods=[mix], repeats=1, random_state=0).document["methods"][0]["repeats"]
    budgets = [point["error_budget"] for point in record["tradeoff"]]
    assert budgets == sorted(budgets)
    assert budgets[0] == 0.0
    assert min(point["error"] for point in record["tradeoff"]) > 0.1  # all budgets, though none is above .1


def test_clusters_stay_on_one_side():
    sides = []

    class Seen(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            sides.append((set(X[:, 0]), set(y)))
            return super().fit(X, y)

        def predict(self, X):
            sides.append((set(X[:, 0]), None))
            return super().predict(X)

    person = np.repeat(np.arange(60), 5)
    X = np.column_stack([person, person])
    y = np.where(person % 20 == 0, "rare", "often")
    given = {
        "methods": [Method("seen", "Seen", "", Seen)],
        "repeats": 3,
        "test_size": 1 / 3,
        "random_state": 0,
    }
    document = compare(X, y, clusters=person, **given).document
    assert not document["methods"][0]["failures"]
    assert {(s["n_train"], s["n_test"]) for s in document["splits"]} == {(200, 100)}
    train = set()
    for persons, labels in sides:
        if labels:
            train = persons
            assert labels == {"rare", "often"}  # the three persons of the rare class are on both sides
        else:
            assert not train & persons
    with pytest.raises(ValueError, match="clusters must have shape"):
        compare(X, y, clusters=person[1:], **given)


class TestMethods:
    def test_groups_reach_only_methods_that_use_them(self):
        compare(*small_data(), methods=[OURS], repeats=1, random_state=0)
        assert SignMixture.seen_groups is None
        compare(*small_data(), methods=[GROUPED], repeats=1, random_state=0)
        assert set(SignMixture.seen_groups) == {f"sex={s}, band={b}" for s in "fm" for b in "abc"}

    def test_a_failing_method_does_not_stop_the_others(self):
        X, y, _ = small_data()
        document = compare(X, y, methods=[BROKEN, BASELINE], repeats=2, random_state=0).document
        broken, baseline = document["methods"]
        assert document["status"] == "complete"
        error = "RuntimeError: cannot do <this>"
        assert broken["failures"] == [{"repeat": i, "error": error} for i in range(2)]
        assert broken["figures"] is None
        assert len(baseline["repeats"]) == 2

    def test_a_method_that_is_not_installed_is_left_out(self):
        def absent():
            raise ImportError("needs Something: pip install it")

        X, y, _ = small_data()
        method = Method("absent", "Absent", "", absent)
        document = compare(X, y, methods=[method, BASELINE], repeats=1, random_state=0).document
        assert [m["name"] for m in document["methods"]] == ["baseline"]
        reason = "needs Something: pip install it"
        assert document["left_out"] == [{"title": "Absent", "reason": reason}]
        with pytest.raises(ValueError, match=r"at least one method.*pip install it"):
            compare(X, y, methods=[method], repeats=1)

    def test_binary_methods_are_left_out_for_more_classes(self):
        X, y = load_iris(return_X_y=True)
        document = compare(X, y, methods=["ebboost", "erm"], alphas=[0.5], repeats=1, random_state=0).document
        assert [m["name"] for m in document["methods"]] == ["erm"]
        assert "takes two classes" in document["left_out"][0]["reason"]


class TestTables:
    def test_new_categories_in_test_rows_cause_no_warning(self):
        X, y, _ = small_data()
        table = pd.DataFrame({"a": X[:, 0], "id": [f"row {i}" for i in range(len(X))]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compare(table, y, methods=[BASELINE], repeats=1, random_state=0)

    def test_sparse(self):
        X, y, _ = small_data()
        dense, sparse = (
            compare(table, y, methods=[BASELINE], repeats=1, random_state=0).document
            for table in (X, coo_array(X))
        )
        assert sparse["methods"][0]["repeats"][0]["error"] == dense["methods"][0]["repeats"][0]["error"]

    def test_mixed_table(self):
        X, y, groups = small_data()
        table = pd.DataFrame({"a": X[:, 0], "text": groups["sex"], "gaps": X[:, 1]})
        table.loc[::3, "gaps"] = None
        document = compare(table, y, methods=[OURS, BASELINE], repeats=1, random_state=0).document
        assert not any(m["failures"] for m in document["methods"])

    def test_missing_values_are_imputed_for_methods_that_refuse_them(self):
        X, y = load_iris(return_X_y=True)
        X[::7, 0] = np.nan
        results = compare(X, y == 1, methods=["ebboost"], alphas=[0.5], repeats=1, random_state=0)
        assert not results.document["methods"][0]["failures"]


def test_progress_shows_each_finished_fit():
    X, y, _ = small_data()
    seen = []

    def progress(results):
        seen.append(sum(len(m["repeats"]) for m in results.document["methods"]))

    compare(X, y, methods=[OURS, BASELINE], repeats=2, random_state=0, on_progress=progress)
    assert seen == list(range(5))


def test_an_interrupt_keeps_finished_fits():
    X, y, _ = small_data()
    before = signal.getsignal(signal.SIGINT)
    method = Method("catches", "Catches", "", CatchesInterrupts, ours=True, by_classes=True)
    document = compare(X, y, methods=[BASELINE, method], repeats=4, random_state=0).document
    assert document["status"] == "interrupted"
    assert [len(m["repeats"]) for m in document["methods"]] == [2, 1]  # the fit cut short is not stored
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["adalpbost"]}, "adalpbost"),
        ({"methods": []}, "at least one method"),
        ({"alphas": [0.1, 1.5]}, r"alphas must be numbers in \(0, 1\], got \[0.1, 1.5\]"),
        ({"alphas": [0.0]}, "alphas must be numbers"),
        ({"alphas": [float("nan")]}, "alphas must be numbers"),
        ({"alphas": []}, "alphas must be numbers"),
        ({"repeats": 0}, "repeats must be"),
        ({"repeats": 2.0}, "repeats must be"),
        ({"test_size": 1.0}, "test_size"),
        ({"test_size": 0.001}, "number of classes"),
        ({"random_state": -1}, "Seed must be"),
        ({"X": np.zeros(200)}, "X must have two dimensions"),
        ({"y": np.zeros(3)}, r"y must have one label per row of X, got shape \(3,\) for 200 rows"),
        ({"y": np.r_[np.nan, np.zeros(199)]}, "y contains NaN or None"),
        ({"y": np.array([None] + ["a", "b"] * 99 + ["a"], dtype=object)}, "y contains NaN or None"),
        ({"y": pd.Series([pd.NA, *["a", "b"] * 99, "a"], dtype="string")}, "y contains NaN or None"),
        ({"y": np.zeros(200)}, "at least two classes, got 1"),
        ({"y": np.r_[np.zeros(199), 1]}, "only 1 member"),
        ({"groups": pd.DataFrame({"sex": ["f"] * 3})}, "'sex' has 3 rows, X has 200"),
    ],
)
def test_bad_input_is_refused_before_any_fit(change, message):
    X, y, groups = small_data()
    given = {"X": X, "y": y, "groups": groups, "methods": [OURS], "random_state": 0} | change
    with pytest.raises(ValueError, match=message):
        compare(**given)
    assert SignMixture.fits == 0


class TestJointGroups:
    def test_rare_combinations_are_pooled(self):
        table = pd.DataFrame({"a": ["x"] * 99 + ["y"], "b": ["u"] * 50 + ["v"] * 50})
        values, counts = np.unique(joint_groups(table, min_share=0.02), return_counts=True)
        assert dict(zip(values, counts, strict=True)) == {"a=x, b=u": 50, "a=x, b=v": 49, "other": 1}

    def test_one_column_is_not_pooled(self):
        assert joint_groups({"a": ["x"] * 200 + ["y"]}).tolist() == ["a=x"] * 200 + ["a=y"]


def test_schema_of_the_document():
    """Keys and types that other programs may read; a change needs a new schema version."""
    document = marked_up_results().document
    assert (document["schema"], document["schema_version"]) == ("tailboost.results", 1)
    assert {"created", "command", "versions", "data", "settings", "splits", "methods"} < set(document)
    assert {"tailboost", "python", "numpy", "scikit-learn"} <= set(document["versions"])
    data, settings = document["data"], document["settings"]
    keys = {"name", "n_rows", "n_features", "classes", "class_counts", "groups"}
    assert set(data) == keys
    assert sum(data["class_counts"]) == data["n_rows"]
    assert all(sum(counts.values()) == data["n_rows"] for counts in data["groups"].values())
    assert settings["main_alpha"] in settings["alphas"]
    assert settings["interval"]["level"] == 0.95
    for split in document["splits"]:
        assert split["n_train"] + split["n_test"] == data["n_rows"]
    for method in document["methods"]:
        for record in method["repeats"]:
            assert isinstance(record["error"], float)
            assert set(record["class_errors"]) == set(data["classes"])
            assert set(record["group_errors"]) == set(data["groups"])
            assert set(record["cvar"]) == {f"{a:g}" for a in settings["alphas"]}
            assert min(record["fit_seconds"], record["predict_seconds"]) >= 0
            assert method["figures"]["error"].keys() == {"mean", "low", "high", "n"}


def test_robust_mixture_is_compared_with_its_objective():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    given = {"methods": ["robustmixture"], "alphas": (0.3,), "repeats": 1, "random_state": 0}
    [mixture] = compare(X, X.argmax(axis=1), **given).document["methods"]
    assert not mixture["failures"]
    assert mixture["repeats"][0]["tradeoff"]
