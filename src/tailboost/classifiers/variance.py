"""Additive boosting: AdaBoost, a penalty on the variance of the exponential loss, and soft margins."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost.boosting.cross_fitting import Scheme
from tailboost.boosting.ensemble import AdditiveEnsemble
from tailboost.boosting.game import Units
from tailboost.boosting.players.additive_player import AdaBoost, AdditivePlayer, EBBoost, VadaBoost
from tailboost.boosting.soft_margin import SoftMargin
from tailboost.boosting.training_set import Problem
from tailboost.classifiers.additive import AdditiveClassifier
from tailboost.classifiers.docs import documented_additive
from tailboost.classifiers.input import ValidationRows
from tailboost.classifiers.parameters import CONSTRAINTS, with_constructor
from tailboost.core.array_types import Floats
from tailboost.core.warn import warn_user
from tailboost.guarantees.additive_summary import Cost, margin_bound
from tailboost.learners import StumpClassifier
from tailboost.solvers.soft_margin import check_price

# Values of C Σs that are tried where C is None. The right price depends on the noise: at RLP's
# α = 1/(C Σs) = 0.1 no weights of trees that err on 13 % of Adult beat a coin flip, and an optimum may err on
# six rows of ten.
PRICES = {"linear": (10.0, 5.0, 10 / 3, 2.0, 10 / 7, 1.0), "quadratic": (10.0, 100.0)}


@documented_additive
@with_constructor
class VarianceBoostClassifier(AdditiveClassifier):
    """Additive boosting of the exponential loss, with a penalty on its variance or weights chosen anew.

    Published methods are its presets: `AdaBoostClassifier`, `VadaBoostClassifier`, `EBBoostClassifier` (all
    stumps) and `SoftMarginBoostClassifier` (a refit); each of them says what it makes small.

    Parameters
    ----------
    variance_weight : float ≥ 0 or None, default=0.5
        λ, the weight of the variance, at most 1 without ``stumps``. None is AdaBoost, whose steps are longer
        than those for λ = 0.
    stumps : bool, default=False
        Whether each round takes the best of all decision stumps, with its best step; two classes only.
    refit : {"linear", "quadratic"} or None, default=None
        The program that chooses the weights of the hypotheses when boosting is over, as in
        `SoftMarginBoostClassifier`.
    C : float > 0, optional
        Price of slack in that program; None tries a few.
    {{rest}}

    Attributes
    ----------
    C_ : float
        The price that was paid, with ``refit``.
    {{rest}}

    See Also
    --------
    DROBoostClassifier : For the worst case over a ball around the data.

    References
    ----------
    Shivaswamy and Jebara, "Variance Penalizing AdaBoost", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import VarianceBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = VarianceBoostClassifier(stumps=True, n_estimators=5, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    n_estimators: int = 50
    variance_weight: float | None = 0.5
    stumps: bool = False
    refit: str | None = None
    C: float | None = None
    learning_rate: float = 1.0
    validation: Any = "auto"
    class_weight: Any = None
    n_iter_no_change: int | None = None
    tol: float = 1e-3

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "variance_weight": [*CONSTRAINTS["variance_weight"], None],
    }

    def _problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: ValidationRows
    ) -> Problem:
        if self.stumps and self.variance_weight is None:
            raise ValueError("stumps=True takes the best step for a variance_weight, got None")
        if not self.stumps and (self.variance_weight or 0) > 1:
            raise ValueError(f"variance_weight={self.variance_weight} is above 1, which is for stumps=True")
        if self.stumps and self.estimator is not None:
            raise ValueError(f"estimator={self.estimator!r} and stumps=True were both given")
        return super()._problem(X, y, sample_weight, groups, validation)

    @property
    def _program(self) -> str | None:
        """What chooses the weights anew when boosting is over."""
        return self.refit

    def _default_learner(self) -> Any:
        if self.stumps:
            return StumpClassifier(variance_weight=self.variance_weight or 0.0)
        return super()._default_learner()

    def _rule(self, problem: Problem, scheme: Scheme, seed: int, units: Units) -> AdditivePlayer:
        K, penalty, rate = problem.n_classes, self.variance_weight, float(self.learning_rate)
        if penalty is None:
            return AdaBoost(K, learning_rate=rate)
        return (EBBoost if self.stumps else VadaBoost)(K, float(penalty), learning_rate=rate)

    def _refit(self, problem: Problem, units: Units) -> SoftMargin | None:
        if (program := self._program) is None:
            return None
        tried = tuple(c / units.total for c in PRICES[program])
        prices = tried if self.C is None else (float(self.C),)
        for price in prices:
            check_price(price, units.total, program)
        fitted = slice(None) if units.index is None else units.index >= 0
        class_weight: Floats = np.bincount(
            problem.y[fitted], weights=problem.weight[fitted], minlength=problem.n_classes
        ).astype(float)
        held_out = units.index is not None or problem.validation is not None
        return SoftMargin(prices, units.total * units.base, class_weight, program, held_out)

    def _set_ensemble(self, ensemble: AdditiveEnsemble) -> None:
        super()._set_ensemble(ensemble)
        choice, refit = self.combiner_.choice, self.combiner_.refit
        if refit is not None:
            self.C_ = refit.prices[-1] if choice is None else choice.price

    def _conclude(self, problem: Problem) -> None:
        if self.combiner_.choice is not None and self.combiner_.choice.warning:
            warn_user(self.combiner_.choice.warning)

    def _cost(self) -> Cost:
        if self._program is not None:
            return self._soft_margin_cost()
        if self.variance_weight is None:
            return self._exponential_cost()
        combiner, value = self.combiner_, float(np.exp(self.combiner_.log_cost))
        # Its root is no less than the mean of e^(−m).
        return Cost(
            "V = (mean of e^(−m))² + λ · (variance of e^(−m)), m the margins",
            value,
            (),
            (margin_bound(combiner.n_classes, "√V", float(np.sqrt(value)), combiner.training_error),),
            {"λ": f"variance_weight = {self.variance_weight:g}"},
        )

    def _exponential_cost(self) -> Cost:
        combiner, K = self.combiner_, len(self.classes_)
        mean, error = float(np.exp(combiner.log_cost)), combiner.training_error
        stepped = np.array(self.game_.state.steps[: combiner.n_kept]) > 0
        errors = self.trace_.weighted_loss[: combiner.n_kept][stepped]
        T, gamma = len(errors), 0.5 - float(errors.max(initial=0.0))
        published = margin_bound(K, "exp(−2γ²T)", float(np.exp(-2 * gamma**2 * T)), error)
        if self.learning_rate < 1:  # it is about whole steps
            note = published.note or "for learning_rate=1 only"
            published = replace(published, bound=None, note=note)
        return Cost(
            "the mean of e^(−m), m the margins",
            mean,
            (published,),
            (margin_bound(K, "Π_t Z_t", mean, error),),
            {
                "Z_t": "what round t multiplied the mean of e^(−m) by",
                "γ": f"½ less the largest weighted error of a hypothesis = {gamma:.4g}",
                "T": f"hypotheses = {T}",
            },
        )

    def _soft_margin_cost(self) -> Cost:
        combiner, linear = self.combiner_, self._program == "linear"
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


