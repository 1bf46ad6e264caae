"""The repeated game between a weight player and a learner: the loop of every game, of thresholds too.

Symbols are those of the literature: ``p`` the base measure over units, ``w`` the player's weights on
the simplex, ``u = w / p`` their density, ``ℓ`` the loss vector of the newest hypothesis, ``T`` rounds.
A unit is what carries weight: a sample, a class or a group. This module does not need to know which.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints
from tailboost.core.html import html_table
from tailboost.core.subgroups import memberships

State = TypeVar("State")

# Decimals to which errors and their limits are compared: more than the rounding error of sums of weights.
DECIMALS = 9

# Weights are kept round by round up to this number of units: games over classes or groups have few, games
# over samples too many.
KEEP_WEIGHTS_UP_TO = 1000
# The most rounds shown in a notebook, the first and the last ones.
MOST_SHOWN = 20


@dataclass(frozen=True)
class Units:
    """What gets weight, and how it maps to the rows of the training table and back."""

    # Shape (m,): base measure ``p`` over the units, positive: the player starts there; sums to 1.
    base: Floats
    # Shape (m,): share of the total sample weight that lies in each unit; sums to 1, or more where units
    # overlap.
    mass: Floats
    total: float  # sum of the sample weights of the rows in the units
    # Shape (n,) or (n, c): unit of each row, or its c units, −1 for none; a row without any is outside the
    # game. ``None`` when every row is a unit of its own.
    index: Ints | None = None
    # loss_row, loss_index, loss_share: shape (n_losses,): the rows whose loss is measured, once for each of
    # their units, the unit, and the row's share of the sample weight measured in it; ``None`` when losses
    # come unit by unit.
    loss_row: Ints | None = None
    loss_index: Ints | None = None
    loss_share: Floats | None = None
    # Shape (m,): share by which the loss of each unit that drives the player is drawn towards the mean over
    # the units (see `shrunk`): 1 for nothing known, 0 (or None) for as measured.
    shrinkage: Floats | None = None

    @classmethod
    def samples(cls, sample_weight: Floats, rows: NDArray[np.bool_] | None = None) -> Units:
        """Every row (of ``rows``) is a unit; ``p`` is the normalised sample weight."""
        index = None if rows is None else np.where(rows, np.cumsum(rows) - 1, -1)
        weight = sample_weight if rows is None else sample_weight[rows]
        total = float(weight.sum())
        return cls(base=weight / total, mass=weight / total, total=total, index=index)

    @classmethod
    def groups(cls, index: Ints, sample_weight: Floats, loss_index: Ints, loss_weight: Floats) -> Self:
        """Units are groups (or classes) of rows; the player starts with equal weight on each.

        Every group needs weight among the rows; one without any among those measured has loss 0. ``index`` of
        shape (n,) or (n, c) is the group of each row, or its groups by column, −1 for none; ``loss_index``
        and ``loss_weight`` are groups and weights of the rows whose losses are measured.
        """
        row, unit = memberships(index)
        mass = np.bincount(unit, weights=sample_weight[row])
        # Each row once, at the first of its units; in the order of the units, as where none overlap.
        once = np.r_[True, row[1:] != row[:-1]]
        total = float(np.bincount(unit[once], weights=sample_weight[row[once]]).sum())
        loss_row, loss_unit = memberships(loss_index)
        weight = loss_weight[loss_row]
        measured = np.bincount(loss_unit, weights=weight, minlength=len(mass))
        return cls(
            base=np.full(len(mass), 1.0 / len(mass)),
            mass=mass / total,
            total=total,
            index=index,
            loss_row=loss_row,
            loss_index=loss_unit,
            loss_share=weight / np.where(measured > 0, measured, 1.0)[loss_unit],
        )

    @property
    def count(self) -> float:
        """What regret bounds call n: ``1/min p``, the number of units where p is uniform.

        The scale of the sample weights has no part in it: ``log n`` is the largest divergence of a
        distribution over the units from p, and with the sum of the weights in its place bounds are false for
        weights below 1.
        """
        least = float(self.base[self.base > 0].min())  # a weight may be too small for its share
        return float(len(self.base)) if least == self.base.max() else 1.0 / least

    @property
    def grouped(self) -> bool:
        """Whether units are groups (or classes) of rows, rather than the rows themselves."""
        return self.loss_index is not None

    def density(self, w: Floats) -> Floats:
        """Density ``u`` of the weights over all rows, shape (n,); its mean under the sample weights is 1.

        That of a row in several units is the sum over them; of a row in none it is 1.
        """
        u: Floats = w / self.mass
        if self.index is None:
            return u
        if self.index.ndim == 1:
            return np.where(self.index >= 0, u[self.index], 1.0)
        inside = self.index >= 0
        return np.where(inside.any(axis=1), np.where(inside, u[self.index], 0.0).sum(axis=1), 1.0)

    def means(self, row_losses: NDArray[Any]) -> Floats:
        """Weighted mean of row losses within each unit, shape (m,); 0 where none is measured."""
        assert self.loss_row is not None
        assert self.loss_index is not None
        assert self.loss_share is not None
        losses = self.loss_share * row_losses[self.loss_row]
        sums = np.bincount(self.loss_index, weights=losses, minlength=len(self.base))
        return sums.astype(np.float64, copy=False)

    def losses(self, row_losses: NDArray[Any]) -> NDArray[Any]:
        """Return the losses that drive the player: of the rows, or the units' means, shrunk where asked."""
        if not self.grouped:
            return row_losses
        return shrunk(self.means(row_losses), self.shrinkage)


