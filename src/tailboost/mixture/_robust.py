"""A mixture of any classifiers' answers that holds up on the worst class, group, cell or tail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, _fit_context
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils import Bunch, Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from tailboost._probe import probe_rows
from tailboost._rows import Sketch, hash_rows
from tailboost._torch_rows import unpack
from tailboost._typing import Floats
from tailboost.classifiers._input import (
    ValidationRows,
    check_group_arguments,
    check_validation,
    checked_groups,
    checked_table,
    checked_weight,
    input_tags,
    judged_rows,
    label_numbers,
    read_problem,
)
from tailboost.classifiers._randomized import RandomizedClassifier
from tailboost.combiners import Mixture, Objective
from tailboost.combiners.guarantee import Guarantee, guarantee
from tailboost.combiners.ledger import Ledger
from tailboost.combiners.objective import CVaR, WorstUnit
from tailboost.combiners.pool import Pool
from tailboost.data import Given, Rows, batches, lots, take
from tailboost.learners import HistBoostClassifier
from tailboost.mixture._fitting import check_estimators, fit_models
from tailboost.mixture._members import losses_of, name_of
from tailboost.mixture._pool import Kinds, members_of
from tailboost.mixture._tables import LogTable, Models, check_named, logs_of
from tailboost.solvers import BitLosses
from tailboost.targets import DECIMALS, NamedUnits, allowed_errors

OBJECTIVES = {"cvar": None, "worst_class": "class", "worst_group": "group", "worst_cell": "cell"}


class RobustMixtureClassifier(RandomizedClassifier, MetaEstimatorMixin, _BaseComposition):
    """Mix what any classifiers answer, so that the worst class, group, cell or tail errs least.

    Everything is a function of the models' class probabilities on rows that they were not fitted on. Each
    model, and the average of their log-probabilities, gives members to a pool: its answers, its answers under
    shifted class weights (``argmax_k log p_k + s_k``, [1]_, [2]_, the shifts played by Hedge on the errors of
    the classes or groups), for a CVaR draws from its probabilities and their powers, and the constants. An
    exact linear program then chooses the shares λ of the members; few of them get any.

    Parameters
    ----------
    estimators : list of (str, classifier), optional
        Named classifiers with ``predict_proba``, as in ``VotingClassifier``. One wrapped in
        ``FrozenEstimator`` is not fitted: the rows given to `fit`, or ``X_val``, must then be rows that it
        has not seen. None takes boosted trees (`HistBoostClassifier`), a random forest and extra trees.
    objective : {"worst_class", "worst_group", "worst_cell", "cvar"}, default="worst_class"
        What λ makes small: the largest error of a class, a group, a (class, group) cell, or the mean loss of
        the worst share ``alpha`` of the rows.
    alpha : float in (0, 1], optional
        Tail mass of the CVaR; needed for "cvar", without meaning else.
    max_error : float or dict, optional
        Error allowed to each class, group or cell: the largest excess is made small. A dict names units, None
        stands for the rest.
    mean_budget : float ≥ 0, optional
        The mean error may be at most that of the best member plus this, on the rows λ is chosen on.
    validation : {"auto", "cv"} or float in (0, 1), default="auto"
        Rows on which λ is chosen: out of fold by five-fold cross-fitting, or a held-out fraction. "auto" is
        ``X_val`` where `fit` is given one, else "cv" up to 50,000 distinct rows and 0.2 beyond. The models
        that stay are fitted on all rows.
    n_thresholds : int, default=40
        Shifts of every model.
    averages : bool, default=True
        Whether averages of the models' log-probabilities join: of all, and of the pairs of up to three.
    shares : bool or "auto", default="auto"
        Whether draws from the probabilities join; "auto" for a CVaR.
    include_constants : bool, default=True
        Whether the K constant answers join.
    n_jobs : int, optional
        Fits at the same time, as in joblib.
    random_state : int, RandomState or None
        Seeds the folds and the estimators that have no seed of their own.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    members_ : list of str
        What each member of the pool is.
    estimator_weights_ : ndarray of shape (n_members,)
        λ: the share of each member.
    estimators_ : list of classifiers
        The fitted models, on class numbers; empty after `from_probabilities`.
    named_estimators_ : Bunch
        The same by name.
    units_ : list
        The classes, groups or cells; None for a CVaR.
    unit_errors_ : ndarray of shape (m,)
        Error of `predict` on each, on the rows λ was chosen on: an estimate that is too low by the choice.
    bound_met_ : bool or None
        Whether these errors are all at most ``max_error``; None without one.
    gap_ : float
        Optimality gap of λ.
    objective_ : Objective
        What λ minimises.
    guarantee_ : Guarantee
        What was achieved, in words.
    validation_ : str or float
        What "auto" chose.
    n_features_in_ : int
        Columns of X in `fit`.

    See Also
    --------
    WorstClassBoostClassifier : Trains members for the worst class.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI 2001, theorem 2.
    .. [2] A. Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, section 4.1.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from tailboost import RobustMixtureClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> forest = RandomForestClassifier(30, random_state=0)
    >>> mix = RobustMixtureClassifier([("forest", forest), ("bayes", GaussianNB())], random_state=0)
    >>> mix.fit(X[::2], y[::2]).predict(X[1::2]).shape
    (89,)
    >>> P = {"forest": forest.fit(X[::2], y[::2]).predict_proba(X[1::2])}
    >>> after = RobustMixtureClassifier.from_probabilities(P, y[1::2], mean_budget=0.01)
    >>> after.predict_from(P).shape
    (89,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimators": [list, None],
        "objective": [StrOptions(set(OBJECTIVES))],
        "alpha": [Interval(Real, 0, 1, closed="right"), None],
        "max_error": [Interval(Real, 0, 1, closed="right"), dict, None],
        "mean_budget": [Interval(Real, 0, None, closed="left"), None],
        "validation": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto", "cv"})],
        "n_thresholds": [Interval(Integral, 0, None, closed="left")],
        "averages": ["boolean"],
        "shares": ["boolean", StrOptions({"auto"})],
        "include_constants": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimators: list[tuple[str, Any]] | None = None,
        *,
        objective: str = "worst_class",
        alpha: float | None = None,
        max_error: Any = None,
        mean_budget: float | None = None,
        validation: Any = "auto",
        n_thresholds: int = 40,
        averages: bool = True,
        shares: bool | str = "auto",
        include_constants: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimators = estimators
        self.objective = objective
        self.alpha = alpha
        self.max_error = max_error
        self.mean_budget = mean_budget
        self.validation = validation
        self.n_thresholds = n_thresholds
        self.averages = averages
        self.shares = shares
        self.include_constants = include_constants
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- parameters ----------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` those of the named estimators too, as ``name__parameter``."""
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also ``name`` and ``name__parameter`` of the named estimators."""
        self._set_params("estimators", **params)
        return self

    def _chosen_estimators(self) -> list[tuple[str, Any]]:
        if self.estimators is None:
            return default_estimators()
        return list(self.estimators)

    def _check_objective(self, groups: Any) -> None:
        if self.objective == "cvar" and self.alpha is None:
            raise ValueError("objective='cvar' needs alpha, the tail mass in (0, 1]")
        if self.objective != "cvar" and self.alpha is not None:
            raise ValueError(f"alpha={self.alpha!r} has no meaning with objective={self.objective!r}")
        if self.objective == "cvar" and self.max_error is not None:
            raise ValueError("max_error has no meaning with objective='cvar'")
        if self.objective in ("worst_group", "worst_cell") and groups is None:
            raise ValueError(f"objective={self.objective!r} needs groups")

    # -- fitting -------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Fit the models and choose the shares λ.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The rows, in a form that all estimators take.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights; 2 counts as the row twice. Every estimator that is fitted must take them.
        groups : array-like of shape (n,), optional
            Group of each row, for the objectives over groups; not needed to predict.
        X_val, y_val, groups_val, sample_weight_val : optional
            Rows to choose λ on, which no estimator was fitted on; needs ``validation="auto"``.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described, or an estimator cannot take part; nothing is fitted then.
        """
        X, y = unpack(X, y)
        self._check_objective(groups)
        estimators = self._chosen_estimators()
        self._check_names(estimators)
        check_estimators(estimators, sample_weight is not None)
        validation = ValidationRows(X_val, y_val, groups_val, sample_weight_val).unpacked()
        problem = read_problem(self, self, X, y, sample_weight, groups, None)
        if validation.given:
            check_group_arguments(groups, validation)
            check_validation(validation, self.validation)
            problem.validation = judged_rows(self, self, validation, "_val", "the {:,} rows of X_val")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        found = fit_models(
            estimators,
            problem,
            self.classes_,
            validation=self.validation,
            weighted=sample_weight is not None,
            seed=seed,
            n_jobs=self.n_jobs,
        )
        self.validation_ = found.validation
        words = f"out-of-fold probabilities of the {len(problem.y):,} training rows"
        rows = found.rows if found.validation != "cv" else replace(found.rows, words=words)
        self._settle(found.models, found.logs, rows)
        self.estimators_ = found.models.fitted
        self.named_estimators_ = Bunch(**dict(zip(found.models.names, found.models.fitted, strict=True)))
        self.probe_rows_ = probe_rows(problem.X, seed)  # by them a model file is checked
        self.seen_rows_ = Sketch.of(problem.hashes)  # by them rows that were fitted on are known
        return self

    def _check_names(self, estimators: list[Any]) -> None:
        if not estimators:
            raise ValueError("estimators must hold at least one (name, classifier) pair, got []")
        for pair in estimators:
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
                raise TypeError(f"estimators must be a list of (name, classifier) pairs, got {pair!r} in it")
        self._validate_names([name for name, _ in estimators])

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Mapping[str, Any],
        y: Any,
        *,
        objective: str = "worst_class",
        groups: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
        **params: Any,
    ) -> Self:
        """Return a mixture of models of which only the probabilities are known: a service, a net, a file.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            Class probabilities of each model, on rows that it was not fitted on. With two classes, those of
            the second may be given alone, shape (n,). Rows may be off 1 by .01, as printed numbers are, and
            are scaled.
        y : array-like of shape (n,)
            Labels of these rows.
        objective : {"worst_class", "worst_group", "worst_cell", "cvar"}, default="worst_class"
            As in the class.
        groups : array-like of shape (n,), optional
            Group of each row.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        classes : array-like of shape (K,), optional
            The labels in the order of the columns; by default those of y, sorted.
        **params
            Other parameters of the class: ``alpha``, ``max_error``, ``mean_budget``, …

        Returns
        -------
        RobustMixtureClassifier
            Which answers by `predict_from` and `predict_proba_from`, and is otherwise as after `fit`.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described.
        """
        mix = cls(objective=objective, **params)
        mix._validate_params()
        mix._check_objective(groups)
        check_named(probabilities)
        labels, numbers = np.unique(np.asarray(y), return_inverse=True)
        mix.classes_ = labels if classes is None else np.asarray(classes)
        if len(np.unique(mix.classes_)) != len(mix.classes_) or len(mix.classes_) < 2:
            raise ValueError(f"classes must be at least two different labels, got {mix.classes_.tolist()}")
        numbers = label_numbers(mix.classes_, y)
        n, K = len(numbers), len(mix.classes_)
        names = [str(name) for name in probabilities]
        logs = [logs_of(P, f"probabilities[{a!r}]", n, K, "y") for a, P in probabilities.items()]
        weight = checked_weight(sample_weight, logs[0], "sample_weight")
        used, group_numbers = weight > 0, None
        if groups is not None:
            groups = checked_groups(groups, "groups", n)
            mix.groups_, group_numbers = np.unique(groups[used], return_inverse=True)
        words = f"the {int(used.sum()):,} rows given to from_probabilities"
        rows = Rows(numbers[used], weight[used], group_numbers, words, None, Given(n).part(used))
        mix.estimators_, mix.named_estimators_, mix.validation_ = [], Bunch(), "probabilities"
        mix._settle(Models(names, K, [], []), [table[used] for table in logs], rows)
        return mix

    def _settle(self, models: Models, logs: list[Floats], rows: Rows) -> None:
        """Make the pool from log-probabilities of the judged rows and choose λ: all that is not training."""
        rows = replace(rows, lots=lots(hash_rows(np.hstack(logs))))  # halves as equal as the probabilities
        table, aim, rows = LogTable.of(logs), *self._aim(rows)
        units = rows.y if self.objective in ("cvar", "worst_class") else rows.groups
        assert units is not None
        kinds = Kinds(
            int(self.n_thresholds),
            bool(self.averages),
            bool(self.include_constants),
            self.objective == "cvar" if self.shares == "auto" else bool(self.shares),
        )
        members = members_of(models, table, rows, units, kinds)
        ledger = Ledger(rows, losses_of(members, table, rows.y), BitLosses(len(rows.y)))
        self.combiner_ = Mixture(aim, models.n_classes)
        self.combiner_.pool = Pool(ledger, [], list(members))
        self._set_ensemble()
        if self.units_ is not None:
            wrong = BitLosses.from_rows(self._shares(table).argmax(axis=1)[None] != rows.y)
            of_predict = Ledger(rows, wrong, BitLosses(len(rows.y)))
            errors, used = of_predict.unit_errors("units", units)
            self.unit_errors_ = np.full(len(self.units_), np.nan)
            self.unit_errors_[used] = errors[0]
            self.bound_met_ = None
            if self.max_error is not None:
                allowed = allowed_errors(self.max_error, self.units_, aim.unit)
                self.bound_met_ = bool((self.unit_errors_ <= allowed + 10.0**-DECIMALS).all())

    def _aim(self, rows: Rows) -> tuple[Objective, Rows]:
        """Return the objective, and the rows with their units as groups."""
        kind = OBJECTIVES[self.objective]
        if kind is None:
            assert self.alpha is not None
            self.units_ = None
            return CVaR(float(self.alpha)), rows
        named = NamedUnits.of(kind, rows, self.classes_, getattr(self, "groups_", None))
        self.units_ = list(named.names.tolist())
        penalty = None
        if self.max_error is not None:
            allowed = allowed_errors(self.max_error, self.units_, kind)
            penalty = tuple((allowed.max() - allowed).tolist())
        by_class = kind == "class"
        return WorstUnit(kind, penalty, by_class), rows if by_class else named.number(rows)

    def _set_ensemble(self) -> None:
        ensemble = self.combiner_.stage(self.combiner_.pool.n_rounds)
        # Members without a share settle no tie, so that no model is asked for that alone.
        order = ensemble.tie_order[ensemble.weights[ensemble.tie_order] > 0]
        self.ensemble_ = replace(ensemble, tie_order=order)
        self.gap_ = max(0.0, self.ensemble_.gap)
        self.__dict__.pop("_guarantee", None)

    # -- answers -------------------------------------------------------------------------------------

    @property
    def estimator_weights_(self) -> Floats:
        """The share λ of each member, in the order of `members_`."""
        return self.ensemble_.weights

    @property
    def members_(self) -> list[str]:
        """What each member is."""
        return [name_of(member, self.classes_) for member in self.ensemble_.members]

    @property
    def objective_(self) -> Objective:
        """What λ minimises."""
        return self.combiner_.objective

    @property
    def guarantee_(self) -> Guarantee:
        """What was achieved, against the best member alone and against constants, in words."""
        check_is_fitted(self)
        if "_guarantee" not in self.__dict__:
            self._guarantee = guarantee(
                None,
                self.combiner_,
                self.estimator_weights_,
                self.gap_,
                ((), ()),
                self.classes_.tolist(),
                self.members_,
            )
        return self._guarantee

    def _shares(self, table: LogTable) -> Floats:
        """Return each label's share, ties settled, from log-probabilities of the models that have a share."""
        ensemble = self.ensemble_
        used = np.flatnonzero(ensemble.weights > 0)
        said = {m: ensemble.members[m].predict_table(table) for m in used.tolist()}
        return ensemble.mix(said.values(), table.n_rows, lambda m, rows: said[m][rows])

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        models = self._models
        if not models.fitted:
            raise AttributeError(
                "there are no models behind from_probabilities: give their probabilities of the new rows to "
                "predict_from or predict_proba_from"
            )
        X = checked_table(self, self, X)
        return np.concatenate([self._shares(models.transform(take(X, part))) for part in batches(X)])

    def predict_proba_from(self, probabilities: Mapping[str, Any]) -> Floats:
        """Return `predict_proba` for rows of which the models' probabilities are given.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            Class probabilities by the models' names, columns in the order of ``classes_``; models without a
            share (see `used_models_`) may be left out.

        Returns
        -------
        ndarray of shape (n, K)
            The label distribution of the randomised classifier.

        Raises
        ------
        ValueError, TypeError
            If probabilities are missing, of an unknown name, or none.
        """
        check_is_fitted(self)
        needed = [self._models.names.index(name) for name in self.used_models_]
        return self._shares(self._models.given(probabilities, needed))

    def predict_from(self, probabilities: Mapping[str, Any]) -> NDArray[Any]:
        """Return `predict` for rows of which the models' probabilities are given.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            As in `predict_proba_from`.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in ``classes_``.
        """
        return self.classes_[self.predict_proba_from(probabilities).argmax(axis=1)]

    @property
    def used_models_(self) -> list[str]:
        """Names of the models that members with a share use: only these are asked."""
        ensemble = self.ensemble_
        used = {i for m in np.flatnonzero(ensemble.weights > 0) for i in ensemble.members[m].source}
        return [self._models.names[i] for i in sorted(used)]

    @property
    def _models(self) -> Models:
        models: Models = self.ensemble_.members[0].table_
        return models

    # -- scikit-learn --------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        estimators = [pair[1] for pair in self._chosen_estimators() if len(pair) == 2]
        each = [input_tags(estimator) for estimator in estimators if hasattr(estimator, "fit")]
        tags.input_tags.sparse = all(own.sparse for own in each)
        tags.input_tags.allow_nan = all(own.allow_nan for own in each)
        return tags


def default_estimators() -> list[tuple[str, Any]]:
    """Return the estimators that ``estimators=None`` stands for."""
    return [
        (
            "boosted",
            HistBoostClassifier(n_estimators=100, max_depth=4, learning_rate=0.1, vector_leaves=False),
        ),
        ("forest", RandomForestClassifier(min_samples_leaf=2)),
        ("extra", ExtraTreesClassifier(min_samples_leaf=2)),
    ]
