"""Certificates of rates: bounds, coverage, and refused input."""

import copy
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from conftest import refused
from scipy.stats import beta, multinomial
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.rate_bounds import all_pass, joint_bounds
from tailboost.rates import Counts
from tailboost.rates.rate import DEFINITIONS as KINDS
from tailboost.rows import Votes
from tailboost.rows.ledger import Records
from tailboost.selection.door import Decided, Decision, Known, answering, read_answers
from tailboost.selection.identity import Identity

SELECTED = rates.selected("yes", by="sex")
NAMES = np.array(["no", "yes"])
EACH_VOTES = Votes(None, np.zeros(0), same_everywhere=False)
WITHIN_SUBGROUPS = [name for name in KINDS if name not in ("representation", "tail", "shift")]


def answered_in_groups(y, answers, groups, deferred=None):
    """Return answered rows with both groups, also without rows."""
    rows = Counts.answered(y, answers, groups=groups, deferred=deferred, labels=NAMES)
    values = tuple(dict.fromkeys((*rows.strata.values[0], "f", "m")))
    return replace(rows, strata=replace(rows.strata, values=(values,)))


def drawn(n, seed=0, p=(0.3, 0.4), weight=0.5):
    """Return truth, answers and groups of n rows, with "yes" rates p by group."""
    rng = np.random.default_rng(seed)
    sex, y = (rng.random(n) < weight).astype(int), rng.integers(2, size=n)
    a = (rng.random(n) < np.asarray(p)[sex]).astype(int)
    return NAMES[y], NAMES[a], {"sex": np.array(["f", "m"])[sex]}


def test_one_limit_is_bounded_by_the_exact_binomial_test():
    y, a, groups = drawn(300)
    cert, k = tb.certify(a, None, y, rates=[rates.selected("yes") <= 0.5]), int((a == "yes").sum())
    assert cert.bounds[0].upper == pytest.approx(beta.ppf(0.95, k + 1, 300 - k))
    assert cert.certified
    both = tb.certify(a, None, y, groups=groups, rates=["selected(yes, by=sex)"])
    for bound in both.bounds:
        inside = a[groups["sex"] == bound.subgroup] == "yes"
        n, k = len(inside), int(inside.sum())
        assert bound.n == n
        assert bound.upper == pytest.approx(beta.ppf(1 - 0.05 / 4, k + 1, n - k))
        assert bound.lower == pytest.approx(beta.ppf(0.05 / 4, k, n - k + 1))


@pytest.mark.parametrize("kind", [*WITHIN_SUBGROUPS, "cost in steps"])
def test_a_bound_that_names_clopper_pearson_is_one(kind):
    """The printed method is the used one: Clopper–Pearson for a binomial count, no row in part."""
    rng = np.random.default_rng(2)
    y, a = rng.integers(2, size=(2, 200))
    deferred = (rng.random(200) < 0.2) & (kind in ("deferred", "answered_error"))
    if kind.startswith("cost"):
        rate = rates.cost([[0, 1], [1, 0.5 * (kind != "cost")]])
    else:
        rate = getattr(rates, kind)(*[1] * ("label" in KINDS[kind].words))
    (bound,) = tb.certify(a, None, y, rates=[rate], deferred=deferred).bounds
    in_part = kind == "cost in steps" or kind == "f_score"
    other = "betting"
    assert bound.method == (other if in_part else "Clopper–Pearson")
    k = round(bound.estimate * bound.n)
    upper = beta.ppf(0.975, k + 1, bound.n - k)
    assert (bound.upper == pytest.approx(upper)) == (not in_part)


