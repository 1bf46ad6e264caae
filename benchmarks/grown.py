"""Worst cells of groups that are not told: members that a game makes, and those that are grown beside them.

    python benchmarks/grown.py --data DIR [--out FILE] [--table hmda] [--rows 110000] [--seed 0]

A score is fitted on 20,000 rows (8,000 where fewer choose), `tailboost.tune` chooses on others, and what is
left, at most 100,000 rows, says the mean error above the score's own and the worst (class, group) cell, at
six budgets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import gaps

import tailboost as tb
from tailboost import rates
from tailboost.learners import HistBoostClassifier
from tailboost.mixture import _rated

BUDGETS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)
# Cells with fewer new rows are left out.
LEAST = 30


def measured(name: str, folder: Path, rows: int, seed: int) -> dict[str, Any]:
    """Return the points of both ways on new rows."""
    X, y, groups = gaps.table_of(name, folder)
    X = X.drop(columns=[column for column in ("race", "RACE", "RAC1P") if column in X])
    order = np.random.default_rng(seed).permutation(len(y))
    n_fit = min(20_000 if rows > 50_000 else 8_000, len(y) // 5)
    fit, own, new = order[:n_fit], order[n_fit : n_fit + rows], order[n_fit + rows :][:100_000]
    model = HistBoostClassifier(n_estimators=80, max_depth=5).fit(X.iloc[fit], y[fit])
    plain = float(np.mean(model.predict(X.iloc[new]) != y[new]))
    mix = tb.tune(
        model,
        X.iloc[own],
        y[own],
        groups={"group": groups[own]},
        limits=[rates.error(by="cell") <= 1.0],
        random_state=seed,
    )
    found: dict[str, Any] = {"rows": [len(own), len(new)]}
    for words, least in (("played", 10**9), ("and grown", 0)):
        _rated.GROWN_ROWS = least
        began = time.process_time()
        chosen = mix.reweight(objective="worst_cell", limits=[], mean_budget=0.0)
        seconds = time.process_time() - began
        points = {}
        for budget in BUDGETS:
            wrong = chosen.reweight(mean_budget=budget).predict(X.iloc[new]) != y[new]
            inside = [(y[new] == k) & (groups[new] == g) for k in (0, 1) for g in np.unique(groups)]
            worst = max(float(wrong[of].mean()) for of in inside if of.sum() >= LEAST)
            points[f"{budget:g}"] = [round(float(wrong.mean()) - plain, 4), round(worst, 4)]
        found[words] = points | {"seconds": round(seconds, 2)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", default="hmda")
    parser.add_argument("--rows", type=int, default=110_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measured(options.table, options.data, options.rows, options.seed)
    kept: dict[str, Any] = {}
    if options.out and options.out.exists():
        kept = json.loads(options.out.read_text(encoding="utf-8"))
    kept[f"{options.table}, {options.rows}, {options.seed}"] = found
    said = json.dumps(kept, indent=1)
    print(said)
    if options.out:
        options.out.write_text(said + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
