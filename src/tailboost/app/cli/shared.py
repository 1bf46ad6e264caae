"""What every command uses: options, exit codes, and how to speak."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.table import Table
from rich.text import Text

from tailboost.core.output import is_same_file, write_output

LONGEST_LINE = 300
INTERRUPTED = 130  # the exit code shells give a process that Ctrl-C ended

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def read_number(text: str) -> float:
    """Read a number, also one in percent: .3 or 30%."""
    text = text.strip()
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


class BadInput(Exception):
    """What the user gave cannot be used; the message is the one line to show."""


# -- errors ------------------------------------------------------------------------------------------------


@contextmanager
def exit_codes(verbose: bool, quiet: bool = False) -> Iterator[None]:
    """Run a command: errors end it with their exit code and one line."""
    token = _quiet.set(quiet)
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        raise typer.Exit(fail("stopped by Ctrl-C", INTERRUPTED)) from None
    except BrokenPipeError:  # who reads the output has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except Exception as error:
        if verbose:
            traceback.print_exc()
        if isinstance(error, BadInput):
            raise typer.Exit(fail(str(error), 2)) from None
        hint = "" if verbose else " (--verbose shows where)"
        raise typer.Exit(fail(f"{type(error).__name__}: {error}{hint}", 1)) from None
    finally:
        _quiet.reset(token)


@contextmanager
def bad_input(where: str = "") -> Iterator[None]:
    """Turn errors raised inside into `BadInput`: they are about what the user gave."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as error:
        raise BadInput(f"{where}{error}") from error


def fail(message: str, code: int) -> int:
    """Print the line of an error and return the exit code."""
    line = f"tailboost: {printable(' '.join(message.split()))}"
    if len(line) > LONGEST_LINE:  # the start says what is wrong, the end often what to do
        line = f"{line[: LONGEST_LINE - 100]} … {line[-90:]}"
    print(line, file=sys.stderr)
    return code


def refuse_overwriting(option: str, outputs: Sequence[Path], *inputs: Path | None) -> None:
    """Refuse outputs that are read here."""
    for output in outputs:
        for given in inputs:
            if given is not None and is_same_file(output, given):
                raise BadInput(
                    f"{option}: {str(output)!r} is read here; writing it would overwrite {str(given)!r}"
                )


def check_output(option: str, out: Path, *inputs: Path | None) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    with bad_input(f"{option}: "):  # a name may be longer than the system takes
        if out.is_dir() or not out.parent.is_dir():
            raise BadInput(f"{option}: {str(out)!r} is a folder, or is in one that is not there")
        refuse_overwriting(option, [out], *inputs)


def write_out(path: Path, content: str | bytes, option: str = "--out") -> None:
    """Write what an option names."""
    with bad_input(f"{option}: "):
        write_output(path, content)


def make_folder(folder: Path) -> None:
    """Make the folder of the results."""
    with bad_input("--out: "):
        folder.mkdir(parents=True, exist_ok=True)


# -- speaking ----------------------------------------------------------------------------------------------


# Characters that a terminal obeys instead of showing: control characters but for line breaks and tabs, and
# those that turn the direction of text. Names of classes, columns and files may hold them.
_OBEYED = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (
        *(c for c in range(32) if chr(c) not in "\n\t"),
        *range(0x7F, 0xA0),
        *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    )
}


def printable(text: str) -> str:
    """Return a text that a terminal shows and does not obey, and that can be written as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_OBEYED)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the warnings raised inside, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for message in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
        warn(message)


def warn(message: str) -> None:
    """Print a warning, also where the command is quiet."""
    print(f"warning: {printable(message)}", file=sys.stderr)


def is_quiet() -> bool:
    """Whether the command that runs was given --quiet."""
    return _quiet.get()


def console(*, stderr: bool = False) -> Console:
    """Return where to print."""
    terminal = Console(stderr=stderr, highlight=False)
    # In a file or a pipe a table need not fit the width of a screen.
    return terminal if terminal.is_terminal else Console(stderr=stderr, highlight=False, width=130)


def progress(*columns: ProgressColumn) -> Progress:
    """Return a line of progress on standard error: only a terminal shows it, unless the command is quiet."""
    terminal = console(stderr=True)
    hidden = is_quiet() or not terminal.is_terminal
    # Older versions of rich end a hidden line with an empty one.
    shown = Console(file=io.StringIO()) if hidden else terminal
    return Progress(*columns, console=shown, transient=True, disable=hidden)


def tell(line: str) -> None:
    """Print a line of the result."""
    console().print(Text(printable(line)), soft_wrap=True)


def say(line: str) -> None:
    """Print a line about the work, unless the command is quiet."""
    if not is_quiet():
        tell(line)


def say_aside(line: str) -> None:
    """Print a line about the work to standard error, unless the command is quiet."""
    if not is_quiet():
        console(stderr=True).print(Text(printable(line)), soft_wrap=True)


def tell_json(document: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(document, indent=1, allow_nan=False, default=str))


def plain_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", left: int = 1
) -> None:
    """Print a table without lines: the first columns to the left, the others (numbers) to the right."""
    table = Table(show_header=any(headings), box=None, padding=(0, 2, 0, 0))
    for j, heading in enumerate(headings):
        table.add_column(heading, justify="left" if j < left else "right", no_wrap=j == 0)
    # Verdicts have a colour, on terminals that show colours and unless NO_COLOR is set.
    colours = {"met": "green", "certified": "green", "missed": "bold red", "NO": "bold red"}
    for row in rows:
        table.add_row(*(Text(printable(cell), style=colours.get(cell.split(",")[0], "")) for cell in row))
    if title:  # as the table's own title it would be broken at the table's width
        tell(title)
    console().print(table)


def command_line(command: str, *arguments: Path, **options: Any) -> str:
    """Return how a command was called, as a shell reads it."""
    words = ["tailboost", command, *map(str, arguments)]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{name.replace('_', '-')}", str(item)]
    return printable(shlex.join(words))


def escaped(labels: Iterable[Any]) -> list[Any]:
    """Put an apostrophe before labels that spreadsheets would run as formulas."""
    marks = ("=", "+", "-", "@", "\t", "\r")
    return [
        f"'{x}" if isinstance(x, str) and x.startswith(marks) and not _is_number(x) else x for x in labels
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
