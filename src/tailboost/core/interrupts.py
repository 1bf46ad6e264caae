"""Ctrl-C, also where a learner swallows it.

Some learners (scikit-learn's multilayer perceptron, nets of other libraries) catch KeyboardInterrupt and
return what they have so far, as if nothing had happened.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT has arrived; SIGINT keeps its other effects.

    Signals reach the main thread alone: in others, and where SIGINT is ignored, the answer is always no.

    Examples
    --------
    >>> from tailboost.core.interrupts import noticing_interrupts
    >>> with noticing_interrupts() as interrupted:
    ...     pass  # a fit, perhaps of a learner that swallows Ctrl-C
    >>> interrupted()
    False
    """
    came = threading.Event()

    def answering(before: _Handler) -> _Handler:
        def notice(number: int, frame: FrameType | None) -> None:
            came.set()
            before(number, frame)

        return notice

    with _handling(answering):
        yield came.is_set


@contextmanager
def ending_at_interrupts() -> Iterator[None]:
    """End the block with KeyboardInterrupt at the first SIGINT, even if code inside catches that.

    For work that is useless when unfinished. In the block SIGINT raises an exception that no library knows,
    so that none treats it as a request to stop early and carries on. Outside of the main thread, and where
    SIGINT is ignored, nothing changes.
    """
    came = False

    def answering(before: _Handler) -> _Handler:
        def end(number: int, frame: FrameType | None) -> None:
            nonlocal came
            came = True
            raise _End

        return end

    try:
        with _handling(answering):
            yield
    except _End:
        raise KeyboardInterrupt from None
    if came:  # code inside caught even this
        raise KeyboardInterrupt


class _End(BaseException):
    """Not a KeyboardInterrupt, which some learners catch, and no Exception, which many callers do."""


@contextmanager
def _handling(answering: Callable[[_Handler], _Handler]) -> Iterator[None]:
    """Replace the handler of SIGINT in the block; not where SIGINT is ignored or handled by others."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, answering(before))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
