"""Fit every method and print digests of its answers; run by test_determinism.py in separate processes.

Prints one JSON object: for each method the digests of its answers, with each ``n_jobs`` and after
storage.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from tailboost import load_model, save_model
from tailboost.app.registry import METHODS
from tailboost.core import long_work as threads

JOBS = (1, 2, -1)
ROUNDS = 3


def digest(content):
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def table():
    """Return features, and labels and groups as text: hash seeds could change their order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    groups = rng.choice(["north", "south", "west"], 160)
    y = np.where(X[:, 0] + rng.normal(size=160) > 0, "yes", "no")
    return frame, y, groups


def fitted(method, n_jobs):
    X, y, groups = table()
    clf = method.make(random_state=0, n_jobs=n_jobs)
    if "n_estimators" in clf.get_params():
        clf.set_params(n_estimators=ROUNDS)
    labels = (y == "yes").astype(int) if method.name == "xgboost" else y  # XGBoost takes numbers alone
    return clf.fit(X, labels, **({"groups": groups} if method.uses_groups else {}))


def answers(clf):
    X, _, _ = table()
    scores = clf.predict_proba(X) if hasattr(clf, "predict_proba") else clf.decision_function(X)
    weights = getattr(clf, "estimator_weights_", np.empty(0))
    return digest(b"".join(np.ascontiguousarray(p).tobytes() for p in (scores, weights)))


def stored(clf, path):
    save_model(clf, path)
    return answers(load_model(path))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "threads" in sys.argv:
        # No parameter: small tables are given one thread, and then there is nothing to compare.
        threads.CELLS_FOR_THREADS = 1
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, method in METHODS.items():
            fits = {n_jobs: fitted(method, n_jobs) for n_jobs in JOBS}
            found[name] = {f"n_jobs={n_jobs}": answers(clf) for n_jobs, clf in fits.items()}
            found[name]["stored"] = stored(fits[1], Path(folder) / "m.model")
    print(json.dumps(found))
