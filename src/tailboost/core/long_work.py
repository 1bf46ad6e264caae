"""Long work: its progress, Ctrl-C, its number of threads, and a fit with results only after its end.

Some learners, such as scikit-learn's multilayer perceptron, catch KeyboardInterrupt and return a half-trained
model. OpenBLAS starts a thread per core for sums of 10,000 numbers, and these threads wait for each other by
spinning: with other busy processes, a mixture program on 50,000 × 100 losses took 2.7 s with two threads and
0.14 s with one.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from multiprocessing import parent_process
from numbers import Integral
from threading import Lock, get_ident
from types import FrameType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from joblib import parallel_config
from joblib.parallel import get_active_backend
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import Interval
from threadpoolctl import ThreadpoolController

from tailboost.core.array_types import Array, Table

# Seconds of work without a line, and between two lines.
PATIENCE = 5.0
PAUSE = 2.0

# Attributes of scikit-learn about an estimator and not about a fit; each is the start of a name.
OF_SKLEARN = (
    "_metadata_request",
    "_sklearn_output_config",
    "_skl_",
    "_callback_fit_ctx",
    "_parent_callback",
)

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]
E = TypeVar("E")


@dataclass(frozen=True)
class _Teller:
    """Receiver of lines about the work."""

    tell: Callable[[str], None]
    clear: Callable[[], None]
    patience: float
    pause: float
    begun: float = field(default_factory=lambda: time.monotonic())


_teller: ContextVar[_Teller | None] = ContextVar("teller", default=None)
_part: ContextVar[str] = ContextVar("part", default="")


@contextmanager
def telling(
    tell: Callable[[str], None] = lambda line: print(line, flush=True),
    *,
    clear: Callable[[], None] = lambda: None,
    patience: float | None = None,
    pause: float | None = None,
) -> Iterator[None]:
    """Send lines about the progress of `steps` in the block to a function.

    Parameters
    ----------
    tell : callable
        Receives each line, also from another thread; by default the line is printed.
    clear : callable
        Called after the last line of some steps.
    patience, pause : float, optional
        Seconds before the first line of some steps, and between two lines; by default 5 and 2.

    Examples
    --------
    >>> from tailboost.core.long_work import steps, telling
    >>> with telling(print, patience=0, pause=0), steps("rounds", 2) as done:
    ...     done()
    ...     done(detail="the last one")
    rounds: 1 of 2, about 0 s left
    rounds: 2 of 2; the last one
    """
    if patience is None:
        patience = PATIENCE
    if pause is None:
        pause = PAUSE
    token = _teller.set(_Teller(tell, clear, patience, pause))
    try:
        yield
    finally:
        _teller.reset(token)


@dataclass
class Steps:
    """Counts finished steps. Call after each; from any thread."""

    what: str
    total: int
    teller: _Teller | None  # None: nothing is told
    done: int = 0
    started: float = field(default_factory=lambda: time.monotonic())
    last_line: float = -float("inf")  # its time
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, n: int = 1, detail: str = "") -> None:
        """Count ``n`` further finished steps; ``detail`` describes the last one."""
        with self.lock:
            self.done += n
            now = time.monotonic()
            if self.teller is None or now - self.started < self.teller.patience:
                return
            # With all steps done, nothing is left to wait for; without patience all lines are wanted.
            is_finished = self.done >= self.total and self.teller.patience > 0
            if not is_finished and now - self.last_line >= self.teller.pause:
                self._tell(detail)

    def first(self) -> None:
        """Print the progress so far, if nothing was printed."""
        with self.lock:
            if self.last_line < self.started:
                self._tell("")

    def _tell(self, detail: str) -> None:
        """Print the progress, an estimate of the time left, and the detail of the last step."""
        assert self.teller is not None
        self.last_line = time.monotonic()
        line = f"{self.what}: {self.done:,} of {self.total:,}"
        if 0 < self.done < self.total:
            seconds_of_step = (self.last_line - self.started) / self.done
            line += f", about {duration(seconds_of_step * (self.total - self.done))} left"
        elif not self.done:
            line += ", time left not yet known"
        if detail:
            line += f"; {detail}"
        self.teller.tell(line)


@contextmanager
def steps(what: str, total: int) -> Iterator[Steps]:
    """Yield a function that counts finished steps; within `telling`, lines report the progress.

    Parameters
    ----------
    what : str
        Name of the steps, in the plural.
    total : int
        Their number.
    """
    teller = _teller.get()
    counter = Steps(f"{_part.get()}{what}", total, teller)
    timer = None
    if teller is not None and teller.patience > 0:
        # A first step may take long: after the patience a line says "0 of …", still without a time.
        timer = threading.Timer(teller.patience, counter.first)
        timer.daemon = True
        timer.start()
    try:
        yield counter
    finally:
        if timer is not None:
            timer.cancel()
        if teller is not None and counter.last_line > counter.started:
            teller.clear()


@contextmanager
def part(number: int, total: int) -> Iterator[None]:
    """Begin the lines of `steps` in the block with the number of this part of the work, if it has several.

    Examples
    --------
    >>> from tailboost.core.long_work import part, steps, telling
    >>> with telling(print, patience=0, pause=0), part(2, 3), steps("tested rules", 9) as done:
    ...     done(9)
    part 2 of 3, tested rules: 9 of 9
    """
    token = _part.set(f"part {number} of {total}, " if total > 1 else "")
    try:
        yield
    finally:
        _part.reset(token)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Report within `telling` the work of the block, once the patience for the whole work is over.

    Examples
    --------
    >>> from tailboost.core.long_work import doing, telling
    >>> with telling(print, patience=0), doing("reading scores.csv"):
    ...     pass
    reading scores.csv …
    """
    teller = _teller.get()
    if teller is None:
        yield
        return
    line = f"{what} …"
    patience_left = teller.patience - (time.monotonic() - teller.begun)
    timer = threading.Timer(max(0.0, patience_left), teller.tell, [line])
    timer.daemon = True  # a waiting timer must not keep the process alive
    if teller.patience == 0:
        teller.tell(line)
    else:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        teller.clear()


