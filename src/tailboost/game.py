"""The repeated game between a weight player and a learner: the only boosting loop.

Symbols are those of the literature: ``p`` the base measure over units, ``w`` the player's weights on
the simplex, ``u = w / p`` their density, ``ℓ`` the loss vector of the newest hypothesis, ``T`` rounds.
A unit is whatever carries weight: a sample, a class or a group. Nothing here knows which.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
State = TypeVar("State")

# A class or group game has few units and its weights are worth keeping round by round;
# a sample game has too many.
KEEP_WEIGHTS_UP_TO = 1000


@dataclass(frozen=True)
class Units:
    """What gets weight, and how it maps to the rows of the training table and back.

    Parameters
    ----------
    base : ndarray of shape (m,)
        Base measure ``p`` over the units, positive: the player starts there; sums to 1.
    mass : ndarray of shape (m,)
        Share of the total sample weight that lies in each unit; sums to 1.
    count : float
        What formulas call ``n``: the number of units, rows counted with their sample weight.
    index : ndarray of shape (n,) or None
        Unit of each row, −1 for a row outside the game; ``None`` when every row is a unit of its own.
    loss_index, loss_share : ndarray of shape (n_losses,) or None
        Unit of each row whose loss is measured, and its share of the sample weight measured in the unit;
        ``None`` when losses come unit by unit.
    """

    base: Floats
    mass: Floats
    count: float
    index: Ints | None = None
    loss_index: Ints | None = None
    loss_share: Floats | None = None

    @classmethod
    def samples(cls, sample_weight: Floats, rows: NDArray[np.bool_] | None = None) -> Units:
        """Every row (of ``rows``) is a unit; ``p`` is the normalised sample weight."""
        index = None if rows is None else np.where(rows, np.cumsum(rows) - 1, -1)
        weight = sample_weight if rows is None else sample_weight[rows]
        total = float(weight.sum())
        return cls(base=weight / total, mass=weight / total, count=total, index=index)

    @classmethod
    def groups(cls, index: Ints, sample_weight: Floats, loss_index: Ints, loss_weight: Floats) -> Self:
        """Units are groups (or classes) of rows; the player starts with equal weight on each.

        Every group needs weight among the rows; one without any among those measured has loss 0.
        """
        mass = np.bincount(index, weights=sample_weight)
        measured = np.bincount(loss_index, weights=loss_weight, minlength=len(mass))
        return cls(
            base=np.full(len(mass), 1.0 / len(mass)),
            mass=mass / mass.sum(),
            count=float(len(mass)),
            index=index,
            loss_index=loss_index,
            loss_share=loss_weight / np.where(measured > 0, measured, 1.0)[loss_index],
        )

    def density(self, w: Floats) -> Floats:
        """Density ``u`` of the weights over all rows, shape (n,); its mean under the sample weights is 1."""
        u: Floats = w / self.mass
        return u if self.index is None else np.where(self.index >= 0, u[self.index], 1.0)

    def losses(self, row_losses: NDArray[Any]) -> NDArray[Any]:
        """Loss of each unit: the row losses themselves, or their weighted mean within each unit."""
        if self.loss_index is None or self.loss_share is None:
            return row_losses
        return np.bincount(self.loss_index, weights=self.loss_share * row_losses, minlength=len(self.base))


class Rule(Protocol[State]):
    """A weight player: frozen hyper-parameters and three pure functions."""

    def start(self, units: Units) -> State:
        """State before the first round."""

    def weights(self, state: State) -> Floats:
        """Return the player's weights for the coming round, on the simplex, shape (m,)."""

    def update(self, state: State, losses: NDArray[Any]) -> State:
        """State after the newest hypothesis showed its losses; never changes the old state."""

    def gap(self, state: State) -> float:
        """Optimality gap of the solve behind the weights; 0 where they have a closed form."""

    def finished(self, state: State) -> str:
        """Words for why no further round makes sense, or the empty string."""


@dataclass(frozen=True)
class Response:
    """What the learner answers to weights: a hypothesis and its losses.

    Parameters
    ----------
    member : object
        The hypothesis that joins the ensemble.
    losses : ndarray of shape (n,)
        Its losses on the rows whose losses drive the player.
    answers : ndarray of shape (n_judged,)
        The class numbers it predicts for the rows that decide the combination.
    """

    member: Any
    losses: NDArray[Any]
    answers: Ints


Oracle = Callable[[Floats, int], Response]


class EndOfGame(Exception):
    """Raised by an oracle that has no answer to give: the game ends, for that reason, with its rounds."""


@dataclass(frozen=True)
class Round:
    """What one round left behind."""

    weighted_loss: float
    effective_size: float
    seconds: float
    gap: float
    value: float


@dataclass
class Trace:
    """The history of a fit, one entry per round, as arrays of shape (T,).

    Attributes
    ----------
    weighted_loss : ndarray of shape (T,)
        ``⟨w^t, ℓ^t⟩``, the newest hypothesis' loss under the weights it was trained for, in [0, 1].
    effective_size : ndarray of shape (T,)
        ``1 / Σ w_i²/p_i`` in (0, 1]: 1 for the base measure, small when few units hold the weight.
    seconds : ndarray of shape (T,)
        Wall-clock seconds of the round.
    gap : ndarray of shape (T,)
        Largest optimality gap of the solves in the round.
    value : ndarray of shape (T,)
        Objective of the combined classifier after the round (``nan`` where nothing is optimised).
    weights : ndarray of shape (T, m) or None
        The player's weights, kept for games over few units (classes, groups).
    stop_reason : str
        Why the fit ended, in words.
    """

    rounds: list[Round] = field(default_factory=list)
    unit_weights: list[Floats] | None = None
    stop_reason: str = ""

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self.rounds)

    def _column(self, name: str) -> Floats:
        return np.array([getattr(r, name) for r in self.rounds], dtype=np.float64)

    @property
    def weighted_loss(self) -> Floats:  # noqa: D102 -- documented with the class
        return self._column("weighted_loss")

    @property
    def effective_size(self) -> Floats:  # noqa: D102
        return self._column("effective_size")

    @property
    def seconds(self) -> Floats:  # noqa: D102
        return self._column("seconds")

    @property
    def gap(self) -> Floats:  # noqa: D102
        return self._column("gap")

    @property
    def value(self) -> Floats:  # noqa: D102
        return self._column("value")

    @property
    def weights(self) -> Floats | None:  # noqa: D102
        return None if self.unit_weights is None else np.array(self.unit_weights)


