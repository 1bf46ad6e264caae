"""Checks of arguments: valid ones are returned in one form, invalid ones are named."""

from decimal import Decimal
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import refused

import tailboost as tb
from tailboost import core
from tailboost.core import ranges
from tailboost.core.checks import check_probabilities
from tailboost.core.words import joined, points_words, rounded_away
from tailboost.rows import Rows
from tailboost.rows.groups import GroupNames
from tailboost.selection.outputs import check_answers

pd = pytest.importorskip("pandas")


def test_numbers_and_the_ends_of_their_range():
    assert ranges.check_number(np.float32(0.5), "x", ranges.SHARE) == 0.5
    assert ranges.check_number(0, "x", ranges.NON_NEGATIVE) == 0.0
    one, positive = [(0, ranges.TO_ONE), (1, ranges.SHARE), (1, ranges.BELOW_ONE)], ranges.POSITIVE
    for value, within in [*one, (-1, ranges.NON_NEGATIVE), (np.inf, positive), (np.nan, positive)]:
        refused(partial(ranges.check_number, value, "x", within), "got")
    for value in (None, True, np.True_, "0.5", b"0.5", 1j):
        refused(partial(ranges.check_number, value, "x", ranges.UNIT), "number")


BAD_WEIGHTS = [[1, 1], np.ones((3, 1)), [1, np.nan, 1], [1, 1, -2], [*"abc"], [1, None, 1], [0, 0, 0], 0]


def test_weights():
    np.testing.assert_array_equal(core.check_weights(None, 3), [1, 1, 1])
    np.testing.assert_array_equal(core.check_weights(2, 3), [2, 2, 2])
    np.testing.assert_array_equal(core.check_weights(pd.Series([0, 1, 2], index=[5, 6, 7]), 3), [0, 1, 2])
    for weights in BAD_WEIGHTS:
        refused(partial(core.check_weights, weights, 3, "weight_val"), "weight_val")


@pytest.mark.parametrize("kind", ["M8[D]", "M8[ns]", "m8[s]", "c16"])
def test_dates_durations_and_gaps_are_no_finite_numbers(kind):
    values = np.arange(1, 4).astype(kind)
    for given in (values, [*values], pd.Series(values)):
        refused(partial(core.check_weights, given, 3), "sample_weight")
        refused(partial(core.finite, given, "costs"), "costs")
    for entries in ([1, None], [[1.0, None]], [1, [2]], None):
        refused(partial(core.finite, entries, "costs"), "costs")


@pytest.mark.parametrize("known", [["a", "b", "c"], ["c", "a", "b"], [3, 1, 2], [False, True], [-1.5, 2.5]])
def test_positions_are_those_of_known_labels_in_any_order(known):
    values = np.array(known)[np.random.default_rng(0).integers(len(known), size=50)]
    place = core.positions(values, known, "y")
    assert place.dtype == np.intp
    np.testing.assert_array_equal(np.array(known)[place], values)
    with pytest.raises(ValueError, match="y_val"):  # among labels that are not known
        core.positions([9, 1, 0, 9], [1, 2], "y_val")
    # Text and numbers have no order: no value is the same as another, and none stops the search.
    for values, known in [(["0", 1], [0, 1, 2]), ([0, 1], ["0", "1"]), ([0, "b"], ["a", "b"])]:
        refused(partial(core.positions, values, known, "groups"), "groups")


def test_columns_of_classes_are_matched_by_name_and_relative_weights_have_the_mean_1_above_0():
    costs = pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]})
    assert core.check_costs(costs, 2, np.array(["a", "b"])).tolist() == [[3.0, 1.0], [4.0, 2.0]]
    for names, words in (("ab", "of the class a: give that of b"), ("abc", "must have the shape")):
        refused(partial(core.check_costs, costs["a"], 2, np.array([*names])), words)
    refused(lambda: check_probabilities([[0.4, 0.6], [0.5, 0.6]]), "sum to 1 in each row; row 1")
    np.testing.assert_allclose(core.row_weights([0.0, 2e-9, 4e-9], 3), [0.0, 2 / 3, 4 / 3])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, Decimal("NaN"), np.inf])
