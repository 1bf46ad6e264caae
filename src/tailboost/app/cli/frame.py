"""What all commands share: exit codes, warnings and errors as lines, and options of tables."""

from __future__ import annotations

import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from tailboost.app.cli.tables import Reader
from tailboost.core.exceptions import NotCertifiedError

MISTAKE, ALARM, NOT_CERTIFIED, INTERRUPTED = 2, 3, 4, 130

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Classifiers within stated limits on error rates, with certificates from fresh rows.",
)

# An argument in a sentence, and not in a call of Python.
_ARGUMENT = re.compile(r"(?<!\w\()(?<!, )\b(\w+)=(?=(.?))")
# The options of the command that runs.
_HAS: ContextVar[Collection[str]] = ContextVar("has", default=())


def as_typed(text: str) -> str:
    """Return a text of the library, whose arguments ``name=`` are options ``--name`` of the command at hand.

    Those that it lacks remain as in Python.
    """

    def typed(match: re.Match[str]) -> str:
        name, follows = match.groups()
        has_value = bool(follows.strip(" ,.;:)"))
        option = name.rstrip("s")  # of limits= it is --limit
        if option not in _HAS.get():
            return match[0] if has_value else f"{match[0]} (in Python)"
        return f"--{option.replace('_', '-')}{' ' * has_value}"

    return _ARGUMENT.sub(typed, text)


def say(result: Any, as_json: bool = False) -> None:
    """Print a result of the library, or its ``to_dict`` as JSON."""
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1, default=str))
    else:
        typer.echo(as_typed(str(result)))


def say_aside(text: str) -> None:
    """Print a line that is not the result."""
    typer.echo(text, err=True)


def file(metavar: str, text: str) -> Any:
    """Return an argument of a command that names a file to read."""
    return typer.Argument(metavar=metavar, help=text, exists=True)


class _Command(TyperCommand):
    """A command that refuses an option with two values, unless the values add up."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments of no option."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for each in given:
            adds_up = getattr(each, "multiple", True) or getattr(each, "is_flag", False)
            if not adds_up and given.count(each) > 1:
                raise typer.BadParameter(
                    f"{each.opts[0]} takes one value, and was given {given.count(each)}: "
                    f"{each.help}"  # type: ignore[attr-defined]
                )
        return super().parse_args(ctx, args)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a function as a command whose errors are one line and an exit code.

    A parameter ``reader`` stands for the options of tables, the fields of `Reader`.
    """
    signature = inspect.signature(function, eval_str=True)
    parameters = [each for each in signature.parameters.values() if each.name != "reader"]
    reads_tables = "reader" in signature.parameters
    of_tables = inspect.signature(Reader, eval_str=True).parameters
    if reads_tables:
        parameters += [each.replace(kind=each.KEYWORD_ONLY) for each in of_tables.values()]

    @wraps(function)
    def run(**arguments: Any) -> None:
        _HAS.set([each.name for each in parameters])
        if reads_tables:
            settings = {name: arguments.pop(name) for name in of_tables}
            arguments["reader"] = Reader(**settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", UserWarning)
            try:
                function(**arguments)
            except NotCertifiedError as error:
                raise typer.Exit(_fail(error, NOT_CERTIFIED)) from None
            except (ValueError, TypeError, LookupError, OSError, ImportError) as error:
                caught.clear()  # the mistake comes first
                raise typer.Exit(_fail(error, MISTAKE)) from None
            finally:
                for text in dict.fromkeys(str(each.message) for each in caught):
                    say_aside(f"warning: {as_typed(text)}")

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command(function.__name__.rstrip("_").replace("_", "-"), cls=_Command)(run)
    return function


def _fail(error: Exception, code: int) -> int:
    """Print an error and return the exit code."""
    message = str(error)
    if isinstance(error, OSError) and error.filename:
        message = f"{error.filename}: {error.strerror}"
    say_aside(f"tailboost: {as_typed(message)}")
    return code


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``tailboost``; by default those of the process.
    """
    usage_error: type[Any] = typer.BadParameter.__bases__[0]
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=words or ["-h"], prog_name="tailboost", standalone_mode=False)
    except usage_error as error:
        name = error.ctx.command_path if error.ctx else "tailboost"
        message = error.format_message().replace("\n", " ").strip().rstrip(".")
        say_aside(f"tailboost: {message} ({name} -h lists the options)")
        code = MISTAKE
    except (KeyboardInterrupt, typer.Abort):
        say_aside("tailboost: stopped by Ctrl-C")
        code = INTERRUPTED
    sys.exit(code)
