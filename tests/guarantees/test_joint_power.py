"""The path of joint power: brute force, predictions beside simulations, exact tests, validity."""

import contextlib
import warnings
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest, norm

import tailboost as tb
from tailboost import rates
from tailboost.guarantees import calibration, score_path
from tailboost.guarantees.joint_power import JOINT_PROBITS, Bands, JointPowerPath, LimitedFamily, ScoreCells
from tailboost.guarantees.limited_rates import probits_of_rooms
from tailboost.guarantees.path import Path
from tailboost.rates import Answered, Strata

LEVEL = 0.05
CLASSES = np.repeat([0, 1], 2)  # of the strata of two groups
MISSES = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]], dtype=float)
ALARMS = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=float)


def strata(*, defers=False):
    """Return the strata of two classes and two groups."""
    return rates.Strata(
        (0, 1),
        ("g",),
        (("a", "b"),),
        np.array([[0], [1]]),
        np.full(4, 0.25),
        np.full(4, 100.0),
        defers=defers,
    )


def drawn(n, V, seed, uninformative=False):
    """Return weights by stratum and value: the label is likelier the larger the value."""
    rng = np.random.default_rng(seed)
    value, group = rng.integers(V, size=n), rng.integers(2, size=n)
    chance = 0.5 if uninformative else (value + 0.5) / V
    y = (rng.random(n) < chance).astype(int)
    weights = np.zeros((4, V))
    np.add.at(weights, (2 * y + group, value), 1.0)
    return weights


def counted(weights, t):
    """Return misses, false alarms, positives and negatives of the answers 1 from a value on."""
    negatives, positives = weights[:2].sum(axis=0), weights[2:].sum(axis=0)
    return positives[:t].sum(), negatives[t:].sum(), positives.sum(), negatives.sum()


def probit(errors, n, most, ratio, never):
    """Return the probit of the docstring, for a rate of all rows."""
    if never:
        return 9.0
    rate = (errors + 0.5) / (n + 1)
    power = 0.0
    for quantile in (0.1, 0.3, 0.5, 0.7, 0.9):  # of the number of fresh rows
        fresh = int(max(0.0, norm(ratio * n, np.sqrt(ratio * n * (1 + ratio))).ppf(quantile)))
        passing = [k for k in range(fresh + 1) if binom.cdf(k, fresh, most) <= LEVEL]
        if passing:
            spread = np.sqrt(fresh * rate * (1 - rate) * (1 + ratio))
            power += norm.cdf((passing[-1] + 0.5 - fresh * rate) / spread) / 5
    return float(np.clip(norm.ppf(power), -9, 9))


@pytest.mark.parametrize("seed", range(3))
def test_the_path_is_that_of_brute_force(seed):
    V, ratio = 12, 2.0
    weights = drawn(150, V, seed)
    limits = [rates.miss(1) <= 0.35, rates.false_alarm(1) <= 0.4]
    families = [LimitedFamily.from_limit(limit, strata()) for limit in limits]
    chances = ((np.arange(V) + 0.5) / V)[None]
    losses = MISSES + ALARMS
    bands, probits = JointPowerPath(
        ScoreCells(weights, np.zeros(4, dtype=int)), families, losses, chances, ratio, LEVEL, False
    ).path()
    by_t = {}
    for t in range(V + 1):
        missed, alarms, positives, negatives = counted(weights, t)
        both = probit(missed, positives, 0.35, ratio, t == 0), probit(alarms, negatives, 0.4, ratio, t == V)
        z = -9.0 if min(both) == -9.0 else float(np.clip(norm.ppf(np.prod(norm.cdf(both))), -9, 9))
        by_t[t] = z, missed + alarms
    expected = []
    for step in JOINT_PROBITS:
        allowed = [t for t, (z, _) in by_t.items() if z >= min(step, max(z for z, _ in by_t.values()))]
        best = min(allowed, key=lambda t: by_t[t][1])
        if not expected or by_t[best][1] < by_t[expected[-1]][1]:
            expected.append(best)
    assert bands.low[:, 0].tolist() == bands.high[:, 0].tolist() == expected
    assert probits == pytest.approx([by_t[t][0] for t in expected])


