"""Measurements behind constants of messages and of `calibrate`, each beside other values.

    python benchmarks/constants.py [--populations FILE.npz] [--out FILE]

* "direction": how often scores are said to go the wrong way, by standard errors of the area under the ROC
  curve: scores of ten values without information, and those whose area is .4 or .35.
* "paid": by how much the true error falls where the rule may read the group, by the factor by which a limit
  on misses by group raises the error of the blind rule on its rows.
* "worthwhile": limits on both errors and on deferral. Error saved beside the better constant answer, 0
  without a certificate, by the least probit at which rules on one score are tested.

Populations are those of `power.py`, whose true rates are known.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from _record import rounded, write
from power import World, answers, given, populations
from scipy.special import ndtri

import tailboost as tb
from tailboost import rates
from tailboost.exceptions import InfeasibleLimitsError, NotCertifiedError
from tailboost.guarantees import score_path
from tailboost.learners import scores as learned

ERRORS = (2.0, 3.0, 4.0)
AREAS = {"without information": 0.5, "area .4": 0.4, "area .35": 0.35}
DRAWS = 4_000
FACTORS = (1.0, 1.1, 1.25, 1.5, np.inf)
MISSES = (0.1, 0.2, 0.3)
PROBITS = (-9.0, -2.0, 0.0)


def directions() -> list[dict[str, Any]]:
    """Return the share of draws in which scores are called wrong."""
    table = []
    rng = np.random.default_rng(0)
    for name, area in AREAS.items():
        for n in (50, 200, 1_000):
            called = dict.fromkeys(ERRORS, 0)
            for _ in range(DRAWS):
                positive = np.arange(n) < 0.3 * n
                values = np.round(rng.normal(size=n) + np.sqrt(2) * ndtri(area) * positive, 0)
                for many in ERRORS:
                    with mock.patch.object(learned, "WRONG_DIRECTION", many):
                        called[many] += learned.area_if_below_half(values, positive) is not None
            shares = {f"{many:g} standard errors": called[many] / DRAWS for many in ERRORS}
            table.append({"scores": name, "rows": n} | shares)
            print(table[-1], flush=True)
    return table


def calibrated(world: World, rows: Any, **params: Any) -> Any:
    """Return the certified classifier on one batch of rows, None without one."""
    g, b, y = rows
    X = np.column_stack([1 - world.scores[b], world.scores[b]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return tb.calibrate(
                given, X, y, groups={"group": g}, equal_rows="natural", attempts=1, random_state=0, **params
            )  # fmt: skip
        except (NotCertifiedError, InfeasibleLimitsError):
            return None


def drawn(world: World, n: int, seed: int) -> Any:
    """Return groups, values and labels of n rows."""
    rng = np.random.default_rng([n, seed])
    return np.unravel_index(rng.choice(world.mass.size, n, p=world.mass.ravel()), world.mass.shape)


def blind_answers(classifier: Any, world: World) -> Any:
    """Return a rule that reads no group on all pairs of group and score; deferred rows get NaN."""
    X = np.column_stack([1 - world.scores, world.scores])
    told = np.asarray(classifier.predict_distribution(X)[:, 1], dtype=float)
    if world.kind == "answered":
        told = np.where(classifier.defers(X), np.nan, told)
    return np.tile(told, (len(world.mass), 1))


def paid(every: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the mean fall of the true error by a rule that reads the group, by factor."""
    found = []
    for name, (mass, scores) in every.items():
        for most in MISSES if len(mass) > 1 else ():
            world = World(mass, scores, "miss", most)
            for n in (1_000, 4_000):
                for draw in range(2):
                    rows = drawn(world, n, draw)
                    limits = [rates.miss(1, by="group") <= most]
                    blind = calibrated(world, rows, limits=limits)
                    aware = calibrated(world, rows, limits=limits, by_group=True)
                    if blind is None or aware is None:
                        continue
                    forced = blind.certificate_.forced_by
                    if not forced.without:
                        continue
                    told = blind_answers(blind, world), answers(aware, world, np.unique(rows[0]))
                    found.append((max(1.0, forced.error / forced.without), *map(world.value, told)))
        print(name, len(found), flush=True)
    factor, blind_errors, aware_errors = np.array(found).T
    table = []
    for low, high in pairwise(FACTORS):
        here = (factor >= low) & (factor < high)
        falls = (blind_errors - aware_errors)[here]
        row = {"factor from": low, "cases": int(here.sum()), "error": float(blind_errors[here].mean())}
        row["fall"] = [float(falls.mean()), float(2 * falls.std(ddof=1) / np.sqrt(len(falls)))]
        table.append(row | {"lower, higher": [int((falls > 0.002).sum()), int((falls < -0.002).sum())]})
        print(table[-1], flush=True)
    return table


def worthwhile(every: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the error saved by each least probit, and differences with two standard errors."""
    limits = [rates.miss(1) <= 0.3, rates.false_alarm(1) <= 0.3, rates.deferred() <= 0.2]
    saved: dict[float, list[float]] = {probit: [] for probit in PROBITS}
    seconds = dict.fromkeys(PROBITS, 0.0)
    for name, (mass, scores) in every.items():
        world = World(mass, scores, "answered", 0.1)
        for draw in range(3):
            rows = drawn(world, 500, draw)
            for probit in PROBITS:
                began = time.process_time()
                with mock.patch.object(score_path, "WORTHWHILE", probit):
                    rule = calibrated(world, rows, limits=limits)
                seconds[probit] += time.process_time() - began
                gain = 0.0
                if rule is not None:
                    q = blind_answers(rule, world)
                    wrong = np.where(q > 0.5, mass[..., 0], mass[..., 1])[~np.isnan(q)].sum()
                    gain = min(world.one, 1 - world.one) - float(wrong)
                saved[probit].append(gain)
        print(name, {probit: np.mean(each) for probit, each in saved.items()}, flush=True)
    table = []
    for probit, gains in saved.items():
        apart = np.subtract(gains, saved[-2.0])
        row = {"least probit": probit, "cases": len(gains), "saved": float(np.mean(gains))}
        row["less −2"] = [float(apart.mean()), float(2 * apart.std(ddof=1) / np.sqrt(len(apart)))]
        table.append(row | {"certified": int(np.count_nonzero(gains)), "seconds": seconds[probit]})
        print(table[-1], flush=True)
    return table


def main() -> None:
    """Run all parts, and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--populations", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    every = populations(arguments.populations)
    record: dict[str, Any] = {
        "command": "python benchmarks/constants.py --populations FILE.npz --out constants.json"
    }
    for part, table in (
        ("direction", directions),
        ("paid", lambda: paid(every)),
        ("worthwhile", lambda: worthwhile(every)),
    ):
        record[part] = rounded(table())
        write(record, arguments.out)


if __name__ == "__main__":
    main()
