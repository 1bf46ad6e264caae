"""Shared by all commands: exit codes, checks of files, printed lines and tables."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
import time
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from textwrap import fill
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailboost.core.exceptions import InfeasibleLimitsError
from tailboost.core.files import is_same_file, write_output
from tailboost.core.spelling import speaking_to_the_shell
from tailboost.core.table_files import is_parquet, read_raw

RULE_FILE = ".json"
# Endings of the tables that commands write.
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
LONGEST_LINE = 2000  # characters of an error line
LONGEST_END = 500  # characters of its end
LONGEST_WORD = 200  # characters of a word of an error line, such as a file name
INTERRUPTED = 130  # exit code of a process ended by Ctrl-C

# Least seconds of work without a line of progress, after a slow start.
LEAST_PATIENCE = 0.5

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
# Whether the command still owes its JSON document to standard output.
_owes_json: ContextVar[bool] = ContextVar("owes_json", default=False)
# The warnings that this command has printed; None outside a command.
_printed: ContextVar[set[str] | None] = ContextVar("printed", default=None)
# When the process of this command began; None within another program, whose imports are done.
_started: ContextVar[float | None] = ContextVar("started", default=None)


@contextmanager
def starting_now() -> Iterator[None]:
    """Note the start of the process: the imports count in the wait for the first line of progress."""
    token = _started.set(time.monotonic())
    try:
        yield
    finally:
        _started.reset(token)


def read_number(text: str) -> float:
    """Return a number written as .3 or 30%."""
    text = text.strip()
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return float(text)


class Refusal(Exception):
    """The command gives no result.

    Parameters
    ----------
    message : str
        The printed line.
    details : sequence of str
        Further lines.
    limits : sequence of dict
        The limits at fault, for ``--json``.
    """

    code = 1  # exit code

    def __init__(
        self,
        message: str,
        details: Sequence[str] = (),
        limits: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.details = details
        self.limits = limits

    def told(self) -> typer.Exit:
        """Print the refusal; return the end of the command."""
        code = fail(str(self), self.code, self.details, self.limits)
        return typer.Exit(code)


class BadInput(Refusal):
    """The user's input cannot be used."""

    code = 2


class OutOfReach(Refusal):
    """No rule keeps the limits on the rows, or none is certified."""

    code = 4


# -- errors ------------------------------------------------------------------------------------------------


@contextmanager
def exit_codes(verbose: bool, quiet: bool = False) -> Iterator[None]:
    """Run a command: each error becomes one printed line and an exit code."""
    # This module imports NumPy, which `tailboost -h` does not need.
    from tailboost.core.long_work import PATIENCE, telling

    token = _quiet.set(quiet)
    printed = _printed.set(set())
    start = _started.get()
    patience = None  # seconds until the first line of progress; None: the usual ones
    if start is not None:
        patience = max(LEAST_PATIENCE, PATIENCE - (time.monotonic() - start))
    try:
        with speaking_to_the_shell(), ExitStack() as stack:
            if not quiet:
                stack.enter_context(
                    telling(_progress_printer(), clear=_clear, patience=patience)
                )
            yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        raise typer.Exit(fail("stopped by Ctrl-C", INTERRUPTED)) from None
    except BrokenPipeError:  # the reader of the output has ended, for example `head`
        # Python writes its buffer at the end, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except Exception as error:  # every other fault ends with one line and an exit code
        if verbose:
            traceback.print_exc()
        if not isinstance(error, Refusal):
            hint = "" if verbose else " (--verbose prints the traceback)"
            error = Refusal(f"{type(error).__name__}: {error}{hint}")
        raise error.told() from None
    finally:
        _quiet.reset(token)
        _printed.reset(printed)


@contextmanager
def bad_input(prefix: str = "") -> Iterator[None]:
    """Turn errors about values and files into a `Refusal`, with a prefix: the option or file."""
    try:
        yield
    except InfeasibleLimitsError as error:
        limits = [{"name": str(limit), "verdict": "out of reach"} for limit in error.limits]
        raise OutOfReach(f"{prefix}{error}", limits=limits) from error
    except FileNotFoundError as error:
        missing = f"{error.filename!r} does not exist; a file is needed"
        raise BadInput(f"{prefix}{missing if error.filename else error}") from error
    except (ValueError, TypeError, OSError, ImportError) as error:
        message = str(error)
        if prefix:  # in place of the argument of a function
            message = re.sub(r"^X(_\w+)?: ", "", message)
        raise BadInput(f"{prefix}{message}") from error


