"""Predictions and fits in several threads: no crash, no error, the same results as in one thread."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _openmp_helpers

from tailboost.learners import HistBoostClassifier, HistTreeClassifier, threads

SCRIPT = Path(__file__).with_name("stress_threads.py")


def count(*args, timeout):
    """Run the script in another process; return the number of calls and the errors."""
    command = [sys.executable, SCRIPT, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    bad = [line for line in lines if line["errors"] or line["wrong"]]
    if done.returncode:  # -11 is a segmentation fault, in the model after the last line
        bad.append({"exit status": done.returncode, "stderr": done.stderr[-500:], "after": lines[-1:]})
    return sum(line["calls"] for line in lines), bad


@pytest.mark.slow
def test_predictions_in_threads():
    calls, bad = count("cold", "warm", "--calls", "20", timeout=1200)
    assert not bad
    assert calls >= 8 * 2 * 20 * 10


@pytest.mark.slow
def test_fits_in_threads():
    calls, bad = count("fits", "--calls", "3", timeout=3600)
    assert not bad
    assert calls >= 8 * 3 * 2


LEARNERS = {"tree": HistTreeClassifier(), "boost": HistBoostClassifier(n_estimators=5)}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_blocks_of_rows_are_the_whole(learner, n_classes, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    y = np.clip((X[:, 0] + rng.normal(size=200) + 1.5).astype(int), 0, n_classes - 1)
    clf = clone(LEARNERS[learner]).fit(X, y)
    alone, labels = clf.predict_proba(X), clf.predict(X)
    monkeypatch.setattr(threads, "CELLS_FOR_THREADS", 1)
    clf = clone(LEARNERS[learner]).set_params(n_jobs=3).fit(X, y)
    for rows in (X, X[:2], sp.csr_matrix(X)):
        np.testing.assert_array_equal(clf.predict_proba(rows), alone[: rows.shape[0]])
        np.testing.assert_array_equal(clf.predict(rows), labels[: rows.shape[0]])


def test_n_jobs_is_the_most(monkeypatch):
    monkeypatch.setattr(threads, "CELLS_FOR_THREADS", 100)
    assert threads.count_threads(8, (9, 11)) == 1
    assert threads.count_threads(8, (10, 10)) == 8
    every = threads.count_threads(None, (10, 10))
    assert threads.count_threads(-1, (10, 10)) == every


def test_threads_of_joblib_share_the_cores(monkeypatch):
    """Nested calls do not multiply threads; a positive number is kept."""
    monkeypatch.setattr(_openmp_helpers, "_openmp_effective_n_threads", lambda n: 8 if n is None else n)
    large = (10_000, 1_000)

    def count(n_jobs):
        return threads.count_threads(n_jobs, large)

    assert count(None) == 8
    with Parallel(n_jobs=2, backend="threading") as parallel:
        assert parallel(delayed(count)(n) for n in (None, -1, None, 3)) == [1, 1, 1, 3]
    assert count(None) == 8


@pytest.mark.parametrize("learner", LEARNERS)
def test_no_thread_at_all(learner):
    with pytest.raises(ValueError, match="'n_jobs' parameter"):
        clone(LEARNERS[learner]).set_params(n_jobs=0).fit([[0.0], [1.0]], [0, 1])


FORK = """
import multiprocessing, os, time
import numpy as np
import tailboost as tb

X = np.random.default_rng(0).normal(size=(400, 5))
y = (X[:, 0] > 0).astype(int)
make = lambda: tb.WorstClassBoostClassifier(n_estimators=2, random_state=0)
want = make().fit(X, y).predict(X)

def child():
    os._exit(0 if (make().fit(X, y).predict(X) == want).all() else 1)

process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(40)
if process.exitcode is None:
    process.kill()
    print("hangs")
else:
    print("exit", process.exitcode)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fit_in_a_fork_after_a_fit_ends():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        env=os.environ | {"OMP_NUM_THREADS": "2"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "exit 0", done.stderr[-500:]
