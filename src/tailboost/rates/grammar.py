"""Rates and limits as text: `parse` reads them, and its errors say how to write a rate or limit."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from tailboost.core.array_types import Stated
from tailboost.core.spelling import cut_to, did_you_mean, limits_as_typed
from tailboost.rates import make
from tailboost.rates.comparisons import COMPARISONS
from tailboost.rates.make import Largest, Spread, checked_label
from tailboost.rates.rate import KINDS, Expression, Limit, Rate, as_expression

# Maximum length of a text, in characters.
LONGEST_TEXT = 100_000
# Maximum depth of a text, in nested brackets. Deeper texts could exhaust the stack.
DEEPEST = 20
# Maximum number of characters of the text in an error message.
TEXT_SHOWN = 120

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:\s*%|(?![\w.%])))
      | (?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<word>human\s+review\b|[^\W\d][\w.\-]*)
      | (?P<sign><=|>=|[≤≥()\[\]{},:=])
    )""",
    re.VERBOSE,
)
# Quoted text, a separator of two limits, or any other character.
_BETWEEN_LIMITS = re.compile(
    r"""'[^']*'|"[^"]*"|(?P<between>\s+and\s+|\s*[,;&\n]+\s*)|.""", re.DOTALL
)
# The signs of limits, and the words with a meaning of their own.
_SIGNS = {"<=": "<=", "≤": "<=", ">=": ">=", "≥": ">="}
_CONSTANTS = {"None": None, "True": True, "False": False}

_PRODUCT = "it is no ratio of sums over rows, so neither a linear program nor a bound of a mean applies"
_OF_DEFERRAL = "limit the deferred rows: 'deferred <= 20%' is a coverage of at least 80 %"
_OF_SELECTION = (
    "limit a difference, gap(selected(LABEL, by=COLUMN)) <= 5%, or a ratio, "
    "ratio(selected(LABEL, by=COLUMN)) >= 80%"
)
_NO_ARITHMETIC = (
    "a rate has no arithmetic: 1 - miss(A) is recall(A), 1 - false_alarm(A) is "
    "specificity(A), and a difference of groups is gap(miss(A, by=COLUMN))"
)
# Advice by word: for names of other libraries, and for scores that are no rates.
_INSTEAD = {
    "mcc": f"for Matthews' correlation, {_PRODUCT}; limit f_score or error(by=class)",
    "kappa": "the expected agreement needs the class shares of new rows; limit error(by=class)",
    "macro_f1": f"for a mean of F scores, {_PRODUCT}; limit f_score of each class",
    "accuracy": "limit the error: 'error <= 10%' is an accuracy of at least 90 %",
    "auc": "it is no rate of a rule; limit error, or miss and false_alarm of a label",
    "coverage": _OF_DEFERRAL,
    "answered": _OF_DEFERRAL,
    "demographic_parity": _OF_SELECTION,
    "statistical_parity": _OF_SELECTION,
    "disparate_impact": "limit ratio(selected(LABEL, by=COLUMN))",
    "equalized_odds": "limit gap(miss(LABEL, by=COLUMN)) and gap(false_alarm(LABEL, by=COLUMN))",
    "equal_opportunity": "limit gap(recall(LABEL, by=COLUMN))",
    "balanced_accuracy": "limit error(by=class)",
    "f1": "write f_score(LABEL)",
    "f1_score": "write f_score(LABEL)",
    "ppv": "write precision(LABEL)",
    "percent": "write the sign, as in 60%",
    "and": "state two limits",
    "review": "write deferred, as in 'deferred <= 20%'",
}
# Names of rates by the words of users.
_SPOKEN_NAMES = {"human review": "deferred", "deferral": "deferred"}


