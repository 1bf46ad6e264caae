"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
import inspect
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from tailboost.core.exceptions import warn_user

# Arguments of other libraries, with their name here; "" if no argument has their meaning.
OF_OTHERS = {"sensitive_features": "groups", "sample_weight": "", "T": "n_estimators"}
# Most columns named by a message.
COLUMNS_NAMED = 5
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
    if _in_shell.get():
        return shell
    return python


def shell_word(name: object) -> str:
    """Return a name for a shell, in quotes if needed."""
    return shlex.quote(str(name))


def limits_as_typed(limits: Sequence[str]) -> str:
    """Return the texts of limits as an argument in Python, or as options of a command.

    Examples
    --------
    >>> from tailboost.core.spelling import limits_as_typed
    >>> print(limits_as_typed(["error <= 10%", "miss(1, by='site') <= 20%"]))
    limits=['error <= 10%', "miss(1, by='site') <= 20%"]
    """
    options = []
    for limit in limits:
        word = shell_word(limit)
        if "'" in limit and not set(limit) & set('"$`\\!'):  # easier to read
            word = f'"{limit}"'
        options.append(f"--limit {word}")
    return as_typed(f"limits={list(limits)}", " ".join(options))


def name_in_limit(column: object) -> str:
    """Return the name of a column in the text of a limit: in quotes unless all are letters and digits.

    Examples
    --------
    >>> from tailboost.core.spelling import name_in_limit
    >>> print(name_in_limit("site"), name_in_limit("Site (ward)"))
    site 'Site (ward)'
    """
    if isinstance(column, str) and not column.isidentifier():
        return repr(column)
    return str(column)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " with known names close to an unknown one, or an empty text.

    Capitals and blanks around a name are ignored. Without a close name, known names are suggested if they
    contain the unknown one.
    """
    by_lower_case = {known_name.strip().casefold(): known_name for known_name in known}
    lower_case = name.strip().casefold()
    near = difflib.get_close_matches(lower_case, by_lower_case, n=3)
    if not near and len(lower_case) > 2:  # one or two letters are in many names
        near = [known_name for known_name in by_lower_case if lower_case in known_name][:3]
    if not near:
        return ""
    quoted = [repr(by_lower_case[known_name]) for known_name in near]
    return f"did you mean {' or '.join(quoted)}? "


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for an unknown name in a module, with close names of the ``known`` ones."""
    message = f"module {module!r} has no attribute {name!r}; {did_you_mean(name, known)}"
    return AttributeError(message.rstrip("; "))


