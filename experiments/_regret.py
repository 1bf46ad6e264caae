"""Regret over preferences: the test cost of selections on training rows, for two sides; and twins.

A preference w in [0, 1] weighs the worst error against the overall error: the loss of a point is
``L_w = (1 − w) overall + w worst``. For every w, each side selects its point with the smallest L_w
**out of fold**. The result is L_w of this point **on test rows**. The difference is integrated over all w:
0 is level, below 0 our side costs less. Selections change at finitely many w, so the integral is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]

LEVEL, DRAWS = 0.95, 10_000


@dataclass(frozen=True)
class Points:
    """Points of one side: (overall, worst) error of each.

    Parameters
    ----------
    out_of_fold, test : ndarray of shape (P, 2), in [0, 1]
        Errors out of fold on training rows, and on test rows.
    """

    out_of_fold: Floats
    test: Floats

    @classmethod
    def of(cls, out_of_fold: ArrayLike, test: ArrayLike) -> Points:
        """Return points from array-likes."""
        return cls(np.asarray(out_of_fold, dtype=np.float64), np.asarray(test, dtype=np.float64))


def cost(points: Points) -> float:
    """Return ∫₀¹ L_w on test rows of the point with the smallest L_w out of fold.

    Ties, such as copies of one point, count by their mean.
    """
    mean, worst = points.out_of_fold.T
    slope = worst - mean
    with np.errstate(divide="ignore", invalid="ignore"):  # parallel lines do not cross
        crossings = (mean[:, None] - mean) / (slope - slope[:, None])
    edges = np.unique(np.r_[0.0, crossings[(crossings > 0.0) & (crossings < 1.0)], 1.0])
    middle = (edges[1:] + edges[:-1]) / 2
    losses = mean + middle[:, None] * slope
    chosen = losses == losses.min(axis=1, keepdims=True)
    # Between two edges the choice is the same and its loss is linear: the value in the middle is the mean.
    on_test = points.test[:, 0] + middle[:, None] * (points.test[:, 1] - points.test[:, 0])
    return float(np.diff(edges) @ ((chosen * on_test).sum(axis=1) / chosen.sum(axis=1)))


@dataclass(frozen=True)
class Case:
    """A table with one kind of subgroups.

    Parameters
    ----------
    table : str
        Cases of one table share its rows.
    splits : sequence of (Points, Points)
        Ours and theirs, for each split.
    scale : float
        Divisor of the difference: random guess minus best single model, at w = ½. If this model is no
        better than the random guess, the case only counts unscaled.
    test_to_train : float > 0
        Test rows for one training row.
    """

    table: str
    splits: Sequence[tuple[Points, Points]]
    scale: float
    test_to_train: float


@dataclass(frozen=True)
class Regret:
    """Result of a comparison.

    Parameters
    ----------
    mean : float
        Mean over the cases, each divided by its scale: below 0 ours costs less.
    low, high : float
        95 % interval of the mean, by a bootstrap over the tables.
    unscaled : (float, float, float)
        The same three without division: hard tables then count like easy ones.
    cases : dict of str to (float, float)
        By case the mean over its splits and half the width of its 95 % interval, corrected for overlapping
        splits (see `corrected_half_width`); nan for a single split, both nan without a scale > 0.
    """

    mean: float
    low: float
    high: float
    unscaled: tuple[float, float, float]
    cases: dict[str, tuple[float, float]]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return {
            "mean": self.mean, "low": self.low, "high": self.high, "unscaled": self.unscaled,
            "cases": self.cases,
        }  # fmt: skip


def regret(cases: Mapping[str, Case], *, draws: int = DRAWS, seed: int = 0) -> Regret:
    """Return the regret over preferences of ours against theirs.

    Parameters
    ----------
    cases : mapping of str to Case
    draws : int, default=10,000
        Bootstrap samples of the tables.
    seed : int, default=0
        Of the bootstrap.

    Returns
    -------
    Regret
    """
    found: dict[str, tuple[float, float]] = {}
    plain = []
    for name, case in cases.items():
        less = np.array([cost(ours) - cost(theirs) for ours, theirs in case.splits])
        plain.append(float(less.mean()))
        scaled = less / case.scale if case.scale > 0 else np.full(len(less), np.nan)
        found[name] = float(scaled.mean()), corrected_half_width(scaled, case.test_to_train)

    def over_tables(values: Floats) -> tuple[float, float, float]:
        known = np.isfinite(values)
        if not known.any():
            return (float("nan"),) * 3
        values, titles = values[known], np.array([case.table for case in cases.values()])[known]
        of = np.unique(titles, return_inverse=True)[1]
        totals, counts = np.bincount(of, weights=values), np.bincount(of)
        drawn = np.random.default_rng(seed).integers(0, len(counts), size=(draws, len(counts)))
        resampled = totals[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(values.mean()), float(low), float(high)

    scaled_means = np.array([mean for mean, _ in found.values()])
    return Regret(*over_tables(scaled_means), over_tables(np.array(plain)), found)


def corrected_half_width(values: ArrayLike, test_to_train: float) -> float:
    """Return half the width of the 95 % interval of a mean over random splits of the same rows.

    As `tailboost.app.report.results.resampled_interval`: the variance of the mean is
    ``(1/r + n_test/n_train) s²``. nan for a single split.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size < 2:
        return float("nan")
    quantile = stats.t.ppf((1 + LEVEL) / 2, x.size - 1)
    return float(quantile * x.std(ddof=1) * np.sqrt(1 / x.size + test_to_train))


def twin_share(
    sizes: Sequence[Sequence[int]], errors: ArrayLike, agreement: float, within: float,
    *, draws: int = 2_000, seed: int = 0,
) -> float:  # fmt: skip
    """Return how often a classifier is as good as its *twin* in overall and worst error, within a tolerance.

    A twin has the same true error on every subgroup. With probability ``agreement`` its errors fall on the
    same rows as the classifier's errors, otherwise on other rows. The twin's frequency is an upper
    reference.

    Parameters
    ----------
    sizes : sequence of J sequences of U int > 0
        Test rows of each subgroup in each of J splits; both numbers are averages over splits.
    errors : array-like of shape (U,), in [0, 1]
        The true errors of both.
    agreement : float in [0, 1]
    within : float ≥ 0
        Tolerance above the twin's number.
    draws : int, default=2,000
        Experiments drawn.
    seed : int, default=0

    Returns
    -------
    float
        From 0 to 1.
    """
    rng = np.random.default_rng(seed)
    n, e = np.asarray(sizes), np.asarray(errors, dtype=np.float64)
    shared = rng.binomial(n, agreement, size=(draws, *n.shape))
    wrong = rng.binomial(shared, e)
    points = []
    for _ in range(2):
        of_units = wrong + rng.binomial(n - shared, e)
        mean, worst = of_units.sum(axis=2) / n.sum(axis=1), (of_units / n).max(axis=2)
        points.append(np.stack([mean, worst], axis=2).mean(axis=1))
    ours, twin = points
    return float(np.mean((ours <= twin + within).all(axis=1)))
