"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
import inspect
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from tailboost.core.warn import warn_user

# Most columns named by a message.
MOST_COLUMNS = 5
P = ParamSpec("P")
R = TypeVar("R")

_in_shell: ContextVar[bool] = ContextVar("in_shell", default=False)


@contextmanager
def speaking_to_the_shell() -> Iterator[None]:
    """Write arguments as options of commands in messages of the block."""
    token = _in_shell.set(True)
    try:
        yield
    finally:
        _in_shell.reset(token)


def as_typed(python: str, shell: str) -> str:
    """Return how the reader of a message writes an argument: in Python or in the shell.

    Examples
    --------
    >>> from tailboost.core.spelling import as_typed, speaking_to_the_shell
    >>> as_typed("decimal=','", "--decimal ,")
    "decimal=','"
    >>> with speaking_to_the_shell():
    ...     as_typed("decimal=','", "--decimal ,")
    '--decimal ,'
    """
    return shell if _in_shell.get() else python


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " with known names close to an unknown one, or an empty text.

    Capitals are ignored. Without a close name, known names are suggested if they contain the given one.
    """
    folded = {other.casefold(): other for other in known}
    given = name.casefold()
    near = difflib.get_close_matches(given, folded, n=3)
    if not near and len(given) > 2:
        near = [other for other in folded if given in other][:3]
    if near:
        return f"did you mean {' or '.join(repr(folded[other]) for other in near)}? "
    return ""


def with_known_arguments(
    further: Callable[..., Any] | None = None, /, **instead: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the error for an unknown argument of the function names similar ones.

    Parameters
    ----------
    further : callable, optional
        Takes the further arguments of the function, its ``**params``.
    **instead
        What to say of an unknown argument.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        taken = inspect.signature(function).parameters.values()
        own = [one.name for one in taken if one.kind is not one.VAR_KEYWORD]
        known, more = own, ""
        if further is not None:
            known = [*own, *inspect.signature(further).parameters]
            more = f", and the parameters of {further.__name__}"

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    hint = (
                        instead.get(name)
                        or did_you_mean(name, own)
                        or did_you_mean(name, known)
                    )
                    raise TypeError(
                        f"{function.__name__} has no argument {name!r}; {hint}arguments are "
                        f"{', '.join(own)}{more}"
                    )
            return function(*args, **kwargs)

        return checked

    return decorate


def how_many(n: int, one: str, several: str = "") -> str:
    """Return a number with its noun: "1 row", "2,000 rows"."""
    return f"{n:,} {one if n == 1 else several or f'{one}s'}"


def listed(names: Sequence[Any]) -> str:
    """Return the first names of columns, and the number of the others."""
    more = ""
    if len(names) > MOST_COLUMNS:
        more = f" and {len(names) - MOST_COLUMNS} more"
    texts = map(str, names[:MOST_COLUMNS])
    return (
        ", ".join(repr(text if len(text) <= 40 else f"{text[:39]}…") for text in texts) + more
    )


def cut_to(name: str, most: int) -> str:
    """Return a name of at most so many characters, with "…" for the rest."""
    if len(name) <= most:
        return name
    return f"{name[: most - 1]}…"


def other_separator(names: Sequence[Any]) -> str:
    """Return advice for a table whose only column has a name with separators; for others an empty text."""
    if len(names) != 1:
        return ""
    found = re.search(r"[;\t|,]", str(names[0]))
    if found is None:
        return ""
    only = repr(str(names[0])[:60])
    return (
        f"its only column is {only}; if {found[0]!r} separates values, state {sep_of(found[0])}"
    )


def sep_of(sign: str) -> str:
    """Return the argument that names a separator."""
    return as_typed(f"sep={sign!r}", f"--sep {sign!r}" if sign.strip() else "--sep tab")


def meant(name: object, known: Iterable[Any]) -> str:
    """Return a suggestion for an unknown label or group, or an empty text.

    The text also points out a number given as text, and the reverse.
    """
    names = list(known)
    for other in names:
        if str(other) == str(name) and other != name:
            return f"write the {'text' if isinstance(other, str) else 'number'} {other!r}; "
    return did_you_mean(str(name), map(str, names))


def alike(names: Iterable[Any]) -> str:
    """Return a sentence on two different names that look alike, or an empty text.

    An accented letter is one character in composed text, and a letter and an accent in decomposed text.
    """
    texts = {str(name) for name in names if isinstance(name, str) and not name.isascii()}
    composed = sorted((unicodedata.normalize("NFC", text), text) for text in texts)
    for (one, first), (other, second) in pairwise(composed):
        if one == other:
            return (
                f"{first!a} and {second!a} look alike and are different names; "
                "unicodedata.normalize('NFC', name) makes them equal"
            )
    return ""


def warn_alike(names: Iterable[Any], what: str) -> None:
    """Warn of different names of classes or groups that look alike."""
    sentence = alike(names)
    if sentence:
        warn_user(f"{what}: {sentence}")
