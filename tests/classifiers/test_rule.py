"""Exported rules: numbers, JSON and SQL give the predictions of the mixture."""

import json
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates
from tailboost.selection.rule import Rule, RulePart

SCHEMA = Path(__file__).parents[2] / "docs" / "rule.schema.json"
LABELS = np.array(['a "b"', "it's", "z"])


def made(K):
    X, y = make_classification(1500, n_classes=K, n_informative=5, flip_y=0.2, random_state=0)
    fit, rest = slice(0, 500), slice(500, None)
    models = {"forest": RandomForestClassifier(20, random_state=0), "my bayes": GaussianNB()}
    P = {name: model.fit(X[fit], y[fit]).predict_proba(X[rest]) for name, model in models.items()}
    return P, LABELS[:K][y[rest]], np.random.default_rng(0).choice(["x", "y'z"], 1000)


TABLES = {K: made(K) for K in (2, 3)}
CASES = {
    "weights": {},
    "shares": {"objective": "cvar", "alpha": 0.6},
    "mixed": {"randomized": True},
    "limits": {"limits": [rates.error(by="class") <= 0.6]},
    "costs": {"objective": rates.cost([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [1.0, 1.0, 0.0]])},
    "told": {"limits": [rates.error(by="group") <= 0.6], "by_group": True},
    "passed on": {"limits": [rates.deferred() <= 0.1], "objective": "error"},
}


def asked(expression, P, groups):
    """Return the results of SQLite; skip if SQLite lacks a function."""
    base = sqlite3.connect(":memory:")
    for name, function in (("ln", np.log), ("exp", np.exp)):
        base.create_function(name, 1, lambda x, f=function: float(f(x)))
    columns = [f'"{name}_{label}"'.replace('a "b"', 'a ""b""') for name in P for label in LABELS]
    three = next(iter(P.values())).shape[1] == 3
    columns = [c for c in columns if three or not c.endswith('_z"')]
    base.execute(f"create table t (grouped text, {', '.join(f'{c} real' for c in columns)})")
    rows = [(str(g), *map(float, row)) for g, row in zip(groups, np.hstack(list(P.values())), strict=True)]
    base.executemany(f"insert into t values ({','.join('?' * len(rows[0]))})", rows)
    return np.array([label for (label,) in base.execute(f"select {expression} from t order by rowid")])


@pytest.mark.thinned(10)
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_every_way_out_answers_alike(case, K):
    P, y, groups = TABLES[K]
    params = CASES[case]
    if case == "costs" and K == 2:
        params = {"objective": rates.cost([[0.0, 1.0], [5.0, 0.0]])}
    told = params.get("by_group", False)
    mix = tb.RobustMixtureClassifier.from_probabilities(P, y, groups=groups if told else None, **params)
    rule = mix.rule_
    wanted = mix.predict(P, **({"groups": groups} if told else {}))
    document = json.loads(json.dumps(rule.to_dict(), allow_nan=False))
    again = Rule.from_dict(document).predict(P, groups if told else None, deferred=None)
    np.testing.assert_array_equal(again, wanted)
    column = "grouped" if told else None
    np.testing.assert_array_equal(asked(rule.to_sql(group=column, what="label"), P, groups), wanted)
    acted = mix.predict(P, deferred="human review") if case == "passed on" else wanted
    assert asked(rule.to_sql(group=column), P, groups).tolist() == acted.tolist()
    assert rule.predict(P, groups if told else None).tolist() == acted.tolist()
    assert set(rule.models) == set(mix.used_models_)
    assert all(name in str(rule) for name in rule.models)
    try:
        import jsonschema
    except ImportError:
        pass
    else:
        jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    if case == "passed on":
        passed = asked(rule.to_sql(what="deferred"), P, groups)
        np.testing.assert_array_equal(passed.astype(bool), mix.defers(P))
    else:
        with pytest.raises(ValueError, match="deferred"):
            rule.to_sql(what="deferred", group=column)


def test_both_kinds_of_rules_have_the_same_forms():
    def forms(kind):
        return {name for name in dir(kind) if name.startswith(("to_", "from_", "predict"))}

    assert forms(Rule) == forms(tb.ThresholdRule)
    P, y, _ = TABLES[2]
    rule = tb.RobustMixtureClassifier.from_probabilities(P, y, limits=["error <= .9"]).rule_
    with pytest.raises(ValueError, match="to_sql"):
        rule.to_python()


