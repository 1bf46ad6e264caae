"""A mixture chosen for rates: what is stated, the engine on the rows of the choice, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tailboost import rates
from tailboost._checks import as_pandas
from tailboost._typing import Floats, Ints, Mask
from tailboost._units import unit_name
from tailboost._warn import warn_user
from tailboost.classifiers.plan import BoundNotMetWarning, LimitBelowNoiseWarning, SmallUnitsWarning
from tailboost.combiners import Mixture, MixtureEnsemble
from tailboost.data import GroupNames, Rows
from tailboost.learners.table import TableReader
from tailboost.mixture._members import SHOWN, ratio_of, source_name
from tailboost.mixture._rule import RulePart, log_weights
from tailboost.mixture._tables import Judged, LogTable, Models, Source, sources
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
from tailboost.statements.guarantee import Guarantee
from tailboost.thresholds import (
    ROUNDING,
    Belief,
    Choice,
    Growth,
    Member,
    Pool,
    Program,
    RateTable,
    Reading,
    Singles,
    Table,
    Tally,
    below_noise,
    charges,
    decide,
    grow,
    join_by_group,
    mixed,
    play,
    restricted,
    shared,
    single,
    spread,
)

# The objectives that have a name, as rates.
NAMED = {
    "error": error(),
    "worst_class": largest(error(by="class")),
    "worst_group": largest(error(by="group")),
    "worst_cell": largest(error(by="cell")),
}
# Those that are made small by the errors of rows: see `tailboost.combiners`.
UNITS = ("worst_class", "worst_group", "worst_cell", "cvar")
# Sources of probabilities whose members join, the best by log loss.
MOST_SOURCES = 2
# Rounds of the player that looks for weights of the units, and the prices of the mean error beside them.
ROUNDS, PRICES = 80, (0.0, 0.2, 0.4, 0.6, 0.8)
# Where groups are inferred, budgets of the mean error at which members are grown from more than so many rows:
# on fewer, what is grown by counting fits chance more than what is played.
BUDGETS, GROWN_ROWS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05), 100_000
# Weights that differ by no more are the same, for people.
ALIKE = 1e-9
# Columns beyond which groups are inferred from the probabilities, as of images.
MOST_FEATURES = 1000
# Pseudo-rows by which counts of few rows are doubted, for each of the mixture's shrinkage.
DOUBT = 3.0


def name_of(objective: Any) -> str:
    """Return the name of an objective, which may be stated as a rate."""
    if objective is None or isinstance(objective, str):
        return objective or "worst_class"
    return next((name for name, rate in NAMED.items() if rate == objective), str(objective))


# Rows on which what folds say of groups is corrected by what answers.
CORRECTED_ROWS = 5_000
# Part of what models of groups know of rows they learnt from, by likelihood, that they must know of others;
# and the part from which models of folds stand for those that answer, unless so many rows are believed alike.
# What seems to be done otherwise is there that models of more rows remember less of each: limits would be
# kept too well, at the cost of errors.
LEAST_KNOWN, MOST_KNOWN, ALIKE_ROWS = 0.2, 0.6, 4
# A number from a standard normal distribution is larger in 5 % of the draws.
ONE_SIDED = 1.6448536269514722
# By what share of its value one rule that keeps limits may be worse than a draw that keeps them, unsaid, and
# what share of the rows is answered alike where such a rule is said to do so.
DEAR, MOST_ALIKE = 0.1, 0.95
FEW_ROWS = 10  # rates of fewer rows are named in a warning


@dataclass(frozen=True)
class Stated:
    """What is made small within which limits."""

    objective: Objective  # a rate, or the largest of a family
    limits: tuple[Limit, ...]  # what has to hold

    @classmethod
    def units(cls, name: str) -> Stated:
        """Return that the largest error of the units of a named objective is small; of a CVaR the classes."""
        return cls(Objective.of(NAMED.get(name, NAMED["worst_class"])), ())

    @classmethod
    def of(cls, objective: Any, limits: Any, max_error: Any = None) -> Stated | None:
        """Return what parameters state; None for a CVaR or the largest error of units, without limits.

        Raises
        ------
        TypeError, ValueError
            If they are no objective and limits, or do not go together.
        """
        found = checked_limits(limits)
        by_name = objective is None or isinstance(objective, str)
        if not found and name_of(objective) in UNITS:
            return None
        if objective == "cvar":
            raise ValueError("objective='cvar' takes no limits on rates: a tail of rows is no rate of a unit")
        given = NAMED[objective or "error"] if by_name else objective
        if max_error is not None:
            if not isinstance(given, Largest):
                raise ValueError(
                    "max_error limits the units of an objective that is the largest rate of a family; "
                    "state it as a limit: rates.error(by='class') <= ..."
                )
            found = (given.rate <= max_error, *found)
        return cls(Objective.of(given), found)

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
    source: Source  # those it asks
    score: Source  # those whose log-probabilities are averaged
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
        weights, offsets = log_weights(self.table_, self.score)
        return RulePart(1.0, weights, offsets, by_group.tolist(), inferred=belief.infers)

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
        return charges(believed(self.belief, self.rule.source, self.score, table), self.rule.prices)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))

    @property
    def feature_importances_(self) -> Floats:
        """Mean of those of the models whose probabilities it reads, shape (d,); none of a constant."""
        asked = [self.table_.fitted[i].feature_importances_ for i in self.score]
        found: Floats = np.mean([each / each.sum() for each in asked], axis=0)
        return np.zeros_like(found) if self.rule.is_constant else found

    def words(self, classes: Any) -> str:
        """Say what it is, for people."""
        K, prices = len(classes), self.rule.prices
        if self.rule.is_constant:
            return f"constant {classes[int(prices[0, :K].argmin())]}"
        of, weight = (
            source_name(self.table_, self.score),
            prices[:, :K].max(axis=1) - prices[:, :K].min(axis=1),
        )
        if np.ptp(weight) <= ALIKE * weight.max():
            return of
        return f"{of}, {'class' if len(prices) == K else 'unit'} weights {ratio_of(weight)}"


def believed(belief: Belief, number: int, score: Source, table: LogTable) -> Any:
    """Return p(s | x) of the rows of a table, once."""

    def make() -> Any:
        groups = table.said
        if groups is None:
            groups = table.derived(("groups", id(belief)), lambda: belief.groups_of(known_of(belief, table)))
        return belief.of(number, table[score], groups)

    def told() -> Any:
        return belief.of(number, table[score], None, table.groups)

    return table.derived(("belief", id(belief), number), make if belief.infers else told)


def known_of(belief: Belief, table: LogTable) -> Any:
    """Return what groups are inferred from: the features, or the log-probabilities of all models."""
    if belief.by_features:
        return table.X
    return np.hstack([table[(i,)] for i in range(table.n_models)])


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
    """The engine on the rows of a choice: kept, so that another choice costs no fit."""

    models: Models
    scores: list[Source]  # the sources: models whose log-probabilities are averaged, the best first
    belief: Belief  # p(s | x)
    table: Table
    pool: Pool  # the members so far
    words: str  # what rows these are
    # Shape (K, G, n): p(combination of groups | x, y) of them, out of fold, where groups are inferred.
    said: Singles | None = None

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
        averages: bool,
        costs: Floats | None = None,
        most_sources: int | None = MOST_SOURCES,
    ) -> Rated:
        """Return the engine on judged rows.

        Parameters
        ----------
        stated : Stated
            What rates it has to know.
        judged : Judged
            The log-probabilities of the models.
        X : table of n rows, optional
            Features that groups are inferred from; without them the log-probabilities serve.
        classes : ndarray of shape (K,)
            The labels.
        names : GroupNames, optional
            What groups are called.
        told : bool
            Whether the groups are told where it answers.
        averages : bool
            Whether averages of models join.
        costs : ndarray of shape (n, K), optional
            What each answer costs in each row.
        most_sources : int, optional
            How many sources join, the best by log loss first; None takes all as they come.
        """
        rows = judged.rows
        if costs is not None and stated.defers:
            costs = np.column_stack([costs, np.zeros(len(costs))])
        strata, stratum, numbers = stated.strata(rows, classes, names, costs, told=told)
        stated.check(strata)
        table = judged.table.beside(X)
        scores = sources(len(judged.models.names), averages)
        if most_sources is not None:
            scores = _best(scores, table, rows)[:most_sources]
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
        if belief.told:
            assert numbers is not None
            combination = strata.find(numbers)
        elif belief.infers:
            assert numbers is not None
            some = spread(stratum, CORRECTED_ROWS)
            groups, *of_some = belief.fit_groups(
                known_of(belief, table), rows.y, numbers, rows.weight, strata, some
            )
        beliefs = []
        for number, score in enumerate(scores):
            if groups is not None:
                belief.calibrate(number, table[score], groups, stratum, rows.base)
            beliefs.append(belief.of(number, table[score], groups, combination))
        half = rows.halves()
        judges = Table(
            strata, stratum, rows.base, tuple(beliefs), costs if stated.needs_costs else None, half
        )
        words = f"{rows.words}, groups inferred out of fold" if belief.infers else rows.words
        if groups is not None:
            logs = [table[score][some] for score in scores]
            own, learnt = ([belief.of(i, log, said) for i, log in enumerate(logs)] for said in of_some)
            most = np.inf if len(np.unique(own[0], axis=1).T) * ALIKE_ROWS <= len(some) else MOST_KNOWN
            if LEAST_KNOWN <= _known(groups, of_some[1], some, stratum, rows, strata) < most:
                judges = judges.corrected(some, own, learnt)
        return cls(judged.models, scores, belief, judges, Pool(judges), words, groups)

    def anew(self) -> Rated:
        """Return the engine with an empty pool: what was learnt of groups is kept."""
        return replace(self, pool=Pool(self.table))

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

    def choose(
        self, stated: Stated, *, mean_budget: float | None, sharing: bool, shrinkage: float
    ) -> RateChoice:
        """Return the choice.

        Raises
        ------
        InfeasibleLimitsError
            If limits contradict each other; the members made meanwhile are kept.
        ValueError
            If rates speak of something that is not there.
        """
        program = Program.of_rates(self.table.strata, stated.objective, stated.limits)
        pseudo_rows = DOUBT * shrinkage
        expected, growth = grow(self.pool, program, range(len(self.scores)), pseudo_rows, mean_budget)
        reading = self.table.reading(pseudo_rows)
        if not growth.feasible:
            raise InfeasibleLimitsError(self._contradiction(growth))
        # With nothing to keep one rule is best, and a draw of several would gain by chance alone.
        among_several = sharing and (program.objective.worst or bool(growth.program.limits))
        choice = (shared if among_several else single)(self.pool, growth, reading)
        tally = mixed(choice.weights, [self.pool.tallies[i].counted for i in choice.numbers])
        # What is expected is smooth in the bounds, what is counted a staircase.
        worth = expected.program.worth(expected.solved.duals, tally) if expected.feasible else None
        elsewhere, passing = self._elsewhere(growth.program, among_several, reading)
        ensemble = MixtureEnsemble(
            [self.member(number) for number in choice.numbers.tolist()],
            choice.weights,
            self.belief.n_classes,
            np.argsort(-choice.weights, kind="stable"),
            choice.gap,
        )
        table = RateTable.of(growth.program, tally, elsewhere, self.words, worth)
        return RateChoice(stated, growth.program, choice, tally, passing, ensemble, table, sharing)

    def thresholds(
        self, stated: Stated, n_thresholds: int, shrinkage: float, *, with_constants: bool
    ) -> list[int]:
        """Make members for the largest rate of a family, at several prices of the mean error; return numbers.

        Where groups are told, each plays its own game on its cells, and what is best in each is joined.
        """
        program = Program.of_rates(self.table.strata, stated.objective, stated.limits)
        every, blind = range(len(self.scores)), not self.belief.told
        plain = self.pool.seed(every, constants=False)
        constants = self.pool.seed(every)[len(plain) :] if with_constants else []
        for source in every:
            made = [plain[source]]
            if n_thresholds:
                made += self._played(program if blind else self._cells, source, n_thresholds, shrinkage)
            if not blind:
                join_by_group(self.pool, program, [*made, *constants], DOUBT * shrinkage)
        if self.belief.infers and n_thresholds and self.table.n_judged > GROWN_ROWS:
            self._grow(program, DOUBT * shrinkage)
        others = (i for i in range(len(self.pool.members)) if i not in constants)
        return [*others, *dict.fromkeys(constants)]

    def _grow(self, program: Program, pseudo_rows: float) -> None:
        """Add what the program chooses at several budgets: of many units a game makes few such answers."""
        reading = self.table.reading(pseudo_rows)
        for budget in BUDGETS:
            pool = Pool(self.table)
            _, growth = grow(pool, program, range(len(self.scores)), pseudo_rows, budget)
            for choice in (single(pool, growth, reading), shared(pool, growth, reading)):
                for number in choice.numbers.tolist():
                    self.pool.add(pool.members[number])

    @property
    def _cells(self) -> Program:
        return Program.of_rates(self.table.strata, Objective.of(NAMED["worst_cell"]), ())

    def _played(self, program: Program, source: int, n_thresholds: int, shrinkage: float) -> list[int]:
        games = None
        if self.belief.told:
            inside = (program.unit_prices != 0).any(axis=2)
            games = self.table.strata.combination[inside.argmax(axis=1)]
        return play(
            self.pool,
            program,
            source,
            prices=PRICES,
            rounds=ROUNDS,
            kept=-(-n_thresholds // len(PRICES)),
            pseudo_rows=shrinkage,
            corrected=len(self.belief.combinations) > 1,
            games=games,
        )

    def _contradiction(self, growth: Growth) -> str:
        program, weights = growth.program, growth.solved.weights
        tally = mixed(weights, [self.pool.tallies[i].counted for i in growth.numbers])
        named = [program.limits[i] for i in np.flatnonzero(growth.contradicting)] or list(program.limits)
        reached = [limit.said_of(limit.rate.terms(program.strata).values(tally)) for limit in named]
        each = "; ".join(
            f"{limit} (nearest: {value:.4g})" for limit, value in zip(named, reached, strict=True)
        )
        return (
            f"limits: no mixture of decision rules keeps these together on {self.words}: {each}. "
            "What was fitted is kept: reweight(limits=...) goes on from here"
        )

    def _elsewhere(
        self, program: Program, sharing: bool, reading: Reading
    ) -> tuple[Floats | None, Passing | None]:
        """Return the tally of choices on one half of the rows, each counted on the other half.

        And what they would have answered there to rows that they pass on.
        """
        table = self.table
        if table.half is None:
            return None, None
        total, n_strata, passing = None, len(table.strata.mass), []
        for own in (0, 1):
            mass = self.pool.tallies[0].halves[own][:n_strata].sum(axis=1)
            if mass.sum() <= 0:
                return None, None
            part = replace(table.strata, mass=mass / mass.sum())
            tallies = [_half(tally, own, mass) for tally in self.pool.tallies]
            pool = Pool(replace(table, strata=part), self.pool.members, tallies)
            growth = restricted(pool, program.over(part), reading)
            found = shared(pool, growth, reading) if sharing else single(pool, growth, reading, repair=False)
            there = mixed(found.weights, [self.pool.tallies[i].halves[1 - own] for i in found.numbers])
            total = there if total is None else total + there
            if table.strata.defers:
                members = [self.pool.members[i] for i in found.numbers]
                other = (table.half == 1 - own) & (np.arange(len(table.half)) < table.n_judged)
                passing.append(Passing.of(table, members, found.weights, other))
        return total, sum(passing[1:], passing[0]) if passing else None

    def member(self, number: int) -> Priced:
        """Return a member of the pool as a member of a mixture."""
        rule = self.pool.members[number]
        score = self.scores[rule.source]
        source = score
        if rule.is_constant:
            source = ()
        elif self.belief.infers and not self.belief.by_features:
            source = tuple(range(len(self.models.names)))  # groups are inferred from all of them
        return Priced(self.models, source, score, self.belief, rule)


def _known(out: Singles, learnt: Singles, some: Ints, stratum: Ints, rows: Rows, strata: Strata) -> float:
    """Return what part of what models of groups know of rows they learnt from they know of new rows.

    Where it is small, as of groups that the features do not tell, what they do on rows they learnt from says
    nothing about others, whoever does it.
    """
    y, group, w = rows.y[some], strata.combination[stratum[some]], rows.base[some]
    shares = strata.mass[stratum[some]] / np.bincount(strata.y, strata.mass)[y]
    told = (out[y, group, some], learnt[y, group, np.arange(len(some))])
    beyond_chance, remembered = (float(w @ np.log(np.maximum(p, 1e-12) / shares)) for p in told)
    return beyond_chance / remembered if remembered > 0 else 1.0


def _half(tally: Tally, own: int, mass: Floats) -> Tally:
    """Return a tally of one half of the rows as one of rows of their own."""
    counted = tally.halves[own] / mass.sum()
    strata = len(mass)
    before = tally.expected[:strata].sum(axis=1)
    scale = np.where(before > 0, mass / mass.sum() / np.where(before > 0, before, 1.0), 0.0)
    scaled = tally.expected * np.tile(scale, len(tally.expected) // strata)[:, None]
    return Tally(np.stack([counted, np.zeros_like(counted)]), scaled)


def _best(every: list[Source], table: LogTable, rows: Rows) -> list[Source]:
    """Return the sources, that of least log loss first."""

    def loss(score: Source) -> float:
        logs = table[score]
        own = logs[np.arange(len(rows.y)), rows.y] - logsumexp(logs, axis=1)
        return -float(rows.base @ own)

    return sorted(every, key=loss)


@dataclass(frozen=True)
class Passing:
    """What rows that are passed on would have been answered, on rows that had no part in the choice."""

    # passed, wrong: weight of the rows passed on, and of those among them to which the label would have been
    # wrong.
    passed: float
    wrong: float
    # answered, missed: weight of the others, and of those answered wrongly.
    answered: float
    missed: float
    squares: float  # sum of the squared weights of the rows passed on

    @classmethod
    def of(cls, table: Table, members: Sequence[Member], weights: Floats, rows: Mask) -> Passing:
        """Return it for some members with shares on some rows of a table."""
        total, y = np.zeros(5), table.strata.y[table.stratum]
        for weight, member in zip(weights, members, strict=True):
            passed = (table.answers(member) == table.strata.n_classes) & rows
            wrong = rates.wrong(table.labels(member), y)
            share = weight * table.share
            each = (
                share[passed],
                share[passed & wrong],
                share[rows & ~passed],
                share[rows & ~passed & wrong],
            )
            total += [*(part.sum() for part in each), (table.share[passed] ** 2).sum() * weight]
        return cls(*total.tolist())

    def __add__(self, other: Passing) -> Passing:
        return Passing(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def errors(self) -> tuple[float, float]:
        """The error that the rows passed on would have, and that among the answered."""
        return self.wrong / max(self.passed, 1e-300), self.missed / max(self.answered, 1e-300)

    @property
    def gains(self) -> bool:
        """Whether the first is larger than the second by more than chance: one side of 95 %."""
        error, others = self.errors
        noise = np.sqrt(max(others * (1.0 - others), 0.0) * self.squares) / max(self.passed, 1e-300)
        return bool(self.passed == 0 or self.answered == 0 or error - others > ONE_SIDED * noise)


@dataclass(frozen=True, eq=False)
class RateChoice:
    """The members, or the one, that keep limits on rates, and what they do."""

    stated: Stated  # what was asked for
    program: Program  # the objective and all limits, that of the budget included
    choice: Choice  # the members and their shares
    tally: Floats  # shape (W, A): what they do, counted on the rows of the choice
    passing: Passing | None  # what choices on halves would have answered to the rows they pass on
    ensemble: MixtureEnsemble  # the members with their shares
    table: RateTable  # every rate by unit
    sharing: bool  # whether members may share
    errors: None = None  # those of units are among the rates

    @property
    def objective(self) -> Objective:
        """What is made small."""
        return self.program.objective

    @property
    def gap(self) -> float:
        """What sharing would gain on the rows of the choice."""
        return self.choice.gap

    @property
    def pair(self) -> tuple[Any, Any]:
        """What a trade-off is of by default: what it limits, and what it makes small."""
        return stated_pair(self.objective, self.stated)

    @property
    def limits_met(self) -> bool | None:
        """Whether all limits are kept on the rows of the choice; None without any."""
        return self.table.met

    def value(self, measured: Objective | Spread) -> float:
        """Return another objective, or the gap or ratio of a family, on the rows of the choice."""
        return measured.value(measured.rate.terms(self.program.strata).values(self.tally))

    @property
    def traced(self) -> Mixture:
        """Refuse: of rates there is no curve of budgets.

        Raises
        ------
        ValueError
            In any case.
        """
        raise ValueError(
            "where rates were limited or made small, a budget of mean error names no point: tradeoff() "
            "limits the rate of the first limit, tradeoff(rates.miss(1), rates.error()) any other"
        )

    def guarantee(self, classes: Sequence[Any], members: Sequence[str]) -> Guarantee:
        """Refuse: what is said of rates is their table.

        Raises
        ------
        AttributeError
            In any case.
        """
        raise AttributeError("guarantee_ is about errors of units; of rates see rates_")

    def warn(self, *, forewarned: bool) -> None:
        """Name the limits that so few rows cannot show to be kept, unless that was said before."""
        if not forewarned:
            warn_of_noise(self.program.limits, self.program.strata)

    def warn_of_missed(self, estimates: Any) -> None:
        """Name the limits that one member does not keep, and those that are below their own noise."""
        choice, limits, words = self.choice, self.program.limits, self.table.words
        for number in np.flatnonzero(choice.excesses > ROUNDING):
            limit = limits[number]
            values = limit.rate.terms(self.program.strata).values(self.tally)
            alone = not self.sharing and choice.drawn[number] <= ROUNDING
            way = (
                f"; randomized=True, a draw among several rules, keeps it there, with {self.objective} of "
                f"{choice.bound:.4g} (this rule: {choice.value:.4g})"
                if alone
                else ""
            )
            warn_user(
                f"limit not kept on {words}: {limit}, but the best rule found reaches "
                f"{limit.said_of(values):.4g}{way}",
                BoundNotMetWarning,
            )
        if limits and not self.sharing and choice.keeps and choice.gap > DEAR * abs(choice.value):
            most = self.tally[: len(self.program.strata.mass)].sum(axis=0).max()
            warn_user(
                f"the best rule found that keeps the limits on {words} "
                f"{f'answers {most:.1%} of the rows alike and ' if most > MOST_ALIKE else ''}has "
                f"{self.objective}: {choice.value:.4g}; randomized=True, a draw among several "
                f"rules, keeps them with {choice.bound:.4g}"
            )
        if self.passing is not None and not self.passing.gains:
            error, others = self.passing.errors
            warn_user(
                "passing rows on gains nothing beyond chance: by choices on one half of "
                f"{words}, judged on the other, the rows passed on would be answered with an "
                f"error of {error:.4f}, the others are with {others:.4f}"
            )
        few = [
            f"{line.rate}{'' if line.unit is None else f' of {unit_name(line.unit)}'}"
            for line in self.table
            if 0 < line.rows < FEW_ROWS
        ]
        if few:
            warn_user(
                f"few rows to choose on ({words}): fewer than {FEW_ROWS} for "
                f"{'; '.join(dict.fromkeys(few[:SHOWN]))}{' …' if len(few) > SHOWN else ''}",
                SmallUnitsWarning,
            )
        said = {str(limit) for limit in limits if below_noise(limit, self.program.strata) is not None}
        for line in self.table:
            seen = line.value if np.isnan(line.estimate) else line.estimate
            noisy = line.unit == GAP and line.high - seen > line.bound  # the other end stops at 0
            noisy |= line.unit == RATIO and seen - line.low > 1.0 - line.bound
            if noisy and line.limit not in said:
                warn_user(
                    f"{line.limit}: below the noise of its estimate, {line.low:.4f} to {line.high:.4f} on "
                    f"{words}; on fresh rows it may well be broken",
                    LimitBelowNoiseWarning,
                )


def stated_pair(objective: Objective, stated: Stated) -> tuple[Any, Any]:
    """Return what a curve limits, and what it makes small, where nobody says: what the fit was asked for.

    The rate of the first limit that can be drawn tighter step by step, against the objective; without such
    a limit the objective against the mean error.
    """
    small = Largest(objective.rate) if objective.worst else objective.rate
    for limit in stated.limits:
        rate = limit.rate
        if limit.compares:
            return Spread(limit.form, rate), small
        limited = rate if rate.by is None else Largest(rate)
        if limit.form == AT_MOST and rate.can_be_lowered and limited != small:
            return limited, small
    return (Largest(error(by="class")), small) if small == error() else (small, error())
