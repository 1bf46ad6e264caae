"""Boosted CVaR classification: Zhai, Dan, Suggala, Kolter and Ravikumar, NeurIPS 2021.

CVaR_α is the mean loss of the worst share α of the rows, (2). A deterministic classifier of error e has a
CVaR of min(1, e/α) of the zero-one loss (Proposition 1); a mixture of classifiers that err on different rows
has less. A player weighs the rows: `Hedge` in Algorithm 2, `LP` in Algorithm 1. The rounds of both are those
of `tailboost.boosting.game.play`, and a linear program mixes their hypotheses.
"""

import math
from dataclasses import KW_ONLY
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tailboost.boosting.game import Bound, Game, Player, Units, tilted
from tailboost.boosting.learning import ROUNDS_OR_AUTO, RowBoosting
from tailboost.boosting.mixtures import MixtureClassifier
from tailboost.core import Array, Floats, Model, Seed, frozen_value, parameters
from tailboost.learners import HistBoostClassifier
from tailboost.solvers import cvar, entropic_weights, minimize_cvar_mixture


class Cumulated(NamedTuple):
    """The base measure, and the sum of the losses of all rounds, shape (m,)."""

    p: Floats
    total: Floats


@frozen_value
class Hedge(Player):
    """w_i ∝ p_i exp(η Σ_s ℓ_i^s): Zhai et al. 2021, Algorithm 2; Saito et al. 2024, (10).

    ``T`` is the number of rounds for which η is that of Theorem 5, √(8 log n / T), if there is one, and
    ``gamma`` the edge γ of a game in which each round has ⟨w, ℓ⟩ ≤ ½ − γ.
    """

    eta: float
    T: int | None = None
    gamma: float | None = None

    def start(self, p: Floats) -> Cumulated:
        """Return the state without losses."""
        return Cumulated(p, np.zeros(len(p)))

    def weights(self, state: Cumulated) -> Floats:
        """Return w."""
        return tilted(state.p, self.eta * state.total)[0]

    def update(self, state: Cumulated, losses: Array) -> Cumulated:
        """Return the state with the newest losses."""
        return Cumulated(state.p, state.total + losses)

    def bounds(self, game: Game) -> list[Bound]:
        """Return bounds of the even mixture on the units, by the mean V and the largest g of ⟨w, ℓ⟩.

        The regret of all rounds is at most KL(v ‖ p)/η + ηT/8 against each v. So V + log(1/α)/(ηT) + η/8
        bounds the mean loss under every v ≤ p/α, and with log n in its place that of each unit. With η of
        "theory" and all planned rounds this is Theorem 5 of Zhai et al. 2021; with ½ − γ in the place of g it
        is Theorem 1 of Saito et al. 2024 before its last step, to the vote.
        """
        losses = game.losses.mean(axis=0)
        largest = float(losses.max())
        quantity = "largest mean loss of a unit under the even mixture"
        T = len(game.losses)
        V = float(game.weighted_losses.mean())
        log_n = math.log(game.units.count)

        def by_regret(divergence: float) -> float:
            # η is 0 for one unit, which has no divergence.
            return V + divergence / (self.eta * T or 1.0) + self.eta / 8

        bounds = []
        if game.alpha:
            tail = cvar(losses, game.alpha, game.units.p)
            bound = by_regret(-math.log(game.alpha))
            bounds.append(
                Bound("CVaR_α of the even mixture", "V + log(1/α)/(ηT) + η/8", bound, tail)
            )
        bounds.append(Bound(quantity, "V + log n/(ηT) + η/8", by_regret(log_n), largest))
        if self.T:
            g = float(game.weighted_losses.max())
            regret = math.sqrt(log_n / (2 * T)) if T == self.T else math.nan
            bounds.append(Bound(quantity, "g + √(log n/(2T))", g + regret, largest))
            if self.gamma:
                most = 0.5 - self.gamma
                bound = most + regret if g <= most + 1e-9 else math.nan
                bounds.append(Bound(quantity, "½ − γ + √(log n/(2T))", bound, largest))
        return bounds


