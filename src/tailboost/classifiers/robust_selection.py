"""Problems, selection data and answers of a classifier with a rule on models' probabilities."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.input import (
    checked_table,
    marked_if_frozen,
    marked_if_seen,
    regroup,
    selection_data,
)
from tailboost.classifiers.reselected import Restated
from tailboost.core.array_types import Groups, Ints, Mask, Model, Table
from tailboost.core.checks import (
    as_pandas,
    batched,
    check_groups_read,
    check_indexes,
    groups_in,
    has_named_columns,
    n_rows_of,
    names_columns,
    no_groups,
)
from tailboost.core.long_work import steps, telling
from tailboost.core.spelling import did_you_mean
from tailboost.learners.scores import only_scores
from tailboost.rates import Largest, Limit, Objective, error
from tailboost.rates.strata import names_in
from tailboost.rows.given import Given
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupNames, rows_among
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.outputs import LogProbabilities, ModelOutputs, Models
from tailboost.selection.problem import Problem, name_of, stated
from tailboost.selection.rule import stacked
from tailboost.selection.selection import Selection

# -- the problem of the parameters -----------------------------------------------------------------------


def problem_of(classifier: Model) -> Problem:
    """Return objective and limits of the parameters; raise ValueError if these exclude each other."""
    return stated(
        classifier.objective,
        classifier.limits,
        classifier.max_error,
        error_budget=classifier.error_budget,
        confidence=classifier.confidence,
    )


def restated_problem(mix: Any, restated: Restated) -> Problem:
    """Set parameters of `reweight` in a copy of a classifier; return the problem of the copy.

    A parameter of None stays as before. But a new objective drops ``max_error``, and ``confidence`` ends with
    the last limit.
    """
    earlier_objective = name_of(mix.objective)
    if restated.objective is not None:
        mix.objective = restated.objective
    if name_of(mix.objective) != earlier_objective:
        mix.max_error = None  # targets are for the subgroups of the earlier objective
    for name in ("limits", "error_budget", "max_error", "confidence"):
        value = getattr(restated, name)
        if value is not None:
            setattr(mix, name, value)
    if restated.confidence is None and not mix.limits and mix.max_error is None:
        mix.confidence = None  # no limit is left
    mix._validate_params()
    return problem_of(mix)


def restated_copy(
    mix: Any, objective: Objective, limits: tuple[Limit, ...]
) -> tuple[Any, Problem]:
    """Return a copy of a classifier with another objective and other limits, and the problem of the copy.

    Nothing is selected. An error budget is dropped if the overall error is the objective or limited.
    """
    new_mix = copy.copy(mix)
    new_mix.objective = objective.rate
    if objective.worst:
        new_mix.objective = Largest(objective.rate)
    new_mix.limits = list(limits)
    new_mix.max_error = None
    new_mix.confidence = None
    if error() in (objective.rate, *(limit.rate for limit in limits)):
        new_mix.error_budget = None
    new_mix._validate_params()
    problem = problem_of(new_mix)
    check_groups(new_mix, problem, new_mix.selection_.engine.outputs.rows.groups)
    return new_mix, problem


def check_groups(classifier: Model, problem: Problem, groups: Groups) -> None:
    """Raise ValueError if groups are missing for a problem or classifier, or given without a use."""
    if classifier.by_group and classifier.infer_groups:
        raise ValueError(
            "infer_groups=True: with by_group=True the rule reads the group, and needs no "
            "estimate of it; leave one of them out"
        )
    if groups is not None:
        return
    needing = [repr(limit.rate) for limit in problem.limits if limit.rate.needs_groups]
    if problem.objective.rate.needs_groups:
        needing.append(f"objective={classifier.objective!r}")
    if classifier.by_group:
        needing.append("by_group")
    if needing:
        raise ValueError(f"{needing[0]} needs groups: give groups=, with an entry for each row")


# -- the selection data ----------------------------------------------------------------------------------


def name_groups(mix: Any, groups: Groups, used: Mask | None = None) -> None:
    """Set the names of groups, of all rows or of the rows ``used``."""
    set_groups(mix, GroupNames.from_groups(groups, n_rows_of(groups), used))


def set_groups(mix: Any, names: GroupNames) -> None:
    """Set the names of groups; raise ValueError if they lack the column of ``by_group``."""
    regroup(mix, names)
    column_read(mix)


def column_read(mix: Any) -> int | None:
    """Return the number of the column of groups named by ``by_group``; None for group-blind rules.

    Raises
    ------
    ValueError
        If ``by_group`` names no column of the groups, or is True although the groups have several columns.
    """
    if not mix.by_group:
        return None
    titles = mix._group_names.titles
    if mix.by_group is not True:
        if titles == (None,):
            raise ValueError(
                f"by_group={mix.by_group!r}: groups have no name; state by_group=True"
            )
        if mix.by_group not in titles:
            near = did_you_mean(str(mix.by_group), map(str, titles))
            raise ValueError(
                f"by_group={mix.by_group!r}: no column of groups has this name; {near}there are "
                f"{list(titles)}"
            )
        return int(titles.index(mix.by_group))
    if len(titles) > 1:
        limited_names: list[Any] = []
        for limit in problem_of(mix).limits:
            limited_names += names_in(limit.rate.by)
        limited = [name for name in dict.fromkeys(limited_names) if name in titles]
        choices = " or ".join(f"by_group={name!r}" for name in limited or titles)
        raise ValueError(
            f"by_group=True: groups has the columns {list(titles)}, and rules may read one of "
            f"them: give {choices}"
        )
    return 0


def outputs_on(
    mix: Any, models: Models, arguments: Given, to: str
) -> tuple[ModelOutputs, Rows]:
    """Return the models' log-probabilities of new selection data, and these rows with features and costs.

    ``to`` is the name of the called method, for messages.
    """
    if models.are_given:
        X = stacked(arguments.X, models.names, mix.classes_, n_rows_of(arguments.y))
    else:
        X = checked_rows(mix, arguments.X)
    rows = selection_data(mix, X, arguments, f"the {{:,}} rows given to {to}")
    are_frozen = [isinstance(model, FrozenEstimator) for model in models.fitted]
    if not all(are_frozen):  # the fit has trained models
        rows = marked_if_seen(
            mix.records_.trained, rows, "the probabilities kept with the model"
        )
    rows = marked_if_frozen(mix, rows)
    if only_scores(models.fitted):  # rows with equal scores are different rows
        rows = replace(rows, row_hashes=None)
    table = models.transform(rows.X)
    logs = [table[i] for i in range(len(models.names))]
    return ModelOutputs.with_hashes(models, logs, rows.without_features()), rows


def engine_of(
    mix: Model,
    problem: Problem,
    outputs: ModelOutputs,
    X: Table = None,
    costs: Table = None,
) -> ProbabilityEngine:
    """Return the candidates for the selection.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        The classifier, with its parameters and labels.
    problem : Problem
        The objective within limits.
    outputs : ModelOutputs
        The log-probabilities of the models on the selection data.
    X : table of n rows, optional
        Features of the selection data, from which a group may be estimated.
    costs : ndarray of shape (n, K), optional
        Cost of each answer in each row.
    """
    reads_scores = only_scores(outputs.models.fitted) and not outputs.models.are_given
    if mix.infer_groups and reads_scores:
        raise ValueError(
            "infer_groups=True: scores have no other columns from which a group could be "
            "estimated; give the model and its features, or leave infer_groups out"
        )
    return ProbabilityEngine.from_outputs(
        problem,
        outputs,
        X,
        mix.classes_,
        getattr(mix, "_group_names", None),
        rule_column=column_read(mix),
        infer_groups=mix.infer_groups,
        costs=costs,
    )


def engine_on(mix: Any, arguments: Given, problem: Problem) -> ProbabilityEngine:
    """Return the candidates on the rows of a call of `reweight`; the copy ``mix`` gets their groups."""
    if arguments.groups is not None:
        name_groups(mix, arguments.groups)
    models = mix.selection_.engine.outputs.models
    outputs, rows = outputs_on(mix, models, arguments, "reweight")
    check_groups(mix, problem, rows.groups)
    features = None
    if models.are_given:
        outputs.check_order(mix.classes_)
    elif not only_scores(models.fitted):  # no group is estimated from scores
        features = rows.X
    if problem.needs_costs and rows.costs is None:
        raise ValueError("costs of the rows are not kept with the model: give X, y and costs")
    return engine_of(mix, problem, outputs, features, rows.costs)


def engine_by(mix: Any, groups: Groups, problem: Problem) -> ProbabilityEngine:
    """Return the candidates on the same selection data with other groups; the copy ``mix`` gets them."""
    outputs = mix.selection_.engine.outputs
    rows = outputs.rows
    used = rows_among(groups, rows)
    name_groups(mix, groups, used)
    numbers = mix._group_names.numbers_of(groups, "groups", len(used), used)
    check_groups(mix, problem, numbers)
    if problem.needs_costs:
        raise ValueError("costs of the rows are not kept with the model: give X, y and costs")
    return engine_of(mix, problem, replace(outputs, rows=replace(rows, groups=numbers)))


def set_rule(mix: Any, selection: Selection) -> None:
    """Set the selection of a new classifier, or of a copy, and drop the certificate of another rule."""
    mix.selection_ = selection
    vars(mix).pop("certificate_", None)


# -- answers ---------------------------------------------------------------------------------------------


def models_and_table(mix: Any, X: Table) -> tuple[Models, Any]:
    """Return the models for a table or for given probabilities, and the checked table."""
    check_is_fitted(mix)
    models = mix.selection_.engine.outputs.models
    if has_named_columns(X):
        models = Models.from_given(models.names, mix.classes_, models.average)
    return models, checked_rows(mix, X)


def checked_rows(mix: Any, X: Table) -> Any:
    """Return a table in the form of the fit, or given probabilities as an array, shape (n, M, K).

    Parameters
    ----------
    mix : RobustMixtureClassifier
        A fitted classifier.
    X : table of n rows, or dict of arrays
        The rows, or the probabilities of each model by its name.
    """
    models = mix.selection_.engine.outputs.models
    if has_named_columns(X):
        return stacked(X, models.names, mix.classes_)
    if models.are_given:
        raise AttributeError(
            "this classifier is made from_probabilities and has no models: give a dict of "
            "their probabilities of the new rows"
        )
    return checked_table(mix, mix, X)


def group_numbers(mix: Any, groups: Groups, n: int) -> Ints | None:
    """Return the number of each row's group, shape (n,), in the column of a group-aware rule.

    None for a group-blind rule.

    Raises
    ------
    ValueError
        If ``by_group`` was changed after the selection, or groups are missing, unknown or not used.
    """
    reads_groups = mix.selection_.engine.probabilities.group_aware
    column = column_read(mix)
    may_read = column is not None and len(mix._group_names.values[column]) > 1
    if reads_groups != may_read:
        reads = "reads no group"
        if reads_groups:
            reads = "reads the group"
        raise ValueError(
            f"by_group={mix.by_group!r} was set after the selection of a rule that {reads}: "
            "tune again"
        )
    check_groups_read(groups, reads=column is not None)
    if column is None:
        return None
    names = mix._group_names.only(column)
    groups = as_pandas(groups)
    if names_columns(groups):
        # The rule reads one of several columns; `numbers_of` refuses a table without this column.
        groups = {name: groups[name] for name in groups if name in names.titles} or groups
    return names.numbers_of(groups, "groups", n)


def models_and_rows(mix: Any, X: Table, groups: Groups) -> tuple[Models, Any, Ints | None]:
    """Return the models for the rows of a call, the checked table, and the rows' `group_numbers`.

    The numbers are None for a group-blind rule.

    Parameters
    ----------
    mix : RobustMixtureClassifier
        A fitted classifier.
    X : table of n rows
        The rows of the call as given.
    groups : array-like of shape (n,), table or name of a column, or None
        Their groups as given.
    """
    groups = groups_in(X, groups)
    check_indexes(X=X, groups=groups)
    columns = list(getattr(X, "columns", ()))
    if groups is None and columns and mix.selection_.engine.probabilities.group_aware:
        number = column_read(mix)
        if number is not None and mix._group_names.titles[number] is not None:
            raise ValueError(no_groups("X", mix._group_names.titles[number], columns))
    models, X = models_and_table(mix, X)
    return models, X, group_numbers(mix, groups, n_rows_of(X))


def tables_of(mix: Any, X: Table, groups: Groups) -> Iterator[LogProbabilities]:
    """Return the models' log-probabilities of rows in batches, with the number of each row's group.

    Arguments are checked by the call, before the first batch is asked for. Rows opened before are one batch.
    """
    if isinstance(X, LogProbabilities):
        return iter([X])
    return _log_probability_batches(*models_and_rows(mix, X, groups), mix.verbose)


def opened(mix: Any, X: Table, groups: Groups) -> LogProbabilities:
    """Return the models' log-probabilities of all rows, computed once for all rules."""
    models, X, numbers = models_and_rows(mix, X, groups)
    batches = list(_log_probability_batches(models, X, numbers, mix.verbose))
    return LogProbabilities.joined(batches, X)


def _log_probability_batches(
    models: Models, X: Table, groups: Ints | None, verbose: object
) -> Iterator[LogProbabilities]:
    """Yield the log-probabilities of each batch, and report the number of finished rows.

    Parameters
    ----------
    models : Models
        The models that answer.
    X : checked table of n rows
        The rows.
    groups : ndarray of int, shape (n,), or None
        Number of each row's group; None for a group-blind rule.
    verbose : int or bool
        Whether progress is printed.
    """
    progress: Any = nullcontext()
    if verbose:
        progress = telling()
    with ExitStack() as stack:
        with progress:  # ends before the first yield, and so has no effect on callers
            report_rows = stack.enter_context(steps("rows", n_rows_of(X)))
        for row_numbers, rows in batched(X):
            table = models.transform(rows)
            if groups is not None:
                table = table.knowing(groups[row_numbers])
            yield table
            report_rows(len(row_numbers))
