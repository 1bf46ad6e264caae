"""The shell answers as the library; its exit codes, files and refusals."""

import gzip
import hashlib
import json
import os
import re
import shlex
import shutil

import numpy as np
import pytest
from forms import in_sqlite

pd = pytest.importorskip("pandas")
testing = pytest.importorskip("typer.testing")

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tailboost as tb
from tailboost.app.cli import app, main
from tailboost.app.cli.frame import as_typed
from tailboost.classifiers import robust_mixture

LIMITS = ["miss(yes, by=region) <= 30%"]


@pytest.fixture(scope="module")
def tables():
    """Scores, and two features; the region is NA (North America) or EU, and the severity High or None."""
    rng, n = np.random.default_rng(0), 2400
    fraud = rng.random(n) < 0.3
    table = pd.DataFrame({
        "region": rng.choice(["EU", "NA"], n),
        "score": (0.3 + 0.3 * fraud + 0.15 * rng.normal(size=n)).clip(0, 1).round(6),
        "amount": np.exp(rng.normal(size=n) + fraud).round(2),
        "fraud": np.where(fraud, "yes", "no"), "severity": np.where(fraud, "High", "None"),
    })  # fmt: skip
    return {"a": table[:800], "b": table[800:1600], "c": table[1600:]}


@pytest.fixture
def folder(tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
    return tmp_path


def shell(line, code=0):
    done = testing.CliRunner().invoke(app, shlex.split(line), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def parts(table):
    return {"X": table[["score"]], "y": table["fraud"], "groups": table[["region"]]}


OPTIONS = f"--score score --target fraud --positive yes --group region --limit {shlex.quote(LIMITS[0])}"


def test_commands_on_scores_answer_as_python(folder, tables):
    score = tb.Scores("score", "yes")
    tuned = tb.tune(score, **parts(tables["a"]), limits=LIMITS)
    shell(f"tune a.csv {OPTIONS} --out tuned.json")
    assert shell("rule tuned.json") == f"{tuned.rule_}\n"
    assert shell("rule tuned.json --sql --table t") == tuned.rule_.to_sql(table="t") + "\n"
    assert shell("rule tuned.json --python") == tuned.rule_.to_python() + "\n"

    certificate = tb.certify(tuned, **parts(tables["b"]), confidence=0.9)
    printed = json.loads(shell("certify tuned.json b.csv --confidence 0.9 --json"))
    assert printed["bounds"] == json.loads(json.dumps(certificate.to_dict(), default=str))["bounds"]

    rule = tb.calibrate(score, **parts(tables["b"]), limits=LIMITS, confidence=0.9)
    line = f"calibrate b.csv {OPTIONS} --confidence 0.9 --out rule.json"
    assert shell(line) == f"{rule.certificate_}\n"
    shell("predict rule.json c.csv --id region --out answers.csv")
    answers = pd.read_csv("answers.csv", keep_default_na=False)
    assert answers["prediction"].tolist() == rule.predict(tables["c"][["score"]]).tolist()
    assert answers["region"].tolist() == tables["c"]["region"].tolist()

    for name in ("2026.01", "2026.02"):
        tables["c"][int(name[-1]) - 1 :: 2].to_csv(f"{name}.csv")
        shell(f"monitor rule.json {name}.csv --out months.json")
    months = json.loads((folder / "months.json").read_text())["batches"]
    assert [month["name"] for month in months] == ["2026.01", "2026.02"]
    shell("monitor rule.json c.csv")
    monitor = tb.Monitor(rule).add(**parts(tables["c"]), name="c")
    state = json.loads((folder / "rule.monitor.json").read_text())
    assert state["batches"] == json.loads(json.dumps(monitor.to_dict()))["batches"]

    shell("card rule.json c.csv --monitor rule.monitor.json --purpose 'Find fraud.' --out card.html")
    assert "Find fraud." in (folder / "card.html").read_text()


def test_commands_on_a_model_answer_as_python(folder, tables):
    train = tables["a"].drop(columns="severity")
    model = tb.RobustMixtureClassifier(limits=LIMITS, random_state=0)
    model.fit(train.drop(columns="fraud"), train["fraud"], groups=train[["region"]])
    limit = shlex.quote(LIMITS[0])
    shell(f"fit a.csv --target fraud --group region --drop severity --limit {limit} --out m.model")
    shell("predict m.model c.csv --out answers.csv")
    expected = model.predict(tables["c"][["region", "score", "amount"]])
    assert pd.read_csv("answers.csv")["prediction"].tolist() == expected.tolist()
    shell("calibrate m.model b.csv --out certified.model")
    assert tb.load_model("certified.model").certificate_.certified
    assert "miss" in shell("tradeoff m.model --objective error --out curve.svg")
    shell("tradeoff m.model --pick 20% --out picked.model")
    assert "1 - recall" in shell("tradeoff m.model --limited 'recall(yes)' --pick 80% --out no.model", 2)
    assert {"curve.svg", "picked.model"} <= {path.name for path in folder.iterdir()}


def test_rows_needed_and_the_bundled_table(folder):
    limits, shares = ["miss('ill', by='sex') <= 25%"], [{"f": 0.2, "m": 0.2}]
    expected = tb.rows_needed(limits, shares, power=0.9, confidence=0.9)
    line = "rows-needed --limit 'miss(ill, by=sex) <= 25%' --rate f=.2,m=20% --power 0.9 --confidence 0.9"
    assert shell(line) == f"{expected}\n"
    assert " of m=1\n" in shell(line.replace("m=20%", "m=1=20%"))
    shell("example data")
    assert sum(len(pd.read_csv(path)) for path in (folder / "data").iterdir()) == 30_000
    assert "exists" in shell("example data", 2)


def test_words_that_pandas_takes_for_missing_are_labels_and_groups(folder, tables):
    limit = "miss('None', by=region) <= 60%"
    line = f'--score score --target severity --positive High --group region --limit "{limit}"'
    for kind in ("csv", "parquet"):
        tables["a"].to_parquet("a.parquet")
        shell(f"tune a.{kind} {line} --by-group region --out {kind}.json")
    rule = tb.load_rule("csv.json")
    assert rule.rule_.groups == ["EU", "NA"] == tb.load_rule("parquet.json").rule_.groups
    assert rule.classes_.tolist() == ["High", "None"]
    assert rule.predict([0.1], groups=["NA"]).tolist()[0] in ("High", "None")


def test_other_ways_to_write_a_table(folder, tables):
    table = tables["a"][:300].astype({"amount": object})
    table["amount"] = (table["amount"] * 1000).map("{:,.2f}".format)
    table.loc[table.index[::40], "amount"] = "n/k"
    table.to_csv("odd.csv", index=False, sep=";", encoding="utf-16")
    line = "fit odd.csv --target fraud --drop severity --out m.model --sep ';' --encoding utf-16"
    assert "'amount'" in shell(line, 2)
    shell(f"{line} --thousands , --na n/k")
    shell("predict m.model odd.csv --sep ';' --encoding utf-16 --thousands , --na n/k --out answers.csv")
    assert len((folder / "answers.csv").read_text().splitlines()) == 301


def test_codes_of_text_keep_their_zeros(folder, tables):
    fraud = tables["a"]["fraud"][:200].replace("no", "human review")
    code = np.where(fraud == "yes", "007", "7")
    rows = pd.DataFrame({"fraud": fraud, "code": code, "row": [None, *range(199)], "sex": np.arange(200) % 2})
    rows.to_csv("codes.csv", index=False)
    shell("fit codes.csv --target fraud --text code --group sex --out m.model")
    shell("predict m.model codes.csv --out answers.tsv")
    assert pd.read_table("answers.tsv").to_numpy()[:, 1:3].tolist() == [[label, False] for label in fraud]


def test_words_are_features_and_ids_as_they_are_written(folder):
    """As Python reads a table of these words; a row alone as in its file."""
    rng, n = np.random.default_rng(2), 300
    region, code = rng.choice(["NA", "None", "EU", None], n), rng.choice(["7", "007", "1E2", "100"], n)
    table = pd.DataFrame({"region": region, "code": code, "amount": rng.normal(size=n).round(3)})
    table.loc[::7, "amount"] = np.nan
    y = np.where((region == "NA") ^ (code == "007"), "yes", "no")
    X = table.astype({"region": "category", "code": "category"})
    expected = tb.RobustMixtureClassifier(random_state=0).fit(X[:200], y[:200])
    tb.save_model(expected, "python.model")
    written = table.assign(amount=table["amount"].astype(object).where(table["amount"].notna(), "NULL"), y=y)
    written[:200].to_csv("a.csv", index=False)
    written[200:].to_csv("b.csv", index=False)
    shell("fit a.csv --target y --out shell.model")
    columns = ["prediction", "probability_no", "probability_yes"]
    for model in ("shell", "python"):
        shell(f"predict {model}.model b.csv --id region --id amount --id code --out answers.csv")
        words = pd.read_csv("answers.csv", dtype=str, keep_default_na=False)
        assert words["region"].tolist() == written["region"][200:].fillna("").tolist()
        assert words["code"].tolist() == code[200:].tolist()
        answers = pd.read_csv("answers.csv")[columns]
        np.testing.assert_allclose(answers[columns[1:]], expected.predict_proba(X[200:]), atol=1e-8)
        for row in [200 + np.argmax(code[200:] == word) for word in ("7", "007", "100")]:
            written[row : row + 1].to_csv("one.csv", index=False)
            shell(f"predict {model}.model one.csv --out one_answer.csv")
            assert pd.read_csv("one_answer.csv")[columns].iloc[0].tolist() == answers.iloc[row - 200].tolist()


def test_parquet_answers_as_csv_whatever_the_index_of_its_table(folder, tables):
    """Tables that were shuffled, filtered or joined, and one with the ids as its index."""
    shell(f"tune a.csv {OPTIONS} --out r.json")
    rows = tables["c"].assign(who=range(800))
    for table in (rows.sample(frac=1, random_state=0), rows[700:], rows.set_index(rows["who"] % 2)):
        table.drop(columns="severity").to_parquet("t.parquet")
        table.to_csv("t.csv", index=False)
        line = "predict r.json t.{} --id who --id region"
        assert shell(line.format("parquet")) == shell(line.format("csv"))
    rows.set_index("who").to_parquet("t.parquet")
    rows.to_csv("t.csv", index=False)
    assert shell(line.format("parquet")) == shell(line.format("csv"))
    if hasattr(os, "mkfifo"):
        os.mkfifo("p.csv")
        assert "pipe" in shell("predict r.json p.csv", 2)


def test_numbers_of_groups_are_numbers_among_the_features(folder):
    """Of a model of Python, whose categories are numbers, and of fit; from either kind of file."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"ward": rng.choice([1, 2, 3], 900), "z": rng.normal(size=900).round(3)})
    table["y"] = np.where(rng.normal(size=900) < table["ward"] - 2 + table["z"], "yes", "no")
    old, new, X, y, groups = slice(300), slice(600, 900), table[["ward", "z"]], table["y"], table[["ward"]]
    code = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["ward"]), ("passthrough", ["z"]))
    bare = make_pipeline(code, LogisticRegression()).fit(X[old], y[old])
    given = {"groups": groups[300:600], "limits": ["miss(yes, by=ward) <= 60%"]}
    models = {"tuned": tb.tune(bare, X[300:600], y[300:600], training_rows=X[old], **given)}
    tb.save_model(models["tuned"], "tuned.model")
    models["fit"] = tb.RobustMixtureClassifier(random_state=0).fit(X[old], y[old], groups=groups[old])
    for kind, write in (("csv", pd.DataFrame.to_csv), ("parquet", pd.DataFrame.to_parquet)):
        write(table[old], f"old.{kind}", index=False)
        write(table[new], f"new.{kind}", index=False)
        shell(f"fit old.{kind} --target y --group ward --out fit.model")
        for name, model in models.items():
            shell(f"predict {name}.model new.{kind} --id ward --out answers.csv")
            expected = model.predict_proba(X[new])[:, 1]
            np.testing.assert_allclose(pd.read_csv("answers.csv")["probability_yes"], expected, atol=1e-8)


def test_a_fit_that_is_stopped_writes_no_model(folder, interrupted, monkeypatch, capsys):
    models = {"first": interrupted(7), "second": interrupted(7)}
    monkeypatch.setattr(robust_mixture, "default_estimators", lambda *_: models)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split("fit a.csv --target fraud --drop region --drop severity --out m.model"))
    assert ended.value.code == 130
    assert capsys.readouterr().err == "tailboost: stopped by Ctrl-C\n"
    assert not (folder / "m.model").exists()


def test_numbers_that_only_some_of_the_file_has(folder, tables):
    """A column with a number is one of numbers, also where a later file has none."""
    fraud = tables["a"]["fraud"][:200]
    pd.DataFrame({"fraud": fraud, "z": (fraud == "yes") * 1.5}).to_csv("a.csv", index=False)
    shell("fit a.csv --target fraud --out m.model")
    for words in ("z\nNA\nNULL\n", 'z\n""\n""\n'):
        (folder / "later.csv").write_text(words)
        assert len(shell("predict m.model later.csv").splitlines()) == 3
    (folder / "later.csv").write_text("z\nhigh\n")
    assert "'high'" in shell("predict m.model later.csv", 2)


def test_used_rows_are_found_under_another_name_and_from_another_folder(folder):
    (folder / "out").mkdir()
    shell(f"calibrate b.csv {OPTIONS} --out rule.json")
    (folder / "b.csv").rename("renamed.csv")
    other = OPTIONS.replace("30%", "35%")
    assert "attempt" in shell(f"calibrate renamed.csv {other} --out out/rule.json", 2)
    shell(f"calibrate renamed.csv {OPTIONS} --out out/rule.json")  # the same call gives the same rule
    first, again = (json.loads((folder / name).read_text()) for name in ("rule.json", "out/rule.json"))
    assert again["rule"] == first["rule"]
    assert again["certificate"]["bounds"] == first["certificate"]["bounds"]
    shell(f"calibrate c.csv {other} --out out/rule.json")  # other rows


def test_other_names_of_the_labels_free_no_used_rows(folder, tables):
    """The same rows with labels 1 and 0 or truth values, in either order of the names, are used up."""
    shell(f"calibrate b.csv {OPTIONS} --out rule.json")
    other = OPTIONS.replace("30%", "35%")
    for yes, no in (("1", "0"), ("True", "False"), ("a", "b")):
        names = {"yes": yes, "no": no}
        tables["b"].replace({"fraud": names}).sample(frac=1, random_state=0).to_csv("d.csv", index=False)
        renamed = other.replace("yes", yes)
        assert "attempt" in shell(f"calibrate d.csv {renamed} --out d.json", 2)
        tables["c"].replace({"fraud": names}).to_csv("e.csv", index=False)
        (folder / "tailboost-attempts.json").rename("kept.json")
        shell(f"calibrate e.csv {renamed} --out e.json")  # rows that nobody had
        (folder / "kept.json").rename("tailboost-attempts.json")


def test_sql_of_several_scores_names_their_columns(folder):
    rng = np.random.default_rng(1)
    P = rng.dirichlet([0.6] * 3, 1000)
    table = pd.DataFrame(P, columns=["p_mid", "p_low", "p_high"])
    table["y"] = np.array(["mid", "low", "high"])[(rng.random(1000)[:, None] > P.cumsum(axis=1)).sum(axis=1)]
    table["site"] = rng.choice(["u", "v"], 1000)
    table.to_csv("t.csv", index=False)
    scores = "--score p_mid --score p_low --score p_high --target y --by-group site"
    shell(f"tune t.csv {scores} --limit 'miss(high, by=site) <= 20%' --out r.json")
    shell("predict r.json t.csv --out answers.csv")
    answers = in_sqlite(shell("rule r.json --sql"), **table)
    assert answers == pd.read_csv("answers.csv")["prediction"].tolist()


@pytest.mark.parametrize(("ending", "first", "rows_of"), [
    ("model", "fit a.csv --target fraud --drop score --drop region --group region", "Training data"),
    ("json", "tune a.csv --score score --target fraud --positive yes --group region", "Rule selected on"),
])  # fmt: skip
def test_facts_are_kept_in_the_files_and_stand_on_the_card(folder, ending, first, rows_of):
    """Of a model file and of a rule file; a later fact replaces an earlier one."""
    limit = f"--limit {shlex.quote(LIMITS[0])}"
    shell(f"{first} {limit} --about owner=Risk --about 'Version = 1' --out m.{ending}")
    limit = limit.replace("30%", "45%")
    shell(f"calibrate m.{ending} b.csv {limit} --about version=2 --out n.{ending}")
    shell(f"card n.{ending} c.csv --about purpose=Audit --out card.html")
    page = (folder / "card.html").read_text()
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert "<h1>Model card of n</h1>" in page
    assert (facts["Owner"], facts["Version"], facts["Purpose"]) == ("Risk", "2", "Audit")
    assert facts["Certified on"] == "800 rows of b.csv"
    assert facts[rows_of].startswith("800 rows of a.csv")
    content = (folder / f"n.{ending}").read_bytes()
    assert facts["File"] == f"sha256sum n.{ending} gives {hashlib.sha256(content).hexdigest()}"
    assert "'owner'" in shell(f"card n.{ending} c.csv --about owner --out card.html", 2)


def test_an_uncertified_attempt_ends_with_4_and_an_alarm_with_3_and_all_attempts_count(folder, tables):
    strict = OPTIONS.replace("miss(yes, by=region) <= 30%", "error <= 14%")
    shell(f"calibrate a.csv {strict} --out rule.json", 4)
    assert not (folder / "rule.json").exists()
    shell(f"calibrate b.csv {OPTIONS} --out rule.json")
    shell("certify rule.json c.csv --limit 'error <= 1%' --require", 4)
    ledger, spent = folder / "tailboost-attempts.json", [0.9, 0.09, 0.009]
    old = [each | {"certified": False, "later": 1} for each in json.loads(ledger.read_text())]
    ledger.write_text(json.dumps(old))  # of another version
    for line in (f"c.csv {OPTIONS}", "rule.json c.csv --limit 'miss(yes, by=region) <= 60%'"):
        shell(f"calibrate {line} --out later.json")
        found = [each.spent for each in tb.load_rule("later.json").ledger_.attempts]
        assert found == pytest.approx(spent)  # certified ones count, too
        ledger.unlink()  # the file of a rule has its attempts
    for damaged in ('""', "{}", "[{}]"):
        ledger.write_text(damaged)
        assert "restore a copy" in shell(f"calibrate c.csv {OPTIONS} --out no.json", 2)
    ledger.unlink()
    tables["c"].assign(score=(tables["c"]["score"] - 0.2).clip(0)).to_csv("worse.csv", index=False)
    assert "alarm" in shell("monitor rule.json worse.csv", 3).lower()


def test_rows_known_to_a_rule_file_are_refused_and_known_to_the_rule_after_it(folder, tables):
    tuned = tb.tune(tb.Scores("score", "yes"), **parts(tables["a"]), limits=LIMITS)
    rule = tb.calibrate(tuned, **parts(tables["b"]))
    shell(f"tune a.csv {OPTIONS} --out tuned.json")
    fresh = shell("certify tuned.json b.csv")
    shell("calibrate tuned.json b.csv --out rule.json")
    shell("certify rule.json c.csv")
    for table in "ab":
        for name, known in (("tuned", tuned), ("rule", rule)):
            with pytest.raises(tb.LeakageError):
                tb.certify(known, **parts(tables[table]))
            assert "of these rows" in shell(f"certify {name}.json {table}.csv", 2)
            assert "of these rows" in shell(f"card {name}.json {table}.csv --out card.html", 2)
        assert "of these rows" in shell(f"calibrate rule.json {table}.csv --out other.json", 2)
    (folder / "tailboost-attempts.json").unlink()
    assert shell("certify tuned.json b.csv") == fresh  # of which nobody knows any more
    os.symlink("loop.csv", "loop.csv")
    assert "loop.csv" in shell("predict rule.json c.csv --out loop.csv", 2)


def test_a_rule_keeps_its_clusters_and_equal_codes(folder, tables):
    codes = {"EU": "0", "NA": "1", "no": "0", "yes": "1"}  # of groups and labels
    for name in "bc":
        persons = np.arange(len(tables[name])) // 2
        tables[name].replace(codes).assign(person=persons).to_csv(f"{name}.csv", index=False)
    shell(f"calibrate b.csv {OPTIONS.replace('yes', '1')} --cluster person --out rule.json")
    stated = shell("certify rule.json c.csv --cluster person")
    assert "clusters" in stated
    assert shell("certify rule.json c.csv") == stated


def test_whole_numbers_beside_missing_ones_are_the_same(folder):
    p = np.random.default_rng(0).random(900).round(3)
    rows = pd.DataFrame({"p": p, "late": (p > np.arange(900) % 10 / 10) + 0, "site": np.arange(900) % 2})
    rows.to_csv("a.csv", index=False)
    options = "--positive 1 --group site --by-group site --limit 'miss(1, by=site) <= 60%'"
    shell(f"calibrate a.csv --score p --target late {options} --out rule.json")
    later = rows.assign(p=np.roll(p, 1)).reset_index()
    for table, code, words in ((later, 0, "900 rows"), (later.astype(float), 2, "no row has a new label")):
        table.to_csv("b.csv", index=False)
        shell("predict rule.json b.csv --default 0 --out answers.csv")
        assert pd.read_csv("answers.csv")["prediction"].mean() > 0.3
        assert words in shell("monitor rule.json b.csv --id index", code)
    rows.assign(p=rows["p"].where(rows.index > 1)).to_csv("c.csv", index=False)
    shell("predict rule.json c.csv --default 'human review' --out answers.parquet")
    answers = pd.read_parquet("answers.parquet")["prediction"]
    assert ([*answers[:2]], {*answers[2:]}) == (["human review"] * 2, {"0", "1"})


@pytest.fixture(scope="module")
def whole(tables, tmp_path_factory):
    """A folder with rules, which no mistake changes."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, table in tables.items():
            table.to_csv(f"{name}.csv", index=False)
        shell("tune b.csv --score score --target fraud --positive yes --out tuned.json")
        shell(f"calibrate c.csv {OPTIONS} --by-group region --out groups.json")
    for name, factor in (("lacking", np.where(tables["c"]["score"] > 0.8, np.nan, 1)), ("percent", 100)):
        tables["c"].assign(score=factor * tables["c"]["score"]).to_csv(folder / f"{name}.csv", index=False)
    for name in ("train", "tune", "test"):
        (folder / f"{name}.csv").touch()
    texts = {
        "twice.csv": "fraud,fraud\nyes,yes\nno,no\n", "na.csv": "NA,NA,fraud\n1,2,yes\n3,4,no\n",
        "longer.csv": "amount,fraud\n1,5,yes\n2,5,no\n",
        "excel.csv": "sep=;\nscore;fraud\n.5;yes\n.4;no\n", "comma.csv": "z;fraud\n1,5;yes\n2,5;no\n",
        "book.xlsx": "PK\x03\x04 a workbook", "rows.json": '[{"score": 0.5, "fraud": "yes"}]',
        "columns.json": '{\n "score": [0.5]}', "page.csv": "<!DOCTYPE html><table>", "blank.csv": ",,\n",
        "gap.csv": "score,fraud,region\n.2,yes,\n.3,no,a\n", "other.csv": "region,score\nAF,.5\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    a, numbers = tables["a"], np.arange(800)
    a.to_csv(folder / "index.csv")
    a.to_parquet(folder / "a.parquet")
    a.assign(id=numbers, cents=numbers % 300 * 3).to_csv(folder / "ids.csv", index=False)
    (folder / "cut.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes())[:-9])
    return folder


@pytest.mark.parametrize(("line", "culprit"), [
    ("example .", "exists"), ("rule tuned.json --python --table t", "tabl"), ("rule a.csv", "a.csv"),
    ("rule tuned.json --sql --json", "--json"),
    ("rows-needed --limit 'miss(1) <= 5%' --limit 'error <= 5%' --rate 1%", "rate"),
    ("rows-needed --limit 'miss(1, by=sex) <= 9%' --rate f=5%,f=6%", "f=5%,f=6%"),
    ("rows-needed --limit 'miss(1) <= 5%' --rate much", "much"),
    ("fit a.csv --target fraud --objective error --objective worst_class --out m.model", "--objective"),
    ("fit a.csv --target fraud --by-group region --by-group severity --out m.model", "--by-group"),
    ("fit book.xlsx --target fraud --encoding cp1252 --out m.model", "CSV"),
    ("fit excel.csv --target fraud --sep ';' --out m.model", "first line"),
    ("fit comma.csv --target fraud --sep ';' --out m.model", "--decimal"),
    ("fit a.csv --target fraud --cluster fraud --out m.model", "cluster"),
    ("fit a.csv --target fraud --sep , --sep ; --out m.model", "--sep"),
    ("fit index.csv --target fraud --out m.model", "'Unnamed: 0'"),
    ("fit a.csv --target fraud --text cod --out m.model", "'cod'"),
    ("fit twice.csv --target fraud --out m.model", "'fraud'"),
    ("fit columns.json --target fraud --out m.model", "JSON"),
    ("fit page.csv --target fraud --out m.model", "web page"),
    ("fit blank.csv --target fraud --out m.model", "header"),
    ("fit longer.csv --target fraud --out m.model", "--sep"),
    ("fit a.csv --target score --out m.model", "classes"),
    ("fit a.csv --target fraud --out no/m.model", "'no'"),
    ("fit ids.csv --target id --out m.model", "classes"), ("fit a.csv --target frod --out m.model", "'frod'"),
    ("fit ids.csv --target cents --out m.model", "300"), ("fit a.csv --target fraud --out m.txt", "'m.txt'"),
    ("fit na.csv --target fraud --out n.model", "NA"),
    ("tune a.csv --score score --target fraud --positive yes --out r.json --sep ';'", "--sep"),
    ("tune a.csv --score score --target fraud --positive maybe --out r.json", "'maybe'"),
    ("tune a.csv --score region --target fraud --positive yes --out r.json", "region"),
    ("tune a.csv --score amount --target fraud --positive yes --out r.json", "--kind"),
    ("tune a.csv --score scor --target fraud --positive yes --out r.json", "'scor'"),
    ("tune none.csv --score score --target fraud --out r.json", "none.csv"),
    ("tune rows.json --score score --target fraud --out r.json", "JSON"),
    (f"tune a.csv {OPTIONS} --by-group fraud --out r.json", "--target"),
    (f"tune gap.csv {OPTIONS} --out r.json", "write 'missing'"),
    ("calibrate tuned.json lacking.csv --limit 'error <= 9%' --out r.json", "missing= (in Python)"),
    ("calibrate tuned.json percent.csv --limit 'error <= 9%' --out r.json", "kind= (in Python)"),
    ("calibrate a.csv --score score --target fraud --out r.json", "--limit 'miss(1) <= 40%'"),
    (f"calibrate a.csv {OPTIONS} --limit 'mis(yes) <= 1%' --out r.json", "mis"),
    ("calibrate tuned.json b.csv --missing .5 --out r.json", "--missing"),
    (f"calibrate lacking.csv {OPTIONS} --out r.json", "--missing"),
    ("calibrate tuned.json b.csv --out r.json", "selected on"),
    ("calibrate tuned.json --out r.json", "fresh"), ("certify tuned.json a.csv --require", "--limit"),
    ("certify tuned.json a.csv --limit 'cost() <= 5'", "Python"), ("certifi tuned.json", "certifi"),
    ("certify tuned.json a.csv --confidence 2", "confidence"),
    ("certify tuned.json b.csv --limt 1", "--limt"), ("monitor tuned.json b.csv", "certificate= (in Python)"),
    ("predict a.csv a.csv", "a.csv"), ("monitor tuned.json b.csv --id id --target typo", "'typo'"),
    ("predict tuned.json a.csv --id region --id region", "--id region region"),
    ("predict tuned.json a.csv --id prediction", "--id prediction"),
    ("predict tuned.json a.csv --thousands .", "--decimal"),
    ("predict tuned.json a.csv --thousands xx", "thous"), ("predict tuned.json cut.csv.gz", "cut.csv.gz"),
    ("predict tuned.json a.csv --decimal ''", "--deci"), ("predict groups.json other.csv", "1 of 1 rows"),
    ("predict tuned.json a.csv --out p.csv.gz", ".gz"), ("predict tuned.json a.csv --out a.csv", "a.csv"),
    ("predict tuned.json a.parquet --na n/k", "--na"), ("predict tuned.json a.csv --out p.xlsx", "end"),
    ("predict tuned.json a.csv --sep ''", "--sep"), ("predict tuned.json a.csv --sep ab", "'ab'"),
    ("card tuned.json b.csv --out card.html --monitor a.csv", "'a.csv' is no state"),
    ("card tuned.json b.csv --out card.md", "card.md"), ("tradeoff tuned.json --sep ;", "--sep"),
    ("tradeoff tuned.json --na x", "--na"), ("tradeoff tuned.json", "tuned.json"),
])  # fmt: skip
def test_a_mistake_is_one_sentence_with_the_culprit(line, culprit, whole, capsys, monkeypatch):
    monkeypatch.chdir(whole)
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line))
    assert ended.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert culprit in said
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


@pytest.fixture(scope="module")
def of_python(tables, tmp_path_factory):
    """Models that Python fitted on the score and the amount, by name, as files of a folder with tables."""
    folder, columns = tmp_path_factory.mktemp("python"), ["score", "amount"]
    X, y = {name: table[columns] for name, table in tables.items()}, {}
    for name, table in tables.items():
        y[name] = table["fraud"]
        table[["severity", "amount", "region", "fraud", "score"]].to_csv(folder / f"{name}.csv", index=False)
    bare = LogisticRegression().fit(X["a"], y["a"])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X["a"], y["a"])
    models = {"bare": bare, "pipeline": pipeline}
    groups, unnamed = tables["b"][["region"]], ["miss(yes, by=group) <= 30%"]
    for name, given in (
        ("blind", {"groups": groups, "limits": LIMITS}),
        ("aware", {"groups": groups, "limits": LIMITS, "by_group": "region"}),
        ("unnamed", {"groups": groups["region"].to_numpy(), "limits": unnamed}),
    ):
        models[name] = tb.calibrate(bare, X["b"], y["b"], **given, training_rows=X["a"])
    for name, model in models.items():
        tb.save_model(model, folder / f"{name}.model")
    return folder, models


@pytest.mark.filterwarnings("ignore:X. whether these rows trained")
@pytest.mark.parametrize("name", ["bare", "pipeline", "blind", "aware"])
def test_a_model_of_python_takes_its_columns_from_any_table(name, of_python, tables, tmp_path, monkeypatch):
    folder, models = of_python
    monkeypatch.chdir(folder)
    model, table = models[name], tables["c"]
    X, y, groups = table[["score", "amount"]], table["fraud"], table[["region"]]
    given = {"groups": groups} if name == "aware" else {}
    shell(f"predict {name}.model c.csv --out answers.csv")
    assert pd.read_csv("answers.csv")["prediction"].tolist() == model.predict(X, **given).tolist()
    limit = shlex.quote(LIMITS[0])
    expected = tb.certify(model, X, y, groups=groups, limits=LIMITS)
    printed = shell(f"certify {name}.model c.csv --target fraud --group region --limit {limit} --json")
    assert json.loads(printed)["bounds"] == json.loads(json.dumps(expected.to_dict(), default=str))["bounds"]
    if name in ("blind", "aware"):
        shell(f"card {name}.model c.csv --target fraud --out card.html")
        shell(f"monitor {name}.model c.csv --target fraud --out {name}.json")
        state = tb.Monitor(model).add(X, y, groups=groups, name="c").to_dict()
        batches = json.loads((folder / f"{name}.json").read_text())["batches"]
        assert batches == json.loads(json.dumps(state))["batches"]
    else:
        rule = tb.calibrate(model, X, y, groups=groups, limits=LIMITS)
        shutil.copy("c.csv", tmp_path)
        options = f"--target fraud --group region --limit {limit} --out {tmp_path}/n.model"
        shell(f"calibrate {name}.model {tmp_path}/c.csv {options}")
        assert tb.load_model(tmp_path / "n.model").rule_ == rule.rule_
    table.drop(columns="amount").to_csv("lacks.csv", index=False)
    assert "no column 'amount'" in shell(f"predict {name}.model lacks.csv", 2)
    is_selected = name in ("blind", "aware")
    assert ("has no rule" in shell(f"rule {name}.model", 0 if is_selected else 2)) != is_selected


@pytest.mark.parametrize(("message", "typed"), [
    ("no column 'limit=5'", "no column 'limit=5'"), ("thousands= or rates=", "--thousands or --rate"),
    ("limits=['a <= 1%', 'b] <= 2%'] here", "--limit 'a <= 1%' --limit 'b] <= 2%' here"),
    ("its 'cluster=1': \"b's limit=\", limits=.", "its 'cluster=1': \"b's limit=\", --limit."),
    ("f(limits=3, g(rate=2), rate=1), kind=.", "f(limits=3, g(rate=2), rate=1), kind= (in Python)."),
])  # fmt: skip
def test_only_arguments_outside_of_quotes_are_options(message, typed):
    assert as_typed(message, ["limit", "cluster", "thousands", "rate"]) == typed


def test_results_are_printed_as_python_prints_them(folder, tables):
    """Though groups and labels are called as arguments, as columns of one-hot codes are."""
    names = {"EU": "cluster=1", "NA": "limits=2", "yes": "target=1", "no": "target=0"}
    table = tables["b"].replace(names)
    table.to_csv("b.csv", index=False)
    limits = ["miss('target=1', by=region) <= 30%"]
    rule = tb.calibrate(tb.Scores("score", "target=1"), **parts(table), limits=limits)
    line = f"--score score --target fraud --positive target=1 --group region --limit {shlex.quote(limits[0])}"
    assert shell(f"calibrate b.csv {line} --out rule.json") == f"{rule.certificate_}\n"
    assert shell("rule rule.json") == f"{rule.rule_}\n"


def test_advice_names_only_options_of_the_command(of_python, monkeypatch):
    monkeypatch.chdir(of_python[0])
    said = shell("card unnamed.model c.csv --target fraud --out card.html", 2)
    assert "groups= (in Python), with" in said
    assert "--group" not in said
    assert "--group," in shell("certify unnamed.model c.csv --target fraud", 2)
