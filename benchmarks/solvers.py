"""Speed of the solvers beside open ones, in one process on one thread.

    python benchmarks/solvers.py --out results.json           every figure (an hour: others are slow)
    python benchmarks/solvers.py --quick --out results.json    the same on small problems, in a minute
    python benchmarks/solvers.py --growth                      slope of log time against log n and log T
    python benchmarks/solvers.py --hunt 2000                   random and adversarial problems, ten slowest

Every gap is recomputed in double precision from the weights that were returned. Times are those of the
processor, one thread for all. ``--out`` is updated part by part: what it holds of other parts stays.
"""

import argparse
import functools
import json
import platform
import resource
import time
from importlib.metadata import version
from pathlib import Path

import cvxpy as cp
import highspy
import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from tailboost.solvers import (
    BitLosses,
    cvar,
    entropic_weights,
    minimize_cvar_mixture,
    mixture_path,
    worst_case_weights,
)

ALPHAS = (0.01, 0.05, 0.1, 0.3, 0.5, 0.9)
#: Kind, rows and members of pools as fits make them.
POOLS = (
    ("bernoulli", 1_000_000, 12),
    ("trees10", 1_000_000, 12),
    ("bernoulli", 10_000_000, 12),
    ("bernoulli", 1_000_000, 24),
    ("trees2", 1_000_000, 24),
    ("trees10", 1_000_000, 24),
    ("bernoulli", 1_000_000, 40),
    ("trees2", 1_000_000, 40),
    ("trees10", 1_000_000, 40),
)
QUICK_POOLS = (("bernoulli", 50_000, 12), ("trees10", 50_000, 24))
KINDS = ("bernoulli", "trees2", "trees10", "complement", "repeated")


def make_losses(kind, n_members, n_units, seed):
    """Zero-one losses (T, n) of one of the five kinds."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    if kind.startswith("trees"):
        return boosted_trees(n_members, n_units, int(kind[5:]), rng)
    losses = rng.random((n_members, n_units)) < rng.beta(0.5, 2, n_units)
    if kind == "complement":
        losses[-2] = rng.random(n_units) < 0.3
        losses[-1] = ~losses[-2]
    elif kind == "repeated":
        losses[:, rng.random(n_units) < 0.3] = losses[:, :1]
    return losses


def boosted_trees(n_members, n_units, n_classes, rng):
    """Training losses of depth-5 trees boosted by w ~ exp(sum of past losses), with label noise."""
    features = rng.normal(size=(n_units, 20))
    score = features @ rng.normal(size=(20, n_classes))
    score += 2 * np.sin(features[:, :n_classes]) @ rng.normal(size=(n_classes, n_classes))
    labels = score.argmax(axis=1)
    noisy = rng.random(n_units) < 0.2
    labels[noisy] = rng.integers(0, n_classes, noisy.sum())
    total = np.zeros(n_units)
    losses = np.empty((n_members, n_units), dtype=bool)
    fitted = rng.random(n_units) < 20_000 / n_units
    for t in range(n_members):
        tree = DecisionTreeClassifier(max_depth=5, max_features=6, random_state=t)
        tree.fit(features[fitted], labels[fitted], np.exp(total - total.max())[fitted])
        losses[t] = tree.predict(features) != labels
        total += losses[t]
    return losses


def seconds(call, repeats=1):
    """Median processor time of a call, and its last result: other work on the machine does not count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = call()
        times.append(time.process_time() - start)
    return float(np.median(times)), result


def true_gap(solution, losses, alpha):
    """Duality gap from the mixture and the weights alone."""
    w = solution.unit_weights
    assert abs(w.sum() - 1) < 1e-10
    assert w.max() <= 1 / (alpha * w.size) * (1 + 1e-10)
    return cvar(losses.combine(solution.mixture), alpha) - losses.expectations(w).min()


