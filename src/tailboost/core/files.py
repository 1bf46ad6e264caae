"""Files that are whole or absent: atomic writes, contents sealed under their name, and locks on folders."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_SEAL = 16  # bytes of digest in front of a sealed content
_KIND = b"tailboost sealed file "
_MARK = _KIND + b"1\n"
# What a file is called while it is written: its own name, the process and the thread.
_PART = re.compile(r"(?P<name>.+)\.(?P<process>\d+)-\d+\.part")


def digest(content: bytes) -> str:
    """Return the digest by which a content is recognised, 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=_SEAL).hexdigest()


def write(path: Path, content: bytes, what: str, *, durable: bool = True) -> None:
    """Write a file so that it is whole or absent, whenever the process or the machine stops.

    What was there is replaced. If the file is not ``durable``, the call does not wait for the disk: it
    survives the end of the process, but after a power cut it may be empty or damaged.

    Raises
    ------
    OSError
        Names ``what`` and the reason (such as no space left); what was there before is still there.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with part.open("wb") as out:
            out.write(content)
            if durable:
                out.flush()
                os.fsync(out.fileno())
        part.replace(path)
        if durable:
            _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        reason = error.strerror or str(error)
        message = f"{what} cannot be written ({reason}); the files written before it are good"
        raise OSError(error.errno, message, str(path)) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last, on systems where a folder can be opened and synchronised."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_parts(folder: Path, *names: str) -> None:
    """Remove unfinished files of dead processes; their names begin with one of ``names``.

    Other files and those of living processes stay.
    """
    for path in folder.glob("*.part"):
        part = _PART.fullmatch(path.name)
        if part and part["name"].startswith(names) and not _is_alive(int(part["process"])):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":  # there os.kill(process, 0) would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _sealed(name: str, content: bytes) -> bytes:
    return bytes.fromhex(digest(name.encode("utf-8", "surrogateescape") + b"\0" + content))


def write_sealed(path: Path, content: bytes, what: str, *, durable: bool = True) -> None:
    """`write` a content behind a digest of it and its name, so that `read_sealed` notices any damage."""
    write(path, _MARK + _sealed(path.name, content) + content, what, durable=durable)


def read_sealed(path: Path) -> bytes:
    """Return a content written by `write_sealed`.

    Raises
    ------
    ValueError
        If a byte of the file is not what was written, the end is missing, it was written under another name
        (so it belongs to something else), or in a format of another version.
    OSError
        If it cannot be read.
    """
    whole = path.read_bytes()
    if whole.startswith(_KIND) and not whole.startswith(_MARK):
        raise ValueError("it has the format of another version of tailboost")
    rest = whole[len(_MARK) :] if whole.startswith(_MARK) else b""
    seal, content = rest[:_SEAL], rest[_SEAL:]
    if len(seal) < _SEAL or seal != _sealed(path.name, content):
        raise ValueError(f"its {len(whole):,} bytes are not those that were written under this name")
    return content


def make_folder(folder: Any, name: str) -> Path:
    """Return a folder given as parameter ``name``, made where it does not exist.

    Raises
    ------
    ValueError
        If it cannot be made.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{name}={str(path)!r} cannot be made: {error}") from None
    return path


class Lock:
    """A lock file with one holder at a time; the system releases it when the holder's process dies.

    Its text names the holder. Two holders in one process exclude each other as well.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises
        ------
        BlockingIOError
            If another holder has it; the message names the holder.
        OSError
            If the file cannot be made.
        """
        self._path = path
        while True:
            self._file = path.open("a+b", buffering=0)
            try:
                _lock(self._file.fileno())
            except BlockingIOError:
                self._file.close()
                holder = ""
                with suppress(OSError):
                    holder = path.read_text(errors="replace")
                raise BlockingIOError(holder or "another process") from None
            # The last holder may have removed the file between our opening and locking it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._file.fileno()), path.stat()):
                    break
            self._file.close()
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())

    def release(self) -> None:
        """Give the lock back and remove its file."""
        with suppress(OSError):  # the folder may have been deleted, and Windows does not remove open files
            self._path.unlink()
        _unlock(self._file.fileno())
        self._file.close()


# Errors of file systems without locks; users must then start one fit at a time themselves.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})

if sys.platform == "win32":
    _LOCKED_BYTE = 2**30  # beyond the text, which others may read

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
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise

    def _unlock(handle: int) -> None:
        with suppress(OSError):  # closing alone would keep the lock for processes forked meanwhile
            fcntl.flock(handle, fcntl.LOCK_UN)
