"""Rates, gaps, ratios and objectives: the functions that make them, and their text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from tailboost.core.array_types import By, Floats, Label, Stated
from tailboost.core.checks import plain, refuse_paid_errors
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
        if loosest and not self.rate.is_fraction:
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
    """Return an objective as the argument."""
    return f"objective={objective!r}"


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
                "objective must be a rate or the largest of a family of rates, got "
                f"{objective!r}"
            )
        if expression.compares:
            raise TypeError(
                f"{_as_objective(objective)}: minimise another rate and limit this one: "
                f"limits=[{objective!r} …]"
            )
        rate = expression.rate
        if not rate.can_be_lowered:
            raise ValueError(
                f"{_as_objective(objective)}: a rule with very few answers of one kind is "
                "best; minimise another rate and limit this one"
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
        if self.rate.is_fraction:
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
    Overall error 0.286; without limits 0.251. Price of all limits: 2.1 to 5.0 points, 95 %, estimated on ...
    See .assumptions.
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
        raise TypeError(
            f"{name} must be a list of pairs (true label, answer), such as [('ill', 'well')], "
            f"got {pairs!r}; functions are not supported"
        )
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
        The family. A limit on the ratio of costs that may be negative is refused.

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
