"""Boosting: a player weighs, a learner answers, a combiner collects, for as long as a schedule says."""

from __future__ import annotations

import errno
import json
import pickle
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from joblib.hashing import NumpyHasher
from sklearn.base import BaseEstimator

from tailboost.boosting.cross_fitting import Demand, Scheme, respond
from tailboost.boosting.game import Game, Player, Response, Round, Stop, Stopping, Turn, Units, play
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Model
from tailboost.core.files import Lock, make_folder, read_sealed, remove_parts, write_sealed
from tailboost.core.fingerprints import digest


class Combiner(Protocol):
    """Combines the hypotheses of a game into one classifier."""

    def open(self, rows: Rows, unboosted: Callable[[], Iterable[Response]], /) -> None:
        """Begin a new game with selection data; ``unboosted`` fits plain ERM."""

    def take(self, response: Response, state: object, needs_objective: bool) -> tuple[float, float]:
        """Add the newest hypothesis; return the objective and the gap of its solve."""

    def keep(self, n_rounds: int) -> None:
        """Keep the first rounds alone."""

    def settle(self, game: Game[Any]) -> Any:
        """Return the ensemble of the rounds so far."""

    def snapshot(self) -> Any:
        """Return a copy that further rounds do not change."""


@dataclass(frozen=True)
class Schedule:
    """How long a game is played."""

    last: int  # largest number of rounds T
    stopping: Stopping
    needs_objective: bool  # whether the objective is needed after every round

    @classmethod
    def of(
        cls, n_rounds: int, patience: int | None, tol: float, max_time: float | None, verbose: object
    ) -> Self:
        """Return a schedule of ``n_rounds`` rounds, or fewer if the objective stops falling."""
        stopping = Stopping(patience, tol, max_time, zero=None if patience is None else 0.0)
        return cls(n_rounds, stopping, needs_objective=patience is not None or bool(verbose))


@dataclass(frozen=True)
class Boosting:
    """Definition of a classifier's game."""

    units: Units  # rows or subgroups that get weight
    player: Player[Any]
    combiner: Combiner
    schedule: Schedule
    demand: Demand | None = None  # weighted loss up to which learners grow; None fits them whole

    def start(self, scheme: Scheme, n_rows: int, entropy: int) -> Game[Any]:
        """Return the game before its first round."""
        plain = (scheme(np.ones(n_rows), entropy) for _ in range(1))  # fitted only if it is asked for
        self.combiner.open(scheme.selection_rows, lambda: plain)
        return Game.new(self.player, self.units)

    def respond(self, game: Game[Any], scheme: Scheme, turn: Turn) -> Response | Stop:
        """Return the hypothesis of a round, or why the game ends."""
        return respond(scheme, self.units, self.demand, game, turn)

    def play(
        self,
        game: Game[Any],
        scheme: Scheme,
        entropy: int,
        checkpoints: Checkpoints,
        observe: Callable[[Game[Any], Response], bool],
    ) -> None:
        """Play the finished rounds of a killed fit from its checkpoints, then further ones.

        ``observe`` is called after each new round; if it returns True, the game ends. See `play`.
        """
        schedule = self.schedule
        take = partial(self.combiner.take, needs_objective=schedule.needs_objective)
        while game.n_rounds < schedule.last and (finished := checkpoints.read(game.n_rounds + 1)):
            response, played = finished
            game.advance(game.turn(entropy).w, response, take, time.perf_counter() - played.seconds)

        def note(game: Game[Any], newest: Response) -> bool:
            checkpoints.write(game.n_rounds, newest, game.trace.rounds[-1])
            return observe(game, newest)

        play(
            game,
            partial(self.respond, game, scheme),
            schedule.last,
            entropy=entropy,
            take=take,
            stopping=schedule.stopping,
            observe=note,
            interrupted=checkpoints.interrupted,
        )
        self.combiner.keep(game.n_rounds)  # without a round that an interrupt left half added


# -- Checkpoints: one file per finished round, from which a killed fit continues -----------------------------

