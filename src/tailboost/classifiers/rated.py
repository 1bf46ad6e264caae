"""Selection for rates: the stated problem, the engine on the selection data, and the selected rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailboost import rates
from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.training_set import GroupNames, Rows
from tailboost.classifiers.plan import (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    LimitBelowNoiseWarning,
    SmallSubgroupsWarning,
    UselessRuleWarning,
)
from tailboost.classifiers.useless import useless
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import as_pandas
from tailboost.core.subgroups import unit_name
from tailboost.core.warn import warn_user
from tailboost.guarantees.fit_summary import Summary
from tailboost.learners.table import TableReader
from tailboost.rates import (
    AT_MOST,
    GAP,
    RATIO,
    Largest,
    Limit,
    Objective,
    Rate,
    Spread,
    Strata,
    checked_limits,
    error,
    largest,
)
from tailboost.rates import InfeasibleLimitsError as InfeasibleLimitsError
from tailboost.selection.candidates import Candidate, Pool, charges, decide
from tailboost.selection.confidence import LimitsOutlook, confident, outlook
from tailboost.selection.counts import SelectionData, Table, plain_state
from tailboost.selection.cvar_candidates import SHOWN, ratio_of, source_name
from tailboost.selection.growth import Growth, grow, solve
from tailboost.selection.probability_tables import Judged, LogTable, Models
from tailboost.selection.program import Program, mixed
from tailboost.selection.rate_table import ROUNDING, RateTable, below_noise
from tailboost.selection.rule import RulePart, log_weights
from tailboost.selection.selecting import ROWS, SOLVED, Selection, seeded, selected, within_budget
from tailboost.selection.stratum_probabilities import StratumProbabilities

# The objectives that have a name, as rates.
NAMED = {
    "error": error(),
    "worst_class": largest(error(by="class")),
    "worst_group": largest(error(by="group")),
    "worst_cell": largest(error(by="cell")),
}
# Weights that differ by no more are the same, for people.
ALIKE = 1e-9
# Columns beyond which groups are inferred from the probabilities, as of images.
MOST_FEATURES = 1000
# A number from a standard normal distribution is larger in 5 % of the draws.
ONE_SIDED = 1.6448536269514722
# By what share of its value one rule that keeps limits may be worse than a draw that keeps them, unsaid, and
# what share of the rows is answered alike where such a rule is said to do so.
DEAR, MOST_ALIKE = 0.1, 0.95
FEW_ROWS = 10  # rates of fewer rows are named in a warning
UNKNOWN = "no probability that limits hold on new rows: confusion counts do not tell how costs of rows vary"
# Such rules kept a gap on new rows in 22 % of 40 draws where 54 % was computed (one score, two groups).
GUESSED = "no probability that limits hold on new rows: the groups are estimated from the scores alone"


def name_of(objective: Any) -> str:
    """Return the name of an objective, which may be stated as a rate."""
    if objective is None or isinstance(objective, str):
        return objective or "worst_class"
    return next((name for name, rate in NAMED.items() if rate == objective), str(objective))


@dataclass(frozen=True)
class Stated:
    """What is made small within which limits."""

    objective: Objective  # a rate, or the largest of a family
    limits: tuple[Limit, ...]  # what has to hold

    # Whether a rule answers where no rule keeps the limits: targets are aims, stated limits are conditions.
    aims: bool = False

    @classmethod
    def of(cls, objective: Any, limits: Any = (), max_error: Any = None) -> Stated | None:
        """Return what parameters state; None for a CVaR, which is no rate.

        With ``max_error`` the overall error is made small within limits on the errors of the subgroups of the
        objective, a largest rate.

        Raises
        ------
        TypeError, ValueError
            If they are no objective and limits, or do not go together.
        """
        found = checked_limits(limits)
        by_name = objective is None or isinstance(objective, str)
        if objective == "cvar":
            if found:
                raise ValueError(
                    "objective='cvar' takes no limits on rates: a tail of rows is no rate of a subgroup"
                )
            return None
        if objective is None and found and max_error is None:
            objective = "error"
        given = NAMED[objective or "worst_class"] if by_name else objective
        if max_error is None:
            return cls(Objective.of(given), found)
        if not isinstance(given, Largest):
            raise ValueError(
                "max_error limits the subgroups of an objective that is the largest rate of a family; "
                "state it as a limit: rates.error(by='class') <= ..."
            )
        return cls(Objective.of(error()), (given.rate <= max_error, *found), aims=not found)

    @property
    def kind(self) -> Any:
        """The subgroups that errors are told of: those of the objective, of a limit, or the classes."""
        said = (self.objective.rate, *(limit.rate for limit in self.limits))
        return next((rate.by for rate in said if rate.by is not None), "class")

    @property
    def rates(self) -> list[Rate]:
        """All rates that are spoken of, each once."""
        return list(dict.fromkeys([self.objective.rate, *(limit.rate for limit in self.limits)]))

    @property
    def needs_groups(self) -> bool:
        """Whether groups are spoken of."""
        return any(rate.needs_groups for rate in self.rates)

    @property
    def needs_costs(self) -> bool:
        """Whether costs of the rows are spoken of."""
        return any(rate.needs_costs for rate in self.rates)

    @property
    def defers(self) -> bool:
        """Whether rows may be passed on: where it is said how many, or what a person's look costs."""
        return any(rate.needs_deferral for rate in self.rates)

    def columns(self, names: tuple[Any, ...]) -> list[int]:
        """Return the numbers of the columns of groups that are spoken of."""
        said: set[Any] = set()
        for rate in self.rates:
            by = rate.by if isinstance(rate.by, tuple) else (rate.by,)
            said |= set(names) if {"group", "cell"} & set(by) else set(by)
        return [j for j, name in enumerate(names) if name in said]

    def strata(
        self,
        rows: Rows,
        classes: Any,
        names: GroupNames | None,
        costs: Floats | None = None,
        *,
        told: bool = False,
    ) -> tuple[Strata, Ints, Ints | None]:
        """Return the strata of rows, the stratum of each, and their groups by column.

        Groups make strata where a rate speaks of them, or where answers are told them.

        Raises
        ------
        ValueError
            If groups or costs are missing, or rates speak of something that is not there.
        """
        numbers, columns, values = None, (), ()  # type: Any, Any, Any
        if self.needs_groups or told:
            if rows.groups is None or names is None:
                raise ValueError("groups are needed, and none were given")
            first = np.cumsum([0, *(len(of) for of in names.values)])
            every = names.titles
            kept = self.columns(every) if names.columns else [0]
            if not kept:  # no column is called so: the rate says it
                kept = list(range(len(every)))
            numbers = (rows.groups if rows.groups.ndim == 2 else rows.groups[:, None]) - first[:-1]
            numbers, columns = numbers[:, kept], tuple(every[j] for j in kept)
            values = tuple(names.values[j] for j in kept)
        if self.needs_costs and costs is None:
            raise ValueError(
                "cost() without a matrix is a mean of costs of the rows: give costs= to fit, and costs_val= "
                "with X_val"
            )
        strata, stratum = Strata.of(
            rows.y,
            numbers,
            rows.weight,
            classes,
            columns,
            values,
            defers=self.defers,
            costs=costs if self.needs_costs else None,
        )
        return strata, stratum, numbers

    def check(self, strata: Strata) -> None:
        """Raise ValueError where something that is spoken of is not there."""
        Program.of_rates(strata, self.objective, self.limits)


