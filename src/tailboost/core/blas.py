"""One thread for linear algebra in short calls.

OpenBLAS starts a thread per core for sums of 10,000 numbers, and these threads wait for each other by
spinning. With other busy processes, a mixture program on 50,000 × 100 losses took 2.7 s with two threads and
0.14 s with one.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    """Return the controller of BLAS; the search for BLAS is slow, so the result is cached."""
    return ThreadpoolController().select(user_api="blas")


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
                self._owner, self._limit = me, _controller().limit(limits=1)
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
