"""Processor time and memory of solvers, fits, predictions and files, beside other libraries.

    python benchmarks/timing.py [PART ...] [--quick] [--alone] [--data DIR] [--out FILE]

Each part prints its rows and writes them to FILE, which keeps the rows of other parts. Seconds are processor
seconds of one thread, the median of several calls. ``--quick`` takes small problems, ``--alone`` leaves out
the other libraries. DIR holds the real tables of `fits`.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq, linprog
from scipy.special import logsumexp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.solvers import (
    entropic_weights,
    minimize_cvar_mixture,
    mixture_path,
    worst_case_weights,
    worst_mean_curve,
)

Row = dict[str, Any]
LIBRARIES = (
    "numpy", "scipy", "scikit-learn", "xgboost-cpu", "torch", "dask",
)  # fmt: skip
KINDS = ("bernoulli", "trees2", "trees10", "complement", "repeated")
ALPHAS = (0.01, 0.05, 0.1, 0.3, 0.5, 0.9)


def seconds(call: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the median processor seconds of a call, and its last result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = call()
        times.append(time.process_time() - start)
    return float(np.median(times)), result


def peak_mib() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(function: str, *arguments: Any) -> Row:
    """Return the result of a function of this file from a process of its own, for its peak memory."""
    command = [sys.executable, __file__, "--apart", function, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


# -- solvers -----------------------------------------------------------------------------------------------


def losses_of(kind: str, n_models: int, n: int, seed: int = 0) -> Any:
    """Return zero-one losses, models × rows: coin flips, boosted trees, or with ties on purpose."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    if kind.startswith("trees"):
        return boosted_trees(n_models, n, int(kind[5:]), rng)
    losses = rng.random((n_models, n)) < rng.beta(0.5, 2, n)
    if kind == "complement":
        losses[-2] = rng.random(n) < 0.3
        losses[-1] = ~losses[-2]
    elif kind == "repeated":
        losses[:, rng.random(n) < 0.3] = losses[:, :1]
    return losses


def boosted_trees(n_models: int, n: int, n_classes: int, rng: np.random.Generator) -> Any:
    """Return the training losses of trees of depth 5, boosted by exponential weights, with noisy labels."""
    X = rng.normal(size=(n, 20))
    score = X @ rng.normal(size=(20, n_classes))
    score += 2 * np.sin(X[:, :n_classes]) @ rng.normal(size=(n_classes, n_classes))
    y = np.where(rng.random(n) < 0.2, rng.integers(0, n_classes, n), score.argmax(axis=1))
    losses, total, fitted = np.empty((n_models, n), dtype=bool), np.zeros(n), rng.random(n) < 20_000 / n
    for t in range(n_models):
        tree = DecisionTreeClassifier(max_depth=5, max_features=6, random_state=t)
        tree.fit(X[fitted], y[fitted], np.exp(total - total.max())[fitted])
        losses[t] = tree.predict(X) != y
        total += losses[t]
    return losses


def by_highs(losses: Any, alpha: float) -> float:
    """Return the smallest CVaR of a mixture by HiGHS, from the dual program."""
    T, n = losses.shape
    rows = np.vstack([-losses.astype(float), np.ones(n)])[:T]
    found = linprog(
        np.r_[np.zeros(n), -1.0], np.c_[rows, np.ones(T)], np.zeros(T),
        np.r_[np.ones(n), 0.0][None], [1.0], [(0, 1 / (alpha * n))] * n + [(None, None)], method="highs",
    )  # fmt: skip
    return float(-found.fun)


def mixture(run: argparse.Namespace) -> Iterator[Row]:
    """The mixture with the smallest CVaR, beside HiGHS."""
    n, T = (5_000, 30) if run.quick else (50_000, 100)
    for kind in KINDS:
        dense = losses_of(kind, T, n)
        for alpha in ALPHAS:
            taken, found = seconds(lambda: minimize_cvar_mixture(dense, alpha))
            row = {"losses": kind, "alpha": alpha, "rows": n, "models": T, "seconds": taken, "gap": found.gap}
            if not run.alone:
                row["HiGHS"], value = seconds(lambda: by_highs(dense, alpha), 1)
                row |= {"ratio": row["HiGHS"] / taken, "difference": abs(value - found.value)}
            yield row


