"""The command line: commands, exit codes, and one line for each bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
for needed in ("typer", "rich", "jinja2"):
    pytest.importorskip(needed)

from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from tailboost import __version__, datasets
from tailboost.app import cli
from tailboost.app.cli import shared
from tailboost.app.cli.fit import name_labels
from tailboost.app.cli.parameters import literal
from tailboost.app.cli.shared import BadInput, bad_input, shortened
from tailboost.app.registry import METHODS
from tailboost.storage.models import load_model, save_model


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n = 150
    age = rng.integers(18, 80, n)
    city = rng.choice(["Rome", "Oslo", "Bern"], n)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": rng.normal(3, 1, n).round(2),
            "city": city,
            "member": rng.choice([True, False], n),
            "outcome": np.where(age + 12 * rng.normal(size=n) > 45, "good", "bad"),
        }
    )
    frame.loc[::7, ["income", "city"]] = None
    return frame


@pytest.fixture
def csv(table, tmp_path):
    table.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def fit_forest(data, model, *more, target="outcome"):
    few = ("--method", "forest", "--set", "n_estimators=10")
    return call("fit", data, "--target", target, *few, "--model", model, *more)


def refused(*arguments):
    """Return the single line of an error; nothing else may be printed."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    return lines[0]


class TestFitAndPredict:
    def test_mixed_table_round_trip(self, csv, table, tmp_path):
        model, preds = tmp_path / "m.model", tmp_path / "p.csv"
        result = call(
            "fit", csv, "--target", "outcome", "--method", "adalpboost", "--model", model,
            "--set", "n_estimators=1", "--set", "alpha=0.7", "--set", "eta=theory", "--set", "cv=0.3",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        fitted = load_model(model)
        assert fitted[-1].get_params()["alpha"] == 0.7
        assert fitted[-1].get_params()["eta"] == "theory"
        assert result.stdout.splitlines()[-1] == fitted[-1].summary_.headline

        result = call("predict", model, csv, "--out", preds)
        assert result.exit_code == 0, result.output
        answers = pd.read_csv(preds)
        assert list(answers) == ["row", "prediction", "probability_bad", "probability_good"]  # no draw
        assert answers["row"].tolist() == list(range(len(table)))
        features = pd.read_csv(csv)
        np.testing.assert_array_equal(answers["prediction"], fitted.predict(features))
        P = fitted.predict_proba(features)
        np.testing.assert_allclose(answers[["probability_bad", "probability_good"]], P, atol=1e-9)
        assert (answers["prediction"] == table["outcome"]).mean() > 0.6

    def test_prediction_needs_neither_target_nor_order(self, csv, table, tmp_path):
        model = tmp_path / "m.model"
        assert fit_forest(csv, model).exit_code == 0
        new = table.drop(columns="outcome")[["city", "member", "age", "income"]]
        new.loc[0, "city"] = "Paris"  # a new category
        new.to_csv(tmp_path / "new.csv", index=False)
        result = call("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
        assert result.exit_code == 0, result.output
        answers = pd.read_csv(tmp_path / "p.csv")
        assert list(answers) == ["row", "prediction", "probability_bad", "probability_good"]

    def test_parquet(self, table, tmp_path):
        pytest.importorskip("pyarrow")
        table.to_parquet(tmp_path / "people.parquet")
        model = tmp_path / "m.model"
        data = tmp_path / "people.parquet"
        assert fit_forest(data, model).exit_code == 0
        assert call("predict", model, data, "--out", tmp_path / "p.csv").exit_code == 0

    def test_groups(self, csv, tmp_path):
        result = call(
            "fit", csv, "--target", "outcome", "--group", "city", "--group", "member",
            "--method", "groupdroboost", "--model", tmp_path / "m.model", "--set", "n_estimators=1",
        )  # fmt: skip
        assert result.exit_code == 0, result.output

    @pytest.mark.parametrize("name", list(METHODS))
    @pytest.mark.thinned(3)
    def test_every_method_can_be_stored(self, csv, tmp_path, name):
        pytest.importorskip("xgboost")
        model = tmp_path / "m.model"
        given = METHODS[name].make().get_params(deep=False)
        few = ["--set", "n_estimators=1"] if METHODS[name].ours and "n_estimators" in given else []
        result = call("fit", csv, "--target", "outcome", "--method", name, "--model", model, *few)
        assert result.exit_code == 0, result.output
        result = call("predict", model, csv, "--out", tmp_path / "p.csv")
        assert result.exit_code == 0, result.output
        result = call("inspect", model)
        assert result.exit_code == 0, result.output
        assert "150 rows of people.csv" in result.stdout

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("0.1", 0.1),
            ("None", None),
            ("null", None),
            ("true", True),
            ("(1, 2)", (1, 2)),
            ('{"a": 1}', {"a": 1}),
            ("theory", "theory"),
            ("'cv'", "cv"),
            ("", ""),
        ],
    )
    def test_values_of_set(self, text, value):
        assert literal(text) == value  # a test by the command would need a fit for each value


