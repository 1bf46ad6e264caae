"""Several labels per row in the shell: ``calibrate``, ``monitor`` and rows without labels."""

import json
import shutil

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
for needed in ("typer", "rich", "jinja2"):
    pytest.importorskip(needed)

from shell import call, done, refused

import tailboost as tb

NAMES = ["threat", "insult"]
LIMITS = ["--limit", "miss(1, by=label) <= .4", "--limit", "selected(1) <= .45"]
STATED = ["miss(1, by=label) <= .4", "selected(1) <= .45"]


def table(n, seed):
    rng = np.random.default_rng(seed)
    common, rows = rng.normal(size=n), {"case": [f"{seed}-{i}" for i in range(n)]}
    for name, cut in zip(NAMES, (1.8, 0.7), strict=True):
        z = common + rng.normal(size=n)
        rows[f"p_{name}"] = 1 / (1 + np.exp(-2 * z))
        rows[name] = (z + 0.5 * rng.normal(size=n) > cut).astype(int)
    return pd.DataFrame(rows)


def scores():
    return [tb.Scores(f"p_{name}", name) for name in NAMES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    for name, n, seed in (("select", 1200, 0), ("fresh", 1500, 1), ("more", 1500, 2), ("later", 800, 3)):
        table(n, seed).to_csv(folder / f"{name}.csv", index=False)
        table(n, seed).drop(columns=NAMES).to_csv(folder / f"{name}-bare.csv", index=False)
    given = [x for name in NAMES for x in ("--score", f"p_{name}", "--target", name)]
    done("tune", folder / "select.csv", *given, *LIMITS, "--out", folder / "rules.json")
    unlabeled = "--unlabeled", folder / "more-bare.csv"
    done("tune", folder / "select.csv", *given, *LIMITS, *unlabeled, "--out", folder / "joined.json")
    return folder


@pytest.fixture
def rules(folder, tmp_path):
    return shutil.copy(folder / "rules.json", tmp_path / "rules.json")


def read(path):
    return tb.LabelRules.from_dict(json.loads(path.read_text()))


def bands(rules):
    """Return the thresholds to 12 digits: old readers of CSV files differ in the last bit."""
    return {
        name: [[(at and round(at, 12), action) for at, action in band] for band in rule.bands]
        for name, rule in rules.items()
    }


def test_tune_counts_rows_without_labels(folder):
    rows, more = table(1200, 0), table(1500, 2)
    found = tb.tune_labels(scores(), rows, rows[NAMES], limits=STATED, X_unlabeled=more)
    assert bands(read(folder / "joined.json").rules) == bands(found.rules)


def test_rules_of_several_labels_have_no_content_to_print(folder, tmp_path):
    given = [x for name in NAMES for x in ("--score", f"p_{name}", "--target", name)]
    out = tmp_path / "out.json"
    for command in (
        ("tune", folder / "select.csv", *given, *LIMITS),
        ("calibrate", folder / "rules.json", folder / "fresh.csv", *LIMITS),
    ):
        told = call(*command, "--out", out, "--json")
        assert "the file of the rules is JSON itself" in json.loads(told.stdout)["error"]
    assert not out.exists()


class TestCalibrate:
    @pytest.mark.slow
    def test_the_rules_are_those_of_python(self, folder, rules, tmp_path):
        out, rows, fresh = tmp_path / "out.json", table(1200, 0), table(1500, 1)
        command = ["calibrate", rules, folder / "fresh.csv", "--selection", folder / "select.csv"]
        text = done(*command, "--model", out)
        found = tb.tune_labels(scores(), rows, rows[NAMES], limits=STATED).calibrate(fresh, fresh[NAMES])
        assert bands(read(out).rules) == bands(found.rules)
        assert str(found.certificate_).splitlines()[0] in text
        assert read(out).certificate_.certified
        assert len(read(rules).ledger_.attempts) == len(read(out).ledger_.attempts) == 1
        again = call(*command, "--model", tmp_path / "again.json", "--limit", "selected(1) <= .5")
        assert "an earlier attempt had these rows" in again.stderr
        done("predict", out, folder / "later.csv", "--out", tmp_path / "answers.csv")
        assert "calibration rows" in refused("certify", out, folder / "fresh.csv")

    def test_rows_without_labels_alone(self, folder, rules, tmp_path):
        out = tmp_path / "out.json"
        command = ["calibrate", rules, "--selection", folder / "select.csv", "--model", out]
        command += ["--unlabeled", folder / "more-bare.csv"]
        assert "needs labels, and no row here has one" in refused(*command)
        done(*command, "--limit", "selected(1) <= .6", "--attempts", "2")
        assert [attempt.spent for attempt in read(out).ledger_.attempts] == [0.5]
        assert read(out).certificate_.n_rows == 1500
        assert read(out).limits == tb.rates.checked_limits(["selected(1) <= .6"])

    def test_nothing_certified_is_said(self, folder, rules, tmp_path):
        command = ["calibrate", rules, folder / "fresh.csv", "--selection", folder / "select.csv"]
        result = call(*command, "--limit", "precision(1, by=label) >= .97", "--model", tmp_path / "out.json")
        assert result.exit_code == 4
        assert "no rule is written" in result.stderr
        assert not (tmp_path / "out.json").exists()
        assert len(read(rules).ledger_.attempts) == 1

    def test_what_is_missing_is_named(self, folder, rules, tmp_path):
        out = ["--model", tmp_path / "out.json"]
        assert "and --selection" in refused("calibrate", rules, folder / "fresh.csv", *out)
        wrong = refused("calibrate", rules, folder / "fresh.csv", "--selection", folder / "later.csv", *out)
        assert "is not the file on which the rules were selected" in wrong
        joined = ["calibrate", folder / "joined.json", folder / "fresh.csv", "--selection"]
        assert "was selected with --unlabeled too" in refused(*joined, folder / "select.csv", *out)
        group = refused("calibrate", rules, folder / "fresh.csv", "--group", "case", *out)
        assert "calibrated by --limit alone" in group
        document = json.loads(rules.read_text())
        del document["selection"]
        rules.write_text(json.dumps(document))
        old = refused("calibrate", rules, folder / "fresh.csv", "--selection", folder / "select.csv", *out)
        assert "does not tell its selection; run tune again" in old


def test_a_label_without_a_score_takes_the_default(folder, rules, tmp_path):
    lacking = table(300, 5)
    lacking.loc[:4, "p_threat"] = None
    lacking.to_csv(tmp_path / "lacking.csv", index=False)
    assert "--default 'human review'" in refused("predict", rules, tmp_path / "lacking.csv")
    out = tmp_path / "answers.csv"
    result = call("predict", rules, tmp_path / "lacking.csv", "--default", "human review", "--out", out)
    assert "5 rows of lacking.csv have the answer 'human review' (5 rows without a score)" in result.stderr
    expected = read(rules).predict(lacking, default="human review")
    answers = pd.read_csv(out)
    for label, column in expected.items():
        assert answers[f"prediction_{label}"].astype(str).tolist() == [str(answer) for answer in column]
    assert "'0', '1', 'human review'" in refused(
        "predict", rules, tmp_path / "lacking.csv", "--default", "ok"
    )


class TestMonitor:
    def test_batches_count_as_in_python(self, folder, rules, tmp_path):
        state, later = tmp_path / "state.json", table(800, 3)
        done("monitor", rules, folder / "fresh.csv", "--state", state, "--id", "case")
        output = done("monitor", rules, folder / "later.csv", "--state", state, "--id", "case", "--json")
        bounds = {(b["bound"]["words"], b["bound"]["subgroup"]): b for b in json.loads(output)["bounds"]}
        missed = bounds["miss rate of 1 by label", "threat"]
        both = pd.concat([table(1500, 1), later])
        answers = read(rules).predict(both)
        threat = both["threat"] == 1
        assert missed["n"] == threat.sum()
        assert missed["estimate"] == pytest.approx(np.mean(answers["threat"][threat] == 0))
        assert bounds["selection rate of 1 by label", "any label"]["n"] == len(both)

    def test_a_shift_raises_the_alarm(self, folder, rules, tmp_path):
        table(1500, 4).assign(p_threat=0.01).to_csv(tmp_path / "low.csv", index=False)
        result = call("monitor", rules, tmp_path / "low.csv", "--state", tmp_path / "s", *LIMITS[:2])
        assert result.exit_code == 3, result.output
        lines = [line for line in result.stdout.splitlines() if line.startswith("miss rate of 1 by label")]
        assert ["not contradicted" in line for line in lines] == ["insult" in line for line in lines]