def large(run: argparse.Namespace) -> Iterator[Row]:
    """The same for many rows, in bytes; memory above the losses."""
    sizes = [(100_000, 30)] if run.quick else [(1_000_000, 12), (1_000_000, 100), (10_000_000, 12)]
    for n, T in sizes:
        rng = np.random.default_rng(0)
        difficulty = rng.beta(0.5, 2, n)
        losses = np.empty((T, n), dtype=bool)
        for row in losses:
            row[:] = rng.random(n) < difficulty
        before = peak_mib()
        for alpha in (0.1, 0.3, 0.9):
            taken, found = seconds(lambda: minimize_cvar_mixture(losses, alpha))
            row = {"rows": n, "models": T, "alpha": alpha, "seconds": taken, "gap": found.gap}
            yield row | {"MiB": peak_mib() - before}


def path(run: argparse.Namespace) -> Iterator[Row]:
    """Many tail masses at once, beside as many single programs."""
    n, T, points = (5_000, 30, 10) if run.quick else (50_000, 100, 50)
    for kind in KINDS:
        losses = losses_of(kind, T, n)
        alphas = np.linspace(0.02, 0.98, points)
        together, path = seconds(lambda: mixture_path(losses, alphas), 1)
        single, others = seconds(lambda: [minimize_cvar_mixture(losses, alpha) for alpha in alphas], 1)
        row = {"losses": kind, "points": points, "seconds": together, "single": single}
        difference = max(abs(a.value - b.value) for a, b in zip(path, others, strict=True))
        yield row | {"fraction": together / single, "difference": difference}


def entropic(run: argparse.Namespace) -> Iterator[Row]:
    """All rounds of a regularised game, each from the last one, and one round from nothing."""
    n, T = (5_000, 30) if run.quick else (50_000, 100)
    for kind in KINDS[:3]:
        dense = losses_of(kind, T, n)
        for alpha in (0.1, 0.5):
            start, total, gap = None, 0.0, 0.0
            for t in range(1, T + 1):
                taken, found = seconds(lambda: entropic_weights(dense[:t], alpha, 100.0, start=start), 1)
                start, total, gap = found.mixture, total + taken, max(gap, found.gap)
            cold, _ = seconds(lambda: entropic_weights(dense, alpha, 100.0))
            yield {"losses": kind, "alpha": alpha, "all rounds": total, "one round": cold, "gap": gap}


def by_root_finder(losses: Any, radius: float) -> float:
    """Return the worst case in a KL ball by Brent's method."""

    def excess(theta: float) -> float:
        log_total = logsumexp(theta * losses) - np.log(losses.size)
        w = np.exp(theta * losses - log_total) / losses.size
        return float(theta * (w @ losses) - log_total - radius)

    theta = brentq(excess, 1e-9, 100.0, xtol=1e-12)
    return float((logsumexp(theta * losses) - np.log(losses.size) + radius) / theta)


def worst_case(run: argparse.Namespace) -> Iterator[Row]:
    """Worst-case weights of KL and CVaR balls; the KL ball beside a root finder."""
    n = 1_000_000 if run.quick else 10_000_000
    losses = np.random.default_rng(0).normal(size=n)
    for ball in ("kl",):
        for radius in (0.01, 0.5, 2.0):
            taken, found = seconds(lambda: worst_case_weights(losses, radius=radius))
            row = {"ball": ball, "radius": radius, "rows": n, "seconds": taken, "gap": found.gap}
            if ball == "kl" and not run.alone:
                row["root finder"], value = seconds(lambda: by_root_finder(losses, radius), 1)
                row |= {"ratio": row["root finder"] / taken, "difference": abs(value - found.value)}
            yield row


