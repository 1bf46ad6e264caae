"""The search for one rule, against counting and against every rule of a small table."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import logit
from test_selecting import ODDS, atoms, best_mixture, broken_by, grown, one_rule, value_of

import tailboost as tb
from tailboost import rates
from tailboost.rates import Counts, as_objective
from tailboost.rows.groups import GroupNames
from tailboost.selection.search import Charges, Program, solve
from tailboost.selection.thresholds import Thresholds
from tailboost.selection.weights import ClassWeights, expected_costs


def by_sex(seed, n=600, G=2, values=None, right=False):
    """Return thresholds by group, of scores with unequal quality by group.

    Further results are p(1 | x), the classes and the groups.
    """
    rng = np.random.default_rng(seed)
    y, g = rng.integers(2, size=n), rng.integers(G, size=n)
    log_odds = (0.8 + 0.8 * g) * (2 * y - 1) + 0.7 * g + 1.3 * rng.normal(size=n)
    p = 1 / (1 + np.exp(-log_odds))
    if right:
        y = (rng.random(n) < p).astype(int)
    if values:
        p = np.round(p * values) / values
    data = Counts.stratified(y, [g], np.ones(n), np.array(["a", "b"]), GroupNames((range(G),), ("sex",)))
    return Thresholds(data, p, p, 0), p, y, g


BY_SEX = {
    "odds": ODDS, "parity": [rates.gap(rates.selected("b", by="sex")) <= 0.02],
    "ratio": [rates.ratio(rates.selected("b", by="sex")) >= 0.9],
    "ratio within a ceiling": [rates.ratio(rates.selected("b", by="sex")) >= 0.9, rates.selected("b") <= 0.4],
}  # fmt: skip


def thresholds_of(family, p, y, g):
    """Return the confusion counts of all thresholds of each group: a list of arrays (T, S, 2)."""
    G, found = len(family.data.strata.combinations), []
    for group in range(G):
        own = g == group
        cuts = np.append(np.unique(p[own]), np.inf)
        tallies = np.zeros((len(cuts), 2 * G, 2))
        for t, cut in enumerate(cuts):
            for k, a in product((0, 1), (0, 1)):
                tallies[t, k * G + group, a] = (own & (y == k) & ((p >= cut) == a)).mean()
        found.append(tallies)
    return found


@pytest.mark.parametrize("name", BY_SEX)
def test_of_groups_with_thresholds_one_rule_is_nearly_the_best_pair_of_thresholds(name):
    """Against every pair of thresholds of two groups."""
    limits = BY_SEX[name]
    family, p, y, g = by_sex(0, values=50)
    _, selected = one_rule(family, rates.error(), limits)
    charges = Charges(family.data.strata, as_objective(rates.error()), limits)
    one, other = thresholds_of(family, p, y, g)
    both = (one[:, None] + other[None]).reshape(-1, 4, 2)
    kept = broken_by(limits, family.data.strata, both) <= 1e-9
    errors = np.array([value_of(rates.error(), family.data.strata, tally)[0] for tally in both[kept]])
    assert charges.keeps(selected.counts)
    assert errors.min() - 1e-9 <= charges.value(selected.counts) <= errors.min() + 5 / 600


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.parametrize("seed", range(4))
def test_thresholds_by_group_are_exact_if_each_limit_is_on_one_group(seed):
    """Against all thresholds of each group, on a score without meaning as a probability."""
    rng = np.random.default_rng(seed)
    group = rng.choice(4, 400, p=[0.5, 0.3, 0.15, 0.05])
    label = (rng.random(400) < np.array([0.1, 0.3, 0.2, 0.5])[group]).astype(int)
    score = rng.normal(size=400) + 1.2 * label + np.array([0.0, 1.0, -1.0, 0.5])[group]
    least = 0
    for g in range(4):
        own, truth = score[group == g], label[group == g]
        answers = own >= np.append(own, np.inf)[:, None]
        misses = (~answers & (truth == 1)).sum(axis=1)
        wrong = misses + (answers & (truth == 0)).sum(axis=1)
        least += wrong[misses <= 0.3 * truth.sum()].min()
    groups = {"g": group}
    given = {"groups": groups, "limits": ["miss(1, by=g) <= 30%"], "by_group": "g"}
    rule = tb.tune(tb.Scores(0, 1, kind="number"), score[:, None], label, **given)
    assert (rule.predict(score[:, None], groups=groups) != label).sum() == least


@pytest.mark.parametrize("name", ["odds", "parity", "ratio"])
@pytest.mark.parametrize("G", [2, 4])
def test_of_groups_with_thresholds_the_mixture_is_that_of_the_exact_program(name, G):
    """Against a linear program over all thresholds of each group, from either side, by a generic solver."""
    family, p, y, g = by_sex(7, n=1500, G=G, right=True)
    _, _, growth = grown(family, rates.error(), BY_SEX[name])
    tallies = [np.concatenate([t, t[:, :, ::-1]]) for t in thresholds_of(family, p, y, g)]
    sizes, program = [len(t) for t in tallies], growth.program
    flat = np.concatenate(tallies).reshape(sum(sizes), -1)
    n_free = program.free.shape[1]
    one_each = np.zeros((G, len(flat) + n_free))
    for group, end in enumerate(np.cumsum(sizes)):
        one_each[group, end - sizes[group] : end] = 1.0
    cost = np.append(flat @ program.cost, np.zeros(n_free))
    limits = np.hstack([program.matrix @ flat.T, program.free])
    bounds = [(0, None)] * len(flat) + [(None, None)] * n_free
    found = linprog(cost, limits, program.bound, one_each, np.ones(G), bounds)
    assert growth.value == pytest.approx(found.fun, abs=0.015)  # of right probabilities, up to chance
    assert growth.value >= found.fun - 1e-8


def rules_on_lines(family, rule, n_moves=3):
    """Yield some rules on each line from rules of a descent, with their counts by its changes, (T, W, A)."""
    rng, reached, first = np.random.default_rng(0), family.reached(rule), counted(family, rule)
    each_count = np.eye(first.size).reshape(*first.shape, 1, -1)
    for _ in range(n_moves):
        for move in family.moves(compares=True):
            line = family.line(reached, move, each_count)
            counts = np.tile(counted(family, reached.candidate), (len(line.changes), 1, 1))
            counts.reshape(len(counts), -1)[:, line.rates] += line.changes[:, 0]
            some = range(0, len(counts), len(counts) // 40 + 1)
            yield [line.to(number).candidate for number in some], counts[some]
        reached = line.to(int(rng.integers(len(counts))))


def counted(family, rule):
    """Return the confusion counts of a rule, with each row answered alone."""
    if isinstance(family, ClassWeights):
        return family.data.counts(expected_costs(family.probabilities, rule).argmin(axis=0))
    cuts = rule[family.place[family.data.stratum]]
    low, high = family.edges[cuts[:, 0]], family.edges[cuts[:, -1]]
    return family.data.counts(np.where(family.score < low, 0, np.where(family.score < high, 2, 1)))


def families():
    """Yield families of either kind with a rule of each, with and without deferral and costs."""
    rng = np.random.default_rng(0)
    for K, G, defers, costs in ((2, 2, 0, 0), (2, 2, 1, 0), (3, 2, 0, 1), (2, 1, 0, 1)):
        family, _ = atoms(1, K, G, 8, n=300, weights=True, defers=defers, costs=costs)
        shape = len(family.probabilities), family.data.strata.n_actions
        yield family, rng.normal(size=shape)
        yield family, np.zeros(shape)  # the costs of all actions tie
        if K == 2:
            score = rng.integers(12, size=300) / 12
            for column in (None, 0)[:G]:
                thresholds = Thresholds(family.data, score, score, column)
                yield thresholds, thresholds.best(rng.normal(size=shape))


def test_a_line_counts_as_its_rules_do():
    """The running changes of the counts, against the answers of each rule on the line."""
    for family, rule in families():
        for rules, counts in rules_on_lines(family, rule):
            for each, moved in zip(rules, counts, strict=True):
                np.testing.assert_allclose(moved, counted(family, each), atol=1e-12)
                np.testing.assert_allclose(family.counts(each), counted(family, each), atol=1e-12)


def test_bins_cuts_and_chances_of_weighted_rows():
    """A score at a written threshold is above it, a cut above a row of its place, and a chance by weight."""
    rng = np.random.default_rng(0)
    (y, g), (weight, chance) = rng.integers(2, size=(2, 300)), rng.random((2, 300))
    score = rng.integers(12, size=300) // (1 + 3 * g) / 12
    data = Counts.stratified(y, [g], weight, np.array(["a", "b"]), GroupNames((range(2),), ("sex",)))
    family = Thresholds(data, score, chance, 0)
    for place in range(2):
        values, counts = np.unique(score[g == place], return_counts=True)
        n_below = (score[g == place, None] < family.edges[family.by_place[place].cuts]).sum(axis=0)
        assert n_below.tolist() == [0, *counts.cumsum()]
        written = family.decimals(np.tile(values[1:], (2, 1)))[place]
        for scores, like in ((written, values[1:]), (np.nextafter(written, -1), values[:-1])):
            bins = family.bins(scores, np.full(len(scores), place))
            assert ((family.edges[bins] <= like) & (like < family.edges[bins + 1])).all()
    # Fitting to the labels shifts the log-odds of all bins alike.
    _, in_bin = np.unique(score, return_inverse=True)
    mean = np.bincount(in_bin, weight * chance) / np.bincount(in_bin, weight)
    (fitted,) = Thresholds(data, score, chance, None).chances
    assert np.ptp(logit(fitted) - logit(mean)) < 1e-6


def test_each_class_has_one_more_row_in_the_shares_of_groups_divided_as_the_groups():
    """Class b has no row of the second group, which has a third of all rows."""
    names = GroupNames((range(2),), ("sex",))
    strata, subgroups = np.array([0, 0, 1]), [np.array([0, 1, 0])]
    data = Counts.stratified(strata, subgroups, np.ones(3), np.array(["a", "b"]), names)
    np.testing.assert_allclose(ClassWeights(data).shares, [[5 / 9, 4 / 9], [5 / 6, 1 / 6]])


SELECTED = rates.selected("b", by="sex")
LIMITED = {
    "each": [rates.miss("b") <= 0.3, rates.precision("b", by="sex") >= 0.5, rates.error(by="class") <= 0.4],
    "compared": [rates.gap(SELECTED) <= 0.1, rates.ratio(SELECTED) >= 0.8],
    "named": [rates.miss("b", by="sex") <= {0: 0.3}, rates.representation("b", by="sex") <= 0.6],
}


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("objective", [rates.error(), rates.largest(rates.error(by="cell"))])
def test_rules_are_charged_by_the_rates_of_their_counts(name, objective):
    """Against objective and violations from the rates of the counts, one rule after the other."""
    for family, rule in families():
        strata = family.data.strata
        if len(strata.combinations) == 1:
            continue
        charges = Charges(strata, as_objective(objective), LIMITED[name])
        for rules, _ in rules_on_lines(family, rule, 1):
            counts = np.array([counted(family, each) for each in rules])
            found = charges.of(counts)
            for charge, moved in zip(found, counts, strict=True):
                value = np.nanmax(value_of(as_objective(objective).rate, strata, moved))
                if objective == rates.error():  # beside it, each deferred row costs a thousandth
                    value += 1e-3 * moved[:, strata.n_classes : strata.n_actions].sum()
                broken = float(broken_by(charges.limits, strata, moved))
                expected = value + (10 * (1 + broken) if broken > 1e-9 else 0.0)
                assert charge == pytest.approx(expected, abs=1e-10)


def test_of_equal_charges_the_least_error_is_best_and_without_rows_no_charge_is_less():
    rows = Counts.answered([0, 0, 1, 1], [0, 0, 1, 1])
    charges = Charges(rows.strata, as_objective("miss(1)"), ())
    answers = [1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]  # none misses
    counts = [rows.counts(np.array(each)) for each in answers]
    assert charges.best(counts) == 1
    assert charges.of(0 * counts[1]) < charges.of(counts[1])


def reachable(family, x, rule):
    """Whether prices give this rule of x: a linear program."""
    first = np.array([np.flatnonzero(x == i)[0] for i in range(int(x.max()) + 1)])
    signs = np.where(np.array(rule) == 1, 1.0, -1.0)[:, None]
    chances = family.probabilities[:, first].T.astype(np.float64)
    S = chances.shape[1]
    left, right = np.c_[signs * chances, np.ones(len(first))], np.zeros(len(first))
    found = linprog(np.r_[np.zeros(S), -1.0], left, right, bounds=[(-1, 1)] * S + [(0, 1)])
    return found.status == 0 and -found.fun > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("bound", [0.1, 0.3])
def test_one_rule_is_nearly_the_best_of_all_rules_from_prices(bound):
    """On tables of six values, against every rule with prices found by a linear program."""
    kept, lost = 0, []
    limits = [rates.gap(rates.miss("b", by="sex")) <= bound, rates.selected("b") <= 0.6]
    for seed in range(4):
        family, x = atoms(seed, 2, 2, 6)
        if best_mixture(family, x, rates.error(), limits) is None:
            continue
        _, selected = one_rule(family, rates.error(), limits)
        charges = Charges(family.data.strata, as_objective(rates.error()), limits)
        values = []
        for rule in product((0, 1), repeat=int(x.max()) + 1):
            tally = family.data.counts(np.array(rule)[x])
            if broken_by(limits, family.data.strata, tally) <= 1e-9 and reachable(family, x, rule):
                values.append(float(value_of(rates.error(), family.data.strata, tally)[0]))
        if values:
            kept += charges.keeps(selected.counts)
            if charges.keeps(selected.counts):
                lost.append(charges.value(selected.counts) - min(values))
    assert kept >= 2
    assert np.mean(lost) <= 0.01
    assert max(lost) <= 0.04


def test_one_rule_equals_a_mixture_if_probabilities_are_smooth():
    """With continuous stratum probabilities, one rule without ties is as good as a mixture."""
    rng, n = np.random.default_rng(3), 4000
    z, u = rng.normal(size=n), rng.normal(size=n)
    p, q = 1 / (1 + np.exp(-1.5 * z)), 1 / (1 + np.exp(-z - u))  # of the class, of the group
    y, g = (rng.random(n) < p).astype(int), (rng.random(n) < q).astype(int)
    rows = Counts.stratified(y, [g], np.ones(n), np.array(["a", "b"]), GroupNames(((0, 1),), ("sex",)))
    chances = np.stack([(1 - p) * (1 - q), (1 - p) * q, p * (1 - q), p * q]).astype(np.float32)
    family = ClassWeights(rows, probabilities=chances)
    for limits in BY_SEX.values():
        pool, selected = one_rule(family, rates.error(), limits)
        charges = Charges(family.data.strata, as_objective(rates.error()), limits)
        drawn = solve(pool.counts, Program(charges)).counts
        assert charges.keeps(selected.counts)
        assert charges.value(selected.counts) <= charges.value(drawn) + 5e-3


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_that_a_threshold_keeps_is_kept_on_scores_of_few_values(seed):
    """Against every threshold on the score: the rule keeps the limit, with no more error than the best."""
    rng = np.random.default_rng(seed)
    n, levels = int(rng.choice([200, 2000])), int(rng.integers(2, 7))
    level, prevalence = rng.integers(levels, size=n), rng.uniform(0.05, 0.5)
    chance = np.sort(rng.beta(1, (1 - prevalence) / prevalence, levels))
    y = (rng.random(n) < chance[level]).astype(int)
    data = Counts.stratified(y, [], np.ones(n), np.array(["a", "b"]))
    p = np.array([y[level == k].mean() if (level == k).any() else 0.0 for k in range(levels)])[level]
    family = Thresholds(data, p, p, None)
    for limit in (rates.miss("b") <= 0.1, rates.false_alarm("b") <= 0.1, rates.precision("b") >= 0.5):
        charges = Charges(data.strata, as_objective(rates.error()), [limit])
        cuts = np.append(np.unique(p), np.inf)
        tallies = np.array([family.data.counts((p >= cut).astype(int)) for cut in cuts])
        kept = broken_by([limit], data.strata, tallies) <= 1e-9
        if kept.any():
            _, selected = one_rule(family, rates.error(), [limit])
            assert charges.keeps(selected.counts)
            assert charges.value(selected.counts) <= charges.of(tallies[kept]).min() + 1e-9
