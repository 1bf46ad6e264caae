"""One file per finished round: the member and its losses. The rules are pure, so replaying them resumes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tailboost._store import describe_params, digest, make_folder, read_sealed, write_sealed
from tailboost._typing import Floats, Ints, Mask
from tailboost.data import Rows
from tailboost.game import Response
from tailboost.learners.protocols import Stored
from tailboost.validation import Goal, Look, Scheme

# What may change from one fit to the next that continues it.
_FREE = frozenset(
    {"n_jobs", "verbose", "checkpoint_dir", "warm_start", "max_time", "until_met", "tol", "n_iter_no_change"}
)


def fixed_params(classifier: Any, n_estimators_too: bool) -> dict[str, str]:
    """Return the parameters, as text, that must stay the same for a fit to be continued."""
    free = _FREE if n_estimators_too else _FREE | {"n_estimators"}
    return describe_params(classifier, but=free)


def keep(member: Any, folder: Any) -> None:
    """Move a member's state to ``folder``, or verify the file if it was moved before."""
    if isinstance(member, Stored):
        member.keep(folder)


@dataclass(frozen=True)
class Checkpoints:
    """The folder of a fit's rounds; does nothing without a folder.

    The files are pickles: open only folders that you wrote.
    """

    folder: Path | None
    same: str = ""

    @classmethod
    def open(cls, folder: Any, estimator: Any, identity: str) -> Checkpoints:
        """Open (or make) the folder for a fit that is recognised by ``identity``."""
        if folder is None:
            return cls(None)
        try:
            pickle.dumps(estimator)
        except Exception as error:  # what cannot be pickled raises almost anything
            raise ValueError(
                f"checkpoint_dir needs an estimator that can be pickled, this one cannot ({error}); "
                "functions that it holds, as a net's, must be defined at the top of a module"
            ) from None
        path = make_folder(folder, "checkpoint_dir")
        for part in path.glob("*.part"):  # what a killed fit was writing
            part.unlink(missing_ok=True)
        return cls(path, digest(identity.encode()))

    def _write(self, name: str, what: str, **content: Any) -> None:
        if self.folder is not None:
            write_sealed(self.folder / name, pickle.dumps({"same": self.same, **content}), what)

    def _read(self, name: str) -> dict[str, Any] | None:
        if self.folder is None or not (path := self.folder / name).exists():
            return None
        try:
            kept: dict[str, Any] = pickle.loads(read_sealed(path))
        except Exception as error:  # a damaged pickle raises almost anything
            raise _damaged(path, error) from error
        if kept["same"] != self.same:
            raise ValueError(
                f"checkpoint {str(path)!r} belongs to a fit with other data, parameters or random_state; "
                "use another checkpoint_dir"
            )
        try:
            keep(kept["response"].member, self.folder)
        except ValueError as error:
            raise _damaged(path, error) from error
        return kept

    def write(self, t: int, response: Response, seconds: float) -> None:
        """Write round ``t``; a rename makes it whole or absent."""
        self._write(_round(t), f"the checkpoint of round {t}", response=response, seconds=seconds)

    def read(self, t: int) -> tuple[Response, float] | None:
        """Return the response of round ``t`` and the seconds it took, or None."""
        kept = self._read(_round(t))
        return None if kept is None else (kept["response"], kept["seconds"])

    def before_round_1(self, scheme: Scheme) -> Scheme:
        """Return the scheme as it serves before the first round: its answers are kept, as those of rounds."""
        return scheme if self.folder is None else _Kept(scheme, self)


def _round(t: int) -> str:
    return f"round-{t:05d}.pkl"


def _damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(f"checkpoint {str(path)!r} is damaged ({error}); delete it to resume before it")


@dataclass(frozen=True)
class _Kept:
    """A scheme whose answers are kept: to the same question a file gives them the next time."""

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
        keep(response.member, self.checkpoints.folder)
        self.checkpoints._write(name, "a checkpoint before round 1", response=response, looks=looks)
        return response
