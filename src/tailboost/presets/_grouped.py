"""What classifiers for classes, groups and cells share: a game with a learner, or else a mixture."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from tailboost._torch_rows import unpack
from tailboost._typing import Floats, Ints
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import ValidationRows, check_group_arguments
from tailboost.classifiers.mixture import ValidatedMixtureClassifier, routed_params, with_callbacks
from tailboost.classifiers.parameters import with_constructor
from tailboost.classifiers.target_game import warn_of_small
from tailboost.data import GroupNames, Problem
from tailboost.mixture import RobustMixtureClassifier
from tailboost.statements.guarantee import Bounds, hedge_game_bounds
from tailboost.targets import NamedUnits, Pools
from tailboost.validation import N_FOLDS

# What only a game has.
OF_GAMES = ("game_", "trace_", "n_iter_", "unit_weights_", "gamma_", "eta_")


class OfMixture:
    """A method or property in whose place that of the mixture stands, where one answers (a descriptor)."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.own
        mixture = vars(instance).get("mixture_")
        return self.own.__get__(instance, owner) if mixture is None else getattr(mixture, self.name)


class Found:
    """What a fit over units finds: declared apart, so that it is no parameter of a constructor."""

    mixture_: RobustMixtureClassifier
    units_: Any
    unit_errors_: Any
    expected_unit_errors_: Any
    eta: float | str
    _named: NamedUnits
    _pools: Pools


@with_constructor
class GroupedBoostClassifier(ValidatedMixtureClassifier, Found):
    """A mixture from a game over classes, groups or cells, of which small ones steer together.

    Where nothing asks for a game, a `RobustMixtureClassifier` for the same units answers instead.
    """

    mean_budget: float | None = None
    min_unit_rows: int = 10
    validation: Any = "auto"
    include_constants: bool = True
    tol: float = 1e-3

    _checked = OfMixture(ValidatedMixtureClassifier._checked)
    _rows_kept = OfMixture(ValidatedMixtureClassifier._rows_kept)
    combiner_ = OfMixture(ValidatedMixtureClassifier.combiner_)
    gap_ = OfMixture(ValidatedMixtureClassifier.gap_)
    guarantee_ = OfMixture(ValidatedMixtureClassifier.guarantee_)
    objective_ = OfMixture(ValidatedMixtureClassifier.objective_)
    predict = OfMixture(ValidatedMixtureClassifier.predict)
    predict_proba = OfMixture(ValidatedMixtureClassifier.predict_proba)
    predict_randomized = OfMixture(ValidatedMixtureClassifier.predict_randomized)
    predict_shares = OfMixture(ValidatedMixtureClassifier.predict_shares)
    predict_with = OfMixture(ValidatedMixtureClassifier.predict_with)
    reweight = OfMixture(ValidatedMixtureClassifier.reweight)
    tradeoff = OfMixture(ValidatedMixtureClassifier.tradeoff)

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
        """Play the game and combine the hypotheses; without an estimator, choose thresholds.

        Parameters
        ----------
        {{X}}
        {{y}}
        {{sample_weight}}
        {{groups}}
            The errors are theirs, or those of the cells of class and group; without them of the classes.
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
        if self._plays:
            if hasattr(self, "mixture_"):
                self._forget()
            X, y = unpack(X, y)
            groups, validation = self._groups_of_game(y, groups, validation.unpacked())
            self._fit(X, y, sample_weight, groups, validation, fit_params)
            self._warn()
            return self
        routed_params(self, fit_params)
        mixture = RobustMixtureClassifier(
            mean_budget=self.mean_budget,
            cv=N_FOLDS if self.validation == "cv" else self.validation,
            class_weight=self.class_weight,
            max_time=self.max_time,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
            **self._wishes(groups),
        ).fit(
            X,
            y,
            sample_weight=sample_weight,
            groups=groups,
            X_val=X_val,
            y_val=y_val,
            groups_val=groups_val,
            sample_weight_val=sample_weight_val,
        )
        self._forget()
        self._answer_by(mixture)
        return self

    @abstractmethod
    def _check_arguments(self, groups: Any) -> None:
        """Raise ValueError where parameters do not suit each other or the groups."""

    # -- without a game ------------------------------------------------------------------------------

    @property
    def _plays(self) -> bool:
        """Whether a game is played: with a learner, or where it is asked for what only a game has."""
        return self.estimator is not None or self.validation == "train"

    @abstractmethod
    def _wishes(self, groups: Any) -> dict[str, Any]:
        """Return the objective of the mixture that answers where no game is played, and what else it has."""

    def _answer_by(self, mixture: RobustMixtureClassifier) -> None:
        """Take what a fitted mixture says of itself."""
        self.mixture_ = mixture
        for name, value in vars(mixture).items():
            if name.endswith("_") and not hasattr(type(self), name):
                setattr(self, name, value)
        units: Any = mixture.units_
        self.units_ = np.empty(len(units), dtype=object)  # of pairs, too
        self.units_[:] = units
        if not any(isinstance(unit, tuple) for unit in units):
            self.units_ = np.array(units)
        draws = mixture.ensemble_.draws
        self.expected_unit_errors_ = self._of_units("value", "randomised") if draws else mixture.unit_errors_

    def _forget(self) -> None:
        """Drop what an earlier fit of another kind found."""
        params = self.get_params(deep=False)
        for name in [name for name in vars(self) if name.endswith("_") or name in ("_run", "_guarantee")]:
            if name not in params:
                delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        if name in OF_GAMES and "mixture_" in vars(self):
            raise AttributeError(f"{name}: no game was played, thresholds were chosen; give an estimator")
        if isinstance(vars(GroupedBoostClassifier).get(name), OfMixture):
            check_is_fitted(self)  # the property has said so already, by an error that means there is none
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- the game ------------------------------------------------------------------------------------

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
        """Number of the steering unit of each unit; without a game each steers for itself."""
        return np.arange(len(self.units_)) if hasattr(self, "mixture_") else self._pools.of

    def _bounds(self) -> Bounds:
        return hedge_game_bounds(self.game_, None, self.eta, self._most_rounds())

    # -- intervals -----------------------------------------------------------------------------------

    @property
    def unit_intervals_(self) -> Floats | None:
        """95 % intervals for the errors of `predict` on new rows, shape (m, 2)."""
        return self._intervals("predict")

    @property
    def expected_unit_intervals_(self) -> Floats | None:
        """95 % intervals for the expected errors of the randomised classifier on new rows, shape (m, 2)."""
        return self._intervals("randomised")

    def _intervals(self, rule: str) -> Floats | None:
        table = self.guarantee_.units
        return None if table is None else table.intervals(rule)
