"""The problem that parameters state."""

from tailboost.core import Stated
from tailboost.rates import as_objective, limits_to_keep
from tailboost.rows import GroupNames
from tailboost.selection.search import NAMED, Problem


def problem_of(
    objective: Stated,
    limits: Stated,
    names: GroupNames,
    by_group: bool | str,
    infer_groups: bool = False,
    error_budget: float | None = None,
) -> Problem:
    """Return the problem that parameters state for rows with these groups: every other spelling ends here.

    Without an objective it is the overall error beside limits, and otherwise the largest error of a class.
    Raise TypeError or ValueError if a parameter is none of its kind, if parameters exclude each other, or if
    they need groups and there are none.
    """
    limits = limits_to_keep(limits)
    if objective is None:
        objective = "error" if limits else "worst_class"
    if isinstance(objective, str) and "(" not in objective:
        if objective not in NAMED:
            raise ValueError(
                f"{objective=}; allowed are {', '.join(map(repr, NAMED))}, or a rate"
            )
        objective = NAMED[objective]
    objective = as_objective(objective)
    if by_group and infer_groups:
        raise ValueError(
            f"infer_groups=True: with {by_group=} the rule reads the group, and needs no "
            "estimate of it; leave one of them out"
        )
    needing = [each for each in (*limits, objective) if "groups" in each.rate.needs]
    if not names.titles and (needing or by_group):
        culprit = next(map(repr, needing), "by_group")
        raise ValueError(f"{culprit} needs groups: give groups=, with an entry for each row")
    infers = infer_groups or (objective.worst and objective in needing)
    return Problem(objective, limits, error_budget, infers and not by_group)
