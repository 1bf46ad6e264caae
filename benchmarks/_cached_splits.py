"""The tables of `quality.py`, and the probabilities of the default models on their splits."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tailboost as tb

# Largest numbers of selection rows (up to three classes, more classes) and of test rows.
ROWS, ROWS_OF_MANY, TEST_ROWS = 5_000, 3_000, 20_000
# Tables with fewer selection rows, or without errors of any rule, are left out.
FEWEST_ROWS = 300
WITHOUT_ERRORS = ("mushroom",)
# Groups with a smaller fraction of the rows are merged.
LEAST_SHARE = 0.02
RACES = ["black", "asian", "white"]
# Title: the table of `experiments.field._tables`, its column of groups, and columns that reveal the group.
GROUPED = {
    "adult, sex": ("adult", "sex", ("sex", "relationship")),
    "law school, race": ("law school", "race", ()),
    "compas, race": ("compas", "race", ("race",)),
    "credit, sex": ("credit", "sex", ("SEX",)),
    "mortgages, race": ("hmda", "race", ()),
    "acs income, race": ("acs income", "race of 4", ("RAC1P",)),
    "acs coverage, race": ("acs coverage", "race of 4", ("RAC1P",)),
    "patients, race": ("diabetes", "race", ("race",)),
}


def loaded(folder: Path) -> dict[str, Any]:
    """Return the tables by title, ordered by the time of a fit; grouped tables have one column of groups."""
    from experiments import tradeoff
    from experiments._tables import LOADERS, Data, without_rare_classes
    from experiments.field._classes import SETS
    from experiments.field._tables import TABLES

    found = {}
    for title in dict.fromkeys([*tradeoff.SETS, *SETS]):
        data = (LOADERS | SETS)[title](folder)
        data = without_rare_classes(Data(data.X, data.y))
        if selection_rows(data) >= FEWEST_ROWS and title not in WITHOUT_ERRORS:
            found[title] = data
    for title, (name, column, hidden) in GROUPED.items():
        read = TABLES[name](folder)
        groups = read.groups
        if name == "hmda":
            groups = {"race": np.select([groups[race] for race in RACES], RACES, "")}
        group = np.asarray(groups[column]).astype(str)
        kept = np.flatnonzero(group != "")
        if read.of is not None:  # the first row of a person
            kept = np.sort(np.unique(read.of, return_index=True)[1])
        values, number, sizes = np.unique(group[kept], return_inverse=True, return_counts=True)
        merged = np.where(sizes < LEAST_SHARE * len(kept), "Other", values)[number]
        X = read.X.drop(columns=list(hidden)).iloc[kept].reset_index(drop=True)
        found[title] = Data(X, read.y[kept], {"group": merged})
    return dict(sorted(found.items(), key=lambda item: selection_rows(item[1]) * item[1].n_classes))


def selection_rows(data: Any) -> int:
    """Return the number of selection rows of a table: at most three fifths."""
    return min(round(0.6 * len(data.y)), ROWS if data.n_classes <= 3 else ROWS_OF_MANY)


def fit_models(data: Any, seed: int) -> dict[str, Any]:
    """Fit the default models to a split; return its rows with out-of-fold and test probabilities."""
    from experiments._tables import split

    n = selection_rows(data)
    rows = split(data, seed, 1.0 - n / len(data.y), n, TEST_ROWS)
    X, X_test = (np.ascontiguousarray(part.X, dtype=np.float64) for part in (rows.train, rows.test))
    began = time.process_time()
    mix = tb.RobustMixtureClassifier(random_state=seed, n_jobs=1).fit(X, rows.train.y)
    judged = mix.selection_.engine.outputs
    kept = {
        "X": X, "y": rows.train.y, "fold": judged.rows.fold, "P": np.exp(judged.logs),
        "X_test": X_test, "y_test": rows.test.y, "names": np.array(judged.models.names),
        "P_test": np.array([m.predict_proba(X_test) for m in mix.named_estimators_.values()]),
        "seconds": np.array(time.process_time() - began),
    }  # fmt: skip
    if rows.train.groups:
        kept |= {"g": rows.train.groups["group"], "g_test": rows.test.groups["group"]}
    assert kept["P"].shape[1] == len(X) == len(kept["fold"])
    return kept


def fill(folder: Path, cache: Path, splits: int, only: list[str]) -> None:
    """Fit the splits that the cache does not have."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the experiments, whose tables these are
    cache.mkdir(parents=True, exist_ok=True)
    tables = loaded(folder)
    for seed in range(splits):
        for title, data in tables.items():
            file = cache / f"{title.replace(' ', '_')}.{seed}.npz"
            if file.exists() or (only and title not in only):
                continue
            kept = fit_models(data, seed)
            part = file.with_suffix(".part")
            with part.open("wb") as out:
                np.savez_compressed(out, **kept, title=np.array(title))
            part.rename(file)
            shape, groups = kept["X"].shape, np.unique(kept.get("g", [])).tolist()
            print(title, seed, shape, len(kept["y_test"]), f"{kept['seconds']:.1f} s", *groups, flush=True)
