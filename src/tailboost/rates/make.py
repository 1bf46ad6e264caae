"""Rates, gaps, ratios and objectives: the functions that make them, and their text."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from tailboost.core.array_types import By, Floats, Label, Stated
from tailboost.core.checks import refuse_paid_errors
from tailboost.core.spelling import as_typed, cut_to, did_you_mean
from tailboost.rates.comparisons import AT_LEAST, AT_MOST, COMPARISONS, GAP, RATIO
from tailboost.rates.rate import (
    ABOVE,
    KINDS,
    Expression,
    Limit,
    Pair,
    Pairs,
    Rate,
    as_expression,
)
from tailboost.rates.strata import plain
from tailboost.rows.subgroups import HUMAN_REVIEW

# Larger than any cost.
ALL_COSTS = 1e12


@dataclass(frozen=True)
class Spread(Expression):
    """Gap or ratio of a family of rates, made by `gap` or `ratio`; a comparison makes a limit.

    Parameters
    ----------
    form : {"gap", "ratio"}
        Gap or ratio.
    rate : Rate
        The family.
    """

    form: str
    rate: Rate

    compares = True

    def __le__(self, bound: Stated) -> Limit:
        return self._on_side(AT_MOST, bound)

    def __ge__(self, bound: Stated) -> Limit:
        return self._on_side(AT_LEAST, bound)

    def _on_side(self, side: str, bound: Stated) -> Limit:
        """Return the limit; raise ValueError if it is stated on the wrong side."""
        comparison = COMPARISONS[self.form]
        if comparison.side != side:
            raise ValueError(f"{self.form}(...) is limited from {comparison.usual}")
        return self.within(bound)

    @property
    def least(self) -> float:
        """The tightest possible limit."""
        return COMPARISONS[self.form].of_equal

    @property
    def most(self) -> float:
        """The loosest possible limit, which each rule satisfies."""
        loosest = 1.0 - self.least
        if loosest and self.rate.kind == "cost":
            return ALL_COSTS
        return loosest

    def within(self, level: Stated) -> Limit:
        """Return the limit at a level."""
        return Limit.of(self.form, self.rate, level)

    def value(self, values: Floats) -> float:
        """Return the gap or ratio of the rates of all subgroups."""
        return self.within(self.most).value(values)

    def __str__(self) -> str:
        return f"{self.rate}: {self.form}"

    def __repr__(self) -> str:
        return f"{self.form}({self.rate!r})"


@dataclass(frozen=True)
class Largest(Expression):
    """Largest rate of a family, made by `largest`; for objectives.

    Parameters
    ----------
    rate : Rate
        The family.
    """

    rate: Rate

    worst = True

    def __str__(self) -> str:
        return f"largest {self.rate}"

    def __repr__(self) -> str:
        return f"largest({self.rate!r})"


def _as_objective(objective: Any) -> str:
    """Return an objective as the argument; in the shell the option stands before the message."""
    return as_typed(f"objective={objective!r}", repr(objective))


@dataclass(frozen=True)
class Objective(Expression):
    """Objective: one rate, or the largest rate of a family.

    Parameters
    ----------
    rate : Rate
        The rate or family.
    worst : bool
        Whether the largest rate of the family is minimised.
    """

    rate: Rate
    worst: bool

    sides = (ABOVE,)
    over_rows: ClassVar[bool] = False  # confusion counts tell the objective
    alpha: ClassVar[None] = None  # the tail mass of a CVaR

    @classmethod
    def from_expression(cls, objective: Any) -> Objective:
        """Return the objective of a rate or of the largest rate of a family.

        A rate of which large values are better is replaced by its complement.

        Raises
        ------
        TypeError, ValueError
            If ``objective`` cannot be an objective.
        """
        if isinstance(objective, Objective):
            return objective
        expression = as_expression(objective)
        if expression is None or expression.limit is not None:
            raise TypeError(
                f"objective must be a rate or the largest of a family of rates, got {objective!r}"
            )
        if expression.compares:
            raise TypeError(
                f"{_as_objective(objective)}: minimise another rate and limit this one: "
                f"limits=[{objective!r} …]"
            )
        rate = expression.rate
        if not rate.can_be_lowered:
            raise ValueError(
                f"{_as_objective(objective)}: a rule with very few answers of one kind is best; "
                "minimise another rate and limit this one"
            )
        if not expression.worst and rate.by is not None:
            raise ValueError(f"{_as_objective(objective)} is a family: write largest({rate!r})")
        if rate.is_gain and expression.worst:
            raise ValueError(
                f"{_as_objective(objective)}: large values are better, so the largest is no "
                "objective"
            )
        if rate.is_gain:
            rate = replace(rate, complement=True)
        return cls(rate, expression.worst)

    @property
    def most(self) -> float:
        """A bound that each rule satisfies: 1 for fractions, for costs the largest one."""
        if self.rate.kind != "cost":
            return 1.0
        if self.rate.matrix is not None:
            return max(map(max, self.rate.matrix))
        return ALL_COSTS

    def within(self, level: float) -> Limit:
        """Return a limit on the objective."""
        return self.rate <= level

    def value(self, values: Floats) -> float:
        """Return the objective from the rates of all subgroups, their largest; NaN if all are NaN."""
        defined = values[~np.isnan(values)]
        if len(defined):
            return float(defined.max())
        return float("nan")

    def __str__(self) -> str:
        if self.worst:
            return f"largest {self.rate}"
        return str(self.rate)


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
    return Rate("error", by=_checked_by(by))


# The same for all rows.
OVERALL_ERROR = Rate("error")


def _of_label(kind: str, label: Label, by: By) -> Rate:
    """Return a rate about one label, with checked arguments."""
    return Rate(kind, checked_label(label), _checked_by(by))


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
    return _of_label("miss", label, by)


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
    return _of_label("false_alarm", label, by)


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
    return _of_label("recall", label, by)


def sensitivity(label: Label, by: By = None) -> Rate:
    """Return `recall` under its name in medicine.

    Parameters
    ----------
    label : str, int, float or bool
        The class.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return _of_label("sensitivity", label, by)


