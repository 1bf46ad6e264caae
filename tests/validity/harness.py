"""Populations whose true rates are counted, and how often certified rules break a limit there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import tailboost as tb

DEFERRED = 2
# Counted pairs (label, answer), and the pairs among which they are counted; answer 2 is deferral.
ALL = [(label, answer) for label in (0, 1) for answer in (0, 1, 2)]
RATES = {
    "error": ([(0, 1), (1, 0)], ALL),
    "answered_error": ([(0, 1), (1, 0)], [pair for pair in ALL if pair[1] < DEFERRED]),
    "deferred": ([(0, 2), (1, 2)], ALL),
    "miss": ([(1, 0)], [(1, 0), (1, 1), (1, 2)]),
    "false_alarm": ([(0, 1)], [(0, 0), (0, 1), (0, 2)]),
    "precision": ([(1, 1)], [(0, 1), (1, 1)]),
    "selected": ([(0, 1), (1, 1)], ALL),
}
LIMIT = re.compile(r"(?:(gap|ratio)\()?(\w+)\((?:1)?(?:, )?(?:by=(\w+))?\)+ (<=|>=) ([\d.]+)")


def excess(limit: str, cells: Any) -> float:
    """Return by how much confusion counts (groups, labels, answers) break a limit, negative if kept."""
    form, kind, by, sign, bound = LIMIT.fullmatch(limit).groups()
    counted, among = (np.zeros((2, 3)) for _ in range(2))
    for table, pairs in ((counted, RATES[kind][0]), (among, RATES[kind][1])):
        for pair in pairs:
            table[pair] = 1.0
    kept_axes = {"group": 0, "class": 1}
    axes = tuple({0, 1, 2} - {kept_axes.get(by)})
    top, bottom = (np.atleast_1d((cells * table).sum(axis=axes)) for table in (counted, among))
    rates = top[bottom > 0] / bottom[bottom > 0]
    if not len(rates):
        return -1.0
    if form == "gap":
        return float(np.ptp(rates)) - float(bound)
    if form == "ratio":
        return float(bound) * rates.max() - rates.min()
    if sign == "<=":
        return float(rates.max()) - float(bound)
    return float(bound) - float(rates.min())


@dataclass(frozen=True)
class Population:
    """A distribution over groups, values of a score and two labels."""

    mass: Any  # shape (groups, values, 2)
    scores: Any  # shape (values,)

    @classmethod
    def made(cls, shares: Any, prevalence: Any, separation: Any, values: int = 500) -> Population:
        """Return groups with normal scores by label, in a number of equal steps of the score."""
        edges = np.linspace(0, 1, values + 1)[1:-1]
        borders = np.r_[-np.inf, np.log(edges / (1 - edges)) / 1.5, np.inf]
        from scipy.stats import norm

        mass = np.zeros((len(shares), values, 2))
        for g, share in enumerate(shares):
            for label, part in enumerate((1 - prevalence[g], prevalence[g])):
                mass[g, :, label] = share * part * np.diff(norm.cdf(borders - separation[g] * label))
        return cls(mass, (np.arange(values) + 0.5) / values)

    def draw(self, n: int, rng: Any, rows_of_cluster: int = 1) -> dict[str, Any]:
        """Return arguments of `calibrate`: n independent clusters of equal rows, most often one row each."""
        cell = rng.choice(self.mass.size, n, p=self.mass.ravel() / self.mass.sum())
        cell = np.repeat(cell, rows_of_cluster)
        g, value, y = np.unravel_index(cell, self.mass.shape)
        rows = {"X": self.table(value), "y": y, "groups": pd.DataFrame({"group": g})}
        if rows_of_cluster > 1:
            rows["clusters"] = np.repeat(np.arange(n), rows_of_cluster)
        return rows

    def table(self, value: Any) -> Any:
        """Return the probabilities of the two labels for numbers of values."""
        return np.column_stack([1 - self.scores[value], self.scores[value]])

    def broken(self, rule: Any, limits: list[str], reads_groups: bool) -> bool:
        """Return whether the true rates of a rule break a limit."""
        G, V = self.mass.shape[:2]
        g, value = np.repeat(np.arange(G), V), np.tile(np.arange(V), G)
        given = {"groups": pd.DataFrame({"group": g})} if reads_groups else {}
        answers = np.asarray(rule.predict(self.table(value), **given)).astype(int)
        if any("deferred" in limit or "answered" in limit for limit in limits):
            answers = np.where(rule.defers(self.table(value), **given), DEFERRED, answers)
        cells = np.zeros((G, 2, 3))
        for label in (0, 1):
            np.add.at(cells, (g, label, answers), self.mass[g, value, label])
        return any(excess(limit, cells) > 0 for limit in limits)


def probabilities(X: Any) -> Any:
    """Return the probabilities that the table holds: the model of a score."""
    return np.asarray(X, dtype=float)


def false_certificates(
    population: Population,
    limits: list[str],
    *,
    n: int,
    draws: int,
    rows_of_cluster: int = 1,
    **calibrate: Any,
) -> tuple[int, int]:
    """Return how many draws of n rows certify a rule, and how many of these rules break a limit."""
    certified = false = 0
    for seed in range(draws):
        rows = population.draw(n, np.random.default_rng([seed, n]), rows_of_cluster)
        try:
            rule = tb.calibrate(probabilities, **rows, limits=limits, random_state=0, **calibrate)
        except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
            continue
        certified += 1
        false += population.broken(rule, limits, bool(calibrate.get("by_group")))
    return certified, false
