"""Boosting: a player weighs, a learner answers, a combiner collects, for as long as a schedule says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from tailboost.boosting.checkpoints import Checkpoints
from tailboost.boosting.cross_fitting import Demand, Scheme, respond
from tailboost.boosting.game import Game, Player, Response, Stop, Stopping, Turn, Units, play
from tailboost.boosting.training_set import Rows


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
