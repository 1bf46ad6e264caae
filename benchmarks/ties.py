"""Gaps and ratios of selection rates within limits, where scores have few values.

    python benchmarks/ties.py [--populations FILE.npz] [--draws N] [--valid N] [--out FILE]

Populations and limits are those of `power.py`; neighbouring values of their scores are joined, down to 10,
20 and 50 values. Captured is the part of the way from the answer that is always safe to the best rule within
the limit on the finest scores, 0 without a certificate. Three ways to certify one batch of rows:

* "ranks": ranks wherever they apply, however many rows have equal scores;
* "calibrate": tests of thresholds where equal scores take more room around a rank than a test;
* "draws": with ``randomized=True``, draws divide the rows with equal scores.

"valid" counts certificates that are false in populations with 5 values, and with a group of 3 % of the rows.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from _record import rounded, write
from power import LEAST_GAIN, LIMITS, World, made, ours, populations

from tailboost import rates
from tailboost.guarantees.ranks import Ranks

LEVELS, SIZES = (10, 20, 50, 200), (2_000, 10_000)
TITLES = ("ratio of selection ≥ .8", "gap of selection ≤ .02")
WAYS = ("ranks", "calibrate", "draws")
SHARES = {"even groups": [0.5, 0.5], "a group of 3 %": [0.97, 0.03]}
SELECTED = rates.selected(1, by="group")
WIDE: dict[str, tuple[str, float, Any]] = {
    "ratio of selection ≥ .8": LIMITS["ratio of selection ≥ .8"],
    "gap of selection ≤ .15": ("gap", 0.15, lambda: [rates.gap(SELECTED) <= 0.15]),
}
SETTINGS = (
    ("even groups", "ratio of selection ≥ .8", 800, "calibrate"),
    ("a group of 3 %", "gap of selection ≤ .15", 2_000, "calibrate"),
    ("even groups", "gap of selection ≤ .15", 800, "draws"),
    ("a group of 3 %", "ratio of selection ≥ .8", 2_000, "draws"),
)


def joined(mass: Any, scores: Any, levels: int) -> tuple[Any, Any]:
    """Return a population whose score has at most so many values, each with about as much mass."""
    weights = mass.sum(axis=(0, 2))
    _, place = np.unique(np.ceil(levels * weights.cumsum() - 1e-9), return_inverse=True)
    coarse = np.zeros((len(mass), place.max() + 1, 2))
    np.add.at(coarse, (slice(None), place), mass)
    return coarse, np.bincount(place, scores * weights) / np.bincount(place, weights)


def certified(way: str, world: World, limits: Any, rows: Any) -> tuple[Any, float]:
    """Return the certified rule of one way (None without one), and processor seconds."""
    with mock.patch.object(Ranks, "are_wide", Ranks.are_wide if way != "ranks" else False):
        return ours(world, limits, rows, randomized=way == "draws" or "auto")


def cases(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what each way captures, for each draw of rows."""
    found = []
    for name, (mass, scores) in populations(arguments.populations).items():
        for limit in TITLES if len(mass) > 1 else ():
            kind, level, limits = LIMITS[limit]
            finest = World(mass, scores, kind, level)
            if finest.fallback - finest.best < LEAST_GAIN:
                continue
            for levels in LEVELS:
                world = World(*joined(mass, scores, levels), kind, level)
                world.best = finest.best
                for n in SIZES:
                    for draw in range(arguments.draws):
                        rng = np.random.default_rng([sum(map(ord, name)), levels, n, draw])
                        rows = np.unravel_index(
                            rng.choice(world.mass.size, n, p=world.mass.ravel()), world.mass.shape
                        )
                        case = {"population": name, "limit": limit, "values": levels, "rows": n}
                        for way in WAYS:
                            rule, seconds = certified(way, world, limits, rows)
                            _, captured, broken = world.scored(rule)
                            case[way] = [captured, rule is not None, broken, seconds]
                        found.append(case)
        print(name, len(found), flush=True)
    return found


def valid(draws: int) -> list[dict[str, Any]]:
    """Return the numbers of certificates and of false ones."""
    table: list[dict[str, Any]] = []
    for groups, limit, n, way in SETTINGS:
        kind, level, limits = WIDE[limit]
        mass, scores = joined(*made(SHARES[groups], [0.4, 0.3], [1.6, 1.6], 1.6, 0.4), 5)
        world = World(mass, scores, kind, level)
        rng = np.random.default_rng(len(table))
        certificates = false = 0
        for _ in range(draws):
            rows = np.unravel_index(rng.choice(mass.size, n, p=mass.ravel()), mass.shape)
            rule, _ = certified(way, world, limits, rows)
            certificates += rule is not None
            false += world.scored(rule)[2]
        setting = {"groups": groups, "limit": limit, "rows": n, "way": way, "draws": draws}
        table.append(setting | {"certified": certificates, "false": false})
        print(table[-1], flush=True)
    return table


def summary(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return means by cell and of all cases, and differences to ranks with two standard errors."""
    table = []
    cells = [(limit, levels, n) for limit in TITLES for levels in LEVELS for n in SIZES]
    for cell in [*cells, None]:
        here = [c for c in found if cell in (None, (c["limit"], c["values"], c["rows"]))]
        if not here:
            continue
        limit, levels, n = cell or ("all", "all", "all")
        row = {"limit": limit, "values": levels, "rows": n, "cases": len(here)}
        captured = {way: np.array([c[way][0] for c in here]) for way in WAYS}
        for way in WAYS:
            row[way] = {
                "captured": captured[way].mean(),
                "certified": sum(c[way][1] for c in here),
                "false": sum(c[way][2] for c in here),
                "seconds": np.mean([c[way][3] for c in here]),
            }
        for way in WAYS[1:]:
            gains = captured[way] - captured["ranks"]
            row[f"{way} less ranks"] = [gains.mean(), 2 * gains.std(ddof=1) / np.sqrt(len(gains))]
        table.append(rounded(row))
        print(table[-1], flush=True)
    return table


def main() -> None:
    """Run both parts, and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--populations", type=Path)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--valid", type=int, default=400)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    record: dict[str, Any] = {"command": "python benchmarks/ties.py --populations FILE.npz --out ties.json"}
    began = time.process_time()
    if arguments.draws:
        record["table"] = summary(cases(arguments))
        write(record, arguments.out)
    if arguments.valid:
        record["valid"] = valid(arguments.valid)
    record["processor seconds"] = round(time.process_time() - began)
    write(record, arguments.out)


if __name__ == "__main__":
    main()
