"""The choice of thresholds and shares on probabilities, whoever made them: all but training."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from tailboost._checks import check_costs, check_weights, n_rows_of, positions
from tailboost._rows import Sketch
from tailboost._torch_rows import unpack
from tailboost._typing import Floats, Mask
from tailboost._units import group_uses
from tailboost.classifiers.input import (
    ValidationRows,
    judged_rows,
    labels_of,
    named_groups,
    rows_given,
)
from tailboost.classifiers.tradeoff import Source, TradeOff, trace
from tailboost.combiners import Ledger, Mixture
from tailboost.combiners.pool import Pool
from tailboost.data import GroupNames, RowOrigin, Rows, n_group_rows, take
from tailboost.mixture._aim import Aim, check_parameters
from tailboost.mixture._answers import MixtureAnswers
from tailboost.mixture._average import averaging
from tailboost.mixture._curve import DeferralCurves, RateCurve, curve, deferral_curves
from tailboost.mixture._lines import Lines
from tailboost.mixture._members import POWERS, Tempered, loss_of, losses_of
from tailboost.mixture._named import NamedChoice
from tailboost.mixture._rated import RateChoice, Rated, Stated, name_of
from tailboost.mixture._tables import Judged, Models, sources
from tailboost.rates import error
from tailboost.solvers import BitLosses
from tailboost.statements.guarantee import Guarantee
from tailboost.statements.known_rows import noting_frozen, noting_seen
from tailboost.thresholds import RateTable


class ProbabilityMixture(MixtureAnswers):
    """A mixture of members that are functions of models' probabilities.

    It is settled by `_settle` on probabilities of rows that the models were not fitted on, whoever made them.
    """

    objective: Any
    limits: Any
    # The engine on the rows of the last choice, and the choice; both stay where another one fails.
    _rated: Rated
    _choice: NamedChoice | RateChoice
    limits_met_: bool | None
    alpha: float | None
    max_error: Any
    mean_budget: float | None
    n_thresholds: int
    shrinkage: float
    averages: bool
    shares: bool | str
    include_constants: bool
    randomized: bool | str

    # -- the choice ----------------------------------------------------------------------------------

    def _name_groups(self, groups: Any, used: Mask | None = None) -> None:
        """Take the names of groups that rows are given with, all of them or those of some rows."""
        n = n_group_rows(groups)
        self._set_groups(GroupNames.of(groups, "groups", n, np.ones(n, bool) if used is None else used))

    def _set_groups(self, names: GroupNames) -> None:
        self.__dict__.update(named_groups(self, names))
        self._check_columns()

    def _check_columns(self) -> None:
        if self.by_group and len(self._group_names.values) > 1:
            raise ValueError(
                f"by_group=True takes one column of groups, got {len(self._group_names.values)}: "
                "join their values into one, so that each row is in one group"
            )

    def _judged_by(self, models: Models, X: Any, y: Any, groups: Any, sample_weight: Any, to: str) -> Judged:
        """Return rows given to judge members on: a table, or the models' probabilities by name."""
        words = f"the {{:,}} rows given to {to}"
        if models.fitted:
            X, y = unpack(X, y)
            X, rows = judged_rows(self, self, ValidationRows(X, y, groups, sample_weight), "", words)
            if not all(isinstance(model, FrozenEstimator) for model in models.fitted):
                rows = noting_seen(self.seen_rows_, X, rows, "the probabilities kept with the model")
            rows = noting_frozen(self, X, rows)
            table = models.transform(X)
            return Judged.of(models, [table[(i,)] for i in range(len(models.names))], rows)
        judged = Judged.of(models, *self._given(models, X, y, groups, sample_weight, words))
        judged.check_order(self.classes_)
        return judged

    def _given(
        self, models: Models, probabilities: Any, y: Any, groups: Any, sample_weight: Any, words: str
    ) -> tuple[list[Floats], Rows]:
        """Return the log-probabilities of models that were given by name, and the rows of positive weight."""
        y, n = labels_of(y), n_rows_of(y)
        table = models.given(probabilities, range(len(models.names)), self.classes_, n)
        weight = check_weights(sample_weight, n)
        used = weight > 0
        numbers = positions(y[used], self.classes_, "y")
        groups = None if groups is None else self._group_names.number(groups, "groups", n, used)
        rows = Rows(
            numbers, weight[used], groups, words.format(int(used.sum())), None, RowOrigin(n).part(used)
        )
        return [table[(i,)][used] for i in range(len(models.names))], rows

    @property
    def _stated(self) -> Stated | None:
        """What rates are made small and limited; None where the objective is one by name alone."""
        return Stated.of(self.objective, self.limits, self.max_error)

    @property
    def weighs_groups(self) -> bool:
        """Whether answers weigh p(group | x, y), learned from the other columns: rates are by group."""
        ensemble = self.ensemble_
        return any(ensemble.members[m].weighs_groups for m in np.flatnonzero(ensemble.weights > 0))

    @property
    def _objective_name(self) -> str:
        return name_of(self.objective)

    def _learned(self, judged: Judged) -> Judged:
        """Return the judged rows with the averages of the models' probabilities learned on them."""
        return averaging(judged, sources(len(judged.models.names), bool(self.averages)))

    def _aimed(self, rows: Rows) -> Aim:
        return Aim.of(
            self._objective_name,
            rows,
            self.classes_,
            getattr(self, "_group_names", None),
            alpha=self.alpha,
            max_error=self.max_error,
            shrinkage=float(self.shrinkage),
        )

    def _settle(
        self,
        judged: Judged,
        X: Any = None,
        *,
        costs: Any = None,
        known: Rated | None = None,
    ) -> None:
        """Make the pool and choose.

        Parameters
        ----------
        judged : Judged
            The log-probabilities of the rows.
        X : table, optional
            Their features.
        costs : ndarray of shape (n, K), optional
            What each answer costs in each of them.
        known : Rated, optional
            An engine on these rows.
        """
        if (stated := self._stated) is None:
            aim = self._aimed(judged.rows)
            rated, numbers = self._members(aim, judged, X, known)
            judged = replace(judged, said=rated.said)
            self._take_named(aim, judged, *self._ledger(aim, judged, rated, numbers))
            return
        if known is None:
            known = self._engine(stated, judged, X, costs=costs)
        self._judged, self._rated = judged, known
        shrinkage = float(self.shrinkage)
        chosen = known.choose(
            stated, mean_budget=self.mean_budget, sharing=self._sharing, shrinkage=shrinkage
        )
        self._take(judged, chosen)

    def _take_named(
        self, aim: Aim, judged: Judged, ledger: Ledger, members: list[Any], lines: Lines | None = None
    ) -> None:
        """Choose among members with these losses, of rows or of lines of rows."""
        mixture = Mixture(
            aim.objective,
            len(self.classes_),
            mean_budget=self.mean_budget,
            randomized=self._sharing,
            limit=aim.limit,
        )
        mixture.pool = Pool(ledger, [], members)
        self._take(judged, NamedChoice.of(aim, judged, mixture, lines))

    def _engine(self, stated: Stated, judged: Judged, X: Any, **more: Any) -> Rated:
        names = getattr(self, "_group_names", None)
        averages = bool(self.averages)
        return Rated.of(
            stated, judged, X, self.classes_, names, told=self.by_group, averages=averages, **more
        )

    def _again(self, limited: bool) -> None:
        """Choose again among the same members; targets may be left out of it."""
        known = cast("NamedChoice", self._choice)
        aim = self._aimed(known.judged.rows)
        limit = aim.limit if limited else None
        combiner = known.combiner.aiming_at(aim.objective, mean_budget=self.mean_budget, limit=limit)
        self._take(known.judged, NamedChoice.of(aim, known.judged, combiner, known.lines))

    def _take(self, judged: Judged, choice: NamedChoice | RateChoice) -> None:
        """Answer as a choice says."""
        self._judged, self._choice = judged, choice
        self.ensemble_, self.limits_met_, errors = choice.ensemble, choice.limits_met, choice.errors
        self.units_ = self.unit_errors_ = self.bound_met_ = None
        if errors is not None:
            self.units_, self.unit_errors_ = errors.names, errors.errors["predict"]
            self.bound_met_ = choice.limits_met
        self.__dict__.pop("_guarantee", None)

    @property
    def combiner_(self) -> Mixture:
        """The members with their losses, where they were chosen by these."""
        return cast("NamedChoice", self._choice).combiner

    def _warn(self, *, forewarned: bool = False) -> None:
        """Warn of what the choice found, and of limits below their noise unless that was said before."""
        self._choice.warn(forewarned=forewarned)
        self._choice.warn_of_missed(lambda: self.unit_estimates_)

    def _ledger(
        self, aim: Aim, judged: Judged, rated: Rated, numbers: list[int]
    ) -> tuple[Ledger, list[Any], Lines | None]:
        """Return the losses of all members, by line with the units as groups or by row, and the members.

        And the lines, where what `predict` answers is not known by one member's losses.
        """
        draws: list[Any] = []
        if not aim.over_units if self.shares == "auto" else self.shares:  # draws from the probabilities join
            draws = [Tempered(judged.models, score, power) for score in rated.scores for power in POWERS]
        members = [*map(rated.member, numbers), *draws]
        if not aim.over_units:
            losses = losses_of(members, judged.table, judged.rows.y)
            return Ledger(judged.rows, losses, BitLosses(len(judged.rows.y))), members, None
        rows, y = aim.rows(judged.rows), judged.rows.y
        lines = Lines.of(replace(rows, groups=None) if aim.units.kind == "class" else rows, rated.table)
        drawn = [loss_of(draw.predict_table(judged.table), y) for draw in draws]
        # One member is chosen by what its margins say of other rows.
        pool = [rated.pool.members[i] for i in numbers]
        ledger = lines.ledger(pool, rated.table, drawn, near=not self._sharing)
        return ledger, members, lines if self._sharing else None

    def _members(
        self, aim: Aim, judged: Judged, X: Any = None, known: Rated | None = None
    ) -> tuple[Rated, list[int]]:
        """Return the engine on judged rows, and the numbers of its members that join the pool.

        Of an engine known on these rows what it learnt of groups serves again, if it has the same sources.
        """
        stated, names = Stated.units(self._objective_name), getattr(self, "_group_names", None)
        same = sources(len(judged.models.names), bool(self.averages))
        if known is not None and known.scores == same and known.covers(stated, names):
            rated = known.anew()
        else:
            rated = self._engine(stated, judged, X, most_sources=None)
        n, s = int(self.n_thresholds), float(self.shrinkage)
        return rated, rated.thresholds(stated, n, s, with_constants=bool(self.include_constants))

    @property
    def _sharing(self) -> bool:
        """Whether members may share λ."""
        if self.randomized == "auto":
            return self._objective_name == "cvar" or self.shares is True
        return bool(self.randomized)

    # -- another choice ------------------------------------------------------------------------------

    def reweight(
        self,
        X: Any = None,
        y: Any = None,
        *,
        alpha: float | None = None,
        objective: Any = None,
        limits: Any = None,
        groups: Any = None,
        costs: Any = None,
        sample_weight: Any = None,
        mean_budget: float | None = None,
        max_error: Any = None,
    ) -> Self:
        """Return a classifier of the same models with another choice of thresholds and λ; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Rows to choose on, which no model was fitted on; for a classifier `from_probabilities`, X is a
            dict of the models' probabilities. Without them the probabilities kept with the model serve.
        alpha : float in (0, 1], optional
            Tail mass of the CVaR, which it implies.
        objective : {"cvar", "worst_class", "worst_group", "worst_cell", "error"}, rate or largest, optional
            By default the classifier's own.
        limits : list of Limit, optional
            By default the classifier's own.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of the rows given where the probabilities kept are from.
        costs : array-like of shape (n, K), optional
            What each answer costs in each row of X.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        mean_budget : float in [0, 1], optional
            By default the classifier's own.
        max_error : float in (0, 1] or dict, optional
            Targets for the units, as in the class; by default the classifier's own, where the units are the
            same.

        Returns
        -------
        classifier
            Of the same class; this one is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described.

        Warns
        -----
        BoundNotMetWarning
            Names the units whose error is above their target.
        ResubstitutionWarning
            Where models were fitted on the rows given.
        """
        if not hasattr(self, "_rated"):  # kept also where limits contradicted each other
            check_is_fitted(self)
        new = self._meaning(alpha, objective, limits, mean_budget, max_error)
        judged, rated, table = self._judged, getattr(self, "_rated", None), None
        if rows_given("reweight", X, y, sample_weight=sample_weight, costs=costs):
            if groups is not None:
                new._name_groups(groups)
            judged, rated = new._judged_by(judged.models, X, y, groups, sample_weight, "reweight"), None
            given = judged.rows.given
            costs = check_costs(costs, n_rows_of(y), self.classes_, None if given is None else given.index)
            if judged.models.fitted:
                checked = self._checked(unpack(X, y)[0])
                table = _used(checked, judged.rows)
                new.chosen_rows_ = (*self.chosen_rows_, Sketch.of_rows(checked))
        elif groups is not None:
            judged, rated = judged.kept(), None
            judged = replace(judged, rows=new._with_groups(judged.rows, groups))
        check_parameters(new, judged.rows.groups)
        if (stated := new._stated) is not None:
            if rated is not None and not rated.covers(stated, getattr(new, "_group_names", None)):
                rated = None
            if rated is None and stated.needs_costs and costs is None:
                raise ValueError("costs of the rows are not kept with the model: give X, y and costs")
            if rated is not None:  # what this choice adds is not this classifier's
                rated = replace(rated, pool=rated.pool.copy())
            new._settle(judged.kept(), table, costs=costs, known=rated)
            new._warn()
            return new
        # On the same rows and for the same units the members are the same: only λ is chosen again.
        if self._stated is None and judged is self._judged and new._objective_name == self._objective_name:
            new._again(limited=True)
        else:
            new._settle(judged.kept(), table, known=rated)
        new._choice.warn_of_missed(lambda: new.unit_estimates_)
        return new

    def _meaning(
        self, alpha: float | None, objective: Any, limits: Any, mean_budget: float | None, max_error: Any
    ) -> Self:
        """Return a copy whose parameters are those asked for, where they are, and checked."""
        new = copy.copy(self)
        if limits is not None:
            new.limits = limits
        if objective is not None or alpha is not None:
            new.objective = "cvar" if objective is None else objective
            new.alpha = alpha
            if new.objective == "cvar" and alpha is None:
                new.alpha = self.alpha
        if new._objective_name != self._objective_name:
            new.max_error = None  # its names are those of other units
        if mean_budget is not None:
            new.mean_budget = mean_budget
        if max_error is not None:
            new.max_error = max_error
        new._validate_params()
        return new

    def _with_groups(self, rows: Rows, groups: Any) -> Rows:
        """Return the rows whose probabilities are kept with groups of the rows they were given with."""
        n, given = n_group_rows(groups), rows.given
        if given is None or n != given.n_rows:
            raise ValueError(
                f"groups has {n} entries, but the probabilities kept are of {rows.words}, from a table given "
                f"with {len(rows.y) if given is None else given.n_rows:,} rows: one group for each is needed"
            )
        used = np.arange(n) if given.index is None else given.index
        self._name_groups(groups, np.isin(np.arange(n), used))
        return replace(rows, groups=self._group_names.number(groups, "groups", n)[used])

    def tradeoff(
        self, budgets: Any = None, objective: Any = None, *, n_points: int = 9, passed_on: Any = None
    ) -> TradeOff | RateCurve | DeferralCurves:
        """Return what a lower worst error costs in mean error, or one rate in another, without training.

        Parameters
        ----------
        budgets : sequence of float in [0, 1], rate, largest, gap or ratio, optional
            Points wanted, as mean errors above the least of a member; None gives the breakpoints of the whole
            curve, between which it is straight. A rate, or the largest, the gap or the ratio of a family, is
            what is limited. Where rates were made small or limited, None is the rate of the first limit.
        objective : rate, largest, gap or ratio, optional
            With a rate: what is made small within its limits; the mean error by default. A gap or a ratio
            cannot be made small: it is limited, and the other rate made small.
        n_points : int, default=9
            With a rate: how many limits are tried.
        passed_on : sequence of float in [0, 1), optional
            With a rate: a curve for each of these shares of rows that may be passed on to a person.

        Returns
        -------
        TradeOff, RateCurve or DeferralCurves
            On the rows λ was chosen on; its ``at(mean_budget)`` gives the classifier of a point, and
            ``predicted(X, y)`` what `predict` does on other rows. Of two rates a `RateCurve`, whose ``at``
            takes a limit.

        Raises
        ------
        ValueError
            If a budget is not in [0, 1].
        """
        check_is_fitted(self)
        if budgets is None and objective is None and (pair := self._choice.pair) is not None:
            budgets, objective = pair
        if getattr(objective, "compares", False) and hasattr(budgets, "rate"):
            budgets, objective = objective, budgets
        if hasattr(budgets, "rate"):
            if passed_on is not None:
                return deferral_curves(
                    self, budgets, error() if objective is None else objective, n_points, passed_on
                )
            return curve(self, budgets, error() if objective is None else objective, n_points)
        if passed_on is not None:
            raise ValueError(
                "passed_on needs two rates: tradeoff(rates.largest(rates.answered_error(by='class')), "
                "rates.answered_error(), passed_on=...)"
            )
        mixture = self._choice.traced

        def within(mean_budget: float) -> ProbabilityMixture:
            new = copy.copy(self)
            new.mean_budget = mean_budget
            new._again(limited=False)
            return new

        checked = self._checked if self._models.fitted else None
        source = Source(self.ensemble_, self.objective_, within, self._answered, checked)
        return trace(mixture, source, budgets)

    def _answered(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> tuple[Rows, list[Any]]:
        """Return rows to measure errors on, and the answers of all members to them."""
        if rows_given("predicted", X, y, groups=groups, sample_weight=sample_weight):
            judged = self._judged_by(self._models, X, y, groups, sample_weight, "predicted")
            table = judged.table
            if self._models.fitted:  # members may infer groups from the features
                table = table.beside(_used(self._checked(unpack(X, y)[0]), judged.rows))
        else:
            judged = self._judged.kept()
            table = judged.table
        check_parameters(self, judged.rows.groups)
        aim = cast("NamedChoice", self._choice).aim
        return aim.rows(judged.rows), [m.predict_table(table) for m in self.ensemble_.members]

    # -- what was found -------------------------------------------------------------------------------

    @property
    def gap_(self) -> float:
        """Optimality gap of λ; of one member alone by how much members that share could do better."""
        check_is_fitted(self)
        return self._choice.gap

    @property
    def objective_(self) -> Any:
        """What λ minimises."""
        return self._choice.objective

    @property
    def guarantee_(self) -> Guarantee:
        """What was achieved, against the best member alone and against constants, in words."""
        check_is_fitted(self)
        if "_guarantee" not in self.__dict__:
            found = self._choice.guarantee(self.classes_.tolist(), self.members_)
            self._guarantee = replace(found, groups=group_uses(self))
        return self._guarantee

    @property
    def rates_(self) -> RateTable | None:
        """Where rates were stated, each by unit; None without any."""
        check_is_fitted(self)
        if (chosen := self._choice.table) is not None:
            return replace(chosen, notes=tuple(map(str, group_uses(self))))
        by_name = self.objective is None or isinstance(self.objective, str)
        table = None if by_name else self.guarantee_.units
        return None if table is None else table.of_rule("predict")

    @property
    def unit_estimates_(self) -> Floats | None:
        """Error of `predict` on each unit, each half of the rows judged by the choice on the other half."""
        table = self.guarantee_.units
        return None if table is None else table.column("estimate")

    @property
    def unit_intervals_(self) -> Floats | None:
        """Intervals about `unit_estimates_`, shape (m, 2)."""
        table = self.guarantee_.units
        return None if table is None else table.intervals()


def _used(X: Any, rows: Rows) -> Any:
    """Return those rows of a table that have weight."""
    return X if rows.given is None or rows.given.index is None else take(X, rows.given.index)
