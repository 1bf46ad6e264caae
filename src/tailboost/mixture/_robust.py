"""A mixture of any classifiers' answers that holds up on the worst class, group, cell or tail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _BaseComposition

from tailboost._checks import check_costs, n_rows_of, numbered, refuse_missing
from tailboost._probe import probe_rows
from tailboost._rows import Sketch
from tailboost._torch_rows import unpack
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import (
    ValidationRows,
    check_group_arguments,
    check_validation,
    input_tags,
    judged_rows,
    read_problem,
)
from tailboost.classifiers.parameters import naming_near
from tailboost.data import Problem, Rows, take
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import TableLinear
from tailboost.learners.named import named_learner
from tailboost.mixture._aim import OBJECTIVES, check_parameters
from tailboost.mixture._choice import ProbabilityMixture
from tailboost.mixture._fitting import MOST_PARTS, Clock, check_estimators, fit_models
from tailboost.mixture._rated import warn_of_noise
from tailboost.mixture._tables import Models, check_named
from tailboost.rates import Largest, Limit, Rate
from tailboost.statements.known_rows import holds_unknown, noting_frozen, noting_seen
from tailboost.targets import restored, storable
from tailboost.validation import N_FOLDS


@documented
class RobustMixtureClassifier(MetaEstimatorMixin, ProbabilityMixture, _BaseComposition):
    """Mix what any classifiers answer, so that the worst class, group, cell or tail errs least.

    Everything is a function of the models' class probabilities on rows that they were not fitted on. Each
    model, and a learned average of their log-probabilities [4]_, gives members to a pool: its answers, its
    answers under weights of the classes, or of the classes in each group (``argmax_a Σ_s p(s|x) Q[s, a]``,
    [1]_, [2]_, the prices Q played by Hedge on the errors of the units), for a CVaR draws from its
    probabilities and their powers, and the constants. The best member within the budget then answers; where
    members may share λ, as for a CVaR, an exact linear program chooses the shares, and few of them get any.

    A group that is not told where it answers is inferred: p(group | x, class) is learned from the features,
    out of fold, or from the models' probabilities where there are no features, as in `from_probabilities`,
    in `reweight` to units that were not asked for before, and for images and tables of over 1,000 columns.

    Parameters
    ----------
    estimators : list of (str, classifier or str) or dict, optional
        Named classifiers with ``predict_proba``, as in ``VotingClassifier``, or names of learners, as
        ("boosted", "xgboost"); see `tailboost.learners.named`. One wrapped in
        ``FrozenEstimator`` is not fitted: the rows given to `fit`, or ``X_val``, must then be rows that it
        has not seen. None takes boosted trees (`HistBoostClassifier`), a forest, half of it extremely
        randomised trees, half trees of a random forest, and a logistic regression, which read one table of
        numbers and categories.
    objective : {"worst_class", "worst_group", "worst_cell", "cvar", "error"}, rate or largest, optional
        What is made small: the largest error of a class, a group, a (class, group) cell, the mean loss of the
        worst share ``alpha`` of the rows, the mean error; or any rate of `tailboost.rates`, or the largest
        of a family. None is "worst_class", and with limits the mean error.
    limits : list of Limit or str, default=()
        Limits from `tailboost.rates`: ``[rates.gap(rates.selected("yes", by="sex")) <= 0.02]``, or as text.
        With limits, or another rate than the largest error of a class, group or cell, thresholds are found by
        column generation on tallies of the rows.
    alpha : float in (0, 1], optional
        Tail mass of the CVaR; needed for "cvar", without meaning else.
    max_error : float or dict, optional
        Error allowed to each class, group or cell, a limit: of the rules that keep it, on the rows of the
        choice and by the estimate on halves of them, the one of least mean error answers, and where none
        does the one that is least beyond it. A dict names units, None stands for the rest.
    mean_budget : float in [0, 1], optional
        The mean error may be at most that of the best member plus this, on the rows λ is chosen on; or that
        of a member whose difference from the best is within one standard error: what is tied is free. Where
        rows may be passed on, the best is the least mean error of rules that pass on as many.
    cv : "auto", int, float in (0, 1), splitter or iterable, default="auto"
        Rows on which λ is chosen. An int is that many folds: out-of-fold probabilities of all rows; a float
        is the fraction held out; a splitter of scikit-learn, or an iterable of (fitted, held-out) row
        numbers, says itself what is held out, each row once at most. "auto" is ``X_val`` where `fit` is given
        one, else five folds, three of more than 5,000 distinct rows; of more than 50,000 a fifth is held out
        if it has 20 rows of each class in a group. What stays of an estimator is fitted on all rows; of
        boosted trees (`HistBoostClassifier`) it is the mean of the models of the folds, where these are
        complements of each other. Where all estimators are frozen, "auto" chooses on all rows given.
    n_thresholds : int, default=40
        Shifts of every model.
    shrinkage : float ≥ 0, default=10.0
        Pseudo-rows s by which the choice doubts errors measured on few rows: λ and the shifts follow
        ``(n e + s ē)/(n + s)`` instead of the error e of a unit of n rows; ē is the mean over the units. One
        member alone is chosen by the largest error to be expected where each is normal about that value with
        the variance of its n + s rows, and where e is a kernel estimate (Azzalini 1981): a row near the
        threshold counts in part on either side. What is reported are the plain errors; 0 believes them.
    averages : bool, default=True
        Whether averages of the models' log-probabilities join: of all, and of the pairs of up to three. Their
        weights, at least 0, and an offset for each class are those of the least log loss on the rows λ is
        chosen on, drawn towards even weights and no offsets by 10 pseudo-rows. Where the weights sum to more
        than 1, the models together are surer than each by itself.
    shares : bool or "auto", default="auto"
        Whether draws from the probabilities join; "auto" for a CVaR.
    include_constants : bool, default=True
        Whether the K constant answers join.
    randomized : bool or "auto", default="auto"
        Whether members may share λ. False gives all of it to the one member that is best within the budget
        (not for "cvar"): the errors promised are then those of `predict`, the price of it is ``gap_``. "auto"
        shares for a CVaR and where ``shares=True``: there a draw gains what no member has alone.
    by_group : bool, default=False
        Whether answers may depend on the group, for "worst_group" and "worst_cell" over one column of groups:
        each group then has prices of its own, and `predict` takes ``groups``. Where the group may not
        count in a decision, by law or otherwise, leave it False.
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn, times ``sample_weight``: in the fits of the models, so in
        `predict_proba`, and in what a mean is over, as of ``mean_budget``. The error of a class is the same.
    max_time : float, optional
        Seconds after which no further estimator is begun, and one that is not fitted for all folds is left
        out, with a warning; the first is always fitted. The choice on their probabilities comes after.
    n_jobs : int, optional
        Fits at the same time, as in joblib.
    random_state : int, RandomState or None
        Seeds the folds and the estimators that have no seed of their own.
    verbose : int, default=0
        Above 0 each fit and its seconds are printed.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    members_ : list of str
        What each member of the pool is.
    estimator_weights_ : ndarray of shape (n_members,)
        λ: the share of each member.
    units_ : list
        The classes, groups or cells; None for a CVaR.
    unit_errors_ : ndarray of shape (m,)
        Error of `predict` on each, on the rows λ was chosen on: an estimate that is too low by the choice.
    {{unit_estimates_}}
    {{unit_intervals_}}
    bound_met_ : bool or None
        Whether these errors are all at most ``max_error``, and the estimates by which the choice was made;
        None without one.
    gap_ : float
        Optimality gap of λ: no other λ makes what it minimises, among the mixtures that are as cheap, lower
        by more than this. One member alone is chosen by its largest error to be expected on other rows; there
        the gap is about the largest error drawn towards the mean, on the rows of the choice, and says how
        much lower members that share λ could bring that. With ``max_error`` it is the gap of the trade-off.
    rates_ : RateTable or None
        Where rates were stated, each by unit, on the rows of the choice, with an estimate on each half of
        them by a choice on the other, its 95 % interval, and the limit.
    limits_met_ : bool or None
        Whether all limits are kept on the rows of the choice; None without limits.
    objective_ : Objective
        What λ minimises.
    guarantee_ : Guarantee
        What was achieved, in words.
    validation_ : str, int or float
        What "auto" chose: "cv", a fraction, "X_val", or "frozen" where all rows judge frozen estimators.
    n_features_in_ : int
        Columns of X in `fit`.

    Warns
    -----
    FitInterruptedWarning
        Names the estimators that ``max_time`` left out.
    BoundNotMetWarning
        Names the units whose error of `predict` is above ``max_error``, on the rows of the choice or by the
        estimate, and by how much.
    SmallUnitsWarning
        Names the units with fewer than 10 different rows to choose on.

    See Also
    --------
    WorstClassBoostClassifier : Trains members for the worst class.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI 2001, theorem 2.
    .. [2] A. Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, section 4.1.
    .. [3] A. Azzalini, "A note on the estimation of a distribution function and quantiles by a kernel
       method", Biometrika 68, 1981.
    .. [4] C. Genest and J. Zidek, "Combining probability distributions", Statistical Science 1, 1986.

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
        "objective": [StrOptions({*OBJECTIVES, "error"}), Rate, Largest, None],
        "limits": [list, tuple, str, Limit],
        "alpha": [Interval(Real, 0, 1, closed="right"), None],
        "max_error": [Interval(Real, 0, 1, closed="right"), dict, None],
        "mean_budget": [Interval(Real, 0, 1, closed="both"), None],
        "cv": [
            Interval(Real, 0, 1, closed="neither"),
            Interval(Integral, 2, MOST_PARTS, closed="both"),
            StrOptions({"auto"}),
            HasMethods(["split", "get_n_splits"]),
            list,
            tuple,
            Iterator,
            None,
        ],
        "n_thresholds": [Interval(Integral, 0, None, closed="left")],
        "shrinkage": [Interval(Real, 0, None, closed="left")],
        "averages": ["boolean"],
        "shares": ["boolean", StrOptions({"auto"})],
        "include_constants": ["boolean"],
        "randomized": ["boolean", StrOptions({"auto"})],
        "by_group": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @naming_near
    def __init__(
        self,
        estimators: list[tuple[str, Any]] | dict[str, Any] | None = None,
        *,
        objective: Any = None,
        limits: Any = (),
        alpha: float | None = None,
        max_error: Any = None,
        mean_budget: float | None = None,
        cv: Any = "auto",
        n_thresholds: int = 40,
        shrinkage: float = 10.0,
        averages: bool = True,
        shares: bool | str = "auto",
        include_constants: bool = True,
        randomized: bool | str = "auto",
        by_group: bool = False,
        class_weight: Any = None,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimators = _pairs(estimators)
        self.objective = objective
        self.limits = limits
        self.alpha = alpha
        self.max_error = max_error
        self.mean_budget = mean_budget
        self.cv = cv
        self.n_thresholds = n_thresholds
        self.shrinkage = shrinkage
        self.averages = averages
        self.shares = shares
        self.include_constants = include_constants
        self.randomized = randomized
        self.by_group = by_group
        self.class_weight = class_weight
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- parameters ----------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether the named estimators and their parameters are among them, as ``name__parameter``.

        Returns
        -------
        dict
        """
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params
            Also ``name`` and ``name__parameter`` of the named estimators.

        Returns
        -------
        self
        """
        if "estimators" in params:
            params["estimators"] = _pairs(params["estimators"])
        self._set_params("estimators", **params)
        return self

    def _chosen_estimators(self) -> list[tuple[str, Any]]:
        if self.estimators is None:
            return default_estimators()
        return [
            (pair[0], named_learner(pair[1], f"estimators: {pair[0]!r}"))
            if isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[1], str)
            else pair
            for pair in self.estimators
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "max_error": storable(self.max_error)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "max_error": restored(state["max_error"])})

    # -- fitting -------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        costs: Any = None,
        split_by: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups_val: Any = None,
        sample_weight_val: Any = None,
        costs_val: Any = None,
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
            Group of each row, for the objectives over groups; needed to predict with
            ``by_group=True`` alone.
        costs : array-like of shape (n, K) or data frame, optional
            Cost of each answer in each row, for ``rates.cost()``. The columns of an array are in the order of
            ``classes_``, those of a data frame are named by the labels.
        split_by : array-like of shape (n,), optional
            Who or what each row is of: a patient, a site, a week. Rows of one value stay together in folds,
            in held-out rows and in the halves behind `unit_estimates_`, so that these are about others. The
            `shrinkage` then counts values, not rows.
        X_val, y_val, groups_val, sample_weight_val, costs_val : optional
            Rows to choose λ on, which no estimator was fitted on; needs ``cv="auto"``.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described, or an estimator cannot take part; nothing is fitted then.
        """
        clock = Clock.of(self.max_time, bool(self.verbose))
        X, y = unpack(X, y)
        check_parameters(self, groups)
        estimators = self._chosen_estimators()
        self._check_names(estimators)
        weighted = sample_weight is not None or self.class_weight is not None
        check_estimators(estimators, weighted)
        validation = ValidationRows(X_val, y_val, groups_val, sample_weight_val).unpacked()
        frozen = all(isinstance(estimator, FrozenEstimator) for _, estimator in estimators)
        problem, found = read_problem(self, self, X, y, sample_weight, groups, self.class_weight)
        self.__dict__.pop("group_features_", None)  # of a fit before this one
        self.__dict__.update(found)
        if split_by is not None:
            problem.split_by = numbered(split_by, "split_by", problem.n_given)[problem.used]
            if (problem.split_by == problem.split_by[0]).all():
                raise ValueError(
                    "split_by has one value only: none of its rows can be held out without the others"
                )
        if groups is not None:
            self._check_columns()
        if validation.given:
            check_group_arguments(groups, validation)
            if not (isinstance(self.cv, str) and self.cv == "auto"):
                raise ValueError(f"cv={self.cv!r} and X_val were both given; use cv='auto'")
            check_validation(validation, "auto")
            if split_by is not None:
                raise ValueError("split_by and X_val were both given, but X_val is not split")
            X_val, rows_val = judged_rows(self, self, validation, "_val", "the {:,} rows of X_val")
            if not frozen:
                rows_val = noting_seen(problem.sketch, X_val, rows_val)
            problem.validation = X_val, rows_val
        stated, names = self._stated, getattr(self, "_group_names", None)
        judged_on, costs = problem.rows, check_costs(costs, problem.n_given, self.classes_, problem.used)
        if problem.validation is not None:
            judged_on = problem.validation[1]
            given = judged_on.given
            n, used = (len(judged_on.y), None) if given is None else (given.n_rows, given.index)
            costs = check_costs(costs_val, n, self.classes_, used, "costs_val")
        # What is not there is found before anything is fitted.
        if stated is None:
            self._aimed(judged_on)
        else:
            names = None if groups is None else names
            strata = stated.strata(judged_on, self.classes_, names, costs, told=self.by_group)[0]
            stated.check(strata)
            warn_of_noise(stated.limits, strata)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        judged, self.validation_ = fit_models(
            estimators,
            problem,
            self.classes_,
            cv=N_FOLDS if self.cv is None else self.cv,
            weighted=weighted,
            seed=seed,
            n_jobs=self.n_jobs,
            clock=clock,
        )
        given = problem.X if problem.validation is None else problem.validation[0]
        judged = self._learned(replace(judged, rows=noting_frozen(estimators, given, judged.rows)))
        if problem.validation is not None:
            features, known = problem.validation[0], costs
        else:
            places = _places(problem, judged.rows)
            known = None if costs is None else costs[places]
            features = take(problem.X, places)
        self._settle(judged, features, costs=known)
        self._warn(forewarned=True)
        self.probe_rows_ = probe_rows(problem.X, seed)  # by them a model file is checked
        # By these rows that were fitted on, or that λ was chosen on, are known: frozen models are not fitted.
        fitted_on = Sketch.of(np.empty(0, dtype=np.uint64)) if frozen else problem.sketch
        self.seen_rows_ = replace(fitted_on, complete=not holds_unknown(estimators))
        chosen_on = problem.sketch if frozen else None
        if problem.validation is not None:
            chosen_on = Sketch.of_rows(problem.validation[0])
        self.chosen_rows_ = () if chosen_on is None else (chosen_on,)
        return self

    def _check_names(self, estimators: list[Any]) -> None:
        if not estimators:
            raise ValueError("estimators must hold at least one (name, classifier) pair, got []")
        for pair in estimators:
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)):
                raise TypeError(f"estimators must be a list of (name, classifier) pairs, got {pair!r} in it")
            if not hasattr(pair[1], "__sklearn_tags__"):
                raise TypeError(
                    f"estimators: {pair[0]!r} is a {type(pair[1]).__name__}, which is no scikit-learn "
                    "classifier; let its class inherit from sklearn's ClassifierMixin and "
                    "BaseEstimator, or give its probabilities to from_probabilities"
                )
        self._validate_names([name for name, _ in estimators])

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Mapping[str, Any],
        y: Any,
        *,
        objective: Any = None,
        groups: Any = None,
        costs: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
        **params: Any,
    ) -> Self:
        """Return a mixture of models of which only the probabilities are known: a service, a net, a file.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            Class probabilities of each model, on rows that it was not fitted on: columns in the order of
            ``classes``, or a data frame whose columns are named by the labels, in any order. With two
            classes, those of the second may be given alone, shape (n,). Rows may be off 1 by .01, as printed
            numbers are, and are scaled.
        y : array-like of shape (n,)
            Labels of these rows.
        objective : optional
            As in the class.
        groups : array-like of shape (n,), optional
            Group of each row. Where groups are not told they are inferred from the probabilities alone.
        costs : array-like of shape (n, K), optional
            What each answer costs in each row.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows. A row given twice is two rows to the ``shrinkage``: contents are not known.
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
        mix = cls._unsettled(probabilities, groups, objective=objective, **params)
        refuse_missing(y, "y")
        models = mix._behind(probabilities, np.unique(column_or_1d(y)) if classes is None else classes)
        if groups is not None:
            mix._name_groups(groups)
        judged = mix._judged_by(models, probabilities, y, groups, sample_weight, "from_probabilities")
        judged = mix._learned(judged)
        used = None if judged.rows.given is None else judged.rows.given.index
        mix._settle(judged, costs=check_costs(costs, n_rows_of(y), mix.classes_, used))
        mix._warn()
        return mix

    @classmethod
    def _unsettled(cls, probabilities: Any, groups: Any, **params: Any) -> Self:
        """Return a classifier of these parameters, which are checked as far as they can be without rows."""
        mix = cls(**params)
        mix._validate_params()
        check_parameters(mix, groups)
        check_named(probabilities)
        mix.validation_ = "probabilities"
        return mix

    def _behind(self, probabilities: Mapping[str, Any], classes: Any) -> Models:
        """Set the classes, and return the models of which the probabilities are given by name."""
        self.classes_ = np.asarray(classes)
        if len(np.unique(self.classes_)) != len(self.classes_) or len(self.classes_) < 2:
            raise ValueError(f"classes must be at least two different labels, got {self.classes_.tolist()}")
        return Models(list(probabilities), len(self.classes_), [], [])

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


def _pairs(estimators: Any) -> Any:
    return list(estimators.items()) if isinstance(estimators, Mapping) else estimators


def _places(problem: Problem, judged: Rows) -> Any:
    """Return where judged rows are among the training rows."""
    if judged.given is None or judged.given.index is None:
        return np.arange(len(problem.y))
    return np.searchsorted(problem.used, judged.given.index)


def default_estimators() -> list[tuple[str, Any]]:
    """Return the estimators that ``estimators=None`` stands for.

    Returns
    -------
    list of (str, estimator)
    """
    return [
        (
            "boosted",
            HistBoostClassifier(n_estimators=100, max_depth=6, learning_rate=0.1, vector_leaves=False),
        ),
        ("forest", TableForest(n_trees="auto", leaf_rows=2.0, max_features=0.5, best_cuts=0.5, prior=0.05)),
        ("linear", TableLinear()),
    ]
