"""The command ``tailboost`` itself: its subcommands, help, completion and exit codes."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from tailboost import __version__
from tailboost.cli import _certify, _compare, _experiments, _fit, _inspect, _predict, _tradeoff
from tailboost.cli._shared import INTERRUPTED, fail
from tailboost.report.results import versions

app = typer.Typer(
    name="tailboost",
    help="Boosting classifiers that hold up on the worst samples, the worst class and the worst group.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

COMMANDS: dict[str, Callable[..., None]] = {
    "demo": _compare.demo,
    "compare": _compare.compare_methods,
    "fit": _fit.fit,
    "predict": _predict.predict,
    "evaluate": _inspect.evaluate,
    "inspect": _inspect.inspect_model,
    "tradeoff": _tradeoff.tradeoff,
    "certify": _certify.certify,
    "decide": _predict.decide,
    "reproduce": _experiments.reproduce,
    "list": _experiments.list_all,
}
for _name, _command in COMMANDS.items():
    app.command(name=_name)(_command)


@app.callback(invoke_without_command=True)
def tailboost(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the versions and end.")] = False,
) -> None:
    """Boosting classifiers that hold up on the worst samples, the worst class and the worst group."""
    if version:
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
