"""Limits with much room beside misses limited in each group, with thresholds by group.

    python benchmarks/room.py --data DIR [--seeds N ...] [--only TABLE ...] [--out FILE]

A model is fitted on 4,000 rows. `calibrate` certifies rules on its score, which read the group, with 2,500 or
8,000 rows in one batch. The second column of groups is a random half. Errors are those of 20,000 further
rows. Each call is made twice on the same draw, with and without a small part of the level for limits with
room (`tailboost.guarantees.one_sided.BesideRoom`):

    misses           the misses in each of the three largest groups alone
    halves           the misses, and those of each half with a bound that is .25 larger
    all              the misses, and those of all rows with the same bound, which the first limit implies
    alarms by group  the misses, and false alarms ≤ .9 in each group
    halves, tight    the misses, and those of each half with a bound that is .05 smaller
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
from tailboost.guarantees.one_sided import PlannedRoom

FITTED, FURTHER, SIZES = 4_000, 20_000, (2_500, 8_000)
BOUNDS = {"adult": 0.4, "bank": 0.4, "credit": 0.5}
WITHOUT = ", without"


def second_limits(bound: float) -> dict[str, list[str]]:
    """Return the limits beside the misses by group, by call."""
    return {
        "misses": [],
        "halves": [f"miss(1, by=half) <= {bound + 0.25:.2f}"],
        "all": [f"miss(1) <= {bound}"],
        "alarms by group": ["false_alarm(1, by=g) <= .9"],
        "halves, tight": [f"miss(1, by=half) <= {bound - 0.05:.2f}"],
    }


def error(rows: Any, further: Any, limits: list[str], seed: int) -> float | None:
    """Return the error of the certified rule on further rows; None if it is refused."""
    scores, y, group, half = rows
    try:
        rule = tb.calibrate(
            tb.Scores("p", 1), pd.DataFrame({"p": scores}), y, groups={"g": group, "half": half},
            limits=limits, by_group="g", random_state=seed,
        )  # fmt: skip
    except (NotCertifiedError, InfeasibleLimitsError):
        return None
    scores, y, group, half = further
    answers = rule.predict(pd.DataFrame({"p": scores}), groups={"g": group, "half": half})
    return float((answers != y).mean())


def cases(name: str, folder: Path, seeds: list[int]) -> dict[str, Any]:
    """Return the errors of the calls on one table."""
    X, y, group = TABLES[name][0](folder)
    y, group = np.asarray(y), np.asarray(group)
    largest = pd.Series(group).value_counts().index[:3]
    kept = np.flatnonzero(np.isin(group, largest))
    order = np.random.default_rng(5).permutation(kept)
    model = HistGradientBoostingClassifier(random_state=0).fit(X[order[:FITTED]], y[order[:FITTED]])
    others = order[FITTED:]
    columns = [
        model.predict_proba(X[others])[:, 1], y[others], group[others],
        np.random.default_rng(6).integers(2, size=len(others)),
    ]  # fmt: skip
    misses = f"miss(1, by=g) <= {BOUNDS[name]}"
    errors: dict[str, Any] = {}
    for size in SIZES:
        for seed in seeds:
            drawn = np.random.default_rng([seed, 7]).permutation(len(others))
            rows = [column[drawn[:size]] for column in columns]
            further = [column[drawn[size : size + FURTHER]] for column in columns]
            calls: dict[str, Any] = {}
            for call, limits in second_limits(BOUNDS[name]).items():
                calls[call] = error(rows, further, [misses, *limits], seed)
                if limits:
                    with patch.object(PlannedRoom, "beside_room", None):
                        calls[call + WITHOUT] = error(rows, further, [misses, *limits], seed)
            errors[f"{name}, {size} rows, seed {seed}"] = calls
            print(name, size, seed, json.dumps(rounded(calls)), flush=True)
    return errors


def summary(errors: dict[str, Any]) -> dict[str, Any]:
    """Return certified draws and mean paired differences of the error, with two standard errors."""
    table: dict[str, Any] = {}
    for title in dict.fromkeys(title.rsplit(",", 1)[0] for title in errors):
        draws = [calls for name, calls in errors.items() if name.startswith(f"{title},")]
        table[title] = {"draws": len(draws), **differences(draws)}
    table["all"] = {"draws": len(errors), **differences(list(errors.values()))}
    return table


def differences(draws: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of some draws by call: certified ones, and errors less those of other calls."""
    numbers: dict[str, Any] = {}
    for call in second_limits(0.5):
        numbers[call] = {"certified": sum(calls[call] is not None for calls in draws)}
        if call == "misses":
            continue
        without = call + WITHOUT
        numbers[call]["certified without"] = sum(calls[without] is not None for calls in draws)
        for name, first, second in (
            ("with - without", call, without),
            ("with - misses", call, "misses"),
            ("without - misses", without, "misses"),
        ):
            changes = np.array([
                calls[first] - calls[second] for calls in draws
                if calls[first] is not None and calls[second] is not None
            ])  # fmt: skip
            if len(changes) > 1:
                spread = 2 * changes.std(ddof=1) / np.sqrt(len(changes))
                numbers[call][name] = [float(changes.mean()), float(spread)]
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(6)))
    parser.add_argument("--only", nargs="*", default=list(BOUNDS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record = opened(args.out, "room")
    record["command"] = "python benchmarks/room.py --data DIR --out room.json"
    errors: dict[str, Any] = record.get("cases", {})
    for name in args.only:
        errors |= cases(name, args.data, args.seeds)
    record["cases"] = rounded(errors)
    record["rows"] = rounded(summary(errors))
    print(json.dumps(record["rows"]["all"], indent=1))
    write(record, args.out)


if __name__ == "__main__":
    main()
