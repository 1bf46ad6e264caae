"""Bounds of theorems for the players of the papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailboost.boosting.game import DECIMALS, Played
from tailboost.boosting.players.corrective import entropic_theory
from tailboost.boosting.pool import JudgedPool
from tailboost.selection.summary import Bound, Bounds
from tailboost.solvers import cvar

LARGEST_MEAN = "largest mean loss of any unit under the even mixture"
SHRUNK = (
    "mean losses are shrunk towards their mean over the units, more if they rest on fewer rows"
)
OUTLIERS = "not given if outliers are dropped: the remaining rows change from round to round"
NOT_REACHED = "not reached in these rounds; no rate of convergence is known"


def hedge_game_bounds(
    game: Played, *, alpha: float | None, eta: float | str, planned: int
) -> Bounds:
    """Return the bounds of a game played by Hedge, with a regret of at most KL(v ‖ p)/η + ηT/8.

    If outliers are dropped, no bound is promised, and the only observed one has no number.

    Parameters
    ----------
    game : Played
        The game after T rounds.
    alpha : float or None
        Level of the CVaR bound; None for games over groups, which have no such bound.
    eta : float or "theory"
        η as stated. Only "theory", η = √(8 log n/T) for the planned rounds, has an a-priori bound: Zhai et
        al. 2021, section 3, for uniform p; for other p with n = 1/min p.
    planned : int
        Number of planned rounds.

    Returns
    -------
    promised, observed : tuple of Bound
        The a-priori bound, if there is one, and the bounds from the losses of the game. With η = 0 the player
        stays at p, and no bound has a number unless there is one unit.
    """
    player: Any = game.player
    if player.outlier_fraction > 0:
        observed_bound = Bound("loss of the even mixture", "V + …", bound=None, note=OUTLIERS)
        return (), (observed_bound,)

    T = game.n_rounds
    step = player.eta
    V = float(game.trace.weighted_loss.mean())
    p = game.state.base
    mean_losses = game.state.cumulative / T
    largest_mean = float(mean_losses[p > 0].max())
    smallest_p = 1.0 / game.units.count  # min p of a row: a unit may stand for several rows
    has_one_unit = smallest_p == 1

    shrinkage = [SHRUNK] if game.stakes.shrinkage is not None else []
    notes = ["on the losses of the game", *shrinkage]
    if step == 0 and not has_one_unit:
        notes.insert(1, "with η = 0 it does not learn")

    def bound_on(name: str, achieved: float, mass: float, symbol: str) -> Bound:
        """Return the bound on a mean over weights v of at most p/mass; the formula has the mass's symbol."""
        bound = None
        if has_one_unit:
            bound = V  # the player has no regret
        elif step > 0:
            # Against the worst v, with KL(v ‖ p) ≤ log(1/mass), the regret is at most so large.
            bound = V - math.log(mass) / (step * T) + step / 8
        formula = f"V + log(1/{symbol})/(ηT) + η/8"
        return Bound(name, formula, bound=bound, achieved=achieved, note="; ".join(notes))

    observed = []
    if alpha is not None and not game.stakes.grouped:
        even_cvar = cvar(mean_losses, alpha, p)
        observed.append(bound_on("CVaR_α of the even mixture's loss", even_cvar, alpha, "α"))
    observed.append(bound_on(LARGEST_MEAN, largest_mean, smallest_p, "min p"))
    promised = []
    if eta == "theory":
        promised.append(_promise_of_theory(game, planned, largest_mean, shrinkage))
    return tuple(promised), tuple(observed)


def _promise_of_theory(
    game: Played, planned: int, largest_mean: float, shrinkage: Sequence[str]
) -> Bound:
    """Return the a-priori bound of Hedge for "theory"; no number if the game ended before its planned rounds.

    ``largest_mean`` is the bounded quantity, and ``shrinkage`` its note on shrunk losses, if they are shrunk.
    """
    T = game.n_rounds
    bound = None
    notes = ["only if all planned rounds are played"]
    if planned == T:
        regret = math.sqrt(math.log(game.units.count) / (2 * T))
        bound = float(game.trace.weighted_loss.max()) + regret
        notes = []
    return Bound(
        LARGEST_MEAN,
        "g + √(log(1/min p)/(2T))",
        bound=bound,
        achieved=largest_mean,
        note="; ".join([*notes, *shrinkage]),
    )


def edge_bound(game: Played, *, gamma: float, planned: int, name: str, note: str) -> Bound:
    """Return the bound on the mean losses of units if a learner has edge γ in every round of Hedge.

    Hazan 2022, chapter 11: with T = ⌈2 ln m / γ²⌉ rounds and η = √(8 ln m / T) over m units the regret is at
    most γT/2, so that each unit has a mean loss of at most ½ − γ/2.

    The bound has no number, and its note says why, if a round missed the edge or planned rounds were not
    played.

    Parameters
    ----------
    game : Played
        The game after T rounds.
    gamma : float
        γ.
    planned : int
        Number of planned rounds.
    name, note : str
        Name of the bounded quantity, and a note on a bound that holds.
    """
    T = game.n_rounds
    achieved = float((game.state.cumulative / T)[game.state.base > 0].max())
    worst_loss = float(game.trace.weighted_loss.max())
    bound = None
    # The learner has no edge in a round with a larger loss than ½ − γ, up to rounding.
    if round(worst_loss - (0.5 - gamma), DECIMALS) > 0:
        note = f"a round has weighted loss {worst_loss:.4g}, above ½ − γ = {0.5 - gamma:.4g}"
    elif planned > T:
        note = f"only if all {planned} planned rounds are played"
    else:
        bound = 0.5 - gamma + math.sqrt(math.log(game.units.count) / (2 * T))
    formula = "½ − γ + √(log(1/min p)/(2T))"
    note = f"γ = {gamma:.4g}; {note}"
    return Bound(name, formula, bound=bound, achieved=achieved, note=note)


