"""The functions that make rates, as a user writes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost.core.subgroups import PERSON
from tailboost.rates.objective import Largest, Spread
from tailboost.rates.rate import GAP, RATIO, Rate, as_expression
from tailboost.rates.strata import plain


def error(by: Any = None) -> Rate:
    """Return the share of rows that are answered wrongly.

    Parameters
    ----------
    by : None, "class", "group", "cell", str or tuple of str
        All rows; each class; each group; each class within each group; the groups of one column of
        ``groups``, or of several.

    Returns
    -------
    Rate
        One rate for each unit. A row passed on is no error.

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.error(by="sex") <= 0.2)
    error by sex: at most 0.2
    """
    return Rate("error", by=_by(by))


def miss(label: Any, by: Any = None) -> Rate:
    """Return the share of the rows of a class that are answered otherwise: 1 − sensitivity.

    Parameters
    ----------
    label : str, int, float or bool
        The class. A row passed on is not missed.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return Rate("miss", checked_label(label), _by(by))


def false_alarm(label: Any, by: Any = None) -> Rate:
    """Return the share of the rows of other classes that are answered so: 1 − specificity.

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


def selected(label: Any, by: Any = None) -> Rate:
    """Return the share of rows that are answered so: an approval rate.

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
    share answered 'yes' by sex: ratio at least 0.8
    """
    return Rate("selected", checked_label(label), _by(by))


def cost(matrix: Any = None, by: Any = None) -> Rate:
    """Return the mean cost of the answers.

    Parameters
    ----------
    matrix : array-like of shape (K, K) or (K, K + 1), or data frame, optional
        Row = truth, column = answer, in the order of ``classes_`` or as a frame names them. The last column
        of K + 1, "person" in a frame, is the price of a person's look: rows are passed on where that is
        cheaper. None: the costs of each row, given to ``fit(costs=)``.
    by : optional
        As in `error`.

    Returns
    -------
    Rate

    Raises
    ------
    ValueError
        If the matrix is no table of finite numbers, or a frame's rows and columns have other labels.

    Examples
    --------
    >>> from tailboost import rates
    >>> rates.cost([[0, 1], [5, 0]])
    cost([[0.0, 1.0], [5.0, 0.0]])
    """
    if matrix is None:
        return Rate("cost", by=_by(by))
    labels = None
    if hasattr(matrix, "columns") and hasattr(matrix, "index"):
        labels = tuple(checked_label(label) for label in matrix.index)
        columns = [checked_label(label) for label in matrix.columns]
        person = [PERSON] if PERSON in columns and PERSON not in labels else []
        columns = [label for label in columns if label not in person]
        if sorted(map(repr, labels)) != sorted(map(repr, columns)):
            raise ValueError(
                f"cost: the rows are called {list(labels)}, the columns {columns}: one of each label"
            )
        matrix = matrix.loc[:, [*matrix.index, *person]]
    try:
        values = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cost: the matrix must hold numbers: {error}") from None
    if values.ndim == 3:
        raise ValueError(
            "cost: costs that differ from row to row are no matrix: write cost(), and give costs=, of shape "
            "(n, K), the cost of each answer in each row"
        )
    K = values.shape[0] if values.ndim == 2 else 0
    if K < 2 or values.shape[1] not in (K, K + 1) or not np.isfinite(values).all():
        raise ValueError(
            f"cost: the matrix must be K × K, or K × (K + 1), of finite numbers, got shape {values.shape}"
        )
    return Rate("cost", None, _by(by), tuple(map(tuple, values.tolist())), labels)


def deferred(by: Any = None) -> Rate:
    """Return the share of rows that are passed on to a person.

    Parameters
    ----------
    by : optional
        As in `error`.

    Returns
    -------
    Rate
        Rows are passed on only where a limit on this rate says how many may be, or a matrix of costs what
        a person's look costs (see `cost`).
    """
    return Rate("deferred", by=_by(by))


def precision(label: Any, by: Any = None) -> Rate:
    """Return the share of a class among the rows answered so: the positive predictive value. For limits.

    Parameters
    ----------
    label : str, int, float or bool
        The answer. Where no row is answered so, any limit is kept.
    by : optional
        As in `error`.

    Returns
    -------
    Rate
    """
    return Rate("precision", checked_label(label), _by(by))


def answered_error(by: Any = None) -> Rate:
    """Return the error among the rows that are not passed on.

    Parameters
    ----------
    by : optional
        As in `error`. A unit all of whose rows are passed on has no such error, and keeps any limit.

    Returns
    -------
    Rate

    Examples
    --------
    >>> from tailboost import rates
    >>> print(rates.largest(rates.answered_error(by="class")))
    largest error among the answered by class
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
    """Return the largest less the smallest rate of a family: ``gap(...) <= 0.02`` is a limit.

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
    """Return the smallest over the largest rate of a family: ``ratio(...) >= 0.8`` is a limit.

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
    said = as_expression(rate)
    if said is None or said.rate is not rate:
        raise TypeError(f"{name} takes a rate, got {rate!r}")
    return said.rate


def checked_label(label: Any) -> Any:
    """Return a label as text or a number; raise TypeError for another type."""
    found = plain(label)
    if not isinstance(found, (str, int, float)):
        raise TypeError(f"a label must be text or a number, got {label!r}")
    return found


def _by(by: Any) -> Any:
    names = tuple(by) if isinstance(by, (tuple, list)) else (by,)
    found = plain(names)
    if not found or any(name is not None and not isinstance(name, (str, int)) for name in found):
        raise TypeError(
            f"by must be None, 'class', 'group', 'cell', a column of groups or a tuple, got {by!r}"
        )
    if not isinstance(by, (tuple, list)):
        return found[0]
    if None in found or len(set(found)) < len(found) or {"group", "cell"} & set(found):
        raise ValueError(f"by={by!r}: a tuple names different columns of groups, and 'class' for the label")
    return found
