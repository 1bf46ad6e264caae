"""Selection against the mixtures of all deterministic rules of a small table, by a generic solver."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog
from threadpoolctl import threadpool_limits

from tailboost import rates
from tailboost.rates import SIGNS, Counts, as_objective
from tailboost.rows.groups import NO_GROUPS, GroupNames
from tailboost.selection import search
from tailboost.selection.search import Charges, Program, first_pool, grow, select, solve, within_budget
from tailboost.selection.thresholds import Thresholds
from tailboost.selection.weights import ClassWeights, expected_costs

NAMES = np.array(["a", "b", "c"])
ODDS = [rates.gap(each("b", by="sex")) <= 0.05 for each in (rates.miss, rates.false_alarm)]


def atoms(seed, K, G, n_atoms, n=400, weights=False, defers=False, costs=False):
    """Return weights with right stratum probabilities, the frequencies at few values of x, and x."""
    rng = np.random.default_rng(seed)
    x = rng.integers(n_atoms, size=n)
    chance = rng.dirichlet(np.full(K * G, 0.7), n_atoms)
    s = np.array([rng.choice(K * G, p=chance[i]) for i in x])
    w = rng.integers(1, 4, size=n).astype(float) if weights else np.ones(n)
    y, g = s // G, s % G
    groups, names = ([g], GroupNames((range(G),), ("sex",))) if G > 1 else ([], NO_GROUPS)
    costs = rng.random((n, K + defers)) * 5 if costs else None
    rows = Counts.stratified(y, groups, w, NAMES[:K], names, defers=defers, costs=costs)
    frequency = np.zeros((n_atoms, len(rows.strata.mass)))
    np.add.at(frequency, (x, rows.stratum), w / w.sum())
    frequency /= frequency.sum(axis=1, keepdims=True)
    chances = np.ascontiguousarray(frequency[x].T, dtype=np.float32)
    return ClassWeights(rows, probabilities=chances), x


def every_rule(family, x):
    """Return the confusion counts of all deterministic rules of x, counted row by row."""
    A, share = family.data.strata.n_actions, family.data.weights
    tallies = []
    for rule in product(range(A), repeat=int(x.max()) + 1):
        actions = np.array(rule)[x]
        tally = np.zeros((len(family.data.strata.mass), A))
        np.add.at(tally, (family.data.stratum, actions), share)
        if family.data.costs is not None:
            met = np.zeros_like(tally)
            costs = family.data.costs[np.arange(len(x)), actions]
            np.add.at(met, (family.data.stratum, actions), share * costs)
            tally = np.concatenate([tally, met])
        tallies.append(tally)
    return tallies


def value_of(rate, strata, tally):
    return rate.terms(strata).values(tally)


def broken_by(limits, strata, counts):
    """Return the largest violation of limits by counts (…, W, A), from their rates, over their scales."""
    largest = [np.zeros(counts.shape[:-2])]
    for limit in limits:
        terms = limit.rate.terms(strata)
        values = terms.values(counts)
        most, least = np.fmax.reduce(values, axis=-1), np.fmin.reduce(values, axis=-1)
        if limit.form == "gap":
            broken = most - least - limit.bound
        elif limit.form == "ratio":
            broken = limit.bound * most - least
        else:
            broken = np.fmax.reduce(SIGNS[limit.sense] * (values - limit.levels(terms.names)), axis=-1)
        largest.append(broken / terms.scale)
    return np.fmax.reduce(largest)


def best_mixture(family, x, objective, limits):
    """Return the optimum over mixtures of all rules by a generic solver, from the rates of each rule."""
    objective = as_objective(objective)
    tallies, strata = every_rule(family, x), family.data.strata
    T = len(tallies)
    rows, right = [], []
    worst = objective.worst
    n_more = worst + len(limits)
    tie = np.array([value_of(rates.error(), strata, t)[0] for t in tallies])
    cost, scale = np.zeros(T + n_more), objective.rate.terms(strata).scale
    if worst:
        cost[:T], cost[T] = 1e-3 * tie, 1.0
        V = np.array([value_of(objective.rate, strata, t) for t in tallies]) / scale
        for column in V.T[~np.isnan(V).any(axis=0)]:
            rows.append(np.r_[column, -1.0, np.zeros(len(limits))])
            right.append(0.0)
    else:
        cost[:T] = [value_of(objective.rate, strata, t)[0] / scale for t in tallies]
    for j, limit in enumerate(limits):
        z, terms = np.eye(n_more)[worst + j], limit.rate.terms(strata)
        top = np.array([np.tensordot(terms.top, t, axes=2) for t in tallies])
        bottom = np.array([np.tensordot(terms.bottom, t, axes=2) for t in tallies])
        for u in np.flatnonzero(bottom.max(axis=0) > 0):
            if limit.form in ("gap", "ratio"):
                r = top[:, u] / bottom[:, u]
                rows += [np.r_[r, -z], np.r_[-r, z * (1.0 if limit.form == "gap" else limit.bound)]]
                right += [limit.bound if limit.form == "gap" else 0.0, 0.0]
            else:
                sign = 1.0 if limit.form == "at most" else -1.0
                rows.append(np.r_[sign * (top[:, u] - limit.bound * bottom[:, u]), np.zeros(n_more)])
                right.append(0.0)
    bounds = [(0, None)] * T + [(None, None)] * n_more
    found = linprog(
        cost, A_ub=np.array(rows) if rows else None, b_ub=right if rows else None,
        A_eq=np.r_[np.ones(T), np.zeros(n_more)][None], b_eq=[1.0], bounds=bounds,
    )  # fmt: skip
    return found.fun if found.status == 0 else None


def first(family, objective, limits, error_budget):
    """Return the first candidates of a problem, and their charges."""
    charges = Charges(family.data.strata, as_objective(objective), limits)
    pool = first_pool(family, charges)
    if error_budget is not None:
        charges = within_budget(pool, charges, error_budget)
    return pool, charges


def grown(family, objective, limits, error_budget=None):
    """Return the candidates of a problem, their charges, and their best mixture."""
    pool, charges = first(family, objective, limits, error_budget)
    return pool, charges, grow(pool, Program(charges))


def one_rule(family, objective, limits, error_budget=None):
    """Return the candidates of a problem, and the selected one with the best mixture."""
    pool, charges = first(family, objective, limits, error_budget)
    number, mixture = select(pool, charges), solve(pool.counts, Program(charges))
    return pool, SimpleNamespace(rule=pool.candidates[number], counts=pool.counts[number], mixture=mixture)


PROGRAMS = {
    "error": (rates.error(), []), "worst class": (rates.largest(rates.error(by="class")), []),
    "worst cell": (rates.largest(rates.error(by="cell")), []),
    "equal misses": (rates.error(), [rates.gap(rates.miss("b", by="sex")) <= 0.02]),
    "equalised odds": (rates.error(), ODDS),
    "four fifths": (rates.error(), [rates.ratio(rates.selected("a", by="sex")) >= 0.8]),
    "parity of cost": (rates.cost([[0, 1], [5, 0]]), [rates.gap(rates.selected("a", by="sex")) <= 0.02]),
    "precision": (rates.miss("b"), [rates.precision("b") >= 0.75]),
    "precision in each": (rates.miss("b"), [rates.precision("b", by="sex") >= 0.6]),
    "ceiling": (rates.largest(rates.error(by="sex")), [rates.selected("a") <= 0.35]),
    "floor": (rates.error(), [rates.selected("a", by="sex") >= 0.45]),
    "target": (rates.error(), [rates.error(by="class") <= 0.4]), "cost of rows": (rates.cost(), []),
    "cost of rows, limited": (rates.error(), [rates.cost(by="sex") <= 2.7]),
    "defer": (rates.error(), [rates.deferred(by="sex") <= 0.2]),
    "defer, answered": (rates.deferred(), [rates.answered_error(by="class") <= 0.3]),
    "defer, worst": (rates.largest(rates.error(by="class")), [rates.deferred() <= 0.15]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_engine_finds_the_best_mixture_of_all_rules(name):
    objective, limits = PROGRAMS[name]
    defers, costs = name.startswith("defer"), name.startswith("cost of rows")
    n_atoms = 4 if defers else 6
    solved = 0
    for seed in range(3):
        family, x = atoms(seed, 2, 2, n_atoms, weights=seed > 1, defers=defers, costs=costs)
        best = best_mixture(family, x, objective, limits)
        _, charges, counted = grown(family, objective, limits)
        if best is None:
            assert not counted.feasible
            assert search.contradiction(counted, "").limits
            continue
        solved += 1
        assert counted.feasible
        if not costs:  # the probabilities give the mean cost of a stratum, not the cost of a row
            assert counted.value == pytest.approx(best, abs=1e-3)
        assert counted.value >= best - 1e-6
        assert broken_by(charges.limits, charges.strata, counted.counts) <= 1e-5
        _, selected = one_rule(family, objective, limits)
        if charges.keeps(selected.counts):
            assert charges.value(selected.counts) >= best - 1e-6
    assert solved


@pytest.mark.parametrize("seed", range(2))
def test_three_classes_and_three_groups(seed):
    family, x = atoms(seed, 3, 3, 5, n=600)
    gap = rates.gap(rates.selected("c", by="sex")) <= 0.1
    for objective, limits in ((rates.largest(rates.error(by="class")), []), (rates.error(), [gap])):
        best = best_mixture(family, x, objective, limits)
        _, _, counted = grown(family, objective, limits)
        if best is not None:
            assert counted.value == pytest.approx(best, abs=2e-3)


def test_the_program_is_the_linear_program_of_its_candidates():
    """The program has the optimum of linprog over the same candidates, without a price of violations."""
    family, _ = atoms(3, 2, 3, 8)
    objective, limits = rates.error(), [rates.gap(rates.selected("a", by="sex")) <= 0.01]
    pool, charges, counted = grown(family, objective, limits)
    program = Program(charges)
    again, T = solve(pool.counts, program), len(pool.counts)
    v = np.array([counts.ravel() for counts in pool.counts])
    rows = np.column_stack([program.matrix @ v.T, program.free])
    cost = np.r_[v @ program.cost, 0.0, 0.0]  # no cost of the variables of objective and limit
    of_all, bounds = np.r_[np.ones(T), 0.0, 0.0][None], [(0, None)] * T + [(None, None)] * 2
    found = linprog(cost, rows, program.bound, of_all, [1.0], bounds)
    assert again.value == pytest.approx(found.fun, abs=1e-8)
    assert counted.value == pytest.approx(found.fun, abs=1e-6)


def test_limits_that_contradict_each_other_are_named():
    family, _ = atoms(0, 2, 2, 8)
    limits = [
        rates.selected("a") <= 0.9, rates.miss("a") <= 0.01, rates.gap(rates.selected("b", by="sex")) <= 1.0,
        rates.false_alarm("a") <= 0.01,
    ]  # fmt: skip
    _, _, counted = grown(family, rates.error(), limits)
    assert not counted.feasible
    assert search.contradiction(counted, "rows").limits == (limits[1], limits[3])


def test_subgroups_without_rows_limit_nothing():
    rng = np.random.default_rng(0)
    y, g = rng.integers(2, size=200), np.zeros(200, dtype=int)
    rows = Counts.stratified(y, [g], np.ones(200), NAMES[:2], GroupNames((("f", "m"),), ("sex",)))
    chances = np.where(np.arange(2)[:, None] == y, 0.8, 0.2).astype(np.float32)
    family = ClassWeights(rows, probabilities=chances)
    limits = [rates.gap(rates.miss("b", by="sex")) <= 0.0, rates.error(by="cell") <= 0.1]
    _, _, counted = grown(family, rates.largest(rates.error(by="cell")), limits)
    assert counted.feasible
    assert counted.value == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(rates.error(by="sex").terms(rows.strata).values(np.ones((2, 2)))[1])


def test_a_budget_limits_the_mean_error():
    family, _ = atoms(1, 3, 1, 6)
    errors = []
    for budget in (0.0, 0.02, 1.0):
        pool, _, counted = grown(family, rates.largest(rates.error(by="class")), [], error_budget=budget)
        tally = counted.counts
        plain = rates.error().terms(family.data.strata).values(pool.counts[0])[0]
        mean = rates.error().terms(family.data.strata).values(tally)[0]
        assert mean <= plain + budget + 1e-6
        _, selected = one_rule(family, rates.largest(rates.error(by="class")), [], error_budget=budget)
        assert rates.error().terms(family.data.strata).values(selected.counts)[0] <= plain + budget + 1e-9
        errors.append(counted.value)
    assert errors[0] >= errors[1] >= errors[2]


@pytest.mark.parametrize(("K", "seed"), [(2, 3), (3, 3), (3, 4)])
def test_within_an_overall_error_the_best_first_rule_is_selected(K, seed):
    """Errors are counted from the confusion counts; the pool gets no further rule."""
    family, _ = atoms(seed, K, 1, 12)
    charges = Charges(family.data.strata, rates.largest(rates.error(by="class")), [])
    pool = first_pool(family, charges)
    counts = np.array(pool.counts)
    right = np.diagonal(counts, axis1=1, axis2=2)
    overall, worst = 1 - right.sum(axis=1), (1 - right / counts.sum(axis=2)).max(axis=1)
    chosen = set()
    for budget in (0.0, 0.01, 0.05, 0.2, 1.0):
        number = select(pool, within_budget(pool, charges, budget))
        within = overall <= overall.min() + budget + 1e-9
        assert within[number]
        assert worst[number] == pytest.approx(worst[within].min(), abs=1e-3)  # of near ones the most accurate
        chosen.add(number)
    assert len(pool.candidates) == len(counts)
    assert len(chosen) == 3


def test_a_row_is_answered_alike_alone_and_in_its_table():
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(12), 500).T.astype(np.float32)
    for A in (2, 3, 5):
        costs = rng.normal(size=(12, A))
        together = expected_costs(chances, costs).argmin(axis=0)
        alone = [expected_costs(chances[:, [i]], costs).argmin(axis=0)[0] for i in range(500)]
        assert together.tolist() == alone


RATIOS = {
    "all": (rates.answered_error(), [rates.deferred(by="sex") <= 0.2]),
    "class": (rates.answered_error(by="class"), [rates.deferred() <= 0.15]),
    "class, by sex": (rates.answered_error(by="class"), [rates.deferred(by="sex") <= 0.15]),
    "cell": (rates.answered_error(by="cell"), [rates.deferred(by="cell") <= 0.1]),
}


@pytest.mark.parametrize("name", RATIOS)
@pytest.mark.slow
def test_an_error_among_the_answered_is_made_as_small_as_any_mixture_of_all_rules_makes_it(name):
    """The least ratio equals a bisection over limits, each decided by a generic solver over all rules."""
    rate, limits = RATIOS[name]
    for seed in range(2):
        family, x = atoms(seed, 2, 2, 4, defers=True)
        low, high = 0.0, 1.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            reached = best_mixture(family, x, rates.error(), [*limits, rate <= middle])
            low, high = (low, middle) if reached is not None else (middle, high)
        objective = rate if rate.by is None else rates.largest(rate)
        _, charges, counted = grown(family, objective, limits)
        assert counted.program.level == pytest.approx(high, abs=3e-4)
        best = counted.counts
        assert counted.program.charges.value(best) == pytest.approx(high, abs=3e-4)
        assert broken_by(charges.limits, charges.strata, best) <= 1e-5


def smooth(seed, n=3000):
    """Return thresholds on different chances, right on average in each range, with chances and strata."""
    rng = np.random.default_rng(seed)
    p, sex = np.sort(rng.random(n)), rng.integers(2, size=n)
    y = np.diff(np.floor(np.cumsum(p)), prepend=0).astype(int)
    data = Counts.stratified(y, [sex], np.ones(n), NAMES[:2], GroupNames(((0, 1),), ("sex",)), defers=True)
    return Thresholds(data, p, p, None), p, y, sex


def deferred(family, cuts):
    low, high = family.decimals(family.edges[cuts])[0]
    return (low <= family.score) & (family.score < high)


@pytest.mark.parametrize("most", [0.01, 0.05, 0.2])
def test_one_rule_defers_the_least_sure_rows_as_many_as_may_be(most):
    """Without limits by group the rule is Chow's rule. Rules with fewer deferrals have larger errors."""
    family, p, y, sex = smooth(0)
    _, selected = one_rule(family, rates.error(), [rates.deferred() <= most])
    is_deferred = deferred(family, selected.rule)
    unsure = np.abs(p - 0.5) <= np.quantile(np.abs(p - 0.5), most)
    assert is_deferred.mean() == pytest.approx(most, abs=2 / len(p))
    by_hand = np.where(unsure, 1e-3, (p > 0.5) != y).mean()  # a deferred row costs a thousandth
    assert selected.mixture.program.charges.value(selected.counts) <= by_hand + 1e-9
    _, selected = one_rule(family, rates.error(), [rates.deferred(by="sex") <= most])
    is_deferred = deferred(family, selected.rule)
    of_groups = [is_deferred[sex == g].mean() for g in (0, 1)]
    assert max(of_groups) <= most
    assert max(of_groups) == pytest.approx(most, abs=2e-3)


