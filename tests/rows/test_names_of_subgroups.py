"""Names of group columns with another meaning in `by=`, and similar names of groups and classes."""

from functools import partial

import numpy as np
import pytest
from conftest import refused
from forms import in_sqlite

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost import metrics, rates

RNG = np.random.default_rng(0)
N = 600
S = RNG.random(N)
Y = (RNG.random(N) < S).astype(int)
GROUP = RNG.choice(["u", "v"], N)
TABLE = pd.DataFrame({"s": S})
SCORES = tb.Scores("s", 1)
LIMIT = [rates.error(by="class") <= 0.9]
GIVEN = {"m": np.c_[1 - S, S]}
COMPOSED, DECOMPOSED = "\u00e9", "e\u0301"

CALLS = {
    "tune": lambda g: tb.tune(SCORES, TABLE, Y, groups=g, limits=LIMIT),
    "given": lambda g: tb.RobustMixtureClassifier.from_probabilities(GIVEN, Y, groups=g, limits=LIMIT),
    "certify": lambda g: tb.certify(Y, None, Y, groups=g, rates=LIMIT),
    "calibrate": lambda g: tb.calibrate(SCORES, TABLE, Y, groups=g, limits=LIMIT),
    "measure": lambda g: rates.measure(rates.error(by="class"), Y, Y, groups=g),
    "group_errors": lambda g: metrics.group_errors(Y, Y, g),
}


@pytest.mark.parametrize("form", [dict, pd.DataFrame])
@pytest.mark.parametrize("call", CALLS)
def test_a_column_is_not_named_as_something_else(call, form):
    for names in (["class"], ["cell"], ["sex", "class"], ["group", "sex"]):
        refused(partial(CALLS[call], form(dict.fromkeys(names, GROUP))), "column")


FORMS = {
    "frame": lambda g: pd.DataFrame({"lang": g}), "series": lambda g: pd.Series(g, name="lang"),
    "dict": lambda g: {"lang": g}, "array": np.asarray, "table": lambda g: np.asarray(g)[:, None],
}  # fmt: skip


@pytest.mark.parametrize("fitted", FORMS)
def test_the_only_column_has_any_form(fitted):
    """Groups of a fit and groups of later rows are a table of one column, or the column."""
    of_fit, of_rows = slice(0, 300), slice(300, None)
    by = "group" if fitted in ("array", "table") else "lang"
    limits, groups = [rates.error(by=by) <= 0.9], FORMS[fitted](GROUP[of_fit])
    classifier = tb.tune(SCORES, TABLE[of_fit], Y[of_fit], groups=groups, by_group=True, limits=limits)
    X, y = TABLE[of_rows], Y[of_rows]
    answers, bounds = set(), set()
    for form in FORMS.values():
        given = form(GROUP[of_rows])
        given = {"groups": given.to_numpy() if isinstance(given, pd.Series) else given}
        if isinstance(given["groups"], pd.DataFrame):
            given["groups"].index = X.index
        answers.add(tuple(classifier.predict(X, **given)))
        bounds.add(tuple(bound.upper for bound in tb.certify(classifier, X, y, **given).bounds))
        bounds.add(tuple(b.upper for b in tb.certify(classifier, X, y, limits=limits, **given).bounds))
    assert len(answers) == len(bounds) == 1
    refused(lambda: classifier.predict(X, groups={"age": GROUP[of_rows], "sex": GROUP[of_rows]}), "columns")
    refused(lambda: tb.tune(SCORES, S[:, None], Y, groups="lang"), "X has no columns with names; give")


def test_the_only_column_may_be_called_group():
    found = rates.measure(rates.error(by="group"), Y, np.zeros(N, dtype=int), groups={"group": GROUP})
    assert found == {name: pytest.approx(Y[name == GROUP].mean()) for name in ("u", "v")}


@pytest.mark.parametrize("name", ["class", "cell", "group"])
def test_the_name_of_a_single_column_does_not_count(name):
    zeros, column = np.zeros(N, dtype=int), pd.Series(GROUP, name=name)
    assert rates.measure(rates.error(by="class"), Y, zeros, groups=column) == {0: 0.0, 1: 1.0}
    by_group = rates.measure(rates.error(by="group"), Y, zeros, groups=column)
    assert by_group == {value: pytest.approx(Y[value == GROUP].mean()) for value in ("u", "v")}
    clf = tb.tune(SCORES, TABLE, Y, groups=column, limits=[rates.error(by="group") <= 0.9])
    plain = tb.tune(SCORES, TABLE, Y, groups=GROUP, limits=[rates.error(by="group") <= 0.9])
    assert str(clf.rates_) == str(plain.rates_)


