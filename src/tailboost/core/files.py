"""Files that are written whole or not at all, and locks on them."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tailboost.core.array_types import FilePath

try:
    import fcntl
except ImportError:  # on Windows there are no locks
    fcntl = None  # type: ignore[assignment]

# Seconds between two looks at a lock.
_PAUSE = 0.02


def write_output(path: FilePath, content: str | bytes) -> None:
    """Write a file completely, or leave the old file unchanged; text is written in UTF-8.

    The target of a link is replaced, and keeps its permissions. Devices and pipes are written to. Raise
    OSError if the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    if isinstance(content, str):
        content = content.encode()
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    unfinished = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with unfinished.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(target, unfinished)
        unfinished.replace(target)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        reason = error.strerror or str(error)
        if not target.parent.is_dir():
            reason = f"there is no folder {str(target.parent)!r}; make it first"
        raise OSError(
            error.errno, f"the file cannot be written ({reason})", str(path)
        ) from error


@contextmanager
def held(path: FilePath, patience: float = 0.0) -> Iterator[None]:
    """Lock a file while the block reads and replaces it, for other processes and threads.

    Wait so many seconds of ``patience`` for another holder; then raise BlockingIOError.
    """
    lock_path = Path(f"{os.path.realpath(path)}.lock")
    deadline = time.monotonic() + patience
    while True:
        file = lock_path.open("a")
        with suppress(BlockingIOError, FileNotFoundError):
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file between our opening and our locking.
            if os.path.samestat(os.fstat(file.fileno()), lock_path.stat()):
                break
        file.close()
        if time.monotonic() >= deadline:
            raise BlockingIOError(
                f"{str(path)!r} is in use by another process; run this again afterwards"
            )
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        with suppress(OSError):
            lock_path.unlink()
        file.close()