def with_known_arguments(
    further: Callable[..., Any] | None = None, /, **instead: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: errors for wrong arguments of the function name similar ones, or its call.

    Parameters
    ----------
    further : callable, optional
        A function, to which the decorated one passes its ``**params``.
    **instead
        Advice about unknown arguments with these names, in place of similar names. Parameters of
        ``further`` with these names are left out, because the decorated function sets them.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = KnownArguments(function, further, instead)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            known.refuse_unknown(kwargs)
            known.refuse_wrong_number(args, kwargs)
            return function(*args, **kwargs)

        return checked

    return decorate


class KnownArguments:
    """The arguments of a function, and advice about others; parameters as in `with_known_arguments`."""

    def __init__(
        self,
        function: Callable[..., Any],
        further: Callable[..., Any] | None,
        instead: Mapping[str, str],
    ) -> None:
        self.called = function.__qualname__.removesuffix(".__init__")
        self.signature = inspect.signature(function)
        self.instead = instead
        self.names = [
            param.name
            for param in self.signature.parameters.values()
            if param.kind is not param.VAR_KEYWORD and param.name not in ("self", "cls")
        ]
        self.listing = ", ".join(self.names)
        if further is not None:
            further_names = inspect.signature(further).parameters
            self.names += [name for name in further_names if name not in instead]
            self.listing += f", and the parameters of {further.__name__}"

    def refuse_unknown(self, names: Iterable[str]) -> None:
        """Raise TypeError for the first name that is no argument, with advice."""
        for name in names:
            if name not in self.names:
                similar = did_you_mean(OF_OTHERS.get(name, name), self.names)
                raise TypeError(
                    f"{self.called} has no argument {name!r}; "
                    f"{self.instead.get(name, similar)}arguments are {self.listing}"
                )

    def refuse_wrong_number(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError with the call if arguments are missing, too many or given twice."""
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            call = f"{self.called}{_as_written(self.signature)}"
            no_learner = self.instead.get("estimator", "")
            raise TypeError(f"{self.called}: {error}; {no_learner}the call is {call}") from None


def drop_rows_without(rows: Any) -> str:
    """Return the fault and the cure of a column with missing values in the rows ``rows`` of a file."""
    return (
        f"{how_many(len(rows), 'missing value')}; drop these rows first (the first is row "
        f"{rows[0]}, counted from 0)"
    )


def a_type_of(thing: object) -> str:
    """Return the name of a type with its article: "a Pipeline", "an AdaBoostClassifier"."""
    name = type(thing).__name__
    if name[0] in "AEIOaeio":
        return f"an {name}"
    return f"a {name}"


def _as_written(signature: inspect.Signature) -> str:
    """Return the parameters that need no name as in a call: "(model, alpha=0.1, *, …)"."""
    parameters = [
        parameter.replace(annotation=parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    unnamed = [
        str(parameter) for parameter in parameters if parameter.kind < parameter.KEYWORD_ONLY
    ]
    if len(unnamed) < len(parameters):
        unnamed += ["*", "…"]
    return f"({', '.join(unnamed)})"


def how_many(n: int, one: str, several: str = "") -> str:
    """Return a number with its noun: "1 row", "2,000 rows"."""
    if n == 1:
        return f"1 {one}"
    return f"{n:,} {several or f'{one}s'}"


def number_form(n: int, one: str, several: str) -> str:
    """Return the words for one thing, or for several."""
    if n == 1:
        return one
    return several


def listed(names: Sequence[Any]) -> str:
    """Return the first names in quotes, and the number of the others; a single other one is named."""
    return joined([repr(cut_to(str(name), 40)) for name in names], COLUMNS_NAMED)


def joined(names: Sequence[str], n_shown: int, between: str = ", ") -> str:
    """Return the first names as text, and the number of the others; a single other one is named."""
    if len(names) <= n_shown + 1:
        return between.join(names)
    return f"{between.join(names[:n_shown])} and {len(names) - n_shown:,} more"


def cut_to(name: str, most: int) -> str:
    """Return the first ``most`` characters of a name; the last is "…" if the name is longer."""
    if len(name) <= most:
        return name
    return f"{name[: most - 1]}…"


def other_separator(names: Sequence[Any]) -> str:
    """Return advice for a table with a separator in a name of a column; for others an empty text.

    A comma may be part of a name, but not of the only one.
    """
    separators = r"[;\t|]"
    columns = f"its columns are {listed(names)}"
    if len(names) == 1:
        separators = r"[;\t|,]"
        columns = f"its only column is {str(names[0])[:60]!r}"
    match = re.search(separators, "".join(map(str, names)))
    if match is None:
        return ""
    return f"{columns}; if {sign_words(match[0])} separates values, state {sep_of(match[0])}"


def if_no_header(names: Iterable[Any], table: Any = None) -> str:
    """Return advice for a table with names of columns like values; for others an empty text.

    Such a name is a number, or a value of its own column of ``table``.
    """
    for name in names:
        fault = ""
        if re.fullmatch(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?", str(name)):
            fault = "is a number"
        elif table is not None and (table[name] == name).any():
            fault = "is also a value of its column"
        if fault:
            return (
                f"; the name {str(name)!r} {fault}: if the first line of a file holds data, "
                "write a line of column names above it"
            )
    return ""


def sign_words(sign: str) -> str:
    """Return the words for a separator in a sentence."""
    if sign == "\t":
        return "a tab"
    return repr(sign)


def sep_of(sign: str) -> str:
    """Return the argument for a separator."""
    option = f"--sep {sign!r}"
    if sign == "\t":
        option = "--sep tab"
    return as_typed(f"sep={sign!r}", option)


def meant(name: object, known: Iterable[Any]) -> str:
    """Return a suggestion for an unknown label or group, or an empty text.

    The text also points out a number given as text, and the reverse. ``known`` are all labels or groups. Of
    few, which a message lists, none is meant that only lacks or adds letters: "toxic" is not "nontoxic".
    """
    known_names = list(known)
    look = str(name).strip().casefold()
    for known_name in known_names:
        if str(known_name) == str(name) and known_name != name:
            kind = "number"
            if isinstance(known_name, str):
                kind = "text"
            elif isinstance(known_name, bool):
                kind = "truth value"
            return f"write the {kind} {known_name!r}; "
    if len(known_names) <= COLUMNS_NAMED:
        looks = {each: str(each).strip().casefold() for each in known_names}
        known_names = [
            each
            for each, other in looks.items()
            if other == look or (other not in look and look not in other)
        ]
    return did_you_mean(str(name), map(str, known_names))


def alike(names: Iterable[Any]) -> str:
    """Return a sentence on two different names with the same look, or an empty text.

    An accented letter is one character in composed text, and a letter and an accent in decomposed text.
    Blanks around a name are not seen either, and capitals are easily missed.
    """
    texts = {str(name) for name in names if isinstance(name, str)}
    looks = sorted((unicodedata.normalize("NFC", text).strip().lower(), text) for text in texts)
    # Names with the same look are neighbours.
    for (first_look, first), (second_look, second) in pairwise(looks):
        if first_look == second_look:
            python = "unicodedata.normalize('NFC', name) makes them equal"
            if first.strip() == second.strip():
                python = "name.strip() makes them equal"
            elif first.strip().lower() == second.strip().lower():
                python = "name.strip().lower() makes them equal"
            cure = as_typed(python, "if they mean the same, write only one of them in the file")
            return f"{first!a} and {second!a} look alike and are different names; {cure}"
    return ""


def warn_alike(names: Iterable[Any], what: str) -> None:
    """Warn of different names of classes or groups with the same look."""
    sentence = alike(names)
    if sentence:
        warn_user(f"{what}: {sentence}")
