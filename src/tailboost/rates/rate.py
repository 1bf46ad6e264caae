"""Rates of a decision rule and limits on them: what they count, over strata and over rows, and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import permutations
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from tailboost.core import (
    ROUNDING,
    Column,
    Derived,
    Floats,
    Groups,
    Ints,
    Mask,
    Name,
    Stated,
    Table,
    frozen_object,
    frozen_value,
    plain,
    stated_words,
)
from tailboost.rates.strata import CLASS, NAMES_SHOWN, Counts, Sample, Strata
from tailboost.rows import HUMAN_REVIEW

# A true label and an answer; None stands for each of them.
Pair = tuple[Name, Name]
Pairs = tuple[Pair, ...]

# Larger than any cost.
ALL_COSTS = 1e12
TINY = 1e-300
# What a statement takes from a family of rates: each of them or the largest; a limit bounds each of them, or
# their gap or ratio.
EACH = "each"
LARGEST = "largest"
AT_MOST = "at most"
AT_LEAST = "at least"
GAP = "gap"
RATIO = "ratio"
COMPARISONS = (GAP, RATIO)
SIGNS = {"≤": 1.0, "≥": -1.0}
# In the pairs of `KINDS`: the label that the rate is about, or that of the row if it is about none, and
# another label. No label is a tuple.
LABEL = ("label",)
OTHER = ("other",)
PARTS = {"L": LABEL, "O": OTHER, "R": HUMAN_REVIEW, "*": None}
RIGHT = {(LABEL, LABEL), (OTHER, OTHER)}


def _pairs(text: str) -> Pairs:
    """Return the pairs of a text, such as "LO" for the rows of the label with another one as answer."""
    return tuple((PARTS[pair[0]], PARTS[pair[1]]) for pair in text.split(","))


# What rates count: function that makes the rate, pairs that are counted, pairs among which, printed name. L
# is the label of a rate, or of the row, O another label, R human review and * each of them.
TABLE = """
error           LO     **     error
miss            LO     L*     miss rate of {label}
false_alarm     OL     O*     false alarm rate of {label}
recall          LL,LR  L*     recall of {label}
specificity     OO,OR  O*     specificity for {label}
selected        *L     **     selection rate of {label}
cost            **     **     mean cost
deferred        *R     **     share deferred
precision       LL     *L     precision of {label}
npv             OO     *O     negative predictive value of {label}
jaccard         LL     L*,*L  Jaccard index of {label}
f_score         LL     L*,*L  F score of {label}, β = {beta:g}
representation  *L     *L     share of the rows answered {label}
answered_error  LO     LL,LO  error among answered rows
"""
# Counted pairs, pairs among which, and printed name.
KINDS = {
    kind: {"counted": _pairs(counted), "among": _pairs(among), "name": name}
    for kind, counted, among, name in (
        line.split(None, 3) for line in TABLE.split("\n") if line
    )
}
# Means of the losses of rows in the worst population, and their printed names.
WORST = {
    "tail": "expected {0} of the worst {2:g} % of rows",
    "shift": "expected {0} within a KL divergence of {1:g}",
}
# Rates with answers in the denominator of which no safe answer to all rows is best.
LOWERED_RATIOS = ("jaccard", "f_score", "answered_error")


class Bounded(Derived):
    """A rate or a statistic, whose comparison with a number makes a limit."""

    def __lt__(self, bound: Stated) -> NoReturn:
        raise TypeError(f"a limit of {self!r} includes its bound {bound!r}: write <= or >=")

    __gt__ = __lt__


class RateFacts(Bounded):
    """What follows from the parameters of a rate."""

    #: The names in ``by``.
    crossed: tuple[Name, ...]
    #: Whether the subgroups are groups.
    needs_groups: bool
    #: Whether it is a mean of costs, and of given costs of the rows.
    in_costs: bool
    needs_costs: bool
    #: Whether it has a cost of deferral, or counts deferred rows without right answers.
    needs_deferral: bool
    #: Whether it depends on which rows are deferred.
    counts_deferral: bool
    #: Whether it counts wrong answers by name or deferred rows alone, or is one minus a gain.
    counts_faults: bool
    #: Whether large values are better: right answers count.
    is_gain: bool
    #: Whether the denominator depends on the answers.
    is_ratio: bool
    #: Whether it is a share of rows, with a binomial count.
    is_share: bool


@frozen_value
class Rate(RateFacts):
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
    loss : Rate, optional
        Of a tail or shift: the rate that is the mean loss of all rows. It has no counts.
    level : float, default=0
        Of a tail the fraction of the rows, of a shift the divergence.
    counted, among : tuple of pairs (true label, answer), optional
        Pairs that count in the numerator, each inside a pair that counts in the denominator. None stands for
        each label or each answer, the answer "human review" for deferral. Known for all but a `custom` rate.
    name : str, optional
        Printed name, as the pairs.
    """

    kind: str
    label: Name = None
    by: Any = None
    matrix: tuple[tuple[float, ...], ...] | None = None
    labels: tuple[Name, ...] | None = None
    beta: float = 1.0
    complement: bool = False
    loss: Rate | None = None
    level: float = 0.0
    counted: Pairs = ()
    among: Pairs = ()
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, *WORST, "custom"):
            raise ValueError(f"the rate {self.kind!r} is unknown; there are {', '.join(KINDS)}")
        by = plain(tuple(self.by) if isinstance(self.by, list) else self.by)
        if by == ():
            raise ValueError("by=() names no column of groups")
        vars(self).update(KINDS.get(self.kind, {}), label=checked_label(self.label), by=by)
        if self.label is None and "{label}" in self.name:
            raise ValueError(f"{self.kind} needs a label; one called None is written 'None'")

        crossed = by if isinstance(by, tuple) else (by,)
        mean = self.loss or self
        is_right = not RIGHT.isdisjoint(self.counted)
        needs_deferral = not is_right and HUMAN_REVIEW in [answer for _, answer in self.counted]
        if mean.matrix is not None:
            needs_deferral = len(mean.matrix[0]) > len(mean.matrix)
        are_wrong = all(
            label is not None and answer not in (None, HUMAN_REVIEW, label)
            for label, answer in self.counted
        )
        # Two answers by name or more in the denominator are taken to leave out deferred rows.
        named = {answer for _, answer in self.among} - {None}
        vars(self).update(
            crossed=crossed,
            needs_groups=not {None, CLASS}.issuperset(crossed),
            in_costs=mean.kind == "cost",
            needs_costs=mean.kind == "cost" and mean.matrix is None,
            needs_deferral=needs_deferral,
            counts_deferral=needs_deferral or HUMAN_REVIEW in named or len(named) > 1,
            counts_faults=self.complement or self.kind == "deferred" or are_wrong,
            is_gain=is_right and not self.complement,
            is_ratio=bool(named),
            is_share=self.kind not in ("cost", "f_score", *WORST),
        )

    def __le__(self, bound: Stated) -> Limit:
        return Limit.of(AT_MOST, self, bound)

    def __ge__(self, bound: Stated) -> Limit:
        return Limit.of(AT_LEAST, self, bound)

    # -- what is counted -----------------------------------------------------------------------------

    def uncounted(self) -> ValueError:
        """Return the error of a tail or shift where a rate of counted answers is needed."""
        return ValueError(
            f"{self!r} is bounded by tailboost.certify alone, because no count of answers shows "
            f"its rows; here take {self.loss!r}, also by group"
        )

    @property
    def counted_rows(self) -> str:
        """Words for the rows in the denominator, if they do not depend on the answers."""
        words: dict[Name, str] = {
            LABEL: "rows with label {!r}",
            OTHER: "rows with other labels than {!r}",
        }
        return words.get(self.among[0][0], "rows").format(self.label)

    # -- counts --------------------------------------------------------------------------------------

    def tables(self, strata: Strata) -> tuple[Floats, Floats]:
        """Return numerator and denominator by class and action, shape (K, A) each.

        Raise ValueError if a label is unknown, or costs do not fit the classes.
        """
        K = strata.n_classes
        classes, actions = np.indices((K, strata.n_actions))
        own = classes if self.label is None else strata.label(self.label)

        def are(numbers: Ints, part: Name) -> Mask:
            """Return where classes or actions are a part of a pair."""
            if part == OTHER:
                return (numbers != own) & (numbers < K)
            number_of = {None: numbers, LABEL: own, HUMAN_REVIEW: K}
            number = number_of[part] if part in number_of else strata.label(part)
            return numbers == number

        counted, among = (
            np.array([are(classes, label) & are(actions, answer) for label, answer in pairs])
            for pairs in (self.counted, self.among)
        )
        top = counted.max(axis=0) * 1.0
        bottom = among.max(axis=0) * 1.0
        if self.kind == "f_score":
            bottom = np.average(among, axis=0, weights=[self.beta**2, 1.0])
        if self.matrix is not None:
            costs = np.array(self.matrix, dtype=np.float64)
            if len(costs) != K or len(self.labels or costs) != K:
                raise ValueError(
                    f"cost: the matrix has shape {costs.shape}, and there are {K} classes"
                )
            if self.labels is not None:
                order = np.argsort([strata.label(label) for label in self.labels])
                costs = costs[order][:, [*order, *range(K, costs.shape[1])]]
            # A cost of deferral is left out without deferral; a missing one is 0.
            top = np.pad(costs, ((0, 0), (0, 1)))[:, : strata.n_actions]
        if self.complement:
            top = bottom - top
        return top, bottom

    def terms(self, strata: Strata) -> Terms:
        """Return numerators and denominators over confusion counts, for each subgroup.

        Raise ValueError if the label, the groups or the costs of the rate are missing.
        """
        if self.loss:
            raise self.uncounted()
        if self.needs_costs and strata.mean_costs is None:
            raise ValueError(
                f"{self!r} needs the costs of the rows: give costs= (costs_val=), which calibrate "
                "and the command line lack, or the costs of labels, as in cost([[0, 1], [3, 0]])"
            )
        names, is_in_subgroup = strata.subgroups(self.by)
        inside = is_in_subgroup[:, :, None]  # shape (m, S, 1)
        numerator, denominator = self.tables(strata)
        top = inside * numerator[strata.y]
        bottom = (inside | (self.kind == "representation")) * denominator[strata.y]
        # All rows that some answer brings into the denominator.
        mass = (bottom.max(axis=2) > 0) @ strata.mass
        low, high = 0.0, 1.0
        if self.needs_costs:
            low, high = strata.cost_range
        elif self.kind == "cost":
            low, high = float(numerator.min()), float(numerator.max())
        if strata.mean_costs is not None:
            # Confusion counts have costs after weights: a rate of costs has its numerator there.
            n_strata = len(strata.mass)
            before = n_strata * self.needs_costs
            top = np.pad(top, ((0, 0), (before, n_strata - before), (0, 0)))
            bottom = np.pad(bottom, ((0, 0), (0, n_strata), (0, 0)))
        scale = max(TINY, abs(low), abs(high))  # a divisor, also if all costs are 0
        return Terms(names, top, bottom, mass, low, high, scale)

    def samples(self, answered: Counts, shares: Floats | None = None) -> list[Sample]:
        """Return the rows of each subgroup with their values; the rate is the mean of the values.

        A rate is the mean of values between ``low`` and ``high``, so certificates of a bounded mean apply.
        ``shares`` are probabilities of the answers, shape (n, A); then values are expected.
        """
        terms = self.terms(answered.strata)
        samples = []
        for name, top, bottom in zip(terms.names, terms.top, terms.bottom, strict=True):
            among = bottom[answered.stratum, answered.actions]
            rows = np.flatnonzero(among)
            of_answers = top[answered.stratum[rows]]
            if self.needs_costs:
                of_answers = answered.costs[rows]
            if shares is None:
                values = of_answers[np.arange(len(rows)), answered.actions[rows]]
            else:
                values = (of_answers * shares[rows]).sum(axis=1)
            samples.append(Sample(name, rows, values, terms.low, terms.high, among[rows]))
        return samples

    # -- words ---------------------------------------------------------------------------------------

    def __str__(self) -> str:
        words = self.name
        if self.kind != "custom":
            words = words.format(label=repr(self.label), beta=self.beta)
        by = "" if self.by is None else f" by {' and '.join(map(str, self.crossed))}"
        return f"{'1 − ' * self.complement}{words}{by}"

    def __repr__(self) -> str:
        loss = None if self.loss and self.loss.kind == "error" else self.loss
        stated = [
            ("", self.level or None),
            ("", loss),
            ("", self.label),
            ("", self.matrix and list(map(list, self.matrix))),
            ("labels=", self.labels and list(self.labels)),
            ("beta=", None if self.beta == 1.0 else self.beta),
            ("by=", self.by),
        ]
        if self.kind == "custom":
            counted, among = (list(map(list, pairs)) for pairs in (self.counted, self.among))
            stated = [("", self.name), ("counted=", counted), ("among=", among), *stated]
        arguments = [f"{word}{value!r}" for word, value in stated if value is not None]
        call = f"{self.kind}({', '.join(arguments)})"
        return f"1 - {call}" if self.complement else call


