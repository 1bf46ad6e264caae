"""The meaning of ``n_jobs`` in learners: the most threads; small tables use one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from multiprocessing import parent_process
from numbers import Integral
from typing import Any

import numpy as np
from joblib import parallel_config
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import Interval
from threadpoolctl import ThreadpoolController

# Below this size more threads make a fit slower: 100 rounds on 50,000 × 50 took 1.5 s with one thread and
# 3.2 s with two on two cores, because OpenMP's idle threads keep spinning while others work. Beside another
# busy process a fit on 2,000 × 8 took 31 s with two threads and 0.7 s with one.
CELLS_FOR_THREADS = 5_000_000

#: What a learner's ``n_jobs`` may be.
N_JOBS: list[Any] = [
    Interval(Integral, 1, None, closed="left"),
    Interval(Integral, None, -1, closed="right"),
    None,
]


def count_threads(n_jobs: int | None, shape: tuple[int, ...]) -> int:
    """Return how many threads work on a table of this shape.

    One if the table is small, or in a forked process. Else ``n_jobs``; None and −1 stand for all cores that
    this process may use (or the number in ``OMP_NUM_THREADS``, which joblib sets in its processes), −2 for
    all but one, and so on. In one of several threads of joblib these negative numbers and None stand for one.
    """
    if _fork.is_child or shape[0] * shape[1] < CELLS_FOR_THREADS:
        return 1
    if (n_jobs is None or n_jobs < 0) and _in_joblibs_thread():
        return 1
    return int(_openmp_effective_n_threads(n_jobs))


def _in_joblibs_thread() -> bool:
    """Whether other threads of the same joblib call are at work in this process."""
    backend, _ = get_active_backend()
    return backend.nesting_level > 0 and parent_process() is None


def predict_in_blocks(predict: Callable[[Any], NDArray[Any]], table: Any, n_threads: int) -> NDArray[Any]:
    """Return ``predict(table)``, computed in that many threads on blocks of rows.

    These are Python threads, which wait without spinning, so that busy cores do not slow a prediction down
    much.
    """
    n_threads = min(n_threads, table.shape[0])  # no block is empty
    if n_threads <= 1:
        return predict(table)
    bounds = np.linspace(0, table.shape[0], n_threads + 1).astype(np.intp)
    blocks = [table[a:b] for a, b in pairwise(bounds)]
    with ThreadPoolExecutor(n_threads) as pool:
        return np.concatenate(list(pool.map(predict, blocks)))


@cache
def _openmp() -> Any:
    """Return the controller of scikit-learn's OpenMP threads; it is found once, because that is slow."""
    return ThreadpoolController().select(user_api="openmp")


@contextmanager
def sklearn_threads(n_threads: int) -> Iterator[None]:
    """Have scikit-learn's estimators use that many threads, those started in this thread."""
    with _openmp().limit(limits=n_threads), parallel_config(backend="threading", n_jobs=n_threads):
        yield


class _Fork:
    """Have one thread in a child that was forked: GNU's OpenMP waits there for threads of the parent."""

    def __init__(self) -> None:
        self.is_child = False
        self._openmp: Any = None
        if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
            os.register_at_fork(before=self._before, after_in_child=self._after)

    def _before(self) -> None:
        # Found by the parent: in the child a lock of the loader may be held for ever.
        self._openmp = ThreadpoolController().select(user_api="openmp")

    def _after(self) -> None:
        self.is_child = True
        if self._openmp is not None:
            self._openmp.limit(limits=1)


_fork = _Fork()
