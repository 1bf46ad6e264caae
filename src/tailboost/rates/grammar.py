"""Rates and limits as text, read as Python's own syntax without evaluation of code."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tailboost.core.array_types import Stated
from tailboost.core.spelling import cut_to, did_you_mean
from tailboost.rates import make
from tailboost.rates.comparisons import COMPARISONS
from tailboost.rates.make import Largest, Spread, checked_label
from tailboost.rates.rate import KINDS, Expression, Limit, Rate, as_expression
from tailboost.rows.subgroups import HUMAN_REVIEW

# Maximum number of characters of a text, and of the text in an error message.
LONGEST_TEXT = 100_000
TEXT_SHOWN = 120
# Maximum depth of a text, in nested brackets. Deeper texts could exhaust the stack.
DEEPEST = 20

# What Python writes otherwise, outside of quotes: a percentage, the column of the classes, a sign, deferral.
_OTHERWISE = re.compile(
    r"""(?P<quoted>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<percent>\d+\.?\d*|\.\d+) \s* % (?![\w.])
      | (?P<class>\bclass\b) | (?P<sign>[≤≥]) | (?P<review>\bhuman\s+review\b)""",
    re.VERBOSE,
)
_SYMBOLS = {"≤": "<=", "≥": ">="}
_EXAMPLE = (
    "write for example 'miss(1, by=sex) <= 30%', with quotes around names that have other signs"
)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions for rates, limits and objectives in texts, by name."""
    names = (*KINDS, "custom", "largest", *COMPARISONS)
    return {name: getattr(make, name) for name in names if hasattr(make, name)}


def parse(text: str) -> Rate | Largest | Spread | Limit:
    """Return a rate, an objective or a limit from text, without evaluation of code.

    Parameters
    ----------
    text : str
        As printed by ``repr``, in Python's syntax. A text argument of one word needs no quotes. Numbers may
        be in percent (``30%``). Text labels with digits only, such as "1", need quotes.

    Returns
    -------
    Rate, Largest, Spread or Limit

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
        raise ValueError(
            f"the text of a rate has at most {LONGEST_TEXT:,} characters, got {len(text):,}"
        )
    shown = cut_to(text, TEXT_SHOWN)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown escapes
            tree = ast.parse(_OTHERWISE.sub(_as_python, text.strip()), mode="eval")
    except (SyntaxError, MemoryError, RecursionError, ValueError):
        raise ValueError(f"{shown!r} is no rate or limit; {_EXAMPLE}") from None
    try:
        found = _top(tree.body)
    except (TypeError, ValueError) as failure:
        raise ValueError(f"{shown!r}: {failure}") from None
    if isinstance(found, Limit):
        in_percent = any(match["percent"] for match in _OTHERWISE.finditer(text))
        return replace(found, in_percent=in_percent)
    return found


def _as_python(match: re.Match[str]) -> str:
    """Return a piece of text in Python's syntax."""
    if match["percent"]:
        return f"({match['percent']}/100)"
    if match["class"]:
        return "'class'"
    if match["review"]:
        return "'human review'"
    return _SYMBOLS.get(match[0], match[0])


def _top(node: ast.expr) -> Any:
    """Return the rate, objective or limit of a syntax tree."""
    if not isinstance(node, ast.Compare):
        return _expression(node)
    if len(node.ops) > 1:
        raise ValueError("a limit has one bound: state two limits")
    expression = _expression(node.left)
    bound_node = node.comparators[0]
    bound = _value(bound_node, 0)
    if expression.worst:
        raise ValueError(
            "a largest rate is an objective; to limit each rate leave 'largest' out"
        )
    if isinstance(node.ops[0], ast.LtE):
        limit = expression <= bound
    elif isinstance(node.ops[0], ast.GtE):
        limit = expression >= bound
    else:
        raise ValueError("a limit includes its bound: write <= or >=")
    # Who writes 1, and not 1.0, may mean one percent.
    if limit.from_above and type(bound) is int and bound == 1 and limit.rate.is_fraction:
        raise ValueError("every rule has a rate of at most 1; write 1% for one percent")
    return limit


def _expression(node: ast.expr) -> Any:
    """Return the rate, gap, ratio or objective of a syntax tree; a name alone is a call."""
    name = "deferred" if isinstance(node, ast.Constant) and node.value == HUMAN_REVIEW else ""
    if isinstance(node, ast.Name):
        name = node.id
    if name:
        node = ast.Call(func=ast.Name(id=name), args=[], keywords=[])
    if not isinstance(node, ast.Call):
        raise ValueError(f"{ast.unparse(node)!r} is no rate; {_EXAMPLE}")
    return _value(node, 0)


