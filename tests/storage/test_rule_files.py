"""Rule files: what a service needs to read one, and what is read later."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from forms import FORMS, in_sqlite
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.rows import digest_of

SERVICE = """
import sys, warnings
import tailboost as tb
for path in sys.argv[1:]:
    rule = tb.load_rule(path)
    print(rule.predict([0.05, 0.95], groups=["a", "b"] if rule.groups else None).tolist())
    print(rule.predict({"s": [0.95], "g": ["z"]}, default=None).tolist())
    print({"sklearn", "scipy", "pandas"} & {*sys.modules})
"""


def made(by_group, folder):
    rng = np.random.default_rng(0)
    s = rng.random(2_000)
    table = pd.DataFrame({"s": s, "g": rng.choice(["a", "b"], len(s))})
    y = np.where(rng.random(len(s)) < s, "ill", "well")
    given = {"groups": table[["g"]], "by_group": by_group, "limits": ["miss(ill, by=g) <= 30%"]}
    rule = tb.calibrate(tb.Scores("s", ["ill"]), table[["s"]], y, **given)
    path = folder / "rule.json"
    tb.save_rule(rule, path)
    return path, rule


@pytest.fixture(scope="module")
def rule_files(tmp_path_factory):
    return {by_group: made(by_group, tmp_path_factory.mktemp("rules")) for by_group in (False, "g")}


@pytest.fixture(params=[False, "g"])
def rule_file(request, rule_files):
    return rule_files[request.param]


def test_a_service_answers_without_scikit_learn(rule_files):
    paths = []
    for path, rule in rule_files.values():
        paths.append(path.with_name("alone.json"))
        paths[-1].write_text(rule.rule_.to_json())
    call = [sys.executable, "-c", SERVICE, *paths]
    said = subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["['well', 'ill']", "['ill']", "set()", "['well', 'ill']", "[None]", "set()"]
    for path, rule in rule_files.values():
        loaded = tb.load_rule(path)
        groups = ["a", "b"] if rule.by_group else None
        assert loaded.predict([0.05, 0.95], groups=groups).tolist() == ["well", "ill"]
        with pytest.warns(tb.UncertifiedGroupsWarning, match="g 'z'"):
            answers = loaded.predict({"s": [0.95], "g": ["z"]}, default=None)
        assert answers.tolist() == ([None] if rule.by_group else ["ill"])


def test_a_calibrated_and_a_loaded_rule_are_alike(rule_file, tmp_path):
    path, rule = rule_file
    loaded = tb.load_rule(path)
    assert type(loaded) is type(rule)
    assert [name for name in ("rule_", "selection_") if hasattr(loaded, name)] == ["rule_"]
    assert "ill" in loaded._repr_html_()
    rng = np.random.default_rng(1)
    new = pd.DataFrame({"s": rng.random(2_000), "g": rng.choice(["a", "b"], 2_000)})
    y = np.where(rng.random(2_000) < new["s"], "ill", "well")
    asked = []
    for each in (rule, loaded):
        tb.save_rule(each, tmp_path / "again.json")
        assert (tmp_path / "again.json").read_text() == path.read_text()
        certificate = tb.certify(each, new, y, groups=new[["g"]])
        month = tb.Monitor(each).add(new, y, groups=new[["g"]])
        answers = each.predict(new).tolist()
        forms = [str(each.certificate_), each.limits, each.rule_.to_sql(), each.rule_.to_python(), answers]
        asked.append([*forms, str(certificate), month.to_dict(), len(each.ledger_.attempts)])
    assert asked[0] == asked[1]


def edits(content):
    """Yield each document that lacks one entry of a document, or has another value, at any depth."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        edited, rest = content.copy(), content.copy()
        for edited[key] in edits(value) if isinstance(value, (dict, list)) else ("q", 0.251, ["q"], []):
            yield edited
        del rest[key]
        yield rest


def test_no_entry_of_a_file_can_be_deleted_or_edited_unnoticed(rule_file, tmp_path):
    content = json.loads(rule_file[0].read_text())
    for edited in edits(content):
        (tmp_path / "edited.json").write_text(json.dumps(edited))
        refused(lambda: tb.load_rule(tmp_path / "edited.json"), "is no rule file")