def test_a_budget_is_relative_to_rules_that_defer_as_many_rows():
    family, p, y, _ = smooth(1)
    goal = rates.largest(rates.error(by="class"))
    chow = np.where(np.abs(p - 0.5) <= np.quantile(np.abs(p - 0.5), 0.1), 0, (p > 0.5) != y).mean()
    for budget in (0.0, 0.02):
        _, _, counted = grown(family, goal, [rates.deferred() <= 0.1], error_budget=budget)
        limit = counted.program.charges.limits[-1]
        assert limit.rate == rates.error()
        assert limit.bound == pytest.approx(chow + budget, abs=3e-3)


@pytest.mark.parametrize("cap", [rates.deferred() <= 0.2, rates.deferred(by="sex") <= 0.2])
@pytest.mark.parametrize("family", [smooth(1)[0], atoms(0, 3, 2, 9, defers=True)[0]], ids=["score", "weight"])
def test_a_budget_is_above_the_least_error_itself(family, cap):
    """Deferral has a price among rules with equal errors, which is no error."""
    n_classes = family.data.strata.n_classes
    right = np.eye(n_classes)[family.data.strata.y]
    pool, charges, _ = grown(family, rates.largest(rates.error(by="class")), [cap], error_budget=0.0)
    counts = np.array(pool.counts)
    within = broken_by([cap], charges.strata, counts) <= 1e-9
    errors = (counts[..., :n_classes] * (1 - right)).sum(axis=(1, 2))[within]
    assert charges.limits[-1].bound == pytest.approx(errors.min(), abs=1e-9)
    assert counts[within][errors.argmin(), :, n_classes].sum() > 0.01


