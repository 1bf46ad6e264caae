"""The command ``tailboost`` itself: its subcommands, help, completion and exit codes."""

from __future__ import annotations

import inspect
import platform
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tailboost import __version__
from tailboost.app.cli.shared import INTERRUPTED, exit_codes, fail

# Where each command is, and what `tailboost -h` says of it: a command's module, and with it the library, is
# loaded when the command is asked for.
COMMANDS = {
    "demo": ("compare.demo", "Compare ours with plain methods on two bundled tables."),
    "example": ("example.example", "Write a bundled table as train.csv, tune.csv and test.csv."),
    "compare": ("compare.compare_methods", "Compare methods on a table, and write a report."),
    "fit": ("fit.fit", "Fit one method on a table and store it."),
    "predict": ("predict.predict", "Predict the rows of a table."),
    "evaluate": ("inspect.evaluate", "Count a model's errors on a table by class and group."),
    "inspect": ("inspect.inspect_model", "Show what a model file holds, and its guarantee."),
    "rule": ("rule.rule", "Print what decides in a mixture: as words, as JSON, as SQL."),
    "tradeoff": ("tradeoff.tradeoff", "Show what a lower worst error costs in mean error."),
    "calibrate": (
        "certify.calibrate",
        "Write the cheapest point of a model's trade-off that is certified to keep its targets.",
    ),
    "certify": ("certify.certify", "Bound a model's errors on rows it has not seen."),
    "card": ("certify.card", "Write a card of a model: what was measured on new rows, and what was not."),
    "watch": (
        "monitor.watch",
        "Test a model's bounds on later rows, batch by batch; alarms end with code 3.",
    ),
    "decide": ("predict.decide", "Draw a decision for each row by its id."),
    "reproduce": ("experiments.reproduce", "Run a published experiment."),
    "list": ("experiments.list_all", "Show methods, data sets and experiments."),
}


# What some look for under another name.
ELSEWHERE = {
    "recheck": "`tailboost watch MODEL DATA` tests a model's bounds on later rows, batch by batch",
    "monitor": "`tailboost watch MODEL DATA` tests a model's bounds on later rows, batch by batch",
    "train": "`tailboost fit DATA` fits and stores a model",
    "tune": "`tailboost fit DATA` trains one, and in Python tailboost.tune takes a fitted model",
}


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results, warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.")]


def ending_with_a_code(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command what every one has: --quiet and --verbose, and errors that end it with their code."""
    signature = inspect.signature(command, eval_str=True)
    shared = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("quiet", Quiet), ("verbose", Verbose))
    ]

    @wraps(command)
    def run(*, quiet: bool, verbose: bool, **options: Any) -> None:
        with exit_codes(verbose, quiet):
            command(**options)

    vars(run)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), *shared])
    return run


class LazyGroup(TyperGroup):
    """The subcommands, each loaded when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        # The names are known, from which a mistyped one is guessed; what they stand for is loaded later.
        super().__init__(**{**settings, "commands": dict.fromkeys(COMMANDS)})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a subcommand; None if there is none of this name."""
        if cmd_name in ELSEWHERE:
            ctx.fail(f"there is no {cmd_name!r}: {ELSEWHERE[cmd_name]}")
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name][0].split(".")
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        command = getattr(import_module(f"tailboost.app.cli.{module}"), function)
        alone.command(name=cmd_name, context_settings=HELP)(ending_with_a_code(command))
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of `tailboost -h`, for which no subcommand need be loaded."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="tailboost",
    cls=LazyGroup,
    help="Boosting classifiers that hold up on the worst samples, the worst class and the worst group.",
    context_settings=HELP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def tailboost(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the versions and end.")] = False,
) -> None:
    """Boosting classifiers that hold up on the worst samples, the worst class and the worst group."""
    if version:
        from tailboost.app.report.results import versions

        others = versions("torch", "pandas").items()
        print(f"tailboost {__version__}")
        print(", ".join(f"{name} {number}" for name, number in others if name != "tailboost"))
        print(platform.system(), platform.machine())
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments after ``tailboost``; None takes those of the process.
    """
    # Typer brings its own copy of click, or uses the one installed: both call this UsageError.
    usage_error: type[Any] = typer.BadParameter.__bases__[0]
    try:
        code = app(args=arguments, prog_name="tailboost", standalone_mode=False)
    except usage_error as error:
        code = fail(error.format_message(), 2)
    except (KeyboardInterrupt, typer.Abort):  # they may stand before or after the command
        code = fail("stopped by Ctrl-C", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)
