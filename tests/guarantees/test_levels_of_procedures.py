"""The level of each test in a procedure of `calibrate`, and the rows that it counts, by hand."""

import copy
from contextlib import suppress

import numpy as np
import pytest
from scipy.stats import binom

import tailboost as tb
from tailboost.classifiers import calibrating
from tailboost.guarantees import chain, sequence
from tailboost.guarantees.exact_tests import LimitTests, Places
from tailboost.rates import Counts, parse

pytestmark = pytest.mark.filterwarnings("ignore")
LEVEL = 0.045  # of a first attempt
SCORES = tb.Scores(0, 1)


@pytest.fixture(autouse=True)
def unpriced(monkeypatch):
    monkeypatch.setattr(calibrating, "MOST_PRICED", 0)


def drawn(seed, n, groups="ab", separation=1.0):
    """Return scores, labels and groups of n rows."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    s = 1 / (1 + np.exp(-separation * (2 * y - 1) - rng.normal(size=n)))
    return s[:, None], y, {"g": rng.choice(list(groups), n)}


def p_values(certificate, kind):
    """Return the probability of so few wrong rows at the limit, for each bound of a kind of rate."""
    bounds = [bound for bound in certificate.bounds if bound.rate.kind == kind]
    return [binom.cdf(round(bound.estimate * bound.n), bound.n, bound.target) for bound in bounds]


@pytest.mark.parametrize(
    ("bounds", "objective", "kind", "level"),
    [((0.2, 0.9), "selected(1)", "miss", 0.8 * LEVEL / 2),  # as few answers as the ranks allow
     ((0.6, 0.3), "miss(1)", "false_alarm", 0.2 * LEVEL)],  # as many as the test allows
)  # fmt: skip
def test_ranks_and_a_test_divide_the_level(bounds, objective, kind, level):
    limits, found = [f"miss(1, by=g) <= {bounds[0]}", f"false_alarm(1) <= {bounds[1]}"], []
    for seed in range(5):
        X, y, groups = drawn(seed, 3000)
        rule = tb.calibrate(SCORES, X, y, groups=groups, by_group="g", limits=limits, objective=objective)
        assert rule.certificate_.bounds[0].method == "ranks and a test"
        found += p_values(rule.certificate_, kind)
    assert 0.6 * level < max(found) <= level


def test_equal_scores_that_leave_no_threshold_within_the_ranks_of_a_gap_certify_nothing():
    X, y, groups = drawn(0, 6000)
    limits = ["gap(selected(1, by=g)) <= .15"]
    tuned = tb.tune(SCORES, X[:3000], y[:3000], groups={"g": groups["g"][:3000]}, by_group="g", limits=limits)
    given = {"groups": {"g": groups["g"][3000:]}, "limits": limits}
    assert tb.calibrate(tuned, X[3000:], y[3000:], **given).certificate_.bounds[-1].method == "ranks"
    other = tb.tune(SCORES, X[:3000], y[:3000], groups={"g": groups["g"][:3000]}, by_group="g", limits=limits)
    with pytest.raises(tb.NotCertifiedError, match="equal scores"):
        tb.calibrate(other, np.where(X[3000:] < 0.5, 0.05, 0.95), y[3000:], **given)


@pytest.mark.parametrize("groups_of_rows", ["ab", "abcde"])
def test_groups_with_a_sequence_and_a_limit_each_divide_the_level(groups_of_rows, watched):
    """Of all rules tried: binomial tests by hand, of each group at half of the level, up to a failure."""
    counted, passed = watched(LimitTests, "counted_votes"), watched(LimitTests, "passes")
    sequences = watched(sequence, "sequence_of")
    limits = {label: f"precision({label}, by=g) >= {{a: {b}, b: {b}}}" for label, b in ((1, 0.5), (0, 0.7))}
    n_between = n_ends = n_without = 0
    for seed in range(12):
        X, y, groups = drawn(seed, 300 * len(groups_of_rows), groups_of_rows, separation=0.6)
        counted.clear(), passed.clear()
        is_certified = False
        with suppress(tb.NotCertifiedError):
            rule = tb.calibrate(SCORES, X, y, groups=groups, by_group="g", limits=[*limits.values()])
            is_certified = True
            for bound in rule.certificate_.bounds:  # of the certified rule itself
                n_wrong = round((1 - bound.estimate) * bound.n)
                assert binom.cdf(n_wrong, bound.n, 1 - bound.target) <= LEVEL / 2
        verdicts = {}  # of each rule of a group
        for ((test, fresh, _), _), (_, (has_passed,)) in zip(counted, passed, strict=True):
            strata, stratum = fresh.answered.strata, fresh.answered.stratum
            (group,) = np.unique(strata.place(0)[test.among[0].any(axis=1)])
            label = test.limit.rate.label
            chosen = (fresh.answered.actions == label) & (strata.place(0)[stratum] == group)
            n_wrong = (strata.y[stratum][chosen] != label).sum()
            p = binom.cdf(n_wrong, chosen.sum(), [0.3, 0.5][label]) if chosen.any() else 0.0
            n_between += LEVEL / 2 < p <= LEVEL
            assert has_passed == (p <= LEVEL / 2)
            verdicts.setdefault(group, {}).setdefault(id(fresh), []).append(has_passed)
        for of_rules in verdicts.values():
            *before, last = [all(each) for each in of_rules.values()]
            assert all(before)
            n_ends += bool(before) and not last
            n_without += not (before or last)
            assert before or last or not is_certified
    assert min(n_between, n_ends, n_without) > 0
    for (table, level), (rules, log_power) in sequences:  # from the likeliest to the one of least loss
        assert table.log_power(rules, level).argmax() == 0
        assert table.log_power(rules[:1], level) == log_power
        assert (np.diff(table.loss(rules)) < 0).all()
        rules = sequence.starts(table)  # a rule that never answers a label keeps the limit on its precision
        answered, possible = table.answered(rules), table.possible(rules)
        for test in table.tests:
            is_kept = test.kept(possible).all(axis=1)
            log_power = test.log_power(test.counted(answered, possible), 1.0, level)
            assert is_kept.any()
            assert (log_power[is_kept] == 0).all()


def test_errors_of_several_thresholds_stop_them_all_at_their_part_of_the_level(watched):
    """Misses of all rows are counted at the thresholds without stops, of each group up to its own stop."""
    certified, stopped = watched(chain, "certified"), watched(chain, "stopped")
    n_stopped_together = 0
    for seed in range(6):
        X, y, groups = drawn(seed, 900, "abc")
        X = np.floor(X * 200) / 200 + 0.5 / 200
        limits = ["miss(1, by=g) <= 30%", "miss(1) <= 9%", "deferred() <= 45%"]
        with suppress(tb.NotCertifiedError):
            tb.calibrate(SCORES, X, y, groups=groups, by_group="g", limits=limits)
        ((case, _), _), (_, rules) = certified[-1], stopped[-1]
        of_ranks = ~(case.fresh.lots < 0.3)
        is_ill = (case.fresh.answered.strata.y[case.fresh.answered.stratum] == 1) & of_ranks

        def allowed(n, share):
            return int((binom.cdf(np.arange(n), n, share) <= 0.5 * LEVEL / 4).sum()) - 1

        freely, places = chain.chain_of(case.selecting)[:, :, 0], case.fresh.outputs.groups
        errors = ((case.bin < freely[:, places]) & is_ill).sum(axis=1)
        n_steps = int((errors <= allowed(is_ill.sum(), 0.09)).sum())
        together = freely[n_steps - 1] if n_steps else np.zeros(3, dtype=int)
        for j in range(3):
            wrong = np.bincount(case.bin[is_ill & (places == j)], minlength=case.selecting.n_bins).cumsum()
            alone = (wrong <= allowed(wrong[-1], 0.3)).sum()
            n_stopped_together += together[j] < min(alone, freely[-1, j])
            assert rules[:, j, 0].tolist() == np.minimum(freely[:, j], min(alone, together[j])).tolist()
    assert n_stopped_together > 0


def test_a_test_on_the_rows_of_any_ranks_is_no_chain():
    X, y, groups = drawn(0, 4000)
    limits = ["false_alarm(1, by=g) <= 35%", "miss(1, by=g) <= 30%", "false_alarm(1) <= 30%"]
    for stated in (limits, limits[1:] + limits[:1]):
        rule = tb.calibrate(SCORES, X, y, groups=groups, by_group="g", limits=stated)
        assert rule.certificate_.bounds[0].method == "fixed sequence"


def test_misses_of_each_group_beside_misses_of_all_groups_keep_their_level():
    """Ranks open the groups in which no ill row happens to have the score 1/2: those rows may not test."""
    n_groups, share = 16, 0.04  # of ill rows with the score 1/2
    limits = ["miss(1, by=g) <= 19%", "miss(1) <= 0.98%"]  # in 4 groups at 1/2: 1 %
    rng, groups = np.random.default_rng(0), {"g": np.arange(n_groups)}

    def rows(n):
        y = np.repeat([0, 1], n * n_groups)
        score = np.where(rng.random(len(y)) < np.where(y, share, 0.5), 0.5, np.where(y, 0.8, 0.2))
        return score[:, None], y, {"g": np.tile(groups["g"], 2 * n)}

    X, y, g = rows(200)
    loose = [limits[0], "miss(1) <= 50%"]
    tuned = tb.tune(SCORES, X, y, groups=g, by_group="g", limits=loose, objective="false_alarm(1)")
    n_false, n_tables = 0, 4
    for _ in range(n_tables):
        X, y, g = rows(30)
        with suppress(tb.NotCertifiedError):
            rule = tb.calibrate(copy.deepcopy(tuned), X, y, groups=g, limits=limits)
            missed = rule.predict(np.full((n_groups, 1), 0.5), groups=groups) == 0
            n_false += share * missed.mean() > 0.0098
    assert binom.sf(n_false - 1, n_tables, LEVEL) > 0.01


def test_groups_with_one_answer_alone_have_no_gap():
    strata = Counts.answered([0, 1, 0, 1], [1, 1, 1, 1], groups={"g": [0, 0, 1, 1]}).strata
    test = LimitTests.of(parse("gap(selected(1, by=g)) <= 1%"), strata, Places(strata.place(0), 2, ("g",)))
    possible = np.array([[[0, 1, 0], [0, 1, 0]], [[1, 0, 0]] * 2, [[1, 0, 0], [0, 1, 0]]], float)
    assert test.kept(possible)[:, 0].tolist() == [True, True, False]
