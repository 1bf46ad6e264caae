"""Several limits at once: the path of `calibrate` by the probability that all tests pass, or by the smallest.

    python benchmarks/several.py --data DIR [--seeds N ...] [--only TABLE ...] [--out FILE]

A model is fitted on 4,000 rows. `calibrate` places one pair of thresholds on its score, for all groups,
with 2,500 and 8,000 rows in one batch, within limits on the misses in each group and on deferral. Some of the
groups are small. The error and the rates are those of 10,000 further rows. Paths, on the same draws:

    all tests      each rule has the least loss among those with the same probability to pass all tests
    smallest       the same by the smallest probability of a single test: all limits share the risk evenly

"Hindsight" is the pair of thresholds of least error, of 200 each, whose rates keep the limits on the 10,000
rows themselves; nothing certifies it. A refusal counts as the answer 1 to all rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from _record import opened, rounded, write
from sklearn.ensemble import HistGradientBoostingClassifier

import tailboost as tb
from tailboost.exceptions import NotCertifiedError
from tailboost.guarantees.joint_power import JointPowerPath

FITTED, FRESH, SIZES = 4_000, 10_000, (2_500, 8_000)
DEFERRED = -1
Table = tuple[Any, Any, Any]


def bank(folder: Path) -> Table:
    """Return features, label and group of the bank's clients."""
    data = pd.read_csv(folder / "bank_full.csv.gz", na_values="?")
    X = pd.get_dummies(data.drop(columns=["y", "contact"]))
    return X.to_numpy(np.float32), (data["y"] == "yes").to_numpy(int), data["contact"].astype(str)


def adult(folder: Path) -> Table:
    """Return features, label and group of the census."""
    data = pd.read_csv(folder / "adult.csv.gz", na_values="?")
    X = pd.get_dummies(data.drop(columns=["income", "split", "race", "sex"]))
    high = data["income"].astype(str).str.contains(">")
    return X.to_numpy(np.float32), high.to_numpy(int), data["race"].astype(str)


def credit(folder: Path) -> Table:
    """Return features, label and group of the bundled credit default clients."""
    data = tb.datasets.load_credit_default()
    X = data.data.drop(columns=["AGE", "SEX"])
    return X.to_numpy(np.float32), np.asarray(data.target, int), data.groups["age_band"].astype(str)


TABLES: dict[str, tuple[Callable[[Path], Table], list[dict[str, float]]]] = {
    "bank": (bank, [{"miss": 0.2, "deferred": 0.2}, {"miss": 0.3, "deferred": 0.1}]),
    "credit": (credit, [{"miss": 0.3, "deferred": 0.2}, {"miss": 0.2, "deferred": 0.4}]),
    "adult": (adult, [{"miss": 0.15, "deferred": 0.1}, {"miss": 0.25, "deferred": 0.2}]),
}


def smallest(path: JointPowerPath, bands: Any) -> Any:
    """Return the smallest probit of all limits for each rule, shape (K,)."""
    each = [path.probits(family, bands) for family in path.families]
    return np.hstack(each).min(axis=1)


def measured(answers: Any, y: Any, groups: Any) -> dict[str, Any]:
    """Return the error, the share deferred, and the largest share of misses in a group."""
    missed = [((answers == 0) & (y == 1) & (groups == g)).sum() / max(((groups == g) & (y == 1)).sum(), 1)
              for g in np.unique(groups)]  # fmt: skip
    wrong = (answers != y) & (answers != DEFERRED)
    return {
        "error": float(wrong.mean()),
        "deferred": float((answers == DEFERRED).mean()),
        "largest miss": float(max(missed)),
    }


def answered(scores: Any, low: float, high: float) -> Any:
    """Return the answers of two thresholds."""
    return np.where(scores < low, 0, np.where(scores < high, DEFERRED, 1))


def hindsight(scores: Any, y: Any, groups: Any, most: dict[str, float]) -> float:
    """Return the least error within the limits on the rows themselves."""
    cuts = np.quantile(scores, np.linspace(0, 1, 201))
    kept = [
        cut for cut in cuts if measured(answered(scores, cut, cut), y, groups)["largest miss"] <= most["miss"]
    ]
    least = 1.0
    for high in cuts:
        found = measured(answered(scores, min(max(kept), high), high), y, groups)
        if found["deferred"] <= most["deferred"]:
            least = min(least, found["error"])
        for low in kept:
            if low < high and ((scores >= low) & (scores < high)).mean() <= most["deferred"]:
                least = min(least, measured(answered(scores, low, high), y, groups)["error"])
                break
    return least


def case(table: Table, most: dict[str, float], seed: int, size: int) -> dict[str, Any]:
    """Return what the paths certify on one split."""
    X, y, groups = table[0], table[1], np.asarray(table[2])
    order = np.random.default_rng(seed).permutation(len(y))
    train, batch, fresh = order[:FITTED], order[FITTED : FITTED + size], order[-FRESH:]
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X[train], y[train])
    scores = model.predict_proba(X)[:, 1]
    limits = [f"miss(1, by=group) <= {most['miss']}", f"deferred <= {most['deferred']}"]
    found: dict[str, Any] = {"hindsight": hindsight(scores[fresh], y[fresh], groups[fresh], most)}
    for name in ("all tests", "smallest"):
        began = time.process_time()
        with patch.object(
            JointPowerPath, "joint_probits", smallest if name == "smallest" else JointPowerPath.joint_probits
        ):
            try:
                rule = tb.calibrate(
                    tb.Scores("p", 1), pd.DataFrame({"p": scores[batch]}), y[batch],
                    groups={"group": groups[batch]}, limits=limits, random_state=seed,
                )  # fmt: skip
                answers = rule.predict(pd.DataFrame({"p": scores[fresh]}), deferred=DEFERRED)
            except NotCertifiedError:
                answers = np.ones(FRESH, dtype=int)
        found[name] = measured(answers, y[fresh], groups[fresh])
        found[name]["seconds"] = time.process_time() - began
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(5)))
    parser.add_argument("--only", nargs="*", default=list(TABLES))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record = opened(args.out, "several")
    record["command"] = "python benchmarks/several.py --data DIR --out several.json"
    cases = record.setdefault("cases", {})
    for name in args.only:
        load, several = TABLES[name]
        table = load(args.data)
        for most in several:
            for size in SIZES:
                for seed in args.seeds:
                    stated = f"misses {most['miss']}, deferred {most['deferred']}"
                    title = f"{name}, {stated}, {size} rows, seed {seed}"
                    cases[title] = rounded(case(table, most, seed, size))
                    print(title, json.dumps(cases[title]), flush=True)
                    write(record, args.out)
    record["error"] = rounded(summary(list(cases.values())))
    print(json.dumps(record["error"], indent=1))
    write(record, args.out)


def summary(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean errors, and the difference of the paths with two standard errors."""
    of = {name: np.array([found[name]["error"] for found in cases]) for name in ("all tests", "smallest")}
    difference = of["all tests"] - of["smallest"]
    spread = 2 * difference.std(ddof=1) / np.sqrt(len(difference)) if len(cases) > 1 else np.nan
    return {
        "cases": len(cases),
        "hindsight": float(np.mean([found["hindsight"] for found in cases])),
        **{name: float(errors.mean()) for name, errors in of.items()},
        "difference": [float(difference.mean()), float(spread)],
        "lower, higher": [int((difference < 0).sum()), int((difference > 0).sum())],
    }


if __name__ == "__main__":
    main()
