"""Rates, gaps, ratios and objectives: the functions that make them, and their text.

Text is read as Python's own syntax without evaluation of code.
"""

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tailboost.core import By, Label, Name, Stated, Table, did_you_mean, finite, in_class_order
from tailboost.rates.rate import (
    AT_LEAST,
    COMPARISONS,
    EACH,
    GAP,
    KINDS,
    LARGEST,
    LOWERED_RATIOS,
    RATIO,
    WORST,
    Limit,
    Pair,
    Pairs,
    Rate,
    Statistic,
    checked_label,
)
from tailboost.rows import HUMAN_REVIEW

ERROR = Rate("error")


def as_objective(objective: Stated) -> Statistic:
    """Return what a selection minimises: one rate, or the largest rate of a family.

    A rate of which large values are better is replaced by its complement.

    Raises
    ------
    TypeError, ValueError
        If ``objective`` cannot be an objective.
    """
    (objective,) = as_statistics([objective])
    if not isinstance(objective, Statistic) or objective.form not in (EACH, LARGEST):
        raise TypeError(
            f"{objective!r} is no objective, which must be a rate or the largest of a family; "
            "limit a gap or ratio"
        )
    rate = objective.rate
    if rate.loss:
        raise rate.uncounted()
    is_best_if_large = objective.worst and rate.is_gain
    is_family = not objective.worst and rate.by is not None
    can_be_lowered = not rate.is_ratio or rate.kind in LOWERED_RATIOS
    if is_best_if_large or is_family or not can_be_lowered:
        raise ValueError(
            f"{objective!r} is no objective, which must be a rate of all rows, or the "
            "largest(...) of a family, whose small values are better also where few rows have "
            "an answer; limit this rate instead"
        )
    if rate.is_gain:
        objective = Statistic(EACH, replace(rate, complement=True))
    return objective


def error(by: By = None) -> Rate:
    """Return the fraction of rows with a wrong answer.

    Parameters
    ----------
    by : None, "class", "group", "cell", str or tuple of str
        Subgroups: all rows (None), each class, each group, each class within each group, or the groups of one
        or several columns of ``groups``.

    Returns
    -------
    Rate
        One rate for each subgroup. A deferred row is no error.

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.error(by="sex") <= 0.2)
    error by sex: at most 0.2
    """
    return Rate("error", by=by)


def miss(label: Label, by: By = None) -> Rate:
    """Return the fraction of the rows of a class with another answer: 1 − sensitivity.

    Parameters
    ----------
    label : str, int, float or bool
        The class. A deferred row is not missed.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return Rate("miss", label, by)


def false_alarm(label: Label, by: By = None) -> Rate:
    """Return the fraction of the rows of other classes with the answer ``label``: 1 − specificity.

    Parameters
    ----------
    label : str, int, float or bool
        The answer.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return Rate("false_alarm", label, by)


def recall(label: Label, by: By = None) -> Rate:
    """Return the fraction of found rows of a class: 1 − `miss`.

    Parameters
    ----------
    label : str, int, float or bool
        The class. A deferred row is not missed, and counts as found.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
        As an objective it is maximised.

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.recall("ill", by="site") >= 0.6)
    recall of 'ill' by site: at least 0.6
    """
    return Rate("recall", label, by)


def specificity(label: Label, by: By = None) -> Rate:
    """Return the fraction of the rows of other classes without the answer ``label``: 1 − `false_alarm`.

    Parameters
    ----------
    label : str, int, float or bool
        The answer.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
        As an objective it is maximised.
    """
    return Rate("specificity", label, by)


# Other names of these rates.
sensitivity = tpr = recall
tnr = specificity
fnr = miss
fpr = false_alarm
ALIASES = ("sensitivity", "tpr", "tnr", "fnr", "fpr")


