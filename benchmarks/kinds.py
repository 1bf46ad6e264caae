"""Which kind of rule answers within limits by group: a threshold, an inferred group, or the choice of both.

    python benchmarks/kinds.py --data DIR [--seeds N ...] [--only TABLE ...] [--part P] [--out FILE]

A model is fitted on 3,000 rows. The first 500, 2,000 and 8,000 rows of a batch select a rule (`tune`), or
select and certify one (`calibrate`), within limits on the misses, both errors, a gap of misses and a ratio
of selection rates, by group. The truth is that of up to 20,000 further rows. The regret of a selected rule is
its error plus its largest excess of a limit, above the better of the two kinds. The regret of a certified
rule is its error above the better kind. A refusal counts as the best constant answer within the limits.
``--part`` is the part of the level for one threshold beside an inferred group (.9 in the library, .5 in the
record).

Made populations: three features tell the group, and base rates differ ("pay"); the group depends on the label
alone ("label") or on the true score alone ("score"); one weak feature tells it ("weak"). Real tables are read
from DIR; the model and the rule read all columns but those of the label and the group.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tailboost as tb
from tailboost import rates
from tailboost.exceptions import InfeasibleLimitsError, NotCertifiedError
from tailboost.guarantees import procedure
from tailboost.rows.judged import judged

FITTED, FRESH, SIZES = 3_000, 20_000, (500, 2_000, 8_000)
KINDS = {"one threshold": False, "inferred group": True, "chosen": "auto"}
# Limits that ranks serve, and the shares of the rows that select there, both with the choice of the kind.
BY_RANKS, SHARES = ("misses", "both errors"), (0.1, 0.3)
Table = tuple[pd.DataFrame, Any, Any]


# -- tables --------------------------------------------------------------------------------------------------


def made(kind: str, seed: int, n: int = 40_000) -> Table:
    """Draw a population."""
    rng = np.random.default_rng([seed, 1])
    u = rng.normal(size=(n, 4))
    score = u @ [1.2, -1.0, 0.8, 0.5]
    group = (rng.random(n) < 0.4).astype(int)
    tells = {"pay": 1.8, "weak": 0.6}.get(kind, 0.0)
    if kind in ("pay", "weak"):
        y = rng.random(n) < expit(score - (2.0 if kind == "pay" else 1.0) * group)
    else:
        y = rng.random(n) < expit(score - 0.7)
    if kind == "label":
        group = (rng.random(n) < np.where(y, 0.35, 0.6)).astype(int)
    if kind == "score":
        group = (rng.random(n) < expit(0.8 * score - 0.9)).astype(int)
    X = np.column_stack([u, tells * group[:, None] + rng.normal(size=(n, 3))])
    return pd.DataFrame(X).add_prefix("x"), y.astype(int), group


def coded(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of numbers; text becomes its number in the order of the values."""
    columns = {
        name: values if pd.api.types.is_numeric_dtype(values) else pd.factorize(values, sort=True)[0]
        for name, values in table.items()
    }
    return pd.DataFrame(columns).astype(float)


def read(folder: Path, name: str) -> pd.DataFrame:
    """Read a table of the folder; of a large one 60,000 rows."""
    path = folder / name
    table = pd.read_parquet(path) if name.endswith(".parquet") else pd.read_csv(path)
    return table.sample(min(len(table), 60_000), random_state=1)


def real(file: str, label: Callable[[Any], Any], group: Callable[[Any], Any], drop: list[str]) -> Any:
    """Return a function of the folder that returns a table, without some columns."""

    def table(folder: Path, seed: int) -> Table:
        rows = read(folder, file)
        y = np.asarray(label(rows)).astype(int)
        return coded(rows.drop(columns=drop)), y, np.asarray(group(rows)).astype(int)

    return table


