"""Rules on one score: equal decisions by the classifier, as thresholds, in SQL and in Python."""

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from conftest import refused
from forms import FORMS, WITH_NULL, decide, in_sqlite

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost.selection.door import answering
from tailboost.selection.rule import ThresholdRule

RNG = np.random.default_rng(0)
N = 2000
Y = np.array(["ok", "toxic"])[(RNG.random(N) < 0.3).astype(int)]
LANG = RNG.choice(["de", "en"], N)
Z = 2.0 * (Y == "toxic") - 1 + RNG.normal(size=N) + 0.4 * (LANG == "de")
TABLE = pd.DataFrame({
    "p": 1 / (1 + np.exp(-Z)), "logit": Z, "percent": 100 / (1 + np.exp(-Z)),
    "grade": np.clip(np.round(3 + Z), 1, 5), "lang": LANG,
})  # fmt: skip
A, B = slice(0, 1000), slice(1000, None)
SCORES = {
    "probability": tb.Scores("p", "toxic"), "percent": tb.Scores("percent", "toxic", kind="percent"),
    "logit": tb.Scores("logit", "toxic", kind="logit"), "number": tb.Scores("logit", "toxic", kind="number"),
    "grade": tb.Scores("grade", "toxic", kind="number"),
}  # fmt: skip
PROBLEMS = {
    "worst class": {},
    "limit": {"limits": "miss(toxic) <= .1"},
    "deferral": {"limits": ["miss(toxic) <= .1", "deferred() <= .1"]},
    "by group": {"limits": ["miss(toxic, by=lang) <= .15", "deferred() <= .05"], "by_group": True},
}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("kind", [*SCORES, "two columns"])
def test_all_forms_of_a_rule_decide_alike(kind, problem):
    """Also on rows with a probability of 0, below it by rounding, or smaller than the least of a rule."""
    params, score = PROBLEMS[problem], SCORES.get(kind, tb.Scores(["q", "p"], ["ok", "toxic"]))
    by_group = "by_group" in params
    columns, table = score.column_list, TABLE.assign(q=1 - TABLE["p"])
    given = {"groups": table[["lang"]][A]} if by_group else {}
    clf = tb.tune(score, table[columns][A], Y[A], **params, **given)
    rule, fresh = clf.rule_, table[B].copy()
    fresh.iloc[:6, [0, -1]] = [(0, 1), (1, 0), (-0.004, 1.003), (1.004, -0.003), (1e-9, 1), (1, 1e-9)]
    mark = {"deferred": "human review"} if answering(clf).rule.defers else {}
    given = {"groups": fresh[["lang"]]} if by_group else {}
    expected = clf.predict(fresh[columns], **given, **mark).tolist()
    groups = fresh["lang"] if by_group else None
    assert rule == type(rule).from_dict(rule.to_dict())
    if len(columns) == 1:
        for form in FORMS.values():
            assert form(rule, fresh[columns[0]], groups) == expected
        return
    for form in ("predict", "json", "file"):
        assert FORMS[form](rule, {"Scores": fresh[columns].to_numpy()}, groups) == expected
    group = "lang" if by_group else None
    assert in_sqlite(rule.to_sql(columns, group, label=score.label_list), **fresh) == expected


@pytest.mark.parametrize("groups", [["en", "de"], [1, 2], [False, True]])
def test_a_missing_group_takes_the_default_in_predict(groups):
    rule = ThresholdRule("p", ["ham", "spam"], groups, [[(None, "ham"), (0.5, "spam")]] * 2, "probability")
    rows = pd.DataFrame({"p": [0.9, 0.9, 0.1], "lang": [None, float("nan"), groups[0]]}, dtype=object)
    named_rule = replace(rule, group_column="lang")
    for default in ("human review", "spam"):
        expected = [default, default, "ham"]
        for column in (rows["lang"], rows["lang"].tolist(), rows[["lang"]]):
            assert rule.predict(rows["p"], groups=column, default=default).tolist() == expected
        assert named_rule.predict(rows, default=default).tolist() == expected
    refused(lambda: rule.predict(rows["p"], groups=rows["lang"]), "missing")
    refused(lambda: rule.predict(rows), "needed")