def warn_of_noise(limits: Iterable[Limit], strata: Strata) -> None:
    """Warn of limits that so few rows cannot show to be kept, whatever is chosen."""
    for limit in limits:
        if (why := below_noise(limit, strata)) is not None:
            warn_user(why, LimitBelowNoiseWarning)


@dataclass(frozen=True, eq=False)
class Priced:
    """A member of the engine as a member of a mixture: it answers by the models' probabilities."""

    table_: Models
    source: tuple[int, ...]  # those it asks
    belief: StratumProbabilities  # what they and the features say of the stratum
    rule: Candidate

    def predict_table(self, table: LogTable) -> Ints:
        """Return class numbers, shape (n,): of rows that are passed on the label that would be answered."""
        K = self.belief.n_classes
        charged = self._charged(table)
        return decide(charged if len(charged) == 1 else charged[:K])

    def passes_on(self, table: LogTable) -> Mask:
        """Return which rows are passed on, shape (n,)."""
        K = self.belief.n_classes
        if not self.defers:
            return np.zeros(table.n_rows, dtype=bool)
        passed: Mask = decide(self._charged(table)) == K
        return passed

    def as_part(self) -> RulePart:
        """Return what it does as numbers."""
        K, belief = self.belief.n_classes, self.belief
        by_group = self.rule.prices.reshape(K, len(belief.combinations), -1).transpose(1, 0, 2)
        if self.rule.is_constant:
            return RulePart(1.0, {}, [0.0] * K, by_group.tolist(), inferred=belief.infers)
        if belief.factors is not None:
            by_group = by_group * belief.factors.reshape(K, -1, 1).transpose(1, 0, 2)
        return RulePart(1.0, *log_weights(self.table_), by_group.tolist(), inferred=belief.infers).plain

    @property
    def weighs_groups(self) -> bool:
        """Whether its answers weigh p(group | x, y), learned from the other columns."""
        return self.belief.infers and not self.rule.is_constant

    @property
    def defers(self) -> bool:
        """Whether it may pass rows on."""
        return self.rule.prices.shape[1] > self.belief.n_classes

    def _charged(self, table: LogTable) -> Floats:
        if self.rule.is_constant:
            alike = np.ones((1, 1), dtype=np.float32)
            return np.repeat(charges(alike, self.rule.prices[:1]), table.n_rows, axis=1)
        return charges(believed(self.belief, table), self.rule.prices)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))

    @property
    def feature_importances_(self) -> Floats:
        """Mean of those of the models whose probabilities it reads, shape (d,); none of a constant."""
        asked = [self.table_.fitted[i].feature_importances_ for i in self.table_.pooled_models]
        found: Floats = np.mean([each / each.sum() for each in asked], axis=0)
        return np.zeros_like(found) if self.rule.is_constant else found

    def words(self, classes: Any) -> str:
        """Say what it is, for people."""
        K, prices = len(classes), self.rule.prices
        if self.rule.is_constant:
            return f"constant {classes[int(prices[0, :K].argmin())]}"
        of, weight = (
            source_name(self.table_),
            prices[:, :K].max(axis=1) - prices[:, :K].min(axis=1),
        )
        if np.ptp(weight) <= ALIKE * weight.max():
            return of
        return f"{of}, {'class' if len(prices) == K else 'unit'} weights {ratio_of(weight)}"


