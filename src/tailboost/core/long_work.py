"""Long work: Ctrl-C, one thread of BLAS, and a fit with results only after its end.

Some learners, such as scikit-learn's multilayer perceptron, catch KeyboardInterrupt and return a half-trained
model. OpenBLAS starts a thread per core for sums of 10,000 numbers, and these threads wait for each other by
spinning: with other busy processes, a mixture program on 50,000 × 100 losses took 2.7 s with two threads and
0.14 s with one.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

# How attributes begin that scikit-learn keeps about an estimator, and not about a fit.
_OF_SKLEARN = ("_metadata_request", "_skl", "_callback_fit_ctx", "_parent_callback")
_E = TypeVar("_E")

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
def fitting_apart(estimator: _E) -> Iterator[_E]:
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
        if name.startswith(_OF_SKLEARN) or not is_result:
            copy.__dict__[name] = value
    yield copy
    estimator.__dict__ = copy.__dict__


@cache
def _blas() -> Any:
    """Return the controller of the threads of BLAS; the search is slow, so the result is cached."""
    return ThreadpoolController().select(user_api="blas")


# Held by the Python thread that has set the number of threads of BLAS.
_SETTING = threading.RLock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give BLAS one thread in a block, or in a decorated function.

    The number of threads is a setting of the whole process, and newer versions of threadpoolctl let only one
    Python thread change it. Therefore one Python thread at a time sets the number, until the end of its
    block. Blocks of other threads change nothing.
    """
    if not _SETTING.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        _SETTING.release()