def doubt(sizes: Floats, pseudo_rows: float) -> Floats | None:
    """Return the share s/(n + s) for `shrunk`, for units of n rows and s pseudo-rows; None for s = 0."""
    return pseudo_rows / (sizes + pseudo_rows) if pseudo_rows > 0 else None


def shrunk(errors: Floats, share: Floats | None) -> Floats:
    """Draw the errors of units, shape (..., m), towards their mean over the units.

    ``share`` is how far each is drawn, in [0, 1]: s/(n + s) for an error measured on n rows and s pseudo-rows
    that err as units do on average. Linear in the errors, so that those of a mixture are the mixture of them.
    """
    if share is None:
        return errors
    return errors + share * (errors.mean(axis=-1, keepdims=True) - errors)


@dataclass(frozen=True)
class TargetSubgroups(Units):
    """Classes, groups or cells with an allowed error each, from which their losses follow."""

    # Shape (m,): allowed error of each subgroup, 1 − θ.
    allowed: Floats = field(default_factory=lambda: np.empty(0))
    # Whether the loss of a subgroup is ``1[R_k ≥ 1 − θ_k]`` instead of its error R_k. If allowed errors
    # differ, the loss is R_k plus the penalty, scaled to [0, 1].
    indicator: bool = False
    # Shape (m,): whether the error of a subgroup is measured; the loss of an unmeasured one is 0.
    measured: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @property
    def penalty(self) -> Floats:
        """The largest allowed error minus the allowed error of each subgroup."""
        return self.allowed.max() - self.allowed

    def errors(self, row_losses: NDArray[Any]) -> Floats:
        """Measured error R_k of each subgroup; NaN without rows."""
        return np.where(self.measured, self.means(row_losses), np.nan)

    @property
    def differ(self) -> bool:
        """Whether allowed errors differ."""
        return bool(self.penalty.any())

    @property
    def limit(self) -> float:
        """The largest excess that is allowed: the common allowed error, or 0 if allowed errors differ."""
        return 0.0 if self.differ else float(self.allowed.max())

    def losses(self, row_losses: NDArray[Any]) -> Floats:
        """Loss ℓ_k in [0, 1] of each subgroup: of the measured (indicator) or the shrunk error."""
        R, measured = self.means(row_losses), self.measured
        if self.indicator:
            return ((R - self.allowed).round(DECIMALS) >= 0).astype(np.float64)
        penalty = self.allowed.max() - self.allowed
        losses = (R + penalty) / (1.0 + penalty.max())
        if self.shrinkage is not None:
            losses[measured] = shrunk(losses[measured], self.shrinkage[measured])
        return np.where(measured, losses, 0.0)