def tpr(label: Label, by: By = None) -> Rate:
    """Return `recall` under the name true positive rate.

    Parameters
    ----------
    label : str, int, float or bool
        The class.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return _of_label("tpr", label, by)


def fnr(label: Label, by: By = None) -> Rate:
    """Return `miss` under the name false negative rate.

    Parameters
    ----------
    label : str, int, float or bool
        The class.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return _of_label("fnr", label, by)


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
    return _of_label("specificity", label, by)


def tnr(label: Label, by: By = None) -> Rate:
    """Return `specificity` under the name true negative rate.

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
    return _of_label("tnr", label, by)


def fpr(label: Label, by: By = None) -> Rate:
    """Return `false_alarm` under the name false positive rate.

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
    return _of_label("fpr", label, by)


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
    return _of_label("selected", label, by)


def cost(matrix: Any = None, by: By = None) -> Rate:
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
        Also if a wrong answer earns more than the right one: a negative cost below the cost of the right
        answer.

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
        return Rate("cost", by=_checked_by(by))
    labels = None
    if hasattr(matrix, "columns") and hasattr(matrix, "index"):
        labels = tuple(map(checked_label, matrix.index))
        matrix = _in_order_of_rows(matrix, labels)
    values = _checked_costs(matrix)
    names = [f"label number {number}" for number in range(len(values))]
    if labels is not None:
        names = list(map(repr, labels))
    refuse_paid_errors(values, [*names, HUMAN_REVIEW], "cost")
    rows = tuple(map(tuple, values.tolist()))
    return Rate("cost", None, _checked_by(by), rows, labels)


