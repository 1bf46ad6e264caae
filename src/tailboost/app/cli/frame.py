"""What all commands share: exit codes, warnings and errors as lines, and options of tables."""

import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial, wraps
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperOption

from tailboost.core import FitInterruptedWarning, NotCertifiedError

MISTAKE = 2
ALARM = 3
NOT_CERTIFIED = 4
INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Classifiers within stated limits on error rates, with certificates from fresh rows.",
)

# An argument in a sentence, and not in a call of Python; with its value if this is a list.
_ARGUMENT = re.compile(r"(?<!\w\()(?<!, )\b(\w+)=(?:\[(.*?)\])?(?=([^ ,.;:)\n]?))")
#: Print a line that is not the result.
say_aside = partial(typer.echo, err=True)
# What a command prints, one after the other.
Command = Callable[..., Iterator[Any]]


def as_typed(text: str, options: Collection[str]) -> str:
    """Return a text of the library, whose arguments ``name=`` are options ``--name`` of the command at hand.

    Those that are none of its ``options``, as Python names them, remain as in Python.
    """

    def typed(match: re.Match[str]) -> str:
        name, entries, follows = match.groups("")
        option = name.rstrip("s")  # of limits= it is --limit
        if option not in options:
            return match[0] if follows else f"{match[0]} (in Python)"
        return f"--{option.replace('_', '-')}{' ' * bool(entries + follows)}{entries}"

    return _ARGUMENT.sub(typed, text)


def file(metavar: str, text: str) -> Any:
    """Return an argument of a command that names a file to read."""
    return typer.Argument(metavar=metavar, help=text, exists=True)


class _Command(TyperCommand):
    """A command that refuses an option with two values, unless the values add up."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments of no option."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for each in given:
            if not isinstance(each, TyperOption) or each.multiple or each.is_flag:
                continue
            if given.count(each) > 1:
                raise typer.BadParameter(
                    f"{each.opts[0]} takes one value, not {given.count(each)}: {each.help}"
                )
        return super().parse_args(ctx, args)


def command(function: Command) -> Command:
    """Register a function as a command, which prints what the function yields.

    Texts are printed as they are, results of the library in the words of the shell, or as JSON if the command
    is given ``as_json``. An error is one line and an exit code. A parameter of a data class stands for the
    options that are its fields.
    """
    parameters: dict[str, inspect.Parameter] = {}
    classes = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if isinstance(parameter.annotation, type):  # not Annotated
            classes[name] = parameter.annotation
            parameters |= inspect.signature(parameter.annotation, eval_str=True).parameters
        else:
            parameters[name] = parameter

    @wraps(function)
    def run(**arguments: Any) -> None:
        usable = {*parameters}
        for name, options in classes.items():
            fields = inspect.signature(options).parameters
            # Without columns of scores, the model says what its scores mean.
            if name == "meaning" and not arguments["score"]:
                usable -= {*fields}
            arguments[name] = options(**{field: arguments.pop(field) for field in fields})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("default", UserWarning)
            warnings.simplefilter("error", FitInterruptedWarning)  # a file has the whole fit
            try:
                for result in function(**arguments):
                    if isinstance(result, str):
                        typer.echo(result)
                    elif arguments.get("as_json"):
                        typer.echo(json.dumps(result.to_dict(), indent=1, default=str))
                    else:
                        typer.echo(as_typed(str(result), usable))
            except (ValueError, TypeError, LookupError, OSError, ImportError) as error:
                message = str(error)
                code = NOT_CERTIFIED
                if not isinstance(error, NotCertifiedError):
                    code = MISTAKE
                    caught.clear()  # the mistake comes first
                if isinstance(error, OSError) and error.filename:
                    message = f"{error.filename}: {error.strerror}"
                say_aside(f"tailboost: {as_typed(message, usable)}")
                raise typer.Exit(code) from None
            finally:
                for text in dict.fromkeys(str(each.message) for each in caught):
                    say_aside(f"warning: {as_typed(text, usable)}")

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=each.KEYWORD_ONLY) for each in parameters.values()]
    )
    app.command(cls=_Command)(run)
    return function


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``tailboost``; by default those of the process.
    """
    usage_error: type[Any] = typer.BadParameter.__bases__[0]
    words = sys.argv[1:] if arguments is None else [*arguments]
    try:
        code = app(args=words or ["-h"], prog_name="tailboost", standalone_mode=False)
    except usage_error as error:
        name = error.ctx.command_path if error.ctx else "tailboost"
        message = " ".join(error.format_message().split()).rstrip(".")
        say_aside(f"tailboost: {message} ({name} -h lists the options)")
        code = MISTAKE
    except (KeyboardInterrupt, typer.Abort, FitInterruptedWarning):
        say_aside("tailboost: stopped by Ctrl-C")
        code = INTERRUPTED
    sys.exit(code)
