"""Attempts in rule files: copies, supersets, two processes at once, and processes that are killed."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from shell import call

from tailboost import load_rule

KILLED = """
import os, signal, sys
import tailboost.guarantees.calibration as calibration
from tailboost.app.cli import app

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

calibration.limit_bounds = killed
app(sys.argv[1:])
"""


def table(n, seed):
    r = np.random.default_rng(seed)
    ill = r.random(n) < 0.4
    scores = (1 / (1 + np.exp(-(r.normal(size=n) + 1.6 * ill - 0.8)))).round(4)
    return pd.DataFrame({"p_yes": scores, "y": np.where(ill, "yes", "no")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    table(1500, 0).to_csv(folder / "sel.csv", index=False)
    table(2000, 4).to_csv(folder / "fresh.csv", index=False)
    rows = table(400, 1)
    for n in (100, 150):
        rows[:n].to_csv(folder / f"c{n}.csv", index=False)
    rows[100:].to_csv(folder / "unspent.csv", index=False)
    rows[::-1].to_csv(folder / "all.csv", index=False)
    given = "--score", "p_yes", "--target", "y", "--limit", "miss(yes) <= .2"
    result = call("tune", folder / "sel.csv", *given, "--out", folder / "tuned.json")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def rule(folder, tmp_path):
    return shutil.copy(folder / "tuned.json", tmp_path / "rule.json")


def command(folder, rule, data, out, *limits):
    stated = [part for limit in limits for part in ("--limit", limit)]
    return ["calibrate", rule, folder / data, "--selection", folder / "sel.csv", "--model", out, *stated]


def attempts(path):
    return len(json.loads(path.read_text())["ledger"]["attempts"])


def test_a_rule_file_carries_its_attempts(folder, rule, tmp_path):
    out = tmp_path / "out.json"
    rule.chmod(0o600)
    strict = "miss(yes) <= .1", "false_alarm(yes) <= .6"
    failed = call(*command(folder, rule, "c100.csv", out, *strict))
    assert failed.exit_code == 4
    assert attempts(rule) == 1
    assert rule.stat().st_mode & 0o777 == 0o600  # the permissions stay
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rule.json"]  # no file beside it
    copied = shutil.copy(rule, tmp_path / "copied.json")
    for path in (rule, copied):
        for data, shared in (("c100.csv", "100 rows, attempt 1 used 100"), ("all.csv", "attempt 1 used 100")):
            spent = call(*command(folder, path, data, out, "miss(yes) <= .3"))
            assert spent.exit_code == 2
            assert shared in spent.stderr
    assert attempts(rule) == 1
    passed = call(*command(folder, rule, "unspent.csv", out, "miss(yes) <= .3"))
    assert attempts(rule) == attempts(out) == 2
    " ".join(call("inspect", out).stdout.split())
    document = json.loads(call("inspect", rule, "--json").stdout)
    assert [attempt["rows"] for attempt in document["attempts"]] == [100, 300]
    again = call(*command(folder, rule, "unspent.csv", out, "miss(yes) <= .3"))
    assert again.stdout == passed.stdout  # the same call is no further attempt
    assert attempts(rule) == 2


def test_the_shell_refuses_another_model_on_spent_rows(tmp_path):
    for seed, name in enumerate(("train", "fresh")):
        r = np.random.default_rng(seed)
        X = pd.DataFrame(r.normal(size=(500, 3)), columns=list("abc"))
        X.assign(y=(X["a"] + r.normal(size=500) > 0.3).astype(int)).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    for name, estimator in {"one": "tree", "two": "stump"}.items():
        fit = call(
            *("fit", tmp_path / "train.csv", "--target", "y", "--method", "worstclassboost"),
            *("--set", "n_estimators=3", "--set", f'estimator="{estimator}"'),
            *("--model", tmp_path / f"{name}.model"),
        )
        assert fit.exit_code == 0, fit.output
    given = tmp_path / "fresh.csv", "--max-error", "0.33", "--model", tmp_path / "out.model"
    for _ in range(2):
        assert call("calibrate", tmp_path / "one.model", *given).exit_code == 4
    refused = call("calibrate", tmp_path / "two.model", *given, "--previous", tmp_path / "one.model")
    assert refused.exit_code == 2
    assert "attempt 1 used 500" in refused.stderr


def test_certify_of_a_calibrated_rule_tests_its_limits_on_fresh_rows(folder, rule, tmp_path):
    out = tmp_path / "out.json"
    assert call(*command(folder, rule, "unspent.csv", out, "miss(yes) <= .3")).exit_code == 0
    for data in ("unspent.csv", "all.csv"):
        spent = call("certify", out, folder / data)
        assert spent.exit_code == 2
    tested = json.loads(call("certify", out, folder / "fresh.csv", "--json").stdout)
    assert [bound["target"] for bound in tested["bounds"] if bound["target"] is not None] == [0.3]
    assert call("certify", rule, folder / "unspent.csv").exit_code == 0  # not used for this rule
    call(*command(folder, out, "c100.csv", tmp_path / "later.json"))


def test_json_of_written_files_is_that_of_inspect(folder, rule, tmp_path):
    """`calibrate`, `tune` and `fit` print the document of `inspect`; a refusal prints no document."""
    tuned, out, model = (tmp_path / name for name in ("tuned.json", "out.json", "fit.model"))
    scores = "--score", "p_yes", "--target", "y"
    given = folder / "sel.csv", *scores, "--limit", "miss(yes) <= .2"
    of_file = {
        tuned: ("tune", *given, "--out", tuned),
        out: command(folder, rule, "unspent.csv", out, "miss(yes) <= .3"),
        model: ("fit", folder / "sel.csv", "--target", "y", "--method", "erm", "--model", model),
    }
    for path, arguments in of_file.items():
        for more in ([], ["--quiet"]):
            result = call(*arguments, "--json", *more)
            assert result.exit_code == 0, result.output
            assert json.loads(result.stdout) == json.loads(call("inspect", path, "--json").stdout)
            assert (f": {path}" in result.stderr) == (not more)
    (bound,) = json.loads(call("inspect", out, "--json").stdout)["certificate"]["bounds"]
    day = load_rule(out).certificate_.date
    assert f"certified {day}" in " ".join(call("inspect", out).stdout.split())
    assert (bound["target"], bound["certified"]) == (0.3, True)
    assert bound["upper"] <= 0.3
    table = "calibrate", folder / "fresh.csv", *scores, "--out", tmp_path / "s.json"
    by_table = json.loads(call(*table, "--limit", "miss(yes) <= .3", "--json").stdout)
    assert by_table["certificate"]["certified"] is True

    strict = "miss(yes) <= .1", "false_alarm(yes) <= .6"
    no = tmp_path / "no.json"
    both = ["miss rate of 'yes': at most 0.2", "miss rate of 'no': at most 0"]
    for code, verdicts, arguments in [
        (4, {"miss rate of 'yes'": "not certified"}, command(folder, rule, "c100.csv", no, *strict)),
        (4, dict.fromkeys(both, "out of reach"), ("tune", *given, "--limit", "miss(no) <= 0", "--out", no)),
        (2, {}, command(folder, rule, "absent.csv", no)),
        (2, {}, ("tune", folder / "sel.csv", *scores, "--out", folder)),
        (2, {}, ("evaluate", rule, folder / "absent.csv")),
        (2, {}, ("monitor", rule, folder / "absent.csv")),
        (2, {}, ("certify", rule, folder / "fresh.csv", "--require", "--rate", "error()")),
    ]:
        result = call(*arguments, "--json")
        refusal = json.loads(result.stdout)
        assert (result.exit_code, refusal["exit_code"]) == (code, code), result.output
        assert {limit["name"]: limit["verdict"] for limit in refusal["limits"]} == verdicts
        # The error is on standard output alone; on standard error it is that of the call without --json.
        error = " ".join(refusal["error"].split())
        assert "tailboost: " not in result.stderr
        assert error in " ".join(call(*arguments).stderr.split())
    assert not no.exists()
    for option, code in ([], 0), (["--require"], 4):  # one document, also of a refused certificate
        result = call("certify", rule, folder / "fresh.csv", "--limit", "error() <= 0", "--json", *option)
        assert (result.exit_code, json.loads(result.stdout)["certified"]) == (code, False)


def test_an_edited_rule_file_is_read_without_its_certificate_alone(folder, rule, tmp_path):
    out, edited, certificate = (tmp_path / name for name in ("out.json", "edited.json", "certificate.json"))
    assert call(*command(folder, rule, "unspent.csv", out, "miss(yes) <= .3")).exit_code == 0
    assert "(unspent.csv)" in call("card", out, folder / "fresh.csv").stdout
    certificate.write_text(call("certify", out, folder / "fresh.csv", "--json").stdout)
    document = json.loads(out.read_text())
    document["rule"]["bands"][0][1][0] += 0.1
    edited.write_text(json.dumps(document))
    for arguments in (("predict", edited, folder / "fresh.csv"), ("card", edited, folder / "fresh.csv")):
        edited_rule = call(*arguments)
        assert edited_rule.exit_code == 2
    edited.write_text(json.dumps(document | {"certificate": None}))
    card = call("card", edited, folder / "fresh.csv")
    assert card.exit_code == 0
    assert "unspent.csv" not in card.stdout
    table(500, 9).to_csv(tmp_path / "later.csv", index=False)
    given = tmp_path / "later.csv", "--certificate", certificate
    refused = call("monitor", edited, *given, "--state", tmp_path / "edited.state")
    assert refused.exit_code == 2
    assert call("monitor", out, *given, "--state", tmp_path / "state").exit_code == 0


def test_no_output_replaces_an_input(folder, rule, tmp_path):
    certificate = shutil.copy(folder / "fresh.csv", tmp_path / "certificate.json")
    calls = (
        ("monitor", rule, folder / "fresh.csv", "--certificate", certificate, "--state", certificate),
        ("card", rule, folder / "fresh.csv", "--monitor", tmp_path / "m.md", "--out", tmp_path / "m.md"),
        (*command(folder, rule, "unspent.csv", tmp_path / "p.json"), "--previous", tmp_path / "p.json"),
    )
    for name in ("m.md", "p.json"):
        shutil.copy(folder / "tuned.json", tmp_path / name)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for each in calls:
        refused = call(*each)
        assert refused.exit_code == 2
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_targets_on_errors_are_those_of_the_calibration(folder, rule, tmp_path):
    out = tmp_path / "out.json"
    given = command(folder, rule, "unspent.csv", out)
    assert call(*given, "--max-error", "yes=.45,no=.6").exit_code == 0
    tested = json.loads(call("certify", out, folder / "fresh.csv", "--json").stdout)
    assert {b["subgroup"]: b["target"] for b in tested["bounds"] if b["target"]} == {"yes": 0.45, "no": 0.6}


def test_the_state_of_a_monitor_outlives_attempts(folder, rule, tmp_path):
    monitor = "monitor", rule, folder / "fresh.csv", "--state", tmp_path / "state.json"
    assert call(*monitor, "--limit", "miss(yes) <= .4").exit_code == 0
    assert call(*command(folder, rule, "c100.csv", tmp_path / "out.json", "miss(yes) <= .01")).exit_code == 4
    table(500, 9).to_csv(tmp_path / "later.csv", index=False)
    later = call("monitor", rule, tmp_path / "later.csv", "--state", tmp_path / "state.json")
    assert later.exit_code == 0, later.output


def test_a_read_only_rule_is_refused(folder, rule, tmp_path):
    rule.chmod(0o444)
    before = rule.read_bytes()
    refused = call(*command(folder, rule, "c100.csv", tmp_path / "out.json", "miss(yes) <= .3"))
    assert refused.exit_code == 2
    assert rule.read_bytes() == before


@pytest.mark.slow
def test_two_processes_at_once_lose_no_attempt(folder, rule, tmp_path):
    processes = []
    for k in range(2):
        table(300, 20 + k).to_csv(tmp_path / f"i{k}.csv", index=False)
        arguments = command(folder, rule, tmp_path / f"i{k}.csv", tmp_path / f"o{k}.json", "miss(yes) <= .2")
        line = [sys.executable, "-m", "tailboost", *map(str, arguments)]
        processes.append(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert attempts(rule) == 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
def test_a_killed_process_leaves_its_attempt(folder, rule, tmp_path):
    arguments = command(folder, rule, "unspent.csv", tmp_path / "out.json", "miss(yes) <= .3")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *map(str, arguments)], capture_output=True, check=False
    )
    assert killed.returncode == -9, killed.stderr
    assert attempts(rule) == 1
    assert not (tmp_path / "out.json").exists()
    spent = call(*command(folder, rule, "all.csv", tmp_path / "out.json", "miss(yes) <= .3"))
    assert "attempt 1 used 300" in spent.stderr
    same = call(*arguments)  # the same call gives the result that the killed process would have given
    assert ": 1." in same.stdout
    assert attempts(rule) == 1


def test_a_damaged_ledger_is_refused(folder, rule, tmp_path):
    content = json.loads(rule.read_text())
    for ledger in (None, {}, {"attempts": [{"key": 1}]}, {"attempts": [{"key": "a", "rows": {}}]}):
        rule.write_text(json.dumps(content | {"ledger": ledger}))
        for given in (
            ["predict", rule, folder / "fresh.csv"],
            command(folder, rule, "c100.csv", tmp_path / "out.json", "miss(yes) <= .3"),
        ):
            refused = call(*given)
            assert refused.exit_code == 2


def test_a_refusal_that_read_no_label_leaves_no_attempt_in_the_file(tmp_path):
    """Continuous scores select, and four scores leave no threshold at the ranks of a gap."""
    rng = np.random.default_rng(1)
    for name, grades in (("sel", 10**6), ("fresh", 4)):
        p = (rng.integers(grades, size=2000) + 0.5) / grades
        y = np.where(rng.random(2000) < p, "yes", "no")
        rows = pd.DataFrame({"p": p, "y": y, "g": rng.choice(["u", "v"], 2000)})
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    rule, limit = tmp_path / "rule.json", "gap(selected(yes, by=g)) <= .1"
    given = "--score", "p", "--target", "y", "--by-group", "g", "--limit", limit, "--out", rule
    assert call("tune", tmp_path / "sel.csv", *given).exit_code == 0
    of = ["calibrate", rule, tmp_path / "fresh.csv", "--selection", tmp_path / "sel.csv"]
    refused = call(*of, "--model", tmp_path / "out.json")
    assert refused.exit_code == 4
    assert attempts(rule) == 0
    certified = call(*of, "--model", tmp_path / "out.json", "--limit", "miss(yes, by=g) <= .4")
    assert certified.exit_code == 0, certified.output
    assert attempts(rule) == 1
