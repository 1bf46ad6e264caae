"""The comparison with AutoGluon: its figures by brute force, and the exchange of rows with a stand-in."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

pd = pytest.importorskip("pandas")
pytest.importorskip("xgboost")

from experiments._tables import Data

pytestmark = pytest.mark.experiments
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
#: Answers with the frequency of each label among the rows with the same text, so text must come through.
STAND_IN = """
import numpy as np
import pandas as pd


class TabularPredictor:
    def __init__(self, label, eval_metric, path, verbosity):
        print("libraries may print")

    def fit(self, train, presets, time_limit, num_cpus, num_gpus):
        self.train, self.shares = train, None
        if "colour" in train:
            assert train["colour"].dtype == "category"
            kept = train.assign(colour=train["colour"].astype(object).fillna("missing"))
            self.shares = pd.crosstab(kept["colour"], kept["label"], normalize="index")

    def predict_proba(self, X, transform_features=True):
        if self.shares is None:
            return pd.DataFrame({0: np.ones(len(X))}, index=X.index)
        return self.shares.loc[X["colour"].astype(object).fillna("missing")]

    def load_data_internal(self, data, return_X, return_y):
        return self.train.drop(columns="label")[:20], self.train["label"][:20]

    def transform_labels(self, y, inverse):
        return y

    def model_names(self):
        return ["stand-in", "WeightedEnsemble"]
"""


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("beside_autogluon")


def made(n=90):
    rng = np.random.default_rng(0)
    colour = np.array(["red", "None", np.nan], dtype=object)[np.arange(n) % 3]
    X = pd.DataFrame({"x": rng.normal(size=n), "colour": pd.Series(colour).astype("category")})
    return Data(X, ((np.arange(n) % 3 == 1) | (rng.random(n) < 0.3)).astype(np.intp))


def test_figures_by_row(script):
    rng = np.random.default_rng(1)
    P, y = rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60)
    answers = rng.integers(0, 3, 60)
    found = script.figures_of(y, P, answers)
    assert found["log loss"] == pytest.approx(sum(-math.log(P[i, y[i]]) for i in range(60)) / 60)
    for name, given in (("", [int(np.argmax(p)) for p in P]), (", rule", answers)):
        wrong = [[given[i] != k for i in range(60) if y[i] == k] for k in range(3)]
        assert found["error" + name] == pytest.approx(sum(map(sum, wrong)) / 60)
        assert found["worst class" + name] == pytest.approx(max(sum(w) / len(w) for w in wrong))


def test_the_rule_on_given_scores_is_that_of_the_best_threshold(script):
    rng = np.random.default_rng(2)
    y = (rng.random(900) < 0.2).astype(np.intp)
    p = 1 / (1 + np.exp(2 - 1.5 * y - rng.normal(size=900)))
    P = np.column_stack([1 - p, p])
    found = script.errors(y, script.rule_on_scores(P, y, P))[1]
    best = min(script.errors(y, p >= cut)[1] for cut in np.unique(p))
    assert best <= found <= best + 0.01 < script.errors(y, P.argmax(axis=1))[1]


def test_differences_are_paired_by_table(script):
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 8))
    tables = [{f: {"default": x, "AutoGluon": z} for f in script.FIGURES} for x, z in zip(a, b, strict=True)]
    found = script.difference(tables, "default", "AutoGluon")["log loss"]
    interval = ttest_1samp(a - b, 0).confidence_interval()
    assert [found["mean"] - found["half"], found["mean"] + found["half"]] == pytest.approx(interval, abs=2e-4)
    assert found["median"] == pytest.approx(sorted(a - b)[3] / 2 + sorted(a - b)[4] / 2, abs=1e-4)
    assert found["lower on"] == (a < b).sum()


def test_copies_of_training_rows(script):
    train = Data(pd.DataFrame({"x": [1.0, np.nan, 3.0], "t": ["a", "b", "c"]}), np.zeros(3, dtype=np.intp))
    test = Data(
        pd.DataFrame({"x": [np.nan, 3.0, 3.0, 1.0], "t": ["b", "b", "c", "c"]}), np.zeros(4, dtype=np.intp)
    )
    assert script.copies(train, test) == 0.5


def test_rows_reach_the_other_environment_and_come_back(script, tmp_path, monkeypatch):
    (tmp_path / "autogluon").mkdir()
    (tmp_path / "autogluon" / "tabular.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    data = made()
    arrays, figures = script.AutoGluon(sys.executable).fit(data, data, "log_loss", 1.0)
    text = data.X["colour"].astype(object).fillna("missing").to_numpy()
    shares = [np.mean(data.y[text == one]) for one in text]
    assert arrays["test"][:, 1] == pytest.approx(shares)
    assert arrays["held_out"] == pytest.approx(arrays["test"][:20])
    assert np.array_equal(arrays["y"], data.y[:20])
    assert figures["models"] == ["stand-in"]
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(RuntimeError, match="--python: AutoGluon's process ended"):
        script.AutoGluon(sys.executable)
