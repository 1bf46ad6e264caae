"""An ensemble of any classifiers whose decision rule holds up on the worst class, group, cell or tail."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Bunch, Tags, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.default_models import (
    DEFAULTS,
    TableKind,
    default_estimators,
    hurried,
)
from tailboost.classifiers.fitting import (
    MOST_PARTS,
    Clock,
    check_estimators,
    fit_models,
    named_models,
)
from tailboost.classifiers.input import (
    checked_table,
    class_factors,
    input_tags,
    noting_fitted,
    noting_seen,
    read_training_set,
    read_unlabeled,
    refuse_validation,
    selection_data,
    with_parameters,
)
from tailboost.classifiers.robust_selection import (
    ProbabilityMixture,
    check_columns,
    check_groups,
    engine_of,
    problem_of,
)
from tailboost.core.array_types import Column, Floats, Groups, Seed, Stated, Table
from tailboost.core.checks import (
    OneOf,
    check_costs,
    check_indexes,
    label_vector,
    n_rows_of,
    numbered,
    refuse_missing,
    refuse_swapped,
    take,
    unpack,
)
from tailboost.core.long_work import fitting_apart, telling
from tailboost.learners.named import named_learner
from tailboost.learners.protocols import TableLearner
from tailboost.learners.scores import as_classifier, as_fitted, needs_adapter, only_scores
from tailboost.rates import InfeasibleLimitsError, Largest, Limit, Rate
from tailboost.rows.fingerprints import (
    Fingerprint,
    digest,
    fingerprint_of,
    hash_rounded_rows,
)
from tailboost.rows.given import Given
from tailboost.rows.judged import group_uses
from tailboost.rows.probes import probe_rows
from tailboost.rows.readers import holds_unknown, records_of_fit
from tailboost.rows.records import NO_ROWS, Records
from tailboost.rows.rows import Rows
from tailboost.rows.training_set import N_FOLDS, TrainingSet
from tailboost.selection.answers import OpenedRows
from tailboost.selection.data import with_unlabeled
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.probabilities import Models, averaging, check_named, stacked
from tailboost.selection.problem import NAMED, Problem, combination_of_unlabeled, strata_of
from tailboost.selection.program import Program
from tailboost.selection.rule import digest_of_rule
from tailboost.selection.selected import warn_of_limits
from tailboost.selection.selection import Selection, Unselected
from tailboost.selection.summary import Summary


@with_parameters
class RobustMixtureClassifier(MetaEstimatorMixin, ProbabilityMixture, _BaseComposition):
    """Ensemble whose decision rule makes the largest error of a class, group or cell, or another rate, small.

    `fit` works in three steps:

    1. Each model is cross-fitted. The out-of-fold class probabilities of all models are averaged on the log
       scale [3]_, with weights of minimal log loss. A model that hardly lowers it gets no weight.
    2. Candidate decision rules are made. Each predicts the action of least expected cost under these
       probabilities, ``argmin_a Σ_s p(s|x) Q[s, a]`` [1]_ [2]_. For a largest rate the costs come from a game
       in which the subgroup with the largest rate gains weight; with limits, from the shadow prices of a
       linear program over confusion counts.
    3. The candidate with the least objective is selected among those within all limits on the selection data.

    `predict` applies the selected rule and is deterministic. `predict_proba` returns the averaged
    probabilities.

    By default the rule is group-blind: `predict` takes no group. If rates are about groups, the rule uses an
    estimate of p(group | x, class), cross-fitted on the features. Without features, and for images and tables
    of over 1,000 columns, the models' probabilities serve instead.

    Parameters
    ----------
    estimators : list of (str, classifier or str) or dict, optional
        Named classifiers with ``predict_proba``, as in ``VotingClassifier``, or names of learners, as
        ("boosted", "xgboost"); see `tailboost.learners.named`. One wrapped in
        ``FrozenEstimator`` is not fitted: the rows given to `fit`, or ``X_val``, must be new to this model.
        `Scores` and functions ``X -> probabilities`` are taken as fitted too.
        None takes boosted trees (`HistBoostClassifier`), a forest, half of it extremely
        randomised trees, half trees of a random forest, and a logistic regression, which read one table of
        numbers and categories. Up to 5,000 distinct rows a kernel machine is added. On more rows held-out
        rows decide how many boosted trees there are, on more than 50,000 the trees are deeper. A sparse
        matrix of more than 300 columns, such as text, gets two logistic regressions with different scales of
        the columns, and naive Bayes.
        "strong" adds extremely randomised trees and a larger kernel machine, but nothing for such a sparse
        matrix: see `strong_estimators`.
    objective : {"worst_class", "worst_group", "worst_cell", "cvar", "error"}, rate or largest, optional
        The minimised rate: the largest error of a class, a group or a (class, group) cell, the mean loss of
        the worst share ``alpha`` of the rows, the overall error; or any rate of `tailboost.rates`, or the
        largest of a family. None is "worst_class", and with limits the overall error.
        "worst_class" is short for ``rates.largest(rates.error(by="class"))``.
    limits : list of Limit or str, default=()
        Limits on rates of `tailboost.rates`: ``[rates.gap(rates.selected("yes", by="sex")) <= 0.02]``, or as
        text. A limit has no effect if the best rule without limits satisfies it.
    alpha : float in (0, 1], optional
        Tail mass of the CVaR, for "cvar" alone.
    max_error : float or dict, optional
        Error allowed to each subgroup of the objective: limits, within which the overall error is made small.
        ``max_error={1: 0.15, None: 1.0}`` is ``limits=[rates.error(by="class") <= {1: 0.15}]``. A dict names
        subgroups, None stands for the others. Where no rule keeps all of them, the one with the smallest
        violation answers, with a warning.
    error_budget : float in [0, 1], optional
        Largest overall error of the rule less that of the most accurate candidate: with .02 a rule may have
        an error of .22 if the least is .20. Both errors are measured on the selection data: 0 means no more
        error there than the most accurate candidate. If rows may be deferred, candidates within the limits on
        deferral are compared. None sets no limit.
    confidence : float in [0, 1), optional
        Probability with which all ``limits`` have to hold on new rows of the same distribution. It is an
        estimate from the selection data. Limits are tightened by a number of standard errors. Among the rules
        with this probability the one with the least objective is selected. If no rule is found, the most
        probable one answers, with a `ConfidenceNotReachedWarning`. The probability is known for limits on
        miss, false alarm, selection and deferral rates, and on their gaps and ratios, if the limits leave
        room beside each other. Other limits are not tightened, and the warning says so. `tailboost.calibrate`
        certifies every limit. Without limits a confidence is refused. None, the default, does not tighten: a
        rule of least error stops at its limit, and breaks it on about every second set of new rows.
    cv : "auto", int, float in (0, 1), splitter or iterable, default="auto"
        The selection data. An int is that many folds: out-of-fold probabilities of all rows; a float is the
        fraction held out; a splitter of scikit-learn, or an iterable of (fitted, held-out) row numbers, each
        row held out at most once. "auto" is ``X_val`` if given, otherwise five folds, three of
        more than 5,000 distinct rows; of more than 50,000 a fifth is held out if it has 20 rows of each class
        in a group. The final model of an estimator is fitted on all rows; for boosted trees
        (`HistBoostClassifier`) it is the mean of the models of the folds, if each row is
        held out once. If all estimators are frozen, "auto" selects on all rows given.
    randomized : bool or "auto", default="auto"
        Whether the rule may draw one of several candidates for each row. Their weights come from a linear
        program, which may keep limits that no single rule keeps. "auto" draws for a CVaR alone.
    by_group : bool, default=False
        Whether the rule may read the group, of one column of groups: each group then has thresholds of its
        own, and `predict` takes ``groups``. If a decision must not depend on the group, for example by law,
        leave it False.
    class_weight : dict or "balanced", optional
        Weights of the classes in the fits of the models, as in scikit-learn, times ``sample_weight``. Limits,
        objective and tables count rows by ``sample_weight`` alone.
    max_time : float, optional
        Time limit in seconds, after which no fit begins: the fits end at most one fit later. Estimators that
        are not fitted in all folds are left out, with a warning. If all are, the folds that the first one
        reached are the selection data, and its model of the first fold answers. The default models are
        fitted in another order: linear models, forest, boosted trees. Selection is not limited.
    n_jobs : int, optional
        Fits at the same time, as in joblib.
    random_state : int, RandomState or None
        Seeds the folds, and the estimators without a seed.
    verbose : int, default=0
        Above 0 each fit is printed, with the number of fits and about the time left; so is a prediction of
        more than five seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    candidates_ : list of str
        The selected candidates: usually one.
    estimator_weights_ : ndarray of shape (n_members,)
        λ: the mixture weight of each.
    rates_ : RateTable
        The rates of the objective and of the limits by subgroup, on the selection data, with 95 % intervals
        for the rates of this rule on new rows. Notes name the rates without an interval.
    subgroup_errors_ : dict
        Error of `predict` on each class, group or cell that the objective or a limit is about, on the
        selection data.
    limits_met_ : bool or None
        Whether all limits are kept on the selection data; None without limits.
    limits_probability_ : float or None
        Estimated probability that the rule keeps all limits on new rows, simulated from its confusion counts;
        for gaps and ratios it is too small. None without ``confidence``, and if it is not known.
    subgroups_ : list
        The subgroups of ``subgroup_errors_``.
    subgroup_intervals_ : ndarray of shape (m, 2)
        95 % intervals for the errors of `predict` on new rows of the same distribution: Clopper–Pearson
        intervals with effective numbers of rows. If the models are refitted on all rows, 1.96 standard
        deviations of a refit, at least .015, are added in quadrature. On 35 tables .96 of 196 class errors on
        test rows were inside. NaN with fewer than 10 rows, and where the selection finds favourable rows: if
        the limits leave little room, and with thresholds of more than three groups. `tailboost.certify` gives
        a guarantee.
    gap_ : float
        By how much a mixture of the candidates could lower the objective on the selection data within the
        limits; 0 if the rule is the best mixture.
    objective_ : Objective
        The minimised rate or CVaR.
    summary_ : Summary
        The errors by subgroup and the objective, compared with constants and the most accurate rule.
    validation_ : str, int or float
        The selection data: "cv", a fraction, "X_val", or "frozen" if all rows given to `fit` are used.
    n_features_in_ : int
        Columns of X in `fit`.

    Warns
    -----
    FitInterruptedWarning
        Names the estimators left out by ``max_time`` or Ctrl-C. Those with finished fits stay.
    BoundNotMetWarning
        Names the violated limits on the selection data.
    ConfidenceNotReachedWarning
        Says that no rule reaches ``confidence``, or why this is not known.
    SmallSubgroupsWarning
        Names the subgroups with fewer than 10 different rows of selection data.

    See Also
    --------
    WorstClassBoostClassifier : Boosts models for the worst class.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI 2001, theorem 2.
    .. [2] A. Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, section 4.1.
    .. [3] C. Genest and J. Zidek, "Combining probability distributions", Statistical Science 1, 1986.

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
    >>> after = RobustMixtureClassifier.from_probabilities(P, y[1::2], error_budget=0.01)
    >>> after.predict(P).shape
    (89,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimators": [list, OneOf("strong"), None],
        "objective": [OneOf(*NAMED, "cvar"), Rate, Largest, None],
        "limits": [list, tuple, str, Limit],
        "alpha": [Interval(Real, 0, 1, closed="right"), None],
        "max_error": [Interval(Real, 0, 1, closed="right"), dict, None],
        "error_budget": [Interval(Real, 0, 1, closed="both"), None],
        "cv": [
            Interval(Real, 0, 1, closed="neither"),
            Interval(Integral, 2, MOST_PARTS, closed="both"),
            OneOf("auto"),
            HasMethods(["split", "get_n_splits"]),
            list,
            tuple,
            Iterator,
            None,
        ],
        "confidence": [Interval(Real, 0, 1, closed="left"), None],
        "randomized": ["boolean", OneOf("auto")],
        "by_group": ["boolean"],
        "class_weight": [dict, OneOf("balanced"), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    estimators: Any = field(default=None, kw_only=False)
    objective: Stated = None
    limits: Stated = ()
    alpha: float | None = None
    max_error: Stated = None
    error_budget: float | None = None
    confidence: float | None = None
    cv: Any = "auto"
    randomized: bool | str = "auto"
    by_group: bool = False
    class_weight: Any = None
    max_time: float | None = None
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    def __post_init__(self) -> None:
        self.estimators = _pairs(self.estimators)

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
            _check_pairs(params["estimators"])
        self._set_params("estimators", **params)
        return self

    def _given_estimators(self) -> list[tuple[str, Any]]:
        if not self.estimators:
            raise ValueError(
                "estimators must hold at least one (name, classifier) pair, got []"
            )
        _check_pairs(self.estimators)
        return [
            (
                name,
                named_learner(model, f"estimators: {name!r}")
                if isinstance(model, str)
                else model,
            )
            for name, model in self.estimators
        ]

    # -- fitting -------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Table,
        y: Column = None,
        *,
        sample_weight: Column = None,
        groups: Groups = None,
        costs: Table = None,
        clusters: Column = None,
        X_val: Table = None,
        y_val: Column = None,
        groups_val: Groups = None,
        sample_weight_val: Column = None,
        costs_val: Table = None,
        X_unlabeled: Table = None,
        groups_unlabeled: Groups = None,
        training_rows: Table = None,
    ) -> Self:
        """Fit the models and select the rule.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The rows, in a form accepted by all estimators.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights; a row of weight 2 counts twice. Weights of a mean below 1, or above 1e9, are relative:
            they are scaled to mean 1. Every fitted estimator must accept weights.
        groups : array-like of shape (n,), optional
            Group of each row, for rates by group. `predict` needs groups with ``by_group=True`` alone.
        costs : array-like of shape (n, K) or data frame, optional
            Cost of each answer in each row, for ``rates.cost()``. The columns of an array are in the order of
            ``classes_``, those of a data frame are named by the labels.
        clusters : array-like of shape (n,), optional
            Cluster of each row: a patient, a site, a week. Rows of one cluster stay together in folds and in
            held-out rows. Intervals count clusters, not rows.
        X_val, y_val, groups_val, sample_weight_val, costs_val : optional
            Selection data that no estimator was fitted on; needs ``cv="auto"``.
        X_unlabeled : array-like, sparse matrix or data frame of shape (m, d), optional
            Rows without labels, of the same population as the selection data. The selection counts them
            fully in rates of answers alone, such as `tailboost.rates.selected` and
            `tailboost.rates.deferred`. In other rates it counts them by their probabilities. Estimates of
            rates that need labels stay those of the labelled rows. Rows that are among the labelled ones
            count once.
        groups_unlabeled : array-like of shape (m,) or table of m rows, optional
            Their groups, in the form of ``groups``; needed if ``groups`` are given.
        training_rows : array-like, sparse matrix or data frame of shape (k, d), optional
            The rows on which frozen estimators were trained, see `tailboost.tune`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described, or an estimator cannot be used. A fit that raises leaves the
            classifier as it was.
        InfeasibleLimitsError
            If limits contradict each other. Its ``unselected`` keeps the fitted models.
        """
        given = Given(
            *unpack(X, y),
            groups,
            sample_weight,
            costs,
            clusters,
            X_unlabeled,
            groups_unlabeled,
            training_rows=training_rows,
        )
        validation = Given(*unpack(X_val, y_val), groups_val, sample_weight_val, costs_val)
        loud = telling(patience=0, pause=0) if self.verbose else nullcontext()
        with loud, fitting_apart(self) as fitted:
            fitted._learn(given, validation)
        # After the assignment: a filter may make a warning an error.
        self.selection_.warn(forewarned=True)
        return self

    def _learn(self, given: Given, validation: Given) -> None:
        """Set all attributes of the fit, in a classifier without any.

        If all models are fitted, as in `tune`, and X_val is absent, the given rows select the rule.
        """
        given.check_indexes()
        validation.check_indexes("_val")
        clock = Clock(np.inf if self.max_time is None else time.time() + self.max_time)
        stated = problem_of(self)
        check_groups(self, stated, given.groups)
        _refuse_arguments(given, validation, stated, self.cv)
        weighted = given.sample_weight is not None or self.class_weight is not None
        training, estimators = self._read_rows(given, weighted)
        frozen = all(isinstance(estimator, FrozenEstimator) for _, estimator in estimators)
        named = None
        if given.training_rows is not None:
            named = fingerprint_of(
                given.training_rows,
                lambda rows: hash_rounded_rows(checked_table(self, self, rows)),
            )
        costs = check_costs(given.costs, training.n_given, self.classes_, training.used)
        if validation.any_given:
            costs = self._read_validation(training, validation, frozen=frozen)
        X_unlabeled, more = self._check_strata(stated, training, costs, given)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        outputs, self.validation_ = fit_models(
            estimators,
            training,
            self.classes_,
            cv=N_FOLDS if self.cv is None else self.cv,
            factors=class_factors(
                self.class_weight, self.classes_, training.y, training.weight
            )[training.y],
            weighted=weighted,
            seed=seed,
            n_jobs=self.n_jobs,
            clock=clock,
        )
        self.probe_rows_ = probe_rows(
            training.X, seed
        )  # a loaded model file is checked on these rows
        # Learners for prepared tables contain no models of earlier fits.
        others = [
            model
            for _, model in estimators
            if isinstance(model, FrozenEstimator) or not isinstance(model, TableLearner)
        ]
        if training.validation is None:
            features = training.X
        else:
            features = training.validation[0]
        rows = noting_fitted(outputs.rows, features, others, X_unlabeled, named)
        score_columns = frozen and only_scores(
            others
        )  # rows with equal scores are different rows
        outputs = replace(
            outputs, rows=replace(rows, row_hashes=None) if score_columns else rows
        )
        if training.validation is None:
            places = np.arange(len(training.y))
            if rows.used is not None:
                places = np.searchsorted(training.used, rows.used)
            if costs is None:
                costs = None
            else:
                costs = costs[places]
            features = take(features, places)
        if more is not None:
            outputs = outputs.with_unlabeled(X_unlabeled, more)
        trained = training.fingerprints
        if frozen:  # its models are not fitted here
            trained = NO_ROWS
        if named is not None:
            trained = Fingerprint.union([named, trained])
        complete = named is not None or not (others and holds_unknown(others))
        records = records_of_fit(self, trained, complete=complete)
        read = outputs.models.row_hashes(features)
        records = records.reading(read, self.classes_[rows.y], features=False)
        if score_columns:  # a group-blind rule on scores estimates no group from them
            features = np.zeros((n_rows_of(features), 1))
            if more is not None:
                read = outputs.models.row_hashes(X_unlabeled)
                records = records.reading(read, (), features=False)
                X_unlabeled = np.zeros((len(more), 1))
        else:
            selected = self._selected_on(training, X_unlabeled, frozen=frozen)
            records = replace(records, selected=selected)
        engine = engine_of(self, stated, averaging(outputs), features, costs, X_unlabeled)
        self._first_selection(engine, stated, records)

    def _read_rows(
        self, given: Given, weighted: bool
    ) -> tuple[TrainingSet, list[tuple[str, Any]]]:
        """Return the checked rows, and the estimators by name."""
        named = self.estimators is None or isinstance(self.estimators, str)
        if named:
            estimators = []
        else:
            estimators = self._usable(self._given_estimators(), given.X, given.y, weighted)
        training = read_training_set(self, self, given, None)
        if named:
            estimators = DEFAULTS[self.estimators](TableKind.of(training))
            if self.max_time is not None:
                estimators = hurried(estimators)
        if given.clusters is not None:
            training.clusters = numbered(given.clusters, "clusters", training.n_given)[
                training.used
            ]
            if (training.clusters == training.clusters[0]).all():
                raise ValueError(
                    "clusters has one value only: none of its rows can be held out without the others"
                )
        if given.groups is not None:
            check_columns(self)
        return training, estimators

    def _read_validation(
        self, training: TrainingSet, validation: Given, *, frozen: bool
    ) -> Floats | None:
        """Add the given selection data to the rows; return their costs."""
        X_val = checked_table(self, self, validation.X)
        X_val, rows = selection_data(self, X_val, validation, "_val", "the {:,} rows of X_val")
        if not frozen:
            rows = noting_seen(training.fingerprints, X_val, rows)
        training.validation = X_val, rows
        return check_costs(
            validation.costs, n_rows_of(validation.X), self.classes_, rows.used, "costs_val"
        )

    def _check_strata(
        self,
        stated: Problem,
        training: TrainingSet,
        costs: Floats | None,
        given: Given,
    ) -> tuple[Any, Rows | None]:
        """Raise before a fit if groups, labels or costs are missing; return the rows without labels."""
        if training.groups is None:
            names = None
        else:
            names = self._group_names
        features = None
        more = None
        if training.validation is None:
            rows = training.rows
        else:
            rows = training.validation[1]
        strata, stratum, _ = strata_of(
            stated, rows, self.classes_, names, costs, group_aware=self.by_group
        )
        Program.of_rates(strata, stated.counted, stated.limits)
        if given.X_unlabeled is not None:
            if training.validation is None:
                val = []
            else:
                val = [training.validation[0]]
            features, more = read_unlabeled(self, given, [training.X, *val])
            combination = combination_of_unlabeled(
                stated, strata, more.groups, names, len(more)
            )
            strata = with_unlabeled(strata, stratum, rows, more, combination)[0]
        warn_of_limits(stated.limits, strata)
        return features, more

    def _selected_on(
        self, training: TrainingSet, X_unlabeled: Table, *, frozen: bool
    ) -> tuple[Fingerprint, ...]:
        """Return the fingerprints of the selection data that are no training rows."""
        selected = list[Fingerprint]()
        if training.validation is not None:
            selected.append(Fingerprint.of_rows(training.validation[0]))
        elif frozen:
            selected.append(training.fingerprints)
        if X_unlabeled is not None:
            selected.append(Fingerprint.of_rows(X_unlabeled))
        return tuple(selected)

    def _usable(
        self, estimators: list[Any], X: Table, y: Column, weighted: bool
    ) -> list[tuple[str, Any]]:
        """Return the estimators with models in other forms as frozen classifiers; raise for unusable ones."""
        for name, model in estimators:
            if not (hasattr(model, "__sklearn_tags__") or needs_adapter(model)):
                raise TypeError(
                    f"estimators: {name!r} is a {type(model).__name__}, which is no scikit-learn "
                    "classifier; let its class inherit from sklearn's ClassifierMixin and BaseEstimator or, "
                    "if it is fitted, give it to tailboost.tune"
                )
        self._validate_names([name for name, _ in estimators])
        estimators = [(name, as_classifier(model, X, y)) for name, model in estimators]
        check_estimators(estimators, weighted)
        return estimators

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Mapping[str, Any],
        y: Column,
        *,
        objective: Stated = None,
        groups: Groups = None,
        costs: Table = None,
        sample_weight: Column = None,
        classes: Any = None,
        **params: Any,
    ) -> Self:
        """Return a classifier for models whose probabilities alone are available.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            Class probabilities of each model on rows not used in its training: columns in the order of
            ``classes``, or a data frame whose columns are named by the labels, in any order. With two
            classes, those of the second suffice, shape (n,). Row sums may differ from 1 by .01, as those of
            printed numbers do; rows are scaled.
        y : array-like of shape (n,)
            Labels of these rows.
        groups, costs, sample_weight : optional
            Of these rows, as in `fit`. A group-blind rule estimates groups from the probabilities alone.
        classes : array-like of shape (K,), optional
            The labels in the order of the columns; by default those of y, sorted.
        objective, **params : optional
            Parameters of the class: ``limits``, ``max_error``, ``error_budget``, …

        Returns
        -------
        RobustMixtureClassifier
            Its `predict` takes a dict of the probabilities of new rows. Otherwise as after `fit`.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described.
        """
        mix, problem = cls._unsettled(probabilities, groups, objective=objective, **params)
        about = {"groups": groups, "costs": costs, "sample_weight": sample_weight}
        check_indexes(probabilities=probabilities, y=y, **about)
        refuse_missing(y, "y")
        models = mix._behind(
            probabilities, np.unique(label_vector(y)) if classes is None else classes
        )
        if groups is not None:
            mix._name_groups(groups)
        given = Given(probabilities, y, groups, sample_weight)
        judged = mix._outputs_on(models, given, "from_probabilities")
        judged.check_order(mix.classes_)
        judged = averaging(judged)
        costs = check_costs(costs, n_rows_of(y), mix.classes_, judged.rows.used)
        read = models.row_hashes(
            stacked(probabilities, models.names, mix.classes_), probabilities
        )
        records = Records.of_given().reading(read, label_vector(y), features=False)
        engine = engine_of(mix, problem, judged, costs=costs)
        mix._first_selection(engine, problem, records)
        mix.selection_.warn(forewarned=False)
        return mix

    @classmethod
    def _unsettled(
        cls, probabilities: Table, groups: Groups, **params: Any
    ) -> tuple[Self, Problem]:
        """Return a classifier with checked parameters, and its problem."""
        mix = cls(**params)
        mix._validate_params()
        problem = problem_of(mix)
        check_groups(mix, problem, groups)
        check_named(probabilities)
        mix.validation_ = "probabilities"
        return mix, problem

    def _behind(self, probabilities: Mapping[str, Any], classes: Any) -> Models:
        """Set the classes; return the models whose probabilities are given by name."""
        self.classes_ = np.asarray(classes)
        if len(np.unique(self.classes_)) != len(self.classes_) or len(self.classes_) < 2:
            raise ValueError(
                f"classes must be at least two different labels, got {self.classes_.tolist()}"
            )
        return Models.given(list(probabilities), self.classes_)

    # -- the result ------------------------------------------------------------------------------------

    @property
    def estimators_(self) -> list[Any]:
        """The fitted models, on class numbers, in the order of `estimators`."""
        check_is_fitted(self)
        return self._outputs.models.fitted

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted models by name."""
        return Bunch(**dict(zip(self._outputs.models.names, self.estimators_, strict=False)))

    @property
    def estimator_weights_(self) -> Floats:
        """The mixture weights λ, in the order of `candidates_`."""
        return self.ensemble_.weights

    @property
    def candidates_(self) -> list[str]:
        """Names of the selected candidates."""
        return [member.words(self.classes_) for member in self.ensemble_.base_models]

    @property
    def used_models_(self) -> list[str]:
        """Names of the models in the rule."""
        ensemble = self.ensemble_
        used = {
            i
            for m in np.flatnonzero(ensemble.weights > 0)
            for i in ensemble.base_models[m].source
        }
        return [self._outputs.models.names[i] for i in sorted(used)]

    @property
    def gap_(self) -> float:
        """Possible decrease of the objective by a mixture of the candidates, on the selection data."""
        check_is_fitted(self)
        return self._selected.gap

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        ensemble = self.ensemble_
        return any(
            ensemble.base_models[m].weighs_groups for m in np.flatnonzero(ensemble.weights > 0)
        )

    @property
    def reads_scores(self) -> bool:
        """Whether the rule reads scores alone, so that equal rows are different rows."""
        check_is_fitted(self)
        return only_scores(self._outputs.models.fitted)

    @property
    def rule_digest(self) -> str:
        """Digest of the rule, and of what its models are: columns of scores, or outputs on selection data."""
        models = self._outputs.models
        if only_scores(models.fitted) and not models.are_given:
            return digest_of_rule(self.rule_, [model.estimator for model in models.fitted])
        outputs = self._engine.known_outputs
        return digest(
            digest_of_rule(self.rule_).encode(), *(each.tobytes() for each in outputs)
        )

    def tested_values(self, opened: OpenedRows) -> Iterator[Floats]:
        """Return the values by which all candidates answer opened rows.

        Parameters
        ----------
        opened : OpenedRows
            From `opened`.

        Returns
        -------
        iterator of ndarray of shape (n, ...)
        """
        return opened.values(self._outputs.models, self._engine.probabilities)

    def _rule_html(self) -> str:
        try:
            return self.rule_._repr_html_()
        except NotFittedError:
            return ""

    def _summarise(self) -> Summary:
        summary = self._selected.summary(self.classes_.tolist(), self.candidates_[0])
        return replace(summary, groups=group_uses(self))

    def _first_selection(
        self, engine: ProbabilityEngine, problem: Problem, records: Records
    ) -> None:
        """Select on rows that the records know; this makes a fitted classifier, and nothing else does.

        An error for contradicting limits keeps the engine, and so the fitted models.
        """
        self.records_ = records
        try:
            self._answer_by(Selection.of(engine, problem))
        except InfeasibleLimitsError as error:
            self.selection_ = cast("Selection", Unselected(engine, problem))
            error.unselected = self
            error.add_note(
                "The models are kept in the attribute unselected of this error: its reweight(limits=[...]) "
                "trains nothing. After the error sys.last_value holds it."
            )
            raise

    # -- scikit-learn --------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        for pair in default_estimators() if self.estimators is None else self.estimators:
            if len(pair) == 2 and hasattr(pair[1], "__sklearn_tags__"):
                own = input_tags(pair[1])
                tags.input_tags.sparse &= own.sparse
                tags.input_tags.allow_nan &= own.allow_nan
        return tags


def _refuse_arguments(given: Given, validation: Given, stated: Problem, cv: Any) -> None:
    """Raise if arguments of a fit exclude each other."""
    refuse_validation(given, validation, cv)
    facts = ["selection"]
    if stated.over_rows:
        facts.append("CVaR")
    if stated.needs_costs:
        facts.append("rate of costs")
    if given.X_unlabeled is not None:
        check_indexes(X_unlabeled=given.X_unlabeled, groups_unlabeled=given.groups_unlabeled)
        if n_rows_of(given.X_unlabeled) == 0:
            facts.append("X_unlabeled without rows")
    given.refuse(*facts)


def _pairs(estimators: Any) -> Any:
    if isinstance(estimators, Mapping):
        return list(estimators.items())
    return estimators


def _check_pairs(estimators: Any) -> None:
    """Raise TypeError for a list of anything but names with classifiers."""
    for pair in estimators if isinstance(estimators, list) else ():
        if not (
            isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)
        ):
            raise TypeError(
                f"estimators must be a list of (name, classifier) pairs, got {pair!r} in it"
            )


def tune(
    models: Any,
    X_val: Table,
    y_val: Column,
    *,
    groups: Groups = None,
    costs: Table = None,
    objective: Stated = None,
    limits: Stated = (),
    error_budget: float | None = None,
    confidence: float | None = None,
    sample_weight: Column = None,
    X_unlabeled: Table = None,
    groups_unlabeled: Groups = None,
    training_rows: Table = None,
    **params: Any,
) -> RobustMixtureClassifier:
    """Select a decision rule for fitted models, for an objective within limits; no model is trained.

    Parameters
    ----------
    models : model, list or dict
        A fitted classifier, an object with ``predict_proba``, a function of the table that returns class
        probabilities, or `tailboost.Scores`, columns with the scores of an absent model. Several
        models come as a list, or as a dict by name.
    X_val : array-like, sparse matrix or data frame of shape (n, d)
        Selection data: rows without a part in training.
    y_val : array-like of shape (n,)
        Their labels.
    groups, costs, sample_weight : optional
        Of these rows, as in `RobustMixtureClassifier.fit`.
    X_unlabeled, groups_unlabeled : optional
        Rows without labels and without a part in training, and their groups, as in
        `RobustMixtureClassifier.fit`.
    training_rows : array-like, sparse matrix or data frame of shape (k, d), optional
        The rows on which the models were trained, without labels, or fingerprints (``seen_rows_``) of a
        classifier. Selection data among them get a warning and no intervals. `certify` and `calibrate` refuse
        them, as those of a classifier of tailboost. Only fingerprints are stored.
    objective, limits, error_budget, confidence, **params : optional
        As in `RobustMixtureClassifier`. Limits may be text: ``["miss(1) <= 40%"]``.

    Returns
    -------
    RobustMixtureClassifier
        Fitted, with the rates in ``rates_`` and the rule in ``rule_``.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or limits contradict each other.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import tailboost as tb
    >>> from tailboost import rates
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], y[:300])
    >>> clf = tb.tune(model, X[300:], y[300:], limits=[rates.miss(0) <= 0.02])
    >>> clf.limits_met_
    True
    """
    refuse_swapped(X_val, y_val, "X_val", "y_val")
    if isinstance(limits, Mapping):
        raise TypeError(
            "tune: limits must be a list, such as limits=['miss(1) <= 40%'] or [rates.miss(1) <= 0.4], got "
            f"{limits!r}"
        )
    named = [(name, as_fitted(model)) for name, model in named_models(models)]
    classifier = RobustMixtureClassifier(
        named,
        objective=objective,
        limits=limits,
        error_budget=error_budget,
        confidence=confidence,
        **params,
    )
    return classifier.fit(
        X_val,
        y_val,
        sample_weight=sample_weight,
        groups=groups,
        costs=costs,
        X_unlabeled=X_unlabeled,
        groups_unlabeled=groups_unlabeled,
        training_rows=training_rows,
    )
