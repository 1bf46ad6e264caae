"""Which rows a hypothesis is fitted on, whose losses drive the player, and whose losses decide λ.

A scheme is an oracle of the game: it takes the density of the player's weights and answers with a member
and its losses. A strong learner leaves no training losses, so the member that stays has seen all rows
while its losses are measured on rows that a sibling of it did not see.
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

from tailboost._rows import distinct, draw_lots
from tailboost._typing import Floats, Ints, Mask
from tailboost._units import strata_of
from tailboost.data import Problem, Rows
from tailboost.game import DECIMALS, Game, Response, Stop, StopKind, Turn, Units
from tailboost.learners.protocols import Accumulating, Averaging, Growing, Partitioned, Session
from tailboost.learners.session import is_real, predict_members

# What a stage of growth is measured by: the losses that drive the player, and the answers on the judged rows.
Look = tuple[NDArray[Any], Ints]
# How far a stage is from being good enough: growth ends at the first stage with 0 or less.
Goal = Callable[[NDArray[Any], Ints], float]

# "auto" cross-fits up to this many distinct rows: a round then costs a fit for each fold and one on all rows,
# with a held-out fifth two, and beyond it a fifth is large enough.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
# Some classifiers by "auto" take fewer folds beyond a number of distinct rows: four fits a round, not six.
FEW_FOLDS = 3
HELD_OUT = 0.2
LEAST_HELD_OUT = 20  # least number of rows of the smallest class or group in a held-out fifth

SIGNIFICANT_BITS = 16
# A density below this is 0 up to the solver's precision.
NEGLIGIBLE = 2.0**-32


def round_significant(x: Floats) -> Floats:
    """Round to so many significant bits that equal rows get equal weights in any order of summation."""
    x = np.where(x < NEGLIGIBLE, 0.0, x)
    mantissa, exponent = np.frexp(x)
    scale = float(2**SIGNIFICANT_BITS)
    return np.ldexp(np.rint(mantissa * scale) / scale, exponent)


class Scheme(Protocol):
    """An oracle that also says which rows the player weighs and on which rows members are judged."""

    @property
    def judged(self) -> Rows:
        """Rows on which members are judged."""

    @property
    def player_rows(self) -> Mask | None:
        """Rows the player weighs; None for all."""

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Fit for the density ``u`` of the rows, shape (n,); with a goal, grow until it is reached.

        If none reaches it, the stage that came closest is taken.
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
    """Fit for a density of the rows; in games over subgroups the judged rows give the player's losses."""
    if not units.grouped:
        return scheme(u, seed, goal)
    y = scheme.judged.y
    by_answers = None if goal is None else (lambda losses, answers: goal(answers != y, answers))
    response = scheme(u, seed, by_answers)
    return replace(response, losses=response.answers != y)