def _value(node: ast.expr | None, depth: int) -> Any:
    """Return the number, text, list, tuple, dict or rate of a syntax tree; a name is text."""
    if depth > DEEPEST:
        raise ValueError("the text is nested too deeply")
    inner = depth + 1
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return node.value
        case ast.Name():
            return node.id
        case ast.List():
            return [_value(item, inner) for item in node.elts]
        case ast.Tuple():
            return tuple(_value(item, inner) for item in node.elts)
        case ast.Dict():
            keys = [_value(key, inner) for key in node.keys]
            values = [_value(value, inner) for value in node.values]
            if len(set(keys)) < len(keys):
                raise ValueError(f"a subgroup has two bounds in {ast.unparse(node)!r}")
            return dict(zip(keys, values, strict=True))
        case ast.BinOp(
            op=ast.Div(),
            left=ast.Constant(value=float() | int() as part),
            right=ast.Constant(value=100),
        ):
            return part / 100
        case ast.UnaryOp(
            op=ast.USub(), operand=ast.Constant(value=float() | int() as positive)
        ):
            return -positive
        case ast.Call(func=ast.Name(id=name)):
            arguments = [_value(argument, inner) for argument in node.args]
            named = {key.arg or "**": _value(key.value, inner) for key in node.keywords}
            if len(named) < len(node.keywords):
                raise ValueError(f"an argument is repeated in {ast.unparse(node)!r}")
            return _called(name, arguments, named)
    raise ValueError(f"{ast.unparse(node) if node else '**'!r} is not understood; {_EXAMPLE}")


def _called(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Return the rate of a function's name and arguments."""
    if name not in functions():
        near = did_you_mean(name, functions())
        raise ValueError(
            f"no rate is called {name!r}; {near}there are {', '.join(functions())}"
        )
    labels = named.pop("labels", None) if name == "cost" else None
    rate = functions()[name](*arguments, **named)
    if labels is None:
        return rate
    if rate.matrix is None or len(labels) != len(rate.matrix):
        raise ValueError("labels= must name each row of a matrix of costs")
    return replace(rate, labels=tuple(map(checked_label, labels)))


def parsed(stated: Stated) -> Any:
    """Return a text as `parse` reads it; other values unchanged."""
    if isinstance(stated, str):
        return parse(stated)
    return stated


def read_stated(stated: Stated, form: str) -> list[tuple[Any, Expression | None]]:
    """Return each stated rate or limit with its expression; None for an entry of another kind.

    Parameters
    ----------
    stated : list of Rate, Limit or str, or one of these
        Texts are read by `parse`.
    form : str
        The required form, for the error about other forms.
    """
    entries = stated
    if isinstance(stated, str) or as_expression(stated) is not None:
        entries = [stated]
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise TypeError(f"{form}, got {stated!r}")
    return [(entry, as_expression(parsed(entry))) for entry in entries]


def checked_rates(stated: Stated) -> list[Expression]:
    """Return rates and limits as a list of expressions; texts are read by `parse`.

    Raises
    ------
    TypeError, ValueError
        If an entry is neither, or is a gap or ratio without a bound.
    """
    form = (
        "limits and rates must be lists, such as limits=['miss(1) <= 40%'] or rates=['miss(1)']"
    )
    checked = []
    for entry, expression in read_stated(stated, form):
        if expression is None or not expression.sides:
            raise TypeError(
                f"rates: {entry!r} is no rate or limit; a gap or ratio needs a bound"
            )
        checked.append(expression)
    return checked


def checked_limits(limits: Stated) -> tuple[Limit, ...]:
    """Return limits as a tuple, all in percent if one is; texts are read by `parse`.

    Raises
    ------
    TypeError, ValueError
        If an entry is not a limit.
    """
    form = "limits must be a list, such as ['miss(1) <= 40%']"
    checked = []
    for entry, expression in read_stated(limits, form):
        if expression is None or expression.limit is None:
            raise TypeError(
                f"limits: {entry!r} is no limit; write for example rates.error(by='class') <= 0.3"
            )
        checked.append(expression.limit)
    in_percent = any(limit.in_percent for limit in checked)
    return tuple(
        replace(limit, in_percent=in_percent and limit.rate.is_fraction) for limit in checked
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
        if limit.asks_for_errors or limit.asks_for_deferral:
            counted = "deferred rows" if limit.asks_for_deferral else "errors"
            raise ValueError(
                f"limit {limit!r} asks for more {counted}, not for fewer: turn its sign"
            )
    return checked
