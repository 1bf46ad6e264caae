"""False certificates of rank rules in populations with known rates.

    python benchmarks/rank_validity.py --draws 1000    write benchmarks/rank_validity.json

A population has 2 to 5 groups and a score of 5 to 200 values, or a continuous one. The fresh rows of each
draw place the thresholds. For limits on one side the loss is adversarial: of all thresholds within the ranks
the last one is taken. A certificate is false if the true rate breaks the limit. At 95 % at most 5 % may be.
The sizes of the strata are fixed: the proofs are conditional on them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.guarantees.rank_rules import (
    ScoredRows,
    at_ranks,
    one_sided,
    ranks_of,
    ranks_of_comparison,
    shares_of,
)
from tailboost.rates import false_alarm, gap, miss, ratio, selected
from tailboost.rates.strata import Strata

RECORD = Path(__file__).with_suffix(".json")
LEVEL = 0.05
SHAPES = ((2, 60), (3, 400), (5, 1500), (2, 4000))  # groups, fresh rows
SCORES = ((5, False), (40, False), (200, False), (50, True))  # values of the score, whether it is continuous
LIMITS = {
    "misses by group ≤ .25": [miss(1, by="g") <= 0.25],
    "false alarms by group ≤ .2": [false_alarm(1, by="g") <= 0.2],
    "misses and false alarms ≤ .45": [miss(1, by="g") <= 0.45, false_alarm(1, by="g") <= 0.45],
    "capacity ≤ .2": [selected(1) <= 0.2],
    "gap of selection ≤ .1": [gap(selected(1, by="g")) <= 0.1],
    "ratio of selection ≥ .75": [ratio(selected(1, by="g")) >= 0.75],
    "gap of misses ≤ .2": [gap(miss(1, by="g")) <= 0.2],
}


class Population:
    """Distribution of a score by class and group."""

    def __init__(self, n_values: int, groups: int, continuous: bool, rng: Any) -> None:
        tilt = np.linspace(-1.5, 1.5, n_values)
        weights = np.exp(
            np.array([-tilt, tilt])[:, None] + rng.normal(0, 0.2, (2, groups, n_values)) + rng.normal(0, 0.3)
        )
        self.p = weights / weights.sum(axis=2, keepdims=True)  # shape (2, groups, values)
        self.prevalence, self.share = rng.uniform(0.2, 0.6, groups), rng.dirichlet(np.full(groups, 5.0))
        self.continuous = continuous

    def draw(self, n: int, rng: Any) -> tuple[Any, Any, Any]:
        """Return scores, groups and classes of n rows; the size of each stratum is its expected one."""
        sizes = np.outer([1.0, 0.0], self.share * (1.0 - self.prevalence))
        sizes[1] = self.share * self.prevalence
        strata = np.repeat(np.arange(sizes.size), np.maximum(1, np.round(n * sizes.ravel())).astype(int))
        y, g = np.divmod(strata, len(self.share))
        n = len(y)
        value = (rng.random(n)[:, None] > self.p.cumsum(axis=2)[y, g]).sum(axis=1)
        scores = (value + (rng.random(n) if self.continuous else 0.0)) / self.p.shape[2]
        return scores, g, y

    def rates(self, thresholds: Any) -> dict[str, Any]:
        """Return the true rates of thresholds by group."""
        n_values = self.p.shape[2]
        beyond = np.arange(n_values)[None] - n_values * np.asarray(thresholds)[:, None]
        part = np.clip(beyond + 1.0, 0.0, 1.0) if self.continuous else (beyond > 0).astype(float)
        alarm, hit = (self.p * part[None]).sum(axis=2)
        chosen = self.prevalence * hit + (1.0 - self.prevalence) * alarm
        return {"miss": 1.0 - hit, "alarm": alarm, "selected": chosen, "all": float(self.share @ chosen)}


def keeps(name: str, r: dict[str, Any]) -> bool:
    """Whether true rates keep the limits of a setting."""
    s, ok = r["selected"], 1e-12
    return bool(
        {
            "misses by group ≤ .25": r["miss"].max() <= 0.25 + ok,
            "false alarms by group ≤ .2": r["alarm"].max() <= 0.2 + ok,
            "misses and false alarms ≤ .45": max(r["miss"].max(), r["alarm"].max()) <= 0.45 + ok,
            "capacity ≤ .2": r["all"] <= 0.2 + ok,
            "gap of selection ≤ .1": np.ptp(s) <= 0.1 + ok,
            "ratio of selection ≥ .75": s.min() >= 0.75 * s.max() - ok,
            "gap of misses ≤ .2": np.ptp(r["miss"]) <= 0.2 + ok,
        }[name]
    )


def shares(limits: Any, scores: Any, g: Any, y: Any, groups: int) -> list[Any]:
    """Return the shares of limits among rows."""
    strata, stratum = Strata.of(y, g[:, None], np.ones(len(y)), (0, 1), ("g",), (tuple(range(groups)),))
    nothing = np.zeros(len(y), dtype=np.intp)
    return [
        share
        for limit in limits
        for share in shares_of(
            limit, strata, [(s.name, s.rows) for s in limit.rate.samples(strata, stratum, nothing)]
        )
        or ()
    ]


def setting(
    name: str, values: int, continuous: bool, groups: int, n: int, draws: int, seed: int
) -> dict[str, Any]:
    """Return the numbers of certified and of false draws."""
    rng = np.random.default_rng(seed)
    population, limits = Population(values, groups, continuous, rng), LIMITS[name]
    compares = limits[0].compares
    by_group = compares or (name != "capacity ≤ .2" and seed % 2 == 0)
    m = groups if by_group else 1
    ss, sg, sy = population.draw(max(300, n // 2), rng)
    losses = np.stack([sy == 1, sy == 0], axis=1).astype(float)
    selection = ScoredRows(ss, sg if by_group else np.zeros_like(sg), losses)
    on_selection = shares(limits, ss, sg, sy, groups)
    certified = false = 0
    known: dict[Any, Any] = {}
    for _ in range(draws):
        s, g, y = population.draw(n, rng)
        fresh = shares(limits, s, g, y, groups)
        if len(fresh) < len(on_selection):
            continue
        place = g if by_group else np.zeros_like(g)
        sizes = tuple(len(share.rows) for share in fresh)
        if compares:
            if sizes not in known:
                known[sizes] = ranks_of_comparison(limits[0], sizes, selection, on_selection, LEVEL)
            reached = known[sizes]
            rows = ScoredRows(s, place, np.zeros((len(s), 2)))
            found = None if reached is None else at_ranks(fresh, reached, rows, m)
        else:
            ranks = ranks_of(fresh, sizes, m, LEVEL, apart=True)
            worse = np.array([0.0, 1.0]) if fresh[0].answer == 0 else np.array([1.0, 0.0])
            rows, none = ScoredRows(s, place, np.tile(worse, (len(s), 1))), np.zeros(0)
            empty = ScoredRows(none, none.astype(int), np.zeros((0, 2)))
            found = one_sided(fresh, ranks, rows, m, empty)
        if found is not None:
            certified += 1
            false += not keeps(name, population.rates(found if by_group else np.repeat(found, groups)))
    about = {"limit": name, "values": "continuous" if continuous else values, "groups": groups, "rows": n}
    return about | {"by_group": by_group, "draws": draws, "certified": certified, "false": false}


def main() -> None:
    """Run all settings and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    draws, began, settings = parser.parse_args().draws, time.process_time(), []
    for seed, (name, (values, continuous), (groups, n)) in enumerate(
        (name, scores, shape) for name in LIMITS for scores in SCORES for shape in SHAPES
    ):
        settings.append(setting(name, values, continuous, groups, n, draws, seed))
        print(settings[-1], flush=True)
    parts = [each["false"] / each["draws"] for each in settings]
    record = {
        "command": f"python benchmarks/rank_validity.py --draws {draws}",
        "settings": settings,
        "largest share of false certificates": max(parts),
        "mean share of false certificates": sum(parts) / len(parts),
        "processor seconds": round(time.process_time() - began),
    }
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