LOCK = "fit.lock"
# Scalars of at most this length are described by their ``repr``, other values by a hash.
LONGEST_SCALAR = 60
# Libraries of every fit. The libraries of the estimator's classes are added.
LIBRARIES = ("tailboost", "numpy", "scipy", "sklearn", "xgboost")


class _Hasher(NumpyHasher):
    """joblib's hash by value, also for tensors and modules of PyTorch."""

    def save(self, value: object) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            lazy = hasattr(value, "materialize")  # a lazy tensor has no values before the first forward pass
            flat = None if lazy else value.detach().cpu().flatten().view(torch.uint8).numpy()
            value = (str(value.dtype), None if lazy else tuple(value.shape), value.requires_grad, flat)
        elif torch is not None and isinstance(value, torch.nn.Module):
            # PyTorch numbers hooks within a process, so the numbers differ between processes.
            value = (type(value), {name: part for name, part in vars(value).items() if "hook" not in name})
        super().save(value)


def describe(value: object) -> str:
    """Return a short text, the same for equal values in every process.

    Raises
    ------
    Exception
        If the value cannot be pickled: pickling fails with exceptions of many types.
    """
    if isinstance(value, (np.bool_, np.integer, np.float64)):
        value = value.item()
    if value is None or (isinstance(value, (bool, int, float, str)) and len(repr(value)) <= LONGEST_SCALAR):
        return repr(value)
    cls = type(value)
    name = f"{cls.__module__}.{cls.__qualname__}"
    clone = getattr(cls, "__sklearn_clone__", None)
    if isinstance(value, BaseEstimator) and clone is BaseEstimator.__sklearn_clone__:
        return name  # a clone keeps the parameters alone, and `identify` describes each one
    return f"{name} {_Hasher(hash_name='md5').hash(value)}"


def identify(classifier: Model, data: str, entropy: int, free: Collection[str] = ()) -> dict[str, Any]:
    """Return all inputs of the rounds of a fit, as plain values for JSON.

    Parameters
    ----------
    classifier : BaseEstimator
        The classifier to be fitted.
    data : str
        Digest of rows, labels, weights and groups.
    entropy : int
        Root of all random seeds. Parameters ``random_state`` are left out.
    free : collection of str
        Parameters without a check: they may differ between the fits of one folder.

    Raises
    ------
    ValueError
        If a parameter cannot be compared by value. The message names the parameter.
    """
    params, classes = {}, [type(classifier)]
    for name, value in sorted(classifier.get_params().items()):
        if name in free or name.endswith("random_state"):
            continue
        classes.append(type(value))
        try:
            params[name] = describe(value)
        except Exception as error:  # pickling raises exceptions of any type
            raise ValueError(
                f"checkpoint_dir needs parameters that can be pickled; {name} cannot "
                f"({type(value).__name__}: {error}); define functions at the top of a module"
            ) from None
    modules = {base.__module__ for cls in classes for base in cls.__mro__}
    libraries = {*LIBRARIES, *(module.partition(".")[0] for module in modules)}
    if any(module.startswith("tailboost.learners.torch") for module in modules):
        libraries.add("torch")
    loaded = {name: sys.modules[name] for name in sorted(libraries) if name in sys.modules}
    versions = {n: str(m.__version__) for n, m in loaded.items() if hasattr(m, "__version__")}
    class_name = f"{classes[0].__module__}.{classes[0].__qualname__}"
    return {"class": class_name, "data": data, "entropy": entropy, "params": params, "versions": versions}


def find_difference(here: dict[str, Any], stored: dict[str, Any]) -> str:
    """Return how the identity of a stored fit differs from the fit here, as text; empty if they are equal."""
    names = sorted(here["versions"].keys() | stored["versions"].keys())
    versions = [(n, stored["versions"].get(n, "none"), here["versions"].get(n, "none")) for n in names]
    if changed := [f"{n} {then}, here is {now}" for n, then, now in versions if then != now]:
        return f"was written with {'; '.join(changed)}: base models of other versions may predict differently"
    if stored["class"] != here["class"]:
        return f"belongs to a fit of {stored['class']}, this is {here['class']}"
    params = here["params"].keys() | stored["params"].keys()
    parts = [] if stored["data"] == here["data"] else ["data"]
    parts += sorted(n for n in params if here["params"].get(n) != stored["params"].get(n))
    if stored["entropy"] != here["entropy"]:
        parts.append("random_state")
    if not parts:
        return ""
    shown = ", ".join(parts[:5]) + (", ..." if len(parts) > 5 else "")
    return f"belongs to a fit with other data, parameters or random_state ({shown})"


