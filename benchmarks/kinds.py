"""Which kind of rule answers within limits by group: a threshold, an inferred group, or the choice of both.

    python benchmarks/kinds.py cache --data DIR --cache CACHE
    python benchmarks/kinds.py run --cache CACHE [--seeds N ...] [--only TABLE ...] [--sizes N ...]
                                   [--part P] [--default] [--out FILE]
    python benchmarks/kinds.py compare EARLIER FILE

A logistic regression or boosted trees, in turn, are fitted on up to 3,000 rows. The first 500, 2,000 and
8,000 rows of a batch select a rule (`tune`), or select and certify one (`calibrate`), within limits on the
misses, both errors, a gap of misses and a ratio of selection rates, by group. Tables without groups have one
limit, on the recall of the rarest class. The truth is that of up to 20,000 further rows. The regret of a
selected rule is its error plus its largest excess of a limit, above the better of the two kinds. The regret
of a certified rule is its error above the better kind. A refusal counts as the best constant answer within
the limits. ``--part`` is the part of the level for one threshold beside an inferred group.

PYTHONPATH chooses the edition of tailboost. ``--default`` makes the calls without ``infer_groups``, which
early editions do not have. ``compare`` pairs such a file with a whole one: means over cases, ± two standard
errors over tables.

Made populations: three features tell the group, and base rates differ ("pay"); the group depends on the label
alone ("label") or on the true score alone ("score"); one weak feature tells it ("weak"); a code tells three
groups, in one of which the features say less of the label ("three"). ``cache`` reads the real tables of DIR:
eight with groups here, and those of `quality.py` with and without groups. The model and the rule read all
columns but those of the label and the group.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

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

# Rows of the model, of the batch and of the truth; of a small table at most such shares for the first two.
FITTED, FRESH, SIZES = 3_000, 20_000, (500, 2_000, 8_000)
SHARE_OF_FITTED, SHARE_OF_BATCH = 0.3, 0.35
CHOSEN = "chosen"
KINDS: dict[str, dict[str, Any]] = {
    "one threshold": {"infer_groups": False},
    "inferred group": {"infer_groups": True},
    CHOSEN: {},
}
RECALL, RECALL_BOUND = "recall", 0.7
# Fewest rows of the rarest class in the batch of a table without groups.
FEWEST_OF_CLASS = 30
Table = tuple[pd.DataFrame, Any, Any]


# -- tables --------------------------------------------------------------------------------------------------


def made(kind: str, seed: int, n: int = 40_000) -> Table:
    """Draw a population."""
    rng = np.random.default_rng([seed, 1])
    u = rng.normal(size=(n, 4))
    score = u @ [1.2, -1.0, 0.8, 0.5]
    if kind == "three":
        code = rng.integers(0, 12, n)
        group = np.where(rng.random(n) < 0.95, code // 4, rng.integers(0, 3, n))
        slope, base = np.array([1.6, 1.0, 0.5]), np.array([0.0, 1.0, 1.8])
        y = rng.random(n) < expit(slope[group] * score - base[group])
        return pd.DataFrame(np.column_stack([u, code])).add_prefix("x"), y.astype(int), group
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

    def table(folder: Path) -> Table:
        rows = read(folder, file)
        y = np.asarray(label(rows)).astype(int)
        return coded(rows.drop(columns=drop)), y, np.asarray(group(rows)).astype(int)

    return table


MADE = ("pay", "weak", "label", "score", "three")
CREDIT, ADULT = "taiwan_credit.csv.gz", "adult.csv.gz"
INCOME, COVERAGE = "field/acs_income.validation.parquet", "field/acs_coverage.validation.parquet"
REAL: dict[str, Callable[[Path], Table]] = {
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


def fill(data: Path, cache: Path) -> None:
    """Store the columns, the label and the group of each real table; no group is -1 in all rows."""
    from _cached_splits import loaded

    sys.path.insert(0, str(Path(__file__).parents[1]))  # the experiments, whose tables `quality.py` has
    cache.mkdir(parents=True, exist_ok=True)
    tables = {title: table(data) for title, table in REAL.items()}
    for title, rows in loaded(data).items():
        group = next(iter(rows.groups.values()), np.full(len(rows.y), "-1"))
        numbers = np.unique(group, return_inverse=True)[1] if rows.groups else np.full(len(rows.y), -1)
        y = np.asarray(rows.y)
        if rows.groups and y.max() == 1 and y.mean() > 0.5:
            y = 1 - y  # the limits are on the rarer label
        tables[f"quality: {title}"] = coded(pd.DataFrame(rows.X)), y, numbers
    for title, (X, y, group) in tables.items():
        np.savez_compressed(cache / f"{title}.npz", X=X.to_numpy(dtype=np.float64), y=y, group=group)
        print(title, X.shape, np.bincount(y).tolist(), np.unique(group).tolist(), flush=True)


def titles(cache: Path) -> list[str]:
    """Return the names of all tables."""
    return [*MADE, *sorted(file.stem for file in cache.glob("*.npz"))]


def table_of(title: str, cache: Path, seed: int) -> Table:
    """Return a table, drawn or stored; missing numbers become the mean of their column."""
    if title in MADE:
        return made(title, seed)
    with np.load(cache / f"{title}.npz") as kept:
        X = pd.DataFrame(kept["X"]).add_prefix("x")
        return X.fillna(X.mean()).fillna(0.0), kept["y"], kept["group"]


# -- limits --------------------------------------------------------------------------------------------------

MISS, FALSE_ALARM = rates.miss(1, by="group"), rates.false_alarm(1, by="group")


def limits_for(p: Any, y: Any, g: Any) -> dict[str, list[Any]]:
    """Return the limits by name; those on both errors leave .05 above what one threshold reaches."""
    if (g < 0).all():
        return {RECALL: [rates.recall(int(np.argmin(np.bincount(y)))) >= RECALL_BOUND]}

    def largest(threshold: float) -> float:
        answers = p[:, 1] >= threshold
        return max(
            np.mean(answers[(g == group) & (y == label)] != label)
            for group in np.unique(g)
            for label in (0, 1)
        )

    both = round(min(map(largest, np.quantile(p[:, 1], np.linspace(0.02, 0.98, 97)))) + 0.05, 2)
    return {
        "misses": [MISS <= 0.3],
        "both errors": [both >= MISS, both >= FALSE_ALARM],
        "gap of misses": [rates.gap(MISS) <= 0.05],
        "ratio": [rates.ratio(rates.selected(1, by="group")) >= 0.8],
    }


def excess(limit: Any, y: Any, g: Any, answers: Any) -> float:
    """Return by how much answers break a limit; negative within it."""
    groups = {"group": g} if limit.rate.by else None
    values = np.array(
        list(rates.measure(limit.rate, y, answers, groups=groups, labels=np.unique(y)).values())
    )
    if limit.form == "gap":
        return float(np.ptp(values) - limit.bound)
    if limit.form == "ratio":
        if not values.any():  # nobody is selected: no group is treated otherwise
            return float(limit.bound - 1.0)
        return float(limit.bound - values.min() / values.max())
    return float(values.max() - limit.bound if limit.rate.by else limit.bound - values.min())


# -- runs ----------------------------------------------------------------------------------------------------


def outcome(make: Callable[[], Any], fresh: Table, limits: list[Any]) -> dict[str, Any]:
    """Return error and excess of a rule on the fresh rows, whether it has SQL, and its seconds."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rule = make()
    except (NotCertifiedError, InfeasibleLimitsError):
        return {"seconds": time.process_time() - begun}
    except ValueError as error:  # a class has no row among those that select
        return {"seconds": time.process_time() - begun, "refusal": str(error)[:80]}
    seconds = time.process_time() - begun
    X, y, g = fresh
    answers = rule.predict(X)
    return {
        "error": float(np.mean(answers != y)),
        "excess": max(excess(limit, y, g, answers) for limit in limits),
        "SQL": has_sql(rule),
        "seconds": seconds,
    }