def normalised_exp(log_w: Floats) -> tuple[Floats, float]:
    """Return weights proportional to e^log_w with sum 1, and the logarithm of the sum of e^log_w.

    At least one entry must be above −∞. The entries are shifted by the largest, so that nothing overflows.
    """
    top = float(log_w.max())
    w: Floats = np.exp(log_w - top)
    total = float(w.sum())
    w /= total
    return w, top + float(np.log(total))


class StopKind(enum.Enum):
    """Why a game ended. Code decides by this; the words of a `Stop` are for people."""

    PLAYED = "all rounds played"
    PLATEAU = "the objective no longer falls"
    ZERO = "the objective reached 0"
    TARGET = "what was aimed at is reached"
    RULE = "the weight player is done"
    LEARNER = "the learner does not meet its demand"
    TIME = "time limit"
    INTERRUPT = "interrupted"
    CALLBACK = "stopped by a callback"


@dataclass(frozen=True)
class Stop:
    """A reason to end a game.

    Parameters
    ----------
    kind : StopKind
        The reason, to decide by.
    words : str
        The reason in words, with its numbers.
    """

    kind: StopKind
    words: str

    # Model files hold plain types and our classes, but no enumerations.
    def __getstate__(self) -> dict[str, str]:
        return {"kind": self.kind.name, "words": self.words}

    def __setstate__(self, state: dict[str, str]) -> None:
        object.__setattr__(self, "kind", StopKind[state["kind"]])
        object.__setattr__(self, "words", state["words"])

    @property
    def early(self) -> bool:
        """Whether the game was ended from outside (Ctrl-C, time limit), which needs a warning."""
        return self.kind in (StopKind.TIME, StopKind.INTERRUPT)


class Player(Protocol[State]):
    """A weight player: frozen hyper-parameters and three pure functions."""

    def start(self, units: Units) -> State:
        """State before the first round."""
        ...

    def weights(self, state: State) -> Floats:
        """Return the player's weights for the coming round, on the simplex, shape (m,)."""
        ...

    def update(self, state: State, losses: NDArray[Any]) -> State:
        """State after the newest hypothesis showed its losses; never changes the old state."""
        ...

    def gap(self, state: State) -> float:
        """Optimality gap of the solve behind the weights; 0 where they have a closed form."""
        return 0.0

    def finished(self, state: State) -> Stop | None:
        """Return the reason to end the game, or None to go on."""
        return None

    @property
    def symbols(self) -> dict[str, str]:
        """What the letters of its parameters stand for in printed bounds."""
        return {}


@dataclass(frozen=True)
class Turn:
    """What the learner gets in a round."""

    t: int  # number of the round, from 1
    w: Floats  # shape (m,): the player's weights on the units
    u: Floats  # shape (n,): their density over the rows, mean 1 under the sample weights
    seed: int  # seed of the round


@dataclass(frozen=True)
class Response:
    """The learner's answer to weights: a hypothesis and its losses."""

    member: Any  # the hypothesis that joins the ensemble
    losses: NDArray[Any]  # shape (n,): its losses on the rows whose losses drive the player
    answers: Ints  # shape (n_judged,): the class numbers it predicts for the rows that decide the combination
    # Shape (n_judged, K): class probabilities behind the answers, summed over the rounds whose models answer
    # together.
    probabilities: NDArray[np.float32] | None = None


Oracle = Callable[[Turn], "Response | Stop"]
# Adds a response to the ensemble, given the player's new state; returns (value, gap) of the combination.
Take = Callable[[Response, Any], tuple[float, float]]


