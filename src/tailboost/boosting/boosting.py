"""Boosting: rounds of a game between a player and a learner, cross-fitting of its models, and checkpoints."""

from __future__ import annotations

import errno
import json
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from joblib import Parallel, delayed
from joblib.hashing import NumpyHasher
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tailboost.boosting.game import (
    DECIMALS,
    Game,
    Player,
    Response,
    Round,
    Stop,
    StopKind,
    Stopping,
    Turn,
    Units,
    play,
)
from tailboost.core.array_types import Floats, Ints, Mask, Model
from tailboost.core.files import Lock, make_folder, read_sealed, remove_parts, write_sealed
from tailboost.learners.foreign import is_real, predict_models
from tailboost.learners.protocols import (
    Accumulating,
    AveragingLearner,
    Growing,
    Partitioned,
    Session,
)
from tailboost.rows.fingerprints import digest
from tailboost.rows.rows import Rows
from tailboost.rows.training_set import Split, TrainingSet, only_known_classes

# Result of one stage of growth: losses that drive the player, and predictions on the selection data.
StageResult = tuple[NDArray[Any], Ints]
# Distance of a stage from its target: growth ends at the first stage with a distance of at most 0.
Goal = Callable[[NDArray[Any], Ints], float]


# Significant bits of the density that learners get, unless weights are exact. Equal rows then get equal
# weights for any order of summation, and trees break ties in the same way.
SIGNIFICANT_BITS = 16
# A density below this is 0 up to the precision of the solvers.
NEGLIGIBLE = 2.0**-32


