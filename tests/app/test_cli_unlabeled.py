"""Rows without labels in the shell: ``fit --unlabeled`` and ``calibrate --unlabeled``."""

import json
import shutil
import warnings

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
for needed in ("typer", "rich", "jinja2"):
    pytest.importorskip(needed)

from shell import call, done, refused

import tailboost as tb
from tailboost.storage.models import load_model

GAP = "gap(selected(yes, by=sex)) <= .12"


def table(n, seed):
    random = np.random.default_rng(seed)
    sex = random.choice(["f", "m"], n)
    age = random.normal(size=n) + 0.5 * (sex == "m")
    p = 1 / (1 + np.exp(-age))
    job = np.where(random.random(n) < 0.5, "a", "b")
    label = np.where(random.random(n) < p, "yes", "no")
    return pd.DataFrame({"p_yes": p.round(6), "age": age, "job": job, "sex": sex, "label": label})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    scores, features = ["p_yes", "sex"], ["age", "job", "sex"]
    for name, n, seed in (("train", 500, 0), ("fresh", 400, 1), ("more", 2500, 2), ("later", 2500, 3)):
        rows = table(n, seed)
        for kind, columns in (("scores", scores), ("rows", features)):
            rows[[*columns, "label"]].to_csv(folder / f"{kind}-{name}.csv", index=False)
            rows[columns].to_csv(folder / f"{kind}-{name}-bare.csv", index=False)
    given = "--score", "p_yes", "--target", "label", "--by-group", "sex", "--limit", GAP
    done("tune", folder / "scores-train.csv", *given, "--out", folder / "rule.json")
    fit = "--target", "label", "--group", "sex", "--limit", GAP, "--unlabeled", folder / "rows-more-bare.csv"
    tree = "--set", "estimators=[('t', 'tree')]"
    done("fit", folder / "rows-train.csv", *fit, *tree, "--model", folder / "fitted.model")
    return folder


@pytest.fixture
def rule(folder, tmp_path):
    return shutil.copy(folder / "rule.json", tmp_path / "rule.json")


