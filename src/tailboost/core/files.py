"""Files that are written whole or not at all, and the documents in them: their formats and versions."""

import os
import platform
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path

from tailboost.core.array_types import Document, FilePath

_PACKAGES = "tailboost numpy scipy scikit-learn pandas xgboost xgboost-cpu lightgbm"


def write_output(path: FilePath, content: str | bytes) -> None:
    """Write a file completely, or leave the old file unchanged; text is written in UTF-8.

    The target of a link is replaced, and keeps its permissions. Devices and pipes are written to, and so is
    what the process has open, such as /dev/stdout: at its position. Raise OSError if the file cannot be
    written.
    """
    if isinstance(content, str):
        content = content.encode()
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        descriptor = _descriptor_of(path)
        if descriptor is not None:
            with open(os.dup(descriptor), "wb") as out:
                out.write(content)
        elif os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe
            Path(path).write_bytes(content)
        else:
            with open(unfinished, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            with suppress(FileNotFoundError):
                shutil.copymode(target, unfinished)
            unfinished.replace(target)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        reason = error.strerror
        if not target.parent.is_dir():
            reason = f"there is no folder {str(target.parent)!r}; make it first"
        raise OSError(
            error.errno, f"the file cannot be written ({reason})", str(path)
        ) from error


def _descriptor_of(path: FilePath) -> int | None:
    """Return the descriptor that a path names, itself or by links as /dev/stdout; None if none."""
    entry = Path(path)
    folder = entry.parent
    if entry.name.isdecimal() and os.path.realpath(folder) == os.path.realpath("/dev/fd"):
        return int(entry.name)
    # Follow links, as from /dev/stdout to /proc/self/fd/1; a loop of links leads to nothing.
    if entry.is_symlink() and entry.exists():
        return _descriptor_of(folder / entry.readlink())
    return None


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages among `_PACKAGES`."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES.split():
        with suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn errors in the form of a document into ValueErrors that name it."""
    try:
        yield
    except ValueError as failure:
        raise ValueError(f"this is no {what}: {failure}") from failure
    except (LookupError, TypeError, AttributeError, OverflowError) as failure:
        raise ValueError(
            f"this is no {what}: a part is missing or has another form"
        ) from failure


def check_format(document: Document, own: int, what: str, cure: str) -> None:
    """Raise ValueError if a document has another format than the ``own`` one.

    ``what`` names the document, and ``cure`` says what to do with one of an earlier format.
    """
    form = document["format"]
    if form == own:
        return
    if isinstance(form, int) and form > own:
        cure = "upgrade tailboost, because a newer version wrote it"
    raise ValueError(f"{what} has format {str(form)[:20]}, not {own}; {cure}")
