"""Rates, limits and objectives as users state them, as values or text; and rates of given answers.

Text is read as Python's own syntax without evaluation of code.
"""

import ast
import keyword
import re
from dataclasses import replace
from typing import Any

from tailboost.core import Column, Groups, Name, Names, Stated, Table, did_you_mean
from tailboost.rates import make
from tailboost.rates.limit import COMPARISONS, EACH, IN_PYTHON, LARGEST, Limit, Statistic
from tailboost.rates.rate import DEFINITIONS, Rate
from tailboost.rates.strata import Counts

# Objectives whose denominator depends on the answers. By other such ratios a rule is best that counts hardly
# any row, as by the precision of a label that it rarely answers.
LOWERED_RATIOS = ("jaccard", "f_score", "answered_error")
# A text in quotes, which stays as it is.
_QUOTED = re.compile(r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")""")
# What else Python would not read as it is meant, and what is written for it, one after the other: it makes
# "miss(µ) ≤ 30%" the text "miss(('µ')) <= 30* percent ".
_REPLACED = (
    (r"\bhuman review\b", "'human review'"),
    # Words whose letters Python would change to other ones, as the micro sign, and Python's keywords but the
    # first three, which are values.
    (rf"\b(\w*[^\W\x00-\x7f]\w*|{'|'.join(keyword.kwlist[3:])})(?![\w(])", r"('\1')"),
    ("%", "* percent "),
    *IN_PYTHON.items(),
)
_EXAMPLE = (
    "write for example 'miss(1, by=sex) <= 30%' or 'recall(1) >= .8'; other signs need quotes"
)


def _cost(matrix: Any = None, by: Any = None, labels: Names | None = None) -> Rate:
    """Return the mean cost; in a text the labels of a matrix stand beside it, as no text is a data frame."""
    rate = make.cost(matrix, by)
    if labels is None:
        return rate
    are_rows = len(rate.matrix or ()) == len(labels) == len({*labels})
    if not are_rows or not isinstance(labels, tuple):
        raise ValueError(f"cost: labels must name each row of a matrix once, got {labels!r}")
    return replace(rate, labels=labels)