def test_precision_is_about_the_rows_answered_so():
    y, a, _ = drawn(400)
    chosen, cert = a == "yes", tb.certify(a, None, y, rates=[rates.precision("yes") >= 0.4])
    k, n = int((y[chosen] == "yes").sum()), int(chosen.sum())
    assert cert.bounds[0].lower == pytest.approx(beta.ppf(0.05, k, n - k + 1))
    assert cert.bounds[0].n == n


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_groups_of_the_fit_count_also_where_another_column_is_new():
    class Fitted(LogisticRegression):  # with its predict: one of its own would answer without the rule
        def __tailboost__(self):
            rule = Decision(groups={"sex": ["f", "m"], "city": ["Rome"]})
            known = (Known(Records()),)
            return Decided(NAMES, rule, (), known, partial(read_answers, self), Identity)

    X = np.random.default_rng(0).normal(size=(200, 1))
    y = NAMES[(X[:, 0] > 0).astype(int)]
    groups = {"sex": np.full(200, "f"), "city": np.full(200, "Oslo")}
    cert = tb.certify(Fitted().fit(X, y), X, y, groups=groups, rates=[rates.gap(SELECTED) <= 0.9])
    assert [(b.subgroup, b.n) for b in cert.bounds] == [("f", 200), ("m", 0), ("gap", 0)]


def test_costs_between_their_least_and_largest():
    y, a, _ = drawn(500)
    matrix = [[0.0, 1.0], [5.0, -1.0]]
    cert = tb.certify(a, None, y, rates=[rates.cost(matrix) <= 3])
    seen = np.array(matrix)[(y == "yes").astype(int), (a == "yes").astype(int)]
    assert cert.bounds[0].estimate == pytest.approx(seen.mean())
    assert seen.mean() < cert.bounds[0].upper < seen.mean() + 0.5
    costs = np.array(matrix)[(y == "yes").astype(int)]
    by_row = tb.certify(a, None, y, rates=[rates.cost() <= 3], costs=costs, cost_range=(-1, 5))
    assert by_row.bounds[0].upper == pytest.approx(cert.bounds[0].upper)
    wider = tb.certify(a, None, y, rates=[rates.cost() <= 3], costs=costs, cost_range=(-10, 50))
    assert wider.bounds[0].upper > by_row.bounds[0].upper
    refused(lambda: tb.certify(a, None, y, rates=[rates.cost()], costs=costs), "cost_range")
    refused(lambda: tb.certify(a, None, y, rates=[rates.cost()], costs=costs, cost_range=(0, 5)), "costs")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    sex = np.where(X[:, 0] + rng.normal(size=900) > 0, "m", "f")
    y = NAMES[(X[:, 1] + 0.5 * X[:, 0] + rng.normal(size=900) > 0).astype(int)]
    model = LogisticRegression().fit(X[:300], y[:300])
    limits = [rates.gap(SELECTED) <= 0.15, rates.miss("yes") <= 0.6]
    mix = tb.tune(model, X[300:600], y[300:600], groups={"sex": sex[300:600]}, limits=limits)
    return mix, X[600:], y[600:], {"sex": sex[600:]}


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_a_models_own_limits_are_certified_by_default(fitted):
    mix, X, y, groups = fitted
    cert = tb.certify(mix, X, y, groups=groups)
    assert [b.target for b in cert.bounds] == [None, None, 0.15, 0.6]
    assert tb.certify(mix, X, y, groups=groups, rates=mix.limits).bounds == cert.bounds
    counted = rates.measure(rates.miss("yes"), y, mix.predict(X))
    assert cert.bounds[-1].estimate == pytest.approx(counted[None])
    assert tb.certify(mix, X, y, rates=()).bounds
    assert tb.certify(mix, X, y, limits=[tb.rates.error(by="class") <= 0.5]).bounds
    chosen_on = np.random.default_rng(0).normal(size=(900, 3))[300:600]
    with pytest.raises(tb.LeakageError):
        tb.certify(mix, chosen_on, y, groups=groups)
    refused(lambda: tb.Monitor(mix, cert).add(X, y, groups=groups), "certificate", tb.LeakageError)


SETTINGS = {"equal": ((0.3, 0.3), 0.5), "small group": ((0.05, 0.2), 0.05), "far apart": ((0.02, 0.98), 0.3)}