@pytest.mark.parametrize("make", [list, lambda values: np.array(values, dtype=object), pd.Series])
def test_missing_labels_have_one_wording(make, missing):
    for known in ("a", 0.5):
        refused(partial(core.label_column, make([known, missing, known]), "groups"), "contains")


def test_label_columns():
    assert core.label_column(np.array(["a", "b"], dtype=object), "y").dtype.kind == "U"
    assert core.label_column(np.array([1, 2.5, True], dtype=object), "y").dtype == np.float64
    mixed, numbers = np.array([1, "a"], dtype=object), np.array([1j, 2])
    faults = ([], "no rows"), (np.ones((2, 2)), "1d array"), (mixed, "not both"), (numbers, "got .*complex")
    for values, message in faults:
        refused(partial(core.label_column, values, "y"), message)
    # Numbers as categories keep their type.
    for values in ([3, 1, 3], np.array([0.5, 0.25], dtype=np.float32), [True, False]):
        expected = np.asarray(values)
        labels = core.label_column(pd.Series(expected).astype("category"), "y")
        assert (labels.dtype, labels.tolist()) == (expected.dtype, expected.tolist())
    refused(lambda: core.label_column(pd.Series([1, "a"], dtype="category"), "y"), "both")
    # Whole numbers from 2⁶³ on are told apart.
    numbers = [2**63 + 6, 3, 2**63 + 5, 2**64 - 1]
    for column in (numbers, np.array(numbers, object), np.uint64(numbers), pd.array(numbers, "UInt64")):
        names, position_of_row = core.coded(column, "y")
        assert (names.tolist(), position_of_row.tolist()) == (sorted(numbers), [2, 0, 1, 3])
    refused(lambda: core.coded([2**63 + 5, -1], "y"), "number")
    # A label is the known one of the same text, but not of two.
    assert core.as_known([1, "TRUE", "b", None], ["1", "a"]) == ["1", "1", "b", None]
    assert core.as_known([1, "a"], ["1", "1.0", "a"]) == [1, "a"]


WHOLE = [np.array(each, np.uint64) for each in ([2**64 - 1, 2**64 - 3, 2**64 - 1], [0, 2**63], [])]
WHOLE += [np.array([-100, 100, 100, -128], np.int8).repeat(99), [3, -1, 3, 7]]


@pytest.mark.parametrize("values", [*WHOLE, ["b", "a", "b"], [0.5, -0.5, 0.5], [True, False]])
def test_distinct_values_and_places_are_those_of_numpy(values, monkeypatch):
    values = np.asarray(values)
    names, places = core.distinct_and_positions(values)
    expected_names, expected_places = np.unique(values, return_inverse=True)
    assert (names.dtype, places.dtype) == (values.dtype, np.intp)
    np.testing.assert_array_equal(names, expected_names)
    np.testing.assert_array_equal(places, expected_places)
    monkeypatch.setattr(np, "unique", None)  # numbers of a short range are counted and not sorted
    assert core.distinct_and_positions(np.array([7, 5, 7, 5]))[1].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("dtype", ["category", "string", "str"])
def test_columns_of_categories_and_text_are_read_by_their_distinct_values(dtype, monkeypatch):
    texts = ["b", "long", "b", "a"]
    column = pd.Series(texts, dtype=dtype)
    if column.dtype == object:
        pytest.skip("pandas before 3 has text as objects")
    with monkeypatch.context() as patch:
        patch.setattr(pd.Series, "__array__", None)  # one object for each row
        labels = core.label_column(column, "groups")
    assert labels.dtype.kind == "U"
    assert labels.tolist() == texts
    refused(lambda: core.label_column(column.where(column != "a"), "groups"), "contains")


@pytest.mark.parametrize("kind", ["category", object, float, "Float64"])
def test_a_message_counts_rows_and_ends_with_its_remedy(kind):
    """Also of categories, where an infinite one stands in several rows."""
    column = pd.Series([1.0, 2.0, 2.0, 2.0, np.inf, 3.0, np.inf]).astype(kind)
    with pytest.raises(ValueError, match=r"2 of 7 entries .* row 4, .*; leave them out$"):
        core.coded(column, "sites", "leave them out")
    scores = pd.DataFrame({"s": np.linspace(0.1, 0.9, 7)})
    with pytest.raises(ValueError, match=r"2 of 7 entries .* row 4, .* make them a group"):
        tb.tune(tb.Scores("s", 1), scores, np.arange(7) % 2, groups=column.to_frame("site"))
    with pytest.raises(ValueError, match=r"y contains .* 2 of 7 entries .* row 4, .*; give"):
        tb.AdaLPBoostClassifier().fit(scores, column)


