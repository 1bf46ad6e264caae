"""The command ``tailboost monitor``."""

import json
import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.core.files import held


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with a model, its certificate, and six files of rows; the last two have random labels."""
    pd, testing = pytest.importorskip("pandas"), pytest.importorskip("typer.testing")
    pytest.importorskip("jinja2")
    from tailboost.app import cli

    folder = tmp_path_factory.mktemp("monitor")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=3600), "city": rng.choice(["Rome", "Oslo"], 3600)})
    table["outcome"] = np.where(table.a + 0.7 * rng.normal(size=3600) > 0, "good", "bad")
    table.loc[2800:, "outcome"] = rng.choice(["good", "bad"], 800)
    for k, name in enumerate(["train", "test", "m1", "m2", "m3", "m4"]):
        table[600 * k : 600 * (k + 1)].to_csv(folder / f"{name}.csv", index=False)

    def call(*arguments):
        return testing.CliRunner().invoke(cli.app, [str(each) for each in arguments])

    model = folder / "m.model"
    options = ("--target", "outcome", "--method", "forest", "--model", model)
    assert call("fit", folder / "train.csv", *options).exit_code == 0
    certified = call("certify", model, folder / "test.csv", "--group", "city", "--json")
    (folder / "cert.json").write_text(certified.stdout)
    return folder, call


@pytest.mark.slow
def test_command(stored):
    folder, call = stored
    state, page, model = folder / "monitor.json", folder / "monitor.html", folder / "m.model"

    def monitor(month, *more):
        return call("monitor", model, folder / f"{month}.csv", "--state", state, "--group", "city", *more)

    first = monitor("m1", "--certificate", folder / "cert.json")
    assert (first.exit_code, "No alarm" in first.stdout) == (0, True)
    for known in (("--certificate", folder / "cert.json"), ("--max-error", ".3")):
        assert monitor("m2", *known).exit_code == 2
    assert monitor("m2", "--page", page).exit_code == 0
    assert monitor("m3").exit_code in (0, 3)
    last = monitor("m4", "--out", page, "--json")
    assert last.exit_code == 3
    assert json.loads(last.stdout)["alarm"]
    assert "contradicted" in page.read_text()
    assert monitor("m4").exit_code == 2  # no row of the batch waits for a label
    for content in ("{}", "a,b\n1,2\n"):
        state.write_text(content)
        refused = monitor("m4")
        assert refused.exit_code == 2
        assert "Expecting" not in refused.stderr  # words of the decoder


def test_command_with_targets_and_late_labels(stored):
    pd = pytest.importorskip("pandas")
    folder, call = stored
    state = folder / "late.json"
    table = pd.read_csv(folder / "m1.csv")
    table.drop(columns="outcome").to_csv(folder / "blind.csv", index=False)

    def monitor(data, *more):
        return call("monitor", folder / "m.model", folder / data, "--state", state, "--batch", "one", *more)

    assert monitor("blind.csv").exit_code == 2  # the model has no targets
    assert not state.exists()
    assert "600 rows wait" in monitor("blind.csv", "--max-error", ".9").stdout
    known = monitor("m1.csv", "--json")
    assert [batch["labelled"] for batch in json.loads(known.stdout)["batches"]] == [0, 600]


def test_command_with_limits_and_persons(stored):
    pd = pytest.importorskip("pandas")
    folder, call = stored
    state = folder / "limits.json"

    def monitor(data, *more):
        return call("monitor", folder / "m.model", folder / data, "--state", state, "--group", "city", *more)

    limits = ("--limit", "gap(selected(good, by=city)) <= .2", "--limit", "miss(good) <= .6")
    assert monitor("m1.csv", *limits, "--max-error", ".3").exit_code == 2  # only one of both
    assert monitor("m1.csv", "--limit", "gap(selected(good, by=town)) <= .2").exit_code == 2
    assert monitor("m1.csv", *limits).exit_code == 0
    table = pd.read_csv(folder / "m2.csv")
    table["outcome"] = np.where(table.city == "Rome", "good", table.outcome)
    kept = (table.a > 0) == (table.city == "Rome")  # now only rows of Rome are predicted "good"
    table[kept].to_csv(folder / "apart.csv", index=False)
    before = state.read_bytes()
    actual = monitor("apart.csv")
    assert actual.exit_code == 3
    assert actual.output.count("Alarm: ") == 1
    state.write_bytes(before)
    actual = monitor("apart.csv", "--json")
    assert (actual.exit_code, "warning: Alarm: " in actual.stderr) == (3, True)
    bounds = json.loads(actual.stdout)["bounds"]
    assert [each["bound"]["subgroup"] for each in bounds] == ["gap", "gap", None]
    assert bounds[0]["estimate"] > 0.2
    persons = folder / "persons.json"
    table["person"] = np.arange(600) // 4
    table.to_csv(folder / "several.csv", index=False)
    arguments = ("--state", persons, "--max-error", ".4", "--cluster", "person")
    output = call("monitor", folder / "m.model", folder / "several.csv", *arguments, "--json")
    assert sum(each["n"] for each in json.loads(output.stdout)["bounds"]) <= 2 * 150
    rate = ("--rate", "miss(good)", "--cluster", "person", "--json")
    known = json.loads(call("certify", folder / "m.model", folder / "several.csv", *rate).stdout)["bounds"]
    good = table.outcome == "good"
    assert [each["n"] for each in known] == [table.person[good].nunique()]
    whole = call("evaluate", folder / "m.model", folder / "several.csv", "--json")
    known = call("evaluate", folder / "m.model", folder / "several.csv", "--cluster", "person", "--json")
    plain, by_person = (json.loads(each.stdout)["errors"] for each in (whole, known))
    assert by_person[0]["clusters"] == 150
    assert [unit["error"] for unit in plain] == [unit["error"] for unit in by_person]
    table.loc[:, :] = table.iloc[np.arange(600) // 4 * 4].to_numpy()  # equal copies
    table.to_csv(folder / "copies.csv", index=False)
    once = table.iloc[::4]
    once.to_csv(folder / "once.csv", index=False)
    call("evaluate", folder / "m.model", folder / "copies.csv", "--cluster", "person")
    widths = []
    for name, more in (("copies", ("--cluster", "person")), ("once", ())):
        output = call("evaluate", folder / "m.model", folder / f"{name}.csv", *more, "--json")
        first = json.loads(output.stdout)["errors"][0]
        widths.append(first["high"] - first["low"])
    assert widths[0] == pytest.approx(widths[1], rel=0.03)


def test_command_with_groups_that_come_later_and_one_user_at_a_time(stored):
    pd = pytest.importorskip("pandas")
    folder, call = stored
    state = folder / "later.json"
    table = pd.read_csv(folder / "m2.csv")
    table.loc[:199, "city"] = "Pisa"
    table.loc[:199, "outcome"] = np.where(table.a[:200] > 0, "bad", "good")  # all predictions are wrong
    table.to_csv(folder / "pisa.csv", index=False)

    def monitor(data, *more):
        return call("monitor", folder / "m.model", folder / data, "--state", state, *more)

    assert monitor("m1.csv", "--limit", "error(by=city) <= 45%", "--group", "city").exit_code == 0
    before = state.read_bytes()
    dead = folder / f"later.json.{2**22 + 1}-1.part"  # no process has this number
    dead.write_text("unfinished")
    with held(state):
        actual = monitor("pisa.csv")
    assert (actual.exit_code, "in use by process" in actual.stderr) == (2, True)
    assert state.read_bytes() == before
    actual = monitor("pisa.csv")
    assert actual.exit_code == 3
    assert "other groups" in actual.stdout
    assert "Pisa (200 rows)" in actual.stdout
    assert [path.name for path in folder.glob("later.json*")] == ["later.json"]


def test_command_takes_the_columns_of_the_fit(tmp_path):
    """A model with limits by group is monitored by the plain call."""
    pd, testing = pytest.importorskip("pandas"), pytest.importorskip("typer.testing")
    from tailboost.app import cli

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=900), "sex": rng.choice(["f", "m"], 900)})
    table["y"] = np.where(table.a + 0.7 * rng.normal(size=900) > 0, "good", "bad")
    table[:600].to_csv(tmp_path / "train.csv", index=False)
    table[600:].to_csv(tmp_path / "january.csv", index=False)

    def call(*arguments):
        return testing.CliRunner().invoke(cli.app, [str(each) for each in arguments])

    options = (
        "--target",
        "y",
        "--group",
        "sex",
        "--method",
        "robustmixture",
        "--limit",
        "error(by=sex) <= 45%",
    )
    assert call("fit", tmp_path / "train.csv", *options, "--model", tmp_path / "m.model").exit_code == 0
    actual = call("monitor", tmp_path / "m.model", tmp_path / "january.csv", "--state", tmp_path / "w.json")
    assert (actual.exit_code, "error by sex: f" in actual.stdout) == (0, True)
    assert "new column" not in actual.stderr


def test_command_takes_late_labels_in_any_order_and_row_ids(tmp_path):
    """Five grades: the file of the labels is sorted by label, or has the new labels alone with their ids."""
    pd, testing = pytest.importorskip("pandas"), pytest.importorskip("typer.testing")
    from tailboost.app import cli

    def rows(seed):
        rng = np.random.default_rng(seed)
        yes = rng.random(600) < 0.4
        grade = np.clip(np.round(3 + 1.2 * rng.normal(size=600) + 1.2 * (yes - 0.4)), 1, 5)
        ids = [f"{seed}-{k}" for k in range(600)]
        return pd.DataFrame({"case": ids, "grade": grade, "y": np.where(yes, "yes", "no")})

    def call(*arguments):
        return testing.CliRunner().invoke(cli.app, [str(each) for each in arguments])

    table, rule = rows(5), tmp_path / "rule.json"
    rows(6).to_csv(tmp_path / "selection.csv", index=False)
    table.assign(y=table.y.where(table.index < 300)).to_csv(tmp_path / "first.csv", index=False)
    table.to_csv(tmp_path / "same.csv", index=False)
    table.sort_values("y", ascending=False, kind="stable").to_csv(tmp_path / "sorted.csv", index=False)
    table[300:].to_csv(tmp_path / "new.csv", index=False)
    table.assign(y=table.y.where(table.index != 7, "yes" if table.y[7] == "no" else "no")).to_csv(
        tmp_path / "changed.csv", index=False
    )
    options = ("--score", "grade", "--kind", "number", "--target", "y", "--positive", "yes")
    limits = ("--limit", "miss(yes) <= .25", "--out", rule)
    assert call("tune", tmp_path / "selection.csv", *options, *limits).exit_code == 0
    answers = []
    for file, more in (("same", ()), ("sorted", ()), ("sorted", ("--id", "case")), ("new", ("--id", "case"))):
        state = tmp_path / f"{file}{len(more)}.json"
        given = ("--state", state, "--batch", "jan", *more)
        first = call("monitor", rule, tmp_path / "first.csv", *given, "--limit", "error() <= .42")
        assert first.exit_code == 0, first.output
        before = state.read_bytes()
        if more:
            wrong = call("monitor", rule, tmp_path / "changed.csv", *given)
            assert (wrong.exit_code, "equal to row 7" in wrong.stderr) == (2, True)
            again = call("monitor", rule, tmp_path / "same.csv", "--state", state, "--batch", "feb", *more)
            assert (again.exit_code, "in batch 'jan'" in again.stderr) == (2, True)
            assert state.read_bytes() == before
        result = call("monitor", rule, tmp_path / f"{file}.csv", *given, "--json")
        assert result.exit_code in (0, 3), result.output
        answers.append([(each["n"], each["evidence"]) for each in json.loads(result.stdout)["bounds"]])
        if not more:  # the verdict was lost: the same call tells it again, and changes nothing
            before = state.read_bytes()
            again = call("monitor", rule, tmp_path / f"{file}.csv", *given)
            assert again.exit_code == 2
            assert f"So far: {tb.Monitor.from_dict(json.loads(before)['monitor']).verdict}" in again.stderr
            assert state.read_bytes() == before
        copied = call("monitor", rule, tmp_path / "same.csv", "--state", state, "--name", "feb")
        assert (copied.exit_code, bool(more) or "batch 'jan'" in copied.stderr) == (2, True)
    assert answers == [answers[0]] * 4
    assert answers[0][0][0] == 600


def test_the_verdict_is_printed_before_the_page(tmp_path, monkeypatch):
    pd, testing = pytest.importorskip("pandas"), pytest.importorskip("typer.testing")
    from tailboost.app import cli
    from tailboost.app.cli import monitor

    def call(*arguments):
        return testing.CliRunner().invoke(cli.app, [str(each) for each in arguments])

    def stopped(*_):
        raise KeyboardInterrupt

    rng = np.random.default_rng(0)
    for name in ("selection", "later"):
        p = rng.random(600)
        pd.DataFrame({"p": p, "y": (rng.random(600) < p).astype(int)}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    rule = tmp_path / "rule.json"
    options = ("--score", "p", "--target", "y", "--limit", "miss(1) <= .3", "--out", rule)
    assert call("tune", tmp_path / "selection.csv", *options).exit_code == 0
    monkeypatch.setattr(monitor, "render_monitor", stopped)
    limits = ("--limit", "error() <= .45", "--page", tmp_path / "page.html")
    result = call("monitor", rule, tmp_path / "later.csv", *limits)
    assert result.exit_code == 130


PYTHON_WORDS = re.compile(r"KeyError|TypeError|attribute|indices|subscript|unhashable|iterable|Expecting")
DAMAGED = ["[1, 2]", "3", "null", '"text"', "{}", '{"group": 3, "model": "", "monitor": {}}', "[" * 9999]
DAMAGED += ['{"group": [], "model": "", "monitor": []}', '{"group": [], "model": "", "monitor": {}}', "a,b\n"]


@pytest.mark.parametrize("content", DAMAGED)
@pytest.mark.parametrize("option", ["--state", "--certificate"])
def test_a_file_of_other_json_is_refused_in_plain_words(stored, option, content):
    folder, call = stored
    wrong = folder / "wrong.json"
    wrong.write_text(content)
    files = {"--state": folder / "new.json"} | {option: wrong}
    options = [each for pair in files.items() for each in pair]
    refused = call("monitor", folder / "m.model", folder / "m1.csv", *options)
    assert refused.exit_code == 2
    assert not PYTHON_WORDS.search(refused.stderr)


@pytest.mark.parametrize("of", [tb.Monitor, tb.Rule, tb.ThresholdRule])
@pytest.mark.parametrize("document", [None, [], {}, {"format": []}, "text"])
def test_a_wrong_document_is_refused_in_plain_words(of, document):
    with pytest.raises(ValueError, match=r"^this is no ") as refused:
        of.from_dict(document)
    assert not PYTHON_WORDS.search(str(refused.value))


def test_the_monitor_reads_the_rows_of_a_stored_pipeline_once(tmp_path):
    """The rate is that of the pipeline's answers, which the test counts itself."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("typer.testing")
    from app.shell import done

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": 5 + 3 * rng.normal(size=3000), "b": rng.normal(size=3000)})
    labels = np.where(table.a - 5 + rng.normal(size=3000) > 1, "ill", "well")
    rule = tb.RobustMixtureClassifier(
        [("tree", DecisionTreeClassifier(max_depth=4))], limits=["miss(ill) <= 30%"], random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), rule).fit(table[:2000], labels[:2000])
    tb.save_model(pipeline, tmp_path / "p.model")
    table[2000:].assign(label=labels[2000:]).to_csv(tmp_path / "may.csv", index=False)
    answers = done("monitor", tmp_path / "p.model", tmp_path / "may.csv", "--target", "label", "--json")
    (bound,) = json.loads(answers)["bounds"]
    is_ill = labels[2000:] == "ill"
    assert bound["n"] == is_ill.sum()
    assert bound["estimate"] == pytest.approx((pipeline.predict(table[2000:])[is_ill] != "ill").mean())


