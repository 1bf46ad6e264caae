"""The mixture for classes, groups and cells: `select` compares the hypotheses by their confusion counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import linprog

from tailboost.boosting.ensemble import MixtureEnsemble, settle_ties
from tailboost.boosting.game import DECIMALS, Game, Response
from tailboost.boosting.training_set import GroupNames, Rows
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.rates import Limit, Objective, Strata, error
from tailboost.selection.candidates import Pool as Candidates
from tailboost.selection.candidates import SelectionData
from tailboost.selection.confidence import LimitsOutlook, fold_spread, outlook
from tailboost.selection.loss_pool import LossPool
from tailboost.selection.program import SLIGHT, Program
from tailboost.selection.rate_table import RateTable
from tailboost.selection.selecting import Selection, select, within_budget

# Errors are rounded to this number of decimals. Mixtures then do not depend on the order of the rows.
ERROR_DECIMALS = 12
# If `predict` violates the limits, mixtures within these multiples of the limits are tried.
SHARES = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
# A limit at the level of a mixture is eased by this much, for the rounding of the solver.
EASED = 1e-9

# Computed anew after loading.
NOT_KEPT = ("_data", "_unboosted_counts", "_places", "_steered", "program", "refit_spread")


def least_largest(errors: Floats) -> tuple[float, float]:
    """Return the least largest error of a mixture, and the duality gap.

    Parameters
    ----------
    errors : ndarray of shape (T, m)
        Error of each candidate on each subgroup.
    """
    n_candidates, m = errors.shape
    solution = linprog(
        np.r_[np.zeros(n_candidates), 1.0],
        np.column_stack([errors.T, -np.ones(m)]), np.zeros(m),
        np.r_[np.ones(n_candidates), 0.0][None], [1.0],
        [(0.0, None)] * n_candidates + [(None, None)],
    )  # fmt: skip
    mixture = np.maximum(solution.x[:-1], 0.0)
    weights = np.maximum(-solution.ineqlin.marginals, 0.0)
    value = float((mixture / mixture.sum() @ errors).max())
    return value, max(0.0, value - float((errors @ (weights / weights.sum())).min()))


@dataclass(frozen=True, eq=False)
class Grouping:
    """Names of the classes and groups of the selection data, by which rates find their subgroups."""

    labels: tuple[Any, ...]  # the K labels
    columns: tuple[Any, ...] = ()  # names of the columns of groups; (None,) for one without a name
    values: tuple[tuple[Any, ...], ...] = ()  # the groups of each column
    # Shape (m,): ``class + K · group`` of each number, if the groups of the rows are numbers of cells.
    cells: Ints | None = None

    @classmethod
    def of(cls, labels: Any, names: GroupNames | None = None, cells: Ints | None = None) -> Self:
        """Return the grouping for groups with these names; ``names`` is None for rows without groups."""
        if names is None:
            return cls(tuple(labels.tolist()))
        values = tuple(tuple(of.tolist()) for of in names.values)
        return cls(tuple(labels.tolist()), names.titles, values, cells)

    def table(self, rows: Rows) -> tuple[SelectionData, Mask]:
        """Return the selection data, and a mask of the rows in them.

        A row outside all subgroups (group −1) is left out: no model tested on this row knows its class, or no
        training row is in its cell.
        """
        inside: Mask = np.ones(len(rows.y), dtype=np.bool_)
        numbers = None
        if rows.groups is not None:
            inside = np.asarray((rows.groups.reshape(len(rows.y), -1) >= 0).all(axis=1))
        rows = rows.part(inside)
        if self.columns and rows.groups is not None:
            groups = rows.groups if self.cells is None else self.cells[rows.groups] // len(self.labels)
            first = np.cumsum([0, *(len(of) for of in self.values)])[:-1]
            numbers = groups.reshape(len(rows.y), -1) - first
        strata, stratum = Strata.of(rows.y, numbers, rows.weight, self.labels, self.columns, self.values)
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
        return SelectionData(strata, stratum, rows.base), inside


@dataclass
class SubgroupMixture:
    """Combine by `select` on the confusion counts of the hypotheses, evenly, or by a majority vote."""

    objective: Objective  # the minimised rate
    grouping: Grouping
    n_classes: int  # K
    limits: tuple[Limit, ...] = ()  # limits on rates
    # Largest increase of the overall error above the most accurate member; None for no limit.
    error_budget: float | None = None
    randomized: bool = True  # whether several members may have mixture weight
    even: bool = False  # whether all boosted hypotheses have the same weight
    # Whether the hypotheses vote with the same weight. If the selection data are out of fold, the first T*
    # rounds vote: T* has the least objective of the majority, or the least overall error within the limits.
    # Otherwise all rounds vote.
    voting: bool = False
    # with_erm, with_constants: whether plain ERM and the K constants join the pool.
    with_erm: bool = False
    with_constants: bool = False
    pool: LossPool = field(init=False)
    # For a majority vote: the votes for each class on the selection data, and the number of counted rounds;
    # then the objective and the overall error of the majority after each round.
    votes: tuple[Floats, int] = field(init=False, default=(np.zeros((0, 0)), 0))
    results: list[tuple[float, float]] = field(init=False, default_factory=list)
    _counts: list[Floats] = field(init=False, default_factory=list)  # of the boosted hypotheses
    # Responses of rounds by their number from 0; `gather` adds them to the pool.
    _newest: dict[int, Response] = field(init=False, default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in NOT_KEPT}

    @cached_property
    def _data(self) -> tuple[SelectionData, Mask]:
        return self.grouping.table(self.pool.ledger.rows)

    @property
    def table(self) -> SelectionData:
        """The selection data."""
        return self._data[0]

    @cached_property
    def program(self) -> Program:
        """The objective and the limits, without the budget."""
        return Program.of_rates(self.table.strata, self.objective, self.limits)

    def counted(self, answers: Ints) -> Floats:
        """Return the confusion counts of answers to the selection data, shape (S, K)."""
        table, inside = self._data
        return table.count(answers[inside].astype(np.intp))

    def open(self, rows: Rows, unboosted: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game with the selection data ``rows``; ``unboosted`` fits plain ERM."""
        self.pool = LossPool.open(
            rows,
            self.n_classes,
            unboosted=unboosted() if self.with_erm else (),
            constants=self.with_constants,
        )

    def take(self, response: Response, state: Any, needs_objective: bool) -> tuple[float, float]:
        """Add the newest hypothesis; return the objective now and the gap of its solve."""
        cell, share, size = self._places
        inside = response.answers if len(response.answers) == len(cell) else response.answers[self._data[1]]
        even = isinstance(share, float)  # counting rows is quicker than summing their weights
        counts: Floats = np.asarray(
            np.bincount(cell + inside, None if even else share, size), dtype=np.float64
        )
        counts *= share if even else 1.0
        counts = counts.reshape(-1, self.n_classes)
        self._newest[len(self._counts)] = response
        self._counts.append(counts)
        if self.voting:
            self.gather()
            self._count(self.pool.n_rounds, self.pool.ledger.by_mean_loss())
            return (min(self.results) if self._selects_voters else self.results[-1])[0], 0.0
        if self.even or not needs_objective:
            return np.nan, 0.0
        beyond = self.beyond(np.array([*self._counts, *self._unboosted_counts])).round(ERROR_DECIMALS)
        return least_largest(beyond) if self.randomized else (float(beyond.max(axis=1).min()), 0.0)

    def gather(self) -> None:
        """Add the newest rounds to the pool."""
        self.pool.first(self.pool.n_rounds)
        for t in sorted(self._newest):
            if t >= self.pool.n_rounds:
                self.pool.take(self._newest[t])
        self._newest = {}

    @cached_property
    def _places(self) -> tuple[Ints, Floats | float, int]:
        """Place of each row in flat confusion counts, weight of the rows or of each, and number of places."""
        strata, share = self.table.strata, self.table.weights
        each: Floats | float = share if np.ptp(share) else float(share[0])
        return self.table.stratum * strata.n_actions, each, len(strata.mass) * strata.n_actions

    def beyond(self, counts: Floats) -> Floats:
        """Return the error of each subgroup less its limit, by confusion counts (…, S, K): shape (…, m).

        Subgroups without rows or without a limit are left out. One limit for all is not subtracted.
        """
        linear, allowed = self._steered
        errors: Floats = np.tensordot(counts, linear, axes=([-2, -1], [1, 2])) - allowed
        return errors

    @cached_property
    def _steered(self) -> tuple[Floats, Floats]:
        """Errors of the subgroups as functions of confusion counts, shape (m, S, K), and their limits."""
        assert self.steering.kind == "error"
        terms = self.steering.terms(self.table.strata)
        allowed = np.zeros(len(terms.names))
        if (limit := self.limit) is not None:
            allowed = limit.bounds(terms.names)
            known = allowed[~np.isnan(allowed)]
            allowed = np.where(np.isnan(allowed), np.nan, 0.0) if np.ptp(known) == 0 else allowed
        used = terms.defined & ~np.isnan(allowed)
        return terms.linear[used][:, : len(self.table.strata.mass)], allowed[used]

    @property
    def limit(self) -> Limit | None:
        """The limit on the errors of the subgroups, if there is one."""
        return next((limit for limit in self.limits if limit.rate.by is not None), None)

    @property
    def steering(self) -> Any:
        """The limited errors of the subgroups; without limits, the objective."""
        return self.objective.rate if (limit := self.limit) is None else limit.rate

    def worst(self, counts: Floats) -> float:
        """Return the largest error of a subgroup, of counts (S, K); if limits differ, the largest excess."""
        return float(self.beyond(counts).max())

    def overall(self, counts: Floats) -> float:
        """Return the overall error of confusion counts (S, K)."""
        return float(error().terms(self.table.strata).values(counts)[0])

    @cached_property
    def _unboosted_counts(self) -> list[Floats]:
        return [self.counted(self.pool.answer(m)) for m in range(self.pool.n_rounds, len(self.pool.members))]

    def candidates(self, n_rounds: int | None = None) -> Candidates:
        """Return the first hypotheses, all by default, and the unboosted ones as candidates, by number."""
        t = self.pool.n_rounds
        del self._counts[t:]
        self._counts += [self.counted(self.pool.answer(m)) for m in range(len(self._counts), t)]
        first = t if n_rounds is None else n_rounds
        numbers = [*range(first), *range(t, len(self.pool.members))]
        return Candidates(self.table, numbers, [*self._counts[:first], *self._unboosted_counts])

    def selection(self, n_rounds: int | None = None) -> tuple[Floats, float]:
        """Return the mixture weights of all members, and the gap of the selected rule.

        Limits apply to `predict`. If several members have weight, `predict` returns the label with the
        largest weight. It can violate a limit that the randomised rule satisfies. Then `predict` of this
        mixture is compared with `predict` of mixtures within tighter limits, and with single members.
        """
        pool = self.candidates(n_rounds)
        program = within_budget(pool, self.program, self.error_budget)
        found = select(pool, program, randomized=self.randomized)
        weights = self.weights(found, n_rounds)
        if not self.randomized or not self.limits or self._keeps(weights):
            return weights, found.gap
        mixtures = [weights]
        for share in SHARES:
            tighter = [self._at(limit, share) for limit in self.limits]
            own = program.within((*tighter, *program.limits[len(tighter) :]))
            mixtures.append(self.weights(select(pool, own, randomized=True), n_rounds))
        counts = [*map(self.predicted, mixtures), *pool.counts]
        mixtures += list(np.eye(len(self.pool.members))[pool.candidates])
        rules = Candidates(self.table, list(range(len(mixtures))), counts)
        return mixtures[int(select(rules, program).numbers[0])], found.gap

    def predicted(self, mixture: Floats) -> Floats:
        """Return the confusion counts of `predict` of a mixture, shape (S, K)."""
        return self.counted(self.pool.shares(self.ensemble(mixture)).argmax(axis=1))

    def _keeps(self, mixture: Floats) -> bool:
        return bool((self.program.violations(self.predicted(mixture)) <= SLIGHT).all())

    def _at(self, limit: Limit, share: float) -> Limit:
        """Return a limit with bounds tighter by a share of them."""
        names = [limit.form] if limit.compares else limit.rate.terms(self.table.strata).names
        bounds = np.array([limit.bound]) if limit.compares else limit.bounds(names)
        return limit.tightened(dict(zip(names, ((1.0 - share) * bounds).tolist(), strict=True)))

    def front_of(self, limited: Any, n_points: int) -> tuple[Floats, list[Floats]]:
        """Return rules between the least objective and the tightest limit on another rate.

        Parameters
        ----------
        limited : Objective or Spread
            The limited rate.
        n_points : int
            Limits for which mixtures are selected; of single members all are returned.

        Returns
        -------
        reached : ndarray of shape (B, 2)
            The limited rate and the objective of each rule.
        weights : list of ndarray
            The mixture weights of the members.
        """
        pool = self.candidates()
        program = within_budget(pool, self.program, self.error_budget)
        terms = limited.rate.terms(self.table.strata)

        def level_of(counts: Floats) -> float:
            return float(limited.value(terms.values(counts)))

        found: list[tuple[Floats, Floats]] = []  # counts and weights
        if self.randomized:
            start = select(pool, program, randomized=True)
            least = limited.least if limited.compares else None
            if least is None:
                tightest = Program.of_rates(self.table.strata, limited, program.limits)
                least = level_of(select(pool, tightest, randomized=True).counts)
            sign = 1.0 if limited.within(limited.most).from_above else -1.0
            for level in np.linspace(level_of(start.counts), least, n_points):
                own = limited.within(float(level + sign * EASED))
                each = select(pool, program.within((*program.limits, own)), randomized=True)
                if each.keeps:
                    found.append((each.counts, self.weights(each)))
        else:
            _, excess = program.evaluate(pool.all_counts)
            for i in np.flatnonzero(excess <= SLIGHT).tolist():
                alone = np.zeros(len(self.pool.members))
                alone[pool.candidates[i]] = 1.0
                found.append((pool.counts[i], alone))
        reached = [(level_of(counts), program.value(counts)) for counts, _ in found]
        return np.array(reached).reshape(-1, 2), [weights for _, weights in found]

    def _count(self, n_rounds: int, order: Ints) -> None:
        """Record the majority of so many rounds; ties go to the first voter in the order."""
        rows, (counts, counted) = self.pool.ledger.rows, self.votes
        each = np.arange(len(rows.y))
        if counted >= n_rounds or len(counts) < len(each):  # an interrupt removed rounds: count anew
            counts, counted = np.zeros((len(each), self.n_classes)), 0
        for m in range(counted, n_rounds):
            counts[each, self.pool.answer(m)] += 1.0
        self.votes = counts, n_rounds
        P = settle_ties(counts / n_rounds, order[order < n_rounds], lambda m, some: self.pool.answer(m)[some])
        found = self.counted(P.argmax(axis=1))
        self.results.append((round(self.worst(found), DECIMALS), round(self.overall(found), DECIMALS)))

    @property
    def _selects_voters(self) -> bool:
        """Whether the number of voters is selected. This needs errors on rows outside of the fit."""
        return self.voting and not self.pool.ledger.rows.fitted

    def _voters(self, n_rounds: int) -> int:
        """Return how many of the first rounds have the same weight."""
        if not self._selects_voters:
            return n_rounds
        enough = -np.inf
        if self.limits and not self.objective.worst:  # the cheapest within the limits
            enough = self.worst_limit
        kept = [(max(beyond, enough), mean) for beyond, mean in self.results[:n_rounds]]
        return kept.index(min(kept)) + 1

    @property
    def worst_limit(self) -> float:
        """The bound of `worst`: the limit of all subgroups, or 0 if their limits differ."""
        assert self.limit is not None
        bounds = self.limit.bounds(self.steering.terms(self.table.strata).names)
        known = bounds[~np.isnan(bounds)]
        return float(known[0]) if np.ptp(known) == 0 else 0.0

    def first(self, n_rounds: int) -> None:
        """Drop all but the first rounds."""
        self._newest = {t: response for t, response in self._newest.items() if t < n_rounds}
        self.gather()
        self.pool.first(n_rounds)
        del self.results[n_rounds:], self._counts[n_rounds:]

    def settle(self, game: Game[Any]) -> MixtureEnsemble:
        """Return the mixture of the rounds so far."""
        self.gather()
        return self.stage(self.pool.n_rounds)

    def stage(self, n_rounds: int) -> MixtureEnsemble:
        """Return the mixture after the first ``n_rounds`` rounds; later hypotheses have weight 0."""
        order = self.pool.ledger.by_mean_loss()
        mixture = np.zeros(len(order))
        if self.even:
            voters = self._voters(n_rounds)
            mixture[:voters] = 1.0 / voters
            return MixtureEnsemble(self.pool.members, mixture, self.n_classes, order[order < voters])
        return self.ensemble(*self.selection(n_rounds))

    def weights(self, found: Selection, n_rounds: int | None = None) -> Floats:
        """Return the mixture weight of each member of the pool, by a selection of `candidates`."""
        t = self.pool.n_rounds
        mixture = np.zeros(len(self.pool.members))
        later = found.numbers >= (t if n_rounds is None else n_rounds)
        shift = 0 if n_rounds is None else t - n_rounds
        mixture[found.numbers + np.where(later, shift, 0)] = found.weights
        return mixture

    def ensemble(self, mixture: Floats, gap: float = 0.0) -> MixtureEnsemble:
        """Return the classifier with these weights of all members."""
        order = self.pool.ledger.by_mean_loss()
        return MixtureEnsemble(self.pool.members, mixture, self.n_classes, order, gap)

    def mixed(self, mixture: Floats) -> Floats:
        """Return the expected confusion counts of the randomised rule, shape (S, K)."""
        found: Floats = np.tensordot(mixture, self.candidates().all_counts, axes=1)
        return found

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the pool."""
        return self.program.value(self.mixed(mixture))

    def counting(self, grouping: Grouping) -> SubgroupMixture:
        """Return the members as candidates: itself, by its own grouping."""
        return self

    # -- results -------------------------------------------------------------------------------------

    alpha: ClassVar[None] = None
    dropped: ClassVar[float] = 0.0
    price: ClassVar[None] = None

    def largest_error(self, mixture: Floats) -> float | None:
        """Return the largest error of a subgroup if the objective is another rate, else None."""
        return None if self.objective.worst else float(np.nanmax(self.errors(self.mixed(mixture))))

    def on_all(self, mixture: Floats) -> float:
        """Return the objective; no row is left out."""
        return self.value(mixture)

    @property
    def random_guess(self) -> float:
        """The objective of the even mixture of all constants."""
        return self.program.value(np.mean(self._constants.counts, axis=0))

    @property
    def constants(self) -> float:
        """The objective of the best mixture of constants."""
        terms = self.objective.rate.terms(self.table.strata)
        rates = np.array([terms.values(counts) for counts in self._constants.counts])
        known = rates[:, ~np.isnan(rates).all(axis=0)]
        return least_largest(known)[0]

    @property
    def _constants(self) -> Candidates:
        mass, K = self.table.strata.mass, self.n_classes
        return Candidates(self.table, list(range(K)), [mass[:, None] * (np.arange(K) == k) for k in range(K)])

    def highest(self, mixture: Floats) -> float:
        """Return the upper end of a 95 % interval for the objective: the highest of a subgroup."""
        found = self.errors_of(self.mixed(mixture), self.program.objective.rate)
        highest: float = np.nanmax([1.0 if np.isnan(line.high) else line.high for line in found])
        return highest

    def errors(self, counts: Floats) -> Floats:
        """Return the steered rate of each subgroup by confusion counts; NaN without rows."""
        return self.steering.terms(self.table.strata).values(counts)

    def errors_of(self, counts: Floats, rate: Any = None) -> RateTable:
        """Return the errors of subgroups by confusion counts, on the selection data."""
        rate = self.steering if rate is None else rate
        limit = next((each for each in self.limits if each.rate == rate), None)
        return self.rates_of(counts, [(rate, limit)], kind=rate.by or "")

    def rates_of(
        self, counts: Floats, stated: Sequence[tuple[Any, Limit | None]] | None = None, *, kind: str = ""
    ) -> RateTable:
        """Return rates by confusion counts; the default is the rates of the objective and the limits."""
        if stated is None:
            stated = [(self.objective.rate, None), *((limit.rate, limit) for limit in self.limits)]
        rows, strata = self.pool.ledger.rows, self.table.strata
        found = RateTable.counted(
            stated, strata, counts, rows.words, kind=kind, refit=rows.refit, refit_spread=self.refit_spread
        )
        return found.on_fitted_rows() if rows.fitted else found

    def outlook(self, counts: Floats) -> LimitsOutlook | None:
        """Return how likely a rule with these confusion counts keeps the limits on new rows."""
        rows = self.pool.ledger.rows
        if rows.fitted:
            return None
        return outlook(self.limits, self.table.strata, counts, rows.refit, spread=self.refit_spread)

    @cached_property
    def refit_spread(self) -> float:
        """Standard deviation of an error of a subgroup between a hypothesis and its refit on all rows.

        The estimate is the standard deviation between the models of the folds, averaged over the hypotheses.
        NaN if the models were tested on one held-out part and refits answer.
        """
        rows, (table, inside) = self.pool.ledger.rows, self._data
        if not rows.refit:
            return 0.0
        if rows.fold is None:
            return float("nan")
        fold, A = rows.fold[inside].astype(np.intp), self.n_classes
        n_folds, n_strata = int(fold.max(initial=0)) + 1, len(table.strata.mass)
        cell = (fold * n_strata + table.stratum) * A
        shape, counts = (n_folds, n_strata, A), []
        for m in range(self.pool.n_rounds):
            each = np.bincount(cell + self.pool.answer(m)[inside], table.weights, n_folds * n_strata * A)
            counts.append(each.astype(np.float64).reshape(shape))
        return fold_spread(self.steering, table.strata, counts)

    def stating(
        self, objective: Objective, limits: Sequence[Limit] = (), error_budget: float | None = None
    ) -> SubgroupMixture:
        """Return the combiner with the same members and another objective and limits, never even."""
        return self.on(
            self.pool.snapshot(), objective, self.grouping, limits, error_budget, self.randomized
        )  # fmt: skip

    @classmethod
    def on(
        cls,
        pool: LossPool,
        objective: Objective,
        grouping: Grouping,
        limits: Sequence[Limit] = (),
        error_budget: float | None = None,
        randomized: bool = True,
    ) -> SubgroupMixture:
        """Return the combiner of the members of a pool."""
        new = cls(objective, grouping, len(grouping.labels), tuple(limits), error_budget, randomized)
        new.pool = pool
        return new

    def snapshot(self) -> SubgroupMixture:
        """Return a copy. Further rounds do not change this copy."""
        self.gather()
        new = replace(self)
        new.pool = self.pool.snapshot()
        new.votes, new.results = (self.votes[0].copy(), self.votes[1]), list(self.results)
        return new
