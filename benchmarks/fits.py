"""The default fits beside five-fold cross-validated XGBoost of the same trees, and what busy machines cost.

    python benchmarks/fits.py [--quick] [--data DIR] [--out FILE]      fits and growth
    python benchmarks/fits.py --busy [--out FILE]                      beside 0, 1 and 2 other processes
    python benchmarks/fits.py --who NAME ...                           some classifiers alone
    python benchmarks/fits.py --profile [--sizes ...] [--data DIR]     where the processor time of a fit goes

Every fit has a process of its own, so that its peak memory is its own. Processor seconds are those of all
its threads, the less of two runs in turns with the peer's; XGBoost is fitted on four fifths five times and
predicts the others, with as many trees of the same depth as one fit of the default learner.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
import xgboost
from rounds import table
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import StratifiedKFold

import tailboost as tb
from tailboost.solvers import minimize_cvar_mixture

TREES = {
    "RobustMixtureClassifier": {"n_estimators": 100, "max_depth": 6, "learning_rate": 0.1},
    "WorstClassBoostClassifier": {"n_estimators": 10, "max_depth": 3},
    "AdaLPBoostClassifier": {"n_estimators": 50, "max_depth": 5, "learning_rate": 0.3},
    "GroupDROBoostClassifier": {"n_estimators": 10, "max_depth": 3},
}
# Where a sample of a fit belongs: the first of these functions, or files, that is on the stack.
PHASES = {
    "XGBoost's training": ("core.py:update", "core.py:train_one_iter", "_hist.py:softmax_gradients"),
    "growing the forest": ("_forest.py:batches",),
    "learning averages": ("_tables.py:averaging",),
    "selection": ("_games.py", "_search.py", "_choice.py"),
    "asking the models": ("_hist.py:predict", "_hist.py:predict_table"),
    "binning": ("_hist.py:__init__", "_table.py"),
    "mixture programs": ("minimize_cvar_mixture",),
}
TARGETS = {"letter": "lettr", "taiwan_credit": "default", "bank_full": "y", "adult": "income"}


def load(name: str, folder: str) -> tuple[Any, Any]:
    """Return numbers and class numbers: ``"n x d, K"`` is made up, others are files of the folder."""
    if " x " in name:
        size, K = name.split(", ")
        n, d = (int(v) for v in size.split(" x "))
        return table(n, d, int(K))
    if name == "a9a":
        X, y = load_svmlight_file(str(Path(folder) / "a9a.libsvm.gz"), n_features=123)
        return X.toarray().astype(np.float32), (y > 0).astype(int)
    frame = pd.read_csv(Path(folder) / f"{name}.csv.gz").drop(columns="split", errors="ignore")
    y = pd.factorize(frame.pop(TARGETS[name]), sort=True)[0]
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = pd.factorize(frame[column], sort=True)[0]
    return frame.to_numpy(np.float32), y


def measured(call: Any) -> dict[str, float]:
    """Processor and wall seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {"cpu": round(time.process_time() - cpu, 3), "wall": round(time.perf_counter() - wall, 3)}


def peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def fit(name: str, of: str, folder: str, n_jobs: int | None = 1) -> dict[str, Any]:
    """One fit and one prediction of a default classifier, or of XGBoost with its trees."""
    X, y = load(of, folder)
    before = peak_mb()
    if name.startswith("XGBoost"):
        params = TREES[name.removeprefix("XGBoost as ")]

        def cross_validate() -> None:
            for a, b in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
                xgboost.XGBClassifier(**params, n_jobs=n_jobs).fit(X[a], y[a]).predict(X[b])

        found = measured(cross_validate)
        clf = xgboost.XGBClassifier(**params, n_jobs=n_jobs).fit(X, y)
    else:
        clf = getattr(tb, name)(random_state=0, n_jobs=n_jobs)
        groups = {"groups": np.arange(len(y)) % 4} if name == "GroupDROBoostClassifier" else {}
        found = measured(lambda: clf.fit(X, y, **groups))
        found |= {"validation": clf.combiner_.pool.ledger.rows.words}
        if hasattr(clf, "n_iter_"):
            found |= {"rounds": clf.n_iter_}
    found["mb_above_data"] = round(peak_mb() - before, 1)
    if not name.startswith("XGBoost"):
        with tempfile.TemporaryDirectory() as there:
            tb.save_model(clf, Path(there) / "model.skops")
            found["file_mb"] = round((Path(there) / "model.skops").stat().st_size / 1e6, 2)
    Z = X[np.resize(np.arange(len(X)), 100_000)]
    found["predict_100k_cpu"] = min(measured(lambda: clf.predict(Z))["cpu"] for _ in range(2))
    return {"of": of, "who": name} | found