@pytest.mark.parametrize("most", [0.1, 0.15, 0.2])
def test_a_ratio_beside_misses_costs_what_the_best_thresholds_by_group_cost(most):
    """Every pair of thresholds is tried, in a population with known counts."""
    V, base = 80, np.array([0.1, 0.3])
    value = np.linspace(-3, 4, V)
    density = norm.pdf(value), norm.pdf(value - 1.6)
    densities = [by_value / by_value.sum() for by_value in density]
    n = 8000 * np.concatenate([1 - base, base])
    weights = n[:, None] * np.repeat(densities, 2, axis=0)
    chances = weights[2:] / (weights[:2] + weights[2:])
    limits = [rates.ratio(rates.selected(1, by="g")) >= 0.8, rates.miss(1) <= most]
    families = [LimitedFamily.from_limit(limit, strata()) for limit in limits]
    cells = ScoreCells(weights, np.array([0, 1, 0, 1]))
    path = JointPowerPath(cells, families, MISSES + ALARMS, chances, 2.0, LEVEL, False)
    bands, _ = path.path()
    reached = path.loss(bands)
    pairs = np.array(list(product(range(V + 1), repeat=2)))
    every = Bands(pairs, pairs)
    probits, losses = path.joint_probits(every), path.loss(every)
    for step in (2.0, 1.0, 0.0):
        least = losses[probits >= step].min()
        of_path = reached[path.joint_probits(bands) >= step].min()
        assert of_path <= 1.01 * least


@pytest.mark.parametrize("base", [0.2, 0.8])
def test_no_rule_of_the_path_costs_as_much_as_one_answer_that_keeps_all_limits(base):
    """One threshold for two groups has the same rate in both only if nearly all rows have one answer."""
    V = 30
    value = np.linspace(-3, 3, V)
    densities = [
        norm.pdf(value + shift) for shift in (1.5, -1.0, 0.5, -2.5)
    ]  # groups a, b of label 0, then 1
    shares = [1 - base, 1 - base, base, base]
    weights = np.array([500 * s * d / d.sum() for s, d in zip(shares, densities, strict=True)])
    family = LimitedFamily.from_limit(rates.ratio(rates.selected(1, by="g")) >= 0.8, strata())
    cells = ScoreCells(weights, np.zeros(4, dtype=int))
    chances = np.linspace(0, 1, V)[None]
    path = JointPowerPath(cells, [family], MISSES + ALARMS, chances, 1.0, LEVEL, False)
    bands, _ = path.path()
    of_one_answer = min(weights[:2].sum(), weights[2:].sum())
    assert path.constant_loss == pytest.approx(of_one_answer)
    every = path.candidates()
    likely = path.joint_probits(every) > 2
    assert (path.loss(every)[1:-1][likely[1:-1]] > of_one_answer).any()  # of rules with several answers
    assert (path.loss(bands) < of_one_answer).all()


def test_one_answer_sets_no_bar_where_it_may_break_a_limit():
    weights = drawn(200, 10, 0)
    families = [LimitedFamily.from_limit(rates.error() <= 0.6, strata())]
    cells = ScoreCells(weights, np.zeros(4, dtype=int))
    path = JointPowerPath(cells, families, MISSES + ALARMS, np.linspace(0, 1, 10)[None], 1.0, LEVEL, False)
    assert path.constant_loss == np.inf


