"""Files that a user names: complete writes, one process at a time."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailboost.core import files as _store


def write_output(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file completely, or leave the old file unchanged; text is written in UTF-8.

    The target of a link is replaced. Devices and pipes, which cannot be replaced, are written to.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = Path(path)
    real = os.path.realpath(target)
    if os.path.islink(real):  # links form a circle
        raise OSError(errno.ELOOP, f"{os.strerror(errno.ELOOP)}: the link leads back to itself", str(target))
    data = content.encode() if isinstance(content, str) else content
    if target.exists() and not target.is_file():
        with target.open("wb") as out:
            out.write(data)
    else:
        _store.write(Path(real), data, repr(str(target)))


# Seconds between two looks at a lock.
_PAUSE = 0.02


@contextmanager
def held(path: str | os.PathLike[str], patience: float = 0.0) -> Iterator[None]:
    """Lock a file that is read and then replaced; remove its unfinished copies of dead processes.

    Parameters
    ----------
    path : path
        The file.
    patience : float, default=0.0
        Seconds to wait for another holder.

    Raises
    ------
    BlockingIOError
        If another process holds the lock for longer.
    OSError
        If the lock file cannot be created.
    """
    real = Path(os.path.realpath(path))
    end = time.monotonic() + patience
    while True:
        try:
            lock = _store.Lock(real.with_name(f"{real.name}.lock"))
            break
        except BlockingIOError as holder:
            if time.monotonic() >= end:
                raise BlockingIOError(
                    f"{str(path)!r} is in use by {holder}; run this command again afterwards"
                ) from None
        time.sleep(_PAUSE)
    try:
        _store.remove_parts(real.parent, real.name)
        yield
    finally:
        lock.release()


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths name the same file, also through links; the file need not exist."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
