"""Files that are whole or absent: atomic writes, sealed contents, and parameters as text."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

_SEAL = 16  # bytes of digest in front of a sealed content
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest(content: bytes) -> str:
    """Return the digest by which a content is recognised, 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=_SEAL).hexdigest()


def write(path: Path, content: bytes, what: str) -> None:
    """Write a file so that it is whole or absent, whenever the process or the machine stops.

    Raises
    ------
    OSError
        Names ``what`` and the reason (no space left, say); what was there before is still there.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
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


def write_sealed(path: Path, content: bytes, what: str) -> None:
    """`write` a content behind its digest, so that `read_sealed` notices any damage."""
    write(path, bytes.fromhex(digest(content)) + content, what)


def read_sealed(path: Path) -> bytes:
    """Return a content written by `write_sealed`.

    Raises
    ------
    ValueError
        If a byte of the file is not what was written, or the end is missing.
    """
    whole = path.read_bytes()
    seal, content = whole[:_SEAL], whole[_SEAL:]
    if seal.hex() != digest(content):
        raise ValueError(f"its {len(whole):,} bytes are not those that were written")
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


def describe(value: Any) -> str:
    """Return a parameter as text that is the same in every process.

    Functions and objects go by name, without their address; a PyTorch module by its layers and weights.
    """
    text = _ADDRESS.sub("", repr(value))
    if hasattr(value, "state_dict") and not isinstance(value, type):
        # Layers that wait for their first rows have no weights to show yet.
        weights = [v for v in value.state_dict().values() if not hasattr(v, "materialize")]
        text += digest(b"".join(v.detach().cpu().double().numpy().tobytes() for v in weights))
    return text


def describe_params(estimator: Any, but: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return an estimator's parameters, nested ones too, as text; those named in ``but`` are left out."""
    return {k: describe(v) for k, v in sorted(estimator.get_params().items()) if k not in but}
