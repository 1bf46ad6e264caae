"""What games over classes, groups and cells share: how a fit names its units, what is said of each."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost._torch_rows import unpack
from tailboost._typing import Floats, Ints
from tailboost.classifiers._base import with_callbacks
from tailboost.classifiers._mixture import ValidatedMixtureClassifier
from tailboost.classifiers._target_game import warn_of_small
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import ValidationRows, check_group_arguments
from tailboost.classifiers.plan import BUDGET_CONSTRAINTS
from tailboost.data import GroupNames, Problem
from tailboost.learners import HistBoostClassifier
from tailboost.learners._cells import CellAdjustedClassifier, combinations, few_cells
from tailboost.targets import NamedUnits, Pools


class GroupedBoostClassifier(ValidatedMixtureClassifier):
    """A mixture from a game over classes, groups or cells, of which small ones steer together."""

    mean_budget: float | None
    min_unit_rows: int
    _named: NamedUnits
    _pools: Pools
    # Whether one fit of the default learner can answer the weights of all units.
    _few_cells: bool

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ValidatedMixtureClassifier._parameter_constraints,
        **BUDGET_CONSTRAINTS,
        "eta": [Interval(Real, 0, None, closed="neither"), StrOptions({"theory"})],
        "min_unit_rows": [Interval(Integral, 1, None, closed="left")],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    @documented
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups_val: Any = None,
        sample_weight_val: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Play the game and combine the hypotheses.

        Parameters
        ----------
        {{X}}
        {{y}}
        {{sample_weight}}
        {{groups}}
            The game is over them, or over the cells of class and group; without them over the classes.
        X_val, y_val, groups_val, sample_weight_val : optional
            An explicit validation set; needs ``validation="auto"``.
        {{fit_params}}

        Returns
        -------
        self

        Raises
        ------
        {{fit_raises}}
        """
        validation = ValidationRows(X_val, y_val, groups_val, sample_weight_val)
        check_group_arguments(groups, validation)
        self._check_arguments(groups)
        X, y = unpack(X, y)
        groups, validation = self._groups_of_game(y, groups, validation.unpacked())
        self._fit(X, y, sample_weight, groups, validation, fit_params)
        self._warn()
        return self

    @abstractmethod
    def _check_arguments(self, groups: Any) -> None:
        """Raise ValueError where parameters do not suit each other or the groups."""

    def _groups_of_game(self, y: Any, groups: Any, validation: ValidationRows) -> tuple[Any, ValidationRows]:
        """Return the groups that are played over, and the validation rows with theirs."""
        return groups, validation

    def _name(self, kind: str, problem: Problem) -> None:
        """Name the units of a problem, and pool the small ones."""
        self._regrouped = False
        groups = None if problem.groups is None else self._group_names
        self._named = NamedUnits.of(kind, problem.rows, self.classes_, groups)
        tables = [problem.rows] if problem.validation is None else [problem.rows, problem.validation[1]]
        self._pools = Pools.small(self._named, tables, self.min_unit_rows)
        self._few_cells = kind == "class" or few_cells(problem)

    def _joint_learner(self, problem: Problem) -> CellAdjustedClassifier:
        """Return the default learner over groups or cells: one fit answers the weights of all of them."""
        # Cells of a rare class need the forest beside the boosted trees, and the classes evened out. In games
        # over groups that is no better, and takes longer. See benchmarks/README.md.
        boosted = HistBoostClassifier(n_jobs=self.n_jobs) if self._named.kind == "group" else None
        return CellAdjustedClassifier(combinations(problem), boosted, n_jobs=self.n_jobs)

    def _name_groups(self, groups: Any, n: int) -> GroupNames:
        self._regrouped = True  # by other groups than those of the game
        return super()._name_groups(groups, n)

    def _warn(self) -> None:
        """Warn of what the fit found."""
        pools = self._pools
        rule = (
            "their errors are estimated on so few"
            if pools.trivial
            else "they steer the fit together with others, see unit_pools_"
        )
        units, few = self._named.names.tolist(), f"min_unit_rows={pools.least}"
        warn_of_small(self._named.kind, units, pools.size, few, pools.least, rule)

    @property
    def unit_pools_(self) -> Ints:
        """Number of the steering unit of each unit of the game."""
        return self._pools.of

    # -- what to expect elsewhere --------------------------------------------------------------------

    @property
    def unit_estimates_(self) -> Floats | None:
        """Error of `predict` on each unit, each half of the rows judged by the choice on the other half."""
        return self._of_units("predict_elsewhere")

    @property
    def unit_intervals_(self) -> Floats | None:
        """Intervals about `unit_estimates_`, shape (m, 2)."""
        return self._of_units("predict_interval")

    @property
    def expected_unit_estimates_(self) -> Floats | None:
        """As `unit_estimates_`, of the randomised classifier."""
        return self._of_units("randomised_elsewhere")

    @property
    def expected_unit_intervals_(self) -> Floats | None:
        """Intervals about `expected_unit_estimates_`, shape (m, 2)."""
        return self._of_units("randomised_interval")

    def _of_units(self, name: str) -> Floats | None:
        table = self.guarantee_.units
        return None if table is None else table.column(name)