def _in_order_of_rows(frame: Any, labels: tuple[Any, ...]) -> Any:
    """Return a data frame of costs with its columns in the order of its rows, deferral last.

    ``labels`` has the labels of the rows. Raise ValueError if the columns have others.
    """
    columns = list(map(checked_label, frame.columns))
    order = list(frame.index)
    if HUMAN_REVIEW in columns and HUMAN_REVIEW not in labels:
        columns.remove(HUMAN_REVIEW)
        order.append(HUMAN_REVIEW)
    if sorted(map(repr, labels)) != sorted(map(repr, columns)):
        raise ValueError(
            f"cost: rows and columns must have the same labels; rows: {list(labels)}, "
            f"columns: {columns}"
        )
    return frame.loc[:, order]


def _checked_costs(matrix: Any) -> Floats:
    """Return a matrix of costs as an array, shape (K, K) or (K, K + 1); raise ValueError otherwise."""
    try:
        values = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cost: the matrix must hold numbers: {error}") from None
    if values.ndim == 3:
        raise ValueError(
            "cost: costs that differ between rows are no matrix. Write cost(), and pass costs= "
            "of shape (n, K), the cost of each answer for each row"
        )
    is_matrix = values.ndim == 2 and len(values) >= 2
    if is_matrix:
        n_classes, n_answers = values.shape
        is_matrix = n_answers in (n_classes, n_classes + 1)
    if not is_matrix or not np.isfinite(values).all():
        raise ValueError(
            "cost: the matrix must be K × K, or K × (K + 1), of finite numbers, got shape "
            f"{values.shape}"
        )
    return values


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
    return Rate("deferred", by=_checked_by(by))


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
    return _of_label("precision", label, by)


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
    return _of_label("npv", label, by)


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
    return _of_label("jaccard", label, by)


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
    if isinstance(beta, bool) or not isinstance(beta, Real) or not 0 < float(beta) < np.inf:
        raise ValueError(f"beta must be a number above 0, got {beta!r}")
    return Rate("f_score", checked_label(label), _checked_by(by), beta=float(beta))


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
    return _of_label("representation", label, by)


def custom(name: str, counted: Any, among: Any = ((None, None),), by: By = None) -> Rate:
    """Return a custom rate: the fraction of some rows with some answers.

    Such a rate has limits, tables, curves, certificates, monitors and text like any other rate, and files
    contain its pairs. As an objective the rate is minimised, if its denominator does not depend on the
    answers.

    Parameters
    ----------
    name : str
        Printed name, which no other rate has.
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
    The ill who are told that they are well, of all who are ill:

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
    p_ill >= 0.2939: ill; else well
    >>> print(rule.certificate_)  # doctest: +ELLIPSIS
    Certified with 95 % confidence from 3,600 fresh rows: all limits hold together.
    <BLANKLINE>
    limit    rows  estimate
    sent home by site ≤ 0.1
      north   848      0.08
      south   926      0.07
    <BLANKLINE>
    Overall error 0.289 (the score at 0.5: 0.250), estimated on these rows.
    north has the least room, with 848 rows; without its limit ... would be about 0.288, ...
    Assumes independent rows, fresh as you state: print(certificate.assumptions)
    """
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"the name of a rate must be text, got {name!r}")
    if name in {kind.words for kind in KINDS.values()}:
        raise ValueError(
            f"{name!r} is the printed name of another rate: give yours a name of its own"
        )
    counted_pairs = _checked_pairs(counted, "counted")
    pairs = Pairs(name, counted_pairs, _checked_pairs(among, "among"))
    return Rate("custom", by=_checked_by(by), pairs=pairs)


