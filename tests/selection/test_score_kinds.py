"""Scores have a kind and a range: every form of a rule accepts and refuses the same numbers."""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from conftest import refused
from forms import FORMS, WITH_NULL, decide, in_sqlite, one_by_one

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost.core.score_kinds import SCORE_KINDS, decimals_between, score_kind, shortest_decimals
from tailboost.selection.rule import ThresholdRule

INF, NAN = float("inf"), float("nan")
HOSTILE = ['"""; global HIT; HIT = 1; """', "a'b", 'a"b', "a\nb", "{0}", "'; DROP TABLE t; --", "<b>&", "%s"]
BACKSLASHES = ["a\\", "\\'; DROP TABLE t; -- ", "a\0b"]
# Values at the ends of the ranges and far outside, as scores of each kind.
BEYOND = [np.nextafter(1.01, 2), np.nextafter(101.0, 102), np.nextafter(-0.01, -1)]
ENDS = [0.0, -0.0, 1.0, -0.01, 1.01, 101.0, 0.5, 5e-324, *BEYOND]
FAR = [87.0, -3.0, 1e3, 1e200, -1e200, np.nextafter(1e200, INF), -1.7e308, 1.7e308, INF, -INF, NAN]


def rule(kind, ends, missing=None, groups=None, labels=("no", "yes")):
    actions = [labels[0], "human review", labels[1]]
    band = list(zip([None, *ends], [*actions[: len(ends)], labels[1]], strict=True))
    return ThresholdRule("s", list(labels), groups, [band] * len(groups or [0]), kind, missing)


RULES = {
    "probability": [rule("probability", ends) for ends in ([0.25, 0.5], [1.0], [5e-324])],
    "percent": [rule("percent", [25.0, 87.0]), rule("percent", [100.0], missing=50.0)],
    "logit": [rule("logit", [-3.0, 0.5]), rule("logit", [1e200])],
    "number": [rule("number", [0.0, 87.0]), rule("number", [1e3], missing=-3.0)],
}
CASES = [pytest.param(each, id=f"{kind}-{i}") for kind in RULES for i, each in enumerate(RULES[kind])]


def answer_of(function, *given):
    try:
        return function(*given)
    except ValueError:
        return None


def independent(rule, score):
    """Return the action by the documented rules, without code of the package."""
    low, high = {"probability": (-0.01, 1.01), "percent": (-1.0, 101.0)}.get(rule.kind, (-1e200, 1e200))
    if score is None or score != score:
        if rule.missing is None:
            return None
        score = rule.missing
    if not low <= score <= high:
        return None
    return [action for lower, action in rule.bands[0] if lower is None or score >= lower][-1]


@pytest.mark.parametrize("rule", CASES)
def test_each_form_accepts_the_same_numbers(rule):
    thresholds = [lower for lower, _ in rule.bands[0][1:]]
    near = [np.nextafter(end, side) for end in thresholds for side in (-INF, INF)]
    values = [float(v) for v in (*ENDS, *FAR, *thresholds, *near, *np.linspace(-2, 2, 41))] + [None]
    expected = [independent(rule, value) for value in values]
    for form in FORMS:
        assert one_by_one(form, rule, values) == expected
    accepted = [value for value, answer in zip(values, expected, strict=True) if answer is not None]
    together = rule.predict(np.array(accepted, dtype=float)).tolist()
    assert together == [answer for answer in expected if answer is not None]
    assert in_sqlite(rule.to_sql(), "real", s=values) == expected


@pytest.mark.parametrize("rule", CASES)
@pytest.mark.parametrize("text", ["abc", "0.5", "87", "1.0e-05", "", "-0.005"])
@pytest.mark.parametrize("declared", ["", "blob"])
def test_text_is_no_score(rule, text, declared):
    refused(lambda: rule.predict([text]), "numbers")
    with pytest.raises(TypeError):
        decide(rule.to_python())(text)
    assert in_sqlite(rule.to_sql(), declared, s=[text]) == [None]


