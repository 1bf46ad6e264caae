"""Rates and limits as text and as plain data: ``gap(selected(yes, by=sex)) <= .02``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from tailboost.core.spelling import did_you_mean
from tailboost.rates import make as _make
from tailboost.rates.kinds import KINDS
from tailboost.rates.objective import Largest, Spread
from tailboost.rates.rate import Limit, Rate, as_expression

# More than anybody writes; a longer or deeper text is refused instead of exhausting the stack.
LONGEST, DEEPEST = 10_000, 20
# So much of a text is repeated in an error.
SHOWN = 120

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:\s*%|(?![\w.%])))
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<word>[^\W\d][\w.\-]*)
      | (?P<sign><=|>=|[()\[\]{},:=])
    )""",
    re.VERBOSE,
)
_WORDS = {"None": None, "True": True, "False": False}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(_make, name) for name in (*KINDS, "largest", "gap", "ratio")
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse(text: str) -> Rate | Largest | Spread | Limit:
    """Read a rate, an objective or a limit from text, by a grammar of its own: nothing is evaluated.

    Parameters
    ----------
    text : str
        As a rate prints with ``repr``; text that is one word needs no quotes. Numbers are numbers, also in
        percent (``30%``): the label "1" of text is written in quotes.

    Returns
    -------
    Rate, Largest, Spread or Limit

    Raises
    ------
    ValueError
        If the text is none; the message names the place.

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.parse("gap(selected(yes, by=sex)) <= .02")
    gap(selected('yes', by='sex')) <= 0.02
    >>> rates.parse("error(by=class) <= {yes: .3, None: .5}")
    error(by='class') <= {'yes': 0.3, None: 0.5}
    """
    if not isinstance(text, str):
        raise TypeError(f"a rate is read from text, got {text!r}")
    if len(text) > LONGEST:
        raise ValueError(f"a rate is written in at most {LONGEST:,} characters, got {len(text):,}")
    return _Reader(text).read()


@dataclass
class _Token:
    kind: str
    value: Any
    at: int


