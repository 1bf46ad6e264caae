"""Additive boosting: AdaBoost, a penalty on the variance of the exponential loss, and soft margins."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from tailboost.boosting.additive import SoftMargin
from tailboost.boosting.game import Units
from tailboost.boosting.learner import CrossFitLearner, Whole
from tailboost.boosting.players.additive_player import (
    Additive,
    ExactVariancePenalty,
    Exponential,
    MarginCost,
    VariancePenalty,
)
from tailboost.classifiers.additive import AdditiveClassifier, open_steps, play_steps
from tailboost.classifiers.boosting_fit import BoostingFit, Cautions
from tailboost.classifiers.input import CONSTRAINTS, preset, with_parameters
from tailboost.core.constraints import Constraints, OneOf
from tailboost.guarantees.additive_summary import Cost, margin_bound
from tailboost.learners import StumpClassifier
from tailboost.rows.rows import TrainingSet
from tailboost.solvers.soft_margin import check_price

# Values of C Σs for C=None. The right price depends on the noise: at α = 1/(C Σs) = 0.1 (RLP), no weights of
# trees with 13 % errors on Adult beat a random guess, and an optimum may have 60 % errors.
PRICES = {"linear": (10.0, 5.0, 10 / 3, 2.0, 10 / 7, 1.0), "quadratic": (10.0, 100.0)}


@with_parameters
class VarianceBoostClassifier(AdditiveClassifier):
    """Additive boosting of the exponential loss, with a variance penalty or with weights refitted afterwards.

    Presets for published algorithms are `AdaBoostClassifier`, `VadaBoostClassifier`, `EBBoostClassifier`
    (stumps) and `SoftMarginBoostClassifier` (refitted weights).

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistTreeClassifier`, one binned
        tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds.
    variance_weight : float ≥ 0 or None, default=0.5
        Weight λ of the variance, at most 1 without ``stumps``. None is AdaBoost, which has longer steps than
        λ = 0.
    stumps : bool, default=False
        Whether each round takes the best of all decision stumps with its best step; two classes only.
    refit : {"linear", "quadratic"} or None, default=None
        Program that computes the weights of the hypotheses after the last round, as in
        `SoftMarginBoostClassifier`.
    C : float > 0, optional
        Price of slack in this program. None tries several.
    learning_rate : float in (0, 1], default=1.0
        Fraction of each step that is taken. Smaller fractions need more rounds.
    cv : {"auto", "train"}, float in (0, 1), splitter or iterable, default="auto"
        Selection data, on which the number of rounds is selected. A float: a held-out fraction, on which no
        hypothesis is fitted. A splitter or iterable gives one split of row numbers. "train": no selection,
        all rounds are played. "auto": ``X_val`` if `fit` gets it, else 0.2 with ``n_iter_no_change`` and
        "train" without.
    n_iter_no_change : int or None, default=None
        The fit stops after this number of rounds in which the error on the selection data fell by at most
        ``tol``, and keeps the best prefix. Without ``X_val``, a fifth of the rows is held out for this error.
        None plays all rounds.
    tol : float, default=1e-3
        Smallest decrease of this error that counts.
    class_weight : dict, "balanced" or None, default=None
        Factors of the classes for the sample weights. Bounds are about the reweighted distribution.
    exact_weights : bool, default=False
        Whether the learner gets the weights of a round unrounded, as the papers print them
        (`tailboost.published`). By default they have 16 significant bits: then equal rows have equal weights
        for any order of the rows, and a tree breaks ties in the same way. A tie may be broken otherwise than
        with exact weights, which can change all later rounds.
    max_time, n_jobs, random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, n_iter_, trace_, rates_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.
    estimators_ : list
        The hypotheses that were kept.
    estimator_weights_ : ndarray of shape (n_members,)
        Step a of each hypothesis.
    C_ : float
        The price of slack, with ``refit``.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost after each round.
    gap_ : float
        Largest optimality gap of a solve; 0 if steps have a closed form.
    subgroup_errors_ : dict
        Error of `predict` on each class, group or cell, on the selection data.
    summary_ : AdditiveSummary
        Errors of `predict` and their bound by the cost, on held-out rows if there are any, else on the
        training rows; ``print`` shows them.

    See Also
    --------
    DROBoostClassifier : Boosting for the worst case in a ball around the data.

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

    _parameter_constraints: ClassVar[Constraints] = {
        "variance_weight": [*CONSTRAINTS["variance_weight"], None]
    }

    n_estimators: int = 50
    variance_weight: float | None = 0.5
    stumps: bool = False
    refit: str | None = None
    C: float | None = None
    learning_rate: float = 1.0
    cv: Any = "auto"
    n_iter_no_change: int | None = None
    tol: float = 1e-3

    def _play(self, fit: BoostingFit) -> Cautions:
        """Play the additive game, and refit the weights by a program if one is given."""
        penalty = self.variance_weight
        if self.stumps and penalty is None:
            raise ValueError("stumps=True takes the best step for a variance_weight, got None")
        if not self.stumps and penalty is not None and penalty > 1:
            raise ValueError(f"variance_weight={penalty} is above 1, which is for stumps=True")
        if self.stumps and self.estimator is not None:
            raise ValueError(f"estimator={self.estimator!r} and stumps=True were both given")
        training = fit.read()
        learner = open_steps(fit, training)
        refit = self._refit(training, learner)
        play_steps(fit, training, learner, self._player(training.n_classes), refit)
        choice = self.selection_.choice
        if choice is not None:
            self.C_ = choice.price
        elif refit is not None:
            self.C_ = refit.slack_prices[-1]
        if choice is not None and choice.warning:
            return [(choice.warning, UserWarning)]
        return []

    @property
    def _program(self) -> str | None:
        """Program that computes the weights after the last round; None keeps those of the rounds."""
        return self.refit

    def _learner(self) -> Any:
        if self.stumps and self.estimator is None:
            return StumpClassifier(variance_weight=self.variance_weight or 0.0)
        return super()._learner()

    def _player(self, n_classes: int) -> Additive:
        """Return the weight player."""
        penalty = self.variance_weight
        cost: MarginCost = Exponential(n_classes)
        if penalty is not None and self.stumps:
            cost = ExactVariancePenalty(n_classes, float(penalty))
        elif penalty is not None:
            cost = VariancePenalty(n_classes, float(penalty))
        return Additive(cost, learning_rate=float(self.learning_rate))

    def _refit(
        self, training: TrainingSet, learner: Whole | CrossFitLearner
    ) -> SoftMargin | None:
        """Return the soft-margin program for the weights after the last round; None keeps the steps.

        Without a stated C it is solved for several prices.
        """
        program = self._program
        if program is None:
            return None
        units = Units.samples(training.weight, learner.player_rows)
        prices = tuple(price / units.total for price in PRICES[program])
        if self.C is not None:
            prices = (float(self.C),)
        for price in prices:
            check_price(price, units.total, program)
        y = training.y
        weight = training.weight
        if units.index is not None:  # some rows are held out
            fitted_rows = units.index >= 0
            y = y[fitted_rows]
            weight = weight[fitted_rows]
        class_weight = np.bincount(y, weights=weight, minlength=training.n_classes)
        held_out = units.index is not None or training.validation is not None
        sample_weight = units.total * units.base
        return SoftMargin(
            slack_prices=prices,
            sample_weight=sample_weight,
            class_weight=class_weight.astype(float),
            loss=program,
            held_out=held_out,
        )

    def _cost(self) -> Cost:
        """Return the cost that the weights minimise: of the program, or of the steps with λ or without."""
        if self._program is not None:
            return self._soft_margin_cost()
        if self.variance_weight is None:
            return self._exponential_cost()
        selection = self.selection_
        value = float(np.exp(selection.log_cost))
        # The root of V is at least the mean of e^(−m).
        root = float(np.sqrt(value))
        bound = margin_bound(selection.n_classes, "√V", root, selection.training_error)
        return Cost(
            "V = (mean of e^(−m))² + λ · (variance of e^(−m)), m the margins",
            value,
            promised=(),
            observed=(bound,),
            symbols={"λ": f"variance_weight = {self.variance_weight:g}"},
        )

    def _exponential_cost(self) -> Cost:
        """Return the exponential cost of AdaBoost, with the bounds that follow from the edges γ_t and Z_t."""
        selection = self.selection_
        K = len(self.classes_)
        mean = float(np.exp(selection.log_cost))
        error = selection.training_error
        has_step = np.array(self.game_.state.steps[: selection.n_kept]) > 0
        weighted_errors = self.trace_.weighted_loss[: selection.n_kept][has_step]
        T = len(weighted_errors)
        gamma = 0.5 - float(weighted_errors.max(initial=0.0))  # the smallest edge
        published = margin_bound(K, "exp(−2γ²T)", float(np.exp(-2 * gamma**2 * T)), error)
        if self.learning_rate < 1:  # the bound is about full steps
            note = published.note or "for learning_rate=1 only"
            published = replace(published, bound=None, note=note)
        return Cost(
            "the mean of e^(−m), m the margins",
            mean,
            promised=(published,),
            observed=(margin_bound(K, "Π_t Z_t", mean, error),),
            symbols={
                "Z_t": "what round t multiplied the mean of e^(−m) by",
                "γ": f"½ less the largest weighted error of a hypothesis = {gamma:.4g}",
                "T": f"hypotheses = {T}",
            },
        )

    def _soft_margin_cost(self) -> Cost:
        """Return the value of the program for soft margins, with the bound on the training error."""
        selection = self.selection_
        K = selection.n_classes
        error = selection.training_error
        choice = selection.choice
        value = 0.0  # of the best constant
        if choice is not None and choice.value is not None:
            value = choice.value
        total_price = self.C_ * self.game_.units.total  # C Σs
        symbols = {
            "C": f"{self.C_:.4g}",
            "Σs": "the sum of the sample weights of the rows fitted on",
            "ξ": "slacks",
        }
        if self._program == "linear":
            name = "V = ρ − C Σ s ξ, made large"
            alpha = 1 / total_price
            # V is the mean margin of the worst α of the rows. V > 0 only if fewer than α have margin ≤ 0.
            bound = replace(margin_bound(K, "α, as V > 0", alpha, error), strict=True)
            if value <= self.gap_:
                bound = replace(bound, bound=None, note=bound.note or "V is not above 0")
            symbols |= {"ρ": "the margin asked for", "α": f"1/(C Σs) = {alpha:.4g}"}
        else:
            name = "V = ‖a‖² + C Σ s ξ"
            # Σ s ξ / Σs; every row with m ≤ 0 has ξ ≥ 1.
            slack = (value - float(np.sum(self.estimator_weights_**2))) / total_price
            bound = margin_bound(K, "(V − ‖a‖²)/(C Σs)", slack, error)
            symbols["a"] = "estimator_weights_"
        return Cost(name, value, promised=(), observed=(bound,), symbols=symbols)


@preset(variance_weight=None, stumps=False, refit=None, C=None)
class AdaBoostClassifier(VarianceBoostClassifier):
    """AdaBoost (SAMME for more than two classes), as a reference for the penalised and robust classifiers.

    Further attributes: see `VarianceBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistTreeClassifier`, one binned
        tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds.
    learning_rate, cv, n_iter_no_change, tol, class_weight, exact_weights, max_time : optional
        As in `VarianceBoostClassifier`, with the same defaults.
    n_jobs, random_state, verbose : optional
        As in `VarianceBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimators_, summary_, n_features_in_, feature_names_in_
        As in `VarianceBoostClassifier`.
    estimator_weights_ : ndarray of shape (n_members,)
        Steps a; (K−1)/K times the steps of scikit-learn's AdaBoostClassifier.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the mean exponential loss after each round.

    See Also
    --------
    VadaBoostClassifier : With a penalty on the variance of the loss.
    DROBoostClassifier : Boosting for the worst case in a ball around the data.

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


