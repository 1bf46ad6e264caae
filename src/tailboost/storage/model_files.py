"""Container of a model: a zip file of limited size with a record, a structure, arrays and ledgers."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tailboost.core.array_types import Document
from tailboost.core.checks import check_format
from tailboost.rows.fingerprints import digest

RECORD = "tailboost.json"
STRUCTURE = "parts.json"
ARRAYS = "arrays.bin"
LEDGERS = "ledgers.json"
MODEL_FORMAT = 28
# Largest size of everything but the arrays: max_bytes / 32. Its text becomes many small objects, with about
# twenty times the memory of the text.
_TEXT_SHARE = 32
# Each member of a zip file has an entry with this beginning. Entries are counted before zipfile reads them,
# because each takes memory.
_ENTRY = b"PK\x01\x02"
_MOST_ENTRIES = 100
_PIECE = 2**20  # bytes decompressed at a time
_LEVEL = 6
_PICKLE = b"\x80"  # first byte of a pickle of protocol 2 or later


class Unreadable(Exception):
    """Fault of a file; the message names the file."""


def packed(members: dict[str, bytes], record: Document) -> bytes:
    """Return the content of a file; equal members and records give equal files."""
    record = record | {"format": MODEL_FORMAT}
    record["seal"] = digest_of_members(members, record)
    sealed = members | {RECORD: json.dumps(record).encode()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in sorted(sealed.items()):
            member = zipfile.ZipInfo(name)  # with a fixed time
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, _LEVEL)
    return out.getvalue()


def digest_of_members(members: dict[str, bytes], record: Document) -> str:
    """Return a digest of members and record of a file, without the seal in the record.

    The seal is this digest of all members, and detects damage. It has no key, so an attacker can forge it.
    """
    digests = {name: digest(content) for name, content in members.items()}
    unsealed = {name: value for name, value in record.items() if name != "seal"}
    return digest(json.dumps([digests, unsealed], sort_keys=True).encode())


def unpacked(path: Path, max_bytes: int) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the members of a file and its record, within limited memory.

    Raises
    ------
    Unreadable
        If the file is not a model file, is damaged, has another format, or exceeds ``max_bytes``.
    """
    with reading():
        with zipfile.ZipFile(io.BytesIO(_content(path, max_bytes))) as archive:
            _check_entries(archive, max_bytes)
            members = {entry.filename: _member(archive, entry) for entry in archive.infolist()}
        record = json.loads(members.pop(RECORD))
        try:
            check_format(record["format"], MODEL_FORMAT, "it", "fit and save again")
        except ValueError as fault:
            raise Unreadable(f"is not readable here: {fault}") from None
        if record["seal"] != digest_of_members(members, record):
            raise Unreadable("is damaged: its parts have changed")
        mappings = (record["versions"], record.get("notes", {}))
        if not all(isinstance(mapping, dict) for mapping in mappings):
            raise Unreadable("is damaged: its record is invalid")
    return members, record


def _content(path: Path, max_bytes: int) -> bytes:
    """Return the content of a zip file with few members; raise Unreadable for another file."""
    size = path.stat().st_size
    if size > max_bytes:
        raise _too_large(size, max_bytes)
    with path.open("rb") as stream:
        if stream.read(1) == _PICKLE:
            raise Unreadable(
                "is not a model file but a pickle, which runs code when loaded: if you "
                "trust it, load it by pickle or joblib, and write a model file by "
                "save_model"
            )
    content = path.read_bytes()
    if content.lstrip()[:1] == b"{":
        raise Unreadable("is not a model file but JSON; load_rule reads a rule file")
    if not content.startswith(b"PK"):
        raise Unreadable("is not a model file, or is damaged: save_model writes a model file")
    if content.count(_ENTRY) > _MOST_ENTRIES:
        raise Unreadable(f"is not a model file: it has more than {_MOST_ENTRIES} members")
    return content


def _check_entries(archive: zipfile.ZipFile, max_bytes: int) -> None:
    """Raise Unreadable if members are missing, repeated, or too large when decompressed."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    n_bytes = sum(entry.file_size for entry in entries)  # stated sizes; `_member` checks them
    if n_bytes > max_bytes:
        raise _too_large(n_bytes, max_bytes)
    if len(set(names)) < len(names):
        raise Unreadable("is damaged: a name occurs twice")
    if not {RECORD, STRUCTURE, ARRAYS, LEDGERS} <= set(names):
        raise Unreadable("is not a model file, or is damaged")
    n_text = n_bytes - archive.getinfo(ARRAYS).file_size
    max_text = max_bytes // _TEXT_SHARE
    if n_text > max_text:
        raise Unreadable(
            f"has {n_text:,} bytes of text, more than {max_text:,} (max_bytes={max_bytes:,} "
            f"/ {_TEXT_SHARE}); load_model can set it"
        )


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return a member of the stated size, decompressed in pieces."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Unreadable("is compressed by an unknown method")
    with archive.open(entry) as stream:
        content = b"".join(iter(lambda: stream.read(_PIECE), b""))
    if len(content) != entry.file_size:
        raise Unreadable("is damaged: a part has the wrong length")
    return content


def _too_large(size: int, max_bytes: int) -> Unreadable:
    """Return the error for a file, or its unpacked members, of more bytes than allowed."""
    return Unreadable(
        f"contains {size:,} bytes, more than max_bytes={max_bytes:,}; load_model can set it"
    )


@contextmanager
def reading(
    message: str = "is not a model file, or is damaged", *exact: type[Exception]
) -> Iterator[None]:
    """Replace errors in the block by this message: forged files raise exceptions of any type.

    Unreadable and the types ``exact`` have a more exact message, and are not replaced.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (Unreadable, *exact)):
            raise
        raise Unreadable(message) from error
