"""The fit of a `RobustMixtureClassifier`: rows are read, models fitted, and a rule is selected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from tailboost.classifiers.fitting import estimators_of, fit_models, usable
from tailboost.classifiers.input import (
    checked_table,
    class_factors,
    marked_if_seen,
    refuse_validation,
    selection_rows,
    training_rows,
)
from tailboost.learners.protocols import TableLearner
from tailboost.learners.scores import columns_of_scores, only_scores
from tailboost.rows.fingerprints import hash_rounded_rows
from tailboost.rows.given import Given
from tailboost.rows.persons import warn_of_persons
from tailboost.rows.readers import records_of_fit
from tailboost.rows.rows import N_FOLDS, Rows
from tailboost.rows.seen import SELECTED_ON, TRAINED_ON, Seen
from tailboost.rows.subgroups import refuse_many_numbers
from tailboost.selection.outputs import averaging
from tailboost.selection.problem import Problem, strata_of
from tailboost.selection.search import Program
from tailboost.selection.selection import warn_of_limits


def learn(mix: Any, given: Given, validation: Given) -> None:
    """Set all attributes of a fit, in a classifier without any.

    If all models are fitted, as in `tune`, and X_val is absent, the given rows select the rule.

    Raises
    ------
    ValueError, TypeError
        If parameters, estimators or rows cannot be used, before any model is fitted.
    InfeasibleLimitsError
        If no rule keeps the limits.
    """
    problem = mix._problem()
    mix._check_groups(problem, given.groups)
    refuse_validation(given, validation, mix.cv)
    weighted = given.sample_weight is not None or mix.class_weight is not None
    estimators = mix.estimators
    if estimators is not None:
        mix._validate_names([name for name, _ in estimators])
        estimators = usable(estimators, given.X, given.y, weighted=weighted)
    training = training_rows(mix, given)
    if estimators is None:
        estimators = estimators_of(training)
    models = [estimator for _, estimator in estimators]
    if given.clusters is None:
        warn_of_persons(given.X, [*given.columns, *columns_of_scores(models)])
    frozen = all(isinstance(model, FrozenEstimator) for model in models)

    known = [] if frozen else [hash_rounded_rows(training.X)]
    trained = Seen.of(known[0], TRAINED_ON) if known else None
    named = None
    if given.training_rows is not None:
        known.append(
            hash_rounded_rows(checked_table(mix, given.training_rows, "training_rows"))
        )
        named = Seen.of(known[-1], TRAINED_ON)
    judging = None
    if validation.X is not None:
        X_val = checked_table(mix, validation.X)
        judging = selection_rows(mix, X_val, validation, "the {:,} rows of X_val")
        judging = marked_if_seen(judging, trained)
    reads_scores = frozen and only_scores(models)
    if reads_scores:  # rows with equal scores are different rows
        training = replace(training, row_hashes=None)
        judging = judging and replace(judging, row_hashes=None)
    _check_strata(mix, problem, training, judging or training)

    factors = class_factors(mix.class_weight, mix.classes_, training.y, training.weight)
    outputs, selecting, mix.validation_ = fit_models(
        estimators,
        training,
        mix.classes_,
        cv=N_FOLDS if mix.cv is None else mix.cv,
        factors=factors[training.y],
        weighted=weighted,
        seed=int(check_random_state(mix.random_state).randint(2**31 - 1)),
        n_jobs=mix.n_jobs,
        validation=judging,
    )
    # Learners of tables have no models of earlier fits inside, unless they are frozen.
    with_a_past = [
        model
        for model in models
        if isinstance(model, FrozenEstimator) or not isinstance(model, TableLearner)
    ]
    selecting = marked_if_seen(selecting, *records_of_fit(with_a_past, None).used, named)
    rows = replace(outputs.rows, words=selecting.words, fitted=selecting.fitted)
    outputs = replace(outputs, rows=rows)

    trained = Seen.of(np.concatenate(known), TRAINED_ON) if known else None
    records = records_of_fit(with_a_past, trained)
    if named is not None:
        records = replace(records, complete=True)
    if frozen or judging is not None:  # others are training rows
        labels = mix.classes_[selecting.y] if reads_scores else None
        hashes = outputs.models.row_hashes(selecting.X)
        records = records.using(Seen.of(hashes, SELECTED_ON, labels))
    engine = mix._engine_of(problem, averaging(outputs), selecting.X, selecting.costs)
    mix._first_selection(engine, problem, records)


def _check_strata(mix: Any, problem: Problem, training: Rows, selecting: Rows) -> None:
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
    strata, _ = strata_of(
        problem, selecting, mix.classes_, names, selecting.costs, rule_column=rule_column
    )
    Program.of_rates(strata, problem.objective, problem.limits)  # raises
    warn_of_limits(problem.limits, strata)
