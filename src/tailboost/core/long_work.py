"""Long work: Ctrl-C, its number of threads, and a fit with results only after its end.

Some learners, such as scikit-learn's multilayer perceptron, catch KeyboardInterrupt and return a half-trained
model. OpenBLAS starts a thread per core for sums of 10,000 numbers, and these threads wait for each other by
spinning: with other busy processes, a mixture program on 50,000 × 100 losses took 2.7 s with two threads and
0.14 s with one.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import parent_process
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from tailboost.core.array_types import Array, Table

# Begins of attributes of scikit-learn about an estimator and not about a fit.
OF_SKLEARN = (
    "_metadata_request",
    "_sklearn_output_config",
    "_skl_",
    "_callback_fit_ctx",
    "_parent_callback",
)
# Number of table entries below which one thread is used, because idle OpenMP threads spin. 100 rounds on
# 50,000 × 50 took 1.5 s with one thread and 3.2 s with two, on two cores. Next to another busy process a fit
# on 2,000 × 8 took 31 s with two threads and 0.7 s with one.
CELLS_FOR_THREADS = 5_000_000
# A forked process has another number: there GNU's OpenMP would wait for threads of this one.
_PROCESS = os.getpid()
E = TypeVar("E")

# -- Ctrl-C --------------------------------------------------------------------------------------------------


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function: whether SIGINT has arrived. Other effects of SIGINT remain.

    The answer is always False if SIGINT is ignored, and in threads other than the main one, which may set no
    handler.

    Examples
    --------
    >>> from tailboost.core.long_work import noticing_interrupts
    >>> with noticing_interrupts() as interrupted:
    ...     pass  # a fit; the learner may catch Ctrl-C
    >>> interrupted()
    False
    """
    interrupted = threading.Event()
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual) or threading.current_thread() is not threading.main_thread():
        yield interrupted.is_set
        return

    def notice(number: int, frame: Any) -> None:
        interrupted.set()
        usual(number, frame)

    signal.signal(signal.SIGINT, notice)
    try:
        yield interrupted.is_set
    finally:
        signal.signal(signal.SIGINT, usual)


# -- fits ----------------------------------------------------------------------------------------------------


@contextmanager
def fitting_apart(estimator: E) -> Iterator[E]:
    """Yield an unfitted copy; at the end of the block the estimator takes its state, in one assignment.

    The copy has the same parameter objects and no results of a fit. Results are private attributes, and
    names with an underscore at the end, as in scikit-learn. If the block raises, the estimator is not
    changed: parameters, answers and stored files are those of the fit before.

    Examples
    --------
    >>> from tailboost.core.long_work import fitting_apart
    >>> class Model:
    ...     pass
    >>> model = Model()
    >>> model.C, model.classes_ = 1.0, ["ill", "well"]
    >>> with fitting_apart(model) as fitted:
    ...     fitted.coef_ = 2.0
    >>> vars(model)
    {'C': 1.0, 'coef_': 2.0}
    """
    copy = object.__new__(type(estimator))
    for name, value in vars(estimator).items():
        is_result = name.startswith("_") or name.endswith("_")
        if name.startswith(OF_SKLEARN) or not is_result:
            copy.__dict__[name] = value
    yield copy
    estimator.__dict__ = copy.__dict__


@cache
def _blas() -> Any:
    """Return the controller of the threads of BLAS; the search is slow, so the result is cached."""
    return ThreadpoolController().select(user_api="blas")


def count_threads(n_jobs: int | None, shape: tuple[int, ...]) -> int:
    """Return the number of threads for a table of this shape.

    One if the table is small, or in a forked process. Otherwise ``n_jobs``: None and −1 are all cores of this
    process (or ``OMP_NUM_THREADS``, which joblib sets in its processes), −2 all but one. In threads of
    joblib, None and negative numbers are one.
    """
    from joblib.parallel import get_active_backend  # a rule of a file answers without both
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    if shape[0] * shape[1] < CELLS_FOR_THREADS or os.getpid() != _PROCESS:
        return 1
    takes_all_cores = n_jobs is None or n_jobs < 0
    backend, _ = get_active_backend()
    in_joblibs_thread = backend.nesting_level > 0 and parent_process() is None
    if takes_all_cores and in_joblibs_thread:  # the other threads need cores, too
        return 1
    return int(_openmp_effective_n_threads(n_jobs))


def predict_in_blocks(predict: Callable[[Any], Array], table: Table, n_threads: int) -> Array:
    """Return ``predict(table)``, computed in this number of threads on blocks of rows.

    Python threads wait without spinning, so busy cores slow a prediction down less than OpenMP threads do.
    """
    from sklearn.utils import gen_even_slices

    n_rows = table.shape[0]
    if n_threads <= 1 or not n_rows:
        return predict(table)
    blocks = [table[rows] for rows in gen_even_slices(n_rows, min(n_threads, n_rows))]
    with ThreadPoolExecutor(n_threads) as pool:
        return np.concatenate(list(pool.map(predict, blocks)))


# Held by the Python thread that has set the number of threads.
_BLAS = threading.RLock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread in a block, or in a decorated function.

    The number of threads is a setting of the whole process, and newer versions of threadpoolctl let only one
    Python thread change it. Therefore one Python thread at a time sets the number, until the end of its
    block. Blocks of other threads change nothing.
    """
    if not _BLAS.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        _BLAS.release()
