"""Rates on the command line: --objective, --limit, --costs, --rate, --limited."""

import json
import re

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
for needed in ("typer", "rich", "jinja2"):
    pytest.importorskip(needed)

from shell import call

from tailboost import RobustMixtureClassifier, rates
from tailboost.core.table_files import read_raw
from tailboost.storage.models import load_model

LIMIT = "gap(selected(yes, by=sex)) <= 12%"


def done(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments):
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr.strip()


def table(n, seed):
    rng = np.random.default_rng(seed)
    x, sex = rng.normal(size=(n, 2)), rng.choice(["f", "m"], n)
    repaid = x[:, 0] + 0.3 * (sex == "m") + 0.7 * rng.normal(size=n) > -0.4
    return pd.DataFrame(
        {
            "x": x[:, 0].round(3),
            "z": x[:, 1].round(3),
            "amount": rng.integers(1, 9, n),
            "sex": sex,
            "band": rng.integers(1, 3, n),
            "repaid": np.where(repaid, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rates")
    table(600, 0).to_csv(folder / "train.csv", index=False)
    table(400, 1).to_csv(folder / "fresh.csv", index=False)
    (folder / "matrix.csv").write_text("truth,yes,no\nyes,0,1\nno,5,0\n")
    (folder / "amounts.csv").write_text("truth,no,yes\nno,0,5*amount\nyes,amount,0\n")
    return folder


def fit(files, *arguments, model="m.model", quick=True):
    few = ["--set", 'estimators=[("one", "tree")]'] if quick else []
    path = files / model
    return done("fit", files / "train.csv", "--target", "repaid", "--model", path, *few, *arguments)


@pytest.fixture(scope="module")
def model(files):
    output = fit(
        files, "--group", "sex", "--drop", "sex", "--limit", LIMIT, "--limit", "miss(no) <= .5"
    ).stdout
    assert "≤ 12 %" in output
    assert "estimate" in output.split("95 % interval")[0]
    return files / "m.model"


def test_limits_are_those_of_the_fit(model):
    fitted = load_model(model)[-1]
    assert fitted.limits == [rates.parse(LIMIT), rates.miss("no") <= 0.5]
    assert fitted.limits_met_


def test_inspect_and_evaluate_show_rates(files, model):
    kept = json.loads(done("inspect", model, "--json").stdout)["rates"]["lines"]
    assert [line["rate"] for line in kept][:2] == ["error", "selection rate of 'yes' by sex"]
    about = json.loads(done("evaluate", model, files / "fresh.csv", "--json").stdout)
    fresh, fitted = pd.read_csv(files / "fresh.csv"), load_model(model)
    answers = fitted.predict(fresh.drop(columns=["sex", "repaid"]))
    counted = rates.measure(rates.selected("yes", by="sex"), fresh.repaid, answers, groups=fresh[["sex"]])
    output = {
        line["subgroup"]: line["value"]
        for line in about["rates"]
        if line["rate"].startswith("selection rate")
    }
    assert output["gap"] == pytest.approx(abs(counted["f"] - counted["m"]))
    assert {unit: output[unit] for unit in "fm"} == pytest.approx(counted)
    asked = done("evaluate", model, files / "fresh.csv", "--rate", "precision(yes, by=sex)", "--rate", LIMIT)
    limited = done(
        "evaluate", model, files / "fresh.csv", "--rate", "precision(yes, by=sex)", "--limit", LIMIT
    )
    assert limited.stdout == asked.stdout
    assert "miss" not in asked.stdout


@pytest.mark.slow
@pytest.mark.parametrize("file", ["matrix.csv", "amounts.csv"])
def test_costs_of_a_file_are_those_of_python(files, file):
    fit(files, "--costs", files / file, "--limit", "selected(yes) >= 40%", model="c.model")
    fitted = load_model(files / "c.model")[-1]
    train = pd.read_csv(files / "train.csv")
    matrix = np.array([[0.0, 5.0], [1.0, 0.0]])
    costs = matrix[(train.repaid == "yes").astype(int)]
    if file == "amounts.csv":
        costs = costs * train.amount.to_numpy()[:, None]
    given = {} if file == "matrix.csv" else {"costs": costs}
    objective = rates.cost(pd.DataFrame(matrix, ["no", "yes"], ["no", "yes"])) if not given else rates.cost()
    assert fitted.objective == objective
    mix = RobustMixtureClassifier(
        fitted.estimators, objective=objective, limits=fitted.limits, random_state=0
    )
    rows = load_model(files / "c.model")[:-1].transform(read_raw(files / "train.csv"))
    mix.fit(rows, train.repaid, **given)
    assert fitted.rates_.lines[0].value == pytest.approx(mix.rates_.lines[0].value)
    answers = load_model(files / "c.model").predict(train)
    met = costs[np.arange(len(train)), (answers == "yes").astype(int)].mean()
    printed = done(
        "evaluate", files / "c.model", files / "train.csv", "--costs", files / file, "--json"
    ).stdout
    assert json.loads(printed)["rates"][0]["value"] == pytest.approx(met)


def test_costs_by_row_need_a_row_for_each(files):
    (files / "each.csv").write_text("yes,no\n" + "0,1\n" * 600)
    fit(files, "--costs", files / "each.csv", model="e.model")
    (files / "few.csv").write_text("yes,no\n0,1\n")
    args = ["fit", files / "train.csv", "--target", "repaid", "--model", files / "x.model", "--costs"]
    (files / "wrong.csv").write_text("truth,no,yes\nno,0,5*amont\nyes,1,0\n")
    (files / "wrong.csv").write_text("truth,no,yes\nno,0,5\nnein,1,0\n")
    assert "names cost()" in refused(*args, files / "matrix.csv", "--objective", "error")


def test_names_are_those_of_the_table(files):
    limits = ["--limit", "error(by=band) <= {1: .6, 2: .7}", "--limit", "error(by=cell) <= {(yes, 1): .9}"]
    fit(files, "--group", "band", *limits, model="b.model")
    first, second = load_model(files / "b.model")[-1].limits
    assert dict(first.bound) == {"1": 0.6, "2": 0.7}
    assert dict(second.bound) == {("yes", "1"): 0.9}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--limit", "gap(slected(yes)) <= .1"],
            "--limit: .*at 'slected', character 5.*did you mean 'selected'",
        ),
        (["--limit", "error()"], r"has no bound; write, for instance, error\(\) <= .1"),
        (["--limit", "sensitivity(yes)"], r"for instance, sensitivity\(yes\) >= .9"),
        (["--limit", "precision(yes)"], r"for instance, precision\(yes\) >= .9"),
        (["--limit", "ratio(selected(yes, by=sex))"], r"selected\(yes, by=sex\)\) >= .8"),
        (
            ["--limit", "miss(yes, by=Sexe) <= .1"],
            "the groups of 'Sexe'; the data have no such column; did you mean 'sex'[?] they have 'x', 'z'",
        ),
        (["--limit", "gap(error(by=sex)) <= .1"], "add --group sex"),
        (["--limit", "error(by=group) <= .1"], "name their column: --group"),
        (
            ["--limit", "gap(miss(1, by=sex)) <= 10%", "--group", "sex"],
            r"'gap\(miss\(1, by=sex\)\) <= 10%': there is no label '1'; the labels are 'no', 'yes'$",
        ),
        (
            ["--objective", "miss(yess)"],
            "'miss.yess.': there is no label 'yess'; the labels are 'no', 'yes'$",
        ),
        (["--objective", "miss(Yes)"], "there is no label 'Yes'; did you mean 'yes'[?] the labels"),
        (["--objective", "error() <= .1"], "is a limit; use --limit"),
        (["--objective", "worst_clas"], "worst_class"),
        (
            ["--method", "forest", "--limit", "error() <= .1"],
            "--limit: forest has no limits; take robustmixture",
        ),
        (["--limit", "error() <= 30"], "a rate lies between 0 and 1, got 30; write 0.3 for 30 %"),
    ],
)
def test_bad_options_are_refused(files, arguments, words):
    args = ["fit", files / "train.csv", "--target", "repaid", "--model", files / "x.model", *arguments]
    if "--method" not in arguments:
        args += ["--set", 'estimators=[("one", "tree")]']
    assert re.search(words, refused(*args))
    assert not (files / "x.model").exists()


