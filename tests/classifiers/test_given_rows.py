"""Rows go to given models as they are: what a model reads, `tune`, `calibrate` and `certify` take."""

from functools import partial

import numpy as np
import pytest
from conftest import refused
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import tailboost as tb


def with_gaps(X, value=np.nan):
    X = X.copy()
    X[::7, 1] = value
    return X


def texts(X):
    return np.array([" ".join(f"w{j}{round(5 * a)}" for j, a in enumerate(row)) for row in X], dtype=object)


def words(X):
    return np.where(X > 0.4, "high", "low")


class Images:
    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        assert np.shape(X)[1:] == (2, 2)
        p = 1 / (1 + np.exp(1.8 - np.sum(X, axis=(1, 2))))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


def linear(*steps):
    return make_pipeline(*steps, LogisticRegression())


def frame(X):
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))


CASES = {
    "gaps, an imputer": (linear(SimpleImputer()), with_gaps),
    "gaps in a frame": (linear(SimpleImputer()), lambda X: frame(with_gaps(X))),
    "gaps in a list": (linear(SimpleImputer()), lambda X: with_gaps(X).tolist()),
    "gaps, boosted trees": (HistGradientBoostingClassifier(max_iter=5), with_gaps),
    "infinity": (linear(FunctionTransformer(np.tanh)), lambda X: with_gaps(X, np.inf)),
    "texts": (linear(CountVectorizer()), texts),
    "list of texts": (linear(CountVectorizer()), lambda X: texts(X).tolist()),
    "words": (linear(OneHotEncoder()), words),
    "words as objects": (linear(OneHotEncoder()), lambda X: words(X).astype(object)),
    "images": (Images(), lambda X: X.reshape(-1, 2, 2)), "images with channels first": (
    linear(FunctionTransformer(lambda X: np.reshape(X, (len(X), -1)))), lambda X: X.reshape(-1, 1, 2, 2),),
    "one column of texts": (linear(FunctionTransformer(lambda X: X["text"]), CountVectorizer()),
    lambda X: pytest.importorskip("pandas").DataFrame({"text": texts(X)}),),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_table_that_the_model_reads_is_read(case, frozen):
    model, form = CASES[case]
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    X = rng.normal(size=(2000, 4)) + 0.9 * y[:, None]
    train, select, fresh, later = np.split(np.arange(2000), [300, 600, 1600])
    given = form(X[train])
    if hasattr(model, "fit"):
        model.fit(given, y[train])
        model = FrozenEstimator(model) if frozen else model
    P = model.predict_proba(form(X[later]))
    tuned = tb.tune(model, form(X[select]), y[select], limits=["miss(1) <= 40%"], training_rows=given)
    np.testing.assert_array_equal(tuned.predict_proba(form(X[later])), P)
    rule = tb.calibrate(model, form(X[fresh]), y[fresh], limits=["miss(1) <= 50%"], training_rows=given)
    np.testing.assert_array_equal(rule.predict_proba(form(X[later])), P)
    (end,) = [low for low, _ in rule.rule_.bands[0] if low is not None]
    np.testing.assert_array_equal(rule.predict(form(X[later])), P[:, 1] >= end)
    assert tb.Monitor(rule).add(form(X[later]), y[later]).alarms == []
    for known in (tuned, rule):
        refused(lambda: tb.certify(known, given, y[train]), "trained", tb.LeakageError)
    certificate = tb.certify(model, form(X[fresh]), y[fresh], training_rows=given)
    assert certificate.compared


class Unsorted(BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.array(["c", "a", "b"])
        return self

    def predict_proba(self, X):
        return X[:, [2, 0, 1]]


@pytest.mark.parametrize("owner", [FrozenEstimator, lambda m: make_pipeline("passthrough", m), lambda m: m])
@pytest.mark.parametrize("form", [partial, lambda f: [f], lambda f: {"model": f}, lambda f: f])
def test_columns_of_a_method_are_in_the_order_of_its_model(owner, form):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.1] * 3, size=2000)
    y = np.array(list("abc"))[(P.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)]
    rule = tb.tune(form(owner(Unsorted().fit(P, y)).predict_proba), P[:1000], y[:1000], objective="error")
    best = np.mean(P[1000:].argmax(axis=1) == np.searchsorted(list("abc"), y[1000:]))
    assert rule.score(P[1000:], y[1000:]) > best - 0.02 > 0.8


def test_two_scores_are_calibrated_as_one_model():
    """The rule averages both on the log scale, and `predict` answers a table with both columns."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=3000)
    table = frame(0.3 * y[:, None] + 0.7 * rng.random((3000, 4)))
    scores = [tb.Scores("a", 1), tb.Scores("b", 1)]
    rule = tb.calibrate(scores, table, y, limits=["miss(1) <= 40%"])
    assert rule.certificate_.certified
    answers = rule.predict(table)
    assert np.mean(answers[y == 1] != 1) <= 0.4
    p = table[["a", "b"]].to_numpy()
    log_odds = np.log(p / (1 - p)) @ list(rule.rule_.weights.values())
    highest, least = log_odds[answers == 0].max(), log_odds[answers == 1].min()
    assert highest <= least + 1e-9  # one threshold on the weighted log-odds
    refused(lambda: tb.save_rule(rule, "two.json"), "one", TypeError)


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.parametrize("call", ["tune", "calibrate", "certify"])
def test_a_frame_in_the_place_of_its_column_of_texts_is_named(call):
    pd = pytest.importorskip("pandas")
    X, y = np.random.default_rng(0).normal(size=(400, 4)), np.arange(400) % 2
    table = pd.DataFrame({"text": texts(X)})
    model = linear(CountVectorizer()).fit(table["text"], y)  # a vectoriser would read the names of columns
    refused(lambda: getattr(tb, call)(model, table, y, limits=["miss(1) <= 60%"]), r"X\['text'\]")