@documented_additive
@with_constructor
class AdaBoostClassifier(VarianceBoostClassifier):
    """AdaBoost (for K > 2 classes SAMME), as the reference for the variance-penalised and robust ones.

    Parameters
    ----------
    {{rest}}

    Attributes
    ----------
    estimator_weights_ : ndarray
        Their steps a; (K−1)/K times those of scikit-learn's AdaBoostClassifier.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the mean exponential loss after each round.
    {{rest}}

    See Also
    --------
    VadaBoostClassifier : With a penalty on the variance of the loss.
    DROBoostClassifier : For the worst case over a ball around the data.

    References
    ----------
    Freund, Schapire: A Decision-Theoretic Generalization of On-Line Learning, 1997.
    Zhu, Zou, Rosset, Hastie: Multi-class AdaBoost, 2009 (SAMME).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import AdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AdaBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    variance_weight, stumps, refit, C = None, False, None, None


@documented_additive
@with_constructor
class VadaBoostClassifier(VarianceBoostClassifier):
    """VadaBoost: AdaBoost with a penalty on the variance of the exponential loss over the rows.

    Every round lowers ``(Σ p e^(−m))² + λ (Σ p e^(−2m) − (Σ p e^(−m))²)``, m the margin of a row and λ the
    ``variance_weight``, by fitting the learner on ``u = λw²/p + (1−λ)w`` and taking the step
    ``((K−1)/(2K)) log((K−1) Σ_I u / Σ_J u)``. With more than two classes the same bound holds for the margins
    of SAMME's coding.

    Parameters
    ----------
    {{n_estimators}}
        Steps are shorter than AdaBoost's: with stumps and λ = 0, which halves them, 2.4 to 2.9 times
        AdaBoost's 100 rounds were needed for the same exponential loss on 18 data sets.
    variance_weight : float in [0, 1], default=0.5
        λ, the weight of the variance.
    {{rest}}

    Attributes
    ----------
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost above after each round; it starts from 0 and falls at every round that takes a
        step.
    {{rest}}

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

    n_estimators: int = 50
    variance_weight: float = 0.5
    stumps, refit, C = False, None, None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "variance_weight": [Interval(Real, 0, 1, closed="both")]
    }


