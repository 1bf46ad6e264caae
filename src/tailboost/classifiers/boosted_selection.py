"""Another selection among the candidates of a game, without training: other rows, problems and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailboost.boosting.subgroups import allowed_errors
from tailboost.classifiers.boosting_fit import set_rule
from tailboost.classifiers.input import marked_if_seen, regroup, selection_data
from tailboost.classifiers.reselected import Restated
from tailboost.core.array_types import Groups, Stated
from tailboost.core.checks import check_number, n_rows_of
from tailboost.core.exceptions import BoundNotMetWarning, ResubstitutionWarning, warn_user
from tailboost.core.rate_words import estimate_words
from tailboost.rates import Objective, error, limits_to_keep
from tailboost.rows.given import Given
from tailboost.rows.judged import group_uses, judged
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupNames, rows_among, unit_name
from tailboost.selection.mixture import Counts, Mixture
from tailboost.selection.problem import Problem, objective_named
from tailboost.selection.summary import Summary, mixture_summary

# Advice of the warning for training rows of the hypotheses.
ADVICE = (
    "the losses stored with the model (objective='worst_group' then takes the groups of the "
    "training rows)"
)
# Maximum number of subgroups in a warning about missed limits.
SUBGROUPS_WARNED = 5


# -- the problem, and the selection data -----------------------------------------------------------------


def restated_problem(clf: Any, arguments: Given, restated: Restated) -> Problem:
    """Return the problem of a call of `reweight`, and set its ``alpha`` in the new classifier.

    ``arguments`` has the rows of the call. A new objective drops the limits of the fit.
    """
    problem = clf.selection_.problem
    objective = restated.objective
    alpha = _alpha_for(clf, objective, restated.alpha)
    keeps_objective = objective is None and alpha is None
    new_objective = problem.objective
    new_limits = problem.limits
    if not keeps_objective:
        new_objective = objective_named(objective or "cvar", alpha)
        new_limits = ()
    if restated.limits is not None:
        new_limits = limits_to_keep(restated.limits)
    budget = problem.error_budget
    if restated.error_budget is not None:
        budget = check_number(restated.error_budget, "error_budget", 0, 1, closed=True)

    groups = arguments.groups
    if groups is not None and keeps_objective and not problem.steering.needs_groups:
        raise ValueError(
            f"the {new_objective} is not about groups: give objective='worst_group'"
        )
    if arguments.X is not None and objective == "worst_group" and groups is None:
        raise ValueError("objective='worst_group' needs groups")
    is_about_classes = keeps_objective or objective in (None, "cvar", "worst_class")
    if arguments.X is None and groups is not None and is_about_classes:
        raise ValueError("groups without X and y need objective='worst_group'")
    if new_limits and new_objective.over_rows:
        raise ValueError(
            f"limits have no meaning with the {new_objective}: give a rate as the objective "
            "too, such as objective='error'"
        )
    if alpha is not None and "alpha" in clf.get_params(deep=False):
        clf.alpha = alpha
    return replace(problem, objective=new_objective, limits=new_limits, error_budget=budget)


def _alpha_for(clf: Any, objective: Stated, alpha: float | None) -> float | None:
    """Return the tail mass α of the objective of `reweight`, checked; None if the objective is no CVaR.

    Without an objective, α comes from the call, otherwise from the classifier.
    """
    if alpha is None and objective in (None, "cvar"):
        alpha = clf.get_params(deep=False).get("alpha")
    if objective == "cvar" and alpha is None:
        raise ValueError(f"alpha is needed: {type(clf).__name__} has none")
    if objective not in (None, "cvar") and alpha is not None:
        raise ValueError(f"alpha={alpha!r} has no meaning with objective={objective!r}")
    if alpha is None:
        return None
    return check_number(alpha, "alpha", 0, 1)


def counts_of(clf: Any, rows: Rows) -> Counts:
    """Return the strata of selection data, by the subgroups of the fit."""
    if clf._named.kind == "class":
        return Counts(rows, clf.classes_)
    return Counts(rows, clf.classes_, clf._group_names, clf._named.cells)


def name_groups(clf: Any, groups: Groups) -> GroupNames:
    """Give a new classifier the names of the groups of the call, and return them."""
    group_names = GroupNames.from_groups(groups, n_rows_of(groups))
    regroup(clf, group_names)
    clf._regrouped = True
    return group_names


def mixture_on_rows(clf: Any, arguments: Given, problem: Problem) -> Mixture:
    """Return the mixture of the same candidates for a selection of weights on the rows of the call.

    With a new objective, the classifier gets the names of the groups of the call. Training rows of the
    hypotheses bring a warning.

    Parameters
    ----------
    clf : boosting classifier
        The copy that will answer.
    arguments : Given
        The rows of the call.
    problem : Problem
        The objective within limits.
    """
    arguments.refuse("boosting")
    has_new_objective = problem.objective is not clf.selection_.problem.objective
    if has_new_objective and arguments.groups is not None:
        name_groups(clf, arguments.groups)
    words = "the {:,} rows given to reweight"
    X, rows = selection_data(clf, judged(clf).checked(arguments.X), arguments, "", words)
    rows = marked_if_seen(clf.records_.trained, X, rows, ADVICE)
    names = None
    if arguments.groups is not None:
        names = clf._group_names
    pool = clf.selection_.pool.on_rows(X, rows)
    return Mixture(problem, pool, Counts(rows, clf.classes_, names))


def mixture_by_groups(clf: Any, groups: Groups, problem: Problem) -> Mixture:
    """Return the mixture of the same candidates on the same selection data with other groups.

    The new classifier gets the names of these groups.

    Raises
    ------
    ValueError
        If a group has no row among the selection data.
    """
    rows = clf.selection_.pool.rows
    used = rows_among(groups, rows)
    names = name_groups(clf, groups)
    numbers = names.numbers_of(groups, "groups", len(used), used)
    absent = np.setdiff1d(np.arange(len(names.names)), numbers)
    if len(absent):
        raise ValueError(
            f"the selection data, {rows.words}, have no row in group(s) "
            f"{names.names[absent].tolist()}: give X and y with rows of every group, or fit "
            "with cv=5"
        )
    if rows.fitted:
        warn_user(
            f"the selection data are {rows.words}, on which the hypotheses were fitted: their "
            "losses are smaller than on new rows. Fit with another cv than 'train', or give "
            "other rows",
            ResubstitutionWarning,
        )
    pool = replace(clf.selection_.pool, rows=replace(rows, groups=numbers))
    return Mixture(problem, pool, Counts(pool.rows, clf.classes_, names))


# -- the selection ---------------------------------------------------------------------------------------


def select(clf: Any, mixture: Mixture, problem: Problem, max_error: Stated) -> None:
    """Select for a problem, let a new classifier answer by the selected rule, and warn of missed limits.

    ``max_error`` as given to `reweight` replaces objective and limits of the problem, None keeps them.
    """
    if max_error is None:
        limits_changed = problem.limits != clf.selection_.problem.limits
        select_for(clf, mixture, problem)
        if limits_changed and problem.limits:
            judged(clf).selected.warn_of_violations()
        return
    problem = problem_of_max_error(clf, mixture, problem, max_error)
    select_for(clf, mixture, problem)
    judged_clf = judged(clf)
    # Targets are a parameter of the classifier only for the subgroups of the fit.
    if judged_clf.own_subgroups and "max_error" in clf.get_params(deep=False):
        clf.max_error = max_error
        clf._allowed = allowed_errors(max_error, clf._named.names.tolist(), clf._named.kind)
    missed = [line for line in judged_clf.errors_table if line.met is False]
    if missed:
        strict = any(limit.strict for limit in problem.limits)
        lines = [(line.subgroup, line.value, line.bound) for line in missed]
        warn_user(missed_words(clf, lines, strict=strict), BoundNotMetWarning)


def select_for(clf: Any, mixture: Mixture, problem: Problem) -> None:
    """Let a new classifier answer by the selected rule of a problem."""
    # Only a classifier with selected mixture weights has a parameter for the error budget.
    if not clf.selection_.even and "error_budget" in clf.get_params(deep=False):
        clf.set_params(error_budget=problem.error_budget)
    selection = mixture.aiming_at(problem)
    set_rule(clf, selection, selection.rule())


def problem_of_max_error(
    clf: Any, mixture: Mixture, problem: Problem, max_error: Stated
) -> Problem:
    """Return the problem of the least overall error within ``max_error`` for each subgroup.

    The subgroups are the subgroups of the objective, such as the classes for "worst_class". For the overall
    error, they are the subgroups of earlier limits.
    """
    objective = problem.objective
    if objective.over_rows:
        raise ValueError(
            f"max_error={max_error!r} has no meaning with the {objective}: give "
            "objective='worst_class' or 'worst_group'"
        )
    rate = objective.rate
    if rate.by is None:  # the overall error: earlier limits name the subgroups
        rate = clf.selection_.problem.steering
    names, _ = mixture.counts.strata.subgroups(rate.by)
    if not isinstance(max_error, Mapping):
        max_error = check_number(max_error, "max_error", 0, 1)
    targets = allowed_errors(max_error, names, rate.by)
    limit = rate <= dict(zip(names, targets.tolist(), strict=True))
    limit = replace(limit, strict=clf.game_.stakes.indicator)
    return replace(problem, objective=Objective.from_expression(error()), limits=(limit,))


# -- the result ------------------------------------------------------------------------------------------


def summary_of(clf: Any) -> Summary:
    """Return the summary of a fitted mixture: its game, the bounds, and the errors by subgroup.

    The errors of the randomised rule are listed too if they differ from the errors of `predict`.
    """
    weights = clf.estimator_weights_
    classes = clf.classes_.tolist()
    bounds, symbols = clf._bounds()
    judged_clf = judged(clf)
    summary = mixture_summary(
        clf.game_, clf.selection_, weights, gap=clf.gap_, bounds=bounds, classes=classes
    )

    errors = None
    by_class = None
    if clf.selection_.problem.over_rows:
        by_class = replace(judged_clf.measured(error(by="class")), kind="class")
    else:
        errors = judged_clf.errors_table
        randomised_lines = judged_clf.errors_by(judged_clf.expected_counts).lines
        values = [line.value for line in errors.lines]
        randomised_values = [line.value for line in randomised_lines]
        if not np.array_equal(values, randomised_values, equal_nan=True):
            lines = [replace(line, rule="randomised") for line in randomised_lines]
            errors = replace(errors, lines=(*errors.lines, *lines))
    return replace(
        summary,
        errors=errors,
        by_class=by_class,
        overall_line=judged_clf.measured(error()).lines[0],
        groups=group_uses(clf),
        symbols=summary.symbols | symbols,
        early_end=clf.trace_.early_end,
    )


def missed_words(
    clf: Any,
    missed: Sequence[tuple[Any, float, float]],
    reasons: Sequence[str] = (),
    *,
    strict: bool,
) -> str:
    """Return the text of a warning about subgroups with an error above their limit.

    Parameters
    ----------
    clf : MixtureClassifier
        The fitted classifier.
    missed : sequence of (name, error, limit)
        The subgroups.
    reasons : sequence of str
        Reasons, to which the reason of the selection is added.
    strict : bool
        Whether an error equal to the limit is too large.
    """
    mixture = clf.selection_
    allowed = "allowed"
    if strict:
        allowed = "allowed less than"
    words = f"the bound is not met on {mixture.pool.rows.words}"
    if missed:
        n_rows = len(mixture.pool.rows)
        listed = ", ".join(
            f"{unit_name(name)} ({estimate_words(error, n_rows, beside=bound)}, {allowed} {bound:.6g})"
            for name, error, bound in missed[:SUBGROUPS_WARNED]
        )
        words += f" for {mixture.problem.steering.by} {listed}"
    if len(missed) > SUBGROUPS_WARNED:
        words += " and others"
    for reason in (*reasons, mixture.unreachable):
        if reason:
            words += f"; {reason}"
    return words
