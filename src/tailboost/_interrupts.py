"""Noticing Ctrl-C also where a learner swallows it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether SIGINT came since; what SIGINT does otherwise stays as it is.

    Signals reach the main thread alone: in others the answer is always no.
    """
    came = False
    before = signal.getsignal(signal.SIGINT)

    def notice(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        assert callable(before)
        before(number, frame)

    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield lambda: came
        return
    signal.signal(signal.SIGINT, notice)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, before)
