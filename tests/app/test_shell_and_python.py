"""The shell and Python are about the same targets if the caller states none."""

import json
import shutil

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")

from shell import done

import tailboost as tb
from tailboost import rates

TREE = ("--set", "estimators=[('t', 'tree')]")
FITS = {
    "limits": ["--limit", "miss(ill) <= .4", *TREE],
    "errors of classes": ["--max-error", ".4", *TREE],
    "errors of groups": ["--group", "sex", "--max-error", ".4", *TREE],
    "a gap": ["--group", "sex", "--limit", "gap(selected(ill, by=sex)) <= .3", *TREE],
    "boosting": ["--max-error", ".45", "--method", "worstclassboost", "--set", "n_estimators=2"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=3000), "b": rng.normal(size=3000)})
    table["sex"] = rng.choice(["f", "m"], 3000)
    table["state"] = np.where(table.a + 0.5 * table.b + rng.normal(size=3000) > 0.3, "ill", "well")
    for k, name in enumerate(["train", "fresh", "later"]):
        table[1000 * k : 1000 * (k + 1)].to_csv(folder / f"{name}.csv", index=False)
    return folder


def read(folder, name, by_group):
    table = pd.read_csv(folder / f"{name}.csv")
    groups = {"groups": table[["sex"]]} if by_group else {}
    return table.drop(columns="state"), table["state"].to_numpy(), groups


def plain(certificate):
    return json.loads(json.dumps(certificate.to_dict()["bounds"]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", FITS)
def test_by_default_both_are_about_the_same_targets(folder, name, tmp_path):
    by_group = "--group" in FITS[name]
    stored, copy, out = (tmp_path / f"{part}.model" for part in ("fit", "copy", "calibrated"))
    done("fit", folder / "train.csv", "--target", "state", *FITS[name], "--model", stored)
    shutil.copy(stored, copy)
    model = tb.load_model(stored)
    X, y, groups = read(folder, "fresh", by_group)
    columns = ("--group", "sex") if by_group else ()
    shell = json.loads(done("certify", stored, folder / "fresh.csv", *columns, "--json"))
    certificate = tb.certify(model, X, y, **groups)
    assert plain(certificate) == shell["bounds"]
    assert certificate.certified == shell["certified"]
    assert certificate.certified is not None  # the fit stated something

    done("calibrate", copy, folder / "fresh.csv", "--model", out)
    calibrated = tb.calibrate(model[-1], model[:-1].transform(X), y, **groups)
    of_shell = tb.load_model(out)
    assert plain(calibrated.certificate_) == plain(of_shell[-1].certificate_)

    X, y, groups = read(folder, "later", by_group)
    later = ("monitor", out, folder / "later.csv", "--state", tmp_path / "state", "--json")
    bounds = json.loads(done(*later))["bounds"]
    monitor = tb.Monitor.against(of_shell).add(of_shell, X, y, **groups)
    assert json.loads(json.dumps(monitor.summary()["bounds"])) == bounds


@pytest.mark.slow
def test_certified_errors_are_the_targets_of_later_calls(folder):
    """A calibrated rule was selected within tighter errors, which nobody stated."""
    X, y, _ = read(folder, "train", False)
    clf = tb.tune(tb.Scores("a", label="ill", kind="number"), X, y, max_error=0.4)
    X, y, _ = read(folder, "fresh", False)
    calibrated = tb.calibrate(clf, X, y)
    X, y, _ = read(folder, "later", False)
    certificate = tb.certify(calibrated, X, y)
    assert {bound.target for bound in certificate.bounds} - {None} == {0.4}
    monitor = tb.Monitor.against(calibrated)
    assert {bound.target for bound in monitor.certificate.tested} == {0.4}


def test_errors_of_groups_need_the_groups(folder):
    X, y, groups = read(folder, "train", True)
    features = X[["a", "b"]]
    clf = tb.RobustMixtureClassifier([("t", "tree")], objective="worst_group", max_error=0.4, random_state=0)
    clf.fit(features, y, groups=groups["groups"]["sex"])
    X, y, groups = read(folder, "fresh", True)
    with pytest.raises(ValueError, match="groups"):
        tb.certify(clf, X[["a", "b"]], y)
    certificate = tb.certify(clf, X[["a", "b"]], y, groups=groups["groups"]["sex"])
    assert {bound.rate for bound in certificate.bounds} == {rates.error(by="group")}


@pytest.mark.parametrize("kind", ["probability", "number"])
def test_short_numbers_give_the_same_rule_from_every_source(kind, tmp_path):
    """NumPy, data frames with any other columns, CSV and Parquet files, in Python and in the shell."""
    rng = np.random.default_rng(5)
    p = rng.random(3_000)
    y = (rng.random(3_000) < p).astype(int)
    s = p.astype(np.float32) if kind == "probability" else np.exp(20.0 * p).astype(np.float32)
    table = pd.DataFrame({"s": s, "y": y, "site": "a", "age": rng.normal(size=3_000)})
    files = {"csv": tmp_path / "rows.csv", "parquet": tmp_path / "rows.parquet"}
    table.to_csv(files["csv"], index=False)
    table.to_parquet(files["parquet"], index=False)
    tables = [
        table[["s"]],
        table[["s", "age"]],
        table,
        pd.read_csv(files["csv"]),
        pd.read_parquet(files["parquet"]),
    ]
    limits = ["miss(1) <= 20%"]
    of_array = tb.calibrate(tb.Scores(0, 1, kind=kind), s[:, None], y, limits=limits)
    rules = [tb.calibrate(tb.Scores("s", 1, kind=kind), X, y, limits=limits).rule_ for X in tables]
    for name, path in files.items():
        out = tmp_path / f"{name}.json"
        done(
            "calibrate", path, "--score", "s", "--target", "y", "--positive", 1, "--kind", kind,
            "--limit", limits[0], "--out", out,
        )  # fmt: skip
        rules.append(tb.load_rule(out))
    assert [rule.bands for rule in rules] == [of_array.rule_.bands] * len(rules)