def test_an_unknown_group_raises_or_takes_the_default():
    bands = [[(None, False), (0.5, True)]] * 2
    rule = ThresholdRule("p", [False, True], ["en", "pt-BR"], bands, "probability")
    assert decide(rule.to_python())(0.7, "en") is True
    refused(lambda: decide(rule.to_python())(0.7, "fr"), "unknown")
    for default in ("human review", False):
        assert rule.predict([0.7], groups=["fr"], default=default).tolist() == [default]
    refused(lambda: decide(rule.to_python())("0.7", "en"), "number", TypeError)


def test_rows_without_a_group_are_the_group_missing_if_the_rule_has_it():
    bands = [[(None, "ok"), (0.5, "bad")], [(None, "ok"), (0.3, "bad")]]
    rule = ThresholdRule("p", ["ok", "bad"], ["en", "missing"], bands, "probability", group_column="lang")
    rows = pd.DataFrame({"p": [0.4, 0.4, 0.2], "lang": ["en", None, np.nan]})
    expected = ["ok", "bad", "ok"]
    for groups in (None, rows, rows["lang"], rows["lang"].astype("category"), rows["lang"].tolist()):
        table = rows if groups is None else rows["p"]
        assert rule.predict(table, groups=groups).tolist() == expected
        assert rule.predict(table, groups=groups, default="bad").tolist() == expected
    assert FORMS["python"](rule, rows["p"], rows["lang"]) == expected

    other = replace(rule, groups=["en", "de"])
    refused(lambda: other.predict(rows), "missing")
    refused(lambda: decide(other.to_python())(0.4, pd.NA), "unknown")


def test_a_rule_finds_the_column_of_groups_that_it_reads():
    clf = tb.tune(SCORES["probability"], TABLE[A], Y[A], groups=TABLE[["lang"]][A], **PROBLEMS["by group"])
    rule, rows = clf.rule_, TABLE[B].assign(site="x")
    answers = rule.predict(rows["p"], groups=rows["lang"])
    assert rule.group_column == "lang"
    assert (rule.predict(rows["p"], groups=rows) == answers).all()
    assert rule.predict(rows.iloc[0].to_dict()).tolist() == answers[:1].tolist()
    assert rule.predict(rows[:0]).size == clf.predict_proba(rows[:0]).size == 0
    assert rule.to_sql() == rule.to_sql(group="lang") == rule.to_sql(None, "lang")
    refused(lambda: rule.predict(rows[["lang", "site"]]), "without")
    two = np.c_[rows["p"], 1 - rows["p"]]
    labels, scores = (rows["p"] > 0.5).astype(int), tb.Scores("p", 1)
    refused(lambda: rule.predict(two, rows["lang"]), "one score")
    refused(lambda: tb.tune(scores, rows[["p"]], labels).predict({"p": two}), "one score")
    refused(lambda: tb.Scores(["p", "q"], [0, 1]).values({"p": two, "q": two}), "one score")
    for sites in (rows["site"], rows[["site"]]):
        refused(partial(rule.predict, rows["p"], groups=sites), "groups")
    refused(lambda: rule.predict(rows["p"], groups=rows[["site", "p"]]), "groups")
    sites = rows["site"].to_numpy()
    with pytest.warns(tb.UncertifiedGroupsWarning, match="'lang': no row .*'de', 'en'"):
        assert {*rule.predict(rows["p"], groups=sites, default="ok")} == {"ok"}
    refused(lambda: rule.predict(rows[["p"]].rename(columns={"p": "q"}), groups=rows["lang"]), "column")
    assert (rule.predict(rows["p"].to_numpy(), groups=rows["lang"].to_numpy()) == answers).all()


