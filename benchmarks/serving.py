"""The rule taken out of a mixture: equal labels in SQLite and DuckDB, and milliseconds of one row.

    python benchmarks/serving.py [--rows N] [--out FILE]

A default mixture is fitted on a part of each bundled table. Its models' probabilities of N rows (the table
over and over) are put into a table; labels of `Rule.to_sql` and `Rule.predict` are compared with those of
`predict`. DuckDB is left out where it is not installed. Milliseconds of processor are those of `predict` on
one row of a data frame, the median of 50 calls.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn

import tailboost as tb

try:
    import duckdb
except ImportError:
    duckdb = None

TABLES = {
    "wine": tb.datasets.load_wine_quality,
    "credit": tb.datasets.load_credit_default,
}
FITTED, SEED = 3000, 0


def labels_of(base, expression, names, rows):
    base.execute(f"create table t (row_ integer, {', '.join(f'{name} double' for name in names)})")
    step = 10_000
    for first in range(0, len(rows), step):
        block = [(first + i, *row) for i, row in enumerate(rows[first : first + step].tolist())]
        base.executemany(f"insert into t values (?, {', '.join('?' * len(names))})", block)
    return np.array(
        [label for (label,) in base.execute(f"select {expression} from t order by row_").fetchall()]
    )


def one_row(mix, X):
    seconds = []
    for i in range(50):
        start = time.process_time()
        mix.predict(X.iloc[[i]])
        seconds.append(time.process_time() - start)
    return round(1000 * float(np.median(seconds)), 2)


def table(name, n_rows):
    data = TABLES[name]()
    X, y = data.data, np.asarray(data.target)
    order = np.random.default_rng(SEED).permutation(len(y))
    fitted = order[: min(FITTED, len(y) // 2)]
    mix = tb.RobustMixtureClassifier(random_state=SEED).fit(X.iloc[fitted], y[fitted])
    mixed = mix.reweight(mean_budget=0.02)
    labels, row = mixed.predict(X), one_row(mixed, X)
    P = {
        each: model.predict_proba(X)
        for each, model in mixed.named_estimators_.items()
        if each in mixed.used_models_
    }
    rule = mixed.rule_
    rows = np.hstack([P[each] for each in rule.models])
    times = -(-n_rows // len(y))
    wanted = np.tile(labels, times)[:n_rows]
    rows = np.tile(rows, (times, 1))[:n_rows]
    names = [f'"{each}_{label}"' for each in rule.models for label in rule.classes]
    expression = rule.to_sql()
    found = {
        "table": name,
        "rows": n_rows,
        "different": len(y),
        "models": rule.models,
        "sql": len(expression),
    }
    found["unequal, Rule.predict"] = int((rule.predict(P) != labels).sum())
    found["unequal, SQLite"] = int(
        (labels_of(sqlite3.connect(":memory:"), expression, names, rows) != wanted).sum()
    )
    if duckdb is not None:
        few = slice(0, len(y))
        said = labels_of(duckdb.connect(), expression, names, rows[few])
        found["unequal, DuckDB (each row once)"] = int((said != wanted[few]).sum())
    return found | {"one row, ms": row}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for name in TABLES:
        results.append(table(name, given.rows))
        print(results[-1], flush=True)
    if given.out:
        modules = [np, sklearn, tb, *([duckdb] if duckdb is not None else [])]
        versions = {m.__name__: m.__version__ for m in modules} | {"sqlite": sqlite3.sqlite_version}
        content = {"results": results, "versions": versions, "python": platform.python_version()}
        given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