def selected(label: Label, by: By = None) -> Rate:
    """Return the fraction of rows with the answer ``label``: the selection rate.

    Parameters
    ----------
    label : str, int, float or bool
        The answer.
    by : optional
        As in `error`.

    Returns
    -------
    Rate

    Examples
    --------
    The four-fifths rule (adverse impact ratio):

    >>> from tailboost import rates
    >>> print(rates.ratio(rates.selected("yes", by="sex")) >= 0.8)
    selection rate of 'yes' by sex: ratio at least 0.8
    """
    return Rate("selected", label, by)


def cost(matrix: Table = None, by: By = None) -> Rate:
    """Return the mean cost of the answers.

    Parameters
    ----------
    matrix : array-like of shape (K, K) or (K, K + 1), or data frame, optional
        Cost of each answer (column) for each class (row), in the order of ``classes_`` or with the labels as
        names. A last column, "human review" in a frame, is the cost of deferral: rows are deferred if this is
        cheaper. None: the costs of each row, given as ``fit(costs=)``.
    by : optional
        As in `error`.

    Returns
    -------
    Rate

    Raises
    ------
    ValueError
        If the matrix is no table of finite numbers, or rows and columns of a frame have different labels.
        Also if a wrong answer has a negative cost below that of the right one.

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.cost([[0, 1], [5, 0]])
    cost([[0.0, 1.0], [5.0, 0.0]])

    1 − balanced accuracy, for rows with these shares of the classes:

    >>> import numpy as np
    >>> from sklearn.metrics import balanced_accuracy_score
    >>> y, answers = [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]
    >>> shares = np.array([4 / 6, 2 / 6])
    >>> balanced_error = rates.cost((1 - np.eye(2)) / (2 * shares[:, None]))
    >>> print(f"{rates.measure(balanced_error, y, answers)[None]:.3f}")
    0.375
    >>> print(1 - balanced_accuracy_score(y, answers))
    0.375
    """
    if matrix is None:
        return Rate("cost", by=by)
    labels = None
    if hasattr(matrix, "columns"):
        labels = tuple(map(checked_label, matrix.index))
        review = [HUMAN_REVIEW] * (HUMAN_REVIEW in matrix.columns)
        matrix = in_class_order(matrix, "cost", np.array([*labels, *review], dtype=object))
    values = finite(matrix, "cost")
    K = len(values)
    if K < 2 or values.shape not in ((K, K), (K, K + 1)):
        raise ValueError(
            f"cost: the matrix must be K × K, or K × (K + 1), got shape {values.shape}; costs "
            "that differ between rows are costs=, of shape (n, K), for cost()"
        )
    if (values < np.diag(values).clip(max=0.0)[:, None]).any():
        raise ValueError(
            "cost: a wrong answer earns more than the right one; if the numbers are gains, "
            "change their sign"
        )
    return Rate("cost", None, by, tuple(map(tuple, values.tolist())), labels)


def deferred(by: By = None) -> Rate:
    """Return the rate of deferred rows: the fraction of rows that is left to a human.

    Parameters
    ----------
    by : optional
        As in `error`.

    Returns
    -------
    Rate
        Rows are deferred only if a limit on this rate allows deferral, or if a matrix of costs has a cost of
        deferral (see `cost`).
    """
    return Rate("deferred", by=by)


