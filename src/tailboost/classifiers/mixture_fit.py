"""The fit of a `RobustMixtureClassifier`: rows are read, models fitted, and a rule is selected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from tailboost.classifiers.fitting import (
    Named,
    estimators_of,
    fit_models,
    frozen_fit,
    usable,
)
from tailboost.classifiers.input import (
    checked_table,
    class_factors,
    marked_if_frozen,
    marked_if_seen,
    read_training_set,
    refuse_validation,
    selection_data,
)
from tailboost.core.array_types import Model
from tailboost.learners.protocols import TableLearner
from tailboost.learners.scores import (
    columns_of_scores,
    only_scores,
)
from tailboost.rows.fingerprints import hash_rounded_rows
from tailboost.rows.given import Given
from tailboost.rows.persons import warn_of_persons
from tailboost.rows.readers import records_of_fit
from tailboost.rows.rows import N_FOLDS, Rows
from tailboost.rows.seen import SELECTED_ON, TRAINED_ON, Seen
from tailboost.rows.subgroups import refuse_many_numbers
from tailboost.selection.outputs import ModelOutputs, averaging
from tailboost.selection.problem import Problem, strata_of
from tailboost.selection.program import Program
from tailboost.selection.selection import warn_of_limits


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
    problem = mix._problem()
    mix._check_groups(problem, arguments.groups)
    refuse_validation(arguments, validation, mix.cv)
    weighted = arguments.sample_weight is not None or mix.class_weight is not None
    training, estimators = _read_training(mix, arguments, weighted)
    frozen = all(isinstance(estimator, FrozenEstimator) for _, estimator in estimators)
    # Rows with equal scores are different rows.
    reads_scores = frozen and only_scores([estimator for _, estimator in estimators])
    if reads_scores:
        training = replace(training, row_hashes=None)
    known = [] if frozen else [hash_rounded_rows(training.X)]
    trained = Seen.of(known[0], TRAINED_ON) if known else None
    named = None
    if arguments.training_rows is not None:
        rows = checked_table(mix, mix, arguments.training_rows, "training_rows")
        known.append(hash_rounded_rows(rows))
        named = Seen.of(known[-1], TRAINED_ON)
    judging = None
    if validation.X is not None:
        X_val = checked_table(mix, mix, validation.X)
        judging = selection_data(mix, X_val, validation, "the {:,} rows of X_val")
        judging = marked_if_seen(trained, judging)
        if reads_scores:
            judging = replace(judging, row_hashes=None)
    _check_strata(mix, problem, training, judging or training)

    outputs, selecting = _fit(mix, estimators, training, judging, weighted=weighted)
    models = _models_with_a_past(estimators)
    selecting = marked_if_seen(named, marked_if_frozen(models, selecting))
    outputs = replace(
        outputs,
        rows=replace(outputs.rows, words=selecting.words, fitted=selecting.fitted),
    )

    trained = Seen.of(np.concatenate(known), TRAINED_ON) if known else None
    records = records_of_fit(models, trained)
    if named is not None:
        records = replace(records, complete=True)
    if frozen or judging is not None:  # others are training rows
        labels = mix.classes_[selecting.y] if reads_scores else None
        hashes = outputs.models.row_hashes(selecting.X)
        records = records.using(Seen.of(hashes, SELECTED_ON, labels))
    engine = mix._engine_of(problem, averaging(outputs), selecting.X, selecting.costs)
    mix._first_selection(engine, problem, records)


# -- rows and estimators ---------------------------------------------------------------------------------


def _read_training(mix: Model, arguments: Given, weighted: bool) -> tuple[Rows, Named]:
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
        mix._validate_names([name for name, _ in mix.estimators])
        estimators = usable(mix.estimators, arguments.X, arguments.y, weighted=weighted)
    training = read_training_set(mix, learner=mix, rows=arguments)
    if mix.estimators is None:
        estimators = estimators_of(training)

    if arguments.clusters is None:
        scores = columns_of_scores([estimator for _, estimator in estimators])
        warn_of_persons(arguments.X, [*arguments.names_of_groups, *scores])
    if arguments.groups is not None:
        mix._column_read()

    for name, estimator in estimators:
        if isinstance(estimator, FrozenEstimator):
            frozen_fit(name, estimator, mix.classes_)
    return training, estimators


def _check_strata(mix: Model, problem: Problem, training: Rows, selecting: Rows) -> None:
    """Raise if groups, labels or costs of the problem are missing; warn of limits below their noise.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    problem : Problem
        The objective within limits.
    training, selecting : Rows
        The training rows, and those that may select.

    Raises
    ------
    ValueError
        If the selection data lack a subgroup or the costs of a rate.
    """
    names = None
    rule_column = None
    if training.groups is not None:
        names = mix._group_names
        rule_column = mix._column_read()
        for j in problem.columns(names.titles):
            refuse_many_numbers(names.titles[j], names.values[j], len(training.y))
    strata, _, _ = strata_of(
        problem, selecting, mix.classes_, names, selecting.costs, rule_column=rule_column
    )
    Program.of_rates(strata, problem.objective, problem.limits)  # raises
    warn_of_limits(problem.limits, strata)


# -- models ----------------------------------------------------------------------------------------------


def _models_with_a_past(estimators: Named) -> list[Any]:
    """Return the estimators with possible models of earlier fits inside: all except learners of tables."""
    return [
        model
        for _, model in estimators
        if isinstance(model, FrozenEstimator) or not isinstance(model, TableLearner)
    ]


def _fit(
    mix: Model, estimators: Named, training: Rows, validation: Rows | None, *, weighted: bool
) -> tuple[ModelOutputs, Rows]:
    """Fit the models; return their outputs on the selection data, and these with their features.

    The classifier gets ``validation_``.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier that is fitted.
    estimators : list of (str, classifier)
        Its models with their names.
    training : Rows
        The training rows.
    validation : Rows or None
        The given selection data.
    weighted : bool
        Whether ``fit`` of the models gets the weights of the rows.
    """
    seed = int(check_random_state(mix.random_state).randint(2**31 - 1))
    factors = class_factors(mix.class_weight, mix.classes_, training.y, training.weight)
    cv = mix.cv
    if cv is None:
        cv = N_FOLDS
    outputs, rows, mix.validation_ = fit_models(
        estimators,
        training,
        mix.classes_,
        cv=cv,
        factors=factors[training.y],
        weighted=weighted,
        seed=seed,
        n_jobs=mix.n_jobs,
        validation=validation,
    )
    return outputs, rows