def test_an_option_of_one_value_is_refused_twice(csv):
    """The parser would take the last value without a word. Flags and lists may be repeated."""
    for command, option in [
        ("predict", "--id"),
        ("fit", "--target"),
        ("tune", "--out"),
        ("calibrate", "--model"),
        ("certify", "--confidence"),
        ("monitor", "--state"),
    ]:
        told = call(command, csv, option, ".9", option, ".8")
        assert told.exit_code == 2
    for repeated in (["--quiet", "-q"], ["--drop", "age", "--drop", "city"]):
        assert "twice" not in call("fit", csv, "--target", "x", "--model", "m", *repeated).stderr


class TestRefusedFit:
    def fit(self, csv, *more, target="outcome", method="forest", model="m.model"):
        return refused(
            "fit", csv, "--target", target, "--method", method, "--model", csv.parent / model, *more
        )

    def test_no_file(self, tmp_path):
        assert "nowhere.csv" in self.fit(tmp_path / "nowhere.csv")

    def test_no_target(self, csv):
        assert "'outcom'" in self.fit(csv, target="outcom")
        assert "'outcome'" in self.fit(csv, target="outcom")

    def test_no_group_column(self, csv):
        assert "'town'" in self.fit(csv, "--group", "town", method="groupdroboost")

    def test_single_class(self, csv, table):
        table.assign(outcome="good").to_csv(csv, index=False)
        assert "'outcome'" in self.fit(csv)
        assert "single class" in self.fit(csv)

    def test_broken_csv(self, csv):
        csv.write_text(csv.read_text() + "1,2,3\n")
        assert "line 152" in self.fit(csv)

    def test_empty_file(self, csv):
        csv.write_text("")
        assert "people.csv" in self.fit(csv)

    def test_no_rows(self, csv, table):
        table.iloc[:0].to_csv(csv, index=False)
        assert "no rows" in self.fit(csv)

    def test_dates(self, csv, table):
        table.assign(born="1990-05-17").to_csv(csv, index=False)
        line = self.fit(csv)
        assert "'born'" in line
        assert "dates" in line

    def test_unknown_method(self, csv):
        line = self.fit(csv, method="adalpbost")
        assert "--method" in line
        assert "adalpboost" in line

    def test_unknown_parameter(self, csv):
        line = self.fit(csv, "--set", "alhpa=0.1", method="adalpboost")
        assert "--set" in line
        assert "n_estimators" in line

    @pytest.mark.parametrize(
        ("setting", "says"),
        [
            ("alpha=1.5", "'alpha'"),
            ("alpha=0", "'alpha'"),
            ("alpha=high", "'alpha'"),
            ("n_estimators=-1", "'n_estimators'"),
        ],
    )
    def test_parameter_out_of_range_before_the_data_are_read(self, tmp_path, setting, says):
        line = self.fit(tmp_path / "nowhere.csv", "--set", setting, method="adalpboost")
        assert "--set" in line
        assert says in line

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--objective", "nonsense"], "--objective: "),
            (["--error-budget", "0.1", "--set", "alpha=2"], "--set alpha=2: "),
            (
                ["--set", "confidence=0.9"],
                "--set confidence=0.9: confidence=0.9 has no meaning without limits",
            ),
            (["--set", "objective=cvar"], "--set objective=cvar: 'cvar' needs alpha"),
            (
                ["--set", 'estimators=["nosuch"]'],
                '--set estimators=["nosuch"]: estimators must be a list of (name, classifier) pairs, got '
                "'nosuch' in it",
            ),
        ],
    )
    def test_a_refused_parameter_is_named_before_the_data_are_read(self, tmp_path, options, says):
        line = self.fit(tmp_path / "nowhere.csv", *options, method="robustmixture")
        assert line.startswith(f"tailboost: {says}")

    def test_set_without_value(self, csv):
        assert "NAME=VALUE, got 'alpha'" in self.fit(csv, "--set", "alpha", method="adalpboost")

    def test_groups_for_a_method_without(self, csv):
        line = self.fit(csv, "--group", "city", method="adalpboost")
        assert "--group" in line
        assert "groupdroboost" in line


