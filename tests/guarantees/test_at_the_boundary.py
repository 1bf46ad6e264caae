"""Each procedure of `calibrate`: false certificates at the boundary, and tests and ranks by brute force."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest

import tailboost as tb
from tailboost import rates
from tailboost.classifiers import calibrating
from tailboost.guarantees import deferral, tightened
from tailboost.guarantees.exact_tests import LimitTests
from tailboost.rates import Counts, parse
from tailboost.rates.bounds import pair_p_value

FOUR = [0.4, 0.3, 0.2, 0.1]
MISS = "miss(1, by=g) <= .3"
# Rows, shares of groups, prevalences, separations, values of the score (0: continuous), limits, whether the
# rule reads the group, objective: populations that `tests/validity` does not have.
SETTINGS = {
    "sequence, two limits": (
        1000, [0.6, 0.4], [0.5] * 2, [1.0] * 2, 0, [MISS, "precision(1) >= .6"], False, "false_alarm(1)"),
    "tightened limits": (600, [1.0], [0.4], [0.0], 0, ["f_score(1) >= .5714"], False, "miss(1)"),
}  # fmt: skip
PROCEDURES = {
    "ranks": (1000, FOUR, [0.3] * 4, [1.0] * 4, 0, [MISS], True, "false_alarm(1)"),
    "ranks and a test": (
        1000, [0.6, 0.4], [0.5] * 2, [0.0] * 2, 0, ["miss(1, by=g) <= .4", "false_alarm(1) <= .68"], True,
        "miss(1)"),
    "fixed sequence": (1000, [1.0], [0.4], [0.0], 0, ["precision(1) >= .4"], False, "miss(1)"),
}  # fmt: skip


def draw(rng, n, shares, prevalence, separation, values):
    g = rng.choice(len(shares), n, p=shares)
    y = (rng.random(n) < np.asarray(prevalence)[g]).astype(int)
    s = 1 / (1 + np.exp(-1.5 * (rng.normal(size=n) + np.asarray(separation)[g] * y)))
    return (np.floor(s * values) / values + 0.5 / values if values else s), y, np.array(list("abcd"))[g]


def false_certificates(setting, draws):
    """Return how many certified rules break a limit. Rows are drawn from 20,000 with replacement."""
    n, *population, limits, by_group, objective = setting
    s, y, g = draw(np.random.default_rng(10**6), 20_000, *population)
    X, groups = s[:, None], pd.DataFrame({"g": g})
    false = 0
    for k in range(draws):
        rows = np.random.default_rng([k, n]).integers(0, len(y), n)
        try:
            rule = tb.calibrate(
                tb.Scores(0, 1), X[rows], y[rows], groups=groups.iloc[rows], limits=limits, by_group=by_group,
                objective=objective,
            )  # fmt: skip
        except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
            continue
        answers = rule.predict(X)
        broken = False
        for limit in map(parse, limits):
            found = rates.measure(limit.rate, y, answers, groups=groups)
            values = np.array(list(found.values()))
            pairs = [(limit.value(values), limit.bound)]
            if not limit.compares:
                pairs = zip(values, limit.bounds(list(found)), strict=True)
            broken |= any(limit.keeps(value, bound) is False for value, bound in pairs)
        false += broken
    return false


@pytest.fixture(autouse=True)
def unpriced(monkeypatch):
    monkeypatch.setattr(calibrating, "MOST_PRICED", 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SETTINGS)
def test_certified_limits_are_broken_at_most_as_often_as_it_says(name):
    false = false_certificates(SETTINGS[name], 150)
    assert binomtest(false, 150, 0.05, alternative="greater").pvalue > 1e-3


# -- tests by brute force ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", ["miss(1, by=g) <= .3", "precision(1) >= .6", "gap(selected(1, by=g)) <= .2"]
)
def test_tests_are_those_of_scipy(limit):
    rng = np.random.default_rng(0)
    limit = parse(limit)
    for _ in range(20):
        y, a = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
        g = rng.choice(["f", "m"], 60)
        strata = Counts.answered(y, a, groups={"g": g}).strata
        answered = Counts.answered(y, a, groups={"g": g})
        counts = np.zeros((1, len(strata.y), 3))
        np.add.at(counts[0], (answered.stratum, answered.actions), 1.0)
        test = LimitTests.of(limit, strata)
        wrong, rows = test.counts(counts)
        kept = np.zeros(wrong.shape, dtype=bool)
        if limit.compares:
            pairs = [(int((a[g == k] == 1).sum()), int((g == k).sum())) for k in ("f", "m")]
            expected = all(
                pair_p_value((x[0], z[0]), (x[1], z[1]), gap=0.2) <= 0.05 for x, z in (pairs, pairs[::-1])
            )
        elif limit.rate.is_ratio:
            n = (a == 1).sum()
            expected = binom.cdf(((a == 1) & (y == 0)).sum(), n, 0.4) <= 0.05
        else:
            of_groups = [(y == 1) & (g == k) for k in ("f", "m")]
            expected = all(binom.cdf((a[i] == 0).sum(), i.sum(), 0.3) <= 0.05 for i in of_groups)
        assert test.passes(wrong, rows, kept, 0.05)[0] == expected


@pytest.mark.parametrize("digits", [16, 2])
@pytest.mark.parametrize("label", [0, 1])
def test_a_threshold_at_a_rank_has_the_most_errors_that_pass(label, digits):
    """All rows certify: the objective drives the threshold to the last value within the binomial test."""
    rng = np.random.default_rng(0)
    s = rng.random(1500).round(digits)
    y = (rng.random(1500) < s).astype(int)
    limits, objective = [f"miss({label}) <= .2"], f"selected({label})"
    rule = tb.calibrate(tb.Scores(0, 1), s[:, None], y, limits=limits, objective=objective)
    assert rule.certificate_.n_rows == 1500
    answers = rule.predict(s[:, None])
    nearest = s[answers == label].min() if label else s[answers == label].max()
    k, n = ((y == label) & (answers != label)).sum(), (y == label).sum()
    more = ((y == label) & (s == nearest)).sum()
    assert binom.cdf(k, n, 0.2) <= 0.05 * 0.9 < binom.cdf(k + more, n, 0.2)


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UncertifiedGroupsWarning")
@pytest.mark.parametrize("limited", ["a", "ab", "abcde"])
def test_limits_on_some_of_several_groups_divide_the_whole_level(limited):
    rng = np.random.default_rng(1)
    s, g = rng.random(3000), rng.choice(list("abcde"), 3000)
    y = (rng.random(3000) < s).astype(int)
    groups = pd.DataFrame({"g": g})
    rule = tb.calibrate(
        tb.Scores(0, 1), s[:, None], y, groups=groups, by_group="g", objective="selected(1)",
        limits=[rates.miss(1, by="g") <= dict.fromkeys(limited, 0.2)],
    )  # fmt: skip
    missed = rule.predict(s[:, None], groups=groups) == 0
    for group in limited:
        here = (g == group) & (y == 1)
        k, n = missed[here].sum(), here.sum()
        assert binom.cdf(k, n, 0.2) <= 0.05 * 0.9 / len(limited) < binom.cdf(k + 1, n, 0.2)


@pytest.mark.filterwarnings("ignore")
def test_a_sequence_serves_limits_on_some_groups_alone():
    rng = np.random.default_rng(0)
    s, g = rng.random(3000), rng.choice(list("abc"), 3000)
    y = (rng.random(3000) < s).astype(int)
    rule = tb.calibrate(
        tb.Scores(0, 1), s[:, None], y, groups=pd.DataFrame({"g": g}), by_group="g",
        limits=[rates.precision(1, by="g") >= {"a": 0.6}],
    )  # fmt: skip
    assert [(bound.subgroup, bound.certified) for bound in rule.certificate_.bounds] == [("a", True)]


@pytest.mark.parametrize("by", ["g", "class"])
def test_shares_deferred_beside_ranks_pass_the_exact_test_at_their_part_of_the_level(by):
    """The objective defers as many rows as it may: a fifth of .045 is divided between two limits."""
    p_values = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        s, g = rng.random(3000), rng.choice(["a", "b"], 3000)
        y = (rng.random(3000) < s).astype(int)
        rule = tb.calibrate(
            tb.Scores(0, 1), s[:, None], y, groups=pd.DataFrame({"g": g}), by_group="g",
            limits=["miss(1, by=g) <= .3", f"deferred(by={by}) <= .4"], objective="error()",
        )  # fmt: skip
        bounds = [bound for bound in rule.certificate_.bounds if bound.rate.kind == "deferred"]
        assert len(bounds) == 2
        p_values += [binom.cdf(round(bound.estimate * bound.n), bound.n, 0.4) for bound in bounds]
    assert 0.0045 / 4 < max(p_values) <= 0.0045


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("values", [6, 15])
def test_cells_at_which_a_threshold_stopped_count_as_deferred(values, label, monkeypatch):
    """Beside the count of a walk by hand: each threshold looks at the next cell before it gets an answer."""
    tested, cases = [], []
    own_pass, own_best = LimitTests.passes, deferral.best_of
    monkeypatch.setattr(LimitTests, "passes", lambda *given: tested.append(given) or own_pass(*given))
    monkeypatch.setattr(deferral, "best_of", lambda *given: cases.append(given[0]) or own_best(*given))
    n_met = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        g, y = rng.choice(list("abc"), 900), (rng.random(900) < 0.4).astype(int)
        s = 1 / (1 + np.exp(-(2.2 * y - 1.1 + rng.normal(size=900))))
        X = (np.floor(s * values) / values + 0.5 / values)[:, None]
        limits = [f"miss({label}, by=g) <= 15%", "deferred() <= 25%"]
        tested.clear()
        with suppress(tb.NotCertifiedError):
            tb.calibrate(tb.Scores(0, 1), X, y, groups={"g": g}, by_group="g", limits=limits)
        (case,) = cases
        cases.clear()
        ((_, n_deferred, *_),) = tested
        rules, _ = deferral.chain_of(case.selecting)
        labels = case.fresh.answered.strata.y[case.fresh.answered.stratum]
        by_hand = np.zeros(len(rules))
        for place in range(3):
            here = case.places == place
            rows, wrong = (
                np.bincount(case.cell[here & part], minlength=values)
                for part in (np.ones(len(labels), dtype=bool), labels == label)
            )
            n = wrong.sum()
            allowed = max((k for k in range(n) if binom.cdf(k, n, 0.15) <= 0.045 * 0.8 / 3), default=-1)
            first, last, stopped = 0, case.selecting.end, set()
            for number, (to_first, to_last) in enumerate(rules[:, place].tolist()):
                # Label 0 is answered from below; only wrong answers to the limited label stop a threshold.
                while first < to_first and not (label == 1 and wrong[: first + 1].sum() > allowed):
                    first += 1
                while last > to_last and not (label == 0 and wrong[last - 1 :].sum() > allowed):
                    last -= 1
                if label == 1 and wrong[: first + 1].sum() > allowed:
                    stopped.add(first)
                if label == 0 and wrong[last - 1 :].sum() > allowed:
                    stopped.add(last - 1)
                n_met += first >= last and bool(stopped)  # then all cells of the place are answered
                by_hand[number] += sum(rows[cell] for cell in {*range(first, last), *stopped})
        assert n_deferred[:, 0].tolist() == by_hand.tolist()
    assert n_met > 0


@pytest.mark.parametrize(("kind", "most"), [("precision(1) >=", (0.2, 0.4)), ("error <=", (0.3, 0.45))])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_sequence_ends_at_its_first_failure(n_labels, kind, most, monkeypatch):
    """Of rules on one score, and within tightened limits: binomial tests of all tried rules by hand."""
    tried, failed = [], 0
    own_pass, own_bounds = LimitTests.pass_on, tightened.tested_bounds
    monkeypatch.setattr(LimitTests, "pass_on", lambda *given: tried.append(given[1]) or own_pass(*given))
    monkeypatch.setattr(
        tightened, "tested_bounds", lambda *given: tried.append(given[1]) or own_bounds(*given)
    )
    for seed in range(2):
        rng = np.random.default_rng(seed)
        P = pd.DataFrame(rng.dirichlet(np.ones(n_labels), 700)).add_prefix("p")
        y = np.array([rng.choice(n_labels, p=p) for p in P.to_numpy()])
        scores = tb.Scores("p1", 1) if n_labels == 2 else tb.Scores(list(P), list(range(n_labels)))
        tried.clear()
        bound = most[n_labels - 2]
        limit = f"{kind} {bound if kind.startswith('error') else 1 - bound}"
        with suppress(tb.NotCertifiedError):
            tb.calibrate(scores, P, y, limits=[limit], objective="miss(1)")
        passes = []
        for each in tried:
            answers, labels = each.answered.actions, each.answered.strata.y[each.answered.stratum]
            among = (answers == 1) | kind.startswith("error")
            wrong = (among & (answers != labels)).sum()
            passes.append(not among.any() or binom.cdf(wrong, among.sum(), bound) <= 0.045)
        assert all(passes[:-1])
        failed += not passes[-1]
    assert failed > 0


@pytest.mark.parametrize("method", PROCEDURES)
def test_each_procedure_serves_its_limits(method):
    n, *population, limits, by_group, objective = PROCEDURES[method]
    s, y, g = draw(np.random.default_rng(5), 4 * n, *population)
    s = s * 0.5 + 0.5 * y  # informative
    rule = tb.calibrate(
        tb.Scores(0, 1), s[:, None], y, groups=pd.DataFrame({"g": g}), limits=limits,
        by_group="g" if by_group else False, objective=objective,
    )  # fmt: skip
    assert rule.certificate_.bounds[0].method == method


def test_a_refusal_has_the_failing_limits_with_their_bounds():
    rng = np.random.default_rng(2)
    s, y = rng.random(400), rng.integers(0, 2, 400)
    with pytest.raises(tb.NotCertifiedError, match="not certified") as refused:
        tb.calibrate(tb.Scores(0, 1), s[:, None], y, limits=["miss(1) <= .1", "false_alarm(1) <= .1"])
    certificate = refused.value.certificate
    assert certificate.certified is False
    assert len(refused.value.attempts) == 1
    with pytest.raises(tb.NotCertifiedError, match="at least 38") as too_few:
        tb.calibrate(tb.Scores(0, 1), s[:40, None], y[:40], limits=["miss(1) <= .08"])
    assert (too_few.value.certificate, too_few.value.attempts) == (None, ())


def test_a_refusal_shows_a_rule_near_the_limits_if_there_is_one():
    """Of all thresholds one is farthest from both limits, in deviations of the counted shares."""
    rng = np.random.default_rng(8)
    s = rng.normal(size=1500)
    y = (rng.random(1500) < 1 / (1 + np.exp(-2 * s))).astype(int)
    deviations = [np.sqrt(0.18 * 0.82 / (y == 1).sum()), np.sqrt(0.28 * 0.72 / (y == 0).sum())]
    rates = np.array([[(s[y == 1] < t).mean(), (s[y == 0] >= t).mean()] for t in s])
    rooms = ((np.array([0.18, 0.28]) - rates) / deviations).min(axis=1)
    limits = ["miss(1) <= .18", "false_alarm(1) <= .28"]
    with pytest.raises(tb.NotCertifiedError) as refused:
        tb.calibrate(tb.Scores(0, 1, kind="number"), s[:, None], y, limits=limits)
    shown = np.array([bound.estimate for bound in refused.value.certificate.bounds])
    room = ((np.array([0.18, 0.28]) - shown) / deviations).min()
    assert 0 < rooms.max() / 2 < room