@preset(stumps=False, refit=None, C=None)
class VadaBoostClassifier(VarianceBoostClassifier):
    """VadaBoost: AdaBoost with a penalty on the variance of the exponential loss over the rows.

    Every round lowers ``(Σ p e^(−m))² + λ (Σ p e^(−2m) − (Σ p e^(−m))²)`` for the margins m of the rows and λ
    = ``variance_weight``. The learner is fitted with the weights ``u = λw²/p + (1−λ)w``. The step is
    ``((K−1)/(2K)) log((K−1) Σ_I u / Σ_J u)``, over the rows I answered right and J answered wrong. For more
    than two classes the same bound holds for the margins of SAMME's coding.

    Further attributes: see `VarianceBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistTreeClassifier`, one binned
        tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds. Steps are shorter than AdaBoost's: with stumps and λ = 0, 2.4 to 2.9 times
        AdaBoost's 100 rounds were needed for the same exponential loss on 18 data sets.
    variance_weight : float in [0, 1], default=0.5
        Weight λ of the variance.
    learning_rate, cv, n_iter_no_change, tol, class_weight, exact_weights, max_time : optional
        As in `VarianceBoostClassifier`, with the same defaults.
    n_jobs, random_state, verbose : optional
        As in `VarianceBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, summary_, n_features_in_, feature_names_in_
        As in `VarianceBoostClassifier`.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost above after each round. It starts from 0 and falls in each round with a step.

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

    _parameter_constraints: ClassVar[Constraints] = {
        "variance_weight": [Interval(Real, 0, 1, closed="both")]
    }

    variance_weight: float | None = 0.5


@preset(estimator=None, stumps=True, refit=None, C=None)
class EBBoostClassifier(VarianceBoostClassifier):
    """Empirical Bernstein boosting: each round takes the best of all decision stumps, with the best step.

    The cost is that of `VadaBoostClassifier`. Each round minimises it exactly over every column, threshold,
    polarity and step (see `tailboost.learners.StumpClassifier`). Two classes and finite numbers only.

    Further attributes: see `VarianceBoostClassifier`.

    Parameters
    ----------
    n_estimators : int, default=50
        Largest number of rounds.
    variance_weight : float ≥ 0, default=0.5
        Weight λ of the variance. As in the paper, it may exceed 1, the maximum of VadaBoost.
    learning_rate, cv, n_iter_no_change, tol, class_weight, exact_weights, max_time : optional
        As in `VarianceBoostClassifier`, with the same defaults.
    n_jobs, random_state, verbose : optional
        As in `VarianceBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimator_weights_, log_costs_, summary_, n_features_in_, feature_names_in_
        As in `VarianceBoostClassifier`.
    estimators_ : list of StumpClassifier
        The stumps that were kept.

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

    _parameter_constraints: ClassVar[Constraints] = {
        "variance_weight": CONSTRAINTS["variance_weight"]
    }

    variance_weight: float | None = 0.5


@preset(variance_weight=None, stumps=False, refit=None, learning_rate=1.0)
class SoftMarginBoostClassifier(VarianceBoostClassifier):
    """Soft margins: the hypotheses of AdaBoost, weighted by a linear or quadratic program.

    The margin m is 1 if a hypothesis is right and −1/(K−1) if it is wrong. The program is

    * linear (RLP): ``max ρ − C Σ s_i ξ_i`` subject to ``Σ_t a_t m_it ≥ ρ − ξ_i``, ξ ≥ 0, a on the simplex;
    * quadratic (RQP): ``min ‖a‖² + C Σ s_i ξ_i`` subject to ``Σ_t a_t m_it ≥ 1 − ξ_i``, ξ ≥ 0, a ≥ 0,

    over the training rows with sample weights s.

    The right price of slack grows with the noise in the labels. RLP is the CVaR of the votes at α = 1/(C Σs):
    if the hypotheses together err on more than α/2 of the rows, no weights beat a random guess. Weights are
    rejected if their value is no better than that of the best constants, or if their vote errs on more
    training rows than the best constant.

    Further attributes: see `VarianceBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistTreeClassifier`, one binned
        tree of depth 5.
    loss : {"linear", "quadratic"}, default="quadratic"
        RLP or RQP. On 19 data sets RQP came closer to AdaBoost; RLP often keeps one or two hypotheses.
    n_estimators : int, default=50
        Largest number of rounds.
    C : float > 0, optional
        Price of slack per unit of sample weight (relative weights are scaled first, see `fit`), for RLP at
        least 1/Σs. None tries α = 0.1, 0.2, 0.3, 0.5, 0.7, 1 for RLP and C Σs = 10, 100 for RQP. It selects
        the first price of least error of the vote, on the held-out rows if there are any, else on the
        training rows.
    cv, n_iter_no_change, tol, class_weight, exact_weights, max_time : optional
        As in `VarianceBoostClassifier`, with the same defaults.
    n_jobs, random_state, verbose : optional
        As in `VarianceBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, summary_, n_features_in_, feature_names_in_
        As in `VarianceBoostClassifier`.
    estimators_ : list
        The hypotheses of positive weight.
    estimator_weights_ : ndarray of shape (n_members,)
        Their weights a.
    C_ : float
        The price of slack that was used.
    log_costs_ : ndarray of shape (T,)
        Logarithm of AdaBoost's mean exponential loss after each round.
    gap_ : float
        Duality gap of the program.

    Raises
    ------
    ValueError
        From ``fit``, for ``loss="linear"`` with C < 1/Σs, for which the program is unbounded, and for the
        reasons that `fit` lists.

    Warns
    -----
    UserWarning
        If no price gives weights better than the constants: the classifier is then the best constant. Also if
        the vote errs on more held-out rows than the best constant.

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

    _parameter_constraints: ClassVar[Constraints] = {"loss": [OneOf("linear", "quadratic")]}

    loss: str = "quadratic"

    @property
    def _program(self) -> str:
        return self.loss