@dataclass
class _Reader:
    """Reads one text from left to right, by recursive descent."""

    text: str
    tokens: list[_Token] = field(default_factory=list)
    place: int = 0

    def __post_init__(self) -> None:
        self.text = self.text.rstrip()
        at, end = 0, len(self.text)
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None or found.lastgroup is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                sign = self.text[at]
                if sign in "<>":
                    raise self._error(f"a limit includes its bound; write {sign}=", at)
                quote = sign in "'\""
                raise self._error("the quote is not closed" if quote else "is not understood", at)
            value: Any = found[found.lastgroup]
            if found.lastgroup == "number":
                value = _number(value)
            elif found.lastgroup == "text":
                value = self._unescaped(value[1:-1])
            self.tokens.append(_Token(found.lastgroup, value, found.start(found.lastgroup)))
            at = found.end()
        self.tokens.append(_Token("end", "", end))

    @staticmethod
    def _unescaped(text: str) -> str:
        coded = r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|.)"

        def plain(found: re.Match[str]) -> str:
            said = found[1]
            return chr(int(said[1:], 16)) if len(said) > 1 else _ESCAPES.get(said, said)

        return re.sub(coded, plain, text, flags=re.DOTALL)

    # -- tokens --------------------------------------------------------------------------------------

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def take(self) -> _Token:
        token = self.tokens[self.place]
        self.place += 1
        return token

    def took(self, sign: str) -> bool:
        if self.next.kind == "sign" and self.next.value == sign:
            self.place += 1
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.took(sign):
            raise self._error(f"expected {sign!r}", self.next.at)

    def _error(self, words: str, at: int) -> ValueError:
        """Return an error that names the word it is about, and where in the text that stands."""
        word = re.match(r"[\w.\-%]+|.", self.text[at:], re.DOTALL)
        place = f"{word[0]!r}, character {at + 1}" if word else "the end"
        text = self.text if len(self.text) <= SHOWN else f"{self.text[: SHOWN - 1]}…"
        return ValueError(f"{text!r}: at {place}: {words}")

    # -- grammar -------------------------------------------------------------------------------------

    def read(self) -> Rate | Largest | Spread | Limit:
        start = self.next.at
        found: Rate | Largest | Spread | Limit = self.call(0)
        if self.took("<="):
            found = self._compared(found, lambda one, bound: one <= bound, start)
        elif self.took(">="):
            found = self._compared(found, lambda one, bound: one >= bound, start)
        if self.next.kind != "end":
            equals = "; write <= or >=" if self.next.value == "=" else ""
            raise self._error(f"expected the end{equals}", self.next.at)
        return found

    def _compared(self, one: Any, compare: Callable[[Any, Any], Any], start: int) -> Any:
        at, bound = self.next.at, self.value(0)
        if one.worst:
            raise self._error("a largest rate is an objective; to limit each rate leave 'largest' out", start)
        try:
            limit = compare(one, bound)
        except (TypeError, ValueError) as error:
            raise self._error(str(error), start) from None
        if limit.from_above and type(bound) is int and bound == 1 and limit.rate.kind != "cost":
            raise self._error("every rule keeps a share to at most 1; write 1% for one percent", at)
        return limit

    def call(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise self._error("is nested too deeply", self.next.at)
        name = self.take()
        if name.kind != "word" or name.value not in _FUNCTIONS:
            near = did_you_mean(str(name.value), _FUNCTIONS)
            raise self._error(f"no rate is called so; {near}there are {', '.join(_FUNCTIONS)}", name.at)
        self.expect("(")
        given: list[Any] = []
        named: dict[str, Any] = {}
        while not self.took(")"):
            after = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
            if self.next.kind == "word" and after.kind == "sign" and after.value == "=":
                key = self.take()
                self.expect("=")
                if key.value in named:
                    raise self._error("stands twice", key.at)
                if key.value not in (known := _names(name.value)):
                    near = did_you_mean(key.value, known)
                    raise self._error(f"{near}{name.value}(...) has {', '.join(known)}", key.at)
                named[key.value] = self.value(depth + 1)
            elif named:
                raise self._error("expected name=", self.next.at)
            else:
                given.append(self.value(depth + 1))
            if not self.took(","):
                self.expect(")")
                break
        labels = named.pop("labels", None)
        try:
            made = _FUNCTIONS[name.value](*given, **named)
            return made if labels is None else _with_labels(made, labels)
        except (TypeError, ValueError) as error:
            raise self._error(str(error), name.at) from None

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise self._error("is nested too deeply", self.next.at)
        token = self.next
        if token.kind == "word":
            after = self.tokens[self.place + 1]
            if after.kind == "sign" and after.value == "(":
                return self.call(depth)
            self.place += 1
            return _WORDS.get(token.value, token.value)
        if token.kind in ("number", "text"):
            self.place += 1
            return token.value
        if self.took("("):
            return tuple(self._listed(")", depth))
        if self.took("["):
            return self._listed("]", depth)
        if self.took("{"):
            return self._mapped(depth)
        raise self._error("expected a value", token.at)

    def _listed(self, end: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while not self.took(end):
            found.append(self.value(depth + 1))
            if not self.took(","):
                self.expect(end)
                break
        return found

    def _mapped(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while not self.took("}"):
            at, key = self.next.at, self.value(depth + 1)
            self.expect(":")
            if isinstance(key, (list, dict)):
                raise self._error("a unit is text, a number or a tuple of them", at)
            if key in found:
                raise self._error("stands twice", at)
            found[key] = self.value(depth + 1)
            if not self.took(","):
                self.expect("}")
                break
        return found


def _names(function: str) -> list[str]:
    """Return what arguments of a function may be called in a text."""
    return [*signature(_FUNCTIONS[function]).parameters, *(["labels"] if function == "cost" else [])]


def _number(text: str) -> int | float:
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return int(text) if re.fullmatch(r"[-+]?\d{1,300}", text) else float(text)


def _with_labels(rate: Rate, labels: Any) -> Rate:
    if rate.matrix is None or not isinstance(labels, (list, tuple)) or len(labels) != len(rate.matrix):
        raise ValueError("labels= names each row of a matrix of costs")
    return Rate(rate.kind, rate.label, rate.by, rate.matrix, tuple(map(_make.checked_label, labels)))


# -- limits ------------------------------------------------------------------------------------------


def checked_limits(limits: Any) -> tuple[Limit, ...]:
    """Return limits as a tuple; text is read as by `parse`.

    Raises
    ------
    TypeError, ValueError
        If something is no limit.
    """
    if isinstance(limits, str) or as_expression(limits) is not None:
        limits = [limits]
    if not isinstance(limits, Iterable) or isinstance(limits, Mapping):
        raise TypeError(f"limits must be a list of limits on rates, got {limits!r}")
    found = []
    for given in limits:
        said = as_expression(parse(given) if isinstance(given, str) else given)
        if said is None or said.limit is None:
            compared = ": a rate is compared by <= or >=" if isinstance(given, bool) else ""
            raise TypeError(
                f"limits: {given!r} is no limit{compared}; write for example rates.error(by='class') <= 0.3"
            )
        found.append(said.limit)
    return tuple(found)


# -- plain data --------------------------------------------------------------------------------------


def to_dict(given: Rate | Largest | Limit) -> dict[str, Any]:
    """Return a rate, an objective or a limit as plain data that JSON holds.

    Parameters
    ----------
    given : Rate, Largest or Limit
        What to write.

    Returns
    -------
    dict

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.to_dict(rates.error(by="sex") <= 0.3)
    {'limit': 'at most', 'rate': {'rate': 'error', 'by': 'sex'}, 'bound': 0.3}
    """
    said = as_expression(given)
    if said is None or (said.compares and said.limit is None):
        raise TypeError(f"a rate, an objective or a limit is needed, got {given!r}")
    if said.limit is not None:
        form, bound = said.limit.form, said.limit.bound
        pairs = [list(pair) for pair in bound] if isinstance(bound, tuple) else bound
        return {"limit": form, "rate": to_dict(said.rate), "bound": pairs}
    if said.worst:
        return {"largest": to_dict(said.rate)}
    rate = said.rate
    fields = {"label": rate.label, "matrix": rate.matrix, "labels": rate.labels, "by": rate.by}
    return {"rate": rate.kind, **{name: value for name, value in fields.items() if value is not None}}


def from_dict(data: Mapping[str, Any]) -> Rate | Largest | Limit:
    """Return what `to_dict` wrote.

    Parameters
    ----------
    data : dict
        Plain data, as from a JSON file: lists stand for tuples.

    Returns
    -------
    Rate, Largest or Limit

    Raises
    ------
    ValueError, TypeError
        If it is none.
    """
    try:
        if "largest" in data:
            return _make.largest(_rate(data["largest"]))
        if "limit" in data:
            bound = data["bound"]
            if isinstance(bound, list):
                bound = {_tuples(name): value for name, value in bound}
            if data["limit"] not in ("at most", "at least", "gap", "ratio"):
                raise ValueError(f"no limit is called {data['limit']!r}")
            return Limit.of(data["limit"], _rate(data["rate"]), bound)
        return _rate(data)
    except KeyError as error:
        raise ValueError(f"{data!r} is no rate: it has no {error}") from None


def _rate(data: Mapping[str, Any]) -> Rate:
    name = data["rate"]
    if name not in KINDS:
        raise ValueError(
            f"no rate is called {name!r}: {did_you_mean(str(name), KINDS)}there are {list(KINDS)}"
        )
    given = {key: _tuples(data[key]) for key in ("label", "matrix", "by") if key in data}
    rate: Rate = _FUNCTIONS[name](**given)
    return _with_labels(rate, data["labels"]) if data.get("labels") is not None else rate


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, (list, tuple)) else value
