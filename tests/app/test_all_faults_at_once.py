"""Calls with several mistakes name all of them, and each refusal names its cure."""

import numpy as np
import pandas as pd
import pytest
from app.shell import call, done, refused

import tailboost as tb
from tailboost.app import cli


def patients(n, seed):
    """Rows with a score, the name of which is that of ids, and its truth value."""
    rng = np.random.default_rng(seed)
    score = rng.random(n).round(3)
    ill = (rng.random(n) < score).astype(int)
    return pd.DataFrame({"sex": rng.choice(["f", "m"], n), "risk_id": score, "high": score > 0.5, "ill": ill})


@pytest.fixture
def files(tmp_path):
    for name, n, seed in (("selection", 2000, 0), ("fresh", 2000, 1), ("few", 150, 2)):
        patients(n, seed).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def tuned(files, *options):
    return ("tune", files / "selection.csv", "--target", "ill", "--out", files / "rule.json", *options)


def test_all_missing_options_are_named_with_their_help(files, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["decide", str(files / "a.model"), str(files / "fresh.csv")])
    line = capsys.readouterr().err
    assert exit_.value.code == 2
    for option in ("--id", "--secret-env", "--out"):
        assert option in line
    assert "openssl rand -hex 16" in line
    with pytest.raises(SystemExit):
        cli.main(["decide", "a.model", "fresh.csv", "--id", "case", "--out=d.csv"])
    line = capsys.readouterr().err
    assert "--secret-env" in line
    assert "--id" not in line
    assert "--out" not in line


def test_all_wrong_limits_are_named(files):
    limits = ("--limit", "mis(1) <= 30%", "--limit", "miss(1) <= 30", "--limit", "miss(1)")
    line = refused(*tuned(files, "--score", "risk_id", *limits))
    assert "did you mean 'miss'" in line
    assert "write 0.3 for 30 %" in line
    assert "has no bound" in line

    limits = ("--limit", "miss(2) <= 30%", "--limit", "miss(1, by=sx) <= 30%")
    line = refused(*tuned(files, "--score", "risk_id", *limits))
    assert "there is no label '2'" in line
    assert "did you mean 'sex'" in line


def test_all_unreadable_limits_are_named_in_python():
    with pytest.raises(ValueError, match=r"no rate has this name(.|\n)*write 0\.3 for 30 %"):
        tb.rates.checked_limits(["mis(1) <= 30%", "miss(1) <= 30"])
    with pytest.raises(ValueError, match=r"^'mis\(1\) <= 30%': at"):
        tb.rates.checked_limits(["mis(1) <= 30%", "miss(1) <= 30%"])


def test_truth_values_are_no_scores(files):
    table = patients(200, 3)
    table.to_parquet(files / "selection.parquet")
    assert "holds no number in row 0" in refused(*tuned(files, "--score", "high", "--positive", "1"))
    line = refused(
        "tune", files / "selection.parquet", "--score", "high", "--target", "ill", "--positive", "1",
        "--out", files / "rule.json",
    )  # fmt: skip
    assert "truth values. Give the number behind it" in line


def test_scores_of_zero_and_one_are_numbers(files):
    table = patients(400, 3).assign(high=lambda t: t["high"].astype(int))
    table.loc[0, "high"] = None
    table.to_csv(files / "selection.csv", index=False)
    options = ("--score", "high", "--positive", "1", "--missing", ".5", "--kind", "number")
    assert "high >= " in done(*tuned(files, *options))