def highs_dual(dense, alpha):
    """Solve the dual form of the LP, T + 1 rows and n + 1 bounded columns, by HiGHS directly."""
    n_members, n_units = dense.shape
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = n_members + 1, n_units + 1
    lp.col_cost_ = np.append(np.zeros(n_units), -1.0)
    lp.col_lower_ = np.append(np.zeros(n_units), -highspy.kHighsInf)
    lp.col_upper_ = np.append(np.full(n_units, 1 / (alpha * n_units)), highspy.kHighsInf)
    lp.row_lower_ = np.append(np.zeros(n_members), 1.0)
    lp.row_upper_ = np.append(np.full(n_members, highspy.kHighsInf), 1.0)
    columns = np.vstack([dense, np.ones(n_units, dtype=bool)]).T
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    counts = np.append(columns.sum(axis=1), n_members)
    lp.a_matrix_.start_ = np.append(0, counts.cumsum()).astype(np.int32)
    lp.a_matrix_.index_ = np.append(np.nonzero(columns)[1], np.arange(n_members)).astype(np.int32)
    lp.a_matrix_.value_ = np.append(np.ones(int(columns.sum())), np.full(n_members, -1.0))
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    highs.run()
    return -highs.getInfo().objective_function_value


def cvxpy_dual(dense, alpha, solver="HIGHS"):
    """Solve the same through CVXPY."""
    n_units = dense.shape[1]
    w, rho = cp.Variable(n_units), cp.Variable()
    bounds = [w >= 0, w <= 1 / (alpha * n_units)]
    problem = cp.Problem(cp.Maximize(rho), [dense.astype(float) @ w >= rho, cp.sum(w) == 1, *bounds])
    return problem.solve(solver=solver)


def mixture(n_units, n_members, seed, repeats, alphas=ALPHAS, with_others=True):
    """Cells of the mixture LP: five kinds of losses and the levels α."""
    rows = []
    for kind in KINDS:
        dense = make_losses(kind, n_members, n_units, seed)
        losses = BitLosses.from_rows(dense)
        for alpha in alphas:
            plain, _ = seconds(lambda: minimize_cvar_mixture(losses, alpha, canonical=False), repeats)
            ours, solution = seconds(lambda: minimize_cvar_mixture(losses, alpha), repeats)
            row = dict(kind=kind, alpha=alpha, n=n_units, T=n_members, seed=seed, seconds=ours)
            row |= dict(seconds_not_canonical=plain, method=solution.method, value=solution.value)
            row["gap"] = true_gap(solution, losses, alpha)
            if with_others:
                row["highspy"], value = seconds(lambda: highs_dual(dense, alpha))
                row["difference"], best = abs(value - solution.value), row["highspy"]
                if alpha == 0.1:
                    # The same solver with a compilation on top: one level shows how much.
                    row["cvxpy"], other = seconds(lambda: cvxpy_dual(dense, alpha))
                    row["difference"] = max(row["difference"], abs(other - solution.value))
                    best = min(best, row["cvxpy"])
                row["ratio"] = best / ours
            rows.append(row)
            show(row)
    return rows


def show(row):
    """Print one line of figures as they come."""
    print(
        "  ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True
    )


def mixture_summary(rows):
    """Median and worst of the cells, and the tied kinds against the others."""
    times = {kind: np.median([r["seconds"] for r in rows if r["kind"] == kind]) for kind in KINDS}
    tied = [r["seconds"] for r in rows if r["kind"] in ("complement", "repeated")]
    others = [r["seconds"] for r in rows if r["kind"] not in ("complement", "repeated")]
    summary = dict(
        median_seconds=float(np.median([r["seconds"] for r in rows])),
        slowest_seconds=max(r["seconds"] for r in rows),
        largest_gap=max(r["gap"] for r in rows),
        tied_over_others=float(np.median(tied) / np.median(others)),
        median_seconds_by_kind={k: float(v) for k, v in times.items()},
    )
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        summary |= dict(median_ratio=float(np.median(ratios)), lowest_ratio=min(ratios))
        summary["largest_difference"] = max(r["difference"] for r in rows)
    return summary


def words(sizes, seed, repeats, alphas=(0.1, 0.3)):
    """Pools with many rows of the same losses."""
    rows = []
    for kind, n_units, n_candidates in sizes:
        losses = packed(kind, n_candidates, n_units, seed)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for alpha in alphas:
            ours, solution = seconds(lambda: minimize_cvar_mixture(losses, alpha), repeats)
            memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
            row = dict(kind=kind, alpha=alpha, n=n_units, T=n_candidates, seconds=ours, gap=solution.gap)
            rows.append(row | dict(memory_gib=memory))
            show(rows[-1])
    return rows


