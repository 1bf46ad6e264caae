"""Bounding the worst-class error: Saito, Matsuo, Uchida and Suehiro, 2024; and two games beside it.

The units are classes. Hedge weighs them, and a hypothesis has the loss 1 on a class on which it errs too
often, (6). If each round satisfies the weak-learning condition (7), more than half of the voters are good on
each class.
"""

import copy
import math
from dataclasses import KW_ONLY, replace
from typing import Any, Self

import numpy as np
from sklearn.metrics import recall_score

from tailboost.boosting.cvar import HedgeClassifier
from tailboost.boosting.game import Bound, Units
from tailboost.boosting.learning import EDGE, ROUNDS_OR_AUTO, RoundLearner
from tailboost.core import (
    Array,
    Column,
    Floats,
    Table,
    check_indexes,
    check_length,
    coded,
    fitting_apart,
    label_column,
    n_rows_of,
    parameters,
    streamed,
)
from tailboost.core.ranges import SHARE, check_number
from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.solvers import minimize_cvar_mixture


@parameters
class Voting(HedgeClassifier):
    """Hedge over classes or rows, and one vote for each hypothesis that meets w·ℓ ≤ ½ − γ."""

    _: KW_ONLY
    gamma: Any = 0.3
    n_estimators: int | str = "auto"
    whole: bool = True

    _default_learner = HistBoostClassifier(n_estimators=20, max_depth=3)
    _parameter_constraints = ROUNDS_OR_AUTO

    def fit(self, X: Table, y: Column = None, sample_weight: Column = None) -> Self:
        """Play the game.

        Parameters
        ----------
        X, y, sample_weight
            Training rows, labels of any type, and non-negative weights.

        Raises
        ------
        ValueError
            If the parameter p gives γ ≤ 0.
        """
        with fitting_apart(self) as clf:
            clf.gamma_ = clf.gamma
            learn = clf._against_units(clf._open(X, y, sample_weight))
            clf._run(replace(learn, target=0.5 - clf.gamma_, grows=not clf.whole))
        return self

    def _against_units(self, learn: RoundLearner) -> RoundLearner:
        """Return the learner against the units, which are the rows."""
        return learn

    @property
    def bounds_(self) -> list[Bound]:
        """Bounds on the share of voters with loss 1 on a unit; the vote of first voters has none."""
        of_all = np.array_equal(self.estimator_weights_, self._mix(self.losses_))
        return super().bounds_ if of_all else []


@parameters
class WorstClassBoostClassifier(Voting):
    """Algorithm 1: Hedge over the classes, and a majority vote.

    The theorem is about the voters: three voters that err on 40 % of a class each can be wrong on 60 % of it
    together. For a limit on the error of each class on new rows, see `tailboost.tune` and
    `tailboost.calibrate`.

    Parameters
    ----------
    estimator : classifier or str, optional
        The learner, by default 20 boosted trees of depth 3.
    theta : float in [0, 1), default=0.5
        θ. A class has the loss 1 if its error is at least 1 − θ, (6).
    gamma : float in (0, 0.5] or "auto", default="auto"
        γ of (7); "auto" is (16), ⌊pK⌋/K − ½ − .0005. γ = ½ with one round is 0.5-DNN.
    p : float in (0, 1], default=1.0
        Share of the classes that the first hypothesis must satisfy, for ``gamma="auto"``. The paper takes .8
        for ten classes; two classes need p = 1.
    n_estimators : int or "auto", default="auto"
        T; "auto" is ⌈2 ln K/γ²⌉.
    eta : float or "theory", default="theory"
        η; "theory" is √(8 ln K/T).
    whole : bool, default=True
        Whether a learner that can grow, such as a forest, gets its whole size in each round, and rounds that
        repeat the one before are not counted: it votes for them. False is the paper: a learner grows until
        w·ℓ ≤ ½ − γ, and all T rounds count.
    random_state : int, RandomState or None
        Seed of the learners.

    Attributes
    ----------
    gamma_, eta_, T_
        γ, η, and the planned number of rounds.
    Further attributes: see `MixtureClassifier`.

    Warns
    -----
    BoundNotMetWarning
        If a hypothesis missed (7), which ends the game.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import WorstClassBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = WorstClassBoostClassifier(gamma=0.3, random_state=0).fit(X, y)
    >>> clf.predict(X[:1])
    array([0])
    """

    _: KW_ONLY
    theta: float = 0.5
    gamma: Any = "auto"
    p: float = 1.0

    def _against_units(self, learn: RoundLearner) -> RoundLearner:
        """Set the γ of "auto"; return the learner against the classes."""
        K = len(self.classes_)
        if self.gamma == "auto":
            self.gamma_ = math.floor(self.p * K + 1e-9) / K - 0.5 - 5e-4
        if self.gamma_ <= 0:
            raise ValueError(f"p={self.p} gives γ = {self.gamma_:.4g} ≤ 0: give a larger p")
        classes = Units.groups(learn.rows.y, learn.rows.weight)

        def too_large(losses: Array) -> Array:  # (6)
            return classes.means(losses).round(9) >= round(1 - self.theta, 9)

        return replace(learn, units=classes, loss=too_large)


