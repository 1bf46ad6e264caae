"""Distributionally robust boosting."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, cast

import numpy as np
from sklearn.base import is_regressor

from tailboost.boosting.game import Request, RoundCandidate, Units, round_seed
from tailboost.boosting.learner import CrossFitLearner, Whole
from tailboost.boosting.players.additive_player import Additive
from tailboost.boosting.players.dro import MARGIN_LOSSES, RealAdditive, WorstCase
from tailboost.classifiers.additive import AdditiveClassifier, open_steps, play_steps
from tailboost.classifiers.boosting_fit import BoostingFit, Cautions
from tailboost.classifiers.input import with_parameters
from tailboost.core.checks import take
from tailboost.core.constraints import Constraints, OneOf
from tailboost.guarantees.additive_summary import ON_TRAINING, Cost, margin_bound
from tailboost.guarantees.robustness import dro_radius
from tailboost.rows.judged import last_step
from tailboost.rows.rows import TrainingSet
from tailboost.solvers import worst_case_weights
from tailboost.solvers.worst_case import BALLS, Uncertainty, check_has_radius, check_smooths


@with_parameters
class DROBoostClassifier(AdditiveClassifier):
    """Boosting for the worst-case distribution in a ball around the training distribution.

    The fit minimises, over additive classifiers f, the largest expected loss under a reweighting of the rows
    within the radius: ``F(f) = max { Σ w_i L(y_i f(x_i)) : D(w ‖ p) ≤ δ }``. Each round fits the learner to
    the gradient of F and takes the exact minimiser of F along the hypothesis. Radius 0 with the exponential
    loss is AdaBoost. For more than two classes ``y_i f(x_i)`` is the score of the true class; scores sum to
    0.

    With a regressor as the learner, such as ``DecisionTreeRegressor(max_depth=3)``, each round fits the
    gradient of F in the scores by weighted least squares and takes the exact minimiser along this real-valued
    hypothesis. For more than two classes the regressor has one output per class, or one regressor is fitted
    per class. A hypothesis that raises all true scores has no minimiser and gets the step 1.

    The ball does not distinguish a hard row from a mislabelled row: label noise within the radius gets
    weight.

    Further attributes: see `VarianceBoostClassifier`.

    Parameters
    ----------
    estimator : classifier, regressor or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is `HistTreeClassifier`, one binned
        tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds. The fit ends earlier if no step lowers F.
    radius : float ≥ 0 or "auto", default="auto"
        Radius δ of the ball. "auto" is ``χ²_{d; confidence} / (2n)`` for n distinct rows, the quantile of the
        likelihood-ratio statistic: with about this confidence, the true optimum of d parameters is optimal
        for a reweighting in the ball. It does not mean that the ball contains the true distribution (see
        `tailboost.robustness.dro_radius`). It is for "kl" and "chi2"; "cvar" needs a number.
    confidence : float in (0, 1), default=0.95
        Confidence for ``radius="auto"``.
    effective_dim : int ≥ 1 or "auto", default="auto"
        Number of parameters d for ``radius="auto"``. "auto" is the number of leaves of the first tree, or 1.
    uncertainty : {"kl", "chi2", "cvar"}, default="kl"
        Ball: ``KL(w ‖ p) ≤ δ``; ``½ Σ (w_i − p_i)²/p_i ≤ δ``; or ``w_i ≤ p_i/α`` with α = e^(−δ), the CVaR.
    loss : {"exponential", "logistic", "smoothed_hinge"}, default="exponential"
        L(m): e^(−m); log(1 + e^(−m)); or 0 for m ≥ 1, (1 − m)²/2 for 0 ≤ m < 1, and ½ − m for m < 0.
    smoothing : float ≥ 0, default=0.0
        σ in units of L, for "kl" and "cvar": F becomes ``max { Σ w_i L(y_i f(x_i)) − σ KL(w ‖ p) }`` over the
        ball, lower by at most σδ. F is then smooth, and a first step lowers F for every radius. As losses
        fall below σ, w approaches p.
    learning_rate, cv, n_iter_no_change, tol, class_weight, exact_weights, max_time : optional
        As in `VarianceBoostClassifier`, with the same defaults.
    n_jobs, random_state, verbose : optional
        As in `VarianceBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, summary_, n_features_in_, feature_names_in_
        As in `VarianceBoostClassifier`.
    radius_ : float
        δ.
    effective_dim_ : int or None
        d, if the radius was computed from it.
    worst_case_weights_ : ndarray of shape (n,)
        Worst-case weights for the fitted classifier, for each row of X; they sum to 1. Rows held out and rows
        of sample weight 0 have weight 0.
    log_costs_ : ndarray of shape (T,)
        Logarithm of F on the training rows after each round.
    gap_ : float
        Largest optimality gap of a solve, in units of the largest loss of a row.

    Warns
    -----
    UserWarning
        If no first step lowers F: the worst case can put (K−1)/K of the weight on the errors of the first
        hypothesis. The classifier is then the best constant.

    See Also
    --------
    tailboost.robustness : Worst cases and radii for any fitted classifier.

    Notes
    -----
    A larger radius lowers the tail of the test loss, mainly by smaller scores. On the credit default clients
    (3,000 training rows, 50 rounds, 20 splits) the test exponential loss was 2.43 at radius 0, 1.49 at 0.0073
    and 0.775 at 0.2; the accuracy was 0.790, 0.791 and 0.794. ``learning_rate=0.1`` with the radius from the
    data had 0.736 and 0.816, so try that first (``tailboost reproduce credit-default``).

    For more than two classes, give regression trees leaves of many rows: in a leaf without one of the classes
    the true scores of all others can rise without limit. On three random halves of the digits (50 rounds of
    depth 3, ``learning_rate=0.3``, radius 0.02) the test accuracy was 0.871, with ``min_samples_leaf=20``
    0.917, and 0.914 for classification trees.

    References
    ----------
    Blanchet, Zhang, Kang, Hu, "A Distributionally Robust Boosting Algorithm", 2019. ``smoothing`` follows
    the idea of their Remark 1, a smoothed maximum over the ball; the KL penalty is this library's choice.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import DROBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = DROBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    _parameter_constraints: ClassVar[Constraints] = {"loss": [OneOf(*MARGIN_LOSSES)]}

    n_estimators: int = 50
    radius: float | str = "auto"
    confidence: float = 0.95
    effective_dim: int | str = "auto"
    uncertainty: Uncertainty = "kl"
    loss: str = "exponential"
    smoothing: float = 0.0
    learning_rate: float = 1.0
    cv: object = "auto"
    n_iter_no_change: int | None = None
    tol: float = 1e-3

    def _play(self, fit: BoostingFit) -> Cautions:
        """Play the additive game of the worst case, and set the radius and the worst-case weights."""
        if self.smoothing:
            check_smooths(self.uncertainty, self.smoothing)
        if self.radius == "auto":
            check_has_radius(self.uncertainty)
        training = fit.read(regressors_allowed=True)
        learner = open_steps(fit, training)
        self._set_radius(training, learner, round_seed(fit.entropy, 0))
        play_steps(fit, training, learner, self._player(training.n_classes))
        self._set_worst_case(training)
        return warning_of_large_radius(self)

    def _cost(self) -> Cost:
        """Return F, the worst case of the loss over the ball, with its bound on the training error.

        If all rows were fitted on, the largest training error of a reweighting in the ball is compared.
        """
        selection = self.selection_
        worst_case = cast("Additive", self.game_.player).cost
        value = float(np.exp(selection.log_cost))
        (log_at_zero,) = MARGIN_LOSSES[self.loss].log_value(np.zeros(1))
        at_zero = float(np.exp(log_at_zero))

        worst_error = None
        if selection.rows.fitted:
            wrong = selection.rows.wrong(selection.answers).astype(np.float64)
            solution = worst_case_weights(
                wrong,
                worst_case.uncertainty,
                radius=worst_case.radius,
                base=selection.rows.base,
            )
            worst_error = solution.value

        symbols = {
            "L": f"{self.loss} loss, L(0) = {at_zero:.4g}",
            "ball": f"{self.uncertainty}, of radius δ = {self.radius_:.4g} around these rows",
        }

        formula = "F/L(0)"
        penalty = ""
        # In either ball KL(w ‖ p) is at most the radius, so smoothing lowers F by at most σδ.
        upper = value + worst_case.smoothing * worst_case.radius
        if worst_case.smoothing:
            formula = "(F + σδ)/L(0)"
            penalty = " − σ KL(w ‖ p)"
            symbols["σ"] = f"smoothing = {worst_case.smoothing:g}"

        # An error on a row has a loss of at least L(0).
        bound = margin_bound(selection.n_classes, formula, upper / at_zero, worst_error)
        bound = replace(bound, name=f"largest {ON_TRAINING}, re-weighted within the ball,")
        return Cost(
            f"F, the worst case of the mean of L(m){penalty} over the ball, m the margins",
            value,
            promised=(),
            observed=(bound,),
            symbols=symbols,
        )

    def _player(self, n_classes: int) -> Additive:
        """Return the weight player."""
        smoothing = float(self.smoothing)
        cost = WorstCase(n_classes, self.radius_, self.uncertainty, self.loss, smoothing)
        rate = float(self.learning_rate)
        if is_regressor(self._learner()):
            return RealAdditive(cost, learning_rate=rate)
        return Additive(cost, learning_rate=rate)

    def _set_radius(
        self, training: TrainingSet, learner: Whole | CrossFitLearner, seed: int
    ) -> None:
        """Set the radius δ of the ball: the stated one, or by `dro_radius` from the number of parameters d.

        A d that is not stated is the number of leaves of the first hypothesis. A stated radius needs no d.

        Parameters
        ----------
        training : TrainingSet
            The training rows.
        learner : Whole or CrossFitLearner
            The base learner with its rows.
        seed : int
            Seed of the first fit.
        """
        self.effective_dim_ = None
        if not isinstance(self.radius, str):
            self.radius_ = float(self.radius)
            return
        if isinstance(self.effective_dim, str):
            # At zero margins the worst case is p, so round 1 fits the same hypothesis.
            units = Units.samples(training.weight, learner.player_rows)
            first_hypothesis = learner.fit(Request(units.density(units.base), seed))
            model = last_step(cast("RoundCandidate", first_hypothesis).model)
            dim = 1  # of a model that is no tree
            if hasattr(model, "get_n_leaves"):
                dim = int(model.get_n_leaves())
        else:
            dim = int(self.effective_dim)
        self.effective_dim_ = dim
        n_distinct = training.n_distinct(learner.player_rows)
        self.radius_ = dro_radius(n_distinct, self.confidence, dim)
        if self.verbose:
            print(f"radius {self.radius_:.4g} from {dim} effective dimensions", flush=True)

    def _set_worst_case(self, training: TrainingSet) -> None:
        """Set the worst-case weights of the rows after the last round: 0 for rows held out."""
        units = self.game_.units
        is_played = np.ones(len(training.y), dtype=bool)
        if units.index is not None:  # some rows are held out
            is_played = units.index >= 0
        labels = self.classes_[training.y[is_played]]
        margins = self.margins(take(training.X, is_played), labels)
        cost = cast("Additive", self.game_.player).cost
        self.worst_case_weights_ = np.zeros(training.n_given)
        played_rows = training.used[is_played]
        self.worst_case_weights_[played_rows] = cost.weigh(margins, units.base).rows


def warning_of_large_radius(clf: DROBoostClassifier) -> Cautions:
    """Return a warning if the ball is so large that no step lowers the worst-case loss.

    Then the worst case can put the share (K−1)/K of the weight on the errors of the first hypothesis.
    """
    # With smoothing the worst case of equal losses is p, so a first step lowers F. A real-valued
    # hypothesis has no zero-one error.
    if clf.smoothing or is_regressor(clf._learner()):
        return []
    K = len(clf.classes_)
    error = float(clf.trace_.weighted_loss[0])
    critical_radius = BALLS[clf.uncertainty].critical(error, 1 - 1 / K)
    if not 0 < critical_radius <= clf.radius_:
        return []
    message = (
        f"radius={clf.radius_:.4g} is too large: the first hypothesis errs on {error:.4g} of "
        f"the weight, and from radius {critical_radius:.4g} on the worst case puts "
        f"{1 - 1 / K:.3g} of the weight on these errors, so that no step lowers the "
        "worst-case loss; the fitted classifier is the best constant"
    )
    return [(message, UserWarning)]
