"""How well p(group, class | x) is believed of new rows where groups are not told, as learned and calibrated.

    python benchmarks/beliefs.py --data DIR [--out FILE]

Log loss of the stratum (race and class) on rows that had no part, of all and of strata with less than 1 % of
the rows: PublicCoverage (nine races, two classes) and the diabetes table (six races, three classes, each
person's first encounter). Run it with PYTHONPATH at another edition's ``src`` to compare.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))  # the experiments' loaders of tables
from experiments.field._tables import TABLES
from tailboost.learners import HistBoostClassifier
from tailboost.thresholds import Belief, Calibration, GroupModel

MOST, FRESH, FOLDS, RARE = 60_000, 60_000, 3, 0.01


def rows_of(name: str, folder: Path) -> tuple[Any, Any, Any]:
    """Return features without the race, classes, and races as numbers."""
    table = TABLES[name](folder)
    if name == "diabetes":
        read = pd.read_parquet(folder / "field" / "diabetes130.parquet")
        race = read["race"].fillna("?").astype(str).to_numpy()
        first = np.sort(np.unique(table.of, return_index=True)[1])
        table, race = table.rows(first), race[first]
    else:
        race = table.groups["race"]
    X = table.X.drop(columns=[column for column in ("RAC1P", "race") if column in table.X])
    return X, table.y, np.unique(race, return_inverse=True)[1]


def measured(name: str, folder: Path) -> dict[str, Any]:
    """Return the log losses of a table."""
    X, y, g = rows_of(name, folder)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    n = min(MOST, int(0.7 * len(y)))
    rest, fresh = order[:n], order[n : n + FRESH]
    new_X, new_y, new_g = X.iloc[fresh].reset_index(drop=True), y[fresh], g[fresh]
    X, y, g = X.iloc[rest].reset_index(drop=True), y[rest], g[rest]
    K, G = int(y.max()) + 1, int(g.max()) + 1
    fold = rng.integers(0, FOLDS, n)
    P, new_P, said = np.zeros((n, K)), np.zeros((len(new_y), K)), np.empty((K, G, n))
    for j in range(FOLDS):
        rest, held = np.flatnonzero(fold != j), np.flatnonzero(fold == j)
        model = HistBoostClassifier(n_estimators=60, learning_rate=0.15).fit(X.iloc[rest], y[rest])
        P[held] = model.predict_proba(X.iloc[held])
        new_P += model.predict_proba(new_X) / FOLDS
        group = GroupModel.fit(X.iloc[rest], y[rest], g[rest], np.ones(len(rest)), K, G)
        said[:, :, held] = group.predict(X.iloc[held])
    new_said = GroupModel.fit(X, y, g, np.ones(n), K, G).predict(new_X)
    belief = Belief(K, np.arange(G)[:, None], False)
    joint = belief.joint(np.log(np.clip(P, 1e-6, 1)), said, None).astype(np.float32)
    new = belief.joint(np.log(np.clip(new_P, 1e-6, 1)), new_said, None)
    stratum, new_stratum = y * G + g, new_y * G + new_g
    rare = np.bincount(stratum, minlength=K * G)[new_stratum] < RARE * n
    began = time.process_time()
    calibration = Calibration.fit(joint, stratum, np.full(n, 1 / n))
    seconds = time.process_time() - began
    found: dict[str, Any] = {"rows": n, "strata": K * G, "seconds": round(seconds, 2)}
    for words, believed in (("as learned", new), ("calibrated", calibration.apply(new))):
        loss = -np.log(np.maximum(believed[new_stratum, np.arange(len(new_y))], 1e-9))
        found[words] = {"all": round(float(loss.mean()), 4), "rare": round(float(loss[rare].mean()), 3)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {}
    for name in ("acs coverage", "diabetes"):
        found[name] = measured(name, args.data)
        print(name, json.dumps(found[name]), flush=True)
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