def _checked_pairs(pairs: Any, name: str) -> tuple[Pair, ...]:
    """Return the distinct pairs of a true label and an answer, sorted by their text; None stays None.

    Errors call the parameter of `custom` ``name``.
    """
    if not isinstance(pairs, (list, tuple, set)):
        raise TypeError(f"{name} must be a list of pairs (true label, answer), got {pairs!r}")
    pair_of_text: dict[str, Pair] = {}
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"{name} must be a list of pairs (true label, answer), got {pair!r} in it"
            )
        label, answer = (None if part is None else checked_label(part) for part in pair)
        # By text, because 1 and True are equal keys.
        pair_of_text[repr((label, answer))] = (label, answer)
    return tuple(pair_of_text[text] for text in sorted(pair_of_text))


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
    return Rate("answered_error", by=_checked_by(by))


def largest(rate: Rate) -> Largest:
    """Return the largest rate of a family, as an objective.

    Parameters
    ----------
    rate : Rate
        The family.

    Returns
    -------
    Largest

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.largest(rates.error(by="cell")))
    largest error by cell
    """
    return Largest(_family(rate, "largest"))


def gap(rate: Rate) -> Spread:
    """Return the largest minus the smallest rate of a family: ``gap(...) <= 0.02`` is a limit.

    Parameters
    ----------
    rate : Rate
        The family.

    Returns
    -------
    Spread
    """
    return Spread(GAP, _family(rate, "gap"))


def ratio(rate: Rate) -> Spread:
    """Return the smallest rate of a family divided by the largest: ``ratio(...) >= 0.8`` is a limit.

    Parameters
    ----------
    rate : Rate
        The family.

    Returns
    -------
    Spread
    """
    return Spread(RATIO, _family(rate, "ratio"))


def _family(rate: Any, name: str) -> Rate:
    """Return the argument of the function ``name``; raise TypeError for other arguments than a rate."""
    if not isinstance(rate, Rate):
        raise TypeError(f"{name} takes a rate, such as error(by='class'), got {rate!r}")
    return rate


def checked_label(label: Label) -> str | float:
    """Return a label as text or a number; raise TypeError for another type."""
    python_label = plain(label)
    if not isinstance(python_label, (str, int, float)):
        raise TypeError(f"a label must be text or a number, got {label!r}")
    return python_label


def _checked_by(by: By) -> str | int | tuple[str | int, ...] | None:
    """Return ``by`` with Python's own numbers, and a tuple for a list; raise an error for other values.

    None stands for all rows together.
    """
    crosses_columns = isinstance(by, (tuple, list))
    parts: Any = by if crosses_columns else (by,)
    names: Any = plain(tuple(parts))
    if not names or not all(name is None or isinstance(name, (str, int)) for name in names):
        raise TypeError(
            "by must be None, 'class', 'group', 'cell', a column of groups or a tuple, got "
            f"{by!r}"
        )
    if not crosses_columns:
        return names[0]
    are_columns = None not in names and {"group", "cell"}.isdisjoint(names)
    if not are_columns or len(set(names)) < len(names):
        raise ValueError(
            f"by={by!r}: a tuple names different columns of groups, and 'class' for the label"
        )
    return names


# Maximum length of a text, in characters.
LONGEST_TEXT = 100_000
# Maximum depth of a text, in nested brackets. Deeper texts could exhaust the stack.
DEEPEST = 20
# Maximum number of characters of the text in an error message.
TEXT_SHOWN = 120
QUOTES = "'\""

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
# Nodes of plain values: numbers with a sign, text, tuples, lists and dicts.
_PLAIN_NODES = (
    ast.Constant,
    ast.UnaryOp,
    ast.unaryop,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.expr_context,
)

