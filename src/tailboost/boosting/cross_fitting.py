"""Cross-fitting: which rows base models are fitted on, and which rows their losses come from.

A scheme is the oracle of the boosting game. It gets the density of the player's weights and returns a base
model with its losses. Training losses of a strong learner are close to 0. So the base model may be fitted on
all rows, while its losses come from models that did not see the row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from tailboost.boosting.game import DECIMALS, Game, Response, Stop, StopKind, Turn, Units
from tailboost.boosting.training_set import Rows, TrainingSet, numbered_strata
from tailboost.core.array_types import Floats, Ints, Mask, Model
from tailboost.core.fingerprints import stratified_places
from tailboost.learners.foreign import is_real, predict_models
from tailboost.learners.protocols import Accumulating, AveragingLearner, Growing, Partitioned, Session

# Result of one stage of growth: losses that drive the player, and predictions on the selection data.
StageResult = tuple[NDArray[Any], Ints]
# Distance of a stage from its target: growth ends at the first stage with a distance of at most 0.
Goal = Callable[[NDArray[Any], Ints], float]

# "auto" cross-fits up to this many distinct rows: one fit per fold and one on all rows in each round. Beyond,
# it holds out a fifth, with two fits in each round.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
# Number of folds for "auto" if a classifier limits five folds to fewer distinct rows (`five_up_to`). A round
# then needs four fits instead of six.
FEW_FOLDS = 3
HELD_OUT = 0.2  # fraction of the rows
LEAST_HELD_OUT = 20  # least number of held-out rows of the smallest class in a group

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


def respond(
    scheme: Scheme, units: Units, demand: Demand | None, game: Game[Any], turn: Turn
) -> Response | Stop:
    """Fit the learner to the player's weights; with a demand, grow the learner until it is met."""
    if demand is None:
        return ask(scheme, units, turn.u, turn.seed, None)
    if turn.t == 2 and (refusal := demand.refusal(1, game.trace.rounds[0].weighted_loss)):
        return refusal

    def goal(losses: NDArray[Any], answers: Ints) -> float:
        return demand.distance(float(turn.w @ units.losses(losses)))

    response = ask(scheme, units, turn.u, turn.seed, goal)
    refused = turn.t > 1 and demand.refusal(turn.t, float(turn.w @ units.losses(response.losses)))
    return refused or response


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
    session: Session, n_stages: int, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Any:
    """Return the base model after this number of stages, or after the last stage if there are fewer."""
    with closing(stages(session, weight, seed, rows, grow=grow)) as growing:
        return deque(islice(growing, n_stages), maxlen=1)[0]  # holds one stage at a time in memory


def choose_stage(
    growing: Generator[Any], measure: Callable[[Any], StageResult], goal: Goal | None, lasting: bool = False
) -> Stage:
    """Return the first stage that reaches the goal, else the first of the closest stages.

    ``lasting``: later stages do not change earlier ones.
    """
    least, taken = np.inf, Stage(0, np.empty(0), np.empty(0, np.intp), None)
    with closing(growing):
        for n, model in enumerate(growing, 1):
            if not lasting:
                taken = replace(taken, model=None)
            losses, answers = measure(model)
            distance = 0.0 if goal is None else goal(losses, answers)
            if n == 1 or distance < least:
                least, taken = distance, Stage(n, losses, answers, model)
            if distance <= 0.0:
                break
    return taken


def outside(held: Mask, weight: Floats, train: Rows) -> Floats:
    """Return weights for a fit without the held-out rows: sample weights if the player's are all 0 there."""
    return weight if weight.any(where=~held) else train.weight


def row_losses(answers: NDArray[Any], y: Ints) -> NDArray[Any]:
    """Return zero-one losses of class numbers, (1 − h_y)/2 of real values h; two classes: h_1 = −h_0."""
    if not is_real(answers):
        return answers != y
    h = answers[np.arange(len(y)), y] if answers.ndim == 2 else np.where(y == 1, answers, -answers)
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
        return None if self.held is None else ~self.held

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Fit on the player's rows for the losses, and with ``refit`` on all rows for the ensemble."""
        session, held, rest, grow = self.session, self.held, self.player_rows, goal is not None
        weight = self.train.weight * (u if self.exact else round_significant(u))
        rest_weight = weight if held is None else outside(held, weight, self.train)

        def measure(model: Model) -> StageResult:
            answers = session.predict(model)
            losses = row_losses(answers, self.train.y)
            if held is not None:
                return losses[rest], answers[held]
            return losses, answers if self.predict is None else self.predict(model)

        keep = lasting(session) and not self.refit
        stage = choose_stage(stages(session, rest_weight, seed, rest, grow=grow), measure, goal, keep)
        base_model = stage.model
        if self.refit:
            base_model = grown(session, stage.number, weight, seed, grow=grow)
        elif base_model is None:
            base_model = grown(session, stage.number, rest_weight, seed, rest)
        return Response(base_model, stage.losses, stage.answers)