@pytest.mark.slow
def test_the_trade_off_of_two_rates(files, model):
    args = ["tradeoff", model, "--limited", "gap(selected(yes, by=sex))"]
    about = json.loads(done(*args, "--json").stdout)["curve"]
    assert all(np.diff(about["limited"]) > 0)
    assert all(np.diff(about["objective"]) < 0)
    done(*args, "--out", files / "c.csv", "--pick", "5%", "--model", files / "p.model")
    assert len((files / "c.csv").read_text().splitlines()) == len(about["limited"]) + 1
    printed = [line.split() for line in done(*args).stdout.splitlines()]
    shown = [words for words in printed if len(words) == 2 and words[0].replace(".", "").isdigit()]
    shown = [list(map(float, words)) for words in shown]
    every = list(zip(about["limited"], about["objective"], strict=True))
    assert len(shown) == min(len(every), 20)
    assert [shown[0], shown[-1]] == [pytest.approx(every[k], abs=5e-5) for k in (0, -1)]
    assert not done(*args, "--quiet", "--out", files / "c.csv").stdout
    picked = load_model(files / "p.model")[-1]
    assert any(limit == (rates.gap(rates.selected("yes", by="sex")) <= 0.05) for limit in picked.limits)
    assert rates.parse(LIMIT) not in picked.limits
    assert picked.limits_met_
    assert "only with --limited" in refused("tradeoff", model, "--objective", "error()")


