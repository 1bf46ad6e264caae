"""Exported rules: numbers, JSON and SQL give the predictions of the mixture."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import refused
from forms import in_sqlite
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

import tailboost as tb
from tailboost import rates
from tailboost.selection.rule import Rule

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
    "weights": {}, "limits": {"limits": [rates.error(by="class") <= 0.6]},
    "costs": {"objective": rates.cost([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [1.0, 1.0, 0.0]])},
    "told": {"limits": [rates.error(by="group") <= 0.6], "by_group": True},
    "passed on": {"limits": [rates.deferred() <= 0.1], "objective": "error"},
}  # fmt: skip


def asked(expression, P, groups):
    """Return the results of SQLite."""
    columns = {f"{name}_{label}": p for name in P for label, p in zip(LABELS, P[name].T, strict=False)}
    return in_sqlite(expression, grouped=groups, **columns)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("models", [["forest"], ["forest", "my bayes"]])
@pytest.mark.parametrize("case", CASES)
def test_every_way_out_answers_alike(case, models, K):
    P, y, groups = TABLES[K]
    P, params = {name: P[name] for name in models}, CASES[case]
    if case == "costs" and K == 2:
        params = {"objective": rates.cost([[0.0, 1.0], [5.0, 0.0]])}
    told = params.get("by_group", False)
    mix = tb.RobustMixtureClassifier.from_probabilities(P, y, groups=groups if told else None, **params)
    rule = mix.rule_
    marked = {"deferred": "human review"} if case == "passed on" else {}
    wanted = mix.predict(P, **({"groups": groups} if told else {}), **marked).tolist()
    none = {name: P[name][:0] for name in P}  # no row has no answer
    assert mix.predict(none, **({"groups": groups[:0]} if told else {})).size == 0
    assert mix.predict_proba(none).shape == (0, K)
    document = json.loads(json.dumps(rule.to_dict(), allow_nan=False))
    assert Rule.from_dict(document).predict(P, groups if told else None).tolist() == wanted
    assert rule.predict(P, groups if told else None).tolist() == wanted
    column = "grouped" if told else None
    if len(rule.weights) == 1:
        assert asked(rule.to_sql(group=column), P, groups) == wanted
    else:
        refused(lambda: rule.to_sql(group=column), "predict_proba")
    assert set(rule.weights) == set(mix.used_models_)
    assert all(name in str(rule) for name in rule.weights)
    assert ("human review" in str(rule)) == ("human review" in wanted)
    try:
        import jsonschema
    except ImportError:
        pass
    else:
        jsonschema.validate(document, json.loads(SCHEMA.read_text()))


def test_both_kinds_of_rules_have_the_same_forms():
    def forms(kind):
        return {name for name in dir(kind) if name.startswith(("to_", "from_", "predict"))}

    assert forms(Rule) == forms(tb.ThresholdRule)
    P, y, _ = TABLES[2]
    rule = tb.RobustMixtureClassifier.from_probabilities(P, y, limits=["error <= .9"]).rule_
    refused(lambda: rule.to_python(), "predict_proba")


def test_columns_by_name():
    P, y, _ = TABLES[2]
    rule = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y).rule_
    assert '"t"."p0" BETWEEN' in rule.to_sql(["p0", "p1"], label=rule.classes, table="t")
    for names in ("p", ["p"], ["p", "p"]):
        refused(lambda: rule.to_sql(names, label=rule.classes), "columns")


HALF = {"forest": [[0.5, 0.5]]}


@pytest.mark.parametrize(("given", "groups", "says"), [
    ({"forest": [[np.nan, np.nan]]}, ["x"], "NaN"), ({"forest": [[-5, 105]]}, ["x"], "sum"),
    ({"forest": [[-0.2, 1.2]]}, ["x"], "sum"), ({"forest": [[0.5]]}, ["x"], "column"),
    ({"forest": [["0.5", "0.5"]]}, ["x"], "numbers"), ({"bayes": [[0.5, 0.5]]}, ["x"], "missing"),
    ({}, ["x"], "dict"), (HALF, None, "groups"), (HALF, ["z"], "seen"), (HALF, [None], "missing"),
    (HALF, ["x", "x"], "rows"), (HALF, {"a": ["x"], "b": ["x"]}, "column"),
])  # fmt: skip
def test_a_rule_refuses_what_predict_refuses(given, groups, says):
    P, y, of = TABLES[2]
    stated = {"limits": [rates.error(by="group") <= 0.6], "by_group": True}
    told = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y, groups=of, **stated)
    with pytest.raises((ValueError, TypeError), match=says):
        told.rule_.predict(given, groups)
    with pytest.raises((ValueError, TypeError)):
        told.predict(given, groups=groups)
    blind = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y).rule_
    refused(lambda: blind.predict(HALF, ["x"]), "used")


def test_sql_answers_rows_that_predict_refuses_with_null():
    P, y, groups = TABLES[2]
    limits = [rates.error(by="group") <= 0.6, rates.deferred() <= 0.1]
    rule = tb.RobustMixtureClassifier.from_probabilities(
        {"m": P["forest"]}, y, groups=groups, limits=limits, by_group=True
    ).rule_
    good = ("x", 0.9, 0.1)
    bad = [("x", None, 0.1), ("x", 0.9, None), ("x", None, None), ("x", 90, 10), ("x", -0.2, 1.2),
           ("x", 0.9, 0.3), ("unknown", 0.9, 0.1), (None, 0.9, 0.1), ("x", float("nan"), 0.1)]  # fmt: skip
    g, p, q = zip(good, *bad, strict=True)
    sql = rule.to_sql(["p0", "p1"], group="grouped", label=rule.classes, table="t")
    first, *rest = in_sqlite(sql, grouped=g, p0=p, p1=q)
    assert first is not None
    assert rest == [None] * len(bad)


def changed(document, path, value):
    document = json.loads(json.dumps(document))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(("path", "value"), [
    (["action_costs", 0, 1, 0], "1) x; --"), (["action_costs", 0, 1], [0.0]), (["action_costs"], None),
    (["offsets"], [0.0]), (["offsets", 0], None), (["weights"], {"forest": "1"}), (["weights"], ["forest"]),
    (["weights"], {"forest": [1.0]}), (["inferred"], 0), (["least_probability"], "1e-6"),
    (["least_probability"], 0), (["classes"], ["a"]), (["classes"], ["a", "a"]), (["classes"], [["a"], "b"]),
    (["groups"], []), (["groups"], ["x", "x"]),
])  # fmt: skip
def test_a_document_is_checked(path, value):
    P, y, _ = TABLES[2]
    document = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y).rule_.to_dict()
    refused(lambda: Rule.from_dict(changed(document, path, value)), "rule")


def test_the_least_probability_of_a_document_counts():
    document = Rule(["a", "b"], None, {"m": 1.0}, [0.0, 0.0], [[[0.0, 1.0], [99.0, 0.0]]]).to_dict()
    P = {"m": np.array([[1.0, 0.0], [0.5, 0.5]])}
    assert Rule.from_dict(document).predict(P).tolist() == ["a", "b"]
    rule = Rule.from_dict(changed(document, ["least_probability"], 0.02))
    assert rule.predict(P).tolist() == ["b", "b"]


@pytest.mark.parametrize(("other", "offset", "wanted"), [(60, 0, "ba"), (90, 0, "ab"), (60, 900, "ba")])
def test_only_differences_of_logarithms_decide(other, offset, wanted):
    """Two certain models are opposed; the heavier one decides, also where no mass of a label is a number."""
    P, costs = np.eye(3)[:2], [[[0.0, 1.0], [1.0, 0.0]]]
    rule = Rule(["a", "b"], None, {"m": 80.0, "n": other}, [offset, offset], costs)
    rule = Rule.from_dict(json.loads(rule.to_json()))
    assert rule.predict({"m": P[::-1, :2], "n": P[:, :2]}).tolist() == [*wanted]
    alone = Rule(["a", "b", "z"], None, {"m": 80.0}, [offset, offset, offset + 9], [(1 - np.eye(3)).tolist()])
    P = np.vstack([P, [[0.5, 0.5, 0.0], [0.35, 0.33, 0.32], [0.5, 0.0, 0.5]]])
    answers = in_sqlite(alone.to_sql(), m_a=P[:, 0], m_b=P[:, 1], m_z=P[:, 2])
    assert answers == alone.predict({"m": P}).tolist() == ["a", "b", "a", "z", "z"]


def test_groups_that_are_inferred_and_what_is_no_rule():
    P, y, groups = TABLES[2]
    groups = np.where(next(iter(P.values()))[:, 1] > 0.5, "m", "f")  # known from the probabilities
    given = {"groups": groups, "limits": [rates.error(by="group") <= 0.6]}
    inferring = tb.RobustMixtureClassifier.from_probabilities(P, y, infer_groups=True, **given)
    anew = tb.RobustMixtureClassifier.from_probabilities(P, y, **given).rule_
    inferring, again = inferring.rule_, inferring.set_params(infer_groups=False).reweight().rule_
    assert str(again) == str(anew) != str(inferring)
    assert len(str(inferring).splitlines()) <= 12
    json.dumps(inferring.to_dict())
    for ask in (inferring.to_sql, lambda: inferring.predict(P)):
        refused(ask, "infer_groups")
    scores = next(iter(P.values()))  # the advice: a threshold on one score has SQL
    blind = tb.tune(tb.Scores(0, max(y.tolist())), scores[:, [1]], y, **given)
    assert "CASE" in blind.rule_.to_sql()
    refused(lambda: blind.set_params(infer_groups=True).reweight(), "infer_groups")
    refused(lambda: Rule.from_dict({"format": 7}), "format")
    refused(lambda: Rule.from_dict({}), "rule")
    given |= {"by_group": True}
    told = tb.RobustMixtureClassifier.from_probabilities({"forest": P["forest"]}, y, **given)
    refused(lambda: told.rule_.to_sql(), "needed")


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.parametrize("by_group", [False, True])
def test_a_probability_equal_to_the_threshold_is_answered_as_by_the_exported_rule(by_group):
    """Rounded probabilities, as of forests, meet decimal thresholds; exp(log(p)) may differ from p."""

    def model(X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    groups, y = np.tile(["a", "b"], 100), np.repeat([0, 1, 0, 1], [90, 10, 10, 90])
    for low, high, threshold in ((0.12, 0.2, 0.16), (0.48, 0.7, 0.6), (0.8, 0.86, 0.83)):
        p = np.repeat([low, high], 100)
        rule = tb.tune(model, p[:, None], y, groups=groups, by_group=by_group, objective="error")
        for n in (1, 2, 3, 8, 100):
            told = {"groups": np.repeat(["a"], n)} if by_group else {}
            assert rule.rule_.predict(np.full(n, threshold), **told).tolist() == [1] * n
            assert rule.predict(np.full((n, 1), threshold), **told).tolist() == [1] * n


def test_thresholds_of_any_action_costs_are_those_of_the_cheapest_action():
    """Ranges of random costs, by their words, against the rule's own answers on a grid."""
    rng, p = np.random.default_rng(0), np.linspace(0.0005, 0.9995, 1000)
    for costs in np.round(rng.normal(size=(200, 2, 3)), 3):
        rule = Rule(["a", "b"], None, {"m": 1.0}, [0.0, 0.0], [costs.tolist()])
        line = str(rule).splitlines()[-1].strip()
        *ranges, last = line.split("; ")
        expected = np.full(1000, last.removeprefix("else ").removeprefix("every row: "), dtype=object)
        for condition, action in (text.split(": ") for text in ranges):
            ends = list(map(float, re.findall(r"(?:>= |^)([\d.e-]+)|< ([\d.e-]+)", condition)[0][:1]))
            inside = p >= ends[0]
            if (end := re.search(r"< ([\d.e-]+)", condition)) is not None:
                inside &= p < float(end[1])
            expected[inside] = action
        wrong = rule.predict({"m": np.c_[1 - p, p]}) != expected
        assert wrong.sum() <= 2, line  # printed thresholds have four digits
