"""Size of model files, seconds to write and to read them, and the memory that takes.

    python benchmarks/model_files.py [--table FILE --target COLUMN] [--out FILE]

The bundled credit data, and another table where one is given. Each step runs in a process of its own; its
peak memory includes all that was imported, and for "save" the model (see "read pickle").
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
import xgboost
from sklearn.pipeline import Pipeline

import tailboost as tb
from tailboost.app.datasets import load_credit_default
from tailboost.app.table_encoder import preparation

CLASSIFIERS = {
    "AdaLPBoost": tb.AdaLPBoostClassifier,
    "robust mixture": tb.RobustMixtureClassifier,
}


def step(name: str, folder: Path) -> dict[str, float]:
    """Run one step on the pickled things of a folder: seconds, and peak memory in MiB."""
    if name == "fit":
        classifier, table, y = pickle.loads((folder / "task.pkl").read_bytes())
        model = Pipeline([*preparation(classifier), ("classifier", classifier)]).fit(table, y)
        (folder / "model.pkl").write_bytes(pickle.dumps(model, protocol=5))
        return {"rounds": getattr(classifier, "n_iter_", 0)}
    model = None if name == "load" else pickle.loads((folder / "model.pkl").read_bytes())
    began, worked = time.perf_counter(), time.process_time()
    if name == "save":
        tb.save_model(model, folder / "m.model")
    elif name == "load":
        tb.load_model(folder / "m.model")
    taken, used = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(taken, 2), "processor_seconds": round(used, 2), "peak_MiB": round(peak)}


def measure(what: str, table: pd.DataFrame, y: Any) -> list[dict[str, Any]]:
    found = []
    for name, classifier in CLASSIFIERS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            task = classifier(random_state=0, n_jobs=1), table, y
            (folder / "task.pkl").write_bytes(pickle.dumps(task))
            result: dict[str, Any] = {"model": name, "data": f"{what}, {len(table):,} rows"}
            for part in ("fit", "read pickle", "save", "load"):
                command = [sys.executable, __file__, "--step", part, temporary]
                result[part] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            result["MB"] = round((folder / "m.model").stat().st_size / 1e6, 2)
            result["pickle_MB"] = round((folder / "model.pkl").stat().st_size / 1e6, 2)
        print(json.dumps(result), flush=True)
        found.append(result)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, help="a CSV file")
    parser.add_argument("--target", help="its target column; the last one by default")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.step:
        print(json.dumps(step(args.step[0], Path(args.step[1]))))
        return
    credit = load_credit_default()
    results = measure("credit default", credit.data, credit.target)
    if args.table:
        table = pd.read_csv(args.table)
        target = args.target or table.columns[-1]
        results += measure(args.table.name, table.drop(columns=target), table[target])
    versions = {m.__name__: m.__version__ for m in (np, pd, sklearn, xgboost, tb)}
    report = {"results": results, "versions": versions, "python": platform.python_version(), "seed": 0}
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
