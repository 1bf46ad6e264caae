"""Data sets: contents against published counts, and an error message for each bad file."""

import bz2
import gzip
import lzma
import sys
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tailboost import datasets
from tailboost.app.datasets import table
from tailboost.core.spelling import speaking_to_the_shell

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of test data is not here")


# --- bundled -----------------------------------------------------------------------------------------------


def test_credit_default_has_the_published_counts():
    bunch = datasets.load_credit_default()
    assert bunch.data.shape == (30_000, 23)
    assert list(bunch.data.columns) == bunch.feature_names
    assert bunch.target.value_counts().to_dict() == {0: 23_364, 1: 6_636}
    assert bunch.data["SEX"].value_counts().to_dict() == {1: 11_888, 2: 18_112}
    assert np.bincount(bunch.data["EDUCATION"]).tolist() == [14, 10_585, 14_030, 4_917, 123, 280, 51]
    assert bunch.data["LIMIT_BAL"].mean() == pytest.approx(167_484.32, abs=0.005)
    assert (bunch.data["AGE"].min(), bunch.data["AGE"].max()) == (21, 79)


def test_credit_default_groups_follow_the_columns():
    bunch = datasets.load_credit_default()
    ages = bunch.data["AGE"].groupby(bunch.groups["age_band"], observed=True).agg(["min", "max"])
    assert ages.T.to_dict("list") == {
        "30-39": [30, 39],
        "40-49": [40, 49],
        "50 and over": [50, 79],
        "under 30": [21, 29],
    }
    assert pd.crosstab(bunch.data["SEX"], bunch.groups["sex"]).to_dict() == {
        "female": {1: 0, 2: 18_112},
        "male": {1: 11_888, 2: 0},
    }
    assert bunch.groups["education"].value_counts().to_dict() == {
        "university": 14_030,
        "graduate school": 10_585,
        "high school": 4_917,
        "other": 14 + 123 + 280 + 51,
    }


def test_credit_default_arrays_need_no_pandas(monkeypatch):
    frame = datasets.load_credit_default()
    X, y, sex = frame.data.to_numpy(), frame.target.to_numpy(), frame.groups["sex"].tolist()
    without(monkeypatch, "pandas")
    bunch = datasets.load_credit_default(as_frame=False)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert bunch.groups["sex"].tolist() == sex
    with pytest.raises(ImportError, match=r"load_credit_default.*pandas.*tailboost\[app\]"):
        datasets.load_credit_default()


def test_credit_default_is_small_and_names_its_licence():
    data = Path(table.__file__).parent / "data"
    assert (data / "credit_default.csv.xz").stat().st_size < 1_000_000
    for text in ("CC BY 4.0", "Yeh", "350"):
        assert text in (data / "README.md").read_text(encoding="utf-8")
        assert text in datasets.load_credit_default.__doc__


@needs_shared
def test_credit_default_equals_the_original():
    original = pd.read_csv(SHARED / "taiwan_credit.csv.gz")
    X, y = datasets.load_credit_default(return_X_y=True)
    pd.testing.assert_frame_equal(X, original.drop(columns="default"))
    pd.testing.assert_series_equal(y, original["default"])


def test_wines_have_the_published_counts_and_grades():
    bunch = datasets.load_wine_quality()
    assert bunch.data.shape == (6_497, 12)
    assert list(bunch.data.columns) == bunch.feature_names
    # Published counts by grade: 30, 216, 2,138, 2,836, 1,079, 193, 5; the extreme grades are joined.
    assert np.bincount(bunch.target).tolist() == [30 + 216, 2_138, 2_836, 1_079, 193 + 5]
    assert bunch.groups["colour"].value_counts().to_dict() == {"white": 4_898, "red": 1_599}
    assert ((bunch.data["red"] == 1) == (bunch.groups["colour"] == "red")).all()
    X, y = datasets.load_wine_quality(return_X_y=True, as_frame=False)
    np.testing.assert_array_equal(X, bunch.data.to_numpy())
    np.testing.assert_array_equal(y, bunch.target.to_numpy())