_PRODUCT = "it is no ratio of sums over rows, so neither a linear program nor a bound of a mean applies"
# Why a score is no rate, by its name.
_REFUSED = {
    "mcc": f"for Matthews' correlation, {_PRODUCT}; limit f_score or error(by=class)",
    "kappa": "the expected agreement needs the class shares of new rows; limit error(by=class)",
    "macro_f1": f"for a mean of F scores, {_PRODUCT}; limit f_score of each class",
    "accuracy": "limit the error: 'error <= 10%' is an accuracy of at least 90 %",
    "auc": "it is no rate of a rule; limit error, or miss and false_alarm of a label",
}
_REFUSED["coverage"] = _REFUSED["answered"] = (
    "limit the deferred rows: 'deferred <= 20%' is a coverage of at least 80 %"
)
_NO_ARITHMETIC = (
    "a rate has no arithmetic: 1 - miss(A) is recall(A), 1 - false_alarm(A) is specificity(A), and a "
    "difference of groups is gap(miss(A, by=COLUMN))"
)
_LIMIT_SELECTION = "limit gap(selected(LABEL, by=COLUMN)), or ratio(selected(LABEL, by=COLUMN))"
# How to state the rates of other libraries, by their names there.
_OTHER_LIBRARIES = {
    "demographic_parity": _LIMIT_SELECTION,
    "statistical_parity": _LIMIT_SELECTION,
    "disparate_impact": "limit ratio(selected(LABEL, by=COLUMN))",
    "equalized_odds": "limit gap(miss(LABEL, by=COLUMN)) and gap(false_alarm(LABEL, by=COLUMN))",
    "equal_opportunity": "limit gap(recall(LABEL, by=COLUMN))",
    "balanced_accuracy": "limit error(by=class)",
    "f1": "write f_score(LABEL)",
    "f1_score": "write f_score(LABEL)",
    "ppv": "write precision(LABEL)",
    "percent": "write the sign, as in 60%",
    "and": "state two limits",
}
# Names of rates by the words of users.
_SPOKEN_NAMES = {"human review": "deferred", "deferral": "deferred"}


