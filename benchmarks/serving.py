"""The rule taken out of a mixture: equal labels in SQLite, DuckDB and ONNX, and milliseconds of one row.

    python benchmarks/serving.py [--rows N] [--out FILE]

A default mixture is fitted on a part of each bundled table. Its models' probabilities of N rows (the table
over and over) are put into a table; labels of `Rule.to_sql` and `Rule.predict` are compared with those of
`predict`. DuckDB is left out where it is not installed. Then mixtures of default models, and of others by the
converters of their projects (as far as these are installed), are written as ONNX files and asked about the
same N rows, numbers as float32. Milliseconds of processor are those of one row: median and 99 % of 1,000
calls.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sqlite3
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import tailboost as tb
from tailboost.app.table_encoder import preparation

try:
    import duckdb
except ImportError:
    duckdb = None

TABLES = {
    "wine": tb.datasets.load_wine_quality,
    "credit": tb.datasets.load_credit_default,
}
FITTED, SEED, CALLS = 3000, 0, 1000


def labels_of(base, expression, names, rows):
    base.execute(f"create table t (row_ integer, {', '.join(f'{name} double' for name in names)})")
    step = 10_000
    for first in range(0, len(rows), step):
        block = [(first + i, *row) for i, row in enumerate(rows[first : first + step].tolist())]
        base.executemany(f"insert into t values (?, {', '.join('?' * len(names))})", block)
    return np.array(
        [label for (label,) in base.execute(f"select {expression} from t order by row_").fetchall()]
    )


def one_row(answer, rows):
    """Median and 99 % of the milliseconds of processor of single rows."""
    seconds = []
    for row in rows[:20] + rows:  # the first ones warm up
        start = time.process_time()
        answer(row)
        seconds.append(time.process_time() - start)
    return [round(1000 * float(np.quantile(seconds[-len(rows) :], q)), 2) for q in (0.5, 0.99)]


def served(X, y, fitted):
    """Milliseconds of one row: of models as they are, read from a file, and as the serving page asks them."""
    numbers = numbers_of(X)
    order = np.random.default_rng(1).integers(len(X), size=CALLS)
    frames, arrays = [X.iloc[[i]] for i in order], [numbers[[i]] for i in order]
    records = X.iloc[order].astype(object).to_dict("records")
    tuned = tb.tune(
        HistGradientBoostingClassifier(random_state=SEED).fit(numbers[fitted[::2]], y[fitted[::2]]),
        numbers[fitted[1::2]],
        y[fitted[1::2]],
    )
    found = {"tuned scikit-learn boosting, array": one_row(tuned.predict, arrays)}

    def make():
        return tb.RobustMixtureClassifier(random_state=SEED)

    found["mixture, array"] = one_row(make().fit(numbers[fitted], y[fitted]).predict, arrays)
    model = make().fit(X.iloc[fitted], y[fitted])
    found["mixture, frame"] = one_row(model.predict, frames)
    whole = Pipeline([*preparation(make()), ("classifier", make())]).fit(X.iloc[fitted], y[fitted])
    with tempfile.TemporaryDirectory() as folder:
        tb.save_model(model, Path(folder) / "m.model")
        tb.save_model(whole, Path(folder) / "w.model")
        model, whole = (tb.load_model(Path(folder) / name) for name in ("m.model", "w.model"))
    found["mixture, frame, from a file"] = one_row(model.predict, frames)
    found["mixture, serving page"] = one_row(lambda row: str(whole.predict(pd.DataFrame([row]))[0]), records)
    return found


def numbers_of(X):
    """The columns as float32, categories by their codes."""
    columns = [X[name].cat.codes if hasattr(X[name].dtype, "categories") else X[name] for name in X]
    return np.column_stack(columns).astype(np.float32)


def others():
    """Models of other projects, those that are installed."""
    models = {
        "scikit-learn forest": RandomForestClassifier(50, random_state=SEED),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
        "scikit-learn boosting": HistGradientBoostingClassifier(max_iter=30, random_state=SEED),
    }
    try:
        from xgboost import XGBClassifier

        models["XGBoost"] = XGBClassifier(n_estimators=50, n_jobs=1, random_state=SEED)
    except ImportError:
        pass
    try:
        from lightgbm import LGBMClassifier

        models["LightGBM"] = LGBMClassifier(n_estimators=50, n_jobs=1, verbose=-1, random_state=SEED)
    except ImportError:
        pass
    return models


def graphs(name, n_rows):
    """Labels of ONNX files beside those of `predict`."""
    import onnxruntime

    data = TABLES[name]()
    X, y = numbers_of(data.data), np.asarray(data.target)
    fitted = np.random.default_rng(SEED).permutation(len(y))[: min(FITTED, len(y) // 2)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for label, model in {"default models": None, **others()}.items():
        start = time.process_time()
        models = None if model is None else [("model", model)]
        mix = tb.RobustMixtureClassifier(models, random_state=SEED).fit(X[fitted], y[fitted])
        found = {"table": name, "models": label, "fit, s": round(time.process_time() - start, 1)}
        with tempfile.TemporaryDirectory() as folder:
            path, start = Path(folder) / "m.onnx", time.process_time()
            try:
                tb.export_onnx(mix, path)
            except ValueError as failure:
                yield found | {"refused": str(failure)[:200]}
                continue
            found |= {"export, s": round(time.process_time() - start, 1), "bytes": path.stat().st_size}
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        labels, start = mix.predict(X), time.process_time()
        parts = [session.run(None, {"X": X[i : i + 5000]})[0] for i in range(0, len(X), 5000)]
        wrong = np.concatenate(parts) != labels
        times = -(-n_rows // len(y))
        found |= {"rows": n_rows, "unequal": int(np.tile(wrong, times)[:n_rows].sum())}
        found["different rows"], found["of which unequal"] = len(y), int(wrong.sum())
        found["graph, s"] = round(time.process_time() - start, 1)
        yield found | {
            "one row, ms": one_row(lambda row, s=session: s.run(None, {"X": row}), list(X[:CALLS, None]))
        }


def table(name, n_rows):
    data = TABLES[name]()
    X, y = data.data, np.asarray(data.target)
    order = np.random.default_rng(SEED).permutation(len(y))
    fitted = order[: min(FITTED, len(y) // 2)]
    mix = tb.RobustMixtureClassifier(random_state=SEED).fit(X.iloc[fitted], y[fitted])
    mixed = mix.reweight(error_budget=0.02)
    labels = mixed.predict(X)
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
        base = duckdb.connect()
        base.register(
            "t", pd.DataFrame(rows, columns=[each.strip('"') for each in names]).assign(row_=range(n_rows))
        )
        said = base.execute(f"select {expression} from t order by row_").fetchall()
        found["unequal, DuckDB"] = int((np.array([label for (label,) in said]) != wanted).sum())
    return found | {"one row, ms": served(X, y, fitted)}


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
    onnx = []
    for name in TABLES:
        for found in graphs(name, given.rows):
            onnx.append(found)
            print(found, flush=True)
    if given.out:
        used = (
            "numpy",
            "scikit-learn",
            "tailboost",
            "duckdb",
            "onnx",
            "onnxruntime",
            "skl2onnx",
            "onnxmltools",
            "lightgbm",
        )
        versions = {"sqlite": sqlite3.sqlite_version}
        for each in (*used, "xgboost", "xgboost-cpu"):
            with contextlib.suppress(metadata.PackageNotFoundError):
                versions[each] = metadata.version(each)
        content = {
            "results": results,
            "onnx": onnx,
            "versions": versions,
            "python": platform.python_version(),
        }
        given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