def test_rows_and_tables_are_read_by_name():
    clf = tb.tune(SCORES["probability"], TABLE[A], Y[A], groups=TABLE[["lang"]][A], **PROBLEMS["by group"])
    rows = TABLE[B].assign(site="x")
    answers = clf.rule_.predict(rows["p"], groups=rows["lang"]).tolist()
    row, document = rows.iloc[0], json.loads(clf.rule_.to_json())
    for rule in (clf.rule_, ThresholdRule.from_dict(document)):
        assert rule.predict(rows).tolist() == answers
        assert rule.predict(rows, groups="lang").tolist() == answers
        assert rule.predict(rows[["p", "site"]], groups=rows["lang"]).tolist() == answers
        assert rule.predict(rows.to_dict("list")).tolist() == answers
        for same_row in (rows[:1], {"p": [row["p"]], "lang": [row["lang"]]}, row, dict(row)):
            assert rule.predict(same_row).tolist() == clf.predict(same_row).tolist() == answers[:1]
        for reader in (rule, clf):  # no rule can tell which rows have the single entry
            for uneven in ({"p": [0.1, 0.7], "lang": "en"}, {"lang": ["en"], "p": [0.1, 0.7]}):
                refused(partial(reader.predict, uneven), "'lang'")
        for score in (row["p"], float(row["p"])):
            assert rule.predict(score, groups=row["lang"]).tolist() == answers[:1]
        assert rule.predict({"p": [0.7], "lang": ["fr"]}, default="ok").tolist() == ["ok"]
        refused(partial(rule.predict, {"p": [0.7]}), "groups")
    blind = tb.tune(SCORES["probability"], TABLE[A], Y[A], limits="miss(toxic) <= .1").rule_
    assert blind.predict({"p": [0.7], "lang": ["fr"]}).tolist() == blind.predict([0.7]).tolist()
    assert blind.predict([]).tolist() == []


def test_groups_come_in_any_form():
    """A column, or a table with the rule's group column alone."""
    bands = [[(None, "no"), (0.2, "yes")], [(None, "no"), (0.7, "yes")]]
    rule = ThresholdRule("p", ["no", "yes"], ["de", "en"], bands, "probability")
    groups = pd.DataFrame({"lang": ["de", "en"]})
    for given in (groups, {"lang": ["de", "en"]}, groups["lang"], groups.to_numpy(), ["de", "en"]):
        assert rule.predict([0.5, 0.5], groups=given).tolist() == ["yes", "no"]
    for given, words in [
        (pd.DataFrame({"a": [1, 1], "b": [1, 1]}), "one column"), (["de"], "groups has 1 row,"),
        ("de", "groups"), (["it", "de"], r"\['it'\]; known are \['de', 'en'"),
    ]:  # fmt: skip
        refused(partial(rule.predict, [0.5, 0.5], groups=given), words)


def test_a_rule_prints_thresholds():
    clf = tb.tune(SCORES["probability"], TABLE[A], Y[A], **PROBLEMS["deferral"])
    (_, first), (low, review), (high, last) = clf.rule_.bands[0]
    assert (first, review, last) == ("ok", "human review", "toxic")
    words = f"p >= {high:.4g}: toxic; {low:.4g} <= p < {high:.4g}: human review; else ok"
    assert str(clf.rule_) == words


@pytest.mark.parametrize("power", [0.2, 3.0])
def test_only_the_order_of_a_number_matters(power):
    stretched = TABLE.assign(logit=np.sign(Z) * np.abs(Z) ** power)
    one, other = (tb.tune(SCORES["number"], each[A], Y[A]) for each in (TABLE, stretched))
    assert np.mean(one.predict(TABLE[A]) != other.predict(stretched[A])) <= 2e-3


class Other:
    """A model with labels and a data frame as result, in another order."""

    class_labels = ("ok", "toxic")

    def predict_proba(self, X):
        return pd.DataFrame({"toxic": X["p"], "ok": 1 - X["p"]})


def test_models_in_all_forms_decide_alike():
    def function(X):
        return X["p"]

    columns, table = tb.Scores(["q", "p"], ["ok", "toxic"]), TABLE.assign(q=1 - TABLE["p"])
    models = (tb.Scores("p", "toxic"), function, Other(), columns)
    each = [tb.tune(model, table[A], Y[A]).predict(table[B]).tolist() for model in models]
    assert each[0] == each[1] == each[2] == each[3]
    mixed = tb.RobustMixtureClassifier([("p", tb.Scores("p", "toxic"))]).fit(table[A], Y[A])
    assert mixed.predict(table[B]).tolist() == each[0]


