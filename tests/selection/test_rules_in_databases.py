"""SQL of rules in databases, compared with `predict`: one type in a column, NULL for refused rows.

SQLite belongs to Python. DuckDB runs if it is installed, PostgreSQL if psycopg is installed and PGCONN names
a server, as in ``PGCONN="host=127.0.0.1 dbname=postgres user=postgres"``.
"""

import sqlite3
from functools import cache

import numpy as np
import pytest
from conftest import refused
from forms import DATABASES

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost import rates

REVIEW = "human review"
RNG = np.random.default_rng(0)
N = 600
S = RNG.random(N).round(2)
HIGH = (RNG.random(N) < S).astype(int)
NAMES = ["o'hara", 'a"b', "ä ö", "NULL", "x%s", "ß", ";--", "new\nline", " 1", "1", "-- \t;"]
G = RNG.choice(NAMES, N)
LABELS = {"int": [0, 1], "text": ["no's", "yes"], "bool": [False, True], "long": [-5, 2**53 + 1]}
THREE = {"int": [0, 1, 2], "text": ["no's", 'per"haps', "yes"], "decimals": [0.0, 1.0, 3.0]}
THREE["long"] = [-5, 7, 2**53 + 1]


def same(found, expected):
    """Whether answers and their types agree; SQLite has 0 and 1 as booleans, others have exact decimals."""
    return found == expected and (type(found) is type(expected) or isinstance(expected, (bool, float)))


def check(database, rule, table, expected, **options):
    """Compare the answers in a database with the expected ones."""
    answers = DATABASES[database](rule.to_sql(**options), **table)
    assert not [pair for pair in zip(answers, expected, strict=True) if not same(*pair)]


def written(answers, defers):
    """Return expected answers: text beside deferral, because a column has one type."""
    return [str(answer) if defers else answer for answer in np.asarray(answers).tolist()]


@cache
def on_a_score(labels, defers, by_group):
    low, high = LABELS[labels]
    limits = [rates.miss(high, by="g") <= 0.3]
    if defers:
        limits = [rates.miss(high, by="g") <= 0.2, rates.false_alarm(high) <= 0.3, rates.deferred() <= 0.6]
    y, table = np.array([low, high])[HIGH], pd.DataFrame({"s": S})
    return tb.tune(tb.Scores("s", high), table, y, groups={"g": G}, limits=limits, by_group=by_group)


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize(("defers", "by_group", "labels"), [
    (False, True, "int"), (True, False, "int"), (False, False, "text"), (True, True, "text"),
    (False, True, "bool"), (True, False, "bool"), (False, False, "long"), (True, True, "long"),
])  # fmt: skip
def test_answers_have_one_type_and_are_those_of_predict(defers, by_group, labels, database):
    clf = on_a_score(labels, defers, by_group)
    rule, group = clf.rule_, "g" if by_group else None
    assert rule.defers == defers

    # Rows at each threshold, and next to each threshold on both sides.
    ends = np.array([end for band in rule.bands for end, _ in band[1:]])
    at = np.r_[ends, np.nextafter(ends, 0.0), np.nextafter(ends, 1.0)]
    s, g = np.r_[S[:300], np.repeat(at, len(NAMES))], np.r_[G[:300], np.tile(NAMES, len(at))]
    given = {"groups": {"g": g}} if by_group else {}
    marked = {"deferred": REVIEW} if defers else {}
    expected = written(clf.predict(pd.DataFrame({"s": s}), **given, **marked), defers)

    odd = pd.DataFrame({"s": [np.nan, np.inf, -np.inf, 2.0, -0.1], "g": "1"})
    if by_group:
        unknown = pd.DataFrame({"s": 0.5, "g": ["unknown", None]})
        odd = pd.concat([odd, unknown], ignore_index=True)
    rows = pd.concat([pd.DataFrame({"s": s, "g": g}), odd], ignore_index=True)
    check(database, rule, rows, expected + [None] * len(odd), group=group)


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("model", ["score", "probabilities"])
def test_null_is_the_group_missing_if_the_rule_has_it(model, database):
    y, g = np.array(["no", "yes"])[HIGH], RNG.choice(["missing", "a"], N)
    limits = {"limits": [rates.miss("yes", by="g") <= 0.2], "groups": {"g": g}, "by_group": True}
    rows = pd.DataFrame({"s": S, "m_no": 1 - S, "m_yes": S, "g": pd.Series(g, dtype=object)})
    if model == "score":
        rule = tb.tune(tb.Scores("s", "yes"), rows[["s"]], y, **limits).rule_
        given = S
    else:
        given = {"m": np.c_[1 - S, S]}
        rule = tb.RobustMixtureClassifier.from_probabilities(given, y, **limits).rule_
    expected = rule.predict(given, groups=g)
    without = rows["g"].where(rows["g"] != "missing", None)
    assert (rule.predict(given, groups=without) == expected).all()
    check(database, rule, rows.assign(g=without), expected.tolist(), group="g")


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("kind", ["logit", "number"])
def test_other_scores_and_the_answer_to_a_missing_one(kind, database):
    s = {"logit": np.log((S + 0.001) / (1.001 - S)).round(1), "number": (1000 * S).round()}[kind]
    score = tb.Scores("s", "yes", kind=kind, missing=float(s.max()))
    y = np.array(["no", "yes"])[HIGH]
    clf = tb.tune(score, pd.DataFrame({"s": s}), y, limits=["miss(yes) <= .1"])
    end = clf.rule_.bands[0][1][0]
    values = [end, np.nextafter(end, -np.inf), np.nan, 0.0, -1e6, 1e6]
    rows = pd.DataFrame({"s": values})
    expected = clf.predict(rows).tolist()
    assert expected[:3] == ["yes", "no", "yes"]
    infinite = pd.DataFrame({"s": [np.inf, -np.inf]})
    check(database, clf.rule_, pd.concat([rows, infinite], ignore_index=True), [*expected, None, None])


