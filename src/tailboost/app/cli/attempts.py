"""The file beside a model that records attempts to calibrate it."""

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
    """Attempts that a file records, in order, with the command of each; and the command at hand."""

    path: Path
    attempts: dict[str, tuple[str, Any]]
    command: str = ""
    later: tuple[str, ...] = ()  # attempts that came after an earlier call of the command

    @classmethod
    def read(cls, path: Path, classifier: Any) -> AttemptLog:
        """Read a file, which need not exist; the model's own attempts come first."""
        with bad_input("--attempts: "):
            known = read_attempts(path, classifier)
        own = {key: ("", sketch) for key, sketch in known_attempts(classifier).items() if key not in known}
        return cls(path, own | known)

    def before(self, command: str) -> AttemptLog:
        """Return the log for a command; the same command again repeats its attempt."""
        keys = [key for key, (called, _) in self.attempts.items() if called == command]
        order = list(self.attempts)
        later = order[order.index(keys[0]) :] if keys else []
        return replace(self, command=command, later=tuple(later))

    @property
    def earlier(self) -> dict[str, Any]:
        """The attempts that came before."""
        return {key: sketch for key, (_, sketch) in self.attempts.items() if key not in self.later}

    def previous(self, other: Any) -> Any:
        """Return the outcome of all attempts before, also those of another model file, for `calibrate`."""
        certificate = getattr(other, "certificate_", None)
        if not self.earlier:
            return other
        known: tuple[Any, ...] = () if certificate is None else certificate.attempts
        kept = {sketch.kept.tobytes() for sketch in known}
        new = [sketch for sketch in self.earlier.values() if sketch.kept.tobytes() not in kept]
        return NotCertifiedError("attempts on file", (), (*known, *new))

    def add(self, classifier: Any) -> None:
        """Write the attempt that the classifier has recorded since."""
        new = {
            key: (self.command, sketch)
            for key, sketch in known_attempts(classifier).items()
            if key not in self.attempts
        }
        if new:
            with bad_input("--attempts: "):
                write_attempts(self.path, self.attempts | new)

    def count(self, classifier: Any) -> int:
        """Return how many attempts are known now."""
        return len(self.attempts.keys() | known_attempts(classifier).keys())