class TestRefusedPredict:
    @pytest.fixture
    def model(self, csv, tmp_path):
        assert fit_forest(csv, tmp_path / "m.model").exit_code == 0
        return tmp_path / "m.model"

    def predict(self, model, data):
        out = data.parent / "p.csv"
        line = refused("predict", model, data, "--out", out)
        assert not out.exists()
        return line

    def test_no_model(self, csv, tmp_path):
        assert "none.model" in self.predict(tmp_path / "none.model", csv)

    def test_a_column_of_numbers_with_units(self, csv, model, tmp_path):
        table = pd.read_csv(csv, dtype=str)[:40]
        table["age"] = table["age"].fillna("40") + " years"
        table.to_csv(tmp_path / "units.csv", index=False)
        self.predict(model, tmp_path / "units.csv")
        table[:1].to_csv(tmp_path / "units.csv", index=False)

    def test_model_of_strangers(self, csv, tmp_path):
        from sklearn.preprocessing import FunctionTransformer

        path = tmp_path / "x.model"
        save_model(FunctionTransformer(func=json.dumps), path, trusted=["json.dumps"])
        assert "json.dumps" in self.predict(path, csv)

    def test_without_a_file_answers_are_printed(self, model, csv):
        call("predict", model, csv, "--out", csv.parent / "p.csv")
        printed = call("predict", model, csv)
        assert printed.exit_code == 0
        assert printed.stdout.splitlines() == (csv.parent / "p.csv").read_text().splitlines()

    def test_object_that_cannot_predict(self, csv, tmp_path):
        save_model(StandardScaler().fit([[1.0], [2.0]]), tmp_path / "x.model")

    def test_missing_column(self, model, csv, table):
        table.drop(columns=["age"]).to_csv(csv, index=False)

    def test_text_where_numbers_were(self, model, csv, table):
        table.astype({"age": object}).assign(age=["old"] + ["30"] * 149).to_csv(csv, index=False)
        self.predict(model, csv)

    def test_no_rows(self, model, csv, table):
        table.iloc[:0].to_csv(csv, index=False)
        assert "no rows" in self.predict(model, csv)

    def test_broken_csv(self, model, csv):
        csv.write_text(csv.read_text() + "1,2,3\n")
        assert "line 152" in self.predict(model, csv)

    def test_out_in_no_folder(self, model, csv, tmp_path):
        assert "--out" in refused("predict", model, csv, "--out", tmp_path / "no" / "p.csv")