def profile(name: str, of: str, folder: str) -> dict[str, Any]:
    """Return the shares of a default fit's processor time by phase, from a thousand samples a second."""
    X, y = load(of, folder)
    groups = {"groups": np.arange(len(y)) % 4} if name == "GroupDROBoostClassifier" else {}
    spent = dict.fromkeys([*PHASES, "the rest"], 0.0)
    last = began = 0.0

    def sample(number: int, frame: Any) -> None:
        # A signal waits until a call into C ends: the time since the last one is all of the call's.
        nonlocal last
        stack = []
        while frame is not None:
            code = frame.f_code
            file = Path(code.co_filename).name
            stack += [file, code.co_name, f"{file}:{code.co_name}"]
            frame = frame.f_back
        phase = next((p for p, where in PHASES.items() if set(where) & set(stack)), "the rest")
        now = time.process_time()
        spent[phase] += now - last
        last = now

    make = getattr(tb, name)
    make(random_state=0, n_jobs=1).fit(X[:500], y[:500])  # what is imported late
    last = began = time.process_time()
    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, 1e-3, 1e-3)
    make(random_state=0, n_jobs=1).fit(X, y, **groups)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    seconds = time.process_time() - began
    shares = {phase: round(of_phase / seconds, 3) for phase, of_phase in spent.items()}
    return {"of": of, "who": name, "cpu": round(seconds, 2)} | shares


RUN = (
    "import sys, json, warnings; warnings.simplefilter('ignore'); import fits; "
    "print(json.dumps(getattr(fits, sys.argv[1])(*json.loads(sys.argv[2]))))"
)


def alone(function: str, *args: Any) -> dict[str, Any]:
    """Run a function of this file in a process of its own."""
    here = str(Path(__file__).parent)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", RUN, function, json.dumps(args)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    result: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return result


def slope(x: list[float], y: list[float]) -> float:
    """Slope of log y against log x."""
    return round(float(np.polyfit(np.log(x), np.log(y), 1)[0]), 2)


def compare(sizes: list[str], names: list[str], folder: str) -> list[dict[str, Any]]:
    """Default fits beside their XGBoost."""
    found = []
    for of in sizes:
        for name in names:
            runs = [[alone("fit", who, of, folder) for who in (name, f"XGBoost as {name}")] for _ in range(2)]
            ours, peer = (min(both, key=lambda run: run["cpu"]) for both in zip(*runs, strict=True))
            ours["times_xgboost_cv"] = round(ours["cpu"] / peer["cpu"], 2)
            ours["prediction_times_xgboost"] = round(ours["predict_100k_cpu"] / peer["predict_100k_cpu"], 1)
            found += [ours, peer]
            print(*(f"{k} {v}" for k, v in ours.items()), "| XGBoost", peer["cpu"], flush=True)
    return found


def fit_net() -> None:
    """Fit a net with two layers of 100 by the defaults."""
    from torch import nn

    from tailboost.learners.torch import TorchClassifier

    def module(shape: Any, n_classes: int) -> Any:
        layers = [nn.Linear(shape[0], 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(100, n_classes))

    X, y = table(2_000, 8, 2)
    TorchClassifier(module, device="cpu", random_state=0).fit(X.astype(np.float32), y)


def busy_work() -> dict[str, Any]:
    """Seconds of short and of longer calls with default threads, the median of several."""
    rng = np.random.default_rng(0)
    losses = rng.random((100, 50_000)) < 0.4 * rng.random((100, 1))
    X, y = table(5_000, 20, 2)
    clf = tb.AdaLPBoostClassifier(random_state=0).fit(X, y)
    Z = table(100_000, 20, 2)[0]
    calls = {
        "mixture solve 50,000 x 100": (lambda: minimize_cvar_mixture(losses, 0.1), 5),
        "AdaLPBoost fit 5,000 x 20": (lambda: tb.AdaLPBoostClassifier(random_state=0).fit(X, y), 3),
        "worst-class fit 5,000 x 20": (lambda: tb.WorstClassBoostClassifier(random_state=0).fit(X, y), 3),
        "AdaLPBoost prediction 100,000 x 20": (lambda: clf.predict(Z), 5),
    }
    if importlib.util.find_spec("torch"):
        calls["small net, fit 2,000 x 8"] = fit_net, 1
    found = {}
    for what, (call, repeats) in calls.items():
        if repeats > 1:
            call()
        runs = [measured(call) for _ in range(repeats)]
        found[what] = {k: round(float(np.median([r[k] for r in runs])), 3) for k in ("wall", "cpu")}
    return found


def busy(others: int) -> dict[str, Any]:
    """The same beside processes that only compute."""
    spin = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(others)]
    try:
        load = os.getloadavg()[0]
        return {"others": others, "load_before": round(load, 1), "calls": alone("busy_work")}
    finally:
        for process in spin:
            process.kill()
            process.wait()


