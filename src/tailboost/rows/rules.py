"""Which features of a call exclude each other: one table for all calls that read rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

# Features that exclude each other, and below them the message; features on several lines share one. A
# feature is the name of a given argument, "no " and the name of an absent one, or a fact of the call: its
# purpose ("selection", "fresh", "reweight"), the kind of the model, or what the stated rates need. Words in
# braces are details of the call.
TABLE = """
# X and y of reweight
X is a number, no y
    reweight({X!r}): the first argument is X; give a budget as error_budget={X!r}

X is a text, no y
    reweight({X!r}): the first argument is X; give a limit as limits=[{X!r}]

reweight, X, no y
reweight, no X, y
    reweight needs both X and y, or neither

reweight, no X, sample_weight
reweight, no X, costs
    sample_weight and costs belong to rows: give X and y too

boosting, confidence
    confidence= has no meaning for boosting: it is for models

boosting, costs
    costs= has no meaning for boosting: it is for models

# rows given for the selection
no groups, groups_val
    groups_val was given without groups

groups, X_val, no groups_val
    groups and X_val were given without groups_val

validation, no X_val
validation, no y_val
    {alone} given, but a validation set needs both X_val and y_val

validation, cv
    cv={cv!r} and X_val were both given; use cv='auto'

validation, X_val without rows
    X_val is empty: it needs at least one row

validation, clusters
    clusters and X_val were both given, but X_val is not split

# rows without labels beside those of a selection
selection, no X_unlabeled, groups_unlabeled
    groups_unlabeled was given without X_unlabeled

selection, no groups, groups_unlabeled
    groups_unlabeled was given without groups

selection, X_unlabeled, groups, no groups_unlabeled
    groups and X_unlabeled were given without groups_unlabeled

selection, X_unlabeled, CVaR
    X_unlabeled has no meaning with objective='cvar': rows without labels have no losses

selection, X_unlabeled, rate of costs
    X_unlabeled: costs of the rows are limited or minimised, and these have none

selection, X_unlabeled, clusters
    clusters and X_unlabeled were both given, but the clusters of rows without labels are
    not known

selection, X_unlabeled, X_unlabeled without rows
    X_unlabeled is empty: it needs at least one row

# rows without labels beside fresh ones
one batch, no y
    y_cal is needed: no rule of this {model} was selected, and rows without labels select
    none. Select on rows with labels first: tune(model, X, y, ...)

fresh, no X_unlabeled, groups_unlabeled
    groups_unlabeled was given without X_unlabeled

fresh, X, no y, X_unlabeled
    X was given without y: all rows without labels go into X_unlabeled

fresh, no X, no y, groups
    groups was given without X and y; those of X_unlabeled are groups_unlabeled

fresh, y, X_unlabeled, groups, no groups_unlabeled
fresh, y, X_unlabeled, no groups, groups_unlabeled
    groups and groups_unlabeled: give both or neither

fresh, X_unlabeled, errors
    X_unlabeled: errors need labels; state rates or limits of answers alone

fresh, X_unlabeled, array of answers
    X_unlabeled: model is an array of answers, and has none to these rows

fresh, X_unlabeled, rate of costs
    X_unlabeled: a rate is a mean of costs by row, and these rows have none

fresh, X_unlabeled, clusters
    clusters and X_unlabeled were both given, but rows without labels have none

fresh, X_unlabeled, sample_weight
    sample_weight and X_unlabeled were both given, but rows without labels have none

# groups
CVaR, by_group
    by_group has no meaning with objective='cvar': it is for groups

named objective of groups, no groups
    objective={objective!r} needs groups

selection, rate of groups, no groups
    {rate!r} needs groups: give groups=, with an entry for each row

by_group, no groups
    by_group needs groups

certificate, rate of groups, no groups
    groups is needed: {rate!r} needs groups; give groups=, with an entry for each row

blind rule, groups
    groups are not used by the rule of this classifier: leave them out

group-aware rule, no groups
    groups are needed: the rule of this classifier reads them (by_group). Give groups=…

# costs of the rows
rate of costs, kept rows
    costs of the rows are not kept with the model: give X, y and costs

certificate, rate of costs, no costs
certificate, rate of costs, no cost_range
    {rate!r} is a mean of costs by row: give costs=, and cost_range=(smallest, largest)
    possible cost of any answer to any row; the given rows do not show it

# a classifier, or an array of answers
array of answers, training_rows
    training_rows: model is an array of answers, so there are no rows to compare

array of answers, X
    X must be None if model is an array of answers, got {model}

array of answers, rate of deferral, no deferred
    deferred is needed: {rate!r} counts deferred rows, and an array of answers does not show
    them; give deferred=, a mask that is True for a deferred row

classifier, deferred
    deferred goes with an array of answers: a classifier knows its deferred rows

classifier, no X
    X is needed: model is a classifier
"""


def _read(table: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the features of each line of a table, with their message.

    Blocks of lines are apart by an empty line. Lines of a message are indented, comments begin with #.
    """
    for block in table.strip().split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith("#")]
        message = " ".join(line.strip() for line in lines if line.startswith(" "))
        for line in lines:
            if not line.startswith(" "):
                yield tuple(line.split(", ")), message


ARGUMENT_RULES = tuple(_read(TABLE))

NO_DETAILS: Mapping[str, Any] = MappingProxyType({})


def refuse(*facts: str, details: Mapping[str, Any] = NO_DETAILS, **arguments: Any) -> None:
    """Raise if features of a call exclude each other.

    Parameters
    ----------
    *facts : str
        Facts of the call, see `ARGUMENT_RULES`.
    details : mapping of str to object
        Values for the names in braces in messages.
    **arguments
        Arguments of the call; None is an absent one.

    Raises
    ------
    ValueError
        Gives the message of the first rule that applies.
    """
    features = set(facts)
    for name, value in arguments.items():
        if value is None:
            features.add(f"no {name}")
        else:
            features.add(name)
    for excluding, message in ARGUMENT_RULES:
        if features.issuperset(excluding):
            raise ValueError(message.format_map(details))