@pytest.mark.parametrize("kind", SCORE_KINDS)
def test_scores_refuse_what_their_rule_refuses(kind):
    rng = np.random.default_rng(0)
    z = rng.random(400) < 0.4
    s = 1 / (1 + np.exp(-rng.normal(size=400) - 2 * z))
    clf = tb.tune(tb.Scores("s", "y", kind=kind), pd.DataFrame({"s": s}), np.where(z, "y", "n"))
    for value in (*ENDS, *FAR):
        one = answer_of(clf.predict, pd.DataFrame({"s": [value]}))
        same = answer_of(clf.rule_.predict, [value])
        assert (one is None) == (same is None), value
        assert one is None or one[0] == same[0]
        if one is None and value == value:
            with pytest.raises(ValueError, match="are"):
                tb.Scores("s", "y", kind=kind).fit(pd.DataFrame({"s": [0.2, value]}), ["n", "y"])
            with pytest.raises(ValueError, match="missing="):
                tb.Scores("s", "y", kind=kind, missing=value).fit(pd.DataFrame({"s": [0.2, 0.3]}), ["n", "y"])


@pytest.mark.parametrize("kind", SCORE_KINDS)
def test_numbers_of_numpy_are_written_as_those_of_python_and_advice_helps(kind):
    for number in (np.float64(0.25), np.float32(0.25), np.int64(0)):
        made, same = (replace(rule(kind, [0.5], missing=m), label="yes") for m in (number, float(number)))
        for label in ("yes", "no")[: 2 - (kind == "number")]:
            assert made.to_sql("q", label=label) == same.to_sql("q", label=label)
            assert made.to_python(label=label) == same.to_python(label=label)
    has_wider = kind in ("probability", "percent")
    refused(lambda: score_kind(kind).checked([INF], "s", None), "kind=" if has_wider else "1e\\+200$")


@pytest.mark.parametrize("kind", ["logit", "number"])
def test_the_largest_scores_and_neighbours_have_finite_thresholds(kind):
    s, y = np.array([-1e200, 1e200] * 50), np.array(["n", "y"] * 50)
    clf = tb.tune(tb.Scores("s", "y", kind=kind), pd.DataFrame({"s": s}), y)
    assert all(np.isfinite(end) for end, _ in clf.rule_.bands[0][1:])
    assert clf.rule_.predict(s).tolist() == y.tolist()
    (end,) = decimals_between(np.array([0.0]), np.array([5e-324]))
    made = ThresholdRule("s", ["n", "y"], None, [[(None, "n"), (end, "y")]], "probability")
    assert made.predict([0.0, 5e-324]).tolist() == ["n", "y"]


@pytest.mark.parametrize("size", [1.0, 2.0**600, 2.0**-1030, 5e-324])
def test_numbers_beyond_the_known_ones_count_as_the_last(size):
    grades = np.repeat([1.0, 2, 3, 4, 5], 20) * size
    y = np.where(np.arange(100) % 3 > grades / size / 3, "n", "y")
    for limits in ([], [tb.rates.selected("y") <= 0.3], [tb.rates.selected("y") >= 0.7]):
        clf = tb.tune(tb.Scores("s", "y", kind="number"), pd.DataFrame({"s": grades}), y, limits=limits)
        asked = np.array([-1e9, 0.0, 1.0, 1.5, 2.0, 3.3, 5.0, 5.1, 1e9]) * size
        answers = clf.predict(pd.DataFrame({"s": asked})).tolist()
        assert clf.rule_.predict(asked).tolist() == answers
        assert answers[0::6] == answers[2::6]
        assert ThresholdRule.from_dict(clf.rule_.to_dict()) == clf.rule_


