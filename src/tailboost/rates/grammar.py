"""Rates and limits as text: ``gap(selected(yes, by=sex)) <= .02``."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

from tailboost.core.array_types import Stated
from tailboost.core.spelling import did_you_mean
from tailboost.rates import make as _make
from tailboost.rates.make import Largest, Spread
from tailboost.rates.rate import KINDS, Limit, Rate, as_expression

# Maximum length of a text, in characters.
LONGEST = 100_000
# Maximum depth of a text, in nested brackets. Deeper texts could exhaust the stack.
DEEPEST = 20
# Maximum number of characters of the text in an error message.
SHOWN = 120

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:\s*%|(?![\w.%])))
      | (?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<word>[^\W\d][\w.\-]*)
      | (?P<sign><=|>=|[()\[\]{},:=])
    )""",
    re.VERBOSE,
)
# Nodes of plain values: numbers with a sign, text, tuples, lists and dicts.
_VALUES = (ast.Constant, ast.UnaryOp, ast.unaryop, ast.Tuple, ast.List, ast.Dict, ast.expr_context)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(_make, name) for name in (*KINDS, "largest", "gap", "ratio")
}

_PRODUCT = "it is no ratio of sums over rows, so neither a linear program nor a bound of a mean applies"
_REFUSED = {
    "mcc": f"for Matthews' correlation, {_PRODUCT}; limit f_score or error(by=class)",
    "kappa": "the expected agreement needs the class shares of new rows; limit error(by=class)",
    "macro_f1": f"for a mean of F scores, {_PRODUCT}; limit f_score of each class",
}


def parse(text: str) -> Rate | Largest | Spread | Limit:
    """Return a rate, an objective or a limit from text, without evaluation of code.

    Parameters
    ----------
    text : str
        As printed by ``repr``. A text argument of one word needs no quotes. Numbers may be in percent
        (``30%``). Text labels with digits only, such as "1", need quotes.

    Returns
    -------
    Rate, Largest, Spread or Limit

    Raises
    ------
    ValueError
        If the text cannot be read. The message names the word and its place.

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
    if len(text) > LONGEST:
        raise ValueError(f"the text of a rate has at most {LONGEST:,} characters, got {len(text):,}")
    return _Parser(text.rstrip()).parse()


class _Parser:
    """Translates a text into a Python expression, parses the expression by `ast` and reads the tree.

    In the translation, words are quoted and percentages are numbers.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = ""
        self.places: list[tuple[int, int]] = []  # start of each token in the code and in the text
        at, quoted = 0, False
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None or token.lastgroup is None:
                raise self._unreadable(at + len(text[at:]) - len(text[at:].lstrip()))
            start, at = token.start(token.lastgroup), token.end()
            python = self._translated(token.lastgroup, token[token.lastgroup], start, at)
            if quoted and python[0] in "'\"":  # Python would join both
                raise self.error("expected a comma or a bracket before this", start)
            quoted = python[0] in "'\""
            self.places.append((len(self.code), start))
            self.code += f"{python} "

    def _translated(self, kind: str, token: str, start: int, end: int) -> str:
        """Return a token in ASCII Python."""
        if kind == "number":
            return _number(token)
        if kind == "text":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of unknown escapes
                try:
                    return ascii(ast.literal_eval(token))
                except (SyntaxError, ValueError):
                    raise self.error("is not understood", start) from None
        if kind == "word":
            after = self.text[end:].lstrip()[:1]
            if after == "(":
                if token.lower() in _REFUSED:
                    raise self.error(f"this is not available: {_REFUSED[token.lower()]}", start)
                if token not in _FUNCTIONS:
                    near = did_you_mean(token, _FUNCTIONS)
                    raise self.error(f"no rate has this name; {near}there are {', '.join(_FUNCTIONS)}", start)
                return token
            if after == "=" and token.isascii() and token.isidentifier():
                return token
            if token not in ("None", "True", "False"):
                return ascii(token)
        return token

    def _unreadable(self, at: int) -> ValueError:
        sign = self.text[at]
        if self.code.count("(") > self.code.count(")") and sign not in "'\"":
            start = 1 + max(self.text.rfind(before, 0, at) for before in "([{,:=")
            label = re.split(r"[,()\[\]{}]", self.text[start:])[0].strip()
            return self.error(f"quote a label with other signs than letters and digits: {label!r}", at)
        if sign in "<>":
            return self.error(f"a limit includes its bound; write {sign}=", at)
        return self.error("the quote is not closed" if sign in "'\"" else "is not understood", at)

    def error(self, message: str, at: int) -> ValueError:
        """Return an error with the word at a position of the text."""
        word = re.match(r"[\w.\-%]+|.", self.text[at:], re.DOTALL)
        place = f"{word[0]!r}, character {at + 1}" if word else "the end"
        text = self.text if len(self.text) <= SHOWN else f"{self.text[: SHOWN - 1]}…"
        return ValueError(f"{text!r}: at {place}: {message}")

    def _place(self, offset: int) -> int:
        """Return the position in the text of the token at an offset of the code."""
        if offset >= len(self.code.rstrip()):
            return len(self.text)
        return self.places[bisect_right(self.places, (offset, len(self.text))) - 1][1]

    def at(self, node: ast.expr) -> int:
        """Return the position of a node in the text."""
        return self._place(node.col_offset)

    def parse(self) -> Any:
        """Return the rate, objective or limit."""
        try:
            node = ast.parse(self.code, mode="eval").body
        except SyntaxError as failure:
            at = self._place((failure.offset or len(self.code) + 1) - 1)
            message = (
                failure.msg if "never closed" in failure.msg else "expected a value, a comma or a bracket"
            )
            raise self.error("write <= or >=" if self.text[at : at + 1] == "=" else message, at) from None
        except (RecursionError, MemoryError):
            raise self.error("is nested too deeply", 0) from None
        if not isinstance(node, ast.Compare):
            return self.call(node, 0)
        if len(node.comparators) > 1:
            raise self.error("expected the end after the bound", self.at(node.comparators[1]))
        one, bound = self.call(node.left, 0), self.value(node.comparators[0], 0)
        if one.worst:
            raise self.error("a largest rate is an objective; to limit each rate leave 'largest' out", 0)
        try:
            limit = one <= bound if isinstance(node.ops[0], ast.LtE) else one >= bound
        except (TypeError, ValueError) as failure:
            raise self.error(str(failure), self.at(node.left)) from None
        if limit.from_above and type(bound) is int and bound == 1 and limit.rate.kind != "cost":
            at = self.at(node.comparators[0])
            raise self.error("every rule has a rate of at most 1; write 1% for one percent", at)
        return limit

    def call(self, node: ast.expr, depth: int) -> Any:
        """Return the result of a call of one of the functions."""
        if depth > DEEPEST:
            raise self.error("is nested too deeply", self.at(node))
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            raise self.error(f"expected a rate: one of {', '.join(_FUNCTIONS)} and a '('", self.at(node))
        name = node.func.id
        allowed = [*signature(_FUNCTIONS[name]).parameters, *(["labels"] if name == "cost" else [])]
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg in named:
                raise self.error("this name is repeated", self._place(keyword.col_offset))
            if keyword.arg not in allowed:
                near = did_you_mean(str(keyword.arg), allowed)
                message = f"{near}{name}(...) has {', '.join(allowed)}"
                raise self.error(message, self._place(keyword.col_offset))
            named[str(keyword.arg)] = self.value(keyword.value, depth + 1)
        given = [self.value(argument, depth + 1) for argument in node.args]
        labels = named.pop("labels", None)
        try:
            made = _FUNCTIONS[name](*given, **named)
            return made if labels is None else _with_labels(made, labels)
        except (TypeError, ValueError) as failure:
            raise self.error(str(failure), self.at(node)) from None

    def value(self, node: ast.expr, depth: int) -> Any:
        """Return a plain value or the result of a call."""
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        for part in ast.walk(node):
            if not isinstance(part, _VALUES):
                raise self.error("expected a value", self.at(part if isinstance(part, ast.expr) else node))
            if isinstance(part, ast.Dict):
                keys: set[str] = set()
                for key in part.keys:
                    if key is not None and ast.dump(key) in keys:
                        raise self.error("this name is repeated", self.at(key))
                    keys.add(ast.dump(key) if key is not None else "")
        try:
            return ast.literal_eval(node)
        except (TypeError, ValueError):
            message = "expected a value; a subgroup is text, a number or a tuple of them"
            raise self.error(message, self.at(node)) from None


