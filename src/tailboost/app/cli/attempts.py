"""The record of attempts to calibrate a model, in a file next to the model file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tailboost import NotCertifiedError
from tailboost.app.cli.shared import bad_input
from tailboost.guarantees.attempts import known_attempts, read_attempts, write_attempts


def digest_of(path: Path) -> str:
    """Return a digest of a file's content."""
    with bad_input(), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


@dataclass(frozen=True)
class AttemptLog:
    """Recorded attempts in their order, each with its command."""

    path: Path
    attempts: dict[str, tuple[str, Any]]
    command: str = ""  # the present call
    later: tuple[str, ...] = ()  # attempts since an earlier call of the same command

    @classmethod
    def read(cls, path: Path, classifier: Any) -> AttemptLog:
        """Read the record, if the file exists. Attempts noted in the model come first."""
        with bad_input("--attempts: "):
            recorded = read_attempts(path, classifier)
        noted = {key: ("", rows) for key, rows in known_attempts(classifier).items() if key not in recorded}
        return cls(path, noted | recorded)

    def before(self, command: str) -> AttemptLog:
        """Return the record before a command. The same command again repeats its attempt."""
        order = list(self.attempts)
        same = [k for k, key in enumerate(order) if self.attempts[key][0] == command]
        return replace(self, command=command, later=tuple(order[same[0] :] if same else ()))

    @property
    def earlier(self) -> dict[str, Any]:
        """The fingerprints of the rows of earlier attempts."""
        return {key: rows for key, (_, rows) in self.attempts.items() if key not in self.later}

    def previous(self, other: Any) -> Any:
        """Return all earlier attempts, also of another model file, for `calibrate`."""
        if not self.earlier:
            return other
        certificate = getattr(other, "certificate_", None)
        others: tuple[Any, ...] = () if certificate is None else certificate.attempts
        known = {rows.kept.tobytes() for rows in others}
        new = [rows for rows in self.earlier.values() if rows.kept.tobytes() not in known]
        return NotCertifiedError("attempts on file", (), (*others, *new))

    def add(self, classifier: Any) -> None:
        """Write the new attempt of the classifier."""
        new = {
            key: (self.command, rows)
            for key, rows in known_attempts(classifier).items()
            if key not in self.attempts
        }
        if new:
            with bad_input("--attempts: "):
                write_attempts(self.path, self.attempts | new)

    def count(self, classifier: Any) -> int:
        """Return the number of attempts, new ones included."""
        return len(self.attempts.keys() | known_attempts(classifier).keys())
