"""``rule``: what decides in a mixture, taken out."""

from __future__ import annotations

from typing import Annotated

import typer

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
        str, typer.Option(metavar="PATTERN", help="With --sql: how these columns are called.")
    ] = "{model}_{label}",
    table: Annotated[
        str, typer.Option(metavar="NAME", help="With --sql: name or alias of the table in your query.")
    ] = "t",
    group: Annotated[
        str | None, typer.Option(metavar="COL", help="With --sql: the column of groups, if they are told.")
    ] = None,
    deferred: Annotated[
        bool, typer.Option("--deferred", help="With --sql: whether a row is passed on, instead of its label.")
    ] = False,
) -> None:
    """Print which models decide, the weights of their probabilities, and prices by class and group.

    A mixture (robustmixture) is a function of the class probabilities of its models. With these in a database
    or a service its rule is all that is needed. The SQL expression is NULL for rows that `predict` refuses.
    """
    if as_json and sql:
        raise BadInput("--json and --sql: give one of them")
    classifier = StoredModel.read(model).classifier
    if not hasattr(classifier, "rule_"):
        raise BadInput(
            f"{str(model)!r} is a {type(classifier).__name__}, whose members were trained "
            "for what it does; a rule on probabilities is what --method robustmixture has"
        )
    found = classifier.rule_
    if as_json:
        tell_json(found.to_dict())
    elif sql:
        with bad_input("--columns: "):
            try:
                columns.format(model="m", label="l")
            except (KeyError, IndexError):
                raise ValueError(f"{columns!r}: there are {{model}} and {{label}} alone") from None
        with bad_input("--sql: "):
            print(
                found.to_sql(
                    lambda name, label: columns.format(model=name, label=label),
                    group=group,
                    what="deferred" if deferred else "label",
                    table=table,
                )
            )
    else:
        tell(str(found))
