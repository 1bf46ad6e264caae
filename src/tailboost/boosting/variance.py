"""Variance penalizing AdaBoost: Shivaswamy and Jebara, NIPS 2011.

The classifier f = Σ a h lowers a cost of the margins m_i = y_i f(x_i): the squared mean of e^(−m) plus λ
times its variance, (3). The step minimises it or a bound of it.
"""

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from tailboost.boosting.additive import Additive, AdditiveClassifier, Steps
from tailboost.boosting.game import Hypothesis, tilted
from tailboost.boosting.learning import RoundLearner
from tailboost.boosting.mixtures import label_shares
from tailboost.core import Column, Floats, finite, frozen_value, parameters
from tailboost.core.ranges import NON_NEGATIVE, SHARE, check_number
from tailboost.learners import StumpClassifier
from tailboost.solvers import soft_margin_weights


def sums(x: Floats, z: Floats) -> Floats:
    """Return Σ_I x and Σ_J x, over the rows I where a hypothesis is right, z > 0, and the others J."""
    return np.array([x[z > 0].sum(), x[z <= 0].sum()])


def closed_step(sides: Floats, K: int) -> float:
    """Return ((K−1)/K) log((K−1) right/wrong), the a of least right·e^(−a) + wrong·e^(a/(K−1)).

    ``sides`` are right and wrong, as of `sums`.
    """
    right, wrong = sides
    with np.errstate(divide="ignore"):  # without a right or a wrong row
        return (K - 1) / K * np.log((K - 1) * right / wrong)


@frozen_value
class Exponential(Additive):
    """AdaBoost, the mean of e^(−m): Shivaswamy and Jebara 2011, Algorithm 1; SAMME for more classes."""

    theorem = "Π_t Z_t", 1.0

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return w ∝ p e^(−m)."""
        return tilted(p, -margins)

    def step(self, z: Floats, state: Steps) -> float:
        """Return ½ log(Σ_I w / Σ_J w), for two classes."""
        return closed_step(sums(state.u, z), self.n_classes)


@frozen_value
class VariancePenalised(Exponential):
    """VadaBoost, (mean of e^(−m))² + λ variance: Shivaswamy and Jebara 2011, Algorithm 2.

    The weights are u = λw²/p + (1−λ)w. By Jensen's inequality Σ u e^(−2az) bounds the cost along a
    hypothesis, (5), relative to the squared mean, and equals it at a = 0. So the step that minimises the
    bound lowers the cost (Lemma 2), for more than two classes too.
    """

    lambda_: float

    theorem = "√V", 0.5

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return u, and the logarithm of the cost."""
        w, log_mean = super().weigh(margins, p)
        u = self.lambda_ * w * (w / p) + (1 - self.lambda_) * w
        # e^(−m) over its mean, less 1: a small variance is no difference of two large numbers.
        centred = np.expm1(-margins - log_mean)
        variance = p @ (centred - p @ centred) ** 2
        return u, float(2 * log_mean + np.log1p(self.lambda_ * variance))

    def step(self, z: Floats, state: Steps) -> float:
        """Return ¼ log(Σ_I u / Σ_J u), for two classes."""
        return super().step(z, state) / 2