def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions of this file for use in texts, by name."""
    names = (*KINDS, "custom", "largest", "gap", "ratio")
    return {name: globals()[name] for name in names if name in globals()}


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
            options = " ".join(f"--limit {shlex.quote(limit)}" for limit in limits)
            advice = as_typed(f"limits={limits}", options)
            raise ValueError(
                f"{cut_to(text, TEXT_SHOWN)!r} holds {len(limits)} limits; give a list: {advice}"
            ) from None
        form = _with_brackets(text) or _with_number_last(text)
        if form is None:
            raise
        raise ValueError(f"{cut_to(text, TEXT_SHOWN)!r}: write {form}") from failure


# A limit in spoken form: "recall 1 by=site >= 90%", "sensitivity >= 80 % at each site".
_SPOKEN = re.compile(
    r"""\s* (?P<rate>[A-Za-z_]+) \s*
    \(? \s* (?: (?:of\s+)? (?P<label>(?!by\b)['"]?\w+['"]?) (?=[\s,)]) )? \s* [,)]* \s*
    (?: by \s*=?\s* ['"]? (?P<by>\w+) ['"]? )? [\s)]*
    (?P<sign><=|>=|=<|=>|[<>≤≥]) \s* (?P<bound>[\d.]+ (?:\s*%)?) \s*
    (?: (?:by|at|in|for|per) (?:\s+(?:each|every))? \s*=?\s* (?P<by_last>\w+) )? \s*""",
    re.VERBOSE,
)


def _with_brackets(text: str) -> str | None:
    """Return a limit written without brackets, or without its label, in the form for `parse`.

    None for other texts. A missing label becomes 1, with a word about the label.
    """
    spoken = _SPOKEN.fullmatch(text)
    if spoken is None or spoken["rate"].lower() not in functions():
        return None
    name = spoken["rate"].lower()
    label = spoken["label"]
    lacks_label = not label and "label" in signature(functions()[name]).parameters
    if lacks_label:
        label = "1"
    column = spoken["by"] or spoken["by_last"]
    arguments = []
    if label:
        arguments.append(label)
    if column:
        arguments.append(f"by={column}")
    call = name
    if arguments:
        call = f"{name}({', '.join(arguments)})"
    sign = ">="
    if spoken["sign"] in ("<=", "=<", "<", "≤"):
        sign = "<="
    form = f"{call} {sign} {spoken['bound'].replace(' ', '')}"
    try:
        _Parser(form).parse()
    except ValueError:
        return None
    if lacks_label:
        form += ", with your label in place of 1"
    return form


# A limit such as ".2 >= miss(1)", and a number with a decimal comma at the end.
_NUMBER_FIRST = re.compile(
    r"\s*(?P<bound>[\d.,]+ ?%?)\s*(?P<sign><=|>=|=<|=>|[<>≤≥])\s*(?P<rate>.+?)\s*", re.DOTALL
)
_DECIMAL_COMMA = re.compile(r"(?<=[\d\s]),(?=\d+ ?%?$)")


def _with_number_last(text: str) -> str | None:
    """Return a limit with its number behind the rate and with a decimal point; None for other texts."""
    form = text.strip()
    reversed_limit = _NUMBER_FIRST.fullmatch(text)
    if reversed_limit is not None:
        sign = "<="
        if reversed_limit["sign"] in ("<=", "=<", "<", "≤"):
            sign = ">="
        form = f"{reversed_limit['rate']} {sign} {reversed_limit['bound'].strip()}"
    form = _DECIMAL_COMMA.sub(".", form)
    try:
        is_limit = isinstance(_Parser(form).parse(), Limit)
    except ValueError:
        return None
    if not is_limit:
        return None
    return form


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
    try:
        are_limits = all(isinstance(_Parser(limit).parse(), Limit) for limit in limits)
    except ValueError:
        return []
    if not are_limits:
        return []
    return limits


class _Parser:
    """Translates a text into a Python expression, parses the expression by `ast` and reads the tree.

    In the translation, words are quoted and percentages are numbers. Errors are stated at a position of the
    text, not of the translation.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = ""  # the translation
        self.in_percent = False  # whether a number has the sign %
        # Start of each token in the code and in the text.
        self.places: list[tuple[int, int]] = []
        self.depth = 0  # open brackets
        end = 0
        follows_text = False
        while end < len(text):
            token = _TOKEN.match(text, end)
            if token is None or token.lastgroup is None:
                n_spaces = len(text[end:]) - len(text[end:].lstrip())
                raise self._unreadable(end + n_spaces)
            kind = token.lastgroup
            start = token.start(kind)
            end = token.end()
            python = self._translated(kind, token[kind], start, end)
            is_text = python[0] in QUOTES
            if is_text and follows_text:  # Python would join both
                advice = self._advice_to_quote(start, "several words")
                raise self.error(f"expected a comma or a bracket before this{advice}", start)
            follows_text = is_text
            if python in "([{":
                self.depth += 1
            elif python in ")]}":
                self.depth -= 1
            self.places.append((len(self.code), start))
            self.code += f"{python} "

    def _translated(self, kind: str, token: str, start: int, end: int) -> str:
        """Return a token from ``start`` to ``end`` of the text in ASCII Python.

        ``kind`` is the name of its group in `_TOKEN`.
        """
        if kind == "number":
            self.in_percent |= token.endswith("%")
            return _number(token)
        if kind == "word":
            return self._translated_word(token, start, end)
        if kind == "text":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of unknown escapes
                try:
                    return ascii(ast.literal_eval(token))
                except (SyntaxError, ValueError):
                    raise self.error("is not understood", start) from None
        return {"≤": "<=", "≥": ">="}.get(token, token)

    def _translated_word(self, word: str, start: int, end: int) -> str:
        """Return a word as a name in Python for a function or an argument, otherwise as text.

        The word stands from ``start`` to ``end`` in the text.
        """
        next_sign = self.text[end:].lstrip()[:1]
        names_a_rate = next_sign in "(<>"  # also at the end of the text
        if names_a_rate:
            word = _SPOKEN_NAMES.get(" ".join(word.split()), word)
            if word.lower() in _REFUSED:
                raise self.error(f"this is not available: {_REFUSED[word.lower()]}", start)
        if names_a_rate or not self.depth:  # in brackets the word may be a label
            advice = _OTHER_LIBRARIES.get(re.sub("_(difference|ratio)$", "", word.lower()))
            if advice is not None:
                raise self.error(advice, start)
        if next_sign == "(":
            if word in functions():
                return word
            is_value_of_argument = re.search(r"[^<>]= $", self.code)
            if is_value_of_argument:
                advice = self._advice_to_quote(start, "brackets")
                raise self.error(f"expected a comma or a bracket after this{advice}", start)
            near = did_you_mean(word, functions())
            names = ", ".join(functions())
            raise self.error(f"no rate has this name; {near}there are {names}", start)
        names_an_argument = next_sign == "=" and word.isascii() and word.isidentifier()
        if names_an_argument or word in ("None", "True", "False"):
            return word
        return ascii(word)

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
        if sign in QUOTES:
            return self.error("the quote is not closed", at)
        if self.code.count("(") > self.code.count(")"):
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

    def error(self, message: str, at: int) -> ValueError:
        """Return an error with the text, and the word at a position."""
        word = re.match(r"[\w.\-%]+|.", self.text[at:], re.DOTALL)
        position = "the end"
        if word:
            position = f"{word[0]!r}, character {at + 1}"
        return ValueError(f"{cut_to(self.text, TEXT_SHOWN)!r}: at {position}: {message}")

    def _position(self, offset: int) -> int:
        """Return the position in the text of the token at an offset of the code."""
        if offset >= len(self.code.rstrip()):
            return len(self.text)
        token = bisect_right(self.places, (offset, len(self.text))) - 1
        _, position = self.places[token]
        return position

    def at(self, node: ast.expr) -> int:
        """Return the position of a node in the text."""
        return self._position(node.col_offset)

    def parse(self) -> Any:
        """Return the rate, objective or limit."""
        try:
            node = ast.parse(self.code, mode="eval").body
        except SyntaxError as failure:
            at = len(self.text)
            if failure.offset:
                at = self._position(failure.offset - 1)
            message = "expected a value, a comma or a bracket"
            advice = self._advice_to_quote(at, "several words")
            _, _, value = advice.partition(": ")
            if self.text[at : at + 1] == "=":
                message = "write <= or >="
            elif "never closed" in failure.msg:
                message = failure.msg
            elif " " in value.strip():
                message += advice
            raise self.error(message, at) from None
        except (RecursionError, MemoryError):
            raise self.error("is nested too deeply", 0) from None
        if isinstance(node, ast.Compare):
            return self._limit(node)
        return self.call(node, 0)

    def _limit(self, node: ast.Compare) -> Limit:
        """Return the limit of a comparison, such as ``error() <= 0.2``."""
        if len(node.comparators) > 1:
            raise self.error(
                "a limit has one bound: state two limits", self.at(node.comparators[1])
            )
        expression = self.call(node.left, 0)
        bound = self.value(node.comparators[0], 0)
        if expression.worst:
            raise self.error(
                "a largest rate is an objective; to limit each rate leave 'largest' out", 0
            )
        try:
            if isinstance(node.ops[0], ast.LtE):
                limit: Limit = expression <= bound
            else:
                limit = expression >= bound
        except (TypeError, ValueError) as failure:
            raise self.error(str(failure), self.at(node.left)) from None
        # Who writes 1, and not 1.0, may mean one percent.
        if limit.from_above and type(bound) is int and bound == 1 and limit.rate.kind != "cost":
            at = self.at(node.comparators[0])
            raise self.error("every rule has a rate of at most 1; write 1% for one percent", at)
        return replace(limit, in_percent=self.in_percent)

    def call(self, node: ast.expr, depth: int) -> Any:
        """Return the result of a call of one of the functions, inside of ``depth`` other calls."""
        if depth > DEEPEST:
            raise self.error("is nested too deeply", self.at(node))
        if isinstance(node, ast.Constant):
            return self.without_brackets(node)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            raise self.error(f"expected a rate: one of {', '.join(functions())}", self.at(node))
        name = node.func.id
        allowed = [*signature(functions()[name]).parameters]
        if name == "cost":
            allowed.append("labels")  # of a matrix from a data frame
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg in keywords:
                raise self.error("this name is repeated", self._position(keyword.col_offset))
            if keyword.arg not in allowed:
                near = did_you_mean(str(keyword.arg), allowed)
                message = f"{near}{name}(...) has {', '.join(allowed)}"
                raise self.error(message, self._position(keyword.col_offset))
            keywords[str(keyword.arg)] = self.value(keyword.value, depth + 1)
        arguments = [self.value(argument, depth + 1) for argument in node.args]
        labels = keywords.pop("labels", None)
        try:
            expression = functions()[name](*arguments, **keywords)
            if labels is None:
                return expression
            return _with_labels(expression, labels)
        except (TypeError, ValueError) as failure:
            raise self.error(str(failure), self.at(node)) from None

    def without_brackets(self, node: ast.Constant) -> Any:
        """Return the rate of a name without brackets; raise ValueError if the rate needs an argument."""
        name = str(node.value)
        if name not in functions():
            near = did_you_mean(name, functions())
            names = ", ".join(functions())
            raise self.error(f"{near}expected a rate: one of {names}", self.at(node))
        function = functions()[name]
        for parameter in signature(function).parameters.values():
            if parameter.default is parameter.empty:
                missing = parameter.name
                example = {"rate": "error(by=class)", "label": "1"}.get(missing, "...")
                raise self.error(
                    f"{name} needs a {missing} in brackets, as in {name}({example})",
                    self.at(node),
                )
        return function()

    def value(self, node: ast.expr, depth: int) -> Any:
        """Return a plain value or the result of a call, inside of ``depth`` other calls."""
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        for inner in ast.walk(node):
            if not isinstance(inner, _PLAIN_NODES):
                # An operator has no position.
                culprit = node
                if isinstance(inner, ast.expr):
                    culprit = inner
                raise self.error("expected a value", self.at(culprit))
            if isinstance(inner, ast.Dict):
                seen_keys: set[str] = set()
                for key in filter(None, inner.keys):  # `**other` has no key
                    if ast.dump(key) in seen_keys:
                        raise self.error("this name is repeated", self.at(key))
                    seen_keys.add(ast.dump(key))
        try:
            return ast.literal_eval(node)
        except (TypeError, ValueError):
            message = "expected a value; a subgroup is text, a number or a tuple of them"
            raise self.error(message, self.at(node)) from None


def _number(text: str) -> str:
    """Return the Python literal of a number, possibly in percent; 1e999 for infinity."""
    if re.fullmatch(r"[-+]?\d{1,300}", text):  # longer ones are floats: int would take long
        return repr(int(text))
    if text.endswith("%"):
        number = float(text[:-1]) / 100
    else:
        number = float(text)
    return repr(number).replace("inf", "1e999")


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


# -- limits ------------------------------------------------------------------------------------------


def read_stated(stated: Stated, form: str) -> list[tuple[Any, Expression | None]]:
    """Return each stated rate or limit with its expression; None for an entry that is neither.

    Parameters
    ----------
    stated : list of Rate, Limit or str, or one of these
        Texts are read by `parse`.
    form : str
        The required form, for the error about anything else.
    """
    entries = stated
    if isinstance(stated, str) or as_expression(stated) is not None:
        entries = [stated]
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise TypeError(f"{form}, got {stated!r}")
    expressions = []
    for entry in entries:
        expression = as_expression(parse(entry) if isinstance(entry, str) else entry)
        expressions.append((entry, expression))
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
        replace(limit, in_percent=in_percent and limit.rate.kind != "cost") for limit in checked
    )
