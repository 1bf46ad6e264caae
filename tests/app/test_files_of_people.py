"""Tables as people have them: slices of data frames in Parquet, and files of spreadsheets."""

import json
from io import StringIO

import numpy as np
import pytest

for needed in ("typer", "pyarrow", "jinja2"):
    pytest.importorskip(needed)
pd = pytest.importorskip("pandas")

from shell import call, done, refused

from tailboost.storage.models import load_model

LIMIT = ("--limit", "miss(yes) <= .45")


def table(seed, n=900):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    value = np.round(1.5 * y + rng.normal(size=n), 9)
    site = rng.choice(["Köln", "Zürich"], n)
    return pd.DataFrame({"value": value, "site": site, "y": np.where(y, "yes", "no")})


def german(rows, path, *, encoding="cp1252", start=""):
    """Write rows as a German spreadsheet does."""
    text = rows.to_csv(sep=";", decimal=",", index=False, lineterminator="\r\n")
    path.write_bytes((start + text).encode(encoding))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with a model, and with fresh rows as CSV, Parquet and of a spreadsheet."""
    folder = tmp_path_factory.mktemp("files")
    table(0).to_csv(folder / "train.csv", index=False)
    fresh = table(1)
    fresh.to_csv(folder / "fresh.csv", index=False)
    fresh.set_axis(range(5000, 5900)).to_parquet(folder / "fresh.parquet")
    german(fresh, folder / "german.csv")
    fit(folder / "train.csv", folder / "c.model")
    return folder


def fit(data, model, *options):
    quick = ("--set", 'estimators=[["m", "tree"]]', "--set", "random_state=0", "-q")
    done("fit", data, "--target", "y", "--group", "site", *LIMIT, *quick, "--model", model, *options)


COMMANDS = {
    "predict": ("predict", "c.model", "DATA"),
    "evaluate": ("evaluate", "c.model", "DATA", "--json"),
    "certify": ("certify", "c.model", "DATA", "--json"),
    "calibrate": ("calibrate", "c.model", "DATA", "--model", "OUT.model", *LIMIT),
    "one batch": (
        "calibrate", "DATA", "--score", "value", "--kind", "number", "--positive", "yes", "--target", "y",
        "--model", "OUT.json", *LIMIT,
    ),
    "tune": (
        "tune", "DATA", "--score", "value", "--kind", "number", "--positive", "yes", "--target", "y", *LIMIT,
        "--out", "OUT.json",
    ),
    "monitor": ("monitor", "c.model", "DATA", "--state", "OUT.json", *LIMIT, "--batch", "b"),
    "tradeoff": ("tradeoff", "c.model", "DATA", "--json"),
    "card": ("card", "c.model", "DATA", "--out", "OUT.md"),
}  # fmt: skip
FORMS = {
    "parquet": ("fresh.parquet",),
    "spreadsheet": ("german.csv", "--sep", ";", "--decimal", ",", "--encoding", "cp1252"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_the_same_of_every_form(files, tmp_path, monkeypatch, command):
    """The same rows in Parquet with another index, and as a German CSV file, give the same words."""
    monkeypatch.chdir(files)
    said = {}
    for name, (data, *options) in {"csv": ("fresh.csv",), **FORMS}.items():
        words = [word.replace("DATA", data) for word in COMMANDS[command]]
        words = [str(tmp_path / word.replace("OUT", name)) if "OUT" in word else word for word in words]
        result = call(*words, *options)
        assert result.exit_code in (0, 3), result.output
        said[name] = result.stdout.replace(str(tmp_path / name), "").replace(data, "")
    if command == "predict":  # the output has the signs of the input
        assert said["spreadsheet"].startswith("row;prediction;")
        printed = {
            "csv": pd.read_csv(StringIO(said["csv"])),
            "spreadsheet": pd.read_csv(StringIO(said["spreadsheet"]), sep=";", decimal=","),
        }
        pd.testing.assert_frame_equal(printed["spreadsheet"], printed["csv"])
        said["spreadsheet"] = said["csv"]
    assert said["parquet"] == said["csv"]
    assert said["spreadsheet"] == said["csv"]


def test_decimal_commas_are_named_with_their_option(files, tmp_path):
    for part in (table(2), table(2)[:1]):
        data = german(part, tmp_path / "de.csv", encoding="utf-8")
        for command in (("predict", files / "c.model", data), ("evaluate", files / "c.model", data)):
            assert "decimal comma" in refused(*command, "--sep", ";")
            assert "--decimal ," in refused(*command, "--sep", ";")
    data = german(table(2), tmp_path / "de.csv", encoding="utf-8")
    message = refused("fit", data, "--sep", ";", "--target", "y", "--model", tmp_path / "d.model")
    assert "column 'value'" in message
    assert "de.csv" in message
    assert "--decimal ," in message
    score = (
        "--score",
        "value",
        "--kind",
        "number",
        "--positive",
        "yes",
        "--target",
        "y",
        "--out",
        tmp_path / "r.json",
    )
    assert "--decimal ," in refused("tune", data, "--sep", ";", *score)


def test_a_german_file_trains_the_model_of_its_numbers(files, tmp_path):
    """Without the option the column would be a category for each number."""
    data = german(table(0), tmp_path / "de.csv", encoding="utf-16", start="sep=;\r\n")
    fit(data, tmp_path / "d.model", "--decimal", ",")
    fresh = table(3)
    given = load_model(files / "c.model").predict(fresh[["value", "site"]])
    assert (load_model(tmp_path / "d.model").predict(fresh[["value", "site"]]) == given).all()
    answers = tmp_path / "answers.csv"
    result = call("predict", tmp_path / "d.model", data, "--sep", ";", "--out", answers)
    assert f"{answers} is written with --sep ';' and --decimal ','" in result.stderr.replace("\n", " ")
    assert (pd.read_csv(answers, sep=";", decimal=",")["prediction"].isin(["yes", "no"])).all()


def test_encodings_and_separators_are_named_with_their_options(files, tmp_path):
    data = german(table(2), tmp_path / "de.csv")
    assert "--encoding cp1252" in refused("predict", files / "c.model", data, "--sep", ";")
    data = german(table(2), tmp_path / "de.csv", encoding="utf-8-sig")
    assert "--sep" in refused("predict", files / "c.model", data)
    assert "'utf-9' is unknown" in refused("predict", files / "c.model", data, "--encoding", "utf-9")
    assert call("predict", files / "c.model", data, "--sep", ";", "--decimal", "x").exit_code == 2


@pytest.mark.parametrize("command", ["fit", "tune"])
def test_a_model_file_notes_how_its_table_was_written(command, tmp_path):
    """A command that writes a model file does not read the notes of the file before it."""
    for number, name in enumerate(("train", "fresh")):
        german(table(number), tmp_path / f"{name}.csv")
    table(0).to_csv(tmp_path / "commas.csv", index=False)
    signs = ("--sep", ";", "--decimal", ",", "--encoding", "cp1252")
    model, fresh = tmp_path / "c.model", tmp_path / "fresh.csv"
    if command == "fit":
        options = ("--target", "y", "--method", "forest", "--model", model)
    else:
        score = ("--score", "value", "--kind", "number", "--positive", "yes")
        options = (*score, "--target", "y", *LIMIT, "--out", model)
    done(command, tmp_path / "train.csv", *signs, *options)
    answers = done("predict", model, fresh)
    assert answers == done("predict", model, fresh, *signs)
    assert answers.startswith("row;prediction;")
    done("evaluate", model, fresh)
    done(command, tmp_path / "commas.csv", *options)
    assert "--encoding cp1252" in refused("predict", model, fresh)


def test_one_start_tells_of_encoding_separator_decimal_sign_and_columns(tmp_path):
    fresh = german(table(1), tmp_path / "german.csv")
    said = refused("tune", fresh, "--score", "Value", "--target", "y", *LIMIT, "--out", tmp_path / "r.json")
    for found in ("--encoding cp1252", "--sep ';'", "--decimal ,", "then 'value', 'site', 'y'"):
        assert found in said
    tabs = tmp_path / "tabs.csv"
    table(1).to_csv(tabs, index=False, sep="\t")
    said = refused("fit", tabs, "--target", "y", "--group", "no", "--model", tmp_path / "m.model")
    alone = ": its only column is 'value\\tsite\\ty'; if a tab separates values, state --sep tab"
    assert alone in said  # and nothing on columns that another separator hides
    assert "no column" not in said
    score = ("--score", "value", "--target", "y", *LIMIT, "--out", tmp_path / "r.json")
    assert alone in refused("tune", tabs, *score)
    plain = tmp_path / "plain.csv"
    table(1).to_csv(plain, index=False)
    said = refused("fit", plain, "--target", "Y", "--group", "Site", "--model", tmp_path / "m.model")
    assert "has no column 'Y' (--target), 'Site' (--group); did you mean 'y'? did you mean 'site'?" in said
    said = refused("fit", plain, "--target", "y", "--group", "place", "--model", tmp_path / "m.model")
    assert "has no column 'place' (--group); it has 'value', 'site', 'y'" in said
    said = refused("fit", plain, "--target", "y", "--cluster", "sight", "--model", tmp_path / "m.model")
    assert "has no column 'sight' (--drop or --cluster); did you mean 'site'?" in said


def test_a_rule_file_notes_how_its_table_was_written(tmp_path):
    """Later commands read the same kind of file without the options; another kind needs them."""
    for number, name in enumerate(("selection", "fresh")):
        german(table(number), tmp_path / f"{name}.csv")
    signs = ("--sep", ";", "--decimal", ",", "--encoding", "cp1252")
    score = ("--score", "value", "--kind", "number", "--positive", "yes", "--target", "y")
    rule, fresh = tmp_path / "rule.json", tmp_path / "fresh.csv"
    done("tune", tmp_path / "selection.csv", *signs, *score, *LIMIT, "--out", rule)
    answers = done("predict", rule, fresh)
    assert answers == done("predict", rule, fresh, *signs)
    assert answers.startswith("row;prediction;")
    assert "--group: the rule reads no group" in refused("rule", rule, "--sql", "--group", "site")
    table(1).to_csv(tmp_path / "commas.csv", index=False)
    assert "if ',' separates values, state --sep ','" in refused("predict", rule, tmp_path / "commas.csv")
    (tmp_path / "text.csv").write_text("value,y,text\n1,no,a\n2,yes,b; c\n")
    said = refused("predict", rule, tmp_path / "text.csv")
    assert "line 3 has 2 values, the header has 1; if ',' separates them, state --sep ','" in said
    assert "the columns are then 'value', 'y', 'text'" in said
    options = ("--sep", ",", "--decimal", ".", "--encoding", "utf-8")
    done("predict", rule, tmp_path / "commas.csv", *options)
    for csv in ({"sep": ";;"}, {"encoding": "utf-9"}, [1]):  # a forged file
        content = json.loads(rule.read_text())
        content["selection"]["csv"] = csv
        rule.write_text(json.dumps(content))
        assert call("predict", rule, fresh).exit_code == 2