def test_a_later_group_that_looks_alike_is_told():
    city, limits = np.where(GROUP == "u", COMPOSED, "v"), [rates.error(by="city") <= 0.9]
    clf = tb.tune(SCORES, TABLE, Y, groups={"city": city}, limits=limits, by_group=True)
    refused(lambda: clf.predict(TABLE, groups={"city": np.where(GROUP == "u", DECOMPOSED, "v")}), "city")


REVIEW = np.where(Y == 1, "human review", "ok")
DEFERRAL = [rates.miss("human review") <= 0.3, rates.deferred() <= 0.3]


@pytest.mark.filterwarnings("ignore:probabilities")
def test_a_class_called_as_the_answer_to_deferred_rows_is_refused_where_rows_may_be_deferred():
    score, answers = tb.Scores("s", "human review"), np.where(Y == 1, "ok", "human review")
    for call in (
        lambda: tb.tune(score, TABLE, REVIEW, limits=DEFERRAL),
        lambda: tb.calibrate(score, TABLE, REVIEW, limits=DEFERRAL),
        lambda: tb.RobustMixtureClassifier(limits=DEFERRAL).fit(TABLE, REVIEW),
        lambda: tb.RobustMixtureClassifier.from_probabilities(GIVEN, REVIEW, limits=DEFERRAL),
        lambda: tb.certify(answers, None, REVIEW, rates=["error() <= .9"], deferred=Y == 0),
        lambda: rates.measure(rates.error(), REVIEW, answers, deferred=Y == 0),
    ):
        refused(call, "called")


def test_a_class_called_as_the_answer_to_deferred_rows_is_answered_where_none_are_deferred():
    clf = tb.tune(tb.Scores("s", "human review"), TABLE, REVIEW, limits=DEFERRAL[:1])
    rule, answers = clf.rule_, clf.predict(TABLE)
    assert not rule.defers
    assert set(answers) == {"human review", "ok"}
    np.testing.assert_array_equal(rule.predict(S), answers)
    again = tb.ThresholdRule.from_dict(rule.to_dict())
    np.testing.assert_array_equal(again.predict(S), answers)
    assert in_sqlite(rule.to_sql(), **TABLE) == answers.tolist()


def test_a_forged_rule_that_defers_has_no_class_of_this_name():
    limits = [rates.miss("yes") <= 0.3, rates.deferred() <= 0.3]
    clf = tb.RobustMixtureClassifier.from_probabilities(GIVEN, np.where(Y, "yes", "no"), limits=limits)
    document = clf.rule_.to_dict() | {"classes": ["human review", "yes"]}
    refused(lambda: tb.Rule.from_dict(document), "called")


def test_a_series_by_the_name_of_another_column_is_refused():
    """A rule on `site` accepted a Series called `ward` if it knew all values."""
    two, one = {"site": GROUP, "ward": GROUP[::-1]}, pd.Series(GROUP, name="site")
    by_site = tb.tune(SCORES, TABLE, Y, groups=two, by_group="site", limits=LIMIT)
    for rule in (by_site, tb.tune(SCORES, TABLE, Y, groups=one, by_group=True, limits=LIMIT)):
        expected = rule.predict(TABLE, groups=pd.DataFrame({"site": GROUP}))
        for same in (GROUP, pd.Series(GROUP), pd.Series(GROUP, name="site")):
            assert (rule.predict(TABLE, groups=same) == expected).all()
        other = pd.Series(GROUP, name="ward")
        refused(partial(rule.predict, TABLE, groups=other), "columns")
        with pytest.raises(ValueError, match="columns"):
            tb.certify(rule, pd.DataFrame({"s": RNG.random(N)}), Y, groups=other, limits=LIMIT)


@pytest.mark.parametrize("as_table", [True, False])
def test_ordered_categories_keep_their_order(as_table):
    values = pd.Categorical(["old", "mid", "new"] * 40, ["new", "old", "mid"], ordered=True)
    bands = pd.Series(values, name="age")
    groups = bands.to_frame() if as_table else bands
    answers = np.resize(["a", "b"], 120)
    y = np.where(values == "old", answers[::-1], answers)
    certificate = tb.certify(answers, None, y, groups=groups, rates=["error(by=age)"])
    assert [(b.subgroup, b.estimate) for b in certificate.bounds] == [("new", 0), ("old", 1), ("mid", 0)]
