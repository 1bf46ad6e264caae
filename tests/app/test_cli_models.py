"""Commands for stored models, and options of fit: columns, targets, alerts, progress."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
for needed in ("typer", "rich", "jinja2"):
    pytest.importorskip(needed)

from scipy.stats import beta
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import tailboost as tb
from tailboost import datasets
from tailboost.app import cli
from tailboost.app.cli import shared
from tailboost.app.datasets import load_credit_default
from tailboost.app.registry import METHODS
from tailboost.core.long_work import steps
from tailboost.storage.models import load_model, read_notes

SECRET = "a secret for the tests, no other"
#: Options of a fit for tests of what is around the model.
FOREST = ("--method", "forest", "--set", "n_estimators=10")


def call(*arguments, env=None):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], env=env)


def done(*arguments, env=None):
    result = call(*arguments, env=env)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, env=None):
    result = call(*arguments, env=env)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    return line


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 200
    x = rng.normal(size=n).round(3)
    return pd.DataFrame(
        {
            "person": [f"p{i:03d}" for i in range(n)],
            "x": x,
            "noise": rng.normal(size=n).round(3),
            "city": rng.choice(["Rome", "Oslo"], n),
            "w": rng.integers(1, 4, n),
            "born": "1990-05-17",
            "outcome": np.where(x + 0.7 * rng.normal(size=n) > 0.5, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def csv(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "people.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(csv):
    """A worst-class mixture with targets, an id and a dropped column of dates."""
    path = csv.parent / "m.model"
    done(
        "fit", csv, "--target", "outcome", "--cluster", "person", "--drop", "born", "--weight", "w",
        "--max-error", "yes=.3,*=.4", "--set", "n_estimators=2", "--model", path,
        "--method", "worstclassboost",
    )  # fmt: skip
    return path


@pytest.mark.slow
def test_rows_of_one_cluster_stay_together(table, tmp_path):
    """Cross-fitting fails if all rows are of one person, so the clusters reach the fit."""
    table.assign(person=1).to_csv(tmp_path / "one.csv", index=False)
    table.assign(person=np.arange(len(table)) // 2).to_csv(tmp_path / "two.csv", index=False)
    options = ("--target", "outcome", "--cluster", "person", "--drop", "born")
    options += ("--model", tmp_path / "m.model")
    refused = call("fit", tmp_path / "one.csv", *options, "--method", "robustmixture")
    assert refused.exit_code == 2
    assert call("fit", tmp_path / "one.csv", *options, "--method", "forest").exit_code == 0
    out = ("--out", tmp_path / "out", "--repeats", "1", "--methods", "forest")
    pairs = ("--target", "outcome", "--cluster", "person", "--drop", "born")
    assert call("compare", tmp_path / "two.csv", *pairs, *out).exit_code == 0
    assert json.loads((tmp_path / "out" / "results.json").read_text())["settings"]["clusters"] is True


@pytest.fixture(scope="module")
def fresh(table, csv):
    """Fresh rows."""
    path = csv.parent / "fresh.csv"
    table.assign(x=lambda t: t["x"] + 0.1234, noise=lambda t: -t["noise"]).to_csv(path, index=False)
    return path


class TestFitOptions:
    def test_dropped_columns_are_no_features(self, model, csv):
        fitted = load_model(model)
        assert list(fitted[0].feature_names_in_) == ["x", "noise", "city"]
        notes = read_notes(model)["notes"]
        assert set(notes["not_features"]) == {"person", "born", "w"}
        assert notes["rows"] == 200
        assert notes["data"] == "people.csv"
        result = done("predict", model, csv, "--out", csv.parent / "p.csv")
        assert result.stderr == ""  # unused columns give no warning

    def test_weights_are_used(self, csv, table, tmp_path):
        common = ("--drop", "person", "--drop", "born", *FOREST)
        done("fit", csv, "--target", "outcome", *common, "--weight", "w", "--model", tmp_path / "w.model")
        done("fit", csv, "--target", "outcome", *common, "--drop", "w", "--model", tmp_path / "u.model")
        one, other = (load_model(tmp_path / f"{name}.model").predict_proba(table) for name in "wu")
        assert np.abs(one - other).max() > 0.01

    def test_targets(self, model):
        clf = load_model(model)[-1]
        assert clf.max_error == {"yes": 0.3, None: 0.4}
        np.testing.assert_allclose(clf.max_error_, [0.4, 0.3])  # no, yes

    def test_targets_with_the_published_game(self, model, csv, tmp_path):
        """The published game, with early stopping for weak learners, needs its own setting."""
        assert load_model(model)[-1].gamma_ is None
        game = tmp_path / "game.model"
        done(
            "fit", csv, "--target", "outcome", "--drop", "person", "--drop", "born", "--max-error", ".3",
            "--set", "class_loss=indicator", "--set", "gamma=.1", "--set", "n_estimators=2", "--model", game,
            "--method", "worstclassboost",
        )  # fmt: skip
        assert load_model(game)[-1].gamma_ == 0.1

    def test_targets_of_a_mixture_of_models_are_shown(self, csv, fresh, tmp_path):
        path = tmp_path / "m.model"
        output = done(
            "fit", csv, "--target", "outcome", "--drop", "person", "--drop", "born", "--method",
            "robustmixture", "--set", "estimators=[('t', 'tree')]", "--max-error", "yes=.3,*=.4",
            "--model", path,
        ).stdout  # fmt: skip
        assert "On out-of-fold" in output
        document = json.loads(done("evaluate", path, fresh, "--json").stdout)
        assert {unit["name"]: unit["target"] for unit in document["errors"]} == {
            "all rows": None, "no": 0.4, "yes": 0.3
        }  # fmt: skip

    def test_targets_of_numbers_in_parquet(self, table, tmp_path):
        pytest.importorskip("pyarrow")
        frame = table[["x", "noise"]].assign(y=(table["outcome"] == "yes").astype(int))
        frame.to_parquet(tmp_path / "d.parquet")
        model = tmp_path / "m.model"
        done(
            "fit",
            tmp_path / "d.parquet",
            "--target",
            "y",
            "--max-error",
            "1=.3,*=.4",
            "--method",
            "worstclassboost",
            "--set",
            "n_estimators=1",
            "--model",
            model,
        )
        assert load_model(model)[-1].max_error == {1: 0.3, None: 0.4}
        document = json.loads(done("evaluate", model, tmp_path / "d.parquet", "--json").stdout)
        assert [unit["target"] for unit in document["errors"]] == [None, 0.4, 0.3]

    def test_targets_of_groups(self, csv, fresh, tmp_path):
        path = tmp_path / "g.model"
        done(
            "fit", csv, "--target", "outcome", "--cluster", "person", "--drop", "born", "--group", "city",
            "--group", "w", "--max-error", "city=Rome=.3,*=.4", "--error-budget", ".05",
            "--method", "worstclassboost-groups", "--set", "n_estimators=2", "--model", path,
        )  # fmt: skip
        clf = load_model(path)[-1]
        assert clf.max_error == {("city", "Rome"): 0.3, None: 0.4}
        assert clf.error_budget == 0.05
        document = json.loads(done("evaluate", path, fresh, "--json").stdout)
        targets = {unit["name"]: unit["target"] for unit in document["errors"] if unit["kind"] == "group"}
        assert targets == {"city=Rome": 0.3, "city=Oslo": 0.4, "w=1": 0.4, "w=2": 0.4, "w=3": 0.4}
        done("tradeoff", path, fresh)

    @pytest.mark.parametrize(
        ("more", "says"),
        [
            (["--max-error", "yes=.2,no"], "NAME=ERROR"),
            (["--max-error", "30"], "30 is not in (0, 1]; give a share such as .3, or percent such as 30%"),
            (["--error-budget", ".1", "--method", "forest"], "forest has no error_budget"),
            (["--error-budget", "2", "--drop", "born"], "--error-budget"),
            (["--max-error", "yes=2"], "not in (0, 1]"),
            (["--max-error", "1.5"], "1.5 is not in (0, 1]; give a share such as .3, or percent such as 30%"),
            (["--max-error", "yes=.2,yes=.3"], "occurs twice"),
            (["--max-error", ".2", "--method", "forest"], "forest has no max_error; take worstclassboost"),
            (["--max-error", ".2", "--set", "max_error=.3"], "are the same"),
            (["--method", "robustmixture", "--set", "estimators=['tree']"], "--set estimators=['tree']: "),
            (["--max-error", "maybe=.2,*=.3", "--drop", "born", "--drop", "person"], "'maybe'"),
            (["--drop", "wheight"], "'wheight'"),
            (["--weight", "city", "--drop", "born"], "must hold numbers"),
            (["--weight", "outcome", "--drop", "born"], "is the target"),
            (["--group", "outcome", "--drop", "born"], "is the target"),
            (["--sep", "ab"], "--sep"),
            (["--test", "nowhere.csv", "--drop", "born"], "nowhere.csv"),
        ],
    )
    def test_refused(self, csv, tmp_path, more, says, capsys):
        with pytest.raises(SystemExit) as end:
            cli.main(["fit", str(csv), "--target", "outcome", "--model", str(tmp_path / "m.model"), *more])
        assert end.value.code == 2
        lines = [x for x in capsys.readouterr().err.splitlines() if not x.startswith(("warning: ", "round "))]
        assert len(lines) == 1
        assert says in lines[0]
        assert not (tmp_path / "m.model").exists()

    def test_another_separator(self, table, tmp_path):
        for sep, name in ((";", ";"), ("\t", "tab")):
            table[["x", "noise", "outcome"]].to_csv(tmp_path / "d.csv", sep=sep, index=False)
            line = refused(
                "fit", tmp_path / "d.csv", "--target", "outcome", "--method", "forest",
                "--model", tmp_path / "m.model",
            )  # fmt: skip
            assert "separate" in line
            done(
                "fit", tmp_path / "d.csv", "--target", "outcome", *FOREST, "--sep", name,
                "--model", tmp_path / "m.model",
            )  # fmt: skip
            done(
                "predict",
                tmp_path / "m.model",
                tmp_path / "d.csv",
                "--sep",
                name,
                "--out",
                tmp_path / "p.csv",
            )

    def test_test_rows_and_the_table_of_classes(self, csv, tmp_path):
        common = ("--target", "outcome", "--drop", "born", "--cluster", "person", *FOREST)
        result = done("fit", csv, *common, "--model", tmp_path / "m.model", "--test", csv)
        assert re.search(r"class +yes +\d+ +0\.\d{3} +0\.\d{3} – 0\.\d{3}", result.stdout)
        quiet = done("fit", csv, *common, "--model", tmp_path / "m.model", "--quiet")
        assert quiet.output == ""

    def test_progress_in_lines(self, csv, tmp_path, monkeypatch):
        monkeypatch.setattr("tailboost.core.long_work.PATIENCE", 0)
        monkeypatch.setattr("tailboost.core.long_work.PAUSE", 0)
        result = done(
            "fit", csv, "--target", "outcome", "--drop", "born", "--cluster", "person", "--set",
            "n_estimators=2", "--method", "adalpboost", "--model", tmp_path / "m.model",
        )  # fmt: skip
        assert "rounds: 1 of 2" in result.stderr
        assert "round" not in result.stdout.split("Fitted in")[0]
        clf = load_model(tmp_path / "m.model")[-1]
        assert clf.verbose == 0

    def test_a_file_has_no_line_of_progress_twice(self, capsys):
        with shared.exit_codes(verbose=False):
            for _ in range(3):
                with steps("rows", 5) as done_with:
                    done_with.teller.tell("rows: 0 of 5")
        assert capsys.readouterr().err == "rows: 0 of 5\n"


class TestAlerts:
    def alerts(self, frame, tmp_path, *more, method=FOREST):
        frame.to_csv(tmp_path / "d.csv", index=False)
        result = done(
            "fit", tmp_path / "d.csv", "--target", "y", *method, "--model", tmp_path / "m.model", *more,
        )  # fmt: skip
        return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]

    @pytest.fixture
    def plain(self):
        rng = np.random.default_rng(1)
        n = 300
        x = rng.normal(size=n)
        return pd.DataFrame(
            {
                "x": x,
                "age": rng.integers(18, 80, n),
                "city": rng.choice(["a", "b", "c"], n),
                "y": np.where(x + rng.normal(size=n) > 0, "p", "q"),
            }
        )

    def test_none_for_an_ordinary_table(self, plain, tmp_path):
        assert self.alerts(plain, tmp_path) == []

    def test_ids_are_dropped(self, plain, tmp_path):
        """In rows sorted by class, the row number predicts the class."""
        sorted_ = plain.sort_values("y").assign(id=range(300))
        (_line,) = self.alerts(sorted_, tmp_path)
        held = json.loads(done("inspect", tmp_path / "m.model", "--json").stdout)
        assert [column["name"] for column in held["columns"]] == ["x", "age", "city"]
        assert (
            done("predict", tmp_path / "m.model", tmp_path / "d.csv", "--out", tmp_path / "o.csv").stderr
            == ""
        )
        assert any("'id' alone predicts" in line for line in self.alerts(sorted_, tmp_path, "--keep", "id"))
        held = json.loads(done("inspect", tmp_path / "m.model", "--json").stdout)
        assert "id" in [column["name"] for column in held["columns"]]

    def test_keeping_a_column_that_is_not_there(self, plain, tmp_path):
        plain.to_csv(tmp_path / "d.csv", index=False)
        result = call(
            "fit", tmp_path / "d.csv", "--target", "y", "--keep", "z", "--model", tmp_path / "m.model"
        )
        assert result.exit_code == 2

    def test_numbers_that_begin_with_0_are_codes(self, plain, tmp_path):
        rng = np.random.default_rng(0)
        zips = plain.assign(zip=[f"{i:05d}" for i in rng.integers(0, 9, 300)])
        (_line,) = self.alerts(zips, tmp_path)
        held = json.loads(done("inspect", tmp_path / "m.model", "--json").stdout)
        assert {"name": "zip", "kind": "text", "categories": 9} in held["columns"]

    def test_leaks(self, plain, tmp_path):
        (line,) = self.alerts(plain.assign(paid=np.where(plain["y"] == "p", "late", "in time")), tmp_path)
        leak = np.where(plain["y"] == "p", 5.0, 1.0) + plain["x"] / 10
        (line,) = self.alerts(plain.assign(score=leak), tmp_path)
        assert "'score' alone" in line

    def test_groups_that_are_the_target(self, plain, tmp_path):
        same = plain.assign(g=np.where(plain["y"] == "p", "one", "two"))
        lines = self.alerts(
            same, tmp_path, "--drop", "g", "--group", "g", "--set", "n_estimators=1", "--set", "cv=.3",
            method=("--method", "groupdroboost"),
        )  # fmt: skip
        assert any("--group g: every group has one class only" in line for line in lines)


class TestEvaluate:
    def test_against_counting(self, model, csv, table):
        document = json.loads(done("evaluate", model, csv, "--group", "city", "--json").stdout)
        wrong = load_model(model).predict(pd.read_csv(csv, dtype=str)) != table["outcome"]
        by_name = {unit["name"]: unit for unit in document["errors"]}
        assert list(by_name) == ["all rows", "no", "yes", "city=Oslo", "city=Rome"]
        parts = {
            "all rows": wrong,
            "yes": wrong[table["outcome"] == "yes"],
            "no": wrong[table["outcome"] == "no"],
            "city=Rome": wrong[table["city"] == "Rome"],
        }
        for name, part in parts.items():
            n, k, unit = len(part), int(part.sum()), by_name[name]
            assert unit["rows"] == n
            assert unit["error"] == pytest.approx(k / n)
            # The Clopper–Pearson interval, from quantiles of the beta distribution.
            assert unit["low"] == pytest.approx(beta.ppf(0.025, k, n - k + 1) if k else 0.0)
            assert unit["high"] == pytest.approx(beta.ppf(0.975, k + 1, n - k))
        assert (by_name["yes"]["target"], by_name["no"]["target"]) == (0.3, 0.4)
        assert by_name["all rows"]["target"] is None
        for unit in (by_name["yes"], by_name["no"]):
            assert unit["verdict"].startswith("met") == (unit["error"] <= unit["target"])

    def test_training_rows_give_a_warning(self, model, csv):
        result = done("evaluate", model, csv)
        assert "95 % interval" in result.stdout

    def test_fresh_rows_of_one_class(self, model, table, tmp_path):
        fresh = table[table["outcome"] == "yes"].assign(x=lambda t: t["x"] + 0.1234)
        fresh.to_csv(tmp_path / "new.csv", index=False)
        result = done("evaluate", model, tmp_path / "new.csv")
        assert result.stderr == ""
        assert re.search(r"class +no +0 +–", result.stdout)

    @pytest.mark.parametrize(
        ("change", "more", "says"),
        [
            (lambda t: t.drop(columns="outcome"), [], "no column 'outcome'"),
            (lambda t: t.assign(outcome="maybe"), [], "'maybe'"),
            (lambda t: t.assign(outcome=t["outcome"].where(t.index > 3)), [], "4 missing values"),
            (lambda t: t, ["--group", "town"], "no column 'town'"),
            (
                lambda t: t.drop(columns="outcome"),
                ["--group", "town", "--cluster", "who"],
                "new.csv' has no column 'outcome', 'town', 'who'; it has",
            ),
            (lambda t: t, ["--group", "person"], "100 different values"),
            (lambda t: t.head(0), [], "no rows"),
            (lambda t: t.drop(columns="x"), [], "missing column 'x'"),
        ],
    )
    def test_refused(self, model, table, tmp_path, change, more, says):
        change(table).to_csv(tmp_path / "new.csv", index=False)
        assert says in refused("evaluate", model, tmp_path / "new.csv", *more)


class TestCalibrate:
    def test_writes_the_point_of_the_library(self, model, fresh, tmp_path):
        """The file has the certificate of `tailboost.calibrate` on the same rows."""
        out = tmp_path / "c.model"
        model = shutil.copy(model, tmp_path)  # the record of attempts is written to its folder
        output = done("calibrate", model, fresh, "--model", out, "--max-error", "80%").stdout
        whole = load_model(model)
        table = datasets.read_raw(fresh)
        X = whole[:-1].transform(table[["x", "noise", "city"]])
        truth = tb.calibrate(whole[-1], X, table["outcome"].to_numpy(), max_error=0.8)
        actual = load_model(out)[-1]
        assert actual.certificate_.to_dict() == truth.certificate_.to_dict()
        assert truth.certificate_.text("--details") in output
        assert actual.error_budget == truth.error_budget

    def test_rows_may_be_equal_by_nature(self, model, fresh, tmp_path):
        out, model = tmp_path / "c.model", shutil.copy(model, tmp_path)
        done("calibrate", model, fresh, "--model", out, "--max-error", "80%", "--equal-rows", "natural")

    def test_no_model_is_written_without_a_certificate(self, model, fresh, tmp_path):
        out = tmp_path / "c.model"
        model = shutil.copy(model, tmp_path)
        result = call("calibrate", model, fresh, "--model", out, "--max-error", ".2", "--quiet")
        assert result.exit_code == 4
        # The refusal is a result, which --quiet leaves.
        assert "estimate" in result.stderr
        assert not out.exists()
        both = call(
            "calibrate", model, fresh, "--model", out, "--max-error", ".3", "--limit", "error() <= .3"
        )
        assert both.exit_code == 2

    def test_a_limit_out_of_reach_of_the_selection_data_leaves_the_model_file_as_it_was(
        self, model, fresh, tmp_path
    ):
        model = Path(shutil.copy(model, tmp_path))
        result = call("calibrate", model, fresh, "--model", tmp_path / "c.model", "--max-error", ".05")
        assert result.exit_code == 4
        assert load_model(model)[-1].ledger_.attempts == ()


class TestAttempts:
    @pytest.mark.slow
    def test_a_failure_is_recorded_in_the_model_file(self, model, fresh, tmp_path):
        model, table = Path(shutil.copy(model, tmp_path)), datasets.read_raw(fresh)
        out, other = tmp_path / "c.model", tmp_path / "other.csv"
        first = "calibrate", model, fresh, "--model", out, "--max-error", ".2"
        unspent = tmp_path / "unspent.model"
        shutil.copy(model, unspent)
        answers = done("predict", model, fresh).stdout
        failed = call(*first)
        assert failed.exit_code == 4
        assert done("predict", model, fresh).stdout == answers
        before = model.read_bytes()
        again = call(*first)  # the same call gives the same result and adds no attempt
        _first_line, _, error = again.stderr.partition("\n")
        assert (again.exit_code, error, model.read_bytes()) == (4, failed.stderr, before)
        copied = tmp_path / "copied.model"
        shutil.copy(model, copied)
        for path in (model, copied):
            spent = call("calibrate", path, *first[2:-1], "80%")
            assert spent.exit_code == 2
        assert call("calibrate", unspent, *first[2:-1], "80%", "--previous", model).exit_code == 2
        assert not out.exists()
        table.assign(x=table["x"].astype(float) + 1e-3).to_csv(other, index=False)
        done("calibrate", model, other, "--model", out, "--max-error", "80%")
        point = load_model(out)[-1]
        assert len(point.certificate_.attempts) == len(point.ledger_.attempts) == 2
        assert any(note.startswith("This was attempt 2. It spent 0.09") for note in point.certificate_.notes)
        table.assign(x=table["x"].astype(float) + 2e-3).to_csv(other, index=False)
        tested = json.loads(done("certify", out, other, "--json").stdout)
        assert {b["target"] for b in tested["bounds"] if b["kind"] == "class"} == {0.8}

    def test_a_read_only_file_is_refused_before_any_test(self, model, fresh, tmp_path):
        model = Path(shutil.copy(model, tmp_path))
        model.chmod(0o444)
        before = model.read_bytes()
        "calibrate", model, fresh, "--model", tmp_path / "c.model", "--max-error", "80%"
        assert model.read_bytes() == before
        assert not (tmp_path / "c.model").exists()


class TestInspect:
    def test_description(self, model):
        document = json.loads(done("inspect", model, "--json").stdout)
        assert document["classifier"] == "WorstClassBoostClassifier"
        assert document["classes"] == ["no", "yes"]
        assert document["target"] == "outcome"
        assert [c["name"] for c in document["columns"]] == ["x", "noise", "city"]
        assert document["columns"][2]["categories"] == 2
        assert document["trained_on"]["rows"] == 200
        assert document["versions"]["numpy"] == np.__version__
        assert document["summary"] == load_model(model)[-1].summary_.details
        short, text = (done("inspect", model, *more).stdout for more in ([], ["--details"]))
        for words in ("200 rows of people.csv", "outcome", "yes (", "born, person, w", "max_error="):
            assert words in short
            assert words in text
        guarantee = load_model(model)[-1].summary_
        assert guarantee.headline in short
        assert not set("ληγ") & set(short)
        for words in ("noise", "symbols: T = "):
            assert words not in short
            assert words in text

    def test_a_model_from_python(self, tmp_path):
        from sklearn.datasets import load_iris
        from sklearn.tree import DecisionTreeClassifier

        import tailboost as tb

        clf = tb.AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=2)
        tb.save_model(clf.fit(*load_iris(return_X_y=True)), tmp_path / "m.model")
        text = done("inspect", tmp_path / "m.model").stdout
        assert "AdaBoostClassifier" in text
        assert "not noted" in text

    def test_refused(self, csv, tmp_path):
        assert "none.model" in refused("inspect", tmp_path / "none.model")


class TestTradeoff:
    def test_the_curve_and_predict_along_it(self, model, fresh, table):
        document = json.loads(done("tradeoff", model, fresh, "--json").stdout)
        fitted = load_model(model)
        curve = fitted[-1].tradeoff()
        np.testing.assert_allclose(document["curve"]["objective"], curve.values.value)
        np.testing.assert_allclose(document["curve"]["limited"], curve.values.limited)
        rows = fitted[0].transform(pd.read_csv(fresh, dtype=str).drop(columns=["person", "w", "born"]))
        assert document["objective"] == "error"
        for point, mean in zip(curve, document["curve"]["predict_objective"], strict=True):
            wrong = point.classifier.predict(rows) != table["outcome"]
            assert mean == pytest.approx(wrong.mean())
        printed = done("tradeoff", model).stdout
        assert str(curve.objective) in printed

    def test_the_model_of_a_point(self, model, fresh, tmp_path):
        before = load_model(model)
        level = before[-1].tradeoff()[0].limited + 0.01
        done("tradeoff", model, "--pick", str(level), "--model", tmp_path / "p.model")
        after = load_model(tmp_path / "p.model")
        expected = before[-1].tradeoff().at(level).estimator_weights_
        np.testing.assert_allclose(after[-1].estimator_weights_, expected)
        notes = read_notes(tmp_path / "p.model")["notes"]
        assert (notes["limit"], notes["data"]) == (level, "people.csv")
        done("evaluate", tmp_path / "p.model", fresh)

    def test_the_page_names_the_model_and_the_rows(self, model, fresh, tmp_path):
        out = tmp_path / "curve.html"
        assert f"Page: {out}" in done("tradeoff", model, fresh, "--page", out).stdout
        content = out.read_text(encoding="utf-8")
        block = re.search(r'<script type="application/json" id="data">(.*?)</script>', content, re.DOTALL)
        about = json.loads(block[1])
        curve = load_model(model)[-1].tradeoff()
        np.testing.assert_allclose([p["limited"] for p in about["points"]], curve.values.limited)
        assert len(about["measured"]) == len(curve)
        (level,) = re.fullmatch(r"curve\.at\((.*)\)", about["points"][0]["call"]).groups()
        point = tmp_path / "point.model"
        done("tradeoff", model, "--pick", level, "--model", point)
        expected = curve[0].classifier.estimator_weights_
        np.testing.assert_allclose(load_model(point)[-1].estimator_weights_, expected)

    @pytest.mark.parametrize("ending", ["csv", "json", "png", "svg", "pdf"])
    def test_files(self, model, fresh, tmp_path, ending):
        pytest.importorskip("matplotlib")
        out = tmp_path / f"curve.{ending}"
        done("tradeoff", model, fresh, "--out", out)
        content = out.read_bytes()
        if ending == "csv":
            assert list(pd.read_csv(out)) == ["limited", "objective", "predict_limited", "predict_objective"]
        elif ending == "json":
            assert json.loads(content)["objective"] == "error"
        else:
            assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])

    def test_refused(self, model, csv, tmp_path):
        forest = tmp_path / "f.model"
        done(
            "fit", csv, "--target", "outcome", "--drop", "born", "--drop", "person", *FOREST,
            "--model", forest,
        )  # fmt: skip
        several = ["--deferred", "5%", "--page", tmp_path / "curve.html"]
        assert "not with --deferred" in refused("tradeoff", model, *several)
        assert "belong together" in refused("tradeoff", model, "--pick", "0.1")
        before = model.read_bytes()
        assert "would overwrite" in refused("tradeoff", model, "--pick", "0.1", "--model", model)
        assert model.read_bytes() == before


class TestCertify:
    def test_bounds_of_the_library(self, model, fresh, table):
        import tailboost as tb

        document = json.loads(
            done(
                "certify", model, fresh, "--group", "city", "--confidence", "0.9",
                "--max-error", "city=Rome=.99,*=.01", "--json",
            ).stdout
        )  # fmt: skip
        fitted = load_model(model)
        rows = fitted[0].transform(pd.read_csv(fresh, dtype=str).drop(columns=["person", "w", "born"]))
        expected = tb.certify(
            fitted[-1], rows, table["outcome"].to_numpy(), confidence=0.9, groups=table[["city"]],
            max_error={("city", "Rome"): 0.99, None: 0.01},
        )  # fmt: skip
        assert [b["upper"] for b in document["bounds"]] == [b.upper for b in expected.bounds]
        assert document["certified"] is False
        by_group = {tuple(b["subgroup"]): b for b in document["bounds"] if b["kind"] == "group"}
        assert by_group["city", "Rome"]["target"] == 0.99
        assert by_group["city", "Oslo"]["target"] == 0.01
        assert by_group["city", "Rome"]["certified"] is True

    def test_targets_of_the_fit(self, model, fresh):
        document = json.loads(done("certify", model, fresh, "--json").stdout)
        targets = {b["subgroup"]: b["target"] for b in document["bounds"] if b["kind"] == "class"}
        assert targets == {"yes": 0.3, "no": 0.4}

    def test_training_rows_are_refused(self, model, csv):
        line = refused("certify", model, csv)
        assert line.endswith("state --equal-rows natural")

    @pytest.mark.parametrize(
        ("more", "says"),
        [
            (["--max-error", "maybe=.2"], "maybe"),
            (["--group", "town"], "'town'"),
            (["--target", "answer"], "'answer'"),
        ],
    )
    def test_refused(self, model, fresh, more, says):
        assert says in refused("certify", model, fresh, *more)


@pytest.fixture(scope="module")
def credit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("credit")
    X, y = load_credit_default(return_X_y=True)
    rows = X.assign(default=y, client=[f"c{i}" for i in range(len(y))])
    rows[:600].to_csv(folder / "train.csv", index=False)
    rows[600:1200].to_csv(folder / "fresh.csv", index=False)
    done(
        "fit", folder / "train.csv", "--target", "default", "--group", "SEX", "--cluster", "client",
        "--method", "robustmixture", "--set", "objective=worst_cell", "--set", "randomized=true",
        "--set", "by_group=true", "--set", 'estimators=[("trees", "extra")]', "--set", "cv=.3",
        "--model", folder / "m.model",
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def credit_model(credit):
    """The stored classifier, and features, labels and groups of the fresh rows."""
    pipeline, rows = load_model(credit / "m.model"), pd.read_csv(credit / "fresh.csv", dtype=str)
    X = pipeline[0].transform(rows.drop(columns=["default", "client"]))
    return pipeline[-1], X, rows["default"].to_numpy(), rows[["SEX"]]


def test_cells_have_one_name(csv, tmp_path):
    done(
        "fit", csv, "--target", "outcome", "--cluster", "person", "--drop", "born", "--group", "city",
        "--method", "robustmixture", "--set", "objective=worst_cell", "--set", "by_group=true",
        "--set", "estimators=[('t', 'tree')]", "--model", tmp_path / "m.model",
    )  # fmt: skip
    shown = done("inspect", tmp_path / "m.model").stdout
    assert "('" not in shown.split("Summary")[1]


class TestGroupsAtPrediction:
    """Credit data by SEX: all commands read the groups from the file, as `fit` does."""

    @pytest.mark.slow
    def test_answers_and_errors(self, credit, credit_model, tmp_path):
        clf, X, y, groups = credit_model
        assert len({line.split(": ")[0] for line in clf.candidates_}) > 1
        done("predict", credit / "m.model", credit / "fresh.csv", "--out", tmp_path / "p.csv")
        written = pd.read_csv(tmp_path / "p.csv", dtype={"prediction": str})
        assert written["prediction"].tolist() == clf.predict(X, groups=groups).tolist()
        drawn = clf.predict_distribution(X, groups=groups)[:, 1]
        np.testing.assert_allclose(written["distribution_1"], drawn, atol=1e-8)
        errors = json.loads(done("evaluate", credit / "m.model", credit / "fresh.csv", "--json").stdout)
        assert errors["errors"][0]["error"] == pytest.approx(1 - clf.score(X, y, groups=groups))
        assert "by_group=True" in done("inspect", credit / "m.model").stdout

    @pytest.mark.parametrize("more", [[], ["MARRIAGE"]])
    def test_bounds(self, credit, credit_model, more):
        import tailboost as tb

        clf, X, y, _ = credit_model
        rows = pd.read_csv(credit / "fresh.csv", dtype=str)[["SEX", *more]]
        options = [word for name in more for word in ("--group", name)]
        shown = json.loads(
            done("certify", credit / "m.model", credit / "fresh.csv", "--json", *options).stdout
        )
        expected = tb.certify(clf, X, y, groups=rows)
        assert [b["upper"] for b in shown["bounds"]] == [b.upper for b in expected.bounds]

    def test_draws(self, credit, credit_model, tmp_path):
        import tailboost as tb

        clf, X, _, groups = credit_model
        done(
            "decide", credit / "m.model", credit / "fresh.csv", "--id", "client", "--secret-env", "POLICY",
            "--context", "tests", "--out", tmp_path / "d.csv", env={"POLICY": SECRET},
        )  # fmt: skip
        policy = tb.RandomizedDecision(clf, SECRET.encode(), "tests")
        expected = policy.decide(X, [f"c{i}" for i in range(600, 1200)], groups=groups)
        written = pd.read_csv(tmp_path / "d.csv", dtype={"prediction": str})
        assert written["prediction"].tolist() == expected.y.tolist()
        assert written["candidate"].tolist() == expected.candidate.tolist()

    @pytest.mark.slow
    def test_the_curve_and_a_point_of_it(self, credit, credit_model, tmp_path):
        clf, X, y, groups = credit_model
        level = clf.tradeoff()[0].limited + 0.01
        document = json.loads(
            done(
                "tradeoff", credit / "m.model", credit / "fresh.csv", "--pick", str(level),
                "--model", tmp_path / "p.model", "--json", "--quiet",
            ).stdout
        )  # fmt: skip
        points = clf.tradeoff().predicted(X, y, groups=groups)
        np.testing.assert_allclose(document["curve"]["predict_objective"], points.value)
        done("predict", tmp_path / "p.model", credit / "fresh.csv", "--out", tmp_path / "p.csv")
        expected = clf.tradeoff().at(level).predict(X, groups=groups)
        assert pd.read_csv(tmp_path / "p.csv", dtype=str)["prediction"].tolist() == expected.tolist()

    def test_refused(self, credit, tmp_path):
        rows, out = pd.read_csv(credit / "fresh.csv", dtype=str), tmp_path / "p.csv"
        rows.assign(SEX="7").to_csv(tmp_path / "unseen.csv", index=False)
        rows.drop(columns="SEX").to_csv(tmp_path / "without.csv", index=False)
        refused("predict", credit / "m.model", tmp_path / "unseen.csv", "--out", out)
        for command, more in (
            ("predict", ["--out", out]),
            ("evaluate", []),
            ("certify", []),
            ("tradeoff", []),
        ):
            assert "'SEX'" in refused(command, credit / "m.model", tmp_path / "without.csv", *more)

    @pytest.mark.slow
    def test_groups_that_are_no_feature(self, credit, tmp_path):
        """Groups are read if they are no feature, and a missing column is named."""
        model, out = tmp_path / "m.model", tmp_path / "p.csv"
        done(
            "fit", credit / "train.csv", "--target", "default", "--group", "SEX", "--drop", "SEX",
            "--cluster", "client", "--method", "robustmixture", "--set", "by_group=true",
            "--set", 'estimators=[("trees", "extra")]', "--model", model,
        )  # fmt: skip
        assert load_model(model)[-1].objective == "worst_group"
        done("predict", model, credit / "fresh.csv", "--out", out)
        rows = pd.read_csv(credit / "fresh.csv", dtype=str).drop(columns="SEX")
        rows.to_csv(tmp_path / "without.csv", index=False)


class TestDecide:
    def decide(self, model, data, out, *more, env=None):
        given = {"POLICY": SECRET} if env is None else env
        return call(
            "decide", model, data, "--id", "person", "--secret-env", "POLICY", "--out", out, *more, env=given
        )

    @pytest.fixture
    def mixture(self, csv, tmp_path):
        done(
            "fit", csv, "--target", "outcome", "--drop", "born", "--cluster", "person", "--drop", "w",
            "--method", "averageboost", "--set", "n_estimators=4", "--model", tmp_path / "a.model",
        )  # fmt: skip
        return tmp_path / "a.model"

    def test_draws_are_those_of_the_library(self, mixture, csv, table, tmp_path):
        import tailboost as tb

        result = self.decide(mixture, csv, tmp_path / "d.csv", "--context", "tests")
        assert result.exit_code == 0, result.output
        fitted = load_model(mixture)
        policy = tb.RandomizedDecision(fitted, SECRET.encode(), "tests")
        expected = policy.decide(pd.read_csv(csv, dtype=str), table["person"])
        written = pd.read_csv(tmp_path / "d.csv", dtype={"u": str})
        written["u"] = written["u"].map(float)  # u is written with all digits
        assert list(written) == ["person", "prediction", "candidate", "u"]
        assert written["person"].tolist() == table["person"].tolist()
        assert written["prediction"].tolist() == expected.y.tolist()
        assert written["candidate"].tolist() == expected.candidate.tolist()
        assert written["u"].tolist() == expected.u.tolist()
        assert SECRET not in result.output

    def test_the_same_person_in_another_file(self, mixture, csv, table, tmp_path):
        assert self.decide(mixture, csv, tmp_path / "d.csv").exit_code == 0
        table.sample(frac=0.3, random_state=0).drop(columns="outcome").to_csv(
            tmp_path / "part.csv", index=False
        )
        assert self.decide(mixture, tmp_path / "part.csv", tmp_path / "e.csv").exit_code == 0
        whole = pd.read_csv(tmp_path / "d.csv").set_index("person")
        part = pd.read_csv(tmp_path / "e.csv").set_index("person")
        pd.testing.assert_frame_equal(part, whole.loc[part.index])

    def test_refused(self, mixture, csv, table, tmp_path):
        out = tmp_path / "d.csv"
        for env, says in (
            ({"POLICY": None}, "the given variable does not exist"),
            ({"POLICY": "short"}, "got 5"),
        ):
            result = self.decide(mixture, csv, out, env=env)
            assert result.exit_code == 2
            assert says in result.stderr
        table.assign(person="p1").to_csv(tmp_path / "twice.csv", index=False)
        table.assign(person=table["person"].where(table.index > 0)).to_csv(tmp_path / "gap.csv", index=False)
        for name, says in (("twice", "comes more than once"), ("gap", "1 missing value; drop")):
            result = self.decide(mixture, tmp_path / f"{name}.csv", out)
            assert result.exit_code == 2
            assert says in result.stderr
        done(
            "fit", csv, "--target", "outcome", "--drop", "born", "--drop", "person", *FOREST,
            "--model", tmp_path / "f.model",
        )  # fmt: skip
        assert not out.exists()


class TestShell:
    def test_ids_beside_predictions(self, model, csv, table, tmp_path):
        done("predict", model, csv, "--id", "person", "--out", tmp_path / "p.csv")
        written = pd.read_csv(tmp_path / "p.csv")
        assert list(written)[:3] == ["row", "person", "prediction"]
        assert written["person"].tolist() == table["person"].tolist()

    @pytest.mark.parametrize("name", sorted(METHODS))
    def test_parameters_of_a_method(self, name):
        pytest.importorskip("xgboost")
        document = json.loads(done("list", "--method", name, "--json").stdout)
        params = METHODS[name].make().get_params(deep=False)
        assert {p["name"]: p["default"] for p in document["parameters"]} == {
            k: repr(v) for k, v in params.items()
        }
        if METHODS[name].ours:
            assert all(p["takes"] for p in document["parameters"])
        assert all(p in done("list", "--method", name).stdout for p in list(params)[:1])

    def test_list_in_json(self):
        document = json.loads(done("list", "--json").stdout)
        assert [m["name"] for m in document["methods"]] == list(METHODS)

    def test_short_help(self):
        for command in ((), ("fit",), ("evaluate",), ("inspect",), ("tradeoff",), ("certify",), ("decide",)):
            assert "Usage" in done(*command, "-h").stdout

    @pytest.mark.slow
    def test_completion(self):
        code = "from tailboost.app.cli import main; main()"
        environment = {
            **os.environ,
            "_TAILBOOST_COMPLETE": "complete_bash",
            "COMP_WORDS": "tailboost ins",
            "COMP_CWORD": "1",
        }
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
        )
        assert result.stdout.split() == ["inspect"]

    def test_default_methods_of_compare(self, csv, tmp_path, monkeypatch):
        asked = []

        def stop(*args, methods, **kwargs):
            asked.append([m.name for m in methods])
            raise ValueError("enough")

        monkeypatch.setattr("tailboost.app.cli.compare.compare", stop)
        for more in ((), ("--group", "city")):
            result = call("compare", csv, "--target", "outcome", "--drop", "born", "--out", tmp_path, *more)
            assert "enough" in result.stderr
        assert "groupdroboost" not in asked[0]
        assert {"groupdroboost", "xgboost-cells"} <= set(asked[1])
        assert all({"robustmixture", "forest-balanced"} <= set(names) for names in asked)
        assert all(5 < len(names) < 12 for names in asked)

    def test_values_beyond_32_bits_raise_no_alarm(self, tmp_path):
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80), "y": np.arange(80) % 2})
        table.loc[3, "a"] = 1e300
        table.to_csv(tmp_path / "t.csv", index=False)
        result = call("fit", tmp_path / "t.csv", "--target", "y", *FOREST, "--model", tmp_path / "m.model")
        assert "predicts" not in result.stderr
        assert result.exit_code in (0, 2), result.stderr

    @pytest.mark.slow
    def test_progress_of_compare_in_lines(self, csv, tmp_path, monkeypatch):
        monkeypatch.setattr("tailboost.core.long_work.PATIENCE", 0)
        monkeypatch.setattr("tailboost.core.long_work.PAUSE", 0)
        common = ("compare", csv, "--target", "outcome", "--drop", "born", "--drop", "person",
                  "--methods", "forest", "--repeats", "1", "--out", tmp_path)  # fmt: skip
        assert done(*common, "--quiet").stderr == ""

    @pytest.mark.skipif(not hasattr(signal, "pause"), reason="needs POSIX signals")
    def test_ctrl_c(self, csv, tmp_path, monkeypatch):
        def interrupted(*args, **kwargs):
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()

        monkeypatch.setattr("tailboost.app.cli.models.load_model", interrupted)
        for command in (
            ("evaluate", "m.model", csv),
            ("inspect", "m.model"),
            ("predict", "m.model", csv, "--out", tmp_path / "p.csv"),
        ):
            result = call(*command)
            assert result.exit_code == 130


class TestNotes:
    def test_they_come_back_and_are_sealed(self, tmp_path):
        import zipfile

        from sklearn.tree import DecisionTreeClassifier

        from tailboost.storage.models import save_model

        tree = DecisionTreeClassifier().fit([[0], [1]], [0, 1])
        path = tmp_path / "t.model"
        save_model(tree, path, notes={"who": "Zoë", "rows": 2})
        assert read_notes(path)["notes"] == {"who": "Zoë", "rows": 2}
        assert load_model(path).predict([[1]])[0] == 1
        save_model(tree, path)
        assert read_notes(path)["notes"] == {}
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        with pytest.raises(TypeError, match="values"):
            save_model(tree, path, notes={"who": object()})
        assert hashlib.sha256(path.read_bytes()).hexdigest() == before

        save_model(tree, path, notes={"rows": 2})
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content.replace(b'"rows": 2', b'"rows": 3'))
        with pytest.raises(ValueError, match="damaged"):
            read_notes(path)
        with pytest.raises(FileNotFoundError, match="nowhere"):
            read_notes(tmp_path / "nowhere.model")


class TestHostileContent:
    """Names and values that a terminal, a spreadsheet or an XML parser would execute."""

    def test_control_characters_are_shown_not_obeyed(self, tmp_path):
        rng = np.random.default_rng(0)
        red, turned = "p\x1b[31m", "q\u202e\x9b2J"
        x = rng.normal(size=120)
        table = pd.DataFrame({"x\x07": x, "y": np.where(x > 0, red, turned)})
        table.to_csv(tmp_path / "d.csv", index=False)
        fitted = done(
            "fit", tmp_path / "d.csv", "--target", "y", "--method", "averageboost", "--set", "n_estimators=2",
            "--model", tmp_path / "m.model",
        )  # fmt: skip
        shown = [fitted.stdout, fitted.stderr]
        for command in (
            ("inspect", tmp_path / "m.model"),
            ("evaluate", tmp_path / "m.model", tmp_path / "d.csv"),
        ):
            result = done(*command)
            shown += [result.stdout, result.stderr]
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", "".join(shown))
        assert r"p\x1b[31m" in "".join(shown)

    def test_the_name_of_a_column_may_be_a_formula(self, tmp_path):
        rng = np.random.default_rng(0)
        name = "=cmd|' /C calc'!A0"
        table = pd.DataFrame({name: [f"p{i}" for i in range(100)], "x": rng.normal(size=100)})
        table.assign(y=np.where(table["x"] > 0, "a", "b")).to_csv(tmp_path / "d.csv", index=False)
        done(
            "fit", tmp_path / "d.csv", "--target", "y", "--cluster", name, "--model", tmp_path / "m.model",
            "--method", "averageboost", "--set", "n_estimators=2",
        )  # fmt: skip
        done(
            "predict", tmp_path / "m.model", tmp_path / "d.csv", "--id", name, "--escape-formulas",
            "--out", tmp_path / "o.csv",
        )  # fmt: skip
        assert list(pd.read_csv(tmp_path / "o.csv").columns)[1] == f"'{name}"

    def test_a_secret_given_as_the_name_of_a_variable_is_not_repeated(self, tmp_path):
        pd.DataFrame({"id": [1, 2], "x": [0.0, 1.0]}).to_csv(tmp_path / "d.csv", index=False)
        (tmp_path / "m.model").write_bytes(b"")
        result = call(
            "decide", tmp_path / "m.model", tmp_path / "d.csv", "--id", "id",
            "--secret-env", "hunter2hunter2hunter2", "--out", tmp_path / "o.csv",
        )  # fmt: skip
        assert result.exit_code == 2
        assert "hunter2" not in result.stderr + result.stdout

    def test_a_learner_of_an_unknown_name_is_the_users_mistake(self, csv, tmp_path):
        result = call(
            "fit", csv, "--target", "outcome", "--drop", "born", "--model", tmp_path / "m.model",
            "--method", "adalpboost", "--set", "estimator=nope",
        )  # fmt: skip
        assert result.exit_code == 2

    def test_labels_of_digits_cost_no_opponent(self, tmp_path):
        rng = np.random.default_rng(0)
        x = rng.normal(size=120)
        pd.DataFrame({"x": x, "y": (x > 0).astype(int)}).to_csv(tmp_path / "d.csv", index=False)
        result = done(
            "compare", tmp_path / "d.csv", "--target", "y", "--methods", "forest-balanced", "--repeats", "1",
            "--rows", "200", "--out", tmp_path / "out",
        )  # fmt: skip
        assert "failed" not in result.stderr

    def test_damaged_text_in_a_parquet_file(self, tmp_path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        text = pa.array([b"abc", b"\xff\xfe\xfd"]).cast(pa.binary())
        damaged = pa.Array.from_buffers(pa.string(), 2, text.buffers())
        pq.write_table(pa.table({"t": damaged, "y": ["a", "b"]}), tmp_path / "d.parquet")
        result = call("fit", tmp_path / "d.parquet", "--target", "y", "--model", tmp_path / "m.model")
        assert result.exit_code == 2


@pytest.mark.parametrize(("written", "read"), [("30%", 0.3), (".3", 0.3), ("130%", None)])
def test_fractions_may_be_written_in_percent(written, read, csv, tmp_path):
    result = call(
        "fit", csv, "--target", "outcome", "--drop", "born", "--model", tmp_path / "m.model",
        "--error-budget", written, "--set", 'estimators=[("one", "tree")]',
    )  # fmt: skip
    if written == "130%":
        assert result.exit_code == 2
    else:
        assert result.exit_code == 0, result.stderr


class TestDeferral:
    @pytest.fixture
    def deferring(self, csv, tmp_path):
        done(
            "fit", csv, "--target", "outcome", "--drop", "born", "--cluster", "person", "--drop", "w",
            "--method", "robustmixture", "--set", 'estimators=[("trees", "extra")]', "--group", "city",
            "--limit", "deferred() <= 30%", "--limit", "deferred(by=city) <= .4", "--set", "by_group=false",
            "--model", tmp_path / "d.model",
        )  # fmt: skip
        return tmp_path / "d.model"

    def test_the_models_answer_once_in_evaluate(self, deferring, csv, monkeypatch):
        passes = []

        def counted(what, total):
            passes.append((what, total))
            return steps(what, total)

        monkeypatch.setattr("tailboost.classifiers.robust_selection.steps", counted)
        done("evaluate", deferring, csv)
        assert passes.count(("rows", 200)) == 1  # loading answers other rows

    @pytest.mark.slow
    def test_evaluate_shows_errors_among_the_answered_and_deferral_rates(self, deferring, csv):
        from tailboost import rates

        model, rows = load_model(deferring), pd.read_csv(csv, dtype=str)
        answers, passed = model.predict(rows), model[-1].defers(model[:-1].transform(rows))
        actual = json.loads(done("evaluate", deferring, csv, "--json").stdout)["rates"]
        seen = {(line["rate"], str(line["subgroup"])): line["value"] for line in actual}
        for by in (None, "class", "group"):
            for rate in (rates.answered_error(by=by), rates.deferred(by=by)):
                counted = rates.measure(
                    rate, rows["outcome"], answers, groups={"city": rows["city"]}, deferred=passed
                )
                assert {str(u): seen[str(rate), str(u)] for u in counted} == {
                    str(u): pytest.approx(v) for u, v in counted.items()
                }
        done("evaluate", deferring, csv)
        errors = json.loads(done("evaluate", deferring, csv, "--json").stdout)
        assert errors["deferred"] == passed.sum()
        counted = tb.metrics.class_errors(rows["outcome"], answers, deferred=passed)
        by_class = {unit["name"]: unit["error"] for unit in errors["errors"] if unit["kind"] == "class"}
        assert by_class == {str(label): pytest.approx(error) for label, error in counted.items()}
        assert by_class["yes"] == pytest.approx(
            *rates.measure(rates.miss("yes"), rows["outcome"], answers, deferred=passed).values()
        )

    @pytest.mark.slow
    def test_curves_by_deferral_rate(self, deferring, tmp_path):
        call = (
            "tradeoff", deferring, "--limited", "largest(answered_error(by=class))",
            "--objective", "answered_error()", "--deferred", "0", "--deferred", "20%",
        )  # fmt: skip
        actual = json.loads(done(*call, "--json", "--quiet", "--out", tmp_path / "c.csv").stdout)
        assert [one["deferred"] for one in actual] == [0, 0.2]
        assert min(actual[1]["curve"]["objective"]) <= min(actual[0]["curve"]["objective"])
        written = pd.read_csv(tmp_path / "c.csv", float_precision="round_trip")
        assert written["objective"].tolist() == [x for one in actual for x in one["curve"]["objective"]]

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_predict_and_decide_say_human_review(self, deferring, table, tmp_path):
        csv, out = tmp_path / "new.csv", tmp_path / "out.csv"
        table.assign(x=np.linspace(-1, 2, len(table)).round(4)).to_csv(csv, index=False)
        model, rows = load_model(deferring), pd.read_csv(csv, dtype=str)
        passed = model[-1].defers(model[:-1].transform(rows))
        assert 0 < passed.sum() < len(rows)
        done("predict", deferring, csv, "--out", out)
        written = pd.read_csv(out)
        assert written["deferred"].tolist() == passed.tolist()
        expected = np.where(passed, "human review", model.predict(rows))
        assert written["prediction"].tolist() == expected.tolist()
        result = done(
            "decide", deferring, csv, "--id", "person", "--secret-env", "POLICY", "--out", out,
            env={"POLICY": SECRET},
        )  # fmt: skip
        written = pd.read_csv(out)
        assert ((written["prediction"] == "human review") == passed).all()
        assert written["deferred"].tolist() == passed.tolist()
        assert f"{passed.sum():,} deferred" in result.stdout


@pytest.mark.parametrize("named", [True, False])
def test_a_rule_saved_in_python_is_read_with_target_groups_and_further_columns(tmp_path, named):
    """The model has three features; the file of the shell has the label, a group and an id, too."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["a", "b", "c"])
    X = table.copy() if named else table.to_numpy()
    table["sex"] = rng.choice(["m", "f"], 3000)
    table["y"] = (table["a"] + rng.normal(size=3000) > 0).astype(int)
    model = LogisticRegression().fit(X[:1000], table["y"][:1000])
    parts = (X[1000:2000], table["y"][1000:2000])
    groups = table[["sex"]][1000:2000]
    rule = tb.calibrate(model, *parts, groups=groups, limits=["miss(1, by=sex) <= 50%"])
    tb.save_model(rule, tmp_path / "rule.model")
    if named:
        table["id"] = np.arange(3000)
    table[2000:].to_csv(tmp_path / "new.csv", index=False)
    files = [str(tmp_path / "rule.model"), str(tmp_path / "new.csv")]
    for command in ("certify", "card", "evaluate", "monitor"):
        arguments = [command, *files, "--target", "y", "--group", "sex"]
        if command == "card":
            arguments += ["--out", str(tmp_path / "card.html")]
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 0, result.output
    if named:
        answers = tmp_path / "answers.csv"
        result = CliRunner().invoke(cli.app, ["predict", *files, "--out", str(answers)])
        assert result.exit_code == 0, result.output
        expected = rule.predict(table[["a", "b", "c"]][2000:])
        assert expected.tolist() == pd.read_csv(answers)["prediction"].tolist()