def failures(setting, n, times, delta):
    """Count false certificates, and certificates of false limits."""
    p, weight = SETTINGS[setting]
    stated = [
        rates.gap(SELECTED) <= 0.5, rates.ratio(SELECTED) >= 0.5, SELECTED,
        rates.precision("yes", by="sex") >= 0.5, rates.cost([[0, 1], [4, 1]]),
    ]  # fmt: skip
    gap, ratio = abs(p[0] - p[1]), min(p) / max(p)
    false = [rates.gap(SELECTED) <= gap - 1e-9 if gap else min(p) - 1e-9 >= SELECTED]
    among, truth = (1 - weight) * p[0] + weight * p[1], {"f": p[0], "m": p[1], "gap": gap, "ratio": ratio}
    wrong = passed = 0
    for seed in range(times):
        y, a, groups = drawn(n, seed, p, weight)
        answered, fails = Fresh(answered_in_groups(y, a, groups), EACH_VOTES), False
        for bound in joint_bounds(rates.as_statistics(stated), answered, delta):
            true = truth.get(bound.subgroup)
            if bound.rate.kind == "precision":
                true = 0.5
            if bound.rate.kind == "cost":
                true = 0.5 * among + 0.5 * (4 * (1 - among) + among)
            fails |= not bound.lower - 1e-12 <= true <= bound.upper + 1e-12
        wrong += fails
        passed += all_pass(false, answered, delta)
    return wrong / times, passed / times


OFTEN = [pytest.param(n, 500, 0.05, marks=pytest.mark.slow) for n in (40, 400)]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("n", "times", "delta"), [(120, 30, 0.2), *OFTEN])
def test_bounds_fail_at_most_as_often_as_they_say(setting, n, times, delta):
    for share in failures(setting, n, times, delta):
        assert share <= delta + 2 * np.sqrt(delta * (1 - delta) / times)