@dataclass(frozen=True)
class Round:
    """The record of one round."""

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
    rounds : list of Round
        The entries, from which the arrays are made.
    unit_weights : list of ndarray of shape (m,) or None
        The rows of ``weights``.
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
    stop : Stop or None
        Why the fit ended; None while it runs.
    stop_reason : str
        The same in words.
    """

    rounds: list[Round] = field(default_factory=list)
    unit_weights: list[Floats] | None = None
    stop: Stop | None = None

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

    @property
    def stop_reason(self) -> str:  # noqa: D102
        return "" if self.stop is None else self.stop.words

    def to_dict(self) -> dict[str, Any]:
        """Return one list per number of a round, ``weights`` if kept, and ``stop_reason``: plain types."""
        columns: dict[str, Any] = {
            name: getattr(self, name).tolist()
            for name in ("weighted_loss", "effective_size", "seconds", "gap", "value")
        }
        if self.unit_weights is not None:
            columns["weights"] = [w.tolist() for w in self.unit_weights]
        return columns | {"stop_reason": self.stop_reason}

    def _repr_html_(self) -> str:
        heads = ["round", "weighted loss", "effective size", "objective", "gap", "seconds"]
        rows = [
            [
                str(t),
                f"{r.weighted_loss:.4f}",
                f"{r.effective_size:.3f}",
                f"{r.value:.4f}",
                f"{r.gap:.1e}",
                f"{r.seconds:.2f}",
            ]
            for t, r in enumerate(self.rounds, start=1)
        ]
        shown = rows if len(rows) <= MOST_SHOWN else [*rows[: MOST_SHOWN // 2], *rows[-MOST_SHOWN // 2 :]]
        left_out = f", {len(rows) - len(shown)} in the middle left out" if len(shown) < len(rows) else ""
        return html_table(heads, shown, f"{len(rows)} rounds{left_out}. {self.stop_reason}".strip())


@dataclass(frozen=True)
class Stopping:
    """When to stop before all rounds are played."""

    # Stop when the last ``patience`` rounds together lowered the value by no more than ``tol``; ``None`` sets
    # no such limit.
    patience: int | None = None
    tol: float = 0.0  # the fall must be larger than this to count
    max_time: float | None = None  # seconds after which no new round begins
    zero: float | None = None  # stop at a value up to this, the least possible; ``None`` sets no such limit
    # Stop at a value up to this, which is good enough; ``None`` sets no such limit.
    target: float | None = None
    reached: str = "all targets are met on the validation rows"  # what is so then, in words

    def reason(self, trace: Trace, elapsed: float) -> Stop | None:
        """Return why to stop before the next round, or None to go on."""
        if not trace.rounds:
            return None
        t, value = len(trace), trace.rounds[-1].value
        if self.max_time is not None and elapsed >= self.max_time:
            return Stop(StopKind.TIME, f"time limit of {self.max_time:g} s reached after {t} rounds")
        if self.zero is not None and value <= self.zero:
            return Stop(StopKind.ZERO, f"the objective reached 0 in round {t}")
        if self.patience is not None and t > self.patience:
            before, since = trace.value[: -self.patience].min(), trace.value[-self.patience :].min()
            if before - since <= self.tol:
                words = f"the objective fell by no more than {self.tol:g} in the last {self.patience} rounds"
                return Stop(StopKind.PLATEAU, words)
        if self.target is not None and value <= self.target:
            return Stop(StopKind.TARGET, f"{self.reached} after {t} rounds")
        return None


@dataclass
class Game(Generic[State]):
    """The state of a game: the player's state and the trace so far; `play` continues it."""

    rule: Player[State]
    units: Units
    state: State
    trace: Trace

    @classmethod
    def new(cls, rule: Player[State], units: Units) -> Game[State]:
        """Set up a game that has not been played yet."""
        keep = units.grouped and len(units.base) <= KEEP_WEIGHTS_UP_TO
        return cls(rule, units, rule.start(units), Trace(unit_weights=[] if keep else None))

    @property
    def n_rounds(self) -> int:
        """Rounds played so far."""
        return len(self.trace)

    def snapshot(self) -> Game[State]:
        """Return a copy that further rounds leave as it is."""
        weights = self.trace.unit_weights
        trace = Trace(list(self.trace.rounds), None if weights is None else list(weights), self.trace.stop)
        return Game(self.rule, self.units, self.state, trace)

    def turn(self, entropy: int) -> Turn:
        """Return what the learner gets in the coming round."""
        w, t = self.rule.weights(self.state), self.n_rounds
        return Turn(t + 1, w, self.units.density(w), round_seed(entropy, t))

    def advance(self, w: Floats, response: Response, take: Take, began: float) -> None:
        """Add one whole round, in which the learner answered weights ``w`` with ``response``.

        The game changes at the very end, so that an interrupt leaves it unchanged. ``began`` is the time
        (``time.perf_counter()``) at which the round began.
        """
        losses = self.units.losses(response.losses)
        state = self.rule.update(self.state, losses)
        value, gap = take(response, state)
        played = Round(
            weighted_loss=float(w @ losses.astype(np.float64)),  # products of booleans are slow
            effective_size=float(1.0 / (w @ (w / self.units.base))),
            seconds=time.perf_counter() - began,
            gap=max(gap, self.rule.gap(self.state)),
            value=value,
        )
        trace = self.trace
        rounds = [*trace.rounds, played]
        weights = None if trace.unit_weights is None else [*trace.unit_weights, w]
        # One statement without a call: Python looks for signals at calls, so that none comes between.
        self.state, trace.rounds, trace.unit_weights = state, rounds, weights


