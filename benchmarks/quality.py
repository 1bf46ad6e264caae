"""Quality of selection engines: the same cached probabilities, one regret, one set of splits.

    python benchmarks/quality.py run --cache CACHE --engine NAME [--problems TEXT ...] [--rows N] [--again]
    python benchmarks/quality.py report --cache CACHE --engine NAME OTHER ... [--out FILE]

CACHE has the splits as files of arrays: X, y, fold, P, X_test, y_test, P_test, names, title and, with groups,
g and g_test, where P are out-of-fold and P_test test probabilities of several models. ``run`` selects with
one engine on every split, and keeps earlier outcomes unless ``--again``. PYTHONPATH chooses the edition.

    argmax     the most probable class of the even average of the models' log-probabilities
    tuned      class weights tuned on this average, for the worst class within each budget
    simple     `_simple_engine.py`: one learned average, Hedge at five prices, confusion counts
    one        `RobustMixtureClassifier`
    confident  the same with ``confidence=0.9``

``report`` compares the engines with the first one on the splits that all have: means over splits, then over
tables, ± half a 95 % t interval over tables. The regret of an engine is its cost less that of the first one.
The cost is the mean over w = 0, .1, …, 1 of ``(1 − w) overall + w worst`` on test rows, for the budget with
the smallest value on the selection data. ``--rows 300`` selects on 300 random rows. Seconds are processor
seconds for all budgets together.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from _engines import ENGINES, PROBLEMS, Problem, Recorded, excess_of, measured, subgroups
from scipy.stats import t as student

import tailboost as tb

WEIGHTS = np.linspace(0, 1, 11)
# Fewest test rows of a subgroup whose error counts, and fewest selection rows of an interval that counts.
TEST_ROWS_OF_SUBGROUP, ROWS_OF_INTERVAL = 30, 5
# Bins of intervals by the number of selection rows: fewer than each.
SIZES = (50, 200, 1_000, np.inf)
# Tolerance of limits.
ROUNDING = 1e-9


# -- run: one engine on every cached split ----------------------------------------------------------------


def cases(args: argparse.Namespace) -> Any:
    """Yield the title, the number and the arrays of each cached split, ordered by number."""
    files = [
        (int(file.stem.rsplit(".", 1)[1]), file.stat().st_size, file) for file in args.cache.glob("*.npz")
    ]
    for seed, _, file in sorted(files):
        with np.load(file) as kept:
            case, title = dict(kept), str(kept["title"])
        if seed >= args.splits or (args.only and title not in args.only):
            continue
        if args.rows:
            some = _some(case["y"], case.get("g"), args.rows, seed)
            case |= {name: case[name][some] for name in ("X", "y", "fold", "g") if name in case}
            case["P"] = case["P"][:, some]
        Recorded.reads(case)
        yield title, seed, case


def _some(y: Any, g: Any, n: int, seed: int) -> Any:
    """Return n random rows, at least five of each class or cell."""
    order = np.random.default_rng(seed).permutation(len(y))
    first = [order[rows[order]][:5] for rows in subgroups("class" if g is None else "cell", y, g).values()]
    return np.sort(np.r_[first := np.concatenate(first), np.setdiff1d(order, first)[: n - len(first)]])


def outcome(case: dict[str, Any], problem: Problem, found: Any) -> dict[str, Any]:
    """Return the rates of a rule on the selection data and on test rows."""
    budget, seconds, answers, lines = found
    test, chosen = (case["y_test"], case.get("g_test")), (case["y"], case.get("g"))
    wrong = answers != test[0]
    errors = measured("error", problem.by, answers, *test)
    large = [e for e, n in errors.values() if n >= TEST_ROWS_OF_SUBGROUP] or [e for e, _ in errors.values()]
    sizes = {name: int(rows.sum()) for name, rows in subgroups(problem.by, *chosen).items()}
    counted = {
        subgroup: value for kind, by, subgroup, value, *_ in lines if (kind, by) == ("error", problem.by)
    }
    return {
        "budget": budget, "seconds": round(seconds, 4), "overall": wrong.mean(), "worst": max(large),
        "selection": [sum(sizes[u] * e for u, e in counted.items()) / len(case["y"]), max(counted.values())],
        "excess": max([excess_of(limit, answers, *test) for limit in problem.limits], default=None),
        "lines": [[*line, *_on_test(line, answers, *test)] for line in lines],
        "answers": crc32(np.ascontiguousarray(answers, dtype=np.int64).tobytes()),
    }  # fmt: skip


def _on_test(line: Any, answers: Any, y: Any, g: Any) -> tuple[float, float, int]:
    """Return the rate of a line on test rows, its standard error, and the number of rows."""
    kind, by, subgroup, *_ = line
    found = {u: (r, np.sqrt(r * (1 - r) / n), n) for u, (r, n) in measured(kind, by, answers, y, g).items()}
    if subgroup not in ("gap", "ratio"):
        return found.get(subgroup, (np.nan, np.nan, 0))
    (low, a, _), (high, b, _) = min(found.values()), max(found.values())
    fewest = min(n for *_, n in found.values())
    if subgroup == "gap":
        return high - low, np.hypot(a, b), fewest
    return low / max(high, 1e-9), np.hypot(a, b * low / max(high, 1e-9)) / max(high, 1e-9), fewest


def run(args: argparse.Namespace) -> None:
    """Append the missing outcomes to the file of an engine."""
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
    """Return the latest outcome of each case in a file."""
    lines = file.read_text().splitlines() if file.exists() else []
    return list({_key(outcome): outcome for outcome in map(json.loads, lines)}.values())


# -- report -----------------------------------------------------------------------------------------------


def over_tables(values: dict[tuple[str, int], float]) -> tuple[float, float]:
    """Return the mean over splits, then tables, and half of its 95 % interval over tables."""
    of: dict[str, list[float]] = {}
    for (table, _), value in values.items():
        of.setdefault(table, []).append(value)
    means = np.array([np.mean(each) for each in of.values()])
    if len(means) < 2:
        return float(means.mean()), float("nan")
    return float(means.mean()), float(
        student.ppf(0.975, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5
    )


def figures(outcomes: list[dict[str, Any]]) -> dict[str, dict[tuple[str, int], float]]:
    """Return all figures by table and split: the cost, and both errors at each budget."""
    by_case: dict[tuple[str, int], list[Any]] = {}
    for x in outcomes:
        by_case.setdefault((x["table"], x["split"]), []).append(x)
    found: dict[str, dict[tuple[str, int], float]] = {}
    for case, points in by_case.items():
        said = np.array([x["selection"] for x in points])
        true = np.array([(x["overall"], x["worst"]) for x in points])
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
            excess = points[0]["excess"]
            found.setdefault("kept", {})[case] = float(excess <= ROUNDING)
            found.setdefault("kept within .01", {})[case] = float(excess <= 0.01)
            found.setdefault("mean excess", {})[case] = max(excess, 0.0)
    return found


def coverage(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the coverage of intervals by rate and number of selection rows, with width and absolute error.

    The interval is widened on both sides, in quadrature, by 1.96 standard errors of the test rate.
    """
    found: dict[tuple[str, Any], list[Any]] = {}
    for x in outcomes:
        for kind, by, subgroup, _, p, low, high, rows, test, se, test_rows in x["lines"]:
            if np.isnan([low, test]).any() or test_rows < TEST_ROWS_OF_SUBGROUP or rows < ROWS_OF_INTERVAL:
                continue
            arm = p - low if test < p else high - p
            inside = abs(test - p) <= np.hypot(max(arm, 0.0), 1.96 * se) + 1e-12
            compares = subgroup in ("gap", "ratio")
            title = f"{subgroup} of {kind}" if compares else f"{kind} by {by}" if by else f"{kind}, all rows"
            title += ", limits" * x["problem"].startswith("limits")
            bins = [size for size in SIZES if rows < size][:1] * (not compares)
            for size in ("all", *bins):
                found.setdefault((title, size), []).append((inside, high - low, abs(test - p)))
    table: dict[str, Any] = {}
    for (title, size), each in sorted(found.items(), key=str):
        covered, width, off = np.mean(each, axis=0).round(4).tolist()
        table.setdefault(title, {})[str(size)] = {
            "rates": len(each), "covered": covered, "width": width, "mean absolute error": off,
        }  # fmt: skip
    return table


