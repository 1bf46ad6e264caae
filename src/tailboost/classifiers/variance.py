"""Boosting with a penalty on the variance of the exponential loss, and soft margins."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost.classifiers._additive import AdditiveClassifier
from tailboost.classifiers._base import Problem
from tailboost.game import Floats, Ints, Response, Rule, Units
from tailboost.learners import StumpClassifier
from tailboost.rules.adaboost import AdaBoost
from tailboost.rules.ebboost import EBBoost
from tailboost.rules.vada import VadaBoost
from tailboost.solvers import BitLosses
from tailboost.solvers.soft_margin import check_price, soft_margin_weights
from tailboost.validation import Scheme

# Slack for a tenth of the rows in the linear program (α = 0.1).
DEFAULT_C = 10.0


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

    Parameters
    ----------
    estimator : classifier, optional
        The base learner; None is `HistTreeClassifier`, one binned tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds of AdaBoost.
    penalty : {"lp", "qp"}, default="lp"
        RLP or RQP.
    C : float > 0, optional
        Price of slack, per unit of sample weight; None is 10/Σs. For RLP at least 1/Σs: it is the CVaR of
        the votes at α = 1/(C Σs), so None is α = 0.1.
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

    References
    ----------
    Rätsch, Onoda, Müller, "Soft Margins for AdaBoost", 2001.
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
        penalty: str = "lp",
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
        self._price = DEFAULT_C / units.count if self.C is None else float(self.C)
        check_price(self._price, units.count, self.penalty)
        return units

    def _rule(self, units: Units) -> Rule[Any]:
        return AdaBoost(len(self.classes_))

    def _open(self, problem: Problem, scheme: Scheme) -> None:
        super()._open(problem, scheme)
        self._wrong = BitLosses(len(self._game.units.base))

    def _record(self, response: Response, state: Any) -> None:
        super()._record(response, state)
        self._wrong = self._wrong.append(response.losses)

    def _forget(self, n_rounds: int) -> None:
        super()._forget(n_rounds)
        if self._wrong.shape[0] > n_rounds:
            self._wrong = self._wrong.select(members=np.arange(n_rounds))

    def _weigh(self, kept: Ints, steps: Floats) -> tuple[Floats, float]:
        units = self._game.units
        solution = soft_margin_weights(
            self._wrong.select(members=kept),
            self._price,
            units.count * units.base,
            penalty=self.penalty,
            n_classes=len(self.classes_),
        )
        return solution.mixture, solution.gap
