"""Selection for rates: the stated problem, the engine on the selection data, and the selected rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailboost._checks import as_pandas
from tailboost._typing import Floats, Ints, Mask
from tailboost.combiners import MixtureEnsemble
from tailboost.data import GroupNames, Rows
from tailboost.learners.table import TableReader
from tailboost.mixture._rule import RulePart, log_weights
from tailboost.mixture._tables import Judged, LogTable, Models
from tailboost.mixture._useless import RateChoice
from tailboost.rates import (
    AT_MOST,
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
from tailboost.thresholds import (
    Belief,
    Growth,
    Member,
    Pool,
    Program,
    Selection,
    SelectionData,
    Table,
    charges,
    confident,
    decide,
    seeded,
    selected,
    within_budget,
)

# The objectives that have a name, as rates.
NAMED = {
    "error": error(),
    "worst_class": largest(error(by="class")),
    "worst_group": largest(error(by="group")),
    "worst_cell": largest(error(by="cell")),
}
# Weights of a member that its name shows.
MOST_WEIGHTS = 10
# Weights that differ by no more are the same, for people.
ALIKE = 1e-9
# Columns beyond which groups are inferred from the probabilities, as of images.
MOST_FEATURES = 1000


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


@dataclass(frozen=True, eq=False)
class Priced:
    """A member of the engine as a member of a mixture: it answers by the models' probabilities."""

    table_: Models
    source: tuple[int, ...]  # those it asks
    belief: Belief  # what they and the features say of the stratum
    rule: Member

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
            self.table_.words(),
            prices[:, :K].max(axis=1) - prices[:, :K].min(axis=1),
        )
        if np.ptp(weight) <= ALIKE * weight.max():
            return of
        return f"{of}, {'class' if len(prices) == K else 'unit'} weights {ratio_of(weight)}"


def believed(belief: Belief, table: LogTable) -> Any:
    """Return p(s | x) of the rows of a table, once."""

    def make() -> Any:
        groups = None
        if belief.infers:
            groups = belief.groups_of(known_of(belief, table))
        return belief.of(table.pooled, groups, table.groups if belief.told else None)

    return table.derived(("belief", id(belief)), make)


def known_of(belief: Belief, table: LogTable) -> Any:
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
    belief: Belief  # p(s | x)
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
        belief = Belief(len(classes), strata.combinations, told, reads)
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

    def member(self, rule: Member) -> Priced:
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


def ratio_of(weights: Floats) -> str:
    """Say how weights are to each other, for people."""
    least = weights[weights > 0].min()
    shown = [f"{weight / least:.3g}" for weight in weights[:MOST_WEIGHTS]]
    return " : ".join(shown + ["…"] * (len(weights) > MOST_WEIGHTS))