@pytest.mark.parametrize(("given", "read"), [
    (pd.Series([0.5, None], dtype="Float64"), [0.5, NAN]), ([Decimal("0.25"), None], [0.25, NAN]),
    ([np.float32(0.415), np.float16(0.1), pd.NA, pd.NaT], [0.415, 0.1, NAN, NAN]),
    (pd.Series([0.1, 0.2], dtype="float32"), [0.1, 0.2]), (np.array([True, False]), None),
    (pd.Series([True, None], dtype="boolean"), None), (pd.Series([0.5, np.bool_(True)], dtype=object), None),
    (pd.Series(["0.5"], dtype="string"), None), (pd.Series([0.5, "a"]), None),
    (pd.Series(pd.to_datetime(["2020-01-01"])), None), ([1 + 2j], None), ([10**400], None),
    ([True, 0.5], None), ([np.float32(0.415), 0.5], [0.415, 0.5]),
], ids=repr)  # fmt: skip
def test_numbers_of_any_type_are_read_and_other_values_refused(given, read):
    kind = score_kind("probability")
    if read is None:
        refused(lambda: kind.checked(given, "p", 0.0), "numbers")
        return
    filled = np.where(np.isnan(read), 0.75, read)
    np.testing.assert_array_equal(kind.checked(given, "p", 0.75), filled)


def test_the_entry_that_is_no_number_is_named():
    given = pd.Series(["57.4", None, True, "-1e3", "n/a", "x"], dtype=object)
    refused(lambda: score_kind("number").checked(given, "p", None), "'n/a'")