@parameters
class HedgeClassifier(MixtureClassifier):
    """A game of Hedge, by default with the even mixture of its rounds."""

    estimator: Model = None
    _: KW_ONLY
    n_estimators: Any = 10
    eta: float | str = "theory"
    random_state: Seed = None

    def _start(self, units: Units) -> tuple[Player, int]:
        log_n = math.log(units.count)
        T = self.n_estimators
        if T == "auto":
            T = max(1, math.ceil(2 * log_n / self.gamma_**2))
        if self.eta == "theory":
            return Hedge(math.sqrt(8 * log_n / T), T, self.gamma_), T
        return Hedge(float(self.eta)), T

    eta_ = property(attrgetter("player_.eta"), doc="η.")


@parameters
class AdaLPBoostClassifier(HedgeClassifier, RowBoosting):
    """α-AdaLPBoost, Algorithm 2: Hedge weighs the rows, and the linear program (6) selects λ.

    The weights do not depend on α, so one fit serves every α: `reweight` and `alpha_path`. On the rows that
    select λ the CVaR is at most those of ERM and of the average of all rounds (section 3.3). `unit_weights`
    gives w of a round, and ``bounds_`` the theorems with their numbers.

    The defaults add two things to the paper, and `tailboost.published.adalpboost` leaves them out. Three more
    games, each played without a fold of the rows, answer these rows for the selection of λ (``cv``), and the
    program has K more columns (``rank_labels``). With these columns the test CVaR at α = .1 is .69 on letters
    (.87 without), and .50 on credit defaults (1.00).

    Parameters
    ----------
    estimator : classifier or str, optional
        The learner 𝓛. None is `tailboost.learners.HistBoostClassifier` with 40 iterations and 64 bins.
    alpha : float in (0, 1], default=0.1
        α, the tail mass.
    n_estimators : int, default=2
        T. The default learner errs on few training rows, so that more rounds change little.
    eta : float or "theory", default=1.0
        η, the step size of Hedge; "theory" is √(8 log n / T) of Theorem 5. The experiments have 1.
    rank_labels : bool, default=True
        Whether K more candidates enter the program: the label with the largest mean probability under all
        rounds, the one with the second largest, and so on.
    cv : "train", int, splitter or iterable of splits, default=3
        Rows that select λ: the training rows, or each row by a game that is played without its fold. It has
        no effect with validation rows in `fit`.
    random_state : int, RandomState or None
        Seed of the learners.

    Attributes
    ----------
    eta_ : float
        η.
    Further attributes: see `GameClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import AdaLPBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = AdaLPBoostClassifier("tree", alpha=0.2, n_estimators=5, random_state=0).fit(X, y)
    >>> clf.reweight(alpha=0.5).predict(X[:1])
    array([0])
    """

    _: KW_ONLY
    alpha: float = 0.1
    n_estimators: int = 2
    eta: float | str = 1.0
    rank_labels: bool = True
    cv: object = 3

    _default_learner = HistBoostClassifier(n_estimators=40, max_bins=64)

    @property
    def bounds_(self) -> list[Bound]:
        """Bounds of the even mixture on the rows of the game; a λ selected there has at most its CVaR."""
        bounds = super().bounds_
        if np.array_equal(self.losses_, self.game_losses_):
            even = bounds[0]
            weights = np.concatenate([self.rank_weights_, self.estimator_weights_])
            own = cvar(weights @ self.candidate_losses_, self.alpha, self.units_.p)
            # A λ of `tradeoff` is not that of least CVaR.
            bound = even.bound if own <= even.achieved + 1e-9 else math.nan
            bounds.append(Bound("CVaR_α of λ", even.formula, bound, own))
        return bounds


class AverageBoostClassifier(HedgeClassifier, RowBoosting):
    """AdaBoost + Average, section 3.3: Hedge weighs the rows, and all rounds have equal weight.

    Parameters
    ----------
    n_estimators : int, default=10
        T, the number of rounds.
    eta : float or "theory", default="theory"
        η, the step size of Hedge; "theory" is √(8 log n / T) of Theorem 5.
    estimator, random_state
        As in `AdaLPBoostClassifier`.
    """

    _default_learner = AdaLPBoostClassifier._default_learner


class Solved(NamedTuple):
    """The base measure, all losses so far, shape (t, m), and the last solution of the program over them."""

    p: Floats
    losses: Any
    w: Floats
    mixture: Floats | None = None
    value: float = math.inf  # least ⟨w, ℓ⟩ of these losses