class TestCompare:
    @pytest.mark.slow
    def test_all_of_it(self, csv, tmp_path):
        out = tmp_path / "made" / "here"
        result = call(
            "compare", csv, "--target", "outcome", "--group", "city", "--methods", "averageboost,forest",
            "--alpha", "0.2,0.8", "--repeats", "2", "--out", out, "--seed", "3",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        document = json.loads((out / "results.json").read_text())
        assert document["status"] == "complete"
        assert [m["name"] for m in document["methods"]] == ["averageboost", "forest"]
        assert document["settings"]["alphas"] == [0.2, 0.8]
        assert document["settings"]["random_state"] == 3
        assert document["data"]["name"] == "people.csv"
        assert set(document["data"]["groups"]) == {"city"}
        assert document["data"]["groups"]["city"]["missing"] == 22
        for word in (
            "compare",
            "--target outcome",
            "--group city",
            "--seed 3",
            "--methods averageboost,forest",
        ):
            assert word in document["command"]
        page = (out / "report.html").read_text()
        for method in document["methods"]:
            assert method["title"] in page
            assert method["title"] in result.stdout
        for path in (out / "results.json", out / "report.html"):
            assert str(path) in result.stdout  # never shortened

    @pytest.mark.slow
    @pytest.mark.parametrize("option", ["--drop", "--cluster"])
    def test_both_ways_out_of_an_id_that_the_alert_names(self, table, tmp_path, option):
        csv = tmp_path / "numbered.csv"
        table.assign(person=np.random.default_rng(0).permutation(len(table))).to_csv(csv, index=False)
        common = ("compare", csv, "--target", "outcome", "--methods", "erm", "--repeats", "1")
        result = call(*common, option, "person", "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
        assert "person" not in result.stderr
        document = json.loads((tmp_path / "out" / "results.json").read_text())
        assert f"{option} person" in document["command"]

    @pytest.mark.parametrize(
        ("more", "says"),
        [
            (["--methods", "forest,adalpbost"], ["--methods", "adalpboost"]),
            (["--alpha", "0.1,2"], ["--alpha", "2"]),
            (["--alpha", "0.1,x"], ["--alpha", "x"]),
            (["--alpha", ","], ["--alpha"]),
            (["--group", "town"], ["'town'"]),
        ],
    )
    def test_refused(self, csv, tmp_path, more, says):
        line = refused("compare", csv, "--target", "outcome", "--out", tmp_path / "out", *more)
        assert all(word in line for word in says)
        assert not (tmp_path / "out").exists()

    def test_method_that_is_not_installed(self, csv, tmp_path, monkeypatch):
        monkeypatch.setattr("tailboost.learners.named.xgboost", lambda: None)
        line = refused("compare", csv, "--target", "outcome", "--methods", "xgboost", "--out", tmp_path)
        assert "--methods" in line
        assert "tailboost[xgboost]" in line

    def test_class_too_small_to_split(self, csv, table, tmp_path):
        table.loc[0, "outcome"] = "odd"
        table.to_csv(csv, index=False)
        line = refused("compare", csv, "--target", "outcome", "--out", tmp_path, "--methods", "forest")
        assert "only 1 member" in line

    def test_out_is_a_file(self, csv):
        assert "--out" in refused("compare", csv, "--target", "outcome", "--out", csv)

    def test_failing_method(self, csv, tmp_path, monkeypatch):
        def broken(*args, **kwargs):
            raise RuntimeError("out of luck")

        monkeypatch.setattr(METHODS["erm"].factory, "fit", broken)
        result = call("compare", csv, "--target", "outcome", "--methods", "erm", "--out", tmp_path / "out")
        assert result.exit_code == 1
        assert "failed" in result.stderr

    @pytest.mark.slow
    @pytest.mark.skipif(not hasattr(signal, "pause"), reason="needs POSIX signals")
    def test_interrupt_keeps_finished_fits(self, csv, tmp_path, monkeypatch):
        from sklearn.ensemble import RandomForestClassifier

        fit, fits = RandomForestClassifier.fit, []

        def interrupted(self, *args, **kwargs):
            fits.append(1)
            if len(fits) == 2:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            return fit(self, *args, **kwargs)

        monkeypatch.setattr(RandomForestClassifier, "fit", interrupted)
        out = tmp_path / "out"
        result = call("compare", csv, "--target", "outcome", "--methods", "forest", "--out", out)
        assert result.exit_code == 130
        assert "Ctrl-C" in result.stderr
        document = json.loads((out / "results.json").read_text())
        assert document["status"] == "interrupted"
        assert [len(m["repeats"]) for m in document["methods"]] == [1]
        assert (out / "report.html").exists()


class TestFilesAreKept:
    """Input files are never overwritten, and output files are complete."""

    @pytest.fixture
    def model(self, csv, tmp_path):
        assert fit_forest(csv, tmp_path / "m.model").exit_code == 0
        return tmp_path / "m.model"

    @pytest.fixture(params=["same", "dotted", "symlink", "hardlink"])
    def other_name(self, request, tmp_path):
        def named(path):
            if request.param == "same":
                return path
            if request.param == "dotted":
                (tmp_path / "sub").mkdir(exist_ok=True)
                return tmp_path / "sub" / ".." / path.name
            link = tmp_path / f"link{path.suffix}"
            link.symlink_to(path) if request.param == "symlink" else link.hardlink_to(path)
            return link

        return named

    def test_fit_onto_its_data(self, csv, other_name):
        before = csv.read_bytes()
        line = refused("fit", csv, "--target", "outcome", "--method", "forest", "--model", other_name(csv))
        assert "--model" in line
        assert csv.read_bytes() == before

    @pytest.mark.thinned(3)
    def test_predict_onto_its_data(self, csv, model, other_name):
        before = csv.read_bytes()
        assert "--out" in refused("predict", model, csv, "--out", other_name(csv))
        assert csv.read_bytes() == before

    @pytest.mark.thinned(3)
    def test_predict_onto_its_model(self, csv, model, other_name):
        before = model.read_bytes()
        assert "--out" in refused("predict", model, csv, "--out", other_name(model))
        assert model.read_bytes() == before

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("card.html", "<html>", "give a name that ends in .csv or .parquet"),
            ("rule.json", None, "give a name that ends in .csv or .parquet"),
            ("train.csv", "age,outcome\n1,good\n", "'prediction', so it is another table; give another name"),
            ("empty.csv", "", ""),
            ("before.csv", "id;prediction\n1;good\n", ""),
        ],
    )
    def test_predict_onto_another_kind_of_file(self, csv, model, name, content, words):
        out = csv.parent / name
        if content is not None:
            out.write_text(content)
        if words:
            assert words in refused("predict", model, csv, "--out", out)
            assert out.exists() is (content is not None)
            assert not content or out.read_text() == content
        else:
            assert call("predict", model, csv, "--out", out).exit_code == 0
            assert out.read_text().startswith("row,prediction,")

    def test_predict_into_a_circle_of_links(self, model, csv):
        """A broken link is kept, and nothing is written."""
        out = csv.parent / "circle.csv"
        out.symlink_to(out)
        assert "circle.csv" in refused("predict", model, csv, "--out", out)
        assert out.is_symlink()
        assert os.readlink(out) == str(out)

    def test_compare_onto_its_data(self, csv, tmp_path):
        before = csv.read_bytes()
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "report.html").symlink_to(csv)
        line = refused(
            "compare", csv, "--target", "outcome", "--methods", "forest", "--out", tmp_path / "out"
        )
        assert "--out" in line
        assert csv.read_bytes() == before

    @pytest.mark.thinned(1)
    @pytest.mark.parametrize("what", ["predictions", "results", "report"])
    def test_a_disk_that_is_full_leaves_the_old_file(self, csv, model, tmp_path, monkeypatch, what):
        out = tmp_path / "out"
        out.mkdir()
        file = {
            "predictions": tmp_path / "p.csv",
            "results": out / "results.json",
            "report": out / "report.html",
        }
        old = file[what]
        old.write_text("row,prediction\n0,old\n")

        def full(handle):
            if os.readlink(f"/proc/self/fd/{handle}").startswith(str(old)):
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        if what == "predictions":
            result = call("predict", model, csv, "--out", old)
        else:
            result = call(
                "compare", csv, "--target", "outcome", "--methods", "forest", "--repeats", "1", "--out", out
            )
        assert result.exit_code != 0
        assert old.read_text() == "row,prediction\n0,old\n"
        assert not list(tmp_path.rglob("*.part"))

    def test_a_device_is_written_to_not_replaced(self, csv, model, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
        result = call("predict", model, csv, "--out", tmp_path / "pipe")
        assert result.exit_code == 0, result.output
        assert reader.communicate(timeout=60)[0].startswith("row,prediction,")


class TestLaterTables:
    """A new file is read as the training file was."""

    @pytest.fixture
    def zips(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"zip": rng.choice(["01234", "04567", "98765", "A1B"], 160)})
        return frame.assign(x=rng.normal(size=160).round(3), y=np.where(frame["zip"] == "01234", "p", "q"))

    def predicted(self, model, frame, path):
        frame.to_csv(path, index=False)
        result = call("predict", model, path, "--out", path.with_suffix(".out.csv"))
        assert result.exit_code == 0, result.output
        return pd.read_csv(path.with_suffix(".out.csv"), dtype=str).drop(columns="row"), result.stderr

    def test_codes_that_are_mostly_numbers(self, tmp_path):
        """`--text` reads a column of codes as text; the model reads later files alike."""
        codes = [str(100 + i % 25) for i in range(400)]
        codes[::25] = ["V57"] * 16
        answers = ["yes" if code == "V57" or code == "107" else "no" for code in codes]
        pd.DataFrame({"Diag 1": codes, "x": np.arange(400) % 7, "y": answers}).to_csv(
            tmp_path / "d.csv", index=False
        )
        arguments = ["fit", tmp_path / "d.csv", "--target", "y", "--method", "adaboost"]
        call(*arguments, "--model", tmp_path / "numbers.model")
        call(*arguments, "--text", "Diag 1", "--model", tmp_path / "codes.model")
        found = call("predict", tmp_path / "codes.model", tmp_path / "d.csv")
        assert found.exit_code == 0
        assert "missing" not in found.stderr
        assert pd.read_csv(StringIO(found.stdout))["prediction"].tolist() == answers

    def test_codes_that_look_like_numbers_alone(self, zips, tmp_path):
        zips.to_csv(tmp_path / "d.csv", index=False)
        model = tmp_path / "m.model"
        assert fit_forest(tmp_path / "d.csv", model, target="y").exit_code == 0
        whole, _ = self.predicted(model, zips, tmp_path / "whole.csv")
        digits = zips["zip"] != "A1B"
        part, output = self.predicted(model, zips[digits], tmp_path / "part.csv")
        pd.testing.assert_frame_equal(part, whole[digits].reset_index(drop=True))
        assert output == ""
        alone, _ = self.predicted(model, zips.iloc[[5]], tmp_path / "alone.csv")
        pd.testing.assert_frame_equal(alone, whole.iloc[[5]].reset_index(drop=True))

    def test_what_differs_is_said_once(self, zips, tmp_path):
        zips.to_csv(tmp_path / "d.csv", index=False)
        model = tmp_path / "m.model"
        assert fit_forest(tmp_path / "d.csv", model, target="y").exit_code == 0
        later = zips.head(3).assign(zip=["00000", "01234", "00000"], x=["1", "", "2"], more=1)
        _, output = self.predicted(model, later, tmp_path / "later.csv")
        assert output.count("warning:") == 1

    @pytest.mark.thinned(2)
    @pytest.mark.parametrize("labels", [("01", "02"), ("TRUE", "FALSE"), ("1", "1.0"), ("+1", "-1")])
    def test_labels_come_back_as_they_went_in(self, zips, tmp_path, labels):
        zips["y"] = zips["y"].map(dict(zip("pq", labels, strict=True)))
        zips.to_csv(tmp_path / "d.csv", index=False)
        model = tmp_path / "m.model"
        assert fit_forest(tmp_path / "d.csv", model, target="y").exit_code == 0
        answers, _ = self.predicted(model, zips, tmp_path / "later.csv")
        assert set(answers["prediction"]) == set(labels)
        assert set(answers) == {"prediction", *(f"probability_{label}" for label in labels)}

    def test_parameters_by_label(self, zips, tmp_path):
        zips.assign(y=(zips["y"] == "p").astype(int)).to_csv(tmp_path / "d.csv", index=False)
        model = tmp_path / "m.model"
        result = fit_forest(tmp_path / "d.csv", model, "--set", "class_weight={0: 1, 1: 5}", target="y")
        assert result.exit_code == 0, result.output
        weights = load_model(model)[-1].class_weight  # text, unless scikit-learn refuses text
        assert {int(label): weight for label, weight in weights.items()} == {0: 1, 1: 5}

    def test_parameters_by_label_name_them_as_the_file_does(self):
        class Aiming(BaseEstimator):
            def __init__(self, aims=None):
                self.aims = aims

        aiming = Aiming({0: 0.2, "1": 0.3, None: 0.4})
        name_labels(aiming, np.array(["0", "1", "01"]))  # a test by the command would need long fits
        assert aiming.aims == {"0": 0.2, "1": 0.3, None: 0.4}

    def test_formulas(self, zips, tmp_path):
        zips["y"] = zips["y"].map({"p": "=cmd|'/c calc'!A1", "q": "-1"})  # a number is no formula
        zips.to_csv(tmp_path / "d.csv", index=False)
        model, out = tmp_path / "m.model", tmp_path / "p.csv"
        assert fit_forest(tmp_path / "d.csv", model, target="y").exit_code == 0
        for more, first in [((), "="), (("--escape-formulas",), "'=")]:
            assert call("predict", model, tmp_path / "d.csv", "--out", out, *more).exit_code == 0
            marked = set(pd.read_csv(out)["prediction"]) - {"-1"}
            assert len(marked) == 1
            assert marked.pop().startswith(first)

    def test_formulas_are_told(self, tmp_path):
        from shell import call, done

        rng = np.random.default_rng(0)
        table = pd.DataFrame({"s": rng.random(200), "id": [f"@{k}" for k in range(200)]})
        table["y"] = np.where(rng.random(200) < table["s"], "yes", "no")
        table.to_csv(tmp_path / "d.csv", index=False)
        rule = tmp_path / "r.json"
        done(
            "tune", tmp_path / "d.csv", "--score", "s", "--target", "y", "--positive", "yes",
            "--objective", "error", "--out", rule,
        )  # fmt: skip
        predict = ["predict", rule, tmp_path / "d.csv"]
        assert "--escape-formulas" not in call(*predict).stderr
        call(*predict, "--id", "id")
        assert "formula" not in call(*predict, "--id", "id", "--escape-formulas").stderr


