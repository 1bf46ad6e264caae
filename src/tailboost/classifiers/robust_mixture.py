"""An ensemble of any classifiers, and a rule that holds up on the worst class, group, cell or tail."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, field, replace
from math import prod
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import _BaseComposition

from tailboost.classifiers.estimators import default_estimators, is_pair, usable
from tailboost.classifiers.evidence import Evidence
from tailboost.classifiers.fitting import Fits, fit_models, frozen_fits, scored_on
from tailboost.classifiers.selected_models import TunedClassifier, selecting_rows
from tailboost.classifiers.splitting import MOST_FOLDS, N_FOLDS, Split
from tailboost.core import (
    Column,
    Constraints,
    FitInterruptedWarning,
    Groups,
    Model,
    Seed,
    Stated,
    Table,
    check_indexes,
    check_length,
    fitting_apart,
    label_column,
    parameters,
    warn_user,
)
from tailboost.core.ranges import SHARE
from tailboost.learners.base import check_classes, seed_of
from tailboost.learners.foreign import first_step
from tailboost.rows import Records, Rows, hash_rows, stacked
from tailboost.selection.outputs import Models, averaging
from tailboost.selection.search import Charges, Problem, Program
from tailboost.selection.selection import counted_rows


def pairs_of(estimators: Model) -> Any:
    """Return the estimators of a dict as (name, estimator) pairs; in another form they stay as they are."""
    if isinstance(estimators, Mapping):
        return list(estimators.items())
    return estimators


@parameters
class RobustMixtureClassifier(MetaEstimatorMixin, TunedClassifier, _BaseComposition):
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

    By default the rule is group-blind: `predict` takes no group, and one threshold on the score (or weights
    of the classes) answers.

    Parameters
    ----------
    estimators : list of (str, classifier or str) or dict, optional
        Named classifiers with ``predict_proba``, as in ``VotingClassifier``, or names of learners, as
        ("boosted", "xgboost"); see `tailboost.learners.named`. One wrapped in
        ``FrozenEstimator`` is not fitted: the rows given to `fit`, or ``X_val``, must be new to this model.
        `Scores` and functions ``X -> probabilities`` are taken as fitted too.
        None takes boosted trees (`HistBoostClassifier`), extremely randomised trees and a logistic
        regression. On more than 5,000 distinct rows held-out rows decide how many boosted trees there are.
        Tables of more than 300 columns, such as text, get the logistic regression alone.
    objective : {"worst_class", "worst_group", "worst_cell", "error", "deferred"}, rate or largest
        The minimised rate: the largest error of a class, a group or a (class, group) cell, the
        overall error, the share of deferred rows; or any rate of
        `tailboost.rates`, or the largest of a family. None is "worst_class", and with limits the
        overall error. "worst_class" is short for ``rates.largest(rates.error(by="class"))``.
    limits : list of Limit or str, default=()
        Limits on rates of `tailboost.rates`: ``[rates.gap(rates.selected("yes", by="sex")) <= 0.02]``, or as
        text. A limit has no effect if the best rule without limits satisfies it. A rule of least error stops
        at its limit on the selection data, and breaks it on about every second set of new rows;
        `tailboost.calibrate` certifies limits on new rows.
    error_budget : float in [0, 1], optional
        Largest overall error of the rule less that of the most accurate candidate: with .02 a rule may have
        an error of .22 if the least is .20. Both errors are measured on the selection data: 0 means no more
        error there than the most accurate candidate. If rows may be deferred, candidates within the limits on
        deferral are compared. None sets no limit.
    by_group : bool or str, default=False
        Whether the rule may read the group: each group then has thresholds of its own, and `predict` takes
        ``groups``. Of several columns of groups give the name of the one to read; the others are for limits.
        If a decision must not depend on the group, for example by law, leave it False.
    infer_groups : bool, default=False
        Whether a group-blind rule weighs p(group | x, class), estimated from the other features; without
        features, and for images and tables of over 1,000 columns, from the models' probabilities. Such a rule
        has no SQL. An objective such as "worst_group" estimates the group in any case, unless the rule reads
        it. `Scores` have no other features, so no group is estimated.
    cv : "auto", int, float in (0, 1), splitter, iterable or None, default="auto"
        The selection data. An int is that many folds: out-of-fold probabilities of all rows; None is 5, as in
        scikit-learn; a float is the fraction held out; a splitter of scikit-learn, or an iterable of (fitted,
        held-out) row numbers, each row held out at most once. "auto" is ``X_val`` if given, otherwise five
        folds, three of more than 5,000 distinct rows; of more than 50,000 a fifth is held out if it has 20
        rows of each class in a group. The final models are fitted on all rows. If all estimators are frozen,
        "auto" selects on all rows given.
    class_weight : dict or "balanced", optional
        Weights of the classes in the fits of the models, as in scikit-learn, times ``sample_weight``. Limits,
        objective and tables count rows by ``sample_weight`` alone.
    n_jobs : int, optional
        Fits at the same time, as in joblib.
    random_state : int, RandomState or None
        Seeds the folds, and the estimators without a seed.
    verbose : int, default=0
        Above 0 joblib prints the progress of the fits.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    rates_ : RateTable
        The rates of the objective and of the limits by subgroup, on the selection data, with 95 % intervals
        for the rates of this rule on new rows: Clopper–Pearson intervals with effective numbers of rows. If
        the models are refitted on all rows, 1.96 standard deviations of a refit, .015 of the range of the
        rate, are added in quadrature. On 33 tables .94 of the class errors on test rows were inside. A rate
        has no interval with fewer than 10 rows, if it is a ratio, or under a rule that favourable rows chose:
        with thresholds by group or at ranks, or on rows of a fit. `tailboost.certify` gives a guarantee.
    subgroup_errors_ : dict
        Error of the rule on each class, group or cell, on the selection data; a deferred row is no error.
        The subgroups are those of the objective or, if it has none, of the first limit with some.
    limits_met_ : bool or None
        Whether all limits are certified, or without a certificate kept on the selection data; None without
        limits.
    objective_ : Statistic
        The minimised rate.
    validation_ : str or float
        The selection data: "cv", "splits", a fraction, "X_val", "probabilities", "frozen" if these are all
        rows given to `fit`, or "reweight" if they were given to it.
    n_features_in_ : int
        Columns of X in `fit`.

    Warns
    -----
    FitInterruptedWarning
        Names the estimators left out after Ctrl-C. Those with finished fits stay.
    BoundNotMetWarning
        Names the violated limits on the selection data.
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

    estimators: Model = None
    _: KW_ONLY
    cv: Any = "auto"
    class_weight: Stated = None
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0
    models: Model = field(default=None, init=False)  # no parameter: a fit trains models

    _trains = True
    _parameter_constraints: ClassVar[Constraints] = {
        **TunedClassifier._parameter_constraints,
        "estimators": [list, None],
        "cv": [
            SHARE,
            Interval(Integral, 2, MOST_FOLDS, closed="both"),
            StrOptions({"auto"}),
            HasMethods(["split", "get_n_splits"]),
            list,
            tuple,
            Iterator,
            None,
        ],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __post_init__(self) -> None:
        self.estimators = pairs_of(self.estimators)

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
        return self._get_params("estimators", deep=deep)

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
        if "estimators" in params:  # `fit` alone refuses values
            self.estimators = pairs_of(params.pop("estimators"))
        if params:
            self._set_params("estimators", **params)
        return self

    # -- fitting -------------------------------------------------------------------------------------

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
        rows = Rows.read(X, y, groups, sample_weight, costs, clusters)
        of_validation = (X_val, y_val, groups_val, sample_weight_val, costs_val)
        validation = None
        if any(values is not None for values in of_validation):
            validation = Rows.read(*of_validation, suffix="_val")
            if validation.X is None or validation.y is None:
                raise ValueError("a validation set needs both X_val and y_val")
            if bool(rows.names.titles) != bool(validation.names.titles):
                raise ValueError("groups and groups_val: give both or neither")
            if self.cv != "auto":
                raise ValueError(f"cv={self.cv!r} and X_val were both given; use cv='auto'")
            if clusters is not None:
                raise ValueError("clusters and X_val were both given, but X_val is not split")
        with fitting_apart(self) as fitted:
            selection = fitted._learn(rows, training_rows=training_rows, validation=validation)
        # After the assignment: a filter may make a warning an error.
        selection.warn()
        return self

    def _fits(
        self, problem: Problem, training: Rows, validation: Rows | None
    ) -> tuple[Split, Fits]:
        """Return the rows that select the rule, and the fits of the models; none is fitted if all are frozen.

        Errors of the selection are raised before any model is fitted.
        """
        # 1. The models: as they were given, or the default ones for these rows.
        if self.estimators is None:
            estimators = default_estimators(
                len(np.unique(hash_rows(training.X))),
                prod(training.X.shape[1:]),  # of images all pixels and channels
            )
        else:
            estimators = usable(self.estimators, training)
            self._validate_names([*estimators])
        fits = frozen_fits(estimators, training.classes)

        # 2. The rows that select the rule: others, all if no model is fitted on them, or those held out.
        seed = seed_of(self.random_state)
        if validation is not None:
            rows = replace(validation, X=self._checked(validation.X, "X_val"))
            words = f"the {len(rows):,} rows of X_val"
            split = Split(
                "X_val", rows.numbered(training.classes, training.names, words, "_val")
            )
        elif not fits.lacking and isinstance(self.cv, str):
            split = Split("frozen", training)
        else:
            split = Split.of(training, N_FOLDS if self.cv is None else self.cv, seed)
            if not fits.lacking:  # nothing is held out of a fit
                words = f"{len(split.selecting):,} of {training.words}"
                split = Split(split.scheme, replace(split.selecting, words=words, refit=False))

        # 3. The fits.
        if fits.lacking:
            check_classes(training.classes, len(training))
            # Made for their errors alone: what the selection would refuse is refused before any fit.
            strata = counted_rows(
                problem, split.selecting, training.names.column_read(self.by_group)
            ).strata
            Program(Charges(strata, problem.objective, problem.limits))
            fits = fit_models(
                fits,
                training,
                split,
                self.class_weight,
                seed,
                self.n_jobs,
                self.verbose,
            )
            if not fits.by_name:  # interrupted before any model was finished
                raise KeyboardInterrupt
            if fits.lacking:
                warn_user(
                    f"fit was interrupted: {[*fits.lacking]} left out of the mixture",
                    FitInterruptedWarning,
                )
        return split, fits

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Mapping[str, Table],
        y: Column,
        *,
        groups: Groups = None,
        costs: Table = None,
        sample_weight: Column = None,
        classes: Column = None,
        **params: Any,
    ) -> Self:
        """Return a classifier for models with available probabilities alone.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            Class probabilities of each model on rows not used in its training: columns in the order of
            ``classes``, or a data frame with columns named by the labels, in any order. With two
            classes, those of the second suffice, shape (n,). Row sums may differ from 1 by .01, as those of
            printed numbers do; rows are scaled.
        y : array-like of shape (n,)
            Labels of these rows.
        groups, costs, sample_weight : optional
            Of these rows, as in `fit`. A group-blind rule estimates groups from the probabilities alone.
        classes : array-like of shape (K,), optional
            The labels in the order of the columns; by default those of y, sorted.
        **params : optional
            Parameters of the class: ``objective``, ``limits``, ``error_budget``, …

        Returns
        -------
        RobustMixtureClassifier
            Its `predict` takes a dict of the probabilities of new rows. Otherwise as after `fit`.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described.
        """
        mix = cls(**params)
        check_indexes(probabilities=probabilities, y=y, groups=groups)
        rows = Rows.read(None, y, groups, sample_weight, costs)
        problem = mix._problem(rows)
        if classes is None:
            classes = rows.classes
        classes = label_column(classes, "classes")
        if len(np.unique(classes)) < max(len(classes), 2):
            raise ValueError(
                f"classes must be at least two different labels, got {classes.tolist()}"
            )
        P = stacked(probabilities, classes)
        check_length(y, "y", len(P), "probabilities")
        rows = replace(rows, X=P[rows.given_numbers]).numbered(
            classes, rows.names, f"the {len(rows):,} rows given to from_probabilities"
        )
        M = len(probabilities)
        models = Models(
            [*probabilities],
            [],
            [],
            rows,
            np.ones(M) / M,
            np.zeros(len(classes)),
            read_stacked=True,
        )
        models = scored_on(models, rows)
        evidence = Evidence(Records(used=(selecting_rows(models),)), validation="probabilities")
        mix._select(problem, rows, averaging(models), evidence).warn()
        return mix

    # -- scikit-learn --------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.string = inputs.categorical = inputs.three_d_array = False
        # The default estimators read sparse tables and missing values. Others are not checked yet.
        if isinstance(self.estimators, list):
            for _, model in filter(is_pair, self.estimators):
                if hasattr(model, "__sklearn_tags__"):
                    inputs.sparse &= get_tags(model).input_tags.sparse
                    inputs.allow_nan &= get_tags(first_step(model)).input_tags.allow_nan
        return tags
