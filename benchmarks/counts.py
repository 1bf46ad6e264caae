"""Selection on labels, on labels blended with probabilities, and with rows without labels.

    python benchmarks/counts.py --folder DATA [--only TABLE ...] [--splits N] [--sizes N ...]

Tables, splits, scores and limits are those of `experiments/broken_limits.py`. For each split the same
labelled rows select a rule within each limit: by their labels, by a blend with n₀ (`BLEND_ROWS`), and by a
blend with up to 8,000 further rows without labels ("+ U"). The rule answers fresh rows.

The record has for each limit and number of labelled rows the differences from the selection on labels,
paired by table and split. They are those of the share of limits kept, of the excess of the limited rate
over its bound, and of the overall error. n₀ is chosen on the tables `CHOOSING` and shown on the others.
Distorted scores replace the score in all rows.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tailboost as tb
from experiments._limit_methods import LIMITS, Asked, GivenScores, Scored, pair
from experiments.broken_limits import CASES, _some, score
from tailboost.selection import data as selection_data
from tailboost.selection.data import SelectionData, by_probabilities
from tailboost.selection.kinds import Kinds
from tailboost.selection.selection import Selection

Floats = NDArray[np.float64]
ASKED = (
    "approval gap ≤ .02",
    "approval ratio ≥ .8",
    "odds gap ≤ .05",
    "miss by group ≤ .25",
    "precision ≥ .95",
    "worst class ≤ .35",
)
SIZES, UNLABELED = (500, 2_000, 5_000), 8_000
#: n₀; infinite: probabilities alone.
BLENDS = (0.0, 100.0, 300.0, 1_000.0, 3_000.0, np.inf)
CHOOSING = ("acs income", "adult", "diabetes", "credit")
SCORES = {
    "as it is": lambda p, g: p,
    "p^4": lambda p, g: p**4,
    "constant": lambda p, g: np.full(len(p), 0.3),
    # Its log-odds have another scale and level, and the opposite order in the first group.
    "of another population": lambda p, g: (
        1.0 / (1.0 + np.exp(2.0 - 3.0 * np.where(g == 0, -1, 1) * _logit(p)))
    ),
}


def _logit(p: Floats) -> Floats:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return np.log(p / (1 - p))


def _answers(classifier: Any, data: Scored) -> Floats:
    return np.asarray(classifier.predict(pair(data.fresh_p), groups={"group": data.fresh_g}), float)


def blended(classifier: Any, blend: float) -> Any:
    """Return a classifier selected on the same labelled rows by a blend with n₀."""
    new, engine = copy.copy(classifier), classifier.selection_.engine
    labelled = engine.labelled
    measured = SelectionData(labelled.strata, labelled.stratum, labelled.weights, labelled.probabilities)
    selection_data.BLEND_ROWS = blend
    data = by_probabilities(labelled, labelled.stratum, labelled.weights, labelled.probabilities)
    counted = replace(engine, data=data, pools={}, labelled_alone=labelled, with_unlabeled=measured)
    new.selection_ = Selection.from_kinds(
        Kinds((counted,), infer_groups=False), classifier.selection_.problem
    )
    return new


def selected(data: Scored, asked: Asked, blends: tuple[float, ...], more: Scored | None) -> dict[str, Any]:
    """Return the classifier of each way to count."""

    def tune(blend: float, **unlabeled: Any) -> Any:
        selection_data.BLEND_ROWS = blend
        return tb.tune(
            GivenScores(), pair(data.p), data.y, groups={"group": data.g}, limits=asked.limits(asked.level),
            objective="error", by_group=True, random_state=0, **unlabeled,
        )  # fmt: skip

    found = {"labels": tune(0.0)}
    for blend in blends:
        if blend:
            found[f"n0 = {blend:g}"] = blended(found["labels"], blend)
        if more is not None:
            found[f"n0 = {blend:g} + U"] = tune(
                blend, X_unlabeled=pair(more.p), groups_unlabeled={"group": more.g}
            )
    return found


def runs(
    settings: Any, table: str, seed: int, sizes: Any, blends: Any, distorted: str
) -> list[dict[str, Any]]:
    """Return what each way to count reaches on fresh rows."""
    full, found = score(settings, table, seed), list[dict[str, Any]]()
    change = SCORES[distorted]
    full = replace(full, p=change(full.p, full.g), fresh_p=change(full.fresh_p, full.fresh_g))
    for n in sizes:
        if n > len(full.p):
            continue
        data = _some(full, n)
        rest = np.arange(n, min(len(full.p), n + UNLABELED))
        rest = rest[np.isin(full.g[rest], np.unique(data.g))]
        more = replace(data, p=full.p[rest], g=full.g[rest]) if len(rest) >= n / 2 else None
        for limit in ASKED:
            asked = LIMITS[limit]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    classifiers = selected(data, asked, blends, more)
            except tb.InfeasibleLimitsError:
                continue
            for way, classifier in classifiers.items():
                q = _answers(classifier, data)
                found.append({
                    "table": table, "seed": seed, "n": n, "limit": limit, "way": way, "score": distorted,
                    "beyond": float(asked.beyond(q, data.fresh_y, data.fresh_g)),
                    "error": float(asked.objective(q, data.fresh_y)),
                })  # fmt: skip
    return found


def differences(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean differences from labels by score, tables, limit, rows and way, ± 95 %."""
    cells: dict[str, Any] = {}
    labels = {_place(run): run for run in found if run["way"] == "labels"}
    for half in ("choosing", "showing", "all"):
        for key in dict.fromkeys((run["score"], run["n"], run["limit"], run["way"]) for run in found):
            pairs = [
                (run, labels[_place(run)])
                for run in found
                if (run["score"], run["n"], run["limit"], run["way"]) == key
                and (half == "all" or (run["table"] in CHOOSING) == (half == "choosing"))
            ]
            if len(pairs) < 3:
                continue
            cell: dict[str, Any] = {
                "pairs": len(pairs),
                "kept": round(float(np.mean([run["beyond"] <= 0 for run, _ in pairs])), 3),
                "mean excess": round(float(np.mean([run["beyond"] for run, _ in pairs])), 4),
                "error": round(float(np.mean([run["error"] for run, _ in pairs])), 4),
            }
            for name, of in {
                "kept more": lambda run: float(run["beyond"] <= 0),
                "excess more": lambda run: run["beyond"],
                "error more": lambda run: run["error"],
            }.items():
                each = np.array([of(run) - of(base) for run, base in pairs])
                cell[name] = [
                    round(float(each.mean()), 4),
                    round(1.96 * float(each.std(ddof=1)) / len(each) ** 0.5, 4),
                ]
            cells[" | ".join([half, key[0], str(key[1]), *key[2:]])] = cell
    return cells