@dataclass(frozen=True)
class Stopping:
    """When further rounds are needless.

    Parameters
    ----------
    patience : int or None
        Stop when the last ``patience`` rounds together lowered the value by no more than ``tol``, or the
        value is 0 and cannot fall; ``None`` plays all rounds.
    tol : float
        A fall must be larger to count.
    max_time : float or None
        Seconds after which no further round is begun.
    """

    patience: int | None = None
    tol: float = 0.0
    max_time: float | None = None

    def reason(self, trace: Trace, elapsed: float) -> str:
        """Words for why to stop before the next round, or the empty string to go on."""
        if self.max_time is not None and trace.rounds and elapsed >= self.max_time:
            return f"time limit of {self.max_time:g} s reached after {len(trace)} rounds"
        if self.patience is None or not trace.rounds:
            return ""
        value = trace.value
        if value[-1] <= 0.0:
            return f"the objective reached 0 in round {len(trace)}"
        if len(value) > self.patience:
            before, since = value[: -self.patience].min(), value[-self.patience :].min()
            if before - since <= self.tol:
                return f"the objective fell by no more than {self.tol:g} in the last {self.patience} rounds"
        return ""


@dataclass
class Game(Generic[State]):
    """A game under way: the player's state and the trace so far; `play` continues it."""

    rule: Rule[State]
    units: Units
    state: State
    trace: Trace

    @classmethod
    def new(cls, rule: Rule[State], units: Units) -> Game[State]:
        """Set up a game that has not been played yet."""
        keep = units.loss_index is not None and len(units.base) <= KEEP_WEIGHTS_UP_TO
        return cls(rule, units, rule.start(units), Trace(unit_weights=[] if keep else None))

    @property
    def n_rounds(self) -> int:
        """Rounds played so far."""
        return len(self.trace)


def round_seed(entropy: int, t: int) -> int:
    """Seed of round ``t`` (from 0): depends on nothing but the fit's entropy and ``t``."""
    return int(np.random.SeedSequence([entropy, t]).generate_state(1)[0])


def play(
    game: Game[State],
    oracle: Oracle,
    n_rounds: int,
    *,
    entropy: int,
    judge: Callable[[Response, Any], tuple[float, float]] = lambda response, state: (np.nan, 0.0),
    stopping: Stopping | None = None,
    observe: Callable[[Game[State]], bool] = lambda game: False,
    interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Play until ``n_rounds`` rounds are done in all, or there is a reason to stop.

    Parameters
    ----------
    game : Game
        The game, new or to be continued; changed in place, one whole round at a time, so that it is
        consistent whenever this function is left, also by an exception.
    oracle : callable
        ``oracle(u, seed) -> Response``: a learner fitted for the density ``u`` of the rows, shape (n,).
    n_rounds : int
        Number of rounds the game has in all when it ends without other reason.
    entropy : int
        Root of the seeds; round t gets the same seed whatever was played before.
    judge : callable
        ``judge(response, state) -> (value, gap)``: takes the response and the player's new state into the
        ensemble and says how good the combination is now.
    stopping : Stopping, optional
        When further rounds are needless.
    observe : callable
        Called after every round; true ends the game.
    interrupted : callable
        Whether Ctrl-C came. Learners may swallow it and answer half trained: such an answer is not taken.

    Raises
    ------
    EndOfGame
        Only when the learner has no answer in the first round.
    KeyboardInterrupt
        Only when interrupted before the first round was finished; later the game ends with the rounds
        it has and ``trace.stop_reason`` says so.
    """
    stopping = stopping or Stopping()
    rule, units, trace = game.rule, game.units, game.trace
    trace.stop_reason = f"all {n_rounds} rounds played"
    began = time.perf_counter()
    try:
        for t in range(len(trace), n_rounds):
            reason = rule.finished(game.state) or stopping.reason(trace, time.perf_counter() - began)
            if reason:
                trace.stop_reason = reason
                return
            round_began = time.perf_counter()
            w = rule.weights(game.state)
            response = oracle(units.density(w), round_seed(entropy, t))
            if interrupted():
                raise KeyboardInterrupt
            losses = units.losses(response.losses)
            state = rule.update(game.state, losses)
            value, gap = judge(response, state)
            played = Round(
                weighted_loss=float(w @ losses.astype(np.float64)),  # bits do not multiply fast
                effective_size=float(1.0 / (w @ (w / units.base))),
                seconds=time.perf_counter() - round_began,
                gap=max(gap, rule.gap(game.state)),
                value=value,
            )
            game.state = state
            trace.rounds.append(played)
            if trace.unit_weights is not None:
                trace.unit_weights.append(w)
            if observe(game):
                trace.stop_reason = f"stopped by a callback after round {t + 1}"
                return
    except EndOfGame as reason:
        if not trace.rounds:
            raise
        trace.stop_reason = str(reason)
    except KeyboardInterrupt:
        if not trace.rounds:
            raise
        trace.stop_reason = f"interrupted after {len(trace)} rounds"
