"""The fit of a `RobustMixtureClassifier`: rows are read, models fitted, and a rule is selected."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from tailboost.classifiers.default_models import estimators_of
from tailboost.classifiers.fitting import check_estimators, fit_models, frozen_fit
from tailboost.classifiers.input import (
    checked_table,
    class_factors,
    marked_if_fitted,
    marked_if_seen,
    read_training_set,
    refuse_validation,
    selection_data,
)
from tailboost.classifiers.robust_selection import (
    check_groups,
    column_read,
    engine_of,
    problem_of,
    set_rule,
)
from tailboost.core.array_types import Column, Floats, Model, Table
from tailboost.core.checks import (
    check_costs,
    n_rows_of,
    numbered_clusters,
    take,
)
from tailboost.core.long_work import doing
from tailboost.core.spelling import a_type_of
from tailboost.learners.named import named_learner
from tailboost.learners.protocols import TableLearner
from tailboost.learners.scores import (
    as_classifier,
    columns_of_scores,
    needs_adapter,
    only_scores,
)
from tailboost.rates import InfeasibleLimitsError
from tailboost.rows.fingerprints import hash_rounded_rows
from tailboost.rows.given import Given
from tailboost.rows.ledger import Records
from tailboost.rows.persons import warn_of_persons
from tailboost.rows.readers import records_of_fit
from tailboost.rows.rows import N_FOLDS, Rows, TrainingSet
from tailboost.rows.seen import SELECTED_ON, TRAINED_ON, Seen
from tailboost.rows.subgroups import refuse_many_numbers
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.outputs import ModelOutputs, Models, averaging
from tailboost.selection.problem import Problem, strata_of
from tailboost.selection.program import Program
from tailboost.selection.selected import warn_of_limits
from tailboost.selection.selection import Selection, Unselected

Named = list[tuple[str, Any]]
"""Classifiers with their names."""


def learn(mix: Model, arguments: Given, validation: Given) -> None:
    """Set all attributes of a fit, in a classifier without any.

    If all models are fitted, as in `tune`, and X_val is absent, the given rows select the rule.

    Raises
    ------
    ValueError, TypeError
        If parameters, estimators or rows cannot be used, before any model is fitted.
    InfeasibleLimitsError
        If no rule keeps the limits; see `first_selection`.
    """
    problem = _checked_problem(mix, arguments, validation)
    weighted = arguments.sample_weight is not None or mix.class_weight is not None
    training, estimators = _read_training(mix, arguments, weighted)
    _read_further_rows(mix, training, arguments, validation, frozen=_all_frozen(estimators))
    _check_strata(mix, problem, training)

    # The training rows have another order.
    outputs = _fit(mix, estimators, training, weighted=weighted)
    X_selecting, costs_selecting = _selecting(training, outputs.rows)
    records = _records(mix, estimators, training, outputs, X_selecting)
    # A selection with given models alone is told by its caller.
    selecting: AbstractContextManager[None] = nullcontext()
    if not _all_frozen(estimators):
        selecting = doing("selecting a rule")
    with selecting:
        engine = engine_of(mix, problem, averaging(outputs), X_selecting, costs_selecting)
        first_selection(mix, engine, problem, records)


def first_selection(
    mix: Model, engine: ProbabilityEngine, problem: Problem, records: Records
) -> None:
    """Select on the rows of the records: only this step makes a fitted classifier.

    An error for contradicting limits keeps the engine, and so the fitted models.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted, with its models.
    engine : ProbabilityEngine
        The candidates on the selection data.
    problem : Problem
        The objective within limits.
    records : Records
        The rows read by the models and the selection.
    """
    mix.records_ = records
    try:
        set_rule(mix, Selection.of(engine, problem))
    except InfeasibleLimitsError as error:
        mix.selection_ = cast("Selection", Unselected(engine, problem))
        error.unselected = mix
        error.add_note(
            "The models are kept in the attribute unselected of this error: its "
            "reweight(limits=[...]) trains nothing. After the error sys.last_value holds it."
        )
        raise


def problem_for_probabilities(mix: Any, groups: Any) -> Problem:
    """Check the parameters of a classifier for given probabilities; return its problem."""
    mix._validate_params()
    problem = problem_of(mix)
    check_groups(mix, problem, groups)
    mix.validation_ = "probabilities"
    return problem


def models_of_probabilities(mix: Any, probabilities: Mapping[str, Any], classes: Any) -> Models:
    """Set the classes; return the models of probabilities given by name."""
    mix.classes_ = np.asarray(classes)
    if len(np.unique(mix.classes_)) != len(mix.classes_) or len(mix.classes_) < 2:
        raise ValueError(
            f"classes must be at least two different labels, got {mix.classes_.tolist()}"
        )
    return Models.from_given(list(probabilities), mix.classes_)


def is_pair(item: Any) -> bool:
    """Return whether an item of the parameter ``estimators`` is a pair of a name and anything."""
    return isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str)


def check_pairs(estimators: Any) -> None:
    """Raise TypeError if ``estimators`` is a list of anything but (name, classifier) pairs."""
    if not isinstance(estimators, list):
        return
    for item in estimators:
        if not is_pair(item):
            raise TypeError(
                f"estimators must be a list of (name, classifier) pairs, got {item!r} in it"
            )


# -- rows and estimators ---------------------------------------------------------------------------------


def _checked_problem(mix: Model, arguments: Given, validation: Given) -> Problem:
    """Return the problem of a classifier; raise if arguments of a fit exclude each other.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    arguments, validation : Given
        The rows of the fit, and the validation set.
    """
    problem = problem_of(mix)
    check_groups(mix, problem, arguments.groups)
    refuse_validation(arguments, validation, mix.cv)
    return problem


def _read_further_rows(
    mix: Model, training: TrainingSet, arguments: Given, validation: Given, *, frozen: bool
) -> None:
    """Give a training set its costs, the validation set, and named training rows.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    training : TrainingSet
        The training rows, which get the further ones.
    arguments, validation : Given
        The rows of the fit, and the validation set, as given.
    frozen : bool
        Whether no estimator is fitted here.

    Raises
    ------
    ValueError, TypeError
        If rows cannot be used.
    """
    if arguments.training_rows is not None:
        rows = checked_table(mix, mix, arguments.training_rows, "training_rows")
        training.named = Seen.of(hash_rounded_rows(rows), TRAINED_ON)
    training.costs = check_costs(arguments.costs, training.n_given, mix.classes_, training.used)

    if validation.X is not None:
        X_val = checked_table(mix, mix, validation.X)
        X_val, rows = selection_data(mix, X_val, validation, "_val", "the {:,} rows of X_val")
        if not frozen:
            rows = marked_if_seen(training.seen, X_val, rows)
        training.validation = X_val, rows
        training.costs = check_costs(
            validation.costs, n_rows_of(validation.X), mix.classes_, rows.used, "costs_val"
        )


def _read_training(mix: Model, arguments: Given, weighted: bool) -> tuple[TrainingSet, Named]:
    """Return the checked training rows, and the estimators by name.

    Without stated estimators, the defaults for such a table are taken. Raise ValueError if all rows are in
    one cluster, or a frozen estimator has other labels.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    arguments : Given
        The arguments of its fit.
    weighted : bool
        Whether ``fit`` of the models gets weights of the rows.
    """
    estimators: Named = []
    if mix.estimators is not None:
        estimators = _usable(mix, arguments.X, arguments.y, weighted)
    training = read_training_set(mix, learner=mix, rows=arguments)
    if mix.estimators is None:
        estimators = estimators_of(training)

    # Scores alone: rows with equal features then count as different rows.
    training.are_scores = _all_frozen(estimators) and only_scores(
        [estimator for _, estimator in estimators]
    )
    if arguments.clusters is None:
        scores = columns_of_scores([estimator for _, estimator in estimators])
        warn_of_persons(arguments.X, [*arguments.names_of_groups, *scores])
    else:
        clusters = numbered_clusters(arguments.clusters, training.n_given)
        training.clusters = clusters[training.used]
        if (training.clusters == training.clusters[0]).all():
            raise ValueError(
                "clusters has one value only: none of its rows can be held out without the "
                "others"
            )
    if arguments.groups is not None:
        column_read(mix)

    for name, estimator in estimators:
        if isinstance(estimator, FrozenEstimator):
            frozen_fit(name, estimator, mix.classes_)
    return training, estimators


def _usable(mix: Model, X: Table, y: Column, weighted: bool) -> Named:
    """Return the given estimators by name, with models in other forms as frozen classifiers.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    X, y : table of n rows, array-like of shape (n,)
        The rows of the fit as given.
    weighted : bool
        Whether ``fit`` of the models gets weights of the rows.

    Raises
    ------
    ValueError, TypeError
        If there is none, or one cannot be used.
    """
    if not mix.estimators:
        raise ValueError("estimators must hold at least one (name, classifier) pair, got []")
    estimators = []
    for name, model in mix.estimators:
        if isinstance(model, str):
            model = named_learner(model, f"estimators: {name!r}")
        if not (hasattr(model, "__sklearn_tags__") or needs_adapter(model)):
            raise TypeError(
                f"estimators: {name!r} is {a_type_of(model)}, which is no scikit-learn "
                "classifier; let its class inherit from sklearn's ClassifierMixin and "
                "BaseEstimator or, if it is fitted, give it to tailboost.tune"
            )
        estimators.append((name, model))
    mix._validate_names([name for name, _ in estimators])
    classifiers = [(name, as_classifier(model, X, y)) for name, model in estimators]
    check_estimators(classifiers, weighted)
    return classifiers


def _check_strata(mix: Model, problem: Problem, training: TrainingSet) -> None:
    """Raise if groups, labels or costs of the problem are missing; warn of limits below their noise.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    problem : Problem
        The objective within limits.
    training : TrainingSet
        The training rows, with a validation set if one was given.

    Raises
    ------
    ValueError
        If the selection data lack a subgroup or the costs of a rate.
    """
    names = None
    rule_column = None
    if training.groups is not None:
        names = mix._group_names
        rule_column = column_read(mix)
        for j in problem.columns(names.titles):
            refuse_many_numbers(names.titles[j], names.values[j], len(training.y))
    rows = training.rows
    if training.validation is not None:
        _, rows = training.validation
    strata, _, _ = strata_of(
        problem, rows, mix.classes_, names, training.costs, rule_column=rule_column
    )
    Program.of_rates(strata, problem.objective, problem.limits)  # raises
    warn_of_limits(problem.limits, strata)


# -- models ----------------------------------------------------------------------------------------------


def _all_frozen(estimators: Named) -> bool:
    """Whether no estimator is fitted here."""
    return all(isinstance(estimator, FrozenEstimator) for _, estimator in estimators)


def _models_with_a_past(estimators: Named) -> list[Any]:
    """Return the estimators with possible models of earlier fits inside: all except learners of tables."""
    return [
        model
        for _, model in estimators
        if isinstance(model, FrozenEstimator) or not isinstance(model, TableLearner)
    ]


def _fit(
    mix: Model, estimators: Named, training: TrainingSet, *, weighted: bool
) -> ModelOutputs:
    """Fit the models; return their outputs on the selection data.

    The classifier gets ``validation_``.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    estimators : list of (str, classifier)
        Its models with their names.
    training : TrainingSet
        The training rows.
    weighted : bool
        Whether ``fit`` of the models gets the weights of the rows.
    """
    seed = int(check_random_state(mix.random_state).randint(2**31 - 1))
    factors = class_factors(mix.class_weight, mix.classes_, training.y, training.weight)
    cv = mix.cv
    if cv is None:
        cv = N_FOLDS
    outputs, mix.validation_ = fit_models(
        estimators,
        training,
        mix.classes_,
        cv=cv,
        factors=factors[training.y],
        weighted=weighted,
        seed=seed,
        n_jobs=mix.n_jobs,
    )

    X = training.X
    if training.validation is not None:
        X, _ = training.validation
    rows = marked_if_fitted(
        outputs.rows,
        X,
        models=_models_with_a_past(estimators),
        training_rows=training.named,
    )
    if training.are_scores:  # rows with equal scores are different rows
        rows = replace(rows, row_hashes=None)
    return replace(outputs, rows=rows)


# -- the selection data ----------------------------------------------------------------------------------


def _selecting(training: TrainingSet, rows: Rows) -> tuple[Any, Floats | None]:
    """Return the features of the selection data and their costs, shape (n, K); None without costs.

    ``rows`` are the selection data: the validation set, or held-out training rows.
    """
    if training.validation is not None:
        X_val, _ = training.validation
        return X_val, training.costs
    if rows.used is None:
        return training.X, training.costs
    # Numbers of given rows become places among the training rows.
    places = np.searchsorted(training.used, rows.used)
    return take(training.X, places), take(training.costs, places)


def _records(
    mix: Model,
    estimators: Named,
    training: TrainingSet,
    outputs: ModelOutputs,
    X_selecting: Any,
) -> Records:
    """Return the records of all rows that the models and the selection read.

    Rows of scores are recorded as whole tables only, because equal scores are different rows.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    estimators : list of (str, classifier)
        Its models with their names.
    training : TrainingSet
        The training rows.
    outputs : ModelOutputs
        The log-probabilities of the models on the selection data.
    X_selecting : table
        Features of the selection data.
    """
    frozen = _all_frozen(estimators)
    trained = [] if frozen else [training.seen]
    if training.named is not None:
        trained.append(training.named)
    known = Seen.union(trained) if trained else None
    records = records_of_fit(_models_with_a_past(estimators), known)
    if training.named is not None:
        records = replace(records, complete=True)
    if not frozen and training.validation is None:  # all of them are training rows
        return records
    labels = mix.classes_[outputs.rows.y] if training.are_scores else None
    return records.using(Seen.of(outputs.models.row_hashes(X_selecting), SELECTED_ON, labels))