FIRST = RNG.dirichlet([0.7] * 3, N)
SECOND = np.clip(FIRST + 0.15 * RNG.random((N, 3)), 0.001, None)
SECOND /= SECOND.sum(axis=1, keepdims=True)
G_3 = RNG.choice(NAMES[:3], N)
TRUTH = (RNG.random(N)[:, None] > np.cumsum((FIRST + SECOND) / 2, axis=1)).sum(axis=1).clip(max=2)


def columns_of(given, classes):
    """Return the probabilities of models as a table, with the default column names of the SQL."""
    columns = [f"{name}_{label}" for name in given for label in classes]
    return pd.DataFrame(np.hstack([*given.values()]), columns=columns)


def odd_rows(table):
    """Return a row with a missing probability, and rows of other numbers than probabilities."""
    first, second = table.columns[:2]
    valid = table.iloc[[0, 0, 0, 0]].reset_index(drop=True)
    odd = valid.assign(**{first: [np.nan, np.inf, -0.5, valid[first][3] + 0.1]})
    return pd.concat([odd, valid[:1].assign(**{first: 2.0, second: -1.0})], ignore_index=True)


@cache
def on_three_classes(labels, by_group):
    classes = THREE[labels]
    y = np.array(classes)[TRUTH]
    given = {"groups": {"g": G_3}, "by_group": True} if by_group else {}
    limits = [rates.miss(classes[2], by="g" if by_group else None) <= 0.35]
    return tb.RobustMixtureClassifier.from_probabilities({"m": FIRST}, y, limits=limits, **given)


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize(("by_group", "labels"), [*((False, labels) for labels in THREE), (True, "text")])
def test_three_classes(by_group, labels, database):
    """One model has SQL."""
    clf = on_three_classes(labels, by_group)
    rule = clf.rule_
    expected = rule.predict({"m": FIRST}, G_3 if by_group else None).tolist()
    assert expected == clf.predict({"m": FIRST}, **({"groups": {"g": G_3}} if by_group else {})).tolist()
    table = columns_of({"m": FIRST}, THREE[labels])
    odd = odd_rows(table)
    rows = pd.concat([table.assign(g=G_3), odd.assign(g=NAMES[0])], ignore_index=True)
    check(database, rule, rows, expected + [None] * len(odd), group="g" if by_group else None)


@pytest.mark.parametrize("database", DATABASES)
def test_sql_answers_the_rows_of_scores_that_predict_answers(database):
    """Numbers of two decimals sum to 1 up to .005 for each column; other rows are refused by both."""
    table = pd.DataFrame(FIRST.round(2), columns=["p", "q", "r"])
    assert table.sum(axis=1).round(2).nunique() > 1
    y = np.array(["a", "b", "c"])[TRUTH]
    clf = tb.tune(tb.Scores(["p", "q", "r"], ["a", "b", "c"]), table, y, limits=["miss(c) <= .35"])
    other = pd.DataFrame({"p": [0.2, 0.5, 0.0], "q": [0.3, 0.3, 0.0], "r": [0.4, 0.3, 0.0]})
    for row in range(3):
        refused(lambda: clf.predict(other[row : row + 1]), "sum to 1")
    rows = pd.concat([table, other], ignore_index=True)
    expected = [*clf.predict(table).tolist(), None, None, None]
    check(database, clf.rule_, rows, expected, columns=["p", "q", "r"], label=["a", "b", "c"])


def test_an_average_of_several_models_has_no_sql():
    models = {"m": FIRST, "n": SECOND}
    clf = tb.RobustMixtureClassifier.from_probabilities(models, TRUTH, objective="error")
    refused(lambda: clf.rule_.to_sql(), "predict_proba")


def test_an_integer_that_databases_round_is_refused():
    y = HIGH.astype(np.uint64) + np.uint64(2**63)
    clf = tb.tune(tb.Scores("s", 2**63 + 1), pd.DataFrame({"s": S}), y, objective="error")
    assert set(clf.predict(pd.DataFrame({"s": S})).tolist()) == {2**63, 2**63 + 1}
    refused(lambda: clf.rule_.to_sql(), "databases")


@pytest.mark.parametrize("by_group", [False, True])
def test_a_dot_ends_the_name_of_the_schema_of_a_table(by_group):
    clf, base = on_a_score("text", False, by_group), sqlite3.connect(":memory:")
    table = pd.DataFrame({"s": S, "g": G})
    table.to_sql("loans", base, index_label="i")
    given = {"groups": table[["g"]]} if by_group else {}
    for name in ("main.loans", "loans"):
        sql = clf.rule_.to_sql("s", group="g" if by_group else None, table=name)
        answers = [answer for (answer,) in base.execute(f"SELECT {sql} FROM main.loans ORDER BY i")]
        assert answers == clf.predict(table[["s"]], **given).tolist()
