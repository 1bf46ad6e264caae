"""Boosting with a penalty on the variance of the exponential loss, and soft margins."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost._typing import Floats
from tailboost._warn import warn_user
from tailboost.classifiers._additive import AdditiveClassifier
from tailboost.classifiers.docs import documented
from tailboost.combiners import Additive, AdditiveEnsemble, SoftMargin
from tailboost.data import Problem
from tailboost.game import Units
from tailboost.learners import StumpClassifier
from tailboost.rules.adaboost import AdaBoost
from tailboost.rules.ebboost import EBBoost
from tailboost.rules.vada import VadaBoost
from tailboost.solvers.soft_margin import check_price
from tailboost.statements.additive_guarantee import Cost, margin_bound
from tailboost.validation import Scheme

# Values of C Σs that are tried where C is None. The right price depends on the noise: at RLP's
# α = 1/(C Σs) = 0.1 no weights of trees that err on 13 % of Adult beat a coin flip, and an optimum may err on
# six rows of ten.
PRICES = {"linear": (10.0, 5.0, 10 / 3, 2.0, 10 / 7, 1.0), "quadratic": (10.0, 100.0)}


def _penalised_cost(combiner: Additive, variance_weight: float) -> Cost:
    """Return the variance-penalised cost; its root is no less than the mean of e^(−m)."""
    value = float(np.exp(combiner.log_cost))
    return Cost(
        "V = (mean of e^(−m))² + λ · (variance of e^(−m)), m the margins",
        value,
        (),
        (margin_bound(combiner.n_classes, "√V", float(np.sqrt(value)), combiner.training_error),),
        {"λ": f"variance_weight = {variance_weight:g}"},
    )


@documented
class VadaBoostClassifier(AdditiveClassifier):
    """VadaBoost: AdaBoost with a penalty on the variance of the exponential loss over the rows.

    Every round lowers ``(Σ p e^(−m))² + λ (Σ p e^(−2m) − (Σ p e^(−m))²)``, m the margin of a row and λ the
    ``variance_weight``, by fitting the learner on ``u = λw²/p + (1−λ)w`` and taking the step
    ``((K−1)/(2K)) log((K−1) Σ_I u / Σ_J u)``. With more than two classes the same bound holds for the margins
    of SAMME's coding.

    Parameters
    ----------
    {{additive_estimator}}
    {{additive_n_estimators}}
        Steps are shorter than AdaBoost's: with stumps and λ = 0, which halves them, 2.4 to 2.9 times
        AdaBoost's 100 rounds were needed for the same exponential loss on 18 data sets.
    variance_weight : float in [0, 1], default=0.5
        λ, the weight of the variance.
    {{additive_learning_rate}}
    {{additive_validation}}
    {{class_weight}}
    {{additive_n_iter_no_change}}
    {{additive_tol}}
    {{max_time … verbose}}

    Attributes
    ----------
    {{classes_}}
    {{additive_ensemble_}}
    {{additive_estimators_}}
    estimator_weights_ : ndarray
        Their steps a.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost above after each round; it starts from 0 and falls at every round that takes a
        step.
    {{n_iter_}}
    {{trace_}}
    {{additive_guarantee_}}
    {{additive_gap_}}
    {{n_features_in_}}

    See Also
    --------
    EBBoostClassifier : The same cost, each round the best of all stumps.

    References
    ----------
    Shivaswamy and Jebara, "Variance Penalizing AdaBoost", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import VadaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = VadaBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveClassifier._parameter_constraints,
        "variance_weight": [Interval(Real, 0, 1, closed="both")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        variance_weight: float = 0.5,
        learning_rate: float = 1.0,
        validation: Any = "auto",
        class_weight: Any = None,
        n_iter_no_change: int | None = None,
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.variance_weight = variance_weight
        self.learning_rate = learning_rate
        self.validation = validation
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _cost(self) -> Cost:
        return _penalised_cost(self.combiner_, self.variance_weight)

    def _rule(self, problem: Problem, scheme: Scheme, seed: int, units: Units) -> VadaBoost:
        rate = float(self.learning_rate)
        return VadaBoost(problem.n_classes, float(self.variance_weight), learning_rate=rate)


@documented
class EBBoostClassifier(AdditiveClassifier):
    """Empirical Bernstein boosting: each round takes the best of all decision stumps, with the best step.

    The cost is `VadaBoostClassifier`'s; here it is minimised exactly over every column, threshold, polarity
    and step (see `tailboost.learners.StumpClassifier`). Two classes and finite numbers only.

    Parameters
    ----------
    {{additive_n_estimators}}
    variance_weight : float ≥ 0, default=0.5
        λ, the weight of the variance; beyond 1 too, as in the paper, where VadaBoost ends.
    {{additive_learning_rate}}
    {{additive_validation}}
    {{class_weight}}
    {{additive_n_iter_no_change}}
    {{additive_tol}}
    {{max_time … verbose}}

    Attributes
    ----------
    {{classes_}}
    {{additive_ensemble_}}
    estimators_ : list of StumpClassifier
        The stumps kept.
    estimator_weights_ : ndarray
        Their steps a.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost after each round; it starts from 0 and falls at every round that takes a step.
    {{n_iter_}}
    {{trace_}}
    {{additive_guarantee_}}
    {{additive_gap_}}
    {{n_features_in_}}

    Raises
    ------
    ValueError
        From ``fit``, for more than two classes, and for the reasons that `fit` lists.

    See Also
    --------
    VadaBoostClassifier : The same cost with any base learner and any number of classes.

    References
    ----------
    Shivaswamy and Jebara, "Empirical Bernstein Boosting", AISTATS 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import EBBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = EBBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    estimator: Any = None  # stumps, always

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveClassifier._parameter_constraints,
        "variance_weight": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        *,
        n_estimators: int = 50,
        variance_weight: float = 0.5,
        learning_rate: float = 1.0,
        validation: Any = "auto",
        class_weight: Any = None,
        n_iter_no_change: int | None = None,
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.variance_weight = variance_weight
        self.learning_rate = learning_rate
        self.validation = validation
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _default_learner(self) -> Any:
        return StumpClassifier(variance_weight=self.variance_weight)

    def _cost(self) -> Cost:
        return _penalised_cost(self.combiner_, self.variance_weight)

    def _rule(self, problem: Problem, scheme: Scheme, seed: int, units: Units) -> EBBoost:
        rate = float(self.learning_rate)
        return EBBoost(problem.n_classes, float(self.variance_weight), learning_rate=rate)


@documented
class SoftMarginBoostClassifier(AdditiveClassifier):
    """Soft margins: the hypotheses of an AdaBoost run, their weights from a linear or quadratic program.

    With margins m = 1 where a hypothesis is right and −1/(K−1) where it is wrong,

    * linear (RLP): ``max ρ − C Σ s_i ξ_i`` subject to ``Σ_t a_t m_it ≥ ρ − ξ_i``, ξ ≥ 0, a on the simplex;
    * quadratic (RQP): ``min ‖a‖² + C Σ s_i ξ_i`` subject to ``Σ_t a_t m_it ≥ 1 − ξ_i``, ξ ≥ 0, a ≥ 0,

    over the rows the hypotheses were fitted on, s their sample weights.

    The right price of slack grows with the noise in the labels. RLP is the CVaR of the votes at
    α = 1/(C Σs): where the hypotheses together err on more than α/2 of the rows, no weights are worth more
    than a coin flip, and the optimum says nothing about the labels. Weights that are worth no more than the
    best constants in the program's own terms, or whose vote errs on more of the training rows than the best
    constant, are never kept.

    Parameters
    ----------
    {{additive_estimator}}
    {{additive_n_estimators}}
    loss : {"linear", "quadratic"}, default="quadratic"
        RLP or RQP. On 19 data sets RQP came closer to AdaBoost, and RLP often keeps one or two hypotheses.
    C : float > 0, optional
        Price of slack, per unit of sample weight. For RLP at least 1/Σs. None tries a few (for RLP
        α = 0.1, 0.2, 0.3, 0.5, 0.7, 1; for RQP C Σs = 10, 100) and keeps the first of those whose vote errs
        least, on the held-out rows where there are any, else on the training rows.
    {{additive_validation}}
    {{class_weight}}
    {{additive_n_iter_no_change}}
    {{additive_tol}}
    {{max_time … verbose}}

    Attributes
    ----------
    {{classes_}}
    {{additive_ensemble_}}
    estimators_ : list
        The hypotheses of positive weight.
    estimator_weights_ : ndarray
        Their weights a.
    C_ : float
        The price that was paid.
    log_costs_ : ndarray of shape (T,)
        Logarithm of AdaBoost's mean exponential loss after each round.
    {{n_iter_}}
    {{trace_}}
    {{additive_guarantee_}}
    gap_ : float
        Duality gap of the program.
    {{n_features_in_}}

    Raises
    ------
    ValueError
        From ``fit``, for ``loss="linear"`` with C < 1/Σs, where the program is unbounded; and for the
        reasons that `fit` lists.

    Warns
    -----
    UserWarning
        From ``fit``, if no price gives weights better than the constants, so that the classifier is the best
        constant; and if the vote errs on more of the held-out rows than the best constant does.

    See Also
    --------
    AdaLPBoostClassifier : The same linear program over the losses of hypotheses trained for it.

    References
    ----------
    Rätsch, Onoda, Müller, "Soft Margins for AdaBoost", 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import SoftMarginBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SoftMarginBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveClassifier._parameter_constraints,
        "loss": [StrOptions({"linear", "quadratic"})],
        "C": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        loss: str = "quadratic",
        C: float | None = None,
        validation: Any = "auto",
        class_weight: Any = None,
        n_iter_no_change: int | None = None,
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.loss = loss
        self.C = C
        self.validation = validation
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _cost(self) -> Cost:
        combiner, linear = self.combiner_, self.loss == "linear"
        choice, weight = combiner.choice, self.C_ * self.game_.units.total
        value = 0.0 if choice is None or choice.value is None else choice.value
        symbols = {"Σs": "the sum of the sample weights of the rows fitted on", "ξ": "slacks"}
        if linear:
            name, alpha = "V = ρ − C Σ s ξ, made large", 1 / weight
            # V is the mean margin of the worst α of the rows: above 0 only if fewer than α have none
            bound = margin_bound(combiner.n_classes, "α, as V > 0", alpha, combiner.training_error)
            bound = replace(bound, strict=True)
            if value <= self.gap_:
                bound = replace(bound, bound=None, note=bound.note or "V is not above 0")
            symbols |= {"ρ": "the margin asked for", "α": f"1/(C Σs) = {alpha:.4g}"}
        else:
            # Σ s ξ / Σs, of which every row with m ≤ 0 has ξ ≥ 1
            slack = (value - float(np.sum(self.estimator_weights_**2))) / weight
            name = "V = ‖a‖² + C Σ s ξ"
            bound = margin_bound(combiner.n_classes, "(V − ‖a‖²)/(C Σs)", slack, combiner.training_error)
            symbols["a"] = "estimator_weights_"
        return Cost(name, value, (), (bound,), {"C": f"{self.C_:.4g}", **symbols})

    def _rule(self, problem: Problem, scheme: Scheme, seed: int, units: Units) -> AdaBoost:
        return AdaBoost(problem.n_classes)

    def _refit(self, problem: Problem, units: Units) -> SoftMargin:
        tried = tuple(c / units.total for c in PRICES[self.loss])
        prices = tried if self.C is None else (float(self.C),)
        for price in prices:
            check_price(price, units.total, self.loss)
        fitted = slice(None) if units.index is None else units.index >= 0
        class_weight: Floats = np.bincount(
            problem.y[fitted], weights=problem.weight[fitted], minlength=problem.n_classes
        ).astype(float)
        held_out = units.index is not None or problem.validation is not None
        return SoftMargin(prices, units.total * units.base, class_weight, self.loss, held_out)

    def _set_ensemble(self, ensemble: AdditiveEnsemble) -> None:
        super()._set_ensemble(ensemble)
        choice, refit = self.combiner_.choice, self.combiner_.refit
        assert refit is not None
        self.C_ = refit.prices[-1] if choice is None else choice.price

    def _conclude(self, problem: Problem) -> None:
        if self.combiner_.choice is not None and self.combiner_.choice.warning:
            warn_user(self.combiner_.choice.warning)
