"""Labels of CSV and Parquet files come out of the shell as they stand there, whatever their type."""

import csv

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")

from shell import done

RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 2))
HIGH = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
TABLE = pd.DataFrame({"s": 1 / (1 + np.exp(-X[:, 0])), "x": X[:, 1]})
WORDS = np.array(["no", "yes"])[HIGH]
FORMS = {
    "Int64": (pd.Series(HIGH).astype("Int64"), ["0", "1"]),
    "boolean": (pd.Series(HIGH).astype("boolean"), ["False", "True"]),
    "string": (pd.Series(WORDS).astype("string"), ["no", "yes"]),
    "categories": (pd.Series(WORDS).astype("category"), ["no", "yes"]),
    "decimals": (pd.Series(HIGH * 1.0), ["0.0", "1.0"]),
    "categories of numbers": (pd.Series(HIGH + 3).astype("category"), ["3", "4"]),
    "unsigned": (pd.Series(HIGH.astype(np.uint64) + np.uint64(2**63)), [str(2**63), str(2**63 + 1)]),
    "long Int64": (pd.Series(HIGH + 2**53).astype("Int64"), [str(2**53), str(2**53 + 1)]),
}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("form", FORMS)
def test_the_shell_writes_the_labels_of_its_file(form, suffix, tmp_path):
    labels, written = FORMS[form]
    table, data = TABLE.assign(y=labels), tmp_path / f"data.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(data)
    else:
        table.to_csv(data, index=False)
    rule, model, out = tmp_path / "rule.json", tmp_path / "m.model", tmp_path / "answers.csv"
    score = ["--score", "s", "--target", "y", "--positive", written[1], "--objective", "error"]
    done("tune", data, *score, "--out", rule)
    boosted = ["--method", "adaboost", "--set", "n_estimators=3", "--set", "estimator=stump"]
    done("fit", data, "--target", "y", *boosted, "--model", model)
    for fitted in (rule, model):
        done("predict", fitted, data, "--out", out)
        with out.open() as file:
            assert sorted({row["prediction"] for row in csv.DictReader(file)}) == written
