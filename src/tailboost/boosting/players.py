"""The players of the four papers: each algorithm is a rule for the weights of the next round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import brentq

from tailboost.boosting.game import Player
from tailboost.core.array_types import Floats, UnitLosses
from tailboost.solvers import (
    entropic_weights,
    minimize_cvar_mixture,
    worst_case_weights,
)

# Shorter steps count as none: root finding returns a tiny step at a kink.
LEAST_STEP = 1e-10


def tilted(p: Floats, x: Floats) -> tuple[Floats, float]:
    """Return w ∝ p e^x with sum 1, and log Σ p e^x, without overflow. Uniform p changes no bit of w."""
    log_w = np.log(p / p.max()) + x
    top = log_w.max()
    w = np.exp(log_w - top)
    total = w.sum()
    return w / total, float(top + np.log(total * p.max()))


# -- mixtures --------------------------------------------------------------------------------------------


class Cumulated(NamedTuple):
    """The base measure, and the sum of the losses of all rounds, shape (m,)."""

    p: Floats
    total: Floats


@dataclass(frozen=True)
class Hedge(Player[Cumulated]):
    """w_i ∝ p_i exp(η Σ_s ℓ_i^s): Zhai et al. 2021, Algorithm 2; Saito et al. 2024, (9)."""

    eta: float

    def start(self, p: Floats) -> Cumulated:
        """Return the state without losses."""
        return Cumulated(p, np.zeros(len(p)))

    def weights(self, state: Cumulated) -> Floats:
        """Return w."""
        w, _ = tilted(state.p, self.eta * state.total)
        return w

    def update(self, state: Cumulated, losses: UnitLosses) -> Cumulated:
        """Return the state with the newest losses."""
        return Cumulated(state.p, state.total + losses)


class Solved(NamedTuple):
    """The base measure, all losses so far, shape (t, m), and the solution of the program over them."""

    p: Floats
    losses: Any
    w: Floats
    mixture: Floats


@dataclass(frozen=True)
class LP(Player[Solved]):
    """The w of max_w min_s ⟨w, ℓ^s⟩, w_i ≤ p_i/α: Zhai et al. 2021, program (5).

    With β it is the w of the regularised program (8), with the penalty KL(w ‖ p)/β and the sign of Warmuth et
    al. 2008.
    """

    alpha: float
    beta: float | None = None

    def start(self, p: Floats) -> Solved:
        """Return the state without losses, in which w is p."""
        return Solved(p, np.empty((0, len(p)), dtype=bool), p, np.empty(0))

    def weights(self, state: Solved) -> Floats:
        """Return the w of the newest solution."""
        return state.w

    def update(self, state: Solved, losses: UnitLosses) -> Solved:
        """Return the state with the newest losses and a new solution."""
        past = np.vstack([state.losses, losses])
        p = state.p
        solution: Any
        if self.beta is None:
            solution = minimize_cvar_mixture(past, self.alpha, p)
        else:
            start = np.append(state.mixture, 0.0) if len(past) > 1 else None
            solution = entropic_weights(past, self.alpha, self.beta, p, start=start)
        return Solved(p, past, solution.unit_weights, solution.mixture)


# -- additive classifiers --------------------------------------------------------------------------------


class Steps(NamedTuple):
    """State of an additive classifier f = Σ a_s h_s.

    Attributes
    ----------
    p, margins : ndarray of shape (n,)
        Base measure of the rows, and m_i = Σ a_s z_i^s.
    u : ndarray of shape (n,)
        Weights for the learner at these margins, not normalised.
    steps, log_costs : tuple of float
        Step of each round, and the logarithm of the cost after it.
    over : bool
        Whether the game ends: the labels of the last hypothesis are all right.
    """

    p: Floats
    margins: Floats
    u: Floats
    steps: tuple[float, ...] = ()
    log_costs: tuple[float, ...] = ()
    over: bool = False


class Cost(Protocol):
    """A cost of the margins: its weights for the learner, and its best step along a hypothesis."""

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return u, shape (n,), and the logarithm of the cost."""

    def step(self, z: Floats, state: Steps, K: int) -> float:
        """Return the best step along a hypothesis that errs; at most 0 if none lowers the cost."""


@dataclass(frozen=True)
class Additive(Player[Steps]):
    """f ← f + a h, where z = 1 on rows on which h is right and −1/(K−1) on others, or z = h_y for real h.

    Without errors the cost falls with the length of the step, so no step is best: such a hypothesis gets the
    longest step so far, and labels that are all right end the game.
    """

    cost: Cost
    n_classes: int

    def start(self, p: Floats) -> Steps:
        """Return the state with margins of 0."""
        zero = np.zeros(len(p))
        u, _ = self.cost.weigh(zero, p)
        return Steps(p, zero, u)

    def weights(self, state: Steps) -> Floats:
        """Return u, normalised."""
        return state.u / state.u.sum()

    def update(self, state: Steps, losses: UnitLosses) -> Steps:
        """Return the state after the best step; step 0 leaves the margins."""
        has_labels = losses.dtype == bool
        z = 1 - 2.0 * losses
        if has_labels:
            z = np.where(losses, -1 / (self.n_classes - 1), 1.0)
        flawless = bool((z > 0).all())
        if flawless:
            a = max(state.steps, default=1.0)
        else:
            a = self.cost.step(z, state, self.n_classes)
        if not 0 < a < np.inf:
            return state._replace(steps=(*state.steps, 0.0))
        margins = state.margins + a * z
        u, log_cost = self.cost.weigh(margins, state.p)
        costs = (*state.log_costs, log_cost)
        return Steps(state.p, margins, u, (*state.steps, a), costs, flawless and has_labels)


