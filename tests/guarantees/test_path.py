"""The path of a fixed sequence: tightened bounds and predicted powers beside simulated tests."""

import warnings
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom, norm

import tailboost as tb
from tailboost import rates
from tailboost.guarantees import path as path_module
from tailboost.guarantees.path import TighterRules, largest_rate, predicted_power


@pytest.fixture(scope="module")
def scored():
    """A large group, and a group of 30 rows with little room for a tighter precision."""
    rng = np.random.default_rng(3)
    g = np.repeat(["large", "small"], [1000, 30])
    p = rng.beta(1.2, 1.2, len(g))
    y = (rng.random(len(g)) < p).astype(int)
    limits = [rates.precision(1, by="g") >= 0.6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tb.tune(
            lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]), p[:, None], y, groups={"g": g}, limits=limits,
            by_group=True, random_state=0,
        )  # fmt: skip
    return model, limits


def bounds(rule):
    return {line.subgroup: line.bound for line in rule.estimates if line.limit}


def test_the_path_ends_with_the_given_limits_and_few_rows_need_tighter_ones(scored):
    model, limits = scored
    few, many = (
        TighterRules.from_selection(model.selection_, [n] * len(limits), 0.05).from_the_likeliest()
        for n in (100, 100_000)
    )
    assert bounds(few[-1]) == bounds(many[-1]) == {"large": 0.6, "small": 0.6}
    for path in (few, many):
        for stricter, looser in pairwise(path):
            tighter, wider = bounds(stricter), bounds(looser)
            assert all(tighter[g] >= wider[g] for g in ("large", "small"))
        first = bounds(path[0])
        assert first["small"] >= first["large"]


def test_the_first_rule_has_about_the_greatest_predicted_power(scored):
    """A rule without selected rows in a group satisfies every precision there, and has no certificate."""
    model, limits = scored
    rules = TighterRules.from_selection(model.selection_, [2000] * len(limits), 0.05)
    powers = [rules.power(rule) for rule in rules.from_the_likeliest()]
    assert powers[0] >= 0.9 * max(powers)
    assert powers[0] > 0.0


@pytest.mark.parametrize("probit", [-1.0, 0.0, 1.5, 3.0])
@pytest.mark.parametrize(("rows", "most", "ratio"), [(400, 0.2, 2.3), (120, 0.5, 4.0), (3000, 0.03, 1.0)])
def test_at_a_tightened_bound_simulated_tests_pass_with_the_probability(rows, most, ratio, probit):
    """The true rate is spread around the one of the selection rows by their noise."""
    rng = np.random.default_rng(0)
    n = int(ratio * rows)
    found = largest_rate(rows, most, ratio, 0.05, probit)
    rate = np.clip(rng.normal(found, np.sqrt(found * (1 - found) / rows), 40_000), 0.0, 1.0)
    passed = binom.cdf(rng.binomial(n, rate), n, most) <= 0.05
    assert passed.mean() == pytest.approx(norm.cdf(probit), abs=0.025)


def test_where_no_count_passes_the_bound_is_0():
    assert largest_rate(20, 0.1, 1.0, 0.05, 0.0) == 0.0  # of 20 rows not even 0 errors pass
    assert largest_rate(20, 0.1, 10.0, 0.05, 0.0) > 0.0


@pytest.mark.parametrize(("errors", "rows", "ratio"), [(40, 400, 2.3), (8, 60, 4.0), (300, 2000, 1.0)])
def test_a_predicted_power_is_that_of_simulated_tests(errors, rows, ratio):
    """The true rate is drawn from its posterior distribution, then the fresh rows."""
    bound = 0.17
    limit = rates.error() <= bound
    line = SimpleNamespace(value=errors / rows, low=0.0, high=1.0, rows=rows)
    rng, n = np.random.default_rng(0), int(ratio * rows)
    rate = beta(errors + 0.5, rows - errors + 0.5).rvs(20_000, random_state=rng)
    passed = binom.cdf(rng.binomial(n, rate), n, bound) <= 0.05
    assert predicted_power(line, bound, limit, ratio, 0.05) == pytest.approx(passed.mean(), abs=0.05)


def test_a_rate_without_rows_has_no_power():
    limit = rates.precision(1) >= 0.9
    line = SimpleNamespace(value=np.nan, low=np.nan, high=np.nan, rows=0)
    assert predicted_power(line, 0.9, limit, 2.0, 0.05) == 0.0