CREDIT, ADULT = "taiwan_credit.csv.gz", "adult.csv.gz"
INCOME, COVERAGE = "field/acs_income.validation.parquet", "field/acs_coverage.validation.parquet"
TABLES: dict[str, Any] = {
    **{
        kind: (lambda folder, seed, kind=kind: made(kind, seed)) for kind in ("pay", "weak", "label", "score")
    },
    "credit, sex": real(CREDIT, lambda t: t.default, lambda t: t.SEX - 1, ["default", "SEX"]),
    "credit, age": real(CREDIT, lambda t: t.default, lambda t: np.digitize(t.AGE, [30, 45]), ["default"]),
    "adult, sex": real(
        ADULT, lambda t: t.income == ">50K", lambda t: t.sex == "Male", ["income", "split", "sex", "fnlwgt"]
    ),
    "adult, race": real(
        ADULT,
        lambda t: t.income == ">50K",
        lambda t: t.race == "White",
        ["income", "split", "race", "fnlwgt"],
    ),
    "income, sex": real(INCOME, lambda t: t.PINCP, lambda t: t.SEX - 1, ["PINCP", "SEX"]),
    "income, race": real(INCOME, lambda t: t.PINCP, lambda t: t.RAC1P == 0, ["PINCP", "RAC1P"]),
    "coverage, sex": real(COVERAGE, lambda t: t.PUBCOV, lambda t: t.SEX - 1, ["PUBCOV", "SEX"]),
    "coverage, race": real(COVERAGE, lambda t: t.PUBCOV, lambda t: t.RAC1P == 0, ["PUBCOV", "RAC1P"]),
}


# -- limits --------------------------------------------------------------------------------------------------

MISS, FALSE_ALARM = rates.miss(1, by="group"), rates.false_alarm(1, by="group")


def limits_for(p: Any, y: Any, g: Any) -> dict[str, list[Any]]:
    """Return the limits by name; those on both errors leave .05 above what one threshold reaches."""

    def largest(threshold: float) -> float:
        answers = p >= threshold
        return max(
            np.mean(answers[(g == group) & (y == label)] != label)
            for group in np.unique(g)
            for label in (0, 1)
        )

    both = round(min(map(largest, np.quantile(p, np.linspace(0.02, 0.98, 97)))) + 0.05, 2)
    return {
        "misses": [MISS <= 0.3],
        "both errors": [both >= MISS, both >= FALSE_ALARM],
        "gap of misses": [rates.gap(MISS) <= 0.05],
        "ratio": [rates.ratio(rates.selected(1, by="group")) >= 0.8],
    }


def excess(limit: Any, y: Any, g: Any, answers: Any) -> float:
    """Return by how much answers break a limit; negative within it."""
    values = np.array(
        list(rates.measure(limit.rate, y, answers, groups={"group": g}, labels=[0, 1]).values())
    )
    if limit.form == "gap":
        return float(np.ptp(values) - limit.bound)
    if limit.form == "ratio":
        if not values.any():  # nobody is selected: no group is treated otherwise
            return float(limit.bound - 1.0)
        return float(limit.bound - values.min() / values.max())
    return float(values.max() - limit.bound)


# -- runs ----------------------------------------------------------------------------------------------------


def outcome(make: Callable[[], Any], fresh: Table, limits: list[Any]) -> dict[str, Any]:
    """Return error and excess of a rule on the fresh rows, whether it is one threshold, and its seconds."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rule = make()
    except (NotCertifiedError, InfeasibleLimitsError):
        return {"seconds": time.process_time() - begun}
    seconds = time.process_time() - begun
    X, y, g = fresh
    answers = rule.predict(X)
    return {
        "error": float(np.mean(answers != y)),
        "excess": max(excess(limit, y, g, answers) for limit in limits),
        "threshold": not judged(rule).weighs_groups,
        "seconds": seconds,
    }


def cases(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the outcome of each kind for each table, seed, number of rows and limit."""
    found = []
    for name in arguments.only or TABLES:
        for seed in arguments.seeds:
            X, y, g = TABLES[name](arguments.data, seed)
            order = np.random.default_rng([seed, 2]).permutation(len(y))
            parts = np.split(order, [FITTED, FITTED + max(SIZES), FITTED + max(SIZES) + FRESH])[:3]
            train, batch, fresh = ((X.iloc[rows].reset_index(drop=True), y[rows], g[rows]) for rows in parts)
            model: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            if seed % 2:
                model = HistGradientBoostingClassifier(max_iter=80, random_state=0)
            model.fit(*train[:2])
            for title, limits in limits_for(model.predict_proba(fresh[0])[:, 1], *fresh[1:]).items():
                for n in SIZES:
                    rows = batch[0][:n], batch[1][:n]
                    about = {"groups": {"group": batch[2][:n]}, "limits": limits, "objective": "error"}
                    for task, function in (("select", tb.tune), ("certify", tb.calibrate)):
                        case = {"table": name, "seed": seed, "n": n, "limit": title, "task": task}
                        case["constant"] = constant(title, fresh[1])
                        ways = {kind: {"infer_groups": infer} for kind, infer in KINDS.items()}
                        if task == "certify" and title in BY_RANKS:
                            ways |= {f"{share:g} selects": {"selection_share": share} for share in SHARES}
                        for way, chosen in ways.items():
                            make = partial(function, model, *rows, **about, **chosen)
                            case[way] = outcome(make, fresh, limits)
                        found.append(case)
            print(name, seed, flush=True)
    return found


