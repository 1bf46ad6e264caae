"""Worst-class boosting with targets: the games of Saito et al. 2024 over classes, groups or cells."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from tailboost.boosting.cross_fitting import Scheme
from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.game import Stopping
from tailboost.boosting.players.hedge import Hedge, eta_for, theory_rounds
from tailboost.boosting.targets import (
    DECIMALS,
    TargetSubgroups,
    allowed_errors,
    edge_from_share,
    is_kept,
    restored,
    storable,
)
from tailboost.boosting.training_set import Problem, Rows
from tailboost.classifiers.docs import documented
from tailboost.classifiers.grouped import GroupedBoostClassifier
from tailboost.classifiers.parameters import CONSTRAINTS, with_constructor
from tailboost.classifiers.plan import Demand, Plan, Schedule, tied_by
from tailboost.classifiers.target_game import (
    about_voters,
    least_error_met,
    target_bound,
    target_units,
    warn_of_missed,
    warn_of_unmeasured,
    with_least_allowed,
)
from tailboost.core.array_types import Floats
from tailboost.guarantees.fit_summary import Bounds
from tailboost.rates import Limit, Objective, error, largest
from tailboost.selection.rate_table import RateTable
from tailboost.selection.subgroup_mixture import SubgroupMixture

# Rounds of the error game, where no γ says how many.
ERROR_ROUNDS = 30
# Rounds without a lower value after which a game ends in which every round costs fits.
PATIENCE = 10
# Values this close are equal after rounding to DECIMALS.
TOLERANCE = 0.5 * 10.0**-DECIMALS


@documented
@with_constructor
class WorstClassBoostClassifier(GroupedBoostClassifier):
    """Boosting that minimises the largest error of a class, group or cell, or keeps each within a target.

    A game of two players lasts ``n_estimators`` rounds at most. The first player weighs the subgroups:
    classes, groups or cells (class × group). The second player fits the learner to these weights. The
    learner grows only until its weighted loss is small enough on rows that it was not fitted on. For
    thresholds on the probabilities of models take `RobustMixtureClassifier`.

    There are two games and two ways to combine the hypotheses:

    * ``class_loss="indicator"`` [1]_: the loss of a class is 1 where its error is at least ``max_error`` (in
      the paper 1 − θ), and the learner must have ``Σ_k w_k ℓ_k ≤ ½ − γ`` in every round. Then each class is
      fine for more than half of the voters. That their majority vote is fine is **not** implied: three voters
      wrong on 40 % of a class each can be wrong on 60 % of it together. So it is measured (`unit_errors_`,
      `bound_met_`), never claimed.
    * ``class_loss="error"``: the loss is the class error itself, the ordinary minimax game, which serves two
      classes or groups too. With `combine="mixture"`, λ minimises the largest class error on the validation
      rows, and its value **is** the bound there, for the randomised classifier whose label distribution is
      `predict_distribution`.

    Without a target (``max_error="auto"``, ``gamma="auto"``) the error of the worst class is made as small as
    can be.

    Parameters
    ----------
    estimator : classifier or str, optional
        The learner or its name (see `tailboost.learners.named`). None is a `HistBoostClassifier` of 20 trees
        of depth 3: on 12 tables it had a lower overall error than one of ten trees, in 1.6 times the seconds.
        A learner that can grow (`HistBoostClassifier`, forests, multi-layer perceptrons, SGD, …) grows only
        as far as the game asks.
    max_error : float in (0, 1], dict or "auto", default="auto"
        Largest error allowed: a limit on the selection data. Of the combinations that keep it the one with
        the least overall error is selected. If none keeps it, violations are charged and a warning names the
        subgroups. A dict has one limit per class (group, cell; for a cell its class serves too) and one for
        the rest under the key None: ``{1: .05, None: .2}`` allows class 1 at most 5 % wrong, the others
        20 %. "auto" sets no limit: the largest error is minimised, and ``max_error_`` is the smallest of
        .05, .1, …, .9 for which the balanced model of round 1 meets the weak-learning condition (indicator)
        or that `predict` reaches (error). The paper fits with each of nine values and keeps the one with the
        least largest class error on validation rows: that is ``GridSearchCV`` with
        `tailboost.metrics.make_worst_class_scorer`.
    gamma : float in (0, 0.5] or "auto", default="auto"
        γ of the weak-learning condition; "auto" is ``⌊qK⌋/K − ½ − .0005``. Not used in the error game.
    q : float in (0, 1], default=0.8
        Share of the classes that must be fine in round 1, for ``gamma="auto"``.
    n_estimators : int or "auto", default="auto"
        The most rounds. "auto" is 30 in the error game and T = ``⌈2 ln K/γ²⌉`` in the indicator game. T can
        be hundreds; `n_iter_no_change` ends most games long before, and then the theorem does not apply.
    until_met : bool, default=False
        Stop as soon as the vote, or the randomised classifier of a mixture, meets all targets on the
        validation rows, and otherwise play all ``n_estimators`` rounds: `n_iter_no_change` is not used. Needs
        ``max_error``.
    eta : float or "theory", default="theory"
        Learning rate of Hedge; "theory" is √(8 ln K/T).
    class_loss : {"auto", "indicator", "error"}, default="auto"
        "indicator" is the published game; it asks its learner for γ in every round and ends, at round 1 if
        need be, where the learner falls short. "auto" plays it if ``gamma`` is given, γ > 0 and there is no
        ``error_budget``, else "error", which serves targets better.
    combine : {"auto", "vote", "mixture"}, default="auto"
        "vote" is the majority vote of the first T* rounds, where T* has the smallest largest class error on
        the validation rows or, with ``max_error`` in the error game, the least mean error of those that keep
        it; "mixture" is the optimal λ. "auto" is "vote" in the indicator game without a
        ``error_budget``, else "mixture".
    randomized : bool, default=True
        Whether members may share λ. False gives λ to the best single member within the budget. Then the
        bound is about `predict` itself, `tradeoff` is a staircase, and ``gap_`` is the gain of sharing. A
        vote cannot give λ to one member. `reweight` for a CVaR always shares λ.
    units : {"auto", "class", "group", "cell"}, default="auto"
        What has targets: "cell" is class × group; "auto" is "group" where `fit` is given groups, else
        "class".
    n_iter_no_change : int, None or "auto", default="auto"
        Stop when this many rounds together lowered the largest class error of the combination by no more
        than ``tol``; None plays all rounds. "auto" is 10.
    {{error_budget}}
        A vote cannot keep one.
    {{min_subgroup_rows}}
    {{shrinkage}}
        0 is the plain minimax game. The indicator game uses no shrinkage.
    {{include_constants}}
        A vote has neither them nor plain ERM.
    {{rest}}

    Attributes
    ----------
    units_ : list of length m
        Names of the classes, the groups, or the (class, group) cells; a group of a table is a (column, value)
        pair.
    max_error_ : ndarray of shape (m,)
        The error allowed to each.
    gamma_ : float or None
        γ; None in the error game.
    eta_ : float
        Learning rate of Hedge.
    unit_errors_ : ndarray of shape (m,)
        Error of `predict` on the validation rows, the same on which λ was chosen. Where members have seen all
        rows, these are the errors of their siblings that did not see the row. NaN where a unit has no
        validation row, or only rows of a class that those siblings could not learn (a class with one row).
    expected_unit_errors_ : ndarray of shape (m,)
        The same of the randomised classifier with the label distribution `predict_distribution`. Both are
        measured on the rows of the choice; `unit_intervals_` are for new rows.
    class_errors_ : ndarray of shape (K,)
        `unit_errors_` where the units are the classes.
    rates_ : RateTable
        The rates of the objective and of the limits by subgroup, of `predict` on the selection data.
    subgroup_errors_ : dict
        Error of `predict` on each class, group or cell, on the selection data.
    limits_met_ : bool or None
        Whether `predict` keeps all limits on the selection data; None for ``max_error="auto"``.
    bound_met_ : bool
        Whether `predict` meets ``max_error_`` on the selection data. It is never true if `predict` answers
        one class to all rows or, with ``max_error="auto"``, is no better than the best mixture of constants.
        In the indicator game an error of ``max_error`` does not meet it, as its loss is 1 there.
    bound_met_randomized_ : bool
        Whether the randomised classifier meets every target, by `expected_unit_errors_`; a coin may (see
        ``summary_``).
    {{unit_intervals_}}
    expected_unit_intervals_ : ndarray
        The same of the randomised classifier.
    {{unit_pools_}}
    unit_weights_ : ndarray of shape (T, m)
        Those of ``trace_``; None with more than 1,000 units.
    estimators_ : list
        The boosted hypotheses in order, the first of which is the balanced model; for a mixture also plain
        ERM and the constants.
    estimator_weights_ : ndarray
        Their shares: for a vote 1/T* on the first T* rounds; with ``validation="train"`` all rounds vote.
    {{rest}}

    Warns
    -----
    BoundNotMetWarning
        Names the units that miss their target, and those that could not be measured.

    See Also
    --------
    RobustMixtureClassifier : Thresholds on the probabilities of any models, for any rates.
    GroupDROBoostClassifier : The same game over groups, without targets.

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

    max_error: Any = "auto"
    gamma: float | str = "auto"
    q: float = 0.8
    n_estimators: int | str = "auto"
    until_met: bool = False
    eta: float | str = "theory"
    class_loss: str = "auto"
    combine: str = "auto"
    randomized: bool = True
    units: str = "auto"
    n_iter_no_change: int | str | None = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [*CONSTRAINTS["n_estimators"], StrOptions({"auto"})],
        "combine": [StrOptions({"auto", "vote", "mixture"})],
        "n_iter_no_change": [*CONSTRAINTS["n_iter_no_change"], StrOptions({"auto"})],
    }

    _known_classes: ClassVar[bool] = True

    def _check_arguments(self, groups: Any) -> None:
        if groups is None and self.units in ("group", "cell"):
            raise ValueError(f"units={self.units!r} needs groups in fit")
        if groups is not None and self.units == "class":
            raise ValueError("units='class' has no use for groups; use units='auto', 'group' or 'cell'")
        if self.until_met and self.max_error == "auto":
            raise ValueError("until_met=True needs max_error: without a target nothing is to be met")
        if not self.randomized and self.combine == "vote":
            raise ValueError("randomized=False needs combine='mixture' (or 'auto'): many members vote")
        if self.error_budget is not None and self.combine == "vote":
            raise ValueError("error_budget needs combine='mixture' (or 'auto'): a vote chooses no shares")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "max_error": storable(self.max_error)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "max_error": restored(state["max_error"])})

    @property
    def _limited(self) -> bool:
        """Whether the combination needs λ: for a limit on the mean error, or for a single member."""
        return self.error_budget is not None or not self.randomized

    # -- which game ----------------------------------------------------------------------------------

    @property
    def _edge(self) -> float:
        """γ, also where it takes no part."""
        return edge_from_share(self.q, self._pools.count) if self.gamma == "auto" else float(self.gamma)

    @property
    def _indicator(self) -> bool:
        """Whether the loss of a unit is the indicator."""
        published = self.gamma != "auto" and self._edge > 0 and not self._limited
        return self.class_loss == "indicator" or (self.class_loss == "auto" and published)

    @property
    def _votes(self) -> bool:
        """Whether the hypotheses vote."""
        return self.combine == "vote" or (self.combine == "auto" and self._indicator and not self._limited)

    def _name_units(self, problem: Problem) -> Problem:
        kind = ("class" if problem.groups is None else "group") if self.units == "auto" else self.units
        self._name(kind, problem)
        problem.groups = self._named.number(problem.rows).groups
        if problem.validation is not None:
            X_val, rows = problem.validation
            problem.validation = X_val, self._named.number(rows)
        if self.class_loss == "indicator" and self._edge <= 0:
            raise ValueError(
                f"gamma='auto' with q={self.q:g} gives γ = {self._edge:.4g} for {self._pools.count} units, "
                "which is not positive: use class_loss='error', or give gamma"
            )
        self.max_error_ = allowed_errors(self.max_error, self._named.names.tolist(), kind)
        return problem

    # -- the game ------------------------------------------------------------------------------------

    def _plan(self, problem: Problem, scheme: Scheme, seed: int) -> Plan:
        indicator, T = self._indicator, self._most_rounds()
        units = target_units(problem, scheme, self._pools, self.max_error_, indicator, self.shrinkage)
        if indicator and self.max_error == "auto":
            units = with_least_allowed(units, scheme, seed, 0.5 - self._edge)
        # The published vote is the one of least largest error, whatever the limits.
        cheapest = self.max_error != "auto" and not (self._votes and indicator)
        combiner = SubgroupMixture(
            Objective.of(error() if cheapest else largest(error(by=self._named.kind))),
            self._grouping,
            problem.n_classes,
            self._limits(scheme.selection_rows),
            self.error_budget,
            self.randomized,
            even=self._votes,
            voting=self._votes,
            with_erm=not self._votes,
            with_constants=self.include_constants and not self._votes,
        )
        rule = Hedge(eta_for(self.eta, float(self._pools.count), T))
        return Plan(units, rule, combiner, self._demand(units, T))

    def _limits(self, rows: Rows) -> tuple[Limit, ...]:
        """Return the targets as limits on the errors of the subgroups of the selection data."""
        if self.max_error == "auto":
            return ()
        rate, (table, _) = error(by=self._named.kind), self._grouping.table(rows)
        names = table.strata.units(self._named.kind)[0]
        named = [names[code] for code in self._codes]
        return (rate <= dict(zip(named, self.max_error_.tolist(), strict=True)),)

    def _demand(self, units: TargetSubgroups, rounds: int) -> Demand:
        """Return the weighted loss a learner is grown to."""
        if units.indicator:
            return Demand(0.5 - self._edge, required=True)
        if self.max_error == "auto":  # as good as it gets
            return Demand(0.0)
        # Σ_k w_k R_k ≤ max_error − √(ln K/(2T)), in the scale of the losses
        allowed = float(units.allowed.max() / (1.0 + units.penalty.max()))
        return Demand(max(0.0, allowed - math.sqrt(math.log(float(len(units.base))) / (2 * rounds))))

    def _most_rounds(self) -> int:
        if not isinstance(self.n_estimators, str):
            return int(self.n_estimators)
        return theory_rounds(float(self._pools.count), self._edge) if self._indicator else ERROR_ROUNDS

    def _schedule(self, plan: Plan) -> Schedule:
        patience: Any = self.n_iter_no_change
        target = None
        assert isinstance(plan.units, TargetSubgroups)
        if self.until_met:
            patience, target = None, plan.units.limit
            target += -TOLERANCE if plan.units.indicator else TOLERANCE
        elif patience == "auto":
            patience = PATIENCE
        who = "the vote" if self._votes else "the randomised classifier"
        words = f"{who} meets all targets on the validation rows"
        # Errors less what they are allowed are least where all of them are 0.
        zero = TOLERANCE - (float(plan.units.allowed.max()) if plan.units.differ else 0.0)
        stopping = Stopping(patience, self.tol, self.max_time, zero=zero, target=target, reached=words)
        return Schedule(self._most_rounds(), stopping, watched=True)

    def _tied_to_rounds(self) -> str:
        if self.eta == "theory" or self._indicator or self.max_error == "auto":
            return tied_by(self.eta)
        return "the growth of the learner"

    # -- after the game ------------------------------------------------------------------------------

    def _set_ensemble(self, ensemble: MixtureEnsemble) -> None:
        super()._set_ensemble(ensemble)
        rule: Any = self.game_.player
        units = self._run.plan.units
        assert isinstance(units, TargetSubgroups)
        self.gamma_, self.eta_ = (self._edge if units.indicator else None), rule.eta
        self.unit_weights_ = self.trace_.weights
        if self.max_error == "auto" and self._own:
            least = units.limit if units.indicator else least_error_met(float(np.nanmax(self.unit_errors_)))
            self.max_error_ = np.full(len(self.units_), round(least, DECIMALS))

    def _take_targets(self, max_error: Any) -> None:
        if self._own:
            names = self._named.names.tolist()
            self.max_error, self.max_error_ = max_error, allowed_errors(max_error, names, self._named.kind)

    @property
    def _strict(self) -> bool:
        """Whether an error has to be below its target: the loss of a subgroup is 1 at the target."""
        units = self._run.plan.units
        assert isinstance(units, TargetSubgroups)
        return units.indicator

    @property
    def _useless(self) -> str:
        """Why the answers say nothing, whatever target they meet; "" if they do."""
        if not self._own:
            return ""
        predicted = self._counts().sum(axis=0)
        if np.count_nonzero(predicted) == 1:
            return f"predict answers {self.classes_[int(predicted.argmax())]!s} to all of them"
        if self.max_error != "auto":
            return ""
        coin = self._counting.constants
        if np.nanmax(self.unit_errors_) < coin - TOLERANCE:
            return ""
        return f"predict is no better than the best mixture of constants ({coin:.3g}), blind to the features"

    def _met(self, errors: Floats) -> bool:
        allowed = self.max_error_ if self._own else np.full(len(errors), np.inf)
        return bool(is_kept(float(np.nanmax(errors - allowed)), self._strict))

    @property
    def bound_met_(self) -> bool:
        """Whether `predict` meets every target on the selection data, and says more than a constant."""
        return self._met(self.unit_errors_) and not self._useless

    @property
    def bound_met_randomized_(self) -> bool:
        """Whether the randomised rule meets every target on the selection data."""
        return self._met(self.expected_unit_errors_)

    @property
    def class_errors_(self) -> Floats:
        """Error of `predict` on each class, where the units are the classes."""
        if (by := self._counting.steering.by) != "class":
            raise AttributeError(f"the units are {by}s, not classes; see unit_errors_")
        return self.unit_errors_

    def _warn(self) -> None:
        super()._warn()
        errors = self._limited_errors
        warn_of_unmeasured(errors)
        if not self.bound_met_:
            missed = [line for line in errors if line.met is False]
            reasons = self._useless, self.trace_.stop_reason
            warn_of_missed(missed, self._counting, errors.words, reasons)

    @property
    def _limited_errors(self) -> RateTable:
        """The errors of `predict` on the subgroups beside their targets."""
        found, sense = self._errors(self._counts()), "<" if self._strict else "≤"
        lines = [
            replace(
                x, bound=bound, sense=sense, met=None if np.isnan(x.value) else self._kept(x.value, bound)
            )
            for x, bound in zip(found, self.max_error_.tolist(), strict=True)
        ]
        return replace(found, lines=tuple(lines))

    def _kept(self, value: float, bound: float) -> bool:
        return bool(is_kept(value - bound, self._strict))

    def _bounds(self) -> Bounds:
        promised, observed = super()._bounds()
        units, kind = self._run.plan.units, self._named.kind
        assert isinstance(units, TargetSubgroups)
        promised, observed = about_voters(promised, units, kind), about_voters(observed, units, kind)
        if self.max_error == "auto" or not self._own:
            return promised, observed
        bound = target_bound(self._errors(self._counts()), self.max_error_, self._strict)
        return promised, (*observed, bound)
