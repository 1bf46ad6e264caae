"""Games over classes, groups or cells: those of Saito et al. 2024, with limits, and group DRO as boosting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context

from tailboost.boosting.game import (
    DECIMALS,
    Demand,
    Game,
    Request,
    RoundCandidate,
    Schedule,
    SubgroupStakes,
    TargetStakes,
    Units,
    round_seed,
)
from tailboost.boosting.learner import CrossFitLearner, Whole
from tailboost.boosting.players.hedge import Hedge, eta_for, theory_rounds
from tailboost.boosting.pool import JudgedPool
from tailboost.boosting.subgroups import (
    MAX_ERRORS,
    SHRINKAGE,
    NamedSubgroups,
    Pools,
    allowed_errors,
    edge_from_share,
    is_kept,
    pooled_subgroups,
)
from tailboost.classifiers.base import MixtureClassifier, learner_of
from tailboost.classifiers.boosted_selection import SUBGROUPS_WARNED, counts_of, missed_words
from tailboost.classifiers.boosting_fit import (
    BoostingFit,
    Cautions,
    fit_classifier,
    set_results,
)
from tailboost.classifiers.input import (
    CONSTRAINTS,
    ROUNDS_OR_AUTO,
    with_parameters,
)
from tailboost.classifiers.judged import JudgedSubgroups
from tailboost.core.array_types import Column, Floats, Groups, Stated, Table
from tailboost.core.checks import unpack
from tailboost.core.constraints import Constraints, OneOf
from tailboost.core.exceptions import BoundNotMetWarning, SmallSubgroupsWarning, warn_user
from tailboost.core.spelling import joined
from tailboost.guarantees.game_bounds import edge_bound, hedge_game_bounds
from tailboost.learners import HistBoostClassifier
from tailboost.rates import Largest, Limit, Objective, Rate, error, largest
from tailboost.rows.given import Given
from tailboost.rows.judged import judged
from tailboost.rows.rows import Rows, TrainingSet
from tailboost.rows.subgroups import refuse_many_numbers, unit_name
from tailboost.selection.mixture import Counts, Mixture
from tailboost.selection.problem import Problem
from tailboost.selection.progress import LargestError, LargestErrorOfVote
from tailboost.selection.rate_table import RateTable
from tailboost.selection.summary import Bound, Bounds

# Size of the default learner. On 12 tables of at most 1,500 rows (45 splits) 20 trees of depth 3 had, beside
# ten, an overall error lower by .0135 ± .0051 and a largest class error that differs by .0017 ± .0096, in 1.6
# times the seconds. One tree of depth 5 had a largest class error higher by .089 ± .022.
TREES_OF_ROUND = 20
DEPTH = 3
# Maximum number of small subgroups in a warning.
MOST_COUNTED = 20
# Default number of rounds of the error game.
ERROR_ROUNDS = 30
# Rounds without a decrease of the objective after which the game ends, for n_iter_no_change="auto".
IDLE_ROUNDS_ALLOWED = 10
# Note on the bound on voters in the game of indicators.
THEOREM_1 = (
    "max_error = 1 − θ; Theorem 1 of Saito et al. 2024 without its last step, which can fail"
)
# Values with a smaller difference are equal after rounding to DECIMALS.
EQUAL_VALUES = 0.5 * 10.0**-DECIMALS


@dataclass(frozen=True)
class GameTerms:
    """Which game over subgroups is played: decided once, before anything is fitted.

    Attributes
    ----------
    edge : float
        γ, also in the error game.
    indicator : bool
        Whether losses are indicators.
    votes : bool
        Whether the hypotheses vote.
    rounds : int
        Largest number of rounds.
    """

    edge: float
    indicator: bool
    votes: bool
    rounds: int

    @classmethod
    def of(cls, clf: WorstClassBoostClassifier) -> Self:
        """Return the terms by the parameters of a classifier and the number of its pools of subgroups.

        A stated γ means the published game, unless mixture weights are needed.
        """
        n_pools = clf._pools.count
        if clf.gamma == "auto":
            edge = edge_from_share(clf.q, n_pools)
        else:
            edge = float(clf.gamma)
        # The published game has a vote, whose members have equal weights.
        needs_weights = clf.error_budget is not None or not clf.randomized
        indicator = clf.class_loss == "indicator"
        if clf.class_loss == "auto":
            indicator = clf.gamma != "auto" and edge > 0 and not needs_weights
        votes = clf.combine == "vote"
        if clf.combine == "auto":
            votes = indicator and not needs_weights
        rounds = clf.n_estimators
        if rounds == "auto":
            rounds = ERROR_ROUNDS
            if indicator:
                rounds = theory_rounds(float(n_pools), edge)
        return cls(edge=edge, indicator=indicator, votes=votes, rounds=int(rounds))

    def demand(self, stakes: TargetStakes, *, limited: bool) -> Demand:
        """Return the weighted loss at which a learner stops growing.

        ``limited`` is True if ``max_error`` is stated.
        """
        if self.indicator:
            without = "class_loss='error' is a game without it"
            return Demand(0.5 - self.edge, required=True, without=without)
        if not limited:  # a loss of 0 ends the growth
            return Demand(0.0)
        # Σ_k w_k R_k ≤ max_error − √(ln K/(2T)), in the scale of the losses. The root is the regret of Hedge.
        allowed = float(stakes.allowed.max() / (1.0 + stakes.penalty.max()))
        K = float(len(stakes.allowed))
        regret = math.sqrt(math.log(K) / (2 * self.rounds))
        return Demand(max(0.0, allowed - regret))

    def schedule(self, clf: WorstClassBoostClassifier, stakes: TargetStakes) -> Schedule:
        """Return when the game ends: by rounds, or an objective that no longer falls.

        Parameters
        ----------
        clf : WorstClassBoostClassifier
            Its parameters say when to stop.
        stakes : TargetStakes
            The subgroups with their allowed errors.
        """
        patience: Any = clf.n_iter_no_change
        if patience == "auto":
            patience = IDLE_ROUNDS_ALLOWED
        least_objective = None
        if patience is not None:
            least_objective = EQUAL_VALUES
            if stakes.differ:  # the objective is then the largest error minus its limit
                least_objective -= float(stakes.allowed.max())
        return Schedule(
            self.rounds,
            patience=patience,
            tol=clf.tol,
            max_time=clf.max_time,
            least=least_objective,
        )


@with_parameters
class WorstClassBoostClassifier(MixtureClassifier):
    """Boosting that minimises the largest error of a class, group or cell, or limits each error.

    The game has at most ``n_estimators`` rounds. In each round Hedge weighs the subgroups: classes, groups or
    cells (class × group). The learner is fitted to these weights, and grows only until its weighted loss is
    small enough on out-of-fold or held-out rows. For thresholds on the probabilities of models, use
    `RobustMixtureClassifier`.

    There are two games:

    * ``class_loss="indicator"`` [1]_: the loss of a class is 1 if its error is at least ``max_error`` (1 − θ
      in the paper). The learner must satisfy ``Σ_k w_k ℓ_k ≤ ½ − γ`` in every round. Then each class has an
      error below ``max_error`` for more than half of the voters. The theorem does not bound the error of
      their majority vote: three voters that err on 40 % of a class each can be wrong on 60 % of it together.
      `subgroup_errors_` and `limits_met_` report the measured errors.
    * ``class_loss="error"``: the loss of a class is its error, also for two classes and for groups. The
      mixture weights λ minimise the largest error on the selection data. The bound is about the randomised
      rule with the label distribution `predict_distribution`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is a `HistBoostClassifier` of 20 trees
        of depth 3: on 12 tables, 20 trees had a lower overall error than ten, in 1.6 times the seconds. A
        learner that can grow (`HistBoostClassifier`, forests, multi-layer perceptrons, SGD, …) grows only as
        far as the game needs.
    max_error : float in (0, 1], dict or "auto", default="auto"
        Largest error allowed to each subgroup on the selection data; in the indicator game the least error
        that is not allowed. Among the combinations that satisfy it,
        the one of least overall error is selected. If none does, violations are minimised and a warning names
        the subgroups. A dict has a limit for each class, group or cell (a cell also by its class), and one
        for the rest under the key None: ``{1: .05, None: .2}``. "auto" sets no limit and minimises the
        largest error; ``max_error_`` is then the smallest of .05, .1, …, .9 that the balanced model meets
        (indicator game) or `predict` reaches (error game).
    gamma : float in (0, 0.5] or "auto", default="auto"
        γ of the weak-learning condition in the indicator game. "auto" is ``⌊qK⌋/K − ½ − .0005``.
    q : float in (0, 1], default=0.8
        Fraction of the classes that must meet their limit in round 1, for ``gamma="auto"``.
    n_estimators : int or "auto", default="auto"
        Largest number of rounds. "auto" is 30 in the error game and T = ``⌈2 ln K/γ²⌉`` in the indicator
        game. The theorem needs all T rounds; `n_iter_no_change` ends most games earlier.
    eta : float or "theory", default="theory"
        Learning rate of Hedge. "theory" is √(8 ln K/T).
    class_loss : {"auto", "indicator", "error"}, default="auto"
        The game. "indicator" is the published game. "auto" is "indicator" if ``gamma`` is given, γ > 0 and
        there is no ``error_budget``, else "error".
    combine : {"auto", "vote", "mixture"}, default="auto"
        "vote" is the majority vote of the first T* rounds. T* has the least largest error on the selection
        data or, with ``max_error`` in the error game, the least overall error within the limits. "mixture" is
        the optimal λ. "auto" is "vote" in the indicator game without ``error_budget``, else "mixture".
    randomized : bool, default=True
        Whether several hypotheses may have mixture weight. False selects the best single hypothesis. The
        bound is then about `predict` itself, and ``gap_`` is the gain of a mixture. `reweight` for a CVaR
        always mixes.
    subgroups : {"auto", "class", "group", "cell"}, default="auto"
        The subgroups. "cell" is class × group. "auto" is "group" if `fit` gets groups, else "class".
    n_iter_no_change : int, None or "auto", default="auto"
        The fit stops after this number of rounds in which the largest error of the combination fell by at
        most ``tol``. None plays all rounds. "auto" is 10.
    error_budget : float in [0, 1] or None, default=None
        Largest overall error less that of the most accurate hypothesis, on the selection data: .02 allows .22
        if the least is .20.
        None sets no limit. `tradeoff` shows all budgets without another fit. A vote has no budget.
    min_subgroup_rows : int, default=10
        Groups and cells with fewer distinct rows are small. Small cells of one class share a weight in the
        game, and so do small groups of one column. Classes never share a weight. The number of rows is Kish's
        effective size. A warning names the small subgroups. Reports still list each subgroup.
    shrinkage : float ≥ 0, default=5.0
        Pseudo-rows per subgroup. The weight player uses errors that are shrunk towards their mean. The mean
        has weight s/(n + s) for n rows and s pseudo-rows. Selection and reports use the measured errors. The
        indicator game does not shrink.
    cv : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    include_constants : bool, default=True
        Whether the K constant classifiers may enter the mixture. A vote has no constants.
    tol, class_weight, exact_weights, max_time, n_jobs, random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, n_iter_, trace_, gap_, objective_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.
    max_error_ : ndarray of shape (m,)
        Largest error allowed to each subgroup.
    gamma_ : float or None
        γ; None in the error game.
    eta_ : float
        Learning rate of Hedge.
    rates_ : RateTable
        Rates of the objective and the limits by subgroup, of `predict` on the selection data.
    subgroup_errors_ : dict
        Error of `predict` on each subgroup, on the selection data. Its keys are classes, groups, or
        (class, group) cells; a group of a table is a (column, value) pair. NaN without rows, or if no model
        that is judged on the rows knows their class.
    limits_met_ : bool or None
        Whether ``max_error`` is certified, or without a certificate satisfied by `predict` on the selection
        data; None for "auto". In the indicator game an error equal to ``max_error`` does not satisfy it.
    expected_subgroup_errors_ : ndarray of shape (m,)
        Expected error of the randomised rule on each subgroup, on the selection data.
        ``summary_.errors.of_rule("randomised")`` has its 95 % intervals.
    subgroup_intervals_ : ndarray of shape (m, 2)
        95 % intervals for the errors of `predict` on new rows of the same distribution: Clopper–Pearson
        intervals with effective numbers of rows. If hypotheses are refitted on all rows, 1.96 standard
        deviations of a refit, at least .015, are added in quadrature. On 35 tables .96 of 196 class errors on
        test rows were inside. NaN with fewer than 10 rows, and if the hypotheses were fitted on
        the selection data or refitted after one part was held out. `tailboost.certify` gives a guarantee.
    subgroup_pools_ : ndarray of shape (m,)
        Number of the column of ``trace_.weights`` for each subgroup. Small subgroups share a column.
    estimators_ : list
        The hypotheses in order, the first with equal weight on all subgroups; for a mixture also plain ERM
        and the constants.
    estimator_weights_ : ndarray of shape (n_members,)
        Mixture weight of each hypothesis. For a vote 1/T* for the first T* rounds; with
        ``cv="train"`` all rounds vote.

    Warns
    -----
    BoundNotMetWarning
        Names the subgroups above their limit, and the subgroups without rows.

    See Also
    --------
    RobustMixtureClassifier : Thresholds on the probabilities of any models, for any rates.
    GroupDROBoostClassifier : The same game over groups, without limits.

    References
    ----------
    .. [1] Saito et al.: Bounding the Worst-class Error: A Boosting Approach, 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import WorstClassBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = WorstClassBoostClassifier("tree", max_error={0: 0.1, None: 0.3}, random_state=0)
    >>> clf.fit(X, y).max_error_
    array([0.1, 0.3, 0.3])
    """

    _judged_by = JudgedSubgroups
    _parameter_constraints: ClassVar[Constraints] = {
        "n_estimators": ROUNDS_OR_AUTO,
        "combine": [OneOf("auto", "vote", "mixture")],
        "n_iter_no_change": [*CONSTRAINTS["n_iter_no_change"], OneOf("auto")],
    }

    max_error: Stated = "auto"
    gamma: float | str = "auto"
    q: float = 0.8
    n_estimators: int | str = "auto"
    eta: float | str = "theory"
    class_loss: str = "auto"
    combine: str = "auto"
    randomized: bool = True
    subgroups: str = "auto"
    n_iter_no_change: int | str | None = "auto"
    error_budget: float | None = None
    min_subgroup_rows: int = 10
    shrinkage: float = SHRINKAGE
    cv: Any = "auto"
    include_constants: bool = True
    tol: float = 1e-3

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Table,
        y: Column = None,
        *,
        sample_weight: Column = None,
        groups: Groups = None,
        X_val: Table = None,
        y_val: Column = None,
        groups_val: Groups = None,
        sample_weight_val: Column = None,
        **fit_params: object,
    ) -> Self:
        """Fit the hypotheses round by round and combine them.

        Parameters
        ----------
        X, y, sample_weight, **fit_params : optional
            As in `CVaRBoostClassifier.fit`.
        groups : array-like of shape (n,) or table of n rows, optional
            Group of each row. In a table (data frame, dict of columns, array of several columns) each value
            of each column is a group, named (column, value). Without groups, the subgroups are the classes.
        X_val, y_val, groups_val, sample_weight_val : optional
            Held-out rows on which mixture weights are selected; they need ``cv="auto"``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described. A fit that raises leaves the classifier as it was.
        """
        arguments = Given(*unpack(X, y), groups, sample_weight)
        validation = Given(*unpack(X_val, y_val), groups_val, sample_weight_val)
        return fit_classifier(self, arguments, validation, fit_params)

    def _play(self, fit: BoostingFit) -> Cautions:
        """Play the game over subgroups, and select a vote or a mixture; return what to warn of.

        A vote is of boosted models alone. A mixture may contain a model without boosting, and constants.
        """
        refuse_contradictions(self, fit.arguments.groups)
        training = fit.read()
        terms = stated_terms(self, training)
        learner = fit.open(training, self.cv, known_classes=True)
        stakes = target_stakes(self, training, learner.judged, indicator=terms.indicator)
        if terms.indicator and self.max_error == "auto":
            seed_of_first_round = round_seed(fit.entropy, 0)
            stakes = with_least_allowed(
                stakes, learner, seed_of_first_round, largest_loss=0.5 - terms.edge
            )
        mixture = mixture_before_rounds(self, terms, training, learner, fit.entropy)
        game = Game(
            stakes,
            Hedge(self.eta_),
            learner,
            terms.schedule(self, stakes),
            progress=progress_of(mixture),
            demand=terms.demand(stakes, limited=self.max_error != "auto"),
        )
        position = fit.play(game, mixture.pool, training)
        mixture = replace(mixture, pool=position.pool)
        if terms.votes:
            mixture = replace(mixture, majority=position.memory)
        set_results(self, position, mixture)
        return [*small_subgroups(self._named, self._pools), *missed_targets(self)]

    def _learner(self) -> Any:
        return learner_of(
            self, HistBoostClassifier, n_estimators=TREES_OF_ROUND, max_depth=DEPTH
        )

    # -- after the game ------------------------------------------------------------------------------

    @property
    def max_error_(self) -> Floats:
        """Largest error allowed to each subgroup; for "auto" the least one that `predict` satisfies."""
        return judged(self).allowed_errors

    def _bounds(self) -> tuple[Bounds, dict[str, str]]:
        """Return the promised and observed bounds on the loss of voters, and their symbols.

        With indicator losses there are symbols, and with ``eta="theory"`` Theorem 1 is promised too. With
        ``max_error`` the observed ones contain the errors of `predict` with their limits. After `reweight`
        for other subgroups they do not, because the limits are on the subgroups of the fit.
        """
        terms = GameTerms.of(self)
        stakes = self.game_.stakes
        kind = self._named.kind
        promised, observed = hedge_game_bounds(
            self.game_, alpha=None, eta=self.eta, planned=terms.rounds
        )
        promised = about_voters(promised, stakes, kind)
        observed = about_voters(observed, stakes, kind)

        symbols = {}
        if stakes.indicator:
            symbols = {"γ": f"edge of the learner, {terms.edge:.4g}", "θ": "1 − max_error"}
            if self.eta == "theory":
                vote_bound = edge_bound(
                    self.game_,
                    gamma=terms.edge,
                    planned=terms.rounds,
                    name=f"largest share of voters with an error of max_error or more on a {kind}",
                    note=THEOREM_1,
                )
                promised = (*promised, vote_bound)

        judged_clf = judged(self)
        if self.max_error != "auto" and judged_clf.own_subgroups:
            limit_on_errors = target_bound(
                judged_clf.errors_table, self.max_error_, strict=stakes.indicator
            )
            observed = (*observed, limit_on_errors)
        return (promised, observed), symbols


@with_parameters
class GroupDROBoostClassifier(MixtureClassifier):
    """Boosting that minimises the largest error of a group.

    Hedge weighs the groups, and the learner fits a hypothesis to these weights in each round. The mixture
    weights λ minimise the largest group error on the selection data. Round 1 weighs all groups equally. The
    mixture may also contain a hypothesis that is fitted with the sample weights alone, and the constants.
    Without groups, `fit` warns, and the classes are the groups. The bounds of `summary_` are about the
    randomised rule with the label distribution `predict_distribution`. For thresholds on the probabilities of
    models, use `RobustMixtureClassifier`.

    The published algorithm is `tailboost.published.group_dro_boost`: ``combine="average"``, ``cv="train"``,
    ``shrinkage=0``, ``min_subgroup_rows=1``, ``n_iter_no_change=None``.

    Further attributes: see `WorstClassBoostClassifier`.

    Parameters
    ----------
    estimator : classifier or str, optional
        Base learner or its name, see `tailboost.learners.named`. None is a `HistBoostClassifier` of 20 trees
        of depth 3: on 12 tables, 20 trees had a lower overall error than ten, in 1.6 times the seconds.
    n_estimators : int, default=30
        Largest number of rounds. On bank marketing the objective still fell after ten rounds.
    eta : float or "theory", default=1.0
        Learning rate of Hedge. "theory" is √(8 log m / T) for m groups.
    combine : {"mixture", "average"}, default="mixture"
        The mixture with the smallest worst-group error, or the even mixture of all rounds as in group DRO.
    error_budget : float in [0, 1] or None, default=None
        Largest overall error less that of the most accurate hypothesis, on the selection data: .02 allows .22
        if the least is .20.
        None sets no limit. `tradeoff` shows all budgets without another fit; `reweight` changes the budget.
    min_subgroup_rows : int, default=10
        Groups and cells with fewer distinct rows are small. Small cells of one class share a weight in the
        game, and so do small groups of one column. Classes never share a weight. The number of rows is Kish's
        effective size. A warning names the small subgroups. Reports still list each subgroup.
    shrinkage : float ≥ 0, default=5.0
        Pseudo-rows per subgroup. The weight player uses errors that are shrunk towards their mean. The mean
        has weight s/(n + s) for n rows and s pseudo-rows. Selection and reports use the measured errors.
    cv : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    include_constants : bool, default=True
        Whether the K constant classifiers may enter the mixture. Their even mixture is a random guess.
    n_iter_no_change, tol, class_weight, exact_weights, max_time, n_jobs : optional
        As in `CVaRBoostClassifier`, with the same defaults.
    random_state, verbose : optional
        As in `CVaRBoostClassifier`, with the same defaults.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, summary_, n_features_in_, feature_names_in_
        As in `CVaRBoostClassifier`.
    groups_ : ndarray of shape (m,)
        The groups; (column, value) pairs for a table; the classes if no groups were given.
    subgroup_errors_, subgroup_pools_, subgroup_intervals_
        As in `WorstClassBoostClassifier`.
    expected_subgroup_errors_
        As in `WorstClassBoostClassifier`.
    trace_ : Trace
        Record of each round; ``trace_.weights`` has the weights of the groups, shape (T, m), with one column
        for small groups that share a weight.

    See Also
    --------
    WorstClassBoostClassifier : With a limit on the error of each class, group or cell.
    RobustMixtureClassifier : Thresholds on the probabilities of any models, for any rates.

    References
    ----------
    Sagawa, Koh, Hashimoto, Liang: Distributionally Robust Neural Networks, ICLR 2020 (group DRO).
    Zhai, Dan, Suggala, Kolter, Ravikumar: Boosted CVaR Classification, NeurIPS 2021 (the domain-aware game).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import GroupDROBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> site = np.arange(len(y)) % 3
    >>> clf = GroupDROBoostClassifier("tree", n_estimators=3, random_state=0).fit(X, y, groups=site)
    >>> clf.trace_.weights.shape[1]
    3
    """

    n_estimators: int = 30
    eta: float | str = 1.0
    combine: str = "mixture"
    error_budget: float | None = None
    min_subgroup_rows: int = 10
    shrinkage: float = SHRINKAGE
    cv: Any = "auto"
    include_constants: bool = True
    n_iter_no_change: int | None = 3
    tol: float = 1e-3

    # The same arguments, with groups.
    fit = WorstClassBoostClassifier.fit

    def _play(self, fit: BoostingFit) -> Cautions:
        """Play the game over groups, and select the mixture of least largest error, or the even one."""
        even = self.combine == "average"
        if even and self.error_budget is not None:
            raise ValueError(
                "error_budget needs combine='mixture': with 'average' no mixture weights are "
                "selected"
            )
        if fit.arguments.groups is None:
            warn_user(
                "no groups are given, so the game is over the classes: pass groups= to fit, or "
                "use WorstClassBoostClassifier for classes"
            )
        training = fit.read()
        name_subgroups(self, "auto", training)
        self.groups_ = self._named.names
        learner = fit.open(training, self.cv)

        stakes = group_stakes(training, learner.judged, self)
        pool = JudgedPool(learner.judged, training.n_classes)
        if not even:
            pool = unboosted(pool, learner, training, fit.entropy)
        if self.include_constants:
            pool = pool.with_constants()
        objective = Objective.from_expression(largest(error(by=self._named.kind)))
        problem = Problem(objective, error_budget=self.error_budget, randomized=True)
        counts = counts_of(self, learner.judged)
        mixture = Mixture(problem, pool, counts, even=even, with_erm=not even)

        patience = self.n_iter_no_change
        n_rounds = int(self.n_estimators)
        game = Game(
            stakes,
            Hedge(eta_for(self.eta, stakes.units.count, n_rounds)),
            learner,
            Schedule.falling(n_rounds, patience, self.tol, self.max_time),
        )
        if not even and (patience is not None or self.verbose):  # a round prints the objective
            game = replace(game, progress=progress_of(mixture))
        position = fit.play(game, pool, training)
        set_results(self, position, replace(mixture, pool=position.pool))
        return small_subgroups(self._named, self._pools)

    _learner = WorstClassBoostClassifier._learner

    def _bounds(self) -> tuple[Bounds, dict[str, str]]:
        bounds = hedge_game_bounds(
            self.game_, alpha=None, eta=self.eta, planned=int(self.n_estimators)
        )
        return bounds, {}


# -- the targets of subgroups -----------------------------------------------------------------------------


def refuse_contradictions(clf: WorstClassBoostClassifier, groups: Groups) -> None:
    """Raise ValueError if parameters contradict each other or the groups."""
    if groups is None and clf.subgroups in ("group", "cell"):
        raise ValueError(f"subgroups={clf.subgroups!r} needs groups in fit")
    if groups is not None and clf.subgroups == "class":
        raise ValueError(
            "subgroups='class' has no use for groups; use subgroups='auto', 'group' or 'cell'"
        )
    if not clf.randomized and clf.combine == "vote":
        raise ValueError(
            "randomized=False needs combine='mixture' (or 'auto'): a vote has several members"
        )
    if clf.error_budget is not None and clf.combine == "vote":
        raise ValueError(
            "error_budget needs combine='mixture' (or 'auto'): a vote has equal weights"
        )


def stated_terms(clf: WorstClassBoostClassifier, training: TrainingSet) -> GameTerms:
    """Give a classifier its subgroups with their allowed errors, γ and η; return the terms of its game."""
    name_subgroups(clf, clf.subgroups, training)
    terms = GameTerms.of(clf)
    if clf.class_loss == "indicator" and terms.edge <= 0:
        # More than half of the K subgroups, rounded up to two digits.
        least_q = np.ceil(100 * (clf._pools.count // 2 + 1) / clf._pools.count) / 100
        more = " or more" if least_q < 1.0 else ""
        raise ValueError(
            f"gamma='auto' with q={clf.q:g} gives γ = ⌊qK⌋/K − ½ − .0005 = "
            f"{terms.edge:.4g} ≤ 0 for K = {clf._pools.count} subgroups: give q={least_q}{more} "
            f"(p={least_q}{more} in tailboost.published.worst_class_boost), gamma, or "
            "class_loss='error'"
        )
    subgroups = clf._named
    clf._allowed = allowed_errors(clf.max_error, subgroups.names.tolist(), subgroups.kind)
    clf.gamma_ = None
    if terms.indicator:
        clf.gamma_ = terms.edge
    clf.eta_ = eta_for(clf.eta, float(clf._pools.count), terms.rounds)
    return terms


def problem_of(clf: WorstClassBoostClassifier, counts: Counts) -> Problem:
    """Return the problem that selects the rule: the largest error, or the overall error within ``max_error``.

    ``counts`` has the strata of the selection data.
    """
    terms = GameTerms.of(clf)
    by_subgroup = error(by=clf._named.kind)
    aim: Rate | Largest = largest(by_subgroup)
    limits: tuple[Limit, ...] = ()
    if clf.max_error != "auto":
        all_names, _ = counts.strata.subgroups(clf._named.kind)
        names = [all_names[code] for code in clf._named.codes]
        allowed = dict(zip(names, clf._allowed.tolist(), strict=True))
        # ℓ_k = I(R_k ≥ 1 − θ), equation (6): the loss of a class with an error of exactly max_error is 1.
        limit = by_subgroup <= allowed
        limits = (replace(limit, strict=terms.indicator),)
        # The published vote minimises the largest error for any limits.
        is_published_vote = terms.votes and terms.indicator
        if not is_published_vote:
            aim = error()
    return Problem(
        Objective.from_expression(aim),
        limits,
        error_budget=clf.error_budget,
        randomized=clf.randomized,
    )


def missed_targets(clf: WorstClassBoostClassifier) -> Cautions:
    """Return the warnings after a fit: subgroups above their limits or without rows, useless answers."""
    judged_clf = judged(clf)
    errors = judged_clf.error_values(judged_clf.selected.counts)
    names = clf._named.names.tolist()
    strict = clf.game_.stakes.indicator
    unmeasured = []
    missed = []
    for name, value, allowed in zip(
        names, errors.tolist(), clf.max_error_.tolist(), strict=True
    ):
        if np.isnan(value):
            unmeasured.append(unit_name(name))
        elif not is_kept(value - allowed, strict):
            missed.append((name, value, allowed))
    cautions: Cautions = []
    if unmeasured:
        words = (
            f"{clf._named.kind} {', '.join(unmeasured[:SUBGROUPS_WARNED])}: no row to measure "
            "the error on, except rows of the fit"
        )
        cautions.append((words, BoundNotMetWarning))
    useless = useless_words(clf, judged_clf.selected.counts, float(np.nanmax(errors)))
    if useless or missed:
        reasons = (useless, clf.trace_.stop_reason)
        words = missed_words(clf, missed, reasons, strict=strict)
        cautions.append((words, BoundNotMetWarning))
    return cautions


def useless_words(clf: WorstClassBoostClassifier, counts: Floats, largest_error: float) -> str:
    """Return the reason for useless predictions, whatever limits they satisfy; "" if they are useful.

    Predictions are useless if all rows get one answer, or if a mixture of constant answers has no larger
    errors. ``counts`` are the confusion counts of `predict` on the selection data, strata × answers.
    """
    weight_of_answer = counts.sum(axis=0)
    if np.count_nonzero(weight_of_answer) == 1:
        return f"predict answers {clf.classes_[int(weight_of_answer.argmax())]!s} to all rows"
    if clf.max_error != "auto":
        return ""
    error_of_constants = clf.selection_.constants
    if error_of_constants is None or largest_error < error_of_constants - EQUAL_VALUES:
        return ""
    words = "predict is no better than the best mixture of constants"
    if clf.error_budget is not None:
        words += " within the error budget"
    return f"{words} ({error_of_constants:.3g})"


def name_subgroups(
    clf: WorstClassBoostClassifier | GroupDROBoostClassifier, kind: str, training: TrainingSet
) -> None:
    """Give a classifier the names and pools of its subgroups, which become the groups of the training set.

    ``kind`` is the parameter ``subgroups``: "auto" is "group" with groups and "class" without.
    """
    names = None
    default_kind = "class"
    if training.groups is not None:
        names = clf._group_names
        default_kind = "group"
    if kind == "auto":
        kind = default_kind
    if names is not None and kind != "class":
        for title, values in zip(names.titles, names.values, strict=True):
            refuse_many_numbers(title, values, len(training.y))
    min_rows = clf.min_subgroup_rows
    clf._named, clf._pools = pooled_subgroups(kind, training, clf.classes_, names, min_rows)
    clf.subgroup_pools_ = clf._pools.pool


def small_subgroups(subgroups: NamedSubgroups, pools: Pools) -> Cautions:
    """Return a warning if subgroups have fewer rows than ``min_subgroup_rows``; it names them."""
    small = np.flatnonzero(pools.size < pools.least).tolist()
    if not small:
        return []
    names = subgroups.names.tolist()
    names_and_sizes = [f"{unit_name(names[j])} ({pools.size[j]:.3g})" for j in small]
    listed = joined(names_and_sizes, MOST_COUNTED)
    consequence = "they share a weight with others, see subgroup_pools_"
    if pools.trivial:
        consequence = "their errors are uncertain"
    reason = f"fewer than min_subgroup_rows={pools.least} different rows"
    return [(f"{subgroups.kind} {listed}: {reason}; {consequence}", SmallSubgroupsWarning)]


def mixture_before_rounds(
    clf: WorstClassBoostClassifier,
    terms: GameTerms,
    training: TrainingSet,
    learner: Whole | CrossFitLearner,
    entropy: int,
) -> Mixture:
    """Return the mixture with its problem, and with the candidates that no round makes: none in a vote.

    Parameters
    ----------
    clf : WorstClassBoostClassifier
        The classifier, with its subgroups and their allowed errors.
    terms : GameTerms
        The terms of its game.
    training : TrainingSet
        The training rows.
    learner : Whole or CrossFitLearner
        The base learner with its rows.
    entropy : int
        Seed of the fits.
    """
    pool = JudgedPool(learner.judged, training.n_classes)
    if not terms.votes:
        pool = unboosted(pool, learner, training, entropy)
        if clf.include_constants:
            pool = pool.with_constants()
    counts = counts_of(clf, learner.judged)
    problem = problem_of(clf, counts)
    return Mixture(problem, pool, counts, even=terms.votes, with_erm=not terms.votes)


def target_stakes(
    clf: WorstClassBoostClassifier, training: TrainingSet, judged: Rows, *, indicator: bool
) -> TargetStakes:
    """Return the subgroups of the game with their allowed errors, measured on the selection data.

    Means are shrunk unless losses are indicators.

    Parameters
    ----------
    clf : WorstClassBoostClassifier
        The classifier, with its subgroups and their allowed errors.
    training : TrainingSet
        The training rows, which the player weighs by subgroup.
    judged : Rows
        The selection data, on which the losses are measured.
    indicator : bool
        Whether the loss of a subgroup is 0 or 1.
    """
    assert training.groups is not None
    assert judged.groups is not None
    pools = clf._pools
    pseudo_rows = 0.0 if indicator else clf.shrinkage
    index = pools.index(judged.groups)
    units = Units.groups(pools.index(training.groups), training.weight)
    subgroups = SubgroupStakes.of(units, judged, index, pseudo_rows)
    measured = judged.sizes(index, pools.count) > 0
    stated = pools.strictest(clf._allowed)
    allowed = np.where(np.isnan(stated), 1.0, stated).round(DECIMALS)  # 1: any error
    # A subgroup without rows to measure it has no loss. With the largest of the others it adds no difference
    # between allowed errors.
    allowed = np.where(measured, allowed, allowed[measured].max())
    return TargetStakes(subgroups, allowed=allowed, measured=measured, indicator=indicator)


def group_stakes(
    training: TrainingSet, judged: Rows, clf: GroupDROBoostClassifier
) -> SubgroupStakes:
    """Return the groups that the player weighs, with their rows among the selection data ``judged``.

    Raises
    ------
    ValueError
        If a group has no selection data.
    """
    pools = clf._pools
    assert training.groups is not None
    assert judged.groups is not None
    present = judged.sizes(judged.groups, len(clf.groups_)) > 0
    if not present.all():
        raise ValueError(
            f"no validation row in group(s) {clf.groups_[~present].tolist()}: use cv=5, a "
            "larger fraction, or a validation set that has every group"
        )
    units = Units.groups(pools.index(training.groups), training.weight)
    return SubgroupStakes.of(units, judged, pools.index(judged.groups), clf.shrinkage)


def unboosted(
    pool: JudgedPool, learner: Whole | CrossFitLearner, training: TrainingSet, entropy: int
) -> JudgedPool:
    """Return the pool with plain ERM, a fit by the sample weights alone."""
    candidate = learner.fit(Request(np.ones(len(training.y)), entropy))
    assert isinstance(candidate, RoundCandidate)  # any model meets a request without a demand
    return pool.beside(candidate.model, candidate.answers)


def progress_of(mixture: Mixture) -> LargestError | LargestErrorOfVote:
    """Return the objective after each round: the largest error of the vote, or the least one of a rule."""
    if mixture.even:
        return LargestErrorOfVote(mixture.steered)
    return LargestError(mixture.steered, mixture.problem.randomized)


def with_least_allowed(
    stakes: TargetStakes, learner: Whole | CrossFitLearner, seed: int, largest_loss: float
) -> TargetStakes:
    """Return the stakes with one allowed error for all subgroups, the least that a balanced model keeps.

    It is the least of `MAX_ERRORS` at which a stage of growth of the balanced model has a weighted loss of
    at most ``largest_loss``; the largest of them if there is none. The loss of a subgroup is 1 if its error
    is not below the allowed one.
    """
    base_weights = stakes.units.base
    stage_errors = errors_by_stage(stakes, learner, seed)
    least_allowed = max(MAX_ERRORS)
    for allowed in sorted(MAX_ERRORS, reverse=True):
        is_lost = np.round(stage_errors - allowed, DECIMALS) >= 0  # rounded: equality is a loss
        if (is_lost @ base_weights).min() <= largest_loss:
            least_allowed = allowed
    return replace(stakes, allowed=np.full(len(base_weights), least_allowed))


def errors_by_stage(
    stakes: TargetStakes, learner: Whole | CrossFitLearner, seed: int
) -> Floats:
    """Return the errors of the subgroups at each stage of growth of the balanced model, shape (stages, m).

    The error is 0 in subgroups without rows to measure it.

    Parameters
    ----------
    stakes : TargetStakes
        The subgroups with the rows that measure them.
    learner : Whole or CrossFitLearner
        The base learner with its rows.
    seed : int
        Seed of the fit.
    """
    errors = []

    def note_errors(candidate: RoundCandidate) -> float:
        errors.append(np.where(stakes.measured, stakes.subgroups.means(candidate), 0.0))
        return 1.0  # above any demand, so the learner grows to its last stage

    density = stakes.units.density(stakes.units.base)
    learner.fit(Request(density, seed, Demand(-np.inf), note_errors))
    return np.array(errors)


def about_voters(
    bounds: Sequence[Bound], targets: TargetStakes, kind: str
) -> tuple[Bound, ...]:
    """Return bounds on the loss of voters, with a note that defines a loss other than the error."""
    note = ""
    if targets.indicator:
        note = "loss of a voter: 1 if the error is max_error or more"
    elif targets.penalty.any():
        note = (
            f"loss of a voter: (error + largest max_error of a {kind} − max_error) / "
            f"{1.0 + targets.penalty.max():.4g}"
        )
    annotated = []
    for bound in bounds:
        notes = [words for words in (bound.note, note) if words]
        annotated.append(replace(bound, note="; ".join(notes)))
    return tuple(annotated)


def target_bound(errors: RateTable, allowed: Floats, *, strict: bool) -> Bound:
    """Return the largest error of `predict` beside its limit; if limits differ, the largest excess beside 0.

    ``allowed`` has the limit of each subgroup in ``errors``. ``strict`` says that an equal error is too
    large.
    """
    note = "a limit, not a theorem"
    values = np.array([line.value for line in errors])
    words = f"on a {errors.kind}, as measured on {errors.words}"
    largest_error = float(np.nanmax(values))
    if np.ptp(allowed) == 0:
        return Bound(
            f"largest error of predict {words}",
            "max_error",
            bound=float(allowed[0]),
            achieved=largest_error,
            note=note,
            strict=strict,
        )
    return Bound(
        f"largest error of predict, less max_error, {words}",
        "0",
        bound=0.0,
        achieved=float(np.nanmax(values - allowed)),
        note=f"{note}; the largest error is {largest_error:.4g}",
        strict=strict,
    )