@dataclass
class Checkpoints:
    """Folder with the finished rounds of one fit; without a folder nothing is written.

    Use it as a context manager, which holds a lock on the folder. Files of another fit are refused. After
    Ctrl-C nothing is written: the learner may have returned a half-trained model.
    """

    folder: Path | None
    identity: dict[str, Any]
    interrupted: Callable[[], bool]
    _tables: dict[str, Any] = field(default_factory=dict)  # by digest: table readers that base models share
    _lock: Lock | None = None

    @classmethod
    def open(
        cls, folder: object, identity: Callable[[], dict[str, Any]], interrupted: Callable[[], bool]
    ) -> Self:
        """Open or create the folder given as parameter ``checkpoint_dir``.

        Parameters
        ----------
        folder : path or None
            None: nothing is read or written.
        identity : callable
            Returns the identity of the fit, see `identify`. Not called without a folder.
        interrupted : callable
            Returns whether Ctrl-C was pressed.

        Raises
        ------
        ValueError
            If the folder cannot be created, another fit uses it, or a parameter cannot be compared.
        OSError
            If the folder cannot be written to.
        """
        if folder is None:
            return cls(None, {}, interrupted)
        fit = identity()
        opened = cls(make_folder(folder, "checkpoint_dir"), fit, interrupted)
        assert opened.folder is not None
        name = f"checkpoint_dir={str(opened.folder)!r}"
        try:
            opened._lock = Lock(opened.folder / LOCK)
        except BlockingIOError as error:
            raise ValueError(
                f"{name} is in use by another fit ({error}); use a separate folder for each fit"
            ) from None
        except OSError as error:
            raise OSError(error.errno, f"{name} cannot be written to ({error.strerror})") from error
        remove_parts(opened.folder, "round-")  # unfinished files of a killed fit
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def write(self, t: int, response: Response, played: Round) -> None:
        """Write round ``t``, counted from 1.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C was pressed before: the base model may be half trained.
        OSError
            If the file cannot be written; earlier files stay valid.
        """
        if self.folder is None:
            return
        if self.interrupted():
            raise KeyboardInterrupt
        header = json.dumps(self.identity, sort_keys=True).encode()
        content = header + b"\n" + pickle.dumps((response, played))
        write_sealed(self.folder / _name(t), content, f"the checkpoint of round {t}")

    def read(self, t: int) -> tuple[Response, Round] | None:
        """Return the response and the record of round ``t``, counted from 1; None if the file is absent.

        Raises
        ------
        ValueError
            If the file is damaged, or belongs to another fit.
        OSError
            If the file cannot be read.
        """
        if self.folder is None:
            return None
        path = self.folder / _name(t)
        try:
            header, _, body = read_sealed(path).partition(b"\n")
            difference = find_difference(self.identity, json.loads(header))
            if not difference:
                response, played = pickle.loads(body)
                self._share_table(response.base_model)
                return response, played
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ELOOP):
                raise ValueError(
                    f"checkpoint {str(path)!r} is not a file; remove it to resume from the round before"
                ) from error
            message = f"checkpoint {str(path)!r} cannot be read ({error.strerror})"
            raise OSError(error.errno, message) from error
        except Exception as error:  # damaged content raises exceptions of many types
            raise ValueError(
                f"checkpoint {str(path)!r} is damaged ({error}); delete it to resume from the round before"
            ) from error
        raise ValueError(f"checkpoint {str(path)!r} {difference}; use another checkpoint_dir")

    def _share_table(self, member: Any) -> None:
        """Let base models share one table reader. `predict` then prepares rows once for all models."""
        if table := vars(member).get("table_"):
            member.table_ = self._tables.setdefault(digest(pickle.dumps(table)), table)


def _name(t: int) -> str:
    return f"round-{t:05d}.pkl"