def precision(label: Label, by: By = None) -> Rate:
    """Return the fraction of a class among the rows answered ``label``, for limits (predictive value).

    Parameters
    ----------
    label : str, int, float or bool
        The answer. If no row is answered so, each limit is satisfied.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return Rate("precision", label, by)


def npv(label: Label, by: By = None) -> Rate:
    """Return the negative predictive value: rows of other classes among the rows with another answer.

    Parameters
    ----------
    label : str, int, float or bool
        The label. A rule that gives all rows this label satisfies each limit.
    by : optional
        The subgroups, as in `error`.

    Returns
    -------
    Rate
    """
    return Rate("npv", label, by)


def jaccard(label: Label, by: By = None) -> Rate:
    """Return the Jaccard index: correct rows of a class among the rows with this class or this answer.

    Parameters
    ----------
    label : str, int, float or bool
        The class. A deferred row of the class counts as not found.
    by : optional
        The subgroups, as in `error`.

    Returns
    -------
    Rate
        As an objective it is maximised.
    """
    return Rate("jaccard", label, by)


def f_score(label: Label, beta: float = 1.0, by: By = None) -> Rate:
    """Return the F score of a class: (1 + β²) TP / ((1 + β²) TP + β² FN + FP).

    Parameters
    ----------
    label : str, int, float or bool
        The class. A deferred row of the class counts as a false negative.
    beta : float > 0, default=1
        Weight of the recall relative to the precision.
    by : optional
        The subgroups, as in `error`.

    Returns
    -------
    Rate
        As an objective it is maximised, by the method of Dinkelbach (1967).

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.f_score("toxic", beta=2) >= 0.6)
    F score of 'toxic', β = 2: at least 0.6
    """
    from tailboost.core.ranges import POSITIVE, check_number  # a rule of a file does without

    beta = check_number(beta, "beta", POSITIVE)
    return Rate("f_score", label, by, beta=beta)


def representation(label: Label, by: By) -> Rate:
    """Return the share of each subgroup among the rows with the answer ``label``.

    The rows of all subgroups are in its denominator: over one column of groups the shares add up to 1.

    Parameters
    ----------
    label : str, int, float or bool
        The answer.
    by : "class", "group", "cell", str or tuple of str
        The subgroups, as in `error`.

    Returns
    -------
    Rate
        For limits, not for gaps, ratios and objectives. Without rows of this answer there is no share.

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.representation("yes", by="sex") >= {"f": 0.3})
    share of the rows answered 'yes' by sex: at least 0.3 for f
    """
    if by is None:
        raise ValueError(
            f"representation({label!r}) compares subgroups: name them, for example by='group'"
        )
    return Rate("representation", label, by)


def custom(
    name: str, counted: Iterable[Pair], among: Iterable[Pair] = ((None, None),), by: By = None
) -> Rate:
    """Return a custom rate: the fraction of some rows with some answers.

    Such a rate has limits, tables, curves, certificates, monitors and text like any other rate, and files
    contain its pairs. As an objective the rate is minimised, if its denominator does not depend on the
    answers.

    Parameters
    ----------
    name : str
        Printed name.
    counted : list of pairs (true label, answer)
        The counted rows: all rows with one of these pairs. None stands for each label, or for each answer
        with deferral. The answer "human review" is deferral.
    among : list of pairs (true label, answer), optional
        Rows over which the fraction is taken; by default all. Each pair of ``counted`` must be inside of one
        of them.
    by : optional
        The subgroups, as in `error`.

    Returns
    -------
    Rate

    Raises
    ------
    TypeError, ValueError
        If a pair is none, or a counted pair is not among the rows.

    Examples
    --------
    The ill with the answer "well", of all who are ill:

    >>> from tailboost import rates
    >>> sent_home = rates.custom("sent home", [("ill", "well")], among=[("ill", None)], by="site")
    >>> sent_home <= 0.1
    custom('sent home', counted=[['ill', 'well']], among=[['ill', None]], by='site') <= 0.1

    A rule on a score within this limit, with its certificate:

    >>> import numpy as np
    >>> import pandas as pd
    >>> import tailboost as tb
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"p_ill": rng.random(4000), "site": rng.choice(["north", "south"], 4000)})
    >>> state = np.where(rng.random(4000) < visits["p_ill"], "ill", "well")
    >>> score = tb.Scores("p_ill", "ill")
    >>> rule = tb.calibrate(
    ...     score, visits[["p_ill"]], state, groups=visits[["site"]], limits=[sent_home <= 0.1]
    ... )
    >>> print(rule.rule_)
    p_ill >= 0.298: ill; else well
    >>> print(rule.certificate_)  # doctest: +ELLIPSIS
    Certified with 95 % confidence from 4,000 fresh rows: all limits hold together...
    <BLANKLINE>
    rate               of     limit   rows  estimate  at most
    sent home by site  north  ≤ 0.1    958      0.08     0.10
    sent home by site  south  ≤ 0.1  1,019      0.08     0.10
    <BLANKLINE>
    Overall error 0.286, on the rows that chose the thresholds; without limits 0.251. Price of all ...
    """
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"the name of a rate must be text, got {name!r}")
    pairs = _checked_pairs(counted, "counted")
    wider = _checked_pairs(among, "among")
    for label, answer in pairs:
        inside = map(repr, product((label, None), (answer, None)))
        if set(map(repr, wider)).isdisjoint(inside):
            raise ValueError(
                f"{name!r}: the pair {(label, answer)!r} is counted, but it is in no pair of "
                "among"
            )
    return Rate("custom", by=by, counted=pairs, among=wider, name=name)


def _checked_pairs(pairs: Iterable[Pair], name: str) -> Pairs:
    """Return the pairs of a true label and an answer; None stays None.

    Errors call the parameter of `custom` ``name``.
    """
    try:
        checked = [(checked_label(label), checked_label(answer)) for label, answer in pairs]
    except (TypeError, ValueError):
        checked = []
    if not checked:
        raise TypeError(
            f"{name} must be a list of pairs (true label, answer) of text or numbers, such as "
            f"[('ill', 'well')], got {pairs!r}; functions are not supported"
        )
    return tuple(checked)


def answered_error(by: By = None) -> Rate:
    """Return the error rate among the answered rows, without deferred ones.

    Parameters
    ----------
    by : optional
        As in `error`. A subgroup with all rows deferred has no such error and satisfies each limit.

    Returns
    -------
    Rate

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.largest(rates.answered_error(by="class")))
    largest error among answered rows by class
    """
    return Rate("answered_error", by=by)


def tail(alpha: float, loss: Rate = ERROR, by: None = None) -> Rate:
    """Return the mean loss of the worst fraction α of rows (CVaR), which `tailboost.certify` bounds.

    The bound holds for every group of at least this fraction of the rows, named or not. A classifier of
    boosting draws its answers, so the loss of a row is expected: the error is one minus the probability of
    its label under ``predict_distribution``. Other classifiers have the loss of their answer. A deferred
    row is no error.

    Parameters
    ----------
    alpha : float in (0, 1]
        The fraction: 1 gives the mean.
    loss : Rate, optional
        `error` or `cost` of all rows, by default the error.
    by : None
        There are no subgroups: the tail is above all of them.

    Returns
    -------
    Rate
        For rates and upper limits of `tailboost.certify` alone.

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.tail(0.1) <= 0.6)
    expected error of the worst 10 % of rows: at most 0.6
    >>> rates.parse("tail(10%, cost())")
    tail(0.1, cost())
    """
    from tailboost.core.ranges import check_alpha  # a rule of a file does without

    return _worst("tail", check_alpha(alpha), loss, by)


def shift(kl: float, loss: Rate = ERROR, by: None = None) -> Rate:
    """Return the largest mean loss of populations near that of the rows, which `tailboost.certify` bounds.

    Near is a population Q with a Kullback–Leibler divergence KL(Q ‖ P) of at most ``kl`` from the
    population P of the rows. The worst of them weighs a row in proportion to exp(loss/t).

    Parameters
    ----------
    kl : float > 0
        The divergence. A group of a fraction α of the rows has the divergence −log α.
    loss, by : optional
        As in `tail`.

    Returns
    -------
    Rate
        For rates and upper limits of `tailboost.certify` alone.

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.shift(kl=0.05) <= 0.4)
    expected error within a KL divergence of 0.05: at most 0.4
    """
    from tailboost.core.ranges import POSITIVE, check_number  # a rule of a file does without

    return _worst("shift", check_number(kl, "kl", POSITIVE), loss, by)


def _worst(kind: str, level: float, loss: Rate, by: By) -> Rate:
    """Return a tail or shift; raise ValueError for a loss that is no mean over all rows."""
    if by or not isinstance(loss, Rate) or loss.by or loss.kind not in ("error", "cost"):
        raise ValueError(
            f"{kind} takes error() or cost() of all rows, without by=: its bound holds for every group "
            "that is large enough"
        )
    words = WORST[kind].format(loss.kind, level, 100.0 * level)
    return Rate(kind, loss=loss, level=level, name=words)


def largest(rate: Rate) -> Statistic:
    """Return the largest rate of a family, as an objective.

    Parameters
    ----------
    rate : Rate
        The family.

    Returns
    -------
    Statistic

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.largest(rates.error(by="cell")))
    largest error by cell
    """
    return Statistic(LARGEST, rate)


def gap(rate: Rate) -> Statistic:
    """Return the largest minus the smallest rate of a family: ``gap(...) <= 0.02`` is a limit.

    Parameters
    ----------
    rate : Rate
        The family.

    Returns
    -------
    Statistic
    """
    return Statistic(GAP, rate)


def ratio(rate: Rate) -> Statistic:
    """Return the smallest rate of a family divided by the largest: ``ratio(...) >= 0.8`` is a limit.

    Parameters
    ----------
    rate : Rate
        The family. A limit on the ratio of costs that may be negative is refused.

    Returns
    -------
    Statistic
    """
    return Statistic(RATIO, rate)


# -- text ----------------------------------------------------------------------------------------------------

# A piece of text that Python writes in another way: a rate alone, which is a call there. Outside of quotes
# also a percentage, the column of the classes, a sign, deferral.
_PIECE = re.compile(
    r"""^(?P<alone>\w+|human\ review)\s*(?=[<>≤≥]|$)
      | '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*"
      | (?P<percent>\d+\.?\d*|\.\d+) \s* % (?![\w.]) | \bclass\b | [≤≥] | \bhuman\ review\b""",
    re.VERBOSE,
)
_IN_PYTHON = {"class": "'class'", "≤": "<=", "≥": ">=", "human review": "'human review'"}
_EXAMPLE = (
    "write for example 'miss(1, by=sex) <= 30%', with quotes around names that have other signs"
)


def _cost(matrix: Table = None, by: By = None, labels: tuple[Name, ...] | None = None) -> Rate:
    """Return `cost` of a matrix with labels of its rows, as printed."""
    return replace(cost(matrix, by), labels=labels)


# The functions for rates, limits and objectives in texts.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: globals()[name]
    for name in (*KINDS, *ALIASES, *WORST, "custom", LARGEST, *COMPARISONS)
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
    try:
        in_python = _PIECE.sub(_as_python, text.strip())
        compile(in_python, "the text", "eval")  # refuses repeated arguments, and runs nothing
        found = _value(ast.parse(in_python, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, MemoryError, RecursionError) as failure:
        raise ValueError(f"{text!r:.120}: {failure}; {_EXAMPLE}") from None
    if not isinstance(found, (Rate, Statistic)):
        raise ValueError(f"{text!r:.120} is no rate or limit; {_EXAMPLE}")
    if isinstance(found, Limit):
        pieces = _PIECE.finditer(text)
        found = replace(found, in_percent=any(piece["percent"] for piece in pieces))
    return found


def _as_python(piece: re.Match[str]) -> str:
    """Return a piece of text in Python's syntax."""
    if piece["alone"]:
        return f"{piece['alone'].replace('human review', 'deferred')}()"
    if piece["percent"]:
        return repr(float(piece["percent"]) / 100)
    return _IN_PYTHON.get(piece[0], piece[0])