def round_seed(entropy: int, t: int) -> int:
    """Seed of round ``t`` (from 0): depends on nothing but the fit's entropy and ``t``."""
    return int(np.random.SeedSequence([entropy, t]).generate_state(1)[0])


def play(
    game: Game[State],
    oracle: Oracle,
    n_rounds: int,
    *,
    entropy: int,
    take: Take = lambda response, state: (np.nan, 0.0),
    stopping: Stopping | None = None,
    observe: Callable[[Game[State], Response], bool] | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> None:
    """Play until ``n_rounds`` rounds are done in all, or there is a reason to stop.

    Parameters
    ----------
    game : Game
        The game, new or to be continued; changed in place, one whole round at a time, so that it is
        consistent whenever this function is left, also by an exception.
    oracle : callable
        ``oracle(turn) -> Response``: a learner fitted for the density ``turn.u`` of the rows; or a `Stop`
        if it has no answer.
    n_rounds : int
        Number of rounds of the whole game, if nothing ends it earlier.
    entropy : int
        Root of the seeds; the seed of round t depends on this and t only.
    take : callable
        ``take(response, state) -> (value, gap)``: adds the response to the ensemble, given the player's new
        state, and returns the objective of the combination and the gap of its solve.
    stopping : Stopping, optional
        When to stop before ``n_rounds``.
    observe : callable
        ``observe(game, newest_response)``, called after every round; true ends the game.
    interrupted : callable
        Returns whether Ctrl-C came. A learner may have caught it and answered half trained: such an answer is
        dropped.

    Raises
    ------
    KeyboardInterrupt
        Only when interrupted before the first round was finished; later the game ends with the rounds
        it has and ``trace.stop`` says so.
    """
    stopping = stopping or Stopping()
    rule, trace = game.rule, game.trace
    began = time.perf_counter()
    trace.stop = None
    try:
        while game.n_rounds < n_rounds:
            stop = rule.finished(game.state) or stopping.reason(trace, time.perf_counter() - began)
            if stop is None:
                round_began = time.perf_counter()
                turn = game.turn(entropy)
                answer = oracle(turn)
                if interrupted is not None and interrupted():
                    raise KeyboardInterrupt
                if isinstance(answer, Stop):
                    stop = answer
                else:
                    game.advance(turn.w, answer, take, round_began)
                    if observe is not None and observe(game, answer):
                        words = f"stopped by a callback after round {turn.t}"
                        stop = Stop(StopKind.CALLBACK, words)
            if stop is not None:
                trace.stop = stop
                return
        trace.stop = Stop(StopKind.PLAYED, f"all {n_rounds} rounds played")
    except KeyboardInterrupt:
        if not trace.rounds:
            raise
        trace.stop = Stop(StopKind.INTERRUPT, f"interrupted after {len(trace)} rounds")