@frozen_object
class Terms:
    """Rates over confusion counts N: ⟨top, N⟩ / ⟨bottom, N⟩ for each of m subgroups."""

    names: list[Name]  # of the subgroups
    top: Floats  # shape (m, W, A); W is S, or 2 S if the counts also contain costs
    bottom: Floats  # shape (m, W, A)
    mass: Floats  # shape (m,): weight in the denominator; for a ratio, weight of the subgroup
    low: float  # the smallest and the largest possible value of a row
    high: float
    scale: float  # of the values: 1 for fractions, for costs the largest absolute one

    def values(self, counts: Floats) -> Floats:
        """Return the rates of confusion counts (…, W, A), NaN if the denominator is 0, shape (…, m)."""
        over = ([-2, -1], [1, 2])
        counted = np.tensordot(counts, self.top, over)
        among = np.tensordot(counts, self.bottom, over)
        with np.errstate(invalid="ignore"):
            return np.where(among > 0, counted / among, np.nan)

    def beyond(self, level: float | Floats) -> Floats:
        """Return matrices C with ⟨C, N⟩ ≤ 0 exactly if the rate of a subgroup is at most its level.

        They exist for ratios and for linear rates, and are scaled by the mass of the subgroup: beyond 0 a
        linear rate is ⟨C, N⟩. ``level`` is a number, or has the shape (m,); the result has (m, W, A).
        """
        scale = np.where(self.mass > 0, self.mass, 1.0)[:, None, None]
        return (self.top - np.reshape(level, (-1, 1, 1)) * self.bottom) / scale