def test_columns_by_name():
    P, y, _ = TABLES[2]
    rule = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y).rule_
    by_list = rule.to_sql({"forest": ["p0", "p1"]})
    assert by_list == rule.to_sql(lambda model, label: f"p{LABELS.tolist().index(label)}")
    assert {'+"t"."p0"', '+"t"."p1"'} <= set(by_list.split())
    assert "ln(" not in by_list
    for name in ("p", ["p"], 3):
        with pytest.raises(ValueError, match="forest_"):
            rule.to_sql(name)
    with pytest.raises(ValueError, match="needs"):
        rule.to_sql({"forest": ["p0"]})
    with pytest.raises(ValueError, match="needs"):
        rule.to_sql({})


def test_a_column_for_two_probabilities_is_refused():
    P, y, _ = TABLES[2]
    rule = tb.RobustMixtureClassifier.from_probabilities(P, y).rule_
    assert len(rule.models) == 2
    with pytest.raises(ValueError, match="pattern"):
        rule.to_sql(lambda model, label: f"p_{label}")
    with pytest.raises(ValueError, match="column"):
        rule.to_sql({name: ["p", "p"] for name in P})


HALF = {"forest": [[0.5, 0.5]]}


@pytest.mark.parametrize(
    ("given", "groups", "says"),
    [
        ({"forest": [[np.nan, np.nan]]}, ["x"], "sum"),
        ({"forest": [[-5, 105]]}, ["x"], "sum"),
        ({"forest": [[-0.2, 1.2]]}, ["x"], "sum"),
        ({"forest": [[0.5]]}, ["x"], "column"),
        ({"forest": [["0.5", "0.5"]]}, ["x"], "numbers"),
        ({"bayes": [[0.5, 0.5]]}, ["x"], "missing"),
        ({}, ["x"], "least"),
        (HALF, None, "groups"),
        (HALF, ["z"], "seen"),
        (HALF, [None], "missing"),
        (HALF, ["x", "x"], "probabilities"),
        (HALF, {"a": ["x"], "b": ["x"]}, "column"),
    ],
)
def test_a_rule_refuses_what_predict_refuses(given, groups, says):
    P, y, of = TABLES[2]
    limits = [rates.error(by="group") <= 0.6]
    told = tb.RobustMixtureClassifier.from_probabilities(
        {"forest": P["forest"]}, y, groups=of, limits=limits, by_group=True
    )
    with pytest.raises((ValueError, TypeError), match=says):
        told.rule_.predict(given, groups)
    with pytest.raises((ValueError, TypeError)):
        told.predict(given, groups=groups)
    blind = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y).rule_
    with pytest.raises(ValueError, match="used"):
        blind.predict(HALF, ["x"])


def test_sql_answers_rows_that_predict_refuses_with_null():
    P, y, groups = TABLES[2]
    limits = [rates.error(by="group") <= 0.6, rates.deferred() <= 0.1]
    rule = tb.RobustMixtureClassifier.from_probabilities(
        {"m": P["forest"]}, y, groups=groups, limits=limits, by_group=True
    ).rule_
    base = sqlite3.connect(":memory:")
    base.execute("create table scores (grouped text, p0 real, p1 real)")
    good = ("x", 0.9, 0.1)
    bad = [("x", None, 0.1), ("x", 0.9, None), ("x", None, None), ("x", 90, 10), ("x", -0.2, 1.2),
           ("x", 0.9, 0.3), ("unknown", 0.9, 0.1), (None, 0.9, 0.1), ("x", float("nan"), 0.1)]  # fmt: skip
    base.executemany("insert into scores values (?, ?, ?)", [good, *bad])
    for what in ("label", "deferred"):
        sql = rule.to_sql({"m": ["p0", "p1"]}, group="grouped", what=what, table="s")
        first, *rest = [one for (one,) in base.execute(f"select {sql} from scores as s order by s.rowid")]
        assert first is not None
        assert rest == [None] * len(bad)
    for columns, group in ((["q0", "q1"], "grouped"), (["p0", "p1"], "other")):  # no such column
        sql = rule.to_sql({"m": columns}, group=group, table="s")
        with pytest.raises(sqlite3.OperationalError, match="column"):
            base.execute(f"select {sql} from scores as s")


def test_every_way_out_answers_10_000_rows_alike():
    rng = np.random.default_rng(3)
    p = np.clip(rng.integers(0, 101, 10_000) / 100, 0, 1)
    P = {"forest": np.column_stack([1 - p, p]), "my bayes": rng.dirichlet([1, 1], 10_000)}
    fit, y, _ = TABLES[2]
    mix = tb.RobustMixtureClassifier.from_probabilities(fit, y, limits=[rates.deferred() <= 0.1])
    rule = mix.rule_
    wanted = mix.predict(P)
    assert set(wanted) == set(LABELS[:2])
    np.testing.assert_array_equal(rule.predict(P, deferred=None), wanted)
    again = Rule.from_dict(json.loads(json.dumps(rule.to_dict())))
    np.testing.assert_array_equal(again.predict(P, deferred=None), wanted)
    np.testing.assert_array_equal(asked(rule.to_sql(what="label"), P, np.full(10_000, "x")), wanted)
    acted = asked(rule.to_sql(), P, np.full(10_000, "x")).tolist()
    assert acted == mix.predict(P, deferred="human review").tolist() == again.predict(P).tolist()
    assert acted.count("human review") > 100
    deferred = asked(rule.to_sql(what="deferred"), P, np.full(10_000, "x")).astype(bool)
    np.testing.assert_array_equal(deferred, mix.defers(P))


