"""The command ``tailboost``: subcommands, help, completion and exit codes."""

from __future__ import annotations

import inspect
import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from tailboost import __version__
from tailboost.app.cli.options import OF_CSV, CsvFormat, csv_noted_in
from tailboost.app.cli.shared import (
    INTERRUPTED,
    exit_codes,
    fail,
    owing_json,
    printable,
    starting_now,
)

# For each command its function and its line in `tailboost -h`. The module of the function is imported when
# the command runs.
COMMANDS = {
    "Make a rule": {
        "example": (
            "listing.example",
            "Write a bundled table as train.csv, tune.csv and test.csv.",
        ),
        "tune": (
            "tune.tune",
            "Select thresholds on a column of scores; no model is trained.",
        ),
        "fit": ("fit.fit", "Train one method on a table and store the model."),
        "tradeoff": (
            "tradeoff.tradeoff",
            "Print the trade-off curve of two rates, such as largest and overall error.",
        ),
        "predict": ("predict.predict", "Predict the labels of new rows."),
        "rule": (
            "inspect.rule",
            "Print the decision rule of a file, as text, JSON, SQL or Python.",
        ),
    },
    "Certify it": {
        "rows-needed": (
            "planning.rows",
            "Compute how many calibration rows certificates need.",
        ),
        "calibrate": (
            "certify.calibrate",
            "Select the least restricted rule with certified targets.",
        ),
        "certify": ("certify.certify", "Compute confidence bounds from fresh rows."),
        "card": ("certify.card", "Write a model card, measured on fresh rows."),
    },
    "Operate it": {
        "monitor": (
            "monitor.monitor",
            "Test a model's bounds on later batches; exit code 3 is an alarm.",
        ),
        "evaluate": (
            "inspect.evaluate",
            "Measure a model's errors on new rows, by class and group.",
        ),
        "inspect": ("inspect.inspect_model", "Print the content of a model file."),
        "decide": ("predict.decide", "Draw a decision for each row by its id."),
    },
    "Study": {
        "compare": (
            "compare.compare_methods",
            "Compare methods on a table, and write a report.",
        ),
        "demo": ("compare.demo", "Compare methods on two bundled tables."),
        "reproduce": (
            "experiments._command.reproduce",
            "Run a published experiment; needs a checkout of the repository.",
        ),
        "list": ("listing.list_all", "List methods, data sets and experiments."),
    },
}
BY_NAME = {name: entry for group in COMMANDS.values() for name, entry in group.items()}

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print the traceback of an error.")]


def ending_with_a_code(command: Callable[..., None]) -> Callable[..., None]:
    """Add --quiet, --verbose and exit codes to a command, and the options of CSV files if it reads some.

    Such a command has a parameter of the type `CsvFormat`. A field without its option has the value noted in
    the model or rule file.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.annotation is not CsvFormat
    ]
    reads_csv = len(parameters) < len(signature.parameters)
    added_options: list[tuple[str, Any, Any]] = []
    if reads_csv:
        added_options += [(name, option_type, None) for name, option_type in OF_CSV.items()]
    added_options += [("quiet", Quiet, False), ("verbose", Verbose, False)]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=option_type)
        for name, option_type, default in added_options
    ]

    @wraps(command)
    def run(*, quiet: bool, verbose: bool, **arguments: Any) -> None:
        if reads_csv:
            csv_options = {name: arguments.pop(name) for name in OF_CSV}
            fields = csv_noted_in(arguments.get("model"))
            fields |= {name: value for name, value in csv_options.items() if value is not None}
            arguments["csv"] = CsvFormat(**fields)
        with owing_json(arguments.get("as_json", False)), exit_codes(verbose, quiet):
            command(**arguments)

    # typer makes the options from the signature.
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    return run


class StrictCommand(TyperCommand):
    """A command that refuses an option given twice, of which one value would be lost."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a call, after a check of its options."""
        given: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        options = [parameter for parameter in given if parameter.param_type_name == "option"]
        for option in options:
            if options.count(option) > 1 and not option.multiple and not option.is_flag:
                ctx.fail(f"{option.opts[0]} is given twice, and takes one value")
        return super().parse_args(ctx, args)