def sums(x: Floats, z: Floats) -> Floats:
    """Return Σ_I x and Σ_J x, over the rows I where a hypothesis is right, z > 0, and the others J."""
    return np.array([x[z > 0].sum(), x[z <= 0].sum()])


def closed_step(right: float, wrong: float, K: int) -> float:
    """Return ((K−1)/K) log((K−1) right/wrong), the a of least right·e^(−a) + wrong·e^(a/(K−1))."""
    with np.errstate(divide="ignore"):  # without a right or a wrong row
        return float((K - 1) / K * np.log((K - 1) * right / wrong))


@dataclass(frozen=True)
class Exponential(Cost):
    """AdaBoost, the mean of e^(−m): Shivaswamy and Jebara 2011, Algorithm 1; SAMME for more classes."""

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return w ∝ p e^(−m)."""
        return tilted(p, -margins)

    def step(self, z: Floats, state: Steps, K: int) -> float:
        """Return ½ log(Σ_I w / Σ_J w), for two classes."""
        right, wrong = sums(state.u, z)
        return closed_step(right, wrong, K)


@dataclass(frozen=True)
class VariancePenalised(Cost):
    """VadaBoost, (mean of e^(−m))² + λ variance: Shivaswamy and Jebara 2011, Algorithm 2.

    The weights are u = λw²/p + (1−λ)w. By Jensen's inequality Σ u z² bounds the cost along a hypothesis, (5),
    and equals it at a = 0. So the step that minimises the bound lowers the cost (Lemma 2), for more than two
    classes too.
    """

    lambda_: float

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return u, and the logarithm of the cost."""
        w, log_mean = tilted(p, -margins)
        u = self.lambda_ * w * (w / p) + (1 - self.lambda_) * w
        # e^(−m) over its mean, less 1: a small variance is no difference of two large numbers.
        centred = np.expm1(-margins - log_mean)
        variance = p @ (centred - p @ centred) ** 2
        return u, float(2 * log_mean + np.log1p(self.lambda_ * variance))

    def step(self, z: Floats, state: Steps, K: int) -> float:
        """Return ¼ log(Σ_I u / Σ_J u), for two classes."""
        right, wrong = sums(state.u, z)
        return closed_step(right, wrong, K) / 2


@dataclass(frozen=True)
class ExactVariance(VariancePenalised):
    """EBBoost, the same cost with its best step ¼ log(P/Q): Shivaswamy and Jebara 2011, Algorithm 3.

    P = (1−λ)A² + λC with A = Σ w and C = Σ w²/p over the rows that are right, Q over the others; two classes.
    The learner gets w, and compares all stumps itself: `tailboost.learners.StumpClassifier`.
    """

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return w, and the logarithm of the cost."""
        w, _ = tilted(p, -margins)
        _, log_cost = super().weigh(margins, p)
        return w, log_cost

    def step(self, z: Floats, state: Steps, K: int) -> float:
        """Return ¼ log(P/Q)."""
        w = state.u
        squares = w * (w / state.p)
        P, Q = (1 - self.lambda_) * sums(w, z) ** 2 + self.lambda_ * sums(squares, z)
        return closed_step(P, Q, K) / 2


@dataclass(frozen=True)
class WorstCaseKL(Cost):
    """F = max {Σ w_i e^(−m_i) : KL(w ‖ p) ≤ δ}: Blanchet et al. 2019, (2) to (4), Lemma 2 and Algorithm 1.

    The functional gradient is u_i = w_i e^(−m_i). The step minimises F(f + a h), which is convex in a.
    """

    radius: float

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return u, and log F."""
        top = -margins.min()  # the largest loss is e^top
        worst = worst_case_weights(np.exp(-margins - top), radius=self.radius, base=p)
        with np.errstate(divide="ignore"):  # w may be 0
            u, _ = tilted(np.ones(len(p)), np.log(worst.unit_weights) - margins)
        return u, float(top + np.log(worst.value))

    def step(self, z: Floats, state: Steps, K: int) -> float:
        """Return the root of F′ along the hypothesis, by doubling and Brent's method."""

        def descent(a: float) -> float:
            u, _ = self.weigh(state.margins + a * z, state.p)
            return float((u * z).sum())  # −F′(a) up to a positive factor

        if not (state.u * z).sum() > 0:
            return 0.0
        low = 0.0
        high = 1.0
        while descent(high) > 0:
            low = high
            high *= 2
        a = float(brentq(descent, low, high, xtol=1e-14, maxiter=500))
        return a if a > LEAST_STEP else 0.0