@pytest.mark.parametrize("texts", [
    ["miss(1, by=g) <= .3", "miss(1, by=g) <= .45"],
    ["miss(1, by=g) <= .45", "miss(1, by=g) <= .3"],
    ["gap(miss(1, by=g)) <= .1", "gap(miss(1, by=g)) <= .25"],
    ["ratio(selected(1, by=g)) >= .5", "ratio(selected(1, by=g)) >= .7"],
])  # fmt: skip
def test_of_two_limits_on_one_rate_the_stricter_makes_the_path(texts, monkeypatch):
    monkeypatch.setattr(path_module, "PATH_PROBITS", np.array([3.5, 1.4, 0.2]))
    rng = np.random.default_rng(5)
    g = rng.choice(["a", "b"], 3000)
    p = rng.beta(1.2, 1.2, len(g))
    y = (rng.random(len(g)) < p).astype(int)
    stricter = next(text for text in texts if text[-2:] in (".3", ".1", ".7"))
    scores = tb.Scores("p", 1)
    paths = []
    for limits in (texts, [stricter]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tb.tune(
                scores,
                pd.DataFrame({"p": p}),
                y,
                groups={"g": g},
                limits=limits,
                objective="error",
                by_group=True,
            )
        paths.append(
            TighterRules.from_selection(model.selection_, [2000] * len(limits), 0.05).from_the_likeliest()
        )
    both, alone = paths
    answers = [[rule.estimates for rule in path] for path in (both, alone)]
    assert len(both) == len(alone)
    for ours, theirs in zip(*answers, strict=True):
        value = {line.subgroup: line.value for line in theirs if line.limit}
        assert all(line.value == value[line.subgroup] for line in ours if line.limit)


@pytest.mark.parametrize("limits", [1, 2])
def test_of_every_pattern_of_verdicts_the_last_rule_of_the_first_passes_is_taken(limits, monkeypatch):
    """A rule passes if all of its limits do; in a failing rule the last limit fails."""
    n = 5
    selections = [SimpleNamespace(problem=SimpleNamespace(limits=[k])) for k in range(n)]
    stated = SimpleNamespace(problem=SimpleNamespace(limits=[]))
    for pattern in product([True, False], repeat=n):
        tested = []

        def verdicts(*_, pattern=pattern, tested=tested):
            tested.append(pattern[len(tested)])
            all_pass = [SimpleNamespace(certified=True, rate=None)] * (limits - 1)
            return [*all_pass, SimpleNamespace(certified=tested[-1], rate=None)]

        monkeypatch.setattr(path_module, "limit_bounds", verdicts)
        path = path_module.Path(stated, SimpleNamespace(by=lambda selection: selection), 0.05)
        path.__dict__["rules"] = selections
        result = path.run()
        n_passed = len("".join("+" if verdict else "-" for verdict in pattern).split("-")[0])
        assert len(tested) == min(n_passed + 1, n)  # nothing is tested behind a failure
        if n_passed:
            assert result.selection is selections[n_passed - 1]
        else:
            assert isinstance(result, path_module.Refused)
            assert result.answered is selections[0]


def test_the_rule_before_the_first_failure_is_taken(monkeypatch):
    """A later passing rule is not certified: the tests stop at the first failure."""
    verdicts = iter([True, True, False, True])
    monkeypatch.setattr(
        path_module, "limit_bounds", lambda *_: [SimpleNamespace(certified=next(verdicts), rate=None)]
    )
    selections = [SimpleNamespace(problem=SimpleNamespace(limits=[k])) for k in range(4)]
    stated = SimpleNamespace(problem=SimpleNamespace(limits=[]))
    path = path_module.Path(stated, SimpleNamespace(by=lambda selection: selection), 0.05)
    path.__dict__["rules"] = selections
    assert path.run().selection is selections[1]


def drawn_scores(n, seed, *, shift=0.8):
    """Scores that are probabilities, groups of which one has higher ones, and labels."""
    rng = np.random.default_rng(seed)
    g = rng.choice(["f", "m"], n)
    p = 1 / (1 + np.exp(-2 * (rng.normal(size=n) + shift * (g == "m"))))
    return pd.DataFrame({"p": p.round(4)}), (rng.random(n) < p).astype(int), pd.DataFrame({"g": g})


OUT_OF_REACH = ["ratio(selected(1, by=g)) >= .9", "false_alarm(1) <= 50%", "miss(1) <= 60%"]


def test_limits_out_of_reach_of_the_selecting_rows_spend_no_attempt():
    """Brute force over all thresholds shows on the whole table that no rule keeps the limits."""
    table, y, g = drawn_scores(8_000, 0)
    is_m = (g["g"] == "m").to_numpy()
    selected = table["p"].to_numpy()[:, None] >= np.unique(table["p"])[::20]
    ratio = selected[~is_m].mean(axis=0) / selected[is_m].mean(axis=0)
    false_alarms = selected[y == 0].mean(axis=0)
    assert not ((ratio >= 0.87) & (false_alarms <= 0.53)).any()

    half = slice(4_000), slice(4_000, None)
    (X, labels, groups), certify = ((table[rows], y[rows], g[rows]) for rows in half)
    rule, unasked = (
        tb.tune(tb.Scores("p", 1), X, labels, groups=groups, limits=["miss(1) <= 60%"]) for _ in range(2)
    )
    X, labels, groups = certify
    with pytest.raises(tb.NotCertifiedError, match="impossible") as refused:
        tb.calibrate(rule, X, labels, groups=groups, limits=OUT_OF_REACH)
    assert refused.value.attempts == rule.ledger_.attempts == ()

    # Other limits on the same rows are the first attempt, with its whole level.
    certified, alone = (
        tb.calibrate(each, X, labels, groups=groups, limits=OUT_OF_REACH[1:2]) for each in (rule, unasked)
    )
    assert len(certified.certificate_.attempts) == 1
    assert str(certified.certificate_) == str(alone.certificate_)


def test_few_right_answers_of_a_group_are_no_precision_kept_by_construction():
    """Even without an error no test of 92 % passes with 35 rows: .92^35 = .054, and a group has about 2."""
    rng = np.random.default_rng(0)
    g = rng.choice(list("abcde"), 6_000, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    z = rng.normal(size=6_000)
    y = (rng.random(6_000) < 1 / (1 + np.exp(2.0 - 2.0 * z))).astype(int)
    noise = np.select([g == "d", g == "e"], [2.2, 1.6], 0.9) * rng.normal(size=6_000)
    score = 1 / (1 + np.exp(2.0 - 2.0 * z - noise))
    limits = ["precision(1, by=g) >= 92%"]
    with pytest.raises(tb.NotCertifiedError, match="attempt") as refused:
        tb.calibrate(tb.Scores("p", 1), pd.DataFrame({"p": score}), y, groups={"g": g}, limits=limits)
    assert refused.value.attempts == ()


def test_a_batch_with_limits_out_of_reach_names_the_rows_that_selected():
    table, y, g = drawn_scores(8_000, 0)
    with pytest.raises(
        tb.NotCertifiedError,
        match="select",
    ):
        tb.calibrate(tb.Scores("p", 1), table, y, groups=g, limits=OUT_OF_REACH)


def test_the_refusal_before_any_test_reads_no_label_of_the_fresh_rows():
    """With other fresh labels in the same numbers, the refusal is the same."""
    table, y, g = drawn_scores(4_000, 0)
    rule = tb.tune(tb.Scores("p", 1), table[:2_000], y[:2_000], groups=g[:2_000], limits=["miss(1) <= 60%"])
    fresh = table[2_000:], g[2_000:]
    messages = set()
    for seed in range(3):
        labels = np.random.default_rng(seed).permutation(y[2_000:])
        with pytest.raises(tb.NotCertifiedError) as refused:
            tb.calibrate(rule, fresh[0], labels, groups=fresh[1], limits=OUT_OF_REACH)
        messages.add(str(refused.value))
    assert len(messages) == 1


def test_numbers_of_rows_in_a_refusal_are_said_to_be_about_the_tested_rule():
    """More rows may select another rule, for which fewer than the named rows do."""
    table, y, g = drawn_scores(400, 1)
    limits = ["miss(1) <= 20%", "false_alarm(1) <= 32%"]
    with pytest.raises(tb.NotCertifiedError, match="fresh") as refused:
        tb.calibrate(tb.Scores("p", 1), table, y, groups=g, limits=limits)
    next(line for line in str(refused.value).splitlines() if line.startswith("Tested: "))
