"""Later tables are read like the first table, and each row independently of the others."""

import functools
import pickle
import re
import warnings

import pytest

pd = pytest.importorskip("pandas")

from hypothesis import given, settings
from hypothesis import strategies as st

from tailboost.app.datasets import TableChangedWarning, TableSchema, load_table, read_frame, read_raw
from tailboost.app.datasets import table as table_module
from tailboost.rows.schema import learn_columns, read_columns

WORDS = (
    "", "NA", "?", "None", "1", "01", "1.0", "1.50", "-0", "+1", "1e5", "2E5", "9007199254740993", "0.1",
    " 7 ", "True", "TRUE", "false", "red", "Red", "A1B", "01234", "1_000", "0x10", "٣", "1,5", "2024-13-45",
)  # fmt: skip
rows = st.lists(st.tuples(*[st.sampled_from(WORDS)] * 3), min_size=1, max_size=6)


def write(path, table, names=("a", "b", "c")):
    lines = [",".join(names), *(",".join(f'"{v}"' for v in row) for row in table)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def values(frame):
    """Return the values by row, with None for missing ones."""
    return [[None if pd.isna(v) else v for v in row] for row in frame.astype(object).itertuples(index=False)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(first=rows, later=rows, data=st.data())
def test_a_row_reads_the_same_alone_and_in_any_file(folder, first, later, data):
    labelled = [(*row, "yn"[i % 2]) for i, row in enumerate([*first, *first])]
    schema = load_table(write(folder / "first.csv", labelled, ("a", "b", "c", "y")), "y").schema

    def read(name, table):
        """Return the values of a file, or None if values of another kind than in the first are refused."""
        try:
            return values(schema.read(read_raw(write(folder / name, table))))
        except ValueError as refusal:
            if not re.search("holds numbers with a decimal comma|the fit had no such value", str(refusal)):
                raise
            return None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableChangedWarning)
        alone = [read("row.csv", [row]) for row in later]
        taken = data.draw(st.lists(st.integers(0, len(later) - 1), min_size=1))
        for numbers in (range(len(later)), taken):
            each = [alone[i] for i in numbers]
            expected = None if None in each else [row for (row,) in each]
            assert read("later.csv", [later[i] for i in numbers]) == expected


@settings(max_examples=40, deadline=None)
@given(first=rows)
def test_the_first_file_reads_as_it_was_loaded(folder, first):
    labelled = [(*row, "yn"[i % 2]) for i, row in enumerate([*first, *first])]
    file = write(folder / "first.csv", labelled, ("a", "b", "c", "y"))
    loaded = load_table(file, "y")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no new column, category or kind
        read = loaded.schema.read(read_raw(file))
    numbers = [c.name for c in loaded.schema.columns if c.kind == "number"]  # numbers are read as float64
    assert values(read) == values(loaded.data.astype(dict.fromkeys(numbers, "float64")))


class TestReading:
    @pytest.fixture
    def schema(self, tmp_path):
        text = "zip,age,member,y\n01234,31,True,no\nA1B,54,FALSE,yes\n?,,true,no\n"
        (tmp_path / "t.csv").write_text(text)
        return load_table(tmp_path / "t.csv", "y").schema

    def test_kinds(self, schema):
        assert [(c.name, c.kind, c.categories) for c in schema.columns] == [
            ("zip", "text", ("01234", "A1B")), ("age", "number", ()), ("member", "truth", ()),
        ]  # fmt: skip
        assert (schema.target.name, schema.target.categories) == ("y", ("no", "yes"))

    def test_a_file_of_digits_alone_keeps_its_zeros(self, schema, tmp_path):
        (tmp_path / "n.csv").write_text("zip,age,member\n01234,1,0\n01234,2,1\n")
        read = schema.read(read_raw(tmp_path / "n.csv"))
        assert read["zip"].tolist() == ["01234", "01234"]
        assert read["member"].tolist() == [0.0, 1.0]

    def test_parquet_reads_by_the_same_rule(self, schema, tmp_path):
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame({"zip": ["01234", None], "age": ["31", "old"], "member": [True, False]})
        frame.to_parquet(tmp_path / "n.parquet")
        with pytest.raises(ValueError, match="numbers"):
            schema.read(read_raw(tmp_path / "n.parquet"))
        frame.assign(age=["31", None]).to_parquet(tmp_path / "n.parquet")
        read = schema.read(read_raw(tmp_path / "n.parquet"))
        assert values(read) == [["01234", 31.0, 1.0], [None, None, 0.0]]

    @pytest.mark.parametrize("source", ["file", "data frame"])
    def test_values_without_a_number_warn_above_their_share_in_the_fit(self, tmp_path, source):
        def table(n_codes, n=2000):
            ages = ["V58"] * n_codes + [str(20 + i % 60) for i in range(n - n_codes)]
            return pd.DataFrame({"age": ages, "y": ["no", "yes"] * (n // 2)})

        if source == "file":
            table(28).to_csv(tmp_path / "t.csv", index=False)
            with pytest.warns(UserWarning, match="numbers"):
                schema = load_table(tmp_path / "t.csv", "y").schema
            read = pickle.loads(pickle.dumps(schema)).read
        else:
            with pytest.warns(UserWarning, match="missing"):
                schema, _ = learn_columns(table(28)[["age"]])
            read = functools.partial(read_columns, schema=schema)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for n_codes in (0, 22, 35):
                assert read(table(n_codes)[["age"]])["age"].isna().sum() == n_codes
        with pytest.warns(TableChangedWarning, match="and"):
            read(table(80)[["age"]])

    def test_one_warning_has_all_counts(self):
        frame = pd.DataFrame(
            {
                "zip": ["99", "A1B", "98"],
                "town": ["u", "v", "w"],
                "new": 1,
                "y": 1,
            }
        )
        schema = TableSchema.of(pd.DataFrame({"zip": ["01234", "A1B"], "town": ["u", "v"]}))
        with pytest.warns(TableChangedWarning) as caught:
            schema.read(frame)
        assert len(caught) == 1
        said = str(caught[0].message)
        for words in (
            "column 'zip': 2 of 3 values are new categories, such as '99'",
            "column 'town': 1 of 3 values are new categories, such as 'w'",
        ):
            assert words in said
        assert "'new'" not in said  # changes no answer

    @pytest.mark.parametrize(("name", "value"), [("age", "47 years"), ("member", "ja")])
    def test_values_of_another_kind_than_the_column_are_refused(self, name, value):
        first = pd.DataFrame({"age": [31.0, 54.0], "member": [True, False]})
        schema = TableSchema.of(first)
        later = pd.DataFrame({"age": ["47"] * 20, "member": ["true"] * 20})
        later[name] = value
        with pytest.raises(ValueError, match="column"):
            schema.read(later)
        one = later.assign(age="47", member="true")
        one.loc[7, name] = value
        for rows in (one, later[:1]):  # a row is refused alone as among others
            with pytest.raises(ValueError, match="column"):
                schema.read(rows)
        one.loc[7, name] = None
        assert schema.read(one)[name].isna().sum() == 1

    def test_missing_columns_are_named(self, schema):
        with pytest.raises(ValueError, match="missing"):
            schema.read(pd.DataFrame({"age": [1]}))

    def test_travels_as_text(self, schema):
        again = pickle.loads(pickle.dumps(schema))
        assert again == schema
        assert set(schema.__getstate__()) == {"json"}


class TestLabelsAndGroups:
    @pytest.mark.parametrize(
        "labels",
        [
            ("01", "1", "2"),
            ("TRUE", "false", "true"),
            ("1", "1.0", "2"),
            ("+1", "-1", "1"),
            ("9" * 20, "9" * 19 + "8"),
        ],
    )
    def test_text_labels_stay_as_written(self, tmp_path, labels):
        lines = "".join(f"{i},{label}\n" for i, label in enumerate(labels * 2))
        (tmp_path / "t.csv").write_text(f"x,y\n{lines}")
        table = load_table(tmp_path / "t.csv", "y", text_labels=True)
        assert table.target.tolist() == [*labels, *labels]
        assert table.target_names.tolist() == sorted(set(labels))

    def test_groups_of_a_csv_file_stay_as_written(self, tmp_path):
        (tmp_path / "t.csv").write_text("x,g,y\n1,01,a\n2,1,b\n3,,a\n")
        assert load_table(tmp_path / "t.csv", "y", group="g").groups["g"].tolist() == ["01", "1", "missing"]

    def test_continuous_text_labels_are_still_refused(self, tmp_path):
        (tmp_path / "t.csv").write_text("x,y\n1,0.25\n2,0.5\n")
        with pytest.raises(ValueError, match="continuous"):
            load_table(tmp_path / "t.csv", "y", text_labels=True)


class TestDates:
    def test_the_longest_text_that_is_searched_for_a_date_is_short(self, monkeypatch, tmp_path):
        searched = []

        class Counting:
            def fullmatch(self, text):
                searched.append(len(text))
                return re.fullmatch("a^", text)

        monkeypatch.setattr(table_module, "DATE", Counting())
        field = "2024-01-01 10:00" + " " * 100_000 + "x"
        data = pd.DataFrame({"c": [field, field + "y", "2024-01-01 10:00"], "y": ["p", "q", "p"]})
        data.to_parquet(tmp_path / "t.parquet")
        load_table(tmp_path / "t.parquet", "y")
        assert max(searched) <= 100


def test_a_path_may_be_text(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("zip,x\n01234,1\n04321,2\n")
    assert read_raw(str(file))["zip"].tolist() == ["01234", "04321"]
    assert read_frame(str(file))["x"].tolist() == [1, 2]
