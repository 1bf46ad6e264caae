"""Names in rules: equal labels or groups, and other types, are refused; the empty name is readable."""

import json

import numpy as np
import pytest
from conftest import refused

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost import rates

RNG = np.random.default_rng(0)
N = 1000
S = RNG.random(N)
Y = (RNG.random(N) < S).astype(int)
G = RNG.choice(["u", "v"], N)
LIMITS = [rates.miss(1, by="group") <= 0.3]


@pytest.fixture(scope="module")
def documents():
    given, P = {"groups": G, "by_group": True, "limits": LIMITS}, {"m": np.c_[1 - S, S]}
    scores = tb.tune(tb.Scores("s", 1), pd.DataFrame({"s": S}), Y, objective="error", **given)
    models = tb.RobustMixtureClassifier.from_probabilities(P, Y, **given)
    forms = {"scores": (tb.ThresholdRule, scores), "models": (tb.Rule, models)}
    return {name: (form, json.dumps(clf.rule_.to_dict())) for name, (form, clf) in forms.items()}


FORGED = {
    "one group twice": ("groups", ["u", "u"]), "equal groups of two types": ("groups", [1, 1.0]),
    "groups of two types": ("groups", ["u", 1]), "one label twice": ("classes", [1, 1]),
    "a boolean for a number": ("classes", [0, True]), "a decimal for a number": ("classes", [0, 1.0]),
    "no number": ("groups", [1.0, np.nan]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["scores", "models"])
@pytest.mark.parametrize("name", FORGED)
def test_equal_or_mixed_names_are_refused(documents, name, kind):
    cls, text = documents[kind]
    assert cls.from_dict(json.loads(text)).groups == ["u", "v"]
    field, value = FORGED[name]
    refused(lambda: cls.from_dict(json.loads(text) | {field: value}), "different")


def test_a_rule_without_groups_reads_no_column_of_groups(documents):
    document = json.loads(documents["scores"][1])
    blind = document | {"groups": None, "bands": document["bands"][:1], "group_column": None}
    assert tb.ThresholdRule.from_dict(blind).group_column is None
    refused(lambda: tb.ThresholdRule.from_dict(blind | {"group_column": "g"}), "no name")


def test_an_edit_of_a_document_is_none_of_its_rule(documents):
    rule = tb.ThresholdRule.from_dict(json.loads(documents["scores"][1]))
    rule.to_dict()["bands"][0].append((0.99, 0))
    assert json.dumps(rule.to_dict()) == documents["scores"][1]


@pytest.mark.parametrize("action", [True, 1.0, "1", None])
def test_an_action_has_the_type_of_the_labels(documents, action):
    document = json.loads(documents["scores"][1])
    document["bands"][0][-1][1] = action
    refused(lambda: tb.ThresholdRule.from_dict(document), "neither")


def test_a_cost_is_a_number(documents):
    document = json.loads(documents["models"][1])
    document["action_costs"][0][0][0] = False
    refused(lambda: tb.Rule.from_dict(document), "type")
    for change in ({"weights": {"m": -1.0}}, {"weights": {}}, {"of_probabilities": 1}):
        refused(lambda each=change: tb.Rule.from_dict(json.loads(documents["models"][1]) | each), "type")
    scores = json.loads(documents["scores"][1]) | {"group_column": ["x"]}
    refused(lambda: tb.ThresholdRule.from_dict(scores), "column")


def test_the_empty_group_name_is_readable():
    given = {"groups": np.where(G == "u", "", G), "by_group": True, "limits": LIMITS}
    clf = tb.tune(tb.Scores("s", 1), pd.DataFrame({"s": S}), Y, **given)
    assert [line.split(":")[0] for line in str(clf.rule_).splitlines()] == ["(empty)", "v"]
    assert "  (empty)  " in str(clf.rates_)