def test_predicted_probabilities_are_those_of_fresh_rows():
    """Of the rules with about the same prediction, whatever their true rates, about this share pass."""
    rng, ratio, most, n = np.random.default_rng(0), 2.0, 0.2, 200
    family = LimitedFamily.from_limit(rates.miss(1) <= most, strata())
    at_one = Bands(np.ones((1, 1), dtype=int), np.ones((1, 1), dtype=int))
    true = rng.uniform(0.05, 0.3, size=3000)
    errors = rng.binomial(n, true)
    fresh = rng.binomial(int(ratio * n), true)
    passes = binom.cdf(fresh, int(ratio * n), most) <= LEVEL
    by_count = {}
    for count in np.unique(errors):
        weights = np.array([[0, 0], [0, 0], [count, n - count], [0, 0]], dtype=float)
        cells = ScoreCells(weights, np.zeros(4, int))
        path = JointPowerPath(cells, [family], MISSES, np.empty((1, 2)), ratio, LEVEL, False)
        by_count[count] = norm.cdf(path.probits(family, at_one))[0, 0]
    said = np.array([by_count[count] for count in errors])
    for low, high in ((0.02, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 0.98)):
        inside = (said >= low) & (said < high)
        assert inside.sum() > 100
        assert passes[inside].mean() == pytest.approx(said[inside].mean(), abs=0.08)


