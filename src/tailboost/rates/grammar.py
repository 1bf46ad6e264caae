"""Rates and limits as text, read as Python's own syntax without evaluation of code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tailboost.core.array_types import Stated
from tailboost.core.spelling import cut_to
from tailboost.rates import make
from tailboost.rates.make import ALIASES
from tailboost.rates.rate import (
    AT_LEAST,
    COMPARISONS,
    KINDS,
    LARGEST,
    Expression,
    Limit,
    Rate,
    Statistic,
)
from tailboost.rows.subgroups import HUMAN_REVIEW

# Maximum number of characters of a text, and of the text in an error message.
LONGEST_TEXT = 100_000
TEXT_SHOWN = 120

# What Python writes otherwise: a rate alone is a call. Outside of quotes also a percentage, the column of the
# classes, a sign, deferral.
_OTHERWISE = re.compile(
    r"""^(?P<alone>\w+|human\ review)\s*(?=[<>≤≥]|$)
      | '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*"
      | (?P<percent>\d+\.?\d*|\.\d+) \s* % (?![\w.]) | \bclass\b | [≤≥] | \bhuman\ review\b""",
    re.VERBOSE,
)
_IN_PYTHON = {"class": "'class'", "≤": "<=", "≥": ">=", "human review": "'human review'"}
_EXAMPLE = (
    "write for example 'miss(1, by=sex) <= 30%', with quotes around names that have other signs"
)


def _cost(matrix: Any = None, by: Any = None, labels: Any = None) -> Rate:
    """Return `cost` of a matrix with labels of its rows, as printed."""
    return replace(make.cost(matrix, by), labels=labels)


# The functions for rates, limits and objectives in texts.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(make, name) for name in (*KINDS, *ALIASES, "custom", LARGEST, *COMPARISONS)
} | {"cost": _cost}


def parse(text: str) -> Rate | Statistic | Limit:
    """Return a rate, an objective or a limit from text, without evaluation of code.

    Parameters
    ----------
    text : str
        As printed by ``repr``, in Python's syntax. A text argument of one word needs no quotes. Numbers may
        be in percent (``30%``). Text labels with digits only, such as "1", need quotes.

    Returns
    -------
    Rate, Statistic or Limit

    Raises
    ------
    ValueError
        If the text cannot be read. The message names the part that is not understood.

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.parse("gap(selected(yes, by=sex)) <= .02")
    gap(selected('yes', by='sex')) <= 0.02
    >>> rates.parse("error(by=class) <= {yes: .3, None: .5}")
    error(by='class') <= {'yes': 0.3, None: 0.5}
    """
    if not isinstance(text, str):
        raise TypeError(f"a rate must be given as text, got {text!r}")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"the text of a rate has at most {LONGEST_TEXT:,} characters")
    shown = cut_to(text, TEXT_SHOWN)
    try:
        in_python = _OTHERWISE.sub(_as_python, text.strip())
        compile(in_python, "", "eval")  # refuses repeated arguments, and runs nothing
        found = _value(ast.parse(in_python, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError) as failure:
        raise ValueError(f"{shown!r}: {failure}; {_EXAMPLE}") from None
    if not isinstance(found, Expression):
        raise ValueError(f"{shown!r} is no rate or limit; {_EXAMPLE}")
    if isinstance(found, Limit):
        pieces = _OTHERWISE.finditer(text)
        found = replace(found, in_percent=any(piece["percent"] for piece in pieces))
    return found


def _as_python(piece: re.Match[str]) -> str:
    """Return a piece of text in Python's syntax."""
    if piece["alone"]:
        return f"{piece['alone'].replace('human review', 'deferred')}()"
    if piece["percent"]:
        return f"({piece['percent']}/100)"
    return _IN_PYTHON.get(piece[0], piece[0])


def _value(node: Any) -> Any:
    """Return the number, text, tuple, dict, rate or limit of a syntax tree; a name is text."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return node.id
        case ast.List() | ast.Tuple():
            return tuple(map(_value, node.elts))
        case ast.Dict():
            bounds = dict(zip(map(_value, node.keys), map(_value, node.values), strict=True))
            if len(bounds) == len(node.keys):
                return bounds
        case ast.BinOp(op=ast.Div(), right=ast.Constant(value=100)):
            return _value(node.left) / 100
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            named = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
            return FUNCTIONS[name](*map(_value, node.args), **named)
        case ast.Compare(left=ast.Call(), ops=[ast.LtE() | ast.GtE()], comparators=[right]):
            expression, bound = _value(node.left), _value(right)
            is_upper = isinstance(node.ops[0], ast.LtE)
            limit = expression <= bound if is_upper else expression >= bound
            # Who writes 1, and not 1.0, may mean one percent.
            if is_upper and type(bound) is int and bound == 1 and limit.rate.kind != "cost":
                raise ValueError("every rule has a rate of at most 1; write 1% for one percent")
            return limit
    raise ValueError(
        f"{ast.unparse(node)!r} is not understood; the rates are called {', '.join(FUNCTIONS)}"
    )


def parsed(stated: Stated) -> Any:
    """Return a text as `parse` reads it; other values unchanged."""
    return parse(stated) if isinstance(stated, str) else stated


def checked_rates(stated: Stated) -> list[Expression]:
    """Return rates and limits as a list of expressions; texts are read by `parse`.

    Raises
    ------
    TypeError, ValueError
        If an entry is neither, or is a gap or ratio without a bound.
    """
    entries = [stated] if isinstance(stated, (str, Expression)) else stated
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise TypeError(
            f"limits and rates must be lists, such as ['miss(1) <= 40%'], got {stated!r}"
        )
    expressions = list(map(parsed, entries))
    for expression in expressions:
        if not isinstance(expression, (Rate, Limit)):
            raise TypeError(f"{expression!r} is no rate or limit; a gap or ratio needs a bound")
    return expressions


def checked_limits(limits: Stated) -> tuple[Limit, ...]:
    """Return limits as a tuple, all in percent if one is; texts are read by `parse`.

    Raises
    ------
    TypeError, ValueError
        If an entry is not a limit.
    """
    checked: Any = checked_rates(limits)
    for limit in checked:
        if not isinstance(limit, Limit):
            raise TypeError(
                f"limits: {limit!r} is no limit; write for example rates.error(by='class') <= 0.3"
            )
    in_percent = any(limit.in_percent for limit in checked)
    return tuple(
        replace(limit, in_percent=in_percent and limit.rate.kind != "cost") for limit in checked
    )


def limits_to_keep(limits: Stated) -> tuple[Limit, ...]:
    """Return `checked_limits` for a selection: more errors, or more deferral, keep none more easily.

    Raises
    ------
    TypeError, ValueError
        If an entry is not a limit, or asks for more errors or for more deferred rows.
    """
    checked = checked_limits(limits)
    for limit in checked:
        rate = limit.rate
        turned = rate.is_gain
        if limit.form == AT_LEAST:
            counts_errors = all(
                label is not None and answer not in (None, HUMAN_REVIEW, label)
                for label, answer in rate.counted
            )
            turned = counts_errors or rate.kind == "deferred"
        if turned and not limit.compares:
            raise ValueError(
                f"limit {limit!r} asks for more errors or deferred rows: turn its sign"
            )
    return checked