def test_wines_are_small_and_name_their_licence():
    data = Path(table.__file__).parent / "data"
    assert (data / "wine_quality.csv.xz").stat().st_size < 1_000_000
    for text in ("CC BY 4.0", "Cortez", "186"):
        assert text in (data / "README.md").read_text(encoding="utf-8")
        assert text in datasets.load_wine_quality.__doc__


@needs_shared
def test_wines_equal_the_original():
    parts = [pd.read_csv(SHARED / f"winequality_{colour}.csv.gz") for colour in ("red", "white")]
    original = pd.concat(parts, ignore_index=True)
    X, y = datasets.load_wine_quality(return_X_y=True)
    np.testing.assert_array_equal(X.drop(columns="red"), original.drop(columns="quality"))
    np.testing.assert_array_equal(y, original["quality"].clip(4, 8) - 4)


# --- any table ---------------------------------------------------------------------------------------------

MIXED = """age,city,member,income,when_hired,sex,y
31,Bern,True,1.5,3,f,no
,Zug,False,,4,m,yes
54,?,True,2.5,5,,no
"""


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".csv", bytes), (".csv.gz", gzip.compress), (".csv.bz2", bz2.compress), (".csv.xz", lzma.compress)],
)
def test_mixed_csv(tmp_path, suffix, pack):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(pack(MIXED.encode()))
    check_mixed(datasets.load_table(path, "y", group="sex"))