class Fold:
    """One fold of a round: its model is fitted without the fold's rows, a mask, and evaluated on them."""

    def __init__(self, scheme: CrossFitted, rows: Mask, weight: Floats, seed: int) -> None:
        self.scheme, self.rows, self.seed = scheme, rows, seed
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
            yield self.outputs if self.scheme.accumulating is None else self.outputs.argmax(axis=1)
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
        return (
            self.session if isinstance(self.session, AveragingLearner) and self.accumulating is None else None
        )

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
        folds = self._folds(u, seed) if self.folds is None else self.folds
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

        stage = choose_stage(lockstep(), lambda answers: (answers != self.train.y, answers), goal)
        base_model = None
        if self.averaging is not None and not grow:
            base_model = self.averaging.mean([f.model for f in folds], weight, [~f.rows for f in folds])
        if base_model is None:
            base_model = grown(self.session, stage.number, weight, seed, grow=grow)
        if grow or self.accumulating is None:
            return Response(base_model, stage.losses, stage.answers)
        base_model = self.accumulating.mean([base_model], weight, [np.ones(len(weight), dtype=np.bool_)])
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


def folds(places: Ints, k: int) -> Ints:
    """Return the fold of each place, see `stratified_places`."""
    return places % k


def held_out(places: Ints, fraction: float) -> Mask:
    """Return which places are held out: every (1/fraction)-th, see `stratified_places`."""
    held: Mask = np.floor((places + 1) * fraction) > np.floor(places * fraction)
    return held


@dataclass(frozen=True)
class Split:
    """Assignment of rows to folds."""

    fold: Ints  # shape (n,): number of the fold in which a row is held out; −1: never held out
    validation: object  # "cv", or the fraction that is held out

    @classmethod
    def of(
        cls,
        training: TrainingSet,
        validation: Any,
        seed: int,
        otherwise: str = "",
        five_up_to: float = np.inf,
        name: str = "cv",
    ) -> Split:
        """Return a split of the training rows, by hashes of the rows and the seed.

        Parameters
        ----------
        training : TrainingSet
            Training set.
        validation : {"auto", "cv"}, int or float
            Number of folds ("cv": five), or fraction to hold out. "auto" cross-fits up to 50,000 distinct
            rows, and if a held-out fifth would contain fewer than 20 rows of a class in a group. Otherwise
            it holds out a fifth.
        seed : int
            Seed of the hashes.
        otherwise : str, default=""
            Advice to add to the message if all rows are equal.
        five_up_to : float, default=inf
            Number of distinct rows beyond which "auto" takes three folds instead of five.
        name : str, default="cv"
            Name of the parameter, for messages.

        Raises
        ------
        ValueError
            If no rows are left for the fit or for the selection data.
        """
        train, given = training.rows, validation
        hashes = training.split_hashes(seed)
        places = stratified_places(hashes, numbered_strata(train.y, train.groups), train.weight)
        n_distinct = int(places.max()) + 1
        if validation == "auto":
            validation = "cv"
            if n_distinct > CROSS_FIT_UP_TO:
                first = np.unique(hashes, return_index=True)[1]
                smallest = _smallest_unit(train.part(np.isin(np.arange(len(train.y)), first)))
                validation = HELD_OUT if smallest * HELD_OUT >= LEAST_HELD_OUT else "cv"
        if validation == "cv" or validation >= 2:
            few = given == "auto" and n_distinct > five_up_to
            k = min(FEW_FOLDS if few else N_FOLDS if validation == "cv" else int(validation), n_distinct)
            if k < 2:
                raise ValueError(
                    f"{name}={given!r}: all {len(train.y):,} rows of X are the same, so that none can be "
                    f"held out; at least two distinct rows are needed{otherwise}"
                )
            return cls(folds(places, k), "cv")
        held = held_out(places, validation)
        if not held.any() or held.all():
            raise ValueError(
                f"{name}={validation:g} leaves {'no' if not held.any() else 'only'} validation rows "
                f"of {n_distinct} distinct ones; use folds, another fraction or more rows"
            )
        return cls(np.where(held, 0, -1), validation)

    @property
    def parts(self) -> list[Mask]:
        """Masks of the rows that are held out together, one per fold."""
        return [self.fold == j for j in range(int(self.fold.max()) + 1)]

    def selection_rows(self, train: Rows, what: str, *, refit: bool = True) -> Rows:
        """Return the selection data: the held-out rows, described as out-of-fold ``what``.

        ``refit``: models fitted without a held-out fraction are fitted again on all rows.
        """
        if self.validation == "cv":
            words = f"out-of-fold {what} of the {len(train.y):,} training rows ({len(self.parts)} folds)"
            return replace(train, words=words, fold=self.fold.astype(np.uint8), refit=True)
        held = self.fold == 0
        return replace(train.part(held), words=f"the {held.sum():,} held-out rows", refit=refit)


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


def _smallest_unit(rows: Rows) -> int:
    """Return the number of rows of the smallest class in a group; over all columns if there are several."""
    if rows.groups is None or rows.groups.ndim == 1:
        return int(np.bincount(numbered_strata(rows.y, rows.groups)).min())
    return min(int(np.bincount(numbered_strata(rows.y, column)).min()) for column in rows.groups.T)


def only_known_classes(judged: Rows, side: Ints, training: TrainingSet) -> Rows:
    """Exclude rows from their subgroups if their whole class is held out at once, or never."""
    first, last = np.full(training.n_classes, side.max()), np.full(training.n_classes, side.min())
    np.minimum.at(first, training.y, side)
    np.maximum.at(last, training.y, side)
    split = (first < last)[judged.y]
    if judged.groups is None or not split.any():  # one row per class: a rough error is better than none
        return judged
    split = split.reshape(-1, *[1] * (judged.groups.ndim - 1))
    return replace(judged, groups=np.where(split, judged.groups, -1))
