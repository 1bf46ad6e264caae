"""The choice of thresholds and shares on probabilities, whoever made them: all but training."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from tailboost._checks import check_weights, n_rows_of, positions
from tailboost._rows import Sketch, hash_rows
from tailboost._torch_rows import unpack
from tailboost._typing import Floats, Mask
from tailboost.classifiers._input import (
    ValidationRows,
    judged_rows,
    labels_of,
    rows_given,
)
from tailboost.classifiers._tradeoff import Source, TradeOff, trace
from tailboost.combiners import Ledger, Mixture
from tailboost.combiners.elsewhere import Elsewhere, UnitEstimates, Wrong
from tailboost.combiners.guarantee import NO_SHARE, Guarantee, guarantee
from tailboost.combiners.objective import CVaR, WorstUnit
from tailboost.combiners.pool import Pool
from tailboost.combiners.units import UnitTable
from tailboost.data import Given, GroupNames, Rows, n_group_rows
from tailboost.mixture._aim import Aim, check_parameters
from tailboost.mixture._answers import MixtureAnswers
from tailboost.mixture._average import averaging
from tailboost.mixture._by_group import members_by_group
from tailboost.mixture._members import Margins, losses_of
from tailboost.mixture._pool import Kinds, members_of, sources
from tailboost.mixture._tables import Judged, Models, Tallied
from tailboost.solvers import BitLosses


class ProbabilityMixture(MixtureAnswers):
    """A mixture of members that are functions of models' probabilities.

    It is settled by `_settle` on probabilities of rows that the models were not fitted on, whoever made them.
    """

    objective: str
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
        self._group_names = names
        self.groups_ = names.names
        self._check_columns()

    def _check_columns(self) -> None:
        if self.groups_at_prediction and len(self._group_names.values) > 1:
            raise ValueError(
                f"groups_at_prediction=True takes one column of groups, got {len(self._group_names.values)}: "
                "join their values into one, so that each row is in one group"
            )

    def _judged_by(self, models: Models, X: Any, y: Any, groups: Any, sample_weight: Any, to: str) -> Judged:
        """Return rows given to judge members on: a table, or the models' probabilities by name."""
        words = f"the {{:,}} rows given to {to}"
        if models.fitted:
            X, y = unpack(X, y)
            X, rows = judged_rows(self, self, ValidationRows(X, y, groups, sample_weight), "", words)
            if not all(isinstance(model, FrozenEstimator) for model in models.fitted):
                rows = self._noting_seen(X, rows, "the probabilities kept with the model")
            table = models.transform(X)
            return Judged.of(models, [table[(i,)] for i in range(len(models.names))], rows)
        return Judged.of(models, *self._given(models, X, y, groups, sample_weight, words))

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
        rows = Rows(numbers, weight[used], groups, words.format(int(used.sum())), None, Given(n).part(used))
        return [table[(i,)][used] for i in range(len(models.names))], rows

    def _learned(self, judged: Judged) -> Judged:
        """Return the judged rows with the averages of the models' probabilities learned on them."""
        return averaging(judged, sources(len(judged.models.names), bool(self.averages)))

    def _aimed(self, rows: Rows) -> Aim:
        return Aim.of(
            self.objective,
            rows,
            self.classes_,
            getattr(self, "_group_names", None),
            alpha=self.alpha,
            max_error=self.max_error,
            shrinkage=float(self.shrinkage),
        )

    def _settle(self, judged: Judged | Tallied, same: Mixture | None = None) -> None:
        """Make the pool, unless one of the same units on these rows is given, and choose λ."""
        aim = self._aimed(judged.rows)
        if same is None:
            assert isinstance(judged, Judged)
            rows = aim.rows(judged.rows)
            members = self._members(aim, judged, rows)
            self.combiner_ = self._mixture(aim, self._ledger(members, judged, rows), members)
        else:
            self.combiner_ = same.aiming_at(aim.objective, mean_budget=self.mean_budget)
        self._judged, self._aim = judged, aim
        self._set_ensemble()
        self.units_ = self.unit_errors_ = self.bound_met_ = None
        if aim.over_units:
            rows = self.combiner_.pool.ledger.rows
            self.units_ = aim.units.names.tolist()
            self.unit_errors_ = aim.errors(self._wrong(self.ensemble_, np.ones(len(rows.y), bool)), rows)
            self.bound_met_ = aim.met(self.unit_errors_)

    def _warn(self) -> None:
        """Warn of what the choice found."""
        aim = self._aim
        if self.unit_errors_ is None:
            return
        aim.warn_of_small(self.combiner_.pool.ledger.rows)
        if self.bound_met_ is False:
            aim.warn_of_missed(self.unit_errors_, self.combiner_)

    def _ledger(self, members: list[Any], judged: Judged, rows: Rows) -> Ledger:
        """Return the losses of members on judged rows, with the units as groups."""
        losses = losses_of(members, judged.table, rows.y)
        # One member is chosen by what its margins say of other rows.
        chances = None if self._sharing else Margins.of(members, judged)
        return Ledger(rows, losses, BitLosses(len(rows.y)), chances=chances)

    def _mixture(self, aim: Aim, ledger: Ledger, members: list[Any]) -> Mixture:
        """Return the combiner of a pool with these losses."""
        mixture = Mixture(
            aim.objective, len(self.classes_), mean_budget=self.mean_budget, randomized=self._sharing
        )
        mixture.pool = Pool(ledger, [], list(members))
        return mixture

    def _members(self, aim: Aim, judged: Judged, rows: Rows) -> list[Any]:
        kinds, table = self._kinds(aim), judged.table
        members = members_of(judged.models, table, rows, aim.index(rows), kinds)
        if not self.groups_at_prediction:
            return members
        assert judged.rows.groups is not None
        assert isinstance(aim.objective, WorstUnit)
        groups, names = judged.rows.groups, self.groups_.tolist()
        if len(absent := np.setdiff1d(np.arange(len(names)), groups)):
            raise ValueError(
                f"groups_at_prediction=True: {judged.rows.words} have no row of group(s) "
                f"{[names[g] for g in absent]} to choose on"
            )
        return [
            *members,
            *members_by_group(members, judged.models, table, rows, groups, names, aim.objective, kinds),
        ]

    @property
    def _sharing(self) -> bool:
        """Whether members may share λ."""
        if self.randomized == "auto":
            return self.objective == "cvar" or self.shares is True
        return bool(self.randomized)

    def _kinds(self, aim: Aim) -> Kinds:
        return Kinds(
            int(self.n_thresholds),
            float(self.shrinkage),
            bool(self.averages),
            bool(self.include_constants),
            not aim.over_units if self.shares == "auto" else bool(self.shares),
        )

    def _set_ensemble(self) -> None:
        ensemble = self.combiner_.stage(self.combiner_.pool.n_rounds)
        weights = np.where(ensemble.weights > NO_SHARE, ensemble.weights, 0.0)  # the solver's rounding
        # Members without a share settle no tie, so that no model is asked for that alone.
        order = ensemble.tie_order[weights[ensemble.tie_order] > 0]
        self.ensemble_ = replace(ensemble, weights=weights / weights.sum(), tie_order=order)
        self.gap_ = max(0.0, self.ensemble_.gap)
        self.__dict__.pop("_guarantee", None)

    # -- another choice ------------------------------------------------------------------------------

    def reweight(
        self,
        X: Any = None,
        y: Any = None,
        *,
        alpha: float | None = None,
        objective: str | None = None,
        groups: Any = None,
        sample_weight: Any = None,
        mean_budget: float | None = None,
    ) -> Self:
        """Return a classifier of the same models with another choice of thresholds and λ; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Rows to choose on, which no model was fitted on; for a classifier `from_probabilities`, X is a
            dict of the models' probabilities. Without them the probabilities kept with the model serve.
        alpha : float in (0, 1], optional
            Tail mass of the CVaR, which it implies.
        objective : {"cvar", "worst_class", "worst_group", "worst_cell"}, optional
            By default the classifier's own.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of the rows given where the probabilities kept are from.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        mean_budget : float in [0, 1], optional
            By default the classifier's own.

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
        ResubstitutionWarning
            Where models were fitted on the rows given.
        """
        check_is_fitted(self)
        name = objective or ("cvar" if alpha is not None else self.objective)
        new = copy.copy(self)
        new.objective, new.alpha = name, self.alpha if name == "cvar" and alpha is None else alpha
        if name != self.objective:
            new.max_error = None  # its names are those of other units
        if mean_budget is not None:
            new.mean_budget = mean_budget
        new._validate_params()
        judged = self._judged
        if rows_given("reweight", X, y, sample_weight=sample_weight):
            if groups is not None:
                new._name_groups(groups)
            judged = new._judged_by(judged.models, X, y, groups, sample_weight, "reweight")
            if judged.models.fitted:
                new.chosen_rows_ = (*self.chosen_rows_, Sketch.of(hash_rows(self._checked(unpack(X, y)[0]))))
        elif groups is not None or name != self.objective:
            judged = judged.kept()
            if groups is not None:
                judged = replace(judged, rows=new._with_groups(judged.rows, groups))
        check_parameters(new, judged.rows.groups)
        # On the same rows and for the same units the members are the same: only λ is chosen again.
        same = judged is self._judged and name == self.objective
        new._settle(judged, self.combiner_ if same else None)
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

    def tradeoff(self, budgets: Sequence[float] | None = None) -> TradeOff:
        """Return what a lower worst error costs in mean error, without training anything.

        Parameters
        ----------
        budgets : sequence of float in [0, 1], optional
            Points wanted, as mean errors above the least of a member; None gives the breakpoints of the whole
            curve, between which it is straight.

        Returns
        -------
        TradeOff
            On the rows λ was chosen on; its ``at(mean_budget)`` gives the classifier of a point, and
            ``predicted(X, y)`` what `predict` does on other rows.

        Raises
        ------
        ValueError
            If a budget is not in [0, 1].
        """
        check_is_fitted(self)
        mixture = self.combiner_.aiming_at(self.objective_)

        def within(mean_budget: float) -> ProbabilityMixture:
            return self.reweight(mean_budget=mean_budget, alpha=self.alpha)

        return trace(mixture, Source(self.ensemble_, self.objective_, within, self._answered), budgets)

    def _answered(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> tuple[Rows, list[Any]]:
        """Return rows to measure errors on, and the answers of all members to them."""
        if rows_given("predicted", X, y, groups=groups, sample_weight=sample_weight):
            judged = self._judged_by(self._models, X, y, groups, sample_weight, "predicted")
        else:
            judged = self._judged.kept()
        check_parameters(self, judged.rows.groups)
        table = judged.table
        return self._aim.rows(judged.rows), [m.predict_table(table) for m in self.ensemble_.members]

    # -- what was found -------------------------------------------------------------------------------

    @property
    def objective_(self) -> CVaR | WorstUnit:
        """What λ minimises."""
        return self._aim.objective

    @property
    def guarantee_(self) -> Guarantee:
        """What was achieved, against the best member alone and against constants, in words."""
        check_is_fitted(self)
        if "_guarantee" not in self.__dict__:
            elsewhere = Elsewhere.of(self.combiner_, self._wrong if self._aim.over_units else None)
            found = guarantee(
                None,
                self.combiner_,
                self.estimator_weights_,
                self.gap_,
                ((), ()),
                self.classes_.tolist(),
                self.members_,
                elsewhere,
            )
            self._guarantee = replace(found, units=self._unit_table(elsewhere))
        return self._guarantee

    @property
    def _wrong(self) -> Wrong:
        return self._judged.wrong(self.combiner_.pool)

    def _unit_table(self, elsewhere: Elsewhere | None) -> UnitTable | None:
        aim, ledger = self._aim, self.combiner_.pool.ledger
        errors = self.unit_errors_
        if not aim.over_units or errors is None:
            return None
        index, m = aim.index(ledger.rows), len(aim.units.names)
        drawn = ledger.rows.means(index, m, ledger.pool().combine(self.estimator_weights_))
        return UnitTable.of(
            aim.units.kind,
            ledger.rows.words,
            aim.units.names.tolist(),
            index,
            randomised=drawn,
            predict=errors,
            allowed=aim.allowed,
            met=None if aim.allowed is None else (aim.keeps(errors), aim.keeps(drawn)),
            estimates=UnitEstimates.of(elsewhere, index, m),
            draws=self.ensemble_.draws,
            counts=ledger.rows.counts(index, m),
        )

    @property
    def unit_estimates_(self) -> Floats | None:
        """Error of `predict` on each unit, each half of the rows judged by the choice on the other half."""
        table = self.guarantee_.units
        return None if table is None else table.column("predict_elsewhere")

    @property
    def unit_intervals_(self) -> Floats | None:
        """Intervals about `unit_estimates_`, shape (m, 2)."""
        table = self.guarantee_.units
        return None if table is None else table.column("predict_interval")
