"""Small data, stand-in methods and made-up results for the tests of comparisons."""

import copy
from functools import cache

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")

from tailboost.app.registry import Method
from tailboost.app.report import compare
from tailboost.app.report.results import summarise


class SignMixture(ClassifierMixin, BaseEstimator):
    """Randomised rule: the sign of the first feature with weight (1 + α)/2, else the other class."""

    fits = reweights = 0
    seen_groups = None

    def __init__(self, alpha=0.5):
        self.alpha = alpha

    def fit(self, X, y, groups=None):
        type(self).fits += 1
        type(self).seen_groups = groups
        self.classes_ = np.unique(y)
        self.summary_ = f"summary at {self.alpha}"
        return self

    def reweight(self, *, alpha):
        type(self).reweights += 1
        other = copy.copy(self)
        other.alpha, other.summary_ = alpha, f"summary at {alpha}"
        return other

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]

    def predict_proba(self, X):
        right = (X[:, 0] > 0).astype(float)
        return self.alpha * np.column_stack([1 - right, right]) + (1 - self.alpha) / 2


class Fails(SignMixture):
    """Classifier whose ``fit`` raises an exception."""

    def fit(self, X, y, groups=None):
        raise RuntimeError("cannot do <this>")


def shallow_tree(random_state=None, n_jobs=None):
    return DecisionTreeClassifier(max_depth=2, random_state=random_state)


OURS = Method("ours", "Ours", "a <summary>", SignMixture, ours=True, randomized=True, by_classes=True)
GROUPED = Method("grouped", "Grouped", "", SignMixture, ours=True)
BASELINE = Method("baseline", "Baseline", "a <summary>", shallow_tree)
BROKEN = Method("broken", "Broken", "", Fails, ours=True, by_classes=True)


def small_data():
    """Two classes, and groups in two columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=200) > 0.4, "yes", "no")
    groups = pd.DataFrame({"sex": rng.choice(["f", "m"], 200), "band": rng.choice(["a", "b", "c"], 200)})
    return X, y, groups


@cache
def marked_up_results():
    """Results whose names contain mark-up."""
    X, y, groups = small_data()
    groups = groups.rename(columns={"band": "<script>alert(1)</script>"}).replace({"a": "<b>a</b>"})
    second = Method("second", "Second & <i>best</i>", "", SignMixture, ours=True, by_classes=True)
    return compare(
        X, y, groups, methods=[OURS, second, BASELINE, BROKEN], repeats=3, random_state=0,
        data_name="<script>x.csv", command="t <c>",
    )  # fmt: skip


def entry(name, records, ours):
    """An entry of ``methods`` from (error, worst-class error, trade-off or None) of each split."""
    full = []
    for i, (error, worst, tradeoff) in enumerate(records):
        full.append(
            {
                "repeat": i, "error": error, "class_errors": {"a": worst, "b": 0.05},
                "worst_class_error": worst, "group_errors": {}, "worst_group_errors": {},
                "worst_group_error": None, "cvar": {"0.5": min(1.0, 2 * error)},
                "fit_seconds": 1.0,
                "reweight_seconds": None, "predict_seconds": 0.1,
            }
            | ({"tradeoff": tradeoff} if tradeoff else {})
        )  # fmt: skip
    numbers = [{k: v for k, v in r.items() if k != "repeat"} for r in full]
    return {
        "name": name, "title": name.title(), "summary": "", "ours": ours, "uses_alpha": False,
        "uses_groups": False, "randomized": False, "repeats": full, "failures": [],
        "warnings": [], "figures": summarise(numbers),
    }  # fmt: skip


def made_up(*methods, repeats=3):
    """A document from entries of methods, in which only errors matter."""
    return {
        "status": "complete", "versions": {"tailboost": "0"}, "created": "", "command": None,
        "data": {"name": "d", "n_rows": 10_000, "n_features": 2, "classes": ["a", "b"],
                 "class_counts": [4000, 6000], "groups": {}},
        "settings": {"alphas": [0.5], "main_alpha": 0.5,
                     "repeats": repeats, "test_size": 0.3, "random_state": 0,
                     "interval": {"note": "the note"}},
        "left_out": [], "splits": [], "methods": [entry(*method) for method in methods],
    }  # fmt: skip


def tradeoffs(repeats=3, strong=(0.26, 0.45)):
    """Ours with errors .20, .25, .30 and worst classes .60, .40, .31; two baselines, one much better."""
    points = ((0.0, 0.20, 0.60), (0.05, 0.25, 0.40), (1.0, 0.30, 0.31))
    moves = [0.001 * i for i in range(repeats)]
    curves = [
        [{"error_budget": b, "error": e + m, "worst_class_error": w + m} for b, e, w in points] for m in moves
    ]
    ours = [(0.30 + m, 0.31 + m, curve) for m, curve in zip(moves, curves, strict=True)]
    weak = [(0.20 + m, 0.63 + m, None) for m in moves]
    other = [(strong[0] + m, strong[1] + m, None) for m in moves]
    return made_up(("ours", ours, True), ("weak", weak, False), ("strong", other, False), repeats=repeats)