class Form(Bounded):
    """What follows from the form of a statistic."""

    #: Whether the largest rate of the family is meant, or the gap or ratio between subgroups.
    worst: bool
    compares: bool
    #: Whether a bound is an upper bound, also as "≤" or "≥".
    from_above: bool
    sense: str
    #: The violation of a bound is ``sign`` times rate minus bound.
    sign: float
    #: The signs of the bounds of each rate for a certificate.
    sides: str


@frozen_value
class Statistic(Form):
    """Each rate of a family, or one number of all: made by `largest`, `gap` or `ratio`.

    The largest rate is for objectives. A comparison of a gap or ratio with a number makes a limit.

    Parameters
    ----------
    form : {"each", "largest", "gap", "ratio"}
        The number of the family. Of a single rate "each" is the rate itself.
    rate : Rate
        The family.
    """

    form: str
    rate: Rate

    def __post_init__(self) -> None:
        if not isinstance(self.rate, Rate):
            raise TypeError(
                f"{self.form} takes a rate, such as error(by='class'), got {self.rate!r}"
            )
        if self.rate.loss and self.form not in (EACH, AT_MOST):
            raise ValueError(f"{self.rate!r} has an upper bound alone: write it with <=")
        compares = self.form in COMPARISONS
        sense = "≥" if self.form in (AT_LEAST, RATIO) else "≤"
        has_both_sides = (compares or self.form == EACH) and not self.rate.loss
        vars(self).update(
            worst=self.form == LARGEST,
            compares=compares,
            from_above=sense == "≤",
            sense=sense,
            sign=SIGNS[sense],
            sides="≤≥" if has_both_sides else sense,
        )

    def __le__(self, bound: Stated) -> Limit:
        if self.form != GAP:
            raise ValueError(
                f"{self!r} has no upper bound: a ratio is limited from below, rates each"
            )
        return self.within(bound)

    def __ge__(self, bound: Stated) -> Limit:
        if self.form != RATIO:
            raise ValueError(f"{self!r} has no lower bound: gap(...) <= 0.02")
        return self.within(bound)

    @property
    def most(self) -> float:
        """The loosest limit, which each rule satisfies: 1 for fractions and gaps, for costs the largest."""
        if self.form == RATIO:
            return 0.0
        if not self.rate.in_costs:
            return 1.0
        return max(map(max, self.rate.matrix or [(ALL_COSTS,)]))

    def within(self, level: Stated) -> Limit:
        """Return the limit at a level."""
        return Limit.of(self.form if self.compares else AT_MOST, self.rate, level)

    def keeps(self, value: float, bound: float) -> bool | None:
        """Return whether a value satisfies a bound of it; None if one of them is NaN."""
        excess = self.sign * (value - bound)
        return None if np.isnan(excess) else bool(excess <= ROUNDING)

    def value(self, values: Floats) -> float:
        """Return the gap, the ratio, the largest or the smallest rate, depending on the form.

        Undefined rates are NaN and do not count. The ratio of two rates of 0 is 1.
        """
        smallest, largest = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
        if self.form == GAP:
            return largest - smallest
        if self.form == RATIO:
            return 1.0 if largest == 0 else smallest / largest
        return largest if self.from_above else smallest

    def __str__(self) -> str:
        words = {EACH: f"{self.rate}", LARGEST: f"largest {self.rate}"}
        return words.get(self.form, f"{self.rate}: {self.form}")

    def __repr__(self) -> str:
        return repr(self.rate) if self.form == EACH else f"{self.form}({self.rate!r})"


