"""Linear rates of a decision rule and limits on them: kinds, arithmetic over confusion counts, names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from tailboost.core.array_types import (
    Array,
    Bits,
    Column,
    Floats,
    Groups,
    Ints,
    Mask,
    Stated,
    Table,
)
from tailboost.core.checks import check_indexes, plain
from tailboost.core.rate_words import stated_words
from tailboost.core.spelling import did_you_mean
from tailboost.rates.comparisons import (
    AT_LEAST,
    AT_MOST,
    COMPARISONS,
    RateComparison,
    smallest_and_largest,
)
from tailboost.rates.strata import (
    Answered,
    Sample,
    Strata,
    answers_and_deferred,
    names_in,
)
from tailboost.rows.subgroups import HUMAN_REVIEW

Matrix = tuple[tuple[float, ...], ...]
# A true label and an answer; None stands for each of them.
Pair = tuple[Any, Any]

# Larger than the rounding error of confusion counts.
ROUNDING = 1e-9
# A rate that equals a strict bound violates it. It must be lower by more than half of the rounding error.
STRICT_ROOM = 1.5 * ROUNDING
# A bound as text.
PERCENT = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*")
ABOVE = "above"
BELOW = "below"
# Label number in the tables of kinds about all labels.
NO_LABEL = -1
NEEDS_COSTS = "{!r} needs the costs of the rows: give costs=, one for each answer"


def wrong(answers: Array, y: Array) -> Bits:
    """Return the zero-one losses of answers: True if an answer differs from the label."""
    return answers != y


@dataclass(frozen=True)
class Cells:
    """The cells of confusion counts as masks, shape (K, A): classes in lines, actions in columns."""

    every: Mask
    of_class: Mask  # rows of the class that the rate is about
    answer: Mask  # answered with the label of this class
    answered: Mask  # not deferred
    wrong: Mask  # answered with another label than that of the row
    beta: float  # weight of the recall in an F score

    @classmethod
    def of_label(cls, K: int, A: int, label: int, beta: float = 1.0) -> Self:
        """Return the cells for the number of a class, or for `NO_LABEL`."""
        classes, actions = np.indices((K, A))
        answered = actions < K
        is_wrong = answered & wrong(actions, classes)
        every = np.ones_like(answered)
        return cls(every, classes == label, actions == label, answered, is_wrong, beta)


@dataclass(frozen=True)
class Kind:
    """Kind of a rate: a numerator and a denominator over confusion counts.

    ``table(cells)`` returns both for each class and action, arrays of shape (K, A). The numerator is from 0
    to the denominator, which is at most 1.
    """

    words: str  # printed name
    table: Callable[[Cells], tuple[Any, Any]]
    meaning: str = ""  # in plain words, for readers who do not know the name
    # Whether the rate may be an objective: not precision, of which one safe answer of its label is best.
    lowered: bool = True
    across: bool = False  # whether a subgroup's denominator counts the rows of all subgroups

    @property
    def labelled(self) -> bool:
        """Whether the rate is about one label: its printed name has a place for it."""
        return "{label}" in self.words

    def of_cells(self, cells: Cells) -> tuple[Floats, Floats]:
        """Return numerator and denominator by class and action, shape (K, A) each."""
        top, bottom = self.table(cells)
        return top.astype(np.float64), bottom.astype(np.float64)

    def of_strata(self, strata: Strata, label: Any, beta: float) -> tuple[Floats, Floats]:
        """Return numerator and denominator for the classes and actions of strata, shape (K, A) each.

        ``label`` is the name of the rate's class, for kinds about one label, and ``beta`` the
        parameter of an F score. Other kinds do not read them.
        """
        number = NO_LABEL
        if self.labelled:
            number = strata.label(label)
        return self.of_cells(Cells.of_label(strata.n_classes, strata.n_actions, number, beta))

    # -- properties of the table, as of two classes with deferral as last action ----------------------

    @cached_property
    def _example(self) -> tuple[Floats, Floats]:
        return self.of_cells(EXAMPLE)

    @cached_property
    def ratio(self) -> bool:
        """Whether the denominator depends on the answers."""
        _, bottom = self._example
        return bool((bottom != bottom[:, :1]).any())

    @cached_property
    def counted_classes(self) -> tuple[bool, bool]:
        """Whether rows of other classes, and rows of the label, are in the denominator."""
        _, bottom = self._example
        return bool(bottom[0].any()), bool(bottom[1].any())

    @cached_property
    def weighted(self) -> bool:
        """Whether rows count in part, with denominators between 0 and 1."""
        return not np.isin(self._example, [0.0, 1.0]).all()

    @cached_property
    def counts_errors(self) -> bool:
        """Whether the numerator counts errors alone."""
        top, _ = self._example
        return not top[~EXAMPLE.wrong].any()

    @cached_property
    def gain(self) -> bool:
        """Whether large values are better: the numerator counts right answers, and no errors.

        As an objective, one minus the rate is minimised.
        """
        top, _ = self._example
        is_right = EXAMPLE.answered & ~EXAMPLE.wrong
        return bool(top[is_right].any() and not top[EXAMPLE.wrong].any())

    @cached_property
    def tells_deferral(self) -> tuple[bool, bool]:
        """Whether the numerator, and the denominator, only tell deferred from answered rows."""
        numerator, denominator = self._example
        return _tells_only_deferral(numerator), _tells_only_deferral(denominator)


EXAMPLE = Cells.of_label(K=2, A=3, label=1)


def _tells_only_deferral(table: Floats) -> bool:
    """Return whether all labels have the same value in a table (K, A), and deferral another one.

    Deferral is the last action.
    """
    labels_are_equal = (table[:, :-1] == table[:, :1]).all()
    deferral_differs = (table[:, -1] != table[:, 0]).any()
    return bool(labels_are_equal and deferral_differs)


def _misses(cells: Cells) -> tuple[Mask, Mask]:
    return cells.of_class & cells.wrong, cells.of_class


def _false_alarms(cells: Cells) -> tuple[Mask, Mask]:
    return ~cells.of_class & cells.answer, ~cells.of_class


def _recall(cells: Cells) -> tuple[Mask, Mask]:
    return cells.of_class & ~cells.wrong, cells.of_class


def _specificity(cells: Cells) -> tuple[Mask, Mask]:
    return ~cells.of_class & ~cells.answer, ~cells.of_class


KINDS = {
    "error": Kind(
        "error", lambda c: (c.wrong, c.every), "share of all rows with a wrong answer"
    ),
    "miss": Kind(
        "miss rate of {label}",
        _misses,
        "share of the rows labelled {label} with another label as answer",
    ),
    "false_alarm": Kind(
        "false alarm rate of {label}",
        _false_alarms,
        "share of the rows with another label that get the answer {label}",
    ),
    "recall": Kind(
        "recall of {label}",
        _recall,
        "share of the rows labelled {label} with no other label as answer",
    ),
    "sensitivity": Kind(
        "sensitivity for {label}",
        _recall,
        "share of the rows labelled {label} with no other label as answer",
    ),
    "specificity": Kind(
        "specificity for {label}",
        _specificity,
        "share of the rows with another label that do not get the answer {label}",
    ),
    "tpr": Kind(
        "true positive rate of {label}",
        _recall,
        "share of the rows labelled {label} with no other label as answer",
    ),
    "tnr": Kind(
        "true negative rate of {label}",
        _specificity,
        "share of the rows with another label that do not get the answer {label}",
    ),
    "fnr": Kind(
        "false negative rate of {label}",
        _misses,
        "share of the rows labelled {label} with another label as answer",
    ),
    "fpr": Kind(
        "false positive rate of {label}",
        _false_alarms,
        "share of the rows with another label that get the answer {label}",
    ),
    "selected": Kind(
        "selection rate of {label}",
        lambda c: (c.answer, c.every),
        "share of all rows that get the answer {label}",
    ),
    "cost": Kind(
        "mean cost", lambda c: (c.every, c.every), "mean of the stated costs of the answers"
    ),
    "deferred": Kind(
        "share deferred",
        lambda c: (~c.answered, c.every),
        "share of the rows that a human decides",
    ),
    "precision": Kind(
        "precision of {label}",
        lambda c: (c.answer & c.of_class, c.answer),
        "share of the rows with the answer {label} that are labelled {label}",
        lowered=False,
    ),
    "npv": Kind(
        "negative predictive value of {label}",
        lambda c: (c.answered & ~c.answer & ~c.of_class, c.answered & ~c.answer),
        "share of the rows with another answer than {label} that have another label",
        lowered=False,
    ),
    "jaccard": Kind(
        "Jaccard index of {label}",
        lambda c: (c.of_class & c.answer, c.of_class | c.answer),
        "rows labelled and answered {label}, as a share of the rows labelled or answered so",
    ),
    "f_score": Kind(
        "F score of {label}, β = {beta:g}",
        lambda c: (
            c.of_class & c.answer,
            (c.beta**2 * c.of_class + c.answer) / (1.0 + c.beta**2),
        ),
        "mean of precision and recall of {label}, weighted by β",
    ),
    "representation": Kind(
        "share of the rows answered {label}",
        lambda c: (c.answer, c.answer),
        "share that a group has among all rows with the answer {label}",
        lowered=False,
        across=True,
    ),
    "answered_error": Kind(
        "error among answered rows",
        lambda c: (c.wrong, c.answered),
        "share of the answered rows with a wrong answer",
    ),
}

# The rate that is 1 minus a rate.
COMPLEMENTS = {"miss": "recall", "fnr": "tpr", "false_alarm": "specificity", "fpr": "tnr"}
COMPLEMENTS |= {gain: errors for errors, gain in COMPLEMENTS.items()} | {"sensitivity": "miss"}


def defined_kind(name: str) -> Kind:
    """Return the entry of `KINDS`; raise ValueError if there is none."""
    if name not in KINDS:
        raise ValueError(
            f"a rate of the kind {name!r} is unknown, so it has no limit, table or "
            f"certificate: {did_you_mean(str(name), KINDS)}there are {list(KINDS)}"
        )
    return KINDS[name]


@dataclass(frozen=True)
class Pairs:
    """A custom rate: the fraction of some rows with some answers, as pairs (true label, answer).

    None stands for each label or each answer. The answer "human review" stands for deferral.

    Parameters
    ----------
    name : str
        Printed name.
    counted : tuple of pairs
        Pairs that count in the numerator, each inside a pair of ``among``.
    among : tuple of pairs
        Pairs that count in the denominator.
    """

    name: str
    counted: tuple[Pair, ...]
    among: tuple[Pair, ...]

    weighted: ClassVar[bool] = False
    counted_classes: ClassVar[tuple[bool, bool]] = True, True  # no label is named
    gain: ClassVar[bool] = False
    across: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.counted or not self.among:
            raise ValueError(f"{self.name!r}: counted and among must have a pair each")
        for label, answer in self.counted:
            if not any(_covers(pair, (label, answer)) for pair in self.among):
                raise ValueError(
                    f"{self.name!r}: the pair {(label, answer)!r} is counted, but it is in no "
                    "pair of among"
                )

    @property
    def words(self) -> str:
        """The name, as a format of printed names."""
        return self.name.replace("{", "{{").replace("}", "}}")

    @property
    def meaning(self) -> str:
        """Empty: whoever states the pairs names the rate."""
        return ""

    @property
    def ratio(self) -> bool:
        """Whether the denominator depends on the answers."""
        return any(answer is not None for _, answer in self.among)

    @property
    def lowered(self) -> bool:
        """Whether the rate may be an objective: with a fixed denominator."""
        return not self.ratio

    @property
    def counts_errors(self) -> bool:
        """Whether each counted answer is an error.

        Deferral is none, and pairs with each label or each answer contain correct answers.
        """
        return all(
            label is not None and answer not in (None, HUMAN_REVIEW, label)
            for label, answer in self.counted
        )

    def of_strata(self, strata: Strata, label: Any, beta: float) -> tuple[Floats, Floats]:
        """Return numerator and denominator for the classes and actions of strata, shape (K, A) each."""
        return self._indicator(self.counted, strata), self._indicator(self.among, strata)

    @property
    def tells_deferral(self) -> tuple[bool, bool]:
        """Whether the numerator counts deferred rows, and whether the denominator leaves them out.

        A denominator with two or more answers by name is taken to leave out deferred rows.
        """
        counts_deferred = any(answer == HUMAN_REVIEW for _, answer in self.counted)
        answer_names = {answer for _, answer in self.among if answer is not None}
        leaves_deferred_out = HUMAN_REVIEW in answer_names or len(answer_names) > 1
        return counts_deferred, leaves_deferred_out

    @staticmethod
    def _indicator(pairs: tuple[Pair, ...], strata: Strata) -> Floats:
        """Return a table of classes and actions, shape (K, A), with 1 where a pair has both and 0 elsewhere.

        None in a pair stands for all classes or all actions. The action after the classes is deferral.
        """
        table = np.zeros((strata.n_classes, strata.n_actions))
        everything = slice(None)
        deferral = slice(strata.n_classes, None)  # empty if no row may be deferred
        for label, answer in pairs:
            classes: Any = everything
            if label is not None:
                classes = strata.label(label)
            actions: Any = everything
            if answer == HUMAN_REVIEW:
                actions = deferral
            elif answer is not None:
                actions = strata.label(answer)
            table[classes, actions] = 1.0
        return table


def _covers(wide: Pair, narrow: Pair) -> bool:
    """Return whether the rows of the pair ``narrow`` are all in the pair ``wide``.

    Each part of ``wide`` is None, for all labels or answers, or equals the part of ``narrow``.
    """
    return all(
        outer is None or (outer == inner and type(outer) is type(inner))
        for outer, inner in zip(wide, narrow, strict=True)
    )


class Expression:
    """Common interface of rates, largest rates, gaps, ratios, objectives and limits."""

    rate: Any  # family of rates
    limit: Any = None  # the expression itself if it is a limit
    worst: bool = False  # whether the largest rate of the family is meant
    compares: Any = False  # whether the gap or ratio between subgroups is meant
    sides: Any = ()  # sides on which rates are bounded for a certificate; empty if there is none

    def of_rate(self, rate: Rate, unit: Callable[[Any], Any]) -> Expression:
        """Return the same expression about another rate, with subgroups renamed by ``unit``."""
        this: Any = self
        return replace(this, rate=rate)

    def __lt__(self, bound: Stated) -> Any:
        raise TypeError(f"a limit includes its bound: write {self!r} <= {bound!r}")

    def __gt__(self, bound: Stated) -> Any:
        raise TypeError(f"a limit includes its bound: write {self!r} >= {bound!r}")


def as_expression(given: object) -> Expression | None:
    """Return the argument if it is an expression of rates, and otherwise None."""
    if isinstance(given, Expression):
        return given
    return None


@dataclass(frozen=True)
class Rate(Expression):
    """Family of rates: the same count on each subgroup. Made by `error`, `miss` and others.

    A comparison with a number makes a limit: ``selected("yes") <= 0.3``. A dict has a bound for each
    subgroup.

    Parameters
    ----------
    kind : str
        Name of the function that makes the rate.
    label : str, int, float or bool, optional
        The label.
    by : None, "class", "group", "cell", name of a column of groups, or tuple of names
        The subgroups: all rows (None), each class, each group, each class within each group, or the groups of
        columns. In a tuple, "class" stands for the label.
    matrix : tuple of tuples of float, optional
        Cost of each answer (column) for each class (row). A last column may hold the cost of deferral.
    labels : tuple, optional
        Labels of the rows and columns of the matrix; by default in the order of ``classes_``.
    beta : float > 0, default=1
        Weight of the recall in an F score.
    complement : bool, default=False
        Whether this is one minus the rate.
    pairs : Pairs, optional
        The counted pairs of a rate made by `custom`.
    """

    kind: str
    label: Any = None
    by: Any = None
    matrix: Matrix | None = None
    labels: tuple[Any, ...] | None = None
    beta: float = 1.0
    complement: bool = False
    pairs: Pairs | None = None

    def __post_init__(self) -> None:
        if self.pairs is None:
            defined_kind(self.kind)

    # -- limits --------------------------------------------------------------------------------------

    def __le__(self, bound: Stated) -> Limit:
        return Limit.of(AT_MOST, self, bound)

    def __ge__(self, bound: Stated) -> Limit:
        return Limit.of(AT_LEAST, self, bound)

    # -- as an expression ----------------------------------------------------------------------------

    sides = ABOVE, BELOW

    @property
    def rate(self) -> Rate:
        """The rate itself."""
        return self

    def of_rate(self, rate: Rate, unit: Callable[[Any], Any]) -> Rate:
        """Return the other rate."""
        return rate

    # -- arithmetic ----------------------------------------------------------------------------------

    @property
    def definition(self) -> Kind | Pairs:
        """The pairs of a custom rate, or the entry of `KINDS`; ValueError if there is none."""
        return self.pairs or defined_kind(self.kind)

    @property
    def is_ratio(self) -> bool:
        """Whether the denominator depends on the answers, as for a precision."""
        return self.definition.ratio

    @property
    def is_across(self) -> bool:
        """Whether rows of other subgroups count in the denominator."""
        return self.definition.across

    @property
    def needs_deferral(self) -> bool:
        """Whether the rate is about rules that defer: it counts deferred rows, or has a cost of deferral."""
        has_deferral_cost = False
        # Costs by class and answer; the answer after the classes is deferral.
        if self.matrix is not None:
            n_classes = len(self.matrix)
            n_answers = len(self.matrix[0])
            has_deferral_cost = n_answers > n_classes
        counts_deferred, _ = self.definition.tells_deferral
        return counts_deferred or has_deferral_cost

    @property
    def counts_deferral(self) -> bool:
        """Whether the rate depends on the set of deferred rows."""
        _, leaves_deferred_out = self.definition.tells_deferral
        return self.needs_deferral or leaves_deferred_out

    @property
    def can_be_lowered(self) -> bool:
        """Whether the rate can be an objective."""
        return self.definition.lowered

    @property
    def is_weighted(self) -> bool:
        """Whether rows count in the denominator with weights between 0 and 1."""
        return self.definition.weighted

    @property
    def is_fraction(self) -> bool:
        """Whether the rate is from 0 to 1 by its definition; costs have any range."""
        return self.kind != "cost"

    @property
    def is_share(self) -> bool:
        """Whether the rate is a share of rows: then its numerator is a binomial count."""
        return self.is_fraction and not self.is_weighted

    @property
    def is_gain(self) -> bool:
        """Whether large values are better."""
        return self.definition.gain and not self.complement

    @property
    def without_rows(self) -> str:
        """Words for a subgroup without a row in the denominator, such as "has no rows with label 1"."""
        if self.kind == "precision":
            return f"has no row with the answer {self.label!r}"
        if self.is_ratio:
            return "has no row that counts"
        return f"has no {self.counted_rows}"

    @property
    def counted_rows(self) -> str:
        """Words for the rows in the denominator, if they do not depend on the answers."""
        counts_others, counts_label = self.definition.counted_classes
        if not counts_others:
            return f"rows with label {self.label!r}"
        if not counts_label:
            return f"rows with other labels than {self.label!r}"
        return "rows"

    @property
    def counts_errors(self) -> bool:
        """Whether the rate counts errors: then small values are better."""
        kind = self.definition
        return kind.counts_errors or (kind.gain and self.complement)

    @property
    def needs_costs(self) -> bool:
        """Whether the rate is a mean of given costs of the rows."""
        return self.kind == "cost" and self.matrix is None

    @property
    def crossed(self) -> tuple[Any, ...]:
        """The names in ``by`` as a tuple: columns of groups with perhaps "class", or one other value."""
        return names_in(self.by)

    @property
    def needs_groups(self) -> bool:
        """Whether the subgroups are groups."""
        return any(name not in (None, "class") for name in self.crossed)

    def tables(self, strata: Strata) -> tuple[Floats, Floats]:
        """Return numerator and denominator by class and action, shape (K, A) each."""
        try:
            counted, among = self.definition.of_strata(strata, self.label, self.beta)
        except ValueError as error:  # no class has the label
            raise ValueError(f"{self!r}: {error}") from None
        if self.matrix is not None:
            counted = self._costs(strata)
        if self.complement:
            counted = among - counted
        return counted, among

    def needs_labels(self, strata: Strata) -> bool:
        """Return whether the rate depends on labels: rates of answers alone, such as `selected`, do not."""
        classes_differ = any((table != table[0]).any() for table in self.tables(strata))
        is_by_class = not {"class", "cell"}.isdisjoint(self.crossed)
        return classes_differ or is_by_class or self.needs_costs

    def by_subgroup(self, strata: Strata) -> tuple[list[Any], Floats, Floats]:
        """Return names of subgroups, and their numerators and denominators by stratum and action, (m, S, A).

        `terms` and `samples` follow from these alone, and all other methods from one of the two.
        """
        names, is_in_subgroup = strata.subgroups(self.by)
        top, bottom = self.tables(strata)  # by class
        in_numerator = is_in_subgroup[:, :, None]  # shape (m, S, 1)
        in_denominator = in_numerator
        if self.is_across:
            in_denominator = np.ones_like(in_numerator)
        return names, in_numerator * top[strata.y], in_denominator * bottom[strata.y]

    def _costs(self, strata: Strata) -> Floats:
        """Return the matrix in the order of the classes, with a column for each action, shape (K, A).

        A cost of deferral is left out if the strata have no deferral; a missing one is 0. Raise ValueError
        if the shape or the labels do not fit the classes.
        """
        assert self.matrix is not None
        costs = np.array(self.matrix, dtype=np.float64)
        K = strata.n_classes
        if costs.shape not in ((K, K), (K, K + 1)):
            raise ValueError(
                f"cost: the matrix has shape {costs.shape}; {K} classes need {K} rows (true "
                f"labels) and {K} columns (answers), or {K + 1} with a cost of deferral"
            )
        if costs.shape[1] > strata.n_actions:
            costs = costs[:, :K]
        if self.labels is not None:
            class_of_line = np.array([strata.label(label) for label in self.labels])
            if len(set(class_of_line.tolist())) != K:
                raise ValueError(
                    f"cost: the matrix has the labels {list(self.labels)}, the classes are "
                    f"{list(strata.classes)}"
                )
            line_of_class = np.argsort(class_of_line)
            deferral = range(K, costs.shape[1])  # stays the last column
            costs = costs[line_of_class][:, [*line_of_class, *deferral]]
        if costs.shape[1] < strata.n_actions:
            costs = np.column_stack([costs, np.zeros(K)])
        return costs

    def range(self, strata: Strata) -> tuple[float, float]:
        """Return the smallest and largest possible value of a row: 0 and 1, or costs."""
        if self.needs_costs:
            return strata.cost_range
        if self.is_ratio:
            return 0.0, 1.0
        numerator, denominator = self.tables(strata)
        if _counts_in_part(denominator):
            return 0.0, 1.0
        return float(numerator.min()), float(numerator.max())

    def scale(self, strata: Strata) -> float:
        """Return the scale of the values: 1 for fractions, for costs the largest absolute one."""
        if self.is_fraction:
            return 1.0
        if not self.needs_costs:
            costs, _ = self.tables(strata)
        elif strata.mean_costs is not None:
            costs = strata.mean_costs
        else:
            return 1.0
        return max(float(np.abs(costs).max()), 1e-300)  # a divisor, also if all costs are 0

    def terms(self, strata: Strata) -> Terms:
        """Return numerators and denominators over confusion counts, for each subgroup.

        Raise ValueError if the label, the groups or the costs of the rate are missing.
        """
        names, top, bottom = self.by_subgroup(strata)
        weight_of_stratum = bottom.max(axis=2)  # shape (m, S)
        if self.is_ratio:  # all rows that some answer brings into the denominator
            weight_of_stratum = weight_of_stratum > 0
        mass = weight_of_stratum @ strata.mass
        if strata.mean_costs is not None:
            # Confusion counts have costs after weights: a rate of costs has its numerator there.
            zeros = np.zeros_like(top)
            bottom = np.concatenate([bottom, zeros], axis=1)
            if self.needs_costs:
                top = np.concatenate([zeros, top], axis=1)
            else:
                top = np.concatenate([top, zeros], axis=1)
        elif self.needs_costs:
            raise ValueError(NEEDS_COSTS.format(self))
        return Terms(names, top, bottom, mass, self.is_ratio)

    def samples(
        self, strata: Strata, stratum: Ints, actions: Any, costs: Floats | None = None
    ) -> list[Sample]:
        """Return the rows of each rate with their values; the rate is the mean of the values.

        Parameters
        ----------
        strata : Strata
            The strata.
        stratum : ndarray of int, shape (n,)
            Stratum of each row.
        actions : ndarray of int, shape (n,), or of float, shape (n, A)
            Answer to each row, or the probability of each action of a randomised rule.
        costs : ndarray of shape (n, A), optional
            Cost of each action for each row.

        Returns
        -------
        list of Sample
            One for each subgroup. A rate is the weighted mean of values between ``low`` and ``high``, so
            certificates of a bounded mean apply.
        """
        if self.needs_costs and costs is None:
            raise ValueError(NEEDS_COSTS.format(self))
        low, high = self.range(strata)
        is_drawn_ratio = self.is_ratio and actions.ndim == 2
        samples = []
        for name, top, bottom in zip(*self.by_subgroup(strata), strict=True):
            stratum_may_count = (bottom > 0).any(axis=1)
            rows = np.flatnonzero(stratum_may_count[stratum])
            among = None
            counts_in_part = _counts_in_part(bottom)
            if self.is_ratio or counts_in_part:  # the answer decides how much a row counts
                among = _at_actions(bottom, stratum[rows], actions[rows])
                rows, among = rows[among > 0], among[among > 0]
            if self.needs_costs and costs is not None:
                values = _at_actions(costs, rows, actions[rows])
            else:
                values = _at_actions(top, stratum[rows], actions[rows])
            if not (is_drawn_ratio or counts_in_part):
                among = None
            samples.append(Sample(name, rows, values, low, high, among))
        return samples

    def samples_of(self, answered: Answered) -> list[Sample]:
        """Return the `samples` of answered rows."""
        return self.samples(answered.strata, answered.stratum, answered.actions, answered.costs)

    # -- words ---------------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """Printed name without the subgroups."""
        words = self.definition.words.format(label=repr(self.label), beta=self.beta)
        if self.complement:
            return f"1 − {words}"
        return words

    @property
    def meaning(self) -> str:
        """What the rate is, in plain words, such as "share of all rows with a wrong answer"; may be empty."""
        if self.complement:
            return ""
        return self.definition.meaning.format(label=repr(self.label))

    def __str__(self) -> str:
        if self.by is None:
            return self.words
        return f"{self.words} by {' and '.join(map(str, self.crossed))}"

    def __repr__(self) -> str:
        arguments = []
        if self.pairs is not None:
            counted = [list(pair) for pair in self.pairs.counted]
            among = [list(pair) for pair in self.pairs.among]
            arguments += [repr(self.pairs.name), f"counted={counted!r}", f"among={among!r}"]
        if self.label is not None:
            arguments.append(repr(self.label))
        if self.matrix is not None:
            arguments.append(repr([list(row) for row in self.matrix]))
        if self.labels is not None:
            arguments.append(f"labels={list(self.labels)!r}")
        if self.beta != 1.0:
            arguments.append(f"beta={str(self.beta).removesuffix('.0')}")
        if self.by is not None:
            arguments.append(f"by={self.by!r}")
        call = f"{self.kind}({', '.join(arguments)})"
        if self.complement:
            return f"1 - {call}"
        return call


def _counts_in_part(denominators: Floats) -> bool:
    """Return whether rows count with weights between 0 and 1: then the rate is no mean of their values."""
    return bool(((denominators > 0.0) & (denominators < 1.0)).any())


def _at_actions(table: Floats, line: Ints, actions: Any) -> Floats:
    """Return the entry of a table at the ``line`` and the action of each row, shape (n,).

    With probabilities of the actions, shape (n, A), the mean entry of the line is returned.
    """
    if actions.ndim == 1:
        return table[line, actions]
    return (table[line] * actions).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Terms:
    """Rates over confusion counts N: ⟨top, N⟩ / ⟨bottom, N⟩ for each of m subgroups."""

    names: list[Any]  # of the subgroups
    top: Floats  # shape (m, W, A); W is S, or 2 S if the counts also contain costs
    bottom: Floats  # shape (m, W, A)
    mass: Floats  # shape (m,): weight in the denominator; for a ratio, weight of the subgroup
    is_ratio: bool  # whether ``bottom`` depends on the answers

    def values(self, counts: Floats) -> Floats:
        """Return the rates of confusion counts (…, W, A), NaN if the denominator is 0, shape (…, m)."""
        flat = counts.reshape(*counts.shape[:-2], -1)
        numerators = flat @ self.top.reshape(len(self.top), -1).T
        denominators = flat @ self.bottom.reshape(len(self.top), -1).T
        defined = denominators > 0
        return np.where(defined, numerators / np.where(defined, denominators, 1.0), np.nan)

    @property
    def defined(self) -> Mask:
        """Mask of the subgroups with rows."""
        return self.mass > 0

    @property
    def linear(self) -> Floats:
        """Matrices C with rate = ⟨C, N⟩, shape (m, W, A); 0 for a subgroup without rows."""
        return self.top / self._scale

    @property
    def of_answers(self) -> bool:
        """Whether each rate is the mean of a function of the answer alone, over a fixed set of rows.

        So are miss rates, false alarm rates and selection rates, but no overall error, cost or precision.
        """
        if self.is_ratio:
            return False
        for top, bottom in zip(self.top, self.bottom, strict=True):
            stratum_counts = (bottom > 0).any(axis=1)
            if len(np.unique(top[stratum_counts], axis=0)) > 1:
                return False
        return True

    def beyond(self, level: Floats) -> Floats:
        """Return matrices C with ⟨C, N⟩ ≤ 0 exactly if the rate of a subgroup is at most its level.

        They exist for ratios and for linear rates, and are scaled by the mass of the subgroup. ``level`` has
        the shape (m,), and the result (m, W, A).
        """
        return (self.top - level[:, None, None] * self.bottom) / self._scale

    @property
    def _scale(self) -> Floats:
        """Mass of each subgroup, and 1 for a mass of 0, shape (m, 1, 1)."""
        return np.where(self.mass > 0, self.mass, 1.0)[:, None, None]


@dataclass(frozen=True)
class Inequality:
    """One inequality of a linear program over confusion counts N: ``⟨matrix, N⟩ + free z ≤ bound``."""

    matrix: Floats  # shape (W, A)
    free: float  # coefficient of the limit's free variable z; 0 if there is none
    bound: float


@dataclass(frozen=True)
class Limit(Expression):
    """Limit on a family of rates.

    Parameters
    ----------
    form : {"at most", "at least", "gap", "ratio"}
        Upper or lower bound of each rate, upper bound of the largest minus the smallest rate, or lower bound
        of the smallest divided by the largest.
    rate : Rate
        The family.
    bound : float or tuple of (name, float) pairs
        The bound, or bounds by subgroup. The name None stands for all other subgroups; without it they are
        free.
    margins : tuple of m tuples of m floats, optional
        For a gap or ratio: margin of each ordered pair of subgroups. It tightens ``rᵢ − rⱼ ≤ bound`` for a
        gap, and ``bound rᵢ − rⱼ ≤ 0`` for a ratio.
    strict : bool, default=False
        Whether a rate equal to its bound violates the limit, as an error of exactly 1 − θ does in Saito et
        al. 2024. Only for "at most".
    in_percent : bool, default=False
        Whether the bound was stated in percent, and is printed so.
    """

    form: str
    rate: Rate
    bound: Stated
    margins: Matrix | None = None
    strict: bool = False
    in_percent: bool = field(default=False, compare=False, repr=False)

    @classmethod
    def of(cls, form: str, rate: Rate, bound: Stated) -> Limit:
        """Return the limit, checked as far as possible without rows.

        Raises
        ------
        TypeError, ValueError
            If the bound is not a number, or is outside of the possible range.
        """
        if isinstance(bound, Mapping) and form not in COMPARISONS:
            if not bound:
                raise ValueError(f"{rate!r}: a dict of bounds must name a subgroup, got {{}}")
            pairs = tuple(
                (plain(name), _checked_bound(rate, value)) for name, value in bound.items()
            )
            in_percent = any(isinstance(value, str) for value in bound.values())
            return cls(form, rate, pairs, in_percent=in_percent)
        value = _checked_bound(rate, bound)
        if form in COMPARISONS:
            if rate.is_ratio:
                raise ValueError(
                    f"{form}({rate!r}): the denominator of {rate.words!r} depends on the "
                    "answers, so the differences are no linear program; limit each subgroup "
                    "instead"
                )
            if rate.is_across:
                # Intervals take the rates of subgroups as independent. Of 400 true gaps of such a rate 10 %
                # were outside of their 95 % interval, of gaps of selection rates 3 %.
                raise ValueError(
                    f"{form}({rate!r}): the rows of all subgroups are in the denominator of "
                    f"{rate.words!r}, so one subgroup's rate lowers those of the others; limit "
                    "each subgroup instead"
                )
            if rate.by is None:
                raise ValueError(
                    f"{form}({rate!r}) compares subgroups: name them, for example by='group'"
                )
            largest_bound = COMPARISONS[form].largest
            if not 0.0 <= value <= largest_bound:
                raise ValueError(
                    f"{form}({rate!r}): the bound must be from 0 to {largest_bound:g}, got "
                    f"{value:g}"
                )
        return cls(form, rate, value, in_percent=isinstance(bound, str))

    def bounds(self, names: list[Any]) -> Floats:
        """Return the bound of each subgroup, NaN for a free one, shape (m,).

        Raise ValueError with all named subgroups with a bound that do not exist.
        """
        if not isinstance(self.bound, tuple):
            return np.full(len(names), float(self.bound))
        number_of = {plain(name): i for i, name in enumerate(names)}
        bound_of = dict(self.bound)
        bounds = np.full(len(names), np.nan)
        is_on_all_rows = names == [None]
        if not is_on_all_rows:  # None stands for the other subgroups
            bounds[:] = bound_of.pop(None, np.nan)
        stated = {name: value for name, value in bound_of.items() if not np.isnan(value)}
        unknown = [name for name in stated if name not in number_of]
        if unknown:
            near = did_you_mean(str(unknown[0]), map(str, number_of))
            raise ValueError(
                f"{self!r}: no subgroup is called {' or '.join(map(repr, unknown))}: {near}"
                f"there are {names[:20]}"
            )
        for name, value in bound_of.items():
            if name in number_of:
                bounds[number_of[name]] = value
        return bounds

    @property
    def rest(self) -> float:
        """Bound of the subgroups without a name in ``bound``, NaN if they are free."""
        if isinstance(self.bound, tuple):
            return float(dict(self.bound).get(None, np.nan))
        return float(self.bound)

    def rows(self, strata: Strata) -> list[Inequality]:
        """Return the inequalities of the limit over confusion counts, scaled to rates of about 1.

        Subgroups without rows and free subgroups have none. Raise ValueError for a ratio of rates that may
        be negative.
        """
        terms = self.rate.terms(strata)
        scale = self.rate.scale(strata)
        if self.compares:
            lowest_rate, _ = self.rate.range(strata)
            self.comparison.refuse_negative(lowest_rate, f"{self!r}: ")
            return self._rows_of_comparison(terms, scale)
        bounds = self.bounds(terms.names) - self._room
        limited = terms.defined & ~np.isnan(bounds)
        sign = self.sign
        if terms.is_ratio:
            matrices = terms.beyond(np.nan_to_num(bounds))[limited]
            return [Inequality(sign * matrix, 0.0, 0.0) for matrix in matrices]
        pairs = zip(terms.linear[limited] / scale, bounds[limited] / scale, strict=True)
        return [Inequality(sign * matrix, 0.0, sign * bound) for matrix, bound in pairs]

    def _rows_of_comparison(self, terms: Terms, scale: float) -> list[Inequality]:
        """Return the inequalities of a gap or ratio between the subgroups with rows.

        With margins there is one for each ordered pair of subgroups. Without margins, each rate is between
        z and z + bound for a gap, and between bound × z and z for a ratio.
        """
        used = terms.defined
        matrices = terms.linear[used] / scale
        if len(matrices) < 2:
            return []
        factor, largest_difference = self.pair
        if self.margins is not None:
            margins = np.array(self.margins)[used][:, used] / scale
            return [
                Inequality(
                    factor * matrices[i] - matrices[j],
                    0.0,
                    largest_difference / scale - float(margins[i, j]),
                )
                for i, j in np.argwhere(self.comparison.pairs(len(matrices)))
            ]
        upper = [Inequality(matrix, -1.0, largest_difference / scale) for matrix in matrices]
        lower = [Inequality(-matrix, factor, 0.0) for matrix in matrices]
        return upper + lower

    @property
    def pair(self) -> tuple[float, float]:
        """The numbers (a, c) of a gap or ratio, which is kept if a rᵢ − rⱼ ≤ c for all pairs of rates.

        They are called ``factor`` and ``gap``: 1 and the largest gap, or the smallest ratio and 0.
        """
        return self.comparison.pair(self.bound)

    def rooms(self, first: Floats, second: Floats) -> Floats:
        """Return the room c − a rᵢ + rⱼ of each pair of a ``first`` and a ``second`` rate.

        The rates have the shape (..., m), and the rooms (..., m, m); (a, c) is `pair`.
        """
        a, c = self.pair
        return c - a * first[..., :, None] + second[..., None, :]

    def deviations(self, variances: Floats) -> Floats:
        """Return the standard deviation of a rᵢ − rⱼ for pairs of independent rates.

        The variances of the rates have the shape (..., m), and the deviations (..., m, m).
        """
        a, _ = self.pair
        return np.sqrt(a**2 * variances[..., :, None] + variances[..., None, :])

    @property
    def compares(self) -> bool:
        """Whether the limit is a gap or ratio between subgroups."""
        return self.form in COMPARISONS

    @property
    def comparison(self) -> RateComparison:
        """How subgroups are compared, of a gap or ratio."""
        return COMPARISONS[self.form]

    @property
    def of_every(self) -> bool:
        """Whether the limit applies to all subgroups, not only to named ones."""
        return not isinstance(self.bound, tuple) or any(name is None for name, _ in self.bound)

    @property
    def limit(self) -> Limit:
        """The limit itself."""
        return self

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides on which rates are bounded to certify the limit."""
        if self.compares:
            return (ABOVE, BELOW)
        if self.from_above:
            return (ABOVE,)
        return (BELOW,)

    def all_but(self, dropped: Collection[Any], names: Sequence[Any]) -> list[Limit]:
        """Return the limit on all but some subgroups, each by its name, as a list of one limit.

        ``names`` are all subgroups of the rate. Without a dropped one the limit is unchanged. The list is
        empty if no limited subgroup is left, and for a gap or ratio with a dropped one.
        """
        if not dropped:
            return [self]
        if self.compares:
            return []
        pairs = zip(names, self.bounds(list(names)).tolist(), strict=True)
        bounds = [(name, value) for name, value in pairs if name not in dropped]
        limited = tuple((plain(name), value) for name, value in bounds if not np.isnan(value))
        if not limited:
            return []
        return [replace(self, bound=limited)]

    def of_rate(self, rate: Rate, unit: Callable[[Any], Any]) -> Limit:
        """Return the same limit on another rate, with subgroups renamed by ``unit``."""
        if not isinstance(self.bound, tuple):
            return replace(self, rate=rate)
        pairs = tuple(
            (None if name is None else unit(name), value) for name, value in self.bound
        )
        return replace(self, rate=rate, bound=pairs)

    @property
    def from_above(self) -> bool:
        """Whether the bound is an upper bound."""
        if self.compares:
            return self.comparison.side == AT_MOST
        return self.form == AT_MOST

    @property
    def sign(self) -> float:
        """1 for an upper bound, −1 for a lower one: the violation is ``sign`` times rate minus bound."""
        if self.from_above:
            return 1.0
        return -1.0

    def against(self, shares: Any) -> Any:
        """Return shares of rows as shares that count against the limit: complements for a lower bound."""
        if self.from_above:
            return shares
        return 1.0 - shares

    @property
    def asks_for_errors(self) -> bool:
        """Whether a rule with more errors keeps the limit more easily."""
        if self.from_above:
            worse = self.rate.is_gain
        else:
            worse = self.rate.counts_errors
        return worse and not self.compares

    @property
    def asks_for_deferral(self) -> bool:
        """Whether a rule keeps the limit by the deferral of every row, which is no error."""
        return self.rate.kind == "deferred" and not self.from_above and not self.compares

    def keeps(self, value: float, bound: float) -> bool | None:
        """Return whether a value satisfies a bound of this limit; None if one of them is NaN."""
        if np.isnan(value) or np.isnan(bound):
            return None
        return bool(self.sign * (value - bound) + self._room <= ROUNDING)

    @property
    def sense(self) -> str:
        """Direction of the bounds as a sign."""
        if self.from_above:
            if self.strict:
                return "<"
            return "≤"
        return "≥"

    @property
    def _room(self) -> float:
        """Least distance of a rate from its bound."""
        if self.strict:
            return STRICT_ROOM
        return 0.0

    def tightened(self, widths: Mapping[Any, float]) -> Limit:
        """Return the limit with bounds tightened by ``widths``, by subgroup (by form for a gap or ratio).

        A width of NaN changes nothing.
        """
        if self.compares:
            bound = self.bound - self.sign * float(np.nan_to_num(widths[self.form]))
            return replace(self, bound=float(np.clip(bound, 0.0, self.comparison.largest)))
        bounds = self.bounds(list(widths)) - self.sign * np.nan_to_num(list(widths.values()))
        pairs = zip(widths, bounds.tolist(), strict=True)
        limited = tuple((name, bound) for name, bound in pairs if not np.isnan(bound))
        return replace(self, bound=limited)

    def excess(self, names: list[Any], values: Floats) -> Floats:
        """Return the violation of the limit by the rates (..., m) of subgroups ``names``, shape (...).

        The violation is 0 if the rates satisfy the limit or are undefined.
        """
        if self.margins is not None:
            factor, largest_difference = self.pair
            differences = factor * values[..., :, None] - values[..., None, :]
            violations = differences + np.array(self.margins) - largest_difference
            violations = np.where(np.isnan(violations), 0.0, violations)
            of_pairs = violations[..., self.comparison.pairs(values.shape[-1])]
            return of_pairs.max(axis=-1, initial=0.0)
        if not self.compares:
            return np.maximum(self.distance(names, values), 0.0)
        smallest, largest = smallest_and_largest(values)
        factor, largest_difference = self.pair
        with np.errstate(invalid="ignore"):
            violation = factor * largest - smallest - largest_difference
        return np.where(np.isfinite(violation), np.maximum(violation, 0.0), 0.0)

    def distance(self, names: list[Any], values: Floats) -> Floats:
        """Return the signed violation of the limit by the rates (..., m) of subgroups ``names``, shape (...).

        The result is negative if there is slack, and −∞ if all rates are undefined.
        """
        if self.compares:
            is_defined = ~np.isnan(values).all(axis=-1)
            with np.errstate(invalid="ignore"):
                value = self.comparison.of_rates(values)
            violations = np.where(is_defined, value - self.bound, np.nan)[..., None]
        else:
            violations = values - (self.bounds(names) - self._room)
        violations = self.sign * violations
        violations = np.where(np.isnan(violations), -np.inf, violations)
        return np.asarray(violations.max(axis=-1))

    def value(self, values: Floats) -> float:
        """Return the gap, the ratio, the largest or the smallest rate, depending on the form of the limit."""
        if np.isnan(values).all():
            return float("nan")
        if self.compares:
            return float(self.comparison.of_rates(values))
        smallest, largest = map(float, smallest_and_largest(values))
        if self.from_above:
            return largest
        return smallest

    def __bool__(self) -> bool:
        raise TypeError(
            f"a limit is neither true nor false; write two limits, not a chain: {self!r}"
        )

    def __str__(self) -> str:
        sense = self.form
        if self.compares:
            sense += f" {self.comparison.side}"
        if self.strict:
            sense = "less than"
        if not isinstance(self.bound, tuple):
            return f"{self.rate}: {sense} {self.stated(self.bound)}"
        bounds = []
        for name, value in self.bound:
            words = self.stated(value)
            if name is not None:
                words += f" for {name}"
            elif len(self.bound) > 1:
                words += " for the others"
            bounds.append(words)
        return f"{self.rate}: {sense} {', '.join(bounds)}"

    def stated(self, bound: float) -> str:
        """Return a bound as stated, in percent or not."""
        return stated_words(bound, in_percent=self.in_percent)

    @property
    def text(self) -> str:
        """The limit as a text for `parse`, in percent if stated so."""
        if not self.in_percent:
            return repr(self)
        if isinstance(self.bound, tuple):
            bounds = ", ".join(f"{name!r}: {_percent(value)}" for name, value in self.bound)
            return f"{self._before_bound} {{{bounds}}}"
        return f"{self._before_bound} {_percent(self.bound)}"

    def __repr__(self) -> str:
        bound = self.bound
        if isinstance(bound, tuple):
            bound = dict(bound)
        return f"{self._before_bound} {bound!r}"

    @property
    def _before_bound(self) -> str:
        """The rate and the sign of the limit, as a text for `parse`."""
        sign = self.sense.replace("≤", "<=").replace("≥", ">=")
        left = repr(self.rate)
        if self.compares:
            left = f"{self.form}({left})"
        return f"{left} {sign}"


