"""False certificates of rank rules and of sequences of thresholds in populations with known rates.

    python benchmarks/rank_validity.py --draws 1000    write benchmarks/rank_validity.json

A population has 2 to 5 groups and a score of 5 to 200 values, or a continuous one. The fresh rows of each
draw place the thresholds. For limits on one side the loss is adversarial: of all thresholds within the ranks
the last one is taken. Sequences go on until a test fails, and the last threshold before counts; a group may
have one answer instead of a threshold. A certificate is false if the true rate breaks the limit. At 95 % at
most 5 % may be. The sizes of the strata are fixed: the proofs are conditional on them.

In the settings with clusters, 1 to 8 rows of a cluster have one class, and .8 of them the same quantile of
the score. The rows of a cluster are in one group, or for misses in several. As in `calibrate`, one random row
of each cluster counts in each subgroup, and the rates are those of a random row of a random cluster.

In the settings with draws, random numbers order the rows with equal scores, and the rule is randomised.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.guarantees.one_sided import one_sided
from tailboost.guarantees.ranks import TieBreaks, at_ranks, ranks_of_comparison
from tailboost.guarantees.shares import counted_answer, ranks_of, shares_of
from tailboost.guarantees.thresholds import ThresholdTests, limited_rates
from tailboost.rates import error, false_alarm, gap, miss, precision, ratio, selected
from tailboost.rates.strata import Strata
from tailboost.selection.data import ScoredRows

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
    "precision by group ≥ .7": [precision(1, by="g") >= 0.7],
    "precision ≥ .7": [precision(1) >= 0.7],
    "worst class ≤ .4": [error(by="class") <= 0.4],
    "precision ≥ .5, miss ≤ .5 by group": [precision(1, by="g") >= 0.5, miss(1, by="g") <= 0.5],
}
# Limits with a sequence of tests, and whether each group has one.
SEQUENCES = {
    "precision by group ≥ .7": True,
    "precision ≥ .7": False,
    "worst class ≤ .4": False,
    "precision ≥ .5, miss ≤ .5 by group": True,
}

CLUSTERED = (
    "misses by group ≤ .25",
    "misses and false alarms ≤ .45",
    "capacity ≤ .2",
    "gap of selection ≤ .1",
)
CLUSTERED_SHAPES, CLUSTERED_SCORES = ((2, 150), (3, 400)), ((40, False), (50, True))
DRAWN = (
    "misses by group ≤ .25",
    "capacity ≤ .2",
    "gap of selection ≤ .1",
    "ratio of selection ≥ .75",
    "gap of misses ≤ .2",
)
ALIKE, LARGEST = 0.8, 8  # part of the rows with the cluster's quantile, largest number of rows of a cluster


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
        return self.scores(rng.random(n), rng.random(n), g, y), g, y

    def scores(self, quantile: Any, inside: Any, g: Any, y: Any) -> Any:
        """Return the scores at quantiles; ``inside`` tells apart continuous scores of one value."""
        value = (quantile[:, None] > self.p.cumsum(axis=2)[y, g]).sum(axis=1)
        return (value + (inside if self.continuous else 0.0)) / self.p.shape[2]

    def draw_clusters(self, n: int, rng: Any, *, mixed: bool) -> tuple[Any, Any, Any, Any]:
        """Return scores, groups, classes and clusters of the rows of n clusters.

        The class depends on the group of the cluster's first row. If ``mixed``, the other rows have groups of
        their own; their scores depend on class and own group.
        """
        size = rng.integers(1, LARGEST + 1, n)
        cluster = np.repeat(np.arange(n), size)
        first = rng.choice(len(self.share), n, p=self.share)
        of_cluster = (rng.random(n) < self.prevalence[first]).astype(int)
        g, y = first[cluster], of_cluster[cluster]
        if mixed:
            g = rng.choice(len(self.share), len(cluster), p=self.share)
        alike = rng.random(len(cluster)) < ALIKE
        quantile = np.where(alike, rng.random(n)[cluster], rng.random(len(cluster)))
        inside = np.where(alike, rng.random(n)[cluster], rng.random(len(cluster)))
        return self.scores(quantile, inside, g, y), g, y, cluster

    def rates(self, thresholds: Any) -> dict[str, Any]:
        """Return the true rates of thresholds by group."""
        n_values = self.p.shape[2]
        beyond = np.arange(n_values)[None] - n_values * np.asarray(thresholds)[:, None]
        part = np.clip(beyond + 1.0, 0.0, 1.0) if self.continuous else (beyond > 0).astype(float)
        alarm, hit = (self.p * part[None]).sum(axis=2)
        true, false = self.prevalence * hit, (1.0 - self.prevalence) * alarm
        ones, zeros = self.share @ self.prevalence, self.share @ (1.0 - self.prevalence)
        with np.errstate(invalid="ignore"):  # a precision of nobody keeps its limit
            precise, every = true / (true + false), self.share @ true / (self.share @ (true + false))
        return {
            "miss": 1.0 - hit,
            "alarm": alarm,
            "selected": true + false,
            "all": float(self.share @ (true + false)),
            "precise": np.nan_to_num(precise, nan=1.0),
            "every": float(np.nan_to_num(every, nan=1.0)),
            "classes": max(1.0 - self.share @ true / ones, self.share @ false / zeros),
        }


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
            "precision by group ≥ .7": r["precise"].min() >= 0.7 - ok,
            "precision ≥ .7": r["every"] >= 0.7 - ok,
            "worst class ≤ .4": r["classes"] <= 0.4 + ok,
            "precision ≥ .5, miss ≤ .5 by group": r["precise"].min() >= 0.5 - ok
            and r["miss"].max() <= 0.5 + ok,
        }[name]
    )


def tabled(g: Any, y: Any, groups: int) -> tuple[Any, Any]:
    """Return the strata of rows, and the stratum of each row."""
    return Strata.of(y, g[:, None], np.ones(len(y)), (0, 1), ("g",), (tuple(range(groups)),))


def sequence(limits: Any, selection: Any, fresh: Any, groups: int, *, by_group: bool, worse: Any) -> Any:
    """Return the thresholds that pass a sequence, one for each group; None without a certificate."""
    about = []
    for s, g, y in (selection, fresh):
        strata, stratum = tabled(g, y, groups)
        rates = [each for limit in limits for each in limited_rates(limit, strata, stratum)]
        # The tests go towards more of the worse answer, and the last passed threshold has the least loss.
        about += [rates, ScoredRows(s, g if by_group else np.zeros_like(g), np.tile(worse, (len(s), 1)))]
    tests = ThresholdTests(groups if by_group else 1, *about[2:], *about[:2])
    return tests.thresholds(LEVEL)[0]


def shares(limits: Any, scores: Any, g: Any, y: Any, groups: int) -> list[Any]:
    """Return the shares of limits among rows."""
    strata, stratum = tabled(g, y, groups)
    nothing = np.zeros(len(y), dtype=np.intp)
    return [
        share
        for limit in limits
        for share in shares_of(
            limit,
            counted_answer(limit.rate, strata),
            [(s.name, s.rows) for s in limit.rate.samples(strata, stratum, nothing)],
        )
        or ()
    ]


def voting(of: list[Any], cluster: Any, rng: Any) -> list[Any]:
    """Return the shares with one random row of each cluster."""
    rank, found = rng.permutation(len(cluster)), []
    for share in of:
        rows = share.rows[np.argsort(rank[share.rows])]
        found.append(replace(share, rows=np.sort(rows[np.unique(cluster[rows], return_index=True)[1]])))
    return found


def ordered(rows: ScoredRows, others: ScoredRows, drawn: bool, rng: Any) -> tuple[ScoredRows, Any]:
    """Return rows, with places in the order of score and random number for scores if the rule draws."""
    breaks = TieBreaks.from_rows(rows, others, rng.random(len(rows.scores))) if drawn else None
    return (rows if breaks is None else breaks.rows), breaks


def setting(
    name: str, values: int, continuous: bool, groups: int, n: int, draws: int, seed: int, kind: str
) -> dict[str, Any]:
    """Return the numbers of certified and of false draws."""
    rng = np.random.default_rng(seed)
    population, limits = Population(values, groups, continuous, rng), LIMITS[name]
    compares, by_sequence = limits[0].compares, name in SEQUENCES
    by_group = SEQUENCES[name] if by_sequence else compares or (name != "capacity ≤ .2" and seed % 2 == 0)
    m = groups if by_group else 1
    ss, sg, sy = population.draw(max(300, n // 2), rng)
    losses = np.stack([sy == 1, sy == 0], axis=1).astype(float)
    selection = ScoredRows(ss, sg if by_group else np.zeros_like(sg), losses)
    on_selection = [] if by_sequence else shares(limits, ss, sg, sy, groups)
    certified = false = 0
    clustered, drawn = kind == "clusters", kind == "draws"
    mixed = clustered and name == CLUSTERED[0]
    known: dict[Any, Any] = {}
    ordered_selection, _ = ordered(selection, selection, drawn, rng)
    for _ in range(draws):
        if clustered:
            s, g, y, cluster = population.draw_clusters(n, rng, mixed=mixed)
            fresh = voting(shares(limits, s, g, y, groups), cluster, rng)
        else:
            s, g, y = population.draw(n, rng)
            fresh = [] if by_sequence else shares(limits, s, g, y, groups)
        if len(fresh) < len(on_selection):
            continue
        place = g if by_group else np.zeros_like(g)
        sizes = tuple(len(share.rows) for share in fresh)
        if by_sequence:
            worse = np.array([1.0, 0.0]) if seed % 3 else np.array([0.0, 1.0])
            rows_of = (ss, sg, sy), (s, g, y)
            found = sequence(limits, *rows_of, groups, by_group=by_group, worse=worse)
        elif compares:
            if sizes not in known:
                known[sizes] = ranks_of_comparison(
                    limits[0], sizes, ordered_selection, on_selection, LEVEL, ordered=drawn
                )
            reached = known[sizes]
            rows, breaks = ordered(ScoredRows(s, place, np.zeros((len(s), 2))), selection, drawn, rng)
            found = None if reached is None else at_ranks(fresh, reached, rows, m)
        else:
            ranks = ranks_of(fresh, sizes, m, LEVEL)
            worse = np.array([0.0, 1.0]) if fresh[0].answer == 0 else np.array([1.0, 0.0])
            none = np.zeros(0)
            empty = ScoredRows(none, none.astype(int), np.zeros((0, 2)))
            rows, breaks = ordered(ScoredRows(s, place, np.tile(worse, (len(s), 1))), empty, drawn, rng)
            found = one_sided(fresh, ranks, rows, m, empty)
        if found is not None:
            certified += 1
            thresholds, weights = breaks.mixture(found) if drawn else (found[None], np.ones(1))
            each = [population.rates(t if by_group else np.repeat(t, groups)) for t in thresholds]
            mean = {key: sum(w * r[key] for w, r in zip(weights, each, strict=True)) for key in each[0]}
            false += not keeps(name, mean)
    about = {"limit": name, "values": "continuous" if continuous else values, "groups": groups}
    about |= {"draws for equal scores": True} if drawn else {}
    about |= {"clusters": n} if clustered else {"rows": n}
    return about | {"by_group": by_group, "draws": draws, "certified": certified, "false": false}


def main() -> None:
    """Run all settings and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    draws, began, settings = parser.parse_args().draws, time.process_time(), []
    cases = [(name, scores, shape, "") for name in LIMITS for scores in SCORES for shape in SHAPES]
    cases += [
        (name, scores, shape, "clusters")
        for name in CLUSTERED
        for scores in CLUSTERED_SCORES
        for shape in CLUSTERED_SHAPES
    ]
    cases += [(name, scores, shape, "draws") for name in DRAWN for scores in SCORES[:2] for shape in SHAPES]
    for seed, (name, (values, continuous), (groups, n), kind) in enumerate(cases):
        settings.append(setting(name, values, continuous, groups, n, draws, seed, kind))
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
