"""The functions that make rates, such as `error` and `miss`, and their largest, their gap and their ratio."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np

from tailboost.core import By, Label, Table, finite, in_class_order
from tailboost.rates.limit import GAP, LARGEST, RATIO, Statistic
from tailboost.rates.rate import (
    DEFINITIONS,
    Definition,
    Pair,
    Pairs,
    Rate,
    checked_by,
    checked_label,
)
from tailboost.rows import HUMAN_REVIEW


def _rate(kind: str, by: By, label: Label | None = None) -> Rate:
    """Return the rate that a function of this name makes; its label and subgroups are checked."""
    return Rate(DEFINITIONS[kind], checked_label(label), checked_by(by))


def _about(label: Label, kind: str, by: By) -> Rate:
    """Return a rate about a label; raise ValueError without one."""
    if label is None:
        raise ValueError(f"{kind} needs a label ('None' for one called None)")
    return _rate(kind, by, label)


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
    return _rate("error", by)


# The loss of `tail` and `shift` by default.
ERROR = error()


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
    return _about(label, "miss", by)


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
    return _about(label, "false_alarm", by)


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
    return _about(label, "recall", by)


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
    return _about(label, "specificity", by)


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
    return _about(label, "selected", by)


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
        Also if another answer, or deferral, has a negative cost below that of the right one.

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
    rate = _rate("cost", by)
    if matrix is None:
        return rate
    labels = None
    if hasattr(matrix, "columns"):
        labels = tuple(map(checked_label, matrix.index))
        names = [*labels, *{HUMAN_REVIEW}.intersection(matrix.columns).difference(labels)]
        matrix = in_class_order(matrix, "cost", np.array(names, object))
    values = finite(matrix, "cost")
    K = len(values)
    if K < 2 or values.shape not in ((K, K), (K, K + 1)):
        raise ValueError(
            f"cost: the matrix must be K × K, or K × (K + 1), got shape {values.shape}; costs "
            "that differ between rows are costs=, of shape (n, K), for cost()"
        )
    if (values < np.diag(values).clip(max=0.0)[:, None]).any():
        raise ValueError(
            "cost: another answer earns more than the right one; of gains, change the sign"
        )
    return replace(rate, matrix=tuple(map(tuple, values.tolist())), labels=labels)


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
    return _rate("deferred", by)


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
    return _about(label, "precision", by)


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
    return _about(label, "npv", by)


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
    return _about(label, "jaccard", by)


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
    from tailboost.core.ranges import POSITIVE, check_number  # which loads scikit-learn

    beta = check_number(beta, "beta", POSITIVE)
    return replace(_about(label, "f_score", by), beta=beta)


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
    return _about(label, "representation", by)


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
    pairs = _checked_pairs(counted)
    wider = _checked_pairs(among)
    for label, answer in pairs:
        if set(wider).isdisjoint(product((label, None), (answer, None))):
            raise ValueError(
                f"{name!r}: the pair {(label, answer)!r} is counted, but in no pair of among"
            )
    # Small values are better if only wrong answers are counted, each by its name.
    counts_faults = all(
        label is not None and answer not in (None, HUMAN_REVIEW, label)
        for label, answer in pairs
    )
    return Rate(
        Definition("custom", "≤" * counts_faults, pairs, wider, str(name)), by=checked_by(by)
    )


def _checked_pairs(pairs: Iterable[Pair]) -> Pairs:
    """Return the pairs of a true label and an answer; None stays None."""
    table = np.array([*pairs] if isinstance(pairs, Iterable) else pairs, object)
    if table.shape[1:] != (2,):  # text and sets are no pairs
        raise TypeError(
            "counted and among must be lists of pairs (true label, answer) of text or numbers, "
            f"such as [('ill', 'well')], got {pairs!r}; functions are not supported"
        )
    return tuple((checked_label(label), checked_label(answer)) for label, answer in table)


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
    return _rate("answered_error", by)


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
    from tailboost.core.ranges import check_alpha  # as in `f_score`

    return _worst_mean("tail", loss, check_alpha(alpha), by)


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
    from tailboost.core.ranges import POSITIVE, check_number  # as in `f_score`

    return _worst_mean("shift", loss, check_number(kl, "kl", POSITIVE), by)


def _worst_mean(kind: str, loss: Rate, level: float, by: None) -> Rate:
    """Return the mean loss in the worst population; raise ValueError for another loss."""
    is_mean = isinstance(loss, Rate) and loss.kind in ("error", "cost") and loss.by is None
    if by is not None or not is_mean:
        raise ValueError(
            "a tail or shift takes error() or cost() without by=, for all large groups"
        )
    return Rate(DEFINITIONS[kind], loss=loss, level=level)


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
    return _statistic(LARGEST, rate)


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
    return _statistic(GAP, rate)


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
    return _statistic(RATIO, rate)


def _statistic(form: str, rate: Rate) -> Statistic:
    """Return the largest rate, the gap or the ratio of a family; raise for what is no family of rates."""
    if not isinstance(rate, Rate):
        raise TypeError(f"{form} takes a rate, such as error(by='class'), got {rate!r}")
    rate.refuse_uncounted()
    return Statistic(form, rate)