def test_rows_with_equal_scores_are_different_rows():
    clf = tb.tune(tb.Scores("grade", "toxic", kind="number"), TABLE[["grade"]][A], Y[A])
    assert tb.certify(clf, TABLE[["grade"]][B], Y[B]).bounds
    rows = clf.rates_.lines[0].rows
    assert rows == pytest.approx(np.sum(Y[A] == "ok"))


def test_load_rule_refuses_other_json(tmp_path):
    path = tmp_path / "rule.json"
    document = tb.tune(SCORES["logit"], TABLE[A], Y[A]).rule_.to_dict()
    for other, words in (
        ({"number": 3, "bands": document["bands"]}, r"rule\.json"),
        ({}, "tailboost"),
        ({**document, "format": 92}, "format 92"),
    ):
        path.write_text(json.dumps(other), encoding="utf-8")
        refused(lambda: tb.load_rule(path), words)


def test_missing_scores_are_refused_or_get_a_stated_level():
    table = TABLE.assign(p=TABLE["p"].mask(np.arange(N) % 100 == 7))
    refused(lambda: tb.tune(tb.Scores("p", "toxic"), table[A], Y[A]), "score")
    rule = tb.tune(tb.Scores("p", "toxic"), TABLE[A], Y[A]).rule_
    refused(lambda: rule.predict({"p": None}), "missing")
    clf = tb.tune(tb.Scores("p", "toxic", missing=1.0), table[A], Y[A])
    assert (clf.predict(table[B])[7::100] == "toxic").all()
    assert (clf.rule_.predict([np.nan]) == "toxic").all()


@pytest.mark.parametrize(("score", "words"), [
    (tb.Scores("p"), "label"), (tb.Scores("logit", "toxic"), "probabilities"),
    (tb.Scores("p", "nontoxic"), "nontoxic"), (tb.Scores("p", " Toxic"), "Toxic"),
    (tb.Scores("q", "toxic"), "column"), (tb.Scores(0, "toxic"), "column"),
    (tb.Scores(TABLE["p"], "toxic"), "columns"), (tb.Scores(["p", "logit"], ["ok"]), "columns"),
    (tb.Scores("lang", "toxic"), "numbers"), (tb.Scores(["p", "p"], ["ok", "toxic"]), "column"),
    (tb.Scores(["p", "logit"], "toxic"), "label"), (tb.Scores(["p", "logit"], ["ok", "other"]), "toxic"),
    (tb.Scores("p", "toxic", kind="rank"), "kind"),
], ids=str)  # fmt: skip
def test_unclear_scores_are_refused(score, words):
    refused(lambda: tb.tune(score, TABLE[A], Y[A]), words)


def test_a_label_of_another_type_is_told_its_type():
    truth = Y[A] == "toxic"
    refused(lambda: tb.tune(tb.Scores("p", "True"), TABLE[A], truth), "label")
    refused(lambda: tb.tune(tb.Scores("p", "1"), TABLE[A], truth.astype(int)), "label")


def test_constant_scores_are_noticed_and_frequent_labels_are_not():
    with pytest.warns(UserWarning, match="answer"):
        tb.tune(tb.Scores("p", "toxic"), TABLE.assign(p=0.5)[A], Y[A])
    p = np.where(np.arange(1000) % 100 < 3, 0.9, 0.1)  # sure scores: the rule answers 97 % as labelled
    tb.tune(tb.Scores("p", "toxic"), pd.DataFrame({"p": p}), np.where(p > 0.5, "toxic", "ok"))


@pytest.mark.parametrize("others", [[], ["deferred() <= .05"]])
@pytest.mark.parametrize("kind", SCORES)
def test_a_group_blind_rule_on_scores_alone_is_thresholds(kind, others):
    score, limits = SCORES[kind], ["miss(toxic, by=lang) <= .15", *others]
    table = TABLE[[score.columns]]
    clf = tb.tune(score, table[A], Y[A], groups=TABLE[["lang"]][A], limits=limits)
    rule = clf.rule_
    assert isinstance(rule, ThresholdRule)
    mark = {"deferred": "human review"} if answering(clf).rule.defers else {}
    assert rule.predict(table[score.columns][A]).tolist() == clf.predict(table[A], **mark).tolist()