# The functions for rates, limits and objectives in texts.
FUNCTIONS = {
    name: vars(make)[name]
    for name in (*DEFINITIONS, *make.ALIASES, "custom", LARGEST, *COMPARISONS)
}
FUNCTIONS["cost"] = _cost


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
    TypeError
        If it is no text.
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
    try:
        in_python = _in_python(text.strip())
        compile(in_python, "the text", "eval")  # refuses repeated arguments, and runs nothing
        stated = _value(ast.parse(in_python, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError) as failure:
        raise ValueError(f"{text!r:.120}: {failure}; {_EXAMPLE}") from None
    if not isinstance(stated, (Rate, Statistic, Limit)):
        raise ValueError(f"{text!r:.120} is no rate or limit; {_EXAMPLE}")
    return stated


def _in_python(text: str) -> str:
    """Return a text in Python's syntax."""
    # A rate alone is a call. The rate of human review has another name than this answer.
    text = re.sub(r"^human review(?=\s*[<>≤≥]|$)", "deferred", text)
    text = re.sub(r"^\w+(?=\s*[<>≤≥]|$)", r"\g<0>()", text)
    pieces = _QUOTED.split(text)  # each second one is in quotes
    for pattern, in_python in _REPLACED:
        pieces[::2] = [re.sub(pattern, in_python, piece) for piece in pieces[::2]]
    return "".join(pieces)


def _value(node: Any) -> Any:
    """Return the number, text, tuple, dict, rate or limit of a syntax tree; a name is text."""
    match node:
        case ast.Name():
            return node.id
        case ast.List() | ast.Tuple():
            return tuple(map(_value, node.elts))
        case ast.Dict(names, bounds) if None not in names:
            bound_of = dict(zip(map(_value, names), map(_value, bounds), strict=True))
            if len(bound_of) < len(names):
                raise ValueError(f"{ast.unparse(node)} has two bounds of one subgroup")
            return bound_of
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return ast.literal_eval(node)
        case ast.BinOp(number, ast.Mult(), ast.Name("percent")):
            return float(ast.unparse(number)) / 100
        case ast.Call(ast.Name(name), given, keywords) if name in FUNCTIONS:
            named = {each.arg or "**": _value(each.value) for each in keywords}
            return FUNCTIONS[name](*map(_value, given), **named)
        case ast.BinOp(ast.Constant(1 as one), ast.Sub(), ast.Call() as call) if (
            one is not True  # which is equal to 1
        ):
            gain = _value(call)
            if isinstance(gain, Rate):
                return replace(gain, complement=True)
        case ast.Compare(
            ast.Call() | ast.BinOp(op=ast.Sub()), [ast.LtE() | ast.GtE() as sign], [right]
        ):
            return _limit(_value(node.left), sign, right)
    raise ValueError(
        f"{ast.unparse(node)!r} is not understood; "
        f"{did_you_mean(ast.unparse(node).partition('(')[0], FUNCTIONS)}"
        f"the rates are called {', '.join(FUNCTIONS)}"
    )


def _limit(limited: Rate | Statistic, sign: ast.cmpop, right: ast.expr) -> Limit:
    """Return the limit with the bound, or the bounds by subgroup, of a syntax tree."""
    bound = _value(right)
    limit = limited >= bound if isinstance(sign, ast.GtE) else limited <= bound
    if limit.rate.quantity == "cost":
        return limit
    # Who writes 1, and not 1.0, may mean one percent.
    bounds = bound.values() if isinstance(bound, dict) else [bound]
    if limit.sense == "≤" and "1" in map(repr, bounds):
        raise ValueError("every rule has a rate of at most 1; write 1% for one percent")
    # `_in_python` writes a percent sign as a product.
    has_percent = ast.Mult in map(type, ast.walk(right))
    return replace(limit, in_percent=limit.in_percent or has_percent)


def as_statistics(stated: Stated, example: str = "rates=['miss(1)']") -> list[Any]:
    """Return rates, limits, and texts of them as a list of statistics; other entries stay.

    Raises
    ------
    TypeError, ValueError
        If there is no list, as in the ``example`` of the message, or a text cannot be read.
    """
    if isinstance(stated, (str, Rate, Statistic, Limit)):
        stated = [stated]
    if not isinstance(stated, (list, tuple)):  # others have no order, or are read once
        raise TypeError(f"{stated!r:.120} is no list; write for example {example}")
    read = [parse(each) if isinstance(each, str) else each for each in stated]
    return [Statistic(EACH, each) if isinstance(each, Rate) else each for each in read]


def checked_limits(limits: Stated) -> tuple[Limit, ...]:
    """Return limits as a tuple, those on shares in percent if one is; texts are read by `parse`.

    Raise TypeError or ValueError if an entry is no limit.
    """
    example = "limits=['miss(1) <= 10%']"
    checked = as_statistics(limits, example)
    for limit in checked:
        if not isinstance(limit, Limit):
            raise TypeError(f"{limit!r:.120} is no limit; write for example {example}")
    in_percent = any(limit.in_percent for limit in checked)
    return tuple(
        replace(limit, in_percent=in_percent) if limit.rate.quantity == "share" else limit
        for limit in checked
    )


def limits_to_keep(limits: Stated) -> tuple[Limit, ...]:
    """Return `checked_limits` within which a rule can be selected.

    Raise ValueError for a limit that a rule keeps by more errors or by more deferred rows, and for one on a
    tail or shift.
    """
    checked = checked_limits(limits)
    for limit in checked:
        limit.rate.refuse_uncounted()
        if limit.rate.better not in ("", limit.sense) and not limit.compares:
            raise ValueError(
                f"limit {limit!r} asks for more errors or deferred rows: turn its sign"
            )
    return checked


def as_objective(objective: Stated) -> Statistic:
    """Return what a selection minimises: one rate, or the largest rate of a family.

    A rate of which large values are better is replaced by its complement.

    Raises
    ------
    TypeError, ValueError
        If ``objective`` cannot be an objective.
    """
    (objective,) = as_statistics([objective])
    if not isinstance(objective, Statistic) or objective.compares:
        raise TypeError(
            f"{objective!r} is no objective, which must be a rate or the largest of a family; "
            "limit a gap or ratio"
        )
    rate = objective.rate
    rate.refuse_uncounted()
    is_gain = rate.better == "≥"
    has_several = rate.by is not None and not objective.worst
    is_risky = rate.is_ratio and rate.kind not in LOWERED_RATIOS
    if has_several or is_risky or (objective.worst and is_gain):
        raise ValueError(
            f"{objective!r} is no objective and no rate of a curve, which must be a rate of "
            "all rows, or the largest(...) of a family, whose small values are better also "
            "where few rows have an answer; state it in limits="
        )
    if is_gain:
        return Statistic(EACH, replace(rate, complement=True))
    return objective


def measure(
    rate: Rate,
    y_true: Column,
    answers: Column,
    *,
    groups: Groups = None,
    deferred: Column = None,
    costs: Table = None,
    sample_weight: Column = None,
    labels: Column = None,
) -> dict[Name, float]:
    """Measure a rate of given answers.

    Parameters
    ----------
    rate : Rate
        The rate.
    y_true : array-like of shape (n,)
        True labels.
    answers : array-like of shape (n,) or (n, K)
        Answers, or their probabilities by a randomised rule. The answer "human review" is a deferred row.
    groups : array-like of shape (n,), dict or data frame, optional
        Groups of the rows.
    deferred : array-like of bool, shape (n,), optional
        True for deferred rows; their answers do not count.
    costs : array-like of shape (n, K) or data frame, optional
        Cost of each answer for each row, for ``cost()`` without a matrix. The columns of an array are in the
        order of the labels. The columns of a data frame are named by the labels.
    sample_weight : array-like of shape (n,), optional
        Weights; weight 2 counts as the row twice, weight 0 as no row.
    labels : array-like of shape (K,), optional
        All labels; by default the labels in ``y_true`` and ``answers``, sorted.

    Returns
    -------
    dict
        The rate of each subgroup by name (None for all rows), NaN if its denominator is 0.

    Raises
    ------
    TypeError
        If ``rate`` is no rate.
    ValueError
        If lengths differ, or if labels, groups or costs of the rate are missing.

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.measure(rates.miss("b", by="group"), ["a", "b", "b"], ["a", "a", "b"], groups=[1, 1, 2])
    {1: 1.0, 2: 0.0}
    """
    if not isinstance(rate, Rate):
        raise TypeError(
            f"rate must be one rate, as rates.miss(1), got {rate!r}; rates.parse makes it of text"
        )
    rows = Counts.answered(y_true, answers, groups, deferred, costs, sample_weight, labels)
    terms = rate.terms(rows.strata)
    return dict(zip(terms.names, terms.values(rows.counts(rows.actions)).tolist(), strict=True))
