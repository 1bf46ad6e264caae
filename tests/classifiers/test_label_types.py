"""Labels keep their type: in `predict`, JSON, SQL, Python and files."""

import numpy as np
import pytest
from conftest import refused
from forms import FORMS as FORMS_OF_RULES, OTHER_NUMBERS

pd = pytest.importorskip("pandas")

from sklearn.linear_model import LogisticRegression

import tailboost as tb

RNG = np.random.default_rng(0)
N = 150
X = RNG.normal(size=(N, 2))
HIGH = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
TABLE = pd.DataFrame({"s": 1 / (1 + np.exp(-X[:, 0])), "x": X[:, 1]})
BIG = 2**53
WORDS = np.array(["no", "yes"])[HIGH]
FORMS = {
    "Int64": pd.Series(HIGH).astype("Int64"), "boolean": pd.Series(HIGH).astype("boolean"),
    "string": pd.Series(WORDS).astype("string"), "categories": pd.Series(WORDS).astype("category"),
    "categories of Int64": pd.Series(HIGH + 3).astype("Int64").astype("category"),
    "categories of bool": pd.Series(HIGH == 1).astype("category"), "bool": HIGH == 1,
    "objects": np.array([bool(k) for k in HIGH], dtype=object),
    "long Int64": pd.Series(HIGH + BIG).astype("Int64"), "long integers": [int(k) + BIG for k in HIGH],
    "table": pd.DataFrame({"y": pd.Series(HIGH).astype("Int64")}),
    "NumPy's booleans": np.array([np.bool_(k) for k in HIGH], dtype=object),
    "NumPy's integers": [np.int64(int(k) + BIG) for k in HIGH], "small integers": HIGH.astype("int8"),
    "categories of long integers": pd.Series(HIGH + BIG).astype("category"),
    "categories in another order": pd.Series(pd.Categorical(WORDS, ["yes", "no"], ordered=True)),
    "Index": pd.Index(pd.array(HIGH, dtype="Int64")), "text of numbers": np.array(["1", "1.0"])[HIGH],
    "whole decimals": HIGH * 1.0,
}  # fmt: skip
if hasattr(np.dtypes, "StringDType"):
    FORMS["text of variable width"] = WORDS.astype(np.dtypes.StringDType())
PLAIN = {
    "text of numbers": ["1", "1.0"], "whole decimals": [0.0, 1.0], "categories of Int64": [3, 4],
    **{key: [0, 1] for key in ["Int64", "table", "small integers", "Index"]},
    **{key: [False, True] for key in ["boolean", "categories of bool", "bool", "objects"]},
    "NumPy's booleans": [False, True],
    **{key: ["no", "yes"] for key in ["string", "categories", "text of variable width"]},
    "categories in another order": ["no", "yes"],
    **{key: [BIG, BIG + 1] for key in ["long Int64", "long integers", "NumPy's integers"]},
    "categories of long integers": [BIG, BIG + 1],
}  # fmt: skip


def exactly(found, form):
    """Whether the different answers are the labels, as Python values of the same type."""
    values = sorted(set(found))
    return values == PLAIN[form] and [type(v) for v in values] == [type(v) for v in PLAIN[form]]


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("form", FORMS)
def test_a_rule_on_scores_answers_with_the_labels_in_every_form(form, tmp_path):
    high = PLAIN[form][1]
    clf = tb.tune(tb.Scores("s", high), TABLE, FORMS[form], limits=[tb.rates.miss(high) <= 0.4])
    tb.save_model(clf, tmp_path / "rule.model")
    tb.save_rule(clf, tmp_path / "rule.json")
    stored = tb.load_rule(tmp_path / "rule.json")
    assert stored.score(TABLE, FORMS[form]) == clf.score(TABLE, FORMS[form]) > 0.6
    other = HIGH if isinstance(high, str) else WORDS
    refused(lambda: stored.score(TABLE, other), "text, or numbers")
    forms = {*FORMS_OF_RULES} - {*OTHER_NUMBERS}
    answers = {name: FORMS_OF_RULES[name](clf.rule_, TABLE["s"]) for name in forms}
    if isinstance(high, bool):
        assert set(map(type, answers["sql"])) == {int}  # SQLite has no booleans
        answers["sql"] = [bool(value) for value in answers["sql"]]
    known = {"classifier": clf, "rule file": stored, "model file": tb.load_model(tmp_path / "rule.model")}
    answers |= {name: each.predict(TABLE).tolist() for name, each in known.items()}
    for name, found in answers.items():
        assert exactly(found, form), name


MODELS = {
    "mixture": lambda: tb.RobustMixtureClassifier([("lr", LogisticRegression())]),
    "worst class": lambda: tb.WorstClassBoostClassifier("tree", n_estimators=3),
    "AdaBoost": lambda: tb.AdaBoostClassifier("stump", n_estimators=3),
}


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize(
    ("form", "model", "as_frame"),  # arrays and data frames by turns, two of the models for each form
    [(a, b, (i + j) % 2 == 0) for i, a in enumerate(FORMS) for j, b in enumerate(MODELS) if (i + j) % 3],
)
def test_classifiers_answer_with_the_labels(form, model, as_frame):
    table = pd.DataFrame(X, columns=["a", "b"]) if as_frame else X
    assert exactly(MODELS[model]().fit(table, FORMS[form]).predict(table).tolist(), form)


@pytest.mark.parametrize("form", FORMS)
def test_given_probabilities_answer_with_the_labels(form):
    P = {"m": np.c_[1 - TABLE["s"], TABLE["s"]]}
    labels = np.ravel(FORMS[form]) if form == "table" else FORMS[form]
    clf = tb.RobustMixtureClassifier.from_probabilities(P, labels, objective="error")
    assert exactly(clf.predict(P).tolist(), form)
    assert exactly(clf.rule_.predict(P).tolist(), form)
