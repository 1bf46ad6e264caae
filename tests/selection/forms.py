"""The forms of a rule, and the interpreters that answer by them.

A form is a function of a rule with columns of scores and groups, and of a written form also the label of the
scores. It returns a list of answers. Rows that `predict` refuses raise ValueError; the forms in `WITH_NULL`,
expressions of a database, have None for them.
"""

import json
import os
import sqlite3
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

import tailboost as tb


def decide(source):
    """Return the function in Python's source."""
    exec(source, names := {})
    return names["decide"]


def in_sqlite(expression, declared="", /, **columns):
    """Return the values of an SQL expression in the rows of a table t; SQLite has no booleans."""
    base = sqlite3.connect(":memory:")
    # As in PostgreSQL, where no power is rounded to 0.
    base.create_function("power", 2, lambda x, power: None if x is None else x**power or 1 / 0)
    base.execute(f"CREATE TABLE t ({', '.join(f'{quoted(name)} {declared}' for name in columns)})")
    rows = zip(*(pd.Series(column).tolist() for column in columns.values()), strict=True)
    base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
    return [value for (value,) in base.execute(f"SELECT {expression} FROM t ORDER BY rowid")]


def in_duckdb(expression, **columns):
    """Return the same of DuckDB, or skip the test without it."""
    base = pytest.importorskip("duckdb", reason="DuckDB is not installed").connect()
    table = pd.DataFrame(columns)
    base.execute(f"CREATE TABLE t (i int, {types_of(table)})")
    rows = table.astype(object).where(table.notna(), None).reset_index(names="i")
    base.register("rows_given", rows.astype({name: table[name].dtype for name in table}))
    base.execute("INSERT INTO t SELECT * FROM rows_given")
    return [value for (value,) in base.execute(f"SELECT {expression} FROM t ORDER BY i").fetchall()]


def in_postgresql(expression, **columns):
    """Return the same of PostgreSQL at the address in PGCONN, or skip the test without one."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    if "PGCONN" not in os.environ:
        pytest.skip("PGCONN names no PostgreSQL server")
    table = pd.DataFrame(columns)
    with psycopg.connect(os.environ["PGCONN"]) as base:
        base.execute(f"CREATE TEMPORARY TABLE t (i int, {types_of(table)})")
        with base.cursor().copy("COPY t FROM STDIN") as copied:
            for row in table.itertuples():
                copied.write_row([None if value != value else value for value in row])
        return [value for (value,) in base.execute(f"SELECT {expression} FROM t ORDER BY i").fetchall()]


DATABASES = {"sqlite": in_sqlite, "duckdb": in_duckdb, "postgresql": in_postgresql}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def types_of(table):
    """Return the names and types of the columns in SQL."""
    kinds = {name: "double precision" if table[name].dtype.kind == "f" else "text" for name in table}
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())


def rows_of(scores, groups):
    return zip(scores) if groups is None else zip(scores, groups, strict=True)


def by_predict(rule, scores, groups=None):
    return rule.predict(scores, groups).tolist()


def by_json(rule, scores, groups=None):
    return by_predict(type(rule).from_dict(json.loads(rule.to_json())), scores, groups)


def by_file(rule, scores, groups=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rule.json")
        path.write_text(rule.to_json(), encoding="utf-8")
        return by_predict(tb.load_rule(path), scores, groups)


def by_python(rule, scores, groups=None, label=None):
    answer = decide(rule.to_python(label=label))
    return [answer(*row) for row in rows_of(scores, groups)]


def by_sql(rule, scores, groups=None, label=None, database="sqlite"):
    columns, group = {rule.column: np.asarray(scores, dtype=float)}, None
    if groups is not None:
        columns["group of rows"], group = groups, "group of rows"
    return DATABASES[database](rule.to_sql(group=group, label=label), **columns)


#: Forms with the option ``label``.
WRITTEN = {"python": by_python, "sql": by_sql}
if find_spec("duckdb"):
    WRITTEN["duckdb"] = partial(by_sql, database="duckdb")
FORMS = {"predict": by_predict, "json": by_json, "file": by_file, **WRITTEN}
#: Forms in which a refused row has None: an expression raises no error.
WITH_NULL = ["sql", "duckdb"]
#: Those whose numbers have other types than Python's.
OTHER_NUMBERS = ["duckdb"]


def one_by_one(form, rule, scores, groups=None):
    """Return the answers of a form to rows that are asked one by one, None for refused ones."""
    if form in WITH_NULL:
        return FORMS[form](rule, scores, groups)
    answers = []
    for row in rows_of(scores, groups):
        try:
            answers += FORMS[form](rule, *([value] for value in row))
        except ValueError:
            answers.append(None)
    return answers