@pytest.mark.parametrize("answers", [np.array([]), [], pd.Series([]), np.array(5), 5, np.float64(5)])
def test_answers_for_no_row_and_one_number_are_too_few(answers):
    for X in (np.ones((3, 2)), [[0.1]] * 3, {"a": [1, 2, 3]}, pd.DataFrame({"a": [1, 2, 3]})):
        said = r"^predict has (0 rows|1 row), the table has 3($|: a model)"
        refused(partial(check_answers, answers, X, "predict"), said)


@pytest.mark.parametrize("number", [5, np.array(5), np.float64(5), np.array("a")])
def test_a_number_is_one_row(number):
    table, y = pd.DataFrame({"a": np.arange(40.0)}), np.repeat([0, 1], 20)
    assert core.n_rows_of(number) == core.n_rows_of({"a": number}) == core.n_rows_of([number]) == 1
    assert core.n_rows_of(sp.csr_array((4, 2))) == core.n_rows_of(sp.dok_array((4, 2))) == 4
    for groups in (number, {"a": number}):
        refused(lambda: tb.GroupDROBoostClassifier().fit(table, y, groups=groups), r"groups.*(1 row|1d)")


@pytest.mark.parametrize("number", ["0.3", "0.57", "0.285", "0.2851", "0.999", "-0.29"])
def test_bounds_are_rounded_outwards_to_decimals(number):
    for digits, (above, mode) in product((2, 3), ((True, "ROUND_CEILING"), (False, "ROUND_FLOOR"))):
        expected = Decimal(number).quantize(Decimal(10) ** -digits, mode)
        assert rounded_away(float(number), digits, above) == float(expected)


def test_words_name_what_was_given():
    """A near name has its type, a share above 1 its percent, and a column its argument."""
    assert core.did_you_mean("1", [0, 1]) == "did you mean 1? "
    assert core.did_you_mean(1, ["0", "1"]) == "did you mean '1'? "
    assert [core.rate_words(1.5, 100, in_percent=each) for each in (True, False)] == ["150 %", "1.5"]
    assert [joined([*"abcde"[:k]], 3) for k in (3, 4, 5)] == ["a, b, c", "a, b, c, d", "a, b, c and 2 more"]
    assert points_words(0.01, 0.01) == "at most 3.0 points"  # 1 ± 1.96, which contains 0
    assert points_words(0.01, 0.001) == "0.8 to 1.2 points"
    unknown = type("Table", (), {"compute": None})()  # of any library
    refused(lambda: Rows.read(y=[0, 1], clusters=[1, None], suffix="_val"), "^clusters_val contains")
    refused(lambda: core.refuse_unread(unknown, "X"), r"^X: the rows .* compute\(\)", TypeError)


def test_intervals_of_pandas_are_their_names_and_dates_are_refused():
    ages = pd.Series([44, 19, 33, 19])
    bands = pd.cut(ages, [17, 30, 45])
    names = ["(30, 45]", "(17, 30]", "(30, 45]", "(17, 30]"]
    assert all(core.label_column(each, "groups").tolist() == names for each in (bands, bands.array))
    decades = pd.cut([44, 9, 101], [0, 9.5, 100, 200])  # not in the order of text
    doses = pd.Categorical(np.float32([0.3, 0.1, 0.2]), np.float32([0.3, 0.1, 0.2]), ordered=True)
    of_decades, numbers = GroupNames.of({"age": decades, "dose": doses}, "groups", 3, "X")
    assert of_decades.values[0].tolist() == ["(0.0, 9.5]", "(9.5, 100.0]", "(100.0, 200.0]"]
    assert numbers.tolist() == [[1, 0], [0, 1], [2, 2]]
    # Dates have a cure that works.
    days = pd.Series(pd.date_range("2025-06-01", periods=600))
    refused(lambda: core.label_column(days, "groups"), "such")
    assert np.unique(core.label_column(days.dt.year, "groups")).tolist() == [2025, 2026, 2027]
