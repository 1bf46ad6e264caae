"""The fit of a `RobustMixtureClassifier`: rows are read, models fitted, and a rule is selected."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from tailboost.classifiers.default_models import DEFAULTS, TableKind, hurried
from tailboost.classifiers.fitting import Clock, check_estimators, fit_models, frozen_fit
from tailboost.classifiers.input import (
    checked_table,
    class_factors,
    noting_fitted,
    noting_seen,
    read_training_set,
    read_unlabeled,
    refuse_validation,
    selection_data,
)
from tailboost.classifiers.robust_selection import (
    answer_by,
    check_groups,
    column_read,
    kinds_of,
    problem_of,
)
from tailboost.core.array_types import Column, Floats, Model, Table
from tailboost.core.checks import check_costs, check_indexes, n_rows_of, numbered, take
from tailboost.learners.named import named_learner
from tailboost.learners.protocols import TableLearner
from tailboost.learners.scores import as_classifier, needs_adapter, only_scores
from tailboost.rates import InfeasibleLimitsError
from tailboost.rows.fingerprints import Fingerprint, fingerprint_of, hash_rounded_rows
from tailboost.rows.given import Given
from tailboost.rows.probes import probe_rows
from tailboost.rows.readers import holds_unknown, records_of_fit
from tailboost.rows.records import NO_ROWS, Records
from tailboost.rows.rows import Rows
from tailboost.rows.training_set import N_FOLDS, TrainingSet
from tailboost.selection.data import with_unlabeled
from tailboost.selection.kinds import Kinds
from tailboost.selection.outputs import Models, averaging
from tailboost.selection.problem import Problem, combination_of_unlabeled, strata_of
from tailboost.selection.program import Program
from tailboost.selection.selected import warn_of_limits
from tailboost.selection.selection import Selection, Unselected

Named = list[tuple[str, Any]]
"""Classifiers with their names."""


def learn(mix: Model, given: Given, validation: Given) -> None:
    """Set all attributes of a fit, in a classifier without any.

    If all models are fitted, as in `tune`, and X_val is absent, the given rows select the rule.
    """
    given.check_indexes()
    validation.check_indexes("_val")
    clock = Clock(np.inf if mix.max_time is None else time.time() + mix.max_time)
    problem = problem_of(mix)
    check_groups(mix, problem, given.groups)
    _refuse_arguments(given, validation, problem, mix.cv)
    weighted = given.sample_weight is not None or mix.class_weight is not None
    training, estimators = _read_rows(mix, given, weighted)
    frozen = all(isinstance(estimator, FrozenEstimator) for _, estimator in estimators)
    named = None
    if given.training_rows is not None:
        named = fingerprint_of(
            given.training_rows, lambda rows: hash_rounded_rows(checked_table(mix, mix, rows))
        )
    costs = check_costs(given.costs, training.n_given, mix.classes_, training.used)
    if validation.any_given:
        costs = _read_validation(mix, training, validation, frozen=frozen)
    X_unlabeled, more = _check_strata(mix, problem, training, costs, given)
    seed = int(check_random_state(mix.random_state).randint(2**31 - 1))
    factors = class_factors(mix.class_weight, mix.classes_, training.y, training.weight)
    outputs, mix.validation_ = fit_models(
        estimators,
        training,
        mix.classes_,
        cv=N_FOLDS if mix.cv is None else mix.cv,
        factors=factors[training.y],
        weighted=weighted,
        seed=seed,
        n_jobs=mix.n_jobs,
        clock=clock,
    )
    mix.probe_rows_ = probe_rows(training.X, seed)  # a loaded model file is checked on them
    # Learners for prepared tables contain no models of earlier fits.
    others = [
        model
        for _, model in estimators
        if isinstance(model, FrozenEstimator) or not isinstance(model, TableLearner)
    ]
    scores_alone = frozen and only_scores(others)
    held_out = training.X if training.validation is None else training.validation[0]
    rows = noting_fitted(outputs.rows, held_out, others, X_unlabeled, named)
    if scores_alone:  # rows with equal scores are different rows
        rows = replace(rows, row_hashes=None)
    outputs = replace(outputs, rows=rows)
    features, costs = _selecting(training, rows, costs)
    if more is not None:
        outputs = outputs.with_unlabeled(X_unlabeled, more)
    trained_on = _trained_on(training, named, frozen=frozen)
    complete = named is not None or not (others and holds_unknown(others))
    records = records_of_fit(mix, trained_on, complete=complete)
    read = outputs.models.row_hashes(features)
    records = records.reading(read, mix.classes_[rows.y], features=False)
    if not scores_alone:
        selected = _selected_on(training, X_unlabeled, frozen=frozen)
        records = replace(records, selected=selected)
    elif more is not None:
        read = outputs.models.row_hashes(X_unlabeled)
        records = records.reading(read, (), features=False)
    kinds = kinds_of(mix, problem, averaging(outputs), features, costs, X_unlabeled)
    first_selection(mix, kinds, problem, records)


def first_selection(mix: Model, kinds: Kinds, problem: Problem, records: Records) -> None:
    """Select on rows that the records know; this makes a fitted classifier, and nothing else does.

    An error for contradicting limits keeps the kinds of rules, and so the fitted models.
    """
    mix.records_ = records
    try:
        answer_by(mix, Selection.of(kinds, problem))
    except InfeasibleLimitsError as error:
        mix.selection_ = cast("Selection", Unselected(kinds, problem))
        error.unselected = mix
        error.add_note(
            "The models are kept in the attribute unselected of this error: its "
            "reweight(limits=[...]) trains nothing. After the error sys.last_value holds it."
        )
        raise


def unsettled(mix: Any, groups: Any) -> Problem:
    """Check the parameters of a classifier for given probabilities; return its problem."""
    mix._validate_params()
    problem = problem_of(mix)
    check_groups(mix, problem, groups)
    mix.validation_ = "probabilities"
    return problem


def models_behind(mix: Any, probabilities: Mapping[str, Any], classes: Any) -> Models:
    """Set the classes; return the models whose probabilities are given by name."""
    mix.classes_ = np.asarray(classes)
    if len(np.unique(mix.classes_)) != len(mix.classes_) or len(mix.classes_) < 2:
        raise ValueError(
            f"classes must be at least two different labels, got {mix.classes_.tolist()}"
        )
    return Models.given(list(probabilities), mix.classes_)


def check_pairs(estimators: Any) -> None:
    """Raise TypeError for a list of anything but names with classifiers."""
    for pair in estimators if isinstance(estimators, list) else ():
        if not (
            isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)
        ):
            raise TypeError(
                f"estimators must be a list of (name, classifier) pairs, got {pair!r} in it"
            )


# -- rows and estimators ---------------------------------------------------------------------------------


def _refuse_arguments(given: Given, validation: Given, problem: Problem, cv: Any) -> None:
    """Raise if arguments of a fit exclude each other."""
    refuse_validation(given, validation, cv)
    facts = ["selection"]
    if problem.over_rows:
        facts.append("CVaR")
    if problem.needs_costs:
        facts.append("rate of costs")
    if given.X_unlabeled is not None:
        check_indexes(X_unlabeled=given.X_unlabeled, groups_unlabeled=given.groups_unlabeled)
        if n_rows_of(given.X_unlabeled) == 0:
            facts.append("X_unlabeled without rows")
    given.refuse(*facts)


def _read_rows(mix: Model, given: Given, weighted: bool) -> tuple[TrainingSet, Named]:
    """Return the checked rows, and the estimators by name."""
    defaults = mix.estimators is None or isinstance(mix.estimators, str)
    estimators: Named = []
    if not defaults:
        estimators = _usable(mix, given.X, given.y, weighted)
    training = read_training_set(mix, mix, given, None)
    if defaults:
        estimators = DEFAULTS[mix.estimators](TableKind.of(training))
        if mix.max_time is not None:
            estimators = hurried(estimators)
    if given.clusters is not None:
        clusters = numbered(given.clusters, "clusters", training.n_given)
        training.clusters = clusters[training.used]
        if (training.clusters == training.clusters[0]).all():
            raise ValueError(
                "clusters has one value only: none of its rows can be held out without the others"
            )
    if given.groups is not None:
        column_read(mix)
    for name, estimator in estimators:
        if isinstance(estimator, FrozenEstimator):
            frozen_fit(name, estimator, mix.classes_)
    return training, estimators


def _usable(mix: Model, X: Table, y: Column, weighted: bool) -> Named:
    """Return the given estimators, models in other forms as frozen classifiers; raise for unusable ones."""
    if not mix.estimators:
        raise ValueError("estimators must hold at least one (name, classifier) pair, got []")
    check_pairs(mix.estimators)
    estimators = []
    for name, model in mix.estimators:
        if isinstance(model, str):
            model = named_learner(model, f"estimators: {name!r}")
        if not (hasattr(model, "__sklearn_tags__") or needs_adapter(model)):
            raise TypeError(
                f"estimators: {name!r} is a {type(model).__name__}, which is no scikit-learn "
                "classifier; let its class inherit from sklearn's ClassifierMixin and "
                "BaseEstimator or, if it is fitted, give it to tailboost.tune"
            )
        estimators.append((name, model))
    mix._validate_names([name for name, _ in estimators])
    estimators = [(name, as_classifier(model, X, y)) for name, model in estimators]
    check_estimators(estimators, weighted)
    return estimators


def _read_validation(
    mix: Model, training: TrainingSet, validation: Given, *, frozen: bool
) -> Floats | None:
    """Add the given selection data to the rows; return their costs."""
    X_val = checked_table(mix, mix, validation.X)
    X_val, rows = selection_data(mix, X_val, validation, "_val", "the {:,} rows of X_val")
    if not frozen:
        rows = noting_seen(training.fingerprints, X_val, rows)
    training.validation = X_val, rows
    return check_costs(
        validation.costs, n_rows_of(validation.X), mix.classes_, rows.used, "costs_val"
    )


def _check_strata(
    mix: Model, problem: Problem, training: TrainingSet, costs: Floats | None, given: Given
) -> tuple[Any, Rows | None]:
    """Raise before a fit if groups, labels or costs are missing; return the rows without labels."""
    names = None
    told = None
    if training.groups is not None:
        names = mix._group_names
        told = column_read(mix)
    rows = training.rows
    labelled = [training.X]
    if training.validation is not None:
        X_val, rows = training.validation
        labelled.append(X_val)
    strata, stratum, _ = strata_of(problem, rows, mix.classes_, names, costs, rule_column=told)
    Program.of_rates(strata, problem.counted, problem.limits)
    features = None
    more = None
    if given.X_unlabeled is not None:
        features, more = read_unlabeled(mix, given, labelled)
        combination = combination_of_unlabeled(
            problem, strata, more.groups, names, len(more), told
        )
        strata = with_unlabeled(strata, stratum, rows, more, combination)[0]
    warn_of_limits(problem.limits, strata)
    return features, more


# -- the selection data ----------------------------------------------------------------------------------


def _selecting(
    training: TrainingSet, rows: Rows, costs: Floats | None
) -> tuple[Any, Floats | None]:
    """Return the features of the selecting rows, and their costs."""
    if training.validation is not None:
        return training.validation[0], costs
    places = np.arange(len(training.y))
    if rows.used is not None:
        places = np.searchsorted(training.used, rows.used)
    if costs is not None:
        costs = costs[places]
    return take(training.X, places), costs


def _trained_on(
    training: TrainingSet, named: Fingerprint | None, *, frozen: bool
) -> Fingerprint:
    """Return the fingerprints of all rows that models were trained on, as far as they are known."""
    if frozen:  # these models are not fitted here
        return NO_ROWS if named is None else named
    if named is None:
        return training.fingerprints
    return Fingerprint.union([named, training.fingerprints])


def _selected_on(
    training: TrainingSet, X_unlabeled: Table, *, frozen: bool
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