@documented_additive
@with_constructor
class EBBoostClassifier(VarianceBoostClassifier):
    """Empirical Bernstein boosting: each round takes the best of all decision stumps, with the best step.

    The cost is `VadaBoostClassifier`'s; here it is minimised exactly over every column, threshold, polarity
    and step (see `tailboost.learners.StumpClassifier`). Two classes and finite numbers only.

    Parameters
    ----------
    variance_weight : float ≥ 0, default=0.5
        λ, the weight of the variance; beyond 1 too, as in the paper, where VadaBoost ends.
    {{rest}}

    Attributes
    ----------
    estimators_ : list of StumpClassifier
        The stumps kept.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost after each round; it starts from 0 and falls at every round that takes a step.
    {{rest}}

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

    n_estimators: int = 50
    variance_weight: float = 0.5
    estimator, stumps, refit, C = None, True, None, None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "variance_weight": CONSTRAINTS["variance_weight"]
    }


@documented_additive
@with_constructor
class SoftMarginBoostClassifier(VarianceBoostClassifier):
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
    loss : {"linear", "quadratic"}, default="quadratic"
        RLP or RQP. On 19 data sets RQP came closer to AdaBoost, and RLP often keeps one or two hypotheses.
    C : float > 0, optional
        Price of slack, per unit of sample weight. For RLP at least 1/Σs. None tries a few (for RLP
        α = 0.1, 0.2, 0.3, 0.5, 0.7, 1; for RQP C Σs = 10, 100) and keeps the first of those whose vote errs
        least, on the held-out rows where there are any, else on the training rows.
    {{rest}}

    Attributes
    ----------
    estimators_ : list
        The hypotheses of positive weight.
    estimator_weights_ : ndarray
        Their weights a.
    C_ : float
        The price that was paid.
    log_costs_ : ndarray of shape (T,)
        Logarithm of AdaBoost's mean exponential loss after each round.
    gap_ : float
        Duality gap of the program.
    {{rest}}

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

    n_estimators: int = 50
    loss: str = "quadratic"
    C: float | None = None
    variance_weight, stumps, refit, learning_rate = None, False, None, 1.0
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [StrOptions({"linear", "quadratic"})],
    }

    @property
    def _program(self) -> str:
        return self.loss
