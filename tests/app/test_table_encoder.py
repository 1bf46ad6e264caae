"""Tables in."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from tailboost.app.datasets import TableChangedWarning
from tailboost.app.table_encoder import TableEncoder


@pytest.fixture
def mixed():
    return pd.DataFrame(
        {
            "age": [20, 31, 42, 53, 64, 75],
            "income": [1.5, None, 3.0, 2.5, None, 1.0],
            "member": [True, False, True, True, False, False],
            "city": ["Rome", "Oslo", None, "Rome", "Oslo", "Rome"],
            "size": pd.Categorical(["S", "M", "L", "S", None, "M"]),
        }
    )


class TestTableEncoder:
    def test_every_kind_of_column(self, mixed):
        encoder = TableEncoder().fit(mixed)
        names = list(encoder.get_feature_names_out())
        encoded = pd.DataFrame(encoder.transform(mixed), columns=names)
        assert names[:3] == ["age", "income", "member"]
        assert encoded["member"].tolist() == [1, 0, 1, 1, 0, 0]
        np.testing.assert_array_equal(encoded["income"], mixed["income"])  # NaN stays NaN
        assert encoded["city_Rome"].tolist() == [1, 0, 0, 1, 0, 1]
        assert encoded["city_None"].tolist() == [0, 0, 1, 0, 0, 0]
        # One category per text column, and nothing left over.
        assert encoded.filter(like="city_").sum(axis=1).eq(1).all()
        assert encoded.filter(like="size_").sum(axis=1).eq(1).all()
        assert encoded.shape[1] == 3 + 3 + 4

    def test_order_and_further_columns_do_not_matter(self, mixed):
        encoder = TableEncoder().fit(mixed)
        other = mixed[mixed.columns[::-1]].assign(target=1)
        encoded = encoder.transform(other)
        np.testing.assert_array_equal(encoded, encoder.transform(mixed))

    def test_unknown_and_rare_categories(self, mixed):
        new = mixed.assign(city="Paris")
        known = TableEncoder().fit(mixed)
        columns = [n.startswith("city_") for n in known.get_feature_names_out()]
        unseen = pytest.warns(TableChangedWarning, match=r"'city': 6 of 6 values are new categories, .*Paris")
        with unseen:
            assert not known.transform(new)[:, columns].any()
        pooled = TableEncoder(max_categories=2).fit(mixed)
        columns = [n.startswith("city_") for n in pooled.get_feature_names_out()]
        with unseen:
            np.testing.assert_array_equal(pooled.transform(new)[:, columns], [[0, 1]] * 6)

    def test_codes_read_as_floats_are_the_same_categories(self):
        codes = pd.DataFrame({"zip": ["12", "34", "A5"]})
        encoder = TableEncoder().fit(codes)
        floats = pd.DataFrame({"zip": [12.0, 34.0]})
        np.testing.assert_array_equal(encoder.transform(floats), encoder.transform(codes.iloc[:2]))

    def test_numbers_only_and_text_only(self):
        numbers = pd.DataFrame({"a": [1, 2], "b": [3.0, 4.0]})
        assert TableEncoder().fit_transform(numbers).tolist() == [[1, 3], [2, 4]]
        text = pd.DataFrame({"a": ["x", "y"]})
        assert TableEncoder().fit_transform(text).tolist() == [[1, 0], [0, 1]]

    def test_nullable_columns(self):
        table = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")})
        np.testing.assert_array_equal(TableEncoder().fit_transform(table), [[1], [np.nan], [3]])

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda t: t.drop(columns=["age", "city"]), "missing columns 'age', 'city'"),
            (lambda t: t.assign(age=[20, 31, np.inf, 53, 64, 75]), "'age' has infinite values.*row 2"),
            (lambda t: t.assign(age=[[1]] * 6), "'age' holds list values"),
            (lambda t: t.assign(age=pd.Timestamp("2024-01-31")), "'age' holds dates"),
            (lambda t: t.assign(city=[b"Rome"] * 6), "'city' holds bytes values"),
        ],
    )
    def test_transform_names_the_culprit(self, mixed, change, says):
        encoder = TableEncoder().fit(mixed)
        with pytest.raises(ValueError, match=says):
            encoder.transform(change(mixed))

    def test_arrays_are_refused(self, mixed):
        for ask in (TableEncoder().fit, TableEncoder().fit(mixed).transform):
            with pytest.raises(TypeError, match=r"a data frame of pandas is needed.*got ndarray"):
                ask(mixed.to_numpy())

    def test_text_among_numbers_is_refused_and_an_empty_value_is_missing(self, mixed):
        encoder = TableEncoder().fit(mixed)
        ages = ["20", "31", "old", "53", "64", "75"]
        with pytest.raises(ValueError, match=r"'age': 1 of 6 values are no numbers, .*'old' in row 2"):
            encoder.transform(mixed.assign(age=ages))
        ages[2] = None
        encoded = encoder.transform(mixed.assign(age=ages))
        np.testing.assert_array_equal(encoded[:, 0], [20, 31, np.nan, 53, 64, 75])

    @pytest.mark.parametrize(
        ("table", "says"),
        [
            (pd.DataFrame({"a": []}), "X has no rows"),
            (pd.DataFrame(index=[0, 1]), "X has no columns"),
            (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column"),
            (pd.DataFrame({"day": pd.to_datetime(["2024-01-31"])}), "'day' holds dates"),
        ],
    )
    def test_fit_names_the_culprit(self, table, says):
        with pytest.raises(ValueError, match=says):
            TableEncoder().fit(table)
