"""Misses limited in each group and false alarms of all rows, with thresholds by group.

    python benchmarks/opposite.py --data DIR [--seeds N ...] [--out FILE]

A model is fitted on 4,000 rows. `calibrate` certifies rules on its score, which read the group, with 2,500 or
8,000 rows in one batch. Errors are those of 20,000 further rows. Calls, on the same draws:

    misses         the misses in each of the three largest groups alone
    both           the misses, and the false alarms of all rows: with room
    both, tight    the misses, and the false alarms with little room
    one threshold  the limits of "both" without the procedure for them: ranks of one threshold
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from _record import opened, rounded, write
from several import TABLES
from sklearn.ensemble import HistGradientBoostingClassifier

import tailboost as tb
from tailboost.exceptions import InfeasibleLimitsError, NotCertifiedError
from tailboost.guarantees.ranks_and_test import RanksAndTest

FITTED, FURTHER, SIZES = 4_000, 20_000, (2_500, 8_000)
# Bounds on misses, and on false alarms with room and with little room.
BOUNDS = {"adult": (0.4, 0.25, 0.15), "bank": (0.4, 0.25, 0.16), "credit": (0.5, 0.3, 0.23)}


def call(rows: Any, further: Any, limits: list[str], seed: int) -> dict[str, float] | str:
    """Return error, largest miss and false alarms of the certified rule on further rows, or "refused"."""
    try:
        rule = tb.calibrate(
            tb.Scores("p", 1), pd.DataFrame({"p": rows[0]}), rows[1], groups={"g": rows[2]}, limits=limits,
            by_group="g", random_state=seed,
        )  # fmt: skip
    except (NotCertifiedError, InfeasibleLimitsError):
        return "refused"
    scores, y, group = further
    answers = rule.predict(pd.DataFrame({"p": scores}), groups={"g": group})
    misses = [(answers[(group == g) & (y == 1)] == 0).mean() for g in np.unique(group)]
    return {
        "error": float((answers != y).mean()),
        "largest miss": float(max(misses)),
        "false alarms": float((answers[y == 0] == 1).mean()),
    }


def cases(name: str, folder: Path, seeds: list[int]) -> dict[str, Any]:
    """Return the calls of one table."""
    X, y, group = TABLES[name][0](folder)
    y, group = np.asarray(y), np.asarray(group)
    largest = pd.Series(group).value_counts().index[:3]
    kept = np.flatnonzero(np.isin(group, largest))
    order = np.random.default_rng(5).permutation(kept)
    model = HistGradientBoostingClassifier(random_state=0).fit(X[order[:FITTED]], y[order[:FITTED]])
    rest = order[FITTED:]
    scores = model.predict_proba(X[rest])[:, 1]
    missed, room, tight = BOUNDS[name]
    misses = f"miss(1, by=g) <= {missed}"
    found: dict[str, Any] = {}
    for size in SIZES:
        for seed in seeds:
            drawn = np.random.default_rng([seed, 7]).permutation(len(rest))
            parts = [
                (scores[i], y[rest[i]], group[rest[i]]) for i in (drawn[:size], drawn[size : size + FURTHER])
            ]
            both = [misses, f"false_alarm(1) <= {room}"]
            calls: dict[str, Any] = {
                "misses": call(*parts, [misses], seed),
                "both": call(*parts, both, seed),
                "both, tight": call(*parts, [misses, f"false_alarm(1) <= {tight}"], seed),
            }
            with patch.object(RanksAndTest, "applies", False):
                calls["one threshold"] = call(*parts, both, seed)
            found[f"{name}, {size} rows, seed {seed}"] = calls
            print(name, size, seed, json.dumps(rounded(calls)), flush=True)
    return found


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return certified draws, mean errors, and paired differences where both are certified."""
    table: dict[str, Any] = {}
    for name in BOUNDS:
        for size in SIZES:
            draws = [calls for title, calls in found.items() if title.startswith(f"{name}, {size} rows")]
            row: dict[str, Any] = {"draws": len(draws)}
            for call_name in ("misses", "both", "both, tight", "one threshold"):
                certified = [calls[call_name] for calls in draws if calls[call_name] != "refused"]
                row[call_name] = {
                    "certified": len(certified),
                    "error": float(np.mean([numbers["error"] for numbers in certified] or [np.nan])),
                }
            for other in ("misses", "one threshold"):
                changes = np.array([
                    calls["both"]["error"] - calls[other]["error"]
                    for calls in draws if "refused" not in (calls["both"], calls[other])
                ])  # fmt: skip
                spread = 2 * changes.std(ddof=1) / np.sqrt(len(changes)) if len(changes) > 1 else np.nan
                row[f"both - {other}"] = [float(changes.mean()) if len(changes) else np.nan, float(spread)]
            table[f"{name}, {size} rows"] = row
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(8)))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record = opened(args.out, "opposite")
    record["command"] = "python benchmarks/opposite.py --data DIR --out opposite.json"
    found: dict[str, Any] = {}
    for name in BOUNDS:
        found |= cases(name, args.data, args.seeds)
    record["cases"] = rounded(found)
    record["rows"] = rounded(summary(found))
    print(json.dumps(record["rows"], indent=1))
    write(record, args.out)


if __name__ == "__main__":
    main()