CHANGES = [
    *({"bands": [[[None, "no"], [end, "yes"]]]} for end in (INF, "0.5", 1.5, 0.0)),
    {"bands": [[[None, "no"], [0.5, "yes"], [0.5, "no"]]]}, {"label": "maybe", "bands": [[[None, "no"]]]},
    {"classes": [0, 1], "bands": [[[None, 0], [0.5, 1]]], "label": True}, {"classes": ["no", None]},
    *({"missing": score} for score in (87.0, "0.5", True)), {"column": ["s"]}, {"model": 3},
    {"format": 1}, {"kind": "rank"}, {"kind": None},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_document_outside_the_range_of_its_kind_is_refused(change):
    document = rule("probability", [0.5]).to_dict()
    assert ThresholdRule.from_dict(document)
    refused(lambda: ThresholdRule.from_dict(document | change), "rule")
    del document["kind"]
    refused(lambda: ThresholdRule.from_dict(document), "rule")


@pytest.mark.parametrize("name", [*HOSTILE, *BACKSLASHES])
def test_names_are_data_in_every_export(name):
    band = [(None, "ok"), (0.5, name)]
    made = ThresholdRule(name, ["ok", name], [name, "other"], [band, band], "probability", None)
    function = decide(made.to_python())
    assert [function(p, name) for p in (0.4, 0.6)] == ["ok", name]
    assert "HIT" not in function.__globals__
    assert name in function.__doc__
    assert ThresholdRule.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    for form in {*FORMS} - {*WITH_NULL}:
        assert FORMS[form](made, [0.4, 0.6, 0.6], [name, name, "other"]) == ["ok", name, name]
    if name in BACKSLASHES:  # no spelling is right in all databases
        for where in ({}, {"column": "s"}, {"column": "s", "group": "g"}):
            refused(lambda: made.to_sql(**{"group": name, **where}), "backslash")
        return
    rows = [0.4, 0.6, 0.6, 60], [name, name, "new", name]
    for form in {*WITH_NULL} & {*FORMS}:
        assert FORMS[form](made, *rows) == ["ok", name, None, None]


@pytest.mark.parametrize(
    "name", ["f(): pass\nimport os\ndef g", "class", "", "a b", "float", "ﬂoat", "isinstance"]
)
def test_a_function_has_a_plain_name(name):
    refused(lambda: rule("probability", [0.5]).to_python(name), "function")


@pytest.mark.parametrize("name", [*HOSTILE, *BACKSLASHES])
def test_a_rule_on_probabilities_has_names_as_data(name):
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = np.where(rng.random(300) < p, name, "ok")
    P = np.c_[p, 1 - p] if name < "ok" else np.c_[1 - p, p]
    mix = tb.RobustMixtureClassifier.from_probabilities({"m": P}, y)
    again = tb.Rule.from_dict(json.loads(json.dumps(mix.rule_.to_dict())))
    assert again.predict({"m": P}).tolist() == mix.predict({"m": P}).tolist()
    given = {"columns": ["first", "second"], "label": sorted([name, "ok"])}
    if name in BACKSLASHES:
        refused(lambda: mix.rule_.to_sql(**given), "backslash")
        return
    columns = dict(zip(given["columns"], P.T, strict=True))
    assert in_sqlite(mix.rule_.to_sql(**given), **columns) == mix.predict({"m": P}).tolist()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # long names
def test_names_are_data_in_html_and_markdown():
    mark, rng = "<img src=x onerror=alert(1)>", np.random.default_rng(0)
    z, g = rng.random(600) < 0.4, rng.choice(["a", mark], 600)
    table = pd.DataFrame({mark: 1 / (1 + np.exp(-rng.normal(size=600) - 2 * z))})
    groups, y = pd.DataFrame({mark: g}), np.where(z, mark, "ok")
    limit = tb.rates.miss(mark, by=mark) <= 0.3
    half, rest = slice(300), slice(300, None)
    clf = tb.tune(tb.Scores(mark, mark), table[half], y[half], groups=groups[half], limits=[limit])
    card = tb.ModelCard.of(clf, table[rest], y[rest], groups=groups[rest])
    for page in (clf.rates_._repr_html_(), card.to_html()):
        assert "onerror" in page
        assert "<img" not in page


def test_whole_numbers_are_no_probabilities_but_numbers():
    deciles = pd.DataFrame({"s": np.arange(40) % 10 + 1})
    y = (deciles["s"] > 5).astype(int)
    refused(lambda: tb.tune(tb.Scores("s", 1), deciles, y), "numbers")
    refused(lambda: tb.tune(tb.Scores("s", 1), deciles + 0.5, y), "percent")
    refused(lambda: tb.tune(tb.Scores("s", 1), 10 * deciles, y), "percent")


def test_short_numbers_are_the_decimals_that_they_print():
    rng = np.random.default_rng(0)
    numbers = np.r_[
        rng.random(2_000), rng.random(500).round(3), 20.0 * rng.normal(size=500),
        np.exp(8.0 * rng.normal(size=500)).clip(1e-20, 1e8), np.exp(rng.uniform(-85.0, 85.0, 3_000)),
        rng.integers(10**9, 10**10, 500), [0.0, -0.0, 1.0, NAN, INF, -INF, 0.415],
    ].astype(np.float32)  # fmt: skip
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    for narrow in (numbers, every):
        printed = narrow.astype(str).astype(np.float64)
        assert np.array_equal(shortest_decimals(narrow), printed, equal_nan=True)


def test_a_score_of_a_threshold_gets_one_answer_in_each_type():
    """As float32 .415 is .41499999165534973."""
    at_threshold = ThresholdRule("s", [0, 1], None, [[(None, 0), (0.415, 1)]], "probability")
    single = np.array([0.414, 0.415, 0.416], dtype=np.float32)
    half = np.array([0.41, 0.415, 0.42], dtype=np.float16)
    for scores in (single, half, pd.Series(single), pd.Series(single, dtype="Float32")):
        assert at_threshold.predict(scores).tolist() == [0, 1, 1]
    for beside in ("a", single):  # a row of both types
        assert at_threshold.predict(pd.DataFrame({"s": single, "t": beside}).iloc[1]) == 1
    assert FORMS["python"](at_threshold, [*single, *half]) == [0, 1, 1, 0, 1, 1]
    score = tb.Scores("s", label=1).fit(pd.DataFrame({"s": [0.1, 0.9]}), [0, 1])
    assert score.values(pd.DataFrame({"s": single})).ravel().tolist() == [0.414, 0.415, 0.416]
