"""Each procedure of `calibrate`: false certificates at the boundary, and tests and ranks by brute force."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom, binomtest

import tailboost as tb
from tailboost import rates
from tailboost.classifiers import calibrating
from tailboost.guarantees import chain, sequence
from tailboost.guarantees.exact_tests import LimitTests, Places
from tailboost.guarantees.one_score import CountTable
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
            given = {"limits": limits, "by_group": by_group, "objective": objective}
            rule = tb.calibrate(tb.Scores(0, 1), X[rows], y[rows], groups=groups.iloc[rows], **given)
        except (tb.NotCertifiedError, tb.InfeasibleLimitsError):
            continue
        answers, broken = rule.predict(X), False
        for limit in map(parse, limits):
            found = rates.measure(limit.rate, y, answers, groups=groups)
            values = np.array(list(found.values()))
            pairs = [(limit.value(values), limit.bound)]
            if not limit.compares:
                pairs = zip(values, limit.levels(list(found)), strict=True)
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


@pytest.mark.parametrize(
    "limit", ["miss(1, by=g) <= .3", "precision(1) >= .6", "gap(selected(1, by=g)) <= .2"]
)
def test_tests_are_those_of_scipy(limit):
    rng, limit = np.random.default_rng(0), parse(limit)
    for _ in range(20):
        y, a = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
        g = rng.choice(["f", "m"], 60)
        strata = Counts.answered(y, a, groups={"g": g}).strata
        answered, counts = Counts.answered(y, a, groups={"g": g}), np.zeros((1, len(strata.y), 3))
        np.add.at(counts[0], (answered.stratum, answered.actions), 1.0)
        test = LimitTests.of(limit, strata, Places(strata.place(None)))
        counted = test.counted(counts, np.ones((1, 1, 3)))
        if limit.compares:
            pairs = [(int((a[g == k] == 1).sum()), int((g == k).sum())) for k in ("f", "m")]
            p_values = [pair_p_value(*zip(*each, strict=True), gap=0.2) for each in (pairs, pairs[::-1])]
            expected = max(p_values) <= 0.05
        elif limit.rate.is_ratio:
            n = (a == 1).sum()
            expected = binom.cdf(((a == 1) & (y == 0)).sum(), n, 0.4) <= 0.05
        else:
            of_groups = [(y == 1) & (g == k) for k in ("f", "m")]
            expected = all(binom.cdf((a[i] == 0).sum(), i.sum(), 0.3) <= 0.05 for i in of_groups)
        assert test.passes(counted, 0.05)[0] == expected


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
    y, groups = (rng.random(3000) < s).astype(int), pd.DataFrame({"g": g})
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
    given = {"by_group": "g", "limits": [rates.precision(1, by="g") >= {"a": 0.6}]}
    rule = tb.calibrate(tb.Scores(0, 1), s[:, None], y, groups=pd.DataFrame({"g": g}), **given)
    assert [(bound.subgroup, bound.certified) for bound in rule.certificate_.bounds] == [("a", True)]


def deferring(seed, values, limits, watched):
    """Return a case of rules that defer, its chain within ranks, and which rules pass, for each part."""
    certified, stopped = watched(chain, "certified"), watched(chain, "stopped")
    passes, rng = watched(CountTable, "passes"), np.random.default_rng(seed)
    g, y = rng.choice(list("abc"), 1500), (rng.random(1500) < 0.4).astype(int)
    s = 1 / (1 + np.exp(-(2.2 * y - 1.1 + rng.normal(size=1500))))
    X = (np.floor(s * values) / values + 0.5 / values)[:, None]
    with suppress(tb.NotCertifiedError):
        tb.calibrate(tb.Scores(0, 1), X, y, groups={"g": g}, by_group="g", limits=limits)
    # Of two calls for each part the second is for all limits, and takes rules away from the first.
    return certified[0][0][0], stopped[0][1], [of_tests for _, of_tests in passes[::2]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by", ["g", "class"])
@pytest.mark.parametrize("label", [0, 1])
def test_ranks_and_tests_of_deferral_read_different_rows(label, by, watched):
    """Beside a count by hand: ranks at half of .045 for three groups, each test of deferral at half.

    Three groups with limits of their own take steps of their own, and divide the half.
    """
    n_stopped = n_failed = 0
    for seed in range(4):
        limits = [f"miss({label}, by=g) <= 15%", f"deferred(by={by}) <= 45%"]
        case, rules, passes = deferring(seed, 15, limits, watched)
        tests, labels = case.fresh.lots < 0.3, case.fresh.answered.strata.y[case.fresh.answered.stratum]
        freely = chain.chain_of(case.selecting)
        for place in range(3):
            mine = (case.fresh.outputs.groups == place) & (labels == label) & ~tests
            most = max(k for k in range(mine.sum()) if binom.cdf(k, mine.sum(), 0.15) <= 0.0075)
            for (first, last), (to_first, to_last) in zip(rules[:, place], freely[:, place], strict=True):
                wrong = case.bin[mine] < first if label else case.bin[mine] >= last
                assert wrong.sum() <= most
                if label and first < to_first:  # one more cell is too many
                    assert (case.bin[mine] <= first).sum() > most
                    n_stopped += 1
                if not label and last > max(to_last, first):
                    assert (case.bin[mine] >= last - 1).sum() > most
                    n_stopped += 1
        parts = labels if by == "class" else case.fresh.outputs.groups
        numbers = [[0, 1]] if by == "class" else [[0], [1], [2]]
        assert len(passes) == len(numbers) or not passes[-1].any()
        for of_part, these in zip(passes, numbers, strict=False):
            for rule, has_passed in zip(rules, of_part, strict=True):
                low, high = rule[case.fresh.outputs.groups].T
                is_deferred = (low <= case.bin) & (case.bin < high)
                p_values = [
                    binom.cdf(is_deferred[own].sum(), own.sum(), 0.45)
                    for own in (tests & (parts == number) for number in these)
                ]
                everywhere = max(is_deferred[parts == number].mean() for number in these)
                assert has_passed == (max(p_values) <= 0.0225 / len(numbers) and everywhere <= 0.45)
                n_failed += not has_passed
    assert n_stopped > 0 < n_failed


@pytest.mark.filterwarnings("ignore")
def test_groups_with_limits_of_their_own_defer_at_a_step_of_their_own():
    """A group that is easy to answer defers as much as its limit lets it, beside one that is hard."""
    rng, n = np.random.default_rng(0), 12_000
    g, y = rng.choice(list("ab"), n, p=[0.7, 0.3]), (rng.random(n) < 0.4).astype(int)
    s = 1 / (1 + np.exp(-np.where(g == "a", 3.0, 1.2) * (y - 0.5) - rng.normal(size=n)))
    limits = ["miss(1, by=g) <= 20%", "deferred(by=g) <= 30%"]
    rule = tb.calibrate(tb.Scores(0, 1), s[:, None], y, groups={"g": g}, by_group="g", limits=limits)
    deferred = rule.defers(s[:, None], groups={"g": g})
    assert min(deferred[g == "a"].mean(), deferred[g == "b"].mean()) > 0.2


def test_rows_that_test_deferral_are_drawn_whatever_they_hold(watched):
    """The draw has the stated share in each cell and label, and not the rows with small numbers."""
    case, *_ = deferring(0, 4, ["miss(1, by=g) <= 15%", "deferred() <= 45%"], watched)
    tests, draws = case.fresh.lots < 0.3, case.fresh.votes.draws
    small = draws < np.median(draws)
    for part in (small, ~small, case.bin == 0, case.bin == 3, case.fresh.outputs.groups == 0):
        assert 1e-4 < binom.cdf(tests[part].sum(), part.sum(), 0.3) < 1 - 1e-4
    assert not (case.fresh.lots < 0.0).any()


@pytest.mark.parametrize(("kind", "most"), [("precision(1) >=", (0.2, 0.4)), ("error <=", (0.3, 0.45))])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_sequence_ends_at_its_first_failure(n_labels, kind, most, watched):
    """Of rules on one score, and within tightened limits: binomial tests of all tried rules by hand."""
    counted, bounded = watched(LimitTests, "counted_votes"), watched(sequence, "all_pass")
    failed = 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        P = pd.DataFrame(rng.dirichlet(np.ones(n_labels), 700)).add_prefix("p")
        y = np.array([rng.choice(n_labels, p=p) for p in P.to_numpy()])
        scores = tb.Scores("p1", 1) if n_labels == 2 else tb.Scores(list(P), list(range(n_labels)))
        counted.clear(), bounded.clear()
        bound = most[n_labels - 2]
        limit = f"{kind} {bound if kind.startswith('error') else 1 - bound}"
        with suppress(tb.NotCertifiedError):
            rule = tb.calibrate(scores, P, y, limits=[limit], objective="miss(1)")
            (found,) = rule.certificate_.bounds
            n_wrong = round((found.estimate if kind == "error <=" else 1 - found.estimate) * found.n)
            assert binom.cdf(n_wrong, found.n, bound) <= 0.045
        passes = []
        for (_, fresh, *_), _ in [*counted, *bounded]:
            answers, labels = fresh.answered.actions, fresh.answered.strata.y[fresh.answered.stratum]
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
    given = {"limits": limits, "by_group": "g" if by_group else False, "objective": objective}
    rule = tb.calibrate(tb.Scores(0, 1), s[:, None], y, groups=pd.DataFrame({"g": g}), **given)
    assert rule.certificate_.bounds[0].method == method


@pytest.mark.parametrize("share", [None, 0.5])
def test_a_refusal_has_bounds_unless_its_rows_chose_the_rule(share):
    """All rows certify, and place the thresholds; or a half of them selects the rule."""
    rng = np.random.default_rng(2)
    s, y = rng.random(400), rng.integers(0, 2, 400)
    limits = ["miss(1) <= .1", "false_alarm(1) <= .1"]
    with pytest.raises(tb.NotCertifiedError, match="not certified") as refused:
        tb.calibrate(tb.Scores(0, 1), s[:, None], y, limits=limits, selection_share=share)
    assert (refused.value.certificate.certified, len(refused.value.attempts)) == (False, 1)
    for bound in refused.value.certificate.bounds:
        assert (bound.upper == 1.0) == ("chose the rule" in bound.reason) == (share is None)
    assert ("to its bound" in str(refused.value)) == (share is not None)
    with pytest.raises(tb.NotCertifiedError, match="at least 38") as too_few:
        tb.calibrate(tb.Scores(0, 1), s[:40, None], y[:40], limits=["miss(1) <= .08"])
    assert (too_few.value.certificate, too_few.value.attempts) == (None, ())


@pytest.mark.parametrize(("effect", "limit", "words"), [
    (0.0, "selected(1) <= 20%", "same answer"), (0.0, "error() <= 15%", "same answer"),
    (-0.01, "selected(1) >= 1%", "speak against"),
])  # fmt: skip
def test_a_refused_rule_that_misses_no_limit_has_no_certificate(effect, limit, words):
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.1).astype(int)
    s = 0.2 * rng.random(4000) + effect * y
    with pytest.raises(tb.NotCertifiedError, match=words) as refused:
        tb.calibrate(tb.Scores(0, 1, kind="number"), s[:, None], y, limits=[limit])
    assert (refused.value.certificate, len(refused.value.attempts)) == (None, 1)


@pytest.mark.parametrize("limits", [
    ["error(by=g) <= 19.9%"], ["miss(1, by=g) <= 19.9%", "false_alarm(1, by=g) <= 19.9%"],
    ["miss(1, by=g) <= 19.9%", "false_alarm(1) <= 19.9%"],
])  # fmt: skip
def test_the_bounds_of_a_refusal_hold_together(limits):
    """In each class of ten groups a fifth is wrong. Bounds at the whole level err in a fourth of draws."""

    def drawn(seed, share):
        rng = np.random.default_rng(seed)
        answer, g = rng.integers(2, size=6000), rng.integers(10, size=6000)
        y = np.where(rng.random(6000) < share, 1 - answer, answer)
        return {"X": 0.15 + 0.7 * answer[:, None], "y": y, "groups": {"g": g}}

    false = 0
    for seed in range(40):
        rule = tb.tune(tb.Scores(0, 1), **drawn(999, 0.1), limits=limits)
        with pytest.raises(tb.NotCertifiedError) as refused:
            tb.calibrate(rule, **drawn(seed, 0.2))
        false += min(bound.upper for bound in refused.value.certificate.bounds) < 0.2
    assert binomtest(false, 40, 0.05, alternative="greater").pvalue > 0.01


def test_the_bound_of_a_first_refusal_has_a_tenth_of_its_level_as_the_next_attempt():
    rng = np.random.default_rng(0)
    s = rng.random(800)
    y, X = (rng.random(800) < s).astype(int), s[:, None]
    rule = tb.tune(tb.Scores(0, 1), X[:400], y[:400], limits=["error() <= .245"])
    with pytest.raises(tb.NotCertifiedError) as refused:
        tb.calibrate(rule, X[400:], y[400:])
    (bound,) = refused.value.certificate.bounds
    wrong = round(bound.estimate * 400)
    assert bound.upper == pytest.approx(beta.ppf(1 - 0.0045, wrong + 1, 400 - wrong))


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


@pytest.mark.filterwarnings("ignore")
def test_tightened_limits_on_a_ratio_leave_out_rules_without_any_selected_row():
    """Of three labels: equal rates of 0 have a ratio of 1, and no test passes."""
    n_certified = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        g, P = rng.integers(2, size=4000), rng.dirichlet([1.2, 0.9, 0.9], 4000)
        y = (rng.random(4000)[:, None] > P.cumsum(axis=1)).sum(axis=1)
        scores, X, groups = tb.Scores(list("abc"), [0, 1, 2]), pd.DataFrame(P, columns=list("abc")), {"g": g}
        with suppress(tb.NotCertifiedError):
            rule = tb.calibrate(scores, X, y, groups=groups, limits=["ratio(selected(1, by=g)) >= .8"])
            selected = rule.predict(X) == 1
            n_certified += selected[g == 0].mean() > 0.1
    assert n_certified == 3
