"""How often `tailboost.calibrate` certifies limits on scores of public tables from one batch of rows.

    python benchmarks/one_batch.py --data DIR --out CASES.jsonl [--seeds 0 5]
    python benchmarks/one_batch.py --data DIR --record CASES.jsonl …

Tables, splits, scores and limits are those of the experiment ``broken-limits``. The second command writes
benchmarks/one_batch.json. *Broken*: the limit is beyond its bound on the fresh rows, whose own noise counts.
*Better*: the objective on them is smaller than that of the answer that needs no data: one label to all rows,
or deferral of all.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from experiments import _limit_methods as methods
from experiments import broken_limits as tables
from experiments._experiment import Settings

RECORD = Path(__file__).with_suffix(".json")
METHOD = "tailboost, one batch at .95"
SPLITS = 10
# The fresh rows must show a smaller objective than the answer without data by this.
BETTER = 0.002


def settings(arguments: Any) -> Settings:
    """Return the settings of the experiment: scores are kept beside the cases."""
    folder = (arguments.out or arguments.record[0]).parent
    return Settings(
        out=folder, data=arguments.data, repeats=SPLITS, n_jobs=1, scale="small", say=print, only=()
    )


def run(arguments: Any) -> None:
    """Append all cases of some splits to a file, a line each."""
    of, none = settings(arguments), Path("no entry")
    for seed in range(*arguments.seeds):
        for table in (*tables.CASES, *tables.GIVEN):
            data = tables.score(of, table, seed)
            ones = float(data.fresh_y.mean())
            for n in tables.SELECTION_ROWS:
                if n > len(data.y):
                    continue
                rows = tables._some(data, n)
                for limit in methods.LIMITS:
                    if not tables._asks(METHOD, limit, int(data.g.max()) + 1, seed):
                        continue
                    case = {"table": table, "rows": n, "limit": limit, "seed": seed, "ones": round(ones, 4)}
                    case |= tables._cell(rows, METHOD, limit, none)
                    with arguments.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(case, ensure_ascii=False) + "\n")
            print(seed, table, flush=True)


def safe(limit: str, ones: float) -> float:
    """Return the objective of the answer that needs no data."""
    if "answered" in limit or "worst" in limit:
        return 1.0 if "answered" in limit else 0.5
    return 1.0 - ones if "miss" in limit else ones if "precision" in limit else min(ones, 1.0 - ones)


def record(arguments: Any) -> None:
    """Write the record: numbers by limit and rows."""
    cells: dict[tuple[str, Any], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for file in arguments.record:
        for line in file.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            certified = "error" in case
            for key in ((case["limit"], case["rows"]), (case["limit"], "all"), ("all limits", "all")):
                cell = cells[key]
                cell["certified"].append(certified)
                cell["broken"].append(certified and case["beyond"] > 0)
                limit = safe(case["limit"], case["ones"]) - BETTER
                cell["better"].append(certified and case["error"] < limit)
                if certified:
                    cell["seconds"].append(case["seconds"])
    table = [
        {"limit": limit, "rows": n, "cases": len(cell["certified"])}
        | {name: int(np.sum(cell[name])) for name in ("certified", "broken", "better")}
        | {"seconds": round(float(np.mean(cell["seconds"])), 3) if cell["seconds"] else None}
        for (limit, n), cell in cells.items()
    ]
    document = {"command": "python benchmarks/one_batch.py, see its first lines", "table": table}
    RECORD.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(*table, sep="\n")


def main() -> None:
    """Run, or write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=[0, SPLITS])
    parser.add_argument("--record", type=Path, nargs="+")
    arguments = parser.parse_args()
    (record if arguments.record else run)(arguments)


if __name__ == "__main__":
    main()