def first_voters(
    clf: WorstClassBoostClassifier, X_val: Table, y_val: Column
) -> WorstClassBoostClassifier:
    """Return the vote of the first T* rounds, as in the published code of Saito et al. 2024.

    T* is the number of rounds with the least worst-class error on validation rows, of equal errors the last;
    the text lets all T rounds vote. Nothing is trained, and the given classifier is unchanged.

    Parameters
    ----------
    clf : WorstClassBoostClassifier
        A fitted classifier.
    X_val, y_val : array-like
        Validation rows and their labels, with rows of every class.
    """
    check_indexes(X_val=X_val, y_val=y_val)
    y_val = label_column(y_val, "y_val", target=True)
    absent = np.setdiff1d(clf.classes_, y_val)
    if absent.size:
        raise ValueError(f"y_val: no row of class {', '.join(map(str, absent))}")
    least_recall = [
        recall_score(y_val, answers, labels=clf.classes_, average=None).min()
        for answers in clf.staged_predict(X_val)
    ]
    n_voters = clf.n_iter_ - np.argmax(least_recall[::-1])
    votes = np.arange(clf.n_iter_) < n_voters
    return copy.copy(clf)._set_weights(votes / n_voters)


def margin_bound(y: Column, shares: Floats, complexity: float, delta: float = 0.05) -> float:
    """Return the bound of Theorem 2 and Corollary 3 on the worst-class error of a vote, as errata correct it.

    For all margins θ in (0, 1] at once (Koltchinskii and Panchenko 2002): the share of a class with a margin
    below θ, 4 C/(θ√n_k), √(log log₂(2/θ)/n_k), and √(log(2K/δ)/(2 n_k)) with a union over the K classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of the training rows.
    shares : ndarray of shape (n,)
        Fraction of the voters that answer the label of the row.
    complexity : float
        C, where C/√n bounds the Rademacher complexity of the voters, as √(2 log N) for N fixed ones.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.
    """
    delta = check_number(delta, "delta", SHARE)
    classes, index = coded(y, "y", target=True)
    bounds = []
    for k in range(len(classes)):
        margins = np.sort(2 * shares[index == k].clip(max=1.0) - 1)
        n_k = len(margins)
        theta = np.append(margins[margins > 0], 1.0)  # the least is at a margin, or 1
        below = np.searchsorted(margins, theta) / n_k
        slack = 4 * complexity / (theta * math.sqrt(n_k))
        slack += np.sqrt(np.log(np.log2(2 / theta)) / n_k)
        chance = math.sqrt(math.log(2 * len(classes) / delta) / (2 * n_k))
        bounds.append(float((below + slack).min()) + chance)
    return min(1.0, max(bounds))


class OCOBoostClassifier(Voting):
    """The baseline of Saito et al. 2024 (Hazan 2022, chapter 11): Hedge over the rows for an edge γ, a vote.

    With ⌈2 ln n/γ²⌉ rounds that meet ½ − γ, more than half of the hypotheses are right on every training row.

    Parameters
    ----------
    gamma : float in (0, 0.5], default=0.3
        γ: the game ends if the weighted error exceeds ½ − γ.
    estimator, n_estimators, eta, whole, random_state
        As in `WorstClassBoostClassifier`, with the n rows in place of the K classes, and by default one tree.
    """

    _default_learner = HistTreeClassifier()
    _parameter_constraints = {**ROUNDS_OR_AUTO, "gamma": [EDGE]}  # noqa: RUF012  (scikit-learn reads it)


@parameters
class GroupDROBoostClassifier(HedgeClassifier):
    """Group DRO as boosting, Zhai et al. 2021, section 3.4: Hedge over groups with their errors as losses.

    Parameters
    ----------
    n_estimators : int, default=9
        T. On 12 tables with groups or classes (36 splits) the worst group's error on test rows is .003 ± .011
        more than with 30 rounds, and the overall error .001 ± .003 more.
    eta : float or "theory", default=1.0
        η; "theory" is √(8 log m/T) for m groups.
    combine : {"average", "mixture"}, default="average"
        The average of all rounds, as in group DRO, or λ of the least largest error of a group.
    estimator, random_state
        As in `WorstClassBoostClassifier`.

    Attributes
    ----------
    groups_ : ndarray of shape (m,)
        The groups.
    Further attributes: see `MixtureClassifier`.
    """

    _: KW_ONLY
    n_estimators: int = 9
    eta: float | str = 1.0
    combine: str = "average"

    _default_learner = Voting._default_learner

    def fit(
        self, X: Table, y: Column = None, sample_weight: Column = None, *, groups: Column = None
    ) -> Self:
        """Play the game over groups.

        Parameters
        ----------
        X, y, sample_weight
            Training rows, labels of any type, and non-negative weights.
        groups : array-like of shape (n,), optional
            Group of each row; by default its class.
        """
        X, y = streamed(X, y)
        with fitting_apart(self) as clf:
            learn = clf._open(X, y, sample_weight)
            names = clf.classes_[learn.rows.y]
            if groups is not None:
                check_indexes(X=X, y=y, groups=groups)
                check_length(groups, "groups", n_rows_of(y))
                names = label_column(groups, "groups")[learn.rows.used]
            clf.groups_, index = np.unique(names, return_inverse=True)
            units = Units.groups(index, learn.rows.weight)
            clf._run(replace(learn, units=units, loss=units.means))
        return self

    def _mix(self, losses: Array) -> Floats:
        if self.combine == "average":
            return super()._mix(losses)
        return minimize_cvar_mixture(
            self.game_losses_[: len(losses)], 1 / len(self.groups_)
        ).mixture
