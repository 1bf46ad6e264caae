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
