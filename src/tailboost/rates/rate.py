"""A rate of decisions: what it counts of the rows, by stratum and row by row, and its words.

A rate is a share of rows, such as the wrongly answered ones among those with a label, or a mean of their
costs. A family has the same rate in each of several subgroups.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core import (
    Derived,
    Floats,
    Name,
    Names,
    Stated,
    frozen_value,
    plain,
    shown,
)
from tailboost.rates.limit import AT_LEAST, AT_MOST, Limit, Limitable
from tailboost.rates.strata import TINY, Counts, Strata
from tailboost.rates.subgroups import CLASS, Sample, Terms, subgroups_of
from tailboost.rows import HUMAN_REVIEW

# A true label and an answer; None stands for each of them.
Pair = tuple[Name, Name]
Pairs = tuple[Pair, ...]
# Parts of the pairs in `TABLE`. LABEL is the label that the rate is about; a rate about none takes that of
# each row. OTHER is each other label, REVIEW is deferral. They are tuples, which no label of a user is.
LABEL = ("label",)
OTHER = ("other",)
REVIEW = ("review",)
PARTS = {"L": LABEL, "O": OTHER, "R": REVIEW, "*": None}


def _pairs(text: str) -> Pairs:
    """Return the pairs of a text, such as "LO" for the rows of the label with another one as answer."""
    return tuple((PARTS[pair[0]], PARTS[pair[1]]) for pair in text.split(",") if pair != "·")


# By the function that makes a rate: the sign of a limit that asks for better answers, the pairs (true label,
# answer) that are counted, those among which, and the printed words. A dot stands for no sign and no pairs. L
# is the label of the rate, or of the row, O another label, R deferral and * each of them. The last two rates
# are means of the losses of rows in the worst population.
TABLE = """
error          ≤ LO    **    error
miss           ≤ LO    L*    miss rate of {rate.label!r}
false_alarm    ≤ OL    O*    false alarm rate of {rate.label!r}
recall         ≥ LL,LR L*    recall of {rate.label!r}
specificity    ≥ OO,OR O*    specificity for {rate.label!r}
selected       · *L    **    selection rate of {rate.label!r}
cost           · **    **    mean cost
deferred       ≤ *R    **    share deferred
precision      ≥ LL    *L    precision of {rate.label!r}
npv            ≥ OO    *O    negative predictive value of {rate.label!r}
jaccard        ≥ LL    L*,*L Jaccard index of {rate.label!r}
f_score        ≥ LL    L*,*L F score of {rate.label!r}, β = {rate.beta:g}
representation · *L    *L    share of the rows answered {rate.label!r}
answered_error ≤ LO    LL,LO error among answered rows
tail           ≤ ·     ·     expected {rate.loss.kind} of the worst {percent:g} % of rows
shift          ≤ ·     ·     expected {rate.loss.kind} within a KL divergence of {rate.level:g}
"""


@frozen_value
class Definition:
    """What a rate counts.

    Parameters
    ----------
    name : str
        Name of the function that makes the rate.
    better : str
        Sign of a limit that asks for better answers: "≤" or "≥", empty if neither does.
    counted, among : tuple of pairs (true label, answer)
        Pairs that count in the numerator, each inside a pair that counts in the denominator. Of a `custom`
        rate they are labels, None for each of them, and the answer "human review", which is deferral unless
        a class is called so.
    words : str
        The printed name: of a `custom` rate it is text, of others a format of the rate.
    """

    name: str
    better: str
    counted: Pairs
    among: Pairs
    words: str


DEFINITIONS = {
    name: Definition(name, better.strip("·"), _pairs(counted), _pairs(among), " ".join(words))
    for name, better, counted, among, *words in map(str.split, TABLE.strip().splitlines())
}


@frozen_value
class Rate(Limitable, Derived):
    """Family of rates: the same count on each subgroup. Made by `error`, `miss` and others.

    A comparison with a number makes a limit: ``selected("yes") <= 0.3``. A dict has a bound for each
    subgroup.

    Parameters
    ----------
    definition : Definition
        What it counts.
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
        Whether this is one minus the rate, of which large values are better.
    loss : Rate, optional
        Of a tail or shift: the rate that is the mean loss of all rows. It has no counts.
    level : float, default=0
        Of a tail the fraction of the rows, of a shift the divergence.
    """

    definition: Definition
    label: Name = None
    by: Any = None
    matrix: tuple[tuple[float, ...], ...] | None = None
    labels: Names | None = None
    beta: float = 1.0
    complement: bool = False
    loss: Rate | None = None
    level: float = 0.0

    def __post_init__(self) -> None:
        if self.complement and self.definition.better != "≥":
            raise ValueError(f"{self!r} is not understood: only gains have a complement")

    def __le__(self, bound: Stated) -> Limit:
        return Limit.of(AT_MOST, self, bound)

    def __ge__(self, bound: Stated) -> Limit:
        return Limit.of(AT_LEAST, self, bound)

    # -- what follows from it ------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Name of the function that makes it."""
        return self.definition.name

    @property
    def better(self) -> str:
        """Sign of a limit that asks for better answers: "≤" or "≥", empty if neither does."""
        if self.complement:
            return "≤"
        return self.definition.better

    @cached_property
    def by_names(self) -> Names:
        """The names in ``by``."""
        if isinstance(self.by, tuple):
            return self.by
        return (self.by,)

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """What it needs beside labels and answers.

        - "groups" of the rows.
        - "costs" of the answers to each row.
        - "deferral": the rule may defer. The rate has a cost of deferral, or counts deferred rows, and not as
          right answers.
        - "mask": which rows are deferred. Two answers by name or more in the denominator are taken to leave
          out deferred rows.
        """
        among = {answer for _, answer in self.definition.among} - {None}
        marks = {REVIEW, HUMAN_REVIEW}
        matrix = self.row_rate.matrix
        if matrix:
            defers = len(matrix[0]) > len(matrix)  # the last column is the cost of deferral
        else:
            defers = any(answer in marks for _, answer in self.definition.counted)
            defers &= self.definition.better != "≥"
        is_needed = {
            "groups": not {None, CLASS}.issuperset(self.by_names),
            "costs": self.quantity == "cost" and not matrix,
            "deferral": defers,
            "mask": defers or among & marks or len(among) > 1,
        }
        return tuple(name for name in is_needed if is_needed[name])

    @property
    def row_rate(self) -> Rate:
        """The rate of which each row has a value: of a tail or shift its loss, else the rate itself."""
        return self.loss or self

    @cached_property
    def quantity(self) -> str:
        """What it counts: a "share" of rows, with a binomial count, a "cost", or a "score" from 0 to 1."""
        if self.row_rate.kind == "cost":
            return "cost"
        if self.loss or self.kind == "f_score":
            return "score"
        return "share"

    @cached_property
    def is_ratio(self) -> bool:
        """Whether the denominator depends on the answers, as of a precision, and not on labels alone."""
        return any(answer is not None for _, answer in self.definition.among)

    @property
    def named_labels(self) -> set[Name]:
        """The labels that it names, also in pairs; those of a matrix of costs do not count."""
        if self.label is not None:
            return {self.label}
        parts = set().union(*self.definition.counted, *self.definition.among)
        return parts.difference(PARTS.values(), [HUMAN_REVIEW])

    @property
    def words_of_rows(self) -> str:
        """Words for the rows in the denominator, if they do not depend on the answers."""
        parts = [part for part, _ in self.definition.among]
        if parts == [OTHER]:
            return f"rows with other labels than {self.label!r}"
        if None in parts:
            return "rows"
        labels = [self.label if part == LABEL else part for part in parts]
        return f"rows with label {' or '.join(map(repr, labels))}"

    # -- counts --------------------------------------------------------------------------------------

    def refuse_uncounted(self) -> None:
        """Raise ValueError for a tail or shift, where a rate of counted answers is needed."""
        if self.loss:
            raise ValueError(
                f"{self!r} is bounded by tailboost.certify alone, because no count of answers "
                f"shows its rows; here take {self.loss!r}, also by group"
            )

    def numerator_and_denominator(self, strata: Strata) -> tuple[Floats, Floats]:
        """Return what counts in the numerator and the denominator by class and action, shape (K, A) each.

        Raise ValueError if a label is unknown, or costs do not fit the classes.
        """
        top = self._in_pairs(self.definition.counted, strata).max(axis=0)
        among = self._in_pairs(self.definition.among, strata)
        bottom = among.max(axis=0)
        if self.kind == "f_score":
            # Found rows of the class are in both pairs, missed ones in the first, false alarms in the second:
            # they weigh 1, β²/(1 + β²) and 1/(1 + β²).
            bottom = np.average(among, axis=0, weights=[self.beta**2, 1.0])
        if self.matrix:
            top = strata.costs_of_actions(self._costs_by_class(strata))
        if self.complement:
            top = bottom - top
        return top, bottom

    def _in_pairs(self, pairs: Pairs, strata: Strata) -> Floats:
        """Return 1 for the classes and actions in each of p pairs, and 0 for others, shape (p, K, A)."""
        K = strata.n_classes
        numbers = np.indices((K, strata.n_actions))
        # The answer "human review" is deferral, which is K, unless a class is called so.
        names = strata.classes, (*strata.classes, HUMAN_REVIEW)
        # Of a rate about no label it is that of each row.
        own = numbers[0] if self.label is None else number_of(self.label, strata.classes)
        masks = []
        for pair in pairs:
            mask = numbers[0] >= 0  # all
            for part, number, known in zip(pair, numbers, names, strict=True):
                if part == LABEL:
                    mask &= number == own
                elif part == OTHER:
                    mask &= (number != own) & (number < K)
                elif part == REVIEW:
                    mask &= number == K
                elif part is not None:
                    mask &= number == number_of(part, known)
            masks.append(mask)
        return np.array(masks, float)

    def _costs_by_class(self, strata: Strata) -> Floats:
        """Return the costs of the matrix with its labels in the order of the classes."""
        costs = np.array(self.matrix)
        K = strata.n_classes
        if len(costs) != K:
            raise ValueError(
                f"cost: the matrix has shape {costs.shape}, and there are {K} classes"
            )
        if self.labels:
            order = np.argsort([number_of(label, strata.classes) for label in self.labels])
            costs = costs[order]
            costs[:, :K] = costs[:, order]
        return costs

    def terms(self, strata: Strata) -> Terms:
        """Return numerators and denominators over confusion counts, for each subgroup.

        Raise ValueError if the label, the groups or the costs of the rate are missing.
        """
        self.refuse_uncounted()
        subgroups = subgroups_of(strata, self.by)
        is_inside = np.array([*subgroups.values()])[:, :, None]  # shape (m, S, 1)
        numerator, denominator = self.numerator_and_denominator(strata)
        top = is_inside * numerator[strata.y]
        # A representation is among the rows of all subgroups.
        bottom = (is_inside | (self.kind == "representation")) * denominator[strata.y]
        # All rows that some answer brings into the denominator.
        mass = (bottom.max(axis=2) > 0) @ strata.mass
        low = 0.0
        high = 1.0
        by_row = "costs" in self.needs
        if by_row:
            if strata.mean_costs is None:
                raise ValueError(
                    f"{self!r} needs the costs of the rows: give costs= (costs_val=), which calibrate, "
                    "predicted and the command line lack, or those of labels: cost([[0, 1], [3, 0]])"
                )
            low, high = strata.cost_range
        elif self.matrix:
            low = float(numerator.min())
            high = float(numerator.max())
        if strata.mean_costs is not None:  # the second half counts costs, as in `Counts.sums`
            nothing = np.zeros_like(top)
            top = np.hstack([nothing, top] if by_row else [top, nothing])
            bottom = np.hstack([bottom, nothing])
        scale = max(TINY, -low, high)  # a divisor, also if all costs are 0
        return Terms([*subgroups], top, bottom, mass, low, high, scale)

    def samples(self, answered: Counts, shares: Floats | None = None) -> list[Sample]:
        """Return the rows behind the rate of each subgroup, with their values.

        The values lie between ``low`` and ``high``. ``shares`` are probabilities of the answers, shape
        (n, A); then values are expected.
        """
        terms = self.terms(answered.strata)
        samples = []
        for name, top, bottom in zip(terms.names, terms.top, terms.bottom, strict=True):
            among = bottom[answered.stratum, answered.actions]
            rows = np.flatnonzero(among)
            values = top[answered.stratum[rows]]  # by answer
            if "costs" in self.needs:
                values = answered.costs[rows]
            if shares is None:
                values = values[np.arange(len(rows)), answered.actions[rows]]
            else:
                values = (values * shares[rows]).sum(axis=1)
            samples.append(Sample(name, rows, values, terms.low, terms.high, among[rows]))
        return samples

    # -- words ---------------------------------------------------------------------------------------

    def __str__(self) -> str:
        words = self.definition.words
        if self.kind != "custom":
            words = words.format(rate=self, percent=100.0 * self.level)
        if self.by is not None:
            words += f" by {' and '.join(map(str, self.by_names))}"
        return f"{'1 − ' * self.complement}{words}"

    def __repr__(self) -> str:
        definition = self.definition
        arguments = [
            self.kind == "custom"
            and f"{definition.words!r}, counted={[*map(list, definition.counted)]}, "
            f"among={[*map(list, definition.among)]}",
            self.level > 0 and f"{self.level!r}",
            self.loss is not None and self.loss.kind != "error" and f"{self.loss!r}",
            self.label is not None and f"{self.label!r}",
            self.matrix is not None and f"{[*map(list, self.matrix)]}",
            self.labels is not None and f"labels={[*self.labels]}",
            self.beta != 1.0 and f"beta={self.beta!r}",
            self.by is not None and f"by={self.by!r}",
        ]
        stated = ", ".join(each for each in arguments if each)
        return f"{'1 - ' * self.complement}{self.kind}({stated})"


def checked_label(label: object) -> Any:
    """Return a label, or a name in `by`, as text or a number, or None; raise TypeError for another type."""
    label = plain(label)
    is_label = isinstance(label, str | int | float | None)
    if not is_label or label in (np.inf, -np.inf) or label != label:
        raise TypeError(f"a label, and a name in by=, must be text or a number, got {label!r}")
    return label


def checked_by(by: object) -> Any:
    """Return the names of subgroups as text, a number, a tuple or None; raise TypeError for another type."""
    if not isinstance(by, list | tuple):
        return checked_label(by)
    if not by:
        raise ValueError("by=() names no column of groups")
    return tuple(map(checked_label, by))


def number_of(label: Name, known: Names) -> int:
    """Return the number of a label among the known ones; raise ValueError if none is called so.

    Text and numbers are different labels. The label 1 is also the class True, but True is no class 1.
    """
    for number, name in enumerate(known):
        if name == label and isinstance(name, bool) >= isinstance(label, bool):
            return number
    raise ValueError(f"nothing is called {label!r}: there are {shown(known)}")
