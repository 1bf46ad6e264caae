"""Selection engines on the same cached probabilities: errors, intervals and limits, paired over splits and tables.

    python benchmarks/selection.py cache --cache CACHE --data DIR [--splits 3] [--only TITLE ...]
    python benchmarks/selection.py run --cache CACHE --engine NAME [--rows N] [--problems TEXT ...] [--only ...]
    python benchmarks/selection.py report --cache CACHE --engine NAME OTHER ... [--out FILE]

``cache`` fits the default models once; DIR holds the tables of `experiments/_tables.py`, and ``field/``. ``run`` selects
with one engine for every cached split; what is computed already stays (``--again`` computes anew). Engines of the product
use the `tailboost` that is imported: put another edition's ``src`` first on PYTHONPATH to measure that edition.

    argmax            the likeliest class of the average of the models' log-probabilities
    simple            `_simple_engine.py`: one learned average, Hedge at five prices, plain counts
    named, one        `RobustMixtureClassifier` as it comes; "named" before and "one" after the engines were merged
    program           the same with a limit that every rule satisfies, ``rates.error() <= 1``
    one confident     the same with ``confidence=0.9``

``report`` compares others with the first NAME: on the splits that all have, means over splits, then over tables, ± half
a 95 % t interval over tables. The cost of an engine is the mean over w = 0, .1, …, 1 of ``(1 − w) overall + w worst`` on
test rows, of the budget with the least on the selection data. ``--rows 300`` selects on 300 random rows of the cached ones.
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
from _selection_engines import BUDGETS, ENGINES, PROBLEMS, Problem, Recorded, excess_of, measured, subgroups
from scipy.stats import t as student

import tailboost as tb

# At most so many rows to select on, with up to three classes and with more, and to test on.
ROWS, ROWS_OF_MANY, TEST_ROWS = 5_000, 3_000, 20_000
# Fewer rows to select on, or no error of any rule, measure nothing: these tables are left out.
FEWEST_ROWS = 300
WITHOUT_ERRORS = ("mushroom",)
# Groups with a smaller share of the rows are put together.
LEAST_SHARE = 0.02
WEIGHTS = np.linspace(0, 1, 11)
# Test rows below which a subgroup's error is not judged, and rows of an interval that is.
TEST_ROWS_OF_SUBGROUP, ROWS_OF_INTERVAL = 30, 5
SIZES = (0, 50, 200, 1_000, np.inf)
# Title: the table of `experiments.field._tables`, its column of groups, and columns that tell the group.
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


# -- cache: the default models, fitted once ---------------------------------------------------------------


def loaded(folder: Path) -> dict[str, Any]:
    """Return the tables by title, the quickest to fit first; those with groups have one column of them."""
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
        merged = np.where(sizes < LEAST_SHARE * len(kept), "other", values)[number]
        X = read.X.drop(columns=list(hidden)).iloc[kept].reset_index(drop=True)
        found[title] = Data(X, read.y[kept], {"group": merged})
    return dict(sorted(found.items(), key=lambda item: selection_rows(item[1]) * item[1].n_classes))


RACES = ["black", "asian", "white"]


def selection_rows(data: Any) -> int:
    """Return how many rows of a table select: at most three fifths."""
    return min(round(0.6 * len(data.y)), ROWS if data.n_classes <= 3 else ROWS_OF_MANY)


def fit_models(data: Any, seed: int) -> dict[str, Any]:
    """Fit the default models to a split; return its rows with out-of-fold and test probabilities."""
    from experiments._tables import split

    n = selection_rows(data)
    rows = split(data, seed, 1.0 - n / len(data.y), n, TEST_ROWS)
    X, X_test = (np.ascontiguousarray(part.X, dtype=np.float64) for part in (rows.train, rows.test))
    began = time.process_time()
    mix = tb.RobustMixtureClassifier(random_state=seed, n_jobs=1).fit(X, rows.train.y)
    judged = mix._judged
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


def cache(args: argparse.Namespace) -> None:
    """Fit what is not in the cache yet, a split of every table before the next split."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    args.cache.mkdir(parents=True, exist_ok=True)
    tables = loaded(args.data)
    for seed in range(args.splits):
        for title, data in tables.items():
            file = args.cache / f"{title.replace(' ', '_')}.{seed}.npz"
            if file.exists() or (args.only and title not in args.only):
                continue
            kept = fit_models(data, seed)
            part = file.with_suffix(".part")
            with part.open("wb") as out:
                np.savez_compressed(out, **kept, title=np.array(title))
            part.rename(file)
            told = f"groups {np.unique(kept['g']).tolist()}" if "g" in kept else ""
            print(title, seed, kept["X"].shape, len(kept["y_test"]), f"{kept['seconds']:.1f} s", told, flush=True)