def _place(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run[name] for name in ("table", "seed", "n", "limit", "score"))


def main() -> None:
    """Run, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scores", type=Path, default=Path("scratch"), help="folder for the fitted scores")
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--blends", type=float, nargs="*", default=list(BLENDS))
    parser.add_argument("--distorted", nargs="*", default=["as it is"], choices=list(SCORES))
    parser.add_argument("--runs", type=Path, help="file of single runs, to which others are added")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    settings = SimpleNamespace(out=args.scores, folder=args.folder)
    found = []
    if args.runs and args.runs.exists():
        found = [json.loads(line) for line in args.runs.read_text().splitlines()]
    done = {(run["table"], run["seed"], run["score"]) for run in found}
    for seed in range(args.splits):
        for table in args.only:
            for distorted in args.distorted:
                if (table, seed, distorted) in done:
                    continue
                new = runs(settings, table, seed, args.sizes, tuple(args.blends), distorted)
                found += new
                if args.runs:
                    with args.runs.open("a") as lines:
                        lines.writelines(json.dumps(run) + "\n" for run in new)
                print(table, seed, distorted, len(new), flush=True)
    record = {
        "python": platform.python_version(),
        "tailboost": tb.__version__,
        "choosing": list(CHOOSING),
        "splits": {table: len({run["seed"] for run in found if run["table"] == table}) for table in CASES},
        "unlabelled rows, at most": UNLABELED,
        "cells": differences(found),
    }
    args.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
