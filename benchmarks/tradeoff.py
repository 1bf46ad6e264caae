"""The trade-off curve: its cost and its distance from HiGHS.

    python benchmarks/tradeoff.py --out results.json                   a minute or two

Times are those of the processor, on one thread. ``--out`` is updated part by part.
"""

import argparse
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from tailboost.solvers import BitLosses, cvar, least_worst_within, minimize_cvar_mixture, worst_mean_curve

SIZES = [(K, T) for K in (2, 10, 100) for T in (30, 300)]
TAILS = [(5_000, 40), (50_000, 40), (200_000, 40)]
ALPHA = 0.1


def seconds(call, repeats=3):
    """Median processor time, and the last answer."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        answer = call()
        times.append(time.process_time() - begin)
    return float(np.median(times)), answer


def by_scipy(errors, means, limit):
    """Least largest error within the limit."""
    T, m = errors.shape
    rows = np.vstack([np.c_[errors.T, -np.ones(m)], np.r_[means, 0.0]])
    found = linprog(
        np.r_[np.zeros(T), 1.0], rows, np.r_[np.zeros(m), limit], np.r_[np.ones(T), 0.0][None], [1.0],
        [(0, None)] * T + [(None, None)], method="highs",
    )  # fmt: skip
    return found.fun


def units(seed):
    """Random errors of T members on K units: the whole curve, and 50 programs of SciPy."""
    for K, T in SIZES:
        rng = np.random.default_rng([seed, K, T])
        errors = rng.beta(2, 5, (T, K))
        means = errors @ rng.dirichlet(np.full(K, 3.0))
        whole, curve = seconds(lambda e=errors, m=means: worst_mean_curve(e, m))
        limits = np.linspace(curve.mean[0], curve.mean[-1], 50)
        one, _ = seconds(lambda e=errors, m=means, b=limits[20]: least_worst_within(e, m, b))
        others, truth = seconds(lambda e=errors, m=means, b=limits: [by_scipy(e, m, x) for x in b], 1)
        yield {
            "units": K, "members": T, "points": len(curve),
            "curve_ms": 1e3 * whole, "one_budget_ms": 1e3 * one,
            "scipy_50_budgets_ms": 1e3 * others, "gap": curve.gap,
            "distance": float(np.abs(np.interp(limits, curve.mean, curve.worst) - truth).max()),
        }  # fmt: skip


def tails(seed):
    """Random zero-one losses: one budget, and the curve to 1e-5, beside one solve without a budget."""
    for n, T in TAILS:
        rng = np.random.default_rng([seed, n, T])
        hard = rng.random(n) ** 3
        losses = BitLosses(n)
        for _ in range(T):
            losses = losses.append(rng.random(n) < hard * rng.uniform(0.3, 1) + 0.1 * rng.random(n))
        means = losses.means()
        free, solution = seconds(lambda b=losses: minimize_cvar_mixture(b, ALPHA), 1)
        limit = 0.5 * (means.min() + means @ solution.mixture)
        one, found = seconds(lambda b=losses, m=means, x=limit: least_worst_within(b, m, x, ALPHA), 1)
        row = {"rows": n, "members": T, "alpha": ALPHA, "free_s": free, "one_budget_s": one, "gap": found.gap}
        if n <= 50_000:
            whole, curve = seconds(
                lambda b=losses, m=means: worst_mean_curve(b, m, ALPHA, tolerance=1e-5, max_points=200), 1
            )
            row |= {"points": len(curve), "curve_s": whole, "curve_gap": curve.gap}
            row["distance"] = float(np.interp(limit, curve.mean, curve.worst) - found.value)
        assert abs(cvar(losses.combine(found.mixture), ALPHA) - found.value) < 1e-12
        yield row


def show(row):
    """Print a row of figures."""
    print(
        "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True
    )


def main():
    """Print the figures and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    parser.add_argument("--only", help="one part: units or tails")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    parts = {"units": lambda: units(given.seed), "tails": lambda: tails(given.seed)}
    results = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    results["machine"] = f"{platform.machine()}, one thread"
    results["versions"] = {name: version(name) for name in ("numpy", "scipy", "highspy")}
    results["seed"] = given.seed
    for part, run in parts.items():
        if given.only in (None, part):
            results[part] = []
            for row in run():
                results[part].append(row)
                show(row)
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
