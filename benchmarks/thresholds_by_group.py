"""`tune` with thresholds by group beside the exact thresholds of an integer program.

    python benchmarks/thresholds_by_group.py [--seeds N ...] [--out FILE]

Scores of five groups of different size, frequency and separation are drawn from normal distributions; the
score is no calibrated probability of any group. Rules are selected on 300, 1,000 and 4,000 rows, and counted
on 40,000 further rows. Rules, on the same draws:

    tune         `tailboost.tune(..., by_group=...)`
    no polish    the same without the last step of its search: the best threshold of one group after the other
    exact        one threshold for each group of least error within the limits, by SciPy's `milp`

Exact thresholds are the best on the selecting rows alone: on further rows they need not be.

With ten labels, a logistic regression is fitted on 4,000 rows and rules are selected on 4,000 others, with
and without the last step. `tune` leaves it out for more than three answers: here it is forced.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from _record import opened, rounded, write
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.exceptions import InfeasibleLimitsError
from tailboost.selection import search

SIZES, FURTHER = (300, 1_000, 4_000), 40_000
SHARE = np.array([0.45, 0.25, 0.15, 0.1, 0.05])
FREQUENCY = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
SEPARATION = np.array([2.0, 1.6, 1.3, 1.8, 1.2])
SHIFT = np.array([0.0, 0.4, -0.3, 0.6, -0.5])
G = len(SHARE)
# Bounds on the misses and false alarms of each group or of all rows, and on the gap of misses.
STATED: dict[str, dict[str, float]] = {
    "misses by group": {"miss by": 0.2},
    "both errors by group": {"miss by": 0.3, "false alarm by": 0.35},
    "both errors": {"miss": 0.25, "false alarm": 0.2},
    "misses by group, false alarms": {"miss by": 0.25, "false alarm": 0.2},
    "gap and misses": {"gap": 0.05, "miss": 0.3},
}
WRITTEN = {
    "miss by": "miss(1, by=g) <= {}",
    "false alarm by": "false_alarm(1, by=g) <= {}",
    "miss": "miss(1) <= {}",
    "false alarm": "false_alarm(1) <= {}",
    "gap": "gap(miss(1, by=g)) <= {}",
}
Rows = tuple[Any, Any, Any]  # scores, labels, groups
LABELS, FITTED = (10,), 4_000
OF_LABELS = {
    "misses by class": ["error(by=class) <= 40%"],
    "misses by class, error by group": ["error(by=class) <= 40%", "error(by=g) <= 30%"],
}


def drawn(seed: int, n: int) -> Rows:
    """Return scores, labels and groups of n rows."""
    rng = np.random.default_rng(seed)
    group = rng.choice(G, n, p=SHARE)
    label = (rng.random(n) < FREQUENCY[group]).astype(int)
    number = rng.normal(size=n) + label * SEPARATION[group] + SHIFT[group]
    return 1 / (1 + np.exp(-1.4 * (number - 1.2))), label, group


def exact(rows: Rows, stated: dict[str, float]) -> Any:
    """Return the thresholds of least error within the limits, shape (G,); None if there are none."""
    scores, label, group = rows
    threshold, missed, alarmed, of = [], [], [], []
    for g in range(G):
        values = np.unique(scores[group == g])
        places = np.concatenate([[-1.0], (values[1:] + values[:-1]) / 2, [2.0]])
        ill = np.sort(scores[(group == g) & (label == 1)])
        well = np.sort(scores[(group == g) & (label == 0)])
        misses = np.searchsorted(ill, places)
        alarms = len(well) - np.searchsorted(well, places)
        kept = misses <= stated.get("miss by", 1.0) * len(ill) + 1e-9
        kept &= alarms <= stated.get("false alarm by", 1.0) * len(well) + 1e-9
        for whole, part in ((threshold, places), (missed, misses), (alarmed, alarms)):
            whole.append(part[kept])
        of.append(np.full(kept.sum(), g))
    thresholds, of_group = np.concatenate(threshold), np.concatenate(of)
    misses, alarms = np.concatenate(missed).astype(float), np.concatenate(alarmed).astype(float)
    n, n_ill = len(label), np.bincount(group[label == 1], minlength=G)
    # One threshold for each group; two more variables are the largest and the smallest share of misses.
    wide = np.zeros((G, len(misses) + 2))
    wide[of_group, np.arange(len(misses))] = 1
    rules = [LinearConstraint(wide, 1, 1)]

    def total(counts: Any, largest: float, smallest: float, bound: float) -> None:
        rules.append(LinearConstraint(np.append(counts, [largest, smallest]), -np.inf, bound + 1e-9))

    if "miss" in stated:
        total(misses, 0, 0, stated["miss"] * n_ill.sum())
    if "false alarm" in stated:
        total(alarms, 0, 0, stated["false alarm"] * (n - n_ill.sum()))
    if "gap" in stated:
        for g in range(G):
            share = np.where(of_group == g, misses / max(n_ill[g], 1), 0.0)
            total(share, -1, 0, 0.0)
            total(-share, 0, 1, 0.0)
        total(np.zeros(len(misses)), 1, -1, stated["gap"])
    cost = np.append((misses + alarms) / n, [0, 0])
    whole = np.append(np.ones(len(misses)), [0, 0])
    answer = milp(cost, constraints=rules, integrality=whole, bounds=Bounds(0, 1), options={"time_limit": 60})
    if answer.x is None:
        return None
    chosen = answer.x[:-2] > 0.5
    return thresholds[chosen][np.argsort(of_group[chosen])]


def measured(answers: Any, rows: Rows, stated: dict[str, float]) -> dict[str, float]:
    """Return the error, and the largest excess over a bound."""
    _, label, group = rows
    miss = np.array([(answers[(group == g) & (label == 1)] == 0).mean() for g in range(G)])
    alarm = np.array([(answers[(group == g) & (label == 0)] == 1).mean() for g in range(G)])
    reached = {
        "miss by": miss.max(), "false alarm by": alarm.max(), "gap": miss.max() - miss.min(),
        "miss": (answers[label == 1] == 0).mean(), "false alarm": (answers[label == 0] == 1).mean(),
    }  # fmt: skip
    return {
        "error": float((answers != label).mean()),
        "excess": float(max(reached[name] - bound for name, bound in stated.items())),
    }


def tuned(rows: Rows, stated: dict[str, float]) -> Any:
    """Return the rule of `tune`."""
    limits = [WRITTEN[name].format(bound) for name, bound in stated.items()]
    scores, label, group = rows
    table = pd.DataFrame({"p": scores})
    return tb.tune(
        tb.Scores("p", 1), table, label, groups=pd.DataFrame({"g": group}), limits=limits, by_group="g"
    )


def case(seed: int, size: int, stated: dict[str, float]) -> dict[str, Any]:
    """Return the errors of the rules of one draw, or a word for limits that no thresholds keep."""
    rows, further = drawn(seed, size), drawn(1_000 + seed, FURTHER)
    found: dict[str, Any] = {}
    for name in ("tune", "no polish"):
        began = time.process_time()
        try:
            if name == "tune":
                rule = tuned(rows, stated)
            else:
                with patch.object(search, "polish", lambda *_: None):
                    rule = tuned(rows, stated)
        except InfeasibleLimitsError:
            found[name] = "infeasible"
            continue
        seconds = time.process_time() - began
        found[name] = {"seconds": seconds}
        for title, part in (("selecting", rows), ("further", further)):
            answers = rule.predict(pd.DataFrame({"p": part[0]}), groups=pd.DataFrame({"g": part[2]}))
            found[name][title] = measured(answers, part, stated)
    thresholds = exact(rows, stated)
    if thresholds is None:
        found["exact"] = "infeasible"
        return found
    found["exact"] = {
        title: measured((part[0] >= thresholds[part[2]]).astype(int), part, stated)
        for title, part in (("selecting", rows), ("further", further))
    }
    return found


def labels_case(seed: int, n_labels: int, by_group: bool, limits: list[str]) -> dict[str, Any]:
    """Return error, excess and seconds of rules for several labels, with and without the last step."""
    n = 2 * FITTED + FURTHER // 2
    X, y = make_classification(
        n, 20, n_informative=12, n_classes=n_labels, n_clusters_per_class=1, class_sep=1.2, random_state=seed,
        weights=[0.3] + [0.7 / (n_labels - 1)] * (n_labels - 1),
    )  # fmt: skip
    group = np.random.default_rng(seed).choice(3, n)
    X[:, 0] += 0.5 * group
    X[:, 1] -= 0.5 * group
    model = LogisticRegression(max_iter=500).fit(X[:FITTED], y[:FITTED])
    selecting, further = slice(FITTED, 2 * FITTED), slice(2 * FITTED, n)
    groups = pd.DataFrame({"g": group})
    settings: dict[str, Any] = {"by_group": "g"} if by_group else {}
    read: dict[str, Any] = {"groups": groups[further]} if by_group else {}
    found: dict[str, Any] = {}
    for name in ("tune", "no polish"):
        most_answers = n_labels if name == "tune" else 1
        began = time.process_time()
        try:
            with patch.object(search, "MOST_ANSWERS", most_answers):
                rule = tb.tune(
                    model, X[selecting], y[selecting], groups=groups[selecting], limits=limits, **settings
                )
        except InfeasibleLimitsError:
            found[name] = "infeasible"
            continue
        seconds = time.process_time() - began
        wrong = rule.predict(X[further], **read) != y[further]
        excess = max(wrong[y[further] == k].mean() for k in range(n_labels)) - 0.4
        found[name] = {"error": float(wrong.mean()), "excess": float(excess), "seconds": seconds}
    return found


def labels_summary(cases: dict[str, Any]) -> dict[str, Any]:
    """Return mean numbers by limits, with two standard errors of the differences of errors."""
    table = {}
    for prefix in dict.fromkeys(title.rsplit(",", 1)[0] for title in cases):
        of_prefix = [found for title, found in cases.items() if title.startswith(f"{prefix}, seed")]
        kept = [found for found in of_prefix if "infeasible" not in found.values()]
        row: dict[str, Any] = {"draws": len(kept)}
        for name in ("tune", "no polish"):
            row[f"{name}, infeasible"] = sum(found[name] == "infeasible" for found in of_prefix)
            for number in ("error", "excess", "seconds"):
                row[f"{name}, {number}"] = float(np.mean([found[name][number] for found in kept]))
        for number in ("error", "excess"):
            change = np.array([found["tune"][number] - found["no polish"][number] for found in kept])
            spread = 2 * change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
            row[f"{number}, tune - no polish"] = [float(change.mean()), float(spread)]
        table[prefix] = row
    return table


def summary(cases: dict[str, Any]) -> dict[str, Any]:
    """Return mean errors and excesses by size and limits, with two standard errors of a difference."""
    table = {}
    for size in SIZES:
        for limits in STATED:
            kept = [
                found for title, found in cases.items()
                if title.startswith(f"{limits}, {size} rows") and "infeasible" not in found.values()
            ]  # fmt: skip
            if not kept:
                continue
            row: dict[str, Any] = {"draws": len(kept)}
            for name in ("tune", "no polish", "exact"):
                for rows in ("selecting", "further"):
                    for number in ("error", "excess"):
                        values = [found[name][rows][number] for found in kept]
                        row[f"{name}, {rows}, {number}"] = float(np.mean(values))
            change = np.array(
                [f["tune"]["further"]["error"] - f["no polish"]["further"]["error"] for f in kept]
            )
            spread = 2 * change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
            row["further, tune - no polish"] = [float(change.mean()), float(spread)]
            for name in ("tune", "no polish"):
                row[f"{name}, seconds"] = float(np.mean([found[name]["seconds"] for found in kept]))
            table[f"{limits}, {size} rows"] = row
    refused = {
        name: sum(found[name] == "infeasible" for found in cases.values() if found["exact"] != "infeasible")
        for name in ("tune", "no polish")
    }
    return {"rows": table, "said infeasible of those that exact thresholds keep": refused}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(12)))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    record = opened(args.out, "thresholds_by_group")
    record["command"] = "python benchmarks/thresholds_by_group.py --out thresholds_by_group.json"
    cases: dict[str, Any] = {}
    for size in SIZES:
        for limits, stated in STATED.items():
            for seed in args.seeds:
                cases[f"{limits}, {size} rows, seed {seed}"] = case(seed, size, stated)
            print(limits, size, flush=True)
    record |= rounded(summary(cases))
    with_labels: dict[str, Any] = {}
    for n_labels in LABELS:
        for by_group in (False, True):
            for name, limits in OF_LABELS.items():
                for seed in args.seeds[:8]:
                    reads = "by group" if by_group else "without groups"
                    title = f"{n_labels} labels, {name}, {reads}, seed {seed}"
                    with_labels[title] = labels_case(seed, n_labels, by_group, limits)
                    print(title, with_labels[title], flush=True)
    record["several labels"] = rounded(labels_summary(with_labels))
    print(json.dumps(record, indent=1))
    write(record, args.out)


if __name__ == "__main__":
    main()