def test_labels_of_another_length_are_refused():
    scores = np.linspace(0.0, 1.0, 100)[:, None]
    refused(lambda: tb.tune(tb.Scores(0, 1), scores, np.arange(99) % 2), "has")


# The thresholds have all digits of a float. Rounding would change the answers to rows at or next to them.
THIRD, TENTHS, LAST = 1 / 3, 0.1 + 0.2, 0.7000000000000001
BANDS = [
    [(None, "no"), (THIRD, "yes")], [(None, "no"), (TENTHS, "human review"), (LAST, "yes")],
    [(None, "yes"), (LAST, "no")],
]  # fmt: skip
BY_HAND = ThresholdRule("p", ["no", "yes"], ["a", "b", "c"], BANDS, "probability")


@pytest.mark.parametrize("form", FORMS)
def test_a_score_at_a_threshold_is_in_the_range_above_it(form):
    ends = [("a", THIRD, "no", "yes"), ("b", TENTHS, "no", "human review")]
    for group, end, *answers in [*ends, ("b", LAST, "human review", "yes"), ("c", LAST, "yes", "no")]:
        scores = [float(np.nextafter(end, 0)), end]
        assert FORMS[form](BY_HAND, scores, [group] * 2) == answers


@pytest.mark.parametrize("form", FORMS)
def test_each_group_has_its_own_ranges(form):
    """The same scores in the first, the middle and the last group, in mixed order."""
    above, middle = ("yes", "yes", "no"), ("human review", "yes")
    expected = {0.0: ("no", "no", "yes"), 0.32: ("no", *middle), 0.5: ("yes", *middle)}
    expected |= {0.9: above, 1.0: above}
    rows = [(s, *pair) for s, answers in expected.items() for pair in zip("abc", answers, strict=True)]
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    scores, groups, answers = map(list, zip(*rows, strict=True))
    assert FORMS[form](BY_HAND, scores, groups) == answers


@pytest.mark.parametrize("form", FORMS)
def test_the_stated_score_may_be_in_any_range(form):
    # 0.7 is just below the last threshold.
    middle, above = ["yes", "human review", "yes"], ["yes", "yes", "no"]
    cases = [(0.0, ["no", "no", "yes"]), (THIRD, middle), (0.7, middle), (LAST, above), (1.0, above)]
    for missing, expected in cases:
        rule = replace(BY_HAND, missing=missing)
        assert FORMS[form](rule, [np.nan] * 3, ["a", "b", "c"]) == expected


@pytest.mark.parametrize(("end", "score"), [
    (0.1, Decimal("0.1")), (0.1, Fraction(1, 10)), (2.0**53 + 4, 2**53 + 3), (0.1, np.float32(0.1)),
    (0.1, pd.NA), (0.1, Decimal("NaN")), (1e16, np.int64(10**16)), (0.1, np.nan), (0.1, None),
    (0.1, np.float64("nan")),
])  # fmt: skip
def test_python_reads_any_number_as_predict_does(end, score):
    """At the threshold, which is the float next to the number, and the score of rows without one."""
    rule = ThresholdRule("p", ["no", "yes"], None, [[(None, "no"), (end, "yes")]], "number", missing=end)
    assert decide(rule.to_python())(score) == rule.predict(np.array([score], object))[0] == "yes"
    for text in ("1", b"1", np.str_("1"), True):
        refused(partial(rule.predict, np.array([text], object)), "numbers")
        refused(partial(decide(rule.to_python()), text), "number", TypeError)


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_a_score_or_outside_the_range_and_of_no_known_group_are_refused(form):
    rows = [(np.nan, "a", "score"), (-0.1, "b", "probab"), (1.1, "c", "probab"), (0.9, "x", "group")]
    for score, group, fault in rows:
        if form in WITH_NULL:
            assert FORMS[form](BY_HAND, [score], [group]) == [None]
        else:
            refused(partial(FORMS[form], BY_HAND, [score], [group]), fault)