@frozen_value
class LP(Player):
    """The w of max_w min_s ⟨w, ℓ^s⟩, w_i ≤ p_i/α: Zhai et al. 2021, program (5).

    With β it is the w of the regularised program (8), with the penalty KL(w ‖ p)/β and the sign of Warmuth et
    al. 2008. ``delta`` is the δ for which β is that of Theorem 4; a stated β has its own.
    """

    alpha: float
    beta: float | None = None
    delta: float | None = None

    def start(self, p: Floats) -> Solved:
        """Return the state without losses, in which w is p."""
        return Solved(p, np.empty((0, len(p)), bool), p)

    def weights(self, state: Solved) -> Floats:
        """Return the w of the newest solution."""
        return state.w

    def update(self, state: Solved, losses: Array) -> Solved:
        """Return the state with the newest losses and a new solution."""
        past = np.vstack([state.losses, losses])
        p = state.p
        start = state.mixture
        solution: Any
        if self.beta is not None:
            solution = entropic_weights(past, self.alpha, self.beta, p, start=start)
        elif state.w @ losses >= state.value:  # w stays optimal
            return state._replace(losses=past)
        else:
            solution = minimize_cvar_mixture(past, self.alpha, p, start=start)
        return Solved(p, past, solution.unit_weights, solution.mixture, solution.dual_value)

    def bounds(self, game: Game) -> list[Bound]:
        """Return bounds on the CVaR of the best mixture of all rounds, by the largest g of ⟨w, ℓ⟩.

        Without β it is at most g if the last hypothesis brings no improvement, that is, if its weighted loss
        is at least the CVaR of the best mixture of the earlier ones. With β it is at most g + δ after the
        rounds of (9) (Theorem 4). Otherwise, as after too few rounds, the bound is NaN.
        """
        T = len(game.losses)

        def least(t: int) -> float:
            return minimize_cvar_mixture(game.losses[:t], self.alpha, game.units.p).value

        formula = "g"
        slack = 0.0
        if self.beta is None:
            holds = T > 1 and game.weighted_losses[-1] >= least(T - 1) - 1e-9
        else:
            # Of the two conditions on T at α = 1, where the logarithm is 0, T ≥ 8/δ is left.
            slack = self.delta or 2 * math.log(1 / self.alpha) / self.beta or 8 / T
            formula = "g + δ"
            holds = self.beta >= 0.5 and theorem_4(self.alpha, slack)[1] <= T
        bound = float(game.weighted_losses.max()) + slack if holds else math.nan
        return [Bound("CVaR_α of the best mixture", formula, bound, least(T))]


@parameters
class LPBoostClassifier(MixtureClassifier, RowBoosting):
    """α-LPBoost, Algorithm 1: a program over all rounds so far weighs the rows, and (6) selects λ.

    Without β it is the linear program (5). With β it is the regularised program (8), which penalises
    KL(w ‖ p)/β. By default (6) has more columns, as in `AdaLPBoostClassifier`.

    Parameters
    ----------
    n_estimators : int or "auto", default=2
        T; "auto" is (9), max((32/δ²) log(1/α), 8/δ), rounded up.
    beta : float, "theory" or None, default=None
        β; "theory" is max((2/δ) log(1/α), ½) of Theorem 4.
    delta : float in (0, 1), default=0.1
        δ of Theorem 4.
    cv : "train", int, splitter or iterable of splits, default=4
        As there.
    estimator, alpha, rank_labels, random_state
        As in `AdaLPBoostClassifier`.
    """

    estimator: Model = None
    _: KW_ONLY
    alpha: float = 0.1
    n_estimators: Any = 2
    beta: Any = None
    delta: float = 0.1
    rank_labels: bool = True
    cv: object = 4
    random_state: Seed = None

    _default_learner = HistBoostClassifier()
    _parameter_constraints = ROUNDS_OR_AUTO

    def _start(self, units: Units) -> tuple[Player, int]:
        beta, T = theorem_4(self.alpha, self.delta)
        if self.n_estimators != "auto":
            T = self.n_estimators
        if self.beta == "theory":
            return LP(self.alpha, beta, self.delta), T
        return LP(self.alpha, self.beta), T

    beta_ = property(attrgetter("player_.beta"), doc="β.")


def theorem_4(alpha: float, delta: float) -> tuple[float, int]:
    """Return β and T of Theorem 4 and (9), after Warmuth et al. 2008."""
    log_inverse = math.log(1 / alpha)
    T = max(32 / delta**2 * log_inverse, 8 / delta)
    return max(2 / delta * log_inverse, 0.5), math.ceil(T - 1e-9)
