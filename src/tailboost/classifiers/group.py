"""Boosting for the worst group: Hedge over groups, minimax mixture of the hypotheses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from tailboost._typing import Floats
from tailboost.classifiers._grouped import GroupedBoostClassifier
from tailboost.classifiers._target_game import between
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import ValidationRows
from tailboost.classifiers.plan import Plan, tied_by
from tailboost.combiners import Mixture, WorstUnit
from tailboost.data import Problem, Rows
from tailboost.game import Units
from tailboost.learners import HistBoostClassifier, LogitAdjustedClassifier
from tailboost.learners._adjusted import FOREST_UP_TO
from tailboost.rules.hedge import Hedge, eta_for
from tailboost.statements.guarantee import Bounds, hedge_game_bounds
from tailboost.statements.two_fold import TwoFoldEstimate, UnitEstimates
from tailboost.statements.units import UnitTable
from tailboost.targets import SHRINKAGE
from tailboost.validation import Scheme

# Beyond so many distinct rows the game over groups cross-fits in three folds.
FIVE_FOLDS_UP_TO = 5_000


@documented
class GroupDROBoostClassifier(GroupedBoostClassifier):
    """Group DRO by boosting: the player weighs groups, λ minimises the largest group error.

    Round 1 is the balanced model (every group weighs the same); plain ERM joins the pool of the mixture, and
    so do the constants. Group losses are measured on the validation rows, and drive both the player and λ.
    The promise is about the randomised classifier whose label distribution is `predict_shares`.

    Parameters
    ----------
    {{estimator}}
        With None an argmax answers a round instead of a fit. Over groups the answer to weights q_g is
        ``argmax_k Σ_g q_g/p_g p(k, g | x)``, p_g the share of group g: the one above is fitted once, with
        a small forest of p(group | x, class) beside it (up to 60 combinations of class and groups; with more
        it is fitted in every round, as ``HistBoostClassifier()`` is). Over the classes None is
        `LogitAdjustedClassifier` of that one, or up to 5,000 distinct rows of its own default, which has a
        forest too.
    n_estimators : int, default=30
        Largest number of rounds; on bank marketing the objective still fell after ten rounds.
    eta : float or "theory", default=1.0
        Learning rate of Hedge; ``"theory"`` is √(8 log m / T) for m groups.
    combine : {"mixture", "average"}, default="mixture"
        The mixture with the least largest group error, or the even mixture of the boosted hypotheses as in
        group DRO.
    {{mean_budget}}
    {{min_unit_rows}}
    {{validation}}
        Where an argmax answers over groups, "auto" takes three folds beyond 5,000 distinct rows.
    {{include_constants}}
    {{class_weight}}
    {{n_iter_no_change … verbose}}

    Attributes
    ----------
    {{classes_}}
    groups_ : ndarray of shape (m,)
        The groups, (column, value) pairs of a table; the classes where none were given.
    {{unit_pools_}}
    {{expected_unit_estimates_}}
    {{expected_unit_intervals_}}
    {{ensemble_}}
    estimators_ : list
        The boosted hypotheses in order, then (for "mixture") plain ERM, where an argmax answers seven members
        between it and the balanced model, and the constants.
    {{estimator_weights_ … trace_}}
        ``trace_.weights`` has the groups' weights, shape (T, m), with fewer columns where small groups were
        pooled.
    {{gap_ … guarantee_}}
    {{n_features_in_}}

    See Also
    --------
    WorstClassBoostClassifier : With a target for the error of each class, group or cell.

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
    >>> clf = GroupDROBoostClassifier(n_estimators=3, random_state=0).fit(X, y, groups=site)
    >>> clf.trace_.weights.shape[1]
    3
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 30,
        eta: float | str = 1.0,
        combine: str = "mixture",
        mean_budget: float | None = None,
        min_unit_rows: int = 10,
        validation: Any = "auto",
        include_constants: bool = True,
        class_weight: Any = None,
        n_iter_no_change: int | None = 3,
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
        self.eta = eta
        self.combine = combine
        self.mean_budget = mean_budget
        self.min_unit_rows = min_unit_rows
        self.validation = validation
        self.include_constants = include_constants
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GroupedBoostClassifier._parameter_constraints,
        "combine": [StrOptions({"mixture", "average"})],
    }

    def _check_arguments(self, groups: Any) -> None:
        if self.mean_budget is not None and self.combine == "average":
            raise ValueError("mean_budget needs combine='mixture': with 'average' no shares are chosen")

    def _groups_of_game(self, y: Any, groups: Any, validation: ValidationRows) -> tuple[Any, ValidationRows]:
        if groups is not None:
            return groups, validation
        return y, validation if validation.X is None else replace(validation, groups=validation.y)

    @property
    def _by_argmax(self) -> bool:
        """Whether the default learner answers the weights of groups without a new fit."""
        return self.estimator is None and self._few_cells

    @property
    def _five_folds_up_to(self) -> float:
        """Over the classes three folds cost more on rare ones than they save."""
        return FIVE_FOLDS_UP_TO if self._by_argmax and self._named.kind == "group" else np.inf

    def _learner(self, problem: Problem | None = None) -> Any:
        if problem is None or not self._by_argmax:
            return super()._learner(problem)
        if self._named.kind == "group":
            return self._joint_learner(problem)
        # The own default takes twice as long, and is no better where there are many rows.
        few = len(problem.sketch.kept) <= FOREST_UP_TO
        boosted = HistBoostClassifier(n_jobs=self.n_jobs)
        return LogitAdjustedClassifier(None if few else boosted, n_jobs=self.n_jobs)

    def _name_units(self, problem: Problem) -> Problem:
        assert problem.groups is not None
        self._name("class" if np.array_equal(problem.groups, problem.y) else "group", problem)
        return problem

    def _plan(self, problem: Problem, scheme: Scheme, seed: int) -> Plan:
        judged, pools = scheme.judged, self._pools
        assert problem.groups is not None
        assert judged.groups is not None
        present = judged.sizes(judged.groups, len(self.groups_)) > 0
        if not present.all():
            raise ValueError(
                f"no validation row in group(s) {self.groups_[~present].tolist()}: use validation='cv', "
                "a larger fraction, or a validation set that has every group"
            )
        index = pools.index(judged.groups)
        units = Units.groups(pools.index(problem.groups), problem.weight, index, judged.weight)
        units = replace(units, shrinkage=SHRINKAGE / (judged.sizes(index, pools.count) + SHRINKAGE))
        even = self.combine == "average"
        combiner = Mixture(
            WorstUnit(self._named.kind, shrinkage=SHRINKAGE, pools=pools.numbers),
            problem.n_classes,
            even=even,
            with_erm=not even,
            with_constants=self.include_constants,
            mean_budget=self.mean_budget,
        )
        return Plan(units, Hedge(eta_for(self.eta, units.count, int(self.n_estimators))), combiner)

    def _extra_densities(self, plan: Plan) -> Iterator[Floats | None]:
        yield from super()._extra_densities(plan)
        if self._by_argmax:
            yield from between(plan.units)

    def _own_groups(self, rows: Rows) -> Rows:
        # Another one after reweight, or groups that were given.
        if self.objective_ != WorstUnit("class", shrinkage=SHRINKAGE):
            return rows
        if rows.groups is not None and not np.array_equal(rows.groups, rows.y):
            raise ValueError("fit took the classes for groups: other groups need objective='worst_group'")
        return replace(rows, groups=rows.y)

    def _unit_table(self, elsewhere: TwoFoldEstimate | None) -> UnitTable | None:
        rows, objective = self.combiner_.pool.ledger.rows, self.objective_
        if not isinstance(objective, WorstUnit) or objective.by_class or rows.groups is None:
            return None
        measured = replace(objective, pools=None)  # each group by itself, however few its rows
        errors, names = self.estimator_weights_ @ measured.losses(self.combiner_.pool.ledger), self.groups_
        if len(errors) != len(names):  # some have no row here
            return None
        estimates = UnitEstimates.of(elsewhere, rows.groups, len(names))
        kind = objective.unit
        return UnitTable.of(
            kind,
            rows.words,
            names.tolist(),
            rows.groups,
            randomised=errors,
            estimates=estimates,
            counts=rows.counts(rows.groups, len(names)),
        )

    def _tied_to_rounds(self) -> str:
        return tied_by(self.eta)

    def _bounds(self) -> Bounds:
        return hedge_game_bounds(self.game_, None, self.eta, int(self.n_estimators))
