"""Files that are written whole or not at all."""

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

from tailboost.core.array_types import FilePath


def write_output(path: FilePath, content: str | bytes) -> None:
    """Write a file completely, or leave the old file unchanged; text is written in UTF-8.

    The target of a link is replaced, and keeps its permissions. Devices and pipes are written to. Raise
    OSError if the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    if isinstance(content, str):
        content = content.encode()
    if target.exists() and not target.is_file():  # a device or a pipe
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
