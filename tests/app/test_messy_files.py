"""Files as people have them: labels that look alike, missing labels, a rare label, no header."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tailboost as tb

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")

from shell import call, done, refused

from tailboost import datasets
from tailboost.core.spelling import if_no_header
from tailboost.rows.schema import warn_of_empty_columns

RNG = np.random.default_rng(0)
N = 300
X = RNG.normal(size=N)
Y = np.where(X + RNG.normal(size=N) > 0, "yes", "no").astype(object)
TABLE = pd.DataFrame({"x": X, "z": RNG.normal(size=N), "score": 1 / (1 + np.exp(-X))})
SCORE = ["--score", "score", "--target", "y", "--positive", "yes", "--objective", "error"]
FOREST = ["--target", "y", "--method", "forest"]
BOOSTING = ["--method", "adaboost", "--set", "n_estimators=3"]
TUNE = {"limits": ["miss('yes') <= 0.5"]}


def with_labels(tmp_path, rows, label, name="data.csv"):
    """Return a file in which some rows have another label."""
    y = Y.copy()
    y[rows] = label
    path = tmp_path / name
    TABLE.assign(y=y).to_csv(path, index=False)
    return path


COMMANDS = {
    "fit": ["fit", *FOREST, "--model", "m.model"],
    "boosting": ["fit", "--target", "y", *BOOSTING, "--model", "m.model"],
    "tune": ["tune", *SCORE, "--out", "rule.json"],
}


@pytest.mark.parametrize("other", ["Yes", "yes "])
@pytest.mark.parametrize("command", COMMANDS)
def test_labels_that_look_alike_are_told_once_and_before_the_work(command, other, tmp_path):
    data = with_labels(tmp_path, np.flatnonzero(Y == "yes")[:20], other)
    name, *arguments = COMMANDS[command]
    shell = [sys.executable, "-u", "-m", "tailboost", name, str(data), *arguments]
    printed = subprocess.run(
        shell, cwd=tmp_path, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ).stdout
    first_line = printed.splitlines()[0]
    first, second = sorted(["yes", other])
    assert first_line.startswith(f"warning: labels: {first!r} and {second!r} look alike")
    assert "in the file" in first_line
    assert printed.count("look alike") == 1
    assert "name." not in printed  # no advice for Python


def test_a_model_of_labels_that_look_alike_tells_of_them_at_each_file(tmp_path):
    data = with_labels(tmp_path, np.flatnonzero(Y == "yes")[:20], "Yes")
    model = tmp_path / "m.model"
    done("fit", data, *FOREST, "--model", model)
    assert call("evaluate", model, data).stderr.count("look alike") == 1


def test_python_tells_of_labels_that_look_alike(tmp_path):
    with pytest.warns(UserWarning, match=r"y: 'Yes' and 'yes' look alike.*name\.strip\(\)\.lower\(\)"):
        datasets.load_table(with_labels(tmp_path, [0, 1], "Yes"), "y")
    y = Y.copy()
    y[:3] = "Yes"
    warned = pytest.warns(UserWarning, match="y: 'Yes' and 'yes' look alike")
    with warned, pytest.raises(ValueError, match="y has 3 labels"):
        tb.tune(tb.Scores("score", "yes"), TABLE, y, **TUNE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        datasets.load_table(with_labels(tmp_path, [], "no"), "y")


@pytest.mark.parametrize("other", ["Yes", "yes "])
def test_a_later_file_with_labels_that_look_alike_is_refused_with_both(other, tmp_path):
    data, later = with_labels(tmp_path, [], ""), with_labels(tmp_path, Y == "yes", other, "later.csv")
    model, rule = tmp_path / "m.model", tmp_path / "rule.json"
    done("fit", data, *FOREST, "--model", model)
    done("tune", data, *SCORE, "--out", rule)
    first, second = sorted(["yes", other])
    says = f"{first!r} and {second!r} look alike and are different names"
    assert says in refused("evaluate", model, later)
    assert says in refused("certify", rule, later)
    assert says in refused(
        "calibrate", rule, later, "--limit", "error <= 0.5", "--model", tmp_path / "c.json"
    )
    assert says in refused("monitor", rule, later, "--limit", "error <= 0.5")


def test_a_missing_label_is_named_by_its_row_in_one_sentence(tmp_path):
    data = with_labels(tmp_path, [7, 9], None)
    says = "has 2 missing values; drop these rows first (the first is row 7, counted from 0)"
    assert says in refused("fit", data, *FOREST, "--model", tmp_path / "m.model")
    assert says in refused("tune", data, *SCORE, "--out", tmp_path / "r.json")
    with pytest.raises(ValueError, match=re.escape(says)):
        datasets.load_table(data, "y")


def test_a_third_label_is_told_with_rows_and_a_cure(tmp_path):
    data = with_labels(tmp_path, [7, 9, 100], "maybe")
    y = pd.read_csv(data)["y"]
    counts = y.value_counts()
    says = f"y has 3 labels: 'maybe' (3 rows), 'no' ({counts['no']} rows), 'yes' ({counts['yes']} rows)"
    in_shell = refused("tune", data, *SCORE, "--out", tmp_path / "r.json")
    assert says in in_shell
    assert "--score and --positive once for each label" in in_shell
    with pytest.raises(ValueError, match=re.escape(says) + r".*label=\[\.\.\.\]"):
        tb.tune(tb.Scores("score", "yes"), TABLE, y, **TUNE)


def test_a_file_without_a_header_is_told_by_its_names(tmp_path):
    data, good = tmp_path / "bare.csv", with_labels(tmp_path, [], "")
    TABLE.assign(y=Y).to_csv(data, index=False, header=False)
    says = "is a number: if the first line of a file holds data, write a line of column names above it"
    model = tmp_path / "m.model"
    done("fit", good, *FOREST, "--model", model)
    first_number = repr(str(TABLE.iloc[0, 0]))
    for arguments in (
        ["fit", data, *FOREST, "--model", tmp_path / "other.model"],
        ["tune", data, *SCORE, "--out", tmp_path / "r.json"],
        ["predict", model, data, "--out", tmp_path / "answers.csv"],
        ["evaluate", model, data],
    ):
        assert f"the name {first_number} {says}" in refused(*arguments)
    with pytest.raises(ValueError, match=says):
        datasets.load_table(data, "y")
    assert "is a number" not in refused("fit", good, "--target", "Y", "--model", model)


def test_a_title_above_the_header_and_blanks_in_names_are_told(tmp_path):
    data = tmp_path / "t.csv"
    arguments = ["tune", data, *SCORE, "--out", tmp_path / "r.json"]
    good = TABLE.assign(y=Y).to_csv(index=False)
    data.write_text(f"Export of 1 November\n{good}", encoding="utf-8")
    assert "if the first line is a title, delete it" in refused(*arguments)
    TABLE.assign(y=Y).rename(columns={"score": " score "}).to_csv(data, index=False)
    assert "did you mean ' score '?" in refused(*arguments)
    data.write_text(f"{good}1,no\n", encoding="utf-8")
    assert "in double quotes, or complete the row" in refused(*arguments)


def test_a_file_of_text_without_a_header_is_told_by_a_name_that_is_a_value(tmp_path):
    data = tmp_path / "bare.csv"
    data.write_text("oslo,no\nbergen,yes\noslo,yes\n", encoding="utf-8")
    says = "the name 'oslo' is also a value of its column: if the first line of a file holds data, write a"
    for arguments in (
        ["fit", data, "--target", "y", "--model", tmp_path / "m.model"],
        ["tune", data, *SCORE, "--out", tmp_path / "r.json"],
    ):
        assert says in refused(*arguments)
    with pytest.raises(ValueError, match=says):
        datasets.load_table(data, "target")
    data.write_text("town,ill\nbergen,yes\noslo,yes\n", encoding="utf-8")
    assert "first line" not in refused("fit", data, "--target", "y", "--model", tmp_path / "m.model")


@pytest.mark.parametrize(
    ("names", "number"),
    [
        (["5.1", "setosa"], "5.1"),
        (["setosa", "-1e-3"], "-1e-3"),
        (["a", "nan", "inf", "x1", "2nd", "1-2", ""], None),
    ],
)
def test_a_number_among_names_of_columns_is_named(names, number):
    assert (f"the name {number!r} is a number" in if_no_header(names)) == (number is not None)


@pytest.mark.parametrize("filled_in_fit", [True, False])
def test_a_column_of_missing_values_is_told_once_in_each_command(filled_in_fit, tmp_path):
    filled, empty = tmp_path / "filled.csv", tmp_path / "empty.csv"
    TABLE.assign(e=X**2, y=Y).to_csv(filled, index=False)
    TABLE.assign(e=None, y=Y).to_csv(empty, index=False)
    model, data = tmp_path / "m.model", filled if filled_in_fit else empty
    says = "only missing values in column 'e'"
    fitted = call("fit", data, *FOREST, "--model", model)
    assert fitted.stderr.count(says) == (not filled_in_fit)
    for arguments in (
        ["predict", model, empty, "--out", tmp_path / "answers.csv"],
        ["evaluate", model, empty],
        ["monitor", model, empty, "--limit", "error <= 0.9"],
    ):
        assert call(*arguments).stderr.count(says) == 1, arguments
    with pytest.warns(UserWarning, match=says):
        datasets.load_table(empty, "y")


def test_columns_with_a_value_and_short_tables_are_not_told_of_missing_values():
    one = np.full(N, np.nan)
    one[-1] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_empty_columns(pd.DataFrame({"a": one, "b": X}))
        warn_of_empty_columns(pd.DataFrame({"a": one[:19]}))
        with pytest.raises(UserWarning, match="'a'"):
            warn_of_empty_columns(pd.DataFrame({"a": one[:20], "b": X[:20]}))


def test_the_refusal_of_a_unit_names_the_way_to_keep_the_text(tmp_path):
    data = tmp_path / "data.csv"
    TABLE.assign(y=Y, term=[f"{12 + i % 49} months" for i in range(N)]).to_csv(data, index=False)
    fit = ["fit", data, *FOREST, "--model", tmp_path / "m.model"]
    assert "--text term keeps the column text" in refused(*fit)
    done(*fit, "--text", "term")
    with pytest.raises(ValueError, match=r"text=\['term'\] keeps the column text"):
        datasets.load_table(data, "y")


def test_faults_of_several_columns_are_numbered_and_each_is_told_once(tmp_path):
    data = tmp_path / "data.csv"
    days = [f"{1 + i % 28:02d}.04.2025" for i in range(N)]
    amounts = [f"{i},5" for i in range(N)]
    TABLE.assign(y=Y, came=days, paid=amounts, left=days, due=amounts).to_csv(data, index=False, sep=";")
    line = refused("fit", data, *FOREST, "--sep", ";", "--model", tmp_path / "m.model")
    assert "2 faults: (1) column 'came' of " in line
    assert line.count("holds dates or times") == line.count("read the file with --decimal") == 1
    assert (
        "so does column 'left'. To leave out all dates: --drop came --drop left. (2) column 'paid' of "
        in line
    )
    assert "so does column 'due'" in line
    with pytest.raises(
        ValueError, match=r"^column 'came' of .*; so does column 'left'\. .*: drop=\['came', 'left'\]$"
    ):
        datasets.load_table(data, "y", sep=";", decimal=",")
    given = ["fit", data, *FOREST, "--sep", ";", "--decimal", ",", "--model", tmp_path / "m.model"]
    options = refused(*given).partition("To leave out all dates: ")[2].split()
    done(*given, *options)  # as printed
    frame = TABLE.assign(came=pd.to_datetime("2025-04-01"), left=pd.to_datetime("2025-04-02"))
    with pytest.raises(
        ValueError, match=r"'came', 'left' contains dates.* X\.drop\(columns=\['came', 'left'\]\)"
    ):
        tb.AdaBoostClassifier(n_estimators=2).fit(frame, Y)
