"""What the default mixture promises of its errors, beside what holds on fresh rows.

    python benchmarks/promises.py --only small [--seeds N] [--out FILE]                 classes of few rows
    python benchmarks/promises.py --only patients --data DIR [--seeds N] [--out FILE]   rows of unseen persons
    python benchmarks/promises.py --only "patients, two classes" --data DIR …   the same, two classes

small: two normal classes, 1,000 rows of one and 20, 50 or 200 of the other; fresh rows are 10,000 of each.
patients: the diabetes table (`diabetes130.parquet` in DIR, from UCI 296), encounters of persons drawn at
random, judged on encounters of others; with and without ``split_by``; the classes are the three of the table,
or readmission within 30 days against all else. Two numbers of each class: the
error on the rows of the choice (`unit_errors_`), and that on fresh rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tailboost as tb

SIZES = (20, 50, 200)
COMMON, FRESH, COLUMNS, APART = 1_000, 10_000, 8, 0.8
TRAINED, JUDGED = 10_000, 30_000


def normals(rng: Any, n_common: int, n_rare: int) -> tuple[Any, Any]:
    """Return rows of two normal classes whose means differ in three columns."""
    y = np.repeat([0, 1], [n_common, n_rare])
    X = rng.normal(size=(len(y), COLUMNS))
    X[:, :3] += APART * y[:, None]
    return X, y


def numbers_of(mix: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return what was promised of each class, and what is found."""
    wrong = mix.predict(X) != y
    return {
        "units": [str(unit) for unit in mix.units_],
        "promised": mix.unit_errors_.round(4).tolist(),
        "interval": np.asarray(mix.unit_intervals_).round(4).tolist(),
        "found": [round(float(wrong[y == unit].mean()), 4) for unit in mix.units_],
    }


def small(seeds: int) -> list[dict[str, Any]]:
    """Classes of few rows."""
    rows = []
    for size in SIZES:
        for seed in range(seeds):
            rng = np.random.default_rng([size, seed])
            X, y = normals(rng, COMMON, size)
            fresh = normals(rng, FRESH, FRESH)
            began = time.process_time()
            mix = tb.RobustMixtureClassifier(random_state=seed, n_jobs=1).fit(X, y)
            cpu = round(time.process_time() - began, 2)
            rows.append({"rows": size, "seed": seed, "cpu": cpu} | numbers_of(mix, *fresh))
        print(size, summary([row for row in rows if row["rows"] == size]), flush=True)
    return rows


def patients(seeds: int, folder: Path, two: bool) -> list[dict[str, Any]]:
    """Encounters of persons, some of whom come again."""
    frame = pd.read_parquet(folder / "diabetes130.parquet")
    person, y = frame["patient_nbr"].to_numpy(), frame["readmitted"].astype(str).to_numpy()
    if two:
        y = np.where(y == "<30", "<30", "not")
    X = frame.drop(columns=["patient_nbr", "encounter_id", "readmitted"], errors="ignore")
    rows = []
    for seed in range(seeds):
        who = np.random.default_rng(seed).permutation(np.unique(person))
        train = np.flatnonzero(np.isin(person, who[: len(who) // 2]))
        # Whole persons, in random order, until there are enough rows.
        place = pd.Series(np.arange(len(who)), index=who)
        order = np.argsort(place[person[train]].to_numpy(), kind="stable")
        train = np.sort(train[order][:TRAINED])
        test = np.flatnonzero(np.isin(person, who[len(who) // 2 :]))
        test = np.sort(np.random.default_rng(seed).permutation(test)[:JUDGED])
        for together in (False, True):
            by = {"split_by": person[train]} if together else {}
            began = time.process_time()
            mix = tb.RobustMixtureClassifier(random_state=seed, n_jobs=1).fit(X.iloc[train], y[train], **by)
            row = {"seed": seed, "split_by": together, "cpu": round(time.process_time() - began, 1)}
            row |= {"rows": len(train), "persons": len(np.unique(person[train]))}
            rows.append(row | numbers_of(mix, X.iloc[test], y[test]))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the rows: of the last class and of the largest error, and the intervals' hits."""
    promised, found = (np.array([row[key] for row in rows]) for key in ("promised", "found"))
    ends = np.array([row["interval"] for row in rows])
    inside = (ends[:, :, 0] <= found) & (found <= ends[:, :, 1])
    return {
        "n": len(rows),
        "last class: promised": round(float(promised[:, -1].mean()), 4),
        "last class: found": round(float(found[:, -1].mean()), 4),
        "largest: promised": round(float(promised.max(axis=1).mean()), 4),
        "largest: found": round(float(found.max(axis=1).mean()), 4),
        "found in the interval, by class": inside.mean(axis=0).round(3).tolist(),
        "found above the interval, by class": (found > ends[:, :, 1]).mean(axis=0).round(3).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["small", "patients", "patients, two classes"], required=True)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.only == "small":
        rows = small(args.seeds)
        means: dict[str, Any] = {str(n): summary([r for r in rows if r["rows"] == n]) for n in SIZES}
    else:
        rows = patients(args.seeds, args.data, args.only != "patients")
        means = {f"split_by={by}": summary([r for r in rows if r["split_by"] == by]) for by in (False, True)}
    print(json.dumps(means, indent=1))
    if args.out:
        kept = json.loads(args.out.read_text()) if args.out.exists() else {}
        kept[args.only] = {"means": means, "rows": rows}
        args.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