@frozen_value
class Limit(Statistic):
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
    in_percent : bool, default=False
        Whether the bound was stated in percent, and is printed so.
    """

    bound: Stated
    in_percent: bool = field(default=False, compare=False, repr=False)

    __le__ = __ge__ = Bounded.__lt__  # a limit has one bound

    @classmethod
    def of(cls, form: str, rate: Rate, bound: Stated) -> Limit:
        """Return the limit, checked as far as possible without rows.

        Raises
        ------
        TypeError, ValueError
            If the bound is not a number, or is outside of the possible range.
        """
        compares = form in COMPARISONS
        low, high = 0.0, 1.0
        if rate.in_costs and form != RATIO:
            high = ALL_COSTS
        if rate.in_costs and not compares:
            low = -ALL_COSTS
        by_name = isinstance(bound, Mapping) and bool(bound) and not compares
        in_percent = False
        numbers = {}
        for name, each in (bound if by_name else {None: bound}).items():
            number: object = each
            if str(each).endswith("%"):
                in_percent = True
                number = float(each[:-1]) / 100
            if isinstance(number, bool) or not isinstance(number, Real):
                raise TypeError(
                    f"{rate!r}: a bound must be a number, a text such as '30%', or a dict of "
                    f"them by subgroup, got {each!r}"
                )
            if not low <= float(number) <= high:
                raise ValueError(
                    f"{rate!r}: the bound must be from {low:g} to {high:g}, got {each!r}"
                )
            numbers[plain(name)] = float(number)
        if compares and (rate.is_ratio or rate.by is None):
            # Intervals take the rates of subgroups as independent. Of 400 true gaps of a representation 10 %
            # were outside of their 95 % interval, of gaps of selection rates 3 %.
            cure = "name subgroups to compare, for example by='group'"
            if rate.is_ratio:
                cure = "the denominator depends on the answers: limit each subgroup instead"
            raise ValueError(f"{form}({rate!r}): {cure}")
        stated = tuple(numbers.items()) if by_name else numbers[None]
        return cls(form, rate, stated, in_percent=in_percent)

    def levels(self, names: list[Name]) -> Floats:
        """Return the bound of each subgroup, NaN for a free one, shape (m,); 0 if the rates are compared.

        Raise ValueError with all named subgroups with a bound that do not exist.
        """
        if self.compares:
            return np.zeros(len(names))
        bound_of = dict(self.bound) if isinstance(self.bound, tuple) else {None: self.bound}
        unknown = list(bound_of.keys() - {None, *names})
        if unknown:
            raise ValueError(
                f"{self!r}: no subgroup is called {' or '.join(map(repr, unknown))}: there are "
                f"{names[:NAMES_SHOWN]}"
            )
        rest = bound_of.get(None, np.nan)
        return np.array([bound_of.get(name, rest) for name in names], dtype=np.float64)

    def inequalities(self, terms: Terms) -> list[tuple[Floats, float, float]]:
        """Return the inequalities ``⟨matrix, N⟩ + free z ≤ bound`` of the limit over confusion counts N.

        ``terms`` are those of the limited rate. The inequalities are scaled to rates of about 1. Subgroups
        without rows and free subgroups have none. Of a gap or ratio, each rate is at most the free variable
        z, and at least a z − c for the `pair` (a, c). Raise ValueError for a ratio of rates that may be
        negative.
        """
        defined = terms.mass > 0
        if self.compares:
            self.refuse_negative(terms.low)
            matrices = terms.beyond(0.0)[defined] / terms.scale
            a, c = self.pair
            below = [(matrix, -1.0, 0.0) for matrix in matrices]
            return below + [(-matrix, a, c / terms.scale) for matrix in matrices]
        levels = self.levels(terms.names)
        limited = defined & ~np.isnan(levels)
        matrices = self.sign / terms.scale * terms.beyond(np.nan_to_num(levels))[limited]
        return [(matrix, 0.0, 0.0) for matrix in matrices]

    def refuse_negative(self, lowest_rate: float) -> None:
        """Raise ValueError for a ratio of rates that may be negative."""
        if lowest_rate < 0 and self.form == RATIO:
            raise ValueError(
                f"{self!r}: a ratio of rates that may be negative has no bound; limit the gap"
            )

    def interval(self, lower: Floats, upper: Floats) -> tuple[float, float]:
        """Return the bounds on a gap or ratio from those on each rate, shape (m,) each."""
        highest = lower.max()
        pairs = [(min(upper.min(), highest), highest)]
        pairs += [(lower[i], upper[j]) for i, j in permutations(range(len(lower)), 2)]
        values = [self.value(np.array(pair)) for pair in pairs]
        return (values[0], max(values)) if self.from_above else (min(values), values[0])

    @property
    def pair(self) -> tuple[float, float]:
        """The numbers (a, c) of a gap or ratio, which is kept if a rᵢ − rⱼ ≤ c for all pairs of rates.

        They are called ``factor`` and ``gap``: 1 and the largest gap, or the smallest ratio and 0.
        """
        return (1.0, self.bound) if self.form == GAP else (self.bound, 0.0)

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

    def against(self, shares: Floats) -> Floats:
        """Return shares of rows as shares that count against the limit: complements for a lower bound."""
        return shares if self.from_above else 1.0 - shares

    def allowed(self, names: list[Name]) -> Floats:
        """Return the largest share that may count against the limit in each subgroup, NaN for a free one."""
        levels = self.levels(names)
        return levels if self.from_above else 1.0 - levels

    def violation(self, largest: Floats, smallest: Floats) -> Floats:
        """Return the violation by the largest and the smallest of ``sign * (rate - level)``; 0 for NaN.

        Of compared rates no pair has less room than the largest and the smallest one.
        """
        if self.compares:
            a, c = self.pair
            largest = largest - a * smallest - c
        return np.fmax(largest, 0.0)

    def __bool__(self) -> bool:
        raise TypeError(
            f"a limit is neither true nor false; write two limits, not a chain: {self!r}"
        )

    def __str__(self) -> str:
        sense = {GAP: "gap at most", RATIO: "ratio at least"}.get(self.form, self.form)
        bounds = self.bound if isinstance(self.bound, tuple) else ((None, self.bound),)
        words = [
            stated_words(value, in_percent=self.in_percent)
            + (f" for {name}" if name is not None else " for the others" * (len(bounds) > 1))
            for name, value in bounds
        ]
        return f"{self.rate}: {sense} {', '.join(words)}"

    def __repr__(self) -> str:
        """Return the limit as a text for `parse`, in percent if stated so."""

        def words(value: float) -> str:
            return f"{100.0 * value:.15g}%" if self.in_percent else repr(value)

        left = f"{self.form}({self.rate!r})" if self.compares else repr(self.rate)
        right = self.bound
        if isinstance(right, tuple):
            right = f"{{{', '.join(f'{name!r}: {words(value)}' for name, value in right)}}}"
        else:
            right = words(right)
        return f"{left} {'<=' if self.from_above else '>='} {right}"


def checked_label(label: object) -> Any:
    """Return a label as text or a number, or None; raise TypeError for another type."""
    label = plain(label)
    if not isinstance(label, str | int | float | None):
        raise TypeError(f"a label must be text or a number, got {label!r}")
    return label


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
            f"rate must be one rate, such as rates.miss(1), got {rate!r}; rates.parse makes "
            "one of text"
        )
    rows = Counts.answered(y_true, answers, groups, deferred, costs, sample_weight, labels)
    terms = rate.terms(rows.strata)
    return dict(zip(terms.names, terms.values(rows.of(rows.actions)).tolist(), strict=True))
