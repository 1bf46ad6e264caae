"""``rule``: the decision rule of a stored mixture, as text, JSON or SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from tailboost import ThresholdRule
from tailboost.app.cli import options as given
from tailboost.app.cli.models import StoredModel
from tailboost.app.cli.shared import BadInput, bad_input, tell, tell_json


def rule(
    model: given.Model,
    as_json: given.Json = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print an SQL expression over columns of probabilities.")
    ] = False,
    columns: Annotated[
        str, given.option("PATTERN", "With --sql: names of these columns.")
    ] = "{model}_{label}",
    table: Annotated[
        str, given.option("NAME", "With --sql: name or alias of the table in your query.")
    ] = "t",
    group: Annotated[
        str | None, given.option("COL", "With --sql: column of groups of a group-aware rule.")
    ] = None,
    deferred: Annotated[
        bool, typer.Option("--deferred", help="With --sql: whether a row is deferred, instead of its label.")
    ] = False,
) -> None:
    """Print the decision rule of a mixture: models, weights of their probabilities, and action costs.

    The rule of a robustmixture is a function of its models' class probabilities. A database or service with
    these probabilities needs nothing more. The SQL expression is NULL for rows with missing or invalid
    probabilities.
    """
    if as_json and sql:
        raise BadInput("--json and --sql: give one of them")
    classifier = StoredModel.read(model).classifier
    if not hasattr(classifier, "rule_"):
        raise BadInput(
            f"{str(model)!r}: a {type(classifier).__name__} has no rule on class probabilities; use --method "
            "robustmixture"
        )
    decision_rule = classifier.rule_
    if as_json:
        tell_json(decision_rule.to_dict())
    elif sql:
        with bad_input("--columns: "):
            try:
                columns.format(model="m", label="l")
            except (KeyError, IndexError):
                raise ValueError(f"{columns!r} may contain {{model}} and {{label}} only") from None
        with bad_input("--sql: "):
            if isinstance(decision_rule, ThresholdRule):
                expression = decision_rule.to_sql(
                    group=group, what="deferred" if deferred else "action", table=table
                )
            else:
                expression = decision_rule.to_sql(
                    lambda name, label: columns.format(model=name, label=label),
                    group=group,
                    what="deferred" if deferred else "label",
                    table=table,
                )
        print(expression)
    else:
        tell(str(decision_rule))