def test_sql_of_a_randomised_rule_that_defers():
    P, y, _ = TABLES[2]
    params = {"limits": [rates.deferred() <= 0.2], "randomized": True}
    worst = rates.largest(rates.answered_error(by="class"))
    mix = tb.RobustMixtureClassifier.from_probabilities(P, y, objective=worst, **params)
    assert len(mix.rule_.parts) > 1
    passed = mix.defers(P)
    assert 0 < passed.sum() < len(passed)
    nobody = np.full(len(y), "x")
    np.testing.assert_array_equal(asked(mix.rule_.to_sql(what="deferred"), P, nobody).astype(bool), passed)
    expected = mix.predict(P, deferred="human review").tolist()
    assert asked(mix.rule_.to_sql(), P, nobody).tolist() == expected
    assert "human review" in str(mix.rule_)


def changed(document, path, value):
    document = json.loads(json.dumps(document))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["parts"], []),
        (["parts", 0, "action_costs", 0, 1, 0], "1) x; --"),
        (["parts", 0, "action_costs", 0, 1], [0.0]),
        (["parts", 0, "action_costs"], None),
        (["parts", 0, "power"], "2"),
        (["parts", 0, "power"], 2.0),
        (["parts", 0, "weight"], 0.0),
        (["parts", 0, "weight"], True),
        (["parts", 0, "offsets"], [0.0]),
        (["parts", 0, "offsets", 0], None),
        (["parts", 0, "weights"], {"forest": "1"}),
        (["parts", 0, "weights"], ["forest"]),
        (["parts", 0, "weights"], {"forest": [1.0]}),
        (["parts", 0, "inferred"], 0),
        (["parts", 0, "more"], 1),
        (["least_probability"], "1e-6"),
        (["least_probability"], 0),
        (["classes"], ["a"]),
        (["classes"], ["a", "a"]),
        (["classes"], [["a"], "b"]),
        (["groups"], []),
        (["groups"], ["x", "x"]),
    ],
)
def test_a_document_is_checked(path, value):
    P, y, _ = TABLES[2]
    document = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y).rule_.to_dict()
    with pytest.raises(ValueError, match="rule"):
        Rule.from_dict(changed(document, path, value))


def test_the_least_probability_of_a_document_counts():
    document = Rule(
        ["a", "b"],
        None,
        [RulePart(1.0, {"m": 1.0}, [0.0, 0.0], [[[0.0, 1.0], [99.0, 0.0]]])],
    ).to_dict()
    P = {"m": np.array([[1.0, 0.0], [0.5, 0.5]])}
    assert Rule.from_dict(document).predict(P).tolist() == ["a", "b"]
    rule = Rule.from_dict(changed(document, ["least_probability"], 0.02))
    assert rule.predict(P).tolist() == ["b", "b"]
    base = sqlite3.connect(":memory:")
    base.execute("create table t (m_a real, m_b real)")
    base.executemany("insert into t values (?, ?)", P["m"].tolist())
    assert base.execute(f"select {rule.to_sql()} from t").fetchall() == [("b",), ("b",)]


def test_a_threshold_is_said_as_one():
    P, y, _ = TABLES[2]
    mix = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y)
    rule = mix.rule_
    threshold = float(str(rule).rsplit("> ", 1)[1])
    column, said = P["forest"][:, 1], mix.predict({"forest": P["forest"]})
    assert (said[column > threshold + 1e-3] == mix.classes_[1]).all()
    assert (said[column < threshold - 1e-3] == mix.classes_[0]).all()