def test_the_rule_of_an_edited_file_is_read_alone(rule_file, tmp_path):
    path, _ = rule_file
    alone = json.loads(path.read_text())["rule"]
    alone["bands"][0][1][0] = 0.25
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(alone))
    rule = tb.load_rule(edited)
    group = rule.groups and [rule.groups[0]]
    assert rule.predict([0.25], groups=group).tolist() == ["ill"]
    assert rule.predict([0.2499], groups=group).tolist() == ["well"]
    assert rule.certificate_ is None
    edited.write_text(path.read_text().replace("\n ", "\n   "))  # another layout is no other rule
    rule = tb.load_rule(edited)
    assert rule.certificate_.certified
    rule.rule_.bands[0][1] = (0.95, "ill")
    for use in (lambda: rule.certificate_, lambda: tb.Monitor(rule), lambda: tb.save_rule(rule, edited)):
        refused(use, "another rule")


def test_a_file_has_the_attempts_of_its_certificate_and_later_ones(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"s": rng.random(6_000)})
    y = np.where(rng.random(6_000) < table.s, "ill", "well")
    first, second, third = ((table[i : i + 2000], y[i : i + 2000]) for i in (0, 2000, 4000))
    tuned = tb.tune(tb.Scores("s", "ill"), *first)
    rule = tb.calibrate(tuned, *second, limits=["miss(ill) <= 30%"])
    tb.calibrate(tuned, *third, limits=["miss(ill) <= 40%"])
    tb.save_rule(rule, tmp_path / "rule.json")
    loaded = tb.load_rule(tmp_path / "rule.json")
    assert (len(loaded.certificate_.attempts), len(loaded.ledger_.attempts)) == (1, 2)
    for rows in (first, second, third):
        with pytest.raises(tb.LeakageError):
            tb.certify(loaded, *rows)


def test_a_rule_of_a_file_cannot_be_calibrated_and_spends_no_attempt(rule_file):
    path, rule = rule_file
    loaded, table = tb.load_rule(path), pd.DataFrame({"s": [0.1, 0.9]})
    for y in (["well", "ill"], ["well", "dead"]):  # also with a label that it does not know
        given = {"groups": {"g": ["a", "b"]}, "limits": ["miss(ill) <= 30%"]}
        refused(lambda: tb.calibrate(loaded, table, y, **given), "from a file", NotFittedError)
    assert len(loaded.ledger_.attempts) == len(rule.ledger_.attempts)


@pytest.mark.parametrize(("of", "cure"), [(10, "upgrade"), (6, "tune again"), ("x", "tune again")])
def test_a_file_of_another_format_is_named_before_its_rule_is_read(tmp_path, of, cure):
    (tmp_path / "rule.json").write_text(json.dumps({"format": of, "rule": {"of": "another form"}}))
    refused(lambda: tb.load_rule(tmp_path / "rule.json"), f"format.*{cure}")


def test_the_limits_of_a_certified_rule_are_those_of_its_certificate(tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.3] * 3, 6000)
    y = np.array(["a", "b", "c"])[(rng.random(6000)[:, None] > P.cumsum(axis=1)).sum(axis=1)]
    table = pd.DataFrame(P, columns=list("abc"))
    limits = [tb.rates.miss("c") <= 0.4, tb.rates.deferred() <= 0.3]
    rule = tb.calibrate(tb.Scores(list("abc"), list("abc")), table[:4000], y[:4000], limits=limits)
    assert [bound.target for bound in tb.certify(rule, table[4000:], y[4000:]).bounds] == [0.4, 0.3]
    tb.save_rule(rule, tmp_path / "rule.json")
    assert tb.load_rule(tmp_path / "rule.json").limits == limits


def test_a_file_has_the_day_of_its_certificate(rule_file):
    today, certificate = datetime.now(UTC), tb.load_rule(rule_file[0]).certificate_
    assert certificate.date in {f"{today - timedelta(days=1):%Y-%m-%d}", f"{today:%Y-%m-%d}"}
    assert f"Date: {certificate.date} (UTC)." in certificate.assumptions


def test_a_certificate_has_a_digest_of_its_own(rule_file, tmp_path):
    content = json.loads(rule_file[0].read_text())
    for edited in edits(content["certificate"]):
        noted = content | {"certificate": edited}
        (tmp_path / "edited.json").write_text(json.dumps(noted | {"digest": digest_of(noted)}))
        refused(lambda: tb.load_rule(tmp_path / "edited.json"), "certificate")