def report(args: argparse.Namespace) -> None:
    """Print the comparison of engines and write it."""
    engines = {
        name: [x for x in read(file_of(args, name)) if x["split"] < args.splits] for name in args.engine
    }
    record: dict[str, Any] = {"numpy": np.__version__, "tailboost": tb.__version__, "problems": {}}
    for problem in PROBLEMS:
        found = {n: figures([x for x in of if x["problem"] == problem.title]) for n, of in engines.items()}
        first = found[args.engine[0]]
        shared = set.intersection(*(set(of.get("cost", {})) for of in found.values()))
        if not shared:
            continue
        columns = [c for c in first if c != "seconds"]
        if problem.limits:
            columns = ["kept", "kept within .01", "mean excess", "none: overall"]
        lines = {}
        for name, of in found.items():
            less = {c: {k: of[c][k] - (of is not first) * first[c][k] for k in shared} for c in columns}
            lines[name] = {c: over_tables(of)[: 1 + (name != args.engine[0])] for c, of in less.items()}
            lines[name]["seconds"] = over_tables({k: of["seconds"][k] for k in shared})[:1]
        tables = len({table for table, _ in shared})
        record["problems"][problem.title] = {"tables": tables, "splits": len(shared), "engines": lines}
        title = f"**{problem.title}**: {tables} tables, {len(shared)} splits; minus {args.engine[0]}"
        _show(title, [*columns, "seconds"], {n: [_text(*x) for x in of.values()] for n, of in lines.items()})
    of_first = {_key(x): x.get("answers") for x in engines[args.engine[0]]}
    for name, of in engines.items():
        both = [x["answers"] == of_first[_key(x)] for x in of if "answers" in x and of_first.get(_key(x))]
        print(f"\n{name}: {sum(both)} of {len(both)} rules predict the same as those of {args.engine[0]}")
        record.setdefault("same answers", {})[name] = [sum(both), len(both)]
        record.setdefault("intervals", {})[name] = covered = coverage(of)
        sizes = ["all", *map(str, SIZES)]
        body = {title: [_covered(of_size.get(size)) for size in sizes] for title, of_size in covered.items()}
        _show(f"**{name}**: coverage (rates; width), by rows: fewer than", sizes, body)
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")


def _key(outcome: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(outcome[name] for name in ("table", "split", "problem", "budget"))


def _show(title: str, columns: list[str], lines: dict[str, list[str]]) -> None:
    print(f"\n{title}\n\n| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, cells in lines.items():
        print(f"| {name} | {' | '.join(cells)} |")


def _covered(of: dict[str, Any] | None) -> str:
    return "" if of is None else f"{of['covered']:.3f} ({of['rates']}; {of['width']:.3f})"


def _text(value: float, half: float | None = None) -> str:
    if half is None:
        return f"{value:.4f}"
    return f"**{value:+.4f}** ± {half:.4f}" if abs(value) > half else f"{value:+.4f} ± {half:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="titles of tables")
    parser.add_argument("--engine", nargs="*", default=[], choices=list(ENGINES))
    parser.add_argument("--problems", nargs="*", default=[], help="parts of titles of problems")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    {"run": run, "report": report}[args.what](args)


if __name__ == "__main__":
    main()
