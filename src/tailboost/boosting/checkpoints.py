"""One file per finished round: the member and its losses. The rules are pure, so replaying them resumes.

A file is a seal over its name and content, the identity of its fit as JSON, and a pickle: members are any
estimators, so nothing less holds them. The pickle is opened only when seal and identity are right; both can
be forged, so use a folder from someone else only if you would run a program from them.
"""

from __future__ import annotations

import errno
import io
import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.cross_fitting import Goal, Look, Scheme
from tailboost.boosting.game import Response, Round
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.files import Lock, digest, make_folder, read_sealed, remove_parts, write_sealed
from tailboost.core.identity import Identity, unknown
from tailboost.learners.protocols import Stored
from tailboost.learners.session import is_real

LOCK = "fit.lock"
# How the names of the files begin; member and start files are those of nets.
_OURS = ("round-", "before-", "answers-", "shared-", "member-", "start-")


def keep(member: Any, folder: Any) -> None:
    """Move a member's state to ``folder``, or verify the file if it was moved before."""
    if isinstance(member, Stored):
        member.keep(folder)


class Checkpoints:
    """The folder of a fit's rounds, held by one fit at a time; without a folder nothing is kept.

    A context manager: leaving it gives the folder back. Files of another identity than the fit's are refused.
    From when ``interrupted`` says that Ctrl-C came nothing is written: a learner that swallowed it may have
    returned half trained.
    """

    def __init__(self, folder: Path | None, identity: Identity, interrupted: Callable[[], bool]) -> None:
        self.folder, self.identity, self._interrupted = folder, identity, interrupted
        self._header = json.dumps(identity.as_dict(), sort_keys=True).encode()
        self._shared: dict[str, Any] = {}  # by file name: parts that members share, such as their table
        self._asked: list[Path] = []  # files with answers, kept until the next round is written
        self._questions = False  # whether answers were recorded since the last round
        self._lock: Lock | None = None

    @classmethod
    def open(
        cls,
        folder: Any,
        identity: Identity,
        *,
        learner: Any = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> Self:
        """Open (or make) the folder given as parameter ``checkpoint_dir``; None keeps nothing.

        Raises
        ------
        ValueError
            If the folder cannot be made, another fit uses it, or the learner or a parameter (which is named)
            does not allow a fit to be resumed.
        OSError
            If the folder cannot be written to.
        """
        if folder is None:
            return cls(None, identity, interrupted)
        for name, reason in unknown(identity.params).items():
            raise ValueError(
                f"checkpoint_dir needs parameters that can be compared from one process to the next; {name} "
                f"cannot ({reason})"
            )
        try:
            pickle.dumps(learner)
        except Exception as error:  # pickling fails with exceptions of many types
            raise ValueError(
                f"checkpoint_dir needs an estimator that can be pickled, this one cannot ({error}); "
                "functions that it holds, as a net's, must be defined at the top of a module"
            ) from None
        opened = cls(make_folder(folder, "checkpoint_dir"), identity, interrupted)
        opened._take_lock()
        return opened

    def _take_lock(self) -> None:
        assert self.folder is not None
        try:
            self._lock = Lock(self.folder / LOCK)
        except BlockingIOError as error:
            raise ValueError(
                f"checkpoint_dir={str(self.folder)!r} is in use by another fit ({error}); every fit needs a "
                "folder of its own"
            ) from None
        except OSError as error:
            message = f"checkpoint_dir={str(self.folder)!r} cannot be written to ({error.strerror})"
            raise OSError(error.errno, message) from error
        remove_parts(self.folder, *_OURS)  # unfinished files of a killed fit
        self._asked = list(self.folder.glob("answers-*.npy"))  # answers of this fit, or of an abandoned one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None and not self._interrupted() and not self._questions:
            self._drop_answers()  # answers of a fit that was killed right after its last round was written
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- rounds ----------------------------------------------------------------------------------------

    def read(self, t: int) -> tuple[Response, Round] | None:
        """Return the response and record of round ``t``, counted from 1; None if it has no file.

        Raises
        ------
        ValueError
            If the file is damaged, or belongs to another fit.
        OSError
            If it cannot be read.
        """
        kept = self._read(_round(t))
        return None if kept is None else (kept["response"], kept["round"])

    def write(self, t: int, response: Response, played: Round) -> None:
        """Write round ``t``, counted from 1.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C came before: the member may be half trained.
        OSError
            If there is no space, for example; the files written before stay valid.
        """
        self._write(_round(t), f"the checkpoint of round {t}", response=response, round=played)

    # -- answers recorded before and within rounds -----------------------------------------------------

    def scheme(self, scheme: Scheme) -> Scheme:
        """Wrap the scheme for fits before the first round, so that their answers are kept like rounds."""
        return scheme if self.folder is None else _RecordedScheme(scheme, self)

    def remember(self, question: bytes, ask: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the answers to a question within a round (or probabilities), from its file if there is one.

        So a fit that was killed in the middle of a round resumes there. Several threads may ask at a time.
        The question is all that the answers depend on within this fit; ``ask`` gets them.
        """
        if self.folder is None:
            return ask()
        path = self.folder / f"answers-{digest(self._header + question)}.npy"
        self._asked.append(path)
        self._questions = True
        with suppress(OSError, ValueError):  # absent, or damaged by a power cut: ask again
            return _to_answers(read_sealed(path))
        answers = ask()
        if not self._interrupted():
            # Only the whole round must survive a crash of the machine; this must survive the process.
            write_sealed(path, _from_answers(answers), "the answers of a fold", durable=False)
        return answers

    # -- files -----------------------------------------------------------------------------------------

    def _write(self, name: str, what: str, **content: Any) -> None:
        if self.folder is None:
            return
        if self._interrupted():
            raise KeyboardInterrupt
        keep(content["response"].member, self.folder)
        table = getattr(content["response"].member, "table_", None)
        shared = {} if table is None else {id(table): self._share(table)}
        body = io.BytesIO()
        body.write(self._header + b"\n")
        _Pickler(body, shared).dump(content)
        write_sealed(self.folder / name, body.getvalue(), what)
        self._drop_answers()

    def _drop_answers(self) -> None:
        while self._asked:
            self._asked.pop().unlink(missing_ok=True)
        self._questions = False

    def _share(self, part: Any) -> str:
        """Return the file name of a part that several members share; it is written once."""
        assert self.folder is not None
        for name, known in self._shared.items():
            if known is part:
                return name
        content = pickle.dumps(part)
        name = f"shared-{digest(content)}.pkl"
        if name not in self._shared:
            write_sealed(self.folder / name, content, "what the members share")
        self._shared[name] = part
        return name

    def _shared_part(self, name: str) -> Any:
        assert self.folder is not None
        if name not in self._shared:
            try:
                self._shared[name] = pickle.loads(read_sealed(self.folder / name))
            except (FileNotFoundError, ValueError) as error:
                raise ValueError(f"{name}, which it needs: {error}") from error
        return self._shared[name]

    def _read(self, name: str) -> dict[str, Any] | None:
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            header, _, body = read_sealed(path).partition(b"\n")
            objection = "" if header == self._header else self.identity.objection(json.loads(header))
            if not objection:
                kept: dict[str, Any] = _Unpickler(io.BytesIO(body), self._shared_part).load()
                keep(kept["response"].member, self.folder)
                return kept
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ELOOP):
                raise ValueError(
                    f"checkpoint {str(path)!r}: {error.filename!r} is no file; remove it to resume before it"
                ) from error
            message = f"checkpoint {str(path)!r} cannot be read ({error.strerror})"
            raise OSError(error.errno, message) from error
        except Exception as error:  # damaged content raises exceptions of many types
            raise ValueError(
                f"checkpoint {str(path)!r} is damaged ({error}); delete it to resume before it"
            ) from error
        raise ValueError(f"checkpoint {str(path)!r} {objection}; use another checkpoint_dir")


class _Pickler(pickle.Pickler):
    """Writes the names of shared parts in their place."""

    def __init__(self, out: io.BytesIO, shared: dict[int, str]) -> None:
        super().__init__(out)
        self._names = shared

    def persistent_id(self, part: Any) -> str | None:
        return self._names.get(id(part))


class _Unpickler(pickle.Unpickler):
    """Puts shared parts in the place of their names."""

    def __init__(self, content: io.BytesIO, shared: Callable[[str], Any]) -> None:
        super().__init__(content)
        self._part = shared

    def persistent_load(self, name: Any) -> Any:
        return self._part(name)


def _round(t: int) -> str:
    return f"round-{t:05d}.pkl"


def _from_answers(answers: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    compact = answers if is_real(answers) else answers.astype(np.min_scalar_type(answers.max(initial=0)))
    np.save(out, compact, allow_pickle=False)
    return out.getvalue()


def _to_answers(content: bytes) -> NDArray[Any]:
    answers: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return answers if is_real(answers) else answers.astype(np.intp)


@dataclass(frozen=True)
class _RecordedScheme:
    """A scheme whose answers are kept in files and read from there the next time."""

    scheme: Scheme
    checkpoints: Checkpoints

    @property
    def judged(self) -> Rows:
        return self.scheme.judged

    @property
    def player_rows(self) -> Mask | None:
        return self.scheme.player_rows

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        name = f"before-{digest(u.tobytes() + f'{seed} {goal is None}'.encode())[:16]}.pkl"
        if kept := self.checkpoints._read(name):
            for look in kept["looks"]:
                assert goal is not None
                goal(*look)
            response: Response = kept["response"]
            return response
        looks: list[Look] = []

        def watched(losses: NDArray[Any], answers: Ints) -> float:
            assert goal is not None
            looks.append((losses, answers))
            return goal(losses, answers)

        response = self.scheme(u, seed, None if goal is None else watched)
        self.checkpoints._write(name, "a checkpoint before round 1", response=response, looks=looks)
        return response