def duration(seconds: float) -> str:
    """Return a duration in words of two digits: seconds, minutes or hours.

    Examples
    --------
    >>> from tailboost.core.long_work import duration
    >>> duration(12.3), duration(400), duration(9000)
    ('12 s', '7 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


# -- Ctrl-C --------------------------------------------------------------------------------------------------


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function: whether SIGINT has arrived. Other effects of SIGINT remain.

    The function takes no argument. The answer is always False if SIGINT is ignored, and in threads other than
    the main one.

    Examples
    --------
    >>> from tailboost.core.long_work import noticing_interrupts
    >>> with noticing_interrupts() as interrupted:
    ...     pass  # a fit; the learner may catch Ctrl-C
    >>> interrupted()
    False
    """
    interrupted = threading.Event()

    def notice(usual: _Handler, number: int, frame: FrameType | None) -> None:
        interrupted.set()
        usual(number, frame)

    with _handling_interrupts(notice):
        yield interrupted.is_set


@contextmanager
def ending_at_interrupts() -> Iterator[None]:
    """End the block with KeyboardInterrupt at the first SIGINT, even if code in the block catches this.

    SIGINT raises a private exception, so no library mistakes the signal for a request to stop early. The
    block runs unchanged if SIGINT is ignored, and in threads other than the main one.
    """
    interrupted = False

    def end(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise _Interrupt

    try:
        with _handling_interrupts(end):
            yield
    except _Interrupt:
        raise KeyboardInterrupt from None
    if interrupted:  # code in the block caught even this exception
        raise KeyboardInterrupt


class _Interrupt(BaseException):
    """Exception at SIGINT; learners catch KeyboardInterrupt, and callers catch Exception."""


@contextmanager
def _handling_interrupts(handle: Callable[..., None]) -> Iterator[None]:
    """Handle SIGINT in the block by ``handle(usual handler, number of the signal, frame)``.

    The block runs unchanged if SIGINT is ignored, and in threads other than the main one, which may set no
    handler.
    """
    usual = signal.getsignal(signal.SIGINT)
    if not callable(usual) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, partial(handle, usual))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


# -- fits ----------------------------------------------------------------------------------------------------


def unfitted(estimator: E) -> E:
    """Return a copy with the same parameter objects and without the results of a fit.

    Results are private attributes, and names with an underscore at the end, as in scikit-learn.
    """
    copy = object.__new__(type(estimator))
    for name, value in vars(estimator).items():
        is_result = name.startswith("_") or name.endswith("_")
        if name.startswith(OF_SKLEARN) or not is_result:
            copy.__dict__[name] = value
    return copy


@contextmanager
def fitting_apart(estimator: E) -> Iterator[E]:
    """Yield an unfitted copy; at the end of the block the estimator takes its state, in one assignment.

    If the block raises, the estimator is not changed: parameters, answers and stored files are those of the
    fit before.

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
    copy = unfitted(estimator)
    yield copy
    estimator.__dict__ = copy.__dict__


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
    is_small = shape[0] * shape[1] < CELLS_FOR_THREADS
    if is_small or _fork.is_child:
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
    n_threads = min(n_threads, table.shape[0])  # no block is empty
    if n_threads <= 1:
        return predict(table)
    bounds = np.linspace(0, table.shape[0], n_threads + 1).astype(np.intp)
    blocks = [table[start:end] for start, end in pairwise(bounds)]
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
    Python thread change it. Therefore one Python thread at a time sets the number, until
    the end of its block. Blocks of other threads change nothing.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._depth = 0
        self._owner: int | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        thread = get_ident()
        with self._lock:
            if self._owner is None:
                self._owner = thread
                self._limit = _controller("blas").limit(limits=1)
            if self._owner == thread:  # blocks may be nested
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