def believed(belief: StratumProbabilities, table: LogTable) -> Any:
    """Return p(s | x) of the rows of a table, once."""

    def make() -> Any:
        groups = None
        if belief.infers:
            groups = belief.groups_of(known_of(belief, table))
        return belief.of(table.pooled, groups, table.groups if belief.told else None)

    return table.derived(("belief", id(belief)), make)


def known_of(belief: StratumProbabilities, table: LogTable) -> Any:
    """Return what groups are inferred from: the features, or the log-probabilities of all models."""
    if belief.by_features:
        return table.X
    return np.hstack([table[i] for i in range(table.n_models)])


def tells_groups(X: Any) -> bool:
    """Whether groups can be inferred from a table: columns of numbers or categories, and not too many."""
    if not hasattr(X, "shape") or len(X.shape) != 2 or X.shape[1] > MOST_FEATURES:
        return False
    try:
        TableReader().fit(X := as_pandas(X)).transform(X)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(eq=False)
class Rated:
    """The engine on the selection data: kept, so that another selection costs no fit."""

    models: Models
    belief: StratumProbabilities  # p(s | x)
    table: SelectionData  # the selection data
    words: str  # what rows these are
    refit: bool  # whether refits answer instead of the models that are judged on these rows
    # The candidates of each objective whatever the limits, made once; no file has them.
    pools: dict[Objective, Pool] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pools": {}}

    @classmethod
    def of(
        cls,
        stated: Stated,
        judged: Judged,
        X: Any,
        classes: Any,
        names: GroupNames | None,
        *,
        told: bool,
        costs: Floats | None = None,
    ) -> Rated:
        """Return the engine on selection data.

        Parameters
        ----------
        stated : Stated
            What rates it has to know.
        judged : Judged
            The log-probabilities of the models, and their average.
        X : table of n rows, optional
            Features that groups are inferred from; without them the log-probabilities serve.
        classes : ndarray of shape (K,)
            The labels.
        names : GroupNames, optional
            What groups are called.
        told : bool
            Whether rules read the groups.
        costs : ndarray of shape (n, K), optional
            What each answer costs in each row.
        """
        rows = judged.rows
        if costs is not None and stated.defers:
            costs = np.column_stack([costs, np.zeros(len(costs))])
        strata, stratum, numbers = stated.strata(rows, classes, names, costs, told=told)
        stated.check(strata)
        table = judged.table.beside(X)
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
        if told:
            assert numbers is not None
            assert names is not None
            if len(absent := np.setdiff1d(np.arange(len(names.values[0])), numbers)):
                raise ValueError(
                    f"by_group=True: {rows.words} have no row of group(s) "
                    f"{names.values[0][absent].tolist()} to choose on"
                )
        told = told and strata.n_combinations > 1
        reads = not told and strata.n_combinations > 1 and X is not None and tells_groups(X)
        belief = StratumProbabilities(len(classes), strata.combinations, told, reads)
        groups = combination = None
        logs = table.pooled
        if belief.told:
            assert numbers is not None
            combination = strata.find(numbers)
        elif belief.infers:
            assert numbers is not None
            groups = belief.fit_groups(known_of(belief, table), rows.y, numbers, rows.weight, strata)
        belief.calibrate(logs, groups, combination, stratum, rows.base)
        costs = costs if stated.needs_costs else None
        judges = Table(strata, stratum, rows.base, (belief.of(logs, groups, combination),), costs)
        words = f"{rows.words}, groups inferred out of fold" if belief.infers else rows.words
        return cls(judged.models, belief, judges, words, rows.refit or belief.infers)

    def covers(self, stated: Stated, names: GroupNames | None) -> bool:
        """Whether its strata hold all that is spoken of."""
        known = self.table.strata
        every = names.titles if names is not None else ()
        wanted = stated.columns(every) if every != (None,) else [0] * stated.needs_groups
        has_groups = not stated.needs_groups or (
            bool(known.columns) and {every[j] for j in wanted} <= set(known.columns)
        )
        same_costs = (not stated.needs_costs) or self.table.costs is not None
        all_meant = any(rate.by in ("group", "cell") for rate in stated.rates)
        same_columns = not all_meant or set(every) == set(known.columns)
        return has_groups and same_costs and same_columns and stated.defers == known.defers

    def seeded(self, program: Program) -> Pool:
        """Return the candidates of an objective, to which others may be added."""
        if len(program.caps[1]):
            return seeded(self.table, program)
        if program.objective not in self.pools:
            self.pools[program.objective] = seeded(self.table, program)
        return self.pools[program.objective].copy()

    def choose(
        self,
        stated: Stated,
        *,
        error_budget: float | None,
        sharing: bool,
        pool: Pool | None = None,
        confidence: float | None = None,
    ) -> RateChoice:
        """Return the selected rule.

        Parameters
        ----------
        stated : Stated
            Objective and limits.
        error_budget : float, optional
            Error budget.
        sharing : bool
            Whether candidates may share the weight.
        pool : Pool, optional
            Candidates so far, to which others are added.
        confidence : float, optional
            With which probability all limits have to hold on new rows.

        Raises
        ------
        InfeasibleLimitsError
            If limits contradict each other.
        ValueError
            If rates speak of something that is not there.
        """
        program = Program.of_rates(self.table.strata, stated.objective, stated.limits)
        own = self.seeded(program)
        if pool is None:
            pool = own
        else:
            pool.extend(own)
        program = within_budget(pool, program, error_budget)

        def within(program: Program) -> Selection:
            return selected(pool, program, randomized=sharing, budgeted=error_budget is not None)

        found = within(program)
        if found.growth is not None and not (found.growth.feasible or stated.aims):
            raise InfeasibleLimitsError(self._contradiction(pool, found.growth))
        choice = self.choice(stated, program, pool, found, sharing=sharing)
        if not confidence or not stated.limits:
            return choice
        surer = confident(program, found, stated.limits, confidence, self.refit, within)
        if surer is found:
            return replace(choice, confidence=confidence)
        choice = self.choice(stated, program, pool, surer, sharing=sharing)
        return replace(choice, confidence=confidence, untightened=found.value)

    def choice(
        self, stated: Stated, program: Program, pool: Pool, found: Selection, *, sharing: bool
    ) -> RateChoice:
        """Return a selection as a rule that answers, with its table."""
        order = np.argsort(-found.weights, kind="stable")
        members = [self.member(pool.members[number]) for number in found.numbers.tolist()]
        ensemble = MixtureEnsemble(members, found.weights, self.belief.n_classes, order, found.gap)
        return RateChoice(stated, program, pool, found, ensemble, self.words, sharing, self.refit)

    def alone(self, pool: Pool, program: Program, number: int) -> Selection:
        """Return one candidate as a selection."""
        counts, unknown = pool.counts[number], np.full(len(program.limits), np.nan)
        value, excesses = program.value(counts), program.excesses(counts)
        return Selection(np.array([number]), np.ones(1), counts, value, value, excesses, unknown, None)

    def member(self, rule: Candidate) -> Priced:
        """Return a candidate as a member of a mixture."""
        source = tuple(self.models.pooled_models)
        if rule.is_constant:
            source = ()
        elif self.belief.infers and not self.belief.by_features:
            source = tuple(range(len(self.models.names)))  # groups are inferred from all of them
        return Priced(self.models, source, self.belief, rule)

    def _contradiction(self, pool: Pool, growth: Growth) -> str:
        program = growth.program
        counts = np.tensordot(growth.solved.weights, pool.tallies, axes=1)
        named = [program.limits[i] for i in np.flatnonzero(growth.contradicting)] or list(program.limits)
        reached = [limit.said_of(limit.rate.terms(program.strata).values(counts)) for limit in named]
        each = "; ".join(
            f"{limit} (nearest: {value:.4g})" for limit, value in zip(named, reached, strict=True)
        )
        return (
            f"limits: no mixture of decision rules keeps these together on {self.words}: {each}. "
            "What was fitted is kept: reweight(limits=...) goes on from here"
        )