def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions for rates, limits and objectives in texts, by name."""
    names = (*KINDS, "custom", "largest", *COMPARISONS)
    return {name: getattr(make, name) for name in names if hasattr(make, name)}


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
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"the text of a rate has at most {LONGEST_TEXT:,} characters, got {len(text):,}"
        )
    try:
        return _Parser(text.rstrip()).parse()
    except ValueError as failure:
        limits = _several_limits(text)
        if len(limits) > 1:
            raise ValueError(
                f"{cut_to(text, TEXT_SHOWN)!r} holds {len(limits)} limits; give a list: "
                f"{limits_as_typed(limits)}"
            ) from None
        form = _rewritten(text)
        if form is None:
            raise
        raise ValueError(f"{cut_to(text, TEXT_SHOWN)!r}: write {form}") from failure


# A limit such as ".2 >= miss(1)", and a number with a decimal comma at the end.
_NUMBER_FIRST = re.compile(
    r"(?P<bound>[\d.,]+ ?%?)\s*(?P<sign><=|>=|=<|=>|[<>≤≥])\s*(?P<rate>.+)", re.DOTALL
)
_DECIMAL_COMMA = re.compile(r"(?<=[\d\s]),(?=\d+ ?%?$)")
# A limit in spoken form: "recall 1 by=site >= 90%", "sensitivity >= 80 % at each site".
_SPOKEN = re.compile(
    r"""\s* (?P<rate>[A-Za-z_]+) \s*
    \(? \s* (?: (?:of\s+)? (?P<label>(?!by\b)['"]?\w+['"]?) (?=[\s,)]) )? \s* [,)]* \s*
    (?: by \s*=?\s* ['"]? (?P<by>\w+) ['"]? )? [\s)]*
    (?P<sign><=|>=|=<|=>|[<>≤≥]) \s* (?P<bound>[\d.]+ (?:\s*%)?) \s*
    (?: (?:by|at|in|for|per) (?:\s+(?:each|every))? \s*=?\s* (?P<by_last>\w+) )? \s*""",
    re.VERBOSE,
)


def _rewritten(text: str) -> str | None:
    """Return a limit in the form for `parse`; None for other texts.

    The text has the number before the rate, a decimal comma, or no brackets around the arguments. A missing
    label becomes 1, with a word about the label.
    """
    form = text.strip()
    number_first = _NUMBER_FIRST.fullmatch(form)
    if number_first is not None:
        sign = ">=" if _is_upper(number_first["sign"]) else "<="
        form = f"{number_first['rate']} {sign} {number_first['bound'].strip()}"
    form = _DECIMAL_COMMA.sub(".", form)
    note = ""
    spoken = _SPOKEN.fullmatch(form)
    if spoken is not None and spoken["rate"].lower() in functions():
        name = spoken["rate"].lower()
        label = spoken["label"]
        column = spoken["by"] or spoken["by_last"]
        if not label and "label" in signature(functions()[name]).parameters:
            label = "1"
            note = ", with your label in place of 1"
        arguments = []
        if label:
            arguments.append(label)
        if column:
            arguments.append(f"by={column}")
        if arguments:
            name += f"({', '.join(arguments)})"
        sign = "<=" if _is_upper(spoken["sign"]) else ">="
        form = f"{name} {sign} {spoken['bound']}"
    if not _are_limits([form]):
        return None
    return form + note


def _is_upper(sign: str) -> bool:
    """Return whether a sign between a rate and a number states an upper bound."""
    return sign in ("<=", "=<", "<", "≤")


def _are_limits(texts: Iterable[str]) -> bool:
    """Return whether each text is a limit."""
    try:
        return all(isinstance(_Parser(text).parse(), Limit) for text in texts)
    except ValueError:
        return False


def _several_limits(text: str) -> list[str]:
    """Return the limits in a text of several ones, for advice; an empty list if one part is no limit.

    Limits are separated by "and", a comma, a semicolon or a new line outside of brackets and quotes.
    """
    pieces = [""]
    depth = 0  # open brackets
    for match in _BETWEEN_LIMITS.finditer(text):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
        if depth == 0 and match["between"]:
            pieces.append("")
        else:
            pieces[-1] += match[0]
    limits = [piece.strip() for piece in pieces if piece.strip()]
    if not _are_limits(limits):
        return []
    return limits


@dataclass(frozen=True)
class _Token:
    """A word of a text: a number, quoted text, a name, a sign, or the end."""

    kind: str
    text: str
    start: int  # in the text


class _Parser:
    """Reads a text word by word: a limit is a rate with a bound, a rate has arguments in brackets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.in_percent = False  # whether a number has the sign %
        self.tokens: list[_Token] = []
        self.place = 0  # of the next token
        end = 0
        while end < len(text):
            match = _TOKEN.match(text, end)
            if match is None or match.lastgroup is None:
                n_spaces = len(text[end:]) - len(text[end:].lstrip())
                raise self._unreadable(end + n_spaces)
            kind = match.lastgroup
            self.tokens.append(_Token(kind, match[kind], match.start(kind)))
            end = match.end()
        self.end = _Token("end", "", len(text))

    # -- words -------------------------------------------------------------------------------------------

    def ahead(self, n: int = 0) -> _Token:
        """Return the next token, or the one ``n`` tokens later."""
        if self.place + n < len(self.tokens):
            return self.tokens[self.place + n]
        return self.end

    def take(self) -> _Token:
        """Return the next token, and go on."""
        token = self.ahead()
        self.place += 1
        return token

    def skip(self, sign: str) -> bool:
        """Go on if the next token is this sign; return whether the sign was next."""
        is_next = self.ahead().text == sign
        self.place += is_next
        return is_next

    def items(self, closing: str) -> Iterator[_Token]:
        """Yield the first token of each item in brackets; the caller reads the item."""
        opening = self.take()
        while not self.skip(closing):
            if self.ahead().kind == "end":
                raise self.error(f"{opening.text!r} was never closed", opening.start)
            yield self.ahead()
            if not self.skip(",") and self.ahead().text not in (closing, self.end.text):
                raise self.unexpected(self.ahead())

    # -- limits, rates and values --------------------------------------------------------------------------

    def parse(self) -> Any:
        """Return the rate, objective or limit."""
        signs = [token for token in self.tokens if token.text in _SIGNS]
        if len(signs) > 1:
            raise self.error("a limit has one bound: state two limits", signs[1].start)
        first = self.ahead()
        expression = self.rate(0)
        sign = self.take()
        if sign.kind == "end":
            return expression
        if sign.kind == "number" and not signs:
            raise self.error("the sign <= or >= is missing before this", sign.start)
        if sign.text not in _SIGNS:
            raise self.unexpected(sign)
        bound_token = self.ahead()
        bound = self.value(0)
        if self.ahead().kind != "end":
            raise self.unexpected(self.ahead())
        if expression.worst:
            raise self.error(
                "a largest rate is an objective; to limit each rate leave 'largest' out", 0
            )
        try:
            if _SIGNS[sign.text] == "<=":
                limit = expression <= bound
            else:
                limit = expression >= bound
        except (TypeError, ValueError) as failure:
            raise self.error(str(failure), first.start) from None
        # Who writes 1, and not 1.0, may mean one percent.
        if limit.from_above and type(bound) is int and bound == 1 and limit.rate.is_fraction:
            raise self.error(
                "every rule has a rate of at most 1; write 1% for one percent",
                bound_token.start,
            )
        return replace(limit, in_percent=self.in_percent)

    def rate(self, depth: int) -> Any:
        """Read and return the next rate, gap, ratio or objective, inside of ``depth`` brackets."""
        token = self.take()
        name = _SPOKEN_NAMES.get(" ".join(token.text.split()), token.text)
        self._refuse_other_words(token)
        if token.kind != "word" or name not in functions():
            near = did_you_mean(name, functions())
            raise self.error(
                f"no rate has this name; {near}there are {', '.join(functions())}", token.start
            )
        if self.ahead().text != "(":
            return self._without_brackets(name, token)
        arguments, keywords = self._arguments(name, depth)
        labels = keywords.pop("labels", None)
        try:
            expression = functions()[name](*arguments, **keywords)
            if labels is None:
                return expression
            return _with_labels(expression, labels)
        except (TypeError, ValueError) as failure:
            raise self.error(str(failure), token.start) from None

    def _arguments(self, name: str, depth: int) -> tuple[list[Any], dict[str, Any]]:
        """Read and return the arguments of a function in brackets: by position, and by name."""
        allowed = [*signature(functions()[name]).parameters]
        if name == "cost":
            allowed.append("labels")  # of a matrix from a data frame
        arguments = []
        keywords: dict[str, Any] = {}
        for token in self.items(")"):
            if self.ahead(1).text != "=":
                if keywords:
                    raise self.error(
                        "this stands behind a named argument; several columns are in brackets, "
                        "as in by=(sex, age)",
                        token.start,
                    )
                arguments.append(self.value(depth + 1))
                continue
            self.place += 2
            if token.text in keywords:
                raise self.error("this name is repeated", token.start)
            if token.text not in allowed:
                near = did_you_mean(token.text, allowed)
                raise self.error(f"{near}{name}(...) has {', '.join(allowed)}", token.start)
            keywords[token.text] = self.value(depth + 1)
        return arguments, keywords

    def _without_brackets(self, name: str, token: _Token) -> Any:
        """Return the rate of a name without brackets; raise ValueError if the rate needs an argument."""
        for parameter in signature(functions()[name]).parameters.values():
            if parameter.default is parameter.empty:
                missing = parameter.name
                example = {"rate": "error(by=class)", "label": "1"}.get(missing, "...")
                raise self.error(
                    f"{name} needs a {missing} in brackets, as in {name}({example})",
                    token.start,
                )
        return functions()[name]()

    def value(self, depth: int) -> Any:
        """Read and return the next number, text, list, tuple, dict or rate, in ``depth`` brackets."""
        token = self.ahead()
        if depth > DEEPEST:
            raise self.error("is nested too deeply", token.start)
        if token.text == "(":
            values = [self.value(depth + 1) for _ in self.items(")")]
            if len(values) == 1 and self.ahead(-2).text != ",":
                return values[0]
            return tuple(values)
        if token.text == "[":
            return [self.value(depth + 1) for _ in self.items("]")]
        if token.text == "{":
            return self._bounds(depth)
        if token.kind == "word" and self.ahead(1).text == "(":
            if token.text not in functions() and self.ahead(-1).text == "=":
                advice = self._advice_to_quote(token.start, "brackets")
                raise self.error(
                    f"expected a comma or a bracket after this{advice}", token.start
                )
            return self.rate(depth)
        self.place += 1
        if token.kind == "number":
            self.in_percent |= token.text.endswith("%")
            return _number(token.text)
        if token.kind == "word":
            return _CONSTANTS.get(token.text, token.text)
        if token.kind == "text":
            return self._unquoted(token)
        raise self.error("expected a value", token.start)

    def _unquoted(self, token: _Token) -> Any:
        """Return the content of a text in quotes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown escapes
            try:
                return ast.literal_eval(token.text)
            except (SyntaxError, ValueError):
                raise self.error("is not understood", token.start) from None

    def _bounds(self, depth: int) -> dict[Any, Any]:
        """Read and return the next dict."""
        bounds: dict[Any, Any] = {}
        for token in self.items("}"):
            name = self.value(depth + 1)
            if not self.skip(":"):
                raise self.unexpected(self.ahead())
            try:
                is_repeated = name in bounds
            except TypeError:
                message = "expected a value; a subgroup is text, a number or a tuple of them"
                raise self.error(message, token.start) from None
            if is_repeated:
                raise self.error("this name is repeated", token.start)
            bounds[name] = self.value(depth + 1)
        return bounds

    # -- errors ------------------------------------------------------------------------------------------

    def error(self, message: str, at: int) -> ValueError:
        """Return an error with the text, and the word at a position."""
        word = re.match(r"[\w.\-%]+|.", self.text[at:], re.DOTALL)
        position = "the end"
        if word:
            position = f"{word[0]!r}, character {at + 1}"
        return ValueError(f"{cut_to(self.text, TEXT_SHOWN)!r}: at {position}: {message}")

    def unexpected(self, token: _Token) -> ValueError:
        """Return the error about a token after the end of a value."""
        self._refuse_other_words(token)
        if token.text == "=":
            return self.error("write <= or >=", token.start)
        advice = self._advice_to_quote(token.start, "several words")
        return self.error(f"expected a comma or a bracket before this{advice}", token.start)

    def _refuse_other_words(self, token: _Token) -> None:
        """Raise ValueError for a word of another library, with advice."""
        advice = _INSTEAD.get(re.sub("_(difference|ratio)$", "", token.text.lower()))
        if advice is not None:
            raise self.error(advice, token.start)

    def _start_of_value(self, at: int) -> int:
        """Return the position after the last bracket or separator before a position of the text."""
        return 1 + max(self.text.rfind(sign, 0, at) for sign in "([{,:=")

    def _advice_to_quote(self, at: int, reason: str) -> str:
        """Return the advice to quote the value around a position of the text; "" for a quoted value.

        ``reason`` names the content of the value, such as "brackets".
        """
        start = self._start_of_value(at)
        # Up to the next separator; brackets within the value are parts of the value.
        value = re.match(r"(?:[^,:()\[\]{}]|\([^()]*\))*", self.text[start:])
        if value is None or re.search("['\"]", value[0]):
            return ""
        keyword = re.search(r"\w*\s*=\s*$", self.text[:start])
        argument = ""
        if keyword:
            argument = keyword[0].strip()
        return f"; quote a name with {reason}: {argument}{value[0].strip()!r}"

    def _unreadable(self, at: int) -> ValueError:
        """Return the error about a sign with which no token begins."""
        sign = self.text[at]
        if sign in "'\"":
            return self.error("the quote is not closed", at)
        if self.text.count("(", 0, at) > self.text.count(")", 0, at):
            start = self._start_of_value(at)
            name = re.split(r"[,()\[\]{}]", self.text[start:])[0].strip()
            quoted = f"label with other signs than letters and digits: {name!r}"
            if re.search(r"\bby\s*=\s*$", self.text[:start]):
                quoted = f"column with other signs than letters and digits: by={name!r}"
            return self.error(f"quote a {quoted}", at)
        if sign in "<>":
            return self.error(f"a limit includes its bound; write {sign}=", at)
        if sign in "+-−*/":
            return self.error(_NO_ARITHMETIC, at)
        return self.error("is not understood", at)


def _number(text: str) -> float:
    """Return a number, possibly in percent; a whole number as an integer."""
    if re.fullmatch(r"[-+]?\d{1,300}", text):  # longer ones are floats: int would take long
        return int(text)
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return float(text)


def _with_labels(rate: Rate, labels: object) -> Rate:
    """Return a mean cost with labels for the rows and columns of its matrix.

    Raise ValueError if they do not fit.
    """
    if (
        rate.matrix is None
        or not isinstance(labels, (list, tuple))
        or len(labels) != len(rate.matrix)
    ):
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
    expressions = []
    faults = []
    for entry in entries:
        try:
            expression = as_expression(parsed(entry))
        except ValueError as fault:
            faults.append(fault)
            continue
        expressions.append((entry, expression))
    if len(faults) > 1:
        raise ValueError(". ".join(map(str, faults)))
    if faults:
        raise faults[0]
    return expressions


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
            advice = "give a family of rates, or compare a gap or ratio with a number"
            if isinstance(entry, bool):
                advice = "compare a rate by <= or >="
            raise TypeError(f"rates: {entry!r} is no rate or limit; {advice}")
        checked.append(expression)
    return checked


def checked_limits(limits: Stated) -> tuple[Limit, ...]:
    """Return limits as a tuple, all in percent if one is; texts are read by `parse`.

    Raises
    ------
    TypeError, ValueError
        If an entry is not a limit.
    """
    checked = []
    for entry, expression in read_stated(
        limits, "limits must be a list, such as ['miss(1) <= 40%']"
    ):
        if expression is None or expression.limit is None:
            advice = ""
            if isinstance(entry, bool):
                advice = ": compare a rate by <= or >="
            raise TypeError(
                f"limits: {entry!r} is no limit{advice}; write for example "
                "rates.error(by='class') <= 0.3"
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
            fewer = " or ".join(map(repr, limit.for_fewer()))
            raise ValueError(
                f"limit {limit!r} asks for more {counted}, not for fewer; write {fewer}"
            )
    return checked
