"""OCO boosting: Hedge over rows against a weak learner, and the majority vote."""

from __future__ import annotations

from typing import Any, ClassVar

from tailboost.boosting.boosting import Boosting, Demand, Schedule, Scheme
from tailboost.boosting.game import StopKind, Stopping, Units
from tailboost.boosting.players.hedge import Hedge, eta_for, theory_rounds
from tailboost.boosting.training_set import TrainingSet
from tailboost.classifiers.base import MixtureClassifier
from tailboost.classifiers.input import ROUNDS_OR_AUTO, LabelledRows, with_parameters
from tailboost.core.array_types import Groups
from tailboost.core.exceptions import BoundNotMetWarning
from tailboost.core.warn import warn_user
from tailboost.guarantees.game_bounds import edge_bound, hedge_game_bounds
from tailboost.learners import HistTreeClassifier
from tailboost.selection.mixture import Mixture
from tailboost.selection.problem import Problem, WorstRow
from tailboost.selection.summary import Bounds

# γ for gamma="auto".
GAMMA = 0.1


@with_parameters
class OCOBoostClassifier(MixtureClassifier):
    """OCO boosting: Hedge weighs the rows for a weak learner with edge γ, and the majority vote predicts.

    If every round has a weighted error of at most ½ − γ, then after ``T = ⌈2 ln n/γ²⌉`` rounds more than half
    of the hypotheses are right on every training row, and so is their majority vote.

    **Cost.** A fit trains T models: with the default γ = 0.1 about 200 ln n, so 1,037 trees for 178 rows
    and 1,269 for 569 rows. The number falls with 1/γ²: γ = 0.3 has a ninth of it. A strong learner meets
    γ = 0.3 or more.

    Further attributes are those of `CVaRBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. A learner that can grow, such as a
        forest, is grown until its weighted error is at most ½ − γ. None is `HistTreeClassifier`, one binned
        tree of depth 5.
    gamma : float in (0, 0.5] or "auto", default="auto"
        Edge γ of the weak-learning condition; "auto" is 0.1. The game ends if the weighted error of
        the learner exceeds ½ − γ.
    n_estimators : int or "auto", default="auto"
        Number of rounds T. "auto" is ``⌈2 ln n/γ²⌉`` for n rows. For unequal weights, n is their sum divided
        by the smallest.
    eta : float or "theory", default="theory"
        Learning rate of Hedge. "theory" is √(8 ln n/T).
    outlier_fraction, class_weight, exact_weights, max_time, checkpoint_dir, n_jobs : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.
    estimators_ : list
        The voters in order, the first fitted with the sample weights alone.
    estimator_weights_ : ndarray of shape (T,)
        1/T for each voter. `predict_distribution` returns the fraction of votes for each label.

    Warns
    -----
    BoundNotMetWarning
        If the weighted error of the learner exceeded ½ − γ in a round.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"n_estimators": ROUNDS_OR_AUTO}

    gamma: float | str = "auto"
    n_estimators: int | str = "auto"
    eta: float | str = "theory"
    outlier_fraction: float = 0.0

    def _check_arguments(self, groups: Groups, validation: LabelledRows) -> None:
        if validation.any_given:
            raise ValueError("X_val: OCO boosting takes no validation rows, because it selects nothing")

    def _warn(self) -> None:
        super()._warn()
        stop, planned = self.trace_.stop, self._most_rounds()
        if stop is not None and stop.kind is StopKind.LEARNER:
            warn_user(
                f"{stop.text}; {self.n_iter_} of {planned} rounds vote, without a bound", BoundNotMetWarning
            )

    def _default_learner(self) -> Any:
        return HistTreeClassifier(n_jobs=self.n_jobs)

    @property
    def _edge(self) -> float:
        return GAMMA if isinstance(self.gamma, str) else float(self.gamma)

    def _most_rounds(self, units: Units | None = None) -> int:
        if isinstance(self.n_estimators, str):
            return theory_rounds((self.game_.units if units is None else units).count, self._edge)
        return int(self.n_estimators)

    def _cv(self) -> Any:
        return "train"

    def _boosting(self, training: TrainingSet, scheme: Scheme, seed: int) -> Boosting:
        units = Units.samples(training.weight)
        rounds = self._most_rounds(units)
        rule = Hedge(eta_for(self.eta, units.count, rounds), self.outlier_fraction)
        vote = Mixture(
            Problem(WorstRow(), randomized=True),
            training.n_classes,
            grouping=self._grouping,
            even=True,
            outlier_fraction=self.outlier_fraction,
        )
        schedule = Schedule(rounds, Stopping(max_time=self.max_time), needs_objective=False)
        return Boosting(units, rule, vote, schedule, Demand(0.5 - self._edge, required=True))

    def _bounds(self) -> Bounds:
        planned = self._most_rounds()
        promised, observed = hedge_game_bounds(self.game_, self.combiner_.alpha, self.eta, planned)
        if self.eta != "theory" or self.outlier_fraction > 0:
            return promised, observed
        words = "below ½ the vote is right on every training row"
        share = edge_bound(self.game_, self._edge, planned, "largest share of wrong voters on a row", words)
        return (*promised, share), observed

    @property
    def _own_symbols(self) -> dict[str, str]:
        return {"γ": f"edge of the learner, {self._edge:.4g}"}