def packed(kind, n_members, n_units, seed):
    """Losses as `make_losses` has them, or for very many units drawn one hypothesis at a time."""
    if n_units <= 1_000_000:
        return BitLosses.from_rows(make_losses(kind, n_members, n_units, seed))
    rng = np.random.default_rng(seed)
    difficulty, losses = rng.beta(0.5, 2, n_units), BitLosses(n_units)
    for _ in range(n_members):
        losses = losses.append(rng.random(n_units) < difficulty)
    return losses


def large(n_units, n_members, seed, alphas=ALPHAS):
    """Many units, streamed into bits; memory above the losses in GiB."""
    rng = np.random.default_rng(seed)
    difficulty = rng.beta(0.5, 2, n_units)
    losses, packing = BitLosses(n_units), 0.0
    for _ in range(n_members):
        row = rng.random(n_units) < difficulty
        spent, losses = seconds(lambda: losses.append(row))
        packing += spent
    rows = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for alpha in alphas:
        ours, solution = seconds(lambda: minimize_cvar_mixture(losses, alpha), 3)
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        row = dict(kind="bernoulli", alpha=alpha, n=n_units, T=n_members, seconds=ours, packing=packing)
        rows.append(row | dict(method=solution.method, gap=solution.gap, memory_gib=memory))
        show(rows[-1])
    return rows


def entropic(n_units, n_members, seed, clarabel):
    """All rounds, each started from the one before, and one cold round beside a general conic solver."""
    rows = []
    for kind in ("bernoulli", "trees2", "trees10"):
        dense = make_losses(kind, n_members, n_units, seed)
        for alpha in (0.1, 0.5):
            losses, start, spent, gaps = BitLosses(n_units), None, 0.0, []
            for member in dense:
                losses = losses.append(member)
                took, solution = seconds(lambda: entropic_weights(losses, alpha, 100.0, start=start))
                start, spent = solution.mixture, spent + took
                gaps.append(solution.gap)
            cold, _ = seconds(lambda: entropic_weights(losses, alpha, 100.0), 3)
            row = dict(
                kind=kind, alpha=alpha, n=n_units, T=n_members, all_rounds=spent, gap=max(gaps), cold=cold
            )
            if clarabel and kind == "trees2" and alpha == 0.1:
                density, gamma = cp.Variable(n_units), cp.Variable()
                problem = cp.Problem(
                    cp.Minimize(gamma - cp.sum(cp.entr(density)) / n_units / 100),
                    [
                        dense.astype(float) @ density / n_units >= 1 - gamma,
                        cp.sum(density) / n_units == 1,
                        density <= 1 / alpha,
                    ],
                )
                row["clarabel"], value = seconds(lambda: problem.solve(solver="CLARABEL"))
                row |= dict(difference=abs(value - solution.value), ratio=row["clarabel"] / cold)
            rows.append(row)
            show(row)
    return rows


def path(n_units, n_members, seed, points=50):
    """Many levels of α at once, against as many single solves."""
    rows = []
    for kind in KINDS:
        losses = BitLosses.from_rows(make_losses(kind, n_members, n_units, seed))
        alphas = np.linspace(0.02, 0.98, points)
        together, solutions = seconds(lambda: mixture_path(losses, alphas))
        single, others = seconds(lambda: [minimize_cvar_mixture(losses, a) for a in alphas])
        apart = max(abs(a.value - b.value) for a, b in zip(solutions, others, strict=True))
        row = dict(kind=kind, n=n_units, T=n_members, path=together, cold=single, share=together / single)
        rows.append(row | dict(difference=apart))
        show(rows[-1])
    return rows