def mixed_by_program(
    game: Played, pool: JudgedPool, alpha: float, value: float, bounds: Bounds
) -> Bounds:
    """Add bounds of the mixture λ of a linear program to the bounds of Hedge's even mixture.

    Zhai et al. 2021, section 3: on the losses of the game λ is at least as good as the even mixture, so the
    bounds of the even mixture's CVaR hold for λ. On other rows nothing follows.

    If outliers are dropped, or λ was selected on other losses than those of the game, the added bounds have
    no number.

    Parameters
    ----------
    game : Played
        A game of `Hedge` over rows.
    pool : JudgedPool
        The candidates, with their losses on the rows on which λ was chosen.
    alpha, value : float
        α, and the CVaR at α of λ on these rows.
    bounds : (tuple of Bound, tuple of Bound)
        From `hedge_game_bounds`.
    """
    promised, observed = bounds
    name = f"CVaR at α = {alpha:g} of λ's own loss"
    player: Any = game.player
    if player.outlier_fraction > 0:
        return promised, (*observed, Bound(name, "V + …", bound=None, note=OUTLIERS))

    losses = np.sum([pool.loss(t) for t in range(game.n_rounds)], axis=0, dtype=np.float64)
    has_game_losses = np.array_equal(losses, game.state.cumulative)
    # A mixture that is selected on other rows has another number of them.
    has_game_rows = len(pool.rows.base) == len(game.state.base)
    has_game_weights = has_game_rows and np.allclose(
        pool.rows.base, game.state.base, rtol=1e-12, atol=0
    )
    is_selected_on_game = has_game_losses and has_game_weights

    def bound_on_mixture(even: Bound) -> Bound:
        """Return the bound on λ's CVaR that a bound on the even mixture implies."""
        bound = even.bound
        note = even.note
        if not is_selected_on_game:
            bound = None
            note = "λ was selected on other losses than those of the game"
        elif bound is not None:
            note = "as for the even mixture; on the losses of the game"
        return Bound(name, even.formula, bound=bound, achieved=value, note=note)

    # A promised bound is on every row's loss, so on the CVaR too. The first observed one is on the CVaR.
    promised = (*promised, *map(bound_on_mixture, promised))
    return promised, (*observed, bound_on_mixture(observed[0]))


def _name_of_cvar(alpha: float) -> str:
    # The α of the player: `reweight` for another α does not change the game.
    return f"CVaR at α = {alpha:g} of the best mixture on the losses of the game"


def totally_corrective_bounds(game: Played) -> Bounds:
    """Return the bound of LPBoost: g, once the learner finds no further improvement of the mixture.

    g is the largest weighted loss of a round. The bound has no number while the best mixture has a larger
    CVaR, or if outliers are dropped. It is an a-priori one, so the second tuple is empty.
    """
    player: Any = game.player
    bound = None
    smallest_cvar = None
    if player.outlier_fraction > 0:
        note = OUTLIERS
    else:
        g = float(game.trace.weighted_loss.max())
        smallest_cvar = player.best(game.state)
        note = NOT_REACHED
        if smallest_cvar <= g:
            bound = g
            note = ""

    promised = Bound(
        _name_of_cvar(player.alpha), "g", bound=bound, achieved=smallest_cvar, note=note
    )
    return (promised,), ()


def entropic_bounds(game: Played, delta: float | None) -> Bounds:
    """Return the a-priori bound of regularised LPBoost: CVaR_α ≤ g + δ for large enough T and β.

    Warmuth et al. 2008, as applied by Zhai et al. 2021. g is the largest weighted loss of a round. The rounds
    needed are ``T = max{(32/δ²) log(1/α), 8/δ}``. The second tuple of the result is empty.

    The bound has no number if outliers are dropped, if β is below ½, or after fewer rounds than T.

    Parameters
    ----------
    game : Played
        The game after T rounds.
    delta : float or None
        The δ for which β was chosen. None, for a stated β, is the smallest δ with
        ``β ≥ max{(2/δ) log(1/α), 1/2}``.
    """
    player: Any = game.player
    bound = None
    smallest_cvar = None
    if player.outlier_fraction > 0:
        note = OUTLIERS
    else:
        smallest_cvar = player.best(game.state)
        bound, note = _entropic_bound(game, delta)
    promised = Bound(
        _name_of_cvar(player.alpha), "g + δ", bound=bound, achieved=smallest_cvar, note=note
    )
    return (promised,), ()


def _entropic_bound(game: Played, delta: float | None) -> tuple[float | None, str]:
    """Return g + δ of regularised LPBoost, and a note; None if a condition of the theorem does not hold.

    ``delta`` is as in `entropic_bounds`.
    """
    player: Any = game.player
    if player.beta < 0.5:
        return None, f"only for β ≥ 1/2, got {player.beta:g}"

    T = game.n_rounds
    if delta is None:
        log_inverse = math.log(1 / player.alpha)
        delta = 2 * log_inverse / player.beta
        if log_inverse == 0:  # α = 1 requires only T ≥ 8/δ
            delta = 8 / T

    note = f"δ = {delta:.3g}"
    _, needed_rounds = entropic_theory(player.alpha, delta)
    if needed_rounds > T:
        return None, f"{note} at β = {player.beta:g} needs T ≥ {needed_rounds:,}; T = {T}"
    return float(game.trace.weighted_loss.max()) + delta, note
