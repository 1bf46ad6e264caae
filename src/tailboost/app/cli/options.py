"""Arguments and options of the commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from tailboost.app.cli.shared import is_rule_file, read_json, read_number
from tailboost.core.table_files import check_encoding


def option(metavar: str | None, text: str, *names: str, **more: Any) -> Any:
    """Return an option of typer; without ``names`` it has the name of the parameter."""
    return typer.Option(*names, metavar=metavar, help=text, **more)


def columns_of_groups(group: Sequence[str] | None, by_group: str | None) -> list[str]:
    """Return the columns of --group, with the column of --by-group."""
    columns = [*(group or []), *([] if by_group is None else [by_group])]
    return list(dict.fromkeys(columns))


def number_or_percent(text: str) -> float:
    """Return a number, which may be written in percent."""
    try:
        return read_number(text)
    except ValueError:
        has_comma = re.fullmatch(r"\d*,\d+\s*%?", text.strip())
        meant = f"; write {text.replace(',', '.')}" if has_comma else ""
        raise typer.BadParameter(f"{text!r} is not a number such as .3 or 30%{meant}") from None


def _fraction(text: str) -> float:
    """Return a number in [0, 1], which may be written in percent."""
    fraction = number_or_percent(text)
    if not 0 <= fraction <= 1:
        raise typer.BadParameter(f"{text} is not in the range 0<=x<=1")
    return fraction


def level(text: Any) -> float:
    """Return a confidence in (0, 1), which may be written in percent."""
    confidence = number_or_percent(str(text))
    if not 0 < confidence < 1:
        raise typer.BadParameter(
            f"{confidence:g} is not in the range 0<x<1; give a share such as .95, or percent such as 95%"
        )
    return confidence


def _jobs(jobs: int) -> int:
    """Return the number of processor cores after a check, before any file is read."""
    if jobs == 0 or jobs < -1:
        raise typer.BadParameter(f"must be -1 (all cores) or at least 1, got {jobs}")
    return jobs


def _separator(sep: str | None) -> str | None:
    """Return the separator of --sep as one character; None without the option."""
    if sep is None:
        return None
    sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
    if len(sep) != 1 or sep in '"\r\n':
        raise typer.BadParameter(f"must be one character, or tab; got {sep!r}")
    return sep


def _encoding(name: str | None) -> str | None:
    """Return the encoding of --encoding, after a check by Python; None, the default, is UTF-8."""
    try:
        check_encoding(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return name


class CsvFormat(NamedTuple):
    """How the CSV files of a command are written; in the shell --sep, --decimal and --encoding."""

    sep: str = ","
    decimal: str | None = None
    encoding: str | None = None

    @property
    def noted(self) -> dict[str, Any]:
        """The fields that differ from the default, for a file."""
        return {
            name: value for name, value in self._asdict().items() if value != getattr(CSV, name)
        }

    def text_of(self, table: Any) -> str:
        """Return a table as a CSV file with these signs."""
        return str(table.to_csv(index=False, sep=self.sep, decimal=self.decimal or "."))


CSV = CsvFormat()


def csv_noted_in(path: Path | None) -> dict[str, Any]:
    """Return the fields of `CsvFormat` in the notes of a rule or model file; none for another file."""
    # The storage imports the library, which `tailboost -h` does not need.
    from tailboost.storage.models import read_notes

    if path is None:
        return {}
    try:
        if is_rule_file(path):
            noted = read_json(path)["selection"]["csv"]
        else:
            noted = read_notes(path)["notes"]["csv"]
        _separator(noted.get("sep"))
        check_encoding(noted.get("encoding"))
        return {name: noted[name] for name in CsvFormat._fields if name in noted}
    except (OSError, LookupError, TypeError, AttributeError, ValueError, typer.BadParameter):
        return {}  # the command says what is wrong with the file


# Files and folders.
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="Table: CSV (or .gz, .bz2, .xz) or Parquet file.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `tailboost fit`.")]
ModelOrRule = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Model file (.model), or rule file (.json) of tune or calibrate."
    ),
]
ModelOut = Annotated[Path, option("FILE", "Model file to write.", "--model")]
Out = Annotated[Path, option("DIR", "Folder for results.json and report.html.")]
OutFile = Annotated[Path, option("FILE", "CSV or Parquet file to write.")]
Unlabeled = Annotated[
    Path | None,
    option(
        "FILE",
        "Rows without labels, which count too: features or scores, and groups (CSV or Parquet).",
    ),
]
TrainingRows = Annotated[
    Path | None,
    option(
        "FILE",
        "Rows on which the model was trained: features or scores (CSV or Parquet). The rows "
        "of DATA may not be among them.",
    ),
]
Sep = Annotated[
    str | None,
    option(
        "CHAR",
        "Separator of CSV files; `tab` is allowed. Default: a comma, or that of the rows on "
        "which the rule of a file was selected; so for --decimal and --encoding.",
        callback=_separator,
    ),
]
Decimal = Annotated[
    Literal[".", ","] | None,
    option(
        None,
        "Decimal sign of CSV files; the other one may group thousands. By default numbers "
        "with commas are refused.",
    ),
]
Encoding = Annotated[
    str | None,
    option(
        "NAME",
        "Encoding of CSV files, such as cp1252. Default: UTF-8 or UTF-16.",
        callback=_encoding,
    ),
]
#: The options of `CsvFormat`, by its fields.
OF_CSV = {"sep": Sep, "decimal": Decimal, "encoding": Encoding}

# Columns.
Target = Annotated[str, option("COL", "Column to predict.")]
Labels = Annotated[
    str | None, option("COL", "Column of the true labels; default: the target of the fit.")
]
Groups = Annotated[
    list[str] | None, option("COL", "Column of groups; may be repeated.", "--group")
]
Cluster = Annotated[
    str | None, option("COL", "Column of persons or sites, whose rows depend on each other.")
]
FitCluster = Annotated[
    str | None,
    option(
        "COL",
        "Column of persons or sites; no feature. Splits keep the rows of each together.",
        "--cluster",
    ),
]
Drop = Annotated[
    list[str] | None, option("COL", "Column that is no feature; may be repeated.", "--drop")
]
Text = Annotated[
    list[str] | None,
    option(
        "COL",
        "Column that is text, though its values may be numbers; may be repeated.",
        "--text",
    ),
]
Keep = Annotated[
    list[str] | None,
    option(
        "COL",
        "Feature that only looks like an id, for new rows too; may be repeated.",
        "--keep",
    ),
]
Weight = Annotated[str | None, option("COL", "Column of row weights; no feature.")]

# Scores.
Positive = Annotated[
    list[str] | None,
    option(
        "LABEL",
        "Label of high scores, one for all or one for each score. Default: the label in its name.",
    ),
]
# Typer takes no list of literals.
Kind = StrEnum("Kind", ["probability", "percent", "logit", "number"])
Kinds = Annotated[
    list[Kind] | None,
    option(
        None,
        "Kind of the score, one for all or one for each score. Default: probability; percent: from 0 "
        "to 100; number: only its order matters, such as a grade.",
        "--kind",
    ),
]
Missing = Annotated[
    float | None, option("SCORE", "Score of rows without one. Default: such rows are refused.")
]
ByGroup = Annotated[
    str | None,
    option(
        "COL",
        "Select thresholds for each group of this column; it needs no --group. Decide before rows "
        "certify: `tune` on other rows names the gain.",
    ),
]

# Numbers.
Confidence = Annotated[
    float, option("P", "Probability that all bounds hold together, in (0, 1).", parser=level)
]
Seed = Annotated[int, option(None, "Seed of all random numbers.", min=0)]
# One core by default: threads of the tree library wait actively for each other. On shared cores a fit on a
# few thousand rows took fifty times as long with two threads.
Jobs = Annotated[
    int,
    option(None, "Processor cores per fit; -1 takes all (for large tables).", callback=_jobs),
]
ErrorBudget = Annotated[
    float | None,
    option(
        "X",
        "Largest accepted overall error less that of the most accurate candidate: .02 allows .22 for .20.",
        parser=_fraction,
    ),
]

# Rates.
MaxError = Annotated[
    str | None,
    option(
        "TARGETS", "Errors allowed: .3, or 'yes=.2,*=.4' by class or group (*: all others)."
    ),
]
Objective = Annotated[
    str | None,
    option(
        "RATE",
        "Rate to minimise: worst_class, worst_group, worst_cell, error, deferred, or a rate such "
        "as 'largest(error(by=cell))' or 'cost()'. Default with --limit: the overall error.",
    ),
]
Limits = Annotated[
    list[str] | None,
    option(
        "LIMIT",
        "Limit on a rate: 'gap(selected(yes, by=sex)) <= 2%', 'miss(ill) <= .1', "
        "'ratio(selected(yes, by=sex)) >= .8'; may be repeated.",
        "--limit",
    ),
]
Rates = Annotated[
    list[str] | None,
    option(
        "RATE",
        "Rate such as 'selected(yes, by=sex)', or limit; may be repeated. Default: those of the fit.",
        "--rate",
    ),
]
Costs = Annotated[
    Path | None,
    option(
        "FILE",
        "CSV table of costs for 'cost()', with a column for each prediction. The table has a "
        "row for each row of DATA, or a row for each true label. In a table by true label, "
        "the first column has the labels. Its cells are numbers, columns of DATA, or products "
        "such as 5*amount.",
    ),
]
EqualRows = Annotated[
    Literal["copies", "natural"] | None,
    option(
        None,
        "How rows that equal training rows are treated. copies: they are refused as data "
        "leakage; natural: columns have few values, and equal rows are different cases. "
        "Default: as in the certificate of MODEL, otherwise copies.",
    ),
]

# Output.
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ContentJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the written file as `tailboost inspect FILE --json` does; other lines go to "
        "standard error.",
    ),
]
Details = Annotated[
    bool,
    typer.Option(
        "--details", help="Print also what is assumed, and how the numbers were made."
    ),
]
Escape = Annotated[
    bool,
    typer.Option(
        "--escape-formulas", help="Put ' before text that a spreadsheet would run (=, +, -, @)."
    ),
]