@frozen_value
class ExactVariance(VariancePenalised):
    """EBBoost, the same cost with its best step ¼ log(P/Q): Shivaswamy and Jebara 2011, Algorithm 3.

    P = (1−λ)A² + λC with A = Σ w and C = Σ w²/p over the rows that are right, Q over the others; two classes.
    The learner gets u = w, and compares all stumps itself: `tailboost.learners.StumpClassifier`.
    """

    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return w, and the logarithm of the cost."""
        return tilted(p, -margins)[0], super().weigh(margins, p)[1]

    def step(self, z: Floats, state: Steps) -> float:
        """Return ¼ log(P/Q)."""
        w = state.u
        squares = w * (w / state.p)
        P_and_Q = (1 - self.lambda_) * sums(w, z) ** 2 + self.lambda_ * sums(squares, z)
        return closed_step(P_and_Q, self.n_classes) / 2


@parameters
class AdaBoostClassifier(AdditiveClassifier):
    """AdaBoost, Algorithm 1; SAMME for more than two classes, with steps (K−1)/K times scikit-learn's.

    Parameters
    ----------
    estimator, n_estimators, n_iter_no_change, random_state
        As in `AdditiveClassifier`. The paper ends after 100 rounds without a drop of the validation error.

    Attributes
    ----------
    All attributes: see `AdditiveClassifier`.
    """

    player: Any = field(default=Exponential(), init=False)


@parameters
class VadaBoostClassifier(AdaBoostClassifier):
    """VadaBoost, Algorithm 2: the cost (mean of e^(−m))² + λ · (variance of e^(−m)).

    Parameters
    ----------
    variance_weight : float in [0, 1], default=0.5
        λ.
    estimator, n_estimators, n_iter_no_change, random_state
        As in `AdaBoostClassifier`.
    """

    _: KW_ONLY
    variance_weight: float = 0.5

    _player = VariancePenalised

    def _start(self, learn: RoundLearner) -> Additive:
        return self._player(self.variance_weight)


class EBBoostClassifier(VadaBoostClassifier):
    """EBBoost, Algorithm 3: each round takes the best of all stumps with its best step; two classes.

    Parameters
    ----------
    estimator : classifier, optional
        The paper has all stumps, None. Other learners get the best step too.
    variance_weight : float ≥ 0, default=0.5
        λ.
    n_estimators, n_iter_no_change, random_state
        As in `AdaBoostClassifier`.
    """

    _parameter_constraints = {  # noqa: RUF012  (scikit-learn reads it)
        **VadaBoostClassifier._parameter_constraints,
        "variance_weight": [NON_NEGATIVE],
    }
    _player = ExactVariance

    def _learner(self) -> Any:
        if self.estimator is None:
            return StumpClassifier(variance_weight=self.variance_weight)
        return super()._learner()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@parameters
class SoftMarginBoostClassifier(AdaBoostClassifier):
    """RLP-Boost and RQP-Boost, section 6: AdaBoost's hypotheses, weighted by a program of Rätsch et al. 2001.

    * linear: max ρ − C Σ s_i ξ_i subject to Σ_t a_t m_it ≥ ρ − ξ_i, ξ ≥ 0, a on the simplex;
    * quadratic: min ‖a‖² + C Σ s_i ξ_i subject to Σ_t a_t m_it ≥ 1 − ξ_i, ξ ≥ 0, a ≥ 0.

    Parameters
    ----------
    loss : {"linear", "quadratic"}, default="quadratic"
        RLP or RQP.
    C : float > 0, optional
        Price of slack, per unit of sample weight; the paper selects it on validation rows. None is 2/Σs for
        RLP, so that the worst half of the rows counts, and 10/Σs for RQP. Weights with a mean below 1 are
        scaled to the mean 1 first: then C is per row of mean weight.
    estimator, n_estimators, n_iter_no_change, random_state
        As in `AdaBoostClassifier`.

    Attributes
    ----------
    C_ : float
        The price.
    Further attributes: see `AdditiveClassifier`. There are no bounds: the paper has no theorem on these.
    """

    _: KW_ONLY
    loss: str = "quadratic"
    C: float | None = None

    def _weights(self, rounds: list[Hypothesis], state: Steps, learn: RoundLearner) -> Floats:
        """Return the weights of the program; none if their vote errs as often as the best constant.

        Rows with equal scores count as errors: rounding alone would decide them.
        """
        weight = learn.rows.weight
        self.C_ = self.C or {"linear": 2, "quadratic": 10}[self.loss] / weight.sum()
        if not rounds:
            return np.zeros(0)
        wrong = [h.losses for h in rounds]
        y = learn.rows.y
        K = len(self.classes_)
        a = soft_margin_weights(wrong, self.C_, weight, loss=self.loss, n_classes=K).mixture
        answers = np.array([learn.session.predict(h.model) for h in rounds])
        shares = label_shares(a, answers, K)
        # Labels with as many votes as the true one.
        level = shares >= shares[y, np.arange(len(y))] - 1e-9 * a.sum()
        right = weight @ (level.sum(axis=0) == 1)
        return a if right > np.bincount(y, weight).max() else np.zeros(0)


def empirical_bernstein_bound(
    losses: Column,
    delta: float = 0.05,
    *,
    n_hypotheses: float = 1,
    log_covering: float | None = None,
) -> float:
    """Return a bound on the expected loss by the mean and the variance of losses: Theorem 1, and its source.

    With V the unbiased variance of n independent losses in [0, 1], it is, with probability 1 − δ,

        mean + √(2 V log(2N/δ)/n) + 7 log(2N/δ)/(3(n − 1))

    for all of N fixed classifiers together (Maurer and Pontil 2009, Theorem 4 and Corollary 5); and for a
    class with covering numbers, Theorem 1 of the paper, with M(n) ten times the one on 2n rows at scale 1/n,

        mean + √(18 V log(M(n)/δ)/n) + 15 log(M(n)/δ)/(n − 1).

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        n ≥ 2 losses of independent rows.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.
    n_hypotheses : float ≥ 1, default=1
        N: 1 on rows without influence on the choice of the classifier.
    log_covering : float > 0, optional
        log M(n), for the second form, which does not use N.

    Returns
    -------
    float
        May exceed 1.
    """
    values = finite(losses, "losses")
    delta = check_number(delta, "delta", SHARE)
    n = values.size
    if n < 2 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("losses must be at least two numbers in [0, 1]")
    if log_covering is None:
        log_term = np.log(2 * n_hypotheses / delta)
        of_variance = 2.0
        of_range = 7 / 3
    else:
        log_term = log_covering - np.log(delta)
        of_variance = 18.0
        of_range = 15.0
    spread = np.sqrt(of_variance * values.var(ddof=1) * log_term / n)
    return float(values.mean() + spread + of_range * log_term / (n - 1))


def vadaboost_rounds(rounds: float, error: float) -> float:
    """Return the rounds of VadaBoost at λ = 0 for the cost of AdaBoost after ``rounds``: Theorem 5.

    For hypotheses of one weighted error ε < ½ AdaBoost's squared cost falls by 4ε(1−ε) a round, and
    VadaBoost's by 2ε(1−ε) + √(ε(1−ε)).
    """
    both = error * (1 - error)
    return float(rounds * np.log(4 * both) / np.log(2 * both + np.sqrt(both)))