def _value(node: Any) -> Any:
    """Return the number, text, tuple, dict, rate or limit of a syntax tree; a name is text."""
    match node:
        case ast.Name():
            return node.id
        case ast.List() | ast.Tuple():
            return tuple(map(_value, node.elts))
        case ast.Dict():
            bounds = dict(zip(map(_value, node.keys), map(_value, node.values), strict=True))
            if len(bounds) == len(node.keys):
                return bounds
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return ast.literal_eval(node)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            named = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
            return FUNCTIONS[name](*map(_value, node.args), **named)
        case ast.BinOp(ast.Constant(1), ast.Sub(), ast.Call()):
            rate = _value(node.right)
            if isinstance(rate, Rate) and rate.is_gain:
                return replace(rate, complement=True)
        case ast.Compare(ast.Call() | ast.BinOp(), [ast.LtE() | ast.GtE()], [right]):
            limited = _value(node.left)
            bound = _value(right)
            if isinstance(node.ops[0], ast.GtE):
                return limited >= bound
            limit = limited <= bound
            # Who writes 1, and not 1.0, may mean one percent.
            if repr(bound) == "1" and not limit.rate.in_costs:
                raise ValueError("every rule has a rate of at most 1; write 1% for one percent")
            return limit
        case ast.Compare(ops=[ast.Lt() | ast.Gt() | ast.Eq()]):
            raise ValueError("the sign of a limit is <= or >=")
        case ast.BinOp(ast.Name(), _, ast.Name()):
            name = ast.unparse(node).replace(" ", "")
            raise ValueError(f"the name {name!r} needs quotes")
    words = ast.unparse(node)
    near = did_you_mean(words.partition("(")[0], FUNCTIONS)
    raise ValueError(
        f"{words!r} is not understood; {near}the rates are called {', '.join(FUNCTIONS)}"
    )