class LazyGroup(TyperGroup):
    """Subcommands, imported when they run."""

    def __init__(self, **settings: Any) -> None:
        # The base class suggests similar names for a mistyped one, without the commands themselves.
        super().__init__(**{**settings, "commands": dict.fromkeys(BY_NAME)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a subcommand; None if there is none of this name."""
        if cmd_name not in BY_NAME:
            return None
        module_name, _, function_name = BY_NAME[cmd_name][0].rpartition(".")
        settings: dict[str, Any] = dict(HELP)
        if cmd_name != "reproduce":
            module_name = f"tailboost.app.cli.{module_name}"
        else:
            listing = import_module("tailboost.app.cli.listing")
            if listing.experiments_of_checkout() is None:  # refuses, also with any options
                module_name = listing.__name__
                function_name = "reproduce_in_a_checkout"
                settings["ignore_unknown_options"] = True
        command = getattr(import_module(module_name), function_name)
        # typer makes commands only for an app, here with a single one.
        command_app = typer.Typer(rich_markup_mode=None, add_completion=False)
        command_app.command(name=cmd_name, cls=StrictCommand, context_settings=settings)(
            ending_with_a_code(command)
        )
        return typer.main.get_command(command_app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of `tailboost -h` without importing the subcommands."""
        for group, commands in COMMANDS.items():
            with formatter.section(group):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])


HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="tailboost",
    cls=LazyGroup,
    help="Classifiers within stated limits on error rates, with certificates from fresh rows.",
    context_settings=HELP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def tailboost(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the versions and exit.")
    ] = False,
) -> None:
    """Classifiers within stated limits on error rates, with certificates from fresh rows."""
    if version:
        from tailboost.core.versions import versions

        libraries = versions("torch", "pandas")
        libraries.pop("tailboost", None)
        print(f"tailboost {__version__}")
        print(", ".join(map(" ".join, libraries.items())))
        print(platform.system(), platform.machine())
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code.

    Parameters
    ----------
    arguments : sequence of str, default=None
        Arguments after ``tailboost``; None takes the arguments of the process.
    """
    # This is UsageError of click, which typer either vendors or imports.
    usage_error: type[Any] = typer.BadParameter.__bases__[0]
    words = list(sys.argv[1:] if arguments is None else arguments)
    _announce_files(words)
    with owing_json("--json" in words):
        try:
            with starting_now():
                code = app(args=arguments, prog_name="tailboost", standalone_mode=False)
        except usage_error as error:
            code = fail(_usage_words(error, words), 2)
        except (KeyboardInterrupt, typer.Abort):
            code = fail("stopped by Ctrl-C", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_words(error: Any, words: Sequence[str]) -> str:
    """Return the message of a wrong call, with the missing parts."""
    message = str(error.format_message())
    if message.startswith("Missing option"):
        message = f"Missing: {_missing_options(error, words)}"
    elif "unexpected extra argument" in message and len(_files_among(words)) > 1:
        message += "; a command takes one table: join the files first"
    elif "unexpected extra argument" in message and re.search("[<>]=", message):
        message += "; put a limit into quotes: --limit 'miss(1) <= 40%'"
    if words[0] in BY_NAME:
        return f"{message} (tailboost {words[0]} -h lists the options)"
    return f"{message} (tailboost -h lists the commands)"


def _missing_options(error: Any, words: Sequence[str]) -> str:
    """Return the required options of a command that its words lack, each with its help."""
    written = {word.split("=")[0] for word in words if word.startswith("-")}
    missing = [
        f"{' or '.join(parameter.opts)}, {parameter.help.rstrip('.')}"
        for parameter in error.ctx.command.params
        if parameter.required and parameter.opts[0].startswith("-")
        if written.isdisjoint(parameter.opts)
    ]
    return "; ".join(missing)


def _announce_files(words: Sequence[str]) -> None:
    """Print the files among the words of a command line, for somebody who waits for the imports.

    The imports take seconds. Only a terminal gets this line: in a log a refusal is one line.
    """
    names_command = bool(words) and words[0] in BY_NAME
    no_progress = not {"-q", "--quiet", "-h", "--help"}.isdisjoint(words)
    if not names_command or no_progress or not sys.stderr.isatty():
        return
    files = ", ".join(_files_among(words))
    if files:
        print(f"Reading {printable(files)}.", file=sys.stderr, flush=True)


def _files_among(words: Sequence[str]) -> list[str]:
    """Return the files among the words of a command line, without those of options."""
    # A word after an option may be its value.
    arguments = [word for previous, word in pairwise(words) if not previous.startswith("-")]
    return list(filter(os.path.isfile, arguments))