@pytest.mark.skipif(not hasattr(signal, "pause"), reason="needs POSIX signals")
class TestInterruptedWork:
    @pytest.mark.parametrize("swallowed", [False, True])
    def test_fit_leaves_no_model(self, csv, tmp_path, monkeypatch, swallowed):
        from sklearn.ensemble import RandomForestClassifier

        fit = RandomForestClassifier.fit

        def interrupted(self, *args, **kwargs):
            fit(self, *args, **kwargs)
            try:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()
            except KeyboardInterrupt:
                if not swallowed:
                    raise
            return self

        monkeypatch.setattr(RandomForestClassifier, "fit", interrupted)
        result = fit_forest(csv, tmp_path / "m.model")
        assert result.exit_code == 130
        assert not (tmp_path / "m.model").exists()


class TestMessages:
    def test_lines_are_short_and_name_the_file(self, csv, table):
        wide = table.assign(**{f"column number {i} {'x' * 50}": 1 for i in range(60)})
        wide.to_csv(csv, index=False)
        line = refused(
            "fit", csv, "--target", "nothing like it", "--method", "erm", "--model", csv.parent / "m.model"
        )
        assert len(line) <= 2000
        assert "people.csv" in line

    @pytest.mark.parametrize("argument", ["X: ", ""])
    def test_a_file_stands_for_the_argument_of_a_function(self, argument):
        words = "3 rows are too few"
        with pytest.raises(BadInput, match=f"^kal.csv: {words}$"), bad_input("kal.csv: "):
            raise ValueError(f"{argument}{words}")

    def test_a_line_is_whole_and_a_very_long_one_loses_whole_sentences(self):
        parts = "; ".join(f"miss rate of {i}: at most {i} % (reached: {i}.5 %)" for i in range(30))
        line = f"limits: no rule meets these together: {parts}. Wider limits may do"
        assert shortened(line) == line
        sentences = [f"This is sentence {i}." for i in range(200)]
        left = shortened(" ".join(sentences))
        start, end = left.split(" … ")
        assert len(left) <= 2000
        assert " ".join(sentences).startswith(start)
        assert " ".join(sentences).endswith(end)
        assert start.endswith(".")

    @pytest.mark.slow
    def test_names_that_are_no_utf8(self, csv, tmp_path):
        strange = tmp_path / os.fsdecode(b"caf\xe9.csv")
        strange.write_bytes(csv.read_bytes())
        model = tmp_path / os.fsdecode(b"m\xe9.model")
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
        command = [sys.executable, "-c", "from tailboost.app.cli import main; main()"]
        for arguments in (
            ["fit", strange, "--target", "outcome", "--method", "forest", "--model", model],
            [
                "compare",
                strange,
                "--target",
                "outcome",
                "--methods",
                "forest",
                "--repeats",
                "1",
                "--out",
                tmp_path,
            ],
        ):
            done = subprocess.run(
                [*command, *arguments], capture_output=True, text=True, env=environment, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
        assert model.exists()
        assert "caf" in json.loads((tmp_path / "results.json").read_text())["data"]["name"]

    @pytest.mark.parametrize(("command", "option"), [("fit", "--model"), ("predict", "--out")])
    def test_an_output_longer_than_the_system_takes(self, command, option, csv):
        given = {
            "fit": ("fit", csv, "--target", "outcome", "--method", "erm"),
            "predict": ("predict", csv.parent / "m.model", csv),
        }
        line = refused(*given[command], option, "x" * 300 + ".model")
        assert option in line
        assert len(line) < 300

    def test_damaged_parquet_is_bad_input(self, table, tmp_path, monkeypatch):
        pytest.importorskip("pyarrow")
        data = tmp_path / "people.parquet"
        table.to_parquet(data)

        def damaged(*args, **kwargs):  # error of a flipped bit in the metadata of the schema
            raise KeyError("field_name")

        monkeypatch.setattr(pd, "read_parquet", damaged)
        line = refused("fit", data, "--target", "outcome", "--method", "erm", "--model", tmp_path / "m.model")
        assert "people.parquet" in line

    def test_a_summary_that_fails_keeps_the_model(self, csv, tmp_path, monkeypatch):
        from tailboost import AdaLPBoostClassifier

        def broken(self):
            raise ZeroDivisionError("division by zero")

        monkeypatch.setattr(AdaLPBoostClassifier, "summary_", property(broken))
        model = tmp_path / "m.model"
        result = call(
            "fit", csv, "--target", "outcome", "--method", "adalpboost", "--model", model,
            "--set", "n_estimators=1", "--set", "cv=train",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert call("predict", model, csv, "--out", tmp_path / "p.csv").exit_code == 0


class TestShell:
    def test_list(self):
        result = call("list")
        assert result.exit_code == 0
        for name in METHODS:
            assert name in result.stdout
        assert "load_credit_default" in result.stdout
        assert "]_" not in result.stdout  # no mark-up of the docstrings

    def test_version_and_help(self):
        from tailboost import __version__

        assert call("--version").stdout.startswith(f"tailboost {__version__}\npython ")
        for command in ("demo", "compare", "fit", "predict", "list"):
            assert command in call().stdout
            assert call(command, "--help").exit_code == 0

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["fit", "x.csv"], "--target"),
            (["compare", "x.csv", "--target", "y", "--repeats", "0"], "--repeats"),
            (["compare", "x.csv", "--target", "y", "--reapets", "3"], "--reapets"),
            (["demo", "--jobs", "0"], "--jobs"),
            (["nonsense"], "nonsense"),
            (["predict"], "MODEL"),
        ],
    )
    def test_wrong_usage_is_one_line(self, capsys, arguments, says):
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        assert end.value.code == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        assert says in lines[0]

    def test_exit_codes_of_the_process(self, capsys, csv):
        with pytest.raises(SystemExit) as end:
            cli.main(["list"])
        assert end.value.code == 0
        with pytest.raises(SystemExit) as end:
            cli.main(["fit", str(csv), "--target", "no", "--method", "forest", "--model", "m.model"])
        assert end.value.code == 2

    def test_errors_of_ours_are_1_and_traceback_on_demand(self, csv, tmp_path, monkeypatch):
        def bug(*args, **kwargs):
            raise KeyError("inner")

        monkeypatch.setattr(datasets, "load_table", bug)
        command = ["fit", csv, "--target", "outcome", "--method", "forest", "--model", tmp_path / "m.model"]
        result = call(*command)
        assert result.exit_code == 1
        assert "KeyError" in result.stderr
        assert "Traceback" not in result.stderr
        assert "Traceback" in call(*command, "--verbose").stderr

    def test_without_the_extra(self):
        code = "import sys; sys.modules['typer'] = None; from tailboost.app.cli import main; main()"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert result.returncode == 1