def worst_case(n_units, seed, repeats):
    """Worst-case weights of all three balls, and the KL ball by a general root finder."""
    rng = np.random.default_rng(seed)
    # Two kinds of losses and two results lie in memory at a time. The first use of it can take longer than
    # solving, so it is used here before.
    np.ones((4, n_units))
    rows = []
    for name, losses in (
        ("normal", rng.normal(size=n_units)),
        ("exponential", rng.exponential(size=n_units)),
    ):
        for ball in ("kl", "chi2", "cvar"):
            for radius in (0.01, 0.5, 2.0):
                took, solution = seconds(lambda: worst_case_weights(losses, ball, radius=radius), repeats)
                row = dict(losses=name, ball=ball, radius=radius, n=n_units, seconds=took, gap=solution.gap)
                if ball == "kl":
                    took, value = seconds(lambda: kl_by_root_finder(losses, radius))
                    row |= dict(root_finder=took, ratio=took / row["seconds"])
                    row["difference"] = abs(value - solution.value)
                rows.append(row)
                show(row)
    return rows


def kl_by_root_finder(losses, radius):
    """Worst case in a KL ball by SciPy's Brent and logsumexp."""

    def excess(theta):
        log_total = logsumexp(theta * losses) - np.log(losses.size)
        w = np.exp(theta * losses - log_total) / losses.size
        return theta * (w @ losses) - log_total - radius

    theta = brentq(excess, 1e-9, 100.0, xtol=1e-12)
    return (logsumexp(theta * losses) - np.log(losses.size) + radius) / theta