# -- run: one engine on every cached split ----------------------------------------------------------------


def cases(args: argparse.Namespace) -> Any:
    """Yield the title, the split and the arrays of each cached split, the first split of all tables first."""
    for file in sorted(args.cache.glob("*.npz"), key=lambda file: (file.stem.rsplit(".", 1)[1], file.stat().st_size)):
        with np.load(file) as kept:
            case, title, seed = dict(kept), str(kept["title"]), int(file.stem.rsplit(".", 1)[1])
        if seed >= args.splits or (args.only and title not in args.only):
            continue
        if args.rows:  # some of the rows, five of every class and group at least
            order = np.random.default_rng(seed).permutation(len(case["y"]))
            of = np.unique([f"{k} {a}" for k, a in zip(case["y"], case.get("g", case["y"]))], return_inverse=True)[1]
            rank = np.zeros(len(order), dtype=int)
            for u in range(of.max() + 1):
                rank[order[of[order] == u]] = np.arange((of == u).sum())
            some = np.sort(order[np.argsort(rank[order] >= 5, kind="stable")][: args.rows])
            case |= {name: case[name][some] for name in ("X", "y", "fold", "g") if name in case}
            case["P"] = case["P"][:, some]
        Recorded.reads(case)
        yield title, seed, case


def outcome(case: dict[str, Any], problem: Problem, found: Any) -> dict[str, Any]:
    """Return what a rule reaches on the selection data and on test rows."""
    budget, seconds, answers, lines, stated = found
    test, chosen = (case["y_test"], case.get("g_test")), (case["y"], case.get("g"))
    wrong = answers != test[0]
    errors = measured("error", problem.by, answers, *test)
    large = [e for e, n in errors.values() if n >= TEST_ROWS_OF_SUBGROUP] or [e for e, _ in errors.values()]
    sizes = {name: int(rows.sum()) for name, rows in subgroups(problem.by, *chosen).items()}
    counted = {unit: value for kind, by, unit, value, *_ in lines if (kind, by) == ("error", problem.by)}
    return {
        "budget": budget, "seconds": round(seconds, 4), "overall": wrong.mean(), "worst": max(large),
        "selection": [sum(sizes[u] * e for u, e in counted.items()) / len(case["y"]), max(counted.values())],
        "excess": max([excess_of(limit, answers, *test) for limit in problem.limits], default=None), "stated": stated,
        "lines": [[*line, *_on_test(line, answers, *test)] for line in lines],
    }  # fmt: skip


def _on_test(line: Any, answers: Any, y: Any, g: Any) -> tuple[float, float, int]:
    """Return a line's rate on test rows, its standard error there, and the rows, of a gap the fewest."""
    kind, by, unit, *_ = line
    found = {u: (r, np.sqrt(r * (1 - r) / n), n) for u, (r, n) in measured(kind, by, answers, y, g).items()}
    if unit not in ("gap", "ratio"):
        return found.get(unit, (np.nan, np.nan, 0))
    (low, a, _), (high, b, _) = min(found.values()), max(found.values())
    fewest = min(n for *_, n in found.values())
    if unit == "gap":
        return high - low, np.hypot(a, b), fewest
    return low / max(high, 1e-9), np.hypot(a, b * low / max(high, 1e-9)) / max(high, 1e-9), fewest


