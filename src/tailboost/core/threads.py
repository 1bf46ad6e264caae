"""Number of threads: at most ``n_jobs`` for learners, one for small tables and short linear algebra.

OpenBLAS starts a thread per core for sums of 10,000 numbers, and these threads wait for each other by
spinning. With other busy processes, a mixture program on 50,000 × 100 losses took 2.7 s with two threads and
0.14 s with one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager
from functools import cache
from itertools import pairwise
from multiprocessing import parent_process
from numbers import Integral
from threading import Lock, get_ident
from typing import Any

import numpy as np
from joblib import parallel_config
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import Interval
from threadpoolctl import ThreadpoolController

from tailboost.core.array_types import Table

# Number of table entries below which one thread is used, because idle OpenMP threads spin. 100 rounds on
# 50,000 × 50 took 1.5 s with one thread and 3.2 s with two, on two cores. Next to another busy process a fit
# on 2,000 × 8 took 31 s with two threads and 0.7 s with one.
CELLS_FOR_THREADS = 5_000_000

#: Allowed values of a learner's ``n_jobs``.
N_JOBS: list[Any] = [
    Interval(Integral, 1, None, closed="left"),
    Interval(Integral, None, -1, closed="right"),
    None,
]


@cache
def _controller(library: str) -> Any:
    """Return the controller of the threads of OpenMP or BLAS; the search is slow, so the result is cached."""
    return ThreadpoolController().select(user_api=library)


def count_threads(n_jobs: int | None, shape: tuple[int, ...]) -> int:
    """Return the number of threads for a table of this shape.

    One if the table is small, or in a forked process. Otherwise ``n_jobs``: None and −1 are all cores of this
    process (or ``OMP_NUM_THREADS``, which joblib sets in its processes), −2 all but one. In threads of
    joblib, None and negative numbers are one.
    """
    if _fork.is_child or shape[0] * shape[1] < CELLS_FOR_THREADS:
        return 1
    if (n_jobs is None or n_jobs < 0) and _in_joblibs_thread():
        return 1
    return int(_openmp_effective_n_threads(n_jobs))


def _in_joblibs_thread() -> bool:
    """Return whether this is one of several threads of a joblib call."""
    backend, _ = get_active_backend()
    return backend.nesting_level > 0 and parent_process() is None


def predict_in_blocks(predict: Callable[[Any], NDArray[Any]], table: Table, n_threads: int) -> NDArray[Any]:
    """Return ``predict(table)``, computed in this number of threads on blocks of rows.

    Python threads wait without spinning, so busy cores slow a prediction down less than OpenMP threads do.
    """
    n_threads = min(n_threads, table.shape[0])  # no block is empty
    if n_threads <= 1:
        return predict(table)
    bounds = np.linspace(0, table.shape[0], n_threads + 1).astype(np.intp)
    blocks = [table[a:b] for a, b in pairwise(bounds)]
    with ThreadPoolExecutor(n_threads) as pool:
        return np.concatenate(list(pool.map(predict, blocks)))


@contextmanager
def sklearn_threads(n_threads: int) -> Iterator[None]:
    """Limit the threads of scikit-learn's estimators in the block, for calls from this thread."""
    with (
        _controller("openmp").limit(limits=n_threads),
        parallel_config(backend="threading", n_jobs=n_threads),
    ):
        yield


class _Fork:
    """Limits a forked child to one thread: GNU's OpenMP would wait for threads of the parent."""

    def __init__(self) -> None:
        self.is_child = False
        self._openmp: Any = None
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(before=self._before, after_in_child=self._after)

    def _before(self) -> None:
        # Search in the parent: in the child a lock of the loader may never be released.
        self._openmp = ThreadpoolController().select(user_api="openmp")

    def _after(self) -> None:
        self.is_child = True
        if self._openmp is not None:
            self._openmp.limit(limits=1)


_fork = _Fork()


class OneThread(ContextDecorator):
    """Context manager and decorator in which BLAS has one thread.

    The number of threads is a setting of the whole process, and newer versions of threadpoolctl let only one
    Python thread change it. Therefore one Python thread at a time changes the number and restores it at the
    end of its block. Blocks of other threads leave it unchanged.
    """

    def __init__(self) -> None:
        self._lock, self._depth = Lock(), 0
        self._owner: int | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        me = get_ident()
        with self._lock:
            if self._owner is None:
                self._owner, self._limit = me, _controller("blas").limit(limits=1)
            if self._owner == me:
                self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._owner == get_ident():
                self._depth -= 1
                if self._depth == 0:
                    self._limit.restore_original_limits()
                    self._owner = None


#: The single instance, which stores the owner of the setting.
one_blas_thread = OneThread()