@pytest.mark.slow
def test_the_default_curve_has_the_rate_of_the_first_limit(files, model):
    """By default the curve has the rate of the first limit and the overall error, also on new rows."""
    args = ["tradeoff", model, files / "fresh.csv"]
    actual = json.loads(done(*args, "--json").stdout)
    assert actual["objective"] == "error"
    assert actual["limited"].endswith("gap")
    clf, rows = load_model(model), pd.read_csv(files / "fresh.csv", dtype=str)
    curve = clf[-1].tradeoff(rates.gap(rates.selected("yes", by="sex")))
    answers = curve.points[0].classifier.predict(clf[:-1].transform(rows))
    assert actual["curve"]["predict_objective"][0] == pytest.approx(np.mean(answers != rows["repaid"]))
    pytest.importorskip("matplotlib")
    assert (files / "c.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_is_predicted_and_decided_on(files, model):
    done("predict", model, files / "fresh.csv", "--out", files / "a.csv")
    assert set(pd.read_csv(files / "a.csv").prediction) == {"yes", "no"}


def test_certify_bounds_the_limits_of_the_fit_and_rates_asked_for(files, model):
    output = json.loads(done("certify", model, files / "fresh.csv", "--json").stdout)
    own = done("certify", model, files / "fresh.csv").stdout
    assert [line["target"] for line in output["bounds"]] == [None, None, 0.12, 0.5]
    assert "≤ 12 %" in own  # as it was stated
    asked = ["--rate", "precision(yes) >= .6", "--rate", "cost()", "--costs", files / "amounts.csv"]
    both = json.loads(
        done("certify", model, files / "fresh.csv", *asked, "--cost-range", "0,40", "--json").stdout
    )
    assert [line["rate"] for line in both["bounds"]] == ["precision('yes')", "cost()"]
    assert "cost_range" in refused("certify", model, files / "fresh.csv", *asked)
    assert "two numbers" in refused("certify", model, files / "fresh.csv", "--cost-range", "1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "limits=abc"), "--set limits=abc: 'abc'"),
        (("--set", "confidence=.9"), "--set confidence=.9: confidence=0.9 has no meaning without limits"),
        (("--objective", "cvar", "--limit", "error() <= .3"), "--objective, --limit: objective='cvar'"),
        (
            ("--method", "adalpboost", "--set", "estimator=nosuch"),
            "--set estimator=nosuch: estimator='nosuch'",
        ),
    ],
)
def test_a_bad_option_of_fit_is_named_before_any_file_is_read(tmp_path, arguments, says):
    line = refused(
        "fit", tmp_path / "absent.csv", "--target", "y", "--model", tmp_path / "m.model", *arguments
    )
    assert line.startswith(f"tailboost: {says}")


def test_limits_of_set_are_those_of_limit(files):
    line = fit_refused(files, "--set", "limits=error(by=sex) <= .3")
    assert line == fit_refused(files, "--limit", "error(by=sex) <= .3")


def fit_refused(files, *arguments):
    return refused("fit", files / "train.csv", "--target", "repaid", "--model", files / "n.model", *arguments)


def test_fit_prints_a_sentence_about_groups_once_and_tells_of_empty_ones(files):
    rows = table(600, 0).astype({"sex": object})
    rows.loc[:19, "sex"] = None
    rows.to_csv(files / "gaps.csv", index=False)
    common = (
        "--target",
        "repaid",
        "--group",
        "sex",
        "--drop",
        "sex",
        "--set",
        'estimators=[("one", "tree")]',
    )
    for limits in ((), ("--limit", "miss(yes) <= 40%"), ("--limit", "miss(yes, by=sex) <= 60%")):
        fitted = done("fit", files / "gaps.csv", *common, *limits, "--model", files / "gaps.model")
        assert fitted.stdout.count("Group sex: the rule does not read it") == 1
        assert (
            fitted.stderr.count("20 rows of gaps.csv with an empty 'sex': they are the group 'missing'") == 1
        )