def run(args: argparse.Namespace) -> None:
    """Append what is missing to the engine's file."""
    (name,), file = args.engine, file_of(args, args.engine[0])
    if args.again:
        file.unlink(missing_ok=True)
    done = {(x["table"], x["split"], x["problem"]) for x in read(file)}
    warnings.simplefilter("ignore")
    with file.open("a") as out:
        for title, seed, case in cases(args):
            for problem in PROBLEMS:
                if not problem.suits(case) or (title, seed, problem.title) in done:
                    continue
                if args.problems and not any(text in problem.title for text in args.problems):
                    continue
                key = {"table": title, "split": seed, "problem": problem.title}
                found = [outcome(case, problem, each) for each in ENGINES[name](case, problem)]
                out.writelines(json.dumps(key | each) + "\n" for each in found)
                out.flush()
            print(name, title, seed, f"{time.process_time():.0f} s", flush=True)


def file_of(args: argparse.Namespace, name: str) -> Path:
    """Return the file of an engine's outcomes."""
    return args.cache / f"{name.replace(' ', '-')}{f'.{args.rows}' if args.rows else ''}.jsonl"


def read(file: Path) -> list[dict[str, Any]]:
    """Return the outcomes of a file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


# -- report -----------------------------------------------------------------------------------------------


def over_tables(values: dict[tuple[str, int], float]) -> tuple[float, float]:
    """Return the mean over splits, then tables, and half of its 95 % interval over tables."""
    of: dict[str, list[float]] = {}
    for (table, _), value in values.items():
        of.setdefault(table, []).append(value)
    means = np.array([np.mean(each) for each in of.values()])
    half = student.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    return float(means.mean()), float(half)


def figures(outcomes: list[dict[str, Any]]) -> dict[str, dict[tuple[str, int], float]]:
    """Return every figure by table and split: the cost, and [overall, worst] at each budget."""
    by_case: dict[tuple[str, int], list[Any]] = {}
    for x in outcomes:
        by_case.setdefault((x["table"], x["split"]), []).append(x)
    found: dict[str, dict[tuple[str, int], float]] = {}
    for case, points in by_case.items():
        said, true = (np.array(of) for of in zip(*((x["selection"], (x["overall"], x["worst"])) for x in points)))
        weights = np.column_stack([1 - WEIGHTS, WEIGHTS])
        best = (weights @ said.T).argmin(axis=1)
        found.setdefault("cost", {})[case] = float((weights * true[best]).sum(axis=1).mean())
        for x in points:
            budget = "none" if x["budget"] is None else f"{x['budget']:g}"
            for name in ("overall", "worst"):
                found.setdefault(f"{budget}: {name}", {})[case] = x[name]
            found.setdefault("seconds", {}).setdefault(case, 0.0)
            found["seconds"][case] += x["seconds"]
        if points[0]["excess"] is not None:
            broken = points[0]["excess"]
            kept = {"kept": broken <= 1e-9, "kept within .01": broken <= 0.01, "mean excess": max(broken, 0.0)}
            for name, value in kept.items():
                found.setdefault(name, {})[case] = float(value)
    return found


def coverage(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return, by kind of line and rows of the selection data, the share of test rates in their intervals, and more.

    A rate is covered if it is within the interval, each arm of which is lengthened in quadrature by 1.96
    standard errors of the test rate.
    """
    found: dict[tuple[str, str], list[Any]] = {}
    for x in outcomes:
        for kind, by, unit, _, p, low, high, rows, test, se, test_rows in x["lines"]:
            if low is None or np.isnan([low, test]).any() or test_rows < TEST_ROWS_OF_SUBGROUP or rows < ROWS_OF_INTERVAL:
                continue
            arm = p - low if test < p else high - p
            inside = abs(test - p) <= np.hypot(max(arm, 0.0), 1.96 * se) + 1e-12
            compares = unit in ("gap", "ratio")
            title = f"{unit} of {kind}" if compares else f"{kind} by {by}" if by else f"{kind}, all rows"
            title += ", limits" * x["problem"].startswith("limits")
            bins = ["all"] + ([] if compares else [f"< {SIZES[np.searchsorted(SIZES[1:], rows, side='right') + 1]:g}"])
            for size in bins:
                found.setdefault((title, size), []).append((inside, high - low, abs(test - p), low <= test <= high))
    table: dict[str, Any] = {}
    for (title, size), each in sorted(found.items()):
        covered, width, off, raw = np.mean(each, axis=0).round(4).tolist()
        table.setdefault(title, {})[size] = {
            "rates": len(each), "covered": covered, "width": width, "mean absolute error": off, "raw": raw,
        }  # fmt: skip
    return table