def round_significant(x: Floats) -> Floats:
    """Return densities with 16 significant bits; negligible ones are 0."""
    mantissa, exponent = np.frexp(np.where(x < NEGLIGIBLE, 0.0, x))
    return np.ldexp(np.rint(np.ldexp(mantissa, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS)


class Scheme(Protocol):
    """Oracle of the game that also names the player's rows and the selection data."""

    @property
    def selection_rows(self) -> Rows:
        """Selection data, on which base models are compared."""

    @property
    def player_rows(self) -> Mask | None:
        """Rows that the player weighs; None for all."""

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Return a base model fitted for the density ``u`` of the rows, shape (n,), with its losses.

        With a goal the learner grows until a stage reaches the goal. If no stage does, the closest is taken.
        """


@dataclass(frozen=True)
class Demand:
    """The weighted loss at which a learner stops growing."""

    weighted_loss: float  # ``Σ_k w_k ℓ_k`` that is good enough
    # Whether the game ends if the fully grown learner misses it (the weak-learning condition, ½ − γ). If that
    # happens in round 1, the game keeps this one round.
    required: bool = False

    def distance(self, weighted_loss: float) -> float:
        """Return how far a weighted loss is above the demand: 0 or less is good enough."""
        return round(weighted_loss - self.weighted_loss, DECIMALS)

    def refusal(self, t: int, weighted_loss: float) -> Stop | None:
        """Return why round ``t`` does not count, or None."""
        if not self.required or self.distance(weighted_loss) <= 0:
            return None
        return Stop(
            StopKind.LEARNER,
            f"the weak-learning condition was not met in round {t}: the learner, fully grown, has "
            f"weighted loss {weighted_loss:.4g}, above ½ − γ = {self.weighted_loss:.4g}"
            + ("; class_loss='error' is a game without it" if t == 1 else ""),
        )


def ask(scheme: Scheme, units: Units, u: Floats, seed: int, goal: Goal | None) -> Response:
    """Fit for a density of the rows; in games over subgroups the selection data give the player's losses."""
    if not units.grouped:
        return scheme(u, seed, goal)
    y = scheme.selection_rows.y
    by_answers = None if goal is None else (lambda losses, answers: goal(answers != y, answers))
    response = scheme(u, seed, by_answers)
    return replace(response, losses=response.answers != y)


@dataclass(frozen=True)
class Stage:
    """Selected stage of growth: its number from 1, its losses and its predictions.

    ``model`` is None if later stages changed the model. The stage must then be grown again.
    """

    number: int
    losses: NDArray[Any]
    answers: Ints
    model: Model


def stages(
    session: Session, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Generator[Any]:
    """Yield the base model after each stage of growth; without growth yield the result of ``fit``."""
    if grow and isinstance(session, Growing):
        yield from session.stages(weight, seed, rows)
    else:
        yield session.fit(weight, seed, rows)


def lasting(session: Session) -> bool:
    """Return whether later stages of growth leave the models of earlier stages unchanged."""
    return bool(getattr(session, "keeps_stages", False))


def grown(
    session: Session,
    n_stages: int,
    weight: Floats,
    seed: int,
    rows: Mask | None = None,
    *,
    grow: bool = True,
) -> Any:
    """Return the base model after this number of stages, or after the last stage if there are fewer."""
    with closing(stages(session, weight, seed, rows, grow=grow)) as growing:
        return deque(islice(growing, n_stages), maxlen=1)[
            0
        ]  # holds one stage at a time in memory


def choose_stage(
    growing: Generator[Any],
    measure: Callable[[Any], StageResult],
    goal: Goal | None,
    lasting: bool = False,
) -> Stage:
    """Return the first stage that reaches the goal, else the first of the closest stages.

    ``lasting``: later stages do not change earlier ones.
    """
    least = np.inf
    taken = Stage(0, np.empty(0), np.empty(0, np.intp), None)
    with closing(growing):
        for n, model in enumerate(growing, 1):
            if not lasting:
                taken = replace(taken, model=None)
            losses, answers = measure(model)
            if goal is None:
                distance = 0.0
            else:
                distance = goal(losses, answers)
            if n == 1 or distance < least:
                least = distance
                taken = Stage(n, losses, answers, model)
            if distance <= 0.0:
                break
    return taken


def outside(held: Mask, weight: Floats, train: Rows) -> Floats:
    """Return weights for a fit without the held-out rows: sample weights if the player's are all 0 there."""
    if weight.any(where=~held):
        return weight
    return train.weight


def row_losses(answers: NDArray[Any], y: Ints) -> NDArray[Any]:
    """Return zero-one losses of class numbers, (1 − h_y)/2 of real values h; two classes: h_1 = −h_0."""
    if not is_real(answers):
        return answers != y
    if answers.ndim == 2:
        h = answers[np.arange(len(y)), y]
    else:
        h = np.where(y == 1, answers, -answers)
    losses: NDArray[Any] = 0.5 * (1.0 - h)
    return losses


@dataclass(frozen=True)
class SingleFit:
    """Base models are fitted once: without a held-out fraction, which is the selection data, or on all rows.

    Without a fraction, the training losses drive the player, as in the papers for small data. The selection
    data are then the same rows, or a validation set of the user on which ``predict`` evaluates base models.
    With ``refit`` the base model is fitted again, on all rows, after its losses were measured.
    """

    session: Session
    train: Rows
    selection_rows: Rows
    held: Mask | None = None
    refit: bool = False
    predict: Callable[[Any], Ints] | None = None
    exact: bool = False  # whether the learner gets the density unrounded

    @property
    def player_rows(self) -> Mask | None:
        """Rows that are not held out."""
        if self.held is None:
            return None
        return ~self.held

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Fit on the player's rows for the losses, and with ``refit`` on all rows for the ensemble."""
        session = self.session
        held = self.held
        rest = self.player_rows
        grow = goal is not None
        weight = self.train.weight * (u if self.exact else round_significant(u))
        if held is None:
            rest_weight = weight
        else:
            rest_weight = outside(held, weight, self.train)

        def measure(model: Model) -> StageResult:
            answers = session.predict(model)
            losses = row_losses(answers, self.train.y)
            if held is not None:
                return losses[rest], answers[held]
            return losses, answers if self.predict is None else self.predict(model)

        keep = lasting(session) and not self.refit
        stage = choose_stage(
            stages(session, rest_weight, seed, rest, grow=grow), measure, goal, keep
        )
        base_model = stage.model
        if self.refit:
            base_model = grown(session, stage.number, weight, seed, grow=grow)
        elif base_model is None:
            base_model = grown(session, stage.number, rest_weight, seed, rest)
        return Response(base_model, stage.losses, stage.answers)


class Fold:
    """One fold of a round: its model is fitted without the fold's rows, a mask, and evaluated on them."""

    def __init__(self, scheme: CrossFitted, rows: Mask, weight: Floats, seed: int) -> None:
        self.scheme = scheme
        self.rows = rows
        self.seed = seed
        self.weight = outside(rows, weight, scheme.train)

    @cached_property
    def model(self) -> Any:
        """Model fitted without the fold's rows."""
        return self.scheme.session.fit(self.weight, self.seed, ~self.rows)

    @cached_property
    def outputs(self) -> NDArray[Any]:
        """Predictions on the fold's rows; class probabilities if rounds accumulate them."""
        scheme = self.scheme
        if scheme.accumulating is not None:
            outputs: NDArray[Any] = scheme.accumulating.probabilities(self.model, self.rows)
        else:
            outputs = scheme.session.predict(self.model, self.rows)
        if scheme.averaging is None:
            del self.model  # its memory is not needed any more
        return outputs

    def stages(self, grow: bool) -> Iterator[Ints]:
        """Yield predictions on the fold's rows after each stage of growth; without growth there is one."""
        if not grow:
            yield (
                self.outputs
                if self.scheme.accumulating is None
                else self.outputs.argmax(axis=1)
            )
            return
        for model in stages(self.scheme.session, self.weight, self.seed, ~self.rows):
            yield self.scheme.session.predict(model, self.rows)


@dataclass(frozen=True)
class CrossFitted:
    """Out-of-fold losses drive the player, and all rows are selection data.

    The base model is the mean of the folds' models if the learner has one and rounds do not accumulate.
    Otherwise it is fitted on all rows. ``together``: responses hold class probabilities if the learner
    accumulates them over rounds.
    """

    session: Session
    train: Rows
    selection_rows: Rows
    fold: Ints
    n_jobs: int | None
    together: bool = False
    exact: bool = False  # whether the learner gets the density unrounded
    folds: list[Fold] | None = None  # of the current round

    player_rows = None

    @cached_property
    def accumulating(self) -> Accumulating | None:
        """The session, if responses hold class probabilities."""
        session = self.session
        if self.together and isinstance(session, Accumulating) and session.accumulates:
            return session
        return None

    @cached_property
    def averaging(self) -> AveragingLearner | None:
        """The session, if the base model is the mean of the folds' models."""
        if isinstance(self.session, AveragingLearner) and self.accumulating is None:
            return self.session
        return None

    def round(self, u: Floats, seed: int) -> CrossFitted:
        """Return the scheme of one round, which fits each fold once for `looks` and the response."""
        return replace(self, folds=self._folds(u, seed))

    def looks(self) -> Iterator[tuple[Mask, NDArray[Any]]]:
        """Yield (rows, outputs) of the first fold, then of all rows, before the base model is fitted.

        Outputs are predictions, or class probabilities if rounds accumulate them. Only after `round`.
        """
        assert self.folds is not None
        folds = self.folds
        yield folds[0].rows, folds[0].outputs
        with self._threads() as parallel:
            parallel(delayed(getattr)(fold, "outputs") for fold in folds)
        yield np.ones(len(self.fold), dtype=np.bool_), joined(folds)

    def _threads(self) -> Parallel:
        return Parallel(n_jobs=self.n_jobs if self.session.concurrent else 1, prefer="threads")

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Fit one model per fold for the losses, and return one base model for all rows."""
        weight = self._weight(u)
        if self.folds is None:
            folds = self._folds(u, seed)
        else:
            folds = self.folds
        grow = goal is not None and isinstance(self.session, Growing)
        growing = [(fold.rows, fold.stages(grow)) for fold in folds]
        predicted = np.empty(len(self.fold), dtype=np.intp)

        def grow_fold(rows: Mask, growing: Iterator[Ints]) -> bool:
            for answers in growing:
                predicted[rows] = answers
                return True
            return False

        def lockstep() -> Generator[Ints]:
            with self._threads() as parallel:
                while any(parallel(delayed(grow_fold)(*fold) for fold in growing)):
                    yield predicted.copy()

        stage = choose_stage(
            lockstep(), lambda answers: (answers != self.train.y, answers), goal
        )
        base_model = None
        if self.averaging is not None and not grow:
            base_model = self.averaging.mean(
                [f.model for f in folds], weight, [~f.rows for f in folds]
            )
        if base_model is None:
            base_model = grown(self.session, stage.number, weight, seed, grow=grow)
        if grow or self.accumulating is None:
            return Response(base_model, stage.losses, stage.answers)
        base_model = self.accumulating.mean(
            [base_model], weight, [np.ones(len(weight), dtype=np.bool_)]
        )
        return Response(base_model, stage.losses, stage.answers, probabilities=joined(folds))

    def _weight(self, u: Floats) -> Floats:
        return self.train.weight * (u if self.exact else round_significant(u))

    def _folds(self, u: Floats, seed: int) -> list[Fold]:
        weight = self._weight(u)
        return [Fold(self, self.fold == j, weight, seed) for j in range(self.fold.max() + 1)]


def joined(folds: list[Fold]) -> NDArray[Any]:
    """Return the predictions, or probabilities, of all folds as one array."""
    first = folds[0].outputs
    outputs = np.empty((len(folds[0].rows), *first.shape[1:]), dtype=first.dtype)
    for fold in folds:
        outputs[fold.rows] = fold.outputs
    return outputs


def choose_scheme(
    session: Session,
    training: TrainingSet,
    validation: object,
    *,
    seed: int,
    refit: bool,
    n_jobs: int | None,
    five_up_to: float = np.inf,
    together: bool = False,
    known_classes: bool = False,
    exact: bool = False,
) -> Scheme:
    """Return the scheme for a training set that the learner's session has opened.

    Parameters
    ----------
    session : Session
        Session of the base learner on the training rows.
    training : TrainingSet
        Training set, and a validation set if the user gave one.
    validation : {"auto", "train"}, int, float or Split
        As given to the classifier, see `Split.of`. "train": the selection data are the training rows.
    seed : int
        Seed of the folds.
    refit : bool
        Whether base models are fitted again on all rows if a fraction is held out.
    n_jobs : int or None
        Threads over the folds.
    five_up_to : float, default=inf
        See `Split.of`.
    together : bool, default=False
        Whether the models of several rounds may answer together, see `CrossFitted`.
    known_classes : bool, default=False
        Whether to leave rows out of their subgroups if no model evaluated on them knows their class.
    exact : bool, default=False
        Whether the learner gets the density of the weights unrounded.

    Raises
    ------
    ValueError
        If no rows are left for the fit or for the selection data.
    """
    train = training.rows
    if training.validation is not None:
        X_val, judged = training.validation
        return SingleFit(
            session,
            train,
            judged,
            predict=lambda base_model: next(predict_models([base_model], X_val)),
            exact=exact,
        )
    if validation == "train":
        return SingleFit(session, train, replace(train, fitted=True), exact=exact)
    split = validation
    if not isinstance(split, Split):
        split = Split.of(training, validation, seed, ", or cv='train'", five_up_to)
    judged = split.selection_rows(train, "losses", refit=refit)
    if known_classes:
        judged = only_known_classes(judged, split.fold, training)
    if isinstance(session, Partitioned):
        session.leave_out(split.fold)
    if split.validation == "cv":
        return CrossFitted(session, train, judged, split.fold, n_jobs, together, exact)
    return SingleFit(session, train, judged, split.fold == 0, refit, exact=exact)


class Combiner(Protocol):
    """Combines the hypotheses of a game into one classifier."""

    def open(self, rows: Rows, unboosted: Callable[[], Iterable[Response]], /) -> None:
        """Begin a new game with selection data; ``unboosted`` fits plain ERM."""

    def take(
        self, response: Response, state: object, needs_objective: bool
    ) -> tuple[float, float]:
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
        cls,
        n_rounds: int,
        patience: int | None,
        tol: float,
        max_time: float | None,
        verbose: object,
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
    demand: Demand | None = (
        None  # weighted loss up to which learners grow; None fits them whole
    )

    def start(self, scheme: Scheme, n_rows: int, entropy: int) -> Game[Any]:
        """Return the game before its first round."""
        plain = (
            scheme(np.ones(n_rows), entropy) for _ in range(1)
        )  # fitted only if it is asked for
        self.combiner.open(scheme.selection_rows, lambda: plain)
        return Game.new(self.player, self.units)

    def respond(self, game: Game[Any], scheme: Scheme, turn: Turn) -> Response | Stop:
        """Return the hypothesis of a round, grown until a demand is met, or why the game ends."""
        demand = self.demand
        units = self.units
        if demand is None:
            return ask(scheme, units, turn.u, turn.seed, None)
        if turn.t == 2 and (refusal := demand.refusal(1, game.trace.rounds[0].weighted_loss)):
            return refusal

        def weighted_loss(losses: NDArray[Any]) -> float:
            return float(turn.w @ units.losses(losses))

        def goal(losses: NDArray[Any], answers: Ints) -> float:
            return demand.distance(weighted_loss(losses))

        response = ask(scheme, units, turn.u, turn.seed, goal)
        refused = turn.t > 1 and demand.refusal(turn.t, weighted_loss(response.losses))
        return refused or response

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
        while game.n_rounds < schedule.last and (
            finished := checkpoints.read(game.n_rounds + 1)
        ):
            response, played = finished
            game.advance(
                game.turn(entropy).w, response, take, time.perf_counter() - played.seconds
            )

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
            lazy = hasattr(
                value, "materialize"
            )  # a lazy tensor has no values before the first forward pass
            if lazy:
                flat = None
            else:
                flat = value.detach().cpu().flatten().view(torch.uint8).numpy()
            value = (
                str(value.dtype),
                None if lazy else tuple(value.shape),
                value.requires_grad,
                flat,
            )
        elif torch is not None and isinstance(value, torch.nn.Module):
            # PyTorch numbers hooks within a process, so the numbers differ between processes.
            value = (
                type(value),
                {name: part for name, part in vars(value).items() if "hook" not in name},
            )
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
    if value is None or (
        isinstance(value, (bool, int, float, str)) and len(repr(value)) <= LONGEST_SCALAR
    ):
        return repr(value)
    cls = type(value)
    name = f"{cls.__module__}.{cls.__qualname__}"
    clone = getattr(cls, "__sklearn_clone__", None)
    if isinstance(value, BaseEstimator) and clone is BaseEstimator.__sklearn_clone__:
        return name  # a clone keeps the parameters alone, and `identify` describes each one
    return f"{name} {_Hasher(hash_name='md5').hash(value)}"


def identify(
    classifier: Model, data: str, entropy: int, free: Collection[str] = ()
) -> dict[str, Any]:
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
    params = {}
    classes = [type(classifier)]
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
    return {
        "class": class_name,
        "data": data,
        "entropy": entropy,
        "params": params,
        "versions": versions,
    }


def find_difference(here: dict[str, Any], stored: dict[str, Any]) -> str:
    """Return how the identity of a stored fit differs from the fit here, as text; empty if they are equal."""
    names = sorted(here["versions"].keys() | stored["versions"].keys())
    versions = [
        (n, stored["versions"].get(n, "none"), here["versions"].get(n, "none")) for n in names
    ]
    changed = [f"{n} {then}, here is {now}" for n, then, now in versions if then != now]
    if changed:
        return f"was written with {'; '.join(changed)}: base models of other versions may predict differently"
    if stored["class"] != here["class"]:
        return f"belongs to a fit of {stored['class']}, this is {here['class']}"
    params = here["params"].keys() | stored["params"].keys()
    if stored["data"] == here["data"]:
        parts = []
    else:
        parts = ["data"]
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
    _tables: dict[str, Any] = field(
        default_factory=dict
    )  # by digest: table readers that base models share
    _lock: Lock | None = None

    @classmethod
    def open(
        cls,
        folder: object,
        identity: Callable[[], dict[str, Any]],
        interrupted: Callable[[], bool],
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
            raise OSError(
                error.errno, f"{name} cannot be written to ({error.strerror})"
            ) from error
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
        table = vars(member).get("table_")
        if table:
            member.table_ = self._tables.setdefault(digest(pickle.dumps(table)), table)


def _name(t: int) -> str:
    return f"round-{t:05d}.pkl"