@pytest.mark.slow
def test_runs_as_a_module_with_the_same_codes():
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "tailboost", *arguments], capture_output=True, text=True, check=False
        )

    printed = run("--version")
    assert printed.returncode == 0
    assert __version__ in printed.stdout
    refusal = run("fit", "nowhere.csv", "--target", "y", "--model", "m.model")
    assert refusal.returncode == 2
    assert "nowhere.csv" in refusal.stderr
    assert "Traceback" not in refusal.stderr


def test_help_and_a_mistyped_command_load_nothing_heavy():
    """Both take a tenth of a second instead of two."""
    shown = (
        "import sys\nfrom tailboost.app.cli import main\n"
        "try:\n    main([{!r}])\nexcept SystemExit:\n    pass\n"
        "print('heavy', {{'numpy', 'sklearn', 'pandas'}} & set(sys.modules))"
    )
    for word in ("-h", "prdict"):
        run = subprocess.run([sys.executable, "-c", shown.format(word)], capture_output=True, text=True)
        assert run.stdout.endswith("heavy set()\n")


def test_verdicts_are_coloured_where_a_terminal_shows_it(monkeypatch):
    from tailboost.app.cli.shared import plain_table

    for given, escape in (
        ({"FORCE_COLOR": "1", "TERM": "xterm"}, True),
        ({"NO_COLOR": "1", "TERM": "dumb"}, False),
    ):
        with monkeypatch.context() as patched, StringIO() as written:
            for name in ("FORCE_COLOR", "NO_COLOR"):
                patched.delenv(name, raising=False)
            for name, value in given.items():
                patched.setenv(name, value)
            patched.setattr("sys.stdout", written)
            plain_table(["name", "limit", "kept"], [["misses", "≤ 0.4", "NO"], ["no", "1", "met"]])
            output = written.getvalue()
        assert bool(re.search("\x1b\\[1;31m *NO", output)) is escape
        assert "NO" in output
        assert ("\x1b[" in output) is escape


