"""What all commands share: exit codes, warnings and errors as lines, and options of tables."""

import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
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

# A text in quotes. The apostrophe of a word begins none.
_QUOTED = r"""(?<!\w)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
_ARGUMENT = re.compile(
    rf"""
    # A text, or a call without its last bracket: no argument is found inside.
    {_QUOTED}
    | \w\( (?: {_QUOTED} | \( (?: {_QUOTED} | [^()] )*+ \) | [^()] )*+
    # An argument, the entries of its value if this is a list, and the sign that follows.
    | \b (?P<name> \w+ )=
    (?: \[ (?P<entries> (?: {_QUOTED} | [^]] )* ) \] )?
    (?= (?P<sign> [^ ,.;:)\n]? ) )
    """,
    re.VERBOSE,
)
#: Print a line that is not the result.
say_aside = partial(typer.echo, err=True)
#: What a command prints, one after the other.
Printed = Iterator[Any]
Command = Callable[..., Printed]


def as_typed(message: str, options: Collection[str]) -> str:
    """Return a message of the library, whose arguments ``name=`` are options ``--name`` of the command.

    ``options`` are those of the command, as Python names them. Of another argument the message says that it
    is one in Python, unless a value follows. Calls, and texts in quotes, which users wrote, remain.

    Examples
    --------
    >>> from tailboost.app.cli.frame import as_typed
    >>> as_typed("state limits=['miss <= 1%'], or give kind=", ["limit"])
    "state --limit 'miss <= 1%', or give kind= (in Python)"
    """

    def typed(match: re.Match[str]) -> str:
        name, entries, sign = match.groups("")
        if not name:
            return match[0]
        option = name if name in options else name.removesuffix("s")  # of limits= it is --limit
        if option not in options:
            return match[0] if sign else f"{match[0]} (in Python)"
        word = f"--{option.replace('_', '-')}"
        if entries:
            each_entry = re.findall(rf"{_QUOTED}|[^\s,]+", entries)
            return " ".join(f"{word} {entry}" for entry in each_entry)
        return f"{word} " if sign else word

    return _ARGUMENT.sub(typed, message)


def file_argument(metavar: str, text: str) -> Any:
    """Return an argument of a command that names a file to read."""
    return typer.Argument(metavar=metavar, help=text, exists=True)


class _Command(TyperCommand):
    """A command that refuses an option with two values, unless it may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command, as click does; refuse an option with two values first."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for each in given:
            if not isinstance(each, TyperOption) or each.multiple or each.is_flag:
                continue
            if given.count(each) > 1:
                raise typer.BadParameter(
                    f"{each.opts[0]} takes one value, not {given.count(each)}: {each.help}"
                )
        return super().parse_args(ctx, args)


@contextmanager
def _in_words_of_shell(options: Collection[str]) -> Iterator[None]:
    """Say each warning and an error of a block as a line that names ``options``; an error is an exit code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("error", FitInterruptedWarning)  # no file has such a fit
        try:
            yield
        except (ValueError, TypeError, LookupError, OSError, ImportError) as error:
            message = as_typed(str(error), options)
            code = NOT_CERTIFIED
            if not isinstance(error, NotCertifiedError):
                code = MISTAKE
                caught.clear()  # a mistake is one line
            if isinstance(error, OSError) and error.filename:
                message = f"{error.filename}: {error.strerror}"
            say_aside(f"tailboost: {message}")
            raise typer.Exit(code) from None
        finally:
            for text in dict.fromkeys(str(each.message) for each in caught):
                say_aside(f"warning: {as_typed(text, options)}")


def command(function: Command) -> Command:
    """Register a function as a command, which prints what the function yields.

    Texts and results of the library are printed as they are, results as JSON if the command is given
    ``as_json``. A parameter of a data class stands for the options that are its fields; messages do not name
    them if its value is false, as without --score. Errors and warnings are lines, as of `_in_words_of_shell`.
    """
    options: dict[str, inspect.Parameter] = {}
    data_classes = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        if isinstance(kind, type):  # not Annotated
            fields = inspect.signature(kind, eval_str=True).parameters
            data_classes[name] = kind, fields
            options |= fields
        else:
            options[name] = parameter

    @wraps(function)
    def run(**arguments: Any) -> None:
        named = {*options}
        for name, (kind, fields) in data_classes.items():
            arguments[name] = kind(**{field: arguments.pop(field) for field in fields})
            if not arguments[name]:
                named -= fields.keys()
        with _in_words_of_shell(named):
            for result in function(**arguments):
                if arguments.get("as_json") and not isinstance(result, str):
                    result = json.dumps(result.to_dict(), indent=1, default=str)
                typer.echo(result)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=each.KEYWORD_ONLY) for each in options.values()]
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
    # That of click, which typer may bundle.
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