def constant(title: str, y: Any) -> float:
    """Return the least error of one answer to all rows within the limits; .5 if there is none."""
    positive = float(np.mean(y))
    if title == "misses":
        return 1.0 - positive
    return 0.5 if title == "both errors" else min(positive, 1.0 - positive)


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of each kind by task, over all cases and by limit."""
    record: dict[str, Any] = {}
    for task in ("select", "certify"):
        for title in ("all", *dict.fromkeys(case["limit"] for case in found)):
            some = [c for c in found if c["task"] == task and title in ("all", c["limit"])]
            if task == "select":
                some = [c for c in some if all("error" in c[kind] for kind in KINDS)]
            entry: dict[str, Any] = {"cases": len(some)}
            for kind in KINDS:
                costs = [cost(case, kind) for case in some]
                best = [min(cost(c, "one threshold"), cost(c, "inferred group")) for c in some]
                answered = [case[kind] for case in some if "error" in case[kind]]
                entry[kind] = {
                    "regret": float(np.mean(np.subtract(costs, best))),
                    "error": float(np.mean([each["error"] for each in answered])),
                    "excess": float(np.mean([max(each["excess"], 0.0) for each in answered])),
                    "broken": int(sum(each["excess"] > 0 for each in answered)),
                    "answered": len(answered) / max(len(some), 1),
                    "one threshold": float(np.mean([each["threshold"] for each in answered])),
                    "seconds": float(np.mean([case[kind]["seconds"] for case in some])),
                }
            record[f"{task}, {title}"] = entry
    for n in SIZES:
        some = [c for c in found if c["task"] == "certify" and c["limit"] in BY_RANKS and c["n"] == n]
        best = [min(cost(c, "one threshold"), cost(c, "inferred group")) for c in some]
        regrets = {
            f"{share:g} selects": float(
                np.mean([cost(c, f"{share:g} selects") for c in some]) - np.mean(best)
            )
            for share in SHARES
        }
        record[f"certify by ranks, {n} rows"] = {"cases": len(some), **regrets}
    kept = [c for c in found if c["task"] == "select" and c["one threshold"].get("excess", 1.0) <= 0.0]
    for name in ("all", *dict.fromkeys(case["table"] for case in kept)):
        lost = [
            c["chosen"]["error"] - c["one threshold"]["error"] for c in kept if name in ("all", c["table"])
        ]
        record.setdefault("chosen less threshold, where it keeps the limits", {})[name] = float(np.mean(lost))
    return record


def cost(case: dict[str, Any], kind: str) -> float:
    """Return the error of a kind; plus its excess for a selection, and of a constant for a refusal."""
    one = case[kind]
    if "error" not in one:
        return float(case["constant"])
    return float(one["error"] + (max(one["excess"], 0.0) if case["task"] == "select" else 0.0))


def rounded(value: Any) -> Any:
    """Return a record with four digits after the point."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def main() -> None:
    """Run, print the means, and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--part", type=float, default=procedure.PART_OF_SIMPLER)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    procedure.PART_OF_SIMPLER = arguments.part
    found = cases(arguments)
    record = rounded({"command": "python benchmarks/kinds.py --data DIR --out kinds.json", **summary(found)})
    record |= {"python": platform.python_version(), "seeds": arguments.seeds, "cases": rounded(found)}
    for name, entry in record.items():
        if name.startswith(("select", "certify", "chosen")):
            print(name, json.dumps(entry))
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=None) + "\n")


if __name__ == "__main__":
    main()
