"""Predict and fit in several threads at once, and count the failures; run by test_threads.py.

A separate process, so a crash is visible in the exit status. Prints one JSON object per model:
``{"model": …, "calls": …, "errors": …, "wrong": …, "shown": [a few errors]}``.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tailboost as tb
from tailboost.learners import HistBoostClassifier, HistTreeClassifier, StumpClassifier

N_THREADS = 8
CALLS_PER_LOAD = 5  # of a thread, before a cold model is loaded anew

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4)).astype(np.float32)
NOISE = rng.normal(size=120)
BINARY = (X[:, 0] + NOISE > 0).astype(int)
THREE = np.array(list("abc"))[BINARY + ((X[:, 1] > 0.5) & (BINARY == 1))]
TREES = HistBoostClassifier(n_estimators=4, max_depth=2)


def models() -> dict[str, tuple[Any, Any]]:
    """Return every learner and every classifier, unfitted, with labels."""
    found: dict[str, tuple[Any, Any]] = {
        "HistTree": (HistTreeClassifier(max_depth=2), BINARY),
        "HistTree, 3 classes": (HistTreeClassifier(max_depth=2), THREE), "HistBoost": (TREES, BINARY),
        "HistBoost, 3 classes": (TREES, THREE), "Stump": (StumpClassifier(), BINARY),
    }  # fmt: skip
    for name in sorted(name for name in tb.__all__ if name.endswith("BoostClassifier")):
        clf = getattr(tb, name)(random_state=0)
        few = {k: v for k, v in {"n_estimators": 3}.items() if k in clf.get_params()}
        found[name] = (clf.set_params(**few), BINARY)
    found["AdaLPBoostClassifier, trees"] = (
        tb.AdaLPBoostClassifier(HistTreeClassifier(max_depth=2), n_estimators=3, random_state=0), THREE,
    )  # fmt: skip
    try:
        from modules import mlp_100_100

        from tailboost.learners.torch import TorchClassifier
    except ImportError:
        return found
    net = TorchClassifier(mlp_100_100, steps=5, random_state=0)
    found["Torch"] = (net, THREE)
    found["AdaLPBoostClassifier, nets"] = (
        tb.AdaLPBoostClassifier(net, n_estimators=2, cv=2, random_state=0), THREE,
    )  # fmt: skip
    return found


def answers(model: Any) -> bytes:
    """Return all predictions of a model for the rows, as bytes."""
    method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    scores = getattr(model, method)(X) if hasattr(model, method) else np.empty(0)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in (scores, model.predict(X).astype("U")))


def together(tasks: list[Callable[[], bytes]], calls: int, expected: list[bytes]) -> tuple[list[str], int]:
    """Run each task several times in a separate thread; return errors and the number of wrong answers."""
    errors: list[str] = []
    wrong: list[int] = []
    start = threading.Barrier(len(tasks))

    def run(i: int) -> None:
        start.wait()
        for _ in range(calls):
            try:
                if tasks[i]() != expected[i]:
                    wrong.append(i)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}"[:120])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors, len(wrong)


def say(name: str, calls: int, errors: list[str], wrong: int) -> None:
    """Print one line at once: a crash later on must not swallow it."""
    shown = {"errors": len(errors), "wrong": wrong, "shown": sorted(set(errors))[:3]}
    print(json.dumps({"model": name, "calls": calls, **shown}), flush=True)


def predictions(calls: int, cold: bool, chosen: dict[str, tuple[Any, Any]]) -> None:
    """Predict with every model in all threads, ``calls`` times in each."""
    for name, (model, y) in chosen.items():
        fitted = model.fit(X, y)
        stored, expected = pickle.dumps(fitted), answers(fitted)
        shared, errors, wrong, done = fitted, [], 0, 0
        while done < calls:
            now = min(CALLS_PER_LOAD, calls - done) if cold else calls
            if cold:
                shared = pickle.loads(stored)
            task = [lambda shared=shared: answers(shared)] * N_THREADS
            more, others = together(task, now, [expected] * N_THREADS)
            errors, wrong, done = errors + more, wrong + others, done + now
        say(name, N_THREADS * done, errors, wrong)


def fits(calls: int, every: dict[str, tuple[Any, Any]]) -> None:
    """Fit clones of all models at the same time, eight at a time, and predict with each."""

    def fit(name: str) -> bytes:
        model, y = pickle.loads(pickle.dumps(every[name]))
        return answers(model.fit(X, y))

    names = list(every)
    alone = {name: fit(name) for name in names}
    for i in range(0, len(names), N_THREADS):
        some = [names[(i + j) % len(names)] for j in range(N_THREADS)]
        tasks = [lambda name=name: fit(name) for name in some]
        errors, wrong = together(tasks, calls, [alone[name] for name in some])
        say(f"fits of {', '.join(some)}", calls * N_THREADS, errors, wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["cold", "warm", "fits"], nargs="+")
    parser.add_argument("--calls", type=int, help="predictions with each model, or fits, in each thread")
    given = parser.parse_args()
    sys.setswitchinterval(1e-4)  # change threads often
    warnings.simplefilter("ignore")
    every = models()
    for what in given.what:
        if what == "fits":
            fits(given.calls, every)
        else:
            predictions(given.calls, what == "cold", every)