def fail(
    message: str,
    code: int,
    details: Sequence[str] = (),
    limits: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Print an error as one line, without the middle of long words and lists; return the exit code.

    ``details`` follow. A command that owes a JSON document prints only this, with the ``limits``.
    """
    if _owes_json.get():
        text = "\n".join([message, *details])
        tell_json({"exit_code": code, "error": text, "limits": limits})
        return code
    words = [_shortened_word(word) for word in message.split()]
    line = f"tailboost: {printable(' '.join(words))}"
    print(shortened(line), file=sys.stderr)
    for line in details:
        tell_aside(line)
    return code


@contextmanager
def owing_json(as_json: bool) -> Iterator[None]:
    """Print an error of the block as a JSON document, if the command owes one."""
    token = _owes_json.set(as_json)
    try:
        yield
    finally:
        _owes_json.reset(token)


def _shortened_word(word: str) -> str:
    """Return a word without the middle of more than `LONGEST_WORD` characters."""
    if len(word) <= LONGEST_WORD:
        return word
    half = LONGEST_WORD // 2
    return f"{word[:half]}…{word[-half:]}"


def shortened(line: str) -> str:
    """Return a very long error line with "…" for whole sentences of its middle.

    The end often names the remedy. The first and the last sentence stay, however long they are.
    """
    if len(line) <= LONGEST_LINE:
        return line
    sentences = re.split(r"(?<=[.]) ", line)
    start = [sentences.pop(0)]
    while sentences and len(" ".join(start)) + len(sentences[0]) < LONGEST_LINE - LONGEST_END:
        start.append(sentences.pop(0))
    end: list[str] = []
    while sentences and (not end or len(" ".join(end)) + len(sentences[-1]) < LONGEST_END):
        end.insert(0, sentences.pop())
    if sentences:
        start.append("…")
    return " ".join([*start, *end])


def refuse_overwriting(option: str, outputs: Sequence[Path], *inputs: Path | None) -> None:
    """Raise `BadInput` if an output is one of the input files."""
    for output in outputs:
        for path in inputs:
            if path is not None and is_same_file(output, path):
                raise BadInput(
                    f"{option}: {str(output)!r} would overwrite the input file {str(path)!r}"
                )


def check_output(option: str, out: Path, *inputs: Path | None) -> None:
    """Raise `BadInput` if a file cannot be written."""
    with bad_input(f"{option}: "):  # the name may be too long for the system
        if out.is_dir():
            raise BadInput(f"{option}: {str(out)!r} is a folder; give the name of a file")
        if not out.parent.is_dir():
            raise BadInput(
                f"{option}: there is no folder {str(out.parent)!r} for {out.name!r}; make it "
                "first"
            )
        if not os.access(out.parent, os.W_OK):
            raise BadInput(
                f"{option}: the folder {str(out.parent)!r} of {out.name!r} may not be "
                "written; give another"
            )
        refuse_overwriting(option, [out], *inputs)


def check_table_output(out: Path, *inputs: Path | None) -> None:
    """Raise `BadInput` if the table of --out cannot be written, or would replace another kind of file."""
    check_output("--out", out, *inputs)
    if out.exists() and not out.is_file():
        return  # a device or pipe replaces nothing
    if out.suffix.lower() not in TABLES:
        raise BadInput(
            f"--out: {str(out)!r} would hold a table of predictions; give a name that ends in "
            ".csv or .parquet"
        )
    if out.exists() and out.stat().st_size and not _holds_predictions(out):
        raise BadInput(
            f"--out: {str(out)!r} exists and has no column 'prediction', so it is another "
            "table; give another name, or remove the file first"
        )


def _holds_predictions(path: Path) -> bool:
    """Return whether a table has a column of predictions, as `tailboost predict` and `decide` write it."""
    with bad_input("--out: "):
        if is_parquet(path):
            header = " ".join(map(str, read_raw(path).columns))
        else:
            with path.open(encoding="utf-8", errors="replace") as lines:
                header = lines.readline()
    return re.search(r"\bprediction", header) is not None


def write_out(path: Path, content: str | bytes, option: str = "--out") -> None:
    """Write the file of an option."""
    with bad_input(f"{option}: "):
        write_output(path, content)


def digest_of(path: Path) -> str:
    """Return a digest of a file's content."""
    with bad_input(), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


def is_rule_file(path: Path) -> bool:
    """Return whether a file holds a rule on scores, by its name; others are model files."""
    return path.suffix.lower() == RULE_FILE


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; raise ValueError if it is no JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        # The message of the decoder is about a place in a text, not about a file.
        raise ValueError(
            "it is not JSON, or is cut off; the name of a model file ends in .model"
        ) from None
    if not isinstance(content, dict):
        raise ValueError("its JSON is no object {…}")
    return content


def make_folder(folder: Path) -> None:
    """Make the folder of --out."""
    with bad_input("--out: "):
        folder.mkdir(parents=True, exist_ok=True)


# -- output ------------------------------------------------------------------------------------------------

# Unicode's categories of control characters, of those that change the direction of text, and of separators.
# Names of classes, columns and files may contain them, and a terminal would execute them.
ESCAPED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str) -> str:
    """Return a text with escaped control characters, to be written as UTF-8."""
    characters = []
    for character in text:
        if character not in "\n\t" and unicodedata.category(character) in ESCAPED:
            character = character.encode("unicode_escape").decode()
        characters.append(character)
    return "".join(characters)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the warnings of the block at its end, each as one line and once.

    Warnings for developers, such as a DeprecationWarning of a library, are not printed.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    for message in dict.fromkeys(messages):
        warn(message)