@dataclass(frozen=True)
class Passing:
    """The errors that deferred rows would have been answered with, beside those of the others."""

    deferred: float  # weight of the deferred rows
    error: float  # the error that their labels would have
    others: float  # the error among the answered rows
    noise: float  # standard error of ``error`` if it were that of the others

    @classmethod
    def of(cls, table: Table, members: Sequence[Candidate], weights: Floats) -> Passing:
        """Return them for candidates with weights on the selection data."""
        y, K, total = table.strata.y[table.stratum], table.strata.n_classes, np.zeros(5)
        for weight, member in zip(weights, members, strict=True):
            charged = charges(table.beliefs[member.source], member.prices)
            deferred, wrong = decide(charged) == K, rates.wrong(decide(charged[:K]), y)
            share = weight * table.share
            each = share[deferred], share[deferred & wrong], share[~deferred], share[~deferred & wrong]
            total += [*(part.sum() for part in each), weight * (table.share[deferred] ** 2).sum()]
        passed, wrongly, answered, missed, squares = total.tolist()
        error, others = wrongly / max(passed, 1e-300), missed / max(answered, 1e-300)
        noise = np.sqrt(max(others * (1.0 - others), 0.0) * squares) / max(passed, 1e-300)
        return cls(passed, error, others, float(noise))

    @property
    def gains(self) -> bool:
        """Whether the deferred rows would be answered worse than the others, at the 5 % level."""
        return self.deferred in (0.0, 1.0) or self.error - self.others > ONE_SIDED * self.noise


