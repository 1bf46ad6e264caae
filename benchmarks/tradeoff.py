"""The trade-off curve: its cost and its distance from HiGHS, and what members for small budgets buy.

    python benchmarks/tradeoff.py --out results.json                   cost and distance, a minute or two
    python benchmarks/tradeoff.py --data FOLDER --out results.json     also the experiment on tables, minutes

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
# Tables, their target, and columns that are no features.
TABLES = {
    "page_blocks": "class", "image_segmentation": "class", "taiwan_credit": "default",
    "winequality_red": "quality", "german_credit": "class", "abalone": "sex",
}  # fmt: skip
BUDGETS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)


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


# -- members for small budgets -------------------------------------------------------------------------------


def log_probabilities(X, y, X_new, seed):
    """Return logarithms of class probabilities, all classes weighing the same: out of fold, and of X_new."""
    from sklearn.model_selection import StratifiedKFold

    from tailboost.learners import LogitAdjustedClassifier

    K, even = y.max() + 1, np.ones(len(y))
    session = LogitAdjustedClassifier(n_jobs=1).open_session(X, y, K)
    table = np.empty((len(y), K))
    for fit, rest in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        inside = np.isin(np.arange(len(y)), fit)
        table[rest] = session.fit(even, 0, inside).table_.transform(X[rest])
    return table, session.fit(even, 0).table_.transform(X_new)


def pool(table, y, kind, n_rounds=30):
    """Class weights of a pool, their errors by class and mean errors: Hedge's rounds, plain ERM, and more."""
    K = table.shape[1]
    prior = np.bincount(y) / len(y)
    weights, errors, means = [], [], []

    def add(w):
        wrong = (table + np.log(w)).argmax(axis=1) != y
        weights.append(w)
        errors.append([wrong[y == k].mean() for k in range(K)])
        means.append(wrong.mean())

    if kind == "mean is a unit":  # three games in turn, for the budgets none, .01 and .03
        games = [(None, np.zeros(K + 1)), (0.01, np.zeros(K + 1)), (0.03, np.zeros(K + 1))]
        add(prior)
        for t in range(n_rounds):
            budget, losses = games[t % 3]
            u = np.exp(np.sqrt(8 * np.log(K + 1) / (n_rounds / 3)) * (losses - losses.max()))
            u[K] *= budget is not None
            u /= u.sum()
            add(u[:K] + u[K] * prior)
            losses[:K] += errors[-1]
            if budget is not None:
                limit = min(means) + budget
                value = least_worst_within(np.array(errors), np.array(means), limit).value
                losses[K] += np.clip(means[-1] - limit + value, 0, 1)
    else:
        losses = np.zeros(K)
        for _ in range(n_rounds):
            w = np.exp(np.sqrt(8 * np.log(K) / n_rounds) * (losses - losses.max()))
            add(w / w.sum())
            losses += errors[-1]
        add(prior)
    for share in np.arange(1, 8) / 8 if kind == "7 between" else ():
        w = prior**share
        add(w / w.sum())
    return np.array(weights), np.array(errors), np.array(means)


def tested(weights, mixture, table, y):
    """Largest class error and mean error of the mixture's argmax, and the largest of its draws."""
    shares = np.zeros(table.shape)
    for w, lam in zip(weights, mixture, strict=True):
        if lam > 0:
            shares[np.arange(len(y)), (table + np.log(w)).argmax(axis=1)] += lam
    wrong, drawn = shares.argmax(axis=1) != y, 1 - shares[np.arange(len(y)), y]
    classes = range(table.shape[1])
    return (
        max(wrong[y == k].mean() for k in classes), wrong.mean(), max(drawn[y == k].mean() for k in classes)
    )  # fmt: skip


def between(folder):
    """Test errors at budgets above the least mean error of any of the pools, averaged over three splits."""
    import pandas as pd
    from sklearn.model_selection import train_test_split

    kinds = ("game alone", "7 between", "mean is a unit")
    for name, target in TABLES.items():
        frame = pd.read_csv(Path(folder) / f"{name}.csv.gz", na_values="?")
        y = frame.pop(target)
        y = np.unique(y.clip(4, 7) if target == "quality" else y, return_inverse=True)[1]
        X = pd.get_dummies(frame).to_numpy(float)
        rows = {kind: [] for kind in kinds}
        for seed in range(3):
            X_fit, X_new, y_fit, y_new = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
            X_fit, y_fit = X_fit[:6000], y_fit[:6000]
            table, new = log_probabilities(X_fit, y_fit, X_new, seed)
            pools = {kind: pool(table, y_fit, kind) for kind in kinds}
            least = min(means.min() for _, _, means in pools.values())
            for kind, (weights, errors, means) in pools.items():
                found = [least_worst_within(errors, means, max(least + b, means.min())) for b in BUDGETS]
                chosen = [tested(weights, s.mixture, table, y_fit) for s in found]
                rows[kind].append(
                    [
                        (s.value, *tested(weights, s.mixture, new, y_new), abs(c[0] - s.value))
                        for s, c in zip(found, chosen, strict=True)
                    ]
                )
        for kind in kinds:
            value, worst, mean, drawn, off = np.mean(rows[kind], axis=0).T.tolist()
            yield {
                "table": name, "pool": kind, "chosen": value, "worst": worst, "mean": mean,
                "worst_drawn": drawn,
                "predict_off_the_curve": off,
            }  # fmt: skip


def main():
    """Print the figures and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    parser.add_argument("--data", help="folder of tables, for the experiment")
    parser.add_argument("--only", help="one part: units, tails or between")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    parts = {"units": lambda: units(given.seed), "tails": lambda: tails(given.seed)}
    if given.data:
        parts["between"] = lambda: between(given.data)
    results = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    results["machine"] = f"{platform.machine()}, one thread"
    results["versions"] = {name: version(name) for name in ("numpy", "scipy", "highspy")}
    results["seed"], results["budgets"] = given.seed, BUDGETS
    for part, run in parts.items():
        if given.only in (None, part):
            results[part] = []
            for row in run():
                results[part].append(row)
                if part != "between":
                    show(row)
    if results.get("between"):
        for kind in dict.fromkeys(row["pool"] for row in results["between"]):
            own = [row for row in results["between"] if row["pool"] == kind]
            for what in ("chosen", "worst", "mean", "worst_drawn", "predict_off_the_curve"):
                print(f"{kind:15s} {what:22s}", np.mean([row[what] for row in own], axis=0).round(4))
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