@pytest.mark.parametrize("groups", [None, ["a", "b"]])
@pytest.mark.parametrize("default", ["no", "human review", None])
def test_a_row_without_a_score_takes_the_default_in_predict_and_sql(groups, default):
    bands = [[(None, "no"), (0.3, "human review"), (0.6, "yes")], [(None, "no"), (0.8, "yes")]]
    rule = ThresholdRule("p", ["no", "yes"], groups, bands[: len(groups or [0])], "probability")
    table = pd.DataFrame({"p": [0.1, np.nan, 0.5, 0.7, np.nan], "g": ["a", "a", "a", "a", "b"]})
    expected = ["no", default, "human review", "yes", default]
    by_group = {} if groups is None else {"groups": table["g"]}
    assert rule.predict(table["p"], **by_group, default=default).tolist() == expected
    assert rule.predict(table["p"].astype(object), **by_group, default=default).tolist() == expected
    lacking = table.iloc[[1, 4]]
    of_lacking = {} if groups is None else {"groups": lacking["g"]}
    assert rule.predict(lacking["p"], **of_lacking, default=default).tolist() == [default] * 2
    refused(lambda: rule.predict(table["p"], missing=default), "missing", TypeError)
    stated = replace(rule, missing=0.95)
    found = stated.predict(table["p"], **by_group, default=default)
    assert found.tolist() == ["no", "yes", "human review", "yes", "yes"]

    if default is not None:
        sql = f"COALESCE({rule.to_sql(group=groups and 'g')}, '{default}')"
        assert in_sqlite(sql, **table) == expected


def test_a_default_keeps_what_a_group_blind_rule_says_of_groups():
    rule = ThresholdRule("p", ["no", "yes"], None, [[(None, "no"), (0.5, "yes")]], "probability")
    rows = pd.DataFrame({"p": [0.1, np.nan, 0.7], "g": ["a", "a", "b"]})
    assert rule.predict(rows, default="yes").tolist() == ["no", "yes", "yes"]
    refused(lambda: rule.predict(rows["p"], groups=rows["g"], default="yes"), "groups")


@pytest.mark.parametrize(("score", "group"), [("p", "g"), (0, 1), (1, 0)])
def test_a_rule_finds_its_columns_by_texts_and_by_numbers(score, group):
    bands = [[(None, "no"), (0.5, "yes")], [(None, "no"), (0.3, "yes")]]
    kept = ("probability", None, None, group, "yes")
    rule = ThresholdRule(score, ["no", "yes"], ["a", "b"], bands, *kept)
    rows = pd.DataFrame({score: [0.4, 0.4, 0.6], group: ["a", "b", "a"]})
    for given in (rows, rows.to_dict("list")):
        assert rule.predict(given).tolist() == ["no", "yes", "yes"]
        assert rule.predict(given, groups=group).tolist() == ["no", "yes", "yes"]
        assert rule.predict(given, groups=["b", "a", "a"]).tolist() == ["yes", "no", "yes"]


@pytest.mark.parametrize("positive", ["a", "b"])
def test_a_score_at_a_written_threshold_is_in_the_bin_of_its_answer(positive):
    """The shortest decimal between two selecting rows may be the score of a fresh row."""
    rng = np.random.default_rng(0)
    known, fresh = rng.integers(0, 50, 600) / 50, np.arange(101) / 100
    y = np.where(rng.random(600) < known, positive, "b" if positive == "a" else "a")
    rule = tb.tune(tb.Scores(0, positive), known[:, None], y, limits=["error <= 90%"])
    selection, outputs = rule.selection_, rule.__tailboost__().score(fresh[:, None]).outputs()
    family = selection.thresholds
    in_bin = family.bins(family.rising(outputs.score), outputs.groups)
    for cut in range(1, len(family.edges) - 1):
        answers = replace(selection, rule=family.kept(np.array([[cut]]))).label_numbers(outputs)
        assert ((in_bin >= cut) == answers).all()
