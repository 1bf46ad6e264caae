"""Ctrl-C, even if other code catches KeyboardInterrupt.

Some learners, such as scikit-learn's multilayer perceptron, catch KeyboardInterrupt and return a half-trained
model.
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
    """Yield a test for the arrival of SIGINT. Other effects of SIGINT remain.

    The yielded function takes no argument and returns True after SIGINT. It always returns False if SIGINT is
    ignored, and in threads other than the main one.

    Examples
    --------
    >>> from tailboost.core.interrupts import noticing_interrupts
    >>> with noticing_interrupts() as interrupted:
    ...     pass  # a fit; the learner may catch Ctrl-C
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
    """End the block with KeyboardInterrupt at the first SIGINT, even if code in the block catches this.

    SIGINT raises a private exception, so no library mistakes the signal for a request to stop early. The
    block runs unchanged if SIGINT is ignored, and in threads other than the main one.
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
    if came:  # code in the block caught even this exception
        raise KeyboardInterrupt


class _End(BaseException):
    """Exception at SIGINT; learners catch KeyboardInterrupt, and callers catch Exception."""


@contextmanager
def _handling(answering: Callable[[_Handler], _Handler]) -> Iterator[None]:
    """Replace the handler of SIGINT in the block, unless SIGINT is ignored or this is not the main thread."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, answering(before))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
