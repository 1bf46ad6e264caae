"""Tables are read by the names of their columns, in any order; a wrong name is an error."""

import numpy as np
import pytest
from conftest import refused

pd = pytest.importorskip("pandas")

from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import metrics, rates
from tailboost.core import in_class_order

RNG = np.random.default_rng(0)
N = 500
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "sum", "days"])
Y = np.array(["no", "yes"])[(X["age"] + RNG.normal(size=N) > 0).astype(int)]
GROUPS = pd.DataFrame({"sex": RNG.choice(["f", "m"], N), "site": RNG.integers(3, size=N)})
COSTS = pd.DataFrame({"no": 5 * RNG.random(N), "yes": RNG.random(N)})
MODEL = LogisticRegression().fit(X[:200], Y[:200])
P = pd.DataFrame(MODEL.predict_proba(X), columns=["no", "yes"])
A, B = slice(200, 400), slice(400, None)
LIMITS = [rates.error(by="sex") <= 0.6, rates.deferred() <= 0.1]


def tuned(groups=GROUPS, costs=COSTS):
    return tb.tune(MODEL, X[A], Y[A], groups=groups[A], costs=costs[A], objective=rates.cost(), limits=LIMITS)


def given(P=P, groups=GROUPS, costs=COSTS):
    return tb.RobustMixtureClassifier.from_probabilities(
        {"m": P[A]}, Y[A], groups=groups[A], costs=costs[A], objective=rates.cost(), limits=LIMITS
    )


def answers_given(**tables):
    mix = given(**tables)
    return mix.predict({"m": P[B]}).tolist(), table(mix)


TUNED, GIVEN = tuned(), given()
BY_GROUP = tb.RobustMixtureClassifier.from_probabilities(
    {"m": P[A]}, Y[A], groups=GROUPS[["sex"]][A], limits=[rates.miss("yes", by="sex") <= 0.3], by_group=True
)


def table(mix):
    return mix.rates_.to_dict()


def answers(mix):
    return mix.predict(X[B]).tolist(), mix.defers(X[B]).tolist(), table(mix)


def certified(groups=GROUPS, costs=COSTS):
    asked = [rates.cost() <= 4.0, rates.error(by="sex") <= 0.6]
    given = {"groups": groups[B], "costs": costs[B], "cost_range": (0, 5), "rates": asked}
    return tb.certify(TUNED, X[B], Y[B], **given).to_dict()


def measured(shares=P, groups=GROUPS, costs=COSTS):
    return [
        rates.measure(rates.cost(by="sex"), Y, TUNED.predict(X), groups=groups, costs=costs),
        rates.measure(rates.error(by=("site", "sex")), Y, shares, groups=groups),
    ]


