"""Columns of data frames keep their meaning in later tables, or a warning is given."""

import decimal
import re
import warnings
from functools import partial

import numpy as np
import pytest
from conftest import refused

pd = pytest.importorskip("pandas")

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import tailboost as tb
from tailboost.exceptions import TableChangedWarning
from tailboost.learners import HistBoostClassifier
from tailboost.learners.base import check_classes
from tailboost.learners.table import TableNumbers, TableReader

RNG = np.random.default_rng(0)
N = 600
NUMBERS = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc"))
Y = (NUMBERS.a + 0.3 * RNG.normal(size=N) > 0).astype(int).to_numpy()
CODES = pd.DataFrame({"k": pd.Categorical(RNG.choice([10, 20, 30], N)), "t": RNG.choice(["u", "v"], N)})
CODES["b"] = NUMBERS.a
LABELS = ((CODES.k.astype(int) == 20) ^ (RNG.random(N) < 0.05)).astype(int).to_numpy()


def made():
    trees = HistBoostClassifier(n_estimators=10, max_depth=2)
    return tb.RobustMixtureClassifier([("trees", trees)], random_state=0)


def quietly(call):
    """Call without a warning about columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*column")
        return call()


def same(model, X, want):
    return np.array_equal(quietly(lambda: model.predict(X)), want)


def test_numbers_that_came_as_objects_are_numbers():
    want = made().fit(NUMBERS, Y).predict(NUMBERS)
    spellings = {
        "objects": NUMBERS.astype(object), "decimals": NUMBERS.map(decimal.Decimal),
        "transposed": NUMBERS.astype(object).T.T,
    }  # fmt: skip
    for how, frame in spellings.items():
        model = quietly(lambda frame=frame: made().fit(frame, Y))
        for again in (frame, NUMBERS, frame.iloc[:1]):
            assert same(model, again, want[: len(again)]), how


def test_codes_stay_categories():
    """Text with few numbers, codes with leading zeros, and categorical columns."""
    some = RNG.integers(100, 180, N)
    for values in (
        np.array(["1", "2", "30", "a", "b", "c"])[some % 6],
        pd.Categorical(np.char.add("0", some.astype(str))),
        pd.Categorical(some),
    ):
        frame = NUMBERS.assign(a=values)
        model = quietly(lambda frame=frame: made().fit(frame, Y))
        said = model.predict(frame)
        assert same(model, frame.assign(a=np.asarray(values).astype(str)), said)


def test_a_category_is_its_spelling():
    model = made().fit(CODES, LABELS)
    want = model.predict(CODES)
    kinds = {
        "text": CODES.k.astype(str), "float": CODES.k.astype(float), "int": CODES.k.astype(int),
        "object": CODES.k.astype(object),
        "other codes": pd.Categorical(CODES.k.astype(int), categories=[30, 20, 10]),
    }  # fmt: skip
    for how, column in kinds.items():
        assert same(model, CODES.assign(k=column), want), how
        assert same(model, CODES.assign(k=column).iloc[:1], want[:1]), how


def test_columns_with_no_value_known_are_refused():
    model = made().fit(CODES, LABELS)
    for column, values in {
        "t": [CODES.t.str.upper(), CODES.t.str.encode("utf8"), (CODES.t == "u").astype(int)],
        "k": [CODES.k.cat.codes, CODES.k.astype(int) + 0.5],
        "b": [["high"] * N],
    }.items():
        for other in values:
            refused(lambda: model.predict(CODES.assign(**{column: other})), "column")


DAYS = pd.date_range("2020-01-01", periods=N)


@pytest.mark.parametrize("values", [DAYS, DAYS.to_period(), DAYS.date, DAYS.time, DAYS - DAYS[0], [1j] * N])
def test_dates_are_neither_numbers_nor_categories(values):
    for column in (pd.Series(values), pd.Series(values).astype(object)):
        refused(lambda: TableReader().fit(NUMBERS.assign(b=column)), "column 'b' contains")
    refused(lambda: made().fit(NUMBERS, Y).predict(NUMBERS.assign(b=values)), "column")


def test_a_refused_fit_leaves_the_one_before():
    table = NUMBERS.assign(a=NUMBERS.a.rank(pct=True))
    for model, answer in (
        (tb.Scores("a", 1), "predict"), (tb.Scores("a", 1, kind="number"), "predict_proba"),
        (TableNumbers(), "transform"), (HistBoostClassifier(n_estimators=2), "predict_proba"),
    ):  # fmt: skip
        before = getattr(model.fit(table, Y), answer)(table)
        with pytest.raises(ValueError, match=r"number|inf"):
            model.fit(table[["c", "b", "a"]].assign(a=np.inf), np.where(Y == 1, 1, 5))
        np.testing.assert_array_equal(getattr(model, answer)(table), before)


def test_many_new_categories_are_told_and_few_are_not():
    model = made().fit(CODES, LABELS)
    few, many = CODES.copy(), CODES.copy()
    few.loc[:10, "t"], many.loc[:100, "t"] = "w", "w"
    quietly(lambda: model.predict(few))
    with pytest.warns(TableChangedWarning, match="column"):
        model.predict(many)
    with pytest.warns(TableChangedWarning, match="1 of 1"):  # one row of them is no error
        model.predict(many[:1])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_array_is_not_taken_for_codes():
    model = made().fit(CODES[["k", "b"]], LABELS)
    codes = CODES[["k", "b"]].astype(float).to_numpy()
    refused(lambda: model.predict(codes), "categories")


def test_names_of_which_there_are_many_are_not_compared():
    names = np.array([f"client {i}" for i in range(N)])
    model = quietly(lambda: made().fit(NUMBERS.assign(a=names), Y))
    quietly(lambda: model.predict(NUMBERS.assign(a=np.char.add(names, "!"))))


@pytest.mark.parametrize("empty", [np.full(N, None), np.full(N, np.nan, object), pd.Categorical([None] * N)])
def test_a_column_without_values_in_the_fit_may_have_any_later(empty):
    model = quietly(lambda: made().fit(NUMBERS.assign(t=empty), Y))
    want = model.predict(NUMBERS.assign(t=empty))
    for later in (CODES.t, CODES.k, np.arange(N).astype(object)):
        assert same(model, NUMBERS.assign(t=later), want)  # no model knows any of them


def test_one_row_and_one_name():
    model, begins_with_text = made().fit(NUMBERS, Y), NUMBERS.astype(object).assign(a="text")
    for table in (NUMBERS, begins_with_text):
        refused(lambda: model.predict(table.iloc[0]), "Series")
    twice = NUMBERS.set_axis(["a", "b", "a"], axis=1)
    for call in (lambda: made().fit(twice, Y), lambda: model.predict(twice)):
        refused(call, "column")


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
def test_unknown_numbers_are_shown_as_plain_values():
    X = pd.DataFrame({"city": ["Rome", "Oslo"] * 20})
    clf = made().fit(X, [0, 1] * 20)
    refused(lambda: clf.predict(pd.DataFrame({"city": [1] * 40})), "such")


def test_a_column_of_lists_is_named():
    lists, named = NUMBERS.assign(tags=[["a", "b"]] * N), "column 'tags'"
    for fit in (made().fit, HistBoostClassifier(n_estimators=2).fit):
        refused(lambda: fit(lists, Y), named)
    refused(lambda: tb.certify(made().fit(NUMBERS.assign(tags=NUMBERS["c"]), Y), lists, Y), named)


TEXTS = {
    "text": lambda text: text, "commas": lambda text: text.str.replace(".", ","),
    "Arrow": lambda text: text.astype("string[pyarrow]"),
    "a code among them": lambda text: text.where(np.arange(N) % 20 > 0, "n/k"),
    "blanks": lambda text: text.where(np.arange(N) % 20 > 0, ""),
}  # fmt: skip


@pytest.mark.parametrize("how", TEXTS)
def test_numbers_as_text_are_refused_by_name(how):
    """As categories they would lose their order; each cure of the message works as it stands."""
    text = TEXTS[how](NUMBERS["a"].round(3).astype(str))
    X = NUMBERS.assign(a=text)
    for make in (made, lambda: tb.AdaLPBoostClassifier(n_estimators=3)):
        with pytest.raises(ValueError, match="column 'a' has numbers as text") as refused:
            make().fit(X, Y)
    number, code = re.findall(r"by (.+?\))(?:,|$)", str(refused.value).replace(", errors", "; errors"))
    as_number = eval(number.replace("; errors", ", errors"), {"pd": pd, "X": X})
    is_number = as_number.notna()
    assert is_number.mean() > 0.9
    np.testing.assert_allclose(as_number[is_number], NUMBERS["a"].round(3)[is_number])
    for cured in (as_number, eval(code, {"X": X})):
        tb.AdaLPBoostClassifier(n_estimators=1).fit(X.assign(a=cured), Y)


def test_numbers_as_text_in_the_categories_of_a_given_pipeline_are_its_own_matter():
    """Also fewer than nine tenths of numbers are names: house numbers, sizes, codes of diagnoses."""
    X = pd.DataFrame({"code": RNG.choice(["1", "2"], N), "b": NUMBERS["b"]})
    y = (X["code"] == "1").astype(int)
    coding = make_column_transformer((OneHotEncoder(), ["code"]), remainder="passthrough")
    own = make_pipeline(coding, LogisticRegression())
    assert np.array_equal(tb.RobustMixtureClassifier([("own", own)]).fit(X, y).predict(X), y)
    assert np.array_equal(tb.tune(own.fit(X, y), X, y).predict(X), y)
    named = X.assign(code=np.where(np.arange(N) % 8 > 0, X["code"], "other"))
    assert HistBoostClassifier(n_estimators=2).fit(named, y).score(named, y) > 0.9


def test_categories_have_their_numbers_of_the_fit_in_a_table_of_another_order():
    table = pd.DataFrame({"word": [*"cab", None]})
    reader = TableReader().fit(table)
    np.testing.assert_array_equal(reader.transform(table[::-1])[::-1], reader.transform(table))


def test_a_missing_category_is_no_category():
    frame = pd.DataFrame({"c": ["a", None, "b", "a"], "d": pd.Categorical(["x", "y", None, "x"])})
    assert np.isnan(TableReader().fit(frame).transform(frame)).tolist() == frame.isna().to_numpy().tolist()


def test_labels_of_most_rows_are_no_classes_nor_are_amounts():
    for n_classes, n_rows, step in ((20, 20, 1), (21, 42, 1), (300, 600, 1), (21, 210, 5)):
        check_classes(step * np.arange(n_classes), n_rows)
    for n_classes, n_rows, step in ((21, 41, 1), (600, 600, 1), (21, 209, 5)):
        refused(partial(check_classes, step * np.arange(n_classes), n_rows), "different values")
