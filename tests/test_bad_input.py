"""Every bad input is refused by a message that names the culprit, before any learner is fitted."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import MIXTURES, OURS, RecordingClassifier, make, noisy
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeRegressor

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier

X, Y = noisy(0, n=60, d=3)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
GROUPS = np.arange(60) % 3


def put(values, at, what):
    """Return the values as objects with one of them replaced."""
    out = np.array(values, dtype=object)
    out[at] = what
    return out


def refused(call, match, error=ValueError):
    with pytest.raises(error, match=match):
        call()
    assert RecordingClassifier.fits == 0, "a learner was fitted before the refusal"


TABLES = {
    "X of text": (X.astype(str).astype(object) + "x", Y, "could not convert string to float"),
    "text y with NaN": (X, put(np.where(Y, "a", "b"), 3, np.nan), "y contains NaN or None"),
    "y with NaN, frame": (FRAME, pd.Series(put(Y, 3, np.nan)), "y contains NaN or None"),
    "list of mixed y": (X, [1, "1", 2, "a"] * 15, "y must hold text, .*'int', 'str'"),
    "y with pandas' NA": (X, pd.Series(put(Y, 3, pd.NA)), "y contains NaN or None"),
    "y with NaN": (X, np.where(np.arange(60) == 3, np.nan, Y), "y contains NaN"),
    "y with None": (X, put(Y, 3, None), "y contains NaN or None, .*: 1 of 60"), "short y": (X, Y[:-1], "59"),
    "X with infinity": (np.where(X > 1, np.inf, X), Y, "X contains infinity"),
    "y with infinity": (X, np.where(np.arange(60) == 3, np.inf, Y), "y"), "no y": (X, None, "requires y|^y "),
    "mixed y": (X, put(Y, 3, "a"), "y must hold text, .*'int', 'str'"), "no rows": (X[:0], Y[:0], "0 sample"),
    "one class, frame": (FRAME, np.full(60, "yes"), "one class only"), "X complex": (X + 1j, Y, "[Cc]omplex"),
    "X with NaN": (np.where(X > 1, np.nan, X), Y, "X contains NaN"), "no columns": (X[:, :0], Y, "0 feature"),
    "short y, frame": (FRAME, Y[:-1], r"59.* 60|60.* 59"), "no columns, frame": (FRAME[[]], Y, "no columns"),
    "continuous y, frame": (FRAME, X[:, 0], "continuous"), "one class": (X, np.zeros(60), "one class only"),
    "no rows, frame": (FRAME[:0], Y[:0], "no rows"), "three-dimensional": (X[:, :, None], Y, "dim"),
    "one-dimensional": (X[:, 0], Y, "2D array"), "continuous y": (X, X[:, 0], "continuous"),
    "wide y": (X, np.c_[Y, Y], "1d array"),
}  # fmt: skip


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("case", TABLES)
def test_tables(name, case, recorder):
    table, labels, match = TABLES[case]
    refused(lambda: make(name, recorder).fit(table, labels), match)


def test_sparse_where_the_learner_takes_none(recorder):
    fit = make("adalpboost", recorder).fit
    refused(lambda: fit(sp.csr_matrix(X), Y), "[Ss]parse", (ValueError, TypeError))


WEIGHTS = {
    "one class is left": (Y.astype(float), "one class only .* positive weight"),
    "negative": (np.where(Y, -1.0, 1.0), "[Nn]egative.*sample_weight"),
    "infinite": (np.where(Y, np.inf, 1.0), "sample_weight.*infinity"),
    "two-dimensional": (np.ones((60, 2)), "sample_weight.*shape"),
    "text": (np.full(60, "heavy"), "sample_weight: numbers"),
    "NaN": (np.where(Y, np.nan, 1.0), "sample_weight.*NaN"),
    "short": (np.ones(5), r"sample_weight.*\(60,\)"),
    "all zero": (np.zeros(60), "sample_weight.*zero"),
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(name, case, recorder):
    weight, match = WEIGHTS[case]
    refused(lambda: make(name, recorder).fit(X, Y, sample_weight=weight), match)


def test_a_regressor_is_not_a_learner():
    refused(lambda: make("adalpboost", DecisionTreeRegressor()).fit(X, Y), r"estimator=.*regressor")
    fitted = DecisionTreeRegressor().fit(X, Y)
    refused(lambda: tb.tune(fitted, X, Y), "regressor", TypeError)
    refused(lambda: tb.calibrate(fitted, X, Y, limits=["error <= .5"]), "regressor", TypeError)
    frozen = tb.RobustMixtureClassifier([("trees", FrozenEstimator(fitted))])
    refused(lambda: frozen.fit(X, Y), "regressor", TypeError)
    refused(lambda: tb.certify(lambda X: np.c_[1 - X[:, 0], X[:, 0]], X, Y), "function")


@pytest.mark.parametrize("name", MIXTURES)
def test_unfitted(name):
    clf = make(name)
    calls = [
        lambda: clf.predict(X), lambda: clf.predict_proba(X), lambda: clf.predict_randomized(X),
        lambda: list(clf.staged_predict(X)), lambda: clf.reweight(alpha=0.1), lambda: clf.alpha_path([0.1]),
        lambda: clf.score(X, Y),
    ]  # fmt: skip
    for call in calls:
        refused(call, "fitted", NotFittedError)


@pytest.fixture(scope="module")
def fitted():
    return make("adalpboost", LogisticRegression(), n_estimators=3, cv="train").fit(X, Y)


@pytest.fixture(scope="module")
def fitted_to_frame():
    return make("adalpboost", LogisticRegression(), n_estimators=3, cv="train").fit(FRAME, Y)


ANSWERS = ("predict", "predict_proba", "predict_distribution", "predict_randomized")


def ask(clf, method, table):
    return getattr(clf, method)(table)


@pytest.mark.parametrize("method", ANSWERS)
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("table", "match"), [
    (X[:0], "0 sample"), (X[0], "2D array"), (X[:, :2], "2 features.* 3 features"),
    (np.hstack([X, X]), "6 features.* 3 features"), (X * np.nan, "contains"), (X * np.inf, "X contains"),
])  # fmt: skip
def test_tables_to_predict(fitted, method, table, match):
    refused(lambda: ask(fitted, method, table), match)


@pytest.mark.parametrize("method", ANSWERS)
@pytest.mark.parametrize(("table", "match"), [
    (FRAME[:0], "has"), (FRAME[["a", "b"]], "(?s)feature names.*missing.*c"),
    (FRAME.rename(columns={"a": "z"}), "(?s)feature names.*unseen.*z"),
    (FRAME.assign(d=1.0), "(?s)feature names.*unseen.*d"),
])  # fmt: skip
def test_frames_to_predict(fitted_to_frame, method, table, match):
    refused(lambda: ask(fitted_to_frame, method, table), match)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.BoundNotMetWarning")
@pytest.mark.parametrize("name", OURS)
def test_a_refused_refit_leaves_the_model_as_it_was(name):
    clf = make(name, LogisticRegression(), n_estimators=2).fit(X, np.where(Y, "yes", "no"))
    before = clf.predict(X)
    refused(lambda: clf.fit(X[:, :2], Y, sample_weight=-np.ones(60)), "sample_weight")
    assert clf.n_features_in_ == 3
    np.testing.assert_array_equal(clf.predict(X), before)


@pytest.mark.parametrize("learner", [HistTreeClassifier, HistBoostClassifier])
@pytest.mark.parametrize("case", [c for c in TABLES if c not in ("X with NaN", "no y")])
def test_learners(learner, case):
    table, labels, match = TABLES[case]
    refused(lambda: learner().fit(table, labels), match)


def _tuples():
    column = np.empty(N_NESTED, dtype=object)
    column[:] = [("a", i % 2) for i in range(N_NESTED)]
    return column


N_NESTED = 40
NESTED = {
    "dicts": [{"a": 1}] * N_NESTED, "tuples": _tuples(),
    "ragged": [[1] * (1 + i % 2) for i in range(N_NESTED)], "sets": [{1}] * N_NESTED,
    "mixed": [{"a": 1}] + [1] * (N_NESTED - 1),
}  # fmt: skip


@pytest.mark.parametrize("column", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize(("call", "argument"), [
    *itertools.product(["fit", "tune", "certify", "calibrate"], ["y", "groups"]),
    *itertools.product(["fit", "certify", "calibrate"], ["clusters"]),
    *itertools.product(["fit", "tune"], ["sample_weight"]),
])  # fmt: skip
def test_nested_values_are_refused_by_the_name_of_the_argument(call, argument, column):
    X, y = np.arange(2.0 * N_NESTED).reshape(-1, 2), np.arange(N_NESTED) % 2
    model = GaussianNB().fit(X[:8] + 0.1, y[:8])
    calls = {
        "fit": tb.RobustMixtureClassifier([("bayes", GaussianNB())]).fit,
        "tune": partial(tb.tune, model),
        "certify": partial(tb.certify, model, limits=["error <= .9"]),
        "calibrate": partial(tb.calibrate, model, limits=["error <= .9"]),
    }
    given = {"y": y} | {argument: column}
    refused(lambda: calls[call](X, given.pop("y"), **given), argument, (ValueError, TypeError))


@pytest.mark.parametrize("cell", [("a", 1), ["a"], {"a": 1}])
@pytest.mark.parametrize("name", ["RobustMixtureClassifier"])
def test_nested_cells_are_refused_by_the_name_of_the_column(name, cell):
    table = pd.DataFrame({"u": np.arange(40.0), "cell": [cell] * 40})
    refused(lambda: getattr(tb, name)().fit(table, np.arange(40) % 2), "column")


FITTED = LogisticRegression().fit(X, Y == 0)
SCORES = tb.tune(tb.Scores(0, True), FITTED.predict_proba(X)[:, 1:], Y == 0, limits=["miss(True) <= 90%"])


TABLE = FRAME.assign(predict=FITTED.predict_proba(X)[:, 1])
BY_GROUP = tb.tune(tb.Scores("predict", True), TABLE, Y == 0, groups={"g": GROUPS}, by_group=True)


class ThreeColumns(LogisticRegression):
    def predict_proba(self, X):
        return np.column_stack([super().predict_proba(X), np.zeros(len(X))])


CURES = {
    "probabilities as the model": (lambda: tb.tune(FITTED.predict_proba(X), X, Y), "tb.Scores"),
    "a name as the model": (lambda: tb.tune("xgboost", X, Y), "of type str"),
    "rows before the model": (lambda: tb.certify(FRAME, Y, FITTED), "the order is \\(model"),
    "another document": (lambda: tb.Certificate.from_dict({"a": 1}), "this is no certificate"),
    "a rule on one score": (lambda: tb.Rule.from_dict(SCORES.rule_.to_dict()), "no rule"),
    "a rule on probabilities": (lambda: tb.ThresholdRule.from_dict({"format": 1, "parts": []}), "no rule"),
    "groups of other names": (lambda: tb.tune(FITTED, X, Y == 0, groups=GROUPS, by_group=True).predict(X,
        groups=[f"{g} x" for g in GROUPS]), "groups holds groups not seen"),
    "the name of groups elsewhere": (lambda: SCORES.predict(X, sensitive_features=GROUPS),
        "sensitive_features"),
    "groups of a calibration": (lambda: tb.calibrate(FITTED, X, Y, sensitive_features=GROUPS,
        limits=["miss(1) <= 90%"]), "sensitive_features"),
    "rows without a group in a calibration": (lambda: tb.calibrate(FITTED, X, Y, groups={"a": GROUPS,
        "b": put(GROUPS.astype(str), 3, None)}, limits=["error(by=b) <= 30%"]),
        "groups column 'b' contains NaN"),
    "numbers as groups": (lambda: tb.calibrate(FITTED, X, Y, groups=X[:, :1],
        limits=["error(by=group) <= 30%"]),
        "groups has .* different numbers, and each would be a group of few rows; make bands"),
    "numbers as groups of tune": (lambda: tb.tune(FITTED, X, Y, groups=X[:, :1],
        limits=["error(by=group) <= 30%"]),
        "groups has 60 different numbers, and each would be a group of few rows; make bands"),
    "the name of the labels": (lambda: tb.tune(tb.Scores("a", 1), FRAME, "y", limits=["miss(1) <= 30%"]),
        "give the column itself"),
    "labels that are missing": (lambda: tb.tune(tb.Scores("a", 1), FRAME, put(Y, 0, None),
        limits=["miss(1) <= 30%"]),
        "y contains NaN or None, .*: 1 of 60 entries are missing .*; give them a value"),
    "no rows": (lambda: tb.tune(tb.Scores("a", 1), FRAME[:0], Y[:0]), "y"),
    "no groups beside by_group": (lambda: tb.tune(FITTED, X, Y, by_group=True),
        "by_group needs groups: give groups="),
    "no groups beside by_group of calibrate": (lambda: tb.calibrate(FITTED, X, Y, limits=["error <= 30%"],
        by_group=True), "by_group needs groups: give groups="),
    "another column of scores": (lambda: tb.tune(tb.Scores(["a", "b"], [0, 1], kind="logit"),
        FRAME.assign(b="x"), Y), "scores must be numbers"),
    "one column in place of two": (lambda: tb.tune(tb.Scores(["a", "b"], [0, 1], kind="logit"),
        FRAME.assign(b=0.0), Y).predict(FRAME["a"].to_numpy()), "data frame"),
    "a rule as a model": (lambda: tb.save_model(SCORES.rule_, "rule.model"), "model must be a fitted model"),
    "a rule as a classifier": (lambda: tb.save_rule(SCORES.rule_, "rule.json"), "give the classifier"),
    "a number as a rate": (lambda: SCORES.tradeoff(5), "^5 "),
    "a dict in by": (lambda: tb.rates.error(by=["g", {"g": 1}]), "name in by="),
    "a limit as a rate": (lambda: SCORES.tradeoff("miss(1) <= 30%"), "^miss.*is no objective"),
    "a limit as the other rate": (lambda: SCORES.tradeoff("miss(1)", "error <= .3"), "^error.*no objective"),
    "groups of two columns": (lambda: BY_GROUP.predict(TABLE, groups={"g": GROUPS[:, None]}, default=True),
        "groups column 'g' should be a 1d array"),
    "a label as answers": (lambda: tb.certify("yes", None, Y), "1 row"),
    "a range of costs": (lambda: tb.certify(Y, None, Y, rates=["cost()"], costs=X[:, :2], cost_range=(0,
        np.inf)), "cost_range contains .*infinity"),
    "another tail": (lambda: tb.AdaLPBoostClassifier(GaussianNB(), n_estimators=1).fit(X,
        Y).reweight(alpha=0), "^alpha "),
    "more probabilities than classes": (lambda: tb.tune(ThreeColumns().fit(X, Y), X, Y),
        "predict_proba of 'ThreeColumns' .*2 columns"),
    "labels of a score": (lambda: tb.Scores("a", 1).fit(FRAME, np.arange(60)), "y has .* 19 and 40 more]"),
    "columns of scores": (lambda: tb.Scores("d", 1).fit(pd.DataFrame(np.eye(60)), Y), " 19 and 40 more]"),
    "known labels": (lambda: tb.rates.measure(tb.rates.miss(99), Y, Y, labels=range(60)), " 19 and 40 more]"),
    "an infinite weight": (lambda: tb.RobustMixtureClassifier(class_weight={0: np.inf, 1: 1}).fit(X, Y),
        "^class_weight=.*: factors .* got inf"),
    "a text as a weight": (lambda: tb.RobustMixtureClassifier(class_weight={0: "x", 1: 1}).fit(X, Y),
        "^class_weight=.*: factors .* got 'x'"),
    "a curve of precision": (lambda: SCORES.tradeoff("precision(1)"), "no rate of a curve"),
    "a file of numbered scores": (lambda: tb.save_rule(SCORES, "rule.json"), "data frames of the scores"),
    "a limit of each class": (lambda: tb.tune(tb.Scores(0, 1, kind="logit"), X[::-1], Y,
        limits=["error(by=class) <= 9%"]), r"error by class: at most 9 % \(0: \d+ %, 1: \d+ %\)"),
    "a parameter": (lambda: SCORES.set_params(limit=["miss(1) <= 3%"]), "Invalid parameter 'limit'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CURES)
def test_the_message_names_what_to_give_instead(case):
    call, words = CURES[case]
    refused(call, words, (TypeError, ValueError))


def test_labels_that_a_fitted_model_does_not_know_are_named_in_a_warning():
    with pytest.warns(UserWarning, match="LogisticRegression"):
        tb.tune(LogisticRegression().fit(X, np.arange(60) % 2), X, np.arange(60) % 3)


def test_parameters_of_new_estimators_are_set_with_them():
    mix = tb.RobustMixtureClassifier([("old", GaussianNB())])
    mix.set_params(estimators=[("new", LogisticRegression())], new__C=3)
    assert mix.get_params()["new__C"] == 3
    for estimators in (LogisticRegression(), [LogisticRegression()]):
        assert is_classifier(mix.set_params(estimators=estimators))  # fit alone refuses them


def test_boosted_trees_name_columns_and_texts_that_they_cannot_read():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["age", "score"])
    clf = tb.AdaLPBoostClassifier(n_estimators=2).fit(table, table["score"] > 0)
    refused(lambda: clf.predict(table[["score"]].assign(new=1)), "feature names")
    table = table.astype(object)
    for value, words in ((np.inf, "column"), ("high", "high")):
        table.loc[7, "score"] = value
        refused(lambda: clf.predict(table), words)
    table.loc[7, "score"] = None
    clf.predict(table)


@pytest.mark.parametrize("function", [tb.tune, tb.calibrate])
def test_training_rows_without_the_score_are_named(function):
    p = np.random.default_rng(0).random(200)
    y, said = (p > 0.5).astype(int), "^training_rows must .*'p'"
    given = {"limits": ["miss(1) <= 40%"], "training_rows": pd.DataFrame({"age": p, "dose": p})}
    refused(lambda: function(tb.Scores("p", 1), pd.DataFrame({"p": p}), y, **given), said)


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_blank_text_is_no_label_and_no_id(blank):
    scores, labels = np.linspace(0, 1, 60)[:, None], np.resize(["yes", "no", blank], 60)
    for call in (
        lambda: tb.tune(tb.Scores(0, "yes"), scores, labels, limits=["miss(yes) <= 40%"]),
        lambda: tb.certify(np.resize(["yes", "no"], 60), None, labels, limits=["false_alarm(yes) <= 50%"]),
        lambda: tb.AdaBoostClassifier().fit(scores, labels),
        lambda: tb.certify(Y, None, Y, clusters=pd.Series(labels, dtype="category")),
    ):
        refused(call, "blank text: 20 of 60 .* row 2,")
