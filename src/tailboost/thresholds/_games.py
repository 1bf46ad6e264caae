"""Members beside those of growth: answers to a player of the units' weights, and told groups joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost import game
from tailboost._blas import one_blas_thread
from tailboost._typing import Floats, Ints
from tailboost.game import Game, Response, Rule, Turn, Units, shrunk
from tailboost.rates import error
from tailboost.solvers.tradeoff import undominated
from tailboost.thresholds._members import Pool
from tailboost.thresholds._program import Program
from tailboost.thresholds._tally import Member

# Rate of the player.
RATE = 1.0


@dataclass(frozen=True, eq=False)
class HedgeInGames(Rule[Floats]):
    """Hedge in several games at once, each of some of the units: in each they share what its rows weigh."""

    of: Ints  # shape (m,): the game of each unit
    rows: Floats  # shape (m,): the mass of each unit's rows

    def start(self, units: Units) -> Floats:
        """Start with cumulative losses of 0."""
        return np.zeros(len(units.base))

    def weights(self, state: Floats) -> Floats:
        """Return weights that sum to 1, and in each game to the share of its rows."""
        w = np.zeros(len(state))
        for g in range(int(self.of.max()) + 1):
            inside = self.of == g
            own = np.exp(state[inside] - state[inside].max())
            w[inside] = own / own.sum() * self.rows[inside].sum()
        return w / w.sum()

    def update(self, state: Floats, losses: NDArray[Any]) -> Floats:
        """Add the newest losses."""
        return state + RATE * losses


@one_blas_thread
def play(
    pool: Pool,
    program: Program,
    source: int,
    *,
    prices: Sequence[float],
    rounds: int,
    kept: int,
    pseudo_rows: float = 0.0,
    corrected: bool = True,
    games: Ints | None = None,
) -> list[int]:
    """Add best answers to what Hedge plays on the units of a largest rate, at several prices of the mean.

    Parameters
    ----------
    pool : Pool
        The pool.
    program : Program
        Whose objective is the largest rate of a family.
    source : int
        Whose belief answers.
    prices : sequence of float in [0, 1]
        Shares of the mean error in what is answered: 0 is the largest rate alone.
    rounds, kept : int
        Rounds at each price, and how many of the answers join, spread over the rounds.
    pseudo_rows : float
        By which a rate of few rows is drawn towards the mean over the units before it is played on.
    corrected : bool
        Whether strata count by their true masses where the belief has others for them.
    games : ndarray of int, shape (m,), optional
        Number of the game that each unit is played in, of which each weighs what its rows do: groups that are
        told are games of their own. By default all are in one.

    Returns
    -------
    list of int
        Numbers of the members.
    """
    table, strata, rows = pool.table, program.strata, program.matrix[program.of == -1]
    whole = replace(table, half=None)  # members do not depend on how rows are halved
    units = program.unit_prices
    mean = error().terms(strata).linear[0][: len(strata.mass)]
    scale = table.correction(source)[:, None] if corrected else 1.0
    mass, sizes = program.unit_sizes
    doubt = pseudo_rows / (sizes + pseudo_rows)
    games = np.zeros(len(rows), dtype=np.intp) if games is None else games
    every = Units(np.full(len(rows), 1.0 / len(rows)), np.ones(len(rows)), 1.0)
    found: list[int] = []
    for price in prices:
        answers: list[Member] = []

        def best_answer(turn: Turn, price: float = price, answers: list[Member] = answers) -> Response:
            charged = (1.0 - price) * np.tensordot(turn.w, units, axes=1) + price * mean
            answers.append(Member.of(source, charged * scale))
            actions = table.answers(answers[-1])
            values = rows @ whole.counted(actions).sum(axis=0).ravel()
            return Response(answers[-1], shrunk(values, doubt), actions)

        played = Game.new(HedgeInGames(games, mass), every)
        game.play(played, best_answer, rounds, entropy=0)
        if played.n_rounds < rounds:  # a part of these answers is no use to anyone
            raise KeyboardInterrupt
        places = np.unique(np.linspace(0, rounds - 1, kept).round().astype(np.intp))
        found += [pool.add(answers[i]) for i in places]
    return list(dict.fromkeys(found))


@one_blas_thread
def join_by_group(pool: Pool, program: Program, numbers: Sequence[int], pseudo_rows: float) -> list[int]:
    """Add members that answer in each told group as the best of some members does there.

    What is answered in a group that is told depends on the prices of its own strata, and a unit lies in one
    group. So of all combinations with no unit above v, that of least mean error takes in each group the
    cheapest prices that keep v there; v runs over all values where one of these changes. Where a group cannot
    keep v it does what it can, and the others go on: which group is worst on other rows is not known.

    Parameters
    ----------
    pool : Pool
        The pool.
    program : Program
        Whose objective is the largest error of a group or cell.
    numbers : sequence of int
        Members of one source, and constants.
    pseudo_rows : float
        Rows by which counts of few rows are doubted.

    Returns
    -------
    list of int
        Numbers of the members.
    """
    strata, doubt = program.strata, pool.table.reading(pseudo_rows).objective
    group, source = strata.combination, pool.members[numbers[0]].source
    tallies = np.array([pool.tallies[i].blended(doubt) for i in numbers])
    units = program.matrix[program.of == -1].reshape(-1, len(group), strata.n_actions)
    mean = error().terms(strata).linear[0]
    steps, worsts = [], []
    for g in range(strata.n_combinations):
        own = group == g
        inside = units[(units[:, own] != 0).any(axis=(1, 2))][:, own]
        worst = np.tensordot(tallies[:, own], inside, axes=([1, 2], [1, 2])).max(axis=1)
        steps.append(undominated(worst, np.tensordot(tallies[:, own], mean[own], axes=2)))
        worsts.append(worst[steps[-1]])
    found = []
    for v in np.unique(np.concatenate(worsts))[::-1]:
        prices = np.empty((len(group), strata.n_actions))
        for g, (order, worst) in enumerate(zip(steps, worsts, strict=True)):
            # Steps fall: the first one that is at most v is the cheapest.
            best = order[min(int(np.count_nonzero(worst > v)), len(order) - 1)]
            prices[group == g] = pool.members[numbers[best]].prices[group == g]
        found.append(pool.add(Member(source, prices)))
    return list(dict.fromkeys(found))
