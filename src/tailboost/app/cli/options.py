"""Arguments and options of the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tailboost.app.cli.shared import read_number


def level(text: str) -> float:
    """Return a number, which may be written in percent."""
    try:
        return read_number(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number such as .3 or 30%") from None


def _fraction(text: str) -> float:
    fraction = level(text)
    if not 0 <= fraction <= 1:
        raise typer.BadParameter(f"{text} is not in the range 0<=x<=1")
    return fraction


def _jobs(jobs: int) -> int:
    if jobs == 0 or jobs < -1:
        raise typer.BadParameter(f"must be -1 (all cores) or at least 1, got {jobs}")
    return jobs


def _separator(sep: str) -> str:
    sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
    if len(sep) != 1 or sep in '"\r\n':
        raise typer.BadParameter(f"must be one character, or tab; got {sep!r}")
    return sep


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="Table: a CSV (or .gz, .bz2, .xz) or Parquet file.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `tailboost fit`.")]
ModelOut = Annotated[Path, typer.Option("--model", metavar="FILE", help="Model file to write.")]
Target = Annotated[str, typer.Option(metavar="COL", help="Column to predict.")]
Labels = Annotated[
    str | None, typer.Option(metavar="COL", help="Column of the true labels; default: the target of the fit.")
]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="COL", help="Column of groups; may be repeated.")
]
FitCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="COL",
        help="Column of persons or sites, no feature: rows with the same value stay together in splits.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column of persons or sites, whose rows depend on each other."),
]
Confidence = Annotated[
    float, typer.Option(metavar="P", help="Probability that all bounds hold together, in (0, 1).")
]
EqualRows = Annotated[
    Literal["copies", "natural"],
    typer.Option(
        help="How rows that equal training rows are treated. copies: they are refused as data leakage; "
        "natural: columns have few values, and equal rows are different cases."
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL", help="Column that is no feature; may be repeated."),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COL", help="Feature that only looks like an id; may be repeated."),
]
Weight = Annotated[str | None, typer.Option(metavar="COL", help="Column of row weights, no feature.")]
Sep = Annotated[
    str,
    typer.Option(metavar="CHAR", callback=_separator, help="Separator of CSV files; `tab` is allowed."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
# One core by default: threads of the tree library wait actively for each other. On shared cores a fit on a
# few thousand rows took fifty times as long with two threads.
Jobs = Annotated[
    int, typer.Option(callback=_jobs, help="Processor cores per fit; -1 takes all (for large tables).")
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.json and report.html.")]
OutFile = Annotated[Path, typer.Option(metavar="FILE", help="CSV file to write.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Escape = Annotated[
    bool,
    typer.Option("--escape-formulas", help="Put ' before text that a spreadsheet would run (=, +, -, @)."),
]
ErrorBudget = Annotated[
    float | None,
    typer.Option(
        parser=_fraction,
        metavar="X",
        help="Largest accepted increase of the overall error, relative to the most accurate candidate.",
    ),
]
MaxError = Annotated[
    str | None,
    typer.Option(
        metavar="TARGETS", help="Errors allowed: .3, or 'yes=.2,*=.4' by class or group (*: all others)."
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Rate to minimise: worst_class, worst_group, worst_cell, error, or a rate such as "
        "'largest(error(by=cell))' or 'cost()'. Default with --limit: the overall error.",
    ),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="LIMIT",
        help="Limit on a rate: 'gap(selected(yes, by=sex)) <= 2%', 'miss(ill) <= .1', "
        "'ratio(selected(yes, by=sex)) >= .8'; may be repeated.",
    ),
]
Costs = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="CSV table of costs for 'cost()', with a column for each prediction. Either a row for each true "
        "label, which the first column names; cells are numbers or columns of DATA, such as 5*amount. Or a "
        "row for each row of DATA.",
    ),
]
Rates = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="RATE",
        help="Rate such as 'selected(yes, by=sex)', or limit; may be repeated. Default: those of the fit.",
    ),
]