def _percent(value: float) -> str:
    """Return a bound in percent, as a text for `parse`."""
    return f"{100.0 * value:.15g}%"


def _checked_bound(rate: Rate, bound: Stated) -> float:
    """Return the bound of a limit on a rate as a finite float; one on a share of rows is from 0 to 1.

    Text is a number in percent. Raise TypeError or ValueError if it is none.
    """
    if isinstance(bound, str):
        percent = PERCENT.fullmatch(bound)
        if percent is None:
            raise TypeError(
                f"{rate!r}: a bound must be a number, such as 0.3 or 30%, got {bound!r}"
            )
        bound = float(percent[1]) / 100
    if isinstance(bound, bool) or not isinstance(bound, (Real, np.floating, np.integer)):
        raise TypeError(
            f"{rate!r}: a bound must be a number, a text such as '30%', or a dict of them by "
            f"subgroup, got {bound!r}"
        )
    value = float(bound)
    if not np.isfinite(value):
        raise ValueError(f"{rate!r}: a bound must be finite, got {bound!r}")
    if rate.is_fraction and not 0.0 <= value <= 1.0:
        advice = ""
        if 2.0 <= value <= 100.0:
            advice = f"; write {value / 100:g} for {value:g} %"
        raise ValueError(f"{rate!r}: a rate lies between 0 and 1, got {value:.15g}{advice}")
    return value


def measure(
    rate: Rate,
    y_true: Any,
    answers: Any,
    *,
    groups: Groups = None,
    deferred: Any = None,
    costs: Table = None,
    sample_weight: Column = None,
    labels: Any = None,
) -> dict[Any, float]:
    """Measure a rate of given answers.

    Parameters
    ----------
    rate : Rate
        The rate.
    y_true, answers : array-like of shape (n,)
        True labels and answers. The answer "human review" is a deferred row.
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
            f"rate must be one rate, such as rates.miss(1), got {rate!r}; rates.parse makes one of text"
        )
    check_indexes(y_true=y_true, answers=answers)
    answers, deferred = answers_and_deferred(y_true, answers, labels, deferred)
    rows = Answered.from_arrays(
        y_true,
        answers,
        groups=groups,
        deferred=deferred,
        costs=costs,
        sample_weight=sample_weight,
        labels=labels,
    )
    terms = rate.terms(rows.strata)
    return dict(zip(terms.names, terms.values(rows.counts).tolist(), strict=True))