def as_statistics(stated: Stated, example: str = "rates=['miss(1)']") -> list[Any]:
    """Return rates, limits, and texts of them as a list of statistics; other entries stay.

    Raises
    ------
    TypeError, ValueError
        If there is no list, as in the ``example`` of the message, or a text cannot be read.
    """
    entries = [stated] if isinstance(stated, (str, Rate, Statistic)) else stated
    if not isinstance(entries, (list, tuple)):  # others have no order, or are read once
        raise TypeError(f"{stated!r:.120} is no list; write for example {example}")
    found = [parse(each) if isinstance(each, str) else each for each in entries]
    return [Statistic(EACH, each) if isinstance(each, Rate) else each for each in found]


def checked_limits(limits: Stated, *, to_keep: bool = False) -> tuple[Limit, ...]:
    """Return limits as a tuple, all in percent if one is; texts are read by `parse`.

    Parameters
    ----------
    limits : list of Limit or str
        The limits.
    to_keep : bool, default=False
        Whether limits that more errors, or more deferred rows, keep more easily are refused, and those on
        tails and shifts.

    Raises
    ------
    TypeError, ValueError
        If an entry is not a limit, or asks for more errors or for more deferred rows.
    """
    example = "limits=['miss(1) <= 10%']"
    checked = as_statistics(limits, example)
    for limit in checked:
        if not isinstance(limit, Limit):
            raise TypeError(f"{limit!r:.120} is no limit; write for example {example}")
        if not to_keep:
            continue
        rate = limit.rate
        if rate.loss:
            raise rate.uncounted()
        is_turned = rate.counts_faults if limit.form == AT_LEAST else rate.is_gain
        if is_turned and not limit.compares:
            raise ValueError(
                f"limit {limit!r} asks for more errors or deferred rows: turn its sign"
            )
    in_percent = any(limit.in_percent for limit in checked)
    return tuple(
        replace(limit, in_percent=in_percent and not limit.rate.in_costs) for limit in checked
    )