@pytest.mark.parametrize("by_group", [False, "g"])
def test_certificates_and_monitors_take_the_groups_from_the_table_as_the_rule_does(tmp_path, by_group):
    """A table without ``groups`` has the bounds of the column, and empty cells are the group 'missing'."""
    rng = np.random.default_rng(1)
    s = rng.random(9_000)
    names = rng.choice(["a", "b", "missing"], len(s))
    table = pd.DataFrame({"s": s, "g": names, "note": "text"})
    y = np.where(rng.random(len(s)) < s, "ill", "well")
    old, new = slice(0, 5_000), slice(5_000, None)
    given = {"groups": table[["g"]][old], "by_group": by_group, "limits": ["miss(ill, by=g) <= 30%"]}
    rule = tb.calibrate(tb.Scores("s", "ill"), table[["s"]][old], y[old], **given)
    tb.save_rule(rule, tmp_path / "rule.json")
    rule = tb.load_rule(tmp_path / "rule.json")
    expected = tb.certify(rule, table[["s"]][new], y[new], groups=names[new]).bounds
    assert {bound.subgroup for bound in expected} >= {"a", "b", "missing"}
    with_empty_cells = table.assign(g=table.g.mask(names == "missing", None))[new]
    for groups in (None, with_empty_cells[["g"]], with_empty_cells.g.to_numpy(), ["g"]):
        assert tb.certify(rule, with_empty_cells, y[new], groups=groups).bounds == expected
        look = tb.Monitor(rule).add(with_empty_cells, y[new], groups=groups)
        same = tb.Monitor(rule).add(table[["s"]][new], y[new], groups=names[new])
        assert look.to_dict() == same.to_dict()
    refused(lambda: tb.certify(rule, with_empty_cells[["s"]], y[new]), "groups")


def test_a_rule_takes_groups_and_the_default_alike(tmp_path):
    """Known rows are answered as without others; the default stands in the rows that a loop finds unknown."""
    rng, n = np.random.default_rng(0), 2000
    table = pd.DataFrame({"p": rng.random(n), "site": rng.choice(["a", "b"], n)})
    y = np.where(rng.random(n) < np.where(table["site"] == "a", table["p"], table["p"] ** 2), "ill", "well")
    scores, limits = tb.Scores("p", "ill"), ["miss(ill, by=site) <= .2"]
    clf = tb.tune(scores, table[["p"]], y, groups=table[["site"]], by_group="site", limits=limits)
    tb.save_rule(clf, tmp_path / "rule.json")
    rule = tb.load_rule(tmp_path / "rule.json")
    new = pd.DataFrame({"p": [0.1, 0.9, 0.5, 0.5, 0.9], "site": ["a", "b", "zz", None, "a"]})
    bands = zip(rule.rule_.groups, rule.rule_.bands, strict=True)
    lowest = {group: min(lower for lower, _ in band if lower) for group, band in bands}
    for default in ("well", "human review", None):
        expected = [
            default if site not in lowest else "ill" if p >= lowest[site] else "well"
            for p, site in new.itertuples(index=False)
        ]
        calls = [
            rule.predict(new, default=default),
            rule.predict(new[["p"]], groups=new[["site"]], default=default),
            clf.rule_.predict(new[["p"]], groups=new["site"], default=default),
        ]
        for answers in calls:
            assert answers.tolist() == expected
    refused(lambda: rule.predict(new, default="x"), "default")
    refused(lambda: rule.predict(new[["p"]]), "groups")


