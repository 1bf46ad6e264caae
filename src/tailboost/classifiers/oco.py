"""Hedge over samples against a weak learner, and the majority vote: OCO boosting."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost.boosting.cross_fitting import Scheme
from tailboost.boosting.game import StopKind, Stopping, Units
from tailboost.boosting.players.hedge import Hedge, eta_for, theory_rounds
from tailboost.boosting.training_set import Problem
from tailboost.classifiers.base import with_callbacks
from tailboost.classifiers.boosted_mixture import MixtureClassifier
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import ValidationRows
from tailboost.classifiers.parameters import with_constructor
from tailboost.classifiers.plan import BoundNotMetWarning, Demand, Plan, Schedule, tied_by
from tailboost.core.warn import warn_user
from tailboost.guarantees.fit_summary import Bounds, hedge_game_bounds
from tailboost.learners import HistTreeClassifier
from tailboost.selection.loss_mixture import Mixture
from tailboost.selection.loss_objective import WorstRow

# γ for "auto": an edge that one shallow tree reaches on most tables.
GAMMA = 0.1


@documented
@with_constructor
class OCOBoostClassifier(MixtureClassifier):
    """OCO boosting: Hedge over samples against a weak learner with edge γ, then the majority vote.

    If every round has weighted error at most ½ − γ, then after ``T = ⌈2 ln n/γ²⌉`` rounds more than half of
    the voters are right on every training row, and so is their majority.

    Parameters
    ----------
    estimator : classifier or str, optional
        The base learner or its name (see `tailboost.learners.named`), grown until the condition holds where
        it can grow; None is `HistTreeClassifier`, one binned tree of depth 5.
    gamma : float in (0, 0.5] or "auto", default="auto"
        γ; "auto" is 0.1. A learner that does not reach ½ − γ ends the game; the rounds so far vote.
    n_estimators : int or "auto", default="auto"
        Rounds T; "auto" is ``⌈2 ln n/γ²⌉`` for n rows; where their weights differ
        n is the sum of the weights divided by the smallest.
    eta : float or "theory", default="theory"
        Learning rate of Hedge; "theory" is √(8 ln n/T).
    outlier_fraction : float in [0, 1), default=0.0
        Mass of the rows with the highest cumulative loss that is left out of the weights.
    {{rest}}

    Attributes
    ----------
    estimators_ : list
        The voters in order; the first is plain ERM: w = p.
    estimator_weights_ : ndarray
        1/T each; `predict_distribution` gives the shares of the votes.
    {{rest}}

    Warns
    -----
    BoundNotMetWarning
        When the learner did not reach ½ − γ in some round.

    See Also
    --------
    WorstClassBoostClassifier : The same game over classes.

    References
    ----------
    Hazan: Introduction to Online Convex Optimization, 2022, chapter 11.
    Saito et al.: Bounding the Worst-class Error: A Boosting Approach, 2024 (as a baseline).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import OCOBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = OCOBoostClassifier(gamma=0.3, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    gamma: float | str = "auto"
    n_estimators: int | str = "auto"
    eta: float | str = "theory"
    outlier_fraction: float = 0.0
    class_weight: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    @documented
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Play the game and let the hypotheses vote.

        Parameters
        ----------
        {{X}}
        {{y … fit_params}}

        Returns
        -------
        self

        Raises
        ------
        {{fit_raises}}
        """
        self._fit(X, y, sample_weight, None, ValidationRows(), fit_params)
        stop, planned = self.trace_.stop, self._most_rounds()
        if stop is not None and stop.kind is StopKind.LEARNER:
            warn_user(
                f"{stop.words}; {self.n_iter_} of {planned} rounds vote, without a bound", BoundNotMetWarning
            )
        return self

    def _default_learner(self) -> Any:
        return HistTreeClassifier(n_jobs=self.n_jobs)

    @property
    def _edge(self) -> float:
        return GAMMA if isinstance(self.gamma, str) else float(self.gamma)

    def _most_rounds(self, units: Units | None = None) -> int:
        if isinstance(self.n_estimators, str):
            return theory_rounds((self.game_.units if units is None else units).count, self._edge)
        return int(self.n_estimators)

    def _tied_to_rounds(self) -> str:
        return tied_by(self.eta)

    def _validation(self) -> Any:
        return "train"

    def _schedule(self, plan: Plan) -> Schedule:
        return Schedule(self._most_rounds(plan.units), Stopping(max_time=self.max_time), watched=False)

    def _plan(self, problem: Problem, scheme: Scheme, seed: int) -> Plan:
        units = Units.samples(problem.weight)
        rule = Hedge(eta_for(self.eta, units.count, self._most_rounds(units)), self.outlier_fraction)
        fraction = self.outlier_fraction
        vote = Mixture(WorstRow(), problem.n_classes, even=True, outlier_fraction=fraction)
        return Plan(units, rule, vote, Demand(0.5 - self._edge, required=True))

    def _bounds(self) -> Bounds:
        return hedge_game_bounds(self.game_, self.combiner_.alpha, self.eta, self._most_rounds())
