"""Gaps, ratios, largest rates and objectives, and the functions that make rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from tailboost.core.array_types import By, Floats, Label, Stated
from tailboost.core.subgroups import HUMAN_REVIEW
from tailboost.rates.rate import ABOVE, GAP, RATIO, Expression, Limit, Rate, as_expression
from tailboost.rates.strata import plain

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
        return self._limit(GAP, bound, "ratio(...) is limited from below: ratio(...) >= 0.8")

    def __ge__(self, bound: Stated) -> Limit:
        return self._limit(RATIO, bound, "gap(...) is limited from above: gap(...) <= 0.02")

    @property
    def least(self) -> float:
        """The tightest possible limit."""
        return 0.0 if self.form == GAP else 1.0

    @property
    def most(self) -> float:
        """A limit that each rule satisfies."""
        if self.form == RATIO:
            return 0.0
        return ALL_COSTS if self.rate.kind == "cost" else 1.0

    def within(self, level: float) -> Limit:
        """Return the limit at a level."""
        return Limit.of(self.form, self.rate, level)

    def value(self, values: Floats) -> float:
        """Return the gap or ratio of the rates of all subgroups."""
        return self.within(self.most).value(values)

    def __str__(self) -> str:
        return f"{self.rate}: {self.form}"

    def _limit(self, form: str, bound: Stated, otherwise: str) -> Limit:
        if form != self.form:
            raise ValueError(otherwise)
        return Limit.of(form, self.rate, bound)

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
    def of(cls, given: Any) -> Objective:
        """Return the objective of a rate or of the largest rate of a family.

        Raises
        ------
        TypeError, ValueError
            If ``given`` cannot be an objective.
        """
        if isinstance(given, Objective):
            return given
        expression = as_expression(given)
        if expression is None or expression.limit is not None:
            raise TypeError(f"objective must be a rate or the largest of a family of rates, got {given!r}")
        if expression.compares:
            raise TypeError(
                f"objective={given!r}: minimise another rate and limit this one: limits=[{given!r} …]"
            )
        rate = expression.rate
        if not rate.can_be_lowered:
            raise ValueError(
                f"objective={given!r}: a rule with very few answers of one kind is best; minimise another "
                "rate and limit this one"
            )
        if not expression.worst and rate.by is not None:
            raise ValueError(f"objective={given!r} is a family: write largest({rate!r})")
        if rate.is_gain and expression.worst:
            raise ValueError(f"objective={given!r}: large values are better, so the largest is no objective")
        return cls(replace(rate, complement=True) if rate.is_gain else rate, expression.worst)

    @property
    def most(self) -> float:
        """A bound that each rule satisfies."""
        if self.rate.kind != "cost":
            return 1.0
        return max(map(max, self.rate.matrix)) if self.rate.matrix is not None else ALL_COSTS

    def within(self, level: float) -> Limit:
        """Return a limit on the objective."""
        return self.rate <= level

    def value(self, values: Floats) -> float:
        """Return the objective from the rates of all subgroups."""
        defined = values[~np.isnan(values)]
        return float(defined.max()) if len(defined) else float("nan")

    def __str__(self) -> str:
        return f"largest {self.rate}" if self.worst else str(self.rate)


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
    return Rate("error", by=_by(by))


# The same for all rows.
OVERALL_ERROR = Rate("error")


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
    return Rate("miss", checked_label(label), _by(by))


def false_alarm(label: Label, by: By = None) -> Rate:
    """Return the fraction of the rows of other classes that are answered ``label``: 1 − specificity.

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
    return Rate("false_alarm", checked_label(label), _by(by))


def recall(label: Label, by: By = None) -> Rate:
    """Return the fraction of the rows of a class that is found: 1 − `miss`.

    Parameters
    ----------
    label : str, int, float or bool
        The class. A deferred row is not missed, so it counts as found.
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
    return Rate("recall", checked_label(label), _by(by))


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
    return Rate("sensitivity", checked_label(label), _by(by))


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
    return Rate("tpr", checked_label(label), _by(by))


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
    return Rate("fnr", checked_label(label), _by(by))


def specificity(label: Label, by: By = None) -> Rate:
    """Return the fraction of the rows of other classes that is not answered ``label``: 1 − `false_alarm`.

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
    return Rate("specificity", checked_label(label), _by(by))


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
    return Rate("tnr", checked_label(label), _by(by))


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
    return Rate("fpr", checked_label(label), _by(by))


def selected(label: Label, by: By = None) -> Rate:
    """Return the fraction of rows that are answered ``label``: the selection rate.

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
    return Rate("selected", checked_label(label), _by(by))


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
        return Rate("cost", by=_by(by))
    labels = None
    if hasattr(matrix, "columns") and hasattr(matrix, "index"):
        labels = tuple(checked_label(label) for label in matrix.index)
        columns = [checked_label(label) for label in matrix.columns]
        review = [HUMAN_REVIEW] if HUMAN_REVIEW in columns and HUMAN_REVIEW not in labels else []
        columns = [label for label in columns if label not in review]
        if sorted(map(repr, labels)) != sorted(map(repr, columns)):
            raise ValueError(
                f"cost: rows and columns must have the same labels; rows: {list(labels)}, columns: {columns}"
            )
        matrix = matrix.loc[:, [*matrix.index, *review]]
    try:
        values = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cost: the matrix must hold numbers: {error}") from None
    if values.ndim == 3:
        raise ValueError(
            "cost: costs that differ between rows are no matrix. Write cost(), and pass costs= of shape "
            "(n, K), the cost of each answer for each row"
        )
    K = values.shape[0] if values.ndim == 2 else 0
    if K < 2 or values.shape[1] not in (K, K + 1) or not np.isfinite(values).all():
        raise ValueError(
            f"cost: the matrix must be K × K, or K × (K + 1), of finite numbers, got shape {values.shape}"
        )
    return Rate("cost", None, _by(by), tuple(map(tuple, values.tolist())), labels)


def deferred(by: By = None) -> Rate:
    """Return the fraction of rows that are deferred to a human.

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
    return Rate("deferred", by=_by(by))


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
    return Rate("precision", checked_label(label), _by(by))


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
    return Rate("npv", checked_label(label), _by(by))


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
    return Rate("jaccard", checked_label(label), _by(by))


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
    return Rate("f_score", checked_label(label), _by(by), beta=float(beta))


def answered_error(by: By = None) -> Rate:
    """Return the error rate among the rows that are not deferred.

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
    return Rate("answered_error", by=_by(by))


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
    if not isinstance(rate, Rate):
        raise TypeError(f"{name} takes a rate, got {rate!r}")
    return rate


def checked_label(label: Label) -> str | float:
    """Return a label as text or a number; raise TypeError for another type."""
    python_label = plain(label)
    if not isinstance(python_label, (str, int, float)):
        raise TypeError(f"a label must be text or a number, got {label!r}")
    return python_label


def _by(by: By) -> str | int | tuple[str | int, ...] | None:
    names = plain(tuple(by) if isinstance(by, (tuple, list)) else (by,))
    if not names or any(name is not None and not isinstance(name, (str, int)) for name in names):
        raise TypeError(
            f"by must be None, 'class', 'group', 'cell', a column of groups or a tuple, got {by!r}"
        )
    if not isinstance(by, (tuple, list)):
        return names[0]
    if None in names or len(set(names)) < len(names) or {"group", "cell"} & set(names):
        raise ValueError(f"by={by!r}: a tuple names different columns of groups, and 'class' for the label")
    return names
