"""Boosting with a penalty on the variance of the exponential loss, and soft margins."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost.classifiers._additive import AdditiveClassifier
from tailboost.classifiers._base import Problem
from tailboost.combine import add_vote
from tailboost.game import Floats, Ints, Response, Rule, Units
from tailboost.learners import StumpClassifier
from tailboost.rules.adaboost import AdaBoost
from tailboost.rules.ebboost import EBBoost
from tailboost.rules.vada import VadaBoost
from tailboost.solvers import BitLosses
from tailboost.solvers.bits import Losses
from tailboost.solvers.soft_margin import SoftMarginSolution, check_price, soft_margin_weights
from tailboost.validation import Scheme

# C Σs where C is None. Which price serves depends on the noise: at RLP's α = 1/(C Σs) = 0.1 no weights of
# trees that err on 13 % of Adult are worth more than a coin flip, and an optimum may err on six rows of ten.
PRICES = {"lp": (10.0, 5.0, 10 / 3, 2.0, 10 / 7, 1.0), "qp": (10.0, 100.0)}
# What a program's value must gain over the constants', relative to 1 + theirs, to be more than rounding.
LEAST_GAIN = 1e-7


class VadaBoostClassifier(AdditiveClassifier):
    """VadaBoost: AdaBoost with a penalty on the variance of the exponential loss over the rows.

    Every round lowers ``(Σ p e^(−m))² + λ (Σ p e^(−2m) − (Σ p e^(−m))²)``, m the margin of a row, by fitting
    the learner on ``u = λw²/p + (1−λ)w`` and taking the step ``((K−1)/(2K)) log((K−1) Σ_I u / Σ_J u)``. With
    more than two classes the same bound holds for the margins of SAMME's coding.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner; None is `HistTreeClassifier`, one binned tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds. Steps are shorter than AdaBoost's: with stumps and λ = 0, which halves them,
        2.4 to 2.9 times AdaBoost's 100 rounds were needed for the same exponential loss on 18 data sets.
    lam : float in [0, 1], default=0.5
        λ, the weight of the variance.
    validation : float in (0, 1) or None
        Fraction of the rows held out to decide when to stop; hypotheses are not fitted on them.
    n_iter_no_change : int or None
        Stop when the validation error has not dropped for so many rounds, and keep the best prefix.
    class_weight, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    estimators_ : list
        The hypotheses kept.
    estimator_weights_ : ndarray
        Their steps a.
    log_costs_ : ndarray of shape (n_iter_,)
        Logarithm of the cost above after each round; it starts from 0 and falls at every round that takes a
        step.
    n_iter_, trace_, gap_, n_features_in_
        As in `AdaLPBoostClassifier`.

    References
    ----------
    Shivaswamy and Jebara, "Variance Penalizing AdaBoost", NIPS 2011.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveClassifier._parameter_constraints,
        "lam": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        lam: float = 0.5,
        validation: float | None = None,
        n_iter_no_change: int | None = None,
        class_weight: Any = None,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.lam = lam
        self.validation = validation
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _rule(self, units: Units) -> Rule[Any]:
        return VadaBoost(len(self.classes_), float(self.lam))