def curve(run: argparse.Namespace) -> Iterator[Row]:
    """The whole trade-off curve of K subgroups, beside HiGHS at 50 budgets."""
    for K, T in [(10, 30)] if run.quick else [(K, T) for K in (2, 10, 100) for T in (30, 300)]:
        rng = np.random.default_rng([0, K, T])
        errors = rng.beta(2, 5, (T, K))
        means = errors @ rng.dirichlet(np.full(K, 3.0))
        whole, found = seconds(lambda: worst_mean_curve(errors, means))
        limits = np.linspace(found.mean[0], found.mean[-1], 50)
        row = {"subgroups": K, "models": T, "points": len(found), "seconds": whole}
        if not run.alone:
            row["HiGHS"], truth = seconds(lambda: [least_worst(errors, means, x) for x in limits], 1)
            row["difference"] = float(np.abs(np.interp(limits, found.mean, found.worst) - truth).max())
        yield row


def least_worst(errors: Any, means: Any, limit: float) -> float:
    """Return the smallest largest error of a mixture within a limit on its overall error, by HiGHS."""
    T, m = errors.shape
    rows = np.vstack([np.c_[errors.T, -np.ones(m)], np.r_[means, 0.0]])
    found = linprog(
        np.r_[np.zeros(T), 1.0], rows, np.r_[np.zeros(m), limit], np.r_[np.ones(T), 0.0][None], [1.0],
        [(0, None)] * T + [(None, None)], method="highs",
    )  # fmt: skip
    return float(found.fun)