def test_groups_that_are_inferred_and_what_is_no_rule():
    P, y, groups = TABLES[2]
    groups = np.where(next(iter(P.values()))[:, 1] > 0.5, "m", "f")  # known from the probabilities
    limits = [rates.error(by="group") <= 0.6]
    inferring = tb.RobustMixtureClassifier.from_probabilities(
        P, y, groups=groups, limits=limits, infer_groups=True
    ).rule_
    assert len(str(inferring).splitlines()) <= 12
    json.dumps(inferring.to_dict())
    for ask in (inferring.to_sql, lambda: inferring.predict(P)):
        with pytest.raises(ValueError, match="infer_groups"):
            ask()
    scores = next(iter(P.values()))  # the advice: a threshold on one score has SQL
    blind = tb.tune(tb.Scores(0, max(y.tolist())), scores[:, [1]], y, groups=groups, limits=limits).rule_
    assert "CASE" in blind.to_sql()
    with pytest.raises(ValueError, match="format"):
        Rule.from_dict({"format": 7})
    with pytest.raises(ValueError, match="rule"):
        Rule.from_dict({})
    told = tb.RobustMixtureClassifier.from_probabilities(P, y, groups=groups, limits=limits, by_group=True)
    with pytest.raises(ValueError, match="needed"):
        told.rule_.to_sql()


@pytest.mark.parametrize("by_group", [False, True])
def test_a_probability_equal_to_the_threshold_is_answered_as_by_the_exported_rule(by_group):
    """Rounded probabilities, as of forests, meet decimal thresholds; exp(log(p)) may differ from p."""

    def model(X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    groups = np.tile(["a", "b"], 100)
    y = np.repeat([0, 1, 0, 1], [90, 10, 10, 90])
    for low, high, threshold in ((0.12, 0.2, 0.16), (0.48, 0.7, 0.6), (0.8, 0.86, 0.83)):
        p = np.repeat([low, high], 100)
        rule = tb.tune(model, p[:, None], y, groups=groups, by_group=by_group, objective="error")
        for n in (1, 2, 3, 8, 100):
            told = {"groups": np.repeat(["a"], n)} if by_group else {}
            assert rule.rule_.predict(np.full(n, threshold), **told).tolist() == [1] * n
            assert rule.predict(np.full((n, 1), threshold), **told).tolist() == [1] * n


@pytest.mark.parametrize("models", [["forest"], ["forest", "my bayes"]])
def test_deferral_of_two_classes_is_said_by_thresholds(models):
    """The printed ranges of the printed probability give the rule's answers away from their ends."""
    P, y, _ = TABLES[2]
    given = {name: P[name] for name in models}
    limits = [rates.error() <= 0.07, rates.deferred() <= 0.6]
    mix = tb.RobustMixtureClassifier.from_probabilities(given, y, limits=limits)
    rule, (low, high) = mix.rule_, mix.classes_
    said = str(rule)
    ends = r"P\(%s\) >= (.*): %s; (.*) < P\(%s\) < (.*): human review; else %s"
    (found,) = re.findall(ends % (high, high, high, low), said)
    upper, lower, same = map(float, found)
    assert upper == same > lower
    assert "cost" not in said
    assert any(f"P({high}) >= {found[0]}" in line for line in rule.short)
    p = mix.predict_proba(given)[:, 1]
    expected = np.where(p >= upper, high, np.where(p > lower, "human review", low))
    clear = (abs(p - upper) > 1e-3) & (abs(p - lower) > 1e-3)
    answers = rule.predict(given)
    assert (answers == expected)[clear].all()
    assert set(answers[clear]) == {low, high, "human review"}


def test_thresholds_of_any_action_costs_are_those_of_the_cheapest_action():
    """Ranges of random costs, by their words, against the rule's own answers on a grid."""
    rng = np.random.default_rng(0)
    p = np.linspace(0.0005, 0.9995, 1000)
    for costs in np.round(rng.normal(size=(200, 2, 3)), 3):
        part = RulePart(1.0, {"m": 1.0}, [0.0, 0.0], [costs.tolist()])
        rule = Rule(["a", "b"], None, [part])
        *_, line = rule.short
        line = line.removeprefix("P of m: ")
        if (always := re.fullmatch(r"(?:predicts )?'?(a|b|human review)'? for every row", line)) is not None:
            expected = np.full(1000, always[1], dtype=object)
        else:
            *ranges, expected = line.split("; ")
            expected = np.full(1000, expected.removeprefix("else "), dtype=object)
            for condition, action in (text.split(": ") for text in ranges):
                inside = np.ones(1000, dtype=bool)
                if (end := re.search(r"([\d.e-]+) <=? P", condition)) is not None:
                    inside &= p > float(end[1])
                if (end := re.search(r"P\(b\) <=? ([\d.e-]+)", condition)) is not None:
                    inside &= p < float(end[1])
                if (end := re.search(r"P\(b\)'? >=? ([\d.e-]+)", condition)) is not None:
                    inside &= p > float(end[1])
                expected[inside] = action
        wrong = rule.predict({"m": np.c_[1 - p, p]}) != expected
        assert wrong.sum() <= 2, line  # printed thresholds have four digits