@dataclass(frozen=True, eq=False)
class RateChoice:
    """The selected rule: its members with their weights, and what it does on the selection data."""

    stated: Stated  # what was asked for
    program: Program  # the objective and all limits, that of the budget included
    pool: Pool  # the candidates
    selection: Selection
    ensemble: MixtureEnsemble  # the members with their shares
    words: str  # the selection data, for people
    sharing: bool  # whether members may share
    refit: bool  # whether refits answer instead of the models that were counted
    confidence: float | None = None  # with which probability limits were to hold on new rows
    untightened: float | None = None  # the objective without this, if limits were tightened

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    @cached_property
    def outlook(self) -> LimitsOutlook | None:
        """The probability that all limits hold on new rows; None where it is not known."""
        if self._guesses_groups:
            return None
        counts = self.selection.counts
        return outlook(self.stated.limits, self.program.strata, counts, self.refit, self.confidence or 0.9)

    @cached_property
    def table(self) -> RateTable:
        """Every rate of the objective and the limits by subgroup, on the selection data."""
        table = self._tabled(self._worth)
        if self.outlook is None and self.stated.limits:
            table = replace(table, notes=(*table.notes, GUESSED if self._guesses_groups else UNKNOWN))
        before, value = self.untightened, self.selection.value
        if before is None:
            return table
        price = f"limits were tightened for this: {self.objective} {value:.4f} instead of {before:.4f}"
        return replace(table, notes=(*table.notes, price))

    @property
    def _guesses_groups(self) -> bool:
        """Whether rules estimate the group from the models' probabilities, without features."""
        beliefs = [member.belief for member in self.ensemble.members]
        return any(belief.infers and not belief.by_features for belief in beliefs)

    def _tabled(self, worth: Sequence[Floats] | None = None) -> RateTable:
        table = RateTable.of(self.program, self.selection.counts, self.words, worth, refit=self.refit)
        return table.expecting(self.outlook)

    @property
    def _worth(self) -> tuple[Floats, ...] | None:
        """The shadow prices of the limits, of the best mixture of all rules."""
        if not self.program.limits:
            return None
        small = self.pool.table.at_hand.thinned(ROWS)
        pool = self.pool.copy() if small is self.pool.table else self.pool.on(small)
        growth = grow(pool, self.program.over(small.strata))
        return growth.program.worth(growth.solved.duals, self.selection.counts)

    def within(self, limits: Sequence[Limit]) -> RateChoice:
        """Return the rule as one that is selected within these limits."""
        program = self.program.within(limits)
        found = replace(self.selection, excesses=program.excesses(self.selection.counts), growth=None)
        return replace(
            self, stated=Stated(self.stated.objective, tuple(limits)), program=program, selection=found
        )

    @cached_property
    def errors(self) -> RateTable:
        """The errors of the subgroups that the problem is about."""
        return self.errors_by(self.stated.kind)

    def errors_by(self, kind: Any) -> RateTable:
        """Return the errors of subgroups."""
        rate = error(by=kind)
        limit = next((each for each in self.program.limits if each.rate == rate and not each.compares), None)
        kind = kind if isinstance(kind, str) else "subgroup"
        strata, counts = self.program.strata, self.selection.counts
        return RateTable.counted([(rate, limit)], strata, counts, self.words, kind=kind, refit=self.refit)

    @property
    def upper(self) -> float | None:
        """The upper end of a 95 % interval for the objective on new rows; None where a rate has none."""
        own = [line for line in self._tabled() if line.rate == str(self.objective.rate) and not line.limit]
        ends = [line.high for line in own if not np.isnan(line.value)]
        return None if np.isnan(ends).any() else max(ends)

    @property
    def passing(self) -> Passing | None:
        """Errors of deferred rows, where rows may be deferred."""
        table, found = self.pool.table.at_hand, self.selection
        if not table.strata.defers:
            return None
        return Passing.of(table, [self.pool.members[i] for i in found.numbers], found.weights)

    @property
    def objective(self) -> Objective:
        """What is made small."""
        return self.program.objective

    @property
    def gap(self) -> float:
        """By how much a draw among the candidates could be better on the selection data."""
        return self.selection.gap

    @property
    def limits_met(self) -> bool | None:
        """Whether all limits are kept on the selection data; None without any, or if no row is limited."""
        return self.selection.keeps if (self.program.of >= 0).any() else None

    def value(self, measured: Objective | Spread) -> float:
        """Return another objective, or the gap or ratio of a family, on the selection data."""
        return measured.value(measured.rate.terms(self.program.strata).values(self.selection.counts))

    def guarantee(self, classes: Sequence[Any], name: str) -> Summary:
        """Return what is reached, beside constants and the most likely class; ``name`` says whose that is."""
        program, found = self.program.within(()), self.selection
        constants = Pool(self.pool.table)
        numbers = constants.constants()
        coin = solve(constants, program)
        best = mixed(coin.solved.weights, constants.counts)
        alone = error().terms(program.strata)
        plain = min(self.pool.counts, key=lambda counts: float(alone.values(counts)[0]))
        even = np.full(len(numbers), 1.0 / len(numbers))
        rule = self.ensemble.members[0].rule if len(found.numbers) == 1 else None
        only = None if rule is None else name
        if rule is not None and rule.is_constant:
            only = f"the constant {classes[int(rule.prices[0, : len(classes)].argmin())]!r}"
        values = [program.value(each) for each in (found.counts, mixed(even, constants.counts), plain, best)]
        ignoring = all(member.rule.is_constant for member in self.ensemble.members)
        return Summary(
            promised=(),
            observed=(),
            achieved=values[0],
            achieved_on_all=values[0],
            dropped=0.0,
            gap=self.gap,
            objective=str(self.objective),
            judged_on=self.words,
            coin_flip_value=values[1],
            erm_value=values[2],
            alone="the most accurate rule",
            constants_value=values[3],
            only=only,
            ignores_features=ignoring,
            largest_error=None,
            is_coin_flip=values[0] >= values[1] - ROUNDING,
            beats_coin_flip_from=None,
            symbols={},
            upper=self.upper,
            units=self.errors,
            draws=len(found.numbers) > 1,
        )

    def warn(self, *, forewarned: bool) -> None:
        """Name the limits that so few rows cannot show to be kept, unless that was said before."""
        if not forewarned:
            warn_of_noise(self.program.limits, self.program.strata)

    def warn_of_missed(self) -> None:
        """Name the limits that the rule does not keep, and those that are below their own noise."""
        found, limits, words = self.selection, self.program.limits, self.words
        for number in np.flatnonzero(found.excesses > SOLVED):
            limit = limits[number]
            values = limit.rate.terms(self.program.strata).values(found.counts)
            alone = not self.sharing and found.drawn[number] <= ROUNDING
            way = (
                f"; randomized=True, a draw among several rules, keeps it there, with {self.objective} of "
                f"{found.bound:.4g} (this rule: {found.value:.4g})"
                if alone
                else ""
            )
            warn_user(
                f"limit not kept on {words}: {limit}, but the best rule found reaches "
                f"{_broken(limit, self.program.strata, values)}{way}",
                BoundNotMetWarning,
            )
        likely, lines = self.outlook, self._tabled()
        if self.confidence and likely is None and self.stated.limits:
            unstated = GUESSED if self._guesses_groups else UNKNOWN
            warn_user(f"confidence={self.confidence:g}: {unstated}", ConfidenceNotReachedWarning)
        if self.confidence is not None and likely is not None and likely.probability < self.confidence:
            warn_user(
                f"no rule found keeps all limits on new rows with probability {self.confidence:g}: this one "
                f"does with {likely.probability:.2f}; {likely.shortfall}. Widen the limits, bring more rows, "
                "or lower confidence=",
                ConfidenceNotReachedWarning,
            )
        if limits and not self.sharing and found.keeps and found.gap > DEAR * abs(found.value):
            most = found.counts[: len(self.program.strata.mass)].sum(axis=0).max()
            warn_user(
                f"the best rule found that keeps the limits on {words} "
                f"{f'answers {most:.1%} of the rows alike and ' if most > MOST_ALIKE else ''}has "
                f"{self.objective}: {found.value:.4g}; randomized=True, a draw among several "
                f"rules, keeps them with {found.bound:.4g}"
            )
        if (why := useless(self.pool, self.program, found)) is not None:
            warn_user(f"useless rule on {words}: {why}", UselessRuleWarning)
        if (passing := self.passing) is not None and not passing.gains:
            warn_user(
                f"deferral gains nothing beyond chance: on {words} the deferred rows would be answered with "
                f"an error of {passing.error:.4f}, the others are with {passing.others:.4f}"
            )
        few = [
            f"{line.rate}{'' if line.unit is None else f' of {unit_name(line.unit)}'}"
            for line in lines
            if 0 < line.rows < FEW_ROWS
        ]
        if few:
            warn_user(
                f"few rows to choose on ({words}): fewer than {FEW_ROWS} for "
                f"{'; '.join(dict.fromkeys(few[:SHOWN]))}{' …' if len(few) > SHOWN else ''}",
                SmallSubgroupsWarning,
            )
        said = {str(limit) for limit in limits if below_noise(limit, self.program.strata) is not None}
        for line in lines:
            noisy = line.unit == GAP and line.high - line.value > line.bound  # the other end stops at 0
            noisy |= line.unit == RATIO and line.value - line.low > 1.0 - line.bound
            if noisy and line.limit not in said:
                warn_user(
                    f"{line.limit}: below the noise of its rates, {line.low:.4f} to {line.high:.4f} on "
                    f"{words}; on fresh rows it may well be broken",
                    LimitBelowNoiseWarning,
                )