class EBBoostClassifier(AdditiveClassifier):
    """Empirical Bernstein boosting: each round takes the best of all decision stumps, with the best step.

    The cost is `VadaBoostClassifier`'s; here it is minimised exactly over every column, threshold, polarity
    and step (see `tailboost.learners.StumpClassifier`). Two classes and finite numbers only.

    Parameters
    ----------
    n_estimators : int, default=50
        Largest number of rounds.
    lam : float in [0, 1], default=0.5
        λ, the weight of the variance.
    validation : float in (0, 1) or None
        Fraction of the rows held out to decide when to stop; hypotheses are not fitted on them.
    n_iter_no_change : int or None
        Stop when the validation error has not dropped for so many rounds, and keep the best prefix.
    class_weight, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    estimators_ : list of StumpClassifier
        The stumps kept.
    estimator_weights_ : ndarray
        Their steps a.
    log_costs_ : ndarray of shape (n_iter_,)
        Logarithm of the cost after each round; it starts from 0 and falls at every round that takes a step.
    n_iter_, trace_, gap_, n_features_in_
        As in `AdaLPBoostClassifier`.

    Raises
    ------
    ValueError
        From ``fit``, for more than two classes, besides what every classifier refuses.

    References
    ----------
    Shivaswamy and Jebara, "Empirical Bernstein Boosting", AISTATS 2010.
    """

    estimator: Any = None  # stumps, always

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = VadaBoostClassifier._parameter_constraints

    def __init__(
        self,
        *,
        n_estimators: int = 50,
        lam: float = 0.5,
        validation: float | None = None,
        n_iter_no_change: int | None = None,
        class_weight: Any = None,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.lam = lam
        self.validation = validation
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learner(self) -> Any:
        return StumpClassifier(lam=self.lam)

    def _rule(self, units: Units) -> Rule[Any]:
        return EBBoost(len(self.classes_), float(self.lam))


class SoftMarginBoostClassifier(AdditiveClassifier):
    """Soft margins: the hypotheses of an AdaBoost run, their weights from a linear or quadratic program.

    With margins m = 1 where a hypothesis is right and −1/(K−1) where it is wrong,

    * RLP: ``max ρ − C Σ s_i ξ_i`` subject to ``Σ_t a_t m_it ≥ ρ − ξ_i``, ξ ≥ 0, a on the simplex;
    * RQP: ``min ‖a‖² + C Σ s_i ξ_i`` subject to ``Σ_t a_t m_it ≥ 1 − ξ_i``, ξ ≥ 0, a ≥ 0,

    over the rows the hypotheses were fitted on, s their sample weights.

    The right price of slack grows with the noise in the labels. RLP is the CVaR of the votes at
    α = 1/(C Σs): where the hypotheses together err on more than α/2 of the rows, no weights are worth more
    than a coin flip, and the optimum says nothing about the labels. Weights that are worth no more than the
    best constants in the program's own terms, or whose vote errs on more of the training rows than the best
    constant, are never kept.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner; None is `HistTreeClassifier`, one binned tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds of AdaBoost.
    penalty : {"lp", "qp"}, default="qp"
        RLP or RQP. On 19 data sets RQP came closer to AdaBoost, and RLP often keeps one or two hypotheses.
    C : float > 0, optional
        Price of slack, per unit of sample weight. For RLP at least 1/Σs. None tries a few (for RLP
        α = 0.1, 0.2, 0.3, 0.5, 0.7, 1; for RQP C Σs = 10, 100) and keeps the first of those whose vote errs
        least, on the held-out rows where there are any, else on the training rows.
    validation : float in (0, 1) or None
        Fraction of the rows held out to decide when to stop AdaBoost; they do not enter the program.
    n_iter_no_change : int or None
        Stop AdaBoost when its validation error has not dropped for so many rounds, and re-fit the weights of
        the best prefix.
    class_weight, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    estimators_ : list
        The hypotheses of positive weight.
    estimator_weights_ : ndarray
        Their weights a.
    C_ : float
        The price that was paid.
    gap_ : float
        Duality gap of the program.
    log_costs_ : ndarray of shape (n_iter_,)
        Logarithm of AdaBoost's mean exponential loss after each round.
    n_iter_, trace_, n_features_in_
        As in `AdaLPBoostClassifier`.

    Raises
    ------
    ValueError
        From ``fit``, for ``penalty="lp"`` with C < 1/Σs, where the program is unbounded; and as every
        classifier.

    Warns
    -----
    UserWarning
        From ``fit``, if no price leaves weights better than the constants, so that the best constant is all
        there is; and if the vote errs on more of the held-out rows than the best constant does.

    References
    ----------
    .. [1] G. Rätsch, T. Onoda and K.-R. Müller, "Soft Margins for AdaBoost", Machine Learning 42 (2001).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveClassifier._parameter_constraints,
        "penalty": [StrOptions({"lp", "qp"})],
        "C": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        penalty: str = "qp",
        C: float | None = None,
        validation: float | None = None,
        n_iter_no_change: int | None = None,
        class_weight: Any = None,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.penalty = penalty
        self.C = C
        self.validation = validation
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _units(self, problem: Problem, scheme: Scheme) -> Units:
        units = super()._units(problem, scheme)
        tried = tuple(c / units.count for c in PRICES[self.penalty])
        self._prices = tried if self.C is None else (float(self.C),)
        for price in self._prices:
            check_price(price, units.count, self.penalty)
        self.C_ = self._prices[-1]
        return units

    def _rule(self, units: Units) -> Rule[Any]:
        return AdaBoost(len(self.classes_))

    def _open(self, problem: Problem, scheme: Scheme) -> None:
        super()._open(problem, scheme)
        self._wrong = BitLosses(len(self._game.units.base))
        self._answers: list[NDArray[Any]] = []  # on the judged rows, a byte each
        rows = slice(None) if scheme.player_rows is None else scheme.player_rows
        self._class_weight: Floats = np.bincount(
            problem.y[rows], weights=problem.weight[rows], minlength=problem.n_classes
        ).astype(float)

    def _record(self, response: Response, state: Any) -> None:
        super()._record(response, state)
        self._wrong = self._wrong.append(response.losses)
        self._answers.append(response.answers.astype(np.min_scalar_type(len(self.classes_) - 1)))

    def _forget(self, n_rounds: int) -> None:
        super()._forget(n_rounds)
        del self._answers[n_rounds:]
        if self._wrong.shape[0] > n_rounds:
            self._wrong = self._wrong.select(members=np.arange(n_rounds))

    def _weigh(self, kept: Ints, steps: Floats) -> tuple[Floats, float]:
        units = self._game.units
        wrong, answers = self._wrong.select(members=kept), [self._answers[t] for t in kept]
        of_constant = self._error([np.full(len(self._judged.y), self._fallback.constant)], np.ones(1))
        best, least, refusal = None, np.inf, ""
        for price in self._prices:
            found = self._solve(wrong, price, units.count * units.base)
            constants = self._solve(1.0 - np.eye(len(self.classes_)), price, self._class_weight)
            error = self._error(answers, found.weights)
            if not self._gains(found.value, constants.value):
                refusal = f"is worth {found.value:.4g}, a mixture of constants {constants.value:.4g}"
            elif error > of_constant and not self._validated:
                refusal = f"errs on {error:.3g} of the training rows, the best constant on {of_constant:.3g}"
            elif error < least:
                best, least, self.C_ = found, error, price
        if best is None:
            hint = "" if self.C is None else "; C=None tries several prices"
            warnings.warn(
                f"soft margins: the best constant is used. With C={self._prices[-1]:.3g} and "
                f"penalty={self.penalty!r} the best vote {refusal}. Noisy labels need a lower C with 'lp', a "
                f"higher one with 'qp'{hint}",
                stacklevel=2,
            )
            return np.zeros(len(kept)), 0.0
        if least > of_constant:
            warnings.warn(
                f"soft margins: the vote errs on {least:.3g} of the held-out rows, the best constant on "
                f"{of_constant:.3g}",
                stacklevel=2,
            )
        return best.weights, best.gap

    def _solve(self, wrong: Losses, price: float, weight: Floats) -> SoftMarginSolution:
        K = len(self.classes_)
        return soft_margin_weights(wrong, price, weight, penalty=self.penalty, n_classes=K)

    def _gains(self, value: float, over: float) -> bool:
        """Whether a value of the program is better than another by more than rounding."""
        gain = value - over if self.penalty == "lp" else over - value
        return gain > LEAST_GAIN * (1 + abs(over))

    def _error(self, answers: list[NDArray[Any]], weights: Floats) -> float:
        """Return the error of a weighted vote on the judged rows."""
        rows = self._judged
        scores = np.zeros((len(rows.y), len(self.classes_)))
        for a, answer in zip(weights, answers, strict=True):
            if a > 0:
                add_vote(scores, a, answer)
        return float(np.average(scores.argmax(axis=1) != rows.y, weights=rows.weight))
