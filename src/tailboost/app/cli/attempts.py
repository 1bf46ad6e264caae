"""The attempts on the tables of a folder, in a file beside them, and locks of files."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tailboost.core import reading, write_output
from tailboost.rows import Attempt

try:
    import fcntl
except ImportError:  # on Windows there are no locks
    fcntl = None  # type: ignore[assignment]


class Entry(NamedTuple):
    """An attempt in the file, with the target that it predicts and the rule that was given."""

    target: str | None
    attempt: Attempt
    rule: str | None  # its digest, if one was given


def ledger_beside(table: Path) -> Path:
    """Return the file of the attempts on all tables of a folder, beside one of them."""
    return table.resolve().with_name("tailboost-attempts.json")


def read_ledger(path: Path) -> dict[str, Entry]:
    """Return the attempts of a file by their keys; none without a file."""
    entries = {}
    with suppress(FileNotFoundError), reading(f"list of attempts, {path}; restore a copy"):
        stored = json.loads(path.read_text("utf-8"))
        if not isinstance(stored, list):
            raise TypeError
        for each in stored:
            attempt = Attempt.from_dict(each["attempt"])
            entries[attempt.key] = Entry(each["target"], attempt, each["rule"])
    return entries


def record(
    path: Path, attempts: Sequence[Attempt], target: str | None, rule: str | None
) -> None:
    """Write attempts into a file; those that it lacks have this target and this digest of a rule."""
    entries = read_ledger(path)
    for each in attempts:
        entries.setdefault(each.key, Entry(target, each, rule))
    if attempts:
        write_output(
            path,
            json.dumps([*map(Entry._asdict, entries.values())], default=Attempt.to_dict),
        )


@contextmanager
def held(path: Path, patience: float) -> Iterator[None]:
    """Lock a file while the block reads and replaces it, for other processes and threads.

    Wait ``patience`` seconds for another holder; then raise BlockingIOError.
    """
    lock_path = Path(f"{os.path.realpath(path)}.lock")
    deadline = time.monotonic() + patience
    while True:
        file = lock_path.open("a")
        with suppress(BlockingIOError, FileNotFoundError):
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file between our opening and our locking.
            if os.path.samestat(os.fstat(file.fileno()), lock_path.stat()):
                break
        file.close()
        if time.monotonic() >= deadline:
            raise BlockingIOError(
                f"{str(path)!r} is in use by another process; run this again afterwards"
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        with suppress(OSError):
            lock_path.unlink()
        file.close()
