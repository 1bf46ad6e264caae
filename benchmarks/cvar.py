"""CVaR of AdaLPBoost on test rows at seven tail masses, beside its first round and an even mixture.

    python benchmarks/cvar.py --data DIR --out cvar.json       eight tables, three splits
    python benchmarks/cvar.py --data DIR --only letter digits --who LPBoostClassifier --splits 1
    cd benchmarks; python -c "import cvar; cvar.slack()"       certified tails and shifts of known populations

One default fit on at most 6,000 rows, at most 10,000 test rows (MNIST: 3,000 rows of 14 x 14 pixels).
`reweight` gives the other tail masses. Processor seconds of the fit are beside those of XGBoost in five folds
with the same trees. Digits are bundled with scikit-learn; the other tables are files of the folder.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import xgboost
from _tables import load
from scipy import stats
from sklearn.model_selection import StratifiedKFold

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.tail import UPPER, worst_mean
from tailboost.metrics import cvar
from tailboost.rates.bounds import betting_upper
from tailboost.solvers import worst_case_weights

ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9)
TABLES = (
    "letter", "image_segmentation", "digits", "mnist",
    "page_blocks", "taiwan_credit", "adult", "german_credit",
)  # fmt: skip
TREES = {"n_estimators": 40, "max_depth": 5, "learning_rate": 0.3, "max_bin": 64, "n_jobs": 1}
LEVEL = 0.05
MOST_ROWS, MOST_JUDGED, IMAGES = 6_000, 10_000, 3_000


def seconds(call: Any) -> float:
    """Processor seconds of a call."""
    began = time.process_time()
    call()
    return round(time.process_time() - began, 3)


def cross_validate(X: Any, y: Any) -> None:
    for a, b in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        xgboost.XGBClassifier(**TREES).fit(X[a], y[a]).predict(X[b])


def measure(name: str, split: int, who: str, folder: Path | None) -> dict[str, Any]:
    """Return the CVaR of a fit on test rows."""
    X, y, _ = load(name, folder)
    order = np.random.default_rng(split).permutation(len(y))
    n = min(IMAGES if name == "mnist" else MOST_ROWS, int(0.6 * len(y)))
    a, b = order[:n], order[n : n + MOST_JUDGED]
    Z, z, K = X[b], y[b], int(y.max()) + 1
    clf = getattr(tb, who)(random_state=0)
    fit = seconds(lambda: clf.fit(X[a], y[a]))
    wrong = np.array([model.predict(Z) != z for model in clf.estimators_], dtype=float)
    T = clf.n_iter_
    found: dict[str, Any] = {"table": name, "split": split, "rows": n, "judged": len(z), "classes": K}
    found["rounds"] = T
    found |= {"fit_seconds": fit, "xgboost_cv_seconds": seconds(lambda: cross_validate(X[a], y[a]))}
    found["predict_20000_seconds"] = seconds(lambda: clf.predict(Z[np.resize(np.arange(len(Z)), 20_000)]))
    found["error"] = {"round 1": wrong[0].mean(), "last round": wrong[T - 1].mean()}
    found["cvar"] = {}
    for alpha in ALPHAS:
        mixed = clf.reweight(alpha=alpha)
        by = {
            "ours": 1.0 - mixed.predict_distribution(Z)[np.arange(len(z)), z],
            "round 1": wrong[0],
            "even": wrong[:T].mean(axis=0),
            "random guess": np.full(len(z), 1.0 - 1.0 / K),
        }
        found["cvar"][f"{alpha:g}"] = {what: round(float(cvar(loss, alpha)), 4) for what, loss in by.items()}
    return found


#: Losses of n rows of populations.
POPULATIONS = {
    "beta": lambda rng, n: rng.beta(0.3, 2, n),
    "one of twenty": lambda rng, n: np.where(rng.random(n) < 0.05, rng.beta(8, 2, n), rng.beta(1, 9, n)),
    "votes of ten": lambda rng, n: rng.binomial(10, rng.beta(0.4, 2, n)) / 10,
    "errors": lambda rng, n: (rng.random(n) < 0.04) * 1.0,
}


@cache
def berk_jones(n: int, first: int) -> Any:
    """Return lower confidence limits of the distribution at n sorted losses, all from the first on together.

    The limit at rank i is a quantile of Beta(i, n + 1 - i), which the i-th of n uniform numbers has, at the
    level that 10,000 simulated samples give.
    """
    rng, ranks = np.random.default_rng(0), np.arange(1, n + 1)[first:]
    least = []
    for _ in range(100):
        sample = np.sort(rng.random((100, n)), axis=1)[:, first:]
        least.append(stats.beta.cdf(sample, ranks, n + 1 - ranks).min(axis=1))
    return np.append(np.zeros(first), stats.beta.ppf(np.quantile(least, LEVEL), ranks, n + 1 - ranks))


def by_band(losses: Any, rate: Any) -> float:
    """Return the tail or shift of the largest distribution in the band of Berk and Jones, cut for a tail."""
    n = len(losses)
    first = int((1 - rate.level) * n - 2 * np.sqrt(rate.level * n)) if rate.kind == "tail" else 0
    masses = np.diff(berk_jones(n, max(first, 0)), prepend=0.0)
    return worst_mean(rate, np.append(np.sort(losses), 1.0), np.append(masses, 1.0 - masses.sum()))


def known(rate: Any, losses: Any) -> Any:
    """Return the bound that knows the best θ or t of a population, given by many of its losses."""
    if rate.kind == "tail":
        theta = np.quantile(losses, 1.0 - rate.level)
        return lambda sample: (
            theta
            + (1 - theta) / rate.level * betting_upper(np.maximum(sample - theta, 0) / (1 - theta), LEVEL)
        )
    t = 1.0 / worst_case_weights(losses, radius=rate.level).parameter
    return lambda sample: (
        t * rate.level
        + t * np.log1p(np.expm1(1 / t) * betting_upper(np.expm1(sample / t) / np.expm1(1 / t), LEVEL))
    )


def slack(draws: int = 100) -> None:
    """Print the mean distance of bounds from the truth over the populations, and how many are below it."""
    for rate in (rates.tail(0.1), rates.tail(0.3), rates.shift(0.05), rates.shift(0.5)):
        for n in (500, 2000):
            found = []
            for name, draw in POPULATIONS.items():
                rng = np.random.default_rng([len(name), n])
                many = draw(rng, 1_000_000)
                truth, best = worst_mean(rate, many), known(rate, many)
                for _ in range(draws):
                    losses = draw(rng, n)
                    bounds = UPPER[rate.kind](losses, rate.level, LEVEL), best(losses), by_band(losses, rate)
                    found.append([truth, *np.minimum(bounds, 1.0) - truth])
            means = np.mean(found, axis=0).round(3)
            print(f"| {rate!r} | {n:,} |", *means, "|", (np.array(found)[:, 1:] < 0).sum(axis=0), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the tables")
    parser.add_argument("--only", nargs="*", choices=TABLES, default=TABLES, help="some tables")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--who", default="AdaLPBoostClassifier", help="another classifier of the CVaR")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for name in args.only:
        for split in range(args.splits):
            found = measure(name, split, args.who, args.data)
            results.append(found)
            ours = [by["ours"] for by in found["cvar"].values()]
            took = found["fit_seconds"], found["xgboost_cv_seconds"]
            print(name, split, found["rounds"], *took, ours, flush=True)
    versions = {m.__name__: m.__version__ for m in (np, sklearn, xgboost, tb)}
    report = {"who": args.who, "versions": versions, "python": platform.python_version(), "results": results}
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
