"""Atomic writes of files, and locks on folders and files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:  # it needs NumPy
    from tailboost.core.array_types import FilePath

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Seconds between two looks at a lock.
_PAUSE = 0.02
# Name of an unfinished file: name of the file, process and thread.
_UNFINISHED = re.compile(r"(?P<name>.+)\.(?P<process>\d+)-\d+\.part")


def write(path: Path, content: bytes, label: str) -> None:
    """Write a file completely or not at all, whenever the process or the machine stops.

    An existing file is replaced, and keeps its permissions. Readers meanwhile get the old content.
    Unfinished copies of killed processes in the folder are removed.

    Parameters
    ----------
    path : Path
        The file.
    content : bytes
        New content.
    label : str
        Description of the file for messages.

    Raises
    ------
    OSError
        If the file cannot be written; an existing file is unchanged.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with unfinished.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, unfinished)
        unfinished.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        reason = error.strerror or str(error)
        if not path.parent.is_dir():
            reason = f"there is no folder {str(path.parent)!r}; make it first"
        message = f"{label} cannot be written ({reason})"
        raise OSError(error.errno, message, str(path)) from error
    with suppress(OSError):
        remove_parts(path.parent, path.name)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, on systems with synchronised folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_parts(folder: Path, *names: str) -> None:
    """Remove unfinished files of dead processes with names that begin with one of ``names``."""
    for path in folder.glob("*.part"):
        match = _UNFINISHED.fullmatch(path.name)
        if match is None or not match["name"].startswith(names):
            continue
        if not _is_alive(int(match["process"])):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    """Return whether a process of this machine may still run; True if nobody can know."""
    if sys.platform == "win32":  # os.kill(process, 0) would end the process on Windows
        return True
    try:
        os.kill(process, 0)  # sends no signal, and raises for a missing process
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process
        return True
    return True


def _open_and_lock(path: Path) -> BinaryIO:
    """Return a lock file held by this caller; the text names the holder.

    A lock has one holder at a time, also among threads; the end of a process releases its locks.

    Raises
    ------
    BlockingIOError
        If another holder has the lock; the message names the holder.
    OSError
        If the file cannot be created.
    """
    while True:
        file = path.open("a+b", buffering=0)
        try:
            _lock(file.fileno())
        except BlockingIOError:
            file.close()
            holder = ""  # empty if the holder has not written the text yet
            with suppress(OSError):
                holder = path.read_text(errors="replace")
            raise BlockingIOError(holder or "another process") from None
        # The last holder may have removed the file between our opening and our locking.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
                return file
        file.close()


# Errors of file systems without locks, which are ignored.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})

if sys.platform == "win32":
    _LOCKED_BYTE = 2**30  # after the text, which others may read

    def _lock(handle: int) -> None:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error

    def _unlock(handle: int) -> None:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
else:

    def _lock(handle: int) -> None:
        """Lock an open file at once, if its file system has locks; raise BlockingIOError if locked."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise

    def _unlock(handle: int) -> None:
        # After closing alone, forked processes would still hold the lock.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)


# -- files named by a user ---------------------------------------------------------------------------------


def write_output(path: FilePath, content: str | bytes) -> None:
    """Write a file completely, or leave the old file unchanged; text is written in UTF-8.

    The target of a link is replaced. Devices and pipes, which cannot be replaced, are written to.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = Path(path)
    real_path = os.path.realpath(target)
    if os.path.islink(real_path):  # links form a circle
        raise OSError(
            errno.ELOOP,
            f"{os.strerror(errno.ELOOP)}: the link leads back to itself",
            str(target),
        )
    if isinstance(content, str):
        content = content.encode()
    is_device = target.exists() and not target.is_file()
    if is_device:
        with target.open("wb") as out:
            out.write(content)
    else:
        write(Path(real_path), content, repr(str(target)))


@contextmanager
def held(path: FilePath, patience: float = 0.0) -> Iterator[None]:
    """Lock a file while the block reads and replaces the file; remove unfinished copies of dead processes.

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
    real_path = Path(os.path.realpath(path))
    lock_path = real_path.with_name(f"{real_path.name}.lock")
    deadline = time.monotonic() + patience
    while True:
        try:
            lock = _open_and_lock(lock_path)
            break
        except BlockingIOError as holder:
            if time.monotonic() >= deadline:
                raise BlockingIOError(
                    f"{str(path)!r} is in use by {holder}; run this command again afterwards"
                ) from None
        time.sleep(_PAUSE)
    try:
        remove_parts(real_path.parent, real_path.name)
        yield
    finally:
        # The folder may be deleted, and Windows cannot remove open files.
        with suppress(OSError):
            lock_path.unlink()
        _unlock(lock.fileno())
        lock.close()


def is_same_file(path: FilePath, other: FilePath) -> bool:
    """Return whether two paths name the same file, also through links; the file need not exist."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)