@pytest.mark.parametrize("by_group", [False, "site"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_rule_gives_the_default_to_rows_without_a_score(by_group, n_labels, tmp_path):
    """Other rows are answered as in the table without these rows."""
    rng, n = np.random.default_rng(0), 1500
    names, P = ["a", "b", "c"][:n_labels], rng.dirichlet(np.ones(n_labels), n)
    y = np.array([rng.choice(names, p=p) for p in P])
    table = pd.DataFrame(P[:, -1:] if n_labels == 2 else P).add_prefix("p")
    columns = list(table)
    table["site"] = rng.choice(["s", "t"], n)
    scores = tb.Scores(columns[0], "b") if n_labels == 2 else tb.Scores(columns, names)
    groups = {"groups": table[["site"]]} if by_group else {}
    clf = tb.tune(scores, table[columns], y, **groups, by_group=by_group, limits=["miss(b) <= .6"])
    tb.save_rule(clf, tmp_path / "rule.json")
    new = table[:40].copy()
    new.loc[::7, columns[-1]] = np.nan
    lacking, loaded = new[columns[-1]].isna(), tb.load_rule(tmp_path / "rule.json")

    def answers(rows, **default):
        given = {"groups": rows[["site"]]} if by_group else {}
        return loaded.predict(rows[columns], **given, **default)

    for default in ("a", "human review", None):
        found = answers(new, default=default)
        assert (found[~lacking] == answers(new[~lacking])).all()
        assert found[lacking].tolist() == [default] * int(lacking.sum())
        assert answers(new[lacking], default=default).tolist() == [default] * int(lacking.sum())
    assert (answers(new[~lacking], default="a") == answers(new[~lacking])).all()
    refused(lambda: answers(new), "default")
    refused(lambda: answers(new, default="x"), "default")


@pytest.mark.parametrize("kind", ["probability", "percent", "logit", "number"])
def test_a_stored_rule_defers_the_rows_between_its_thresholds(kind, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(5_000)
    y = np.where(rng.random(len(p)) < p, "ill", "well")
    scores = {"percent": 100 * p, "logit": np.log(p / (1 - p)), "number": 5 * p}
    X = pd.DataFrame({"s": scores.get(kind, p)})
    limits = ["miss(ill) <= 10%", "false_alarm(ill) <= 10%", "deferred <= 80%"]
    rule = tb.calibrate(tb.Scores("s", "ill", kind=kind), X[:3000], y[:3000], limits=limits)
    tb.save_rule(rule, tmp_path / "rule.json")
    _, (lower, _), (upper, _) = json.loads((tmp_path / "rule.json").read_text())["rule"]["bands"][0]
    fresh, between = X[3000:], X.s[3000:].between(lower, upper, inclusive="left")
    loaded = tb.load_rule(tmp_path / "rule.json")
    np.testing.assert_array_equal(loaded.predict(fresh) == "human review", between)
    np.testing.assert_array_equal(loaded.defers(fresh), between)
    assert tb.certify(loaded, fresh, y[3000:], rates=["deferred"]).bounds[0].estimate == between.mean()


@pytest.mark.parametrize("kind", ["probability", "percent"])
def test_sql_of_several_scores_reads_their_columns(kind, tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 1500)
    y = np.array([rng.choice(["c", "a", "b"], p=p) for p in P])
    table = pd.DataFrame(P, columns=["of c", "of a", "of b"]) * {"probability": 1, "percent": 100}[kind]
    site = pd.DataFrame({"site": rng.choice(["s", "t"], len(y))})
    scores = tb.Scores(list(table), ["c", "a", "b"], kind=kind)
    limits = ["miss(b, by=site) <= .5"]
    tb.save_rule(tb.tune(scores, table, y, groups=site, by_group="site", limits=limits), tmp_path / "r.json")
    rule = tb.load_rule(tmp_path / "r.json")
    columns = {"columns": list(table), "label": ["c", "a", "b"], "group": "site"}
    if kind == "percent":
        refused(lambda: rule.rule_.to_sql(**columns), "percentages")
        return
    answers = in_sqlite(rule.rule_.to_sql(**columns, table="t"), **table, **site)
    assert answers == rule.predict(table, groups=site).tolist()


@pytest.mark.parametrize("by_group", [False, True])
def test_a_monitor_leaves_out_rows_without_a_score(by_group):
    rng, n = np.random.default_rng(0), 4000
    table = pd.DataFrame({"p": rng.random(n), "site": rng.choice(["a", "b"], n)})
    y = np.where(rng.random(n) < table["p"], "ill", "well")
    old, groups = np.arange(n) < 3000, table[["site"]]
    given = {"groups": groups[old], "by_group": by_group, "limits": ["miss(ill, by=site) <= .3"]}
    rule = tb.calibrate(tb.Scores("p", "ill"), table[old], y[old], **given)
    new, y_new, site = table[~old].copy(), y[~old], groups[~old]
    new.iloc[::9, 0] = np.nan
    scored = new["p"].notna().to_numpy()
    alone = tb.Monitor(rule).add(new[scored], y_new[scored], groups=site[scored])
    with pytest.warns(UserWarning, match="score"):
        together = tb.Monitor(rule).add(new, y_new, groups=site)
    assert together.to_dict() == alone.to_dict()
    refused(lambda: tb.Monitor(rule).add(new[~scored][:3], y_new[:3], groups=site[~scored][:3]), "score")


def test_a_rule_on_probabilities_takes_the_default():
    rng = np.random.default_rng(1)
    P = {m: rng.dirichlet(np.ones(3), 300) for m in ("one", "two")}
    y, site = P["one"].argmax(axis=1), rng.choice(["a", "b"], 300)
    limits = ["error(by=group) <= .9"]
    clf = tb.RobustMixtureClassifier.from_probabilities(P, y, groups=site, limits=limits, by_group=True)
    others = np.where(np.arange(300) % 7 == 0, "zz", site)
    expected = np.where(others == "zz", 2, clf.predict(P, groups=site))
    np.testing.assert_array_equal(clf.rule_.predict(P, others, default=2), expected)


def test_a_rule_reads_a_table_of_arrow_and_names_what_is_no_table(tmp_path):
    arrow, rng = pytest.importorskip("pyarrow"), np.random.default_rng(0)
    table = pd.DataFrame({"p": rng.random(900), "site": rng.choice(["a", "b"], 900)})
    y = np.where(rng.random(900) < table["p"], "ill", "well")
    clf = tb.tune(tb.Scores("p", "ill"), table[["p"]], y, groups=table[["site"]], by_group="site")
    tb.save_rule(clf, tmp_path / "rule.json")
    rule = tb.load_rule(tmp_path / "rule.json")
    answers = rule.predict(table["p"].to_numpy(), table["site"].to_numpy())
    np.testing.assert_array_equal(rule.predict(arrow.Table.from_pandas(table)), answers)
    refused(lambda: rule.predict([{"p": 0.5}], groups=["a"]), "scores")


@pytest.fixture(scope="module")
def with_stated_score(tmp_path_factory):
    """A certified rule that takes 1 as the score of rows without one, and its file."""
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    y = np.where(rng.random(4000) < p, "ill", "well")
    table = pd.DataFrame({"p": np.where(np.arange(4000) % 50 == 0, np.nan, p)})
    clf = tb.calibrate(tb.Scores("p", "ill", missing=1.0), table, y, limits=["miss(ill) <= .3"])
    path = tmp_path_factory.mktemp("rules") / "rule.json"
    tb.save_rule(clf, path)
    return clf, path


@pytest.mark.parametrize("missing", [np.float64(0.25), np.int64(1), np.float32(0.5)])
def test_numbers_and_names_of_numpy_are_plain_in_every_form(missing, tmp_path):
    p = np.random.default_rng(0).random(3000).round(3)
    column, group = np.array(["p", "sex"])
    table = pd.DataFrame({column: p, group: np.where(np.arange(3000) % 2, "f", "m")})
    options = {"groups": {group: table.sex}, "by_group": group, "limits": ["miss(1) <= .3"]}
    rule = tb.calibrate(tb.Scores(column, 1, missing=missing), table, (p > 0.5).astype(int), **options)
    tb.save_rule(rule, tmp_path / "r.json")
    new = table[:9].assign(p=[*p[:8], None])
    answers = rule.predict(new.assign(p=new.p.fillna(float(missing)))).tolist()
    assert rule.predict(new).tolist() == tb.load_rule(tmp_path / "r.json").predict(new).tolist() == answers
    assert all(form(rule.rule_, new.p, new.sex) == answers for form in FORMS.values())
    assert "np." not in rule.rule_.to_sql()


def test_whole_numbers_from_two_to_63_on_stay_whole_in_rules_and_files(tmp_path):
    long, (s, u) = [3, 2**63 + 1, 2**63 + 3], np.random.default_rng(0).random((2, 900))
    y, g = np.array(long[:2], np.uint64)[(s > u).astype(int)], np.array(long, np.uint64)[np.arange(900) % 3]
    table, given = pd.DataFrame({"s": s}), {"groups": pd.DataFrame({"g": g}), "by_group": True}
    rule = tb.tune(tb.Scores("s", long[1]), table, y, limits=[f"miss({long[1]}, by=g) <= 50%"], **given)
    tb.save_rule(rule, tmp_path / "r.json")
    loaded = tb.load_rule(tmp_path / "r.json")
    for each in (rule, rule.rule_, loaded):
        assert set(each.predict(table, groups=given["groups"]).tolist()) == {*long[:2]}
    assert [group for _, group in loaded.groups_.tolist()] == long
    mix = tb.RobustMixtureClassifier.from_probabilities({"m": s}, y, classes=long[:2])
    assert mix.classes_.tolist() == long[:2]


def test_a_row_without_score_is_answered_as_its_stated_score(with_stated_score):
    new, rule = pd.DataFrame({"p": [np.nan, 0.0, 1.0]}), tb.load_rule(with_stated_score[1])
    assert rule.predict(new).tolist() == rule.predict(new["p"]).tolist() == ["ill", "well", "ill"]
    assert rule.scores_.missing == 1.0


def test_the_rates_of_a_stored_rule_count_rows_without_score(with_stated_score):
    """Misses of the ill by a loop; the certificate is about the rule of the file."""
    clf, path = with_stated_score
    rng = np.random.default_rng(1)
    p = np.where(np.arange(3000) % 40 == 0, np.nan, rng.random(3000))
    y = np.where(rng.random(3000) < np.nan_to_num(p, nan=0.5), "ill", "well")
    stored = tb.load_rule(path)
    (threshold,) = [lower for lower, _ in stored.rule_.bands[0] if lower is not None]
    ill = np.nan_to_num(p, nan=1.0)[y == "ill"]
    (bound,) = tb.certify(stored, pd.DataFrame({"p": p}), y, limits=["miss(ill) <= .3"]).bounds
    assert bound.estimate == pytest.approx(np.mean(ill < threshold))
    assert stored.certificate_.rule == clf.certificate_.rule


def test_the_rule_of_a_model_file_is_found_as_the_refusal_says(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 2
    models = [("t", DecisionTreeClassifier(max_depth=2))]
    clf = tb.RobustMixtureClassifier(models, limits=["miss(1) <= 90%"], random_state=0)
    path = tmp_path / "fitted.model"
    tb.save_model(clf.fit(X, y), path)
    with pytest.raises(ValueError, match="rule") as refused:
        tb.load_rule(path)
    (code,) = re.findall(r"its rule is (load_model\(path\)\S+)", str(refused.value))
    assert eval(code, {"load_model": tb.load_model, "path": path}) == clf.rule_


def test_what_a_file_says_of_its_rule_survives_load_and_save(rule_file, tmp_path):
    content = json.loads(rule_file[0].read_text())
    about = {"certified on": "2,000 rows of s.csv"}
    content["notes"] = {"target": "outcome", "cluster": "person", "about": about}
    content["digest"] = digest_of(content)
    noted, again = tmp_path / "noted.json", tmp_path / "again.json"
    noted.write_text(json.dumps(content))
    loaded = tb.load_rule(noted)
    tb.save_rule(loaded, again)
    assert json.loads(again.read_text()) == content
    tb.save_rule(loaded, again, target="label")
    content["notes"]["target"] = "label"
    assert json.loads(again.read_text()) == content | {"digest": digest_of(content)}
    rng = np.random.default_rng(3)
    new = pd.DataFrame({"s": rng.random(900), "g": rng.choice(["a", "b"], 900)})
    y = np.where(rng.random(900) < new["s"], "ill", "well")
    other = loaded.reweight(new[["s"]], y, groups=new[["g"]])
    answers = other.predict(new[["s"]], groups=new["g"] if other.by_group else None)
    for group in "ab":
        assert np.mean(answers[(y == "ill") & (new["g"] == group)] == "well") <= 0.3
    tb.save_rule(other, again)  # of which the facts do not tell
    assert json.loads(again.read_text())["notes"] == {}


def test_a_file_of_a_rule_without_certificate_has_no_rows_of_attempts_twice(tmp_path):
    p, draws = np.random.default_rng(0).random((2, 900))
    X, y = pd.DataFrame({"p": p}), np.where(draws < p, "b", "a")
    rule = tb.tune(tb.Scores("p", "b"), X[:300], y[:300], limits=["error() <= 60%"])
    given = {"limits": ["error() <= 25%"]}
    refused(lambda: tb.calibrate(rule, X[300:], y[300:], **given), "misses", tb.NotCertifiedError)
    tb.save_rule(rule, tmp_path / "rule.json")
    again = tb.load_rule(tmp_path / "rule.json")
    assert (len(again.ledger_.attempts), len(again.records_.used)) == (1, 1)