def test_a_score_is_no_column_of_persons(files):
    options = ("--positive", "1", "--limit", "miss(1) <= 60%")
    result = call(*tuned(files, "--score", "risk_id", *options))
    assert result.exit_code == 0
    assert "different values" not in result.stderr
    assert "Certified" in done("certify", files / "rule.json", files / "fresh.csv")
    assert "Certified" in done(
        "calibrate", files / "fresh.csv", "--score", "risk_id", "--target", "ill", *options,
        "--out", files / "calibrated.json",
    )  # fmt: skip
    selection, fresh = patients(2000, 0), patients(2000, 1)
    limits = ["miss(1) <= 60%"]
    rule = tb.tune(tb.Scores("risk_id", 1), selection[["risk_id"]], selection["ill"], limits=limits)
    assert tb.certify(rule, fresh[["risk_id"]], fresh["ill"]).certified
    # Another column of ids still counts.
    persons = fresh[["risk_id"]].assign(patient_id=np.arange(2000) // 3)
    with pytest.raises(ValueError, match="column 'patient_id' has 667 different values"):
        tb.certify(rule, persons, fresh["ill"])


def test_failed_attempts_of_one_table_count_for_another(files):
    options = ("--score", "risk_id", "--target", "ill", "--positive", "1", "--out", files / "c.json")
    limits = ("--limit", "miss(1) <= 20%", "--limit", "false_alarm(1) <= 20%")
    result = call("calibrate", files / "few.csv", *options, *limits)
    assert result.exit_code == 4
    attempts = files / "few.csv.attempts.json"
    assert "name it by --previous" in " ".join(result.stderr.split())
    shown = done("inspect", attempts)
    assert "attempt 1: " in shown
    assert "It has no rule" in " ".join(shown.split())
    assert "no rule; only inspect, and --previous" in refused("certify", attempts, files / "fresh.csv")

    again = ("calibrate", files / "fresh.csv", *options, "--limit", "miss(1) <= 60%")
    done(*again)
    alone = tb.load_rule(files / "c.json").certificate_
    (files / "fresh.csv.attempts.json").unlink()
    done(*again, "--previous", attempts)
    with_previous = tb.load_rule(files / "c.json").certificate_
    # The second attempt has a part of the level that the first one left.
    assert [len(alone.attempts), len(with_previous.attempts)] == [1, 2]
    assert with_previous.attempts[1].spent < alone.attempts[0].spent


@pytest.mark.parametrize("cut", [300, 4000])
def test_a_damaged_model_file_has_a_cure(tmp_path, cut):
    table = patients(200, 0)
    clf = tb.WorstClassBoostClassifier("stump", n_estimators=2).fit(table[["risk_id"]], table["ill"])
    path = tmp_path / "a.model"
    tb.save_model(clf, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match="fetch another copy, or fit and store the model again"):
        tb.load_model(path)


@pytest.mark.parametrize("objective", ["selected(1)", "largest(error(by=class))"])
def test_the_text_of_a_rate_is_an_objective(objective):
    table = patients(500, 0)
    score, X, y = tb.Scores("risk_id", 1), table[["risk_id"]], table["ill"]
    limits = ["miss(1) <= 30%"]
    by_text = tb.tune(score, X, y, objective=objective, limits=limits)
    by_rate = tb.tune(score, X, y, objective=tb.rates.parse(objective), limits=limits)
    assert str(by_text.rule_) == str(by_rate.rule_)
    assert str(by_text.reweight(objective=objective).rule_) == str(by_rate.rule_)
    with pytest.raises(ValueError, match="did you mean 'selected'"):
        tb.tune(score, X, y, objective="selectd(1)", limits=limits)
    with pytest.raises(ValueError, match="Did you mean 'worst_class'"):
        tb.tune(score, X, y, objective="worst_clas", limits=limits)


@pytest.mark.parametrize(("n_classes", "least"), [(2, 1.0), (3, 0.67), (5, 0.6)])
def test_the_least_fraction_of_classes_is_named(n_classes, least):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), np.arange(300) % n_classes
    with pytest.raises(ValueError, match=rf"give q={least} (or more )?\(p={least}"):
        tb.published.worst_class_boost("tree", theta=0.1, p=0.501).fit(X, y)
    clf = tb.published.worst_class_boost("tree", theta=0.1, p=least, n_estimators=1).fit(X, y)
    assert clf.gamma_ > 0


def test_a_batch_given_twice_and_a_model_in_the_place_of_a_table_have_a_cure(files):
    done(*tuned(files, "--score", "risk_id", "--positive", "1", "--limit", "miss(1) <= 60%"))
    rule, fresh = files / "rule.json", files / "fresh.csv"
    done("monitor", rule, fresh)
    assert "give other rows another name (--batch)" in refused("monitor", rule, fresh)
    assert "the table stands last" in refused("certify", rule, rule)
    line = refused("card", rule, fresh, "--monitor", files / "absent.json")
    assert "`tailboost monitor` writes it" in line
    assert (files / "rule.monitor.json").exists()


def test_all_unknown_subgroups_of_a_limit_are_named_in_python():
    table = patients(500, 0)
    score, X, groups = tb.Scores("risk_id", 1), table[["risk_id"]], table[["sex"]]
    with pytest.raises(ValueError, match=r"no subgroup is called 'F' or 'x': did you mean 'f'\? there are"):
        tb.tune(score, X, table.ill, groups=groups, limits=["miss(1, by=sex) <= {F: .3, x: .2, m: .4}"])
