"""SQL of rules in databases beside `predict`: one type in a column, NULL for unknown groups."""

import os
import sqlite3

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

import tailboost as tb
from tailboost import rates

REVIEW = "human review"
RNG = np.random.default_rng(0)
N = 1500
S = RNG.random(N).round(2)
HIGH = (RNG.random(N) < S).astype(int)
G = RNG.choice(["o'hara", "ä b", " 1", "1"], N)
LABELS = {"int": [0, 1], "text": ["no's", "yes"], "bool": [False, True], "long": [-5, 2**53 + 1]}


class Sqlite:
    """SQLite, which has no booleans."""

    def answers(self, table, sql):
        base = sqlite3.connect(":memory:")
        table.to_sql("t", base, index_label="i")
        return [row[0] for row in base.execute(f"SELECT {sql} FROM t ORDER BY i")]


class Duckdb:
    """DuckDB."""

    def answers(self, table, sql):
        base = pytest.importorskip("duckdb").connect()
        rows = table.reset_index(names="i")
        base.register("rows_given", rows)
        base.execute("CREATE TABLE t AS SELECT * FROM rows_given")
        return [row[0] for row in base.execute(f"SELECT {sql} FROM t ORDER BY i").fetchall()]


class Postgres:
    """PostgreSQL, at the address in PGCONN."""

    def answers(self, table, sql):
        psycopg = pytest.importorskip("psycopg")
        if "PGCONN" not in os.environ:
            pytest.skip("PGCONN names no server")
        with psycopg.connect(os.environ["PGCONN"]) as base:
            columns = ", ".join(
                f'"{name}" {"double precision" if table[name].dtype.kind == "f" else "text"}'
                for name in table
            )
            base.execute(f"CREATE TEMPORARY TABLE t (i int, {columns})")
            with base.cursor().copy("COPY t FROM STDIN") as copied:
                for row in table.itertuples():
                    copied.write_row([None if value != value else value for value in row])
            return [row[0] for row in base.execute(f"SELECT {sql} FROM t ORDER BY i").fetchall()]


DATABASES = {"sqlite": Sqlite(), "duckdb": Duckdb(), "postgresql": Postgres()}


def same(found, expected):
    """Whether answers and their types agree; booleans of SQLite are 0 and 1."""
    return found == expected and (type(found) is type(expected) or isinstance(expected, bool))


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("defers", [False, True])
def test_answers_have_one_type_and_are_those_of_predict(defers, by_group, labels, database):
    low, high = LABELS[labels]
    y = np.array([low, high])[HIGH]
    limits = [rates.miss(high, by="g") <= 0.3]
    if defers:
        limits = [rates.miss(high, by="g") <= 0.2, rates.false_alarm(high) <= 0.3, rates.deferred() <= 0.6]
    table = pd.DataFrame({"s": S})
    clf = tb.tune(tb.Scores("s", high), table, y, groups={"g": G}, limits=limits, by_group=by_group)
    rule, group = clf.rule_, "g" if by_group else None
    assert rule.defers == defers
    ends = np.array([end for band in rule.bands for end, _ in band[1:]])
    s, g = np.r_[S[:300], np.repeat(ends, 4)], np.r_[G[:300], np.tile(np.unique(G), len(ends))]
    odd = pd.DataFrame(
        {"s": [np.nan, np.inf, 2.0, 0.5], "g": ["1", "1", "1", "unknown" if by_group else "1"]}
    )
    rows = pd.concat([pd.DataFrame({"s": s, "g": g}), odd if by_group else odd[:3]], ignore_index=True)
    given = {"groups": {"g": g}} if by_group else {}
    answered = clf.predict(pd.DataFrame({"s": s}), **given).tolist()
    deferred = clf.defers(pd.DataFrame({"s": s}), **given) if defers else np.zeros(len(s), dtype=bool)

    nothing = [None] * (len(rows) - len(s))
    pairs = list(zip(answered, deferred.tolist(), strict=True))
    expected = {
        "action": [(REVIEW if d else str(a)) if defers else a for a, d in pairs],
        "label": [None if d else a for a, d in pairs],
        "deferred": [int(d) for _, d in pairs],
    }
    for what, wanted in expected.items():
        found = DATABASES[database].answers(rows, rule.to_sql(group=group, what=what))
        assert all(map(same, found, wanted + nothing)), what


@pytest.mark.parametrize("database", DATABASES)
def test_a_rule_on_probabilities_has_one_type_too(database):
    P = np.c_[1 - S, S]
    clf = tb.RobustMixtureClassifier.from_probabilities(
        {"m": P}, HIGH, limits=["miss(1) <= .15", "deferred() <= .3"]
    )
    table = pd.DataFrame({"m_0": P[:, 0], "m_1": P[:, 1]})
    deferred, labels = clf.defers({"m": P}), clf.predict({"m": P})
    assert deferred.any()
    actions = np.where(deferred, REVIEW, labels.astype(str)).tolist()
    expected = {"action": actions, "label": labels.tolist(), "deferred": deferred.astype(int).tolist()}
    for what, wanted in expected.items():
        found = DATABASES[database].answers(table, clf.rule_.to_sql(what=what))
        assert all(map(same, found, wanted)), what