def has_sql(rule: Any) -> bool:
    """Return whether a rule is a function of the scores alone."""
    try:
        rule.rule_.to_sql()
    except ValueError:
        return False
    return True


def parts_of(table: Table, seed: int, most: int) -> list[Table]:
    """Return the rows of the model, of the batch and of the truth, in a random order."""
    X, y, g = table
    order = np.random.default_rng([seed, 2]).permutation(len(y))
    fitted = min(FITTED, round(SHARE_OF_FITTED * len(y)))
    batch = fitted + min(most, round(SHARE_OF_BATCH * len(y)))
    parts = np.split(order, [fitted, batch, batch + FRESH])[:3]
    return [(X.iloc[rows].reset_index(drop=True), y[rows], g[rows]) for rows in parts]


def cases(arguments: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """Yield the outcomes of each kind for each table and seed, by number of rows and limit."""
    ways = {CHOSEN: KINDS[CHOSEN]} if arguments.default else KINDS
    for seed in arguments.seeds:
        for name in arguments.only or titles(arguments.cache):
            parts = parts_of(table_of(name, arguments.cache, seed), seed, max(arguments.sizes))
            if min(np.bincount(y).min() for _, y, _ in parts) >= FEWEST_OF_CLASS:
                yield of_table(name, seed, parts, arguments.sizes, ways)
                print(name, seed, flush=True)


def of_table(
    name: str, seed: int, parts: list[Table], sizes: list[int], ways: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the outcomes of one model of a table."""
    train, batch, fresh = parts
    model: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if (seed + crc32(name.encode())) % 2:
        model = HistGradientBoostingClassifier(max_iter=80, random_state=0)
    model.fit(*train[:2])
    found = []
    for title, limits in limits_for(model.predict_proba(fresh[0]), *fresh[1:]).items():
        for n in sorted({min(n, len(batch[1])) for n in sizes}):
            about: dict[str, Any] = {"limits": limits, "objective": "error"}
            if title != RECALL:
                about["groups"] = {"group": batch[2][:n]}
            for task, function in (("select", tb.tune), ("certify", tb.calibrate)):
                case = {"table": name, "seed": seed, "n": n, "limit": title, "task": task}
                case["constant"] = constant(limits, fresh[1], fresh[2])
                for way, chosen in ways.items():
                    make = partial(function, model, batch[0][:n], batch[1][:n], **about, **chosen)
                    case[way] = outcome(make, fresh, limits)
                found.append(case)
    return found


def constant(limits: list[Any], y: Any, g: Any) -> float:
    """Return the least error of one answer to all rows within the limits; .5 if there is none."""
    answers = [np.full(len(y), label) for label in np.unique(y)]
    kept = [a for a in answers if all(excess(limit, y, g, a) <= 0 for limit in limits)]
    return min((float(np.mean(a != y)) for a in kept), default=0.5)


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
                answered = [case[kind] for case in some if "error" in case[kind]]
                entry[kind] = {
                    "regret": float(np.mean(np.subtract(costs, [hindsight(case) for case in some]))),
                    "error": float(np.mean([each["error"] for each in answered])),
                    "excess": float(np.mean([max(each["excess"], 0.0) for each in answered])),
                    "broken": int(sum(each["excess"] > 0 for each in answered)),
                    "answered": len(answered) / max(len(some), 1),
                    "SQL": float(np.mean([each["SQL"] for each in answered])),
                    "seconds": float(np.mean([case[kind]["seconds"] for case in some])),
                }
            record[f"{task}, {title}"] = entry
    kept = [c for c in found if c["task"] == "select" and c["one threshold"].get("excess", 1.0) <= 0.0]
    record["chosen less threshold, where it keeps the limits"] = by_table(
        kept, lambda case: case[CHOSEN]["error"] - case["one threshold"]["error"]
    )
    return record


def hindsight(case: dict[str, Any]) -> float:
    """Return the cost of the better kind."""
    return min(cost(case, "one threshold"), cost(case, "inferred group"))


def by_table(some: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    """Return the mean of a value over cases, with two standard errors over tables, and by table."""
    values: dict[str, list[float]] = {}
    for case in some:
        values.setdefault(case["table"], []).append(value(case))
    means = {name: float(np.mean(each)) for name, each in values.items()}
    errors = {
        name: 2.0 * float(np.std(each, ddof=1)) / len(each) ** 0.5 if len(each) > 1 else None
        for name, each in values.items()
    }
    spread = 2.0 * float(np.std(list(means.values()), ddof=1)) / len(means) ** 0.5 if len(means) > 1 else None
    tables = {name: [means[name], errors[name], len(values[name])] for name in means}
    return {"mean of tables": float(np.mean(list(means.values()))), "two se": spread, "tables": tables}


def compare(earlier: list[dict[str, Any]], later: list[dict[str, Any]]) -> None:
    """Print the costs of an earlier edition, of this one and of each kind on the same cases."""
    key = ("table", "seed", "n", "limit", "task")
    before = {tuple(case[name] for name in key): case for case in earlier}
    pairs = [
        case | {"earlier": before[tuple(case[name] for name in key)][CHOSEN]}
        for case in later
        if tuple(case[name] for name in key) in before
    ]
    for task in ("select", "certify"):
        for title in ("all", *dict.fromkeys(case["limit"] for case in pairs)):
            some = [c for c in pairs if c["task"] == task and title in ("all", c["limit"])]
            shares = {
                kind: [
                    float(np.mean(["error" in c[kind] for c in some])),
                    float(np.mean([c[kind].get("SQL", False) for c in some])),
                    sum(c[kind].get("excess", 0.0) > 0.0 for c in some),
                    float(np.mean([c[kind]["seconds"] for c in some])),
                ]
                for kind in ("earlier", *KINDS)
            }
            regrets = {
                kind: by_table(some, lambda c, kind=kind: cost(c, kind) - hindsight(c))
                for kind in ("earlier", CHOSEN, "one threshold")
            }
            change = by_table(some, lambda c: cost(c, CHOSEN) - cost(c, "earlier"))
            print(f"{task}, {title}: {len(some)} cases of {len(change['tables'])} tables")
            for kind, (answered, sql, broken, seconds) in shares.items():
                mean = f"regret {regrets[kind]['mean of tables']:.4f}" if kind in regrets else ""
                print(
                    f"  {kind:15} answered {answered:.3f} SQL {sql:.3f} broken {broken} "
                    f"s {seconds:.3f} {mean}"
                )
            print(f"  chosen - earlier {change['mean of tables']:+.4f} ± {change['two se'] or np.nan:.4f}")
            kept = [c for c in some if c["one threshold"].get("excess", 1.0) <= 0.0 and "error" in c[CHOSEN]]
            if kept:
                beside = by_table(kept, lambda c: c[CHOSEN]["error"] - c["one threshold"]["error"])
                print(
                    f"  where a threshold keeps the limits ({len(kept)} cases), chosen - threshold "
                    f"{beside['mean of tables']:+.4f} ± {beside['two se'] or np.nan:.4f}"
                )
                for name, (mean, error, count) in beside["tables"].items():
                    if mean > 0.01:
                        print(f"    above +.01: {name} {mean:+.4f} ± {error or np.nan:.4f} ({count} cases)")


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
    """Store the tables, run and print the means, or compare two files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    tasks = parser.add_subparsers(dest="task", required=True)
    cache = tasks.add_parser("cache")
    cache.add_argument("--data", type=Path, required=True)
    run = tasks.add_parser("run")
    for each in (cache, run):
        each.add_argument("--cache", type=Path, required=True)
    run.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    run.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    run.add_argument("--only", nargs="*", default=[])
    run.add_argument("--part", type=float)
    run.add_argument("--default", action="store_true")
    run.add_argument("--out", type=Path)
    comparison = tasks.add_parser("compare")
    comparison.add_argument("earlier", type=Path)
    comparison.add_argument("later", type=Path)
    arguments = parser.parse_args()
    if arguments.task == "cache":
        fill(arguments.data, arguments.cache)
        return
    if arguments.task == "compare":
        compare(*(json.loads(file.read_text())["cases"] for file in (arguments.earlier, arguments.later)))
        return
    if arguments.part is not None:
        from tailboost.guarantees import procedure

        procedure.PART_OF_SIMPLER = arguments.part
    found: list[dict[str, Any]] = []
    for some in cases(arguments):
        found += some
        if arguments.out:
            arguments.out.write_text(json.dumps(record_of(found, arguments), indent=None) + "\n")
    for name, entry in record_of(found, arguments).items():
        if name != "cases":
            print(name, json.dumps(entry))


def record_of(found: list[dict[str, Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the summary and the cases so far."""
    record: dict[str, Any] = {"command": "python benchmarks/kinds.py run --cache CACHE --out kinds.json"}
    if not arguments.default:
        record |= rounded(summary(found))
    about = {"python": platform.python_version(), "seeds": arguments.seeds, "sizes": list(arguments.sizes)}
    return record | about | {"cases": rounded(found)}


if __name__ == "__main__":
    main()
