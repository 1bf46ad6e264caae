"""The number of threads of a learner."""

import os
from multiprocessing import parent_process

from joblib.parallel import get_active_backend
from sklearn.utils import _openmp_helpers

# Number of table entries below which one thread is used, because idle OpenMP threads spin. 100 rounds on
# 50,000 × 50 took 1.5 s with one thread and 3.2 s with two, on two cores. Next to another busy process a fit
# on 2,000 × 8 took 31 s with two threads and 0.7 s with one.
CELLS_FOR_THREADS = 5_000_000
# A forked process has another number: there GNU's OpenMP would wait for threads of this one.
_PROCESS = os.getpid()


def count_threads(n_jobs: int | None, shape: tuple[int, ...]) -> int:
    """Return the number of threads for a table of this shape.

    One if the table is small, or in a forked process. Otherwise ``n_jobs``: None and −1 are all cores of this
    process (or ``OMP_NUM_THREADS``, which joblib sets in its processes), −2 all but one. In threads of
    joblib, None and negative numbers are one.
    """
    if shape[0] * shape[1] < CELLS_FOR_THREADS or os.getpid() != _PROCESS:
        return 1
    backend, _ = get_active_backend()
    in_joblibs_thread = backend.nesting_level > 0 and parent_process() is None
    if in_joblibs_thread and (n_jobs is None or n_jobs < 0):  # other threads need cores, too
        return 1
    return _openmp_helpers._openmp_effective_n_threads(n_jobs)
