"""Useful and captured improvement of certified rules in populations with known truth, beside an oracle.

    python benchmarks/power.py --out CASES.json [--populations FILE.npz] [--draws N] [--only …] [--rows N …]
    python benchmarks/power.py --record CASES.json … [--before VERSION OLD.json …] [--populations FILE.npz]

The first command runs `calibrate`. The second one writes benchmarks/power.json and the picture of the page:
means over draws, the oracle, and the paired difference to the cases of another version.

A population is a distribution over groups, 200 values of a score, and two labels: made ones, the bundled
credit data with the scores of a boosted model, and those of a file (arrays NAME_M of shape
(groups, values, 2) and NAME_s, the scores). Each draw has independent rows, one batch for
`tailboost.calibrate`, which selects on a part of them.

Useful: certified, and at least a tenth of the way from the answer that is always safe (a constant, or
deferral of all rows) to the best rule within the limit. Captured: the part of this way, 0 without a
certificate. The oracle knows the population and tests the one rule that has the largest product of gain and
probability of a certificate, on all rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, t as student
from sklearn.ensemble import HistGradientBoostingClassifier

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.exact_tests import most_errors
from tailboost.rates.bounds import pair_p_value

RECORD = Path(__file__).with_suffix(".json")
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "power.png"
VALUES, USEFUL = 200, 0.1
LEAST_GAIN = 0.005  # populations in which a limit leaves less to gain are left out
TAUS = np.arange(6.0, -0.01, -0.1)  # standard deviations by which the oracle's rules are tighter
PAIR_TAUS = np.arange(5.0, -0.01, -0.5)
LIMITS: dict[str, tuple[str, float, Any]] = {
    "precision ≥ .95": ("precision", 0.05, lambda: [rates.precision(1) >= 0.95]),
    "precision ≥ .7": ("precision", 0.3, lambda: [rates.precision(1) >= 0.7]),
    "worst class ≤ .35": ("worst", 0.35, lambda: [rates.error(by="class") <= 0.35]),
    "answered error ≤ .1": ("answered", 0.1, lambda: [rates.answered_error() <= 0.1]),
    "precision by group ≥ .7": ("precisions", 0.3, lambda: [rates.precision(1, by="group") >= 0.7]),
    "odds gap ≤ .05": (
        "odds",
        0.05,
        lambda: [rates.gap(of(1, by="group")) <= 0.05 for of in (rates.miss, rates.false_alarm)],
    ),
    "miss by group ≤ .25": ("miss", 0.25, lambda: [rates.miss(1, by="group") <= 0.25]),
    "ratio of selection ≥ .8": ("ratio", 0.8, lambda: [rates.ratio(rates.selected(1, by="group")) >= 0.8]),
    "gap of selection ≤ .02": ("gap", 0.02, lambda: [rates.gap(rates.selected(1, by="group")) <= 0.02]),
}  # fmt: skip
PAIRED = ("odds", "ratio", "gap")
OF_GROUPS = ("precisions", "odds", "miss", "ratio", "gap")


# -- populations -------------------------------------------------------------------------------------------


def binned(p: Any, y: Any, g: Any) -> tuple[Any, Any]:
    """Return the mass by group, value of the score and label, and the mean score of each value."""
    edges = np.unique(np.quantile(p, np.linspace(0, 1, VALUES + 1)[1:-1]))
    place = np.searchsorted(edges, p, side="right")
    mass = np.zeros((int(g.max()) + 1, len(edges) + 1, 2))
    np.add.at(mass, (g, place, y), 1.0)
    return mass / mass.sum(), np.bincount(place, p) / np.bincount(place)


def made(shares: Any, prevalence: Any, separation: Any, slope: float, base: float) -> tuple[Any, Any]:
    """Return a population with normal scores by class in each group."""
    rng = np.random.default_rng(5)
    g = rng.choice(len(shares), 400_000, p=shares)
    y = (rng.random(len(g)) < np.array(prevalence)[g]).astype(int)
    x = rng.normal(size=len(g)) + np.array(separation)[g] * y
    return binned(1 / (1 + np.exp(slope**2 / 2 - slope * x - np.log(base / (1 - base)))), y, g)


def credit() -> tuple[Any, Any]:
    """Return the bundled credit data: scores of a model of 6,000 rows, groups by sex."""
    data = tb.datasets.load_credit_default()
    X, y = data.data.to_numpy(float), data.target.to_numpy().astype(int)
    g = np.unique(data.data["sex"] if "sex" in data.data else data.data.iloc[:, 1], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))
    fit, rest = order[:6000], order[6000:]
    model = HistGradientBoostingClassifier(max_depth=4, random_state=0).fit(X[fit], y[fit])
    return binned(model.predict_proba(X[rest])[:, 1], y[rest], g[rest])


def populations(file: Path | None) -> dict[str, tuple[Any, Any]]:
    """Return all populations by name."""
    found = {
        "two groups": made([0.7, 0.3], [0.35, 0.2], [1.8, 1.5], 1.7, 0.3),
        "four groups": made([0.5, 0.3, 0.15, 0.05], [0.4, 0.3, 0.3, 0.2], [1.6, 1.4, 1.8, 1.2], 1.7, 0.3),
        "rare class": made([0.5, 0.5], [0.12, 0.08], [2.4, 2.4], 2.4, 0.1),
        "credit": credit(),
    }
    if file is not None:
        with np.load(file) as arrays:
            found |= {
                name[:-2]: (arrays[name], arrays[name[:-2] + "_s"]) for name in arrays if name.endswith("_M")
            }
    return found


# -- truth -------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A population with a limit: what rules are worth, and what the best one is worth."""

    mass: Any
    scores: Any
    kind: str
    level: float

    def __post_init__(self) -> None:
        self.one = float(self.mass[..., 1].sum())
        ones = self.one
        fallback = {"miss": 1 - ones, "precision": ones, "precisions": ones, "answered": 1.0, "worst": 0.5}
        self.fallback = fallback.get(self.kind, min(ones, 1 - ones))
        rules = self.rules([0.0], 1e12)
        self.best = min([self.fallback, *(self.value(q) for q in rules)])

    def value(self, q: Any) -> float:
        """Return the error of a rule, or the share of deferred rows; q is P(1), NaN for deferral."""
        if self.kind == "answered":
            return float(self.mass[np.isnan(q)].sum())
        return float((self.mass[..., 1] * (1 - q) + self.mass[..., 0] * q).sum())

    def parts(self, q: Any) -> list[tuple[float, float]]:
        """Return (limited rate, mass that it is a part of) of a rule, by subgroup or class."""
        M = self.mass
        if self.kind == "answered":
            there, wrong = ~np.isnan(q), np.where(np.nan_to_num(q) > 0.5, M[..., 0], M[..., 1])
            return [_part(wrong[there].sum(), M[there].sum())]
        if self.kind == "precision":
            return [_part((M[..., 0] * q).sum(), (M.sum(2) * q).sum())]
        if self.kind == "worst":
            return [
                _part((M[..., 1] * (1 - q)).sum(), M[..., 1].sum()),
                _part((M[..., 0] * q).sum(), M[..., 0].sum()),
            ]
        if self.kind == "precisions":
            return [_part(m, n) for m, n in zip((M[..., 0] * q).sum(1), (M.sum(2) * q).sum(1), strict=True)]
        if self.kind == "miss":
            return [_part(m, n) for m, n in zip((M[..., 1] * (1 - q)).sum(1), M[..., 1].sum(1), strict=True)]
        of = {"odds": [M[..., 1], M[..., 0]]}.get(self.kind, [M.sum(2)])
        return [_part(a, b) for m in of for a, b in zip((m * q).sum(1), m.sum(1), strict=True)]

    def broken(self, q: Any) -> bool:
        """Return whether a rule breaks the limit."""
        r = np.array([rate for rate, _ in self.parts(q)])
        if self.kind not in PAIRED:
            return bool(r.max() > self.level + 1e-9)
        for each in r.reshape(2, -1) if self.kind == "odds" else [r]:
            beyond = (
                self.level * each.max() - each.min() if self.kind == "ratio" else np.ptp(each) - self.level
            )
            if beyond > 1e-9:
                return True
        return False

    def rules(self, taus: Any, n: float) -> list[Any]:
        """Return the least-cost rules within limits that are tighter by τ standard deviations with n rows."""
        M, G = self.mass, len(self.mass)
        if self.kind == "answered":
            order = np.argsort(-np.abs(self.scores - 0.5), kind="stable")
            one = self.scores[order] >= 0.5
            wrong = np.where(one, M[..., 0].sum(0)[order], M[..., 1].sum(0)[order]).cumsum()
            inside, found = M.sum((0, 2))[order].cumsum(), []
            sd = np.sqrt(self.level * (1 - self.level) / (n * inside))
            for tau in taus:
                keeps = np.flatnonzero(wrong / inside + tau * sd <= self.level)
                if len(keeps):
                    q = np.full(len(order), np.nan)
                    q[order[: keeps[-1] + 1]] = one[: keeps[-1] + 1]
                    found.append(np.tile(q, (G, 1)))
            return found
        S = np.concatenate([M[:, ::-1].cumsum(1)[:, ::-1], np.zeros((G, 1, 2))], 1)
        N = S[:, :1]
        error = (N[..., 1] - S[..., 1]) + S[..., 0]
        chosen = []
        for tau in taus:
            t = self._thresholds(S, N, error, tau, n)
            if t is not None:
                chosen.append((np.arange(M.shape[1]) >= np.asarray(t)[:, None]).astype(float))
        return chosen

    def _thresholds(self, S: Any, N: Any, error: Any, tau: float, n: float) -> Any:
        G, level = len(S), self.level
        sd = np.sqrt(level * (1 - level))
        if self.kind in ("precision", "worst"):
            A, total, cost = S.sum(0), N.sum(0), error.sum(0)
            with np.errstate(all="ignore"):
                if self.kind == "precision":
                    beyond = A[:, 0] / A.sum(1) + tau * sd / np.sqrt(n * A.sum(1)) - level
                else:
                    beyond = np.maximum(
                        1 - A[:, 1] / total[:, 1] + tau * sd / np.sqrt(n * total[:, 1]),
                        A[:, 0] / total[:, 0] + tau * sd / np.sqrt(n * total[:, 0]),
                    ) - level  # fmt: skip
            cost = np.where(np.nan_to_num(beyond, nan=1.0) <= 0, cost, np.inf)
            return np.full(G, cost.argmin()) if np.isfinite(cost).any() else None
        if self.kind == "precisions":
            with np.errstate(all="ignore"):
                beyond = S[..., 0] / S.sum(2) + tau * sd / np.sqrt(n * S.sum(2)) - level
            return np.where(np.nan_to_num(beyond, nan=0.0) <= 0, error, np.inf).argmin(1)
        if self.kind == "miss":
            beyond = 1 - S[..., 1] / N[..., 1] + tau * sd / np.sqrt(n * N[..., 1]) - level
            beyond[:, 0] = 0.0
            return np.where(beyond <= 0, error, np.inf).argmin(1)
        of = [S[..., 1] / N[..., 1], S[..., 0] / N[..., 0]] if self.kind == "odds" else [S.sum(2) / N.sum(2)]
        spread = 0.35 * np.sqrt(1 / (n * N.min(2).min() if self.kind == "odds" else n * N.sum(2).min()))
        u = np.linspace(0, 1, 61)
        if self.kind == "odds":
            low = np.array([(a, b) for a in u for b in u if a >= b - 0.05])
            widths = np.full((len(low), 2), max(level - tau * spread * 1.4, 0.004))
        else:
            low = np.linspace(0, 1, 401)[:, None]
            width = level - tau * spread * 1.4 if self.kind == "gap" else (
                low / np.minimum(1, level + tau * spread * 1.2 / np.maximum(low, 0.02)) - low)  # fmt: skip
            widths = np.maximum(np.broadcast_to(width, low.shape), 0.0)
        inside = np.ones((len(low), *error.shape), dtype=bool)
        for r, a, w in zip(of, low.T, widths.T, strict=True):
            inside &= (r >= a[:, None, None] - 1e-12) & (r <= (a + w)[:, None, None] + 1e-12)
        costs = np.where(inside, error, np.inf)
        totals = costs.min(2).sum(1)
        return costs[totals.argmin()].argmin(1) if np.isfinite(totals).any() else None

    def scored(self, q: Any | None) -> tuple[float, float, bool]:
        """Return (useful, captured, broken) of a certified rule; None is no certificate."""
        if q is None:
            return 0.0, 0.0, False
        part = (self.fallback - self.value(q)) / (self.fallback - self.best)
        return float(part >= USEFUL), max(0.0, part), self.broken(q)

    def passing(self, q: Any, n: int) -> float:
        """Return the probability that the exact tests of a rule pass on n rows, at the level of 5 %.

        Subgroups have their expected numbers of rows. For pairs it is a lower bound (union bound). A group in
        which all rows are selected misses none, and needs no test.
        """
        parts, power = [(rate, int(n * mass)) for rate, mass in self.parts(q)], 1.0
        if self.kind in PAIRED:
            factor, gap = (self.level, 0.0) if self.kind == "ratio" else (1.0, self.level)
            halves = [parts[: len(parts) // 2], parts[len(parts) // 2 :]] if self.kind == "odds" else [parts]
            for (r1, n1), (r2, n2) in (pair for each in halves for pair in combinations(each, 2)):
                power -= 1.0 - pair_power((r1, r2), (n1, n2), 0.05, factor=factor, gap=gap)
                if power <= 0.0:
                    return 0.0
            return power
        constant = {"miss": q.min(axis=1) == 1.0, "precisions": q.max(axis=1) == 0.0}.get(self.kind)
        for g, (rate, rows) in enumerate(parts):
            if constant is None or not constant[g]:
                most = most_errors(rows, self.level, 0.05) if rows else -1
                power *= float(binom.cdf(most, rows, rate))
        return power

    def oracle(self, n: int) -> tuple[float, float]:
        """Return useful and captured of the one rule with the largest product of gain and power."""
        best = (0.0, 0.0)
        for q in self.rules(TAUS if self.kind not in PAIRED else PAIR_TAUS, n):
            useful, captured, broken = self.scored(q)
            if not broken and captured > best[1]:
                power = self.passing(q, n)
                best = max(best, (power * useful, power * captured), key=lambda pair: pair[1])
        return best


def pair_power(
    rates: tuple[float, float], rows: tuple[int, int], level: float, *, factor: float, gap: float
) -> float:
    """Return the probability that the exact test passes for both orders of two groups with these true rates.

    The passing first counts are exact for some second counts and interpolated between them.
    """
    if min(rows) < 1:
        return 0.0
    (r1, r2), (n1, n2) = rates, rows

    def passes(errors: tuple[int, int], rows: tuple[int, int]) -> bool:
        return pair_p_value(errors, rows, factor=factor, gap=gap, level=level) <= level

    smallest, largest = map(int, binom.ppf([5e-7, 1 - 5e-7], n2, r2))
    nodes = np.unique(np.linspace(smallest, largest, 7).round().astype(int)).tolist()
    counts = range(n1 + 1)
    highs = [bisect_left(counts, True, key=lambda x: not passes((x, s), (n1, n2))) - 1 for s in nodes]
    lows = [bisect_left(counts, True, key=lambda x: passes((s, x), (n2, n1))) for s in nodes]
    second = np.arange(smallest, largest + 1)
    high, low = np.floor(np.interp(second, nodes, highs)), np.ceil(np.interp(second, nodes, lows))
    first_passes = np.maximum(binom.cdf(high, n1, r1) - binom.cdf(low - 1, n1, r1), 0.0)
    return float(binom.pmf(second, n2, r2) @ first_passes)


def _part(count: Any, of: Any) -> tuple[float, float]:
    return (float(count / of) if of > 0 else 0.0), float(of)


# -- procedures --------------------------------------------------------------------------------------------


def answers(classifier: Any, world: World, known: Any) -> Any:
    """Return the rule on all pairs of group and score, shape (groups, values); groups without rows get 0."""
    G, K = world.mass.shape[:2]
    q = np.zeros((G, K))
    g, s = np.repeat(known, K), np.tile(world.scores, len(known))
    X = np.column_stack([1 - s, s])
    given = {"groups": {"group": g}} if classifier.by_group else {}
    told = np.asarray(classifier.predict(X, **given), dtype=float)
    if world.kind == "answered":
        told = np.where(classifier.defers(X, **given), np.nan, told)
    q[known] = told.reshape(len(known), K)
    return q


def given(X: Any) -> Any:
    """Return the probabilities that the table holds."""
    return np.asarray(X, dtype=float)


def ours(world: World, limits: Any, rows: Any) -> tuple[Any, float]:
    """Return the certified rule of `calibrate` (None without one), and processor seconds."""
    g, b, y = rows
    X = np.column_stack([1 - world.scores[b], world.scores[b]])
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = tb.calibrate(
                given, X, y, groups={"group": g}, limits=limits(),
                objective=rates.deferred() if world.kind == "answered" else "error",
                by_group=True,
            )  # fmt: skip
    except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
        return None, time.process_time() - began
    except ValueError as error:
        if "none of them is among" not in str(error):
            raise
        return None, time.process_time() - began  # a group of few rows was not drawn
    seconds = time.process_time() - began
    return answers(found, world, np.unique(g)), seconds


def run(arguments: Any) -> None:
    """Print what is captured in each draw, and write all cases."""
    cases: list[dict[str, Any]] = []
    every = populations(arguments.populations)
    for repeat in range(arguments.first, arguments.first + arguments.draws):
        for n in arguments.rows:
            for limit in arguments.only or LIMITS:
                kind, level, limits = LIMITS[limit]
                for name, (mass, scores) in every.items():
                    if len(mass) == 1 and kind in OF_GROUPS:
                        continue
                    world = World(mass, scores, kind, level)
                    if world.fallback - world.best < LEAST_GAIN:
                        continue
                    rng = np.random.default_rng([sum(map(ord, name)), n, repeat])
                    cells = rng.choice(mass.size, n, p=mass.ravel())
                    rows = np.unravel_index(cells, mass.shape)
                    rule, seconds = ours(world, limits, rows)
                    useful, captured, broken = world.scored(rule)
                    cases.append(
                        {"population": name, "limit": limit, "rows": n, "draw": repeat, "useful": useful,
                         "captured": round(captured, 4), "broken": broken, "certified": rule is not None,
                         "seconds": round(seconds, 3)}
                    )  # fmt: skip
                here = [
                    c["captured"] for c in cases if (c["draw"], c["rows"], c["limit"]) == (repeat, n, limit)
                ]
                if here:
                    print(f"draw {repeat}  {n:6,} rows  {limit:24} captured {np.mean(here):.2f}", flush=True)
            if arguments.out:
                write(arguments.out, cases)


def write(file: Path, cases: list[dict[str, Any]]) -> None:
    """Write the cases, compactly."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    file.write_text(f'{{"cases": [\n{lines}\n]}}\n', encoding="utf-8")


def mean_of(differences: dict[str, list[float]]) -> tuple[float, float]:
    """Return the mean over populations and half its 95 % interval."""
    means = np.array([np.mean(each) for each in differences.values()])
    if len(means) < 2:
        return float(means.mean()), float("nan")
    return float(means.mean()), float(
        student.ppf(0.975, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5
    )


def cases_of(files: list[Path]) -> dict[Any, dict[str, Any]]:
    """Return the cases of files by population, limit, rows and draw."""
    cases = [case for file in files for case in json.loads(file.read_text(encoding="utf-8"))["cases"]]
    return {(c["population"], c["limit"], c["rows"], c["draw"]): c for c in cases}


def record(arguments: Any) -> None:
    """Write the record: a table by limit and rows, and paired differences."""
    version, *before = arguments.before or ["none"]
    new, old = cases_of(arguments.record), cases_of([Path(file) for file in before])
    every, table, paired = populations(arguments.populations), [], []
    for limit, (kind, level, _) in LIMITS.items():
        for n in sorted({key[2] for key in new if key[1] == limit}):
            here = {key: case for key, case in new.items() if key[1:3] == (limit, n)}
            names = sorted({key[0] for key in here})
            # The powers of pairs take minutes for each population.
            some = names if kind not in PAIRED else []
            best = np.array([World(*every[name], kind, level).oracle(n) for name in some]).reshape(-1, 2)
            row = {"limit": limit, "rows": n, "populations": len(names), "cases": len(here)}
            for what in ("useful", "captured", "broken", "seconds"):
                row[what] = round(float(np.mean([case[what] for case in here.values()])), 3)
            if len(best):
                row |= {"oracle useful": round(float(best[:, 0].mean()), 3)}
                row |= {"oracle captured": round(float(best[:, 1].mean()), 3)}
            table.append(row)
            print(table[-1], flush=True)
    for limit in [*LIMITS, None]:
        both = [key for key in new if key in old and limit in (key[1], None)]
        if both:
            row = {"limit": limit or "all", "cases": len(both)}
            for what in ("useful", "captured", "seconds"):
                each: dict[str, list[float]] = defaultdict(list)
                for key in both:
                    each[key[0]].append(new[key][what] - old[key][what])
                mean, half = mean_of(each)
                row[f"{what} before"] = round(float(np.mean([old[key][what] for key in both])), 3)
                row[f"{what} now"] = round(float(np.mean([new[key][what] for key in both])), 3)
                row[f"{what} difference"] = [round(mean, 3), round(half, 3)]
            paired.append(row)
            print(row, flush=True)
    earlier = json.loads(RECORD.read_text(encoding="utf-8"))["paired"]
    document = {
        "command": "python benchmarks/power.py, see its first lines",
        "populations": {
            name: [int(mass.shape[0]), round(float(mass[..., 1].sum()), 3)]
            for name, (mass, _) in every.items()
        },
        "table": table,
        "paired": earlier | ({version: paired} if paired else {}),
    }
    RECORD.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draw(table)


def draw(table: list[dict[str, Any]]) -> None:
    """Draw captured by rows for each limit, beside the oracle."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["limit"] for row in table))
    columns = 3
    fig, axes = plt.subplots(
        -(-len(names) // columns), columns, figsize=(9, 2.5 * -(-len(names) // columns)), sharey=True,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(axes.flat, names, strict=False):
        rows = [row for row in table if row["limit"] == name]
        n = [row["rows"] for row in rows]
        if "oracle captured" in rows[0]:
            oracle = [row["oracle captured"] for row in rows]
            ax.plot(n, oracle, "o--", color="grey", label="oracle, one tested rule")
        ax.plot(n, [row["captured"] for row in rows], "o-", color="C0", label="tailboost.calibrate")
        ax.set(xscale="log", ylim=(-0.03, 1.03), title=name, xticks=n, xticklabels=[f"{x:,}" for x in n])
        ax.minorticks_off()
        ax.grid(axis="y", alpha=0.3)
    for ax in axes.flat[max(0, len(names) - columns) : len(names)]:
        ax.set_xlabel("rows")
    axes[0, 0].set_ylabel("captured")
    axes[0, 0].legend(fontsize=8, loc="upper left", frameon=False)
    fig.savefig(PICTURE, dpi=130)


def main() -> None:
    """Run, or write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--populations", type=Path)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 10000])
    parser.add_argument("--only", nargs="+", choices=list(LIMITS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--record", type=Path, nargs="+")
    parser.add_argument("--before", nargs="+")
    arguments = parser.parse_args()
    (record if arguments.record else run)(arguments)


if __name__ == "__main__":
    main()
