"""Progress of long work: what is done, of how much, and about how long the rest takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

__all__ = ["Steps", "duration", "print_line", "steps", "telling"]

# Seconds of work without a line, and between two lines.
PATIENCE, PAUSE = 5.0, 2.0


@dataclass(frozen=True)
class _Teller:
    """Receiver of lines about the work."""

    tell: Callable[[str], None]
    clear: Callable[[], None]
    patience: float
    pause: float


_teller: ContextVar[_Teller | None] = ContextVar("teller", default=None)


def print_line(line: str) -> None:
    """Print a line at once, as ``verbose=1`` does."""
    print(line, flush=True)


@contextmanager
def telling(
    tell: Callable[[str], None] = print_line,
    *,
    clear: Callable[[], None] = lambda: None,
    patience: float | None = None,
    pause: float | None = None,
) -> Iterator[None]:
    """Tell the progress of `steps` in the block.

    Parameters
    ----------
    tell : callable
        Receives each line; by default the line is printed. It may be called by another thread.
    clear : callable
        Called after the last line of some steps.
    patience, pause : float, optional
        Seconds before the first line of some steps, and between two lines; by default 5 and 2.

    Examples
    --------
    >>> from tailboost.core.progress import steps, telling
    >>> with telling(print, patience=0, pause=0), steps("rounds", 2) as done:
    ...     done()
    ...     done(detail="the last one")
    rounds: 1 of 2, about 0 s left
    rounds: 2 of 2; the last one
    """
    wait, between = PATIENCE if patience is None else patience, PAUSE if pause is None else pause
    token = _teller.set(_Teller(tell, clear, wait, between))
    try:
        yield
    finally:
        _teller.reset(token)


@dataclass
class Steps:
    """Counts finished steps. Call it after each; from any thread."""

    what: str
    total: int
    teller: _Teller | None
    done: int = 0
    started: float = field(default_factory=lambda: time.monotonic())
    told: float = -float("inf")  # time of the last line
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, n: int = 1, detail: str = "") -> None:
        """Note that ``n`` further steps are finished, with words about the last one."""
        with self.lock:
            self.done += n
            now = time.monotonic()
            if self.teller is None or now - self.started < self.teller.patience:
                return
            finished = self.done >= self.total and self.teller.patience > 0  # nothing is left to wait for
            if not finished and now - self.told >= self.teller.pause:
                self._tell(detail)

    def first(self) -> None:
        """Tell what is done so far, if no line was told."""
        with self.lock:
            if self.told < self.started:
                self._tell("")

    def _tell(self, detail: str) -> None:
        assert self.teller is not None
        self.told = time.monotonic()
        left = ""
        if 0 < self.done < self.total:
            seconds = (self.told - self.started) * (self.total - self.done) / self.done
            left = f", about {duration(seconds)} left"
        more = f"; {detail}" if detail else ""
        self.teller.tell(f"{self.what}: {self.done:,} of {self.total:,}{left}{more}")


@contextmanager
def steps(what: str, total: int) -> Iterator[Steps]:
    """Yield a function that counts finished steps, and tell the progress if somebody wants to know.

    Parameters
    ----------
    what : str
        Name of the steps, in the plural.
    total : int
        Their number.
    """
    counted = Steps(what, total, teller := _teller.get())
    timer = None
    if teller is not None and teller.patience > 0:
        # A first step may take long: after the patience a line tells that nothing is done yet.
        timer = threading.Timer(teller.patience, counted.first)
        timer.daemon = True
        timer.start()
    try:
        yield counted
    finally:
        if timer is not None:
            timer.cancel()
        if teller is not None and counted.told > counted.started:
            teller.clear()


def duration(seconds: float) -> str:
    """Return a duration in words of two digits: seconds, minutes or hours.

    Examples
    --------
    >>> from tailboost.core.progress import duration
    >>> duration(12.3), duration(400), duration(9000)
    ('12 s', '7 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
