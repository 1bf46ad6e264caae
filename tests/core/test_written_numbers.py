"""Numbers with decimal commas and grouped thousands are read with a stated sign, otherwise named."""

import codecs
import re

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost.app.datasets import TableSchema, load_table, read_frame, read_raw

NUMBERS = np.random.default_rng(0).normal(0, 3000, 60).round(2)
LABELS = np.arange(60) % 2


def german(x):
    """Return a number in the form of a German spreadsheet, with grouped thousands."""
    return f"{x:,.2f}".translate(str.maketrans(",.", ".,"))


def written(path, spell, sep=";", encoding="utf-8", start="", **options):
    lines = [f"Größe{sep}y", *(f"{spell(x)}{sep}{y}" for x, y in zip(NUMBERS, LABELS, strict=True))]
    path.write_bytes((start + "\n".join(lines) + "\n").encode(encoding))
    return load_table(path, "y", sep=sep, **options).data["Größe"]


SPELLINGS = {
    "comma": (lambda x: f"{x:.2f}".replace(".", ","), ","),
    "German": (german, ","),
    "English": (lambda x: f"{x:,.2f}", "."),
    "Swiss": (lambda x: f"{x:,.2f}".replace(",", "’"), "."),
    "French": (lambda x: f"{x:,.2f}".replace(",", "\u202f").replace(".", ","), ","),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_numbers_are_read_by_the_stated_sign_and_named_without_it(tmp_path, name):
    spell, decimal = SPELLINGS[name]
    read = written(tmp_path / "t.csv", spell, decimal=decimal)
    np.testing.assert_array_equal(read, NUMBERS)
    with pytest.raises(ValueError, match=rf"column 'Größe' of .*t\.csv.*decimal='{decimal}'"):
        written(tmp_path / "t.csv", spell)


def test_whole_thousands_may_be_either(tmp_path):
    spell = lambda x: f"{abs(int(x)) + 1000:,}"  # noqa: E731
    with pytest.raises(ValueError, match=r"decimal=',' or decimal='\.'"):
        written(tmp_path / "t.csv", spell)
    whole = np.abs(NUMBERS).astype(int) + 1000
    np.testing.assert_array_equal(written(tmp_path / "t.csv", spell, decimal="."), whole)
    np.testing.assert_array_equal(written(tmp_path / "t.csv", spell, decimal=","), whole / 1000)


def test_two_decimal_signs_in_a_column_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1.234,5;a\n0.25;b\n")
    with pytest.raises(ValueError, match=r"column 'x' holds '1\.234,5' and '0\.25'"):
        read_raw(tmp_path / "t.csv", sep=";", decimal=",")


def test_few_different_values_and_other_text_stay_text(tmp_path):
    doses = (["0,5", "1,0"] * 30, ["1,5 l", "2,5 l"] * 30, ["A,1", "B,2,3"] * 30, ["01.02.24"] * 60)
    for values in doses:
        table = pd.DataFrame({"x": values})
        table.to_csv(tmp_path / "t.csv", sep=";", index=False)
        assert read_frame(tmp_path / "t.csv", sep=";")["x"].tolist() == values
    assert read_frame(tmp_path / "t.csv", sep=";", decimal=",")["x"].tolist() == doses[-1]


def test_later_rows_are_read_alone_as_in_a_table(tmp_path):
    (tmp_path / "t.csv").write_text("x;s\n" + "".join(f"{german(x)};{x:.0f},5 kg\n" for x in NUMBERS))
    whole = read_raw(tmp_path / "t.csv", sep=";", decimal=",")
    schema = TableSchema.of(pd.DataFrame({"x": [1.0], "s": ["a"]}))
    expected = schema.read(whole)
    for i in (0, 7, 59):
        (tmp_path / "r.csv").write_text(f"x;s\n{german(NUMBERS[i])};{NUMBERS[i]:.0f},5 kg\n")
        row = schema.read(read_raw(tmp_path / "r.csv", sep=";", decimal=","))
        assert row.astype(str).iloc[0].tolist() == expected.astype(str).iloc[i].tolist()
        with pytest.raises(ValueError, match="column 'x' holds numbers with"):
            schema.read(read_raw(tmp_path / "r.csv", sep=";"))


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([f"{i / 2} %" for i in range(60)], "%"),
        ([f"{95 + i % 5}%" for i in range(60)], "%"),  # an oxygen saturation has few different values
        ([f" {i}mmHg " for i in range(60)], "mmHg"),
        ([f"€{i}.5" for i in range(60)], "€"),
        ([f"{36 + 24 * (i % 2)} months" for i in range(60)], ""),  # two categories
        ([f"{i} {'kg' if i % 2 else 'lb'}" for i in range(60)], ""),
        ([f"C{i}" for i in range(60)], ""),
        ([f"{i:03}" for i in range(60)], ""),
    ],
)
def test_numbers_with_a_unit_are_refused_as_decimal_commas_are(tmp_path, values, unit):
    """In a file and in a data frame, unless they are named as text."""
    frame = pd.DataFrame({"x": values, "y": LABELS})
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert load_table(tmp_path / "t.csv", "y", text="x").schema.columns[0].kind == "text"
    clf = tb.CVaRBoostClassifier(n_estimators=3)
    if not unit:
        assert load_table(tmp_path / "t.csv", "y").schema.columns[0].kind == "text"
        return
    cure = "write plain numbers"
    if unit == "%":
        cure = "remove the percent sign and divide by 100, as by column.str.rstrip(' %').astype(float) / 100"
    fault = re.escape(f"holds numbers with the unit '{unit}' (such as '{values[0]}'): {cure}; ")
    with pytest.raises(ValueError, match=fault + re.escape("text=['x'] keeps the column text")):
        load_table(tmp_path / "t.csv", "y")
    with pytest.raises(ValueError, match=f"X, column 'x' {fault}for categories"):
        clf.fit(frame[["x"]], LABELS)
    clf.fit(frame[["x"]].astype("category"), LABELS)