def slope(sizes, times):
    """Slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growth(seed, quick):
    """Slopes of time in the number of units and of hypotheses."""
    result = {}
    units = [12_500, 25_000, 50_000] if quick else [62_500, 125_000, 250_000, 500_000, 1_000_000]
    members = [20, 40, 80] if quick else [25, 50, 100, 200, 300]
    for kind in ("bernoulli", "complement"):
        for alpha in (0.1, 0.5):
            times = []
            for n_units in units:
                losses = BitLosses.from_rows(make_losses(kind, 50, n_units, seed))
                times.append(seconds(lambda: minimize_cvar_mixture(losses, alpha), 3)[0])
            result[f"{kind} alpha={alpha} n"] = dict(sizes=units, seconds=times, slope=slope(units, times))
            times = []
            for n_members in members:
                losses = BitLosses.from_rows(make_losses(kind, n_members, 50_000, seed))
                times.append(seconds(lambda: minimize_cvar_mixture(losses, alpha), 3)[0])
            result[f"{kind} alpha={alpha} T"] = dict(
                sizes=members, seconds=times, slope=slope(members, times)
            )
    times = []
    for n_units in units:
        losses = packed("trees10", 12, n_units, seed)
        times.append(seconds(lambda: minimize_cvar_mixture(losses, 0.1), 5)[0])
    result["trees10 T=12 alpha=0.1 n"] = dict(sizes=units, seconds=times, slope=slope(units, times))
    for name, row in result.items():
        show({"case": name, "slope": row["slope"]})
    return result


def odd_losses(rng, n_members, n_units):
    """Losses that are hard for one method or the other, and the name of the difficulty."""
    losses = rng.random((n_members, n_units)) < rng.beta(0.5, 2, n_units)
    names = "plain complement constants repeated copies sparse dense float grid nested near same"
    name = rng.choice(names.split())
    if name == "complement":
        losses[-1] = ~losses[0]
    elif name == "constants":
        losses[-2:] = [np.arange(n_units) < 0.3 * n_units, np.arange(n_units) >= 0.3 * n_units]
    elif name == "repeated":
        losses[:, rng.random(n_units) < 0.5] = losses[:, :1]
    elif name == "copies":
        losses = losses[rng.integers(0, n_members, n_members)]
    elif name == "sparse":
        losses = rng.random(losses.shape) < 0.002
    elif name == "dense":
        losses = rng.random(losses.shape) < 0.98
    elif name == "float":
        losses = losses * rng.exponential(size=losses.shape)
    elif name == "grid":
        losses = np.round(rng.random(losses.shape), 1)
    elif name == "nested":
        losses = np.arange(n_units) < np.sort(rng.integers(0, n_units, n_members))[:, None]
    elif name == "near":
        losses = losses[:1] ^ (rng.random(losses.shape) < 0.001)
    elif name == "same":
        losses = np.repeat(losses[:1], n_members, axis=0)
    return str(name), losses


def hunt(count, seed):
    """Solve many random and adversarial problems; the ten slowest against the median of their size."""
    rows = []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        n_units, n_members = ((300, 5), (2000, 10), (2000, 40), (10_000, 30))[k % 4]
        name, losses = odd_losses(rng, n_members, n_units)
        alpha = float(rng.choice([1e-9, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99, rng.random()]))
        weigh = rng.integers(4)
        base = [None, None, rng.random(n_units) + 0.01, 10 ** rng.uniform(-6, 6, n_units)][weigh]
        took, solution = seconds(lambda: minimize_cvar_mixture(losses, alpha, base))
        row = dict(case=k, kind=name, n=n_units, T=n_members, alpha=alpha, base=int(weigh), seconds=took)
        rows.append(row | dict(method=solution.method, n_iter=solution.n_iter, gap=solution.gap))
        rows[-1]["call"] = functools.partial(minimize_cvar_mixture, losses, alpha, base)
        if k >= 100 and took <= 5 * np.median([r["seconds"] for r in rows if r["n"] == n_units]):
            del rows[-1]["call"]
    for row in rows:
        if "call" in row:  # slow by chance, or for a reason?
            row["seconds"] = min(row["seconds"], *(seconds(row["call"])[0] for _ in range(2)))
            del row["call"]
    for size in {(r["n"], r["T"]) for r in rows}:
        group = [r for r in rows if (r["n"], r["T"]) == size]
        median = float(np.median([r["seconds"] for r in group if r["method"] != "closed-form"]))
        for row in group:
            row["times_median"] = row["seconds"] / median
    slowest = sorted(rows, key=lambda r: -r["times_median"])[:10]
    for row in slowest:
        show(row)
    methods = {m: sum(r["method"] == m for r in rows) for m in {r["method"] for r in rows}}
    show(dict(count=count, largest_gap=max(r["gap"] for r in rows), methods=methods))
    return dict(slowest=slowest, methods=methods, largest_gap=max(r["gap"] for r in rows))


def main():
    threadpool_limits(1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", help="write all figures to this JSON file")
    parser.add_argument("--quick", action="store_true", help="small problems")
    parser.add_argument("--growth", action="store_true", help="slopes only")
    parser.add_argument("--hunt", type=int, metavar="N", help="N random and adversarial problems only")
    parser.add_argument("--only", help="one part: mixture, large, words, huge, entropic, path or worst_case")
    parser.add_argument("--alone", action="store_true", help="do not run the other solvers")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    packages = ("numpy", "scipy", "highspy", "cvxpy", "clarabel", "scikit-learn")
    results = {}
    if options.out and Path(options.out).exists():
        results = json.loads(Path(options.out).read_text(encoding="utf-8"))
    results |= dict(
        machine=platform.processor() or platform.machine(),
        python=platform.python_version(),
        versions={name: version(name) for name in packages},
        seed=options.seed,
    )
    quick, seed, others = options.quick, options.seed, not options.alone
    n_units, n_members = (5000, 30) if quick else (50_000, 100)
    parts = dict(
        mixture=lambda: mixture(n_units, n_members, seed, 3, with_others=others),
        large=lambda: large(100_000 if quick else 1_000_000, n_members, seed),
        words=lambda: words(QUICK_POOLS if quick else POOLS, seed, 5),
        huge=lambda: large(200_000 if quick else 10_000_000, 50, seed, (0.01, 0.1, 0.5)),
        entropic=lambda: entropic(n_units, n_members, seed, others),
        path=lambda: path(n_units, n_members, seed, 10 if quick else 50),
        worst_case=lambda: worst_case(1_000_000 if quick else 10_000_000, seed, 3),
    )
    if options.hunt:
        parts = dict(hunt=lambda: hunt(options.hunt, seed))
    elif options.growth:
        parts = dict(growth=lambda: growth(seed, quick))
    elif options.only:
        parts = {options.only: parts[options.only]}
    for name, part in parts.items():
        print(f"-- {name}")
        results[name] = part()
        if name == "mixture":
            results["mixture_summary"] = mixture_summary(results["mixture"])
            show(results["mixture_summary"])
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