# Rows with label and answer 0 0, 0 1, 1 0 and 1 1: which count in a rate, and among which.
COUNTED = {
    "error()": ([0, 1, 1, 0], [1, 1, 1, 1]), "selected(1)": ([0, 1, 0, 1], [1, 1, 1, 1]),
    "miss(1)": ([0, 0, 1, 0], [0, 0, 1, 1]), "false_alarm(1)": ([0, 1, 0, 0], [1, 1, 0, 0]),
    "precision(1)": ([0, 0, 0, 1], [0, 1, 0, 1]), "jaccard(1)": ([0, 0, 0, 1], [0, 1, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize(("sides", "is_sharp"), [
    ({"miss(1)": "<=", "false_alarm(1)": "<="}, True),  # a label without rows frees its share
    ({"selected(1)": "<=", "precision(1)": ">="}, False),  # emptiness depends on the answers
    ({"error()": "<=", "jaccard(1)": ">="}, False),
    ({"selected(1)": ">=", "miss(1)": "<="}, False),  # few rows with label 1 are told by all rows
    ({"error()": ">=", "miss(1)": ">="}, False),
])  # fmt: skip
def test_joint_bounds_over_all_tables(sides, is_sharp):
    """In no population is a bound false with more than the level's probability, by enumeration of 8 rows."""
    tables = np.array([np.bincount(d, minlength=4) for d in combinations_with_replacement(range(4), 8)])
    truths = np.concatenate([np.random.default_rng(0).dirichlet([a] * 4, 1500) for a in (0.1, 0.3, 1.0)])
    stated = rates.as_statistics([f"{rate} {side} .5" for rate, side in sides.items()])
    false = np.zeros((len(truths), len(tables)), bool)
    counted, among = np.swapaxes([COUNTED[rate] for rate in sides], 0, 1)
    true = (truths @ counted.T) / np.maximum(truths @ among.T, 1e-300)
    for j, table in enumerate(tables):
        rows = np.repeat([[0, 0, 1, 1], [0, 1, 0, 1]], table, axis=1)  # labels and answers
        fresh = Fresh(Counts.answered(*rows, labels=np.arange(2)), EACH_VOTES)
        for k, bound in enumerate(joint_bounds(stated, fresh, 0.2)):
            false[:, j] |= (true[:, k] < bound.lower - 1e-9) | (true[:, k] > bound.upper + 1e-9)
    largest = (multinomial.pmf(tables, 8, truths[:, None]) * false).sum(axis=1).max()
    assert 0.19 * is_sharp < largest <= 0.2


def test_bounds_narrow_with_rows():
    widths = []
    for n in (100, 1000, 10_000):
        y, a, groups = drawn(n)
        found = tb.certify(a, None, y, groups=groups, rates=[rates.gap(SELECTED) <= 1])
        widths.append(found.bounds[-1].upper)
    assert all(x > y for x, y in pairwise(widths))


@pytest.fixture(scope="module")
def scores():
    """A mixture on a biased score for one group, and a source of fresh rows."""

    def rows(n, seed):
        rng = np.random.default_rng(seed)
        sex, y = rng.integers(2, size=n), rng.integers(2, size=n)
        score = 1.5 * (2 * y - 1) + 0.8 * sex + 1.5 * rng.normal(size=n)
        X = np.column_stack([score, sex + rng.normal(size=n)])
        return X, NAMES[y], {"sex": np.array(["f", "m"])[sex]}

    X, y, _ = rows(400, 10_000)
    model = LogisticRegression().fit(X, y)
    X, y, groups = rows(1500, 10_001)
    limits = [rates.gap(SELECTED) <= 0.12, rates.miss("yes") <= 0.45]
    return tb.tune(model, X, y, groups=groups, limits=limits), rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this model was calibrated")
@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
@pytest.mark.filterwarnings("ignore:the certified rule errs")  # a gap is dear on these rows
def test_calibrate_takes_the_cheapest_choice_whose_limits_are_certified(scores):
    mix, rows = scores
    X, y, groups = rows(3000, 1)
    point = tb.calibrate(mix, X, y, groups=groups)
    assert point.certificate_.certified
    assert [(b.subgroup, b.upper) for b in point.certificate_.bounds] == [("gap", 0.12), (None, 0.45)]
    assert point.limits == mix.limits
    assert tb.calibrate(mix, X, y, groups=groups, limits=list(mix.limits)).certificate_ == point.certificate_
    with pytest.raises(tb.LeakageError):  # calibration rows
        tb.certify(point, X, y, groups=groups)
    with pytest.raises(tb.LeakageError, match="earlier"):
        tb.calibrate(mix, X, y, groups=groups, limits=[rates.error() <= 0.5])
    few = rows(150, 2)
    with pytest.raises(tb.NotCertifiedError, match="certified") as caught:
        tb.calibrate(mix, few[0], few[1], groups=few[2], previous=point)
    again = rows(12000, 3)
    later = tb.calibrate(mix, again[0], again[1], groups=again[2], previous=caught.value)
    assert len(later.certificate_.attempts) == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_calibrated_limits_are_broken_at_most_as_often_as_it_says(scores):
    """Rows are drawn from 10,000 with replacement."""
    mix, rows = scores
    X, y, groups = rows(10_000, 99)
    broken, found, times = 0, 0, 60
    for seed in range(times):
        some = np.random.default_rng(seed).integers(0, len(y), 900)
        fresh = {"sex": groups["sex"][some]}
        try:
            point = tb.calibrate(copy.deepcopy(mix), X[some], y[some], groups=fresh, confidence=0.8)
        except tb.NotCertifiedError:
            continue
        found += 1
        answers = point.predict(X)
        said = rates.measure(SELECTED, y, answers, groups=groups)
        missed = rates.measure(rates.miss("yes"), y, answers)[None]
        broken += abs(said["f"] - said["m"]) > 0.12 or missed > 0.45
    assert found > 10
    assert broken / times <= 0.2 + 2 * np.sqrt(0.2 * 0.8 / times)


WIDTHS = {"f": 0.1, "m": 0.05}


def passing(n, seed):
    """Rows with known P(yes) = p: answered by the likelier label, deferred if p is near a half."""
    rng = np.random.default_rng(seed)
    p, sex = rng.random(n), np.array(["f", "m"])[rng.integers(2, size=n)]
    y, a = NAMES[(rng.random(n) < p).astype(int)], NAMES[(p > 0.5).astype(int)]
    passed = np.abs(p - 0.5) < np.where(sex == "f", WIDTHS["f"], WIDTHS["m"])
    return y, a, {"sex": sex}, passed


def passing_truth():
    """Deferral rate and error among the answered rows, by integration; the classes are symmetric."""
    passed = {g: 2 * c for g, c in WIDTHS.items()}
    wrong = {g: (0.5 - c) ** 2 for g, c in WIDTHS.items()}
    answered = {g: wrong[g] / (1 - passed[g]) for g in WIDTHS}
    mean = sum(passed.values()) / 2, sum(wrong.values()) / sum(1 - share for share in passed.values())
    every = dict.fromkeys([None, "no", "yes"], mean[0]), dict.fromkeys([None, "no", "yes"], mean[1])
    return {"deferred": passed | every[0], "answered_error": answered | every[1]}


def passing_failures(n, times, delta):
    """Count false bounds on answered errors and deferral rates, by subgroup."""
    truth, wrong, kept = passing_truth(), 0, 0
    stated = [made(by=by) for made in (rates.deferred, rates.answered_error) for by in ("class", "sex")]
    false = [
        rates.deferred(by="sex") <= 2 * WIDTHS["f"] - 1e-9,
        rates.answered_error(by="class") <= truth["answered_error"]["yes"] - 1e-9,
    ]
    for seed in range(times):
        y, a, groups, passed = passing(n, seed)
        answered = Fresh(answered_in_groups(y, a, groups, passed), EACH_VOTES)
        wrong += not all(
            b.lower - 1e-12 <= truth[b.rate.kind][b.subgroup] <= b.upper + 1e-12
            for b in joint_bounds(rates.as_statistics(stated), answered, delta)
        )
        kept += all_pass(false, answered, delta)
    return wrong / times, kept / times


def test_the_truth_of_the_rows_passed_on():
    y, a, groups, passed = passing(60_000, 0)
    for kind, subgroups in passing_truth().items():
        for by in (None, "class", "sex"):
            seen = rates.measure(getattr(rates, kind)(by=by), y, a, groups=groups, deferred=passed)
            assert seen == pytest.approx({name: subgroups[name] for name in seen}, abs=8e-3)


@pytest.mark.parametrize(("n", "times", "delta"), [(60, 40, 0.2), (300, 40, 0.2), *OFTEN])
def test_bounds_among_the_answered_fail_at_most_as_often_as_they_say(n, times, delta):
    for share in passing_failures(n, times, delta):
        assert share <= delta + 2 * np.sqrt(delta * (1 - delta) / times)


@pytest.fixture(scope="module")
def queue():
    """A mixture with deferral, and a source of fresh rows."""

    def rows(n, seed):
        rng = np.random.default_rng(seed)
        sex, y = rng.integers(2, size=n), rng.integers(2, size=n)
        score = 1.2 * (2 * y - 1) + (1.0 + 0.5 * sex) * rng.normal(size=n)
        X = np.column_stack([score, 4 * sex + rng.normal(size=n)])
        return X, NAMES[y], {"sex": np.array(["f", "m"])[sex]}

    X, y, _ = rows(400, 20_000)
    model = LogisticRegression().fit(X, y)
    X, y, groups = rows(1500, 20_001)
    limits = [rates.answered_error(by="class") <= 0.15, rates.deferred(by="sex") <= 0.25]
    mix = tb.tune(model, X, y, groups=groups, objective=rates.deferred(), limits=limits)
    return mix, rows


@pytest.mark.filterwarnings("ignore")
def test_a_certificate_of_a_rule_that_passes_rows_on_counts_the_answered(queue):
    mix, rows = queue
    limits = [rates.answered_error(by="class") <= 0.12, rates.deferred(by="sex") <= 0.25]
    mix = mix.reweight(limits=limits)
    X, y, groups = rows(800, 1)
    answers, passed = mix.predict(X), mix.defers(X)
    assert 0 < passed.sum() < 400
    alone = tb.certify(mix, X, y, groups=groups, rates=["answered_error(by=class)", "error()"])
    for bound in alone.bounds:
        counted = rates.measure(bound.rate, y, answers, groups=groups, deferred=passed)
        assert bound.estimate == pytest.approx(counted[bound.subgroup])
    assert [b.n for b in alone.bounds[:2]] == [int((~passed & (y == k)).sum()) for k in NAMES]
    both = tb.certify(mix, X, y, groups=groups)
    assert [str(b.rate) for b in both.bounds] == [
        *2 * ["error among answered rows by class"], *2 * ["share deferred by sex"]
    ]  # fmt: skip
    unlimited = tb.certify(mix.reweight(objective="error", limits=[rates.error() <= 0.9]), X, y)
    assert unlimited.bounds[0].n == 800


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_targets_among_the_answered_within_a_share_passed_on(queue):
    mix, rows = queue
    X, y, groups = rows(20_000, 2)
    point = tb.calibrate(copy.deepcopy(mix), X, y, groups=groups)
    assert point.certificate_.certified
    assert {(b.rate.kind, b.upper) for b in point.certificate_.bounds} == {
        ("answered_error", 0.15), ("deferred", 0.25),
    }  # fmt: skip
    assert answering(point).rule.defers


def test_bounds_on_each_rate_are_exact_for_counts_by_hand():
    """200 rows: 60 of 80 with the label 1 are found, and 15 of 120 others get the answer 1."""
    y, answers = np.repeat([1, 1, 0, 0], [60, 20, 15, 105]), np.repeat([1, 0, 1, 0], [60, 20, 15, 105])
    counts = {
        "error() <= .5": (35, 200), "miss(1) <= .5": (20, 80), "false_alarm(1) <= .5": (15, 120),
        "selected(1) <= .5": (75, 200), "precision(1) >= .5": (15, 75), "recall(1) >= .5": (20, 80),
        "npv(1) >= .5": (20, 125),
    }  # fmt: skip
    given = {"confidence": 1 - 0.01 * len(counts), "deferred": np.zeros(len(y), bool)}
    bounds = tb.certify(answers, None, y, limits=list(counts), **given).bounds
    for bound, (errors, n) in zip(bounds, counts.values(), strict=True):
        upper = beta.ppf(0.99, errors + 1, n - errors)  # each bound has .01
        if bound.sense == "≥":
            assert (bound.estimate, bound.lower) == pytest.approx((1 - errors / n, 1 - upper))
        else:
            assert (bound.estimate, bound.upper) == pytest.approx((errors / n, upper))
        assert bound.n == n


def test_both_sides_of_all_groups_share_the_level_evenly():
    """Two sides of each of three groups have a sixth of .05; of two groups a quarter."""
    selected, sizes = {"a": 10, "b": 30, "c": 55}, {"a": 50, "b": 60, "c": 90}
    for names in ("abc", "ab"):
        answers = np.concatenate([np.arange(sizes[g]) < selected[g] for g in names]).astype(int)
        groups, y = np.repeat(list(names), [sizes[g] for g in names]), np.arange(len(answers)) % 2
        bounds = tb.certify(answers, None, y, groups=groups, rates=["selected(1, by=group)"]).bounds
        level = 0.05 / (2 * len(names))
        for bound, g in zip(bounds, names, strict=True):
            k, n = selected[g], sizes[g]
            exact = beta.ppf(level, k, n - k + 1), beta.ppf(1 - level, k + 1, n - k)
            assert (bound.lower, bound.upper) == pytest.approx(exact)
