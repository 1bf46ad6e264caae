"""Whether the printed interval of a gap or ratio holds what new rows show, where groups are small and many.

    python benchmarks/gaps.py --data DIR [--out FILE] [--seeds 10]

A score is fitted on 5,000 rows, `tailboost.tune` chooses one rule on 1,000 or 4,000 others within a limit
that compares groups, and all other rows, at least five times as many, say what the rule's gap or ratio is.
Run it with PYTHONPATH at another edition's ``src`` to compare.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))  # the experiments' loaders of tables
import tailboost as tb
from experiments.field._tables import TABLES
from tailboost import rates
from tailboost.learners import HistBoostClassifier
from tailboost.mixture import InfeasibleLimitsError

FIT_ROWS, SIZES = 5_000, (1_000, 4_000)


def table_of(name: str, folder: Path) -> tuple[Any, Any, Any]:
    """Return features, two classes and groups as text."""
    table = TABLES[name](folder)
    if name == "diabetes":  # each person's first encounter; readmitted or not
        table = table.rows(np.sort(np.unique(table.of, return_index=True)[1]))
        return table.X, np.minimum(table.y, 1), table.X["race"].astype(str).to_numpy()
    if name == "hmda":
        who = ("black", "asian", "white", "amind", "hipac")
        every = np.array([table.groups[w] for w in who])
        return table.X, table.y, np.where(every.any(axis=0), np.array(who)[every.argmax(axis=0)], "other")
    if name == "credit":
        return (
            table.X,
            table.y,
            pd.cut(table.X["AGE"], [0, 25, 30, 35, 40, 50, 60, 99]).astype(str).to_numpy(),
        )
    return table.X, table.y, table.groups["race"].astype(str)


def fresh(limit: Any, answers: Any, y: Any, groups: Any) -> float:
    """Return the gap or ratio that a limit is about, on rows of their own."""
    kind, shares = str(limit), []
    for g in np.unique(groups):
        rows = groups == g
        if "miss" in kind:
            rows = rows & (y == 1)
        shares.append(float(np.mean(answers[rows] == (0 if "miss" in kind else 1))))
    return min(shares) / max(max(shares), 1e-300) if limit.form == "ratio" else max(shares) - min(shares)


def runs(name: str, folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield what was printed of each limit, and what new rows say."""
    X, y, groups = table_of(name, folder)
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        part = [order[:FIT_ROWS], order[FIT_ROWS:]]
        model = HistBoostClassifier(n_estimators=60, max_depth=4).fit(X.iloc[part[0]], y[part[0]])
        for size in SIZES:
            own, new = part[1][:size], part[1][size:]
            if len(np.unique(groups[own])) < len(np.unique(groups)) or len(new) < 5 * size:
                continue
            limits = (
                rates.ratio(rates.selected(1, by="group")) >= 0.8,
                rates.gap(rates.selected(1, by="group")) <= 0.05,
                rates.gap(rates.miss(1, by="group")) <= 0.1,
            )
            for told in (True, False):
                mix = None
                for limit in limits:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            if mix is None:
                                mix = tb.tune(
                                    model, X.iloc[own], y[own], groups={"group": groups[own]}, limits=[limit],
                                    by_group=told, random_state=seed,
                                )  # fmt: skip
                            found = mix.reweight(limits=[limit])
                        except InfeasibleLimitsError:
                            continue
                    line = next(line for line in found.rates_ if line.unit in ("gap", "ratio"))
                    given = {"groups": {"group": groups[new]}} if told else {}
                    seen = fresh(limit, found.predict(X.iloc[new], **given), y[new], groups[new])
                    yield {
                        "table": name, "rows": size, "limit": str(limit), "told": told, "seed": seed,
                        "value": line.value, "low": line.low, "high": line.high,
                        "fresh": seen,
                    }  # fmt: skip


def read(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return coverage, mean width and mean shortfall by table, and by limit."""
    frame = pd.DataFrame(found)
    worse = np.where(frame["limit"].str.contains("≥"), -1.0, 1.0)
    frame["held"] = (frame["low"] <= frame["fresh"]) & (frame["fresh"] <= frame["high"])
    frame["width"] = frame["high"] - frame["low"]
    frame["beyond the value"] = worse * (frame["fresh"] - frame["value"])
    frame["beyond the interval"] = np.where(
        worse > 0, frame["fresh"] > frame["high"], frame["fresh"] < frame["low"]
    )
    columns = ["held", "width", "beyond the value", "beyond the interval"]
    kept: dict[str, Any] = {}
    for by in ("table", "rows", "limit", "told"):
        for key, of in frame.groupby(by):
            kept[f"{by}: {key}"] = {"runs": len(of)} | {c: round(float(of[c].mean()), 4) for c in columns}
    return kept | {"all": {"runs": len(frame)} | {c: round(float(frame[c].mean()), 4) for c in columns}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    names = options.only or ["adult", "hmda", "diabetes", "credit", "law school"]
    found = [run for name in names for run in runs(name, options.data, options.seeds)]
    said = json.dumps(read(found), indent=1, ensure_ascii=False)
    print(said)
    if options.out:
        options.out.write_text(said + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
