"""The options of the commands, each with its words, and what reads their text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tailboost.app.cli.shared import read_number


def _checked_jobs(jobs: int) -> int:
    if jobs == 0 or jobs < -1:
        raise typer.BadParameter(f"must be -1 (all cores) or at least 1, got {jobs}")
    return jobs


def level(text: str) -> float:
    """Read a number, also one in percent."""
    try:
        return read_number(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number such as .3 or 30%") from None


def _share(text: str) -> float:
    share = level(text)
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"{text} is not in the range 0<=x<=1")
    return share


# What a lower worst error may cost in mean error.
MeanBudget = Annotated[
    float | None,
    typer.Option(parser=_share, metavar="X", help="Mean error to spend above the least of a member."),
]


def _checked_sep(sep: str) -> str:
    sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
    if len(sep) != 1 or sep in '"\r\n':
        raise typer.BadParameter(f"must be one character, or tab; got {sep!r}")
    return sep


Data = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV (also .gz, .bz2, .xz) or Parquet file.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model written by `tailboost fit`.")]
Target = Annotated[str, typer.Option(metavar="COL", help="The column to predict.")]
Labels = Annotated[
    str | None, typer.Option(metavar="COL", help="The column of the labels; by default that of the fit.")
]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="COL", help="A column of groups; may be repeated.")
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Whose rows these are: persons who have several get one vote each."),
]
Confidence = Annotated[float, typer.Option(metavar="P", help="Probability that all bounds hold, in (0, 1).")]
EqualRows = Annotated[
    Literal["copies", "natural"],
    typer.Option(
        help="What rows equal to some fitted on are: copies, which are refused, or natural, where columns "
        "take few values and nobody copied a row."
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL", help="A column that is no feature; may be repeated."),
]
Identity = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COL",
        help="The column of the rows' ids: no feature; rows of one id stay together in splits.",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COL", help="A feature though it looks like an id; may be repeated."),
]
Sep = Annotated[
    str,
    typer.Option(
        metavar="CHAR", callback=_checked_sep, help="What separates the values of a CSV file; tab works."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
# One by default: the tree library's threads spin while they wait for each other. On shared cores a fit on a
# table of a few thousand rows took fifty times as long with two threads.
Jobs = Annotated[
    int, typer.Option(callback=_checked_jobs, help="Processor cores per fit; -1 takes all: for large tables.")
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.json and report.html.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Escape = Annotated[
    bool,
    typer.Option("--escape-formulas", help="Put ' before text that a spreadsheet would run (=, +, -, @)."),
]
OutFile = Annotated[Path, typer.Option(metavar="FILE", help="The CSV file to write.")]
MaxError = Annotated[
    str | None,
    typer.Option(
        metavar="TARGETS", help="Errors allowed: .3, or 'yes=.2,*=.4' by class or group (* the others)."
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="What is made small: worst_class, worst_group, worst_cell, error, or a rate such as "
        "'largest(error(by=cell))' or 'cost()'; with --limit the mean error by default.",
    ),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="LIMIT",
        help="What has to hold: 'gap(selected(yes, by=sex)) <= 2%', 'miss(ill) <= .1', "
        "'ratio(selected(yes, by=sex)) >= .8'; may be repeated.",
    ),
]
Costs = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What answers cost, for 'cost()': a CSV table with a row for each true label (its first column) "
        "and a column for each answer, of numbers or of columns of DATA such as 5*amount; or with a row for "
        "each row of DATA and a column for each answer.",
    ),
]
Rates = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="RATE",
        help="A rate to measure, as 'selected(yes, by=sex)', or a limit; by default those of the fit.",
    ),
]