def test_card_and_monitor_draw_the_same_row_of_each_person(tmp_path):
    """The columns of the file have text, so the rule reads other columns than the file has."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("typer.testing")
    pytest.importorskip("jinja2")
    from app.shell import done

    rng = np.random.default_rng(0)
    person = rng.permutation(np.repeat(np.arange(1200), 3))
    table = pd.DataFrame({"person": person, "ward": rng.choice(["x", "y"], 3600), "a": rng.normal(size=3600)})
    table["site"] = np.where(table.person % 2, "north", "south")
    table["label"] = np.where(table.a + rng.normal(size=3600) > 0, "ill", "well")
    for part, name in enumerate(("train", "tune", "may")):
        table[person // 400 == part].to_csv(tmp_path / f"{name}.csv", index=False)
    columns = ("--target", "label", "--group", "site", "--cluster", "person")
    stated = ("--limit", "miss(ill, by=site) <= 40%", "--method", "robustmixture")
    rule = tmp_path / "rule.model"
    done("fit", tmp_path / "train.csv", *columns, *stated, "--model", tmp_path / "m.model")
    done("calibrate", tmp_path / "m.model", tmp_path / "tune.csv", "--model", rule)
    months = json.loads(done("monitor", rule, tmp_path / "may.csv", "--json"))["bounds"]
    card = done("card", rule, tmp_path / "may.csv")
    for month in months:
        site, n = month["bound"]["subgroup"], month["n"]
        assert f"{100 * month['estimate']:.0f} % of {n}" in re.search(rf"\| {site} \|.*", card)[0]