def stages(
    session: Session, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Generator[Any]:
    """Yield the stages of a learner; without growth there is one, the result of ``fit``."""
    if grow and isinstance(session, Growing):
        yield from session.stages(weight, seed, rows)
    else:
        yield session.fit(weight, seed, rows)


def lasting(session: Session) -> bool:
    """Return whether the stages of a learner's growth stay as they are when it grows on."""
    return bool(getattr(session, "lasting_stages", False))


def grown(
    session: Session, n_stages: int, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Any:
    """Return the classifier after this number of stages, or after all if there are fewer."""
    with closing(stages(session, weight, seed, rows, grow=grow)) as growing:
        return deque(islice(growing, n_stages), maxlen=1)[0]  # of a net a stage may be large


@dataclass(frozen=True)
class Stage:
    """The chosen stage of a growth: its number, from 1, its losses and its answers.

    ``model`` is None if growth went on beyond it and changed it: the stage must then be grown again.
    """

    number: int
    losses: NDArray[Any]
    answers: Ints
    model: Any


def choose_stage(
    growing: Generator[Any], look: Callable[[Any], Look], goal: Goal | None, lasting: bool = False
) -> Stage:
    """Draw stages until one reaches the goal, and take the first of those that came closest.

    ``lasting`` says that growth does not change the stages before.
    """
    least, taken = np.inf, Stage(0, np.empty(0), np.empty(0, np.intp), None)
    with closing(growing):
        for n, model in enumerate(growing, 1):
            if not lasting:
                taken = replace(taken, model=None)
            losses, answers = look(model)
            distance = 0.0 if goal is None else goal(losses, answers)
            if n == 1 or distance < least:
                least, taken = distance, Stage(n, losses, answers, model)
            if distance <= 0.0:
                break
    return taken


def outside(held: Mask, weight: Floats, train: Rows) -> Floats:
    """Weights for a fit without the held-out rows; the sample weights if the player's are all 0 there."""
    return weight if weight.any(where=~held) else train.weight


def row_losses(answers: NDArray[Any], y: Ints) -> NDArray[Any]:
    """Return zero-one losses of class numbers, and (1 − h_y)/2 of values h; h_1 = −h_0 of two classes."""
    if not is_real(answers):
        return answers != y
    h = answers[np.arange(len(y)), y] if answers.ndim == 2 else np.where(y == 1, answers, -answers)
    losses: NDArray[Any] = 0.5 * (1.0 - h)
    return losses


@dataclass(frozen=True)
class AllRows:
    """Members fitted to all rows, whose losses there drive the player, as the papers do for small data.

    They are judged on the same rows, or on a validation set of the user's, about which ``predict`` asks them.
    """

    session: Session
    train: Rows
    judged: Rows
    predict: Callable[[Any], Ints] | None = None

    player_rows = None

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Fit on all rows; training losses end the growth."""
        session, weight = self.session, self.train.weight * round_significant(u)

        def look(model: Any) -> Look:
            answers = session.predict(model)
            losses = row_losses(answers, self.train.y)
            return losses, answers if self.predict is None else self.predict(model)

        growing = stages(session, weight, seed, grow=goal is not None)
        stage = choose_stage(growing, look, goal, lasting(session))
        member = stage.model
        if member is None:
            member = grown(session, stage.number, weight, seed)
        return Response(member, stage.losses, stage.answers)


@dataclass(frozen=True)
class HeldOut:
    """The combination from a held-out fraction; the member that stays may be fitted again, on all rows."""

    session: Session
    train: Rows
    judged: Rows
    held: Mask
    refit: bool

    @property
    def player_rows(self) -> Mask:
        """The rows that are not held out."""
        return ~self.held

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Fit without the held-out rows for the losses and, to refit, with them for the ensemble."""
        weight = self.train.weight * round_significant(u)
        own, rest, grow = outside(self.held, weight, self.train), ~self.held, goal is not None

        def look(model: Any) -> Look:
            answers = self.session.predict(model)
            return row_losses(answers, self.train.y)[rest], answers[self.held]

        keep = lasting(self.session) and not self.refit
        stage = choose_stage(stages(self.session, own, seed, rest, grow=grow), look, goal, keep)
        member = stage.model
        if self.refit:
            member = grown(self.session, stage.number, weight, seed, grow=grow)
        elif member is None:
            member = grown(self.session, stage.number, own, seed, rest)
        return Response(member, stage.losses, stage.answers)


class Fold:
    """A fold in a round: its model is fitted without its rows, a mask, and asked about them once."""

    def __init__(self, scheme: CrossFitted, rows: Mask, weight: Floats, seed: int) -> None:
        self.scheme, self.rows, self.weight, self.seed = scheme, rows, weight, seed
        self.own = outside(rows, weight, scheme.train)

    def fit(self) -> Any:
        """Fit a model without the held rows."""
        return self.scheme.session.fit(self.own, self.seed, ~self.rows)

    @cached_property
    def model(self) -> Any:
        """The model, kept as long as the fold is."""
        return self.fit()

    @cached_property
    def known(self) -> NDArray[Any]:
        """Answers on the held-out rows, or their class probabilities where rounds add these up."""
        session, accumulating = self.scheme.session, self.scheme.accumulating
        model = self.fit() if self.scheme.averaging is None else self.model
        if accumulating is not None:
            return accumulating.probabilities(model, self.rows)
        return session.predict(model, self.rows)

    @property
    def answers(self) -> Ints:
        """What the whole model answers about the held rows."""
        return self.known if self.scheme.accumulating is None else self.known.argmax(axis=1)

    def stages(self, grow: bool) -> Iterator[Ints]:
        """Yield the answers after every stage of the model's growth; without growth there is one."""
        if not grow:
            yield self.answers
            return
        for model in stages(self.scheme.session, self.own, self.seed, ~self.rows):
            yield self.scheme.session.predict(model, self.rows)


@dataclass(frozen=True)
class CrossFitted:
    """Out-of-fold losses for player and λ.

    The member that stays is the mean of the folds' models where the learner knows one and rounds answer
    alone, else fitted to all rows. ``together`` says that responses hold class probabilities where the
    learner knows them.
    """

    session: Session
    train: Rows
    judged: Rows
    fold: Ints
    n_jobs: int | None
    together: bool = False
    folds: list[Fold] | None = None  # of one round, where it has begun

    player_rows = None

    @property
    def accumulating(self) -> Accumulating | None:
        """The session, where responses hold class probabilities."""
        session = self.session
        return (
            session if self.together and isinstance(session, Accumulating) and session.accumulates else None
        )

    @property
    def averaging(self) -> Averaging | None:
        """The session, where the models of the folds stay as a member."""
        return self.session if isinstance(self.session, Averaging) and self.accumulating is None else None

    def round(self, u: Floats, seed: int) -> CrossFitted:
        """Return the scheme of one round, whose folds' models serve to look first and to answer then."""
        return replace(self, folds=self._folds(u, seed))

    def looks(self) -> Iterator[tuple[Mask, NDArray[Any]]]:
        """Yield (rows, answers) of the first fold, and then of all rows, before a member is fitted.

        Class probabilities in place of answers where rounds add these up. For a scheme of one `round`.
        """
        assert self.folds is not None
        folds = self.folds
        yield folds[0].rows, folds[0].known
        with self._threads() as parallel:
            parallel(delayed(getattr)(fold, "known") for fold in folds)
        yield np.ones(len(self.fold), dtype=np.bool_), joined(folds)

    def _threads(self) -> Parallel:
        return Parallel(n_jobs=self.n_jobs if self.session.concurrent else 1, prefer="threads")

    def __call__(self, u: Floats, seed: int, goal: Goal | None = None) -> Response:
        """Fit one model per fold for the losses, and keep one of all rows for the ensemble."""
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
        member, weight = None, folds[0].weight
        if self.averaging is not None and not grow:
            member = self.averaging.mean([f.model for f in folds], weight, [~f.rows for f in folds])
        if member is None:
            member = grown(self.session, stage.number, weight, seed, grow=grow)
        if grow or self.accumulating is None:
            return Response(member, stage.losses, stage.answers)
        if self.averaging is None:
            member = self.accumulating.mean([member], weight, [np.ones(len(weight), dtype=np.bool_)])
        return Response(member, stage.losses, stage.answers, probabilities=joined(folds))

    def _folds(self, u: Floats, seed: int) -> list[Fold]:
        weight = self.train.weight * round_significant(u)
        return [Fold(self, self.fold == j, weight, seed) for j in range(self.fold.max() + 1)]


def joined(folds: list[Fold]) -> NDArray[Any]:
    """Return the answers, or probabilities, of all folds as one array."""
    first = folds[0].known
    known = np.empty((len(folds[0].rows), *first.shape[1:]), dtype=first.dtype)
    for fold in folds:
        known[fold.rows] = fold.known
    return known


def folds(places: Ints, k: int) -> Ints:
    """Distribute places (see `draw_lots`) over ``k`` folds."""
    return places % k


def held_out(places: Ints, fraction: float) -> Mask:
    """Hold out every (1/fraction)-th place (see `draw_lots`)."""
    held: Mask = np.floor((places + 1) * fraction) > np.floor(places * fraction)
    return held


@dataclass(frozen=True)
class Split:
    """Which rows are judged by models that were not fitted on them."""

    fold: Ints  # shape (n,): the part with which a row is held out; −1 for a row that never is
    validation: Any  # "cv" or float: what was asked for, or chosen by "auto"

    @classmethod
    def of(
        cls,
        problem: Problem,
        validation: Any,
        seed: int,
        otherwise: str = "",
        five_up_to: float = np.inf,
        name: str = "validation",
    ) -> Split:
        """Split the rows of a problem, by lots that the seed draws.

        ``validation`` is a number of folds ("cv" is five), or a fraction to hold out. "auto" cross-fits up to
        50,000 distinct rows, and where a held-out fifth would have fewer than 20 rows of a class in some
        group; beyond ``five_up_to`` distinct rows it takes three folds. For messages: ``name`` is the
        parameter that ``validation`` is from, ``otherwise`` what else could be done where all rows are the
        same.

        Raises
        ------
        ValueError
            If no rows are left to fit or to judge on.
        """
        train, given = problem.rows, validation
        hashes = problem.lot_hashes(seed)
        places = draw_lots(hashes, strata_of(train.y, train.groups), train.weight)
        n_distinct = int(places.max()) + 1
        if validation == "auto":
            smallest = _smallest_unit(train.part(np.isin(np.arange(len(train.y)), distinct(hashes)[0])))
            enough = n_distinct > CROSS_FIT_UP_TO and smallest * HELD_OUT >= LEAST_HELD_OUT
            validation = HELD_OUT if enough else "cv"
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
        """The rows held out together, for each part."""
        return [self.fold == j for j in range(int(self.fold.max()) + 1)]

    def judged(self, train: Rows, what: str, *, refit: bool = True) -> Rows:
        """Return the held-out rows; their words say ``what`` of them is judged.

        ``refit`` says whether models that were fitted without a held-out fraction are refitted with it.
        """
        if self.validation == "cv":
            words = f"out-of-fold {what} of the {len(train.y):,} training rows ({len(self.parts)} folds)"
            return replace(train, words=words, fold=self.fold.astype(np.uint8), refit=True)
        held = self.fold == 0
        return replace(train.part(held), words=f"the {held.sum():,} held-out rows", refit=refit)


def choose_scheme(
    session: Session,
    problem: Problem,
    validation: Any,
    *,
    seed: int,
    refit: bool,
    n_jobs: int | None,
    five_up_to: float = np.inf,
    together: bool = False,
    known_classes: bool = False,
) -> Scheme:
    """Return the scheme for a problem whose training rows the learner's session has opened.

    ``validation`` is as given to the classifier; where it holds out a fraction, ``refit`` has members fitted
    again on all rows. ``seed`` draws the folds, ``n_jobs`` are threads over them. ``five_up_to`` is that of
    `Split.of`; whether the models of several rounds may answer ``together`` see `CrossFitted`. Rows of which
    no model that is judged on them knows the class can be left out of their units: ``known_classes``.

    Raises
    ------
    ValueError
        If the scheme leaves no rows to fit or to judge on.
    """
    train = problem.rows
    if problem.validation is not None:
        X_val, judged = problem.validation
        return AllRows(session, train, judged, lambda member: next(predict_members([member], X_val)))
    if validation == "train":
        return AllRows(session, train, replace(train, fitted=True))
    split = Split.of(problem, validation, seed, ", or validation='train'", five_up_to)
    judged = split.judged(train, "losses", refit=refit)
    if known_classes:
        judged = only_known_classes(judged, split.fold, problem)
    if isinstance(session, Partitioned):
        session.leave_out(split.fold)
    if split.validation == "cv":
        return CrossFitted(session, train, judged, split.fold, n_jobs, together)
    return HeldOut(session, train, judged, split.fold == 0, refit)


def _smallest_unit(rows: Rows) -> int:
    """Return the number of rows of the smallest class in any unit; with groups of a table, in any column."""
    if rows.groups is None or rows.groups.ndim == 1:
        return int(np.bincount(strata_of(rows.y, rows.groups)).min())
    return min(int(np.bincount(strata_of(rows.y, column)).min()) for column in rows.groups.T)


def only_known_classes(judged: Rows, side: Ints, problem: Problem) -> Rows:
    """Exclude judged rows whose class lies entirely on one side of the split, unknown to who is judged."""
    first, last = np.full(problem.n_classes, side.max()), np.full(problem.n_classes, side.min())
    np.minimum.at(first, problem.y, side)
    np.maximum.at(last, problem.y, side)
    known = (first < last)[judged.y]
    if judged.groups is None or not known.any():  # one row per class: a rough error is better than none
        return judged
    known = known.reshape(-1, *[1] * (judged.groups.ndim - 1))
    return replace(judged, groups=np.where(known, judged.groups, -1))