def warn(message: str) -> None:
    """Print a warning, once in a command, also with --quiet."""
    printed = _printed.get()
    if printed is not None:
        if message in printed:
            return
        printed.add(message)
    print(f"warning: {printable(message)}", file=sys.stderr)


def is_quiet() -> bool:
    """Return whether the command was given --quiet."""
    return _quiet.get()


def console(*, stderr: bool = False) -> Console:
    """Return a console, 130 characters wide in a file or pipe."""
    terminal = Console(stderr=stderr, highlight=False)
    if terminal.is_terminal:
        return terminal
    return Console(stderr=stderr, highlight=False, width=130)


# Moves to the start of a terminal's line and erases it.
_ERASED = "\r\x1b[2K"


def _progress_printer() -> Callable[[str], None]:
    """Return a function that shows a line of progress on standard error.

    On a terminal one line changes. Elsewhere each new line is printed, without repetitions.
    """
    line_before = ""

    def show(line: str) -> None:
        nonlocal line_before
        if console(stderr=True).is_terminal:
            print(f"{_ERASED}{printable(line)}", end="", file=sys.stderr, flush=True)
        elif line != line_before:
            say_aside(line)
        line_before = line

    return show


def _clear() -> None:
    """Erase the line of progress on a terminal."""
    if console(stderr=True).is_terminal:
        print(_ERASED, end="", file=sys.stderr, flush=True)


def tell(line: str) -> None:
    """Print a line of the result."""
    console().print(Text(printable(line)), soft_wrap=True)


def say(line: str) -> None:
    """Print a line about the work, unless --quiet."""
    if not is_quiet():
        tell(line)


def say_aside(line: str) -> None:
    """Print a line about the work to standard error, unless --quiet."""
    if not is_quiet():
        tell_aside(line)


def tell_aside(line: str) -> None:
    """Print a line of a result to standard error, also with --quiet."""
    console(stderr=True).print(Text(printable(line)), soft_wrap=True)


def tell_json(document: Any) -> None:
    """Print the result as JSON."""
    print(json.dumps(document, indent=1, allow_nan=False, default=str))
    _owes_json.set(False)


def plain_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", left: int = 1
) -> None:
    """Print a table without borders. The first ``left`` columns are aligned to the left, others right.

    In a narrow window names and headings wrap, and numbers do not.
    """
    table = Table(show_header=any(headings), box=None, padding=(0, 2, 0, 0))
    rows = [[printable(cell) for cell in row] for row in rows]
    cell_widths = [0] * len(headings)  # of each column: its longest line
    for row in rows:
        for j, cell in enumerate(row):
            cell_widths[j] = max(cell_widths[j], *map(len, cell.splitlines()), 0)
    column_widths = map(max, map(len, headings), cell_widths)
    is_too_wide = sum(column_widths) + 2 * len(headings) > console().width
    for j, heading in enumerate(headings):
        if j < left:
            table.add_column(heading, overflow="fold")
            continue
        if is_too_wide:
            heading = fill(heading, max(cell_widths[j], 1), break_long_words=False)
        table.add_column(heading, justify="right", no_wrap=True, overflow="fold")
    colours = {"met": "green", "certified": "green", "missed": "bold red", "NO": "bold red"}
    for row in rows:
        styles = [colours.get(cell.split(",")[0], "") for cell in row]  # "met, interval too"
        table.add_row(*map(Text, row, styles))
    if title:  # a title of the table itself would be wrapped at the width of the table
        tell(title)
    console().print(table)


def command_line(command: str, *arguments: Path, **options: Any) -> str:
    """Return the call of a command, quoted for a shell."""
    words = ["tailboost", command, *map(str, arguments)]
    for name, value in options.items():
        if value is None:
            continue
        for item in value if isinstance(value, (list, tuple)) else [value]:
            words += [f"--{name.replace('_', '-')}", str(item)]
    return printable(shlex.join(words))