def test_inspect_shows_the_certificate_of_a_rule_and_not_its_selecting_rows(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3_000)
    X = (2.0 * y - 1.0 + rng.normal(size=3_000))[:, None]
    rule = tb.calibrate(tb.Scores(0, 1, kind="logit"), X, y, limits=["miss(1) <= .1"])
    tb.save_model(rule, tmp_path / "m.model")
    short = done("inspect", tmp_path / "m.model").stdout
    assert rule.certificate_.title in short
    assert "that select" not in short
    assert "--details" in short
    assert "that select" in done("inspect", tmp_path / "m.model", "--details").stdout
    document = json.loads(done("inspect", tmp_path / "m.model", "--json").stdout)
    assert document["certificate"]["certified"] is True


def test_decide_warns_of_groups_without_a_certificate(tmp_path):
    r = np.random.default_rng(0)
    X = pd.DataFrame({"x": r.normal(size=1200)})
    y = (X["x"] + r.normal(size=1200) > 0).astype(int)
    site = r.choice(["north", "south"], 1200)
    fitted = LogisticRegression().fit(X[:300], y[:300])
    limits = ["miss(1, by=site) <= .6"]
    rule = tb.calibrate(fitted, X[300:], y[300:], groups={"site": site[300:]}, limits=limits)
    tb.save_model(rule, tmp_path / "m.model")
    rows = pd.DataFrame({"x": [0.1, 0.2, 0.3], "site": ["north", "west", "west"], "id": [1, 2, 3]})
    rows.to_csv(tmp_path / "d.csv", index=False)
    result = call(
        "decide", tmp_path / "m.model", tmp_path / "d.csv", "--id", "id", "--secret-env", "POLICY",
        "--context", "loans", "--out", tmp_path / "out.csv", env={"POLICY": SECRET},
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stderr.count("site 'west' (2 rows) is no group of the certificate") == 1


def test_advice_to_read_the_group_works_as_printed(tmp_path):
    """A rule of `fit` gets its thresholds by group from `fit`; the advice names this option alone."""
    rng = np.random.default_rng(0)
    n = 3000
    site = np.where(rng.random(n) < 0.3, "hard", "easy")
    y = rng.random(n) < np.where(site == "hard", 0.2, 0.5)
    x = (2 * y - 1) + np.where(site == "hard", 2.0, 0.8) * rng.normal(size=n)
    table = pd.DataFrame({"x": x.round(9), "site": site, "sick": np.where(y, "yes", "no")})
    data, fresh, model = tmp_path / "data.csv", tmp_path / "fresh.csv", tmp_path / "a.model"
    table[:1000].to_csv(data, index=False)
    table[1000:].to_csv(fresh, index=False)
    fit = (
        "fit", data, "--target", "sick", "--group", "site", "--limit", "miss(yes, by=site) <= 25%",
        "--set", "infer_groups=false", "--set", "estimators=[('t', 'tree')]", "--model", model,
    )  # fmt: skip
    fitted = " ".join(done(*fit).stdout.split())
    out = tmp_path / "b.model"
    said = " ".join(done("calibrate", model, fresh, "--out", out).stdout.split())
    assert "--by-group" not in said
    advice = r"Thresholds by group \(of fit: (--set by_group=site)\) would err less"
    (advised,) = re.findall(advice, said)
    assert re.findall(advice, fitted) == [advised]  # before fresh rows are used up
    done(*fit, *advised.split(), "--set", "infer_groups=auto")
    assert "certified" in done("calibrate", model, fresh, "--out", out).stdout.lower()
    assert load_model(out)[-1].by_group == "site"


@pytest.mark.parametrize(
    ("options", "by_group"),
    [
        ((), "site"),
        (("--limit", "deferred <= 20%"), "site"),
        (("--limit", "gap(miss(yes, by=site)) <= 30%"), False),
        (("--limit", "miss(yes, by=sex) <= 70%"), False),
        (("--drop", "site"), False),
        (("--set", "by_group=false"), False),
        (("--set", "infer_groups=true"), False),
    ],
)
def test_a_group_that_is_a_feature_has_thresholds_of_its_own(tmp_path, options, by_group):
    """Answers depend on such a group anyway; whoever drops the column, or says so, has a group-blind rule."""
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(
        {
            "x": rng.normal(size=n).round(6),
            "site": rng.choice(["north", "south"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    table["sick"] = np.where(table["x"] + rng.normal(size=n) > 0.5, "yes", "no")
    table.to_csv(tmp_path / "data.csv", index=False)
    done(
        "fit", tmp_path / "data.csv", "--target", "sick", "--group", "site", "--group", "sex", "--limit",
        "miss(yes, by=site) <= 70%", "--set", "estimators=[('t', 'tree')]", "--model", tmp_path / "m.model",
        *options,
    )  # fmt: skip
    classifier = load_model(tmp_path / "m.model")[-1]
    assert classifier.by_group == by_group
    data = ("predict", tmp_path / "m.model", tmp_path / "data.csv", "--out", tmp_path / "out.csv")
    assert call(*data).exit_code == 0


def test_the_clusters_of_the_fit_are_those_of_new_rows_with_several_rows_of_one(tmp_path):
    """A household is no person by its name, so no check of persons finds it; `fit` was told."""
    rng = np.random.default_rng(0)
    n = 1200
    home = np.arange(n) // 3
    sick = rng.random(n) < 0.4
    table = pd.DataFrame({"x": sick + rng.normal(size=n), "home": home, "sick": np.where(sick, "yes", "no")})
    table[:600].to_csv(tmp_path / "data.csv", index=False)
    table[600:].to_csv(tmp_path / "fresh.csv", index=False)
    table[600::3].to_csv(tmp_path / "one.csv", index=False)  # one row of each home
    model = tmp_path / "a.model"
    done(
        "fit", tmp_path / "data.csv", "--target", "sick", "--cluster", "home", "--limit", "miss(yes) <= 40%",
        "--set", "estimators=[('t', 'tree')]", "--model", model,
    )  # fmt: skip

    def certificate(file, *options):
        result = call("certify", model, tmp_path / file, "--json", *options)
        return json.loads(result.stdout), result.stderr

    remembered, _said = certificate("fresh.csv")
    assert remembered == certificate("fresh.csv", "--cluster", "home")[0]
    assert max(bound["n"] for bound in remembered["bounds"]) <= 200  # homes, not rows
    alone, nothing = certificate("one.csv")
    assert "home" not in nothing
    assert max(bound["n"] for bound in alone["bounds"]) <= 200

    evaluation = call("evaluate", model, tmp_path / "fresh.csv")
    assert evaluation.stdout == done("evaluate", model, tmp_path / "fresh.csv", "--cluster", "home").stdout
    assert "independent rows" in done("evaluate", model, tmp_path / "one.csv").stdout


def test_a_rule_of_several_models_names_the_way_to_a_function(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    mix = tb.RobustMixtureClassifier(random_state=0).fit(X, (X[:, 0] + rng.normal(size=300) > 0).astype(int))
    tb.save_model(mix, tmp_path / "mix.model")
    refused("rule", tmp_path / "mix.model", "--python")