class TestFit:
    @pytest.mark.slow
    def test_the_selection_counts_them(self, folder):
        model = load_model(folder / "fitted.model")
        lines = {(line.rate, line.subgroup): line.rows for line in model[-1].rates_}
        more = pd.concat([table(500, 0), table(2500, 2)])
        for sex in ("f", "m"):
            counted = lines["selection rate of 'yes' by sex", sex]
            assert counted == pytest.approx((more["sex"] == sex).sum())
        assert lines["error", None] == pytest.approx(500)

    @pytest.mark.slow
    def test_the_model_is_that_of_python(self, folder):
        model = load_model(folder / "fitted.model")
        train, more = table(500, 0), table(2500, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = tb.RobustMixtureClassifier([("t", "tree")], limits=[GAP], random_state=0).fit(
                model[:-1].transform(train[["age", "job", "sex"]]), train["label"], groups=train[["sex"]],
                X_unlabeled=model[:-1].transform(more[["age", "job", "sex"]]), groups_unlabeled=more[["sex"]],
            )  # fmt: skip
        numbers = [
            [(line.rate, line.subgroup, line.value, line.low, line.high) for line in of.rates_]
            for of in (clf, model[-1])
        ]
        assert numbers[0] == numbers[1]

    def test_bad_files_and_methods_are_named(self, folder, tmp_path):
        command = ["fit", folder / "rows-train.csv", "--target", "label", "--model", tmp_path / "x.model"]
        said = refused(*command, "--unlabeled", folder / "scores-more-bare.csv")
        assert "scores-more-bare.csv" in said
        assert "'age'" in said
        method = refused(*command, "--method", "forest-tuned", "--unlabeled", folder / "rows-more-bare.csv")
        assert "--unlabeled: forest-tuned takes no rows without labels" in method
        group = [*command[:-2], "--group", "sex", "--limit", GAP, *command[-2:]]
        (tmp_path / "bare.csv").write_text("age,job\n1,a\n2,b\n")
        assert "bare.csv" in refused(*group, "--unlabeled", tmp_path / "bare.csv")
        assert not (tmp_path / "x.model").exists()


class TestCalibrate:
    def certificate(self, path):
        return json.loads(path.read_text())["certificate"]

    def test_a_rule_file_is_calibrated_without_any_label(self, folder, rule, tmp_path):
        out = tmp_path / "out.json"
        command = ["calibrate", rule, "--selection", folder / "scores-train.csv", "--model", out]
        text = done(*command, "--details", "--unlabeled", folder / "scores-more-bare.csv")
        assert "None of the rows has a label" in text
        assert self.certificate(out)["n_rows"] == 2500
        train, more = table(500, 0), table(2500, 2)
        clf = tb.tune(
            tb.Scores("p_yes", "yes"), train[["p_yes"]], train["label"].astype(str), by_group=True,
            groups=train[["sex"]], limits=[GAP],
        )  # fmt: skip
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = tb.calibrate(clf, more[["p_yes"]], None, groups=more[["sex"]])
        assert not [warning for warning in caught if "nan" in str(warning.message)]
        assert tb.ThresholdRule.from_dict(json.loads(out.read_text())["rule"]) == found.rule_
        # The rows are used up, also with labels.
        again = call("calibrate", rule, folder / "scores-more.csv", *command[2:-1], tmp_path / "again.json")
        assert again.exit_code == 2
        assert "an earlier attempt had these rows" in again.stderr

    def test_rows_with_and_without_labels_count_together(self, folder, rule, tmp_path):
        out = tmp_path / "out.json"
        done(
            "calibrate", rule, folder / "scores-fresh.csv", "--selection", folder / "scores-train.csv",
            "--unlabeled", folder / "scores-more-bare.csv", "--model", out,
        )  # fmt: skip
        assert self.certificate(out)["n_rows"] == 2900

    def test_scores_of_one_table(self, folder, tmp_path):
        out = tmp_path / "out.json"
        done(
            "calibrate", folder / "scores-fresh.csv", "--score", "p_yes", "--target", "label", "--by-group",
            "sex", "--limit", GAP, "--model", out,
            "--unlabeled", folder / "scores-more-bare.csv",
        )  # fmt: skip
        assert 2500 < self.certificate(out)["n_rows"] < 2900

    def test_a_model_file(self, folder, tmp_path):
        model, out = shutil.copy(folder / "fitted.model", tmp_path / "a.model"), tmp_path / "b.model"
        limit = ["--limit", "selected(yes) <= .6"]
        done("calibrate", model, *limit, "--unlabeled", folder / "rows-later-bare.csv", "--model", out)
        assert load_model(out)[-1].certificate_.n_rows == 2500
        used = call("calibrate", model, *limit, "--unlabeled", folder / "rows-more-bare.csv", "--model", out)
        assert "selected on 100%" in used.stderr

    def test_what_is_lacking_is_named(self, folder, rule, tmp_path):
        more = ["--unlabeled", folder / "scores-more-bare.csv", "--model", tmp_path / "out.json"]
        assert "DATA is missing: a rule is selected first" in refused("calibrate", rule, *more)
        selected = ["--selection", folder / "scores-train.csv", *more]
        said = refused("calibrate", rule, "--limit", "miss(yes) <= .3", *selected)
        assert "needs labels, and no row here has one" in said
        assert "--cluster and --unlabeled" in refused("calibrate", rule, "--cluster", "sex", *selected)
        assert "DATA is missing" in refused("calibrate", rule, "--model", tmp_path / "out.json")
        errors = "--unlabeled: bounds of errors, from --max-error or the fit, need labels. State limits on"
        assert errors in refused("calibrate", rule, "--max-error", ".3", *selected)
        scores = folder / "scores-fresh.csv", "--score", "p_yes", "--target", "label", "--max-error", ".3"
        assert errors in refused("calibrate", *scores, *more)
        assert not (tmp_path / "out.json").exists()
