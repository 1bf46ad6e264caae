"""Bounds of theorems for the players of the papers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tailboost.boosting.game import DECIMALS, Played
from tailboost.boosting.players.corrective import entropic_theory
from tailboost.boosting.pool import Pool
from tailboost.selection.summary import Bound, Bounds
from tailboost.solvers import cvar

LARGEST_MEAN = "largest mean loss of any unit under the even mixture"
OUTLIERS = "not given if outliers are dropped: the remaining rows change from round to round"


def hedge_game_bounds(
    game: Played, alpha: float | None, eta: float | str, planned: int
) -> Bounds:
    """Return the bounds of a game played by Hedge, with a regret of at most KL(v ‖ p)/η + ηT/8.

    Only ``eta="theory"``, η = √(8 log n/T) for the ``planned`` rounds T, has an a-priori bound: Zhai et al.
    2021, section 3, for uniform p; for other p with n = 1/min p. With η = 0 the player stays at p,
    and there is no bound unless there is one unit. ``alpha`` is the level of the CVaR bound, which games over
    groups do not have.
    """
    player: Any = game.player
    T = game.n_rounds
    trace = game.trace
    step = player.eta
    if player.outlier_fraction > 0:
        return (), (Bound("loss of the even mixture", "V + …", None, note=OUTLIERS),)
    V = float(trace.weighted_loss.mean())
    p = game.state.base
    mean_losses = game.state.cumulative / T
    least = 1.0 / game.units.count  # min p of a row: a unit may stand for several rows
    idle = ["with η = 0 it does not learn"] * (step == 0 and least < 1)
    shrunk = "mean losses are shrunk towards their mean over the units, more if they rest on fewer rows"
    if game.stakes.shrinkage is None:
        shrinkage = []
    else:
        shrinkage = [shrunk]
    note = "; ".join(["on the losses of the game", *idle, *shrinkage])
    masses = [("min p", LARGEST_MEAN, least, float(mean_losses[p > 0].max()))]
    if alpha is not None and not game.stakes.grouped:
        even = "CVaR_α of the even mixture's loss"
        masses.insert(0, ("α", even, alpha, cvar(mean_losses, alpha, p)))
    observed = []
    for symbol, name, mass, achieved in masses:
        if step > 0:
            bound = V - math.log(mass) / (step * T) + step / 8
        else:
            bound = None
        bound = V if least == 1 else bound  # with one unit the player has no regret
        observed.append(Bound(name, f"V + log(1/{symbol})/(ηT) + η/8", bound, achieved, note))
    if eta != "theory":
        return (), tuple(observed)
    value = None
    early = ["only if all planned rounds are played"]
    if planned == T:
        value = float(trace.weighted_loss.max()) + math.sqrt(
            math.log(game.units.count) / (2 * T)
        )
        early = []
    note = "; ".join([*early, *shrinkage])
    promised = Bound(LARGEST_MEAN, "g + √(log(1/min p)/(2T))", value, masses[-1][-1], note)
    return (promised,), tuple(observed)


def edge_bound(game: Played, gamma: float, planned: int, name: str, note: str) -> Bound:
    """Return the bound on the mean losses of units if a learner has edge γ in every round of Hedge.

    Hazan 2022, chapter 11: with T = ⌈2 ln m / γ²⌉ rounds and η = √(8 ln m / T) over m units the regret is at
    most γT/2, so that each unit has a mean loss of at most ½ − γ/2. ``planned`` is the number of rounds T.
    """
    T = game.n_rounds
    trace = game.trace
    achieved = float((game.state.cumulative / T)[game.state.base > 0].max())
    worst = float(trace.weighted_loss.max())
    note = f"γ = {gamma:.4g}; {note}"
    bound = None
    if round(worst - (0.5 - gamma), DECIMALS) > 0:
        note = f"γ = {gamma:.4g}; a round has weighted loss {worst:.4g}, above ½ − γ = {0.5 - gamma:.4g}"
    elif planned > T:
        note = f"γ = {gamma:.4g}; only if all {planned} planned rounds are played"
    else:
        bound = 0.5 - gamma + math.sqrt(math.log(game.units.count) / (2 * T))
    return Bound(name, "½ − γ + √(log(1/min p)/(2T))", bound, achieved, note)


def mixed_by_program(
    game: Played, pool: Pool, alpha: float, value: float, bounds: Bounds
) -> Bounds:
    """Add bounds of the mixture λ of a linear program to the bounds of Hedge's even mixture.

    Zhai et al. 2021, section 3: on the losses of the game λ is at least as good as the even mixture, so the
    bounds of the even mixture's CVaR hold for λ. On other rows nothing follows. The player is a `Hedge` over
    rows; ``value`` is the CVaR at ``alpha`` of λ on the rows of ``pool``, on which λ was chosen.
    """
    promised, observed = bounds
    name = f"CVaR at α = {alpha:g} of λ's own loss"
    player: Any = game.player
    if player.outlier_fraction > 0:
        return promised, (*observed, Bound(name, "V + …", None, note=OUTLIERS))
    of_rows = np.sum([pool.loss(t) for t in range(game.n_rounds)], axis=0, dtype=np.float64)
    same = np.array_equal(of_rows, game.state.cumulative)
    same = same and np.allclose(pool.rows.base, game.state.base, rtol=1e-12, atol=0)

    def of_mixture(even: Bound) -> Bound:
        if even.bound is None:
            note = even.note
        else:
            note = "as for the even mixture; on the losses of the game"
        if not same:
            note = "λ was selected on other losses than those of the game"
        return Bound(name, even.formula, even.bound if same else None, value, note)

    # The first observed bound is on the even mixture's CVaR; a bound on every row's loss is one on the CVaR.
    return (*promised, *map(of_mixture, promised)), (*observed, of_mixture(observed[0]))


def _name_of_cvar(alpha: float) -> str:
    # The α of the player: `reweight` for another α does not change the game.
    return f"CVaR at α = {alpha:g} of the best mixture on the losses of the game"


def totally_corrective_bounds(game: Played) -> Bounds:
    """Return the bound of LPBoost: g, once the learner finds no further improvement of the mixture."""
    player: Any = game.player
    name = _name_of_cvar(player.alpha)
    if player.outlier_fraction > 0:
        return (Bound(name, "g", None, note=OUTLIERS),), ()
    g = float(game.trace.weighted_loss.max())
    best = player.best(game.state)
    if best <= g:
        return (Bound(name, "g", g, best),), ()
    return (
        Bound(
            name,
            "g",
            None,
            best,
            "not reached in these rounds; no rate of convergence is known",
        ),
    ), ()


def entropic_bounds(game: Played, delta: float | None = None) -> Bounds:
    """Return the a-priori bound of regularised LPBoost: CVaR_α ≤ g + δ for large enough T and β.

    Warmuth et al. 2008, as applied by Zhai et al. 2021. ``delta`` is the δ for which β was chosen, or
    the smallest δ with ``β ≥ max{(2/δ) log(1/α), 1/2}``; the rounds needed are ``T = max{(32/δ²) log(1/α),
    8/δ}``.
    """
    player: Any = game.player
    about = _name_of_cvar(player.alpha), "g + δ"
    if player.outlier_fraction > 0:
        return (Bound(*about, None, note=OUTLIERS),), ()
    best = player.best(game.state)
    T = game.n_rounds
    if player.beta < 0.5:
        return (Bound(*about, None, best, f"only for β ≥ 1/2, got {player.beta:g}"),), ()
    if delta is None:  # α = 1 requires only T ≥ 8/δ
        log_inverse = math.log(1 / player.alpha)
        if log_inverse > 0:
            delta = 2 * log_inverse / player.beta
        else:
            delta = 8 / T
    note = f"δ = {delta:.3g}"
    needed = entropic_theory(player.alpha, delta)[1]
    if needed > T:
        return (
            Bound(
                *about,
                None,
                best,
                f"{note} at β = {player.beta:g} needs T ≥ {needed:,}; T = {T}",
            ),
        ), ()
    return (Bound(*about, float(game.trace.weighted_loss.max()) + delta, best, note),), ()