def test_the_number_of_threads_changes_no_digit():
    """The number of BLAS threads has no effect on sums over rows, and so none on the candidates."""
    rng = np.random.default_rng(0)
    n, S = 20_000, 8
    chances = rng.dirichlet(np.full(S, 0.3), n).astype(np.float32)
    s = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, S - 1)
    names = GroupNames((range(4),), ("sex",))
    rows = Counts.stratified(s // 4, [s % 4], np.ones(n), NAMES[:2], names)
    family = ClassWeights(rows, probabilities=np.ascontiguousarray(chances.T))
    limits, found = [rates.selected("b", by="sex") <= 0.45], []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            pool, choice = one_rule(family, rates.error(), limits)
        duals = choice.mixture.duals
        found.append([*pool.candidates, choice.rule, duals])
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("wrong", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("slope", [0.0, 4.0])
def test_a_model_of_groups_is_judged_by_groups_in_their_class(wrong, slope):
    """Rows whose label is all but excluded tell nothing of their groups."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    p = np.where(rng.random(400) < wrong, 1e-6, 0.6)  # of the label
    P = np.where(y[:, None] == [0, 1], p[:, None], 1.0 - p[:, None])
    sex = (slope * X[:, 0] + rng.logistic(size=400) > 0).astype(int)
    rows = Counts.stratified(y, [sex], np.ones(400), NAMES[:2], GroupNames((range(2),), ("sex",)))
    models = SimpleNamespace(rows=SimpleNamespace(weight=np.ones(400)))
    outputs = SimpleNamespace(X=X, pooled=np.log(P), groups=np.zeros(400), models=models)
    family = ClassWeights(rows, probabilities=ClassWeights(rows).predict(outputs))
    assert bool(family.with_groups(outputs).models) == (slope > 0.0)