def test_mixed_parquet(tmp_path):
    frame = pd.DataFrame(
        {
            "age": pd.array([31, None, 54], dtype="Int64"),
            "city": ["Bern", "Zug", None],
            "member": [True, False, True],
            "income": [1.5, np.nan, 2.5],
            "when_hired": [3, 4, 5],
            "sex": pd.Categorical(["f", "m", None]),
            "y": ["no", "yes", "no"],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    check_mixed(datasets.load_table(str(tmp_path / "t.parquet"), "y", group=["sex"]))


def check_mixed(bunch):
    assert bunch.feature_names == ["age", "city", "member", "income", "when_hired", "sex"]
    kinds = {name: str(dtype) for name, dtype in bunch.data.dtypes.items()}
    assert kinds == {
        "age": "float64", "city": "category", "member": "bool", "income": "float64", "when_hired": "int64",
        "sex": "category",
    }  # fmt: skip
    np.testing.assert_array_equal(bunch.data["age"], [31, np.nan, 54])
    assert bunch.data["city"].isna().tolist() == [False, False, True]
    assert bunch.target.tolist() == ["no", "yes", "no"]
    assert bunch.target_names.tolist() == ["no", "yes"]
    assert bunch.groups["sex"].tolist() == ["f", "m", "missing"]


@pytest.mark.parametrize(
    "labels", [["1", "0", "1"], ["True", "False", "True"], ["1.0", "2.0", "1.0"], list("aba")]
)
def test_target_kinds(tmp_path, labels):
    bunch = load(tmp_path, "x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    assert len(bunch.target_names) == 2
    assert bunch.target[0] == bunch.target[2] != bunch.target[1]
    assert bunch.target.dtype.kind in "ibfU"


def test_declared_categories_stay_categories(tmp_path):
    frame = pd.DataFrame({"code": pd.Categorical(["1", "2", None]), "y": pd.Categorical(["0", "1", "0"])})
    frame.to_parquet(tmp_path / "t.parquet")
    bunch = datasets.load_table(tmp_path / "t.parquet", "y", group="code")
    assert bunch.data["code"].dtype == "category"
    assert bunch.data["code"].tolist()[:2] == ["1", "2"]
    assert bunch.groups["code"].tolist() == ["1", "2", "missing"]
    assert bunch.target.tolist() == ["0", "1", "0"]


def test_numbers_of_every_kind(tmp_path):
    frame = pd.DataFrame(
        {
            "decimal": [Decimal("1.5"), Decimal("2"), None],
            "huge": pd.array([2**63, 1, 2], dtype="UInt64"),
            "short": np.array([1, 2, 3], dtype=np.int8),
            "nothing": [None, None, None],
            "truth": pd.array([True, None, False], dtype="boolean"),
            "y": [0, 1, 0],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    data = datasets.load_table(tmp_path / "t.parquet", "y").data
    kinds = {name: str(dtype) for name, dtype in data.dtypes.items()}
    assert kinds == {
        "decimal": "float64",
        "huge": "float64",
        "short": "int8",
        "nothing": "float64",
        "truth": "category",
    }
    assert data["decimal"].tolist()[:2] == [1.5, 2.0]
    assert data["huge"].tolist() == [2.0**63, 1, 2]
    csv = load(tmp_path, f"x,y\n{10**30},a\n-1,b\n")
    assert csv.data["x"].tolist() in ([1e30, -1.0], [str(10**30), "-1"])


def test_group_numbers_with_gaps_stay_whole(tmp_path):
    bunch = load(tmp_path, "x,g,y\n1,1,a\n2,,b\n3,2,a\n", group=["g"])
    assert bunch.groups["g"].tolist() == ["1", "missing", "2"]


def test_months_and_codes_are_no_dates(tmp_path):
    bunch = load(tmp_path, "month,code,version,y\nmay,10-12,1.2.1034x,a\njun,01-02,1.2.3,b\n")
    assert [str(dtype) for dtype in bunch.data.dtypes] == ["category"] * 3


@pytest.mark.parametrize(
    "dates",
    [
        ("2024-01-31", "2023-12-01"),
        ("31.01.2024", "01.12.2023"),
        ("1/31/24", "12/1/23"),
        ("2024-01-31T10:00:00", "2023-12-01T00:00:00Z"),
        ("2024-01-31 10:00", "?"),
        ("31 Jan 2024", "1 Dec 2023"),
        ('"January 31, 2024"', '"Dec 1, 2023"'),
    ],
)
def test_dates_in_text_are_refused_by_name(tmp_path, dates):
    with pytest.raises(ValueError, match=r"column 'born'.*dates"):
        load(tmp_path, f"x,born,y\n1,{dates[0]},a\n2,{dates[1]},b\n")


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "datetime64[ns, UTC]", "timedelta64[ns]"])
def test_date_columns_are_refused_by_name(tmp_path, dtype):
    pd.DataFrame({"born": pd.Series([1, 2]).astype(dtype), "y": [0, 1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'born'.*dates"):
        datasets.load_table(tmp_path / "t.parquet", "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv.*empty"),
        ("\n1,2\n", "first"),
        ("x,y\n", "no rows"),
        ("y\n1\n2\n", "feature"),
        ("x,x,y\n1,2,a\n3,4,b\n", "column"),
        ("x,,y\n1,2,a\n3,4,b\n", "without"),
        ("x,y\n1,a\n2,b,3\n", "values"),
        ('a,b\n""\n', "values"),
        ("x;y\n1;a\n2;'b, c'\n", "separates"),
        (
            "CRP, mg;age;y\n12;5;a\n",
            "separates",
        ),
        ('x,y\n1,a\n"2,b\n3,a\n', "because"),
        ('x,y\n1,a\n"' + 70_000 * "2,b\n", "within"),
        ("x,z,y\n1,2,a\n2,3\n", "values"),
        ("CRP, mg,y\n1,a\n", "contains"),
        ("x,z,y\n1,2,a,9\n2,3,b,9\n", "values"),
        ("x,z\n1,a\n2,b\n", "column"),
        ("x,Y_\n1,a\n2,b\n", "column"),
        ("x;y\n1;a\n2;b\n", "separates"),
        ("x,y\n1,a\n2,\n", "missing"),
        ("x,y\n1,a\n2,a\n", "target"),
        ("x,y\n1,0.25\n2,0.5\n", "continuous"),
        ("x,y\n" + "".join(f"1,{i}\n" for i in range(300)), "different"),
        ("x,y\n1,2024-01-01\n2,2024-01-02\n", "column 'y'.*dates"),
        ("x,y\ninf,a\n2,b\n", "column 'x'.*infinite"),
        ('x,y\n"1,a\n2,b\n', "cannot"),
    ],
)
def test_bad_csv(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, text)


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="exist"):
        datasets.load_table(tmp_path / "gone.csv", "y")
    with pytest.raises(IsADirectoryError, match="folder"):
        datasets.load_table(tmp_path, "y")
    for name, content, message in [
        ("t.xlsx", b"x", r"t\.xlsx.*must end in.*\.csv"),
        ("t.csv", b"x,y\n\xff\xfe,a\n", r"t\.csv.*not UTF-8"),
        ("t.csv", b"x,y\n1,\x00\n", r"t\.csv"),
        ("t.csv.gz", b"not gzip", r"t\.csv\.gz.*cannot be read"),
        ("t.csv.gz", gzip.compress(MIXED.encode())[:-9], r"t\.csv\.gz.*cannot be read"),
        ("t.csv.xz", b"not xz", r"t\.csv\.xz.*cannot be read"),
        ("t.parquet", b"not parquet", r"t\.parquet.*cannot be read"),
        (
            "t.csv.gz",
            b"x,y\n1,a\n",
            r"no \.csv\.gz file; if it is a table of text, give it a name",
        ),
        ("t.csv", gzip.compress(MIXED.encode()), r"content is that of a \.csv\.gz file; give it a name"),
        ("t.csv", b"PAR1\x15\x04", r"content is that of a \.parquet file"),
        ("t.csv", b"PK\x03\x04sheet", "it is an Excel or zip file; save its table as CSV"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            datasets.load_table(tmp_path / name, "y")


def test_bad_groups(tmp_path):
    text = "x,sex,y\n" + "".join(f"{i},f,{i % 2}\n" for i in range(200))
    with pytest.raises(ValueError, match="column"):
        load(tmp_path, text, group=["sx"])
    with pytest.raises(ValueError, match="different"):
        load(tmp_path, text, group=["x"])


def test_lists_in_parquet_are_refused_by_name(tmp_path):
    pd.DataFrame({"tags": [[1], [2, 3]], "y": [0, 1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="column"):
        datasets.load_table(tmp_path / "t.parquet", "y")


def test_table_without_pandas(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(MIXED)
    without(monkeypatch, "pandas")
    with pytest.raises(ImportError, match="load_table"):
        datasets.load_table(tmp_path / "t.csv", "y")


# --- helpers -----------------------------------------------------------------------------------------------


def load(tmp_path, text, group=()):
    (tmp_path / "t.csv").write_text(text)
    return datasets.load_table(tmp_path / "t.csv", "y", group=group)


def without(monkeypatch, module):
    """Make `import module` fail."""
    monkeypatch.setitem(sys.modules, module, None)


def test_all_columns_of_numbers_with_codes_have_one_warning(tmp_path):
    rows = pd.DataFrame({"d 1": map(str, range(300)), "d2": map(str, range(300)), "y": [0, 1] * 150})
    rows.loc[3, ["d 1", "d2"]] = ["V57", "E9"]
    path = tmp_path / "t.csv"
    rows.to_csv(path, index=False)
    with pytest.warns(UserWarning, match="numbers") as caught:
        datasets.load_table(path, "y")
    (line,) = [str(w.message) for w in caught]
    assert line.count("is read as numbers: 1 of 300 values") == 2
    with (
        speaking_to_the_shell(),
        pytest.warns(UserWarning, match="--text 'd 1' --text d2 keeps"),
    ):
        datasets.load_table(path, "y")


@pytest.mark.parametrize("word", ["unknown", "?", "n/a", ".", "-", "none"])
def test_a_word_among_numbers_is_a_missing_value_and_said(tmp_path, word):
    ages = np.random.default_rng(0).integers(18, 92, 300)
    rows = [str(age) for age in ages]
    rows[7] = word
    path = tmp_path / "t.csv"
    path.write_text("age,y\n" + "".join(f"{age},{i % 2}\n" for i, age in enumerate(rows)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = datasets.load_table(path, "y")
    want = ages.astype(float)
    want[7] = np.nan
    np.testing.assert_array_equal(table.data["age"], want)
    assert table.schema.columns[0].kind == "number"
    said = [str(w.message) for w in caught]
    if word in ("?", "n/a"):  # words for missing values
        assert said == []
    else:
        (line,) = said
        assert repr(word) in line
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = datasets.load_table(path, "y", text="age")
        assert table.data["age"][7] == word


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_codes_are_text_on_request(suffix, tmp_path):
    path = tmp_path / f"t.{suffix}"
    frame = pd.DataFrame({"icd": [250, 401, 250, 410], "age": [1, 2, 3, 4], "y": ["p", "q", "q", "p"]})
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    table = datasets.load_table(path, "y", text=["icd"])
    assert table.data["icd"].tolist() == ["250", "401", "250", "410"]
    assert [column.kind for column in table.schema.columns] == ["text", "number"]
    with pytest.raises(ValueError, match="column"):
        datasets.load_table(path, "y", text="idc")


def test_words_among_few_numbers_or_codes_or_labels_stay_text(tmp_path):
    n = 300
    path = tmp_path / "t.csv"
    columns = {
        "few": [str(i % 5) for i in range(n)],
        "codes": [f"0{i}" for i in range(n)],
        "often": [str(i) if i % 10 else "unknown" for i in range(n)],
        "y": [str(i // 10) for i in range(n)],
    }
    for name in ("few", "codes", "y"):
        columns[name][9] = "unknown"
    pd.DataFrame(columns).to_csv(path, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = datasets.load_table(path, "y")
    assert [column.kind for column in table.schema.columns] == ["text"] * 3
    assert "unknown" in table.target_names
    path.write_text("age,id,y\n" + "".join(f"1,{'x' if i == 9 else i},{i % 2}\n" for i in range(n)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        datasets.load_table(path, "y", drop="id")  # no warning about a dropped column


def test_columns_of_numbers_are_read_as_such_and_as_text_with_another_value(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("s,t,u\n0.1,0.1,1\n?,0.50,2\n1e-3,x,3\n")
    raw = datasets.read_raw(path, numbers={"s", "absent"})
    np.testing.assert_array_equal(raw["s"].to_numpy(), [0.1, np.nan, 0.001])
    assert raw["t"].tolist() == ["0.1", "0.50", "x"]
    assert raw["u"].tolist() == ["1", "2", "3"]
    texts = datasets.read_raw(path, numbers={"s", "t"})
    assert texts["t"].tolist() == ["0.1", "0.50", "x"]
    assert texts["s"].tolist()[::2] == ["0.1", "1e-3"]
    assert datasets.read_raw(path, decimal=".", numbers={"s"})["s"].tolist()[0] == "0.1"


def test_numbers_of_a_file_are_those_of_its_text(tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=2000) * 10.0 ** rng.integers(-12, 12, 2000)
    texts = [f"{number:.{digits}g}" for digits in (6, 12, 17, 20) for number in numbers]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["s", *texts]))
    read = datasets.read_raw(path, numbers={"s"})["s"]
    assert read.dtype == np.float64
    of_text = pd.to_numeric(datasets.read_raw(path)["s"])
    np.testing.assert_array_equal(read.to_numpy(), of_text.to_numpy())
