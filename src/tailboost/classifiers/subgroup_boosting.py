"""Common base of the classifiers that boost over classes, groups or cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context

from tailboost.boosting.cross_fitting import Scheme, ask
from tailboost.boosting.game import DECIMALS, TargetSubgroups, shrinkage_factor
from tailboost.boosting.targets import MAX_ERRORS, NamedSubgroups, Pools
from tailboost.boosting.training_set import GroupNames, TrainingSet
from tailboost.classifiers.base import with_callbacks
from tailboost.classifiers.boosted_mixture import MixtureClassifier
from tailboost.classifiers.input import LabelledRows
from tailboost.core.array_types import Column, Floats, Groups, Ints, Table
from tailboost.core.exceptions import SmallSubgroupsWarning
from tailboost.core.judged import intervals_of
from tailboost.core.subgroups import unit_name
from tailboost.core.tables import unpack
from tailboost.core.warn import warn_user
from tailboost.guarantees.game_bounds import hedge_game_bounds
from tailboost.learners import HistBoostClassifier
from tailboost.selection.mixture import Grouping
from tailboost.selection.rate_table import RateTable
from tailboost.selection.summary import Bound, Bounds

# Size of the default learner. On 12 tables of at most 1,500 rows (45 splits) 20 trees of depth 3 had, beside
# ten, an overall error lower by .0135 ± .0051 and a largest class error that differs by .0017 ± .0096, in 1.6
# times the seconds. One tree of depth 5 had a largest class error higher by .089 ± .022.
N_TREES, DEPTH = 20, 3
# Maximum number of small subgroups in a warning.
MOST_COUNTED = 20


class GroupedBoostClassifier(MixtureClassifier):
    """Mixture from a game over subgroups, in which small subgroups share a weight."""

    eta: float | str
    error_budget: float | None
    min_subgroup_rows: int
    shrinkage: float

    _named: NamedSubgroups
    _pools: Pools

    def _default_learner(self) -> Any:
        return HistBoostClassifier(n_estimators=N_TREES, max_depth=DEPTH, n_jobs=self.n_jobs)

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
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
        rows = LabelledRows(*unpack(X, y), groups, sample_weight)
        self._fit(rows, LabelledRows(*unpack(X_val, y_val), groups_val, sample_weight_val), fit_params)
        return self

    # -- the game ------------------------------------------------------------------------------------

    def _name(self, kind: str, problem: TrainingSet) -> None:
        """Name the subgroups of a problem, number them as its groups, and pool the small ones."""
        self._regrouped = False
        groups = None if problem.groups is None else self._group_names
        self._named = NamedSubgroups.of(kind, problem.rows, self.classes_, groups)
        tables = [problem.rows] if problem.validation is None else [problem.rows, problem.validation[1]]
        self._pools = Pools.small(self._named, tables, self.min_subgroup_rows)
        problem.groups = self._named.with_subgroups(problem.rows).groups
        if problem.validation is not None:
            X_val, rows = problem.validation
            problem.validation = X_val, self._named.with_subgroups(rows)

    def _set_groups(self, names: GroupNames) -> None:
        self._regrouped = True  # the game had other groups
        super()._set_groups(names)

    def _warn(self) -> None:
        """Warn of small subgroups too."""
        super()._warn()
        pools = self._pools
        small = np.flatnonzero(pools.size < pools.least).tolist()
        if not small:
            return
        names = self._named.names.tolist()
        listed = ", ".join(f"{unit_name(names[u])} ({pools.size[u]:.3g})" for u in small[:MOST_COUNTED])
        more = f" and {len(small) - MOST_COUNTED} more" if len(small) > MOST_COUNTED else ""
        shared = "they share a weight with others, see subgroup_pools_"
        warn_user(
            f"{self._named.kind} {listed}{more}: fewer than min_subgroup_rows={pools.least} different rows; "
            f"{'their errors are uncertain' if pools.trivial else shared}",
            SmallSubgroupsWarning,
        )

    @property
    def subgroup_pools_(self) -> Ints:
        """Number of the pool of each subgroup. Subgroups of one pool share a weight."""
        return self._pools.pool

    def _bounds(self) -> Bounds:
        return hedge_game_bounds(self.game_, None, self.eta, self._most_rounds())

    # -- errors of the subgroups -------------------------------------------------------------------------

    @property
    def _grouping(self) -> Grouping:
        """Names of the groups of the selection data."""
        names = None if self._named.kind == "class" else self._group_names
        return Grouping.of(self.classes_, names, self._named.cells)

    @property
    def _own(self) -> bool:
        """Whether the combiner has the subgroups of the fit, not other subgroups given to `reweight`."""
        return self.combiner_.steering.by == self._named.kind and not self._regrouped

    @property
    def _codes(self) -> list[int]:
        """Position of each subgroup among all cells; cells without training rows are absent."""
        cells = self._named.cells
        return list(range(len(self._named.names))) if cells is None else cells.tolist()

    def _errors(self, counts: Floats) -> RateTable:
        """Return the errors of the subgroups by confusion counts, in the order of `subgroups_`."""
        table = super()._errors(counts)
        if not self._own:
            return table
        names, lines = self._named.names.tolist(), [table.lines[code] for code in self._codes]
        return replace(table, lines=tuple(replace(x, subgroup=n) for x, n in zip(lines, names, strict=True)))

    def _error_values(self, counts: Floats) -> Floats:
        """Return the errors of the subgroups by confusion counts, in the order of `subgroups_`."""
        errors = self.combiner_.errors(counts)
        return errors[self._codes] if self._own else errors

    @property
    def expected_subgroup_errors_(self) -> Floats:
        """Expected error of the randomised rule on each subgroup, on the selection data, shape (m,)."""
        return self._error_values(self.combiner_.mixed(self.estimator_weights_))

    @property
    def expected_subgroup_intervals_(self) -> Floats:
        """95 % intervals for the expected errors of the randomised rule on new rows, shape (m, 2)."""
        return intervals_of(self._errors(self.combiner_.mixed(self.estimator_weights_)))


# -- the targets of subgroups -----------------------------------------------------------------------------


def target_subgroups(
    problem: TrainingSet, scheme: Scheme, pools: Pools, max_error: Floats, indicator: bool, shrinkage: float
) -> TargetSubgroups:
    """Return the subgroups of the game with their allowed errors.

    Parameters
    ----------
    problem : TrainingSet
        Training set.
    scheme : Scheme
        Selection data of the game.
    pools : Pools
        Sets of subgroups with a common weight.
    max_error : ndarray of shape (m,)
        Allowed error of each subgroup; NaN for none.
    indicator : bool
        Whether losses are indicators.
    shrinkage : float
        Pseudo-rows, for losses that are no indicators.
    """
    rows = scheme.selection_rows
    assert problem.groups is not None
    assert rows.groups is not None
    index = pools.index(rows.groups)
    size = rows.sizes(index, pools.count)
    measured = size > 0
    units = TargetSubgroups.groups(pools.index(problem.groups), problem.weight, index, rows.weight)
    allowed = pools.strictest(max_error)
    allowed = np.where(np.isnan(allowed), 1.0, allowed).round(DECIMALS)
    allowed = np.where(measured, allowed, allowed[measured].max())
    return replace(
        units,
        allowed=allowed,
        indicator=indicator,
        measured=measured,
        shrinkage=None if indicator else shrinkage_factor(size, shrinkage),
    )


def with_least_allowed(units: TargetSubgroups, scheme: Scheme, seed: int, demand: float) -> TargetSubgroups:
    """Return the subgroups with the least allowed error at which the balanced model meets the demand.

    Each stage of growth of the balanced model is tried.
    """
    errors_by_stage = []

    def note(losses: NDArray[Any], answers: Ints) -> float:
        errors_by_stage.append(np.nan_to_num(units.errors(scheme.selection_rows.wrong(answers))))
        return 1.0

    ask(scheme, units, units.density(units.base), seed, note)
    R = np.array(errors_by_stage)
    feasible = [
        error for error in MAX_ERRORS if ((np.round(R - error, DECIMALS) >= 0) @ units.base).min() <= demand
    ]
    allowed = min(feasible, default=MAX_ERRORS[-1])
    return replace(units, allowed=np.full(len(units.base), round(allowed, DECIMALS)))


def least_error_met(reached: float) -> float:
    """Return the smallest value of `MAX_ERRORS` that is at least an error."""
    return min((e for e in MAX_ERRORS if round(reached - e, DECIMALS) <= 0), default=MAX_ERRORS[-1])


def about_voters(bounds: Sequence[Bound], targets: TargetSubgroups, kind: str) -> tuple[Bound, ...]:
    """Return bounds with a note on the loss of a voter, if this loss is not the error."""
    note = ""
    if targets.indicator:
        note = "loss of a voter: 1 if the error is max_error or more"
    elif targets.penalty.any():
        note = (
            f"loss of a voter: (error + largest max_error of a {kind} − max_error) / "
            f"{1.0 + targets.penalty.max():.4g}"
        )
    return tuple(replace(b, note="; ".join(filter(None, (b.note, note)))) for b in bounds)


def target_bound(errors: RateTable, allowed: Floats, strict: bool) -> Bound:
    """Return the largest error of `predict` and its limit; if limits differ, the largest excess."""
    note, values = "a limit, not a theorem", np.array([line.value for line in errors])
    words = f"on a {errors.kind}, as measured on {errors.words}"
    largest = float(np.nanmax(values))
    if np.ptp(allowed) == 0:
        name = f"largest error of predict {words}"
        return Bound(name, "max_error", float(allowed[0]), largest, note, strict)
    note += f"; the largest error is {largest:.4g}"
    beyond = float(np.nanmax(values - allowed))
    return Bound(f"largest error of predict, less max_error, {words}", "0", 0.0, beyond, note, strict)