def growth(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Log-log slopes of processor time against n with two classes, and against K on 10,000 rows."""
    found: dict[str, dict[str, float]] = {"n": {}, "K": {}}
    for name in TREES:
        made_up = [r for r in results if r["who"] == name and " x " in r["of"]]
        sizes = [(int(r["of"].split(" x ")[0]), int(r["of"].split(", ")[1]), r["cpu"]) for r in made_up]
        for what, at in (
            ("n", [(n, s) for n, K, s in sizes if K == 2]),
            ("K", [(K, s) for n, K, s in sizes if n == 10_000]),
        ):
            if len(at) > 1:
                found[what][name] = slope(*map(list, zip(*at, strict=True)))
    return found


def rounds_of(name: str, T: int) -> dict[str, Any]:
    """Processor seconds of a fit of T rounds without early stopping."""
    X, y = table(10_000, 20, 2)
    clf = getattr(tb, name)(n_estimators=T, n_iter_no_change=None, random_state=0, n_jobs=1)
    groups = {"groups": np.arange(len(y)) % 4} if name == "GroupDROBoostClassifier" else {}
    return {"who": name, "rounds": T} | measured(lambda: clf.fit(X, y, **groups))


def growth_in_rounds(names: list[str]) -> list[dict[str, Any]]:
    """Slopes of processor time against T, from 5 to 45 rounds."""
    found = []
    for name in names:
        runs = [alone("rounds_of", name, T) for T in (5, 15, 45)]
        found.append(
            {
                "who": name,
                "cpu": [r["cpu"] for r in runs],
                "slope": slope([5, 15, 45], [r["cpu"] for r in runs]),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="made-up tables of 10,000 rows")
    parser.add_argument("--busy", action="store_true", help="beside other processes")
    parser.add_argument("--profile", action="store_true", help="shares of the fits' time by phase")
    parser.add_argument("--rounds", action="store_true", help="growth with the number of rounds")
    parser.add_argument("--data", default="", help="folder with real tables")
    parser.add_argument("--sizes", nargs="*", help="tables instead of the usual ones")
    parser.add_argument(
        "--who", nargs="*", choices=TREES, default=list(TREES), help="classifiers instead of all"
    )
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    versions = {m.__name__: m.__version__ for m in (np, sklearn, xgboost, tb)}
    report: dict[str, Any] = {
        "versions": versions,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    if args.busy:
        report["busy"] = [busy(n) for n in (0, 1, 2)]
        print(json.dumps(report["busy"], indent=1))
    elif args.profile:
        sizes = args.sizes or ["10000 x 20, 2", "10000 x 20, 10", "100000 x 20, 2"]
        report["profile"] = [alone("profile", name, of, args.data) for of in sizes for name in args.who]
        print(pd.DataFrame(report["profile"]).to_string())
    elif args.rounds:
        report["slope_in_rounds"] = growth_in_rounds(
            [who for who in args.who if who != "RobustMixtureClassifier"]
        )
        print(json.dumps(report["slope_in_rounds"], indent=1))
    else:
        sizes = ["10000 x 20, 2", "10000 x 20, 10"]
        if not args.quick:
            sizes += ["100000 x 20, 2", "1000000 x 20, 2"] + (["a9a", *TARGETS] if args.data else [])
        report["fits"] = compare(args.sizes or sizes, args.who, args.data)
        report["slopes"] = growth(report["fits"])
        print(report["slopes"])
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