# Functions that accept tables with names, by arguments with tables of classes or groups.
ENTRIES = {
    "tune": (lambda **t: answers(tuned(**t)), {"groups": GROUPS, "costs": COSTS}),
    "fit": (lambda groups, costs: answers(tb.RobustMixtureClassifier([("m", LogisticRegression())],
        objective=rates.cost(), limits=LIMITS, cv=2, random_state=0).fit(X[A], Y[A], groups=groups[A],
        costs=costs[A])), {"groups": GROUPS, "costs": COSTS}),
    "costs_val": (lambda costs: answers(tb.RobustMixtureClassifier([("m", LogisticRegression())],
        objective=rates.cost(), limits=LIMITS[1:], random_state=0).fit(X[:200], Y[:200], X_val=X[A],
        y_val=Y[A], costs_val=costs[A])), {"costs": COSTS}),
    "from_probabilities": (answers_given, {"P": P, "groups": GROUPS, "costs": COSTS}),
    "reweight": (lambda groups, costs: answers(TUNED.reweight(X[B], Y[B], groups=groups[B], costs=costs[B])),
        {"groups": GROUPS, "costs": COSTS}),
    "reweight probabilities": (lambda P, groups, costs: table(GIVEN.reweight({"m": P[B]}, Y[B],
        groups=groups[B], costs=costs[B])), {"P": P, "groups": GROUPS, "costs": COSTS}),
    "predict from P": (lambda P: GIVEN.predict({"m": P}).tolist(), {"P": P}),
    "predict_proba from P": (lambda P: GIVEN.predict_proba({"m": P}).tolist(), {"P": P}),
    "defers from P": (lambda P: GIVEN.defers({"m": P}).tolist(), {"P": P}),
    "by group": (lambda P, groups: BY_GROUP.predict({"m": P}, groups=groups).tolist(), {"P": P,
        "groups": GROUPS}),
    "Rule.predict": (lambda P: BY_GROUP.rule_.predict({"m": P}, GROUPS["sex"]).tolist(), {"P": P}),
    "certify": (lambda **t: certified(**t), {"groups": GROUPS, "costs": COSTS}),
    "certify probabilities": (lambda P, groups: tb.certify(P, None, Y, groups=groups).to_dict(), {"P": P,
        "groups": GROUPS}),
    "calibrate": (lambda groups: str(tb.calibrate(tb.tune(MODEL, X[A], Y[A], groups=groups[A],
        limits=LIMITS[:1]), X[B], Y[B], limits=[rates.error(by="sex") <= 0.9],
        groups=groups[B]).certificate_), {"groups": GROUPS}),
    "measure": (lambda **t: measured(**t), {"shares": P, "groups": GROUPS, "costs": COSTS}),
    "cvar": (lambda P: metrics.cvar_zero_one_loss(Y, P, 0.3), {"P": P}),
    "cvar_curve": (lambda P: metrics.cvar_curve(Y, P, [0.1, 0.5]).tolist(), {"P": P}),
    "group_errors": (lambda groups: metrics.group_errors(Y, TUNED.predict(X), groups), {"groups": GROUPS}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ENTRIES)
def test_the_order_of_named_columns_changes_no_answer(name):
    ask, tables = ENTRIES[name]
    want = ask(**tables)
    for argument, one in tables.items():
        other = one[one.columns[::-1]]
        assert ask(**{**tables, argument: other}) == want, argument
        if argument == "groups":
            continue
        refused(lambda: ask(**{**tables, argument: one.rename(columns={"no": "none"})}), "column")
        refused(lambda: ask(**{**tables, argument: one[["no"]]}), "column for each class")
        refused(lambda: ask(**{**tables, argument: one.set_axis(["no", "no"], axis=1)}), "column")
        array = one.to_numpy()
        assert ask(**{**tables, argument: pd.DataFrame(array, index=one.index)}) == want, argument


CASES = [
    ([0, 1], ["1", "0"], [1, 0]), ([0, 1], [1.0, 0.0], [1, 0]), ([0, 1], ["1.0", "0"], [1, 0]),
    ([False, True], ["True", "False"], [1, 0]), (["0", "1"], ["1", "0"], [1, 0]),
    (["1", "2"], np.array([2, 1]), [1, 0]), (["v1", "v1.0"], ["v1.0", "v1"], [1, 0]),
    ([3, 1, 2], np.array([1, 2, 3]), [2, 0, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("classes", "columns", "order"), CASES)
def test_numbers_and_text_agree_where_they_can_mean_one_thing(classes, columns, order):
    values = RNG.random((4, len(classes)))
    frame = pd.DataFrame(values, columns=pd.Index(columns, dtype=None if len(columns) == 3 else object))
    np.testing.assert_array_equal(in_class_order(frame, "t", np.array(classes)), values[:, order])


@pytest.mark.parametrize(("classes", "columns", "says"), [
    ([0, 1], [1, "1"], "column"), ([0, 1], ["0", "2"], "column"), ([0, 1], ["0"], "column"),
    (["good", "bad"], ["god", "bad"], "column"),
])  # fmt: skip
def test_a_name_that_means_nothing_or_two_things_is_an_error(classes, columns, says):
    frame = pd.DataFrame(RNG.random((4, len(columns))), columns=pd.Index(columns, dtype=object))
    refused(lambda: in_class_order(frame, "t", np.array(classes)), says)


@pytest.mark.parametrize(("classes", "order"), [([1, 0], [1, 0]), ([1, 2], [0, 1])])
def test_default_names_are_labels_only_if_all_of_them_are(classes, order):
    frame = pd.DataFrame(RNG.random((4, 2)))
    np.testing.assert_array_equal(in_class_order(frame, "t", np.array(classes)), frame.to_numpy()[:, order])


def test_a_single_column_is_a_series_or_an_array_not_a_data_frame():
    share, classes = P["yes"], np.array(["no", "yes"])
    assert in_class_order(share, "P", classes) is share
    assert in_class_order(share.to_numpy(), "P", classes).shape == (N,)
    refused(lambda: in_class_order(share.to_frame(), "P", classes), "column")
    refused(lambda: in_class_order(P["no"], "P", classes), "column")


def test_one_column_of_scores_is_the_table_with_this_column():
    scores, fresh = np.random.default_rng(0).random((2, 300))
    table, y = pd.DataFrame({"p": scores}), (scores > 0.5).astype(int)
    rule = tb.tune(tb.Scores("p", 1), table, y, limits=["miss(1) <= 50%"])
    assert rule.predict(scores).tolist() == rule.predict(table).tolist()
    for use in (tb.calibrate, tb.certify):
        refused(lambda: use(rule, scores, y), "selected on 100 % of these rows", tb.LeakageError)
    assert tb.certify(rule, fresh, y) == tb.certify(rule, pd.DataFrame({"p": fresh}), y)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_array_of_text_asks_for_the_data_frame_of_the_fit():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"work": rng.choice(["state", "private"], 300), "age": rng.normal(size=300)})
    rule = tb.RobustMixtureClassifier(cv=2).fit(table, (table["age"] > 0).astype(int))
    refused(lambda: rule.predict(table.to_numpy()), "columns")


TRAINED = {
    "tune": lambda X, y: tb.tune(LogisticRegression().fit(X, y), X, y, limits=[rates.error() <= 0.5]),
    "mixture": tb.RobustMixtureClassifier(cv=2, random_state=0).fit,
    "boosting": tb.AdaLPBoostClassifier("tree", n_estimators=3, random_state=0).fit,
    "learner": tb.learners.HistBoostClassifier(n_estimators=3).fit,
}


def test_names_that_are_truth_values_are_names_and_no_mask():
    table = X.iloc[:, :2].set_axis([False, True], axis=1)
    clf = LogisticRegression().fit(table[A], Y[A])
    for reader in (TRAINED["boosting"](table[A], Y[A]), tb.tune(clf, table[A], Y[A], objective="error")):
        two = table[B][:2]
        assert [*reader.predict(two.iloc[:, ::-1])] == [*reader.predict(two)]


@pytest.mark.parametrize("titles", [X.columns, [2, 0, 1], pd.MultiIndex.from_product([["x"], [*"abc"]])])
@pytest.mark.parametrize("trained", TRAINED.values(), ids=TRAINED)
def test_a_fitted_classifier_reads_its_features_in_any_order_of_the_columns(trained, titles, tmp_path):
    table = X.set_axis(titles, axis=1)
    clf = trained(table[A], Y[A])
    tb.save_model(clf, tmp_path / "c.model")
    for reader in (clf, tb.load_model(tmp_path / "c.model")):
        for order in ([2, 1, 0], [1, 2, 0]):
            np.testing.assert_array_equal(reader.predict(table[B].iloc[:, order]), clf.predict(table[B]))
        refused(lambda: reader.predict(table.iloc[:, 1:]), r"missing|2 features")
    with pytest.raises(tb.exceptions.LeakageError):
        tb.certify(clf, table[A].iloc[:, order], Y[A], rates=["error"], training_rows=table[A])
