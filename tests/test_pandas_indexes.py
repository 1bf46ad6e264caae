"""Pandas objects about the same rows have the same index in every function, or an error names both.

The truth: rows shuffled apart have other answers by position than by index.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import metrics, published, rates
from tailboost.core import check_indexes
from tailboost.learners import HistTreeClassifier

pytestmark = pytest.mark.filterwarnings("ignore")

N = 400
RNG = np.random.default_rng(0)
INDEX = RNG.permutation(N) + 7
Z = RNG.random(N) < 0.4
FRAME = pd.DataFrame({"p": (Z * 0.3 + RNG.random(N) * 0.7).round(6), "b": RNG.normal(size=N)}, index=INDEX)
PARTS = {
    "y": pd.Series(np.where(Z, "yes", "no"), index=INDEX),
    "groups": pd.Series(RNG.choice(["f", "m"], N), index=INDEX, name="sex"),
    "sample_weight": pd.Series(np.ones(N), index=INDEX),
    "costs": pd.DataFrame({"no": Z * 1.0, "yes": ~Z * 1.0}, index=INDEX),
    "clusters": pd.Series(np.arange(N) // 2, index=INDEX),
}
LIMITS = [rates.miss("yes") <= 0.9]
SCORE = tb.Scores("p", "yes")
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
# Rows for the selection; the rows of the tests are fresh.
EARLIER = pd.DataFrame({"p": (Z * 0.3 + RNG.random(N) * 0.7).round(6), "b": RNG.normal(size=N)}, index=INDEX)
CLF = tb.tune(SCORE, EARLIER, PARTS["y"], limits=LIMITS)
PROOF = tb.certify(CLF, EARLIER.assign(p=EARLIER["p"] + 0.001), PARTS["y"], limits=LIMITS)
BOOSTED = tb.GroupDROBoostClassifier("tree", n_estimators=2, random_state=0).fit(FRAME, PARTS["y"])
ADDED = tb.AdaBoostClassifier("tree", n_estimators=2, random_state=0).fit(FRAME, PARTS["y"])
BY_GROUP = tb.tune(SCORE, FRAME, PARTS["y"], limits=LIMITS, by_group=True, groups=PARTS["groups"])


def robust(X, y, **parts):
    return tb.RobustMixtureClassifier([("tree", TREE)], cv=2, random_state=0).fit(X, y, **parts)


def validated(X, y, **parts):
    fit = {f"{name}_val": part for name, part in parts.items()}
    more = {name: PARTS[name] for name in parts if name != "sample_weight"}
    mix = tb.RobustMixtureClassifier([("tree", TREE)], random_state=0)
    return mix.fit(FRAME.copy(), PARTS["y"], X_val=X, y_val=y, **fit, **more)


def boosted(X, y, **parts):
    return tb.GroupDROBoostClassifier(TREE, n_estimators=2, random_state=0).fit(X, y, **parts)


def lazy(X):
    return pytest.importorskip("dask.dataframe").from_pandas(X, npartitions=2, sort=False)


def streamed(X, y, **parts):
    return tb.GroupDROBoostClassifier("tree", n_estimators=2, random_state=0).fit(lazy(X), y, **parts)


def monitored(X, y, **parts):
    return tb.Monitor(tb.tune(SCORE, EARLIER, PARTS["y"], limits=LIMITS), PROOF).add(X, y, **parts)


def given(X, y, **parts):
    P = pd.DataFrame({"no": 1 - X["p"], "yes": X["p"]}, index=X.index)
    return tb.RobustMixtureClassifier.from_probabilities({"m": P}, y, **parts)


# Functions, and their further arguments about rows.
CALLS = {
    "RobustMixtureClassifier.fit": (robust, "sample_weight groups costs clusters"),
    "fit with X_val": (validated, "sample_weight groups costs"),
    "BoostClassifier.fit": (boosted, "sample_weight groups"),
    "fit of a streamed table": (streamed, "sample_weight groups"),
    "learner.fit": (HistTreeClassifier().fit, "sample_weight"),
    "tune": (lambda X, y, **p: tb.tune(SCORE, X, y, limits=LIMITS, **p),
             "sample_weight groups costs"),
    "from_probabilities": (given, "sample_weight groups costs"),
    "reweight": (lambda X, y, **p: CLF.reweight(X, y, **p), "sample_weight groups costs"),
    "certify": (lambda X, y, **p: tb.certify(CLF, X, y, **p), "groups clusters"),
    "certify answers": (
        lambda X, y, **p: tb.certify(pd.Series(CLF.predict(X), index=X.index), None, y, rates=(), **p),
        "groups clusters",
    ),
    "calibrate": (lambda X, y, **p: tb.calibrate(CLF, X, y, limits=["miss(yes) <= .95"], **p),
                  "groups clusters"),
    "Monitor.add": (monitored, "groups clusters"),
    "measure": (
        lambda X, y, **p: rates.measure(rates.error(), y, pd.Series(CLF.predict(X), index=X.index), **p),
        "sample_weight groups costs",
    ),
    "score": (lambda X, y, **p: CLF.score(X, y, **p), "sample_weight"),
    "boosting.score": (lambda X, y, **p: BOOSTED.score(X, y, **p), "sample_weight"),
    "score of a streamed table": (lambda X, y, **p: BOOSTED.score(lazy(X), y, **p), "sample_weight"),
    "Scores.fit": (lambda X, y: tb.Scores("p", "yes").fit(X, y), ""),
    "Scores.score": (lambda X, y, **p: CLF.scores_.score(X, y, **p), "sample_weight"),
    "margins": (lambda X, y: ADDED.margins(X, y), ""),
    "profile_likelihood": (lambda X, y, **p: published.profile_likelihood(ADDED, X, y, **p), "sample_weight"),
    "scorer of a tail": (lambda X, y, **p: metrics.make_cvar_scorer(0.5)(CLF, X, y, **p), "sample_weight"),
    "scorer": (lambda X, y, **p: metrics.make_worst_class_scorer()(BOOSTED, X, y, **p), "sample_weight"),
    "metrics.cvar_curve": (lambda X, y, **p: metrics.cvar_curve(y, X["p"], [0.5], **p), "sample_weight"),
    "Curve.predicted": (lambda X, y, **p: CLF.tradeoff().predicted(X, y, **p), "sample_weight groups"),
}  # fmt: skip
CASES = [(call, wrong) for call, (_, more) in CALLS.items() for wrong in ["y", *more.split()]]


def shuffled(part):
    """The rows of a part in another order, with their labels."""
    return part.sample(frac=1, random_state=1)


WRONG = {
    "another order": shuffled, "other rows": lambda part: part.set_axis(np.arange(len(part)) + 10**6),
    "numbered anew": lambda part: part.reset_index(drop=True),
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize(("call", "wrong"), CASES)
def test_parts_of_other_rows_are_refused(call, wrong, how):
    function, more = CALLS[call]
    parts = {name: PARTS[name] for name in more.split() if name != "groups" or wrong == "groups"}
    parts = {name: part for name, part in parts.items() if name in (wrong, "y")}
    arguments = {"y": PARTS["y"], **parts}
    arguments[wrong] = WRONG[how](arguments[wrong])
    with pytest.raises(ValueError, match="different") as caught:
        function(FRAME.copy(), **arguments)
    assert wrong in str(caught.value)


@pytest.mark.parametrize("call", CALLS)
def test_the_same_index_and_arrays_are_taken(call):
    """Also with repeated index labels, which identify no row, and beside arrays without an index."""
    function, _ = CALLS[call]
    twice = np.arange(N) // 2
    if call != "certify answers":  # these have the index of X
        function(FRAME.copy(), PARTS["y"].to_numpy())
    function(FRAME.set_axis(twice), PARTS["y"].set_axis(twice))


@pytest.mark.parametrize("form", ["frame", "dict"])
def test_columns_of_groups_are_compared_one_by_one(form):
    table = pd.DataFrame({"sex": PARTS["groups"], "age": PARTS["groups"]})
    table = shuffled(table) if form == "frame" else {"sex": table["sex"], "age": shuffled(table["age"])}
    refused(lambda: tb.tune(SCORE, FRAME, PARTS["y"], limits=LIMITS, groups=table), "different")


def test_without_an_index_of_X_the_others_are_compared():
    refused(lambda: robust(FRAME.to_numpy(), PARTS["y"], groups=shuffled(PARTS["groups"])), "different")


def test_the_remedy_works_and_matters():
    """Matched by index, shuffled parts give the answers of the rows; by position they do not."""
    y = shuffled(PARTS["y"])
    refused(lambda: tb.tune(SCORE, FRAME, y, objective="error"), r"Give y\.loc\[X\.index\]")
    matched = tb.tune(SCORE, FRAME, y.loc[FRAME.index], objective="error")
    whole = tb.tune(SCORE, FRAME, PARTS["y"], objective="error")
    np.testing.assert_array_equal(matched.predict(FRAME), whole.predict(FRAME))
    models = [lambda X: pd.DataFrame({"no": 1 - X["p"], "yes": X["p"]}).sort_index()]
    refused(lambda: tb.tune(*models, shuffled(FRAME), y, objective="error"), "probabilities and X have")
    by_position = tb.tune(SCORE, FRAME, y.to_numpy(), objective="error")
    truth = PARTS["y"].to_numpy()
    assert np.mean(by_position.predict(FRAME) != truth) > np.mean(matched.predict(FRAME) != truth)


@pytest.mark.parametrize("index", [
    pd.RangeIndex(3), pd.Index(["a", "b", None]), pd.date_range("2020", periods=3),
    pd.MultiIndex.from_product([["a"], [1, 2, 3]]), pd.Index([1.0, np.nan, np.nan]),
])  # fmt: skip
def test_indexes_of_all_kinds(index):
    X = pd.DataFrame({"x": [1, 2, 3]}, index=index)
    check_indexes(X=X, y=pd.Series([1, 2, 3], index=index.copy()), groups=None, sample_weight=[1, 2, 3])
    refused(lambda: check_indexes(X=X, y=pd.Series([1, 2, 3], index=index[::-1])), "different")
    check_indexes(X=X, y=pd.Series([1, 2], index=index[:2]))  # unequal lengths have another message


def test_a_table_of_polars_has_no_index():
    pl = pytest.importorskip("polars")
    tb.tune(SCORE, pl.from_pandas(FRAME.reset_index(drop=True)), PARTS["y"].to_numpy(), limits=LIMITS)


def test_a_model_of_another_library_needs_no_index():
    model = LogisticRegression().fit(FRAME, PARTS["y"])
    assert tb.tune(model, FRAME, PARTS["y"], limits=LIMITS).limits_met_ is not None


def test_groups_of_predict():
    with pytest.raises(ValueError, match="groups and X have different pandas indexes"):
        BY_GROUP.predict(FRAME, groups=shuffled(PARTS["groups"]))
    BY_GROUP.predict(FRAME, groups=PARTS["groups"])


def test_groups_of_a_rule_alone(tmp_path):
    """A rule of a file answers a row by the threshold of its own group."""
    tb.save_rule(BY_GROUP, tmp_path / "rule.json")
    P = {"m": pd.DataFrame({"no": 1 - FRAME["p"], "yes": FRAME["p"]})}
    of_models = tb.RobustMixtureClassifier.from_probabilities(
        P, PARTS["y"], groups=PARTS["groups"], limits=LIMITS, by_group=True
    )
    truth = BY_GROUP.predict(FRAME, groups=PARTS["groups"])
    for rule, scores in (
        (BY_GROUP.rule_, FRAME["p"]),
        (BY_GROUP.rule_, FRAME),
        (tb.load_rule(tmp_path / "rule.json"), FRAME),
        (of_models.rule_, P),
    ):
        with pytest.raises(ValueError, match=r"groups and .* have different pandas indexes"):
            rule.predict(scores, groups=shuffled(PARTS["groups"]))
        if rule is not of_models.rule_:
            np.testing.assert_array_equal(rule.predict(scores, groups=PARTS["groups"]), truth)