def calibration(outcomes: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return stated probabilities that limits hold, in five bins, beside the share of limits kept."""
    pairs = np.array([(x["stated"], x["excess"] <= 1e-9) for x in outcomes if x["stated"] is not None], dtype=float)
    if not len(pairs):
        return []
    bins = np.minimum((pairs[:, 0] * 5).astype(int), 4)
    return [
        {"problems": int((bins == k).sum()), "stated": pairs[bins == k, 0].mean(), "kept": pairs[bins == k, 1].mean()}
        for k in np.unique(bins)
    ]  # fmt: skip


def report(args: argparse.Namespace) -> None:
    """Print and keep the comparison of engines."""
    engines = {name: [x for x in read(file_of(args, name)) if x["split"] < args.splits] for name in args.engine}
    record: dict[str, Any] = {"versions": {"numpy": np.__version__, "tailboost": tb.__version__}, "problems": {}}
    for problem in PROBLEMS:
        all_figures = {
            name: figures([x for x in found if x["problem"] == problem.title]) for name, found in engines.items()
        }
        shared = set.intersection(*(set(of.get("cost", {})) for of in all_figures.values()))
        if not shared:
            continue
        if problem.limits:
            columns = ["kept", "kept within .01", "mean excess", "none: overall", "seconds"]
        else:
            columns = [c for c in next(iter(all_figures.values())) if c != "seconds"] + ["seconds"]
        lines, first = {}, all_figures[args.engine[0]]
        for name, of in all_figures.items():
            less = {c: {case: of[c][case] - first[c][case] for case in shared} for c in columns}
            lines[name] = {
                c: over_tables({case: of[c][case] for case in shared})[:1] if of is first or c == "seconds"
                else over_tables(less[c]) for c in columns
            }  # fmt: skip
        tables = len({table for table, _ in shared})
        record["problems"][problem.title] = {"tables": tables, "splits": len(shared), "engines": lines}
        print(f"\n**{problem.title}**: {tables} tables, {len(shared)} splits; differences from {args.engine[0]}\n")
        print("| | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
        for name, of in lines.items():
            print(f"| {name} | " + " | ".join(_text(*of[c]) for c in columns) + " |")
    for name, found in engines.items():
        record.setdefault("intervals", {})[name] = of = coverage(found)
        record.setdefault("stated probability", {})[name] = calibration(found)
        print(f"\n**{name}**, intervals: coverage (rates; width)\n\n| | all | < 50 | < 200 | < 1000 | < inf |\n|" + "---|" * 6)
        for title, sizes in of.items():
            cells = [sizes.get(size) for size in ("all", "< 50", "< 200", "< 1000", "< inf")]
            said = [f"{c['covered']:.3f} ({c['rates']}; {c['width']:.3f})" if c else "" for c in cells]
            print(f"| {title} | " + " | ".join(said) + " |")
        print(*record["stated probability"][name], sep="\n")
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")


def _text(value: float, half: float | None = None) -> str:
    if half is None:
        return f"{value:.4f}"
    return f"{'**' * (abs(value) > half)}{value:+.4f} ± {half:.4f}{'**' * (abs(value) > half)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["cache", "run", "report"])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="titles of tables")
    parser.add_argument("--engine", nargs="*", default=[], choices=list(ENGINES))
    parser.add_argument("--problems", nargs="*", default=[], help="parts of titles of problems")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    {"cache": cache, "run": run, "report": report}[args.what](args)


if __name__ == "__main__":
    main()