def test_one_error_has_all_findings_of_a_file(tmp_path):
    days = pd.date_range("2020-01-01", periods=60).strftime("%Y-%m-%d")
    frame = pd.DataFrame(
        {
            "share": [f"{i / 2} %" for i in range(60)],
            "day": days,
            "sum": [f"{i},25" for i in range(60)],
            "z": range(60),
            "y": LABELS,
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(
        ValueError, match=r"column 'share'.*unit.*column 'day'.*dates.*column 'sum'.*decimal=','"
    ):
        load_table(tmp_path / "t.csv", "y")
    frame.to_csv(tmp_path / "s.csv", index=False, sep=";")
    with pytest.raises(ValueError, match=r"line 2 has 2 values.* state sep=';' and decimal=','"):
        load_table(tmp_path / "s.csv", "y")


def test_one_error_has_all_columns_without_numbers_and_text(tmp_path):
    pytest.importorskip("pyarrow")
    days = pd.date_range("2020-01-01", periods=60)
    frame = pd.DataFrame({"a": [np.inf, *range(59)], "day": days, "z": range(60), "b": days, "y": LABELS})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'a'.*infinite.*column 'day'.*dates.*so does column 'b'"):
        load_table(tmp_path / "t.parquet", "y")
    assert load_table(tmp_path / "t.parquet", "y", drop=["a", "day", "b"]).feature_names == ["z"]


class TestDataFrames:
    """The same message for data frames: otherwise text columns would be categories."""

    X = pd.DataFrame({"x": [f"{x:.2f}".replace(".", ",") for x in NUMBERS], "z": NUMBERS})

    def test_fit_names_the_column(self):
        for model in (tb.RobustMixtureClassifier(), tb.CVaRBoostClassifier(n_estimators=3)):
            with pytest.raises(
                ValueError, match=r"column 'x'.*decimal comma.*decimal=','.*astype\(\"category\"\)"
            ):
                model.fit(self.X, LABELS)

    def test_categories_are_taken_as_such(self):
        X = self.X.assign(x=self.X["x"].str[-1].astype("category"))
        tb.CVaRBoostClassifier(n_estimators=3).fit(X, LABELS).predict(X)

    def test_a_later_frame_with_commas_is_refused(self):
        model = tb.CVaRBoostClassifier(n_estimators=3).fit(self.X.assign(x=NUMBERS), LABELS)
        for rows in (self.X, self.X[:1]):
            with pytest.raises(ValueError, match="column 'x' holds numbers with a decimal comma"):
                model.predict(rows)

    def test_a_row_is_refused_alone_and_among_others(self):
        """The other rows have no influence on whether a value is a number."""
        frame = pd.DataFrame({"x": NUMBERS, "z": NUMBERS})
        schema = TableSchema.of(frame)
        for others in ([], ["a"], ["a", "b", "c"], ["2.5"] * 30):
            rows = pd.DataFrame({"x": ["1,5", *others], "z": 0.0})
            with pytest.raises(ValueError, match="column 'x' holds numbers with a decimal comma"):
                schema.read(rows)


class TestEncodings:
    def test_marks_state_the_encoding(self, tmp_path):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            assert len(written(tmp_path / "t.csv", str, encoding=encoding)) == 60
        big = codecs.BOM_UTF16_BE + "Größe;y\n1;a\n2;b\n".encode("utf-16-be")
        (tmp_path / "t.csv").write_bytes(big)
        assert read_raw(tmp_path / "t.csv", sep=";").columns.tolist() == ["Größe", "y"]

    def test_others_are_named_and_stated(self, tmp_path):
        with pytest.raises(ValueError, match=r"t\.csv' is not UTF-8 text.*encoding='cp1252'"):
            written(tmp_path / "t.csv", str, encoding="cp1252")
        assert read_raw(tmp_path / "t.csv", sep=";", encoding="cp1252").columns[0] == "Größe"
        (tmp_path / "u.csv").write_bytes("x;y\n1;a\n".encode("utf-16-le"))
        with pytest.raises(ValueError, match="encoding='utf-16-le'"):
            read_raw(tmp_path / "u.csv", sep=";")
        assert read_raw(tmp_path / "u.csv", sep=";", encoding="utf-16-le")["y"].tolist() == ["a"]
        with pytest.raises(ValueError, match="encoding='utf-7b' is unknown"):
            read_raw(tmp_path / "u.csv", encoding="utf-7b")


class TestExcel:
    def test_its_first_line_states_the_separator(self, tmp_path):
        for start in ("sep=;\r\n", '"sep=;"\n'):
            for encoding in ("utf-8-sig", "utf-16"):
                read = written(tmp_path / "t.csv", str, encoding=encoding, start=start)
                np.testing.assert_array_equal(read, NUMBERS)
        (tmp_path / "t.csv").write_text("sep=;\nx;y\n1;a;b\n")
        with pytest.raises(ValueError, match="line 3 has 3 values, the header has 2"):
            read_raw(tmp_path / "t.csv")

    def test_empty_columns_at_the_end_are_none(self, tmp_path):
        for text in ("x,y,,\n1,a,,\n2,b,,\n", "x,y\n1,a,,\n2,b\n", "x,y,\n1,a\n2,b,\n"):
            (tmp_path / "t.csv").write_text(text)
            table = read_frame(tmp_path / "t.csv")
            assert table.to_dict("list") == {"x": [1, 2], "y": ["a", "b"]}
        for text in ("x,y,\n1,a,7\n", "x,y\n1,a,7\n", "x,,y\n1,,a\n", "x,y\n1\n"):
            (tmp_path / "t.csv").write_text(text)
            with pytest.raises(ValueError, match=r"values, the header has|without a name"):
                read_raw(tmp_path / "t.csv")

    def test_words_for_missing_values(self, tmp_path):
        (tmp_path / "t.csv").write_text("x,y\n1,a\nN/A,b\nn/a,b\n#N/A,a\n,a\n")
        assert read_frame(tmp_path / "t.csv")["x"].isna().tolist() == [False, True, True, True, True]


def test_an_index_of_pandas_is_not_read(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"x": NUMBERS, "y": LABELS}).set_axis(range(100, 160))
    for index in (table.index, pd.Index([f"r{i}" for i in range(60)], name="row"), pd.Index(LABELS)):
        table.set_axis(index).to_parquet(tmp_path / "t.parquet")
        read = read_raw(tmp_path / "t.parquet")
        assert read.index.tolist() == list(range(60))
        assert read.to_dict("list") == table.to_dict("list")