def _broken(limit: Limit, strata: Strata, values: Floats) -> str:
    """Return what a limit reaches, by the subgroups that break it."""
    names = limit.rate.terms(strata).names
    if limit.compares or len(names) == 1:
        return f"{limit.said_of(values):.4g}"
    bounds = limit.bounds(names)
    rows = zip(names, values.tolist(), bounds.tolist(), strict=True)
    sign = 1.0 if limit.from_above else -1.0
    beyond = [f"{v:.4g} for {unit_name(n)} (limit {b:g})" for n, v, b in rows if sign * (v - b) > SOLVED]
    return ", ".join(beyond[:SHOWN]) + (" …" if len(beyond) > SHOWN else "")


def stated_pair(stated: Stated) -> tuple[Any, Any]:
    """Return the rates of a trade-off by default: the one that is limited, and the one that is made small.

    That is the rate of the first limit that can be drawn tighter step by step, against the objective. Without
    such a limit it is the overall error, against the objective or, where that is the overall error, against
    the largest error of a class.
    """
    objective = stated.objective
    small = Largest(objective.rate) if objective.worst else objective.rate
    for limit in stated.limits:
        rate = limit.rate
        if limit.compares:
            return Spread(limit.form, rate), small
        limited = rate if rate.by is None else Largest(rate)
        if limit.form == AT_MOST and rate.can_be_lowered and limited != small:
            return limited, small
    return error(), Largest(error(by="class")) if small == error() else small