def test_numbers_are_whole_in_a_narrow_terminal(monkeypatch):
    from rich.console import Console

    from tailboost.app.cli import shared

    heads = ["rate", "subgroup", "estimate", "95 % interval", "limit", "kept on these rows", "shadow price"]
    name, numbers = (
        "false alarm rate of 'toxic' by language",
        ["0.0058", "0.0030 to 0.0101", "≤ 0.01", "0.0775"],
    )
    rows = [["error", "all", "0.0274", "0.0246 to 0.0305", "", "", ""]]
    rows += [[name, "de", *numbers[:3], "yes", numbers[3]]]
    for width in (80, 100, 130):
        with StringIO() as written:
            monkeypatch.setattr(shared, "console", partial(Console, file=written, width=width))
            shared.plain_table(heads, rows, left=2)
            lines = written.getvalue().splitlines()
        assert all(len(line.rstrip()) <= width for line in lines)
        assert any(all(number in line for number in numbers) for line in lines)
        assert not any("…" in line for line in lines)


def test_example_writes_three_files_of_different_clients(tmp_path):
    from tailboost.app.datasets import load_credit_default

    assert call("example", tmp_path / "new").exit_code == 0
    tables = {file.stem: pd.read_csv(file) for file in (tmp_path / "new").iterdir()}
    assert {name: len(table) for name, table in tables.items()} == {
        "train": 15_000,
        "tune": 7_500,
        "test": 7_500,
    }
    whole, data = pd.concat(tables.values()), load_credit_default()
    assert whole["default"].value_counts().to_dict() == {"no": 23_364, "yes": 6_636}
    assert set(whole["SEX"]) == {"male", "female"}
    assert whole["BILL_AMT1"].sum() == data.data["BILL_AMT1"].sum()
    again = call("example", tmp_path / "new")
    assert again.exit_code == 2


def test_a_warning_is_printed_once_in_a_command(capsys):
    for _ in range(2):
        with shared.exit_codes(verbose=False):
            shared.warn("of a file")
            with shared.warnings_as_lines():
                warnings.warn("of a file", UserWarning, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == ["warning: of a file"] * 2


def test_an_unknown_command_is_refused_with_the_list_of_commands(capsys):
    with pytest.raises(SystemExit):
        cli.main(["explain", "rule.json"])


def test_several_tables_are_refused_with_a_cure(capsys, tmp_path):
    paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for path in paths:
        Path(path).write_text("x,y\n1,a\n")
    with pytest.raises(SystemExit):
        cli.main(["tune", *paths, "--score", "x", "--target", "y", "--out", "rule.json"])


def test_a_folder_without_permission_is_refused_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setattr(shared.os, "access", lambda path, mode: False)
    with pytest.raises(shared.BadInput, match="written"):
        shared.check_output("--out", tmp_path / "x.json")


def test_a_model_file_with_the_name_of_a_rule_file_is_told_its_ending(tmp_path):
    (tmp_path / "m.json").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="model"):
        shared.read_json(tmp_path / "m.json")