def growth(run: argparse.Namespace) -> Iterator[Row]:
    """A selection within limits as classes or groups grow."""
    rng = np.random.default_rng(0)
    n, sizes = (5_000, (5, 10)) if run.quick else (20_000, (10, 20, 40, 80))
    for K in sizes:
        odds = np.exp(1.5 * rng.normal(size=(n, K)))
        P = odds / odds.sum(axis=1, keepdims=True)
        y = (P.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(0, K - 1)
        scores = tb.Scores(list(range(K)), list(range(K)))
        taken, _ = seconds(lambda: tb.tune(scores, P, y, limits=["miss(0) <= 30%"]))
        yield {"rows": n, "classes": K, "seconds": taken}
    n, sizes = (10_000, (3, 10)) if run.quick else (100_000, (10, 30, 100, 300))
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    for G in sizes:
        groups = {"group": rng.integers(0, G, n).astype(str)}
        limits = ["miss(1, by=group) <= 20%"]
        taken, _ = seconds(
            lambda: tb.tune(tb.Scores(0, 1), p[:, None], y, groups=groups, limits=limits, by_group=True)
        )
        yield {"rows": n, "groups": G, "seconds": taken}


# -- fits and predictions ----------------------------------------------------------------------------------

#: Trees of one fit of the default learner, for XGBoost in five folds.
TREES: dict[str, Row] = {
    "RobustMixtureClassifier": {"n_estimators": 50, "max_depth": 6, "learning_rate": 0.2},
    "WorstClassBoostClassifier": {"n_estimators": 10, "max_depth": 3},
    "AdaLPBoostClassifier": {"n_estimators": 40, "max_depth": 5, "learning_rate": 0.3, "max_bin": 64},
    "GroupDROBoostClassifier": {"n_estimators": 9, "max_depth": 3},
}
REAL = {"letter": "lettr", "taiwan_credit": "default", "bank_full": "y", "adult": "income"}


def table(n: int, d: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    """Return normal features, and labels from interactions, of which 20 % are random."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    y = np.searchsorted(np.quantile(score, np.arange(1, K) / K), score)
    return X, np.where(rng.random(n) < 0.2, rng.integers(0, K, n), y)


def load(name: str, folder: str) -> tuple[Any, Any]:
    """Return features and class numbers of "ROWS x COLUMNS, CLASSES", or of a file of the folder."""
    if " x " in name:
        size, K = name.split(", ")
        n, d = map(int, size.split(" x "))
        return table(n, d, int(K))
    frame = pd.read_csv(Path(folder) / f"{name}.csv.gz").drop(columns="split", errors="ignore")
    y = pd.factorize(frame.pop(REAL[name]), sort=True)[0]
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = pd.factorize(frame[column], sort=True)[0]
    return frame.to_numpy(np.float32), y


def one_fit(name: str, data: str, folder: str) -> Row:
    """Return the cost of a default fit, or of XGBoost in five folds with the trees of a default learner."""
    X, y = load(data, folder)
    before = peak_mib()
    if name.startswith("XGBoost"):
        import xgboost

        params = TREES[name.removeprefix("XGBoost as ")] | {"n_jobs": 1}

        def cross_validate() -> None:
            for a, b in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
                xgboost.XGBClassifier(**params).fit(X[a], y[a]).predict(X[b])

        taken, _ = seconds(cross_validate, 1)
        model = xgboost.XGBClassifier(**params).fit(X, y)
    else:
        threads = {"n_jobs": 1} if name == "RobustMixtureClassifier" else {}
        model = getattr(tb, name)(random_state=0, **threads)
        groups = {"groups": np.arange(len(y)) % 4} if name == "GroupDROBoostClassifier" else {}
        taken, _ = seconds(lambda: model.fit(X, y, **groups), 1)
    row = {"data": data, "classifier": name, "fit": taken, "MiB above the data": peak_mib() - before}
    many = X[np.resize(np.arange(len(X)), 100_000)]
    return row | {"predict 100,000": seconds(lambda: model.predict(many), 2)[0]}


def fits(run: argparse.Namespace) -> Iterator[Row]:
    """Default fits, beside XGBoost in five folds with the same trees."""
    sizes = ["10000 x 20, 2", "10000 x 20, 10"]
    if not run.quick:
        sizes += ["100000 x 20, 2", "1000000 x 20, 2", *(REAL if run.data else [])]
    for data in sizes:
        for name in run.who or TREES:
            row = apart("one_fit", name, data, run.data)
            if not run.alone:
                peer = apart("one_fit", f"XGBoost as {name}", data, run.data)
                row |= {"XGBoost": peer["fit"], "ratio": row["fit"] / peer["fit"]}
            yield row


def one_step(step: str, form: str, n: int) -> Row:
    """Return the cost of one step of the path on n rows, for a column of scores or a fitted model."""
    X, y = table(2 * n + 10_000, 20, 2)
    groups = np.arange(len(y)) % 4
    model: Any = HistGradientBoostingClassifier(random_state=0).fit(X[-10_000:], y[-10_000:])
    if form == "scores":
        X, model = pd.DataFrame({"p": model.predict_proba(X)[:, 1]}), tb.Scores("p", 1)
    limits = [tb.rates.miss(1, by="group") <= 0.25, tb.rates.deferred() <= 0.1]

    def tune(size: int) -> Any:
        named = {"group": groups[:size]}
        return tb.tune(model, X[:size], y[:size], groups=named, limits=limits)

    clf = None if step == "tune" else tune(min(n, 10_000))
    fresh, named = (X[n : 2 * n], y[n : 2 * n]), {"groups": {"group": groups[n : 2 * n]}}
    calls: dict[str, Callable[[], Any]] = {
        "tune": lambda: tune(n),
        "certify": lambda: tb.certify(clf, *fresh, **named),
        "calibrate": lambda: tb.calibrate(clf, *fresh, limits=limits, **named),
        "monitor": lambda: tb.Monitor(clf, tb.certify(clf, *fresh, **named)).add(
            X[2 * n : 3 * n], y[2 * n : 3 * n], groups={"group": groups[2 * n : 3 * n]}
        ),
        "predict": lambda: clf.predict(fresh[0]),
    }
    before = peak_mib()
    taken, _ = seconds(calls[step], 1)
    return {"step": step, "form": form, "rows": n, "seconds": taken, "MiB": peak_mib() - before}


def scale(run: argparse.Namespace) -> Iterator[Row]:
    """Each step of the path on 10^4 and 10^6 rows; only `tune` selects on more than 10^4 rows."""
    for n in (10_000,) if run.quick else (10_000, 1_000_000):
        for form in ("scores", "model"):
            for step in ("tune", "certify", "calibrate", "monitor", "predict"):
                yield apart("one_step", step, form, n)


# -- files, serving, draws, clusters -----------------------------------------------------------------------

TABLES = {"wine": tb.datasets.load_wine_quality, "credit": tb.datasets.load_credit_default}


def one_file(step: str, folder: str) -> Row:
    """Return the cost of writing or reading the model file of a folder."""
    path = Path(folder) / "m.model"
    if step == "save":
        model = pickle.loads((Path(folder) / "model.pkl").read_bytes())
    call = (lambda: tb.save_model(model, path)) if step == "save" else (lambda: tb.load_model(path))
    return {"seconds": seconds(call, 1)[0], "MiB": peak_mib()}


def files(run: argparse.Namespace) -> Iterator[Row]:
    """Size of a model file and of a pickle; seconds and memory to write and to read the file."""
    data = tb.datasets.load_credit_default()
    n = 3_000 if run.quick else len(data.data)
    for name in ("AdaLPBoostClassifier", "RobustMixtureClassifier"):
        threads = {"n_jobs": 1} if name == "RobustMixtureClassifier" else {}
        classifier = getattr(tb, name)(random_state=0, **threads)
        model = classifier.fit(data.data[:n], data.target[:n])
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "model.pkl").write_bytes(pickle.dumps(model))
            row = {"classifier": name, "rows": n, "save": apart("one_file", "save", folder)}
            row["load"] = apart("one_file", "load", folder)
            sizes = {key: (Path(folder) / file).stat().st_size / 1e6
                     for key, file in (("MB", "m.model"), ("pickle, MB", "model.pkl"))}  # fmt: skip
            yield row | sizes


def milliseconds(predict: Callable[[Any], Any], rows: list[Any]) -> list[float]:
    """Return the median and the 99 % quantile of the milliseconds of single rows."""
    taken = [seconds(lambda row=row: predict(row), 1)[0] for row in rows[:20] + rows][20:]
    return [round(1000 * float(np.quantile(taken, q)), 2) for q in (0.5, 0.99)]


def serving(run: argparse.Namespace) -> Iterator[Row]:
    """Single rows by `predict`; equal labels of the rule in Python and SQL."""
    calls = 50 if run.quick else 1_000
    for name, loader in TABLES.items():
        data = loader()
        X, y = data.data, np.asarray(data.target)
        order = np.random.default_rng(0).permutation(len(y))
        fitted = order[: min(3_000, len(y) // 2)]
        mix = tb.RobustMixtureClassifier(random_state=0).fit(X.iloc[fitted], y[fitted])
        row: Row = {"table": name, "mixture": milliseconds(mix.predict, [X.iloc[[i]] for i in order[:calls]])}
        labels, rule = mix.predict(X), mix.rule_
        P = {m: mix.named_estimators_[m].predict_proba(X) for m in rule.weights}
        row["unequal, rule"] = int((rule.predict(P) != labels).sum())
        if len(rule.weights) == 1:  # a rule that weighs several models has no SQL
            names = [f'"{m}_{label}"' for m in rule.weights for label in rule.classes]
            base = sqlite3.connect(":memory:")
            base.execute(f"create table t (row_ integer, {', '.join(f'{c} double' for c in names)})")
            values = [(i, *p) for i, p in enumerate(np.hstack([P[m] for m in rule.weights]).tolist())]
            base.executemany(f"insert into t values (?, {', '.join('?' * len(names))})", values)
            found = base.execute(f"select {rule.to_sql()} from t order by row_").fetchall()
            row["unequal, SQLite"] = int((np.array([label for (label,) in found]) != labels).sum())
        yield row


def cluster(run: argparse.Namespace) -> Iterator[Row]:
    """Scores of a model that a Dask cluster trained, gathered, and a rule on them: processor seconds."""
    import dask
    import dask.array as da
    from dask.distributed import Client, LocalCluster
    from xgboost.dask import DaskXGBClassifier

    n = 20_000 if run.quick else 1_000_000
    X, y = table(n, 20, 2)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as local, Client(local) as client:

        def spent() -> float:
            return time.process_time() + sum(client.run(time.process_time).values())

        lazy, labels = da.from_array(X, (n // 20, 20)), da.from_array(y, n // 20)
        half = n // 2
        model = DaskXGBClassifier(n_estimators=50, max_depth=5).fit(lazy[:half], labels[:half])
        start = spent()
        scores, y_new = dask.compute(model.predict_proba(lazy[half:])[:, 1], labels[half:])
        yield {"call": "gathered", "rows": n - half, "seconds": spent() - start}
        start = spent()
        tb.calibrate(tb.Scores("p", 1), pd.DataFrame({"p": scores}), y_new, limits=["miss(1) <= 20%"])
        yield {"call": "calibrate", "rows": n - half, "seconds": spent() - start}


def one_table(how: str, folder: str, T: int) -> Row:
    """Return seconds and peak memory of a boosting fit on files, in memory or by partitions."""
    import dask
    import dask.dataframe as dd
    import pyarrow.dataset as ds

    from tailboost import published

    y = np.load(f"{folder}/y.npy")
    imports = peak_mib()
    start = time.process_time()
    files = ds.dataset(f"{folder}/X")
    X = {
        "memory": lambda: files.to_table().to_pandas(),
        "Dask": lambda: dd.read_parquet(f"{folder}/X"),
        "files": lambda: files,
    }[how]()
    with dask.config.set(scheduler="synchronous"):
        clf = published.average_boost("tree", T=T, random_state=0).fit(X, y)
        fit = time.process_time() - start
        size = {"fit": fit, "MiB": peak_mib() - imports}
        start = time.process_time()
        clf.predict(X)
    loss = float(clf.weighted_losses_.mean())
    return {"X": how, "rows": len(y), "T": T, **size, "predict": time.process_time() - start, "loss": loss}


def streamed(run: argparse.Namespace) -> Iterator[Row]:
    """A fit on a table of 30 columns in Parquet files: in memory, and by partitions of 100,000 rows."""
    n_files = 2 if run.quick else 30
    with tempfile.TemporaryDirectory() as folder:
        labels = []
        (Path(folder) / "X").mkdir()
        for i in range(n_files):
            X, y = table(100_000, 30, 2, seed=i)
            frame = pd.DataFrame(np.asarray(X, dtype=np.float32), columns=[f"x{j}" for j in range(30)])
            frame.to_parquet(f"{folder}/X/{i:03}.parquet")
            labels.append(y)
        np.save(f"{folder}/y.npy", np.concatenate(labels))
        for how in ("memory", "Dask", "files"):
            yield apart("one_table", how, folder, 10)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    part.__name__: part
    for part in (
        mixture, large, path, entropic, worst_case, curve, growth, fits, scale, files, serving, cluster,
        streamed,
    )
}  # fmt: skip


def text(value: Any) -> str:
    """Return a figure with three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run parts, print their rows and write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small problems")
    parser.add_argument("--alone", action="store_true", help="without other libraries")
    parser.add_argument("--data", default="", help="folder with real tables")
    parser.add_argument("--who", nargs="*", choices=TREES, help="classifiers of `fits`")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--apart", nargs=2, help=argparse.SUPPRESS)
    run = parser.parse_args()
    warnings.simplefilter("ignore")
    if run.apart:
        print(json.dumps(globals()[run.apart[0]](*json.loads(run.apart[1]))))
        return
    record = json.loads(run.out.read_text("utf-8")) if run.out and run.out.exists() else {}
    record["machine"] = {"python": platform.python_version(), "cores": os.cpu_count()}
    for library in LIBRARIES:
        try:
            record["machine"][library] = version(library)
        except PackageNotFoundError:
            continue
    for part in run.parts or PARTS:
        record[part] = []
        for row in PARTS[part](run):
            record[part].append(row)
            print(part, *(f"{name}: {text(value)};" for name, value in row.items()), flush=True)
        if run.out:
            run.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