def test_predictions_for_a_small_group_count_the_noise_of_its_number_of_rows():
    """Group b has so few rows that its test passes only if enough of them are fresh."""
    rng, share, most, rate = np.random.default_rng(0), 0.3, 0.25, 0.002
    ratio = (1 - share) / share
    family = LimitedFamily.from_limit(rates.miss(1, by="g") <= most, strata())
    at_one = Bands(np.ones((1, 1), dtype=int), np.ones((1, 1), dtype=int))
    said, passes = [], []
    for n in rng.poisson(rng.uniform(5, 40, size=2000)):
        selecting = rng.binomial(n, share)
        weights = np.array([[0, 0], [0, 0], [4, 1996], [0, selecting]], dtype=float)
        path = JointPowerPath(
            ScoreCells(weights, np.zeros(4, int)), [family], MISSES, np.empty((1, 2)), ratio, LEVEL, False
        )
        said.append(norm.cdf(path.probits(family, at_one))[0, 1])
        fresh = n - selecting
        passes.append(binom.cdf(rng.binomial(fresh, rate), fresh, most) <= LEVEL)
    said, passes = np.array(said), np.array(passes)
    for low, high in ((0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (said >= low) & (said < high)
        assert inside.sum() > 100
        assert passes[inside].mean() == pytest.approx(said[inside].mean(), abs=0.2)


def test_a_small_group_gets_the_answer_that_keeps_its_limit_where_its_test_may_lack_rows():
    """Ten of 17 rows have label 1: a test needs eleven. The answer 1 to all of them needs no test."""
    limits = ["miss(1, by=g) <= .25", "precision(1) >= .5"]
    rng = np.random.default_rng(0)
    for seed in range(8):
        T, y, g = table(6000, seed, shares=(0.6, 0.4))
        small = rng.permutation(6000)[:17]
        g.loc[small, "g"] = 2
        y[small] = np.arange(17) < 10
        rule = tb.calibrate(
            tb.Scores("s", 1),
            T,
            y,
            groups=g,
            limits=limits,
            by_group="g",
            random_state=seed,
            confidence=1 - 0.05 / 0.9,
        )
        assert rule.predict(T.loc[small], groups=g.loc[small]).all()


def test_tests_are_exact_and_spare_what_is_kept_by_construction():
    rng = np.random.default_rng(1)
    limits = [rates.miss(1, by="g") <= 0.3, rates.false_alarm(1) <= 0.3, rates.precision(1) >= 0.6]
    outcomes = set()
    for _ in range(200):
        counts = rng.integers(0, 40, size=(4, 3)).astype(float) * [[0.3, 1, 0.2]] // 1
        never = np.zeros((4, 3), dtype=bool)
        for limit in limits:
            passed = LimitedFamily.from_limit(limit, strata(defers=True)).passes(counts[None], never, LEVEL)
            if limit.rate.kind == "miss":
                each = [(counts[2 + g, 0], counts[2 + g].sum(), 0.3) for g in (0, 1)]
            elif limit.rate.kind == "false_alarm":
                each = [(counts[:2, 1].sum(), counts[:2].sum(), 0.3)]
            else:
                each = [(counts[:2, 1].sum(), counts[:, 1].sum(), 0.4)]
            exact = all(
                n > 0 and binomtest(int(k), int(n), p, alternative="less").pvalue <= LEVEL for k, n, p in each
            )
            assert passed == exact
            outcomes.add((limit.rate.kind, bool(passed)))
    assert len(outcomes) >= 5
    nobody_missed = np.zeros((4, 3), dtype=bool)
    nobody_missed[:, 0] = True
    family = LimitedFamily.from_limit(limits[0], strata())
    assert family.passes(np.zeros((1, 4, 3)), nobody_missed, LEVEL)
    assert not family.passes(np.zeros((1, 4, 3)), ~nobody_missed, LEVEL)


def table(n, seed, shares=(0.6, 0.35, 0.05)):
    """Return scores, labels and groups; the last group is small."""
    rng = np.random.default_rng(seed)
    g = rng.choice(len(shares), n, p=shares)
    y = (rng.random(n) < 0.35).astype(int)
    s = 1 / (1 + np.exp(-(rng.normal(size=n) + 1.6 * y - 1.0)))
    return pd.DataFrame({"s": s}), y, pd.DataFrame({"g": g})


def calibrated(X, y, groups, limits, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tb.calibrate(
            tb.Scores("s", 1), X, y, groups=groups, limits=limits, confidence=1 - 0.05 / 0.9, **given
        )


@pytest.mark.parametrize("by_group", [False, True])
def test_several_limits_are_certified_by_the_exact_tests_of_fresh_rows(by_group):
    """Each limit passes its test on the certifying rows, or cannot be broken; human review is used."""
    X, y, groups = table(3000, 0)
    limits = ["miss(1, by=g) <= 10%", "deferred() <= 40%"]
    rule = calibrated(X, y, groups, limits, by_group=by_group)
    assert {bound.subgroup for bound in rule.certificate_.bounds} == {0, 1, 2, None}
    new, labels, new_groups = table(40_000, 1)
    given = {"groups": new_groups} if by_group else {}
    answers, deferred = rule.predict(new, **given), rule.defers(new, **given)
    for g in range(3):
        ill = (labels == 1) & (new_groups["g"] == g).to_numpy()
        assert ((answers == 0) & ~deferred)[ill].mean() <= 0.12
    assert 0.05 < deferred.mean() <= 0.4
    safe = np.mean(labels == 0)  # of the answer 1 to all rows
    assert np.mean((answers != labels) & ~deferred) < safe / 2


def verdicts(monkeypatch, failing):
    """Let all tests of limits pass but one, by its number from 1; return their counts."""
    tested = []

    def passes(family, counts, never, level):
        tested.append(counts)
        return len(tested) != failing

    monkeypatch.setattr(LimitedFamily, "passes", passes)
    return tested


@pytest.mark.parametrize("failing", [4, 8])
def test_the_rule_before_the_first_failure_is_taken(failing, monkeypatch):
    """Each rule has two tests: the fourth is the second one of the second rule."""
    tested = verdicts(monkeypatch, failing=failing)
    rule = calibrated(*table(1500, 4)[:2], None, ["precision(1) >= 30%", "deferred() <= 60%"])
    deferred = [counts[..., 2].sum() / counts.sum() for counts in tested[::2]]
    passed = failing // 2 - 1
    assert rule.certificate_.bounds[1].estimate == deferred[passed - 1]
    assert deferred[passed - 1] not in (*deferred[: passed - 1], deferred[passed])


def answering(n):
    """Return n rules: the k-th gives the answer 1 to k of n rows, all with the label 1, and 0 to others."""
    strata_of_rows, stratum = Strata.of(np.ones(n, dtype=int), None, np.ones(n), (0, 1))
    return [
        SimpleNamespace(
            answered=Answered(strata_of_rows, stratum, (np.arange(n) < k).astype(int), None), clusters=None
        )
        for k in range(1, n + 1)
    ]


def test_of_every_pattern_of_verdicts_the_last_rule_of_the_first_passes_is_taken(monkeypatch):
    """Of two limits one may fail; behind a failure nothing is tested."""
    rules = answering(4)
    fresh = SimpleNamespace(answered=rules[0].answered, by=lambda rule: rule)
    odds = SimpleNamespace(places_of=lambda _: np.zeros(2, dtype=int), values=np.zeros(3))
    bands = Bands(np.zeros((4, 1), dtype=int), np.zeros((4, 1), dtype=int))
    for pattern in product(["both", "first", "second", "none"], repeat=4):
        tested = []

        def families_of(*_, pattern=pattern, tested=tested):
            def passes(name, counts):
                number = int(counts[0, 1, 1]) - 1  # the answers 1 to rows with the label 1
                tested.append(number)
                return pattern[number] in ("both", name)

            return [
                SimpleNamespace(
                    has_strata=np.ones(1, dtype=bool),
                    passes=lambda counts, *_, name=name: passes(name, counts),
                )
                for name in ("first", "second")
            ]

        monkeypatch.setattr(score_path, "families_of", families_of)
        run = score_path.ScorePath(SimpleNamespace(problem=SimpleNamespace(limits=[])), fresh, LEVEL)
        run.__dict__ |= {"odds": odds, "path": (bands, np.zeros(4))}
        monkeypatch.setattr(
            score_path.ScorePath, "rules", lambda _: iter([(np.zeros((2, 3)), rule) for rule in rules])
        )
        result = run.run()
        n_passed = [*pattern, "none"].index(next(v for v in [*pattern, "none"] if v != "both"))
        assert max(tested) == min(n_passed, 3)
        if n_passed:
            assert result.selection is rules[n_passed - 1]
        else:
            assert result.answered is rules[0]


def test_no_rule_is_certified_if_the_first_one_fails(monkeypatch):
    verdicts(monkeypatch, failing=1)
    with pytest.raises(tb.NotCertifiedError):
        calibrated(*table(1500, 4)[:2], None, ["precision(1) >= 30%", "deferred() <= 60%"])


def test_groups_that_share_rows_are_not_compared_by_tests_of_independent_counts(monkeypatch):
    """Each row is in a group of each column, so the counts of the compared groups depend on each other."""
    X, y, groups = table(600, 3)
    groups = groups.assign(half=np.arange(600) % 2)
    limits = ["gap(miss(1, by=group)) <= 30%", "deferred() <= 40%"]
    served, own = [], calibration.first_that_applies

    def recorded(*given):
        served.append(own(*given))
        return served[-1]

    monkeypatch.setattr(calibration, "first_that_applies", recorded)
    with contextlib.suppress(tb.NotCertifiedError):
        calibrated(X, y, groups, limits)
    assert type(served[0]) is Path


def test_a_small_group_gets_an_answer_that_keeps_its_limit_by_construction():
    X, y, groups = table(1200, 2, shares=(0.6, 0.385, 0.015))
    rule = calibrated(X, y, groups, ["miss(1, by=g) <= 10%", "deferred() <= 40%"], by_group=True)
    small = pd.DataFrame({"s": np.linspace(0, 1, 101)})
    given = {"groups": pd.DataFrame({"g": np.full(101, 2)})}
    assert not ((rule.predict(small, **given) == 0) & ~rule.defers(small, **given)).any()


def test_a_group_without_fresh_rows_gets_the_answer_that_no_label_there_can_break():
    """No label of group 2 is known, so the answer 1 there may have any precision: nobody gets it."""
    X, y, groups = table(4000, 0, shares=(0.45, 0.35, 0.2))
    selecting = slice(0, 1500)
    fresh = (np.arange(4000) >= 1500) & (groups["g"] != 2).to_numpy()
    limits = ["precision(1, by=g) >= 50%", "miss(1) <= 50%"]
    rule = tb.tune(
        tb.Scores("s", 1), X[selecting], y[selecting], groups=groups[selecting], limits=limits, by_group=True
    )
    certified = tb.calibrate(rule, X[fresh], y[fresh], groups=groups[fresh], confidence=1 - 0.05 / 0.9)
    new, labels, new_groups = table(40_000, 1, shares=(0.45, 0.35, 0.2))
    answers, g = certified.predict(new, groups=new_groups), new_groups["g"].to_numpy()
    assert not answers[g == 2].any()
    assert min(labels[(answers == 1) & (g == group)].mean() for group in (0, 1)) >= 0.5
    assert np.mean(answers[(labels == 1) & (g != 2)] == 0) <= 0.5


THREE = [("miss", None, 0.3), ("false_alarm", None, 0.5), ("deferred", None, 0.2)]
# Number of thresholds, of values, and limits.
SETTINGS = {
    "misses, false alarms, deferral": (1, 20, THREE),
    "misses by group, false alarms, deferral": (2, 20, [("miss", "g", 0.3), *THREE[1:]]),
    "few values": (1, 10, THREE),
    "error and deferral": (1, 20, [("error", None, 0.2), ("deferred", None, 0.6)]),
    "misses and false alarms by group": (2, 20, [("miss", "g", 0.5), ("false_alarm", "g", 0.5)]),
    "a precision and misses": (1, 20, [("precision", None, 0.5), ("miss", None, 0.5)]),
}  # fmt: skip


def test_a_share_across_groups_costs_what_the_best_thresholds_by_group_cost():
    """The groups need different prices: a common price leaves women half of the answers 1."""
    limit = rates.representation(1, by="g") >= {"f": 0.55}

    def drawn_rows(n, seed):
        rng = np.random.default_rng(seed)
        score, g = rng.random(n), rng.choice(["f", "m"], n)
        return score[:, None], (rng.random(n) < score).astype(int), {"g": g}

    further, labels, groups = drawn_rows(50_000, 99)
    is_women = groups["g"] == "f"
    errors_of_best = []
    for of_women, of_men in product(np.linspace(0.0, 1.0, 51), repeat=2):
        answers = further[:, 0] >= np.where(is_women, of_women, of_men)
        if answers.any() and np.mean(is_women[answers]) >= 0.55:
            errors_of_best.append(np.mean(answers != labels))

    errors = []
    for seed in range(4):
        X, y, g = drawn_rows(1500, seed)
        rule = tb.calibrate(tb.Scores(0, 1), X, y, groups=g, objective="error", limits=[limit], by_group=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # men have no limit
            errors.append(np.mean(rule.predict(further, groups=groups) != labels))
    assert np.mean(errors) <= min(errors_of_best) + 0.03


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("n", [300, 1500])
def test_at_the_boundary_at_most_the_level_is_certified(name, n):
    """The score says nothing of the label, so no rule keeps all limits, each by a little: 1,000 draws."""
    m, V, stated = SETTINGS[name]
    defers = any(kind == "deferred" for kind, *_ in stated)
    limits = []
    for number, (kind, by, bound) in enumerate(stated):
        rate = getattr(rates, kind)(*([] if kind in ("error", "deferred") else [1]), by=by)
        beyond = 1e-4 * (number == 0)
        limits.append(rate >= bound + beyond if kind == "precision" else rate <= bound - beyond)
    families = [LimitedFamily.from_limit(limit, strata(defers=defers)) for limit in limits]
    place = np.tile(np.arange(2), 2) if m == 2 else np.zeros(4, dtype=int)
    losses = np.array([[0, 1, 0.2], [0, 1, 0.2], [1, 0, 0.2], [1, 0, 0.2]])
    chances = np.repeat(((np.arange(V) + 0.5) / V)[None], m, axis=0)
    false = 0
    for seed in range(1000):
        selecting, fresh = (
            drawn(k, V, [seed, j, n], uninformative=True) for j, k in enumerate((int(0.3 * n), n))
        )
        path = JointPowerPath(ScoreCells(selecting, place), families, losses, chances, 1 / 0.3, LEVEL, defers)
        bands, _ = path.path()
        cells = ScoreCells(fresh, place)
        counts, never = cells.answered(bands)[0], cells.never(bands)[0]  # of the first rule: a pass is false
        false += all(family.passes(counts[None], never, LEVEL) for family in families)
    assert binom.sf(false - 1, 1000, LEVEL) > 0.001


def test_rows_are_deferred_beside_a_limit_on_a_gap():
    """Without review the same limits cost more: the rule uses the allowed deferral."""
    rng = np.random.default_rng(2)
    p = rng.beta(1, 3, 8000).round(4)
    y = (rng.random(8000) < p).astype(int)
    X = p[:, None]
    groups = {"g": rng.choice(["a", "b"], 8000)}
    limits = ["miss(1) <= 30%", "gap(selected(1, by=g)) <= 10%"]
    errors = {}
    for more in ([], ["deferred <= 10%"]):
        rule = tb.calibrate(tb.Scores(0, 1), X, y, groups=groups, limits=limits + more)
        wrong = (rule.predict(X, deferred=-1) != y) & ~rule.defers(X)
        errors[len(more)] = wrong.mean()
        assert bool(rule.defers(X).any()) is bool(more)
    assert errors[1] < errors[0] - 0.02


@pytest.mark.parametrize("seed", range(3))
def test_rules_that_defer_are_as_good_whichever_label_is_first(seed):
    """Only the order of the labels differs: the limited one is the second, or the first."""
    rng = np.random.default_rng(10 + seed)
    score = rng.normal(size=2000)
    site = rng.choice(list("abc"), 2000, p=[0.5, 0.3, 0.2])
    ill = score + 0.35 * rng.normal(size=2000) > 0.8
    chance = 1.0 / (1.0 + np.exp(-4.0 * (score + 0.45 * rng.normal(size=2000) - 0.8)))
    errors = []
    for labels in (np.array(["no", "yes"]), np.array(["well", "ill"])):
        positive = str(labels[1])
        rule = tb.calibrate(
            tb.Scores("p", positive),
            pd.DataFrame({"p": chance}),
            labels[ill.astype(int)],
            groups={"site": site},
            limits=[f"sensitivity({positive}, by=site) >= 85%", "deferred <= 22%"],
        )
        (error,) = [price.given for price in rule.certificate_.price if price.name == "overall error"]
        errors.append(error)
    assert abs(errors[0] - errors[1]) < 0.02


# -- clusters ----------------------------------------------------------------------------------------------


def visits(seed, persons=500):
    """Return scores, labels and persons of visits; labels and scores of a person are correlated."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rng.poisson(5, persons) + 1)
    n = len(person)
    of_person = rng.random(persons) < 0.25
    y = np.where(rng.random(n) < 0.6, of_person[person], rng.random(n) < 0.25).astype(int)
    shift = 0.6 * rng.normal(size=persons)
    x = 0.8 * rng.normal(size=n) + shift[person] + 1.2 * y
    odds = 1.2 * x - 0.72 + np.log(0.25 / 0.75)
    return pd.DataFrame({"p": 1 / (1 + np.exp(-odds))}), y, person


@pytest.mark.parametrize("seed", [1, 7, 18])
def test_misses_and_deferral_share_the_risk_where_each_person_has_one_vote(seed):
    """Many persons have visits, and few have ill visits: the limit on deferral has the smaller margin."""
    X, y, person = visits(seed)
    limits = ["miss(1) <= 20%", "deferred <= 20%"]
    rule = tb.calibrate(tb.Scores("p", 1), X, y, clusters=person, limits=limits, confidence=1 - 0.05 / 0.9)
    certificate = rule.certificate_
    missed, deferred = certificate.bounds
    assert missed.n < deferred.n
    assert deferred.n == pytest.approx(450, abs=30)
    assert missed.certified
    assert deferred.certified


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_the_predicted_power_of_a_normal_test_is_that_of_normal_draws(level, ratio):
    """The room is known with the noise of the selection rows; the test has that of the fresh rows."""
    rng = np.random.default_rng(0)
    rooms, deviation = np.array([-0.01, 0.02, 0.05]), 0.02
    true = rooms + rng.normal(0, deviation, (200_000, 3))
    on_fresh = deviation / np.sqrt(ratio)
    passes = true + rng.normal(0, on_fresh, true.shape) >= norm.isf(level) * on_fresh
    predicted = norm.cdf(probits_of_rooms(rooms, np.full(3, deviation), ratio, level))
    np.testing.assert_allclose(predicted, passes.mean(axis=0), atol=0.006)