def _number(text: str) -> str:
    """Return the Python literal of a number, possibly in percent; 1e999 for infinity."""
    if text.endswith("%"):
        return repr(float(text[:-1]) / 100).replace("inf", "1e999")
    number = int(text) if re.fullmatch(r"[-+]?\d{1,300}", text) else float(text)
    return repr(number).replace("inf", "1e999")


def _with_labels(rate: Rate, labels: object) -> Rate:
    if rate.matrix is None or not isinstance(labels, (list, tuple)) or len(labels) != len(rate.matrix):
        raise ValueError("labels= must name each row of a matrix of costs")
    return Rate(rate.kind, rate.label, rate.by, rate.matrix, tuple(map(_make.checked_label, labels)))


# -- limits ------------------------------------------------------------------------------------------


def checked_limits(limits: Stated) -> tuple[Limit, ...]:
    """Return limits as a tuple; texts are read by `parse`.

    Raises
    ------
    TypeError, ValueError
        If an entry is not a limit.
    """
    if isinstance(limits, str) or as_expression(limits) is not None:
        limits = [limits]
    if not isinstance(limits, Iterable) or isinstance(limits, Mapping):
        raise TypeError(f"limits must be a list, such as ['miss(1) <= 40%'], got {limits!r}")
    checked = []
    for given in limits:
        expression = as_expression(parse(given) if isinstance(given, str) else given)
        if expression is None or expression.limit is None:
            compared = ": compare a rate by <= or >=" if isinstance(given, bool) else ""
            raise TypeError(
                f"limits: {given!r} is no limit{compared}; write for example rates.error(by='class') <= 0.3"
            )
        checked.append(expression.limit)
    return tuple(checked)
